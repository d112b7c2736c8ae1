"""Pooling as machine code; see `__init__.py` for when it runs, `_codegen/kernels/pool.py` for how.

Arrays are row-major, or channels last in two dimensions; all else, and dtypes that kernels do not
know, are the reference's.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm import extremes, reduce, resample
from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order, row_major
from rushlight._backends.reference import pool as reference
from rushlight._backends.tables import Tables, bounded_cache
from rushlight._backends.windows import Windows
from rushlight._codegen.kernels import pool as kernels
from rushlight._codegen.kernels import pool_last, spans
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import BOOL, F32, FLOATING, FULL, I64, REDUCED

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Ints = tuple[int, ...]
    Divisor = tuple[bool, int | None]

LARGE = 1 << 30  # indices in a plane, and columns beyond its ends, fit into 32 bits
WHOLE = (True, None)  # a sum is divided by the size of its window
NOWHERE = np.empty(0, np.int64)  # indices that nobody asks for


class Plan(NamedTuple):
    """How windows of arrays of one dtype and layout are computed."""

    run: Callable[..., None]
    sizes: Ints  # of the plane
    out: Ints
    volume: int  # elements of the plane
    numbers: Ints
    whole: bool = (
        False  # whether the only window is the whole plane: then it is reduced like any row
    )
    counts: Any = None  # by what sums are divided


def fits(w: Windows, dtype: np.dtype) -> bool:
    """Whether kernels are made for windows over planes of a dtype; they do not reach far beyond them."""
    return (
        of(dtype) is not None
        and dtype != BOOL
        and len(w.sizes) <= 3
        and 0 < prod(w.sizes) < LARGE
        and all(0 <= i < LARGE // 64 for each in w.steps for i in each)
        and not any(0 in each for each in (w.kernel, w.stride, w.dilation, w.out))
    )


def three(sizes: Ints, fill: int) -> Ints:
    return (fill,) * (3 - len(sizes)) + tuple(sizes)


def numbers(w: Windows, dilated: bool = False) -> Ints:
    """All of them, of three dimensions each, in the order in which kernels want them."""
    ones = (three(a, 1) for a in (w.sizes, w.out, w.kernel, w.stride))
    dilation = three(w.dilation, 1) if dilated else ()
    return tuple(i for each in (*ones, three(w.padding, 0), dilation) for i in each)


def step(dtype: np.dtype, w: Windows) -> int | None:
    """The distance of windows where a kernel is made for it, 0 for a distance that it is told; None
    for half types then: what is gathered is not widened."""
    if w.stride[-1] in (1, 2, 3, 4):
        return w.stride[-1]
    return 0 if dtype.itemsize >= 4 else None


def is_whole(w: Windows) -> bool:
    return w.sizes == w.kernel and prod(w.out) == 1 < prod(w.kernel) and not any(w.padding)


def whole_indices(x: np.ndarray, nd: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The maximum of each plane and its place, both [planes, 1]; None with NaNs, of which the last
    counts here."""
    planes = x.reshape(-1, prod(x.shape[x.ndim - nd :]))
    y = extremes.amax(planes, 1, True)
    if x.dtype.kind not in "iu" and np.isnan(y).any():
        return None
    return y, extremes.argmax(planes, 1, True)


# -- channels last -----------------------------------------------------------------------------------


def images(a: Any, nd: int) -> np.ndarray | None:
    """(N, C, H, W) with the channels last in memory as [N, H, W, C]; None for what is not."""
    if a.__class__ is not np.ndarray or a.ndim != 4 or nd != 2 or a.flags.c_contiguous:
        return None
    rows = a.transpose(0, 2, 3, 1)
    return rows if rows.flags.carray else None


def back(rows: np.ndarray) -> np.ndarray:
    return rows.transpose(0, 3, 1, 2)


def plane_numbers(w: Windows) -> Ints:
    return (*w.sizes, *w.out, *w.kernel, *w.stride, *w.padding)


def windows_overlap(w: Windows) -> tuple[bool, bool]:
    """(whether windows are disjoint, whether they also cover the whole input)."""
    apart = all(k <= s for k, s in zip(w.kernel, w.stride, strict=True))
    tiled = w.kernel == w.stride and max(w.padding) == 0
    tiled = tiled and all(k * m == n for k, m, n in zip(w.kernel, w.out, w.sizes, strict=True))
    return apart, tiled


@lru_cache(maxsize=1024)
def max_plan(w: Windows, indices: bool, dtype: np.dtype, last: bool) -> Plan | None:
    """How maxima are found; None where kernels do not."""
    if not fits(w, dtype):
        return None
    if last:
        run = pool_last.max_windows.compiled(INDICES=indices, T=of(dtype))
        return Plan(run, w.sizes, w.out, prod(w.sizes), (*plane_numbers(w), *w.dilation))
    if (s := step(dtype, w)) is None:
        return None
    k = w.kernel[-1] if w.kernel[-1] <= kernels.UNROLLED and w.dilation[-1] == 1 else 0
    run = kernels.max_windows.compiled(INDICES=indices, KW=k, S=s, T=of(dtype))
    whole = is_whole(w) and max(w.dilation) == 1
    return Plan(run, w.sizes, w.out, prod(w.sizes), numbers(w, True), whole)


def maxima(indices: bool, x: Any, w: Windows) -> tuple[np.ndarray, np.ndarray] | None:
    """(maxima, indices) of arrays that kernels take; without `indices` the second is anything."""
    nd = len(w.sizes)
    if x.__class__ is not np.ndarray or x.shape[x.ndim - nd :] != w.sizes or not x.size:
        return None
    if not x.flags.carray:
        if nd == 3:
            return maxima(indices, in_order(x), w)
        rows, plan = images(x, nd), max_plan(w, indices, x.dtype, True)
        if rows is None or plan is None:
            return None
        y = np.empty((len(rows), *w.out, rows.shape[3]), x.dtype)
        at = np.empty(y.shape, np.int64) if indices else NOWHERE
        plan.run(rows, y, at, len(rows), rows.shape[3], *plan.numbers)
        return back(y), back(at) if indices else at
    plan = max_plan(w, indices, x.dtype, False)
    if plan is None:
        if x.dtype not in REDUCED:
            return None
        found = maxima(indices, x.astype(np.float32), w)
        return found and (found[0].astype(x.dtype), found[1])
    shape = (*x.shape[: x.ndim - nd], *w.out)
    if plan.whole:
        if not indices:
            return extremes.amax(x, tuple(range(x.ndim - nd, x.ndim)), True), NOWHERE
        whole = whole_indices(x, nd)
        if whole is not None:
            return whole[0].reshape(shape), whole[1].reshape(shape)
    y = np.empty(shape, x.dtype)
    at = np.empty(shape, np.int64) if indices else NOWHERE
    plan.run(x, y, at, x.size // plan.volume, *plan.numbers)
    return y, at


@implements("max_pool")
def max_pool(x: np.ndarray, windows: Windows) -> np.ndarray:
    """The maximum of each window; NaN where the window has one."""
    found = maxima(False, x, windows)
    return found[0] if found else reference.max_pool(x, windows)


@implements("max_pool_indices")
def max_pool_indices(x: np.ndarray, windows: Windows) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, indices), of the windows of `max_pool`."""
    return maxima(True, x, windows) or reference.max_pool_indices(x, windows)


@implements("add_at_indices")
def add_at_indices(g: np.ndarray, indices: np.ndarray, sizes: Ints) -> np.ndarray:
    """Zeros over `sizes` with `g` added at `indices`, plane by plane."""
    nd, size = len(sizes), prod(sizes)
    inner = 1
    if not g.flags.c_contiguous:
        rows, at = images(g, nd), images(indices, nd)
        if rows is None or at is None:
            return reference.add_at_indices(g, indices, sizes)
        inner = g.shape[1]
    else:
        rows, at = g, in_order(indices)
    if (
        rows.__class__ is not np.ndarray
        or rows.dtype not in FLOATING
        or not rows.flags.carray
        or 0 in rows.shape
        or at.__class__ is not np.ndarray
        or at.dtype != I64
        or at.shape != rows.shape
        or not at.flags.carray
        or size == 0
    ):
        return reference.add_at_indices(g, indices, sizes)
    count = prod(g.shape[g.ndim - nd :])
    half = g.dtype.itemsize == 2  # sums of a half type are float32
    if half and size * inner > kernels.ROOM and count > kernels.FEW:
        return cpu.cast(add_at_indices(cpu.cast(g, F32), indices, sizes), g.dtype)
    out = np.empty(
        (len(g), *sizes, inner) if inner > 1 else (*g.shape[: g.ndim - nd], *sizes), g.dtype
    )
    wrong = np.zeros(1, np.int64)
    kernel = kernels.add_at_few_indices if half and count <= kernels.FEW else kernels.add_at_indices
    run = kernel.compiled(T=of(g.dtype))
    run(rows, at, out, wrong, out.size // (size * inner), count, size, inner)
    if wrong[0]:
        return reference.add_at_indices(g, indices, sizes)
    return back(out) if inner > 1 else out


def of_indices(
    kernel: Compiled, x: Any, indices: Any, shape: Ints, count: int, size: int
) -> np.ndarray | None:
    """What a kernel makes of planes of row-major arrays; None for what is not for it, or where indices are outside."""
    if (
        x.__class__ is not np.ndarray
        or indices.__class__ is not np.ndarray
        or not (x.flags.carray and indices.flags.carray)
        or indices.dtype != I64
        or x.dtype not in FLOATING
        or not (count and size and x.size)
    ):
        return None
    out, wrong = np.empty(shape, x.dtype), np.zeros(1, np.int64)
    kernel[(x.dtype,)](x, indices, out, wrong, indices.size // count, count, size)
    return None if wrong[0] else out


PUT, TAKE = Compiled(kernels.put_at_indices), Compiled(kernels.take_at_indices)


@implements("put_at_indices")
def put_at_indices(x: np.ndarray, indices: np.ndarray, sizes: Ints) -> np.ndarray:
    """Zeros over `sizes` with `x` written at `indices`: of several values the last stays."""
    k = x.ndim - len(sizes)
    if x.shape == indices.shape:
        x, indices = in_order(x), in_order(indices)
        found = of_indices(PUT, x, indices, (*x.shape[:k], *sizes), prod(x.shape[k:]), prod(sizes))
        if found is not None:
            return found
    return reference.put_at_indices(x, indices, sizes)


@implements("take_at_indices")
def take_at_indices(x: np.ndarray, indices: np.ndarray, nd: int) -> np.ndarray:
    """`x` at `indices`, plane by plane."""
    k = x.ndim - nd
    if x.shape[:k] == indices.shape[:k]:
        x, indices = in_order(x), in_order(indices)
        found = of_indices(
            TAKE, x, indices, indices.shape, prod(indices.shape[k:]), prod(x.shape[k:])
        )
        if found is not None:
            return found
    return reference.take_at_indices(x, indices, nd)


# -- windows of several sizes --------------------------------------------------------------------------


class Spans(NamedTuple):
    """What the kernels of `_codegen/kernels/spans.py` are told of planes and windows."""

    arrays: tuple[np.ndarray, ...]  # where windows begin and end, in three dimensions
    numbers: Ints  # the sizes of the plane and of the result
    even: Windows | None  # the same windows, where they tile the plane
    back: tuple[np.ndarray, ...]  # the windows that each place of a dimension is in


@bounded_cache(1024)
def adaptive_spans(sizes: Ints, out: Ints) -> Spans | None:
    if 0 in sizes or 0 in out or prod(sizes) >= LARGE:
        return None
    each = [
        np.stack(reference.adaptive_windows(n, m), 1).astype(np.int64)
        for n, m in zip(three(sizes, 1), three(out, 1), strict=True)
    ]
    even = None
    if all(n % m == 0 for n, m in zip(sizes, out, strict=True)):
        nd, each_size = len(sizes), tuple(n // m for n, m in zip(sizes, out, strict=True))
        even = Windows(sizes, each_size, each_size, (0,) * nd, (1,) * nd, out)
    back = [
        np.stack(reference.adaptive_windows(m, n), 1).astype(np.int64)
        for n, m in zip(three(sizes, 1), three(out, 1), strict=True)
    ]
    return Spans(tuple(each), (*three(sizes, 1), *three(out, 1)), even, tuple(back))


def laid_out(x: Any, nd: int) -> tuple[np.ndarray, int] | None:
    """An array as the kernels want it, and the number of channels where they are last in memory, else 1; None
    where it is not for them."""
    if x.__class__ is not np.ndarray or not x.size or of(x.dtype) is None or x.dtype == BOOL:
        return None
    if x.flags.carray:
        return x, 1
    rows = images(x, nd)
    return None if rows is None else (rows, x.shape[1])


def shaped(x: np.ndarray, out: Ints, channels: int, dtype: Any) -> np.ndarray:
    """Room for a result of windows of `laid_out` arrays."""
    lead = x.shape[:1] if channels > 1 else x.shape[: x.ndim - len(out)]
    return np.empty((*lead, *out, channels) if channels > 1 else (*lead, *out), dtype)


AVERAGES = Compiled(spans.averages)


@implements("adaptive_averages")
def adaptive_averages(x: np.ndarray, out: Ints) -> np.ndarray:
    """The averages of the windows of adaptive pooling."""
    nd = len(out)
    plan = adaptive_spans(x.shape[x.ndim - nd :], out)
    if plan is not None and plan.even is not None and x.dtype in FLOATING:
        return window_averages(x, plan.even, WHOLE)
    given = laid_out(x, nd)
    if plan is None or given is None or x.dtype not in FLOATING:
        return reference.adaptive_averages(x, out)
    rows, channels = given
    y = shaped(rows, out, channels, x.dtype)
    run = AVERAGES[channels > 1, x.dtype]
    planes = y.size // (prod(out) * channels)
    run(rows, y, planes, channels, *plan.numbers, *plan.arrays)
    return back(y) if channels > 1 else y


@implements("adaptive_maxima")
def adaptive_maxima(x: np.ndarray, out: Ints) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, indices) of the windows of adaptive pooling."""
    plan = adaptive_spans(x.shape[x.ndim - len(out) :], out)
    if plan is not None and plan.even is not None:
        return max_pool_indices(x, plan.even)
    found = plan and maxima_of(x, out, plan.numbers, plan.arrays, 0)
    return found or reference.adaptive_maxima(x, out)


SPANS_MAXIMA, FRACTIONAL_SPANS = Compiled(spans.maxima), Compiled(spans.fractional_spans)


def maxima_of(
    x: Any, out: Ints, numbers: Ints, arrays: Sequence[np.ndarray], apart: int
) -> tuple[np.ndarray, np.ndarray] | None:
    nd = len(out)
    if (given := laid_out(x, nd)) is None:
        return None
    rows, channels = given
    y = shaped(rows, out, channels, x.dtype)
    at = np.empty(y.shape, np.int64)
    run = SPANS_MAXIMA[channels > 1, x.dtype]
    run(rows, y, at, y.size // (prod(out) * channels), channels, *numbers, *arrays, apart)
    return (back(y), back(at)) if channels > 1 else (y, at)


@implements("fractional_maxima")
def fractional_maxima(
    x: np.ndarray, samples: np.ndarray, kernel: Ints, out: Ints, order: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, indices) of (N, C, *sizes), in steps of random length: samples (N, C, len(sizes)) are uniform, order
    tells which of them is which dimension's."""
    good = x.__class__ is np.ndarray and samples.__class__ is np.ndarray
    if good and samples.dtype in FLOATING and samples.shape == (*x.shape[:2], len(kernel)):
        sizes, planes = x.shape[2:], x.shape[0] * x.shape[1]
        numbers = fractional_numbers(sizes, tuple(kernel), tuple(out), tuple(order))
        arrays = numbers and fractional_spans(samples, planes, sizes, kernel, out, order)
        if numbers and arrays:
            if len(kernel) == 2:
                arrays.insert(0, whole(planes))
            found = maxima_of(in_order(x), out, numbers, arrays, 1)
            if found:
                return found
    return reference.fractional_maxima(x, samples, kernel, out, order)


@lru_cache(maxsize=1024)
def fractional_numbers(sizes: Ints, kernel: Ints, out: Ints, order: Ints) -> Ints | None:
    """The sizes of planes and of their results, which the kernel takes; None where it does not."""
    nd = len(kernel)
    if not (len(sizes) == nd == len(out) == len(order) and sorted(order) == [*range(nd)]):
        return None
    for k, n, m in zip(kernel, sizes, out, strict=True):
        if not (0 < k <= n < LARGE and 0 < m < LARGE):
            return None
    return (*three(sizes, 1), *three(out, 1)) if 0 < prod(sizes) < LARGE else None


@bounded_cache(64)
def whole(planes: int) -> np.ndarray:
    """Of each plane one window of one element."""
    return np.tile(np.array([0, 1]), planes)


def fractional_spans(
    samples: np.ndarray, planes: int, sizes: Ints, kernel: Ints, out: Ints, order: Sequence[int]
) -> list[np.ndarray] | None:
    """Where the windows of each plane begin and end, dimension by dimension; None where one is outside."""
    samples, wrong = in_order(samples), np.zeros(1, np.int64)
    arrays = [np.empty((planes, m, 2), np.int64) for m in out]
    run = FRACTIONAL_SPANS[(samples.dtype,)]
    for a, *of_one in zip(arrays, order, sizes, kernel, out, strict=True):
        run(samples, a, wrong, planes, len(out), *of_one)
    return None if wrong[0] else arrays


AVERAGES_GRADIENT = Compiled(spans.averages_gradient)


@implements("adaptive_averages_adjoint")
def adaptive_averages_adjoint(g: np.ndarray, sizes: Ints) -> np.ndarray:
    """The transpose of `adaptive_averages` of planes of `sizes`."""
    nd = len(sizes)
    plan = adaptive_spans(sizes, g.shape[g.ndim - nd :])
    given = laid_out(g, nd)
    if plan is None or given is None or g.dtype not in FLOATING:
        return reference.adaptive_averages_adjoint(g, sizes)
    rows, channels = given
    x = shaped(rows, sizes, channels, g.dtype)
    planes = x.size // (prod(sizes) * channels)
    run = AVERAGES_GRADIENT[(g.dtype,)]
    run(rows, x, planes, channels, *plan.numbers, *plan.arrays, *plan.back)
    return back(x) if channels > 1 else x


# -- averages ------------------------------------------------------------------------------------------


@bounded_cache(256)
def back_lists(m: int, n: int, k: int, s: int, p: int, dtype: np.dtype) -> resample.Lists | None:
    """Which of m windows of size k, s apart from -p on, each of n elements is in."""
    window = np.repeat(np.arange(m), k)
    at = window * s - p + np.tile(np.arange(k), m)
    inside = (at >= 0) & (at < n)
    at, window = at[inside], window[inside]
    order = np.argsort(at, kind="stable")
    return resample.lists(m, n, at[order], window[order], np.ones(len(at), dtype))


@bounded_cache(1024)
def divisors(w: Windows, divisor: Divisor, dtype: np.dtype) -> np.ndarray:
    """By what each window's sum is divided, as an array of `dtype`."""
    count = np.asarray(reference.window_counts(w, divisor), dtype)
    return np.ascontiguousarray(np.broadcast_to(count, w.out))


@bounded_cache(1024)
def averages_plan(w: Windows, divisor: Divisor, dtype: np.dtype, last: bool) -> Plan | None:
    """How averages are found; None where kernels do not."""
    t = of(dtype)
    if t is None or not fits(w, dtype):
        return None
    counts = divisors(w, divisor, t.loaded.np)
    if last:
        if dtype.kind in "iu":
            return None
        run = pool_last.averages.compiled(T=t, R=t.loaded)
        return Plan(run, w.sizes, w.out, prod(w.sizes), plane_numbers(w), False, counts)
    if (s := step(dtype, w)) is None or dtype.kind in "iu" and dtype != I64:
        return None
    k = w.kernel[-1] if w.kernel[-1] <= kernels.UNROLLED else 0
    run = kernels.averages.compiled(KW=k, S=s, T=t, R=t.loaded)
    whole = dtype != I64 and is_whole(w) and counts.item() == prod(w.kernel)
    return Plan(run, w.sizes, w.out, prod(w.sizes), numbers(w), whole, counts)


_averages = Tables(
    1024
)  # by layout and windows: the kernel, the shape of its result, what it is told


def averages_call(x: np.ndarray, w: Windows, divisor: Divisor) -> tuple | None:
    """(kernel, counts, the shape of the result in memory, numbers, whether channels are innermost there) for arrays
    like `x`; None where that is not all."""
    nd = len(w.sizes)
    last = not x.flags.carray
    rows = images(x, nd) if last else x
    plan = None if rows is None else averages_plan(w, divisor, x.dtype, last)
    if plan is None or plan.whole and not last:
        return None
    if last:
        n, channels = x.shape[:2]
        return plan.run, plan.counts, (n, *w.out, channels), (n, channels, *plan.numbers), True
    shape = (*x.shape[: x.ndim - nd], *w.out)
    return plan.run, plan.counts, shape, (x.size // plan.volume, *plan.numbers), False


@implements("window_averages")
def window_averages(x: np.ndarray, windows: Windows, divisor: Divisor) -> np.ndarray:
    """The sum of each window divided by its `window_counts`."""
    w, nd = windows, len(windows.sizes)
    if x.__class__ is np.ndarray and x.size and x.flags.aligned:
        key = x.shape, x.strides, x.dtype, w, divisor
        found = _averages.get(key)
        if found is None and x.shape[x.ndim - nd :] == w.sizes:
            found = averages_call(x, w, divisor)
            if found is not None:
                _averages.keep(key, found)
        if found is not None:
            run, counts, shape, numbers, last = found
            y = np.empty(shape, x.dtype)
            run(x, counts, y, *numbers)
            return y.transpose(0, 3, 1, 2) if last else y
    if x.__class__ is np.ndarray and x.shape[x.ndim - nd :] == w.sizes and x.size:
        last = not x.flags.carray
        rows = images(x, nd) if last else x
        plan = None if rows is None else averages_plan(w, divisor, x.dtype, last)
        if plan is not None and plan.whole:
            return reduce.mean(x, tuple(range(x.ndim - nd, x.ndim)), True)
        if rows is not None and x.dtype is I64:
            return back(row_major(window_averages(row_major(x), w, divisor).transpose(0, 2, 3, 1)))
        if rows is not None and x.dtype in REDUCED and fits(w, x.dtype):
            return window_averages(x.astype(np.float32), w, divisor).astype(x.dtype)
    return reference.window_averages(x, w, divisor)


@implements("window_averages_adjoint")
def window_averages_adjoint(g: np.ndarray, windows: Windows, divisor: Divisor) -> np.ndarray:
    """The transpose of `window_averages`."""
    w, nd = windows, len(windows.sizes)
    if g.dtype in REDUCED:
        wide = window_averages_adjoint(g.astype(np.float32), w, divisor)
        return wide.astype(g.dtype)
    if (
        g.__class__ is not np.ndarray
        or g.shape[g.ndim - nd :] != w.out
        or not g.size
        or g.dtype not in FULL
        or not fits(w, g.dtype)
    ):
        return reference.window_averages_adjoint(g, w, divisor)
    by = divisors(w, divisor, g.dtype)
    if not g.flags.carray:
        rows = images(g, nd)
        if rows is None:
            return reference.window_averages_adjoint(g, w, divisor)
        gx = np.empty((len(rows), *w.sizes, rows.shape[3]), g.dtype)
        apart, tiled = windows_overlap(w)
        run = pool_last.averages_gradient.compiled(APART=apart, TILED=tiled, R=of(g.dtype))
        run(rows, by, gx, len(rows), rows.shape[3], *plane_numbers(w))
        return back(gx)
    shape = (*g.shape[: g.ndim - nd], *w.sizes)
    if is_whole(w):
        gx = np.empty(shape, g.dtype)
        gx[...] = g / by
        return gx
    if max(w.stride) == 1:  # its transpose is a sum over windows too
        return window_averages(g / by, flipped(w), (True, 1))
    if not w.stride[-1] == w.kernel[-1] == 2:
        each = [
            back_lists(*dimension, g.dtype)
            for dimension in zip(w.out, w.sizes, w.kernel, w.stride, w.padding, strict=True)
        ]
        found = resample.by_lists(g / by, each, False)
        if found is None:
            found = reference.window_averages_adjoint(g, w, divisor)
        return found
    gx = np.empty(shape, g.dtype)
    run = kernels.averages_gradient.compiled(R=of(g.dtype))
    run(g, by, gx, g.size // prod(w.out), *numbers(w))
    return gx


@lru_cache(maxsize=256)
def flipped(w: Windows) -> Windows:
    """The windows of the transpose, where they are one apart."""
    padding = tuple(k - 1 - p for k, p in zip(w.kernel, w.padding, strict=True))
    return Windows(w.out, w.kernel, w.stride, padding, w.dilation, w.sizes)
