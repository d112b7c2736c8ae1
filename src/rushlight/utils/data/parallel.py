"""The iterator over a loader with workers: tasks for the workers, and batches in order."""

from __future__ import annotations

import itertools
import time
import weakref
from typing import Any

from rushlight.utils.data.dataloader import _BaseDataLoaderIter
from rushlight.utils.data.worker import END, ERROR, Job, NewEpoch
from rushlight.utils.data.worker_pool import Answer, Processes, Threads

__all__ = ["_MultiProcessingDataLoaderIter"]

# Seconds between two checks whether the workers are alive while no answer arrives. A killed worker closes
# its connection, unless a process that it started holds it open.
LOOK = 1.0


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """Batches that workers load ahead, `prefetch_factor` each.

    Tasks are numbered in the sampler's order and go to the workers in turn; a worker whose part of
    an iterable data set is exhausted gets no more tasks. Answers that arrive early wait.
    """

    def __init__(self, loader: Any) -> None:
        super().__init__(loader)
        ahead = loader.prefetch_factor
        if ahead < 1:
            raise AssertionError(
                f"prefetch_factor must be greater than 0 with workers, but got {ahead}"
            )
        self._most = ahead * self._num_workers
        self._in_order, self._timeout = loader.in_order, loader.timeout
        self._persistent = loader.persistent_workers
        self._iterable = loader._iterable
        self._owner = weakref.ref(loader)
        job = Job(
            loader.dataset,
            loader._iterable,
            loader._auto_collation,
            loader.collate_fn,
            loader.drop_last,
            loader.worker_init_fn,
            self._num_workers,
            self._base_seed,
        )
        if loader.worker_method == "thread":
            self._pool: Any = Threads(job)
        else:
            self._pool = Processes(job, loader.multiprocessing_context, ahead)
        # Runs when the iterator is dropped, in the middle or at the end, and when Python ends.
        self._end = weakref.finalize(self, self._pool.stop)
        self._epoch = 0
        self._error: str | None = None
        self._begin()

    @property
    def _workers(self) -> list[Any]:
        """The processes that load."""
        return list(getattr(self._pool, "processes", ()))

    def _reset(self, loader: Any) -> None:
        """Another epoch with the workers that are there."""
        self._begin_epoch(loader)
        self._epoch += 1
        for i in range(self._num_workers):
            self._pool.put(i, NewEpoch(self._epoch))
        self._begin()

    def _begin(self) -> None:
        self._turn = itertools.cycle(range(self._num_workers))
        self._running = [True] * self._num_workers
        self._given = [0] * self._num_workers  # tasks without an answer
        self._sent = self._next = 0
        self._task: dict[int, int] = {}  # number of a task -> its worker, until it is yielded
        self._early: dict[int, Answer] = {}
        for _ in range(self._most):
            self._send()

    def _send(self) -> None:
        """Send the next item of the sampler to the next worker."""
        try:
            item = next(self._sampler_iter)
        except StopIteration:
            return
        for _ in range(self._num_workers):
            worker = next(self._turn)
            if self._running[worker] and (
                self._in_order or self._given[worker] < self._most // sum(self._running)
            ):
                break
        else:
            return
        self._pool.put(worker, (self._epoch, self._sent, item))
        self._task[self._sent] = worker
        self._given[worker] += 1
        self._sent += 1

    def _next_data(self) -> Any:
        if self._error is not None:
            raise RuntimeError(self._error)
        try:
            return self._take()
        except KeyboardInterrupt:
            # The interrupt may have come between drawing an item and sending it: continuing would lose a batch.
            self._error = "DataLoader was interrupted; the next `iter(loader)` begins anew"
            self._leave()
            raise

    def _take(self) -> Any:
        while True:
            # Tasks of exhausted workers stay without an answer.
            while self._next < self._sent:
                worker = self._task.get(self._next)
                if worker is not None:
                    if self._next in self._early or self._running[worker]:
                        break
                    del self._task[self._next]
                self._next += 1
            else:
                if not self._persistent:
                    self._end()
                raise StopIteration
            answer = self._early.pop(self._next, None)
            if answer is None:
                answer = self._receive()
                if answer.outcome == END:
                    self._running[answer.worker] = False
                    self._send()
                    continue
                if self._in_order and answer.number != self._next:
                    self._early[answer.number] = answer
                    continue
            del self._task[answer.number]
            if answer.number == self._next:
                self._next += 1
            self._send()
            data = answer.data()
            if answer.outcome == ERROR:
                data.reraise()
            return data

    def _receive(self) -> Answer:
        """The next answer of this epoch; RuntimeError for a dead worker or after the timeout."""
        end = time.monotonic() + self._timeout if self._timeout > 0 else float("inf")
        while True:
            left = end - time.monotonic()
            answer = self._pool.get(max(0.0, min(left, LOOK)))
            if answer is None:
                if failed_workers := self._pool.failed_workers():
                    # Its last answer may have arrived in the meantime.
                    answer = self._pool.get(0.0)
                    if answer is None:
                        self._give_up(failed_workers)
                elif left <= LOOK and time.monotonic() >= end:
                    raise RuntimeError(
                        f"DataLoader timed out after {self._timeout} seconds: no worker sent a "
                        "batch. Load faster, or raise `timeout`."
                    )
            if answer is not None and answer.epoch == self._epoch:
                self._given[answer.worker] -= 1
                return answer

    def _give_up(self, failed_workers: dict[int, str]) -> None:
        ids = ", ".join(map(str, failed_workers))
        reasons = "; ".join(dict.fromkeys(failed_workers.values()))
        self._error = f"DataLoader worker (pid(s) {ids}) exited unexpectedly: {reasons}"
        self._leave()
        raise RuntimeError(self._error)

    def _leave(self) -> None:
        """End the workers; the loader's next epoch starts with new ones."""
        loader = self._owner()
        if loader is not None and loader._iterator is self:
            loader._iterator = None
        self._end()
