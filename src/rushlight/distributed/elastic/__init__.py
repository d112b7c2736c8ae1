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

__all__ = ["ChildFailedError", "ErrorHandler", "ProcessFailure", "get_error_handler", "record"]
