"""Adafactor: the second moment of a matrix kept as one row and one column."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import RuleOptimizer, advance, check_lr, chosen, new_step, number

__all__ = ["Adafactor"]


class Adafactor(RuleOptimizer):
    """Adaptive steps with memory for the sum of a matrix's sides only (Shazeer and Stern 2018).

    State: `step`; of matrices and larger tensors `row_var` and `col_var`, means of g ** 2 along the
    last two dimensions; of vectors `variance`. Works on whole parameters, not on blocks of them.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_lr(lr)
        if beta2_decay > 0.0:
            raise ValueError(f"beta2_decay should be <= 0 but is: {beta2_decay}")
        if eps[0] is not None and eps[0] < 0.0:
            raise ValueError(f"epsilon1 should be >= 0 but is: {eps[0]}")
        if eps[1] < 0.0:
            raise ValueError(f"epsilon2 should be >= 0 but is: {eps[1]}")
        if d < 1.0:
            raise ValueError(f"Clipping threshold d should be >= 1 but is: {d}")
        if weight_decay < 0.0:
            raise ValueError(f"weight_decay should be >= 0 but is: {weight_decay}")
        names = "lr beta2_decay eps d weight_decay foreach maximize"
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        if p.dim() < 2:
            variance = rushlight.zeros_like(p, memory_format=rushlight.preserve_format)
            return {"step": new_step(), "variance": variance.detach()}
        *outer, rows, columns = p.shape
        return {
            "step": new_step(),
            "row_var": p.new_zeros((*outer, rows, 1)),
            "col_var": p.new_zeros((*outer, 1, columns)),
        }

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        """Shazeer and Stern 2018, algorithms 4 and 5, with the relative step of section 8."""
        if p.is_complex():
            raise RuntimeError("Adafactor does not support complex parameters")
        eps1, eps2 = group["eps"]
        if eps1 is None:
            eps1 = rushlight.finfo(p.dtype).eps
        lr = number(group["lr"])
        with rushlight.no_grad():
            g = -grad if group["maximize"] else grad
            t = advance(state)
            weight = t ** group["beta2_decay"]  # 1 - beta2
            rms = p.norm(2).item() / math.sqrt(p.numel())
            alpha = max(eps2, rms) * min(lr, 1 / math.sqrt(t))
            if group["weight_decay"]:
                p.mul_(1 - lr * group["weight_decay"])
            squares = g * g
            if p.dim() > 1:
                row, column = state["row_var"], state["col_var"]
                row.lerp_(squares.mean(-1, keepdim=True), weight)
                column.lerp_(squares.mean(-2, keepdim=True), weight)
                variance = (row @ column) / row.mean(-2, keepdim=True).clamp(min=eps1)
            else:
                variance = state["variance"].lerp_(squares, weight)
            update = g * variance.clamp(min=eps1 * eps1).rsqrt()
            clip = max(1.0, update.norm(2).item() / (math.sqrt(p.numel()) * group["d"]))
            p.add_(update, alpha=-alpha / clip)
