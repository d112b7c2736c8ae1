"""Events of profiles, their sums by name, and the tables and files made of them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from html import escape
from typing import Any


def time_text(us: float, unit: str | None = None) -> str:
    """Microseconds in `unit` ("s", "ms", "us") or in a readable one: `12.000us`, `3.456ms`, `1.500s`."""
    if unit not in ("s", "ms", "us"):
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    return f"{us / {'s': 1e6, 'ms': 1e3, 'us': 1}[unit]:.3f}{unit}"


def memory_text(n: int) -> str:
    """Bytes in a readable unit: `512 B`, `1.50 KB`."""
    for unit, size in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if abs(n) >= size:
            return f"{n / size:.2f} {unit}"
    return f"{n} B"


def flops_unit(n: int) -> tuple[str, int]:
    """A readable unit of operations, and how many one is: ("MFLOPs", 1000000) for some millions."""
    power = min((len(str(n)) - 1) // 3, 5)
    return ("", *"KMGTP")[power] + "FLOPs", 1000**power


class Interval:
    """Start and end of an event, in microseconds since the profile began."""

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start


class FunctionEvent:
    """One call: an operator, a node of a backward, or a `record_function` block."""

    is_async = is_remote = is_legacy = False
    device_time_total = cuda_time_total = self_device_time_total = 0.0
    count = 1

    def __init__(self, id: int, name: str, thread: int, start: float, parent: Any) -> None:
        self.id, self.name, self.thread = id, name, thread
        self.key = "ProfilerStep*" if name.startswith("ProfilerStep#") else name
        self.time_range = Interval(start, start)
        self.cpu_parent: FunctionEvent | None = parent
        self.cpu_children: list[FunctionEvent] = []
        self.input_shapes: list = []
        self.stack: list[str] = []
        self.cpu_memory_usage = 0  # bytes newly held by the results
        self.flops = 0  # operations, where they are counted
        self.forward: int | None = None  # of a node: the id of the call that made it
        if parent is not None:
            parent.cpu_children.append(self)

    @property
    def cpu_time_total(self) -> float:
        return self.time_range.elapsed_us()

    cpu_time = cpu_time_total

    @property
    def self_cpu_time_total(self) -> float:
        if self.is_async:
            return 0.0  # it takes no time from the program
        return self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    @property
    def self_cpu_memory_usage(self) -> int:
        return self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)

    @property
    def cpu_time_str(self) -> str:
        return time_text(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return time_text(self.cpu_time_total)

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} "
            f"cpu_time={self.cpu_time_str} cpu_start_us={self.time_range.start} "
            f"cpu_end_us={self.time_range.end} input_shapes={self.input_shapes}>"
        )


class Block:
    """Memory of a result: from when to when (None: to the end) it is held, and the event that made it."""

    def __init__(self, start: float, nbytes: int, event: FunctionEvent) -> None:
        self.start, self.nbytes, self.event = start, nbytes, event
        self.end: float | None = None


class FunctionEventAvg:
    """All events of one name (and shapes, and stack) together."""

    device_time_total = cuda_time_total = self_device_time_total = 0.0

    def __init__(self, key: str) -> None:
        self.key, self.count = key, 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.cpu_memory_usage = self.self_cpu_memory_usage = self.flops = 0
        self.input_shapes: Any = None
        self.stack: list[str] = []

    def add(self, event: FunctionEvent) -> FunctionEventAvg:
        """Add a call to the sums of the calls of its name."""
        self.count += 1
        parent = event.cpu_parent
        while parent is not None and parent.name != event.name:
            parent = parent.cpu_parent
        if parent is None:  # a call inside a call of the same name counts once
            self.cpu_time_total += event.cpu_time_total
            self.cpu_memory_usage += event.cpu_memory_usage
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.flops += event.flops
        if not self.stack:
            self.stack = event.stack
        return self

    @property
    def cpu_time(self) -> float:
        return self.cpu_time_total / self.count if self.count else 0.0

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={time_text(self.self_cpu_time_total)} "
            f"cpu_time={time_text(self.cpu_time)} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list):
    """Events, or sums of events, that print as a table."""

    def __init__(self, events: Iterable = (), *, profile_memory: bool = False) -> None:
        super().__init__(events)
        self.profile_memory = profile_memory
        self.blocks: list[Block] = []  # memory of results, where it is recorded

    @property
    def self_cpu_time_total(self) -> float:
        """Microseconds of all events, each counted once."""
        return sum(e.self_cpu_time_total for e in self)

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0
    ) -> EventList:
        """The events of one name (and, if asked, input shapes and stack) summed up."""
        groups: dict[tuple, FunctionEventAvg] = {}
        for e in self:
            key: tuple = (e.key,)
            if group_by_input_shapes:
                key += (str(e.input_shapes),)
            if group_by_stack_n > 0:
                key += tuple(e.stack[:group_by_stack_n])
            if key not in groups:
                groups[key] = FunctionEventAvg(e.key)
                if group_by_input_shapes:
                    groups[key].input_shapes = e.input_shapes
            groups[key].add(e)
        return EventList(groups.values(), profile_memory=self.profile_memory)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        total = FunctionEventAvg("Total")
        for e in self:
            total.add(e)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a text table, sorted by an attribute such as "cpu_time_total".

        `time_unit`: "s", "ms" or "us" for the times of all events.
        """
        events = list(self)
        if top_level_events_only:
            events = [e for e in events if getattr(e, "cpu_parent", None) is None]
        if sort_by is not None:
            sort_by = sort_by.replace("cuda", "device")
            events.sort(key=lambda e: getattr(e, sort_by), reverse=True)
        total = self.self_cpu_time_total
        name_width = max([len(e.key) for e in events] + [4]) + 4
        name_width = min(name_width, max_name_column_width)
        shapes = any(e.input_shapes for e in events)
        stacks = any(e.stack for e in events)
        columns = [
            ("Name", name_width, lambda e: shortened(e.key, name_width)),
            ("Self CPU %", 12, lambda e: share(e.self_cpu_time_total, total)),
            ("Self CPU", 12, lambda e: time_text(e.self_cpu_time_total, time_unit)),
            ("CPU total %", 12, lambda e: share(e.cpu_time_total, total)),
            ("CPU total", 12, lambda e: time_text(e.cpu_time_total, time_unit)),
            ("CPU time avg", 12, lambda e: time_text(e.cpu_time, time_unit)),
        ]
        if self.profile_memory:
            columns += [
                ("CPU Mem", 12, lambda e: memory_text(e.cpu_memory_usage)),
                ("Self CPU Mem", 12, lambda e: memory_text(e.self_cpu_memory_usage)),
            ]
        columns.append(("# of Calls", 12, lambda e: str(e.count)))
        if shapes:
            width = max(len(str(e.input_shapes)) for e in events)
            width = max(min(width, max_shapes_column_width), 12)
            columns.append(("Input Shapes", width, lambda e: str(e.input_shapes or "[]")[:width]))
        if stacks:
            width = max([len(s) for e in events for s in e.stack[:1]] + [15])
            width = min(width, max_src_column_width)
            columns.append(("Source Location", width, lambda e: (e.stack or [""])[0][-width:]))
        counted = [e.flops for e in events if e.flops > 0]
        if counted:
            unit, scale = flops_unit(min(counted))
            columns.append(
                (f"Total {unit}", 12, lambda e: f"{e.flops / scale:.3f}" if e.flops > 0 else "--")
            )
        rule = "  ".join("-" * w for _, w, _ in columns) + "  "
        lines = [] if header is None else ["=" * len(rule), header]
        lines += [rule, "  ".join(title.rjust(w) for title, w, _ in columns) + "  ", rule]
        if row_limit >= 0:
            events = events[:row_limit]
        lines += ["  ".join(f(e).rjust(w) for _, w, f in columns) + "  " for e in events]
        lines += [rule, f"Self CPU time total: {time_text(total)}", ""]
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.table()

    def _repr_html_(self) -> str:
        return f'<pre style="line-height:1.2;overflow-x:auto;white-space:pre">{escape(self.table())}</pre>'

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Write the events in the format of chrome://tracing, with `metadata` beside them."""
        trace = {
            **(metadata or {}),
            "schemaVersion": 1,
            "displayTimeUnit": "ms",
            "traceEvents": [
                {
                    "ph": "X",
                    "cat": "cpu_op",
                    "name": e.name,
                    "pid": 0,
                    "tid": e.thread,
                    "ts": e.time_range.start,
                    "dur": e.cpu_time_total,
                    "args": {"Input Dims": e.input_shapes, "Call stack": ";".join(e.stack)},
                }
                for e in self
            ],
        }
        with open(path, "w") as f:
            json.dump(trace, f)

    def supported_export_stacks_metrics(self) -> list[str]:
        return ["self_cpu_time_total", "self_device_time_total"]

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write one line a stack, `frame;frame;frame microseconds`, for flame graph tools."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                f"metric should be one of: {self.supported_export_stacks_metrics()}, got {metric!r}"
            )
        with open(path, "w") as f:
            for e in self:
                if e.stack:
                    frames = ";".join(s.replace(" ", "_") for s in reversed(e.stack))
                    f.write(f"{frames} {int(getattr(e, metric))}\n")


def shortened(name: str, width: int) -> str:
    return name if len(name) <= width else name[: width - 3] + "..."


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:.2f}%" if whole else "NaN"
