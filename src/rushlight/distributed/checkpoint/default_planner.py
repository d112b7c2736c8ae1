"""`DefaultSavePlanner`, `DefaultLoadPlanner`: nested states as flat names, each part written once, boxes of parts read."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Mapping, Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed.checkpoint._dedup_save_plans import dedup_save_plans
from rushlight.distributed.checkpoint._nested_dict import flatten_state_dict
from rushlight.distributed.checkpoint._traverse import Path, set_element
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    WriteItem,
    WriteItemType,
)
from rushlight.distributed.checkpoint.planner_helpers import (
    _create_default_metadata_only_plan,
    _create_read_items,
    _create_write_items,
    overlap,
)
from rushlight.distributed.checkpoint.utils import box, find_state_dict_object

__all__ = [
    "DefaultLoadPlanner", "DefaultSavePlanner", "create_default_global_load_plan", "create_default_global_save_plan",
    "create_default_local_load_plan", "create_default_local_save_plan",
]  # fmt: skip


# -- saving ------------------------------------------------------------------------------------------


def create_default_local_save_plan(
    state_dict: Mapping[str, Any], is_coordinator: bool = False
) -> SavePlan:
    """What this process has of a flat state."""
    return SavePlan([
        item for name, value in state_dict.items() for item in _create_write_items(name, value)
    ])  # fmt: skip


def create_default_global_save_plan(
    all_plans: Sequence[SavePlan], rewrite_index_hints: bool = True
) -> tuple[list[SavePlan], Metadata]:
    """What the checkpoint has when all this is written, and plans whose items say where they stand in it."""
    state: dict[str, Any] = {}
    numbered = []
    for plan in all_plans:
        items = []
        for item in plan.items:
            name, data = item.index.fqn, item.tensor_data
            if data is None:
                state[name] = BytesStorageMetadata()
                items.append(item)
                continue
            entry = state.setdefault(name, TensorStorageMetadata(data.properties, data.size, []))
            if entry.size != data.size:
                raise ValueError(
                    f"{name} has size {tuple(entry.size)} on one process and {tuple(data.size)} on another"
                )
            index = dataclasses.replace(item.index, index=len(entry.chunks))
            entry.chunks.append(data.chunk)
            items.append(dataclasses.replace(item, index=index) if rewrite_index_hints else item)
        numbered.append(dataclasses.replace(plan, items=items))
    return numbered, Metadata(state)


def _create_default_local_metadata(state_dict: Mapping[str, Any]) -> Metadata:
    """What a checkpoint of this process alone would have."""
    return create_default_global_save_plan([_create_default_metadata_only_plan(state_dict)])[1]


def _problem(name: str, entry: TensorStorageMetadata) -> str | None:
    """Why parts do not make the whole tensor: each element must be in one."""
    whole = ChunkStorageMetadata(type(entry.size)([0] * len(entry.size)), entry.size)
    for k, chunk in enumerate(entry.chunks):
        if overlap(chunk, whole) != (list(chunk.offsets), list(chunk.sizes)):
            return f"key:{name} has out of bounds chunk: tensor-size:{entry.size} chunk: {chunk}"
        for other in entry.chunks[:k]:
            if all(n > 0 for n in overlap(chunk, other)[1]):
                return f"key:{name} has overlapping chunks: {chunk} {other}"
    if sum(chunk.sizes.numel() for chunk in entry.chunks) != entry.size.numel():
        return f"the parts of {name} do not make a tensor of size {tuple(entry.size)}"
    return None


def _validate_global_plan(global_plan: Sequence[SavePlan], metadata: Metadata) -> list[str]:
    """What is wrong with a checkpoint that would be written."""
    tensors = [
        (name, entry)
        for name, entry in metadata.state_dict_metadata.items()
        if isinstance(entry, TensorStorageMetadata)
    ]
    return [problem for pair in tensors if (problem := _problem(*pair)) is not None]


class DefaultSavePlanner(SavePlanner):
    """Writes each part of a spread tensor once, and what all processes have on one of them, in turn."""

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, dedup_replicated_tensors: Any = None,
        dedup_save_to_lowest_rank: bool = False, enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict, self.flatten_sharded_tensors = (
            flatten_state_dict,
            flatten_sharded_tensors,
        )
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.mappings: dict[str, Path] = {}

    def set_up_planner(
        self, state_dict: dict, storage_meta: Any = None, is_coordinator: bool = False
    ) -> None:
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        self.plan = create_default_local_save_plan(self.state_dict, self.is_coordinator)
        if self.flatten_state_dict:
            self.plan = dataclasses.replace(self.plan, planner_data=self.mappings)
        return self.plan

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans = dedup_save_plans(all_plans, self.dedup_save_to_lowest_rank)
        plans, self.metadata = create_default_global_save_plan(plans)
        if self.flatten_state_dict:
            merged = {name: path for plan in all_plans for name, path in plan.planner_data.items()}
            self.metadata = dataclasses.replace(self.metadata, planner_data=merged)
        if problems := _validate_global_plan(plans, self.metadata):
            raise ValueError("Failed to validate global plan: " + "; ".join(problems))
        self.global_plan = plans
        return plans, self.metadata

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        self.plan = new_plan
        return new_plan

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        return self.transform_object(write_item, self.lookup_object(write_item.index))

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value, or the part of a tensor, of an item."""
        return find_state_dict_object(self.state_dict, index)

    def transform_object(self, write_item: WriteItem, object: Any) -> Any:
        """What is written of it: an object as `save` writes it."""
        if write_item.type is not WriteItemType.BYTE_IO:
            return object.detach()
        packed = io.BytesIO()
        rushlight.save(object, packed)
        return packed


# -- loading -----------------------------------------------------------------------------------------


def create_default_local_load_plan(
    state_dict: Mapping[str, Any], metadata: Metadata, strict: bool = True
) -> LoadPlan:
    """What this process reads for a flat state. RuntimeError if something is missing, unless not `strict`."""
    items = []
    for name, value in state_dict.items():
        if name not in metadata.state_dict_metadata:
            if strict:
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            continue
        entry = metadata.state_dict_metadata[name]
        sizes = getattr(entry, "size", None), getattr(value, "size", None)
        if None not in sizes and sizes[0] != value.size():
            raise ValueError(
                f"Size mismatch between saved {entry.size} and current: {value.size()} for {name}"
            )
        items += _create_read_items(name, entry, value)
    return LoadPlan(items)


def create_default_global_load_plan(all_plans: list[LoadPlan]) -> list[LoadPlan]:
    """The plans, as they are."""
    return all_plans


class DefaultLoadPlanner(LoadPlanner):
    """Fills the tensors of a state in place, from whatever parts there are, and exchanges its other values."""

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load
        self.flatten_sharded_tensors = flatten_sharded_tensors
        self.mappings: dict[str, Path] = {}

    def set_up_planner(
        self, state_dict: dict, metadata: Any = None, is_coordinator: bool = False
    ) -> None:
        self.original_state_dict, self.metadata = state_dict, metadata
        if self.flatten_state_dict:
            state_dict, self.mappings = flatten_state_dict(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        return create_default_local_load_plan(
            self.state_dict, self.metadata, not self.allow_partial_load
        )

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return create_default_global_load_plan(global_plan)

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name = read_item.dest_index.fqn
        found = self.state_dict[name] = rushlight.load(value, weights_only=True)
        if self.flatten_state_dict:
            set_element(self.original_state_dict, self.mappings[name], found)

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        return self.transform_tensor(read_item, self.lookup_tensor(read_item.dest_index))

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        pass

    def lookup_tensor(self, index: MetadataIndex) -> Tensor:
        """The tensor, or the part of this process, that an item fills."""
        return find_state_dict_object(self.state_dict, index)

    def transform_tensor(self, read_item: ReadItem, tensor: Tensor) -> Tensor:
        """Where in it the box goes."""
        return box(tensor, read_item.dest_offsets, read_item.lengths)


class _EmptyStateDictLoadPlanner(DefaultLoadPlanner):
    """Fills an empty state with all that a checkpoint has, or with the entries that `keys` names by the beginning of their paths."""

    def __init__(self, keys: set[str] | None = None, *args: Any, **kwargs: Any) -> None:
        self.keys = keys
        super().__init__(*args, **kwargs)

    def set_up_planner(
        self, state_dict: dict, metadata: Any = None, is_coordinator: bool = False
    ) -> None:
        if state_dict:
            raise AssertionError("an empty state is wanted")
        paths = metadata.planner_data or {}
        for name, entry in metadata.state_dict_metadata.items():
            path = paths.get(name, (name,))
            if self._should_include_key(name, path):
                value = None
                if isinstance(entry, TensorStorageMetadata):
                    value = rushlight.empty(entry.size, dtype=entry.properties.dtype)
                set_element(state_dict, path, value)
        super().set_up_planner(state_dict, metadata, is_coordinator)

    def _should_include_key(self, name: str, path: Path) -> bool:
        if self.keys is None or name in self.keys:
            return True
        return any(".".join(map(str, path[:k])) in self.keys for k in range(1, len(path) + 1))
