"""Channels and pixels rearranged: `pixel_shuffle`, `pixel_unshuffle`, `channel_shuffle`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.nn.pool import placed, regular

if TYPE_CHECKING:
    import numpy as np


def check_pixels(name: str, a: np.ndarray, what: str, factor: int) -> None:
    if a.ndim < 3:
        raise RuntimeError(
            f"{name} expects input to have at least 3 dimensions, but got input with {a.ndim} "
            "dimension(s)"
        )
    if factor <= 0:
        raise RuntimeError(f"{name} expects a positive {what}, but got {factor}")


@op(method=False, out=False)
def pixel_shuffle(xp, input: Array, upscale_factor: int):
    """(*, C r r, H, W) to (*, C, H r, W r), r = `upscale_factor`: channels become pixels.

    RuntimeError where the channels are not divisible by r r.

    >>> import rushlight as torch
    >>> torch.pixel_shuffle(torch.arange(4.0).view(4, 1, 1), 2)
    tensor([[[0., 1.],
             [2., 3.]]])
    """
    r = upscale_factor
    check_pixels("pixel_shuffle", input, "upscale_factor", r)
    *lead, c, h, w = input.shape
    if c % (r * r):
        raise RuntimeError(
            "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
            f"upscale_factor, but input.size(-3)={c} is not divisible by {r * r}"
        )
    a, last = regular(input)
    a = a.reshape(*lead, c // (r * r), r, r, h, w)
    n = len(lead)
    a = a.transpose(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    a = a.reshape(*lead, c // (r * r), h * r, w * r)
    return placed(a.copy() if xp.shares_memory(a, input) else a, last)


@op(method=False, out=False)
def pixel_unshuffle(xp, input: Array, downscale_factor: int):
    """(*, C, H r, W r) to (*, C r r, H, W), r = `downscale_factor`: the inverse of `pixel_shuffle`."""
    r = downscale_factor
    check_pixels("pixel_unshuffle", input, "downscale_factor", r)
    *lead, c, h, w = input.shape
    for name, at, size in (("height", -2, h), ("width", -1, w)):
        if size % r:
            raise RuntimeError(
                f"pixel_unshuffle expects {name} to be divisible by downscale_factor, but "
                f"input.size({at})={size} is not divisible by {r}"
            )
    a, last = regular(input)
    a = a.reshape(*lead, c, h // r, r, w // r, r)
    n = len(lead)
    a = a.transpose(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    a = a.reshape(*lead, c * r * r, h // r, w // r)
    return placed(a.copy() if xp.shares_memory(a, input) else a, last)


pixel_shuffle.grad(input=lambda g, upscale_factor: pixel_unshuffle(g, upscale_factor))
pixel_unshuffle.grad(input=lambda g, downscale_factor: pixel_shuffle(g, downscale_factor))


@op(method=False, out=False)
def channel_shuffle(xp, input: Array, groups: int):
    """(N, C, *) with its channels, as (groups, C / groups), transposed.

    RuntimeError where the channels are not divisible by `groups`.

    >>> import rushlight as torch
    >>> torch.channel_shuffle(torch.arange(4.0).view(1, 4, 1), 2).flatten()
    tensor([0., 2., 1., 3.])
    """
    if input.ndim <= 2:
        raise RuntimeError(
            f"channel_shuffle expects input with > 2 dims, but got input with sizes {list(input.shape)}"
        )
    if groups <= 0:
        raise RuntimeError(
            "Number of groups to divide channels in must be positive. Value of groups:"
            + str(groups)
        )
    n, c, *rest = input.shape
    if c % groups:
        raise RuntimeError(
            f"Number of channels must be divisible by groups. Got {c} channels and {groups} groups."
        )
    a, last = regular(input)
    a = a.reshape(n, groups, c // groups, *rest).swapaxes(1, 2)
    return placed(a.copy().reshape(input.shape), last)


channel_shuffle.grad(
    input=lambda g, groups: channel_shuffle(g, g.shape[1] // groups if groups else 1)
)


@composite(method=False, out=False)
def native_channel_shuffle(input, groups):
    """`channel_shuffle`."""
    return channel_shuffle(input, groups)
