"""Copies of a tensor: `pickle.dumps(t)` and `copy.deepcopy(t)`."""

from __future__ import annotations

import copy
import io
from collections import OrderedDict
from typing import Any

import numpy as np

from rushlight import serialization
from rushlight._backends import devices, math_bits
from rushlight._backends.sparse import Sparse, own_copy
from rushlight.autograd.state import thread
from rushlight.autograd.tensor_hooks import warn_if_has_hooks
from rushlight.core import dtypes, storage
from rushlight.core.storage import TypedStorage, UntypedStorage
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import handlers, overrides


def reduce_tensor(tensor: Tensor, kind: type | None = None) -> tuple[Any, ...]:
    """How pickle makes a tensor of a class, its own: a function of `rebuild` and its arguments, as in PyTorch's pickles.

    Unlike `save`, it does not keep tensors on one storage together; of a view the whole storage is written.
    """
    from rushlight.serialization import rebuild

    warn_if_has_hooks(tensor)
    kind, state = kind or type(tensor), attributes(tensor)
    if tensor.layout is not dtypes.strided:
        made: Any = rebuild.sparse_tensor, (tensor.layout, sparse_parts(tensor))
    elif tensor.is_meta:
        shape = tuple(tensor.shape), tensor.stride()
        made = rebuild.meta_tensor, (tensor.dtype, *shape, tensor.requires_grad)
    else:
        where = tensor.storage_offset(), tuple(tensor.shape), tensor.stride(), tensor.requires_grad
        if tensor.dtype in dtypes.WITHOUT_STORAGE:
            more: tuple[Any, ...] = UntypedStorage._of(tensor), *where, OrderedDict(), tensor.dtype
            made = rebuild.tensor_v3, (*more, *metadata(tensor))
        else:
            more = TypedStorage._of(tensor), *where, OrderedDict(), *metadata(tensor)
            made = rebuild.tensor_v2, more
    if kind is Tensor and not state:
        return made
    return rebuild.from_type, (made[0], kind, made[1], state)


def metadata(tensor: Tensor) -> tuple[dict[str, bool], ...]:
    """The bits of a view of conjugates or of negatives, where it has any."""
    bits = {"conj": tensor.is_conj(), "neg": tensor.is_neg()}
    return ({name: True for name, on in bits.items() if on},) if any(bits.values()) else ()


def reduce_parameter(parameter: Tensor) -> tuple[Any, ...]:
    """The same of a parameter; as in PyTorch, one of a class of the user's becomes a plain parameter."""
    from rushlight.serialization import rebuild

    parts: tuple[Any, ...] = parameter.data, parameter.requires_grad, OrderedDict()
    if parameter.__dict__:
        return rebuild.parameter_with_state, (*parts, dict(parameter.__dict__))
    return rebuild.parameter, parts


def reduce_storage(storage: Any) -> tuple[Any, ...]:
    """The same of a storage: the bytes of a file, in the older format where that knows the type of its elements."""
    if isinstance(storage, UntypedStorage):
        return TypedStorage.untyped, (TypedStorage(wrap_storage=storage, dtype=dtypes.uint8),)
    buffer, zipped = io.BytesIO(), storage.dtype in dtypes.WITHOUT_STORAGE
    serialization.save(storage, buffer, _use_new_zipfile_serialization=zipped)
    return storage_from_bytes, (buffer.getvalue(),)


def storage_from_bytes(content: bytes) -> Any:
    """The storage of `reduce_storage`, also of a pickle that PyTorch wrote: the bytes can make nothing but tensors and storages."""
    return serialization.load(io.BytesIO(content), weights_only=True)


def sparse_parts(t: Tensor) -> tuple[Any, ...]:
    """The component tensors of a sparse tensor, its size, and for COO whether it is coalesced."""
    a: Any = t._array
    if t.is_sparse:
        return _wrap(a.indices), _wrap(a.values), t.size(), a.coalesced
    return _wrap(a.pointers), _wrap(a.plain), _wrap(a.values), t.size()


def copied(kind: type, content: Any, requires_grad: bool) -> Tensor:
    """A tensor of this class with a new array; (shape, strides, dtype) makes one on the meta device."""
    if isinstance(content, tuple):
        import rushlight

        shape, stride, dtype = content
        made = rushlight.empty_strided(shape, stride, dtype=dtype, device="meta")
    else:
        made = _wrap(content)
    if kind is not Tensor:
        return Tensor._make_subclass(kind, made, requires_grad)
    return made.requires_grad_() if requires_grad else made


def attributes(tensor: Tensor) -> dict[str, Any]:
    """What a program has stored on a tensor: in its dictionary, and in the slots of its class."""
    found = {name: getattr(tensor, name) for name in slots(type(tensor)) if hasattr(tensor, name)}
    return found | tensor.__dict__


def set_attributes(tensor: Tensor, state: dict[str, Any]) -> None:
    """Store the values of `attributes` on another tensor of the class."""
    named = slots(type(tensor))
    tensor.__dict__.update({name: v for name, v in state.items() if name not in named})
    for name in named:
        if name in state:
            setattr(tensor, name, state[name])


def slots(kind: type) -> set[str]:
    """The names of the slots that a class has besides those of `Tensor`."""
    if kind is Tensor:
        return set()
    return {name for c in kind.__mro__ if c is not Tensor for name in _slots_of(c)}


def _slots_of(cls: type) -> Any:
    own = vars(cls).get("__slots__", ()) if issubclass(cls, Tensor) else ()
    return (own,) if isinstance(own, str) else own


def deepcopy_tensor(tensor: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy in new memory with the same strides; the copies of tensors that share memory share it too.

    RuntimeError for a tensor with history: a graph is not copied.
    """
    if id(tensor) in memo:
        return memo[id(tensor)]
    if thread.function_modes:
        got = overrides.call_overrides(Tensor.__deepcopy__, (tensor, memo), {})
        if got is not overrides.NOTHING:
            return got
    if not tensor.is_leaf:
        raise RuntimeError(
            "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
            f"This one, of shape {list(tensor.shape)}, was made by {tensor.grad_fn.name()}: use detach().clone(), and "
            "see whether a module holds a computed tensor as an attribute"
        )
    array: np.ndarray = tensor._array
    if type(tensor) is not Tensor and handlers.dispatches(type(tensor)):
        return _copied_wrapper(tensor, memo)
    if isinstance(array, Sparse):
        content: Any = own_copy(array)
    else:
        content = _shape_only(tensor) if tensor.is_meta else _copied(array, memo)
    made = copied(type(tensor), content, tensor.requires_grad)
    memo[id(tensor)] = made
    set_attributes(made, copy.deepcopy(attributes(tensor), memo))
    if tensor.grad is not None:
        made.grad = copy.deepcopy(tensor.grad, memo)
    return made


def _copied_wrapper(tensor: Tensor, memo: dict[Any, Any]) -> Tensor:
    """A copy, by `clone`, of a tensor whose class has a `__torch_dispatch__`."""
    recording, thread.grad = thread.grad, False
    try:
        made = tensor.clone()
    finally:
        thread.grad = recording
    if type(made) is not type(tensor):
        raise RuntimeError(
            "The default implementation of __deepcopy__() for wrapper subclasses only works for subclass types that "
            "properly implement clone() and for which cloning returns another instance of the same subclass. Implement "
            "clone() properly, or give the class a __deepcopy__() of its own"
        )
    memo[id(tensor)] = made
    made.__dict__.update(copy.deepcopy(tensor.__dict__, memo))
    if tensor.requires_grad:
        made.requires_grad_()
    if tensor.grad is not None:
        made.grad = copy.deepcopy(tensor.grad, memo)
    return made


def _shape_only(tensor: Tensor) -> tuple[Any, ...]:
    return tuple(tensor.shape), tensor.stride(), tensor.dtype


def _copied(array: np.ndarray, memo: dict[Any, Any]) -> np.ndarray:
    if not array.size:
        return array.copy(order="K")
    xp = devices.of(array)
    memory = storage.memory(array)
    offset = xp.address(array) - xp.address(memory)
    copy = copied_memory(memory, memo)
    return math_bits.like(
        array, xp.as_strided(copy, array.shape, array.strides, offset, array.dtype)
    )


def copied_memory(memory: Any, memo: dict[Any, Any]) -> Any:
    """A copy of the bytes of a storage, one for each storage: tensors and storages that share it share the copy."""
    xp = devices.of(memory)
    key = (xp.device_of(memory), xp.address(memory))
    if key not in memo:
        memo[key] = memory.copy()
    return memo[key]
