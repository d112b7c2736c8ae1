"""Normalisation: rows with weights of their columns (layer norm), planes with weights of their own
(batch, group and instance norm).

Means and sums of squared deviations are taken of one row or plane while it is in the cache, in two
passes, as PyTorch's; those of several planes are joined by the caller (Chan, Golub and LeVeque 1983).
"""

from __future__ import annotations

from rushlight.compiler.kernel import kernel
from rushlight.compiler.kernels.rows import itself, row_total, row_total_of_two, rows_of, width
from rushlight.compiler.language import (
    fma,
    inline,
    iota,
    lanes,
    load,
    parallel,
    select,
    splat,
    sqrt,
    store,
    total,
)  # fmt: skip
from rushlight.compiler.types import Ptr, f64, i64


@inline
def moments(p, n, T):
    """The mean of a row, and the sum of its squared deviations from it."""
    R = T.loaded
    mean = row_total(p, n, itself, T) / R(n)
    return mean, row_total(p, n, lambda v: (v - mean) * (v - mean), T)


@kernel
def row_norm(
    WEIGHT, BIAS, CENTRE, x: Ptr[T], weight: Ptr[W], bias: Ptr[W], y: Ptr[T], mean: Ptr[R], rstd: Ptr[R],
    rows: i64, n: i64, eps: f64,
):  # fmt: skip
    """y = (x - mean) / sqrt(variance + eps) * weight + bias, row by row; CENTRE False: the mean is 0."""
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p, q = x + r * n, y + r * n
            if CENTRE:
                m, s = moments(p, n, T)
                mean[r] = m
            else:
                m, s = R(0), row_total(p, n, lambda v: v * v, T)
            d = 1 / sqrt(s / R(n) + R(eps))
            rstd[r] = d
            for i in lanes(0, n):
                v = (p[i] - m) * d if CENTRE else p[i] * d
                if WEIGHT:
                    v = v * weight[i]
                if BIAS:
                    v = v + bias[i]
                q[i] = v


@kernel
def row_norm_backward(
    WEIGHT, CENTRE, INPUT, SUMS, g: Ptr[T], x: Ptr[T], weight: Ptr[W], gx: Ptr[T], gw: Ptr[R], gb: Ptr[R],
    rows: i64, n: i64, grain: i64, eps: f64,
):  # fmt: skip
    """The gradient by x, and for each chunk of `grain` rows the sums that make those by weight and
    bias: row k of gw and gb, which are 0 before."""
    for lo, hi in parallel(rows, grain):
        part = lo // grain * n
        a, b = gw + part, gb + part
        for r in range(lo, hi):
            p, h, q = x + r * n, g + r * n, gx + r * n
            if CENTRE:
                m, squares = moments(p, n, T)
            else:
                m, squares = R(0), row_total(p, n, lambda v: v * v, T)
            d = 1 / sqrt(squares / R(n) + R(eps))
            s, t = joint_sums(h, p, weight, a, b, m, d, n, WEIGHT, SUMS, T, W)
            if INPUT:
                s, t = s / R(n), t / R(n)
                for i in lanes(0, n):
                    v = h[i]
                    if WEIGHT:
                        v = v * weight[i]
                    c = (p[i] - m) * d
                    q[i] = d * (v - s - c * t) if CENTRE else d * (v - c * t)


@inline
def joint_sums(h, p, weight, a, b, m, d, n, WEIGHT, SUMS, T, W):
    """The sums over a row of h * w and h * w * c, c the normalised p; SUMS: h * c and h are added to
    the rows a and b."""
    L = width(T)
    R = T.loaded
    s, t = splat(R(0), L), splat(R(0), L)
    for i in range(0, n, L):
        here = iota(i64, L) < n - i
        v = load(h + i, L, here)
        c = select(here, (load(p + i, L, here) - m) * d, R(0))
        if SUMS:
            store(a + i, fma(v, c, load(a + i, L, here)), here)
            store(b + i, load(b + i, L, here) + v, here)
        if WEIGHT:
            v = v * load(weight + i, L, here)
        s = s + v
        t = fma(v, c, t)
    return total(s), total(t)


@kernel
def plane_moments(x: Ptr[T], mean: Ptr[R], squares: Ptr[R], planes: i64, size: i64):
    """The mean of each plane and the sum of its squared deviations."""
    for lo, hi in parallel(planes, rows_of(size)):
        for r in range(lo, hi):
            m, s = moments(x + r * size, size, T)
            mean[r] = m
            squares[r] = s


@kernel
def plane_scale(
    x: Ptr[T], scale: Ptr[R], shift: Ptr[R], y: Ptr[T], planes: i64, size: i64, period: i64
):
    """y = x * scale + shift; plane p takes number p % period of both."""
    for lo, hi in parallel(planes, rows_of(size)):
        for r in range(lo, hi):
            a, b = scale[r % period], shift[r % period]
            p, q = x + r * size, y + r * size
            for i in lanes(0, size):
                q[i] = p[i] * a + b


@kernel
def plane_sums(
    g: Ptr[T],
    x: Ptr[T],
    mean: Ptr[R],
    sums: Ptr[R],
    products: Ptr[R],
    planes: i64,
    size: i64,
    period: i64,
):
    """For each plane the sum of g, and of g * (x - mean); plane p takes mean[p % period]."""
    for lo, hi in parallel(planes, rows_of(size)):
        for r in range(lo, hi):
            m = mean[r % period]
            h = g + r * size
            sums[r] = row_total(h, size, itself, T)
            products[r] = row_total_of_two(h, x + r * size, size, lambda u, v: u * (v - m), T)


@kernel
def plane_blend(
    g: Ptr[T],
    x: Ptr[T],
    a: Ptr[R],
    b: Ptr[R],
    c: Ptr[R],
    out: Ptr[T],
    planes: i64,
    size: i64,
    period: i64,
):
    """out = a * g + b * x + c, with numbers of the plane (p % period)."""
    for lo, hi in parallel(planes, rows_of(size)):
        for r in range(lo, hi):
            k = r % period
            s, t, u = a[k], b[k], c[k]
            h, p, q = g + r * size, x + r * size, out + r * size
            for i in lanes(0, size):
                q[i] = h[i] * s + p[i] * t + u
