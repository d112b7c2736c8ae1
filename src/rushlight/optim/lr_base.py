"""The base of the learning-rate schedulers.

A scheduler sets `group["lr"]` of its optimizer at each `step()`. Most compute the next rate from the
present one, so that several can work on one optimizer; `step(epoch)` uses a closed form instead.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import Optimizer

__all__ = ["LRScheduler"]

GUIDE = "See https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where "
    "possible. Please use `scheduler.step()` to step the scheduler. During the deprecation, if "
    "epoch is different from None, the closed form is used instead of the new chainable form, "
    "where available."
)


def _value_of(value: Any) -> Any:
    """A copy where the value is a tensor, which a later step would overwrite."""
    return value.clone() if isinstance(value, Tensor) else value


def _put(group: dict[str, Any], key: str, value: Any) -> None:
    """Set a group's entry; a tensor is changed in place."""
    if isinstance(group[key], Tensor):
        group[key].fill_(value.item() if isinstance(value, Tensor) else value)
    else:
        group[key] = value


def _per_group(name: str, optimizer: Optimizer, value: Any) -> list[Any]:
    """One value per parameter group."""
    count = len(optimizer.param_groups)
    if not isinstance(value, (list, tuple)):
        return [value] * count
    if len(value) != count:
        raise ValueError(
            f"{name} must have the same length as optimizer.param_groups. {name} has {len(value)} "
            f"values, param_groups has {count}."
        )
    return list(value)


def _need_optimizer(optimizer: Any) -> None:
    if not isinstance(optimizer, Optimizer):
        raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")


class LRScheduler:
    """The base of all schedulers: a subclass defines `get_lr`, the next rate of each group."""

    _get_lr_called_within_step: bool = False
    _is_initial: bool = False

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        _need_optimizer(optimizer)
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _value_of(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming "
                    "scheduler with last_epoch >= 0: load the optimizer's state first"
                )
        self.base_lrs: list[Any] = [_value_of(g["initial_lr"]) for g in optimizer.param_groups]
        self.last_epoch = last_epoch
        if "_has_scheduler" not in optimizer.__dict__:
            # From here on the optimizer notes whether it has stepped; see `Optimizer.step`.
            optimizer._has_scheduler = True
            optimizer._opt_called = False
        self._initial_step()

    def _initial_step(self) -> None:
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self) -> dict[str, Any]:
        """The scheduler's attributes except the optimizer."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state back."""
        self.__dict__.update(state_dict)

    def get_last_lr(self) -> list[Any]:
        """The rates that the last `step` set, one per group."""
        return self._last_lr

    def get_lr(self) -> list[Any]:
        """The rates for the present `last_epoch`, computed from the groups' present ones."""
        raise NotImplementedError

    def _groups(self) -> list[tuple[dict[str, Any], Any]]:
        """Each group with its base rate; `get_lr` begins here."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use "
                "`get_last_lr()`.",
                stacklevel=3,
            )
        return list(zip(self.optimizer.param_groups, self.base_lrs, strict=True))

    def _rates(self) -> list[Any]:
        return [group["lr"] for group, _ in self._groups()]

    def step(self, epoch: int | None = None) -> None:
        """Go on by one epoch (or to that epoch) and set the rates."""
        if self._step_count == 1:
            if not getattr(self.optimizer.step, "hooked", False):
                warnings.warn(
                    "Seems like `optimizer.step()` has been overridden after learning rate "
                    "scheduler initialization. Please, make sure to call `optimizer.step()` before "
                    f"`lr_scheduler.step()`. {GUIDE}",
                    stacklevel=2,
                )
            elif not getattr(self.optimizer, "_opt_called", False):
                warnings.warn(
                    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. Call them "
                    "in the opposite order: otherwise the first value of the learning rate "
                    f"schedule is skipped. {GUIDE}",
                    stacklevel=2,
                )
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch: int | None = None) -> None:
        if epoch is None:
            self.last_epoch += 1
            self._set_lr(self.get_lr)
        else:
            self.last_epoch = epoch
            self._set_lr(getattr(self, "_get_closed_form_lr", self.get_lr))

    def _set_lr(self, compute: Callable[[], list[Any]]) -> None:
        """Set the rate of each group to what `compute` returns."""
        self._get_lr_called_within_step = True
        try:
            values = compute()
        finally:
            self._get_lr_called_within_step = False
        for group, value in zip(self.optimizer.param_groups, values, strict=True):
            _put(group, "lr", value)
        self._last_lr = [_value_of(group["lr"]) for group in self.optimizer.param_groups]
