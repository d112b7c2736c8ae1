"""Programs as straight-line Python: one line for each kernel."""

from __future__ import annotations

import linecache
import re
from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.compiler.calls import Call, Cast, nodes_in
from rushlight.core.tensor import Tensor
from rushlight.fx import Node

if TYPE_CHECKING:
    from rushlight.compiler.lowering import Program

_numbers = count(1)
LITERALS = frozenset((int, bool, str, type(None)))


class Writer:
    """The text of one program and the globals that it reads."""

    def __init__(self) -> None:
        self.space: dict[str, Any] = {
            "__name__": "rushlight.compiler.program", "cast": xp.cast, "asarray": xp.asarray,
        }  # fmt: skip
        self.lines: list[str] = []

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
        if isinstance(value, tuple):
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
        self.lines.append(f"{self.text(call.node)} = {text}")

    def function(self, inputs: list[str]) -> tuple[str, Callable]:
        """(the text, the function)."""
        text = f"def program({', '.join(inputs)}):\n" + "".join(f"    {x}\n" for x in self.lines)
        name = f"<program {next(_numbers)} of torch.compile>"
        linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec"), self.space)
        return text, self.space["program"]


def write(program: Program, values: dict[Node, Any]) -> tuple[str, Callable[..., tuple]]:
    """The text of a program and the function that it defines. `values`: what the nodes gave in the first run."""
    writer = Writer()
    for node, t in program.constants.items():
        name = writer.constant(t, "t_" + node.name)
        tail = "._array" if isinstance(t, Tensor) else ""
        writer.lines.append(f"{writer.text(node)} = {name}{tail}")
    last: dict[Node, int] = {}
    for k, step in enumerate(program.calls):
        for n in (step.node, *step.reads()):
            last[n] = k
    kept = set(nodes_in(program.outputs))
    for k, step in enumerate(program.calls):
        a = values[step.node]
        writer.call(step, a.__class__ is np.ndarray and not a.ndim)
        done = [n for n in {step.node, *step.reads()} if last[n] == k and n not in kept]
        if done:
            writer.lines.append(
                f"del {', '.join(map(writer.text, sorted(done, key=lambda n: n.name)))}"
            )
    writer.lines.append(f"return {writer.text(program.outputs)}")
    text, function = writer.function([writer.text(n) for n in program.inputs])
    return text, function
