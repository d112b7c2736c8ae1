"""The node of a program's results in the graph of autograd."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.autograd.graph import Node, raise_freed, raise_stale, version_of
from rushlight.autograd.state import unreached
from rushlight.compiler.partial_backward import Backward
from rushlight.core.tensor import Tensor, _wrap


class CompiledBackward(Node):
    """The node of a program's results: its backward pass is a graph, captured together with the forward."""

    __slots__ = ("over", "versions")
    _joins = True
    backward: Backward
    places: list[int]  # of what its graph takes, among what was saved and is given
    likes: tuple  # (shape, dtype, strides) of each gradient when the graph was captured
    reached: list[set[int]]  # the results that each source of a gradient is reached from
    # What the history of each result, as it is written, frees: numbers of nodes; and what was freed so far.
    saving: list[frozenset[int]]
    over: frozenset[int]
    # For each of `versions`, the placeholders of the graph that its memory is in.
    watching: list[set[int]]

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        if record:
            raise RuntimeError(
                "torch.compile with aot_autograd does not currently support double backward: call the function "
                "without torch.compile"
            )
        many = g if self._n_outputs > 1 else [g]
        absent = tuple([k for k, x in enumerate(many) if x is None])
        frees = frozenset().union(
            *[s for s, x in zip(self.saving, many, strict=True) if x is not None]
        )
        if frees & self.over:
            raise_freed(self)
        program, read = self.backward.without(absent)
        for (t, n), places in zip(self.versions, self.watching, strict=True):
            if version_of(t).n != n and not places.isdisjoint(read):
                raise_stale(self, "input", t.shape, t.dtype, version_of(t).n, n)
        given = [
            x._array
            if x is not None and x._array.strides == like[2] and x._array.__class__ is np.ndarray
            else in_layout(x, *like)
            for x, like in zip(many, self.likes, strict=True)
        ]
        values = [*self.saved, *given]
        values = [values[k] for k in self.places]
        if not keep:
            self.over |= frees
            if all(s & self.over for s in self.saving):
                self.saved = None
        del given  # the program lets go of each array that it has read
        gradients = program(values)
        if absent:  # what is reached from no result with a gradient has none
            there = [bool(results - {*absent}) for results in self.reached]
            gradients = tuple([a if t else None for a, t in zip(gradients, there, strict=True)])
            unreached(e for e, t in zip(edges, there, strict=True) if not t)
        return tuple([None if a is None else _wrap(a) for a in gradients])


def in_layout(g: Tensor | None, shape: tuple, dtype: np.dtype, strides: tuple) -> np.ndarray:
    """A gradient in the memory layout that a graph was captured for; zeros for None."""
    a = xp.empty_strided(shape, dtype, tuple([s // dtype.itemsize for s in strides]))
    if g is not None and g._array.__class__ is not np.ndarray:
        raise RuntimeError(
            "torch.compile: the backward pass of a compiled function does not run inside of a transform or on another "
            "device: call the function without torch.compile"
        )
    a[...] = 0 if g is None else g._array
    return a


def begin(kind: type, edges: list, saved: list, versions: list) -> CompiledBackward:
    """The node of the results of one run."""
    node = object.__new__(kind)
    node._edges, node.saved, node.versions = tuple(edges), saved, versions
    node.hooks = node.unbroadcast_to = None
    node.over = frozenset()
    return node
