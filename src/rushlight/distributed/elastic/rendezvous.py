"""`torch.distributed.elastic.rendezvous`: how the machines of a job meet, as handlers that a program may add to.

With the handler "static" each machine says its number, with "c10d" machines agree on numbers while they meet
(dynamic_rendezvous.py). Those of etcd are not there.
"""

from __future__ import annotations

import abc
import socket
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from rushlight.distributed.elastic.endpoints import parse_rendezvous_endpoint
from rushlight.distributed.elastic.utils import get_free_port
from rushlight.distributed.store import PrefixStore, Store
from rushlight.distributed.tcp_store import TCPStore

__all__ = [
    "RendezvousClosedError", "RendezvousConnectionError", "RendezvousError", "RendezvousGracefulExitError",
    "RendezvousHandler", "RendezvousHandlerCreator", "RendezvousHandlerRegistry", "RendezvousInfo", "RendezvousParameters",
    "RendezvousStateError", "RendezvousStoreInfo", "RendezvousTimeoutError", "StaticTCPRendezvous", "create_rdzv_handler",
    "get_rendezvous_handler", "parse_rendezvous_endpoint", "rendezvous_handler_registry",
]  # fmt: skip

LIMIT = 600  # seconds that machines wait for each other


class RendezvousError(Exception):
    """The rendezvous failed."""


class RendezvousClosedError(RendezvousError):
    """The rendezvous of this job is closed."""


class RendezvousTimeoutError(RendezvousError):
    """Not enough machines joined before the timeout."""


class RendezvousConnectionError(RendezvousError):
    """The store of a rendezvous cannot be reached."""


class RendezvousStateError(RendezvousError):
    """What machines know of each other is broken."""


class RendezvousGracefulExitError(RendezvousError):
    """This machine is not among those of the job, and ends well."""


@dataclass
class RendezvousStoreInfo:
    """Where the store of a job is served."""

    MASTER_ADDR_KEY = "MASTER_ADDR"
    MASTER_PORT_KEY = "MASTER_PORT"
    master_addr: str
    master_port: int

    @staticmethod
    def build(
        rank: int, store: Store, local_addr: str | None, server_port: int | None = None
    ) -> RendezvousStoreInfo:
        """What machine 0 says, in a store, of its address and a port."""
        here = RendezvousStoreInfo
        if rank == 0:
            port = get_free_port() if server_port is None else server_port
            store.set(here.MASTER_ADDR_KEY, local_addr or socket.getfqdn())
            store.set(here.MASTER_PORT_KEY, str(port))
        address, port_text = store.get(here.MASTER_ADDR_KEY), store.get(here.MASTER_PORT_KEY)
        return here(address.decode(), int(port_text))


class RendezvousInfo:
    """What machines have agreed on: a store, the number of this one, and how many there are."""

    def __init__(
        self, store: Store, rank: int, world_size: int, bootstrap_store_info: RendezvousStoreInfo
    ) -> None:
        self._store, self._rank, self._world_size = store, rank, world_size
        self._bootstrap_store_info = bootstrap_store_info

    @property
    def store(self) -> Store:
        """The store that they share."""
        return self._store

    @property
    def rank(self) -> int:
        """The number of this machine."""
        return self._rank

    @property
    def world_size(self) -> int:
        """How many machines there are."""
        return self._world_size

    @property
    def bootstrap_store_info(self) -> RendezvousStoreInfo | None:
        """Where the store of the job is served."""
        return self._bootstrap_store_info


class RendezvousHandler(abc.ABC):
    """How machines agree on their ranks and find each other: a rendezvous."""

    @abc.abstractmethod
    def get_backend(self) -> str:
        """Its name."""

    @property
    def use_agent_store(self) -> bool:
        """Whether processes of the job use the store of the machines."""
        return False

    @abc.abstractmethod
    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the others, and agree with them."""

    @abc.abstractmethod
    def is_closed(self) -> bool:
        """Whether the rendezvous is closed."""

    @abc.abstractmethod
    def set_closed(self) -> None:
        """Close the rendezvous: no machine can join any more."""

    @abc.abstractmethod
    def num_nodes_waiting(self) -> int:
        """How many machines joined late and wait for the next rendezvous."""

    @abc.abstractmethod
    def get_run_id(self) -> str:
        """The name of the job."""

    @abc.abstractmethod
    def shutdown(self) -> bool:
        """Close all that it has open; whether that went well."""


class RendezvousParameters:
    """What a handler is made of: its name, an address, the job's name, the number of machines, and settings of its own."""

    def __init__(
        self, backend: str, endpoint: str, run_id: str, min_nodes: int, max_nodes: int, local_addr: str | None = None,
        **kwargs: Any,
    ) -> None:  # fmt: skip
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        if min_nodes < 1:
            raise ValueError(
                f"The minimum number of rendezvous nodes ({min_nodes}) must be greater than zero."
            )
        if max_nodes < min_nodes:
            raise ValueError(
                f"The maximum number of rendezvous nodes ({max_nodes}) must be greater than or equal to the minimum "
                f"number of rendezvous nodes ({min_nodes})."
            )
        self.backend, self.endpoint, self.run_id = backend, endpoint, run_id
        self.min_nodes, self.max_nodes, self.local_addr = min_nodes, max_nodes, local_addr
        self.config = kwargs

    def get(self, key: str, default: Any = None) -> Any:
        """A setting."""
        return self.config.get(key, default)

    def get_as_bool(self, key: str, default: bool | None = None) -> bool | None:
        """A setting that is yes or no.

        >>> from rushlight.distributed.elastic.rendezvous import RendezvousParameters
        >>> RendezvousParameters("static", "host:1", "job", 1, 1, quick="Yes").get_as_bool("quick")
        True
        """
        if (value := self.get(key, default)) is None or isinstance(value, bool):
            return value
        text = value.lower() if isinstance(value, str) else value
        if text in (1, "1", "true", "t", "yes", "y"):
            return True
        if text in (0, "0", "false", "f", "no", "n"):
            return False
        raise _invalid(key, "boolean")

    def get_as_int(self, key: str, default: int | None = None) -> int | None:
        """A setting that is a number."""
        if (value := self.get(key, default)) is None:
            return value
        try:
            return int(value)
        except ValueError:
            raise _invalid(key, "integer") from None


def _invalid(key: str, kind: str) -> ValueError:
    return ValueError(
        f"The rendezvous configuration option '{key}' does not represent a valid {kind} value."
    )


RendezvousHandlerCreator = Callable[[RendezvousParameters], RendezvousHandler]


class RendezvousHandlerRegistry:
    """Functions that make handlers, by name."""

    def __init__(self) -> None:
        self._registry: dict[str, RendezvousHandlerCreator] = {}

    def register(self, backend: str, creator: RendezvousHandlerCreator) -> None:
        """Let a function make the handlers of a name."""
        if not backend:
            raise ValueError("The rendezvous backend name must be a non-empty string.")
        before = self._registry.setdefault(backend, creator)
        if before != creator:
            raise ValueError(
                f"The rendezvous backend '{backend}' cannot be registered with '{creator}' as it is already registered "
                f"with '{before}'."
            )

    def create_handler(self, params: RendezvousParameters) -> RendezvousHandler:
        """A handler of the name in `params`."""
        if params.backend not in self._registry:
            raise ValueError(
                f"The rendezvous backend '{params.backend}' is not registered. Did you forget to call `register`?"
            )
        made = self._registry[params.backend](params)
        if made.get_backend() != params.backend:
            raise RuntimeError(
                f"The rendezvous backend '{made.get_backend()}' does not match the requested backend '{params.backend}'."
            )
        return made


class StaticTCPRendezvous(RendezvousHandler):
    """Machines that know their numbers meet at an address, where machine 0 serves a store."""

    def __init__(
        self, master_addr: str, master_port: int, rank: int, world_size: int, run_id: str, timeout: int
    ) -> None:  # fmt: skip
        self.master_addr, self.master_port, self.rank = master_addr, master_port, rank
        self.world_size, self.run_id, self.timeout = world_size, run_id, timedelta(seconds=timeout)
        self._store: Store | None = None
        self._served: Store | None = None  # by machine 0, for processes that start again
        self._round = 0

    def get_backend(self) -> str:
        """`static`."""
        return "static"

    @property
    def use_agent_store(self) -> bool:
        """True."""
        return True

    def next_rendezvous(self) -> RendezvousInfo:
        """Run a rendezvous. The first time processes have the store at the given address, later a new one: who died left something there."""
        if self._store is None:
            self._store = TCPStore(
                self.master_addr, self.master_port, self.world_size, self.rank == 0, self.timeout, multi_tenant=True
            )  # fmt: skip
            store = PrefixStore(self.run_id, self._store)
            where = RendezvousStoreInfo(self.master_addr, self.master_port)
        else:
            self._round += 1
            store = PrefixStore(f"{self.run_id}/round_{self._round}", self._store)
            port = None
            if self.rank == 0:
                self._served = TCPStore(self.master_addr, 0, is_master=True, wait_for_workers=False)
                port = self._served.port
            where = RendezvousStoreInfo.build(self.rank, store, self.master_addr, port)
        return RendezvousInfo(store, self.rank, self.world_size, where)

    def is_closed(self) -> bool:
        """False."""
        return False

    def set_closed(self) -> None:
        """Does nothing: there is no limit to the number of rendezvous."""

    def num_nodes_waiting(self) -> int:
        """0."""
        return 0

    def get_run_id(self) -> str:
        """The name of the job."""
        return self.run_id

    def shutdown(self) -> bool:
        """True: there is nothing to close but the store, which may be in use."""
        return True


def create_rdzv_handler(params: RendezvousParameters) -> RendezvousHandler:
    """The handler `static`: `params` has `rank`, and perhaps `timeout` in seconds."""
    if "rank" not in params.config:
        raise ValueError(
            "rank is absent in RendezvousParameters.Try add --node-rank to the cmd request"
        )
    if not params.endpoint.strip():
        raise ValueError("endpoint is absent in RendezvousParameters")
    host, port = parse_rendezvous_endpoint(params.endpoint, -1)
    if port == -1:
        raise ValueError(f"port is absent in the endpoint {params.endpoint!r}")
    rank, limit = params.get_as_int("rank"), params.get_as_int("timeout", LIMIT)
    assert rank is not None and limit is not None
    return StaticTCPRendezvous(host, port, rank, params.max_nodes, params.run_id, limit)


def _create_c10d_handler(params: RendezvousParameters) -> RendezvousHandler:
    from rushlight.distributed.elastic import c10d_rendezvous, dynamic_rendezvous

    backend, store = c10d_rendezvous.create_backend(params)
    return dynamic_rendezvous.create_handler(store, backend, params)


rendezvous_handler_registry = RendezvousHandlerRegistry()
rendezvous_handler_registry.register("static", create_rdzv_handler)
rendezvous_handler_registry.register("c10d", _create_c10d_handler)


def get_rendezvous_handler(params: RendezvousParameters) -> RendezvousHandler:
    """A handler of the name in `params`."""
    return rendezvous_handler_registry.create_handler(params)
