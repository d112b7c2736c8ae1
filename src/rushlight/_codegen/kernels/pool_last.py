"""Maxima and averages over windows of images [N, H, W, C]: a vector holds neighbouring channels."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.pool import inside, lowest
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i32, i64, width

SIDE = 2  # vectors of channels that are taken together


@inline
def largest(INDICES, V, p, C, W, dh, dw, y0, y1, x0, x1, corner, left, T):
    """The largest elements of a window that begins at p, `corner` in the plane, in V vectors of
    channels, of which `left` exist, None for all; and where. Of several NaNs the last counts."""
    L = width(T)
    best = [splat(T.loaded(lowest(T)), L) for _ in range(V)]
    index = [splat(i32(corner + y0 * dh * W + x0 * dw), L) for _ in range(V)]
    for a in range(y0, y1):
        for b in range(x0, x1):
            spot = a * dh * W + b * dw
            for k in unroll(V):
                at = p + (spot * C + k * L)
                v = load(at, L) if left is None else load_line(at, left, L)
                take = (v > best[k]) | (v != v)
                best[k] = select(take, v, best[k])
                if INDICES:
                    index[k] = select(take, splat(i32(corner + spot), L), index[k])
    return best, index


@kernel
def max_windows(INDICES, x: Ptr[T], out: Ptr[T], indices: Ptr[i64], images: i64, C: i64,
                H: i64, W: i64, oh: i64, ow: i64, kh: i64, kw: i64,
                sh: i64, sw: i64, ph: i64, pw: i64, dh: i64, dw: i64):  # fmt: skip
    """The largest element of each window, and its index in the plane."""
    L = width(T)
    wide = C - C % (SIDE * L)
    for lo, hi in parallel(images * oh, rows_of(ow * kh * kw * C)):
        for r in range(lo, hi):
            y = r % oh * sh - ph
            image = x + r // oh * H * W * C
            y0, y1 = inside(y, kh, dh, H)
            for j in range(ow):
                left, to = j * sw - pw, (r * ow + j) * C
                x0, x1 = inside(left, kw, dw, W)
                corner = y * W + left
                p = image + corner * C
                for c in range(0, wide, SIDE * L):
                    best, index = largest(
                        INDICES, SIDE, p + c, C, W, dh, dw, y0, y1, x0, x1, corner, None, T
                    )
                    for k in unroll(SIDE):
                        store(out + (to + c + k * L), best[k])
                        if INDICES:
                            store(indices + (to + c + k * L), i64(index[k]))
                for c in range(wide, C, L):
                    best, index = largest(
                        INDICES, 1, p + c, C, W, dh, dw, y0, y1, x0, x1, corner, C - c, T
                    )
                    store_line(out + (to + c), best[0], C - c, L)
                    if INDICES:
                        store_line(indices + (to + c), i64(index[0]), C - c, L)


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
                    s = splat(T.loaded(0), L)
                    for a in range(y0, y1):
                        for b in range(x0, x1):
                            s = s + load_line(p + ((a * W + left + b) * C + c), C - c, L)
                    store_line(out + ((r * ow + j) * C + c), s / by, C - c, L)


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
                        v = load_line(g + (((n * oh + o) * ow + j) * C + c), C - c, L) / by
                        for a in range(y0, y1):
                            for b in range(x0, x1):
                                q = out + (corner + (a * W + b) * C + c)
                                store_line(q, v if APART else load_line(q, C - c, L) + v, C - c, L)
