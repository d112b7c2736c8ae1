"""Learning rates that change over the epochs or steps of a training."""

from __future__ import annotations

from rushlight.optim.lr_base import EPOCH_DEPRECATION_WARNING, LRScheduler
from rushlight.optim.lr_combined import ChainedScheduler, SequentialLR
from rushlight.optim.lr_cycles import CyclicLR, OneCycleLR
from rushlight.optim.lr_formulas import (
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)
from rushlight.optim.lr_plateau import ReduceLROnPlateau

__all__ = [
    "EPOCH_DEPRECATION_WARNING", "ChainedScheduler", "ConstantLR", "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts", "CyclicLR", "ExponentialLR", "LRScheduler", "LambdaLR",
    "LinearLR", "MultiStepLR", "MultiplicativeLR", "OneCycleLR", "PolynomialLR",
    "ReduceLROnPlateau", "SequentialLR", "StepLR",
]  # fmt: skip

_LRScheduler = LRScheduler  # the name that older scripts subclass
