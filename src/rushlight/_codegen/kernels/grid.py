"""Images [N, C, D, H, W] read at places of a grid [N, P, ND] from -1 to 1, the last dimension's first (D = 1 where ND is
2): bilinear, nearest or bicubic; and the gradients of that. A vector holds places that follow each other; where they
read and with what weights is found once for all channels.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i32, i64

FAR = 1 << 30  # beyond any image
WORK = 1 << 15  # numbers of a chunk that are read, about
READ = {"nearest": 1, "bilinear": 2, "bicubic": 4}  # elements in each dimension


@inline
def in_elements(at, n, CORNERS, T, L):
    """Coordinates in elements of a dimension of n, and their derivative."""
    size, one, half = splat(T(n), L), splat(T(1), L), splat(T(0.5), L)
    if CORNERS:
        factor = (size - one) * half
        at = (at + one) * half * (size - one)
    else:
        factor = size * half
        at = ((at + one) * size - one) * half
    return at, factor


@inline
def brought(at, n, CORNERS, PADDING, T, L):
    """Coordinates brought into a dimension of n as `padding` says, and the derivative of that."""
    size, one = splat(T(n), L), splat(T(1), L)
    slope = one
    if PADDING == "zeros":
        at = select(at == at, at, splat(T(-2), L) - size)
    else:
        if PADDING == "reflection":
            start = splat(T(0) if CORNERS else T(-0.5), L)
            span = size - one if CORNERS else size
            at = at - start
            slope = select(at < 0, -slope, slope)
            at = select(at < 0, -at, at)
            flips = floor(at / span)
            extra = fma(-flips, span, at)
            even = fma(floor(flips * splat(T(0.5), L)), splat(T(-2), L), flips) == 0
            slope = select(even, slope, -slope)
            at = select(even, extra, span - extra) + start
        at = select(at == at, at, splat(T(0), L))
        free = (at > 0) & (at < size - one)
        slope = select(free, slope, splat(T(0), L))
        at = select(at > 0, at, splat(T(0), L))
        at = select(at < size - one, at, size - one)
    return at, slope


@inline
def whole(at, T, L):
    """As i32, of what is far away something outside."""
    at = select(at > T(-FAR), at, splat(T(-FAR), L))
    return i32(select(at < T(FAR), at, splat(T(FAR), L)))


@inline
def near(x):
    """The weight of a neighbour at a distance up to 1: Keys' kernel."""
    return (1.25 * x - 2.25) * x * x + 1


@inline
def far(x):
    """The same up to 2."""
    return ((-0.75 * x + 3.75) * x - 6) * x + 3


@inline
def near_slope(x):
    return (3.75 * x - 4.5) * x


@inline
def far_slope(x):
    return (-2.25 * x + 7.5) * x - 6


@inline
def along(at, n, MODE, CORNERS, PADDING, T, L):
    """In one dimension: the elements that are read, their weights, the derivatives of these, and that of the
    coordinate."""
    one = splat(T(1), L)
    at, factor = in_elements(at, n, CORNERS, T, L)
    if MODE == "bicubic":
        low = floor(select(at == at, at, splat(T(0), L)))
        t = at - low  # NaN where the coordinate is
        places = []
        for k in unroll(4):
            each, _ = brought(low + T(k - 1), n, CORNERS, PADDING, T, L)
            places = places + [whole(each, T, L)]
        weights = [far(t + 1), near(t), near(one - t), far(splat(T(2), L) - t)]
        slopes = [
            far_slope(t + 1),
            near_slope(t),
            -near_slope(one - t),
            -far_slope(splat(T(2), L) - t),
        ]
    else:
        at, slope = brought(at, n, CORNERS, PADDING, T, L)
        factor = factor * slope
        if MODE == "nearest":
            places, weights, slopes = [whole(rint(at), T, L)], [one], [one]
        else:
            low = floor(at)
            places = [whole(low, T, L), whole(low + one, T, L)]
            weights, slopes = [one - (at - low), at - low], [-one, one]
    return places, weights, slopes, factor


@inline
def taps(grid, o, P, sizes, MODE, CORNERS, PADDING, T, L):
    """For places from o on: of each element that is read its offset, whether it exists, its weight, and the
    derivatives of this by the coordinates in `sizes`; then the derivatives of these."""
    ND = len(sizes)
    real = iota(i64, L) < P - o
    found, factors = [(splat(i32(0), L), real, splat(T(1), L), [])], []
    for d in unroll(ND):
        offsets = iota(i32, L) * i32(ND) + i32(ND - 1 - d)
        at = select(real, gather(grid + ND * o, offsets, real), splat(T(0), L))
        places, weights, slopes, factor = along(at, sizes[d], MODE, CORNERS, PADDING, T, L)
        size = i32(sizes[d])
        longer = []
        for tap in unroll(found):
            for k in unroll(len(places)):
                there = tap[1] & (places[k] >= 0) & (places[k] < size)
                by = [v * weights[k] for v in tap[3]] + [tap[2] * slopes[k]]
                longer = longer + [(tap[0] * size + places[k], there, tap[2] * weights[k], by)]
        found, factors = longer, factors + [factor]
    return found, factors


@kernel
def values(ND, MODE, PADDING, CORNERS, x: Ptr[T], grid: Ptr[T], y: Ptr[T], N: i64, C: i64,
           D: i64, H: i64, W: i64, P: i64):  # fmt: skip
    """y [N, C, P]."""
    L = 64 // T.size
    steps, size = (P + (L - 1)) // L, D * H * W
    for lo, hi in parallel(N * steps, max(WORK // (L * (C + 4)), i64(1))):
        for t in range(lo, hi):
            n, o = t // steps, t % steps * L
            sizes = [D, H, W] if ND == 3 else [H, W]
            found, _ = taps(grid + n * P * ND, o, P, sizes, MODE, CORNERS, PADDING, T, L)
            here = iota(i64, L) < P - o
            for c in range(C):
                plane = x + (n * C + c) * size
                s = splat(T(0), L)
                for tap in unroll(found):
                    part = gather(plane, tap[0], tap[1]) * tap[2]
                    s = s + select(tap[1], part, splat(T(0), L))
                store(y + ((n * C + c) * P + o), s, here)


@kernel
def image_gradient(ND, MODE, PADDING, CORNERS, g: Ptr[T], grid: Ptr[T], gx: Ptr[T], N: i64, C: i64,
                   D: i64, H: i64, W: i64, P: i64):  # fmt: skip
    """gx [N, C, D, H, W] for g [N, C, P]: each added to where it was read, with the weight it had."""
    L = 64 // T.size
    COUNT = READ[MODE] ** ND
    size = D * H * W
    for lo, hi in parallel(N * C, max(WORK // (2 * P + size), i64(1))):
        at, by = array(i32, COUNT * L), array(T, COUNT * L)
        for i in lanes(lo * size, hi * size):
            gx[i] = T(0)
        first = lo
        while first < hi:
            n = first // C
            last = min(n * C + C, hi)
            for o in range(0, P, L):
                sizes = [D, H, W] if ND == 3 else [H, W]
                found, _ = taps(grid + n * P * ND, o, P, sizes, MODE, CORNERS, PADDING, T, L)
                for k in unroll(COUNT):
                    store(at + k * L, select(found[k][1], found[k][0], splat(i32(-1), L)))
                    store(by + k * L, found[k][2])
                count = min(P - o, i64(L))
                for r in range(first, last):
                    plane, source = gx + r * size, g + (r * P + o)
                    for i in range(count):
                        v = source[i]
                        for k in unroll(COUNT):
                            place = at[k * L + i]
                            if place >= 0:
                                plane[i64(place)] += v * by[k * L + i]
            first = last


@kernel
def grid_gradient(ND, MODE, PADDING, CORNERS, g: Ptr[T], x: Ptr[T], grid: Ptr[T], out: Ptr[T], N: i64, C: i64,
                  D: i64, H: i64, W: i64, P: i64):  # fmt: skip
    """out [N, P, ND]: how the values change with the grid, times g [N, C, P]."""
    L = 64 // T.size
    steps, size = (P + (L - 1)) // L, D * H * W
    for lo, hi in parallel(N * steps, max(WORK // (L * (C + 4)), i64(1))):
        each = array(T, L)
        for t in range(lo, hi):
            n, o = t // steps, t % steps * L
            sizes = [D, H, W] if ND == 3 else [H, W]
            found, factors = taps(grid + n * P * ND, o, P, sizes, MODE, CORNERS, PADDING, T, L)
            here = iota(i64, L) < P - o
            change = [splat(T(0), L) for _ in range(ND)]
            for c in range(C):
                plane = x + (n * C + c) * size
                by = load(g + ((n * C + c) * P + o), L, here)
                for tap in unroll(found):
                    v = select(tap[1], gather(plane, tap[0], tap[1]), splat(T(0), L)) * by
                    for d in unroll(ND):
                        change[d] = fma(v, tap[3][d], change[d])
            for d in unroll(ND):
                store(each, change[d] * factors[d])
                for i in range(min(P - o, i64(L))):
                    out[(n * P + o + i) * ND + (ND - 1 - d)] = each[i]
