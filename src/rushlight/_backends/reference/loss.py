"""Kernels of losses of elements, `a` the prediction and `b` the target, and of their gradients: functions
of g, the gradient of the result. Half types are computed in float32."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.reference.activation import sigmoid
from rushlight._backends.reference.elementwise import wide


def squared_distance(a: Any, b: Any) -> Any:
    """The sum of (a - b)**2; of half types in float32."""
    if a.dtype.itemsize < 4:
        a, b = a.astype(np.float32), b.astype(np.float32)
    d = (a - b).ravel()
    return np.asarray(np.dot(d, d))


@wide
def mse_gradient(g: Any, a: Any, b: Any, factor: float) -> Any:
    """g * factor * (a - b); g may be one number for all."""
    return (a - b) * (g * factor)


@wide
def smooth_l1(a: Any, b: Any, beta: float) -> Any:
    """Squared where |a - b| is below `beta`, else absolute (Girshick 2015)."""
    z = np.abs(a - b)
    return np.where(z < beta, z * z * 0.5 / beta if beta else z, z - 0.5 * beta)


@wide
def smooth_l1_gradient(g: Any, a: Any, b: Any, beta: float) -> Any:
    return g * np.clip((a - b) / beta, -1, 1) if beta else g * np.sign(a - b)


@wide
def huber(a: Any, b: Any, delta: float) -> Any:
    """Squared where |a - b| is at most `delta`, else linear (Huber 1964)."""
    z = np.abs(a - b)
    return np.where(z <= delta, z * z * 0.5, delta * (z - 0.5 * delta))


@wide
def huber_gradient(g: Any, a: Any, b: Any, delta: float) -> Any:
    return g * np.clip(a - b, -delta, delta)


@wide
def bce_with_logits(a: Any, b: Any) -> Any:
    """max(a, 0) - a * b + log(1 + exp(-|a|))."""
    return np.maximum(a, 0) - a * b + np.log1p(np.exp(-np.abs(a)))


@wide
def bce_with_logits_gradient(g: Any, a: Any, b: Any) -> Any:
    return g * (sigmoid(a) - b)


@wide
def binary_cross_entropy(a: Any, b: Any) -> Any:
    """-(b log(a) + (1 - b) log(1 - a)), each logarithm at least -100."""
    with np.errstate(all="ignore"):
        low, high = np.maximum(np.log(a), -100), np.maximum(np.log1p(-a), -100)
        return (b - 1) * high - b * low


@wide
def binary_cross_entropy_gradient(g: Any, a: Any, b: Any) -> Any:
    return g * (a - b) / np.maximum((1 - a) * a, a.dtype.type(1e-12))
