"""`torch.profiler`: profiles of several steps, by a schedule."""

from __future__ import annotations

import enum
import os
from collections.abc import Callable, Iterable
from typing import Any

from rushlight.autograd import profiler as _profiler
from rushlight.autograd.profiler import kineto_available, record_function
from rushlight.autograd.profiler_events import EventList
from rushlight.core.stub import declare

__all__ = [
    "ProfilerAction", "ProfilerActivity", "kineto_available", "profile", "record_function", "schedule",
    "supported_activities", "tensorboard_trace_handler",
]  # fmt: skip


class ProfilerActivity(enum.Enum):
    """The kinds of activities to profile; only the CPU is supported."""

    CPU = 0
    XPU = 1
    MTIA = 2
    CUDA = 3
    HPU = 4
    PrivateUse1 = 5


class ProfilerAction(enum.Enum):
    """The actions of a profiler in a step."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """The activities that can be profiled here."""
    return {ProfilerActivity.CPU}


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
    skip_first_wait: int = 0,
) -> Callable[[int], ProfilerAction]:  # fmt: skip
    """Steps to wait, to warm up and to record, in turn; `repeat` times, or without end for 0."""
    if min(wait, warmup, repeat, skip_first, skip_first_wait) < 0 or active <= 0:
        raise AssertionError("Invalid profiler schedule arguments")

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        length = wait + warmup + active
        if repeat > 0 and step / length >= repeat:
            return ProfilerAction.NONE
        at = step % length
        if at < wait:
            return ProfilerAction.NONE
        if at < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if at < length - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(
    dir_name: str,
    worker_name: str | None = None,
    use_gzip: bool = False,
    use_python_export: bool = False,
) -> Callable:
    """An `on_trace_ready` handler that writes each trace to a new file in `dir_name`."""

    def handler(prof: profile) -> None:
        import socket
        import time

        os.makedirs(dir_name, exist_ok=True)
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        path = os.path.join(dir_name, f"{worker}.{time.time_ns()}.pt.trace.json")
        prof.export_chrome_trace(path + ".gz" if use_gzip else path)

    return handler


declare(
    "no-op", "The CPU is recorded.", "torch.profiler",
    "profile(activities=) profile(use_cuda=) profile(experimental_config=) profile(execution_trace_observer=)",
)  # fmt: skip
declare(
    "no-op", "Modules are not in the table.", "torch.profiler", "profile(with_modules=)",
)  # fmt: skip
declare(
    "no-op", "There is one way to write a trace.", "torch.profiler",
    "tensorboard_trace_handler(use_python_export=)",
)  # fmt: skip


class profile:
    """Records the operators that run inside, of all steps or of those that `schedule` names.

    `activities`: accepted; the CPU is recorded. `on_trace_ready`: called with the profile whenever a
    recording is complete. `step()` says that a step ended.

    >>> import rushlight as torch
    >>> with torch.profiler.profile(record_shapes=True) as prof:
    ...     y = torch.ones(3, 4) @ torch.ones(4, 5)
    >>> [e.key for e in prof.key_averages()][-1].startswith("aten::")
    True
    """

    def __init__(
        self,
        *,
        activities: Iterable | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = set(activities) if activities else supported_activities()
        self.schedule = schedule or (lambda step: ProfilerAction.RECORD)
        self.scheduled = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.options = {
            "record_shapes": record_shapes,
            "profile_memory": profile_memory,
            "with_stack": with_stack,
            "with_flops": with_flops,
            "use_device": "cuda" if ProfilerActivity.CUDA in self.activities else None,
        }
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self.profiler: _profiler.profile | None = None
        self._running = False
        self._step: record_function | None = None
        self._metadata: dict[str, Any] = {}

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0."""
        self.current_action = self.schedule(self.step_num)
        self._to(self.current_action)
        self._name_step()

    def stop(self) -> None:
        """End the profile."""
        self._end_step()
        if self._running:
            self._finish()

    def step(self) -> None:
        """Say that a step ended and the next one begins."""
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        if before is ProfilerAction.RECORD_AND_SAVE and self._running:
            self._finish()
        self._to(self.current_action)
        self._name_step()

    def _name_step(self) -> None:
        if self.scheduled and self._running:
            self._step = record_function(f"ProfilerStep#{self.step_num}")
            self._step.__enter__()

    def _end_step(self) -> None:
        if self._step is not None:
            self._step.__exit__()
            self._step = None

    def _to(self, action: ProfilerAction) -> None:
        recording = action in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and not self._running:
            self.profiler = _profiler.profile(**self.options)
            self.profiler.__enter__()
            self._running = True
        elif not recording and self._running:
            self._finish()

    def _finish(self) -> None:
        if self.profiler is not None:
            self.profiler.__exit__()
        self._running = False
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _recorded(self) -> _profiler.profile:
        if self.profiler is None:
            raise AssertionError("the profiler recorded nothing yet")
        return self.profiler

    def _repr_html_(self) -> str | None:
        from rushlight import viz

        return viz.timeline(self)._repr_html_() if self.profiler is not None else None

    def events(self) -> EventList:
        """All events, in the order in which they began."""
        return self._recorded()._events()

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any
    ) -> EventList:
        """The events summed up by name."""
        return self._recorded().key_averages(group_by_input_shape, group_by_stack_n)

    def export_chrome_trace(self, path: str) -> None:
        """Write the events in the format of chrome://tracing; gzipped for a name that ends in .gz."""
        if not path.endswith(".gz"):
            self._recorded().export_chrome_trace(path, self._metadata)
            return
        import gzip
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            plain = os.path.join(folder, "trace.json")
            self._recorded().export_chrome_trace(plain, self._metadata)
            with open(plain, "rb") as f, gzip.open(path, "wb") as g:
                g.write(f.read())

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks for flame graph tools; needs `with_stack=True`."""
        self._recorded().export_stacks(path, metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Keep a text with the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Keep a value, given as JSON, with the trace."""
        import json

        self._metadata[key] = json.loads(value)
