"""`DefaultSavePlanner`, `DefaultLoadPlanner`: nested states as flat names, each part written once, boxes of parts read."""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Mapping
from typing import Any

import rushlight
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.distributed.checkpoint.metadata import (
    BytesStorageMetadata,
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
    TensorWriteData,
    WriteItem,
    WriteItemType,
)
from rushlight.distributed.tensor import DTensor, Replicate
from rushlight.distributed.tensor.spec import compute_local_shape_and_global_offset

__all__ = ["DefaultLoadPlanner", "DefaultSavePlanner"]


# -- nested states -----------------------------------------------------------------------------------


def entries(state: Any, path: tuple = ()) -> Iterator[tuple[tuple, Any]]:
    """(path, value) of all values of a nested state. Lists of numbers and text are values."""
    if isinstance(state, Mapping) and state:
        for key, value in state.items():
            yield from entries(value, (*path, key if isinstance(key, int) else str(key)))
    elif isinstance(state, (list, tuple)) and any(
        isinstance(v, (Tensor, Mapping, list)) for v in state
    ):
        for k, value in enumerate(state):
            yield from entries(value, (*path, k))
    else:
        yield path, state


def flattened(state: Mapping) -> tuple[dict[str, Any], dict[str, tuple]]:
    """(name -> value, name -> path). ValueError if two paths have one name."""
    values: dict[str, Any] = {}
    paths: dict[str, tuple] = {}
    for path, value in entries(state):
        name = ".".join(map(str, path))
        if name in values:
            raise ValueError(f"duplicated flatten key {name}")
        values[name], paths[name] = value, path
    return values, paths


def put(state: Any, path: tuple, value: Any) -> None:
    """Put a value at a path of a nested state."""
    for key in path[:-1]:
        state = state[_key(state, key)]
    if isinstance(state, tuple):
        raise TypeError("a value in a tuple cannot be loaded")
    state[_key(state, path[-1])] = value


def _key(state: Any, key: Any) -> Any:
    """The key that is in a mapping: one that was no text was written as text."""
    if isinstance(state, Mapping) and key not in state:
        return next((k for k in state if str(k) == key), key)
    return key


# -- parts -------------------------------------------------------------------------------------------


def chunk_of(t: Tensor) -> ChunkStorageMetadata:
    """The part of a tensor that this process has."""
    if isinstance(t, DTensor):
        shape, offset = compute_local_shape_and_global_offset(t.shape, t.device_mesh, t.placements)
        return ChunkStorageMetadata(Size(offset), Size(shape))
    return ChunkStorageMetadata(Size([0] * t.ndim), Size(t.shape))


def local(t: Tensor) -> Tensor:
    """The memory of that part."""
    if not isinstance(t, DTensor):
        return t.detach()
    if any(p.is_partial() for p in t.placements):
        raise ValueError(
            "a DTensor with Partial placements cannot be saved or loaded: redistribute it"
        )
    return t._local_tensor


def writes(t: DTensor) -> bool:
    """Whether this process is the first of those that have its part."""
    coordinate = t.device_mesh.get_coordinate()
    if coordinate is None or 0 in chunk_of(t).sizes:
        return False
    pairs = zip(t.placements, coordinate)
    return not any(isinstance(p, Replicate) and k for p, k in pairs)


class DefaultSavePlanner(SavePlanner):
    """Writes each part of a spread tensor once, and what all processes have on one of them, in turn."""

    def __init__(
        self, flatten_state_dict: bool = True, flatten_sharded_tensors: bool = True, dedup_replicated_tensors: Any = None,
        dedup_save_to_lowest_rank: bool = False, enable_plan_caching: bool = False,
    ) -> None:  # fmt: skip
        self.flatten_state_dict = flatten_state_dict
        self.dedup_save_to_lowest_rank = dedup_save_to_lowest_rank
        self.paths: dict[str, tuple] = {}

    def set_up_planner(
        self, state_dict: dict, storage_meta: Any = None, is_coordinator: bool = False
    ) -> None:
        if self.flatten_state_dict:
            state_dict, self.paths = flattened(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> SavePlan:
        items = []
        for name, value in self.state_dict.items():
            if isinstance(value, Tensor):
                spread = isinstance(value, DTensor)
                if spread and not writes(value):
                    continue
                chunk = chunk_of(value)
                properties = TensorProperties(value.dtype, value.layout, value.requires_grad)
                data = TensorWriteData(chunk, properties, Size(value.shape))
                kind = WriteItemType.SHARD if spread else WriteItemType.TENSOR
                items.append(WriteItem(MetadataIndex(name, chunk.offsets), kind, data))
            else:
                items.append(WriteItem(MetadataIndex(name), WriteItemType.BYTE_IO))
        return SavePlan(items, planner_data=self.paths)

    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        plans = once(all_plans, self.dedup_save_to_lowest_rank)
        state: dict[str, Any] = {}
        numbered = []
        for plan in plans:
            items = []
            for item in plan.items:
                if item.tensor_data is None:
                    state[item.index.fqn] = BytesStorageMetadata()
                    items.append(item)
                    continue
                data = item.tensor_data
                entry = state.setdefault(
                    item.index.fqn, TensorStorageMetadata(data.properties, data.size, [])
                )
                if entry.size != data.size:
                    raise ValueError(
                        f"{item.index.fqn} has size {tuple(entry.size)} on one process and {tuple(data.size)} on another"
                    )
                index = dataclasses.replace(item.index, index=len(entry.chunks))
                entry.chunks.append(data.chunk)
                items.append(dataclasses.replace(item, index=index))
            numbered.append(dataclasses.replace(plan, items=items))
        paths: dict[str, tuple] = {}
        for plan in all_plans:
            paths |= plan.planner_data or {}
        for name, entry in state.items():
            if isinstance(entry, TensorStorageMetadata):
                covered(name, entry)
        return numbered, Metadata(state, paths if self.flatten_state_dict else None)

    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        return new_plan

    def lookup_object(self, index: MetadataIndex) -> Any:
        """The value of an entry."""
        return self.state_dict[index.fqn]

    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        value = self.lookup_object(write_item.index)
        if write_item.type is not WriteItemType.BYTE_IO:
            return local(value)
        packed = io.BytesIO()
        rushlight.save(value, packed)
        return packed


def once(plans: list[SavePlan], lowest: bool) -> list[SavePlan]:
    """Plans in which each item stands once: at the process with the fewest bytes, or the first."""
    owners: dict[MetadataIndex, list[int]] = {}
    sizes: dict[MetadataIndex, int] = {}
    for rank, plan in enumerate(plans):
        for item in plan.items:
            owners.setdefault(item.index, []).append(rank)
            sizes[item.index] = item.tensor_storage_size() or 1
    load, chosen = [0] * len(plans), {}
    for index, ranks in owners.items():
        rank = ranks[0] if lowest else min(ranks, key=load.__getitem__)
        chosen[index] = rank
        load[rank] += sizes[index]
    return [
        dataclasses.replace(plan, items=[i for i in plan.items if chosen[i.index] == rank])
        for rank, plan in enumerate(plans)
    ]


def covered(name: str, entry: TensorStorageMetadata) -> None:
    """ValueError unless the parts make the whole tensor."""
    if sum(chunk.sizes.numel() for chunk in entry.chunks) != entry.size.numel():
        raise ValueError(
            f"Failed to validate global plan: the parts of {name} do not make a tensor of size {tuple(entry.size)}"
        )


class DefaultLoadPlanner(LoadPlanner):
    """Fills the tensors of a state in place, from whatever parts there are, and exchanges its other values."""

    def __init__(
        self,
        flatten_state_dict: bool = True,
        flatten_sharded_tensors: bool = True,
        allow_partial_load: bool = False,
    ) -> None:
        self.flatten_state_dict, self.allow_partial_load = flatten_state_dict, allow_partial_load

    def set_up_planner(
        self, state_dict: dict, metadata: Any = None, is_coordinator: bool = False
    ) -> None:
        self.original_state_dict, self.metadata = state_dict, metadata
        self.paths: dict[str, tuple] = {}
        if self.flatten_state_dict:
            state_dict, self.paths = flattened(state_dict)
        self.state_dict, self.is_coordinator = state_dict, is_coordinator

    def create_local_plan(self) -> LoadPlan:
        there, items = self.metadata.state_dict_metadata, []
        for name, value in self.state_dict.items():
            if name not in there:
                if self.allow_partial_load:
                    continue
                raise RuntimeError(f"Missing key in checkpoint state_dict: {name}.")
            entry = there[name]
            if not isinstance(value, Tensor):
                whole = MetadataIndex(name)
                none = Size([0])
                items.append(ReadItem(LoadItemType.BYTE_IO, whole, none, whole, none, none))
            elif not isinstance(entry, TensorStorageMetadata):
                raise ValueError(f"{name} is a tensor here, and none in the checkpoint")
            elif entry.size != Size(value.shape):
                raise ValueError(
                    f"Size mismatch between saved {entry.size} and current: {Size(value.shape)} for {name}"
                )
            else:
                items += boxes(name, entry, chunk_of(value))
        return LoadPlan(items)

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        return global_plan

    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        return central_plan

    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        name = read_item.dest_index.fqn
        found = rushlight.load(value, weights_only=True)
        self.state_dict[name] = found
        if self.flatten_state_dict:
            put(self.original_state_dict, self.paths[name], found)

    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        t = local(self.state_dict[read_item.dest_index.fqn])
        return box(t, read_item.dest_offsets, read_item.lengths)

    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        pass


def boxes(name: str, entry: TensorStorageMetadata, mine: ChunkStorageMetadata) -> list[ReadItem]:
    """What has to be read of the stored parts for a part of this process."""
    found = []
    for k, chunk in enumerate(entry.chunks):
        first = [max(a, b) for a, b in zip(chunk.offsets, mine.offsets)]
        ends = [
            min(a + n, b + m)
            for a, n, b, m in zip(chunk.offsets, chunk.sizes, mine.offsets, mine.sizes)
        ]
        lengths = [end - begin for begin, end in zip(first, ends)]
        if all(n > 0 for n in lengths):
            found.append(ReadItem(
                LoadItemType.TENSOR,
                MetadataIndex(name, mine.offsets), Size(a - b for a, b in zip(first, mine.offsets)),
                MetadataIndex(name, chunk.offsets, k), Size(a - b for a, b in zip(first, chunk.offsets)),
                Size(lengths),
            ))  # fmt: skip
    return found


def box(t: Tensor, offsets: Any, lengths: Any) -> Tensor:
    """A box of a tensor, as a view."""
    for dim, (first, size) in enumerate(zip(offsets, lengths)):
        t = t.narrow(dim, first, size)
    return t
