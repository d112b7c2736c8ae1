"""Symbolic sizes of PyTorch's graph compiler: in Rushlight plain numbers.

Sizes are always numbers, so `SymInt` has no instances; programs ask `isinstance(n, (int, torch.SymInt))`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

from rushlight.core.stub import stub
from rushlight.dispatch.overrides import overridable

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_float", "sym_fresh_size", "sym_int", "sym_ite",
    "sym_max", "sym_min", "sym_not", "sym_sqrt", "sym_sum",
]  # fmt: skip


class _NeverMade:
    def __init__(self, *args: Any) -> NoReturn:
        raise TypeError(
            f"{type(self).__name__} cannot be made: sizes are plain numbers in Rushlight"
        )


@stub("absent", "Sizes are plain numbers: nothing is an instance.")
class SymInt(_NeverMade):
    """A symbolic integer; it has no instances."""


@stub("absent", "Sizes are plain numbers: nothing is an instance.")
class SymFloat(_NeverMade):
    """A symbolic float; it has no instances."""


@stub("absent", "Sizes are plain numbers: nothing is an instance.")
class SymBool(_NeverMade):
    """A symbolic bool; it has no instances."""


@overridable
def sym_int(a: Any) -> int:
    """`int(a)`, rounded towards zero."""
    return int(a)


@overridable
def sym_float(a: Any) -> float:
    """`float(a)`."""
    return float(a)


@overridable
def sym_not(a: Any) -> bool:
    """`not a`."""
    return not a


def _with_float(found: Any, a: Any, b: Any) -> Any:
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


@overridable
def sym_max(a: Any, b: Any) -> Any:
    """The larger one; a float when one of them is a float.

    >>> import rushlight as torch
    >>> torch.sym_max(3, 2), torch.sym_max(3, 2.0)
    (3, 3.0)
    """
    return _with_float(max(a, b), a, b)


@overridable
def sym_min(a: Any, b: Any) -> Any:
    """The smaller one; a float when one of them is a float."""
    return _with_float(min(a, b), a, b)


@overridable
def sym_sum(args: Sequence[Any]) -> Any:
    """`sum(args)`."""
    return sum(args)


def sym_sqrt(a: Any) -> float:
    """The square root of a number."""
    return math.sqrt(a)


@overridable
def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """`t if b else f`, which must be of one type."""
    if type(t) is not type(f):
        raise AssertionError(f"sym_ite: {t!r} and {f!r} are of different types")
    return t if b else f


@stub("identity", "Sizes are plain numbers.")
def sym_fresh_size(expr: Any) -> Any:
    """`expr`."""
    return expr
