"""`torch.distributed.elastic.multiprocessing.errors`: what a script that the launcher starts says when it fails."""

from __future__ import annotations

import functools
import json
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["ChildFailedError", "ProcessFailure", "record"]


@dataclass
class ProcessFailure:
    """A process that failed: its number on this machine, its process number, its exit status, and why."""

    local_rank: int
    pid: int
    exitcode: int
    message: str
    error_file: str = "<N/A>"


class ChildFailedError(Exception):
    """Processes that `elastic_launch` started failed: `failures` has them by their ranks."""

    def __init__(self, name: str, failures: dict[int, ProcessFailure]) -> None:
        rows = (
            f"rank {rank} (process {each.pid}, exit status {each.exitcode}): {each.message}"
            for rank, each in failures.items()
        )
        super().__init__("\n".join([f"{name} FAILED", *rows]))
        self.name, self.failures = name, failures

    def get_first_failure(self) -> tuple[int, ProcessFailure]:
        """(rank, failure) of the first one."""
        return next(iter(self.failures.items()))


def record(fn: Callable, error_handler: Any = None) -> Callable:
    """A function whose exception is written to the file TORCHELASTIC_ERROR_FILE, if there is one, and raised.

    >>> from rushlight.distributed.elastic import record
    >>> record(lambda x: x + 1)(1)
    2
    """

    @functools.wraps(fn)
    def recorded(*args: Any, **kwargs: Any) -> Any:
        try:
            return fn(*args, **kwargs)
        except Exception as error:
            if path := os.environ.get("TORCHELASTIC_ERROR_FILE"):
                information = {
                    "py_callstack": traceback.format_exc(), "timestamp": str(int(time.time())),
                }  # fmt: skip
                text = f"{type(error).__name__}: {error}"
                with open(path, "w", encoding="utf-8") as file:
                    json.dump({"message": {"message": text, "extraInfo": information}}, file)
            raise

    return recorded
