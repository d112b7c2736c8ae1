"""Geometric transforms: resizing, cropping, flipping, rotating, erasing."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.vision.transforms import functional as F
from rushlight.vision.transforms.compose import Sometimes, Transform
from rushlight.vision.transforms.functional import InterpolationMode

__all__ = [
    "CenterCrop", "FiveCrop", "Pad", "RandomAffine", "RandomCrop", "RandomErasing",
    "RandomHorizontalFlip", "RandomResizedCrop", "RandomRotation", "RandomVerticalFlip", "Resize",
    "TenCrop",
]  # fmt: skip

_NEAREST, _BILINEAR = InterpolationMode.NEAREST, InterpolationMode.BILINEAR


def uniform(low: float, high: float) -> float:
    """One number, drawn as torchvision draws it."""
    return torch.empty(1).uniform_(float(low), float(high)).item()


def integer(end: int) -> int:
    """One of 0..end-1, drawn as torchvision draws it."""
    return int(torch.randint(0, end, size=(1,)).item())


class Resize(Transform):
    """The image at (height, width), or with the shorter side `size` (`functional.resize`)."""

    def __init__(
        self,
        size: int | Sequence[int],
        interpolation: InterpolationMode | int = _BILINEAR,
        max_size: int | None = None,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = size
        self.interpolation = interpolation
        self.max_size = max_size
        self.antialias = antialias

    def change(self, img: Any, drawn: Any) -> Any:
        return F.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class CenterCrop(Transform):
    """The middle of the image (`functional.center_crop`)."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = F._pair(size)

    def change(self, img: Any, drawn: Any) -> Any:
        return F.center_crop(img, self.size)


class Pad(Transform):
    """The image with a border (`functional.pad`)."""

    def __init__(
        self, padding: int | Sequence[int], fill: Any = 0, padding_mode: str = "constant"
    ) -> None:
        super().__init__()
        F._sides(padding)
        self.padding = padding
        self.fill = fill
        self.padding_mode = padding_mode

    def change(self, img: Any, drawn: Any) -> Any:
        return F.pad(img, self.padding, self.fill, self.padding_mode)


class RandomCrop(Transform):
    """A window at a random position; the image is padded first if `padding` is given.

    `pad_if_needed` widens smaller images; without, ValueError for those.
    """

    def __init__(
        self,
        size: int | Sequence[int],
        padding: int | Sequence[int] | None = None,
        pad_if_needed: bool = False,
        fill: Any = 0,
        padding_mode: str = "constant",
    ) -> None:
        super().__init__()
        self.size = F._pair(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    @staticmethod
    def get_params(img: Any, output_size: Sequence[int]) -> tuple[int, int, int, int]:
        """Top, left, height and width of a window."""
        _, h, w = F.get_dimensions(img)
        th, tw = output_size
        if h < th or w < tw:
            raise ValueError(
                f"Required crop size {(th, tw)} is larger than input image size {(h, w)}"
            )
        if (w, h) == (tw, th):
            return 0, 0, h, w
        return integer(h - th + 1), integer(w - tw + 1), th, tw

    def _padded(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, h, w = F.get_dimensions(img)
        if self.pad_if_needed and w < self.size[1]:
            img = F.pad(img, [self.size[1] - w, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and h < self.size[0]:
            img = F.pad(img, [0, self.size[0] - h], self.fill, self.padding_mode)
        return img

    def draw(self, img: Any) -> Any:
        return None  # the place depends on the padded image: see forward

    def forward(self, img: Any) -> Any:
        img = self._padded(img)
        return F.crop(img, *self.get_params(img, self.size))

    def extra_repr(self) -> str:
        return f"size={self.size}, padding={self.padding}"


class RandomHorizontalFlip(Sometimes):
    """Flip the image left to right with probability `p`."""

    def apply_to(self, img: Any) -> Any:
        return F.hflip(img)


class RandomVerticalFlip(Sometimes):
    """Flip the image top to bottom with probability `p`."""

    def apply_to(self, img: Any) -> Any:
        return F.vflip(img)


class RandomResizedCrop(Transform):
    """A window of random area (`scale`, of the whole) and shape (`ratio`, width by height), resized to `size`."""

    def __init__(
        self,
        size: int | Sequence[int],
        scale: Sequence[float] = (0.08, 1.0),
        ratio: Sequence[float] = (3.0 / 4.0, 4.0 / 3.0),
        interpolation: InterpolationMode | int = _BILINEAR,
        antialias: bool | None = True,
    ) -> None:
        super().__init__()
        self.size = F._pair(size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = interpolation
        self.antialias = antialias

    @staticmethod
    def get_params(
        img: Any, scale: Sequence[float], ratio: Sequence[float]
    ) -> tuple[int, int, int, int]:
        """Top, left, height and width: ten tries at random, then the middle at the nearest allowed shape."""
        _, height, width = F.get_dimensions(img)
        low, high = torch.log(torch.tensor(ratio)).tolist()
        for _ in range(10):
            area = height * width * uniform(scale[0], scale[1])
            aspect = torch.exp(torch.empty(1).uniform_(low, high)).item()
            w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if 0 < w <= width and 0 < h <= height:
                return integer(height - h + 1), integer(width - w + 1), h, w
        w, h = width, height
        if width / height < min(ratio):
            h = round(w / min(ratio))
        elif width / height > max(ratio):
            w = round(h * max(ratio))
        return (height - h) // 2, (width - w) // 2, h, w

    def draw(self, img: Any) -> tuple[int, int, int, int]:
        return self.get_params(img, self.scale, self.ratio)

    def extra_repr(self) -> str:
        scale, ratio = (tuple(round(v, 4) for v in pair) for pair in (self.scale, self.ratio))
        mode = F._mode(self.interpolation)
        return (
            f"size={self.size}, scale={scale}, ratio={ratio}, interpolation={mode}, "
            f"antialias={self.antialias}"
        )

    def change(self, img: Any, drawn: tuple[int, int, int, int]) -> Any:
        return F.resized_crop(img, *drawn, self.size, self.interpolation, self.antialias)


def _range(value: float | Sequence[float], name: str) -> list[float]:
    if isinstance(value, int | float):
        if value < 0:
            raise ValueError(f"If {name} is a single number, it must be positive.")
        return [-float(value), float(value)]
    if len(value) not in (2, 4):
        raise ValueError(f"{name} should be a sequence of length 2, got {value}")
    return [float(v) for v in value]


def _fill(img: Any, fill: Any) -> Any:
    if not isinstance(img, torch.Tensor):
        return fill
    values = fill if isinstance(fill, list | tuple) else [fill] * F.get_dimensions(img)[0]
    return [float(v) for v in values]


class RandomRotation(Transform):
    """Rotate the image by a random angle from `degrees` (a, b), or (-d, d)."""

    def __init__(
        self,
        degrees: float | Sequence[float],
        interpolation: InterpolationMode | int = _NEAREST,
        expand: bool = False,
        center: Sequence[float] | None = None,
        fill: Any = 0,
    ) -> None:
        super().__init__()
        self.degrees = _range(degrees, "degrees")
        self.interpolation = interpolation
        self.expand = expand
        self.center = center
        self.fill = 0 if fill is None else fill

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        """The angle."""
        return uniform(degrees[0], degrees[1])

    def draw(self, img: Any) -> float:
        return self.get_params(self.degrees)

    def change(self, img: Any, drawn: float) -> Any:
        fill = _fill(img, self.fill)
        return F.rotate(img, drawn, self.interpolation, self.expand, self.center, fill)


class RandomAffine(Transform):
    """A random affine map: rotation, translation up to `translate` of the size, scale and shear (degrees)."""

    def __init__(
        self,
        degrees: float | Sequence[float],
        translate: Sequence[float] | None = None,
        scale: Sequence[float] | None = None,
        shear: float | Sequence[float] | None = None,
        interpolation: InterpolationMode | int = _NEAREST,
        fill: Any = 0,
        center: Sequence[float] | None = None,
    ) -> None:
        super().__init__()
        self.degrees = _range(degrees, "degrees")
        if translate is not None and not all(0.0 <= t <= 1.0 for t in translate):
            raise ValueError("translation values should be between 0 and 1")
        if scale is not None and not all(s > 0 for s in scale):
            raise ValueError("scale values should be positive")
        self.translate = translate
        self.scale = scale
        self.shear = None if shear is None else _range(shear, "shear")
        self.interpolation = interpolation
        self.fill = 0 if fill is None else fill
        self.center = center

    @staticmethod
    def get_params(
        degrees: Sequence[float],
        translate: Sequence[float] | None,
        scale_ranges: Sequence[float] | None,
        shears: Sequence[float] | None,
        img_size: Sequence[int],
    ) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """Angle, translation, scale and shear for an image of (width, height)."""
        angle = uniform(degrees[0], degrees[1])
        moved = (0, 0)
        if translate is not None:
            dx, dy = (float(t * n) for t, n in zip(translate, img_size, strict=True))
            moved = (round(uniform(-dx, dx)), round(uniform(-dy, dy)))
        scale = 1.0 if scale_ranges is None else uniform(scale_ranges[0], scale_ranges[1])
        x = y = 0.0
        if shears is not None:
            x = uniform(shears[0], shears[1])
            if len(shears) == 4:
                y = uniform(shears[2], shears[3])
        return angle, moved, scale, (x, y)

    def draw(self, img: Any) -> Any:
        size = F.get_image_size(img)
        return self.get_params(self.degrees, self.translate, self.scale, self.shear, size)

    def change(self, img: Any, drawn: Any) -> Any:
        fill = _fill(img, self.fill)
        angle, moved, scale, shear = drawn
        return F.affine(img, angle, moved, scale, shear, self.interpolation, fill, self.center)


class FiveCrop(Transform):
    """Four corners and the middle, as a tuple."""

    def __init__(self, size: int | Sequence[int]) -> None:
        super().__init__()
        self.size = F._pair(size)

    def change(self, img: Any, drawn: Any) -> tuple:
        return F.five_crop(img, self.size)


class TenCrop(Transform):
    """`FiveCrop` of the image and of its mirror image, as a tuple."""

    def __init__(self, size: int | Sequence[int], vertical_flip: bool = False) -> None:
        super().__init__()
        self.size = F._pair(size)
        self.vertical_flip = vertical_flip

    def change(self, img: Any, drawn: Any) -> tuple:
        return F.ten_crop(img, self.size, self.vertical_flip)


class RandomErasing(Transform):
    """With probability `p`, a random window of a tensor is replaced by `value`, or noise for "random" (Zhong 2017)."""

    def __init__(
        self,
        p: float = 0.5,
        scale: Sequence[float] = (0.02, 0.33),
        ratio: Sequence[float] = (0.3, 3.3),
        value: float | Sequence[float] | str = 0,
        inplace: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(value, str) and value != "random":
            raise ValueError("If value is str, it should be 'random'")
        if not (scale[0] >= 0 and scale[1] <= 1):
            raise ValueError("Scale should be between 0 and 1")
        if not 0 <= p <= 1:
            raise ValueError("Random erasing probability should be between 0 and 1")
        self.p = p
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    @staticmethod
    def get_params(
        img: torch.Tensor,
        scale: Sequence[float],
        ratio: Sequence[float],
        value: Sequence[float] | None = None,
    ) -> tuple:
        """Top, left, height, width and the values to write; the whole image after ten failed tries."""
        channels, height, width = img.shape[-3:]
        low, high = torch.log(torch.tensor(ratio)).tolist()
        for _ in range(10):
            area = height * width * uniform(scale[0], scale[1])
            aspect = torch.exp(torch.empty(1).uniform_(low, high)).item()
            h, w = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
            if not (h < height and w < width):
                continue
            if value is None:
                v = torch.empty([channels, h, w], dtype=torch.float32).normal_()
            else:
                v = torch.tensor(value)[:, None, None]
            return integer(height - h + 1), integer(width - w + 1), h, w, v
        return 0, 0, height, width, img

    def draw(self, img: torch.Tensor) -> tuple | None:
        if not torch.rand(1) < self.p:
            return None
        value = None
        if isinstance(self.value, int | float):
            value = [float(self.value)]
        elif not isinstance(self.value, str):
            value = [float(v) for v in self.value]
            if len(value) not in (1, img.shape[-3]):
                raise ValueError(
                    "If value is a sequence, it should have either a single value or "
                    f"{img.shape[-3]} (number of input channels), got {len(value)}"
                )
        return self.get_params(img, self.scale, self.ratio, value)

    def change(self, img: torch.Tensor, drawn: tuple | None) -> torch.Tensor:
        if drawn is None:
            return img
        i, j, h, w, value = drawn
        return F.erase(img, i, j, h, w, value, self.inplace)
