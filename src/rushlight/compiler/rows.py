"""Walks along rows: sums, largest elements, and the pieces that kernels over rows are made of.

A row is `n` elements side by side. Its sum runs in four vectors of `LANES` lanes, which are added as
a tree at the end: the order is fixed, and the error grows with n / (4 * LANES).
"""

from __future__ import annotations

from rushlight.compiler.language import inline, iota, largest, load, select, splat, total, unroll
from rushlight.compiler.types import Type, i64

CHUNK = 16384  # elements in a chunk of rows


def width(t: Type) -> int:
    """Lanes of a vector of what `t` is in registers."""
    return 64 // t.loaded.size


@inline
def rows_of(n):
    """How many rows make a chunk."""
    m = CHUNK // (n if n > 0 else i64(1))
    return m if m > 1 else i64(1)


@inline
def row_total(p, n, F, T):
    """The sum of F(x) over a row."""
    L = width(T)
    R = T.loaded
    sums = [splat(R(0), L) for _ in range(4)]
    wide = n - n % (4 * L)
    for i in range(0, wide, 4 * L):
        for k in unroll(4):
            sums[k] = sums[k] + F(load(p + i + k * L, L))
    for i in range(wide, n - n % L, L):
        sums[0] = sums[0] + F(load(p + i, L))
    left = n % L
    if left > 0:
        here = iota(i64, L) < left
        sums[1] = sums[1] + select(here, F(load(p + (n - left), L, here)), R(0))
    return total((sums[0] + sums[1]) + (sums[2] + sums[3]))


@inline
def row_total_of_two(p, q, n, F, T):
    """The sum of F(x, y) over two rows."""
    L = width(T)
    R = T.loaded
    sums = [splat(R(0), L) for _ in range(4)]
    wide = n - n % (4 * L)
    for i in range(0, wide, 4 * L):
        for k in unroll(4):
            sums[k] = sums[k] + F(load(p + i + k * L, L), load(q + i + k * L, L))
    for i in range(wide, n - n % L, L):
        sums[0] = sums[0] + F(load(p + i, L), load(q + i, L))
    left = n % L
    if left > 0:
        here = iota(i64, L) < left
        at = n - left
        sums[1] = sums[1] + select(here, F(load(p + at, L, here), load(q + at, L, here)), R(0))
    return total((sums[0] + sums[1]) + (sums[2] + sums[3]))


@inline
def row_largest(p, n, T):
    """The largest element of a row, NaN left out."""
    L = width(T)
    R = T.loaded
    best = [splat(R(float("-inf")), L) for _ in range(4)]
    wide = n - n % (4 * L)
    for i in range(0, wide, 4 * L):
        for k in unroll(4):
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
    a = select(best[0] > best[1], best[0], best[1])
    b = select(best[2] > best[3], best[2], best[3])
    return largest(select(a > b, a, b))


@inline
def itself(x):
    return x


@inline
def product(x, y):
    return x * y
