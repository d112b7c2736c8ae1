"""Kernels of recurrent layers: all steps of one layer in one call, gates computed in place.

The sigmoids are taken as tanh, sigmoid(a) = (1 + tanh(a / 2)) / 2, so that one pass serves all gates.

Rows of inputs, gates and outputs stand step by step; a packed batch has fewer of them in later steps.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.reference.reduce import upcast

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rushlight._backends.protocol.array import Array

KERNELS = "recurrent_layer recurrent_layer_gradients".split()

NOTHING = np.zeros(0, np.float32)  # in the place of what a kind of layer does not keep


def steps_of(x: Any, sizes: Any, reverse: bool) -> list[slice]:
    """The rows of each step, as the steps are taken, of x [T, N, ...] or, packed, [sum(sizes), ...]."""
    if sizes is None:
        ends = [(t + 1) * x.shape[1] for t in range(x.shape[0])]
        sizes = [x.shape[1]] * x.shape[0]
    else:
        ends = list(accumulate(sizes))
    rows = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
    return rows[::-1] if reverse else rows


def states_before(h: Any, outputs: Any, steps: list[slice]) -> np.ndarray:
    """The states before each step, a row for each of the outputs."""
    found, now = np.empty_like(outputs), h.copy()
    for rows in steps:
        n = rows.stop - rows.start
        found[rows] = now[:n]
        now[:n] = outputs[rows]
    return found


def lstm_steps(
    gates: Any, h: Any, c: Any, w: Any, bias: Any, y: Any, steps: list, keep: bool
) -> tuple:
    """Fill the outputs; h and c become the last ones. (activations, cells before, tanh(cells))"""
    size = c.shape[1]
    half = np.full(4 * size, 0.5, gates.dtype)  # sigmoid by tanh: halve i, f and o, but not g
    half[2 * size : 3 * size] = 1
    w = np.ascontiguousarray((w * half[:, None]).T)
    acts = gates
    acts *= half
    cells: Any = np.empty((len(y), size), y.dtype) if keep else None
    tanhs: Any = np.empty((len(y), size), y.dtype) if keep else None
    for rows in steps:
        n = rows.stop - rows.start
        a, old, own = acts[rows], c[:n], h[:n]
        a += own @ w
        np.tanh(a, out=a)
        for part in (a[:, : 2 * size], a[:, 3 * size :]):
            part *= 0.5
            part += 0.5
        i, f, g, o = (a[:, m * size : (m + 1) * size] for m in range(4))
        if keep:
            cells[rows] = old
        old *= f
        old += i * g
        np.multiply(o, np.tanh(old, out=tanhs[rows] if keep else None), out=own)
        y[rows] = own
    return (acts, cells, tanhs) if keep else (None, None, None)


def lstm_slopes(
    g: Any, dh: Any, dc: Any, w: Any, before: Any, acts: Any, cells: Any, tanhs: Any, steps: list
) -> tuple:
    """The gradients by the gates' parts, those of the inputs and those of the states, row by row; dh
    and dc become those by the first states and cells."""
    size = dh.shape[1]
    slopes = np.empty_like(acts)
    for rows in reversed(steps):
        n = rows.stop - rows.start
        i, f, z, o = (acts[rows, m * size : (m + 1) * size] for m in range(4))
        di, df, dz, do = (slopes[rows, m * size : (m + 1) * size] for m in range(4))
        dh[:n] += g[rows]
        np.multiply(dh[:n], tanhs[rows], out=do)  # through o
        dh[:n] *= o
        dc[:n] += (1 - tanhs[rows] ** 2) * dh[:n]  # through tanh(c)
        np.multiply(dc[:n], z, out=di)
        np.multiply(dc[:n], cells[rows], out=df)
        np.multiply(dc[:n], i, out=dz)
        dz *= 1 - z * z
        for slope, gate in ((di, i), (df, f), (do, o)):
            slope *= gate
            slope *= 1 - gate
        dc[:n] *= f
        dh[:n] = slopes[rows] @ w
    return slopes, slopes


def gru_steps(
    gates: Any, h: Any, c: Any, w: Any, bias: Any, y: Any, steps: list, keep: bool
) -> tuple:
    """Fill the outputs; h becomes the last one. (activations, the state's part of n)"""
    w, size = np.ascontiguousarray(w.T), h.shape[1]
    news: Any = np.empty((len(y), size), y.dtype) if keep else None
    for rows in steps:
        now = h[: rows.stop - rows.start]
        own = now @ w
        if bias is not None:
            own += bias
        both, c = gates[rows, : 2 * size], gates[rows, 2 * size :]
        both += own[:, : 2 * size]
        both *= 0.5
        np.tanh(both, out=both)
        both *= 0.5
        both += 0.5
        if keep:
            news[rows] = own[:, 2 * size :]
        c += both[:, :size] * own[:, 2 * size :]
        np.tanh(c, out=c)
        now -= c
        now *= both[:, size:]
        now += c
        y[rows] = now
    return (gates if keep else None), news, None


def gru_slopes(g: Any, dh: Any, w: Any, before: Any, acts: Any, news: Any, steps: list) -> tuple:
    """As `lstm_slopes`."""
    size = dh.shape[1]
    slopes, own = np.empty_like(acts), np.empty_like(acts)
    for rows in reversed(steps):
        n = rows.stop - rows.start
        r, z, c = (acts[rows, m * size : (m + 1) * size] for m in range(3))
        dr, dz, dn = (slopes[rows, m * size : (m + 1) * size] for m in range(3))
        dh[:n] += g[rows]
        np.multiply(dh[:n], (1 - z) * (1 - c * c), out=dn)
        np.multiply(dh[:n], (before[rows] - c) * (z * (1 - z)), out=dz)
        np.multiply(dn, news[rows] * (r * (1 - r)), out=dr)
        own[rows] = slopes[rows]
        own[rows, 2 * size :] *= r
        dh[:n] *= z
        dh[:n] += own[rows] @ w
    return slopes, own


def rnn_steps(relu: bool) -> Any:
    """The steps of a layer without gates."""

    def run(
        gates: Any, h: Any, c: Any, w: Any, bias: Any, y: Any, steps: list, keep: bool
    ) -> tuple:
        w = np.ascontiguousarray(w.T)
        for rows in steps:
            now = h[: rows.stop - rows.start]
            new = now @ w
            new += gates[rows]
            np.maximum(new, 0, out=now) if relu else np.tanh(new, out=now)
            y[rows] = now
        return None, None, None

    return run


def rnn_slopes(g: Any, dh: Any, w: Any, y: Any, relu: bool, steps: list) -> tuple:
    """As `lstm_slopes`."""
    slopes = np.empty(y.shape, y.dtype)
    for rows in reversed(steps):
        n = rows.stop - rows.start
        dh[:n] += g[rows]
        np.multiply(dh[:n], ~(y[rows] <= 0) if relu else 1 - y[rows] ** 2, out=slopes[rows])
        dh[:n] = slopes[rows] @ w
    return slopes, slopes


STEPS = {
    "lstm": lstm_steps, "gru": gru_steps, "tanh": rnn_steps(False), "relu": rnn_steps(True),
}  # fmt: skip


def recurrent_layer(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Array | None, b_hh: Array | None, h: Any, c: Array | None, kind: str, sizes: Sequence[int],
    reverse: bool, keep: bool,
) -> tuple:  # fmt: skip
    """All steps of one layer in one direction: (outputs, last h, last c, and three arrays).

    x [T, N, features], outputs [T, N, H]; or packed, with `sizes` the rows of each step, x [sum(sizes),
    features], outputs [sum(sizes), H]. h, c [N, H] (c: of an LSTM, else None); w_ih [gates * H, features], w_hh
    [gates * H, H], biases [gates * H] or None. Gates stand in the order i, f, g, o (LSTM), r, z, n
    (GRU). The arrays are what the gradients need, None unless `keep`.
    """
    dtype, size = x.dtype, h.shape[1]
    steps = steps_of(x, sizes, reverse)
    x2, w = upcast(x).reshape(-1, x.shape[-1]), upcast(w_hh)
    gates = x2 @ upcast(w_ih).T
    own = None if b_hh is None else upcast(b_hh)
    if b_ih is not None:
        gates += upcast(b_ih)
    if own is not None and kind != "gru":
        gates += own
    now, cells = upcast(h).astype(gates.dtype), None if c is None else upcast(c).copy()
    y = np.empty((len(x2), size), gates.dtype)
    kept = STEPS[kind](gates, now, cells, w, own, y, steps, keep)
    outputs = [y.reshape(*x.shape[:-1], size), now, NOTHING if cells is None else cells]
    if keep:
        kept = tuple(NOTHING if a is None else a for a in kept)
    return *(a.astype(dtype, copy=False) for a in outputs), *kept


def recurrent_layer_gradients(
    g: Any, g_h: Any, g_c: Array | None, x: Any, w_ih: Any, w_hh: Any, h: Any, c: Array | None, y: Any, first: Any,
    second: Any, third: Any, kind: str, sizes: Sequence[int], reverse: bool, needs_x: bool,
    needs_h: bool,
) -> tuple:  # fmt: skip
    """The gradients of `recurrent_layer` by x (None unless `needs_x`), w_ih, w_hh, b_ih, b_hh, h
    (None unless `needs_h`) and c (None if there is none); first, second and third are what it kept."""
    steps, size = steps_of(x, sizes, reverse), h.shape[1]
    x2, w = upcast(x).reshape(-1, x.shape[-1]), np.ascontiguousarray(upcast(w_hh))
    g, y = upcast(g).reshape(-1, size), upcast(y).reshape(-1, size)
    dh, dc = upcast(g_h).copy(), None if c is None else upcast(g_c).copy()
    before = states_before(upcast(h), y, steps)
    if kind == "lstm":
        slopes, own = lstm_slopes(g, dh, dc, w, before, first, second, third, steps)
    elif kind == "gru":
        slopes, own = gru_slopes(g, dh, w, before, first, second, steps)
    else:
        slopes, own = rnn_slopes(g, dh, w, y, kind == "relu", steps)
    found = (
        (slopes @ upcast(w_ih)).reshape(x.shape) if needs_x else None, slopes.T @ x2, own.T @ before, slopes.sum(0),
        own.sum(0), dh if needs_h else None, dc,
    )  # fmt: skip
    return tuple(None if a is None else a.astype(x.dtype, copy=False) for a in found)
