"""Maxima and averages over windows of planes [planes, D, H, W], row-major; 2D: D = 1.

A vector holds windows that lie side by side in one row of the result. What a window has outside of
the plane is masked: nothing is read or written there.
"""

from __future__ import annotations

from typing import Any

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.rows import rows_of, width
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, Type, b1, i32, i64, u32, u64

ROOM = 1 << 16  # elements of a plane of a half type that are added up in float32, at most
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
def columns(p, first, n, S, step, L):
    """L elements of a row of n (None: that has them all) from `first` on, S apart (S = 0: `step`), 0 where
    outside; which are inside."""
    lane = iota(i32, L)
    if n is None:
        inside = splat(b1(True), L)
    else:
        inside = u32(lane * i32(step) + i32(first)) < u32(n)
    if S == 1:
        v = piece(p, first, n, L)
    elif S == 2:
        parts = [piece(p, first + k * L, n, L) for k in range(2)]
        v = shuffle(parts[0], parts[1], tuple(range(0, 2 * L, 2)))
    elif S == 4:
        parts = [piece(p, first + k * L, n, L) for k in range(4)]
        even = tuple(range(0, 2 * L, 2))
        v = shuffle(shuffle(parts[0], parts[1], even), shuffle(parts[2], parts[3], even), even)
    else:
        v = gather(p, lane * i32(step) + i32(first), inside)
    return v, inside


# A window: its size, step, padding and dilation in each dimension, and the plane's sizes.


@inline
def larger(PLACES, v, inside, best, place, nan, here):
    """The first of the largest; a NaN, the last of several, before all: (value, place, NaN met).

    Without places NaNs are only noted, which leaves the comparison to one instruction."""
    if PLACES:
        take = ((v > best) | (v != v) | (place < 0)) & inside
        place = select(take, here, place)
        best = select(take, v, best)
    else:
        nan = nan | (v != v)
        v = select(inside, v, splat(typeof(v)(lowest(typeof(v))), lanesof(v)))
        best = select(v > best, v, best)
    return best, place, nan


@inline
def largest(PLACES, INNER, KW, S, p, z, y, x, D, H, W, kd, kh, kw, sw, dd, dh, dw, T):
    """The largest elements of the windows that begin at z, y and x, x + sw, ..., and where. INNER: the plane
    has all columns that are read."""
    n = None if INNER else W
    L = width(T)
    R = T.loaded
    best, place = splat(R(lowest(T)), L), splat(i32(-1), L)
    nan = best != best
    lane = iota(i32, L) * i32(sw)
    for a in range(kd):
        zz = z + a * dd
        if (zz >= 0) & (zz < D):
            for b in range(kh):
                yy = y + b * dh
                if (yy >= 0) & (yy < H):
                    row = (zz * H + yy) * W
                    if KW:
                        for c in unroll(KW):
                            at = x + c * dw
                            v, inside = columns(p + row, at, n, S, sw, L)
                            here = lane + i32(row + at)
                            best, place, nan = larger(PLACES, v, inside, best, place, nan, here)
                    else:
                        for c in range(kw):
                            at = x + c * dw
                            v, inside = columns(p + row, at, n, S, sw, L)
                            here = lane + i32(row + at)
                            best, place, nan = larger(PLACES, v, inside, best, place, nan, here)
    if T.is_float and not PLACES:
        best = select(nan, R(float("nan")), best)
    return best, place


@kernel
def max_windows(PLACES, APART, KW, S, x: Ptr[T], out: Ptr[T], places: Ptr[i64], planes: i64,
                D: i64, H: i64, W: i64, od: i64, oh: i64, ow: i64,
                kd: i64, kh: i64, kw: i64, sd: i64, sh: i64, sw: i64,
                pd: i64, ph: i64, pw: i64, dd: i64, dh: i64, dw: i64):  # fmt: skip
    """The largest element of each window, and its place in the plane. APART: windows that no border touches
    have code of their own, without masks."""
    L = width(T)
    for lo, hi in parallel(planes * od * oh, rows_of(ow * kd * kh * kw)):
        p = x + lo // oh // od * (D * H * W)
        z, y = lo // oh % od * sd - pd, lo % oh * sh - ph
        for r in range(lo, hi):
            for j in range(0, ow, L):
                left, to = j * sw - pw, r * ow + j
                inner = (left >= 0) & (left + (kw - 1) * dw + L * sw <= W)
                if APART and inner:
                    best, place = largest(
                        PLACES, True, KW, S, p, z, y, left, D, H, W, kd, kh, kw, sw, dd, dh, dw, T
                    )
                else:
                    best, place = largest(
                        PLACES, False, KW, S, p, z, y, left, D, H, W, kd, kh, kw, sw, dd, dh, dw, T
                    )
                here = iota(i64, L) < ow - j
                store(out + to, best, here)
                if PLACES:
                    store(places + to, i64(place), here)
            y += sh
            if y == oh * sh - ph:
                y = 0 - ph
                z += sd
                if z == od * sd - pd:
                    z = 0 - pd
                    p = p + D * H * W


@inline
def lowest_of(t):
    return t(lowest(t))


@kernel
def add_places(g: Ptr[T], places: Ptr[i64], out: Ptr[T], wrong: Ptr[i64], images: i64, count: i64,
               size: i64, C: i64):  # fmt: skip
    """out [images, size, C] = zeros, and g [images, count, C] added at `places`, which count along
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
            at, v = places + r * count * C, g + r * count * C
            if C == 1:
                for k in rounds(0, count, 4):
                    if u64(at[k]) < u64(size):
                        q[at[k]] += v[k]
                    else:
                        wrong[0] = 1
            else:
                for k in range(count):
                    for c in rounds(0, C, 4):
                        place = at[k * C + c]
                        if u64(place) < u64(size):
                            q[place * C + c] += v[k * C + c]
                        else:
                            wrong[0] = 1
            if R is not T:
                to = out + r * whole
                for i in lanes(0, whole):
                    to[i] = q[i]


@kernel
def put_places(x: Ptr[T], places: Ptr[i64], out: Ptr[T], wrong: Ptr[i64], planes: i64, count: i64,
               size: i64):  # fmt: skip
    """out [planes, size] = zeros, and x [planes, count] written at `places`, of several the last; wrong[0] becomes 1
    where one is outside."""
    for lo, hi in parallel(planes, rows_of(size + 2 * count)):
        for i in lanes(lo * size, hi * size):
            out[i] = T.loaded(0)
        for r in range(lo, hi):
            q, at, v = out + r * size, places + r * count, x + r * count
            for k in rounds(0, count, 4):
                if u64(at[k]) < u64(size):
                    q[at[k]] = v[k]
                else:
                    wrong[0] = 1


@kernel
def take_places(x: Ptr[T], places: Ptr[i64], out: Ptr[T], wrong: Ptr[i64], planes: i64, count: i64,
                size: i64):  # fmt: skip
    """out [planes, count] = x [planes, size] at `places`; wrong[0] becomes 1 where one is outside."""
    for lo, hi in parallel(planes, rows_of(2 * count)):
        for r in range(lo, hi):
            p, at, q = x + r * size, places + r * count, out + r * count
            for k in rounds(0, count, 4):
                if u64(at[k]) < u64(size):
                    q[k] = p[at[k]]
                else:
                    wrong[0] = 1


# -- averages --------------------------------------------------------------------------------------


@inline
def summed(KW, S, p, z, y, x, D, H, W, kd, kh, kw, sw, T):
    """The sums of the windows that begin at z, y and x, x + sw, ..."""
    L = width(T)
    s = splat(T.loaded(0), L)
    for a in range(max(0 - z, i64(0)), min(kd, D - z)):
        for b in range(max(0 - y, i64(0)), min(kh, H - y)):
            row = p + ((z + a) * H + y + b) * W
            if KW:
                for c in unroll(KW):
                    v, _ = columns(row, x + c, W, S, sw, L)
                    s = s + v
            else:
                for c in range(kw):
                    v, _ = columns(row, x + c, W, S, sw, L)
                    s = s + v
    return s


@kernel
def averages(KW, S, x: Ptr[T], counts: Ptr[R], out: Ptr[T], planes: i64,
             D: i64, H: i64, W: i64, od: i64, oh: i64, ow: i64,
             kd: i64, kh: i64, kw: i64, sd: i64, sh: i64, sw: i64,
             pd: i64, ph: i64, pw: i64):  # fmt: skip
    """The sum of each window divided by its count; counts [od, oh, ow]."""
    L = width(T)
    for lo, hi in parallel(planes * od * oh, rows_of(ow * kd * kh * kw)):
        p = x + lo // oh // od * (D * H * W)
        z, y = lo // oh % od * sd - pd, lo % oh * sh - ph
        k = lo % (od * oh)
        for r in range(lo, hi):
            for j in range(0, ow, L):
                s = summed(KW, S, p, z, y, j * sw - pw, D, H, W, kd, kh, kw, sw, T)
                here = iota(i64, L) < ow - j
                by = load(counts + (k * ow + j), L, here)
                if R.is_float:
                    mean = s / by
                else:
                    mean = s // select(here, by, 1)
                store(out + (r * ow + j), mean, here)
            y += sh
            k += 1
            if y == oh * sh - ph:
                y = 0 - ph
                z += sd
                if z == od * sd - pd:
                    z, k = 0 - pd, i64(0)
                    p = p + D * H * W


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
