"""`torch.distributed.elastic`: what a script that the launcher starts says when it fails, and small things that scripts use.

Agents of PyTorch's launcher are not there, nor how its machines agree on numbers: run.py starts jobs.
"""

from __future__ import annotations

from rushlight.distributed.elastic.errors import (
    ChildFailedError,
    ErrorHandler,
    ProcessFailure,
    get_error_handler,
    record,
)
from rushlight.distributed.elastic.logs import DefaultLogsSpecs, Std

__all__ = [
    "ChildFailedError", "DefaultLogsSpecs", "ErrorHandler", "ProcessFailure", "Std", "get_error_handler", "record",
]  # fmt: skip
