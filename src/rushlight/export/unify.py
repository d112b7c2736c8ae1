"""One graph with symbolic sizes of several graphs with numbers: see Note [Sizes by comparison]."""

from __future__ import annotations

import operator
from typing import Any

import rushlight
from rushlight.export.dynamic_shapes import Dim, Expression, fit
from rushlight.export.errors import refuse
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.utils._pytree import tree_leaves

__all__ = ["Symbols", "unified"]

_STEPS = ((0, 0), (1, 1), (4, 3), (7, 2))  # trace -> (how much larger, and more for each symbol)


SMALLEST = len(_STEPS)  # the trace of the smallest sizes


class Symbols:
    """The dynamic dimensions: which there are, what sizes each trace has, where they come from."""

    def __init__(self, multiples: bool = False) -> None:
        """`multiples`: the traces have multiples of the example's sizes, which share its divisors."""
        self.multiples = multiples
        self.roots: dict[str, tuple[int, int, int | None]] = {}  # name -> (example, min, max)
        self.dims: dict[
            str, dict[int, tuple[str, int, int]]
        ] = {}  # input -> {dim: (root, factor, offset)}
        self.given: dict[tuple[str, int], Any] = {}

    def add(self, name: str, d: int, dim: Any, size: int) -> None:
        """Dimension `d` of the input `name` is `dim`, in the example `size`."""
        self.given[name, d] = dim
        if not isinstance(dim, Dim):
            root, factor, offset, low, high = f"s{len(self.roots)}", 1, 0, 0, None
            example = size
        else:
            root, factor, offset = dim.root.__name__, dim.factor, dim.offset
            low, high = dim.root.min, dim.root.max
            example, rest = divmod(size - offset, factor)
            if rest or example < low or (high is not None and example > high):
                refuse(
                    f"Constraints violated ({dim.__name__})! {name}.shape[{d}] is {size}, which {dim!r} does not allow",
                    "",
                )
        if self.roots.get(root, (example,))[0] != example:
            refuse(
                f"Constraints violated ({root})! {name}.shape[{d}] is {size}, which contradicts another input",
                "",
            )
        self.know(name, d, (root, factor, offset), size, low, high)

    def know(
        self, name: str, d: int, form: tuple[str, int, int], size: int, low: int, high: int | None
    ) -> None:
        """Dimension `d` of the input `name` is (root, factor, offset)."""
        root, factor, offset = form
        self.roots.setdefault(root, ((size - offset) // factor, low, high))
        self.dims.setdefault(name, {})[d] = form

    def sizes(self, nr: int) -> dict[str, int]:
        """The sizes of the roots in trace `nr`."""
        if nr == SMALLEST:
            return {name: self.smallest(name) for name in self.roots}
        found = {}
        for k, (name, (example, low, high)) in enumerate(self.roots.items()):
            rise, more = _STEPS[nr]
            size = (
                example * (1 + nr + k * (nr > 0)) if self.multiples else example + rise + more * k
            )
            if high is not None and size > high:  # below the example, then
                size = example - rise - more * k
            if nr and (size < max(low, 1) or (high is not None and size > high)):
                size = max(low, 1) + (nr % max(1, (high or size) - max(low, 1) + 1))
            found[name] = size
        return found

    def smallest(self, root: str) -> int:
        """The smallest size from 2 on that a root may have; the example's, if that is smaller."""
        example, low, _ = self.roots[root]
        forms = [form for dims in self.dims.values() for form in dims.values() if form[0] == root]
        fits = (n for n in range(max(low, 2), example) if all(f * n + o >= 2 for _, f, o in forms))
        return next(fits, example)

    def ranges(self) -> dict[str, tuple[int, int | None]]:
        """{root: (min, max)}."""
        return {name: (low, high) for name, (_, low, high) in self.roots.items()}


def symbols_of(program: Any) -> Symbols:
    """The dynamic dimensions of an exported program."""
    found = Symbols()
    names = program.graph_signature.user_input_names
    leaves = dict(zip(names, tree_leaves(program.example_inputs), strict=True))
    for name, dims in program.dynamic.items():
        for d, form in dims.items():
            found.know(name, d, form, leaves[name].shape[d], *program.range_constraints[form[0]])
    return found


def resized(names: list[str], leaves: list, symbols: Symbols, nr: int) -> list:
    """Inputs with the sizes of trace `nr`: elements of the examples, repeated."""
    sizes, found = symbols.sizes(nr), []
    for name, leaf in zip(names, leaves, strict=True):
        for d, (root, factor, offset) in symbols.dims.get(name, {}).items():
            indices = rushlight.arange(factor * sizes[root] + offset) % leaf.shape[d]
            leaf = leaf.detach().index_select(d, indices)
        found.append(leaf)
    return found


def unified(graphs: list[Graph], symbols: Symbols) -> Graph:
    """The first graph, with expressions of sizes where the others have other numbers."""
    first = graphs[0]
    rows = [list(g.nodes) for g in graphs]
    number = [{n: k for k, n in enumerate(row)} for row in rows]
    traces = {
        name: [symbols.sizes(nr)[name] for nr in range(len(graphs))] for name in symbols.roots
    }
    sizes = Sizes(first, symbols)
    for k, node in enumerate(rows[0]):
        same = [row[k] if k < len(row) else None for row in rows]
        if any(o is None or (o.op, o.target) != (node.op, node.target) for o in same):
            _depends(node, symbols)

        def merge(values: list, node: Node = node) -> Any:
            a = values[0]
            if any(type(v) is not type(a) for v in values):
                _depends(node, symbols)
            if isinstance(a, Node):
                if len({number[i][v] for i, v in enumerate(values)}) > 1:
                    _depends(node, symbols)
                return a
            if isinstance(a, (list, tuple)):
                if any(len(v) != len(a) for v in values):
                    _depends(node, symbols)
                return type(a)([merge(list(each)) for each in zip(*values, strict=True)])
            if isinstance(a, dict):
                return {key: merge([v[key] for v in values]) for key in a}
            if all(v == a for v in values):
                return a
            found = fit(values, traces) if type(a) in (int, float) else None
            if found is None:
                refuse(
                    f"the number {a} in {node.name} depends on the sizes of {', '.join(symbols.roots)} in a way that is "
                    f"not understood: with sizes {traces} it is {values}",
                    node.stack_trace or "",
                )
            return sizes.node(found, node)

        node.args = tuple(merge([o.args for o in same]))
        node.kwargs = merge([o.kwargs for o in same])
    if any(len(row) != len(rows[0]) for row in rows):
        _depends(rows[0][-1], symbols)
    first.lint()
    return first


def _depends(node: Node, symbols: Symbols) -> Any:
    refuse(
        f"Constraints violated ({', '.join(symbols.roots)})! What the program does depends on the sizes of dimensions that "
        f"are marked as dynamic, at the latest from {node.name} on. Mark them as static, or make the program independent.",
        node.stack_trace or "",
    )


class Sizes:
    """Nodes of the sizes and of expressions of them, each made once."""

    def __init__(self, graph: Graph, symbols: Symbols) -> None:
        self.graph, self.symbols = graph, symbols
        self.nodes: dict[Expression | str, Node] = {}
        self.last = [n for n in graph.nodes if n.op == "placeholder"][-1]

    def _call(self, target: Any, *args: Any) -> Node:
        with self.graph.inserting_after(self.last):
            self.last = self.graph.call_function(target, args)
        return self.last

    def _symbol(self, name: str) -> Node:
        if name not in self.nodes:
            source, d, factor, offset = next(
                (source, d, factor, offset)
                for source, dims in self.symbols.dims.items()
                for d, (root, factor, offset) in sorted(dims.items(), key=lambda each: each[1][1:])
                if root == name
            )
            placeholder = next(
                n for n in self.graph.nodes if n.op == "placeholder" and n.target == source
            )
            found = self._call(rushlight.ops.aten.sym_size.int, placeholder, d)
            if offset:
                found = self._call(operator.sub, found, offset)
            if factor != 1:
                found = self._call(operator.floordiv, found, factor)
            self.nodes[name] = found
        return self.nodes[name]

    def node(self, e: Expression, user: Node) -> Node:
        """The node of an expression."""
        if e not in self.nodes:
            found = self._symbol(e.symbols[0])
            for name in e.symbols[1:]:
                found = self._call(operator.mul, found, self._symbol(name))
            if e.factor != 1:
                found = self._call(operator.mul, found, e.factor)
            if e.offset:
                found = self._call(operator.add, found, e.offset)
            if e.divisor != 1:
                found = self._call(operator.floordiv, found, e.divisor)
            if e.power is not None:
                found = self._call(operator.pow, found, e.power)
            self.nodes[e] = found
        return self.nodes[e]
