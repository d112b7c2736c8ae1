"""Activation functions, and losses of elements, as machine code; see compiled/elementwise.py."""

from __future__ import annotations

from typing import Any

from rushlight.backends.compiled.elementwise import pointwise, pointwise_of_several
from rushlight.backends.reference import activation as reference
from rushlight.compiler.kernels import activations as of
from rushlight.compiler.kernels import elementwise
from rushlight.compiler.kernels.loops import CHEAP, COSTLY

relu = pointwise(elementwise.relu, reference.relu, 0, CHEAP)
gelu = pointwise(elementwise.gelu, reference.gelu)
gelu_slope = pointwise(elementwise.gelu_slope, reference.gelu_slope)
gelu_tanh = pointwise(elementwise.gelu_tanh, reference.gelu_tanh)
gelu_tanh_slope = pointwise(elementwise.gelu_tanh_slope, reference.gelu_tanh_slope)
silu = pointwise(elementwise.silu, reference.silu)
silu_slope = pointwise(elementwise.silu_slope, reference.silu_slope)
softplus = pointwise(elementwise.softplus, reference.softplus)
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
for _name in "hardsigmoid hardswish prelu_weight".split():
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
