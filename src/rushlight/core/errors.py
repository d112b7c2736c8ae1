"""Exception classes of PyTorch's interface."""

from __future__ import annotations


class LinAlgError(RuntimeError):
    """A factorization or a solution does not exist, or was not found: `linalg.LinAlgError`."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"


class OutOfMemoryError(RuntimeError):
    """A device has no memory left: `torch.OutOfMemoryError`."""


def no_memory(error: MemoryError, size: int | None = None) -> RuntimeError:
    """What PyTorch raises where NumPy has no memory; programs that try smaller batches look for its words."""
    size = getattr(error, "_total_size", None) if size is None else size  # NumPy's errors know it
    tried = str(error) if size is None else f"you tried to allocate {size} bytes"
    return RuntimeError(f"DefaultCPUAllocator: can't allocate memory: {tried}")
