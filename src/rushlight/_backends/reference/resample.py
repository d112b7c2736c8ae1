"""Kernels that resample images, on a regular grid or at given places.

On a regular grid each dimension is resampled on its own, by *taps*: arrays (taps, out) of positions
and weights, result[o] = sum over t of weight[t, o] * x[position[t, o]]. The positions of a tap grow
with o, so the transpose adds up runs of equal positions.

At given places (`grid_sample`) each place has taps in each dimension, and a value is the sum over
their products.
"""

from __future__ import annotations

from itertools import product
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends.tables import bounded_cache
from rushlight.core.dtype_sets import F32, F64

if TYPE_CHECKING:
    from collections.abc import Sequence

    Ints = tuple[int, ...]
    Taps = tuple[np.ndarray, np.ndarray | None]

KERNELS = (
    "affine_grid affine_grid_adjoint grid_sample grid_sample_gradients grid_taps resample "
    "resample_adjoint taps_of"
).split()


def real_dtype(dtype: np.dtype) -> np.dtype:
    """What weights are computed in: float64 for float64 and uint8, float32 for all else."""
    return F64 if dtype == F64 or dtype == np.uint8 else F32


# -- a regular grid: taps --------------------------------------------------------------------------


@bounded_cache(256)
def taps_of(
    n: int, m: int, scale: float | None, mode: str, corners: bool, antialias: bool, dtype: np.dtype
) -> Taps:
    """The taps that resample `n` elements to `m`; `scale`: the factor that was asked for, if any."""
    one = real_dtype(dtype).type
    if corners:
        step = one(n - 1) / one(m - 1) if m > 1 else one(0)
    else:
        step = one(1.0 / scale) if scale else one(n) / one(m)
    i = np.arange(m).astype(one)
    if mode.startswith("nearest"):
        at = i * step
        if mode == "nearest-exact":  # PyTorch rounds after 1/2 is taken off, not before
            middle = (i.astype(np.float64) + 0.5) * np.float64(step) - 0.5
            at = middle.astype(one) + one(0.5)
        at = at.astype(np.float32)  # of float64, too: 1.9999999999999998 is 2
        return np.minimum(np.floor(at).astype(np.int64), n - 1)[None], None
    if antialias:
        return _filter_taps(n, i, step, FILTERS[mode])
    at = i * step if corners else (i + one(0.5)) * step - one(0.5)
    if mode == "cubic":
        low = np.floor(at)
        t = at - low
        positions = low.astype(np.int64) + np.arange(-1, 3)[:, None]
        return np.clip(positions, 0, n - 1), cubic(t, one(-0.75))
    at = np.maximum(at, one(0))
    low = np.minimum(at.astype(np.int64), n - 1)
    high = np.minimum(low + 1, n - 1)
    t = np.clip(at - low.astype(one), one(0), one(1))
    return np.stack([low, high]), np.stack([one(1) - t, t])


def cubic(t: np.ndarray, a: np.floating) -> np.ndarray:
    """The weights of the four neighbours at distance t beyond the second: Keys' kernel."""

    def near(x: np.ndarray) -> np.ndarray:
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x: np.ndarray) -> np.ndarray:
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    return np.stack([far(t + 1), near(t), near(1 - t), far(2 - t)])


def cubic_slope(t: np.ndarray, a: np.floating) -> np.ndarray:
    """The derivatives of `cubic` by t."""

    def near(x: np.ndarray) -> np.ndarray:
        return (3 * (a + 2) * x - 2 * (a + 3)) * x

    def far(x: np.ndarray) -> np.ndarray:
        return (3 * a * x - 10 * a) * x + 8 * a

    return np.stack([far(t + 1), near(t), -near(1 - t), -far(2 - t)])


def triangle_filter(x: np.ndarray) -> np.ndarray:
    return np.maximum(1 - np.abs(x), 0)


def keys(x: np.ndarray) -> np.ndarray:
    a, x = -0.5, np.abs(x)
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    far = (((x - 5) * x + 8) * x - 4) * a
    return np.where(x < 1, near, np.where(x < 2, far, 0))


def lanczos(x: np.ndarray) -> np.ndarray:
    return np.where(np.abs(x) < 3, np.sinc(x) * np.sinc(x / 3), 0)


FILTERS = {"linear": (triangle_filter, 2), "cubic": (keys, 4), "lanczos": (lanczos, 6)}


def _filter_taps(n: int, i: np.ndarray, step: np.floating, kind: tuple) -> Taps:
    """Taps of a filter that is stretched when shrinking, so that it covers what it replaces."""
    function, size = kind
    one = i.dtype.type
    half = one(0.5)  # under align_corners too, as PyTorch has it
    support = one(size * 0.5) * max(step, one(1))
    center = step * (i + half)
    first = np.maximum((center - support + half).astype(np.int64), 0)
    count = np.minimum((center + support + half).astype(np.int64), n) - first
    count = np.clip(count, 0, int(np.ceil(support)) * 2 + 1)
    j = np.arange(int(count.max()))[:, None]
    weights = function((j + first - center + half) / max(step, one(1))).astype(one)
    weights = np.where(j < count, weights, 0)
    total = weights.sum(0)
    weights = np.where(total != 0, weights / np.where(total == 0, 1, total), weights)
    return np.minimum(first + np.minimum(j, np.maximum(count - 1, 0)), n - 1), weights.astype(one)


def resample(x: np.ndarray, taps: Sequence[Taps]) -> np.ndarray:
    """`x` resampled along its last `len(taps)` dimensions. uint8 is rounded after each of them.

    Weights of uint8 are fixed point, with as many bits as keep the largest below 2**15.
    """
    dtype = x.dtype
    half = dtype.itemsize == 2 and dtype.kind in "fV"
    if half:
        x = x.astype(np.float32)
    for i in range(len(taps) - 1, -1, -1):
        positions, weights = taps[i]
        axis = x.ndim - len(taps) + i
        if weights is None:
            x = np.take(x, positions[0], axis)
            continue
        if positions.shape[1] == x.shape[axis] and (weights[0] == 1).all():
            if (positions[0] == np.arange(x.shape[axis])).all():
                continue
        spread = (slice(None), *(None,) * (x.ndim - 1 - axis))
        if dtype == np.uint8:
            positions, weights, bits = _fixed_point(positions, weights)
        y = None
        for p, w in zip(positions, weights, strict=True):
            part = np.take(x, p, axis)
            part = part * w[spread]
            y = part if y is None else np.add(y, part, out=y)
        assert y is not None
        if dtype == np.uint8:
            y = np.clip((y + (1 << bits >> 1)) >> bits, 0, 255).astype(np.uint8)
        x = y
    return x.astype(dtype, copy=False)


def _fixed_point(positions: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray, int]:
    """Taps whose weights are whole numbers, and by how many bits these are scaled."""
    weights = weights.copy()
    # Equal positions, at the borders, are rounded together.
    for t in range(len(weights) - 1, 0, -1):
        same = positions[t] == positions[t - 1]
        weights[t - 1] += np.where(same, weights[t], 0)
        weights[t] = np.where(same, 0, weights[t])
    top = weights.max()
    bits = next((b for b in range(22) if int(0.5 + top * (1 << b + 1)) >= 1 << 15), 22)
    scaled = weights * (1 << bits)
    return positions, np.trunc(scaled + np.copysign(0.5, scaled)).astype(np.int32), bits


def resample_adjoint(g: np.ndarray, taps: Sequence[Taps], sizes: Ints) -> np.ndarray:
    """The transpose of `resample`."""
    dtype = g.dtype
    if dtype.itemsize == 2 and dtype.kind in "fV":
        g = g.astype(np.float32)
    for i, ((positions, weights), n) in enumerate(zip(taps, sizes, strict=True)):
        axis = g.ndim - len(taps) + i
        spread = (slice(None), *(None,) * (g.ndim - 1 - axis))
        x = np.zeros((*g.shape[:axis], n, *g.shape[axis + 1 :]), g.dtype)
        for t, p in enumerate(positions):
            part = g if weights is None else g * weights[t][spread]
            runs = np.concatenate([[0], np.flatnonzero(np.diff(p)) + 1])
            if len(runs) < len(p):
                part = np.add.reduceat(part, runs, axis)
            x[(slice(None),) * axis + (p[runs],)] += part
        g = x
    return g.astype(dtype, copy=False)


# -- at given places -------------------------------------------------------------------------------


def _reflected(at: np.ndarray, n: int, corners: bool) -> tuple[np.ndarray, np.ndarray]:
    """`at` mirrored into the image, and the sign of its derivative."""
    one = at.dtype.type
    low, high = (0, 2 * (n - 1)) if corners else (-1, 2 * n - 1)
    if low == high:
        return np.zeros_like(at), np.zeros_like(at)
    start, span = one(low / 2), one((high - low) / 2)
    at = at - start
    sign = np.where(at < 0, one(-1), one(1))
    at = np.abs(at)
    flips = np.floor(at / span)
    extra = np.fmod(at, span)
    even = np.fmod(flips, 2) == 0
    return np.where(even, extra, span - extra) + start, np.where(even, sign, -sign)


def _inside(at: np.ndarray, n: int, padding: str, corners: bool) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates brought into the image as `padding` says, and the derivative of that."""
    one = at.dtype.type
    slope = np.ones_like(at)
    if padding == "zeros":
        return np.where(np.isnan(at), one(-2 - n), at), slope
    if padding == "reflection":
        at, slope = _reflected(at, n, corners)
    free = (at > 0) & (at < n - 1)
    at = np.clip(np.where(np.isnan(at), one(0), at), one(0), one(n - 1))
    return at, np.where(free, slope, one(0))


def _place_taps(
    at: np.ndarray, n: int, mode: str, padding: str, corners: bool
) -> tuple[list[tuple], np.ndarray]:
    """([(position, is it inside, weight, its slope, t), ...], derivative of the coordinate)."""
    one = at.dtype.type
    factor = one((n - 1) / 2 if corners else n / 2)
    at = (
        (at + one(1)) * one(0.5) * one(n - 1)
        if corners
        else ((at + one(1)) * one(n) - one(1)) * one(0.5)
    )
    far = one(1 << 30)  # beyond any image; keeps the conversion to an integer defined

    def position(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = np.clip(x, -far, far).astype(np.int64)
        return np.clip(p, 0, n - 1), (p >= 0) & (p < n)

    if mode == "bicubic":
        low = np.floor(np.where(np.isnan(at), one(0), at))
        t = at - low  # NaN where the coordinate is
        weights, slopes = cubic(t, one(-0.75)), cubic_slope(t, one(-0.75))
        taps = []
        for k in range(4):
            x, _ = _inside(low + one(k - 1), n, padding, corners)
            taps.append((*position(x), weights[k], slopes[k], t))
        return taps, np.full_like(at, factor)
    at, slope = _inside(at, n, padding, corners)
    if mode == "nearest":
        zero = np.zeros_like(at)
        return [(*position(np.rint(at)), np.ones_like(at), zero, zero)], slope * factor
    low = np.floor(at)
    t = at - low
    minus, plus = np.full_like(at, -1), np.ones_like(at)
    taps = [(*position(low), one(1) - t, minus, t), (*position(low + one(1)), t, plus, t)]
    return taps, slope * factor


def _taps_at(
    grid: np.ndarray, sizes: Ints, mode: str, padding: str, corners: bool
) -> tuple[list, list]:
    """Taps and derivatives for each dimension of the image; grid (N, *out, nd), its last first."""
    nd = len(sizes)
    flat = grid.reshape(len(grid), prod(grid.shape[1:-1]), nd)
    found = [
        _place_taps(flat[..., nd - 1 - d], sizes[d], mode, padding, corners) for d in range(nd)
    ]
    return [taps for taps, _ in found], [slope for _, slope in found]


def _combined(each: Sequence[tuple], sizes: Ints) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(place in the image, is it inside, weight) of one tap from each dimension."""
    place, inside, weight = each[0][:3]
    for (p, i, w, *_), n in zip(each[1:], sizes[1:], strict=True):
        place, inside, weight = place * n + p, inside & i, weight * w
    return place, inside, weight


def grid_taps(
    grid: np.ndarray, sizes: Ints, mode: str, padding: str, corners: bool
) -> tuple[np.ndarray, ...]:
    """What of `grid_sample` is piecewise constant in the grid, for each dimension of the image:

    positions and which of them are inside (dimensions, taps, N, places), the weight of the second
    tap (bilinear) or the distance to it (bicubic), and the derivative of that by the grid.
    """
    if grid.dtype.itemsize == 2:
        grid = grid.astype(np.float32)
    taps, slopes = _taps_at(grid, sizes, mode, padding, corners)
    places = np.array([[p for p, *_ in each] for each in taps])
    inside = np.array([[i for _, i, *_ in each] for each in taps])
    distance = np.array([each[0][4] for each in taps])
    return places, inside, distance, np.array(slopes)


def grid_sample(
    x: np.ndarray, grid: np.ndarray, mode: str, padding: str, corners: bool
) -> np.ndarray:
    """`x` (N, C, *in) at the places `grid` (N, *out, nd), coordinates from -1 to 1: (N, C, *out)."""
    dtype, sizes = x.dtype, x.shape[2:]
    if dtype.itemsize == 2:
        x, grid = x.astype(np.float32), grid.astype(np.float32)
    taps, _ = _taps_at(grid, sizes, mode, padding, corners)
    n, c = x.shape[:2]
    image = x.reshape(n, c, prod(sizes))
    y = np.zeros((n, c, prod(grid.shape[1:-1])), x.dtype)
    for each in product(*taps):
        place, inside, weight = _combined(each, sizes)
        values = np.take_along_axis(image, place[:, None], 2) * weight[:, None]
        y += np.where(inside[:, None], values, 0)
    return y.reshape(n, c, *grid.shape[1:-1]).astype(dtype, copy=False)


def grid_sample_gradients(
    g: np.ndarray,
    x: np.ndarray,
    grid: np.ndarray,
    mode: str,
    padding: str,
    corners: bool,
    needs: tuple[bool, bool],
) -> tuple[np.ndarray, np.ndarray]:
    """The gradients of `grid_sample` by the image and by the grid; zeros where not needed."""
    dtype, grid_dtype, sizes = x.dtype, grid.dtype, x.shape[2:]
    if dtype.itemsize == 2:
        g, x, grid = g.astype(np.float32), x.astype(np.float32), grid.astype(np.float32)
    taps, slopes = _taps_at(grid, sizes, mode, padding, corners)
    n, c = x.shape[:2]
    nd, area = len(sizes), prod(sizes)
    image = x.reshape(n, c, area)
    g = np.ascontiguousarray(g).reshape(n, c, prod(grid.shape[1:-1]))
    gx = np.zeros(n * c * area, x.dtype)
    ggrid = np.zeros((n, g.shape[2], nd), grid.dtype)
    plane = np.arange(n * c).reshape(n, c, 1) * area
    for each in product(*taps):
        place, inside, weight = _combined(each, sizes)
        if needs[0]:
            part = np.where(inside[:, None], g * weight[:, None], 0)
            np.add.at(gx, (plane + place[:, None]).ravel(), part.ravel())
        if needs[1] and mode != "nearest":
            values = np.where(inside[:, None], np.take_along_axis(image, place[:, None], 2), 0)
            along = (values * g).sum(1)
            for d in range(nd):
                slope = each[d][3]
                for e in range(nd):
                    if e != d:
                        slope = slope * each[e][2]
                ggrid[..., nd - 1 - d] += along * slope * slopes[d]
    return (
        gx.reshape(x.shape).astype(dtype, copy=False),
        ggrid.reshape(grid.shape).astype(grid_dtype, copy=False),
    )


def base_grid(sizes: Ints, corners: bool, dtype: np.dtype) -> np.ndarray:
    """Homogeneous coordinates of all places, (places, nd + 1): the last dimension first, then 1."""
    lines = []
    for n in sizes:
        line = np.linspace(-1, 1, n) if n > 1 else np.zeros(n)
        lines.append(line if corners or n <= 1 else line * ((n - 1) / n))
    mesh = np.meshgrid(*lines, indexing="ij")
    flat = [m.ravel() for m in reversed(mesh)]
    return np.stack([*flat, np.ones_like(flat[0])], 1).astype(dtype)


def affine_grid(theta: np.ndarray, sizes: Ints, corners: bool) -> np.ndarray:
    """The coordinates that theta (N, nd, nd + 1) maps a regular grid to: (N, *sizes, nd)."""
    base = base_grid(sizes, corners, theta.dtype)
    places = np.matmul(base, np.ascontiguousarray(theta.swapaxes(1, 2)))
    places = places.astype(theta.dtype, copy=False)  # NumPy makes float32 of bfloat16
    return places.reshape(len(theta), *sizes, len(sizes))


def affine_grid_adjoint(g: np.ndarray, sizes: Ints, corners: bool) -> np.ndarray:
    """The transpose of `affine_grid`: (N, *sizes, nd) to (N, nd, nd + 1)."""
    nd = len(sizes)
    flat = g.reshape(len(g), prod(g.shape[1:-1]), nd)
    sums = np.matmul(flat.swapaxes(1, 2), base_grid(sizes, corners, g.dtype))
    return sums.astype(g.dtype, copy=False)
