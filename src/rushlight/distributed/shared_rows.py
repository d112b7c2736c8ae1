"""Memory that the processes of one machine share: each writes its own row and reads those of all.

Note [Rows in shared memory]
On one machine a reduction needs no messages. Each process writes its row, a barrier says that all rows are there, and each
process adds them up, straight to where the sum is wanted, in the order of ranks: all get the same bits. A second barrier says
that all have read; only after it a row is written again. The bytes pass through memory once; with messages they are copied
several times. Each process adds up everything, so this is for few processes.
"""

from __future__ import annotations

import os
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, objects
from rushlight.distributed.reductions import ReduceOp
from rushlight.multiprocessing import shared_memory

__all__ = ["shared_rows"]

MOST = 4  # processes


def shared_rows(size: int, group: Any) -> list[Tensor] | None:
    """A row of `size` bytes of each process of a group, all zero; None if they do not share memory."""
    if not 1 < group.size() <= MOST:
        return None
    block = shared_memory.block_of(size)
    place = (_namespace(), os.getpid(), block.descriptor)
    places: list = [None] * group.size()
    objects.all_gather_object(places, place, group)
    blocks = [
        block if k == group.rank() else _opened(place[0], each, size)
        for k, each in enumerate(places)
    ]
    everywhere = rushlight.tensor([int(None not in blocks)])
    collectives.all_reduce(everywhere, ReduceOp.MIN, group)
    if not everywhere.item():
        return None
    return [rushlight.from_numpy(shared_memory.bytes_of(each, size)) for each in blocks]


def _namespace() -> str | None:
    """What numbers of processes belong to: this start of this machine, and the container. None if nothing says it."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read() + os.readlink("/proc/self/ns/pid")
    except OSError:
        return None


def _opened(namespace: str | None, place: tuple, size: int) -> shared_memory.Block | None:
    """The block of another process, if it is one of this machine and lets this one open it."""
    theirs, process, descriptor = place
    if namespace is None or namespace != theirs or descriptor is None:
        return None
    try:
        opened = os.open(f"/proc/{process}/fd/{descriptor}", os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return None
    return shared_memory.received(opened, size)
