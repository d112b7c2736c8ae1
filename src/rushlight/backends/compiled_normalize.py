"""Normalisation as machine code; see `compiled.py` for when it runs, `compiler/kernels/norm.py` for how.

C-contiguous arrays of floating dtypes; statistics are float32 for half types. All else, among it
channels-last batches and rows of channels, is the reference's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.backends import numpy_normalize as reference
from rushlight.backends.operands import takes
from rushlight.compiler.kernels import norm
from rushlight.compiler.types import Type, of

CHUNKS = 64  # sums over rows are made of so many parts at most
SHORT = 16  # elements of a plane below which its own overhead is most of the work


def fits(a: Any, *others: Any) -> Type | None:
    """The type of what is normalised if kernels can take it, and the others with it."""
    if not takes(a) or not a.flags.carray:
        return None
    for b in others:
        if b is not None and (
            b.__class__ is not np.ndarray or b.dtype is not a.dtype or not b.flags.carray
        ):
            return None
    return of(a.dtype)


def register(t: Type) -> Any:
    """NumPy's dtype for what `t` is computed in."""
    return t.loaded.np


def in_rows(a: np.ndarray, n: int, *others: Any) -> bool:
    """Whether `a` is rows of `n` elements, and each of the others (or None) is one."""
    return n > 0 and a.size % n == 0 and all(b is None or b.size == n for b in others)


def layer_norm(a: Any, weight: Any, bias: Any, n: int, eps: float) -> tuple[Any, Any, Any]:
    """(normalised, mean, 1 / deviation) of rows of `n` elements."""
    t = fits(a, weight, bias)
    if t is None or not in_rows(a, n, weight, bias):
        return reference.layer_norm(a, weight, bias, n, eps)
    rows, d = a.size // n, register(t)
    y, mean, rstd = np.empty(a.shape, a.dtype), np.empty(rows, d), np.empty(rows, d)
    kernel = norm.row_norm.compiled(
        WEIGHT=weight is not None, BIAS=bias is not None, CENTRE=True, T=t, W=t, R=t.loaded
    )
    w, b = (a if v is None else v for v in (weight, bias))  # what is not there is not read
    kernel(a, w, b, y, mean, rstd, rows, n, eps)
    return y, mean, rstd


def layer_norm_gradients(
    g: Any, a: Any, weight: Any, n: int, eps: float, needs: tuple
) -> tuple[Any, Any, Any]:
    """The gradients of layer_norm by input, weight and bias; None where not needed."""
    t = fits(a, g, weight)
    if t is None or not in_rows(a, n, weight) or g.shape != a.shape:
        return reference.layer_norm_gradients(g, a, weight, n, eps, needs)
    rows, d = a.size // n, register(t)
    grain = -(-rows // CHUNKS)
    parts = -(-rows // grain)
    gx = np.empty(a.shape, a.dtype)
    sums = bool(needs[1] or needs[2])
    gw, gb = (np.zeros((parts, n), d) if sums else gx for _ in range(2))
    kernel = norm.row_norm_backward.compiled(
        WEIGHT=weight is not None, CENTRE=True, INPUT=bool(needs[0]), SUMS=sums,
        T=t, W=t, R=t.loaded,
    )  # fmt: skip
    kernel(g, a, a if weight is None else weight, gx, gw, gb, rows, n, grain, eps)
    return (
        gx if needs[0] else None,
        gw.sum(0) if needs[1] else None,
        gb.sum(0) if needs[2] else None,
    )


def plane_moments(a: np.ndarray, planes: int, t: Type) -> tuple[Any, Any]:
    """(mean, sum of squared deviations) of equal pieces of an array."""
    mean, squares = np.empty(planes, register(t)), np.empty(planes, register(t))
    norm.plane_moments.compiled(T=t, R=t.loaded)(a, mean, squares, planes, a.size // planes)
    return mean, squares


def plane_scale(a: np.ndarray, scale: Any, shift: Any, t: Type, planes: int) -> Any:
    y = np.empty(a.shape, a.dtype)
    kernel = norm.plane_scale.compiled(T=t, R=t.loaded)
    kernel(a, scale, shift, y, planes, a.size // planes, scale.size)
    return y


def plane_sums(g: np.ndarray, a: np.ndarray, mean: Any, t: Type, planes: int) -> tuple[Any, Any]:
    """For each plane the sums of g and of g * (a - mean)."""
    sums, products = np.empty(planes, register(t)), np.empty(planes, register(t))
    kernel = norm.plane_sums.compiled(T=t, R=t.loaded)
    kernel(g, a, mean, sums, products, planes, a.size // planes, mean.size)
    return sums, products


def plane_blend(g: Any, a: Any, s: Any, u: Any, v: Any, t: Type, planes: int) -> Any:
    """s * g + u * a + v, with numbers of planes."""
    out = np.empty(a.shape, a.dtype)
    kernel = norm.plane_blend.compiled(T=t, R=t.loaded)
    kernel(g, a, s, u, v, out, planes, a.size // planes, s.size)
    return out


def exact(*values: Any) -> list[Any]:
    """Statistics as contiguous arrays, for kernels."""
    return [np.ascontiguousarray(v) for v in values]


def channel_weight(weight: Any, channels: int, d: Any) -> Any:
    return np.ones(channels, d) if weight is None else weight.reshape(-1).astype(d, copy=False)


def group_norm(a: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple[Any, Any, Any]:
    """(normalised, mean, 1 / deviation) of `groups` groups of the channels of (N, C, *)."""
    t = fits(a)
    if t is None or a.shape[1] % groups or a.size // (a.shape[0] * a.shape[1]) < SHORT:
        return reference.group_norm(a, weight, bias, groups, eps)
    n, channels = a.shape[:2]
    d = register(t)
    mean, squares = plane_moments(a, n * groups, t)
    rstd = 1 / np.sqrt(squares / d.type(a.size // (n * groups)) + d.type(eps))
    each = channels // groups
    w = channel_weight(weight, channels, d)
    scale = (rstd.reshape(n, groups, 1) * w.reshape(groups, each)).reshape(n, channels)
    shift = -np.repeat(mean, each).reshape(n, channels) * scale
    if bias is not None:
        shift += channel_weight(bias, channels, d)
    scale, shift = exact(scale.reshape(-1), shift.reshape(-1))
    y = plane_scale(a, scale, shift, t, n * channels)
    return y, mean.reshape(n, groups), rstd.reshape(n, groups)


def group_norm_gradients(
    g: Any, a: Any, weight: Any, groups: int, eps: float, needs: tuple
) -> tuple[Any, Any, Any]:
    """The gradients of group_norm by input, weight and bias."""
    t = fits(a, g)
    if (
        t is None
        or g.shape != a.shape
        or a.shape[1] % groups
        or a.size // (a.shape[0] * a.shape[1]) < SHORT
    ):
        return reference.group_norm_gradients(g, a, weight, groups, eps, needs)
    n, channels = a.shape[:2]
    d, each, size = register(t), channels // groups, a.size // (n * groups)
    mean, squares = plane_moments(a, n * groups, t)
    rstd = 1 / np.sqrt(squares / d.type(size) + d.type(eps))
    means = np.repeat(mean, each)
    sums, products = plane_sums(g, a, means, t, n * channels)
    r = np.repeat(rstd, each)
    slopes = (products * r).reshape(n, channels)
    gw = slopes.sum(0) if needs[1] else None
    gb = sums.reshape(n, channels).sum(0) if needs[2] else None
    if not needs[0]:
        return None, gw, gb
    w = channel_weight(weight, channels, d)
    first = (sums.reshape(n, channels) * w).reshape(n * groups, each).sum(1) / d.type(size)
    second = (slopes * w).reshape(n * groups, each).sum(1) / d.type(size)
    s = (r.reshape(n, channels) * w).reshape(-1)
    # gx = r * (w * g - first - second * (x - mean) * r)
    u = np.repeat(-second * rstd * rstd, each)
    v = np.repeat(rstd * (second * rstd * mean - first), each)
    return plane_blend(g, a, *exact(s, u, v), t, n * channels), gw, gb
