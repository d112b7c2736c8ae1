"""`Work`: a call to other processes that has been started, and the thread that keeps such calls moving."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import rushlight
from rushlight.autograd import profiler
from rushlight.core.tensor import Tensor
from rushlight.distributed import world
from rushlight.distributed.store import DistBackendError
from rushlight.futures import Future

__all__ = ["Work", "record_comm"]

PATIENCE = 0.001  # seconds of asking without a pause; a pause is longer than a small message takes
BYTES_A_SECOND = 2e8  # and so much longer for large ones
SHORTEST_PAUSE, LONGEST_PAUSE = 2e-5, 0.002
AT_ONCE = 16  # works that the thread asks for, the oldest ones and as many others in turn: MPI moves all when it is asked for one
AT_LAST = 64  # times that a work is asked for before it fails: MPI reads what has come bit by bit
SLOW = 0.5  # seconds after which a process that waits says so in the store, and asks who is gone

give_way = getattr(os, "sched_yield", lambda: time.sleep(0))


class _Titles(threading.local):
    """What profiles call the works that a thread starts; None for their own names."""

    name: str | None = None


_titles = _Titles()


@contextmanager
def record_comm(name: str) -> Iterator[None]:
    """A block whose collectives have this name in profiles."""
    before, _titles.name = _titles.name, name
    try:
        yield
    finally:
        _titles.name = before


class Work:
    """A call that may still run: `wait` for it, or ask `is_completed`.

    `request` is what MPI gave, or anything else that can be asked by `Test()`. `peers` are those it waits for, None for
    all. `kept` is memory that MPI may write to as long as the call runs. `inputs` are what profiles tell the sizes of.
    """

    def __init__(
        self, group: Any, name: str, number: int, request: Any, finish: Callable[[], None] | None,
        result: list[Tensor], kept: Sequence[Any] = (), peers: Sequence[int] | None = None,
        timeout: timedelta | None = None, inputs: Sequence[Tensor] | None = None,
    ) -> None:  # fmt: skip
        self.group, self.name, self.number, self.peers = group, name, number, peers
        self._request, self._finish, self._result, self._kept = request, finish, result, kept
        self._timeout = timeout or group.timeout
        self._lock = threading.RLock()  # a callback of the future may ask this work
        self._done, self._error, self._future = False, None, None
        self._in_progress = False  # whether the thread takes care of it
        self._source: int | None = None
        shown = "recvAnySource" if name == "recv" and peers is None else name
        title = _titles.name or f"{group.engine}:{shown}"
        self._recorded = profiler.begun(title, inputs or result)

    def _test(self) -> bool:
        """Ask MPI; when all is there, finish."""
        with self._lock:
            if self._done:
                return True
            try:
                if not self._request.Test():
                    return False
                if self._finish is not None:
                    self._finish()
            except Exception as error:
                self._error = _readable(error, self.name)
                if self._error is not error and self.name != "recv":  # MPI's: parts of it are left
                    self.group.broken = self._error
            self._end()
        return True

    def then(self, step: Callable[[], None]) -> None:
        """Let a step be a part of it, before anybody has asked for it: the last one."""
        first = self._finish

        def finish() -> None:
            if first is not None:
                first()
            step()

        self._finish = finish

    def copied_to(self, tensors: Sequence[Tensor], written: Tensor) -> Work:
        """The work itself, which writes what it has written to one tensor to others, too."""
        others = [each for each in tensors if each is not written]

        def copy() -> None:
            with rushlight.no_grad():
                for each in others:
                    each.copy_(written)

        if others:
            self.then(copy)
        self._result = list(tensors)
        return self

    def _end(self) -> None:
        self._done, self._request, self._kept, self._finish = True, None, (), None
        if self._recorded is not None:
            self._recorded()
        if self._future is not None:
            self._resolve(self._future)

    def _fail(self, error: Exception) -> None:
        """Give up: the call stays unfinished, MPI keeps what it may still write to, and the group is of no more use."""
        with self._lock:
            if not self._done:
                world.world.failed = True
                _unfinished.append((self._request, self._kept, self._result))
                self._error = self.group.broken = error
                self._end()

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done; True. Raises its error, and RuntimeError after the timeout."""
        if not self._test():
            limit = timeout if timeout is not None and timeout > timedelta() else self._timeout
            watch = Watch(self, limit.total_seconds())
            while not self._test():
                watch.pause()
            watch.end()
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
        if not self._done:
            progress(self)  # whoever waits for the future asks for nothing
        return self._future

    def _resolve(self, future: Future) -> None:
        if self._error is None:
            future.set_result(self._result)
        else:
            future.set_exception(self._error)


class Several:
    """Several works, and a request after them, as the request of one."""

    def __init__(self, works: list[Work], last: Any = None) -> None:
        self.works, self.last = works, last

    def Test(self) -> bool:
        """Whether all are done; raises the error of the first one that has failed."""
        left = [each for each in self.works if not each._test()]  # ask for all
        if left or not (self.last is None or self.last.Test()):
            return False
        for each in self.works:
            if each._error is not None:
                raise each._error
        return True


def together(works: list[Work]) -> Work:
    """Several works as one."""
    results = [tensor for work in works for tensor in work.result()]
    rows = [row for work in works for row in work._kept]
    first = works[0]
    return Work(first.group, first.name, first.number, Several(works), None, results, rows)


def started_before(group: Any) -> list[Work]:
    """The collectives of a group that nobody has waited for and that are not done."""
    watches = [] if _progress is None else _progress.watches
    return [
        each.work
        for each in watches
        if each.work.group is group and each.work.name not in ("send", "recv")
    ]


_unfinished: list = []


def _readable(error: Exception, name: str) -> Exception:
    if type(error).__module__.startswith("mpi4py"):
        return DistBackendError(f"{name}: {error}")
    return error


class Watch:
    """The pauses of one who waits, and what it does when it takes long: Note [Nothing waits inside of MPI]."""

    def __init__(self, work: Work, limit: float) -> None:
        self.work, self.limit = work, limit
        self.start = time.monotonic()
        size = max((each.nbytes for each in work._kept), default=0)
        self.eager = self.start + PATIENCE + size / BYTES_A_SECOND
        self.next_look, self.delay = self.start + min(SLOW, limit / 2), SHORTEST_PAUSE
        self.announced = False

    def pause(self) -> None:
        """Let others run; after the limit, or when a peer died, the work fails."""
        now = time.monotonic()
        if now < self.eager:
            give_way()
            return
        time.sleep(self.delay)
        self.delay = min(1.5 * self.delay, LONGEST_PAUSE)
        if now > self.next_look:
            self.look(now)

    def look(self, now: float, early: dict[int, int] | None = None) -> dict[int, int] | None:
        """Tell the others that this process waits; learn who died, which `early` says if another call of the group has asked.

        Returns who died, None if nobody could be asked.
        """
        work, group = self.work, self.work.group
        try:
            if early is None:
                if not self.announced:
                    group.store.set(f"{self._key()}/{group.rank()}", "")
                    self.announced = True
                group.store.set(f"waiting/{group.rank()}", f"{work.name} number {work.number}")
                early = group.gone()
            gone = sorted({early[peer] for peer in self._peers() if peer in early})
            # what came from them before they ended may be all that it waits for
            if gone and not any(work._test() for _ in range(AT_LAST)):
                world.world.heard = gone[0]  # type: ignore[union-attr]
                work._fail(
                    DistBackendError(
                        f"{self._call()}: rank {', '.join(map(str, gone))} is gone: Connection closed by peer, the "
                        "process died"
                    )
                )
            elif now > self.start + self.limit:
                if group.broken is None:
                    time.sleep(min(2 * SLOW, self.limit))  # others may come to say that they wait
                if not work._test():
                    work._fail(RuntimeError(self.message()))
        except RuntimeError as error:
            work._fail(DistBackendError(f"{self._call()}: {error}"))
        self.next_look = min(time.monotonic() + SLOW, max(self.start + self.limit, now) + 0.01)
        return early

    def end(self) -> None:
        """The work has come to its end. The others no longer see that this process waits; another call that waits says it again."""
        if self.announced and self.work._error is None:
            try:
                self.work.group.store.delete_key(f"waiting/{self.work.group.rank()}")
            except RuntimeError:
                pass  # who served the store has ended

    def _key(self) -> str:
        """Where in the store those write themselves down who wait in this call."""
        return f"waits/{self.work.name}/{self.work.number}"

    def _call(self) -> str:
        return f"{self.work.name} number {self.work.number} of group '{self.work.group.group_name}'"

    def _peers(self) -> list[int]:
        """Those it waits for, as ranks of the job."""
        every, peers = self.work.group.ranks, self.work.peers
        return every if peers is None else [every[peer] for peer in peers]

    def message(self) -> str:
        """What a timeout says: which of those it waits for do not wait in the same call, and what other calls they wait in."""
        group, missing, elsewhere = self.work.group, [], []
        for rank in self._peers():
            number = group.ranks.index(rank)
            if group.store.check([f"{self._key()}/{number}"]):
                continue
            if (call := group.store._call("get", f"waiting/{number}")) is not None:
                elsewhere.append(f"rank {rank} waits in {call.decode()}")
            else:
                missing.append(rank)
        who = ([f"did not come to it: ranks {missing}"] if missing else []) + elsewhere
        return (
            f"[Rank {group.rank()}] Timed out waiting {round(1000 * self.limit)}ms for {self.work.name} operation to complete (number "
            f"{self.work.number} of group '{group.group_name}'; {'; '.join(who or ['all ranks have come to it'])})"
        )


class Progress(threading.Thread):
    """Asks for all works that nobody waits for now, so that large messages move while the program computes."""

    def __init__(self) -> None:
        super().__init__(name="torch.distributed", daemon=True)
        self.condition = threading.Condition()
        self.watches: list[Watch] = []

    def add(self, work: Work) -> None:
        """Take care of a work until it is done."""
        with self.condition:
            self.watches.append(Watch(work, work._timeout.total_seconds()))
            self.condition.notify()

    def run(self) -> None:
        """The thread's loop. It pauses at once: a loop would take the interpreter from the program."""
        pause, turn = SHORTEST_PAUSE, AT_ONCE
        while True:
            with self.condition:
                while not self.watches:
                    self.condition.wait()
                    pause = SHORTEST_PAUSE
                watches = list(self.watches)
            turn = turn + AT_ONCE if turn + AT_ONCE < len(watches) else AT_ONCE
            asked = watches[:AT_ONCE] + watches[turn : turn + AT_ONCE]
            steps = _steps(asked)
            ended = {watch for watch in asked if watch.work._test()}
            if ended:
                for watch in ended:
                    watch.end()
                with self.condition:
                    self.watches = [watch for watch in self.watches if watch not in ended]
                pause = SHORTEST_PAUSE
                continue
            pause = min(1.5 * pause, LONGEST_PAUSE) if steps == _steps(asked) else SHORTEST_PAUSE
            time.sleep(pause)
            self._look(watches)

    def _look(self, watches: Sequence[Watch]) -> None:
        """Of each group its oldest call says that this process waits, and asks for all of them who is gone."""
        now, early = time.monotonic(), {}
        for watch in watches:
            if now > watch.next_look:
                group = watch.work.group
                early[group] = watch.look(now, early.get(group))


def _steps(watches: Sequence[Watch]) -> int:
    """How many steps of schedules have been done."""
    return sum(getattr(watch.work._request, "done", 0) for watch in watches)


_progress: Progress | None = None


def progress(work: Work) -> Work:
    """Let the thread take care of a work."""
    global _progress
    if not work._in_progress and not work._test():
        if _progress is None:
            _progress = Progress()
            _progress.start()
        work._in_progress = True
        _progress.add(work)
    return work
