"""Optimizers that `DistributedDataParallel` steps while backward runs, by a communication hook."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.distributed.algorithms.ddp_comm_hooks.optimizer_overlap_hooks import (
    _hook_then_optimizer,
    _OptimizerHookState,
)
from rushlight.distributed.optim.utils import as_functional_optim
from rushlight.optim.optimizer import Optimizer

__all__ = ["OverlappedOptimizer", "register_overlapped"]

_registered_overlapped_optims: dict[type, type] = {}


def register_overlapped(optim_cls: type) -> Callable[[type], type]:
    """Let a class overlap the optimizers of a class, and of those derived from it."""

    def register(target: type) -> type:
        if target in _registered_overlapped_optims.values():
            raise ValueError(f"{target} is registered already")
        _registered_overlapped_optims[optim_cls] = target
        return target

    return register


class OverlappedOptimizer(ABC):
    """How the optimizers of a class are stepped while backward runs."""

    def __init__(self, optim_cls: type) -> None:
        self.optim_cls = optim_cls

    @abstractmethod
    def register_ddp(self, ddp: Any) -> None:
        """Let a `DistributedDataParallel` step them."""

    @abstractmethod
    def register_fsdp(self, fsdp: Any) -> None:
        """Let a `FullyShardedDataParallel` step them."""


@register_overlapped(Optimizer)
class _OverlappedStandardOptimizer(OverlappedOptimizer):
    """Steps those that `as_functional_optim` knows."""

    def __init__(
        self, optim_cls: type, params: Iterable[Tensor] | None, *optim_args: Any, **optim_kwargs: Any
    ) -> None:  # fmt: skip
        super().__init__(optim_cls)
        functional = as_functional_optim(optim_cls, *optim_args, **optim_kwargs)
        self._opt_hook_state = _OptimizerHookState(functional, params)

    def register_ddp(self, ddp: Any) -> None:
        ddp.register_comm_hook(None, _hook_then_optimizer(allreduce_hook, self._opt_hook_state))

    def register_fsdp(self, fsdp: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__} does not support overlapped FSDP.")


def _as_overlapped_optim(
    optim_cls: type, params: Iterable[Tensor] | None, *args: Any, **kwargs: Any
) -> Any:
    """What overlaps the optimizers of a class, for these parameters, or all."""
    for each in optim_cls.__mro__:
        if each in _registered_overlapped_optims:
            return _registered_overlapped_optims[each](optim_cls, params, *args, **kwargs)
    return _OverlappedStandardOptimizer(optim_cls, params, *args, **kwargs)
