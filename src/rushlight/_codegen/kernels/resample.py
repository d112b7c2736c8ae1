"""A dimension of an array made another by lists: element o becomes the sum of some elements, each times
a weight. Resampled images and their gradients are that, along one dimension after the other; so are
the sums of adaptive pooling, and gradients of edges that were continued.

The list of o is `place` and `weight` from begin[o] up to begin[o + 1]; with TAPS other than 0 all
lists are that long. Rows that lie beside each other (`down`) are added as they are. Where the
dimension itself is innermost (`across`), as many rows as a vector has lanes are transposed on the
way, so that here too a vector takes the same element of each: no element is gathered for itself.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import transposed
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64

BLOCK = 128  # elements that `across` makes of one stretch of the input,
WINDOW = 1024  # which is no longer than this
SIDE = 4  # vectors side by side
WORK = 1 << 17  # elements of a chunk, about


@inline
def summed(p, step, V, mask, begin, place, weight, o, TAPS, R, L):
    """The sums of the list of o over V vectors of each row, rows `step` apart."""
    first, last = o * TAPS, o * TAPS + TAPS
    sums = [splat(R(0), L) for _ in range(V)]
    if not TAPS:
        first, last = begin[o], begin[o + 1]
    if TAPS:
        by, at = splat(weight[first], L), p + place[first] * step
        sums = [load(at + v * L, L, mask) * by if mask is not None else load(at + v * L, L) * by
                for v in range(V)]  # fmt: skip
        for t in unroll(range(1, TAPS)):
            by, at = splat(weight[first + t], L), p + place[first + t] * step
            for v in unroll(V):
                x = load(at + v * L, L, mask) if mask is not None else load(at + v * L, L)
                sums[v] = fma(x, by, sums[v])
    else:
        for t in range(first, last):
            by, at = splat(weight[t], L), p + place[t] * step
            for v in unroll(V):
                x = load(at + v * L, L, mask) if mask is not None else load(at + v * L, L)
                sums[v] = fma(x, by, sums[v])
    return sums


@kernel
def down(TAPS, L, x: Ptr[A], y: Ptr[B], begin: Ptr[i64], place: Ptr[i64], weight: Ptr[R],
         outer: i64, n: i64, m: i64, inner: i64):  # fmt: skip
    """y [outer, m, inner] from x [outer, n, inner], by vectors of L elements."""
    for lo, hi in parallel(outer * m, max(WORK // inner, i64(1))):
        for r in range(lo, hi):
            o, p, to = r % m, x + r // m * n * inner, y + r * inner
            wide = inner - inner % (SIDE * L)
            for j in range(0, wide, SIDE * L):
                sums = summed(p + j, inner, SIDE, None, begin, place, weight, o, TAPS, R, L)
                for v in unroll(SIDE):
                    store(to + (j + v * L), sums[v])
            whole = inner - inner % L
            for j in range(wide, whole, L):
                sums = summed(p + j, inner, 1, None, begin, place, weight, o, TAPS, R, L)
                store(to + j, sums[0])
            for j in range(whole, inner, L):
                mask = iota(i64, L) < inner - j
                sums = summed(p + j, inner, 1, mask, begin, place, weight, o, TAPS, R, L)
                store(to + j, sums[0], mask)


@routine
def read_window(x, window, n, first, last, left, L):
    """Elements [first, last) of L rows of n, of which `left` exist, as vectors over rows."""
    at = [x + min(left - 1, i64(i)) * n for i in range(L)]
    for j in range(first, last, L):
        mask = iota(i64, L) < n - j
        columns = transposed([load(at[i] + j, L, mask) for i in range(L)], L)
        for i in unroll(L):
            store(window + ((j - first) + i) * L, columns[i])


@routine
def write_block(block, y, m, o, left, L):
    """L vectors over rows become elements [o, o + L) of L rows of m, as far as these exist."""
    mask = iota(i64, L) < m - o
    rows = transposed([load(block + i * L, L) for i in range(L)], L)
    for i in unroll(L):
        if i < left:
            store(y + (i * m + o), rows[i], mask)


@kernel(quick=True)
def across(TAPS, x: Ptr[A], y: Ptr[B], begin: Ptr[i64], place: Ptr[i64], weight: Ptr[R],
           ends: Ptr[i64], rows: i64, n: i64, m: i64):  # fmt: skip
    """y [rows, m] from x [rows, n]. `ends`: for each BLOCK of y, which stretch of x it is made of; that
    is no longer than WINDOW."""
    L = 64 // R.size
    for lo, hi in parallel((rows + (L - 1)) // L, max(WORK // (m * L), i64(1))):
        window, block = array(R, (WINDOW + L) * L), array(R, L * L)
        for t in range(lo, hi):
            left = min(rows - t * L, i64(L))
            for b in range(0, m, BLOCK):
                first = ends[b // BLOCK * 2]
                read_window(x + t * L * n, window, n, first, ends[b // BLOCK * 2 + 1], left, L=L)
                for o in range(b, min(b + BLOCK, m), L):
                    for i in range(o, min(o + L, m)):
                        at = window - first * L
                        sums = summed(at, i64(L), 1, None, begin, place, weight, i, TAPS, R, L)
                        store(block + (i - o) * L, sums[0])
                    write_block(block, y + t * L * m, m, o, left, L=L)
