"""What stands for functions and classes of several processes: they can be imported, and raise when they are called."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.core.stub import stub

REASON = "There is one process."


def refuse(name: str) -> NoReturn:
    """Raise RuntimeError: `name` needs several processes."""
    raise RuntimeError(
        f"Distributed package doesn't have a back end built in: torch.distributed.{name} needs several "
        "processes, and Rushlight runs in one. Ask torch.distributed.is_available() first"
    )


def absent_class(module: str, name: str) -> type:
    """A class without instances: `isinstance` answers no, a call raises RuntimeError."""

    def __new__(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        refuse(name)

    body = {
        "__new__": __new__,
        "__doc__": "Has no instances: there is one process.",
        "__module__": module,
    }
    return stub("absent", REASON)(type(name, (), body))
