"""`torch.utils._python_dispatch`: modes that get every call below autograd, and tensors that wrap others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch.handlers import Undispatched, dispatches
from rushlight.dispatch.torch_dispatch import count_dispatch_mode

__all__ = [
    "TorchDispatchMode", "is_in_any_mode_without_ignore_compile_internals", "is_in_torch_dispatch_mode",
    "is_traceable_wrapper_subclass", "is_traceable_wrapper_subclass_type", "return_and_correct_aliasing",
    "transform_subclass",
]  # fmt: skip


class TorchDispatchMode:
    """A block in which `__torch_dispatch__` gets every call of an operator, after autograd has recorded it.

    `func` is an operator as `torch.ops.aten` has it; calling it goes on with the call, without this mode.

    >>> import rushlight as torch
    >>> class Names(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         print(func)
    ...         return func(*args, **(kwargs or {}))
    >>> x = torch.ones(2, requires_grad=True)
    >>> with Names():
    ...     y = x * 2
    aten.mul.Tensor
    """

    def _made_of_number(self, t: Any) -> None:
        """A tensor was made of a Python number, without an operator."""

    def _checks_values(self, v: Any) -> None:
        """It is looked at whether a tensor or array has an element that is not 0, without an operator that says so."""

    def __init__(self, _dispatch_key: Any = None) -> None:
        pass

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise NotImplementedError

    def __enter__(self) -> Any:
        thread.dispatch_modes = (*thread.dispatch_modes, self)
        count_dispatch_mode(+1)
        return self

    def __exit__(self, *error: object) -> Any:
        modes = thread.dispatch_modes
        thread.dispatch_modes = modes[:-1]
        count_dispatch_mode(-1)

    def _handler(self) -> Callable:
        """The method that is asked. RuntimeError for a class method."""
        found = self.__torch_dispatch__
        if getattr(found, "__self__", None) is type(self):
            raise RuntimeError(
                f"Defining your mode's `__torch_dispatch__` as a classmethod is not supported, please make it a plain "
                f"method: {type(self).__name__}"
            )
        return found

    @classmethod
    def push(cls, *args: Any, **kwargs: Any) -> Any:
        """A new mode; a `with` statement enters it."""
        return cls(*args, **kwargs)

    @classmethod
    def is_infra_mode(cls) -> bool:
        """Whether the mode belongs to a tracer."""
        return False


BaseTorchDispatchMode = TorchDispatchMode


def _get_current_dispatch_mode() -> TorchDispatchMode | None:
    """The innermost mode that is on, or None."""
    return thread.dispatch_modes[-1] if thread.dispatch_modes else None


def _get_current_dispatch_mode_stack() -> list:
    """The modes that are on, the innermost last."""
    return [*thread.dispatch_modes]


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    """Whether any mode is on; not counting those of tracers, if told so."""
    return any(include_infra_modes or not m.is_infra_mode() for m in thread.dispatch_modes)


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    """Whether any mode is on."""
    return bool(thread.dispatch_modes)


@contextlib.contextmanager
def _disable_current_modes() -> Iterator[list]:
    """A block without the modes that are on around it; it gives them."""
    before, thread.dispatch_modes = thread.dispatch_modes, ()
    try:
        yield [*before]
    finally:
        thread.dispatch_modes = before


no_dispatch = Undispatched


# -- tensors that wrap others ------------------------------------------------------------------------


def is_traceable_wrapper_subclass(t: object) -> bool:
    """True if a tensor is a subclass made of other tensors (`__tensor_flatten__`)."""
    return is_traceable_wrapper_subclass_type(type(t))


def is_traceable_wrapper_subclass_type(t: type) -> bool:
    """True for a class of tensors made of other tensors (`__tensor_flatten__`)."""
    return (
        isinstance(t, type)
        and issubclass(t, Tensor)
        and hasattr(t, "__tensor_flatten__")
        and hasattr(t, "__tensor_unflatten__")
        and dispatches(t)
    )


def transform_subclass(
    t: Any, callback: Callable, outer_size: Any = None, outer_stride: Any = None
) -> Any:
    """A wrapper like `t` around `callback(name, tensor)` for each tensor that `t` holds."""
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    inner = {name: callback(name, getattr(t, name)) for name in names}
    made = type(t).__tensor_unflatten__(inner, context, outer_size, outer_stride)
    if made.shape != tuple(outer_size):
        raise AssertionError(
            f"Expected return value from {type(t)}__tensor_unflatten__() to have shape equal to {outer_size}, but got: "
            f"{made.shape}"
        )
    return made


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """What a handler returns: the written argument itself for an in-place operator and `out=`, else `out`."""
    name = getattr(func, "_opname", "")
    if (kwargs or {}).get("out") is not None:
        return kwargs["out"]
    return args[0] if name.endswith("_") and not name.endswith("__") else out
