"""Dropout: random zeros while training, nothing in evaluation."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.nn import functional as F
from rushlight.nn.module import Module

__all__ = ["AlphaDropout", "Dropout", "Dropout1d", "Dropout2d", "Dropout3d", "FeatureAlphaDropout"]


class _Dropout(Module):
    __constants__ = ["p", "inplace"]
    p: float
    inplace: bool
    _function: Any = None
    _shown = ("p", "inplace")

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if p < 0 or p > 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, self.p, self.training, self.inplace)


_DropoutNd = _Dropout


class Dropout(_Dropout):
    """Zeros at random: in training each element is zero with probability p, else scaled by 1 / (1 - p) (Hinton 2012).

    >>> import rushlight as torch
    >>> torch.nn.Dropout(0.5).eval()(torch.ones(3))
    tensor([1., 1., 1.])
    """

    _function = "dropout"


class Dropout1d(_Dropout):
    """Dropout of whole channels of [N, C, L] or [C, L]."""

    _function = "dropout1d"


class Dropout2d(_Dropout):
    """Dropout of whole channels of [N, C, H, W]."""

    _function = "dropout2d"


class Dropout3d(_Dropout):
    """Dropout of whole channels of [N, C, D, H, W] or [C, D, H, W]."""

    _function = "dropout3d"


class AlphaDropout(_Dropout):
    """Dropout that keeps the mean and the variance of SELU's outputs (Klambauer 2017)."""

    def forward(self, input: Tensor) -> Tensor:
        return F.alpha_dropout(input, self.p, self.training)


class FeatureAlphaDropout(_Dropout):
    """AlphaDropout of whole channels."""

    def forward(self, input: Tensor) -> Tensor:
        return F.feature_alpha_dropout(input, self.p, self.training)
