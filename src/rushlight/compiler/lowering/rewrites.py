"""Graphs that compute the same with less work.

Note [Maxima before rectifiers]
    The largest of numbers that were rectified is their largest, rectified. So `max_pool(relu(x))` becomes
    `relu(max_pool(x))`, on an array as many times smaller as windows have elements. A window without positive numbers
    may find its maximum elsewhere; but there the gradient is zero wherever it goes to, if it is rectified before it goes
    to the places of the maxima instead of afterwards. Everything else has the same bits.
"""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

from rushlight.dispatch.overloads import OpOverload
from rushlight.fx import Graph, Node

if TYPE_CHECKING:
    from collections.abc import Iterable

POOLS = frozenset(f"internal_max_pool{n}d" for n in (1, 2, 3))


def name_of(node: Node) -> str:
    """The name of the operator that a node calls; "" for what calls none."""
    return node.target._opname if isinstance(node.target, OpOverload) else ""


def rewrite(graph: Graph) -> None:
    """Make a graph of one that computes the same with more work."""
    for node in list(graph.nodes):
        if name_of(node) in POOLS:
            pool_first(graph, node)


def taken(node: Node, k: int) -> list[Node]:
    """The nodes that take the result number k of one that has several."""
    return [n for n in node.users if n.target is operator.getitem and n.args[1] == k]


def all_are(nodes: Iterable[Node], name: str) -> bool:
    return all(name_of(n) == name for n in nodes)


def pool_first(graph: Graph, pool: Node) -> None:
    """`max_pool(relu(x))` as `relu(max_pool(x))`; see Note [Maxima before rectifiers]."""
    relu = pool.args[0]
    if not isinstance(relu, Node) or name_of(relu) != "relu":
        return
    values, places = taken(pool, 0), [u for n in taken(pool, 1) for u in n.users]
    backward = [n for n in relu.users if n is not pool]
    scattered = [n.args[0] for n in backward]
    known = len(values) == 1 and all_are(backward, "relu_backward")
    known = known and all_are(places, "internal_add_at_indices") and set(scattered) == set(places)
    if not known or any(len(n.users) != 1 or n.args[0] in taken(pool, 1) for n in places):
        return
    pool.args = (relu.args[0], *pool.args[1:])
    (value,) = values
    others = list(value.users)
    with graph.inserting_after(value):
        rectified = graph.call_function(relu.target, (value,))  # type: ignore[arg-type]
    rectified.meta = dict(value.meta)
    for n in others:
        n.replace_input_with(value, rectified)
    for back in backward:
        scatter = back.args[0]
        assert isinstance(scatter, Node)
        with graph.inserting_before(scatter):
            g = graph.call_function(back.target, (scatter.args[0], rectified, *back.args[2:]))  # type: ignore[arg-type]
        g.meta = dict(scatter.args[0].meta)  # type: ignore[union-attr]
        scatter.args = (g, *scatter.args[1:])
        back.replace_all_uses_with(scatter)
        graph.erase_node(back)
    graph.erase_node(relu)
