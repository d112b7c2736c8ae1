"""Recording a call on the general way: the node, what it saves, and how it runs its rules.

The printed functions of specialise.py record the commonest calls themselves, with the same edges
and the same rules.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices, sparse
from rushlight.autograd.graph import (
    Hooks,
    Node,
    Output,
    Version,
    new,
    raise_freed,
)
from rushlight.autograd.state import active, thread
from rushlight.autograd.views import View
from rushlight.core import dtypes
from rushlight.core.dtype_sets import COMPLEX, FLOATING
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import handlers
from rushlight.dispatch.saved import SavedResult, save
from rushlight.dispatch.transforms import Lifted, highest

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.registry import Op, Rule

NOT_PLAIN = (
    np.ndarray,
    sparse.Sparse,
    Lifted,
)  # subclasses of NumPy's: of tensor subclasses, of the meta device
NUMBERS = (int, float, complex, bool, np.number, np.bool_)


class OutputInfo:
    """Shape, dtype and back end of one of several outputs, for the zeros of an unused one."""

    __slots__ = ("shape", "kind", "xp")

    def __init__(self, a: Any) -> None:
        self.shape, self.kind, self.xp = a.shape, a.dtype, devices.of(a)

    @staticmethod
    def of_all(arrays: list) -> list[OutputInfo]:
        """That of each of some arrays of one dtype; those of one shape share it."""
        first = OutputInfo(arrays[0]) if arrays else None
        return [first if a.shape == first.shape else OutputInfo(a) for a in arrays]

    def zeros(self, gs: list) -> Tensor:
        """Zeros of that shape, dtype and device; spread as the gradients of other outputs are, if they are."""
        t = new(Tensor)
        t._array, t._edge, t._counter = self.xp.zeros(self.shape, self.kind), None, None
        given = None
        for given in gs:
            if given is not None:
                break
        if given.__class__ is not Tensor and hasattr(given.__class__, "_spread_zeros"):
            return given._spread_zeros(self.shape, t.dtype)
        if thread.dispatch_modes:  # they see how they are made
            import rushlight

            return rushlight.zeros(self.shape, dtype=t.dtype, device=t.device)
        return t


def record(op: Op, named: dict, wrapped: list) -> None:
    """Make the node of a call and hang it on its results."""
    node = make_node(op, named, wrapped)
    if node is None:
        return
    several, named_outputs = len(wrapped) > 1, op.outputs.__class__ is tuple
    for nr, t in enumerate(wrapped):
        if t is None or t._array.dtype.kind in "bui":
            continue
        if named_outputs and not differentiable_output(op, nr):
            continue
        edge = Output(node, nr) if several else node
        if t._edge.__class__ is View:
            t._edge.node = edge
        else:
            t._edge = edge


@functools.cache
def differentiable_output(op: Op, nr: int) -> bool:
    g = f"g_{op.outputs[nr]}"
    return any(
        g in rule.reads or (nr == 0 and "g" in rule.reads)
        for rule in ((op.rule_all,) if op.rule_all else op.rules.values())
    )


def named_outputs(op: Op) -> tuple[str, ...]:
    """The names of several outputs; none of an operator with one, or with a list of them."""
    return op.outputs if op.outputs.__class__ is tuple else ()


def output_number(op: Op, name: str) -> int | None:
    """Which of several outputs a rule means by a name."""
    made = named_outputs(op)
    return made.index(name) if name in made else 0 if made and name == "result" else None


def edge_of_saved(node: OpNode, name: str) -> Any:
    """The edge of what a node saved under a name: a result has one, others have their own."""
    if (nr := output_number(node.op, name)) is not None and node._n_outputs > 1:
        return Output(node, nr) if differentiable_output(node.op, nr) else None
    return node if name == "result" else None


STATIC, GIVEN, OUTPUT, LIST, SHAPE, DTYPE = range(6)


def plan(op: Op, want: tuple[str, ...]) -> list[tuple[str, int, Any]]:
    """What the rules of the inputs `want` read, each with what it is and of which input or output."""
    found = op.plans.get(want)
    if found is None:
        found = op.plans[want] = []
        for n in op.saved_names(want):
            if isinstance(op.outputs, tuple) and n[:2] == "g_" and n[2:] in op.outputs:
                continue  # a gradient: it comes, it is not saved
            what, of = STATIC, None
            if n in op.lists:
                what = LIST
            elif n in op.inputs or n in op.intermediates:
                what = GIVEN
            elif n == "result" or n in named_outputs(op):
                what, of = OUTPUT, output_number(op, n) or 0
            elif n.endswith(("_shape", "_dtype")) and n not in op.statics:
                what, of = (SHAPE if n.endswith("_shape") else DTYPE), n[:-6]
            elif n not in op.statics:
                continue  # the gradient of an output
            found.append((n, what, of))
    return found


def make_node(op: Op, named: dict, wrapped: list) -> Node | None:
    """The general node of a call: edges, what the wanted rules read, traces.

    `named`: the values of all parameters, and the intermediates, by name. `wrapped`: the results.
    """
    want, edges, shapes = wanted_inputs(op, named)
    if not want:
        return None
    name = op._node
    if name.__class__ is not str:
        name = op.node_name(named if op.names_node else None)
    if op.scalar_nodes:
        numbers = [i for i in op.inputs if isinstance(named[i], NUMBERS)]
        name = op.node_name_with_numbers(numbers) or name
    node = new(op.classes(name)[1])
    node._edges, node.unbroadcast_to = tuple(edges), tuple(shapes)
    node.hooks = node.result_version = None
    node.outputs = [None if t is None else OutputInfo(t._array) for t in wrapped]
    saved, values = read_by_rules(op, tuple(want), named, wrapped)
    frees = bool(saved) or "at" in values  # index tensors are freed as saved tensors are
    node.saved, node.statics = saved if frees else None, (values, frees)
    if thread.anomaly:
        from rushlight.autograd import anomaly_mode

        node.hooks = Hooks()
        anomaly_mode.trace(node)
    return node


def wanted_inputs(op: Op, named: dict) -> tuple[list, list, list]:
    """(the names of the inputs that have a history; of each tensor among all inputs its edge, its shape and dtype).

    Edge and shape are None where a tensor has no history, or no rule.
    """
    want: list[str] = []
    edges: list[Any] = []
    shapes: list[tuple | None] = []
    rules = op.inputs if op.rule_all else op.rules
    for i in op.inputs:
        v = named[i]
        ruled = i in rules
        for t in v if i in op.lists else (v,):
            e = t._edge if ruled and isinstance(t, Tensor) else None
            if e.__class__ is View:
                e = e.resolve()
            edges.append(e)
            if e is None:
                shapes.append(None)
                continue
            shapes.append((t._array.shape, t._array.dtype))
            if i not in want:
                want.append(i)
    return want, edges, shapes


def read_by_rules(op: Op, want: tuple, named: dict, wrapped: list) -> tuple[dict, dict]:
    """(the saved tensors, the other values) that the rules of the inputs `want` read, by name."""
    saved: dict[str, Any] = {}
    values: dict[str, Any] = {}
    for n, what, of in plan(op, want):
        if what == STATIC:
            values[n] = named[n]
        elif what == GIVEN:
            v = named[n]
            if n in op.intermediates and devices.is_array(v):
                v = _wrap(v)
            if isinstance(v, Tensor):
                saved[n] = save(v, False)
            else:
                values[n] = v
        elif what == OUTPUT:
            saved[n] = save(wrapped[of], True)
        elif what == LIST:
            saved[n] = [save(t, False) for t in named[n]]
        elif what == SHAPE:
            v = named[of]
            if of in op.lists:
                values[n] = [t._array.shape for t in v]
            else:
                values[n] = v._array.shape if isinstance(v, Tensor) else ()
        else:
            v = named[of]
            if of in op.lists:
                values[n] = [t.dtype for t in v]
            else:
                values[n] = v.dtype if isinstance(v, Tensor) else None
    return saved, values


class OpNode(Node):
    """A node that an operator recorded."""

    __slots__ = ()
    op: Op
    saved_layout: tuple[list, list] = ([], [])


class GeneralNode(OpNode):
    """The node of a call that took the general way: reads its rules name by name."""

    __slots__ = ()

    @property
    def _n_outputs(self) -> int:  # type: ignore[override]  # a number of the class in `Node`, here of the call
        return len(self.outputs)

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        """The gradients of the inputs, one for each edge (None where none is wanted), from the gradient `g` of the
        result."""
        op = self.op
        values, has_saved = self.statics
        env = dict(values)
        if has_saved:
            if self.saved is None:
                raise_freed(self)
            for n, s in self.saved.items():
                if s.__class__ is list:
                    env[n] = [x.unpack(self, n, None) for x in s]
                elif s.__class__ is not SavedResult or s.seen == s.version.n or op.is_read(n):
                    env[n] = s.unpack(self, n, edge_of_saved(self, n))
            if not keep:
                self.saved = None
        if op.conjugates:
            for n, v in env.items():
                env[n] = conjugated(v)
        if len(self.outputs) > 1:
            self.spread(env, g)
        else:
            env["g"] = g if op.outputs != "list" else [g]
        if op.rule_all:
            return unbroadcast_all(self.gradients_of_all(env, edges, record), self.unbroadcast_to)
        flat = []
        at = 0
        for i in op.inputs:
            if i in op.lists:
                k = self.width(i)
                if i in op.rules and any(e is not None for e in edges[at : at + k]):
                    flat += gradient(op, op.rules[i], env, record)
                else:
                    flat += [None] * k
                at += k
                continue
            if edges[at] is not None and i in op.rules:
                flat.append(gradient(op, op.rules[i], env, record))
            else:
                flat.append(None)
            at += 1
        return unbroadcast_all(tuple(flat), self.unbroadcast_to)

    def gradients_of_all(self, env: dict, edges: tuple, record: bool) -> tuple:
        """What the one rule of all inputs gives, which is told by `needs` which of them want a gradient."""
        op, at = self.op, 0
        needs: list = []
        for i in op.inputs:
            k = self.width(i) if i in op.lists else 1
            part = [e is not None for e in edges[at : at + k]]
            needs.append(part if i in op.lists else part[0])
            at += k
        env["needs"] = tuple(needs)
        found: list = []
        for i, x in zip(op.inputs, gradient(op, op.rule_all, env, record), strict=True):  # type: ignore[arg-type]  # there is one
            if i in op.lists:
                found += x if x is not None else [None] * self.width(i)
            else:
                found.append(x)
        return tuple(found)

    def width(self, name: str) -> int:
        """How many edges the list input `name` has."""
        return len(self._edges) - (len(self.op.inputs) - 1)

    def spread(self, env: dict, g: list) -> None:
        """Name the gradients of several outputs; one that nobody sent is zeros, or None where the rule says so."""
        op = self.op
        if op.outputs == "list":
            pairs = zip(g, self.outputs, strict=True)
            env["g"] = [info.zeros(g) if x is None else x for x, info in pairs]
            return
        asked, optional = op.read_by_rules()
        for name, x, info in zip(op.outputs, g, self.outputs, strict=True):
            if (n := f"g_{name}") in asked:
                env[n] = info.zeros(g) if x is None and n not in optional else x
        if "g" in asked:
            info = self.outputs[0]
            env["g"] = g[0] if g[0] is not None else info.zeros(g)


def gradient(op: Op, rule: Rule, env: dict, record: bool) -> Any:
    """What a rule gives for the values `env`: by its kernel where nothing is recorded and there is one that
    takes them, else in operators."""
    found = NotImplemented
    if not record and (a := highest([v._array for v in env.values() if isinstance(v, Tensor)])):
        found = a.by_rule(op, rule, env)
    elif not record and (rule.takes(env) or rule.by_elements and handlers.own_operators()):
        if handlers.asked(env.values()):
            return handlers.carried["gradient"](op, rule, env)
        if rule.takes(env):
            found = from_arrays(op, rule, env)
    if found is not NotImplemented:
        return found
    return rule.function(**{n: env[n] for n in rule.names})


def from_arrays(op: Op, rule: Rule, env: dict) -> Any:
    """What the kernel of a rule gives, wrapped; NotImplemented where it does not take the values."""
    kernel, values, cls = rule.kernel, [], None
    for n in rule.kernel_names:
        v = env[n]
        if isinstance(v, Tensor):
            v = v._array
            if cls is None:  # the gradient of an output
                cls, d, space = v.__class__, v.dtype, devices.of(v)
                if d not in FLOATING or cls is not np.ndarray and issubclass(cls, NOT_PLAIN):
                    return NotImplemented
            elif v.__class__ is not cls or kernel.__class__ is str and v.dtype is not d:
                return NotImplemented
        values.append(v)
    if kernel.__class__ is str:
        kernel = getattr(space, kernel)
    else:
        values.insert(0, space)
    if active.modes:
        kernel = watched(op, kernel)
    try:
        found = kernel(*values)
    except RuntimeWarning:  # warnings are errors: operators are called again without them
        return NotImplemented
    return wrapped(found)


def wrapped(v: Any) -> Any:
    """Arrays, or a tuple of them, as tensors; anything else as it is."""
    if v.__class__ is np.ndarray:
        return _wrap(v)
    if v.__class__ is tuple:
        return tuple(map(wrapped, v))
    if isinstance(v, np.generic):
        v = xp.asarray(v)
    return _wrap(v) if devices.is_array(v) else v


# Modes that want to know of the kernels of rules: functions of (op, arguments of the kernel, call) that make the
# call.
around_kernels: list[Callable] = []


def watched(op: Op, kernel: Callable) -> Callable:
    """The kernel of a rule of `op`, as it is called while a mode is on."""

    def run(*values: Any) -> Any:
        if thread.dispatch_modes:
            raise RuntimeWarning  # the rule is called instead, whose operators the modes get
        call = functools.partial(kernel, *values)
        given = values if devices.is_array(values[0]) else values[1:]
        for enter in around_kernels:
            call = functools.partial(enter, op, given, call)
        return call()

    return run


def conjugated(v: Any) -> Any:
    if isinstance(v, Tensor):
        return v.conj_physical() if v._array.dtype in COMPLEX else v
    return v.conjugate() if v.__class__ is complex else v


def d0(value: Any, dtype: dtypes.dtype) -> Tensor:
    """A Python number as a 0-d tensor."""
    t = new(Tensor)
    t._array, t._edge, t._counter = xp.number(value, dtype.np), None, None
    return t


def unbroadcast(g: Tensor, shape: tuple, dtype: np.dtype) -> Tensor:
    """A gradient in the shape and dtype of its input: undoes broadcasting and promotion."""
    a = g._array
    if a.shape != shape:
        if g._edge is None and a.__class__ is np.ndarray and not active.modes:
            g = wrapped(xp.sum_to(a, shape))
        else:
            g = g.sum_to_size(shape)
    if g._array.dtype is not dtype and g._array.dtype != dtype:
        d = dtypes.OF[dtype]
        if g.dtype.is_complex and not d.is_complex:
            g = g.real
        if g.dtype is not d:
            g = g.to(d)
    return g


def unbroadcast_all(gradients: tuple, inputs: tuple) -> tuple:
    """The gradients in the (shape, dtype) of their inputs; None stands for no gradient, and for none wanted."""
    found = []
    for g, want in zip(gradients, inputs, strict=True):
        if g is not None and want is not None:
            if g._array.shape != want[0] or g._array.dtype is not want[1]:
                g = unbroadcast(g, *want)
        found.append(g)
    return tuple(found)


def saved_attribute(node: OpNode, name: str) -> Any:
    """`grad_fn._saved_other` and its like: what the node saved under a rule's name."""
    op = node.op
    if isinstance(node, GeneralNode):
        values, has_saved = node.statics
        if name in values:
            return as_saved(op, name, values[name])
        if has_saved:
            if node.saved is None:
                raise_freed(node)
            if name in node.saved:
                s = node.saved[name]
                if s.__class__ is list:
                    return tuple(x.unpack(node, name, None) for x in s)
                return s.unpack(node, name, edge_of_saved(node, name))
        raise AttributeError(f"{node.name()} saved no {name!r}")
    tensors, statics = node.saved_layout
    if name in statics:
        if node.statics is None:
            raise_freed(node)
        return as_saved(op, name, node.statics[statics.index(name)])
    if name in tensors:
        if node.saved is None:
            raise_freed(node)
        at = 0
        for n in tensors:
            if n == name:
                break
            at += 2 if n in op.inputs else 1  # an input has its version beside it
        value = node.saved[at]
        if value.__class__ is SavedResult:
            return value.unpack(node, name, edge_of_saved(node, name))
        if name in op.intermediates:
            return wrapped(value)
        if name == "result":
            if getattr(node, "result_version", None) is None:
                node.result_version = Version()
            t = new(Tensor)
            t._array, t._edge, t._counter = value, node, node.result_version
            return t
        return value
    raise AttributeError(f"{node.name()} saved no {name!r}")


def as_saved(op: Op, name: str, value: Any) -> Any:
    if name in op.inputs and isinstance(value, (int, float, complex)):
        t = new(Tensor)
        t._array, t._edge, t._counter = xp.asarray(value), None, None
        return t
    return value
