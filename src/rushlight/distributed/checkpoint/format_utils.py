"""Checkpoints of one file as folders, and back."""

from __future__ import annotations

import os
from typing import Any

import rushlight
from rushlight.distributed.checkpoint.default_planner import put
from rushlight.distributed.checkpoint.filesystem import FileSystemReader
from rushlight.distributed.checkpoint.loader import load
from rushlight.distributed.checkpoint.metadata import TensorStorageMetadata
from rushlight.distributed.checkpoint.saver import save

__all__ = ["dcp_to_torch_save", "torch_save_to_dcp"]


def dcp_to_torch_save(
    dcp_checkpoint_dir: str | os.PathLike, torch_save_path: str | os.PathLike
) -> None:
    """Write what is in a folder as one file for `torch.load`."""
    metadata = FileSystemReader(dcp_checkpoint_dir).read_metadata()
    values: dict[str, Any] = {
        name: rushlight.empty(entry.size, dtype=entry.properties.dtype)
        if isinstance(entry, TensorStorageMetadata)
        else None
        for name, entry in metadata.state_dict_metadata.items()
    }
    load(values, checkpoint_id=dcp_checkpoint_dir, no_dist=True)
    state: dict[str, Any] = {}
    for name, value in values.items():
        path = (metadata.planner_data or {}).get(name, (name,))
        put(_grown(state, path), path, value)
    rushlight.save(state, torch_save_path)


def _grown(state: dict, path: tuple) -> dict:
    """A state that has a place for `path`."""
    inner: Any = state
    for key, below in zip(path, (*path[1:], None)):
        if isinstance(inner, list):
            inner += [None] * (key + 1 - len(inner))
        if below is not None:
            if (inner[key] if isinstance(inner, list) else inner.get(key)) is None:
                inner[key] = [] if isinstance(below, int) else {}
            inner = inner[key]
    return state


def torch_save_to_dcp(
    torch_save_path: str | os.PathLike, dcp_checkpoint_dir: str | os.PathLike
) -> None:
    """Write what is in a file as a folder."""
    save(
        rushlight.load(torch_save_path, weights_only=True),
        checkpoint_id=dcp_checkpoint_dir,
        no_dist=True,
    )
