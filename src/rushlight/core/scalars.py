"""Methods of `Tensor` that give a Python number: `bool(t)`, `int(t)`, `float(t)`, `complex(t)`, and `t` as an index."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor


def as_bool(self: Tensor) -> bool:
    """Whether the only element is not zero."""
    a = self._array
    if a.size != 1:
        if a.size == 0:
            raise RuntimeError("Boolean value of Tensor with no values is ambiguous")
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    if self.is_meta:
        raise RuntimeError("Tensor.item() cannot be called on meta tensors")
    if a.__class__ is not np.ndarray and hasattr(a.__class__, "truth"):  # of a function transform
        return bool(a.truth())
    return bool(a.reshape(-1)[0])


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
    return int(real(only_element(self), "int64_t"))


def as_float(self: Tensor) -> float:
    """The only element as a float."""
    a = self._array
    if a.__class__ is np.ndarray and a.size == 1 and (value := a.item()).__class__ is float:
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
