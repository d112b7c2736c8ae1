"""RMSprop."""

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

__all__ = ["RMSprop"]
_numbers = itemgetter("alpha", "eps", "momentum", "weight_decay", "maximize")


class RMSprop(RuleOptimizer):
    """Gradients divided by the root of their mean square (Hinton, lecture 6e; Graves 2013).

    State: `step`; `square_avg` v, the moving mean of g ** 2; with momentum `momentum_buffer`; when
    `centered`, `grad_avg`, the moving mean of g, whose square is taken from v.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(eps >= 0.0, "epsilon value", eps)
        check(momentum >= 0.0, "momentum value", momentum)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check(alpha >= 0.0, "alpha value", alpha)
        names = (
            "lr momentum alpha eps centered weight_decay capturable foreach maximize differentiable"
        )
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": new_step(), "square_avg": zeros_like(p)}
        if group["momentum"] > 0:
            state["momentum_buffer"] = zeros_like(p)
        if group["centered"]:
            state["grad_avg"] = zeros_like(p)
        return state

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        advance(state)
        buffer = state["momentum_buffer"] if group["momentum"] > 0 else None
        mean = state["grad_avg"] if group["centered"] else None
        tensors = (p, grad, state["square_avg"], buffer, mean)
        run(rmsprop, tensors, rate(group), *_numbers(group))


def rmsprop(xp, p, g, v, buffer, mean, lr, alpha, eps, momentum, weight_decay, maximize) -> None:
    """Graves 2013, equations 38 to 45; eps is added outside of the root."""
    g = penalized(p, g, weight_decay, maximize)
    v *= alpha
    v += (1 - alpha) * (g * g)
    variance = v
    if mean is not None:
        mean += (1 - alpha) * (g - mean)
        variance = v - mean * mean
    g = g / (xp.sqrt(variance) + eps)
    if buffer is not None:
        buffer *= momentum
        buffer += g
        g = buffer
    p -= lr * g
