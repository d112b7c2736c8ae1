"""`DTensorSpec`: what the processes know of a tensor that is spread over a mesh."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from rushlight.core.tensor import Tensor
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor.placement_types import (
    Placement,
    Replicate,
    Shard,
    order_of_cuts,
)

__all__ = ["DTensorSpec", "compute_local_shape_and_global_offset"]


class DTensorSpec(NamedTuple):
    """The mesh, a placement for each of its dimensions, and the shape, strides and dtype of the whole tensor."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any

    @property
    def device_mesh(self) -> DeviceMesh:
        """The mesh."""
        return self.mesh

    @property
    def ndim(self) -> int:
        """The number of dimensions of the tensor."""
        return len(self.shape)

    def bytes(self) -> int:
        """The size of the whole tensor."""
        size = self.dtype.itemsize
        for n in self.shape:
            size *= n
        return size

    def placed(self, placements: Sequence[Placement]) -> DTensorSpec:
        """The same tensor at other places."""
        return self._replace(placements=tuple(placements))

    def local_shape(self) -> tuple[int, ...]:
        """The shape of this process's part."""
        return compute_local_shape_and_global_offset(self.shape, self.mesh, self.placements)[0]

    def parts(self, dim: int) -> int:
        """Into how many parts a dimension of the tensor is cut."""
        count = 1
        for i, p in enumerate(self.placements):
            count *= self.mesh.size(i) if p.is_shard(dim) else 1
        return count

    def even(self, dim: int) -> bool:
        """Whether all parts of a dimension have one size."""
        return self.shape[dim] % self.parts(dim) == 0


def spec_of(t: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]) -> DTensorSpec:
    """The spec of a tensor of which each process has the whole."""
    return DTensorSpec(mesh, tuple(placements), tuple(t.shape), tuple(t.stride()), t.dtype)


def size_of_parts(
    local: Tensor, mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple, tuple]:
    """(shape, strides) of the tensor of which all processes have such a part."""
    shape, stride = list(local.shape), list(local.stride())
    for i, p in enumerate(placements):
        if isinstance(p, Shard):
            n = mesh.size(i)
            shape[p.dim] *= n
            stride = [s * n if s > stride[p.dim] else s for s in stride]
    return tuple(shape), tuple(stride)


def compute_local_shape_and_global_offset(
    global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(the shape of this process's part, where it begins in the whole tensor)."""
    coordinate = mesh.get_coordinate()
    return ((0,), ()) if coordinate is None else part_at(coordinate, global_shape, mesh, placements)


def part_at(
    coordinate: Sequence[int], global_shape: Sequence[int], mesh: DeviceMesh, placements: Sequence[Placement]
) -> tuple[tuple[int, ...], tuple[int, ...]]:  # fmt: skip
    """(the shape of the part of the process at a place in the mesh, where it begins)."""
    shape, offset = list(global_shape), [0] * len(global_shape)
    for i in order_of_cuts(placements):
        placement = placements[i]
        if isinstance(placement, Shard):
            d = placement.dim
            if d >= len(shape):
                raise ValueError(
                    f"Sharding dim {d} greater than tensor ndim {len(shape)} for placement number {i}."
                )
            shape[d], first = placement.local_shard_size_and_offset(
                shape[d], mesh.size(i), coordinate[i]
            )
            offset[d] += first
    return tuple(shape), tuple(offset)


def normalized(placements: Sequence[Placement] | None, mesh: DeviceMesh, ndim: int) -> tuple:
    """Placements for all dimensions of a mesh, with dimensions of the tensor counted from the front."""
    if placements is None:
        return (Replicate(),) * mesh.ndim
    count = 1 if isinstance(placements, Placement) else len(placements)
    if isinstance(placements, Placement) or count != mesh.ndim:
        raise ValueError(
            f"`placements` must have the same length as `device_mesh.ndim`! Found placements length: {count}, "
            f"and device_mesh.ndim: {mesh.ndim}."
        )
    found = []
    for p in placements:
        if isinstance(p, Shard):
            if not -ndim <= p.dim < max(ndim, 1):
                raise AssertionError(f"Sharding dim {p.dim} greater than tensor ndim {ndim}")
            p = Shard(p.dim % ndim) if p.dim < 0 else p
        elif not isinstance(p, Placement):
            raise RuntimeError(f"placements must be Shard, Replicate or Partial, got {p!r}")
        found.append(p)
    return tuple(found)
