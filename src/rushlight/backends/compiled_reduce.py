"""Reductions as machine code; see `compiled.py` for when they run, `compiler/kernels/reduce.py` for how.

C-contiguous arrays of floating dtypes, over all elements or over dimensions next to each other. All
else is the reference's.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.backends import numpy_reduce as reference
from rushlight.backends.operands import takes
from rushlight.compiler.kernels import reduce as kernels
from rushlight.compiler.types import f64, of

PART = 16384  # elements that one chunk adds up where a row is long
SHORT = 131072  # elements that need not be cut for a second thread
FEW = 32  # chunks with which two threads are busy: below it, long columns are cut


def arranged(a: Any, axis: Any) -> tuple[int, int, int] | None:
    """`a` as [outer, n, inner] with n reduced over; None where kernels cannot take it so."""
    if not takes(a) or not a.flags.carray:
        return None
    if axis is None:
        return 1, a.size, 1
    if not a.ndim:
        return None
    dims = sorted({d % a.ndim for d in (axis if axis.__class__ is tuple else (axis,))})
    if not dims or dims[-1] - dims[0] + 1 != len(dims):
        return None
    return prod(a.shape[: dims[0]]), prod(a.shape[i] for i in dims), prod(a.shape[dims[-1] + 1 :])


def shaped(r: np.ndarray, a: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    """The result in the shape that it has."""
    if axis is None:
        return r.reshape((1,) * a.ndim if keepdims else ())
    dims = {d % a.ndim for d in (axis if axis.__class__ is tuple else (axis,))}
    if keepdims:
        return r.reshape([1 if d in dims else n for d, n in enumerate(a.shape)])
    return r.reshape([n for d, n in enumerate(a.shape) if d not in dims])


def total(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The sum. Halves accumulate in float32."""
    blocks = arranged(a, axis) if dtype is None or dtype is getattr(a, "dtype", None) else None
    if blocks is None:
        return reference.total(a, axis, keepdims, dtype)
    return shaped(sums(a, *blocks).astype(a.dtype, copy=False), a, axis, keepdims)


def sums(a: np.ndarray, outer: int, n: int, inner: int) -> np.ndarray:
    """The sums of [outer, n, inner] over n, in the dtype that they are made in."""
    t = of(a.dtype)
    assert t is not None
    d = t.loaded.np
    if inner == 1:
        if outer > 1 and n <= PART or n <= PART:
            out = np.empty(outer, d)
            kernels.sum_rows.compiled(T=t, R=t.loaded)(a, out, outer, n)
            return out
        parts = -(-n // PART)
        out = np.empty((outer, parts), d)
        kernel = kernels.sum_parts.compiled(T=t, R=t.loaded)
        for i, row in enumerate(a.reshape(outer, n)):
            kernel(row, out[i], n, PART)
        return sums(out, outer, parts, 1)
    tiles = outer * -(-inner // (kernels.COLUMNS * 64 // t.loaded.size))
    part = min(kernels.PART, n)
    if tiles < FEW and outer * n * inner > SHORT:
        part = min(part, max(kernels.PIECE, -(-n * tiles // FEW)))
    parts = -(-n // part)
    out = np.empty((outer, parts, inner), d)
    kernels.sum_columns.compiled(T=t, R=t.loaded)(a, out, outer, n, inner, part)
    return out if parts == 1 else sums(out, outer, parts, inner)


def sum_to(a: np.ndarray, shape: tuple) -> np.ndarray:
    """The sum over all dimensions in which `a` is larger than `shape`; `a` was broadcast from it."""
    if not takes(a) or not a.flags.carray:
        return reference.sum_to(a, shape)
    runs: list[list[int]] = []  # of dimensions next to each other: whether they are summed, size
    lead = a.ndim - len(shape)
    for i, n in enumerate(a.shape):
        if n != 1:
            summed = i < lead or shape[i - lead] == 1
            if runs and runs[-1][0] == summed:
                runs[-1][1] *= n
            else:
                runs.append([summed, n])
    r, inner, outer = a, 1, a.size
    for summed, n in reversed(runs):
        outer //= n
        if summed:
            r = sums(r, outer, n, inner)
        else:
            inner *= n
    if r is a:
        return a.reshape(shape)
    return r.astype(a.dtype, copy=False).reshape(shape)


def average(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The mean, in `dtype`; halves are divided in float32."""
    blocks = arranged(a, axis) if dtype is None or dtype is getattr(a, "dtype", None) else None
    if blocks is None:
        return reference.average(a, axis, keepdims, dtype)
    r = sums(a, *blocks)
    r /= blocks[1]
    return shaped(r.astype(a.dtype, copy=False), a, axis, keepdims)


def variance(a: np.ndarray, axis: Any, keepdims: bool, correction: float) -> tuple[Any, Any]:
    """(variance, mean): the squared distances from the mean summed."""
    blocks = arranged(a, axis)
    if blocks is None or blocks[2] != 1 or blocks[1] <= correction:
        return reference.variance(a, axis, keepdims, correction)
    outer, n, _ = blocks
    t = of(a.dtype)
    assert t is not None
    d = t.loaded.np
    kernel = kernels.moments_of_rows.compiled(T=t, R=t.loaded)
    parts = n // PART if outer < FEW and n % PART == 0 else 1  # equal parts, joined below
    m, s = np.empty((outer, parts), d), np.empty((outer, parts), d)
    kernel(a, m, s, outer * parts, n // parts)
    mean = m.mean(1)
    if parts > 1:
        apart = m - mean[:, None]
        s[:, 0] = s.sum(1) + (apart * apart).sum(1) * d.type(n // parts)
    v = s[:, 0] / d.type(n - correction)
    return tuple(shaped(r.astype(a.dtype, copy=False), a, axis, keepdims) for r in (v, mean))


def extreme(a: np.ndarray, axis: Any, keepdims: bool, small: bool) -> Any:
    blocks = arranged(a, axis)
    if blocks is None:
        return (reference.smallest if small else reference.largest)(a, axis, keepdims)
    outer, n, inner = blocks
    t = of(a.dtype)
    rows = kernels.extreme_rows.compiled(SMALL=small, T=t)
    out = np.empty(outer * inner, a.dtype)
    if inner > 1:
        kernel = kernels.extreme_columns.compiled(SMALL=small, T=t)
        kernel(a, out, outer, n, inner)
    elif outer < FEW and n > PART and n % PART == 0:
        parts = np.empty(outer * (n // PART), a.dtype)
        rows(a, parts, parts.size, PART)
        rows(parts, out, outer, n // PART)
    else:
        rows(a, out, outer, n)
    return shaped(out, a, axis, keepdims)


def largest(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """The maximum; nan where there is one."""
    return extreme(a, axis, keepdims, False)


def smallest(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """The minimum; nan where there is one."""
    return extreme(a, axis, keepdims, True)


def place(a: np.ndarray, axis: Any, keepdims: bool, small: bool) -> Any:
    blocks = arranged(a, axis)
    if blocks is None or blocks[2] != 1 or blocks[0] == 1:
        return (reference.argmin if small else reference.argmax)(a, axis, keepdims)
    outer, n, _ = blocks
    out = np.empty(outer, np.int64)
    kernels.extreme_places.compiled(SMALL=small, T=of(a.dtype))(a, out, outer, n)
    return shaped(out, a, axis, keepdims)


def argmax(a: np.ndarray, axis: Any, keepdims: bool = False) -> Any:
    """Where the first maximum (or the first nan) is."""
    return place(a, axis, keepdims, False)


def argmin(a: np.ndarray, axis: Any, keepdims: bool = False) -> Any:
    """Where the first minimum (or the first nan) is."""
    return place(a, axis, keepdims, True)


def running(a: np.ndarray, axis: int, ufunc: Any, dtype: np.dtype | None = None) -> np.ndarray:
    """The sums up to each place, accumulated in float64 (halves in float32)."""
    same = dtype is None or dtype is getattr(a, "dtype", None)
    blocks = arranged(a, axis) if same and ufunc.__name__ == "add" and a.ndim else None
    if blocks is None:
        return reference.running(a, axis, ufunc, dtype)
    outer, n, inner = blocks
    t = of(a.dtype)
    assert t is not None
    out = np.empty(a.shape, a.dtype)
    wide = t.loaded if t.size == 2 else f64
    if inner == 1:
        kernels.running_rows.compiled(T=t, W=wide)(a, out, outer, n)
    else:
        kernels.running_columns.compiled(T=t, W=wide)(a, out, outer, n, inner)
    return out
