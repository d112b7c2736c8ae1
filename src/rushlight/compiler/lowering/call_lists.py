"""Steps of a program that follow each other, as one native call.

Note [Call lists]
    What a step does as calls of kernels is found as Note [One step] says. Such steps, and the views between them, become
    one call of `carry_out` (`_codegen/kernels/call_list.py`), which hands kernels arrays that were made once, and tells
    them where their memory is. What others read is made before the call. What only these steps read lies in it until
    the step that writes to it, where it fits; the rest lies in an arena, which is made for the call. A list ends before it holds
    much memory longer than its steps would (`Lifetimes`): what is made before the list instead of by its step, and what goes
    behind the list instead of behind the last step that reads it.
    Where something else is given than in the first run, the list runs in another thread, or a kernel says that something
    is wrong, the lines of the steps run, as if there was no call list. A kernel that may say so comes before all writes to
    what others see.
"""

from __future__ import annotations

import mmap
import operator
from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rushlight._codegen.kernels import call_list
from rushlight._codegen.kernels.fused import fused
from rushlight._codegen.object_text import Place
from rushlight.compiler.lowering.calls import NESTED, Call, nodes_in
from rushlight.compiler.lowering.fusion import Loop, dense
from rushlight.compiler.lowering.kernel_calls import arranged, function_of, place_among, places_in
from rushlight.compiler.lowering.lowered_steps import View, named_by
from rushlight.compiler.lowering.lowering import LARGE, address
from rushlight.compiler.lowering.step_calls import Refused, StepCalls, found_calls, operands

if TYPE_CHECKING:
    from rushlight.compiler.lowering.lowering import Layout, Program
    from rushlight.fx import Node


class Memory:
    """A block of memory of a call list: that of array number `given`, a part of it that begins `offset` bytes behind its
    start, or `content`. It lives from the call number `first` to `last`; what is in the place of another one is a part of that.
    """

    def __init__(self, size: int, given: int = -1, content: np.ndarray | None = None) -> None:
        self.size, self.given, self.content = size, given, content
        self.first, self.last, self.offset = -1, -1, 0
        self.over: Memory | None = None  # the block in whose place it lies


class At(NamedTuple):
    """An array of a call list: in which memory it is, where it begins there, and its layout. No memory: it is empty."""

    memory: Memory | None
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


class Nowhere:
    """Memory that nobody touches, for arrays that are told where their memory is."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 1)

    def of(self, size: int) -> mmap.mmap:
        """Memory of so many bytes."""
        if size > len(self._memory):
            self._memory = mmap.mmap(-1, size)
        return self._memory


NOWHERE = Nowhere()
SHARED = 1 << 10  # bytes of what may lie in the memory of a result
POOLED = (
    1 << 15
) + 1  # bytes: arrays of less do not come from the pool, and begin in the middle of cache lines
HELD = 1 << 19  # bytes that a list may hold for longer: to fill them takes far longer than its call


class CallList:
    """Steps as one call of `carry_out`, which takes `table` first, then the arrays of `reads` and `fresh`.

    `reads`: the nodes whose arrays are there, `fresh`: those whose arrays are made before; `views`: the steps that make
    views which others read. Where `size` is not 0 an array of so many bytes follows, the arena.
    """

    table: np.ndarray
    held: list[Any]  # all that the table has addresses of

    def __init__(self, program: Program, steps: list, found: list, wanted: set[Node]) -> None:
        """`found`: the kernel calls of steps that are calls; `wanted`: the nodes that others read."""
        self.program, self.steps = program, steps
        self.reads: list[Node] = []
        self.fresh: list[Node] = []
        self.views = [s for s in steps if isinstance(s, View) and s.node in wanted]
        self._at: dict[Node, Any] = {}  # where the values of nodes are
        self._bases: list[At] = []
        self._calls: list[tuple] = []  # (function or None for zeros, arguments, memory of zeros)
        self._constants: dict[int, Memory] = {}  # by the id of the buffer
        self._in_place: list[tuple] = []  # call, its result, where that may lie
        for step, calls in zip(steps, found, strict=True):
            self._step = step
            if isinstance(step, Loop):
                self._loop(step)
            elif isinstance(step, View):
                self._view(step)
            elif calls is not None:
                self._call(step, calls)
            elif step.args[0] in self._at:
                self._at[step.node] = self._at[step.args[0]][step.args[1]]
            else:
                raise Refused(step)
        self._outputs(wanted | {v.base for v in self.views})
        self.size = self._arranged()

    @property
    def arrays(self) -> list[Node]:
        """The nodes whose arrays it takes or gives."""
        return [*self.reads, *self.fresh, *[v.node for v in self.views]]

    def _value(self, node: Node) -> At:
        """Where the array of a node is; it is given where no step makes it."""
        if node not in self._at:
            made = Memory(0, len(self._bases))
            self.reads.append(node)
            self._bases.append(laid(made, 0, self.program.layouts[node]))
            self._at[node] = self._bases[-1]
        if not isinstance(self._at[node], At):
            raise Refused(self._step)
        return self._at[node]

    def _view(self, view: View) -> None:
        base = self._value(view.base)
        of, layout = self.program.layouts[view.base], self.program.layouts[view.node]
        self._at[view.node] = laid(base.memory, base.offset + layout.offset - of.offset, layout)

    def _loop(self, loop: Loop) -> None:
        for node in loop.fresh:
            layout = self.program.layouts[node]
            made = Memory(prod(layout.shape) * layout.dtype.itemsize)
            self._at[node] = laid(made, 0, layout)
        refused = self._constants.setdefault(0, Memory(8, content=np.zeros(1, np.int64)))
        arrays = [self._value(n) for n in loop.arrays]
        memory = [at.memory for at in arrays]
        for node in loop.fresh:
            over = [self._value(n) for n in loop.replaceable(node)]
            found = [at.memory for at in over if not at.offset and memory.count(at.memory) == 1]
            self._in_place.append((len(self._calls), self._value(node).memory, found))
        stop = At(refused, 0, (1,), (8,), np.dtype(np.int64))
        given = [loop.address, arrays, np.ndarray, loop.plan, loop.numbers, stop]
        self._calls.append((fused.compiled().__globals__["function"], given, refused))

    def _call(self, call: Call, found: StepCalls) -> None:
        own: dict[int, tuple[Memory | None, int]] = {-1: (None, 0)}
        for node, place in zip(operands(call), found.given, strict=True):
            at = self._value(node)
            own[place.buffer] = (at.memory, at.offset - place.offset)
        told = None
        changes = call.writes is None and self.program.root(call.node) in self.program.written
        changed = {p.buffer for p in places_in(found.result)} if changes else set()
        for k, b in enumerate(found.buffers):
            if k in own:
                continue
            begins = b.begins
            if k in changed and b.kind == "constant":  # others write to it: each run needs its own
                if any(b.before):
                    raise Refused(call)
                begins = b""
            elif b.kind == "constant":
                content = np.frombuffer(bytearray(b.before), np.uint8)
                made = self._constants.setdefault(id(b), Memory(b.size, content=content))
                told = made if b.tells else told
                own[k] = (made, 0)
                continue
            made = Memory(b.size)
            if begins is not None:
                zeros = At(made, 0, (b.size,), (1,), np.dtype(np.uint8))
                self._calls.append((None, [zeros], None))
            own[k] = (made, 0)

        for each in found.calls:
            self._calls.append((function_of(each), [placed(v, own) for v in each.given], told))
        if call.writes is None:
            self._at[call.node] = placed(found.result, own)

    def _outputs(self, wanted: set[Node]) -> None:
        """Let what others read be written to arrays that are given."""
        for step in self.steps:
            made = step.fresh if isinstance(step, Loop) else [step.node]
            for node in made:
                if node not in wanted or isinstance(step, View) or node not in self._at:
                    continue
                at = self._at[node]
                layout = self.program.layouts.get(node)
                if not isinstance(at, At) or at.memory is None or at.memory.content is not None:
                    raise Refused(step)
                size = prod(at.shape) * at.dtype.itemsize
                if at.memory.given >= 0 or at.memory.size != size or not dense(layout):
                    raise Refused(step)
                at.memory.given = len(self._bases)
                self._bases.append(at)
                self.fresh.append(node)

    def _arranged(self) -> int:
        """Give what only these steps read its place, in arrays that are written later or in the arena; the size of the arena."""
        for k, (_, given, _) in enumerate(self._calls):
            for at in found_in(given):
                if (m := at.memory) is not None:
                    m.first, m.last = (k if m.first < 0 else m.first), k
        temporary = {at.memory for _, given, _ in self._calls for at in found_in(given)}
        parts = [m for m in temporary if m is not None and m.given < 0 and m.content is None]
        parts.sort(key=lambda m: (m.first, m.last))
        later = [
            at.memory for at in self._bases if at.memory is not None and at.memory.size >= POOLED
        ]
        rest = placed_in_later_memory(parts, sorted(later, key=lambda m: m.size))
        rest = replaced(rest, self._in_place)
        size = max(arranged(rest), POOLED) if rest else 0
        for m in rest:
            m.given = len(self._bases)
        for _, m, _ in self._in_place:
            if m.over is not None:
                m.given, m.offset = m.over.given, m.over.offset
        if size:
            self._bases.append(At(None, 0, (size,), (1,), np.dtype(np.uint8)))
        return size

    def write(self) -> None:
        """Make the table; see kernels/call_list.py."""
        busy = np.zeros(1, np.int64)
        self.held = [busy]
        arrays: dict[At, np.ndarray] = {}
        moves: list[int] = []
        calls: list[int] = []
        for function, given, told in self._calls:
            objects = [array_of(v, arrays, moves) for v in given]
            held = np.array([id(o) for o in objects], np.int64)
            self.held.append((function, objects, held))
            if function is None:
                calls += [0, id(objects[0]), objects[0].size, 0, 0]
            else:
                zeros = (0, 0) if told is None else (address(told.content), told.size // 8)
                calls += [id(function), address(held), len(objects), *zeros]
        self.held.append((arrays, [*self._constants.values()]))
        table = [address(busy), len(self._bases), 0, len(moves) // call_list.MOVE]
        table += [0, len(self._calls)]
        for at in self._bases:
            table += [id(at.dtype), len(at.shape), *at.shape, *at.strides]
        table[call_list.MOVES] = len(table)
        table[call_list.CALLS] = len(table) + len(moves)
        self.table = np.array([*table, *moves, *calls], np.int64)


def laid(memory: Memory | None, offset: int, layout: Layout) -> At:
    """An array of a known layout."""
    return At(memory, offset, layout.shape, layout.strides, layout.dtype)


def placed(v: Any, own: dict[int, tuple[Memory, int]]) -> Any:
    """An argument of a kernel, with memory for the places of its buffers: (memory, offset) in `own`."""
    if isinstance(v, Place):
        memory, shift = own[v.buffer]
        return At(memory, shift + v.offset, v.shape, v.strides, v.dtype)
    return [placed(x, own) for x in v] if v.__class__ in (list, tuple) else v


def replaced(parts: list[Memory], found: list) -> list[Memory]:
    """Let results of loops lie in memory that nobody reads any more, where that is said to be right; the other parts."""
    own = set(parts)
    for k, made, places in found:
        for m in places if made in own and made.first == k < made.last else ():
            m = m if m.over is None else m.over
            if m in own and m.size == made.size and m.first < k == m.last:
                made.over, m.last = m, made.last
                own.remove(made)
                break
    return [m for m in parts if m in own]


def placed_in_later_memory(parts: list[Memory], later: list[Memory]) -> list[Memory]:
    """Place parts, the largest first, in memory that is written to later; returns those for which there is no room."""
    rest: list[Memory] = []
    inside: dict[Memory, list[Memory]] = {m: [] for m in later}
    for part in sorted(parts, key=lambda m: -m.size):
        for host, found in inside.items() if part.size >= SHARED else ():
            if part.size <= host.size and part.last < host.first:
                if place_among(part, found, host.size):
                    part.given = host.given
                    break
        else:
            rest.append(part)
    return rest


def array_of(v: Any, arrays: dict[At, np.ndarray], moves: list[int]) -> Any:
    """An argument of a kernel: the arrays of those made so far, or made here, that stand in constants, or in arrays that
    are given; `moves` is told of the last."""
    if isinstance(v, list):
        return [array_of(x, arrays, moves) for x in v]
    if not isinstance(v, At):
        return v
    if v in arrays:
        return arrays[v]
    m = v.memory
    if m is None:
        made = np.empty(v.shape, v.dtype)
    elif m.content is not None:
        made = np.ndarray(v.shape, v.dtype, m.content.data, v.offset, v.strides)
    else:
        steps = [(n - 1) * s for n, s in zip(v.shape, v.strides, strict=True)]
        low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
        made = np.ndarray(
            v.shape, v.dtype, NOWHERE.of(high - low + v.dtype.itemsize), -low, v.strides
        )
        moves.extend((id(made), m.given, m.offset + v.offset))
    arrays[v] = made
    return made


def found_in(given: Iterable) -> Iterable[At]:
    """The arrays in nested arguments of kernels."""
    for v in given:
        if isinstance(v, At):
            yield v
        elif isinstance(v, list):
            yield from found_in(v)


# -- a program ---------------------------------------------------------------------------------------


def with_call_lists(program: Program, steps: list, values: dict[Node, Any]) -> list:
    """The steps of a program, those that can as call lists. `values`: of all nodes after a run."""
    found: dict[int, Any] = dict(found_calls(program, steps, values))
    found |= {k: None for k, step in enumerate(steps) if makes_no_calls(program, step, values)}
    made: dict[tuple[int, int], CallList] = {}
    later = wanted_later(program, steps)
    lifetimes = Lifetimes(program, steps)
    while True:
        out, refused = joined(program, steps, found, later, lifetimes, made)
        if not refused:
            break
        for k in refused:
            del found[k]
    for each in out:
        if isinstance(each, CallList):
            each.write()
    return out


def makes_no_calls(program: Program, step: Any, values: dict[Node, Any]) -> bool:
    """Whether a step needs no kernel calls to be found: a small loop, a view, an item of several results."""
    if isinstance(step, Loop):
        layouts = [program.layouts[n] for n in step.arrays]
        return sum(prod(x.shape) * x.dtype.itemsize for x in layouts) < LARGE
    if isinstance(step, View):
        return True
    return step.function is operator.getitem and values[step.args[0]].__class__ in NESTED


def wanted_later(program: Program, steps: list) -> list[set[Node]]:
    """Of each place before, between and behind the steps: the nodes that are read by what comes behind it."""
    wanted = set(nodes_in(program.outputs))
    later = [wanted]
    for step in reversed(steps):
        wanted = wanted | {*named_by(step)}
        later.append(wanted)
    return later[::-1]


class Lifetimes:
    """Which memory the steps of a program begin to need, and which they need last; its sizes by their roots."""

    def __init__(self, program: Program, steps: list) -> None:
        self.begins: list[list[Node]] = [[] for _ in steps]
        self.ends: list[list[Node]] = [[] for _ in steps]
        self.size: dict[Node, int] = {}
        self.first: dict[Node, int] = {}
        self.last: dict[Node, int] = {}
        for k, step in enumerate(steps):
            for n in named_by(step):
                root = program.root(n)
                self.last[root] = k
                if (layout := program.layouts.get(n)) is not None:
                    size = prod(layout.shape) * layout.dtype.itemsize
                    self.size[root] = max(self.size.get(root, 0), size)
            for n in step.fresh if isinstance(step, Loop) else [step.node]:
                if program.root(n) is n and n not in self.first:
                    self.begins[k].append(n)
                    self.first[n] = k
        self.last |= {program.root(n): len(steps) for n in nodes_in(program.outputs)}
        for root, first in self.first.items():
            if self.last.setdefault(root, first) < len(steps):
                self.ends[self.last[root]].append(root)

    def cut(self, first: int, end: int) -> Iterable[tuple[int, int]]:
        """Steps that may become one list, in parts that hold no more than `HELD` bytes longer than their steps would: what
        was made before the part and is not read behind a step, and what a step makes for those behind `end`."""
        held = 0
        for k in range(first + 1, end):
            stay = [n for n in self.ends[k - 1] if self.first[n] < first]
            made = [n for n in self.begins[k] if self.last[n] >= end]
            held += sum(self.size.get(n, 0) for n in stay + made)
            if held > HELD:
                yield first, k
                first, held = k, 0
        yield first, end


def joined(
    program: Program,
    steps: list,
    found: dict[int, Any],
    later: list[set[Node]],
    lifetimes: Lifetimes,
    made: dict,
) -> tuple[list, list[int]]:
    """The steps; those in `found` that follow each other as call lists. And the numbers of steps that a list refused: for
    each such list the first. `made`: the lists by their first step and their end, which stay where another one is
    refused."""
    out: list = []
    refused: list[int] = []
    parts = [
        p for first, end in stretches(program, steps, found) for p in lifetimes.cut(first, end)
    ]
    for first, end in parts:
        group = steps[first:end]
        kernels = [
            k
            for k in range(first, end)
            if isinstance(steps[k], Loop) or found.get(k) and found[k].calls
        ]
        if kernels and first in found:
            if (first, end) not in made:
                calls = [found[k] for k in range(first, end)]
                try:
                    made[first, end] = CallList(program, group, calls, later[end])
                except Refused as e:
                    refused.append(first + next(k for k, s in enumerate(group) if s is e.args[0]))
                    continue
            group = [made[first, end]]
        out += group
    return out, refused


def stretches(program: Program, steps: list, found: dict[int, Any]) -> Iterable[tuple[int, int]]:
    """(the first, the end) of steps that may become one call list, and of others."""
    first = 0
    made: set[Node] = set()
    writes = False  # whether others see what was written
    for k, step in enumerate(steps):
        fits = k in found
        calls = found.get(k)
        tells = calls is not None and any(b.tells for b in calls.buffers)
        if not fits or tells and writes:
            if k > first:
                yield first, k
            first, made, writes = k, set(), False
            if not fits:
                yield k, k + 1
                first = k + 1
                continue
        if isinstance(step, Loop):
            made.update(step.fresh)
        elif not isinstance(step, View):
            made.add(step.node)
        written = [n for c in getattr(step, "calls", [step]) for n in c.written]
        writes = writes or any(program.root(n) not in made for n in written)
    if len(steps) > first:
        yield first, len(steps)
