"""`torch.compiler`, and `torch.compile`: programs run as they are written; operators are compiled one by one, by themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core.stub import declare, stub

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "explain", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends", "reset", "set_stance",
]  # fmt: skip


@stub("identity", "There is no graph compiler: it runs as it is written. Warns once.")
def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable = "inductor",
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    disable: bool = False,
) -> Callable:
    """`model` itself, a function or a module: it runs as it is written. Also as a decorator.

    The first call warns of it, unless `disable` is true. All arguments are accepted; RuntimeError for `mode` and `options` at once, as in PyTorch.

    >>> import rushlight as torch
    >>> @torch.compile(mode="max-autotune", disable=True)
    ... def double(x):
    ...     return x + x
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if model is not None and not callable(model):
        raise TypeError(f"compile expects a function or a module, got {type(model).__name__}")
    if not disable:
        warn_of_no_graphs(3)
    return (lambda model: model) if model is None else model


def warn_of_no_graphs(stacklevel: int = 2) -> None:
    """Warn, the first time, that nothing is compiled as a whole."""
    from rushlight.core import settings

    settings.warn_once(
        "torch.compile: Rushlight has no graph compiler. The function or the module runs as it is "
        "written; see docs/stubs.md",
        stacklevel,
    )


def is_compiling() -> bool:
    """False: nothing is being compiled."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


@stub("identity", "There is no graph compiler: code runs as it is written.")
def disable(
    fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """Do not compile this function: it is not. Also as a decorator."""
    return (lambda fn: fn) if fn is None else fn


def explain(fn: Callable, *args: Any, show: str = "ir llvm optimised assembly") -> None:
    """Run `fn(*args)` and print, for each kernel that ran, how it is written and how fast it was.

    For each: what it was compiled for; calls, time, bytes and operations, with their shares of a
    plain copy and of the peak of multiply-adds; and as `show` says its representation (`ir`), LLVM's
    text before and after its passes (`llvm`, `optimised`) and its hottest loop (`assembly`). `fn` runs
    twice, the first time to compile what it needs. Loops that NumPy itself calls (of `add`, `exp`, `sqrt`
    and their like) are not seen.

    >>> import rushlight as torch
    >>> x = torch.randn(256, 1024)
    >>> torch.compiler.explain(lambda: x.softmax(1), show="ir")  # doctest: +ELLIPSIS
    softmax.rows_softmax(LOG=False, T=f32)
      1 call, ... ms, 2.1 MB: ... GB/s, ...% of a copy...
      rows_softmax(x: Ptr[f32], out: Ptr[f32], rows: i64, n: i64) -> None:
        ...
    """
    from rushlight._codegen import explanation

    explanation.explain(fn, *args, show=show)


@stub("identity", "There is no graph compiler: code runs as it is written.")
def allow_in_graph(fn: Any) -> Any:
    """`fn` itself: there is no graph."""
    return fn


assume_constant_result = nested_compile_region = allow_in_graph


declare(
    "no-op", "There is no graph compiler: the module runs as it is written. Warns once.", "torch.nn",
    "Module.compile",
)  # fmt: skip


@stub("no-op", "There is no graph compiler, whose results could be forgotten.")
def reset() -> None:
    """Forget what was compiled: nothing was."""


cudagraph_mark_step_begin = reset


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The compilers behind `compile`: none."""
    return []


@stub("no-op", "There is no graph compiler: code runs as it is written.")
class set_stance:
    """When to compile; accepted, as a call, a block or a decorator."""

    def __init__(self, stance: str = "default", **options: Any) -> None:
        self.stance = stance

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, function: Callable) -> Callable:
        return function
