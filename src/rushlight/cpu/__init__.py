"""`torch.cpu`: the functions of an accelerator module, for the CPU."""

from __future__ import annotations

from typing import Any

from rushlight.core.stub import Block

__all__ = [
    "Stream", "current_device", "current_stream", "device_count", "is_available", "is_initialized",
    "set_device", "stream", "synchronize",
]  # fmt: skip


def is_available() -> bool:
    """True."""
    return True


def is_initialized() -> bool:
    """True."""
    return True


def device_count() -> int:
    """1."""
    return 1


def current_device() -> str:
    """The string "cpu"."""
    return "cpu"


def set_device(device: Any) -> None:
    """Does nothing: there is one CPU."""


def synchronize(device: Any = None) -> None:
    """Does nothing: every operation is finished when it returns."""


class Stream(Block):
    """A queue of work; on the CPU it is always empty."""

    def __init__(self, priority: int = -1) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        """Does nothing."""


def current_stream(device: Any = None) -> Stream:
    """The stream of the CPU."""
    return Stream()


def stream(stream: Stream) -> Stream:
    """`stream`, as a block without effect."""
    return stream


def __getattr__(name: str) -> Any:
    if name == "amp":
        from importlib import import_module

        return import_module(f"{__name__}.amp")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
