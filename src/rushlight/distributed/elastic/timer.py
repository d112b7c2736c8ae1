"""`torch.distributed.elastic.timer`: blocks of a program that end in time, or their process is ended.

A process asks for a timer through a queue or a named pipe, and says when the block has ended. The server, in the process that
started it, looks at the timers of all and ends those whose time is over.
"""

from __future__ import annotations

import abc
import json
import logging
import os
import queue
import select
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from inspect import getframeinfo, stack
from typing import Any

__all__ = [
    "FileTimerClient", "FileTimerRequest", "FileTimerServer", "LocalTimerClient", "LocalTimerServer", "MultiprocessingRequestQueue", "RequestQueue", "TimerClient", "TimerRequest",
    "TimerServer", "configure", "expires",
]  # fmt: skip

logger = logging.getLogger(__name__)
TRIES = 10  # of a client, until a server reads the pipe
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
        """End a process. True also where it has ended already."""

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
        return _end(worker_id, signal.SIGKILL)


class FileTimerRequest(TimerRequest):
    """A timer of a process, and the signal that ends it."""

    signal: int

    def __init__(
        self, worker_pid: int, scope_id: str, expiration_time: float, signal: int = 0
    ) -> None:  # fmt: skip
        super().__init__(worker_pid, scope_id, expiration_time)
        object.__setattr__(self, "signal", signal)  # the base is frozen

    @property
    def worker_pid(self) -> int:
        """The process."""
        return self.worker_id

    def to_json(self) -> str:
        """As text, without the end of a line.

        >>> from rushlight.distributed.elastic.timer import FileTimerRequest
        >>> FileTimerRequest(7, "here", -1.0).to_json()
        '{"worker_pid": 7, "scope_id": "here", "expiration_time": -1.0, "signal": 0}'
        """
        return json.dumps({
            "worker_pid": self.worker_pid, "scope_id": self.scope_id, "expiration_time": self.expiration_time,
            "signal": int(self.signal),
        })  # fmt: skip


class FileTimerClient(TimerClient):
    """Asks the server that reads a named pipe; `signal` is what ends this process."""

    def __init__(self, file_path: str, signal: int = signal.SIGKILL) -> None:
        self._file_path, self.signal = file_path, signal

    def _send_request(self, request: FileTimerRequest) -> None:
        text = request.to_json().encode() + b"\n"
        if len(text) > select.PIPE_BUF:  # several processes write: more would be mixed up
            raise RuntimeError(f"a request of {len(text)} bytes: the scope is too long")
        for left in reversed(range(TRIES)):
            try:
                number = os.open(self._file_path, os.O_WRONLY | os.O_NONBLOCK)
            except OSError as error:  # nobody reads
                if left == 0:
                    raise BrokenPipeError(
                        "Could not send the FileTimerRequest because FileTimerServer is not available."
                    ) from error
                time.sleep(0.1)
                continue
            with os.fdopen(number, "wb", buffering=0) as pipe:
                os.set_blocking(number, True)
                pipe.write(text)
            return

    def acquire(self, scope_id: str, expiration_time: float) -> None:
        """Ask for a timer of a block, or another time for it."""
        self._send_request(FileTimerRequest(os.getpid(), scope_id, expiration_time, self.signal))

    def release(self, scope_id: str) -> None:
        """The block has ended."""
        self._send_request(FileTimerRequest(os.getpid(), scope_id, RELEASED))


class _PipeRequestQueue(RequestQueue):
    """Requests in a named pipe, which it makes."""

    def __init__(self, path: str) -> None:
        self.path, self.count, self._begun = path, 0, b""
        os.mkfifo(path)
        # open for writing, too: so it does not end when all processes have closed it
        self._number = os.open(path, os.O_RDWR | os.O_NONBLOCK)

    def size(self) -> int:
        """1: how many wait is not known before they are read."""
        return 1

    def get(self, size: int, timeout: float) -> list[TimerRequest]:
        """All that wait, or the first ones that come within the time."""
        ready, _, _ = select.select([self._number], [], [], timeout)
        *lines, self._begun = (self._begun + (os.read(self._number, 1 << 16) if ready else b"")).split(b"\n")  # fmt: skip
        self.count += len(lines)
        return [FileTimerRequest(**json.loads(line)) for line in lines]

    def close(self) -> None:
        """Remove the pipe."""
        os.close(self._number)
        os.remove(self.path)


class FileTimerServer(LocalTimerServer):
    """Ends processes of this machine by the signal that each says; they ask through a named pipe.

    `log_event` is called with what happened, and the timer.
    """

    def __init__(
        self, file_path: str, run_id: str, max_interval: float = 10, daemon: bool = True,
        log_event: Callable[[str, FileTimerRequest | None], None] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(None, max_interval, daemon)
        self._file_path, self._run_id, self._log_event = file_path, run_id, log_event
        self._progress = int(time.time())

    @property
    def _request_count(self) -> int:
        return self._request_queue.count if isinstance(self._request_queue, _PipeRequestQueue) else 0  # fmt: skip

    def start(self) -> None:
        """Make the pipe, and look at timers from now on, in a thread."""
        if self._watchdog_thread is None:
            self._request_queue = _PipeRequestQueue(self._file_path)
            super().start()

    def stop(self) -> None:
        """Look at them no longer, and remove the pipe."""
        thread = self._watchdog_thread
        super().stop()
        if thread is not None and isinstance(self._request_queue, _PipeRequestQueue):
            thread.join()  # it reads the pipe for at most one interval more
            self._request_queue.close()

    def run_once(self) -> None:
        """Look at timers once more, in the place of the thread."""
        self._ended.set()
        if self._watchdog_thread is not None:
            self._watchdog_thread.join()
            self._run_watchdog()
            self._watchdog_thread = None
            assert isinstance(self._request_queue, _PipeRequestQueue)
            self._request_queue.close()

    def register_timers(self, timer_requests: Iterable[TimerRequest]) -> None:
        """Take what processes have asked for; forget those of processes that have ended."""
        requests = [*timer_requests]
        if requests:
            self._progress = int(time.time())
        super().register_timers(requests)
        self.clear_timers({pid for pid, _ in self._timers if not _is_running(pid)})

    def _reap_worker(self, worker_id: int) -> bool:
        own = [each for each in self._timers.values() if each.worker_id == worker_id]
        number = next((each.signal for each in own if isinstance(each, FileTimerRequest)), 0)
        if self._log_event is not None:
            over = min(own, key=lambda each: each.expiration_time, default=None)
            self._log_event("kill worker process", over if isinstance(over, FileTimerRequest) else None)  # fmt: skip
        return _end(worker_id, number or signal.SIGKILL)

    def get_last_progress_time(self) -> int:
        """When a process last asked for a timer or gave one back; now, if no timer runs."""
        return self._progress if self._timers else int(time.time())


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _end(pid: int, number: int) -> bool:
    """Send a signal to a process. True also where the process has ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        logger.info("process %s is gone already", pid)
    except OSError:
        logger.exception("process %s could not be ended", pid)
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
