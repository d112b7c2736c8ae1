"""The steps of a lowered program: calls, loops, and views at known places of arrays of known layouts."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._codegen import view_entry
from rushlight._codegen.view_entry import DIMS
from rushlight.compiler.lowering.calls import Call, nodes_in
from rushlight.compiler.lowering.fusion import Groups, Loop, target

if TYPE_CHECKING:
    from rushlight.compiler.lowering.lowering import Program
    from rushlight.fx import Node


class View:
    """A view that has a known place in an array of a known layout."""

    pure, writes, written = True, None, ()

    def __init__(self, program: Program, node: Node) -> None:
        self.program, self.node = program, node
        made = program.layouts[node]
        self.base = made.base
        base = program.layouts[self.base]
        told = [id(base.dtype), len(base.shape), *base.shape, *base.strides]
        told += [len(made.shape), made.offset, *made.shape, *made.strides]
        self.told = np.array(told, np.int64)

    def reads(self) -> list[Node]:
        """The array that it is a view of."""
        return [self.base]

    def run(self, a: np.ndarray) -> np.ndarray:
        """The view of an array of another layout: call by call."""
        return self.program.value_by_views({self.base: a}, self.node)


def relaid(a: np.ndarray, told: np.ndarray, otherwise: Callable) -> np.ndarray:
    """A view of an array: the one that is told, or what `otherwise` gives for an array of another layout."""
    return otherwise(a)


@cache
def relaid_natively() -> Callable:
    return view_entry.view(view_entry.relaid)(relaid)


def named_by(step: Any) -> list[Node]:
    """The nodes that stand in the lines of a step."""
    if not isinstance(step, (Call, View)):
        return step.arrays
    return [*step.reads()] if step.writes is not None else [step.node, *step.reads()]


def viewing(program: Program, step: Call | Loop) -> Call | Loop | View:
    """A step, as a view where it is one of an array in the program."""
    if isinstance(step, Loop) or not step.view or step.node not in program.layouts:
        return step
    made = program.layouts[step.node]
    base = program.layouts[made.base]
    whole = made.base is not step.node and made.dtype is base.dtype and prod(made.shape)
    return View(program, step.node) if whole and len(made.shape) <= DIMS else step


def fused_steps(program: Program, alone: float) -> list[Call | Loop]:
    """The calls of a program, groups of them as loops; elementwise calls that are a group by themselves, too, if their
    results have fewer bytes than `alone`."""
    found = Groups(program)
    groups = found.ordered()
    of = {c.node: k for k, group in enumerate(groups) for c in group}
    returned = set(map(program.root, nodes_in(program.outputs)))
    outside: list[set[Node]] = [set() for _ in groups]
    for k, group in enumerate(groups):
        for call in group:
            for n in call.reads():
                root = program.root(n)
                if root in of and of[root] != k:
                    outside[of[root]].add(root)
    return [
        Loop(program, group, outside[k] | returned)
        if len(group) > 1
        or (group[0].node in found.elementwise and bytes_of(program, group[0]) < alone)
        else group[0]
        for k, group in enumerate(groups)
    ]


def bytes_of(program: Program, call: Call) -> int:
    """How many bytes a call gives."""
    layout = program.layouts[target(call)]
    return prod(layout.shape) * layout.dtype.itemsize


def needed(program: Program, steps: list) -> list:
    """The steps that somebody reads, or that write: views that loops fold are not."""
    read = set(nodes_in(program.outputs))
    found: list[Call | Loop | View] = []
    for step in reversed(steps):
        if isinstance(step, Loop):
            read.update(step.arrays)
        elif step.pure and not step.written and step.node not in read:
            continue
        else:
            read.update(step.reads())
        found.append(step)
    return found[::-1]
