"""`load`: read files of `save` or PyTorch without trusting them (see Note [What a file may name])."""

from __future__ import annotations

import io
import os
import pickle
from collections import Counter, OrderedDict
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import devices
from rushlight.core import dtypes
from rushlight.core.device import available, device
from rushlight.core.storage import TypedStorage
from rushlight.core.tensor import Tensor
from rushlight.serialization.archive import ArchiveReader, native_byte_order
from rushlight.serialization.names import (
    Name,
    StorageType,
    allowed_object,
    is_allowed,
    plain_names,
    resolve,
)
from rushlight.serialization.options import deserialized, skipping
from rushlight.serialization.rebuild import loaded

if TYPE_CHECKING:
    from collections.abc import Callable

    MapLocation = Callable[[Any, str], Any] | device | str | dict[str, str] | None


def load(
    f: str | os.PathLike[str] | IO[bytes],
    map_location: MapLocation = None,
    pickle_module: Any = None,
    *,
    weights_only: bool | None = None,
    mmap: bool | None = None,
    **pickle_load_args: Any,
) -> Any:
    """The object in the file `f`: a path, or a binary file object with `read` and `seek`.

    `weights_only` (the default): the file may hold tensors, parameters, numbers, text and containers of them, and what
    `add_safe_globals` allows; anything else is an UnpicklingError and nothing of it is executed. With False, the file
    is a program that can do all that the user can do: use it only for trusted files.

    `map_location`: where tensors saved on a device go: a device, a dict from saved to wanted location, or a function of
    the storage and its location. `mmap`: map the file (a path) into memory instead of reading it; writes to the tensors
    do not reach the file.

    FileNotFoundError; RuntimeError for a truncated or damaged file, a tensor outside its storage, an unknown device.

    >>> import io
    >>> import rushlight as torch
    >>> buffer = io.BytesIO()
    >>> torch.save([torch.arange(3)], buffer)
    >>> torch.load(buffer, map_location="cpu")
    [tensor([0, 1, 2])]
    """
    restricted = pickle_module is None if weights_only is None else bool(weights_only)
    if restricted and pickle_module is not None:
        raise RuntimeError("Can not safely load weights when explicit pickle_module is specified")
    if pickle_module is not None:
        pickle_load_args["pickle_module"] = pickle_module
    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            return _load(file, map_location, restricted, bool(mmap), pickle_load_args)
    if mmap:
        raise ValueError("f must be a file path in order to use the mmap argument")
    if not (hasattr(f, "read") and hasattr(f, "seek") and hasattr(f, "tell")):
        raise AttributeError(
            f"load: expected 'f' to be a path or a binary file that can read, seek and tell, got {type(f).__name__}. "
            "You can only torch.load from a file that is seekable. Please pre-load the data into a buffer like "
            "io.BytesIO and try to load from it instead."
        )
    start = f.tell()
    if isinstance(f, io.BytesIO) and start == f.seek(0, os.SEEK_END):
        start = 0  # just written: read what is there
    f.seek(start)
    return _load(f, map_location, restricted, False, pickle_load_args)


def _load(file: Any, map_location: Any, restricted: bool, mmap: bool, pickle_arguments: Any) -> Any:
    """The object in a file of either format: a zip archive, or what came before it."""
    start = file.tell()
    magic = file.read(4)
    if not magic:
        raise EOFError("load: the file is empty (Ran out of input)")
    file.seek(start)
    if magic[:2] != b"PK":
        from rushlight.serialization.legacy import load_legacy

        if mmap:
            raise RuntimeError(
                "mmap can only be used with files saved with `torch.save(_use_new_zipfile_serialization=True)`: "
                "this one has the older format. Load it without mmap and save it again"
            )
        return load_legacy(file, map_location, restricted, pickle_arguments)
    archive = ArchiveReader(file, _mapped(file) if mmap else None)
    if "constants.pkl" in archive:
        raise RuntimeError(
            "load: this is a TorchScript archive (torch.jit.save), which holds a program; save a state_dict"
        )
    if mmap and not native_byte_order(archive):
        raise RuntimeError(
            "load: a file of the other byte order cannot be mapped; load it without mmap"
        )
    storages = _Storages(archive, map_location)
    return unpickle(
        io.BytesIO(archive.read("data.pkl")), storages.find, restricted, pickle_arguments
    )


def _mapped(file: Any) -> memoryview:
    import mmap

    from rushlight.serialization.options import MAP_SHARED, get_default_mmap_options

    if get_default_mmap_options() == MAP_SHARED:
        with open(file.name, "r+b") as writable:
            return memoryview(mmap.mmap(writable.fileno(), 0, access=mmap.ACCESS_WRITE))
    return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY))


class _Storages:
    """The storages of one archive; each is read once, when the pickle first refers to it."""

    def __init__(self, archive: ArchiveReader, map_location: Any) -> None:
        self._archive, self._map = archive, map_location
        self._native = native_byte_order(archive)
        self._found: dict[str, TypedStorage] = {}

    def find(self, reference: Any) -> TypedStorage:
        dtype, key, location, count = storage_reference(reference)
        size = count * dtype.itemsize
        if f"data/{key}" not in self._archive or self._archive.size(f"data/{key}") != size:
            raise RuntimeError(
                f"load: storage {key!r} should have {count} elements of {dtype}, and the file has no record of that size: "
                "it is damaged or hostile"
            )
        if key not in self._found:
            content = np.zeros(size, np.uint8) if skipping() else self._archive.array(f"data/{key}")
            if not self._native:
                swap(content, dtype)
            self._found[key] = relocated(loaded(content, dtype), location, self._map)
        found = self._found[key]
        if found.dtype is dtype:
            return found
        return TypedStorage(wrap_storage=found.untyped(), dtype=dtype)


def swap(content: np.ndarray, dtype: dtypes.dtype) -> None:
    """Reverse the bytes of every number in `content` (uint8), in place."""
    width = dtype.itemsize // 2 if dtype.is_complex else dtype.itemsize
    content.view(f"u{width}").byteswap(inplace=True)


def storage_reference(reference: Any) -> tuple[dtypes.dtype, str, str, int]:
    """(element type, key, location, number of elements) of a file's reference to a storage, checked."""
    if isinstance(reference, tuple):  # a file of Python 2, read with encoding="bytes"
        reference = tuple([x.decode("latin-1") if type(x) is bytes else x for x in reference])
    if not (
        isinstance(reference, tuple)
        and len(reference) >= 5
        and reference[0] == "storage"
        and isinstance(reference[1], StorageType)
        and isinstance(reference[2], str)
        and isinstance(reference[3], str)
        and type(reference[4]) is int
        and 0 <= reference[4] < 2**62
    ):
        raise RuntimeError(
            f"load: the file is damaged or hostile: it refers to a storage by {str(reference)[:80]}"
        )
    return reference[1].dtype, reference[2], reference[3], reference[4]


def relocated(storage: TypedStorage, location: str, map_location: Any) -> TypedStorage:
    """`storage`, saved at `location`, moved to where `map_location` says; RuntimeError if that is not possible."""
    if map_location is None:
        if (own := deserialized(storage, location)) is not None:
            return own
        target: Any = location
    elif isinstance(map_location, dict):
        target = map_location.get(location, location)
    elif isinstance(map_location, str | device):
        target = map_location
    elif callable(map_location):
        given = map_location(storage, location)
        if given is storage:
            target = "cpu"
        elif given is None:
            target = location
        else:
            target = getattr(given, "device", given)
    else:
        raise TypeError(
            f"load: map_location must be a device, a dict or a function, got {type(map_location).__name__}"
        )
    where = target if isinstance(target, device) else device(target)
    if where.type == "cuda":
        raise RuntimeError(
            "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running "
            "on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to "
            "the CPU."
        )
    if where.type not in available:
        raise RuntimeError(
            f"don't know how to restore data location of a storage (tagged with {location}): "
            "use torch.load with map_location='cpu'"
        )
    untyped = storage.untyped()
    untyped._meta = where.type == "meta"
    if not untyped._meta:
        untyped._memory = devices.for_device(where).from_numpy(untyped._memory)
    return storage


# -- unpicklers ----------------------------------------------------------------------------------------------------------------


def unpickle(
    file: Any, find_storage: Callable[[Any], TypedStorage], restricted: bool, arguments: Any
) -> Any:
    """The next pickle in `file`, with its references to storages looked up by `find_storage`."""
    arguments = dict(arguments)
    module = arguments.pop("pickle_module", pickle)
    if not restricted:
        unpickler: Any = type("Unpickler", (_Unrestricted, module.Unpickler), {})(file, **arguments)
        unpickler.persistent_load = find_storage
        return unpickler.load()
    try:
        careful = _RestrictedUnpickler(file, **arguments)
        careful.persistent_load = find_storage
        return careful.load()
    except pickle.UnpicklingError as error:
        raise pickle.UnpicklingError(
            f"Weights only load failed. {error}\n"
            "If the file comes from a source you trust, load it with weights_only=False, which runs the code in it."
        ) from None
    except (RuntimeError, MemoryError):
        raise  # its text says what is wrong
    except Exception as error:
        # A damaged pickle fails in every way Python knows: stack empty, memo unknown, text not UTF-8...
        raise pickle.UnpicklingError(
            f"Weights only load failed. The file is damaged or hostile: {type(error).__name__}: {error}"
        ) from error


def _modern(module: str, name: str) -> tuple[str, str]:
    """The Python 3 name of a Python 2 name, which protocol 2 writes: `builtins set` for `__builtin__ set`."""
    import _compat_pickle

    if (module, name) in _compat_pickle.NAME_MAPPING:
        return _compat_pickle.NAME_MAPPING[module, name]
    return _compat_pickle.IMPORT_MAPPING.get(module, module), name


class _Unrestricted:
    """For `weights_only=False`: allows all names; PyTorch's names are looked up in Rushlight."""

    def find_class(self, module: str, name: str) -> Any:
        known = plain_names().get(f"{module}.{name}")
        if known is not None:
            return known.meaning if isinstance(known, Name) else known
        if module == "torch" or module.startswith("torch."):
            return resolve(module, name)
        return super().find_class(module, name)  # type: ignore[misc]


def _refused(what: str) -> Callable[[Any], None]:
    def refuse(self: Any) -> None:
        raise pickle.UnpicklingError(f"Unsupported operand: {what}")

    return refuse


_PythonUnpickler: Any = pickle._Unpickler  # type: ignore[attr-defined]


class _RestrictedUnpickler(_PythonUnpickler):
    """For `weights_only=True`: allows containers, numbers, text, and calls of allowed names."""

    dispatch = dict(_PythonUnpickler.dispatch)
    for _code, _what in {
        # Opcodes that make or change objects and that no checkpoint needs.
        pickle.INST: "INST",
        pickle.OBJ: "OBJ",
        pickle.NEWOBJ_EX: "NEWOBJ_EX",
        pickle.EXT1: "EXT1",
        pickle.EXT2: "EXT2",
        pickle.EXT4: "EXT4",
        pickle.PERSID: "PERSID",
        pickle.BYTEARRAY8: "BYTEARRAY8",  # allocates the size in the file before it reads
        pickle.NEXT_BUFFER: "NEXT_BUFFER",
        pickle.READONLY_BUFFER: "READONLY_BUFFER",
    }.items():
        dispatch[_code[0]] = _refused(_what)
    del _code, _what

    def find_class(self, module: str, name: str) -> Any:
        module, name = _modern(module, name)
        full = f"{module}.{name}"
        known = plain_names().get(full)
        if known is None:
            known = allowed_object(full)
        if known is None:
            raise pickle.UnpicklingError(
                f"Unsupported global: GLOBAL {full} was not an allowed global by default. If it is harmless whatever it "
                f"is called with, please use `torch.serialization.add_safe_globals([{name}])` or the "
                f"`torch.serialization.safe_globals([{name}])` context manager to allow it."
            )
        return known

    def load_reduce(self) -> None:
        arguments = self.stack.pop()
        function = self.stack[-1]
        if not (type(function) is Name or is_allowed(function)):
            raise pickle.UnpicklingError(
                f"Trying to call {str(function)[:80]}, which is no allowed global"
            )
        self.stack[-1] = function(*arguments)

    dispatch[pickle.REDUCE[0]] = load_reduce

    def load_newobj(self) -> None:
        arguments = self.stack.pop()
        kind = self.stack[-1]
        if type(kind) is Name and kind.meaning in (OrderedDict, Counter, set):
            kind = kind.meaning
        elif not (isinstance(kind, type) and is_allowed(kind)):
            raise pickle.UnpicklingError(
                f"Trying to make an object of {str(kind)[:80]}, which is no allowed class"
            )
        self.stack[-1] = kind.__new__(kind, *arguments)

    dispatch[pickle.NEWOBJ[0]] = load_newobj

    def load_build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if type(target) is OrderedDict or (type(target) is Tensor and isinstance(state, dict)):
            # `_metadata` of a state_dict. Tensors of PyTorch's first releases are not built this way.
            if not isinstance(state, dict):
                raise pickle.UnpicklingError(f"an OrderedDict has the state {str(state)[:80]}")
            target.__dict__.update(state)
        elif is_allowed(type(target)):
            if hasattr(target, "__setstate__"):
                target.__setstate__(state)
            else:
                slots: dict[str, Any] = {}
                if isinstance(state, tuple) and len(state) == 2:
                    state, slots = state
                target.__dict__.update(state or {})
                for key, value in (slots or {}).items():
                    setattr(target, key, value)
        else:
            raise pickle.UnpicklingError(
                f"Can only build Tensor, OrderedDict or types allowlisted via `add_safe_globals`, but got {type(target)}"
            )

    dispatch[pickle.BUILD[0]] = load_build


def get_unsafe_globals_in_checkpoint(f: str | os.PathLike[str] | IO[bytes]) -> list[str]:
    """The full names in the checkpoint `f` that `weights_only=True` would refuse. Does not execute the file.

    ValueError for a file of the older format, as in PyTorch.

    >>> import io
    >>> import rushlight as torch
    >>> buffer = io.BytesIO()
    >>> torch.save([torch.ones(1), range(3)], buffer)
    >>> torch.serialization.get_unsafe_globals_in_checkpoint(buffer)
    ['builtins.range']
    """
    import pickletools

    def names(file: Any) -> set[str]:
        file.seek(0)
        if file.read(2) != b"PK":
            raise ValueError(
                "Expected input to be a checkpoint returned by torch.save but got a file of another format"
            )
        texts: list[str] = []
        found = set()
        for code, argument, _ in pickletools.genops(ArchiveReader(file).read("data.pkl")):
            if isinstance(argument, str) and "UNICODE" in code.name:
                texts.append(argument)
            if code.name in ("GLOBAL", "INST"):
                found.add(".".join(_modern(*str(argument).split(" ", 1))))
            elif code.name == "STACK_GLOBAL" and len(texts) > 1:
                found.add(".".join(_modern(*texts[-2:])))
        return found

    if isinstance(f, str | os.PathLike):
        with open(f, "rb") as file:
            named = names(file)
    else:
        named = names(f)
    allowed = plain_names()
    return sorted(name for name in named if name not in allowed and allowed_object(name) is None)
