"""Grids of images, and drawing on images."""

from __future__ import annotations

import math
import os
from typing import Any, BinaryIO

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.vision.pillow import pillow

__all__ = ["draw_bounding_boxes", "draw_segmentation_masks", "make_grid", "save_image"]


def make_grid(
    tensor: Tensor | list[Tensor],
    nrow: int = 8,
    padding: int = 2,
    normalize: bool = False,
    value_range: tuple[float, float] | None = None,
    scale_each: bool = False,
    pad_value: float = 0.0,
) -> Tensor:
    """Images `[N, C, H, W]` (or a list of `[C, H, W]`) side by side, `nrow` in a row, as one image `[3, H', W']`.

    One channel becomes three. `normalize` maps `value_range` (by default the smallest and the largest value; with
    `scale_each`, each image's own) to 0..1.

    >>> make_grid(torch.zeros(5, 1, 4, 4), nrow=3, padding=1).shape
    torch.Size([3, 11, 16])
    """
    if not (isinstance(tensor, Tensor) or all(isinstance(t, Tensor) for t in tensor)):
        raise TypeError(f"tensor or list of tensors expected, got {type(tensor)}")
    with torch.no_grad():
        images = tensor if isinstance(tensor, Tensor) else torch.stack(list(tensor))
        if images.ndim == 2:
            images = images.unsqueeze(0)
        if images.ndim == 3:
            images = images.unsqueeze(0)
        if images.shape[1] == 1:
            images = torch.cat([images] * 3, 1)
        if normalize:
            if value_range is not None and not isinstance(value_range, tuple):
                raise TypeError(
                    "value_range has to be a tuple (min, max) if specified. min and max are numbers"
                )
            images = images.clone()
            for part in images if scale_each else [images]:
                low, high = value_range or (float(part.min()), float(part.max()))
                part.clamp_(min=low, max=high).sub_(low).div_(max(high - low, 1e-5))
        count, channels = images.shape[:2]
        if count == 1:
            return images.squeeze(0)
        columns = min(nrow, count)
        rows = math.ceil(count / columns)
        h, w = images.shape[2] + padding, images.shape[3] + padding
        grid = images.new_full((channels, h * rows + padding, w * columns + padding), pad_value)
        for k in range(count):
            y, x = k // columns * h + padding, k % columns * w + padding
            grid[:, y : y + h - padding, x : x + w - padding] = images[k]
    return grid


def save_image(
    tensor: Tensor | list[Tensor],
    fp: str | os.PathLike | BinaryIO,
    format: str | None = None,
    **kwargs: Any,
) -> None:
    """Write the grid of images with values 0..1 (`make_grid(tensor, **kwargs)`) as a file of the type its name says."""
    image = pillow("save_image")
    grid = make_grid(tensor, **kwargs)
    array = grid.mul(255).add_(0.5).clamp_(0, 255).permute(1, 2, 0).to(torch.uint8).numpy()
    image.fromarray(array.copy()).save(fp, format=format)


def _palette(count: int) -> list[tuple[int, ...]]:
    return [
        tuple(i * step % 255 for step in (2**25 - 1, 2**15 - 1, 2**21 - 1)) for i in range(count)
    ]


def _colors(colors: Any, count: int) -> list:
    if colors is None:
        made: list = _palette(count)
    elif isinstance(colors, list):
        if len(colors) < count:
            raise ValueError(
                f"Number of colors must be equal or larger than the number of objects, but got {len(colors)} < {count}."
            )
        made = colors
    else:
        made = [colors] * count
    rgb = pillow("draw", "ImageColor").getrgb
    return [rgb(c)[:3] if isinstance(c, str) else tuple(c) for c in made]


def _image_to_draw(image: Any, name: str) -> None:
    if not isinstance(image, Tensor):
        raise TypeError(f"[{name}] The image must be a tensor, got {type(image)}")
    if not (image.dtype == torch.uint8 or image.is_floating_point()):
        raise ValueError(f"The image dtype must be uint8 or float, got {image.dtype}")
    if image.ndim != 3:
        raise ValueError(f"Pass individual images, not batches: shape {tuple(image.shape)}")


def draw_bounding_boxes(
    image: Tensor,
    boxes: Tensor,
    labels: list[str | None] | None = None,
    colors: Any = None,
    fill: bool = False,
    width: int = 1,
    font: str | None = None,
    font_size: int | None = None,
) -> Tensor:
    """A copy of an image `[1 or 3, H, W]` (uint8, or floats 0..1) with boxes `[N, 4]` (x1, y1, x2, y2) drawn on it.

    colors: one, or a list of one for each box, as names or (r, g, b). fill: half-transparent insides.
    """
    _image_to_draw(image, "draw_bounding_boxes")
    if image.shape[0] not in (1, 3):
        raise ValueError("Only grayscale and RGB images are supported")
    if not boxes.numel():
        return image
    if (boxes[:, 0] > boxes[:, 2]).any() or (boxes[:, 1] > boxes[:, 3]).any():
        raise ValueError(
            "Boxes need to be in (xmin, ymin, xmax, ymax) format. Use torchvision.ops.box_convert to convert them"
        )
    names = labels or [None] * len(boxes)
    if len(names) != len(boxes):
        raise ValueError(
            f"Number of boxes ({len(boxes)}) and labels ({len(names)}) mismatch. Please specify labels for each box."
        )
    from rushlight.vision.transforms.functional import pil_to_tensor, to_pil_image

    three = image.expand(3, -1, -1) if image.shape[0] == 1 else image
    picture = to_pil_image(three)
    draw = pillow("draw_bounding_boxes", "ImageDraw").Draw(picture, "RGBA" if fill else "RGB")
    fonts = pillow("draw_bounding_boxes", "ImageFont")
    letters = fonts.truetype(font, font_size or 10) if font else fonts.load_default()
    for box, name, color in zip(
        boxes.to(torch.int64).tolist(), names, _colors(colors, len(boxes)), strict=False
    ):
        draw.rectangle(box, width=width, outline=color, fill=(*color, 100) if fill else None)
        if name is not None:
            draw.text((box[0] + width + 1, box[1] + width + 1), name, fill=color, font=letters)
    out = pil_to_tensor(picture)
    return out.to(image.dtype) / 255 if image.is_floating_point() else out


def draw_segmentation_masks(
    image: Tensor, masks: Tensor, alpha: float = 0.8, colors: Any = None
) -> Tensor:
    """A copy of an image `[3, H, W]` with boolean masks `[N, H, W]` (or one) coloured; alpha 1 hides the image."""
    _image_to_draw(image, "draw_segmentation_masks")
    if image.shape[0] != 3:
        raise ValueError("Pass an RGB image. Other Image formats are not supported")
    masks = masks[None] if masks.ndim == 2 else masks
    if masks.dtype != torch.bool:
        raise ValueError(f"The masks must be of dtype bool. Got {masks.dtype}")
    if masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("The image and the masks must have the same height and width")
    if not masks.any():
        return image
    painted = image.detach().clone()
    for mask, color in zip(masks, _colors(colors, len(masks)), strict=False):
        tint = torch.tensor(color, dtype=torch.uint8)
        if image.is_floating_point():
            tint = tint.to(image.dtype) / 255
        painted[:, mask] = tint[:, None]
    return (image * (1 - alpha) + painted * alpha).to(image.dtype)
