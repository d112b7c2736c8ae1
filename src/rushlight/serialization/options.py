"""Settings of `load` and `save`, and queries about files: `torch.serialization.set_default_mmap_options`..."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

from rushlight.core import dtypes
from rushlight.core.storage import TypedStorage, UntypedStorage
from rushlight.core.stub import stub

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
STORAGE_KEY_SEPARATOR = ","
MAP_SHARED, MAP_PRIVATE = 1, 2  # as Linux numbers them


class SourceChangeWarning(Warning):
    """The source of a saved module has changed. It is never given: Rushlight does not read the source in a file."""


class LoadEndianness(Enum):
    """The byte order of the numbers in a file that does not record it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_endianness: LoadEndianness | None = None
_mmap_flags = MAP_PRIVATE
_crc32 = True
_skipping = False


def get_default_load_endianness() -> LoadEndianness | None:
    """The value of `set_default_load_endianness`; None means little, as PyTorch writes."""
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """Set the byte order of files that do not record it.

    >>> set_default_load_endianness(LoadEndianness.NATIVE)
    >>> get_default_load_endianness()
    <LoadEndianness.NATIVE: 1>
    >>> set_default_load_endianness(None)
    """
    global _endianness
    if not isinstance(endianness, LoadEndianness) and endianness is not None:
        raise TypeError(
            f"Invalid argument type in function set_default_load_endianness, got {endianness!r}"
        )
    _endianness = endianness


def get_default_mmap_options() -> int:
    """MAP_PRIVATE: writes to tensors of `load(mmap=True)` stay in the process; MAP_SHARED: they go to the file."""
    return _mmap_flags


class set_default_mmap_options:
    """Set how `load(mmap=True)` maps files, MAP_PRIVATE or MAP_SHARED: from now on, or for a `with` block."""

    def __init__(self, flags: int) -> None:
        global _mmap_flags
        if flags not in (MAP_SHARED, MAP_PRIVATE):
            raise ValueError(
                "Invalid argument in function set_default_mmap_options, expected mmap.MAP_PRIVATE or "
                f"mmap.MAP_SHARED, but got {flags}"
            )
        self._before, _mmap_flags = _mmap_flags, flags

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        global _mmap_flags
        _mmap_flags = self._before


def get_crc32_options() -> bool:
    """The value of `set_crc32_options`."""
    return _crc32


@stub("no-op", "`save` always writes checksums.")
def set_crc32_options(compute_crc32: bool) -> None:
    """Accepted without effect: `save` always writes checksums, which cost little and find damaged files."""
    global _crc32
    _crc32 = bool(compute_crc32)


@contextlib.contextmanager
def skip_data(materialize_fake_tensors: bool = False) -> Iterator[None]:
    """Block in which `save` writes zeros as the elements of tensors, and `load` leaves the elements zero."""
    global _skipping
    before, _skipping = _skipping, True
    try:
        yield
    finally:
        _skipping = before


def skipping() -> bool:
    """Whether a `skip_data` block is active."""
    return _skipping


# -- locations -----------------------------------------------------------------------------------------

_packages: list[tuple[int, Callable, Callable]] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """Register how storages of a custom device are named in files, `tagger(storage)`, and restored,
    `deserializer(storage, name)`. Either returns None for a device that it does not know. Lower priorities are asked first.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda entry: entry[0])


def location_tag(storage: TypedStorage | UntypedStorage) -> str:
    """The name of a storage's location in files: "cpu".

    >>> import rushlight as torch
    >>> torch.serialization.location_tag(torch.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _packages:
        if (found := tagger(storage)) is not None:
            return found
    return storage.device.type


def deserialized(storage: TypedStorage, location: str) -> TypedStorage | None:
    """The storage that a registered package makes of one from `location`; None if no package knows it."""
    for _, _, deserializer in _packages:
        if (found := deserializer(storage, location)) is not None:
            return found if isinstance(found, TypedStorage) else storage
    return None


def default_restore_location(storage: Any, location: str) -> Any:
    """`storage`, moved to the location that a file names; RuntimeError if that is not possible."""
    from rushlight.serialization.loading import relocated

    typed = isinstance(storage, TypedStorage)
    whole = storage if typed else TypedStorage(wrap_storage=storage, dtype=dtypes.uint8)
    found = relocated(whole, location, None)
    return found if typed else found.untyped()


def normalize_storage_type(storage_type: type) -> type:
    """The class of the same name in the top namespace: `torch.FloatStorage`."""
    import rushlight

    return getattr(rushlight, storage_type.__name__)


def storage_to_tensor_type(storage: TypedStorage) -> type:
    """`torch.FloatTensor` for a storage of floats."""
    import rushlight

    return getattr(rushlight, storage.pickle_storage_type().replace("Storage", "Tensor"))


def check_module_version_greater_or_equal(
    module: Any, req_version_tuple: tuple, error_if_malformed: bool = True
) -> bool:
    """Whether `module.__version__` is at least the version, as a tuple of numbers."""
    try:
        version = tuple(
            type(wanted)(part)
            for wanted, part in zip(req_version_tuple, module.__version__.split("."), strict=False)
        )
    except Exception as error:
        message = (
            f"'{module.__name__}' module version string is malformed '{module.__version__}' and cannot be compared "
            f"with tuple {req_version_tuple!s}"
        )
        if error_if_malformed:
            raise RuntimeError(message) from error
        warnings.warn(message + ", but continuing assuming that requirement is met", stacklevel=2)
        return True
    return version >= req_version_tuple


def validate_cuda_device(location: str) -> int:
    """RuntimeError: there is no CUDA device."""
    raise RuntimeError(
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running "
        "on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the "
        f"CPU. (The device is {location!r}.)"
    )
