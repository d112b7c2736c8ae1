"""What a value of a state is written and read as: whole, in parts, or as an object.

A tensor of which processes have parts says itself what these are, by the methods of `torch.distributed._checkpointable`:
`__create_write_items__(name, tensor)`, `__create_chunk_list__()` and `__get_tensor_shard__(index)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadItemType,
    ReadItem,
    SavePlan,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)

__all__ = ["create_read_items_for_chunk_list"]


def _create_chunk_from_tensor(tensor: Tensor) -> ChunkStorageMetadata:
    """A whole tensor as a part."""
    return ChunkStorageMetadata(Size([0] * tensor.dim()), Size(tensor.size()))


def _create_write_item_for_tensor(fqn: str, tensor: Tensor) -> WriteItem:
    """A whole tensor."""
    return _create_write_item_for_part(
        fqn, tensor, _create_chunk_from_tensor(tensor), WriteItemType.TENSOR
    )


def _create_write_item_for_part(
    fqn: str, tensor: Tensor, chunk: ChunkStorageMetadata, kind: WriteItemType = WriteItemType.SHARD
) -> WriteItem:
    """A part of a tensor."""
    data = TensorWriteData(chunk, TensorProperties.create_from_tensor(tensor), Size(tensor.size()))
    return WriteItem(MetadataIndex(fqn, chunk.offsets), kind, tensor_data=data)


def _create_write_items(fqn: str, object: Any) -> list[WriteItem]:
    """What this process writes of a value."""
    if hasattr(object, "__create_write_items__"):
        return object.__create_write_items__(fqn, object)
    if isinstance(object, Tensor):
        return [_create_write_item_for_tensor(fqn, object)]
    return [WriteItem(MetadataIndex(fqn), WriteItemType.BYTE_IO)]


def _create_default_metadata_only_plan(state_dict: Mapping[str, Any]) -> SavePlan:
    """As if this process wrote all parts of tensors whose parts are listed, and of others those that it has."""
    from rushlight.distributed._shard.sharded_tensor import ShardedTensor

    items = []
    for name, value in state_dict.items():
        if isinstance(value, ShardedTensor):
            for shard in value.metadata().shards_metadata:
                items.append(_create_write_item_for_part(name, value, shard.chunk()))
        else:
            items += _create_write_items(name, value)
    return SavePlan(items)


def _create_chunk_list(tensor: Tensor) -> list[ChunkStorageMetadata]:
    """The parts of a tensor that this process has."""
    if hasattr(tensor, "__create_chunk_list__"):
        return tensor.__create_chunk_list__()
    return [_create_chunk_from_tensor(tensor)]


def _create_read_items(fqn: str, md: Any, obj: Any) -> list[ReadItem]:
    """What this process reads for a value of its state. ValueError for an object whose place in the checkpoint has a tensor."""
    if isinstance(md, BytesStorageMetadata):
        whole, none = MetadataIndex(fqn), Size([0])
        return [ReadItem(LoadItemType.BYTE_IO, whole, none, whole, none, none)]
    if not isinstance(obj, Tensor):
        raise ValueError(
            f"Invalid checkpoint metadata for {fqn}, expected BytesStorageMetadata but found {type(md)}"
        )
    return create_read_items_for_chunk_list(fqn, md, _create_chunk_list(obj))


def create_read_items_for_chunk_list(
    fqn: str, checkpoint_md: TensorStorageMetadata, local_chunks: Sequence[ChunkStorageMetadata]
) -> list[ReadItem]:
    """The boxes of stored parts that parts of this process consist of."""
    found = []
    for number, mine in enumerate(local_chunks):
        for k, chunk in enumerate(checkpoint_md.chunks):
            first, lengths = overlap(chunk, mine)
            if all(n > 0 for n in lengths):
                found.append(ReadItem(
                    LoadItemType.TENSOR,
                    MetadataIndex(fqn, mine.offsets, number), Size(a - b for a, b in zip(first, mine.offsets)),
                    MetadataIndex(fqn, chunk.offsets, k), Size(a - b for a, b in zip(first, chunk.offsets)),
                    Size(lengths),
                ))  # fmt: skip
    return found


def overlap(one: ChunkStorageMetadata, other: ChunkStorageMetadata) -> tuple[list[int], list[int]]:
    """(where it begins, its sizes) of what two parts have in common; a size is 0 or negative where it is nothing."""
    first = [max(a, b) for a, b in zip(one.offsets, other.offsets)]
    ends = [
        min(a + n, b + m) for a, n, b, m in zip(one.offsets, one.sizes, other.offsets, other.sizes)
    ]
    return first, [end - begin for begin, end in zip(first, ends)]
