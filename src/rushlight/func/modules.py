"""Modules for function transforms: the state of several stacked, and batch norms without state."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor

__all__ = ["replace_all_batch_norm_modules_", "stack_module_state"]


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
