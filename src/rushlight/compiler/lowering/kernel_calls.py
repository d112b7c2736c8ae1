"""Programs as calls of kernels on fixed places in memory: what runs without Python.

Note [How kernel calls are found]
    The bindings of kernels (`_backends/llvm`) choose kernels and tell them sizes; for arrays of the same layouts they
    make the same calls. So the steps of a lowered program run three times, on inputs of other numbers each, while all
    calls of kernels are recorded. Every array of a call lies in a buffer. One that the calls leave as it was, and that
    is the same in all runs, is a constant: weights, and what bindings tell kernels. One that they leave as it was but
    that differs was computed by NumPy, so that the operator is refused. All others are temporary, and lie in one arena,
    side by side where they live at one time.

    The calls of two runs must be the same, and so must what they compute: they are made again by themselves, on the
    third run's inputs and an arena full of other numbers, and the values of all nodes are compared.
"""

from __future__ import annotations

import ctypes
from bisect import bisect_right, insort
from collections.abc import Collection, Iterable
from itertools import accumulate
from math import inf
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._codegen.kernels.fused import fused
from rushlight._codegen.object_text import ALIGNED, Buffer, KernelCall, NotBuilt, Place
from rushlight._codegen.recording import recording
from rushlight.compiler.capture.guards import span
from rushlight.compiler.lowering.calls import Call
from rushlight.compiler.lowering.fusion import Loop
from rushlight.compiler.lowering.lowered_steps import fused_steps, needed
from rushlight.compiler.lowering.lowering import Program, address, arrays_in

if TYPE_CHECKING:
    from rushlight._codegen.kernel import Kernel
    from rushlight.fx import Node

OTHER_NUMBERS = 0x3F  # the bytes of an arena before a check
PERIOD = 4099  # after how many elements other numbers repeat; a prime, so that rows differ


class Run:
    """One run of the steps, with the calls of kernels that they made. `values`: what each node gave."""

    def __init__(
        self, steps: list, values: dict[Node, Any], block: recording,
        overwritten: tuple[list[int], int] | None = None, read: Collection[int] | None = None,
    ) -> None:  # fmt: skip
        """`values`: of the nodes that are there before the steps; `overwritten`: buffers that become full of a byte where
        a kernel takes them; `read`: those whose bytes before the first kernel somebody reads, all where it is None."""
        self.overwritten, self.read = overwritten, read
        self.full: set[int] = set()  # buffers that became full of the byte
        self.touched = False  # whether something else than kernels wrote to these
        self.buffers: list[Buffer] = []
        self._starts: list[tuple[int, int]] = []  # (address, number of the buffer), sorted
        self._held: list[Any] = []  # all arrays, so that no two have one address
        self.calls: list[list[KernelCall]] = []  # of each step
        self.results: list[dict[Node, list[Place]]] = []
        self.values = values
        self.step = -1
        for a in [a for v in values.values() for a in arrays_in(v)]:
            self.place(a, "input")
        self.given = len(self.buffers)
        block.note, block.wrong = self.record, []
        for self.step, step in enumerate(steps):
            self.calls.append([])
            try:
                made = self._loop(step) if isinstance(step, Loop) else self._call(step)
            except NotBuilt as e:
                raise refused(step, str(e)) from None
            self.results.append(made)
        for a in block.wrong:
            self.buffers[self.place(a).buffer].tells = True

    def _call(self, call: Call) -> dict[Node, list[Place]]:
        with np.errstate(all="ignore"):
            a = call.run(self.values.__getitem__)
        if isinstance(a, np.generic):
            a = np.asarray(a)
        self.values[call.node] = a
        return {call.node: [self.place(x) for x in arrays_in(a)]}

    def _loop(self, loop: Loop) -> dict[Node, list[Place]]:
        for node in loop.fresh:
            layout = loop.program.layouts[node]
            order = sorted(range(len(layout.shape)), key=lambda d: (-layout.strides[d], d))
            a = np.empty([layout.shape[d] for d in order], layout.dtype)
            self.values[node] = a.transpose([order.index(d) for d in range(len(order))])
        stop = np.zeros(1, int)
        arrays = [self.values[n] for n in loop.arrays]
        fused.compiled()(loop.address, arrays, np.ndarray, loop.plan, loop.numbers, stop)
        if stop[0]:
            raise NotBuilt("its loop does not take these arrays")
        written = {c.writes for c in loop.calls if c.writes is not None}
        return {
            n: [self.place(self.values[n])] for n in loop.arrays if n in loop.fresh or n in written
        }

    def place(self, a: np.ndarray, kind: str = "temporary") -> Place:
        """Where an array lies; its memory becomes a buffer where it is not known yet."""
        self._held.append(a)
        if not a.size:
            return Place(-1, 0, a.shape, a.strides, a.dtype)
        at = address(a)
        k = bisect_right(self._starts, (at, len(self.buffers))) - 1
        if k >= 0:
            start, number = self._starts[k]
            if at < start + self.buffers[number].size:
                return Place(number, at - start, a.shape, a.strides, a.dtype)
        owner = a
        while isinstance(owner.base, np.ndarray):
            owner = owner.base
        start, end = span(owner)
        self._starts.insert(k + 1, (start, len(self.buffers)))
        read = self.read is None or len(self.buffers) in self.read
        self.buffers.append(Buffer(start, end - start, self.step, kind, read))
        return Place(len(self.buffers) - 1, at - start, a.shape, a.strides, a.dtype)

    def forget(self) -> None:
        """Let go of all arrays."""
        self._held, self.values = [], {}

    def record(self, kernel: Kernel, known: tuple, passed: tuple) -> None:
        """Note a call of a kernel, before it runs."""
        self._held.append(passed)
        call = KernelCall(kernel, known, tuple(map(self._argument, passed)))
        self.calls[-1].append(call)
        if self.overwritten is not None:
            buffers, byte = self.overwritten
            taken = {p.buffer for p in call.places()}.intersection(buffers)
            self.look(taken)
            for k in taken:
                ctypes.memset(self.buffers[k].start, byte, self.buffers[k].size)
            self.full |= taken

    def look(self, numbers: Iterable[int]) -> None:
        """Note whether buffers that became full of the byte are so no more."""
        assert self.overwritten is not None
        for k in self.full.intersection(numbers):
            b = self.buffers[k]
            self.touched = self.touched or b.now() != bytes([self.overwritten[1]]) * b.size

    def _argument(self, v: Any) -> Any:
        if isinstance(v, np.ndarray):
            return self.place(v)
        if isinstance(v, list):
            return [self._argument(x) for x in v]
        return v.item() if isinstance(v, np.generic) else v


class KernelCalls:
    """A lowered program as `calls` of kernels, with their `buffers`.

    `weights`: which inputs of the program are known, `examples`: three lists of the others' arrays, of other numbers
    each. `outputs`: the places of the results; those that are buffers of their own are of kind "output".
    """

    def __init__(
        self, program: Program, weights: dict[int, np.ndarray], examples: list[list]
    ) -> None:
        self.program = program
        given = [self._inputs(weights, example) for example in examples]
        program.on_arrays([*given[0]])  # compiles, and notes all layouts
        for node in program.inputs:
            if node in program.written:
                raise NotBuilt(f"the program writes to its input {node.name!r}")
        self.steps = needed(program, fused_steps(program, inf))
        for step in self.steps:
            if isinstance(step, Loop):
                step.compile()
        runs = [self._run(given[0]), *map(self._run, given)][1:]  # the first compiles
        self.buffers = runs[0].buffers
        self._compare(runs)
        self._sort(runs, weights)
        kept = self._fold(runs)
        self.calls = [call for calls in kept for call in calls]
        self._ends = [*accumulate(map(len, kept))]  # of each step: how many calls are made by then
        self.outputs = [runs[0].place(runs[0].values[n]) for n in program.outputs]
        self._lifetimes()
        self._outputs()
        self.arena = arranged([b for b in self.buffers if b.kind == "temporary"])
        self._check(runs)

    def _inputs(self, weights: dict[int, np.ndarray], example: list) -> list[np.ndarray]:
        rest = iter(example)
        return [weights[k] if k in weights else next(rest) for k in range(len(self.program.inputs))]

    def _run(self, inputs: list[np.ndarray]) -> Run:
        values: dict[Node, Any] = dict(zip(self.program.inputs, inputs, strict=True))
        values |= {n: t._array for n, t in self.program.constants.items()}
        with recording(nothing) as block:
            return Run(self.steps, values, block)

    def _compare(self, runs: list[Run]) -> None:
        """NotBuilt where two runs made other calls."""
        for other in runs[1:]:
            for k, step in enumerate(self.steps):
                if runs[0].calls[k] != other.calls[k] or runs[0].results[k] != other.results[k]:
                    raise refused(step, "what it does depends on its numbers")

    def _sort(self, runs: list[Run], weights: dict[int, np.ndarray]) -> None:
        """Find out the kind of each buffer."""
        first = runs[0]
        inputs = [first.place(first.values[n]) for n in self.program.inputs]
        known = {inputs[k].buffer: k for k in weights}
        users = [k for k in range(len(inputs)) if k not in weights]
        for k, b in enumerate(self.buffers):
            every = [run.buffers[k] for run in runs]
            if b.kind == "input":
                if any(x.changed() for x in every):
                    raise NotBuilt("the program writes to its inputs")
                b.number = known.get(k, -1)
                if k in known or k not in [inputs[u].buffer for u in users]:
                    b.kind = "weight"
                else:
                    b.number = [inputs[u].buffer for u in users].index(k)
            elif not any(x.changed() for x in every):
                if any(x.before != b.before for x in every):
                    raise refused(self.steps[b.step], "NumPy computes a part of it")
                b.kind = "constant"

    def _fold(self, runs: list[Run]) -> list[list[KernelCall]]:
        """The calls that depend on inputs, of each step; what the others compute of weights becomes weights."""
        varying = {k for k, b in enumerate(self.buffers) if b.kind == "input"}
        folded: set[int] = set()
        kept: list[list[KernelCall]] = []
        for calls in runs[0].calls:
            kept.append([])
            for call in calls:
                found = {p.buffer for p in call.places() if p.buffer >= 0}
                made = {k for k in found if self.buffers[k].kind == "temporary"}
                if found & varying:
                    varying |= made
                    kept[-1].append(call)
                else:
                    folded |= made
        for k in folded:
            every = [run.buffers[k].now() for run in runs]
            if any(v != every[0] for v in every):  # a later call changes it
                return runs[0].calls
        for k in folded:
            for run in runs:
                run.buffers[k].before = run.buffers[k].now()
            self.buffers[k].kind = "weight"
        return kept

    def _lifetimes(self) -> None:
        for k, call in enumerate(self.calls):
            for place in call.places():
                b = self.buffers[place.buffer]
                b.first, b.last = (k if b.first < 0 else b.first), k
        for place in self.outputs:
            b = self.buffers[place.buffer]
            b.first, b.last = max(b.first, 0), len(self.calls)

    def _outputs(self) -> None:
        """Let results that are buffers of their own be written where the caller wants them."""
        for k, place in enumerate(self.outputs):
            b = self.buffers[place.buffer]
            whole = place.offset == 0 and b.size == int(np.prod(place.shape)) * place.dtype.itemsize
            if b.kind == "temporary" and whole:
                b.kind, b.number = "output", k

    def _check(self, runs: list[Run]) -> None:
        """Make the calls by themselves, and compare; a buffer that must begin with what it had does so from then on."""
        while (k := self._first_difference(runs[-1])) is not None:
            begun = [
                b
                for b, other in zip(self.buffers, runs[-1].buffers, strict=True)
                if b.step == k
                and b.kind in ("temporary", "output")
                and b.begins is None
                and b.before == other.before
            ]
            if not begun:
                raise refused(self.steps[k], "its kernels alone compute something else")
            for b in begun:
                b.begins = b.before

    def _first_difference(self, run: Run) -> int | None:
        """The number of the first step whose calls, made by themselves, compute other numbers; None where all agree."""
        arena = np.full(self.arena + ALIGNED, OTHER_NUMBERS, np.uint8)
        arena = arena[-address(arena) % ALIGNED :]
        memory: list[np.ndarray] = []
        for b, theirs in zip(self.buffers, run.buffers, strict=True):
            if b.kind == "temporary":
                memory.append(arena[b.offset : b.offset + b.size])
            elif b.kind == "output":
                memory.append(np.full(b.size, OTHER_NUMBERS, np.uint8))
            else:
                memory.append(np.frombuffer(bytearray(theirs.before), np.uint8))

        begins: dict[int, list[int]] = {}
        for k, b in enumerate(self.buffers):
            if b.kind in ("temporary", "output"):
                begins.setdefault(b.first, []).append(k)
        done = 0
        for k in range(len(self.steps)):
            while done < self._ends[k]:
                for nr in begins.get(done, ()):
                    start = self.buffers[nr].begins
                    memory[nr][:] = (
                        OTHER_NUMBERS if start is None else np.frombuffer(start, np.uint8)
                    )
                call = self.calls[done]
                call.kernel.compiled(**dict(call.known))(*[placed(p, memory) for p in call.given])
                done += 1
            for node, places in run.results[k].items():
                for p, expected in zip(places, arrays_in(run.values[node]), strict=True):
                    if p.buffer >= 0 and not np.array_equal(
                        placed(p, memory), expected, equal_nan=expected.dtype.kind in "fc"
                    ):
                        return k
        return None


def others(t: np.ndarray, which: int) -> np.ndarray:
    """An array like this with other numbers, in the range of its own where they are whole, and probabilities where they are
    that: kernels refuse others."""
    if not which:
        return t
    some = np.arange(1, min(t.size, PERIOD) + 1) * (0.6180339887498949 * which) % 1
    if t.dtype.kind in "fV" and ((t >= 0) & (t <= 1)).all():
        return np.resize(some.astype(t.dtype), t.shape)
    if t.dtype.kind in "fc" or t.dtype.kind == "V":
        some = (4 * some - 2).astype(t.dtype)
        return (t * t.dtype.type(-0.7) + np.resize(some, t.shape)).astype(t.dtype, copy=False)
    if t.dtype.kind == "b":
        return np.resize(some < 0.5, t.shape)
    low, high = int(min(0, t.min(initial=0))), int(max(1, t.max(initial=0)))
    span = high - low + (t.max(initial=0) > 0)
    whole = [low + min(int(x * span), span - 1) for x in some.tolist()]
    return np.resize(np.array(whole, t.dtype), t.shape)


def nothing(*_: Any) -> None:
    """Note nothing of a call of a kernel."""


def placed(v: Any, memory: list) -> Any:
    """What a kernel is given, arrays in the memory of their buffers."""
    if isinstance(v, list):
        return [placed(x, memory) for x in v]
    if not isinstance(v, Place):
        return v
    if v.buffer < 0:
        return np.empty(v.shape, v.dtype)
    return np.ndarray(v.shape, v.dtype, memory[v.buffer].data, v.offset, v.strides)


def function_of(call: KernelCall) -> Any:
    """The builtin function that runs a kernel."""
    return call.kernel.compiled(**dict(call.known)).__globals__["function"]


def places_in(v: Any) -> Iterable[Place]:
    """The places in what `places` gives."""
    if isinstance(v, Place):
        yield v
    elif v is not None:
        for x in v:
            yield from places_in(x)


def arranged(buffers: Iterable[Any]) -> int:
    """Give each buffer (of a `size`, which lives from `first` to `last`) an `offset` in one block of memory, so that none
    shares bytes with another that lives at the same time, the largest first; the size of the block."""
    placed: list[Any] = []
    for b in sorted(buffers, key=lambda b: -b.size):
        place_among(b, placed)
    return max((b.offset + b.size for b in placed), default=0)


def place_among(buffer: Any, placed: list, within: float = inf) -> bool:
    """Give a buffer the first offset at which it shares no bytes with others that live at the same time, and put it into
    their list, which is in the order of offsets; False where it would not end `within` so many bytes."""
    first, last, size = buffer.first, buffer.last, buffer.size
    at = 0
    for o in placed:
        if o.first <= last and first <= o.last:
            if at + size <= o.offset:
                break
            at = max(at, -(-(o.offset + o.size) // ALIGNED) * ALIGNED)
    if at + size > within:
        return False
    buffer.offset = at
    insort(placed, buffer, key=attrgetter("offset"))
    return True


def refused(step: Call | Loop, why: str) -> NotBuilt:
    """The error for an operator, with the line of the user's that called it."""
    call = step.calls[-1] if isinstance(step, Loop) else step
    name = getattr(call.node.target, "name", lambda: None)() or getattr(
        call.node.target, "__name__", str(call.node.target)
    )
    trace = call.node.stack_trace
    where = "\n" + trace if trace else ""
    return NotBuilt(f"{name} cannot run without Python: {why}{where}")
