"""Adam and AdamW."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.optim.optimizer import (
    RuleOptimizer,
    advance,
    check,
    check_betas,
    check_fused,
    check_lr,
    chosen,
    new_step,
    number,
    rate,
    zeros_like,
)
from rushlight.optim.rules import penalized, root, update_moments

__all__ = ["Adam", "AdamW"]
_numbers = itemgetter("eps", "weight_decay", "decoupled_weight_decay", "maximize")


class Adam(RuleOptimizer):
    """Steps of the mean gradient over the root of the mean squared gradient (Kingma and Ba 2014).

    State: `step`; `exp_avg` m and `exp_avg_sq` v, the moving means of g and g ** 2; with `amsgrad`
    (Reddi 2018) `max_exp_avg_sq`, the largest v so far, which then divides.
    `decoupled_weight_decay` makes it AdamW.
    """

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_lr(lr, foreach, capturable)
        check(eps >= 0.0, "epsilon value", eps)
        tensors = [isinstance(beta, Tensor) for beta in betas]
        if any(tensors) and not all(tensors):
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if tensors[i] and foreach and not capturable:
                raise ValueError(
                    f"betas[{i}] as a Tensor is not supported for capturable=False and foreach=True"
                )
            if tensors[i] and beta.numel() != 1:
                raise ValueError(f"Tensor betas[{i}] must be 1-element")
        check_betas(betas)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        check_fused(fused, foreach, differentiable)
        names = (
            "lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused "
            "decoupled_weight_decay"
        )
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Tensor, group: dict[str, Any]) -> dict[str, Any]:
        state = {"step": new_step(), "exp_avg": zeros_like(p), "exp_avg_sq": zeros_like(p)}
        if group["amsgrad"]:
            state["max_exp_avg_sq"] = zeros_like(p)
        return state

    def _update(self, p: Tensor, grad: Tensor, state: Any, group: Any, run: Any) -> None:
        beta1, beta2 = group["betas"]
        largest = state["max_exp_avg_sq"] if group["amsgrad"] else None
        tensors = (p, grad, state["exp_avg"], state["exp_avg_sq"], largest)
        betas = number(beta1), number(beta2)
        run(adam, tensors, rate(group), *betas, *_numbers(group), advance(state))


def adam(
    xp, p, g, m, v, largest, lr, beta1, beta2, eps, weight_decay, decoupled, maximize, t
) -> None:
    """Kingma and Ba 2014, algorithm 1; decoupled decay as in Loshchilov and Hutter 2017."""
    if weight_decay and decoupled:
        p *= 1 - lr * weight_decay
    g = penalized(p, g, 0 if decoupled else weight_decay, maximize)
    update_moments(g, m, v, beta1, beta2)
    if largest is not None:
        largest[...] = xp.maximum(
            largest * 1, v
        )  # not `largest`: a recorded step saves what it reads
        v = largest
    # m / (1 - beta1 ** t) over sqrt(v / (1 - beta2 ** t)) + eps, with one division.
    scale = root(1 - beta2**t)
    p -= (lr * scale / (1 - beta1**t)) * m / (xp.sqrt(v) + eps * scale)


class AdamW(Adam):
    """Adam whose weight decay shrinks the parameter itself (Loshchilov and Hutter 2017)."""

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        betas: Any = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )

    def __setstate__(self, saved: dict[str, Any]) -> None:
        super().__setstate__(saved)
        for group in self.param_groups:
            group["decoupled_weight_decay"] = True
