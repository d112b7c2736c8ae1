"""Channels made pixels, and pixels channels."""

from __future__ import annotations

from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn.module import Module

__all__ = ["ChannelShuffle", "PixelShuffle", "PixelUnshuffle"]


class PixelShuffle(Module):
    """Channels rearranged into a larger image: [*, C * r * r, H, W] becomes [*, C, H * r, W * r] (Shi 2016).

    >>> import rushlight as torch
    >>> torch.nn.PixelShuffle(2)(torch.ones(1, 8, 3, 3)).shape
    torch.Size([1, 2, 6, 6])
    """

    __constants__ = ["upscale_factor"]
    _shown = ("upscale_factor",)

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)


class PixelUnshuffle(Module):
    """The reverse of PixelShuffle: [*, C, H * r, W * r] becomes [*, C * r * r, H, W]."""

    __constants__ = ["downscale_factor"]
    _shown = ("downscale_factor",)

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)


class ChannelShuffle(Module):
    """The channels of [N, C, ...] dealt out over `groups`."""

    __constants__ = ["groups"]
    _shown = ("groups",)

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)
