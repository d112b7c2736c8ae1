"""Averages of a model's weights over its training: SWA and EMA."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from copy import deepcopy
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.nn.module import Module
from rushlight.optim.lr_base import LRScheduler, _per_group
from rushlight.optim.optimizer import Optimizer

__all__ = [
    "SWALR", "AveragedModel", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip


def _check_decay(decay: float) -> None:
    if decay < 0.0 or decay > 1.0:
        raise ValueError(
            f"Invalid decay value {decay} provided. Please provide a value in [0,1] range."
        )


def get_ema_avg_fn(decay: float = 0.999) -> Callable[..., Tensor]:
    """decay * average + (1 - decay) * parameter"""
    _check_decay(decay)

    def ema_update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with rushlight.no_grad():
            return decay * average + (1 - decay) * current

    return ema_update


def get_swa_avg_fn() -> Callable[..., Tensor]:
    """The mean of all parameters so far, each with equal weight (Izmailov 2018)."""

    def swa_update(average: Tensor, current: Tensor, num_averaged: Any) -> Tensor:
        with rushlight.no_grad():
            return average + (current - average) / (num_averaged + 1)

    return swa_update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[..., None]:
    """`get_ema_avg_fn` for a list of parameters, in place."""
    _check_decay(decay)

    def ema_update(averages: Iterable[Tensor], currents: Iterable[Tensor], _: Any) -> None:
        with rushlight.no_grad():
            for average, current in zip(averages, currents, strict=True):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(current, 1 - decay)
                else:
                    average.copy_(average * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn() -> Callable[..., None]:
    """`get_swa_avg_fn` for a list of parameters, in place."""

    def swa_update(averages: Iterable[Tensor], currents: Iterable[Tensor], num: Any) -> None:
        weight = 1 / (float(num) + 1)
        with rushlight.no_grad():
            for average, current in zip(averages, currents, strict=True):
                if average.is_floating_point() or average.is_complex():
                    average.lerp_(current, weight)
                else:
                    average.copy_(average + (current - average) * weight)

    return swa_update


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's, by `update_parameters`.

    `avg_fn(average, current, count)` returns the new average of one parameter; `multi_avg_fn` does
    it for lists, in place. Without either: equal weights. `use_buffers` averages buffers too.
    """

    n_averaged: Tensor

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable[..., Tensor] | None = None,
        multi_avg_fn: Callable[..., None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", rushlight.tensor(0, dtype=rushlight.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged(self, model: Module) -> list[Tensor]:
        buffers = list(model.buffers()) if self.use_buffers else []
        return [*model.parameters(), *buffers]

    def update_parameters(self, model: Module) -> None:
        """Take the model's present parameters into the averages."""
        averages = [t.detach() for t in self._averaged(self.module)]
        currents = [
            t.detach().to(average.device)
            for t, average in zip(self._averaged(model), averages, strict=True)
        ]
        if self.n_averaged == 0:
            for average, current in zip(averages, currents, strict=True):
                average.copy_(current)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, currents, self.n_averaged)
        else:
            update = self.avg_fn or get_swa_avg_fn()
            for average, current in zip(averages, currents, strict=True):
                average.copy_(update(average, current, self.n_averaged))
        if not self.use_buffers:
            # Not averaged, but the model's newest.
            for own, other in zip(self.module.buffers(), model.buffers(), strict=True):
                own.detach().copy_(other.detach().to(own.device))
        self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the running statistics of all BatchNorm layers in one pass over the data."""
    from rushlight.nn.batchnorm import _BatchNorm

    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    was_training = model.training
    momenta = [norm.momentum for norm in norms]
    model.train()
    try:
        for norm in norms:
            norm.reset_running_stats()
            norm.momentum = None  # the mean over all batches
        with rushlight.no_grad():
            for batch in loader:
                input = batch[0] if isinstance(batch, (list, tuple)) else batch
                model(input if device is None else input.to(device))
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the rate to `swa_lr` in `anneal_epochs` epochs and keeps it there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: Any,
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        swa_lrs = _per_group("swa_lr", optimizer, swa_lr)
        for lr, group in zip(swa_lrs, optimizer.param_groups, strict=True):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}"
            )
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _weight(self, epoch: int) -> float:
        """The weight of `swa_lr` in the rate at `epoch`, 0 to 1."""
        done = max(0, min(1, epoch / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * done)) / 2 if self._anneal_strategy == "cos" else done

    def get_lr(self) -> list[Any]:
        epoch = self._step_count - 1
        if self.anneal_epochs == 0:
            epoch = max(1, epoch)
        before, now = self._weight(max(0, epoch - 1)), self._weight(epoch)
        rates = []
        for group, _ in self._groups():
            target = group["swa_lr"]
            # The rate before annealing, from the present one.
            start = target if before == 1 else (group["lr"] - before * target) / (1 - before)
            rates.append(target * now + start * (1 - now))
        return rates
