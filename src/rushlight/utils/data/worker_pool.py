"""The pool of a loader's workers: the parent starts them, sends tasks, receives answers and stops them.

`Processes` and `Threads` have the same four methods: `put(worker, task)`, `get(timeout)` for the
next answer of any worker (None after a timeout), `failed_workers()` for those that ended unexpectedly, and `stop()`.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from rushlight.utils.data import worker as workers
from rushlight.utils.data.shared import Blocks, loads

__all__ = ["Answer", "Processes", "Threads"]


class Answer(NamedTuple):
    """The answer of a worker to one task; `data()` returns the batch."""

    worker: int
    epoch: int
    number: int
    outcome: int
    data: Any


class Processes:
    """Worker processes, a connection to each.

    A killed worker's end closes, and the parent notices at once; `stop` shuts the connection down,
    and a worker notices at its next read or write. So there is no lock or semaphore that a killed
    process could leave locked.
    """

    # Seconds that `stop` waits for the workers before it terminates, and then kills them.
    GRACE, TERM = 5.0, 1.0

    def __init__(self, job: workers.Job, context: Any, ahead: int) -> None:
        import multiprocessing

        # Imported here once for all forked workers, which seed it.
        import numpy.random  # noqa: F401

        context = context or multiprocessing.get_context()
        self.owner = os.getpid()
        self.processes: list[Any] = []
        self.connections: list[Any] = []
        self.sockets: list[Any] = []
        self.blocks: list[Blocks] = []
        self.inbox: deque[Answer] = deque()
        self.closed: dict[int, str] = {}  # workers whose connection is closed, and the reason
        limit = max(2 * ahead, 256 // job.workers)
        try:
            for number in range(job.workers):
                here, there = context.Pipe()
                try:
                    self.connections.append(here)
                    self.sockets.append(workers.socket_of(here))
                    forked = context.get_start_method() == "fork"
                    foreign = list(self.connections) if forked else []
                    foreign += [s for s in self.sockets if s is not None] if forked else []
                    process = context.Process(
                        target=workers.run_process,
                        args=(job, number, there, foreign, limit, ahead + 2),
                        daemon=True,
                    )
                    with _uninterrupted(context.get_start_method()):
                        process.start()
                        self.processes.append(process)
                        self.blocks.append(Blocks())
                finally:
                    there.close()
        except BaseException:
            self.stop()
            raise

    def put(self, worker: int, task: Any) -> None:
        """Send a task and the numbers of freed blocks to a worker; do nothing if it has ended."""
        if worker in self.closed:
            return
        try:
            self.connections[worker].send((task, *self.blocks[worker].returns()))
        except (BrokenPipeError, ConnectionResetError):
            pass  # `get` detects the closed connection and reports it
        except BaseException:
            # Ctrl-C interrupted a message: the worker would read later data as the rest of it.
            self.closed[worker] = "a message to it was interrupted"
            raise

    def get(self, timeout: float) -> Answer | None:
        """The next answer; None after `timeout` seconds or when a worker has ended."""
        if not self.inbox:
            from multiprocessing.connection import wait

            open_ends = [c for i, c in enumerate(self.connections) if i not in self.closed]
            ready = wait(open_ends, timeout)
            for i, connection in enumerate(self.connections):
                if connection in ready:
                    try:
                        self._receive(i)
                    except (EOFError, ConnectionResetError):
                        self.closed[i] = "it closed its connection"
                    except BaseException:
                        self.closed[i] = "a message from it was interrupted"
                        raise
        return self.inbox.popleft() if self.inbox else None

    def _receive(self, worker: int) -> None:
        import pickle

        epoch, number, outcome, message, locations, new, dropped = pickle.loads(
            self.connections[worker].recv_bytes()
        )
        blocks = self.blocks[worker]
        if new:
            import socket

            mark, descriptors, _, _ = socket.recv_fds(self.sockets[worker], 1, len(new))
            if not mark:
                raise EOFError
            if len(descriptors) < len(new):
                for descriptor in descriptors:
                    os.close(descriptor)
                raise RuntimeError(
                    "DataLoader: no file descriptors left to receive a batch in shared memory. "
                    "Raise the limit (`ulimit -n`), or keep fewer batches at a time."
                )
            for (block, size), descriptor in zip(new, descriptors, strict=True):
                blocks.add(block, size, descriptor)
        blocks.forget(dropped)
        buffers = blocks.buffers(locations)
        self.inbox.append(Answer(worker, epoch, number, outcome, lambda: loads(message, buffers)))

    def failed_workers(self) -> dict[int, str]:
        """The process ids of workers that ended unexpectedly, each with the reason."""
        found = {}
        for i, process in enumerate(self.processes):
            if i in self.closed:
                process.join(1.0)  # its end of the connection closes shortly before it is gone
            if not process.is_alive() or i in self.closed:
                found[process.pid] = _how(process.pid, process.exitcode) or self.closed[i]
        return found

    def stop(self) -> None:
        """Stop all workers; kill those that do not stop in time."""
        import socket

        connections, self.connections = self.connections, []
        sockets, self.sockets = self.sockets, []
        processes, self.processes = self.processes, []
        self.inbox.clear()
        # In a forked process these workers and connections are still the parent's.
        if os.getpid() == self.owner:
            for connection, sock in zip(connections, sockets, strict=False):
                try:
                    if sock is not None:
                        sock.shutdown(socket.SHUT_RDWR)
                    else:
                        connection.send((None, [], []))
                except OSError:
                    pass  # the worker is dead
            for sock in sockets:
                if sock is not None:
                    sock.close()
            for connection in connections:
                connection.close()
            end = time.monotonic() + self.GRACE
            for process in processes:
                process.join(max(0.0, end - time.monotonic()))
            late = [process for process in processes if process.is_alive()]
            for process in late:
                process.terminate()
            end = time.monotonic() + self.TERM
            for process in late:
                process.join(max(0.0, end - time.monotonic()))
                if process.is_alive():
                    process.kill()
                    process.join()


@contextmanager
def _uninterrupted(method: str) -> Iterator[None]:
    """Block SIGINT (Ctrl-C) in this thread and in a process that it starts.

    A worker ignores SIGINT, but only once it runs; until then it inherits this mask, which
    `run_process` removes. A fork server would pass the mask to all its processes.
    """
    import signal

    if method == "forkserver" or not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _how(pid: int | None, code: int | None) -> str:
    """How a process ended, where that is known; a signal in PyTorch's words, which people search for."""
    import signal

    if code is None:
        return ""
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        what = f"{signal.strsignal(-code)} ({signal.Signals(-code).name})"
    except ValueError:
        what = str(-code)
    hint = ". Was there enough memory?" if -code == signal.SIGKILL else ""
    return f"DataLoader worker (pid {pid}) is killed by signal: {what}{hint}"


class _ThreadChannel:
    def __init__(self, worker: int, answers: Any, stopped: threading.Event) -> None:
        import queue

        self.worker, self.answers, self.stopped = worker, answers, stopped
        self.tasks: Any = queue.SimpleQueue()

    def get(self) -> Any:
        task = self.tasks.get()
        return None if self.stopped.is_set() else task

    def put(self, answer: tuple) -> None:
        epoch, number, outcome, data = answer
        self.answers.put(Answer(self.worker, epoch, number, outcome, lambda: data))


class Threads:
    """Worker threads: nothing is copied or pickled, but only one of them runs Python code at a time.

    They help where loading waits for files or runs code that releases the GIL: image decoding,
    large copies. All of them share the data set and the random generators.
    """

    GRACE = 5.0

    def __init__(self, job: workers.Job) -> None:
        import queue

        self.answers: Any = queue.SimpleQueue()
        self.stopped = threading.Event()
        self.channels = [_ThreadChannel(i, self.answers, self.stopped) for i in range(job.workers)]
        self.threads = [
            threading.Thread(
                target=workers.run_thread,
                args=(job, i, channel),
                name=f"DataLoader worker {i}",
                daemon=True,  # a thread that hangs must not keep the process alive
            )
            for i, channel in enumerate(self.channels)
        ]
        for thread in self.threads:
            thread.start()

    def put(self, worker: int, task: Any) -> None:
        """Give a task to a worker."""
        self.channels[worker].tasks.put(task)

    def get(self, timeout: float) -> Answer | None:
        """The next answer; None after `timeout` seconds."""
        import queue

        try:
            return self.answers.get(timeout=timeout)
        except queue.Empty:
            return None

    def failed_workers(self) -> dict[int, str]:
        """The ids of threads that ended unexpectedly (by SystemExit, for instance), each with the reason."""
        return {t.native_id: "the thread ended" for t in self.threads if not t.is_alive()}

    def stop(self) -> None:
        """Stop all workers; a thread that hangs stays behind as a daemon."""
        self.stopped.set()
        for channel in self.channels:
            channel.tasks.put(None)
        end = time.monotonic() + self.GRACE
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, end - time.monotonic()))
        self.threads = []
