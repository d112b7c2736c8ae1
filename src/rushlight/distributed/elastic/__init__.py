"""`torch.distributed.elastic`: agents that start processes again, what scripts say when they fail, and small things that they use.

`rushlight run` starts jobs without it (run.py).
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
