"""`torch.cuda.memory`: the memory functions of `torch.cuda`."""

from __future__ import annotations

from typing import Any

from rushlight.cuda import (
    empty_cache,
    max_memory_allocated,
    max_memory_reserved,
    memory_allocated,
    memory_reserved,
    memory_stats,
)

__all__ = [
    "empty_cache", "max_memory_allocated", "max_memory_reserved", "memory_allocated",
    "memory_reserved", "memory_stats",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """The others: `mem_get_info`, `memory_summary`, `reset_peak_memory_stats`..."""
    from rushlight import cuda

    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(cuda, name)
