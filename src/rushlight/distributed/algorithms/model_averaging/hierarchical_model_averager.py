"""Averages over small groups of processes often, and over larger ones now and then (Lin, Stich, Patel and Jaggi, 2018)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping
from typing import Any

from rushlight.distributed.algorithms.model_averaging.averagers import ModelAverager
from rushlight.distributed.algorithms.model_averaging.utils import (
    average_parameters_or_parameter_groups,
)
from rushlight.distributed.groups import new_subgroups

__all__ = ["HierarchicalModelAverager"]


class HierarchicalModelAverager(ModelAverager):
    """Averages parameters among `size` processes in each `period`-th step, after the first `warmup_steps`.

    `period_group_size_dict`: {period: size}, from the shortest period to the longest, which has all processes. A step that several
    periods divide takes the longest.
    """

    def __init__(
        self, period_group_size_dict: Mapping[int, int] | None = None, warmup_steps: int = 0, process_group: Any = None
    ) -> None:  # fmt: skip
        super().__init__(process_group)
        if not period_group_size_dict:
            raise ValueError("Arg ``period_group_size_dict`` must not be empty.")
        periods, sizes, size = (
            [*period_group_size_dict],
            [*period_group_size_dict.values()],
            self.process_group.size(),
        )
        if periods[0] <= 0:
            raise ValueError(
                "The minimum period in arg ``period_group_size_dict`` must be a positive value."
            )
        if periods[-1] == 1:
            warnings.warn(
                "When the maximum period is 1, no need to use model averaging: DistributedDataParallel alone does the same for less",
                stacklevel=2,
            )
        if sizes[-1] != size:
            raise ValueError(
                f"The last value in arg ``period_group_size_dict`` {sizes[-1]} must be equal to the size of arg "
                f"``process_group`` {size}."
            )
        if warmup_steps < 0:
            raise ValueError("Arg ``warmup_steps`` must be a non-negative number.")
        self.warmup_steps = warmup_steps
        self.period_process_group_dict = {
            period: self.process_group
            if count == size
            else new_subgroups(count, self.process_group)[0]
            for period, count in period_group_size_dict.items()
        }

    def average_parameters(self, params: Iterable[Any]) -> None:
        """Count a step; in those of a period average the parameters, or those of parameter groups, that have a gradient."""
        if self.step >= self.warmup_steps:
            for period, group in reversed(self.period_process_group_dict.items()):
                if self.step % period == 0:
                    average_parameters_or_parameter_groups(params, group)
                    break
        self.step += 1
