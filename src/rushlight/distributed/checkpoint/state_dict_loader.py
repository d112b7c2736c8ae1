"""`load`: all processes read what they need of a checkpoint."""

from __future__ import annotations

import os
import warnings
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed.checkpoint.default_planner import (
    DefaultLoadPlanner,
    _EmptyStateDictLoadPlanner,
)
from rushlight.distributed.checkpoint.filesystem import FileSystemReader
from rushlight.distributed.checkpoint.planner import LoadPlanner
from rushlight.distributed.checkpoint.ranks import Ranks
from rushlight.distributed.checkpoint.state_dict_saver import states
from rushlight.distributed.checkpoint.stateful import Stateful
from rushlight.distributed.checkpoint.storage import StorageReader

__all__ = ["load", "load_state_dict"]


def load(
    state_dict: dict[str, Any], *, checkpoint_id: str | os.PathLike | None = None,
    storage_reader: StorageReader | None = None, planner: LoadPlanner | None = None, process_group: Any = None,
    no_dist: bool = False,
) -> None:  # fmt: skip
    """Fill a state from the folder `checkpoint_id`; all processes call it.

    Its tensors are written in place, whatever parts the checkpoint has of them; other values are exchanged. Values with
    `load_state_dict()` are given theirs. CheckpointException if it fails on any process.
    """
    storage_reader = reader_for(storage_reader, checkpoint_id)
    filled = states(state_dict)
    _load_state_dict(filled, storage_reader, process_group, no_dist=no_dist, planner=planner)
    for key, value in state_dict.items():
        if isinstance(value, Stateful) and not isinstance(value, Tensor):
            value.load_state_dict(filled[key])
        else:
            state_dict[key] = filled[key]


def reader_for(reader: StorageReader | None, checkpoint_id: Any) -> StorageReader:
    """The reader that is given, or one of the folder."""
    if reader is None:
        if checkpoint_id is None:
            raise RuntimeError(
                "`checkpoint_id` must be specified if storage_reader/storage_writer is None."
            )
        reader = FileSystemReader(checkpoint_id)
    reader.reset(checkpoint_id)
    return reader


@rushlight.no_grad()
def _load_state_dict(
    state_dict: dict, storage_reader: StorageReader, process_group: Any = None, coordinator_rank: int = 0,
    no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """Fill a state, whose values are not asked for their own."""
    ranks, reader = Ranks(process_group, no_dist), storage_reader
    planner = planner or DefaultLoadPlanner()

    def local_plan() -> Any:
        metadata = reader.read_metadata()
        planner.set_up_planner(state_dict, metadata, ranks.is_first)
        reader.set_up_storage_reader(metadata, ranks.is_first)
        return reader.prepare_local_plan(planner.create_local_plan())

    def read() -> None:
        reader.read_data(planner.finish_plan(made[ranks.rank]), planner).wait()

    plans = ranks.gathered("plan", local_plan)
    made = ranks.on_first(
        "plan", lambda: reader.prepare_global_plan(planner.create_global_plan(plans))
    )
    ranks.gathered("read", read)


def _load_state_dict_from_keys(
    keys: set[str] | str | None = None, *, checkpoint_id: str | os.PathLike | None = None,
    storage_reader: StorageReader | None = None, process_group: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """A new state of all that a checkpoint has, or of what `keys` name; each process reads all of it."""
    keys = {keys} if isinstance(keys, str) else keys
    state: dict[str, Any] = {}
    reader = reader_for(storage_reader, checkpoint_id)
    planner = _EmptyStateDictLoadPlanner(keys or None)
    _load_state_dict(state, reader, process_group, no_dist=True, planner=planner)
    return state


def load_state_dict(
    state_dict: dict, storage_reader: StorageReader, process_group: Any = None, coordinator_rank: int = 0,
    no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """`load` under its older name."""
    warnings.warn("`load_state_dict` is deprecated: use `load`", FutureWarning, stacklevel=2)
    _load_state_dict(state_dict, storage_reader, process_group, coordinator_rank, no_dist, planner)
