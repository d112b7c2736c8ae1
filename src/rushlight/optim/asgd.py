"""Averaged stochastic gradient descent."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import (
    RuleOptimizer,
    advance,
    check,
    check_lr,
    chosen,
    new_step,
    number,
    zeros_like,
)
from rushlight.optim.rules import penalized

__all__ = ["ASGD"]
_numbers = itemgetter("lambd", "weight_decay", "maximize")


class ASGD(RuleOptimizer):
    """SGD with a decaying rate that also keeps the mean of its parameters (Polyak 1992).

    State: `step`; `eta`, the rate; `mu`, the weight of the newest parameters in `ax`, their mean
    since step `t0`.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_lr(lr)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        names = "lr lambd alpha t0 weight_decay foreach maximize differentiable capturable"
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = number(group["lr"])
        return {
            "step": new_step(),
            "eta": rushlight.tensor(float(lr), dtype=rushlight.float32),
            "mu": rushlight.ones((), dtype=rushlight.float32),
            "ax": zeros_like(p),
        }

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        t = advance(state)
        weights = state["eta"].item(), state["mu"].item()
        run(asgd, (p, grad, state["ax"]), *weights, *_numbers(group))
        lr = number(group["lr"])
        eta = lr / (1 + group["lambd"] * lr * t) ** group["alpha"]
        state["eta"].copy_(rushlight.tensor(eta))  # which load_state_dict may have made float64
        mu = 1 / max(1, t - group["t0"])
        state["mu"].copy_(rushlight.tensor(mu))


def asgd(xp, p, g, mean, eta, mu, lambd, weight_decay, maximize) -> None:
    """Polyak and Juditsky 1992; the schedule of eta as in Bottou 2010, section 5."""
    g = penalized(p, g, weight_decay, maximize)
    p *= 1 - lambd * eta
    p -= eta * g
    if mu == 1:
        mean[...] = p
    else:
        mean += mu * (p - mean)
