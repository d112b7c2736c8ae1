"""Pooling as machine code; see `__init__.py` for when it runs, `_codegen/kernels/pool.py` for how.

Arrays are row-major, or channels last in two dimensions; all else, and dtypes that kernels do not
know, are the reference's.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.llvm import extremes, reduce, resample, threshold
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import pool as reference
from rushlight._codegen.kernels import pool as kernels
from rushlight._codegen.kernels import pool_last
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import BOOL, FULL, I64, REDUCED

if TYPE_CHECKING:
    from collections.abc import Sequence

    Ints = tuple[int, ...]
    Window = tuple[Ints, ...]  # kernel, stride, padding, dilation, sizes of the result

SMALL = threshold(256)  # elements from which a kernel takes less time than NumPy's passes
LONG = 64  # elements of a window in one dimension
LARGE = 1 << 30  # places in a plane, and columns beyond its ends, fit into 32 bits


def fits(a: Any, sizes: Ints, *around: Ints) -> bool:
    """Whether it is a row-major array of a dtype that kernels know, of planes of `sizes` at its end;
    windows do not reach far beyond them."""
    return (
        a.__class__ is np.ndarray
        and a.size >= SMALL
        and a.size > 0
        and a.flags.carray
        and of(a.dtype) is not None
        and a.dtype != BOOL
        and len(sizes) <= 3
        and prod(sizes) < LARGE
        and all(min(each) >= 0 and max(each) < LARGE // 64 for each in around)
        and not any(0 in each for each in around[:2])  # sizes and steps of windows
    )


def three(sizes: Ints, fill: int) -> Ints:
    return (fill,) * (3 - len(sizes)) + tuple(sizes)


def numbers(
    x_sizes: Ints, out: Ints, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints = ()
) -> list[int]:
    """All of them, of three dimensions each, in the order in which kernels want them."""
    ones = (three(a, 1) for a in (x_sizes, out, kernel, stride))
    dilations = three(dilation, 1) if dilation else ()
    return [i for each in (*ones, three(padding, 0), dilations) for i in each]


def step(a: np.ndarray, stride: Ints) -> int | None:
    """The distance of windows where a kernel is made for it, 0 for a distance that it is told; None
    for half types then: what is gathered is not widened."""
    if stride[-1] in (1, 2, 4):
        return stride[-1]
    return 0 if a.dtype.itemsize >= 4 else None


# -- one window ----------------------------------------------------------------------------------------


def is_whole(sizes: Ints, kernel: Ints, padding: Ints, out: Ints) -> bool:
    """Whether the only window is the whole plane: then it is reduced like any row."""
    return tuple(sizes) == tuple(kernel) and prod(out) == 1 < prod(kernel) and not any(padding)


def whole_places(x: np.ndarray, nd: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The maximum of each plane and its place, both [planes, 1]; None with NaNs, of which the last
    counts here."""
    planes = x.reshape(-1, prod(x.shape[x.ndim - nd :]))
    y = extremes.amax(planes, 1, True)
    if x.dtype.kind not in "iu" and np.isnan(y).any():
        return None
    return y, extremes.argmax(planes, 1, True)


# -- channels last -----------------------------------------------------------------------------------


def images(a: Any, kernel: Ints) -> np.ndarray | None:
    """(N, C, H, W) with the channels last in memory as [N, H, W, C]; None for what is not."""
    if a.__class__ is not np.ndarray or a.ndim != 4 or len(kernel) != 2 or a.flags.c_contiguous:
        return None
    rows = a.transpose(0, 2, 3, 1)
    return rows if rows.flags.carray else None


def back(rows: np.ndarray) -> np.ndarray:
    return rows.transpose(0, 3, 1, 2)


def meeting(kernel: Ints, stride: Ints, padding: Ints, sizes: Ints, out: Ints) -> tuple[bool, bool]:
    """Whether windows do not meet, and whether besides they leave nothing out."""
    apart = all(k <= s for k, s in zip(kernel, stride, strict=True))
    tiled = kernel == stride and max(padding) == 0
    tiled = tiled and all(k * m == n for k, m, n in zip(kernel, out, sizes, strict=True))
    return apart, tiled


def max_last(places: bool, x: np.ndarray, window: Window) -> tuple[np.ndarray, np.ndarray] | None:
    kernel, stride, padding, dilation, out = window
    rows = images(x, kernel)
    if rows is None or 0 in out or not fits(rows, rows.shape[1:3], kernel, stride, dilation, out):
        return None
    y = np.empty((len(rows), *out, rows.shape[3]), x.dtype)
    at = np.empty(y.shape if places else (1, 1, 1, 1), np.int64)
    run = pool_last.max_windows.compiled(PLACES=places, T=of(x.dtype))
    sizes = (*rows.shape[1:3], *out, *kernel, *stride, *padding, *dilation)
    run(rows, y, at, len(rows), rows.shape[3], *sizes)
    return back(y), back(at)


def averages_last(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, out: Ints, count: np.ndarray | int
) -> np.ndarray | None:
    rows = images(x, kernel)
    if (
        rows is None
        or 0 in out
        or x.dtype.kind in "iu"
        or not fits(rows, rows.shape[1:3], kernel, stride)
    ):
        return None
    t = of(x.dtype)
    assert t is not None
    y = np.empty((len(rows), *out, rows.shape[3]), x.dtype)
    run = pool_last.averages.compiled(T=t, R=t.loaded)
    sizes = (*rows.shape[1:3], *out, *kernel, *stride, *padding)
    run(rows, divisors(count, out, t.loaded.np), y, len(rows), rows.shape[3], *sizes)
    return back(y)


def averages_adjoint_last(
    g: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, sizes: Ints, count: np.ndarray | int
) -> np.ndarray | None:
    rows = images(g, kernel)
    if (
        rows is None
        or 0 in sizes
        or g.dtype not in FULL
        or not fits(rows, rows.shape[1:3], kernel, stride, sizes)
    ):
        return None
    out = rows.shape[1:3]
    gx = np.empty((len(rows), *sizes, rows.shape[3]), g.dtype)
    apart, tiled = meeting(kernel, stride, padding, sizes, out)
    run = pool_last.averages_gradient.compiled(APART=apart, TILED=tiled, R=of(g.dtype))
    numbers = (*sizes, *out, *kernel, *stride, *padding)
    run(rows, divisors(count, out, g.dtype), gx, len(rows), rows.shape[3], *numbers)
    return back(gx)


# -- row-major ---------------------------------------------------------------------------------------


def max_row_major(
    places: bool, x: np.ndarray, window: Window
) -> tuple[np.ndarray, np.ndarray] | None:
    kernel, stride, padding, dilation, out = window
    nd = len(kernel)
    if nd == 3 and not x.flags.c_contiguous:
        x = np.ascontiguousarray(x)
    sizes = x.shape[x.ndim - nd :]
    if not fits(x, sizes, kernel, stride, padding, dilation, out) or 0 in out:
        return None
    if is_whole(sizes, kernel, padding, out) and max(dilation) == 1:
        shape = (*x.shape[: x.ndim - nd], *out)
        if not places:
            over = tuple(range(x.ndim - nd, x.ndim))
            return extremes.amax(x, over, True), np.empty(0, np.int64)
        whole = whole_places(x, nd)
        if whole is not None:
            return whole[0].reshape(shape), whole[1].reshape(shape)
    if (s := step(x, stride)) is None:
        return None
    y = np.empty((*x.shape[: x.ndim - nd], *out), x.dtype)
    at = np.empty(y.shape if places else 0, np.int64)
    k = kernel[-1] if kernel[-1] <= kernels.UNROLLED else 0
    run = kernels.max_windows.compiled(PLACES=places, KW=k, S=s, T=of(x.dtype))
    run(x, y, at, x.size // prod(sizes), *numbers(sizes, out, kernel, stride, padding, dilation))
    return y, at


def maxima(places: bool, x: np.ndarray, *window: Ints) -> tuple[np.ndarray, np.ndarray] | None:
    """(maxima, places) of arrays that kernels take; without `places` the second is anything."""
    found = max_row_major(places, x, window)
    return max_last(places, x, window) if found is None else found


@implements("max_pool")
def max_pool(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
) -> np.ndarray:
    """The maximum of each window; NaN where the window has one."""
    found = maxima(False, x, kernel, stride, padding, dilation, out)
    return found[0] if found else reference.max_pool(x, kernel, stride, padding, dilation, out)


@implements("max_pool_places")
def max_pool_places(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, places), of the windows of `max_pool`."""
    found = maxima(True, x, kernel, stride, padding, dilation, out)
    return found or reference.max_pool_places(x, kernel, stride, padding, dilation, out)


@implements("add_at_places")
def add_at_places(g: np.ndarray, places: np.ndarray, sizes: Ints) -> np.ndarray:
    """Zeros over `sizes` with `g` added at `places`, plane by plane."""
    nd, size = len(sizes), prod(sizes)
    inner = 1
    if not g.flags.c_contiguous:
        rows, at = images(g, sizes), images(places, sizes)
        if rows is None or at is None:
            return reference.add_at_places(g, places, sizes)
        inner = g.shape[1]
    else:
        rows, at = g, np.ascontiguousarray(places)
    if (
        not fits(rows, sizes)
        or rows.dtype.kind in "iu"
        or at.__class__ is not np.ndarray
        or at.dtype != I64
        or at.shape != rows.shape
        or not at.flags.carray
        or size == 0
        or (g.dtype.itemsize == 2 and size * inner > kernels.ROOM)
    ):
        return reference.add_at_places(g, places, sizes)
    count = prod(g.shape[g.ndim - nd :])
    out = np.empty(
        (len(g), *sizes, inner) if inner > 1 else (*g.shape[: g.ndim - nd], *sizes), g.dtype
    )
    wrong = np.zeros(1, np.int64)
    run = kernels.add_places.compiled(T=of(g.dtype))
    run(rows, at, out, wrong, out.size // (size * inner), count, size, inner)
    if wrong[0]:
        return reference.add_at_places(g, places, sizes)
    return back(out) if inner > 1 else out


@implements("max_by_tables")
def max_by_tables(x: np.ndarray, tables: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, places): places count through the last `len(tables)` dimensions of `x`, row by row."""
    nd = len(tables)
    x = np.ascontiguousarray(x)
    sizes, out = x.shape[x.ndim - nd :], tuple(t.shape[-1] for t in tables)
    good = all(
        t.ndim == 2 and t.dtype == np.int64 and t.size and t.min() >= 0 and t.max() < n
        for t, n in zip(tables, sizes, strict=True)
    )
    if not good or not fits(x, sizes, out) or x.dtype.itemsize < 4:
        return reference.max_by_tables(x, tables)
    y = np.empty((*x.shape[: x.ndim - nd], *out), x.dtype)
    at = np.empty(y.shape, np.int64)
    rows = [np.zeros((1, 1), np.int64)] * (3 - nd) + [np.ascontiguousarray(t) for t in tables]
    counts = [t.shape[1] for t in rows] + [t.shape[0] for t in rows]
    sizes = three(sizes, 1)
    run = kernels.max_by_tables.compiled(T=of(x.dtype))
    run(x, y, at, x.size // prod(sizes), *sizes[1:], prod(sizes), *counts, *rows)
    return y, at


@lru_cache(maxsize=256)
def adaptive_lists(n: int, m: int, dtype: np.dtype) -> resample.Lists | None:
    """The windows of adaptive pooling, from n elements to m; None where their sums are long, which lists
    add in order."""
    start, end = reference.adaptive_windows(n, m)
    if (end - start).max() > LONG:
        return None
    at = np.repeat(np.arange(m), end - start)
    place = np.concatenate([np.arange(a, b) for a, b in zip(start, end, strict=True)])
    return resample.lists(n, m, at, place, np.ones(len(at), dtype))


@implements("adaptive_sums")
def adaptive_sums(x: np.ndarray, out: Ints) -> np.ndarray:
    """The sums over the windows of adaptive pooling; half precision summed (and left) in float32."""
    sizes = x.shape[x.ndim - len(out) :]
    if x.dtype not in FULL or not x.size or 0 in out:
        return reference.adaptive_sums(x, out)
    each = [adaptive_lists(n, m, x.dtype) for n, m in zip(sizes, out, strict=True)]
    y = resample.by_lists(x, each, False)
    return reference.adaptive_sums(x, out) if y is None else y


@lru_cache(maxsize=256)
def back_lists(m: int, n: int, k: int, s: int, p: int, dtype: np.dtype) -> resample.Lists | None:
    """Which of m windows of size k, s apart from -p on, each of n elements is in."""
    window = np.repeat(np.arange(m), k)
    at = window * s - p + np.tile(np.arange(k), m)
    inside = (at >= 0) & (at < n)
    at, window = at[inside], window[inside]
    order = np.argsort(at, kind="stable")
    return resample.lists(m, n, at[order], window[order], np.ones(len(at), dtype))


def divisors(count: np.ndarray | int, out: Ints, dtype: np.dtype) -> np.ndarray:
    """By what each window's sum is divided, as an array of `dtype`."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(count, dtype), out))


@implements("window_averages")
def window_averages(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, out: Ints, count: np.ndarray | int
) -> np.ndarray:
    """The sum of each window divided by `count`, an int or an array of shape `out`."""
    found = averages_last(x, kernel, stride, padding, out, count)
    if found is not None:
        return found
    nd = len(kernel)
    sizes = x.shape[x.ndim - nd :]
    if (
        not fits(x, sizes, kernel, stride, padding, out)
        or 0 in out
        or x.dtype.kind in "iu"
        or (s := step(x, stride)) is None
    ):
        return reference.window_averages(x, kernel, stride, padding, out, count)
    if is_whole(sizes, kernel, padding, out) and np.asarray(count).item() == prod(kernel):
        return reduce.mean(x, tuple(range(x.ndim - nd, x.ndim)), True)
    y = np.empty((*x.shape[: x.ndim - nd], *out), x.dtype)
    t = of(x.dtype)
    assert t is not None
    k = kernel[-1] if kernel[-1] <= kernels.UNROLLED else 0
    run = kernels.averages.compiled(KW=k, S=s, T=t, R=t.loaded)
    by = divisors(count, out, t.loaded.np)
    run(x, by, y, x.size // prod(sizes), *numbers(sizes, out, kernel, stride, padding))
    return y


@implements("window_averages_adjoint")
def window_averages_adjoint(
    g: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, sizes: Ints, count: np.ndarray | int
) -> np.ndarray:
    """The transpose of `window_averages`."""
    nd = len(kernel)
    out = g.shape[g.ndim - nd :]
    if g.dtype in REDUCED:
        wide = window_averages_adjoint(g.astype(np.float32), kernel, stride, padding, sizes, count)
        return wide.astype(g.dtype)
    found = averages_adjoint_last(g, kernel, stride, padding, sizes, count)
    if found is not None:
        return found
    if (
        g.dtype not in FULL
        or not fits(g, out, kernel, stride, padding, sizes)
        or 0 in sizes
        or prod(sizes) >= LARGE
    ):
        return reference.window_averages_adjoint(g, kernel, stride, padding, sizes, count)
    by = divisors(count, out, g.dtype)
    if is_whole(sizes, kernel, padding, out):
        gx = np.empty((*g.shape[: g.ndim - nd], *sizes), g.dtype)
        gx[...] = g / by
        return gx
    if max(stride) == 1:  # its transpose is a sum over windows too
        back = tuple(k - 1 - p for k, p in zip(kernel, padding, strict=True))
        return window_averages(g / by, kernel, stride, back, sizes, 1)
    if not stride[-1] == kernel[-1] == 2:
        each = [
            back_lists(*dimension, g.dtype)
            for dimension in zip(out, sizes, kernel, stride, padding, strict=True)
        ]
        found = resample.by_lists(g / by, each, False)
        if found is None:
            found = reference.window_averages_adjoint(g, kernel, stride, padding, sizes, count)
        return found
    gx = np.empty((*g.shape[: g.ndim - nd], *sizes), g.dtype)
    run = kernels.averages_gradient.compiled(R=of(g.dtype))
    run(g, by, gx, g.size // prod(out), *numbers(sizes, out, kernel, stride, padding))
    return gx
