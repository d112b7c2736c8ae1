"""`torch.utils._mode_utils`: blocks without modes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rushlight.utils._python_dispatch import no_dispatch

__all__ = ["all_same_mode", "no_dispatch"]


def all_same_mode(modes: Iterable[Any]) -> bool:
    """Whether all modes are one object."""
    modes = list(modes)
    return all(mode == modes[0] for mode in modes)
