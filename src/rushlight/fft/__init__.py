"""`torch.fft`: the functions of ops/ whose public path begins with `fft.`.

>>> import rushlight as torch
>>> torch.fft.fftfreq(4)
tensor([ 0.0000,  0.2500, -0.5000, -0.2500])
"""

from __future__ import annotations

from typing import Any

from rushlight.dispatch import methods


def __getattr__(name: str) -> Any:
    if f"fft.{name}" not in methods.index.FUNCTIONS:
        raise AttributeError(
            f"module 'rushlight.fft' has no attribute {name!r}: not implemented here; "
            "docs/coverage.md lists what is"
        )
    found = globals()[name] = methods.function(f"fft.{name}")
    return found


def __dir__() -> list[str]:
    paths = methods.index.FUNCTIONS
    names = {p.removeprefix("fft.") for p in paths if p.startswith("fft.")}
    return sorted(n for n in {*globals(), *names} if not n.startswith("_"))
