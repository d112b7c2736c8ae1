"""Tensors that look as if they had a history, which is over."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.function import FunctionNode
from rushlight.autograd.graph import FREED, Node, followers
from rushlight.autograd.views import CopySlices
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.record import GeneralNode, OpNode


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
    t._edge.edges = (None,)
    t._edge.hooks = None
    return t


def emptied(node: Node) -> bool:
    """Whether a node had saved something, which a backward pass freed."""
    if isinstance(node, CopySlices):
        return emptied(node.inner)
    if isinstance(node, FunctionNode):
        return node.saved is None and node._to_save is None
    if isinstance(node, GeneralNode):
        return node.statics[1] and node.saved is None
    if isinstance(node, OpNode):
        tensors, statics = node.saved_layout
        return bool(tensors) and node.saved is None or "at" in statics and node.statics is None
    return isinstance(node, Consumed)


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
