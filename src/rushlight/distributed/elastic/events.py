"""`torch.distributed.elastic.events`: what happens to a job, as records for loggers."""

from __future__ import annotations

import enum
import inspect
import json
import logging
import os
import socket
import traceback
from dataclasses import asdict, dataclass, field

__all__ = [
    "Event", "EventMetadataValue", "EventSource", "NodeState", "RdzvEvent", "construct_and_record_rdzv_event",
    "get_logging_handler", "record", "record_rdzv_event",
]  # fmt: skip

EventMetadataValue = str | int | float | bool | None


class EventSource(str, enum.Enum):  # noqa: UP042  # its text is that of a member, as PyTorch's
    """Who says it."""

    AGENT = "AGENT"
    WORKER = "WORKER"


class NodeState(str, enum.Enum):  # noqa: UP042  # as of EventSource
    """What a machine of a job does."""

    INIT = "INIT"
    RUNNING = "RUNNING"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"


@dataclass
class Event:
    """Something that happened, with what belongs to it."""

    name: str
    source: EventSource
    timestamp: int = 0
    metadata: dict[str, EventMetadataValue] = field(default_factory=dict)

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: str | Event) -> Event:
        """The event of a text."""
        if isinstance(data, Event):
            return data
        found = json.loads(data)
        return Event(**{**found, "source": EventSource[found["source"]]})

    def serialize(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


@dataclass
class RdzvEvent:
    """An event of a rendezvous."""

    name: str
    run_id: str
    message: str
    hostname: str
    pid: int
    node_state: NodeState
    master_endpoint: str = ""
    rank: int | None = None
    local_id: int | None = None
    error_trace: str = ""

    def __str__(self) -> str:
        return self.serialize()

    @staticmethod
    def deserialize(data: str | RdzvEvent) -> RdzvEvent:
        """The event of a text."""
        if isinstance(data, RdzvEvent):
            return data
        found = json.loads(data)
        return RdzvEvent(**{**found, "node_state": NodeState[found["node_state"]]})

    def serialize(self) -> str:
        """As JSON."""
        return json.dumps(asdict(self))


def get_logging_handler(destination: str = "null") -> logging.Handler:
    """The handler of a destination: "console", or "null", which keeps nothing."""
    return {"console": logging.StreamHandler, "null": logging.NullHandler}[destination]()


def _get_or_create_logger(destination: str = "null") -> logging.Logger:
    """The logger that writes to a destination."""
    found = logging.getLogger(f"{__name__}.{destination}")
    found.setLevel(os.environ.get("LOGLEVEL", "INFO"))
    if not found.handlers:
        found.propagate = False
        found.addHandler(get_logging_handler(destination))
    return found


def record(event: Event, destination: str = "null") -> None:
    """Give an event to the logger of a destination."""
    _get_or_create_logger(destination).info(event.serialize())


def record_rdzv_event(event: RdzvEvent) -> None:
    """Give an event to the rendezvous logger, which keeps nothing."""
    _get_or_create_logger("null").info(event.serialize())


def construct_and_record_rdzv_event(
    run_id: str, message: str, node_state: NodeState, name: str = "", hostname: str = "", pid: int | None = None,
    master_endpoint: str = "", local_id: int | None = None, rank: int | None = None,
) -> None:  # fmt: skip
    """Make an event and record it, if there is a handler that keeps it."""
    if isinstance(get_logging_handler("null"), logging.NullHandler):
        return
    if not name:  # who calls
        caller = inspect.stack()[1]
        file = os.path.splitext(os.path.basename(caller.filename))[0]
        name = f"{file}:{caller.function}"
    error = traceback.format_exc() if node_state is NodeState.FAILED else ""
    host, number = hostname or socket.getfqdn(), os.getpid() if pid is None else pid
    record_rdzv_event(
        RdzvEvent(
            name, run_id, message, host, number, node_state, master_endpoint, rank, local_id, error
        )
    )
