"""Recurrent layers in machine code; see `__init__.py` for when they run, `_codegen/kernels/recurrent.py` for how.

What is taken: float32 and float64, and the half types, which are computed in float32 and rounded at the end.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm import product_table, products, reduce
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import recurrent as reference
from rushlight._codegen import product_sizes
from rushlight._codegen.kernels import gemm, gemv, recurrent_gradients
from rushlight._codegen.kernels import recurrent as kernels
from rushlight._codegen.language import NEAR
from rushlight._codegen.product_sizes import GATES, SAVED
from rushlight._codegen.types import f32, f64
from rushlight.core import settings
from rushlight.core.dtype_sets import F32, F64, FLOATING, compute_dtype

TYPES = {F32: f32, F64: f64}
NOTHING = {d: np.zeros(16, d) for d in TYPES}  # for what a kind of layer has no use for
NONE = (None, None, None)
NO_PLACES = np.zeros(1, np.int64)  # of a batch that is not packed: its length says so
# (kind, dtype) -> `layer`, (kind, dtype, rows) -> `step`, (kind, dtype, "few" or "many") -> `gradients`
KERNELS: dict[tuple, Any] = {}

# How threads share the work; multiplications are counted, and numbers of weights. Measured on Zen 5.
ALONE = 400_000  # with fewer in all steps one thread does everything,
BRIEF = 131_072  # unless each step has so many and other threads are awake
STEP = 400_000  # that one step of all rows takes at least where threads share each step
OWN = 400_000  # weights that a thread may go through on its own in each step
SMALL = 140_000  # weights that leave room in the cache: rows are cut into groups of ROWS
ROWS = 48
AHEAD = 96  # rows that the input's part is computed for at once


def shared(
    n: int, steps: int, size: int, width: int, weights: int, backward: bool = False
) -> tuple[int, int]:
    """(rows of a group, blocks of `width` units that a thread takes at a time or 0) for a layer."""
    threads = settings.get_num_threads()
    least = ROWS if weights <= SMALL else n
    blocks = -(-size // width)
    if threads == 1 or n * steps * weights < ALONE:
        if threads == 1 or n > least or n * weights < BRIEF or backward:
            return min(n, least), 0
        return n, -(-blocks // threads) + NEAR
    if weights > OWN and n * weights >= STEP:
        return n, -(-blocks // threads)
    rows = -(-n // threads)
    if n >= 2 * threads:
        groups = threads * -(-rows // least)
        return max(2, -(-n // groups)), 0
    return n, 0


def packings(n: int, height: int, grain: int) -> int:
    """How often the weights are packed: by each thread for its rows, or once."""
    groups = -(-n // height)
    return groups if not grain and groups <= settings.get_num_threads() else 1


def dense(a: Any, dtype: Any) -> np.ndarray:
    """`a` in this dtype, C-contiguous and aligned, copied where it is not."""
    if a.dtype is dtype and a.flags.c_contiguous and a.flags.aligned:
        return a
    return np.array(a, dtype, order="C")


def in_rows(a: np.ndarray, dtype: Any) -> tuple[np.ndarray, int, int]:
    """`a` [steps, n, size] or [rows, size] with contiguous rows, and how far, in elements, the next
    step and the next row are."""
    if a.dtype is dtype and a.flags.aligned:
        strides, item = a.strides, a.itemsize
        if strides[-1] == item and min(strides) > 0 and not any(s % item for s in strides):
            return a, strides[0] // item, strides[-2] // item
    a = np.array(a, dtype, order="C")
    return a, a.strides[0] // a.itemsize, a.strides[-2] // a.itemsize


def fits(x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h: Any, c: Any, gates: int) -> Any:
    """The dtype to compute in, or None if these arrays are for the reference."""
    dtype = x.dtype
    for a in (x, w_ih, w_hh, b_ih, b_hh, h, c):
        if a is not None and (a.__class__ is not np.ndarray or a.dtype is not dtype):
            return None
    if dtype not in FLOATING:
        return None
    if h.ndim != 2 or not x.size or not h.size or x.ndim not in (2, 3):
        return None
    size, features = h.shape[1], x.shape[-1]
    rows = gates * size
    if (
        w_ih.shape != (rows, features)
        or w_hh.shape != (rows, size)
        or (b_ih is not None and b_ih.shape != (rows,))
        or (b_hh is not None and b_hh.shape != (rows,))
        or (c is not None and c.shape != h.shape)
    ):
        return None
    return compute_dtype(dtype)


def places_of(x: np.ndarray, n: int, sizes: Any) -> Any:
    """(steps, how many rows each has and how many are before it); (0, ...) if that does not fit."""
    if sizes is None:
        return (len(x), NO_PLACES) if x.ndim == 3 and x.shape[1] == n else (0, NO_PLACES)
    if len(sizes) == 1:
        return (1, NO_PLACES) if x.ndim == 2 and sizes[0] == n == len(x) else (0, NO_PLACES)
    counts = np.array(sizes, np.int64)
    descending = (
        counts.ndim == 1 and len(counts) and counts[-1] > 0 and (np.diff(counts) <= 0).all()
    )
    if x.ndim != 2 or not descending or counts[0] != n or counts.sum() != len(x):
        return 0, NO_PLACES
    return len(counts), np.concatenate([counts, counts.cumsum() - counts])


@implements("recurrent_layer")
def recurrent_layer(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h: Any, c: Any, kind: str, sizes: Any,
    reverse: bool, keep: bool,
) -> tuple:  # fmt: skip
    """(outputs, last h, last c, what the gradients need), as the reference's."""
    gates = GATES[kind]
    dtype = fits(x, w_ih, w_hh, b_ih, b_hh, h, c, gates)
    steps, places = places_of(x, len(h), sizes) if dtype else (0, NO_PLACES)
    if not steps or (kind == "lstm") != (c is not None):
        return reference.recurrent_layer(
            x, w_ih, w_hh, b_ih, b_hh, h, c, kind, sizes, reverse, keep
        )
    (n, size), features, nothing = h.shape, x.shape[-1], NOTHING[dtype]
    if steps == 1 and n <= gemv.SOME and x.dtype is dtype:
        return one_step(x, w_ih, w_hh, b_ih, b_hh, h, c, kind, keep)
    run = KERNELS.get((kind, dtype))
    if run is None:
        known = product_sizes.recurrent_sizes(kind, TYPES[dtype])
        run = kernels.layer.compiled(KIND=kind, **known), known["U"] * known["L"]
        KERNELS[kind, dtype] = run
    kernel, width = run
    wide = -(-size // width) * width
    weights = gates * wide * (features + size)
    height, grain = shared(n, steps, size, width, weights)
    ahead = min(steps, max(1, AHEAD // height))
    rows = x.shape[0] if sizes is not None else steps * n
    own = nothing
    if kind == "gru":
        bias = b_ih
        own = np.zeros(gates * size, dtype) if b_hh is None else dense(b_hh, dtype)
    else:
        bias = b_ih if b_hh is None else b_hh if b_ih is None else np.add(b_ih, b_hh, dtype=dtype)
    bias = np.zeros(gates * size, dtype) if bias is None else dense(bias, dtype)
    y = np.empty((*x.shape[:-1], size), dtype)
    last, cells = np.empty((n, size), dtype), nothing
    if c is not None:
        cells = np.empty((n, size), dtype)
    # Its length says how rows were grouped, which the gradients need to know.
    kept = np.empty(rows * SAVED[kind] * wide + height, dtype) if keep else nothing
    copies = packings(n, height, grain)
    work = np.empty(
        copies * (features + size + 2) * gates * wide
        + n * ((3 + ahead * gates) * wide + kernels.SPACE), dtype
    )  # fmt: skip
    x_dtype = x.dtype
    x, xt, xr = in_rows(x, dtype)
    kernel(
        x, dense(w_ih, dtype), dense(w_hh, dtype), bias, own, dense(h, dtype),
        nothing if c is None else dense(c, dtype), y, last, cells, kept, work, places, steps, n,
        features, size, xt, xr, n * size, size, keep, reverse, len(places) > 1, ahead, height,
        grain, copies,
    )  # fmt: skip
    outputs: tuple = (y, last, reference.NOTHING if c is None else cells)
    if x_dtype is dtype:
        return *outputs, *((kept, nothing, nothing) if keep else NONE)
    outputs = tuple(a.astype(x_dtype) for a in outputs)
    return *outputs, *((kept, y, nothing) if keep else NONE)


def one_step(
    x: Any, w_ih: Any, w_hh: Any, b_ih: Any, b_hh: Any, h: Any, c: Any, kind: str, keep: bool
) -> tuple:
    """As `recurrent_layer` of one step of few rows."""
    dtype, (n, size), features = x.dtype, h.shape, x.shape[-1]
    gates, nothing = GATES[kind], NOTHING[dtype]
    many = 1 if n == 1 else gemv.FEW if n <= gemv.FEW else gemv.SOME
    found = KERNELS.get((kind, dtype, many))
    if found is None:
        known = product_sizes.gemv_sizes(TYPES[dtype], many)
        found = kernels.step.compiled(KIND=kind, **{k: known[k] for k in "TLJRU"}), known["L"]
        KERNELS[kind, dtype, many] = found
    kernel, lanes = found
    if b_ih is None or b_hh is None:
        zeros = np.zeros(gates * size, dtype)
        b_ih, b_hh = zeros if b_ih is None else b_ih, zeros if b_hh is None else b_hh
    kept = nothing
    if keep:
        wide = -(-size // lanes) * lanes if gates > 1 else 0
        kept = np.empty(n * SAVED[kind] * wide + n, dtype)
    y = np.empty((*x.shape[:-1], size), dtype)
    last, cells = np.empty((n, size), dtype), reference.NOTHING
    if c is not None:
        cells, c = np.empty((n, size), dtype), dense(c, dtype)
    x, _, xr = in_rows(x, dtype)
    kernel(
        x, dense(w_ih, dtype), dense(w_hh, dtype), dense(b_ih, dtype), dense(b_hh, dtype),
        dense(h, dtype), nothing if c is None else c, y, last, cells, kept,
        np.empty(2 * n * gates * size, dtype), n, features, size, xr, keep,
    )  # fmt: skip
    return y, last, cells, *((kept, nothing, nothing) if keep else NONE)


@implements("recurrent_layer_gradients")
def recurrent_layer_gradients(
    g: Any, g_h: Any, g_c: Any, x: Any, w_ih: Any, w_hh: Any, h: Any, c: Any, y: Any, first: Any,
    second: Any, third: Any, kind: str, sizes: Any, reverse: bool, needs_x: bool,
    needs_h: bool,
) -> tuple:  # fmt: skip
    """The gradients of `recurrent_layer` by x, w_ih, w_hh, b_ih, b_hh, h and c, as the reference's."""
    gates = GATES[kind]
    dtype = fits(x, w_ih, w_hh, None, None, h, c, gates)
    steps, places = places_of(x, len(h), sizes) if dtype else (0, NO_PLACES)
    # As they were before they were rounded to a half type; what the reference kept is another thing.
    outputs = second if x.dtype is not dtype and second is not None else y
    size = h.shape[-1]
    width = (
        product_sizes.recurrent_sizes(kind, TYPES[dtype])["L"] if dtype else 1
    )  # what saves has one vector of units
    wide = -(-size // width) * width
    rows = x.size // max(1, x.shape[-1])
    saved = rows * SAVED[kind] * wide
    if (
        not steps
        or first is None
        or first.ndim != 1
        or not 0 < first.size - saved <= len(h)
        or outputs.shape != (*x.shape[:-1], size)
        or not fits_gradients(g, g_h, g_c, x, outputs, h, kind)
    ):
        return reference.recurrent_layer_gradients(
            g, g_h, g_c, x, w_ih, w_hh, h, c, y, first, second, third, kind, sizes, reverse, needs_x,
            needs_h,
        )  # fmt: skip
    n, nothing, height = len(h), NOTHING[dtype], first.size - saved
    few = height <= 6
    run = KERNELS.get((kind, dtype, "few" if few else "many"))
    if run is None:
        known = product_sizes.recurrent_gradient_sizes(TYPES[dtype], few)
        run = recurrent_gradients.gradients.compiled(KIND=kind, **known), known["V"] * known["L"]
        KERNELS[kind, dtype, "few" if few else "many"] = run
    kernel, width = run
    wide = -(-size // width) * width
    grain = 0
    if height == n:
        grain = shared(n, steps, size, width, gates * wide * (x.shape[-1] + size), True)[1]
    slopes = np.empty((rows, gates * size), dtype)
    own = np.empty_like(slopes) if kind == "gru" else slopes
    dh, dc = np.empty((n, size), dtype), nothing
    if c is not None:
        dc = np.empty((n, size), dtype)
    copies = packings(n, height, grain)
    work = np.empty(
        copies * gates * size * wide + n * 2 * (wide + gates * size + kernels.SPACE), dtype
    )
    g, gt, gr = in_rows(g, dtype)
    y = dense(outputs, dtype)
    kernel(
        g, y, dense(w_hh, dtype), dense(g_h, dtype), nothing if c is None else dense(g_c, dtype),
        first, slopes, own if kind == "gru" else nothing, dh, dc, work, places, steps, n, size, gt,
        gr, n * size, size, reverse, len(places) > 1, height, grain, copies, needs_h and steps > 1,
    )  # fmt: skip
    if steps == 1 and needs_h:
        weight = dense(w_hh, dtype)
        if kind == "gru":
            dh = product_table.product(own, weight, dh.shape, begin=gemm.ADD, c=dh)
        else:
            dh = products.matmul(own, weight)
    x2 = dense(x, dtype).reshape(rows, -1)
    sums = reduce.sum(slopes, 0, False)
    found = [
        products.matmul(slopes, dense(w_ih, dtype)).reshape(x.shape) if needs_x else None,
        products.matmul(slopes.T, x2), by_states(own, y.reshape(rows, -1), h, x, sizes, reverse),
        sums, reduce.sum(own, 0, False) if kind == "gru" else sums.copy(),
        dh if needs_h else None, None if c is None else dc,
    ]  # fmt: skip
    if x.dtype is not dtype:
        found = [None if a is None else a.astype(x.dtype) for a in found]
    return tuple(found)


def fits_gradients(g: Any, g_h: Any, g_c: Any, x: Any, y: Any, h: Any, kind: str) -> bool:
    """Whether gradients by the outputs are of the dtype and the shapes of these."""
    wanted = [(g, y), (g_h, h)] + ([(g_c, h)] if kind == "lstm" else [])
    return all(
        a.__class__ is np.ndarray and a.dtype is x.dtype and a.shape == b.shape for a, b in wanted
    )


def by_states(own: Any, y: Any, h: Any, x: Any, sizes: Any, reverse: bool) -> np.ndarray:
    """The gradient by w_hh: the slopes times the states before each step."""
    dtype, n = own.dtype, len(h)
    if len(own) == n:
        return products.matmul(own.T, dense(h, dtype))
    if sizes is not None:
        before = reference.states_before(dense(h, dtype), y, reference.steps_of(x, sizes, reverse))
        return products.matmul(own.T, before)
    first, later = (own[-n:], own[:-n]) if reverse else (own[:n], own[n:])
    h = dense(h, dtype)
    out = products.matmul(later.T, y[n:] if reverse else y[:-n])
    return product_table.product(first.T, h, out.shape, begin=gemm.ADD, c=out)
