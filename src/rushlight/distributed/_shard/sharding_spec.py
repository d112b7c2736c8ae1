"""How a `ShardedTensor` is cut: into even chunks along one dimension, or into the boxes of a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from rushlight.core.size import Size
from rushlight.distributed.checkpoint.metadata import ChunkStorageMetadata, TensorProperties
from rushlight.distributed.checkpoint.planner_helpers import overlap
from rushlight.distributed.remote_device import _remote_device

__all__ = [
    "ChunkShardingSpec", "EnumerableShardingSpec", "ShardMetadata", "ShardedTensorMetadata", "ShardingSpec",
    "TensorProperties",
]  # fmt: skip


@dataclass
class ShardMetadata:
    """A part of a tensor: where it begins, its sizes, and which process has it."""

    shard_offsets: list[int]
    shard_sizes: list[int]
    placement: Any = None

    def __post_init__(self) -> None:
        if self.placement is not None and not isinstance(self.placement, _remote_device):
            self.placement = _remote_device(self.placement)
        if len(self.shard_offsets) != len(self.shard_sizes):
            raise ValueError(
                "shard_offsets and shard_sizes should have the same number of elements, found "
                f"{len(self.shard_offsets)} and {self.shard_sizes} respectively"
            )
        if any(n < 0 for n in self.shard_offsets):
            raise ValueError("shard_offsets should be >=0")
        if any(n < 0 for n in self.shard_sizes):
            raise ValueError("shard_sizes should be >= 0")

    def __hash__(self) -> int:
        return hash((*self.shard_offsets, *self.shard_sizes, self.placement))

    def chunk(self) -> ChunkStorageMetadata:
        """The part as checkpoints have it."""
        return ChunkStorageMetadata(Size(self.shard_offsets), Size(self.shard_sizes))


@dataclass
class ShardedTensorMetadata:
    """All parts of a tensor, its size, and what is needed to make one."""

    shards_metadata: list[ShardMetadata] = field(default_factory=list)
    size: Size = field(default_factory=lambda: Size([]))
    tensor_properties: TensorProperties = field(default_factory=TensorProperties)


class ShardingSpec:
    """How a tensor is cut."""

    def build_metadata(
        self, tensor_sizes: Size, tensor_properties: TensorProperties
    ) -> ShardedTensorMetadata:
        """The parts of a tensor of that size."""
        raise NotImplementedError


@dataclass
class ChunkShardingSpec(ShardingSpec):
    """The parts of `torch.chunk` along a dimension, one for each of the `placements`; the last ones may be empty."""

    dim: int
    placements: list[Any]

    def __post_init__(self) -> None:
        if isinstance(self.dim, str):
            raise NotImplementedError("ChunkShardingSpec does not support named dimension yet!")
        if not isinstance(self.dim, int):
            raise ValueError(f"Sharding dim needs to be an integer, found: {self.dim}")
        self.placements = [
            each if isinstance(each, _remote_device) else _remote_device(each)
            for each in self.placements
        ]

    def build_metadata(
        self, tensor_sizes: Size, tensor_properties: TensorProperties
    ) -> ShardedTensorMetadata:
        sizes = list(tensor_sizes)
        if not -len(sizes) <= self.dim < len(sizes):
            raise ValueError(f"Invalid sharding dim: {self.dim}")
        dim, whole = self.dim % len(sizes), sizes[self.dim]
        most = -(-whole // len(self.placements))
        shards = []
        for k, placement in enumerate(self.placements):
            first = min(k * most, whole)
            offsets, sizes[dim] = [0] * len(sizes), min(most, whole - first)
            offsets[dim] = first
            shards.append(ShardMetadata(offsets, list(sizes), placement))
        return ShardedTensorMetadata(shards, Size(tensor_sizes), tensor_properties)


@dataclass
class EnumerableShardingSpec(ShardingSpec):
    """Boxes that make the whole tensor."""

    shards: list[ShardMetadata]

    def __post_init__(self) -> None:
        if not self.shards:
            raise ValueError(f"Empty shard list provided: {self.shards}")
        rank = len(self.shards[0].shard_offsets)
        for k, shard in enumerate(self.shards):
            if len(shard.shard_offsets) != rank:
                raise ValueError(
                    f"Found inconsistent ranks for shards: {rank} and {len(shard.shard_offsets)}"
                )
            for other in self.shards[:k]:
                if all(n > 0 for n in overlap(shard.chunk(), other.chunk())[1]):
                    raise ValueError(f"Shards {other} and {shard} overlap")

    def build_metadata(
        self, tensor_sizes: Size, tensor_properties: TensorProperties
    ) -> ShardedTensorMetadata:
        check_tensor(self.shards, tensor_sizes)
        return ShardedTensorMetadata(self.shards, Size(tensor_sizes), tensor_properties)


def check_tensor(shards: Sequence[ShardMetadata], size: Sequence[int]) -> None:
    """ValueError unless the parts, none of which overlap, make a tensor of that size."""
    rank, size = len(shards[0].shard_offsets), Size(size)
    if rank != len(size):
        raise ValueError(f"Rank of tensor is {len(size)}, but shards rank is {rank}")
    whole = ChunkStorageMetadata(Size([0] * rank), size)
    for shard in shards:
        if overlap(shard.chunk(), whole)[1] != list(shard.shard_sizes):
            raise ValueError(f"Shard {shard} is outside of a tensor of size {tuple(size)}")
    volume = sum(shard.chunk().sizes.numel() for shard in shards)
    if volume != size.numel():
        raise ValueError(
            f"Total volume of shards: {volume} does not match tensor volume: {size.numel()}, in other words all the "
            "individual shards do not cover the entire tensor"
        )
