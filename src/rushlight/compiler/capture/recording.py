"""The recorder: operators below autograd become nodes of graphs, with other steps between them.

Note [Values]
    A value is an array, known by its identity: autograd makes new tensors of arrays that it keeps, but not new
    arrays. It comes from outside (a parameter, an argument), from a node of a graph, or from a step. A graph takes
    the values of other graphs and from outside as placeholders; writes to them are writes to the arrays themselves.
"""

from __future__ import annotations

import contextlib
import operator
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

import rushlight
from rushlight._backends import meta
from rushlight._backends.math_bits import Marked
from rushlight._codegen.native_entry import in_python
from rushlight.autograd.graph import version_of
from rushlight.autograd.views import edge_of
from rushlight.compiler.capture.failures import before_write, may_fail, result_of
from rushlight.compiler.capture.guards import constant, derivable, describes, span
from rushlight.compiler.capture.steps import Decision, Step
from rushlight.compiler.capture.templates import containers_in, takes_tensors, template
from rushlight.core.tensor import INFERENCE, Tensor, _wrap
from rushlight.dispatch.handlers import tensors_in
from rushlight.dispatch.transforms import tensor as tensor_around
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.library import CustomOpDef
from rushlight.rng.generator import Generator, before_draw
from rushlight.utils._python_dispatch import TorchDispatchMode

if TYPE_CHECKING:
    from rushlight.compiler.capture.capture import Capture

# Operators whose results have shapes, or are Python values, that depend on the elements.
DYNAMIC = frozenset(
    "_local_scalar_dense nonzero aten_nonzero masked_select unique unique_consecutive _unique _unique2 _all_unique "
    "unique_dim equal is_nonzero bincount item histogramdd _all_histogramdd to_sparse segment_reduce aten_repeat_each "
    "repeat_interleave".split()
)


NUMBERS = ("_local_scalar_dense", "item", "is_nonzero")


class Value:
    """An array that programs compute or take. It is not held: what the function lets go of is let go of in a capture, too.

    `expression`: the tensor that holds it, for what comes from outside; `node` and `graph`: what computes it.
    """

    __slots__ = (
        "_array", "edge", "expression", "graph", "kept", "node", "number", "place", "tensor",
    )  # fmt: skip

    def __init__(self, array: Any, number: int) -> None:
        self._array, self.number = weakref.ref(array), number
        self.expression: str | None = None
        self.tensor: Tensor | None = None
        self.edge: Any = None  # of the tensor, when it was found
        self.graph: Segment | None = None
        self.node: Node | None = None
        self.place = ""  # the expression by which a guard finds the tensor
        self.kept = False  # whether something outside of its graph uses it

    @property
    def name(self) -> str:
        return f"v{self.number}"

    @property
    def array(self) -> Any:
        """The array; None where it is no more."""
        return self._array()


class Segment:
    """A graph of operators that runs without a step in between."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.inputs: dict[Value, Node] = {}
        self.written: dict[
            Value, int
        ] = {}  # values from elsewhere whose arrays it writes to, and how often
        self.drawn: dict[int, Generator] = {}  # the generators that it draws from
        self.outputs: list[Value] = []
        self.handled = False  # whether a run is taken back where one of its operators raises
        self.raises = False  # whether an operator of it may raise
        self.fails = False  # whether there are no writes behind one, see Note [Failures]

    def node_of(self, v: Value) -> Node:
        """The node of a value in this graph: a placeholder where it comes from elsewhere."""
        if v.graph is self:
            return v.node
        node = self.inputs.get(v)
        if node is None:
            if self.inputs:
                where = self.graph.inserting_after([*self.inputs.values()][-1])
            else:
                where = self.graph.inserting_before(next(iter(self.graph.nodes), None))
            with where:
                node = self.graph.placeholder(v.name)
            gone = v.array is None and v.node is not None
            if not gone and v.array.__class__ is np.ndarray:
                node.meta["span"] = span(v.array)  # whose memory it shares, lowering asks
            node.meta["val"] = v.node.meta["val"] if gone else described(tensor_around(v.array))  # type: ignore[union-attr]
            # mypy: what is gone was computed, by a node
            node.meta["marked"] = v.node.meta["marked"] if gone else isinstance(v.array, Marked)  # type: ignore[union-attr]
            self.inputs[v] = node
            v.kept = True
        return node


class Recorder(TorchDispatchMode):
    """Gets each operator below autograd, runs it, and adds a node."""

    own_operators = True

    def __init__(self, capture: Capture) -> None:
        super().__init__()
        self._capture = weakref.ref(capture)  # no cycle, which would keep the arrays of the call
        self.values: list[Value] = []
        self._latest: dict[
            int, Value
        ] = {}  # by the id of the array, which may be another one by now
        self.steps: list[Segment | Step | Decision] = []
        self.early = 0  # how many steps depend on nothing that a run does
        self.changes: list[Step] = []  # that wait until something can see them
        self.cleared: list[
            Step
        ] = []  # of `steps`, since changes last waited: what lets go of gradients
        self.segment = Segment()
        self.gradients: dict[
            int, Value | None
        ] = {}  # what is known about `.grad` of tensors by now
        self.counters: dict[
            int, Value
        ] = {}  # of outside tensors, by the id of their version counter
        self.apart: dict[int, Value] = {}  # those whose memory other counters count writes to
        self.decided: dict[
            int, Tensor
        ] = {}  # tensors whose gradient an optimizer set or kept in this call
        self.escaped: set[int] = set()  # objects that the function made, which steps gave away
        self.stepped: dict[int, tuple[Tensor, str]] = {}  # tensors that steps give, by their ids
        self.placed: dict[
            int, list
        ] = {}  # the integers that views of a memory depend on, by the id of its version counter
        self.reads: list[str] = []  # the lines with which a run begins
        self.first: dict[str, str] = {}  # the variables of expressions that they read
        self.drawn: dict[int, Generator] = {}  # that the operator which is carried out draws from
        self.on = self.entered = False  # whether it records, and whether the mode is on
        self.backward = False  # whether there was a backward pass
        self.entries = in_python()  # what runs once needs no native entries

    @property
    def capture(self) -> Capture:
        """The capture that this is a part of."""
        return self._capture()  # type: ignore[return-value]  # nothing is recorded without it

    def start(self) -> None:
        """Record from here on."""
        self.on = self.entered = True
        self.entries.__enter__()
        self.__enter__()
        before_draw.append(self.draws)

    def draws(self, generator: Generator) -> None:
        self.drawn[id(generator)] = generator

    def off(self) -> None:
        """Record no more; the mode may be in the middle of a call, so that it is left later (`leave`)."""
        self.on = False
        self.entries.leave()

    def leave(self) -> None:
        """Record no more, and leave the mode."""
        self.off()
        if self.entered:
            self.entered = False
            self.__exit__()
            before_draw.remove(self.draws)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """A block whose operators are not recorded."""
        entered, self.entered = self.entered, False
        if entered:
            self.__exit__()
        try:
            yield
        finally:
            if entered:
                self.entered = True
                self.__enter__()

    # -- values --------------------------------------------------------------------------------

    def knows(self, t: Tensor) -> bool:
        return self.value_of(t) is not None

    def made_inside(self, t: Tensor) -> bool:
        """Whether the function made a tensor, and its memory."""
        v = self.value_of(t)
        return v is not None and v.node is not None and id(version_of(t)) not in self.counters

    def new_leaf(self, t: Tensor) -> bool:
        """Whether a tensor without a history is an object that the function made, on whatever memory."""
        v = self.value_of(t)
        return v is not None and v.tensor is not t and t.is_leaf

    def value_of(self, t: Tensor) -> Value | None:
        v = self._latest.get(id(t._array))
        return v if v is not None and v.array is t._array else None

    def new_value(self, array: Any) -> Value:
        v = self._latest[id(array)] = Value(array, len(self.values))
        self.values.append(v)
        return v

    def read_first(self, expression: str) -> str:
        """The variable that a run reads an expression into before it changes anything."""
        if expression not in self.first:
            self.first[expression] = f"x{len(self.first)}"
            self.reads.append(f"{self.first[expression]} = {expression}")
        return self.first[expression]

    def add_outside(self, t: Tensor, expression: str, constant: bool) -> None:
        """Take a tensor that was there before as a value; `constant`: it is always this object."""
        c = self.capture
        if type(t) not in (Tensor, rushlight.nn.Parameter, rushlight.nn.Buffer):
            c.stop(f"a tensor of class {type(t).__name__}")
            return
        if t._array.__class__ is not np.ndarray:
            c.stop("a tensor that is sparse, on another device, or belongs to a transform")
            return
        if not derivable(t):
            c.stop("a view that cannot be derived again from its base")
            return
        if constant and edge_of(t) is not None and not t.is_leaf:
            c.stop("a tensor with a history from outside")
            return
        if self.knows(t):
            c.stop("two tensors on one array")
            return
        v = self.new_value(t._array)
        v.place = expression
        if not constant:  # another tensor in each call: it is read before anything is changed
            expression = self.read_first(expression)
        v.expression, v.tensor, v.edge = expression, t, edge_of(t)
        if t._counter is not INFERENCE:
            self.counters[id(version_of(t))] = v
        if constant:
            c.guards.names["fits"] = fits
            edge = "None" if t._edge is None else c.guards.name(t._edge)
            a = c.guards.name(t._array)
            c.guards.add(
                f"({expression}._array is {a} or fits({expression}, {a})) and {expression}._edge is {edge}"
            )

    # -- operators -----------------------------------------------------------------------------

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [*{id(t): t for t in tensors_in((*args, *kwargs.values()))}.values()]
        counts = [None if t._counter is INFERENCE else version_of(t).n for t in given]
        result = result_of(self, func, args, kwargs)
        if self.on:
            written = [
                (t, version_of(t).n - n) for t, n in zip(given, counts, strict=True)
                if n is not None and version_of(t).n != n
            ]  # fmt: skip
            self.record(func, args, kwargs, result, written)
        return result

    def _checks_values(self, v: Any) -> None:
        if self.on:
            self.capture.decide_check(v if isinstance(v, Tensor) else _wrap(v))

    def _made_of_number(self, t: Tensor) -> None:
        if self.on:
            self.new_value(t._array).expression = self.capture.guards.name(t)

    def record(self, func: Any, args: tuple, kwargs: dict, result: Any, written: list) -> None:
        name = func._opname
        self.capture.fix_all(args, kwargs)
        dynamic = name in DYNAMIC or name == "index" and self.masks(args)
        parts = result if isinstance(result, tuple) else (result,)
        if name in NUMBERS and result.__class__ in (int, bool) and self.knows(args[0]):
            self.capture.decide_number(args[0], result, f"{func}")
            return
        if name.startswith("_sparse") or dynamic and not all(isinstance(t, Tensor) for t in parts):
            self.capture.stop(f"{func}, which depends on elements,")
            return
        if name == "lift_fresh" and self.value_of(args[0]) is None:
            self.literal(args[0], result)
            return
        if name == "detach":
            if result._array is args[0]._array:
                return
        own = func.overloadpacket._called
        if isinstance(own, CustomOpDef):
            in_backward = own._mutates and self.capture.differentiates
            if own._above or in_backward or own._fake is None and not own._mutates:
                why = "writes in a backward pass" if in_backward else "has no fake implementation"
                why = "has a function for autograd" if own._above else why
                self.capture.stop(f"{func}, which {why},")
                return
        fails = may_fail(func, args) and not self.capture.differentiates
        if not fails:
            before_write(self, written)
        self.segment.drawn, self.drawn = self.segment.drawn | self.drawn, {}
        try:
            node = self.segment.graph.create_node(
                "call_function", func, self.argument(args), self.argument(kwargs)
            )
        except LookupError as e:
            self.capture.stop(f"{func} of {e.args[0]}")
            return
        node.stack_trace = self.capture.stack_trace()
        node.meta["fails"] = fails
        self.segment.handled = self.segment.handled or self.capture.is_handled()
        for t, times in written:
            self.write(t, times)
        node.meta["val"] = described(result)
        self.track(result, node)
        if dynamic:
            self.end_graph()
            for t in parts:
                self.capture.decide_shape(t, f"the shape of {func}")

    def literal(self, t: Tensor, result: Tensor) -> None:
        """A tensor made of Python numbers: each run makes a copy of it."""
        with self.paused():
            kept = t.clone()
        v = self.new_value(kept._array)
        v.expression = self.capture.guards.name(kept)
        node = self.segment.graph.call_function(
            rushlight.ops.aten.clone.default, (self.segment.node_of(v),)
        )
        node.meta["val"] = described(result)
        self.track(result, node)

    @staticmethod
    def masks(args: tuple) -> bool:
        return any(t.dtype in (rushlight.bool, rushlight.uint8) for t in tensors_in(args[1:]))

    def argument(self, v: Any) -> Any:
        """An argument of a call as an argument of a node."""
        if isinstance(v, Tensor):
            found = self.value_of(v)
            if found is None:
                raise LookupError(f"a tensor of unknown origin, {list(v.shape)} of {v.dtype}")
            return self.segment.node_of(found)
        if v.__class__ in (list, tuple):
            return v.__class__([self.argument(x) for x in v])
        if v.__class__ is dict:
            return {k: self.argument(x) for k, x in v.items()}
        if isinstance(v, rushlight.Generator):
            return self.capture.same_stream(v)
        if not (
            constant(v)
            or isinstance(v, (rushlight.layout, rushlight.memory_format))
            or describes(v)
        ):
            raise LookupError(f"a {type(v).__name__}")
        return v

    def write(self, t: Tensor, times: int) -> None:
        """Note that the array of a tensor was written to."""
        counter = id(version_of(t))
        self.capture.place_fixed(counter)
        if (v := self.counters.get(counter)) is not None:
            self.segment.written[v] = self.segment.written.get(v, 0) + times
        elif (v := self.apart.get(counter)) is not None:
            self.capture.place_fixed(id(version_of(v.tensor)))
            self.segment.written.setdefault(v, 0)

    def share(self, t: Tensor, source: Tensor) -> None:
        """Note that a tensor, such as `source.data`, counts the writes to the memory of another for itself."""
        counter = id(version_of(source))
        if (v := self.counters.get(counter) or self.apart.get(counter)) is not None:
            self.apart[id(version_of(t))] = v
            self.capture.keep.append(t)

    def track(self, result: Any, node: Node) -> None:
        if isinstance(result, Tensor):
            node.meta["marked"] = isinstance(result._array, Marked)
            if not self.knows(result):
                v = self.new_value(result._array)
                v.graph, v.node = self.segment, node
        elif isinstance(result, (tuple, list)):
            for i, part in enumerate(result):
                if isinstance(part, Tensor):
                    item = self.segment.graph.call_function(operator.getitem, (node, i))
                    item.meta["val"] = described(part)
                    self.track(part, item)

    # -- steps between graphs ------------------------------------------------------------------

    def cut(self, step: Step | Decision, early: bool = False) -> None:
        """Put a step behind the graph, which ends, or before it if it takes no tensors; changes of Python's objects
        wait until something can see them. `early`: it depends on nothing that a run does, and comes first.

        What lets go of gradients stays in front of the graph that makes others, which get their memory; where a decision
        follows, which may take the run back, it waits as other changes do."""
        kind = step.kind if isinstance(step, Step) else "decides"
        if kind == "clears":
            if len(self.segment.graph.nodes) or self.changes or self.reads_gradients():
                self.changes.append(step)
            else:
                self.cleared.append(step)
                self.steps.append(step)
            return
        if kind == "decides":
            self.wait_for_cleared()
        if early:
            self.steps.insert(self.early, step)
            self.early += 1
            return
        if kind == "changes":
            self.changes.append(step)
            return
        if kind == "calls":
            self.close()
        elif kind != "decides" and any(map(takes_tensors, step.args)):
            self.end_graph()
        self.steps.append(step)

    def wait_for_cleared(self) -> None:
        """Let what lets go of gradients wait as other changes do."""
        self.steps = [s for s in self.steps if all(s is not c for c in self.cleared)]
        self.changes, self.cleared = [*self.cleared, *self.changes], []

    def reads_gradients(self) -> bool:
        """Whether runs find an array as the gradient of a tensor."""
        return any((v.expression or "").endswith(".grad") for v in self.values)

    def end_graph(self) -> None:
        if len(self.segment.graph.nodes):
            self.steps.append(self.segment)
            self.segment = Segment()

    def close(self) -> None:
        """End the graph, and put the changes that wait behind it, of objects as they are by now."""
        self.end_graph()
        for step in (*self.cleared, *self.changes):
            step.describe(self.given_away)
        self.steps += self.changes
        self.changes, self.cleared = [], []

    def given_away(self, v: Any) -> Any:
        """What stands for a value that an object from outside holds from here on."""
        found = self.template(v)
        self.escaped |= {id(t.origin) for t in containers_in(found)}
        return found

    def template(self, v: Any) -> Any:
        """What stands for a Python value in each run."""
        return template(self, v)

    # -- gradients of leaves -------------------------------------------------------------------

    def leaves(self) -> list[Value]:
        return [v for v in [*self.values] if v.tensor is not None and v.tensor._edge is not None]

    def gradient(self, t: Tensor) -> Tensor | None:
        """`t.grad`."""
        v, g = self.value_of(t), t.grad
        if v is None or v.tensor is not t:
            if g is not None and not (self.new_leaf(t) and self.knows(g)):
                self.capture.stop("the gradient of a tensor that is no leaf")
            return g
        self.know_gradient(v)
        return g

    def set_gradient(self, t: Tensor, g: Tensor | None) -> bool:
        """Note `t.grad = g`. False where a program cannot."""
        v = self.value_of(t)
        if v is None or g is not None and not self.knows(g):
            return False
        if v.tensor is not t:
            return self.new_leaf(t)
        self.gradients[v.number] = None if g is None else self.value_of(g)
        self.cut(Step(set_gradient, [t, g], {}, "changes"))
        return True

    def know_gradient(self, v: Value) -> None:
        """Guard whether a leaf has a gradient, where this call did not decide it."""
        if v.number in self.gradients:
            return
        g = v.tensor.grad
        if v.expression.startswith("x") and v.tensor.grad is None and not v.tensor.requires_grad:
            self.gradients[v.number] = None
            return
        if id(v.tensor) in self.decided:
            if g is not None and not self.knows(g):
                self.new_value(g._array).expression = f"{v.expression}.grad"
            self.gradients[v.number] = None if g is None else self.value_of(g)
            return
        if g is None:
            self.capture.guards.add(f"{v.place}.grad is None")
            self.gradients[v.number] = None
            return
        name = f"{v.place}.grad"
        if not self.knows(g):
            self.capture.guards.add(f"{name} is not None")
            self.capture.guards.tensor(name, g)
            self.capture.found(g, name)
        self.gradients[v.number] = self.value_of(g)

    def waiting_steps(self) -> list[Step]:
        """All steps, with the changes that wait."""
        return [*[s for s in self.steps if isinstance(s, Step)], *self.changes]

    def runs_on(self, *inputs: Tensor) -> str | None:
        """Why a backward pass, to these inputs or to all leaves, may do more than a program can: it runs into the history of a
        tensor from outside, or calls hooks. None: it does not."""
        found = [v.tensor for v in self.values if v.tensor is not None]
        if any(t.grad_fn is not None and (len(inputs) != 1 or t is not inputs[0]) for t in found):
            return "a backward pass into the history of an argument"
        if any(getattr(v.tensor._edge, "hooks", None) is not None for v in self.leaves()):
            return "a backward pass that calls hooks"
        return None

    def before_backward(self) -> None:
        self.backward = True
        for v in self.leaves():
            self.know_gradient(v)
        self.refuse_hooks()

    def refuse_hooks(self) -> None:
        """Guard that the leaves of a backward pass have no hooks, which a program would not call."""
        for v in self.leaves():
            self.capture.guards.add(f"getattr({v.place}._edge, 'hooks', None) is None")

    def after_backward(self) -> None:
        """Note the gradients that a backward pass gave to leaves."""
        for v in self.leaves():
            g = v.tensor.grad
            found = None if g is None else self.value_of(g)
            if g is not None and found is None:
                self.capture.stop("a gradient of unknown origin")
                return
            if found is not self.gradients.get(v.number):
                self.gradients[v.number] = found
                self.cut(Step(set_gradient, [v.tensor, g], {}, "changes"))

    def after_optimizer(self, o: Any, clears: bool) -> None:
        """Note which gradients of its parameters a call of an optimizer set: all where it clears them, else those that
        this call knew. Whether there are others is as it was before, and a guard says so where it is asked."""
        c = self.capture
        for k, group in enumerate(o.param_groups):
            ids = c.guards.name([*map(id, group["params"])])
            c.guards.add(f"[*map(id, {c.guards.name(o)}.param_groups[{k}]['params'])] == {ids}")
            for t in group["params"]:
                v = self.value_of(t)
                known = v is not None and v.number in self.gradients
                if not (clears or known or id(t) in self.decided):
                    continue
                self.decided[id(t)] = t
                if v is not None:
                    self.gradients.pop(v.number, None)
        c.guards.add(f"len({c.guards.name(o)}.param_groups) == {len(o.param_groups)}")


def set_gradient(t: Tensor, g: Tensor | None) -> None:
    t._grad = g


def fits(t: Tensor, a: Any) -> bool:
    """Whether a tensor that got another array has one like it was."""
    b = t._array
    return (
        b.__class__ is a.__class__
        and b.dtype is a.dtype
        and b.shape == a.shape
        and b.strides == a.strides
    )


def described(v: Any) -> Any:
    """Tensors without memory of the shapes, strides, dtypes of others."""
    if isinstance(v, Tensor):
        return tensor_around(meta.like(v._array))
    if isinstance(v, (tuple, list)):
        return tuple(described(x) for x in v)
    return v
