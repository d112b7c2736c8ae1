"""Exception classes of PyTorch's interface, and assertion functions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any


class LinAlgError(RuntimeError):
    """A factorization or a solution does not exist, or was not found: `linalg.LinAlgError`."""


LinAlgError.__name__ = LinAlgError.__qualname__ = "_LinAlgError"


class OutOfMemoryError(RuntimeError):
    """A device has no memory left: `torch.OutOfMemoryError`."""


def _assert_async(value: Any, message: str = "") -> None:
    """RuntimeError with `message` unless the one element of the tensor is true."""
    if not value:
        raise RuntimeError(message or "Expected Tensor with single nonzero value, but got zero")
