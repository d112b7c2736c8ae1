"""`torch.linalg`: the functions of ops/ whose public path begins with `linalg.`.

>>> import rushlight as torch
>>> torch.linalg.det(torch.eye(2))
tensor(1.)
"""

from __future__ import annotations

from typing import Any

from rushlight.core.errors import LinAlgError
from rushlight.dispatch import methods

__all__ = ["LinAlgError"]  # and what __getattr__ finds


def __getattr__(name: str) -> Any:
    if f"linalg.{name}" not in methods.index.FUNCTIONS:
        raise AttributeError(
            f"module 'rushlight.linalg' has no attribute {name!r}: not implemented here; "
            "docs/coverage.md lists what is"
        )
    found = globals()[name] = methods.function(f"linalg.{name}")
    return found


def __dir__() -> list[str]:
    paths = methods.index.FUNCTIONS
    names = {p.removeprefix("linalg.") for p in paths if p.startswith("linalg.")}
    return sorted(n for n in {*globals(), *names} if not n.startswith("_"))
