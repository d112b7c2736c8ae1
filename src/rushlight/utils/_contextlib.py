"""`torch.utils._contextlib`: context managers that also decorate functions, for classes of other packages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.grad_mode import Switch as _DecoratorContextManager

__all__: list[str] = []


class _NoParamDecoratorContextManager(_DecoratorContextManager):
    """One without parameters: `@mode` decorates as `@mode()` does.

    >>> class Loud(_NoParamDecoratorContextManager):
    ...     def __enter__(self):
    ...         print("in")
    ...     def __exit__(self, *exc):
    ...         print("out")
    >>> @Loud
    ... def f():
    ...     return 3
    >>> f()
    in
    out
    3
    """

    def __new__(cls, orig_func: Callable | None = None) -> Any:
        self = super().__new__(cls)
        return self if orig_func is None else self(orig_func)


class _Factory(_DecoratorContextManager):
    """Decorates with the blocks that a function makes, one for each call."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.clone = make  # type: ignore[method-assign]  # what `__call__` asks for a new block


def context_decorator(ctx: Any, func: Callable) -> Callable:
    """`func` within a block of `ctx`: a context manager, or a function that makes one for each call."""
    if hasattr(ctx, "__enter__"):
        return _Factory(lambda: ctx)(func)
    return _Factory(ctx)(func)
