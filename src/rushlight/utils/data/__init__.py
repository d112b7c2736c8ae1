"""Data sets, samplers and the loader that brings them together."""

from __future__ import annotations

import sys
from types import ModuleType

from rushlight.utils.data import collate, fetch, worker
from rushlight.utils.data.collate import default_collate, default_convert
from rushlight.utils.data.dataloader import DataLoader, _DatasetKind, get_worker_info
from rushlight.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from rushlight.utils.data.distributed import DistributedSampler
from rushlight.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

__all__ = [
    "BatchSampler", "ChainDataset", "ConcatDataset", "DataLoader", "Dataset", "DistributedSampler",
    "IterableDataset", "RandomSampler", "Sampler", "SequentialSampler", "StackDataset", "Subset",
    "SubsetRandomSampler", "TensorDataset", "WeightedRandomSampler", "_DatasetKind", "default_collate",
    "default_convert", "get_worker_info", "random_split",
]  # fmt: skip

# PyTorch has these files in a folder of their own, where programs look for them.
_utils = ModuleType(f"{__name__}._utils")
_utils.__path__ = []
sys.modules[_utils.__name__] = _utils
for _file in (collate, fetch, worker):
    _name = _file.__name__.rpartition(".")[2]
    setattr(_utils, _name, _file)
    sys.modules[f"{_utils.__name__}.{_name}"] = _file
