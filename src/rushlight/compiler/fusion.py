"""Chains of elementwise calls as one loop each.

Note [What is fused]
    A call is elementwise if its forward runs on stand-ins (`elements.py`): it is traced, so there is no list of
    operators here. Calls of one shape whose results stay in no other's way become one group: no call outside
    of it may need one of its results before another of its inputs is known. Writes to memory are part of a group if all
    that the group reads of this memory has the same place and strides.

    A group is one kernel (`_codegen/kernels/fused.py`) on the arrays as they are, views folded into offsets and
    strides; a vector may stand for the channels of an array (`of_channels`). The kernel compares dtypes, shapes and
    strides with those of the first run and refuses others; then the calls run one by one.

    Sums of what a group reads or computes are part of it (`Sum`): they are taken where the numbers are. Nothing in the
    group reads them.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._codegen.kernels.fused import (
    DEEP,
    FAR,
    GRAIN,
    MOST,
    PIECE,
    ROOM,
    SIZES,
    Chain,
    Line,
    Operand,
    row,
)
from rushlight._codegen.types import Type, of
from rushlight.compiler.calls import Call
from rushlight.compiler.elements import HALF, SPACE, Lines, Refused, Sum, Value
from rushlight.fx import Node

if TYPE_CHECKING:
    from rushlight.compiler.lowering import Layout, Program

MOST_CALLS = 64
MOST_SUMS = 8
WIDEST = ROOM // 16  # numbers that a sum gives, at most
LEAST = 1024  # elements of a sum: of fewer it has the bits that it has outside of loops, and takes as long
SHORT, FEW = (
    48,
    4096,
)  # elements of a row and of an array: walking along shorter rows of larger arrays takes too long


# -- groups ------------------------------------------------------------------------------------------


class Unit:
    """Calls that run together: `calls` are their numbers, `before` those of all calls that come before them."""

    __slots__ = ("calls", "before", "shape", "keys", "written", "sums", "needs")

    def __init__(self, calls: int, before: int, shape: Any) -> None:
        self.calls, self.before, self.shape = calls, before, shape
        self.sums = self.needs = 0  # those of the calls that are sums; the sums that calls need
        self.keys: set = set()  # places in memory that are read or computed
        self.written: set[Node] = set()  # roots that are made or written to


def place(layout: Layout) -> tuple:
    """Where an array is: what two nodes share that are the same memory."""
    return (layout.root, layout.base, layout.offset, layout.shape, layout.strides, layout.dtype)


def target(call: Call) -> Node:
    """The node whose array holds what a call gives."""
    return call.node if call.writes is None else call.writes


def traced(program: Program, call: Call, lines: Lines, value: Callable) -> Value | Sum:
    """What an elementwise call or a sum computes, as lines. Raises whatever where it is neither."""
    if call.forward is None:
        raise Refused
    layout = program.layouts[target(call)]
    lines.channels = False
    result = call.forward(SPACE, value)
    if isinstance(result, Sum):
        return result
    if lines.channels and layout.strides[1] == layout.dtype.itemsize:
        raise Refused  # what is computed for each channel would be computed for each element
    if not isinstance(result, Value) or not prod(layout.shape):
        raise Refused
    if call.writes is not None:
        if 0 in layout.strides and prod(layout.shape) > 1:
            raise Refused
        if result.type.np is not layout.dtype:
            result = SPACE.cast(result, layout.dtype)
    elif result.shape != layout.shape or layout.root is not call.node or not dense(layout):
        raise Refused
    if result.type.np is not layout.dtype or of(layout.dtype) in HALF:
        raise Refused
    return Value(result.text, result.type, layout.shape, lines)


def pays(call: Call, result: Sum, layout: Layout) -> bool:
    """Whether the numbers of a sum are new and in order, and a walk along rows of its elements takes no longer."""
    value = result.value
    size = layout.dtype.itemsize
    kept = [n for n, each in zip(value.shape, result.kept, strict=True) if each and n != 1]
    key = value.key
    if key is None or call.writes is not None or layout.root is not call.node or value.size < LEAST:
        return False
    if kept != [n for n in layout.shape if n != 1] or prod(kept) > WIDEST or not dense(layout):
        return False
    if list(layout.strides) != sorted(layout.strides, reverse=True):
        return False
    to = (*key[:3], value.shape, result.strides(size), key[5])
    sizes, strides = collapsed(value.shape, [to, key], 1)
    return strides[0][-1] in (0, 1) and (sizes[-1] >= SHORT or value.size <= FEW)


def elementwise(program: Program) -> tuple[set[Node], dict[Node, tuple[int, ...]]]:
    """The nodes of the calls that are elementwise, and of those that are sums with the shape of what they add up."""
    found, sums = set(), {}
    for call in program.calls:
        lines = Lines()
        try:
            result = traced(program, call, lines, loader(program, lines))
        except Exception:  # a forward may do anything with a value that no array allows
            continue
        if not isinstance(result, Sum):
            found.add(call.node)
        elif pays(call, result, program.layouts[call.node]):
            sums[call.node] = result.value.shape
    return found, sums


def loader(program: Program, lines: Lines) -> Callable[[Node], Value]:
    """What stands for a node in a chain."""

    def value(node: Node) -> Value:
        layout = program.layouts[program.at(node)]
        return lines.load(place(layout), of(layout.dtype), layout.shape)

    return value


def dense(layout: Layout) -> bool:
    """Whether an array has its elements side by side, in some order of its dimensions."""
    n = layout.dtype.itemsize
    for stride, size in sorted(zip(layout.strides, layout.shape, strict=True)):
        if size == 0:
            return False
        if size > 1:
            if stride != n:
                return False
            n *= size
    return True


class Groups:
    """Which calls of a program run together, and in which order."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.elementwise, self.sums = elementwise(program)
        self.units: list[Unit] = []
        self.of: dict[int, Unit] = {}  # number of a call -> its unit
        self.needs: dict[int, int] = {}  # number of a call -> the sums that it needs
        number = {c.node: k for k, c in enumerate(program.calls)}
        readers: dict[Node, list[int]] = {}
        writers: dict[Node, int] = {}
        impure: list[int] = []
        for k, call in enumerate(program.calls):
            loads, needs = self._reads(call)
            roots = {program.root(n) for n in loads}
            before = [number[n] for n in needs if n in number]
            before += [writers[r] for r in roots if r in writers]
            for written in map(program.root, call.written):
                before += readers.get(written, ())
                before += [writers[written]] if written in writers else []
                writers[written] = k
            if call.writes is None and not call.pure:
                before, impure = before + impure[-1:], [*impure, k]
            for r in roots:
                readers.setdefault(r, []).append(k)
            self._place(k, call, before)

    def _reads(self, call: Call) -> tuple[list[Node], list[Node]]:
        """(the nodes that a call reads, those that must be there for it): fused calls need no views."""
        read = [*call.reads()] + ([call.writes] if call.writes is not None else [])
        if call.node not in self.elementwise and call.node not in self.sums:
            return read, read
        layouts = self.program.layouts
        return read, [layouts[n].base if n in layouts else n for n in read]

    def _place(self, k: int, call: Call, before: Iterable[int]) -> None:
        """Put a call into the unit that it can join, or a new one."""
        mask = needs = 0
        for b in before:
            unit = self.of[b]
            mask |= unit.before | unit.calls
            needs |= self.needs[b] | unit.sums & (1 << b)
        made = Unit(1 << k, mask, None)
        self.needs[k] = made.needs = needs
        if call.node in self.elementwise or call.node in self.sums:
            layouts = self.program.layouts
            made.shape = self.sums.get(call.node, layouts[target(call)].shape)
            made.sums = 1 << k if call.node in self.sums else 0
            made.keys = {place(layouts[n]) for n in (*call.reads(), target(call))}
            made.written = {layouts[target(call)].root}
        self.units.append(made)
        self.of[k] = made
        if made.shape is None:
            return
        roots = {key[0] for key in made.keys}
        for unit in reversed(self.units[:-1]):
            if unit.shape == made.shape and roots & {key[0] for key in unit.keys}:
                if self._joinable(unit, made):
                    self._join(unit, made)
                    made = unit

    def _joinable(self, a: Unit, b: Unit) -> bool:
        both, before = a.calls | b.calls, a.before | b.before
        if both.bit_count() > MOST_CALLS or len(a.keys | b.keys) > MOST:
            return False
        sums = a.sums | b.sums
        if sums & (a.needs | b.needs) or sums.bit_count() > MOST_SUMS:
            return False
        for root in a.written | b.written:
            if len({key for key in a.keys | b.keys if key[0] is root}) > 1:
                return False
        return not any(
            u.calls & before and u.before & both for u in self.units if u is not a and u is not b
        )

    def _join(self, a: Unit, b: Unit) -> None:
        a.calls |= b.calls
        a.sums |= b.sums
        a.needs |= b.needs
        a.before |= b.before
        a.keys |= b.keys
        a.written |= b.written
        self.units.remove(b)
        for k in list(self.of):
            if self.of[k] is b:
                self.of[k] = a
        for u in self.units:
            if u.before & a.calls:
                u.before |= a.before | a.calls
        a.before &= ~a.calls

    def ordered(self) -> list[list[Call]]:
        """The calls of each unit, in an order in which they can run."""
        calls = self.program.calls
        members = [numbers_in(unit.calls) for unit in self.units]
        at = {k: n for n, group in enumerate(members) for k in group}
        waits: list[set[int]] = []
        for n, unit in enumerate(self.units):
            found, bits = set(), unit.before & ~unit.calls
            while bits:  # what the last of these waits for need not be waited for again
                m = at[bits.bit_length() - 1]
                found.add(m)
                bits &= ~(self.units[m].calls | self.units[m].before)
            waits.append(found - {n})
        frees: dict[int, list[int]] = {}
        for n, found in enumerate(waits):
            for m in found:
                frees.setdefault(m, []).append(n)
        ready = [(members[n][-1], n) for n, found in enumerate(waits) if not found]
        heapq.heapify(ready)
        out = []
        while ready:
            _, n = heapq.heappop(ready)
            out.append([calls[k] for k in members[n]])
            for m in frees.get(n, ()):
                waits[m].discard(n)
                if not waits[m]:
                    heapq.heappush(ready, (members[m][-1], m))
        if len(out) != len(members):
            raise AssertionError("a group waits for itself")
        return out


def numbers_in(bits: int) -> list[int]:
    """The places of the bits that are set, in rising order."""
    found = []
    while bits:
        low = bits & -bits
        found.append(low.bit_length() - 1)
        bits ^= low
    return found


# -- one loop ----------------------------------------------------------------------------------------


class Loop:
    """A group as one call of a kernel: `arrays` are the nodes whose arrays it takes, of which it makes `fresh`."""

    def __init__(self, program: Program, calls: list[Call], outside: set[Node]) -> None:
        """`outside`: the roots whose memory others read."""
        self.program, self.calls = program, calls
        lines, layouts = Lines(), program.layouts
        load = loader(program, lines)
        memory: dict[Any, Value] = {}  # what stands at a place by now

        def value(node: Node) -> Value:
            found = memory.get(place(layouts[program.at(node)]))
            return load(node) if found is None else found

        made = {c.node for c in calls if c.writes is None}
        stored: list = []
        sums: list = []  # where elements go that are added up
        added: list[str] = []
        for call in calls:
            key = place(layouts[target(call)])
            result = traced(program, call, lines, value)
            if isinstance(result, Sum):
                self.shape = result.value.shape
                sums.append((*key[:3], self.shape, result.strides(key[5].itemsize), key[5]))
                added.append(result.value.text)
                continue
            self.shape = result.shape
            memory[key] = result
            if key not in stored and (key[0] in outside or key[0] not in made):
                stored.append(key)
        self.fresh = [key[1] for key in (*stored, *sums) if key[0] in made]
        results = [*[memory[key].text for key in stored], *added]
        lines.keep(results)
        places = [*lines.loads, *stored, *sums]
        self.arrays: list[Node] = list(dict.fromkeys(key[1] for key in places))
        self._plan(lines, places, results, len(sums))

    def _plan(self, lines: Lines, places: list, results: list[str], sums: int) -> None:
        loads, stores = len(lines.loads), len(places) - sums
        sizes, strides = collapsed(self.shape, places, outermost_of(places[:stores], loads))
        operands, where, counts, room = [], [], [], 0
        for k, (key, steps) in enumerate(zip(places, strides, strict=True)):
            t = of(key[5])
            assert t is not None
            operands.append(Operand(t, steps[-1] if steps[-1] in (0, 1) else FAR))
            first = key[2]
            if k >= stores:
                n = prod(self.program.layouts[key[1]].shape)
                counts += [n, t.size]
                first, room = 8 * room, room + -(-n * t.size // 8)
            where += [self.arrays.index(key[1]), first, *[s * t.size for s in steps]]
        head = [*sizes, *[steps[-1] for steps in strides]]
        start = SIZES + len(head)
        plan = [len(self.arrays), len(sizes), len(places), start, start + len(where) + len(counts)]
        plan += [sums, start + len(where), room, *chunk(sizes, room), *head, *where, *counts]
        for node in self.arrays:
            layout = self.program.layouts[node]
            plan += [id(layout.dtype), len(layout.shape), *layout.shape, *layout.strides]
        names = {v.text: f"v{k}" for k, v in enumerate(lines.loads.values())}
        names |= {f"line{k}": f"v{loads + k}" for k in range(len(lines.lines))}
        written = [
            Line(line.function, tuple(names.get(t, t) for t in line.of)) for line in lines.lines
        ]
        self.chain = Chain(
            tuple(operands[:loads]), tuple(operands[loads:stores]), tuple(operands[stores:]),
            tuple(t for t, _ in lines.numbers), written, tuple(names.get(r, r) for r in results),
        )  # fmt: skip
        self.plan = np.array(plan, np.int64)
        self.numbers = np.array([packed(t, v) for t, v in lines.numbers] or [0], np.int64)

    def compile(self) -> None:
        """Make machine code of the chain."""
        self.address = row.address(CHAIN=self.chain)

    def reads(self) -> list[Node]:
        """The nodes whose arrays are taken."""
        return [n for n in self.arrays if n not in self.fresh]

    def one_by_one(self, *arrays: Any) -> list:
        """The calls without the kernel, of the arrays that it takes; the arrays that it makes."""
        values: dict[Node, Any] = dict(zip(self.reads(), arrays, strict=True))
        for call in self.calls:
            found = call.run(lambda node: self.program.value_by_views(values, node))
            if call.writes is None:
                values[call.node] = np.asarray(found)
        return [values[n] for n in self.fresh]


def packed(t: Type, text: str) -> int:
    """A number as the kernel is given it."""
    value = float(text) if t.is_float else int(text)
    return int(np.float64(value).view(np.int64)) if t.is_float else value


def chunk(sizes: list[int], room: int) -> tuple[int, int]:
    """How many elements a chunk of a loop has, and how many of a row are taken at once; `room`: of the sums of a chunk."""
    if not room:
        return GRAIN, sizes[-1]
    few = -(-prod(sizes) // (ROOM // room))  # else there were more chunks than there is room for
    return max(few, min(GRAIN, DEEP * sizes[-1])), PIECE


def outermost_of(places: list, loads: int) -> int:
    """The number of the place whose order in memory a loop follows: what is stored last, or all of which is loaded."""
    if len(places) > loads:
        return len(places) - 1
    return max(range(loads), key=lambda k: (prod(places[k][3]), 0 not in places[k][4]))


def collapsed(
    shape: tuple[int, ...], places: list, follow: int
) -> tuple[list[int], list[list[int]]]:
    """(sizes of dimensions, strides in elements of each place): dimensions that are one in memory for all are
    one; the innermost of the place number `follow` is the last."""
    nd = len(shape)
    strides = []
    for key in places:
        size = key[5].itemsize
        steps = [0] * (nd - len(key[3])) + [
            0 if n == 1 else s // size for n, s in zip(key[3], key[4], strict=True)
        ]
        strides.append(steps)
    order = sorted((d for d in range(nd) if shape[d] != 1), key=lambda d: (-strides[follow][d], d))
    sizes: list[int] = []
    found: list[list[int]] = [[] for _ in places]
    for d in order:
        if sizes and all(f[-1] == s[d] * shape[d] for f, s in zip(found, strides, strict=True)):
            sizes[-1] *= shape[d]
            for f, s in zip(found, strides, strict=True):
                f[-1] = s[d]
        else:
            sizes.append(shape[d])
            for f, s in zip(found, strides, strict=True):
                f.append(s[d])
    if not sizes:
        return [1], [[0 if k < follow else 1] for k in range(len(places))]
    return sizes, found
