"""Convolutions in two dimensions where few products make a number: one channel for itself
(depthwise), a few channels in, or a few channels out.

The matrices of `conv.py` would be thin. Here vectors lie along lines of the output, and a tile is
`R` channels of LINES lines: every vector that is read of the input serves all lines and channels it
takes part in. The input's borders are masks, so nothing is copied. Places along a line are S apart
in the input (1 or 2), what a window reads D.
"""

from __future__ import annotations

from rushlight.compiler.kernel import kernel
from rushlight.compiler.language import (
    fma,
    inline,
    iota,
    load,
    parallel,
    shuffle,
    splat,
    store,
    total,
    unroll,
)
from rushlight.compiler.types import Ptr, i32, i64


def lines_read(lines: int, kh: int, s: int, d: int) -> list[int]:
    """The lines of the input that a tile reads, counted from the first."""
    return sorted({line * s + k * d for line in range(lines) for k in range(kh)})


def chains(sums: int, kw: int) -> int:
    """How many sums are kept for each: with few of them, an addition waits for the one before."""
    return 2 if sums <= 8 and kw > 1 else 1


@inline
def line_masks(first, width, S, L):
    """The masks for a vector of every S-th element from `first` on of a line of `width`."""
    return [
        (iota(i32, L) >= i32(0 - first - i * L)) & (iota(i32, L) < i32(width - first - i * L))
        for i in range(S)
    ]


@inline
def line_load(p, masks, S, L):
    """A vector of every S-th element from p on; what the masks leave out is 0."""
    parts = [load(p + i * L, L, masks[i]) for i in range(S)]
    return parts[0] if S == 1 else shuffle(parts[0], parts[1], [2 * i for i in range(L)])


@kernel
def few(
    R, LINES, V, KH, KW, S, D, FLIP, x: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T], plan: Ptr[i64]
):
    """y [N, groups, blocks * R, OH, OW] = x [N, groups, C, H, W] convolved with w, plus bias.

    `plan`: N * groups, groups, blocks, C, H, W, OH, OW, padding (2), steps of w for a group, a
    channel of y, a channel of x; grain. FLIP: the taps stand in reverse.
    """
    groups, blocks, channels = plan[1], plan[2], plan[3]
    height, width, oh_size, ow_size = plan[4], plan[5], plan[6], plan[7]
    down = (oh_size + (LINES - 1)) // LINES
    reach = lines_read(LINES, KH, S, D)
    CHAINS = chains(LINES * R * V, KW)
    for lo, hi in parallel(plan[0] * blocks * down, plan[13]):
        for t in range(lo, hi):
            first = t % down * LINES
            block, image = t // down % blocks, t // down // blocks
            top = first * S - plan[8]
            of_w = w + (image % groups * plan[10] + block * R * plan[11])
            to = y + (((image * blocks + block) * R * oh_size + first) * ow_size)
            of_bias = bias + (image % groups * blocks + block) * R
            for ow in range(0, ow_size, L * V):
                left = ow * S - plan[9]
                masks = [
                    [line_masks(left + (v * L * S + kw * D), width, S, L) for kw in range(KW)]
                    for v in range(V)
                ]
                sums = [
                    [[[splat(T(0), L) for _ in range(CHAINS)] for _ in range(V)] for _ in range(R)]
                    for _ in range(LINES)
                ]
                for c in range(channels):
                    source = x + ((image * channels + c) * height * width + left)
                    p = of_w + c * plan[12]
                    for row in unroll(reach):
                        ih = top + row
                        if (ih >= 0) & (ih < height):
                            line = source + ih * width
                            for kw in unroll(KW):
                                for v in unroll(V):
                                    a = line_load(line + (v * L * S + kw * D), masks[v][kw], S, L)
                                    for n in unroll(LINES):
                                        for kh in unroll(KH):
                                            if n * S + kh * D == row:
                                                tap = kh * KW + kw
                                                if FLIP:
                                                    tap = KH * KW - 1 - tap
                                                for r in unroll(R):
                                                    b = splat(p[r * plan[11] + tap], L)
                                                    chain = kw % CHAINS
                                                    sums[n][r][v][chain] = fma(
                                                        a, b, sums[n][r][v][chain]
                                                    )
                for n in unroll(LINES):
                    if first + n < oh_size:
                        for r in unroll(R):
                            for v in unroll(V):
                                mask = iota(i32, L) < i32(ow_size - ow - v * L)
                                at = to + ((r * oh_size + n) * ow_size + ow + v * L)
                                s = sums[n][r][v][0]
                                if CHAINS == 2:
                                    s = s + sums[n][r][v][1]
                                store(at, s + splat(of_bias[r], L), mask)


@kernel
def few_transposed(
    R, PAIRS, KH, KW, FLIP, g: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T], plan: Ptr[i64]
):
    """The transpose of a convolution with stride 2, of g [N, groups, C, GH, GW], plus bias, to
    y [N, groups, blocks * R, OH, OW]. Plan as for `few`.

    Lines and columns of y come in pairs, 2 a - padding and the next. Of a pair, the first meets the
    even taps, the second the odd ones: tap k at line a - k // 2 of g. A tile is PAIRS pairs of lines
    by L pairs of columns.
    """
    groups, blocks, channels = plan[1], plan[2], plan[3]
    height, width, oh_size, ow_size = plan[4], plan[5], plan[6], plan[7]
    upper, left_of = plan[8] // 2, plan[9] // 2
    pairs_down = (oh_size - 1 + plan[8]) // 2 - upper + 1
    pairs_across = (ow_size - 1 + plan[9]) // 2 - left_of + 1
    down = (pairs_down + (PAIRS - 1)) // PAIRS
    MH, MW = (KH + 1) // 2, (KW + 1) // 2
    for lo, hi in parallel(plan[0] * blocks * down, plan[13]):
        for t in range(lo, hi):
            first = t % down * PAIRS + upper
            block, image = t // down % blocks, t // down // blocks
            of_w = w + (image % groups * plan[10] + block * R * plan[11])
            to = y + (image * blocks + block) * R * oh_size * ow_size
            of_bias = bias + (image % groups * blocks + block) * R
            for b in range(0, pairs_across, L):
                left = b + left_of
                masks = [line_masks(left - m, width, 1, L) for m in range(MW)]
                sums = [
                    [[[splat(T(0), L) for _ in range(R)] for _ in range(2)] for _ in range(2)]
                    for _ in range(PAIRS)
                ]
                for c in range(channels):
                    source = g + ((image * channels + c) * height * width + left)
                    p = of_w + c * plan[12]
                    for row in unroll(range(1 - MH, PAIRS)):
                        gh = first + row
                        if (gh >= 0) & (gh < height):
                            line = source + gh * width
                            for m in unroll(MW):
                                a = line_load(line - m, masks[m], 1, L)
                                for n in unroll(PAIRS):
                                    for e in unroll(2):
                                        kh = 2 * (n - row) + e
                                        if 0 <= kh < KH:
                                            for f in unroll(2):
                                                if 2 * m + f < KW:
                                                    tap = kh * KW + 2 * m + f
                                                    if FLIP:
                                                        tap = KH * KW - 1 - tap
                                                    for r in unroll(R):
                                                        x = splat(p[r * plan[11] + tap], L)
                                                        sums[n][e][f][r] = fma(
                                                            a, x, sums[n][e][f][r]
                                                        )
                column = 2 * left - plan[9]
                halves = [[L * (i % 2) + (h * L + i) // 2 for i in range(L)] for h in range(2)]
                mask = [
                    (iota(i32, L) >= i32(0 - column - h * L))
                    & (iota(i32, L) < i32(ow_size - column - h * L))
                    for h in range(2)
                ]
                for n in unroll(PAIRS):
                    for e in unroll(2):
                        oh = 2 * (first + n) + e - plan[8]
                        if (oh >= 0) & (oh < oh_size):
                            for r in unroll(R):
                                for h in unroll(2):
                                    pair = shuffle(sums[n][e][0][r], sums[n][e][1][r], halves[h])
                                    at = to + ((r * oh_size + oh) * ow_size + column + h * L)
                                    store(at, pair + splat(of_bias[r], L), mask[h])


@kernel
def few_weight(R, V, KH, KW, S, D, x: Ptr[T], g: Ptr[T], y: Ptr[T], plan: Ptr[i64]):
    """The gradient of a weight: y [groups, R, C, KH, KW] from x [N, groups, C, H, W] and
    g [N, groups, R, OH, OW]. Plan as for `few`, but the first number is N.

    Lines of the kernel are taken together as far as their sums fit in registers.
    """
    groups, channels = plan[1], plan[3]
    height, width, oh_size, ow_size = plan[4], plan[5], plan[6], plan[7]
    together = max(1, min(KH, 24 // (R * KW * V)))
    for lo, hi in parallel(groups * channels, plan[13]):
        for t in range(lo, hi):
            group, c = t // channels, t % channels
            for first in unroll(range(0, KH, together)):
                lines = range(first, min(first + together, KH))
                sums = [
                    [[[splat(T(0), L) for _ in range(V)] for _ in range(KW)] for _ in lines]
                    for _ in range(R)
                ]
                for n in range(plan[0]):
                    source = x + (n * groups * channels + t) * height * width
                    of_g = g + (n * groups + group) * R * oh_size * ow_size
                    for ow in range(0, ow_size, L * V):
                        left = ow * S - plan[9]
                        masks = [
                            [
                                line_masks(left + (v * L * S + kw * D), width, S, L)
                                for kw in range(KW)
                            ]
                            for v in range(V)
                        ]
                        mask = [iota(i32, L) < i32(ow_size - ow - v * L) for v in range(V)]
                        for oh in range(oh_size):
                            gs = [
                                [
                                    load(
                                        of_g + ((r * oh_size + oh) * ow_size + ow + v * L),
                                        L,
                                        mask[v],
                                    )
                                    for v in range(V)
                                ]
                                for r in range(R)
                            ]
                            for kh in unroll(lines):
                                ih = oh * S - plan[8] + kh * D
                                if (ih >= 0) & (ih < height):
                                    line = source + (ih * width + left)
                                    for kw in unroll(KW):
                                        for v in unroll(V):
                                            a = line_load(
                                                line + (v * L * S + kw * D), masks[v][kw], S, L
                                            )
                                            for r in unroll(R):
                                                s = sums[r][kh - first][kw][v]
                                                sums[r][kh - first][kw][v] = fma(a, gs[r][v], s)
                for r in unroll(R):
                    for kh in unroll(lines):
                        for kw in unroll(KW):
                            s = sums[r][kh - first][kw][0]
                            for v in unroll(range(1, V)):
                                s = s + sums[r][kh - first][kw][v]
                            tap = ((group * R + r) * channels + c) * (KH * KW) + kh * KW + kw
                            y[tap] = total(s)


@inline
def is_inside(top, left, height, width, KH, KW, dh, dw):
    """Whether a window that begins there lies within the input."""
    inside = (top >= 0) & (top + (KH - 1) * dh < height)
    return inside & (left >= 0) & (left + (KW - 1) * dw < width)


@kernel
def channels(KH, KW, x: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T], plan: Ptr[i64]):
    """Depthwise, with channels innermost: y [N, OH, OW, C] from x [N, H, W, C] and w [KH, KW, C].

    `plan`: N, C, H, W, OH, OW, then stride, padding and dilation (2 each).
    """
    c_size, height, width, oh_size, ow_size = plan[1], plan[2], plan[3], plan[4], plan[5]
    down, across = plan[10] * width * c_size, plan[11] * c_size
    for lo, hi in parallel(plan[0] * oh_size, max(65536 // (ow_size * c_size * KH * KW), i64(1))):
        for t in range(lo, hi):
            top = t % oh_size * plan[6] - plan[8]
            for c in range(0, c_size, L):
                mask = iota(i32, L) < i32(c_size - c)
                ws = [load(w + (tap * c_size + c), L, mask) for tap in range(KH * KW)]
                b = load(bias + c, L, mask)
                line = x + ((t // oh_size * height + top) * width * c_size + c)
                for ow in range(ow_size):
                    left = ow * plan[7] - plan[9]
                    p = line + left * c_size
                    sums = [b, splat(T(0), L)]
                    if is_inside(top, left, height, width, KH, KW, plan[10], plan[11]):
                        for tap in unroll(KH * KW):
                            a = load(p + (tap // KW * down + tap % KW * across), L, mask)
                            sums[tap % 2] = fma(a, ws[tap], sums[tap % 2])
                    else:
                        for tap in unroll(KH * KW):
                            kh, kw = tap // KW * plan[10], tap % KW * plan[11]
                            if is_inside(top + kh, left + kw, height, width, 1, 1, 1, 1):
                                a = load(p + (tap // KW * down + tap % KW * across), L, mask)
                                sums[tap % 2] = fma(a, ws[tap], sums[tap % 2])
                    store(y + ((t * ow_size + ow) * c_size + c), sums[0] + sums[1], mask)


@kernel
def channels_weight(KH, KW, x: Ptr[T], g: Ptr[T], y: Ptr[T], plan: Ptr[i64]):
    """The gradient of the weight of `channels`: y [blocks, KH, KW, L] for blocks of L channels."""
    c_size, height, width, oh_size, ow_size = plan[1], plan[2], plan[3], plan[4], plan[5]
    down, across = plan[10] * width * c_size, plan[11] * c_size
    for lo, hi in parallel((c_size + (L - 1)) // L, 1):
        for block in range(lo, hi):
            c = block * L
            mask = iota(i32, L) < i32(c_size - c)
            sums = [splat(T(0), L) for _ in range(KH * KW)]
            for t in range(plan[0] * oh_size):
                top = t % oh_size * plan[6] - plan[8]
                line = x + ((t // oh_size * height + top) * width * c_size + c)
                for ow in range(ow_size):
                    left = ow * plan[7] - plan[9]
                    p = line + left * c_size
                    a = load(g + ((t * ow_size + ow) * c_size + c), L, mask)
                    if is_inside(top, left, height, width, KH, KW, plan[10], plan[11]):
                        for tap in unroll(KH * KW):
                            b = load(p + (tap // KW * down + tap % KW * across), L, mask)
                            sums[tap] = fma(a, b, sums[tap])
                    else:
                        for tap in unroll(KH * KW):
                            kh, kw = tap // KW * plan[10], tap % KW * plan[11]
                            if is_inside(top + kh, left + kw, height, width, 1, 1, 1, 1):
                                b = load(p + (tap // KW * down + tap % KW * across), L, mask)
                                sums[tap] = fma(a, b, sums[tap])
            for tap in unroll(KH * KW):
                store(y + (block * KH * KW + tap) * L, sums[tap])
