"""`torch.distributed.elastic.multiprocessing.errors`: what a script that the launcher starts says when it fails."""

from __future__ import annotations

import faulthandler
import functools
import json
import logging
import os
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]

logger = logging.getLogger(__name__)
FILE = "TORCHELASTIC_ERROR_FILE"  # in the environment: where a process writes why it failed
NOTHING = "<N/A>"


class ErrorHandler:
    """Writes why a process failed to its file, if it has one."""

    def _get_error_file_path(self) -> str | None:
        return os.environ.get(FILE)

    def initialize(self) -> None:
        """Let a crash of the interpreter show where it was."""
        try:
            faulthandler.enable(all_threads=True)
        except Exception as error:  # there may be no stderr
            warnings.warn(f"Unable to enable fault handler. {type(error).__name__}: {error}")

    def record_exception(self, e: BaseException) -> None:
        """Write an exception, where it came from, and when."""
        information = {"py_callstack": traceback.format_exc(), "timestamp": str(int(time.time()))}
        text = f"{type(e).__name__}: {e}"
        self._write({"message": {"message": text, "extraInfo": information}})

    def dump_error_file(self, rootcause_error_file: str, error_code: int = 0) -> None:
        """Make what another process wrote this one's, with that one's exit status."""
        with open(rootcause_error_file, encoding="utf-8") as file:
            cause = json.load(file)
        if error_code:
            self.override_error_code_in_rootcause_data(rootcause_error_file, cause, error_code)
        self._write(cause)

    def override_error_code_in_rootcause_data(
        self, rootcause_error_file: str, rootcause_error: dict[str, Any], error_code: int = 0
    ) -> None:
        """Put an exit status into what another process wrote."""
        if "message" not in rootcause_error:
            logger.warning("no 'message' in %s: it has no exit status", rootcause_error_file)
        elif isinstance(rootcause_error["message"], str):
            logger.warning("'message' in %s has no exit status", rootcause_error_file)
        else:
            rootcause_error["message"]["errorCode"] = error_code

    def _write(self, content: dict[str, Any]) -> None:
        if (path := self._get_error_file_path()) is None:
            logger.error("no file for an error: %s", json.dumps(content, indent=2))
            return
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)


def get_error_handler() -> ErrorHandler:
    """The handler of errors."""
    return ErrorHandler()


@dataclass
class ProcessFailure:
    """A process that failed: its number on this machine, its process number, its exit status, and what it wrote about it."""

    local_rank: int
    pid: int
    exitcode: int
    error_file: str = NOTHING
    message: Any = ""
    error_file_data: dict[str, Any] = field(init=False, default_factory=dict)
    timestamp: int = field(init=False)

    def __post_init__(self) -> None:
        if os.path.isfile(self.error_file):
            with open(self.error_file, encoding="utf-8") as file:
                self.error_file_data = json.load(file)
            self.message = self.error_file_data["message"]
            within = (
                self.message["extraInfo"]
                if isinstance(self.message, dict)
                else self.error_file_data
            )
            self.timestamp = int(within["timestamp"])
            return
        self.error_file, self.timestamp = NOTHING, int(time.time())
        if not self.message and self.exitcode < 0:
            self.message = (
                f"Signal {-self.exitcode} ({self.signal_name()}) received by PID {self.pid}"
            )
        elif not self.message:
            self.message = (
                "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
            )

    def signal_name(self) -> str:
        """The signal that ended it."""
        return signal.Signals(-self.exitcode).name if self.exitcode < 0 else NOTHING

    def timestamp_isoformat(self) -> str:
        """When it failed."""
        return time.strftime("%Y-%m-%d_%H:%M:%S", time.localtime(self.timestamp))


class ChildFailedError(Exception):
    """Processes that `elastic_launch` started failed: `failures` has them by their ranks."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        if not failures:
            raise AssertionError("a failed job has processes that failed")
        self.name, self.failures = name, failures
        rows = (
            f"rank {rank} (process {each.pid}, exit status {each.exitcode}): {_text(each.message)}"
            for rank, each in sorted(failures.items(), key=lambda item: item[1].timestamp)
        )
        super().__init__("\n".join([f"{name} FAILED", *rows]))

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """(rank, failure) of the first one."""
        return min(self.failures.items(), key=lambda item: item[1].timestamp)


def _text(message: Any) -> str:
    """What a process wrote: where the exception came from, or just a text."""
    if not isinstance(message, dict):
        return str(message)
    return message.get("extraInfo", {}).get("py_callstack") or message.get("message", str(message))


def record(fn: Callable, error_handler: ErrorHandler | None = None) -> Callable:
    """A function whose exception is written to the file TORCHELASTIC_ERROR_FILE, if there is one, and raised.

    >>> from rushlight.distributed.elastic import record
    >>> record(lambda x: x + 1)(1)
    2
    """
    handler = error_handler or get_error_handler()

    @functools.wraps(fn)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        handler.initialize()
        try:
            return fn(*args, **kwargs)
        except SystemExit as end:
            if end.code == 0:
                return None
            raise
        except ChildFailedError as error:
            _, failure = error.get_first_failure()
            if failure.error_file != NOTHING:
                handler.dump_error_file(failure.error_file, failure.exitcode)
            raise
        except Exception as error:
            handler.record_exception(error)
            raise

    return recorded
