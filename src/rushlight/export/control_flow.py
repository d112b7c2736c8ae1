"""`torch.cond` in a program that is exported: a node of both branches, each a graph of its own.

Both branches run once, on the same values, and record into graphs of their own. What they take from around them (operands,
parameters, constants) becomes an input of both. They write to nothing from outside and return nothing that is from outside.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight._higher_order_ops.control_flow import truth_of
from rushlight.core.tensor import Tensor
from rushlight.export.aliases import Alias
from rushlight.export.errors import refuse, user_line
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.nn import Module
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.export.recorder import Recorder, Traced
    from rushlight.fx.node import Node


class Branch:
    """A branch that was recorded: its graph, its results and their structure, and the modules that its graph calls."""

    def __init__(self, recorder: Recorder, function: Callable, operands: Any) -> None:
        around, modules = recorder.graph, recorder.parts
        self.graph = recorder.graph = Graph()
        self.parts = recorder.parts = Module()
        try:
            with recorder:
                result = function(*operands)
            self.results, self.form = tree_flatten(result)
            self.graph.output(tuple([self.result(recorder, t) for t in self.results]))
        finally:
            recorder.graph, recorder.parts = around, modules

    def result(self, recorder: Recorder, t: Any) -> Node:
        """The node of a result."""
        if not isinstance(t, Tensor):
            refuse(f"cond: a branch returns {t!r}; it may return tensors alone")
        alias = recorder.alias_of(t)
        if alias.root.node.graph is not self.graph:
            refuse(
                "cond: a branch returns a tensor from outside, or a view of one; let it return a clone"
            )
        return alias.read(recorder)

    def taken(self) -> list[Node]:
        """What the graph takes from around it."""
        found = {m: None for n in self.graph.nodes for m in n.all_input_nodes}
        return [m for m in found if m.graph is not self.graph]

    def module(self, taken: list[Node]) -> GraphModule:
        """The branch as a module of what both take from around them."""
        first = next(iter(self.graph.nodes))
        users = [*self.graph.nodes]
        for outer in taken:
            with self.graph.inserting_before(first):
                inner = self.graph.placeholder(outer.name)
            for n in users:
                n.replace_input_with(outer, inner)
        self.graph.eliminate_dead_code()
        return GraphModule(self.parts, self.graph)


def cond(
    recorder: Recorder, pred: Any, true_fn: Callable, false_fn: Callable, operands: Any = ()
) -> Any:
    """Record a call of `torch.cond`. With a `bool` the branch that it says is recorded alone."""
    if not isinstance(pred, Tensor):
        with recorder:
            return (true_fn if truth_of(pred, "cond: pred") else false_fn)(*operands)
    branches = [Branch(recorder, function, operands) for function in (true_fn, false_fn)]
    if branches[0].form != branches[1].form:
        refuse("cond: the branches return different structures")
    for a, b in zip(*[branch.results for branch in branches], strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            refuse(
                f"cond: the branches return tensors of different shapes or dtypes, {list(a.shape)} of {a.dtype} and "
                f"{list(b.shape)} of {b.dtype}"
            )
    given = [recorder.node_of(t) for t in tree_leaves(operands) if isinstance(t, Tensor)]
    others = {n for branch in branches for n in branch.taken()} - {*given}
    taken = [*dict.fromkeys(given), *sorted(others, key=lambda n: n.name)]
    nr = sum(name.startswith("true_graph_") for name in recorder.parts._modules)
    called = []
    for kind, branch in zip(("true", "false"), branches, strict=True):
        name = f"{kind}_graph_{nr}"
        recorder.parts.add_module(name, branch.module(taken))
        called.append(recorder.graph.create_node("get_attr", name, (), {}, name))
        called[-1].stack_trace = user_line()
    node = recorder.emit(
        rushlight.ops.higher_order.cond, recorder.node_of(pred), *called, tuple(taken)
    )
    ran = branches[0] if recorder.plain(pred) else branches[1]
    results: list[Traced] = []
    for i, t in enumerate(ran.results):
        picked = recorder.emit(operator.getitem, node, i)
        results.append(recorder.traced(recorder.plain(t), Alias(picked)))
    return tree_unflatten(results, ran.form)
