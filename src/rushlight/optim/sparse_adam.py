"""Adam for sparse gradients."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import Optimizer, check, check_betas, check_lr, number, zeros_like

__all__ = ["SparseAdam"]


class SparseAdam(Optimizer):
    """Adam that touches moments and parameters only where the gradient has entries.

    State: `step`, `exp_avg`, `exp_avg_sq`, dense. For embeddings made with `sparse=True`.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        check_lr(lr)
        check(lr > 0.0, "learning rate", lr)
        check(eps > 0.0, "epsilon value", eps)
        check_betas(betas)
        defaults = {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize}
        super().__init__(params, defaults)
        sparse = [
            [i, j]
            for i, group in enumerate(self.param_groups)
            for j, p in enumerate(group["params"])
            if p.is_sparse
        ]
        if sparse:
            raise ValueError(
                f"Sparse params at indices {sparse}: SparseAdam requires dense parameter tensors"
            )

    def step(self, closure: Any = None) -> Any:
        """Update the parameters that have gradients; returns the result of `closure`."""
        loss = None
        if closure is not None:
            with rushlight.enable_grad():
                loss = closure()
        with rushlight.no_grad():
            for group in self.param_groups:
                for p in group["params"]:
                    if p.grad is not None:
                        self._update(p, p.grad, group)
        return loss

    def _update(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        """Kingma and Ba 2014, algorithm 1, on the entries of the gradient."""
        if not grad.is_sparse:
            raise RuntimeError(
                "SparseAdam does not support dense gradients, please consider Adam instead"
            )
        state = self.state[p]
        if not state:
            state.update(step=0, exp_avg=zeros_like(p), exp_avg_sq=zeros_like(p))
        state["step"] += 1
        t, (beta1, beta2) = state["step"], group["betas"]
        grad = grad.coalesce()
        where, g = tuple(grad._indices()), grad._values()
        if g.numel() == 0:
            return
        if group["maximize"]:
            g = -g
        m, v = state["exp_avg"][where], state["exp_avg_sq"][where]
        m = m + (1 - beta1) * (g - m)
        v = v + (1 - beta2) * (g * g - v)
        state["exp_avg"][where], state["exp_avg_sq"][where] = m, v
        rate = number(group["lr"]) * math.sqrt(1 - beta2**t) / (1 - beta1**t)
        p[where] = p[where] - rate * m / (v.sqrt() + group["eps"])
