"""`torch.backends.mps`: there is no Apple GPU."""

from __future__ import annotations


def is_available() -> bool:
    """False: Rushlight computes on the CPU."""
    return False


def is_built() -> bool:
    """False: Rushlight computes on the CPU."""
    return False


def is_macos13_or_newer(minor: int = 0) -> bool:
    """False: there is no Apple GPU."""
    return False


is_macos_or_newer = is_macos13_or_newer
