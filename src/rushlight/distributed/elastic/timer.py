"""`torch.distributed.elastic.timer`: blocks of a program that end in time, or their process is ended.

A process asks for a timer through a queue, and says when the block has ended. The server, in the process that started it,
looks at the timers of all and ends those whose time is over. Timers of a file (`FileTimerServer`) are not there.
"""

from __future__ import annotations

import abc
import logging
import os
import queue
import signal
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import getframeinfo, stack
from typing import Any

__all__ = [
    "LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue", "RequestQueue", "TimerClient", "TimerRequest",
    "TimerServer", "configure", "expires",
]  # fmt: skip

logger = logging.getLogger(__name__)
RELEASED = -1.0  # the time of a request that gives a timer back


@dataclass(frozen=True)
class TimerRequest:
    """A timer of a process: until when its block may last; a negative time gives it back."""

    worker_id: Any
    scope_id: str
    expiration_time: float


class TimerClient(abc.ABC):
    """Asks a server for timers."""

    @abc.abstractmethod
    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Ask for a timer of a block, or another time for it."""

    @abc.abstractmethod
    def release(self, scope_id: str) -> None:
        """The block has ended."""


class RequestQueue(abc.ABC):
    """What processes have asked for."""

    @abc.abstractmethod
    def size(self) -> int:
        """How many requests wait."""

    @abc.abstractmethod
    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """So many requests, fewer if the time is over."""


class TimerServer(abc.ABC):
    """Ends processes whose timers are over: it looks at least every `max_interval` seconds."""

    def __init__(
        self, request_queue: RequestQueue, max_interval: float, daemon: bool = True
    ) -> None:
        self._request_queue, self._max_interval, self._daemon = request_queue, max_interval, daemon
        self._watchdog_thread: threading.Thread | None = None
        self._ended = threading.Event()

    @abc.abstractmethod
    def register_timers(self, timer_requests: list[TimerRequest]) -> None:
        """Take what processes have asked for."""

    @abc.abstractmethod
    def clear_timers(self, worker_ids: set[Any]) -> None:
        """Forget the timers of processes."""

    @abc.abstractmethod
    def get_expired_timers(self, deadline: float) -> dict[Any, list[TimerRequest]]:
        """The timers that are over at a time, by process."""

    @abc.abstractmethod
    def _reap_worker(self, worker_id: Any) -> bool:
        """End a process; whether that went well, or it was gone."""

    def _reap_worker_no_throw(self, worker_id: Any) -> bool:
        try:
            return self._reap_worker(worker_id)
        except Exception:
            logger.exception("worker %s could not be ended", worker_id)
            return True

    def _watchdog_loop(self) -> None:
        while not self._ended.is_set():
            try:
                self._run_watchdog()
            except Exception:
                logger.exception("timers could not be looked at")

    def _run_watchdog(self) -> None:
        """Take what has been asked for, and end what is over."""
        wanted = max(1, self._request_queue.size())
        self.register_timers(self._request_queue.get(wanted, self._max_interval))
        ended = set()
        for worker, timers in self.get_expired_timers(time.time()).items():
            scopes = ", ".join(each.scope_id for each in timers)
            logger.info("timers of worker %s are over: %s", worker, scopes)
            if self._reap_worker_no_throw(worker):
                ended.add(worker)
        self.clear_timers(ended)

    def start(self) -> None:
        """Look at timers from now on, in a thread."""
        if self._watchdog_thread is None:
            self._ended.clear()
            self._watchdog_thread = threading.Thread(
                target=self._watchdog_loop, daemon=self._daemon
            )
            self._watchdog_thread.start()

    def stop(self) -> None:
        """Look at them no longer."""
        self._ended.set()
        if self._watchdog_thread is not None:
            self._watchdog_thread.join(self._max_interval)
            self._watchdog_thread = None


class LocalTimerClient(TimerClient):
    """Asks the server of this machine, through a queue of `multiprocessing`."""

    def __init__(self, mp_queue: Any) -> None:
        self._queue = mp_queue

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Ask for a timer of a block, or another time for it."""
        self._queue.put(TimerRequest(os.getpid(), scope_id, expiration_time))

    def release(self, scope_id: str) -> None:
        """The block has ended."""
        self._queue.put(TimerRequest(os.getpid(), scope_id, RELEASED))


class MultiprocessingRequestQueue(RequestQueue):
    """Requests in a queue of `multiprocessing`."""

    def __init__(self, mp_queue: Any) -> None:
        self._queue = mp_queue

    def size(self) -> int:
        """How many requests wait."""
        return self._queue.qsize()

    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """So many requests, fewer if the time is over."""
        found: list[TimerRequest] = []
        limit = time.monotonic() + timeout
        while len(found) < size and (left := limit - time.monotonic()) > 0:
            try:
                found.append(self._queue.get(timeout=left))
            except queue.Empty:
                break
        return found


class LocalTimerServer(TimerServer):
    """Ends processes of this machine, by SIGKILL; they ask through a queue of `multiprocessing`."""

    def __init__(self, mp_queue: Any, max_interval: float = 60, daemon: bool = True) -> None:
        super().__init__(MultiprocessingRequestQueue(mp_queue), max_interval, daemon)
        self._timers: dict[tuple[Any, str], TimerRequest] = {}

    def register_timers(self, timer_requests: Iterable[TimerRequest]) -> None:
        """Take what processes have asked for."""
        for request in timer_requests:
            key = request.worker_id, request.scope_id
            if request.expiration_time < 0:
                self._timers.pop(key, None)
            else:
                self._timers[key] = request

    def clear_timers(self, worker_ids: set[int]) -> None:
        """Forget the timers of processes."""
        self._timers = {k: v for k, v in self._timers.items() if k[0] not in worker_ids}

    def get_expired_timers(self, deadline: float) -> dict[Any, list[TimerRequest]]:
        """The timers that are over at a time, by process."""
        found: dict[Any, list[TimerRequest]] = {}
        for request in self._timers.values():
            if request.expiration_time <= deadline:
                found.setdefault(request.worker_id, []).append(request)
        return found

    def _reap_worker(self, worker_id: int) -> bool:
        try:
            os.kill(worker_id, signal.SIGKILL)
        except ProcessLookupError:
            logger.info("process %s is gone already", worker_id)
        except OSError:
            logger.exception("process %s could not be ended", worker_id)
            return False
        return True


_client: TimerClient | None = None


def configure(timer_client: TimerClient | None) -> None:
    """Let `expires` of this process ask this client."""
    global _client
    _client = timer_client


@contextmanager
def expires(
    after: float, scope: str | None = None, client: TimerClient | None = None
) -> Iterator[None]:
    """A block that ends within `after` seconds, or the server ends the process.

    Blocks of one `scope`, which is their place in the program, have one timer: the innermost sets its time.
    """
    asked = client or _client
    if asked is None:
        raise RuntimeError("Configure timer client before using countdown timers.")
    if scope is None:
        place = getframeinfo(stack()[2][0])  # behind `contextmanager`
        scope = f"{place.filename}#{place.lineno}"
    asked.acquire(scope, time.time() + after)
    try:
        yield
    finally:
        asked.release(scope)
