"""`load`: all processes read what they need of a checkpoint."""

from __future__ import annotations

import os
import warnings
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed.checkpoint.default_planner import DefaultLoadPlanner
from rushlight.distributed.checkpoint.filesystem import FileSystemReader
from rushlight.distributed.checkpoint.planner import LoadPlanner
from rushlight.distributed.checkpoint.ranks import Ranks
from rushlight.distributed.checkpoint.saver import states
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
    if storage_reader is None:
        if checkpoint_id is None:
            raise RuntimeError("`checkpoint_id` must be specified if storage_reader is None.")
        storage_reader = FileSystemReader(checkpoint_id)
    storage_reader.reset(checkpoint_id)
    filled = states(state_dict)
    with rushlight.no_grad():
        _load(filled, storage_reader, planner, process_group, no_dist)
    for key, value in state_dict.items():
        if isinstance(value, Stateful) and not isinstance(value, Tensor):
            value.load_state_dict(filled[key])
        else:
            state_dict[key] = filled[key]


def _load(
    state: dict, reader: StorageReader, planner: LoadPlanner | None, group: Any, alone: bool
) -> None:
    ranks = Ranks(group, alone)
    planner = planner or DefaultLoadPlanner()

    def local_plan() -> Any:
        metadata = reader.read_metadata()
        planner.set_up_planner(state, metadata, ranks.is_first)
        reader.set_up_storage_reader(metadata, ranks.is_first)
        return reader.prepare_local_plan(planner.create_local_plan())

    def read() -> None:
        reader.read_data(planner.finish_plan(made[ranks.rank]), planner).wait()

    plans = ranks.gathered("plan", local_plan)
    made = ranks.on_first(
        "plan", lambda: reader.prepare_global_plan(planner.create_global_plan(plans))
    )
    ranks.gathered("read", read)


def load_state_dict(
    state_dict: dict, storage_reader: StorageReader, process_group: Any = None, coordinator_rank: int = 0,
    no_dist: bool = False, planner: LoadPlanner | None = None,
) -> None:  # fmt: skip
    """`load` under its older name."""
    warnings.warn("`load_state_dict` is deprecated: use `load`", FutureWarning, stacklevel=2)
    with rushlight.no_grad():
        _load(state_dict, storage_reader, planner, process_group, no_dist)
