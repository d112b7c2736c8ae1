"""What a pickle has of a spread tensor's spec, under PyTorch's names: files of either library can be read by the other.

Elsewhere a spec is the tuple of spec.py.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import rushlight
from rushlight.distributed.device_mesh import DeviceMesh
from rushlight.distributed.tensor import placement_types as placed
from rushlight.distributed.tensor import spec as own

__all__ = ["DTensorSpec", "ShardOrderEntry", "TensorMeta"]


class TensorMeta(NamedTuple):
    """What is known of the whole tensor."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: Any


class ShardOrderEntry(NamedTuple):
    """A dimension of the tensor, and those of the mesh that cut it, in order."""

    tensor_dim: int
    mesh_dims: tuple[int, ...]


@dataclass
class DTensorSpec:
    """A spec as a pickle has it."""

    mesh: DeviceMesh
    placements: tuple[placed.Placement, ...]
    tensor_meta: TensorMeta
    shard_order: tuple[ShardOrderEntry, ...] | None
    use_strided_shard_as_shard_order: bool
    _hash: int | None = None

    @classmethod
    def of(cls, spec: own.DTensorSpec) -> DTensorSpec:
        """What a pickle has of a spec."""
        meta = TensorMeta(rushlight.Size(spec.shape), spec.stride, spec.dtype)
        strided = any(isinstance(p, placed._StridedShard) for p in spec.placements)
        cuts: dict[int, list[int]] = {}
        for i, p in enumerate(spec.placements):
            if isinstance(p, placed.Shard):
                cuts.setdefault(p.dim, []).append(i)
        order = tuple(ShardOrderEntry(dim, tuple(cuts[dim])) for dim in sorted(cuts))
        return cls(spec.mesh, spec.placements, meta, None if strided else order, strided)

    def spec(self) -> own.DTensorSpec:
        """The spec."""
        plain = DTensorSpec.of(own.DTensorSpec(self.mesh, self.placements, (), (), None))
        if (self.shard_order or ()) != (plain.shard_order or ()):
            raise NotImplementedError(
                f"a DTensor whose dimensions the mesh cuts in the order {self.shard_order}: here "
                f"earlier dimensions of the mesh cut first ({plain.shard_order})"
            )
        shape, stride, dtype = self.tensor_meta
        return own.DTensorSpec(
            self.mesh, tuple(self.placements), tuple(shape), tuple(stride), dtype
        )
