"""Learning rates that rise and fall in cycles, while the momentum falls and rises."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Any

from rushlight.optim.lr_base import LRScheduler, _need_optimizer, _per_group, _put
from rushlight.optim.optimizer import Optimizer

__all__ = ["CyclicLR", "OneCycleLR"]


def _uses_beta1(optimizer: Optimizer) -> bool:
    """True if the optimizer's momentum is its first beta; ValueError if it has neither."""
    if "momentum" not in optimizer.defaults and "betas" not in optimizer.defaults:
        raise ValueError(
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled"
        )
    return "betas" in optimizer.defaults


def _begin_momentum(
    scheduler: Any, base: Any, high: Any, last_epoch: int
) -> tuple[list[Any], list[Any]]:
    """Set the momentum of each group to its maximum; return the minima and the maxima of the groups."""
    optimizer = scheduler.optimizer
    scheduler.use_beta1 = _uses_beta1(optimizer)
    lows = _per_group("base_momentum", optimizer, base)
    highs = _per_group("max_momentum", optimizer, high)
    if last_epoch == -1:
        for group, low, top in zip(optimizer.param_groups, lows, highs, strict=True):
            _put_momentum(group, top, scheduler.use_beta1)
            group["max_momentum"] = top
            group["base_momentum"] = low
    return lows, highs


def _put_momentum(group: dict[str, Any], value: float, use_beta1: bool) -> None:
    if use_beta1:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


class CyclicLR(LRScheduler):
    """From base_lr up to max_lr and down again, over and over (Smith 2015).

    `mode`: "triangular"; "triangular2", each cycle half as high; "exp_range", times gamma ** step.
    `scale_fn` of the cycle or the iteration (`scale_mode`) replaces these.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: Any,
        max_lr: Any,
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.8,
        max_momentum: Any = 0.9,
        last_epoch: int = -1,
    ) -> None:
        _need_optimizer(optimizer)
        self.optimizer = optimizer
        groups = optimizer.param_groups
        base_lrs = _per_group("base_lr", optimizer, base_lr)
        if last_epoch == -1:
            for group, lr in zip(groups, base_lrs, strict=True):
                _put(group, "lr", lr)
        self.max_lrs = _per_group("max_lr", optimizer, max_lr)
        up = float(step_size_up)
        down = float(step_size_down) if step_size_down is not None else up
        self.total_size = up + down
        self.step_ratio = up / self.total_size
        if mode not in ("triangular", "triangular2", "exp_range") and scale_fn is None:
            raise ValueError("mode is invalid and scale_fn is None")
        self.mode = mode
        self.gamma = gamma
        self._scale_fn_custom = scale_fn
        self.scale_mode = scale_mode
        if scale_fn is None:
            self.scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            self.base_momentums, self.max_momentums = _begin_momentum(
                self, base_momentum, max_momentum, last_epoch
            )
        super().__init__(optimizer, last_epoch)
        self.base_lrs = base_lrs

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, or of an iteration."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def get_lr(self) -> list[Any]:
        groups = self._groups()
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        x = 1.0 + self.last_epoch / self.total_size - cycle
        scale = x / self.step_ratio if x <= self.step_ratio else (x - 1) / (self.step_ratio - 1)
        height = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for (group, _), low, high in zip(
                groups, self.base_momentums, self.max_momentums, strict=True
            ):
                momentum = high - (high - low) * scale * height
                _put_momentum(group, momentum, self.use_beta1)
        return [
            base + (high - base) * scale * height
            for (_, base), high in zip(groups, self.max_lrs, strict=True)
        ]

    def state_dict(self) -> dict[str, Any]:
        """The state; for a scale function, the attributes of a callable object only."""
        made = super().state_dict()
        custom = made.pop("_scale_fn_custom")
        plain = custom is None or isinstance(custom, types.FunctionType)
        made["_scale_fn_custom"] = None if plain else custom.__dict__.copy()
        return made

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take a state back, into the scale function that the scheduler was made with."""
        state_dict = dict(state_dict)
        saved = state_dict.pop("_scale_fn_custom", None)
        super().load_state_dict(state_dict)
        if saved is not None and self._scale_fn_custom is not None:
            self._scale_fn_custom.__dict__.update(saved)


class OneCycleLR(LRScheduler):
    """One cycle over a whole training: up to max_lr, then down to nearly nothing (Smith 2017).

    Stepped once per batch, `total_steps` (or `epochs * steps_per_epoch`) times in all. It begins at
    max_lr / div_factor and ends at that / final_div_factor; with `three_phase` in between once more
    at the beginning's rate.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: Any,
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: Any = 0.85,
        max_momentum: Any = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        _need_optimizer(optimizer)
        self.optimizer = optimizer
        if total_steps is not None:
            given = {"total_steps": total_steps}
        elif epochs is not None and steps_per_epoch is not None:
            given = {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
        else:
            raise ValueError("You must define either total_steps OR (epochs AND steps_per_epoch)")
        for name, value in given.items():
            if value <= 0 or not isinstance(value, int):
                raise ValueError(f"Expected positive integer {name}, but got {value}")
        self.total_steps = math.prod(given.values())
        if pct_start < 0 or pct_start > 1 or not isinstance(pct_start, float):
            raise ValueError(f"Expected float between 0 and 1 pct_start, but got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        end_of_rise = float(pct_start * self.total_steps) - 1
        rise = _phase(end_of_rise, "initial_lr", "max_lr", "max_momentum", "base_momentum")
        last = self.total_steps - 1
        if three_phase:
            end_of_fall = float(2 * pct_start * self.total_steps) - 2
            self._schedule_phases = [
                rise,
                _phase(end_of_fall, "max_lr", "initial_lr", "base_momentum", "max_momentum"),
                _phase(last, "initial_lr", "min_lr", "max_momentum", "max_momentum"),
            ]
        else:
            fall = _phase(last, "max_lr", "min_lr", "base_momentum", "max_momentum")
            self._schedule_phases = [rise, fall]
        self._anneal_func_type = anneal_strategy

        max_lrs = _per_group("max_lr", optimizer, max_lr)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, max_lrs, strict=True):
                group["initial_lr"] = high / div_factor
                group["max_lr"] = high
                group["min_lr"] = group["initial_lr"] / final_div_factor
        self.cycle_momentum = cycle_momentum
        if cycle_momentum:
            _begin_momentum(self, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    def _anneal(self, start: Any, end: Any, done: float) -> Any:
        if self._anneal_func_type == "cos":
            return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)
        return (end - start) * done + start

    def get_lr(self) -> list[Any]:
        groups, step = self._groups(), self.last_epoch
        if step > self.total_steps:
            raise ValueError(
                f"Tried to step {step} times. The specified number of total steps is "
                f"{self.total_steps}"
            )
        begin = 0.0
        for phase in self._schedule_phases:
            end = phase["end_step"]
            if step <= end or phase is self._schedule_phases[-1]:
                break
            begin = end
        done = (step - begin) / (end - begin)
        rates = []
        for group, _ in groups:
            rates.append(self._anneal(group[phase["start_lr"]], group[phase["end_lr"]], done))
            if self.cycle_momentum:
                momentum = self._anneal(
                    group[phase["start_momentum"]], group[phase["end_momentum"]], done
                )
                _put_momentum(group, momentum, self.use_beta1)
        return rates


def _phase(end: float, lr: str, next_lr: str, momentum: str, next_momentum: str) -> dict[str, Any]:
    """One part of the cycle: until which step, between which entries of a group."""
    return {
        "end_step": end,
        "start_lr": lr,
        "end_lr": next_lr,
        "start_momentum": momentum,
        "end_momentum": next_momentum,
    }
