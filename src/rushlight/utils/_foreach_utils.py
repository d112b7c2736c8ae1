"""How optimizers of other packages sort their tensors for operators over lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor

__all__: list[str] = []


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Device types on which optimizers take `foreach=True` where nothing was asked: none; on a CPU it must be asked for."""
    return []


def _get_fused_kernels_supported_devices() -> list[str]:
    """Device types on which optimizers take `fused=True`."""
    return ["cpu"]


def _device_has_foreach_support(device: torch.device) -> bool:
    """Whether operators over lists take tensors of a device."""
    return device.type == "cpu"


def _has_foreach_support(tensors: Sequence[Tensor], device: torch.device) -> bool:
    """Whether operators over lists take these tensors of a device."""
    return _device_has_foreach_support(device) and all(isinstance(t, Tensor) for t in tensors)


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[Any, Any], tuple[list[list], list[int]]]:
    """Lists of tensors, taken apart into groups of one device and dtype by the tensors of the first list.

    `tensorlistlist` holds lists of one length, or empty ones. Returns {(device, dtype): (the same lists with the
    group's tensors alone, their indices)}; without `with_indices` the indices are empty.

    >>> import rushlight as torch
    >>> groups = _group_tensors_by_device_and_dtype([[torch.ones(2), torch.ones(3).double(), torch.ones(1)]], True)
    >>> [(dtype, indices) for (_, dtype), (_, indices) in groups.items()]
    [(torch.float32, [0, 2]), (torch.float64, [1])]
    """
    groups: dict[tuple[Any, Any], tuple[list[list], list[int]]] = {}
    for i, first in enumerate(tensorlistlist[0]):
        if first is None:
            raise RuntimeError(f"Tensors of the first list must not be None; the one at {i} is.")
        lists, indices = groups.setdefault(
            (first.device, first.dtype), ([[] for _ in tensorlistlist], [])
        )
        for into, tensors in zip(lists, tensorlistlist, strict=True):
            if tensors:
                into.append(tensors[i])
        if with_indices:
            indices.append(i)
    return groups
