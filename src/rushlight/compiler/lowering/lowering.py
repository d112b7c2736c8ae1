"""Graphs of operators below autograd as programs: the back end of `torch.compile`.

Note [How a graph is lowered]
    What can be computed with less work is rewritten (`rewrites.py`). Then `build` makes one `Call` of each node (`calls.py`), a function of arrays, and removes what nobody reads or what
    was computed before. The first call of the program runs these one by one and notes what each gives: shape,
    strides, dtype, and whose memory. From then on it is known what may be fused (`fusion.py`), and straight-line
    Python is written that calls kernels; a debugger steps through it.

    Order is kept where it can be seen: a call that writes to memory comes after all that read it before, and
    before all that read it after.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import llvm
from rushlight._codegen.native_entry import in_python
from rushlight._codegen.runtime import memory
from rushlight.autograd.state import thread
from rushlight.compiler.capture.guards import span
from rushlight.compiler.lowering.calls import (
    MAKERS,
    NESTED,
    SAME,
    Call,
    Cast,
    call_of,
    filled,
    laid,
    nodes_in,
    tupled,
)
from rushlight.compiler.lowering.epilogues import joined
from rushlight.compiler.lowering.rewrites import rewrite
from rushlight.core import geometry
from rushlight.core.tensor import Tensor, _bump, _wrap
from rushlight.fx import Graph, Node
from rushlight.fx.node import map_arg

__all__ = ["Program", "build"]


def build(graph: Graph) -> Program:
    """The program that computes what a graph of operators below autograd says.

    >>> import rushlight as torch
    >>> from rushlight.fx.experimental.proxy_tensor import make_fx
    >>> x = torch.tensor([1.0, -2.0])
    >>> program = build(make_fx(lambda x: (x.relu() * 2).sum())(x).graph)
    >>> program(x)
    (tensor(2.),)
    """
    llvm.activate("a graph is compiled")
    return Program(graph)


class Layout(NamedTuple):
    """Where the elements of an array are: `offset` bytes behind the first of its `base`, which it is a view of.

    `root`: the node whose memory it may be in, as its base may be.
    """

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype
    root: Node
    base: Node
    offset: int


def lies_as_captured(node: Node, a: Any) -> bool:
    """Whether an array has the strides of that which was given when the node was captured."""
    seen = node.meta.get("val")
    return not isinstance(seen, Tensor) or seen._array.strides == getattr(a, "strides", None)


class Program:
    """A lowered graph: a function of its inputs, tensors or arrays, that gives a tuple of its outputs."""

    def __init__(self, graph: Graph) -> None:
        rewrite(graph)
        self.inputs = [n for n in graph.nodes if n.op == "placeholder"]
        (result,) = [n.args[0] for n in graph.nodes if n.op == "output"]
        self.outputs: tuple = tuple(result) if isinstance(result, (tuple, list)) else (result,)
        self.constants = {n: attribute(graph, n) for n in graph.nodes if n.op == "get_attr"}
        self.same: dict[Node, Node] = {}  # nodes that stand for the array of another
        self.calls = self._simplified(graph)
        self.layouts: dict[Node, Layout] = {}
        self._roots: dict[Node, Node] = {}  # whose memory the results of calls are in
        self.parts_of: dict[Node, Node] = {}  # lists of views -> what they are views of
        self.source = ""
        self.loops: list[Any] = []  # the groups that run as one kernel each, from the first call on
        self.nodes: list[Node | None] = []  # what the lines of the program compute
        self.steps: list[Any] = []  # its calls and loops, in their order
        self._run: Callable[..., tuple] | None = None
        self._running: Node | None = None  # in the first call
        shared = self._shared()
        self._written = [k for k, n in enumerate(self.inputs) if shared.get(n, n) in self._targets]
        self.written: set[Node] = set()  # roots that calls write to, from the first call on

    # -- graph ---------------------------------------------------------------------------------------

    def _simplified(self, graph: Graph) -> list[Call]:
        """The calls of a graph, less those that repeat another or that nobody reads."""
        objects: dict[
            Node, Any
        ] = {}  # arguments that are neither tensors nor numbers: windows of pooling
        calls = []
        for n in graph.nodes:
            if n.op == "call_function" and isinstance(n.target, type):
                objects[n] = n.target(
                    *tupled(n.args), **{k: tupled(v) for k, v in n.kwargs.items()}
                )
            elif n.op == "call_function":
                if objects:
                    n.args = map_arg(n.args, lambda x: objects.get(x, x))
                    n.kwargs = map_arg(n.kwargs, lambda x: objects.get(x, x))
                calls.append(call_of(n))
        written = {c.node: c.writes for c in calls if c.writes is not None}
        self._returned = [self._input(o, written) for o in self.outputs]
        roots = self._shared()  # whose memory a node may view, as far as the graph tells
        for call in calls:
            read = [n for n in call.reads() if n is not call.node]
            target = call.writes or next(iter(read), None)
            roots[call.node] = roots.get(target, target) if target is not None else call.node
        self._targets = {roots.get(n, n) for c in calls for n in c.written}
        made: dict[Node, Node] = {}  # in whose memory the result of a call is
        for call in calls:
            seen = call.writes or (next(iter(call.reads()), None) if call.view else None)
            made[call.node] = call.node if seen is None else made.get(seen, seen)
        outputs = {made.get(n, n) for n in nodes_in(self.outputs)}  # the caller may write to them
        known: dict[Any, Node] = {}
        kept: list[Call] = []
        for call in calls:
            node = call.node
            if getattr(node.target, "_opname", "") in SAME:
                self.same[node] = self.at(node.args[0])  # type: ignore[arg-type]
                continue
            call.args, call.kwargs = renamed(call.args, self.at), renamed(call.kwargs, self.at)
            if call.writes is not None:
                self.same[node] = call.writes = self.at(call.writes)
            call.fills = [self.at(n) for n in call.fills]
            if call.pure and call.kwargs.get("out") is None and made[node] not in outputs:
                key = call_key(call)
                touched = any(roots.get(n, n) in self._targets for n in (node, *call.reads()))
                if key is not None and not touched:
                    if key in known:
                        self.same[node] = known[key]
                        continue
                    known[key] = node
            kept.append(call)
        self.outputs = renamed(self.outputs, self.at)
        needed = set(nodes_in(self.outputs))
        alive: list[Call] = []
        for call in reversed(kept):
            if call.node not in needed and call.node.meta.get("fails"):
                call.pure = False  # nobody reads what it gives, but it may raise
            if call.node in needed or not call.pure or call.fills:
                needed.update(call.reads())
                alive.append(call)
        return joined(alive[::-1], set(nodes_in(self.outputs)), lambda n: roots.get(n, n))

    def _shared(self) -> dict[Node, Node]:
        """Inputs that shared memory with others when they were captured, each with the same one of these."""
        found: dict[Node, Node] = {}
        groups: list[tuple[int, int, Node]] = []
        spans = [(*n.meta["span"], k, n) for k, n in enumerate(self.inputs) if "span" in n.meta]
        for low, high, _, n in sorted(spans, key=lambda s: s[:3]):
            if groups and low < groups[-1][1]:
                start, end, first = groups[-1]
                groups[-1] = start, max(end, high), first
                found[n] = first
            else:
                groups.append((low, high, n))
        return found

    def _input(self, output: Any, written: dict[Node, Node]) -> int | None:
        """The number of the input that an output is itself, or None."""
        while output in written:
            output = written[output]
        return self.inputs.index(output) if output in self.inputs else None

    def at(self, node: Node) -> Node:
        """The node whose array another node stands for."""
        return self.same.get(node, node)

    # -- running -------------------------------------------------------------------------------------

    def __call__(self, *given: Any) -> tuple:
        arrays = [g._array if isinstance(g, Tensor) else g for g in given]
        recording, thread.grad = thread.grad, False
        try:
            results = self.on_arrays(arrays)
        finally:
            thread.grad = recording
        for k in self._written:
            if isinstance(given[k], Tensor):
                _bump(given[k])
        return tuple(
            [
                wrapped(r) if k is None else given[k]
                for k, r in zip(self._returned, results, strict=True)
            ]
        )

    def on_arrays(self, arrays: list) -> tuple:
        """The program on arrays alone, without gradients: the arrays of its outputs. It takes the arrays out of the list, and
        lets go of each behind the call that reads it last."""
        try:
            return self._first(arrays) if self._run is None else self._run(arrays)
        except Exception as e:
            if trace := self._stack_trace(e):
                e.add_note(f"in compiled code of:\n{trace}")
            raise

    def _stack_trace(self, e: Exception) -> str:
        """The lines of the user's that the line of the program stands for at which an error came up."""
        node, at = self._running, e.__traceback__
        while at is not None:
            if self._run is not None and at.tb_frame.f_code is self._run.__code__:
                k = at.tb_lineno - 2
                node = self.nodes[k] if k < len(self.nodes) else None
            at = at.tb_next
        return (node.stack_trace or "") if node is not None else ""

    def _first(self, arrays: list) -> tuple:
        """Run call by call, and note what each gives.

        An array that nobody reads any more makes place for one without memory: what is tried later
        (Note [Call lists]) takes its layout.
        """
        values: dict[Node, Any] = dict(zip(self.inputs, arrays, strict=True))
        values |= {n: t._array if isinstance(t, Tensor) else t for n, t in self.constants.items()}
        shared = overlapping(values)
        for node, a in values.items():
            self._note(node, a, values, shared.get(node, ()))
        over = self._over(values)
        as_captured = all(map(lies_as_captured, self.inputs, arrays))
        nowhere = Nowhere()
        with np.errstate(all="ignore"), in_python():
            for call in self.calls:
                self._running = call.node
                a = call.run(values.__getitem__)
                if isinstance(a, np.generic):
                    a = xp.asarray(a)
                values[call.node] = a = self._right(call, a, values) if as_captured else a
                self.written.update(map(self.root, call.written))
                if call.view and a.__class__ in NESTED:
                    (self.parts_of[call.node],) = call.reads()
                if call.writes is None:
                    self._note(call.node, a, values, call.reads(), call.view)
                for n in over.get(call.node, ()):
                    values[n] = nowhere.like(values[n])
        self._running = None
        memory.empty_cache()  # what ran until now kept memory in other sizes than the program will ask for
        from rushlight.compiler.lowering.straight_line import write

        self.source, self.loops, self._run = write(self, values)
        memory.empty_cache()  # nor for what single steps were tried with
        return tuple([values[o] if isinstance(o, Node) else o for o in self.outputs])

    def _right(self, call: Call, a: Any, values: dict) -> Any:
        """The result of a call as the captured one lay; the call gives it so from then on, for such arrays."""
        seen = call.node.meta.get("val") if call.lies else None
        if not isinstance(seen, Tensor) or a.__class__ is not np.ndarray or seen.shape != a.shape:
            return a
        if seen._array.dtype is not a.dtype or seen._array.strides == a.strides:
            return a
        strides = seen.stride()
        if not geometry.is_non_overlapping_and_dense(a.shape, strides):
            return a
        args = filled(call.args, values.__getitem__)
        call.function = laid(call.function, args, a.shape, strides)
        return xp.with_strides(a, strides)

    def _over(self, given: Iterable[Node]) -> dict[Node, list[Node]]:
        """Behind which calls nobody reads which arrays, nor views of them; those that are given stay."""
        last = {n: k for k, call in enumerate(self.calls) for n in (call.node, *call.reads())}
        for call in reversed(self.calls):
            for n in call.reads() if call.view else ():
                last[n] = max(last[n], last[call.node])
        found: dict[Node, list[Node]] = {}
        for n in last.keys() - {*given, *nodes_in(self.outputs)}:
            if getattr(n.target, "_opname", "") not in MAKERS:
                found.setdefault(self.calls[last[n]].node, []).append(n)
        return found

    def _note(
        self, node: Node, a: Any, values: dict, reads: Iterable[Node], view: bool = False
    ) -> None:
        """Note whose memory a result is in, and the layout of an array."""
        root, base, offset = node, node, 0
        reads = set(reads)
        view = view and len(reads) == 1  # numbers that are computed make another view each time
        own = arrays_in(a)
        for n in reads if own else ():
            if any(np.may_share_memory(x, y) for y in arrays_in(values[n]) for x in own):
                root = self.root(n)
                n = self.parts_of.get(n, n)
                if view and n in self.layouts and a.__class__ is np.ndarray:
                    base, at = self.layouts[n].base, self.layouts[n].offset
                    offset = address(a) - address(values[n]) + at
        self._roots[node] = root
        if a.__class__ is np.ndarray:
            self.layouts[node] = Layout(a.shape, a.strides, a.dtype, root, base, offset)

    def root(self, node: Node) -> Node:
        """The node whose memory the result of another may be in."""
        return self._roots.get(node, node)

    def value_by_views(self, values: dict[Node, Any], node: Node) -> Any:
        """What a node gives that is known or a view of what is known."""
        if node not in values:
            call = next(c for c in self.calls if c.node is node)
            values[node] = call.run(lambda n: self.value_by_views(values, n))
        return values[node]

    def report(self) -> str:
        """What runs: the program's text and those of its loops in the kernel language. Empty before the first call."""
        loops = [f"# loop{k}\n{loop.chain.text}" for k, loop in enumerate(self.loops)]
        return "\n".join([self.source, *loops])


LARGE = 1 << 21  # bytes of the arrays of a step, from which its line is nothing beside it


class Nowhere:
    """Makes arrays as others are, of memory that nobody writes to: zeros for numbers between 0 and 1, which kernels may ask
    for (`others`); for others, and where so many are not asked for, the first number is a negative one."""

    def __init__(self) -> None:
        self._memory = [mmap.mmap(-1, 16), mmap.mmap(-1, 16)]

    def like(self, v: Any) -> Any:
        """Arrays of floating-point numbers, also those in a result of several, without memory; others as they are."""
        if v.__class__ in NESTED:
            return tuple([self.like(x) for x in v])
        if v.__class__ is not np.ndarray or v.dtype.kind in "iub" or not v.size:
            return v
        low, high = span(v)
        k = int(high - low < LARGE and is_fraction(v))
        if high - low > len(self._memory[k]):
            self._memory[k] = mmap.mmap(-1, high - low, access=mmap.ACCESS_COPY)
        if not k:
            self._memory[k][: v.itemsize] = b"\xbf" * v.itemsize
        return np.ndarray(v.shape, v.dtype, self._memory[k], address(v) - low, v.strides)


def overlapping(values: dict[Node, Any]) -> dict[Node, list[Node]]:
    """For nodes, the ones before them whose memory they may be in."""
    spans = [
        (*span(a), k, n) for k, (n, v) in enumerate(values.items()) for a in arrays_in(v) if a.size
    ]
    found: dict[Node, list[Node]] = {}
    begun: list[tuple[int, int, int, Node]] = []
    for one in sorted(spans, key=lambda s: s[:3]):
        begun = [s for s in begun if s[1] > one[0]]
        for s in begun:
            (_, _, before, first), (_, _, after, second) = sorted((s, one), key=lambda s: s[2])
            if before < after:
                found.setdefault(second, []).append(first)
        begun.append(one)
    return found


def arrays_in(v: Any) -> list[np.ndarray]:
    """The arrays of a result."""
    if v.__class__ in NESTED:
        return [a for x in v for a in arrays_in(x)]
    return [v] if isinstance(v, np.ndarray) else []


def address(a: np.ndarray) -> int:
    """Where the first element of an array is."""
    return a.__array_interface__["data"][0]


def is_fraction(a: np.ndarray) -> bool:
    """Whether all numbers of an array are between 0 and 1."""
    first = a[(0,) * a.ndim]  # which says mostly that they are not
    return bool(0 <= first <= 1 and a.min() >= 0 and a.max() <= 1)


def attribute(graph: Graph, node: Node) -> Any:
    """What a `get_attr` node stands for."""
    found: Any = graph.owning_module
    for part in node.target.split("."):  # type: ignore[union-attr]
        found = getattr(found, part)
    return found


def renamed(value: Any, at: Callable[[Node], Node]) -> Any:
    """Nested arguments with nodes replaced."""
    return filled(value, at, Cast)


def call_key(call: Call) -> Any:
    """What two calls have in common that give the same; None for what cannot be told."""

    try:
        key = (call.node.target, told(call.args), told(call.kwargs))
        hash(key)
    except TypeError:
        return None
    return key


def told(v: Any) -> Any:
    """An argument as part of a key."""
    if v.__class__ in NESTED:
        return (v.__class__, *map(told, v))
    if isinstance(v, dict):
        return tuple((k, told(x)) for k, x in v.items())
    if isinstance(v, np.ndarray):
        return (v.dtype.str, v.shape, v.tobytes())
    if isinstance(v, slice):
        return ("slice", told(v.start), told(v.stop), told(v.step))
    return (v.__class__, repr(v) if v.__class__ is float else v)


def wrapped(v: Any) -> Any:
    return _wrap(v) if isinstance(v, np.ndarray) else v
