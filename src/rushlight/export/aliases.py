"""Which node a tensor stands for while a program is exported, also after writes to it or to a view of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import rushlight
from rushlight.export.errors import refuse
from rushlight.utils._pytree import tree_map

if TYPE_CHECKING:
    from rushlight.core.tensor import Tensor
    from rushlight.export.recorder import Recorder
    from rushlight.fx.node import Node


def overlap(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors may share memory."""
    return a.numel() > 0 and b.numel() > 0 and np.may_share_memory(a._array, b._array)


class Alias:
    """A tensor of the program. A view knows its source and the call that makes it of that.

    `call`: (target, arguments with aliases for tensors, keyword arguments, number among several results or None).
    `constant`: it depends on no input. `seen`: the writes to its memory that `node` knows of.
    """

    def __init__(
        self, node: Node, source: Alias | None = None, call: Any = None, source_shape: Any = None,
        constant: bool = False,
    ) -> None:  # fmt: skip
        self.node, self.source, self.call, self.source_shape = node, source, call, source_shape
        self.constant, self.writes = constant, 0
        self.seen = self.root.writes
        self.unsized = False  # its sizes depend on values

    @property
    def root(self) -> Alias:
        """The tensor that owns the memory."""
        found = self
        while found.source is not None:
            found = found.source
        return found

    def is_constant(self) -> bool:
        """Whether no input of the program has a part in the value."""
        return self.constant and self.root.constant

    def read(self, recorder: Recorder) -> Node:
        """The node of the tensor as it is now."""
        if self.source is not None and self.seen != self.root.writes:
            if recorder.graph is not recorder.whole:  # a branch: its nodes are not of the program
                return self._replayed(recorder)
            self.node = self._replayed(recorder)
            self.seen = self.root.writes
        return self.node

    def _replayed(self, recorder: Recorder) -> Node:
        target, args, kwargs, nr = self.call
        args, kwargs = tree_map(recorder.node_of, (args, kwargs))
        node = recorder.emit(target, *args, **kwargs)
        return node if nr is None else recorder.emit(recorder.getitem, node, nr)

    def write(self, recorder: Recorder, node: Node, constant: bool) -> None:
        """The tensor has another value from here on: that of `node`."""
        root, at, value = self.root, self, node
        if root.node.graph is not recorder.graph:
            refuse("cond: a branch writes to a tensor from outside, which cannot be exported")
        while at.source is not None:
            value = _put_back(recorder, at, value)
            at = at.source
        root.node, root.writes = value, root.writes + 1
        root.constant = root.constant and constant
        root.seen = root.writes
        self.node, self.seen = node, root.writes


_RESHAPED = frozenset(
    "view reshape flatten squeeze unsqueeze alias detach contiguous _unsafe_view unflatten view_as ravel data "
    "requires_grad_ to squeeze_ unsqueeze_".split()
)


def _put_back(recorder: Recorder, view: Alias, value: Node) -> Node:
    """The source of a view after the view was overwritten with `value`."""
    aten = rushlight.ops.aten
    target, args, kwargs, nr = view.call
    name = getattr(target, "overloadpacket", target).__name__
    source = view.source
    if name in _RESHAPED:
        return recorder.emit(aten.reshape.default, value, list(view.source_shape))
    if name in ("t", "mT", "adjoint", "numpy_T"):
        return (
            recorder.emit(aten.transpose.int, value, -1, -2)
            if len(view.source_shape) > 1
            else value
        )
    if name in ("transpose", "swapaxes", "swapdims"):
        return recorder.emit(aten.transpose.int, value, *args[1:], **kwargs)
    if name == "permute":
        dims = [d % len(view.source_shape) for d in args[1]]
        return recorder.emit(aten.permute.default, value, [dims.index(k) for k in range(len(dims))])
    old = source.read(recorder)
    if name == "select":
        return recorder.emit(aten.select_scatter.default, old, value, *args[1:])
    if name == "slice":
        return recorder.emit(aten.slice_scatter.default, old, value, *args[1:])
    if name == "unbind":
        dim = args[1] if len(args) > 1 else 0
        return recorder.emit(aten.select_scatter.default, old, value, dim, nr)
    if name == "split" and isinstance(args[1], int):
        dim = args[2] if len(args) > 2 else 0
        start = nr * args[1]
        end = min(start + args[1], view.source_shape[dim])
        return recorder.emit(aten.slice_scatter.default, old, value, dim, start, end, 1)
    return refuse(f"a write to a view that {name} made cannot be exported")
