"""All steps of a recurrent layer in one call: LSTM, GRU, and plain ones with tanh or relu.

The work of a step is cut by hidden units, so that a thread meets the same weights in every step and
finds them in its cache; steps are apart by a `parallel` each. Forward, a chunk multiplies the last
states by the weights of all gates of its units and goes on to the new states of these; backward, it
multiplies the slopes of the step behind by its columns of the weights and goes on to the slopes of its
own units. Weights are packed once, into panels of a tile's width (see `gemm.py`).

Arrays are contiguous: gates, activations and slopes [steps, n, gates * hidden] in the order i, f, g, o
(LSTM) or r, z, n (GRU), cells and states [steps + 1, n, hidden].
"""

from __future__ import annotations

from rushlight.compiler.kernel import kernel
from rushlight.compiler.kernels import math
from rushlight.compiler.kernels.gemm import ADD, SET, block, transposed
from rushlight.compiler.language import (
    array,
    copysign,
    fma,
    inline,
    iota,
    load,
    parallel,
    prefetch,
    routine,
    select,
    store,
    typeof,
    unroll,
)
from rushlight.compiler.types import Ptr, i64

BATCH = 96  # rows that are multiplied before their gates are computed
GATES = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
CHUNK = 2097152  # multiplications that are worth a chunk
CACHED = 131072  # weights that stay in the second-level cache from step to step
AHEAD = 16  # cache lines of the next block's weights that are fetched with each row's gates


@inline
def sigmoid(x):
    """1 / (1 + exp(-x)), at most 3 ULP where that is above 1e-37."""
    c = -87.0 if x < -87.0 else x
    c = 87.0 if c > 87.0 else c
    return 1 / (math.exp_normal(-c) + 1)


@inline
def tanh(x):
    """The hyperbolic tangent, at most 3 ULP."""
    T = typeof(x)
    a = abs(x)
    c = 10.0 if a > 10.0 else a
    n, f = math.reduced(c * 2)
    p = math.horner(f, math.polynomial(math._exp_rest, -math.HALF_LN2, math.HALF_LN2, 4))
    s = math.power_of_two(n, T)
    e = fma(fma(p * f, f, f), s, s - 1)  # exp(2 c) - 1
    return copysign(e / (e + 2), x)


@inline
def chunk_of(work):
    """How many pieces of so many multiplications make a chunk."""
    grain = CHUNK // (work if work > 0 else i64(1))
    return grain if grain > 1 else i64(1)


@routine
def pack_gates(w, to, size, u, G, L):
    """The weights of all G gates of L units side by side: [size, G * L].

    Units that do not exist are copies of the last one.
    """
    for gate in unroll(G):
        at = [w + (gate * size + min(size - 1, u + i)) * size for i in range(L)]
        for p in range(0, size, L):
            here = iota(i64, L) < size - p
            rows = transposed([load(at[i] + p, L, here) for i in range(L)], L)
            for i in unroll(L):
                if p + i < size:
                    store(to + ((p + i) * (G * L) + gate * L), rows[i])


@kernel
def layer(
    KIND, gates: Ptr[T], w: Ptr[T], bias: Ptr[T], packed: Ptr[T], states: Ptr[T], cells: Ptr[T],
    acts: Ptr[T], more: Ptr[T], steps: i64, n: i64, size: i64, keep: i64, reverse: i64,
):  # fmt: skip
    """The states after each step, and what the gradients need, each step's in the place of the one
    before unless `keep` is 1.

    LSTM: cells, activations, and tanh(cells) in `more`. GRU: activations, and the state's part of n
    in `more`; `bias` [3 * size] is added to the state's part. The others have states only.
    """
    G = GATES[KIND]
    blocks = (size + (L - 1)) // L
    for lo, hi in parallel(blocks, i64(1)):
        for b in range(lo, hi):
            pack_gates(w, packed + b * (G * L) * size, size, b * L, G=G, L=L)
    area = n * size
    grain = chunk_of(n * size * (G * L))
    large = size * size * G > CACHED
    for s in range(steps):
        t = s if reverse == 0 else steps - 1 - s
        before, after = t + reverse, t + 1 - reverse
        x, old, new = gates + t * G * area, states + before * area, states + after * area
        c_old, c_new = cells + keep * before * area, cells + keep * after * area
        a, m = acts + keep * t * G * area, more + keep * t * area
        for lo, hi in parallel(blocks, grain):
            scratch = array(T, BATCH * G * L)
            for b in range(lo, hi):
                u = b * L
                here = iota(i64, L) < size - u
                panel = packed + b * (G * L) * size
                for first in range(0, n, BATCH):
                    rows = min(i64(BATCH), n - first)
                    for r in range(rows):  # what is read after the product
                        at, one = (first + r) * G * size + u, (first + r) * size + u
                        for k in unroll(G):
                            prefetch(x + (at + k * size))
                        if KIND == "lstm":
                            prefetch(c_old + one)
                    for j in unroll(range(0, G * L, V * L)):
                        block(old + first * size, size, i64(1), panel + j, i64(1), i64(G * L),
                              scratch + j, i64(G * L), scratch, size, rows,
                              i64(min(V * L, G * L - j)), i64(SET),
                              T=T, MR=MR, V=V, L=L)  # fmt: skip
                    for r in range(rows):
                        at, one = (first + r) * G * size + u, (first + r) * size + u
                        if large:
                            for k in unroll(AHEAD):
                                prefetch(panel + (G * L * size + (r * AHEAD + k) * L))
                        v = [load(scratch + (r * G * L + k * L), L) for k in range(G)]
                        y = [load(x + (at + k * size), L, here) for k in range(G)]
                        if KIND == "lstm":
                            i, f, o = [sigmoid(v[k] + y[k]) for k in (0, 1, 3)]
                            g = tanh(v[2] + y[2])
                            c = f * load(c_old + one, L, here) + i * g
                            q = tanh(c)
                            store(c_new + one, c, here)
                            store(m + one, q, here)
                            store(new + one, o * q, here)
                            done = [i, f, g, o]
                        elif KIND == "gru":
                            for k in unroll(G):
                                v[k] = v[k] + load(bias + (k * size + u), L, here)
                            r_, z = sigmoid(v[0] + y[0]), sigmoid(v[1] + y[1])
                            q = tanh(r_ * v[2] + y[2])
                            h = load(old + one, L, here)
                            store(m + one, v[2], here)
                            store(new + one, (h - q) * z + q, here)
                            done = [r_, z, q]
                        else:
                            q = v[0] + y[0]
                            store(new + one, tanh(q) if KIND == "tanh" else positive(q), here)
                            done = []
                        for k in unroll(len(done)):
                            store(a + (at + k * size), done[k], here)


@inline
def positive(x):
    """x, 0 where it is negative, NaN where it is that."""
    return select(x < 0.0, typeof(x)(0), x)


@routine
def pack_units(w, to, rows, size, u, W, L):
    """W columns of w [rows, size] from column u on as a panel [rows, W]; others are 0."""
    for p in range(rows):
        for v in unroll(W // L):
            here = iota(i64, L) < size - u - v * L
            store(to + (p * W + v * L), load(w + (p * size + u + v * L), L, here))


@kernel
def gradients(
    KIND, g: Ptr[T], w: Ptr[T], packed: Ptr[T], earlier: Ptr[T], acts: Ptr[T], more: Ptr[T],
    slopes: Ptr[T], own: Ptr[T], dh: Ptr[T], dc: Ptr[T], steps: i64, n: i64, size: i64,
    reverse: i64,
):  # fmt: skip
    """The gradients by the gates in `slopes`, by the state's part of them in `own` (the same but for a
    GRU); `dh` and `dc` hold those by the last states and cells and become those by the first.

    `earlier` [steps, n, size]: LSTM: the cells before each step; else the states before each step.
    `acts` and `more` are those of `layer`; for those with one gate, `acts` are the states after each
    step.
    """
    G, W = GATES[KIND], V * L
    blocks = (size + (W - 1)) // W
    for lo, hi in parallel(blocks, i64(1)):
        for b in range(lo, hi):
            pack_units(w, packed + b * W * G * size, G * size, size, b * W, W=W, L=L)
    area = n * size
    grain = chunk_of(n * size * (G * W))
    for s in range(steps + 1):
        t = steps - 1 - s if reverse == 0 else s
        behind = own + (t + 1 - 2 * reverse) * G * area
        d, e, a, m = slopes + t * G * area, own + t * G * area, acts + t * G * area, more + t * area
        y, old = g + t * area, earlier + t * area
        for lo, hi in parallel(blocks, grain):
            for b in range(lo, hi):
                u = b * W
                if s > 0:
                    if s < steps:
                        for row in range(n):  # what is read after the product
                            for v in unroll(V):
                                at, one = row * G * size + u + v * L, row * size + u + v * L
                                for k in unroll(G):
                                    prefetch(a + (at + k * size))
                                for p in unroll((y, m, dc, old) if G > 1 else (y,)):
                                    prefetch(p + one)
                    block(behind, G * size, i64(1), packed + b * W * G * size, i64(1), i64(W),
                          dh + u, size, dh, G * size, n, min(i64(W), size - u),
                          i64(ADD) if KIND == "gru" else i64(SET),
                          T=T, MR=MR, V=V, L=L)  # fmt: skip
                if s < steps:
                    for row in range(n):
                        for v in unroll(V):
                            here = iota(i64, L) < size - u - v * L
                            at, one = row * G * size + u + v * L, row * size + u + v * L
                            x = [load(a + (at + k * size), L, here) for k in range(G)]
                            h = load(dh + one, L, here) + load(y + one, L, here)
                            if KIND == "lstm":
                                i, f, z, o = x
                                q = load(m + one, L, here)
                                c = load(dc + one, L, here) + h * o * (1 - q * q)
                                store(dc + one, c * f, here)
                                c_old = load(old + one, L, here)
                                done = [
                                    c * z * (i * (1 - i)), c * c_old * (f * (1 - f)),
                                    c * i * (1 - z * z), h * q * (o * (1 - o)),
                                ]  # fmt: skip
                            elif KIND == "gru":
                                r, z, q = x
                                c = h * (1 - z) * (1 - q * q)
                                store(dh + one, h * z, here)
                                store(e + (at + 2 * size), c * r, here)
                                done = [
                                    c * load(m + one, L, here) * (r * (1 - r)),
                                    h * (load(old + one, L, here) - q) * (z * (1 - z)), c,
                                ]  # fmt: skip
                                for k in unroll(2):
                                    store(e + (at + k * size), done[k], here)
                            elif KIND == "tanh":
                                done = [h * (1 - x[0] * x[0])]
                            else:
                                done = [select(x[0] <= 0.0, T(0), h)]
                            for k in unroll(G):
                                store(d + (at + k * size), done[k], here)
