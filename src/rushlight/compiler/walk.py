"""Walks over the intermediate representation: what passes and emission are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from rushlight.compiler import ir


def parts(s: ir.Stmt) -> list[Any]:
    """The expressions that stand in a statement itself."""
    if isinstance(s, (ir.Let, ir.Do)):
        return [s.value]
    if isinstance(s, ir.Store):
        return [s.pointer, s.value] + ([] if s.mask is None else [s.mask])
    if isinstance(s, ir.For):
        return [s.start, s.stop]
    if isinstance(s, (ir.While, ir.If)):
        return [s.condition]
    if isinstance(s, ir.Return):
        return [] if s.value is None else [s.value]
    if isinstance(s, ir.Parallel):
        return [s.count, s.grain]
    return []


def blocks(s: ir.Stmt) -> list[list[ir.Stmt]]:
    """The lists of statements within a statement."""
    if isinstance(s, (ir.For, ir.While, ir.Parallel)):
        return [s.body]
    return [s.then, s.otherwise] if isinstance(s, ir.If) else []


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


def variables(e: Any) -> Iterator[ir.Var]:
    """The variables that an expression reads."""
    if type(e) is ir.Var:
        yield e
    else:
        for a in arguments(e):
            yield from variables(a)


def rewritten(e: Any, change: Callable[[Any], Any]) -> Any:
    """An expression after `change` of its arguments, then of itself."""
    old = arguments(e)
    if old:
        new = tuple([rewritten(a, change) for a in old])
        if any(a is not b for a, b in zip(new, old, strict=True)):
            kind = type(e)
            if kind is ir.Load:
                e = ir.Load(new[0], e.type, new[1] if e.mask is not None else None)
            elif kind is ir.Cast:
                e = ir.Cast(new[0], e.type)
            else:
                e = kind(e.name, new, e.type)
    return change(e)


class Uses:
    """Of each variable of a function: how often it is set; and `astray`, those that are read outside
    of the list of statements that sets them."""

    def __init__(self, function: ir.Function) -> None:
        self.sets: Counter[str] = Counter()
        self.astray: set[str] = set()
        self.open: Counter[str] = Counter()  # variables set in the lists around
        for p in function.parameters:
            self.sets[p.name] = self.open[p.name] = 1
        self.walk(function.body)

    def once(self) -> set[str]:
        """The variables that are set once, before all that reads them."""
        return {name for name, n in self.sets.items() if n == 1} - self.astray

    def walk(self, body: list[ir.Stmt]) -> None:
        here = []
        for s in body:
            for e in parts(s):
                for v in variables(e):
                    if not self.open[v.name]:
                        self.astray.add(v.name)
            for name in names(s):
                self.sets[name] += 1
                self.open[name] += 1
                here.append(name)
            for inner in blocks(s):
                self.walk(inner)
        for name in here:
            self.open[name] -= 1


def names(s: ir.Stmt) -> tuple[str, ...]:
    """The variables that a statement sets."""
    if isinstance(s, (ir.Let, ir.Array, ir.For)):
        return (s.name,)
    return (s.start, s.stop) if isinstance(s, ir.Parallel) else ()


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
