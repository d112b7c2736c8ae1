"""Functions of one number: exponentials, roots, trigonometry, rounding, signs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.ops.elementwise import zero
from rushlight.ops.registry import Array, elementwise, public
from rushlight.tensor import Tensor

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


tanh.grad(input=lambda g, result: g * (1 - result * result))


@elementwise(kernel="sigmoid", promote="float")
def sigmoid(input: Array):
    """The logistic function 1 / (1 + exp(-input))."""


sigmoid.grad(input=lambda g, result: g * ((1 - result) * result))
sigmoid.alias("special.expit")


# -- signs -----------------------------------------------------------------------------------------


@elementwise(kernel="absolute", holomorphic=False)
def abs(input: Array):
    """The absolute value, real for complex numbers. Its gradient at zero is zero."""


abs.grad(input=lambda g, input: g * input.sgn())
abs.alias("absolute")


@public("Tensor")
def abs_(self: Tensor) -> Tensor:
    """In-place `abs`; RuntimeError for complex tensors, whose absolute value is real."""
    if self.is_complex():
        raise RuntimeError("In-place abs is not supported for complex tensors.")
    return abs.build().inplace(self)


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
    tensor([0., 2., -2.])
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
