"""`torch.storage`: the memory behind tensors, see core/storage.py."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtypes, storage
from rushlight.core.storage import TypedStorage, UntypedStorage

__all__ = ["TypedStorage", "UntypedStorage"]


def _dtype_to_storage_type_map() -> dict[dtypes.dtype, str]:
    """The name of the storage of each dtype, as older checkpoints have it: "FloatStorage" of float32."""
    return {d: f"{d.scalar_name}Storage" for d in dtypes.NAMED}


def __getattr__(name: str) -> Any:
    return getattr(storage, name)
