"""What `.metadata` says of a checkpoint: the tensors, their parts, and where these are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from rushlight.core import dtypes
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor

__all__ = ["BytesStorageMetadata", "ChunkStorageMetadata", "Metadata", "MetadataIndex", "StorageMeta", "TensorProperties",
           "TensorStorageMetadata"]  # fmt: skip


@dataclass
class ChunkStorageMetadata:
    """A part of a tensor: where it begins, and its sizes."""

    offsets: Size
    sizes: Size


class _MEM_FORMAT_ENCODING(Enum):
    """A memory format in a file."""

    TORCH_CONTIGUOUS_FORMAT = 0
    TORCH_CHANNELS_LAST = 1
    TORCH_PRESERVE_FORMAT = 2


FORMATS = (
    dtypes.contiguous_format,
    dtypes.channels_last,
    dtypes.preserve_format,
)  # by their number there


@dataclass
class TensorProperties:
    """What is needed to make a tensor."""

    dtype: Any = None
    layout: Any = dtypes.strided
    requires_grad: bool = False
    memory_format: Any = dtypes.contiguous_format
    pin_memory: bool = False

    def __getstate__(self) -> tuple:
        if self.memory_format not in FORMATS:
            raise RuntimeError(f"Invalid torch.memory_format: {self.memory_format}")
        code = _MEM_FORMAT_ENCODING(FORMATS.index(self.memory_format))
        return self.dtype, self.layout, self.requires_grad, code, self.pin_memory

    def __setstate__(self, state: tuple) -> None:
        self.dtype, self.layout, self.requires_grad, code, self.pin_memory = state
        if not isinstance(code, _MEM_FORMAT_ENCODING):
            raise RuntimeError(f"Invalid torch.memory_format encoding: {code}")
        self.memory_format = FORMATS[code.value]

    @staticmethod
    def create_from_tensor(tensor: Tensor) -> TensorProperties:
        """Those of a tensor."""
        return TensorProperties(tensor.dtype, tensor.layout, tensor.requires_grad)


@dataclass
class TensorStorageMetadata:
    """A tensor, and the parts of it that were written."""

    properties: TensorProperties
    size: Size
    chunks: list[ChunkStorageMetadata]


@dataclass
class BytesStorageMetadata:
    """Another object."""


@dataclass
class StorageMeta:
    """Which checkpoint it is."""

    checkpoint_id: Any = None
    save_id: str | None = None
    load_id: str | None = None
    modules: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class MetadataIndex:
    """Which part of which entry; `index` is a hint where it stands among the parts."""

    fqn: str
    offset: Size | None = None
    index: int | None = field(hash=False, compare=False, default=None)

    def __init__(
        self, fqn: str, offset: Sequence[int] | None = None, index: int | None = None
    ) -> None:
        object.__setattr__(self, "fqn", fqn)
        object.__setattr__(self, "index", index)
        object.__setattr__(self, "offset", None if offset is None else Size(offset))


@dataclass
class Metadata:
    """All of a checkpoint: entries by their names, where their parts are, and the paths of nested entries."""

    state_dict_metadata: dict[str, TensorStorageMetadata | BytesStorageMetadata]
    planner_data: Any = None
    storage_data: Any = None
    storage_meta: StorageMeta | None = None
    version: str | None = None
