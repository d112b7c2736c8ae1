"""The two functions that make a MaskedTensor: without and with the history of the data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.masked.maskedtensor.core import MaskedTensor, checked, with_mask

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data: Tensor, mask: Tensor, requires_grad: bool = False) -> MaskedTensor:
    """A new MaskedTensor without the history of `data`; see `as_masked_tensor` for one with it.

    TypeError for a mask that is not bool, ValueError where the shapes differ.
    """
    return MaskedTensor(data, mask, requires_grad)


class _FromValues(torch.autograd.Function):
    """A copy of the data; its gradient is masked."""

    @staticmethod
    def forward(ctx: Any, data: Tensor, mask: Tensor) -> Tensor:
        ctx.mask = mask
        return data.clone()

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> tuple:
        return with_mask(g, ctx.mask), None


def as_masked_tensor(data: Tensor, mask: Tensor) -> MaskedTensor:
    """`data` as a MaskedTensor: a masked gradient goes to it, for the numbers that count."""
    data, mask = checked(data, mask)
    mask = mask.clone()
    return with_mask(_FromValues.apply(data, mask), mask)
