"""`Stateful`: what has `state_dict` and `load_state_dict`."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

__all__ = ["Stateful"]


@runtime_checkable
class Stateful(Protocol):
    """An object of which a checkpoint keeps the `state_dict()`, and gives it back by `load_state_dict`."""

    def state_dict(self) -> dict[str, Any]:
        """What is to be kept."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take it back."""
        ...
