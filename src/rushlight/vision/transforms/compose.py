"""The base class of transforms, compositions of transforms, and conversions between images and tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight as torch
from rushlight import nn
from rushlight.vision.transforms import functional as F

__all__ = [
    "Compose", "ConvertImageDtype", "Lambda", "Normalize", "PILToTensor", "RandomApply",
    "RandomChoice", "RandomOrder", "ToPILImage", "ToTensor",
]  # fmt: skip


class Transform(nn.Module):
    """A transform in two steps: `draw` makes the random numbers, `change` uses them on an image.

    So the same numbers can change several images (`transforms.v2`).
    """

    def draw(self, img: Any) -> Any:
        """Draw the random numbers that `change` needs."""
        return None

    def change(self, img: Any, drawn: Any) -> Any:
        """The image, transformed with the drawn numbers."""
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        """The image, transformed with newly drawn numbers."""
        return self.change(img, self.draw(img))

    def extra_repr(self) -> str:
        """The public attributes that are set, as arguments."""
        shown = {
            k: v
            for k, v in vars(self).items()
            if not (k.startswith("_") or k == "training" or (k == "center" and v is None))
        }
        return ", ".join(
            f"{k}={v.value if isinstance(v, F.InterpolationMode) else v}" for k, v in shown.items()
        )


class Sometimes(Transform):
    """The base of transforms that are applied with probability `p`."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = p

    def draw(self, img: Any) -> bool:
        return bool(torch.rand(1) < self.p)

    def change(self, img: Any, drawn: bool) -> Any:
        return self.apply_to(img) if drawn else img

    def apply_to(self, img: Any) -> Any:
        """The change."""
        raise NotImplementedError


class Compose:
    """Apply transforms one after the other.

    >>> import numpy as np
    >>> Compose([ToTensor(), Normalize([0.5], [0.5])])(np.array([[0, 255]], np.uint8))
    tensor([[[-1.,  1.]]])
    """

    def __init__(self, transforms: Sequence[Callable]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        for t in self.transforms:
            img = t(img)
        return img

    def __repr__(self) -> str:
        return "\n".join([type(self).__name__ + "(", *(f"    {t}" for t in self.transforms), ")"])


class ToTensor:
    """PIL image or array `[H, W, C]` of uint8 to floats 0..1 `[C, H, W]` (`functional.to_tensor`)."""

    def __call__(self, pic: Any) -> torch.Tensor:
        return F.to_tensor(pic)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class PILToTensor(ToTensor):
    """PIL image to a tensor `[C, H, W]` of the same type (`functional.pil_to_tensor`)."""

    def __call__(self, pic: Any) -> torch.Tensor:
        return F.pil_to_tensor(pic)


class ToPILImage:
    """Tensor or array to a PIL image (`functional.to_pil_image`)."""

    def __init__(self, mode: str | None = None) -> None:
        self.mode = mode

    def __call__(self, pic: Any) -> Any:
        return F.to_pil_image(pic, self.mode)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({'' if self.mode is None else f'mode={self.mode}'})"


class ConvertImageDtype(Transform):
    """The type changed, and values scaled to its range (`functional.convert_image_dtype`)."""

    def __init__(self, dtype: Any) -> None:
        super().__init__()
        self.dtype = dtype

    def change(self, img: Any, drawn: Any) -> Any:
        return F.convert_image_dtype(img, self.dtype)


class Normalize(Transform):
    """(image - mean) / std, by channel (`functional.normalize`)."""

    def __init__(self, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> None:
        super().__init__()
        self.mean = mean
        self.std = std
        self.inplace = inplace

    def change(self, img: Any, drawn: Any) -> Any:
        return F.normalize(img, self.mean, self.std, self.inplace)

    def extra_repr(self) -> str:
        return f"mean={self.mean}, std={self.std}"


class Lambda:
    """Any function as a transform; TypeError when it is none."""

    def __init__(self, lambd: Callable) -> None:
        if not callable(lambd):
            raise TypeError(f"Argument lambd should be callable, got {type(lambd).__name__!r}")
        self.lambd = lambd

    def __call__(self, img: Any) -> Any:
        return self.lambd(img)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class RandomApply(nn.Module):
    """All the transforms with probability `p`, else none."""

    def __init__(self, transforms: Sequence[Callable], p: float = 0.5) -> None:
        super().__init__()
        self.transforms = transforms
        self.p = p

    def forward(self, img: Any) -> Any:
        if self.p < torch.rand(1):
            return img
        for t in self.transforms:
            img = t(img)
        return img

    def extra_repr(self) -> str:
        return "\n".join([f"p={self.p}", *(f"{t}" for t in self.transforms)])


class RandomChoice:
    """One of the transforms, by the weights `p`; drawn from the module `random`, as in torchvision."""

    def __init__(self, transforms: Sequence[Callable], p: Sequence[float] | None = None) -> None:
        self.transforms = transforms
        self.p = p

    def __call__(self, *inputs: Any) -> Any:
        import random

        return random.choices(self.transforms, weights=self.p)[0](*inputs)

    def __repr__(self) -> str:
        inner = "".join(f"\n    {t}" for t in self.transforms)
        return f"{type(self).__name__}({inner}\n)(p={self.p})"


class RandomOrder:
    """All of the transforms in an order drawn from the module `random`, as in torchvision."""

    def __init__(self, transforms: Sequence[Callable]) -> None:
        self.transforms = transforms

    def __call__(self, img: Any) -> Any:
        import random

        order = list(range(len(self.transforms)))
        random.shuffle(order)
        for i in order:
            img = self.transforms[i](img)
        return img

    def __repr__(self) -> str:
        return f"{type(self).__name__}({''.join(f'{chr(10)}    {t}' for t in self.transforms)}\n)"
