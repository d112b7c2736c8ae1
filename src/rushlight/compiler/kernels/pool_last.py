"""Maxima and averages over windows of images [N, H, W, C]: a vector holds neighbouring channels."""

from __future__ import annotations

from rushlight.compiler.kernel import kernel
from rushlight.compiler.kernels.pool import lowest
from rushlight.compiler.kernels.rows import rows_of, width
from rushlight.compiler.language import (
    inline,
    iota,
    lanes,
    load,
    parallel,
    select,
    splat,
    store,
)
from rushlight.compiler.types import Ptr, i32, i64


@inline
def inside(start, k, d, n):
    """The first and one more than the last of the k elements of a window, d apart, that are in
    [0, n)."""
    first = select(start < 0, (0 - start + (d - 1)) // d, i64(0))
    last = select(start < n, (n - start + (d - 1)) // d, i64(0))
    return first, min(k, last)


@kernel
def max_windows(x: Ptr[T], out: Ptr[T], images: i64, C: i64,
                H: i64, W: i64, oh: i64, ow: i64, kh: i64, kw: i64,
                sh: i64, sw: i64, ph: i64, pw: i64, dh: i64, dw: i64):  # fmt: skip
    L = width(T)
    for lo, hi in parallel(images * oh, rows_of(ow * kh * kw * C)):
        for r in range(lo, hi):
            y = r % oh * sh - ph
            p = x + (r // oh * H + y) * W * C
            y0, y1 = inside(y, kh, dh, H)
            for j in range(ow):
                left = j * sw - pw
                x0, x1 = inside(left, kw, dw, W)
                for c in range(0, C, L):
                    here = iota(i64, L) < C - c
                    best = splat(T.loaded(lowest(T)), L)
                    for a in range(y0, y1):
                        for b in range(x0, x1):
                            v = load(p + ((a * dh * W + left + b * dw) * C + c), L, here)
                            best = select((v > best) | (v != v), v, best)
                    store(out + ((r * ow + j) * C + c), best, here)


@kernel
def max_windows_gradient(APART, TILED, g: Ptr[T], x: Ptr[T], out: Ptr[T], images: i64, C: i64,
                         H: i64, W: i64, oh: i64, ow: i64, kh: i64, kw: i64,
                         sh: i64, sw: i64, ph: i64, pw: i64, dh: i64, dw: i64):  # fmt: skip
    """g at the first largest element of each window, 0 elsewhere. APART: windows do not meet; TILED:
    and leave nothing out."""
    L = width(T)
    size = H * W * C
    for lo, hi in parallel(images, 1):
        for n in range(lo, hi):
            if not TILED:
                for i in lanes(n * size, n * size + size):
                    out[i] = T.loaded(0)
            for o in range(oh):
                y = o * sh - ph
                y0, y1 = inside(y, kh, dh, H)
                for j in range(ow):
                    left = j * sw - pw
                    x0, x1 = inside(left, kw, dw, W)
                    corner = ((n * H + y) * W + left) * C
                    for c in range(0, C, L):
                        here = iota(i64, L) < C - c
                        best = splat(T.loaded(lowest(T)), L)
                        place = splat(i32(-1), L)
                        for a in range(y0, y1):
                            for b in range(x0, x1):
                                v = load(x + (corner + (a * dh * W + b * dw) * C + c), L, here)
                                take = (v > best) | (v != v) | (place < 0)
                                best = select(take, v, best)
                                place = select(take, splat(i32(a * kw + b), L), place)
                        v = load(g + (((n * oh + o) * ow + j) * C + c), L, here)
                        for a in range(y0, y1):
                            for b in range(x0, x1):
                                q = out + (corner + (a * dh * W + b * dw) * C + c)
                                own = select(place == i32(a * kw + b), v, 0)
                                store(q, own if APART else load(q, L, here) + own, here)


@kernel
def averages(x: Ptr[T], counts: Ptr[R], out: Ptr[T], images: i64, C: i64,
             H: i64, W: i64, oh: i64, ow: i64, kh: i64, kw: i64,
             sh: i64, sw: i64, ph: i64, pw: i64):  # fmt: skip
    """The sum of each window divided by its count; counts [oh, ow]."""
    L = width(T)
    for lo, hi in parallel(images * oh, rows_of(ow * kh * kw * C)):
        for r in range(lo, hi):
            y = r % oh * sh - ph
            p = x + (r // oh * H + y) * W * C
            y0, y1 = inside(y, kh, i64(1), H)
            for j in range(ow):
                left = j * sw - pw
                x0, x1 = inside(left, kw, i64(1), W)
                by = counts[r % oh * ow + j]
                for c in range(0, C, L):
                    here = iota(i64, L) < C - c
                    s = splat(T.loaded(0), L)
                    for a in range(y0, y1):
                        for b in range(x0, x1):
                            s = s + load(p + ((a * W + left + b) * C + c), L, here)
                    store(out + ((r * ow + j) * C + c), s / by, here)


@kernel
def averages_gradient(APART, TILED, g: Ptr[R], counts: Ptr[R], out: Ptr[R], images: i64, C: i64,
                      H: i64, W: i64, oh: i64, ow: i64, kh: i64, kw: i64,
                      sh: i64, sw: i64, ph: i64, pw: i64):  # fmt: skip
    """g / counts added to all elements of each window; APART, TILED: as above."""
    L = width(R)
    size = H * W * C
    for lo, hi in parallel(images, 1):
        for n in range(lo, hi):
            if not TILED:
                for i in lanes(n * size, n * size + size):
                    out[i] = R(0)
            for o in range(oh):
                y = o * sh - ph
                y0, y1 = inside(y, kh, i64(1), H)
                for j in range(ow):
                    left = j * sw - pw
                    x0, x1 = inside(left, kw, i64(1), W)
                    corner = ((n * H + y) * W + left) * C
                    by = counts[o * ow + j]
                    for c in range(0, C, L):
                        here = iota(i64, L) < C - c
                        v = load(g + (((n * oh + o) * ow + j) * C + c), L, here) / by
                        for a in range(y0, y1):
                            for b in range(x0, x1):
                                q = out + (corner + (a * W + b) * C + c)
                                store(q, v if APART else load(q, L, here) + v, here)
