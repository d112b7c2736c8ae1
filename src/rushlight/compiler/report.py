"""What became of a compiled function: its graphs, breaks and guards, and what runs, with times and memory."""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

import rushlight
from rushlight.compiler.lowering import lowering
from rushlight.compiler.lowering.fusion import Loop
from rushlight.compiler.lowering.kernel_calls import arranged
from rushlight.compiler.lowering.lowered_steps import named_by
from rushlight.fx import Graph, Node
from rushlight.fx.names import target_name
from rushlight.viz.memory_plan import Block, memory
from rushlight.viz.svg import Picture

if TYPE_CHECKING:
    from rushlight.compiler.compiled import Compiled
    from rushlight.compiler.program import Program

ROUNDS = 5


class KernelTime(NamedTuple):
    """A step of a program: the operators that it computes, in one kernel if they are several; the innermost line of
    the user's; seconds; the text of a fused loop in the kernel language, or ""."""

    operators: tuple[str, ...]
    line: str
    seconds: float
    source: str


class Explanation:
    """What became of a function: counts, the reasons for breaks, the guards and the graphs of its programs.

    `kernels(k)` measures the steps of graph k, `memory(k)` draws its memory, `report()` is all as a text.
    """

    def __init__(self, compiled: Compiled) -> None:
        programs = with_rests(compiled)
        self.graphs = [g for p in programs for g in p.graphs]
        self.graph_count = len(self.graphs)
        self.break_reasons = [*compiled.reasons]
        self.decisions = [*dict.fromkeys(d for p in programs for d in p.decisions)]
        self.graph_break_count = len(self.break_reasons)
        self.ops_per_graph = [
            [n.target for n in g.nodes if n.op == "call_function"] for g in self.graphs
        ]
        self.op_count = sum(map(len, self.ops_per_graph))
        self.out_guards = [c for p in programs for c in p.guards.conditions]
        self.sources = [p.source for p in programs]

    def __str__(self) -> str:
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}"]
        lines += [f"Op Count: {self.op_count}", "Break Reasons:", *self.break_reasons]
        lines += ["Decisions:", *self.decisions]
        return "\n".join([*lines, "Guards:", *self.out_guards, *self.sources])

    def kernels(self, graph: int = 0) -> list[KernelTime]:
        """The steps of a graph in their order, each with its time, on inputs of other numbers."""
        return timed(ran(self.graphs[graph]))

    def memory(self, graph: int = 0) -> Picture:
        """The memory that a graph takes besides its inputs, if all of it lies in one block."""
        program = ran(self.graphs[graph])
        return memory(blocks(program), len(program.steps))

    def report(self) -> str:
        """All of it as a text: what stands in `str`, and the kernels of each graph."""
        lines = [str(self)]
        for k in range(self.graph_count):
            found = self.kernels(k)
            total = sum(each.seconds for each in found)
            lines.append(f"Graph {k}: {len(found)} steps, {1e6 * total:.1f} us")
            for each in found:
                what = " ".join(each.operators)
                lines.append(f"{1e6 * each.seconds:10.1f} us  {what}  {each.line}".rstrip())
                lines += ["    " + line for line in each.source.splitlines()]
        return "\n".join(lines)


def with_rests(compiled: Compiled) -> list[Program]:
    """The programs of a function, each before those of what is left of it behind a split."""
    found = []
    for _, p in compiled.programs:
        found.append(p)
        if p.rest is not None:
            found += with_rests(p.rest)
    return found


def ran(graph: Graph) -> lowering.Program:
    """The program of a graph, which has run once: on inputs of the layouts that the graph was made for."""
    program = lowering.build(graph)
    with rushlight.random.fork_rng():
        program.on_arrays([*map(example, program.inputs)])
    return program


def example(node: Node) -> Any:
    """An array for an input: small numbers, 0 where they are whole, which is an index of everything."""
    t = node.meta["val"]
    made = rushlight.empty_strided(t.shape, t.stride(), dtype=t.dtype)
    if made.is_floating_point():
        made.fill_(0.01)
    else:
        made.zero_()
    return made._array


def timed(program: lowering.Program) -> list[KernelTime]:
    """The steps of a program that has run, with their times: the best of some rounds."""
    run: Any = program._run
    text, *lines = program.source.splitlines()
    timed_lines = []
    for k, line in enumerate(lines[:-1]):
        indent = len(line) - len(line.lstrip()) + 4 * line.endswith(":")
        timed_lines += [line, f"{' ' * indent}ticks[{k + 1}] = clock()"]
    space = {**run.__globals__, "clock": perf_counter}
    space["carry_out"] = lambda *_: None  # so that each step is a line
    exec("\n".join([text, *timed_lines, lines[-1]]), space)
    arrays = [*map(example, program.inputs)]
    best = np.full(len(lines) - 1, np.inf)
    with rushlight.random.fork_rng(), np.errstate(all="ignore"):
        for _ in range(ROUNDS):
            space["ticks"] = ticks = np.zeros(len(lines))
            ticks[0] = perf_counter()
            space["program"]([*arrays])
            ticks = np.maximum.accumulate(ticks)  # lines that do not run take no time
            best = np.minimum(best, np.diff(ticks))
    times: dict[Node, float] = {}
    for node, seconds in zip(program.nodes, best.tolist(), strict=False):
        if node is not None:
            times[node] = times.get(node, 0.0) + seconds
    return [described(step, times) for step in program.steps if last_of(step) in times]


def last_of(step: Any) -> Node:
    """The node that a step computes last."""
    return step.calls[-1].node if isinstance(step, Loop) else step.node


def described(step: Any, times: dict[Node, float]) -> KernelTime:
    calls = step.calls if isinstance(step, Loop) else [step]
    names = tuple(
        getattr(c.node.target, "_opname", "") or target_name(c.node.target) for c in calls
    )
    trace = (last_of(step).stack_trace or "").splitlines()
    line = next((t for t in reversed(trace) if t.startswith("File ")), "")
    source = step.chain.text if isinstance(step, Loop) else ""
    return KernelTime(names, line, times[last_of(step)], source)


def blocks(program: lowering.Program) -> list[Block]:
    """The memory of what a program that has run makes, each with a place in one block."""
    found: dict[Node, Block] = {}
    for k, step in enumerate(program.steps):
        for n in named_by(step):
            root = program.root(n)
            layout = program.layouts.get(root)
            if root in found:
                found[root].last = k
            elif layout is not None and root not in program.inputs:
                size = int(np.prod(layout.shape)) * layout.dtype.itemsize
                found[root] = Block(root.name, size, k, k)
    for n in program.outputs:
        root = program.root(n) if isinstance(n, Node) else None
        if root in found:
            found[root].last = len(program.steps) - 1
    arranged(found.values())
    return [*found.values()]
