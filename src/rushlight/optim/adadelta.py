"""Adadelta."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import (
    RuleOptimizer,
    advance,
    check,
    check_lr,
    chosen,
    new_step,
    rate,
    zeros_like,
)
from rushlight.optim.rules import penalized

__all__ = ["Adadelta"]
_numbers = itemgetter("rho", "eps", "weight_decay", "maximize")


class Adadelta(RuleOptimizer):
    """Steps in the unit of the parameters, so that no rate needs choosing (Zeiler 2012).

    State: `step`; `square_avg` v, the moving mean of g ** 2; `acc_delta` u, that of the steps.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(0.0 <= rho <= 1.0, "rho value", rho)
        check(eps >= 0.0, "epsilon value", eps)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        names = "lr rho eps weight_decay maximize capturable foreach differentiable"
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"step": new_step(), "square_avg": zeros_like(p), "acc_delta": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        advance(state)
        tensors = (p, grad, state["square_avg"], state["acc_delta"])
        run(adadelta, tensors, rate(group), *_numbers(group))


def adadelta(xp, p, g, v, u, lr, rho, eps, weight_decay, maximize) -> None:
    """One step of Adadelta for a list of parameters (Zeiler 2012, algorithm 1)."""
    g = penalized(p, g, weight_decay, maximize)
    v *= rho
    v += (1 - rho) * (g * g)
    delta = xp.sqrt(u + eps) / xp.sqrt(v + eps) * g
    u *= rho
    u += (1 - rho) * (delta * delta)
    p -= lr * delta
