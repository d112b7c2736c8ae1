"""Normalisation of rows, with weights of their columns (layer and RMS norm) or of the planes that
they are made of (group and instance norm).

Means and sums of squared deviations are taken of one row while it is in the cache, in two passes.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.rows import (
    itself,
    row_total,
    row_total_of_two,
    rows_in_chunk,
    rows_of,
    width,
)
from rushlight._codegen.kernels.shape_inference import (
    dims_of,
    in_order,
    like,
    note,
    row_major,
    shape_of,
    size_of,
)
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import DIMS, NUMBERS, OTHER_NDIM, OTHER_SHAPE, RUN
from rushlight._codegen.types import Header, Ptr, f64, i64

PARTS = 16  # chunks of rows at most: so many parts of the sums for weights are kept
COLUMNS = 2048  # sums that make a chunk
SIDE = 4  # rows whose sums are taken at once
BLOCK = 8  # rows that are treated together, at most
SPAN = 512  # and their elements: more at once, and memory waits while they are computed
PIECE = 16384  # elements of a row whose sum is taken at once


@inline
def total_of_pieces(p, n, F, T):
    """The sum of F(x) over a row, piece by piece: rows may have millions of elements."""
    s = f64(0)
    for i in range(0, n, PIECE):
        s = s + f64(row_total(p + i, min(PIECE, n - i), F, T))
    return T.loaded(s)


@inline
def moments(p, n, T, summed):
    """The mean of a row, and the sum of its squared deviations from it. `summed`: what sums a row."""
    R = T.loaded
    mean = summed(p, n, itself, T) / R(n)
    return mean, summed(p, n, lambda v: (v - mean) * (v - mean), T)


@inline
def block_of(n):
    """How many rows of n elements are treated together: what is done with one need not wait for the other."""
    return max(i64(1), min(i64(BLOCK), SPAN // n))


@inline
def row_statistics(CENTRE, T, x, n, count, m, d, eps):
    """m = the means and d = 1 / sqrt(variance + eps) of `count` rows; CENTRE False: means are 0."""
    R = T.loaded
    for r in range(count):
        m[r] = row_total(x + r * n, n, itself, T) / R(n) if CENTRE else R(0)
    for r in range(count):
        mean = m[r]
        if CENTRE:
            s = row_total(x + r * n, n, lambda v: (v - mean) * (v - mean), T)
        else:
            s = row_total(x + r * n, n, lambda v: v * v, T)
        d[r] = 1 / sqrt(s / R(n) + R(eps))


@inline
def normalise(WEIGHT, BIAS, CENTRE, T, R, p, q, weight, bias, n, m, d):
    """q = (p - m) * d * weight + bias of a row; CENTRE False: m is 0."""
    for i in lanes(0, n):
        v = (p[i] - m) * d if CENTRE else p[i] * d
        if WEIGHT:
            v = v * R(weight[i])
        if BIAS:
            v = v + R(bias[i])
        q[i] = v


@kernel
def row_norm(
    WEIGHT, BIAS, CENTRE, x: Ptr[T], weight: Ptr[W], bias: Ptr[W], y: Ptr[T], rows: i64, n: i64, eps: f64
):  # fmt: skip
    """Rows of `n` elements normalised: (x - mean) / sqrt(variance + eps) * weight + bias."""
    for lo, hi in parallel(rows, rows_of(n)):
        m, d = array(R, BLOCK), array(R, BLOCK)
        r = i64(lo)
        while r < hi:
            count = min(block_of(n), hi - r)
            row_statistics(CENTRE, T, x + r * n, n, count, m, d, eps)
            for k in range(count):
                p, q = x + (r + k) * n, y + (r + k) * n
                normalise(WEIGHT, BIAS, CENTRE, T, R, p, q, weight, bias, n, m[k], d[k])
            r += count


@kernel
def row_norm_kept(
    WEIGHT, BIAS, CENTRE, x: Ptr[T], weight: Ptr[W], bias: Ptr[W], y: Ptr[T], mean: Ptr[R], rstd: Ptr[R],
    rows: i64, n: i64, eps: f64,
):  # fmt: skip
    """The same, with the mean and 1 / sqrt(variance + eps) of each."""
    for lo, hi in parallel(rows, rows_of(n)):
        r = i64(lo)
        while r < hi:
            count = min(block_of(n), hi - r)
            row_statistics(CENTRE, T, x + r * n, n, count, mean + r, rstd + r, eps)
            for k in range(r, r + count):
                p, q = x + k * n, y + k * n
                normalise(WEIGHT, BIAS, CENTRE, T, R, p, q, weight, bias, n, mean[k], rstd[k])
            r += count


@inline
def plan_rows(a, weight, bias, n, eps, plan):
    nd, size = dims_of(a), size_of(a)
    fits = in_order(a) & in_order(weight) & in_order(bias) & (nd <= DIMS) & (n > 0) & (size > 0)
    plan[RUN] = 0
    if fits & (size_of(weight) == n) & (size_of(bias) == n):
        if size % n == 0:
            like(a, plan)
            note(plan, size, [size // n, n, bits(eps, i64)])
            plan[RUN] = 1


@kernel
def infer_row_norm(a: Header, weight: Header, bias: Header, n: i64, eps: f64, plan: Ptr[i64]):
    """The plan of rows of `n` elements, with weights and biases."""
    plan_rows(a, weight, bias, n, eps, plan)


@kernel
def infer_row_norm_kept(a: Header, weight: Header, bias: Header, n: i64, eps: f64, plan: Ptr[i64]):
    """As `infer_row_norm`; the other shape is that of the statistics, a number for each row."""
    plan_rows(a, weight, bias, n, eps, plan)
    plan[OTHER_NDIM] = 1
    plan[OTHER_SHAPE] = plan[NUMBERS]


@kernel
def infer_groups_norm(
    a: Header, weight: Header, bias: Header, groups: i64, eps: f64, plan: Ptr[i64]
):
    """The plan of `groups` groups of channels, with weights and biases; the other shape is that of the statistics."""
    nd, size = dims_of(a), size_of(a)
    fits = row_major(a) & in_order(weight) & in_order(bias) & (nd >= 2) & (nd <= DIMS)
    plan[RUN] = 0
    if fits & (size > 0) & (groups > 0):
        n, channels = shape_of(a)[0], shape_of(a)[1]
        fits = (size_of(weight) == channels) & (size_of(bias) == channels)
        if fits & (channels % groups == 0):
            like(a, plan)
            plan[OTHER_NDIM] = 2
            plan[OTHER_SHAPE] = n
            plan[OTHER_SHAPE + 1] = groups
            each = channels // groups
            note(plan, size, [n * groups, groups, each, size // (n * channels), bits(eps, i64)])
            plan[RUN] = 1


@kernel
def row_lengths(x: Ptr[T], out: Ptr[T], rows: i64, n: i64):
    """The square root of the sum of squares of each row."""
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            out[r] = sqrt(row_total(x + r * n, n, lambda v: v * v, T))


@kernel
def row_norm_backward(
    WEIGHT, CENTRE, INPUT, SUMS, g: Ptr[T], x: Ptr[T], weight: Ptr[W], gx: Ptr[T], gw: Ptr[W], gb: Ptr[W],
    parts: Ptr[R], rows: i64, n: i64, eps: f64,
):  # fmt: skip
    """The gradients by x and, with SUMS, by weight and bias. `parts`: 2 * PARTS rows of numbers for its
    own use, two for each chunk of rows."""
    grain = rows_in_chunk(rows, n, PARTS)
    for lo, hi in parallel(rows, grain):
        a = parts + lo // grain * 2 * n
        b = a + n
        if SUMS:
            for i in lanes(0, n):
                a[i] = 0
                b[i] = 0
        m, d, s, t = array(R, BLOCK), array(R, BLOCK), array(R, BLOCK), array(R, BLOCK)
        first = i64(lo)
        while first < hi:
            count = min(block_of(n), hi - first)
            p, h, q = x + first * n, g + first * n, gx + first * n
            row_statistics(CENTRE, T, p, n, count, m, d, eps)
            side = count - count % SIDE
            for r in range(0, side, SIDE):
                joint_sums(SIDE, h + r * n, p + r * n, weight, a, b, m + r, d + r, s + r, t + r, n,
                           WEIGHT, SUMS, T, W)  # fmt: skip
            for r in range(side, count):
                joint_sums(1, h + r * n, p + r * n, weight, a, b, m + r, d + r, s + r, t + r, n,
                           WEIGHT, SUMS, T, W)  # fmt: skip
            if INPUT:
                for r in range(count):
                    for i in lanes(r * n, r * n + n):
                        v = h[i]
                        if WEIGHT:
                            v = v * R(weight[i - r * n])
                        c = (p[i] - m[r]) * d[r]
                        q[i] = d[r] * (v - s[r] - c * t[r]) if CENTRE else d[r] * (v - c * t[r])
            first += count
    if SUMS:
        L = width(T)
        chunks = (rows + (grain - 1)) // grain
        for lo, hi in parallel(n, COLUMNS):
            for j in range(lo, hi, L):
                u, v = splat(R(0), L), splat(R(0), L)
                for k in range(chunks):
                    u = u + load_line(parts + (2 * k * n + j), hi - j, L)
                    v = v + load_line(parts + ((2 * k + 1) * n + j), hi - j, L)
                store_line(gw + j, u, hi - j, L)
                store_line(gb + j, v, hi - j, L)


@inline
def joint_sums(ROWS, h, p, weight, a, b, m, d, s, t, n, WEIGHT, SUMS, T, W):
    """The means over ROWS rows of h * w and h * w * c, c the normalised p, in s and t; SUMS: h * c and h are added
    to the rows a and b."""
    L = width(T)
    R = T.loaded
    u = [splat(R(0), L) for _ in range(ROWS)]
    v = [splat(R(0), L) for _ in range(ROWS)]
    whole = n - n % L
    every = iota(i64, L) < L
    for i in range(0, whole, L):
        joint_step(ROWS, h, p, weight, a, b, m, d, u, v, n, i, every, WEIGHT, SUMS, T, W)
    if whole < n:
        here = iota(i64, L) < n - whole
        joint_step(ROWS, h, p, weight, a, b, m, d, u, v, n, whole, here, WEIGHT, SUMS, T, W)
    for r in unroll(ROWS):
        s[r] = total(u[r]) / R(n)
        t[r] = total(v[r]) / R(n)


@inline
def joint_step(ROWS, h, p, weight, a, b, m, d, u, v, n, i, here, WEIGHT, SUMS, T, W):
    """What the columns from i on add to the sums u and v of `joint_sums`."""
    L = width(T)
    R = T.loaded
    products, sums = load(a + i, L, here) if SUMS else 0, load(b + i, L, here) if SUMS else 0
    w = load(weight + i, L, here) if WEIGHT else 1
    for r in unroll(ROWS):
        g = load(h + r * n + i, L, here)
        c = select(here, (load(p + r * n + i, L, here) - m[r]) * d[r], R(0))
        if SUMS:
            products = fma(g, c, products)
            sums = sums + g
        if WEIGHT:
            g = g * w
        u[r] = u[r] + g
        v[r] = fma(g, c, v[r])
    if SUMS:
        store(a + i, products, here)
        store(b + i, sums, here)


@kernel
def groups_norm(
    WEIGHT, BIAS, KEPT, x: Ptr[T], weight: Ptr[W], bias: Ptr[W], y: Ptr[T], mean: Ptr[R], rstd: Ptr[R],
    rows: i64, groups: i64, each: i64, size: i64, eps: f64,
):  # fmt: skip
    """y = (x - mean) / sqrt(variance + eps) * weight + bias by rows of each * size elements; a row is one
    of `groups` groups of `each` planes, and weights are those of planes."""
    L = width(T)
    n = each * size
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p, q = x + r * n, y + r * n
            first = r % groups * each
            m, s = moments(p, n, T, total_of_pieces)
            d = 1 / sqrt(s / R(n) + R(eps))
            if KEPT:
                mean[r] = m
                rstd[r] = d
            if size == 1:
                for i in lanes(0, n):
                    v = (p[i] - m) * d
                    if WEIGHT:
                        v = v * R(weight[first + i])
                    if BIAS:
                        v = v + R(bias[first + i])
                    q[i] = v
            else:
                for e in range(each):
                    a = d
                    if WEIGHT:
                        a = a * R(weight[first + e])
                    b = -m * a
                    if BIAS:
                        b = b + R(bias[first + e])
                    at, to = p + e * size, q + e * size
                    for i in range(0, size, L):
                        store_line(to + i, load_line(at + i, size - i, L) * a + b, size - i, L)


@kernel
def groups_norm_backward(
    WEIGHT, INPUT, SUMS, g: Ptr[T], x: Ptr[T], weight: Ptr[W], gx: Ptr[T], gw: Ptr[W], gb: Ptr[W],
    parts: Ptr[R], rows: i64, groups: i64, each: i64, size: i64, eps: f64,
):  # fmt: skip
    """The gradients by x and, with SUMS, by weight and bias. `parts`: two numbers for each plane, for its
    own use."""
    L = width(T)
    n, channels, planes = each * size, groups * each, rows * each
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p, h, q = x + r * n, g + r * n, gx + r * n
            first = r % groups * each
            m, squares = moments(p, n, T, total_of_pieces)
            d = 1 / sqrt(squares / R(n) + R(eps))
            sums, slopes = parts + r * each, parts + (planes + r * each)
            for e in range(each):
                if size == 1:
                    v = R(h[e])
                    sums[e] = v
                    slopes[e] = v * (p[e] - m) * d
                else:
                    sums[e] = row_total(h + e * size, size, itself, T)
                    t = row_total_of_two(
                        h + e * size, p + e * size, size, lambda u, v: u * (v - m), T
                    )
                    slopes[e] = t * d
            if INPUT:
                u, v = R(0), R(0)
                for e in range(each):
                    w = R(weight[first + e]) if WEIGHT else R(1)
                    u += w * sums[e]
                    v += w * slopes[e]
                u, v = u / R(n), v / R(n)
                by = -v * d * d  # gx = d * (w * g - u - v * (x - mean) * d)
                more = -d * u - by * m
                if size == 1:
                    for i in lanes(0, n):
                        w = R(weight[first + i]) if WEIGHT else R(1)
                        q[i] = h[i] * (d * w) + p[i] * by + more
                else:
                    for e in range(each):
                        a = d * R(weight[first + e]) if WEIGHT else d
                        z = e * size
                        for i in range(0, size, L):
                            here = load_line(h + (z + i), size - i, L)
                            sum = here * a + load_line(p + (z + i), size - i, L) * by
                            store_line(q + (z + i), sum + more, size - i, L)
    if SUMS:
        samples = rows // groups
        for lo, hi in parallel(channels, COLUMNS):
            for j in range(lo, hi, L):
                u, v = splat(R(0), L), splat(R(0), L)
                for k in range(samples):
                    u = u + load_line(parts + (planes + k * channels + j), hi - j, L)
                    v = v + load_line(parts + (k * channels + j), hi - j, L)
                store_line(gw + j, u, hi - j, L)
                store_line(gb + j, v, hi - j, L)
