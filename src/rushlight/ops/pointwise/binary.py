"""Functions of two and three numbers, element by element."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.dtype_sets import REDUCED
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Array, composite, elementwise, no_gradients
from rushlight.ops.factories.creation import zero

if TYPE_CHECKING:
    from typing import Any

    Number = Any


# -- geometry --------------------------------------------------------------------------------------


@elementwise(kernel="arctan2", promote="float", accepts="f", numbers=())
def atan2(input: Array, other: Array):
    """The angle of the point (other, input), in [-pi, pi]."""


def atan2_rule(
    g: Tensor, input: Tensor, other: Tensor, needs: tuple[bool, bool]
) -> tuple[Tensor | None, Tensor | None]:
    size = input * input + other * other
    inverse = size.reciprocal().masked_fill(size == 0, 0)
    return (
        g * other * inverse if needs[0] else None,
        g * -input * inverse if needs[1] else None,
    )


atan2.grad_all(atan2_rule)
atan2.alias("arctan2")


@elementwise(kernel="hypot", accepts="f", numbers=())
def hypot(input: Array, other: Array):
    """The length of the hypotenuse: sqrt(input**2 + other**2), without overflow."""


hypot.grad(
    input=lambda g, input, result: g * (input / result),
    other=lambda g, other, result: g * (other / result),
)


@elementwise(
    kernel="copysign",
    promote="float",
    accepts="f",
    node="CopysignBackward0",
    scalar_nodes=("CopysignBackward1",),
)
def copysign(input: Array, other: Array):
    """The magnitude of `input` with the sign of `other`."""


copysign.grad(
    input=lambda g, input, result: g * (result / input).masked_fill(input == 0, 0),
    kernel="copysign_gradient",
)
copysign.grad(other=zero)


@elementwise(kernel="nextafter", accepts="f", numbers=())
def nextafter(input: Array, other: Array):
    """The next number after `input` towards `other`."""


nextafter.grad(
    input=lambda g, input, other: g.masked_fill(input == other, 0),
    other=zero,
)


@composite(inplace=True)
def ldexp(input: Tensor, other: Tensor) -> Tensor:
    """input * 2**other, exact for integers `other`."""
    for name, t in (("input", input), ("other", other)):
        if not isinstance(t, Tensor):
            raise TypeError(f"ldexp(): argument '{name}' must be Tensor, not {type(t).__name__}")
    if not input.is_floating_point() or other._array.dtype.kind not in "iub":
        return input * 2.0**other
    return _load_exponent(input, other)


@elementwise(
    name="_load_exponent", kernel="ldexp", promote=None, numbers=(), method=False,
    inplace=False, node="LdexpBackward0", operands=("input",),
)  # fmt: skip
def _load_exponent(input: Array, other: Array):
    """`ldexp` for integer exponents."""


_load_exponent.grad(input=lambda g, other: g * other.to(g.dtype).exp2())


def same_dtype(input: Any, values: Any) -> None:
    if isinstance(input, Tensor) and isinstance(values, Tensor):
        if input.is_complex() or values.is_complex():
            raise RuntimeError("heaviside is not yet implemented for complex tensors.")
        if input.dtype is not values.dtype:
            raise RuntimeError(
                "heaviside is not yet implemented for tensors with different dtypes: "
                f"{input.dtype} and {values.dtype}"
            )


@elementwise(
    kernel="heaviside", variant=same_dtype, keyed="bifc", numbers=(), node="NotImplemented"
)
def heaviside(input: Array, values: Array):
    """0 where `input` is negative, 1 where it is positive, `values` where it is zero."""


heaviside.grad(input=no_gradients("heaviside"), values=no_gradients("heaviside"))


for name, meaning in (
    ("gcd", "The greatest common divisor of integers."),
    ("lcm", "The least common multiple of integers."),
):

    @elementwise(name, name=name, doc=meaning, accepts="i", numbers=())
    def divisor(input: Array, other: Array):
        pass


# -- logarithms ------------------------------------------------------------------------------------


def declare_logaddexp(name: str, meaning: str, power: Any, accepts: str) -> None:
    @elementwise(name, name=name, doc=meaning, accepts=accepts, numbers=(), inplace=False)
    def declared(input: Array, other: Array):
        pass

    declared.grad(
        input=lambda g, input, other: g / (1 + power(other - input)),
        other=lambda g, input, other: g / (1 + power(input - other)),
    )


declare_logaddexp(
    "logaddexp", "log(exp(input) + exp(other)), without overflow.", lambda x: x.exp(), "fc"
)
declare_logaddexp(
    "logaddexp2", "log2(2**input + 2**other), without overflow.", lambda x: x.exp2(), "f"
)


# -- three operands --------------------------------------------------------------------------------


def check_lerp(input: Any, end: Any, weight: Any) -> Any:
    if not isinstance(input, Tensor):
        return None
    for name, t in (("end", end), ("weight", weight)):
        if isinstance(t, Tensor) and t.dtype is not input.dtype and (name == "end" or t.dim()):
            raise RuntimeError(
                f"expected dtype {input.dtype.name} for `{name}` but got dtype {t.dtype.name}"
            )
    return _lerp_half if input.dtype.np in REDUCED and not isinstance(weight, Tensor) else None


@elementwise(
    kernel="lerp",
    accepts="fc",
    variant=check_lerp,
    keyed="bifc",
    numbers=("weight",),
    node="LerpBackward1",
    scalar_nodes=("LerpBackward0",),
    operands=lambda numbers: ("input", "end") if numbers else ("input", "end", "weight"),
)
def lerp(input: Array, end: Array, weight: Array):
    """input + weight * (end - input); `weight` may be a number.

    >>> import rushlight as torch
    >>> torch.lerp(torch.tensor([0.0, 10.0]), torch.tensor([1.0, 20.0]), 0.25)
    tensor([ 0.2500, 12.5000])
    """


lerp.grad(
    input=lambda g, weight: g * (1 - weight),
    end=lambda g, weight: g * weight,
    weight=lambda g, input, end: g * (end - input),
)


@elementwise(
    name="_lerp_half", accepts="f", node="LerpBackward0", method=False, inplace=False, numbers=()
)
def _lerp_half(xp, input: Array, end: Array, weight: Number):
    """`lerp` of a half type by one number, which is not rounded to half before."""
    return xp.lerp(input, end, weight)


_lerp_half.grad(input=lambda g, weight: g * (1 - weight), end=lambda g, weight: g * weight)


@elementwise(numbers=(), accepts="ifc")
def addcmul(xp, input: Array, tensor1: Array, tensor2: Array, value: Number = 1):
    """input + value * tensor1 * tensor2."""
    return xp.addcmul(input, tensor1, tensor2, value)


addcmul.grad(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (tensor2 * value),
    tensor2=lambda g, tensor1, value: g * (tensor1 * value),
)


def refuse_integers(input: Any, tensor1: Any, tensor2: Any, value: Any) -> None:
    if all(isinstance(t, Tensor) and t._array.dtype.kind in "iub" for t in (tensor1, tensor2)):
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future release addcdiv will "
            "perform a true division of tensor1 and tensor2. Cast the inputs to a floating dtype."
        )


@elementwise(numbers=(), accepts="fc", variant=refuse_integers, keyed="bifc")
def addcdiv(xp, input: Array, tensor1: Array, tensor2: Array, value: Number = 1):
    """input + value * tensor1 / tensor2; RuntimeError for a quotient of integers."""
    return xp.addcdiv(input, tensor1, tensor2, value)


addcdiv.grad(
    input=lambda g: g,
    tensor1=lambda g, tensor2, value: g * (value / tensor2),
    tensor2=lambda g, tensor1, tensor2, value: -g * ((value * (tensor1 / tensor2)) / tensor2),
)
