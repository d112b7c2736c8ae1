"""`FileSystemWriter`, `FileSystemReader`: a checkpoint as a folder.

Note [Whole checkpoints]
A folder is a checkpoint by its file `.metadata`, which is written last, in one step, when the files that it names are on the
disk. These have names that the checkpoint before does not use. A job that dies at any time leaves the one before or
the new one. What no `.metadata` names is removed by the next save.
"""

from __future__ import annotations

import dataclasses
import enum
import io
import os
import re
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed.checkpoint import metadata as described
from rushlight.distributed.checkpoint.metadata import Metadata, MetadataIndex, StorageMeta
from rushlight.distributed.checkpoint.planner import (
    LoadItemType,
    LoadPlan,
    LoadPlanner,
    ReadItem,
    SavePlan,
    SavePlanner,
)
from rushlight.distributed.checkpoint.staging import BlockingAsyncStager
from rushlight.distributed.checkpoint.storage import StorageReader, StorageWriter, WriteResult
from rushlight.distributed.checkpoint.utils import box
from rushlight.futures import Future
from rushlight.serialization.loading import _RestrictedUnpickler
from rushlight.serialization.names import Name
from rushlight.serialization.saving import _Pickler

__all__ = ["FileSystemReader", "FileSystemWriter", "SerializationFormat"]

METADATA, SUFFIX, VERSION = ".metadata", ".distcp", "1.0.0"
OURS = re.compile(r"__\d+_\d+\.distcp")


@dataclass
class _StorageInfo:
    """Where a part is."""

    relative_path: str
    offset: int
    length: int
    transform_descriptors: Any = None


@dataclass
class _StoragePrefix:
    """How the names of a process's files begin."""

    prefix: str


# -- the file `.metadata` ----------------------------------------------------------------------------

_CLASSES: dict[str, Any] = {
    c.__name__: c
    for c in (
        described.BytesStorageMetadata, described.ChunkStorageMetadata, Metadata, MetadataIndex, StorageMeta,
        described.TensorProperties, described.TensorStorageMetadata, _StorageInfo,
    )
}  # fmt: skip
_FIELDS = {c: {f.name for f in dataclasses.fields(c)} for c in _CLASSES.values()}
_MODULE = "torch.distributed.checkpoint"


class _Unpickler(_RestrictedUnpickler):
    """Reads `.metadata`: names besides those of every file the classes above, whose objects get their fields and no more."""

    dispatch = dict(_RestrictedUnpickler.dispatch)

    def find_class(self, module: str, name: str) -> Any:
        if module == _MODULE or module.startswith(f"{_MODULE}."):
            if name in _CLASSES:
                return Name(module, name, _CLASSES[name])
            if name == "_MEM_FORMAT_ENCODING":
                return Name(module, name, described._MEM_FORMAT_ENCODING)
        if module.partition(".")[0] == "pathlib" and name in ("PosixPath", "WindowsPath"):
            return Name(module, name, os.path.join)
        return super().find_class(module, name)

    def load_newobj(self) -> None:
        kind = self.stack[-2]
        if type(kind) is Name and kind.meaning in _FIELDS:
            self.stack.pop()
            self.stack[-1] = object.__new__(kind.meaning)
        else:
            super().load_newobj()

    dispatch[b"\x81"[0]] = load_newobj

    def load_build(self) -> None:
        kind = type(self.stack[-2])
        if kind not in _FIELDS:
            super().load_build()
            return
        state = self.stack.pop()
        if kind is described.TensorProperties and isinstance(state, tuple) and len(state) == 5:
            self.stack[-1].__setstate__(state)
        elif isinstance(state, dict) and state.keys() <= _FIELDS[kind]:
            self.stack[-1].__dict__.update(state)
        else:
            raise ValueError(f"{kind.__name__} has no such fields")

    dispatch[b"b"[0]] = load_build


def metadata_of(content: bytes) -> Metadata:
    """The metadata in a file. RuntimeError if it is damaged or hostile: nothing of it is executed."""
    try:
        found = _Unpickler(io.BytesIO(content)).load()
    except Exception as error:
        raise RuntimeError(f"{METADATA} is damaged or hostile: {error}") from error
    if not isinstance(found, Metadata) or not isinstance(found.state_dict_metadata, dict):
        raise RuntimeError(f"{METADATA} is damaged or hostile: it holds no metadata")
    return found


def written(folder: Path, name: str, write: Callable[[Any], None]) -> None:
    """Write a file in one step."""
    temporary = folder / f"{name}.tmp"
    with open(temporary, "wb") as file:
        write(file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, folder / name)
    synchronized(folder)


def synchronized(folder: Path) -> None:
    """Have the names of a folder's files on the disk."""
    if os.name != "posix":
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


# -- writing and reading -----------------------------------------------------------------------------


def ended(value: Any) -> Future:
    """A future that has its value."""
    future: Future = Future()
    future.set_result(value)
    return future


class SerializationFormat(enum.Enum):
    """The formats of tensors in files."""

    TORCH_SAVE = "torch_save"
    SAFETENSORS = "safetensors"


class FileSystemWriter(StorageWriter, BlockingAsyncStager):
    """Writes each process's items into a file of its own. See Note [Whole checkpoints]."""

    def __init__(
        self, path: str | os.PathLike, single_file_per_rank: bool = True, sync_files: bool = True, thread_count: int = 1,
        per_thread_copy_ahead: int = 10_000_000, cache_staged_state_dict: bool = False, overwrite: bool = True,
        _extensions: Any = None, serialization_format: SerializationFormat = SerializationFormat.TORCH_SAVE,
    ) -> None:  # fmt: skip
        BlockingAsyncStager.__init__(self, cache_staged_state_dict)
        if _extensions:
            raise NotImplementedError("FileSystemWriter(_extensions=...)")
        if serialization_format is not SerializationFormat.TORCH_SAVE:
            raise NotImplementedError(
                "FileSystemWriter(serialization_format=SAFETENSORS): HuggingFaceStorageWriter writes such files"
            )
        self.sync_files, self.overwrite = sync_files, overwrite
        self.path = Path(path)
        self.save_id = str(uuid.uuid4())

    def reset(self, checkpoint_id: Any = None) -> None:
        if checkpoint_id:
            self.path = Path(checkpoint_id)
        self.save_id = str(uuid.uuid4())

    def set_up_storage_writer(self, is_coordinator: bool, *args: Any, **kwargs: Any) -> None:
        self.rank = kwargs.get("rank")

    def prepare_local_plan(self, plan: SavePlan) -> SavePlan:
        if (self.path / METADATA).exists() and not self.overwrite:
            raise RuntimeError(f"Checkpoint already exists and self.overwrite={self.overwrite}.")
        self.path.mkdir(parents=True, exist_ok=True)
        return plan

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [
            dataclasses.replace(plan, storage_data=_StoragePrefix(f"__{k}_"))
            for k, plan in enumerate(plans)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        results: list[WriteResult] = []
        if not plan.items:
            return ended(results)
        n = 0
        while os.path.lexists(self.path / f"{plan.storage_data.prefix}{n}{SUFFIX}"):
            n += 1
        name = f"{plan.storage_data.prefix}{n}{SUFFIX}"
        with open(self.path / name, "wb") as file:
            for item in plan.items:
                value, start = planner.resolve_data(item), file.tell()
                if isinstance(value, Tensor):
                    rushlight.save(
                        value.detach().clone(), file
                    )  # without what else its storage holds
                else:
                    file.write(value.getbuffer())
                length = file.tell() - start
                results.append(WriteResult(item.index, length, _StorageInfo(name, start, length)))
            if self.sync_files:
                file.flush()
                os.fsync(file.fileno())
        return ended(results)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        metadata.storage_data = {r.index: r.storage_data for each in results for r in each}
        metadata.storage_meta = self.storage_meta()
        metadata.version = VERSION
        synchronized(self.path)
        written(self.path, METADATA, lambda file: _Pickler(file, 4).dump(metadata))
        kept = {info.relative_path for info in metadata.storage_data.values()}
        for name in os.listdir(self.path):
            if OURS.fullmatch(name) and name not in kept:
                os.remove(self.path / name)

    def storage_meta(self) -> StorageMeta:
        return StorageMeta(str(self.path), save_id=self.save_id)

    @property
    def checkpoint_id(self) -> str | os.PathLike:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return "://" not in str(checkpoint_id)


def give(planner: LoadPlanner, item: ReadItem, part: Tensor) -> None:
    """Put a box that was read where its item wants it. RuntimeError if it has another size."""
    target = planner.resolve_tensor(item).detach()
    if part.shape != target.shape:
        raise RuntimeError(
            f"{item.dest_index.fqn}: a part of size {tuple(part.shape)} for one of {tuple(target.shape)}"
        )
    target.copy_(part)
    planner.commit_tensor(item, target)


class FileSystemReader(StorageReader):
    """Reads a folder that any number of processes wrote, PyTorch's too."""

    def __init__(self, path: str | os.PathLike, _extension_registry: Any = None) -> None:
        self.path = Path(path)
        self.storage_data: dict[MetadataIndex, _StorageInfo] = {}

    def reset(self, checkpoint_id: Any = None) -> None:
        self.storage_data = {}
        if checkpoint_id:
            self.path = Path(checkpoint_id)

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return metadata_of((self.path / METADATA).read_bytes())

    def set_up_storage_reader(
        self, metadata: Metadata, is_coordinator: bool, *args: Any, **kwargs: Any
    ) -> None:
        self.storage_data = metadata.storage_data

    def prepare_local_plan(self, plan: LoadPlan) -> LoadPlan:
        return plan

    def prepare_global_plan(self, plans: list[LoadPlan]) -> list[LoadPlan]:
        return plans

    def _content(self, info: _StorageInfo) -> io.BytesIO:
        if os.path.basename(info.relative_path) != info.relative_path:
            raise RuntimeError(
                f"{METADATA} names {info.relative_path}, which is outside of the folder"
            )
        if info.transform_descriptors:
            raise RuntimeError(
                f"{info.relative_path} was written with {info.transform_descriptors}"
            )
        with open(self.path / info.relative_path, "rb") as file:
            file.seek(info.offset)
            content = file.read(info.length)
        if len(content) != info.length:
            raise RuntimeError(f"{info.relative_path} is shorter than {METADATA} says")
        return io.BytesIO(content)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        last, stored = None, None
        for item in sorted(plan.items, key=lambda item: str(item.storage_index)):
            info = self.storage_data[item.storage_index]
            if item.type is LoadItemType.BYTE_IO:
                planner.load_bytes(item, self._content(info))
                continue
            if item.storage_index != last:
                last, stored = (
                    item.storage_index,
                    rushlight.load(self._content(info), weights_only=True),
                )
            give(planner, item, box(stored, item.storage_offsets, item.lengths))
        return ended(None)

    @property
    def checkpoint_id(self) -> str | os.PathLike:
        """The folder."""
        return self.path

    @classmethod
    def validate_checkpoint_id(cls, checkpoint_id: Any) -> bool:
        return "://" not in str(checkpoint_id)
