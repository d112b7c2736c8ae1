"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from rushlight.optim.optimizer import (
    RuleOptimizer,
    check,
    check_fused,
    check_lr,
    chosen,
    number,
    zeros_like,
)
from rushlight.optim.rules import penalized

__all__ = ["SGD"]


class SGD(RuleOptimizer):
    """p -= lr * g, with momentum (Sutskever 2013) and Nesterov's form of it.

    State: `momentum_buffer` b, where momentum is used. The first gradient is b itself; then
    b = momentum * b + (1 - dampening) * g.

    >>> import rushlight as torch
    >>> p = torch.nn.Parameter(torch.tensor([1.0]))
    >>> (p * 3).sum().backward()
    >>> torch.optim.SGD([p], lr=0.1).step()
    >>> p
    Parameter containing:
    tensor([0.7000], requires_grad=True)
    """

    _takes_sparse = True

    def __init__(
        self,
        params: Any,
        lr: Any = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: Any = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_lr(lr)
        check(momentum >= 0.0, "momentum value", momentum)
        check(weight_decay >= 0.0, "weight_decay value", weight_decay)
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        check_fused(fused, foreach, differentiable)
        names = "lr momentum dampening weight_decay nesterov maximize foreach differentiable fused"
        super().__init__(params, chosen(locals(), names))

    def _start(self, p: Any, group: dict[str, Any]) -> dict[str, Any]:
        return {"momentum_buffer": None} if group["momentum"] else {}

    def _update(self, p: Any, grad: Any, state: Any, group: Any, run: Any) -> None:
        lr, momentum, decay = group["lr"], group["momentum"], group["weight_decay"]
        if not group["differentiable"]:
            lr, decay = number(lr), number(decay)
        if grad.is_sparse:
            sparse_sgd(p, grad, state, lr, group, decay)
            return
        buffer = state.get("momentum_buffer") if momentum else None
        dampening = group["dampening"]
        if momentum and buffer is None:
            # The first gradient is the whole of the buffer: no dampening yet.
            state["momentum_buffer"] = buffer = zeros_like(grad)
            dampening = 0.0
        signs = group["nesterov"], group["maximize"]
        run(sgd, (p, grad, buffer), lr, momentum, dampening, decay, *signs)


def sparse_sgd(p: Any, grad: Any, state: Any, lr: Any, group: Any, decay: Any) -> None:
    """A step on the entries of a sparse gradient; the buffer is sparse too."""
    if decay:
        grad = grad.add(p, alpha=decay)  # raises: it would be dense
    momentum = group["momentum"]
    if group["maximize"]:
        grad = -grad
    if momentum:
        buffer = state.get("momentum_buffer")
        if buffer is None:
            buffer = grad.clone().detach()
        else:
            buffer = buffer * momentum + grad * (1 - group["dampening"])
        state["momentum_buffer"] = buffer
        grad = grad + buffer * momentum if group["nesterov"] else buffer
    p.add_(grad, alpha=-lr)


def sgd(xp, p, g, buffer, lr, momentum, dampening, weight_decay, nesterov, maximize) -> None:
    """Sutskever et al. 2013, with the learning rate outside of the buffer."""
    g = penalized(p, g, weight_decay, maximize)
    if buffer is not None:
        buffer *= momentum
        buffer += g if dampening == 0 else (1 - dampening) * g
        g = g + momentum * buffer if nesterov else buffer
    p -= lr * g
