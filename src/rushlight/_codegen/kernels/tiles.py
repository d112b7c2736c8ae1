"""Tiles of registers that multiply matrices of bfloat16: AMX of x86-64.

A tile is 16 rows of 64 bytes. One instruction adds to a tile of 16 x 16 sums, in float32, what 16 rows of 16 pairs of
numbers make with 16 pairs of rows of 16 numbers. (Intel, "Architecture Instruction Set Extensions Programming
Reference", chapter "Intel AMX Instruction Set Reference".) Linux lets a process use tiles when it asks for that.
"""

from __future__ import annotations

from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f32, i8, i32, i64, u8

SIDE = 32  # rows and columns of what is summed up at a time, in four tiles
DEEP = 16  # pairs that a tile of a factor holds for each of its rows or columns
ARCH_PRCTL, REQUEST, TILE_DATA = 158, 0x1023, 18  # of Linux: a system call, and what it asks for

syscall = external("syscall", i64, i64, i64, i64)
ldtilecfg = external("llvm.x86.ldtilecfg", None, Ptr[u8])
tilerelease = external("llvm.x86.tilerelease", None)
tilezero = external("llvm.x86.tilezero", None, i8)
tileloadd = external("llvm.x86.tileloadd64", None, i8, Ptr[i32], i64)
tilestored = external("llvm.x86.tilestored64", None, i8, Ptr[f32], i64)
tdpbf16ps = external("llvm.x86.tdpbf16ps", None, i8, i8, i8)


@inline
def configure():
    """Let this thread use eight whole tiles, until `tilerelease`."""
    syscall(ARCH_PRCTL, REQUEST, TILE_DATA)
    config = array(u8, 64)
    for i in range(64):
        config[i] = u8(0)
    config[0] = u8(1)  # the only way to divide the registers so far
    for i in range(8):
        config[16 + 2 * i] = u8(64)  # bytes of a row
        config[48 + i] = u8(DEEP)  # rows
    ldtilecfg(config)


@inline
def clear():
    """Begin with sums of zero."""
    for t in unroll(4):
        tilezero(t)


@inline
def resume(sums):
    """Begin with the sums [SIDE, SIDE] that `put` stored."""
    for t in unroll(4):
        tileloadd(t, bits(sums, Ptr[i32]) + (t // 2 * DEEP * SIDE + t % 2 * DEEP), i64(4 * SIDE))


@inline
def accumulate(upper, lower, step, b, k, across=DEEP):
    """Add A [SIDE, k] @ B [k, SIDE] of pairs to the sums: the rows of A's upper and lower half are `step` pairs apart, DEEP of
    its columns `across` from the next; rows of B are beside each other; k is a multiple of DEEP."""
    at = i64(0)
    for p in range(0, k, DEEP):
        tileloadd(4, upper + at, step * 4)
        tileloadd(5, lower + at, step * 4)
        tileloadd(6, b + p * SIDE, i64(4 * SIDE))
        tileloadd(7, b + (p * SIDE + DEEP), i64(4 * SIDE))
        for t in unroll(4):
            tdpbf16ps(t, 4 + t // 2, 6 + t % 2)
        at += across


@inline
def put(sums):
    """The sums [SIDE, SIDE] to memory."""
    for t in unroll(4):
        tilestored(t, sums + (t // 2 * DEEP * SIDE + t % 2 * DEEP), i64(4 * SIDE))


@inline
def multiply(a, step, b, sums, k):
    """sums [SIDE, SIDE] = A [SIDE, k] @ B [k, SIDE], as `accumulate` says."""
    clear()
    accumulate(a, a + DEEP * step, step, b, k)
    put(sums)


@routine
def put_rows(sums, to, step, rows, L, row=None):
    """Rows of SIDE sums, plus `row`, to rows `step` apart, rounded to their type."""
    for v in unroll(SIDE // L):
        for r in range(rows):
            s = load(sums + (r * SIDE + v * L), L)
            if row is not None:
                s = s + load(row + v * L, L)
            store(to + (r * step + v * L), s)
