"""Adagrad."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import (
    RuleOptimizer,
    advance,
    check,
    check_fused,
    check_lr,
    chosen,
    new_step,
    rate,
)
from rushlight.optim.rules import penalized

__all__ = ["Adagrad"]
_numbers = itemgetter("eps", "weight_decay", "maximize")


class Adagrad(RuleOptimizer):
    """Steps divided by the root of the sum of all squared gradients (Duchi 2011).

    State: `step`; `sum`, the sum of g ** 2. It exists from the beginning, before any step.
    """

    _takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check(lr_decay >= 0.0, "lr_decay value", lr_decay)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check(
            initial_accumulator_value >= 0.0,
            "initial_accumulator_value value",
            initial_accumulator_value,
        )
        check(eps >= 0.0, "epsilon value", eps)
        check_fused(fused, foreach, differentiable)
        names = (
            "lr lr_decay eps weight_decay initial_accumulator_value foreach maximize "
            "differentiable fused"
        )
        super().__init__(params, chosen(locals(), names))
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = self._start(p, group)

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        value = group["initial_accumulator_value"]
        if p.is_complex():
            value = complex(value, value)
        full = rushlight.full_like(p, value, memory_format=rushlight.preserve_format)
        return {"step": new_step(), "sum": full.detach()}

    def share_memory(self) -> None:
        """Move the sums into shared memory."""
        for state in self.state.values():
            state["sum"].share_memory_()

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        t = advance(state)
        lr = rate(group) / (1 + (t - 1) * group["lr_decay"])
        if grad.is_sparse:
            if group["weight_decay"]:
                raise RuntimeError("weight_decay option is not compatible with sparse gradients")
            grad = (-grad if group["maximize"] else grad).coalesce()
            state["sum"].add_(grad.pow(2))
            step = grad.values() / (state["sum"].sparse_mask(grad).values().sqrt() + group["eps"])
            step = rushlight.sparse_coo_tensor(grad.indices(), step, p.shape)
            p.add_(step, alpha=-lr)
            return
        run(adagrad, (p, grad, state["sum"]), lr, *_numbers(group))


def adagrad(xp, p, g, total, rate, eps, weight_decay, maximize) -> None:
    """Duchi et al. 2011, figure 1, with a diagonal matrix."""
    g = penalized(p, g, weight_decay, maximize)
    total += g * g
    p -= rate * g / (xp.sqrt(total) + eps)
