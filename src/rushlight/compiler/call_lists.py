"""Steps of a program that follow each other, as one native call.

Note [Call lists]
    What a step does as calls of kernels is found as Note [How kernel calls are found] says, but for each step by
    itself, and in the process that runs it: with the arrays of the first run, then with other numbers. Then kernels are
    noted and do not run. What they would read are numbers that nothing allows, NaN or the largest there are, or zeros, and
    what they would write are other ones: a binding that looks at elements, before or afterwards, raises or does something
    else, and its step stays a line of Python. What changes in these runs something else than kernels wrote, NumPy say: its
    step stays a line, too. So do steps that draw random numbers, those whose sizes follow from elements (the largest
    number would ask for all memory), and those of large arrays, which take far longer than their line.

    Such steps, and the views between them, become one call of `carry_out` (`_codegen/kernels/call_list.py`), which hands
    kernels arrays that were made once. What only these steps read lies in an arena of the process, one for all
    programs; what others read is made before. Arrays in the memory of what comes from outside are told where it is.
    Where something else is given than in the first run, the arena is in use in another thread, or a kernel says that
    something is wrong, the lines of the steps run, as if there was no call list. A kernel that may say so comes before all
    writes to what others see.

    What was found of a step is kept on disk (`known_steps.py`). Where another process finds it, the step runs once, on
    zeros and without its kernels, and must make the same calls.
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
from rushlight._codegen.object_text import ALIGNED, Buffer, KernelCall, Place
from rushlight._codegen.recording import recording
from rushlight.compiler.calls import NESTED, Call, nodes_in
from rushlight.compiler.fusion import Loop, dense
from rushlight.compiler.kernel_calls import (
    OTHER_NUMBERS,
    Run,
    arranged,
    function_of,
    nothing,
    others,
    placed,
    places_in,
)
from rushlight.compiler.known_steps import KnownStep, known_step
from rushlight.compiler.lowered_steps import View, named_by
from rushlight.compiler.lowering import address, arrays_in, call_key, renamed
from rushlight.compiler.recording import DYNAMIC

if TYPE_CHECKING:
    from rushlight.compiler.lowering import Layout, Program
    from rushlight.fx import Node

# What a step is tried with where kernels do not run: which numbers it reads, and the bytes that stand for what kernels
# write, whatever the floating-point type: positive numbers, NaN, zeros, large numbers, large negative ones.
OTHERS = (-1, OTHER_NUMBERS), (-2, 0xFF), (-3, 0), (-4, 0x7B), (-2, 0xFB)
LARGE = 1 << 22  # bytes of the arrays of a step, from which its line is nothing beside it
TOLD = 64  # bytes: zeros of at most so many that no kernel changes may be where one says that something is wrong


class StepCalls(NamedTuple):
    """A step as calls of kernels. The buffers are those of the arrays that it reads, `given` of them, then others.
    `result`: the places of what it gives."""

    given: list[Place]
    buffers: list[Buffer]
    calls: list[KernelCall]
    result: Any


class Refused(Exception):
    """A step that is no list of kernel calls."""


# -- one step ----------------------------------------------------------------------------------------


def found_calls(program: Program, steps: list, values: dict[Node, Any]) -> dict[int, StepCalls]:
    """Of the steps that are kernel calls, by their numbers: these calls. `values`: of all nodes after a run."""
    asked: dict[Any, list[int]] = {}
    for k, step in enumerate(steps):
        if isinstance(step, Call) and may_be(program, step, values):
            key = key_of(program, step)
            asked.setdefault(k if key is None else key, []).append(k)
    found: dict[int, StepCalls] = {}
    if not asked:
        return found
    with recording(nothing) as block, np.errstate(all="ignore"):
        for key, numbers in asked.items():
            step = steps[numbers[0]]
            calls = tried(step, values, block, None if key.__class__ is int else known_step(key))
            if calls is not None:
                found |= dict.fromkeys(numbers, calls)
    return found


def tried(
    call: Call, values: dict[Node, Any], block: recording, known: KnownStep | None
) -> StepCalls | None:
    """The kernel calls of a call, None where it is not so; `known`: what other processes found, and what later ones shall
    know."""
    if known is not None and known.refused:
        return None
    if known is not None and (calls := noted_again(call, values, block, known)) is not None:
        return calls
    try:
        calls = calls_of(call, values, block)
    except Exception as e:  # Refused, or a binding that looks at elements
        if known is not None and not isinstance(e, MemoryError):
            known.refuse()
        return None
    if known is not None:
        known.keep(calls)
    return calls


def noted_again(
    call: Call, values: dict[Node, Any], block: recording, known: KnownStep
) -> StepCalls | None:
    """The kernel calls of a call, by one run in which no kernel runs; None unless they are those that were found before."""
    if known.digest is None:
        return None
    block.dry = True
    try:
        run = Run([call], copies(call, values, -3), block, read=known.constants)
        found = StepCalls(
            [run.place(run.values[n]) for n in operands(call)], run.buffers, run.calls[0],
            places(run, run.values[call.node]),
        )  # fmt: skip
    except Exception:  # another one than was found: it is tried anew
        return None
    finally:
        block.dry, block.note = False, nothing
    known.mark(found)
    return found if known.same(found) else None


def may_be(program: Program, call: Call, values: dict[Node, Any]) -> bool:
    """Whether a call may be kernel calls: it draws nothing, no size follows from elements, its arrays are not large, and what it
    writes has no other name."""
    if getattr(call.node.target, "_opname", "") in DYNAMIC:
        return False
    if call.draws or not (call.pure or call.written):
        return False
    if call.view and call.node in program.layouts:
        return False
    read = operands(call)
    arrays = [a for n in (call.node, *read) if n in values for a in arrays_in(values[n])]
    if not all(values[n].__class__ is np.ndarray for n in read) or not arrays:
        return False
    roots = [program.root(n) for n in read]
    if any(roots.count(program.root(n)) > 1 for n in call.written):
        return False
    return sum(a.nbytes for a in arrays) < LARGE


def key_of(program: Program, call: Call) -> Any:
    """What calls have in common that make the same kernel calls; None where that cannot be told."""
    order: dict[Node, int] = {}

    def layout(n: Node) -> Any:
        given = program.layouts[n]
        return ("node", order.setdefault(n, len(order)), given.shape, given.strides, given.dtype)

    told = Call(call.node, call.function, renamed(call.args, layout), renamed(call.kwargs, layout))
    written = tuple([order.get(n) for n in call.written])
    key = call_key(told)
    return None if key is None else (key, written, getattr(call.function, "__name__", ""))


def copies(call: Call, values: dict[Node, Any], which: int) -> dict[Node, np.ndarray]:
    """Arrays as a call reads them, with other numbers, each in memory of its own."""
    return {n: copied(values[n], which) for n in operands(call)}


def operands(call: Call) -> list[Node]:
    """The nodes whose arrays a call takes."""
    return [*dict.fromkeys((*call.reads(), *call.written))]


def copied(a: np.ndarray, which: int) -> np.ndarray:
    """An array that lies in memory as another one, with other numbers; below 0: the largest or NaN, the smallest,
    zeros, the largest or infinity."""
    low, high = np.lib.array_utils.byte_bounds(a)
    memory = np.zeros(high - low, np.uint8)
    made = np.ndarray(a.shape, a.dtype, memory, address(a) - low if a.size else 0, a.strides)
    if which >= 0:
        made[...] = others(a, which)
    elif which == -3:
        pass  # the memory is zeros
    elif a.dtype.kind in "iu":
        limits = np.iinfo(a.dtype)
        made[...] = limits.min if which == -2 else limits.max
    elif a.dtype.kind == "b":
        made[...] = which != -2
    else:
        made[...] = {-1: np.nan, -2: -np.inf, -4: np.inf}[which]
    return made


def calls_of(call: Call, values: dict[Node, Any], block: recording) -> StepCalls:
    """The kernel calls of a call."""
    first = Run([call], copies(call, values, 1), block)
    second = Run([call], copies(call, values, 2), block)
    found = StepCalls(
        [first.place(first.values[n]) for n in operands(call)], first.buffers, first.calls[0],
        places(first, first.values[call.node]),
    )  # fmt: skip
    agree(found, call, second)
    changed = [
        k
        for k, (b, other) in enumerate(zip(found.buffers, second.buffers, strict=True))
        if b.changed() or other.changed()  # memory may have had the same results from another run
    ]
    if call.written and not found.calls:
        raise Refused
    written = {first.place(first.values[n]).buffer for n in call.written}
    if any(k < first.given and k not in written for k in changed):
        raise Refused
    first.forget()
    runs = [second]
    block.dry = True
    try:
        for which, byte in OTHERS:
            given = copies(call, values, which)
            for n in call.written:
                given[n].flags.writeable = False  # NumPy raises; kernels are not asked
            run = Run([call], given, block, (changed, byte))
            runs.append(run)
            agree(found, call, run)
            run.look(run.full)
            if run.touched:
                raise Refused  # NumPy writes, too
            run.forget()
    finally:
        block.dry, block.note = False, nothing
    for k, b in enumerate(found.buffers[first.given :], first.given):
        if k not in changed:
            if any(run.buffers[k].before != b.before for run in runs):
                raise Refused
            b.kind = "constant"
            b.tells = b.tells or (b.size <= TOLD and not any(b.before) and b.size % 8 == 0)
    verify(call, found, copies(call, values, 2), second)
    for b in found.buffers:
        if b.kind != "constant":
            b.before = b""
    return found


def agree(found: StepCalls, call: Call, run: Run) -> None:
    """Refused where another run made other calls, or gave another result."""
    if run.calls[0] != found.calls or places(run, run.values[call.node]) != found.result:
        raise Refused


def places(run: Run, v: Any) -> Any:
    """The places of nested arrays."""
    if v is None:
        return None
    if v.__class__ in NESTED:
        return tuple([places(run, x) for x in v])
    if v.__class__ is not np.ndarray:
        raise Refused
    return run.place(v)


def verify(call: Call, found: StepCalls, given: dict[Node, np.ndarray], run: Run) -> None:
    """Make the calls by themselves, and compare. What must begin with zeros does so from then on."""
    expected = [(found.result, run.values[call.node])]
    expected += [(p, run.values[n]) for p, n in zip(found.given, operands(call), strict=True)]
    for zeros in (False, True):
        memory: list[Any] = [np.full(b.size, OTHER_NUMBERS, np.uint8) for b in found.buffers]
        for k, b in enumerate(found.buffers):
            if b.kind == "constant":
                memory[k][:] = np.frombuffer(b.before, np.uint8)
            elif zeros and k >= len(given) and not any(b.before) and not any(run.buffers[k].before):
                b.begins = b""
                memory[k][:] = 0
        for p, n in zip(found.given, operands(call), strict=True):
            if p.buffer >= 0:
                placed(p, memory)[...] = given[n]
        for each in found.calls:
            function_of(each)(*[placed(v, memory) for v in each.given])
        if all(
            placed(p, memory).tobytes() == a.tobytes()
            for place, v in expected
            for p, a in zip(places_in(place), arrays_in(v), strict=True)
        ):
            return
    raise Refused


# -- several steps -----------------------------------------------------------------------------------


class Memory:
    """A block of memory of a call list: that of array number `given`, a part of the arena, or `content`.

    `first` and `last`: the calls that it lives for; `size`, `offset`: in the arena.
    """

    def __init__(self, size: int, given: int = -1, content: np.ndarray | None = None) -> None:
        self.size, self.given, self.content = size, given, content
        self.first, self.last, self.offset = -1, -1, 0


class At(NamedTuple):
    """An array of a call list: in which memory it is, where it begins there, and its layout. No memory: it is empty."""

    memory: Memory | None
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype


class Arena:
    """The memory of all call lists, and whether one of them is in use."""

    def __init__(self) -> None:
        self.busy = np.zeros(1, np.int64)
        self._bytes = np.empty(0, np.uint8)

    def of(self, size: int) -> np.ndarray:
        """Memory of so many bytes; lists that were made before keep what they have."""
        if size > self._bytes.size:
            made = np.empty(size + ALIGNED, np.uint8)
            self._bytes = made[-address(made) % ALIGNED :]
        return self._bytes

    def nowhere(self, size: int) -> mmap.mmap:
        """Memory that nobody touches, for arrays that are told where their memory is."""
        return mmap.mmap(-1, max(size, 1))


ARENA = Arena()


class CallList:
    """Steps as one call of `carry_out`, which takes `table` first, then the arrays of `reads` and `fresh`.

    `reads`: the nodes whose arrays are there, `fresh`: those whose arrays are made before; `views`: the steps that make
    views which others read.
    """

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
        self.table = self._written()

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
        stop = At(refused, 0, (1,), (8,), np.dtype(np.int64))
        given = [loop.address, arrays, np.ndarray, loop.plan, loop.numbers, stop]
        self._calls.append((fused.compiled().__globals__["function"], given, refused))

    def _call(self, call: Call, found: StepCalls) -> None:
        own: dict[int, tuple[Memory | None, int]] = {-1: (None, 0)}
        for node, place in zip(operands(call), found.given, strict=True):
            at = self._value(node)
            own[place.buffer] = (at.memory, at.offset - place.offset)
        told = None
        for k, b in enumerate(found.buffers):
            if k in own:
                continue
            if b.kind == "constant":
                content = np.frombuffer(bytearray(b.before), np.uint8)
                made = self._constants.setdefault(id(b), Memory(b.size, content=content))
                told = made if b.tells else told
            else:
                made = Memory(b.size)
                if b.begins is not None:
                    zeros = At(made, 0, (b.size,), (1,), np.dtype(np.uint8))
                    self._calls.append((None, [zeros], None))
            own[k] = (made, 0)

        def at(v: Any) -> Any:
            if isinstance(v, Place):
                memory, shift = own[v.buffer]
                return At(memory, shift + v.offset, v.shape, v.strides, v.dtype)
            return [at(x) for x in v] if v.__class__ in (list, tuple) else v

        for each in found.calls:
            self._calls.append((function_of(each), [at(v) for v in each.given], told))
        if call.writes is None:
            self._at[call.node] = at(found.result)

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

    def _written(self) -> np.ndarray:
        """The table; see kernels/call_list.py."""
        for k, (_, given, _) in enumerate(self._calls):
            for at in found_in(given):
                if (m := at.memory) is not None:
                    m.first, m.last = (k if m.first < 0 else m.first), k
        temporary = {at.memory for _, given, _ in self._calls for at in found_in(given)}
        parts = [m for m in temporary if m is not None and m.given < 0 and m.content is None]
        arena = ARENA.of(arranged(sorted(parts, key=lambda m: (m.first, m.last))))
        self.held: list[Any] = [arena, ARENA.busy]  # all that the table has addresses of
        arrays: dict[At, np.ndarray] = {}
        moves: list[int] = []

        def array(v: Any) -> Any:
            if isinstance(v, list):
                return [array(x) for x in v]
            if not isinstance(v, At):
                return v
            if v in arrays:
                return arrays[v]
            m = v.memory
            if m is None:
                made = np.empty(v.shape, v.dtype)
            elif m.content is not None:
                made = np.ndarray(v.shape, v.dtype, m.content.data, v.offset, v.strides)
            elif m.given < 0:
                made = np.ndarray(v.shape, v.dtype, arena.data, m.offset + v.offset, v.strides)
            else:
                steps = [(n - 1) * s for n, s in zip(v.shape, v.strides, strict=True)]
                low, high = sum(s for s in steps if s < 0), sum(s for s in steps if s > 0)
                memory = ARENA.nowhere(high - low + v.dtype.itemsize)
                made = np.ndarray(v.shape, v.dtype, memory, -low, v.strides)
                moves.extend((id(made), m.given, v.offset))
            arrays[v] = made
            return made

        calls: list[int] = []
        for function, given, told in self._calls:
            objects = [array(v) for v in given]
            held = np.array([id(o) for o in objects], np.int64)
            self.held.append((function, objects, held))
            if function is None:
                calls += [0, id(objects[0]), objects[0].size, 0, 0]
            else:
                zeros = (0, 0) if told is None else (address(told.content), told.size // 8)
                calls += [id(function), address(held), len(objects), *zeros]
        self.held.append((arrays, [*self._constants.values()]))
        table = [address(ARENA.busy), len(self._bases), 0, len(moves) // call_list.MOVE]
        table += [0, len(self._calls)]
        for at in self._bases:
            table += [id(at.dtype), len(at.shape), *at.shape, *at.strides]
        table[call_list.MOVES] = len(table)
        table[call_list.CALLS] = len(table) + len(moves)
        return np.array([*table, *moves, *calls], np.int64)


def laid(memory: Memory | None, offset: int, layout: Layout) -> At:
    """An array of a known layout."""
    return At(memory, offset, layout.shape, layout.strides, layout.dtype)


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
    while True:
        try:
            return joined(program, steps, found)
        except Refused as e:
            del found[next(k for k, step in enumerate(steps) if step is e.args[0])]


def makes_no_calls(program: Program, step: Any, values: dict[Node, Any]) -> bool:
    """Whether a step needs no kernel calls to be found: a small loop, a view, an item of several results."""
    if isinstance(step, Loop):
        layouts = [program.layouts[n] for n in step.arrays]
        return sum(prod(x.shape) * x.dtype.itemsize for x in layouts) < LARGE
    if isinstance(step, View):
        return True
    return step.function is operator.getitem and values[step.args[0]].__class__ in NESTED


def joined(program: Program, steps: list, found: dict[int, Any]) -> list:
    """The steps; those in `found` that follow each other as call lists."""
    wanted = set(nodes_in(program.outputs))  # by what comes behind
    later = [wanted]
    for step in reversed(steps):
        wanted = wanted | {*named_by(step)}
        later.append(wanted)
    later = later[::-1]
    out: list = []
    for first, end in stretches(program, steps, found):
        group = steps[first:end]
        kernels = [
            k
            for k in range(first, end)
            if isinstance(steps[k], Loop) or found.get(k) and found[k].calls
        ]
        if len(kernels) > 1 or any(isinstance(steps[k], Call) for k in kernels):
            calls = [found[k] for k in range(first, end)]
            group = [CallList(program, group, calls, later[end])]
        out += group
    return out


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
