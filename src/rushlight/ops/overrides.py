"""The override protocol: `__torch_function__` of tensor subclasses and other objects, function modes.

Note [How a subclass is noticed without looking]
    The straight-line functions test one thing about an input: that its array is exactly a NumPy
    array. So a tensor whose class overrides `__torch_function__` holds its memory as a `Tagged`
    array, and lands on the general way, where this module is asked; all other calls pay nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dtypes
from rushlight.autograd.state import thread
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.ops.registry import Op


class Tagged(np.ndarray):
    """The memory of a tensor whose class overrides `__torch_function__`."""


NOTHING = object()


def overriding(x: Any) -> bool:
    """Whether `x` has a `__torch_function__` of its own that is not disabled."""
    cls = type(x)
    if cls is Tensor:
        return False
    own = getattr(cls, "__torch_function__", None)
    return own is not None and own is not disabled and not _same(own, disabled) and not (
        thread.function_disabled and isinstance(x, Tensor)
    )


def _same(a: Any, b: Any) -> bool:
    return getattr(a, "__func__", a) is getattr(b, "__func__", b)


def disabled(cls: type, types: tuple, args: tuple = (), kwargs: dict | None = None) -> Any:
    """Assign it to `__torch_function__` of a subclass whose results are to be plain tensors."""
    raise RuntimeError("disabled")


def dispatch(function: Callable, op: Op, values: list, out: Any) -> Any:
    """Ask modes and overriding arguments; NOTHING when the call is an ordinary one."""
    if not thread.function_modes:
        for v in values:
            cls = v.__class__
            if cls is Tensor or cls is int or cls is float or v is None:
                continue
            if cls is tuple or cls is list:
                if any(overriding(x) for x in v):
                    break
            elif overriding(v):
                break
        else:
            if out is None or out.__class__ is Tensor or not overriding(out):
                return NOTHING
    n = op.n_positional
    args = tuple(values[:n])
    while args and len(args) > 1 and op.defaults.get(op.params[len(args) - 1], NOTHING) is args[-1]:
        args = args[:-1]
    kwargs = {p: v for p, v in zip(op.params[n:], values[n:]) if v is not op.defaults.get(p, NOTHING)}
    if out is not None:
        kwargs["out"] = out
    return call_overrides(function, args, kwargs)


_PLAIN = frozenset({Tensor, int, float, bool, complex, str, type(None), dtypes.dtype})


def overridable(function: Callable) -> Callable:
    """A plain function (no operator) that asks modes and overriding arguments first."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if thread.function_modes:
            got = call_overrides(call, args, kwargs)
            if got is not NOTHING:
                return got
        for a in args:
            if a.__class__ not in _PLAIN and any(overriding(v) for v in arguments(args, kwargs)):
                return call_overrides(call, args, kwargs)
        return function(*args, **kwargs)

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__, call.__module__ = function.__doc__, function.__module__
    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def arguments(args: tuple, kwargs: dict) -> list:
    """All arguments, lists and tuples opened."""
    flat: list = []
    for v in (*args, *kwargs.values()):
        if isinstance(v, (tuple, list)):
            flat += v
        else:
            flat.append(v)
    return flat


def call_overrides(function: Callable, args: tuple, kwargs: dict) -> Any:
    """The modes first, innermost first, then the arguments, subclasses before their bases."""
    owners: list = []
    for v in arguments(args, kwargs):
        if overriding(v) and type(v) not in [type(o) for o in owners]:
            at = next(
                (i for i, o in enumerate(owners) if issubclass(type(v), type(o))), len(owners)
            )
            owners.insert(at, v)
    types = tuple(type(o) for o in owners)
    if thread.function_modes:
        modes = thread.function_modes
        mode, thread.function_modes = modes[-1], modes[:-1]
        try:
            result = mode.__torch_function__(function, types, args, kwargs)
        finally:
            thread.function_modes = modes
        if result is not NotImplemented:
            return result
    if not owners:
        return NOTHING if not thread.function_modes else function(*args, **kwargs)
    for owner in owners:
        result = type(owner).__torch_function__(function, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = getattr(function, "__name__", function)
    raise TypeError(
        f"no implementation found for 'torch.{name}' on types that implement __torch_function__: "
        f"{[t.__name__ for t in types]}"
    )


def default(cls: type, function: Callable, types: tuple, args: tuple, kwargs: dict | None) -> Any:
    """`Tensor.__torch_function__`: run the call itself, give the results the subclass."""
    if not all(issubclass(cls, t) for t in types):
        return NotImplemented
    was, thread.function_disabled = thread.function_disabled, True
    try:
        result = function(*args, **(kwargs or {}))
    finally:
        thread.function_disabled = was
    return converted(result, cls)


def converted(result: Any, cls: type) -> Any:
    if isinstance(result, Tensor):
        return result if cls is Tensor or isinstance(result, cls) else result.as_subclass(cls)
    if isinstance(result, (tuple, list)):
        items = [converted(r, cls) for r in result]
        return type(result)(items)
    return result
