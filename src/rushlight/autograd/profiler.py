"""The profiler: which operators and nodes ran, for how long, on which shapes.

While a profile is on, calls take the general way, which asks the interpreters; the engine passes each
node to `run_node`, and nodes the kernels of rules to `_around_kernel`. No operator or node mentions the
profiler, and it costs nothing while it is off. Events have the names of PyTorch's: `dispatch/aten_names.py`.
"""

from __future__ import annotations

import functools
import itertools
import threading
import time
import warnings
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._backends import sparse
from rushlight.autograd.profiler_events import (
    Block,
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
)
from rushlight.autograd.profiler_flops import flops_of
from rushlight.autograd.state import count_mode, thread
from rushlight.core.stub import declare, stub
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.aten_names import names, names_of_gradient
from rushlight.dispatch.interpreters import INTERPRETERS, Call
from rushlight.dispatch.overrides import NOTHING
from rushlight.dispatch.record import around_kernels


class Recording:
    """The events of one profile, of all threads."""

    def __init__(self, shapes: bool, memory: bool, stacks: bool, flops: bool) -> None:
        self.shapes, self.memory, self.stacks, self.flops = shapes, memory, stacks, flops
        self.events: list[FunctionEvent] = []
        self.begun = time.perf_counter()
        self.open = threading.local()
        self.ids = itertools.count()
        self.beside: dict[int, FunctionEvent] = {}  # lane: what goes on in it
        self.makers: dict[int, int] = {}  # identity of a node: id of the event that made it
        self.blocks: list[Block] = []
        self.owners: dict[int, weakref.ref] = {}  # of the blocks that are held

    def enter(self, name: str, inputs: Any = (), path: str = "") -> FunctionEvent:
        """Begin the event of a call, within the one that is open in this thread."""
        stack = self.open.__dict__.setdefault("stack", [])
        event = FunctionEvent(
            next(self.ids), name, threading.get_ident(), 0.0, stack[-1] if stack else None
        )
        if self.shapes:
            event.input_shapes = [list(v.shape) if isinstance(v, Tensor) else [] for v in inputs]
        if self.flops:
            event.flops = flops_of(name, inputs, path)
        if self.stacks:
            event.stack = user_stack()
        self.events.append(event)
        stack.append(event)
        event.time_range.start = (time.perf_counter() - self.begun) * 1e6
        return event

    def leave(self, event: FunctionEvent, result: Any = None) -> None:
        """End an event: its time, the memory of its results, and which nodes of the graph it made."""
        event.time_range.end = (time.perf_counter() - self.begun) * 1e6
        stack = self.open.stack
        while stack and stack.pop() is not event:
            pass
        results = result if isinstance(result, (tuple, list)) else (result,)
        for t in results:
            if isinstance(t, Tensor) and t.grad_fn is not None:
                self.makers[id(t.grad_fn)] = event.id
        if self.memory:
            for t in results:
                if isinstance(t, Tensor) and t._base is None:
                    self._hold(t._array, bytes_of(t), event)
                elif isinstance(t, np.ndarray) and not isinstance(t.base, np.ndarray):
                    self._hold(t, t.nbytes, event)
            event.cpu_memory_usage = sum(
                bytes_of(t) for t in results if isinstance(t, Tensor) and t._base is None
            )
        self._sum_children(event)

    def _sum_children(self, event: FunctionEvent) -> None:
        if self.memory and event.cpu_children:
            event.cpu_memory_usage = sum(child.cpu_memory_usage for child in event.cpu_children)

    def _hold(self, owner: Any, nbytes: int, event: FunctionEvent) -> None:
        """Note the memory of a result, until it is freed."""
        while isinstance(getattr(owner, "base", None), np.ndarray):
            owner = owner.base
        key = id(owner)
        if key in self.owners:
            return  # an inner event made it
        block = Block((time.perf_counter() - self.begun) * 1e6, nbytes, event)

        def freed(_: weakref.ref) -> None:
            self.owners.pop(key, None)
            block.end = (time.perf_counter() - self.begun) * 1e6

        try:
            self.owners[key] = weakref.ref(owner, freed)
        except TypeError:  # other arrays than NumPy's
            return
        self.blocks.append(block)

    def begin(self, name: str, tensors: Any = ()) -> FunctionEvent:
        """An event that goes on beside the program's own, in a lane where no other does: a message to other processes."""
        lane = next(k for k in itertools.count(1) if k not in self.beside)
        event = FunctionEvent(next(self.ids), name, lane, 0.0, None)
        event.is_async = True
        if self.shapes:
            event.input_shapes = [list(t.shape) for t in tensors]
        self.beside[lane] = event
        self.events.append(event)
        start = (time.perf_counter() - self.begun) * 1e6
        event.time_range = Interval(start, start)
        return event

    def end(self, event: FunctionEvent) -> None:
        """The end of what `begin` began, on any thread."""
        event.time_range.end = (time.perf_counter() - self.begun) * 1e6
        self.beside.pop(event.thread, None)

    def around(
        self, names: list[str], values: list, run: Callable, path: str, inplace: bool = False
    ) -> Any:
        """`run()`, as events of these names, each inside of the one before; `inplace`: it makes no memory.

        `path`: that of the operator which `run` calls.
        """
        stack = self.open.__dict__.setdefault("stack", [])
        if stack and names and stack[-1].name == "aten::" + names[0]:
            names = names[1:]  # a function and the operator behind it have one name
        events = [self.enter("aten::" + name, values, path) for name in names]
        result = None
        try:
            result = run()
        finally:
            for event in reversed(events):
                self.leave(event, None if inplace else result)
        return result


def bytes_of(t: Tensor) -> int:
    """The bytes of a tensor: of its values and indices, where it is sparse."""
    a: Any = t._array
    if not isinstance(a, sparse.Sparse):
        return t.nbytes
    parts = (a.indices,) if isinstance(a, sparse.Coo) else (a.crow, a.col)
    return sum(part.nbytes for part in (a.values, *parts))


_on: list[Recording] = []  # the profiles that are on; the newest records


def user_stack() -> list[str]:
    """The lines of the user's program that lead here, innermost first."""
    import traceback
    from pathlib import Path

    import rushlight

    inside = (str(Path(rushlight.__file__).parent), "<rushlight")
    return [
        f"{f.filename}({f.lineno}): {f.name}"
        for f in reversed(traceback.extract_stack())
        if not f.filename.startswith(inside)
    ]


def _record(call: Call) -> Any:
    """Record a call while a profile is on."""
    if not _on:
        return NOTHING
    inplace = call.kind == "inplace"
    found = names(call.op, call.values, inplace)
    return _on[-1].around(found, call.values, call.proceed, call.op.path, inplace)


def _around_kernel(op: Any, arrays: tuple, call: Callable) -> Any:
    """Stands around every kernel of a gradient rule while a profile is on."""
    if not _on:
        return call()
    values = [_wrap(a) if isinstance(a, np.ndarray) else a for a in arrays]
    return _on[-1].around(names_of_gradient(op, values), values, call, op.path)


def run_node(node: Any, run: Callable) -> Any:
    """Stands around every node of a backward while a profile is on."""
    if not _on:
        return run()
    recording = _on[-1]
    event = recording.enter(f"autograd::engine::evaluate_function: {node.name()}")
    inner = recording.enter(node.name())
    inner.forward = recording.makers.get(id(node))
    try:
        return run()
    finally:
        recording.leave(inner)
        recording.leave(event)


def begun(name: str, tensors: Any) -> Callable[[], None] | None:
    """Records what goes on beside the program from now on, while a profile is on; gives what ends it."""
    if not _on:
        return None
    recording = _on[-1]
    return functools.partial(recording.end, recording.begin(name, tensors))


def start(recording: Recording) -> None:
    _on.append(recording)
    if len(_on) == 1:
        INTERPRETERS.append(_record)
        around_kernels.append(_around_kernel)
        thread.__class__.node_watch = staticmethod(run_node)
    count_mode(+1)


def stop(recording: Recording) -> None:
    _on.remove(recording)
    count_mode(-1)
    if not _on:
        INTERPRETERS.remove(_record)
        around_kernels.remove(_around_kernel)
        thread.__class__.node_watch = None


class record_function:
    """Give a block (or a function, as a decorator) a name in profiles.

    >>> import rushlight as torch
    >>> with torch.profiler.profile() as prof:
    ...     with torch.profiler.record_function("mine"):
    ...         _ = torch.ones(2) + 1
    >>> "mine" in prof.key_averages().table()
    True
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self.event: Any = None

    def __enter__(self) -> record_function:
        if _on:
            self.event = _on[-1], _on[-1].enter(self.name)
        return self

    def __exit__(self, *exc: object) -> None:
        if self.event is not None:
            recording, event = self.event
            recording.leave(event)
            self.event = None

    def __call__(self, function: Callable) -> Callable:
        @functools.wraps(function)
        def named(*args: Any, **kwargs: Any) -> Any:
            with record_function(self.name):
                return function(*args, **kwargs)

        return named


class profile:
    """Records the operators that run inside.

    `record_shapes`: the shapes of their inputs; `profile_memory`: the bytes of their results;
    `with_stack`: the lines that called them; `with_flops`: shapes, and the operations of products, convolutions
    and elementwise sums and products. `use_cuda` and its kin are accepted and have no effect
    without such a device.
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        profile_name: str | None = None,
    ) -> None:
        if enabled and use_cuda:
            warnings.warn(
                "The attribute `use_cuda` will be deprecated soon, please use ``use_device = 'cuda'`` instead.",
                FutureWarning,
                stacklevel=2,
            )
        if enabled and (use_cuda or use_device == "cuda"):
            warnings.warn("CUDA is not available, disabling CUDA profiling", stacklevel=2)
        self.enabled = enabled
        self.record_shapes, self.profile_memory = record_shapes or with_flops, profile_memory
        self.with_stack, self.with_flops = with_stack, with_flops
        self.profile_name = profile_name
        self.recording: Recording | None = None
        self.function_events: EventList | None = None
        self.entered = False

    def __enter__(self) -> profile:
        if not self.enabled:
            return self
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant")
        self.entered = True
        self.recording = Recording(
            self.record_shapes, self.profile_memory, self.with_stack, self.with_flops
        )
        start(self.recording)
        return self

    def __exit__(self, *exc: object) -> None:
        if not self.enabled or self.recording is None:
            return
        stop(self.recording)
        self.function_events = EventList(self.recording.events, profile_memory=self.profile_memory)
        self.function_events.blocks = self.recording.blocks
        self.recording.owners.clear()  # what is freed from now on is no part of the profile
        if self.profile_name:
            self.function_events.export_chrome_trace(self.profile_name)

    def _events(self) -> EventList:
        if self.function_events is None:
            raise RuntimeError("Profiler didn't finish running")
        return self.function_events

    def __repr__(self) -> str:
        return "<unfinished profiler_legacy.profile>" if self.function_events is None else str(self)

    def __str__(self) -> str:
        return str(self._events()) if self.function_events is not None else repr(self)

    def table(self, sort_by: str | None = None, row_limit: int = 100, **options: Any) -> str:
        return self._events().table(sort_by=sort_by, row_limit=row_limit, **options)

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, **_: Any
    ) -> EventList:
        """The events summed up by name."""
        return self._events().key_averages(group_by_input_shape, group_by_stack_n)

    def total_average(self) -> FunctionEventAvg:
        """All events as one."""
        return self._events().total_average()

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Write the events in the format of chrome://tracing, with `metadata` beside them."""
        self._events().export_chrome_trace(path, metadata)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks for flame graph tools; needs `with_stack=True`."""
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True")
        self._events().export_stacks(path, metric)

    @property
    def self_cpu_time_total(self) -> float:
        return self._events().self_cpu_time_total


declare(
    "no-op", "There is no such device, and no other library for profiles.", "torch.autograd.profiler",
    "profile(use_cuda=) profile(use_device=) profile(use_kineto=) profile(experimental_config=) profile(acc_events=)",
)  # fmt: skip
declare(
    "no-op", "Modules are not in the table.", "torch.autograd.profiler", "profile(with_modules=)",
)  # fmt: skip


def kineto_available() -> bool:
    """False: PyTorch's own tracing library is not here; `profile` works without it."""
    return False


@stub("absent", "There is no NVIDIA or Intel profiler.")
class emit_nvtx:
    """A block whose operators are marks for NVIDIA's profiler: RuntimeError where it is entered enabled."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> emit_nvtx:
        if self.enabled:
            raise RuntimeError(
                f"{type(self).__name__}: the profilers it marks operators for need PyTorch's builds for their devices; "
                "torch.profiler.profile works here"
            )
        return self

    def __exit__(self, *error: object) -> None:
        pass


@stub("absent", "There is no NVIDIA or Intel profiler.")
class emit_itt(emit_nvtx):
    """As `emit_nvtx`, for Intel's profiler."""
