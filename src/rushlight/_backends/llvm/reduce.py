"""Reductions as machine code; see `__init__.py` for when they run, `_codegen/kernels/reduce.py` for how.

C-contiguous arrays of floating dtypes, over all elements or over dimensions next to each other. All
else is the reference's.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from functools import cache, lru_cache
from math import inf
from typing import Any

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.operands import takes
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order, of_copies, out_of_order, row_major
from rushlight._backends.reference import normalize as norms
from rushlight._backends.reference import reduce as reference
from rushlight._codegen.dtype_entry import entries_alone
from rushlight._codegen.kernels import fold as folds
from rushlight._codegen.kernels import norm, shape_inference
from rushlight._codegen.kernels import reduce as kernels
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight._codegen.types import Type, b1, bf16, f16, f32, f64, i32, i64, of, u8
from rushlight.core.dtype_sets import BOOL, FLOATING, I32, I64, REDUCED, U8

SMALL = threshold(64)  # elements from which it pays to plan
WHOLE = frozenset((I64, I32, U8, BOOL))
KNOWN = FLOATING | WHOLE
PART = 16384  # elements that one chunk adds up where a row is long
DEEP = folds.PART  # rows of columns that are summed in one go
FEW = 32  # rows with which two threads are busy: below it, long ones are cut


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
    return (
        math.prod(a.shape[: dims[0]]),
        math.prod(a.shape[i] for i in dims),
        math.prod(a.shape[dims[-1] + 1 :]),
    )


def shaped(r: np.ndarray, a: np.ndarray, axis: Any, keepdims: bool) -> np.ndarray:
    """The result in the shape that it has."""
    if axis is None:
        return r.reshape((1,) * a.ndim if keepdims else ())
    dims = {d % a.ndim for d in (axis if axis.__class__ is tuple else (axis,))}
    if keepdims:
        return r.reshape([1 if d in dims else n for d, n in enumerate(a.shape)])
    return r.reshape([n for d, n in enumerate(a.shape) if d not in dims])


@lru_cache(maxsize=4096)
def plan(
    shape: tuple, strides: tuple, itemsize: int, axis: Any, keepdims: bool
) -> tuple[tuple[tuple[bool, int], ...], tuple, tuple | None] | None:
    """How an array of any order in memory is reduced: runs of dimensions, outermost first, as whether
    they are reduced and how large, the result's shape, and where there is one run the shape [outer, n, inner]; None
    where it has gaps, or the result would have another order."""
    ndim = len(shape)
    if axis is None:
        over = set(range(ndim))
    elif not ndim:
        return None
    else:
        over = {d % ndim for d in (axis if axis.__class__ is tuple else (axis,))}
        if not over:
            return None
    dims = sorted((d for d in range(ndim) if shape[d] != 1), key=lambda d: (-strides[d], d))
    size = itemsize
    for d in reversed(dims):
        if strides[d] != size or not size:
            return None
        size *= shape[d]
    kept = [d for d in dims if d not in over]
    if kept != sorted(kept):
        return None
    runs: list[tuple[bool, int]] = []
    for d in dims:
        if runs and runs[-1][0] == (d in over):
            runs[-1] = (runs[-1][0], runs[-1][1] * shape[d])
        else:
            runs.append((d in over, shape[d]))
    if not any(summed for summed, _ in runs):
        runs.append((True, 1))
    block = None
    if builtins.sum([summed for summed, _ in runs]) == 1:
        at = [summed for summed, _ in runs].index(True)
        sizes = [n for _, n in runs]
        block = math.prod(sizes[:at]), sizes[at], math.prod(sizes[at + 1 :])
    if keepdims:
        return tuple(runs), tuple(1 if d in over else n for d, n in enumerate(shape)), block
    return tuple(runs), tuple(n for d, n in enumerate(shape) if d not in over), block


def planned(a: Any, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The plan for an array that kernels take; `dtype`: that it must have, if any."""
    if a.__class__ is not np.ndarray or a.size < SMALL or not a.flags.aligned:
        return None
    if not a.size or a.dtype not in KNOWN or (dtype is not None and dtype is not a.dtype):
        return None
    if dtype is not None and dtype.kind == "b":  # its bytes would be added up
        return None
    return plan(a.shape, a.strides, a.itemsize, axis, keepdims)


def in_one(entries: ByDtype, a: np.ndarray, found: Any) -> Any:
    """What native entries give for an array, whose plan was found, by its one run; None without."""
    if found is None or found[2] is None or not a.flags.c_contiguous:
        return None
    r = entries[a.dtype](a.reshape(found[2]), 1, False)
    return None if r is None else r.reshape(found[1])


@lru_cache(maxsize=4096)
def brought_last(shape: tuple, axis: tuple, keepdims: bool) -> tuple[tuple, tuple, tuple]:
    """The order of dimensions with those that are reduced last, (rows, what is reduced in each), and the result's shape."""
    over = {d % len(shape) for d in axis}
    kept = [d for d in range(len(shape)) if d not in over]
    rows = math.prod(shape[d] for d in kept), math.prod(shape[d] for d in over)
    short = tuple(shape[d] for d in kept)
    result = tuple(1 if d in over else n for d, n in enumerate(shape)) if keepdims else short
    return (*kept, *sorted(over)), rows, result


def in_rows(entries: ByDtype, a: Any, axis: Any, keepdims: bool, *more: Any) -> Any:
    """What native entries give for few elements over several dimensions that do not lie side by side: those of a copy
    in which they do; None for others."""
    if axis.__class__ is not tuple or a.__class__ is not np.ndarray or not 0 < a.size <= PART:
        return None
    if not axis or not a.ndim:
        return None
    order, rows, shape = brought_last(a.shape, axis, keepdims)
    r = entries[a.dtype](a.transpose(order).copy().reshape(rows), 1, False, *more)
    if r.__class__ is tuple:
        return tuple([each.reshape(shape) for each in r])
    return None if r is None else r.reshape(shape)


LEAST = {i64: -(1 << 63), i32: -(1 << 31), u8: 0}
MOST = {i64: (1 << 63) - 1, i32: (1 << 31) - 1, u8: 255}
# The step for an element, that for the result of a part, the start, and what makes the result.
FOLDS: dict[str, tuple[Any, Any, Any, Any]] = {
    "sum": (folds.plus, folds.plus, 0, folds.alone),
    "mean": (folds.plus, folds.plus, 0, folds.averaged),
    "numbers": (folds.plus_number, folds.plus, 0, folds.alone),
    "count_nonzero": (folds.plus_one, folds.plus, 0, folds.alone),
    "prod": (folds.times, folds.times, 1, folds.alone),
    "length": (folds.plus_square, folds.plus, 0, folds.root),
    "amax": (folds.larger, folds.larger, None, folds.alone),
    "amin": (folds.smaller, folds.smaller, None, folds.alone),
}


def fold_known(
    name: str, first: bool, t: Type, to: Type, a: Type, last: bool = True
) -> dict[str, Any]:
    """What a kernel of a fold knows: of elements, or of parts that were folded before; whether they make the result."""
    step, join, start, end = FOLDS[name]
    if name == "amax":
        start = -inf if a.is_float else LEAST[a]
    elif name == "amin":
        start = inf if a.is_float else MOST[a]
    known = {"STEP": step if first else join, "JOIN": join, "START": start, "A": a, "T": t, "R": to}
    return known | {"END": end if last else folds.alone}


@cache
def fold_of(
    name: str, first: bool, last: bool, rows: bool, t: Type, to: Type, a: Type
) -> Callable[..., None]:
    """The kernel of a fold of rows or columns."""
    kernel = folds.fold_rows if rows else folds.fold_columns
    return kernel.compiled(**fold_known(name, first, t, to, a, last))


INFER: Any = (
    shape_inference.reduction,
    {"LONGEST": PART, "DEEPEST": DEEP, "MOST": folds.PARTS},
)


def sums_by_dtype(mean: bool) -> ByDtype:
    """The native entries for sums, or means."""

    def make(dtype: np.dtype) -> Any:
        t = of(dtype)
        if t is None or t not in (f32, f64, f16, bf16):
            return unbound if mean or dtype not in WHOLE else folds_of("sum", dtype)
        known = {"MEAN": mean, "T": t, "R": t}
        columns = fold_known("mean" if mean else "sum", True, t, t, t.loaded)
        runs = (kernels.sum_rows, known), (folds.fold_columns, columns), (kernels.sum_parts, known)
        return bind(INFER, [dtype], [dtype], *runs)

    return ByDtype(make)


def folds_of(name: str, dtype: np.dtype) -> Any:
    """The native entry for a fold whose result is int64, or of the floating dtype."""
    if dtype not in KNOWN:
        return unbound
    if name == "numbers" and dtype not in FLOATING:
        name = "sum"
    t = of(dtype)
    to = t if name != "count_nonzero" and dtype in FLOATING else i64
    assert t is not None and to is not None
    known = fold_known(name, True, u8 if t is b1 else t, to, to.loaded)
    runs = (folds.fold_rows, known), (folds.fold_columns, known), (folds.fold_parts, known)
    return bind(INFER, [dtype], [to.np], *runs)


def variances(dtype: np.dtype) -> Any:
    """The native entry for variances and means."""
    if dtype not in FLOATING:
        return unbound
    infer = shape_inference.variance, {"LONGEST": PART, "DEEPEST": folds.PIECE}
    known = {"T": of(dtype)}
    runs = (kernels.variance_rows, known), (kernels.variance_columns, known)
    return bind(infer, [dtype], [dtype, dtype], *runs)


VARIANCE = ByDtype(variances)
SUM, MEAN = sums_by_dtype(False), sums_by_dtype(True)
PRODUCT = ByDtype(lambda dtype: folds_of("prod", dtype))
NUMBERS = ByDtype(lambda dtype: folds_of("numbers", dtype))
NONZEROS = ByDtype(lambda dtype: folds_of("count_nonzero", dtype))
_sum, _mean, _product, _numbers, _nonzeros = (
    entries_alone(entries, row_major) for entries in (SUM, MEAN, PRODUCT, NUMBERS, NONZEROS)
)


def folded(name: str, a: np.ndarray, found: Any, t: Type, to: Type) -> np.ndarray:
    """An array, whose plan was found, folded with elements of type `to` as result."""
    runs, shape, _ = found
    by = t if name in ("amax", "amin") and not t.is_float else to.loaded
    left = builtins.sum(summed for summed, _ in runs)
    r, outer, inner, first = a, a.size, 1, True
    for summed, n in reversed(runs):
        outer //= n
        if not summed:
            inner *= n
            continue
        left -= 1
        while True:
            if inner == 1:
                part = min(n, PART)
            else:
                part = min(n, folds.PART)
            parts = -(-n // part)
            done = parts == 1 and not left
            into = to if done else by
            out = np.empty(shape if done else (outer, parts, inner), into.np)
            kernel = fold_of(name, first, done, inner == 1, t if first else by, into, by)
            if inner == 1:
                kernel(r, out, outer, n, part)
            else:
                kernel(r, out, outer, n, inner, part)
            r, n, first = out, parts, False
            if parts == 1:
                break
    return r


def kind(a: np.ndarray) -> Type:
    """The type that kernels read it as."""
    t = of(a.dtype)
    assert t is not None
    return u8 if t is b1 else t


def by_copy(name: str, a: Any, *options: Any) -> Any:
    """The kernel once more, of a row-major copy of an array of another order; else the reference's."""
    if out_of_order(a) and a.size >= SMALL and a.dtype in KNOWN:
        return globals()[name](row_major(a), *options)
    return getattr(reference, name)(a, *options)


def other_than(a: Any, dtype: np.dtype | None) -> np.dtype | None:
    """The dtype that a floating array is to be reduced in, None where that is its own: asked for or not, the same kernel
    computes."""
    return None if dtype in FLOATING and dtype is a.dtype else dtype


@implements("sum")
def sum(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The sum. Halves accumulate in float32, integers and bool in int64."""
    dtype = other_than(a, dtype)
    if dtype is None:
        r = _sum(a, axis, keepdims)
        if r is not None:
            return r
    d = getattr(a, "dtype", None)
    whole = d in WHOLE and (dtype is None or dtype is I64)
    found = planned(a, axis, keepdims, None if whole else dtype)
    if dtype is None and (r := in_one(SUM, a, found)) is not None:
        return r
    if dtype is None and (r := in_rows(SUM, a, axis, keepdims)) is not None:
        return r
    if found is None:
        return by_copy("sum", a, axis, keepdims, dtype)
    if whole:
        return folded("sum", a, found, kind(a), i64)
    return added(a, found, a.dtype)


def added(a: np.ndarray, found: Any, dtype: np.dtype) -> np.ndarray:
    """The sums of floating numbers, whose plan was found."""
    runs, shape, _ = found
    t = kind(a)
    if len(runs) == 1 and a.size <= PART:
        out = np.empty(shape, dtype)
        sum_of_rows(t, of(dtype))(a, out, 1, a.size)
        return out
    if len(runs) == 2 and runs[1][0] and runs[1][1] <= PART:
        out = np.empty(shape, dtype)
        sum_of_rows(t, of(dtype))(a, out, *(n for _, n in runs))
        return out
    r, inner, outer = a, 1, a.size
    for summed, n in reversed(runs):
        outer //= n
        if summed:
            r = sums(r, outer, n, inner)
        else:
            inner *= n
    return r.astype(dtype, copy=False).reshape(shape)


@cache
def sum_of_rows(t: Type, to: Type) -> Any:
    return kernels.sum_rows.compiled(MEAN=False, T=t, R=to)


@implements("nansum")
def nansum(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The sum, NaN left out."""
    dtype = other_than(a, dtype)
    if dtype is None:
        r = _numbers(a, axis, keepdims)
        if r is not None:
            return r
    found = planned(a, axis, keepdims, dtype) if getattr(a, "dtype", None) in FLOATING else None
    if found is None:
        return by_copy("nansum", a, axis, keepdims, dtype)
    return folded("numbers", a, found, kind(a), kind(a))


@implements("count_nonzero")
def count_nonzero(a: np.ndarray, axis: Any) -> Any:
    """How many elements are not 0; int64."""
    r = _nonzeros(a, axis, False)
    if r is not None:
        return r
    found = planned(a, axis, False)
    if found is None:
        return by_copy("count_nonzero", a, axis)
    return folded("count_nonzero", a, found, kind(a), i64)


@implements("prod")
def prod(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The product. Halves accumulate in float32, integers and bool in int64."""
    dtype = other_than(a, dtype)
    if dtype is None:
        r = _product(a, axis, keepdims)
        if r is not None:
            return r
    d = getattr(a, "dtype", None)
    whole = d in WHOLE and (dtype is None or dtype is I64)
    found = planned(a, axis, keepdims, None if whole else dtype)
    if found is None:
        return by_copy("prod", a, axis, keepdims, dtype)
    return folded("prod", a, found, kind(a), i64 if whole else kind(a))


def sums(a: np.ndarray, outer: int, n: int, inner: int) -> np.ndarray:
    """The sums of [outer, n, inner] over n, in the dtype that they are made in."""
    t = of(a.dtype)
    assert t is not None
    d = t.loaded.np
    if inner == 1:
        if outer > 1 and n <= PART or n <= PART:
            out = np.empty(outer, d)
            kernels.sum_rows.compiled(MEAN=False, T=t, R=t.loaded)(a, out, outer, n)
            return out
        parts = -(-n // PART)
        out = np.empty((outer, parts), d)
        fold_of("sum", True, False, True, t, t.loaded, t.loaded)(a, out, outer, n, PART)
        return sums(out, outer, parts, 1)
    part = min(folds.PART, n)
    parts = -(-n // part)
    out = np.empty((outer, parts, inner), d)
    fold_of("sum", True, False, False, t, t.loaded, t.loaded)(a, out, outer, n, inner, part)
    return out if parts == 1 else sums(out, outer, parts, inner)


@implements("sum_to")
def sum_to(a: np.ndarray, shape: tuple) -> np.ndarray:
    """The sum over all dimensions in which `a` is larger than `shape`; `a` was broadcast from it."""
    own = a.shape
    lead = len(own) - len(shape)
    axes = tuple(
        [i for i, n in enumerate(own) if i < lead or n != shape[i - lead]]  # in which it was 1
    )
    d = getattr(a, "dtype", None)
    found = planned(a, axes, False) if d in FLOATING or d is I64 else None
    if (r := in_one(SUM, a, found)) is not None:
        return r.reshape(shape)
    if (
        found is None
        and not a.flags.c_contiguous
        and (d in REDUCED or SMALL <= a.size <= PART and (d in FLOATING or d is I64))
    ):
        return sum_to(in_order(a), shape)
    if found is None or d is I64:
        return reference.sum_to(a, shape)
    return added(a, found, a.dtype).reshape(shape)


@implements("mean")
def mean(a: np.ndarray, axis: Any, keepdims: bool, dtype: np.dtype | None = None) -> Any:
    """The mean, in `dtype`; halves are divided in float32."""
    dtype = other_than(a, dtype)
    if dtype is None:
        r = _mean(a, axis, keepdims)
        if r is not None:
            return r
    found = planned(a, axis, keepdims, dtype) if getattr(a, "dtype", None) in FLOATING else None
    if dtype is None and (r := in_one(MEAN, a, found)) is not None:
        return r
    if dtype is None and (r := in_rows(MEAN, a, axis, keepdims)) is not None:
        return r
    if found is None:
        return by_copy("mean", a, axis, keepdims, dtype)
    r = added(a, found, kind(a).loaded.np)
    r /= math.prod(n for summed, n in found[0] if summed)
    return r.astype(a.dtype, copy=False)


@implements("variance")
@of_copies(VARIANCE, any_order=True)
def variance(a: np.ndarray, axis: Any, keepdims: bool, correction: float) -> tuple[Any, Any]:
    """(variance, mean): the squared distances from the mean summed."""
    dims = axis if axis.__class__ is tuple else None if axis is None else (axis,)
    if (r := in_rows(VARIANCE, a, dims, keepdims, correction)) is not None:
        return r
    blocks = arranged(a, axis)
    if blocks is not None and blocks[2] == 1 and blocks[1] > correction:
        v, mean = variance_of_rows(a, *blocks[:2], correction)
        return shaped(v, a, axis, keepdims), shaped(mean, a, axis, keepdims)
    if dims and takes(a) and a.ndim:
        order, (outer, n), shape = brought_last(a.shape, dims, keepdims)
        if n > correction:
            v, mean = variance_of_rows(row_major(a.transpose(order)), outer, n, correction)
            return v.reshape(shape), mean.reshape(shape)
    return reference.variance(a, axis, keepdims, correction)


def variance_of_rows(a: np.ndarray, outer: int, n: int, correction: float) -> tuple[Any, Any]:
    """The variances and means of `outer` rows of n floating numbers."""
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
    return v.astype(a.dtype, copy=False), mean.astype(a.dtype, copy=False)


def lengths(d: np.dtype) -> Any:
    """The native entry for the square roots of sums of squares."""
    if d not in FLOATING:
        return unbound
    t: Any = of(d)
    known = fold_known("length", True, t, t, t.loaded)
    runs = (folds.fold_columns, known), (folds.fold_parts, known)
    return bind(INFER, [d], [d], (norm.row_lengths, {"T": t}), *runs)


LENGTHS = ByDtype(lengths)


@implements("l2_norm")
@of_copies(LENGTHS)
def l2_norm(a: Any, axis: int | tuple[int, ...] | None, keepdims: bool) -> Any:
    """The square roots of the sums of squares along an axis, some or all (None)."""
    found = planned(a, axis, keepdims) if getattr(a, "dtype", None) in FLOATING else None
    if (r := in_one(LENGTHS, a, found)) is not None:
        return r
    if (r := in_rows(LENGTHS, a, axis, keepdims)) is not None:
        return r
    if found is None:
        return norms.l2_norm(a, axis, keepdims)
    return folded("length", a, found, kind(a), kind(a))
