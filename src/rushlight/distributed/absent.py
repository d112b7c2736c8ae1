"""What stands for functions and classes that are not there: they can be imported, and raise when they are called."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.core.stub import stub

REASON = "Not there yet: process groups and their collectives are."


def refuse(name: str) -> NoReturn:
    """Raise RuntimeError: `name` is not there."""
    raise RuntimeError(
        f"torch.distributed: {name} is not there; docs/coverage.md lists what Rushlight has"
    )


def absent_class(module: str, name: str) -> type:
    """A class without instances: `isinstance` answers no, a call raises RuntimeError."""

    def __new__(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(name)

    body = {
        "__new__": __new__,
        "__doc__": "Has no instances: it is not there.",
        "__module__": module,
    }
    return stub("absent", REASON)(type(name, (), body))
