"""The gradients of recurrent layers: all steps of `layer` in `recurrent.py`, backwards, in one call.

A block is some units, whose columns of the weights are packed into a panel. At each step the slopes of
all gates at the step behind are multiplied by it, which gives the gradients by the states of its units,
and from these follow the slopes of their gates.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import ADD, SET, load_line, store_line
from rushlight._codegen.kernels.recurrent import SPACE, block, place, saved_at
from rushlight._codegen.language import *
from rushlight._codegen.product_sizes import GATES, SAVED
from rushlight._codegen.types import Ptr, i64


@routine
def pack_units(w, to, rows, size, u, W, L):
    """W columns of w [rows, size] from column u on as a panel [rows, W]; others are 0."""
    for p in range(rows):
        for v in unroll(W // L):
            here = iota(i64, L) < size - u - v * L
            store(to + (p * W + v * L), load(w + (p * size + u + v * L), L, here))


@inline
def slopes_of(own, height, wide):
    """Of a group's memory: the gradients by the states and by the cells, and the slopes of the last
    step and of this one."""
    return own, own + height * wide, own + 2 * height * wide


@routine
def backward_step(
    g, y, panels, own, kept, slopes, outer, places, steps, n, size, gt, gr, yt, yr, reverse, ragged,
    s, low, high, b,
    KIND, T, L, V, MR,
):  # fmt: skip
    """Step s, counted backwards, of rows from low to high and the units of block b."""
    G, W = GATES[KIND], V * L
    blocks = (size + (W - 1)) // W
    wide, line = blocks * W, G * size + SPACE
    height = high - low
    dh, dc, last = slopes_of(own, height, wide)
    u = b * W
    if s > 0:
        behind = steps - s if reverse == 0 else s - 1
        met, _, _ = place(places, ragged, steps, behind, n, gt, gr)
        rows = min(high, met) - low
        if rows > 0:
            begin = i64(ADD) if KIND == "gru" else i64(SET)
            of, panel = last + s % 2 * height * line, panels + b * W * G * size
            if size - u > L:
                block(of, line, panel, i64(W), dh + u, wide, dh, G * size, rows, begin,
                      T=T, MR=MR, V=V, L=L)  # fmt: skip
            else:
                block(of, line, panel, i64(W), dh + u, wide, dh, G * size, rows, begin,
                      T=T, MR=MR, V=1, L=L)  # fmt: skip
    if s < steps:
        t = steps - 1 - s if reverse == 0 else s
        count, before, at = place(places, ragged, steps, t, n, gt, gr)
        y_at = at
        if KIND == "tanh" or KIND == "relu":
            _, _, y_at = place(places, ragged, steps, t, n, yt, yr)
        lines = (size + (L - 1)) // L
        to = last + (s + 1) % 2 * height * line
        for v in range(V):
            unit = u + v * L
            if unit < size:
                here = iota(i64, L) < size - unit
                first = saved_at(low, height, t, unit // L, lines, steps, before, count, ragged)
                saved = kept + first * (SAVED[KIND] * L)
                for r in range(min(high, count) - low):
                    x = [load(saved + (r * SAVED[KIND] + k) * L, L) for k in range(SAVED[KIND])]
                    one = r * wide + unit
                    h = load(dh + one, L) + load_line(
                        g + (at + (low + r) * gr + unit), size - unit, L
                    )
                    if KIND == "lstm":
                        i, f, z, o, q, c_old = x
                        c = load(dc + one, L) + h * o * (1 - q * q)
                        store(dc + one, c * f)
                        done = [
                            c * z * (i * (1 - i)), c * c_old * (f * (1 - f)),
                            c * i * (1 - z * z), h * q * (o * (1 - o)),
                        ]  # fmt: skip
                        inner = done
                    elif KIND == "gru":
                        reset, z, q, new, h_old = x
                        c = h * (1 - z) * (1 - q * q)
                        store(dh + one, h * z)
                        done = [c * new * (reset * (1 - reset)), h * (h_old - q) * (z * (1 - z)), c]
                        inner = [done[0], done[1], c * reset]
                    else:
                        result = load_line(y + (y_at + (low + r) * yr + unit), size - unit, L)
                        if KIND == "tanh":
                            done = [h * (1 - result * result)]
                        else:
                            done = [select(result <= 0.0, T(0), h)]
                        inner = done
                    row = (before + low + r) * G * size + unit
                    for k in unroll(G):
                        store(slopes + (row + k * size), done[k], here)
                        store(to + (r * line + k * size + unit), inner[k], here)
                        if KIND == "gru":
                            store(outer + (row + k * size), inner[k], here)


@routine
def move(a, along, b, onto, height, size, L):
    """Rows of `size` numbers from a, `along` apart, to b, `onto` apart."""
    for r in range(height):
        for u in range(0, size, L):
            v = load_line(a + (r * along + u), size - u, L)
            store_line(b + (r * onto + u), v, size - u, L)


@kernel(quick=True)
def gradients(
    KIND, g: Ptr[T], y: Ptr[T], w: Ptr[T], h: Ptr[T], c: Ptr[T], kept: Ptr[T], slopes: Ptr[T],
    outer: Ptr[T], dh: Ptr[T], dc: Ptr[T], work: Ptr[T], places: Ptr[i64], steps: i64, n: i64,
    size: i64, gt: i64, gr: i64, yt: i64, yr: i64, reverse: i64, ragged: i64, height: i64,
    grain: i64, copies: i64, whole: i64,
):  # fmt: skip
    """The gradients by the inputs' part of the gates in `slopes` [rows of all steps, gates * size],
    by the states' part in `outer` (for a GRU, of others they are the same), by the first states and
    cells in `dh` and `dc` (unless `whole` is 1, `dh` is without the first step's slopes times w, which
    is not read if there is one step); h and c are those by the last ones, g, at t * gt + r * gr, those by the
    outputs.

    w [gates * size, size]; y: the outputs, of kinds that save nothing; kept and height: of `layer`.
    With `wide` for `size` rounded up to whole blocks: work: panels [copies, gates * size, wide],
    and of each group [height, 2 * wide + 2 * (gates * size + SPACE)].
    """
    G, W = GATES[KIND], V * L
    blocks = (size + (W - 1)) // W
    wide = blocks * W
    turns, panels = steps + whole, wide * G * size
    groups, each = work + copies * panels, 2 * wide + 2 * (G * size + SPACE)
    if copies == 1:
        for lo, hi in parallel(blocks if turns > 1 else i64(0),
                               grain if grain > 0 else 1 + 16384 // (G * size * W)):  # fmt: skip
            for b in range(lo, hi):
                pack_units(w, work + b * W * G * size, G * size, size, b * W, W=W, L=L)
    if grain == 0:
        for low, high in parallel(n, height):
            mine = work
            if copies > 1:
                mine = work + low // height * panels
                for b in range(blocks):
                    pack_units(w, mine + b * W * G * size, G * size, size, b * W, W=W, L=L)
            own, rows = groups + low * each, high - low
            at = low * size
            move(h + at, size, own, wide, rows, size, L=L)
            if KIND == "lstm":
                move(c + at, size, own + rows * wide, wide, rows, size, L=L)
            for s in range(turns):
                for k in range(blocks):
                    b = k if s % 2 == 0 else blocks - 1 - k
                    backward_step(g, y, mine, own, kept, slopes, outer, places, steps, n, size, gt, gr, yt,
                            yr, reverse, ragged, s, low, high, b,
                            KIND=KIND, T=T, L=L, V=V, MR=MR)  # fmt: skip
            move(own, wide, dh + at, size, rows, size, L=L)
            if KIND == "lstm":
                move(own + rows * wide, wide, dc + at, size, rows, size, L=L)
    else:
        move(h, size, groups, wide, n, size, L=L)
        if KIND == "lstm":
            move(c, size, groups + n * wide, wide, n, size, L=L)
        for s in range(turns):
            for lo, hi in parallel(blocks, grain):
                for k in range(lo, hi):
                    b = k if s % 2 == 0 else lo + hi - 1 - k
                    backward_step(g, y, work, groups, kept, slopes, outer, places, steps, n, size, gt, gr,
                            yt, yr, reverse, ragged, s, i64(0), n, b,
                            KIND=KIND, T=T, L=L, V=V, MR=MR)  # fmt: skip
        move(groups, wide, dh, size, n, size, L=L)
        if KIND == "lstm":
            move(groups + n * wide, wide, dc, size, n, size, L=L)
