"""The names of `transforms.v2`: the same transforms, which also take samples of several parts.

A transform can be called on several arguments, or on a tuple, list or dictionary. It changes all images in it with the
same random numbers and returns the rest unchanged. The images are all PIL images, or else the first tensor.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight as torch
from rushlight.vision.pillow import is_pil
from rushlight.vision.transforms import color, compose, geometry, mixing, policies
from rushlight.vision.transforms.functional import InterpolationMode
from rushlight.vision.transforms.v2 import functional

__all__ = [
    "Compose", "Identity", "InterpolationMode", "RandomApply", "RandomChoice", "ToDtype", "ToImage",
    "functional",
]  # fmt: skip


def _over(sample: Any, images: list, change: Any) -> Any:
    """The sample with `change(part)` for each part that `images` holds."""
    if isinstance(sample, dict):
        return type(sample)((k, _over(v, images, change)) for k, v in sample.items())
    if isinstance(sample, tuple) and hasattr(sample, "_fields"):
        return type(sample)(*(_over(v, images, change) for v in sample))
    if isinstance(sample, list | tuple):
        return type(sample)(_over(v, images, change) for v in sample)
    return change(sample) if any(sample is each for each in images) else sample


def _leaves(sample: Any) -> list:
    if isinstance(sample, dict):
        return [leaf for v in sample.values() for leaf in _leaves(v)]
    if isinstance(sample, list | tuple):
        return [leaf for v in sample for leaf in _leaves(v)]
    return [sample]


def _images(sample: Any) -> list:
    leaves = _leaves(sample)
    pictures = [leaf for leaf in leaves if is_pil(leaf)]
    return pictures or [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)][:1]


class _Joint:
    """Mixed into a transform of one image: its `forward` takes samples."""

    def forward(self, *inputs: Any) -> Any:
        """The sample with its images changed."""
        sample = inputs if len(inputs) > 1 else inputs[0]
        images = _images(sample)
        if not images:
            return sample
        drawn = self.draw(images[0])  # type: ignore[attr-defined]
        return _over(sample, images, lambda image: self.change(image, drawn))  # type: ignore[attr-defined]


for _file in (compose, geometry, color, policies):
    for _name in _file.__all__:
        _plain = getattr(_file, _name)
        if isinstance(_plain, type) and issubclass(_plain, compose.Transform):
            globals()[_name] = type(
                _name, (_Joint, _plain), {"__doc__": _plain.__doc__, "__module__": __name__}
            )
            __all__.append(_name)


class RandomCrop(_Joint, geometry.RandomCrop):  # type: ignore[no-redef]
    """A window at a random position; the image is padded first if `padding` is given."""

    def draw(self, img: Any) -> tuple[int, int, int, int]:
        # Unlike the older class, draws nothing for a side that fits already.
        _, h, w = functional.get_dimensions(self._padded(img))
        th, tw = self.size
        if h < th or w < tw:
            raise ValueError(
                f"Required crop size {(th, tw)} is larger than padded input image size {(h, w)}."
            )
        top = geometry.integer(h - th + 1) if h > th else 0
        return top, geometry.integer(w - tw + 1) if w > tw else 0, th, tw

    def change(self, img: Any, drawn: tuple[int, int, int, int]) -> Any:
        return functional.crop(self._padded(img), *drawn)


class Resize(_Joint, geometry.Resize):  # type: ignore[no-redef]
    """The image at (height, width), or with the shorter side `size` (`functional.resize`)."""

    def change(self, img: Any, drawn: Any) -> Any:
        return functional.resize(img, self.size, self.interpolation, self.max_size, self.antialias)


class RandomResizedCrop(_Joint, geometry.RandomResizedCrop):  # type: ignore[no-redef]
    """A window of random area and shape, at `size`."""

    def change(self, img: Any, drawn: tuple[int, int, int, int]) -> Any:
        return functional.resized_crop(img, *drawn, self.size, self.interpolation, self.antialias)


class _Whole(compose.Transform):
    """The base of transforms that draw no random numbers."""


class ToImage(_Joint, _Whole):
    """PIL images and arrays `[H, W, C]` to tensors `[C, H, W]` of the same type."""

    def change(self, img: Any, drawn: Any) -> Any:
        return functional.to_image(img)

    def forward(self, *inputs: Any) -> Any:
        if len(inputs) == 1 and isinstance(inputs[0], np.ndarray):
            return functional.to_image(inputs[0])
        return super().forward(*inputs)


class ToDtype(_Joint, _Whole):
    """The type changed; with `scale`, values scaled to its range."""

    def __init__(self, dtype: Any, scale: bool = False) -> None:
        super().__init__()
        self.dtype = dtype
        self.scale = scale

    def change(self, img: Any, drawn: Any) -> Any:
        if not isinstance(img, torch.Tensor):
            return img
        return functional.to_dtype(img, self.dtype, self.scale)


class ToTensor(_Joint, _Whole):
    """PIL images to floats 0..1; torchvision advises ToImage and ToDtype(torch.float32, scale=True)."""

    def change(self, img: Any, drawn: Any) -> Any:
        return img if isinstance(img, torch.Tensor) else functional.to_tensor(img)


class PILToTensor(ToImage):
    """PIL images to tensors of the same type."""


class ToPILImage(_Joint, _Whole):
    """Tensors to PIL images."""

    def __init__(self, mode: str | None = None) -> None:
        super().__init__()
        self.mode = mode

    def change(self, img: Any, drawn: Any) -> Any:
        return img if is_pil(img) else functional.to_pil_image(img, self.mode)


class Identity(_Joint, _Whole):
    """The sample as it is."""

    def change(self, img: Any, drawn: Any) -> Any:
        return img


class Compose(compose.Compose):
    """Transforms one after the other, of samples of several parts."""

    def __call__(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        for t in self.transforms:
            sample = t(*sample) if len(inputs) > 1 else t(sample)
        return sample


class RandomApply(compose.RandomApply):
    """All the transforms with probability `p`, else none."""

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        if torch.rand(1) >= self.p:
            return sample
        return Compose(self.transforms)(*inputs)


class RandomChoice(compose.RandomChoice):
    """One of the transforms, by the weights `p` of `torch.multinomial`."""

    def __call__(self, *inputs: Any) -> Any:
        weights = torch.tensor(self.p if self.p is not None else [1.0] * len(self.transforms))
        return self.transforms[int(torch.multinomial(weights / weights.sum(), 1))](*inputs)


class Lambda(_Joint, _Whole):
    """Any function, of every part of a sample that is an image."""

    def __init__(self, lambd: Any, *types: type) -> None:
        super().__init__()
        self.lambd = lambd
        self.types = types or (object,)

    def forward(self, *inputs: Any) -> Any:
        sample = inputs if len(inputs) > 1 else inputs[0]
        chosen = [leaf for leaf in _leaves(sample) if isinstance(leaf, self.types)]
        return _over(sample, chosen, self.lambd)


CutMix, MixUp = mixing.CutMix, mixing.MixUp
ConvertDtype = ConvertImageDtype  # type: ignore[name-defined]  # noqa: F821
__all__ += ["ConvertDtype", "CutMix", "MixUp", "Lambda", "PILToTensor", "ToPILImage", "ToTensor"]
