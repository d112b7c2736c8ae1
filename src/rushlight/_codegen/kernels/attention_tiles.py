"""`attention` of bfloat16 in tiles of registers (AMX): the products are those of `tiles.py`, all else is as in float32.

A block of SIDE queries meets one block of keys after the other. The weights are rounded to bfloat16 for their product with
the values; sums stay in float32.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import math
from rushlight._codegen.kernels.attention import KEYS, WIDEST, head_of, softmax_of
from rushlight._codegen.kernels.gemm import (
    load_line,
    pack_columns,
    rounded_up,
    rows_of_tiles,
    store_line,
)
from rushlight._codegen.kernels.tiles import DEEP, SIDE, configure, multiply, tilerelease
from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, bf16, f32, i32, i64, u16

SMALL = 1 << 21  # products that are worth a chunk


@routine(separate=True, quick=True)
def pack_keys(k, step, to, keys, width, L):
    """Keys [keys, width] of pairs as panels of their transpose: SIDE keys side by side, below them zeros up to whole tiles."""
    deep = rounded_up(width, DEEP)
    for j in range(0, keys, SIDE):
        panel = to + j * deep
        for e in range(width * SIDE, deep * SIDE, L):
            store(panel + e, splat(i32(0), L))
        pack_columns(k + j * step, step, panel, width, min(keys - j, i64(SIDE)), W=SIDE, L=L)


@routine(separate=True, quick=True)
def pair_values(v, step, to, keys, values, L):
    """Rows [keys, values] as panels of SIDE values, of pairs of rows; behind the last row are zeros up to whole tiles."""
    for j in range(0, rounded_up(keys, SIDE), 2):
        upper, lower = v + min(keys - 1, i64(j)) * step, v + min(keys - 1, i64(j + 1)) * step
        above = values if j < keys else i64(0)
        below = values if j + 1 < keys else i64(0)
        for e in range(0, values, L):
            a = load(upper + e, L, iota(i32, L) < i32(above - e))
            b = load(lower + e, L, iota(i32, L) < i32(below - e))
            there = to + (e // SIDE * (KEYS // 2 * SIDE) + j // 2 * SIDE + e % SIDE)
            store(there, i32(a) | (i32(b) << splat(i32(16), L)))


@routine(separate=True, quick=True)
def add_scaled(sums, to, step, rows, left, scale, begin, L):
    """Rows of SIDE sums times `scale` are set (with `begin` 0: added) to rows `step` apart, as far as `left` columns."""
    for r in range(rows):
        for v in unroll(SIDE // L):
            if left > v * L:
                there = to + (r * step + v * L)
                s = load(sums + (r * SIDE + v * L), L) * scale
                if begin == 0:
                    s = s + load_line(there, left - v * L, L)
                store_line(there, s, left - v * L, L)


@kernel(quick=True)
def attention(
    MASK, q: Header, k: Header, v: Header, mask: Header, out: Header, tops: Ptr[f32], sums: Ptr[f32], scale: f32,
    reach: i64, down: i64, L,
):  # fmt: skip
    """As `attention.attention`, for q, k, v of bfloat16, whose strides and width are even, and `out` of float32."""
    shape = bits(q[abi.SHAPE], Ptr[i64])
    heads, length, width = shape[1], shape[2], shape[3] // 2
    v_shape = bits(v[abi.SHAPE], Ptr[i64])
    s, values = v_shape[2], v_shape[3]
    sharing = heads // v_shape[1]
    deep = rounded_up(width, DEEP)
    height = (length + (down - 1)) // down
    for lo, hi in parallel(
        shape[0] * heads * down, max(1, SMALL // (height * s * (2 * width + values)))
    ):
        configure()
        keys, paired = array(i32, KEYS * WIDEST // 2), array(i32, KEYS // 2 * WIDEST)
        queries, weights = array(i32, SIDE * WIDEST // 2), array(i32, SIDE * KEYS // 2)
        scores, own = array(f32, SIDE * KEYS), array(f32, SIDE * SIDE)
        for t in range(lo, hi):
            z = t // down
            n, h = z // heads, z % heads
            first = t % down * height
            last = min(length, first + height)
            q_at, q_step = head_of(q, n, h, i32)
            k_at, k_step = head_of(k, n, h // sharing, i32)
            v_at, v_step = head_of(v, n, h // sharing, u16)
            o_at, o_step = head_of(out, n, h, f32)
            m_at, m_step = head_of(mask, n, h, f32)
            top, sum = tops + z * length, sums + z * length
            seen = min(s, last + reach)
            for j in range(0, seen, KEYS):
                there = min(i64(KEYS), seen - j)
                pack_keys(k_at + j * k_step, k_step, keys, there, width, L=L)
                pair_values(v_at + j * v_step, v_step, paired, there, values, L=L)
                for i in range(first, last, SIDE):
                    rows = min(i64(SIDE), last - i)
                    columns = min(there, i + rows - j + reach)
                    if columns > 0:
                        rows_of_tiles(
                            q_at + i * q_step, q_step, i64(1), queries, width, rows, deep, L=L
                        )
                        for c in range(0, columns, SIDE):
                            multiply(queries, deep, keys + c * deep, own, deep)
                            add_scaled(
                                own, scores + c, i64(KEYS), rows, i64(SIDE), scale, i64(1), L=L
                            )
                        softmax_of(scores, rows, columns, i, j, m_at + (i * m_step + j), m_step, top + i, sum + i,
                                   o_at + i * o_step, o_step, values, reach, MASK=MASK, T=f32, L=L)  # fmt: skip
                        for r in range(rows):
                            for c in range(0, rounded_up(columns, SIDE), L):
                                store(bits(weights, Ptr[bf16]) + (r * KEYS + c),
                                      load_line(scores + (r * KEYS + c), columns - c, L))  # fmt: skip
                        for e in range(0, values, SIDE):
                            multiply(weights, i64(KEYS // 2), paired + e // SIDE * (KEYS // 2 * SIDE), own,
                                     rounded_up(columns, SIDE) // 2)  # fmt: skip
                            add_scaled(own, o_at + (i * o_step + e), o_step, rows, values - e, f32(1),
                                       i64(1) if j == 0 else i64(0), L=L)  # fmt: skip
            for i in range(first, last):
                l = sum[i]
                by = 1 / (l if l != 0 else f32(1))
                to = o_at + i * o_step
                for e in range(0, values, L):
                    store_line(to + e, load_line(to + e, values - e, L) * by, values - e, L)
                sum[i] = top[i] + math.log(l) if l != 0 else f32(float("inf"))
        tilerelease()
