"""Checkpoints of one file as folders, and back; `load` of a file that one process reads for all."""

from __future__ import annotations

import os
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, groups, objects
from rushlight.distributed.checkpoint._nested_dict import flatten_state_dict
from rushlight.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from rushlight.distributed.checkpoint.filesystem import FileSystemReader
from rushlight.distributed.checkpoint.metadata import (
    Metadata,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import LoadPlan, LoadPlanner, ReadItem
from rushlight.distributed.checkpoint.planner_helpers import _create_chunk_from_tensor
from rushlight.distributed.checkpoint.state_dict_loader import _load_state_dict
from rushlight.distributed.checkpoint.state_dict_saver import save
from rushlight.distributed.checkpoint.storage import StorageReader
from rushlight.distributed.checkpoint.utils import box
from rushlight.futures import Future

__all__ = ["BroadcastingTorchSaveReader", "DynamicMetaLoadPlanner", "dcp_to_torch_save", "torch_save_to_dcp"]  # fmt: skip


class BroadcastingTorchSaveReader(StorageReader):
    """Reads a file of `torch.save` on one process, which gives each tensor to all; for a state of tensors alone.

    It goes with a `DynamicMetaLoadPlanner`: `load(state, storage_reader=..., planner=..., checkpoint_id="model.pt")`.
    """

    def __init__(
        self, checkpoint_id: str | os.PathLike | None = None, coordinator_rank: int = 0
    ) -> None:
        self.checkpoint_id, self.coordinator_rank = checkpoint_id, coordinator_rank
        self.is_coordinator = False

    def reset(self, checkpoint_id: Any = None) -> None:
        self.checkpoint_id = self.checkpoint_id if checkpoint_id is None else checkpoint_id

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """Nothing: the planner makes it of the state."""
        return Metadata({})

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        if is_coordinator and groups.get_rank() != self.coordinator_rank:
            raise AssertionError(
                f"the coordinator is rank {groups.get_rank()}, and not {self.coordinator_rank}"
            )
        if self.checkpoint_id is None:
            raise AssertionError("checkpoint_id must be set before reading")
        self.is_coordinator = is_coordinator

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """All processes get all tensors, also those of which they have no part."""
        state: dict[str, Tensor] = planner.state_dict  # type: ignore[attr-defined]  # a DefaultLoadPlanner
        found: dict[str, Any] = {}
        problem: list[Any] = [None]
        if self.is_coordinator:
            try:
                found = rushlight.load(self.checkpoint_id, map_location="cpu", weights_only=True)
                if planner.flatten_state_dict:  # type: ignore[attr-defined]  # the same
                    found, _ = flatten_state_dict(found)
                problem[0] = _problem(found, state)
            except Exception as error:  # the others wait
                problem[0] = f"{self.checkpoint_id}: {error}"
        objects.broadcast_object_list(problem, self.coordinator_rank)
        if problem[0] is not None:
            raise RuntimeError(problem[0])
        items: dict[str, list[ReadItem]] = {}
        for item in plan.items:
            items.setdefault(item.storage_index.fqn, []).append(item)
        for name, value in state.items():
            whole = (
                found[name].to(value.dtype).contiguous()
                if found
                else rushlight.empty(value.size(), dtype=value.dtype)
            )
            collectives.broadcast(whole, self.coordinator_rank)
            for item in items.get(name, ()):
                target = planner.resolve_tensor(item).detach()
                target.copy_(box(whole, item.storage_offsets, item.lengths))
                planner.commit_tensor(item, target)
        done: Future = Future()
        done.set_result(None)
        return done

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return os.path.isfile(checkpoint_id)


def _problem(found: dict[str, Any], state: dict[str, Tensor]) -> str | None:
    """Why a state cannot be filled with what a file has."""
    for name, value in state.items():
        if not isinstance(found.get(name), Tensor):
            what = "Non-tensor value" if name in found else "Missing key"
            return f"{what} in checkpoint state_dict: {name}."
        if found[name].shape != value.shape:
            return f"Size mismatch between saved {found[name].size()} and current: {value.size()} for {name}"
    return None


class DynamicMetaLoadPlanner(DefaultLoadPlanner):
    """Plans to read all tensors of a state, whatever is stored; for files that say nothing of what they have."""

    def set_up_planner(
        self, state_dict: dict, metadata: Any = None, is_coordinator: bool = False
    ) -> None:
        super().set_up_planner(state_dict, metadata, is_coordinator)
        entries: dict[str, Any] = {}
        for name, value in self.state_dict.items():
            if not isinstance(value, Tensor):
                raise RuntimeError(
                    f"Non-tensor value identified at {name}: {type(self).__name__} loads tensors alone."
                )
            whole = [_create_chunk_from_tensor(value)]
            entries[name] = TensorStorageMetadata(
                TensorProperties(value.dtype), value.size(), whole
            )
        self.metadata = Metadata(entries)


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike, torch_save_path: str | os.PathLike
) -> None:
    """Write what is in a folder as one file for `torch.load`."""
    state: dict[str, Any] = {}
    reader = FileSystemReader(dcp_checkpoint_dir)
    _load_state_dict(state, reader, planner=_EmptyStateDictLoadPlanner(), no_dist=True)
    rushlight.save(state, torch_save_path)


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike, dcp_checkpoint_dir: str | os.PathLike
) -> None:
    """Write what is in a file as a folder."""
    save(
        rushlight.load(torch_save_path, weights_only=True),
        checkpoint_id=dcp_checkpoint_dir,
        no_dist=True,
    )
