"""What averages the parameters of all processes after some of the steps."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
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
        """Count a step; in the chosen ones give parameters, or those of parameter groups that have a gradient, their averages."""
        after = self.step - self.warmup_steps
        self.step += 1
        if after >= 0 and after % self.period == 0:
            _average(list(_parameters(params)), self.process_group)


def _parameters(params: Iterable[Any]) -> Iterable[Tensor]:
    for each in params:
        if isinstance(each, dict):
            yield from (p for p in each["params"] if p.grad is not None)
        else:
            yield each


def _average(parameters: list[Tensor], group: Any) -> None:
    """Average parameters over a group, those of one dtype in one message."""
    rows: dict[Any, list[Tensor]] = {}
    for p in parameters:
        rows.setdefault(p.dtype, []).append(p.detach())
    with rushlight.no_grad():
        for alike in rows.values():
            flat = rushlight.cat([p.reshape(-1) for p in alike]).div_(group.size())
            collectives.all_reduce(flat, group=group)
            for p, part in zip(alike, flat.split([p.numel() for p in alike]), strict=True):
                p.copy_(part.view(p.shape))
