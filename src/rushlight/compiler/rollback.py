"""How a run of a program takes back what it did, where a decision was another one than in the capture, or something raised."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.autograd.graph import version_of
from rushlight.compiler.capture.failures import MOST_BYTES, bytes_written, sharing
from rushlight.compiler.capture.recording import Recorder, Segment
from rushlight.compiler.capture.steps import TAKEN_BACK, Decision, Step, Stop
from rushlight.core.tensor import Tensor
from rushlight.rng.generator import Generator

if TYPE_CHECKING:
    from rushlight.compiler.program import Program

UNSEEN: Any = type("UNSEEN", (), {"__repr__": lambda self: "UNSEEN"})()  # a run that was taken back


class TakesBack:
    """Writes the lines of a program that copy what is changed before its last decision, and those of the decisions."""

    def __init__(self, program: Program, recorder: Recorder) -> None:
        self.program, self.recorder = program, recorder
        decisions = [k for k, s in enumerate(recorder.steps) if isinstance(s, Decision)]
        self.last = decisions[-1] if decisions else -1
        self.saved: dict[Any, str] = {}  # what was copied: the variable of what takes it back
        self.bytes = 0
        self.handled = self.last_handled()
        self.lines = 0  # of the program, up to which an exception is handled by the function as it is written

    def last_handled(self) -> int:
        """The number of the last step whose exceptions the function as it is written raises or handles, if all that is done
        until then can be taken back."""
        steps, found = self.recorder.steps, -1
        for k, step in enumerate(steps):
            if isinstance(step, Step) and step.kind not in TAKEN_BACK:
                break
            if not isinstance(step, Decision) and step.handled:
                size = bytes_written(self.recorder, steps[: k + 1])
                found = k if size <= MOST_BYTES else found
        return found

    def behind(self, k: int) -> None:
        """Note that the lines of a step are written."""
        if k == self.handled:
            self.lines = len(self.program.lines)

    def before(self, k: int, step: Segment | Step | Decision) -> None:
        """Copy what a step changes."""
        if k >= self.last and k > self.handled:
            return
        if isinstance(step, Segment):
            for v in step.written:
                self.copy_memory(v)
            for g in step.drawn.values():
                self.copy(id(g), stream_of, self.program.guards.name(g))
        elif isinstance(step, Step) and step.kind == "writes":
            place = ", ".join(map(self.program.expression, step.args[:2]))
            self.copy(id(step), memory_of_part, place)
        elif isinstance(step, Step) and step.kind == "draws":
            self.copy(id(step.source), stream_of, self.program.guards.name(step.source))
        elif isinstance(step, Step) and step.kind not in TAKEN_BACK:
            done = self.recorder.steps[: self.last]
            step = [s for s in done if isinstance(s, Step) and s.kind not in TAKEN_BACK][-1]
            decision = self.recorder.steps[self.last]
            reason = f"{decision.reason}, behind a call of {step.f.__qualname__}"
            raise Stop(reason, step.sites)  # a split behind it leaves nothing to take back

    def copy_memory(self, written: Any) -> None:
        """Copy all tensors from outside that may share the memory of one."""
        for v in sharing(self.recorder, written):
            self.bytes += 0 if v in self.saved else v.array.nbytes
            self.copy(v, memory_of, v.expression)
        if self.bytes > MOST_BYTES:
            decision = self.recorder.steps[self.last]
            raise Stop(f"{decision.reason}, behind writes to large tensors")

    def copy(self, key: Any, f: Callable, expression: str) -> None:
        if key not in self.saved:
            self.saved[key] = name = f"b{len(self.saved)}"
            self.program.names[f.__name__] = f
            self.program.lines.append(f"{name} = {f.__name__}({expression})")

    def decide(self, d: Decision) -> None:
        """Give the call back where the variable has another value."""
        p = self.program
        p.names["UNSEEN"] = UNSEEN
        test = f"is not {d.value}" if d.value.__class__ is bool else f"!= {p.guards.name(d.value)}"
        back = "".join(f"{b}(); " for b in [*self.saved.values()][::-1])
        p.lines.append(f"if {d.variable} {test}: {back}return UNSEEN")


def memory_of(t: Tensor) -> Callable[[], None]:
    """What puts the elements of a tensor, and the number of writes to it, back to what they are now."""
    array, version = t._array, version_of(t)
    elements, n = array.copy(), version.n

    def put_back() -> None:
        array[...] = elements
        version.n = n

    return put_back


def memory_of_part(t: Tensor, key: Any) -> Callable[[], None]:
    """As `memory_of`, of the part of a tensor that an index gives, a view."""
    return memory_of(t[key])


def stream_of(source: Any) -> Callable[[], None]:
    """What puts a stream of random numbers back to where it is now."""
    if isinstance(source, Generator):
        engine, pair = source.position(), source.spare_pair.copy()

        def put_back() -> None:
            source.go_back(engine)
            source.spare_pair[:] = pair

        return put_back
    if isinstance(source, np.random.Generator):
        state = source.bit_generator.state
        return lambda: setattr(source.bit_generator, "state", state)
    if isinstance(source, np.random.RandomState):
        state = source.get_state()
        return lambda: source.set_state(state)
    state = source.getstate()
    return lambda: source.setstate(state)
