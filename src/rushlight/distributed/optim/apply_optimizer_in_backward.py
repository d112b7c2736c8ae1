"""Optimizers that step while backward runs: as soon as the gradient of a parameter is there, which is then let go.

`DistributedDataParallel` takes the hooks away: it steps the optimizers of a bucket when its gradients are averages.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.nn.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.optim.optimizer import Optimizer

__all__ = ["_apply_optimizer_in_backward", "_get_in_backward_optimizers", "step", "unhook"]


def step(parameter: Any) -> None:
    """Step the optimizers of a parameter, and let its gradient go."""
    for optimizer in parameter._in_backward_optimizers:
        optimizer.step()
    parameter.grad = None


def unhook(parameter: Any) -> None:
    """Let nothing step the optimizers of a parameter but who calls `step`."""
    for handle in parameter._in_backward_handles:
        handle.remove()
    parameter._in_backward_handles = []


def _apply_optimizer_in_backward(
    optimizer_class: type[Optimizer], params: Iterable[Parameter], optimizer_kwargs: dict[str, Any],
    register_hook: bool = True,
) -> None:  # fmt: skip
    """Make an optimizer for each parameter. Without `register_hook` nothing steps it.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(2, 1, bias=False)
    >>> _ = torch.nn.init.ones_(layer.weight)
    >>> _apply_optimizer_in_backward(torch.optim.SGD, layer.parameters(), {"lr": 0.5})
    >>> layer(torch.ones(1, 2)).sum().backward()
    >>> layer.weight.tolist(), layer.weight.grad
    ([[0.5, 0.5]], None)
    """
    for parameter in params:
        made: Any = parameter
        if not hasattr(made, "_in_backward_optimizers"):
            made._in_backward_optimizers, made._in_backward_handles = [], []
            made._optimizer_classes, made._optimizer_kwargs = [], []
        made._in_backward_optimizers.append(optimizer_class([parameter], **optimizer_kwargs))
        made._optimizer_classes.append(optimizer_class)
        made._optimizer_kwargs.append(optimizer_kwargs)
        if register_hook:
            handle = parameter.register_post_accumulate_grad_hook(step)
            made._in_backward_handles.append(handle)


def _get_in_backward_optimizers(module: Module) -> list[Optimizer]:
    """The optimizers that were made so for the parameters of a module."""
    return [
        optimizer
        for parameter in module.parameters()
        for optimizer in getattr(parameter, "_in_backward_optimizers", ())
    ]
