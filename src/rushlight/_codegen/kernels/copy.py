"""Copies between memory of any strides: rows, transposed matrices, triangles, edges.

Nothing is computed, so elements are bit patterns of 1, 2, 4 or 8 bytes. A copy goes over the
dimensions in the order of the result's memory, those that are one in both arrays joined. The two
innermost are a *run*: rows that lie behind one another, or a matrix whose columns are rows of the
source, which is transposed in registers, a square at a time.
"""

from __future__ import annotations

from rushlight._codegen import native
from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import gemm
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.kernels.shape_inference import COUNT, dims_of, item_of, shape_of, size_of
from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i32, i64

WIDTH = 64  # bytes of a vector
PIECE = 32768  # elements that are moved together
MOST = 64  # dimensions
STREAM = 32 << 20  # bytes from which a copy is written around the caches
HIGH, WIDE = 32, 128  # rows and columns of a result that are transposed together


def count(t):
    """Lanes of a vector of what is only moved."""
    return WIDTH // t.size


def halves(lanes):
    """The powers of two below `lanes`, which is one, the largest first."""
    return [lanes >> k for k in range(1, lanes.bit_length())]


def side(t):
    """Rows and columns of the squares that are transposed in registers."""
    return min(WIDTH // t.size, 16)


@inline
def first_run(r, dims, outer, at):
    """Where run r begins: (in the source, in the result); its indices are written into `at`."""
    left, p, q = r + 0, i64(0), i64(0)
    for k in range(outer):
        d = dims + 3 * (outer - 1 - k)
        at[outer - 1 - k] = left % d[0]
        p += left % d[0] * d[1]
        q += left % d[0] * d[2]
        left = left // d[0]
    return p, q


@inline
def next_run(p, q, dims, outer, at):
    """Where the run begins that follows one at p and q, whose indices `at` has. Runs may be short: nothing is
    divided."""
    to_p, to_q, k = p + 0, q + 0, outer - 1
    while k >= 0:
        d = dims + 3 * k
        at[k] = at[k] + 1
        to_p += d[1]
        to_q += d[2]
        k -= 1
        if at[k + 1] < d[0]:
            break
        at[k + 1] = i64(0)
        to_p -= d[0] * d[1]
        to_q -= d[0] * d[2]
    return to_p, to_q


@inline
def move(q, p, n, STREAMED, U):
    """q[i] = p[i] for i of [0, n). Streamed: q is aligned to cache lines.

    What is left is moved by halves, not by a mask: without AVX-512 a masked store takes as long as ten."""
    L = count(U)
    left = n % L
    at = n - left
    for i in range(0, at, L):
        store(q + i, load(p + i, L), None, STREAMED)
    for half in unroll(halves(L)):
        if left & half != 0:
            store(q + at, load(p + at, half))
            at += half


@kernel
def move_all(STREAMED, a: Ptr[U], out: Ptr[U], n: i64):
    """out[i] = a[i]."""
    for lo, hi in parallel(n, PIECE):
        move(out + lo, a + lo, hi - lo, STREAMED, U)


@kernel
def move_over(out: Ptr[U], a: Ptr[U], n: i64):
    """As `move_all`."""
    for lo, hi in parallel(n, PIECE):
        move(out + lo, a + lo, hi - lo, False, U)


@inline
def move_back(q, p, n, U):
    """q[i] = p[-i] for i of [0, n)."""
    L = count(U)
    left = n % L
    for i in range(0, n - left, L):
        v = load(p - i - (L - 1), L)
        store(q + i, shuffle(v, v, tuple(range(L - 1, -1, -1))))
    for i in range(n - left, n):
        q[i] = p[0 - i]


@routine(separate=True)
def move_rows(KIND, a: Ptr[U], out: Ptr[U], dims: Ptr[i64], outer: i64, runs: i64, m: i64, n: i64,
              pm: i64, qm: i64, pn: i64, qn: i64, U):  # fmt: skip
    """Runs of m rows of n elements. `pm`, `pn`: strides of the source between rows and elements,
    `qm`, `qn`: of the result. KIND: "whole" (pn = qn = 1), "back" (pn = -1, qn = 1), "same" (pn = 0,
    qn = 1), "apart" (any)."""
    pieces = (n + (PIECE - 1)) // PIECE
    for lo, hi in parallel(runs * m * pieces, max(PIECE // n, i64(1))):
        at = array(i64, MOST)
        c, i, piece = lo + 0, lo // pieces % m, lo % pieces
        p0, q0 = first_run(lo // pieces // m, dims, outer, at)
        while c < hi:
            first = piece * PIECE
            p, q = a + p0 + first * pn, out + q0 + first * qn
            rows = min(m - i, hi - c) if pieces == 1 else i64(1)
            wide = min(n - first, i64(PIECE))
            for j in range(i, i + rows):
                if KIND == "whole":
                    move(q + j * qm, p + j * pm, wide, False, U)
                elif KIND == "back":
                    move_back(q + j * qm, p + j * pm, wide, U)
                elif KIND == "same":
                    v, to = p[j * pm], q + j * qm
                    for t in lanes(0, wide):
                        to[t] = v
                else:
                    of, to = p + j * pm, q + j * qm
                    for t in range(wide):
                        to[t * qn] = of[t * pn]
            c += rows
            piece += 1
            if piece == pieces:
                piece = i64(0)
                i += rows
                if (i == m) & (c < hi):
                    i = i64(0)
                    p0, q0 = next_run(p0, q0, dims, outer, at)


# -- transposed ------------------------------------------------------------------------------------


@inline
def square(q, p, rows, columns, step, out_step, U):
    """q[i * out_step + j] = p[j * step + i] for j of [0, columns), i of [0, rows)."""
    W = side(U)
    if (rows >= W) & (columns >= W):
        v = [load(p + j * step, W) for j in range(W)]
        transposed = gemm.transposed(v, W)
        for i in unroll(W):
            store(q + i * out_step, transposed[i])
    elif native.has_masks():
        within = iota(i32, W) < i32(rows)
        v = [load(p + min(columns - 1, i64(j)) * step, W, within) for j in range(W)]
        transposed = gemm.transposed(v, W)
        for i in unroll(W):
            if i < rows:
                store(q + i * out_step, transposed[i], iota(i32, W) < i32(columns))
    else:
        for i in range(min(rows, i64(W))):
            for j in range(min(columns, i64(W))):
                q[i * out_step + j] = p[j * step + i]


@routine(separate=True)
def transposed(a: Ptr[U], out: Ptr[U], dims: Ptr[i64], outer: i64, runs: i64, m: i64, n: i64,
               step: i64, out_step: i64, U):  # fmt: skip
    """Runs of matrices: out[i * out_step + j] = a[j * step + i] for i of [0, m), j of [0, n)."""
    W = side(U)
    high, wide = (m + (HIGH - 1)) // HIGH, (n + (WIDE - 1)) // WIDE
    for lo, hi in parallel(runs * high * wide, 4):
        at = array(i64, MOST)
        down, across = lo // wide % high, lo % wide
        p0, q0 = first_run(lo // wide // high, dims, outer, at)
        for c in range(lo, hi):
            first, left = down * HIGH, across * WIDE
            p, q = a + p0, out + q0
            last, right = min(first + HIGH, m), min(left + WIDE, n)
            # Along rows of the result: lines that are written lie side by side.
            for i in range(first, last, W):
                for j in range(left, right, W):
                    square(q + i * out_step + j, p + j * step + i, m - i, n - j, step, out_step, U)
            across += 1
            if across == wide:
                across = i64(0)
                down += 1
                if down == high:
                    down = i64(0)
                    if c + 1 < hi:
                        p0, q0 = next_run(p0, q0, dims, outer, at)


# -- any strides -----------------------------------------------------------------------------------


@inline
def dimensions(a, out, dims, size):
    """Write (size, stride of the source, of the result) of each dimension into `dims`, the farthest
    apart in the result first, those that are one in both joined; returns (how many, whether the
    strides are such as the kernels here can follow). dims[-1] is above all strides. The source may
    have fewer dimensions, and sizes of 1: it is broadcast."""
    shape, to = bits(out[abi.SHAPE], Ptr[i64]), bits(out[abi.STRIDES], Ptr[i64])
    own, of = bits(a[abi.SHAPE], Ptr[i64]), bits(a[abi.STRIDES], Ptr[i64])
    n, good = i64(0), b1(True)
    nd = i64(bits(out + abi.NDIM, Ptr[i32])[0])
    more = nd - i64(bits(a + abi.NDIM, Ptr[i32])[0])
    for k in range(nd):
        if shape[k] != 1:
            step = i64(0)
            if k >= more:
                step = of[k - more] if own[k - more] != 1 else i64(0)
            s, t = step // size, to[k] // size
            good = good & (s * size == step) & (t * size == to[k]) & (t > 0)
            at = n + 0
            while dims[3 * at - 1] < t:
                for e in unroll(3):
                    dims[3 * at + e] = dims[3 * at - 3 + e]
                at -= 1
            d = dims + 3 * at
            d[0] = shape[k]
            d[1] = s
            d[2] = t
            n += 1
    joined = i64(0)
    for k in range(1, n):
        d, e = dims + 3 * joined, dims + 3 * k
        good = good & (d[2] >= e[2] * e[0])  # else elements of the result share memory
        if (d[1] == e[1] * e[0]) & (d[2] == e[2] * e[0]):
            d[0] = d[0] * e[0]
        else:
            joined += 1
            d = d + 3
            d[0] = e[0]
        d[1] = e[1]
        d[2] = e[2]
    return min(joined + 1, n), good


@routine
def copied(out, a, size, U):
    """Copy an array into one of `size` elements, not 0, to whose shape it broadcasts, and which shares
    no memory with it; whether that was possible: nothing is written where strides of the result are not
    positive or its elements not apart."""
    space = array(i64, 3 * (MOST + 1))
    space[2] = (1 << 63) - 1  # nothing comes before it
    dims = space + 3
    count, good = dimensions(a, out, dims, U.size)
    p, q = bits(a[abi.DATA], Ptr[U]), bits(out[abi.DATA], Ptr[U])
    if good & (count == 0):
        q[0] = p[0]
    elif good:
        last = dims + 3 * (count - 1)
        n, pn, qn = last[0], last[1], last[2]
        k = i64(-1)
        if (qn == 1) & (pn > 1) & (n >= 4):  # a dimension along which the source is in order?
            for d in range(count - 1):
                if (dims[3 * d + 1] == 1) & (dims[3 * d] >= 4):
                    k = d + 0
        if k >= 0:
            m, qm = dims[3 * k], dims[3 * k + 2]
            for d in range(3 * k, 3 * (count - 2)):
                dims[d] = dims[d + 3]
            transposed(p, q, dims, count - 2, size // (m * n), m, n, pn, qm, U)
        else:
            m, pm, qm = i64(1), i64(0), i64(0)
            outer = count - 1
            if outer > 0:
                outer -= 1
                m, pm, qm = dims[3 * outer], dims[3 * outer + 1], dims[3 * outer + 2]
            runs = size // (m * n)
            if (pn == 1) & (qn == 1):
                move_rows("whole", p, q, dims, outer, runs, m, n, pm, qm, pn, qn, U)
            elif (pn == -1) & (qn == 1):
                move_rows("back", p, q, dims, outer, runs, m, n, pm, qm, pn, qn, U)
            elif (pn == 0) & (qn == 1):
                move_rows("same", p, q, dims, outer, runs, m, n, pm, qm, pn, qn, U)
            else:
                move_rows("apart", p, q, dims, outer, runs, m, n, pm, qm, pn, qn, U)
    return good


@kernel
def copy(out: Header, a: Header, bad: Ptr[i64], size: i64, U):
    """`copied`; bad[0] = 1 where that was not possible."""
    if not copied(out, a, size, U):
        bad[0] = 1


@kernel
def put_in_rows(a: Header, out: Ptr[U], bad: Ptr[i64], size: i64):
    """A row-major copy of `size` elements, not 0; bad[0] = 1 where that was not possible."""
    steps, step, nd = array(i64, MOST), i64(U.size), dims_of(a)
    for j in range(nd):
        steps[nd - 1 - j] = step
        step = step * shape_of(a)[nd - 1 - j]
    made = array(i64, abi.ARRAY_SIZE)
    made[abi.DATA], made[abi.SHAPE], made[abi.STRIDES] = (
        bits(out, i64),
        a[abi.SHAPE] + 0,
        bits(steps, i64),
    )
    bits(made + abi.NDIM, Ptr[i32])[0] = i32(nd)
    if not copied(made, a, size, U):
        bad[0] = 1


@kernel
def join(items: Header, out: Ptr[U], rows: i64, length: i64):
    """Arrays of a list side by side, as `shape_inference.joined` has looked at them: `rows` rows of `length`
    elements, a piece of each array after that of the one before."""
    for lo, hi in parallel(rows * length, PIECE):
        q = lo + 0
        r = lo // length
        left = lo - r * length  # elements of the row before q
        k = i64(0)
        while q < hi:
            a = item_of(items, k)
            n = size_of(a) // rows
            if left >= n:
                left -= n
            else:
                m = min(n - left, hi - q)
                move(out + q, bits(a[abi.DATA], Ptr[U]) + (r * n + left), m, False, U)
                q += m
                left = i64(0)
            k += 1
            if k == items[COUNT]:
                k = i64(0)
                r += 1


@kernel
def join_any(STACK, items: Header, out: Ptr[U], bad: Ptr[i64], axis: i64, length: i64):
    """`join` of arrays of any strides along an axis (STACK: a new one) of `length`; bad[0] = 1 where one has strides
    that are no whole numbers of elements."""
    first = item_of(items, 0)
    nd, shape = dims_of(first), shape_of(first)
    steps = array(i64, MOST)  # of a piece of the result, in bytes
    step, across = i64(U.size), i64(U.size)  # `across`: from one to the next along the axis
    more = nd + 1 if STACK else nd
    for j in range(more):
        r = more - 1 - j
        if r == axis:
            across = step + 0
        if STACK:
            if r != axis:
                d = r - 1 if r > axis else r + 0
                steps[d] = step
                step = step * shape[d]
            else:
                step = step * length
        else:
            steps[r] = step
            step = step * (length if r == axis else shape[r] + 0)
    piece = array(i64, abi.ARRAY_SIZE)
    piece[abi.STRIDES] = bits(steps, i64)
    bits(piece + abi.NDIM, Ptr[i32])[0] = i32(nd)
    at = bits(out, i64)
    for k in range(items[COUNT]):
        a = item_of(items, k)
        size = size_of(a)
        if size > 0:
            piece[abi.DATA], piece[abi.SHAPE] = at, a[abi.SHAPE] + 0
            if not copied(piece, a, size, U):
                bad[0] = 1
        if STACK:
            at += across
        else:
            at += across * shape_of(a)[axis]


# -- rolled -----------------------------------------------------------------------------------------


@kernel
def roll(a: Ptr[U], out: Ptr[U], rows: i64, n: i64, front: i64):
    """Rows of n elements, the last `front` of each before the others."""
    for lo, hi in parallel(rows, rows_of(n)):
        for r in range(lo, hi):
            p, q = a + r * n, out + r * n
            move(q, p + (n - front), front, False, U)
            move(q + front, p, n - front, False, U)


# -- triangles -------------------------------------------------------------------------------------


@kernel
def triangle(LOWER, a: Ptr[U], out: Ptr[U], outer: i64, m: i64, n: i64, diagonal: i64):
    """Matrices with zeros above a diagonal (LOWER), or below it."""
    for lo, hi in parallel(outer * m, rows_of(n)):
        for r in range(lo, hi):
            i = r % m
            p, q = a + r * n, out + r * n
            if LOWER:
                cut = min(max(i + diagonal + 1, i64(0)), n)
                move(q, p, cut, False, U)
                for j in lanes(cut, n):
                    q[j] = U(0)
            else:
                cut = min(max(i + diagonal, i64(0)), n)
                for j in lanes(0, cut):
                    q[j] = U(0)
                move(q + cut, p + cut, n - cut, False, U)
