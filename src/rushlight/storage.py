"""`torch.storage`: the memory behind tensors, see core/storage.py."""

from __future__ import annotations

from typing import Any

from rushlight.core import storage
from rushlight.core.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def __getattr__(name: str) -> Any:
    return getattr(storage, name)
