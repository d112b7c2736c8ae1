"""What is asked of the sizes of a graph's values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Equality"]


@dataclass(frozen=True, repr=False)
class Equality:
    """Two sizes are one."""

    lhs: Any
    rhs: Any

    def __repr__(self) -> str:
        return f"{self.lhs} = {self.rhs}"
