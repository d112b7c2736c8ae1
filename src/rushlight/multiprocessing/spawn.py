"""`spawn`: run a function in several processes, and hear of it when one of them fails."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
from collections.abc import Callable
from typing import Any

__all__ = [
    "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "spawn",
    "start_processes",
]  # fmt: skip


class ProcessException(Exception):
    """A process failed: `error_index` says which."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.error_pid = msg, error_index, pid

    def __reduce__(self) -> tuple:
        return type(self), (self.msg, self.error_index, self.error_pid)


class ProcessRaisedException(ProcessException):
    """A process raised; the message holds its traceback."""


class ProcessExitedException(ProcessException):
    """A process ended with another exit status than 0, or by a signal."""

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int,
        signal_name: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple:
        kind, given = super().__reduce__()
        return kind, (*given, self.exit_code, self.signal_name)


def _run(fn: Callable, i: int, args: tuple, errors: Any) -> None:
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent has it too
    except Exception:
        import sys
        import traceback

        errors.put(traceback.format_exc())
        if (joined := sys.modules.get("rushlight.distributed.world")) and joined.world:
            joined.world.failed = True  # it does not wait for the others
        sys.exit(1)


class ProcessContext:
    """The processes of one `spawn`; `join` waits for them."""

    def __init__(self, processes: list, errors: list) -> None:
        self.processes, self.error_queues = processes, errors

    def pids(self) -> list:
        """Their process numbers."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for a process to end; True when all have ended. Raises the exception of the first that failed."""
        running = {p.sentinel: k for k, p in enumerate(self.processes) if p.exitcode is None}
        ready = multiprocessing.connection.wait(list(running), timeout) if running else []
        ended = [running[s] for s in ready]
        for k in ended:
            self.processes[k].join()
        failed = [k for k, p in enumerate(self.processes) if p.exitcode not in (None, 0)]
        if not failed:
            return all(p.exitcode is not None for p in self.processes)
        for p in self.processes:
            if p.is_alive():
                p.terminate()
        for p in self.processes:
            p.join(grace_period)
            if p.is_alive():
                p.kill()
                p.join()
        self._raise(failed[0])
        return False

    def _raise(self, k: int) -> None:
        import signal

        process, code = self.processes[k], self.processes[k].exitcode
        if not self.error_queues[k].empty():
            text = f"\n\n-- Process {k} terminated with the following error:\n"
            raise ProcessRaisedException(text + self.error_queues[k].get(), k, process.pid)
        if code < 0:
            name = signal.Signals(-code).name
            raise ProcessExitedException(
                f"process {k} terminated with signal {name}", k, process.pid, code, name
            )
        raise ProcessExitedException(
            f"process {k} terminated with exit code {code}", k, process.pid, code
        )


def start_processes(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Run fn(i, *args) for i below `nprocs`, each in a process of its own; with `join` wait for all."""
    context = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for i in range(nprocs):
        queue = context.SimpleQueue()
        process = context.Process(target=_run, args=(fn, i, args, queue), daemon=daemon)
        process.start()
        processes.append(process)
        errors.append(queue)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` by the start method "spawn"."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
