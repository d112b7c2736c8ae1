"""Backward in two halves: the gradients of a stage's inputs, which the stage before waits for, and later those of its parameters.

Note [Backward in two halves]
A node between the results and the inputs may have further edges, to parameters: these are cut. The first half asks for the
gradients of the inputs and for those that arrive at the nodes with cut edges; rules of nodes compute no gradient that nobody
asks for, so it costs no products for weights. The second half runs each of these nodes alone, for its cut edges, and goes on
from there. That is right if no cut edge is behind another one, and if the nodes have no hooks, which would run twice:
where it is not so, the first half is the whole backward.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd import backward, grad
from rushlight.autograd.graph import (
    GradientEdge,
    Hooks,
    followers,
    get_gradient_edge,
    node_and_output,
)
from rushlight.core.tensor import Tensor

__all__ = ["first_half"]

Cuts = dict[Any, list[tuple[Any, int]]]  # a node, and where its cut edges go


def first_half(
    outputs: Sequence[Tensor], grads: Sequence[Tensor | None], inputs: Sequence[Tensor]
) -> tuple[list[Tensor | None], Callable[[], None]]:
    """The gradients of `inputs`, and what adds those of the parameters to their `grad`."""
    roots = [get_gradient_edge(t) for t in outputs]
    ends = [get_gradient_edge(t).node for t in inputs]
    cuts = _cuts([edge.node for edge in roots], ends)
    if cuts is None:
        backward(outputs, grads)
        return [t.grad for t in inputs], _nothing
    edges = [GradientEdge(node, nr) for node in cuts for nr in range(node._n_outputs)]
    found = grad(outputs, [*inputs, *edges], grads, retain_graph=True, allow_unused=True)
    arrived = dict(zip([(e.node, e.output_nr) for e in edges], found[len(inputs) :]))

    def second_half() -> None:
        starts, given = [], []
        for node, ends in cuts.items():
            here = [nr for nr in range(node._n_outputs) if arrived[node, nr] is not None]
            if here:
                behind = [GradientEdge(*end) for end in ends]
                from_here = [GradientEdge(node, nr) for nr in here]
                parts = grad(
                    from_here, behind, [arrived[node, nr] for nr in here], allow_unused=True
                )
                starts += [edge for edge, part in zip(behind, parts) if part is not None]
                given += [part for part in parts if part is not None]
        if starts:
            backward(starts, given)

    return list(found[: len(inputs)]), second_half


def _nothing() -> None:
    """What is left after a whole backward."""


def _cuts(roots: list, ends: list) -> Cuts | None:
    """The nodes that have edges to be cut; None where backward cannot be cut in two: see Note [Backward in two halves]."""
    leads = _that_lead_to(roots, ends)
    if not all(leads[root] for root in roots):
        return None
    cuts: Cuts = {}
    for node in [node for node, yes in leads.items() if yes and node not in ends]:
        edges = [node_and_output(e) for e in node._edges if e is not None]
        beside = [edge for edge in edges if not leads[edge[0]]]
        if beside:
            cuts[node] = beside
    first = [edge for beside in cuts.values() for edge in beside]
    behind = {node for each, _ in first for node in _that_lead_to(followers(each), [])}
    alone = len(set(first)) == len(first) and not any(node in behind for node, _ in first)
    return cuts if alone and all(node.hooks.__class__ is not Hooks for node in cuts) else None


def _that_lead_to(roots: list, ends: list) -> dict[Any, bool]:
    """Every node that `roots` lead to, and whether it leads to one of `ends`."""
    found: dict[Any, bool] = {}
    waiting = [(root, False) for root in roots]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            found[node] = node in ends or any(found[each] for each in followers(node))
        elif node not in found:
            found[node] = False  # until all behind it are known
            waiting.append((node, True))
            waiting += [(each, False) for each in followers(node) if each not in found]
    return found
