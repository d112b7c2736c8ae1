"""`CSEPass`: computes once what is computed twice from the same values."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import GraphModule
from rushlight.fx.node import Node, map_arg
from rushlight.fx.passes.infra.pass_base import PassBase, PassResult
from rushlight.utils import _pytree as pytree

__all__ = ["CSEPass", "get_CSE_banned_ops"]

_RANDOM = "dropout rand randn randint randperm rand_like randn_like randint_like bernoulli normal multinomial poisson"
_FRESH = "empty empty_like new_empty"


def get_CSE_banned_ops() -> set[Any]:
    """The operators of which two calls are two values: random numbers, memory that is not initialised."""
    found: set[Any] = set()
    for name in f"{_RANDOM} {_FRESH}".split():
        found.add(getattr(rushlight.ops.aten, name))
        for owner in (rushlight, rushlight.nn.functional):
            if hasattr(owner, name):
                found.add(getattr(owner, name))
    return found


def _mutates(graph: Graph) -> bool:
    for node in graph.nodes:
        target = getattr(node.target, "overloadpacket", node.target)
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        if (name.endswith("_") and not name.endswith("__")) or name == "setitem":
            return True
    return False


class CSEPass(PassBase):
    """Common subexpressions of graphs without in-place operations."""

    def __init__(self, banned_ops: set[Any] | None = None) -> None:
        self.banned_ops = banned_ops if banned_ops is not None else set()
        super().__init__()

    def call(self, graph_module: GraphModule) -> PassResult:
        """Return a module whose graph computes each value once."""
        if _mutates(graph_module.graph):
            return PassResult(graph_module, False)
        banned = {*self.banned_ops, *get_CSE_banned_ops()}
        made = Graph()
        copies: dict[Node, Node] = {}
        known: dict[Any, Node] = {}
        modified = False
        for node in graph_module.graph.nodes:
            target = getattr(node.target, "overloadpacket", node.target)
            random = node.op == "call_method" and str(target) in _RANDOM.split()
            plain = node.op in ("call_function", "call_method") and not random
            if not plain or target in banned or node.target in banned:
                copies[node] = made.node_copy(node, lambda n: copies[n])
                continue
            arguments = map_arg((node.args, node.kwargs), lambda n: copies[n])
            key = (node.op, node.target, *_key(arguments))
            try:
                if key in known:
                    copies[node] = known[key]
                    modified = True
                    continue
            except TypeError:  # an argument without a hash
                copies[node] = made.node_copy(node, lambda n: copies[n])
                continue
            copies[node] = known[key] = made.node_copy(node, lambda n: copies[n])
        made._codegen = graph_module.graph._codegen
        return PassResult(GraphModule(graph_module, made), modified)


def _key(arguments: Any) -> tuple:
    leaves, form = pytree.tree_flatten(arguments)
    shown = tuple(
        ("slice", repr((x.start, x.stop, x.step))) if isinstance(x, slice) else (type(x), x)
        for x in leaves
    )
    return shown, repr(form)
