"""`torch._dynamo.eval_frame`: where programs find `OptimizedModule`, and ask whether anything compiles."""

from __future__ import annotations

from rushlight.compiler.optimized_module import OptimizedModule

__all__ = ["OptimizedModule", "is_dynamo_supported"]


def is_dynamo_supported() -> bool:
    """True: `torch.compile` runs on every Python that Rushlight runs on."""
    return True
