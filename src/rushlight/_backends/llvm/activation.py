"""Activation functions as machine code; see llvm/elementwise.py.

A gradient is a function of g, the gradient of the result, and of what the function was given; it is
written so that an infinite value on a side that was not taken does no harm.
"""

from __future__ import annotations

from functools import lru_cache
from math import inf, prod
from typing import Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm.elementwise import Elementwise, into
from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order
from rushlight._backends.reference import activation as reference
from rushlight._backends.reference import layout
from rushlight._backends.reference.activation import SIXTH
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import activations as of
from rushlight._codegen.kernels import elementwise, math
from rushlight._codegen.kernels.pointwise import CHEAP, FLOAT_TYPES, Pointwise
from rushlight._codegen.language import fma, select, typeof
from rushlight._codegen.types import f32, f64, i32, i64
from rushlight.core.dtype_sets import FLOATING, I32, I64

_relu = Pointwise(elementwise.relu, grain=CHEAP)


@implements("relu", formula=_relu)
@put_entries_before(_relu.entries())
def relu(a: Any, out: np.ndarray | None = None) -> Any:
    """The larger of `a` and 0; NaN for NaN."""
    if a.__class__ is np.ndarray and a.size:
        if (u := _relu[a.dtype]) is not None:
            return u(a) if out is None else u(a, out=out)
        if a.dtype in (I64, I32):
            return cpu.maximum(a, 0) if out is None else cpu.maximum(a, 0, out=out)
    return into(out, reference.relu(a))


gelu = implements("gelu")(Elementwise(elementwise.gelu))
gelu_tanh = implements("gelu_tanh")(Elementwise(elementwise.gelu_tanh))
silu = implements("silu")(Elementwise(elementwise.silu))
mish = implements("mish")(Elementwise(elementwise.mish))


@implements("log_sigmoid")
@Elementwise.of()
def log_sigmoid(a):
    """log(1 / (1 + exp(-a)))"""
    return -elementwise.softplus(-a)


@implements("hardsigmoid")
@Elementwise.of(grain=CHEAP)
def hardsigmoid(a):
    """min(max(a + 3, 0), 6) / 6"""
    return of.hardtanh(a + 3, 0, 6) / 6


@implements("hardswish")
@Elementwise.of(grain=CHEAP)
def hardswish(a):
    """a * min(max(a + 3, 0), 6) / 6 (Howard et al. 2019)."""
    return a * of.hardtanh(a + 3, 0, 6) / 6


@implements("leaky_relu")
@Elementwise.of(numbers=1, grain=CHEAP)
def leaky_relu(a, slope):
    return a if a > 0 else a * slope


hardtanh = implements("hardtanh")(
    Elementwise(of.hardtanh, 1, 2, CHEAP, types=(*FLOAT_TYPES, i64, i32))
)


@implements("threshold")
@Elementwise.of(numbers=2, grain=CHEAP, types=(*FLOAT_TYPES, i64, i32))
def threshold(a, least, value):
    """a above `least` and NaN, else the value."""
    return select(a <= least, typeof(a)(value), a)


@implements("hardshrink")
@Elementwise.of(numbers=1, grain=CHEAP)
def hardshrink(a, width):
    return select((a >= -width) & (a <= width), typeof(a)(0), a)


@implements("softshrink")
@Elementwise.of(numbers=1, grain=CHEAP)
def softshrink(a, width):
    """a moved towards 0 by `width`; within it 0, NaN of NaN."""
    return select(a > width, a - width, select(a < -width, a + width, a * 0))


@implements("elu")
@Elementwise.of(numbers=3)
def elu(a, above, below, inner):
    """above * a for a > 0, else below * (exp(inner * a) - 1)."""
    c = 0 if a > 0 else a
    return select(a > 0, a * above, math.expm1(c * inner) * below)


@implements("scaled_softplus")
@Elementwise.of(numbers=2)
def scaled_softplus(a, beta, most):
    """log(1 + exp(beta * a)) / beta, and a where beta * a > most."""
    x = a * beta
    return select(x > most, a, elementwise.softplus(x) / beta)


@implements("prelu")
@Elementwise.of(arrays=2, grain=CHEAP)
def prelu(a, weight):
    return select(a > 0, a, a * weight)


@implements("gelu_gradient")
@Elementwise.of(arrays=2)
def gelu_gradient(g, a):
    return g * elementwise.gelu_slope(a)


@implements("gelu_tanh_gradient")
@Elementwise.of(arrays=2)
def gelu_tanh_gradient(g, a):
    return g * elementwise.gelu_tanh_slope(a)


@implements("silu_gradient")
@Elementwise.of(arrays=2)
def silu_gradient(g, a):
    return g * elementwise.silu_slope(a)


@implements("mish_gradient")
@Elementwise.of(arrays=2)
def mish_gradient(g, a):
    """tanh(softplus(a)) + a * sigmoid(a) / cosh(softplus(a))**2, of e = exp(-|a|)."""
    t = elementwise.tanh_of_softplus(a)
    return g * fma(a * math.sigmoid(a), 1 - t * t, t)


@implements("log_sigmoid_gradient")
@Elementwise.of(arrays=2)
def log_sigmoid_gradient(g, a):
    return g * math.sigmoid(-a)


@implements("hardsigmoid_gradient")
@Elementwise.of(arrays=2, grain=CHEAP)
def hardsigmoid_gradient(g, a):
    return select((a > -3) & (a < 3), g * SIXTH, typeof(g)(0))


@implements("hardswish_gradient")
@Elementwise.of(arrays=2, grain=CHEAP)
def hardswish_gradient(g, a):
    inner = g * (a / 3 + 0.5)
    return select(a <= -3, typeof(g)(0), select(a >= 3, g, inner))


@implements("prelu_weight_gradient")
@Elementwise.of(arrays=2, grain=CHEAP)
def prelu_weight_gradient(g, a):
    return select(a > 0, typeof(g)(0), g * a)


@implements("sigmoid_gradient")
@Elementwise.of(arrays=2, grain=CHEAP)
def sigmoid_gradient(g, y):
    return g * ((1 - y) * y)


@implements("tanh_gradient")
@Elementwise.of(arrays=2, grain=CHEAP)
def tanh_gradient(g, y):
    return g * (1 - y * y)


@implements("leaky_relu_gradient")
@Elementwise.of(arrays=2, numbers=1, grain=CHEAP)
def leaky_relu_gradient(g, a, slope):
    return select(a > 0, g, g * slope)


@implements("shrink_gradient")
@Elementwise.of(arrays=2, numbers=1, grain=CHEAP)
def shrink_gradient(g, a, width):
    return select((a >= -width) & (a <= width), typeof(g)(0), g)


@implements("hardtanh_gradient")
@Elementwise.of(arrays=2, numbers=2, grain=CHEAP)
def hardtanh_gradient(g, a, low, high):
    """g strictly between the bounds."""
    return select((a > low) & (a < high), g, typeof(g)(0))


@implements("elu_gradient")
@Elementwise.of(arrays=2, numbers=3)
def elu_gradient(g, a, above, below, inner):
    c = 0 if a > 0 else a
    return select(a > 0, g * above, g * (math.exp(c * inner) * (below * inner)))


@implements("scaled_softplus_gradient")
@Elementwise.of(arrays=2, numbers=2)
def scaled_softplus_gradient(g, a, beta, most):
    x = a * beta
    return select(x > most, g, g * math.sigmoid(x))


@implements("prelu_gradient")
@Elementwise.of(arrays=3, grain=CHEAP)
def prelu_gradient(g, a, weight):
    """By the input."""
    return select(a > 0, g, g * weight)


_inside = Pointwise(of.clip_gradient, 2, 2, CHEAP, types=(f32, f64))
_clipped = Elementwise(of.clip_gradient, 2, 2, CHEAP, True).bind(reference.clip_gradient)


@implements(
    "clip_gradient",
    formula=lambda xp, g, a, low, high: xp.apply(
        _inside, g, a, -inf if low is None else low, inf if high is None else high
    ),
)
@put_entries_before(_inside.entries(lambda dtype: (-inf, inf)))
def clip_gradient(g: Any, a: Any, low: float | None, high: float | None) -> Any:
    """g where `a` is between the bounds, either may be None, or at one; else 0."""
    return _clipped(g, a, -inf if low is None else low, inf if high is None else high)


_glu = Compiled(of.glu)
_glu_gradient = Compiled(of.glu_gradient)


def half_rows(a: Any, axis: int) -> tuple[int, int, tuple] | None:
    """(rows, half of their length, shape of a half) of an array in memory whose axis is halved; None for
    what kernels do not take."""
    if a.__class__ is not np.ndarray or a.dtype not in FLOATING or not a.flags.carray or not a.size:
        return None
    return halved(a.shape, axis)


@lru_cache(maxsize=1024)
def halved(shape: tuple, axis: int) -> tuple[int, int, tuple] | None:
    """`half_rows` of an array of a shape."""
    if not -len(shape) <= axis < len(shape) or shape[axis] % 2:
        return None
    axis %= len(shape)
    n = prod(shape[axis:]) // 2
    return prod(shape) // (2 * n), n, (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])


def reversible(a: Any, axis: int) -> bool:
    """Whether kernels take an array when its dimensions are reversed."""
    fits = a.__class__ is np.ndarray and a.flags.f_contiguous and not a.flags.c_contiguous
    return fits and -a.ndim <= axis < a.ndim and half_rows(a.T, ~axis) is not None


@implements("glu")
def glu(a: Any, axis: int) -> Any:
    """The first half of `a` along an axis times the sigmoid of the second."""
    if (found := half_rows(a, axis)) is None:
        if reversible(a, axis):
            out = glu(a.T, ~axis).T
            return layout.laid_out(out, *reference.halves(a, axis)) if 1 in out.shape else out
        return reference.glu(a, axis)
    rows, n, shape = found
    out = np.empty(shape, a.dtype)
    _glu[(a.dtype,)](a, out, rows, n)
    return layout.laid_out(out, *reference.halves(a, axis)) if 1 in out.shape else out


@implements("glu_gradient")
def glu_gradient(g: Any, a: Any, axis: int) -> Any:
    """The gradient by both halves, one behind the other."""
    found = half_rows(a, axis)
    if found is None and reversible(a, axis):
        return glu_gradient(g.T, a.T, ~axis).T
    if found is None or g.__class__ is not np.ndarray or g.dtype is not a.dtype:
        return reference.glu_gradient(g, a, axis)
    rows, n, shape = found
    if g.shape != shape:
        return reference.glu_gradient(g, a, axis)
    h = in_order(g)
    out = np.empty(a.shape, a.dtype)
    _glu_gradient[(a.dtype,)](h, a, out, rows, n)
    return out
