"""Kernels of recurrent layers: all steps of one layer in one call, gates computed in place.

The sigmoids are taken as tanh, sigmoid(a) = (1 + tanh(a / 2)) / 2, so that one pass serves all gates.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.backends.numpy_reduce import widened


def steps_of(n: int, reverse: bool) -> Any:
    """(step, place of the state before, place of the state after) in an array of n + 1 states."""
    if reverse:
        return [(t, t + 1, t) for t in range(n - 1, -1, -1)]
    return [(t, t, t + 1) for t in range(n)]


def lstm_layer(gates: Any, h: Any, c: Any, w_hh: Any, reverse: bool, keep: bool) -> tuple:
    """(outputs [T, N, H], last h, last c, activations [T, N, 4 H], cells [T + 1, N, H], tanh(cells)).

    `gates` [T, N, 4 H]: the input's part with both biases, in the order i, f, g, o. The last three
    are what the gradient needs, None unless `keep`.
    """
    dtype = gates.dtype
    x, w = widened(gates), widened(w_hh)
    steps, n, size = x.shape[0], x.shape[1], c.shape[1]
    half = np.full(4 * size, 0.5, x.dtype)  # sigmoid by tanh: halve i, f and o, but not g
    half[2 * size : 3 * size] = 1
    w = np.ascontiguousarray((w * half[:, None]).T)
    kept = steps if keep else 1
    acts = np.empty((kept, n, 4 * size), x.dtype)
    tanhs = np.empty((kept, n, size), x.dtype)
    cells = np.empty((steps + 1 if keep else 2, n, size), x.dtype)
    states = np.empty((steps + 1, n, size), x.dtype)
    first = steps if reverse else 0
    states[first] = h
    cells[first if keep else 0] = c
    scratch = np.empty((n, 4 * size), x.dtype)
    for t, before, after in steps_of(steps, reverse):
        k = t if keep else 0
        old, new = (cells[before], cells[after]) if keep else (cells[0], cells[0])
        a = acts[k]
        np.matmul(states[before], w, out=a)
        a += np.multiply(x[t], half, out=scratch)
        np.tanh(a, out=a)
        for part in (a[:, : 2 * size], a[:, 3 * size :]):
            part *= 0.5
            part += 0.5
        i, f, g, o = (a[:, m * size : (m + 1) * size] for m in range(4))
        product = np.multiply(i, g, out=scratch[:, :size])
        np.multiply(f, old, out=new)
        new += product
        np.multiply(o, np.tanh(new, out=tanhs[k]), out=states[after])
    end = 0 if reverse else steps
    outputs = states[:-1] if reverse else states[1:]
    results = (outputs, states[end].copy(), (cells[end] if keep else cells[0]).copy())
    results = tuple(r.astype(dtype, copy=False) for r in results)
    return (*results, acts, cells, tanhs) if keep else (*results, None, None, None)


def lstm_layer_gradients(
    g: Any, g_h: Any, g_c: Any, outputs: Any, h: Any, w_hh: Any, acts: Any, cells: Any, tanhs: Any,
    reverse: bool,
) -> tuple:  # fmt: skip
    """The gradients of `lstm_layer` by gates, h, c and w_hh."""
    dtype = g.dtype
    g, w, outputs = widened(g), np.ascontiguousarray(widened(w_hh)), widened(outputs)
    steps, n, size = tanhs.shape
    dh, dc = widened(g_h).copy(), widened(g_c).copy()
    slopes = np.empty_like(acts)
    scratch = np.empty((n, size), tanhs.dtype)
    for t, before, _ in reversed(steps_of(steps, reverse)):
        i, f, z, o = (acts[t, :, m * size : (m + 1) * size] for m in range(4))
        di, df, dz, do = (slopes[t, :, m * size : (m + 1) * size] for m in range(4))
        dh += g[t]
        np.multiply(dh, tanhs[t], out=do)  # through o
        dh *= o
        np.square(tanhs[t], out=scratch)
        np.subtract(1, scratch, out=scratch)
        scratch *= dh
        dc += scratch  # through tanh(c)
        np.multiply(dc, z, out=di)
        np.multiply(dc, cells[before], out=df)
        np.multiply(dc, i, out=dz)
        np.square(z, out=scratch)
        np.subtract(1, scratch, out=scratch)
        dz *= scratch
        for slope, gate in ((di, i), (df, f), (do, o)):
            slope *= gate
            np.subtract(1, gate, out=scratch)
            slope *= scratch
        dc *= f
        dh = slopes[t] @ w
    rows = slopes.reshape(-1, 4 * size)
    if reverse:
        earlier = np.concatenate([outputs[1:], widened(h)[None]])
    else:
        earlier = np.concatenate([widened(h)[None], outputs[:-1]])
    dw = rows.T @ earlier.reshape(-1, size)
    return tuple(r.astype(dtype, copy=False) for r in (slopes, dh, dc, dw))
