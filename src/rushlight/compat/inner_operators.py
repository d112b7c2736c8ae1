"""Operators that PyTorch has under inner names as well, which older programs call: `torch._aminmax`, `torch._masked_softmax`."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.core.settings import warn_once
from rushlight.core.tensor import Tensor

__all__ = ["_aminmax", "_grid_sampler_2d_cpu_fallback", "_masked_softmax", "_unique"]


def _aminmax(self: Tensor, dim: int | None = None, keepdim: bool = False) -> tuple[Tensor, Tensor]:
    """`torch.aminmax`, with a warning that this name is old."""
    warn_once(
        "_aminmax is deprecated as of PyTorch 1.11 and will be removed in a future release. Use aminmax instead. "
        "This warning will only appear once per process."
    )
    return tuple(torch.aminmax(self, dim=dim, keepdim=keepdim))


def _unique(
    self: Tensor, sorted: bool = True, return_inverse: bool = False
) -> tuple[Tensor, Tensor]:
    """`torch.unique`; without `return_inverse` the second result is empty."""
    values, inverse = torch.unique(self, sorted=sorted, return_inverse=True)
    return values, inverse if return_inverse else inverse.new_empty(0)


def _grid_sampler_2d_cpu_fallback(
    input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool
) -> Tensor:
    """`torch.grid_sampler_2d`, which has one way of computing here."""
    return torch.grid_sampler_2d(input, grid, interpolation_mode, padding_mode, align_corners)


def _masked_softmax(
    self: Tensor, mask: Tensor, dim: int | None = None, mask_type: int | None = None
) -> Tensor:
    """The softmax over what `mask` has False for.

    `mask_type` 0: the mask is [L, S]; 1: of the keys [N, S]; 2: of the shape of the input.
    """
    if mask.dtype is not torch.bool:
        raise RuntimeError("Mask should be a boolean tensor")
    if mask.shape != self.shape:
        wanted: Any = {0: self.shape[-2:], 1: (self.shape[0], self.shape[-1])}.get(mask_type or 0)
        if mask_type == 2 or self.dim() != 4 or mask.shape != wanted:
            raise RuntimeError(
                f"_masked_softmax: for mask_type {mask_type} the mask has shape {list(mask.shape)}, "
                f"the input {list(self.shape)}"
            )
        mask = mask[:, None, None] if mask_type == 1 else mask
    hidden = self.masked_fill(mask, float("-inf"))
    return hidden.softmax(self.dim() - 1 if dim is None else dim)
