"""Normalisation of channels as machine code; see `__init__.py` for when it runs,
`compiler/kernels/batch_norm.py` for how.

Arrays of floating dtypes, contiguous or with their channels last; parameters and statistics of any
floating dtype each. Statistics come in float32 for half types. All else is the reference's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.backends.compiled.operands import known
from rushlight.backends.reference import normalize as reference
from rushlight.backends.reference.normalize import channels_last
from rushlight.compiler.kernels import batch_norm as kernels
from rushlight.compiler.types import of


def vectors(n: int, *given: Any) -> bool:
    """Whether each is n numbers that stand side by side, or None."""
    for a in given:
        if a is not None and not (known(a) and a.size == n and a.flags.carray):
            return False
    return True


def layout_of(a: Any) -> tuple[int, int, int] | None:
    """(n, channels, size) of [n, channels, size] in memory; size 1: rows of channels."""
    if not known(a) or a.ndim < 2 or not a.size:
        return None
    flags = a.flags
    n, channels = a.shape[:2]
    if flags.carray:
        return n, channels, a.size // (n * channels)
    if flags.aligned and channels_last(a):
        return a.size // channels, channels, 1
    return None


def alike(g: Any, a: np.ndarray) -> np.ndarray | None:
    """A gradient laid out as `a` is."""
    if g.__class__ is not np.ndarray or g.dtype is not a.dtype or g.shape != a.shape:
        return None
    if g.flags.carray and a.flags.carray or g.strides == a.strides and g.flags.aligned:
        return g
    like = np.empty_like(a)  # dense, so in the same order
    np.copyto(like, g)
    return like


def batch_norm(
    a: Any, weight: Any, bias: Any, mean: Any, var: Any, training: bool, eps: float
) -> tuple[Any, Any, Any]:
    """(normalised, mean, biased variance); the statistics are those given unless `training`."""
    sizes = layout_of(a)
    if sizes is None or not vectors(sizes[1], weight, bias):
        return reference.batch_norm(a, weight, bias, mean, var, training, eps)
    n, channels, size = sizes
    t: Any = of(a.dtype)
    d = t.loaded.np
    w, b = (a if v is None else v for v in (weight, bias))  # what is not there is not read
    if weight is not None and bias is not None and weight.dtype is not bias.dtype:
        w, b = (v.astype(d, copy=False) for v in (weight, bias))
    kinds: dict[str, Any] = {"WEIGHT": weight is not None, "BIAS": bias is not None, "T": t}
    kinds["W"] = of((b if weight is None else w).dtype)
    y = np.empty_like(a)
    if training:
        mean, var = np.empty(channels, d), np.empty(channels, d)
        if size > 1:
            kernel = kernels.planes_norm.compiled(**kinds, R=t.loaded)
            kernel(a, w, b, mean, var, y, n, channels, size, eps)
        else:
            parts = np.empty((2 * kernels.PARTS + 2) * channels, d)
            kernel = kernels.rows_norm.compiled(**kinds, R=t.loaded)
            kernel(a, w, b, mean, var, y, parts, n, channels, eps)
        return y, mean, var
    m, v = mean, var
    if not vectors(channels, m, v) or m.dtype is not v.dtype:
        return reference.batch_norm(a, weight, bias, mean, var, training, eps)
    if size > 1:
        kernel = kernels.planes_scale.compiled(**kinds, S=of(m.dtype))
        kernel(a, w, b, m, v, y, n, channels, size, eps)
    else:
        kernel = kernels.rows_scale.compiled(**kinds, S=of(m.dtype), R=t.loaded)
        kernel(a, w, b, m, v, y, np.empty(2 * channels, d), n, channels, eps)
    return y, mean, var


def batch_norm_gradients(
    g: Any, a: Any, weight: Any, mean: Any, var: Any, training: bool, eps: float, needs: tuple
) -> tuple[Any, Any, Any]:
    """The gradients of batch_norm by input, weight and bias."""
    sizes = layout_of(a)
    h = None if sizes is None else alike(g, a)
    if sizes is None or h is None or not vectors(sizes[1], weight, mean, var) or (
        mean.dtype is not var.dtype
    ):  # fmt: skip
        return reference.batch_norm_gradients(g, a, weight, mean, var, training, eps, needs)
    n, channels, size = sizes
    t: Any = of(a.dtype)
    d = t.loaded.np
    gw, gb = np.empty(channels, d), np.empty(channels, d)
    gx = np.empty_like(a) if needs[0] else gw
    sums = bool(needs[1] or needs[2])
    kinds = {
        "WEIGHT": weight is not None, "TRAINING": training, "SUMS": sums, "INPUT": bool(needs[0]),
        "T": t, "W": t if weight is None else of(weight.dtype), "S": of(mean.dtype), "R": t.loaded,
    }  # fmt: skip
    w = a if weight is None else weight
    if size > 1:
        kernel = kernels.planes_backward.compiled(**kinds)
        kernel(h, a, w, mean, var, gx, gw, gb, n, channels, size, eps)
    else:
        parts = np.empty((2 * kernels.PARTS + 3) * channels, d)
        kernel = kernels.rows_backward.compiled(**kinds)
        kernel(h, a, w, mean, var, gx, gw, gb, parts, n, channels, eps)
    return gx if needs[0] else None, gw if needs[1] else None, gb if needs[2] else None


def move_statistics(
    running_mean: Any, running_var: Any, mean: Any, var: Any, by: float, unbiased: float
) -> None:
    """Running statistics go `by` of the way to those of a batch, the variance times `unbiased`."""
    n = running_mean.size
    if not (
        vectors(n, running_mean, running_var, mean, var)
        and running_mean.dtype is running_var.dtype
        and mean.dtype is var.dtype
        and mean.dtype.itemsize >= 4
    ):
        reference.move_statistics(running_mean, running_var, mean, var, by, unbiased)
        return
    kernel = kernels.moved.compiled(S=of(running_mean.dtype), R=of(mean.dtype))
    kernel(running_mean, running_var, mean, var, n, by, unbiased)
