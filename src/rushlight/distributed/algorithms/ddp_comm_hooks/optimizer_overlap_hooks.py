"""Communication hooks that step an optimizer for each bucket when its gradients are averages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.reducer import GradBucket
from rushlight.futures import Future

__all__ = ["_OptimizerHookState", "_hook_then_optimizer"]


class _OptimizerHookState:
    """What steps parameters, `functional_optimizer.step_param(parameter, gradient)`, and which ones: all without `params`."""

    def __init__(self, functional_optim: Any, params: Iterable[Tensor] | None = None) -> None:
        if not hasattr(functional_optim, "step_param"):
            raise ValueError(f"Class {type(functional_optim)} must implement method step_param.")
        self.functional_optimizer = functional_optim
        if params is not None:
            self.params_to_optimize = set(params)


def _hook_then_optimizer(hook: Callable, optimizer_state: _OptimizerHookState) -> Callable:
    """A hook that steps the parameters of a bucket after another hook has reduced it."""
    chosen = getattr(optimizer_state, "params_to_optimize", None)

    def hook_then_optimizer(hook_state: Any, bucket: GradBucket) -> Future[Tensor]:
        def step(done: Future) -> Tensor:
            done.value()  # raises the error of the reduction
            for parameter, gradient in zip(bucket.parameters(), bucket.gradients()):
                if chosen is None or parameter in chosen:
                    optimizer_state.functional_optimizer.step_param(parameter, gradient)
            return bucket.buffer()

        return hook(hook_state, bucket).then(step)

    return hook_then_optimizer
