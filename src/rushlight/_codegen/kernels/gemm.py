"""Matrix products: C = A @ B, or added to what C holds, for any strides of A and B.

The result is computed in tiles of `MR` rows by `V` vectors, which stay in registers while a block of
the inner dimension passes by: for every k, V vectors of B are multiplied by MR numbers of A. A chunk
of the work is some panels of C, each as wide as a tile; its part of B is packed into memory that
stays in the second-level cache, and row after row of tiles passes over it. A is read where it is,
number by number, and packed only where its numbers for one row lie pages apart (the first factor of
a gradient of weights): packing it always made every product slower. (Blocking and packing are those
of K. Goto and R. van de Geijn, "Anatomy of high-performance matrix multiplication", 2008; the roles
of the two operands are exchanged.)

An element of C is a sum of blocks of at most `DEPTH` products each, added in order, whatever the
number of threads and wherever in C it stands.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import elementwise
from rushlight._codegen.kernels.header import geometry_of
from rushlight._codegen.kernels.tiles import DEEP, SIDE, configure, multiply, put_rows, tilerelease
from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, Type, f64, i32, i64, u16

DEPTH = 512  # of a packed panel of B: 64 KiB
PANELS = 1 << 18  # bytes of panels of B that are packed at once: they lie in the second-level cache
CHUNKS = 8  # that a large product is cut into at least
SMALL = 131072  # multiplications from which a product is cut in two
FEW = 524288  # and from which in several
BRIEF = 1 << 21  # with fewer it is over before a thread that sleeps comes
HIGH = 192  # bytes of a column of A that are packed at once: three lines of the cache
FAR = 1 << 18  # bytes from which a row of A spreads over more pages than a processor finds at once
SET, ADD, BIAS, SCALE = 0, 1, 2, 3  # C: the product; C or a row + alpha * it; alpha * it
LAST = 4  # more than these: the sums are complete, and the activation follows


def _crossing(row: int, step: int, lanes: int) -> list[int]:
    """The lanes of row & ~step and row | step that make one row when blocks of `step` cross."""
    if row & step:
        return [lanes + i if i & step else i + step for i in range(lanes)]
    return [lanes + i - step if i & step else i for i in range(lanes)]


def _zipped(half: int, deep: int, lanes: int) -> list[int]:
    """Of two vectors of groups of `deep` lanes: of one half of each group, a lane of the first and one of the second in turn."""
    groups = range(half * deep // 2, lanes, deep)
    return [v * lanes + g + i for g in groups for i in range(deep // 2) for v in (0, 1)]


def _halves(half: int, deep: int, lanes: int) -> list[int]:
    """Of the same: one half of each group of the first, then that of the second."""
    groups = range(half * deep // 2, lanes, deep)
    return [v * lanes + g + i for g in groups for v in (0, 1) for i in range(deep // 2)]


def _joined(n: int) -> list[int]:
    """The lanes of two vectors of n lanes, one after the other."""
    return list(range(2 * n))


@inline
def exchanged(rows, L, Q):
    """Q vectors of groups of Q lanes, 1, 2 or 4: in each group lane i of vector j becomes lane j of vector i."""
    if Q > 1:
        pairs = [2 * i % Q for i in range(Q)]
        rows = [
            shuffle(rows[pairs[i]], rows[pairs[i] + 1], _zipped(2 * i // Q, Q, L)) for i in range(Q)
        ]
    if Q == 4:
        rows = [shuffle(rows[i & ~1], rows[i | 1], _halves(i & 1, Q, L)) for i in range(Q)]
    return rows


@inline
def transposed(rows, L):
    """L vectors of L lanes: lane i of vector j becomes lane j of vector i. First within groups of 4 lanes, where processors
    have an instruction for each vector."""
    Q, given = min(4, L), rows
    rows = []
    for i in unroll(range(0, L, Q)):
        rows = rows + exchanged(given[i : i + Q], L, Q)
    for s in unroll([Q << i for i in range((L // Q).bit_length() - 1)]):
        rows = [shuffle(rows[i & ~s], rows[i | s], _crossing(i, s, L)) for i in range(L)]
    return rows


@inline
def columns_to_rows(columns, L, Q):
    """L vectors of Q numbers, 2 or 4, as Q vectors of L: `transposed` of what is not square."""
    for n in unroll([Q << i for i in range((L // Q).bit_length() - 1)]):
        first = [i // Q * 2 * Q + i % Q for i in range(len(columns) // 2)]
        columns = [shuffle(columns[i], columns[i + Q], _joined(n)) for i in first]
    return exchanged(columns, L, Q)


@inline
def added(x, y, z):
    """x * y + z, of floating-point numbers rounded once."""
    if typeof(x).is_float:
        r = fma(x, y, z)
    else:
        r = x * y + z
    return r


@inline
def wanted(skip, left, j, L):
    """Which of the columns j, j + 1, ... are wanted."""
    mask = iota(i32, L) < i32(left - j)
    if skip is not None:
        mask = mask & (iota(i32, L) >= i32(skip - j))
    return mask


@inline
def load_line(p, left, L):
    """As far as `left` elements, then 0. Without AVX-512 to load by a mask takes as long as some loads."""
    if left >= L:
        v = load(p, L)
    else:
        v = load(p, L, iota(i32, L) < i32(left))
    return v


@inline
def store_line(p, v, left, L):
    """As far as `left` elements. Without AVX-512 to store by a mask takes as long as ten stores."""
    if left >= L:
        store(p, v)
    else:
        store(p, v, iota(i32, L) < i32(left))


@inline
def put(sums, to, bias, begin, alpha, masks, T, MR, V, L):
    """The sums of a tile, or what they are added to and they, into the rows of C at `to`. Where whole vectors are wanted they
    need no masks, with which storing takes ten times as long on some processors."""
    if begin == ADD:
        for r in unroll(MR):
            for v in unroll(V):
                sums[r][v] = load(to[r] + v * L, L, masks[v]) + sums[r][v] * splat(T(alpha), L)
    elif begin == BIAS:
        line = [load(bias + v * L, L, masks[v]) for v in range(V)]
        for r in unroll(MR):
            for v in unroll(V):
                sums[r][v] = sums[r][v] * splat(T(alpha), L) + line[v]
    for r in unroll(MR):
        for v in unroll(V):
            store(to[r] + v * L, sums[r][v], masks[v])


@routine
def tile(
    a, ars, aks, b, bks, c, ldc, bias, k, rows, skip, left, begin, alpha, T, MR, V, L, ACT, PADDED
):  # fmt: skip
    """A tile of C, of which `rows` and the columns from `skip` to `left` are wanted: `begin` says what
    is added to it.

    Rows that do not exist are computed and stored as the last one that does. Where rows of B are
    PADDED to V vectors, none is read by a mask, which takes time of those who multiply.
    """
    masks = [wanted(skip, left, v * L, L) for v in range(V)]
    sums = [[splat(T(0), L) for _ in range(V)] for _ in range(MR)]
    last = rows - 1
    at = [a + min(last, r) * ars for r in range(MR)]
    to = [c + min(last, r) * ldc for r in range(MR)]
    # Costs a product of 64 a thirtieth; without, one of 2048 whose A lies in columns takes longer by as much.
    for r in unroll(MR):
        for v in unroll(V):
            prefetch(to[r] + v * L)
    done = i64(0)
    if V == 1:  # a number of A serves one product: to find each anew would take as long
        if aks == 1:
            for p in rounds(0, k, 4):
                there = b + p * bks
                line = load(there, L) if PADDED else load(there, L, masks[0])
                for r in unroll(MR):
                    x = splat(at[r][p], L)
                    if typeof(x) is T:
                        sums[r][0] = added(line, x, sums[r][0])
                    else:
                        sums[r][0] = bf16_pairs(line, x, sums[r][0])
            done = k
    for p in range(done, k):
        there = [b + (p * bks + v * L) for v in range(V)]
        bs = [load(there[v], L) if PADDED else load(there[v], L, masks[v]) for v in range(V)]
        for r in unroll(MR):
            x = splat(at[r][p * aks], L)
            for v in unroll(V):
                if typeof(x) is T:
                    sums[r][v] = added(bs[v], x, sums[r][v])
                else:
                    sums[r][v] = bf16_pairs(bs[v], x, sums[r][v])
    if (begin == SET) | (begin == ADD) | (begin == BIAS):
        whole = left >= V * L
        if skip is not None:
            whole = whole & (skip <= 0)
        if whole:
            put(sums, to, bias, begin, alpha, [None for _ in range(V)], T, MR, V, L)
        else:
            put(sums, to, bias, begin, alpha, masks, T, MR, V, L)
    else:
        own = array(T, MR * V * L)
        for r in unroll(MR):
            for v in unroll(V):
                store(own + (r * V + v) * L, sums[r][v])
        finish(own, i64(V * L), c, ldc, bias, rows, skip, left, begin, alpha, T=T, L=L, ACT=ACT)


@inline
def tiles(
    a, ars, aks, b, bks, c, ldc, bias, k, rows, skip, left, begin, alpha, T, MR, V, L, ACT, PADDED
):  # fmt: skip
    """A `tile`, or low ones for what is left of the rows.

    That a tile has most of its rows is known while it is compiled: then they are found by going on
    from row to row, and not each by a register of its own, of which there are too few.
    """
    low = MR // 3
    if rows > 2 * low:
        tile(a, ars, aks, b, bks, c, ldc, bias, k, rows, skip, left, begin, alpha,
             T=T, MR=MR, V=V, L=L, ACT=ACT, PADDED=PADDED)  # fmt: skip
    else:
        for r in range(0, rows, low):
            tile(a + r * ars, ars, aks, b, bks, c + r * ldc, ldc, bias, k, min(rows - r, low), skip,
                 left, begin, alpha, T=T, MR=low, V=V, L=L, ACT=ACT, PADDED=PADDED)  # fmt: skip


@routine
def finish(sums, wide, c, ldc, bias, rows, skip, left, begin, alpha, T, L, ACT):
    """Rows of C from the sums of a tile, which is so wide, and what is to be done with them."""
    for r in range(rows):
        for j in range(0, min(left, wide), L):
            mask = wanted(skip, left, j, L)
            x = load(sums + (r * wide + j), L) * splat(T(alpha), L)
            if begin % 4 == ADD:
                x += load(c + (r * ldc + j), L, mask)
            elif begin % 4 == BIAS:
                x += load(bias + j, L, mask)
            if ACT == "relu":
                if begin >= LAST:
                    x = select(x < splat(T(0), L), splat(T(0), L), x)
            elif ACT == "gelu":
                if begin >= LAST:
                    x = elementwise.gelu(x)
            store(c + (r * ldc + j), x, mask)


@routine
def pack_rows(b, bks, to, k, columns, W, L):
    """Panels of B [k, columns], whose rows are contiguous, as rows of W numbers; others are 0.

    One panel begins DEPTH rows behind the one before. All are packed at once: rows of B may be pages
    apart, and then going from row to row costs more than reading on.
    """
    whole = columns // W * W
    masks = [iota(i32, L) < i32(columns - whole - v * L) for v in range(W // L)]
    for p in range(k):
        for j in range(0, whole, W):
            for v in unroll(W // L):
                store(to + (j * DEPTH + p * W + v * L), load(b + (p * bks + j + v * L), L))
        if whole < columns:
            for v in unroll(W // L):
                there = load(b + (p * bks + whole + v * L), L, masks[v])
                store(to + (whole * DEPTH + p * W + v * L), there)


@routine(separate=True)
def pack_columns(b, bcs, to, k, left, W, L):
    """A panel of B [k, left], whose columns are contiguous, as rows of W numbers.

    Columns that do not exist are copies of the last one. Rows are written up to a multiple of L.
    """
    Q = min(4, L)
    for j in range(0, min(left, W), L):
        at = [b + min(left - 1, j + i) * bcs for i in range(L)]
        whole = k // Q * Q
        for p in range(0, whole, Q):
            rows = columns_to_rows([load(at[i] + p, Q) for i in range(L)], L, Q)
            for i in unroll(Q):
                store(to + ((p + i) * W + j), rows[i])
        if whole < k:
            mask = iota(i32, Q) < i32(k - whole)
            rows = columns_to_rows([load(at[i] + whole, Q, mask) for i in range(L)], L, Q)
            for i in unroll(Q):
                store(to + ((whole + i) * W + j), rows[i])


@routine(separate=True, quick=True)
def block(a, ars, aks, b, panel, bks, c, ldc, row, k, rows, columns, begin, T, MR, V, L,
          alpha=1, ACT="", back=None):  # fmt: skip
    """A block of C: rows of tiles; panels of B begin `panel` elements a column apart.

    Each kind of tile takes time to compile: there is a narrow one for what is left of the columns,
    and a low one of either width for what is left of the rows. Without `back` columns of B end where they end. With it
    all V vectors can be read: with 1 the last columns are multiplied together with some before
    them, which are done already; with 0 there is something behind them.
    """
    W, PADDED = V * L, back is not None
    for i in range(0, rows, MR):
        rest, at, line = min(rows - i, MR), a + i * ars, c + i * ldc
        for j in range(0, columns, W):
            left, skip = columns - j, None
            if PADDED:
                skip = max((i64(L) if left <= L else i64(W)) - left, i64(0)) * back
                left += skip
            first = j - skip if PADDED else j
            by, to, more = b + first * panel, line + first, row + first
            if left <= L:
                tiles(at, ars, aks, by, bks, to, ldc, more, k, rest, skip, left, begin, alpha,
                      T=T, MR=MR, V=1, L=L, ACT=ACT, PADDED=PADDED)  # fmt: skip
            else:
                tiles(at, ars, aks, by, bks, to, ldc, more, k, rest, skip, left, begin, alpha,
                      T=T, MR=MR, V=V, L=L, ACT=ACT, PADDED=PADDED)  # fmt: skip


@routine
def pack(b, bks, bcs, to, k, columns, W, L):
    """Panels of B [k, columns] as rows of W numbers, one panel DEPTH rows behind the one before."""
    if bcs == 1:
        pack_rows(b, bks, to, k, columns, W=W, L=L)
    else:
        for j in range(0, columns, W):
            pack_columns(b + j * bcs, bcs, to + j * DEPTH, k, min(W, columns - j), W=W, L=L)


def tile_distance(MR: int, L: int) -> int:
    """From a packed tile of A to the next, in numbers; they share no lines of the cache's first level."""
    return (DEPTH * -(-MR // L) + 4) * L


def packed_rows(T: Type, MR: int) -> int:
    """How many rows of A are packed at once: whole tiles, 48 rows at most."""
    return min(HIGH // T.size, 48) // MR * MR


@routine(separate=True)
def pack_tiles(a, aks, to, k, rows, T, MR, L):
    """Rows of A [rows, k], at most `packed_rows`, whose columns are contiguous, as tiles of MR rows: for each k as
    many vectors as hold MR numbers."""
    high, line = packed_rows(T, MR), 64 // T.size
    each = -(-MR // L)
    first = [i // each * MR + i % each * L for i in range(high // MR * each)]
    masks = [iota(i32, L) < i32(rows - row) for row in first]
    for p in range(k):
        for i in unroll(high // line + 1):  # no processor foresees what lies pages apart
            prefetch(a + ((p + 8) * aks + i * line))
        for i in unroll(len(first)):
            there = load(a + (p * aks + first[i]), L, masks[i])
            store(to + (i // each * tile_distance(MR, L) + (p * each + i % each) * L), there)


@routine(separate=True)
def block_packed(a, aks, packed, b, panel, bks, c, ldc, row, k, rows, columns, begin, T, MR, V, L,
                alpha, ACT, back):  # fmt: skip
    """A `block`, of A whose columns are contiguous and far from each other: some rows at a time are packed first."""
    wide = -(-MR // L) * L
    for i in range(0, rows, packed_rows(T, MR)):
        here = min(rows - i, packed_rows(T, MR))
        pack_tiles(a + i, aks, packed, k, here, T=T, MR=MR, L=L)
        for r in range(0, here, MR):
            block(packed + r // MR * tile_distance(MR, L), i64(1), i64(wide), b, panel, bks, c + (i + r) * ldc,
                  ldc, row, k, min(here - r, MR), columns, begin, T=T, MR=MR, V=V, L=L, alpha=alpha, ACT=ACT,
                  back=back)  # fmt: skip


@routine
def rows_of_tiles(a, ars, aks, to, k, rows, wide, L):
    """Rows of A [rows, k], rows of `wide` numbers each; what is not there is 0."""
    if aks == 1:
        for r in range(rows):
            for p in range(0, wide, L):
                store(to + (r * wide + p), load_line(a + (r * ars + p), k - p, L))
    else:
        if ars == 1:
            pack_columns(a, aks, to, rows, k, W=wide, L=L)
        else:
            for r in range(rows):
                for p in range(k):
                    to[r * wide + p] = a[r * ars + p * aks]
        for r in range(rows):
            for p in range(k, wide):
                to[r * wide + p] = i32(0)


@routine(separate=True)
def block_of_tiles(a, ars, aks, packed, b, c, ldc, row, k, rows, columns, begin, alpha, T, L, ACT):
    """A `block` of pairs of bfloat16 by AMX: see `tiles.py`. b has packed panels, which get rows of zeros up to a multiple of
    DEEP. A is packed where it is not whole tiles whose rows are contiguous."""
    wide = rounded_up(k, DEEP)
    for j in range(0, columns, SIDE):
        for e in range(k * SIDE, wide * SIDE):
            b[j * DEPTH + e] = i32(0)
    sums = array(T, SIDE * SIDE)
    for i in range(0, rows, SIDE):
        here = min(rows - i, SIDE)
        at, step = a + i * ars, ars
        if (aks != 1) | (here < SIDE) | (k < wide):
            rows_of_tiles(at, ars, aks, packed, k, here, wide, L=L)
            at, step = packed, wide
        for j in range(0, columns, SIDE):
            multiply(at, step, b + j * DEPTH, sums, wide)
            to = c + (i * ldc + j)
            if (begin == SET) & (columns - j >= SIDE):
                put_rows(sums, to, ldc, here, L=L)
            elif (begin == BIAS) & (columns - j >= SIDE) & (alpha == 1):
                put_rows(sums, to, ldc, here, row=row + j, L=L)
            else:
                finish(sums, i64(SIDE), to, ldc, row + j, here, None, columns - j, begin, alpha,
                       T=T, L=L, ACT=ACT)  # fmt: skip


@inline
def any_block(
    a, ars, aks, a_far, packed, b, panel, bks, c, ldc, row, k, rows, columns, begin, alpha, back, TILES, T, MR, V, L, ACT
):  # fmt: skip
    """A block of C by what suits A and the processor."""
    if TILES:
        block_of_tiles(
            a, ars, aks, packed, b, c, ldc, row, k, rows, columns, begin, alpha, T=T, L=L, ACT=ACT
        )
    elif a_far:
        block_packed(a, aks, packed, b, panel, bks, c, ldc, row, k, rows, columns, begin,
                     T=T, MR=MR, V=V, L=L, alpha=alpha, ACT=ACT, back=back)  # fmt: skip
    else:
        block(a, ars, aks, b, panel, bks, c, ldc, row, k, rows, columns, begin,
              T=T, MR=MR, V=V, L=L, alpha=alpha, ACT=ACT, back=back)  # fmt: skip


@kernel
def convert(a: Ptr[A], out: Ptr[B], n: i64):
    """The numbers of one array in another."""
    for lo, hi in parallel(n, 32768):
        for i in lanes(lo, hi):
            out[i] = a[i]


@kernel
def pair_rows(a: Ptr[u16], out: Ptr[i32], outer: i64, rows: i64, n: i64):
    """Each number of an even row beside that of the odd row under it, as one: a [outer, rows, n] to
    out [outer, pairs, n]. Under a last even row are zeros."""
    each = (rows + 1) // 2
    for lo, hi in parallel(outer * each, 32768 // n + 1):
        for p in range(lo, hi):
            row = p % each * 2
            upper = a + (p // each * rows + row) * n
            to = out + p * n
            if row + 1 < rows:
                lower = upper + n
                for j in lanes(0, n):
                    to[j] = i32(upper[j]) | (i32(lower[j]) << 16)
            else:
                for j in lanes(0, n):
                    to[j] = i32(upper[j])


@routine
def matrix_at(index, over, lead, dims, shape, strides):
    """Where, in bytes, the matrix for an index into the `lead` first dimensions of `over` begins."""
    at = i64(0)
    rest = index
    for d in range(lead):
        place = rest
        if d + 1 < lead:  # divisions take as long as a row of a small matrix
            size = over[lead - 1 - d]
            place = rest % size
            rest = rest // size
        mine = dims - 3 - d
        if mine >= 0:
            if shape[mine] != 1:  # else it is broadcast
                at += place * strides[mine]
    return at


@inline
def rounded_up(a, by):
    return (a + (by - 1)) // by * by


@inline
def cut(m, n, k, batch, spans, a_packed, W, MR, GROUP):
    """The chunks of a matrix [m, n]: `pieces` of `group` panels each, `down` times, `height` rows each, and how many a
    thread takes at a time."""
    across = rounded_up(n, W) // W
    work, least = m * n * k * batch, i64(96)  # rows of a chunk: each packs B anew
    wanted = rounded_up(min(1 + work // FEW, CHUNKS), batch) // batch
    if (work >= SMALL) & (work < FEW) & (batch == 1):
        wanted, least = i64(2), i64(MR)
    if spans > 1:
        wanted = i64(1)
    group = min(max(across * min(max(m // 512, 1), wanted) // wanted, 1), GROUP)
    if a_packed:
        group = min(across, GROUP)
    pieces = rounded_up(across, group) // group
    down = min(rounded_up(wanted, pieces) // pieces, max(m // least, 1))
    down = max(down, rounded_up(m, 1024) // 1024)
    height = rounded_up(rounded_up(m, down) // down, MR)
    down = rounded_up(m, height) // height
    grain = max(SMALL * (pieces * down * spans) // (m * n * k), 1)
    if work < FEW:
        grain = max(grain // 2, 1)
    if work < BRIEF:
        grain += NEAR
    return group, pieces, height, down, grain


@kernel(quick=True)
def product(a: Header, b: Header, c: Header, row: Ptr[T], parts: Ptr[T], how: i64,
            alpha: f64):  # fmt: skip
    """C [..., m, n] from A [..., m, k] and B [..., k, n], k > 0 (counted in pairs, if they are pairs).

    Leading dimensions of A and B are broadcast to those of C, whose rows are contiguous; the rows or
    the columns of B are contiguous. `how` is SET, ADD, BIAS (`row` [n]) or SCALE, or 8 * span: then
    sums over `span` products each, which threads share, go to `parts` [spans, m, n]. C of another
    type than the sums' holds no sums: then k is at most DEPTH.
    """
    W = V * L
    GROUP = PANELS // (DEPTH * W * T.size) * (2 if TILES else 1)
    a_dims, a_shape, a_strides = geometry_of(a)
    b_dims, b_shape, b_strides = geometry_of(b)
    c_dims, c_shape, c_strides = geometry_of(c)
    m, n, k = c_shape[c_dims - 2], c_shape[c_dims - 1], a_shape[a_dims - 1]
    ars, aks = a_strides[a_dims - 2] // E.size, a_strides[a_dims - 1] // E.size
    bks, bcs = b_strides[b_dims - 2] // E.size, b_strides[b_dims - 1] // E.size
    ldc = c_strides[c_dims - 2] // O.size
    if n == 1:  # then the stride may be any
        bcs = i64(1)
    span, spans = k, i64(1)
    if how >= 8:
        span = how // 8
        spans = rounded_up(k, span) // span
    depths = rounded_up(min(k, span), DEPTH) // DEPTH
    depth = rounded_up(rounded_up(min(k, span), depths) // depths, L)
    lead = c_dims - 2
    batch = i64(1)
    for d in range(lead):
        batch = batch * c_shape[d]

    a_far = (ars == 1) & (aks * depth > FAR // E.size) & (n > W) & (not TILES)
    a_packed = a_far | ((aks != 1) & TILES)
    group, pieces, height, down, grain = cut(m, n, k, batch, spans, a_packed, W, MR, GROUP)
    each = pieces * down
    chunks = each * spans

    b_in_place = (bcs == 1) & (n >= W) & (not TILES)
    b_in_place &= (min(k, DEPTH) * bks <= 32768) | ((m <= 2 * MR) & (bks <= 2048))
    for lo, hi in parallel(batch * chunks, grain):
        if TILES:
            configure()
        panels = array(E.loaded, DEPTH * W * GROUP)
        packed = array(E.loaded, tile_distance(MR, L) * (packed_rows(T, MR) // MR))
        for t in range(lo, hi):
            z, s, i, first = t, i64(0), i64(0), i64(0)
            if chunks > 1:
                u = t % each
                z, s = t // chunks, t % chunks // each
                i, first = u // pieces * height, u % pieces * (group * W)
            rows, columns = min(height, m - i), min(n - first, group * W)
            over_a = matrix_at(z, c_shape, lead, a_dims, a_shape, a_strides) // E.size
            over_b = matrix_at(z, c_shape, lead, b_dims, b_shape, b_strides) // E.size
            over_c = matrix_at(z, c_shape, lead, c_dims, c_shape, c_strides) // O.size
            at = bits(a[abi.DATA], Ptr[E]) + (over_a + i * ars)
            by = bits(b[abi.DATA], Ptr[E]) + (over_b + first * bcs)
            to = bits(c[abi.DATA], Ptr[O]) + (over_c + i * ldc + first)
            start = how
            if O is T:
                if spans > 1:
                    to = parts + (s * (m * n) + i * n + first)
                    start = i64(SET)
            p, end = s * span, min(k, (s + 1) * span)
            while p < end:
                deep = min(depth, end - p)
                if ACT != "":
                    if p + depth >= k:
                        start += LAST
                source, panel, step, back = panels, i64(DEPTH), i64(W), i64(0)
                if E.loaded is E:
                    if b_in_place:
                        source, panel, step, back = by + p * bks, i64(1), bks, i64(1)
                if back == 0:
                    pack(by + p * bks, bks, bcs, panels, deep, columns, W=W, L=L)
                any_block(at + p * aks, ars, aks, a_far, packed, source, panel, step, to, ldc, row + first, deep, rows,
                          columns, start, T(alpha), back, TILES, T, MR, V, L, ACT)  # fmt: skip
                p += depth
                start = i64(ADD)
        if TILES:
            tilerelease()


@kernel
def joined(parts: Ptr[T], c: Ptr[T], n: i64, spans: i64):
    """C [n], the sum of the sums over spans [spans, n]."""
    for lo, hi in parallel(n, 2048):
        for e in range(lo, hi, L):
            mask = iota(i32, L) < i32(hi - e)
            total = load(parts + e, L, mask)
            for s in range(1, spans):
                total += load(parts + (s * n + e), L, mask)
            store(c + e, total, mask)
