"""Tensors on their way to another process: both sides see the same memory, as with PyTorch.

What travels is a descriptor of shared memory, and where in it the tensor lies. A tensor that is not
in shared memory moves there when it is sent; one that has views, which would stay behind, is copied
there instead: call `share_memory_()` before making views.
"""

from __future__ import annotations

import sys
from multiprocessing import reduction
from typing import Any

from rushlight.core import dtypes, storage
from rushlight.core.tensor import Tensor, _wrap
from rushlight.multiprocessing import shared_memory
from rushlight.nn.parameter import Buffer, Parameter
from rushlight.serialization import copying

__all__ = ["init_reductions", "reduce_tensor"]


def _block(tensor: Tensor) -> shared_memory.Block | None:
    """The shared memory under a tensor, if another process can map it."""
    base = storage.root(tensor._array).base
    while isinstance(base, memoryview):
        base = base.obj
    shared = isinstance(base, shared_memory.Block) and base.descriptor is not None
    return base if shared else None


def reduce_tensor(tensor: Tensor) -> tuple[Any, ...]:
    """How multiprocessing takes a tensor apart. RuntimeError for one with history."""
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd does not "
            "support crossing process boundaries.  If you just want to transfer the data, call detach() on "
            "the tensor before serializing (e.g., putting it on the queue)."
        )
    if tensor.is_meta or not tensor.numel() or tensor.layout is not dtypes.strided:
        return copying.reduce_tensor(tensor)
    if not storage.is_shared(tensor):
        if not _alone(tensor):
            kind, leaf, state = type(tensor), tensor.requires_grad, tensor.__dict__
            tensor = tensor.detach().clone()
            tensor.share_memory_()
            return _sent(tensor, kind, leaf, state)
        tensor.share_memory_()
    return _sent(tensor, type(tensor), tensor.requires_grad, tensor.__dict__)


def _alone(tensor: Tensor) -> bool:
    """Whether nothing else has its memory: the array is its own root, and only the tensor holds it."""
    array = tensor._array
    return array.base is None and sys.getrefcount(array) <= 3  # the tensor, `array`, the call


def _sent(tensor: Tensor, kind: type, requires_grad: bool, state: dict) -> tuple[Any, ...]:
    block = _block(tensor)
    if block is None:  # a mapped file, or a system without descriptors
        _, content, order, _, _ = copying.reduce_tensor(tensor.detach())[1]
        return copying.rebuild, (kind, content, order, requires_grad, dict(state))
    size = storage.memory(tensor._array).size
    place = (tensor.dtype.name, storage.offset(tensor), tuple(tensor.shape), tensor.stride())
    descriptor = reduction.DupFd(block.descriptor)
    return rebuild, (kind, descriptor, size, place, requires_grad, dict(state))


def rebuild(
    kind: type, descriptor: Any, size: int, place: tuple, requires_grad: bool, state: dict
) -> Tensor:
    """The tensor on the other side, on the same memory."""
    name, offset, shape, strides = place
    block = shared_memory.mapped(descriptor.detach(), size)
    memory = shared_memory.bytes_of(block, size)
    dtype = getattr(dtypes, f"{name}_" if name == "bool" else name)
    made = _wrap(storage.strided(memory, dtype.np, offset, shape, strides))
    if kind is not Tensor:
        made = Tensor._make_subclass(kind, made)
    made.__dict__.update(state)
    return made.requires_grad_(requires_grad)


def init_reductions() -> None:
    """Let the standard library's queues, pipes and processes send tensors so."""
    for kind in (Tensor, Parameter, Buffer):
        reduction.ForkingPickler.register(kind, reduce_tensor)
