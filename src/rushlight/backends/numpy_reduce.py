"""Reductions on NumPy arrays with PyTorch's dtypes, for the reference back end.

`axis` is None (everything), an int or a tuple of ints, in range. Results with dimensions are
contiguous, whatever the order of the input in memory.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes

_f32, _f64, _i64 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int64)
_bool, _u8 = np.dtype(np.bool_), np.dtype(np.uint8)
_f16, _bf16 = np.dtype(np.float16), dtypes.bfloat16.np
_halves = (_f16, _bf16)
_add, _mul = np.add.reduce, np.multiply.reduce
# Where pairwise summation does not reach (a reduction across rows), sums of float32 are made of
# pieces of this many rows, or the error would grow with the number of rows.
PIECE = 512


def widened(a: np.ndarray) -> np.ndarray:
    """`a`, halves as float32."""
    return a.astype(_f32) if a.dtype in _halves else a


def contiguous(r: Any) -> Any:
    """`r` in row-major order: NumPy's reductions keep the order of the input."""
    if r.ndim > 1 and not r.flags.c_contiguous:
        return np.ascontiguousarray(r)
    return r


def exact(a: np.ndarray) -> np.ndarray:
    """`a` in a dtype that NumPy orders and rounds right: bfloat16 becomes float32, no loss."""
    return a.astype(_f32) if a.dtype is _bf16 else a


def total(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The sum. Halves accumulate in float32, integers and bool in int64."""
    d = a.dtype
    if dtype is not None and dtype is not d:
        return _total_as(a, axis, keepdims, dtype)
    if d is _f32:
        if axis.__class__ is int and a.ndim > 1 and a.shape[axis] > 4 * PIECE:
            return _in_pieces(a, axis, keepdims)
    elif d is not _f64 and d.kind != "c":
        return _total_as(a, axis, keepdims, d if d in _halves else dtype or _i64)
    r = _add(a, axis, None, None, keepdims)
    return r if axis is None else contiguous(r)


def _total_as(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype) -> Any:
    if dtype.kind in "iub" and a.dtype.kind in "fcV":
        from rushlight.backends.numpy import cast

        a = cast(a, dtype)
    elif a.dtype.kind == "c" and dtype.kind != "c":
        a = a.real
    if dtype in _halves:
        return contiguous(_add(a, axis, _f32, None, keepdims).astype(dtype))
    return contiguous(_add(a, axis, dtype, None, keepdims))


def _in_pieces(a: np.ndarray, axis: int, keepdims: bool) -> Any:
    """Sum over a long axis: first within pieces of it, then over the pieces."""
    axis %= a.ndim
    n = a.shape[axis] // PIECE * PIECE
    head = a[(slice(None),) * axis + (slice(n),)]
    rest = a[(slice(None),) * axis + (slice(n, None),)]
    parts = head.reshape(*a.shape[:axis], n // PIECE, PIECE, *a.shape[axis + 1 :])
    r = _add(_add(parts, axis + 1), axis, None, None, keepdims)
    return contiguous(r + _add(rest, axis, None, None, keepdims))


def count(a: np.ndarray, axis: Any) -> int:
    """How many elements make one of the result."""
    if axis is None:
        return a.size
    if axis.__class__ is int:
        return a.shape[axis]
    n = 1
    for d in axis:
        n *= a.shape[d]
    return n


def average(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The mean, in `dtype`; halves are divided in float32."""
    if a.dtype in _halves and (dtype is None or dtype in _halves):
        r = _add(a, axis, _f32, None, keepdims) / _f32.type(count(a, axis))
        return contiguous(r.astype(dtype or a.dtype))
    return total(a, axis, keepdims, dtype) / count(a, axis)


def product(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The product. Halves accumulate in float32, integers and bool in int64."""
    d = a.dtype
    if dtype is None:
        dtype = _i64 if d.kind in "iub" else d
    elif dtype.kind in "iub" and d.kind in "fcV" or d.kind == "c" and dtype.kind != "c":
        from rushlight.backends.numpy import cast

        a = cast(a, dtype)
    if dtype in _halves:
        return contiguous(_mul(a, axis, _f32, None, keepdims).astype(dtype))
    return contiguous(_mul(a, axis, dtype, None, keepdims))


def largest(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """The maximum; nan where there is one."""
    d = a.dtype
    r = np.maximum.reduce(exact(a), axis, None, None, keepdims)
    return contiguous(r if d is not _bf16 else r.astype(d))


def smallest(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """The minimum; nan where there is one."""
    d = a.dtype
    r = np.minimum.reduce(exact(a), axis, None, None, keepdims)
    return contiguous(r if d is not _bf16 else r.astype(d))


def argmax(a: np.ndarray, axis: int | None, keepdims: bool = False) -> Any:
    """Where the first maximum (or the first nan) is."""
    return contiguous(exact(a).argmax(axis, keepdims=keepdims))


def argmin(a: np.ndarray, axis: int | None, keepdims: bool = False) -> Any:
    """Where the first minimum (or the first nan) is."""
    return contiguous(exact(a).argmin(axis, keepdims=keepdims))


def variance(a: np.ndarray, axis: Any, keepdims: bool, correction: float) -> tuple[Any, Any]:
    """(variance, mean) in two passes, the squared distances from the mean summed.

    The divisor is the number of elements minus `correction`, at least 0. Halves in float32.
    """
    d = a.dtype
    if d in _halves:
        v, m = variance(a.astype(_f32), axis, keepdims, correction)
        return v.astype(d), m.astype(d)
    n = count(a, axis)
    m = total(a, axis, True) / n if n else total(a, axis, True) * np.nan
    x = a - m
    if d.kind == "c":
        x = x.real * x.real + x.imag * x.imag
    else:
        x *= x
    s = total(x, axis, keepdims)
    left = n - correction
    v = s / (left if left > 0 else 0)
    if not keepdims:
        m = m.reshape(np.shape(v))
    return v, m


def anywhere(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """Whether any element is not zero; nan is not zero. bool, or uint8 for uint8."""
    r = contiguous(np.logical_or.reduce(a, axis, None, None, keepdims))
    return r.astype(_u8) if a.dtype is _u8 else r


def everywhere(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """Whether no element is zero. bool, or uint8 for uint8."""
    r = contiguous(np.logical_and.reduce(a, axis, None, None, keepdims))
    return r.astype(_u8) if a.dtype is _u8 else r


def spread(a: np.ndarray, shape: tuple, kept: tuple | None) -> np.ndarray:
    """`a`, in the shape `kept` that differs from `shape` by sizes 1, repeated over `shape`: no copy."""
    if kept is not None:
        a = a.reshape(kept)
    if not a.flags.c_contiguous:
        return np.broadcast_to(a, shape)
    ndim = a.ndim
    if not ndim:
        return np.ndarray(shape, a.dtype, a, 0, (0,) * len(shape))
    own = a.shape
    strides = tuple(
        [0 if m == 1 and n != 1 else s for m, n, s in zip(own, shape, a.strides, strict=True)]
    )
    return np.ndarray(shape, a.dtype, a, 0, strides)


def sum_to(a: np.ndarray, shape: tuple) -> np.ndarray:
    """The sum over all dimensions in which `a` is larger than `shape`; `a` was broadcast from it."""
    own = a.shape
    lead = len(own) - len(shape)
    if own[lead:] == shape:  # only new dimensions in front, as for a bias
        return total(a, 0 if lead == 1 else tuple(range(lead)), False, a.dtype)
    axes = tuple(range(lead)) + tuple(
        [i for i, n in enumerate(shape, lead) if n == 1 and own[i] != 1]
    )
    return total(a, axes if len(axes) != 1 else axes[0], True, a.dtype).reshape(shape)


def running(a: np.ndarray, axis: int, ufunc: Any, dtype: np.dtype | None = None) -> np.ndarray:
    """The sums (`ufunc` = add) or products up to each place; floats accumulate in float64.

    That is PyTorch's accumulation type on the CPU (float32 for halves).
    """
    d = a.dtype
    if dtype is None:
        dtype = _i64 if d.kind in "iub" else d
    if dtype.kind in "iub" and d.kind in "fcV" or d.kind == "c" and dtype.kind != "c":
        from rushlight.backends.numpy import cast

        a = cast(a, dtype)
    wide = _f64 if dtype is _f32 else _f32 if dtype in _halves else dtype
    if dtype.kind == "c" and dtype.itemsize == 8:
        wide = np.dtype(np.complex128)
    if not a.ndim:
        return a.astype(dtype)
    r = ufunc.accumulate(a, axis, wide)
    return np.ascontiguousarray(r if wide is dtype else r.astype(dtype))
