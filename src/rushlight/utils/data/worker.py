"""The main loop of a worker process or thread: seed it, then fetch one batch per task.

A worker reads tasks from a channel and answers on it. A task is `(epoch, number, item)`: fetch the
batch for that item of the sampler; or `NewEpoch(epoch)`: another epoch begins; or None: end. Every
answer is `(epoch, number, outcome, data)`, with an outcome of `DATA`, `ERROR` (the data is a
`WorkerError`) or `END` (the worker's part of an iterable data set is exhausted; further tasks of the
epoch get no answer).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.utils.data.fetch import make_fetcher

__all__ = ["NewEpoch", "Job", "WorkerError", "WorkerInfo", "get_worker_info", "run_process", "work"]

DATA, ERROR, END = range(3)
# Seconds between two checks whether the parent is alive, and seconds that a worker may continue its
# present task after it was told to stop.
LOOK, GRACE = 1.0, 5.0

_thread = threading.local()
_worker_info: Any = None


class WorkerInfo:
    """The worker's own number, seed and data set, for `get_worker_info`.

    `id`, `num_workers`, `seed`, and its copy of the `dataset`; `worker_method`: "multiprocessing" or
    "thread"; `rng`: None in a process, whose generators are all seeded, and in a thread generators of
    its own, `random_generator`, `torch_generator` and `numpy_generator`.
    """

    def __init__(self, **fields: Any) -> None:
        self.__dict__.update(fields)

    def __setattr__(self, name: str, value: Any) -> None:
        from dataclasses import FrozenInstanceError

        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"


def _info(job: Job, worker: int, rng: Any, method: str) -> WorkerInfo:
    return WorkerInfo(
        id=worker,
        num_workers=job.workers,
        seed=job.base_seed + worker,
        dataset=job.dataset,
        rng=rng,
        worker_method=method,
    )


class RNG(NamedTuple):
    """The generators of one worker thread: those of the process belong to all threads."""

    random_generator: Any
    torch_generator: Any
    numpy_generator: Any


def get_worker_info() -> WorkerInfo | None:
    """The `WorkerInfo` of the worker that this is called in; None elsewhere."""
    return getattr(_thread, "info", None) or _worker_info


class NewEpoch(NamedTuple):
    """A task: another epoch begins."""

    epoch: int


class Job(NamedTuple):
    """The settings that all workers of a loader share."""

    dataset: Any
    iterable: bool
    batched: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    init_fn: Callable[[int], None] | None
    workers: int
    base_seed: int


class WorkerError:
    """An exception with its traceback as text, to be raised again in the parent."""

    def __init__(self, error: BaseException, where: str) -> None:
        import pickle
        import traceback

        # The name and the class are sent separately: the message arrives even if the class cannot be pickled.
        self.name, self.where = type(error).__name__, where
        self.text = "".join(traceback.format_exception(error))
        try:
            self.kind = pickle.dumps(type(error))
        except Exception:
            self.kind = b""

    def reraise(self) -> None:
        """Raise the worker's exception, in its own class if that takes a message as the only argument."""
        import pickle

        try:
            kind = pickle.loads(self.kind) if self.kind else RuntimeError
        except Exception:
            kind = RuntimeError
        raise raised_elsewhere(kind, f"Caught {self.name} {self.where}.\nOriginal {self.text}")


def raised_elsewhere(kind: type, message: str) -> BaseException:
    """An exception with that message, of its class if that takes a message as the only argument."""
    if kind is KeyError:
        message = _Text(message)
    try:
        return kind(message)
    except Exception:
        return RuntimeError(message)  # UnicodeDecodeError, for instance, needs five arguments


class _Text(str):
    """A string whose repr is itself: KeyError shows the repr of its argument, in one line."""

    def __repr__(self) -> str:
        return str(self)


def seed(job: Job, worker: int) -> None:
    """Seed the generators of this process with PyTorch's seeds for this worker."""
    import random

    import numpy as np

    import rushlight

    random.seed(job.base_seed + worker)
    rushlight.manual_seed(job.base_seed + worker)
    # The generator behind `np.random.rand` and its like, which data sets use.
    np.random.seed(_generate_state(job.base_seed, worker))  # noqa: NPY002


def _numpy_seed(base_seed: int, worker: int) -> Any:
    import numpy as np

    words = [worker, base_seed & 0xFFFFFFFF, base_seed >> 32, 0]
    return np.random.SeedSequence(words)


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """The four words that seed NumPy in a worker; PyTorch's name."""
    return _numpy_seed(base_seed, worker_id).generate_state(4).tolist()


def own_generators(job: Job, worker: int) -> RNG:
    """Generators for a worker thread, with the seeds that a process would have."""
    import random

    import numpy as np

    import rushlight

    number = job.base_seed + worker
    generator = rushlight.Generator().manual_seed(number)
    return RNG(
        random.Random(number), generator, np.random.default_rng(_numpy_seed(job.base_seed, worker))
    )


def work(job: Job, worker: int, channel: Any, where: str) -> None:
    """Answer the tasks of the channel until one is None."""
    dataset = job.dataset
    prepared = failed = fetch = None
    ended = False
    while (task := channel.get()) is not None:
        if not prepared:
            prepared = True
            try:
                if job.init_fn is not None:
                    job.init_fn(worker)
                fetch = make_fetcher(
                    dataset, job.iterable, job.batched, job.collate_fn, job.drop_last
                )
            except Exception as error:
                failed = WorkerError(error, where)
        if isinstance(task, NewEpoch):
            ended = False
            try:
                fetch = make_fetcher(
                    dataset, job.iterable, job.batched, job.collate_fn, job.drop_last
                )
            except Exception as error:
                failed = WorkerError(error, where)
            continue
        if ended:
            continue
        epoch, number, item = task
        if failed is not None:
            channel.put((epoch, number, ERROR, failed))
            continue
        try:
            data = fetch(item)
        except Exception as error:
            if job.iterable and isinstance(error, StopIteration):
                ended = True
                channel.put((epoch, number, END, None))
            else:
                channel.put((epoch, number, ERROR, WorkerError(error, where)))
            del error
            continue
        try:
            channel.put((epoch, number, DATA, data))
        except (BrokenPipeError, ConnectionResetError):
            raise
        except Exception as error:  # the batch cannot be pickled
            channel.put((epoch, number, ERROR, WorkerError(error, where)))
        del data


class ProcessChannel:
    """The worker's side of the connection: it receives tasks and sends batches.

    A separate thread reads the tasks. So the parent never waits to send one, and a worker that is busy
    (or hangs in the user's code) notices that its parent has ended.
    """

    def __init__(self, connection: Any, limit: int, keep: int) -> None:
        import queue

        from rushlight.utils.data import collate, shared

        self.connection = connection
        self.tasks: Any = queue.SimpleQueue()
        self.socket = socket_of(connection)
        self.arena = collate.arena = shared.Arena(limit, keep) if self.socket else None
        self.closed = False
        threading.Thread(target=self._read, args=(os.getppid(),), daemon=True).start()

    def _read(self, parent: int) -> None:
        try:
            while True:
                while not self.connection.poll(LOOK):
                    # Another process may hold the parent's end open; then the parent's death does not close it.
                    if os.getppid() != parent:
                        raise EOFError
                task, reuse, drop = self.connection.recv()
                if self.arena is not None:
                    self.arena.returned(reuse, drop)
                self.tasks.put(task)
                if task is None:
                    break
        except Exception:
            # Mostly the end of the connection. After half a message nothing that follows makes sense.
            self.tasks.put(None)
        self.closed = True
        # The main thread ends by itself when it asks for the next task; a dead parent cannot end one
        # that never asks.
        import time

        end = time.monotonic() + GRACE
        while time.monotonic() < end or os.getppid() == parent:
            time.sleep(LOOK)
        os._exit(1)

    def get(self) -> Any:
        task = self.tasks.get()
        return None if self.closed else task

    def put(self, answer: tuple) -> None:
        import pickle

        from rushlight.utils.data import shared

        epoch, number, outcome, data = answer
        try:
            message, locations = shared.dumps(data, self.arena)
        except BaseException:
            if self.arena is not None:
                self.arena.finish(False)
            raise
        new: list = []
        dropped: list = []
        descriptors: list = []
        if self.arena is not None:
            self.arena.finish(bool(locations))
            new, dropped, descriptors = self.arena.news()
        try:
            head = (epoch, number, outcome, message, locations, new, dropped)
            self.connection.send_bytes(pickle.dumps(head, 5))
            if descriptors:
                import socket

                socket.send_fds(self.socket, [b"f"], descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)


def socket_of(connection: Any) -> Any:
    """The Unix socket of a connection, which can pass file descriptors; None if it has none."""
    import socket

    if not hasattr(socket, "send_fds"):
        return None
    return socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, fileno=os.dup(connection.fileno()))


def run_process(
    job: Job, worker: int, connection: Any, foreign: list[Any], limit: int, keep: int
) -> None:
    """The main function of a worker process; `foreign`: the parent's ends that a fork brought along."""
    global _worker_info
    import signal

    import rushlight

    # Ctrl-C reaches all processes of a terminal: the parent handles it and stops its workers.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    # A fork inherits the parent's signal handlers; `terminate` must end this process.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    for end in foreign:
        end.close()
    rushlight.set_num_threads(1)
    seed(job, worker)
    _worker_info = _info(job, worker, None, "multiprocessing")
    channel = ProcessChannel(connection, limit, keep)
    try:
        work(job, worker, channel, f"in DataLoader worker process {worker}")
    except (BrokenPipeError, ConnectionResetError):
        pass  # the parent asked the worker to stop
    # The descriptors that were not sent are closed when the process ends.


def run_thread(job: Job, worker: int, channel: Any) -> None:
    """The main function of a worker thread. It seeds nothing: its generators are in its info."""
    _thread.info = _info(job, worker, own_generators(job, worker), "thread")
    work(job, worker, channel, f"in DataLoader worker thread {worker}")
