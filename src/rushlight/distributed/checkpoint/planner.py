"""What planners are asked, and what plans consist of."""

from __future__ import annotations

import io
from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
)

__all__ = ["LoadItemType", "LoadPlan", "LoadPlanner", "ReadItem", "SavePlan", "SavePlanner", "TensorWriteData",
           "WriteItem", "WriteItemType"]  # fmt: skip


class WriteItemType(Enum):
    """What is written: a whole tensor, a part of one, another object."""

    TENSOR = auto()
    SHARD = auto()
    BYTE_IO = auto()


class LoadItemType(Enum):
    """What is read."""

    TENSOR = auto()
    BYTE_IO = auto()


@dataclass(frozen=True)
class TensorWriteData:
    """A part, and the tensor it belongs to."""

    chunk: ChunkStorageMetadata
    properties: TensorProperties
    size: Size


@dataclass(frozen=True)
class WriteItem:
    """One thing that a process writes."""

    index: MetadataIndex
    type: WriteItemType
    tensor_data: TensorWriteData | None = None

    def tensor_storage_size(self) -> int | None:
        """Its bytes, if it is a tensor."""
        if self.tensor_data is None:
            return None
        return self.tensor_data.chunk.sizes.numel() * self.tensor_data.properties.dtype.itemsize


@dataclass(frozen=True)
class ReadItem:
    """A box of a stored part, and where it goes in a part of this process."""

    type: LoadItemType
    dest_index: MetadataIndex
    dest_offsets: Size
    storage_index: MetadataIndex
    storage_offsets: Size
    lengths: Size


@dataclass(frozen=True)
class SavePlan:
    """What one process writes."""

    items: list[WriteItem]
    storage_data: Any = None
    planner_data: Any = None
    usable: bool = True


@dataclass
class LoadPlan:
    """What one process reads."""

    items: list[ReadItem]
    storage_data: Any = None
    planner_data: Any = None


class SavePlanner(ABC):
    """Decides what each process writes. The methods are called in this order."""

    @abstractmethod
    def set_up_planner(
        self,
        state_dict: dict,
        storage_meta: StorageMeta | None = None,
        is_coordinator: bool = False,
    ) -> None:
        """The state that is saved."""

    @abstractmethod
    def create_local_plan(self) -> SavePlan:
        """What this process could write."""

    @abstractmethod
    def create_global_plan(self, all_plans: list[SavePlan]) -> tuple[list[SavePlan], Metadata]:
        """What each process writes; called on the first process."""

    @abstractmethod
    def finish_plan(self, new_plan: SavePlan) -> SavePlan:
        """This process's plan, of the global ones."""

    @abstractmethod
    def resolve_data(self, write_item: WriteItem) -> Tensor | io.BytesIO:
        """The object that an item describes."""


class LoadPlanner(ABC):
    """Decides what each process reads. The methods are called in this order."""

    @abstractmethod
    def set_up_planner(
        self, state_dict: dict, metadata: Metadata | None = None, is_coordinator: bool = False
    ) -> None:
        """The state that is filled, and what the checkpoint has."""

    @abstractmethod
    def create_local_plan(self) -> LoadPlan:
        """What this process reads."""

    @abstractmethod
    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        """What each process reads; called on the first process."""

    @abstractmethod
    def finish_plan(self, central_plan: LoadPlan) -> LoadPlan:
        """This process's plan, of the global ones."""

    @abstractmethod
    def load_bytes(self, read_item: ReadItem, value: io.BytesIO) -> None:
        """Take an object that was read."""

    @abstractmethod
    def resolve_tensor(self, read_item: ReadItem) -> Tensor:
        """Where a box goes."""

    @abstractmethod
    def commit_tensor(self, read_item: ReadItem, tensor: Tensor) -> None:
        """A box has been filled."""
