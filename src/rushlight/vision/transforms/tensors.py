"""The functions of `transforms.functional` for tensors `[..., C, H, W]`."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import rushlight as torch
import rushlight.nn.functional as F
from rushlight.core.dtype_sets import FULL
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import general


def largest(dtype: Any) -> float:
    """The value of full brightness: 1 for floating point, else the maximum of the dtype."""
    return 1 if dtype.is_floating_point else (1 if dtype == torch.bool else torch.iinfo(dtype).max)


def floating(img: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """`function` of the image as a batch `[N, C, H, W]` of floating point; back in its shape and type, rounded."""
    lead = img.shape[:-3]
    batch = img.reshape(-1, *img.shape[-3:])
    if img.is_floating_point():
        out = function(batch)
    else:
        out = function(batch.to(torch.float32)).round().clamp(0, largest(img.dtype)).to(img.dtype)
    return out.reshape(*lead, *out.shape[-3:])


def normalized(img: Tensor, mean: Any, std: Any) -> Tensor | None:
    """(img - mean) / std by channel, for a contiguous image and Python floats; None for anything else.

    The arithmetic of the operators, plane by plane, without making tensors of mean and std.
    """
    a = img._array
    if img.__class__ is not Tensor or img.requires_grad or general.active.modes:
        return None
    if a.__class__ is not np.ndarray or a.dtype not in FULL or not a.flags.c_contiguous:
        return None
    if mean.__class__ not in (tuple, list) or std.__class__ not in (tuple, list):
        return None
    if not a.shape[-3] == len(mean) == len(std):
        return None
    made, number = np.empty_like(a), a.dtype.type
    with np.errstate(all="ignore"):
        for c, (middle, deviation) in enumerate(zip(mean, std, strict=True)):
            # Also None for a deviation that is zero only in this dtype: the operators' error says so.
            if not (middle.__class__ is deviation.__class__ is float and number(deviation)):
                return None
            plane = made[..., c, :, :]
            np.subtract(a[..., c, :, :], number(middle), plane)
            np.divide(plane, number(deviation), plane)
    return _wrap(made)


def resize(img: Tensor, size: Sequence[int], mode: str, antialias: bool) -> Tensor:
    """The image interpolated to (height, width)."""
    smooth = mode in ("bilinear", "bicubic")
    arguments: dict[str, Any] = {"mode": mode}
    if smooth:
        arguments.update(align_corners=False, antialias=antialias)
    return floating(img, lambda batch: F.interpolate(batch, size=list(size), **arguments))


def pad(img: Tensor, sides: Sequence[int], fill: Any, mode: str) -> Tensor:
    """The image with left, top, right, bottom borders; negative ones crop."""
    left, top, right, bottom = sides
    if mode == "constant":
        if isinstance(fill, list | tuple) and len(set(fill)) > 1:
            planes = img.unbind(-3)
            return torch.stack(
                [F.pad(p, [left, right, top, bottom], value=f) for p, f in zip(planes, fill)], -3
            )
        value = fill[0] if isinstance(fill, list | tuple) else (fill or 0)
        return F.pad(img, [left, right, top, bottom], value=value)
    h, w = img.shape[-2:]
    for dim, n, before, after in ((-2, h, top, bottom), (-1, w, left, right)):
        indices = np.pad(np.arange(n), (max(before, 0), max(after, 0)), mode=mode)  # type: ignore[call-overload]  # NumPy lists its modes one by one
        indices = indices[max(-before, 0) : len(indices) - max(-after, 0)]
        img = img.index_select(dim, torch.from_numpy(indices))
    return img


def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A window of the image; pixels outside of the image are zero."""
    h, w = img.shape[-2:]
    bottom, right = top + height, left + width
    inside = img[..., max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)]
    if left < 0 or top < 0 or right > w or bottom > h:
        sides = (
            max(min(right, 0) - left, 0),
            max(min(bottom, 0) - top, 0),
            max(right - max(w, left), 0),
            max(bottom - max(h, top), 0),
        )
        return pad(inside, sides, 0, "constant")
    return inside


def blend(one: Tensor, two: Tensor, ratio: float) -> Tensor:
    """ratio * one + (1 - ratio) * two, inside the range of the type."""
    ratio = float(ratio)  # a whole number would multiply bytes, and wrap
    mixed = ratio * one + (1.0 - ratio) * two
    return mixed.clamp(0, largest(one.dtype)).to(one.dtype)


def gray(img: Tensor, channels: int = 1) -> Tensor:
    """Luma 0.2989 R + 0.587 G + 0.114 B (ITU-R 601) in one or three channels; one channel stays as it is."""
    if img.shape[-3] == 3:
        r, g, b = img.unbind(-3)
        img = (0.2989 * r + 0.587 * g + 0.114 * b).to(img.dtype).unsqueeze(-3)
    return img.expand(*img.shape[:-3], channels, *img.shape[-2:]) if channels == 3 else img


def contrast(img: Tensor, factor: float) -> Tensor:
    """The image mixed with its mean gray."""
    dtype = img.dtype if img.is_floating_point() else torch.float32
    return blend(img, gray(img).to(dtype).mean((-3, -2, -1), keepdim=True), factor)


def hue(img: Tensor, factor: float) -> Tensor:
    """Hue turned by `factor` of a circle, through HSV (Smith 1978)."""
    if img.shape[-3] == 1:
        return img
    whole = img if img.is_floating_point() else img.to(torch.float32) / largest(img.dtype)
    r, g, b = whole.unbind(-3)
    high = torch.maximum(torch.maximum(r, g), b)
    low = torch.minimum(torch.minimum(r, g), b)
    spread = high - low
    one = torch.ones_like(high)
    flat = high == low
    s = spread / torch.where(flat, one, high)
    by = torch.where(flat, one, spread)
    rc, gc, bc = (high - r) / by, (high - g) / by, (high - b) / by
    h = torch.where(high == r, bc - gc, torch.where(high == g, 2.0 + rc - bc, 4.0 + gc - rc))
    h = (torch.fmod(h / 6.0 + 1.0, 1.0) + factor) % 1.0
    # back: each channel falls from v by v * s * (how far the hue is from it), k sixths of the circle on
    planes = []
    for n in (5.0, 3.0, 1.0):
        k = (n + h * 6.0) % 6.0
        planes.append(high - high * s * torch.minimum(k, 4.0 - k).clamp(0.0, 1.0))
    out = torch.stack(planes, -3).clamp(0, 1)
    if img.is_floating_point():
        return out
    return (out * (largest(img.dtype) + 1.0 - 1e-3)).to(img.dtype)


def sample(
    img: Tensor, matrix: Sequence[float], mode: str, fill: Any, size: tuple[int, int] | None = None
) -> Tensor:
    """The image where output pixel p shows input pixel `matrix` p, both counted from the middle; `size`: (h, w)."""
    h, w = img.shape[-2:]
    oh, ow = size or (h, w)
    theta = torch.tensor(list(matrix), dtype=torch.float32).reshape(2, 3)
    x = torch.linspace(-ow * 0.5 + 0.5, ow * 0.5 - 0.5, ow)
    y = torch.linspace(-oh * 0.5 + 0.5, oh * 0.5 - 0.5, oh)
    base = torch.ones(oh, ow, 3)
    base[..., 0] = x
    base[..., 1] = y.unsqueeze(-1)
    scaled = theta.t() / torch.tensor([0.5 * w, 0.5 * h])
    grid = (base.reshape(oh * ow, 3) @ scaled).reshape(1, oh, ow, 2)
    return floating(img, lambda batch: through_grid(batch, grid, mode, fill))


def through_grid(batch: Tensor, grid: Tensor, mode: str, fill: Any) -> Tensor:
    """`grid_sample` with `fill` where the grid leaves the image."""
    n, c, h, w = batch.shape
    if fill is not None:
        batch = torch.cat([batch, batch.new_ones(n, 1, h, w)], 1)
    out = F.grid_sample(
        batch,
        grid.to(batch.dtype).expand(n, -1, -1, -1),
        mode=mode,
        padding_mode="zeros",
        align_corners=False,
    )
    if fill is None:
        return out
    mask = out[:, -1:].expand(-1, c, -1, -1)
    values = [float(v) for v in fill] if isinstance(fill, list | tuple) else [float(fill)]
    background = torch.tensor(values, dtype=out.dtype).view(1, -1, 1, 1).expand_as(mask)
    if mode == "nearest":
        return torch.where(mask < 0.5, background, out[:, :-1])
    return out[:, :-1] * mask + (1.0 - mask) * background


def expanded(matrix: Sequence[float], width: int, height: int) -> tuple[int, int]:
    """The (height, width) that contain the whole image after `matrix`."""
    theta = np.array(matrix, np.float32).reshape(2, 3)
    x, y = 0.5 * width, 0.5 * height
    corners = np.array([[-x, -y, 1], [-x, y, 1], [x, y, 1], [x, -y, 1]], np.float32) @ theta.T
    corners += np.array([x, y], np.float32)
    # to a ten-thousandth: 90 degrees must not grow a pixel by rounding
    high = np.ceil(np.trunc(corners.max(0) / 1e-4) * 1e-4)
    low = np.floor(np.trunc(corners.min(0) / 1e-4) * 1e-4)
    return int(high[1] - low[1]), int(high[0] - low[0])


def blur(img: Tensor, kernel_size: Sequence[int], sigma: Sequence[float]) -> Tensor:
    """Convolution with a normal curve of `sigma` (x, y), borders reflected."""
    kernels = []
    for size, deviation in zip(kernel_size, sigma, strict=True):
        half = (size - 1) * 0.5
        curve = torch.exp(-0.5 * (torch.linspace(-half, half, size) / deviation).pow(2))
        kernels.append(curve / curve.sum())
    kernel = torch.outer(kernels[1], kernels[0])
    (kx, ky), channels = kernel_size, img.shape[-3]

    def convolve(batch: Tensor) -> Tensor:
        padded = F.pad(batch, [kx // 2, kx // 2, ky // 2, ky // 2], mode="reflect")
        weight = kernel.to(batch.dtype).expand(channels, 1, ky, kx)
        return F.conv2d(padded, weight, groups=channels)

    return floating(img, convolve)


def sharpness(img: Tensor, factor: float) -> Tensor:
    """The image mixed with a smoothed one; the border stays."""
    if min(img.shape[-2:]) <= 2:
        return img
    channels = img.shape[-3]

    def smooth(batch: Tensor) -> Tensor:
        kernel = batch.new_ones(3, 3)
        kernel[1, 1] = 5.0
        weight = (kernel / kernel.sum()).expand(channels, 1, 3, 3)
        inner = F.conv2d(batch, weight, groups=channels)
        out = batch.clone()
        out[..., 1:-1, 1:-1] = inner
        return out

    return blend(img, floating(img, smooth), factor)


def autocontrast(img: Tensor) -> Tensor:
    """Stretch each channel to the whole range."""
    bound = largest(img.dtype)
    dtype = img.dtype if img.is_floating_point() else torch.float32
    low = img.amin((-2, -1), keepdim=True).to(dtype)
    high = img.amax((-2, -1), keepdim=True).to(dtype)
    flat = high == low
    scale = torch.where(flat, torch.ones_like(high), bound / (high - low).clamp(min=1e-12))
    low = torch.where(flat, torch.zeros_like(low), low)
    return ((img.to(dtype) - low) * scale).clamp(0, bound).to(img.dtype)


def equalize(img: Tensor) -> Tensor:
    """Each channel of a uint8 image with as even a histogram as a table of its values allows."""
    if img.dtype != torch.uint8:
        raise TypeError(f"Only torch.uint8 image tensors are supported, but found {img.dtype}")
    array = img.numpy().copy()
    for plane in array.reshape(-1, *array.shape[-2:]):
        counts = np.bincount(plane.reshape(-1), minlength=256)
        used = counts[counts != 0]
        step = int(used[:-1].sum()) // 255
        if step:
            table = (np.cumsum(counts) + step // 2) // step
            plane[...] = np.concatenate([[0], table[:-1]]).clip(0, 255).astype(np.uint8)[plane]
    return torch.from_numpy(array)


def angle_matrix(
    center: Sequence[float],
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: Sequence[float],
) -> list[float]:
    """The inverse of: move `center` to the origin, shear, rotate, scale, move back and by `translate`.

    Angles in degrees; the first two rows of the 3x3 matrix, row by row.
    """
    rot, sx, sy = (math.radians(a) for a in (angle, *shear))
    a = math.cos(rot - sy) / math.cos(sy)
    b = -math.cos(rot - sy) * math.tan(sx) / math.cos(sy) - math.sin(rot)
    c = math.sin(rot - sy) / math.cos(sy)
    d = -math.sin(rot - sy) * math.tan(sx) / math.cos(sy) + math.cos(rot)
    m = [v / scale for v in (d, -b, 0.0, -c, a, 0.0)]  # the determinant of a, b, c, d is one
    x, y = -center[0] - translate[0], -center[1] - translate[1]
    m[2] = m[0] * x + m[1] * y + center[0]
    m[5] = m[3] * x + m[4] * y + center[1]
    return m
