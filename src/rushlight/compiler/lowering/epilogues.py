"""Batch norms with what follows them in one pass over memory.

Note [Epilogues]
    What is normalised by the statistics of a batch is rectified where it is computed, and so is its sum with an array that
    is there by then: the kernel `batch_norm` does that before it stores a number. The gradient of what was rectified
    counts where the results are positive: `batch_norm_gradients` looks at them where it reads it, and nothing else needs
    it. Both compute the same numbers in the same order, so that they have the same bits.

    This joins the calls of a program before they run for the first time, where nobody else reads what is between
    them, and nothing is written in between to what the first of them would now read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._backends import cpu as xp
from rushlight.compiler.lowering.calls import TRAINING, Call, dtype_of
from rushlight.core.dtype_sets import FULL
from rushlight.fx import Node

NORM = ("_batch_norm", "_batch_norm_backward")


def joined(calls: list[Call], outputs: set[Node], root: Callable[[Node], Node]) -> list[Call]:
    """The calls of a program, batch norms and what follows them as one each. `root`: whose memory a node is in."""
    if not any(name_of(c) in NORM for c in calls):
        return calls
    found = Neighbours(calls, outputs, root)
    for k, call in enumerate(calls):
        if name_of(call) == NORM[0]:
            found.forward(k, call)
        elif name_of(call) == NORM[1]:
            found.backward(k, call)
    return [c for k, c in enumerate(found.calls) if k not in found.gone]


def name_of(call: Call) -> str:
    """The name of the operator that a call is of."""
    return getattr(call.node.target, "_opname", "")


def layout(node: Node) -> Any:
    """What two arrays have in common that lie in memory alike."""
    a = node.meta["val"]._array
    return a.shape, a.strides, a.dtype


def operands(call: Call) -> tuple:
    """What a call computes its result of: without the array that it writes to."""
    return call.args if call.writes is None else call.args[1:]


def other(call: Call, node: Node) -> Node | None:
    """What a sum adds to a node; None where that is not an array that lies in memory alike."""
    rest = [n for n in operands(call) if n is not node]
    if len(operands(call)) != 2 or len(rest) != 1 or not isinstance(rest[0], Node):
        return None
    return rest[0] if layout(rest[0]) == layout(node) else None


class Neighbours:
    """The calls of a program, and which of them read each node."""

    def __init__(self, calls: list[Call], outputs: set[Node], root: Callable[[Node], Node]) -> None:
        self.calls, self.outputs, self.root = [*calls], outputs, root
        self.gone: set[int] = set()  # the numbers of calls that are a part of others
        self.at = {c.node: k for k, c in enumerate(calls) if c.writes is None}
        self.readers: dict[Node, list[int]] = {}
        for k, call in enumerate(calls):
            for n in dict.fromkeys((*call.reads(), *call.written)):
                self.readers.setdefault(n, []).append(k)

    def next(self, node: Node, last: int, name: str) -> int | None:
        """The number of the call behind `last` that makes `name` of a node, which nobody else sees as it was."""
        readers = [k for k in self.readers.get(node, ()) if k > last]
        call = self.calls[readers[0]] if readers else None
        if call is None or call.kwargs:
            return None
        alone = len(readers) == 1 and node not in self.outputs
        if alone and call.writes is None and name_of(call) == name:
            return readers[0]
        return readers[0] if call.writes is node and name_of(call) == name + "_" else None

    def stays(self, node: Node, first: int, end: int) -> bool:
        """Whether no call from the number `first` to `end` writes to the memory of a node."""
        memory = self.root(node)
        return not any(self.root(n) is memory for c in self.calls[first:end] for n in c.written)

    def forward(self, k: int, norm: Call) -> None:
        """Join the call number k, a batch norm, with the sum and the rectifier that follow it."""
        node, last, added = norm.node, k, None
        parts: list[int] = []
        if len(norm.args) != 7 or not norm.args[TRAINING] or dtype_of(node) not in FULL:
            return
        if (at := self.next(node, last, "add")) is not None:
            added = other(self.calls[at], node)
            if added is None or self.at.get(added, -1) > k or not self.stays(added, k, at):
                return
            last, parts = at, [at]
            node = self.calls[at].writes or self.calls[at].node
        at = self.next(node, last, "relu")
        if at is None or operands(self.calls[at]) != (node,):
            return
        node = self.calls[at].writes or self.calls[at].node
        if layout(node) != layout(norm.node):
            return
        made = Call(node, batch_norm_relu, (*norm.args, added), pure=True)
        made.fills = norm.fills
        self.calls[k] = made
        self.at[node] = k
        self.gone.update((*parts, at))

    def backward(self, k: int, back: Call) -> None:
        """Join the call number k, the gradients of a batch norm, with those of the rectifier before it."""
        if back.args[0].__class__ is not tuple:  # it is no kernel
            return
        g, input, *rest = back.args[0]
        at = self.at.get(g)
        if at is None or name_of(self.calls[at]) != "relu_backward":
            return
        if self.readers[g] != [k] or g in self.outputs:
            return
        given = self.calls[at].args
        if len(given) != 3 or given[2] != 0 or not all(isinstance(n, Node) for n in given[:2]):
            return
        if dtype_of(g) not in FULL:
            return
        whole = layout(input)[::2]
        if any(layout(n)[::2] != whole or not self.stays(n, at, k) for n in given[:2]):
            return
        values = (given[0], input, *rest, given[1])
        self.calls[k] = Call(back.node, batch_norm_relu_backward, values, pure=True)
        self.gone.add(at)


def batch_norm_relu(*args: Any) -> Any:
    """What a batch norm gives, plus an array where there is one, rectified."""
    from rushlight.ops.nn.batch_normalize import rectified_batch

    return rectified_batch(xp, *args)


def batch_norm_relu_backward(*args: Any) -> Any:
    """The gradients of a batch norm for those of its rectified result, which is the last argument."""
    from rushlight.ops.nn.batch_normalize import rectified_batch_gradients

    return rectified_batch_gradients(xp, *args)
