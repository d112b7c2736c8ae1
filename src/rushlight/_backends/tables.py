"""Arrays that follow from shapes alone (divisors of windows, roots of unity, taps), kept for the next call.

Caches that count entries do not bound memory: a program whose images have a new size in each step would
keep hundreds of planes. All tables together may hold `ROOM` bytes; what is more lets go of all.
"""

from __future__ import annotations

from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable
    from functools import _lru_cache_wrapper

    R = TypeVar("R")

ROOM = 256 << 20  # bytes of all tables together
_clears: list[Callable[[], None]] = []
_held = 0  # bytes of what was made since all was last let go


def bounded_cache(most: int) -> Callable[[Callable[..., R]], _lru_cache_wrapper[R]]:
    """`lru_cache(most)` of a function whose results hold arrays."""

    def decorate(function: Callable[..., R]) -> _lru_cache_wrapper[R]:
        @wraps(function)
        def counted(*args: Any) -> R:
            made = function(*args)
            make_room(made)
            return made

        cache = lru_cache(most)(counted)
        _clears.append(cache.cache_clear)
        return cache

    return decorate


class Tables(dict[Any, Any]):
    """Tables by a key of the caller's, at most `most` of them: one more lets go of all."""

    def __init__(self, most: int) -> None:
        self.most = most
        _clears.append(self.clear)

    def keep(self, key: Any, made: R) -> R:
        if len(self) >= self.most:
            self.clear()
        make_room(made)
        self[key] = made
        return made


def make_room(made: Any) -> None:
    """Count what is about to be kept."""
    global _held
    size = bytes_of(made)
    _held += size
    if _held > ROOM:
        for clear in _clears:
            clear()
        _held = size


def bytes_of(made: Any) -> int:
    """The bytes of all arrays in nested tuples and lists."""
    if isinstance(made, np.ndarray):
        return made.nbytes
    return sum(map(bytes_of, made)) if isinstance(made, (tuple, list)) else 0
