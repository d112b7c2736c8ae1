"""`torch.compiler` and `torch.compile`: functions as programs.

`capture/` interprets the first call of a function, `lowering/` makes machine code of the graphs, program.py joins both,
compiled.py chooses the program of a call, and splits.py has what follows a call that no program holds.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, overload

from rushlight.core.stub import declare, stub

__all__ = [
    "allow_in_graph", "assume_constant_result", "build", "compile", "cudagraph_mark_step_begin", "disable",
    "explain", "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting",
    "keep_numpy", "keep_tensor_guards_unsafe", "list_backends", "reset", "set_default_backend",
    "set_stance", "skip_all_guards_unsafe", "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe", "skip_guard_on_inbuilt_nn_modules_unsafe",
]  # fmt: skip


F = TypeVar("F", bound=Callable[..., Any])


@overload
def compile(
    model: F, *, fullgraph: bool = ..., dynamic: bool | None = ..., backend: str | Callable | None = ...,
    mode: str | None = ..., options: dict[str, Any] | None = ..., name: str | None = ..., disable: bool = ...,
    recompile_limit: int | None = ..., isolate_recompiles: bool = ..., shapes_spec: Any = ...,
) -> F: ...  # fmt: skip


@overload
def compile(
    model: None = ..., *, fullgraph: bool = ..., dynamic: bool | None = ..., backend: str | Callable | None = ...,
    mode: str | None = ..., options: dict[str, Any] | None = ..., name: str | None = ..., disable: bool = ...,
    recompile_limit: int | None = ..., isolate_recompiles: bool = ..., shapes_spec: Any = ...,
) -> Callable[[F], F]: ...  # fmt: skip


def compile(
    model: Callable | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: str | Callable | None = None,
    mode: str | None = None,
    options: dict[str, Any] | None = None,
    name: str | None = None,
    disable: bool = False,
    recompile_limit: int | None = None,
    isolate_recompiles: bool = False,
    shapes_spec: Any = None,
) -> Any:
    """A function or a module whose calls become programs; also usable as a decorator.

    The first call runs as it is written and is captured, together with its backward pass. Later calls for which
    everything that it read holds again run the program; any other call is captured anew, or runs as it is
    written. At a call that cannot be captured, such as one of NumPy, the function is split into programs before and behind
    it. `fullgraph`: raise `torch._dynamo.exc.Unsupported` where a call cannot be captured. `backend="eager"`, or
    `disable`: run as it is written; a function: it is given each graph of operators below autograd (that of a backward
    pass, too) as a `torch.fx.GraphModule`, and tensors without memory that are as its inputs, and returns a function of
    these inputs that gives a tuple. `dynamic=False`: each new size of the arguments is captured at once; else the first two
    are, others when they came often enough, and calls of all other sizes run as they are written. `mode`, `options`, `name`,
    `recompile_limit`, `isolate_recompiles` and `shapes_spec` are accepted and change nothing. RuntimeError for `mode`
    together with `options`.

    >>> import rushlight as torch
    >>> @torch.compile
    ... def double(x):
    ...     return x + x
    >>> double(torch.ones(2)), double(torch.ones(2))
    (tensor([2., 2.]), tensor([2., 2.]))
    """
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time."
        )
    if model is None:
        return functools.partial(
            compile, fullgraph=fullgraph, dynamic=dynamic, backend=backend, mode=mode,
            options=options, disable=disable,
        )  # fmt: skip
    if not callable(model):
        raise AssertionError(f"A callable function is expected, but {type(model)} is provided.")
    backend = _default_backend if backend is None else backend
    check_backend(backend)
    if disable or backend == "eager":
        return model
    from rushlight.compiler.compiled import Compiled
    from rushlight.compiler.optimized_module import OptimizedModule
    from rushlight.nn.module import Module

    own = BACKENDS[backend] if isinstance(backend, str) else backend
    if isinstance(model, Module):
        return OptimizedModule(model, fullgraph, own, dynamic is False)
    if isinstance(model, Compiled):
        return model
    return Compiled(model, fullgraph, own, dynamic is False)


# by name; None: no function of the user's
BACKENDS: dict[str, Callable | None] = {"aot_eager": None, "eager": None, "inductor": None}

declare(
    "no-op",
    "There is one compiler; it has no switches.",
    "torch",
    "compile(mode=) compile(options=) compile(name=) compile(recompile_limit=) compile(isolate_recompiles=) "
    "compile(shapes_spec=)",
)


class InvalidBackend(RuntimeError):
    """There is no back end of that name."""

    def __init__(self, name: Any) -> None:
        super().__init__(
            f"Invalid backend: {name!r}, see `torch._dynamo.list_backends()` for available backends."
        )


def check_backend(backend: Any) -> None:
    """InvalidBackend for what is neither the name of a back end nor a function."""
    if not callable(backend) and (not isinstance(backend, str) or backend not in BACKENDS):
        raise InvalidBackend(backend)


_default_backend: str | Callable = "inductor"


def set_default_backend(backend: str | Callable | None) -> None:
    """What `torch.compile` uses where no `backend` is given; None: "inductor"."""
    global _default_backend
    if backend is not None:
        check_backend(backend)
    _default_backend = "inductor" if backend is None else backend


def get_default_backend() -> str | Callable:
    """What `set_default_backend` stored.

    >>> import rushlight as torch
    >>> torch.compiler.get_default_backend()
    'inductor'
    """
    return _default_backend


def is_compiling() -> bool:
    """True while a function is being captured, seen from inside of it; else False."""
    return False


is_dynamo_compiling = is_exporting = is_compiling


def disable(
    fn: Callable | None = None, recursive: bool = True, *, reason: str | None = None
) -> Any:
    """`fn` as it is written, with all that it calls, in compiled functions too. Also usable as a decorator."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    from rushlight.compiler.compiled import disabled

    return disabled(fn)


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


def build(
    program: Any, path: str, *, name: str | None = None, weights: str | None = None,
    picture: str | None = None,
) -> str:  # fmt: skip
    """Write an exported program as an object file in C's calling convention, and a header beside it; the text of the header.

    The file has one function, of pointers to the inputs and the results, and needs nothing but the C library. `name`:
    that of the function, by default the file's. `weights`: a file for the weights, whose bytes the function then takes
    as one more argument. `picture`: a file for a picture of the memory that it uses. The code is for this machine's
    processor. RuntimeError, which names the operator and the line, for what cannot run without Python, for programs of
    dynamic shapes or that write to their buffers, and without llvmlite.

    >>> import os, tempfile
    >>> import rushlight as torch
    >>> program = torch.export.export(torch.nn.Linear(3, 2), (torch.ones(4, 3),))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     header = build(program, os.path.join(folder, "linear.o"))
    >>> print(header[header.index("int linear(") :].partition(";")[0])
    int linear(
        const float *input_1 /* [4][3] */,
        float *output0 /* [4][2] */)
    """
    from rushlight.compiler.lowering import object_file

    return object_file.build(program, path, name=name, weights=weights, picture=picture)


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


@stub("identity", "Functions of the user's are captured as any other.")
def allow_in_graph(fn: Any) -> Any:
    """Return `fn` unchanged."""
    return fn


assume_constant_result = nested_compile_region = allow_in_graph


def reset() -> None:
    """Forget all programs of compiled functions."""
    from rushlight.compiler import compiled

    compiled.reset()


@stub("no-op", "There are no CUDA graphs.")
def cudagraph_mark_step_begin() -> None:
    """Has no effect: there are no CUDA graphs."""


@stub("no-op", "Nothing is guarded that a call could go without.")
def _all_guards(guard_entries: Any) -> list[bool]:
    """True for each guard: all are kept."""
    return [True for _ in guard_entries]


keep_tensor_guards_unsafe = skip_all_guards_unsafe = skip_guard_on_globals_unsafe = _all_guards
skip_guard_on_all_nn_modules_unsafe = skip_guard_on_inbuilt_nn_modules_unsafe = _all_guards


def list_backends(exclude_tags: Any = ("debug", "experimental")) -> list[str]:
    """The names that `torch.compile(backend=)` takes, without those for finding errors."""
    return sorted(n for n in BACKENDS if not (exclude_tags and n in ("aot_eager", "eager")))


def register_backend(
    compiler_fn: Callable | None = None, name: str | None = None, tags: Any = ()
) -> Any:
    """Give a back end a name, which `torch.compile(backend=)` takes; also usable as a decorator.

    The name is the function's, unless it is given. AssertionError where there is one of that name; `tags` are taken and
    not kept.
    """
    if compiler_fn is None:
        return functools.partial(register_backend, name=name, tags=tags)
    if not callable(compiler_fn):
        raise TypeError(f"a back end is a function, got {type(compiler_fn).__name__}")
    name = name or compiler_fn.__name__
    assert name not in BACKENDS, f"duplicate name: {name}"
    BACKENDS[name] = compiler_fn
    return compiler_fn


class set_stance:
    """What calls of compiled functions do from now on, in a `with` block or in a decorated function, in all threads.

    "default"; "force_eager" (or `force_backend="eager"`): they run as they are written; "eager_on_recompile": those that no program is right for
    run as they are written; "fail_on_recompile": those raise RuntimeError; "eager_then_compile": they run as they are
    written until their sizes come for the second time.

    >>> import rushlight as torch
    >>> double = torch.compile(lambda x: x * 2)
    >>> with torch.compiler.set_stance("fail_on_recompile"):
    ...     double(torch.ones(2))
    Traceback (most recent call last):
        ...
    RuntimeError: Detected recompile when torch.compile stance is 'fail_on_recompile': ...
    """

    def __init__(
        self,
        stance: str = "default",
        *,
        skip_guard_eval_unsafe: bool = False,
        force_backend: Any = None,
    ) -> None:
        from rushlight.compiler import compiled

        if stance not in compiled.STANCES:
            raise RuntimeError(
                f"invalid torch.compile stance {stance!r}; there are {', '.join(compiled.STANCES)}"
            )
        if force_backend is not None:
            check_backend(force_backend)
            if stance != "default":
                raise RuntimeError("force_backend is for the stance 'default' only")
            stance = "force_eager" if force_backend == "eager" else stance
        self.stance, self.before = stance, compiled.stance.name
        compiled.stance.name = stance

    def __enter__(self) -> None:
        from rushlight.compiler import compiled

        compiled.stance.name = self.stance

    def __exit__(self, *exception: object) -> None:
        from rushlight.compiler import compiled

        compiled.stance.name = self.before

    def __call__(self, function: Callable) -> Callable:
        import functools

        self.__exit__()

        @functools.wraps(function)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            with set_stance(self.stance):
                return function(*args, **kwargs)

        return with_stance
