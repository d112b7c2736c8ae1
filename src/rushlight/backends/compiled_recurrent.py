"""Layers of LSTMs in machine code; see `compiled.py` for when they run, `compiler/recurrent.py` for how."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.backends import compiled_products as products
from rushlight.backends import numpy_recurrent as reference
from rushlight.backends.compiled import threshold
from rushlight.compiler import gemm
from rushlight.compiler import recurrent as kernels
from rushlight.compiler.types import f32

F32 = np.dtype(np.float32)
SMALL = max(1, threshold(1024))  # multiplications in a step


def takes(gates: Any, size: int, *arrays: Any) -> bool:
    """Whether arrays are float32, and a step of so many rows and units is large enough."""
    for a in (gates, *arrays):
        if a.__class__ is not np.ndarray or a.dtype is not F32:
            return False
    return gates.size > 0 and gates.shape[1] * size * size >= SMALL


def whole(a: np.ndarray) -> np.ndarray:
    """`a`, C-contiguous and aligned, copied where it is not."""
    return a if a.flags.c_contiguous and a.flags.aligned else np.array(a, order="C")


def lstm_layer(gates: Any, h: Any, c: Any, w_hh: Any, reverse: bool, keep: bool) -> tuple:
    """(outputs [T, N, H], last h, last c, activations, cells, tanh(cells)), as the reference's."""
    size = c.shape[-1]
    if (
        not takes(gates, size, h, c, w_hh)
        or w_hh.shape != (4 * size, size)
        or gates.shape[1:] != (c.shape[0], 4 * size)
        or h.shape != c.shape
    ):
        return reference.lstm_layer(gates, h, c, w_hh, reverse, keep)
    steps, n = gates.shape[:2]
    kept = steps if keep else 1
    acts, tanhs = np.empty((kept, n, 4 * size), F32), np.empty((kept, n, size), F32)
    cells = np.empty((steps + 1 if keep else 1, n, size), F32)
    states = np.empty((steps + 1, n, size), F32)
    first, end = (steps, 0) if reverse else (0, steps)
    states[first] = h
    cells[first if keep else 0] = c
    known = gemm.sizes(f32)
    packed = np.empty(4 * size * (size + known["L"]), F32)
    kernels.lstm.compiled(**known)(
        whole(gates), whole(w_hh), packed, states, cells, acts, tanhs, steps, n, size, keep, reverse
    )
    outputs = states[:-1] if reverse else states[1:]
    results = (outputs, states[end].copy(), cells[end if keep else 0].copy())
    return (*results, acts, cells, tanhs) if keep else (*results, None, None, None)


def lstm_layer_gradients(
    g: Any, g_h: Any, g_c: Any, outputs: Any, h: Any, w_hh: Any, acts: Any, cells: Any, tanhs: Any,
    reverse: bool,
) -> tuple:  # fmt: skip
    """The gradients of `lstm_layer` by gates, h, c and w_hh."""
    given = (g, g_h, g_c, outputs, h, w_hh, acts, cells, tanhs)
    steps, n, size = tanhs.shape
    if not takes(acts, size, *given) or not (
        g.shape == outputs.shape == tanhs.shape
        and g_h.shape == g_c.shape == h.shape == (n, size)
        and w_hh.shape == (4 * size, size)
        and acts.shape == (steps, n, 4 * size)
        and cells.shape == (steps + 1, n, size)
    ):
        return reference.lstm_layer_gradients(*given, reverse)
    dh, dc = np.array(g_h, order="C"), np.array(g_c, order="C")
    slopes = np.empty(acts.shape, F32)
    known = gemm.sizes(f32)
    packed = np.empty(4 * size * (size + known["V"] * known["L"]), F32)
    kernels.lstm_backward.compiled(**known)(
        whole(g), whole(w_hh), packed, whole(cells), whole(acts), whole(tanhs), slopes, dh, dc,
        steps, n, size, reverse,
    )  # fmt: skip
    if reverse:
        earlier = np.concatenate([outputs[1:], h[None]])
    else:
        earlier = np.concatenate([h[None], outputs[:-1]])
    dw = products.matmul(slopes.reshape(-1, 4 * size).T, earlier.reshape(-1, size))
    return slopes, dh, dc, dw
