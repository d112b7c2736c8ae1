"""All steps of a layer of an LSTM in one call.

The work of a step is cut by hidden units, so that a thread meets the same weights in every step and
finds them in its cache; steps are apart by a `parallel` each. Forward, a chunk multiplies the last
states by the weights of all four gates of its units and goes on to the new states of these; backward, it
multiplies the slopes of the step behind by its columns of the weights and goes on to the slopes of its
own units. Weights are packed once, into panels of a tile's width (see `gemm.py`).

Arrays are contiguous: gates, activations and slopes [steps, n, 4 hidden] in the order i, f, g, o, cells
and states [steps + 1, n, hidden].
"""

from __future__ import annotations

from rushlight.compiler import math
from rushlight.compiler.gemm import SET, block, transposed
from rushlight.compiler.kernel import kernel
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
    store,
    typeof,
    unroll,
)
from rushlight.compiler.types import Ptr, i64

BATCH = 96  # rows that are multiplied before their gates are computed
CHUNK = 2097152  # multiplications that are worth a chunk


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
def pack_gates(w, to, size, u, L):
    """The weights of all gates of L units as two panels: i and f, g and o, each [size, 2 L].

    Units that do not exist are copies of the last one. `to` has room for a multiple of L rows.
    """
    for gate in unroll(4):
        at = [w + (gate * size + min(size - 1, u + i)) * size for i in range(L)]
        panel = to + (gate // 2 * (2 * L) * size + gate % 2 * L)
        for p in range(0, size, L):
            here = iota(i64, L) < size - p
            rows = transposed([load(at[i] + p, L, here) for i in range(L)], L)
            for i in unroll(L):
                if p + i < size:
                    store(panel + (p + i) * (2 * L), rows[i])


@kernel
def lstm(
    gates: Ptr[T], w: Ptr[T], packed: Ptr[T], states: Ptr[T], cells: Ptr[T], acts: Ptr[T],
    tanhs: Ptr[T], steps: i64, n: i64, size: i64, keep: i64, reverse: i64,
):  # fmt: skip
    """The states after each step, and cells, activations and tanh(cells), each step's in the place
    of the one before unless `keep` is 1."""
    W = 2 * L
    blocks = (size + (L - 1)) // L
    for lo, hi in parallel(blocks, i64(1)):
        for b in range(lo, hi):
            pack_gates(w, packed + b * (4 * L) * size, size, b * L, L=L)
    area = n * size
    grain = chunk_of(n * size * (4 * L))
    for s in range(steps):
        t = s if reverse == 0 else steps - 1 - s
        before, after = t + reverse, t + 1 - reverse
        x, old, new = gates + t * 4 * area, states + before * area, states + after * area
        c_old, c_new = cells + keep * before * area, cells + keep * after * area
        a, th = acts + keep * t * 4 * area, tanhs + keep * t * area
        for lo, hi in parallel(blocks, grain):
            scratch = array(T, BATCH * 4 * L)
            for b in range(lo, hi):
                u = b * L
                here = iota(i64, L) < size - u
                panel = packed + b * (4 * L) * size
                for first in range(0, n, BATCH):
                    rows = min(i64(BATCH), n - first)
                    for r in range(rows):  # what is read after the product
                        at, one = (first + r) * 4 * size + u, (first + r) * size + u
                        for k in unroll(4):
                            prefetch(x + (at + k * size))
                        prefetch(c_old + one)
                    for half in unroll(2):
                        block(old + first * size, size, i64(1), panel + half * W * size, i64(1),
                              i64(W), scratch + half * W, i64(4 * L), scratch, size, rows, i64(W),
                              i64(SET), T=T, MR=MR, V=V, L=L)  # fmt: skip
                    for r in range(rows):
                        row = first + r
                        at, one = row * 4 * size + u, row * size + u
                        v = [load(scratch + (r * 4 * L + k * L), L) for k in range(4)]
                        for k in unroll(4):
                            v[k] = v[k] + load(x + (at + k * size), L, here)
                        i, f, o = sigmoid(v[0]), sigmoid(v[1]), sigmoid(v[3])
                        g = tanh(v[2])
                        c = f * load(c_old + one, L, here) + i * g
                        y = tanh(c)
                        store(a + at, i, here)
                        store(a + (at + size), f, here)
                        store(a + (at + 2 * size), g, here)
                        store(a + (at + 3 * size), o, here)
                        store(c_new + one, c, here)
                        store(th + one, y, here)
                        store(new + one, o * y, here)


@routine
def pack_units(w, to, rows, size, u, W, L):
    """W columns of w [rows, size] from column u on as a panel [rows, W]; others are 0."""
    for p in range(rows):
        for v in unroll(W // L):
            here = iota(i64, L) < size - u - v * L
            store(to + (p * W + v * L), load(w + (p * size + u + v * L), L, here))


@kernel
def lstm_backward(
    g: Ptr[T], w: Ptr[T], packed: Ptr[T], cells: Ptr[T], acts: Ptr[T], tanhs: Ptr[T],
    slopes: Ptr[T], dh: Ptr[T], dc: Ptr[T], steps: i64, n: i64, size: i64, reverse: i64,
):  # fmt: skip
    """The gradients by the gates in `slopes`; `dh` and `dc` hold those by the last states and cells
    and become those by the first."""
    W = V * L
    blocks = (size + (W - 1)) // W
    for lo, hi in parallel(blocks, i64(1)):
        for b in range(lo, hi):
            pack_units(w, packed + b * W * 4 * size, 4 * size, size, b * W, W=W, L=L)
    area = n * size
    grain = chunk_of(n * size * (4 * W))
    for s in range(steps + 1):
        t = steps - 1 - s if reverse == 0 else s
        behind = slopes + (t + 1 - 2 * reverse) * 4 * area
        d, a, th = slopes + t * 4 * area, acts + t * 4 * area, tanhs + t * area
        y, old = g + t * area, cells + (t + reverse) * area
        for lo, hi in parallel(blocks, grain):
            for b in range(lo, hi):
                u = b * W
                if s > 0:
                    if s < steps:
                        for row in range(n):  # what is read after the product
                            for v in unroll(V):
                                at, one = row * 4 * size + u + v * L, row * size + u + v * L
                                for k in unroll(4):
                                    prefetch(a + (at + k * size))
                                for p in unroll((y, th, dc, old)):
                                    prefetch(p + one)
                    block(behind, 4 * size, i64(1), packed + b * W * 4 * size, i64(1), i64(W),
                          dh + u, size, dh, 4 * size, n, min(i64(W), size - u), i64(SET),
                          T=T, MR=MR, V=V, L=L)  # fmt: skip
                if s < steps:
                    for row in range(n):
                        for v in unroll(V):
                            here = iota(i64, L) < size - u - v * L
                            at, one = row * 4 * size + u + v * L, row * size + u + v * L
                            i, f, z, o = [load(a + (at + k * size), L, here) for k in range(4)]
                            h = load(dh + one, L, here) + load(y + one, L, here)
                            q = load(th + one, L, here)
                            c = load(dc + one, L, here) + h * o * (1 - q * q)
                            store(d + at, c * z * (i * (1 - i)), here)
                            store(
                                d + (at + size), c * load(old + one, L, here) * (f * (1 - f)), here
                            )
                            store(d + (at + 2 * size), c * i * (1 - z * z), here)
                            store(d + (at + 3 * size), h * q * (o * (1 - o)), here)
                            store(dc + one, c * f, here)
