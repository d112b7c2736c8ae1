"""Methods of `Tensor` that give Python numbers: `t.item()`, `bool(t)`, `int(t)`, `float(t)`, `complex(t)`, and `t` as an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.autograd.state import active, thread
from rushlight.core.dtype_sets import BF16

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor


def handlers_of(t: Tensor, become: type | None = None) -> Any:
    """The module that hands a call with `t` to a `__torch_dispatch__`, where there is any to ask; else None.

    `become`: RuntimeError where `t` is of a class with a `__torch_dispatch__`, which cannot become another.
    """
    from rushlight.dispatch import handlers

    if become is not None and handlers.dispatches(t.__class__):
        raise RuntimeError(
            f"Creating a new Tensor subclass {become.__name__} but the raw Tensor object is already associated to a "
            f"python object of type {t.__class__.__name__}"
        )
    transformed = hasattr(t._array.__class__, "level")  # it is asked about the tensors inside
    return handlers if not transformed and handlers.asked((t,)) else None


def item(self: Tensor) -> Any:
    """The value of a tensor with one element, as a Python number."""
    a = self._array
    if a.__class__ is not np.ndarray or active.modes:
        if below := handlers_of(self):
            return below.value_of(self)
        if a.size == 1 and self.is_meta:
            raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    if a.size != 1:
        raise RuntimeError(f"a Tensor with {a.size} elements cannot be converted to Scalar")
    v = a.item()
    return v if v.__class__ is float or isinstance(v, int | complex) else float(v)


def tolist(self: Tensor) -> Any:
    """The values as nested Python lists (a number for a 0-d tensor)."""
    a = self._array
    if a.__class__ is not np.ndarray and handlers_of(self):
        raise RuntimeError(
            f".tolist() is not supported for tensor subclasses, got {self.__class__.__name__}"
        )
    if self.is_meta:
        raise NotImplementedError("Cannot copy out of meta tensor; no data!")
    if active.modes and handlers_of(self):  # which sees each value that is read
        return [t.tolist() for t in self.unbind()] if a.ndim else self.item()
    if a.dtype is BF16:
        a = a.astype(np.float32)
    return a.tolist()


def as_bool(self: Tensor) -> bool:
    """Whether the only element is not zero."""
    a = self._array
    if a.__class__ is np.ndarray and a.size == 1 and not active.modes:
        return bool(a)
    if a.size != 1:
        if a.size == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    if a.__class__ is not np.ndarray and hasattr(a.__class__, "truth"):  # of a function transform
        return bool(a.truth())
    return bool(self.item())


def only_element(self: Tensor) -> Any:
    if self._array.size != 1:
        raise ValueError("only one element tensors can be converted to Python scalars")
    return self.item()


def real(v: Any, target: str) -> Any:
    """The real part of a number without imaginary part."""
    if not isinstance(v, complex):
        return v
    if v.imag:
        raise RuntimeError(f"value cannot be converted to type {target} without overflow")
    return v.real


def as_int(self: Tensor) -> int:
    """The only element as an int."""
    a = self._array
    if a.__class__ is np.ndarray and a.size == 1 and not active.modes:
        value = a.item()
        if value.__class__ is int or value.__class__ is float:
            return int(value)
    return int(real(only_element(self), "int64_t"))


def as_float(self: Tensor) -> float:
    """The only element as a float."""
    if self._edge is not None and thread.grad and self.requires_grad:
        from rushlight.core import settings

        settings.warn_once(
            "Converting a tensor with requires_grad=True to a scalar may lead to unexpected behavior.\n"
            "Consider using tensor.detach() first."
        )
    a = self._array
    plain = a.__class__ is np.ndarray and not active.modes
    if plain and a.size == 1 and (value := a.item()).__class__ is float:
        return value
    return float(real(only_element(self), "double"))


def as_complex(self: Tensor) -> complex:
    """The only element as a complex number."""
    return complex(only_element(self))


def as_index(self: Tensor) -> int:
    """The only element, an integer."""
    d = self.dtype
    if self._array.size != 1 or d.is_floating_point or d.is_complex:
        raise TypeError("only integer tensors of a single element can be converted to an index")
    return int(self.item())


for _function in (as_bool, as_int, as_float, as_complex, as_index):
    # `Tensor.__bool__` and the like, as a `__torch_function__` sees them
    _function.__name__ = f"__{_function.__name__.removeprefix('as_')}__"
    _function.__qualname__ = f"Tensor.{_function.__name__}"
