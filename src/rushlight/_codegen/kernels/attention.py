"""Scaled dot product attention in tiles: the matrix of scores never exists as a whole.

Forward, a block of queries meets one block of keys after the other; what is summed so far is scaled
down when a larger score turns up (T. Dao et al., "FlashAttention", 2022; the running softmax is that
of M. Milakov and N. Gimelshein, 2018). What is kept is the logarithm of each query's sum of exponentials, from which
the backward pass computes the weights again:

    P = exp(scale Q Kᵀ + mask - log sum), D = rows' sums of dO * O, dS = P (dO Vᵀ - D) scale,
    dV = Pᵀ dO, dK = dSᵀ Q, dQ = dS K.

All products are tiles of `gemm.py`. A chunk of the work belongs to one head, so each sum has one
order whatever the number of threads.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import math
from rushlight._codegen.kernels.gemm import (
    ADD,
    SET,
    block,
    load_line,
    pack_columns,
    store_line,
    transposed,
)
from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, f32, i32, i64

WIDEST = 128  # of heads: elements of a query, key or value
QUERIES, KEYS = 48, 256  # in a block, forward
ROWS, COLUMNS = 96, 128  # queries and keys in a block, backward
FEW = 3  # queries of a head up to which packing the keys does not pay
SMALL = 262144  # products that are worth a chunk
SIDE = 4  # rows that are worked on side by side


@inline
def multiply(a, ars, aks, b, panel, bks, c, ldc, k, rows, columns, begin, back, T, MR, V, L):
    """As `block`; a panel of B stays in the first cache while all rows of A pass by."""
    for w in range(0, columns, V * L):
        block(a, ars, aks, b + w * panel, panel, bks, c + w, ldc, c, k, rows,
              min(i64(V * L), columns - w), begin, T=T, MR=MR, V=V, L=L, back=back)  # fmt: skip


@inline
def multiply_packed(a, ars, aks, b, panel, c, ldc, k, rows, columns, begin, T, MR, V, L):
    """`multiply` with packed panels."""
    multiply(a, ars, aks, b, panel, i64(V * L), c, ldc, k, rows, columns, begin, i64(0),
             T=T, MR=MR, V=V, L=L)  # fmt: skip


@inline
def seen_products(a, ars, b, panel, c, k, rows, columns, above, T, MR, V, L):
    """Products of rows with packed columns, COLUMNS apart, less most of those where a row does not see
    the column: row r sees columns up to r - above."""
    for w in range(0, columns, V * L):
        r = max(i64(0), w + above) // MR * MR
        block(a + r * ars, ars, i64(1), b + w * panel, panel, i64(V * L), c + (r * COLUMNS + w),
              i64(COLUMNS), c, k, rows - r, min(i64(V * L), columns - w), i64(SET),
              T=T, MR=MR, V=V, L=L, back=i64(0))  # fmt: skip


@inline
def head_of(a, n, h, T):
    """Where the matrix of sample n and head h of a [N, H, rows, columns] begins, and its row's stride."""
    strides = bits(a[abi.STRIDES], Ptr[i64])
    at = bits(a[abi.DATA], Ptr[T]) + (n * strides[0] + h * strides[1]) // T.size
    return at, strides[2] // T.size


@routine
def pack_keys(k, step, to, keys, width, deep, W, L):
    """Keys [keys, width] as panels of their transpose: W keys side by side, `deep` rows a panel."""
    for j in range(0, keys, W):
        pack_columns(k + j * step, step, to + j * deep, width, min(keys - j, W), W=W, L=L)


@routine
def pack_rows(x, step, to, rows, width, W, L):
    """Rows of `width` as panels of W elements side by side, `rows` rows a panel; what is beyond the width is 0."""
    for r in range(rows):
        for e in range(0, width, W):
            prefetch(x + ((r + 8) * step + e))  # rows may lie far apart
            for w in range(0, W, L):
                x_here = load_line(x + (r * step + e + w), width - e - w, L)
                store(to + (e * rows + r * W + w), x_here)


@routine
def scaled_rows(q, step, to, rows, width, scale, L):
    """Rows of `width`, scaled, WIDEST apart."""
    for r in range(rows):
        for e in range(0, width, L):
            store(to + (r * WIDEST + e), load_line(q + (r * step + e), width - e, L) * scale)


@routine(separate=True)
def few_scores(q, k, step, to, rows, keys, width, T, L):
    """Products of a few rows of queries, WIDEST apart, with keys where they are; L keys at a time."""
    for j in range(0, keys, L):
        at = [k + min(keys - 1, j + i) * step for i in range(L)]
        for r in range(rows):
            sums = [splat(T(0), L) for _ in range(L)]
            for e in range(0, width, L):
                x = load_line(q + (r * WIDEST + e), width - e, L)
                for i in unroll(L):
                    sums[i] = fma(load_line(at[i] + e, width - e, L), x, sums[i])
            lanes_of = transposed(sums, L)
            for half in unroll([L >> (n + 1) for n in range(L.bit_length() - 1)]):
                lanes_of = [lanes_of[i] + lanes_of[i + half] for i in range(half)]
            store(to + (r * KEYS + j), lanes_of[0])


@inline
def exp_down(x):
    """e**x of what is not far above 0, 0 below -87 (-708); at most 2 ULP, and NaN of NaN."""
    R = typeof(x)
    least = -87.0 if R is f32 else -708.0
    low = x < least
    y = math.exp_normal(select(low, R(least), x))
    return select(low, R(0), y)


@inline
def with_mask(v, j, see, added, L):
    """Scores from j on of a row with the mask added, which has `see` columns from its beginning on."""
    return v if added is None else v + load(added + j, L, iota(i32, L) < i32(see - j))


@inline
def seen_only(v, j, see, other, L):
    """What stands from j on in a row, and `other` from column `see` on."""
    return select(iota(i32, L) < i32(see - j), v, typeof(v)(other))


@kernel(quick=True)
def attention(
    MASK, q: Header, k: Header, v: Header, mask: Header, out: Header, tops: Ptr[T],
    sums: Ptr[T], scale: T, reach: i64, down: i64,
):  # fmt: skip
    """out [N, H, rows, values]; `sums` [N, H, rows] becomes the logarithm of the sum of exponentials,
    inf where a query sees nothing. A head is cut into `down` chunks of rows. Rows' elements lie side by side."""
    W = V * L
    shape = bits(q[abi.SHAPE], Ptr[i64])
    heads, length, width = shape[1], shape[2], shape[3]
    v_shape = bits(v[abi.SHAPE], Ptr[i64])
    s, values = v_shape[2], v_shape[3]
    sharing = heads // v_shape[1]  # heads of the query for one of the keys and values
    deep = (width + (L - 1)) // L * L
    height = (length + (down - 1)) // down
    worth = i64(SMALL) if height > FEW else i64(SMALL // 4)  # few queries wait for memory
    grain = max(1, worth // (height * s * (width + values)))
    for lo, hi in parallel(shape[0] * heads * down, grain):
        keys = array(T, KEYS * WIDEST)
        packed = array(T, KEYS * WIDEST)
        scaled = array(T, QUERIES * WIDEST)
        scores = array(T, QUERIES * KEYS)
        for t in range(lo, hi):
            z = t // down
            n, h = z // heads, z % heads
            first = t % down * height
            last = min(length, first + height)
            q_at, q_step = head_of(q, n, h, T)
            k_at, k_step = head_of(k, n, h // sharing, T)
            v_at, v_step = head_of(v, n, h // sharing, T)
            o_at, o_step = head_of(out, n, h, T)
            m_at, m_step = head_of(mask, n, h, T)
            top, sum = tops + z * length, sums + z * length
            seen = min(s, last + reach)
            for j in range(0, seen, KEYS):
                there = min(i64(KEYS), seen - j)
                if height > FEW:
                    pack_keys(k_at + j * k_step, k_step, keys, there, width, deep, W=W, L=L)
                v_here, v_panel, v_row, v_back = v_at + j * v_step, i64(1), v_step, i64(1)
                if height > FEW or (values < W and values % L != 0):
                    pack_rows(v_here, v_step, packed, there, values, W=W, L=L)
                    v_here, v_panel, v_row, v_back = packed, there, i64(W), i64(0)
                for i in range(first, last, QUERIES):
                    rows = min(i64(QUERIES), last - i)
                    columns = min(there, i + rows - j + reach)
                    if columns > 0:
                        scaled_rows(q_at + i * q_step, q_step, scaled, rows, width, scale, L=L)
                        if height > FEW:
                            multiply_packed(scaled, i64(WIDEST), i64(1), keys, deep, scores, i64(KEYS),
                                     width, rows, columns, i64(SET), T=T, MR=MR, V=V, L=L)  # fmt: skip
                        else:
                            few_scores(scaled, k_at + j * k_step, k_step, scores, rows, columns,
                                       width, T=T, L=L)  # fmt: skip
                        softmax_of(scores, rows, columns, i, j, m_at + (i * m_step + j), m_step,
                                   top + i, sum + i, o_at + i * o_step, o_step, values,
                                   reach, MASK=MASK, T=T, L=L)  # fmt: skip
                        multiply(scores, i64(KEYS), i64(1), v_here, v_panel, v_row,
                                 o_at + i * o_step, o_step, columns, rows, values,
                                 i64(SET) if j == 0 else i64(ADD), v_back, T=T, MR=MR, V=V, L=L)  # fmt: skip
            for i in range(first, last):
                l = sum[i]
                by = 1 / (l if l != 0 else T(1))
                to = o_at + i * o_step
                for e in range(0, values, L):
                    store_line(to + e, load_line(to + e, values - e, L) * by, values - e, L)
                sum[i] = top[i] + math.log(l) if l != 0 else T(float("inf"))


@routine(separate=True, quick=True)
def softmax_of(scores, rows, columns, i, j, added, step, top, sum, out, o_step, values,
               reach, MASK, T, L):  # fmt: skip
    """Exponentials of a block of scores, less each row's largest so far; what was summed before is
    scaled to that."""
    for first in range(0, rows, SIDE):
        row = [scores + (first + r) * KEYS for r in range(SIDE)]
        real = [min(rows - 1, first + r) for r in range(SIDE)]
        more = [(added + real[r] * step if MASK else None) for r in range(SIDE)]
        see = [min(columns, i + real[r] - j + 1 + reach) for r in range(SIDE)]
        best = [splat(T(float("-inf")), L) for _ in range(SIDE)]
        whole = see[0] // L * L if see[0] > 0 else i64(0)  # the first row sees least
        for c in range(0, whole, L):
            for r in unroll(SIDE):
                x = with_mask(load(row[r] + c, L), c, see[r], more[r], L)
                if MASK:
                    store(row[r] + c, x)
                best[r] = select(x > best[r], x, best[r])
        edge = see[SIDE - 1] if see[SIDE - 1] > 0 else i64(0)  # and the last one most
        edge = (edge + (L - 1)) // L * L
        for c in range(edge, columns, L):
            for r in unroll(SIDE):
                store(row[r] + c, splat(T(0), L))
        for c in range(whole, edge, L):
            for r in unroll(SIDE):
                x = with_mask(load(row[r] + c, L), c, see[r], more[r], L)
                x = seen_only(x, c, see[r], float("-inf"), L)
                store(row[r] + c, x)
                best[r] = select(x > best[r], x, best[r])
        most = [largest(best[r]) for r in range(SIDE)]
        if j > 0:
            for r in unroll(SIDE):
                before = top[real[r]]
                most[r] = before if before > most[r] else most[r]
        base = [(T(0) if most[r] == float("-inf") else most[r]) for r in range(SIDE)]
        added_up = [splat(T(0), L) for _ in range(SIDE)]
        for c in range(0, edge, L):
            for r in unroll(SIDE):
                x = exp_down(load(row[r] + c, L) - base[r])
                store(row[r] + c, x)
                added_up[r] = added_up[r] + x
        for r in unroll(SIDE):
            if first + r < rows:
                l = total(added_up[r])
                if j > 0:
                    less = math.exp(top[real[r]] - base[r])
                    l += sum[real[r]] * less
                    to = out + real[r] * o_step
                    for e in range(0, values, L):
                        store_line(to + e, load_line(to + e, values - e, L) * less, values - e, L)
                top[real[r]] = most[r]
                sum[real[r]] = l


@kernel(quick=True)
def gradients(
    MASK, g: Header, q: Header, k: Header, v: Header, mask: Header, out: Header,
    sums: Ptr[T], means: Ptr[T], gq: Header, gk: Header, gv: Header, scale: T,
    reach: i64,
):  # fmt: skip
    """The gradients by q, k and v, from the result and `sums` of `attention`; one chunk a head."""
    W = V * L
    shape = bits(q[abi.SHAPE], Ptr[i64])
    heads, length, width = shape[1], shape[2], shape[3]
    v_shape = bits(v[abi.SHAPE], Ptr[i64])
    s, values = v_shape[2], v_shape[3]
    deep, v_deep = (width + (L - 1)) // L * L, (values + (L - 1)) // L * L
    grain = max(1, SMALL // (length * s * (width + values)))
    for lo, hi in parallel(shape[0] * heads, grain):
        keys = array(T, COLUMNS * WIDEST)
        packed_values = array(T, COLUMNS * WIDEST)
        straight = array(T, COLUMNS * WIDEST)
        scaled = array(T, ROWS * WIDEST)
        queries = array(T, ROWS * WIDEST)
        given = array(T, ROWS * WIDEST)
        scores = array(T, ROWS * COLUMNS)
        slopes = array(T, ROWS * COLUMNS)
        for z in range(lo, hi):
            n, h = z // heads, z % heads
            g_at, g_step = head_of(g, n, h, T)
            q_at, q_step = head_of(q, n, h, T)
            k_at, k_step = head_of(k, n, h, T)
            v_at, v_step = head_of(v, n, h, T)
            o_at, o_step = head_of(out, n, h, T)
            m_at, m_step = head_of(mask, n, h, T)
            gq_at, gq_step = head_of(gq, n, h, T)
            gk_at, gk_step = head_of(gk, n, h, T)
            gv_at, gv_step = head_of(gv, n, h, T)
            for j in range(0, s, COLUMNS):
                there = min(i64(COLUMNS), s - j)
                zeroed(gk_at + j * gk_step, gk_step, there, width, T=T, L=L)
                zeroed(gv_at + j * gv_step, gv_step, there, values, T=T, L=L)
                pack_keys(k_at + j * k_step, k_step, keys, there, width, deep, W=W, L=L)
                pack_keys(v_at + j * v_step, v_step, packed_values, there, values, v_deep, W=W, L=L)
                pack_rows(k_at + j * k_step, k_step, straight, there, width, W=W, L=L)
                for i in range(max(0, j - reach) // ROWS * ROWS, length, ROWS):
                    rows = min(i64(ROWS), length - i)
                    columns = min(there, i + rows - j + reach)
                    if columns > 0:
                        q_here, g_here = q_at + i * q_step, g_at + i * g_step
                        scaled_rows(q_here, q_step, scaled, rows, width, scale, L=L)
                        pack_rows(q_here, q_step, queries, rows, width, W=W, L=L)
                        pack_rows(g_here, g_step, given, rows, values, W=W, L=L)
                        above = j - reach - i  # rows that do not see the first key
                        seen_products(scaled, i64(WIDEST), keys, deep, scores, width, rows, columns,
                                      above, T=T, MR=MR, V=V, L=L)  # fmt: skip
                        seen_products(g_here, g_step, packed_values, v_deep, slopes, values, rows, columns,
                                      above, T=T, MR=MR, V=V, L=L)  # fmt: skip
                        slopes_of(scores, slopes, rows, columns, i, j, m_at + (i * m_step + j),
                                  m_step, sums + (z * length + i), means + (z * length + i), g_here, g_step,
                                  o_at + i * o_step, o_step, values, scale,
                                  reach, MASK=MASK, T=T, L=L)  # fmt: skip
                        side = i64(2 * MR) if columns + above > 1 else i64(COLUMNS)
                        w = i64(0)
                        while w < columns:  # keys, and the queries that see them
                            r, some_keys, at = max(i64(0), above + w), min(side, columns - w), j + w
                            here = r * COLUMNS + w
                            multiply_packed(scores + here, i64(1), i64(COLUMNS), given + r * W, rows,
                                     gv_at + at * gv_step, gv_step, rows - r, some_keys, values,
                                     i64(ADD), T=T, MR=MR, V=V, L=L)  # fmt: skip
                            multiply_packed(slopes + here, i64(1), i64(COLUMNS), queries + r * W, rows,
                                     gk_at + at * gk_step, gk_step, rows - r, some_keys, width,
                                     i64(ADD), T=T, MR=MR, V=V, L=L)  # fmt: skip
                            w += side
                        w = i64(0)
                        while w < rows:  # queries, and the keys that they see
                            some_rows = min(side, rows - w)
                            seen = min(columns, w + some_rows - above)
                            if seen > 0:
                                multiply_packed(slopes + w * COLUMNS, i64(COLUMNS), i64(1), straight, there,
                                         gq_at + (i + w) * gq_step, gq_step, seen, some_rows, width,
                                         i64(SET) if j == 0 else i64(ADD), T=T, MR=MR, V=V, L=L)  # fmt: skip
                            w += side


@routine
def zeroed(p, step, rows, width, T, L):
    """Rows of zeros."""
    for r in range(rows):
        for e in range(0, width, L):
            store(p + (r * step + e), splat(T(0), L), iota(i64, L) < width - e)


@routine(separate=True)
def slopes_of(scores, slopes, rows, columns, i, j, added, step, sums, means, g, g_step, out, o_step,
              values, scale, reach, MASK, T, L):  # fmt: skip
    """The weights P of a block of scores, and dS of dO Vᵀ, each in its place.

    `means` keeps the D of rows, times the scale, from the first block of keys on.
    """
    for first in range(0, rows, 2):
        real = [first, min(rows - 1, first + 1)]
        if j == 0:
            for r in unroll(2):
                at, by = g + real[r] * g_step, out + real[r] * o_step
                d = splat(T(0), L)
                for e in range(0, values, L):
                    d = d + load_line(at + e, values - e, L) * load_line(by + e, values - e, L)
                means[real[r]] = total(d) * scale
        sum = [sums[real[r]] for r in range(2)]
        mean = [means[real[r]] for r in range(2)]
        row = [scores + (first + r) * COLUMNS for r in range(2)]
        slope = [slopes + (first + r) * COLUMNS for r in range(2)]
        more = [(added + real[r] * step if MASK else None) for r in range(2)]
        see = [min(columns, i + real[r] - j + 1 + reach) for r in range(2)]
        whole = see[0] // L * L if see[0] > 0 else i64(0)  # the first row sees less
        for c in range(0, whole, L):
            for r in unroll(2):
                p = exp_down(with_mask(load(row[r] + c, L), c, see[r], more[r], L) - sum[r])
                store(row[r] + c, p)
                store(slope[r] + c, p * fma(load(slope[r] + c, L), scale, -mean[r]))
        edge = see[1] if see[1] > 0 else i64(0)
        edge = (edge + (L - 1)) // L * L
        for c in range(edge, columns, L):
            for r in unroll(2):
                store(row[r] + c, splat(T(0), L))
                store(slope[r] + c, splat(T(0), L))
        for c in range(whole, edge, L):
            for r in unroll(2):
                p = exp_down(with_mask(load(row[r] + c, L), c, see[r], more[r], L) - sum[r])
                p = seen_only(p, c, see[r], 0.0, L)
                d = p * fma(load(slope[r] + c, L), scale, -mean[r])
                store(row[r] + c, p)
                store(slope[r] + c, seen_only(d, c, see[r], 0.0, L))
