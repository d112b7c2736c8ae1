"""Conversion of arrays and Python numbers to a dtype, and to and from NumPy arrays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends import complex32, math_bits
from rushlight._backends.reference.layout import copied_as
from rushlight.core import dtypes
from rushlight.core.device import CPU, device
from rushlight.core.dtype_sets import C32, C64, C128, F64, I64, U8

if TYPE_CHECKING:
    from rushlight._backends.protocol.array import Number

KERNELS = "cast device_of from_numpy number shares_memory to_numpy".split()


def cast(a: np.ndarray, to: np.dtype) -> np.ndarray:
    """A copy in another dtype, as PyTorch converts (complex to real drops the imaginary part), dense, in the order of
    dimensions that `a` has."""
    return copied_as(a, converted(a, to))


def converted(a: np.ndarray, to: np.dtype) -> np.ndarray:
    """`cast` with strides of NumPy's choice."""
    if a.dtype is to and to is not C32:
        return a.astype(to)
    if to is C128 and a.dtype is not C32 or to is C64 and a.dtype.itemsize < 8:
        return a.astype(to)  # exact: nothing to be silent about
    with np.errstate(all="ignore"):
        if a.dtype is C32:
            a = complex32.widened(a)
        if to is C32:
            return complex32.fresh(converted(a, C64).astype(C32))
        if a.dtype.kind == "c" and to.kind != "c":
            if to.kind == "b":
                return a.astype(bool)
            a = a.real
        if to.itemsize == 2 and to.kind == "f" and a.dtype.itemsize == 8 and a.dtype.kind == "f":
            # C++ has no conversion from double: 1.00048828125000001 becomes 1, not 1.0009765625.
            a = a.astype(np.float32)
        if to is U8 and a.dtype is F64:
            a = a.astype(I64)  # PyTorch cuts to 64 bits first, NumPy to 32
        if to.kind in "iu" and a.dtype.num >= FROM_ML_DTYPES:
            # As C++ converts a float32; ml_dtypes gives 0 for what does not fit (from 0.7 on).
            a = a.astype(np.float32)
        if to is _SATURATING:  # it has no infinity: what is too large becomes the largest number
            a = np.clip(a.astype(np.float32), -448, 448)
        return a.astype(to)


FROM_ML_DTYPES = 256  # dtypes that do not come from NumPy have numbers from here on
_SATURATING = dtypes.float8_e4m3fn.np


def number(value: Number, to: np.dtype) -> np.ndarray:
    """A Python number as a 0-d array; integers wrap around as in C."""
    if to.kind in "iu" and not -(1 << 63) <= int(value) < (1 << 63):
        if to.kind == "u" and to.itemsize == 8 and 0 <= value < 1 << 64:
            return np.array(value, to)
        raise RuntimeError(f"value cannot be converted to type {to} without overflow: {value}")
    if to.kind in "iu" and to is not I64:
        return np.array(int(value), np.int64).astype(to)
    with np.errstate(all="ignore"):
        return complex32.tensor_array(np.array(value).astype(to))


def device_of(a: np.ndarray) -> device:
    """The device of an array: a `torch.device`."""
    return CPU


def from_numpy(a: np.ndarray) -> np.ndarray:
    """An array of this back end with the values of a NumPy array: that array itself."""
    return a


def to_numpy(a: np.ndarray) -> np.ndarray:
    """The values of an array of this back end as a NumPy array: that array itself."""
    return a if a.__class__ is np.ndarray else math_bits.resolved(a).view(np.ndarray)


def shares_memory(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether the ranges of memory of two arrays overlap."""
    return np.may_share_memory(a, b)
