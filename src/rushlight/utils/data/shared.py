"""Transfer of batches from a worker process: a small message, and the data in shared memory.

Note [Blocks of shared memory]
    A worker writes the arrays of a batch into a *block* of anonymous memory (a memfd). It sends the
    block to the parent once, as a file descriptor; a block has no name, so nothing is left when a
    process is killed. Both sides keep a block mapped, because mapping and zeroing pages costs more
    than copying. When the last tensor in a block is freed, the parent sends the block's number back
    with the next task, and the worker fills the block again.

    A block is not reused too early in two cases. The worker may still reference the arrays that it
    made (a data set that caches its batches). And a process forked from the parent in the meantime
    has the same memory mapped: blocks in use at a fork are never reused.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import threading
import weakref
from collections import deque
from multiprocessing.reduction import ForkingPickler
from typing import Any

import numpy as np

from rushlight.autograd.graph import AccumulateGrad
from rushlight.core import dtypes, storage
from rushlight.core.tensor import Tensor, _wrap

__all__ = ["Arena", "Blocks", "dumps", "loads"]

ALIGN = 64


def _anonymous(size: int) -> int:
    """A file descriptor of that many bytes of memory without a name."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("rushlight-batch", os.MFD_CLOEXEC)
    else:
        import tempfile

        with tempfile.TemporaryFile() as file:
            descriptor = os.dup(file.fileno())
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


class _Block:
    __slots__ = ("number", "memory", "size", "address", "parts", "returned")

    def __init__(self, number: int, memory: mmap.mmap, size: int) -> None:
        self.number, self.memory, self.size = number, memory, size
        self.address = storage.address(np.frombuffer(memory, np.uint8))
        self.parts: list[weakref.ref] = []
        self.returned = True

    def unused(self) -> bool:
        return self.returned and all(part() is None for part in self.parts)


class Arena:
    """The worker's side: its blocks, and the block of the present batch.

    `limit`: how many blocks there may be; beyond it arrays travel in the message. Each costs a file
    descriptor in both processes, and who keeps all batches of an epoch would run out of them.
    """

    def __init__(self, limit: int, keep: int) -> None:
        self.limit, self.keep = limit, keep
        self.blocks: dict[int, _Block] = {}
        self.open: list[_Block] = []  # those of this batch; the last one has room
        self.fill = self.total = self.expected = self.count = 0
        self.new: list[tuple[int, int, int]] = []  # number, size, descriptor: not sent yet
        self.dropped: list[int] = []
        self.lock = threading.Lock()

    def take(self, n: int) -> np.ndarray | None:
        """`n` > 0 bytes of shared memory; None if they cannot be allocated."""
        with self.lock:
            if not self.open or self.fill + n > self.open[-1].size:
                # As large as the last batch, so that all of this batch fits into one block.
                block = self._free_block(max(n, self.expected - self.total))
                if block is None:
                    return None
                block.parts, block.returned = [], False
                self.open.append(block)
                self.fill = 0
            block = self.open[-1]
            part = np.frombuffer(block.memory, np.uint8, n, self.fill)
            block.parts.append(weakref.ref(part))
            used = -(-n // ALIGN) * ALIGN
            self.fill += used
            self.total += used
            return part

    def _free_block(self, size: int) -> _Block | None:
        unused = [block for block in self.blocks.values() if block.unused()]
        fitting = [block for block in unused if block.size >= size]
        if fitting:
            return min(fitting, key=lambda block: block.size)
        for block in unused:  # too small for the present batches
            self._drop(block)
        if len(self.blocks) >= self.limit:
            return None
        step = max(1 << 16, 1 << max(size.bit_length() - 3, 0))
        size = -(-size // step) * step
        descriptor = -1
        try:
            descriptor = _anonymous(size)
            memory = mmap.mmap(descriptor, size)
        except OSError:  # no descriptors, no memory: the batch travels in the message
            if descriptor >= 0:
                os.close(descriptor)
            return None
        self.count += 1
        block = self.blocks[self.count] = _Block(self.count, memory, size)
        self.new.append((self.count, size, descriptor))
        return block

    def _drop(self, block: _Block) -> None:
        del self.blocks[block.number]
        self.dropped.append(block.number)

    def stack(self, tensors: list[Tensor]) -> Tensor | None:
        """The tensors stacked, in the block of the batch in the making: it is where they go anyway.

        None where that is not for here: histories, subclasses, different shapes or dtypes.
        """
        arrays = []
        for tensor in tensors:
            if tensor.__class__ is not Tensor or tensor.requires_grad:
                return None
            arrays.append(tensor._array)
        first = arrays[0]
        if not first.nbytes or any(a.__class__ is not np.ndarray for a in arrays):
            return None
        if any(a.shape != first.shape or a.dtype != first.dtype for a in arrays):
            return None
        part = self.take(first.nbytes * len(arrays))
        if part is None:
            return None
        shape = (len(arrays), *first.shape)
        return _wrap(np.stack(arrays, out=part.view(first.dtype).reshape(shape)))

    def store(self, content: np.ndarray) -> tuple[int, int, int] | None:
        """The location (block number, offset, length) of the bytes in shared memory; copies them there if needed."""
        n, address = content.size, storage.address(content)
        if not n:
            return None
        for block in self.open:
            offset = address - block.address
            if 0 <= offset <= block.size - n:
                return block.number, offset, n
        part = self.take(n)
        if part is None:
            return None
        part[...] = content
        block = self.open[-1]
        return block.number, storage.address(part) - block.address, n

    def finish(self, sent: bool) -> None:
        """End the present batch; the next one uses another block."""
        with self.lock:
            for block in self.open:
                block.returned = not sent
            self.open = []
            self.expected, self.total, self.fill = self.total, 0, 0

    def returned(self, reuse: list[int], drop: list[int]) -> None:
        """The parent needs these blocks no longer; those of `drop` must not be filled again."""
        with self.lock:
            for number in drop:
                self.blocks.pop(number, None)
            for number in reuse:
                if number in self.blocks:
                    self.blocks[number].returned = True
            unused = [block for block in self.blocks.values() if block.unused()]
            for block in unused[self.keep :]:
                self._drop(block)

    def news(self) -> tuple[list[tuple[int, int]], list[int], list[int]]:
        """The changes not yet sent to the parent: new blocks, dropped blocks, descriptors of the new ones."""
        with self.lock:
            new, dropped, self.new, self.dropped = self.new, self.dropped, [], []
        sizes = [(number, size) for number, size, _ in new]
        return sizes, dropped, [descriptor for _, _, descriptor in new]


class Blocks:
    """The parent's side: the blocks of one worker, and which of them tensors still need."""

    def __init__(self) -> None:
        self.memory: dict[int, mmap.mmap] = {}
        self.parts: dict[int, list[weakref.ref]] = {}
        self.left: dict[int, int] = {}
        self.pinned: set[int] = set()
        # Filled when an array dies, by whichever thread that happens in.
        self.gone: deque[int] = deque()
        _everyone.add(self)

    def add(self, number: int, size: int, descriptor: int) -> None:
        try:
            self.memory[number] = mmap.mmap(descriptor, size)
        finally:
            os.close(descriptor)

    def buffers(self, locations: list[tuple[int, int, int]]) -> list[np.ndarray]:
        """The bytes at these locations, in the memory that the worker wrote to."""
        made = []
        for number, offset, n in locations:
            # An array for each: its storage then starts at the tensor and has the tensor's size.
            part = np.frombuffer(self.memory[number], np.uint8, n, offset)
            gone = self.gone

            def died(_: Any, number: int = number, gone: deque = gone) -> None:
                gone.append(number)

            self.parts.setdefault(number, []).append(weakref.ref(part, died))
            self.left[number] = self.left.get(number, 0) + 1
            made.append(part)
        return made

    def returns(self) -> tuple[list[int], list[int]]:
        """The blocks that no tensor needs any more: those to fill again, those to drop."""
        reuse: list[int] = []
        drop: list[int] = []
        while self.gone:
            number = self.gone.popleft()
            self.left[number] -= 1
            if not self.left[number]:
                del self.left[number], self.parts[number]
                if number in self.pinned:
                    self.pinned.discard(number)
                    self.memory.pop(number, None)
                    drop.append(number)
                else:
                    reuse.append(number)
        return reuse, drop

    def forget(self, numbers: list[int]) -> None:
        for number in numbers:
            self.memory.pop(number, None)


_everyone: weakref.WeakSet[Blocks] = weakref.WeakSet()


def _pin_all() -> None:
    for blocks in list(_everyone):
        blocks.pinned.update(blocks.left)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_pin_all)


# -- messages --------------------------------------------------------------------------------------


class _Pickler(pickle.Pickler):
    # Locks, connections and queues of `multiprocessing` may be in a batch too.
    dispatch_table = ForkingPickler(io.BytesIO()).dispatch_table

    def reducer_override(self, obj: Any) -> Any:
        if obj.__class__ is not Tensor or obj._array.__class__ is not np.ndarray:
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError(
                "Cowardly refusing to serialize non-leaf tensor which requires_grad, since autograd "
                "does not support crossing process boundaries. If you just want to transfer the "
                "data, call detach() on the tensor before serializing (e.g., putting it on the "
                "queue)."
            )
        array, strides = obj._array, None
        if not array.flags.c_contiguous:
            # Expanded dimensions are sent once, the others in the order that they have in memory.
            shape, steps = array.shape, array.strides
            cut = (slice(0, 1) if s == 0 else slice(None) for s in steps)
            core = array[tuple(cut)].copy(order="K")
            strides = tuple(
                s if n == 1 or s == 0 else t
                for n, s, t in zip(shape, steps, core.strides, strict=True)
            )
            content = storage.memory(core)
        else:
            content = array.reshape(-1).view(np.uint8)
        grad = obj._edge.__class__ is AccumulateGrad
        name = dtypes.OF[array.dtype].name
        return _tensor, (pickle.PickleBuffer(content), name, array.shape, strides, grad)


def _tensor(content: Any, name: str, shape: tuple, strides: Any, grad: bool) -> Tensor:
    dtype = getattr(dtypes, name).np
    flat = content if isinstance(content, np.ndarray) else np.frombuffer(content, np.uint8)
    if strides is None:
        array = flat.view(dtype).reshape(shape)
    else:
        array = np.lib.stride_tricks.as_strided(flat.view(dtype), shape, strides)
    tensor = _wrap(array)
    return tensor.requires_grad_() if grad else tensor


def dumps(data: Any, arena: Arena | None) -> tuple[bytes, list[tuple[int, int, int]]]:
    """The message for a batch, and the locations of its arrays in shared memory."""
    locations: list[tuple[int, int, int]] = []

    def in_message(buffer: pickle.PickleBuffer) -> bool:
        location = None
        if arena is not None:
            location = (
                arena.store(np.frombuffer(buffer.raw(), np.uint8)) if buffer.raw().nbytes else None
            )
        if location is None:
            return True
        locations.append(location)
        return False

    stream = io.BytesIO()
    _Pickler(stream, 5, buffer_callback=in_message).dump(data)
    return stream.getvalue(), locations


def loads(message: bytes, buffers: list[np.ndarray]) -> Any:
    """The batch again, its tensors on the buffers."""
    return pickle.loads(message, buffers=buffers)
