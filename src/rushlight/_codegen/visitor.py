"""Walks over the intermediate representation: what passes and emission are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rushlight._codegen import ir

# The fields of a statement that hold an expression, or None.
FIELDS: dict[type, tuple[str, ...]] = {
    ir.Let: ("value",),
    ir.Do: ("value",),
    ir.Store: ("pointer", "value", "mask"),
    ir.For: ("start", "stop"),
    ir.While: ("condition",),
    ir.If: ("condition",),
    ir.Return: ("value",),
    ir.Parallel: ("count", "grain"),
    ir.Array: (),
    ir.Break: (),
}


def parts(s: Any) -> list[Any]:
    """The expressions that stand in a statement itself."""
    kind = type(s)
    if kind is ir.Let or kind is ir.Do:
        return [s.value]
    return [e for name in FIELDS[kind] if (e := getattr(s, name)) is not None]


def blocks(s: Any) -> tuple[list[ir.Stmt], ...]:
    """The lists of statements within a statement."""
    kind = type(s)
    if kind is ir.Let or kind is ir.Store:
        return ()
    if kind is ir.If:
        return (s.then, s.otherwise)
    if kind is ir.For or kind is ir.While or kind is ir.Parallel:
        return (s.body,)
    return ()


def statements(body: list[ir.Stmt]) -> Iterator[ir.Stmt]:
    """All statements of a list and within them, in the order of the text."""
    for s in body:
        yield s
        for inner in blocks(s):
            yield from statements(inner)


def arguments(e: Any) -> tuple[Any, ...]:
    """The expressions that an expression is made of."""
    kind = type(e)
    if kind is ir.Op or kind is ir.Call:
        return e.args
    if kind is ir.Load:
        return (e.pointer,) if e.mask is None else (e.pointer, e.mask)
    return (e.arg,) if kind is ir.Cast else ()


def variables(e: Any) -> list[ir.Var]:
    """The variables that an expression reads, in the order of the text."""
    found, rest = [], [e]
    while rest:
        e = rest.pop()
        kind = type(e)
        if kind is ir.Var:
            found.append(e)
        elif kind is ir.Op or kind is ir.Call:
            rest += e.args[::-1]
        elif kind is not ir.Const:
            rest += arguments(e)[::-1]
    return found


def rewritten(e: Any, change: Callable[[Any], Any]) -> Any:
    """An expression after `change` of its arguments, then of itself."""
    kind = type(e)
    if kind is ir.Op or kind is ir.Call:
        old = e.args
        new = tuple([rewritten(a, change) for a in old])
        for a, b in zip(new, old, strict=True):
            if a is not b:
                e = kind(e.name, new, e.type)
                break
    elif kind is ir.Load:
        pointer, mask = rewritten(e.pointer, change), e.mask
        if mask is not None:
            mask = rewritten(mask, change)
        if pointer is not e.pointer or mask is not e.mask:
            e = ir.Load(pointer, e.type, mask)
    elif kind is ir.Cast:
        arg = rewritten(e.arg, change)
        if arg is not e.arg:
            e = ir.Cast(arg, e.type)
    return change(e)


class Uses:
    """Of each variable of a function: how often it is set; and `read_outside`, those that are read outside
    of the list of statements that sets them."""

    def __init__(self, function: ir.Function) -> None:
        self.sets: dict[str, int] = {}
        self.read_outside: set[str] = set()
        self.open: dict[str, int] = {}  # variables set in the lists around
        for p in function.parameters:
            self.sets[p.name] = self.open[p.name] = 1
        self.walk(function.body)

    def once(self) -> set[str]:
        """The variables that are set once, before all that reads them."""
        return {name for name, n in self.sets.items() if n == 1} - self.read_outside

    def walk(self, body: list[ir.Stmt]) -> None:
        here = []
        sets, open, read_outside = self.sets, self.open, self.read_outside
        for s in body:
            for e in parts(s):
                for v in variables(e):
                    if not open.get(v.name):
                        read_outside.add(v.name)
            for name in names(s):
                sets[name] = sets.get(name, 0) + 1
                open[name] = open.get(name, 0) + 1
                here.append(name)
            for inner in blocks(s):
                self.walk(inner)
        for name in here:
            open[name] -= 1


def names(s: Any) -> tuple[str, ...]:
    """The variables that a statement sets."""
    kind = type(s)
    if kind is ir.Let or kind is ir.For or kind is ir.Array:
        return (s.name,)
    return (s.start, s.stop) if kind is ir.Parallel else ()


def free(s: ir.Parallel) -> list[ir.Var]:
    """The variables of the function around that a parallel body reads, in order of appearance."""
    own, found = {s.start, s.stop}, {}
    for inner in statements(s.body):
        for e in parts(inner):
            for v in variables(e):
                if v.name not in own:
                    found.setdefault(v.name, v)
        own.update(names(inner))
    return list(found.values())
