"""Schedulers that combine other schedulers."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from rushlight.optim.lr_base import LRScheduler, _put, _value_of
from rushlight.optim.lr_plateau import ReduceLROnPlateau
from rushlight.optim.optimizer import Optimizer

__all__ = ["ChainedScheduler", "SequentialLR"]


def _check_same_optimizer(schedulers: Sequence[Any], optimizer: Any, name: str) -> None:
    for i, scheduler in enumerate(schedulers):
        if not hasattr(scheduler, "optimizer"):
            raise TypeError(
                f"{name} at index {i} should have `optimizer` as its attribute, but got "
                f"{type(scheduler).__name__}"
            )
        if optimizer is not scheduler.optimizer:
            raise ValueError(
                f"{name} expects all schedulers to belong to the same optimizer, but got scheduler "
                f"{type(scheduler).__name__} at index {i} has {scheduler.optimizer}, which is "
                f"different from {type(optimizer).__name__}."
            )


class _OfSchedulers(LRScheduler):
    """The base of ChainedScheduler and SequentialLR: the state includes that of the inner schedulers."""

    _schedulers: list[Any]

    def state_dict(self) -> dict[str, Any]:
        """The state, with that of each scheduler."""
        hidden = ("optimizer", "_schedulers")
        made = {k: v for k, v in self.__dict__.items() if k not in hidden}
        made["_schedulers"] = [scheduler.state_dict() for scheduler in self._schedulers]
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state back into the same schedulers."""
        self.__dict__.update({k: v for k, v in state_dict.items() if k != "_schedulers"})
        for scheduler, saved in zip(self._schedulers, state_dict["_schedulers"], strict=True):
            scheduler.load_state_dict(saved)


class SequentialLR(_OfSchedulers):
    """Use one scheduler after another; the next begins at each milestone."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: list[LRScheduler],
        milestones: list[int],
        last_epoch: int = -1,
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError("SequentialLR expects at least one scheduler, but got no scheduler.")
        _check_same_optimizer(schedulers, optimizer, "SequentialLR")
        for i, scheduler in enumerate(schedulers):
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ValueError(
                    "SequentialLR does not support `ReduceLROnPlateau` scheduler as it requires "
                    f"additional kwargs to be specified when calling `step`, but got one at index "
                    f"{i} in the given schedulers sequence."
                )
        if len(milestones) != len(schedulers) - 1:
            raise ValueError(
                "Sequential Schedulers expects number of schedulers provided to be one more than "
                f"the number of milestone points, but got number of schedulers {len(schedulers)} "
                f"and the number of milestones to be equal to {len(milestones)}"
            )
        self._schedulers = schedulers
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        self.optimizer = optimizer
        # Each scheduler has made its first step already: only the first one's shall count.
        for group in optimizer.param_groups:
            _put(group, "lr", group["initial_lr"])
        for scheduler in schedulers:
            self._undo(scheduler)
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def _undo(self, scheduler: Any) -> None:
        if hasattr(scheduler, "_schedulers"):
            for inner in scheduler._schedulers:
                self._undo(inner)
        else:
            scheduler.last_epoch -= 1

    def step(self) -> None:
        """Step the scheduler of the present epoch."""
        self.last_epoch += 1
        i = bisect_right(self._milestones, self.last_epoch)
        scheduler = self._schedulers[i]
        if i > 0 and self._milestones[i - 1] == self.last_epoch:
            scheduler._update_lr(0)
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()


class ChainedScheduler(_OfSchedulers):
    """Several schedulers at once; each changes the rate that the one before has set."""

    def __init__(
        self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None
    ) -> None:
        if len(schedulers) < 1:
            raise ValueError(
                "ChainedScheduler expects at least one scheduler to be chained, but got no "
                "scheduler."
            )
        optimizer = optimizer or schedulers[0].optimizer
        _check_same_optimizer(schedulers, optimizer, "ChainedScheduler")
        self._schedulers = list(schedulers)
        self.optimizer = optimizer
        self._last_lr = [_value_of(group["lr"]) for group in optimizer.param_groups]

    def step(self) -> None:
        """Step them all."""
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = [_value_of(group["lr"]) for group in self.optimizer.param_groups]

    def _update_lr(self, epoch: int | None = None) -> None:
        for scheduler in self._schedulers:
            scheduler._update_lr(epoch)
        self._last_lr = [_value_of(group["lr"]) for group in self.optimizer.param_groups]
