"""Rprop: resilient backpropagation."""

from __future__ import annotations

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

__all__ = ["Rprop"]


class Rprop(RuleOptimizer):
    """Steps by the gradient's sign, longer while it stays, shorter when it turns (Riedmiller 1993).

    State: `step`; `prev`, the last gradient, 0 where the sign turned; `step_size`.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_lr(lr)
        check(0.0 < etas[0] < 1.0 < etas[1], "eta values", *etas)
        names = "lr etas step_sizes foreach maximize differentiable capturable"
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        lr = number(group["lr"])
        first = complex(lr, lr) if p.is_complex() else lr
        sizes = rushlight.full_like(p, first, memory_format=rushlight.preserve_format)
        return {"step": new_step(), "prev": zeros_like(p), "step_size": sizes.detach()}

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        advance(state)
        tensors = (p, grad, state["prev"], state["step_size"])
        run(rprop, tensors, *group["etas"], *group["step_sizes"], group["maximize"])


def rprop(xp, p, g, previous, size, shrink, grow, smallest, largest, maximize) -> None:
    """Riedmiller and Braun 1993, without taking steps back (Igel and Hüsken 2000, iRprop-)."""
    if maximize:
        g = -g
    agreement = g * previous
    changed = xp.where(agreement > 0, size * grow, xp.where(agreement < 0, size * shrink, size))
    size[...] = xp.clip(changed, smallest, largest)
    g = xp.where(agreement < 0, xp.zeros_like(g), g)
    p -= xp.sign(g) * size
    previous[...] = g
