"""Kernels of losses of elements, `a` the prediction and `b` the target, and of their gradients: functions
of g, the gradient of the result. Half types are computed in float32."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import errstate

from rushlight._backends.reference import primitives as xp
from rushlight._backends.reference.elementwise import wide
from rushlight.core.dtype_sets import F32

KERNELS = (
    "bce_with_logits bce_with_logits_gradient binary_cross_entropy "
    "binary_cross_entropy_gradient binary_cross_entropy_target_gradient huber huber_gradient "
    "mse_gradient nll_loss nll_loss_gradient smooth_l1 smooth_l1_gradient squared_distance"
).split()


def squared_distance(a: Any, b: Any) -> Any:
    """The sum of (a - b)**2; of half types in float32."""
    if a.dtype.itemsize < 4:
        a, b = a.astype(F32), b.astype(F32)
    d = (a - b).reshape(-1)
    return xp.asarray(xp.matmul(d, d))


@wide
def mse_gradient(g: Any, a: Any, b: Any, factor: float) -> Any:
    """g * factor * (a - b); g may be one number for all."""
    return (a - b) * (g * factor)


@wide
def smooth_l1(a: Any, b: Any, beta: float) -> Any:
    """Squared where |a - b| is below `beta`, else absolute (Girshick 2015)."""
    z = xp.absolute(a - b)
    return xp.where(z < beta, z * z * 0.5 / beta if beta else z, z - 0.5 * beta)


@wide
def smooth_l1_gradient(g: Any, a: Any, b: Any, beta: float) -> Any:
    """The gradient of `smooth_l1` by a."""
    z = a - b
    if beta:
        return g * xp.minimum(xp.maximum(z / beta, -1), 1)
    return g * xp.where(z == z, xp.sign(z), z)


@wide
def huber(a: Any, b: Any, delta: float) -> Any:
    """Squared where |a - b| is at most `delta`, else linear (Huber 1964)."""
    z = xp.absolute(a - b)
    return xp.where(z <= delta, z * z * 0.5, delta * (z - 0.5 * delta))


@wide
def huber_gradient(g: Any, a: Any, b: Any, delta: float) -> Any:
    """The gradient of `huber` by a."""
    return g * xp.minimum(xp.maximum(a - b, -delta), delta)


@wide
def bce_with_logits(a: Any, b: Any) -> Any:
    """max(a, 0) - a * b + log(1 + exp(-|a|))."""
    return xp.maximum(a, 0) - a * b + xp.log1p(xp.exp(-xp.absolute(a)))


@wide
def bce_with_logits_gradient(g: Any, a: Any, b: Any) -> Any:
    """The gradient of `bce_with_logits` by a."""
    return g * (xp.sigmoid(a) - b)


def are_probabilities(a: Any) -> bool:
    """Whether all elements are in [0, 1]."""
    return not a.size or bool(((a >= 0) & (a <= 1)).all())


def binary_cross_entropy(a: Any, b: Any) -> Any | None:
    """-(b log(a) + (1 - b) log(1 - a)), each logarithm at least -100. None where an element of a is not in [0, 1]."""
    return losses_of_pairs(a, b) if are_probabilities(a) else None


@wide
def losses_of_pairs(a: Any, b: Any) -> Any:
    """`binary_cross_entropy` of any numbers."""
    with errstate(all="ignore"):
        low, high = xp.maximum(xp.log(a), -100), xp.maximum(xp.log1p(-a), -100)
        return (b - 1) * high - b * low


@wide
def binary_cross_entropy_gradient(a: Any, b: Any, g: Any) -> Any:
    """The gradient of `binary_cross_entropy` by a, which lies in memory as a does."""
    return g * (a - b) / xp.maximum((1 - a) * a, a.dtype.type(1e-12))


@wide
def binary_cross_entropy_target_gradient(a: Any, g: Any) -> Any:
    """The gradient of `binary_cross_entropy` by b."""
    with errstate(all="ignore"):
        return g * (xp.maximum(xp.log(1 - a), -100) - xp.maximum(xp.log(a), -100))


def nll_loss(
    input: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    reduction: str,
    ignore_index: int,
) -> np.ndarray:
    """-w[t] * x[t] for log probabilities [n, c] and classes [n]: each, their sum or weighted mean.

    IndexError for a class that is not there.
    """
    n, c = input.shape
    if weight is None and input.itemsize >= 4 and none_ignored(target, ignore_index):
        try:
            picked = input[np.arange(n), target]
        except IndexError:
            pass  # a class that is too large: said below
        else:
            if reduction == "none":
                return -picked
            total = 0.0 - np.add.reduce(picked)  # of zeros: 0, not -0
            return total / n if reduction == "mean" else total
    keep = target != ignore_index
    at = np.where(keep, target, 0)
    if at.size and (at.min() < 0 or at.max() >= c):
        bad = target[(target != ignore_index) & ((target < 0) | (target >= c))][0]
        raise IndexError(f"Target {bad} is out of bounds. (There are {c} classes, 0 to {c - 1}.)")
    picked = input[np.arange(n), at]
    w = keep.astype(input.dtype) if weight is None else np.where(keep, weight[at], 0)
    losses = np.where(keep, -picked * w, 0).astype(input.dtype)
    if reduction == "none":
        return losses
    wide = np.float32 if input.dtype.itemsize < 4 else input.dtype
    total = losses.sum(dtype=wide)
    if reduction == "mean":
        total = total / w.sum(dtype=wide)
    return np.asarray(total).astype(input.dtype)


def nll_loss_gradient(
    g: np.ndarray,
    target: np.ndarray,
    weight: np.ndarray | None,
    reduction: str,
    ignore_index: int,
    shape: tuple,
) -> np.ndarray:
    """The gradient of `nll_loss`: -w[t] * g at the target's place of each row, zeros elsewhere."""
    n, _ = shape
    if weight is None and none_ignored(target, ignore_index):
        out = np.zeros(shape, g.dtype)
        out[np.arange(n), target] = -g / n if reduction == "mean" else -g
        return out
    keep = target != ignore_index
    at = np.where(keep, target, 0)
    w = keep.astype(g.dtype) if weight is None else np.where(keep, weight[at], 0)
    value = -w * g
    if reduction == "mean":
        value = value / w.sum()
    out = np.zeros(shape, g.dtype)
    out[np.arange(n), at] = np.where(keep, value, 0)
    return out


def none_ignored(target: np.ndarray, ignore_index: int) -> bool:
    """No class is left out, and none is negative."""
    return ignore_index < 0 and target.size > 0 and bool(np.minimum.reduce(target) >= 0)
