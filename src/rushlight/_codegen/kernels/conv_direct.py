"""Convolutions in two dimensions where few products make a number: one channel for itself
(depthwise), a few channels in, or a few channels out.

The matrices of `conv.py` would be thin. Here vectors lie along lines of the output, and a tile is
`R` channels of LINES lines: every vector that is read of the input serves all lines and channels it
takes part in. The input's borders are masks, so nothing is copied. Places along a line are S apart
in the input (1 or 2), what a window reads D.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import (
    fma,
    inline,
    iota,
    lanes,
    lanesof,
    load,
    parallel,
    prefetch,
    shuffle,
    splat,
    store,
    total,
    unroll,
)
from rushlight._codegen.types import Ptr, i32, i64


def lines_read(lines: int, kh: int, s: int, d: int) -> list[int]:
    """The lines of the input that a tile reads, counted from the first."""
    return sorted({line * s + k * d for line in range(lines) for k in range(kh)})


def meetings(row: int, lines: int, kh: int, s: int, d: int) -> list[tuple[int, int]]:
    """The lines of a tile and the taps by which they meet a line of the input."""
    return [(n, k) for n in range(lines) for k in range(kh) if n * s + k * d == row]


POSITIONS = 7  # of a line that `depthwise` computes together


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
def store_line(p, v, left, L):
    """As far as `left` elements. Without AVX-512 to store by a mask takes as long as ten stores."""
    if left >= L:
        store(p, v)
    else:
        store(p, v, iota(i32, L) < i32(left))


@inline
def line_load(p, masks, S, L):
    """A vector of every S-th element from p on; what the masks leave out is 0."""
    parts = [load(p + i * L, L, masks[i]) for i in range(S)]
    return parts[0] if S == 1 else shuffle(parts[0], parts[1], [2 * i for i in range(L)])


@kernel(quick=True)
def direct(
    R, LINES, V, KH, KW, S, D, FLIP, x: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T], plan: Ptr[i64]
):
    """y [N, groups, blocks * R, OH, OW] = x [N, groups, C, H, W] convolved with w, plus bias.

    `plan`: N * groups, groups, blocks, C, H, W, OH, OW, padding (2), steps of w for a group, a
    channel of y, a channel of x; grain. FLIP: the taps stand in reverse.
    """
    groups, blocks, channels = plan[1], plan[2], plan[3]
    height, width, oh_size, ow_size = plan[4], plan[5], plan[6], plan[7]
    step = plan[11]
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
                                a = [
                                    line_load(line + (v * L * S + kw * D), masks[v][kw], S, L)
                                    for v in range(V)
                                ]
                                for n, kh in unroll(meetings(row, LINES, KH, S, D)):
                                    tap = kh * KW + kw
                                    if FLIP:
                                        tap = KH * KW - 1 - tap
                                    for r in unroll(R):
                                        b = splat(p[r * step + tap], L)
                                        for v in unroll(V):
                                            chain = kw % CHAINS
                                            sums[n][r][v][chain] = fma(
                                                a[v], b, sums[n][r][v][chain]
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


@kernel(quick=True)
def direct_transposed(
    R, PAIRS, KH, KW, FLIP, g: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T], plan: Ptr[i64]
):
    """The transpose of a convolution with stride 2, of g [N, groups, C, GH, GW], plus bias, to
    y [N, groups, blocks * R, OH, OW]. Plan as for `direct`.

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


@kernel(quick=True)
def direct_weight(R, V, KH, KW, S, D, x: Ptr[T], g: Ptr[T], y: Ptr[T], plan: Ptr[i64]):
    """The gradient of a weight: y [groups, blocks * R, C, KH, KW] from x [N, groups, C, H, W] and
    g [N, groups, blocks * R, OH, OW]. Plan as for `direct`, but the first number is N.

    Lines of the kernel are taken together as far as their sums fit in registers.
    """
    groups, blocks, channels = plan[1], plan[2], plan[3]
    height, width, oh_size, ow_size = plan[4], plan[5], plan[6], plan[7]
    together = max(1, min(KH, 24 // (R * KW * V)))
    for lo, hi in parallel(groups * channels * blocks, plan[13]):
        for t in range(lo, hi):
            c, group = t // blocks % channels, t // blocks // channels
            block = group * blocks + t % blocks
            for first in unroll(range(0, KH, together)):
                lines = range(first, min(first + together, KH))
                sums = [
                    [[[splat(T(0), L) for _ in range(V)] for _ in range(KW)] for _ in lines]
                    for _ in range(R)
                ]
                for n in range(plan[0]):
                    source = x + ((n * groups + group) * channels + c) * height * width
                    of_g = g + (n * groups * blocks + block) * R * oh_size * ow_size
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
                            tap = ((block * R + r) * channels + c) * (KH * KW) + kh * KW + kw
                            y[tap] = total(s)


@inline
def block_sums(KW, S, D, p, ws, left, width, c_size, mask, sums):
    """Add to the sums of places beside each other what their windows see of a line: column `left`
    of it, which is at p, and on."""
    for j in unroll(lines_read(len(sums), KW, S, D)):
        if width is None:
            a = load(p + j * c_size, lanesof(mask), mask)
            for b in unroll(len(sums)):
                for kw in unroll(KW):
                    if b * S + kw * D == j:
                        sums[b] = fma(a, ws[kw], sums[b])
        elif (left + j >= 0) & (left + j < width):
            a = load(p + j * c_size, lanesof(mask), mask)
            for b in unroll(len(sums)):
                for kw in unroll(KW):
                    if b * S + kw * D == j:
                        sums[b] = fma(a, ws[kw], sums[b])


@inline
def fetch_below(KH, S, image, top, left, width, c_size, c, plan):
    """What windows a line further down meet first: no stream that the processor would fetch itself."""
    for r in unroll(S):
        line = top + (KH - 1) * plan[9] + (1 + r)
        p = image + ((line * width + left) * c_size + c)
        for j in unroll(POSITIONS * S):
            prefetch(p + j * c_size)


@kernel(quick=True)
def depthwise(KW, S, D, x: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T], plan: Ptr[i64]):
    """Depthwise, with channels innermost: y [N, OH, OW, C] from x [N, H, W, C] and w [KH, KW, C].

    `plan`: N, C, H, W, OH, OW, padding (2), S and D for lines, KH, lines of a chunk, channels of a
    block. Down the lines go POSITIONS of each, so that what windows share stays in the first-level cache.
    """
    c_size, height, width, oh_size, ow_size = plan[1], plan[2], plan[3], plan[4], plan[5]
    KH = plan[10]
    reach = (POSITIONS - 1) * S + (KW - 1) * D
    blocks = (c_size + (plan[12] - 1)) // plan[12]
    strips = (ow_size + (POSITIONS - 1)) // POSITIONS
    for lo, hi in parallel(plan[0] * oh_size, plan[11]):
        for strip in range(blocks * strips):
            ow, begin = strip % strips * POSITIONS, strip // strips * plan[12]
            end, left = min(begin + plan[12], c_size), ow * S - plan[7]
            inside = (left >= 0) & (left + reach < width)
            for t in range(lo, hi):
                top = t % oh_size * plan[8] - plan[6]
                image = x + t // oh_size * height * width * c_size
                for c in range(begin, end, L):
                    mask = iota(i32, L) < i32(c_size - c)
                    fetch_below(KH, S, image, top, left, width, c_size, c, plan)
                    sums = [load(bias + c, L, mask) for _ in range(POSITIONS)]
                    for kh in range(KH):
                        ih = top + kh * plan[9]
                        if (ih >= 0) & (ih < height):
                            at = w + (kh * KW * c_size + c)
                            ws = [load(at + kw * c_size, L, mask) for kw in range(KW)]
                            p = image + ((ih * width + left) * c_size + c)
                            if inside:
                                block_sums(KW, S, D, p, ws, left, None, c_size, mask, sums)
                            else:
                                block_sums(KW, S, D, p, ws, left, width, c_size, mask, sums)
                    for b in unroll(POSITIONS):
                        if ow + b < ow_size:
                            to = y + ((t * ow_size + ow + b) * c_size + c)
                            store_line(to, sums[b], c_size - c, L)


@kernel
def depthwise_transposed(
    g: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T], KH: i64, KW: i64, plan: Ptr[i64]
):
    """The transpose of `depthwise` with dilation 1: y [N, H, W, C] from g [N, OH, OW, C].

    `plan`: N, C, OH, OW, H, W, padding (2), then stride (2).
    """
    c_size, oh_size, ow_size, height, width = plan[1], plan[2], plan[3], plan[4], plan[5]
    down, across = plan[8], plan[9]
    for lo, hi in parallel(plan[0] * height, max(32768 // (width * c_size), i64(1))):
        for t in range(lo, hi):
            ih, image = t % height + plan[6], g + t // height * oh_size * ow_size * c_size
            for iw in range(width):
                left, to = iw + plan[7], y + (t * width + iw) * c_size
                for c in range(0, c_size, L):
                    mask = iota(i32, L) < i32(c_size - c)
                    store(to + c, load(bias + c, L, mask), mask)
                kh, oh = ih % down, ih // down
                while (kh < KH) & (oh >= 0):
                    kw, ow = left % across, left // across
                    while (kw < KW) & (ow >= 0):
                        if (oh < oh_size) & (ow < ow_size):
                            at, by = (
                                image + (oh * ow_size + ow) * c_size,
                                w + (kh * KW + kw) * c_size,
                            )
                            for c in range(0, c_size, L):
                                mask = iota(i32, L) < i32(c_size - c)
                                a, b = load(at + c, L, mask), load(by + c, L, mask)
                                store(to + c, fma(a, b, load(to + c, L, mask)), mask)
                        kw += across
                        ow -= 1
                    kh += down
                    oh -= 1


@inline
def block_products(KW, S, D, gs, p, left, width, c_size, mask, sums):
    """Add to `sums` the products of gradients of places beside each other with what their windows see
    of a line, as in `block_sums`."""
    for j in unroll(lines_read(len(gs), KW, S, D)):
        if width is None:
            a = load(p + j * c_size, lanesof(mask), mask)
            for b in unroll(len(gs)):
                for kw in unroll(KW):
                    if b * S + kw * D == j:
                        sums[kw] = fma(a, gs[b], sums[kw])
        elif (left + j >= 0) & (left + j < width):
            a = load(p + j * c_size, lanesof(mask), mask)
            for b in unroll(len(gs)):
                for kw in unroll(KW):
                    if b * S + kw * D == j:
                        sums[kw] = fma(a, gs[b], sums[kw])


@kernel
def depthwise_weight(
    KW, S, D, ROWS, x: Ptr[T], g: Ptr[T], y: Ptr[T], parts: Ptr[T], plan: Ptr[i64]
):
    """The gradient of the weight of `depthwise`: y [KH, KW, C]; plan as for `depthwise`, but instead of the
    lines of a chunk the number of parts, in which lines are summed apart: `parts` has room for a result of each. ROWS lines of the
    window are summed together; KH is a multiple of it."""
    c_size, height, width, oh_size, ow_size = plan[1], plan[2], plan[3], plan[4], plan[5]
    size, lines = plan[10] * KW * c_size, plan[0] * oh_size
    each = (lines + (plan[11] - 1)) // plan[11]
    reach = (POSITIONS - 1) * S + (KW - 1) * D
    blocks = (c_size + (plan[12] - 1)) // plan[12]
    strips = (ow_size + (POSITIONS - 1)) // POSITIONS
    for lo, hi in parallel(plan[11], 1):
        for part in range(lo, hi):
            to = parts + part * size
            for i in lanes(0, size):
                to[i] = T(0)
            for strip in range(blocks * strips):
                ow, first = strip % strips * POSITIONS, strip // strips * plan[12]
                end, left = min(first + plan[12], c_size), ow * S - plan[7]
                inside = (left >= 0) & (left + reach < width)
                for t in range(part * each, min(part * each + each, lines)):
                    image = x + t // oh_size * height * width * c_size
                    for kh in range(0, plan[10], ROWS):
                        top = t % oh_size * plan[8] - plan[6] + kh * plan[9]
                        if (top + (ROWS - 1) * plan[9] >= 0) & (top < height):
                            for c in range(first, end, L):
                                mask = iota(i32, L) < i32(c_size - c)
                                fetch_below(plan[10], S, image, top, left, width, c_size, c, plan)
                                of_g = g + ((t * ow_size + ow) * c_size + c)
                                gs = [splat(T(0), L) for _ in range(POSITIONS)]
                                for b in unroll(POSITIONS):
                                    if ow + b < ow_size:
                                        gs[b] = load(of_g + b * c_size, L, mask)
                                for r in unroll(ROWS):
                                    row = top + r * plan[9]
                                    if (row >= 0) & (row < height):
                                        at = to + ((kh + r) * KW * c_size + c)
                                        sums = [load(at + kw * c_size, L, mask) for kw in range(KW)]
                                        p = image + ((row * width + left) * c_size + c)
                                        if inside:
                                            block_products(
                                                KW, S, D, gs, p, left, None, c_size, mask, sums
                                            )
                                        else:
                                            block_products(
                                                KW, S, D, gs, p, left, width, c_size, mask, sums
                                            )
                                        for kw in unroll(KW):
                                            store(at + kw * c_size, sums[kw], mask)
    for lo, hi in parallel(size, 4096):
        for i in lanes(lo, hi):
            s = T(0)
            for part in range(plan[11]):
                s = s + parts[part * size + i]
            y[i] = s
