"""`torch.distributed.elastic.metrics`: numbers of a program, by groups, for a handler that shows or keeps them."""

from __future__ import annotations

import abc
import functools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

__all__ = [
    "ConsoleMetricHandler", "MetricData", "MetricHandler", "MetricStream", "MetricsConfig", "NullMetricHandler", "configure",
    "getStream", "get_elapsed_time_ms", "prof", "put_metric",
]  # fmt: skip


class MetricData(NamedTuple):
    """One number, and when it was given."""

    timestamp: int
    group_name: str
    name: str
    value: int


class MetricsConfig:
    """Settings of handlers, by name."""

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = params or {}


class MetricHandler(abc.ABC):
    """What takes numbers."""

    @abc.abstractmethod
    def emit(self, metric_data: MetricData) -> None:
        """Take one."""


class ConsoleMetricHandler(MetricHandler):
    """Prints numbers."""

    def emit(self, metric_data: MetricData) -> None:
        """Print one."""
        when, group, name, value = metric_data
        print(f"[{when}][{group}]: {name}={value}")


class NullMetricHandler(MetricHandler):
    """Takes numbers and does nothing with them: the handler of a program that sets none."""

    def emit(self, metric_data: MetricData) -> None:
        """Do nothing."""


class MetricStream:
    """The numbers of a group."""

    def __init__(self, group_name: str, handler: MetricHandler) -> None:
        self.group_name, self.handler = group_name, handler

    def add_value(self, metric_name: str, metric_value: int) -> None:
        """Give the handler one more."""
        self.handler.emit(MetricData(int(time.time()), self.group_name, metric_name, metric_value))


_handlers: dict[str, MetricHandler] = {}
_default: MetricHandler = NullMetricHandler()


def configure(handler: MetricHandler, group: str | None = None) -> None:
    """Give the numbers of a group to a handler, without a group those of all that have none of their own."""
    global _default
    if group is None:
        _default = handler
    else:
        _handlers[group] = handler


def getStream(group: str) -> MetricStream:
    """The stream of a group."""
    return MetricStream(group, _handlers.get(group, _default))


def put_metric(metric_name: str, metric_value: int, metric_group: str = "torchelastic") -> None:
    """Give a number to the handler of a group."""
    getStream(metric_group).add_value(metric_name, metric_value)


def _get_metric_name(fn: Callable) -> str:
    """`Class.method`, or `module.function`."""
    name = fn.__qualname__
    return name if "." in name else f"{fn.__module__}.{name}"


def get_elapsed_time_ms(start_time_in_seconds: float) -> int:
    """Milliseconds since then."""
    return int((time.time() - start_time_in_seconds) * 1000)


def prof(fn: Callable | None = None, group: str = "torchelastic") -> Callable:
    """Decorate a function: each call gives NAME.success or NAME.failure, and NAME.duration.ms.

    >>> from rushlight.distributed.elastic import metrics
    >>> class Kept(metrics.MetricHandler):
    ...     names = []
    ...     def emit(self, metric_data):
    ...         self.names.append((metric_data.name, metric_data.group_name))
    >>> metrics.configure(Kept(), "mine")
    >>> class Job:
    ...     @metrics.prof(group="mine")
    ...     def run(self): ...
    >>> Job().run()
    >>> Kept.names
    [('Job.run.success', 'mine'), ('Job.run.duration.ms', 'mine')]
    """
    if fn is None:
        return functools.partial(prof, group=group)

    @functools.wraps(fn)
    def measured(*args: Any, **kwargs: Any) -> Any:
        key, start = _get_metric_name(fn), time.time()
        try:
            result = fn(*args, **kwargs)
        except Exception:
            put_metric(f"{key}.failure", 1, group)
            raise
        else:
            put_metric(f"{key}.success", 1, group)
        finally:
            put_metric(f"{key}.duration.ms", get_elapsed_time_ms(start), group)
        return result

    return measured
