"""Transforms of color and of sharpness."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.vision.transforms import functional as F
from rushlight.vision.transforms.compose import Sometimes, Transform
from rushlight.vision.transforms.geometry import uniform

__all__ = [
    "ColorJitter", "GaussianBlur", "Grayscale", "RandomAdjustSharpness", "RandomAutocontrast",
    "RandomEqualize", "RandomGrayscale", "RandomInvert", "RandomPosterize", "RandomSolarize",
]  # fmt: skip


class ColorJitter(Transform):
    """Change brightness, contrast, saturation and hue at random, in random order.

    A number b means the range (1 - b, 1 + b) of factors, for the hue (-b, b); a pair is the range itself.
    """

    def __init__(
        self,
        brightness: float | Sequence[float] = 0,
        contrast: float | Sequence[float] = 0,
        saturation: float | Sequence[float] = 0,
        hue: float | Sequence[float] = 0,
    ) -> None:
        super().__init__()
        self.brightness = self._range(brightness, "brightness")
        self.contrast = self._range(contrast, "contrast")
        self.saturation = self._range(saturation, "saturation")
        self.hue = self._range(hue, "hue", 0.0, (-0.5, 0.5))

    @staticmethod
    def _range(
        value: float | Sequence[float],
        name: str,
        center: float = 1.0,
        bound: tuple[float, float] = (0.0, float("inf")),
    ) -> tuple[float, float] | None:
        if isinstance(value, int | float):
            if value < 0:
                raise ValueError(f"If {name} is a single number, it must be non negative.")
            low, high = center - float(value), center + float(value)
            low = max(low, 0.0) if center else low
        else:
            low, high = (float(v) for v in value)
        if not bound[0] <= low <= high <= bound[1]:
            raise ValueError(f"{name} values should be between {bound}, but got {[low, high]}.")
        return None if low == high == center else (low, high)

    @staticmethod
    def get_params(
        brightness: Sequence[float] | None,
        contrast: Sequence[float] | None,
        saturation: Sequence[float] | None,
        hue: Sequence[float] | None,
    ) -> tuple:
        """The order of the four changes and their factors; None for no change."""
        order = torch.randperm(4)
        ranges = (brightness, contrast, saturation, hue)
        return (order, *(None if r is None else uniform(r[0], r[1]) for r in ranges))

    def draw(self, img: Any) -> tuple:
        return self.get_params(self.brightness, self.contrast, self.saturation, self.hue)

    def change(self, img: Any, drawn: tuple) -> Any:
        order, *factors = drawn
        functions = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for i in order.tolist():
            if factors[i] is not None:
                img = functions[i](img, factors[i])
        return img


class Grayscale(Transform):
    """The image in gray, of one or three channels."""

    def __init__(self, num_output_channels: int = 1) -> None:
        super().__init__()
        self.num_output_channels = num_output_channels

    def change(self, img: Any, drawn: Any) -> Any:
        return F.to_grayscale(img, self.num_output_channels)


class RandomGrayscale(Sometimes):
    """Convert to gray, with the same number of channels, with probability `p`."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def apply_to(self, img: Any) -> Any:
        return F.to_grayscale(img, F.get_dimensions(img)[0])


class RandomInvert(Sometimes):
    """Invert the image with probability `p`."""

    def apply_to(self, img: Any) -> Any:
        return F.invert(img)


class RandomAutocontrast(Sometimes):
    """Stretch each channel to the whole range with probability `p`."""

    def apply_to(self, img: Any) -> Any:
        return F.autocontrast(img)


class RandomEqualize(Sometimes):
    """Equalize the histogram with probability `p`."""

    def apply_to(self, img: Any) -> Any:
        return F.equalize(img)


class RandomPosterize(Sometimes):
    """Keep only `bits` bits of each value with probability `p`."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def apply_to(self, img: Any) -> Any:
        return F.posterize(img, self.bits)


class RandomSolarize(Sometimes):
    """Invert all values at or above `threshold` with probability `p`."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def apply_to(self, img: Any) -> Any:
        return F.solarize(img, self.threshold)


class RandomAdjustSharpness(Sometimes):
    """Sharpen (or smooth) by `sharpness_factor` with probability `p`."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def apply_to(self, img: Any) -> Any:
        return F.adjust_sharpness(img, self.sharpness_factor)


class GaussianBlur(Transform):
    """Blur by a Gaussian whose `sigma` is fixed or drawn from a range."""

    def __init__(
        self, kernel_size: int | Sequence[int], sigma: float | Sequence[float] = (0.1, 2.0)
    ) -> None:
        super().__init__()
        self.kernel_size = F._pair(kernel_size)
        if any(k <= 0 or k % 2 == 0 for k in self.kernel_size):
            raise ValueError("Kernel size value should be an odd and positive number.")
        self.sigma = (sigma, sigma) if isinstance(sigma, int | float) else tuple(sigma)
        if not 0.0 < self.sigma[0] <= self.sigma[1]:
            raise ValueError(
                f"sigma values should be positive and of the form (min, max). Got {sigma}"
            )

    @staticmethod
    def get_params(sigma_min: float, sigma_max: float) -> float:
        """The sigma."""
        return uniform(sigma_min, sigma_max)

    def draw(self, img: Any) -> float:
        return self.get_params(*self.sigma)

    def change(self, img: Any, drawn: float) -> Any:
        return F.gaussian_blur(img, self.kernel_size, [drawn, drawn])
