"""Kernels of activation functions; half types are computed in float32.

They are compositions of primitives: `_backends/compose.py` has them for back ends without their own.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight._backends.reference import primitives as xp
from rushlight._backends.reference.elementwise import ZERO, wide
from rushlight._backends.reference.layout import laid_out
from rushlight.core.dtype_sets import F32

KERNELS = (
    "clip_gradient elu elu_gradient gelu gelu_gradient gelu_tanh gelu_tanh_gradient glu "
    "glu_gradient hardshrink hardsigmoid hardsigmoid_gradient hardswish hardswish_gradient "
    "hardtanh hardtanh_gradient leaky_relu leaky_relu_gradient log_sigmoid log_sigmoid_gradient "
    "mish mish_gradient prelu prelu_gradient prelu_weight_gradient relu scaled_softplus "
    "scaled_softplus_gradient shrink_gradient sigmoid_gradient silu silu_gradient softshrink "
    "tanh_gradient threshold"
).split()

SQRT_HALF = math.sqrt(0.5)
INV_SQRT_2PI = 1 / math.sqrt(2 * math.pi)
GELU_TANH = math.sqrt(2 / math.pi)
GELU_CUBE = 0.044715

# PyTorch rounds this factor of the gradient of hardsigmoid to float32, whatever the dtype.
SIXTH = float(np.float32(1 / 6))


@wide
def gelu(a: Any) -> Any:
    """a * Phi(a), Phi the normal distribution function (Hendrycks and Gimpel 2016)."""
    r = xp.erf(a * a.dtype.type(SQRT_HALF))
    r += 1
    r *= a
    r *= 0.5
    return r


@wide
def gelu_slope(a: Any) -> Any:
    """Phi(a) + a * phi(a)."""
    r = xp.erf(a * a.dtype.type(SQRT_HALF))
    r += 1
    r *= 0.5
    return r + a * xp.exp(a * a * -0.5) * INV_SQRT_2PI


@wide
def gelu_tanh(a: Any) -> Any:
    """The approximation of `gelu` by tanh."""
    t = xp.tanh(GELU_TANH * (a + GELU_CUBE * a * a * a))
    return 0.5 * a * (1 + t)


@wide
def gelu_tanh_slope(a: Any) -> Any:
    t = xp.tanh(GELU_TANH * (a + GELU_CUBE * a * a * a))
    return 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * GELU_TANH * (1 + 3 * GELU_CUBE * a * a)


def relu(a: Any) -> Any:
    """The larger of `a` and 0; NaN for NaN, -0 for -0."""
    return xp.maximum(ZERO if a.dtype is F32 else a.dtype.type(0), a)


@wide
def silu(a: Any) -> Any:
    """a * sigmoid(a)."""
    return a * xp.sigmoid(a)


@wide
def silu_slope(a: Any) -> Any:
    s = xp.sigmoid(a)
    return s * (1 + a * (1 - s))


@wide
def softplus(a: Any) -> Any:
    """log(1 + exp(a)), without overflow."""
    return xp.maximum(a, 0) + xp.log1p(xp.exp(-xp.absolute(a)))


@wide
def mish(a: Any) -> Any:
    """a * tanh(softplus(a)) (Misra 2019)."""
    return a * xp.tanh(softplus(a))


# -- with numbers, and gradients: functions of g, the gradient of the result, and of the inputs ----


@wide
def leaky_relu(a: Any, slope: float) -> Any:
    """a where it is above 0, else slope * a."""
    return xp.where(a > 0, a, a * slope)


@wide
def leaky_relu_gradient(g: Any, a: Any, slope: float) -> Any:
    """The gradient of `leaky_relu`."""
    return xp.where(a > 0, g, g * slope)


@wide
def hardtanh(a: Any, low: float, high: float) -> Any:
    """The smaller of `high` and of the larger of `a` and `low`."""
    return xp.minimum(a.dtype.type(high), xp.maximum(a.dtype.type(low), a))


@wide
def hardtanh_gradient(g: Any, a: Any, low: float, high: float) -> Any:
    """g where `a` is strictly between the bounds, else 0."""
    return xp.where((a > low) & (a < high), g, g.dtype.type(0))


def clip_gradient(g: Any, a: Any, low: float | None, high: float | None) -> Any:
    """g where `a` is between the bounds, either may be None, or at one; else 0."""
    if low is None:
        kept = a <= high
    else:
        kept = a >= low if high is None else (a >= low) & (a <= high)
    return xp.where(kept, g, g.dtype.type(0))


@wide
def hardsigmoid(a: Any) -> Any:
    """min(max(a + 3, 0), 6) / 6."""
    return xp.minimum(xp.maximum(a + 3, 0), 6) / 6


@wide
def hardsigmoid_gradient(g: Any, a: Any) -> Any:
    """The gradient of `hardsigmoid`."""
    return xp.where((a > -3) & (a < 3), g * g.dtype.type(SIXTH), g.dtype.type(0))


@wide
def hardswish(a: Any) -> Any:
    """a * hardsigmoid(a) (Howard et al. 2019)."""
    return a * xp.minimum(xp.maximum(a + 3, 0), 6) / 6


@wide
def hardswish_gradient(g: Any, a: Any) -> Any:
    """The gradient of `hardswish`."""
    inner = xp.where(a >= 3, g, g * (a / 3 + a.dtype.type(0.5)))
    return xp.where(a <= -3, g.dtype.type(0), inner)


@wide
def threshold(a: Any, least: float, value: float) -> Any:
    """a where it is above `least` or NaN, else `value`."""
    return xp.where(a <= least, a.dtype.type(value), a)


@wide
def hardshrink(a: Any, width: float) -> Any:
    """a where its magnitude is above `width`, else 0."""
    return xp.where((a >= -width) & (a <= width), a.dtype.type(0), a)


@wide
def softshrink(a: Any, width: float) -> Any:
    """a moved towards 0 by `width`, 0 within."""
    return xp.where(a > width, a - width, xp.where(a < -width, a + width, a * 0))


@wide
def shrink_gradient(g: Any, a: Any, width: float) -> Any:
    """The gradient of `hardshrink` and `softshrink`."""
    return xp.where((a >= -width) & (a <= width), g.dtype.type(0), g)


@wide
def elu(a: Any, above: float, below: float, inner: float) -> Any:
    """above * a where `a` is above 0, else below * (exp(inner * a) - 1)."""
    return xp.where(a > 0, a * above, xp.expm1(xp.minimum(0, a) * inner) * below)


@wide
def elu_gradient(g: Any, a: Any, above: float, below: float, inner: float) -> Any:
    """The gradient of `elu`."""
    slope = xp.exp(xp.minimum(a, 0) * inner) * (below * inner)
    return xp.where(a > 0, g * above, g * slope)


@wide
def scaled_softplus(a: Any, beta: float, most: float) -> Any:
    """softplus(beta * a) / beta, and `a` where beta * a is above `most`."""
    x = a * beta
    return xp.where(x > most, a, softplus(x) / beta)


@wide
def scaled_softplus_gradient(g: Any, a: Any, beta: float, most: float) -> Any:
    """The gradient of `scaled_softplus`."""
    x = a * beta
    return xp.where(x > most, g, g * xp.sigmoid(x))


@wide
def log_sigmoid(a: Any) -> Any:
    """log(sigmoid(a))."""
    return -softplus(-a)


@wide
def log_sigmoid_gradient(g: Any, a: Any) -> Any:
    """The gradient of `log_sigmoid`."""
    return g * xp.sigmoid(-a)


@wide
def gelu_gradient(g: Any, a: Any) -> Any:
    """The gradient of `gelu`."""
    return g * gelu_slope(a)


@wide
def gelu_tanh_gradient(g: Any, a: Any) -> Any:
    """The gradient of `gelu_tanh`."""
    return g * gelu_tanh_slope(a)


@wide
def silu_gradient(g: Any, a: Any) -> Any:
    """The gradient of `silu`."""
    return g * silu_slope(a)


@wide
def mish_gradient(g: Any, a: Any) -> Any:
    """The gradient of `mish`."""
    t = xp.tanh(softplus(a))
    return g * (t + a * xp.sigmoid(a) * (1 - t * t))


@wide
def sigmoid_gradient(g: Any, y: Any) -> Any:
    """The gradient of `sigmoid`, from its output."""
    return g * ((1 - y) * y)


@wide
def tanh_gradient(g: Any, y: Any) -> Any:
    """The gradient of `tanh`, from its output."""
    return g * (1 - y * y)


def halves(a: Any, axis: int) -> tuple[Any, Any]:
    axis %= a.ndim
    n, before = a.shape[axis] // 2, (slice(None),) * axis
    return a[(*before, slice(n))], a[(*before, slice(n, None))]


@wide
def gated(a: Any, axis: int) -> Any:
    """`glu` with strides of NumPy's choice."""
    first, second = halves(a, axis)
    return first * xp.sigmoid(second)


def glu(a: Any, axis: int) -> Any:
    """The first half of `a` along an axis times the sigmoid of the second."""
    return laid_out(gated(a, axis), *halves(a, axis))


@wide
def glu_gradient(g: Any, a: Any, axis: int) -> Any:
    """The gradient by both halves, one behind the other."""
    first, second = halves(a, axis)
    s = xp.sigmoid(second)
    return xp.concatenate([g * s, g * first * s * (1 - s)], axis)


@wide
def prelu(a: Any, weight: Any) -> Any:
    """a where it is above 0, else weight * a."""
    return xp.where(a > 0, a, a * weight)


@wide
def prelu_gradient(g: Any, a: Any, weight: Any) -> Any:
    """The gradient of `prelu` by its input."""
    return xp.where(a > 0, g, g * weight)


@wide
def prelu_weight_gradient(g: Any, a: Any) -> Any:
    """The gradient of `prelu` by its weight."""
    return xp.where(a > 0, g.dtype.type(0), g * a)
