"""Functions of two tensors, value by value: both have one mask, or one of them has none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.masked.maskedtensor.core import (
    MaskedTensor,
    _masks_match,
    data_of,
    entered,
    on_values,
    replace,
    with_mask,
)

if TYPE_CHECKING:
    from collections.abc import Callable

BINARY_NAMES = (
    "add atan2 arctan2 bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift div divide "
    "floor_divide fmod logaddexp logaddexp2 mul multiply nextafter remainder sub subtract true_divide eq ne le ge "
    "greater greater_equal gt less_equal lt less maximum minimum fmax fmin not_equal"
).split()
INPLACE_BINARY_NAMES = [
    name + "_"
    for name in BINARY_NAMES
    if name not in ("fmax", "fmin", "logaddexp", "logaddexp2", "maximum", "minimum")
]
NATIVE_BINARY_FNS = [getattr(torch.ops.aten, name) for name in BINARY_NAMES]
NATIVE_INPLACE_BINARY_FNS = [getattr(torch.ops.aten, name) for name in INPLACE_BINARY_NAMES]

# PyTorch refuses most of these. `pow` is a function of one tensor there.
MORE = (
    "copysign float_power hypot isclose logical_and logical_or logical_xor pow rsub __add__ __radd__ __sub__ __rsub__ "
    "__mul__ __rmul__ __truediv__ __rtruediv__ __pow__ __rpow__ __floordiv__ __mod__ __and__ __or__ __xor__ __eq__ "
    "__ne__ __ge__ __gt__ __le__ __lt__"
).split()


def binary(func: Callable, name: str, *args: Any, **kwargs: Any) -> Any:
    """`func` of the numbers of both, with their mask."""
    masks = matching(args)
    shape = torch.broadcast_shapes(*(t.shape for t in args if isinstance(t, torch.Tensor)))
    data = [
        data_of(a) if isinstance(a, MaskedTensor) else entered(a, masks[0], shape) for a in args
    ]
    made = on_values(lambda *v: func(*v, **kwargs), *data)
    mask = masks[0]
    return with_mask(made, mask if made.shape == mask.shape else mask.expand(made.shape))


def inplace_binary(func: Callable, name: str, input: Any, *args: Any, **kwargs: Any) -> Any:
    """`func`, which writes to the numbers of its first argument."""
    matching((input, *args))
    if not isinstance(input, MaskedTensor):
        raise ValueError(f"{name}: the result is masked, but what it is written to is not")
    rest = [data_of(a) for a in args]
    return replace(input, lambda data: on_values(lambda *v: func(*v, **kwargs), data, *rest))


def matching(args: tuple) -> list:
    """The masks of the arguments; ValueError where they differ."""
    found = [a for a in args if isinstance(a, MaskedTensor)]
    if len(found) == 2 and not _masks_match(*found):
        raise ValueError(
            "Input masks must match. If you need support for this, please open an issue on Github."
        )
    return [a._mask for a in found]
