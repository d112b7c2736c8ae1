"""`HuggingFaceStorageWriter`, `HuggingFaceStorageReader`: a checkpoint as a folder of safetensors files.

Files are named `model-00001-of-00002.safetensors`. Where each process writes its parts, `shard-00001-` stands in front, and the
file's own metadata say where the parts begin. They need the extra `safetensors`.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import rushlight
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.distributed.checkpoint.filesystem import (
    FileSystemReader,
    FileSystemWriter,
    ended,
    give,
    written,
)
from rushlight.distributed.checkpoint.metadata import (
    ChunkStorageMetadata,
    Metadata,
    MetadataIndex,
    StorageMeta,
    TensorProperties,
    TensorStorageMetadata,
)
from rushlight.distributed.checkpoint.planner import LoadPlan, LoadPlanner, SavePlan, SavePlanner
from rushlight.distributed.checkpoint.storage import WriteResult
from rushlight.futures import Future

__all__ = ["HuggingFaceStorageReader", "HuggingFaceStorageWriter"]

SUFFIX, INDEX, SHARDED = ".safetensors", "model.safetensors.index.json", "sharded"
OFFSETS, VERSION = "DCP_SHARDING_INFO", {"DCP_VERSION": "1.0"}  # in the metadata of a file


def _library() -> Any:
    try:
        import safetensors
        import safetensors.numpy
    except ImportError:
        raise ImportError(
            "safetensors files need the extra: pip install 'rushlight[safetensors]'"
        ) from None
    return safetensors


def _name(index: int, count: int, shard: int | None = None) -> str:
    name = f"model-{index:05d}-of-{count:05d}{SUFFIX}"
    return name if shard is None else f"shard-{shard:05d}-{name}"


def _write(folder: Path, name: str, tensors: Mapping[str, Tensor], about: dict | None) -> None:
    arrays = {n: t.detach().cpu().contiguous()._array for n, t in tensors.items()}
    content = _library().numpy.save(arrays, metadata=about)
    written(folder, name, lambda file: file.write(content))


def _write_index(folder: Path, homes: Mapping[str, str], size: int) -> None:
    """Write which tensor is in which file."""
    about = {"metadata": {"total_size": size}, "weight_map": dict(homes)}
    written(folder, INDEX, lambda file: file.write(json.dumps(about, indent=2).encode()))


# -- reading -----------------------------------------------------------------------------------------


@dataclass
class _Part:
    """A part of a tensor in a file, and where it begins in the whole."""

    relative_path: str
    shape: Size
    dtype: Any
    offset: Size


_DTYPES = {
    "F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16", "I64": "int64", "I32": "int32",
    "I16": "int16", "I8": "int8", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64", "BOOL": "bool",
    "C64": "complex64", "F8_E4M3": "float8_e4m3fn", "F8_E5M2": "float8_e5m2",
}  # fmt: skip


def _parts(folder: Path) -> Iterator[tuple[str, _Part]]:
    """(name of a tensor, part) of all files of a folder."""
    for path in sorted(folder.glob(f"*{SUFFIX}")):
        with _library().safe_open(path, "np") as file:
            offsets = json.loads((file.metadata() or {}).get(OFFSETS, "{}"))
            for name in file.keys():  # noqa: SIM118  # it has no other way
                part = file.get_slice(name)
                shape, kind = Size(part.get_shape()), part.get_dtype()
                begin = offsets.get(name, {}).get("saved_offsets", [0] * len(shape))
                if kind not in _DTYPES or len(begin) != len(shape):
                    raise RuntimeError(f"{path.name}: {name} has the dtype {kind}, offsets {begin}")
                yield name, _Part(path.name, shape, getattr(rushlight, _DTYPES[kind]), Size(begin))


def _tensor(path: Path, name: str, begin: Any = None, lengths: Any = None) -> Tensor:
    """A tensor of a file, or a box of it."""
    with _library().safe_open(path, "np") as file:
        if not begin:
            return rushlight.from_numpy(file.get_tensor(name))
        box = tuple(slice(b, b + n) for b, n in zip(begin, lengths, strict=True))
        return rushlight.from_numpy(file.get_slice(name)[box])


def _metadata(folder: Path) -> Metadata:
    entries: dict[str, Any] = {}
    places: dict[MetadataIndex, _Part] = {}
    for name, part in _parts(folder):
        ends = [b + n for b, n in zip(part.offset, part.shape, strict=True)]
        entry = entries.setdefault(
            name, TensorStorageMetadata(TensorProperties(part.dtype), Size(ends), [])
        )
        entry.size = Size(map(max, entry.size, ends))
        entry.chunks.append(ChunkStorageMetadata(part.offset, part.shape))
        places[MetadataIndex(name, part.offset)] = part
    meta = StorageMeta(str(folder))
    return Metadata(entries, storage_data=places, storage_meta=meta)


class HuggingFaceStorageReader(FileSystemReader):
    """Reads a folder of safetensors files, parts of tensors too.

    `thread_count` is taken and changes nothing: one thread reads.
    """

    def __init__(self, path: str | os.PathLike, thread_count: int = 1) -> None:
        super().__init__(path)
        self.thread_count = thread_count

    def read_metadata(self, *args: Any, **kwargs: Any) -> Metadata:
        return _metadata(self.path)

    def read_data(self, plan: LoadPlan, planner: LoadPlanner) -> Future:
        for item in plan.items:
            part: Any = self.storage_data[item.storage_index]
            name = item.storage_index.fqn
            path = self.path / part.relative_path
            give(planner, item, _tensor(path, name, item.storage_offsets, item.lengths))
        return ended(None)


# -- writing -----------------------------------------------------------------------------------------


@dataclass
class _FileLayout:
    """What a process knows of the files that it writes."""

    files: dict[str, int] | None
    shard: int | None

    def number(self, name: str) -> int:
        return 1 if self.files is None else self.files[name]

    def name(self, number: int) -> str:
        return _name(number, max(self.files.values()) if self.files else 1, self.shard)


class HuggingFaceStorageWriter(FileSystemWriter):
    """Writes tensors into safetensors files.

    `fqn_to_index_mapping` gives the number of the file of each tensor, from 1; without it there is one file. With
    `save_distributed` each process writes its parts, with `enable_consolidation` the first one then makes whole tensors of them;
    the parts stay in the folder `sharded`. Counts of threads are taken and change nothing.
    """

    def __init__(
        self, path: str | os.PathLike, fqn_to_index_mapping: dict[str, int] | None = None, thread_count: int = 1,
        save_distributed: bool = False, enable_consolidation: bool = False, thread_count_consolidation: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(path)
        self.fqn_to_index_mapping = fqn_to_index_mapping
        self.save_distributed, self.enable_consolidation = save_distributed, enable_consolidation
        self.consolidated_output_path = self.path if enable_consolidation else None
        if enable_consolidation:
            self.path = self.path / SHARDED

    def prepare_global_plan(self, plans: list[SavePlan]) -> list[SavePlan]:
        return [
            dataclasses.replace(
                plan,
                storage_data=_FileLayout(
                    self.fqn_to_index_mapping, k if self.save_distributed else None
                ),
            )
            for k, plan in enumerate(plans, 1)
        ]

    def write_data(self, plan: SavePlan, planner: SavePlanner) -> Future:
        results: list[WriteResult] = []
        homes: Any = plan.storage_data
        files: dict[int, list] = {}
        for item in plan.items:
            if item.tensor_data is None:
                raise ValueError(f"a safetensors file holds only tensors: {item.index.fqn} is none")
            files.setdefault(homes.number(item.index.fqn), []).append(item)
        for number, items in files.items():
            tensors = {item.index.fqn: planner.resolve_data(item) for item in items}
            begin = {
                item.index.fqn: {"saved_offsets": list(item.tensor_data.chunk.offsets)}
                for item in items
            }
            about = {"format": "pt", OFFSETS: json.dumps(begin), **VERSION}
            name = homes.name(number)
            _write(self.path, name, tensors, about)  # type: ignore[arg-type]
            for item in items:
                results.append(WriteResult(item.index, item.tensor_storage_size() or 0, name))
        return ended(results)

    def finish(self, metadata: Metadata, results: list[list[WriteResult]]) -> None:
        if self.save_distributed:
            if self.enable_consolidation:
                names = metadata.state_dict_metadata
                consolidate_safetensors_files(
                    self.path,
                    self.consolidated_output_path or self.path,
                    self.fqn_to_index_mapping or dict.fromkeys(names, 1),
                )
            return
        every = [r for each in results for r in each]
        homes = {r.index.fqn: r.storage_data for r in every}
        _write_index(self.path, homes, sum(r.size_in_bytes for r in every))


def consolidate_safetensors_files(
    input_dir: str | os.PathLike,
    output_dir: str | os.PathLike,
    fqn_to_index_mapping: dict[str, int],
    num_threads: int = 1,
) -> None:
    """Make files of whole tensors from a folder of files with parts.

    `fqn_to_index_mapping` gives the number of the file of each tensor, from 1. One file's tensors are in memory at a time;
    `num_threads` is taken and changes nothing.
    """
    parts: dict[str, list[_Part]] = {}
    for name, part in _parts(Path(input_dir)):
        parts.setdefault(name, []).append(part)
    folder, count = Path(output_dir), max(fqn_to_index_mapping.values(), default=1)
    folder.mkdir(parents=True, exist_ok=True)
    homes, total = {}, 0
    for number in sorted(set(fqn_to_index_mapping.values())):
        tensors = {
            name: _whole(Path(input_dir), name, parts[name])
            for name, home in fqn_to_index_mapping.items()
            if home == number and name in parts
        }
        _write(folder, _name(number, count), tensors, None)
        homes |= dict.fromkeys(tensors, _name(number, count))
        total += sum(t.nbytes for t in tensors.values())
    _write_index(folder, homes, total)


def _whole(folder: Path, name: str, parts: list[_Part]) -> Tensor:
    """A tensor of its parts. RuntimeError if one is missing."""
    shape = [max(p.offset[d] + p.shape[d] for p in parts) for d in range(len(parts[0].shape))]
    whole = rushlight.empty(shape, dtype=parts[0].dtype)
    if sum(p.shape.numel() for p in parts) != whole.numel():
        raise RuntimeError(f"the files lack parts of {name}, or have some twice")
    for p in parts:
        box = tuple(slice(b, b + n) for b, n in zip(p.offset, p.shape, strict=True))
        whole[box] = _tensor(folder / p.relative_path, name)
    return whole
