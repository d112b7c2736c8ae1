"""The functions of `transforms.v2.functional`: the older ones, and those that only the newer module has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.core.tensor import Tensor
from rushlight.vision.transforms import functional, tensors
from rushlight.vision.transforms.functional import *  # noqa: F403
from rushlight.vision.transforms.functional import InterpolationMode

__all__ = list(functional.__all__)
__all__ += [
    "get_num_channels", "get_size", "grayscale_to_rgb", "horizontal_flip", "to_dtype", "to_image", "vertical_flip",
]  # fmt: skip

get_num_channels = functional.get_image_num_channels
horizontal_flip = functional.hflip
vertical_flip = functional.vflip


def get_size(image: Any) -> list[int]:
    """The height and the width of an image.

    >>> get_size(torch.zeros(3, 4, 6))
    [4, 6]
    """
    return functional.get_dimensions(image)[1:]


def resize(  # type: ignore[no-redef]
    img: Any,
    size: int | Sequence[int],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The older `resize`, but bytes are interpolated as bytes: rounded after each of the two dimensions."""
    mode = functional._mode(interpolation)
    smooth = mode in ("bilinear", "bicubic")
    if not (isinstance(img, Tensor) and img.dtype == torch.uint8 and smooth):
        return functional.resize(img, size, interpolation, max_size, antialias)
    sizes = functional.resized_to(img, size, max_size)
    if get_size(img) == sizes:
        return img
    batch = img.reshape(-1, *img.shape[-3:])
    out = F.interpolate(batch, sizes, mode=mode, align_corners=False, antialias=bool(antialias))
    return out.reshape(*img.shape[:-2], *sizes)


def resized_crop(  # type: ignore[no-redef]
    img: Any, top: int, left: int, height: int, width: int, size: Sequence[int],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR, antialias: bool | None = True,
) -> Any:  # fmt: skip
    """A window of the image, resized."""
    window = functional.crop(img, top, left, height, width)
    return resize(window, size, interpolation, antialias=antialias)


def to_image(pic: Any) -> Tensor:
    """A PIL image or an array `[H, W]` or `[H, W, C]` as a tensor `[C, H, W]` of the same type; a tensor as it is."""
    if isinstance(pic, Tensor):
        return pic
    if isinstance(pic, np.ndarray):
        return torch.from_numpy(np.ascontiguousarray(np.atleast_3d(pic).transpose(2, 0, 1)))
    return functional.pil_to_tensor(pic)


def to_dtype(image: Tensor, dtype: Any = torch.float32, scale: bool = False) -> Tensor:
    """The image in another type; with `scale`, values scaled to its range.

    >>> to_dtype(torch.tensor([0, 255], dtype=torch.uint8), scale=True)
    tensor([0., 1.])
    """
    if not scale:
        return image.to(dtype)
    if dtype.is_floating_point and not image.is_floating_point() and image.dtype != dtype:
        # The older function divides: the last bit can differ.
        return image.to(dtype).mul_(1.0 / tensors.largest(image.dtype))
    return functional.convert_image_dtype(image, dtype)


def grayscale_to_rgb(image: Any) -> Any:
    """An image of one channel as one of three that are the same; one that has three already stays as it is.

    >>> tuple(grayscale_to_rgb(torch.ones(1, 2, 2)).shape)
    (3, 2, 2)
    """
    if not isinstance(image, Tensor):
        return image.convert(mode="RGB")
    if image.shape[-3] >= 3:
        return image
    return image.repeat(*[1] * (image.ndim - 3), 3, 1, 1)
