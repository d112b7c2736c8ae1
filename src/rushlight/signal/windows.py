"""`torch.signal.windows`: the functions of ops/factories/windows.py.

>>> import rushlight as torch
>>> torch.signal.windows.hann(3)
tensor([0., 1., 0.])
"""

from __future__ import annotations

from typing import Any

from rushlight.dispatch import methods

PREFIX = "signal.windows."


def __getattr__(name: str) -> Any:
    if PREFIX + name not in methods.index.FUNCTIONS:
        raise AttributeError(
            f"module 'rushlight.signal.windows' has no attribute {name!r}: not implemented here"
        )
    found = globals()[name] = methods.function(PREFIX + name)
    return found


def __dir__() -> list[str]:
    paths = methods.index.FUNCTIONS
    names = {p.removeprefix(PREFIX) for p in paths if p.startswith(PREFIX)}
    return sorted(n for n in {*globals(), *names} if not n.startswith("_") and n != "PREFIX")
