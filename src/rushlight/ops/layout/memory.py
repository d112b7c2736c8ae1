"""A tensor's memory itself: `resize_`, `set_`, `swap_tensors`, storage-level questions."""

from __future__ import annotations

import gc
import math
import sys
from collections.abc import Sequence
from operator import index
from typing import Any

import numpy as np

from rushlight._backends import devices, math_bits, meta
from rushlight._backends.compressed import Compressed
from rushlight.autograd.graph import AccumulateGrad, Node, SwappedLeaf
from rushlight.autograd.views import View, edge_of
from rushlight.core import dtypes, geometry, settings, storage
from rushlight.core.device import current_accelerator
from rushlight.core.storage import UntypedStorage
from rushlight.core.tensor import INFERENCE, Tensor, _array_for, _wrap
from rushlight.dispatch import general, handlers, results
from rushlight.dispatch.registry import public
from rushlight.dispatch.saved import Saved
from rushlight.ops.factories import arguments, creation


@public("Tensor", overridable=True)
def resize_(self, *args, size=None, memory_format=None):
    """Change the shape in place; elements beyond the old memory are uninitialised.

    RuntimeError for a tensor that requires grad. When the memory has to grow, views made before keep
    the old memory.
    """
    shape = arguments.sizes("resize_", args, size)
    if self.requires_grad and self._counter is not INFERENCE:
        raise RuntimeError("cannot resize variables that require grad")
    strides = None
    if memory_format is not None:
        if memory_format is dtypes.preserve_format:
            raise RuntimeError("Unsupported memory format Preserve")
        strides = geometry.format_strides(shape, memory_format)
    if self._array.shape == shape and strides is None:
        return self
    if self._array.__class__ is Compressed:
        from rushlight.ops.sparse import compressed

        compressed.put(self, compressed.resized(self._array, shape))
        return self
    creation.check_size(shape, self._array.itemsize)
    results.give_shape(self, shape, strides)
    results.bump(self)
    return self


@public(method=True, overridable=True)
def resize_as_(self, the_template, *, memory_format=None):
    """`resize_` to the shape of another tensor."""
    if memory_format is None and self._array.shape == the_template._array.shape:
        if self._edge is None and self._array.__class__ is np.ndarray:
            return self
    if self.is_sparse and the_template.is_sparse:
        return self.resize_as_sparse_(the_template)
    if memory_format is dtypes.preserve_format:
        memory_format = geometry.suggest_memory_format(the_template.shape, the_template.stride())
    return resize_(self, the_template._array.shape, memory_format=memory_format)


@public("Tensor", overridable=True)
def set_(self, source=None, storage_offset=0, size=None, stride=None):
    """Put this tensor on other memory: that of a tensor, or of a storage with offset, size, stride."""
    if handlers.asked((self, source)):
        more = () if size is None else (storage_offset, size, stride)
        handlers.carried["overwrite"](self, "set_", (source, *more))
        return self
    if source is None:
        array = devices.of(self._array).empty(0, self._array.dtype)
        self._array = _array_for(self.__class__, array)
        results.bump(self)
        return self
    if self._edge is not None and general.thread.grad and self.requires_grad:
        raise RuntimeError(
            "set_: a tensor that requires grad cannot be put on other memory; use .data"
        )
    if self._edge is not None and not self.requires_grad:
        self._edge = None  # a view of the memory it leaves
    if isinstance(source, Tensor):
        if source.dtype is not self.dtype:
            raise RuntimeError(
                f"Could not set tensor of type {source.dtype} to a tensor of type {self.dtype}"
            )
        if size is None:
            array = math_bits.like(self._array, math_bits.plain(source._array))
            self._array = _array_for(self.__class__, array)
            results.bump(self)
            return self
        memory = storage.memory(source._array)
    else:
        if not isinstance(source, (storage.TypedStorage, storage.UntypedStorage)):
            kind = results.kind(source)
            raise TypeError(f"set_() received an invalid combination of arguments - got ({kind})")
        untyped = source.untyped()
        if isinstance(source, storage.TypedStorage) and source.dtype is not self.dtype:
            raise RuntimeError(
                f"Expected a Storage of type {self.dtype} or an UntypedStorage, but got type "
                f"{source.dtype} for argument 1 'storage'"
            )
        memory = untyped._memory
        if size is None:
            size = (memory.size // self._array.itemsize - storage_offset,)
    shape = tuple(index(n) for n in ((size,) if isinstance(size, int) else size))
    steps = geometry.contiguous_strides(shape) if stride is None else tuple(map(index, stride))
    at, d = index(storage_offset), self._array.dtype
    n = at + 1 + sum((k - 1) * s for k, s in zip(shape, steps, strict=True))
    if 0 not in shape and n * d.itemsize > memory.size:
        memory = results.grown(memory, n * d.itemsize)
        if not isinstance(source, Tensor):
            source.untyped()._memory = memory
    array = math_bits.like(self._array, storage.strided(memory, d, at, shape, steps))
    self._array = _array_for(self.__class__, array)
    results.bump(self)  # what was saved for backward is no more
    return self


@public("utils", name="swap_tensors")
def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Exchange two tensors: class, memory, history, attributes; every holder of one sees the other.

    RuntimeError where one is saved for backward or is the base of a view: the graph would read other numbers.
    """
    if t1 is t2:
        return
    if in_graph(t1, t2):
        name, t = ("t1", t1) if in_graph(t1) else ("t2", t2)
        raise RuntimeError(
            f"swap_tensors(): Expected use_count of {name} to be 1, or 2 with an AccumulateGrad node, but a graph has "
            f"saved this tensor of shape {list(t.shape)} for backward, or a view of it was made. Run backward and drop "
            "the views first, or swap a clone()"
        )
    for slot in ("_array", "_edge", "_counter", "__class__", "__dict__"):
        a, b = getattr(t1, slot), getattr(t2, slot)
        setattr(t1, slot, b)
        setattr(t2, slot, a)
    g1, g2 = getattr(t1, "_grad", None), getattr(t2, "_grad", None)
    t1._grad, t2._grad = g2, g1
    for t in (t1, t2):
        leave_graph(t)


def in_graph(*tensors: Tensor) -> bool:
    """Whether a node has saved one of `tensors`, or a view was made of it."""
    holders = gc.get_referrers(*tensors)
    kinds = (Node, Saved, View)
    if any(isinstance(h, kinds) for h in holders):
        return True
    several = [h for h in holders if h.__class__ in (list, tuple)]
    return bool(several) and any(isinstance(h, kinds) for h in gc.get_referrers(*several))


def leave_graph(t: Tensor) -> None:
    """Give a leaf that was swapped a new node, with its hooks; graphs that lead to the former one cannot go there."""
    node = edge_of(t)
    if node.__class__ is AccumulateGrad:
        own = AccumulateGrad(t)
        own.hooks, node.hooks = node.hooks, None
        own.reduced, node.reduced = node.reduced, ()
        t._set_leaf_edge(own)
        node.__class__ = SwappedLeaf


@public("Tensor")
def share_memory_(self: Tensor) -> Tensor:
    """Move the memory to where processes that it is sent to, or that are forked, see each other's writes.

    Every tensor on the memory moves with it; a NumPy array on it stays where it was.
    """
    if self._array.__class__ is not meta.Meta and not storage.is_shared(self):
        share(self)
    return self


def share(holder: Tensor | UntypedStorage) -> None:
    """Move the memory of `holder` to a block of shared memory, with all tensors and storages that are on it."""
    from rushlight.multiprocessing import shared_memory

    old = storage.root(_bytes(holder))
    content = storage.memory(old)
    moved = shared_memory.bytes_of(shared_memory.block_of(content.size), content.size)
    moved[...] = content
    for each in [holder] if _alone(holder) else [holder, *_others(holder)]:
        if isinstance(each, UntypedStorage):
            at = storage.address(each._memory) - storage.address(old)
            each._memory = moved[at : at + each._memory.size]
            continue
        a = each._array
        strides = tuple(s // a.itemsize for s in a.strides)
        there = storage.strided(moved, a.dtype, storage.offset(each), a.shape, strides)
        each.data = _wrap(math_bits.like(a, there))


def _bytes(holder: Any) -> np.ndarray:
    return holder._memory if isinstance(holder, UntypedStorage) else getattr(holder, "_array", None)


def _alone(holder: Any) -> bool:
    """Whether it is certain that nothing else holds the memory."""
    if isinstance(holder, UntypedStorage) or holder._array.base is not None:
        return False
    return sys.getrefcount(holder._array) == 2 + (holder._edge.__class__ is AccumulateGrad)


def _others(holder: Any) -> list[Any]:
    """The other tensors and storages of this process on the memory of `holder`."""
    memory = storage.root(_bytes(holder))
    return [
        each
        for each in gc.get_objects()
        if issubclass(type(each), (Tensor, UntypedStorage))
        and each is not holder
        and isinstance(a := _bytes(each), np.ndarray)
        and storage.root(a) is memory
    ]


@public("Tensor", overridable=True)
def resize(self, *sizes):
    """`view` under a name that PyTorch calls deprecated; RuntimeError for another number of elements."""
    settings.warn("non-inplace resize is deprecated")
    return reshaped(self, sizes[0] if len(sizes) == 1 and not isinstance(sizes[0], int) else sizes)


@public("Tensor", overridable=True)
def resize_as(self, tensor):
    """`view_as` under a name that PyTorch calls deprecated; RuntimeError for another number of elements."""
    settings.warn("non-inplace resize_as is deprecated")
    return reshaped(self, tensor._array.shape)


def reshaped(input: Tensor, sizes: Sequence[int]) -> Tensor:
    wanted = math.prod(sizes)
    if wanted != input.numel():
        raise RuntimeError(
            f"requested resize to {'x'.join(map(str, sizes))} ({wanted} elements in total), but the given tensor "
            f"has a size of {'x'.join(map(str, input.shape))} ({input.numel()} elements). autograd's resize can only "
            "change the shape of a given tensor, while preserving the number of elements. "
        )
    return input.contiguous().view(sizes)


@public("Tensor")
def pin_memory(self: Tensor, device: Any = None) -> Tensor:
    """The tensor itself: no back end has memory of this kind. RuntimeError without an accelerator."""
    if current_accelerator() is not None:
        return self
    raise RuntimeError("Cannot access accelerator device when none is available.")


@public()
def is_storage(obj: Any) -> bool:
    """Whether `obj` is a storage."""
    return isinstance(obj, (storage.UntypedStorage, storage.TypedStorage))
