"""Exchange of memory with other libraries through DLPack."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.ops.factories.construct import from_dlpack

__all__ = ["from_dlpack", "to_dlpack"]


def to_dlpack(tensor: Tensor) -> Any:
    """A DLPack capsule that shares the memory of `tensor`; it can be taken over once."""
    return tensor.__dlpack__()
