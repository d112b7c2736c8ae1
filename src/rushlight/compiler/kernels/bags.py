"""Rows of a table added up in bags, and numbers counted."""

from __future__ import annotations

from rushlight.compiler.kernel import kernel
from rushlight.compiler.kernels.rows import rows_of, width
from rushlight.compiler.language import (
    iota,
    lanes,
    largest,
    load,
    parallel,
    select,
    splat,
    store,
    unroll,
)
from rushlight.compiler.types import Ptr, i64, u64

SIDE = 4  # vectors of columns side by side
TABLES = 4  # tables that numbers are counted in, so that equal neighbours do not wait
CHUNK = 65536  # numbers whose largest is found in one go


@kernel
def bags(WEIGHTED, MEAN, weight: Ptr[T], indices: Ptr[i64], ends: Ptr[i64], factors: Ptr[T],
         out: Ptr[T], sizes: Ptr[i64], n: i64, inner: i64, padding: i64, mean_length: i64):  # fmt: skip
    """out[b] = the sum of weight[indices[i]] (times factors[i]) for i of [ends[b], ends[b + 1]) but those
    whose index is `padding`; sizes[b]: how many. MEAN: divided by that."""
    L = width(T)
    W = T.loaded
    for lo, hi in parallel(n, rows_of(inner * mean_length)):
        for b in range(lo, hi):
            first, last = ends[b], ends[b + 1]
            k = i64(0)
            for i in range(first, last):
                k += i64(indices[i] != padding)
            sizes[b] = k
            divisor = W(k)
            for c in range(0, inner, SIDE * L):
                here = [iota(i64, L) < inner - c - s * L for s in range(SIDE)]
                sums = [splat(W(0), L) for _ in range(SIDE)]
                for i in range(first, last):
                    row = indices[i]
                    if row != padding:
                        p = weight + row * inner + c
                        for s in unroll(SIDE):
                            v = load(p + s * L, L, here[s])
                            if WEIGHTED:
                                v = v * W(factors[i])
                            sums[s] = sums[s] + v
                for s in unroll(SIDE):
                    v = sums[s]
                    if MEAN:
                        v = select(splat(k, L) > 0, v / divisor, v)
                    store(out + (b * inner + c + s * L), v, here[s])


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
                v = u64(i64(load(x + i, L, iota(i64, L) < stop - i)))
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
