"""Comparison, logic and tests of numbers: results are bool."""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from rushlight._backends import math_bits
from rushlight.autograd.state import active
from rushlight.core.dtype_sets import BOOL
from rushlight.core.tensor import Tensor
from rushlight.dispatch import results
from rushlight.dispatch.handlers import asked
from rushlight.dispatch.registry import Array, composite, elementwise, public
from rushlight.dispatch.transforms import Lifted, top
from rushlight.ops.factories.creation import zero


def declare(name: str, kernel: str, meaning: str, *aliases: str, **options: Any) -> Any:
    """Declare a comparison of two numbers."""

    @elementwise(kernel, "bool", name=name, doc=meaning, **options)
    def declared(input: Array, other: Array):
        pass

    return declared.alias(*aliases)


def test(name: str, meaning: str, **options: Any) -> None:
    """Declare a test of one number by the kernel of its name."""

    @elementwise(name, name=name, doc=meaning, **{"promote": None, "inplace": False, **options})
    def declared(input: Array):
        pass


def order(name: str, kernel: str, meaning: str, *aliases: str, **options: Any) -> Any:
    """Declare a comparison whose in-place form is recorded: the numbers of former times are gone, their gradients 0."""
    declared = declare(name, kernel, meaning, *aliases, **options)
    node = name.capitalize() + "Backward"

    @elementwise(
        kernel, "bool", name=f"_{name}_written", where="Tensor", doc=f"What is recorded of `{name}_`.",
        node=node + "1", scalar_nodes=(node + "0",), inplace=False, out=False, method=False, **options,
    )  # fmt: skip
    def written(input: Array, other: Array):
        pass

    written.grad(input=zero, other=zero)
    declared.op.recorded_in_place = written.op
    return declared


eq = order("eq", "equal", "`input == other`.")
order("ne", "not_equal", "`input != other`.", "not_equal")
order("lt", "less", "`input < other`.", "less", accepts="bif")
order("le", "less_equal", "`input <= other`.", "less_equal", accepts="bif")
order("gt", "greater", "`input > other`.", "greater", accepts="bif")
order("ge", "greater_equal", "`input >= other`.", "greater_equal", accepts="bif")
declare("logical_and", "logical_and", "Whether both are not zero.", numbers=())
declare("logical_or", "logical_or", "Whether either is not zero.", numbers=())
declare("logical_xor", "logical_xor", "Whether exactly one is not zero.", numbers=())
test("logical_not", "Whether it is zero.", promote="bool", inplace=True)
test("isnan", "Whether it is NaN.", out=False)
test("isinf", "Whether it is infinite.", out=False)
test("isfinite", "Whether it is neither infinite nor NaN.", out=False)
test("isposinf", "Whether it is +infinity.")
test("isneginf", "Whether it is -infinity.")
test("signbit", "Whether the sign is set: true for -0.0 too.", accepts="bif")


@elementwise(promote=None, inplace=False, out=False)
def isreal(xp, input: Array):
    """Whether the imaginary part is zero."""
    return xp.equal(input.imag, 0) if input.dtype.kind == "c" else xp.ones(input.shape, BOOL)


@composite
def isclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Tensor:
    """Whether |input - other| <= atol + rtol * |other|; infinities are close to themselves only."""
    for name, t in (("input", input), ("other", other)):
        if not isinstance(t, Tensor):
            raise TypeError(f"isclose(): argument '{name}' must be Tensor, not {results.kind(t)}")
    if input.dtype is not other.dtype:
        raise RuntimeError(f"{input.dtype.scalar_name} did not match {other.dtype.scalar_name}")
    rtol, atol = _tolerance("rtol", rtol), _tolerance("atol", atol)
    for name, v in (("rtol", rtol), ("atol", atol)):
        if not v >= 0:
            raise RuntimeError(f"{name} must be greater than or equal to zero, but got {v}")
    return _close(input, other, rtol, atol, equal_nan)


def _tolerance(name: str, v: Any) -> float:
    """A tolerance as a number; a tensor of no dimension and without history is one, too."""
    if not isinstance(v, Tensor):
        return v
    if v.dim() or v.requires_grad:
        raise TypeError(f"isclose(): argument '{name}' must be float, not Tensor")
    return v.item()


@elementwise(name="_close", inplace=False, out=False, method=False)
def _close(xp, input: Array, other: Array, rtol: float, atol: float, equal_nan: bool):
    """The forward of `isclose`."""
    close = xp.equal(input, other)
    if equal_nan and not xp.is_exact(input):
        close = close | (xp.isnan(input) & xp.isnan(other))
    if not rtol and not atol:
        return close
    if xp.is_exact(input):
        input, other = xp.cast(input, xp.dtype("f8")), xp.cast(other, xp.dtype("f8"))
    allowed = atol + xp.absolute(rtol * other)
    error = xp.absolute(input - other)
    return close | (xp.isfinite(error) & (error <= allowed))


@public(method=True)
def allclose(
    input: Tensor, other: Tensor, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Whether all elements are close: `isclose(...).all()` as a Python bool.

    >>> import rushlight as torch
    >>> torch.allclose(torch.tensor([1.0]), torch.tensor([1.0 + 1e-9]))
    True
    """
    close = isclose(input, other, rtol, atol, equal_nan)
    return bool(close.all() if asked((close,)) else close._array.all())


FEW_BYTES = 16384  # up to here a search in bytes takes less time than to ask the array


@public(method=True)
def equal(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape and equal elements; NaN equals nothing."""
    if not isinstance(other, Tensor):
        raise TypeError(
            f"equal(): argument 'other' (position 2) must be Tensor, not {results.kind(other)}"
        )
    a, b = input._array, other._array
    if math_bits.made:
        a, b = math_bits.resolved(a), math_bits.resolved(b)
    if a.shape != b.shape:
        return False
    if a.__class__ is ndarray is b.__class__ and a.dtype is b.dtype and not active.modes:
        if a.size == 1:
            return a.item() == b.item()
        same = a == b
        return same.tobytes().find(0) < 0 if same.size < FEW_BYTES else bool(same.all())
    if isinstance(a, Lifted) or isinstance(b, Lifted):
        return top((input, other)).equal(input, other)
    if asked((input, other)):  # who traces is asked for the value
        return bool(eq(input, other).all())
    if a.dtype != b.dtype:
        return bool(eq(input, other)._array.all())
    return bool((a == b).all())
