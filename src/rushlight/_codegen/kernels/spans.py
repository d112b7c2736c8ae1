"""Maxima and averages over windows that differ in size: adaptive and fractional pooling.

Planes are [planes, D, H, W, C], with C = 1 unless the kernel is for channels that are LAST. In each dimension window
i reaches from spans[i, 0] to before spans[i, 1]; with `apart` = 1 every plane has spans of its own.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.pool import lowest_of
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, b1, i32, i64, width


@inline
def span(p, n, r, i):
    """Where window i of n begins and ends, of the r-th spans."""
    at = (r * n + i) * 2
    return p[at], p[at + 1]


@inline
def better(v, best):
    """Whether it takes the index of what came before it: the first of the largest stays, the last NaN counts."""
    return (v > best) | (v != v)


@inline
def largest_in_row_major(p, H, W, z0, z1, y0, y1, x0, x1, T):
    """The largest of one window and its index in the plane: what it is first, then where."""
    L, I = width(T), i64 if T.size == 8 else i32
    best, strange = splat(lowest_of(T.loaded), L), splat(T.loaded(0), L)
    for a in range(z0, z1):
        for b in range(y0, y1):
            row = (a * H + b) * W
            for c in range(x0, x1, L):
                inside = iota(I, L) < I(x1 - c)
                v = load(p + (row + c), L, inside)  # 0 beside the window
                strange = select(v != v, v, strange)
                best = select((v > best) & inside, v, best)
    high, index, nan = largest(best), i64(-1), some(strange != strange)
    for a in range(z0, z1):
        for b in range(y0, y1):
            row = (a * H + b) * W
            if nan:
                for c in range(row + x0, row + x1):
                    index = c if p[c] != p[c] else index
            elif index < 0:
                for c in range(x0, x1, L):
                    inside = iota(I, L) < I(x1 - c)
                    met = (load(p + (row + c), L, inside) == high) & inside
                    if some(met):
                        here = select(met, iota(I, L), splat(I(L), L))
                        index = row + c + i64(smallest(here))
                        break
    return p[index], i32(index)


@inline
def largest_of_few(p, H, W, z0, z1, y0, y1, x0, x1, T):
    """As `largest_in_row_major`, one element after the other."""
    best, index = lowest_of(T.loaded), i32((z0 * H + y0) * W + x0)
    for a in range(z0, z1):
        for b in range(y0, y1):
            row = (a * H + b) * W
            for c in range(row + x0, row + x1):
                v = p[c]
                take = better(v, best)
                best = select(take, v, best)
                index = select(take, i32(c), index)
    return best, index


@kernel
def maxima(LAST, x: Ptr[T], out: Ptr[T], indices: Ptr[i64], planes: i64, C: i64,
           D: i64, H: i64, W: i64, od: i64, oh: i64, ow: i64,
           zs: Ptr[i64], ys: Ptr[i64], xs: Ptr[i64], apart: i64):  # fmt: skip
    """The largest of each window, and its index in the plane."""
    L = width(T)
    for lo, hi in parallel(planes * od * oh, rows_of(D * H * W * C // max(od * oh, i64(1)))):
        for r in range(lo, hi):
            plane = r // oh // od
            p = x + plane * (D * H * W * C)
            z0, z1 = span(zs, od, plane * apart, r // oh % od)
            y0, y1 = span(ys, oh, plane * apart, r % oh)
            for j in range(ow):
                x0, x1 = span(xs, ow, plane * apart, j)
                if LAST:
                    for k in range(0, C, L):
                        high = splat(lowest_of(T.loaded), L)
                        at = splat(i32((z0 * H + y0) * W + x0), L)
                        for a in range(z0, z1):
                            for b in range(y0, y1):
                                for c in range(x0, x1):
                                    spot = (a * H + b) * W + c
                                    v = load_line(p + (spot * C + k), C - k, L)
                                    take = better(v, high)
                                    high = select(take, v, high)
                                    at = select(take, splat(i32(spot), L), at)
                        store_line(out + ((r * ow + j) * C + k), high, C - k, L)
                        store_line(indices + ((r * ow + j) * C + k), i64(at), C - k, L)
                else:
                    if 2 * (x1 - x0) <= L:
                        best, index = largest_of_few(p, H, W, z0, z1, y0, y1, x0, x1, T)
                    else:
                        best, index = largest_in_row_major(p, H, W, z0, z1, y0, y1, x0, x1, T)
                    out[r * ow + j] = best
                    indices[r * ow + j] = i64(index)


@kernel
def averages(LAST, x: Ptr[T], out: Ptr[T], planes: i64, C: i64,
             D: i64, H: i64, W: i64, od: i64, oh: i64, ow: i64,
             zs: Ptr[i64], ys: Ptr[i64], xs: Ptr[i64]):  # fmt: skip
    """The average of each window."""
    L = width(T)
    R = T.loaded
    for lo, hi in parallel(planes * od * oh, rows_of(D * H * W * C // max(od * oh, i64(1)))):
        for r in range(lo, hi):
            p = x + r // oh // od * (D * H * W * C)
            z0, z1 = span(zs, od, i64(0), r // oh % od)
            y0, y1 = span(ys, oh, i64(0), r % oh)
            for j in range(ow):
                x0, x1 = span(xs, ow, i64(0), j)
                by = R((z1 - z0) * (y1 - y0) * (x1 - x0))
                if LAST:
                    for k in range(0, C, L):
                        s = splat(R(0), L)
                        for a in range(z0, z1):
                            for b in range(y0, y1):
                                for c in range(x0, x1):
                                    at = p + (((a * H + b) * W + c) * C + k)
                                    s = s + load_line(at, C - k, L)
                        store_line(out + ((r * ow + j) * C + k), s / by, C - k, L)
                else:
                    s = splat(R(0), L)
                    for a in range(z0, z1):
                        for b in range(y0, y1):
                            row = p + (a * H + b) * W
                            for c in range(x0, x1, L):
                                s = s + load_line(row + c, x1 - c, L)
                    out[r * ow + j] = total(s) / by


@inline
def spread(g, q, C, w, z0, z1, y0, y1, oh, ow, zs, ys, xs, across, T):
    """A row of the gradient of `averages`: to each of its w elements, the sum over the windows that it is in."""
    R = T.loaded
    c = i64(0)
    while c < w:
        x0, x1 = span(across, w, i64(0), c)
        end = xs[2 * x0 + 1]  # up to here elements are in the same windows
        if x1 < ow:
            end = min(end, xs[2 * x1])
        for k in lanes(0, C):
            s = R(0)
            for a in range(z0, z1):
                for b in range(y0, y1):
                    for j in range(x0, x1):
                        by = (zs[2 * a + 1] - zs[2 * a]) * (ys[2 * b + 1] - ys[2 * b])
                        by = by * (xs[2 * j + 1] - xs[2 * j])
                        s = s + R(g[((a * oh + b) * ow + j) * C + k]) / R(by)
            q[c * C + k] = s
        if C == 1:
            v = q[c]
            for t in lanes(c + 1, end):
                q[t] = v
        else:
            for t in range(c + 1, end):
                for k in lanes(0, C):
                    q[t * C + k] = q[c * C + k]
        c = end


@kernel
def averages_gradient(g: Ptr[T], out: Ptr[T], planes: i64, C: i64,
                      D: i64, H: i64, W: i64, od: i64, oh: i64, ow: i64,
                      zs: Ptr[i64], ys: Ptr[i64], xs: Ptr[i64],
                      deep: Ptr[i64], down: Ptr[i64], across: Ptr[i64]):  # fmt: skip
    """The gradient of `averages`; `deep`, `down` and `across` tell for each position along a dimension the windows it is in.
    A row in the same windows as one before it is a copy of that."""
    n = W * C
    for lo, hi in parallel(planes * D, rows_of(H * n)):
        for r in range(lo, hi):
            z = r % D
            z0, z1 = span(deep, D, i64(0), z)
            p, q = g + r // D * (od * oh * ow * C), out + r * (H * n)
            same = b1(False)
            if (r > lo) & (z > 0):
                before, last = span(deep, D, i64(0), z - 1)
                same = (before == z0) & (last == z1)
            if same:
                of = q - H * n
                for e in lanes(0, H * n):
                    q[e] = of[e]
            else:
                top, low = i64(-1), i64(-1)
                for y in range(H):
                    y0, y1 = span(down, H, i64(0), y)
                    row = q + y * n
                    if (y0 == top) & (y1 == low):
                        for e in lanes(0, n):
                            row[e] = (row - n)[e]
                    else:
                        spread(p, row, C, W, z0, z1, y0, y1, oh, ow, zs, ys, xs, across, T)
                    top = y0
                    low = y1


@inline
def rounded(v, T):
    """A number as a type holds it."""
    return T.loaded(T(T.loaded(v)))


@kernel
def fractional_spans(samples: Ptr[T], out: Ptr[i64], wrong: Ptr[i64], planes: i64, columns: i64,
                     column: i64, size: i64, k: i64, m: i64):  # fmt: skip
    """Where the m windows of size k of fractional pooling over `size` elements begin and end, out [planes, m, 2], by
    one column of random numbers [planes, columns]; wrong[0] becomes 1 where one reaches outside."""
    for r in range(planes):
        u = samples[r * columns + column]
        step = rounded(rounded(size - k, T) / rounded(max(m - 1, i64(1)), T), T)
        first = i64(rounded(u * step, T))
        for i in range(m):
            start = i64(rounded(rounded(rounded(i, T) + u, T) * step, T)) - first
            if i == m - 1:
                start = size - k
            if (start < 0) | (start > size - k):
                wrong[0] = 1
            out[(r * m + i) * 2] = start
            out[(r * m + i) * 2 + 1] = start + k
