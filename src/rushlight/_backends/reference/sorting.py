"""Sorting and searching on NumPy arrays in PyTorch's order, for the reference back end.

`axis` is an int in range, or None for a 0-d array. nan is largest.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.reference import selection
from rushlight._backends.reference.layout import as_new, copied_as
from rushlight._backends.reference.reduce import exact, in_order

KERNELS = (
    "bincount histc histogram isin searchsorted sort take_along topk unique unique_along"
).split()


def sort(a: np.ndarray, axis: int | None, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """(values, indices), stable."""
    if axis is None:
        return a.copy(), np.zeros((), np.int64)
    order = _order(exact(a), axis, descending)
    return copied_as(a, np.take_along_axis(a, order, axis)), copied_as(a, order)


def _order(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """The stable order, nan largest."""
    if x.dtype.itemsize <= 4 and x.size and x.shape[axis] < 1 << 32:
        return _order_by_key(x, axis, descending)
    if not descending:
        return np.argsort(x, axis, kind="stable")
    # ascending order of the reversed array, reversed: equal ones stay in order, nan comes first
    order = np.argsort(np.flip(x, axis), axis, kind="stable")
    return x.shape[axis] - 1 - np.flip(order, axis)


def _order_by_key(x: np.ndarray, axis: int, descending: bool) -> np.ndarray:
    """As `_order`, for up to 32 bits: one sort of 64-bit integers, the value above, the place below.

    NumPy sorts plain integers with vector instructions; its stable argsort has none.
    """
    if x.dtype.kind == "f":
        x = x.astype(np.float32) + np.float32(0)  # -0 and 0 are equal
        bits = x.view(np.uint32)
        low = np.where(bits >> 31, ~bits, bits | np.uint32(1 << 31))
        low[np.isnan(x)] = np.uint32(0xFFFFFFFF)
        keys = low.astype(np.uint64)
    else:
        keys = (x.astype(np.int64) + (1 << 31)).astype(np.uint64)
    if descending:
        keys ^= np.uint64(0xFFFFFFFF)
    keys <<= np.uint64(32)
    shape = [1] * x.ndim
    shape[axis] = -1
    keys |= np.arange(x.shape[axis], dtype=np.uint64).reshape(shape)
    keys.sort(axis)
    keys &= np.uint64(0xFFFFFFFF)
    return keys.view(np.int64)


def topk(
    a: np.ndarray, k: int, axis: int | None, largest: bool, ordered: bool
) -> tuple[np.ndarray, np.ndarray]:
    """(values, indices) of the k largest or smallest, the most extreme first, or as they are found."""
    if axis is None:
        return a.copy(), np.zeros((), np.int64)
    x = exact(a)
    order = first(x, k, axis, largest)
    if k:
        order = _chosen_by(x, order, k, axis, largest, ordered)
    return in_order(np.take_along_axis(a, order, axis)), in_order(order)


def first(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray:
    """The indices of the k largest or smallest, in order."""
    n = x.shape[axis]
    if 0 < k <= 8 and n > 64 and x.dtype.kind == "f":
        order = _first_few(x, k, axis, largest)
        if order is not None:
            return order
    some = (slice(None),) * (axis % x.ndim)
    if 0 < k < n // 4 and n > 64:  # only the chosen ones are sorted
        if largest:
            chosen = np.argpartition(x, n - k, axis)[(*some, slice(n - k, None))]
        else:
            chosen = np.argpartition(x, k - 1, axis)[(*some, slice(k))]
        chosen = np.sort(chosen, axis)
        order = _order(np.take_along_axis(x, chosen, axis), axis, largest)
        return np.take_along_axis(chosen, order, axis)
    return _order(x, axis, largest)[(*some, slice(k))]


def _chosen_by(
    x: np.ndarray, order: np.ndarray, k: int, axis: int, largest: bool, ordered: bool
) -> np.ndarray:
    """`order`, with PyTorch's indices in rows where equal elements, or no order, leave a choice."""
    x, order = np.moveaxis(x, axis, -1), np.moveaxis(order, axis, -1).copy()
    if ordered or k * selection.HEAPED <= x.shape[-1]:
        choice = has_ties(x, np.take_along_axis(x, order, -1))
    else:
        choice = np.ones(x.shape[:-1], np.bool_)
    if choice.any():
        ranks, _ = selection.ranked(x[choice])
        if largest:
            ranks = -ranks
        order[choice] = [selection.first_ones(row, k, ordered) for row in ranks]
    return np.moveaxis(order, -1, axis)


def has_ties(x: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """In which rows equal elements leave a choice of those that are `chosen`, which are in order."""
    last = chosen[..., -1:]
    choice = selection.same(chosen[..., 1:], chosen[..., :-1]).any(-1)
    return choice | (selection.same(x, last).sum(-1) > selection.same(chosen, last).sum(-1))


def _first_few(x: np.ndarray, k: int, axis: int, largest: bool) -> np.ndarray | None:
    """The indices of the k largest or smallest, one search each; None where a nan or inf disturbs."""
    x = np.moveaxis(x, axis, -1).copy()
    order = np.empty((*x.shape[:-1], k), np.int64)
    taken = x.dtype.type(-np.inf if largest else np.inf)
    for i in range(k):
        at = (x.argmax(-1) if largest else x.argmin(-1))[..., None]
        found = np.take_along_axis(x, at, -1)
        if not np.isfinite(found).all():
            return None
        order[..., i : i + 1] = at
        np.put_along_axis(x, at, taken, -1)
    return np.moveaxis(order, -1, axis)


def unique(
    a: np.ndarray, consecutive: bool, indices: bool, lengths: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, inverse of the shape of `a`, counts) of the elements, sorted unless `consecutive`.

    Without `indices` the inverse is not wanted, without `lengths` counts are not: any array is in their stead.
    """
    flat = a.reshape(-1)
    if not indices and not consecutive:
        s = np.sort(exact(flat)).astype(a.dtype, copy=False)
        return _runs(s, s[1:] != s[:-1], None, False)
    order = None if consecutive else _order(exact(flat), 0, False)
    s = flat if order is None else flat[order]
    values, inverse, counts = _runs(s, s[1:] != s[:-1], order, indices)
    return values, inverse.reshape(a.shape) if indices else inverse, counts


def unique_along(
    a: np.ndarray, axis: int, consecutive: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(values, inverse, counts) of the slices along `axis`, in the order of their elements."""
    rows = np.ascontiguousarray(np.moveaxis(a, axis, 0)) if a.ndim else a.reshape(1)
    flat = rows.reshape(len(rows), -1) if rows.size else rows.reshape(len(rows), 0)
    order = None
    if not consecutive and flat.shape[1]:
        order = np.lexsort(exact(flat).T[::-1])
    s = rows if order is None else rows[order]
    keys = flat if order is None else flat[order]
    values, inverse, counts = _runs(s, (keys[1:] != keys[:-1]).any(1), order)
    return np.moveaxis(as_new(values), 0, axis) if a.ndim else values, inverse, counts


def _runs(s: np.ndarray, new: np.ndarray, order: np.ndarray | None, indices: bool = True) -> tuple:
    """Each run of `s` once; the run of each original place; their lengths. `new`: a run starts."""
    n = len(s)
    if order is None and n and not indices:
        starts = np.concatenate([np.zeros(1, np.int64), np.flatnonzero(new) + 1])
        return s[starts], starts, np.diff(starts, append=n)
    starts = np.concatenate([np.zeros(min(n, 1), np.int64), np.flatnonzero(new) + 1])
    run = np.zeros(n, np.int64)
    run[1:] = np.cumsum(new)
    inverse = run
    if order is not None:
        inverse = np.empty(n, np.int64)
        inverse[order] = run
    return s[starts], inverse, np.diff(starts, append=n)


def take_along(a: np.ndarray, order: np.ndarray) -> np.ndarray:
    """The elements of `a` along its last dimension in the given order."""
    return np.take_along_axis(a, order, -1)


def searchsorted(seq: np.ndarray, a: np.ndarray, right: bool, dtype: np.dtype) -> np.ndarray:
    """Where each element of `a` goes into `seq`, row by row when `seq` has several dimensions."""
    side: Any = "right" if right else "left"
    seq, a = exact(seq), exact(a)
    if seq.dtype.kind == "f" and np.isnan(seq).any():
        return _halving(np.broadcast_to(seq, a.shape[:-1] + seq.shape[-1:]), a, right).astype(dtype)
    if seq.ndim == 1:
        return np.asarray(np.searchsorted(seq, a, side), dtype)
    result = np.empty(a.shape, dtype)
    for at in np.ndindex(*a.shape[:-1]):
        result[at] = np.searchsorted(seq[at], a[at], side)
    return result


def _halving(seq: np.ndarray, a: np.ndarray, right: bool) -> np.ndarray:
    """Binary search step by step: a nan counts as smaller than what is searched, wherever it is met."""
    low, high = np.zeros(a.shape, np.int64), np.full(a.shape, seq.shape[-1], np.int64)
    while (low < high).any():
        middle = (low + high) // 2
        if a.ndim:
            met = np.take_along_axis(seq, np.minimum(middle, seq.shape[-1] - 1), -1)
        else:
            met = seq[np.minimum(middle, seq.shape[-1] - 1)]
        up = ~((met > a) if right else (met >= a)) & (low < high)
        low, high = np.where(up, middle + 1, low), np.where(up, high, np.minimum(middle, high))
    return low


def isin(a: np.ndarray, tests: np.ndarray, invert: bool) -> Any:
    """Which elements of `a` are in `tests`."""
    return np.isin(exact(a), exact(tests), invert=invert).reshape(a.shape)


# -- counting --------------------------------------------------------------------------------------


def bincount(a: np.ndarray, weights: np.ndarray | None, minlength: int) -> np.ndarray:
    """Counts (int64), or sums of weights in their dtype if that is float32, else float64. ValueError for
    negative numbers, OverflowError for the largest int64: NumPy writes in front of its counts."""
    if a.size and (top := a.max()) >= (1 << 63) - 1:
        raise ValueError("negative numbers") if a.min() < 0 else OverflowError(top)
    if weights is None:
        return np.bincount(a, None, minlength)
    r = np.bincount(a, weights.astype(np.float64), minlength)
    return r.astype(np.float32) if weights.dtype == np.float32 else r


def histc(a: np.ndarray, bins: int, low: float, high: float) -> np.ndarray:
    """Counts in equal bins; the last one contains its right end."""
    x = exact(a).reshape(-1)
    x = x[(x >= low) & (x <= high)]
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    if x.dtype == np.float32 and (high - low) * bins > np.finfo(np.float32).max:
        x = x.astype(np.float64)  # numbers of bins would be infinite
    kind = x.dtype.type
    at = ((x - kind(low)) * kind(bins) / (kind(high) - kind(low))).astype(np.int64)
    return np.bincount(np.minimum(at, bins - 1), minlength=bins).astype(a.dtype)


def histogram(
    points: np.ndarray, edges: list, weights: np.ndarray | None, density: bool
) -> np.ndarray:
    """Counts (or weights) of the rows of `points` between the edges of each column."""
    shape = tuple(len(e) - 1 for e in edges)
    flat, inside = np.zeros(len(points), np.int64), np.ones(len(points), bool)
    for d, e in enumerate(edges):
        x = points[:, d]
        at = np.searchsorted(e, x, "right") - 1
        at -= x == e[-1]
        inside &= (at >= 0) & (at < len(e) - 1) & (x <= e[-1])
        flat = flat * shape[d] + at
    w = None if weights is None else weights[inside]
    n = int(np.prod(shape))
    r = np.bincount(flat[inside], w, n).astype(points.dtype).reshape(shape)
    return densities(r, edges) if density else r


def densities(r: np.ndarray, edges: list) -> np.ndarray:
    """Counts over their sum and the volume of their bins."""
    dtype, r = r.dtype, r / r.sum()
    for d, e in enumerate(edges):
        r = r / np.diff(e).reshape([-1 if i == d else 1 for i in range(len(edges))])
    return r.astype(dtype, copy=False)
