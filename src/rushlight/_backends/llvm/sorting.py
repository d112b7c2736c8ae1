"""Sorting as machine code; see `__init__.py` for when it runs, `_codegen/kernels/sort.py` for how.

An element's key and its place together are one integer of 64 bits. Rows of them are sorted by
NumPy, which does that with vector instructions, or digit by digit where keys have few.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.indexing import in_memory
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import (
    contiguous,
    in_memory_order,
    in_order,
    of_copies,
    row_major,
)
from rushlight._backends.reference import reduce as orders
from rushlight._backends.reference import sorting as reference
from rushlight._backends.reference.layout import copied_as
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import bags, shape_inference
from rushlight._codegen.kernels import keys as of_elements
from rushlight._codegen.kernels import largest as few
from rushlight._codegen.kernels import sort as kernels
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight._codegen.types import Type, b1, f32, f64, i32, i64, of, u8
from rushlight.core.dtype_sets import BOOL, F32, F64, FLOATING, I8, I16, I32, I64, REDUCED, U8

SMALL = max(1, threshold(128))  # elements from which a kernel takes less time than NumPy's passes
SORTED = FLOATING | {BOOL, U8, I8, I16, I32, I64}
FAR = 64  # positions that an element may have to go where its key was cut off
LONG = 2048  # from this length on, two passes by digits take less time than NumPy's sort


def as_rows(a: Any, axis: int | None) -> np.ndarray | None:
    """The array row-major with `axis` last, where kernels can sort it."""
    if a.__class__ is not np.ndarray or axis is None or a.size < SMALL:
        return None
    if a.dtype not in SORTED or a.shape[axis] >= 1 << 31:
        return None
    return in_order(np.moveaxis(a, axis, -1))


def key_range(x: np.ndarray, down: bool) -> tuple[int, int]:
    """The least key, and how many bits what is above it takes."""
    if x.dtype.kind in "iu" and x.dtype.itemsize >= 2:
        low, high = int(x.min()), int(x.max())
        return (~high if down else low), (high - low).bit_length()
    bits = of_elements.key_type(of(x.dtype)).size * 8  # type: ignore[arg-type]  # the dtypes here all have a type
    if x.dtype.itemsize == 1:
        return (-256 if down else -128), 9
    return -(1 << (bits - 1)), bits


def keys_of(x: np.ndarray, down: bool) -> tuple[np.ndarray, int, int, int]:
    """(keys with indices, bits of an index, bits of a key, bits that were cut off)."""
    n = x.shape[-1]
    shift = max(1, (n - 1).bit_length())
    least, bits = key_range(x, down)
    cut = max(0, bits + shift - 64)
    keys = np.empty(x.shape, np.uint64)
    run = kernels.packed.compiled(DOWN=down, T=of(x.dtype))
    run(x, keys, x.size // n, n, least, shift, cut)
    return keys, shift, bits, cut


def put_in_order(x: np.ndarray, down: bool) -> tuple[np.ndarray, int] | None:
    """(sorted keys with indices, bits of an index)."""
    keys, shift, bits, cut = keys_of(x, down)
    n = x.shape[-1]
    rows = x.size // n
    passes = -(-bits // kernels.DIGIT)
    if passes <= 2 and n >= LONG * max(passes, 1):
        other = np.empty_like(keys)
        kernels.by_digits.compiled()(keys, other, rows, n, shift, passes)
        return (other if passes % 2 else keys), shift
    keys.sort(-1)
    if cut:
        bad = np.zeros(1, np.int64)
        run = kernels.order_within_prefixes.compiled(DOWN=down, T=of(x.dtype))
        run(x, keys, bad, rows, n, shift, FAR)
        if bad[0]:
            return None
    return keys, shift


def sorted_values_and_indices(
    x: np.ndarray, keys: np.ndarray, shift: int
) -> tuple[np.ndarray, np.ndarray]:
    """(elements, indices) of sorted keys."""
    values, indices = np.empty(keys.shape, x.dtype), np.empty(keys.shape, np.int64)
    n, k = x.shape[-1], keys.shape[-1]
    run = kernels.unpacked.compiled(T=of(x.dtype))
    run(x, keys, values, indices, x.size // n, n, k, (1 << shift) - 1)
    return values, indices


def with_axis_back(r: np.ndarray, axis: int) -> np.ndarray:
    """Rows with their last dimension back at `axis`, row-major."""
    if axis == r.ndim - 1 or axis == -1:
        return r
    return row_major(np.moveaxis(r, -1, axis))


def entries(infer: Any, kernel: Any) -> ByDtype:
    """The native entries for values and indices that a kernel chooses."""

    def make(dtype: np.dtype) -> Any:
        if dtype not in SORTED:
            return unbound
        return bind(infer, [dtype], [dtype, I64], (kernel, {"T": of(dtype)}))

    return ByDtype(make)


SORT = entries((shape_inference.in_order_along, {"MOST": kernels.SHORT}), kernels.sorted_rows)


@implements("sort")
@put_entries_before(SORT)
def sort(a: np.ndarray, axis: int | None, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """(values, indices), stable."""
    if a.__class__ is np.ndarray and not a.flags.carray:
        if axis is not None and 1 not in a.shape and (order := in_memory(a)) is not None:
            if not a.flags.c_contiguous:  # as it lies: the results lie so, too
                rows = sort(a.transpose(order), order.index(axis % a.ndim), descending)
                back = sorted(range(a.ndim), key=order.__getitem__)
                return rows[0].transpose(back), rows[1].transpose(back)
        copied = SORT[a.dtype](row_major(a), axis, descending)
        if copied is not None:
            return copied_as(a, copied[0]), copied_as(a, copied[1])
    x = as_rows(a, axis)
    found = None if x is None else put_in_order(x, descending)
    if x is None or found is None:
        return reference.sort(a, axis, descending)
    values, indices = (with_axis_back(r, axis) for r in sorted_values_and_indices(x, *found))  # type: ignore[arg-type]  # rows have an axis
    return copied_as(a, values), copied_as(a, indices)


@implements("topk")
@of_copies(entries((shape_inference.largest_few, {"MOST": few.MOST}), few.first_few))
def topk(
    a: np.ndarray, k: int, axis: int | None, largest: bool, in_order: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(values, indices) of the k largest or smallest, the most extreme first, or as they are found."""
    x = as_rows(a, axis) if k > 0 else None
    if x is None or k > x.shape[-1]:
        return reference.topk(a, k, axis, largest, in_order)
    n = x.shape[-1]
    rows, flip = x.size // n, 0 if largest else -1
    if k <= few.MOST:
        shape = (*x.shape[:-1], k)
        values, indices = np.empty(shape, x.dtype), np.empty(shape, np.int64)
        run = few.first_few.compiled(T=of(x.dtype))
        run(x, values, indices, rows, n, k, flip, int(in_order))
    else:
        heaped = k * few.HEAPED <= n
        values, indices, choice = many(x, k, largest, in_order or heaped)
        which = choice.reshape(-1).nonzero()[0]
        if which.size:
            t: Any = of(x.dtype)
            key, size = of_elements.key_type(t), which.size * (k if heaped else n)
            own = np.empty(size, key.np), np.empty(size, np.int64)
            run = few.first_of_some.compiled(T=t, K=key)
            run(x, which, values, indices, *own, which.size, n, k, flip, int(in_order))
    return with_axis_back(values, axis), with_axis_back(indices, axis)  # type: ignore[arg-type]  # rows have an axis


def many(
    x: np.ndarray, k: int, largest: bool, in_order: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, indices) of the first k of each row in order, and in which rows that is not all that `topk`
    promises: equal elements leave a choice, or no order is asked for."""
    shape = (*x.shape[:-1], k)
    if not in_order:
        return np.empty(shape, x.dtype), np.empty(shape, np.int64), np.ones(shape[:-1], np.bool_)
    if x.dtype.itemsize == 8:
        indices = np.ascontiguousarray(reference.first(x, k, -1, largest))
        values = np.take_along_axis(x, indices, -1)
        return values, indices, reference.has_ties(x, values)
    keys, shift, _, _ = keys_of(x, largest)
    beyond = None
    if k < x.shape[-1]:
        keys.partition(k - 1, -1)
        beyond = keys[..., k:].min(-1) >> np.uint64(shift)
    keys = np.ascontiguousarray(keys[..., :k])
    keys.sort(-1)
    values, indices = sorted_values_and_indices(x, keys, shift)
    keys >>= np.uint64(shift)
    choice = (keys[..., 1:] == keys[..., :-1]).any(-1)
    if beyond is not None:
        choice |= keys[..., -1] == beyond
    return values, indices, choice


def choices(infer: Any, **known: int) -> ByDtype:
    """The native entries for one element along an axis."""
    return entries((infer, {"MOST": kernels.SHORT, **known}), kernels.chosen_rows)


def one_of_many(a: Any, axis: int | None, keepdims: bool, which: int) -> tuple[Any, Any] | None:
    """What the entries give for short rows, of rows of any length; None for what is not taken."""
    if a.__class__ is not np.ndarray or axis is None or a.dtype not in SORTED or not a.size:
        return None
    x, axis = np.require(a, requirements="CA"), axis % a.ndim
    n, before, behind = a.shape[axis], a.shape[:axis], a.shape[axis + 1 :]
    if n >= 1 << 31 or which >= n:
        return None
    t: Any = of(a.dtype)
    k = of_elements.key_type(t)
    shape = (*before, 1, *behind) if keepdims else before + behind
    values, indices = np.empty(shape, a.dtype), np.empty(shape, np.int64)
    keys, words = np.empty(n, k.np), np.empty(n, np.uint64)
    run = kernels.chosen_of_many.compiled(T=t, K=k)
    run(x, keys, words, values, indices, prod(before), n, prod(behind), which)
    return values, indices


MEDIAN = choices(shape_inference.chosen_median, KIND=kernels.MEDIAN)


@implements("mode")
@of_copies(choices(shape_inference.chosen_kind, KIND=kernels.COMMONEST))
def mode(a: np.ndarray, axis: int | None, keepdims: bool) -> tuple[Any, Any]:
    """(the commonest value, where it is)."""
    return one_of_many(a, axis, keepdims, kernels.COMMONEST) or orders.mode(a, axis, keepdims)


@implements("kthvalue")
@of_copies(choices(shape_inference.chosen))
def kthvalue(a: np.ndarray, axis: int | None, keepdims: bool, k: int) -> tuple[Any, Any]:
    """(the k-th smallest, counted from 0, and where it is)."""
    return one_of_many(a, axis, keepdims, k) or orders.kthvalue(a, axis, keepdims, k)


@implements("median_with_index")
@of_copies(MEDIAN)
def median_with_index(
    a: np.ndarray, axis: int | None, keepdims: bool, skip_nan: bool
) -> tuple[Any, Any]:
    """(the lower median, where it is)."""
    found = one_of_many(a, axis, keepdims, kernels.MEDIAN - skip_nan)
    return found or orders.median_with_index(a, axis, keepdims, skip_nan)


@implements("median")
def median(a: np.ndarray, skip_nan: bool) -> Any:
    """The lower median of all elements."""
    if a.__class__ is not np.ndarray or a.dtype not in SORTED or not a.size:
        return orders.median(a, skip_nan)
    return median_with_index(a.reshape(-1), 0, False, skip_nan)[0]


# -- searching and counting ------------------------------------------------------------------------


@implements("unique")
def unique(
    a: np.ndarray, consecutive: bool, indices: bool, lengths: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, inverse of the shape of `a`, counts) of the elements, sorted unless `consecutive`."""
    if a.__class__ is not np.ndarray or not a.size or a.dtype not in SORTED:
        return reference.unique(a, consecutive, indices, lengths)
    flat = in_order(a).reshape(-1)
    order = None
    if consecutive:
        s = flat
    elif indices:
        s, order = sort(flat, 0, False)
    else:
        s = np.sort(reference.exact(flat)).astype(a.dtype, copy=False)
    values, inverse, counts = runs(s, order, indices, lengths)
    return values, inverse.reshape(a.shape) if indices else inverse, counts


def runs(s: np.ndarray, order: np.ndarray | None, indices: bool, lengths: bool) -> tuple:
    """Each run of equal elements once; with `indices` the run of each original element; with `lengths` their lengths."""
    n, t = s.size, of(s.dtype)
    t = u8 if t is b1 else t
    found, count = np.zeros(-(-n // kernels.STRETCH), np.int64), n
    if found.size > 1:  # results of any size that there may be are too large
        kernels.runs_counted.compiled(T=t)(s, found, n)
        found = found.cumsum()
        count = int(found[-1])
        found[1:] = found[:-1]
        found[0] = 0
    values, starts = np.empty(count, s.dtype), np.empty(count + 1 if lengths else 0, np.int64)
    inverse = np.empty(n, np.int64) if indices else starts
    if indices and order is None:
        order = np.arange(n)
    run = kernels.runs_placed.compiled(INDICES=indices, LENGTHS=lengths, T=t)
    run(s, starts if order is None else order, found, values, starts, inverse, n)
    if count > (count := int(found[-1])):
        values, starts = values[:count].copy(), starts[: count + 1]
    if not lengths:
        return values, inverse, starts
    starts[count] = n
    return values, inverse, starts[1:] - starts[:-1]


def searches(right: bool, to: Type) -> ByDtype:
    """The native entries for indices in sorted rows."""

    def make(dtype: np.dtype) -> Any:
        t = of(dtype)
        if t not in (f32, f64, i32, i64):
            return unbound
        run = kernels.search, {"RIGHT": right, "T": t, "R": to}
        return bind((shape_inference.searched, {}), [dtype, dtype], [to.np], run)

    return ByDtype(make)


SEARCHES = {(right, to.np): searches(right, to) for right in (False, True) for to in (i32, i64)}


@implements("searchsorted")
def searchsorted(seq: np.ndarray, a: np.ndarray, right: bool, dtype: np.dtype) -> np.ndarray:
    """Where each element of `a` goes into `seq`, row by row when `seq` has several dimensions."""
    if a.dtype in REDUCED and seq.dtype is a.dtype:
        seq, a = cpu.cast(seq, F32), cpu.cast(a, F32)
    entry = SEARCHES[right, dtype][seq.dtype]
    found = entry(seq, a)
    if found is None:
        found = entry(contiguous(seq), contiguous(a))
    return reference.searchsorted(seq, a, right, dtype) if found is None else found


FEW_TESTS = 32  # elements that each other one is compared with


def members(invert: bool) -> ByDtype:
    """The native entries for whether elements are among few others."""

    def make(dtype: np.dtype) -> Any:
        if dtype not in SORTED or dtype == BOOL:
            return unbound
        run = kernels.among, {"INVERT": invert, "T": of(dtype)}
        return bind((shape_inference.among_few, {"MOST": FEW_TESTS}), [dtype, dtype], [BOOL], run)

    return ByDtype(make)


AMONG = members(False), members(True)


@implements("isin")
def isin(a: np.ndarray, tests: np.ndarray, invert: bool) -> Any:
    """Which elements of `a` are in `tests`."""
    found = AMONG[invert][a.dtype](contiguous(a), contiguous(tests))
    if found is not None:
        return found
    if a.dtype not in SORTED or tests.dtype is not a.dtype or a.dtype.itemsize < 2:
        return reference.isin(a, tests, invert)
    if not a.ndim or not tests.size:
        return reference.isin(a, tests, invert)
    if a.dtype in REDUCED:
        a, tests = cpu.cast(a, F32), cpu.cast(tests, F32)
    tests = np.sort(tests, axis=None)
    at = searchsorted(tests, a, False, I64)
    np.minimum(at, tests.size - 1, out=at)
    return np.not_equal(tests[at], a) if invert else np.equal(tests[at], a)


PARTS = 4  # parts of many numbers, counted by threads
MANY = 1 << 16  # so many are
FEW = 2048  # bins of which each part has several tables


@implements("bincount")
def bincount(a: np.ndarray, weights: np.ndarray | None, minlength: int) -> np.ndarray:
    """Counts (int64), or sums of weights in their dtype if that is float32, else float64. ValueError for
    negative numbers."""
    t = of(a.dtype)
    w = None if weights is None else of(weights.dtype)
    if (
        t not in (i64, i32)
        or a.__class__ is not np.ndarray
        or a.size < SMALL
        or (weights is not None and (w not in (f32, f64) or weights.shape != a.shape))
    ):
        return reference.bincount(a, weights, minlength)
    x = np.ascontiguousarray(a)
    given = x if weights is None else np.ascontiguousarray(weights)
    if not x.flags.aligned or not given.flags.aligned:
        return reference.bincount(a, weights, minlength)
    most = np.empty(-(-x.size // bags.CHUNK), np.uint64)
    bags.tops.compiled(T=t)(x, most, x.size)
    top = int(most.max())
    if top >= 1 << 31:
        return reference.bincount(a, weights, minlength)
    bins = max(top + 1, minlength)
    parts = PARTS if x.size >= MANY and bins <= x.size // PARTS else 1
    many = bags.TABLES if bins <= FEW else 1
    tables = np.zeros((parts * many, bins), np.int64 if weights is None else np.float64)
    kind = i64 if weights is None else f64
    run = bags.counts.compiled(WEIGHTED=weights is not None, T=t, W=w or i64, R=kind)
    run(x, given, tables, x.size, bins, parts, many)
    if parts * many > 1:
        tables = tables[:1].copy()
    r = tables.reshape(bins)
    return r.astype(np.float32) if weights is not None and weights.dtype == np.float32 else r


@implements("histc", dtypes=FLOATING, least=1)
def histc(a: np.ndarray, bins: int, low: float, high: float) -> Any:
    """Counts in equal bins; the last one contains its right end."""
    if a.dtype is not F64 and (high - low) * bins > 3e38:
        return NotImplemented  # numbers of bins would be infinite
    counts = np.zeros(bins, np.int64)
    run = bags.binned.compiled(T=of(a.dtype))
    run(contiguous(in_memory_order(a)), counts, a.size, float(low), float(high), bins)
    return counts.astype(a.dtype)


@implements("histogram", dtypes=(F32, F64))
def histogram(
    points: np.ndarray, edges: list, weights: np.ndarray | None, density: bool
) -> np.ndarray:
    """Counts (or weights) of the rows of `points` between the edges of each column."""
    n = len(points)
    if points.shape != (n, len(edges)) or weights is not None and weights.shape != (n,):
        return reference.histogram(points, edges, weights, density)
    begins = [0]
    for e in edges:
        begins.append(begins[-1] + e.size)
        if e.dtype is not points.dtype or e.size < 2:
            return reference.histogram(points, edges, weights, density)
    out = np.zeros([e.size - 1 for e in edges])
    x, e = contiguous(points), contiguous(edges[0]) if len(edges) == 1 else np.concatenate(edges)
    w = x if weights is None else contiguous(weights)
    run = bags.histogram.compiled(WEIGHTED=weights is not None, T=of(points.dtype))
    run(x, e, np.array(begins, np.int64), w, out, n, len(edges))
    r = out.astype(points.dtype, copy=False)
    return reference.densities(r, edges) if density else r
