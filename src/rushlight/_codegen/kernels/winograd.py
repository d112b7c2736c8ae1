"""Convolutions in two dimensions with fewer multiplications than their sums have.

Winograd's minimal filtering F(2 x 2, 3 x 3) computes 2 x 2 results from 4 x 4 inputs d and a window g
with 16 multiplications instead of 36 (S. Winograd, "Arithmetic complexity of computations", 1980;
A. Lavin and S. Gray, "Fast algorithms for convolutional neural networks", 2016):

    Y = A' [(G g G') * (B' d B)] A

    B' = 1  0 -1  0     G =  1    0    0      A' = 1  1  1  0
         0  1  1  0         1/2  1/2  1/2          0  1 -1 -1
         0 -1  1  0         1/2 -1/2  1/2
         0  1  0 -1          0    0    1

`schemes.py` has that and others: B' is `input_transform`, G `weight_transform`, A' `output_transform`, and a product may be added to
others before the way back. Where windows are dilated by D, D x D tiles interleave in a block.

Over channels the multiplications are products of matrices, [tiles, C] times [C, O]. A chunk is some
blocks, whole lines of them where lines are short: its inputs are transformed once, and then for 2 L
output channels after the other come the products and the transform back. All that lies in the
second-level cache. In memory of its own a chunk has channels innermost, so that tiles at edges are
like any other.

The gradient of the windows is the transpose: G' [sum over tiles of (B' d B) * (A y A')] G for the
gradients y of results, products [C, tiles] times [tiles, O], for a block of `rows` x `columns` channels.

All extents stand in one array of integers, `plan` (`WinogradPlan` names its fields).
"""

from __future__ import annotations

from rushlight._codegen.conv_plan import WinogradPlan
from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.conv import LINE, write_columns, write_lines
from rushlight._codegen.kernels.gemm import load_line, store_line, transposed
from rushlight._codegen.kernels.schemes import RUN, SCHEMES, TILES, rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i32, i64

ROOM = 16 * 60 * 512  # elements of the matrices of a chunk's inputs, together, at most
AHEAD = 8  # channels whose windows are fetched in advance
GAP = 16  # elements between the matrices, which else would share a few lines of the cache


@inline
def combined(parts, v, T, L):
    """A row of a scheme's table times a vector."""
    results = []
    for part in unroll(parts):
        s = [v[abs(part[1]) - 1]]
        if part[1] < 0:
            s = [-s[0]]
        for k in unroll(part[2:]):
            if k > 0:
                s = [s[0] + v[k - 1]]
            else:
                s = [s[0] - v[-k - 1]]
        if part[0] != 1:
            s = [s[0] * splat(T(part[0]), L)]
        if results:
            s = [results[0] + s[0]]
        results = s
    return results[0]


@inline
def squared(rows, m, T, L):
    """The table times the matrix m times its transpose: as rows, and in them columns."""
    m = [[combined(r, line, T, L) for r in rows] for line in m]
    return [[combined(r, [line[s] for line in m], T, L) for s in range(len(rows))] for r in rows]


@routine(separate=True, quick=True)
def read_channels(x, frame, H, W, place, left, row, high, column, wide, T, L):
    """Of L channels of an image, of which `left` exist, rows [row, row + high) and columns [column,
    column + wide) into a frame with the channels innermost, as far as they exist; what else the frame
    holds stays. `place`: as WinogradPlan.X_LAST."""
    first, begin = max(row, i64(0)), max(column, i64(0))
    end, right = min(row + high, H), min(column + wide, W)
    run, rows, each = right - begin, end - first, right - begin
    skip = (wide - run) * L
    start = frame + ((first - row) * wide + (begin - column)) * L
    if place > 0:
        for r in range(rows):
            source, to = x + ((first + r) * W + begin) * place, start + r * wide * L
            for j in range(run):
                store(to + j * L, load_line(source + j * place, left, L))
    else:
        if run == W:  # rows follow each other
            run, rows = run * rows, i64(1)
        for r in range(rows):
            at = [x + (min(left - 1, i64(i)) * (H * W) + (first + r) * W + begin) for i in range(L)]
            to, count = start + r * wide * L, i64(0)
            for j in range(0, run, L):
                points = transposed([load_line(at[i] + j, run - j, L) for i in range(L)], L)
                for i in unroll(L):
                    if j + i < run:
                        store(to, points[i])
                    to = to + L
                    count += 1
                    if count == each:
                        count = i64(0)
                        to = to + skip


@routine
def transform(frame, to, blocks, lines, wide, dilation, matrix, ROW, EDGE, STEP, TABLE, T, L):
    """The values of the tiles of a frame, `lines` lines of `blocks` blocks, for L channels; a line of
    the frame is `wide`."""
    N = len(TABLE)
    for i in range(lines * dilation):
        line = frame + ((i // dilation * STEP) * dilation + i % dilation) * wide * L
        for b in range(blocks):
            for e in range(dilation):
                at = line + (b * STEP * dilation + e) * L
                down = dilation * wide * L
                d = [
                    [load(at + (r * down + s * dilation * L), L) for s in range(EDGE)]
                    for r in range(EDGE)
                ]
                d = [[combined(r, line, T, L) for r in TABLE] for line in d]
                for s in unroll(N):
                    column = [line[s] for line in d]
                    for r in unroll(N):
                        store(to + (N * r + s) * matrix, combined(TABLE[r], column, T, L))
                to = to + ROW


@routine(separate=True)
def read_tiles(
    x, v, frame, H, W, channels, image, place, padding, down, dilation, first, last, column, wide,
    matrix, depth, ROW, EDGE, STEP, TABLE, T, L,
):  # fmt: skip
    """The values of the tiles of lines [first, last), `wide` blocks from block `column` on, of so many
    channels from x on; an image is `image` elements from the one before."""
    span = (STEP * wide + (EDGE - STEP)) * dilation
    line = i64(first)
    to = v
    while line < last:
        n, row = line // down, line % down
        lines = min(down - row, last - line)
        high = (STEP * lines + (EDGE - STEP)) * dilation
        top, left = STEP * dilation * row - padding, STEP * dilation * column - padding
        if (top < 0) | (left < 0) | (top + high > H) | (left + span > W):
            for i in range(high * span):
                store(frame + i * L, splat(T(0), L))
        for c in range(0, channels, L):
            step = H * W
            if place > 0:
                step = i64(1)
            source = x + (n * image + c * step)
            read_channels(source, frame, H, W, place, channels - c, top, high, left, span,
                          T=T, L=L)  # fmt: skip
            at = to + (c // ROW * depth + c % ROW)
            transform(frame, at, wide, lines, span, dilation, matrix, ROW=ROW, EDGE=EDGE, STEP=STEP,
                      TABLE=TABLE, T=T, L=L)  # fmt: skip
        to = to + lines * wide * (dilation * dilation * ROW)
        line += lines


@routine
def tile(a, b, to, terms, count, matrix, k, begin, T, MR, L):
    """MR tiles times 2 L channels, sums over k <= RUN channels of `count` products: set, or with
    `begin` 0 added."""
    sums = [[splat(T(0), L) for _ in range(2)] for _ in range(MR)]
    for m in range(count):
        at, by = a + terms[3 * m + 1] * matrix, b + terms[3 * m + 2] * (RUN * 2 * L + GAP)
        for p in range(k):
            bs = [load(by + (p * 2 + v) * L, L) for v in range(2)]
            for r in unroll(MR):
                x = splat(at[r * RUN + p], L)
                for v in unroll(2):
                    sums[r][v] = fma(bs[v], x, sums[r][v])
    for r in unroll(MR):
        for v in unroll(2):
            here = to + (2 * r + v) * L
            if begin == 0:
                sums[r][v] = sums[r][v] + load(here, L)
            store(here, sums[r][v])


@inline
def taps_together(at, c, plan, K, T, L):
    """The taps of the windows of the input's channel c for L output channels, whose windows at `at` have them together."""
    taps, here = [], c * plan[WinogradPlan.TAP]
    for begin in unroll(range(0, K * K, L)):
        mask = iota(i32, L) < i32(K * K - begin)
        for i in unroll(L):
            prefetch(at[i] + (here + AHEAD * plan[WinogradPlan.TAP] + begin))
        if K * K - begin == 1:
            last = splat(T(0), L)
            for i in unroll(L):
                last = insert(last, i, at[i][here + begin])
            taps = taps + [last]
        else:
            taps = taps + transposed([load(at[i] + (here + begin), L, mask) for i in range(L)], L)
    return taps[: K * K]


@inline
def read_taps(at, own, channels, plan, K, T, L):
    """own [channels, taps, L] = the windows of L output channels at `at`, with the input's channels innermost."""
    for t in range(K * K):
        for c in range(0, channels, L):
            mask = iota(i32, L) < i32(channels - c)
            here = t * plan[WinogradPlan.PLACE] + c
            for i in unroll(L):
                prefetch(at[i] + (here + RUN))
            lines = transposed([load(at[i] + here, L, mask) for i in range(L)], L)
            for i in unroll(L):
                store(own + ((c + i) * (K * K) + t) * L, lines[i])


@routine(separate=True, quick=True)
def windows(w, u, plan, left, channels, ROWS, LAST, S, T, L):
    """u [products, RUN, 2 L] with gaps = G g G' of windows for 2 L output channels, of which `left`
    exist, and up to RUN of the input. ROWS: w is [O, C, taps], else [C, O, taps], which are turned around where the
    convolution has step 1; LAST: the second of these is innermost."""
    K, N = SCHEMES[S].taps, SCHEMES[S].products
    matrix = RUN * 2 * L + GAP
    own = array(T, K * K * RUN * L if ROWS and LAST else L)
    for v in range(2):
        to, lane = u + v * L, plan[WinogradPlan.LANE]
        at = [w + min(left - 1, v * L + i) * lane for i in range(L)]
        if ROWS and LAST:
            read_taps(at, own, channels, plan, K=K, T=T, L=L)
        for c in range(channels):
            if ROWS and LAST:
                taps = [load(own + (c * (K * K) + t) * L, L) for t in range(K * K)]
            elif LAST:
                here, place = at[0] + c * plan[WinogradPlan.TAP], plan[WinogradPlan.PLACE]
                mask = iota(i32, L) < i32(left - v * L)
                for t in unroll(K * K):
                    prefetch(here + (AHEAD * plan[WinogradPlan.TAP] + t * place))
                taps = [load(here + t * place, L, mask) for t in range(K * K)]
            else:
                taps = taps_together(at, c, plan, K=K, T=T, L=L)
            if not ROWS and SCHEMES[S].outputs == 2:
                taps = taps[::-1]
            g = [
                [combined(r, taps[K * i : K * i + K], T, L) for r in SCHEMES[S].weight_transform]
                for i in range(K)
            ]
            for s in unroll(N):
                column = [line[s] for line in g]
                for r in unroll(N):
                    store(
                        to + ((N * r + s) * matrix + c * 2 * L),
                        combined(SCHEMES[S].weight_transform[r], column, T, L),
                    )


@routine(separate=True, quick=True)
def multiply(v, u, sums, terms, products, tiles, k, matrix, across, begin, T, MR, L):
    """The products of a block of 2 L output channels and k <= RUN of the input."""
    done = i64(0)
    while done < products:
        at = terms + 3 * done
        point, count = at[0], i64(1)
        while (done + count < products) & (at[3 * count] == point):
            count += 1
        for r in range(0, tiles, MR):
            a, to = v + r * RUN, sums + (point * across + r * 2 * L)
            if tiles - r > 2 * MR // 3:
                tile(a, u, to, at, count, matrix, k, begin, T=T, MR=MR, L=L)
            elif tiles - r > MR // 3:
                tile(a, u, to, at, count, matrix, k, begin, T=T, MR=2 * MR // 3, L=L)
            else:
                tile(a, u, to, at, count, matrix, k, begin, T=T, MR=MR // 3, L=L)
        done += count


@routine
def transform_back(sums, bias, points, blocks, lines, wide, dilation, matrix, S, T, L):
    """The results, plus bias, of the tiles of some lines of blocks, into lines of `wide` points, for
    2 L channels; what it returns is not 0 when some are infinite or NaN."""
    W, N, OUT = 2 * L, SCHEMES[S].points, SCHEMES[S].outputs
    wrong = splat(T(0), L)
    at = sums
    for i in range(lines * dilation):
        line = points + ((i // dilation * OUT) * dilation + i % dilation) * wide * W
        for b in range(blocks):
            for e in range(dilation):
                column = b * OUT * dilation + e
                for v in range(2):
                    m = [
                        [load(at + ((N * r + s) * matrix + v * L), L) for s in range(N)]
                        for r in range(N)
                    ]
                    y = squared(SCHEMES[S].output_transform, m, T, L)
                    for s in unroll(OUT):
                        for r in unroll(OUT):
                            wrong = fma(y[r][s], splat(T(0), L), wrong)
                        if column + s * dilation < wide:
                            for r in unroll(OUT):
                                to = (
                                    line + (r * dilation * wide + column + s * dilation) * W + v * L
                                )
                                store(to, y[r][s] + load(bias + v * L, L))
                at = at + W
    return total(wrong)


@routine(separate=True, quick=True)
def write_tiles(
    sums, bias, y, points, plan, first, last, column, wide, o, left, matrix, S, T, L
) -> T:
    """The results of 2 L channels from `o` on, of which `left` exist, of the tiles that `read_tiles`
    read."""
    W = 2 * L
    each = SCHEMES[S].outputs * plan[WinogradPlan.DILATION]
    down, height, width = (
        plan[WinogradPlan.DOWN],
        plan[WinogradPlan.OUT_H],
        plan[WinogradPlan.OUT_W],
    )
    span = min(each * wide, width - each * column)
    line = i64(first)
    at = sums
    wrong = T(0)
    own, zeros = array(T, W * (LINE + L)), array(T, W)
    for v in unroll(2):
        store(zeros + v * L, splat(T(0), L))
    while line < last:
        n, row = line // down, line % down
        lines = min(down - row, last - line)
        high = min(each * lines, height - each * row)
        wrong += transform_back(at, bias + o, points, wide, lines, span, plan[WinogradPlan.DILATION], matrix,
                                S=S, T=T, L=L)  # fmt: skip
        to, place = y + n * plan[WinogradPlan.Y_IMAGE], plan[WinogradPlan.Y_LAST]
        if place > 0:
            for r in range(high):
                for j in range(span):
                    here = to + (((each * row + r) * width + each * column + j) * place + o)
                    for v in unroll(2):
                        source = points + ((r * span + j) * W + v * L)
                        store_line(here + v * L, load(source, L), left - v * L, L)
        else:
            to = to + ((o * height + each * row) * width + each * column)
            run = span
            if span == width:
                run, high = span * high, i64(1)
            for r in range(high):
                source, here = points + r * span * W, to + r * width
                if height * width % (4096 // T.size) == 0:  # whole pages dilation
                    write_lines(source, own, here, height * width, run, left, zeros, E=T, L=L)
                else:
                    write_columns(source, here, height * width, run, left, E=T, L=L)
        at = at + lines * wide * (plan[WinogradPlan.DILATION] * plan[WinogradPlan.DILATION] * W)
        line += lines
    return wrong


@kernel
def convolve(S, FUSED, ROWS, LAST, x: Ptr[T], u: Ptr[T], bias: Ptr[T], y: Ptr[T], wrong: Ptr[T],
             plan: Ptr[i64]):  # fmt: skip
    """y = bias + x convolved with the windows of which `transform_windows` made u, or if FUSED with windows
    u, which each chunk transforms; wrong[0] becomes other than 0 when a result is infinite or NaN.

    S: the number of the scheme. ROWS, LAST: as `windows`. bias: as many as there are in whole blocks of 2 L."""
    N, POINTS, OUT = (
        SCHEMES[S].products * SCHEMES[S].products,
        SCHEMES[S].points,
        SCHEMES[S].outputs,
    )
    EDGE, STEP = SCHEMES[S].edge, SCHEMES[S].step
    for lo, hi in parallel(plan[WinogradPlan.CHUNKS], 1):
        v = array(T, ROOM + SCHEMES[S].values * SCHEMES[S].values * GAP)
        own = array(T, N * (RUN * 2 * L + GAP) if FUSED else L)
        sums = array(T, POINTS * POINTS * ((TILES + MR) * 2 * L + GAP))
        frame = array(T, TILES * max(EDGE * EDGE, 2 * OUT * OUT) * L)
        across = i64((TILES + MR) * 2 * L + GAP)
        dilation = plan[WinogradPlan.DILATION]
        for t in range(lo, hi):
            part, rest = t % plan[WinogradPlan.PARTS], t // plan[WinogradPlan.PARTS]
            piece, line = (
                rest % plan[WinogradPlan.PIECES],
                rest // plan[WinogradPlan.PIECES] * plan[WinogradPlan.HIGH],
            )
            last = min(line + plan[WinogradPlan.HIGH], plan[WinogradPlan.LINES])
            column = piece * plan[WinogradPlan.WIDE]
            wide = min(plan[WinogradPlan.WIDE], plan[WinogradPlan.ACROSS] - column)
            tiles, k = (last - line) * wide * (dilation * dilation), plan[WinogradPlan.CHANNELS]
            runs = (k + (RUN - 1)) // RUN
            most = plan[WinogradPlan.HIGH] * plan[WinogradPlan.WIDE] * (dilation * dilation)
            depth = (most + (MR - 1)) // MR * (MR * RUN)
            matrix = runs * depth + GAP
            read_tiles(x, v, frame, plan[WinogradPlan.H], plan[WinogradPlan.W], k, plan[WinogradPlan.X_IMAGE],
                       plan[WinogradPlan.X_LAST], plan[WinogradPlan.PADDING], plan[WinogradPlan.DOWN], dilation, line, last,
                       column, wide, matrix, depth, ROW=RUN, EDGE=EDGE, STEP=STEP,
                       TABLE=SCHEMES[S].input_transform, T=T, L=L)  # fmt: skip
            o = part * plan[WinogradPlan.PART]
            end = min(o + plan[WinogradPlan.PART], plan[WinogradPlan.LANES])
            while o < end:
                left = min(end - o, i64(2 * L))
                for run in range(runs):
                    c, begin = run * RUN, i64(1) if run == 0 else i64(0)
                    channels, ready = min(k - c, i64(RUN)), own
                    if FUSED:
                        source = u + (o * plan[WinogradPlan.LANE] + c * plan[WinogradPlan.TAP])
                        windows(
                            source, own, plan, left, channels, ROWS=ROWS, LAST=LAST, S=S, T=T, L=L
                        )
                    else:
                        ready = u + (o // (2 * L) * runs + run) * (N * (RUN * 2 * L + GAP))
                    multiply(v + run * depth, ready, sums, plan + WinogradPlan.TERMS, i64(N), tiles,
                             channels, matrix, across, begin, T=T, MR=MR, L=L)  # fmt: skip
                bad = write_tiles(
                    sums, bias, y, frame, plan, line, last, column, wide, o, left, across, S=S, T=T,
                    L=L,
                )  # fmt: skip
                if bad != T(0):
                    wrong[0] = bad
                o += 2 * L


@kernel
def transform_windows(S, ROWS, LAST, w: Ptr[T], u: Ptr[T], plan: Ptr[i64]):
    """What `windows` makes of all windows: u [O / 2 L, C / RUN, ...]."""
    N = SCHEMES[S].products * SCHEMES[S].products
    runs = (plan[WinogradPlan.CHANNELS] + (RUN - 1)) // RUN
    for lo, hi in parallel((plan[WinogradPlan.LANES] + (2 * L - 1)) // (2 * L) * runs, 1):
        for piece in range(lo, hi):
            o, c = piece // runs * (2 * L), piece % runs * RUN
            source = w + (o * plan[WinogradPlan.LANE] + c * plan[WinogradPlan.TAP])
            windows(source, u + piece * (N * (RUN * 2 * L + GAP)), plan,
                    min(plan[WinogradPlan.LANES] - o, i64(2 * L)), min(plan[WinogradPlan.CHANNELS] - c, i64(RUN)),
                    ROWS=ROWS, LAST=LAST, S=S, T=T, L=L)  # fmt: skip


@routine
def add_products(v, u, z, tiles, begin, ROW, T, MR, L):
    """z [MR, 2 L] = (or with `begin` 0: +=) the sums over tiles of v [tiles, MR] times u [tiles, 2 L];
    rows of v are ROW dilation, of u and z RUN."""
    sums = [[splat(T(0), L) for _ in range(2)] for _ in range(MR)]
    for t in range(tiles):
        bs = [load(u + (t * RUN + s * L), L) for s in range(2)]
        for r in unroll(MR):
            x = splat(v[t * ROW + r], L)
            for s in unroll(2):
                sums[r][s] = fma(bs[s], x, sums[r][s])
    for r in unroll(MR):
        for s in unroll(2):
            at = z + (r * RUN + s * L)
            if begin == 0:
                sums[r][s] = sums[r][s] + load(at, L)
            store(at, sums[r][s])


@routine(separate=True, quick=True)
def write_windows(z, y, rows, lanes, channels, matrix, LAST, S, T, L) -> T:
    """y [lanes, channels, taps], or with LAST [lanes, taps, channels], = G' z G for `rows` channels; returns as
    `transform_back`."""
    K, N = SCHEMES[S].taps, SCHEMES[S].products
    wrong = splat(T(0), L)
    own = array(T, K * K * RUN * L if LAST else L)
    for o in range(0, lanes, L):
        for c in range(rows):
            at = z + (c * RUN + o)
            m = [[load(at + (N * r + s) * matrix, L) for s in range(N)] for r in range(N)]
            g = squared(SCHEMES[S].weight_transposed, m, T, L)
            for i in unroll(K * K):
                wrong = fma(g[i // K][i % K], splat(T(0), L), wrong)
            if LAST:
                for i in unroll(K * K):
                    store(own + (i * RUN + c) * L, g[i // K][i % K])
            else:
                for begin in unroll(range(0, K * K, L)):
                    mask = iota(i32, L) < i32(K * K - begin)
                    taps = [min(begin + i, K * K - 1) for i in range(L)]
                    taps = [g[i // K][i % K] for i in taps]
                    if K * K - begin > 1:
                        taps = transposed(taps, L)
                    for i in unroll(L):
                        if o + i < lanes:
                            to = y + (((o + i) * channels + c) * (K * K) + begin)
                            if K * K - begin > 1:
                                store(to, taps[i], mask)
                            else:
                                to[0] = lane(taps[0], i)
        if LAST:
            for tap in range(K * K):
                for c in range(0, rows, L):
                    mask = iota(i32, L) < i32(rows - c)
                    lines = transposed(
                        [load(own + (tap * RUN + c + i) * L, L) for i in range(L)], L
                    )
                    for i in unroll(L):
                        if o + i < lanes:
                            store(y + (((o + i) * (K * K) + tap) * channels + c), lines[i], mask)
    return total(wrong)


@kernel(quick=True)
def convolve_weight(S, LAST, x: Ptr[T], g: Ptr[T], y: Ptr[T], parts: Ptr[T], wrong: Ptr[T],
                    plan: Ptr[i64]):  # fmt: skip
    """y [O, C, taps], or with LAST [O, taps, C], = the gradients of the windows for gradients g of results; `wrong` as
    `convolve`.

    Where lines of tiles are summed in parts, `parts` has room for a result of each. The numbers of
    channels of a block are multiples of MR and of 2 L.
    """
    channels, lanes = plan[WinogradPlan.CHANNELS], plan[WinogradPlan.LANES]
    EDGE, STEP, OUT, K = SCHEMES[S].edge, SCHEMES[S].step, SCHEMES[S].outputs, SCHEMES[S].taps
    N, VALUES, POINTS, ROWS = SCHEMES[S].products, SCHEMES[S].values, SCHEMES[S].points, rows_of(S)
    size = channels * lanes * (K * K)
    for lo, hi in parallel(plan[WinogradPlan.CHUNKS], 1):
        of_v, of_u, square = i64(TILES * ROWS + GAP), i64(TILES * RUN + GAP), i64(ROWS * RUN + GAP)
        v = array(T, VALUES * VALUES * (TILES * ROWS + GAP))
        u = array(T, POINTS * POINTS * (TILES * RUN + GAP))
        z = array(T, N * N * (ROWS * RUN + GAP))
        frame = array(T, TILES * EDGE * EDGE * L)
        dilation = plan[WinogradPlan.DILATION]
        terms = plan + WinogradPlan.TERMS
        for t in range(lo, hi):
            part, block = t % plan[WinogradPlan.SPLITS], t // plan[WinogradPlan.SPLITS]
            blocks = (channels + (ROWS - 1)) // ROWS
            c, o = block % blocks * ROWS, block // blocks * RUN
            rows, columns = min(channels - c, i64(ROWS)), min(lanes - o, i64(RUN))
            line = part * plan[WinogradPlan.SPLIT]
            end = min(line + plan[WinogradPlan.SPLIT], plan[WinogradPlan.LINES])
            step_x, step_g = (
                plan[WinogradPlan.H] * plan[WinogradPlan.W],
                plan[WinogradPlan.OUT_H] * plan[WinogradPlan.OUT_W],
            )
            if plan[WinogradPlan.X_LAST] > 0:
                step_x = i64(1)
            if plan[WinogradPlan.Y_LAST] > 0:
                step_g = i64(1)
            begin = i64(1)
            while line < end:
                last = min(line + plan[WinogradPlan.HIGH], end)
                column = i64(0)
                while column < plan[WinogradPlan.ACROSS]:
                    wide = min(plan[WinogradPlan.WIDE], plan[WinogradPlan.ACROSS] - column)
                    tiles = (last - line) * wide * (dilation * dilation)
                    read_tiles(x + c * step_x, v, frame, plan[WinogradPlan.H], plan[WinogradPlan.W], rows,
                               plan[WinogradPlan.X_IMAGE], plan[WinogradPlan.X_LAST], plan[WinogradPlan.PADDING],
                               plan[WinogradPlan.DOWN], dilation, line, last, column, wide, of_v, i64(0),
                               ROW=ROWS, EDGE=EDGE, STEP=STEP, TABLE=SCHEMES[S].input_transform,
                               T=T, L=L)  # fmt: skip
                    read_tiles(g + o * step_g, u, frame, plan[WinogradPlan.OUT_H], plan[WinogradPlan.OUT_W],
                               columns, plan[WinogradPlan.Y_IMAGE], plan[WinogradPlan.Y_LAST], i64(0),
                               plan[WinogradPlan.DOWN], dilation, line, last, column, wide, of_u, i64(0),
                               ROW=RUN, EDGE=OUT, STEP=OUT, TABLE=SCHEMES[S].output_transposed,
                               T=T, L=L)  # fmt: skip
                    for i in range(N * N):
                        at = v + terms[3 * i + 1] * of_v
                        by, to = u + terms[3 * i] * of_u, z + terms[3 * i + 2] * square
                        for p in range(0, columns, 2 * L):
                            for r in range(0, rows, MR):
                                add_products(at + r, by + p, to + (r * RUN + p), tiles, begin,
                                             ROW=ROWS, T=T, MR=MR, L=L)  # fmt: skip
                    begin = i64(0)
                    column += wide
                line = last
            to_y = y
            if plan[WinogradPlan.SPLITS] > 1:
                to_y = parts + part * size
            to_y = to_y + (o * channels * (K * K) + (c if LAST else c * (K * K)))
            bad = write_windows(z, to_y, rows, columns, channels, square, LAST=LAST, S=S, T=T, L=L)
            if bad != T(0):
                wrong[0] = bad
    if plan[WinogradPlan.SPLITS] > 1:
        for lo, hi in parallel((size + L - 1) // L, 1024):
            for i in range(lo, hi):
                mask = iota(i64, L) < size - i * L
                s = load(parts + i * L, L, mask)
                for part in range(1, plan[WinogradPlan.SPLITS]):
                    s = s + load(parts + (part * size + i * L), L, mask)
                store(y + i * L, s, mask)
