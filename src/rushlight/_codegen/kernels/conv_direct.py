"""Convolutions in two dimensions by sums where matrices would be thin: depthwise, a few channels in, or a few
channels out.

`direct`, `direct_transposed` and `direct_weight` are of row-major arrays: vectors lie along lines of the
output, and a tile is `R` channels of LINES lines, so that every vector that is read of the input serves
all lines and channels it takes part in. The input's borders are masks, so nothing is copied. Outputs
beside each other are S apart in the input (1 or 2), what a window reads D. `depthwise` and its kin are of
arrays whose channels are innermost: vectors lie along channels.
"""

from __future__ import annotations

from rushlight._codegen.conv_plan import DepthwisePlan
from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import added, store_line
from rushlight._codegen.language import *
from rushlight._codegen.product_sizes import many_registers
from rushlight._codegen.types import Ptr, i32, i64


def lines_read(lines: int, kh: int, s: int, d: int) -> list[int]:
    """The lines of the input that a tile reads, counted from the first."""
    return sorted({line * s + k * d for line in range(lines) for k in range(kh)})


def lines_and_taps(row: int, lines: int, kh: int, s: int, d: int) -> list[tuple[int, int]]:
    """The lines of a tile and the taps by which they meet a line of the input."""
    return [(n, k) for n in range(lines) for k in range(kh) if n * s + k * d == row]


POSITIONS = 7  # outputs beside each other that `depthwise` computes together


def chains(sums: int, kw: int) -> int:
    """How many sums are kept for each: with few of them, an addition waits for the one before."""
    return 2 if sums <= (8 if many_registers() else 4) and kw > 1 else 1


@inline
def line_masks(first, width, S, L):
    """The masks for a vector of every S-th element from `first` on of a line of `width`."""
    return [
        (iota(i32, L) >= i32(0 - first - i * L)) & (iota(i32, L) < i32(width - first - i * L))
        for i in range(S)
    ]


@inline
def line_load(p, masks, S, L):
    """A vector of every S-th element from p on; what the masks, if any, leave out is 0."""
    parts = [load(p + i * L, L, masks[i]) if masks else load(p + i * L, L) for i in range(S)]
    return parts[0] if S == 1 else shuffle(parts[0], parts[1], [2 * i for i in range(L)])


class Plan:
    """Where the fields of a plan of `direct`, `direct_transposed` and `direct_weight` stand."""

    IMAGES, GROUPS, BLOCKS, CHANNELS = 0, 1, 2, 3  # IMAGES times GROUPS, but in `direct_weight`
    HEIGHT, WIDTH, OUT_HEIGHT, OUT_WIDTH, TOP, LEFT = 4, 5, 6, 7, 8, 9  # TOP, LEFT: padding
    W_GROUP, W_OUT, W_IN = 10, 11, 12  # steps of w for a group, a channel of y, a channel of x
    GRAIN = 13


@inline
def tile_masks(left, width, V, KW, S, D, L):
    """For V vectors of outputs beside each other, and each tap of a line, the masks of what is read."""
    return [
        [line_masks(left + (v * L * S + kw * D), width, S, L) for kw in range(KW)] for v in range(V)
    ]


@inline
def add_line(row, line, p, step, masks, sums, KH, KW, S, D, FLIP, L):
    """Add to a tile's sums [lines][R][V][chains] what its windows see of line `row` of the input, at
    `line`, times the weights at p, whose channels are `step` apart."""
    V = len(sums[0][0])
    for kw in unroll(KW):
        a = [
            line_load(line + (v * L * S + kw * D), masks[v][kw] if masks else None, S, L)
            for v in range(V)
        ]
        for n, kh in unroll(lines_and_taps(row, len(sums), KH, S, D)):
            tap = KH * KW - 1 - (kh * KW + kw) if FLIP else kh * KW + kw
            for r in unroll(len(sums[n])):
                b = splat(p[r * step + tap], L)
                for v in unroll(V):
                    chain = kw % len(sums[n][r][v])
                    sums[n][r][v][chain] = added(a[v], b, sums[n][r][v][chain])


@inline
def store_tile(to, bias, sums, lines, oh_size, ow_size, left, L):
    """The sums of a tile and biases go to y; the first `lines` lines and `left` columns (None: all) exist."""
    for n in unroll(len(sums)):
        if n < lines:
            for r in unroll(len(sums[n])):
                for v in unroll(len(sums[n][r])):
                    at = to + ((r * oh_size + n) * ow_size + v * L)
                    chains = sums[n][r][v]
                    s = chains[0] if len(chains) == 1 else chains[0] + chains[1]
                    if left is None:
                        store(at, s + splat(bias[r], L))
                    else:
                        store(at, s + splat(bias[r], L), iota(i32, L) < i32(left - v * L))


@inline
def tile(INNER, x, w, bias, y, step, top, left, plan, R, LINES, V, KH, KW, S, D, FLIP, T, L):
    """A tile of `direct` goes to y: over all channels of the image at x, whose lines are read from `top` and
    columns from `left` on. INNER: the tile and all columns that it reads exist."""
    CHAINS = chains(LINES * R * V, KW)
    height, width = plan[Plan.HEIGHT], plan[Plan.WIDTH]
    masks = None if INNER else tile_masks(left, width, V, KW, S, D, L)
    sums = [
        [[[splat(T(0), L) for _ in range(CHAINS)] for _ in range(V)] for _ in range(R)]
        for _ in range(LINES)
    ]
    for c in range(plan[Plan.CHANNELS]):
        at = x + (c * height * width + left)
        p = w + c * plan[Plan.W_IN]
        for row in unroll(lines_read(LINES, KH, S, D)):
            ih = top + row
            if (ih >= 0) & (ih < height):
                add_line(row, at + ih * width, p, step, masks, sums, KH, KW, S, D, FLIP, L)
    oh_size, ow_size = plan[Plan.OUT_HEIGHT], plan[Plan.OUT_WIDTH]
    oh, ow = (top + plan[Plan.TOP]) // S, (left + plan[Plan.LEFT]) // S
    columns = None if INNER else ow_size - ow
    store_tile(y + ow, bias, sums, oh_size - oh, oh_size, ow_size, columns, L)


@kernel(quick=True)
def direct(
    R, LINES, V, KH, KW, S, D, FLIP, APART, x: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T],
    plan: Ptr[i64],
):  # fmt: skip
    """y [N, groups, blocks * R, OH, OW] = x [N, groups, C, H, W] convolved with w, plus bias.

    FLIP: the taps stand in reverse. APART: tiles that no border touches have code of their own, without
    masks, for machines without instructions for these.
    """
    blocks, channels, step = plan[Plan.BLOCKS], plan[Plan.CHANNELS], plan[Plan.W_OUT]
    height, width = plan[Plan.HEIGHT], plan[Plan.WIDTH]
    oh_size, ow_size = plan[Plan.OUT_HEIGHT], plan[Plan.OUT_WIDTH]
    down = (oh_size + (LINES - 1)) // LINES
    for lo, hi in parallel(plan[Plan.IMAGES] * blocks * down, plan[Plan.GRAIN]):
        for t in range(lo, hi):
            first, block, image = t % down * LINES, t // down % blocks, t // down // blocks
            group, top = image % plan[Plan.GROUPS], first * S - plan[Plan.TOP]
            of_x = x + image * channels * height * width
            of_w = w + (group * plan[Plan.W_GROUP] + block * R * step)
            to = y + (((image * blocks + block) * R * oh_size + first) * ow_size)
            of_bias = bias + (group * blocks + block) * R
            for ow in range(0, ow_size, L * V):
                left = ow * S - plan[Plan.LEFT]
                inner = (left >= 0) & (left + (L * V * S + (KW - 1) * D) <= width)
                if APART and inner:
                    tile(True, of_x, of_w, of_bias, to, step, top, left, plan,
                         R, LINES, V, KH, KW, S, D, FLIP, T, L)  # fmt: skip
                else:
                    tile(False, of_x, of_w, of_bias, to, step, top, left, plan,
                         R, LINES, V, KH, KW, S, D, FLIP, T, L)  # fmt: skip


def pairs_and_taps(
    row: int, m: int, pairs: int, kh: int, kw: int
) -> list[tuple[int, int, int, int]]:
    """The parts of a tile of `direct_transposed` that line `row` of g reaches `m` columns to the right:
    (pair of lines, line of it, column of a pair, tap)."""
    return [
        (n, e, f, (2 * (n - row) + e) * kw + 2 * m + f)
        for n in range(pairs)
        for e in range(2)
        if 0 <= 2 * (n - row) + e < kh
        for f in range(2)
        if 2 * m + f < kw
    ]


@inline
def add_line_to_pairs(row, line, p, step, masks, sums, KH, KW, L):
    """Add to a tile's sums [pairs][2][2][R] what line `row` of g, at `line`, gives them, times the
    weights at p, whose channels are `step` apart."""
    for m in unroll(len(masks)):
        a = line_load(line - m, masks[m], 1, L)
        for n, e, f, tap in unroll(pairs_and_taps(row, m, len(sums), KH, KW)):
            for r in unroll(len(sums[n][e][f])):
                sums[n][e][f][r] = added(a, splat(p[r * step + tap], L), sums[n][e][f][r])


@inline
def store_pairs(to, bias, sums, line, column, oh_size, ow_size, L):
    """The sums of a tile of `direct_transposed` and biases go to y from (line, column) on, which may begin
    outside of it: columns of a pair stand beside each other."""
    halves = [[L * (i % 2) + (h * L + i) // 2 for i in range(L)] for h in range(2)]
    mask = [
        (iota(i32, L) >= i32(0 - column - h * L)) & (iota(i32, L) < i32(ow_size - column - h * L))
        for h in range(2)
    ]
    for n in unroll(len(sums)):
        for e in unroll(2):
            oh = line + (2 * n + e)
            if (oh >= 0) & (oh < oh_size):
                for r in unroll(len(sums[n][e][0])):
                    for h in unroll(2):
                        pair = shuffle(sums[n][e][0][r], sums[n][e][1][r], halves[h])
                        at = to + ((r * oh_size + oh) * ow_size + column + h * L)
                        store(at, pair + splat(bias[r], L), mask[h])


@kernel(quick=True)
def direct_transposed(
    R, PAIRS, KH, KW, g: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T], plan: Ptr[i64]
):
    """The transpose of a convolution with stride 2, of g [N, groups, C, GH, GW], plus bias, to
    y [N, groups, blocks * R, OH, OW].

    Lines and columns of y come in pairs, 2 a - padding and the next. Of a pair, the first meets the
    even taps, the second the odd ones: tap k at line a - k // 2 of g. A tile is PAIRS pairs of lines
    by L pairs of columns.
    """
    blocks, channels = plan[Plan.BLOCKS], plan[Plan.CHANNELS]
    height, width = plan[Plan.HEIGHT], plan[Plan.WIDTH]
    oh_size, ow_size = plan[Plan.OUT_HEIGHT], plan[Plan.OUT_WIDTH]
    upper, left_of = plan[Plan.TOP] // 2, plan[Plan.LEFT] // 2
    pairs_down = (oh_size - 1 + plan[Plan.TOP]) // 2 - upper + 1
    pairs_across = (ow_size - 1 + plan[Plan.LEFT]) // 2 - left_of + 1
    down = (pairs_down + (PAIRS - 1)) // PAIRS
    MH, MW = (KH + 1) // 2, (KW + 1) // 2
    for lo, hi in parallel(plan[Plan.IMAGES] * blocks * down, plan[Plan.GRAIN]):
        for t in range(lo, hi):
            first = t % down * PAIRS + upper
            block, image = t // down % blocks, t // down // blocks
            group = image % plan[Plan.GROUPS]
            of_w = w + (group * plan[Plan.W_GROUP] + block * R * plan[Plan.W_OUT])
            to = y + (image * blocks + block) * R * oh_size * ow_size
            of_bias = bias + (group * blocks + block) * R
            for b in range(0, pairs_across, L):
                left = b + left_of
                masks = [line_masks(left - m, width, 1, L) for m in range(MW)]
                sums = [
                    [[[splat(T(0), L) for _ in range(R)] for _ in range(2)] for _ in range(2)]
                    for _ in range(PAIRS)
                ]
                for c in range(channels):
                    source = g + ((image * channels + c) * height * width + left)
                    p = of_w + c * plan[Plan.W_IN]
                    for row in unroll(range(1 - MH, PAIRS)):
                        gh = first + row
                        if (gh >= 0) & (gh < height):
                            add_line_to_pairs(row, source + gh * width, p, plan[Plan.W_OUT], masks,
                                              sums, KH, KW, L)  # fmt: skip
                line, column = 2 * first - plan[Plan.TOP], 2 * left - plan[Plan.LEFT]
                store_pairs(to, of_bias, sums, line, column, oh_size, ow_size, L)


@inline
def add_products(kh, line, gs, masks, sums, S, D, L):
    """Add to sums [R][KW][V] of line kh of the weight the products of the gradients gs [R][V] with what
    their windows see of a line of the input."""
    for kw in unroll(len(sums[0])):
        for v in unroll(len(masks)):
            a = line_load(line + (v * L * S + kw * D), masks[v][kw], S, L)
            for r in unroll(len(gs)):
                sums[r][kw][v] = added(a, gs[r][v], sums[r][kw][v])


@kernel(quick=True)
def direct_weight(R, V, KH, KW, S, D, x: Ptr[T], g: Ptr[T], y: Ptr[T], plan: Ptr[i64]):
    """The gradient of a weight: y [groups, blocks * R, C, KH, KW] from x [N, groups, C, H, W] and
    g [N, groups, blocks * R, OH, OW].

    Lines of the kernel are taken together as far as their sums fit in registers.
    """
    groups, blocks, channels = plan[Plan.GROUPS], plan[Plan.BLOCKS], plan[Plan.CHANNELS]
    together = max(1, min(KH, 24 // (R * KW * V)))
    for lo, hi in parallel(groups * channels * blocks, plan[Plan.GRAIN]):
        for t in range(lo, hi):
            c, group = t // blocks % channels, t // blocks // channels
            block = group * blocks + t % blocks
            for first in unroll(range(0, KH, together)):
                lines = range(first, min(first + together, KH))
                # [line of the kernel][R][KW][V]
                sums = [
                    [[[splat(T(0), L) for _ in range(V)] for _ in range(KW)] for _ in range(R)]
                    for _ in lines
                ]
                for n in range(plan[Plan.IMAGES]):
                    source = x + ((n * groups + group) * channels + c) * (
                        plan[Plan.HEIGHT] * plan[Plan.WIDTH]
                    )
                    size = plan[Plan.OUT_HEIGHT] * plan[Plan.OUT_WIDTH]
                    of_g = g + (n * groups * blocks + block) * R * size
                    add_image(source, of_g, sums, lines, plan, S, D, L)
                for r in unroll(R):
                    for kh in unroll(lines):
                        for kw in unroll(KW):
                            s = sums[kh - first][r][kw][0]
                            for v in unroll(range(1, V)):
                                s = s + sums[kh - first][r][kw][v]
                            tap = ((block * R + r) * channels + c) * (KH * KW) + kh * KW + kw
                            y[tap] = total(s)


@inline
def add_image(source, of_g, sums, lines, plan, S, D, L):
    """Add to the sums [lines][R][KW][V] of `direct_weight` those over one image of x and of g."""
    R, KW, V = len(sums[0]), len(sums[0][0]), len(sums[0][0][0])
    height, width = plan[Plan.HEIGHT], plan[Plan.WIDTH]
    oh_size, ow_size = plan[Plan.OUT_HEIGHT], plan[Plan.OUT_WIDTH]
    for ow in range(0, ow_size, L * V):
        left = ow * S - plan[Plan.LEFT]
        masks = tile_masks(left, width, V, KW, S, D, L)
        mask = [iota(i32, L) < i32(ow_size - ow - v * L) for v in range(V)]
        for oh in range(oh_size):
            at = of_g + (oh * ow_size + ow)
            gs = [
                [load(at + (r * oh_size * ow_size + v * L), L, mask[v]) for v in range(V)]
                for r in range(R)
            ]
            for kh in unroll(lines):
                ih = oh * S - plan[Plan.TOP] + kh * D
                if (ih >= 0) & (ih < height):
                    line = source + (ih * width + left)
                    add_products(kh, line, gs, masks, sums[kh - lines[0]], S, D, L)


@inline
def add_seen(GRADIENT, WINDOWS, factors, p, left, width, c_size, mask, sums):
    """Add to the sums of outputs beside each other what their windows see of a line, times the weights in
    `factors`; GRADIENT: to the sums of taps the same, times the gradients of outputs. Column `left` of the line is
    at p; `width`: of the line, None where all columns exist. WINDOWS: as the arguments of `lines_read`."""
    for j in unroll(lines_read(*WINDOWS)):
        if width is None:
            add_column(GRADIENT, WINDOWS, j, factors, p, c_size, mask, sums)
        elif (left + j >= 0) & (left + j < width):
            add_column(GRADIENT, WINDOWS, j, factors, p, c_size, mask, sums)


@inline
def add_column(GRADIENT, WINDOWS, j, factors, p, c_size, mask, sums):
    a = load(p + j * c_size, lanesof(mask), mask)
    for b, kw in unroll(lines_and_taps(j, *WINDOWS)):
        if GRADIENT:
            sums[kw] = added(a, factors[b], sums[kw])
        else:
            sums[b] = added(a, factors[kw], sums[b])


@inline
def fetch_below(KH, S, image, top, left, width, c_size, c, plan):
    """What windows a line further down meet first: no stream that the processor would fetch itself."""
    for r in unroll(S):
        line = top + (KH - 1) * plan[DepthwisePlan.DILATION] + (1 + r)
        p = image + ((line * width + left) * c_size + c)
        for j in unroll(POSITIONS * S):
            prefetch(p + j * c_size)


@kernel(quick=True)
def depthwise(KW, S, D, x: Ptr[T], w: Ptr[T], bias: Ptr[T], y: Ptr[T], plan: Ptr[i64]):
    """Depthwise, with channels innermost: y [N, OH, OW, C] from x [N, H, W, C] and w [KH, KW, C].

    Down the lines go POSITIONS of each, so that what windows share stays in the first-level cache.
    """
    c_size = plan[DepthwisePlan.CHANNELS]
    height, width = plan[DepthwisePlan.HEIGHT], plan[DepthwisePlan.WIDTH]
    oh_size, ow_size = plan[DepthwisePlan.OUT_HEIGHT], plan[DepthwisePlan.OUT_WIDTH]
    KH, wide = plan[DepthwisePlan.LINES], plan[DepthwisePlan.BLOCK]
    WINDOWS = POSITIONS, KW, S, D
    reach = (POSITIONS - 1) * S + (KW - 1) * D
    blocks = (c_size + (wide - 1)) // wide
    strips = (ow_size + (POSITIONS - 1)) // POSITIONS
    for lo, hi in parallel(plan[DepthwisePlan.IMAGES] * oh_size, plan[DepthwisePlan.CHUNK]):
        for strip in range(blocks * strips):
            ow, begin = strip % strips * POSITIONS, strip // strips * wide
            end, left = min(begin + wide, c_size), ow * S - plan[DepthwisePlan.LEFT]
            inside = (left >= 0) & (left + reach < width)
            for t in range(lo, hi):
                top = t % oh_size * plan[DepthwisePlan.DOWN] - plan[DepthwisePlan.TOP]
                image = x + t // oh_size * height * width * c_size
                for c in range(begin, end, L):
                    mask = iota(i32, L) < i32(c_size - c)
                    fetch_below(KH, S, image, top, left, width, c_size, c, plan)
                    sums = [load(bias + c, L, mask) for _ in range(POSITIONS)]
                    for kh in range(KH):
                        ih = top + kh * plan[DepthwisePlan.DILATION]
                        if (ih >= 0) & (ih < height):
                            at = w + (kh * KW * c_size + c)
                            ws = [load(at + kw * c_size, L, mask) for kw in range(KW)]
                            p = image + ((ih * width + left) * c_size + c)
                            if inside:
                                add_seen(False, WINDOWS, ws, p, left, None, c_size, mask, sums)
                            else:
                                add_seen(False, WINDOWS, ws, p, left, width, c_size, mask, sums)
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
                                store(to + c, added(a, b, load(to + c, L, mask)), mask)
                        kw += across
                        ow -= 1
                    kh += down
                    oh -= 1


@inline
def add_to_taps(KW, S, D, ROWS, gs, to, image, top, left, inside, c, mask, plan):
    """Add to `to`, ROWS lines of the weight's gradient, the products of the gradients of outputs beside
    each other with what their windows see from line `top` of an image on."""
    height, width = plan[DepthwisePlan.HEIGHT], plan[DepthwisePlan.WIDTH]
    c_size, WINDOWS = plan[DepthwisePlan.CHANNELS], (POSITIONS, KW, S, D)
    for r in unroll(ROWS):
        row = top + r * plan[DepthwisePlan.DILATION]
        if (row >= 0) & (row < height):
            at = to + (r * KW * c_size + c)
            sums = [load(at + kw * c_size, lanesof(mask), mask) for kw in range(KW)]
            p = image + ((row * width + left) * c_size + c)
            if inside:
                add_seen(True, WINDOWS, gs, p, left, None, c_size, mask, sums)
            else:
                add_seen(True, WINDOWS, gs, p, left, width, c_size, mask, sums)
            for kw in unroll(KW):
                store(at + kw * c_size, sums[kw], mask)


@kernel
def depthwise_weight(
    KW, S, D, ROWS, x: Ptr[T], g: Ptr[T], y: Ptr[T], parts: Ptr[T], plan: Ptr[i64]
):
    """The gradient of the weight of `depthwise`: y [KH, KW, C]; `parts` has room for a result of each part.
    ROWS lines of the window are summed together; KH is a multiple of it."""
    c_size = plan[DepthwisePlan.CHANNELS]
    height, width = plan[DepthwisePlan.HEIGHT], plan[DepthwisePlan.WIDTH]
    oh_size, ow_size = plan[DepthwisePlan.OUT_HEIGHT], plan[DepthwisePlan.OUT_WIDTH]
    KH, wide = plan[DepthwisePlan.LINES], plan[DepthwisePlan.BLOCK]
    n_parts = plan[DepthwisePlan.CHUNK]
    down, below = plan[DepthwisePlan.DOWN], plan[DepthwisePlan.DILATION]
    size, lines = KH * KW * c_size, plan[DepthwisePlan.IMAGES] * oh_size
    each = (lines + (n_parts - 1)) // n_parts
    reach = (POSITIONS - 1) * S + (KW - 1) * D
    blocks = (c_size + (wide - 1)) // wide
    strips = (ow_size + (POSITIONS - 1)) // POSITIONS
    for lo, hi in parallel(n_parts, 1):
        for part in range(lo, hi):
            to = parts + part * size
            for i in lanes(0, size):
                to[i] = T(0)
            for strip in range(blocks * strips):
                ow, first = strip % strips * POSITIONS, strip // strips * wide
                end, left = min(first + wide, c_size), ow * S - plan[DepthwisePlan.LEFT]
                inside = (left >= 0) & (left + reach < width)
                for t in range(part * each, min(part * each + each, lines)):
                    image = x + t // oh_size * height * width * c_size
                    for kh in range(0, KH, ROWS):
                        top = t % oh_size * down - plan[DepthwisePlan.TOP] + kh * below
                        if (top + (ROWS - 1) * below >= 0) & (top < height):
                            for c in range(first, end, L):
                                mask = iota(i32, L) < i32(c_size - c)
                                fetch_below(KH, S, image, top, left, width, c_size, c, plan)
                                of_g = g + ((t * ow_size + ow) * c_size + c)
                                gs = [splat(T(0), L) for _ in range(POSITIONS)]
                                for b in unroll(POSITIONS):
                                    if ow + b < ow_size:
                                        gs[b] = load(of_g + b * c_size, L, mask)
                                add_to_taps(KW, S, D, ROWS, gs, to + kh * KW * c_size, image, top,
                                            left, inside, c, mask, plan)  # fmt: skip
    for lo, hi in parallel(size, 4096):
        for i in lanes(lo, hi):
            s = T(0)
            for part in range(n_parts):
                s = s + parts[part * size + i]
            y[i] = s
