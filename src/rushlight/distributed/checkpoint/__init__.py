"""`torch.distributed.checkpoint`: every process writes its parts of a state, and any number of processes reads them.

The format is PyTorch's, in both directions: a folder with files of tensors and `.metadata`, which says where what is and comes
last. Nothing in a folder is executed when it is read.
"""

from __future__ import annotations

import importlib
from typing import Any

_NAMES = {
    "api": ("CheckpointException",),
    "default_planner": ("DefaultLoadPlanner", "DefaultSavePlanner"),
    "filesystem": ("FileSystemReader", "FileSystemWriter"),
    "hf_storage": ("HuggingFaceStorageReader", "HuggingFaceStorageWriter"),
    "loader": ("load", "load_state_dict"),
    "metadata": (
        "BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "TensorStorageMetadata",
    ),
    "planner": ("LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner", "WriteItem"),
    "saver": ("async_save", "save", "save_state_dict"),
    "stateful": ("Stateful",),
    "storage": ("StorageReader", "StorageWriter", "WriteResult"),
}  # fmt: skip
_HOMES = {name: home for home, names in _NAMES.items() for name in names}
_MODULES = frozenset(
    "api default_planner filesystem format_utils hf_storage metadata planner planner_helpers state_dict stateful storage "
    "utils _dedup_save_plans _nested_dict _traverse".split()
)
# PyTorch's names of modules
_THEIRS = {
    "state_dict_saver": "saver", "state_dict_loader": "loader", "_dedup_tensors": "_dedup_save_plans",
}  # fmt: skip

__all__ = sorted(_HOMES)  # noqa: PLE0605  # the names above


def __getattr__(name: str) -> Any:
    if name in _MODULES or name in _THEIRS:
        return importlib.import_module(f"{__name__}.{_THEIRS.get(name, name)}")
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES, *_THEIRS})
