"""Pickling of tensors and storages for other processes: both sides see the same memory, as with PyTorch.

The pickle holds a descriptor of shared memory and the tensor's location in it. A tensor that is not
in shared memory moves there when it is sent, together with all tensors that share its storage.
"""

from __future__ import annotations

from collections.abc import Callable
from multiprocessing import context, reduction
from typing import Any
from weakref import WeakKeyDictionary

from rushlight.autograd import tensor_hooks
from rushlight.core import dtypes, storage
from rushlight.core.storage import TypedStorage, UntypedStorage
from rushlight.core.tensor import Tensor, _wrap
from rushlight.multiprocessing import shared_memory
from rushlight.nn.parameter import Buffer, Parameter
from rushlight.serialization import copying

__all__ = ["init_reductions", "reduce_tensor"]


def _block(array: Any) -> shared_memory.Block | None:
    """The shared memory under an array, if another process can map it."""
    base = storage.root(array).base
    while isinstance(base, memoryview):
        base = base.obj
    shared = isinstance(base, shared_memory.Block) and base.descriptor is not None
    return base if shared else None


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """Reduce a tensor for multiprocessing's pickler. RuntimeError for a non-leaf tensor that requires grad."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
            "support crossing process boundaries.  If you just want to transfer the data, call detach() on "
            "the tensor before serializing (e.g., putting it on the queue)."
        )
    tensor_hooks.warn_if_has_hooks(tensor)
    if tensor.is_meta or not tensor.numel() or tensor.layout is not dtypes.strided:
        return copying.reduce_tensor(tensor)
    return _sent(tensor.share_memory_())


def _sent(tensor: Tensor) -> tuple[Any, ...]:
    kind, requires_grad, state = type(tensor), tensor.requires_grad, dict(tensor.__dict__)
    block = _block(tensor._array)
    if block is None or copying.metadata(
        tensor
    ):  # a mapped file, or no descriptors; a view of conjugates
        return copying.reduce_tensor(tensor)
    size = storage.memory(tensor._array).size
    place = (tensor.dtype.name, storage.offset(tensor), tuple(tensor.shape), tensor.stride())
    return rebuild, (kind, _descriptor(block), size, place, requires_grad, state)


def reduce_storage(source: UntypedStorage) -> tuple[Any, ...]:
    """Reduce a storage for multiprocessing's pickler: the other process gets one on the same memory."""
    block = _block(source.share_memory_()._memory) if len(source) else None
    if block is None:
        return storage._restored, (source.cpu()._memory.tobytes(),)
    memory = source._memory
    start = storage.address(memory) - storage.address(storage.root(memory))
    return rebuild_storage, (_descriptor(block), start, memory.size)


def rebuild_storage(descriptor: Any, start: int, size: int) -> UntypedStorage:
    """The storage on the other side, on the same memory."""
    block = shared_memory.received(descriptor.detach(), start + size)
    made = UntypedStorage(0)
    made._memory = shared_memory.bytes_of(block, start + size)[start:]
    return made


def reduce_typed_storage(source: TypedStorage) -> tuple[Any, ...]:
    """As `reduce_storage`, with the dtype."""
    return rebuild_typed_storage, (source.untyped(), source.dtype)


def rebuild_typed_storage(source: UntypedStorage, dtype: dtypes.dtype) -> TypedStorage:
    return TypedStorage(wrap_storage=source, dtype=dtype)


# The descriptors passed to each process that is being started: they stay open until it has received them,
# and none is passed twice.
_given: WeakKeyDictionary[Any, dict[shared_memory.Block, Any]] = WeakKeyDictionary()


def _descriptor(block: shared_memory.Block) -> Any:
    """An object that unpickles to a descriptor of `block` in the receiving process."""
    process = context.get_spawning_popen()
    if process is None:
        return reduction.DupFd(block.descriptor)
    blocks = _given.setdefault(process, {})
    if block not in blocks:
        blocks[block] = reduction.DupFd(block.descriptor)
    return blocks[block]


def rebuild(
    kind: type, descriptor: Any, size: int, place: tuple, requires_grad: bool, state: dict
) -> Tensor:
    """The tensor on the other side, on the same memory."""
    name, offset, shape, strides = place
    block = shared_memory.received(descriptor.detach(), size)
    memory = shared_memory.bytes_of(block, size)
    dtype = getattr(dtypes, f"{name}_" if name == "bool" else name)
    made = _wrap(storage.strided(memory, dtype.np, offset, shape, strides))
    if kind is not Tensor:
        made = Tensor._make_subclass(kind, made)
    made.__dict__.update(state)
    return made.requires_grad_(requires_grad)


REDUCERS: dict[type, Callable] = {
    **dict.fromkeys((Tensor, Parameter, Buffer), reduce_tensor),
    UntypedStorage: reduce_storage,
    TypedStorage: reduce_typed_storage,
}


def init_reductions() -> None:
    """Let the standard library's queues, pipes and processes send tensors and storages so."""
    for kind, reducer in REDUCERS.items():
        reduction.ForkingPickler.register(kind, reducer)
