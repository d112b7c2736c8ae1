"""Matrix products: C = A @ B, or added to what C holds, for any strides of A and B.

The result is computed in tiles of `MR` rows by `V` vectors, which stay in registers while a block of
the inner dimension passes by: for every k, V vectors of B are multiplied by MR numbers of A. A chunk
of the work is some panels of C, each as wide as a tile; its part of B is packed into memory that
stays in the second-level cache, and row after row of tiles passes over it. A is read where it is,
number by number: packing it too made every product slower. (Blocking and packing are those of
K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008; the roles of
the two operands are exchanged.)

An element of C is a sum of blocks of at most `DEPTH` products each, added in order, whatever the
number of threads and wherever in C it stands.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from rushlight.compiler import native
from rushlight.compiler.kernel import kernel
from rushlight.compiler.language import (
    array,
    bf16_pairs,
    bits,
    fma,
    inline,
    iota,
    lanes,
    load,
    parallel,
    prefetch,
    routine,
    shuffle,
    splat,
    store,
    typeof,
    unroll,
)
from rushlight.compiler.types import HEAD, Header, Ptr, Type, i32, i64, u16

DEPTH = 512  # of a packed panel of B: 64 KiB
GROUP = 4  # panels that are packed at once and lie in the second-level cache together
CHUNKS = 8  # that a large product is cut into at least
SET, ADD, BIAS = 0, 1, 2  # what becomes of C: the product; C + the product; a row + the product


@cache
def sizes(T: Type, E: Type | None = None) -> dict[str, Any]:
    """What the kernel for matrices of one type is compiled for: a tile of MR rows by V vectors of L
    lanes, which with what it is multiplied with fills the registers.

    T is the type of C and the sums, E that of A and B: the same, or i32, each two bf16 (`pairs`).
    """
    features = native.host()[1]
    if "+avx512f" in features:
        width, rows = 64, 12
    elif "+avx2" in features:
        width, rows = 32, 6
    else:
        width, rows = 16, 12 if "+neon" in features else 4
    return {"E": E or T, "T": T, "MR": rows, "V": 2, "L": width // T.size}


def pairs() -> bool:
    """Whether the machine multiplies pairs of bfloat16 and adds them up in float32."""
    return "+avx512bf16" in native.host()[1]


def _crossing(row: int, step: int, lanes: int) -> list[int]:
    """The lanes of row & ~step and row | step that make one row when blocks of `step` cross."""
    if row & step:
        return [lanes + i if i & step else i + step for i in range(lanes)]
    return [lanes + i - step if i & step else i for i in range(lanes)]


@inline
def transposed(rows, L):
    """L vectors of L lanes: lane i of vector j becomes lane j of vector i."""
    for s in unroll([1 << i for i in range(L.bit_length() - 1)]):
        rows = [shuffle(rows[i & ~s], rows[i | s], _crossing(i, s, L)) for i in range(L)]
    return rows


@routine
def tile(a, ars, aks, b, bks, c, ldc, bias, k, rows, left, begin, T, MR, V, L):
    """A tile of C, of which `rows` and `left` columns exist: `begin` says what is added to it.

    Rows that do not exist are computed from the last one that does.
    """
    masks = [iota(i32, L) < i32(left - v * L) for v in range(V)]
    sums = [[splat(T(0), L) for _ in range(V)] for _ in range(MR)]
    at = [a + min(rows - 1, r) * ars for r in range(MR)]
    for r in unroll(MR):
        for v in unroll(V):
            prefetch(c + (min(rows - 1, r) * ldc + v * L))
    for p in range(k):
        bs = [load(b + (p * bks + v * L), L, masks[v]) for v in range(V)]
        for r in unroll(MR):
            x = splat(at[r][p * aks], L)
            for v in unroll(V):
                if typeof(x) is T:
                    sums[r][v] = fma(bs[v], x, sums[r][v])
                else:
                    sums[r][v] = bf16_pairs(bs[v], x, sums[r][v])
    more, step = c, ldc
    if begin == BIAS:
        more, step = bias, i64(0)
    if begin != SET:
        for r in unroll(MR):
            for v in unroll(V):
                there = more + (min(rows - 1, r) * step + v * L)
                sums[r][v] = sums[r][v] + load(there, L, masks[v])
    for r in unroll(MR):
        if r < rows:
            for v in unroll(V):
                store(c + (r * ldc + v * L), sums[r][v], masks[v])


@routine
def pack_rows(b, bks, to, k, columns, W, L):
    """Panels of B [k, columns], whose rows are contiguous, as rows of W numbers; others are 0.

    One panel begins DEPTH rows behind the one before. All are packed at once: rows of B may be pages
    apart, and then going from row to row costs more than reading on.
    """
    for p in range(k):
        for j in range(0, columns, W):
            for v in unroll(W // L):
                mask = iota(i32, L) < i32(columns - j - v * L)
                store(to + (j * DEPTH + p * W + v * L), load(b + (p * bks + j + v * L), L, mask))


@routine
def pack_columns(b, bcs, to, k, left, W, L):
    """A panel of B [k, left], whose columns are contiguous, as rows of W numbers.

    Columns that do not exist are copies of the last one. Rows are written up to a multiple of L.
    """
    for v in unroll(W // L):
        if v * L < left:
            at = [b + min(left - 1, v * L + i) * bcs for i in range(L)]
            for p in range(0, k, L):
                mask = iota(i32, L) < i32(k - p)
                rows = transposed([load(at[i] + p, L, mask) for i in range(L)], L)
                for i in unroll(L):
                    store(to + ((p + i) * W + v * L), rows[i])


@routine
def pack_any(b, bks, bcs, to, k, left, W):
    """A panel of B [k, left] of any strides as rows of W numbers."""
    for p in range(k):
        for j in range(left):
            to[p * W + j] = b[p * bks + j * bcs]


@inline
def row_of_tiles(a, ars, aks, b, panel, bks, c, ldc, bias, k, rows, columns, begin, T, MR, V, L,
                 HIGH):  # fmt: skip
    """The tiles that stand beside each other; panels of B begin `panel` elements a column apart.

    What is left of a row takes tiles of one vector and HIGH rows, since each kind takes time to
    compile.
    """
    for j in range(0, columns, V * L):
        left = columns - j
        if left > L:
            tile(a, ars, aks, b + j * panel, bks, c + j, ldc, bias + j, k, rows, left, begin,
                 T=T, MR=MR, V=V, L=L)  # fmt: skip
        else:
            tile(a, ars, aks, b + j * panel, bks, c + j, ldc, bias + j, k, rows, left, begin,
                 T=T, MR=HIGH, V=1, L=L)  # fmt: skip


@routine
def block(a, ars, aks, b, panel, bks, c, ldc, row, k, rows, columns, begin, T, MR, V, L):
    """A block of C: rows of tiles, and at its end one as low as will do."""
    third = MR // 3
    for i in range(0, rows, MR):
        rest, at, to = rows - i, a + i * ars, c + i * ldc
        if rest > 2 * third:
            row_of_tiles(at, ars, aks, b, panel, bks, to, ldc, row, k, min(rest, MR), columns,
                         begin, T, MR, V, L, MR)  # fmt: skip
        elif rest > third:
            row_of_tiles(at, ars, aks, b, panel, bks, to, ldc, row, k, rest, columns,
                         begin, T, 2 * third, V, L, MR)  # fmt: skip
        else:
            row_of_tiles(at, ars, aks, b, panel, bks, to, ldc, row, k, rest, columns,
                         begin, T, third, V, L, MR)  # fmt: skip


@routine
def pack(b, bks, bcs, to, k, columns, W, L):
    """Panels of B [k, columns] as rows of W numbers, one panel DEPTH rows behind the one before."""
    if bcs == 1:
        pack_rows(b, bks, to, k, columns, W=W, L=L)
    elif bks == 1:
        for j in range(0, columns, W):
            pack_columns(b + j * bcs, bcs, to + j * DEPTH, k, min(W, columns - j), W=W, L=L)
    else:
        for j in range(0, columns, W):
            pack_any(b + j * bcs, bks, bcs, to + j * DEPTH, k, min(W, columns - j), W=W)


@kernel
def convert(a: Ptr[A], out: Ptr[B], n: i64):
    """The numbers of one array in another."""
    for lo, hi in parallel(n, 32768):
        for i in lanes(lo, hi):
            out[i] = a[i]


@kernel
def pair_rows(a: Ptr[u16], out: Ptr[i32], rows: i64, n: i64, along: i64):
    """Each number of an even row beside that of the odd row under it, as one: out [rows // 2, n]."""
    for lo, hi in parallel(rows // 2, 32768 // n + 1):
        for p in range(lo, hi):
            upper, lower = a + 2 * p * along, a + (2 * p + 1) * along
            to = out + p * n
            for j in lanes(0, n):
                to[j] = i32(upper[j]) | (i32(lower[j]) << 16)


@inline
def shape_of(a):
    """Of an array's object: its number of dimensions, its shape, its strides in bytes."""
    return i64(i32(a[HEAD + 1])), bits(a[HEAD + 2], Ptr[i64]), bits(a[HEAD + 3], Ptr[i64])


@routine
def matrix_at(index, over, lead, dims, shape, strides):
    """Where, in bytes, the matrix for an index into the `lead` first dimensions of `over` begins."""
    at = i64(0)
    rest = index
    for d in range(lead):
        size = over[lead - 1 - d]
        mine = dims - 3 - d
        if mine >= 0:
            if shape[mine] != 1:  # else it is broadcast
                at += rest % size * strides[mine]
        rest = rest // size
    return at


@inline
def rounded_up(a, by):
    return (a + (by - 1)) // by * by


@kernel
def product(a: Header, b: Header, c: Header, row: Ptr[T], parts: Ptr[T], how: i64):
    """C [..., m, n] from A [..., m, k] and B [..., k, n], k > 0 (counted in pairs, if they are pairs).

    Leading dimensions of A and B are broadcast to those of C, whose rows are contiguous. `how` is
    SET, ADD or BIAS, which adds `row` [n]; or SET or ADD + 4 * span: then the sum over k is made of
    sums over `span` products, which threads share, in `parts` [spans, m, n]; C has no leading
    dimensions and is contiguous.
    """
    W = V * L
    a_dims, a_shape, a_strides = shape_of(a)
    b_dims, b_shape, b_strides = shape_of(b)
    c_dims, c_shape, c_strides = shape_of(c)
    m, n, k = c_shape[c_dims - 2], c_shape[c_dims - 1], a_shape[a_dims - 1]
    ars, aks = a_strides[a_dims - 2] // E.size, a_strides[a_dims - 1] // E.size
    bks, bcs = b_strides[b_dims - 2] // E.size, b_strides[b_dims - 1] // E.size
    ldc = c_strides[c_dims - 2] // T.size
    if n == 1:  # then the stride may be any
        bcs = i64(1)
    begin, span, spans = how % 4, k, i64(1)
    if how > 3:
        span = how // 4
        spans = rounded_up(k, span) // span
    depths = rounded_up(min(k, span), DEPTH) // DEPTH
    depth = rounded_up(rounded_up(min(k, span), depths) // depths, L)
    lead = c_dims - 2
    batch = i64(1)
    for d in range(lead):
        batch = batch * c_shape[d]

    # The chunks of a matrix: `down` times `pieces`, for each span.
    across = rounded_up(n, W) // W
    wanted = rounded_up(min(1 + m * n * k * batch // 524288, CHUNKS), batch) // batch
    if spans > 1:
        wanted = i64(1)
    group = min(max(across * min(max(m // 512, 1), wanted) // wanted, 1), GROUP)
    pieces = rounded_up(across, group) // group
    down = min(rounded_up(wanted, pieces) // pieces, max(m // 96, 1))  # each packs B anew
    down = max(down, rounded_up(m, 1024) // 1024)
    height = rounded_up(rounded_up(m, down) // down, MR)
    down = rounded_up(m, height) // height
    each = pieces * down
    chunks = each * spans
    grain = max(131072 * chunks // (m * n * k), 1)

    b_in_place = (bcs == 1) & ((min(k, DEPTH) * bks <= 32768) | ((m <= 2 * MR) & (bks <= 2048)))
    for lo, hi in parallel(batch * chunks, grain):
        panels = array(E, DEPTH * W * GROUP)
        for t in range(lo, hi):
            z, s, u = t // chunks, t % chunks // each, t % each
            i, first = u // pieces * height, u % pieces * (group * W)
            rows, columns = min(height, m - i), min(n - first, group * W)
            over_a = matrix_at(z, c_shape, lead, a_dims, a_shape, a_strides) // E.size
            over_b = matrix_at(z, c_shape, lead, b_dims, b_shape, b_strides) // E.size
            over_c = matrix_at(z, c_shape, lead, c_dims, c_shape, c_strides) // T.size
            at = bits(a[HEAD], Ptr[E]) + (over_a + i * ars)
            by = bits(b[HEAD], Ptr[E]) + (over_b + first * bcs)
            to = bits(c[HEAD], Ptr[T]) + (over_c + i * ldc + first)
            start = begin
            if spans > 1:
                to = parts + (s * (m * n) + i * n + first)
                start = i64(SET)
            p, end = s * span, min(k, (s + 1) * span)
            while p < end:
                deep = min(depth, end - p)
                source, panel, step = panels, i64(DEPTH), i64(W)
                if b_in_place:
                    source, panel, step = by + p * bks, i64(1), bks
                else:
                    pack(by + p * bks, bks, bcs, panels, deep, columns, W=W, L=L)
                block(at + p * aks, ars, aks, source, panel, step, to, ldc, row + first, deep,
                      rows, columns, start, T=T, MR=MR, V=V, L=L)  # fmt: skip
                p += depth
                start = i64(ADD)
    if spans > 1:
        for lo, hi in parallel(m * n, 2048):
            to = bits(c[HEAD], Ptr[T])
            for e in range(lo, hi, L):
                mask = iota(i32, L) < i32(hi - e)
                total = load(parts + e, L, mask)
                for s in range(1, spans):
                    total += load(parts + (s * (m * n) + e), L, mask)
                if begin == ADD:
                    total += load(to + e, L, mask)
                store(to + e, total, mask)
