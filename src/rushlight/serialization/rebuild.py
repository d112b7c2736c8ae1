"""Tensors from storages: what the functions do that checkpoints name. Every number in a call comes from the file.

Each checks offset, sizes and strides against its storage before memory is touched: a wrong one is a RuntimeError.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import rushlight
from rushlight import dtypes
from rushlight.nn.parameter import Buffer, Parameter
from rushlight.tensor import Tensor, _wrap

MAX_DIMS = 64  # NumPy's own limit


class Loaded:
    """The bytes of one storage from a file: `content` (uint8, writable), the type it was saved as, and where it goes."""

    __slots__ = ("content", "dtype", "meta")

    def __init__(self, content: np.ndarray, dtype: dtypes.dtype, meta: bool = False) -> None:
        self.content, self.dtype, self.meta = content, dtype, meta


def tensor_v1(storage: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    """A tensor that shares the storage's memory; `offset` and `stride` count elements."""
    _check_storage(storage)
    return _tensor(storage, storage.dtype, offset, size, stride)


def tensor_v2(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """As `tensor_v1`, with `requires_grad`. Hooks are not restored: they are code, which tensors in files cannot carry."""
    return _finished(tensor_v1(storage, offset, size, stride), requires_grad, metadata)


def tensor_v3(
    storage: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """As `tensor_v2` for the types without a storage class of their own: the storage holds bytes, `dtype` tells."""
    _check_storage(storage)
    _check(isinstance(dtype, dtypes.dtype), f"dtype is {_short(dtype)}")
    return _finished(_tensor(storage, dtype, offset, size, stride), requires_grad, metadata)


def meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    """A tensor on the meta device: a shape without memory."""
    _check(isinstance(dtype, dtypes.dtype), f"dtype is {_short(dtype)}")
    _check_layout(0, size, stride)
    made = rushlight.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
    return _finished(made, requires_grad, None)


def parameter(data: Any, requires_grad: Any, hooks: Any) -> Parameter:
    _check(isinstance(data, Tensor), f"the data of a parameter is {_short(data)}")
    return Parameter(data, bool(requires_grad))


def parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Parameter:
    """A parameter with attributes that the user set on it."""
    return _with_state(parameter(data, requires_grad, hooks), state)


def from_type(function: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    """A tensor of a class of its own, or with attributes: `function(*arguments)` seen as `kind`, with `state` set on it."""
    made = function(*arguments)
    _check(isinstance(made, Tensor), f"{_short(function)} gave {_short(made)}, not a tensor")
    kind = getattr(kind, "meaning", kind)
    _check(
        isinstance(kind, type) and issubclass(kind, Tensor),
        f"the class of a tensor is {_short(kind)}",
    )
    if kind is Buffer:
        made = Buffer(
            made, persistent=bool(isinstance(state, dict) and state.get("persistent", True))
        )
    elif kind is not Tensor:
        made = Tensor._make_subclass(kind, made, made.requires_grad)
    return _with_state(made, state)


def layout(name: Any) -> Any:
    """`torch.strided` from its printed name."""
    _check(name == "torch.strided", f"layout {_short(name)} (only torch.strided is known)")
    return dtypes.strided


def byte_array(*arguments: Any) -> bytearray:
    # bytearray(10**15) is an allocation, and no pickler writes it.
    _check(
        all(isinstance(each, str | bytes) for each in arguments),
        "bytearray of something else than text or bytes",
    )
    return bytearray(*arguments)


def encoded(text: Any, encoding: Any) -> bytes:
    """How protocol 2 spells bytes: a text to be encoded in latin-1."""
    _check(
        isinstance(text, str) and encoding == "latin1",
        f"encode({_short(text)}, {_short(encoding)})",
    )
    return text.encode("latin-1")


# -- checks ------------------------------------------------------------------------------------------------------------------


def _check(holds: bool, what: str) -> None:
    if not holds:
        raise RuntimeError(f"load: the file is damaged or hostile: {what}")


def _check_storage(storage: Any) -> None:
    _check(type(storage) is Loaded, f"a tensor's storage is {_short(storage)}")


def _check_layout(offset: Any, size: Any, stride: Any) -> None:
    _check(
        isinstance(size, tuple)
        and isinstance(stride, tuple)
        and len(size) == len(stride) <= MAX_DIMS,
        f"a tensor has size {_short(size)} and stride {_short(stride)}",
    )
    for number in (offset, *size, *stride):
        _check(
            type(number) is int and 0 <= number < 2**58,  # so that times 16 bytes fits into 64 bits
            f"a tensor has offset {_short(offset)}, size {_short(size)}, stride {_short(stride)}",
        )


def _tensor(storage: Loaded, dtype: dtypes.dtype, offset: Any, size: Any, stride: Any) -> Tensor:
    _check_layout(offset, size, stride)
    size, stride, itemsize = tuple(size), tuple(stride), dtype.itemsize
    count = prod(size)
    extent = offset + 1 + sum((n - 1) * s for n, s in zip(size, stride)) if count else 0
    if extent * itemsize > len(storage.content) or count * itemsize >= 2**62:
        raise RuntimeError(
            f"setStorage: sizes {list(size)}, strides {list(stride)}, storage offset {offset}, and itemsize {itemsize} "
            f"requiring a storage size of {extent * itemsize} are out of bounds for storage of size "
            f"{len(storage.content)}: the file is damaged or hostile"
        )
    if storage.meta:
        return rushlight.empty_strided(size, stride, dtype=dtype, device="meta")
    if not count:
        # NumPy checks strides that are never used; an empty tensor has nothing to share.
        return _wrap(np.empty(size, dtype.np))
    if dtype is dtypes.bool_ and storage.content.size and storage.content.max() > 1:
        # A byte of 2 in a bool array is neither True nor False to NumPy's loops.
        np.not_equal(storage.content, 0, out=storage.content.view(np.bool_))
    strides = [s * itemsize for s in stride]
    array: Any = np.ndarray(size, dtype.np, storage.content, offset * itemsize, strides)
    return _wrap(array)


def _finished(made: Tensor, requires_grad: Any, metadata: Any) -> Tensor:
    if metadata:
        _check(isinstance(metadata, dict), f"the metadata of a tensor are {_short(metadata)}")
        unknown = sorted(set(map(str, metadata)) - {"conj", "neg"})
        _check(not unknown, f"a tensor has unknown metadata {unknown}")
        # PyTorch marks such a tensor and keeps its memory; here the operation is carried out.
        made = made.conj().clone() if metadata.get("conj") else made
        made = -made if metadata.get("neg") else made
    return made.requires_grad_() if requires_grad is True else made


def _with_state(made: Any, state: Any) -> Any:
    if isinstance(state, tuple) and len(state) == 2 and isinstance(state[0], dict):
        _check(not state[1], "a tensor has slots")
        state = state[0]
    _check(
        isinstance(state, dict) and all(isinstance(key, str) for key in state),
        f"a tensor's state is {_short(state)}",
    )
    for key, value in state.items():
        # Straight into the attributes: setattr would run properties of the class.
        made.__dict__[key] = value
    return made


def _short(thing: Any) -> str:
    text = repr(thing)
    return text if len(text) <= 80 else text[:77] + "..."
