"""Exception classes of PyTorch's interface."""

from __future__ import annotations


class LinAlgError(RuntimeError):
    """A factorization or a solution does not exist, or was not found: `linalg.LinAlgError`."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"


class OutOfMemoryError(RuntimeError):
    """A device has no memory left: `torch.OutOfMemoryError`."""
