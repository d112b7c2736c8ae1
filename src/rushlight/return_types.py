"""`torch.return_types`: the named tuples that operators of several results return, see core/return_types.py."""

from __future__ import annotations

from typing import Any

from rushlight.core import return_types


def __getattr__(name: str) -> Any:
    return getattr(return_types, name)


def __dir__() -> list[str]:
    return dir(return_types)
