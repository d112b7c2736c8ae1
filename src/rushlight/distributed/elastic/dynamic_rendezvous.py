"""`torch.distributed.elastic.rendezvous.dynamic_rendezvous`: machines that agree on numbers while they meet.

All read and write one state, each time in the place of the version that they have read: who is late reads again. What a machine does
next follows from the state alone (the `Op` classes); what it does changes the state (`_DistributedRendezvousOpExecutor`). Machines that
do not write for some time are taken for dead.
"""

from __future__ import annotations

import abc
import enum
import io
import itertools
import logging
import os
import pickle
import socket
import threading
import time
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from rushlight.distributed.elastic.endpoints import _delay, _PeriodicTimer
from rushlight.distributed.elastic.rendezvous import (
    RendezvousClosedError,
    RendezvousError,
    RendezvousGracefulExitError,
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    RendezvousStateError,
    RendezvousStoreInfo,
    RendezvousTimeoutError,
)
from rushlight.distributed.store import PrefixStore, Store
from rushlight.distributed.tcp_store import TCPStore

__all__ = [
    "DynamicRendezvousHandler", "RendezvousBackend", "RendezvousSettings", "RendezvousTimeout", "create_handler",
]  # fmt: skip

Token = Any  # the version of a state
ROLLBACK = 5  # seconds after its limit in which a machine still takes itself off the state
logger = logging.getLogger(__name__)


class RendezvousBackend(abc.ABC):
    """Where the state of a rendezvous is kept."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Its name."""

    @abc.abstractmethod
    def get_state(self) -> tuple[bytes, Token] | None:
        """The state and its version, None for no state yet."""

    @abc.abstractmethod
    def set_state(
        self, state: bytes, token: Token | None = None
    ) -> tuple[bytes, Token, bool] | None:
        """Write a state if `token` is the version that is there; the state and version of now, and whether it was written."""


class RendezvousTimeout:
    """Timeouts of a rendezvous: `join` until it is complete, `last_call` after the least number of machines has joined, `close`
    to close it, `heartbeat` of a machine."""

    def __init__(
        self, join: timedelta | None = None, last_call: timedelta | None = None, close: timedelta | None = None,
        heartbeat: timedelta | None = None,
    ) -> None:  # fmt: skip
        given = {"join": (join, 600), "last_call": (last_call, 30), "close": (close, 30), "heartbeat": (heartbeat, 5)}  # fmt: skip
        self._limits = {}
        for name, (limit, seconds) in given.items():
            if limit is not None and limit <= timedelta(0):
                raise ValueError(f"The {name} timeout ({limit}) must be positive.")
            self._limits[name] = timedelta(seconds=seconds) if limit is None else limit

    @property
    def join(self) -> timedelta:
        """The time in which enough machines must join."""
        return self._limits["join"]

    @property
    def last_call(self) -> timedelta:
        """How long more machines may join after the least number."""
        return self._limits["last_call"]

    @property
    def close(self) -> timedelta:
        """The time to close a rendezvous."""
        return self._limits["close"]

    @property
    def heartbeat(self) -> timedelta:
        """The timeout of a heartbeat."""
        return self._limits["heartbeat"]


@dataclass(repr=False, eq=False, frozen=True)
class RendezvousSettings:
    """The name of a job, the number of machines, and when a machine without heartbeats counts as dead."""

    run_id: str
    min_nodes: int
    max_nodes: int
    timeout: RendezvousTimeout
    keep_alive_interval: timedelta
    keep_alive_max_attempt: int


class _NodeDesc(NamedTuple):
    """A machine: its address, the process, and a number within that."""

    addr: str
    pid: int
    local_id: int

    def __repr__(self) -> str:
        return f"{self.addr}_{self.pid}_{self.local_id}"


class _NodeDescGenerator:
    """Makes descriptions of this machine, each with another number."""

    def __init__(self) -> None:
        self._numbers = itertools.count()

    def generate(self, local_addr: str | None = None) -> _NodeDesc:
        """The next one."""
        return _NodeDesc(local_addr or socket.getfqdn(), os.getpid(), next(self._numbers))


class _RendezvousState:
    """What machines know of each other.

    Those of this round, with their numbers once it is complete (`participants`); those that wait for the next one (`wait_list`);
    those that are too many (`redundancy_list`); and when each has said that it lives.
    """

    def __init__(self) -> None:
        self.round = 0
        self.complete = self.closed = False
        self.deadline: datetime | None = None  # when the round is complete with those who came
        self.participants: dict[_NodeDesc, int] = {}
        self.wait_list: set[_NodeDesc] = set()
        self.redundancy_list: set[_NodeDesc] = set()
        self.last_heartbeats: dict[_NodeDesc, datetime] = {}


class _StateReader(pickle.Unpickler):
    """Reads a state that others have written: its classes and those of dates, and nothing else of Python."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "datetime" and name in ("datetime", "timedelta", "timezone"):
            return super().find_class(module, name)
        for known in (_RendezvousState, _NodeDesc):
            if (module, name) == (known.__module__, known.__name__):
                return known
        raise pickle.UnpicklingError(f"{module}.{name} is no part of a state")


def _left(state: _RendezvousState, settings: RendezvousSettings) -> None:
    """What follows when a machine is no participant any more."""
    if not state.complete:
        if len(state.participants) < settings.min_nodes:
            state.deadline = None
    elif not state.participants:
        state.complete, state.round = False, state.round + 1


class _RendezvousStateHolder(abc.ABC):
    """The state as this machine knows it."""

    @property
    @abc.abstractmethod
    def state(self) -> _RendezvousState:
        """The state."""

    @abc.abstractmethod
    def sync(self) -> bool | None:
        """Write what was changed, whether that went well; or read, None."""

    @abc.abstractmethod
    def mark_dirty(self) -> None:
        """Say that the state was changed."""


class _BackendRendezvousStateHolder(_RendezvousStateHolder):
    """The state in a backend. What was read is used for `cache_duration` seconds."""

    def __init__(
        self, backend: RendezvousBackend, settings: RendezvousSettings, cache_duration: int = 1
    ) -> None:  # fmt: skip
        self._backend, self._settings, self._cache_duration = backend, settings, cache_duration
        self._state, self._token, self._dirty = _RendezvousState(), None, False
        self._last_sync_time = -1.0

    @property
    def state(self) -> _RendezvousState:
        """The state."""
        return self._state

    def mark_dirty(self) -> None:
        """Say that the state was changed: `sync` writes it, unless another machine has written since."""
        self._dirty = True

    def sync(self) -> bool | None:
        """Write what was changed, whether that went well; or read, None."""
        found: Any = None
        written = None
        if self._dirty:
            written = False
            if answer := self._backend.set_state(pickle.dumps(self._state), self._token):
                *found, written = answer
        else:
            oldest = max(time.monotonic() - self._cache_duration, 0)
            if self._cache_duration > 0 and self._last_sync_time >= oldest:
                return None
            found = self._backend.get_state()
        state, self._token = found or (None, None)
        try:
            known = state is not None
            self._state = _StateReader(io.BytesIO(state)).load() if known else _RendezvousState()
        except pickle.PickleError as error:
            raise RendezvousStateError(
                "The rendezvous state is corrupt. See inner exception for details."
            ) from error
        self._dirty, self._last_sync_time = False, time.monotonic()
        self._remove_dead()
        return written

    def _remove_dead(self) -> None:
        """Take off machines that have said nothing for too long."""
        state, settings = self._state, self._settings
        silence = settings.keep_alive_interval * settings.keep_alive_max_attempt
        oldest = datetime.now(UTC) - silence
        dead = {node for node, said in state.last_heartbeats.items() if said < oldest}
        for node in dead:
            logger.warning("%s has said nothing for %s and is taken for dead", node, silence)
            del state.last_heartbeats[node]
        state.wait_list -= dead
        state.redundancy_list -= dead
        if gone := dead & state.participants.keys():
            for node in gone:
                del state.participants[node]
            _left(state, settings)


class _Action(enum.Enum):
    """What a machine does next."""

    KEEP_ALIVE = 1
    ADD_TO_PARTICIPANTS = 2
    ADD_TO_WAIT_LIST = 3
    ADD_TO_REDUNDANCY_LIST = 4
    REMOVE_FROM_PARTICIPANTS = 5
    REMOVE_FROM_WAIT_LIST = 6
    REMOVE_FROM_REDUNDANCY_LIST = 7
    MARK_RENDEZVOUS_COMPLETE = 8
    MARK_RENDEZVOUS_CLOSED = 9
    SYNC = 10
    ERROR_CLOSED = 11
    ERROR_TIMEOUT = 12
    FINISH = 13


class _RendezvousContext(NamedTuple):
    """A machine, the state, and the settings: all that its next action follows from."""

    node: _NodeDesc
    state: _RendezvousState
    settings: RendezvousSettings

    def heartbeat_is_due(self) -> bool:
        """Whether the interval since it last did so is over."""
        last = self.state.last_heartbeats.get(self.node)
        interval = self.settings.keep_alive_interval
        return last is not None and last <= datetime.now(UTC) - interval

    def wait(self) -> _Action:
        """The action of a machine that waits for others."""
        return _Action.KEEP_ALIVE if self.heartbeat_is_due() else _Action.SYNC


class _RendezvousExitOp:
    """Leave the round of before."""

    def __call__(self, ctx: _RendezvousContext, deadline: float) -> _Action:
        if ctx.node not in ctx.state.participants:
            return _Action.FINISH
        late = time.monotonic() > deadline
        return _Action.ERROR_TIMEOUT if late else _Action.REMOVE_FROM_PARTICIPANTS


class _RendezvousJoinOp:
    """Be one of the machines of a round, and wait until it is complete."""

    def __call__(self, ctx: _RendezvousContext, deadline: float) -> _Action:
        node, state, settings = ctx
        spare, joined = node in state.redundancy_list, node in state.participants
        if state.closed and spare:
            raise RendezvousGracefulExitError(f"{settings.run_id} was closed: it did not need {node}")  # fmt: skip
        if state.closed:
            return _Action.ERROR_CLOSED
        if spare:  # it may wait for ever
            full = len(state.participants) == settings.max_nodes
            return ctx.wait() if full else _Action.REMOVE_FROM_REDUNDANCY_LIST
        if state.complete and joined:
            return _Action.FINISH
        now = time.monotonic()
        if now > deadline:
            if joined and now <= deadline + ROLLBACK:
                return _Action.REMOVE_FROM_PARTICIPANTS
            if node in state.wait_list and now <= deadline + ROLLBACK:
                return _Action.REMOVE_FROM_WAIT_LIST
            return _Action.ERROR_TIMEOUT
        if state.complete:
            if node in state.wait_list:
                return ctx.wait()
            room = len(state.participants) < settings.max_nodes
            return _Action.ADD_TO_WAIT_LIST if room else _Action.ADD_TO_REDUNDANCY_LIST
        if not joined:
            return _Action.ADD_TO_PARTICIPANTS
        enough = settings.min_nodes <= len(state.participants) <= settings.max_nodes
        if enough and state.deadline is not None and state.deadline < datetime.now(UTC):
            return _Action.MARK_RENDEZVOUS_COMPLETE
        return ctx.wait()


class _RendezvousCloseOp:
    """Close the rendezvous: no machine can join any more."""

    def __call__(self, ctx: _RendezvousContext, deadline: float) -> _Action:
        if ctx.state.closed:
            return _Action.FINISH
        late = time.monotonic() > deadline
        return _Action.ERROR_TIMEOUT if late else _Action.MARK_RENDEZVOUS_CLOSED


class _RendezvousKeepAliveOp:
    """Send a heartbeat of this machine, if one is due."""

    def __call__(self, ctx: _RendezvousContext, deadline: float) -> _Action:
        if not ctx.heartbeat_is_due():
            return _Action.FINISH
        late = time.monotonic() > deadline
        return _Action.ERROR_TIMEOUT if late else _Action.KEEP_ALIVE


class _DistributedRendezvousOpExecutor:
    """Does what an operation says, until it says that it is done."""

    def __init__(
        self, node: _NodeDesc, state_holder: _RendezvousStateHolder, settings: RendezvousSettings
    ) -> None:  # fmt: skip
        self._node, self._state_holder, self._settings = node, state_holder, settings

    def run(
        self, state_handler: Callable[[_RendezvousContext, float], _Action], deadline: float,
        update_deadline: Callable[[timedelta], float] | None = None,
    ) -> None:  # fmt: skip
        """Read or write the state, ask what to do, do it; again."""
        while True:
            self._state_holder.sync()
            state = self._state_holder.state
            action = state_handler(_RendezvousContext(self._node, state, self._settings), deadline)
            if action == _Action.FINISH:
                return
            if action == _Action.ERROR_CLOSED:
                raise RendezvousClosedError(f"{self._settings.run_id} is closed")
            if action == _Action.ERROR_TIMEOUT:
                raise RendezvousTimeoutError(f"{self._settings.run_id}: not enough machines came in time: {state.participants}")  # fmt: skip
            if action == _Action.SYNC:
                _delay(seconds=1)
                continue
            logger.debug("%s: %s", self._node, action.name)
            self._change(state, action)
            if action == _Action.REMOVE_FROM_REDUNDANCY_LIST and update_deadline is not None:
                deadline = update_deadline(self._settings.timeout.join)
            self._state_holder.mark_dirty()

    def _change(self, state: _RendezvousState, action: _Action) -> None:
        """What an action does to the state."""
        node, settings = self._node, self._settings
        if action == _Action.MARK_RENDEZVOUS_CLOSED:
            state.closed = True
        elif action == _Action.MARK_RENDEZVOUS_COMPLETE:
            _complete(state)
        elif action == _Action.REMOVE_FROM_PARTICIPANTS:
            del state.participants[node], state.last_heartbeats[node]
            _left(state, settings)
        elif action in (_Action.REMOVE_FROM_WAIT_LIST, _Action.REMOVE_FROM_REDUNDANCY_LIST):
            waits = action == _Action.REMOVE_FROM_WAIT_LIST
            (state.wait_list if waits else state.redundancy_list).remove(node)
            del state.last_heartbeats[node]
        else:
            state.last_heartbeats[node] = datetime.now(UTC)
            if action == _Action.ADD_TO_WAIT_LIST:
                state.wait_list.add(node)
            elif action == _Action.ADD_TO_REDUNDANCY_LIST:
                state.redundancy_list.add(node)
            elif action == _Action.ADD_TO_PARTICIPANTS:
                state.wait_list.discard(node)
                state.participants[node] = 0  # its number comes when all are there
                if len(state.participants) == settings.min_nodes:
                    state.deadline = datetime.now(UTC) + settings.timeout.last_call
                if len(state.participants) == settings.max_nodes:
                    _complete(state)


def _complete(state: _RendezvousState) -> None:
    """End a round: participants have numbers by their descriptions."""
    state.complete, state.deadline = True, None
    state.participants = {node: rank for rank, node in enumerate(sorted(state.participants))}


class DynamicRendezvousHandler(RendezvousHandler):
    """A handler whose machines agree on numbers; as many as come, between the least and the greatest number."""

    _node_desc_generator = _NodeDescGenerator()

    @classmethod
    def from_backend(
        cls, run_id: str, store: Store, backend: RendezvousBackend, min_nodes: int, max_nodes: int, local_addr: str | None = None,
        timeout: RendezvousTimeout | None = None, keep_alive_interval: int = 5, keep_alive_max_attempt: int = 3,
    ) -> DynamicRendezvousHandler:  # fmt: skip
        """A handler whose state is in a backend."""
        node = cls._node_desc_generator.generate(local_addr)
        settings = RendezvousSettings(
            run_id, min_nodes, max_nodes, timeout or RendezvousTimeout(), timedelta(seconds=keep_alive_interval),
            keep_alive_max_attempt,
        )  # fmt: skip
        return cls(node, settings, backend.name, store, _BackendRendezvousStateHolder(backend, settings))  # fmt: skip

    def __init__(
        self, node: _NodeDesc, settings: RendezvousSettings, backend_name: str, store: Store,
        state_holder: _RendezvousStateHolder,
    ) -> None:  # fmt: skip
        least, most = settings.min_nodes, settings.max_nodes
        if not settings.run_id:
            raise ValueError("The run id must be a non-empty string.")
        if least < 1:
            raise ValueError(f"The minimum number of nodes ({least}) must be greater than zero.")
        if most < least:
            raise ValueError(
                f"The maximum number of nodes ({most}) must be greater than or equal to the minimum number of nodes ({least})."
            )
        self._this_node, self._settings, self._backend_name = node, settings, backend_name
        self._store, self._state_holder = store, state_holder
        self._op_executor = _DistributedRendezvousOpExecutor(node, state_holder, settings)
        self._heartbeat_lock = threading.Lock()
        self._keep_alive_timer: _PeriodicTimer | None = None
        self._served: TCPStore | None = None  # by machine 0, for processes

    @property
    def settings(self) -> RendezvousSettings:
        """Its settings."""
        return self._settings

    def get_backend(self) -> str:
        """The name of its backend."""
        return self._backend_name

    @property
    def use_agent_store(self) -> bool:
        """True: machine 0 serves the store of the processes."""
        return True

    def get_run_id(self) -> str:
        """The name of the job."""
        return self._settings.run_id

    def next_rendezvous(self) -> RendezvousInfo:
        """Leave the round of before, and be one of the next."""
        self._stop_heartbeats()
        if self._state_holder.state.round == 0:
            _delay(seconds=(0, 0.3))  # so that not all write at once
        deadline = self._deadline(self._settings.timeout.join)
        self._op_executor.run(_RendezvousExitOp(), deadline)
        self._op_executor.run(_RendezvousJoinOp(), deadline, self._deadline)
        self._start_heartbeats()
        state, node = self._state_holder.state, self._this_node
        rank, size = state.participants[node], len(state.participants)
        store = PrefixStore(f"torch.rendezvous.{self._settings.run_id}.{state.round}", self._store)
        logger.info("%s is machine %d of %d in round %d", node, rank, size, state.round)
        port = None
        if (
            rank == 0
        ):  # a new store for each round: processes of another one may have left something there
            self._served = TCPStore(node.addr, 0, is_master=True, wait_for_workers=False)
            port = self._served.port
        where = RendezvousStoreInfo.build(rank, store, node.addr, port)
        return RendezvousInfo(store, rank, size, where)

    def is_closed(self) -> bool:
        """Whether the rendezvous is closed."""
        with self._heartbeat_lock:
            self._state_holder.sync()
            return self._state_holder.state.closed

    def set_closed(self) -> None:
        """Close the rendezvous: no machine can join any more."""
        with self._heartbeat_lock:
            self._close()

    def num_nodes_waiting(self) -> int:
        """How many machines wait for the next round."""
        with self._heartbeat_lock:
            self._state_holder.sync()
            return len(self._state_holder.state.wait_list)

    def shutdown(self) -> bool:
        """Close the rendezvous and stop the heartbeats of this machine; True if the store could be written."""
        self._stop_heartbeats()
        try:
            self._close()
        except RendezvousError as error:  # where the state was may have ended first
            logger.info("%s could not close %s: %s", self._this_node, self.get_run_id(), error)
            return False
        return True

    def _close(self) -> None:
        self._op_executor.run(_RendezvousCloseOp(), self._deadline(self._settings.timeout.close))

    def _keep_alive(self) -> None:
        """Send a heartbeat of this machine."""
        with self._heartbeat_lock:
            deadline = self._deadline(self._settings.timeout.heartbeat)
            try:
                self._op_executor.run(_RendezvousKeepAliveOp(), deadline)
            except RendezvousError as error:
                logger.warning("%s could not say that it lives: %s", self._this_node, error)

    def _start_heartbeats(self) -> None:
        interval, this = self._settings.keep_alive_interval, weakref.ref(self)
        self._keep_alive_timer = _PeriodicTimer(interval, _keep_alive_of, this)
        self._keep_alive_timer.set_name(f"RendezvousKeepAliveTimer_{self._this_node.local_id}")
        self._keep_alive_timer.start()

    def _stop_heartbeats(self) -> None:
        if self._keep_alive_timer is not None:
            self._keep_alive_timer.cancel()

    def _deadline(self, limit: timedelta) -> float:
        return time.monotonic() + limit.total_seconds()


def _keep_alive_of(handler: weakref.ref[DynamicRendezvousHandler]) -> None:
    """The timer has no reference to the handler, which ends it when nobody has it."""
    if (found := handler()) is not None:
        found._keep_alive()


def create_handler(
    store: Store, backend: RendezvousBackend, params: RendezvousParameters
) -> DynamicRendezvousHandler:
    """A handler with the settings in `params`: the timeouts `join_timeout`, `last_call_timeout`, `close_timeout` and `heartbeat_timeout`,
    `keep_alive_interval` in seconds, and `keep_alive_max_attempt`."""
    limits = []
    for name in ("join", "last_call", "close", "heartbeat"):
        seconds = params.get_as_int(f"{name}_timeout")
        limits.append(None if seconds is None else timedelta(seconds=seconds))
    often = {name: params.get_as_int(name, default)
             for name, default in (("keep_alive_interval", 5), ("keep_alive_max_attempt", 3))}  # fmt: skip
    for name, value in often.items():
        if value is None:
            raise TypeError(f"You passed '{name}=None' as a rendezvous configuration option")
    return DynamicRendezvousHandler.from_backend(
        params.run_id, store, backend, params.min_nodes, params.max_nodes, params.local_addr, RendezvousTimeout(*limits), **often,  # type: ignore[arg-type]  # None was refused
    )  # fmt: skip
