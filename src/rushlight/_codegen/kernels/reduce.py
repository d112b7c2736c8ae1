"""Sums and variances of rows, and variances of columns, [outer, n, inner] over n. Sums of columns are folds (`fold.py`).

Rows (inner = 1) go by vectors along the row, columns by vectors of neighbours. What is long is cut
into parts of fixed sizes, each of which gives one number; those are reduced again. So the order of
additions depends on the shape alone, not on the number of threads, and errors stay small.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.norm import moments
from rushlight._codegen.kernels.rows import (
    itself,
    row_total,
    row_total_of_two,
    rows_of,
    shared,
    width,
)
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64

APART = 16384  # elements of which the squares are added up in one go


LONG = 16384  # elements of a part of a long row
PARTS = 1024  # parts that `sum_parts` takes


@inline
def averaged(s, n, MEAN):
    return s / typeof(s)(n) if MEAN else s


@kernel
def sum_rows(MEAN, x: Ptr[T], out: Ptr[R], rows: i64, n: i64):
    """out[r] = the sum (MEAN: the mean) of row r."""
    for lo, hi in parallel(rows, shared(rows, rows_of(n))):
        for r in range(lo, hi):
            out[r] = averaged(row_total(x + r * n, n, itself, T), n, MEAN)


@kernel
def sum_parts(MEAN, x: Ptr[T], out: Ptr[R], rows: i64, n: i64):
    """As `sum_rows` of one long row."""
    found = array(T.loaded, PARTS)
    for lo, hi in parallel(n, LONG):
        found[lo // LONG] = row_total(x + lo, hi - lo, itself, T)
    out[0] = averaged(row_total(found, (n + (LONG - 1)) // LONG, itself, T.loaded), n, MEAN)


@inline
def square_apart(x, y):
    d = x - y
    return d * d


@kernel
def squares_apart(x: Ptr[T], y: Ptr[T], out: Ptr[R], n: i64):
    """The sums of (x - y)**2 over each APART elements."""
    for lo, hi in parallel(n, APART):
        out[lo // APART] = row_total_of_two(x + lo, y + lo, hi - lo, square_apart, T)


@inline
def less_rounding(squares, left, n):
    """The sum of squared deviations from the mean, given that from the rounded mean and the sum of these
    deviations (Chan, Golub and LeVeque 1983, the corrected two-pass way). Without it the rounding of a mean
    of 1000 is seen in variances below 1e-4."""
    exact = squares - left * left / n
    return exact if exact >= 0 else squares  # infinity less infinity


@inline
def exact_moments(p, n, T):
    """The mean of a row and the sum of its squared deviations."""
    R = T.loaded
    mean, squares = moments(p, n, T, row_total)
    return mean, less_rounding(squares, row_total(p, n, lambda v: v - mean, T), R(n))


@kernel
def moments_of_rows(x: Ptr[T], mean: Ptr[R], squares: Ptr[R], rows: i64, n: i64):
    """The mean of each row and the sum of its squared deviations."""
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            m, s = exact_moments(x + r * n, n, T)
            mean[r] = m
            squares[r] = s


@kernel
def variance_rows(x: Ptr[T], out: Ptr[T], means: Ptr[T], rows: i64, n: i64, correction: i64):
    """The variance of each row, its squared deviations divided by n - correction, and its mean."""
    R = T.loaded
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            m, s = exact_moments(x + r * n, n, T)
            means[r] = m
            out[r] = s / R(max(n - correction, i64(0)))


@kernel
def variance_columns(
    x: Ptr[T], out: Ptr[T], means: Ptr[T], outer: i64, n: i64, inner: i64, correction: i64
):
    """As `variance_rows`, of columns."""
    L = width(T)
    R = T.loaded
    across = (inner + (L - 1)) // L
    for lo, hi in parallel(outer * across, rows_of(n * L)):
        for t in range(lo, hi):
            j = t % across * L
            here = iota(i64, L) < inner - j
            p, at = x + (t // across * n * inner + j), t // across * inner + j
            mean, s, left = splat(R(0), L), splat(R(0), L), splat(R(0), L)
            for i in range(n):
                mean = mean + load(p + i * inner, L, here)
            mean = mean / R(n)
            for i in range(n):
                d = load(p + i * inner, L, here) - mean
                s, left = s + d * d, left + d
            store(means + at, mean, here)
            store(out + at, less_rounding(s, left, R(n)) / R(max(n - correction, i64(0))), here)
