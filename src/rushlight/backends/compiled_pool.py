"""Pooling as machine code; see `compiled.py` for when it runs, `compiler/pool.py` for how.

Arrays are row-major; what is channels last, or of dtypes that kernels do not know, is the
reference's.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.backends import numpy_pool as reference
from rushlight.backends.compiled import threshold
from rushlight.compiler import pool as kernels
from rushlight.compiler.types import of

if TYPE_CHECKING:
    from collections.abc import Sequence

    Ints = tuple[int, ...]

FLOATS = frozenset("fd")  # dtype.char
HALVES = frozenset(("float16", "bfloat16"))
SMALL = threshold(256)  # elements from which a kernel takes less time than NumPy's passes
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
        and a.dtype.char != "?"
        and len(sizes) <= 3
        and prod(sizes) < LARGE
        and all(max(each) < LARGE // 64 for each in around)
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


def maxima(
    places: bool,
    x: np.ndarray,
    kernel: Ints,
    stride: Ints,
    padding: Ints,
    dilation: Ints,
    out: Ints,
) -> tuple[np.ndarray, np.ndarray] | None:
    nd = len(kernel)
    sizes = x.shape[x.ndim - nd :]
    if not fits(x, sizes, kernel, stride, padding, dilation, out) or 0 in out:
        return None
    if (s := step(x, stride)) is None:
        return None
    y = np.empty((*x.shape[: x.ndim - nd], *out), x.dtype)
    at = np.empty(y.shape if places else 0, np.int64)
    k = kernel[-1] if kernel[-1] <= kernels.UNROLLED else 0
    run = kernels.max_windows.compiled(PLACES=places, KW=k, S=s, T=of(x.dtype))
    run(x, y, at, x.size // prod(sizes), *numbers(sizes, out, kernel, stride, padding, dilation))
    return y, at


def max_pool(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
) -> np.ndarray:
    """The maximum of each window; NaN where the window has one."""
    found = maxima(False, x, kernel, stride, padding, dilation, out)
    if found is None:
        return reference.max_pool(x, kernel, stride, padding, dilation, out)
    return found[0]


def max_pool_places(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints, out: Ints
) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, places), of the windows of `max_pool`."""
    found = maxima(True, x, kernel, stride, padding, dilation, out)
    if found is None:
        return reference.max_pool_places(x, kernel, stride, padding, dilation, out)
    return found


def max_by_tables(x: np.ndarray, tables: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """(maxima, places): places count through the last `len(tables)` dimensions of `x`, row by row."""
    nd = len(tables)
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


def max_pool_gradient(
    g: np.ndarray, x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, dilation: Ints
) -> np.ndarray:
    """`g` at the place of each window's first maximum, zero elsewhere."""
    nd = len(kernel)
    sizes, out = x.shape[x.ndim - nd :], g.shape[g.ndim - nd :]
    if (
        g.dtype is not x.dtype
        or x.dtype.kind in "iu"
        or g.shape[: g.ndim - nd] != x.shape[: x.ndim - nd]
        or not fits(x, sizes, kernel, stride, padding, dilation, out)
        or 0 in out
        or (s := step(x, stride)) is None
    ):
        return reference.max_pool_gradient(g, x, kernel, stride, padding, dilation)
    g = np.ascontiguousarray(g)
    gx = np.empty(x.shape, x.dtype)
    apart = kernel[-1] == stride[-1] == 2 and dilation[-1] == 1
    apart = apart and all(
        k <= s and d == 1 for k, s, d in zip(kernel, stride, dilation, strict=True)
    )
    k = kernel[-1] if kernel[-1] <= kernels.UNROLLED else 0
    run = kernels.max_windows_gradient.compiled(KW=k, S=s, APART=apart, T=of(x.dtype))
    run(g, x, gx, x.size // prod(sizes), *numbers(sizes, out, kernel, stride, padding, dilation))
    return gx


def counted(count: np.ndarray | int, out: Ints, dtype: np.dtype) -> np.ndarray:
    """By what each window's sum is divided, as an array of `dtype`."""
    return np.ascontiguousarray(np.broadcast_to(np.asarray(count, dtype), out))


def window_averages(
    x: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, out: Ints, count: np.ndarray | int
) -> np.ndarray:
    """The sum of each window divided by `count`, an int or an array of shape `out`."""
    nd = len(kernel)
    sizes = x.shape[x.ndim - nd :]
    if (
        not fits(x, sizes, kernel, stride, padding, out)
        or 0 in out
        or x.dtype.kind in "iu"
        or (s := step(x, stride)) is None
    ):
        return reference.window_averages(x, kernel, stride, padding, out, count)
    y = np.empty((*x.shape[: x.ndim - nd], *out), x.dtype)
    t = of(x.dtype)
    assert t is not None
    k = kernel[-1] if kernel[-1] <= kernels.UNROLLED else 0
    run = kernels.averages.compiled(KW=k, S=s, T=t, R=t.loaded)
    by = counted(count, out, t.loaded.np)
    run(x, by, y, x.size // prod(sizes), *numbers(sizes, out, kernel, stride, padding))
    return y


def window_averages_adjoint(
    g: np.ndarray, kernel: Ints, stride: Ints, padding: Ints, sizes: Ints, count: np.ndarray | int
) -> np.ndarray:
    """The transpose of `window_averages`."""
    nd = len(kernel)
    out = g.shape[g.ndim - nd :]
    if g.dtype.name in HALVES:
        wide = window_averages_adjoint(g.astype(np.float32), kernel, stride, padding, sizes, count)
        return wide.astype(g.dtype)
    if (
        g.dtype.char not in FLOATS
        or not fits(g, out, kernel, stride, padding, sizes)
        or 0 in sizes
        or prod(sizes) >= LARGE
    ):
        return reference.window_averages_adjoint(g, kernel, stride, padding, sizes, count)
    by = counted(count, out, g.dtype)
    if max(stride) == 1:  # its transpose is a sum over windows too
        back = tuple(k - 1 - p for k, p in zip(kernel, padding, strict=True))
        return window_averages(g / by, kernel, stride, back, sizes, 1)
    gx = np.empty((*g.shape[: g.ndim - nd], *sizes), g.dtype)
    s = 1 if stride[-1] == 1 else 2 if stride[-1] == kernel[-1] == 2 else 0
    run = kernels.averages_gradient.compiled(S=s, R=of(g.dtype))
    run(g, by, gx, g.size // prod(out), *numbers(sizes, out, kernel, stride, padding))
    return gx
