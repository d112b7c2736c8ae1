"""Arithmetic, functions of mathematics, comparisons, conversions and activations."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.onnx.builder import CONVERSIONS, Builder, Operand, conversion

# -- one input -------------------------------------------------------------------------------------

_FLOATING = {
    "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin", "acos": "Acos", "atan": "Atan",
    "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "tanh": "Tanh", "sigmoid": "Sigmoid", "erf": "Erf",
    "reciprocal": "Reciprocal", "softsign": "Softsign", "special_erf": "Erf", "special_expit": "Sigmoid",
}  # fmt: skip
_SAME = {
    "abs": "Abs", "neg": "Neg", "floor": "Floor", "ceil": "Ceil", "round": "Round", "sign": "Sign", "relu": "Relu", "clone": "Identity",
    "detach": "Identity", "alias": "Identity", "contiguous": "Identity", "lift_fresh_copy": "Identity", "negative": "Neg", "absolute": "Abs",
}  # fmt: skip
_TRUTH = {"isnan": "IsNaN", "isinf": "IsInf"}


def _unary(kind: str, floating: bool, dtype: Any = None) -> Any:
    def convert(g: Builder, x: Operand, **options: Any) -> Operand:
        if floating:
            x = g.cast(x, g.result.dtype)
        return g.op(kind, x, dtype=dtype)

    return convert


CONVERSIONS |= {name: _unary(kind, True) for name, kind in _FLOATING.items()}
CONVERSIONS |= {name: _unary(kind, False) for name, kind in _SAME.items()}
CONVERSIONS |= {name: _unary(kind, False, rushlight.bool) for name, kind in _TRUTH.items()}


@conversion("rsqrt")
def rsqrt(g: Builder, x: Operand) -> Operand:
    return g.op("Reciprocal", g.op("Sqrt", g.cast(x, g.result.dtype)))


@conversion("square")
def square(g: Builder, x: Operand) -> Operand:
    return g.op("Mul", x, x)


@conversion("exp2")
def exp2(g: Builder, x: Operand) -> Operand:
    return g.op("Pow", g.constant(2.0, g.result.dtype), g.cast(x, g.result.dtype))


@conversion("expm1")
def expm1(g: Builder, x: Operand) -> Operand:
    return g.op("Sub", g.op("Exp", x), g.constant(1.0, x.dtype))


@conversion("log1p")
def log1p(g: Builder, x: Operand) -> Operand:
    return g.op("Log", g.op("Add", x, g.constant(1.0, x.dtype)))


def _log(base: float) -> Any:
    return lambda g, x: g.op(
        "Mul",
        g.op("Log", g.cast(x, g.result.dtype)),
        g.constant(1 / math.log(base), g.result.dtype),
    )


CONVERSIONS |= {"log2": _log(2.0), "log10": _log(10.0)}


@conversion("trunc")
def trunc(g: Builder, x: Operand) -> Operand:
    return g.op("Mul", g.op("Sign", x), g.op("Floor", g.op("Abs", x)))


@conversion("frac")
def frac(g: Builder, x: Operand) -> Operand:
    return g.op("Sub", x, trunc(g, x))


@conversion("logical_not", "bitwise_not")
def logical_not(g: Builder, x: Operand) -> Operand:
    if g.result.dtype is rushlight.bool:
        return g.op("Not", g.cast(x, rushlight.bool))
    return g.op("BitwiseNot", x)


@conversion("to", "_to_copy", "type_as", "as_tensor")
def to(g: Builder, x: Operand, *options: Any, **others: Any) -> Operand:
    return g.cast(x, g.result.dtype) if x.dtype != g.result.dtype else g.op("Identity", x)


# -- two inputs ------------------------------------------------------------------------------------


def _binary(kind: str) -> Any:
    def convert(g: Builder, a: Any, b: Any, alpha: Any = 1, **options: Any) -> Operand:
        a, b = g.in_common_dtype(a, b, dtype=g.result.dtype)
        if alpha != 1:
            b = g.op("Mul", b, g.constant(alpha, b.dtype))
        return g.op(kind, a, b)

    return convert


def _comparison(kind: str, negated: bool = False) -> Any:
    def convert(g: Builder, a: Any, b: Any) -> Operand:
        a, b = g.in_common_dtype(a, b)
        if a.dtype is rushlight.bool and kind != "Equal":
            a, b = g.cast(a, rushlight.int32), g.cast(b, rushlight.int32)
        found = g.op(kind, a, b, dtype=rushlight.bool)
        return g.op("Not", found) if negated else found

    return convert


def _logical(kind: str) -> Any:
    return lambda g, a, b: g.op(kind, g.operand(a, rushlight.bool), g.operand(b, rushlight.bool))


CONVERSIONS |= {
    "true_divide": _binary("Div"),
    "eq": _comparison("Equal"), "ne": _comparison("Equal", True), "lt": _comparison("Less"),
    "le": _comparison("LessOrEqual"), "gt": _comparison("Greater"), "ge": _comparison("GreaterOrEqual"),
    "logical_and": _logical("And"), "logical_or": _logical("Or"), "logical_xor": _logical("Xor"),
    "maximum": lambda g, a, b: g.op("Max", *g.in_common_dtype(a, b)), "minimum": lambda g, a, b: g.op("Min", *g.in_common_dtype(a, b)),
}  # fmt: skip


@conversion("rsub")
def rsub(g: Builder, a: Any, b: Any, alpha: Any = 1) -> Operand:
    return _binary("Sub")(g, b, a, alpha)


@conversion("div", "divide")
def div(g: Builder, a: Any, b: Any, rounding_mode: str | None = None) -> Operand:
    if rounding_mode is None:
        return _binary("Div")(g, a, b)
    if g.result.dtype.is_floating_point:
        found = _binary("Div")(g, a, b)
        return g.op("Floor", found) if rounding_mode == "floor" else trunc(g, found)
    a, b = g.in_common_dtype(a, b, dtype=g.result.dtype)
    quotient = g.op("Div", a, b)  # rounds towards zero
    if rounding_mode == "trunc":
        return quotient
    rest = g.op("Sub", a, g.op("Mul", quotient, b))
    zero = g.constant(0, a.dtype)
    inexact = g.op("Not", g.op("Equal", rest, zero, dtype=rushlight.bool))
    opposite = g.op(
        "Xor",
        g.op("Less", rest, zero, dtype=rushlight.bool),
        g.op("Less", b, zero, dtype=rushlight.bool),
    )
    return g.op("Sub", quotient, g.cast(g.op("And", inexact, opposite), a.dtype))


@conversion("floor_divide")
def floor_divide(g: Builder, a: Any, b: Any) -> Operand:
    return div(g, a, b, "floor")


@conversion("remainder")
def remainder(g: Builder, a: Any, b: Any) -> Operand:
    a, b = g.in_common_dtype(a, b, dtype=g.result.dtype)
    if not g.result.dtype.is_floating_point:
        return g.op("Mod", a, b)
    return g.op("Sub", a, g.op("Mul", g.op("Floor", g.op("Div", a, b)), b))


@conversion("fmod")
def fmod(g: Builder, a: Any, b: Any) -> Operand:
    return g.op("Mod", *g.in_common_dtype(a, b, dtype=g.result.dtype), fmod=1)


@conversion("float_power")
def power(g: Builder, a: Any, b: Any) -> Operand:
    return g.op("Pow", *g.in_common_dtype(a, b, dtype=g.result.dtype))


@conversion("bitwise_and", "__and__")
def bitwise_and(g: Builder, a: Any, b: Any) -> Operand:
    return _bitwise(g, a, b, "And")


@conversion("bitwise_or", "__or__")
def bitwise_or(g: Builder, a: Any, b: Any) -> Operand:
    return _bitwise(g, a, b, "Or")


@conversion("bitwise_xor")
def bitwise_xor(g: Builder, a: Any, b: Any) -> Operand:
    return _bitwise(g, a, b, "Xor")


def _bitwise(g: Builder, a: Any, b: Any, kind: str) -> Operand:
    a, b = g.in_common_dtype(a, b, dtype=g.result.dtype)
    return g.op(kind if g.result.dtype is rushlight.bool else f"Bitwise{kind}", a, b)


@conversion("lerp")
def lerp(g: Builder, a: Operand, b: Operand, weight: Any) -> Operand:
    return g.op("Add", a, g.op("Mul", g.op("Sub", b, a), g.operand(weight, a.dtype)))


@conversion("addcmul")
def addcmul(g: Builder, x: Operand, a: Operand, b: Operand, value: Any = 1) -> Operand:
    return g.op("Add", x, g.op("Mul", g.op("Mul", a, b), g.constant(value, x.dtype)))


@conversion("addcdiv")
def addcdiv(g: Builder, x: Operand, a: Operand, b: Operand, value: Any = 1) -> Operand:
    return g.op("Add", x, g.op("Mul", g.op("Div", a, b), g.constant(value, x.dtype)))


# -- arithmetic of sizes, whose functions are called as those of tensors -----------------------------


def _power_of_size(g: Builder, a: Any, b: Any) -> Operand:
    return g.op("Pow", g.operand(a, rushlight.float32), g.operand(b, rushlight.float32))


def _either(tensors: Any, sizes: Any) -> Any:
    def convert(g: Builder, a: Any, b: Any, *rest: Any, **options: Any) -> Any:
        return sizes(g, a, b) if g.sizes else tensors(g, a, b, *rest, **options)

    return convert


def _of_sizes(kind: str) -> Any:
    return lambda g, a, b: g.compute(kind, a, b)


CONVERSIONS |= {
    "add": _either(_binary("Add"), _of_sizes("Add")), "sub": _either(_binary("Sub"), _of_sizes("Sub")),
    "mul": _either(_binary("Mul"), _of_sizes("Mul")), "pow": _either(power, _power_of_size),
    "floordiv": _of_sizes("Div"),
}  # fmt: skip


# -- choices ---------------------------------------------------------------------------------------


@conversion("where")
def where(g: Builder, condition: Operand, a: Any, b: Any) -> Operand:
    return g.op(
        "Where",
        g.cast(condition, rushlight.bool),
        *g.in_common_dtype(a, b, dtype=g.result.dtype),
        dtype=g.result.dtype,
    )


@conversion("masked_fill")
def masked_fill(g: Builder, x: Operand, mask: Operand, value: Any) -> Operand:
    return g.op("Where", g.cast(mask, rushlight.bool), g.operand(value, x.dtype), x, dtype=x.dtype)


@conversion("clamp", "clip")
def clamp(g: Builder, x: Operand, min: Any = None, max: Any = None) -> Operand:
    x = g.cast(x, g.result.dtype)
    if min is not None:
        x = g.op("Max", x, g.operand(min, x.dtype))
    return x if max is None else g.op("Min", x, g.operand(max, x.dtype))


@conversion("clamp_min")
def clamp_min(g: Builder, x: Operand, min: Any) -> Operand:
    return clamp(g, x, min)


@conversion("clamp_max")
def clamp_max(g: Builder, x: Operand, max: Any) -> Operand:
    return clamp(g, x, None, max)


@conversion("nan_to_num")
def nan_to_num(
    g: Builder, x: Operand, nan: float | None = None, posinf: Any = None, neginf: Any = None
) -> Operand:
    limits = rushlight.finfo(x.dtype)
    found = g.op(
        "Where",
        g.op("IsNaN", x, dtype=rushlight.bool),
        g.constant(nan or 0.0, x.dtype),
        x,
        dtype=x.dtype,
    )
    return clamp(
        g, found, limits.min if neginf is None else neginf, limits.max if posinf is None else posinf
    )


# -- activations -----------------------------------------------------------------------------------


@conversion("gelu")
def gelu(g: Builder, x: Operand, approximate: str = "none") -> Operand:
    if g.opset >= 20:
        return g.op("Gelu", x, approximate=approximate)
    half, one = g.constant(0.5, x.dtype), g.constant(1.0, x.dtype)
    if approximate == "none":
        inner = g.op("Erf", g.op("Mul", x, g.constant(2**-0.5, x.dtype)))
    else:
        cube = g.op("Mul", g.op("Mul", g.op("Mul", x, x), x), g.constant(0.044715, x.dtype))
        inner = g.op(
            "Tanh", g.op("Mul", g.op("Add", x, cube), g.constant((2 / math.pi) ** 0.5, x.dtype))
        )
    return g.op("Mul", g.op("Mul", x, half), g.op("Add", inner, one))


@conversion("silu")
def silu(g: Builder, x: Operand) -> Operand:
    return g.op("Mul", x, g.op("Sigmoid", x))


@conversion("mish")
def mish(g: Builder, x: Operand) -> Operand:
    return g.op("Mish", x)


@conversion("leaky_relu")
def leaky_relu(g: Builder, x: Operand, negative_slope: float = 0.01) -> Operand:
    return g.op("LeakyRelu", x, alpha=float(negative_slope))


@conversion("elu")
def elu(g: Builder, x: Operand, alpha: float = 1.0) -> Operand:
    return g.op("Elu", x, alpha=float(alpha))


@conversion("celu")
def celu(g: Builder, x: Operand, alpha: float = 1.0) -> Operand:
    return g.op("Celu", x, alpha=float(alpha))


@conversion("selu")
def selu(g: Builder, x: Operand) -> Operand:
    return g.op("Selu", x)


@conversion("relu6")
def relu6(g: Builder, x: Operand) -> Operand:
    return clamp(g, x, 0, 6)


@conversion("hardtanh")
def hardtanh(g: Builder, x: Operand, min_val: float = -1.0, max_val: float = 1.0) -> Operand:
    return clamp(g, x, min_val, max_val)


@conversion("hardswish")
def hardswish(g: Builder, x: Operand) -> Operand:
    return g.op("HardSwish", x)


@conversion("hardsigmoid")
def hardsigmoid(g: Builder, x: Operand) -> Operand:
    return g.op("HardSigmoid", x, alpha=1 / 6, beta=0.5)


@conversion("softplus")
def softplus(g: Builder, x: Operand, beta: float = 1.0, threshold: float = 20.0) -> Operand:
    scaled = g.op("Mul", x, g.constant(beta, x.dtype))
    soft = g.op("Div", g.op("Softplus", scaled), g.constant(beta, x.dtype))
    large = g.op("Greater", scaled, g.constant(threshold, x.dtype), dtype=rushlight.bool)
    return g.op("Where", large, x, soft, dtype=x.dtype)


@conversion("logsigmoid", "log_sigmoid")
def logsigmoid(g: Builder, x: Operand) -> Operand:
    return g.op("Neg", g.op("Softplus", g.op("Neg", x)))


@conversion("threshold")
def threshold(g: Builder, x: Operand, threshold: float, value: float) -> Operand:
    above = g.op("Greater", x, g.constant(threshold, x.dtype), dtype=rushlight.bool)
    return g.op("Where", above, x, g.constant(value, x.dtype), dtype=x.dtype)


@conversion("prelu")
def prelu(g: Builder, x: Operand, weight: Operand) -> Operand:
    if weight.rank == 1 and x.rank > 2:
        weight = g.op("Reshape", weight, [-1, *[1] * (x.rank - 2)])
    return g.op("PRelu", x, weight)


@conversion("glu")
def glu(g: Builder, x: Operand, dim: int = -1) -> Operand:
    a, b = g.op("Split", x, axis=dim, num_outputs=2, outputs=2)
    return g.op("Mul", a, g.op("Sigmoid", b))


@conversion("softmax", "_softmax")
def softmax(g: Builder, x: Operand, dim: int, *options: Any, **others: Any) -> Operand:
    return g.op("Softmax", g.cast(x, g.result.dtype), axis=dim)


@conversion("log_softmax", "_log_softmax")
def log_softmax(g: Builder, x: Operand, dim: int, *options: Any, **others: Any) -> Operand:
    return g.op("LogSoftmax", g.cast(x, g.result.dtype), axis=dim)
