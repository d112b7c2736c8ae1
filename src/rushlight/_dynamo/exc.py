"""`torch._dynamo.exc`: what compiling raises."""

from __future__ import annotations

from rushlight.compiler.steps import FailOnRecompileLimitHit, RecompileError, Unsupported

__all__ = ["FailOnRecompileLimitHit", "RecompileError", "TorchDynamoException", "Unsupported"]

TorchDynamoException = RuntimeError
