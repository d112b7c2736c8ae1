"""`torch.backends.mha`: the setting of the fast path of attention modules, without effect."""

from __future__ import annotations

from rushlight.core.stub import stub

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled = True


def get_fastpath_enabled() -> bool:
    """The value that was set."""
    return _enabled


@stub("no-op", "Attention modules have one way of computing.")
def set_fastpath_enabled(value: bool) -> None:
    """Has no effect: there is one way to compute attention.

    >>> set_fastpath_enabled(False)
    >>> get_fastpath_enabled()
    False
    >>> set_fastpath_enabled(True)
    """
    global _enabled
    _enabled = value
