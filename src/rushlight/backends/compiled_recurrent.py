"""Recurrent layers in machine code; see `compiled.py` for when they run, `compiler/kernels/recurrent.py` for how."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.backends import compiled_products as products
from rushlight.backends import numpy_recurrent as reference
from rushlight.compiler.kernels import gemm
from rushlight.compiler.kernels import recurrent as kernels
from rushlight.compiler.types import f32

F32 = np.dtype(np.float32)
# Rows and units from which a layer without gates is for machine code: the weights of so many units are
# read from memory in every step, and for a row or two NumPy's product does that better.
ROWS, UNITS = 3, 256
NOTHING = np.zeros(1, F32)  # for what a kind of layer has no use for


def takes(count: int, gates: Any, h: Any, w_hh: Any, *states: Any) -> bool:
    """Whether arrays are float32 and fit, for so many gates."""
    for a in (gates, h, w_hh, *states):
        if a.__class__ is not np.ndarray or a.dtype is not F32:
            return False
    if gates.ndim != 3 or h.ndim != 2 or not gates.size:
        return False
    n, size = h.shape
    return (
        gates.shape[1:] == (n, count * size)
        and w_hh.shape == (count * size, size)
        and all(s.shape == h.shape for s in states)
    )


def whole(a: np.ndarray) -> np.ndarray:
    """`a`, C-contiguous and aligned, copied where it is not."""
    return a if a.flags.c_contiguous and a.flags.aligned else np.array(a, order="C")


def forward(
    kind: str, gates: Any, h: Any, c: Any, w: Any, bias: Any, reverse: bool, keep: bool
) -> tuple:
    """(outputs, last h, activations, cells, the kernel's `more`)."""
    (steps, n), size, count = gates.shape[:2], h.shape[1], kernels.GATES[kind]
    kept = steps if keep else 1
    acts = more = cells = NOTHING
    if count > 1:
        acts, more = np.empty((kept, n, count * size), F32), np.empty((kept, n, size), F32)
    first, end = (steps, 0) if reverse else (0, steps)
    states = np.empty((steps + 1, n, size), F32)
    states[first] = h
    if c is not None:
        cells = np.empty((steps + 1 if keep else 1, n, size), F32)
        cells[first if keep else 0] = c
    known = gemm.sizes(f32)
    packed = np.empty(count * size * (size + known["L"]), F32)
    kernels.layer.compiled(KIND=kind, **known)(
        whole(gates), whole(w), bias, packed, states, cells, acts, more, steps, n, size, keep,
        reverse,
    )  # fmt: skip
    return states[:-1] if reverse else states[1:], states[end].copy(), acts, cells, more


def before(h: Any, outputs: Any, reverse: bool) -> np.ndarray:
    """The states before each step."""
    if reverse:
        return np.concatenate([outputs[1:], h[None]])
    return np.concatenate([h[None], outputs[:-1]])


def backward(
    kind: str, g: Any, g_h: Any, g_c: Any, w: Any, states: Any, earlier: Any, acts: Any, more: Any,
    reverse: bool,
) -> tuple:  # fmt: skip
    """The gradients by gates, h, c, w and the state's part of the gates; `states` are those before
    each step, `earlier` what the kernel calls so."""
    steps, n, size = g.shape
    count = kernels.GATES[kind]
    dh = np.array(g_h, order="C")
    dc = NOTHING if g_c is None else np.array(g_c, order="C")
    slopes = np.empty((steps, n, count * size), F32)
    own = np.empty_like(slopes) if kind == "gru" else slopes
    known = gemm.sizes(f32)
    packed = np.empty(count * size * (size + known["V"] * known["L"]), F32)
    kernels.gradients.compiled(KIND=kind, **known)(
        whole(g), whole(w), packed, whole(earlier), whole(acts), whole(more), slopes, own, dh, dc,
        steps, n, size, reverse,
    )  # fmt: skip
    dw = products.matmul(own.reshape(-1, count * size).T, states.reshape(-1, size))
    return slopes, dh, dc, dw, own


def lstm_layer(gates: Any, h: Any, c: Any, w_hh: Any, reverse: bool, keep: bool) -> tuple:
    """(outputs [T, N, H], last h, last c, activations, cells, tanh(cells)), as the reference's."""
    if not takes(4, gates, h, w_hh, c):
        return reference.lstm_layer(gates, h, c, w_hh, reverse, keep)
    y, last, acts, cells, tanhs = forward("lstm", gates, h, c, w_hh, NOTHING, reverse, keep)
    end = cells[-1 if keep and not reverse else 0].copy()
    return (y, last, end, acts, cells, tanhs) if keep else (y, last, end, None, None, None)


def lstm_layer_gradients(
    g: Any, g_h: Any, g_c: Any, outputs: Any, h: Any, w_hh: Any, acts: Any, cells: Any, tanhs: Any,
    reverse: bool,
) -> tuple:  # fmt: skip
    """The gradients of `lstm_layer` by gates, h, c and w_hh."""
    steps = len(tanhs)
    if not (
        takes(4, acts, h, w_hh, g_h, g_c)
        and alike(g, outputs, tanhs, cells[:steps])
        and len(cells) == steps + 1
        and len(acts) == steps
    ):
        return reference.lstm_layer_gradients(
            g, g_h, g_c, outputs, h, w_hh, acts, cells, tanhs, reverse
        )
    earlier = cells[1:] if reverse else cells[:-1]
    states = before(h, outputs, reverse)
    return backward("lstm", g, g_h, g_c, w_hh, states, earlier, acts, tanhs, reverse)[:4]


def alike(*arrays: Any) -> bool:
    """Whether arrays are float32 and of one shape."""
    for a in arrays:
        if a.__class__ is not np.ndarray or a.dtype is not F32 or a.shape != arrays[0].shape:
            return False
    return True


def gru_layer(gates: Any, h: Any, w_hh: Any, b_hh: Any, reverse: bool, keep: bool) -> tuple:
    """(outputs [T, N, H], last h, activations, the state's part of n), as the reference's."""
    bias = np.zeros(gates.shape[-1], F32) if b_hh is None else b_hh
    if not takes(3, gates, h, w_hh) or not alike(bias) or bias.shape != (3 * h.shape[1],):
        return reference.gru_layer(gates, h, w_hh, b_hh, reverse, keep)
    y, last, acts, _, news = forward("gru", gates, h, None, w_hh, whole(bias), reverse, keep)
    return (y, last, acts, news) if keep else (y, last, None, None)


def gru_layer_gradients(
    g: Any, g_h: Any, outputs: Any, h: Any, w_hh: Any, acts: Any, news: Any, reverse: bool
) -> tuple:
    """The gradients of `gru_layer` by gates, h, w_hh and b_hh."""
    if not (takes(3, acts, h, w_hh, g_h) and alike(g, outputs, news) and len(acts) == len(g)):
        return reference.gru_layer_gradients(g, g_h, outputs, h, w_hh, acts, news, reverse)
    states = before(h, outputs, reverse)
    slopes, dh, _, dw, own = backward(
        "gru", g, g_h, None, w_hh, states, states, acts, news, reverse
    )
    return slopes, dh, dw, own.sum((0, 1))


def rnn_layer(gates: Any, h: Any, w_hh: Any, relu: bool, reverse: bool) -> tuple:
    """(outputs [T, N, H], last h), as the reference's."""
    if not takes(1, gates, h, w_hh) or (len(h) < ROWS and h.shape[1] >= UNITS):
        return reference.rnn_layer(gates, h, w_hh, relu, reverse)
    return forward("relu" if relu else "tanh", gates, h, None, w_hh, NOTHING, reverse, True)[:2]


def rnn_layer_gradients(
    g: Any, g_h: Any, outputs: Any, h: Any, w_hh: Any, relu: bool, reverse: bool
) -> tuple:
    """The gradients of `rnn_layer` by gates, h and w_hh."""
    if not (takes(1, g, h, w_hh, g_h) and alike(g, outputs)):
        return reference.rnn_layer_gradients(g, g_h, outputs, h, w_hh, relu, reverse)
    states = before(h, outputs, reverse)
    kind = "relu" if relu else "tanh"
    found = backward(kind, g, g_h, None, w_hh, states, NOTHING, outputs, NOTHING, reverse)
    return found[0], found[1], found[3]
