"""Programs as straight-line Python: one line for each kernel."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._codegen import python_source
from rushlight._codegen.kernels.call_list import runner
from rushlight._codegen.kernels.fused import fused
from rushlight.compiler.lowering.call_lists import CallList, with_call_lists
from rushlight.compiler.lowering.calls import MAKERS, Call, Cast, nodes_in
from rushlight.compiler.lowering.fusion import Loop
from rushlight.compiler.lowering.lowered_steps import (
    View,
    fused_steps,
    named_by,
    needed,
    relaid_natively,
    viewing,
)
from rushlight.compiler.lowering.lowering import LARGE
from rushlight.core.tensor import Tensor
from rushlight.fx import Node

if TYPE_CHECKING:
    from rushlight.compiler.lowering.lowering import Layout, Program

_numbers = count(1)
LITERALS = frozenset((int, bool, str, type(None)))


class Writer:
    """The text of one program and the globals that it reads."""

    def __init__(self) -> None:
        self.space: dict[str, Any] = {
            "__name__": "rushlight.compiler.program", "cast": xp.cast, "asarray": xp.asarray,
            "empty": xp.empty, "ndarray": np.ndarray, "uint8": np.dtype(np.uint8), "zeros": xp.zeros, "fused": fused.compiled(),
            "relaid": relaid_natively(), "carry_out": runner(), "given": None,  # the name of what it takes
        }  # fmt: skip
        self.loops = 0
        self.lines: list[str] = []
        self.nodes: list[Node | None] = []  # of each line: the node that it computes last

    def constant(self, value: Any, name: str = "c") -> str:
        """A name for a value."""
        name = re.sub(r"\W", "_", name)
        while name in self.space and self.space[name] is not value:
            name += "_"
        self.space[name] = value
        return name

    def text(self, value: Any) -> str:
        """An argument."""
        if isinstance(value, Node):
            return "v_" + value.name
        if isinstance(value, Cast):
            return f"cast({self.text(value.node)}, {self.constant(value.dtype, value.dtype.name)})"
        if value.__class__ is tuple:
            return f"({''.join(self.text(v) + ', ' for v in value)})"
        if isinstance(value, list):
            return f"[{', '.join(map(self.text, value))}]"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{k!r}: {self.text(v)}" for k, v in value.items()) + "}"
        if value.__class__ in LITERALS or value.__class__ is float and abs(value) < 1e300:
            return repr(value)
        return self.constant(value)

    def call(self, call: Call, scalar: bool) -> None:
        """The line of a call; `scalar`: the kernel may give a NumPy number."""
        function = self.constant(call.function, getattr(call.function, "__name__", "call"))
        given = [self.text(a) for a in call.args]
        given += [f"{k}={self.text(v)}" for k, v in call.kwargs.items()]
        text = f"{function}({', '.join(given)})"
        if scalar:
            text = f"asarray({text})"
        if call.writes is None:
            text = f"{self.text(call.node)} = {text}"
        self.lines.append(text)

    def view(self, view: View) -> None:
        """The line of a view."""
        told, otherwise = self.constant(view.told, "layouts"), self.constant(view.run, "views")
        self.lines.append(
            f"{self.text(view.node)} = relaid({self.text(view.base)}, {told}, {otherwise})"
        )

    def step(self, step: Call | Loop | View, values: dict[Node, Any]) -> None:
        """The lines of a step."""
        if isinstance(step, Loop):
            self.loop(step)
        elif isinstance(step, View):
            self.view(step)
        else:
            a = values[step.node]
            self.call(step, a.__class__ is np.ndarray and not a.ndim and step.writes is None)
        self.ends(step.calls[-1].node if isinstance(step, Loop) else step.node)

    def call_list(self, found: CallList, values: dict[Node, Any]) -> None:
        """The lines of steps that are one call, and those of each step for where it does nothing."""
        for node in found.fresh:
            self.lines.append(f"{self.text(node)} = {self.empty(found.program.layouts[node])}")
        table = self.constant(found.table, "calls")
        self.constant(found.held, "held")
        given = "".join(f", {self.text(n)}" for n in (*found.reads, *found.fresh))
        if found.size:  # the arena, which is gone when the call ends
            given += f", empty({found.size}, uint8)"
        self.lines.append(f"if carry_out({table}{given}) is None:")
        self.ends(None)
        for steps in (found.steps, found.views):
            if steps is found.views and steps:
                self.lines.append("else:")
                self.ends(None)
            first = len(self.lines)
            for step in steps:
                self.step(step, values)
            self.lines[first:] = ["    " + line for line in self.lines[first:]]

    def loop(self, loop: Loop) -> None:
        """The lines of a fused group."""
        n = self.loops
        self.loops += 1
        for node in loop.fresh:
            layout = loop.program.layouts[node]
            self.lines.append(f"{self.text(node)} = {self.empty(layout)}")
        arrays = ", ".join(map(self.text, loop.arrays))
        names = [
            self.constant(v, f"{what}{n}")
            for what, v in (
                ("loop", loop.address), ("plan", loop.plan), ("numbers", loop.numbers),
                ("one_by_one", loop.one_by_one),
            )
        ]  # fmt: skip
        self.lines.append("refused = zeros(1, int)")  # of this call alone, as threads may share it
        self.lines.append(
            f"fused({names[0]}, [{arrays}], ndarray, {names[1]}, {names[2]}, refused)"
        )
        given = ", ".join(map(self.text, loop.reads()))
        made = f"[{', '.join(map(self.text, loop.fresh))}] = " if loop.fresh else ""
        self.lines.append(f"if refused[0]: {made}{names[3]}({given})")

    def empty(self, layout: Layout) -> str:
        """The text that makes an array of a layout that is dense."""
        order = sorted(range(len(layout.shape)), key=lambda d: (-layout.strides[d], d))
        dtype = self.constant(layout.dtype, layout.dtype.name)
        made = f"empty({tuple(layout.shape[d] for d in order)}, {dtype})"
        if order != sorted(order):
            made += f".transpose({tuple(order.index(d) for d in range(len(order)))})"
        return made

    def ends(self, node: Node | None) -> None:
        """Note that the lines since the last call of this compute a node."""
        self.nodes += [node] * (len(self.lines) - len(self.nodes))

    def function(self) -> tuple[str, Callable]:
        """(the text, the function)."""
        self.ends(None)
        text = "def program(given):\n" + "".join(f"    {x}\n" for x in self.lines)
        name = f"<program {next(_numbers)} of torch.compile>"
        python_source.run(text, name, self.space)
        return text, self.space["program"]


def write(
    program: Program, values: dict[Node, Any]
) -> tuple[str, list[Loop], Callable[..., tuple]]:
    """The text of a program, its loops, and the function that it is. `values`: what the nodes gave in the first run."""
    writer = Writer()
    writer.lines.append(f"[{', '.join(map(writer.text, program.inputs))}] = given; given.clear()")
    for node, t in program.constants.items():
        name = writer.constant(t, "t_" + node.name)
        tail = "._array" if isinstance(t, Tensor) else ""
        writer.lines.append(f"{writer.text(node)} = {name}{tail}")
    steps = needed(program, [viewing(program, step) for step in fused_steps(program, LARGE)])
    kept = set(nodes_in(program.outputs))
    returned = set(map(program.root, kept))
    loops = [step for step in steps if isinstance(step, Loop)]
    for loop in loops:
        loop.compile()
    writer.ends(None)
    program.steps, made = steps, []
    known: dict[Node, Any] = {}
    for step in steps:
        if isinstance(step, Loop) or not fixed(program, step, returned, known):
            made.append(step)
            continue
        if made_of_sizes(step):
            known[step.node] = values[step.node]
        elif isinstance(step, View):  # the view of the first run may be gone
            known[step.node] = step.run(known[step.base])
        else:
            known[step.node] = step.run(known.__getitem__)
        writer.space[writer.text(step.node)] = known[step.node]
    made = with_call_lists(program, made, values)
    last = {n: k for k, step in enumerate(made) for n in named_by(step)}
    for k, step in enumerate(made):
        if isinstance(step, CallList):
            writer.call_list(step, values)
        else:
            writer.step(step, values)
        local = {n for n in named_by(step) if writer.text(n) not in writer.space}
        done = sorted({n.name for n in local if last[n] == k and n not in kept})
        if done:
            writer.lines.append("del " + ", ".join(f"v_{name}" for name in done))
    writer.lines.append(f"return {writer.text(program.outputs)}")
    text, function = writer.function()
    program.nodes = writer.nodes
    return text, loops, function


def made_of_sizes(step: Call | View) -> bool:
    """Whether a step makes an array of shapes and numbers alone."""
    return getattr(step.node.target, "_opname", "") in MAKERS


def fixed(program: Program, step: Call | View, returned: set[Node], known: dict) -> bool:
    """Whether a step gives the same elements every time, those of shapes and numbers alone or a view of what is `known`,
    and nobody writes to them or takes them out."""
    root = program.root(step.node)
    alone = made_of_sizes(step) or root in known and all(n in known for n in step.reads())
    return alone and step.pure and root not in program.written and root not in returned
