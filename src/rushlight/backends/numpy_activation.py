"""Kernels of activation functions; half types are computed in float32."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight.backends.numpy_elementwise import F32, ZERO, sigmoid, wide
from rushlight.backends.numpy_special import erf

SQRT_HALF = math.sqrt(0.5)
INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
GELU_TANH = math.sqrt(2 / math.pi)
GELU_CUBE = 0.044715


@wide
def gelu(a: Any) -> Any:
    """a * Phi(a), Phi the normal distribution function (Hendrycks and Gimpel 2016)."""
    r = erf(a * a.dtype.type(SQRT_HALF))
    r += 1
    r *= a
    r *= 0.5
    return r


@wide
def gelu_slope(a: Any) -> Any:
    """Phi(a) + a * phi(a)."""
    r = erf(a * a.dtype.type(SQRT_HALF))
    r += 1
    r *= 0.5
    return r + a * np.exp(a * a * -0.5) * INV_SQRT_2PI


@wide
def gelu_tanh(a: Any) -> Any:
    """The approximation of `gelu` by tanh."""
    t = np.tanh(GELU_TANH * (a + GELU_CUBE * a * a * a))
    return 0.5 * a * (1 + t)


@wide
def gelu_tanh_slope(a: Any) -> Any:
    t = np.tanh(GELU_TANH * (a + GELU_CUBE * a * a * a))
    return 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * GELU_TANH * (1 + 3 * GELU_CUBE * a * a)


def relu(a: Any) -> Any:
    """The larger of `a` and 0; NaN for NaN."""
    return np.maximum(a, ZERO if a.dtype is F32 else a.dtype.type(0))


@wide
def silu(a: Any) -> Any:
    """a * sigmoid(a)."""
    return a * sigmoid(a)


@wide
def silu_slope(a: Any) -> Any:
    s = sigmoid(a)
    return s * (1 + a * (1 - s))


@wide
def softplus(a: Any) -> Any:
    """log(1 + exp(a)), without overflow."""
    return np.maximum(a, 0) + np.log1p(np.exp(-np.abs(a)))


@wide
def mish(a: Any) -> Any:
    """a * tanh(softplus(a)) (Misra 2019)."""
    return a * np.tanh(softplus(a))
