"""The functions that checkpoints call: they make tensors from storages.

All arguments come from the file. Offset, sizes and strides are checked against the storage before memory is touched;
wrong ones are a RuntimeError.
"""

from __future__ import annotations

import threading
from math import prod
from typing import Any

import numpy as np

import rushlight
from rushlight._backends import math_bits
from rushlight._backends.compressed import LAYOUTS
from rushlight.core import dtypes, storage
from rushlight.core.storage import TypedStorage, UntypedStorage
from rushlight.core.tensor import Tensor, _wrap
from rushlight.nn.parameter import Buffer, Parameter

MAX_DIMS = 64  # NumPy's own limit


def loaded(memory: np.ndarray, dtype: dtypes.dtype) -> TypedStorage:
    """The storage with these bytes (uint8, writable): the first argument of the functions below."""
    untyped = UntypedStorage(0)
    untyped._memory = memory
    return TypedStorage(wrap_storage=untyped, dtype=dtype)


def tensor_v1(source: Any, offset: Any, size: Any, stride: Any) -> Tensor:
    """A tensor that shares the memory of `source`; `offset` and `stride` count elements."""
    _check_storage(source)
    return _tensor(source, source.dtype, offset, size, stride)


def tensor_v2(
    source: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    metadata: Any = None,
) -> Tensor:
    """As `tensor_v1`, with `requires_grad`. Hooks are not restored: they are code."""
    return _finished(tensor_v1(source, offset, size, stride), requires_grad, metadata)


def tensor_v3(
    source: Any,
    offset: Any,
    size: Any,
    stride: Any,
    requires_grad: Any,
    hooks: Any,
    dtype: Any,
    metadata: Any = None,
) -> Tensor:
    """As `tensor_v2` for dtypes without a storage class: the storage holds bytes of `dtype`."""
    if type(source) is UntypedStorage:  # in plain pickles, which PyTorch itself cannot read
        source = TypedStorage(wrap_storage=source, dtype=dtypes.uint8)
    _check_storage(source)
    _check(isinstance(dtype, dtypes.dtype), "dtype is {}", dtype)
    return _finished(_tensor(source, dtype, offset, size, stride), requires_grad, metadata)


def meta_tensor(dtype: Any, size: Any, stride: Any, requires_grad: Any) -> Tensor:
    """A tensor on the meta device: a shape without memory."""
    _check(isinstance(dtype, dtypes.dtype), "dtype is {}", dtype)
    _check_layout(0, size, stride)
    made = rushlight.empty_strided(tuple(size), tuple(stride), dtype=dtype, device="meta")
    return _finished(made, requires_grad, None)


def parameter(data: Any, requires_grad: Any, hooks: Any) -> Parameter:
    _check(isinstance(data, Tensor), "the data of a parameter is {}", data)
    return Parameter(data, bool(requires_grad))


def parameter_with_state(data: Any, requires_grad: Any, hooks: Any, state: Any) -> Parameter:
    """A parameter with attributes that the user set on it."""
    return _with_state(parameter(data, requires_grad, hooks), state)


def from_type(function: Any, kind: Any, arguments: Any, state: Any) -> Tensor:
    """A tensor of a subclass or with attributes: `function(*arguments)` as `kind`, with `state` set on it."""
    made = function(*arguments)
    _check(isinstance(made, Tensor), "{} gave {}, not a tensor", function, made)
    kind = getattr(kind, "meaning", kind)
    _check(
        isinstance(kind, type) and issubclass(kind, Tensor),
        "the class of a tensor is {}",
        kind,
    )
    if kind is Buffer or (kind is Tensor and isinstance(state, dict) and state.get("_is_buffer")):
        made = Buffer(made)
    elif kind not in (Tensor, type(made)):
        made = Tensor._make_subclass(kind, made, made.requires_grad)
    if hasattr(kind, "__setstate__"):
        kind.__setstate__(made, state)
        return made
    return _with_state(made, state)


def wrapper_subclass(
    kind: Any, dtype: Any, size: Any, stride: Any, storage_offset: Any, layout: Any, device: Any, requires_grad: Any
) -> Tensor:  # fmt: skip
    """A tensor without memory of a class that wraps others, which are in its state."""
    _check_layout(storage_offset, size, stride)
    return kind._make_wrapper_subclass(
        kind, size, strides=stride, storage_offset=storage_offset, dtype=dtype, layout=layout, device=device,
        requires_grad=requires_grad,
    )  # fmt: skip


def layout(name: Any) -> Any:
    """`torch.strided`, `torch.sparse_coo`... from its printed name."""
    known = (dtypes.strided, dtypes.sparse_coo, *LAYOUTS)
    found = [each for each in known if name == repr(each)]
    _check(bool(found), "layout {}", name)
    return found[0]


def sparse_tensor(layout: Any, data: Any) -> Tensor:
    """A sparse tensor from its parts, after a check of coordinates, pointers and sizes.

    In a file of the older format the parts come after what is made of them: `late` tensors are finished then.
    """
    if late.tensors is not None:
        shell = rushlight.empty(0, device="meta")
        late.tensors.append((shell, layout, data))
        return shell
    _check(
        isinstance(data, tuple)
        and len(data) in (3, 4)
        and all(isinstance(part, Tensor) for part in data[:2]),
        "the parts of a sparse tensor are {}",
        data,
    )
    if (
        layout is dtypes.sparse_coo
    ):  # files of PyTorch before 2.1 do not say whether it is coalesced
        indices, values, size, coalesced = (*data, None)[:4]
        made = rushlight.sparse_coo_tensor(
            indices, values, size, is_coalesced=coalesced, check_invariants=True
        )
    else:
        _check(layout in LAYOUTS, "layout {}", layout)
        made = rushlight.sparse_compressed_tensor(*data, layout=layout, check_invariants=True)
    return made.detach()


def nested_tensor(values: Any, sizes: Any, strides: Any, offsets: Any) -> Tensor:
    """A nested tensor from the memory of its components, and where each lies in it."""
    from rushlight.nested import strided

    _check(
        all(isinstance(t, Tensor) for t in (values, sizes, strides, offsets)),
        "no tensors: {}",
        sizes,
    )
    _check(sizes.shape == strides.shape and len(sizes) == len(offsets), "sizes {}", sizes.shape)
    made = strided.strided_from_parts(
        values, map(tuple, sizes.tolist()), map(tuple, strides.tolist()), offsets.tolist()
    )
    made.components()  # raises for one that reaches beyond the memory
    return made


def jagged_tensor(parts: Any) -> Tensor:
    """A nested tensor of layout `torch.jagged` from its values, offsets and lengths."""
    from rushlight.nested import jagged

    values, offsets, lengths = (parts.get(n) for n in ("values", "offsets", "lengths"))
    ragged = parts.get("_ragged_idx", 1)
    _check(isinstance(values, Tensor) and isinstance(offsets, Tensor), "no tensors: {}", values)
    _check(0 < ragged <= values.dim(), "the ragged dimension {}", ragged)
    made = jagged.jagged_from_parts(values, offsets, lengths, ragged)
    made.components()  # raises for one that reaches beyond the values
    return made


class Late(threading.local):
    """The sparse tensors of a file of the older format that is being read, with their parts."""

    tensors: list[tuple[Tensor, Any, Any]] | None = None

    def finish(self) -> None:
        """Give every tensor its array, now that its parts are read."""
        tensors, self.tensors = self.tensors or [], None
        for shell, layout, data in tensors:
            shell._array = sparse_tensor(layout, data)._array


late = Late()


def byte_array(*arguments: Any) -> bytearray:
    # bytearray(10**15) is an allocation, and no pickler writes it.
    _check(
        all(isinstance(each, str | bytes) for each in arguments),
        "bytearray of something else than text or bytes",
    )
    return bytearray(*arguments)


def encoded(text: Any, encoding: Any) -> bytes:
    """The bytes that protocol 2 writes as a text to encode in latin-1."""
    _check(
        isinstance(text, str) and encoding == "latin1",
        "encode({}, {})",
        text,
        encoding,
    )
    return text.encode("latin-1")


# -- checks ------------------------------------------------------------------------------------------------------------------


def _check(holds: bool, what: str, *shown: Any) -> None:
    """RuntimeError with `what`, formatted with `shown`, unless it holds."""
    if not holds:
        what = what.format(*map(_short, shown))
        raise RuntimeError(f"load: the file is damaged or hostile: {what}")


def _check_storage(source: Any) -> None:
    _check(type(source) is TypedStorage, "a tensor's storage is {}", source)


def _check_layout(offset: Any, size: Any, stride: Any) -> None:
    _check(
        isinstance(size, tuple)
        and isinstance(stride, tuple)
        and len(size) == len(stride) <= MAX_DIMS,
        "a tensor has size {} and stride {}",
        size,
        stride,
    )
    for number in (offset, *size, *stride):
        _check(
            type(number) is int and 0 <= number < 2**58,  # so that times 16 bytes fits into 64 bits
            "a tensor has offset {}, size {}, stride {}",
            offset,
            size,
            stride,
        )


def _tensor(
    source: TypedStorage, dtype: dtypes.dtype, offset: Any, size: Any, stride: Any
) -> Tensor:
    _check_layout(offset, size, stride)
    size, stride, memory = tuple(size), tuple(stride), source.untyped()._memory
    _check(prod(size) < 2**58, "a tensor has size {}", size)
    array = storage.strided(memory, dtype.np, offset, size, stride)
    if source.device.type == "meta":
        return rushlight.empty_strided(size, stride, dtype=dtype, device="meta")
    if dtype is dtypes.bool_ and memory.size and memory.max() > 1:
        # A byte of 2 in a bool array is neither True nor False to NumPy's loops.
        memory[:] = memory != 0
    return _wrap(array)


def _finished(made: Tensor, requires_grad: Any, metadata: Any) -> Tensor:
    if metadata:
        _check(isinstance(metadata, dict), "the metadata of a tensor are {}", metadata)
        unknown = sorted(set(map(str, metadata)) - {"conj", "neg"})
        _check(not unknown, "a tensor has unknown metadata {}", unknown)
        bits = bool(metadata.get("conj")), bool(metadata.get("neg"))
        made._array = math_bits.marked(made._array, *bits)
    return made.requires_grad_() if requires_grad is True else made


def _with_state(made: Any, state: Any) -> Any:
    """`made` with its attributes set: a dictionary of them, or (dictionary, those in slots of its class)."""
    from rushlight.serialization.copying import set_attributes

    plain, own = state if isinstance(state, tuple) and len(state) == 2 else (state, {})
    _check(
        all(isinstance(d, dict) and all(isinstance(k, str) for k in d) for d in (plain, own or {})),
        "a tensor's state is {}",
        state,
    )
    # Straight into the attributes: setattr would run properties of the class.
    set_attributes(made, {**plain, **(own or {})})
    return made


def _short(obj: Any) -> str:
    text = repr(obj)
    return text if len(text) <= 80 else text[:77] + "..."
