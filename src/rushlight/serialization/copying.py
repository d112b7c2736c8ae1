"""Copies of a tensor: `pickle.dumps(t)` and `copy.deepcopy(t)`."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from rushlight._backends import devices
from rushlight._backends.sparse import Sparse, own
from rushlight.autograd.state import thread
from rushlight.autograd.tensor_hooks import warn_if_has_hooks
from rushlight.core import dtypes, storage
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import handlers


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """The parts that pickle stores of a tensor: its elements, in memory order, and its attributes.

    Unlike `save`, it does not keep tensors on one storage together.
    """
    warn_if_has_hooks(tensor)
    array: np.ndarray = tensor._array
    if isinstance(array, Sparse):
        content: Any = array
        order: tuple[int, ...] = ()
    elif tensor.is_meta:
        content = _shape_only(tensor)
        order = ()
    else:
        array = devices.of(array).to_numpy(array)
        # Innermost dimension last; np.argsort is stable, so equal strides keep their order.
        order = tuple(int(d) for d in np.argsort([-s for s in array.strides], kind="stable"))
        content = np.ascontiguousarray(array.view(np.ndarray).transpose(order))
        content = content.reshape(
            [array.shape[d] for d in order]
        )  # ascontiguousarray makes 0-d 1-d
    state = attributes(tensor)
    where = () if tensor.is_cpu or tensor.is_meta else (str(tensor.device),)
    return rebuild, (type(tensor), content, order, tensor.requires_grad, state, *where)


def rebuild(
    kind: type,
    content: Any,
    order: tuple[int, ...],
    requires_grad: bool,
    state: dict[str, Any],
    device: str = "cpu",
) -> Tensor:
    """The tensor from the parts of `reduce_tensor`."""
    if isinstance(content, np.ndarray):
        # an unpickled array has a new dtype object; tensors compare theirs by identity
        content = content.view(dtypes.OF[content.dtype].np)
        if not content.flags.writeable:
            content = content.copy()  # pickle's out-of-band buffers may be read-only
        content = content.transpose(np.argsort(order)) if order else content
        made = _wrap(devices.for_device(device).from_numpy(content))
    elif isinstance(content, Sparse):
        made = _wrap(own(content))  # type: ignore[arg-type]
    elif devices.is_array(content):
        made = _wrap(content)
    else:
        import rushlight

        shape, stride, dtype = content
        made = rushlight.empty_strided(shape, stride, dtype=dtype, device="meta")
    if kind is not Tensor:
        made = Tensor._make_subclass(kind, made, requires_grad)
    elif requires_grad:
        made.requires_grad_()
    set_attributes(made, state)
    return made


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
        content: Any = own(array)
    else:
        content = _shape_only(tensor) if tensor.is_meta else _copied(array, memo)
    made = rebuild(type(tensor), content, (), tensor.requires_grad, {})
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
    return xp.as_strided(copy, array.shape, array.strides, offset, array.dtype)


def copied_memory(memory: Any, memo: dict[Any, Any]) -> Any:
    """A copy of the bytes of a storage, one for each storage: tensors and storages that share it share the copy."""
    xp = devices.of(memory)
    place = (xp.device_of(memory), xp.address(memory))
    if place not in memo:
        memo[place] = memory.copy()
    return memo[place]
