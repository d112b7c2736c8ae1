"""Reductions of [outer, n, inner] over n by any function that takes one element after the other.

As the sums of `reduce.py`: vectors along rows or over neighbouring columns, and parts of fixed sizes,
so that the order depends on the shape alone. A fold is a START, a step(s, v) that takes an element v
into s, and a join(s, s) of two of them. END makes the result of it. Elements are computed as the type A.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.rows import CHUNK, shared
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, Type, i64

SIDE = 8  # vectors side by side
PIECE = 32  # rows taken in one go where columns are folded
COLUMNS = 4
LONG = 16384  # elements of a part of a long row
PARTS = 1024  # parts that `fold_parts` takes


def lanes_of(a: Type) -> int:
    return 64 // a.size


@inline
def as_type(v, A):
    return v if typeof(v) is A else A(v)


@inline
def plus(s, v):
    return s + as_type(v, typeof(s))


@inline
def plus_number(s, v):
    """NaN left out."""
    return s + select(v == v, v, typeof(v)(0))


@inline
def plus_one(s, v):
    """How many are not 0; NaN is not."""
    return s + select(v != 0, typeof(s)(1), typeof(s)(0))


@inline
def times(s, v):
    return s * as_type(v, typeof(s))


@inline
def plus_square(s, v):
    v = as_type(v, typeof(s))
    return s + v * v


@inline
def root(s):
    return sqrt(s)


@inline
def larger(s, v):
    """The larger one; of floating types the first that is NaN."""
    return select((v <= s) | (s != s), s, v)


@inline
def smaller(s, v):
    return select((v >= s) | (s != s), s, v)


@inline
def taken(STEP, s, p, L, here, MASKED):
    """A step by the elements at p."""
    if MASKED:
        return select(here, STEP(s, load(p, L, here)), s)
    else:
        return STEP(s, load(p, L))


@inline
def folded_row(STEP, JOIN, START, A, p, m):
    """m elements side by side, as one."""
    L = lanes_of(A)
    s = [splat(A(START), L) for _ in range(SIDE)]
    wide = m - m % (SIDE * L)
    for i in range(0, wide, SIDE * L):
        for k in unroll(SIDE):
            s[k] = taken(STEP, s[k], p + (i + k * L), L, None, False)
    for i in range(wide, m, L):
        here = iota(i64, L) < m - i
        s[0] = taken(STEP, s[0], p + i, L, here, True)
    for k in unroll((4, 2, 1)):
        for j in unroll(k):
            s[j] = JOIN(s[j], s[j + k])
    one = lane(s[0], 0)
    for k in unroll(range(1, L)):
        one = JOIN(one, lane(s[0], k))
    return one


@kernel
def fold_rows(STEP, JOIN, START, A, END, x: Ptr[T], out: Ptr[R], outer: i64, n: i64, part: i64):
    """out[r, k] of the k-th `part` elements of row r."""
    parts = (n + (part - 1)) // part
    for lo, hi in parallel(
        outer * parts, shared(outer * parts, max(i64(1), CHUNK // max(part, i64(1))))
    ):
        for t in range(lo, hi):
            r = t // parts
            start = (t - r * parts) * part
            p = x + (r * n + start)
            m = min(part, n - start)
            out[t] = END(folded_row(STEP, JOIN, START, A, p, m))


@kernel
def fold_parts(STEP, JOIN, START, A, END, x: Ptr[T], out: Ptr[R], outer: i64, n: i64):
    """As `fold_rows` of one long row, its parts folded as well."""
    found = array(A, PARTS)
    for lo, hi in parallel(n, LONG):
        found[lo // LONG] = folded_row(STEP, JOIN, START, A, x + lo, hi - lo)
    out[0] = END(folded_row(JOIN, JOIN, START, A, found, (n + (LONG - 1)) // LONG))


@kernel
def fold_columns(
    STEP, JOIN, START, A, END, x: Ptr[T], out: Ptr[R], outer: i64, n: i64, inner: i64, part: i64
):
    """out[o, k, j] of x[o, i, j] of the k-th `part` of n."""
    L = lanes_of(A)
    W = COLUMNS * L
    across = (inner + (W - 1)) // W
    parts = (n + (part - 1)) // part
    for lo, hi in parallel(outer * parts * across, max(i64(1), CHUNK // (part * W))):
        for t in range(lo, hi):
            o, k, j = t // across // parts, t // across % parts, t % across * W
            last = min(k * part + part, n)
            p = x + (o * n * inner + j)
            s = [splat(A(START), L) for _ in range(COLUMNS)]
            here = [iota(i64, L) + c * L < inner - j for c in range(COLUMNS)]
            for first in range(k * part, last, PIECE):
                piece = [splat(A(START), L) for _ in range(COLUMNS)]
                end = min(first + PIECE, last)
                if inner - j >= W:
                    for i in range(first, end):
                        for c in unroll(COLUMNS):
                            at = p + (i * inner + c * L)
                            piece[c] = taken(STEP, piece[c], at, L, here[c], False)
                else:
                    for i in range(first, end):
                        for c in unroll(COLUMNS):
                            at = p + (i * inner + c * L)
                            piece[c] = taken(STEP, piece[c], at, L, here[c], True)
                for c in unroll(COLUMNS):
                    s[c] = JOIN(s[c], piece[c])
            q = out + ((o * parts + k) * inner + j)
            for c in unroll(COLUMNS):
                store(q + c * L, END(s[c]), here[c])
