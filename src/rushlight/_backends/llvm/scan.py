"""Running sums, products and extremes as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import reduce as reference
from rushlight._codegen.kernels import scan as kernels
from rushlight._codegen.kernels.shape_inference import scanned
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight._codegen.types import Type, bf16, f16, f32, f64, i32, i64, u8
from rushlight.core.dtype_sets import BF16, BOOL, F16, F32, F64, I32, I64

SMALL = max(1, threshold(256))  # elements from which a kernel takes less time than NumPy
# what is read, in what it is computed
SUMMED: dict[np.dtype, tuple[Type, Type]] = {
    F32: (f32, f64),
    F64: (f64, f64),
    F16: (f16, f32),
    BF16: (bf16, f32),
    I64: (i64, i64),
    I32: (i32, i64),
    BOOL: (u8, i64),
}


def sums(times: bool) -> ByDtype:
    """Direct calls for running sums, or products."""

    def make(dtype: np.dtype) -> Any:
        if dtype not in SUMMED:
            return unbound
        t, wide = SUMMED[dtype]
        to = i64 if wide is i64 else t
        known = {"TIMES": times, "W": wide, "T": t, "R": to}
        return bind((scanned, {}), [dtype], [to.np], (kernels.running, known))

    return ByDtype(make)


def extremes(least: bool) -> ByDtype:
    """Direct calls for running extremes and their places."""

    def make(dtype: np.dtype) -> Any:
        if dtype not in SUMMED:
            return unbound
        known = {"LEAST": least, "T": SUMMED[dtype][0]}
        return bind((scanned, {}), [dtype], [dtype, I64], (kernels.running_extreme, known))

    return ByDtype(make)


SUM, PRODUCT = sums(False), sums(True)
LARGEST, SMALLEST = extremes(False), extremes(True)


@implements("cumulative")
def cumulative(a: np.ndarray, axis: int, ufunc: Any, dtype: np.dtype | None = None) -> np.ndarray:
    """The sums (`ufunc` = add) or products up to each place; floats accumulate in float64."""
    if dtype is None:
        r = (PRODUCT if ufunc.__name__ == "multiply" else SUM)[a.dtype](a, axis)
        if r is not None:
            return r
    types = SUMMED.get(a.dtype)
    if (
        types is None
        or a.__class__ is not np.ndarray
        or a.size < SMALL
        or not a.flags.c_contiguous
        or not a.flags.aligned
        or not a.ndim
        or not -a.ndim <= axis < a.ndim
    ):
        return reference.cumulative(a, axis, ufunc, dtype)
    t, wide = types
    result = I64 if wide is i64 else a.dtype
    if dtype is not None and dtype is not result and dtype != result:
        return reference.cumulative(a, axis, ufunc, dtype)
    axis %= a.ndim
    shape = a.shape
    out = np.empty(shape, result)
    run = kernels.running.compiled(
        TIMES=ufunc.__name__ == "multiply", W=wide, T=t, R=i64 if wide is i64 else t
    )
    run(a, out, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
    return out


@implements("cumulative_extreme")
def cumulative_extreme(
    a: np.ndarray, axis: int | None, ufunc: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(values, indices) of the maximum (`ufunc`) up to each place; equal ones move the index on."""
    r = (SMALLEST if ufunc.__name__ == "minimum" else LARGEST)[a.dtype](a, axis)
    if r is not None:
        return r
    types = SUMMED.get(a.dtype)
    if (
        types is None
        or axis is None
        or a.__class__ is not np.ndarray
        or a.size < SMALL
        or not a.flags.c_contiguous
        or not a.flags.aligned
        or not a.ndim
        or not -a.ndim <= axis < a.ndim
    ):
        return reference.cumulative_extreme(a, axis, ufunc)
    axis %= a.ndim
    shape = a.shape
    out, places = np.empty(shape, a.dtype), np.empty(shape, np.int64)
    run = kernels.running_extreme.compiled(LEAST=ufunc.__name__ == "minimum", T=types[0])
    run(a, out, places, prod(shape[:axis]), shape[axis], prod(shape[axis + 1 :]))
    return out, places
