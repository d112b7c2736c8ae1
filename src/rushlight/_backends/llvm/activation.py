"""Activation functions, and losses of elements, as machine code; see llvm/elementwise.py."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm.elementwise import Elementwise, into
from rushlight._backends.llvm.operands import Made
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import activation as reference
from rushlight._codegen.kernels import activations as of
from rushlight._codegen.kernels import elementwise
from rushlight._codegen.kernels.loops import CHEAP
from rushlight._codegen.kernels.pointwise import Pointwise
from rushlight._codegen.types import of as type_of
from rushlight.core.dtype_sets import FLOATING, I32, I64

_relu = Pointwise(elementwise.relu, grain=CHEAP)


@implements("relu")
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
log_sigmoid = implements("log_sigmoid")(Elementwise(of.log_sigmoid))
hardsigmoid = implements("hardsigmoid")(Elementwise(of.hardsigmoid, 1, 0, CHEAP))
hardswish = implements("hardswish")(Elementwise(of.hardswish, 1, 0, CHEAP))

leaky_relu = implements("leaky_relu")(Elementwise(of.leaky_relu, 1, 1, CHEAP))
hardtanh = implements("hardtanh")(Elementwise(of.hardtanh, 1, 2, CHEAP))
threshold = implements("threshold")(Elementwise(of.threshold, 1, 2, CHEAP))
hardshrink = implements("hardshrink")(Elementwise(of.hardshrink, 1, 1, CHEAP))
softshrink = implements("softshrink")(Elementwise(of.softshrink, 1, 1, CHEAP))
elu = implements("elu")(Elementwise(of.elu, 1, 3))
scaled_softplus = implements("scaled_softplus")(Elementwise(of.softplus, 1, 2))

prelu = implements("prelu")(Elementwise(of.prelu, 2, 0, CHEAP))


gelu_gradient = implements("gelu_gradient")(Elementwise(of.gelu_gradient, 2))
gelu_tanh_gradient = implements("gelu_tanh_gradient")(Elementwise(of.gelu_tanh_gradient, 2))
silu_gradient = implements("silu_gradient")(Elementwise(of.silu_gradient, 2))
mish_gradient = implements("mish_gradient")(Elementwise(of.mish_gradient, 2))
log_sigmoid_gradient = implements("log_sigmoid_gradient")(Elementwise(of.log_sigmoid_gradient, 2))
hardsigmoid_gradient = implements("hardsigmoid_gradient")(
    Elementwise(of.hardsigmoid_gradient, 2, 0, CHEAP)
)
hardswish_gradient = implements("hardswish_gradient")(
    Elementwise(of.hardswish_gradient, 2, 0, CHEAP)
)
prelu_weight_gradient = implements("prelu_weight_gradient")(
    Elementwise(of.prelu_weight_gradient, 2, 0, CHEAP)
)
sigmoid_gradient = implements("sigmoid_gradient")(Elementwise(of.sigmoid_gradient, 2, 0, CHEAP))
tanh_gradient = implements("tanh_gradient")(Elementwise(of.tanh_gradient, 2, 0, CHEAP))
leaky_relu_gradient = implements("leaky_relu_gradient")(
    Elementwise(of.leaky_relu_gradient, 2, 1, CHEAP)
)
shrink_gradient = implements("shrink_gradient")(Elementwise(of.shrink_gradient, 2, 1, CHEAP))
hardtanh_gradient = implements("hardtanh_gradient")(Elementwise(of.hardtanh_gradient, 2, 2, CHEAP))
elu_gradient = implements("elu_gradient")(Elementwise(of.elu_gradient, 2, 3))
scaled_softplus_gradient = implements("scaled_softplus_gradient")(
    Elementwise(of.softplus_gradient, 2, 2)
)
prelu_gradient = implements("prelu_gradient")(Elementwise(of.prelu_gradient, 3, 0, CHEAP))
_clipped = Elementwise(of.clip_gradient, 2, 2, CHEAP, True).bind(reference.clip_gradient)


@implements("clip_gradient")
def clip_gradient(g: Any, a: Any, low: float | None, high: float | None) -> Any:
    """g where `a` is between the bounds, either may be None, or at one; else 0."""
    inf = float("inf")
    return _clipped(g, a, -inf if low is None else low, inf if high is None else high)


_glu = Made(lambda d: of.glu.compiled(T=type_of(d)))
_glu_gradient = Made(lambda d: of.glu_gradient.compiled(T=type_of(d)))


def half_rows(a: Any, axis: int) -> tuple[int, int, tuple] | None:
    """(rows, half of their length, shape of a half) of an array in memory whose axis is halved; None for
    what kernels do not take."""
    if a.__class__ is not np.ndarray or a.dtype not in FLOATING or not a.flags.carray or not a.size:
        return None
    shape = a.shape
    if not -len(shape) <= axis < len(shape) or shape[axis] % 2:
        return None
    axis %= len(shape)
    n = prod(shape[axis:]) // 2
    return a.size // (2 * n), n, (*shape[:axis], shape[axis] // 2, *shape[axis + 1 :])


@implements("glu")
def glu(a: Any, axis: int) -> Any:
    """The first half of `a` along an axis times the sigmoid of the second."""
    if (found := half_rows(a, axis)) is None:
        return reference.glu(a, axis)
    rows, n, shape = found
    out = np.empty(shape, a.dtype)
    _glu[(a.dtype,)](a, out, rows, n)
    return out


@implements("glu_gradient")
def glu_gradient(g: Any, a: Any, axis: int) -> Any:
    """The gradient by both halves, one behind the other."""
    found = half_rows(a, axis)
    if found is None or g.__class__ is not np.ndarray or g.dtype is not a.dtype:
        return reference.glu_gradient(g, a, axis)
    rows, n, shape = found
    if g.shape != shape:
        return reference.glu_gradient(g, a, axis)
    h = g if g.flags.carray else np.array(g, order="C")
    out = np.empty(a.shape, a.dtype)
    _glu_gradient[(a.dtype,)](h, a, out, rows, n)
    return out
