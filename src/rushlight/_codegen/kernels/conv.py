"""Convolutions, all three directions, as products of matrices that are never written down.

A convolution is a product in which one factor is read from the padded input at `row[i] + column[j]`:
the place of an output and the place of a product within its window are independent of each other.
So one tile of registers computes everything: `MR` rows, each a number broadcast from where two
tables of offsets say, times vectors of a packed panel.

    result            rows            columns          panel (vectors along)
    output            its places      channel, tap     weight (output channels)
    input gradient    its places      channel, tap     weight, turned (input channels)
    weight gradient   channel, tap    places of g      g (output channels)

A strided convolution's input gradient falls into phases: places that see the same taps. Panels are
packed, and sums are kept, by each chunk for itself in memory that stays in the second-level cache.
An element is a sum of blocks of at most `DEPTH` products, added in an order that depends on the
shapes only. All extents and offsets come in one array of integers, `plan` (`Plan` names its fields).
"""

from __future__ import annotations

from rushlight._codegen.conv_plan import Plan
from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import added, pack_columns, store_line, transposed
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i32, i64

DEPTH = 576  # products of a block; a packed panel is 72 KiB
ROWS = 1000  # rows of a chunk; their sums are 125 KiB

LINE = 512  # places of a channel that are written at a time; 2 L channels of them fit in a panel
ROWS_OF_K, PANELS, TURNED = 0, 1, 2  # how `convolve` gets its weights


@routine
def tile(x, row, column, b, sums_at, to, k, rows, begin, T, MR, V, L):
    """Sums over k columns for `rows` rows, which are set (or with `begin` 0: added to) what stands at
    sums_at + to. Rows that do not exist are computed from the last one that does."""
    W = 2 * L
    at = [x + row[min(rows - 1, i64(r))] for r in range(MR)]
    sums = [[splat(T(0), L) for _ in range(V)] for _ in range(MR)]
    for j in range(k):
        o = column[j]
        bs = [load(b + (j * W + v * L), L) for v in range(V)]
        for r in unroll(MR):
            a = splat(at[r][o], L)
            for v in unroll(V):
                if typeof(x[0]) is T:
                    sums[r][v] = added(bs[v], a, sums[r][v])
                else:
                    sums[r][v] = bf16_pairs(bs[v], a, sums[r][v])
    for r in unroll(MR):
        if r < rows:
            p = sums_at + to[r]
            for v in unroll(V):
                if begin == 0:
                    sums[r][v] = sums[r][v] + load(p + v * L, L)
                store(p + v * L, sums[r][v])


@inline
def tiles(x, row, column, b, sums_at, to, k, rows, begin, left, T, MR, L):
    """All tiles of a block, of which `left` lanes are needed."""
    low = (MR + 2) // 3
    for i in range(0, rows, MR):
        rest = min(rows - i, MR)
        if left > L:
            if rest > low:
                tile(x, row + i, column, b, sums_at, to + i, k, rest, begin, T=T, MR=MR, V=2, L=L)
            else:
                tile(x, row + i, column, b, sums_at, to + i, k, rest, begin, T=T, MR=low, V=2, L=L)
        else:
            tile(x, row + i, column, b, sums_at, to + i, k, rest, begin, T=T, MR=MR, V=1, L=L)


@routine(separate=True)
def list_places(plan, at, to, first, last, fd, fh, fw, W) -> i64:
    """Of the places [first, last) those of phase (fd, fh, fw): where in the input their windows
    begin, where their sums stand; how many there are."""
    height, width = plan[Plan.OUT + 1], plan[Plan.OUT + 2]
    step, over = plan[Plan.TIMES + 2] * plan[Plan.X_STEP + 2], plan[Plan.OVER + 2]
    count = i64(0)
    for line in range(first // width, (last - 1) // width + 1):
        h, rest = line % height, line // height
        d, n = rest % plan[Plan.OUT], rest // plan[Plan.OUT]
        h = h * plan[Plan.TIMES + 1] + plan[Plan.PLUS + 1]
        d = d * plan[Plan.TIMES] + plan[Plan.PLUS]
        if (h % plan[Plan.OVER + 1] == fh) & (d % plan[Plan.OVER] == fd):
            begin = max(first - line * width, i64(0))
            end = min(last - line * width, width)
            begin = begin + (fw + over - (begin + plan[Plan.PLUS + 2]) % over) % over
            w = (begin * plan[Plan.TIMES + 2] + plan[Plan.PLUS + 2]) // over
            x = (
                n * plan[Plan.X_IMAGE]
                + d // plan[Plan.OVER] * plan[Plan.X_STEP]
                + h // plan[Plan.OVER + 1] * plan[Plan.X_STEP + 1]
                + w * plan[Plan.X_STEP + 2]
            )
            place = line * width + begin - first
            while begin < end:
                at[count] = x
                to[count] = place * W
                count += 1
                x += step
                place += over
                begin += over
    return count


@routine(separate=True, quick=True)
def write_columns(sums_at, y, channel, rows, left, E, L, bias=None):
    """Rows of 2 L sums each become columns: lane i of row r, and bias[i], goes to y[i * channel + r]."""
    W = 2 * L
    for r in range(0, rows, L):
        for v in unroll(2):
            if v * L < left:
                columns = transposed(
                    [load(sums_at + ((r + i) * W + v * L), L) for i in range(L)], L
                )
                for i in unroll(L):
                    if v * L + i < left:
                        column = columns[i]
                        if bias is not None:
                            column = column + splat(bias[v * L + i], L)
                        store_line(y + ((v * L + i) * channel + r), column, rows - r, L)


@routine(separate=True, quick=True)
def write_lines(sums_at, lines, y, channel, rows, left, bias, E, L):
    """As write_columns, by way of `lines`: one channel after the other, as channels of y may be whole
    pages apart, and lines of the cache that are written by turns would drive each other out."""
    W = 2 * L
    for first in range(0, rows, LINE):
        count = min(rows - first, LINE)
        for r in range(0, count, L):
            for v in unroll(2):
                if v * L < left:
                    at = sums_at + ((first + r) * W + v * L)
                    columns = transposed([load(at + i * W, L) for i in range(L)], L)
                    for i in unroll(L):
                        store(lines + ((v * L + i) * (LINE + L) + r), columns[i])
        for i in range(left):
            to, line = y + (i * channel + first), lines + i * (LINE + L)
            b = splat(bias[i], L)
            for r in range(0, count, L):
                store_line(to + r, load(line + r, L) + b, count - r, L)


@routine
def write_rows(sums_at, y, place, rows, left, bias, E, L):
    """Lane i of row r, and bias[i], goes to y[r * place + i]."""
    W = 2 * L
    masks = [iota(i32, L) < i32(left - v * L) for v in range(2)]
    biases = [load(bias + v * L, L, masks[v]) for v in range(2)]
    for r in range(rows):
        for v in unroll(2):
            row = load(sums_at + (r * W + v * L), L) + biases[v]
            store_line(y + (r * place + v * L), row, left - v * L, L)


@routine(separate=True)
def write_places(sums_at, lines, y, plan, first, last, left, bias, E, L):
    """The sums of places [first, last) and biases go to y, image after image. `lines`: memory."""
    W = 2 * L
    image = plan[Plan.OUT] * plan[Plan.OUT + 1] * plan[Plan.OUT + 2]
    p = i64(first)
    while p < last:
        n, place = p // image, p % image
        count = min(image - place, last - p)
        to = y + (n * plan[Plan.Y_IMAGE] + place * plan[Plan.Y_PLACE])
        if plan[Plan.Y_PLACE] == 1:
            at = sums_at + (p - first) * W
            if count > 4 * L:
                write_lines(at, lines, to, plan[Plan.Y_CHANNEL], count, left, bias, E=E, L=L)
            else:
                write_columns(at, to, plan[Plan.Y_CHANNEL], count, left, E=E, L=L, bias=bias)
        else:
            write_rows(
                sums_at + (p - first) * W, to, plan[Plan.Y_PLACE], count, left, bias, E=E, L=L
            )
        p += count


@routine
def turn_block(w, step, to, count, left, t_size, W, L):
    """A panel of the weights [count, left, T] of a transposed convolution, [count, T, W]; rows of w
    are `step` apart. Lanes that do not exist are copies of the last one that does."""
    for v in unroll(W // L):
        if v * L < left:
            for o in range(count):
                for t in range(0, t_size, L):
                    mask = iota(i32, L) < i32(t_size - t)
                    source = w + (o * step + t)
                    rows = [
                        load(source + min(left - 1, i64(v * L + i)) * t_size, L, mask)
                        for i in range(L)
                    ]
                    rows = transposed(rows, L)
                    for i in unroll(L):
                        if t + i < t_size:
                            store(to + ((o * t_size + t + i) * W + v * L), rows[i])


@kernel(quick=True)
def convolve(WEIGHTS, x: Ptr[B], w: Ptr[B], bias: Ptr[E], y: Ptr[E], plan: Ptr[i64]):
    """y = x convolved with w, plus bias, as `plan` says. B is E, or i32: pairs of bfloat16.

    WEIGHTS says what w is: ROWS_OF_K, [channels of the result, K]; PANELS, what `turn` makes; TURNED,
    the weights [O, C, TAPS] of a convolution whose transpose this is.
    """
    W = 2 * L
    for lo, hi in parallel(plan[Plan.CHUNKS], plan[Plan.GRAIN]):
        panel = array(B, (DEPTH + L) * W)
        sums_at = array(T, (ROWS + L) * W)
        at, to = array(i64, ROWS), array(i64, ROWS)
        for t in range(lo, hi):
            blocks, channels = plan[Plan.BLOCKS], plan[Plan.LANES]
            block = t % (blocks * plan[Plan.GROUPS])
            group, o = block // blocks, block % blocks * W
            left = min(channels - o, i64(W))
            o = o + group * channels
            first = t // (blocks * plan[Plan.GROUPS]) * plan[Plan.SIZE]
            last = min(first + plan[Plan.SIZE], plan[Plan.PLACES])
            phase = plan + Plan.PHASES
            for fd in range(plan[Plan.OVER]):
                for fh in range(plan[Plan.OVER + 1]):
                    for fw in range(plan[Plan.OVER + 2]):
                        count = list_places(plan, at, to, first, last, fd, fh, fw, W=W)
                        k, column = phase[0], plan + phase[2]
                        if k == 0:
                            for i in range(count):
                                for v in unroll(2):
                                    store(sums_at + (to[i] + v * L), splat(T(0), L))
                        j = i64(0)
                        while j < k:
                            deep = min(plan[Plan.DEEP], k - j)
                            rows = panel
                            if WEIGHTS == PANELS:
                                rows = w + (phase[1] + (block * k + j) * W)
                            elif WEIGHTS == TURNED:
                                taps = plan[Plan.TAPS]
                                row = group * (k // taps) + j // taps
                                at_w = w + (row * channels + block % blocks * W) * taps
                                turn_block(at_w, channels * taps, panel, deep // taps, left, taps,
                                           W=W, L=L)  # fmt: skip
                            else:
                                pack_columns(w + (o * k + j), k, panel, deep, left, W=W, L=L)
                            tiles(x + group * plan[Plan.X_GROUP], at, column + j, rows, sums_at,
                                  to, deep, count, i64(1) if j == 0 else i64(0), left, T, MR, L)  # fmt: skip
                            j += deep
                        phase = phase + 3
            to_y = y + o * plan[Plan.Y_CHANNEL]
            lines = bits(panel, Ptr[T])
            write_places(sums_at, lines, to_y, plan, first, last, left, bias + o, E=E, L=L)


@routine(separate=True)
def pack_places(g, plan, to, first, count, left, W, L):
    """A panel of `left` channels of g at the places [first, first + count), image after image."""
    image = plan[Plan.OUT] * plan[Plan.OUT + 1] * plan[Plan.OUT + 2]
    p = i64(0)
    while p < count:
        n, place = (first + p) // image, (first + p) % image
        here = min(image - place, count - p)
        source = g + (n * plan[Plan.Y_IMAGE] + place * plan[Plan.Y_PLACE])
        if plan[Plan.Y_PLACE] == 1:
            pack_columns(source, plan[Plan.Y_CHANNEL], to + p * W, here, left, W=W, L=L)
        else:
            for j in range(here):
                for v in unroll(W // L):
                    row = load(
                        source + (j * plan[Plan.Y_PLACE] + v * L),
                        L,
                        iota(i32, L) < i32(left - v * L),
                    )
                    store(to + ((p + j) * W + v * L), row)
        p += here


@kernel(quick=True)
def convolve_weight(x: Ptr[B], g: Ptr[B], y: Ptr[E], parts: Ptr[T], plan: Ptr[i64]):
    """y [O, K] = the sums over all places of g times what the windows read of x. B is E, or i32: pairs
    of bfloat16.

    Where the places are summed in parts, `parts` has room for a result of each.
    """
    W = 2 * L
    k, column = plan[Plan.PHASES], plan + plan[Plan.PHASES + 2]
    size = plan[Plan.GROUPS] * plan[Plan.LANES] * k
    for lo, hi in parallel(plan[Plan.CHUNKS], plan[Plan.GRAIN]):
        panel = array(B, (DEPTH + L) * W)
        sums_at = array(T, (ROWS + L) * W)
        at, to, line = array(i64, DEPTH), array(i64, DEPTH), array(i64, ROWS)
        for r in range(ROWS):
            line[r] = r * W
        for t in range(lo, hi):
            blocks, channels = plan[Plan.BLOCKS], plan[Plan.LANES]
            block, rest = t % (blocks * plan[Plan.GROUPS]), t // (blocks * plan[Plan.GROUPS])
            group, o = block // blocks, block % blocks * W
            left = min(channels - o, i64(W))
            o = o + group * channels
            down = (k + plan[Plan.DEEP] - 1) // plan[Plan.DEEP]
            part, row = rest // down, rest % down * plan[Plan.DEEP]
            rows = min(plan[Plan.DEEP], k - row)
            first = part * plan[Plan.SPLIT]
            last = min(first + plan[Plan.SPLIT], plan[Plan.PLACES])
            p = i64(first)
            while p < last:
                deep = min(last - p, i64(DEPTH))
                zero = i64(0)
                list_places(plan, at, to, p, p + deep, zero, zero, zero, W=W)
                pack_places(g + o * plan[Plan.Y_CHANNEL], plan, panel, p, deep, left, W=W, L=L)
                begin = i64(1) if p == first else zero
                tiles(
                    x + group * plan[Plan.X_GROUP], column + row, at, panel, sums_at, line, deep,
                    rows, begin, left, T, MR, L,
                )  # fmt: skip
                p += deep
            if plan[Plan.SPLITS] == 1:
                write_columns(sums_at, y + (o * k + row), k, rows, left, E=E, L=L)
            else:
                to_part = parts + (part * size + o * k + row)
                write_columns(sums_at, to_part, k, rows, left, E=T, L=L)
    if plan[Plan.SPLITS] > 1:
        for lo, hi in parallel((size + L - 1) // L, 1024):
            for i in range(lo, hi):
                mask = iota(i64, L) < size - i * L
                s = load(parts + i * L, L, mask)
                for part in range(1, plan[Plan.SPLITS]):
                    s = s + load(parts + (part * size + i * L), L, mask)
                store(y + i * L, s, mask)


@kernel
def spread(x: Ptr[E], y: Ptr[T], plan: Ptr[i64]):
    """Rows of [outer, D, H, run] into larger ones of zeros: y [outer, DP, HP, runP].

    `plan`: outer, D, H, run, DP, HP, runP, elements of y from one `outer` to the next, from one DP
    to the next, then how far D, H and run are moved (where less than 0, they are cut).
    """
    rows = plan[4] * plan[5]
    for lo, hi in parallel(plan[0] * rows, max(32768 // plan[6], i64(1))):
        run, low = plan[3], plan[11]
        for t in range(lo, hi):
            n, h, d = t // rows, t % plan[5], t % rows // plan[5]
            to = y + (n * plan[7] + d * plan[8] + h * plan[6])
            h, d = h - plan[10], d - plan[9]
            inside = (h >= 0) & (h < plan[2]) & (d >= 0) & (d < plan[1])
            begin = low if inside else i64(0)
            end = low + run if inside else i64(0)
            source = x + (((n * plan[1] + d) * plan[2] + h) * run - low)
            for j in range(0, plan[6], L):
                if (j >= begin) & (j + L <= end):
                    value = load(source + j, L)
                else:
                    place = iota(i32, L) + i32(j)
                    value = load(source + j, L, (place >= i32(begin)) & (place < i32(end)))
                store_line(to + j, value, plan[6] - j, L)


@kernel(quick=True)
def turn(w: Ptr[E], y: Ptr[T], plan: Ptr[i64]):
    """Panels of the weights [groups, O, C, T] of a convolution for its transpose: for each phase
    [groups, blocks of C, O, taps of the phase, 2 L].

    `plan`: groups, O, C, T, number of phases, then for each phase its number of taps and where its
    panels begin, then for each tap its phase and its number there.
    """
    W = 2 * L
    o_size, c_size, t_size = plan[1], plan[2], plan[3]
    taps = plan + (5 + 2 * plan[4])
    blocks = (c_size + (W - 1)) // W
    for lo, hi in parallel(plan[0] * blocks * 2, max(65536 // (o_size * t_size * W), i64(1))):
        for b in range(lo, hi):
            v, block = b % 2 * L, b // 2
            c = block % blocks * W + v
            left = min(c_size - c, i64(L))
            if left > 0:
                for o in range(o_size):
                    source = w + ((block // blocks * o_size + o) * c_size + c) * t_size
                    if t_size == 1:
                        row = load(source, L, iota(i32, L) < i32(left))
                        store(y + ((block * o_size + o) * W + v), row)
                    else:
                        for t in range(0, t_size, L):
                            mask = iota(i32, L) < i32(t_size - t)
                            rows = [
                                load(source + (min(left - 1, i64(i)) * t_size + t), L, mask)
                                for i in range(L)
                            ]
                            rows = transposed(rows, L)
                            for i in unroll(L):
                                if t + i < t_size:
                                    phase = plan + (5 + 2 * taps[2 * (t + i)])
                                    at = (block * o_size + o) * phase[0] + taps[2 * (t + i) + 1]
                                    store(y + (phase[1] + at * W + v), rows[i])
