"""Reductions of [outer, n, inner] over n by any function that takes one element after the other.

As the sums of `reduce.py`: vectors along rows, and parts of fixed sizes, so that the order depends on the shape alone.
Columns are taken a strip at a time, whose results so far stand in memory, in the first cache: eight rows are read side by
side, each in its order, which the processor fetches ahead. A fold is a START, a step(s, v) that takes an element v
into s, and a join(s, s) of two of them. END makes the result of it. Elements are computed as the type A.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.rows import CHUNK, shared
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, Type, i64

SIDE = 8  # vectors side by side
PIECE = 32  # rows of a piece, where columns are folded
PART = 1024  # rows of a part: 32 pieces, so that errors grow with the depth of a tree
STRIP = 1024  # columns that are folded together
ROWS = 8  # rows that are taken in one go
FEW = 32  # tiles that keep two threads busy
SHORT = 131072  # elements that need not be cut for a second thread
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


# What END makes of n elements that were folded.


@inline
def alone(s, n):
    return s


@inline
def averaged(s, n):
    return s / typeof(s)(n)


@inline
def root(s, n):
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
            out[t] = END(folded_row(STEP, JOIN, START, A, p, m), n)


@kernel
def fold_parts(STEP, JOIN, START, A, END, x: Ptr[T], out: Ptr[R], outer: i64, n: i64):
    """As `fold_rows` of one long row, its parts folded as well."""
    found = array(A, PARTS)
    for lo, hi in parallel(n, LONG):
        found[lo // LONG] = folded_row(STEP, JOIN, START, A, x + lo, hi - lo)
    out[0] = END(folded_row(JOIN, JOIN, START, A, found, (n + (LONG - 1)) // LONG), n)


@kernel
def fold_columns(
    STEP, JOIN, START, A, END, x: Ptr[T], out: Ptr[R], outer: i64, n: i64, inner: i64, part: i64
):
    """out[o, k, j] of x[o, i, j] of the k-th `part` of n.

    Where this makes less than FEW tiles of many elements, the pieces of a fold are made apart and joined in the same order.
    """
    across = (inner + (STRIP - 1)) // STRIP
    parts = (n + (part - 1)) // part
    tiles = outer * parts * across
    pieces = i64(1)
    if (tiles < FEW) & (parts == 1) & (n * inner * outer > SHORT):
        pieces = min((n + (PIECE - 1)) // PIECE, FEW // tiles)
    if pieces > 1:
        step = ((n + (pieces - 1)) // pieces + (PIECE - 1)) // PIECE * PIECE
        found = array(A, FEW * STRIP)
        for lo, hi in parallel(pieces * tiles, 1):
            piece = array(A, STRIP)
            for t in range(lo, hi):
                k, o, j = t // tiles, t % tiles // across, t % tiles % across * STRIP
                m, first = min(i64(STRIP), inner - j), min(k * step, n)
                p, last = x + (o * n * inner + j), min(first + step, n)
                columns(STEP, JOIN, START, A, found + t * STRIP, piece, p, first, last, inner, m)
        joined(JOIN, END, found, out, tiles, pieces, across, n, inner)
    else:
        for lo, hi in parallel(tiles, max(i64(1), CHUNK // (part * min(inner, i64(STRIP))))):
            whole, piece = array(A, STRIP), array(A, STRIP)
            for t in range(lo, hi):
                o, k, j = t // across // parts, t // across % parts, t % across * STRIP
                m, first = min(i64(STRIP), inner - j), k * part
                p, row = x + (o * n * inner + j), out + ((o * parts + k) * inner + j)
                columns(
                    STEP, JOIN, START, A, whole, piece, p, first, min(first + part, n), inner, m
                )
                for c in lanes(0, m):
                    row[c] = END(whole[c], n)


@inline
def joined(JOIN, END, found, out, tiles, pieces, across, n, inner):
    """The columns of each tile, of which `found` has all pieces."""
    for t in range(tiles):
        j = t % across * STRIP
        m, p, q = min(i64(STRIP), inner - j), found + t * STRIP, out + (t // across * inner + j)
        for k in range(1, pieces):
            for c in lanes(0, m):
                p[c] = JOIN(p[c], p[k * tiles * STRIP + c])
        for c in lanes(0, m):
            q[c] = END(p[c], n)


@inline
def columns(STEP, JOIN, START, A, whole, piece, p, first, last, inner, m):
    """whole[c] of the rows [first, last) of m columns, PIECE rows at a time."""
    L = lanes_of(A)
    if (2 * inner <= L) & (last - first >= ROWS * ROWS):
        few_columns(STEP, JOIN, START, A, whole, piece, p, first, last, inner, L)
    else:
        many_columns(STEP, JOIN, START, A, whole, piece, p, first, last, inner, m, L)


@inline
def few_columns(STEP, JOIN, START, A, whole, piece, p, first, last, inner, L):
    """ROWS rows side by side are folded as one, which is cut again at the end: a vector takes all of its lanes."""
    m, here = ROWS * inner, iota(i64, L) < inner
    for c in range(0, m, L):
        store(whole + c, splat(A(START), L))
    start = first + 0
    while start < last:
        end = min(start + PIECE * ROWS, last)
        for c in range(0, m, L):
            store(piece + c, splat(A(START), L))
        far, side = end - (end - start) % (ROWS * ROWS), end - (end - start) % ROWS
        for i in range(start, far, ROWS * ROWS):
            take_rows(ROWS, STEP, piece, p + i * inner, m, m, L)
        for i in range(far, side, ROWS):
            take_rows(1, STEP, piece, p + i * inner, m, m, L)
        for i in range(side, end):
            s = load(piece, L)
            store(piece, taken(STEP, s, p + i * inner, L, here, True))
        for c in range(0, m, L):
            store(whole + c, JOIN(load(whole + c, L), load(piece + c, L)))
        start += PIECE * ROWS
    for r in range(1, ROWS):
        for c in range(inner):
            whole[c] = JOIN(whole[c], whole[r * inner + c])


@inline
def many_columns(STEP, JOIN, START, A, whole, piece, p, first, last, inner, m, L):
    """As `columns`."""
    for c in range(0, m, L):
        store(whole + c, splat(A(START), L))
    start = first + 0
    while start < last:
        end = min(start + PIECE, last)
        for c in range(0, m, L):
            store(piece + c, splat(A(START), L))
        side = end - (end - start) % ROWS
        for i in range(start, side, ROWS):
            take_rows(ROWS, STEP, piece, p + i * inner, inner, m, L)
        for i in range(side, end):
            take_rows(1, STEP, piece, p + i * inner, inner, m, L)
        for c in range(0, m, L):
            store(whole + c, JOIN(load(whole + c, L), load(piece + c, L)))
        start += PIECE


@inline
def take_rows(N, STEP, piece, p, inner, m, L):
    """N rows taken into piece[c], one after the other."""
    wide = m - m % L
    for c in range(0, wide, L):
        s = load(piece + c, L)
        for r in unroll(N):
            s = STEP(s, load(p + (r * inner + c), L))
        store(piece + c, s)
    if wide < m:
        here = iota(i64, L) < m - wide
        s = load(piece + wide, L)
        for r in unroll(N):
            s = STEP(s, load(p + (r * inner + wide), L, here))
        store(piece + wide, s)
