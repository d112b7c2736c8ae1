"""The format of PyTorch before 1.6: four pickles (a magic number, a version, the writer's system, the object), the list of
storage keys, and the storages one after the other, each with its number of elements before it. Read only.
"""

from __future__ import annotations

import os
import struct
import sys
from typing import Any

import numpy as np

from rushlight._backends import devices
from rushlight.core import dtypes
from rushlight.core.storage import TypedStorage
from rushlight.serialization.archive import fill
from rushlight.serialization.loading import relocated, storage_reference, swap, unpickle
from rushlight.serialization.options import MAGIC_NUMBER, PROTOCOL_VERSION
from rushlight.serialization.rebuild import late, loaded
from rushlight.serialization.tar import is_tar, load_tar, refuse


def load_legacy(file: Any, map_location: Any, restricted: bool, arguments: Any) -> Any:
    """The object in a file of the older format; errors as those of `load`."""
    late.tensors = []
    try:
        result = _load(file, map_location, restricted, arguments)
        late.finish()
    finally:
        late.tensors = None
    return result


def _load(file: Any, map_location: Any, restricted: bool, arguments: Any) -> Any:
    if is_tar(file):
        return load_tar(file, map_location, restricted, arguments)
    start = file.tell()
    size = file.seek(0, os.SEEK_END) - start
    file.seek(start)
    if plain(file, "the magic number") != MAGIC_NUMBER:
        raise RuntimeError("Invalid magic number; corrupt file?")
    version = plain(file, "the version")
    if version != PROTOCOL_VERSION:
        raise RuntimeError(f"Invalid protocol version: {str(version)[:40]}")
    system = plain(file, "the description of the writer's system")
    little = system.get("little_endian", True) if isinstance(system, dict) else True
    storages = Storages(size, map_location)
    result = unpickle(file, storages.find, restricted, arguments)
    keys = plain(file, "the list of storages")
    if not isinstance(keys, list) or set(map(str, keys)) != set(storages.found):
        refuse("its list of storages is not that of its tensors")
    for key in keys:
        read_storage(file, key, storages.found[key], little)
    return result


def plain(file: Any, what: str) -> Any:
    """The next pickled object, which is plain data."""
    try:
        return unpickle(file, no_storage, True, {})
    except Exception as error:
        raise RuntimeError(
            f"Invalid magic number; corrupt file? (load: {what} cannot be read: {type(error).__name__}; a file starts "
            "with a zip archive, or with the pickled numbers of the older format)"
        ) from error


def no_storage(reference: Any) -> Any:
    refuse("it refers to a storage before the first one")


class Storages:
    """The storages that the pickled object names, made when they are met; what is in them comes after it."""

    def __init__(self, size: int, map_location: Any) -> None:
        self.found: dict[str, TypedStorage] = {}
        self.size, self.claimed = size, 0  # bytes of the file, and of the storages so far
        self.map_location = map_location

    def find(self, reference: Any) -> Any:
        """What a persistent id of the pickle stands for: a storage, or a view of one."""
        if isinstance(reference, tuple) and len(reference) == 4 and reference[0] == "module":
            return reference[1]  # a class; its source is not read
        dtype, key, location, count = storage_reference(reference)
        if key not in self.found:
            size = count * dtype.itemsize
            self.claimed += size
            if self.claimed > self.size:
                refuse(f"its storages claim {self.claimed} bytes, and it has {self.size}")
            made = loaded(np.zeros(size, np.uint8), dtype)
            self.found[key] = relocated(made, location, self.map_location)
        whole = self.found[key]
        if whole.dtype is not dtype or whole.size() != count:
            refuse(f"storage {key!r} has two sizes or types")
        view = reference[5] if len(reference) > 5 else None
        if view is None:
            return whole
        if not (
            isinstance(view, tuple) and len(view) == 3 and all(type(n) is int for n in view[1:])
        ):
            refuse(f"storage {key!r} has the view {str(view)[:80]}")
        _, first, length = view
        if not 0 <= first <= first + length <= count:
            refuse(f"a view reaches outside storage {key!r}")
        part = whole.untyped()[first * dtype.itemsize : (first + length) * dtype.itemsize]
        return TypedStorage(wrap_storage=part, dtype=dtype)


def read_storage(file: Any, key: Any, storage: TypedStorage, little: bool) -> None:
    """Fill a storage with what comes next: its number of elements, and its bytes."""
    memory, dtype = storage.untyped()._memory, storage.dtype
    header = file.read(8)
    count = struct.unpack("<q" if little else ">q", header)[0] if len(header) == 8 else -1
    if count != storage.size():
        refuse(f"storage {key!r} has no header, or one of another size")
    own = type(memory) is np.ndarray  # else the memory of another device
    content = memory if own else np.empty(memory.size, np.uint8)
    size = fill(file, content)
    if size < memory.size:
        refuse(f"storage {key!r} ends after {size} of {memory.size} bytes")
    if not own:
        memory[:] = devices.of(memory).from_numpy(content)
    if little != (sys.byteorder == "little"):
        swap(memory, dtype)
    if dtype is dtypes.bool_:
        memory[:] = memory != 0  # see the same line in rebuild
