"""Switches of back ends that are not here: they can be set and read, and change nothing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def block(values: dict[str, Any], names: tuple[str, ...]) -> Callable:
    """A `flags(name=value, ...)` that sets the named globals of a module inside of a block."""

    @contextlib.contextmanager
    def flags(**given: Any) -> Iterator[None]:
        """Inside of the block the switches have the given values."""
        if odd := given.keys() - set(names):
            raise TypeError(f"flags() got an unexpected keyword argument {min(odd)!r}")
        before = {name: values[name] for name in given}
        values.update(given)
        try:
            yield
        finally:
            values.update(before)

    return flags
