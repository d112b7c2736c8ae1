"""`torch.distributed._functional_collectives`: collectives that return new tensors, with gradients.

The result is there when the call returns, so `wait_tensor` has nothing to wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import groups
from rushlight.distributed.absent import absent_class
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.group_table import tag_of
from rushlight.distributed.nn import functional
from rushlight.distributed.process_group import ProcessGroup
from rushlight.distributed.reductions import ReduceOp

__all__ = [
    "AsyncCollectiveTensor", "all_gather_into_tensor_coalesced", "all_gather_single", "all_gather_single_autograd",
    "all_gather_single_coalesced", "all_gather_tensor", "all_gather_tensor_autograd", "all_reduce",
    "all_reduce_coalesced", "all_to_all_single", "all_to_all_single_autograd", "broadcast", "permute_tensor",
    "reduce_scatter_single", "reduce_scatter_single_autograd", "reduce_scatter_single_coalesced", "reduce_scatter_tensor",
    "reduce_scatter_tensor_autograd", "reduce_scatter_tensor_coalesced", "wait_tensor",
]  # fmt: skip


def _group(group: Any) -> ProcessGroup:
    """What a group may be given as: itself, its name, a mesh of one dimension, a mesh and a dimension, or ranks."""
    if isinstance(group, DeviceMesh):
        if group.ndim != 1:
            raise AssertionError(
                "Only 1D mesh is supported, pass in (DeviceMesh, int) together if mesh > 1D"
            )
        return group.get_group()
    if isinstance(group, tuple):
        if len(group) != 2 or not isinstance(group[0], DeviceMesh) or not isinstance(group[1], int):
            raise ValueError(
                f"Invalid tuple for group must be (DeviceMesh, int). Instead got {tuple(map(type, group))}"
            )
        return group[0].get_group(group[1])
    if isinstance(group, str):
        return groups.named(group)
    if isinstance(group, list):
        return groups.of_ranks(group)
    return groups._resolve(group)


def _expand_group(group: Any, tag: str = "") -> tuple[str, list[int], int]:
    """(tag, ranks, size) of what a group may be given as; several lists of ranks stand for as many groups."""
    if isinstance(group, list) and group and isinstance(group[0], list):
        if len({len(row) for row in group}) > 1:
            raise ValueError(f"group sizes must be identical found {[*map(len, group)]}")
        return tag, [rank for row in group for rank in row], len(group[0])
    if isinstance(group, list):
        return tag, group, len(group)
    found = _group(group)
    return tag or tag_of(found), found.ranks, found.size()


def _op(name: str) -> Any:
    return getattr(ReduceOp, name.upper())


def wait_tensor(tensor: Tensor) -> Tensor:
    """The tensor itself."""
    return tensor


def broadcast(self: Tensor, src: int, group: Any, tag: str = "") -> Tensor:
    """What the process of rank `src` in the job has."""
    return functional.broadcast(self, src, _group(group))


def all_reduce(self: Tensor, reduceOp: str, group: Any, tag: str = "") -> Tensor:
    """The reduction of what all processes have: "sum", "avg", "product", "min", "max"."""
    return functional.all_reduce(self, _op(reduceOp), _group(group))


def all_gather_tensor(self: Tensor, gather_dim: int, group: Any, tag: str = "") -> Tensor:
    """What all processes have, in one tensor along a dimension."""
    return rushlight.cat(functional.all_gather(self, _group(group)), gather_dim)


def reduce_scatter_tensor(
    self: Tensor, reduceOp: str, scatter_dim: int, group: Any, tag: str = ""
) -> Tensor:
    """This process's part, along a dimension, of the reduction of what all have."""
    known = _group(group)
    if self.size(scatter_dim) % known.size():
        raise AssertionError(
            f"input dimension 0 ({self.size(scatter_dim)} must be a multiple of group_size {known.size()}"
        )
    parts = self.chunk(known.size(), scatter_dim)
    return functional.reduce_scatter(parts[known.rank()], parts, _op(reduceOp), known)


def all_to_all_single(
    self: Tensor, output_split_sizes: Sequence[int] | None, input_split_sizes: Sequence[int] | None, group: Any,
    tag: str = "",
) -> Tensor:  # fmt: skip
    """Rows of each process for each: `input_split_sizes` go to them, `output_split_sizes` come."""
    rows = self.size(0) if output_split_sizes is None else sum(output_split_sizes)
    output = self.new_empty(rows, *self.shape[1:])
    return functional.all_to_all_single(
        output, self, output_split_sizes, input_split_sizes, _group(group)
    )


def permute_tensor(self: Tensor, src_dst: Sequence[int], group: Any, tag: str = "") -> Tensor:
    """What the process `k` has goes to the process `src_dst[k]`."""
    known = _group(group)
    into, out = [0] * known.size(), [0] * known.size()
    for source, target in enumerate(src_dst):
        if source == known.rank():
            out[target] = self.numel()
        if target == known.rank():
            into[source] = self.numel()
    row = all_to_all_single(self.reshape(-1), into, out, known)
    return row.view(self.shape)


def all_reduce_coalesced(
    self: Sequence[Tensor], reduceOp: str, group: Any, tag: str = ""
) -> list[Tensor]:
    """`all_reduce` of several tensors."""
    return [all_reduce(tensor, reduceOp, group) for tensor in self]


def all_gather_into_tensor_coalesced(
    self: Sequence[Tensor], group: Any, tag: str = ""
) -> list[Tensor]:
    """`all_gather_tensor` of several tensors along the first dimension."""
    return [all_gather_tensor(tensor, 0, group) for tensor in self]


def reduce_scatter_tensor_coalesced(
    inputs: Sequence[Tensor], reduceOp: str, scatter_dim: Sequence[int], group: Any, tag: str = ""
) -> list[Tensor]:
    """`reduce_scatter_tensor` of several tensors."""
    return [
        reduce_scatter_tensor(tensor, reduceOp, dim, group)
        for tensor, dim in zip(inputs, scatter_dim)
    ]


all_gather_tensor_autograd = all_gather_tensor
reduce_scatter_tensor_autograd = reduce_scatter_tensor
all_to_all_single_autograd = all_to_all_single
# newer names
all_gather_single = all_gather_single_autograd = all_gather_tensor
all_gather_single_coalesced = all_gather_into_tensor_coalesced
reduce_scatter_single = reduce_scatter_single_autograd = reduce_scatter_tensor
reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced

AsyncCollectiveTensor = absent_class(__name__, "AsyncCollectiveTensor")  # no result is on its way
