"""Rows of a table added up in bags, numbers counted, and points between edges."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, b1, f64, i64, u64, width

TABLES = 4  # tables that numbers are counted in, so that equal neighbours do not wait
CHUNK = 65536  # numbers whose largest is found in one go


@inline
def rising(offsets, n, count):
    """Whether offsets go up from 0 or more to at most `count`."""
    wrong = i64(offsets[0] < 0) | i64(offsets[n - 1] > count)
    for b in range(1, n):
        wrong = wrong | i64(offsets[b] < offsets[b - 1])
    return wrong == 0


@inline
def within(indices, count, n):
    """Whether all indices are from 0 to n - 1."""
    wrong = i64(0)
    for i in range(count):
        wrong = wrong | i64(indices[i] < 0) | i64(indices[i] >= n)
    return wrong == 0


@kernel
def bags(WEIGHTED, MODE, SIDE, weight: Ptr[T], indices: Ptr[i64], offsets: Ptr[i64], factors: Ptr[T],
         out: Ptr[T], bag: Ptr[i64], sizes: Ptr[i64], max_indices: Ptr[i64], bad: Ptr[i64],
         n: i64, count: i64, inner: i64, padding: i64):  # fmt: skip
    """out[b] = the sum (MODE "sum", "mean" or "most") of weight[indices[i]] (times factors[i]) for the
    i of bag b, which is bag[i], but those whose index is `padding`; sizes[b]: how many they are; of
    "most", max_indices[b]: the row that each element is of. bad[0] = 1, and nothing is written, where
    `offsets`, at which bags begin, do not go up. SIDE: vectors of columns side by side."""
    L = width(T)
    if rising(offsets, n, count):
        for lo, hi in parallel(n, rows_of(inner * max(i64(1), count // n))):
            for b in range(lo, hi):
                first, last = offsets[b], count + 0
                if b + 1 < n:
                    last = offsets[b + 1]
                k = i64(0)
                for i in range(first, last):
                    k += i64(indices[i] != padding)
                    bag[i] = b
                sizes[b] = k
                if MODE == "most":
                    for c in range(0, inner, 8):
                        largest_of(
                            weight, indices, out, max_indices, b, c, first, last, inner, padding, T
                        )
                else:
                    wide = inner - inner % (SIDE * L)
                    for c in range(0, wide, SIDE * L):
                        summed(WEIGHTED, MODE, weight, indices, factors, out + (b * inner + c), None,
                               first, last, inner, c, k, padding, SIDE, L, T)  # fmt: skip
                    if wide < inner:
                        left = inner - wide
                        summed(WEIGHTED, MODE, weight, indices, factors, out + (b * inner + wide), left,
                               first, last, inner, wide, k, padding, SIDE, L, T)  # fmt: skip
    else:
        bad[0] = 1


@inline
def summed(
    WEIGHTED, MODE, weight, indices, factors, out, left, first, last, inner, c, k, padding, SIDE, L, T
):  # fmt: skip
    """SIDE vectors of columns of a bag, from column c on: `left` of them, None for all."""
    W = T.loaded
    sums = [splat(W(0), L) for _ in range(SIDE)]
    for i in range(first, last):
        row = indices[i]
        if row != padding:
            p = weight + (row * inner + c)
            for s in unroll(SIDE):
                v = load(p + s * L, L) if left is None else load_line(p + s * L, left - s * L, L)
                if WEIGHTED:
                    v = v * W(factors[i])
                sums[s] = sums[s] + v
    for s in unroll(SIDE):
        v = sums[s]
        if MODE == "mean":
            v = select(splat(k, L) > 0, v / W(k), v)
        if left is None:
            store(out + s * L, v)
        else:
            store_line(out + s * L, v, left - s * L, L)


@inline
def largest_of(weight, indices, out, max_indices, b, c, first, last, inner, padding, T):
    """Eight columns of a bag of maxima: the first of equal ones, the first NaN; 0 of an empty bag."""
    top, at = splat(T.loaded(0), 8), splat(i64(0), 8)
    none = b1(True)
    for i in range(first, last):
        row = indices[i]
        if row != padding:
            v = load_line(weight + (row * inner + c), inner - c, 8)
            if none:
                top = v
                at = splat(row, 8)
                none = b1(False)
            else:
                better = ((v > top) | (v != v)) & (top == top)
                top = select(better, v, top)
                at = select(better, splat(row, 8), at)
    store_line(out + (b * inner + c), top, inner - c, 8)
    store_line(max_indices + (b * inner + c), at, inner - c, 8)


@kernel
def bags_gradient(WEIGHTED, MEAN, g: Ptr[T], indices: Ptr[i64], bag: Ptr[i64], sizes: Ptr[i64],
                  factors: Ptr[T], out: Ptr[T], bad: Ptr[i64], count: i64, inner: i64, n: i64, rows: i64,
                  padding: i64):  # fmt: skip
    """The gradient of the table of `bags`, out [rows, inner]: in its row indices[i] the sum of g[bag[i]] (times
    factors[i]; MEAN: over the size of the bag), of n bags. bad[0] = 1, and nothing is written, where an index or
    a bag is out of range."""
    if within(indices, count, rows) & within(bag, count, n):
        for lo, hi in parallel(inner, max(i64(256), 65536 // (count + rows))):
            for row in range(rows):
                for c in lanes(lo, hi):
                    out[row * inner + c] = T(0)
            for i in range(count):
                row = indices[i]
                if row != padding:
                    p, q = g + bag[i] * inner, out + row * inner
                    if WEIGHTED:
                        by = factors[i]
                        for c in lanes(lo, hi):
                            q[c] = q[c] + p[c] * by
                    elif MEAN:
                        by = T(max(sizes[bag[i]], i64(1)))
                        for c in lanes(lo, hi):
                            q[c] = q[c] + p[c] / by
                    else:
                        for c in lanes(lo, hi):
                            q[c] = q[c] + p[c]
    else:
        bad[0] = 1


@kernel
def bag_factors_gradient(g: Ptr[T], weight: Ptr[T], indices: Ptr[i64], bag: Ptr[i64], out: Ptr[T],
                         bad: Ptr[i64], count: i64, inner: i64, n: i64, rows: i64, padding: i64):  # fmt: skip
    """The gradient of the factors of `bags`: out[i] = the inner product of g[bag[i]] and weight[indices[i]]; bad
    as `bags_gradient` has it."""
    L = width(T)
    if within(indices, count, rows) & within(bag, count, n):
        for lo, hi in parallel(count, rows_of(inner)):
            for i in range(lo, hi):
                s = splat(T(0), L)
                if indices[i] != padding:
                    p, q = g + bag[i] * inner, weight + indices[i] * inner
                    for c in range(0, inner, L):
                        s = s + load_line(p + c, inner - c, L) * load_line(q + c, inner - c, L)
                out[i] = total(s)
    else:
        bad[0] = 1


@kernel
def tops(x: Ptr[T], most: Ptr[u64], n: i64):
    """most[c] = the largest of chunk c of numbers, read as ones without sign, which puts negative ones
    above all others."""
    L = width(T)
    for lo, hi in parallel((n + (CHUNK - 1)) // CHUNK, 1):
        for c in range(lo, hi):
            start, stop = c * CHUNK, min((c + 1) * CHUNK, n)
            top = splat(u64(0), L)
            for i in range(start, stop, L):
                v = u64(i64(load_line(x + i, stop - i, L)))
                top = select(v > top, v, top)
            most[c] = largest(top)


@kernel
def counts(WEIGHTED, x: Ptr[T], weights: Ptr[W], tables: Ptr[R], n: i64, bins: i64, parts: i64,
           many: i64):  # fmt: skip
    """tables[p, t, x[i]] += 1 (WEIGHTED: weights[i]) for numbers of [0, bins), in `parts` parts of the
    numbers and `many` (1 or TABLES) tables for each, which are zeros; all are added up in the first."""
    one = R(1)
    for lo, hi in parallel(parts, 1):
        for part in range(lo, hi):
            start, stop = part * n // parts, (part + 1) * n // parts
            table = tables + part * many * bins
            whole = start
            if many == TABLES:
                whole = stop - (stop - start) % TABLES
                for i in range(start, whole, TABLES):
                    at = [i64(x[i + t]) for t in range(TABLES)]
                    for t in unroll(TABLES):
                        v = R(weights[i + t]) if WEIGHTED else one
                        table[t * bins + at[t]] += v
            for i in range(whole, stop):
                v = R(weights[i]) if WEIGHTED else one
                table[i64(x[i])] += v
    for t in range(1, parts * many):
        for b in lanes(0, bins):
            tables[b] = tables[b] + tables[t * bins + b]


@inline
def bin_of(x, edges, bins, T):
    """The bin that x is in, of `bins` between edges that go up, where edges[0] <= x <= edges[bins]: the last of those
    that begin at or before x. Where edges are evenly spaced the first guess is right, but for rounding."""
    low = edges[0]
    guess = (x - low) / (edges[bins] - low) * T(bins)
    at = i64(0)
    if guess >= T(bins):
        at = bins - 1
    elif guess > T(0):
        at = i64(guess)
    if (x < edges[at]) | (x >= edges[at + 1]):
        first, last = i64(0), bins + 1
        while first < last:
            middle = (first + last) // 2
            if edges[middle] <= x:
                first = middle + 1
            else:
                last = middle
        at = min(first - 1, bins - 1)
    return at


@kernel
def histogram(
    WEIGHTED, points: Ptr[T], edges: Ptr[T], begins: Ptr[i64], weights: Ptr[T], out: Ptr[f64], n: i64, dims: i64
):  # fmt: skip
    """out[the bins that the row points[i] is in] += 1 (WEIGHTED: weights[i]); rows outside of the edges, or with a
    NaN, are left out. Those of column d stand from edges[begins[d]] to the beginning of the next ones."""
    for i in range(n):
        bin, inside = i64(0), b1(True)
        for d in range(dims):
            x, e = points[i * dims + d], edges + begins[d]
            bins = begins[d + 1] - begins[d] - 1
            if (x >= e[0]) & (x <= e[bins]):
                bin = bin * bins + bin_of(x, e, bins, T)
            else:
                inside = b1(False)
        if inside:
            out[bin] += f64(weights[i]) if WEIGHTED else f64(1)


@kernel
def binned(x: Ptr[T], out: Ptr[i64], n: i64, low: f64, high: f64, bins: i64):
    """out[b] += 1 for the bin b of each x[i] from `low` to `high`; the last of the equal bins contains its right end."""
    W = T.loaded
    least, most = W(low), W(high)
    for i in range(n):
        v = x[i]
        if (v >= least) & (v <= most):
            out[min(i64((v - least) * W(bins) / (most - least)), bins - 1)] += 1
