"""How processes find each other: `env://`, `tcp://` and `file://` become a store, a rank and a number of processes."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from urllib.parse import parse_qs, urlparse

from rushlight.distributed.store import DistNetworkError, FileStore, Store
from rushlight.distributed.tcp_store import TCPStore

__all__ = ["register_rendezvous_handler", "rendezvous"]

_TIMEOUT = timedelta(minutes=30)


def _needed(scheme: str, what: str) -> ValueError:
    return ValueError(f"Error initializing torch.distributed using {scheme}:// rendezvous: {what}")


def _numbers(scheme: str, url: Any, rank: int, world_size: int) -> tuple[int, int]:
    query = {name: int(values[0]) for name, values in parse_qs(url.query).items()}
    rank = query.get("rank", rank)
    world_size = query.get("world_size", world_size)
    if rank < 0:
        raise _needed(scheme, "rank parameter missing")
    if world_size < 0:
        raise _needed(scheme, "world size parameter missing")
    return rank, world_size


def _by_environment(url: str, rank: int, world_size: int, timeout: timedelta) -> tuple:
    def value(name: str) -> str:
        if not (found := os.environ.get(name) or _by_slurm(name)):
            raise _needed("env", f"environment variable {name} expected, but not set")
        return found

    query = parse_qs(urlparse(url).query)
    rank = int(query["rank"][0]) if "rank" in query else rank
    rank = int(value("RANK")) if rank < 0 else rank
    world_size = int(query["world_size"][0]) if "world_size" in query else world_size
    world_size = int(value("WORLD_SIZE")) if world_size < 0 else world_size
    host, port = value("MASTER_ADDR"), int(value("MASTER_PORT"))
    return _tcp_store(host, port, rank, world_size, timeout), rank, world_size


def _by_slurm(name: str) -> str:
    """What a variable would be, in a process that srun started; empty in others."""
    given = os.environ
    if "SLURM_STEP_ID" not in given:
        return ""
    if name == "MASTER_PORT":
        return str(20000 + int(given["SLURM_JOB_ID"]) % 20000)
    if name == "MASTER_ADDR":  # the first of "a[01-03,7],b"
        first = re.match(r"([^,\[]+)(?:\[(\w+))?", given["SLURM_STEP_NODELIST"])
        return "".join(part or "" for part in first.groups()) if first else ""
    return given[{"RANK": "SLURM_PROCID", "WORLD_SIZE": "SLURM_NTASKS"}[name]]


def _tcp_store(host: str, port: int, rank: int, world_size: int, timeout: timedelta) -> Store:
    """The store at an address, which rank 0 serves unless the program that started the job does."""
    served = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    try:
        store = TCPStore(
            host, port, world_size, is_master=rank == 0 and not served, timeout=timeout, multi_tenant=True,
            wait_for_workers=False,
        )  # fmt: skip
        store._keep()
        return store
    except DistNetworkError as error:
        if rank == 0 or served:
            raise
        raise DistNetworkError(
            f"{error} It is rank 0 that listens there, and it has not come."
        ) from error


def _by_tcp(url: str, rank: int, world_size: int, timeout: timedelta) -> tuple:
    parsed = urlparse(url)
    if parsed.port is None:
        raise _needed("tcp", "port number missing")
    rank, world_size = _numbers("tcp", parsed, rank, world_size)
    return (
        _tcp_store(parsed.hostname or "", parsed.port, rank, world_size, timeout),
        rank,
        world_size,
    )


def _by_file(url: str, rank: int, world_size: int, timeout: timedelta) -> tuple:
    parsed = urlparse(url)
    if not parsed.path:
        raise _needed("file", "path missing")
    rank, world_size = _numbers("file", parsed, rank, world_size)
    store = FileStore(parsed.path, world_size)
    store.set_timeout(timeout)
    return store, rank, world_size


_handlers: dict[str, Callable] = {"env": _by_environment, "tcp": _by_tcp, "file": _by_file}


def register_rendezvous_handler(scheme: str, handler: Callable) -> None:
    """Let `handler(url)` yield (store, rank, world_size) for addresses of a scheme of your own."""
    if scheme in _handlers:
        raise RuntimeError(f"Rendezvous handler for {scheme}:// already registered")
    _handlers[scheme] = lambda url, rank, world_size, timeout: next(handler(url, timeout=timeout))


def rendezvous(
    url: str, rank: int = -1, world_size: int = -1, timeout: timedelta = _TIMEOUT, **kwargs: Any
) -> Iterator[tuple[Store, int, int]]:
    """Gives an iterator that yields the store, the rank and the number of processes for an address."""
    if not isinstance(url, str):
        raise RuntimeError(f"`url` must be a string. {type(url)}: {url}")
    parsed = urlparse(url)
    if parsed.scheme not in _handlers:
        raise RuntimeError(f"No rendezvous handler for {parsed.scheme}://")
    if (rank >= 0 or world_size >= 0) and {"rank", "world_size"} & parse_qs(parsed.query).keys():
        raise AssertionError(
            f"The url: {url} has node-specific arguments (rank, world_size) already"
        )
    return (_handlers[parsed.scheme](url, rank, world_size, timeout) for _ in range(1))
