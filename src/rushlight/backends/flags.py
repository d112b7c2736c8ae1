"""Settings of libraries that Rushlight does not use: they can be set and read, and have no effect."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.core.stub import declare, stub

declare(
    "no-op", "Products are computed in the precision of their factors.", "torch.backends",
    "fp32_precision",
)  # fmt: skip


def block(values: dict[str, Any], names: str, reason: str) -> Callable:
    """The context manager `flags(name=value, ...)`, which sets globals of a module for a block; `names` are stubs."""
    declare("no-op", reason, values["__name__"], names)

    @stub("no-op", reason)
    @contextlib.contextmanager
    def flags(**given: Any) -> Iterator[None]:
        """Set the given values for a block."""
        if unknown := given.keys() - set(names.split()):
            raise TypeError(f"flags() got an unexpected keyword argument {min(unknown)!r}")
        before = {name: values[name] for name in given}
        values.update(given)
        try:
            yield
        finally:
            values.update(before)

    return flags
