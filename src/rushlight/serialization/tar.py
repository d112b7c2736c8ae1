"""The format of PyTorch before 0.1.10: a tar archive of three members. Read only.

    storages   a pickled number n; n times a pickled (key, location, type), the number of elements, the elements;
               a pickled list of (key, key of the whole, offset, elements) for storages that are parts of others
    tensors    a pickled number n; n times a pickled (key, key of its storage, type), the number of dimensions (8 bytes,
               of which 4 count), sizes, strides, offset
    pickle     the object; it refers to tensors and storages by their keys, to classes of modules by tuples

Numbers are little-endian, 64 bits where nothing else is said.
"""

from __future__ import annotations

import io
import os
import re
import tarfile
from typing import Any, NoReturn

import numpy as np

from rushlight.core import dtypes
from rushlight.core.storage import TypedStorage
from rushlight.core.tensor import Tensor
from rushlight.serialization.loading import _RestrictedUnpickler, relocated, unpickle
from rushlight.serialization.names import STORAGE_DTYPES, StorageType
from rushlight.serialization.rebuild import MAX_DIMS, loaded, tensor_v1

MAGIC, MAGIC_AT = b"ustar", 257  # of the tar format, in the header of its first member


def is_tar(file: Any) -> bool:
    """Whether a tar archive begins at the position of `file`, which does not change."""
    start = file.tell()
    head = file.read(MAGIC_AT + len(MAGIC))
    file.seek(start)
    return head[MAGIC_AT:] == MAGIC


def load_tar(file: Any, map_location: Any, restricted: bool, arguments: Any) -> Any:
    """The object in a tar archive; errors as those of `load`. Nothing is unpacked to disk."""
    members = _members(file)
    found: dict[int, Any] = {}
    _read_storages(_Member(members["storages"], "storages"), found, map_location)
    _read_tensors(_Member(members["tensors"], "tensors"), found)

    def find(reference: Any) -> Any:
        if isinstance(reference, tuple) and len(reference) == 3:
            return reference[0]  # the class of a module, with its source, which is not read
        return _found(found, reference, (Tensor, TypedStorage))

    return unpickle(io.BytesIO(members["pickle"]), find, restricted, arguments)


def refuse(why: str) -> NoReturn:
    """Raise the RuntimeError for a damaged file."""
    raise RuntimeError(f"load: {why}: the file is damaged, or no checkpoint")


def _members(file: Any) -> dict[str, bytes]:
    """The contents of the three members."""
    start = file.tell()
    end = file.seek(0, os.SEEK_END)
    file.seek(start)
    members = {}
    try:
        with tarfile.open(fileobj=file, mode="r:") as archive:
            for member in archive:
                if member.name not in ("storages", "tensors", "pickle") or member.name in members:
                    refuse(f"the archive has a member {member.name[:40]!r} too many")
                # a sparse member may claim any size; a link would be another member
                if not member.isreg() or member.issparse() or member.size > end - start:
                    refuse(f"the member {member.name!r} is no plain file of {member.size} bytes")
                content = archive.extractfile(member)
                members[member.name] = content.read() if content is not None else b""
                if len(members[member.name]) != member.size:
                    refuse(f"the member {member.name!r} ends early")
    except (tarfile.TarError, OSError, ValueError, OverflowError, EOFError) as error:
        raise RuntimeError(
            f"load: the tar archive cannot be read: {error}: the file is damaged, or no checkpoint"
        ) from error
    if missing := {"storages", "tensors", "pickle"} - set(members):
        refuse(f"the archive has no member {', '.join(sorted(missing))}")
    return members


class _HeaderUnpickler(_RestrictedUnpickler):
    """Allows numbers, tuples, and names of the types of storages and tensors, also those on a GPU."""

    def find_class(self, module: str, name: str) -> Any:
        if module in ("torch", "torch.cuda"):
            named = re.fullmatch(r"(\w+)(Storage|Tensor)", name)
            if named and (dtype := STORAGE_DTYPES.get(f"{named[1]}Storage")):
                return StorageType(dtype)
        return super().find_class(module, name)


class _Member:
    """Reads pickles and plain numbers of one member, from its start."""

    def __init__(self, content: bytes, name: str) -> None:
        self.file, self.name, self.left = io.BytesIO(content), name, len(content)

    def pickled(self) -> Any:
        try:
            return _HeaderUnpickler(self.file).load()
        except Exception as error:  # a damaged pickle fails in every way Python knows
            raise RuntimeError(
                f"load: the member {self.name!r} cannot be read: {type(error).__name__}: {error}: the file is "
                "damaged, or no checkpoint"
            ) from error

    def count(self) -> int:
        n = self.pickled()
        if type(n) is not int or n < 0:
            refuse(f"the member {self.name!r} begins with {str(n)[:40]}")
        return n

    def entry(self) -> tuple[int, Any, Any]:
        entry = self.pickled()
        if not (
            isinstance(entry, tuple)
            and len(entry) == 3
            and type(entry[0]) is int
            and isinstance(entry[2], StorageType)
        ):
            refuse(f"the member {self.name!r} has the entry {str(entry)[:80]}")
        return entry

    def take(self, size: int) -> bytes:
        if not 0 <= size <= self.left - self.file.tell():
            refuse(f"the member {self.name!r} ends before {size} bytes that it should have")
        return self.file.read(size)

    def integers(self, count: int) -> list[int]:
        return np.frombuffer(self.take(8 * count), "<i8").tolist()


def _found(found: dict[int, Any], key: Any, kinds: Any) -> Any:
    if type(key) is str and key.isascii() and key.isdigit() and len(key) < 25:
        key = int(key)
    obj = found.get(key) if type(key) is int else None
    if not isinstance(obj, kinds):
        refuse(f"it refers to {str(key)[:40]!r}, which it does not hold")
    return obj


def _read_storages(member: _Member, found: dict[int, Any], map_location: Any) -> None:
    for _ in range(member.count()):
        key, location, kind = member.entry()
        if not isinstance(location, str):
            refuse(f"a storage stands at {str(location)[:40]}")
        (count,) = member.integers(1)
        # 2**58: times the size of an element it must still fit into 64 bits
        size = count * kind.dtype.itemsize if 0 <= count < 2**58 else -1
        content = np.frombuffer(member.take(size), np.uint8).copy()
        if kind.dtype is dtypes.bool_:
            content[:] = content != 0  # see the same line in rebuild
        found[key] = relocated(loaded(content, kind.dtype), location, map_location)
    views = member.pickled()
    for view in views if isinstance(views, list) else refuse("it has no list of views"):
        if not (isinstance(view, tuple) and len(view) == 4 and all(type(n) is int for n in view)):
            refuse(f"a storage is the view {str(view)[:80]}")
        key, whole, first, count = view
        storage = _found(found, whole, TypedStorage)
        if not 0 <= first <= first + count <= storage.size():
            refuse(f"a view reaches outside storage {whole}")
        width = storage.dtype.itemsize
        part = storage.untyped()[first * width : (first + count) * width]
        found[key] = TypedStorage(wrap_storage=part, dtype=storage.dtype)


def _read_tensors(member: _Member, found: dict[int, Any]) -> None:
    for _ in range(member.count()):
        key, storage, _ = member.entry()
        ndim = int.from_bytes(member.take(8)[:4], "little", signed=True)
        if not 0 <= ndim <= MAX_DIMS:
            refuse(f"a tensor has {ndim} dimensions")
        size, stride = member.integers(ndim), member.integers(ndim)
        (offset,) = member.integers(1)
        found[key] = tensor_v1(
            _found(found, storage, TypedStorage), offset, tuple(size), tuple(stride)
        )
