"""`torch.Stream` and `torch.Event`: the queue of work on a device. The CPU's is empty whenever a call returns."""

from __future__ import annotations

from typing import Any, NoReturn

from rushlight.core.device import device as Device
from rushlight.core.stub import Block, stub

__all__ = ["Event", "Stream"]


def _on_cpu(device: Any) -> Device:
    """The device of a stream; RuntimeError for one that has no back end here."""
    found = Device("cpu" if device is None else device)
    if found.type != "cpu":
        raise RuntimeError(f"PyTorch is not linked with support for {found.type} devices")
    return found


@stub("no-op", "Operations on the CPU are finished when they return: there is nothing to wait for.")
class Stream(Block):
    """The queue of work on the CPU. All streams are one: nothing is queued.

    >>> import rushlight as torch
    >>> torch.Stream("cpu").query()
    True
    """

    stream_id = device_type = 0
    device_index = -1

    def __init__(self, device: Any = None, *, priority: int = 0) -> None:
        self.device = _on_cpu(device)

    def query(self) -> bool:
        """True: all work is done."""
        return True

    def synchronize(self) -> None:
        """Does nothing: all work is done."""

    def wait_stream(self, stream: Stream) -> None:
        """Does nothing: all work is done."""

    def wait_event(self, event: Event) -> NoReturn:
        """RuntimeError, as for every event of the CPU."""
        _no_events()

    def record_event(self, event: Event | None = None) -> NoReturn:
        """RuntimeError, as for every event of the CPU."""
        _no_events()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream)

    def __hash__(self) -> int:
        return hash(Stream)

    def __repr__(self) -> str:
        return "torch.Stream device_type=cpu, device_index=-1, stream_id=0"


@stub("absent", "The CPU has no events: recording one raises.")
class Event:
    """A mark in a stream. The CPU has none: RuntimeError where one is recorded or waited for."""

    event_id = 0

    def __init__(
        self, device: Any = None, *, enable_timing: bool = False, blocking: bool = False,
        interprocess: bool = False,
    ) -> None:  # fmt: skip
        self.device = _on_cpu(device)

    def record(self, stream: Stream | None = None) -> NoReturn:
        """RuntimeError."""
        _no_events()

    def wait(self, stream: Stream | None = None) -> NoReturn:
        """RuntimeError."""
        _no_events()

    def query(self) -> bool:
        """True: all work is done."""
        return True

    def synchronize(self) -> None:
        """Does nothing: all work is done."""

    def elapsed_time(self, end_event: Event) -> NoReturn:
        """RuntimeError."""
        _no_events()


def _no_events() -> NoReturn:
    raise RuntimeError("cpu backend doesn't support events.")
