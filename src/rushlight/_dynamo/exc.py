"""`torch._dynamo.exc`: what compiling raises."""

from __future__ import annotations

from enum import Enum
from typing import Any

from rushlight.compiler import InvalidBackend
from rushlight.compiler.capture.steps import FailOnRecompileLimitHit, RecompileError, Unsupported

__all__ = [
    "FailOnRecompileLimitHit", "InvalidBackend", "RecompileError", "TorchDynamoException", "Unsupported", "UserError",
    "UserErrorType",
]  # fmt: skip

TorchDynamoException = RuntimeError

UserErrorType = Enum(
    "UserErrorType",
    "DYNAMIC_CONTROL_FLOW ANTI_PATTERN STANDARD_LIBRARY CONSTRAINT_VIOLATION DYNAMIC_DIM INVALID_INPUT INVALID_OUTPUT "
    "UNSUPPORTED_ALIASED_MUTATED_DYNAMIC_INPUTS",
)


class UserError(TorchDynamoException):
    """A program that cannot become a graph as it is called."""

    def __init__(self, error_type: UserErrorType, msg: str, case_name: Any = None) -> None:
        super().__init__(msg)
        self.error_type, self.msg, self.message = error_type, msg, msg
