"""Activation functions, and losses of elements, as machine code; see llvm/elementwise.py."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.llvm.elementwise import into, pointwise, pointwise_of_several
from rushlight._backends.llvm.operands import Made
from rushlight._backends.reference import activation as reference
from rushlight._codegen.kernels import activations as of
from rushlight._codegen.kernels import elementwise
from rushlight._codegen.kernels.loops import CHEAP, COSTLY
from rushlight._codegen.kernels.pointwise import Pointwise
from rushlight._codegen.types import of as type_of
from rushlight.core.dtype_sets import FLOATING, I32, I64

_relu = Pointwise(elementwise.relu, grain=CHEAP)


def relu(a: Any, out: np.ndarray | None = None) -> Any:
    """The larger of `a` and 0; NaN for NaN."""
    if a.__class__ is np.ndarray and a.size:
        if (u := _relu[a.dtype]) is not None:
            return u(a) if out is None else u(a, out=out)
        if a.dtype in (I64, I32):
            return cpu.maximum(a, 0) if out is None else cpu.maximum(a, 0, out=out)
    return into(out, reference.relu(a))


gelu = pointwise(elementwise.gelu, reference.gelu)
gelu_tanh = pointwise(elementwise.gelu_tanh, reference.gelu_tanh)
silu = pointwise(elementwise.silu, reference.silu)
mish = pointwise(elementwise.mish, reference.mish)
log_sigmoid = pointwise(of.log_sigmoid, reference.log_sigmoid)
hardsigmoid = pointwise(of.hardsigmoid, reference.hardsigmoid, 0, CHEAP)
hardswish = pointwise(of.hardswish, reference.hardswish, 0, CHEAP)

leaky_relu = pointwise(of.leaky_relu, reference.leaky_relu, 1, CHEAP)
hardtanh = pointwise(of.hardtanh, reference.hardtanh, 2, CHEAP)
threshold = pointwise(of.threshold, reference.threshold, 2, CHEAP)
hardshrink = pointwise(of.hardshrink, reference.hardshrink, 1, CHEAP)
softshrink = pointwise(of.softshrink, reference.softshrink, 1, CHEAP)
elu = pointwise(of.elu, reference.elu, 3)
scaled_softplus = pointwise(of.softplus, reference.scaled_softplus, 2)

prelu = pointwise_of_several(of.prelu, reference.prelu, 2, 0, CHEAP)


def _gradient(name: str, numbers: int = 0, grain: int = COSTLY, arrays: int = 2) -> None:
    function = getattr(of, name.removeprefix("scaled_"))
    made = pointwise_of_several(function, getattr(reference, name), arrays, numbers, grain)
    globals()[name] = made


for _name in "gelu gelu_tanh silu mish log_sigmoid".split():
    _gradient(f"{_name}_gradient")
for _name in "hardsigmoid hardswish prelu_weight sigmoid tanh".split():
    _gradient(f"{_name}_gradient", 0, CHEAP)
_gradient("leaky_relu_gradient", 1, CHEAP)
_gradient("shrink_gradient", 1, CHEAP)
_gradient("hardtanh_gradient", 2, CHEAP)
_gradient("elu_gradient", 3)
_gradient("scaled_softplus_gradient", 2)
_gradient("prelu_gradient", 0, CHEAP, 3)
_clipped = pointwise_of_several(of.clip_gradient, reference.clip_gradient, 2, 2, CHEAP, True)


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


def glu(a: Any, axis: int) -> Any:
    """The first half of `a` along an axis times the sigmoid of the second."""
    if (found := half_rows(a, axis)) is None:
        return reference.glu(a, axis)
    rows, n, shape = found
    out = np.empty(shape, a.dtype)
    _glu[(a.dtype,)](a, out, rows, n)
    return out


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
