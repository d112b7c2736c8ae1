"""What passes share: the order in which each node stands after its arguments, and the names of what nodes call."""

from __future__ import annotations

from collections.abc import Mapping

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.names import qualified_name
from rushlight.fx.node import Node
from rushlight.nn import Module
from rushlight.serialization.names import torch_name

__all__ = ["CALLABLE_NODE_OPS", "get_node_target", "legalize_graph", "stable_topological_sort"]

CALLABLE_NODE_OPS = {"call_module", "call_function", "call_method"}


def get_node_target(submodules: Mapping[str, Module], node: Node) -> str:
    """The name of what a node calls: a function's or a module's class with its module, or a method's alone."""
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op}"
        )
    if node.op == "call_module":
        cls = type(submodules[str(node.target)])
        return ".".join(torch_name(cls) or (cls.__module__, cls.__qualname__))
    return str(node.target) if node.op == "call_method" else qualified_name(node.target)


def legalize_graph(gm: GraphModule) -> GraphModule:
    """Sort the nodes of the graph of `gm`, and return it; RuntimeError if there is a cycle."""
    graph = gm.graph
    made = Graph(tracer_cls=graph._tracer_cls)
    made._codegen = graph._codegen
    missing = {node: len(node.all_input_nodes) for node in graph.nodes}
    kinds = {"placeholder": 0, "get_attr": 1}
    ready = sorted((n for n in graph.nodes if not missing[n]), key=lambda n: kinds.get(n.op, 2))
    copies: dict[Node, Node] = {}
    while ready:
        node = ready.pop(0)
        copies[node] = made.node_copy(node, lambda n: copies[n])
        for user in node.users:
            missing[user] -= 1
            if not missing[user]:
                ready.append(user)
    if len(copies) < len(graph.nodes):
        raise RuntimeError(
            f"Input graph has cycles, unable to add {[n for n in graph.nodes if n not in copies]}"
        )
    gm.graph = made
    return gm


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Like `legalize_graph`; a node is moved no more than needed."""
    placed: set[Node] = set()
    waiting: dict[Node, list[Node]] = {}
    pending = list(reversed(list(gm.graph.nodes)))
    order: list[Node] = []
    while pending:
        node = pending.pop()
        missing = [n for n in node.all_input_nodes if n not in placed]
        if missing:
            waiting.setdefault(missing[-1], []).append(node)
            continue
        placed.add(node)
        order.append(node)
        pending.extend(reversed(waiting.pop(node, [])))
    if waiting:
        raise AssertionError(f"Input graph has cycles, unable to add {list(waiting)}")
    for node in order:
        gm.graph._root.prepend(node)
    return gm
