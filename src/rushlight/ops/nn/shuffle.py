"""Channels and pixels rearranged: `pixel_shuffle`, `pixel_unshuffle`, `channel_shuffle`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.nn.inputs import is_channels_last
from rushlight.ops.nn.pool import in_channels_last

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


def joined(xp: Any, input: np.ndarray, a: np.ndarray, shape: tuple, k: int) -> np.ndarray:
    """A copy of `a`, which is `input` with dimensions split and moved, in `shape`; `k` dimensions of `a` become the
    channels, which are last in memory where the input's are."""
    last = not input.flags.c_contiguous and is_channels_last(input)
    if not last or len(shape) == 5 and a.ndim == 7:  # channels of (*, C, H, W) are not dimension 1
        return in_channels_last(xp, xp.row_major(a).reshape(shape), last)
    rows = xp.row_major(a.transpose(0, *range(1 + k, a.ndim), *range(1, 1 + k)))
    n = len(shape) - 1
    return rows.reshape(shape[0], *shape[2:], shape[1]).transpose(0, n, *range(1, n))


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
    n = len(lead)
    a = input.reshape(*lead, c // (r * r), r, r, h, w)
    a = a.transpose(*range(n + 1), n + 3, n + 1, n + 4, n + 2)
    return joined(xp, input, a, (*lead, c // (r * r), h * r, w * r), 1)


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
    n = len(lead)
    a = input.reshape(*lead, c, h // r, r, w // r, r)
    a = a.transpose(*range(n + 1), n + 2, n + 4, n + 1, n + 3)
    return joined(xp, input, a, (*lead, c * r * r, h // r, w // r), 3)


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
    a = input.reshape(n, groups, c // groups, *rest).swapaxes(1, 2)
    return joined(xp, input, a, input.shape, 2)


channel_shuffle.grad(
    input=lambda g, groups: channel_shuffle(g, g.shape[1] // groups if groups else 1)
)


@composite(method=False, out=False)
def native_channel_shuffle(input: Array, groups: int):
    """`channel_shuffle`."""
    return channel_shuffle(input, groups)
