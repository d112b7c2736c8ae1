"""The memory of tensors: `UntypedStorage` (bytes) and `TypedStorage` (elements of one dtype).

A tensor's memory is that of the NumPy array at the root of its array's chain of bases. Storage
objects are made on demand; two storages of the same memory are equal and have one `data_ptr()`.

>>> import rushlight as torch
>>> t = torch.tensor([1.0, 2.0, 3.0])
>>> t.untyped_storage() == t[1:].untyped_storage(), t[1:].storage_offset()
(True, 1)
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import devices
from rushlight._backends.sparse import Sparse
from rushlight.core import dtypes, modes, settings
from rushlight.core.device import CPU, META, device
from rushlight.core.dtype_sets import BF16, F32

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rushlight.core.tensor import Tensor


# -- arrays and their memory -----------------------------------------------------------------------


def root(array: Any) -> Any:
    """The array at the end of the chain of bases, which owns (or first wrapped) the memory of `array`."""
    return devices.of(array).root(array)


def address(array: Any) -> int:
    """The address of the first element."""
    return devices.of(array).address(array)


def memory(array: np.ndarray) -> np.ndarray:
    """The whole memory that `array` is part of, as bytes: uint8 [n], without copying."""
    r = root(array)
    if isinstance(r, Sparse):
        kind = r.backend.removesuffix("CPU")
        raise NotImplementedError(f"Cannot access storage of {kind}TensorImpl")
    plain = r.view(np.ndarray) if isinstance(r, np.ndarray) else r
    if plain.flags.c_contiguous:
        return plain.reshape(-1).view(np.uint8)
    if plain.flags.f_contiguous:
        return plain.T.reshape(-1).view(np.uint8)
    # Another order (channels last), or gaps: all bytes from the first to the last.
    n = sum((k - 1) * s for k, s in zip(plain.shape, plain.strides, strict=True)) + plain.itemsize
    first = plain[(slice(0, 1),) * plain.ndim].reshape(-1).view(np.uint8)
    return devices.of(first).as_strided(first, (n,), (1,))


def offset(tensor: Tensor) -> int:
    """Elements from the start of the memory to the first element of `tensor`."""
    a = tensor._array
    r = root(a)
    return 0 if r is a else (address(a) - address(r)) // a.itemsize


def strided(
    memory: np.ndarray, dtype: np.dtype, offset: int, shape: tuple, strides: tuple
) -> np.ndarray:
    """An array in `memory` (uint8); offset and strides in elements. RuntimeError when it is too small."""
    size = dtype.itemsize
    last = offset + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)) + 1
    if 0 in shape:
        last = offset
        strides = tuple(s if abs(s) < 1 << 40 else 0 for s in strides)
    if last * size > memory.size or offset < 0:
        raise RuntimeError(
            f"setStorage: sizes {list(shape)}, strides {list(strides)}, storage offset {offset}, and "
            f"itemsize {size} requiring a storage size of {last * size} are out of bounds for storage of "
            f"size {memory.size}"
        )
    if not isinstance(memory, np.ndarray):
        steps = tuple([s * size for s in strides])
        return devices.of(memory).as_strided(memory, shape, steps, offset * size, dtype)
    return np.ndarray(shape, dtype, memory, offset * size, tuple(s * size for s in strides))


def mapped(filename: Any, shared: bool | None, nbytes: int) -> np.ndarray:
    """The first `nbytes` of a file as writable bytes; with `shared`, writes go to the file, which is extended if needed."""
    import os

    try:
        with open(filename, "ab" if shared else "rb") as file:
            have = os.fstat(file.fileno()).st_size
            if have < nbytes and shared:
                file.truncate(nbytes)
    except OSError as error:
        raise RuntimeError(f"unable to open file <{filename}>: {error.strerror}") from error
    if have < nbytes and not shared:
        raise RuntimeError(f"file <{filename}> has {have} bytes, {nbytes} are asked for")
    if nbytes == 0:
        return np.empty(0, np.uint8)  # an empty range cannot be mapped
    return np.asarray(np.memmap(filename, np.uint8, "r+" if shared else "c", shape=nbytes))


NO_DATA = "Cannot copy out of meta tensor; no data!"


# -- storages --------------------------------------------------------------------------------------


class _Storage:
    """What storages with and without a type do alike."""

    __slots__ = ()

    is_cuda = is_hpu = is_sparse = False

    def __sizeof__(self: Any) -> int:
        return object.__sizeof__(self) + self.nbytes()

    def __iter__(self: Any) -> Iterator[Any]:
        return iter(self.tolist())

    def __copy__(self: Any) -> Any:
        return self.clone()

    def __reduce__(self: Any) -> Any:
        from rushlight import serialization

        return serialization.reduce_storage(self)

    def cpu(self: Any) -> Any:
        return self._to(CPU)

    def get_device(self: Any) -> int:
        return -1 if self.device.index is None else self.device.index


class UntypedStorage(_Storage):
    """Bytes: `UntypedStorage(n)`, `UntypedStorage([1, 2, 255])`, or the memory of a tensor."""

    __slots__ = ("_memory", "_meta", "__weakref__")

    _memory: np.ndarray
    _meta: bool

    def __init__(self, content: Any = 0, *, device: Any = None) -> None:
        self._meta = device is not None and _device(device).type == "meta"
        xp = devices.for_device("cpu" if self._meta or device is None else device)
        if isinstance(content, int):
            self._memory = xp.empty(content, np.uint8)
        elif isinstance(content, UntypedStorage):
            self._memory = content._memory
        else:
            self._memory = xp.from_numpy(np.array([int(v) % 256 for v in content], np.uint8))

    @classmethod
    def _of(cls, tensor: Tensor) -> UntypedStorage:
        self = cls.__new__(cls)
        self._memory = memory(tensor._array)
        self._meta = tensor.is_meta
        return self

    @property
    def device(self) -> device:
        return META if self._meta else devices.of(self._memory).device_of(self._memory)

    is_sparse_csr = False

    def nbytes(self) -> int:
        """The number of bytes."""
        return self._memory.size

    size = nbytes

    __len__ = nbytes

    def element_size(self) -> int:
        """1: a storage without type holds bytes."""
        return 1

    def data_ptr(self) -> int:
        """The address of the first byte; 0 for an empty storage."""
        return address(self._memory) if self._memory.size and not self._meta else 0

    @property
    def _cdata(self) -> int:
        return address(self._memory)

    def resizable(self) -> bool:
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, UntypedStorage):
            return NotImplemented
        return self._cdata == other._cdata and self._memory.size == other._memory.size

    def __hash__(self) -> int:
        return hash(self._cdata)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            if index.step not in (None, 1):
                raise RuntimeError(
                    f"Trying to slice with a step of {index.step}, but only 1 is supported"
                )
            part = UntypedStorage.__new__(UntypedStorage)
            part._memory, part._meta = self._memory[index], self._meta
            return part
        self._need_data("Not available for 'meta' device type")
        return int(self._memory[_inside(index, self._memory.size)])

    def _need_data(self, message: str, error: type[Exception] = NotImplementedError) -> None:
        if self._meta:
            raise error(message)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            index = _inside(index, self._memory.size)
        self._memory[index] = int(value) % 256

    def tolist(self) -> list[int]:
        """The bytes as a list of integers."""
        self._need_data("Not available for 'meta' device type")
        return self._memory.tolist()

    def fill_(self, value: Any) -> UntypedStorage:
        self._memory[...] = int(value) % 256
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> UntypedStorage:
        """Overwrite with the bytes of `source`, which has the same size."""
        source = source.untyped()
        source._need_data(NO_DATA)
        other = source._memory
        if other.size != self._memory.size:
            raise RuntimeError(
                f"size does not match, self was {self._memory.size} bytes but src was {other.size} bytes"
            )
        here = devices.of(self._memory)
        if devices.of(other) is not here:
            other = here.from_numpy(devices.of(other).to_numpy(other))
        self._memory[...] = other
        return self

    def clone(self) -> UntypedStorage:
        """A copy in new memory."""
        copy = UntypedStorage.__new__(UntypedStorage)
        copy._memory, copy._meta = self._memory.copy(), self._meta
        return copy

    def __deepcopy__(self, memo: dict) -> UntypedStorage:
        if id(self) not in memo:
            from rushlight import serialization

            copy = memo[id(self)] = UntypedStorage.__new__(UntypedStorage)
            copy._memory, copy._meta = serialization.copied_memory(self._memory, memo), self._meta
        return memo[id(self)]

    def resize_(self, size: int) -> UntypedStorage:
        """Change the size to `size` bytes and keep the first bytes; existing tensors keep their memory."""
        self._need_data("UntypedStorage.resize_: got unexpected device type meta", RuntimeError)
        grown = devices.of(self._memory).empty(size, np.uint8)
        n = min(size, self._memory.size)
        grown[:n] = self._memory[:n]
        self._memory = grown
        return self

    def new(self) -> UntypedStorage:
        return UntypedStorage(0)

    def _to(self, device: Any) -> UntypedStorage:
        """The bytes on a device; the storage itself where it is there."""
        self._need_data(NO_DATA)
        here, there = devices.of(self._memory), devices.for_device(device)
        if here is there:
            return self
        moved = UntypedStorage(0)
        moved._memory = there.from_numpy(here.to_numpy(self._memory))
        return moved

    def is_pinned(self, device: Any = "cuda") -> bool:
        return False

    def is_shared(self) -> bool:
        return _is_shared(self._memory) and not self._meta

    def share_memory_(self) -> UntypedStorage:
        """As `Tensor.share_memory_`."""
        self._need_data("share_memory_: only available on CPU", RuntimeError)
        if not self.is_shared():
            from rushlight.ops.layout.memory import share

            share(self)
        return self

    @classmethod
    def from_buffer(
        cls, buffer: Any, byte_order: str = "native", *, dtype: Any = None, **options: Any
    ) -> UntypedStorage:
        """A copy of the bytes of a buffer, converted to this machine's byte order for elements of `dtype`."""
        made = _restored(bytes(buffer))
        if dtype is not None and byte_order not in ("native", sys.byteorder):
            made.byteswap(dtype)
        return made

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, nbytes: int = 0) -> UntypedStorage:
        """The first `nbytes` of a file, mapped into memory. With `shared`, writes go to the file, which is created if missing.

        Without `shared`, writes stay in this process, and a shorter file is a RuntimeError.
        """
        self = UntypedStorage(0)
        self._memory = mapped(filename, shared, nbytes)
        return self

    def untyped(self) -> UntypedStorage:
        return self

    def byteswap(self, dtype: dtypes.dtype) -> None:
        """Reverse the byte order of every element, in place."""
        size = dtype.itemsize // (2 if dtype.is_complex else 1)
        if size > 1:
            self._memory.view(f"u{size}").byteswap(inplace=True)

    def __repr__(self) -> str:
        lines = "".join(f" {v}\n" for v in self._memory.tolist())
        return f"{lines}[torch.storage.UntypedStorage(device={self.device}) of size {self._memory.size}]"


def warn_of_typed() -> None:
    """The warning of who gets a typed storage: the first one only."""
    settings.warn_once(_TYPED)


_TYPED = (
    "TypedStorage is deprecated. It will be removed in the future and UntypedStorage will be the only storage class. This should "
    "only matter to you if you are using storages directly.  To access UntypedStorage directly, use tensor.untyped_storage() "
    "instead of tensor.storage()"
)


class TypedStorage(_Storage):
    """Elements of one dtype in an `UntypedStorage`; PyTorch calls it deprecated."""

    __slots__ = ("_untyped_storage", "dtype")

    def __init__(
        self,
        *content: Any,
        dtype: dtypes.dtype | None = None,
        wrap_storage: Any = None,
        device: Any = None,
        _internal: bool = False,
    ) -> None:
        from collections.abc import Sequence

        from rushlight.core import modes

        untyped, known = isinstance(wrap_storage, UntypedStorage), isinstance(dtype, dtypes.dtype)
        for wrong, error, text in (
            (len(content) > 1, RuntimeError, "Too many positional arguments"),
            (content, RuntimeError, "No positional arguments should be given with 'wrap_storage'"),
            (dtype is None, RuntimeError, "Argument 'dtype' must be specified"),
            (not known, TypeError, "Argument 'dtype' must be torch.dtype"),
            (device is not None, RuntimeError, "Argument 'device' should not be specified"),
            (not untyped, TypeError, "Argument 'wrap_storage' must be UntypedStorage"),
        ):
            if wrong and (wrap_storage is not None or len(content) > 1):
                raise error(text)
        if wrap_storage is None and not _internal:
            warn_of_typed()
        self.dtype = dtype or modes.get_default_dtype()
        given = content[0] if content else 0
        if wrap_storage is not None:
            self._untyped_storage = wrap_storage
        elif isinstance(given, int):
            self._untyped_storage = UntypedStorage(given * self.dtype.itemsize, device=device)
        elif isinstance(given, (Sequence, np.ndarray, TypedStorage)):
            values = np.array(list(given)).astype(self.dtype.np)
            self._untyped_storage = UntypedStorage(values.nbytes, device=device)
            if not self._untyped_storage._meta:
                self._untyped_storage._memory[...] = values.view(np.uint8)
        else:
            raise TypeError(f"Argument type not recognized: {type(given)}")

    @classmethod
    def _of(cls, tensor: Tensor) -> TypedStorage:
        return cls(wrap_storage=UntypedStorage._of(tensor), dtype=tensor.dtype)

    @property
    def _elements(self) -> np.ndarray:
        return self._untyped_storage._memory.view(self.dtype.np)

    def untyped(self) -> UntypedStorage:
        """The bytes."""
        return self._untyped_storage

    @property
    def device(self) -> device:
        return self._untyped_storage.device

    def size(self) -> int:
        """The number of elements."""
        return self._untyped_storage.nbytes() // self.dtype.itemsize

    __len__ = size
    _size = size

    def nbytes(self) -> int:
        return self._untyped_storage.nbytes()

    def element_size(self) -> int:
        return self.dtype.itemsize

    def data_ptr(self) -> int:
        return self._untyped_storage.data_ptr()

    _cdata = property(lambda self: self._untyped_storage._cdata)

    def pickle_storage_type(self) -> str:
        return f"{self.dtype.scalar_name}Storage"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TypedStorage):
            return NotImplemented
        return self.dtype is other.dtype and self._untyped_storage == other._untyped_storage

    def __hash__(self) -> int:
        return hash(self._untyped_storage)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            raise RuntimeError("slices are only supported in UntypedStorage.__getitem__")
        self._untyped_storage._need_data("Not available for 'meta' device type")
        v = self._elements[_inside(index, self.size())].item()
        return v if isinstance(v, (int, float, complex, bool)) else float(v)

    def __setitem__(self, index: Any, value: Any) -> None:
        if not isinstance(index, slice):
            index = _inside(index, self.size())
        self._elements[index] = value

    def tolist(self) -> list[Any]:
        """The elements as Python numbers."""
        self._untyped_storage._need_data("Not available for 'meta' device type")
        a = self._elements
        return (a.astype(F32) if a.dtype is BF16 else a).tolist()

    def fill_(self, value: Any) -> TypedStorage:
        self._elements[...] = value
        return self

    def copy_(self, source: Any, non_blocking: bool | None = None) -> TypedStorage:
        """Overwrite with the elements of `source`, converted."""
        source._untyped_storage._need_data(NO_DATA)
        self._elements[...] = source._elements
        return self

    def clone(self) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage.clone(), dtype=self.dtype)

    def __deepcopy__(self, memo: dict) -> TypedStorage:
        return TypedStorage(wrap_storage=self._untyped_storage.__deepcopy__(memo), dtype=self.dtype)

    def resize_(self, size: int) -> TypedStorage:
        self._untyped_storage.resize_(size * self.dtype.itemsize)
        return self

    def _to(self, device: Any) -> TypedStorage:
        moved = self._untyped_storage._to(device)
        same = moved is self._untyped_storage
        return self if same else TypedStorage(wrap_storage=moved, dtype=self.dtype)

    def is_shared(self) -> bool:
        return self._untyped_storage.is_shared()

    def share_memory_(self) -> TypedStorage:
        self._untyped_storage.share_memory_()
        return self

    _dtype = property(lambda self: self.dtype)

    @classmethod
    def from_buffer(cls, buffer: Any, byte_order: str = "native", **options: Any) -> TypedStorage:
        """A copy of the elements in a buffer."""
        made = cls(0, **options)
        made._untyped_storage = UntypedStorage.from_buffer(buffer, byte_order, dtype=made.dtype)
        return made

    @classmethod
    def from_file(cls, filename: Any, shared: bool = False, size: int = 0) -> TypedStorage:
        """`size` elements of a file, mapped into memory, as `UntypedStorage.from_file`."""
        made = cls(0)
        n = size * made.dtype.itemsize
        made._untyped_storage = UntypedStorage.from_file(filename, shared, n)
        return made

    def to_dtype(self, dtype: dtypes.dtype) -> TypedStorage:
        """The elements converted."""
        made = TypedStorage(0, dtype=dtype)
        with np.errstate(all="ignore"):
            made._untyped_storage._memory = self._elements.astype(dtype.np).view(np.uint8)
        return made

    def is_pinned(self, device: Any = None) -> bool:
        return False

    def type(self) -> str:
        return f"torch.{self.dtype.scalar_name}Storage"

    def __repr__(self) -> str:
        lines = "".join(f" {v}\n" for v in self.tolist())
        return (
            f"{lines}[torch.storage.TypedStorage(dtype={self.dtype}, device={self.device}) "
            f"of size {self.size()}]"
        )


def _declare_conversions() -> None:
    def declare(name: str, dtype: dtypes.dtype) -> None:
        def typed(self: TypedStorage) -> TypedStorage:
            return self if self.dtype is dtype else self.to_dtype(dtype)

        def untyped(self: UntypedStorage) -> TypedStorage:
            as_bytes = TypedStorage(wrap_storage=self, dtype=dtypes.uint8)
            return as_bytes.to_dtype(dtype)

        for owner, conversion in ((TypedStorage, typed), (UntypedStorage, untyped)):
            conversion.__name__ = name
            conversion.__doc__ = f"The elements converted to {dtype.name}."
            setattr(owner, name, conversion)

    for name, dtype in dtypes.ALIASES.items():
        declare({"cfloat": "complex_float", "cdouble": "complex_double"}.get(name, name), dtype)
    for name, dtype in (
        ("byte", dtypes.uint8),
        ("char", dtypes.int8),
        ("bfloat16", dtypes.bfloat16),
    ):
        declare(name, dtype)


_declare_conversions()


class _OfDtype(type):
    """The class of `FloatStorage`..., whose instances are those of `TypedStorage` that have its dtype."""

    def __instancecheck__(cls: Any, obj: object) -> bool:
        return isinstance(obj, TypedStorage) and obj.dtype is cls.dtype


def __getattr__(name: str) -> type:
    """`FloatStorage`, `LongStorage`...: `TypedStorage` of one dtype. `Storage` is that of the default dtype."""
    if name == "Storage":
        name = f"{modes.get_default_dtype().scalar_name}Storage"
    if name in globals():
        return globals()[name]
    for d in dtypes.NAMED:
        if name == f"{d.scalar_name}Storage":

            def __new__(cls: type, *content: Any, dtype: Any = d, **options: Any) -> TypedStorage:
                return TypedStorage(*content, dtype=dtype, **options)

            body = {"__new__": __new__, "dtype": d, "__module__": "torch", "__slots__": ()}
            globals()[name] = _OfDtype(name, (TypedStorage,), body)
            return globals()[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def is_shared(tensor: Tensor) -> bool:
    """Whether forked processes see each other's writes to the memory of `tensor`."""
    return _is_shared(tensor._array) and not tensor.is_meta


def _is_shared(array: np.ndarray) -> bool:
    base = root(array).base if isinstance(array, np.ndarray) else None
    while isinstance(base, memoryview):
        base = base.obj
    return type(base).__name__ in ("mmap", "Block")


def _inside(index: Any, size: int) -> int:
    if not isinstance(index, int):
        raise TypeError(f"can't index a storage with {type(index).__name__}")
    if not -size <= index < size:
        raise IndexError(f"index {index} out of range for storage of size {size}")
    return index


def _restored(content: bytes) -> UntypedStorage:
    storage = UntypedStorage(0)
    storage._memory = np.frombuffer(content, np.uint8).copy()
    return storage


_device = device
