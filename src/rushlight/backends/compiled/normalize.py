"""Normalisation of rows as machine code; see `__init__.py` for when it runs, `compiler/kernels/norm.py` for how.

Arrays of floating dtypes, C-contiguous or copied so; weight and bias of any floating dtype. Statistics are
float32 for half types. What is laid out with channels last is the reference's.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.backends.compiled.batch_normalize import vectors
from rushlight.backends.compiled.operands import known
from rushlight.backends.reference import normalize as reference
from rushlight.compiler.kernels import norm
from rushlight.compiler.types import of


def whole(a: Any) -> Any:
    """`a`, or a copy of it, with its elements side by side; None for what kernels do not take."""
    if not known(a) or not a.size:
        return None
    return a if a.flags.carray else np.array(a, order="C")


def in_rows(a: np.ndarray, n: int, *others: Any) -> bool:
    """Whether `a` is rows of `n` elements, and each of the others (or None) is one."""
    return n > 0 and a.size % n == 0 and vectors(n, *others)


def like(g: Any, x: np.ndarray) -> Any:
    """The gradient of something like x, its elements side by side; None where it is not of that kind."""
    if g.__class__ is not np.ndarray or g.dtype is not x.dtype or g.shape != x.shape:
        return None
    return g if g.flags.carray else np.array(g, order="C")


def affine(x: np.ndarray, weight: Any, bias: Any) -> tuple[Any, Any, Any]:
    """Weight and bias of one dtype, `x` where there is none (it is not read), and the type of both."""
    if weight is not None and bias is not None and weight.dtype is not bias.dtype:
        d = np.promote_types(np.float32, x.dtype if x.dtype.itemsize > 2 else np.float32)
        weight, bias = weight.astype(d), bias.astype(d)
    w, b = (x if v is None else v for v in (weight, bias))
    return w, b, of((b if weight is None else w).dtype)


def layer_norm(a: Any, weight: Any, bias: Any, n: int, eps: float) -> tuple[Any, Any, Any]:
    """(normalised, mean, 1 / deviation) of rows of `n` elements."""
    x = whole(a)
    if x is None or not in_rows(x, n, weight, bias):
        return reference.layer_norm(a, weight, bias, n, eps)
    t: Any = of(x.dtype)
    rows, d = x.size // n, t.loaded.np
    y, mean, rstd = np.empty(x.shape, x.dtype), np.empty(rows, d), np.empty(rows, d)
    w, b, kind = affine(x, weight, bias)
    kernel = norm.row_norm.compiled(
        WEIGHT=weight is not None, BIAS=bias is not None, CENTRE=True, T=t, W=kind, R=t.loaded
    )
    kernel(x, w, b, y, mean, rstd, rows, n, eps)
    return y, mean, rstd


def rms_norm(a: Any, weight: Any, n: int, eps: float) -> Any:
    """Rows of `n` elements over the square root of the mean of their squares."""
    x = whole(a)
    if x is None or not in_rows(x, n, weight):
        return reference.rms_norm(a, weight, n, eps)
    t: Any = of(x.dtype)
    rows = x.size // n
    y, rstd = np.empty(x.shape, x.dtype), np.empty(rows, t.loaded.np)
    w, _, kind = affine(x, weight, None)
    kernel = norm.row_norm.compiled(
        WEIGHT=weight is not None, BIAS=False, CENTRE=False, T=t, W=kind, R=t.loaded
    )
    kernel(x, w, w, y, rstd, rstd, rows, n, eps)
    return y


def gradients_of_rows(
    g: Any, a: Any, weight: Any, n: int, eps: float, needs: tuple, centre: bool
) -> tuple[Any, Any, Any] | None:
    """The gradients of both by input, weight and bias; None where kernels do not take them."""
    x = whole(a)
    h = None if x is None else like(g, x)
    if h is None or not in_rows(x, n, weight):
        return None
    t: Any = of(x.dtype)
    rows, d = x.size // n, t.loaded.np
    gw, gb = np.empty(n, d), np.empty(n, d)
    gx = np.empty(x.shape, x.dtype) if needs[0] else gw
    sums = bool(needs[1] or needs[2])
    parts = np.empty(2 * norm.PARTS * n, d) if sums else gw
    w, _, kind = affine(x, weight, None)
    kernel = norm.row_norm_backward.compiled(
        WEIGHT=weight is not None, CENTRE=centre, INPUT=bool(needs[0]), SUMS=sums,
        T=t, W=kind, R=t.loaded,
    )  # fmt: skip
    kernel(h, x, w, gx, gw, gb, parts, rows, n, eps)
    return gx if needs[0] else None, gw if needs[1] else None, gb if needs[2] else None


def layer_norm_gradients(
    g: Any, a: Any, weight: Any, n: int, eps: float, needs: tuple
) -> tuple[Any, Any, Any]:
    """The gradients of layer_norm by input, weight and bias; None where not needed."""
    found = gradients_of_rows(g, a, weight, n, eps, needs, True)
    return found or reference.layer_norm_gradients(g, a, weight, n, eps, needs)


def rms_norm_gradients(
    g: Any, a: Any, weight: Any, n: int, eps: float, needs: tuple
) -> tuple[Any, Any]:
    """The gradients of rms_norm by input and weight; None where not needed."""
    found = gradients_of_rows(g, a, weight, n, eps, (*needs, False), False)
    return found[:2] if found else reference.rms_norm_gradients(g, a, weight, n, eps, needs)


def planes_of(a: Any, groups: int, *others: Any) -> tuple[Any, int]:
    """(`a` with its elements side by side, elements of a plane) of (N, C, *); None for what is the reference's."""
    if a.ndim < 2 or groups < 1 or a.shape[1] % groups or reference.channels_last(a):
        return None, 0
    x = whole(a)
    if x is None or not vectors(x.shape[1], *others):
        return None, 0
    return x, x.size // (x.shape[0] * x.shape[1])


def group_norm(a: Any, weight: Any, bias: Any, groups: int, eps: float) -> tuple[Any, Any, Any]:
    """(normalised, mean, 1 / deviation) of `groups` groups of the channels of (N, C, *)."""
    x, size = planes_of(a, groups, weight, bias)
    if x is None:
        return reference.group_norm(a, weight, bias, groups, eps)
    t: Any = of(x.dtype)
    n, channels = x.shape[:2]
    d = t.loaded.np
    y = np.empty(x.shape, x.dtype)
    mean, rstd = np.empty((n, groups), d), np.empty((n, groups), d)
    w, b, kind = affine(x, weight, bias)
    kernel = norm.groups_norm.compiled(
        WEIGHT=weight is not None, BIAS=bias is not None, T=t, W=kind, R=t.loaded
    )
    kernel(x, w, b, y, mean, rstd, n * groups, groups, channels // groups, size, eps)
    return y, mean, rstd


def group_norm_gradients(
    g: Any, a: Any, weight: Any, groups: int, eps: float, needs: tuple
) -> tuple[Any, Any, Any]:
    """The gradients of group_norm by input, weight and bias."""
    x, size = planes_of(a, groups, weight)
    h = None if x is None else like(g, x)
    if h is None:
        return reference.group_norm_gradients(g, a, weight, groups, eps, needs)
    t: Any = of(x.dtype)
    n, channels = x.shape[:2]
    d = t.loaded.np
    gw, gb = np.empty(channels, d), np.empty(channels, d)
    gx = np.empty(x.shape, x.dtype) if needs[0] else gw
    w, _, kind = affine(x, weight, None)
    kernel = norm.groups_norm_backward.compiled(
        WEIGHT=weight is not None, INPUT=bool(needs[0]), SUMS=bool(needs[1] or needs[2]),
        T=t, W=kind, R=t.loaded,
    )  # fmt: skip
    parts = np.empty(2 * n * channels, d)
    kernel(h, x, w, gx, gw, gb, parts, n * groups, groups, channels // groups, size, eps)
    return gx if needs[0] else None, gw if needs[1] else None, gb if needs[2] else None


def lengths(a: Any, axes: tuple[int, ...], keepdims: bool) -> Any:
    """The square roots of the sums of squares along `axes`."""
    if len(axes) != 1 or axes[0] != a.ndim - 1 or a.ndim < 2 or not known(a) or not (
        a.size and a.flags.carray
    ):  # fmt: skip
        return reference.lengths(a, axes, keepdims)
    n = a.shape[-1]
    out = np.empty((*a.shape[:-1], 1) if keepdims else a.shape[:-1], a.dtype)
    norm.row_lengths.compiled(T=of(a.dtype))(a, out, out.size, n)
    return out
