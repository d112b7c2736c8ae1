"""Mixing a batch of images and labels with the same batch shifted by one sample."""

from __future__ import annotations

import math
from typing import Any

import rushlight as torch
from rushlight import nn

__all__ = ["CutMix", "MixUp"]


class _Mixed(nn.Module):
    def __init__(self, *, alpha: float = 1.0, num_classes: int | None = None) -> None:
        super().__init__()
        from rushlight.distributions import Beta

        self.alpha = float(alpha)
        self.num_classes = num_classes
        self._dist = Beta(torch.tensor([self.alpha]), torch.tensor([self.alpha]))

    def _labels(self, labels: torch.Tensor, share: float) -> torch.Tensor:
        if labels.ndim == 1:
            if self.num_classes is None:
                raise ValueError("num_classes must be passed if the labels are index-based (int)")
            labels = nn.functional.one_hot(labels, self.num_classes)
        labels = labels.float()
        return labels.roll(1, 0).mul_(1.0 - share).add_(labels.mul(share))

    def forward(self, images: Any, labels: torch.Tensor | None = None) -> tuple:
        """(images mixed, labels as shares `[N, num_classes]`), from a batch, or from two arguments."""
        if labels is None:
            images, labels = images
        if images.ndim != 4 or len(images) != len(labels):
            raise ValueError(
                f"[{type(self).__name__}] Expected a batch of images [N, C, H, W] and N labels, got shapes "
                f"{tuple(images.shape)} and {tuple(labels.shape)}"
            )
        images, share = self._mix(images, float(self._dist.sample(())))
        return images, self._labels(labels, share)

    def _mix(self, images: torch.Tensor, share: float) -> tuple[torch.Tensor, float]:
        raise NotImplementedError

    def extra_repr(self) -> str:
        return f"alpha={self.alpha}, num_classes={self.num_classes}"


class MixUp(_Mixed):
    """Each image is the weighted mean with its neighbour, by a share from Beta(alpha, alpha) (Zhang 2017)."""

    def _mix(self, images: torch.Tensor, share: float) -> tuple[torch.Tensor, float]:
        return images.roll(1, 0).mul_(1.0 - share).add_(images.mul(share)), share


class CutMix(_Mixed):
    """A window of each image comes from its neighbour; its area is a share from Beta(alpha, alpha) (Yun 2019)."""

    def _mix(self, images: torch.Tensor, share: float) -> tuple[torch.Tensor, float]:
        h, w = images.shape[-2:]
        x, y = (int(torch.randint(n, size=(1,))) for n in (w, h))
        half = 0.5 * math.sqrt(1.0 - share)
        left, right = max(x - int(half * w), 0), min(x + int(half * w), w)
        top, bottom = max(y - int(half * h), 0), min(y + int(half * h), h)
        out = images.clone()
        out[..., top:bottom, left:right] = images.roll(1, 0)[..., top:bottom, left:right]
        return out, 1.0 - (right - left) * (bottom - top) / (w * h)
