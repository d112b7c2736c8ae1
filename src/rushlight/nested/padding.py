"""Nested tensors from padded ones: PyTorch's private names, which programs and `TransformerEncoder` use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.nested.strided import packed

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor


def checked(t: Tensor, mask: Tensor) -> None:
    if mask.dtype is not torch.bool:
        raise RuntimeError(
            f"Expected mask to be of ScalarType Bool, but got {mask.dtype.scalar_name} instead."
        )
    if mask.dim() != 2:
        raise RuntimeError(
            f"Padding mask should be 2D, but got a tensor of {mask.dim()} dimensions"
        )
    if t.dim() != 3:
        raise RuntimeError(f"Input should be a 3D tensor, but got {t.dim()} dimensions")
    if tuple(mask.shape) != tuple(t.shape[:2]):
        raise RuntimeError("Input size should match padding mask size")


def _nested_tensor_from_mask_left_aligned(t: Tensor, mask: Tensor) -> bool:
    """Whether what a mask [batch, length] keeps stands before what it hides, in every row."""
    checked(t, mask)
    return not bool((~mask[:, :-1] & mask[:, 1:]).any())


def _nested_tensor_from_mask(t: Tensor, mask: Tensor, mask_check: bool = True) -> Tensor:
    """The rows [batch, length, features] of a padded tensor that a mask [batch, length] keeps."""
    if mask_check and not _nested_tensor_from_mask_left_aligned(t, mask):
        raise RuntimeError("Mask must be left-aligned without gaps")
    return packed([row[:n] for row, n in zip(t.unbind(), mask.sum(1).tolist(), strict=True)])


def _nested_from_padded(
    padded: Tensor, cpu_nested_shape_example: Tensor, fuse_transform_0213: bool = False
) -> Tensor:
    """The components of given sizes at the beginning of the rows of a padded tensor."""
    if fuse_transform_0213:
        padded = padded.transpose(1, 2).flatten(2)
    rows: list[Any] = []
    for row, size in zip(padded.unbind(), cpu_nested_shape_example.tolist(), strict=True):
        rows.append(row[tuple(slice(n) for n in size)])
    return packed(rows)
