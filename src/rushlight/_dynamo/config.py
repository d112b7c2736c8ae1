"""`torch._dynamo.config`: switches of PyTorch's compiler. Any can be set and changes nothing; what was not set is False."""

from __future__ import annotations

import sys
from contextlib import ContextDecorator
from typing import Any

from rushlight.core.stub import declare

__all__ = ["patch"]

declare(
    "no-op",
    "Any switch can be set and changes nothing; what was not set is False.",
    "rushlight._dynamo",
    "config",
)


def __getattr__(name: str) -> Any:
    # What Python and test runners ask of every module is no switch.
    if name.lower().startswith(("__", "pytest", "setup", "teardown")):
        raise AttributeError(name)
    return False


class patch(ContextDecorator):
    """A block or a decorator in which switches have other values: `patch(verbose=True)`, `patch("verbose", True)` or `patch({...})`.

    >>> import rushlight as torch
    >>> with torch._dynamo.config.patch(capture_scalar_outputs=True):
    ...     torch._dynamo.config.capture_scalar_outputs
    True
    >>> torch._dynamo.config.capture_scalar_outputs
    False
    """

    def __init__(self, name: Any = None, value: Any = None, **values: Any) -> None:
        if name is not None:
            values = dict(name) if isinstance(name, dict) else {name: value}
        self.values = values
        self.before: list[
            dict[str, Any]
        ] = []  # of each block that is open: blocks of one object nest

    def __enter__(self) -> None:
        switches = vars(sys.modules[__name__])
        self.before.append({name: switches[name] for name in self.values if name in switches})
        switches.update(self.values)

    def __exit__(self, *exception: object) -> None:
        switches = vars(sys.modules[__name__])
        for name in self.values:
            switches.pop(name, None)
        switches.update(self.before.pop())
