"""Gradients of elementwise operators against PyTorch: where they are not smooth too, and grad_fn names."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.core.tensor import _wrap

torch = pytest.importorskip("torch")

POINTS = [-3.0, -1.5, -1.0, -0.5, -0.0, 0.0, 0.25, 0.5, 1.0, 2.0, 3.5, float("inf"), float("nan")]
OTHER = [-3.0, 1.0, -1.0, 2.0, 0.0, -0.0, 0.25, -0.5, 0.0, 2.0, float("nan"), 1.0, 1.0]

UNARY = """
x.abs() | -x | x.sign() | x.sgn() | x.exp() | x.exp2() | x.expm1() | x.log() | x.log2() | x.log10() | x.log1p()
x.sqrt() | x.rsqrt() | x.square() | x.reciprocal() | x.sigmoid() | x.tanh() | x.sin() | x.cos() | x.tan()
x.asin() | x.acos() | x.atan() | x.sinh() | x.cosh() | x.asinh() | x.acosh() | x.atanh() | x.floor() | x.ceil()
x.trunc() | x.round() | x.frac() | t.round(x, decimals=1) | x.deg2rad() | x.rad2deg() | x.sinc() | x.logit()
x.logit(0.1) | x.nan_to_num() | x.nan_to_num(1.0, 2.0, 3.0) | x.erf() | x.erfc() | x.erfinv() | x.lgamma()
x.digamma() | x.i0() | t.special.i0e(x) | t.special.i1(x) | t.special.i1e(x) | t.special.entr(x)
t.special.erfcx(x) | t.special.log_ndtr(x) | t.special.ndtri(x) | t.polygamma(1, x) | t.polygamma(2, x)
t.mvlgamma(x.abs() + 3, 2) | x.angle() | x ** 2 | x ** 3 | x ** 0.5 | x ** 0 | x ** -1 | x ** 1 | 2 ** x
0 ** x | 0.5 ** x | x + 1 | 1 - x | x - 1 | x * 2 | x / 2 | 2 / x | x % 2 | x.fmod(2) | x.clamp(-1, 1)
x.clamp(min=0.0) | x.clamp(max=0.5) | x.clamp_min(0) | x.clamp_max(0.5) | x.clip(0.0, 0.5) | x.float_power(2)
x.copysign(-1) | t.xlogy(x, 2) | t.xlogy(2, x) | t.special.xlog1py(x, 2) | t.special.xlog1py(2, x)
x.div(2, rounding_mode="floor") | x.div(2, rounding_mode="trunc") | x.add(1, alpha=3) | t.rsub(x, 1, alpha=2)
x.lerp(x * 2, 0.25) | x.lerp(x * 2, 0.75) | x.frexp()[0] | x.xlogy(0) | t.special.zeta(2.0, x)
"""
BINARY = """
x + y | x - y | x * y | x / y | x ** y | t.maximum(x, y) | t.minimum(x, y) | t.fmax(x, y) | t.fmin(x, y)
x % y | x.fmod(y) | x.atan2(y) | x.hypot(y) | x.copysign(y) | x.nextafter(y) | t.logaddexp(x, y)
t.logaddexp2(x, y) | x.xlogy(y) | t.special.xlog1py(x, y) | x.lerp(y, y) | x.addcmul(x, y, value=2)
x.addcdiv(x, y, value=2) | x.clamp(min=y) | x.clamp(max=y) | x.clamp(y, x * 2) | x.clamp_min(y) | x.clamp_max(y)
x.div(y, rounding_mode="floor") | x.add(y, alpha=2) | x.sub(y, alpha=2) | t.rsub(x, y) | x.float_power(y)
"""


def cases(text: str) -> list[str]:
    return [c.strip() for line in text.strip().splitlines() for c in line.split("|") if c.strip()]


# Expression -> points at which PyTorch's value is an artefact: rounded poles, a constant for NaN.
SET_ASIDE = {
    "x.digamma()": [-3.0, -1.0],
    "t.special.i1(x)": [float("nan")],
    "t.special.i1e(x)": [float("nan")],
}
NO_SECOND = ("0 ** x",)  # PyTorch has NaN for the derivative of 0


def in_numpy(t):
    return None if t is None else np.array((t.detach() + 0.0).tolist())


def gradients(module, make, expression: str, data: list) -> tuple:
    """(name of grad_fn, gradients, gradients of the gradients)."""
    inputs = [make(np.array(d, np.float64)).requires_grad_() for d in data]
    names = dict(zip("xy", inputs, strict=False), t=module)
    y = eval(expression, names)
    name = type(y.grad_fn).__name__
    weights = make(np.linspace(0.5, 1.5, len(data[0])))
    first = module.autograd.grad(y, inputs, weights, create_graph=True, allow_unused=True)
    second = None
    again = [g for g in first if g is not None and g.requires_grad]
    if again:
        ones = [make(np.ones(g.shape)) for g in again]
        second = module.autograd.grad(again, inputs, ones, allow_unused=True)
    return name, [in_numpy(g) for g in first], second and [in_numpy(g) for g in second]


def same(ours, theirs, what: str) -> None:
    for a, b in zip(ours, theirs, strict=True):
        a = np.zeros(len(POINTS)) if a is None else a  # no gradient is a gradient of zero
        b = np.zeros(len(POINTS)) if b is None else b
        with np.errstate(all="ignore"):
            close = np.isclose(a, b, rtol=1e-8, atol=1e-10, equal_nan=True)
        for point in SET_ASIDE.get(what, ()):
            close |= np.isclose(POINTS, point, equal_nan=True)
        assert close.all(), (
            f"{what} at {np.array(POINTS)[~close]}: {a[~close]}, PyTorch {b[~close]}"
        )


@pytest.mark.parametrize("expression", cases(UNARY) + cases(BINARY))
def test_gradient(expression):
    data = [POINTS, OTHER] if expression in cases(BINARY) else [POINTS]
    name, first, _ = gradients(rushlight, _wrap, expression, data)
    their_name, their_first, _ = gradients(torch, torch.from_numpy, expression, data)
    same(first, their_first, expression)
    assert name == their_name


SMOOTH = [0.3, 0.4, 0.55, 0.7, 0.85, 0.9, 0.35, 0.45, 0.6, 0.65, 0.75, 0.8, 0.95]
SMOOTH_OTHER = [0.5, 1.5, 0.2, 0.9, 1.1, 0.3, 0.45, 0.25, 1.6, 0.85, 0.15, 1.2, 0.4]


@pytest.mark.parametrize(
    "expression", [c for c in cases(UNARY) + cases(BINARY) if c not in NO_SECOND]
)
def test_second_derivative(expression):
    data = [SMOOTH, SMOOTH_OTHER] if expression in cases(BINARY) else [SMOOTH]
    _, _, second = gradients(rushlight, _wrap, expression, data)
    _, _, theirs = gradients(torch, torch.from_numpy, expression, data)
    nothing = [None] * len(data)
    same(second or nothing, theirs or nothing, expression)
