"""`torch.special`: special functions, as SciPy names them. Each is loaded at its first use."""

from __future__ import annotations

from typing import Any

from rushlight.dispatch import methods


def __getattr__(name: str) -> Any:
    if f"special.{name}" not in methods.index.FUNCTIONS:
        raise AttributeError(
            f"module 'rushlight.special' has no attribute {name!r}: not implemented here; "
            "docs/coverage.md lists what is"
        )
    found = globals()[name] = methods.function(f"special.{name}")
    return found


def __dir__() -> list[str]:
    paths = (p.rpartition(".") for p in methods.index.FUNCTIONS)
    return sorted({*globals(), *(name for where, _, name in paths if where == "special")})
