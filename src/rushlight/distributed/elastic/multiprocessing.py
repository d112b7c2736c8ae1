"""`torch.distributed.elastic.multiprocessing`: processes of one machine that run a function or a program, and end together.

`DefaultLogsSpecs` says which of their streams go to files.
"""

from __future__ import annotations

import abc
import contextlib
import multiprocessing as standard
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from rushlight.distributed.elastic import errors
from rushlight.distributed.elastic.errors import (
    ChildFailedError,
    ErrorHandler,
    ProcessFailure,
    get_error_handler,
    record,
)
from rushlight.distributed.elastic.logs import DefaultLogsSpecs, LogsDest, LogsSpecs, Std, to_map
from rushlight.distributed.elastic.redirects import redirect, redirect_stderr, redirect_stdout
from rushlight.distributed.elastic.tail_log import TailLog
from rushlight.multiprocessing.spawn import (
    ProcessContext,
    ProcessException,
    ProcessRaisedException,
)
from rushlight.multiprocessing.spawn import (
    start_processes as start_functions,
)

__all__ = [
    "ChildFailedError", "DefaultLogsSpecs", "ErrorHandler", "LogsDest", "LogsSpecs", "MultiprocessContext", "PContext",
    "ProcessFailure", "RunProcsResult", "SignalException", "Std", "SubprocessContext", "errors", "get_error_handler", "record",
    "redirect", "redirect_stderr", "redirect_stdout", "start_processes", "to_map",
]  # fmt: skip

SIGNALS = "TORCHELASTIC_SIGNALS_TO_HANDLE"  # in the environment: those that raise SignalException


class SignalException(Exception):
    """A signal that asks this process to end: `sigval`."""

    def __init__(self, msg: str, sigval: signal.Signals) -> None:
        super().__init__(msg)
        self.sigval = sigval


def _terminate_process_handler(signum: int, frame: Any) -> None:
    """The handler of signals while processes run."""
    found = signal.Signals(signum)
    raise SignalException(f"Process {os.getpid()} got signal: {signum}", sigval=found)


def _validate_full_rank(d: dict[int, Any], nprocs: int, what: str) -> None:
    """RuntimeError if a dict does not have one entry for each process."""
    if set(d) != set(range(nprocs)) or not d:
        raise RuntimeError(
            f"{what}, local rank mapping mismatch, expected: {set(range(nprocs))}, actual: {set(d)}"
        )


@dataclass
class RunProcsResult:
    """What processes did, by their numbers: what functions returned, or how they failed; and the files that they wrote."""

    return_values: dict[int, Any] = field(default_factory=dict)
    failures: dict[int, ProcessFailure] = field(default_factory=dict)
    stdouts: dict[int, str] = field(default_factory=dict)
    stderrs: dict[int, str] = field(default_factory=dict)

    def is_failed(self) -> bool:
        """Whether a process failed."""
        return bool(self.failures)


class PContext(abc.ABC):
    """Processes of one machine. All have ended when one has failed, or when all are done."""

    def __init__(
        self, name: str, entrypoint: Callable | str, args: dict[int, tuple], envs: dict[int, dict[str, str]],
        logs_specs: LogsSpecs, log_line_prefixes: dict[int, str] | None = None,
        duplicate_stdout_filters: list[str] | None = None, duplicate_stderr_filters: list[str] | None = None,
    ) -> None:  # fmt: skip
        files = logs_specs.reify(envs)
        self.name, self.entrypoint, self.args, self.envs = name, entrypoint, args, envs
        self.nprocs = len(args)
        _validate_full_rank(files.stdouts, self.nprocs, "stdouts")
        _validate_full_rank(files.stderrs, self.nprocs, "stderrs")
        self.stdouts, self.stderrs, self.error_files = (
            files.stdouts,
            files.stderrs,
            files.error_files,
        )
        self._tail_logs = [
            TailLog(name, files.tee_stdouts, sys.stdout, log_line_prefixes),
            TailLog(name, files.tee_stderrs, sys.stderr, log_line_prefixes),
        ]
        self._opened = contextlib.ExitStack()
        for texts, path, shown in (
            (duplicate_stdout_filters, files.filtered_stdout, files.tee_stdouts),
            (duplicate_stderr_filters, files.filtered_stderr, files.tee_stderrs),
        ):
            if texts and path:
                made = open(path, "w", encoding="utf-8", buffering=1)  # noqa: SIM115  # `close` closes it
                file = self._opened.enter_context(made)
                self._tail_logs.append(
                    TailLog(name, shown, file, log_line_prefixes, log_line_filter=_with_one_of(texts))
                )  # fmt: skip
        self._handlers: dict[signal.Signals, Any] = {}

    def start(self) -> None:
        """Start the processes. In the main thread, signals that ask this one to end raise SignalException until `close`."""
        if threading.current_thread() is threading.main_thread():
            names = os.environ.get(SIGNALS, "SIGTERM,SIGINT,SIGHUP,SIGQUIT")
            for name in names.split(","):
                number = signal.Signals[name.strip()]
                self._handlers[number] = signal.signal(number, _terminate_process_handler)
        self._start()
        for each in self._tail_logs:
            each.start()

    @abc.abstractmethod
    def _start(self) -> None:
        """Start the processes."""

    @abc.abstractmethod
    def _poll(self) -> RunProcsResult | None:
        """What they did, None while they run."""

    def wait(self, timeout: float = -1, period: float = 1) -> RunProcsResult | None:
        """What they did, asked for every `period` seconds; None if they still run after so long. A negative time has no end."""
        end = time.monotonic() + timeout
        while True:
            if found := self._poll():
                return found
            if timeout >= 0 and time.monotonic() + period > end:
                time.sleep(max(0.0, end - time.monotonic()))
                return self._poll()
            time.sleep(period)

    @abc.abstractmethod
    def pids(self) -> dict[int, int]:
        """Their process numbers."""

    @abc.abstractmethod
    def _send(self, number: signal.Signals) -> bool:
        """Send a signal to those that still run; whether there are any."""

    @abc.abstractmethod
    def _running(self) -> bool:
        """Whether any still runs."""

    def close(self, death_sig: signal.Signals | None = None, timeout: int = 30) -> None:
        """End those that run, by a signal (SIGTERM), and those that are there after so many seconds by SIGKILL."""
        for number in (death_sig or signal.SIGTERM, signal.SIGKILL):
            if self._send(number):
                end = time.monotonic() + timeout
                while self._running() and time.monotonic() < end:
                    time.sleep(0.01)
        for each in self._tail_logs:
            each.stop()
        self._opened.close()
        while self._handlers:
            signal.signal(*self._handlers.popitem())


def _with_one_of(texts: list[str]) -> Callable[[str], bool]:
    return lambda line: any(text in line for text in texts)


class MultiprocessContext(PContext):
    """Processes that run a function, started by the standard library's multiprocessing."""

    def __init__(
        self, name: str, entrypoint: Callable, args: dict[int, tuple], envs: dict[int, dict[str, str]], start_method: str,
        logs_specs: LogsSpecs, log_line_prefixes: dict[int, str] | None = None, numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None, duplicate_stderr_filters: list[str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            name, entrypoint, args, envs, logs_specs, log_line_prefixes, duplicate_stdout_filters, duplicate_stderr_filters
        )  # fmt: skip
        _no_binding(numa_options)
        self.start_method, self._pc = start_method, None
        context = standard.get_context(start_method)
        self._ret_vals = {local: context.SimpleQueue() for local in range(self.nprocs)}
        self._read, self._return_values = context.Event(), {}

    _pc: ProcessContext | None
    _return_values: dict[int, Any]

    def _start(self) -> None:
        if self._pc is not None:
            raise ValueError("The process context already initialized: start() was called twice.")
        files = {"stdout": self.stdouts, "stderr": self.stderrs}
        given = (self.entrypoint, self.args, self.envs, files, self._ret_vals, self._read)
        self._pc = start_functions(
            _call, given, self.nprocs, join=False, start_method=self.start_method
        )

    def _poll(self) -> RunProcsResult | None:
        assert self._pc is not None
        try:
            self._pc.join(0, grace_period=30)
            for local, queue in self._ret_vals.items():
                if not queue.empty():
                    self._return_values[local] = queue.get()
            if len(self._return_values) < self.nprocs:
                return None
            self._read.set()
            while not self._pc.join(grace_period=30):
                pass
        except ProcessException as error:
            local, code = error.error_index, self._pc.processes[error.error_index].exitcode
            message = error.msg if isinstance(error, ProcessRaisedException) else ""
            failure = ProcessFailure(local, error.error_pid, code, self.error_files[local], message)
            self.close()
            return RunProcsResult({}, {local: failure}, self.stdouts, self.stderrs)
        self.close()
        return RunProcsResult(self._return_values, {}, self.stdouts, self.stderrs)

    def pids(self) -> dict[int, int]:
        """Their process numbers."""
        assert self._pc is not None
        return dict(enumerate(self._pc.pids()))

    def _send(self, number: signal.Signals) -> bool:
        running = [p for p in self._pc.processes if p.is_alive()] if self._pc else []
        for process in running:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.kill(process.pid, number)
        return bool(running)

    def _running(self) -> bool:
        return self._pc is not None and any(p.is_alive() for p in self._pc.processes)


def _call(
    local: int, fn: Callable, args: dict[int, tuple], envs: dict[int, dict[str, str]], files: dict[str, dict[int, str]],
    results: dict[int, Any], read: Any,
) -> None:  # fmt: skip
    """What each process runs. It ends when its value has been read, as tensors are in its memory, or with the one that started it."""
    os.environ.update(envs[local])
    for number in signal.Signals:  # a forked process has the handlers of the one that started it
        if signal.getsignal(number) is _terminate_process_handler:
            signal.signal(number, signal.SIG_DFL)
    with contextlib.ExitStack() as redirected:
        for name, paths in files.items():
            if paths[local]:
                redirected.enter_context(redirect(name, paths[local]))
        value = record(fn)(*args[local])
    results[local].put(value)
    parent = standard.parent_process()
    while not read.wait(1.0) and (parent is None or parent.is_alive()):
        pass


class SubprocessContext(PContext):
    """Processes that run a program, each with all that it starts in a group of its own."""

    def __init__(
        self, name: str, entrypoint: str, args: dict[int, tuple], envs: dict[int, dict[str, str]], logs_specs: LogsSpecs,
        log_line_prefixes: dict[int, str] | None = None, numa_options: Any = None,
        duplicate_stdout_filters: list[str] | None = None, duplicate_stderr_filters: list[str] | None = None,
    ) -> None:  # fmt: skip
        super().__init__(
            name, entrypoint, args, envs, logs_specs, log_line_prefixes, duplicate_stdout_filters, duplicate_stderr_filters
        )  # fmt: skip
        _no_binding(numa_options)
        self._processes: dict[int, subprocess.Popen] = {}

    def _start(self) -> None:
        if self._processes:
            raise ValueError("The processes are there already: start() was called twice.")
        assert isinstance(self.entrypoint, str)
        for local in range(self.nprocs):
            with contextlib.ExitStack() as opened:
                out, err = (
                    opened.enter_context(open(paths[local], "w")) if paths[local] else None
                    for paths in (self.stdouts, self.stderrs)
                )  # fmt: skip
                self._processes[local] = subprocess.Popen(
                    [self.entrypoint, *map(str, self.args[local])], env={**os.environ, **self.envs[local]},
                    stdout=out, stderr=err, process_group=0,
                )  # fmt: skip

    def _poll(self) -> RunProcsResult | None:
        codes = {local: process.poll() for local, process in self._processes.items()}
        if not any(codes.values()) and None in codes.values():
            return None
        failures = {k: self._failure(k) for k, code in codes.items() if code}
        self.close()  # those that still run come later: the first failure is the first of the earliest
        for k, process in self._processes.items():
            if process.returncode and k not in failures:
                failures[k] = self._failure(k)
        values = {} if failures else dict.fromkeys(self._processes)
        return RunProcsResult(values, failures, self.stdouts, self.stderrs)

    def _failure(self, local: int) -> ProcessFailure:
        process = self._processes[local]
        return ProcessFailure(local, process.pid, process.returncode, self.error_files[local])

    def pids(self) -> dict[int, int]:
        """Their process numbers."""
        return {local: process.pid for local, process in self._processes.items()}

    def _send(self, number: signal.Signals) -> bool:
        running = [p for p in self._processes.values() if p.poll() is None]
        for process in running:
            with contextlib.suppress(ProcessLookupError):  # it has ended since
                os.killpg(process.pid, number)
        return bool(running)

    def _running(self) -> bool:
        return any(process.poll() is None for process in self._processes.values())


def _no_binding(numa_options: Any) -> None:
    if numa_options is not None:
        raise RuntimeError("numa_options are for processors near GPUs: there are none")


def start_processes(
    name: str, entrypoint: Callable | str, args: dict[int, tuple], envs: dict[int, dict[str, str]], logs_specs: LogsSpecs,
    log_line_prefixes: dict[int, str] | None = None, start_method: str = "spawn", numa_options: Any = None,
    duplicate_stdout_filters: list[str] | None = None, duplicate_stderr_filters: list[str] | None = None,
) -> PContext:  # fmt: skip
    """Start a function, or a program by its path, once for each entry of `args`, which `envs` must have, too.

    >>> from rushlight.distributed.elastic.multiprocessing import DefaultLogsSpecs, start_processes
    >>> started = start_processes("echo", "true", {0: (), 1: ()}, {0: {}, 1: {}}, DefaultLogsSpecs("/dev/null"))
    >>> started.wait(period=0.01).return_values
    {0: None, 1: None}
    """
    _validate_full_rank(args, len(args), "args")
    _validate_full_rank(envs, len(args), "envs")
    more: dict[str, Any] = {} if isinstance(entrypoint, str) else {"start_method": start_method}
    kind: Any = SubprocessContext if isinstance(entrypoint, str) else MultiprocessContext
    context = kind(
        name, entrypoint, args, envs, logs_specs=logs_specs, log_line_prefixes=log_line_prefixes, numa_options=numa_options,
        duplicate_stdout_filters=duplicate_stdout_filters, duplicate_stderr_filters=duplicate_stderr_filters, **more,
    )  # fmt: skip
    try:
        context.start()
    except BaseException:
        context.close()
        raise
    return context
