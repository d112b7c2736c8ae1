"""The MPI job that this process belongs to: how it is joined, and how it is left.

Note [Nothing waits inside of MPI]
MPI's own waiting is a loop that takes all of a processor. So only calls that start something or ask whether it is done
are used; who waits asks again and again, after a while with pauses (work.py). That also gives timeouts, which MPI lacks.
Where MPI has no such call (making a communicator), the members meet in the store first.
"""

from __future__ import annotations

import atexit
import ctypes
import glob
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rushlight.distributed import pmi, processes
from rushlight.distributed.store import (
    DistBackendError,
    DistStoreError,
    FileStore,
    PrefixStore,
    Store,
)
from rushlight.distributed.tcp_store import FOLLOWERS, GONE, TCPStore

__all__ = ["World", "is_installed", "join", "launched"]

EXTRA = "pip install 'rushlight[distributed]'"
LEAVING = 10.0  # seconds that a process waits for the others when it ends
TOLD = 1.0  # seconds that a process that ends by an error gives who else must read what is wrong
_THREADS = 3  # MPI_THREAD_MULTIPLE

world: World | None = None  # a process belongs to one job, and joins it once


class World:
    """The processes of a job, and MPI's communicator of all."""

    def __init__(self, mpi: Any, library: Any, endpoint: pmi.Endpoint | None) -> None:
        self.mpi, self.library, self.endpoint = mpi, library, endpoint
        self.launched = endpoint is None
        self.communicator = mpi.COMM_WORLD
        self.communicator.Set_errhandler(mpi.ERRORS_RETURN)
        mpi.COMM_SELF.Set_errhandler(mpi.ERRORS_RETURN)
        self.rank, self.size = self.communicator.rank, self.communicator.size
        self.tags = self.communicator.Get_attr(mpi.TAG_UB)  # the largest one
        self.process = os.getpid()
        self.failed = False  # something did not come to its end: leave without waiting for anybody
        self.heard: int | None = None  # a process that is gone: this one ends because of it
        self.stores: list[TCPStore] = []
        self.files: list[Store] = []  # those whose last store is a file
        atexit.register(self.leave)

    def watch(self, store: Store) -> None:
        """Register this process in the store, so that the others see when it dies."""
        below = getattr(store, "_underlying_non_prefix_store", store)
        if isinstance(below, TCPStore) and below not in self.stores:
            below._call("hello", str(self.rank))
            self.stores.append(below)
        elif isinstance(below, FileStore):
            store.set(f"process/{self.rank}", processes.sign())
            self.files.append(store)

    def gone(self, store: Store) -> dict[int, int]:
        """The ranks of processes that have ended too early, each with the rank of the one that died first."""
        below = getattr(store, "_underlying_non_prefix_store", store)
        pairs = iter((below._call("get", FOLLOWERS) or b"").split())
        found = {int(rank): int(cause) for rank, cause in zip(pairs, pairs)}
        found.update((rank, rank) for rank in map(int, (below._call("get", GONE) or b"").split()))
        for file in self.files[-1:] if isinstance(below, FileStore) else ():
            for rank in range(self.size):  # no server sees that a process ends
                sign = file._call("get", f"process/{rank}")
                if sign is not None and processes.ended(sign.decode()):
                    found[rank] = rank
        return found

    def leave(self) -> None:
        """End MPI together with the others, if nothing went wrong and they end, too."""
        if os.getpid() != self.process:
            return  # a forked child
        failed = self.failed or getattr(sys, "last_value", None) is not None
        for store in self.stores if self.heard is not None else ():
            self._part_from(store, f"{self.rank} {self.heard} ")
        for file in self.files:
            below = getattr(file, "_underlying_non_prefix_store", file)
            try:
                if self.heard is not None:
                    below.append(FOLLOWERS, f"{self.rank} {self.heard} ")
                elif failed:
                    below.append(GONE, f"{self.rank} ")
                file.delete_key(f"process/{self.rank}")
            except OSError:
                pass  # somebody has removed its folder
        if failed and self.launched:
            sys.stdout.flush()
            sys.stderr.flush()
            time.sleep(
                TOLD
            )  # what mpiexec has not yet read of the error when it hears of the end is lost
            self.communicator.Abort(1)  # mpiexec ends the others
        if failed:
            if any(store._server for store in self.stores):
                time.sleep(TOLD)
            return
        for store in self.stores:
            self._part_from(store)
        limit = timedelta.max if self.launched else timedelta(seconds=LEAVING)
        if settle(self.communicator.Ibarrier(), limit):
            if self.endpoint is not None:
                self.endpoint.ending = True
            self.library.MPI_Finalize()  # by mpi4py, the interpreter could not answer meanwhile
            if self.endpoint is not None:
                self.endpoint.end()

    @staticmethod
    def _part_from(store: TCPStore, follows: str = "") -> None:
        """Tell a server that this process has not died, or whom it follows."""
        try:
            store.set_timeout(timedelta(seconds=LEAVING))
            if follows:
                store.append(FOLLOWERS, follows)
            store._call("bye")
        except RuntimeError:
            pass  # who served it has ended


def settle(request: Any, timeout: timedelta) -> bool:
    """Wait with pauses until MPI has carried something out; False if that takes longer than the timeout."""
    end, pause = time.monotonic() + timeout.total_seconds(), 0.0002
    while not request.Test():
        if time.monotonic() > end:
            return False
        time.sleep(pause)
        pause = min(2 * pause, 0.01)
    return True


def is_installed() -> bool:
    """Whether mpi4py and an MPI library are there."""
    try:
        _import()
    except (ImportError, RuntimeError, DistBackendError):
        return False
    return True


def _import() -> Any:
    try:
        import mpi4py

        mpi4py.rc.initialize = mpi4py.rc.finalize = False
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:
        raise DistBackendError(
            "Distributed package doesn't have MPI built in: torch.distributed needs mpi4py and an MPI library, "
            f"which are an extra of Rushlight: {EXTRA} ({error})"
        ) from error
    return MPI


def launched() -> bool:
    """Whether mpiexec or srun started this process."""
    return any(name in os.environ for name in pmi.LAUNCHERS)


def join(open_store: Callable[[], Store] | None, rank: int, size: int, timeout: timedelta) -> World:
    """The job of `size` processes that share a store, or the one that mpiexec started (`open_store` None)."""
    global world
    if world is not None and world.process == os.getpid():
        if open_store is not None and (rank, size) != (world.rank, world.size):
            raise DistBackendError(
                f"this process is rank {world.rank} of {world.size} since it joined MPI, and cannot become rank "
                f"{rank} of {size}: start a new process"
            )
        return world
    if world is not None:
        raise DistBackendError(
            "a process that was forked after init_process_group cannot use MPI: start processes by 'spawn'"
        )
    mpi = _import()
    library = ctypes.CDLL(mpi.__file__)  # by ctypes, since mpi4py keeps the interpreter for itself
    endpoint = None
    if not mpi.Is_initialized():
        if open_store is None:
            _start(library)
        else:
            endpoint = _start_in_store(mpi, library, open_store(), rank, size, timeout)
    elif open_store is not None and mpi.COMM_WORLD.size != size:
        raise DistBackendError(
            f"MPI was started before init_process_group, as a job of {mpi.COMM_WORLD.size}; {size} were asked for"
        )
    world = World(mpi, library, endpoint)
    if settle(world.communicator.Ibarrier(), timeout):
        for (
            path
        ) in _mapped_files():  # without names nothing of them is left, whatever ends the processes
            try:
                os.unlink(path)
            except OSError:
                pass  # another process of this machine was quicker
    return world


def _start(library: Any) -> None:
    provided = ctypes.c_int()
    if status := library.MPI_Init_thread(None, None, _THREADS, ctypes.byref(provided)):
        raise DistBackendError(f"MPI did not start: error {status}")
    if provided.value != _THREADS:
        raise DistBackendError("this MPI library was built without MPI_THREAD_MULTIPLE")


def _start_in_store(
    mpi: Any, library: Any, store: Store, rank: int, size: int, timeout: timedelta
) -> pmi.Endpoint:
    name = mpi.Get_library_version()
    if "Open MPI" in name:
        raise DistBackendError(
            "Open MPI joins only processes that its own mpiexec started: use `mpiexec -n 2 python script.py`, or an "
            "MPI library that descends from MPICH (pip install mpich)"
        )
    if rank == 0:
        store.set("job", f"rushlight_{os.getpid()}_{time.time_ns()}")
    store_barrier(store, "joined", rank, size, timeout)
    job = store.get("job").decode()
    with pmi.serve(PrefixStore("pmi", store), job, rank, size, timeout) as endpoint:
        _start(library)
    return endpoint


def store_barrier(store: Store, name: str, rank: int, size: int, timeout: timedelta) -> None:
    """Wait in the store until all have come. DistStoreError with the ranks that have not.

    The first one whose time is over tells the others, since the store may end with it.
    """
    keys, late = [f"{name}/{each}" for each in range(size)], f"{name}/late"
    store.set(keys[rank], "")
    found = b""
    try:
        found = store._until(
            lambda: store._call("get", late) or store._call("check", *keys), keys, timeout
        )
    except DistStoreError:
        missing = [each for each, key in enumerate(keys) if not store.check([key])]
        found = (
            f"Timed out after {round(timeout.total_seconds())} seconds waiting for clients. "
            f"{size - len(missing)}/{size} clients joined; missing are the ranks {missing}."
        ).encode()
        store.set(late, found)
        below = getattr(store, "_underlying_non_prefix_store", store)
        if isinstance(below, TCPStore) and below._server:
            time.sleep(TOLD)
    if found != b"1":
        raise DistStoreError(found.decode())


def _mapped_files() -> set[str]:
    """The files in memory that MPICH maps."""
    if not glob.glob("/proc/self/maps"):
        return set()
    with open("/proc/self/maps", encoding="utf-8", errors="replace") as maps:
        found = (line.split()[-1] for line in maps if "/dev/shm/mpich_" in line)
        return {path for path in found if path.startswith("/dev/shm/mpich_")}
