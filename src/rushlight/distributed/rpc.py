"""`torch.distributed.rpc`: calls between processes, which are not here; a program may ask."""

from __future__ import annotations

__all__ = ["is_available"]


def is_available() -> bool:
    """False.

    >>> is_available()
    False
    """
    return False
