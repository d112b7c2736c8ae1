"""Tensors from data: `tensor`, `as_tensor`, `asarray`, `from_numpy`, `frombuffer`, DLPack."""

from __future__ import annotations

from itertools import chain
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices
from rushlight.autograd.state import active, thread
from rushlight.core import dtypes, modes, settings, storage
from rushlight.core.dtype_sets import BF16, BOOL, COMPLEX, F32, I64, U8
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.overrides import Watching
from rushlight.dispatch.registry import public
from rushlight.ops.factories import arguments
from rushlight.ops.factories.arguments import check_options, element_type, factory
from rushlight.ops.factories.creation import finished

_NUMBERS = frozenset({int, float, bool, complex})
_LISTS = frozenset({list, tuple})
_OWN = {bool: BOOL, int: I64}
_SUPPORTED = (
    "The only supported types are: float64, float32, float16, complex64, complex128, int64, int32, "
    "int16, int8, uint64, uint32, uint16, uint8, and bool."
)


# -- nested sequences ------------------------------------------------------------------------------


def array_from(data: Any, dtype: np.dtype | None) -> np.ndarray:
    """A new array from numbers, nested sequences, arrays; `dtype` None: the type of the values.

    Truth values give bool, integers int64, floats the default dtype, complex numbers its complex
    type; NumPy's scalars and arrays, and tensors, have their own types. Mixed ones are promoted.
    """
    kind = data.__class__
    if kind in _LISTS:
        flat: Any = data
        shape = [len(data)]
        while True:
            kinds = set(map(type, flat))
            if kinds <= _NUMBERS:
                return _packed(flat, kinds, tuple(shape), dtype)
            if kinds == {Tensor} and (found := of_numbers(flat, tuple(shape), dtype)) is not None:
                return found
            if not kinds <= _LISTS:
                break
            lengths = set(map(len, flat))
            if len(lengths) != 1:
                break
            shape.append(lengths.pop())
            flat = list(chain.from_iterable(flat))
    elif kind in _NUMBERS:
        if dtype is None and kind is not complex:
            d = modes._default_dtype.np if kind is float else _OWN[kind]
            if kind is bool or abs(data) < (1 << 63 if kind is int else 6e4):
                return xp.asarray(data, d)
        return _packed((data,), {kind}, (), dtype)
    return _array_from_anything(data, dtype)


def of_numbers(flat: Any, shape: tuple, dtype: np.dtype | None) -> np.ndarray | None:
    """Tensors without dimensions, of one dtype, as an array; None for others."""
    arrays = [t._array for t in flat]
    if active.modes or arrays[0].ndim or dtype is not None and dtype is not arrays[0].dtype:
        return None
    r = xp.stack_contiguous(arrays, 0)
    return None if r is None else r.reshape(shape)


def _packed(flat: Any, kinds: set, shape: tuple, dtype: np.dtype | None) -> np.ndarray:
    """Numbers of Python's own types as an array."""
    if complex in kinds:
        natural: Any = np.complex128
        own = modes.get_default_complex_dtype().np if dtype is None else dtype
    elif float in kinds or not kinds:
        natural, own = np.float64, modes._default_dtype.np
    elif int in kinds:
        natural, own = np.int64, I64
    else:
        natural, own = np.bool_, BOOL
    d = own if dtype is None else dtype
    if natural is np.int64 and d.kind == "u" and d.itemsize == 8:
        natural = np.uint64
    elif natural is np.int64 and d.kind not in "biu":
        natural = np.float64
    try:
        a = xp.asarray(flat, natural)
    except OverflowError as e:
        if natural is np.uint64:
            if min(flat) < 0:
                raise OverflowError("can't convert negative int to unsigned") from None
            raise ValueError(f"Overflow when unpacking long long: {max(flat, key=abs)}") from None
        if natural is np.int64:
            raise ValueError(
                f"Overflow when unpacking long long: {max(flat, key=abs)} is not in [-2**63, 2**63)"
            ) from None
        raise OverflowError(str(e)) from None
    a = a.reshape(shape)
    return a if a.dtype is d else narrowed(a, d)


def of_storage(data: Any, d: np.dtype) -> np.ndarray:
    """The elements of a storage, on its memory; RuntimeError for a typed storage of another dtype."""
    own = getattr(data, "dtype", None)
    if own is not None and own.np is not d:
        raise RuntimeError(
            f"Expected a Storage of type {dtypes.OF[d].scalar_name} or an UntypedStorage, but got type "
            f"{own.scalar_name} for argument 1 'storage'"
        )
    memory = data.untyped()._memory
    return memory[: memory.size // d.itemsize * d.itemsize].view(d)


def narrowed(a: np.ndarray, d: np.dtype) -> np.ndarray:
    """Values of Python numbers in a narrower dtype; raises where an integer type cannot hold them."""
    if a.dtype.kind == "c" and d not in COMPLEX and d is not BOOL:
        if d.kind in "iu":
            raise TypeError("'complex' object cannot be interpreted as an integer")
        raise TypeError("must be real number, not complex")
    if d.kind in "iu" and a.size and a.dtype.kind != "b":
        info = np.iinfo(d)
        least = -info.max if d.kind == "u" and a.dtype.kind == "i" else info.min
        if (
            not (a >= least).all()
            or not (a <= info.max).all()
            or (a.dtype.kind == "f" and d.itemsize == 8 and (a >= 2.0**63).any())
        ):
            raise RuntimeError(
                f"value cannot be converted to type {d.name} without overflow: the values are in "
                f"[{a.min()}, {a.max()}]"
            )
    return xp.cast(a, d)


def _shape_of(data: Any) -> tuple[int, ...]:
    """The shape, as the first elements tell it."""
    shape: list[int] = []
    while True:
        if isinstance(data, str):
            raise ValueError("too many dimensions 'str'")
        if isinstance(data, (bytes, Tensor)) or not _is_sequence(data):
            break
        shape.append(len(data))
        if len(shape) > 128:
            raise TypeError("new(): self-referential lists are incompatible: too many dimensions")
        if not shape[-1]:
            break
        try:
            data = data[0]
        except TypeError:
            raise ValueError(
                f"could not determine the shape of object type '{type(data).__name__}'"
            ) from None
    return tuple(shape)


def _is_sequence(x: Any) -> bool:
    if isinstance(x, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(x).__name__}'")
    if isinstance(x, (Tensor, np.ndarray)):
        return bool(x.ndim) and not (isinstance(x, Tensor) and x._array.size == 1)
    return hasattr(x, "__getitem__") and hasattr(x, "__len__") and not isinstance(x, dict)


def _array_from_anything(data: Any, dtype: np.dtype | None) -> np.ndarray:
    """`array_from` for whatever is not plain lists of plain numbers: slow, and says what is wrong."""
    if isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    if isinstance(data, (storage.UntypedStorage, storage.TypedStorage)):
        return of_storage(data, modes._default_dtype.np if dtype is None else dtype)
    if isinstance(data, (np.generic, np.ndarray)):
        a = xp.asarray(data)
        check_numpy(a)
        own = dtypes.OF[a.dtype].np  # an array may have a dtype object of its own
        return xp.cast(a, dtype) if dtype is not None and dtype is not own else a.astype(own)
    if isinstance(data, (list, tuple)) and data and all(isinstance(x, np.ndarray) for x in data):
        settings.warn_once(
            "Creating a tensor from a list of numpy.ndarrays is extremely slow. Please consider "
            "converting the list to a single numpy.ndarray with numpy.array() before converting to a "
            "tensor."
        )
    shape = _shape_of(data)
    found: list[dtypes.dtype] = []
    try:
        add_types(data, found)
    except RecursionError:
        raise TypeError("new(): self-referential lists are incompatible") from None
    own = _joined(found)
    d = own.np if dtype is None else dtype
    wide = {0: np.bool_, 1: np.int64, 2: np.float64, 3: np.complex128}[own.kind]
    if own is dtypes.uint64:
        wide = np.uint64
    if 0 in shape:  # what follows an empty sequence is not looked at, as in PyTorch
        return xp.empty(shape, d)
    flat: list = []
    _flatten(data, shape, 0, flat, dtypes.OF[d].kind)
    a = xp.asarray(flat, wide).reshape(shape)
    return a if a.dtype is d else narrowed(a, d)


def add_types(data: Any, found: list[dtypes.dtype]) -> None:
    """The types of all values, each once."""
    if isinstance(data, (np.generic, np.ndarray)):
        check_numpy(xp.asarray(data))
        d = dtypes.OF[data.dtype]
    elif isinstance(data, Tensor):
        d = data.dtype
    elif isinstance(data, (bool, int, float, complex)):
        d = modes.scalar_dtype(data)
    elif not isinstance(data, (str, bytes)) and _is_sequence(data):
        for x in data:
            add_types(x, found)
        if len(data):
            return
        d = modes.get_default_dtype()
    elif isinstance(data, (str, bytes)):
        raise TypeError(f"new(): invalid data type '{type(data).__name__}'")
    else:
        raise RuntimeError(f"Could not infer dtype of {type(data).__name__}")
    if d not in found:
        found.append(d)


def _joined(found: list[dtypes.dtype]) -> dtypes.dtype:
    if not found:
        return modes.get_default_dtype()
    d = found[0]
    for other in found[1:]:
        d = dtypes.promote_types(d, other)
    return d


def _flatten(data: Any, shape: tuple, dim: int, flat: list, kind: int) -> None:
    """Append the values to `flat`; `kind`: that of the dtype that they come to."""
    if dim == len(shape):
        if isinstance(data, (Tensor, np.ndarray)):
            one = data.size == 1 if isinstance(data, np.ndarray) else data._array.size == 1
            if (
                isinstance(data, Tensor)
                and kind < 2
                and not (one and data.dtype.kind <= max(kind, 1))
            ):
                raise TypeError(
                    "only integer tensors of a single element can be converted to an index"
                )
            if not one:
                raise ValueError("only one element tensors can be converted to Python scalars")
            data = data.item()
        elif isinstance(data, np.generic):
            data = data.item()
        elif _is_sequence(data):
            raise TypeError(f"'{type(data).__name__}' object cannot be interpreted as an integer")
        flat.append(data)
        return
    if not (data.ndim if isinstance(data, Tensor) else _is_sequence(data)):
        raise TypeError("not a sequence")
    n = len(data)
    if n != shape[dim]:
        raise ValueError(f"expected sequence of length {shape[dim]} at dim {dim} (got {n})")
    for x in data:
        _flatten(x, shape, dim + 1, flat, kind)


# -- NumPy -----------------------------------------------------------------------------------------


def check_numpy(a: np.ndarray) -> None:
    """Raise for arrays no tensor can share memory with: other dtypes, byte orders, strides."""
    if a.dtype not in dtypes.OF:
        if not a.dtype.isnative and a.dtype.newbyteorder("=") in dtypes.OF:
            raise ValueError(
                "given numpy array has byte order different from the native byte order. Conversion "
                "between byte orders is currently not supported."
            )
        raise TypeError(
            f"can't convert np.ndarray of type numpy.{a.dtype.type.__name__}. {_SUPPORTED}"
        )
    for s in a.strides:
        if s < 0:
            raise ValueError(
                "At least one stride in the given numpy array is negative, and tensors with negative "
                "strides are not currently supported. (You can probably work around this by making a "
                "copy of your array  with array.copy().) "
            )
        if s % a.itemsize:
            raise ValueError(
                "given numpy array strides not a multiple of the element byte size. Copy the numpy "
                "array to reallocate the memory."
            )


def shared(a: np.ndarray) -> np.ndarray:
    """The memory of a user's array as an array of ours, which starts there and ends there."""
    d = a.dtype
    if a.__class__ is np.ndarray and a.base is None and a.flags.carray:
        if d in dtypes.OF and dtypes.OF[d].np is d:
            return a.view()
    check_numpy(a)
    if not a.flags.writeable:
        settings.warn(
            "The given NumPy array is not writable, and PyTorch does not support non-writable tensors. "
            "This means writing to this tensor will fail. You may want to copy the array to protect "
            "its data or make it writable before converting it to a tensor."
        )
    plain = a if type(a) is np.ndarray else a.view(np.ndarray)
    if plain.dtype != plain.dtype.newbyteorder("="):
        plain = plain.view(plain.dtype.newbyteorder("="))
    if plain.dtype is not dtypes.OF[plain.dtype].np:  # int64 has two names on some systems
        plain = plain.view(dtypes.OF[plain.dtype].np)
    if plain.base is None:
        return plain.view()
    # A view into a larger array of the user: the storage begins at its first element, as PyTorch's.
    d = plain.dtype
    if d is BF16 or not plain.size:
        return plain
    return xp.asarray(memoryview(plain))


@public()
def from_numpy(ndarray: Any) -> Tensor:
    """A tensor of its shape on the memory of a NumPy array; writes to one are seen in the other.

    TypeError for other types and dtypes, ValueError for negative strides and foreign byte order.

    >>> import numpy as np, rushlight as torch
    >>> a = np.zeros(2)
    >>> torch.from_numpy(a)[0] = 5
    >>> a.tolist()
    [5.0, 0.0]
    """
    if not isinstance(ndarray, np.ndarray):
        raise TypeError(f"expected np.ndarray (got {type(ndarray).__name__})")
    made = _wrap(shared(ndarray))
    for mode in thread.function_modes if active.modes else ():
        if isinstance(mode, Watching):  # a function may write to what it made
            mode.remember(made)
    return made


@public()
def from_file(filename: str, shared: bool | None = None, size: int | None = 0, *, dtype: Any = None,
              layout: Any = None, device: Any = None, pin_memory: bool = False,
              requires_grad: bool = False) -> Tensor:  # fmt: skip
    """`size` elements of a file, mapped into memory; `shared`: writes go to the file, which is made
    where there is none."""
    d = element_type("from_file", dtype)
    n = (size or 0) * d.itemsize
    return finished(storage.mapped(filename, shared, n).view(d), requires_grad)


@public()
def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0,
               requires_grad: bool = False) -> Tensor:  # fmt: skip
    """A 1-d tensor on the memory of a Python buffer: `count` elements from byte `offset` on."""
    d = element_type("frombuffer", dtype)
    try:
        view = memoryview(buffer)
    except TypeError:
        raise ValueError("object does not implement Python buffer protocol.") from None
    n = view.nbytes
    if n == 0 or count == 0:
        raise ValueError(f"both buffer length ({n}) and count ({count}) must not be 0")
    if not 0 <= offset < n:
        raise ValueError(
            f"offset ({offset} bytes) must be non-negative and no greater than buffer length ({n} bytes) - 1"
        )
    if count < 0 and (n - offset) % d.itemsize:
        raise ValueError(
            f"buffer length ({n - offset} bytes) after offset ({offset} bytes) must be a multiple of "
            f"element size ({d.itemsize})"
        )
    if count > 0 and offset + count * d.itemsize > n:
        raise ValueError(
            f"requested buffer length ({count} * {d.itemsize} bytes) after offset ({offset} bytes) must "
            f"not be greater than actual buffer length ({n} bytes)"
        )
    if view.readonly:
        settings.warn(
            "The given buffer is not writable, and PyTorch does not support non-writable tensors. This "
            "means writing to this tensor will fail. You may want to copy the buffer first."
        )
    a = np.frombuffer(buffer, np.uint8, -1 if count < 0 else count * d.itemsize, offset).view(d)
    return finished(xp.asarray(memoryview(a)) if d is not BF16 else a, requires_grad)


@public()
def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Tensor:
    """A tensor on the memory of anything with `__dlpack__`: arrays of NumPy, CuPy, JAX, tensors."""
    if isinstance(ext_tensor, Tensor):
        if ext_tensor.requires_grad:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        getattr(ext_tensor._array, "refuse_export", bool)()
        t = _wrap(ext_tensor._array[...])
        return t.clone() if copy else t
    from rushlight.core import dlpack

    options: dict[str, Any] = {} if copy is None else {"copy": copy}
    if device is not None:
        devices.for_device(device)
        options["dl_device"] = dlpack.CPU
    producer = dlpack.Producer(ext_tensor, **options)
    try:
        a = np.from_dlpack(producer)
    except ValueError as e:
        raise RuntimeError(
            "from_dlpack received an invalid capsule. Note that DLTensor capsules can be consumed only "
            f"once, so you might have already constructed a tensor from it once: {e}"
        ) from None
    if not a.flags.writeable:  # NumPy marks what it imports read-only unless the producer says so
        try:
            a.flags.writeable = True
        except ValueError:
            a = _writable(a) if producer.is_bare else a.copy()
    return finished(a if producer.dtype is None else a.view(producer.dtype))


def _writable(a: np.ndarray) -> np.ndarray:
    """`a` on the same memory: a bare capsule cannot say whether it may be written to, so it may."""
    import ctypes

    low, high = np.lib.array_utils.byte_bounds(a)
    memory = (ctypes.c_char * (high - low)).from_address(low)
    memory.owner = a  # lives as long as what is made on it
    return np.ndarray(a.shape, a.dtype, memory, a.ctypes.data - low, a.strides)


@public()
def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule that shares the memory of `tensor`; it can be taken over once."""
    from rushlight.core import dlpack

    return dlpack.capsule_of(tensor._array)


# -- the functions ---------------------------------------------------------------------------------


@factory
def tensor(data, *, dtype=None, device=None, requires_grad=False, pin_memory=False):
    """A new tensor with a copy of `data`: a number [], nested sequences, an array of its shape.

    Without `dtype`, Python's floats become the default dtype, integers int64, truth values bool.
    ValueError for ragged sequences, RuntimeError for values the dtype cannot hold.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]])
    tensor([[1, 2],
            [3, 4]])
    """
    d = None if dtype is None else element_type("tensor", dtype)
    if isinstance(data, Tensor):
        settings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than torch.tensor(sourceTensor)."
        )
        return finished(_copy_of(data, d, device), requires_grad)
    if pin_memory:
        check_options("tensor", None, pin_memory)
    a = array_from(data, d)
    if device is not None or modes.thread.device is not None:
        a = devices.for_device(device).from_numpy(a)
    return finished(a, True) if requires_grad else _wrap(a)


def _copy_of(t: Tensor, d: np.dtype | None, device: Any) -> Any:
    return t.detach().to(device, None if d is None else dtypes.OF[d], copy=True)._array


@public("Tensor", overridable=True)
def new_tensor(self, data, *, dtype=None, device=None, requires_grad=False, layout=None,
               pin_memory=False):  # fmt: skip
    """As `tensor(data)`, with the dtype and device of this tensor by default."""
    check_options("new_tensor", layout, pin_memory)
    d = self._array.dtype if dtype is None else element_type("new_tensor", dtype)
    if isinstance(data, Tensor):
        settings.warn(
            "To copy construct from a tensor, it is recommended to use sourceTensor.detach().clone() or "
            "sourceTensor.detach().clone().requires_grad_(True), rather than "
            "tensor.new_tensor(sourceTensor)."
        )
        return finished(_copy_of(data, d, device), requires_grad)
    a = array_from(data, d)
    return finished(devices.like(self._array, device).from_numpy(a), requires_grad)


@factory
def as_tensor(data, dtype=None, device=None):
    """`data` as a tensor, without copying where that is possible; history is kept."""
    if isinstance(data, Tensor):
        if dtype is None and device is None:
            return data
        return data.to(device=device, dtype=dtype)
    d = None if dtype is None else element_type("as_tensor", dtype)
    if isinstance(data, np.ndarray):
        t = _wrap(shared(data))
        if d is None and device is None and modes.thread.device is None:
            return t
        return t.to(device=device or modes.thread.device, dtype=None if d is None else dtypes.OF[d])
    return _wrap(devices.for_device(device).from_numpy(array_from(data, d)))


@factory
def asarray(obj, *, dtype=None, device=None, copy=None, requires_grad=None):
    """`obj` as a tensor: shares memory with tensors, arrays, buffers and DLPack producers.

    `copy`: True: always, None: where needed, False: ValueError where needed. `requires_grad`: None:
    as `obj`; False: the result is detached.
    """
    d = None if dtype is None else element_type("asarray", dtype)
    if isinstance(obj, Tensor):
        t = obj
    elif isinstance(obj, (np.ndarray, np.generic)) and (not isinstance(obj, np.generic)):
        t = _wrap(shared(obj))
    elif isinstance(obj, np.generic):
        if copy is False:
            raise RuntimeError(
                "can't alias NumPy scalars. Either remove copy=False or transform it in a ndarray."
            )
        t = _wrap(xp.asarray(obj))
        check_numpy(t._array)
    elif isinstance(obj, (storage.UntypedStorage, storage.TypedStorage)):
        kind = d or U8 if isinstance(obj, storage.UntypedStorage) else obj.dtype.np
        t = _wrap(obj.untyped()._memory.view(kind))
    elif hasattr(obj, "__dlpack__") or type(obj).__name__ == "PyCapsule":
        t = from_dlpack(obj)
    elif not isinstance(obj, (list, tuple)) and _has_buffer(obj):
        t = frombuffer(obj, dtype=dtypes.OF[d] if d is not None else modes.get_default_dtype())
    else:
        if copy is False:
            raise ValueError("can't alias arbitrary sequence into a tensor: asarray(copy=False)")
        a = devices.for_device(device).from_numpy(array_from(obj, d))
        return finished(a, bool(requires_grad))
    wants = t._array.dtype if d is None else d
    moves = devices.like(t._array, device) is not devices.of(t._array)
    differs = wants is not t._array.dtype or moves
    if copy is False and differs:
        if moves:
            raise ValueError(f"can't alias tensor from device '{t.device}' to '{device}'.")
        raise ValueError(
            f"can't alias tensor with dtype '{t.dtype.scalar_name}' into dtype "
            f"'{dtypes.OF[wants].scalar_name}'."
        )
    if copy or differs:
        t = t.to(device=device, dtype=dtypes.OF[wants], copy=bool(copy))
    if requires_grad is None:
        if t.requires_grad:
            settings.warn(
                "torch.asarray: unspecified requires_grad now defaults to obj.requires_grad instead of "
                "False. Pass requires_grad=False explicitly to get the old behavior and silence this "
                "warning."
            )
        return t
    if requires_grad:
        return t if t.requires_grad else t.detach()._set_requires_grad(True)
    return t.detach() if t.requires_grad else t


def _has_buffer(obj: Any) -> bool:
    try:
        memoryview(obj)
    except TypeError:
        return False
    return True


@factory
def scalar_tensor(
    s, *, dtype=None, layout=None, device=None, requires_grad=False, pin_memory=False
):
    """A 0-d tensor with the value `s`, in the default dtype unless `dtype` is given."""
    check_options("scalar_tensor", layout, pin_memory)
    d = element_type("scalar_tensor", dtype)
    value = arguments.number("scalar_tensor", s, 1, "s")
    if d.itemsize == 2 and dtypes.OF[d].is_floating_point:  # here PyTorch lets half types overflow
        a = xp.cast(arguments.converted(value, F32), d)
    else:
        a = arguments.converted(value, d)
    return finished(devices.for_device(device).from_numpy(a), requires_grad)
