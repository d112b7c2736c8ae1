"""`torch._dynamo.exc`: what compiling raises."""

from __future__ import annotations

from rushlight.compiler.steps import Unsupported

__all__ = ["TorchDynamoException", "Unsupported"]

TorchDynamoException = RuntimeError
