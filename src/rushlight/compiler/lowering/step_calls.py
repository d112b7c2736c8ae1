"""Single steps of a program as calls of kernels.

Note [One step]
    What a step does as calls of kernels is found as Note [How kernel calls are found] says, but for each step by
    itself, and in the process that runs it: with the arrays of the first run, then with other numbers. Then kernels are
    noted and do not run. What they would read are numbers that nothing allows, NaN or the largest there are, or zeros, and
    what they would write are other ones: a binding that looks at elements, before or afterwards, raises or does something
    else, and its step stays a line of Python. What changes in these runs something else than kernels wrote, NumPy say: its
    step stays a line, too. So do steps that draw random numbers, those whose sizes follow from elements (the largest
    number would ask for all memory), and those of large arrays, which take far longer than their line.

    What was found of a step is kept on disk (`step_cache.py`). Where another process finds it, the step runs once, on
    zeros and without its kernels, and must make the same calls.
"""

from __future__ import annotations

import mmap
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from rushlight._codegen.object_text import Buffer, KernelCall, Place
from rushlight._codegen.recording import recording
from rushlight._codegen.runtime import memory
from rushlight.compiler.capture.guards import span
from rushlight.compiler.capture.recording import DYNAMIC
from rushlight.compiler.lowering.calls import NESTED, Call
from rushlight.compiler.lowering.kernel_calls import (
    OTHER_NUMBERS,
    Run,
    function_of,
    nothing,
    others,
    placed,
    places_in,
)
from rushlight.compiler.lowering.lowering import LARGE, address, arrays_in, call_key, renamed
from rushlight.compiler.lowering.step_cache import KnownStep, known_step, name_of

if TYPE_CHECKING:
    from rushlight.compiler.lowering.lowering import Program
    from rushlight.fx import Node

# What a step is tried with where kernels do not run: which numbers it reads, and the bytes that stand for what kernels
# write, whatever the floating-point type: positive numbers, NaN, zeros, large numbers, large negative ones.
OTHERS = (-1, OTHER_NUMBERS), (-2, 0xFF), (-3, 0), (-4, 0x7B), (-2, 0xFB)
PAGES = 1 << 14  # bytes of zeros from which NumPy takes longer than to ask the system for pages
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
            if memory.memory_stats()["cached"] > LARGE:
                memory.empty_cache()  # the next step has arrays of other sizes
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
        of = name_of(given.dtype)
        return ("node", order.setdefault(n, len(order)), given.shape, given.strides, of)

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
    low, high = span(a)
    if which == -3 and high - low >= PAGES:  # zeros that the system makes when they are read
        memory = np.frombuffer(mmap.mmap(-1, high - low), np.uint8)
    else:
        memory = np.zeros(high - low, np.uint8)
    made = np.ndarray(a.shape, a.dtype, memory, address(a) - low if a.size else 0, a.strides)
    if which >= 0:
        value = others(a, which)
        made[...] = value
        if value.__class__ is np.ndarray and value is not a:
            value[...] = 0  # a result may get this memory, and must not have its numbers by chance
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
    for b in (*first.buffers[: first.given], *second.buffers[: first.given]):
        b.before = b""  # what was read of large arrays would be held, too
    fixed = [k for k in range(first.given, len(found.buffers)) if k not in changed]
    runs = [second]
    block.dry = True
    try:
        for which, byte in OTHERS:
            given = copies(call, values, which)
            for n in call.written:
                given[n].flags.writeable = False  # NumPy raises; kernels are not asked
            run = Run([call], given, block, (changed, byte), fixed)
            runs.append(run)
            agree(found, call, run)
            run.look(run.full)
            if run.touched:
                raise Refused  # NumPy writes, too
            run.forget()
            del given
    finally:
        block.dry, block.note = False, nothing
    for k in fixed:
        b = found.buffers[k]
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
