"""Images [N, C, H, W] read at places of a grid [N, P, 2] of (x, y) from -1 to 1, bilinear or nearest, and
the gradients of that. A vector holds places that follow each other; where they read and with what
weights is found once for all channels.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i32, i64

FAR = 1 << 30  # beyond any image
WORK = 1 << 15  # numbers of a chunk that are read, about


@inline
def brought(at, n, CORNERS, PADDING, T, L):
    """Coordinates in elements of a dimension of n, and their derivative; as `padding` says."""
    size = splat(T(n), L)
    one = splat(T(1), L)
    if CORNERS:
        factor = (size - one) * splat(T(0.5), L)
        at = (at + one) * splat(T(0.5), L) * (size - one)
    else:
        factor = size * splat(T(0.5), L)
        at = ((at + one) * size - one) * splat(T(0.5), L)
    if PADDING == "zeros":
        at = select(at == at, at, splat(T(-2), L) - size)
    else:
        if PADDING == "reflection":
            start = splat(T(0) if CORNERS else T(-0.5), L)
            span = size - one if CORNERS else size
            at = at - start
            factor = select(at < 0, -factor, factor)
            at = select(at < 0, -at, at)
            flips = floor(at / span)
            extra = fma(-flips, span, at)
            even = fma(floor(flips * splat(T(0.5), L)), splat(T(-2), L), flips) == 0
            factor = select(even, factor, -factor)
            at = select(even, extra, span - extra) + start
        at = select(at == at, at, splat(T(0), L))
        free = (at > 0) & (at < size - one)
        factor = select(free, factor, splat(T(0), L))
        at = select(at > 0, at, splat(T(0), L))
        at = select(at < size - one, at, size - one)
    return at, factor


@inline
def whole(at, T, L):
    """As i32, of what is far away something outside."""
    at = select(at > T(-FAR), at, splat(T(-FAR), L))
    return i32(select(at < T(FAR), at, splat(T(FAR), L)))


@inline
def taps(grid, o, P, H, W, MODE, CORNERS, PADDING, T, L):
    """For places from o on: offsets of the elements that are read, whether they exist, weights; then the
    weights in each dimension, and the derivatives of the coordinates."""
    EVEN = [2 * i for i in range(L)]
    ODD = [2 * i + 1 for i in range(L)]
    low = load(grid + 2 * o, L, iota(i64, L) < 2 * (P - o))
    high = load(grid + (2 * o + L), L, iota(i64, L) < 2 * (P - o) - L)
    x, by_x = brought(shuffle(low, high, EVEN), W, CORNERS, PADDING, T, L)
    y, by_y = brought(shuffle(low, high, ODD), H, CORNERS, PADDING, T, L)
    real = iota(i64, L) < P - o
    one = splat(T(1), L)
    if MODE == "nearest":
        xs, ys = [whole(rint(x), T, L)], [whole(rint(y), T, L)]
        of_x, of_y = [one], [one]
    else:
        left, top = floor(x), floor(y)
        xs = [whole(left, T, L), whole(left + one, T, L)]
        ys = [whole(top, T, L), whole(top + one, T, L)]
        of_x = [one - (x - left), x - left]
        of_y = [one - (y - top), y - top]
    found = []
    for j in unroll(len(ys)):
        for i in unroll(len(xs)):
            there = (xs[i] >= 0) & (xs[i] < i32(W)) & (ys[j] >= 0) & (ys[j] < i32(H)) & real
            found = found + [(ys[j] * i32(W) + xs[i], there, of_y[j] * of_x[i])]
    return found, of_x, of_y, by_x, by_y


@kernel
def values(MODE, PADDING, CORNERS, x: Ptr[T], grid: Ptr[T], y: Ptr[T], N: i64, C: i64, H: i64, W: i64,
           P: i64):  # fmt: skip
    """y [N, C, P]."""
    L = 64 // T.size
    steps = (P + (L - 1)) // L
    for lo, hi in parallel(N * steps, max(WORK // (L * (C + 4)), i64(1))):
        for t in range(lo, hi):
            n, o = t // steps, t % steps * L
            found, _, _, _, _ = taps(grid + n * P * 2, o, P, H, W, MODE, CORNERS, PADDING, T, L)
            here = iota(i64, L) < P - o
            for c in range(C):
                plane = x + (n * C + c) * (H * W)
                s = splat(T(0), L)
                for tap in unroll(found):
                    part = gather(plane, tap[0], tap[1]) * tap[2]
                    s = s + select(tap[1], part, splat(T(0), L))
                store(y + ((n * C + c) * P + o), s, here)


@kernel
def image_gradient(MODE, PADDING, CORNERS, g: Ptr[T], grid: Ptr[T], gx: Ptr[T], N: i64, C: i64, H: i64,
                   W: i64, P: i64):  # fmt: skip
    """gx [N, C, H, W] for g [N, C, P]: each added to where it was read, with the weight it had."""
    L = 64 // T.size
    COUNT = 1 if MODE == "nearest" else 4
    for lo, hi in parallel(N * C, max(WORK // (2 * P + H * W), i64(1))):
        at, by = array(i32, 4 * L), array(T, 4 * L)
        for i in lanes(lo * H * W, hi * H * W):
            gx[i] = T(0)
        first = lo
        while first < hi:
            n = first // C
            last = min(n * C + C, hi)
            for o in range(0, P, L):
                found, _, _, _, _ = taps(grid + n * P * 2, o, P, H, W, MODE, CORNERS, PADDING, T, L)
                for k in unroll(COUNT):
                    store(at + k * L, select(found[k][1], found[k][0], splat(i32(-1), L)))
                    store(by + k * L, found[k][2])
                count = min(P - o, i64(L))
                for r in range(first, last):
                    plane, source = gx + r * (H * W), g + (r * P + o)
                    for i in range(count):
                        v = source[i]
                        for k in unroll(COUNT):
                            place = at[k * L + i]
                            if place >= 0:
                                plane[i64(place)] += v * by[k * L + i]
            first = last


@kernel
def grid_gradient(PADDING, CORNERS, g: Ptr[T], x: Ptr[T], grid: Ptr[T], out: Ptr[T], N: i64, C: i64,
                  H: i64, W: i64, P: i64):  # fmt: skip
    """out [N, P, 2]: how the values, bilinear, change with the grid, times g [N, C, P]."""
    L = 64 // T.size
    steps = (P + (L - 1)) // L
    PAIRS = [[i // 2 + half * (L // 2) + i % 2 * L for i in range(L)] for half in range(2)]
    for lo, hi in parallel(N * steps, max(WORK // (L * (C + 4)), i64(1))):
        for t in range(lo, hi):
            n, o = t // steps, t % steps * L
            found, of_x, of_y, by_x, by_y = taps(
                grid + n * P * 2, o, P, H, W, "bilinear", CORNERS, PADDING, T, L
            )
            here = iota(i64, L) < P - o
            along_x, along_y = splat(T(0), L), splat(T(0), L)
            for c in range(C):
                plane = x + (n * C + c) * (H * W)
                v = [gather(plane, tap[0], tap[1]) for tap in found]
                v = [select(found[k][1], v[k], splat(T(0), L)) for k in range(4)]
                by = load(g + ((n * C + c) * P + o), L, here)
                across = (v[1] - v[0]) * of_y[0] + (v[3] - v[2]) * of_y[1]
                down = (v[2] - v[0]) * of_x[0] + (v[3] - v[1]) * of_x[1]
                along_x = fma(by, across, along_x)
                along_y = fma(by, down, along_y)
            along_x, along_y = along_x * by_x, along_y * by_y
            for half in unroll(2):
                mask = iota(i64, L) < 2 * (P - o) - half * L
                store(
                    out + ((n * P + o) * 2 + half * L), shuffle(along_x, along_y, PAIRS[half]), mask
                )
