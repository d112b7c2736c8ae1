"""Running sums, products and extremes as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.operands import entries
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import of_copies, row_major
from rushlight._backends.reference import reduce as reference
from rushlight._codegen.kernels import scan as kernels
from rushlight._codegen.kernels import shape_inference
from rushlight._codegen.native_entry import bind
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


def sums(dtype: np.dtype, t: Type, times: bool) -> Any:
    """The native entry for running sums, or products."""
    wide = SUMMED[dtype][1]
    to = i64 if wide is i64 else t
    known = {"TIMES": times, "W": wide, "T": t, "R": to}
    return bind((shape_inference.scanned, {}), [dtype], [to.np], (kernels.running, known))


def extremes(dtype: np.dtype, t: Type, least: bool) -> Any:
    """The native entry for running extremes and their indices."""
    run = kernels.running_extreme, {"LEAST": least, "T": t}
    return bind((shape_inference.scanned, {}), [dtype], [dtype, I64], run)


READ = {dtype: t for dtype, (t, _) in SUMMED.items()}
SUM, PRODUCT = (entries(partial(sums, times=times), READ) for times in (False, True))
LARGEST, SMALLEST = (entries(partial(extremes, least=least), READ) for least in (False, True))


def blocks(a: np.ndarray, axis: int | None) -> tuple[int, int, int] | None:
    """(outer, n, inner) of an array that kernels take, n along the axis; else None."""
    if a.__class__ is not np.ndarray or axis is None or a.size < SMALL or a.dtype not in SUMMED:
        return None
    if not (a.flags.c_contiguous and a.flags.aligned and -a.ndim <= axis < a.ndim):
        return None
    axis %= a.ndim
    return prod(a.shape[:axis]), a.shape[axis], prod(a.shape[axis + 1 :])


@implements("cumulative")
def cumulative(a: np.ndarray, axis: int, ufunc: Any, dtype: np.dtype | None = None) -> np.ndarray:
    """The sums (`ufunc` = add) or products up to each place; floats accumulate in float64."""
    if dtype is None:
        r = (PRODUCT if ufunc.__name__ == "multiply" else SUM)[a.dtype](a, axis)
        if r is not None:
            return r
    found = blocks(a, axis)
    if found is None:
        if a.__class__ is np.ndarray and not a.flags.c_contiguous:
            return cumulative(row_major(a), axis, ufunc, dtype)
        return reference.cumulative(a, axis, ufunc, dtype)
    t, wide = SUMMED[a.dtype]
    result = I64 if wide is i64 else a.dtype
    if dtype is not None and dtype is not result and dtype != result:
        return reference.cumulative(a, axis, ufunc, dtype)
    out = np.empty(a.shape, result)
    run = kernels.running.compiled(
        TIMES=ufunc.__name__ == "multiply", W=wide, T=t, R=i64 if wide is i64 else t
    )
    run(a, out, *found)
    return out


@implements("cumulative_extreme")
def cumulative_extreme(
    a: np.ndarray, axis: int | None, ufunc: Any
) -> tuple[np.ndarray, np.ndarray]:
    """(values, indices) of the maximum (`ufunc`) up to each place; equal ones move the index on."""
    r = (SMALLEST if ufunc.__name__ == "minimum" else LARGEST)[a.dtype](a, axis)
    if r is not None:
        return r
    found = blocks(a, axis)
    if found is None:
        if a.__class__ is np.ndarray and not a.flags.c_contiguous:
            return cumulative_extreme(row_major(a), axis, ufunc)
        return reference.cumulative_extreme(a, axis, ufunc)
    out, indices = np.empty(a.shape, a.dtype), np.empty(a.shape, np.int64)
    run = kernels.running_extreme.compiled(LEAST=ufunc.__name__ == "minimum", T=READ[a.dtype])
    run(a, out, indices, *found)
    return out, indices


def logs(dtype: np.dtype, t: Type) -> Any:
    """The native entry for logarithms of running sums of exponentials."""
    return bind((shape_inference.scanned, {}), [dtype], [dtype], (kernels.running_log, {"T": t}))


LOGS = entries(logs, {dtype: t for dtype, t in READ.items() if t.is_float})
logcumsumexp = implements("logcumsumexp")(of_copies(LOGS)(reference.logcumsumexp))
