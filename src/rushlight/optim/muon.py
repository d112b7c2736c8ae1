"""Muon: momentum made orthogonal."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import RuleOptimizer, check_lr, chosen, number, zeros_like

__all__ = ["Muon"]


class Muon(RuleOptimizer):
    """Steps along the nearest orthogonal matrix to the momentum (Jordan 2024), for matrices only.

    State: `momentum_buffer`, the moving mean of g. `adjust_lr_fn` "original" scales the rate by
    sqrt(max(1, rows / columns)), "match_rms_adamw" by 0.2 * sqrt(max(rows, columns)).
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_lr(lr)
        if lr < 0.0:
            raise ValueError(f"Learning rate should be >= 0 but is: {lr}")
        if momentum < 0.0:
            raise ValueError(f"momentum should be >= 0 but is: {momentum}")
        if weight_decay < 0.0:
            raise ValueError(f"weight decay should be >= 0 but is: {weight_decay}")
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Adjust learning rate function {adjust_lr_fn} is not supported")
        if ns_steps >= 100:
            raise ValueError("Number of steps must be less than 100 for computational efficiency")
        if len(ns_coefficients) != 3:
            raise ValueError("Coefficients must be a tuple of exactly 3 values")
        names = "lr weight_decay momentum nesterov ns_coefficients eps ns_steps adjust_lr_fn"
        super().__init__(params, chosen(locals(), names))
        for group in self.param_groups:
            for p in group["params"]:
                if p.ndim != 2:
                    raise ValueError(
                        "Muon only supports 2D parameters whereas we found a parameter with size: "
                        f"{p.size()}"
                    )

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": zeros_like(p)}

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        if p.is_complex():
            raise RuntimeError("Muon does not support complex parameters")
        lr, momentum = number(group["lr"]), group["momentum"]
        with rushlight.no_grad():
            buffer = state["momentum_buffer"].lerp_(grad, 1 - momentum)
            update = grad.lerp(buffer, momentum) if group["nesterov"] else buffer
            update = orthogonal(update, group["ns_coefficients"], group["ns_steps"], group["eps"])
            rows, columns = p.shape
            if group["adjust_lr_fn"] == "match_rms_adamw":
                rate = lr * 0.2 * math.sqrt(max(rows, columns))
            else:
                rate = lr * math.sqrt(max(1, rows / columns))
            p.mul_(1 - lr * group["weight_decay"])
            p.add_(update.to(p.dtype), alpha=-rate)


def orthogonal(
    matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float
) -> Tensor:
    """Near U V.T of the matrix's U S V.T, by Newton-Schulz in bfloat16 (Jordan 2024).

    Each step is the quintic a x + b x ** 3 + c x ** 5 on the singular values.
    """
    a, b, c = coefficients
    x = matrix.bfloat16()
    tall = matrix.size(0) > matrix.size(1)
    if tall:
        x = x.T
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = rushlight.addmm(x, rushlight.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.T if tall else x
