"""Tensors that look as if they had a history, which is over."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.function import FunctionNode
from rushlight.autograd.graph import FREED, Node, followers, node_and_output
from rushlight.autograd.state import thread
from rushlight.autograd.views import CopySlices, edge_of
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.record import GeneralNode, OpNode
from rushlight.dispatch.saved import Saved


class Consumed(Node):
    """The history of a result whose backward pass the program has run itself. `gone`: the node that lacks what it
    saved."""

    __slots__ = ()
    gone = ""

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        raise RuntimeError(f"[{self.gone or self.name()}] {FREED}")


def kind_of(t: Tensor, gone: str = "") -> type[Consumed]:
    """The class of a node that has the name of the one of a tensor."""
    return type(t.grad_fn.name(), (Consumed,), {"__slots__": (), "gone": gone})


def consumed(a: Any, kind: type) -> Tensor:
    """A tensor on an array whose backward pass is over; `kind`: the class of its node."""
    t = _wrap(a)
    t._edge = object.__new__(kind)
    t._edge._edges = (None,)
    t._edge.hooks = None
    return t


def emptied(node: Node) -> bool:
    """Whether a node had saved something, which a backward pass freed."""
    if isinstance(node, CopySlices):
        return emptied(node.inner)
    if isinstance(node, FunctionNode):
        return node._saved is None and node._to_save is None
    if isinstance(node, GeneralNode):
        return node.statics[1] and node.saved is None
    if isinstance(node, OpNode):
        tensors, statics = node.saved_layout
        return bool(tensors) and node.saved is None or "at" in statics and node.statics is None
    return isinstance(node, Consumed)


def saves(node: Node) -> bool:
    """Whether a node has something saved, which a backward pass frees: a second one is refused there."""
    if isinstance(node, CopySlices):
        return saves(node.inner)
    if isinstance(node, FunctionNode):
        return bool(node._saved)
    if isinstance(node, GeneralNode):
        return node.statics[1]
    if isinstance(node, OpNode):
        tensors, statics = node.saved_layout
        kept = node.saved is None or any(
            v is not None and v.__class__ is not int for v in node.saved
        )
        return bool(tensors) and kept or "at" in statics
    return False


def saving_nodes(t: Tensor, ends: set[Node]) -> frozenset[int]:
    """The ids of the nodes between a tensor and those where its history ends here that have something saved."""
    ahead, met = [edge_of(t)], set(ends)
    found = set()
    while ahead:
        node = node_and_output(ahead.pop())[0]
        if node not in met:
            met.add(node)
            found |= {id(node)} if saves(node) else set()
            ahead += [e for e in node._edges if e is not None]
    return frozenset(found)


def keep_numbers(r: Any, given: tuple, operands: tuple) -> Any:
    """The result of an operation, whose node holds tensors that stand for numbers as numbers: no backward pass frees them.
    `given`: the operands with these numbers."""
    recorded = given is not operands and isinstance(r, Tensor) and thread.grad
    node = r.grad_fn if recorded else None
    node = node.inner if isinstance(node, CopySlices) else node
    if isinstance(node, GeneralNode) and node.saved:
        pairs = zip(operands, given, strict=True)  # a number that was decided is none of them
        numbers = [v._array for v, was in pairs if v is not was and isinstance(v, Tensor)]
        for n, s in [*node.saved.items()]:
            if s.__class__ is Saved and any(s.tensor._array is a for a in numbers):
                node.statics[0][n] = node.saved.pop(n).tensor
        node.statics = node.statics[0], bool(node.saved)
    return r


def ended_at(t: Tensor) -> str | None:
    """The name of the first node that a backward pass from a tensor would find empty. None: it could run."""
    ahead, met = [t.grad_fn], set()
    for node in ahead:
        if node is None or node in met:
            continue
        if emptied(node):
            return node.name()
        met.add(node)
        ahead += followers(node)
    return None
