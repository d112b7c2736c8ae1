"""`save`, `async_save`: all processes write their parts of a state."""

from __future__ import annotations

import enum
import os
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight.core.stub import declare
from rushlight.core.tensor import Tensor
from rushlight.distributed import groups
from rushlight.distributed.checkpoint.default_planner import DefaultSavePlanner
from rushlight.distributed.checkpoint.filesystem import FileSystemWriter
from rushlight.distributed.checkpoint.metadata import Metadata
from rushlight.distributed.checkpoint.planner import SavePlanner
from rushlight.distributed.checkpoint.ranks import Ranks
from rushlight.distributed.checkpoint.staging import AsyncStager, BlockingAsyncStager
from rushlight.distributed.checkpoint.stateful import Stateful
from rushlight.distributed.checkpoint.storage import StorageWriter

declare(
    "emulated", "A thread of the same process saves.", "torch.distributed.checkpoint", "async_save(async_checkpointer_type=)",
)  # fmt: skip
declare(
    "no-op", "Processes agree by collectives; states that wait to be written are not kept.", "torch.distributed.checkpoint",
    "save(use_collectives=) async_save(use_collectives=) FileSystemWriter(cache_staged_state_dict=)",
)  # fmt: skip

__all__ = ["AsyncCheckpointerType", "AsyncSaveResponse", "async_save", "save", "save_state_dict"]


def save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike | None = None,
    storage_writer: StorageWriter | None = None, planner: SavePlanner | None = None, process_group: Any = None,
    no_dist: bool = False, use_collectives: bool = True,
) -> Metadata:  # fmt: skip
    """Write a state to the folder `checkpoint_id`; all processes call it. Returns what was written.

    Parts of spread tensors are written by those who have them, other values once. Values with `state_dict()` are asked
    for it. What was in the folder stays until all is written. CheckpointException if it fails on any process.
    """
    writer = writer_for(storage_writer, checkpoint_id)
    return _save_state_dict(
        states(state_dict), writer, process_group, no_dist=no_dist, planner=planner
    )


def states(state: dict[str, Any]) -> dict[str, Any]:
    """The state of each entry that keeps one."""
    return {
        k: v.state_dict() if isinstance(v, Stateful) and not isinstance(v, Tensor) else v
        for k, v in state.items()
    }


def writer_for(writer: StorageWriter | None, checkpoint_id: Any) -> StorageWriter:
    """The writer that is given, or one of the folder."""
    if writer is None:
        if checkpoint_id is None:
            raise RuntimeError(
                "`checkpoint_id` must be specified if storage_reader/storage_writer is None."
            )
        writer = FileSystemWriter(checkpoint_id)
    writer.reset(checkpoint_id)
    return writer


@rushlight.no_grad()
def _save_state_dict(
    state_dict: dict, storage_writer: StorageWriter, process_group: Any = None, coordinator_rank: int = 0,
    no_dist: bool = False, planner: SavePlanner | None = None, use_collectives: bool = True,
) -> Metadata:  # fmt: skip
    """Write a state, whose values are not asked for their own."""
    ranks, writer = Ranks(process_group, no_dist), storage_writer
    planner = planner or DefaultSavePlanner()

    def local_plan() -> Any:
        planner.set_up_planner(state_dict, writer.storage_meta(), ranks.is_first)
        writer.set_up_storage_writer(ranks.is_first)
        return writer.prepare_local_plan(planner.create_local_plan())

    def global_plan() -> Any:
        made, metadata = planner.create_global_plan(plans)
        return writer.prepare_global_plan(made), metadata

    def write() -> Any:
        return writer.write_data(planner.finish_plan(made[ranks.rank]), planner).wait()

    def finish() -> Metadata:
        writer.finish(metadata, results)
        return metadata

    plans = ranks.gathered("plan", local_plan)
    made, metadata = ranks.on_first("plan", global_plan)
    results = ranks.gathered("write", write)
    return ranks.on_first("finish", finish)


_saving = ThreadPoolExecutor(1, "checkpoint")
_groups: dict[Any, Any] = {}  # a group for the thread -> for which


class AsyncCheckpointerType(enum.Enum):
    """Where `async_save` writes. Both are a thread here."""

    THREAD = "thread"
    PROCESS = "process"


@dataclass
class AsyncSaveResponse:
    """What `async_save` returns where the stager copies in a thread: futures of the copy and of what was written."""

    staging_completion: Future
    upload_completion: Future


def async_save(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike | None = None,
    storage_writer: StorageWriter | None = None, planner: SavePlanner | None = None, process_group: Any = None,
    async_checkpointer_type: AsyncCheckpointerType = AsyncCheckpointerType.THREAD,
    async_stager: AsyncStager | None = None, no_dist: bool = False, use_collectives: bool = True,
) -> Future | AsyncSaveResponse:  # fmt: skip
    """`save` of a copy, in a thread: a future of what was written. Saves are made one after the other.

    `async_stager` makes the copy, or the writer, if it can.
    """
    stager: Any = async_stager
    if stager is None:
        stager = (
            storage_writer if isinstance(storage_writer, AsyncStager) else BlockingAsyncStager()
        )
    staged = stager.stage(states(state_dict))
    if groups.is_initialized() and not no_dist:
        known = groups._resolve(process_group)
        if known not in _groups:  # calls of the thread must not stand between those of the program
            _groups.clear()
            _groups[known] = groups.new_group(known.ranks)
        process_group = _groups[known]

    def write() -> Metadata:  # a writer may be that of the save before
        state = staged.result() if isinstance(staged, Future) else staged
        writer = writer_for(storage_writer, checkpoint_id)
        return _save_state_dict(state, writer, process_group, no_dist=no_dist, planner=planner)

    saved = _saving.submit(write)
    if isinstance(staged, Future):
        return AsyncSaveResponse(staged, saved)
    if stager.should_synchronize_after_execute:
        stager.synchronize_staging()
    return saved


def save_state_dict(
    state_dict: dict, storage_writer: StorageWriter, process_group: Any = None, coordinator_rank: int = 0,
    no_dist: bool = False, planner: SavePlanner | None = None,
) -> Metadata:  # fmt: skip
    """`save` under its older name."""
    warnings.warn("`save_state_dict` is deprecated: use `save`", FutureWarning, stacklevel=2)
    storage_writer.reset()
    return _save_state_dict(
        state_dict, storage_writer, process_group, coordinator_rank, no_dist, planner
    )
