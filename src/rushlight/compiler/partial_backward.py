"""The backward pass of a program for results of which some have no gradient: what only these lead to is left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.compiler.capture.steps import Stop
from rushlight.compiler.lowering.calls import call_of
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, map_arg


class Pruned:
    """A copy of a graph without what depends on absent placeholders alone. `Stop` where that cannot be told apart.

    A gradient that is absent is no zero: a derivative may be infinite, and zero times infinity is not a number. A sum of
    two gradients is the one that is there; other operators take zeros for an argument that is absent, as rules of
    several gradients do.
    """

    def __init__(self, graph: Graph, given: set[Node], absent: set[Node]) -> None:
        self.absent, self.graph = absent, Graph()
        self.made: dict[Node, Node] = {}  # the node of the copy
        self.roots: dict[Node, Node] = {}  # whose memory a node views
        self.depends: dict[
            Node, set[Node]
        ] = {}  # the given gradients that a root's elements depend on
        self.writes = any(
            n.op == "call_function" and call_of(n).written for n in graph.nodes
        )  # then a sum must not be one of its operands
        for n in graph.nodes:
            if n.op == "placeholder":
                self.made[n] = self.graph.node_copy(n)
                self.depends[n] = {n} & given
            elif n.op == "call_function":
                self.add(n)
            else:
                (results,) = n.args
                found = [None if o is None or self.gone(o) else self.made[o] for o in results]
                self.graph.output(tuple(found))

    def root(self, n: Node) -> Node:
        return self.roots.get(n, n)

    def of(self, n: Node) -> set[Node]:
        """The given gradients that a node depends on by now."""
        return self.depends[self.root(n)]

    def gone(self, n: Node) -> bool:
        """Whether a value depends on absent gradients alone."""
        return bool(self.of(n)) and self.of(n) <= self.absent

    def add(self, n: Node) -> None:
        call = call_of(n)
        into = call.writes
        read = [r for r in n.all_input_nodes if r is not into]
        found = set().union(*[self.of(r) for r in read])
        if call.fills:
            raise Stop("a backward pass that writes to several arrays")
        if into is not None:
            self.roots[n] = self.root(into)
            if (
                found and found <= self.absent or not found and self.gone(into)
            ):  # nothing is written
                self.depends[self.root(into)] = self.of(into) | found
                self.made[n] = self.made.get(into)  # type: ignore[assignment]
                return
            if self.gone(into):
                raise Stop("a gradient that is written over an absent one")
            self.depends[self.root(into)] = self.of(into) | found
        elif call.view and read:
            self.roots[n] = self.root(read[0])
        else:
            self.depends[n] = found
        if not self.gone(n):
            self.copy(n, into)

    def copy(self, n: Node, into: Node | None) -> None:
        """Take a node over, with what stands for absent arguments."""
        there = [r for r in n.all_input_nodes if r is into or not self.gone(r)]
        name = getattr(n.target, "_opname", "")
        if name == "add" and len(n.all_input_nodes) == 2 == len(n.args) and len(there) == 1:
            (one,) = there
            a, b = one.meta["val"], n.meta["val"]
            if not n.kwargs and (a.shape, a.dtype) == (b.shape, b.dtype):
                made = self.made[one]
                if self.writes:
                    made = self.call(rushlight.ops.aten.clone.default, (made,), n)
                self.made[n] = made
                return

        def argument(r: Node) -> Node:
            return self.made[r] if r in there else self.zeros(r)

        args, kwargs = map_arg(n.args, argument), map_arg(n.kwargs, argument)
        self.made[n] = self.call(n.target, args, n, kwargs)

    def zeros(self, like: Node) -> Node:
        t = like.meta["val"]
        if not isinstance(t, rushlight.Tensor):
            raise Stop("several gradients at once that are absent")
        return self.call(
            rushlight.ops.aten.zeros.default, (list(t.shape),), like, {"dtype": t.dtype}
        )

    def call(self, target: Any, args: tuple, like: Node, kwargs: dict | None = None) -> Node:
        made = self.graph.call_function(target, args, kwargs or {})
        made.meta, made.stack_trace = {**like.meta}, like.stack_trace
        return made


class Backward:
    """The programs of a backward pass, one for each set of results that have gradients, each with the numbers of the
    placeholders that it reads.

    `build` makes a function of a graph; `given`: the numbers of the placeholders of their gradients, None for those that it does not read.
    """

    def __init__(self, graph: Graph, given: list[int | None], build: Callable) -> None:
        self.given, self.build = given, build
        self.graph = Pruned(graph, set(), set()).graph if len(given) > 1 else graph
        self.programs = {(): (build(graph), placeholders_read(graph))}

    def without(self, absent: tuple[int, ...]) -> tuple[Callable, frozenset[int]]:
        """The program where these results have no gradient; where it cannot do without, it takes zeros."""
        found = self.programs.get(absent)
        if found is None:
            ahead = [n for n in self.graph.nodes if n.op == "placeholder"]
            given = [None if k is None else ahead[k] for k in self.given]
            try:
                graph = Pruned(self.graph, {*given}, {given[k] for k in absent}).graph
                found = self.build(graph), placeholders_read(graph)
            except Stop:
                found = self.programs[()]
            self.programs[absent] = found
        return found


def placeholders_read(graph: Graph) -> frozenset[int]:
    """The numbers of the placeholders that the results of a graph, or what it writes in place, depend on."""
    calls = [n for n in graph.nodes if n.op == "call_function"]
    written = [n for n in calls if call_of(n).writes is not None or call_of(n).fills]
    ahead, met = [*graph.find_nodes(op="output"), *written], set()
    while ahead:
        n = ahead.pop()
        if n not in met:
            met.add(n)
            ahead += n.all_input_nodes
    return frozenset(k for k, n in enumerate(graph.find_nodes(op="placeholder")) if n in met)
