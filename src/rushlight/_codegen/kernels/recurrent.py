"""All steps of a recurrent layer in one call: LSTM, GRU, and plain ones with tanh or relu.

Their gradients are in `recurrent_gradients.py`.

A block is some units with all their gates: its weights are packed once, side by side, into a panel
as wide as a tile (see `gemm.py`), so that a tile's sums are all gates of its units. For a step and a
block, the inputs times their weights (of some steps at once, where a step has few rows) are followed
by the states times theirs and by the new states; nothing of it leaves the second-level cache.

Threads share rows, each for all steps, where the weights fit into the cache of each; else they share
the blocks of each step, so that a thread meets the same weights in every step. Blocks are gone
through forwards and backwards in turn: the weights that were read last are read first. All sums are
the same sums in the same order in any case.

At step t rows 0 to n - 1 are computed, or, of packed sequences, the first places[t] ones, which stand
in the inputs and outputs from row places[steps + t] on.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import gemv, math
from rushlight._codegen.kernels.gemm import ADD, BIAS, SET, load_line, store_line, transposed
from rushlight._codegen.language import *
from rushlight._codegen.product_sizes import GATES, SAVED
from rushlight._codegen.types import Ptr, f32, i32, i64

FETCH = 24  # rows of a panel that are fetched before they are needed
SPACE = 32  # numbers between what two threads write
ROWS = 48  # that a thread goes through all steps with, at most; also of a GRU's scratch


@inline
def exp_parts(x):
    """(p, s): e**x = s + p * s, of x between -87 (-708) and 87 (708); p is exact near 0."""
    T = typeof(x)
    I = i32 if T is f32 else i64
    t = fma(x, float(1 / math.LN2), math.MAGIC[T])
    r = t - math.MAGIC[T]
    high, low = math.split(math.LN2, 15 if T is f32 else 40)
    f = fma(r, -low, fma(r, -high, x))
    rest = math.polynomial(math._exp_rest, -math.HALF_LN2, math.HALF_LN2, 4 if T is f32 else 9)
    one = 127 << 23 if T is f32 else 1023 << 52  # the exponent of 1; the shift drops all but n
    s = bits((bits(t, I) << (23 if T is f32 else 52)) + one, T)
    return fma(math.horner(f, rest) * f, f, f), s


@inline
def sigmoid(x):
    """1 / (1 + exp(-x)), at most 3 ULP where that is above 1e-37."""
    most = 87.0 if typeof(x) is f32 else 708.0
    c = -most if x < -most else x
    c = most if c > most else c
    p, s = exp_parts(-c)
    return 1 / (fma(p, s, s) + 1)


@inline
def tanh(x):
    """The hyperbolic tangent, at most 3 ULP."""
    most = 10.0 if typeof(x) is f32 else 22.0
    a = abs(x)
    c = most if a > most else a
    p, s = exp_parts(c + c)
    e = fma(p, s, s - 1)  # exp(2 c) - 1
    return copysign(e / (e + 2), x)


@inline
def positive(x):
    """x, 0 where it is negative, NaN where it is that."""
    return select(x < 0.0, typeof(x)(0), x)


@routine
def tile(a, along, b, b_step, c, ldc, bias, k, rows, begin, T, MR, V, L):
    """C [rows, V * L] becomes the product of rows of A, `along` apart, and of a panel, whose rows are
    `b_step`, plus what it was or a bias, or neither; see `gemm.py`.

    The panel is read once for each few rows, from the second-level cache or farther off: so it is
    fetched ahead, unless there is no time for that.
    """
    sums = [[splat(T(0), L) for _ in range(V)] for _ in range(MR)]
    at = [a + min(rows - 1, r) * along for r in range(MR)]
    for p in range(k):
        here = b + p * b_step
        if MR > 2:
            for v in unroll(V):
                prefetch(here + (FETCH * b_step + v * L))
        # All numbers of the shorter side stay in registers: with the longer side's there are too few.
        if MR < V:
            xs = [splat(at[r][p], L) for r in range(MR)]
            for v in unroll(V):
                w = load(here + v * L, L)
                for r in unroll(MR):
                    sums[r][v] = fma(w, xs[r], sums[r][v])
        else:
            ws = [load(here + v * L, L) for v in range(V)]
            for r in unroll(MR):
                x = splat(at[r][p], L)
                for v in unroll(V):
                    sums[r][v] = fma(ws[v], x, sums[r][v])
    more, step = c, ldc
    if begin == BIAS:
        more, step = bias, i64(0)
    if begin != SET:
        for r in unroll(MR):
            for v in unroll(V):
                there = more + (min(rows - 1, r) * step + v * L)
                sums[r][v] = sums[r][v] + load(there, L)
    for r in unroll(MR):
        if r < rows:
            for v in unroll(V):
                store(c + (r * ldc + v * L), sums[r][v])


@routine(separate=True, quick=True)
def block(a, along, b, b_step, c, ldc, bias, k, rows, begin, T, MR, V, L):
    """Tiles below each other, the last one as low as will do."""
    third = MR // 3
    for i in range(0, rows, MR):
        rest, at, to = rows - i, a + i * along, c + i * ldc
        if rest > 2 * third:
            tile(at, along, b, b_step, to, ldc, bias, k, min(rest, MR), begin,
                 T=T, MR=MR, V=V, L=L)  # fmt: skip
        elif rest > third:
            tile(at, along, b, b_step, to, ldc, bias, k, rest, begin,
                 T=T, MR=2 * third, V=V, L=L)  # fmt: skip
        else:
            tile(at, along, b, b_step, to, ldc, bias, k, rest, begin,
                 T=T, MR=third, V=V, L=L)  # fmt: skip


@inline
def cell(v, own, state, KIND):
    """(new state, new cell, what is saved) of the gates before their functions, for a GRU those from
    the state in `own`, and the last cell (LSTM) or state (GRU)."""
    if KIND == "lstm":
        i, f, o = [sigmoid(v[gate]) for gate in (0, 1, 3)]
        g = tanh(v[2])
        now = f * state + i * g
        q = tanh(now)
        result, saved = o * q, [i, f, g, o, q, state]
    elif KIND == "gru":
        reset, z = sigmoid(v[0] + own[0]), sigmoid(v[1] + own[1])
        q = tanh(reset * own[2] + v[2])
        now = (state - q) * z + q
        result, saved = now, [reset, z, q, own[2], state]
    else:
        now = tanh(v[0]) if KIND == "tanh" else positive(v[0])
        result, saved = now, []
    return result, now, saved


@routine(separate=True, quick=True)
def pack_gates(w, to, size, depth, u, G, W, L):
    """The weights [G * size, depth] of all G gates of W units from u on, side by side:
    [depth, G * W]. Units that do not exist are copies of the last one."""
    for v in range(G * W // L):
        first = u + v * L % W
        at = [w + (v * L // W * size + min(size - 1, first + i)) * depth for i in range(L)]
        for p in range(0, depth, L):
            rows = transposed([load_line(at[i] + p, depth - p, L) for i in range(L)], L)
            for i in unroll(L):
                if p + i < depth:
                    store(to + ((p + i) * (G * W) + v * L), rows[i])


@routine
def pack_bias(bias, to, size, u, G, W, L):
    """The biases of all G gates of W units from u on: [G * W]."""
    for v in range(G * W // L):
        first = u + v * L % W
        here = iota(i64, L) < size - first
        store(to + v * L, load(bias + (v * L // W * size + first), L, here))


@routine
def pack(w_ih, w_hh, bias, own_bias, panels, features, size, low, high, KIND, W, L):
    """The panels of blocks from low to high."""
    A = GATES[KIND] * W
    for b in range(low, high):
        panel, u = panels + b * ((features + size + 2) * A), b * W
        pack_gates(w_ih, panel, size, features, u, G=GATES[KIND], W=W, L=L)
        pack_gates(w_hh, panel + features * A, size, size, u, G=GATES[KIND], W=W, L=L)
        pack_bias(bias, panel + (features + size) * A, size, u, G=GATES[KIND], W=W, L=L)
        if KIND == "gru":
            pack_bias(own_bias, panel + (features + size + 1) * A, size, u, G=3, W=W, L=L)


@inline
def place(places, ragged, steps, t, n, along, across):
    """Of step t: how many rows there are, how many are before it, and where the first one is, for
    `along` elements a step and `across` elements a row."""
    count, before, at = n, t * n, t * along
    if ragged == 1:
        count, before = places[t], places[steps + t]
        at = before * across
    return count, before, at


@inline
def saved_at(low, height, t, b, blocks, steps, before, count, ragged):
    """Where what a group of rows needs of step t and block b begins, counted in blocks of one row.

    Each group of a thread has its own part, lest two write to neighbouring lines of the cache; packed
    sequences stand step by step."""
    at = (low * steps + t * height) * blocks + b * height
    if ragged == 1:
        at = before * blocks + b * count + low
    return at


@inline
def parts_of(own, height, wide):
    """Of a group's memory: the states (two halves), the cells, the inputs' part."""
    return own, own + 2 * height * wide, own + 3 * height * wide


@routine
def begin(own, h, c, low, height, size, wide, KIND, L):
    """Both halves of the states, and the cells, are the first ones."""
    states, cells, _ = parts_of(own, height, wide)
    for r in range(height):
        for u in range(0, size, L):
            here = iota(i64, L) < size - u
            at, to = (low + r) * size + u, r * wide + u
            for half in unroll(2):
                store(states + (half * height * wide + to), load(h + at, L, here))
            if KIND == "lstm":
                store(cells + to, load(c + at, L, here))


@routine
def finish(own, places, h, c, low, height, size, wide, steps, reverse, ragged, KIND, L):
    """The last states and cells."""
    states, cells, _ = parts_of(own, height, wide)
    for r in range(height):
        taken = steps
        if (ragged == 1) & (reverse == 0):
            while places[taken - 1] <= low + r:
                taken -= 1
        for u in range(0, size, L):
            here = iota(i64, L) < size - u
            at, to = (low + r) * size + u, r * wide + u
            store(h + at, load(states + (taken % 2 * height * wide + to), L), here)
            if KIND == "lstm":
                store(c + at, load(cells + to, L), here)


@routine
def advance(
    x, panels, own, y, kept, places, steps, n, features, size, xt, xr, yt, yr, keep,
    reverse, ragged, ahead, s, low, high, b,
    KIND, T, L, U, MR,
):  # fmt: skip
    """Step s (counted as they are taken) of rows from low to high and the units of block b."""
    G, W = GATES[KIND], U * L
    A = G * W
    blocks = (size + (W - 1)) // W
    wide = blocks * W
    t = s if reverse == 0 else steps - 1 - s
    height = high - low
    panel = panels + b * ((features + size + 2) * A)
    bias = panel + (features + size) * A

    # The inputs' part, of some steps at once.
    begin = s // ahead * ahead
    many = min(ahead, steps - begin)
    least = begin if reverse == 0 else steps - begin - many
    h, c, buffer = parts_of(own, height, wide)
    part = buffer + b * (ahead * height * A)
    if s == begin:
        line = xt if height == 1 else xr
        if (ragged == 0) & ((height == 1) | ((height == n) & (xt == n * xr)) | (many == 1)):
            block(x + (least * xt + low * xr), line, panel, i64(A), part, i64(A), bias, features,
                  many * height, i64(BIAS), T=T, MR=MR, V=G * U, L=L)  # fmt: skip
        else:
            for later in range(many):
                count, _, at = place(places, ragged, steps, least + later, n, xt, xr)
                rows = min(high, count) - low
                if rows > 0:
                    block(x + (at + low * xr), xr, panel, i64(A), part + later * height * A, i64(A),
                          bias, features, rows, i64(BIAS), T=T, MR=MR, V=G * U, L=L)  # fmt: skip

    count, before, at = place(places, ragged, steps, t, n, yt, yr)
    rows = min(high, count) - low
    if rows > 0:
        old, new = h + s % 2 * height * wide, h + (s + 1) % 2 * height * wide
        mine = part + (t - least) * height * A
        scratch = array(T, ROWS * A if KIND == "gru" else 1)
        weights = panel + features * A
        u = b * W
        to = kept + saved_at(low, height, t, b, blocks, steps, before, count, ragged) * (
            SAVED[KIND] * W
        )
        if KIND != "gru":
            block(old, wide, weights, i64(A), mine, i64(A), bias, size, rows, i64(ADD),
                  T=T, MR=MR, V=G * U, L=L)  # fmt: skip
        for first in range(0, rows, ROWS):
            some = min(i64(ROWS), rows - first)
            if KIND == "gru":
                block(old + first * wide, wide, weights, i64(A), scratch, i64(A), bias + A, size, some,
                      i64(BIAS), T=T, MR=MR, V=G * U, L=L)  # fmt: skip
            for r_ in range(some):
                r = first + r_
                for k in unroll(U):
                    v = [load(mine + (r * A + gate * W + k * L), L) for gate in range(G)]
                    place_h = r * wide + u + k * L
                    state = load((c if KIND == "lstm" else old) + place_h, L)
                    own_part = v
                    if KIND == "gru":
                        own_part = [load(scratch + (r_ * A + gate * W), L) for gate in range(G)]
                    result, now, saved = cell(v, own_part, state, KIND)
                    if KIND == "lstm":
                        store(c + place_h, now)
                    store(new + place_h, result)
                    store_line(y + (at + (low + r) * yr + u + k * L), result, size - u - k * L, L)
                    if keep == 1:
                        for j in unroll(len(saved)):
                            store(to + (r * len(saved) + j) * W, saved[j])


@inline
def filled(rest, count):
    """Write what is behind the rows of what is kept, whose number alone is read: a program finds that a step is its
    kernels by all that they give."""
    for r in range(count):
        rest[r] = typeof(rest[r])(0)


@kernel(quick=True)
def layer(
    KIND, x: Ptr[T], w_ih: Ptr[T], w_hh: Ptr[T], bias: Ptr[T], own_bias: Ptr[T], h: Ptr[T],
    c: Ptr[T], y: Ptr[T], last_h: Ptr[T], last_c: Ptr[T], kept: Ptr[T], work: Ptr[T],
    places: Ptr[i64], steps: i64, n: i64, features: i64, size: i64, xt: i64, xr: i64, yt: i64,
    yr: i64, keep: i64, reverse: i64, ragged: i64, ahead: i64, height: i64, grain: i64,
    copies: i64,
):  # fmt: skip
    """The outputs of all steps, the last states, and what the gradients need if `keep` is 1.

    x: rows of `features` numbers, at t * xt + r * xr; y the same with `size`; w_ih [gates * size,
    features], w_hh [gates * size, size]; bias: of the inputs' part, own_bias: of a GRU's states'
    part; h, c, last_h, last_c [n, size]; kept [rows of all steps, SAVED, wide], `wide` for `size`
    rounded up to whole blocks; work: panels [copies, features + size + 2, gates * wide], and of each
    group of `height` rows [height, 3 * wide + ahead * gates * wide + SPACE]. Threads share groups or,
    if `grain` is not 0, so many blocks at a time. `copies`: 1, or the number of groups, each of which
    then packs the weights for itself: to fetch them from another core's cache takes longer.
    """
    G, W = GATES[KIND], U * L
    blocks = (size + (W - 1)) // W
    wide = blocks * W
    panels = blocks * ((features + size + 2) * (G * W))
    groups = work + copies * panels
    if (steps == 1) & (keep == 1):
        filled(kept + n * (SAVED[KIND] * wide), height)
    if copies == 1:
        for lo, hi in parallel(
            blocks, grain if grain > 0 else 1 + 16384 // ((features + size) * G * W)
        ):
            pack(w_ih, w_hh, bias, own_bias, work, features, size, lo, hi, KIND=KIND, W=W, L=L)
    if grain == 0:
        for low, high in parallel(n, height):
            own = groups + low * ((3 + ahead * G) * wide + SPACE)
            mine = work
            if copies > 1:
                mine = work + low // height * panels
                pack(w_ih, w_hh, bias, own_bias, mine, features, size, i64(0), blocks,
                     KIND=KIND, W=W, L=L)  # fmt: skip
            begin(own, h, c, low, high - low, size, wide, KIND=KIND, L=L)
            for s in range(steps):
                for k in range(blocks):
                    b = k if s % 2 == 0 else blocks - 1 - k
                    advance(x, mine, own, y, kept, places, steps, n, features, size, xt, xr, yt, yr,
                            keep, reverse, ragged, ahead, s, low, high, b,
                            KIND=KIND, T=T, L=L, U=U, MR=MR)  # fmt: skip
            finish(own, places, last_h, last_c, low, high - low, size, wide, steps, reverse, ragged,
                   KIND=KIND, L=L)  # fmt: skip
    else:
        begin(groups, h, c, i64(0), n, size, wide, KIND=KIND, L=L)
        for s in range(steps):
            for lo, hi in parallel(blocks, grain):
                for k in range(lo, hi):
                    b = k if s % 2 == 0 else lo + hi - 1 - k
                    advance(x, work, groups, y, kept, places, steps, n, features, size, xt, xr, yt,
                            yr, keep, reverse, ragged, ahead, s, i64(0), n, b,
                            KIND=KIND, T=T, L=L, U=U, MR=MR)  # fmt: skip
        finish(groups, places, last_h, last_c, i64(0), n, size, wide, steps, reverse, ragged,
               KIND=KIND, L=L)  # fmt: skip


@kernel(quick=True)
def step(
    KIND, x: Ptr[T], w_ih: Ptr[T], w_hh: Ptr[T], bias: Ptr[T], own_bias: Ptr[T], h: Ptr[T],
    c: Ptr[T], y: Ptr[T], last_h: Ptr[T], last_c: Ptr[T], kept: Ptr[T], work: Ptr[T], n: i64,
    features: i64, size: i64, xr: i64, keep: i64,
):  # fmt: skip
    """As `layer` for one step and at most J rows: the weights are read where they are.

    Both biases may be any; work [2, n, gates * size]."""
    G, both = GATES[KIND], features + size
    line = G * size
    for lo, hi in parallel(line, (gemv.CHUNK // both + R) // R * R):
        for i in range(lo, hi, R):
            gemv.dots(w_ih + i * features, features, x, xr, features, min(hi - i, R), work + i, line,
                      i64(1), n, True, T=T, R=R, U=U, J=J, L=L)  # fmt: skip
            gemv.dots(w_hh + i * size, size, h, size, size, min(hi - i, R), work + n * line + i, line,
                      i64(1), n, True, T=T, R=R, U=U, J=J, L=L)  # fmt: skip
    for r in range(n):
        for u in range(0, size, L):
            here = iota(i64, L) < size - u
            at = r * line + u
            v = [load(work + (at + k * size), L, here) for k in range(G)]
            own = [load(work + (n * line + at + k * size), L, here) for k in range(G)]
            v = [v[k] + load(bias + (k * size + u), L, here) for k in range(G)]
            own = [own[k] + load(own_bias + (k * size + u), L, here) for k in range(G)]
            if KIND != "gru":
                v = [v[k] + own[k] for k in range(G)]
            at = r * size + u
            result, now, saved = cell(
                v, own, load((c if KIND == "lstm" else h) + at, L, here), KIND
            )
            store(y + at, result, here)
            store(last_h + at, result, here)
            if KIND == "lstm":
                store(last_c + at, now, here)
            if keep == 1:
                to = kept + (u // L * n + r) * (SAVED[KIND] * L)
                for j in unroll(len(saved)):
                    store(to + j * L, saved[j])
    if keep == 1:
        filled(kept + n * (SAVED[KIND] * ((size + (L - 1)) // L * L)), n)
