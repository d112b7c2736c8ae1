"""`torch._VF`: the functions of `torch`, by which recurrent networks of older programs call them: `_VF.lstm(...)`."""

from __future__ import annotations

from typing import Any

import rushlight


def __getattr__(name: str) -> Any:
    found = getattr(rushlight, name, None)
    if not callable(found) or isinstance(found, type):
        raise AttributeError(f"module 'torch._VF' has no attribute {name!r}")
    return found
