"""`torch.distributed.elastic.utils`: free ports, stores, what processes tell each other in a store, logging."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Callable
from datetime import timedelta
from logging import Logger, getLogger
from typing import Any

from rushlight.distributed.store import DistError, DistNetworkError
from rushlight.distributed.tcp_store import TCPStore

__all__ = [
    "barrier",
    "create_c10d_store",
    "get_all",
    "get_env_variable_or_raise",
    "get_free_port",
    "get_logger",
    "get_socket_with_port",
    "synchronize",
]

END = ".FIN"  # after a key: its process has read all others


def get_env_variable_or_raise(env_name: str) -> str:
    """A variable of the environment. ValueError without it."""
    if env_name not in os.environ:
        raise ValueError(f"Environment variable {env_name} expected, but not set")
    return os.environ[env_name]


def get_socket_with_port() -> socket.socket:
    """A socket that listens at a free port of this machine."""
    return socket.create_server(("localhost", 0), backlog=0)


def get_free_port() -> int:
    """A port of this machine that is free now."""
    with get_socket_with_port() as found:
        return found.getsockname()[1]


def create_c10d_store(
    is_server: bool, server_addr: str, server_port: int = -1, world_size: int = 1, timeout: float = 600,
    wait_for_workers: bool = True, retries: int = 3, use_libuv: bool | None = None,
) -> TCPStore:  # fmt: skip
    """A `TCPStore`; the port -1 takes a free one. TimeoutError if nobody is there in time."""
    if server_port == -1 and world_size > 1:
        raise ValueError(
            f"server_port must be specified when world_size > 1, got server_port={server_port}, world_size={world_size}"
        )
    port, limit = max(server_port, 0), timedelta(seconds=timeout)
    try:
        return TCPStore(
            server_addr, port, world_size, is_server, limit, wait_for_workers=wait_for_workers
        )
    except DistError as error:
        if is_server and isinstance(error, DistNetworkError):
            raise
        raise TimeoutError(f"no store at {server_addr}:{port} in {timeout} s: {error}") from error


def get_all(store: Any, rank: int, prefix: str, world_size: int) -> list[bytes]:
    """What all processes have put at `prefix` and their rank. The first one returns last, as it may serve the store."""
    found = [store.get(f"{prefix}{each}") for each in range(world_size)]
    store.set(f"{prefix}{rank}{END}", b"FIN")
    if rank == 0:
        for each in range(world_size):
            store.get(f"{prefix}{each}{END}")
    return found


def synchronize(
    store: Any, data: bytes, rank: int, world_size: int, key_prefix: str, timeout: float = 300
) -> list[bytes]:
    """What all processes gave."""
    before = store.timeout
    store.set_timeout(timedelta(seconds=timeout))
    try:
        store.set(f"{key_prefix}{rank}", data)
        return get_all(store, rank, key_prefix, world_size)
    finally:
        store.set_timeout(before)


def barrier(
    store: Any, world_size: int, key_prefix: str, barrier_timeout: float = 300, rank: int | None = None,
    rank_tracing_decoder: Callable[[int], str] | None = None, trace_timeout: float = 10,
) -> None:  # fmt: skip
    """All come to it before any leaves it."""
    last = f"{key_prefix}/last_member"
    if store.add(f"{key_prefix}/num_members", 1) == world_size:
        store.set(last, "<val_ignored>")
    before = store.timeout
    store.set_timeout(timedelta(seconds=barrier_timeout))
    try:
        store.get(last)
    finally:
        store.set_timeout(before)


def _derive_module_name(depth: int = 1) -> str | None:
    """The module that is so many calls back."""
    return sys._getframe(depth).f_globals.get("__name__")


def get_logger(name: str | None = None) -> Logger:
    """The logger of a name, or of the module that asks; the environment's LOGLEVEL says what it shows."""
    made = getLogger(name or _derive_module_name(depth=2))
    made.setLevel(os.environ.get("LOGLEVEL", "WARNING"))
    return made
