"""Memory that several processes see, without a name: nothing is left of it when they are gone."""

from __future__ import annotations

import mmap
import os
from weakref import WeakValueDictionary

import numpy as np


class Block(mmap.mmap):
    """A block of shared memory; another process maps it by `descriptor` (None if there is none)."""

    descriptor: int | None = None

    def __del__(self) -> None:
        if self.descriptor is not None and os is not None:  # None: the interpreter ends
            os.close(self.descriptor)
            self.descriptor = None


def block_of(size: int) -> Block:
    """A new block of `size` bytes (at least one), zero."""
    size = max(size, 1)
    if not hasattr(os, "memfd_create"):
        return Block(-1, size)  # seen by processes forked from now on
    descriptor = os.memfd_create("rushlight", os.MFD_CLOEXEC)
    try:
        os.ftruncate(descriptor, size)
        return mapped(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise


def mapped(descriptor: int, size: int) -> Block:
    """The block behind a descriptor, which belongs to the block from now on."""
    block = Block(descriptor, max(size, 1))
    block.descriptor = descriptor
    _blocks[_identity(descriptor)] = block
    return block


def received(descriptor: int, size: int) -> Block:
    """As `mapped`, for a descriptor from another process: the block that is mapped already where there is one."""
    block = _blocks.get(_identity(descriptor))
    if block is None:
        return mapped(descriptor, size)
    if descriptor != block.descriptor:
        os.close(descriptor)
    return block


def _identity(descriptor: int) -> tuple[int, int]:
    """The file behind a descriptor, which is the same in all processes."""
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


_blocks: WeakValueDictionary[tuple[int, int], Block] = WeakValueDictionary()


def bytes_of(block: Block, size: int) -> np.ndarray:
    """The block as uint8 [size]."""
    return np.frombuffer(block, np.uint8)[:size]
