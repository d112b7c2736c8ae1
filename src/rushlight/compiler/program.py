"""A captured call as a function: graphs, and the steps between them, as straight-line Python."""

from __future__ import annotations

import contextlib
import itertools
import re
from typing import TYPE_CHECKING, Any

import numpy as np

import rushlight
from rushlight._backends import complex32
from rushlight.autograd.graph import Output, node_and_output, version_of
from rushlight.autograd.state import thread
from rushlight.autograd.views import DEFAULT, View, edge_of
from rushlight.compiler.backward_node import CompiledBackward, begin
from rushlight.compiler.capture.consumed import ended_at, kind_of, saving_nodes
from rushlight.compiler.capture.guards import Apart, derivable, evaluate, sharing
from rushlight.compiler.capture.recording import Segment
from rushlight.compiler.capture.steps import Continuation, Decision, Step, Stop
from rushlight.compiler.capture.templates import (
    Constant,
    Container,
    Made,
    Outside,
    Viewed,
    instance,
    made_in,
    template,
)
from rushlight.compiler.lowering import lowering
from rushlight.compiler.partial_backward import Backward
from rushlight.compiler.results import MAKERS
from rushlight.compiler.rollback import TakesBack
from rushlight.core.tensor import INFERENCE, Tensor, _wrap
from rushlight.fx import Graph
from rushlight.nn.module import Module

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rushlight.compiler.capture.capture import Capture
    from rushlight.compiler.capture.recording import Recorder
    from rushlight.compiler.splits import Rest


VARIABLE = re.compile(r"\bv\d+\b")  # an array that a graph gave


class Program:
    """What a capture became: `holds(args, kwargs)` says whether it is right for a call, `run(args, kwargs)` is it."""

    def __init__(
        self,
        capture: Capture,
        result: Any,
        backend: Callable | None = None,
        rest: Rest | None = None,
    ) -> None:
        self.backend, self.rest = backend, rest
        self.in_inference = capture.state[1]
        self.guards = capture.guards
        self.names = capture.guards.names
        self.unchanged = 1 << 62  # the number of the first line that may change something
        # Tensors and containers that were made already, by the id of the original.
        self.made: dict[int, str] = {}
        self.counted: dict[int, str] = {}  # results by their version counters
        self.segments: list[Segment] = []
        recorder = capture.recorder
        self.ended: dict[int, str | None] = {}  # of tensors, where their history is over
        result = template(recorder, result)
        recorder.close()
        last = last_changes(recorder.steps)
        given_back = [result, *[v for s in last for v in (*s.args, *s.kwargs.values())]]
        self.results: list[Made] = []  # those with a history
        self.find_results(recorder, given_back)
        backward = self.differentiate(recorder) if self.results else None
        self.finish(recorder)
        self.lines: list[str] = [*recorder.reads]
        self.add_steps(recorder, recorder.steps[: len(recorder.steps) - len(last)])
        if backward is not None:
            self.add_backward(backward)
        self.unchanged = min(self.unchanged, len(self.lines))
        for step in last:
            self.add_step(step)
        returned = self.expression(result)
        if backward is not None:
            self.watch_results(given_back)
        self.add_return(capture, returned)
        self.guard_memory(recorder)
        self.names |= MAKERS
        body = "\n".join("    " + line for line in letting_go(self.lines))
        self.source = f"def run(args, kwargs):\n{body}\n"
        self.guard_source = self.guards.source()
        self.run: Callable[[tuple, dict], Any] = evaluate(self.source, "run", self.names)
        self.holds: Callable[[tuple, dict], bool] = evaluate(self.guard_source, "holds", self.names)
        self.forget(recorder)

    def forget(self, recorder: Recorder) -> None:
        """Let go of the arrays and tensors of the call that was captured."""
        self.graphs = [s.graph for s in self.segments]
        self.decisions = [d.reason for d in recorder.steps if isinstance(d, Decision)]
        self.has_backward = bool(self.results)
        for v in recorder.values:
            v.tensor = v.edge = None
        for held in (recorder.capture.keep, recorder.values, recorder.steps):
            held.clear()  # type: ignore[attr-defined]
        self.results, self.segments, self.made, self.ended = [], [], {}, {}
        self.sources = self.given = self.saving = self.watching = []
        self.saved = {}

    def guard_memory(self, recorder: Recorder) -> None:
        """Guard that arrays which are written to share no memory with arguments, and that containers which are changed
        are no other ones of the arguments."""
        found = [v for v in recorder.values if v.place]
        given = [v for v in found if v.expression != v.place]
        c = recorder.capture
        for o in {id(o): o for o in c.written.values() if id(o) in c.outside}.values():
            changed = c.outside[id(o)][1]
            for place, other in c.arguments.items():
                if other is not o:
                    self.guards.add(f"{place} is not {changed}")
            if changed not in self.names:  # an argument, which may be what was there before
                known = [v for v, name in c.outside.values() if name in self.names]
                ids = self.guards.name(frozenset([id(v) for v in known if type(v) is type(o)]))
                self.guards.add(f"id({changed}) not in {ids}")
        written = {v for s in self.segments for v in s.written}
        written |= {s.source for s in recorder.steps if isinstance(s, Step) and s.kind == "writes"}
        constants = [v for v in found if v not in given and (v in written or written & {*given})]
        if constants and given:
            self.names["apart"] = Apart()
            before, after = (
                "".join(f"{v.place}._array, " for v in values) for values in (constants, given)
            )
            self.guards.add(f"apart(({before}), ({after}))")
        for v in given:
            for other in given:
                if v in written and v is not other:
                    self.names["sharing"] = sharing
                    self.guards.add(f"not sharing({v.place}._array, {other.place}._array)")

    def can_repeat(self, e: Exception) -> bool:
        """Whether a call whose run raised can be made once more: nothing was changed before the line that raised, or it was
        taken back, as the function may handle what is raised there."""
        at = e.__traceback__
        while at is not None and at.tb_frame.f_code is not self.run.__code__:  # type: ignore[attr-defined]  # a function
            at = at.tb_next
        line = 1 << 62 if at is None else at.tb_lineno - 2  # the first line is `def`
        handled, saved = self.handled
        if self.unchanged <= line < handled:
            done = at.tb_frame.f_locals  # type: ignore[union-attr]  # `line` says that it is there
            for b in saved:
                done.get(b, int)()
        return line < max(self.unchanged, handled)

    def summary(self) -> str:
        """A line on what the program consists of."""
        nodes = sum(n.op == "call_function" for g in self.graphs for n in g.nodes)
        what = f"{len(self.graphs)} graphs of {nodes} operators"
        if self.has_backward:
            what += ", a backward pass"
        if self.decisions:
            what += f", {len(self.decisions)} decisions"
        return f"{what}, {len(self.guards.conditions)} guards"

    def find_results(self, recorder: Recorder, given_back: list) -> None:
        """Find the results with a history among what the program gives back; `Stop` where it cannot give them theirs."""
        known = [v for v in recorder.values if v.tensor is not None]
        if any(not derivable(v.tensor) or edge_of(v.tensor) is not v.edge for v in known):
            raise Stop("a tensor from outside that gets another history by a write")
        for v in given_back:
            self.with_history(v)
        counters = [id(version_of(r.tensor)) for r in self.results]
        if len({*counters}) < len(counters):
            raise Stop("two results with a history share memory")

    def with_history(self, t: Any) -> None:
        """Find the results that have a history which is not over."""
        if isinstance(t, Container):
            for part in t.parts:
                self.with_history(part)
        elif isinstance(t, Made) and all(t.tensor is not r.tensor for r in self.results):
            if t.tensor.requires_grad and t.tensor.grad_fn is None:
                raise Stop("a leaf that the function made is kept")
            if t.tensor.requires_grad and isinstance(t.tensor._array, complex32.Halves):
                raise Stop("the gradient of a complex32 result is no plain array")
            if t.tensor.requires_grad and self.over(t.tensor) is None:
                self.results.append(t)

    def over(self, t: Tensor) -> str | None:
        """The node at which a backward pass from a tensor would end, as a backward pass ran before. None: it can run."""
        if id(t) not in self.ended:
            self.ended[id(t)] = ended_at(t)
        return self.ended[id(t)]

    def differentiate(self, recorder: Recorder) -> Segment:
        """The graph of the backward pass of the results."""
        if recorder.backward:
            raise Stop("results that need a gradient, behind a backward pass")
        self.sources = [
            v for v in recorder.values if v.tensor is not None and v.tensor.requires_grad
        ]
        if not self.sources:
            raise Stop("results whose history leads to nothing but leaves that the function made")
        given = [rushlight.ones_like(r.tensor) for r in self.results]
        for k, g in enumerate(given):
            recorder.new_value(g._array).expression = f"g{k}"
        self.given = [recorder.value_of(g) for g in given]
        ends = {node_and_output(edge_of(v.tensor))[0] for v in self.sources}
        self.saving = [saving_nodes(r.tensor, ends) for r in self.results]
        self.likes = tuple((a.shape, a.dtype, a.strides) for a in [g._array for g in given])
        at, early = len(recorder.steps), recorder.early
        recorder.start()
        recorder.capture.differentiates = True
        try:
            with cut_off([edge_of(v.tensor) for v in self.sources]):
                found = rushlight.autograd.grad(
                    [r.tensor for r in self.results], [v.tensor for v in self.sources], given,
                    retain_graph=True, allow_unused=True,
                )  # fmt: skip
        except (NotImplementedError, RuntimeError) as e:
            raise Stop(f"a gradient that is not implemented: {e}") from e
        finally:
            recorder.leave()
        if recorder.capture.reason is not None:
            raise Stop(recorder.capture.reason)
        recorder.close()
        if len(recorder.steps) == at:
            recorder.steps.append(Segment())
        segment = recorder.steps[at]
        if len(recorder.steps) > at + 1 or recorder.early > early:
            raise Stop("a backward pass that depends on elements")
        del recorder.steps[at:]
        found = [(v, g) for v, g in zip(self.sources, found, strict=True) if g is not None]
        if not found:
            raise Stop("results whose history leads to no gradient")
        self.sources = [v for v, _ in found]
        outputs = []
        for _, g in found:
            v = recorder.value_of(g)
            if v is None:
                raise Stop("a gradient of unknown origin")
            outputs.append(segment.node_of(v))
        segment.graph.output(tuple(outputs))
        return segment

    def add_backward(self, s: Segment) -> None:
        """Make the results differentiable: one node, which saves what the graph of the backward pass takes."""
        inputs = [*s.inputs]
        saved = self.saved = {v: k for k, v in enumerate(inputs) if v not in self.given}
        order = [*saved, *self.given]
        reached = reached_from(s, self.given)
        tensors = [v for v in saved if v.tensor is not None]
        self.watching = [{saved[v]} for v in tensors]
        given = [inputs.index(v) if v in s.inputs else None for v in self.given]
        kind = type("CompiledFunctionBackward", (CompiledBackward,), {
            "__slots__": (), "_n_outputs": len(self.results), "reached": reached,
            "backward": Backward(s.graph, given, self.built),
            "places": [order.index(v) for v in inputs],
            "likes": self.likes, "saving": self.saving, "watching": self.watching,
        })  # fmt: skip
        self.names |= {"Backward": kind, "begin": begin, "Output": Output}
        edges = ", ".join(f"edge_of({v.expression})" for v in self.sources)
        versions = ", ".join(f"({v.expression}, version_of({v.expression}).n)" for v in tensors)
        self.lines.append(
            f"node = begin(Backward, [{edges}], [{', '.join(map(self.array, saved))}], [{versions}])"
        )

    def watch_results(self, templates: list) -> None:
        """Let the backward pass refuse results that were written to since, in whose memory it has saved values."""
        arrays = [(v.array, k) for v, k in self.saved.items() if v.array.__class__ is np.ndarray]
        for made in {id(m.tensor): m for t in templates for m in made_in(t)}.values():
            a = made.tensor._array
            if a.__class__ is not np.ndarray:
                continue
            if places := {k for saved, k in arrays if np.may_share_memory(a, saved)}:
                name = self.made[id(made.tensor)]
                self.watching.append(places)
                self.lines.append(f"node.versions.append(watched({name}))")

    def finish(self, recorder: Any) -> None:
        """Give each graph its outputs."""
        for v in recorder.values:
            if v.kept and v.graph is not None:
                v.graph.outputs.append(v)
        for s in recorder.steps:
            if isinstance(s, Segment):
                s.graph.output(tuple([v.node for v in s.outputs]))

    def add_steps(self, recorder: Recorder, steps: list) -> None:
        """Write the lines of steps, and note from which line on a run that raises cannot be repeated."""
        takes_back = TakesBack(self, recorder)
        for k, step in enumerate(steps):
            takes_back.before(k, step)
            whole = isinstance(step, Step) and step.kind == "writes"  # or nothing, where it raises
            if changes(step) and not whole:
                self.unchanged = min(self.unchanged, len(self.lines))
            if isinstance(step, Segment):
                self.add_segment(step)
            elif isinstance(step, Decision):
                takes_back.decide(step)
            else:
                self.add_step(step)
            if whole:
                self.unchanged = min(self.unchanged, len(self.lines))
            takes_back.behind(k)
        self.handled = takes_back.lines, [*takes_back.saved.values()][::-1]

    def add_return(self, capture: Capture, returned: str) -> None:
        """Write the last lines: the state that the function leaves behind, and what it returns."""
        if self.rest is None and capture.grad_after != capture.state[0]:
            if any(".replay(" in line for line in self.lines):
                raise Stop(
                    "a view of a tensor from outside, and a block of no_grad that began before"
                )
            self.names["thread"] = thread
            self.lines.append(f"thread.grad = {capture.grad_after}")
        if capture.leaves is not None:
            self.lines.append(f"{self.guards.name(capture.leaves)}.leave()")
        if self.rest is not None:
            self.names["Continuation"] = Continuation
            returned = f"Continuation({self.guards.name(self.rest)}, *{returned})"
        self.lines.append(f"return {returned}")

    def add_step(self, step: Step) -> None:
        args = [self.expression(v) for v in step.args]
        args += [f"{k}={self.expression(v)}" for k, v in step.kwargs.items()]
        given = f"{step.result} = " if step.result else ""
        self.lines.append(f"{given}{self.guards.name(step.f)}({', '.join(args)})")

    def add_segment(self, s: Segment) -> None:
        name = f"graph{len(self.segments)}"
        self.segments.append(s)
        self.names[name] = self.built(s.graph)
        given = ", ".join(self.array(v) for v in s.inputs)
        bumps = [f"bump({v.expression}, {times})" for v, times in s.written.items() if times]
        self.lines += bumps if s.fails else []  # all that may raise is behind the writes
        made = "".join(f"{v.name}, " for v in s.outputs)
        self.lines.append(f"given = [{given}]; {made and f'{made}= '}{name}(given)")
        self.lines += bumps if not s.fails else []

    def built(self, graph: Graph) -> Callable[..., tuple]:
        """A graph as a function of arrays: a program of ours, or what the user's back end gives."""
        if self.backend is None:
            return lowering.build(graph).on_arrays
        from rushlight.fx.graph_module import GraphModule

        inputs = [n.meta["val"] for n in graph.find_nodes(op="placeholder")]
        function = self.backend(GraphModule(Module(), graph), inputs)
        if not callable(function):
            raise TypeError(
                f"torch.compile: the back end {self.backend!r} must return a function, got {type(function).__name__}"
            )

        def on_arrays(arrays: list) -> tuple:
            with rushlight.no_grad():
                found = function(*map(_wrap, arrays))
            return tuple([None if t is None else t._array for t in found])

        return on_arrays

    def array(self, v: Any) -> str:
        return v.name if v.graph is not None else f"{v.expression}._array"

    def expression(self, t: Any) -> str:
        """The code that gives the value of a template."""
        if isinstance(t, Constant):
            return (
                repr(t.v)
                if t.v is None or t.v.__class__ in (bool, int, str)
                else self.guards.name(t.v)
            )
        if isinstance(t, Outside):
            return t.expression
        if isinstance(t, Made):
            name = self.made.get(id(t.tensor))
            if name is None:
                name = self.made[id(t.tensor)] = f"t{len(self.made)}"
                if not t.tensor.requires_grad:
                    make = "_wrap"
                elif gone := self.over(t.tensor):
                    make = "consumed"
                    kind = kind_of(t.tensor, gone)
                elif any(t.tensor is r.tensor for r in self.results) and backward_began(self.lines):
                    make = "_wrap"
                else:
                    raise Stop("a tensor with a history is kept")
                if (
                    make == "_wrap" and t.value.graph is None
                ):  # it shares its memory with what was there before
                    self.lines.append(f"{name} = {t.value.expression}.detach()")
                    return name
                more = f", {self.guards.name(kind)}" if make == "consumed" else ""
                self.lines.append(f"{name} = {make}({self.array(t.value)}{more})")
                self.inference(name, t.tensor)
                if (counter := t.tensor._counter) not in (None, INFERENCE) and counter.n:
                    self.lines.append(f"bump({name}, {counter.n})")
                self.history(name, t, recorded=make == "_wrap" and t.tensor.requires_grad)
            return name
        if isinstance(t, Viewed):
            name = self.made.get(id(t.tensor))
            if name is None:
                name = self.made[id(t.tensor)] = f"t{len(self.made)}"
                self.lines.append(
                    f"{name} = {self.guards.name(t.tensor._edge)}.replay({t.base.expression})"
                )
                self.lines.append(f"{name}._edge.kind = {t.tensor._edge.kind}")
            return name
        assert isinstance(t, Container)
        if t.kind is not tuple and id(t.origin) in self.made:
            return self.made[id(t.origin)]
        parts = [self.expression(p) for p in t.parts]
        if t.keys is not None and (t.items or not issubclass(t.kind, dict)):
            items = f", {parts.pop()}" if t.items else ""
            inner = ", ".join(f"{k!r}: {p}" for k, p in zip(t.keys, parts, strict=True))
            self.names["instance"] = instance
            code = f"instance({self.guards.name(t.kind)}, {{{inner}}}{items})"
        elif t.keys is not None:
            inner = ", ".join(
                f"{self.expression(k)}: {p}" for k, p in zip(t.keys, parts, strict=True)
            )
            code = f"{{{inner}}}"
            if t.kind is not dict:
                more = f"{self.guards.name(t.make)}, " if t.make is not None else ""
                code = f"{self.guards.name(t.kind)}({more}{code})"
        elif t.kind is list:
            code = f"[{', '.join(parts)}]"
        elif t.kind is slice:
            code = f"slice({', '.join(parts)})"
        elif t.kind is tuple:
            code = f"({', '.join(parts)}{',' if len(parts) == 1 else ''})"
        else:
            made = f"{self.guards.name(t.kind)}"
            inner = f"({', '.join(parts)},)" if parts else "()"
            code = f"{made}._make({inner})" if hasattr(t.kind, "_make") else f"{made}({inner})"
        if t.kind in (tuple, slice):
            return code
        name = self.made[id(t.origin)] = f"t{len(self.made)}"
        self.lines.append(f"{name} = {code}")
        return name

    def history(self, name: str, t: Made, *, recorded: bool) -> None:
        """Give a result its history, and make it a view where it was one that a write gives a history, or that may not be
        written to."""
        if recorded:
            nr = next(k for k, r in enumerate(self.results) if r.tensor is t.tensor)
            edge = f"Output(node, {nr})" if len(self.results) > 1 else "node"
            self.lines.append(f"{name}._edge = {edge}")
        kind = t.tensor._edge.kind if t.tensor._edge.__class__ is View else DEFAULT
        counter = t.tensor._counter
        if counter not in (None, INFERENCE) and t.base is None:  # `detach()` counts writes with it
            first = self.counted.setdefault(id(counter), name)
            if first != name:
                self.lines.append(f"{name}._counter = version_of({first})")
        if t.base is not None:
            self.lines.append(f"view_without_history({name}, {self.expression(t.base)}, {kind})")
        elif kind != DEFAULT:
            self.lines.append(f"view_that_refuses({name}, {kind})")

    def inference(self, name: str, t: Tensor) -> None:
        """Make a result one of inference mode where it was one, and none elsewhere."""
        if (t._counter is INFERENCE) is not self.in_inference:
            self.lines.append(f"{name}._counter = {'None' if self.in_inference else 'INFERENCE'}")


def reached_from(s: Segment, given: list) -> list[set[int]]:
    """For each output of the graph of a backward pass: the numbers of the given gradients that it depends on."""
    found = {s.inputs[v]: {k} for k, v in enumerate(given) if v in s.inputs}
    *nodes, output = s.graph.nodes
    for n in nodes:
        read = n.all_input_nodes
        found.setdefault(n, set()).update(*[found[i] for i in read])
        if read and getattr(n.target, "_opname", "").endswith("_"):  # it writes to the first
            found[read[0]] |= found[n]
    return [set() if n is None else found[n] for n in output.args[0]]


def last_changes(steps: list) -> list[Step]:
    """The changes of Python's objects with which a program ends: they may keep tensors with a history."""
    found = itertools.takewhile(
        lambda s: isinstance(s, Step) and s.kind == "changes", reversed(steps)
    )
    return [*found][::-1]


def changes(step: Segment | Step | Decision) -> bool:
    """Whether what a step does leaves a trace besides its results."""
    if isinstance(step, Segment):
        return bool(step.written or step.drawn)
    return isinstance(step, Step) and step.kind not in ("reads", "clock")


@contextlib.contextmanager
def cut_off(edges: list) -> Iterator[None]:
    """A block in which nothing leads on from where tensors from outside came from, as one of them may come from another,
    and their hooks are not called: that is done where the gradients arrive."""
    nodes = {id(n): n for n in [e.node if e.__class__ is Output else e for e in edges]}
    before = [(n, n._edges, n.hooks) for n in nodes.values()]
    for n, found, _ in before:
        n.hooks = None
        if found:
            n._edges = ()
    try:
        yield
    finally:
        for n, found, hooks in before:
            n.hooks = hooks
            if found:
                n._edges = found


def letting_go(lines: list[str]) -> list[str]:
    """The lines of a program, which let go of what no line behind reads where a graph takes it."""
    made: list[str] = []
    read: set[str] = set()  # variables that the lines behind read
    for line in reversed(lines):
        variables = [*dict.fromkeys(VARIABLE.findall(line.partition("; ")[0]))]
        if line.startswith("given = ") and (gone := [v for v in variables if v not in read]):
            made.append(line.replace("; ", f"; del {', '.join(gone)}; ", 1))
        else:
            made.append(line)
        read.update(VARIABLE.findall(line))
    return made[::-1]


def backward_began(lines: list[str]) -> bool:
    return any(line.startswith("node = begin(") for line in lines)
