"""Functions of one number: exponentials, roots, trigonometry, rounding, signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core import dtypes
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import OPS, Array, composite, elementwise, op, public
from rushlight.ops.factories.creation import zero

if TYPE_CHECKING:
    from typing import Any


def unary(name: str, meaning: str, rule: Any, *aliases: str, **options: Any) -> Any:
    """Declare a function of one number by the kernel of its name, or the one given as `kernel`.

    `gradient`: the kernel of its rule; other options are those of `elementwise`.
    """
    gradient = options.pop("gradient", None)
    options = {"kernel": name, "promote": "float", **options}

    @elementwise(name=name, doc=meaning, **options)
    def declared(input: Array):
        pass

    declared.grad(input=rule, kernel=gradient)
    return declared.alias(*aliases)


# -- exponentials and roots ------------------------------------------------------------------------

unary("exp", "e to the power of each element.", lambda g, result: g * result)
unary("log", "The natural logarithm; NaN below zero, -inf at zero.", lambda g, input: g / input)
unary(
    "sqrt", "The square root; NaN below zero. Its gradient at zero is infinite.",
    lambda g, result: g / (2 * result),
)  # fmt: skip
unary("rsqrt", "1 / sqrt(input).", lambda g, result: -0.5 * g * (result * result * result))
unary(
    "tanh", "The hyperbolic tangent.", lambda g, result: g * (1 - result * result),
    gradient="tanh_gradient",
)  # fmt: skip
unary(
    "sigmoid", "The logistic function 1 / (1 + exp(-input)).",
    lambda g, result: g * ((1 - result) * result), "special.expit", gradient="sigmoid_gradient",
)  # fmt: skip
unary(
    "expm1", "exp(input) - 1, exact near zero.", lambda g, result: g * (result + 1), "special.expm1"
)
unary(
    "exp2", "2 to the power of each element.", lambda g, result: g * (result * 0.6931471805599453),
    "special.exp2",
)  # fmt: skip
unary(
    "log1p", "log(1 + input), exact near zero.", lambda g, input: g / (input + 1), "special.log1p"
)
unary("log2", "The logarithm to base 2.", lambda g, input: g / (input * 0.6931471805599453))
unary("log10", "The logarithm to base 10.", lambda g, input: g / (input * 2.302585092994046))


def logit_slope(g: Tensor, input: Tensor, eps: float | None) -> Tensor:
    slope = g / (input * (1 - input))
    if eps is None:
        return slope.masked_fill((input < 0) | (input > 1), float("nan"))
    return slope.masked_fill(~((input >= eps) & (input <= 1 - eps)), 0)


@elementwise(promote="float", accepts="f")
def logit(xp, input: Array, eps: float | None = None):
    """log(input / (1 - input)); with `eps`, `input` is first brought into [eps, 1 - eps]."""
    return xp.logit(input, eps)


def logit_gradient(xp, g: Array, input: Array, eps: float | None) -> Array:
    if eps is None:
        return xp.logit_gradient(g, input, 0.0, 1.0, float("nan"))
    return xp.logit_gradient(g, input, eps, 1 - eps, 0.0)


logit.grad(input=logit_slope, kernel=logit_gradient)
logit.alias("special.logit")


# -- trigonometry ----------------------------------------------------------------------------------

unary("sin", "The sine of radians.", lambda g, input: g * input.cos())
unary("cos", "The cosine of radians.", lambda g, input: g * -input.sin())
unary("tan", "The tangent of radians.", lambda g, result: g * (1 + result * result))
unary(
    "asin", "The inverse of the sine, in [-pi/2, pi/2]; NaN outside [-1, 1].",
    lambda g, input: g * (1 - input * input).rsqrt(), "arcsin", kernel="arcsin",
)  # fmt: skip
unary(
    "acos", "The inverse of the cosine, in [0, pi]; NaN outside [-1, 1].",
    lambda g, input: g * -(1 - input * input).rsqrt(), "arccos", kernel="arccos",
)  # fmt: skip
unary(
    "atan", "The inverse of the tangent, in (-pi/2, pi/2).",
    lambda g, input: g / (input * input + 1), "arctan", kernel="arctan",
)  # fmt: skip
unary("sinh", "The hyperbolic sine.", lambda g, input: g * input.cosh())
unary("cosh", "The hyperbolic cosine.", lambda g, input: g * input.sinh())
unary(
    "asinh", "The inverse of the hyperbolic sine.",
    lambda g, input: g * (input * input + 1).rsqrt(), "arcsinh", kernel="arcsinh",
)  # fmt: skip
unary(
    "acosh", "The inverse of the hyperbolic cosine; NaN below 1.",
    # two roots: of complex numbers, the root of the product has the wrong sign on half the plane
    lambda g, input: (
        g / ((input - 1).sqrt() * (input + 1).sqrt())
        if input.is_complex()
        else g * (input * input - 1).rsqrt()
    ),
    "arccosh", kernel="arccosh",
)  # fmt: skip
unary(
    "atanh", "The inverse of the hyperbolic tangent; NaN outside [-1, 1].",
    lambda g, input: g / (1 - input * input), "arctanh", kernel="arctanh",
)  # fmt: skip
unary(
    "deg2rad", "Degrees to radians.", lambda g: g * 0.017453292519943295, accepts="f",
    node="Deg2RadBackward0",
)  # fmt: skip
unary(
    "rad2deg", "Radians to degrees.", lambda g: g * 57.29577951308232, accepts="f",
    node="Rad2DegBackward0",
)  # fmt: skip


def sinc_slope(g: Tensor, input: Tensor) -> Tensor:
    a = input * 3.141592653589793
    below = a * input  # 0 of 1e-30 too
    slope = (a * a.cos() - a.sin()) / below
    return g * slope.masked_fill(below == 0, 0)


unary("sinc", "sin(pi x) / (pi x), 1 at zero.", sinc_slope, "special.sinc")


# -- signs -----------------------------------------------------------------------------------------


unary(
    "abs", "The absolute value, real for complex numbers. Its gradient at zero is zero.",
    lambda g, input: g * input.sgn(), "absolute",
    kernel="absolute", promote="same", accepts="ifc", holomorphic=False,
)  # fmt: skip


@public("Tensor")
def abs_(self: Tensor) -> Tensor:
    """In-place `abs`; RuntimeError for complex tensors, whose absolute value is real."""
    array = getattr(
        self, "_array", None
    )  # (a subclass may override `is_complex`; it is asked about `abs_`)
    if array is not None and dtypes.OF[array.dtype].is_complex:
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return OPS["abs"].build().inplace(self)


@public("Tensor")
def absolute_(self: Tensor) -> Tensor:
    """In-place `absolute`."""
    return abs_(self)


def refuse_complex(input: Any) -> None:
    if isinstance(input, Tensor) and input.is_complex():
        raise RuntimeError(
            "Unlike NumPy, torch.sign is not intended to support complex numbers. Please use torch.sgn "
            "instead."
        )


unary(
    "sign", "-1, 0 or 1.", zero, promote="same", accepts="bif", variant=refuse_complex, keyed="bifc"
)


def sgn_gradient(g: Tensor, input: Tensor, result: Tensor) -> Tensor:
    if not input.is_complex():
        return g.new_zeros(()).expand(g.shape)  # one number, as PyTorch's is one without memory
    size = input.abs()
    turned = (g - result * result * g.conj_physical()) / (2 * size)
    return turned.masked_fill(size == 0, 0)


unary(
    "sgn", "The sign; of a complex number z / |z|, 0 at 0.", sgn_gradient,
    promote="same", holomorphic=False,
)  # fmt: skip


@composite(inplace=True)
def conj_physical(input: Tensor) -> Tensor:
    """The complex conjugates; a real tensor as it is."""
    return _conjugates(input) if input.is_complex() else input


@elementwise(
    name="_conjugates", kernel="conjugate", node="ConjPhysicalBackward0", holomorphic=False,
    method=False, inplace=False,
)  # fmt: skip
def _conjugates(input: Array):
    """`conj_physical` of complex numbers."""


_conjugates.grad(input=lambda g: g.conj_physical())


def angle_slope(g: Tensor, input: Tensor) -> Tensor:
    if not input.is_complex():
        return zero(g)
    size = input.abs()
    turned = input * 1j / (size * size)
    return g * turned.masked_fill(size == 0, 0)


@elementwise(kernel="angle", promote="float", holomorphic=False, inplace=False)
def angle(input: Array):
    """The angle of complex numbers in radians; of real ones 0, or pi below zero.

    >>> import rushlight as torch
    >>> torch.angle(torch.tensor([-1.0, 1.0]))
    tensor([3.1416, 0.0000])
    """


angle.grad(input=angle_slope)


# -- rounding --------------------------------------------------------------------------------------


unary("floor", "Rounded down.", zero, promote="same", accepts="if")
unary("ceil", "Rounded up.", zero, promote="same", accepts="if")
unary("trunc", "Rounded towards zero.", zero, "fix", promote="same", accepts="if")
unary("frac", "`input - trunc(input)`.", lambda g: g, promote="same", accepts="f")


def to_digits(input: Any, decimals: int) -> Any:
    return _round_decimals if decimals else None


@elementwise(kernel="rint", accepts="if", variant=to_digits)
def round(input: Array, *, decimals: int = 0):
    """Rounded to the nearest integer (or to `decimals` digits), halves to even.

    >>> import rushlight as torch
    >>> torch.round(torch.tensor([0.5, 1.5, -2.5]))
    tensor([ 0.,  2., -2.])
    """


round.grad(input=zero)
round.alias("special.round")


@elementwise(
    name="_round_decimals", node="RoundBackward1", accepts="f", method=False, inplace=False
)
def _round_decimals(xp, input: Array, *, decimals: int = 0):
    """`round` to some digits."""
    return xp.round_to(input, decimals)


_round_decimals.grad(input=zero)


# -- parts -----------------------------------------------------------------------------------------


@op(outputs=("mantissa", "exponent"))
def frexp(xp, input: Array):
    """Mantissa (in [0.5, 1)) and exponent: `input == mantissa * 2**exponent`; the exponent is int32.

    >>> import rushlight as torch
    >>> torch.frexp(torch.tensor([9.0]))
    torch.return_types.frexp(
    mantissa=tensor([0.5625]),
    exponent=tensor([4], dtype=torch.int32))
    """
    if not xp.is_float(input):
        raise RuntimeError("torch.frexp() only supports floating-point dtypes")
    return xp.frexp(input)


frexp.grad(input=lambda g_mantissa, exponent: g_mantissa / exponent.exp2())


@elementwise(promote=None)
def nan_to_num(
    xp,
    input: Array,
    nan: float | None = None,
    posinf: float | None = None,
    neginf: float | None = None,
):
    """NaN replaced by `nan` (0), the infinities by `posinf` and `neginf` (the dtype's extremes)."""
    return xp.nan_to_num(input, 0.0 if nan is None else nan, posinf, neginf)


nan_to_num.grad(input=lambda g, input: g.masked_fill(~input.isfinite(), 0))
