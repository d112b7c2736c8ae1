"""Convolutions of 3 x 3 windows with fewer multiplications.

Winograd's minimal filtering F(2 x 2, 3 x 3) computes 2 x 2 results from 4 x 4 inputs d and a window g
with 16 multiplications instead of 36 (S. Winograd, "Arithmetic complexity of computations", 1980;
A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks", 2016):

    Y = A' [(G g G') * (B' d B)] A

    B' = 1  0 -1  0     G =  1    0    0      A' = 1  1  1  0
         0  1  1  0         1/2  1/2  1/2          0  1 -1 -1
         0 -1  1  0         1/2 -1/2  1/2
         0  1  0 -1          0    0    1

Over channels the multiplications are 16 products of matrices, [tiles, C] times [C, O]. A chunk is
some tiles, whole rows of them where rows are short: its inputs are transformed once, and then for
2 L output channels after the other come the 16 products and the transform back. All that lies in the
second-level cache. In memory of its own a chunk has channels innermost, so that tiles at edges are
like any other.

The gradient of the windows is the transpose: G' [sum over tiles of (B' d B) * (A y A')] G for the
gradients y of results, 16 products [C, tiles] times [tiles, O], for a block of RUN x RUN channels.

All extents stand in one array of integers, `plan` (`Plan` names its fields).
"""

from __future__ import annotations

from rushlight.compiler.kernel import kernel
from rushlight.compiler.kernels.conv import write_columns
from rushlight.compiler.kernels.gemm import transposed
from rushlight.compiler.language import (
    array,
    fma,
    inline,
    iota,
    load,
    parallel,
    prefetch,
    routine,
    splat,
    store,
    total,
    unroll,
)  # fmt: skip
from rushlight.compiler.types import Ptr, i32, i64

TILES = 48  # of a chunk, at most
DEEPEST = 512  # channels of the input, at most
ROOM = 60 * DEEPEST  # elements of each of the 16 matrices
RUN = 64  # channels of a tile that lie together
AHEAD = 8  # channels whose windows are fetched in advance
GAP = 16  # elements between the 16 matrices, which else would share a few lines of the cache


class Plan:
    """Where the fields of a plan stand."""

    CHANNELS, LANES = 0, 1  # of the input, of the output
    H, W, OUT_H, OUT_W, PADDING = 2, 3, 4, 5, 6
    DOWN, ACROSS = 7, 8  # tiles of an image
    LINES = 9  # rows of tiles of all images
    HIGH, WIDE = 10, 11  # tiles of a chunk
    PIECES = 12  # chunks beside each other
    PARTS, PART = 13, 14  # shares of the output channels; channels of a share
    CHUNKS = 15
    TAP, LANE = 16, 17  # weights: steps from an input channel, an output channel to the next
    SPLITS, SPLIT = 18, 19  # gradient: parts of the lines that are summed apart, lines of a part
    SIZE = 20


@routine
def read_channels(x, frame, H, W, row, high, column, wide, T, L):
    """Of L channels of an image, rows [row, row + high) and columns [column, column + wide) into a
    frame with the channels innermost, as far as they exist; what else the frame holds stays."""
    first, left = max(row, i64(0)), max(column, i64(0))
    end, right = min(row + high, H), min(column + wide, W)
    run, rows, each = right - left, end - first, right - left
    skip = (wide - run) * L
    begin = frame + ((first - row) * wide + (left - column)) * L
    if run == W:  # rows follow each other
        run, rows = run * rows, i64(1)
    for r in range(rows):
        at = [x + (i * (H * W) + (first + r) * W + left) for i in range(L)]
        to, place = begin + r * wide * L, i64(0)
        for j in range(0, run, L):
            mask = iota(i32, L) < i32(run - j)
            points = transposed([load(at[i] + j, L, mask) for i in range(L)], L)
            for i in unroll(L):
                if j + i < run:
                    store(to, points[i])
                to = to + L
                place += 1
                if place == each:
                    place = i64(0)
                    to = to + skip


@inline
def forth(d):
    """B' times a column."""
    return [d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]]


@inline
def back(m):
    """A' times a column."""
    return [m[0] + m[1] + m[2], m[1] - m[2] - m[3]]


@inline
def three(g, half):
    """G times a column."""
    a, b = (g[0] + g[2]) * half, g[1] * half
    return [g[0], a + b, a - b, g[2]]


@inline
def spread(y):
    """A times a column."""
    return [y[0], y[0] + y[1], y[0] - y[1], -y[1]]


@inline
def gathered(z, half):
    """G' times a column."""
    a, b = (z[1] + z[2]) * half, (z[1] - z[2]) * half
    return [z[0] + a, b, a + z[3]]


@routine
def transform(frame, to, across, wide, tiles, matrix, EDGE, L):
    """B' d B (EDGE 4) or A d A' (EDGE 2) of `tiles` tiles of a frame, for L channels; `across` are in
    a line, which is `wide`."""
    place, line = i64(0), frame
    at = frame
    for t in range(tiles):
        d = [[load(at + (r * wide + s) * L, L) for s in range(EDGE)] for r in range(EDGE)]
        if EDGE == 4:
            d = [forth(row) for row in d]
        else:
            d = [spread(row) for row in d]
        for s in unroll(4):
            column = [row[s] for row in d]
            v = forth(column) if EDGE == 4 else spread(column)
            for r in unroll(4):
                store(to + ((4 * r + s) * matrix + t * RUN), v[r])
        place += 1
        at = at + 2 * L
        if place == across:
            place = i64(0)
            line = line + 2 * wide * L
            at = line


@routine
def read_tiles(
    x, v, frame, H, W, channels, image, padding, down, first, last, column, wide, matrix, depth,
    EDGE, T, L,
):  # fmt: skip
    """The transformed tiles of lines [first, last), `wide` from tile `column` on, of so many channels
    from x on; an image is `image` elements from the one before."""
    span = 2 * wide + (EDGE - 2)
    line = i64(first)
    to = v
    while line < last:
        n, row = line // down, line % down
        lines = min(down - row, last - line)
        high = 2 * lines + (EDGE - 2)
        top, left = 2 * row - padding, 2 * column - padding
        if (top < 0) | (left < 0) | (top + high > H) | (left + span > W):
            for i in range(high * span):
                store(frame + i * L, splat(T(0), L))
        for c in range(0, channels, L):
            source = x + (n * image + c * (H * W))
            read_channels(source, frame, H, W, top, high, left, span, T=T, L=L)
            at = to + (c // RUN * depth + c % RUN)
            transform(frame, at, wide, span, lines * wide, matrix, EDGE=EDGE, L=L)
        to = to + lines * wide * RUN
        line += lines


@routine
def tile(a, b, to, k, begin, T, MR, L):
    """MR tiles times 2 L channels, sums over k <= RUN channels: set, or with `begin` 0 added."""
    sums = [[splat(T(0), L) for _ in range(2)] for _ in range(MR)]
    for p in range(k):
        bs = [load(b + (p * 2 + v) * L, L) for v in range(2)]
        for r in unroll(MR):
            x = splat(a[r * RUN + p], L)
            for v in unroll(2):
                sums[r][v] = fma(bs[v], x, sums[r][v])
    for r in unroll(MR):
        for v in unroll(2):
            at = to + (2 * r + v) * L
            if begin == 0:
                sums[r][v] = sums[r][v] + load(at, L)
            store(at, sums[r][v])


@routine
def windows(w, u, plan, channels, FLIPPED, T, L):
    """u [16, RUN, 2 L] with gaps = G g G' of windows for 2 L output channels and up to RUN of the
    input, turned around where FLIPPED."""
    matrix = RUN * 2 * L + GAP
    half = splat(T(0.5), L)
    for v in range(2):
        to, lane = u + v * L, plan[Plan.LANE]
        at = [w + (v * L + i) * lane for i in range(L)]
        for c in range(channels):
            for i in unroll(L):
                prefetch(at[i] + (c + AHEAD) * plan[Plan.TAP])
            taps = []
            for first in unroll(range(0, 9, L)):
                mask, place = iota(i32, L) < i32(9 - first), c * plan[Plan.TAP] + first
                taps = taps + transposed([load(at[i] + place, L, mask) for i in range(L)], L)
            if FLIPPED:
                taps = taps[8::-1]
            g = [three(taps[3 * r : 3 * r + 3], half) for r in range(3)]
            for s in unroll(4):
                column = three([g[r][s] for r in range(3)], half)
                for r in unroll(4):
                    store(to + ((4 * r + s) * matrix + c * 2 * L), column[r])


@routine
def multiply(v, u, sums, tiles, k, matrix, across, begin, T, MR, L):
    """The 16 products of a block of 2 L output channels and k <= RUN of the input."""
    for i in range(16):
        b = u + i * (RUN * 2 * L + GAP)
        for r in range(0, tiles, MR):
            a, to = v + (i * matrix + r * RUN), sums + (i * across + r * 2 * L)
            if tiles - r > 2 * MR // 3:
                tile(a, b, to, k, begin, T=T, MR=MR, L=L)
            elif tiles - r > MR // 3:
                tile(a, b, to, k, begin, T=T, MR=2 * MR // 3, L=L)
            else:
                tile(a, b, to, k, begin, T=T, MR=MR // 3, L=L)


@routine
def transform_back(sums, bias, points, across, wide, tiles, matrix, T, L):
    """A' m A plus bias of some tiles, whose lines are `across` long, into lines of `wide` points,
    for 2 L channels; what it returns is not 0 when some are infinite or NaN."""
    W = 2 * L
    place, line = i64(0), points
    wrong = splat(T(0), L)
    for t in range(tiles):
        at = line + place * (2 * W)
        for v in unroll(2):
            m = [
                [load(sums + ((4 * r + s) * matrix + t * W + v * L), L) for s in range(4)]
                for r in range(4)
            ]
            m = [back(m[r]) for r in range(4)]
            for s in unroll(2):
                y = back([m[r][s] for r in range(4)])
                for r in unroll(2):
                    wrong = fma(y[r], splat(T(0), L), wrong)
                    result = y[r] + load(bias + v * L, L)
                    if s == 0:
                        store(at + (r * wide * W + v * L), result)
                    elif 2 * place + 1 < wide:
                        store(at + ((r * wide + 1) * W + v * L), result)
        place += 1
        if place == across:
            place = i64(0)
            line = line + 2 * wide * W
    return total(wrong)


@routine
def write_tiles(sums, bias, y, points, plan, first, last, column, wide, o, matrix, T, L):
    """The results of 2 L channels from `o` on, of the tiles that `read_tiles` read."""
    W = 2 * L
    down, height, width = plan[Plan.DOWN], plan[Plan.OUT_H], plan[Plan.OUT_W]
    span = min(2 * wide, width - 2 * column)
    line = i64(first)
    at = sums
    wrong = T(0)
    while line < last:
        n, row = line // down, line % down
        lines = min(down - row, last - line)
        high = min(2 * lines, height - 2 * row)
        wrong += transform_back(at, bias + o, points, wide, span, lines * wide, matrix, T=T, L=L)
        to = y + (((n * plan[Plan.LANES] + o) * height + 2 * row) * width + 2 * column)
        run = span
        if span == width:
            run, high = span * high, i64(1)
        for r in range(high):
            write_columns(points + r * span * W, to + r * width, height * width, run, i64(W),
                          E=T, L=L)  # fmt: skip
        at = at + lines * wide * W
        line += lines
    return wrong


@kernel
def convolve(FUSED, FLIPPED, x: Ptr[T], u: Ptr[T], bias: Ptr[T], y: Ptr[T], wrong: Ptr[T],
             plan: Ptr[i64]):  # fmt: skip
    """y = bias + x convolved with the windows of which `transform_windows` made u, or if FUSED with windows
    u, which each chunk transforms; wrong[0] becomes other than 0 when a result is infinite or NaN."""
    for lo, hi in parallel(plan[Plan.CHUNKS], 1):
        v = array(T, 16 * (ROOM + GAP))
        own = array(T, 16 * (RUN * 2 * L + GAP))
        sums = array(T, 16 * ((TILES + MR) * 2 * L + GAP))
        frame = array(T, (TILES + 1) * 8 * L)
        across = i64((TILES + MR) * 2 * L + GAP)
        for t in range(lo, hi):
            part, rest = t % plan[Plan.PARTS], t // plan[Plan.PARTS]
            piece, line = rest % plan[Plan.PIECES], rest // plan[Plan.PIECES] * plan[Plan.HIGH]
            last = min(line + plan[Plan.HIGH], plan[Plan.LINES])
            column = piece * plan[Plan.WIDE]
            wide = min(plan[Plan.WIDE], plan[Plan.ACROSS] - column)
            tiles, k = (last - line) * wide, plan[Plan.CHANNELS]
            runs = (k + (RUN - 1)) // RUN
            depth = (plan[Plan.HIGH] * plan[Plan.WIDE] + (MR - 1)) // MR * (MR * RUN)
            matrix = runs * depth + GAP
            read_tiles(x, v, frame, plan[Plan.H], plan[Plan.W], k, k * plan[Plan.H] * plan[Plan.W],
                       plan[Plan.PADDING], plan[Plan.DOWN], line, last, column, wide, matrix, depth,
                       EDGE=4, T=T, L=L)  # fmt: skip
            o = part * plan[Plan.PART]
            end = min(o + plan[Plan.PART], plan[Plan.LANES])
            while o < end:
                for run in range(runs):
                    c, begin = run * RUN, i64(1) if run == 0 else i64(0)
                    channels, ready = min(k - c, i64(RUN)), own
                    if FUSED:
                        source = u + (o * plan[Plan.LANE] + c * plan[Plan.TAP])
                        windows(source, own, plan, channels, FLIPPED=FLIPPED, T=T, L=L)
                    else:
                        ready = u + (o // (2 * L) * runs + run) * (16 * (RUN * 2 * L + GAP))
                    multiply(v + run * depth, ready, sums, tiles, channels, matrix, across, begin,
                             T=T, MR=MR, L=L)  # fmt: skip
                bad = write_tiles(
                    sums, bias, y, frame, plan, line, last, column, wide, o, across, T=T, L=L
                )
                if bad != T(0):
                    wrong[0] = bad
                o += 2 * L


@kernel
def transform_windows(FLIPPED, w: Ptr[T], u: Ptr[T], plan: Ptr[i64]):
    """What `windows` makes of all windows: u [O / 2 L, C / RUN, ...]."""
    runs = (plan[Plan.CHANNELS] + (RUN - 1)) // RUN
    for lo, hi in parallel(plan[Plan.LANES] // (2 * L) * runs, 8):
        for piece in range(lo, hi):
            o, c = piece // runs * (2 * L), piece % runs * RUN
            source = w + (o * plan[Plan.LANE] + c * plan[Plan.TAP])
            windows(source, u + piece * (16 * (RUN * 2 * L + GAP)), plan,
                    min(plan[Plan.CHANNELS] - c, i64(RUN)), FLIPPED=FLIPPED, T=T, L=L)  # fmt: skip


@routine
def add_products(v, u, z, tiles, rows, begin, T, MR, L):
    """z [rows, 2 L] = (or with `begin` 0: +=) the sums over tiles of v [tiles, rows] times u [tiles,
    2 L], for MR rows from the one at v on."""
    sums = [[splat(T(0), L) for _ in range(2)] for _ in range(MR)]
    for t in range(tiles):
        bs = [load(u + (t * RUN + s * L), L) for s in range(2)]
        for r in unroll(MR):
            x = splat(v[t * RUN + r], L)
            for s in unroll(2):
                sums[r][s] = fma(bs[s], x, sums[r][s])
    for r in unroll(MR):
        for s in unroll(2):
            at = z + (r * RUN + s * L)
            if begin == 0:
                sums[r][s] = sums[r][s] + load(at, L)
            store(at, sums[r][s])


@routine
def write_windows(z, y, rows, lanes, channels, matrix, T, L):
    """y [lanes, channels, 9] = G' z G for `rows` channels; returns as `transform_back`."""
    half, wrong = splat(T(0.5), L), splat(T(0), L)
    for o in range(0, lanes, L):
        for c in range(rows):
            at = z + (c * RUN + o)
            m = [[load(at + (4 * r + s) * matrix, L) for s in range(4)] for r in range(4)]
            m = [gathered(row, half) for row in m]
            columns = [gathered([row[s] for row in m], half) for s in range(3)]
            taps = [columns[i % 3][i // 3] for i in range(9)]
            for i in unroll(9):
                wrong = fma(taps[i], splat(T(0), L), wrong)
            for first in unroll(range(0, 9, L)):
                mask = iota(i32, L) < i32(9 - first)
                some = transposed([taps[min(first + i, 8)] for i in range(L)], L)
                for i in unroll(L):
                    store(y + (((o + i) * channels + c) * 9 + first), some[i], mask)
    return total(wrong)


@kernel
def convolve_weight(x: Ptr[T], g: Ptr[T], y: Ptr[T], parts: Ptr[T], wrong: Ptr[T], plan: Ptr[i64]):
    """y [O, C, 9] = the gradients of the windows for gradients g of results; `wrong` as `convolve`.

    Where lines of tiles are summed in parts, `parts` has room for a result of each. 2 L is a
    multiple of MR.
    """
    channels, lanes = plan[Plan.CHANNELS], plan[Plan.LANES]
    size = channels * lanes * 9
    for lo, hi in parallel(plan[Plan.CHUNKS], 1):
        matrix, square = i64(TILES * RUN + GAP), i64(RUN * RUN + GAP)
        v, u = array(T, 16 * (TILES * RUN + GAP)), array(T, 16 * (TILES * RUN + GAP))
        z = array(T, 16 * (RUN * RUN + GAP))
        frame = array(T, (TILES + 1) * 8 * L)
        for t in range(lo, hi):
            part, block = t % plan[Plan.SPLITS], t // plan[Plan.SPLITS]
            blocks = (channels + (RUN - 1)) // RUN
            c, o = block % blocks * RUN, block // blocks * RUN
            rows, columns = min(channels - c, i64(RUN)), min(lanes - o, i64(RUN))
            line = part * plan[Plan.SPLIT]
            end = min(line + plan[Plan.SPLIT], plan[Plan.LINES])
            places, points = plan[Plan.H] * plan[Plan.W], plan[Plan.OUT_H] * plan[Plan.OUT_W]
            begin = i64(1)
            while line < end:
                last = min(line + plan[Plan.HIGH], end)
                column = i64(0)
                while column < plan[Plan.ACROSS]:
                    wide = min(plan[Plan.WIDE], plan[Plan.ACROSS] - column)
                    tiles = (last - line) * wide
                    read_tiles(x + c * places, v, frame, plan[Plan.H], plan[Plan.W], rows,
                               channels * places, plan[Plan.PADDING], plan[Plan.DOWN], line,
                               last, column, wide, matrix, i64(0), EDGE=4, T=T, L=L)  # fmt: skip
                    read_tiles(g + o * points, u, frame, plan[Plan.OUT_H], plan[Plan.OUT_W],
                               columns, lanes * points, i64(0), plan[Plan.DOWN], line, last,
                               column, wide, matrix, i64(0), EDGE=2, T=T, L=L)  # fmt: skip
                    for i in range(16):
                        for p in range(0, columns, 2 * L):
                            for r in range(0, rows, MR):
                                add_products(
                                    v + (i * matrix + r), u + (i * matrix + p),
                                    z + (i * square + r * RUN + p), tiles, rows, begin,
                                    T=T, MR=MR, L=L,
                                )  # fmt: skip
                    begin = i64(0)
                    column += wide
                line = last
            to = y
            if plan[Plan.SPLITS] > 1:
                to = parts + part * size
            bad = write_windows(z, to + (o * channels + c) * 9, rows, columns, channels, square,
                                T=T, L=L)  # fmt: skip
            if bad != T(0):
                wrong[0] = bad
    if plan[Plan.SPLITS] > 1:
        for lo, hi in parallel((size + L - 1) // L, 1024):
            for i in range(lo, hi):
                mask = iota(i64, L) < size - i * L
                s = load(parts + i * L, L, mask)
                for part in range(1, plan[Plan.SPLITS]):
                    s = s + load(parts + (part * size + i * L), L, mask)
                store(y + i * L, s, mask)
