"""Convolutions of bfloat16 in tiles of registers (AMX): the products of `conv.py`, by the instructions of `tiles.py`.

The channels that are summed over lie beside each other in memory, in pairs, so that a window is a few runs of pairs.
Of some places at a time the windows are written down as rows, all runs one after the other, in memory that stays in
the second-level cache; each block of SIDE output channels is multiplied with them there.

A plan is as that of `conv.py`, with another end: for each phase the number of its blocks, for each of these how many
pairs it has, how many runs, and of each run where it begins in the window, where in the weights, and its length.
"""

from __future__ import annotations

from rushlight._codegen.conv_plan import Plan
from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.conv import LINE, list_places, write_places
from rushlight._codegen.kernels.gemm import load_line, pack_columns, rounded_up, store_line
from rushlight._codegen.kernels.tiles import (
    DEEP,
    SIDE,
    accumulate,
    clear,
    configure,
    put,
    resume,
    tilerelease,
)
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f32, i32, i64, u16

DEPTH = 512  # pairs of a block
PLACES = 256  # of a chunk: windows of 512 KiB
SPAN = 8  # blocks of output channels of a chunk: sums of 256 KiB
COLUMNS = 128  # weights: pairs of a window whose gradients are summed together,
SUMMED = 512  # over so many places at a time


@inline
def next_block(window):
    """Where the next block of a window, or the next phase, is described."""
    return window + (2 + 3 * window[1])


@routine(separate=True, quick=True)
def read_windows(x, at, count, window, to, wide, L):
    """What the windows at `count` places read, as rows of `wide` pairs; behind the runs are zeros. Writes up to L pairs behind
    the last row."""
    for r in range(count):
        row, run = to + r * wide, window + 2
        store(row + (wide - L), splat(i32(0), L))
        for _run in range(window[1]):
            source, n = x + (at[r] + run[0]), run[2]
            for j in range(0, n, L):
                store(row + j, load_line(source + j, n - j, L))
            row = row + n
            run = run + 3


@routine(separate=True, quick=True)
def add_rows(sums, to, at, count, begin, L):
    """Rows of SIDE sums are set to (with `begin` 0: added to) what stands at `to` + at."""
    for r in range(count):
        p = to + at[r]
        for v in unroll(SIDE // L):
            s = load(sums + (r * SIDE + v * L), L)
            if begin == 0:
                s = s + load(p + v * L, L)
            store(p + v * L, s)


@inline
def in_line(at, i, count, step):
    """How many of the places from i on, at most DEEP, are `step` apart."""
    n, most = i64(1), min(count - i, i64(DEEP))
    while (n < most) & (at[i + min(n, most - 1)] - at[i] == n * step):
        n += 1
    return n


@routine(separate=True, quick=True)
def multiply_places(x, at, to, count, window, panel, rows, own, sums_at, blocks, begin, plan, L):
    """The windows at `count` places times panels of so many blocks of channels, to or onto sums.

    Where whole tiles of places are beside each other they are read where they lie, else from `rows`.
    """
    wide, step = rounded_up(window[0], DEEP), plan[Plan.TIMES + 2] * plan[Plan.X_STEP + 2]
    i = i64(0)
    while i < count:
        upper = in_line(at, i, count, step)
        lower = i64(0)
        if i + upper < count:
            lower = in_line(at, i + upper, count, step)
        beside = (upper + lower >= SIDE * 3 // 4) & (at[i + upper - 1 + lower] <= plan[Plan.DEEP])
        if not beside:
            upper = min(count - i, i64(DEEP))
            lower = min(count - i - upper, i64(DEEP))
            read_windows(x, at + i, upper + lower, window, rows, wide, L=L)
        for b in range(blocks):
            source = panel + b * plan[Plan.ROOM] * SIDE
            clear()
            if beside:
                run = window + 2
                for _run in range(window[1]):
                    first = x + run[0]
                    accumulate(first + at[i], first + at[i + upper], step, source, run[2])
                    source = source + run[2] * SIDE
                    run = run + 3
            else:
                accumulate(rows, rows + DEEP * wide, wide, source, wide)
            put(own)
            sums = sums_at + b * (PLACES + L) * SIDE
            add_rows(own, sums, to + i, upper, begin, L=L)
            add_rows(own + DEEP * SIDE, sums, to + (i + upper), lower, begin, L=L)
        i += upper + lower


@routine(separate=True, quick=True)
def pair_channels(w, to, first, count, half, taps, lanes, left, L):
    """Rows of a panel, from `first` on of those of all taps, the last first, and of `half` pairs of channels: of weights
    [channels, taps, lanes] of bfloat16."""
    for r in range(count):
        tap, o = taps - 1 - (first + r) // half, (first + r) % half * 2
        upper = bits(w, Ptr[u16]) + (o * taps + tap) * lanes
        for v in unroll(SIDE // L):
            mask = iota(i32, L) < i32(left - v * L)
            a, b = load(upper + v * L, L, mask), load(upper + (taps * lanes + v * L), L, mask)
            store(to + (r * SIDE + v * L), i32(a) | (i32(b) << splat(i32(16), L)))


@kernel(quick=True)
def panels(TURNED, w: Ptr[i32], y: Ptr[i32], plan: Ptr[i64], L):
    """The weights as `convolve` reads them: of each block of channels of the result the blocks of all windows, rows of SIDE
    pairs. They come as [channels of the result, plan[TAPS] pairs]; TURNED, for the transpose, as those of a convolution whose
    channels of the input, which are these, are innermost."""
    lanes, blocks, size = plan[Plan.LANES], plan[Plan.BLOCKS], plan[Plan.TAPS]
    half = plan[Plan.X_GROUP]
    for lo, hi in parallel(plan[Plan.GROUPS] * blocks, max(65536 // (size * SIDE), i64(1))):
        for b in range(lo, hi):
            group, o = b // blocks, b % blocks * SIDE
            left = min(lanes - o, i64(SIDE))
            source = w + (group * lanes + o) * size
            if TURNED:
                source = bits(bits(w, Ptr[u16]) + (group * (2 * size) * lanes + o), Ptr[i32])
            to, window = y + b * plan[Plan.ROOM] * SIDE, plan + Plan.PHASES
            for _phase in range(plan[Plan.OVER] * plan[Plan.OVER + 1] * plan[Plan.OVER + 2]):
                count = window[0]
                window = window + 1
                for _block in range(count):
                    run, end = window + 2, to + rounded_up(window[0], DEEP) * SIDE
                    for j in range(window[0] * SIDE, rounded_up(window[0], DEEP) * SIDE, L):
                        store(to + j, splat(i32(0), L))
                    for _run in range(window[1]):
                        if TURNED:
                            pair_channels(
                                source, to, run[1], run[2], half, size // half, lanes, left, L=L
                            )
                        else:
                            pack_columns(source + run[1], size, to, run[2], left, W=SIDE, L=L)
                        to = to + run[2] * SIDE
                        run = run + 3
                    to = end
                    window = next_block(window)


@kernel(quick=True)
def convolve(x: Ptr[i32], w: Ptr[i32], bias: Ptr[E], y: Ptr[E], plan: Ptr[i64]):
    """y = x convolved with w, which are `panels`, plus bias, as `plan` says."""
    for lo, hi in parallel(plan[Plan.CHUNKS], plan[Plan.GRAIN]):
        configure()
        rows, own = array(i32, SIDE * (max(DEPTH, LINE) + L)), array(f32, SIDE * SIDE)
        sums_at = array(f32, (PLACES + L) * SIDE * SPAN)
        at, to = array(i64, PLACES), array(i64, PLACES)
        for t in range(lo, hi):
            blocks, lanes, spans = plan[Plan.BLOCKS], plan[Plan.LANES], plan[Plan.SPLITS]
            group, rest = t % plan[Plan.GROUPS], t // plan[Plan.GROUPS]
            begin = rest % spans * plan[Plan.SPLIT]
            end = min(begin + plan[Plan.SPLIT], blocks)
            first = rest // spans * plan[Plan.SIZE]
            last = min(first + plan[Plan.SIZE], plan[Plan.PLACES])
            of_x = x + group * plan[Plan.X_GROUP]
            window, panel = plan + Plan.PHASES, w + group * blocks * plan[Plan.ROOM] * SIDE
            for fd in range(plan[Plan.OVER]):
                for fh in range(plan[Plan.OVER + 1]):
                    for fw in range(plan[Plan.OVER + 2]):
                        count = list_places(plan, at, to, first, last, fd, fh, fw, W=SIDE)
                        parts = window[0]
                        window = window + 1
                        if parts == 0:
                            for e in range(SIDE * SIDE):
                                own[e] = f32(0)
                            for b in range(begin, end):
                                for i in range(0, count, SIDE):
                                    add_rows(own, sums_at + (b - begin) * (PLACES + L) * SIDE, to + i,
                                             min(count - i, SIDE), i64(1), L=L)  # fmt: skip
                        for part in range(parts):
                            wide = rounded_up(window[0], DEEP)
                            multiply_places(of_x, at, to, count, window, panel + begin * plan[Plan.ROOM] * SIDE, rows, own,
                                            sums_at, end - begin, i64(1) if part == 0 else i64(0), plan, L=L)  # fmt: skip
                            panel = panel + wide * SIDE
                            window = next_block(window)
            for b in range(begin, end):
                o = group * lanes + b * SIDE
                write_places(sums_at + (b - begin) * (PLACES + L) * SIDE, bits(rows, Ptr[f32]),
                             y + o * plan[Plan.Y_CHANNEL], plan, first, last,
                             min(lanes - b * SIDE, i64(SIDE)), bias + o, E=E, L=L)  # fmt: skip
        tilerelease()


@routine(separate=True, quick=True)
def pair_windows(x, at, count, window, to, L):
    """What windows read at `count` places as panels of pairs of places, of 2 L columns each: L even ones, then L odd ones.
    Runs are whole vectors; behind the last place are zeros."""
    low = splat(i32(0xFFFF), L)
    for p in range(0, rounded_up(count, SIDE), 2):
        upper, lower = x + at[min(i64(p), count - 1)], x + at[min(i64(p + 1), count - 1)]
        above = splat(i32(-1) if p < count else i32(0), L)
        below = splat(i32(-1) if p + 1 < count else i32(0), L)
        there, run = to + p // 2 * SIDE, window + 2
        for _run in range(window[1]):
            for j in range(run[0], run[0] + run[2], L):
                a, b = load(upper + j, L) & above, load(lower + j, L) & below
                store(there, (a & low) | (b << splat(i32(16), L)))
                store(there + L, ((a >> splat(i32(16), L)) & low) | (b & ~low))
                there = there + SUMMED // 2 * SIDE
            run = run + 3


@routine(separate=True, quick=True)
def write_weights(sums, y, step, rows, left, L):
    """Rows of L sums of even columns and L of odd ones go to y, whose rows are `step` apart, as far as `left` columns."""
    for r in range(rows):
        even, odd = load(sums + r * SIDE, L), load(sums + (r * SIDE + L), L)
        for h in unroll(2):
            zipped = shuffle(even, odd, [L * (i % 2) + (h * L + i) // 2 for i in range(L)])
            if left > h * L:
                store_line(y + (r * step + h * L), zipped, left - h * L, L)


@kernel(quick=True)
def convolve_weight(x: Ptr[i32], g: Ptr[i32], y: Ptr[E], parts: Ptr[f32], plan: Ptr[i64]):
    """y [O, K] = the sums over all places of g times what the windows read of x: of g [places / SIDE, O, DEEP pairs of places].

    Where the places are summed in parts, `parts` has room for a result of each.
    """
    lanes, size = plan[Plan.LANES], plan[Plan.TAPS] * 2
    whole = plan[Plan.GROUPS] * lanes * size
    for lo, hi in parallel(plan[Plan.CHUNKS], plan[Plan.GRAIN]):
        configure()
        rows = array(i32, SUMMED * COLUMNS + L)
        paired, line, one = array(i32, SUMMED * COLUMNS), array(i64, SUMMED), array(i64, 5)
        sums_at = array(f32, SPAN * SIDE * COLUMNS * 2)
        at, to = array(i64, SUMMED), array(i64, SUMMED)
        for t in range(lo, hi):
            group, rest = t % plan[Plan.GROUPS], t // plan[Plan.GROUPS]
            begin = rest % plan[Plan.BLOCKS] * (SPAN * SIDE)
            end, rest = min(begin + SPAN * SIDE, lanes), rest // plan[Plan.BLOCKS]
            pieces = plan[Plan.PHASES]
            window, part = plan + plan[Plan.PHASES + 1 + rest % pieces], rest // pieces
            first = part * plan[Plan.SPLIT]
            last = min(first + plan[Plan.SPLIT], plan[Plan.PLACES])
            wide, of_g = rounded_up(window[0], DEEP), g + group * lanes * DEEP
            of_x = x + group * plan[Plan.X_GROUP]
            for p in range(first, last, SUMMED):
                zero, count = i64(0), min(last - p, i64(SUMMED))
                list_places(plan, at, to, p, p + count, zero, zero, zero, W=SIDE)
                if plan[Plan.DEEP] >= 0:
                    pair_windows(of_x, at, count, window, paired, L=L)
                else:
                    read_windows(of_x, at, count, window, rows, wide, L=L)
                    one[1], one[2], one[4] = i64(1), i64(0), wide
                    for r in range(count):
                        line[r] = r * wide
                    pair_windows(rows, line, count, one, paired, L=L)
                for o in range(begin, end, SIDE):
                    upper = of_g + (p // SIDE * plan[Plan.ROOM] + o * DEEP)
                    for j in range(0, wide, L):
                        sums = sums_at + ((o - begin) * COLUMNS * 2 + j // L * (SIDE * SIDE))
                        if p == first:
                            clear()
                        else:
                            resume(sums)
                        accumulate(upper, upper + DEEP * DEEP, i64(DEEP), paired + j // L * (SUMMED // 2 * SIDE),
                                   rounded_up(count, SIDE) // 2, plan[Plan.ROOM])  # fmt: skip
                        put(sums)
            for o in range(begin, end, SIDE):
                for j in range(0, window[0], L):
                    sums = sums_at + ((o - begin) * COLUMNS * 2 + j // L * (SIDE * SIDE))
                    there, left = (
                        (group * lanes + o) * size + (window[3] + j) * 2,
                        2 * (window[0] - j),
                    )
                    if plan[Plan.SPLITS] == 1:
                        write_weights(sums, y + there, size, min(end - o, i64(SIDE)), left, L=L)
                    else:
                        write_weights(
                            sums,
                            parts + (part * whole + there),
                            size,
                            min(end - o, i64(SIDE)),
                            left,
                            L=L,
                        )
        tilerelease()
    if plan[Plan.SPLITS] > 1:
        for lo, hi in parallel((whole + L - 1) // L, 1024):
            for i in range(lo, hi):
                mask = iota(i64, L) < whole - i * L
                s = load(parts + i * L, L, mask)
                for part in range(1, plan[Plan.SPLITS]):
                    s = s + load(parts + (part * whole + i * L), L, mask)
                store(y + i * L, s, mask)
