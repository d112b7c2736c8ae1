"""`torch.distributed.tensor.experimental`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rushlight.distributed.tensor import dispatch

__all__ = ["implicit_replication"]


@contextmanager
def implicit_replication() -> Iterator[None]:
    """A block in which plain tensors beside spread ones are taken for the same everywhere."""
    dispatch.implicit += 1
    try:
        yield
    finally:
        dispatch.implicit -= 1
