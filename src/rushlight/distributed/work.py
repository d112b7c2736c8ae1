"""`Work`: a call to other processes that has been started, and the thread that keeps such calls moving."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed import world
from rushlight.distributed.store import DistBackendError
from rushlight.futures import Future

__all__ = ["Work"]

PATIENCE = 0.001  # seconds of asking without a pause; a pause is longer than a small message takes
BYTES_A_SECOND = 2e8  # and so much longer for large ones
LONGEST_PAUSE = 0.002
SLOW = 0.5  # seconds after which a process that waits says so in the store, and asks who is gone


class Call:
    """What a message about a call names: its group, its name, its number in the group, whom it waits for."""

    def __init__(self, group: Any, name: str, peers: tuple[int, ...], number: int) -> None:
        self.group, self.name, self.peers, self.number = group, name, peers, number

    def announce(self) -> None:
        """Say in the store that this process waits here."""
        self.group.store.set(f"waits/{self.name}/{self.number}/{self.group.rank()}", "")

    def gone(self) -> list[int]:
        """Those it waits for whose processes died."""
        found = set(map(int, self.group.gone()))
        return [rank for rank in self.peers if self.group.ranks[rank] in found]

    def missing(self) -> list[int]:
        """Those it waits for that do not wait themselves in the same call, as ranks of the job."""
        key = f"waits/{self.name}/{self.number}"
        found = [r for r in self.peers if not self.group.store.check([f"{key}/{r}"])]
        return [self.group.ranks[r] for r in found]


class Work:
    """A call that may still run: `wait` for it, or ask `is_completed`."""

    def __init__(
        self, call: Call, requests: list, finish: Callable[[], None] | None, result: list[Tensor],
        kept: Any = None, size: int = 0, timeout: timedelta | None = None,
    ) -> None:  # fmt: skip
        self._call, self._requests, self._finish = call, requests, finish
        self._result, self._kept, self._size = result, kept, size
        self._limit = (timeout or call.group.timeout).total_seconds()
        self._lock = threading.RLock()  # a callback of the future may ask this work
        self._done, self._error, self._future = False, None, None
        self._source: int | None = None
        self._started = time.monotonic()
        self._statuses: list | None = None

    def _test(self) -> bool:
        """Ask MPI; when all is there, finish."""
        with self._lock:
            if self._done:
                return True
            try:
                if self._statuses is None:
                    done = world.world.mpi.Request.Testall(self._requests)
                else:
                    done = world.world.mpi.Request.Testall(self._requests, self._statuses)
                if not done:
                    return False
                if self._finish is not None:
                    self._finish()
            except Exception as error:
                self._error = _readable(error, self._call)
            self._end()
        return True

    def _end(self) -> None:
        self._done, self._kept, self._finish = True, None, None
        if self._future is not None:
            self._resolve(self._future)

    def _fail(self, error: Exception) -> None:
        """Give up: the call stays unfinished, and MPI keeps what it may still write to."""
        with self._lock:
            if not self._done:
                world.world.failed = True
                _unfinished.append((self._requests, self._kept, self._result))
                self._error = error
                self._end()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done; True. Raises its error, and RuntimeError after the timeout."""
        limit = self._limit
        if timeout is not None and timeout.total_seconds() > 0:
            limit = timeout.total_seconds()
        if not self._test():
            watch = Watch(self, limit)
            while not self._test():
                watch.pause()
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Wait until it is done."""
        self.wait()

    def is_completed(self) -> bool:
        """Whether it is done."""
        return self._test()

    def is_success(self) -> bool:
        """Whether it is done without an error."""
        return self._test() and self._error is None

    def exception(self) -> Exception | None:
        """Its error, if it has ended with one."""
        return self._error

    def result(self) -> list[Tensor]:
        """The tensors that it wrote."""
        return self._result

    def source_rank(self) -> int:
        """The rank in the group that a message came from."""
        if self._source is None:
            raise RuntimeError(
                "sourceRank() may only be called on work objects that correspond to a recv or recv-from-any call."
            )
        return self._source

    def _source_rank(self) -> int:
        return self.source_rank()

    def get_future(self) -> Future:
        """A `Future` of the tensors that it wrote."""
        with self._lock:
            if self._future is None:
                self._future = Future()
                if self._done:
                    self._resolve(self._future)
        return self._future

    def _resolve(self, future: Future) -> None:
        if self._error is None:
            future.set_result(self._result)
        else:
            future.set_exception(self._error)


_unfinished: list = []


def _readable(error: Exception, call: Call) -> Exception:
    if type(error).__module__.startswith("mpi4py"):
        return DistBackendError(f"{call.name}: {error}")
    return error


class Watch:
    """The pauses of one who waits, and what it does when it takes long: Note [Nothing waits inside of MPI]."""

    def __init__(self, work: Work, limit: float) -> None:
        self.work, self.limit = work, limit
        self.start = time.monotonic()
        self.eager = self.start + PATIENCE + work._size / BYTES_A_SECOND
        self.next_look, self.delay, self.announced = self.start + min(SLOW, limit / 2), 2e-5, False

    def pause(self) -> None:
        """Let others run; after the limit, or when a peer died, the work fails."""
        now = time.monotonic()
        if now < self.eager:
            time.sleep(0)
            return
        time.sleep(self.delay)
        self.delay = min(1.5 * self.delay, LONGEST_PAUSE)
        if now > self.next_look:
            self.look(now)

    def look(self, now: float) -> None:
        """Tell the others that this process waits; learn who died."""
        call = self.work._call
        try:
            if not self.announced:
                call.announce()
                self.announced = True
            if gone := call.gone():
                self.work._fail(
                    DistBackendError(
                        f"{call.name} number {call.number} of group '{call.group.group_name}': rank "
                        f"{', '.join(str(call.group.ranks[r]) for r in gone)} is gone: Connection closed by peer, "
                        "the process died"
                    )
                )
            elif now > self.start + self.limit:
                time.sleep(min(2 * SLOW, self.limit))  # others may come to say that they wait, too
                if not self.work._test():
                    self.work._fail(RuntimeError(self.message(call)))
        except DistBackendError:
            raise
        except RuntimeError as error:
            self.work._fail(error)  # the store is gone
        self.next_look = min(time.monotonic() + SLOW, max(self.start + self.limit, now) + 0.01)

    def message(self, call: Call) -> str:
        """What a timeout says."""
        missing = call.missing()
        who = f"did not come to it: ranks {missing}" if missing else "all ranks have come to it"
        return (
            f"Timed out waiting {round(1000 * self.limit)}ms for {call.name} operation to complete (number "
            f"{call.number} of group '{call.group.group_name}'; {who})"
        )


class Progress(threading.Thread):
    """Asks for all works that nobody waits for now, so that large messages move while the program computes."""

    def __init__(self) -> None:
        super().__init__(name="torch.distributed", daemon=True)
        self.condition = threading.Condition()
        self.works: list[tuple[Work, Watch]] = []

    def add(self, work: Work) -> None:
        """Take care of a work until it is done."""
        with self.condition:
            self.works.append((work, Watch(work, work._limit)))
            self.condition.notify()

    def run(self) -> None:
        """The thread's loop."""
        while True:
            with self.condition:
                while not self.works:
                    self.condition.wait()
                works = list(self.works)
            ended = [entry for entry in works if entry[0]._test()]
            if ended:
                with self.condition:
                    self.works = [entry for entry in self.works if entry not in ended]
            else:
                min((watch for _, watch in works), key=lambda watch: watch.delay).pause()
                for _, watch in works:
                    if time.monotonic() > watch.next_look:
                        watch.look(time.monotonic())


_progress: Progress | None = None


def progress(work: Work) -> Work:
    """Let the thread take care of a work."""
    global _progress
    if not work._test():
        if _progress is None:
            _progress = Progress()
            _progress.start()
        _progress.add(work)
    return work
