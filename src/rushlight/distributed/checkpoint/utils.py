"""Values and parts of tensors by their indices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.checkpoint.metadata import MetadataIndex

__all__ = ["find_state_dict_object", "find_tensor_shard"]


def find_tensor_shard(tensor: Tensor, index: MetadataIndex) -> Tensor:
    """The part of a tensor that an index means; ValueError if this process does not have it."""
    if hasattr(tensor, "__get_tensor_shard__"):
        return tensor.__get_tensor_shard__(index)
    if index.offset is not None and any(index.offset):
        raise ValueError(
            f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'"
        )
    return tensor


def find_state_dict_object(state_dict: Mapping, index: MetadataIndex) -> Any:
    """The value, or the part of a tensor, that an index means. ValueError if it is not there."""
    if index.fqn not in state_dict:
        raise ValueError(f"Could not find FQN: '{index.fqn}'")
    value = state_dict[index.fqn]
    if isinstance(value, Tensor):
        return find_tensor_shard(value, index)
    if index.offset is not None:
        raise ValueError(
            f"FQN: '{index.fqn}' is not a ShardedTensor, can't find by offset: '{index.offset}'"
        )
    return value


def box(tensor: Tensor, offsets: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """A box of a tensor, as a view."""
    for dim, (first, size) in enumerate(zip(offsets, lengths)):
        tensor = tensor.narrow(dim, first, size)
    return tensor
