"""Sizes given as one number or one number per dimension."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def ntuple(value: Any, n: int) -> tuple:
    """The value itself as a tuple if it is iterable, else n times the value."""
    return tuple(value) if isinstance(value, Iterable) else (value,) * n


def _single(value: Any) -> tuple:
    return ntuple(value, 1)


def _pair(value: Any) -> tuple:
    return ntuple(value, 2)


def _triple(value: Any) -> tuple:
    return ntuple(value, 3)


def _quadruple(value: Any) -> tuple:
    return ntuple(value, 4)


def _reverse_repeat_tuple(values: tuple, n: int) -> tuple:
    """Each value n times, last first: sizes per dimension as `F.pad` wants them."""
    return tuple(value for value in reversed(values) for _ in range(n))
