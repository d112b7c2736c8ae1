"""`torch.distributed.checkpoint`: every process writes its parts of a state, and any number of processes reads them.

The format is PyTorch's, in both directions: a folder with files of tensors and `.metadata`, which says where what is and comes
last. Nothing in a folder is executed when it is read.
"""

from __future__ import annotations

from rushlight.core import lazy

_FILES = {
    "api": "CheckpointException",
    "default_planner": "DefaultLoadPlanner DefaultSavePlanner",
    "filesystem": "FileSystemReader FileSystemWriter",
    "hf_storage": "HuggingFaceStorageReader HuggingFaceStorageWriter",
    "metadata": "BytesStorageMetadata ChunkStorageMetadata Metadata TensorStorageMetadata",
    "optimizer": "load_sharded_optimizer_state_dict",
    "planner": "LoadPlan LoadPlanner ReadItem SavePlan SavePlanner WriteItem",
    "state_dict_loader": "load load_state_dict",
    "state_dict_saver": "async_save save save_state_dict",
    "stateful": "Stateful",
    "storage": "StorageReader StorageWriter WriteResult",
}  # fmt: skip
_MODULES = "_dedup_save_plans _nested_dict _traverse format_utils planner_helpers staging state_dict utils".split()

_NAMES = lazy.by_name(_FILES)
__all__ = sorted(_NAMES)  # noqa: PLE0605  # the names above

__getattr__, __dir__ = lazy.names(globals(), _NAMES, (*_FILES, *_MODULES))
