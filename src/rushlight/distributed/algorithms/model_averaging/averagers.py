"""What averages the parameters of all processes after some of the steps."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from rushlight.distributed.algorithms.model_averaging.utils import (
    average_parameters_or_parameter_groups,
)
from rushlight.distributed.groups import _resolve

__all__ = ["ModelAverager", "PeriodicModelAverager"]


class ModelAverager(ABC):
    """Counts steps, and averages parameters in those that a subclass chooses."""

    def __init__(self, process_group: Any = None) -> None:
        self.process_group, self.step = _resolve(process_group), 0

    @abstractmethod
    def average_parameters(self, params: Any) -> None:
        """Called after each step."""


class PeriodicModelAverager(ModelAverager):
    """Averages parameters in each `period`-th step, after the first `warmup_steps`."""

    def __init__(self, period: int, warmup_steps: int = 0, process_group: Any = None) -> None:
        super().__init__(process_group)
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        if period < 1:
            raise ValueError("Arg ``period`` must be a positive value.")
        if period == 1:
            warnings.warn(
                "When period is 1, no need to use model averaging: DistributedDataParallel alone does the same for less",
                stacklevel=2,
            )
        self.period, self.warmup_steps = period, warmup_steps

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step; in the chosen ones average the parameters, or those of parameter groups, that have a gradient."""
        after = self.step - self.warmup_steps
        self.step += 1
        if after >= 0 and after % self.period == 0:
            average_parameters_or_parameter_groups(params, self.process_group)
