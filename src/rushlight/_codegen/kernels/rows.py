"""Walks along rows: sums, largest elements, and the pieces that kernels over rows are made of.

A row is `n` elements side by side. Its sum runs in eight vectors, which are added as a tree at the end:
the order is fixed, and the error grows with the length of a row over the number of their lanes.
"""

from __future__ import annotations

from rushlight._codegen.language import *
from rushlight._codegen.types import i64, width

CHUNK = 16384  # elements in a chunk of rows
SIDE = 8  # vectors side by side, so that one need not wait for the other


@inline
def shared(count, least):
    """How many of `count` pieces of light work a chunk has: `least`, or up to four times as many where
    sixteen chunks are left, since to claim one costs as much as some thousand elements."""
    return max(least, min(count // 16, 4 * least))


@inline
def rows_of(n):
    """How many rows of n elements, or steps, make a chunk."""
    m = CHUNK // (n if n > 0 else i64(1))
    return m if m > 1 else i64(1)


@inline
def rows_in_chunk(rows, n, PARTS):
    """How many rows make a chunk, so that there are no more chunks than PARTS."""
    return max(rows_of(n), (rows + (PARTS - 1)) // PARTS)


@inline
def tree(v):
    """The sum of eight vectors."""
    return ((v[0] + v[1]) + (v[2] + v[3])) + ((v[4] + v[5]) + (v[6] + v[7]))


@inline
def row_total(p, n, F, T):
    """The sum of F(x) over a row."""
    L = width(T)
    R = T.loaded
    sums = [splat(R(0), L) for _ in range(SIDE)]
    wide = n - n % (SIDE * L)
    for i in range(0, wide, SIDE * L):
        for k in unroll(SIDE):
            sums[k] = sums[k] + F(load(p + i + k * L, L))
    for i in range(wide, n - n % L, L):
        sums[0] = sums[0] + F(load(p + i, L))
    left = n % L
    if left > 0:
        here = iota(i64, L) < left
        sums[1] = sums[1] + select(here, F(load(p + (n - left), L, here)), R(0))
    return total(tree(sums))


@inline
def row_total_of_two(p, q, n, F, T):
    """The sum of F(x, y) over two rows."""
    L = width(T)
    R = T.loaded
    sums = [splat(R(0), L) for _ in range(SIDE)]
    wide = n - n % (SIDE * L)
    for i in range(0, wide, SIDE * L):
        for k in unroll(SIDE):
            sums[k] = sums[k] + F(load(p + i + k * L, L), load(q + i + k * L, L))
    for i in range(wide, n - n % L, L):
        sums[0] = sums[0] + F(load(p + i, L), load(q + i, L))
    left = n % L
    if left > 0:
        here = iota(i64, L) < left
        at = n - left
        sums[1] = sums[1] + select(here, F(load(p + at, L, here), load(q + at, L, here)), R(0))
    return total(tree(sums))


@inline
def row_largest(p, n, T):
    """The largest element of a row, NaN left out."""
    L = width(T)
    R = T.loaded
    best = [splat(R(float("-inf")), L) for _ in range(SIDE)]
    wide = n - n % (SIDE * L)
    for i in range(0, wide, SIDE * L):
        for k in unroll(SIDE):
            x = load(p + i + k * L, L)
            best[k] = select(x > best[k], x, best[k])
    for i in range(wide, n - n % L, L):
        x = load(p + i, L)
        best[0] = select(x > best[0], x, best[0])
    left = n % L
    if left > 0:
        here = iota(i64, L) < left
        x = select(here, load(p + (n - left), L, here), R(float("-inf")))
        best[1] = select(x > best[1], x, best[1])
    for k in unroll(range(1, SIDE)):
        best[0] = select(best[k] > best[0], best[k], best[0])
    return largest(best[0])


@inline
def itself(x):
    return x


@inline
def product(x, y):
    return x * y
