"""Memory that the processes of one machine share: each writes its own row and reads those of all.

Note [Rows in shared memory]
On one machine a reduction needs no messages. Each process writes its row, a barrier follows, and each process adds the rows up,
straight to where the sum is wanted, in the order of ranks: all get the same bits. The bytes pass through memory once; with messages they
are copied several times. Each process adds up everything, so this is for few processes.
Before a row is written again all must have read it. Small rows have two places, which take turns: who comes to the next barrier
has read the rows of the last one. Large rows have one, and a second barrier follows when they are read.
What a process has in its row stands in its gradients, too, and these are in its cache: the sum is made of them and the rows of the
others, in place, as long as nobody has changed them since.
Where processors keep the order of stores, barriers need no messages either: each process counts its barriers in the shared memory,
and all are there when no count is lower than one's own.
"""

from __future__ import annotations

import os
import platform
import threading
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

import rushlight
from rushlight._backends import llvm
from rushlight.core.tensor import Tensor
from rushlight.dispatch.results import bump
from rushlight.distributed import collectives, objects
from rushlight.distributed.reductions import ReduceOp
from rushlight.multiprocessing import shared_memory

__all__ = ["SharedGradients", "SharedRows", "shared_rows"]

MOST = 4  # processes
TWICE = 1 << 25  # bytes of rows that have two places
LINE = 64  # bytes of a line of the cache, and before each row: a count of barriers
# Whether processors see each other's stores in the order in which they are made.
ORDERED = platform.machine() in ("x86_64", "AMD64")


class Barrier:
    """A barrier as a request of MPI: whether all processes have reached it `number` times."""

    def __init__(self, counts: list[memoryview], number: int) -> None:
        self.counts, self.number = counts, number

    def Test(self) -> bool:
        """Whether all have come."""
        return all(count[0] >= self.number for count in self.counts)


class SharedRows:
    """The rows of all processes of a group for each turn, and barriers between these."""

    def __init__(self, blocks: list[Any], size: int, turns: int, group: Any) -> None:
        bytes_of = [shared_memory.bytes_of(block, LINE + turns * size)[LINE:] for block in blocks]
        self.rows = [
            [rushlight.from_numpy(each[turn * size : (turn + 1) * size]) for each in bytes_of]
            for turn in range(turns)
        ]
        self.turns = turns
        self.group, self.number, self.lock = group, 0, threading.Lock()
        self.counts = [memoryview(block)[:8].cast("q") for block in blocks]

    def barrier(self) -> Any:
        """A barrier behind all that this process wrote before: a request that is done when all processes have called it."""
        communicator = self.group.communicator  # raises if the group cannot be used any more
        self.number += 1
        if not ORDERED:
            return communicator.Ibarrier()
        with self.lock:  # its atomic instruction ends stores that go around the cache
            self.counts[self.group.rank()][0] = self.number
        return Barrier(self.counts, self.number)


class SharedGradients:
    """Gradients of one dtype that each process writes to its row, and that become the sums of all rows."""

    def __init__(self, rows: Sequence[Sequence[Tensor]], rank: int) -> None:
        self.rank, self.count = rank, len(rows)
        # The arrays of all rows, gradient after gradient; where `versions` has the version of a gradient that was
        # written, this gradient stands in the place of this process's row.
        self.items: list[Any] = [view._array for views in zip(*rows) for view in views]
        self.own = self.items[rank :: self.count]
        self.versions: list[int | None] = [None] * len(self.own)
        self.dtype = self.own[0].dtype
        self.refused = np.empty(1 + len(self.own), np.int64)

    def forget(self) -> None:
        """Nothing has been written."""
        self.items[self.rank :: self.count] = self.own
        self.versions = [None] * len(self.own)

    @cached_property
    def kernels(self) -> tuple[Any, Any]:
        """To write, and to add up."""
        from rushlight._codegen.kernels.shared_rows import kernels

        return kernels(self.dtype, self.count, self.rank)

    def write(self, numbers: Sequence[int], gradients: Sequence[Tensor], factor: float) -> None:
        """Write gradients, times a factor, to this process's row."""
        left: Sequence[int] = range(len(numbers))
        if llvm.active and self.dtype.char in "fd":
            items = []
            for k, g in zip(numbers, gradients):
                array = self.items[k * self.count + self.rank] = g._array
                counter = g._counter
                self.versions[k] = 0 if counter is None else counter.n
                items += (array, self.own[k])
            write, _ = self.kernels
            write(items, np.ndarray, self.dtype, factor, self.refused, len(numbers))
            left = (
                self.refused[1 : 1 + len(numbers)].nonzero()[0].tolist() if self.refused[0] else ()
            )
        for j in left:
            k = numbers[j]
            if gradients[j]._array.dtype != self.dtype:
                raise RuntimeError(
                    f"a gradient of {gradients[j].dtype} in a bucket of {self.dtype}: give all parameters of a module the same other dtype"
                )
            with np.errstate(all="ignore"):
                np.multiply(gradients[j]._array, factor, out=self.own[k], casting="unsafe")
            self.items[k * self.count + self.rank], self.versions[k] = self.own[k], None

    def add(self, numbers: Sequence[int], gradients: Sequence[Tensor], factor: float) -> None:
        """Gradients become the sums of all rows; the factor is that by which they were written."""
        count, items, versions = self.count, self.items, self.versions
        written, left = [], []
        for k, g in zip(numbers, gradients):
            counter = g._counter
            version = 0 if counter is None else counter.n
            known = items[k * count + self.rank] is g._array and versions[k] == version
            (written if known else left).append(k)
            if counter is not None or g._edge is not None:  # else nobody knows its version
                bump(g)
        if written:
            _, add = self.kernels
            if len(written) < len(versions):
                items = [each for k in written for each in items[k * count : (k + 1) * count]]
            add(items, factor, len(written))
        self.forget()
        if left:
            array_of = {k: g._array for k, g in zip(numbers, gradients)}
            with np.errstate(all="ignore"):
                for k in left:
                    rows, array = self.items[k * count : (k + 1) * count], array_of[k]
                    np.add(rows[0], rows[1], out=array, casting="unsafe")
                    for row in rows[2:]:
                        np.add(array, row, out=array, casting="unsafe")


def shared_rows(size: int, group: Any) -> SharedRows | None:
    """Rows of `size` bytes (whole lines) of each process of a group, all zero; None if they do not share memory."""
    if not 1 < group.size() <= MOST:
        return None
    turns = 2 if size <= TWICE else 1
    total = LINE + turns * size
    block = shared_memory.block_of(total)
    place = (_namespace(), os.getpid(), block.descriptor)
    places: list = [None] * group.size()
    objects.all_gather_object(places, place, group)
    blocks = [
        block if k == group.rank() else _opened(place[0], each, total)
        for k, each in enumerate(places)
    ]
    everywhere = rushlight.tensor([int(None not in blocks)])
    collectives.all_reduce(everywhere, ReduceOp.MIN, group)
    return SharedRows(blocks, size, turns, group) if everywhere.item() else None


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
