"""Extremes of two and bounds: `maximum`, `fmax`, `clamp`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Array, elementwise

if TYPE_CHECKING:
    from typing import Any

    Number = Any


def larger_share(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    """The gradient of `input` in `maximum(input, other)`: half of it where they are equal."""
    return (g / 2).where(input == other, g).masked_fill(input < other, 0)


def declare_extreme(name: str, meaning: str, input_rule: Any, other_rule: Any) -> None:
    @elementwise(name, name=name, doc=meaning, accepts="bif", inplace=False, numbers=())
    def declared(input: Array, other: Array):
        pass

    declared.grad(input=input_rule, other=other_rule)


def smaller_share(g: Tensor, input: Tensor, other: Tensor) -> Tensor:
    """The gradient of `input` in `minimum(input, other)`."""
    return larger_share(g, other, input)


EQUAL = "NaN where either is NaN. Where they are equal, each gets half the gradient."
declare_extreme("maximum", f"The larger of both; {EQUAL}", larger_share, smaller_share)
declare_extreme("minimum", f"The smaller of both; {EQUAL}", smaller_share, larger_share)
declare_extreme(
    "fmax", "The larger of both; the number where one is NaN.",
    lambda g, input, other: g.masked_fill(~((input >= other) | other.isnan()), 0),
    lambda g, input, other: g.masked_fill((input >= other) | other.isnan(), 0),
)  # fmt: skip
declare_extreme(
    "fmin", "The smaller of both; the number where one is NaN.",
    lambda g, input, other: g.masked_fill(~((input <= other) | other.isnan()), 0),
    lambda g, input, other: g.masked_fill((input <= other) | other.isnan(), 0),
)  # fmt: skip


def bounds_are_tensors(input: Any, min: Any, max: Any) -> Any:
    if min is None and max is None:
        raise RuntimeError("torch.clamp: At least one of 'min' or 'max' must not be None")
    if isinstance(input, Tensor) and input.is_complex():
        raise NotImplementedError("clamp is not supported for complex types")
    return _clamp_tensors if isinstance(min, Tensor) or isinstance(max, Tensor) else None


@elementwise(node="ClampBackward1", accepts="bif", variant=bounds_are_tensors, keyed="bifc")
def clamp(xp, input: Array, min: Number = None, max: Number = None):
    """`input` brought between `min` and `max` (numbers or tensors; either may be left out).

    NaN stays NaN; `max` wins over `min`. The gradient passes where nothing was cut, bounds included.

    >>> import rushlight as torch
    >>> torch.tensor([-2.0, 0.5, 3.0]).clamp(0, 1)
    tensor([0.0000, 0.5000, 1.0000])
    """
    return xp.clip(input, min, max)


# Conditions mean the same on tensors, in rules, as on arrays, in the kernels of rules.


def zero_unless(g: Tensor, where: Tensor) -> Tensor:
    """`g` where a condition holds, else 0."""
    return g.masked_fill(~where, 0)


def zero_array_unless(xp: Any, g: Any, where: Any) -> Any:
    """`zero_unless` of arrays."""
    return xp.where(where, g, g.dtype.type(0))


def within_bounds(input: Any, min: Any, max: Any) -> Any:
    """Whether `input` was within its bounds."""
    if min is None:
        return input <= max
    return input >= min if max is None else (input >= min) & (input <= max)


def is_lower_bound(input: Any, min: Any, max: Any) -> Any:
    """Whether the lower bound became the result."""
    return input < min if max is None else (input < min) & (min < max)


def is_upper_bound(input: Any, min: Any, max: Any) -> Any:
    """Whether the upper bound became the result."""
    return input > max if min is None else (input > max) | (max < min)


clamp.grad(
    input=lambda g, input, min, max: zero_unless(g, within_bounds(input, min, max)),
    kernel="clip_gradient",
)
clamp.alias("clip")


@elementwise(
    name="_clamp_tensors", node="ClampBackward0", accepts="bif", method=False, inplace=False
)
def _clamp_tensors(xp, input: Array, min: Array | None = None, max: Array | None = None):
    """`clamp` with bounds of which at least one is a tensor."""
    return xp.clip_arrays(input, min, max)


_clamp_tensors.grad(
    input=lambda g, input, min, max: zero_unless(g, within_bounds(input, min, max)),
    kernel=lambda xp, g, input, min, max: zero_array_unless(xp, g, within_bounds(input, min, max)),
)
_clamp_tensors.grad(
    min=lambda g, input, min, max: zero_unless(g, is_lower_bound(input, min, max)),
    kernel=lambda xp, g, input, min, max: zero_array_unless(xp, g, is_lower_bound(input, min, max)),
)
_clamp_tensors.grad(
    max=lambda g, input, min, max: zero_unless(g, is_upper_bound(input, min, max)),
    kernel=lambda xp, g, input, min, max: zero_array_unless(xp, g, is_upper_bound(input, min, max)),
)


# -- one bound -------------------------------------------------------------------------------------


@elementwise(
    "maximum", name="_clamp_min_tensor", node="ClampMinBackward1", accepts="bif", method=False,
    inplace=False,
)  # fmt: skip
def _clamp_min_tensor(input: Array, min: Array):
    """`clamp_min` with a tensor."""


@elementwise(
    "minimum", name="_clamp_max_tensor", node="ClampMaxBackward1", accepts="bif", method=False,
    inplace=False,
)  # fmt: skip
def _clamp_max_tensor(input: Array, max: Array):
    """`clamp_max` with a tensor."""


@elementwise(
    node="ClampMinBackward0", accepts="bif", keyed="bifc",
    variant=lambda input, min: _clamp_min_tensor if isinstance(min, Tensor) else None,
)  # fmt: skip
def clamp_min(xp, input: Array, min: Number):
    """The larger of `input` and `min`."""
    return xp.clip(input, min, None)


@elementwise(
    node="ClampMaxBackward0", accepts="bif", keyed="bifc",
    variant=lambda input, max: _clamp_max_tensor if isinstance(max, Tensor) else None,
)  # fmt: skip
def clamp_max(xp, input: Array, max: Number):
    """The smaller of `input` and `max`."""
    return xp.clip(input, None, max)


for each in (clamp_min, _clamp_min_tensor):
    each.grad(
        input=lambda g, input, min: zero_unless(g, input >= min),
        kernel=lambda xp, g, input, min: zero_array_unless(xp, g, input >= min),
    )
for each in (clamp_max, _clamp_max_tensor):
    each.grad(
        input=lambda g, input, max: zero_unless(g, input <= max),
        kernel=lambda xp, g, input, max: zero_array_unless(xp, g, input <= max),
    )
_clamp_min_tensor.grad(
    min=lambda g, input, min: zero_unless(g, input < min),
    kernel=lambda xp, g, input, min: zero_array_unless(xp, g, input < min),
)
_clamp_max_tensor.grad(
    max=lambda g, input, max: zero_unless(g, input > max),
    kernel=lambda xp, g, input, max: zero_array_unless(xp, g, input > max),
)
