"""`torch.multiprocessing`: the standard library's, and `spawn`.

A tensor that goes to another process moves to shared memory: both see each other's writes.
"""

from __future__ import annotations

import multiprocessing as _standard
from typing import Any

from rushlight.core.stub import stub
from rushlight.multiprocessing.reductions import init_reductions
from rushlight.multiprocessing.spawn import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    spawn,
    start_processes,
)

__all__ = [
    "ProcessContext", "ProcessExitedException", "ProcessRaisedException",
    "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn",
    "start_processes",
]  # fmt: skip

__all__ += _standard.__all__  # documented there, as far as they are
globals().update({name: getattr(_standard, name) for name in _standard.__all__})
SpawnContext = ProcessContext
init_reductions()
_strategy = "file_system"


def get_all_sharing_strategies() -> set[str]:
    """The names of the sharing strategies."""
    return {"file_descriptor", "file_system"}


def get_sharing_strategy() -> str:
    """The sharing strategy that was set."""
    return _strategy


@stub("no-op", "Tensors go to other processes as descriptors of memory without a name.")
def set_sharing_strategy(new_strategy: str) -> None:
    """Accepted without effect: tensors are always passed as descriptors of anonymous memory."""
    global _strategy
    if new_strategy not in get_all_sharing_strategies():
        raise AssertionError(
            f"unknown sharing strategy {new_strategy!r}, expected one of "
            f"{sorted(get_all_sharing_strategies())}"
        )
    _strategy = new_strategy


def __getattr__(name: str) -> Any:
    if name == "Process":
        return _standard.Process
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
