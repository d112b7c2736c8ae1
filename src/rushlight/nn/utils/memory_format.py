"""Functions that change the memory format of the weights of convolutions."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.nn.module import Module

__all__ = ["convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format"]


def _convert(module: Module, kinds: tuple[type, ...], memory_format: Any) -> Module:
    for below in module.modules():
        if isinstance(below, kinds):
            below.weight.data = (
                below.weight.detach().clone().contiguous(memory_format=memory_format)
            )
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Convert the weights of all 2-d convolutions to the memory format; their values stay."""
    nn = rushlight.nn
    return _convert(module, (nn.Conv2d, nn.ConvTranspose2d), memory_format)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """Convert the weights of all 3-d convolutions to the memory format; their values stay."""
    nn = rushlight.nn
    return _convert(module, (nn.Conv3d, nn.ConvTranspose3d), memory_format)
