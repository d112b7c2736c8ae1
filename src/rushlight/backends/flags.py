"""Switches of back ends that are not here: they can be set and read, and change nothing."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from rushlight.core.stub import declare, stub

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

declare(
    "no-op", "Products are computed in the precision of their factors.", "torch.backends",
    "fp32_precision",
)  # fmt: skip


def block(values: dict[str, Any], names: str, reason: str) -> Callable:
    """A `flags(name=value, ...)` that sets the named globals of a module inside of a block; all of them are stubs."""
    declare("no-op", reason, values["__name__"], names)

    @stub("no-op", reason)
    @contextlib.contextmanager
    def flags(**given: Any) -> Iterator[None]:
        """Inside of the block the switches have the given values."""
        if odd := given.keys() - set(names.split()):
            raise TypeError(f"flags() got an unexpected keyword argument {min(odd)!r}")
        before = {name: values[name] for name in given}
        values.update(given)
        try:
            yield
        finally:
            values.update(before)

    return flags
