"""Rows of the elementwise operators: arithmetic, functions of one tensor, comparisons, bits, bounds."""

from __future__ import annotations

import numpy as np

from opdb_rows import NZ, B, C, I, Input, K, N, P, U, binary, c, distinct, row, unary, v

ROOT = np.sqrt


def sign0(x):
    """The sign, 0 for nan as for 0; of complex numbers x / |x|."""
    return np.where(x == 0, 0, x / np.where(x == 0, 1, np.abs(x)))


def frexp(x):
    mantissa, exponent = np.frexp(x)
    return mantissa, exponent.astype(np.int32)


def rounded(x, decimals=0):
    return np.round(x, decimals)


ROWS = [
    # one tensor
    unary("abs", np.abs, NZ, ints="same"),
    unary("angle", np.angle, NZ, half=False, ints="float", special=[1.0, -2.0, 0.0, np.nan]),
    unary("acos", np.arccos, U(-0.9, 0.9), ints="float", cplx=True),
    unary("acosh", np.arccosh, U(1.5, 3.0), ints="float"),
    unary("asin", np.arcsin, U(-0.9, 0.9), ints="float", cplx=True),
    unary("asinh", np.arcsinh, ints="float", cplx=True),
    unary("atan", np.arctan, ints="float", cplx=True),
    unary("atanh", np.arctanh, U(-0.9, 0.9), ints="float"),
    unary("ceil", np.ceil, U(0.1, 0.9), ints="same"),
    unary("conj_physical", np.conj, cplx=True, ints="same", special=None, view=None, inplace=False),
    unary("cos", np.cos, ints="float", cplx=True),
    unary("cosh", np.cosh, ints="float", cplx=True),
    unary("deg2rad", np.deg2rad, ints="float"),
    unary("exp", np.exp, ints="float", cplx=True),
    unary("exp2", np.exp2, ints="float"),
    unary("expm1", np.expm1, ints="float"),
    unary("floor", np.floor, U(0.1, 0.9), ints="same"),
    unary("frac", lambda x: x - np.trunc(x), U(0.1, 0.9), special=[1.5, -1.25, 0.0]),
    unary("frexp", frexp, P, half=False, special=[0.0, 8.0, -0.3]),
    unary("log", np.log, P, ints="float", cplx=True),
    unary("log10", np.log10, P, ints="float", cplx=True),
    unary("log1p", np.log1p, P, ints="float"),
    unary("log2", np.log2, P, ints="float", cplx=True),
    unary("logit", lambda x: np.log(x / (1 - x)), U(0.1, 0.9), special=[0.0, 1.0, 0.5]),
    row("nan_to_num", lambda x, nan=0.0, posinf=None, neginf=None: np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf),
        c(N(3, 4)), v(K([np.nan, np.inf, -np.inf, 1.0]), 2.0, 5.0, -7.0), c(N()), f32=False),
    unary("neg", np.negative, ints="same", cplx=True),
    unary("positive", np.positive, ints="same", cplx=True, view=True),
    unary("rad2deg", np.rad2deg, ints="float", tol32=1e-3),
    unary("reciprocal", np.reciprocal, NZ, cplx=True, special=[1.0, -4.0, np.inf, 0.0, -0.0]),
    row("round", rounded, c(U(0.1, 0.4)(3)), v(K([0.5, 1.5, -2.5, 1234.0, np.inf, np.nan])), c(N(4), decimals=2), v(K([1250.0, 1349.0]), decimals=-2)),
    unary("rsqrt", lambda x: 1 / ROOT(x), P, ints="float", special=[0.0, 4.0, np.inf, -1.0]),
    unary("sgn", sign0, NZ, cplx=True, special=[0.0, 2.0, -3.0]),
    unary("sigmoid", lambda x: 1 / (1 + np.exp(-x)), ints="float", cplx=True),
    unary("sign", np.sign, NZ, ints="same", special=[0.0, -0.0, 2.0, -np.inf]),
    unary("sin", np.sin, ints="float", cplx=True),
    unary("sinc", np.sinc, NZ, ints="float", special=[0.0, 1.0, 0.5]),
    unary("sinh", np.sinh, ints="float", cplx=True),
    unary("sqrt", np.sqrt, P, ints="float", cplx=True),
    unary("square", np.square, ints="same", cplx=True),
    unary("tan", np.tan, U(-1, 1), ints="float", cplx=True),
    unary("tanh", np.tanh, ints="float", cplx=True),
    unary("trunc", np.trunc, U(0.1, 0.9), ints="same"),
    unary("real", np.real, cplx=True, view=True, special=None),
    row("imag", np.imag, c(C(2, 3)), c(C()), view=True),
    unary("isfinite", np.isfinite, ints="bool", order=0, cplx=True),
    unary("isinf", np.isinf, ints="bool", order=0, cplx=True),
    unary("isnan", np.isnan, ints="bool", order=0, cplx=True),
    unary("isneginf", np.isneginf, ints="bool", order=0),
    unary("isposinf", np.isposinf, ints="bool", order=0),
    unary("isreal", np.isreal, ints="bool", order=0, cplx=True, special=[0.0, 1.0, np.inf]),
    unary("signbit", np.signbit, ints="bool", order=0, special=[0.0, -0.0, -2.0, np.inf, -np.inf]),
    unary("logical_not", np.logical_not, ints="bool", order=0, cplx=True),
    row("bitwise_not", np.invert, c(I(3, 4)), c(B(3)), c(I(dtype=np.int16)), c(I(0, 2)), order=0),
    # two tensors
    row("add", lambda x, y, alpha=1: x + alpha * y, c(N(3, 4), N(4)), c(N(3), 2.5), c(N(2), N(2), alpha=3), c(C(2), N(2)), c(N(), N(0, 2)),
        c(I(3), N(3)), c(B(3), I(3)), ints="same", half=True),
    row("sub", lambda x, y, alpha=1: x - alpha * y, c(N(3, 4), N(4)), c(N(3), 2.5), c(N(2), N(2), alpha=3), c(C(2), N(2)), c(N(), N(0, 2)), half=True),
    row("rsub", lambda x, y, alpha=1: y - alpha * x, c(N(3, 4), N(4)), c(N(3), 2.5), c(N(2), N(2), alpha=3), c(C(2), N(2)), half=True),
    binary("mul", np.multiply, cplx=True, scalar=2.5),
    binary("div", np.divide, N, NZ, ints="float", cplx=True, scalar=2.5),
    binary("true_divide", np.divide, N, NZ, ints="float", cplx=True, scalar=2.5),
    row("floor_divide", np.floor_divide, c(U(0.1, 0.9)(3), K([1.0, 1.0, -1.0])), v(N(3, 4), NZ(4)), c(I(5), K([2, -2, 3, -3, 1])), c(I(3), 2), v(N(3), 0.5), order=0, half=False),
    row("Tensor.__rtruediv__", lambda x, y: y / x, c(NZ(3), 2.0), c(NZ(3), N(3))),
    row("Tensor.__idiv__", lambda x, y: x / y, c(N(3), NZ(3)), c(N(3), 2.0), writes=True),
    binary("fmod", np.fmod, U(2.1, 2.9), U(0.91, 0.99), ints="same", scalar=1.0, special=None),
    binary("remainder", np.mod, U(2.1, 2.9), U(-0.99, -0.91), scalar=1.0, special=None),
    row("pow", np.power, c(P(3, 4), N(4)), c(NZ(3), 3), c(NZ(3), 2.0), c(P(3), -1.5), c(2.0, N(3)), c(C(3), 2), c(P(), N(2)), c(P(0, 2), N(2)),
        v(K([0.0, 0.0, np.inf, 2.0]), K([0.0, 2.0, -1.0, np.nan])), c(I(4, low=0), 2), half=True, method=False),
    row("float_power", np.float_power, c(P(3, 4), N(4)), c(NZ(3), 3), c(2.0, N(3)), v(I(4, low=1), 2), c(C(3), 2), f32=False, method=False),
    row("Tensor.float_power_", np.float_power, c(P(3), N(3)), c(P(3), 2.0), writes=True, f32=False),
    binary("atan2", np.arctan2, NZ, ints="float", special=[0.0, -0.0, 1.0, -1.0, np.inf, -np.inf]),
    binary("copysign", np.copysign, NZ, ints="float", scalar=-1.0, special=[0.0, -0.0, 1.0, -2.0]),
    row("gcd", np.gcd, c(I(3, 4), I(4)), c(K([12, 0, 7, -4]), K([18, 5, 0, 6])), order=0),
    row("lcm", np.lcm, c(I(3, 4), I(4)), c(K([12, 0, 7, -4]), K([18, 5, 0, 6])), order=0),
    row("heaviside", np.heaviside, v(N(3, 4), N(4)), v(K([0.0, -1.0, 2.0]), K([0.3, 0.4, 0.5])), order=0),
    binary("hypot", np.hypot, NZ, special=[0.0, 1.0, np.inf]),
    row("ldexp", lambda x, n: x * 2.0**n, c(N(3, 4), I(4)), c(N(3), N(3)), c(N(), I(2))),
    row("lerp", lambda x, y, w: x + w * (y - x), c(N(3, 4), N(4), 0.3), c(N(3), N(3), U(0, 1)(3)), c(C(2), C(2), 0.7), c(N(), N(), N()), c(N(0, 2), N(2), 0.5)),
    row("addcdiv", lambda x, y, z, value=1: x + value * y / z, c(N(3, 4), N(4), NZ(3, 1)), c(N(2), N(2), NZ(2), value=0.5), c(N(0), N(0), NZ(0)), half=True),
    row("addcmul", lambda x, y, z, value=1: x + value * y * z, c(N(3, 4), N(4), N(3, 1)), c(N(2), N(2), N(2), value=0.5), c(C(2), C(2), C(2)), half=True),
    binary("logaddexp", np.logaddexp, ints=None),
    binary("logaddexp2", np.logaddexp2),
    row("nextafter", np.nextafter, c(N(3, 4), N(4)), v(K([0.0, 1.0]), K([1.0, 1.0])), f32=False),
    binary("fmax", np.fmax, ints="same", special=[0.0, 1.0, -np.inf, np.nan]),
    binary("fmin", np.fmin, ints="same", special=[0.0, 1.0, -np.inf, np.nan]),
    binary("maximum", np.maximum, ints="same"),
    binary("minimum", np.minimum, ints="same"),
    row("clamp", lambda x, min=None, max=None: np.clip(x, min, max), c(N(3, 4), -0.5, 0.5), c(N(3), min=0.1), c(N(3), max=0.1),
        c(distinct(3, 4), N(4), U(3, 4)(4)), c(N(0, 2), 0.0, 1.0), c(N(), 0.0, 1.0), half=True),
    row("clamp_max", np.minimum, c(N(3, 4), 0.2), c(N(3, 4), N(4)), c(N(), 0.1), ints="same", half=True),
    row("clamp_min", np.maximum, c(N(3, 4), 0.2), c(N(3, 4), N(4)), c(N(), 0.1), half=True),
    # comparisons
    *(
        binary(name, ref, lambda *s: Input("f", s, lambda r, s: r.integers(0, 3, s) / 2), ints="bool", order=0, scalar=0.5)
        for name, ref in [("eq", np.equal), ("ne", np.not_equal), ("lt", np.less), ("le", np.less_equal), ("gt", np.greater), ("ge", np.greater_equal)]
    ),
    *(
        binary(name, ref, lambda *s: Input("f", s, lambda r, s: r.integers(0, 2, s) / 2), ints="bool", order=0)
        for name, ref in [("logical_and", np.logical_and), ("logical_or", np.logical_or), ("logical_xor", np.logical_xor)]
    ),
    row("isclose", np.isclose, v(K([1.0, 1.0, np.nan, np.inf]), K([1.0 + 1e-7, 1.1, np.nan, np.inf])), v(K([1.0, 2.0]), K([1.05, 2.2]), 0.06),
        v(K([np.nan]), K([np.nan]), equal_nan=True), v(I(4), I(4)), order=0),
    # bits
    *(
        row(name, ref, c(I(3, 4), I(4)), c(I(3), 3), c(I(dtype=np.uint8, low=0), I(2, dtype=np.uint8, low=0)), c(I(0, 2), I(2)), c(B(3), B(3)), order=0)
        for name, ref in [("bitwise_and", np.bitwise_and), ("bitwise_or", np.bitwise_or), ("bitwise_xor", np.bitwise_xor)]
    ),
    row("bitwise_left_shift", np.left_shift, c(I(3, 4), I(4, low=0)), c(I(3), 2), order=0),
    row("bitwise_right_shift", np.right_shift, c(I(3, 4), I(4, low=0)), c(I(3), 2), order=0),
    row("allclose", np.allclose, v(N(3), N(3)), v(K([1.0, 2.0]), K([1.0, 2.0 + 1e-9])), v(K([1.0]), K([1.05]), 0.1), v(K([np.nan]), K([np.nan]), equal_nan=True), order=0, half=False),
    row("equal", np.array_equal, v(N(3), N(3)), v(K([1, 2]), K([1, 2])), v(K([1, 2]), K([[1, 2]])), order=0, half=False),
    unary("Tensor.abs_", np.abs, NZ, writes=True, aka="Tensor.absolute_"),
]  # fmt: skip
