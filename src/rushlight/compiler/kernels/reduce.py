"""Reductions and running sums of [outer, n, inner] over n.

Rows (inner = 1) go by vectors along the row, columns by vectors of neighbours. What is long is cut
into parts of fixed sizes, each of which gives one number; those are reduced again. So the order of
additions depends on the shape alone, not on the number of threads, and errors stay small.
"""

from __future__ import annotations

from rushlight.compiler.kernel import kernel
from rushlight.compiler.kernels.norm import moments
from rushlight.compiler.kernels.rows import (
    itself,
    row_total,
    row_total_of_two,
    rows_of,
    shared,
    width,
)
from rushlight.compiler.language import (
    inline,
    iota,
    largest,
    load,
    parallel,
    rounds,
    select,
    smallest,
    some,
    splat,
    store,
    typeof,
    unroll,
)  # fmt: skip
from rushlight.compiler.types import Ptr, i64

APART = 16384  # elements of which the squares are added up in one go
PIECE = 32  # rows added up in one go where columns are reduced
PART = 1024  # rows of a part: 32 pieces, so that errors grow with the depth of a tree
COLUMNS = 4  # vectors of columns side by side


@kernel
def sum_rows(x: Ptr[T], out: Ptr[R], rows: i64, n: i64):
    """out[r] = the sum of row r."""
    for lo, hi in parallel(rows, shared(rows, rows_of(n))):
        for r in range(lo, hi):
            out[r] = row_total(x + r * n, n, itself, T)


@inline
def square_apart(x, y):
    d = x - y
    return d * d


@kernel
def squares_apart(x: Ptr[T], y: Ptr[T], out: Ptr[R], n: i64):
    """The sums of (x - y)**2 over each APART elements."""
    for lo, hi in parallel(n, APART):
        out[lo // APART] = row_total_of_two(x + lo, y + lo, hi - lo, square_apart, T)


@kernel
def sum_columns(x: Ptr[T], out: Ptr[R], outer: i64, n: i64, inner: i64, part: i64):
    """out[o, k, j] = the sum of x[o, i, j] over the k-th `part` of n."""
    L = width(T)
    W = COLUMNS * L
    across = (inner + (W - 1)) // W
    parts = (n + (part - 1)) // part
    for lo, hi in parallel(outer * parts * across, rows_of(part * W)):
        for t in range(lo, hi):
            o, k, j = t // across // parts, t // across % parts, t % across * W
            first = k * part
            last = min(first + part, n)
            p = x + (o * n * inner + j)
            sums = [splat(R(0), L) for _ in range(COLUMNS)]
            here = [iota(i64, L) + c * L < inner - j for c in range(COLUMNS)]
            if inner - j >= W:
                add_rows(sums, p, first, last, inner, here, False, L)
            else:
                add_rows(sums, p, first, last, inner, here, True, L)
            q = out + ((o * parts + k) * inner + j)
            for c in unroll(COLUMNS):
                store(q + c * L, sums[c], here[c])


@inline
def add_rows(sums, p, first, last, inner, here, MASKED, L):
    """Rows of columns added to `sums`, PIECE at a time; MASKED: only the columns that are there."""
    start = first + 0
    while start < last:
        end = min(start + PIECE, last)
        piece = [splat(typeof(s)(0), L) for s in sums]  # not `s * 0`: that is NaN of infinity
        for i in rounds(start, end, 8):
            for c in unroll(COLUMNS):
                at = p + (i * inner + c * L)
                piece[c] = piece[c] + (load(at, L, here[c]) if MASKED else load(at, L))
        for c in unroll(COLUMNS):
            sums[c] = sums[c] + piece[c]
        start += PIECE


@kernel
def moments_of_rows(x: Ptr[T], mean: Ptr[R], squares: Ptr[R], rows: i64, n: i64):
    """The mean of each row and the sum of its squared deviations."""
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            m, s = moments(x + r * n, n, T)
            mean[r] = m
            squares[r] = s


@inline
def better(x, best, SMALL):
    """Whether x takes the place of best: it is beyond it, or NaN."""
    beyond = x < best if SMALL else x > best
    return beyond | (x != x)


@inline
def row_extreme(p, n, SMALL, T):
    """The largest (or smallest) element of a row, NaN if there is one."""
    L = width(T)
    R = T.loaded
    start = R(float("inf") if SMALL else float("-inf"))
    best = [splat(start, L) for _ in range(4)]
    wide = n - n % (4 * L)
    for i in range(0, wide, 4 * L):
        for k in unroll(4):
            v = load(p + (i + k * L), L)
            best[k] = select(better(v, best[k], SMALL), v, best[k])
    for i in range(wide, n - n % L, L):
        v = load(p + i, L)
        best[0] = select(better(v, best[0], SMALL), v, best[0])
    left = n % L
    if left > 0:
        here = iota(i64, L) < left
        v = select(here, load(p + (n - left), L, here), start)
        best[1] = select(better(v, best[1], SMALL), v, best[1])
    for k in unroll((1, 2, 3)):
        keep = best[0] != best[0]
        best[0] = select(better(best[k], best[0], SMALL) & ~keep, best[k], best[0])
    one = smallest(best[0]) if SMALL else largest(best[0])
    return R(float("nan")) if some(best[0] != best[0]) else one


@kernel
def extreme_rows(SMALL, x: Ptr[T], out: Ptr[T], rows: i64, n: i64):
    """out[r] = the largest (or smallest) element of row r."""
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            out[r] = row_extreme(x + r * n, n, SMALL, T)


@kernel
def extreme_places(SMALL, x: Ptr[T], out: Ptr[i64], rows: i64, n: i64):
    """out[r] = where the first largest (or smallest) element of row r is, or the first NaN."""
    L = width(T)
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p = x + r * n
            best = row_extreme(p, n, SMALL, T)
            i = i64(0)
            while i + L <= n:
                v = load(p + i, L)
                if some((v == best) | (v != v)):
                    break
                i += L
            while i < n:
                one = p[i]
                if (one == best) | (one != one):
                    break
                i += 1
            out[r] = i


@kernel
def extreme_columns(SMALL, x: Ptr[T], out: Ptr[T], outer: i64, n: i64, inner: i64):
    """out[o, j] = the largest (or smallest) x[o, i, j]."""
    L = width(T)
    across = (inner + (L - 1)) // L
    for lo, hi in parallel(outer * across, rows_of(n * L)):
        for t in range(lo, hi):
            j = t % across * L
            here = iota(i64, L) < inner - j
            p = x + (t // across * n * inner + j)
            best = load(p, L, here)
            for i in range(1, n):
                v = load(p + i * inner, L, here)
                best = select(better(v, best, SMALL) & (best == best), v, best)
            store(out + (t // across * inner + j), best, here)


@kernel
def running_rows(x: Ptr[T], out: Ptr[T], rows: i64, n: i64):
    """out[r, i] = x[r, 0] + ... + x[r, i], added up in W."""
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p, q = x + r * n, out + r * n
            s = W(0)
            for i in range(n):
                s += W(p[i])
                q[i] = T.loaded(s)


@kernel
def running_columns(x: Ptr[T], out: Ptr[T], outer: i64, n: i64, inner: i64):
    """out[o, i, j] = x[o, 0, j] + ... + x[o, i, j], added up in W."""
    L = width(T)
    across = (inner + (L - 1)) // L
    for lo, hi in parallel(outer * across, rows_of(n * L)):
        for t in range(lo, hi):
            j = t % across * L
            here = iota(i64, L) < inner - j
            at = t // across * n * inner + j
            s = W(load(x + at, L, here))
            store(out + at, T.loaded(s), here)
            for i in range(1, n):
                s = s + W(load(x + (at + i * inner), L, here))
                store(out + (at + i * inner), T.loaded(s), here)
