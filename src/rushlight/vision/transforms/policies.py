"""Augmentation by one or a few operations of a table, at random."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight as torch
from rushlight.vision.transforms import functional as F
from rushlight.vision.transforms.compose import Transform
from rushlight.vision.transforms.functional import InterpolationMode
from rushlight.vision.transforms.geometry import _fill, integer

__all__ = ["RandAugment", "TrivialAugmentWide"]


def _apply(img: Any, name: str, size: float, mode: InterpolationMode | int, fill: Any) -> Any:
    """The operation `name` of strength `size`."""
    if name in ("ShearX", "ShearY"):
        slant = math.degrees(math.atan(size))
        shear = [slant, 0.0] if name == "ShearX" else [0.0, slant]
        return F.affine(img, 0.0, [0, 0], 1.0, shear, mode, fill, center=[0, 0])
    if name in ("TranslateX", "TranslateY"):
        moved = [int(size), 0] if name == "TranslateX" else [0, int(size)]
        return F.affine(img, 0.0, moved, 1.0, [0.0, 0.0], mode, fill)
    if name == "Rotate":
        return F.rotate(img, size, mode, fill=fill)
    if name in _FACTORS:
        return _FACTORS[name](img, 1.0 + size)
    if name == "Posterize":
        return F.posterize(img, int(size))
    if name == "Solarize":
        return F.solarize(img, size)
    return {"AutoContrast": F.autocontrast, "Equalize": F.equalize}.get(name, lambda x: x)(img)


_FACTORS = {
    "Brightness": F.adjust_brightness,
    "Color": F.adjust_saturation,
    "Contrast": F.adjust_contrast,
    "Sharpness": F.adjust_sharpness,
}


class _Policy(Transform):
    """Operations on uint8 tensors and PIL images, with strengths in `num_magnitude_bins` steps."""

    # the largest shear, rotation, change of colour, and how many bits posterizing takes at most
    limits: tuple[float, float, float, int]

    def __init__(
        self,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__()
        self.num_magnitude_bins = num_magnitude_bins
        self.interpolation = interpolation
        self.fill = fill

    def _moves(self, height: int, width: int) -> tuple[float, float]:
        raise NotImplementedError

    def _table(self, height: int, width: int) -> list[tuple[str, Any, bool]]:
        """(operation, its strengths or None, whether they may be negative), in torchvision's order."""
        bins = self.num_magnitude_bins
        shear, turn, colour, bits = self.limits
        dx, dy = self._moves(height, width)
        rows: list[tuple[str, Any, bool]] = [("Identity", None, False)]
        signed: tuple[tuple[str, float], ...] = (("ShearX", shear), ("ShearY", shear), ("TranslateX", dx), ("TranslateY", dy), ("Rotate", turn))  # fmt: skip
        signed += tuple((name, colour) for name in ("Brightness", "Color", "Contrast", "Sharpness"))
        rows += [(name, torch.linspace(0.0, most, bins), True) for name, most in signed]
        steps = 8 - (torch.arange(bins) / ((bins - 1) / bits)).round().int()
        rows += [
            ("Posterize", steps, False),
            ("Solarize", torch.linspace(255.0, 0.0, bins), False),
            ("AutoContrast", None, False),
            ("Equalize", None, False),
        ]
        return rows

    def _strength(self, sizes: Any) -> float:
        raise NotImplementedError

    def _one(self, table: list[tuple[str, Any, bool]]) -> tuple[str, float]:
        name, sizes, signed = table[integer(len(table))]
        size = 0.0 if sizes is None else self._strength(sizes)
        if signed and torch.randint(2, (1,)):
            size = -size
        return name, size

    def draw(self, img: Any) -> Sequence[tuple[str, float]]:
        _, height, width = F.get_dimensions(img)
        return [self._one(self._table(height, width))]

    def change(self, img: Any, drawn: Sequence[tuple[str, float]]) -> Any:
        fill = None if self.fill is None else _fill(img, self.fill)
        for name, size in drawn:
            img = _apply(img, name, size, self.interpolation, fill)
        return img


class RandAugment(_Policy):
    """`num_ops` operations of strength `magnitude`, one after the other (Cubuk 2019)."""

    limits = (0.3, 30.0, 0.9, 4)

    def __init__(
        self,
        num_ops: int = 2,
        magnitude: int = 9,
        num_magnitude_bins: int = 31,
        interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
        fill: Any = None,
    ) -> None:
        super().__init__(num_magnitude_bins, interpolation, fill)
        self.num_ops = num_ops
        self.magnitude = magnitude

    def _moves(self, height: int, width: int) -> tuple[float, float]:
        return 150.0 / 331.0 * width, 150.0 / 331.0 * height

    def _strength(self, sizes: Any) -> float:
        return float(sizes[self.magnitude])

    def draw(self, img: Any) -> Sequence[tuple[str, float]]:
        _, height, width = F.get_dimensions(img)
        return [self._one(self._table(height, width)) for _ in range(self.num_ops)]


class TrivialAugmentWide(_Policy):
    """One operation of random strength (Müller 2021)."""

    limits = (0.99, 135.0, 0.99, 6)

    def _moves(self, height: int, width: int) -> tuple[float, float]:
        return 32.0, 32.0

    def _strength(self, sizes: Any) -> float:
        return float(sizes[integer(len(sizes))])
