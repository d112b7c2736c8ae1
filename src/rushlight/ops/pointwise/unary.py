"""Functions of one number: exponentials, roots, trigonometry, rounding, signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import OPS, Array, composite, elementwise, op, public
from rushlight.ops.pointwise.elementwise import zero

if TYPE_CHECKING:
    from typing import Any


# -- exponentials and roots ------------------------------------------------------------------------


@elementwise(kernel="exp", promote="float")
def exp(input: Array):
    """e to the power of each element."""


exp.grad(input=lambda g, result: g * result)


@elementwise(kernel="log", promote="float")
def log(input: Array):
    """The natural logarithm; NaN below zero, -inf at zero."""


log.grad(input=lambda g, input: g / input)


@elementwise(kernel="sqrt", promote="float")
def sqrt(input: Array):
    """The square root; NaN below zero. Its gradient at zero is infinite."""


sqrt.grad(input=lambda g, result: g / (2 * result))


@elementwise(kernel="rsqrt", promote="float")
def rsqrt(input: Array):
    """1 / sqrt(input)."""


rsqrt.grad(input=lambda g, result: -0.5 * g * (result * result * result))


@elementwise(kernel="tanh", promote="float")
def tanh(input: Array):
    """The hyperbolic tangent."""


tanh.grad(input=lambda g, result: g * (1 - result * result), kernel="tanh_gradient")


@elementwise(kernel="sigmoid", promote="float")
def sigmoid(input: Array):
    """The logistic function 1 / (1 + exp(-input))."""


sigmoid.grad(input=lambda g, result: g * ((1 - result) * result), kernel="sigmoid_gradient")
sigmoid.alias("special.expit")


@elementwise(kernel="expm1", promote="float")
def expm1(input: Array):
    """exp(input) - 1, exact near zero."""


expm1.grad(input=lambda g, result: g * (result + 1))
expm1.alias("special.expm1")


@elementwise(kernel="exp2", promote="float")
def exp2(input: Array):
    """2 to the power of each element."""


exp2.grad(input=lambda g, result: g * (result * 0.6931471805599453))
exp2.alias("special.exp2")


@elementwise(kernel="log1p", promote="float")
def log1p(input: Array):
    """log(1 + input), exact near zero."""


log1p.grad(input=lambda g, input: g / (input + 1))
log1p.alias("special.log1p")


@elementwise(kernel="log2", promote="float")
def log2(input: Array):
    """The logarithm to base 2."""


log2.grad(input=lambda g, input: g / (input * 0.6931471805599453))


@elementwise(kernel="log10", promote="float")
def log10(input: Array):
    """The logarithm to base 10."""


log10.grad(input=lambda g, input: g / (input * 2.302585092994046))


def logit_slope(g: Tensor, input: Tensor, eps: float | None) -> Tensor:
    slope = g / (input * (1 - input))
    if eps is None:
        return slope.masked_fill((input < 0) | (input > 1), float("nan"))
    return slope.masked_fill(~((input >= eps) & (input <= 1 - eps)), 0)


@elementwise(promote="float", accepts="f")
def logit(xp, input: Array, eps: float | None = None):
    """log(input / (1 - input)); with `eps`, `input` is first brought into [eps, 1 - eps]."""
    return xp.logit(input, eps)


logit.grad(input=logit_slope)
logit.alias("special.logit")


# -- trigonometry ----------------------------------------------------------------------------------


@elementwise(kernel="sin", promote="float")
def sin(input: Array):
    """The sine of radians."""


sin.grad(input=lambda g, input: g * input.cos())


@elementwise(kernel="cos", promote="float")
def cos(input: Array):
    """The cosine of radians."""


cos.grad(input=lambda g, input: g * -input.sin())


@elementwise(kernel="tan", promote="float")
def tan(input: Array):
    """The tangent of radians."""


tan.grad(input=lambda g, result: g * (1 + result * result))


@elementwise(kernel="arcsin", promote="float")
def asin(input: Array):
    """The inverse of the sine, in [-pi/2, pi/2]; NaN outside [-1, 1]."""


asin.grad(input=lambda g, input: g * (1 - input * input).rsqrt())
asin.alias("arcsin")


@elementwise(kernel="arccos", promote="float")
def acos(input: Array):
    """The inverse of the cosine, in [0, pi]; NaN outside [-1, 1]."""


acos.grad(input=lambda g, input: g * -(1 - input * input).rsqrt())
acos.alias("arccos")


@elementwise(kernel="arctan", promote="float")
def atan(input: Array):
    """The inverse of the tangent, in (-pi/2, pi/2)."""


atan.grad(input=lambda g, input: g / (input * input + 1))
atan.alias("arctan")


@elementwise(kernel="sinh", promote="float")
def sinh(input: Array):
    """The hyperbolic sine."""


sinh.grad(input=lambda g, input: g * input.cosh())


@elementwise(kernel="cosh", promote="float")
def cosh(input: Array):
    """The hyperbolic cosine."""


cosh.grad(input=lambda g, input: g * input.sinh())


@elementwise(kernel="arcsinh", promote="float")
def asinh(input: Array):
    """The inverse of the hyperbolic sine."""


asinh.grad(input=lambda g, input: g * (input * input + 1).rsqrt())
asinh.alias("arcsinh")


@elementwise(kernel="arccosh", promote="float")
def acosh(input: Array):
    """The inverse of the hyperbolic cosine; NaN below 1."""


acosh.grad(
    # two roots: of complex numbers, the root of the product has the wrong sign on half the plane
    input=lambda g, input: (
        g / ((input - 1).sqrt() * (input + 1).sqrt())
        if input.is_complex()
        else g * (input * input - 1).rsqrt()
    )
)
acosh.alias("arccosh")


@elementwise(kernel="arctanh", promote="float")
def atanh(input: Array):
    """The inverse of the hyperbolic tangent; NaN outside [-1, 1]."""


atanh.grad(input=lambda g, input: g / (1 - input * input))
atanh.alias("arctanh")


@elementwise(kernel="deg2rad", promote="float", accepts="f", node="Deg2RadBackward0")
def deg2rad(input: Array):
    """Degrees to radians."""


deg2rad.grad(input=lambda g: g * 0.017453292519943295)


@elementwise(kernel="rad2deg", promote="float", accepts="f", node="Rad2DegBackward0")
def rad2deg(input: Array):
    """Radians to degrees."""


rad2deg.grad(input=lambda g: g * 57.29577951308232)


def sinc_slope(g: Tensor, input: Tensor) -> Tensor:
    a = input * 3.141592653589793
    below = a * input  # 0 of 1e-30 too
    slope = (a * a.cos() - a.sin()) / below
    return g * slope.masked_fill(below == 0, 0)


@elementwise(kernel="sinc", promote="float")
def sinc(input: Array):
    """sin(pi x) / (pi x), 1 at zero."""


sinc.grad(input=sinc_slope)
sinc.alias("special.sinc")


# -- signs -----------------------------------------------------------------------------------------


@elementwise(kernel="absolute", accepts="ifc", holomorphic=False)
def abs(input: Array):
    """The absolute value, real for complex numbers. Its gradient at zero is zero."""


abs.grad(input=lambda g, input: g * input.sgn())
abs.alias("absolute")


@public("Tensor")
def abs_(self: Tensor) -> Tensor:
    """In-place `abs`; RuntimeError for complex tensors, whose absolute value is real."""
    if self.is_complex():
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


@elementwise(kernel="sign", accepts="bif", variant=refuse_complex)
def sign(input: Array):
    """-1, 0 or 1."""


sign.grad(input=zero)


@elementwise(kernel="sgn", holomorphic=False)
def sgn(input: Array):
    """The sign; of a complex number z / |z|, 0 at 0."""


def sgn_gradient(g: Tensor, input: Tensor, result: Tensor) -> Tensor:
    if not input.is_complex():
        return zero(g)
    size = input.abs()
    turned = (g - result * result * g.conj()) / (2 * size)
    return turned.masked_fill(size == 0, 0)


sgn.grad(input=sgn_gradient)


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


@elementwise(kernel="floor", accepts="if")
def floor(input: Array):
    """Rounded down."""


@elementwise(kernel="ceil", accepts="if")
def ceil(input: Array):
    """Rounded up."""


@elementwise(kernel="trunc", accepts="if")
def trunc(input: Array):
    """Rounded towards zero."""


def to_digits(input: Any, decimals: int) -> Any:
    return _round_decimals if decimals else None


@elementwise(kernel="rint", accepts="if", variant=to_digits)
def round(input: Array, *, decimals: int = 0):
    """Rounded to the nearest integer (or to `decimals` digits), halves to even.

    >>> import rushlight as torch
    >>> torch.round(torch.tensor([0.5, 1.5, -2.5]))
    tensor([ 0.,  2., -2.])
    """


for each in (floor, ceil, trunc, round):
    each.grad(input=zero)
trunc.alias("fix")
round.alias("special.round")


@elementwise(
    name="_round_decimals", node="RoundBackward1", accepts="f", method=False, inplace=False
)
def _round_decimals(xp, input: Array, *, decimals: int = 0):
    """`round` to some digits."""
    return xp.round_to(input, decimals)


_round_decimals.grad(input=zero)


@elementwise(kernel="frac", accepts="f")
def frac(input: Array):
    """`input - trunc(input)`."""


frac.grad(input=lambda g: g)


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
    return xp.nan_to_num(input, nan, posinf, neginf)


nan_to_num.grad(input=lambda g, input: g.masked_fill(~input.isfinite(), 0))
