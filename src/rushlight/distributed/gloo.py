"""`ProcessGroupGloo`: a group that a program makes itself, of the processes that meet in a store. MPI carries it."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, NamedTuple

from rushlight.core.stub import stub
from rushlight.distributed import world
from rushlight.distributed.process_group import MPIProcessGroup
from rushlight.distributed.store import Store

__all__ = ["ProcessGroupGloo"]

REASON = "MPI chooses the network, and has threads of its own."


class Device(NamedTuple):
    """A network interface, by name or by address. MPI uses the one that it finds."""

    hostname: str = ""
    interface: str = ""


class _Options:
    """A timeout; the interfaces and the number of threads are MPI's business."""

    def __init__(self) -> None:
        self._timeout: Any = timedelta(minutes=30)
        self._devices: list[Device] = []
        self._threads = 2
        self.backend, self.group_name, self.global_ranks_in_group = "gloo", "", []


class ProcessGroupGloo(MPIProcessGroup):
    """The processes that make it with the same store, and different ranks."""

    _Options = Options = _Options
    Device = Device

    def __init__(
        self, store: Store, rank: int, size: int, options: Any = timedelta(minutes=30), timeout: timedelta | None = None
    ) -> None:  # fmt: skip
        limit = timeout or getattr(options, "_timeout", options)
        if not isinstance(limit, timedelta):
            limit = timedelta(seconds=limit)
        job = world.world
        if job is None or job.process != os.getpid():
            job = world.join(lambda: store, rank, size, limit)
        store.set(f"rank/{rank}", str(job.rank))
        world.store_barrier(store, "made", rank, size, limit)
        ranks = [int(store.get(f"rank/{k}")) for k in range(size)]
        job.watch(store)
        members = job.communicator.group.Incl(ranks)
        communicator = job.communicator.Create_group(members, _tag(ranks))
        super().__init__(communicator, ranks, store, limit, "gloo", "", "undefined")

    @staticmethod
    @stub("no-op", REASON)
    def create_device(hostname: str = "", interface: str = "", lazy_init: Any = None) -> Device:
        """A network interface."""
        return Device(hostname, interface)

    @staticmethod
    @stub("no-op", REASON)
    def create_default_device(lazy_init: Any = None) -> Device:
        """The network interface that is used without one."""
        return Device()


_made: dict[tuple[int, ...], int] = {}


def _tag(ranks: list[int]) -> int:
    """A tag under which these processes make a communicator: they have made as many groups of just them."""
    count = _made[tuple(ranks)] = _made.get(tuple(ranks), 0) + 1
    return count % 32767
