"""Reductions on NumPy arrays with PyTorch's dtypes, for the reference back end.

`axis` is None (everything), an int or a tuple of ints, in range. Results with dimensions are
contiguous, whatever the order of the input in memory.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.reference import selection
from rushlight._backends.reference.layout import as_new
from rushlight.core.dtype_sets import BF16, F32, F64, I64, REDUCED, U8

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight._backends.protocol.array import Axis

KERNELS = (
    "all amax amin any argmax argmin count_nonzero cumulative cumulative_extreme expand_reduced "
    "kthvalue logcumsumexp logsumexp max_with_index mean median median_with_index min_with_index "
    "mode nansum prod segment_ids segment_offsets segment_reduce sum sum_to upcast "
    "variance xor_sum"
).split()

_add: Any = np.add.reduce  # NumPy's stubs have no positional form of these, which is the quick one
_mul: Any = np.multiply.reduce
_max: Any = np.maximum.reduce
_min: Any = np.minimum.reduce
_or: Any = np.logical_or.reduce
_and: Any = np.logical_and.reduce
# Where pairwise summation does not reach (a reduction across rows), sums of float32 are made of
# pieces of this many rows, or the error would grow with the number of rows.
PIECE = 64


def upcast(a: np.ndarray) -> np.ndarray:
    """`a`, halves as float32."""
    return a.astype(F32) if a.dtype in REDUCED else a


def in_order(r: Any) -> Any:
    """`r` in row-major order: NumPy's reductions keep the order of the input."""
    return r if r.ndim < 2 else as_new(r)


def exact(a: np.ndarray) -> np.ndarray:
    """`a` in a dtype that NumPy orders and rounds right: bfloat16 becomes float32, no loss."""
    return a.astype(F32) if a.dtype is BF16 else a


def sum(a: np.ndarray, axis: Axis, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The sum. Halves accumulate in float32, integers and bool in int64."""
    d = a.dtype
    if dtype is not None and dtype is not d:
        return _total_as(a, axis, keepdims, dtype)
    if d is F32 or d is F64:
        if a.size >= 4096:
            return _total_of_many(a, axis, keepdims)
    elif d.kind != "c":
        return _total_as(a, axis, keepdims, d if d in REDUCED else dtype or I64)
    r = _add(a, axis, None, None, keepdims)
    return r if axis is None else in_order(r)


def _total_of_many(a: np.ndarray, axis: Any, keepdims: bool) -> Any:
    """The sum of a large array: over the innermost dimensions as a product with ones.

    That runs at the speed of memory, NumPy's own sum of a row at a fifth of it.
    """
    ndim = a.ndim
    if axis is None:
        inner, outer = 0, ()
    else:
        over = {d % ndim for d in (axis if axis.__class__ is tuple else (axis,))}
        inner = ndim
        while inner - 1 in over:
            inner -= 1
        outer = tuple([d for d in over if d < inner])
    if inner == ndim or not a.flags.c_contiguous:
        if axis.__class__ is int and a.shape[axis] > 4 * PIECE and ndim > 1 and a.dtype is F32:
            return _in_pieces(a, axis, keepdims)
        return in_order(_add(a, axis, None, None, keepdims))
    lead = a.shape[:inner]
    r = _rows(a.reshape(-1, math.prod(a.shape[inner:]))).reshape(lead)
    if outer:
        r = _add(r, outer)
    if keepdims:
        return r.reshape([1 if d >= inner or d in outer else n for d, n in enumerate(a.shape)])
    return r


_ones: dict[Any, Any] = {F32: np.ones(1024, np.float32), F64: np.ones(1024, np.float64)}


def _rows(a: np.ndarray) -> np.ndarray:
    """The sum of each row of a contiguous matrix, in pieces of 1024 for the sake of rounding."""
    n, ones = a.shape[1], _ones[a.dtype]
    if n <= 1024:
        return a @ ones[:n]
    pieces = n >> 10
    whole = pieces << 10
    r = _add(a[:, :whole].reshape(len(a), pieces, 1024) @ ones, 1)
    return r if whole == n else r + a[:, whole:] @ ones[: n - whole]


def _total_as(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype) -> Any:
    if dtype.kind in "iub" and a.dtype.kind in "fcV":
        from rushlight._backends.cpu import cast

        a = cast(a, dtype)
    elif a.dtype.kind == "c" and dtype.kind != "c":
        a = a.real
    if dtype in REDUCED:
        return in_order(_add(a, axis, F32, None, keepdims).astype(dtype))
    return in_order(_add(a, axis, dtype, None, keepdims))


def _in_pieces(a: np.ndarray, axis: int, keepdims: bool) -> Any:
    """Sum over a long axis: first within pieces of it, then over the pieces."""
    axis %= a.ndim
    n = a.shape[axis] // PIECE * PIECE
    head = a[(slice(None),) * axis + (slice(n),)]
    rest = a[(slice(None),) * axis + (slice(n, None),)]
    parts = head.reshape(*a.shape[:axis], n // PIECE, PIECE, *a.shape[axis + 1 :])
    r = sum(_add(parts, axis + 1), axis, keepdims)
    return in_order(r + _add(rest, axis, None, None, keepdims))


def nansum(a: np.ndarray, axis: Axis, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The sum, NaN left out."""
    return sum(without_nan(a), axis, keepdims, dtype)


def count_nonzero(a: np.ndarray, axis: Axis) -> Any:
    """How many elements are not 0; int64."""
    return sum(a != 0, axis, False)


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


def mean(a: np.ndarray, axis: Axis, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The mean, in `dtype`; halves are divided in float32."""
    if a.dtype in REDUCED and (dtype is None or dtype in REDUCED):
        r = mean(a.astype(F32), axis, keepdims)
        return in_order(r.astype(dtype or a.dtype))
    r, n = sum(a, axis, keepdims, dtype), count(a, axis)
    return r / n if n else r * np.nan


def prod(a: np.ndarray, axis: Axis, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The product. Halves accumulate in float32, integers and bool in int64."""
    d = a.dtype
    if dtype is None:
        dtype = I64 if d.kind in "iub" else d
    elif (dtype.kind in "iub" and d.kind in "fcV") or (d.kind == "c" and dtype.kind != "c"):
        from rushlight._backends.cpu import cast

        a = cast(a, dtype)
    if dtype in REDUCED:
        return in_order(_mul(a, axis, F32, None, keepdims).astype(dtype))
    return in_order(_mul(a, axis, dtype, None, keepdims))


def amax(a: np.ndarray, axis: Axis, keepdims: bool) -> Any:
    """The maximum; nan where there is one."""
    if a.dtype is BF16:
        return in_order(_max(exact(a), axis, None, None, keepdims).astype(BF16))
    r = _max(a, axis, None, None, keepdims)
    return r if axis is None else in_order(r)


def amin(a: np.ndarray, axis: Axis, keepdims: bool) -> Any:
    """The minimum; nan where there is one."""
    if a.dtype is BF16:
        return in_order(_min(exact(a), axis, None, None, keepdims).astype(BF16))
    r = _min(a, axis, None, None, keepdims)
    return r if axis is None else in_order(r)


def argmax(a: np.ndarray, axis: Axis, keepdims: bool = False) -> Any:
    """Where the first maximum (or the first nan) is."""
    return in_order(exact(a).argmax(axis, keepdims=keepdims))


def argmin(a: np.ndarray, axis: Axis, keepdims: bool = False) -> Any:
    """Where the first minimum (or the first nan) is."""
    return in_order(exact(a).argmin(axis, keepdims=keepdims))


def max_with_index(a: np.ndarray, axis: Axis, keepdims: bool) -> tuple[Any, Any]:
    """(the maximum, where the first is)."""
    return amax(a, axis, keepdims), argmax(a, axis, keepdims)


def min_with_index(a: np.ndarray, axis: Axis, keepdims: bool) -> tuple[Any, Any]:
    """(the minimum, where the first is)."""
    return amin(a, axis, keepdims), argmin(a, axis, keepdims)


def variance(a: np.ndarray, axis: Axis, keepdims: bool, correction: float) -> tuple[Any, Any]:
    """(variance, mean) in two passes, the squared distances from the mean summed.

    The divisor is the number of elements minus `correction`, at least 0. Halves in float32.
    """
    d = a.dtype
    if d in REDUCED:
        v, m = variance(a.astype(F32), axis, keepdims, correction)
        return v.astype(d), m.astype(d)
    if d.kind == "c":
        (v, m), (w, o) = (variance(p, axis, keepdims, correction) for p in (a.real, a.imag))
        return v + w, m + d.type(1j) * o
    n = count(a, axis)
    m = sum(a, axis, True) / n if n else sum(a, axis, True) * np.nan
    x = a - m
    rest = sum(x, axis, keepdims)  # 0, but for the rounding of the mean
    x *= x
    s = sum(x, axis, keepdims)
    if n:
        exact = s - rest * rest / n  # Chan, Golub and LeVeque 1983: the corrected two-pass way
        s = np.where(exact >= 0, exact, s)  # infinity less infinity
    left = n - correction
    if left > 0:
        v = s / left
    else:  # 0 / 0, or infinite
        with np.errstate(all="ignore"):
            v = s / d.type(0)
    if not keepdims:
        m = m.reshape(np.shape(v))
    return v, m


def any(a: np.ndarray, axis: Axis, keepdims: bool) -> Any:
    """Whether any element is not zero; nan is not zero. bool, or uint8 for uint8."""
    r = in_order(_or(a, axis, None, None, keepdims))
    return r.astype(U8) if a.dtype is U8 else r


def all(a: np.ndarray, axis: Axis, keepdims: bool) -> Any:
    """Whether no element is zero. bool, or uint8 for uint8."""
    r = in_order(_and(a, axis, None, None, keepdims))
    return r.astype(U8) if a.dtype is U8 else r


def xor_sum(a: np.ndarray, axis: Axis, keepdims: bool) -> Any:
    """The exclusive or of the elements as 64 bits each."""
    bits = a.astype(I64 if a.dtype.kind in "iub" else F64, copy=False).view(np.uint64)
    return in_order(np.bitwise_xor.reduce(bits, axis, keepdims=keepdims))


def expand_reduced(a: np.ndarray, shape: tuple, kept: tuple | None) -> np.ndarray:
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
        return sum(a, 0 if lead == 1 else tuple(range(lead)), False)
    axes = tuple(range(lead)) + tuple(
        [i for i, n in enumerate(shape, lead) if n == 1 and own[i] != 1]
    )
    return sum(a, axes if len(axes) != 1 else axes[0], True).reshape(shape)


def cumulative(
    a: np.ndarray, axis: int, ufunc: Callable, dtype: np.dtype | None = None
) -> np.ndarray:
    """The sums (`ufunc` = add) or products up to each position; floats accumulate in float64.

    That is PyTorch's accumulation type on the CPU (float32 for halves).
    """
    d = a.dtype
    if dtype is None:
        dtype = I64 if d.kind in "iub" else d
    if (dtype.kind in "iub" and d.kind in "fcV") or (d.kind == "c" and dtype.kind != "c"):
        from rushlight._backends.cpu import cast

        a = cast(a, dtype)
    wide = F64 if dtype is F32 else F32 if dtype in REDUCED else dtype
    if dtype.kind == "c" and dtype.itemsize == 8:
        wide = np.dtype(np.complex128)
    if not a.ndim:
        return a.astype(dtype)
    r = ufunc.accumulate(a if a.dtype is wide else a.astype(wide), axis, wide)
    return np.ascontiguousarray(r if wide is dtype else r.astype(dtype))


def without_nan(a: np.ndarray) -> np.ndarray:
    """`a` with 0 in place of nan."""
    return a if a.dtype.kind in "iub" else np.where(np.isnan(a), a.dtype.type(0), a)


def logsumexp(a: np.ndarray, axis: Axis, keepdims: bool) -> Any:
    """log(sum(exp(a))), the maximum (of the real parts) taken out first."""
    d = a.dtype
    if not a.size:
        return np.log(sum(upcast(a), axis, keepdims)).astype(d)
    a = upcast(a)
    m = _max(a.real, axis, None, None, True)
    m = np.where(np.isinf(m), m.dtype.type(0), m)
    r = np.log(sum(np.exp(a - m), axis, keepdims)) + (m if keepdims else m.reshape(_less(a, axis)))
    return r.astype(d)


def _less(a: np.ndarray, axis: Any) -> tuple:
    """The shape without the axes reduced over."""
    if axis is None:
        return ()
    gone = {d % a.ndim for d in (axis if axis.__class__ is tuple else (axis,))}
    return tuple(n for d, n in enumerate(a.shape) if d not in gone)


# -- order statistics ------------------------------------------------------------------------------


def pick(
    a: np.ndarray, axis: int | None, keepdims: bool, index: np.ndarray | None
) -> tuple[Any, Any]:
    """(values, indices) for `index`, which has size 1 along `axis` (None: `a` is 0-d). Without `index` it is 0."""
    if axis is None:
        return a.copy(), np.zeros((), np.int64)
    if index is None:
        index = np.zeros(reduced_shape(a, axis), np.int64)
    values = np.take_along_axis(a, index, axis)
    if not keepdims:
        values, index = values.squeeze(axis), index.squeeze(axis)
    return in_order(values), in_order(index.astype(np.int64, copy=False))


def kthvalue(a: np.ndarray, axis: int | None, keepdims: bool, k: int) -> tuple[Any, Any]:
    """(the k-th smallest, counted from 0, and where it is); nan is largest."""
    if axis is None or not a.size:
        return pick(a, axis, keepdims, None)
    x = np.moveaxis(exact(a), axis, -1)
    index = np.argsort(x, -1, kind="stable")[..., k : k + 1].copy()
    choice = selection.same(x, np.take_along_axis(x, index, -1)).sum(-1) > 1
    if choice.any():
        ranks, _ = selection.ranked(x[choice])
        index[choice] = [[selection.number(row, k)] for row in ranks]
    return pick(a, axis, keepdims, np.moveaxis(index, -1, axis))


def median_with_index(
    a: np.ndarray, axis: int | None, keepdims: bool, skip_nan: bool
) -> tuple[Any, Any]:
    """(the lower median, where the first is): the first nan if there is one, or of the others (`skip_nan`)."""
    if axis is None or not a.size:
        return pick(a, axis, keepdims, None)
    n, x = a.shape[axis], exact(a)
    numbers = n if a.dtype.kind in "iub" else n - np.isnan(x).sum(axis, keepdims=True)
    k = np.broadcast_to(np.maximum(numbers - 1, 0) // 2, reduced_shape(a, axis))
    if not skip_nan:
        k = np.where(np.equal(numbers, n), k, numbers)
    index = np.take_along_axis(np.argsort(x, axis, kind="stable"), k, axis)
    return pick(a, axis, keepdims, index)


def reduced_shape(a: np.ndarray, axis: int) -> tuple:
    """The shape with size 1 along `axis`."""
    return a.shape[: axis % a.ndim] + (1,) + a.shape[axis % a.ndim + 1 :]


def median(a: np.ndarray, skip_nan: bool) -> Any:
    """The lower median of all elements; nan of nothing."""
    if not a.size:
        return np.full((), np.nan).astype(a.dtype)
    x = exact(a).reshape(-1)
    numbers = x.size if x.dtype.kind in "iub" else x.size - int(np.isnan(x).sum())
    if numbers < x.size and not skip_nan or not numbers:
        return np.full((), np.nan).astype(a.dtype)
    k = (numbers - 1) // 2
    return np.partition(x, k)[k].astype(a.dtype)


def mode(a: np.ndarray, axis: int | None, keepdims: bool) -> tuple[Any, Any]:
    """(the commonest value, where it is): of several the smallest; see Note [Which of equal elements]."""
    if axis is None or not a.size:
        return pick(a, axis, keepdims, None)
    x = np.moveaxis(exact(a), axis, -1)
    order = np.argsort(x, -1, kind="stable")
    s = np.take_along_axis(x, order, -1)
    position = np.arange(x.shape[-1])
    starts = np.zeros(s.shape, np.int64)
    starts[..., 1:] = np.where(s[..., 1:] != s[..., :-1], position[1:], 0)
    length = position - np.maximum.accumulate(starts, -1)  # how often the value came before
    index = np.take_along_axis(order, length.argmax(-1, keepdims=True), -1)
    choice = np.not_equal(s[..., -1], s[..., -1])  # a nan
    if x.shape[-1] > selection.SHORT:
        choice |= length.max(-1) > 0
    if choice.any():
        ranks, nan = selection.ranked(x[choice])
        index[choice] = [
            [selection.commonest(*row)] for row in zip(ranks, nan.tolist(), strict=True)
        ]
    return pick(a, axis, keepdims, np.moveaxis(index, -1, axis))


# -- running -------------------------------------------------------------------------------------------


def cumulative_extreme(
    a: np.ndarray, axis: int | None, ufunc: Callable
) -> tuple[np.ndarray, np.ndarray]:
    """(values, indices) of the maximum (`ufunc`) up to each position; equal ones move the index on."""
    if axis is None:
        return a.copy(), np.zeros((), np.int64)
    x = exact(a)
    m = ufunc.accumulate(x, axis)
    shape = [1] * a.ndim
    shape[axis] = -1
    position = np.arange(a.shape[axis]).reshape(shape)
    here = x == m
    if a.dtype.kind not in "iub":
        here |= np.isnan(x)
    index = np.maximum.accumulate(np.where(here, position, 0), axis)
    return in_order(m.astype(a.dtype, copy=False)), in_order(index)


def logcumsumexp(a: np.ndarray, axis: int | None) -> np.ndarray:
    """log(cumsum(exp(a))) in float64, one logaddexp a step."""
    if axis is None:
        return a.copy()
    d = a.dtype
    with np.errstate(all="ignore"):
        if d.kind != "c":
            return in_order(np.logaddexp.accumulate(a.astype(F64), axis).astype(d))
        x = np.moveaxis(a.astype(np.complex128), axis, 0).copy()
        former = np.full(x.shape[1:], -np.inf + 0j)
        for i in range(len(x)):
            former = x[i] = log_of_sum(former, x[i])
        return np.ascontiguousarray(np.moveaxis(x, 0, axis).astype(d))


def log_of_sum(a: Any, b: Any) -> Any:
    """log(exp(a) + exp(b)) of complex numbers; NaN if a part of one is NaN."""
    low = b.real < a.real
    small, large = np.where(low, b, a), np.where(low, a, b)
    r = np.where(np.isneginf(small.real), large, large + np.log1p(np.exp(small - large)))
    r = np.where(np.isposinf(small.real), np.log(np.exp(a) + np.exp(b)), r)
    r = np.where(np.isneginf(large.real), a, r)
    return np.where(np.isnan(a) | np.isnan(b), complex(np.nan, np.nan), r)


_START = {"sum": 0, "mean": 0, "prod": 1, "max": -np.inf, "min": np.inf}
_STEP = {"sum": np.add, "mean": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}


def segment_reduce(
    a: np.ndarray, kind: str, ends: np.ndarray, axis: int, initial: float | None
) -> np.ndarray:
    """Reduce a[..., ends[..., i]:ends[..., i + 1]] along `axis`; `ends` has the leading shape of `a`."""
    d = a.dtype
    x = upcast(a)
    lead = a.shape[:axis]
    result = np.empty((*lead, ends.shape[-1] - 1, *a.shape[axis + 1 :]), x.dtype)
    start = _START[kind] if initial is None else initial
    for at in np.ndindex(*lead):
        row, marks = x[at], ends[at].tolist()
        for i, (lo, hi) in enumerate(itertools.pairwise(marks)):
            value = _STEP[kind].reduce(row[lo:hi], 0, initial=start)
            if kind == "mean":
                n = hi - lo
                value = value / n if n else value if initial is not None else value * np.nan
            result[at][i] = value
    return result.astype(d, copy=False)


def segment_offsets(lengths: np.ndarray) -> np.ndarray:
    """Where segments of these lengths start, and where the last one ends."""
    ends = lengths.cumsum(-1)
    return np.concatenate([np.zeros_like(ends[..., :1]), ends], -1)


def segment_ids(ends: np.ndarray, shape: tuple, axis: int) -> tuple[np.ndarray, np.ndarray]:
    """For each element of an array of `shape` its segment along `axis` (-1: in none), and its length."""
    lead = shape[:axis]
    segment = np.full((*lead, shape[axis]), -1, np.int64)
    count = np.ones((*lead, shape[axis]), np.int64)
    for at in np.ndindex(*lead):
        marks = ends[at].tolist()
        for i, (lo, hi) in enumerate(itertools.pairwise(marks)):
            segment[at][lo:hi] = i
            count[at][lo:hi] = hi - lo
    rest = (1,) * (len(shape) - axis - 1)
    whole = np.broadcast_to(segment.reshape(segment.shape + rest), shape).copy()
    return whole, np.broadcast_to(count.reshape(count.shape + rest), shape).copy()
