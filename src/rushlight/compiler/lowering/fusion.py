"""Chains of elementwise calls as one loop each.

Note [What is fused]
    A call is elementwise if its forward runs on stand-ins (`Value`) in a back end that knows nothing but the
    functions of one element which kernels have (`registration.formula`): it is traced, so there is no list of
    operators here. Calls of one shape whose results stay in no other's way become one group: no call outside
    of it may need one of its results before another of its inputs is known. Writes to memory are part of a group if all
    that the group reads of this memory has the same place and strides. A group does not wait for a later call with many
    inputs that nobody else reads: the gradients of a loop's steps are added a few at a time.

    A group is one kernel (`_codegen/kernels/fused.py`) on the arrays as they are, views folded into offsets and
    strides; a vector may stand for the channels of an array (`of_channels`). The kernel compares dtypes, shapes and
    strides with those of the first run and refuses others; then the calls run one by one.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from functools import partial
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.compose import Composed
from rushlight._backends.llvm.registration import formula
from rushlight._codegen import language
from rushlight._codegen.kernels.fused import FAR, MOST, SIZES, Chain, Line, Operand, row
from rushlight._codegen.kernels.pointwise import Pointwise
from rushlight._codegen.types import Type, b1, bf16, f16, of
from rushlight.compiler.lowering.calls import Call, nodes_in
from rushlight.fx import Node

if TYPE_CHECKING:
    from rushlight.compiler.lowering.lowering import Layout, Program

MOST_CALLS = 64
WAITING = 1 << 16  # bytes of inputs that wait for the last call of a group, from which they count
HALF = (f16, bf16)


class Refused(Exception):
    """Something that no chain computes."""


class Value:
    """A number for each element, computed by a line of a chain."""

    __slots__ = ("text", "type", "shape", "lines", "key")

    def __init__(
        self, text: str, type: Type, shape: tuple[int, ...], lines: Lines, key: Any = None
    ) -> None:
        """`key`: the place in memory of a value that is loaded."""
        self.text, self.type, self.shape, self.lines, self.key = text, type, shape, lines, key

    @property
    def dtype(self) -> np.dtype:
        return self.type.np

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def of_channels(self, ndim: int) -> Value:
        """A vector as a number for each channel of an array with ndim dimensions."""
        if self.key is None or self.ndim != 1:
            raise Refused
        self.lines.channels = True
        *before, shape, strides, dtype = self.key
        ones, zeros = (1,) * (ndim - 2), (0,) * (ndim - 2)
        key = (*before, shape + ones, strides + zeros, dtype)
        return self.lines.load(key, self.type, self.shape + ones)


def by_kernel(name: str, swapped: bool = False) -> Callable:
    """A method of values that is a kernel's."""

    def method(self: Value, other: Any) -> Value:
        kernel = getattr(SPACE, name)
        return kernel(other, self) if swapped else kernel(self, other)

    return method


for _sign, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal", "and": "logical_and", "or": "logical_or",
}.items():  # fmt: skip
    setattr(Value, f"__{_sign}__", by_kernel(_name))
    if _sign in ("add", "sub", "mul", "truediv"):
        setattr(Value, f"__r{_sign}__", by_kernel(_name, swapped=True))
setattr(Value, "__neg__", lambda self: SPACE.negative(self))  # noqa: B010


class Scalars:
    """The back end of one element: its kernels write lines, where the values that they are given come from."""

    def __getattr__(self, name: str) -> Callable:
        found = formula(name)
        if found is None:
            raise AttributeError(name)

        def kernel(*args: Any) -> Any:
            result = found(SPACE, *args)
            if result is NotImplemented:
                raise Refused(name)
            return result

        made = partial(self.apply, found) if isinstance(found, Pointwise) else kernel
        self.__dict__[name] = made
        return made

    def apply(self, pointwise: Pointwise, *args: Any) -> Value:
        """The line of a function of some values of one type and some numbers."""
        n = pointwise.arrays
        values = [v for v in args[:n] if isinstance(v, Value)]
        if len({v.type for v in values}) != 1 or len(args) != n + pointwise.numbers:
            raise Refused
        t, result = values[0].type, pointwise.output or values[0].type
        if t not in pointwise.types or pointwise.vectors or t in HALF or result in HALF:
            raise Refused
        return values[0].lines.add(pointwise.function, args, result, t)

    def select(self, condition: Any, a: Any, b: Any) -> Value:
        """a where the condition holds, else b."""
        values = [v for v in (a, b) if isinstance(v, Value)]
        t = values[0].type
        if condition.type is not b1 or t in HALF or any(v.type is not t for v in values):
            raise Refused
        return condition.lines.add(language.select, (condition, a, b), t, t)

    def contiguous(self, a: Value) -> Value:
        """The same numbers: where they lie is known from the first run."""
        return a

    asarray = contiguous
    number = staticmethod(cpu.number)
    zeros = staticmethod(cpu.zeros)


SPACE = Composed(Scalars())


class Lines:
    """What a chain computes, line by line."""

    def __init__(self) -> None:
        self.loads: dict[Any, Value] = {}  # place in memory -> what is loaded from there
        self.lines: list[Line] = []
        self.numbers: dict[tuple[Type, Any], str] = {}
        self._known: dict[Any, Value] = {}
        self.channels = False  # whether the last call took numbers of channels

    def load(self, key: Any, t: Type | None, shape: tuple[int, ...]) -> Value:
        """The value at a place in memory."""
        if key not in self.loads:
            if t is None or t in HALF:
                raise Refused
            self.loads[key] = Value(f"load{len(self.loads)}", t, shape, self, key)
        return self.loads[key]

    def add(self, function: Any, given: Iterable, t: Type, operand: Type) -> Value:
        """A line, of type t: `function` of values, and of numbers that become operands of another type."""
        of_lines = [v.text if isinstance(v, Value) else self.constant(v, operand) for v in given]
        key = (id(function), *of_lines)
        if key not in self._known:
            shapes = {v.shape for v in given if isinstance(v, Value)}
            shape = shapes.pop() if len(shapes) == 1 else np.broadcast_shapes(*shapes)
            self._known[key] = Value(f"line{len(self.lines)}", t, shape, self)
            self.lines.append(Line(function, tuple(of_lines)))
        return self._known[key]

    def keep(self, results: list[str]) -> None:
        """Drop the loads that no line and no result reads: vectors that became numbers of channels."""
        read = {*results, *[text for line in self.lines for text in line.of]}
        self.loads = {key: v for key, v in self.loads.items() if v.text in read}

    def constant(self, value: Any, t: Type) -> str:
        """The place of a number among those that the kernel is given."""
        if isinstance(value, (np.ndarray, np.generic)) and not value.ndim:
            value = value.item()
        if not isinstance(value, (bool, int, float)):
            raise Refused
        if t.is_float:
            value = float(value)
        else:
            value = index(value)
            if not -(1 << 63) <= value < 1 << 63:
                raise Refused
        key = (t, repr(value))
        return self.numbers.setdefault(key, f"c[{len(self.numbers)}]")


# -- groups ------------------------------------------------------------------------------------------


class Unit:
    """Calls that run together: `calls` are their numbers, `before` those of all calls that come before them."""

    __slots__ = ("calls", "before", "shape", "keys", "roots", "written")

    def __init__(self, calls: int, before: int, shape: Any) -> None:
        self.calls, self.before, self.shape = calls, before, shape
        self.keys: set = set()  # places in memory that are read or computed
        self.roots: set[Node] = set()  # and whose memory they are in
        self.written: set[Node] = set()  # roots that are made or written to


def place(layout: Layout) -> tuple:
    """Where an array is: what two nodes share that are the same memory."""
    return (layout.root, layout.base, layout.offset, layout.shape, layout.strides, layout.dtype)


def apart(a: Layout, b: Layout) -> bool:
    """Whether two arrays have no memory in common, as their first and last bytes tell."""
    if a.root is not b.root:
        return True
    if a.base is not b.base or min((*a.strides, *b.strides), default=0) < 0:
        return False
    return a.offset + length(a) <= b.offset or b.offset + length(b) <= a.offset


def length(a: Layout) -> int:
    """The bytes from the first of an array to its last."""
    steps = sum((n - 1) * s for n, s in zip(a.shape, a.strides, strict=True))
    return a.dtype.itemsize + steps if prod(a.shape) else 0


def target(call: Call) -> Node:
    """The node whose array holds what a call gives."""
    return call.node if call.writes is None else call.writes


def traced(program: Program, call: Call, lines: Lines, value: Callable) -> Value:
    """What an elementwise call computes, as lines. Raises whatever where it is not elementwise."""
    if call.forward is None:
        raise Refused
    layout = program.layouts[target(call)]
    lines.channels = False
    result = call.forward(SPACE, value)
    if lines.channels and layout.strides[1] == layout.dtype.itemsize:
        raise Refused  # what is computed for each channel would be computed for each element
    if not isinstance(result, Value) or not prod(layout.shape):
        raise Refused
    if call.writes is not None:
        if 0 in layout.strides and prod(layout.shape) > 1:
            raise Refused
        read = [program.layouts[program.at(n)] for n in call.reads()]
        if any(place(x) != place(layout) and not apart(x, layout) for x in read):
            raise Refused  # an element would be read behind the write to it
        if result.type.np is not layout.dtype:
            result = SPACE.cast(result, layout.dtype)
    elif result.shape != layout.shape or layout.root is not call.node or not dense(layout):
        raise Refused
    if result.type.np is not layout.dtype or of(layout.dtype) in HALF:
        raise Refused
    return Value(result.text, result.type, layout.shape, lines)


def elementwise(program: Program) -> set[Node]:
    """The nodes of the calls that are elementwise."""
    found = set()
    for call in program.calls:
        lines = Lines()
        try:
            traced(program, call, lines, loader(program, lines))
        except Exception:  # a forward may do anything with a value that no array allows
            continue
        found.add(call.node)
    return found


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
        self.elementwise = elementwise(program)
        self.units: list[Unit] = []
        self.of: dict[int, Unit] = {}  # number of a call -> its unit
        number = {c.node: k for k, c in enumerate(program.calls)}
        readers: dict[Node, list[int]] = {}
        writers: dict[Node, int] = {}
        impure: list[int] = []
        seen: list[int] = []  # calls since the last that may raise which others see the traces of
        raises: list[int] = []
        last = {self._base(n): k for k, c in enumerate(program.calls) for n in c.reads()}
        self.last = last | dict.fromkeys(map(self._base, nodes_in(program.outputs)), len(number))
        for k, call in enumerate(program.calls):
            loads, needs = self._reads(call)
            roots = {program.root(n) for n in loads}
            before = [number[n] for n in needs if n in number]
            before += [writers[r] for r in roots if r in writers]
            for written in map(program.root, call.written):
                before += readers.get(written, ())
                before += [writers[written]] if written in writers else []
                writers[written] = k
            if call.draws or (call.writes is None and not call.pure):
                before, impure = before + impure[-1:], [*impure, k]
            fails = bool(call.node.meta.get("fails"))
            if (
                fails
                or call.draws
                or any(program.root(n).op != "call_function" for n in call.written)
            ):
                before, seen = before + raises[-1:], [*seen, k]
            if fails:
                before, seen, raises = before + seen[:-1], [], [k]
            for r in roots:
                readers.setdefault(r, []).append(k)
            self._place(k, call, before)

    def _reads(self, call: Call) -> tuple[list[Node], list[Node]]:
        """(the nodes that a call reads, those that must be there for it): fused calls need no views."""
        read = [*call.reads()] + ([call.writes] if call.writes is not None else [])
        if call.node not in self.elementwise:
            return read, read
        return read, [*map(self._base, read)]

    def _base(self, node: Node) -> Node:
        """The array that a node is a view of."""
        layout = self.program.layouts.get(node)
        return node if layout is None else layout.base

    def _place(self, k: int, call: Call, before: Iterable[int]) -> None:
        """Put a call into the unit that it can join, or a new one."""
        mask = 0
        for b in before:
            unit = self.of[b]
            mask |= unit.before | unit.calls
        made = Unit(1 << k, mask, None)
        if call.node in self.elementwise:
            layouts = self.program.layouts
            made.shape = layouts[target(call)].shape
            made.keys = {place(layouts[n]) for n in (*call.reads(), target(call))}
            made.roots = {key[0] for key in made.keys}
            made.written = {layouts[target(call)].root}
        self.units.append(made)
        self.of[k] = made
        if made.shape is None:
            return
        roots = made.roots
        for unit in reversed(self.units[:-1]):
            if unit.shape == made.shape and not unit.roots.isdisjoint(roots):
                if self._joinable(unit, made):
                    self._join(unit, made)
                    made = unit

    def _joinable(self, a: Unit, b: Unit) -> bool:
        both, before = a.calls | b.calls, a.before | b.before
        if b.before & ~(a.before | a.calls) and self._waits(a):
            return False
        if both.bit_count() > MOST_CALLS or len(a.keys | b.keys) > MOST:
            return False
        for root in (a.written | b.written) & (a.roots | b.roots):
            if len({key for key in a.keys | b.keys if key[0] is root}) > 1:
                return False
        for u in self.units:
            if u.calls & before and u.before & both and u is not a and u is not b:
                return False
        return True

    def _waits(self, unit: Unit) -> bool:
        """Whether much memory would be held until the last call of a unit, because nobody else reads it."""
        sizes = {key[1]: prod(key[3]) * key[5].itemsize for key in unit.keys}
        over = {n for n in sizes if n in self.last and unit.calls >> self.last[n] & 1}
        held = sum(sizes[n] for n in over - unit.written if n.op == "call_function")
        given = sum(sizes[n] for n in unit.written & sizes.keys() - over)
        return held > WAITING and held > 3 * given

    def _join(self, a: Unit, b: Unit) -> None:
        a.calls |= b.calls
        a.before |= b.before
        a.keys |= b.keys
        a.roots |= b.roots
        a.written |= b.written
        self.units.remove(b)
        self.of |= dict.fromkeys(numbers_in(b.calls), a)
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
        for call in calls:
            key = place(layouts[target(call)])
            memory[key] = traced(program, call, lines, value)
            if key not in stored and (key[0] in outside or key[0] not in made):
                stored.append(key)
        self.fresh = [key[1] for key in stored if key[0] in made]
        self.shape = layouts[target(calls[-1])].shape
        results = [memory[key].text for key in stored]
        lines.keep(results)
        places = [*lines.loads, *stored]
        self.arrays: list[Node] = list(dict.fromkeys(key[1] for key in places))
        self._places, self._stored = places, {key[1] for key in stored}
        self._plan(lines, places, results)

    def _plan(self, lines: Lines, places: list, results: list[str]) -> None:
        loads = len(lines.loads)
        sizes, strides = collapsed(self.shape, places)
        operands, where = [], []
        for key, steps in zip(places, strides, strict=True):
            t = of(key[5])
            assert t is not None
            operands.append(Operand(t, steps[-1] if steps[-1] in (0, 1) else FAR))
            where += [self.arrays.index(key[1]), key[2], *[s * t.size for s in steps]]
        head = [*sizes, *[steps[-1] for steps in strides]]
        start = SIZES + len(head)
        plan = [len(self.arrays), len(sizes), len(places), start, start + len(where), *head, *where]
        for node in self.arrays:
            layout = self.program.layouts[node]
            plan += [id(layout.dtype), len(layout.shape), *layout.shape, *layout.strides]
        names = {v.text: f"v{k}" for k, v in enumerate(lines.loads.values())}
        names |= {f"line{k}": f"v{loads + k}" for k in range(len(lines.lines))}
        written = [
            Line(line.function, tuple(names.get(t, t) for t in line.of)) for line in lines.lines
        ]
        self.chain = Chain(
            tuple(operands[:loads]), tuple(operands[loads:]), tuple(t for t, _ in lines.numbers),
            written, tuple(names.get(r, r) for r in results),
        )  # fmt: skip
        self.plan = np.array(plan, np.int64)
        self.numbers = np.array([packed(t, v) for t, v in lines.numbers] or [0], np.int64)

    def compile(self) -> None:
        """Make machine code of the chain."""
        self.address = row.address(CHAIN=self.chain)

    def reads(self) -> list[Node]:
        """The nodes whose arrays are taken."""
        return [n for n in self.arrays if n not in self.fresh]

    def replaceable(self, node: Node) -> list[Node]:
        """The arrays in whose memory a result may lie: nothing is read of them but the element at the place of what is written."""
        alike = place(self.program.layouts[node])[2:5]
        size = self.program.layouts[node].dtype.itemsize
        others = {key[1] for key in self._places if key[2:5] != alike or key[5].itemsize != size}
        return [n for n in self.arrays if n not in others | self._stored]

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


def collapsed(shape: tuple[int, ...], places: list) -> tuple[list[int], list[list[int]]]:
    """(sizes of dimensions, strides in elements of each place): dimensions that are one in memory for all are
    one; the innermost of the last place, which is written, is the last."""
    nd = len(shape)
    strides = []
    for key in places:
        size = key[5].itemsize
        steps = [0] * (nd - len(key[3])) + [
            0 if n == 1 else s // size for n, s in zip(key[3], key[4], strict=True)
        ]
        strides.append(steps)
    order = sorted((d for d in range(nd) if shape[d] != 1), key=lambda d: (-strides[-1][d], d))
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
        return [1], [[0 if k < len(places) - 1 else 1] for k in range(len(places))]
    return sizes, found
