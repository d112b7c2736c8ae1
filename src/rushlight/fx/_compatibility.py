"""`compatibility`: the mark of what stays as it is, which libraries that extend `torch.fx` put on their own functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")
_MARKED_WITH_COMPATIBILITY: dict[object, None] = {}


def compatibility(is_backward_compatible: bool) -> Callable[[_T], _T]:
    """Note a function or class as one whose compatibility is decided."""

    def mark(fn: _T) -> _T:
        _MARKED_WITH_COMPATIBILITY[fn] = None
        return fn

    return mark
