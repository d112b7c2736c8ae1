"""The processes of a machine as its agent sees them: what they run, their numbers, and what became of them."""

from __future__ import annotations

import enum
import json
import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.distributed.elastic.errors import ProcessFailure
from rushlight.distributed.elastic.rendezvous import RendezvousHandler
from rushlight.distributed.store import Store

__all__ = ["RunResult", "Worker", "WorkerGroup", "WorkerSpec", "WorkerState"]


@dataclass
class WorkerSpec:
    """What the processes of a machine run, how many they are, their rendezvous, and how often they start again."""

    role: str
    local_world_size: int
    rdzv_handler: RendezvousHandler
    fn: Callable | None = None
    entrypoint: Callable | str | None = None
    args: tuple = ()
    max_restarts: int = 3
    monitor_interval: float = 0.1
    master_port: int | None = None
    master_addr: str | None = None
    local_addr: str | None = None
    event_log_handler: str = "null"
    numa_options: Any = None
    duplicate_stdout_filters: list[str] | None = None
    duplicate_stderr_filters: list[str] | None = None
    virtual_local_rank: bool = False

    def __post_init__(self) -> None:
        if self.local_world_size <= 0 or self.monitor_interval <= 0:
            raise AssertionError("local_world_size and monitor_interval are more than 0")
        if self.fn:
            text = "WorkerSpec.fn will be deprecated, please use WorkerSpec.entrypoint instead"
            warnings.warn(text, DeprecationWarning, stacklevel=3)
            self.entrypoint = self.fn
        if not self.entrypoint:
            raise AssertionError("a WorkerSpec needs an entrypoint")

    def get_entrypoint_name(self) -> str:
        """The name of the function or the program."""
        if isinstance(self.entrypoint, str):
            return os.path.basename(self.entrypoint)
        assert self.entrypoint is not None
        return self.entrypoint.__qualname__


class Worker:
    """A process: its number on this machine (`local_rank`), among all (`global_rank`), and among those of its role."""

    __slots__ = ["global_rank", "id", "local_rank", "role_rank", "role_world_size", "world_size"]

    def __init__(
        self, local_rank: int, global_rank: int = -1, role_rank: int = -1, world_size: int = -1, role_world_size: int = -1
    ) -> None:  # fmt: skip
        self.id: Any = None  # its process number, once it is started
        self.local_rank, self.global_rank, self.role_rank = local_rank, global_rank, role_rank
        self.world_size, self.role_world_size = world_size, role_world_size

    def __repr__(self) -> str:
        names = ("local_rank", "global_rank", "role_rank", "world_size", "role_world_size")
        return ",".join(f"{name}={getattr(self, name)}" for name in names)


class WorkerState(str, enum.Enum):  # noqa: UP042  # its text is that of a member, as PyTorch's
    """What the processes of a machine do, all of them together."""

    UNKNOWN = "UNKNOWN"
    INIT = "INIT"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    STOPPED = "STOPPED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"

    @staticmethod
    def is_running(state: WorkerState) -> bool:
        """Whether there are processes in this state.

        >>> from rushlight.distributed.elastic.agent.workers import WorkerState
        >>> WorkerState.is_running(WorkerState.HEALTHY), WorkerState.is_running(WorkerState.FAILED)
        (True, False)
        """
        return state in (WorkerState.HEALTHY, WorkerState.UNHEALTHY)


class WorkerGroup:
    """The processes of a machine; after the rendezvous, `group_rank` is its number among them."""

    def __init__(self, spec: WorkerSpec) -> None:
        self.spec = spec
        self.workers = [Worker(local) for local in range(spec.local_world_size)]
        self.store: Store | None = None
        self.group_rank: int | None = None
        self.group_world_size: int | None = None
        self.master_addr: str | None = None
        self.master_port: int | None = None
        self.state = WorkerState.INIT


@dataclass
class RunResult:
    """What became of the processes: what functions returned, or failures, by their numbers among all."""

    state: WorkerState
    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether they failed."""
        return self.state == WorkerState.FAILED


class _RoleInstanceInfo:
    """What a machine sends to the others: the role of its processes, its number, how many they are."""

    def __init__(self, role: str, rank: int, local_world_size: int) -> None:
        self.role, self.rank, self.local_world_size = role, rank, local_world_size

    def serialize(self) -> bytes:
        """As JSON."""
        return json.dumps(vars(self)).encode()

    @staticmethod
    def deserialize(data: bytes) -> _RoleInstanceInfo:
        """The object that a JSON text describes."""
        return _RoleInstanceInfo(**json.loads(data))

    @staticmethod
    def compare(obj1: _RoleInstanceInfo, obj2: _RoleInstanceInfo) -> int:
        """-1, 0 or 1: by role, then by number."""
        first, second = (obj1.role, obj1.rank), (obj2.role, obj2.rank)
        return (first > second) - (first < second)

    @staticmethod
    def find_role_boundaries(roles_infos: list[_RoleInstanceInfo], role: str) -> tuple[int, int]:
        """The first and the last place of a role, (-1, -1) if nobody has it."""
        places = [k for k, info in enumerate(roles_infos) if info.role == role]
        return (places[0], places[-1]) if places else (-1, -1)
