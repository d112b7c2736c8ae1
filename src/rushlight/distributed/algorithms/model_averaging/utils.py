"""Averages of parameters over processes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.groups import _rank_not_in_group, _resolve
from rushlight.nn import Parameter

__all__ = [
    "average_parameters", "average_parameters_or_parameter_groups", "get_params_to_average",
]  # fmt: skip


def average_parameters(params: Iterator[Tensor], process_group: Any) -> None:
    """Give parameters their average over a group, those of one dtype in one message."""
    if _rank_not_in_group(process_group):
        return
    group = _resolve(process_group)
    rows: dict[Any, list[Tensor]] = {}
    for p in params:
        rows.setdefault(p.dtype, []).append(p.detach())
    if not rows:  # as PyTorch, which joins them
        raise ValueError(
            "torch.cat(): expected a non-empty list of Tensors: no parameter has a gradient"
        )
    with rushlight.no_grad():
        for alike in rows.values():
            flat = rushlight.cat([p.reshape(-1) for p in alike]).div_(group.size())
            collectives.all_reduce(flat, group=group)
            for p, part in zip(alike, flat.split([p.numel() for p in alike]), strict=True):
                p.copy_(part.view(p.shape))


def get_params_to_average(params: Iterable[Any]) -> list[Tensor]:
    """The parameters that have a gradient, of parameters or of an optimizer's groups."""
    found: list[Tensor] = []
    for each in params:
        if not isinstance(each, Parameter | dict):
            raise NotImplementedError(f"Parameter input of type {type(each)} is not supported")
        found += each["params"] if isinstance(each, dict) else [each]
    return [p for p in found if p.grad is not None]


def average_parameters_or_parameter_groups(params: Iterable[Any], process_group: Any) -> None:
    """Give the parameters that have a gradient their average, those of a model or of an optimizer's groups."""
    average_parameters(iter(get_params_to_average(params)), process_group)
