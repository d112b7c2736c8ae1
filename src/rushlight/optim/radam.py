"""RAdam: Adam that waits until it can trust its second moment."""

from __future__ import annotations

import math
from operator import itemgetter
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import (
    RuleOptimizer,
    advance,
    check,
    check_betas,
    check_lr,
    chosen,
    new_step,
    rate,
    zeros_like,
)
from rushlight.optim.rules import penalized, update_moments

__all__ = ["RAdam"]
_numbers = itemgetter("eps", "weight_decay", "decoupled_weight_decay", "maximize")


class RAdam(RuleOptimizer):
    """Adam whose adaptive step is rectified, and left out in the first steps (Liu 2019).

    State: `step`; `exp_avg` m and `exp_avg_sq` v, the moving means of g and g ** 2.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr, foreach, capturable)
        check(eps >= 0.0, "epsilon value", eps)
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        names = (
            "lr betas eps weight_decay maximize foreach capturable decoupled_weight_decay "
            "differentiable"
        )
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_step(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        beta1, beta2 = group["betas"]
        t = advance(state)
        # Liu et al. 2019, equations 5 and 6: how many samples the mean square is worth, rho.
        rho_max = 2 / (1 - beta2) - 1
        rho = rho_max - 2 * t * beta2**t / (1 - beta2**t)
        rectify = None
        if rho > 5.0:
            rectify = math.sqrt(
                (rho - 4) * (rho - 2) * rho_max / ((rho_max - 4) * (rho_max - 2) * rho)
            ) * math.sqrt(1 - beta2**t)
        tensors = (p, grad, state["exp_avg"], state["exp_avg_sq"])
        run(radam, tensors, rate(group), beta1, beta2, *_numbers(group), rectify, t)


def radam(
    xp, p, g, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, maximize, rectify, t
) -> None:
    """Liu et al. 2019, algorithm 2; `rectify` is None while the variance is not tractable."""
    if weight_decay and decoupled:
        p *= 1 - lr * weight_decay
    g = penalized(p, g, 0 if decoupled else weight_decay, maximize)
    update_moments(g, m, v, beta1, beta2)
    rate = lr / (1 - beta1**t)
    if rectify is None:
        p -= rate * m
    else:
        p -= (rate * rectify) * m / (xp.sqrt(v) + eps)
