"""Group normalisation of channels that are next to each other in memory: [samples, size, channels].

A group's numbers are pieces of `each` channels in `size` rows. Means and squared deviations are taken of
single channels in chunks of rows, as batch_norm.py takes them, and joined (Chan, Golub and LeVeque 1983).
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.batch_norm import PARTS, SIDE, strip_moments, strip_sums
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.rows import rows_in_chunk, rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f64, i64, width

TABLES = 4  # rows of numbers that are kept for each sample, besides two for each chunk


@routine(separate=True)
def moments_of_channels(x, parts, samples, size, channels, T):
    """Means and squared deviations of each channel in each chunk of each sample, in two rows of `parts`."""
    L = width(T)
    wide = SIDE * L
    grain = rows_in_chunk(size, channels, PARTS)
    chunks = (size + (grain - 1)) // grain
    for lo, hi in parallel(samples * chunks, rows_of(grain * channels)):
        for c in range(lo, hi):
            first = c % chunks * grain
            rows = min(grain, size - first)
            p = x + (c // chunks * size + first) * channels
            means = parts + c * 2 * channels
            squares = means + channels
            whole = channels - channels % wide
            for j in range(0, whole, wide):
                strip_moments(p + j, rows, channels, i64(wide), means + j, squares + j, SIDE, T)
            for j in range(whole, channels, L):
                strip_moments(p + j, rows, channels, channels - j, means + j, squares + j, 1, T)


@routine(separate=True)
def sums_of_channels(g, x, parts, tables, samples, size, channels, T):
    """The sums of g and of g times what x is above its mean, of each channel in each chunk of each sample,
    in two rows of `parts`; the means are the first row of a sample's `tables`."""
    L = width(T)
    wide = SIDE * L
    grain = rows_in_chunk(size, channels, PARTS)
    chunks = (size + (grain - 1)) // grain
    for lo, hi in parallel(samples * chunks, rows_of(grain * channels)):
        for c in range(lo, hi):
            first = c % chunks * grain
            rows = min(grain, size - first)
            at = (c // chunks * size + first) * channels
            means = tables + c // chunks * TABLES * channels
            sums = parts + c * 2 * channels
            products = sums + channels
            whole = channels - channels % wide
            for j in range(0, whole, wide):
                strip_sums(g + at + j, x + at + j, x + at + j, means + j, rows, channels, i64(wide),
                           sums + j, products + j, False, SIDE, T)  # fmt: skip
            for j in range(whole, channels, L):
                strip_sums(g + at + j, x + at + j, x + at + j, means + j, rows, channels, channels - j,
                           sums + j, products + j, False, 1, T)  # fmt: skip


@inline
def moments_of_group(parts, chunks, grain, size, channels, first, each, R):
    """The mean of a group of a sample, whose chunks are in `parts`, and its sum of squared deviations."""
    mean, squares = R(0), R(0)
    for k in range(chunks):
        rows = R(min(grain, size - k * grain))
        s = R(0)
        for e in range(each):
            s += parts[2 * k * channels + first + e]
        mean += s * rows
    mean = mean / R(size * each)
    for k in range(chunks):
        rows = R(min(grain, size - k * grain))
        for e in range(each):
            at = 2 * k * channels + first + e
            difference = parts[at] - mean
            squares += parts[at + channels] + difference * difference * rows
    return mean, squares


@kernel
def groups_last(
    WEIGHT, BIAS, KEPT, x: Ptr[T], weight: Ptr[W], bias: Ptr[W], y: Ptr[T], mean: Ptr[R], rstd: Ptr[R],
    parts: Ptr[R], tables: Ptr[R], samples: i64, size: i64, groups: i64, each: i64, eps: f64,
):  # fmt: skip
    """y = (x - mean) / sqrt(variance + eps) * weight + bias. `parts`: two rows of numbers for each chunk of
    each sample, `tables`: TABLES for each sample, for its own use."""
    channels = groups * each
    grain = rows_in_chunk(size, channels, PARTS)
    chunks = (size + (grain - 1)) // grain
    moments_of_channels(x, parts, samples, size, channels, T=T)
    for lo, hi in parallel(samples, rows_of(channels * chunks)):
        for n in range(lo, hi):
            own = parts + n * chunks * 2 * channels
            scale = tables + n * TABLES * channels
            shift = scale + channels
            for i in range(groups):
                first = i * each
                m, s = moments_of_group(own, chunks, grain, size, channels, first, each, R)
                d = 1 / sqrt(s / R(size * each) + R(eps))
                if KEPT:
                    mean[n * groups + i] = m
                    rstd[n * groups + i] = d
                for c in range(first, first + each):
                    a = d * R(weight[c]) if WEIGHT else d
                    scale[c] = a
                    shift[c] = R(bias[c]) - m * a if BIAS else -m * a
    for lo, hi in parallel(samples * size, rows_of(channels)):
        for r in range(lo, hi):
            p, q = x + r * channels, y + r * channels
            scale = tables + r // size * TABLES * channels
            shift = scale + channels
            for i in lanes(0, channels):
                q[i] = p[i] * scale[i] + shift[i]


@kernel(quick=True)
def groups_last_backward(
    WEIGHT, INPUT, SUMS, g: Ptr[T], x: Ptr[T], weight: Ptr[W], gx: Ptr[T], gw: Ptr[W], gb: Ptr[W],
    parts: Ptr[R], tables: Ptr[R], samples: i64, size: i64, groups: i64, each: i64, eps: f64,
):  # fmt: skip
    """The gradients by x and, with SUMS, by weight and bias. `parts` and `tables` as above."""
    L = width(T)
    channels = groups * each
    grain = rows_in_chunk(size, channels, PARTS)
    chunks = (size + (grain - 1)) // grain
    moments_of_channels(x, parts, samples, size, channels, T=T)
    for lo, hi in parallel(samples, rows_of(channels * chunks)):
        for n in range(lo, hi):
            own = parts + n * chunks * 2 * channels
            means = tables + n * TABLES * channels
            for i in range(groups):
                first = i * each
                m, s = moments_of_group(own, chunks, grain, size, channels, first, each, R)
                d = 1 / sqrt(s / R(size * each) + R(eps))
                for c in range(first, first + each):
                    means[c] = m
                    means[channels + c] = d
    sums_of_channels(g, x, parts, tables, samples, size, channels, T=T)
    # Of each sample from here on: sums of g, and of g times the normalised x; what x is multiplied
    # by, and what is added; gx = d * (w * g - u - v * (x - mean) * d).
    for lo, hi in parallel(samples, rows_of(channels * chunks)):
        for n in range(lo, hi):
            own = parts + n * chunks * 2 * channels
            table = tables + n * TABLES * channels
            for c in range(channels):
                s, t = R(0), R(0)
                for k in range(chunks):
                    s += own[2 * k * channels + c]
                    t += own[(2 * k + 1) * channels + c]
                own[c] = s
                own[channels + c] = t * table[channels + c]
            for i in range(groups):
                first = i * each
                u, v = R(0), R(0)
                for c in range(first, first + each):
                    w = R(weight[c]) if WEIGHT else R(1)
                    u += w * own[c]
                    v += w * own[channels + c]
                u, v = u / R(size * each), v / R(size * each)
                m, d = table[first], table[channels + first]
                by = -v * d * d
                for c in range(first, first + each):
                    table[channels + c] = d * R(weight[c]) if WEIGHT else d
                    table[2 * channels + c] = by
                    table[3 * channels + c] = -d * u - by * m
    if INPUT:
        for lo, hi in parallel(samples * size, rows_of(channels)):
            for r in range(lo, hi):
                p, h, q = x + r * channels, g + r * channels, gx + r * channels
                a = tables + (r // size * TABLES + 1) * channels
                b, c = a + channels, a + 2 * channels
                for i in range(0, channels, L):
                    left = channels - i
                    v = load_line(h + i, left, L) * load_line(a + i, left, L)
                    v = fma(load_line(p + i, left, L), load_line(b + i, left, L), v)
                    store_line(q + i, v + load_line(c + i, left, L), left, L)
    if SUMS:
        for j in range(0, channels, L):
            here = iota(i64, L) < channels - j
            u, v = splat(R(0), L), splat(R(0), L)
            for n in range(samples):
                at = n * chunks * 2 * channels + j
                u = u + load(parts + (at + channels), L, here)
                v = v + load(parts + at, L, here)
            store(gw + j, u, here)
            store(gb + j, v, here)
