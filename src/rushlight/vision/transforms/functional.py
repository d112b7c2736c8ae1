"""Functions of one image, a PIL image or a tensor `[..., C, H, W]`; nothing in here is random."""

from __future__ import annotations

import enum
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import rushlight as torch
from rushlight.core.tensor import Tensor, _wrap
from rushlight.vision.pillow import is_pil, pillow
from rushlight.vision.transforms import tensors

__all__ = [
    "InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue",
    "adjust_saturation", "adjust_sharpness", "affine", "autocontrast", "center_crop",
    "convert_image_dtype", "crop", "equalize", "erase", "five_crop", "gaussian_blur",
    "get_dimensions", "get_image_num_channels", "get_image_size", "hflip", "invert", "normalize",
    "pad", "pil_to_tensor", "posterize", "resize", "resized_crop", "rgb_to_grayscale", "rotate",
    "solarize", "ten_crop", "to_grayscale", "to_pil_image", "to_tensor", "vflip",
]  # fmt: skip


class InterpolationMode(enum.Enum):
    """The interpolation methods; BOX, HAMMING and LANCZOS are for PIL images only."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PIL_MODES = dict(nearest=0, lanczos=1, bilinear=2, bicubic=3, box=4, hamming=5)  # noqa: C408
_PIL_MODES["nearest-exact"] = 0
_NUMBERED = {number: name for name, number in list(_PIL_MODES.items())[:6]}


def _mode(interpolation: InterpolationMode | int) -> str:
    if isinstance(interpolation, InterpolationMode):
        return interpolation.value
    if isinstance(interpolation, int):  # PIL's numbers
        return _NUMBERED[int(interpolation)]
    raise TypeError(
        "Argument interpolation should be a InterpolationMode or a corresponding Pillow integer constant, "
        f"got {interpolation!r}"
    )


def _tensor(img: Any, name: str) -> Tensor:
    if not isinstance(img, Tensor):
        raise TypeError(f"[{name}] img should be PIL Image or Tensor image. Got {type(img)}")
    if img.ndim < 2:
        raise TypeError(f"[{name}] Tensor is not a torch image: its shape is {tuple(img.shape)}")
    return img


def get_dimensions(img: Any) -> list[int]:
    """Channels, height, width."""
    if is_pil(img):
        return [len(img.getbands()), img.height, img.width]
    img = _tensor(img, "get_dimensions")
    return [1 if img.ndim == 2 else img.shape[-3], img.shape[-2], img.shape[-1]]


def get_image_size(img: Any) -> list[int]:
    """Width, height."""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    """The number of channels."""
    return get_dimensions(img)[0]


# -- between images and tensors --------------------------------------------------------------------


def _planes(pic: Any) -> np.ndarray:
    """The values of a PIL image as an array `[C, H, W]`, in any order of memory, for reading."""
    pic.load()  # some kinds of files say their true mode only now
    if pic.mode == "RGB" and pic.size[0] and pic.size[1]:
        # Each line as reds, greens, blues: planes are copied faster line by line than by number.
        width, height = pic.size
        lines = np.frombuffer(pic.tobytes("raw", "RGB;L"), np.uint8)
        return lines.reshape(height, 3, width).transpose(1, 0, 2)
    array = np.asarray(pic)
    return array[None] if array.ndim == 2 else array.transpose(2, 0, 1)


def to_tensor(pic: Any) -> Tensor:
    """A PIL image or an array `[H, W]` or `[H, W, C]` as a tensor `[C, H, W]`: uint8 becomes floats 0..1.

    Other types keep their values (PIL's mode "1" gives 0 and 1, too). TypeError for anything else.

    >>> import numpy as np
    >>> to_tensor(np.array([[0, 51]], np.uint8))
    tensor([[[0.0000, 0.2000]]])
    """
    if isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        planes = np.atleast_3d(pic).transpose(2, 0, 1)
        if planes.dtype != np.uint8:  # those are written anew below
            planes = planes.copy()
    elif is_pil(pic):
        planes = _planes(pic)
    else:
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(pic)}")
    if planes.dtype == bool:
        return _wrap(planes).to(torch.get_default_dtype())
    if planes.dtype == np.uint8:
        dtype = torch.get_default_dtype().np
        made = np.empty(planes.shape, dtype)
        made[...] = planes
        return _wrap(np.divide(made, dtype.type(255), made))
    return torch.from_numpy(planes if planes.flags.c_contiguous else planes.copy())


def pil_to_tensor(pic: Any) -> Tensor:
    """A PIL image as a tensor `[C, H, W]` of the same type, uint8 for most."""
    if not is_pil(pic):
        raise TypeError(f"pic should be PIL Image. Got {type(pic)}")
    planes = _planes(pic)
    return _wrap(planes.astype(np.uint8 if planes.dtype == bool else planes.dtype, order="C"))


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor `[C, H, W]` or `[H, W]`, or an array `[H, W, C]` or `[H, W]`, as a PIL image.

    Floating point is multiplied by 255 unless `mode` is "F". TypeError or ValueError for what is no image.
    """
    image = pillow("to_pil_image")
    if isinstance(pic, Tensor):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = pic.detach().numpy()
        array = array[:, :, None] if array.ndim == 2 else array.transpose(1, 2, 0)
    elif isinstance(pic, np.ndarray):
        if pic.ndim not in (2, 3):
            raise ValueError(f"pic should be 2/3 dimensional. Got {pic.ndim} dimensions.")
        array = np.atleast_3d(pic)
    else:
        raise TypeError(f"pic should be Tensor or ndarray. Got {type(pic)}.")
    channels = array.shape[2]
    if channels > 4:
        raise ValueError(f"pic should not have > 4 channels. Got {channels} channels.")
    if array.dtype.kind == "f" and isinstance(pic, Tensor) and mode != "F":
        array = (array * 255).astype(np.int32).astype(np.uint8)  # past 255 it wraps, as in PyTorch
    array = np.ascontiguousarray(array[:, :, 0] if channels == 1 else array)
    if channels == 1:
        modes = {"uint8": "L", "int16": "I;16", "uint16": "I;16", "int32": "I", "float32": "F"}
        natural = modes.get(array.dtype.name)
        permitted: set[str | None] = {natural}
    else:
        natural = {2: "LA", 3: "RGB", 4: "RGBA"}[channels] if array.dtype == np.uint8 else None
        permitted = set(
            {2: {"LA"}, 3: {"RGB", "YCbCr", "HSV"}, 4: {"RGBA", "CMYK", "RGBX"}}[channels]
        )
    if natural is None:
        raise TypeError(f"Input type {array.dtype} is not supported")
    if mode is not None and mode not in permitted:
        raise ValueError(
            f"Only modes {sorted(filter(None, permitted))} are supported for inputs of {channels} channels "
            f"and type {array.dtype}, got {mode!r}"
        )
    made = image.fromarray(array)
    if mode is not None and mode != natural:  # the same bytes under another name
        made = image.frombytes(mode, made.size, made.tobytes())
    return made


def convert_image_dtype(image: Tensor, dtype: Any = torch.float32) -> Tensor:
    """The image in another type, values scaled from the one's range (0..1 for floating point) to the other's."""
    if not isinstance(image, Tensor):
        raise TypeError(f"Input img should be Tensor Image. Got {type(image)}")
    if image.dtype == dtype:
        return image
    before, after = tensors.largest(image.dtype), tensors.largest(dtype)
    if image.is_floating_point():
        if dtype.is_floating_point:
            return image.to(dtype)
        wide = (image.dtype == torch.float32 and dtype in (torch.int32, torch.int64)) or (
            image.dtype == torch.float64 and dtype == torch.int64
        )
        if wide:
            raise RuntimeError(f"The cast from {image.dtype} to {dtype} cannot be performed safely")
        return image.mul(after + 1.0 - 1e-3).to(dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / before
    if before > after:
        return torch.div(image, (before + 1) // (after + 1), rounding_mode="floor").to(dtype)
    return image.to(dtype) * ((after + 1) // (before + 1))


def normalize(
    tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False
) -> Tensor:
    """(tensor - mean) / std for each channel of a floating-point image `[..., C, H, W]`."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"img should be Tensor Image. Got {type(tensor)}")
    if not tensor.is_floating_point():
        raise TypeError(f"Input tensor should be a float tensor. Got {tensor.dtype}.")
    if tensor.ndim < 3:
        raise ValueError(
            "Expected tensor to be a tensor image of size (..., C, H, W). Got tensor.size() = "
            f"{tensor.size()}"
        )
    if not inplace and (made := tensors.normalized(tensor, mean, std)) is not None:
        return made
    middle = torch.as_tensor(mean, dtype=tensor.dtype)
    deviation = torch.as_tensor(std, dtype=tensor.dtype)
    if (deviation == 0).any():
        raise ValueError(
            f"std evaluated to zero after conversion to {tensor.dtype}, division by zero"
        )
    if middle.ndim == 1:
        middle = middle.view(-1, 1, 1)
    if deviation.ndim == 1:
        deviation = deviation.view(-1, 1, 1)
    if inplace:
        return tensor.sub_(middle).div_(deviation)
    return (tensor - middle).div_(deviation)


# -- geometry --------------------------------------------------------------------------------------


def resized_to(img: Any, size: int | Sequence[int], max_size: int | None) -> list[int]:
    """The height and the width that `resize` gives the image."""
    _, h, w = get_dimensions(img)
    sizes = [size] if isinstance(size, int) else list(size)
    if len(sizes) == 1:
        short, long = sorted((w, h))
        new_short, new_long = sizes[0], int(sizes[0] * long / short)
        if max_size is not None:
            if max_size <= sizes[0]:
                raise ValueError(
                    f"max_size = {max_size} must be strictly greater than the requested size for the smaller "
                    f"edge size = {size}"
                )
            if new_long > max_size:
                new_short, new_long = int(max_size * new_short / new_long), max_size
        sizes = [new_long, new_short] if w <= h else [new_short, new_long]
    elif max_size is not None:
        raise ValueError(
            "max_size should only be passed if size specifies the length of the smaller edge"
        )
    return sizes


def resize(
    img: Any,
    size: int | Sequence[int],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
    max_size: int | None = None,
    antialias: bool | None = True,
) -> Any:
    """The image at `size`: (height, width), or one number for the shorter side (the longer at most `max_size`)."""
    mode = _mode(interpolation)
    sizes = resized_to(img, size, max_size)
    if get_dimensions(img)[1:] == sizes:
        return img
    if is_pil(img):
        return img.resize(tuple(sizes[::-1]), _PIL_MODES[mode])
    return tensors.resize(_tensor(img, "resize"), sizes, mode, antialias is not False)


def _sides(padding: int | Sequence[int]) -> list[int]:
    """Left, top, right, bottom."""
    given = [padding] if isinstance(padding, int) else list(padding)
    if len(given) not in (1, 2, 4):
        raise ValueError(
            f"Padding must be an int or a 1, 2, or 4 element tuple, not a {len(given)} element tuple"
        )
    return given * (4 // len(given))


def pad(
    img: Any, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant"
) -> Any:
    """The image with a border: one width, (left and right, top and bottom), or left, top, right, bottom.

    padding_mode: constant (`fill`, one value or one for each channel), edge, reflect, symmetric.
    """
    if padding_mode not in ("constant", "edge", "reflect", "symmetric"):
        raise ValueError("Padding mode should be either constant, edge, reflect or symmetric")
    sides = _sides(padding)
    if not is_pil(img):
        return tensors.pad(_tensor(img, "pad"), sides, fill, padding_mode)
    left, top, right, bottom = sides
    if padding_mode == "constant":
        return pillow("pad", "ImageOps").expand(img, border=tuple(sides), fill=_pil_fill(img, fill))
    array = np.asarray(img)
    widths = [(top, bottom), (left, right)] + [(0, 0)] * (array.ndim - 2)
    padded = pillow("pad").fromarray(np.pad(array, widths, mode=padding_mode))  # type: ignore[call-overload]
    if img.mode == "P":
        padded.putpalette(img.getpalette())
    return padded


def _pil_fill(img: Any, fill: Any) -> Any:
    bands = len(img.getbands())
    if isinstance(fill, list | tuple):
        if len(fill) not in (1, bands):
            raise ValueError(
                f"The number of elements in 'fill' does not match the number of channels of the image ({len(fill)} != "
                f"{bands})"
            )
        fill = tuple(fill) * bands if len(fill) == 1 else tuple(fill)
        fill = fill if bands > 1 else fill[0]
    elif bands > 1:
        fill = (fill or 0,) * bands
    if img.mode != "F":
        fill = tuple(int(v) for v in fill) if isinstance(fill, tuple) else int(fill or 0)
    return fill


def crop(img: Any, top: int, left: int, height: int, width: int) -> Any:
    """A window of the image; pixels outside of the image are zero."""
    if is_pil(img):
        return img.crop((left, top, left + width, top + height))
    return tensors.crop(_tensor(img, "crop"), top, left, height, width)


def _pair(size: int | Sequence[int]) -> tuple[int, int]:
    if isinstance(size, int):
        return size, size
    size = tuple(size)
    if len(size) == 1:
        return size[0], size[0]
    if len(size) != 2:
        raise ValueError("Please provide only two dimensions (h, w) for size.")
    return size


def center_crop(img: Any, output_size: int | Sequence[int]) -> Any:
    """The middle of the image; a smaller image is padded with zeros."""
    ch, cw = _pair(output_size)
    _, h, w = get_dimensions(img)
    if cw > w or ch > h:
        sides = [max(cw - w, 0) // 2, max(ch - h, 0) // 2]
        sides += [(max(cw - w, 0) + 1) // 2, (max(ch - h, 0) + 1) // 2]
        img = pad(img, sides)
        _, h, w = get_dimensions(img)
        if (cw, ch) == (w, h):
            return img
    return crop(img, round((h - ch) / 2.0), round((w - cw) / 2.0), ch, cw)


def resized_crop(
    img: Any, top: int, left: int, height: int, width: int, size: Sequence[int],
    interpolation: InterpolationMode | int = InterpolationMode.BILINEAR, antialias: bool | None = True,
) -> Any:  # fmt: skip
    """A window of the image, resized."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def hflip(img: Any) -> Any:
    """Flip the image left to right."""
    return img.transpose(0) if is_pil(img) else _tensor(img, "hflip").flip(-1)


def vflip(img: Any) -> Any:
    """Flip the image top to bottom."""
    return img.transpose(1) if is_pil(img) else _tensor(img, "vflip").flip(-2)


def five_crop(img: Any, size: int | Sequence[int]) -> tuple:
    """The corners (top left, top right, bottom left, bottom right) and the middle."""
    ch, cw = _pair(size)
    _, h, w = get_dimensions(img)
    if cw > w or ch > h:
        raise ValueError(f"Requested crop size {(ch, cw)} is bigger than input size {(h, w)}")
    corners = [(0, 0), (0, w - cw), (h - ch, 0), (h - ch, w - cw)]
    return (*(crop(img, top, left, ch, cw) for top, left in corners), center_crop(img, (ch, cw)))


def ten_crop(img: Any, size: int | Sequence[int], vertical_flip: bool = False) -> tuple:
    """`five_crop` of the image and of its mirror image."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


def rotate(
    img: Any,
    angle: float,
    interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
    expand: bool = False,
    center: Sequence[float] | None = None,
    fill: Any = None,
) -> Any:
    """The image turned counter-clockwise by `angle` degrees around `center` (x, y; None: the middle)."""
    mode = _mode(interpolation)
    if is_pil(img):
        return img.rotate(
            angle, _PIL_MODES[mode], expand, tuple(center) if center else None,
            fillcolor=_pil_fill(img, fill),
        )  # fmt: skip
    _, h, w = get_dimensions(_tensor(img, "rotate"))
    middle = [0.0, 0.0] if center is None else [center[0] - 0.5 * w, center[1] - 0.5 * h]
    matrix = tensors.angle_matrix(middle, -angle, [0.0, 0.0], 1.0, [0.0, 0.0])
    size = tensors.expanded(matrix, w, h) if expand else None
    return tensors.sample(img, matrix, mode, fill, size)


def affine(
    img: Any,
    angle: float,
    translate: Sequence[float],
    scale: float,
    shear: float | Sequence[float],
    interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
    fill: Any = None,
    center: Sequence[float] | None = None,
) -> Any:
    """The image turned clockwise by `angle`, sheared (degrees), scaled and moved by (x, y) pixels."""
    if scale <= 0.0:
        raise ValueError("Argument scale should be positive")
    slant = [float(shear), 0.0] if isinstance(shear, int | float) else [float(s) for s in shear]
    slant = [slant[0], slant[0]] if len(slant) == 1 else slant
    mode = _mode(interpolation)
    _, h, w = get_dimensions(img)
    if is_pil(img):
        middle = [w * 0.5, h * 0.5] if center is None else list(center)
        matrix = tensors.angle_matrix(middle, angle, translate, scale, slant)
        return img.transform(
            (w, h), 0, tuple(matrix), _PIL_MODES[mode], fillcolor=_pil_fill(img, fill)
        )
    middle = [0.0, 0.0] if center is None else [center[0] - w * 0.5, center[1] - h * 0.5]
    matrix = tensors.angle_matrix(middle, angle, [float(t) for t in translate], scale, slant)
    return tensors.sample(img, matrix, mode, fill)


def erase(img: Any, i: int, j: int, h: int, w: int, v: Tensor, inplace: bool = False) -> Tensor:
    """The tensor with the window at row i, column j replaced by `v`."""
    out = _tensor(img, "erase") if inplace else _tensor(img, "erase").clone()
    out[..., i : i + h, j : j + w] = v
    return out


# -- color -----------------------------------------------------------------------------------------


def _enhance(img: Any, kind: str, factor: float) -> Any:
    return getattr(pillow(kind, "ImageEnhance"), kind)(img).enhance(factor)


def _check_factor(name: str, factor: float) -> None:
    if factor < 0:
        raise ValueError(f"{name} ({factor}) is not non-negative.")


def adjust_brightness(img: Any, brightness_factor: float) -> Any:
    """Multiply the image by the factor: 0 gives black, 1 the image itself."""
    _check_factor("brightness_factor", brightness_factor)
    if is_pil(img):
        return _enhance(img, "Brightness", brightness_factor)
    img = _tensor(img, "adjust_brightness")
    return tensors.blend(img, torch.zeros_like(img), brightness_factor)


def adjust_contrast(img: Any, contrast_factor: float) -> Any:
    """Blend the image with its mean gray: 0 gives gray, 1 the image itself."""
    _check_factor("contrast_factor", contrast_factor)
    if is_pil(img):
        return _enhance(img, "Contrast", contrast_factor)
    return tensors.contrast(_tensor(img, "adjust_contrast"), contrast_factor)


def adjust_saturation(img: Any, saturation_factor: float) -> Any:
    """Blend the image with its gray version: 0 gives gray, 1 the image itself."""
    _check_factor("saturation_factor", saturation_factor)
    if is_pil(img):
        return _enhance(img, "Color", saturation_factor)
    img = _tensor(img, "adjust_saturation")
    if img.shape[-3] == 1:
        return img
    return tensors.blend(img, tensors.gray(img), saturation_factor)


def adjust_hue(img: Any, hue_factor: float) -> Any:
    """Rotate the hues by `hue_factor` (-0.5..0.5) of the color circle; gray images are returned as they are."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError(f"hue_factor ({hue_factor}) is not in [-0.5, 0.5].")
    if not is_pil(img):
        return tensors.hue(_tensor(img, "adjust_hue"), hue_factor)
    if img.mode in ("L", "1", "I", "F"):
        return img
    h, s, v = img.convert("HSV").split()
    turned = np.array(h, np.uint8) + np.int32(hue_factor * 255).astype(np.uint8)
    image = pillow("adjust_hue")
    return image.merge("HSV", (image.fromarray(turned), s, v)).convert(img.mode)


def adjust_gamma(img: Any, gamma: float, gain: float = 1) -> Any:
    """gain * image ** gamma, with values in 0..1."""
    _check_factor("gamma", gamma)
    if is_pil(img):
        table = [int((255 + 1 - 1e-3) * gain * pow(v / 255.0, gamma)) for v in range(256)]
        return img.convert("RGB").point(table * 3).convert(img.mode)
    img = _tensor(img, "adjust_gamma")
    whole = img if img.is_floating_point() else convert_image_dtype(img, torch.float32)
    return convert_image_dtype((gain * whole**gamma).clamp(0, 1), img.dtype)


def adjust_sharpness(img: Any, sharpness_factor: float) -> Any:
    """Sharpen the image: 0 gives a smoothed image, 1 the image itself, 2 a sharper one."""
    _check_factor("sharpness_factor", sharpness_factor)
    if is_pil(img):
        return _enhance(img, "Sharpness", sharpness_factor)
    return tensors.sharpness(_tensor(img, "adjust_sharpness"), sharpness_factor)


def to_grayscale(img: Any, num_output_channels: int = 1) -> Any:
    """A PIL image in gray, of one or three channels."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels should be either 1 or 3")
    if not is_pil(img):
        return tensors.gray(_tensor(img, "to_grayscale"), num_output_channels)
    gray = img.convert("L")
    return gray if num_output_channels == 1 else pillow("gray").merge("RGB", (gray,) * 3)


rgb_to_grayscale = to_grayscale


def _ops(img: Any, name: str, *arguments: Any) -> Any:
    return getattr(pillow(name, "ImageOps"), name)(img, *arguments)


def invert(img: Any) -> Any:
    """Invert the image: the maximum of the type minus each value."""
    if is_pil(img):
        return _ops(img, "invert")
    return tensors.largest(img.dtype) - _tensor(img, "invert")


def posterize(img: Any, bits: int) -> Any:
    """Keep only the highest `bits` bits of each uint8 value."""
    if is_pil(img):
        return _ops(img, "posterize", bits)
    return _tensor(img, "posterize") & -int(2 ** (8 - bits)) % 256


def solarize(img: Any, threshold: float) -> Any:
    """Invert all values at or above the threshold."""
    if is_pil(img):
        return _ops(img, "solarize", threshold)
    return torch.where(_tensor(img, "solarize") >= threshold, invert(img), img)


def autocontrast(img: Any) -> Any:
    """Stretch each channel to the whole range of the type."""
    if is_pil(img):
        return _ops(img, "autocontrast")
    return tensors.autocontrast(_tensor(img, "autocontrast"))


def equalize(img: Any) -> Any:
    """Equalize the histogram of each channel."""
    if is_pil(img):
        return _ops(img, "equalize")
    return tensors.equalize(_tensor(img, "equalize"))


def gaussian_blur(
    img: Any, kernel_size: int | Sequence[int], sigma: float | Sequence[float] | None = None
) -> Any:
    """The image blurred by a kernel of odd size (x, y); sigma None: 0.3 ((size - 1) / 2 - 1) + 0.8."""
    sizes = [kernel_size] * 2 if isinstance(kernel_size, int) else list(kernel_size)
    sizes = sizes * 2 if len(sizes) == 1 else sizes
    if any(k % 2 == 0 or k < 0 for k in sizes):
        raise ValueError(f"kernel_size should have odd and positive integers. Got {kernel_size}")
    if sigma is None:
        sigmas = [k * 0.15 + 0.35 for k in sizes]
    else:
        sigmas = [float(sigma)] * 2 if isinstance(sigma, int | float) else [float(s) for s in sigma]
        sigmas = sigmas * 2 if len(sigmas) == 1 else sigmas
    if any(not s > 0 or math.isinf(s) for s in sigmas):
        raise ValueError(f"sigma should have positive values. Got {sigma}")
    if is_pil(img):
        return to_pil_image(tensors.blur(pil_to_tensor(img), sizes, sigmas), mode=img.mode)
    return tensors.blur(_tensor(img, "gaussian_blur"), sizes, sigmas)
