"""The frames of a call that is split, and what stands for the values in them (Note [Splits] in splits.py)."""

from __future__ import annotations

import collections
import copy
import functools
import re
import types
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.compiler.capture.blocks import BLOCKS, Modes, grad_around
from rushlight.compiler.capture.bytecode import Plan
from rushlight.compiler.capture.guards import constant, is_iterator
from rushlight.compiler.capture.interpreter import NULL, UNBOUND, Frame
from rushlight.compiler.capture.reads import CONTAINERS
from rushlight.compiler.capture.steps import RUNTIME, Stop, is_code
from rushlight.compiler.capture.templates import Container, fill, instance, plain_instance
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.compiler.capture.capture import Capture

LOOK_AROUND = frozenset("locals vars dir eval exec".split())  # they see all local variables


class Fixed(NamedTuple):
    """An object that is the same in each run."""

    v: Any


class Place(NamedTuple):
    """A value of the rest, by its number."""

    k: int


class InCell(NamedTuple):
    """A variable that the function shares with inner functions, by its number."""

    k: int


class Bound(NamedTuple):
    """A method, bound to an object: a function, or the name of a built-in method."""

    f: Callable | str
    o: Any


class Function(NamedTuple):
    """A function that the function made."""

    f: types.FunctionType
    defaults: list
    named: dict
    closure: list


class Shared(NamedTuple):
    """An iterator or an object that the function made, by its number."""

    k: int


class Iterator(NamedTuple):
    """What makes an iterator as it is between two passes of a loop, or a set: `f(*args)`, and how far it is."""

    f: Callable
    args: list
    at: tuple


class Object(NamedTuple):
    """An object of a class in Python that the function made: its attributes, and its items if it is a dictionary."""

    kind: type
    attributes: dict[str, Any]
    items: dict | None


class Block(NamedTuple):
    """A block such as `no_grad`, which says whether calls are recorded behind it."""

    o: Any


class FrameLayout(NamedTuple):
    """A frame: where it goes on, and what stands in its slots and on its stack."""

    plan: Plan
    space: dict[str, Any]
    at: int
    fast: list
    stack: list


class Layout:
    """The frames of a call in which each waits for the result of a call, and the `values` that differ from run to run."""

    def __init__(
        self, frames: list[Frame], capture: Capture, away: set[int], grad: bool = True
    ) -> None:
        """`away`: the ids of objects that others have, too, from here on, and that are not made anew therefore. `grad`:
        whether calls are recorded."""
        self.away, self.capture, self.values, self.cells = away, capture, list[Any](), list[Any]()
        self.shared: list[Any] = []
        self.number_of: dict[int, int] = {}  # of values, cells and what is shared
        self.grad = grad
        blocks = [v.__self__ for f in frames for v in f.stack if is_end(v)]
        around = grad_around(blocks)
        self.grad_after = grad if around is None else around
        self.modes = Modes(blocks)
        if self.modes.outside != capture.outside_modes:
            raise Stop("a mode that no block of the function changes")
        self.frames = []
        for f in frames:
            read = slots_read(f.plan, f.at)
            fast = [v if k in read else UNBOUND for k, v in enumerate(f.fast)]
            places = [*map(self.place, fast)], [*map(self.place, f.stack)]
            self.frames.append(FrameLayout(f.plan, f.globals, f.at, *places))
        held = reached(self.values, capture.inside)
        own = {id(v) for v in self.values}
        if held & (self.number_of.keys() - own):
            raise Stop("an object that the function made and needs later, also in a list")
        del self.capture, self.away

    def place(self, v: Any) -> Any:
        """What stands for a value. `Stop` where nothing can."""
        c = self.capture
        if v is UNBOUND or v is NULL:
            return Fixed(v)
        if v.__class__ is types.CellType and id(v) in c.inside:
            if id(v) not in self.number_of:
                self.number_of[id(v)] = k = len(self.cells)
                self.cells.append(None)
                try:
                    self.cells[k] = self.place(v.cell_contents)
                except ValueError:
                    self.cells[k] = Fixed(UNBOUND)
            return InCell(self.number_of[id(v)])
        kind = type(v)
        if c.is_foreign_iterator(v):
            return self.value(v)
        if (
            is_iterator(v)
            and kind.__module__ == "builtins"
            and kind.__reduce__ is not object.__reduce__
        ):
            return self.iterator(v)
        if v.__class__ is set and id(v) in c.inside and id(v) not in self.away:
            return self.again(v, set, [[*v]])
        if isinstance(v, BLOCKS) and id(v) in c.inside:
            return self.block(v)
        if isinstance(v, types.MethodType) and is_fixed(v.__func__, c):
            return Bound(v.__func__, self.place(v.__self__))
        if is_bound(v):
            return Bound(v.__name__, self.place(v.__self__))
        if v.__class__ is types.FunctionType and id(v) in c.inside and not vars(v):
            if id(v) in self.number_of:
                raise Stop(f"{v.__qualname__}, which the function made and needs twice")
            self.number_of[id(v)] = -1
            named = {k: self.place(x) for k, x in (v.__kwdefaults__ or {}).items()}
            defaults, cells = map(self.place, v.__defaults__ or ()), v.__closure__ or ()
            return Function(v, [*defaults], named, [*map(self.place, cells)])
        if v.__class__ is types.CellType or is_fixed(v, c):
            return Fixed(v)
        if id(v) in c.inside and plain_instance(v):
            return self.value(v) if id(v) in self.away else self.object(v)
        known = id(v) in c.outside or constant(v) or v.__class__ in (list, tuple, dict, *RUNTIME)
        if not known and not isinstance(v, Tensor):
            raise Stop(f"a {type(v).__name__} that the function made and needs later")
        return self.value(v)

    def value(self, v: Any) -> Place:
        """What stands for a value that differs from run to run."""
        if id(v) not in self.number_of:
            self.number_of[id(v)] = len(self.values)
            self.values.append(v)
        return Place(self.number_of[id(v)])

    def iterator(self, v: Any) -> Shared:
        """What stands for a built-in iterator."""
        try:
            f, args, *at = v.__reduce__()
        except TypeError as e:
            raise Stop(f"a {type(v).__name__} that is needed later") from e
        self.capture.keep.append(v)
        return self.again(v, f, args, *at)

    def again(self, v: Any, f: Callable, args: Sequence, *at: Any) -> Shared:
        """What stands for an iterator or a set, which `f(*args)` makes."""
        if id(v) not in self.number_of:
            places = [
                [*map(self.place, a)]  # the rest of what the iterator of a dictionary gives
                if a.__class__ is list
                and not {id(a)} & {*self.capture.outside, *self.capture.inside}
                else self.place(a)
                for a in args
            ]
            self.number_of[id(v)] = len(self.shared)
            self.shared.append(Iterator(f, places, tuple(v for v in at if v is not None)))
        return Shared(self.number_of[id(v)])

    def block(self, v: Any) -> Shared:
        """What stands for a block such as `no_grad`."""
        if id(v) not in self.number_of:
            self.number_of[id(v)] = len(self.shared)
            self.shared.append(Block(copy.deepcopy(v)))
        return Shared(self.number_of[id(v)])

    def object(self, v: Any) -> Shared:
        """What stands for an object of a class in Python that the function made."""
        if id(v) not in self.number_of:
            k = self.number_of[id(v)] = len(self.shared)
            self.shared.append(None)  # it may be a part of itself
            items = {k: self.place(x) for k, x in dict.items(v)} if isinstance(v, dict) else None
            attributes = {name: self.place(x) for name, x in vars(v).items()}
            self.shared[k] = Object(type(v), attributes, items)
        return Shared(self.number_of[id(v)])

    def frames_of(self, values: tuple | list, new: Callable = lambda v: v) -> list[Frame]:
        """The frames with these values; `new` is told which cells and methods are made."""
        making = Making(self, values, new)
        for cell, p in zip(making.cells, self.cells, strict=True):
            if (v := making.made(p)) is not UNBOUND:
                cell.cell_contents = v
        frames: list[Frame] = []
        for plan, space, at, fast, stack in self.frames:
            frame = Frame(plan, space, [*map(making.made, fast)])
            frame.stack, frame.at = [*map(making.made, stack)], at
            frame.caller = frames[-1] if frames else None
            frames.append(frame)
        return frames

    def forget(self) -> None:
        """Let go of the values of the call that was captured."""
        self.values.clear()
        self.number_of.clear()

    def iterated(self, values: list) -> list[Any]:
        """The containers that iterators have begun to give the elements of."""
        places = [p for it in self.shared if isinstance(it, Iterator) for p in it.args]
        found = [values[p.k] if p.__class__ is Place else getattr(p, "v", None) for p in places]
        return [v for v in found if v.__class__ in CONTAINERS]

    def fixed(self) -> list[Any]:
        """The objects from outside that are the same in each run."""
        found, places = [], [p for f in self.frames for p in (*f.fast, *f.stack)] + self.cells
        for o in self.shared:
            if isinstance(o, Iterator):
                places += o.args
            elif isinstance(o, Object):
                places += [*o.attributes.values(), *(o.items or {}).values()]
        while places:
            p = places.pop()
            if p.__class__ is Bound:
                places.append(p.o)
            elif p.__class__ is list:
                places += p
            elif p.__class__ is Function:
                places += [*p.defaults, *p.named.values(), *p.closure]
            elif p.__class__ is Fixed and not is_code(p.v) and p.v is not UNBOUND:
                found.append(p.v)
        return [v for v in found if v is not NULL and v.__class__ is not types.CellType]


class Making:
    """What makes the values of frames anew: once each, in one call of `Layout.frames_of`."""

    def __init__(self, layout: Layout, values: tuple | list, new: Callable) -> None:
        self.layout, self.values, self.new = layout, values, new
        self.cells = [new(types.CellType()) for _ in layout.cells]
        self.shared: dict[int, Any] = {}

    def made(self, p: Any) -> Any:
        """The value that stands in a place."""
        if p.__class__ is Place:
            return self.values[p.k]
        if p.__class__ is InCell:
            return self.cells[p.k]
        if p.__class__ is Shared:
            return self.shared[p.k] if p.k in self.shared else self.again(p.k)
        if p.__class__ is list:
            return [*map(self.made, p)]
        if isinstance(p, Function):
            return self.new(self.function(p))
        if isinstance(p, Bound):
            o = self.made(p.o)
            return getattr(o, p.f) if isinstance(p.f, str) else types.MethodType(p.f, o)
        return p.v

    def function(self, p: Function) -> types.FunctionType:
        """A function that the function made."""
        closure, defaults = tuple(map(self.made, p.closure)), tuple(map(self.made, p.defaults))
        made = types.FunctionType(
            p.f.__code__, p.f.__globals__, p.f.__name__, defaults or None, closure
        )
        made.__kwdefaults__ = {k: self.made(x) for k, x in p.named.items()} or None
        made.__qualname__, made.__module__ = p.f.__qualname__, p.f.__module__
        return made

    def again(self, k: int) -> Any:
        """An iterator, a block or an object, by its number; it may be a part of itself."""
        p = self.layout.shared[k]
        if isinstance(p, Object):
            o = self.shared[k] = self.new(instance(p.kind, {}))
            vars(o).update({name: self.made(x) for name, x in p.attributes.items()})
            fill(o, {key: self.made(x) for key, x in (p.items or {}).items()})
        elif isinstance(p, Block):
            o = self.shared[k] = self.new(copy.deepcopy(p.o))
        else:
            o = self.shared[k] = self.new(p.f(*map(self.made, p.args)))
            for state in p.at:
                o.__setstate__(state)
        return o


def is_fixed(v: Any, c: Capture) -> bool:
    """Whether a program is right only where an object is this very one."""
    if is_code(v):
        return id(v) not in c.inside
    found = c.outside.get(id(v))
    return found is not None and found[0] is v and found[1].isidentifier() and found[1] in c.guards.names  # fmt: skip


def slots_read(plan: Plan, at: int) -> set[int]:
    """The slots of local variables that may be read behind the call before an instruction."""
    code = plan.code
    if LOOK_AROUND & {*code.co_names}:
        return {*range(len(plan.names))}
    found = {0} if "super" in code.co_names else set()
    live, call = live_slots(plan), plan.instructions[at - 1]
    if (handler := plan.handler(call.offset)) is not None:
        found |= live[plan.index[handler[2]]]
    if call.name == "FOR_ITER":
        found |= live[plan.index[call.value]]
    return found | live[at] | {*range(plan.first_free, len(plan.names))}


@functools.cache
def live_slots(plan: Plan) -> list[set[int]]:
    """For each instruction: the slots of local variables that may be read from there on before they are written."""
    n = len(plan.instructions)
    uses, writes, after = list[set[int]](), list[set[int]](), list[set[int]]()
    for k, i in enumerate(plan.instructions):
        slots = [i.arg >> 4, i.arg & 15] if i.name.count("_FAST") > 1 else [i.arg]
        kinds = re.findall("LOAD|STORE|DELETE", i.name) if "_FAST" in i.name else []
        both = [*zip(kinds, slots * len(kinds), strict=False)]
        uses.append({slot for kind, slot in both if kind != "STORE"})
        writes.append({slot for kind, slot in both if kind == "STORE"})
        if i.name.endswith(("_DEREF", "_CLOSURE", "_CLASSDEREF")) or i.name == "MAKE_CELL":
            uses[-1].add(i.arg)
        ends = i.name in ("RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE")
        after.append(set() if ends or k + 1 == n else {k + 1})
        if "JUMP" in i.name or i.name in ("FOR_ITER", "SEND"):
            after[-1].add(plan.index[i.value])
        if (handler := plan.handler(i.offset)) is not None:
            after[-1].add(plan.index[handler[2]])
    live: list[set[int]] = [set() for _ in range(n + 1)]
    changed = True
    while changed:
        changed = False
        for k in reversed(range(n)):
            # where an exception is handled, a slot may still have what it had before
            found = uses[k] | set().union(*[live[j] for j in after[k]]) - writes[k]
            changed, live[k] = changed or found != live[k], found
    return live


def alike(a: Any, b: Any) -> bool:
    """Whether layouts, or parts of them, make the same of their values."""
    if a is b or a.__class__ is not b.__class__:
        return a is b
    if isinstance(a, Fixed):
        return is_same(a.v, b.v)
    if isinstance(a, Layout):
        names = "frames", "cells", "shared", "grad", "grad_after"
        return a.modes.told == b.modes.told and all(
            alike(getattr(a, n), getattr(b, n)) for n in names
        )
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(map(alike, a, b))
    if isinstance(a, dict):
        return [*a] == [*b] and all(map(alike, a.values(), b.values()))
    if isinstance(a, BLOCKS):
        return vars(a) == vars(b)
    if isinstance(a, types.FunctionType):
        return a.__code__ is b.__code__ and a.__globals__ is b.__globals__
    return constant(a) and a == b


def is_same(a: Any, b: Any) -> bool:
    """Whether one of two objects from outside can stand for the other: it is the other, or a constant like it, or a function of the
    same code that holds nothing."""
    if a is b or a.__class__ is not b.__class__:
        return a is b
    if isinstance(a, types.FunctionType):
        own = (f.__closure__ or f.__defaults__ or f.__kwdefaults__ for f in (a, b))
        return alike(a, b) and not any(own)
    return constant(a) and a == b


def reached(given: Any, inside: dict[int, Any]) -> set[int]:
    """The ids of the objects that lists, objects of the function's and templates of them hold."""
    found: set[int] = set()
    todo = [given]
    while todo:
        v = todo.pop()
        o = v.origin if isinstance(v, Container) else v
        if id(v) in found:
            continue
        found |= {id(v), id(o)}
        if isinstance(v, Container):
            todo += [*v.parts, *(v.keys or ())]
        elif isinstance(v, types.MethodType):
            todo.append(v.__self__)
        elif isinstance(v, dict):
            todo += [*dict.keys(v), *dict.values(v)]
        elif isinstance(v, (tuple, list, set, frozenset, collections.deque)):
            todo += v
        if id(v) in inside and hasattr(v, "__dict__"):
            todo += vars(v).values()
    return found


def is_end(v: Any) -> bool:
    """Whether a value on a stack is what ends a block such as `no_grad`."""
    return (
        isinstance(v, types.MethodType)
        and isinstance(v.__self__, BLOCKS)
        and v.__name__ == "__exit__"
    )


def is_bound(f: Any) -> bool:
    """Whether a built-in function is a method of an object that is no class."""
    return isinstance(f, types.BuiltinMethodType) and not isinstance(
        f.__self__, (types.ModuleType, type, type(None))
    )
