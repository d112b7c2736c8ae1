"""`torch.backends.openmp`: threads are our own, not OpenMP's."""

from __future__ import annotations


def is_available() -> bool:
    """False."""
    return False
