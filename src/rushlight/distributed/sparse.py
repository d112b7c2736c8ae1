"""Reductions of sparse tensors: every process gets the indices and values of all."""

from __future__ import annotations

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import objects
from rushlight.distributed.process_group import ProcessGroup

__all__ = ["sparse_sum"]


def sparse_sum(tensor: Tensor, group: ProcessGroup) -> Tensor:
    """The sum of what all processes have."""
    mine = tensor.coalesce()
    found: list = [None] * group.size()
    objects.all_gather_object(found, (mine.indices(), mine.values()), group)
    indices, values = (
        rushlight.cat(parts, -1 if k == 0 else 0) for k, parts in enumerate(zip(*found))
    )
    return rushlight.sparse_coo_tensor(indices, values, tensor.shape).coalesce()
