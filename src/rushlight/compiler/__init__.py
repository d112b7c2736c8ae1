"""`torch.compiler` and `torch.compile`: there is no graph compiler, programs run as they are written."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.stub import Block, declare, stub

__all__ = [
    "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "explain", "is_compiling", "is_dynamo_compiling", "is_exporting", "keep_numpy", "list_backends", "reset",
    "set_stance",
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
    """Return `model`, a function or a module, unchanged. Also usable as a decorator.

    The first call warns, unless `disable` is true. RuntimeError for `mode` together with `options`.

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
    """Warn, the first time only, that there is no graph compiler."""
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
    """Return `fn` unchanged. Also usable as a decorator."""
    return (lambda fn: fn) if fn is None else fn


def explain(fn: Callable, *args: Any, show: str = "ir llvm optimised assembly") -> None:
    """Run `fn(*args)` and print the code and the speed of each kernel that ran.

    For each kernel: what it was compiled for; calls, time, bytes and operations, with their shares of the
    speed of a copy and of the peak of multiply-adds; and as `show` says its representation (`ir`), LLVM's
    text before and after its passes (`llvm`, `optimised`) and its hottest loop (`assembly`). `fn` runs
    twice, the first time to compile. Loops that NumPy calls (`add`, `exp`, `sqrt`...) are not shown.

    >>> import rushlight as torch
    >>> x = torch.randn(256, 1024)
    >>> torch.compiler.explain(lambda: x.softmax(1), show="ir")  # doctest: +ELLIPSIS
    softmax.rows_softmax(LOG=False, T=f32, R=f32)
      1 call, ... ms, 2.1 MB: ... GB/s, ...% of a copy...
      rows_softmax(x: Ptr[f32], out: Ptr[f32], rows: i64, n: i64) -> None:
        ...
    """
    from rushlight._codegen import explanation

    explanation.explain(fn, *args, show=show)


def keep_numpy() -> None:
    """Give NumPy back its own allocator and the threads of its own products; Rushlight's kernels go on.

    When machine code is first used, large arrays of the whole process begin to take their memory from a pool, and
    NumPy's products and factorizations stay on the thread that calls them, since OpenBLAS's waiting threads would
    take cores from Rushlight's. A program that does more with NumPy than with Rushlight may want neither. Called
    before, it keeps them from beginning. Arrays keep the memory that they have.

    >>> import rushlight
    >>> rushlight.compiler.keep_numpy()
    """
    from rushlight._backends import llvm

    llvm.keep_numpy()


@stub("identity", "There is no graph compiler: code runs as it is written.")
def allow_in_graph(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


assume_constant_result = nested_compile_region = allow_in_graph


declare(
    "no-op", "There is no graph compiler: the module runs as it is written. Warns once.", "torch.nn",
    "Module.compile",
)  # fmt: skip


@stub("no-op", "There is no graph compiler, whose results could be forgotten.")
def reset() -> None:
    """Has no effect: nothing is compiled."""


cudagraph_mark_step_begin = reset


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The empty list: there are no graph compilers."""
    return []


@stub("no-op", "There is no graph compiler: code runs as it is written.")
class set_stance(Block):
    """When to compile: a call, a block or a decorator without effect."""

    def __init__(self, stance: str = "default", **options: Any) -> None:
        self.stance = stance

    def __call__(self, function: Callable) -> Callable:
        return function
