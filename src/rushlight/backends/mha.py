"""`torch.backends.mha`: the fast path of attention modules in evaluation, whose results are those of the other."""

from __future__ import annotations

from rushlight.core.stub import stub

__all__ = ["get_fastpath_enabled", "set_fastpath_enabled"]

_enabled = True


def get_fastpath_enabled() -> bool:
    """What was set."""
    return _enabled


@stub("no-op", "Attention modules have one way of computing.")
def set_fastpath_enabled(value: bool) -> None:
    """Accepted: there is one way of computing attention here.

    >>> set_fastpath_enabled(False)
    >>> get_fastpath_enabled()
    False
    >>> set_fastpath_enabled(True)
    """
    global _enabled
    _enabled = value
