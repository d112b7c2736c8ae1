"""Reductions as schedules of messages, for rows that MPI's own reductions are slow for or cannot reduce.

Note [Reductions of long rows]
The row is cut into a part for each process. Each process gets its part of all the others, reduces it, and gives it to all.
That is as few bytes as there can be; what matters more is that it goes by chunks: while one chunk is reduced the next one
comes, and both stay in the cache. A chunk is reduced by the kernels of the package, so every dtype of theirs is reduced.
The order of ranks in a sum does not depend on who comes first, and each element is computed once: all get the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from itertools import pairwise
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed import world

__all__ = ["CHUNK", "Combination", "Schedule", "Wire", "reduce_row", "reduce_scatter"]

CHUNK = 1 << 20  # bytes; large enough that starting a message costs nothing beside it
AHEAD = 2  # chunks of each process that are on their way at once

Combination = Callable[[Tensor, list[Tensor]], None]


class Schedule:
    """Steps of a call, each a list of messages; it is asked for as MPI's requests are."""

    def __init__(self, steps: Iterator[list]) -> None:
        self.steps, self.requests = steps, []
        self.done = 0  # how many steps

    def Test(self) -> bool:
        """Start what can be started now. Returns whether all is done."""
        while world.world.mpi.Request.Testall(self.requests):
            try:
                self.requests = next(self.steps)
            except StopIteration:
                self.requests = []
                return True
            self.done += 1
        return False


class Wire:
    """Sends and receives rows of tensors among the processes of a communicator, under a tag of its own."""

    def __init__(self, communicator: Any, tag: int, message: Callable[[Any], list]) -> None:
        self.communicator, self.tag, self.message = communicator, tag, message
        self.rank, self.size = communicator.rank, communicator.size
        self.others = [(self.rank + k) % self.size for k in range(1, self.size)]

    def send(self, row: Tensor, rank: int) -> Any:
        return self.communicator.Isend(self.message(row._array), rank, self.tag)

    def receive(self, row: Tensor, rank: int) -> Any:
        return self.communicator.Irecv(self.message(row._array), rank, self.tag)


def cuts(start: int, end: int, step: int) -> list[tuple[int, int]]:
    """The chunks between two places."""
    return [(a, min(a + step, end)) for a in range(start, end, step)]


def reduce_parts(
    wire: Wire, parts: list[Tensor], target: Tensor, combine: Combination, reduced: Callable[[Tensor], None]
) -> Generator[list, None, list]:  # fmt: skip
    """Part k of all is reduced by the process k, into `target`; `reduced` is called with each chunk of it that is there.

    `target` may be the process's own part. Returns the messages that may still be on their way.
    """
    step = max(1, CHUNK // target.element_size())
    sends = [
        wire.send(parts[k][a:b], k)
        for at in range(0, max(map(len, parts)), step)
        for k in wire.others
        for a, b in cuts(at, min(at + step, len(parts[k])), step)
    ]
    mine, chunks = parts[wire.rank], cuts(0, len(target), step)
    ranks = sorted(wire.others)
    rows = [[target.new_empty(min(step, len(target))) for _ in ranks] for _ in chunks[:AHEAD]]

    def receive(number: int) -> list:
        a, b = chunks[number]
        return [wire.receive(row[: b - a], k) for row, k in zip(rows[number % AHEAD], ranks)]

    coming = [receive(number) for number in range(len(rows))]
    for number, (a, b) in enumerate(chunks):
        yield coming[number]
        if mine.data_ptr() != target.data_ptr():
            target[a:b].copy_(mine[a:b])
        combine(target[a:b], [row[: b - a] for row in rows[number % AHEAD]])
        if number + AHEAD < len(chunks):
            coming.append(receive(number + AHEAD))
        reduced(target[a:b])
    return sends


def reduce_row(wire: Wire, row: Tensor, combine: Combination) -> Iterator[list]:
    """All get the reduction of a row, in place."""
    bounds = [len(row) * k // wire.size for k in range(wire.size + 1)]
    parts = [row[a:b] for a, b in pairwise(bounds)]
    given: list = []

    def give(chunk: Tensor) -> None:
        given.extend(wire.send(chunk, k) for k in wire.others)

    sends = yield from reduce_parts(wire, parts, parts[wire.rank], combine, give)
    yield sends  # what others reduce is written where it was sent from
    step = max(1, CHUNK // row.element_size())
    yield given + [
        wire.receive(parts[k][a:b], k) for k in wire.others for a, b in cuts(0, len(parts[k]), step)
    ]


def reduce_scatter(
    wire: Wire, parts: list[Tensor], target: Tensor, combine: Combination
) -> Iterator[list]:
    """Each process gets the reduction of what all have for it."""
    yield (yield from reduce_parts(wire, parts, target, combine, lambda chunk: None))
