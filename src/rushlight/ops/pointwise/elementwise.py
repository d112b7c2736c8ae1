"""Arithmetic, element by element: `add` to `pow`, bounds and extremes, fused forms."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from rushlight.core.dtype_sets import COMPLEX, REDUCED
from rushlight.core.tensor import Tensor
from rushlight.dispatch import general, results
from rushlight.dispatch.record import d0
from rushlight.dispatch.registry import Array, composite, elementwise, no_gradients, public
from rushlight.ops.factories.copying import convert
from rushlight.ops.factories.creation import zero

if TYPE_CHECKING:
    from typing import Any

    Number = Any


# -- sums ------------------------------------------------------------------------------------------


def check_alpha(input: Any, other: Any, alpha: Any) -> None:
    if isinstance(alpha, bool) and not all(
        isinstance(t, bool) or (isinstance(t, Tensor) and t._array.dtype.kind == "b")
        for t in (input, other)
    ):
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if isinstance(alpha, (float, complex)):
        kinds = {
            general.dtypes.OF[t._array.dtype].kind for t in (input, other) if isinstance(t, Tensor)
        }
        if not any(k >= 2 for k in kinds) and not isinstance(other, (float, complex)):
            raise RuntimeError(
                "For integral input tensors, argument alpha must not be a floating point number."
            )
        if isinstance(alpha, complex) and 3 not in kinds:
            raise RuntimeError(
                "For non-complex input tensors, argument alpha must not be a complex number."
            )


def scaled_add(input: Any, other: Any, alpha: Any) -> Any:
    check_alpha(input, other, alpha)
    return None if alpha.__class__ is int and alpha == 1 else _add_scaled


@elementwise(kernel="add", variant=scaled_add, keyed="bifc")
def add(input: Array, other: Array, alpha: Number = 1):
    """The sum of `input` and `alpha * other`, with broadcasting.

    >>> import rushlight as torch
    >>> torch.add(torch.tensor([1, 2]), torch.tensor([10, 20]), alpha=2)
    tensor([21, 42])
    """


add.grad(input=lambda g: g, other=lambda g: g)


@elementwise(name="_add_scaled", node="AddBackward0", method=False, inplace=False)
def _add_scaled(xp, input: Array, other: Array, *, alpha: Number = 1):
    """`add` with an `alpha`."""
    return xp.add_scaled(input, other, alpha)


_add_scaled.grad(input=lambda g: g, other=lambda g, alpha: g * conjugate(alpha))


def conjugate(number: Any) -> Any:
    return number.conjugate() if isinstance(number, complex) else number


def refuse_bool(input: Any, other: Any) -> None:
    kinds = [
        isinstance(t, bool) or (isinstance(t, Tensor) and t._array.dtype.kind == "b")
        for t in (input, other)
    ]
    if all(kinds):
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. Use the `^` or "
            "`logical_xor()` operator instead."
        )
    if any(kinds):
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you are trying to "
            "invert a mask, use the `~` or `logical_not()` operator instead."
        )


def scaled_sub(input: Any, other: Any, alpha: Any) -> Any:
    refuse_bool(input, other)
    check_alpha(input, other, alpha)
    return None if alpha.__class__ is int and alpha == 1 else _sub_scaled


@elementwise(kernel="subtract", variant=scaled_sub, keyed="bifc")
def sub(input: Array, other: Array, alpha: Number = 1):
    """`input - alpha * other`; RuntimeError for bool."""


sub.grad(input=lambda g: g, other=lambda g: -g)
sub.alias("subtract")


@elementwise(name="_sub_scaled", node="SubBackward0", method=False, inplace=False)
def _sub_scaled(xp, input: Array, other: Array, *, alpha: Number = 1):
    """`sub` with an `alpha`."""
    return xp.add_scaled(input, other, -alpha)


_sub_scaled.grad(input=lambda g: g, other=lambda g, alpha: g * conjugate(-alpha))


def scaled_rsub(input: Any, other: Any, alpha: Any) -> Any:
    refuse_bool(input, other)
    check_alpha(input, other, alpha)
    return None if alpha.__class__ is int and alpha == 1 else _rsub_scaled


@elementwise(
    kernel="reverse_subtract",
    variant=scaled_rsub,
    keyed="bifc",
    inplace=False,
    method=False,
    operands=("other", "input"),
    node="RsubBackward0",
    scalar_nodes=("RsubBackward1",),
)
def rsub(input: Array, other: Array, *, alpha: Number = 1):
    """The difference `other - alpha * input`, which `1 - x` calls."""


rsub.grad(input=lambda g: -g, other=lambda g: g)


@elementwise(
    name="_rsub_scaled",
    operands=("other", "input"),
    node="RsubBackward0",
    scalar_nodes=("RsubBackward1",),
    method=False,
    inplace=False,
)
def _rsub_scaled(xp, input: Array, other: Array, *, alpha: Number = 1):
    """`rsub` with an `alpha`."""
    return xp.add_scaled(other, input, -alpha)


_rsub_scaled.grad(input=lambda g, alpha: g * conjugate(-alpha), other=lambda g: g)


# -- products --------------------------------------------------------------------------------------


def half_by_number(input: Any, other: Any) -> bool:
    """A float16 or bfloat16 tensor and one real number: it is not rounded to half before."""
    if not isinstance(input, Tensor) or input.dtype.np not in REDUCED:
        return False
    if isinstance(other, Tensor):
        if other.dim() or other.is_complex():
            return False
        return bool(input.dim()) or other.dtype is input.dtype or not other.is_floating_point()
    return isinstance(other, (int, float))


@elementwise(
    kernel="multiply",
    variant=lambda input, other: _mul_half if half_by_number(input, other) else None,
    keyed="bifc",
)
def mul(input: Array, other: Array):
    """The product of `input` and `other`, with broadcasting."""


mul.grad(input=lambda g, other: g * other, other=lambda g, input: g * input)
mul.alias("multiply")


@elementwise(name="_mul_half", promote=None, node="MulBackward0", method=False, inplace=False)
def _mul_half(xp, input: Array, other: Array):
    """`mul` of a half type by one number."""
    return xp.with_wide_number(xp.multiply, input, other)


_mul_half.grad(input=lambda g, other: g * other, other=lambda g, input: g * input)


def rounded(input: Any, other: Any, rounding_mode: str | None) -> Any:
    if rounding_mode is None:
        return _div_half if half_by_number(input, other) else None
    if rounding_mode not in ("trunc", "floor"):
        raise RuntimeError(
            "div expected rounding_mode to be one of None, 'trunc', or 'floor' but found "
            f"'{rounding_mode}'"
        )
    return _div_rounded_half if half_by_number(input, other) else _div_rounded


@elementwise(kernel="divide", promote="float", variant=rounded)
def div(input: Array, other: Array, *, rounding_mode: str | None = None):
    """`input / other`; with `rounding_mode` "floor" or "trunc" the rounded quotient, of their dtype.

    Integers give the default float dtype when nothing is rounded.

    >>> import rushlight as torch
    >>> torch.div(torch.tensor([-7, 7]), 2, rounding_mode="floor")
    tensor([-4,  3])
    """


div.grad(
    input=lambda g, other: g / other,
    other=lambda g, input, other: -g * ((input / other) / other),
)
div.alias("divide", "Tensor.__div__")


@elementwise(name="_div_half", promote=None, node="DivBackward0", method=False, inplace=False)
def _div_half(xp, input: Array, other: Array, *, rounding_mode: str | None = None):
    """`div` of a half type by one number."""
    return xp.with_wide_number(xp.divide, input, other)


_div_half.grad(**{i: rule.function for i, rule in div.op.rules.items()})


@elementwise(kernel="divide", promote="float")
def true_divide(input: Array, other: Array):
    """`input / other`: `div` without rounding."""


true_divide.op._node = "DivBackward0"
true_divide.grad(**{i: rule.function for i, rule in div.op.rules.items()})


@elementwise(name="_div_rounded", node="DivBackward2", accepts="if", method=False, inplace=False)
def _div_rounded(xp, input: Array, other: Array, *, rounding_mode: str | None = None):
    """`div` with a rounding mode."""
    if rounding_mode == "floor":
        return xp.floor_divide(input, other)
    if input.dtype.kind not in "iub" and input.dtype.itemsize < 4:
        return xp.trunc(xp.divide(input, other))  # PyTorch rounds quotients of half types first
    return xp.trunc_divide(input, other)


_div_rounded.grad(input=zero, other=zero)


@elementwise(
    name="_div_rounded_half", promote=None, node="DivBackward2", method=False, inplace=False
)
def _div_rounded_half(xp, input: Array, other: Array, *, rounding_mode: str | None = None):
    """`div` of a half type by one number, with a rounding mode."""
    divide = xp.floor_divide if rounding_mode == "floor" else xp.trunc_divide
    return xp.with_wide_number(divide, input, other)


_div_rounded_half.grad(input=zero, other=zero)


@elementwise(
    kernel="floor_divide", accepts="if", node="NotImplemented", numbers=("input", "other"), keyed="bifc",
    variant=lambda input, other: _floor_divide_half if half_by_number(input, other) else None,
)  # fmt: skip
def floor_divide(input: Array, other: Array):
    """The quotient rounded down; RuntimeError for an integer division by zero."""


floor_divide.grad(input=no_gradients("floor_divide"), other=no_gradients("floor_divide"))


@elementwise(
    name="_floor_divide_half", promote=None, node="NotImplemented", method=False, inplace=False
)
def _floor_divide_half(xp, input: Array, other: Array):
    """`floor_divide` of a half type by one number."""
    return xp.with_wide_number(xp.floor_divide, input, other)


_floor_divide_half.grad(input=no_gradients("floor_divide"), other=no_gradients("floor_divide"))


@elementwise(
    kernel="remainder",
    accepts="if",
    node="RemainderBackward1",
    scalar_nodes=("RemainderBackward0",),
    numbers=("input", "other"),
)
def remainder(input: Array, other: Array):
    """The remainder of the division, with the sign of `other`: `input % other` as in Python."""


remainder.grad(
    input=lambda g: g,
    other=lambda g, input, other: -g * div(input, other, rounding_mode="floor"),
)


@elementwise(kernel="fmod", accepts="if", node="FmodBackward1", scalar_nodes=("FmodBackward0",))
def fmod(input: Array, other: Array):
    """The remainder of the division, with the sign of `input`, as C's `fmod`."""


fmod.grad(
    input=lambda g: g,
    other=lambda g, input, other: -g * input.div(other, rounding_mode="trunc"),
)


@elementwise(kernel="reciprocal", promote="float")
def reciprocal(input: Array):
    """The reciprocal 1 / input."""


reciprocal.grad(input=lambda g, result: -g * (result * result))


@composite(where="Tensor", name="__rtruediv__")
def divided_into(self: Tensor, other: Any) -> Any:
    """`other / self` where `other` is a number: PyTorch's `reciprocal() * other`."""
    try:
        return self.reciprocal() * other
    except TypeError:  # Python asks the other operand
        return NotImplemented


divided_into.alias("Tensor.__rdiv__")


@public("Tensor")
def __idiv__(self: Tensor, other: Any) -> Tensor:
    """`self /= other`, by its former name."""
    return self.div_(other)


# -- powers ----------------------------------------------------------------------------------------


def check_power(input: Any, exponent: Any) -> None:
    if (
        isinstance(exponent, int)
        and exponent < 0
        and isinstance(input, Tensor)
        and input._array.dtype.kind in "iub"
    ):
        raise RuntimeError("Integers to negative integer powers are not allowed.")


@elementwise(
    kernel="power",
    accepts="ifc",
    variant=check_power,
    keyed="fc",
    node="PowBackward1",
    scalar_nodes=("PowBackward0", "PowBackward2"),
    numbers=("input", "exponent"),
    operands=lambda numbers: (
        ("input", "exponent") if not numbers else ("input",) if "exponent" in numbers else ()
    ),
)
def pow(input: Array, exponent: Array):
    """`input` to the power of `exponent`; either may be a number.

    >>> import rushlight as torch
    >>> 2 ** torch.tensor([1.0, 2.0, 0.5])
    tensor([2.0000, 4.0000, 1.4142])
    """


def pow_input(g: Tensor, input: Any, exponent: Any) -> Tensor:
    if not isinstance(exponent, Tensor):
        if exponent == 0:
            return zero(g)
        if exponent == 2:
            return g * (input * 2)
        return g * (exponent * input ** (exponent - 1))
    return (g * (exponent * input ** (exponent - 1))).masked_fill(exponent == 0, 0)


def pow_exponent(g: Tensor, input: Any, exponent: Tensor, result: Tensor) -> Tensor:
    real = exponent.real if exponent.is_complex() else exponent
    if not isinstance(input, Tensor):
        if input == 0:
            return (g * (result * -float("inf"))).masked_fill(real >= 0, 0)
        if isinstance(input, complex) or (input < 0 and exponent.is_complex()):
            import cmath

            if not isinstance(input, complex):  # as if saved: conjugated
                input = complex(input, -0.0)
            return g * (result * cmath.log(input))
        return g * (result * (math.log(input) if input > 0 else math.nan))
    if exponent.is_complex() and not input.is_complex():
        logarithm = input.to(exponent.dtype).log().conj_physical()
    else:
        logarithm = input.log()
    return (g * (result * logarithm)).masked_fill((input == 0) & (real >= 0), 0)


pow.grad(input=pow_input, exponent=pow_exponent)


def square_of_bool(input: Any) -> Any:
    return _square_bool if isinstance(input, Tensor) and input._array.dtype.kind == "b" else None


@elementwise(name="_square_bool", method=False, inplace=False)
def _square_bool(xp, input: Array):
    """`square` of truth values: int64, as `input ** 2`."""
    return xp.cast(input, xp.dtype("i8"))


@elementwise(
    kernel="square", accepts="ifc", node="PowBackward0", variant=square_of_bool, keyed="bifc"
)
def square(input: Array):
    """The square of each element."""


square.grad(input=lambda g, input: g * (2 * input))


def power_dtype(input: Any, exponent: Any) -> Any:
    for t in (input, exponent):
        if t._array.dtype in COMPLEX if isinstance(t, Tensor) else isinstance(t, complex):
            return general.dtypes.complex128
    return general.dtypes.float64


@composite
def float_power(input: Any, exponent: Any) -> Tensor:
    """`pow` computed in float64 (complex128 for complex operands)."""
    if not isinstance(input, Tensor) and not isinstance(exponent, Tensor):
        raise TypeError(
            f"float_power(): one of input and exponent must be a Tensor, got {results.kind(input)} and "
            f"{results.kind(exponent)}"
        )
    d = power_dtype(input, exponent)
    a = convert(input, d) if isinstance(input, Tensor) else d0(input, d)
    return pow(a, convert(exponent, d) if isinstance(exponent, Tensor) else exponent)


@public("Tensor")
def float_power_(self: Tensor, exponent: Any) -> Tensor:
    """In-place `float_power`; RuntimeError unless the tensor is float64 (or complex128)."""
    d = power_dtype(self, exponent)
    if self.dtype is not d:
        raise RuntimeError(
            f"the base given to float_power_ has dtype {self.dtype.scalar_name} but the operation's "
            f"result requires dtype {d.scalar_name}"
        )
    return self.pow_(exponent.to(d) if isinstance(exponent, Tensor) else exponent)


# -- signs -----------------------------------------------------------------------------------------


def refuse_bool_negation(input: Any) -> None:
    if isinstance(input, Tensor) and input._array.dtype.kind == "b":
        raise RuntimeError(
            "Negation, the `-` operator, on a bool tensor is not supported. If you are trying to invert "
            "a mask, use the `~` or `logical_not()` operator instead."
        )


@elementwise(kernel="negative", variant=refuse_bool_negation, keyed="bifc")
def neg(input: Array):
    """`-input`; RuntimeError for bool."""


neg.grad(input=lambda g: -g)
neg.alias("negative")


@public(method=True, overridable=True)
def positive(input: Tensor) -> Tensor:
    """`+input`: the tensor itself; RuntimeError for bool."""
    if input._array.dtype.kind == "b":
        raise RuntimeError("The `+` operator, on a bool tensor is not supported.")
    return input
