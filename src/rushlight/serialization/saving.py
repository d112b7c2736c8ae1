"""`save`: pickles an object under PyTorch's names and writes the memory of its tensors after it."""

from __future__ import annotations

import os
import pickle
import sys
from collections import OrderedDict
from collections.abc import Callable
from functools import cache, lru_cache
from struct import pack
from types import FunctionType
from typing import IO, Any

import numpy as np

from rushlight._backends import devices
from rushlight.autograd.tensor_hooks import warn_if_has_hooks
from rushlight.core import dtypes, storage
from rushlight.core.device import device
from rushlight.core.size import Size
from rushlight.core.storage import TypedStorage, UntypedStorage
from rushlight.core.tensor import Tensor, _wrap
from rushlight.nn.parameter import Buffer, Parameter, UninitializedTensorMixin
from rushlight.serialization.archive import ArchiveWriter
from rushlight.serialization.copying import metadata, sparse_parts
from rushlight.serialization.names import Name, plain_names, torch_name


def save(
    obj: Any,
    f: str | os.PathLike[str] | IO[bytes],
    pickle_module: Any = pickle,
    pickle_protocol: int = 2,
    _use_new_zipfile_serialization: bool = True,
    _disable_byteorder_record: bool = False,
) -> None:
    """Write `obj` to the file `f` (a path, or an object with `write`), so that `load` and PyTorch's `torch.load` read it.

    Tensors that share memory share it again after `load`; of a view the whole storage is written. A file named by a
    path is replaced in one step: an interrupted save leaves the old one. RuntimeError for a missing folder and for one
    memory viewed as two dtypes; pickle's errors for objects that it cannot pickle.

    >>> import io
    >>> import rushlight as torch
    >>> buffer = io.BytesIO()
    >>> torch.save({"weight": torch.ones(2), "epoch": 3}, buffer)
    >>> torch.load(buffer)
    {'weight': tensor([1., 1.]), 'epoch': 3}
    """
    if pickle_module is not pickle:
        raise ValueError(
            "save: only Python's own pickle module is supported as pickle_module, "
            f"got {getattr(pickle_module, '__name__', pickle_module)!r}"
        )
    write = _writer(pickle_protocol, not _disable_byteorder_record, _use_new_zipfile_serialization)
    if isinstance(f, str | os.PathLike):
        save_path(obj, os.fspath(f), write)
    elif hasattr(f, "write"):
        write(obj, f, "archive")
        getattr(f, "flush", lambda: None)()
    else:
        raise AttributeError(
            f"save: expected 'f' to be a path or an object with a write method, got {type(f).__name__}"
        )


def save_path(obj: Any, path: str, write: Callable[[Any, Any, str], None]) -> None:
    """Write a file in one step: `write` gets the object, a file beside it, and the name of the folder inside."""
    folder = os.path.dirname(path)
    if folder and not os.path.isdir(folder):
        raise RuntimeError(f"Parent directory {folder} does not exist.")
    if os.path.isdir(path):
        raise RuntimeError(f"File {path} cannot be opened: it is a directory.")
    name = os.path.splitext(os.path.basename(path))[0]
    path = os.path.realpath(path)  # the file behind a link is replaced, not the link
    exists = os.path.exists(path)
    if exists and not os.path.isfile(path):  # a pipe or a device cannot be replaced
        with open(path, "wb") as file:
            write(obj, file, name)
        return
    temporary = f"{path}.{os.getpid()}.tmp"
    try:
        with open(temporary, "wb") as file:
            if exists:
                os.chmod(temporary, os.stat(path).st_mode & 0o777)
            write(obj, file, name)
        os.replace(temporary, path)
    except BaseException:
        if os.path.exists(temporary):
            os.remove(temporary)
        raise


def _writer(protocol: int, order: bool, zipped: bool) -> Callable[[Any, Any, str], None]:
    """The function that writes an object to a file, in the zip format or in the one before PyTorch 1.6."""
    if zipped:
        return lambda obj, file, folder: _write(obj, file, folder, protocol, order)
    return lambda obj, file, folder: _write_legacy(obj, file, protocol)


def _write_legacy(obj: Any, file: Any, protocol: int) -> None:
    """Write the format that `serialization.legacy` reads."""
    from rushlight.serialization.options import MAGIC_NUMBER, PROTOCOL_VERSION

    little = sys.byteorder == "little"
    system = {
        "protocol_version": PROTOCOL_VERSION,
        "little_endian": little,
        "type_sizes": {"short": 2, "int": 4, "long": 4},
    }
    for part in (MAGIC_NUMBER, PROTOCOL_VERSION, system):
        file.write(pickle.dumps(part, protocol))
    pickler = _Pickler(file, protocol, legacy=True)
    pickler.dump(obj)
    records = list(pickler.records.values())
    file.write(pickle.dumps([record.key for record in records], protocol))
    for record in records:
        count = record.content.size // record.dtype.itemsize
        file.write(pack("<q" if little else ">q", count))
        file.write(_content(record).data)


def _content(record: _Record) -> np.ndarray:
    """The bytes of a storage as they are written."""
    from rushlight.serialization.options import skipping

    return np.zeros_like(record.content) if skipping() else record.content


def _write(obj: Any, file: Any, folder: str, protocol: int, order: bool) -> None:
    import io

    pickled = io.BytesIO()
    pickler = _Pickler(pickled, protocol)
    pickler.dump(obj)
    with ArchiveWriter(file, folder) as archive:
        archive.write("data.pkl", pickled.getvalue())
        archive.write(".format_version", b"1")
        archive.write(".storage_alignment", b"64")
        if order:
            archive.write("byteorder", sys.byteorder.encode())
        for record in pickler.records.values():
            archive.write(f"data/{record.key}", _content(record))
        archive.write("version", b"3\n")


class _Record:
    """A storage that the pickle refers to: the key of its record, its bytes, and its dtype in the file."""

    __slots__ = ("content", "dtype", "key", "location", "type")

    def __init__(
        self, key: str, content: np.ndarray, dtype: dtypes.dtype, location: str = "cpu"
    ) -> None:
        untyped = dtype in dtypes.WITHOUT_STORAGE
        self.key, self.content, self.location = key, content, location
        self.dtype = dtypes.uint8 if untyped else dtype
        self.type = f"{dtype.scalar_name}Storage" if not untyped else "UntypedStorage"


class _Arguments(tuple):
    """What a function that makes a tensor is given: record, offset, size, stride, `requires_grad`; behind hooks a dtype
    and the bits of a view of conjugates, where there are any.

    They are written straight, which takes a fifth of the time of asking of each number what it is.
    """

    __slots__ = ()


def _number(n: int) -> bytes:
    """The code of a pickle that gives a number."""
    if 0 <= n < 256:
        return pickle.BININT1 + pack("<B", n)
    if -(1 << 31) <= n < 1 << 31:
        return pickle.BININT + pack("<i", n)
    encoded = pickle.encode_long(n)
    return pickle.LONG1 + pack("<B", len(encoded)) + encoded


@lru_cache(1024)
def _numbers(ns: tuple[int, ...]) -> bytes:
    """The code of a pickle that gives a tuple of numbers."""
    return pickle.MARK + b"".join(map(_number, ns)) + pickle.TUPLE


def _no_hooks() -> OrderedDict[int, Any]:
    # A new one for each tensor: PyTorch stores it on the tensor, and hooks must not be shared.
    # (`OrderedDict[int, Any]()` would set an attribute on the instance, which would be in the file.)
    return OrderedDict()


# Classes that PyTorch's `load` knows by one name only.
_FIXED: dict[Any, tuple[str, str]] = {
    Tensor: ("torch", "Tensor"),
    Parameter: ("torch.nn.parameter", "Parameter"),
    Buffer: ("torch.nn.parameter", "Buffer"),
}


@cache
def rebuilding_names() -> dict[Any, tuple[str, str]]:
    """The functions that files call, which a user's `__reduce_ex__` may return -> their names there."""
    names = (n for n in plain_names().values() if isinstance(n, Name))
    return {n.meaning: (n.module, n.name) for n in names if isinstance(n.meaning, FunctionType)}


_PythonPickler: Any = pickle._Pickler  # type: ignore[attr-defined]


class _Pickler(_PythonPickler):
    """Writes tensors as calls of PyTorch's functions on storages, and classes under PyTorch's names.

    The base is the pickler in Python: the one in C imports every name that it writes.
    """

    dispatch = dict(_PythonPickler.dispatch)

    def __init__(self, file: Any, protocol: int, legacy: bool = False) -> None:
        super().__init__(file, protocol)
        self.legacy = legacy
        self.records: dict[Any, _Record] = {}
        self.names: dict[tuple[str, str], Name] = {}

    # -- names

    def name(self, module: str, name: str) -> Name:
        """The one `Name` object of a name: a file holds it once and then refers to it."""
        found = self.names.get((module, name))
        if found is None:
            found = self.names[module, name] = Name(module, name)
        return found

    def save_name(self, name: Name) -> None:
        self.write(pickle.GLOBAL + f"{name.module}\n{name.name}\n".encode())
        self.memoize(name)

    dispatch[Name] = save_name

    def save_dtype(self, dtype: dtypes.dtype) -> None:
        self.save(self.name("torch", dtype.name))

    dispatch[dtypes.dtype] = save_dtype

    def save_global(self, obj: Any, name: str | None = None) -> None:
        theirs = _FIXED.get(obj) or rebuilding_names().get(obj) or torch_name(obj)
        if theirs is None:
            super().save_global(obj, name)
        else:
            self.save(self.name(*theirs))

    dispatch[FunctionType] = save_global

    # -- values

    def persistent_id(self, obj: Any) -> _Record | None:
        if isinstance(obj, TypedStorage):
            return self._record(obj.untyped()._memory, obj.dtype)
        if isinstance(obj, UntypedStorage):
            return self._record(obj._memory, dtypes.uint8)
        return None

    def save_pers(self, record: _Record) -> None:
        """Write a reference to a storage."""
        module, kind = "torch", record.type
        if kind == "UntypedStorage":  # the older format has none
            module, kind = ("torch", "ByteStorage") if self.legacy else ("torch.storage", kind)
        count = record.content.size // record.dtype.itemsize
        self.write(pickle.MARK)
        self.save("storage")
        self.save(self.name(module, kind))
        self.write(pickle.BINUNICODE + pack("<I", len(record.key)) + record.key.encode())
        self.save(record.location)
        self.write(_number(count) + (pickle.NONE if self.legacy else b"") + pickle.TUPLE)
        self.write(pickle.BINPERSID)

    def save_arguments(self, arguments: _Arguments) -> None:
        record, offset, size, stride, requires_grad, *more = arguments
        self.write(pickle.MARK)
        self.save_pers(record)
        grad = pickle.NEWTRUE if requires_grad else pickle.NEWFALSE
        self.write(_number(offset) + _numbers(size) + _numbers(stride) + grad)
        self.save(OrderedDict)  # of hooks: there are none
        self.write(pickle.EMPTY_TUPLE + pickle.REDUCE)
        for each in more:
            self.save(each)
        self.write(pickle.TUPLE)

    dispatch[_Arguments] = save_arguments

    def reducer_override(self, obj: Any) -> Any:
        if isinstance(obj, Tensor):
            return self._reduce_tensor(obj)
        if isinstance(obj, Size):
            return self.name("torch", "Size"), (tuple(obj),)
        if isinstance(obj, device):
            return self.name("torch", "device"), (
                (obj.type,) if obj.index is None else (obj.type, obj.index)
            )
        if isinstance(obj, dtypes.layout):
            return self.name("torch.serialization", "_get_layout"), (repr(obj),)
        return NotImplemented

    def _reduce_tensor(self, obj: Tensor) -> Any:
        """How a tensor, a parameter or a subclass is pickled: as PyTorch does it."""
        kind, state = type(obj), dict(obj.__dict__)
        if isinstance(obj, UninitializedTensorMixin):
            return NotImplemented
        if kind is Tensor or kind is Buffer:
            kind = Tensor  # PyTorch's buffers are plain tensors with the attribute `_is_buffer`
            function, arguments = self._plain(obj)
            if not state:
                return function, arguments
        elif kind is Parameter:
            data, hooks = _wrap(obj._array), _no_hooks()
            if not state:
                return self.name("torch._utils", "_rebuild_parameter"), (
                    data,
                    obj.requires_grad,
                    hooks,
                )
            name = self.name("torch._utils", "_rebuild_parameter_with_state")
            return name, (data, obj.requires_grad, hooks, state)
        elif (
            kind.__reduce_ex__ is not Tensor.__reduce_ex__
            or kind.__reduce__ is not Tensor.__reduce__
        ):
            return NotImplemented  # the user's class defines how it is pickled
        else:
            function, arguments = self._plain(obj)
        name = self.name("torch._tensor", "_rebuild_from_type_v2")
        return name, (function, kind, arguments, state)

    def _plain(self, obj: Tensor) -> tuple[Name, tuple[Any, ...]]:
        """The call that makes the tensor: function and arguments."""
        warn_if_has_hooks(obj)
        size, grad = tuple(obj.shape), obj.requires_grad
        if obj.layout is not dtypes.strided:
            return self.name("torch._utils", "_rebuild_sparse_tensor"), (
                obj.layout,
                sparse_parts(obj),
            )
        if obj.is_meta:
            name = self.name("torch._utils", "_rebuild_meta_tensor_no_storage")
            return name, (obj.dtype, size, tuple(obj.stride()), grad)
        record = self._record(obj._array, obj.dtype)
        offset, stride = obj.storage_offset(), tuple(obj.stride())
        if record.dtype is obj.dtype:
            name = self.name("torch._utils", "_rebuild_tensor_v2")
            return name, _Arguments((record, offset, size, stride, grad, *metadata(obj)))
        name = self.name("torch._utils", "_rebuild_tensor_v3")
        return name, _Arguments((record, offset, size, stride, grad, obj.dtype, *metadata(obj)))

    def _record(self, array: np.ndarray, dtype: dtypes.dtype) -> _Record:
        """The record for the memory of `array`: one for all arrays in it."""
        content = storage.memory(array)
        xp = devices.of(content)
        location = str(xp.device_of(content))
        key: Any = (location, xp.address(content), content.size)
        if not content.size:
            key = len(self.records)
        if key not in self.records:
            content = xp.to_numpy(content)
            self.records[key] = _Record(str(len(self.records)), content, dtype, location)
        record = self.records[key]
        if record.dtype is not dtype and record.type != "UntypedStorage":
            raise RuntimeError(
                "Cannot save multiple tensors or storages that view the same data as different types: "
                f"{record.dtype} and {dtype}; clone() one of them first"
            )
        return record
