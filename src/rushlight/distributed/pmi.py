"""What an MPI library asks of the program that started it, answered from a store.

Note [Joining without mpiexec]
A process of an MPI job asks its starter through a socket (the descriptor `PMI_FD`) how many processes there are, puts
its address under a key, waits in a barrier, and gets the others' addresses: PMI version 1, lines of text, spoken by
MPICH and the libraries that descend from it. A thread of the process itself answers here, and keeps keys and barriers
in the store that the processes of a PyTorch program share anyway. So processes that anything started, on one machine or
several, become one MPI job, with shared memory and fast networks as under mpiexec.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta

from rushlight.distributed.store import Store

__all__ = ["LAUNCHERS", "serve"]

# What mpiexec and srun set for the processes that they start.
LAUNCHERS = ("PMI_RANK", "PMI_FD", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "MPI_LOCALRANKID")


class Endpoint:
    """Answers the MPI library of one process."""

    def __init__(
        self, connection: socket.socket, store: Store, job: str, rank: int, size: int, timeout: timedelta
    ) -> None:  # fmt: skip
        self.connection = connection
        self.store, self.job, self.rank, self.size, self.timeout = store, job, rank, size, timeout
        self.barriers = 0
        self.ending = False  # all have met for the last time: the store may be gone

    def run(self) -> None:
        """Answer until the library is done or the process ends."""
        received, command = b"", ""
        while command != "finalize" and (more := self.connection.recv(4096)):
            *lines, received = (received + more).split(b"\n")
            for line in lines:
                asked = dict(word.split("=", 1) for word in line.decode().split() if "=" in word)
                command = asked.get("cmd", "")
                self.connection.sendall(self.answer(command, asked).encode() + b"\n")

    def end(self) -> None:
        """Answer what the library asks last: when the process exits, and the interpreter is gone."""
        self.connection.sendall(b"cmd=finalize_ack rc=0\n")
        self.connection.detach()

    def answer(self, command: str, asked: dict[str, str]) -> str:
        """The line that answers a command."""
        match command:
            case "init":
                return "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0"
            case "get_maxes":
                return "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024 rc=0"
            case "get_appnum":
                return "cmd=appnum appnum=0 rc=0"
            case "get_universe_size":
                return f"cmd=universe_size size={self.size} rc=0"
            case "get_my_kvsname":
                return f"cmd=my_kvsname kvsname={self.job} rc=0"
            case "put":
                self.store.set(asked["key"], asked["value"])
                return "cmd=put_result rc=0 msg=success"
            case "get":
                if not self.store.check([asked["key"]]):
                    return "cmd=get_result rc=-1 msg=key_not_found value=unknown"
                value = self.store.get(asked["key"]).decode()
                return f"cmd=get_result rc=0 msg=success value={value}"
            case "barrier_in" if self.ending:
                return "cmd=barrier_out rc=0 msg=success"
            case "barrier_in":
                self.barriers += 1
                self.store.set(f"barrier/{self.barriers}/{self.rank}", "")
                everybody = [f"barrier/{self.barriers}/{rank}" for rank in range(self.size)]
                self.store.wait(everybody, self.timeout)
                return "cmd=barrier_out rc=0 msg=success"
            case "finalize":
                return "cmd=finalize_ack rc=0"
        return f"cmd={command} rc=-1"


@contextmanager
def serve(store: Store, job: str, rank: int, size: int, timeout: timedelta) -> Iterator[Endpoint]:
    """Within the block the environment says to an MPI library that this process is `rank` of `size`."""
    here, there = socket.socketpair()
    endpoint = Endpoint(there, store, job, rank, size, timeout)
    threading.Thread(target=endpoint.run, name="PMI", daemon=True).start()
    told = {"PMI_FD": str(here.detach()), "PMI_RANK": str(rank), "PMI_SIZE": str(size)}
    removed = (*LAUNCHERS, "PMI_PORT", "PMI_ID", "PMI_SPAWNED", *told)
    before = {name: os.environ.pop(name) for name in removed if name in os.environ}
    os.environ.update(told)
    try:
        yield endpoint
    finally:
        for name in told:
            del os.environ[name]
        os.environ.update(before)
