"""Settings of `load` and `save`, and what programs ask about files: `torch.serialization.set_default_mmap_options`..."""

from __future__ import annotations

import contextlib
from enum import Enum
from typing import TYPE_CHECKING, Any

from rushlight.core.storage import TypedStorage, UntypedStorage
from rushlight.core.stub import stub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

DEFAULT_PROTOCOL = 2
MAGIC_NUMBER = 0x1950A86A20F9469CFC6C
PROTOCOL_VERSION = 1001
STORAGE_KEY_SEPARATOR = ","
MAP_SHARED, MAP_PRIVATE = 1, 2  # as Linux numbers them


class SourceChangeWarning(Warning):
    """The source of a saved module has changed since. Never given here: the source in a file is not looked at."""


class LoadEndianness(Enum):
    """The byte order of the numbers in a file that does not say it."""

    NATIVE = 1
    LITTLE = 2
    BIG = 3


_endianness: LoadEndianness | None = None
_mmap_flags = MAP_PRIVATE
_crc32 = True
_skipping = False


def get_default_load_endianness() -> LoadEndianness | None:
    """What `set_default_load_endianness` was given; None: little, as PyTorch writes."""
    return _endianness


def set_default_load_endianness(endianness: LoadEndianness | None) -> None:
    """The byte order that files have which do not say it themselves.

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
    """MAP_PRIVATE: what is written to tensors of `load(mmap=True)` stays in the process; MAP_SHARED: it goes to the file."""
    return _mmap_flags


class set_default_mmap_options:
    """How `load(mmap=True)` maps files, MAP_PRIVATE or MAP_SHARED: from now on, or for a `with` block."""

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
    """What `set_crc32_options` was given."""
    return _crc32


@stub("no-op", "`save` always writes checksums.")
def set_crc32_options(compute_crc32: bool) -> None:
    """Accepted for PyTorch's sake: `save` always writes checksums, which cost little and find damaged files."""
    global _crc32
    _crc32 = bool(compute_crc32)


@contextlib.contextmanager
def skip_data(materialize_fake_tensors: bool = False) -> Iterator[None]:
    """Inside, `save` writes zeros for the numbers of tensors, a file to be filled otherwise, and `load` leaves them zero."""
    global _skipping
    before, _skipping = _skipping, True
    try:
        yield
    finally:
        _skipping = before


def skipping() -> bool:
    """Whether this is inside of `skip_data`."""
    return _skipping


# -- places ----------------------------------------------------------------------------------------

_packages: list[tuple[int, Callable, Callable]] = []


def register_package(
    priority: int, tagger: Callable[[Any], str | None], deserializer: Callable[[Any, str], Any]
) -> None:
    """How storages of a device of one's own are named in files (`tagger(storage)`, None: not mine) and brought back
    (`deserializer(storage, name)`, None: not mine); lower priorities are asked first.
    """
    _packages.append((priority, tagger, deserializer))
    _packages.sort(key=lambda entry: entry[0])


def location_tag(storage: TypedStorage | UntypedStorage) -> str:
    """The name of the place of a storage in files: "cpu".

    >>> import rushlight as torch
    >>> torch.serialization.location_tag(torch.ones(2).untyped_storage())
    'cpu'
    """
    for _, tagger, _ in _packages:
        if (found := tagger(storage)) is not None:
            return found
    return storage.device.type


def restored(storage: TypedStorage, location: str) -> TypedStorage | None:
    """What a registered package makes of a storage from `location`; None: none of them knows that place."""
    for _, _, deserializer in _packages:
        if (found := deserializer(storage, location)) is not None:
            return found if isinstance(found, TypedStorage) else storage
    return None


def default_restore_location(storage: Any, location: str) -> Any:
    """`storage`, brought to where a file says that it was; RuntimeError where that is not possible."""
    from rushlight.serialization.loading import placed

    typed = isinstance(storage, TypedStorage)
    found = placed(storage if typed else TypedStorage(wrap_storage=storage), location, None)
    return found if typed else found.untyped()


def normalize_storage_type(storage_type: type) -> type:
    """The class of the top namespace for a class of storages: `torch.FloatStorage`."""
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
        import warnings

        warnings.warn(message + ", but continuing assuming that requirement is met", stacklevel=2)
        return True
    return version >= req_version_tuple


def validate_cuda_device(location: str) -> int:
    """RuntimeError: no CUDA device is here to restore storages on."""
    raise RuntimeError(
        "Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False. If you are running "
        "on a CPU-only machine, please use torch.load with map_location=torch.device('cpu') to map your storages to the "
        f"CPU. (The device is {location!r}.)"
    )
