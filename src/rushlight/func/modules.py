"""Modules for function transforms: called with other state, the state of several stacked, and batch norms without state."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.nn.utils import stateless

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def functional_call(
    module: torch.nn.Module,
    parameter_and_buffer_dicts: Any,
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """Call a module with the tensors of a dictionary, or of several, in place of its parameters and buffers.

    >>> import rushlight as torch
    >>> layer = torch.nn.Linear(2, 1)
    >>> weights = {"weight": torch.ones(1, 2), "bias": torch.zeros(1)}
    >>> torch.func.functional_call(layer, weights, (torch.ones(1, 2),))
    tensor([[2.]])
    """
    return stateless.functional_call(
        module, parameter_and_buffer_dicts, args, kwargs, tie_weights=tie_weights, strict=strict
    )


def stack_module_state(models: list) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """(parameters, buffers) of several modules of one class, stacked by name: for `vmap` over models."""
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if len({m.training for m in models}) > 1:
        raise RuntimeError(
            "stack_module_state: Expected all models to have the same training/eval mode."
        )
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")

    def stacked(of: str) -> dict[str, Tensor]:
        tables = [dict(getattr(m, of)()) for m in models]
        made = {}
        for name, first in tables[0].items():
            if any(table[name].requires_grad != first.requires_grad for table in tables):
                raise RuntimeError(
                    f"Expected {name} from each model to have the same .requires_grad"
                )
            each = torch.stack([table[name] for table in tables]).detach()
            made[name] = each.requires_grad_(first.requires_grad)
        return made

    return stacked("named_parameters"), stacked("named_buffers")


def replace_all_batch_norm_modules_(root: Any) -> Any:
    """Make all batch norms of a module, in place, use the statistics of the batch only."""
    from rushlight.nn.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
