"""Distances of rows of numbers, those of one array to those of another or to each other.

Rows of the second array come as columns, [k, m], so that a vector holds the distances of one row to its
lanes' rows. Gradients go over pairs with a vector along the rows. P is the norm: 1, 2, LARGEST, or NONZERO, which
counts differences and has no slope.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64, width

LARGEST, NONZERO = -1, 0
SIDE = 4  # vectors of distances side by side, of one row or of as many rows


@inline
def joined(s, d, P):
    """A sum (or the largest) with one more difference; NaN stays."""
    v = d if P == 2 else abs(d)
    if P == 1:
        return s + v
    elif P == 2:
        return fma(v, v, s)
    elif P == NONZERO:
        return s + select(v > 0, typeof(v)(1), v)
    else:
        return select((v > s) | (v != v), v, s)


@inline
def distances_of_rows(a, b, out, left, apart, m, step, k, R, V, P, T):
    """Distances of R rows of k numbers, `apart` from each other, to V vectors of columns of `b`, `step` apart: `left`
    of them, None for all. The rows of the result are m apart."""
    L = width(T)
    here = [None if left is None else iota(i64, L) < left - j * L for j in range(V)]
    s = [splat(T(0), L) for _ in range(R * V)]
    # Masks take long without AVX-512: only the last row of `b` has nothing behind it.
    whole = k + 0 if left is None else k - 1 if step >= V * L else i64(0)
    for i in range(whole):
        for j in unroll(V):
            y = load(b + (i * step + j * L), L)
            for r in unroll(R):
                s[r * V + j] = joined(s[r * V + j], a[r * apart + i] - y, P)
    if left is not None:
        for i in range(whole, k):
            for j in unroll(V):
                y = load(b + (i * step + j * L), L, here[j])
                for r in unroll(R):
                    s[r * V + j] = joined(s[r * V + j], a[r * apart + i] - y, P)
    for r in unroll(R):
        for j in unroll(V):
            to, d = out + (r * m + j * L), s[r * V + j]
            d = sqrt(d) if P == 2 else d
            if left is None:
                store(to, d)
            else:
                store(to, d, here[j])


@inline
def distances_of_row(a, b, out, m, step, k, P, T):
    """Distances of one row to m columns of `b`, `step` apart."""
    L = width(T)
    wide = SIDE * L
    for j in range(0, m - m % wide, wide):
        distances_of_rows(a, b + j, out + j, None, k, m, step, k, 1, SIDE, P, T)
    left = m % wide
    j = m - left
    if left > 2 * L:
        distances_of_rows(a, b + j, out + j, left, k, m, step, k, 1, SIDE, P, T)
    elif left > L:
        distances_of_rows(a, b + j, out + j, left, k, m, step, k, 1, 2, P, T)
    elif left > 0:
        distances_of_rows(a, b + j, out + j, left, k, m, step, k, 1, 1, P, T)


@kernel
def distances(P, x: Ptr[T], y: Ptr[T], out: Ptr[T], batches: i64, n: i64, m: i64, k: i64):
    """out[b, i, j], the distance of the row x[b, i] and the column y[b, :, j]."""
    L = width(T)
    for lo, hi in parallel(batches * n, rows_of(m * k // L)):
        r = lo
        while r < hi:
            a, b, to = x + r * k, y + r // n * m * k, out + r * m
            if (
                min(hi - r, n - r % n) >= SIDE
            ):  # rows of one batch, which share what is read of the columns
                for j in range(0, m - m % L, L):
                    distances_of_rows(a, b + j, to + j, None, k, m, m, k, SIDE, 1, P, T)
                if m % L != 0:
                    j = m - m % L
                    distances_of_rows(a, b + j, to + j, m - j, k, m, m, k, SIDE, 1, P, T)
                r += SIDE
            else:
                distances_of_row(a, b, to, m, m, k, P, T)
                r += 1


@kernel
def own_distances(P, x: Ptr[T], y: Ptr[T], out: Ptr[T], n: i64, k: i64):
    """The distances of the pairs (i, j), i < j, of n rows x, which are the columns of y."""
    for lo, hi in parallel(n, rows_of(n * k // width(T))):
        for r in range(lo, hi):
            to = out + (r * n - r * (r + 1) // 2)
            distances_of_row(x + r * k, y + (r + 1), to, n - r - 1, n, k, P, T)


@inline
def with_slope(s, d, g, by, P, T):
    """s plus g times the derivative of the distance `by` by the differences d in it."""
    if P == 2:
        return fma(d, T(0) if by == 0 else g / by, s)
    else:
        sign = select(d > 0, g, select(d < 0, -g, d * 0))
        return s + (sign if P == 1 else select(abs(d) == by, sign, sign * 0))


@inline
def add_slopes(sums, u, here, rows, k, g, d, first, last, place, P, T):
    """`sums` and, for each row from first to last, the slope of the distance to it, which is at place(j).
    Vectors side by side share what is computed of one number for each row."""
    for j in range(first, last):
        slope, distance = g[place(j)], d[place(j)]
        for c in unroll(len(sums)):
            at = rows + (j * k + c * width(T))
            row = load(at, width(T)) if here[c] is None else load(at, width(T), here[c])
            apart = u[c] - row
            sums[c] = with_slope(sums[c], apart, slope, distance, P, T)


@inline
def slopes_of_columns(a, b, out, left, k, m, g, d, at, across, V, P, T):
    """The gradient of V vectors of columns of the row `a`, `left` of which are there, None for all."""
    L = width(T)
    here = [None if left is None else iota(i64, L) < left - c * L for c in range(V)]
    u = [load(a + c * L, L) if left is None else load(a + c * L, L, here[c]) for c in range(V)]
    sums = [splat(T(0), L) for _ in range(V)]
    add_slopes(sums, u, here, b, k, g, d, i64(0), m, lambda j: at + j * across, P, T)
    for c in unroll(V):
        if left is None:
            store(out + c * L, sums[c])
        else:
            store(out + c * L, sums[c], here[c])


@kernel
def distances_gradient(
    P, g: Ptr[T], d: Ptr[T], x: Ptr[T], y: Ptr[T], out: Ptr[T], batches: i64, n: i64, m: i64, k: i64,
    down: i64, across: i64,
):  # fmt: skip
    """The gradient by the rows x [batches, n, k] of distances d to the rows y [batches, m, k], where row i
    and row j have theirs at i * down + j * across."""
    L = width(T)
    wide = SIDE * L
    for lo, hi in parallel(batches * n, rows_of(m * ((k + (L - 1)) // L) * 2)):
        for r in range(lo, hi):
            batch = r // n
            a, b, to = x + r * k, y + batch * m * k, out + r * k
            at = batch * n * m + (r - batch * n) * down
            whole = k - k % wide
            for c in range(0, whole, wide):
                slopes_of_columns(a + c, b + c, to + c, None, k, m, g, d, at, across, SIDE, P, T)
            for c in range(whole, k - k % L, L):
                slopes_of_columns(a + c, b + c, to + c, None, k, m, g, d, at, across, 1, P, T)
            if k % L != 0:
                c = k - k % L
                slopes_of_columns(a + c, b + c, to + c, k - c, k, m, g, d, at, across, 1, P, T)


@inline
def own_slopes_of_columns(r, x, out, left, n, k, g, d, V, P, T):
    """As `slopes_of_columns`, of row r of x to the rows before and behind it."""
    L = width(T)
    here = [None if left is None else iota(i64, L) < left - c * L for c in range(V)]
    at = [x + (r * k + c * L) for c in range(V)]
    u = [load(at[c], L) if left is None else load(at[c], L, here[c]) for c in range(V)]
    sums = [splat(T(0), L) for _ in range(V)]
    own = r * n - r * (r + 1) // 2 - r - 1
    before = r - 1
    add_slopes(
        sums, u, here, x, k, g, d, i64(0), r, lambda j: j * n - j * (j + 1) // 2 - j + before, P, T
    )
    add_slopes(sums, u, here, x, k, g, d, r + 1, n, lambda j: own + j, P, T)
    for c in unroll(V):
        to = out + (r * k + c * L)
        if left is None:
            store(to, sums[c])
        else:
            store(to, sums[c], here[c])


@kernel
def own_distances_gradient(P, g: Ptr[T], d: Ptr[T], x: Ptr[T], out: Ptr[T], n: i64, k: i64):
    """The gradient by the rows x of the distances of their pairs."""
    L = width(T)
    wide = SIDE * L
    for lo, hi in parallel(n, rows_of(n * ((k + (L - 1)) // L) * 2)):
        for r in range(lo, hi):
            whole = k - k % wide
            for c in range(0, whole, wide):
                own_slopes_of_columns(r, x + c, out + c, None, n, k, g, d, SIDE, P, T)
            for c in range(whole, k - k % L, L):
                own_slopes_of_columns(r, x + c, out + c, None, n, k, g, d, 1, P, T)
            if k % L != 0:
                c = k - k % L
                own_slopes_of_columns(r, x + c, out + c, k - c, n, k, g, d, 1, P, T)
