"""Adamax: Adam with the largest gradient instead of the mean square."""

from __future__ import annotations

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
from rushlight.optim.rules import penalized

__all__ = ["Adamax"]
_numbers = itemgetter("eps", "weight_decay", "maximize")


class Adamax(RuleOptimizer):
    """Adam in the infinity norm (Kingma and Ba 2014, section 7.1).

    State: `step`; `exp_avg` m, the moving mean of g; `exp_inf` u, a decaying maximum of |g|.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr, foreach, capturable)
        check(eps >= 0.0, "epsilon value", eps)
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        names = "lr betas eps weight_decay foreach maximize differentiable capturable"
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_step(), "exp_avg": zeros_like(p), "exp_inf": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        tensors = (p, grad, state["exp_avg"], state["exp_inf"])
        run(adamax, tensors, rate(group), *group["betas"], *_numbers(group), advance(state))


def adamax(xp, p, g, m, u, lr, beta1, beta2, eps, weight_decay, maximize, t) -> None:
    """Kingma and Ba 2014, algorithm 2."""
    g = penalized(p, g, weight_decay, maximize)
    m += (1 - beta1) * (g - m)
    u[...] = xp.maximum(beta2 * u, xp.absolute(g) + eps)
    p -= (lr / (1 - beta1**t)) * m / u
