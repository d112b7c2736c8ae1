"""NAdam: Adam with Nesterov's momentum."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import rushlight
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
from rushlight.optim.rules import penalized, root, update_moments

__all__ = ["NAdam"]
_numbers = itemgetter("eps", "weight_decay", "decoupled_weight_decay", "maximize")


class NAdam(RuleOptimizer):
    """Adam that steps along the momentum it will have next (Dozat 2016).

    State: `step`; `mu_product`, the product of the momenta so far; `exp_avg` m and `exp_avg_sq` v.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 2e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
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
        check(momentum_decay >= 0.0, "momentum_decay value", momentum_decay)
        names = (
            "lr betas eps weight_decay momentum_decay decoupled_weight_decay maximize foreach "
            "capturable differentiable"
        )
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {
            "step": new_step(),
            "mu_product": rushlight.ones((), dtype=rushlight.float32),
            "exp_avg": zeros_like(p),
            "exp_avg_sq": zeros_like(p),
        }

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        beta1, beta2 = group["betas"]
        t = advance(state)
        mu = beta1 * (1.0 - 0.5 * 0.96 ** (t * group["momentum_decay"]))
        mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((t + 1) * group["momentum_decay"]))
        product = state["mu_product"].mul_(mu)
        if not product.requires_grad:
            product = product.item()
        tensors = (p, grad, state["exp_avg"], state["exp_avg_sq"])
        shares = (1.0 - mu) / (1.0 - product), mu_next / (1.0 - product * mu_next)
        run(nadam, tensors, rate(group), beta1, beta2, *_numbers(group), *shares, t)


def nadam(
    xp, p, g, m, v, lr, beta1, beta2, eps, weight_decay, decoupled, maximize, share_g, share_m, t
) -> None:
    """Dozat 2016, algorithm 2: `share_g` g + `share_m` m instead of Adam's m."""
    if weight_decay and decoupled:
        p *= 1 - lr * weight_decay
    g = penalized(p, g, 0 if decoupled else weight_decay, maximize)
    update_moments(g, m, v, beta1, beta2)
    scale = root(1 - beta2**t)
    direction = share_g * g + share_m * m
    p -= (lr * scale) * direction / (xp.sqrt(v) + eps * scale)
