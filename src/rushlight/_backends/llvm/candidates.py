"""How one of several kernels is chosen for a problem: by the first candidate of a table that applies."""

from __future__ import annotations

from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

_caches: list[Any] = []  # the functions that remember their choices
_recorded: dict[str, str] | None = None  # a problem in a line -> the chosen candidate's name


class Candidate:
    """One way to compute a problem. Its table's order says which is preferred where several apply."""

    name: str  # what `explain` calls it

    @staticmethod
    def applies(p: Any) -> bool:
        """Whether this candidate is meant for a problem."""
        raise NotImplementedError

    @staticmethod
    def run(*args: Any) -> Any:
        """The result; arguments are those of the kernel, and the problem."""
        raise NotImplementedError


def first_fit(
    table: Sequence[type[Candidate]], p: Any, text: Callable[[Any], str]
) -> type[Candidate]:
    """The first candidate that applies. `text`: the problem in a line."""
    found = next(c for c in table if c.applies(p))
    if _recorded is not None:
        _recorded[text(p)] = found.name
    return found


def remembered(choose: Callable) -> Any:
    """Decorator: a function that chooses for a problem remembers its choices."""
    cached = lru_cache(maxsize=1024)(choose)
    _caches.append(cached)
    return cached


@contextmanager
def recording() -> Iterator[dict[str, str]]:
    """The choices that are made within: a problem in a line -> the chosen candidate's name."""
    global _recorded
    forget()
    _recorded = choices = {}
    try:
        yield choices
    finally:
        _recorded = None


def forget() -> None:
    """All choices are made anew."""
    for cached in _caches:
        cached.cache_clear()
