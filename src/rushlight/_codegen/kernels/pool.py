"""Maxima and averages over windows of planes [planes, D, H, W], row-major; 2D: D = 1.

A vector holds windows that lie side by side in one row of the result. What a window has outside of
the plane is masked: nothing is read or written there.
"""

from __future__ import annotations

from typing import Any

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, Type, b1, i32, i64, u32, u64, width

ROOM = 1 << 16  # elements of a plane of a half type that are added up in float32, at most
FEW = 16  # elements that are added at indices of a plane, up to which each looks for the others with its index
UNROLLED = 7  # windows up to this width are written out


def lowest(t: Type) -> Any:
    """What is not above any number of a type."""
    if t.is_float:
        return float("-inf")
    return -(1 << (8 * t.size - 1)) if t.kind == "i" else 0


@inline
def piece(p, first, n, L):
    """L elements of a row of n (None: that has them all) from `first` on, 0 where outside."""
    if n is None:
        v = load(p + first, L)
    else:
        v = load(p + first, L, u32(iota(i32, L) + i32(first)) < u32(n))
    return v


@inline
def columns(p, first, c, n, S, step, L):
    """L elements of a row of n (None: that has them all) from `first` + c on, S apart (S = 0: `step`), 0 where
    outside; which are inside."""
    lane = iota(i32, L)
    if n is None:
        inside = splat(b1(True), L)
    else:
        inside = u32(lane * i32(step) + i32(first + c)) < u32(n)
    if S:
        v = piece(p, first + c // S * S, n, L)
        for k in unroll(1, S):
            v = shuffle(v, piece(p, first + (c // S * S + k * L), n, L), spaced(c, S, k, L))
    else:
        v = gather(p, lane * i32(step) + i32(first + c), inside)
    return v, inside


def spaced(c, S, k, L):
    """The lanes of (what `columns` gathered of the pieces before `k`, piece k) in its result."""
    lanes = []
    for lane, at in enumerate(range(c % S, S * L, S)):
        before = at if k == 1 else lane
        lanes.append(before if at < k * L else at % L + L)
    return tuple(lanes)


@inline
def reach(KW, S, L, kw, sw, dw):
    """One more than the last element that `columns` reads of a row behind `first`, for windows of KW columns."""
    if S and KW:
        n = i64((KW - 1) // S * S + S * L)
    elif S:
        n = (kw - 1) * dw + S * L
    else:
        n = (kw - 1) * dw + (L - 1) * sw + 1
    return n


# A window: its size, step, padding and dilation in each dimension, and the plane's sizes.


@inline
def inside(start, k, d, n):
    """The first and one more than the last of the k elements of a window, d apart, that are in
    [0, n)."""
    first = select(start < 0, (0 - start + (d - 1)) // d, i64(0))
    last = select(start < n, (n - start + (d - 1)) // d, i64(0))
    return first, min(k, last)


@inline
def larger(INDICES, v, inside, best, index, nan, here):
    """The first of the largest; a NaN, the last of several, before all: (value, index, NaN met).

    Without indices NaNs are only noted, which leaves the comparison to one instruction."""
    if INDICES:
        take = ((v > best) | (v != v)) & inside
        index = select(take, here, index)
        best = select(take, v, best)
    else:
        nan = nan | (v != v)
        v = select(inside, v, splat(typeof(v)(lowest(typeof(v))), lanesof(v)))
        best = select(v > best, v, best)
    return best, index, nan


@inline
def largest(INDICES, KW, S, p, z, y, x, n, W, H, zs, ys, kw, sw, dd, dh, dw, T):
    """The largest elements of the windows that begin at z, y and x, x + sw, ..., and where. n: the columns of the plane, None
    where it has all that are read."""
    L = width(T)
    R = T.loaded
    best = splat(R(lowest(T)), L)
    nan = best != best
    lane = iota(i32, L) * i32(sw)
    z0, z1 = zs
    y0, y1 = ys
    corner = (z + z0 * dd) * H + y + y0 * dh
    index = lane + i32(
        corner * W + x
    )  # the first that is inside: nothing has to be above the lowest
    if n is not None:
        before = max(0 - index + i32(corner * W), splat(i32(0), L))
        index = index + (before + i32(dw - 1)) // i32(dw) * i32(dw)
    for a in range(z0, z1):
        for b in range(y0, y1):
            row = ((z + a * dd) * H + y + b * dh) * W
            if KW:
                for c in unroll(KW):
                    v, into = columns(p + row, x, c, n, S, sw, L)
                    here = lane + i32(row + x + c)
                    best, index, nan = larger(INDICES, v, into, best, index, nan, here)
            else:
                for c in range(kw):
                    v, into = columns(p + row, x + c * dw, 0, n, S, sw, L)
                    here = lane + i32(row + x + c * dw)
                    best, index, nan = larger(INDICES, v, into, best, index, nan, here)
    if T.is_float and not INDICES:
        best = select(nan, R(float("nan")), best)
    return best, index


@inline
def within(KW, S, plane, z, y, x, windows, whole, W, H, zs, ys, kw, sw, dd, dh, dw, L):
    """Whether windows that begin at x lie in the columns of a plane, and what is read behind the last of them in the array of
    `whole` elements."""
    last = plane + ((z + (zs[1] - 1) * dd) * H + y + (ys[1] - 1) * dh) * W
    ends = x + (min(windows, i64(L)) - 1) * sw + (kw - 1) * dw
    return (x >= 0) & (ends < W) & (last + x + reach(KW, S, L, kw, sw, dw) <= whole)


@inline
def put(p, to, v, end, here, L):
    """Write L elements; where they do not pass `end`, all: those behind the row are written again, with its successor."""
    if to + L <= end:
        store(p + to, v)
    else:
        store(p + to, v, here)


@kernel
def max_windows(INDICES, KW, S, x: Ptr[T], out: Ptr[T], indices: Ptr[i64], planes: i64,
                D: i64, H: i64, W: i64, od: i64, oh: i64, ow: i64,
                kd: i64, kh: i64, kw: i64, sd: i64, sh: i64, sw: i64,
                pd: i64, ph: i64, pw: i64, dd: i64, dh: i64, dw: i64):  # fmt: skip
    """The largest element of each window, and its index in the plane. KW, where it is not 0: the columns of a window, one
    beside the other. Windows that no border touches are read without masks."""
    L = width(T)
    whole = planes * D * H * W
    for lo, hi in parallel(planes * od * oh, rows_of(ow * kd * kh * kw)):
        plane = lo // oh // od * (D * H * W)
        z, y = lo // oh % od * sd - pd, lo % oh * sh - ph
        for r in range(lo, hi):
            zs, ys = inside(z, kd, dd, D), inside(y, kh, dh, H)
            for j in range(0, ow, L):
                left, to, p = j * sw - pw, r * ow + j, x + plane
                if within(
                    KW, S, plane, z, y, left, ow - j, whole, W, H, zs, ys, kw, sw, dd, dh, dw, L
                ):
                    best, index = largest(
                        INDICES, KW, S, p, z, y, left, None, W, H, zs, ys, kw, sw, dd, dh, dw, T
                    )
                else:
                    best, index = largest(
                        INDICES, KW, S, p, z, y, left, W, W, H, zs, ys, kw, sw, dd, dh, dw, T
                    )
                here = iota(i64, L) < ow - j
                put(out, to, best, hi * ow, here, L)
                if INDICES:
                    put(indices, to, i64(index), hi * ow, here, L)
            y += sh
            if y == oh * sh - ph:
                y = 0 - ph
                z += sd
                if z == od * sd - pd:
                    z = 0 - pd
                    plane += D * H * W


@inline
def lowest_of(t):
    return t(lowest(t))


@kernel
def add_at_few_indices(g: Ptr[T], indices: Ptr[i64], out: Ptr[T], wrong: Ptr[i64], images: i64, count: i64,
                   size: i64, C: i64):  # fmt: skip
    """`add_at_indices` of few elements: each element is written with the sum, in float32, of all that are added there."""
    whole = size * C
    for lo, hi in parallel(images, rows_of(whole + 2 * count * C)):
        for i in lanes(lo * whole, hi * whole):
            out[i] = T.loaded(0)
        for r in range(lo, hi):
            at, v, q = indices + r * count * C, g + r * count * C, out + r * whole
            for i in range(count * C):
                index, c, s = at[i], i % C, T.loaded(0)
                if u64(index) < u64(size):
                    for k in range(count):
                        if at[k * C + c] == index:
                            s += v[k * C + c]
                    q[index * C + c] = s
                else:
                    wrong[0] = 1


@kernel
def add_at_indices(g: Ptr[T], indices: Ptr[i64], out: Ptr[T], wrong: Ptr[i64], images: i64, count: i64,
               size: i64, C: i64):  # fmt: skip
    """out [images, size, C] = zeros, and g [images, count, C] added at `indices`, which count along
    `size`; wrong[0] becomes 1 where one is outside. Half types are added up in float32."""
    R = T.loaded
    whole = size * C
    for lo, hi in parallel(images, rows_of(whole + 2 * count * C)):
        room = array(R, ROOM if R is not T else 1)
        if R is T:
            for i in lanes(lo * whole, hi * whole):
                out[i] = T(0)
        for r in range(lo, hi):
            q = room if R is not T else out + r * whole
            if R is not T:
                for i in lanes(0, whole):
                    q[i] = R(0)
            at, v = indices + r * count * C, g + r * count * C
            if C == 1:
                for k in rounds(0, count, 4):
                    if u64(at[k]) < u64(size):
                        q[at[k]] += v[k]
                    else:
                        wrong[0] = 1
            else:
                for k in range(count):
                    for c in rounds(0, C, 4):
                        index = at[k * C + c]
                        if u64(index) < u64(size):
                            q[index * C + c] += v[k * C + c]
                        else:
                            wrong[0] = 1
            if R is not T:
                to = out + r * whole
                for i in lanes(0, whole):
                    to[i] = q[i]


@kernel
def put_at_indices(x: Ptr[T], indices: Ptr[i64], out: Ptr[T], wrong: Ptr[i64], planes: i64, count: i64,
               size: i64):  # fmt: skip
    """out [planes, size] = zeros, and x [planes, count] written at `indices`, of several the last; wrong[0] becomes 1
    where one is outside."""
    for lo, hi in parallel(planes, rows_of(size + 2 * count)):
        for i in lanes(lo * size, hi * size):
            out[i] = T.loaded(0)
        for r in range(lo, hi):
            q, at, v = out + r * size, indices + r * count, x + r * count
            for k in rounds(0, count, 4):
                if u64(at[k]) < u64(size):
                    q[at[k]] = v[k]
                else:
                    wrong[0] = 1


@kernel
def take_at_indices(x: Ptr[T], indices: Ptr[i64], out: Ptr[T], wrong: Ptr[i64], planes: i64, count: i64,
                size: i64):  # fmt: skip
    """out [planes, count] = x [planes, size] at `indices`; wrong[0] becomes 1 where one is outside."""
    for lo, hi in parallel(planes, rows_of(2 * count)):
        for r in range(lo, hi):
            p, at, q = x + r * size, indices + r * count, out + r * count
            for k in rounds(0, count, 4):
                if u64(at[k]) < u64(size):
                    q[k] = p[at[k]]
                else:
                    wrong[0] = 1


# -- averages --------------------------------------------------------------------------------------


@inline
def summed(KW, S, p, z, y, x, n, W, H, zs, ys, kw, sw, T):
    """The sums of the windows that begin at z, y and x, x + sw, ...; n: as for `largest`."""
    L = width(T)
    s = splat(T.loaded(0), L)
    for a in range(zs[0], zs[1]):
        for b in range(ys[0], ys[1]):
            row = p + ((z + a) * H + y + b) * W
            if KW:
                for c in unroll(KW):
                    v, _ = columns(row, x, c, n, S, sw, L)
                    s = s + v
            else:
                for c in range(kw):
                    v, _ = columns(row, x + c, 0, n, S, sw, L)
                    s = s + v
    return s


@kernel
def averages(KW, S, x: Ptr[T], counts: Ptr[R], out: Ptr[T], planes: i64,
             D: i64, H: i64, W: i64, od: i64, oh: i64, ow: i64,
             kd: i64, kh: i64, kw: i64, sd: i64, sh: i64, sw: i64,
             pd: i64, ph: i64, pw: i64):  # fmt: skip
    """The sum of each window divided by its count; counts [od, oh, ow]. KW: as for `max_windows`."""
    L = width(T)
    whole = planes * D * H * W
    for lo, hi in parallel(planes * od * oh, rows_of(ow * kd * kh * kw)):
        plane = lo // oh // od * (D * H * W)
        z, y = lo // oh % od * sd - pd, lo % oh * sh - ph
        k = lo % (od * oh)
        for r in range(lo, hi):
            zs, ys = inside(z, kd, i64(1), D), inside(y, kh, i64(1), H)
            for j in range(0, ow, L):
                left, to, p = j * sw - pw, r * ow + j, x + plane
                if within(
                    KW,
                    S,
                    plane,
                    z,
                    y,
                    left,
                    ow - j,
                    whole,
                    W,
                    H,
                    zs,
                    ys,
                    kw,
                    sw,
                    i64(1),
                    i64(1),
                    i64(1),
                    L,
                ):
                    s = summed(KW, S, p, z, y, left, None, W, H, zs, ys, kw, sw, T)
                else:
                    s = summed(KW, S, p, z, y, left, W, W, H, zs, ys, kw, sw, T)
                here = iota(i64, L) < ow - j
                by = load(counts + (k * ow + j), L, here)
                if R.is_float:
                    mean = s / by
                else:
                    mean = s // select(here, by, 1)
                put(out, to, mean, hi * ow, here, L)
            y += sh
            k += 1
            if y == oh * sh - ph:
                y = 0 - ph
                z += sd
                if z == od * sd - pd:
                    z, k = 0 - pd, i64(0)
                    plane += D * H * W


@kernel
def averages_gradient(g: Ptr[R], counts: Ptr[R], out: Ptr[R], planes: i64,
                      D: i64, H: i64, W: i64, od: i64, oh: i64, ow: i64,
                      kd: i64, kh: i64, kw: i64, sd: i64, sh: i64, sw: i64,
                      pd: i64, ph: i64, pw: i64):  # fmt: skip
    """g / counts added to all elements of each window; windows are two wide and two apart."""
    L = width(R)
    n = D * H * W
    lane = iota(i32, L)
    pairs = [[i // 2 + half * (L // 2) for i in range(L)] for half in range(2)]
    for lo, hi in parallel(planes, rows_of(n)):
        for r in range(lo, hi):
            q = out + r * n
            for i in lanes(0, n):
                q[i] = R(0)
            for o in range(od * oh):
                z, y = o // oh * sd - pd, o % oh * sh - ph
                for j in range(0, ow, L):
                    x = j * sw - pw
                    here = iota(i64, L) < ow - j
                    by = select(here, load(counts + (o * ow + j), L, here), 1)
                    v = load(g + ((r * (od * oh) + o) * ow + j), L, here) / by
                    for a in range(max(0 - z, i64(0)), min(kd, D - z)):
                        for b in range(max(0 - y, i64(0)), min(kh, H - y)):
                            row = q + ((z + a) * H + y + b) * W
                            for half in unroll(2):
                                at = x + half * L
                                into = u32(lane + i32(at)) < u32(W)
                                into = into & (lane + i32(2 * j + half * L) < i32(2 * ow))
                                add(row + at, shuffle(v, v, pairs[half]), into, L)


@inline
def add(p, v, mask, L):
    store(p, load(p, L, mask) + v, mask)
