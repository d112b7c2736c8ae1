"""What writes and reads the parts."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from rushlight.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from rushlight.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from rushlight.futures import Future

__all__ = ["StorageReader", "StorageWriter", "WriteResult"]


@dataclass(frozen=True)
class WriteResult:
    """Where an item was written."""

    index: MetadataIndex
    size_in_bytes: int
    storage_data: Any


class StorageWriter(ABC):
    """Writes what planners say. The methods are called in this order."""

    @abstractmethod
    def reset(self, checkpoint_id: Any = None) -> None:
        """Begin a checkpoint."""

    @abstractmethod
    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        """Whether this process is the first."""

    @abstractmethod
    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        """Before plans are gathered."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        """On the first process, with all plans."""

    @abstractmethod
    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        """Write the items of a plan: a future of their `WriteResult`s."""

    @abstractmethod
    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        """On the first process, when all is written: make it a checkpoint."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether it can be written there."""

    def storage_meta(self) -> StorageMeta | None:
        """Which checkpoint it is."""
        return None


class StorageReader(ABC):
    """Reads what planners say. The methods are called in this order."""

    @abstractmethod
    def reset(self, checkpoint_id: Any = None) -> None:
        """Begin."""

    @abstractmethod
    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        """What the checkpoint has."""

    @abstractmethod
    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        """What the checkpoint has, and whether this process is the first."""

    @abstractmethod
    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        """Before plans are gathered."""

    @abstractmethod
    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        """On the first process, with all plans."""

    @abstractmethod
    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        """Read the items of a plan and give them to the planner."""

    @classmethod
    @abstractmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        """Whether it can be read there."""
