"""`torch.monitor`: events that handlers are told of, and statistics over windows of time.

>>> from datetime import timedelta
>>> from rushlight.monitor import Aggregation, Stat, register_event_handler, unregister_event_handler
>>> handle = register_event_handler(lambda event: print(event.name, event.data))
>>> stat = Stat("loss", (Aggregation.MEAN, Aggregation.COUNT), timedelta(hours=1), 2)
>>> stat.add(1.0), stat.add(2.0)
torch.monitor.Stat {'loss.mean': 1.5, 'loss.count': 2.0}
(None, None)
>>> unregister_event_handler(handle)
"""

from __future__ import annotations

import enum
import math
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

__all__ = [
    "STAT_EVENT", "Aggregation", "Event", "EventHandlerHandle", "Stat", "TensorboardEventHandler", "data_value_t",
    "log_event", "register_event_handler", "unregister_event_handler",
]  # fmt: skip

STAT_EVENT = "torch.monitor.Stat"


data_value_t = str | float | int | bool  # what values of an event are


class Aggregation(enum.Enum):
    """What a `Stat` computes of the numbers of a window. VALUE is nothing, as in PyTorch."""

    VALUE = 0
    MEAN = 2
    COUNT = 3
    SUM = 4
    MAX = 5
    MIN = 6


VALUE, MEAN, COUNT, SUM, MAX, MIN = Aggregation


class Event:
    """Something to be logged: events of one kind have one name. `data`: {name: str, float, int or bool}."""

    def __init__(self, name: str, timestamp: datetime, data: Mapping[str, Any]) -> None:
        for key, value in data.items():
            if not isinstance(key, str) or not isinstance(value, (str, float, int)):
                raise TypeError(
                    f"__init__(): incompatible constructor arguments: data of an Event has strings as names and str, "
                    f"float, int or bool as values, got {key!r}: {value!r}"
                )
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What `unregister_event_handler` takes."""

    def __init__(self, handler: Callable[[Event], None]) -> None:
        self._handler = handler


_handlers: list[EventHandlerHandle] = []


def register_event_handler(callback: Callable[[Event], None]) -> EventHandlerHandle:
    """From now on `callback(event)` is called with each event that is logged."""
    if not callable(callback):
        raise TypeError(
            f"register_event_handler(): incompatible function arguments: {callback!r} cannot be called"
        )
    handle = EventHandlerHandle(callback)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handler: EventHandlerHandle) -> None:
    """The handler is told of no further event."""
    if handler in _handlers:
        _handlers.remove(handler)


def log_event(event: Event) -> None:
    """Tell all handlers of the event, in the order in which they were registered."""
    for handle in tuple(_handlers):
        handle._handler(event)


class Stat:
    """Statistics of numbers, logged as an event once for each window of time.

    A window ends with the first number that is added after it, or with the `max_samples`-th one: further numbers of
    that window are left out. What is left is logged when the object goes.
    """

    def __init__(
        self, name: str, aggregations: Iterable[Aggregation], window_size: timedelta, max_samples: int = 2**63 - 1,
    ) -> None:  # fmt: skip
        if window_size <= timedelta(0):
            raise RuntimeError(f"window_size of a Stat must be positive, got {window_size}")
        self.name = name
        self._aggregations = [Aggregation(a) for a in aggregations if a != Aggregation.VALUE]
        self._length = window_size.total_seconds()
        self._max_samples = max_samples
        self._window = self._now()
        self._full = False
        self.count = 0  # how many numbers of the present window are still to be logged
        self._sum, self._max, self._min = 0.0, -math.inf, math.inf
        self._last = dict.fromkeys(self._aggregations, 0.0)

    def _now(self) -> int:
        return int(time.monotonic() // self._length)

    def add(self, v: float) -> None:
        """Add a number to the present window."""
        now = self._now()
        if now != self._window:
            self._close()
            self._window, self._full = now, False
        if self._full:
            return
        self.count += 1
        self._sum, self._max, self._min = self._sum + v, max(self._max, v), min(self._min, v)
        if self.count >= self._max_samples:
            self._close()
            self._full = True

    def get(self) -> dict[Aggregation, float]:
        """The statistics of the last window that was logged; zeros if there is none."""
        return dict(self._last)

    def _close(self) -> None:
        """Log the numbers of the present window, if it has any, and begin anew."""
        if not self.count:
            return
        found = {
            Aggregation.MEAN: self._sum / self.count, Aggregation.COUNT: float(self.count),
            Aggregation.SUM: float(self._sum), Aggregation.MAX: float(self._max), Aggregation.MIN: float(self._min),
        }  # fmt: skip
        self._last = {a: found[a] for a in self._aggregations}
        self.count = 0
        self._sum, self._max, self._min = 0.0, -math.inf, math.inf
        data = {f"{self.name}.{a.name.lower()}": v for a, v in self._last.items()}
        log_event(Event(STAT_EVENT, datetime.now(), data))

    def __del__(self) -> None:
        if hasattr(self, "_last"):
            self._close()


class TensorboardEventHandler:
    """A handler that writes the events of `Stat` as scalars to a `SummaryWriter`."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for name, value in event.data.items():
                self._writer.add_scalar(name, value, walltime=event.timestamp.timestamp())
