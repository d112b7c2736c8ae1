"""Pooling kernels on NumPy arrays, over the last `len(kernel)` dimensions.

Sums and maxima over windows are taken one dimension after the other: k + k steps instead of k * k.
Where the place of a maximum is wanted, windows are given by tables of positions, so that ordinary,
adaptive and fractional pooling are one function.
"""

from __future__ import annotations

from functools import reduce
from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends.reference.reduce import upcast
from rushlight._backends.tables import bounded_cache

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rushlight._backends.windows import Windows

    Ints = tuple[int, ...]
    Divisor = tuple[bool, int | None]

KERNELS = (
    "adaptive_averages adaptive_averages_adjoint adaptive_maxima add_at_indices fractional_maxima "
    "max_pool max_pool_indices put_at_indices take_at_indices window_averages "
    "window_averages_adjoint"
).split()

CHUNK = 1 << 18  # elements worked on at a time, so that the steps of one chunk find it in the cache


def along(a: np.ndarray, axis: int, where: slice) -> np.ndarray:
    """`a` with `where` taken along `axis`, a view."""
    return a[(slice(None),) * axis + (where,)]


def reached(
    k: int, n: int, out: int, stride: int, padding: int, dilation: int
) -> tuple[slice, slice]:
    """For offset `k` of a window: the outputs for which it is inside the input, and where it is."""
    at = k * dilation - padding
    low = max(0, -(at // stride))
    high = min(out, (n - 1 - at) // stride + 1)
    if high <= low:
        return slice(0, 0), slice(0, 0)
    return slice(low, high), slice(at + low * stride, at + (high - 1) * stride + 1, stride)


def lowest(dtype: np.dtype) -> object:
    if dtype.kind in "iu":
        return np.iinfo(dtype).min
    return False if dtype.kind == "b" else -np.inf


def zeros(shape: Ints, like: np.ndarray) -> np.ndarray:
    """Zeros in the order of memory of `like`, which has as many dimensions."""
    if like.flags.c_contiguous:
        return np.zeros(shape, like.dtype)
    return np.zeros_like(like, shape=shape)


def empty(shape: Ints, like: np.ndarray) -> np.ndarray:
    if like.flags.c_contiguous:
        return np.empty(shape, like.dtype)
    return np.empty_like(like, shape=shape)


def pieces(n: int, size: int) -> Iterator[slice]:
    """Slices of a first dimension of length `n`, `size` elements together, of about CHUNK elements."""
    step = max(1, CHUNK * n // max(size, 1))
    for at in range(0, n, step):
        yield slice(at, at + step)


def flat(a: np.ndarray, nd: int) -> np.ndarray:
    """All leading dimensions as one, where that needs no copy."""
    if a.flags.c_contiguous and a.ndim > nd + 1:
        return a.reshape(-1, *a.shape[a.ndim - nd :])
    return a


# -- maxima ----------------------------------------------------------------------------------------


def max_pool(x: np.ndarray, windows: Windows) -> np.ndarray:
    """The maximum of each window; NaN where the window has one."""
    steps, nd = windows.steps, len(windows.kernel)
    y = empty((*x.shape[: x.ndim - nd], *windows.out), x)
    rows, results = flat(x, nd), flat(y, nd)
    if results.ndim == nd or rows.ndim != results.ndim:
        y[...] = _max_windows(x, *steps)
        return y
    for part in pieces(len(rows), rows.size):
        results[part] = _max_windows(rows[part], *steps)
    return y


def _max_windows(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
) -> np.ndarray:
    nd = len(kernel)
    # the dimension with the fewest elements per step last in memory comes last: rows stay long
    for i in range(nd):
        axis, n = x.ndim - nd + i, x.shape[x.ndim - nd + i]
        k, s, p, d, m = kernel[i], stride[i], padding[i], dilation[i], out[i]
        inside = p == 0 and (m - 1) * s + (k - 1) * d < n
        shape = (*x.shape[:axis], m, *x.shape[axis + 1 :])
        if inside:
            spans = [along(x, axis, slice(j * d, j * d + (m - 1) * s + 1, s)) for j in range(k)]
            y = np.maximum(spans[0], spans[1]) if k > 1 else spans[0]
            for span in spans[2:]:
                np.maximum(y, span, out=y)
        else:
            y = empty(shape, x)
            y[...] = lowest(x.dtype)
            for j in range(k):
                to, at = reached(j, n, m, s, p, d)
                part = along(y, axis, to)
                np.maximum(part, along(x, axis, at), out=part)
        x = y
    return x


# -- maxima and their indices -----------------------------------------------------------------------


def max_pool_indices(x: np.ndarray, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, indices), of the windows of `max_pool`; indices count through a plane, row by row."""
    sizes = windows.sizes
    tables = window_tables(sizes, *windows.steps)
    filled = [(t.max(0) < n) & (t.min(0) >= 0) for t, n in zip(tables, sizes, strict=True)]
    if all(f.all() for f in filled):
        return max_by_tables(x, tables)
    inside = [np.clip(t, 0, n - 1) for t, n in zip(tables, sizes, strict=True)]
    best, indices = max_by_tables(x, inside)
    lowest = np.iinfo(x.dtype).min if x.dtype.kind in "iu" else -np.inf
    best[..., ~reduce(np.logical_and.outer, filled)] = lowest  # windows all of padding
    return best, indices


def window_tables(
    sizes: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
) -> list[np.ndarray]:
    """For each dimension a table (kernel, out) of positions; those outside repeat the nearest inside
    one of their window, which changes neither the maximum nor which place comes first."""
    tables = []
    for n, k, s, p, d, m in zip(sizes, kernel, stride, padding, dilation, out, strict=True):
        start = np.arange(m) * s - p
        first = np.where(start < 0, start + -(start // d) * d, start)
        last = start + (n - 1 - start) // d * d
        table = start + np.arange(k)[:, None] * d
        tables.append(np.clip(table, first, np.maximum(last, first)))
    return tables


def adaptive_tables(sizes: Ints, out: Ints) -> list[np.ndarray]:
    """The tables of windows [i * n // m, ceil((i + 1) * n / m))."""
    tables = []
    for n, m in zip(sizes, out, strict=True):
        start, end = adaptive_windows(n, m)
        longest = int((end - start).max()) if m else 0
        tables.append(np.minimum(start + np.arange(longest)[:, None], end - 1))
    return tables


def adaptive_windows(n: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    i = np.arange(m)
    return i * n // max(m, 1), -(-(i + 1) * n // max(m, 1))


def adaptive_maxima(x: np.ndarray, out: Ints) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, indices) of the windows of adaptive pooling."""
    return max_by_tables(x, adaptive_tables(x.shape[x.ndim - len(out) :], out))


def max_by_tables(x: np.ndarray, tables: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, indices): indices count through the last `len(tables)` dimensions of `x`, row by row."""
    nd = len(tables)
    sizes = x.shape[x.ndim - nd :]
    out = tuple(t.shape[-1] for t in tables)
    shape = (*x.shape[: x.ndim - nd], *out)
    if 0 in shape:
        return empty(shape, x), np.empty(shape, np.int64)
    best = indices = None
    may_be_nan = x.dtype.kind in "fV"
    for k in product(*(range(len(t)) for t in tables)):
        rows = [t[i] for t, i in zip(tables, k, strict=True)]
        grid = np.ix_(*rows)
        v = x[(..., *grid)]
        at = grid[0]
        for i in range(1, nd):
            at = at * sizes[i] + grid[i]
        if best is None:
            best = empty(shape, x)
            best[...] = v
            indices = np.empty_like(best, dtype=np.int64)
            indices[...] = at
            continue
        better = v > best
        if may_be_nan:
            better |= v != v
        np.copyto(best, v, where=better)
        np.copyto(indices, np.broadcast_to(at, shape), where=better)
    assert best is not None and indices is not None
    return best, indices


def fractional_starts(
    samples: np.ndarray, sizes: Ints, kernel: Ints, out: Ints, order: Sequence[int]
) -> list[np.ndarray]:
    """For each dimension where the windows of each plane begin, (N, C, out)."""
    starts = []
    for column, size, k, m in zip(order, sizes, kernel, out, strict=True):
        u = samples[:, :, column, None]
        step = u.dtype.type(size - k) / u.dtype.type(max(m - 1, 1))
        i = np.arange(m).astype(u.dtype)  # all is rounded to the dtype of the samples
        at = ((i + u) * step).astype(np.int64) - (u * step).astype(np.int64)
        at[..., -1:] = size - k
        starts.append(at)
    return starts


def fractional_maxima(
    x: np.ndarray, samples: np.ndarray, kernel: Ints, out: Ints, order: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, indices) of (N, C, *sizes), in steps of random length: samples (N, C, len(sizes)) are uniform, order
    tells which of them is which dimension's."""
    starts = fractional_starts(samples, x.shape[2:], kernel, out, order)
    n, c = x.shape[:2]
    y, indices = np.empty((n, c, *out), x.dtype), np.empty((n, c, *out), np.int64)
    for i, j in product(range(n), range(c)):
        tables = [s[i, j] + np.arange(k)[:, None] for s, k in zip(starts, kernel, strict=True)]
        y[i, j], indices[i, j] = max_by_tables(x[i, j], tables)
    return y, indices


def add_at_indices(g: np.ndarray, indices: np.ndarray, sizes: Ints) -> np.ndarray:
    """Zeros over `sizes` with `g` added at `indices`, plane by plane."""
    nd = len(sizes)
    lead = g.shape[: g.ndim - nd]
    planes, each = prod(lead), prod(sizes)
    dtype = np.float32 if g.dtype.itemsize == 2 and g.dtype.kind in "fV" else g.dtype
    total = np.zeros(planes * each, dtype)
    at = (
        indices.reshape(planes, prod(indices.shape[len(lead) :]))
        + np.arange(planes)[:, None] * each
    )
    np.add.at(total, at.ravel(), g.reshape(-1).astype(dtype, copy=False))
    result = total.reshape(*lead, *sizes).astype(g.dtype, copy=False)
    if not g.flags.c_contiguous:
        like = empty(result.shape, g)
        like[...] = result
        return like
    return result


def take_at_indices(x: np.ndarray, indices: np.ndarray, nd: int) -> np.ndarray:
    """`x` at `indices`, plane by plane."""
    planes = prod(x.shape[: x.ndim - nd])
    rows = x.reshape(planes, prod(x.shape[x.ndim - nd :]))
    at = indices.reshape(planes, prod(indices.shape[x.ndim - nd :]))
    return np.take_along_axis(rows, at, 1).reshape(indices.shape)


def put_at_indices(x: np.ndarray, indices: np.ndarray, sizes: Ints) -> np.ndarray:
    """Zeros over `sizes` with `x` written at `indices`: of several values the last stays."""
    nd = len(sizes)
    lead = x.shape[: x.ndim - nd]
    planes, each = prod(lead), prod(sizes)
    bad = indices[(indices < 0) | (indices >= each)]
    if bad.size:
        volume = "x".join(map(str, sizes))
        raise RuntimeError(
            f"Found an invalid max index: {bad[0]} (output volumes are of size {volume})"
        )
    y = np.zeros((planes, each), x.dtype)
    count = prod(x.shape[len(lead) :])
    np.put_along_axis(y, indices.reshape(planes, count), x.reshape(planes, count), 1)
    return y.reshape(*lead, *sizes)


# -- sums ------------------------------------------------------------------------------------------


def window_sums(x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, out: Ints) -> np.ndarray:
    """The sum of each window, zeros beyond the edge; half precision summed (and left) in float32."""
    nd = len(kernel)
    x = upcast(x)
    for i in range(nd):
        axis, n = x.ndim - nd + i, x.shape[x.ndim - nd + i]
        k, s, p, m = kernel[i], stride[i], padding[i], out[i]
        if p == 0 and (m - 1) * s + k <= n:  # all windows inside: no zeros to start from
            spans = [along(x, axis, slice(j, j + (m - 1) * s + 1, s)) for j in range(k)]
            y = spans[0] + spans[1] if k > 1 else spans[0]
            for span in spans[2:]:
                y += span
        else:
            y = zeros((*x.shape[:axis], m, *x.shape[axis + 1 :]), x)
            for j in range(k):
                to, at = reached(j, n, m, s, p, 1)
                part = along(y, axis, to)
                part += along(x, axis, at)
        x = y
    return x


def window_sums_adjoint(
    g: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, sizes: Ints
) -> np.ndarray:
    """The transpose of `window_sums`: each value of `g` added to its whole window."""
    nd = len(kernel)
    g = upcast(g)
    for i in reversed(range(nd)):
        axis, m = g.ndim - nd + i, g.shape[g.ndim - nd + i]
        k, s, p, n = kernel[i], stride[i], padding[i], sizes[i]
        shape = (*g.shape[:axis], n, *g.shape[axis + 1 :])
        x = empty(shape, g) if s == k and p == 0 and m * s == n else zeros(shape, g)
        for j in range(k):
            to, at = reached(j, n, m, s, p, 1)
            if s >= k:  # windows do not meet
                along(x, axis, at)[...] = along(g, axis, to)
            else:
                part = along(x, axis, at)
                part += along(g, axis, to)
        g = x
    return g


@bounded_cache(256)
def window_counts(windows: Windows, divisor: Divisor) -> np.ndarray | int:
    """By how much each window's sum is divided: as many elements as it has, its padding included or not, or a
    given number."""
    include_pad, override = divisor
    if override is not None:
        return override
    total = np.ones((), np.int64)
    w = windows
    for k, s, p, n, m in zip(w.kernel, w.stride, w.padding, w.sizes, w.out, strict=True):
        start = np.arange(m) * s - p
        end = np.minimum(start + k, n + p)
        if not include_pad:
            start, end = np.maximum(start, 0), np.minimum(end, n)
        total = total[..., None] * np.maximum(end - start, 1)
    return total


def adaptive_sums(x: np.ndarray, out: Ints) -> np.ndarray:
    """The sums over the windows of adaptive pooling; `adaptive_sums(g, sizes)` is the transpose, since
    input j is in window i exactly when window j of the way back has i."""
    nd = len(out)
    x = upcast(x)
    for i, m in enumerate(out):
        axis, n = x.ndim - nd + i, x.shape[x.ndim - nd + i]
        if m == n:
            continue
        if m == 0 or x.size == 0:
            x = zeros((*x.shape[:axis], m, *x.shape[axis + 1 :]), x)
            continue
        if m == 1:
            x = x.sum(axis, keepdims=True)
            continue
        start, end = adaptive_windows(n, m)
        y = zeros((*x.shape[:axis], m, *x.shape[axis + 1 :]), x)
        for j in range(int((end - start).max())):
            has = np.flatnonzero(start + j < end)
            index = (slice(None),) * axis
            if len(has) == m:
                y += x[(*index, start + j)]
            else:
                y[(*index, has)] += x[(*index, start[has] + j)]
        x = y
    return x


@bounded_cache(256)
def adaptive_counts(sizes: Ints, out: Ints) -> np.ndarray:
    """The number of inputs in each window of adaptive pooling, shape `out`."""
    total = np.ones((), np.int64)
    for n, m in zip(sizes, out, strict=True):
        start, end = adaptive_windows(n, m)
        total = total[..., None] * (end - start)
    return total


def quotient(total: np.ndarray, count: np.ndarray | int, dtype: np.dtype) -> np.ndarray:
    """`total / count` in `dtype`; integers are divided towards zero."""
    if dtype.kind in "iu":
        sign = np.sign(total) * np.sign(count)
        return (sign * (np.abs(total) // np.abs(count))).astype(dtype)
    if isinstance(count, np.ndarray):
        count = count.astype(total.dtype)
    return (total / count).astype(dtype, copy=False)


def window_averages(x: np.ndarray, windows: Windows, divisor: Divisor) -> np.ndarray:
    """The sum of each window divided by its `window_counts`."""
    w = windows
    total = window_sums(x, w.kernel, w.stride, w.padding, w.out)
    return quotient(total, window_counts(w, divisor), x.dtype)


def window_averages_adjoint(g: np.ndarray, windows: Windows, divisor: Divisor) -> np.ndarray:
    """The transpose of `window_averages`."""
    w = windows
    each = quotient(g, window_counts(w, divisor), g.dtype)
    total = window_sums_adjoint(each, w.kernel, w.stride, w.padding, w.sizes)
    return total.astype(g.dtype, copy=False)


def adaptive_averages(x: np.ndarray, out: Ints) -> np.ndarray:
    """The averages of the windows of adaptive pooling."""
    count = adaptive_counts(x.shape[x.ndim - len(out) :], out)
    return quotient(adaptive_sums(x, out), count, x.dtype)


def adaptive_averages_adjoint(g: np.ndarray, sizes: Ints) -> np.ndarray:
    """The transpose of `adaptive_averages` of planes of `sizes`."""
    count = adaptive_counts(sizes, g.shape[g.ndim - len(sizes) :])
    return adaptive_sums(quotient(g, count, g.dtype), sizes).astype(g.dtype, copy=False)
