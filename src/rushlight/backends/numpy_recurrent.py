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


def states_before(h: Any, outputs: Any, reverse: bool) -> np.ndarray:
    """The states before each step."""
    if reverse:
        return np.concatenate([outputs[1:], widened(h)[None]])
    return np.concatenate([widened(h)[None], outputs[:-1]])


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
    dw = slopes.reshape(-1, 4 * size).T @ states_before(h, outputs, reverse).reshape(-1, size)
    return tuple(r.astype(dtype, copy=False) for r in (slopes, dh, dc, dw))


def gru_layer(gates: Any, h: Any, w_hh: Any, b_hh: Any, reverse: bool, keep: bool) -> tuple:
    """(outputs [T, N, H], last h, activations [T, N, 3 H], the state's part of n [T, N, H]).

    `gates` [T, N, 3 H]: the input's part with its bias, in the order r, z, n; `b_hh` is added to the
    state's part, which r multiplies in n. The last two are what the gradient needs, None unless `keep`.
    """
    dtype = gates.dtype
    x, w = widened(gates), np.ascontiguousarray(widened(w_hh).T)
    steps, n, size = x.shape[0], x.shape[1], h.shape[1]
    kept = steps if keep else 1
    acts, news = np.empty((kept, n, 3 * size), x.dtype), np.empty((kept, n, size), x.dtype)
    states = np.empty((steps + 1, n, size), x.dtype)
    states[steps if reverse else 0] = h
    own = np.empty((n, 3 * size), x.dtype)
    for t, before, after in steps_of(steps, reverse):
        k = t if keep else 0
        np.matmul(states[before], w, out=own)
        if b_hh is not None:
            own += widened(b_hh)
        both, c, new = acts[k, :, : 2 * size], acts[k, :, 2 * size :], states[after]
        np.add(x[t, :, : 2 * size], own[:, : 2 * size], out=both)
        both *= 0.5
        np.tanh(both, out=both)
        both *= 0.5
        both += 0.5
        news[k] = own[:, 2 * size :]
        np.multiply(both[:, :size], news[k], out=c)
        c += x[t, :, 2 * size :]
        np.tanh(c, out=c)
        np.subtract(states[before], c, out=new)
        new *= both[:, size:]
        new += c
    results = (states[:-1] if reverse else states[1:], states[0 if reverse else steps].copy())
    results = tuple(r.astype(dtype, copy=False) for r in results)
    return (*results, acts, news) if keep else (*results, None, None)


def gru_layer_gradients(
    g: Any, g_h: Any, outputs: Any, h: Any, w_hh: Any, acts: Any, news: Any, reverse: bool
) -> tuple:
    """The gradients of `gru_layer` by gates, h, w_hh and b_hh."""
    dtype = g.dtype
    g, w, outputs = widened(g), np.ascontiguousarray(widened(w_hh)), widened(outputs)
    steps, _, size = news.shape
    earlier = states_before(h, outputs, reverse)
    dh = widened(g_h).copy()
    slopes, own = np.empty_like(acts), np.empty_like(acts)
    for t, _, _ in reversed(steps_of(steps, reverse)):
        r, z, c = (acts[t, :, m * size : (m + 1) * size] for m in range(3))
        dr, dz, dn = (slopes[t, :, m * size : (m + 1) * size] for m in range(3))
        dh += g[t]
        np.multiply(dh, (1 - z) * (1 - c * c), out=dn)
        np.multiply(dh, (earlier[t] - c) * (z * (1 - z)), out=dz)
        np.multiply(dn, news[t] * (r * (1 - r)), out=dr)
        own[t] = slopes[t]
        own[t, :, 2 * size :] *= r
        dh *= z
        dh += own[t] @ w
    rows = own.reshape(-1, 3 * size)
    found = (slopes, dh, rows.T @ earlier.reshape(-1, size), rows.sum(0))
    return tuple(x.astype(dtype, copy=False) for x in found)


def rnn_layer(gates: Any, h: Any, w_hh: Any, relu: bool, reverse: bool) -> tuple:
    """(outputs [T, N, H], last h) of h = tanh(gates + w_hh h), or relu in the place of tanh."""
    dtype = gates.dtype
    x, w = widened(gates), np.ascontiguousarray(widened(w_hh).T)
    steps, n = x.shape[:2]
    states = np.empty((steps + 1, n, h.shape[1]), x.dtype)
    states[steps if reverse else 0] = h
    for t, before, after in steps_of(steps, reverse):
        new = states[after]
        np.matmul(states[before], w, out=new)
        new += x[t]
        np.maximum(new, 0, out=new) if relu else np.tanh(new, out=new)
    results = (states[:-1] if reverse else states[1:], states[0 if reverse else steps].copy())
    return tuple(r.astype(dtype, copy=False) for r in results)


def rnn_layer_gradients(
    g: Any, g_h: Any, outputs: Any, h: Any, w_hh: Any, relu: bool, reverse: bool
) -> tuple:
    """The gradients of `rnn_layer` by gates, h and w_hh."""
    dtype = g.dtype
    g, w, y = widened(g), np.ascontiguousarray(widened(w_hh)), widened(outputs)
    steps, _, size = y.shape
    dh = widened(g_h).copy()
    slopes = np.empty(y.shape, y.dtype)
    for t, _, _ in reversed(steps_of(steps, reverse)):
        dh += g[t]
        np.multiply(dh, ~(y[t] <= 0) if relu else 1 - y[t] * y[t], out=slopes[t])
        dh = slopes[t] @ w
    dw = slopes.reshape(-1, size).T @ states_before(h, y, reverse).reshape(-1, size)
    return tuple(x.astype(dtype, copy=False) for x in (slopes, dh, dw))
