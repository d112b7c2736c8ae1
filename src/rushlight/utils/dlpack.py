"""Exchange of memory with other libraries through DLPack."""

from __future__ import annotations

from rushlight.ops.factories.construct import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
