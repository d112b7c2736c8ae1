"""What the nodes of a graph below autograd compute, as functions of arrays.

`call_of` finds the operator that a node calls and does once what a call of it does every time: arguments are
bound, numbers and arrays of other dtypes promoted, the kernel is looked up. What has no such form is called on
tensors, as the public operator.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from rushlight._backends import complex32, devices
from rushlight._backends import cpu as xp
from rushlight._backends.index import MAY_GIVE_NONE
from rushlight.core import dtypes
from rushlight.core.dtype_sets import FLOATING, FULL, I64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import general, registry
from rushlight.dispatch.older_orders import ordered
from rushlight.dispatch.overloads import OpOverload
from rushlight.dispatch.record import NUMBERS
from rushlight.fx import Node
from rushlight.fx.immutable_collections import immutable_list
from rushlight.library import CustomOpDef
from rushlight.ops.factories import creation
from rushlight.rng import generator, sampling

# Operators that give the array that they are given; those that make an array of shapes and numbers alone.
SAME = frozenset("alias detach lift_fresh".split())
MAKERS = frozenset(
    "arange eye full full_like linspace new_full new_ones new_zeros ones ones_like scalar_tensor "
    "zeros zeros_like".split()
)
EMPTY = frozenset(("empty", "new_empty", "empty_strided", "new_empty_strided"))
# Operators that make an array like another one, and how random numbers are drawn into it; in-place operators that draw.
LIKE: dict[str, tuple] = {
    "empty_like": (), "rand_like": ("uniform_", 0.0, 1.0), "randn_like": ("normal_", 0.0, 1.0),
}  # fmt: skip
DRAWING = {"bernoulli_": (0.5,), "normal_": (0.0, 1.0), "uniform_": (0.0, 1.0)}
# In-place operators whose result is another view of the memory, which they leave as it is.
RESHAPING = frozenset(
    "as_strided_ resize_ set_ squeeze_ swapaxes_ swapdims_ t_ transpose_ unsqueeze_ detach_".split()
)

# Operators that also write to some of their arguments where the argument TRAINING says so: the places of these.
TRAINING = 5
FILLS = dict.fromkeys(("_batch_norm", "native_batch_norm", "_native_batch_norm_legit"), (3, 4))
LEAVES = frozenset((int, float, bool, str, type(None), dtypes.dtype))  # that hold no nodes
NESTED = frozenset(
    (tuple, list, immutable_list)
)  # arguments that hold arguments; named tuples are values


class Cast:
    """An argument that comes to another dtype first."""

    __slots__ = ("node", "dtype")

    def __init__(self, node: Node, dtype: np.dtype) -> None:
        self.node, self.dtype = node, dtype

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Cast) and (self.node, self.dtype) == (other.node, other.dtype)

    def __hash__(self) -> int:
        return hash((self.node, self.dtype))

    def __repr__(self) -> str:
        return f"Cast({self.node!r}, {self.dtype!r})"


def laid(function: Callable, args: Any, shape: tuple, strides: tuple) -> Callable:
    """A function whose results of a shape are given strides, in elements, where arrays lie as `args` do."""

    def layouts(args: Any) -> list:
        return [a.strides for a in args if a.__class__ is np.ndarray]

    known = layouts(args)

    def call(*args: Any, **kwargs: Any) -> Any:
        r = function(*args, **kwargs)
        alike = r.shape == shape and layouts(args) == known
        return xp.with_strides(r, strides) if alike else r

    call.__name__ = f"{getattr(function, '__name__', 'call')}_laid"
    return call


class Call:
    """One node as `function(*args, **kwargs)`, of arrays: nodes and `Cast`s among the arguments are read.

    `pure`: what it gives depends on its arguments alone, and it changes nothing. `writes`: the node whose memory is
    written, which is what the call gives; `fills`: others that are written to. `draws`: it may take random numbers. `view`: it gives another view of its first argument. `forward`: what is
    computed, as a function of a back end and of what gives the values of nodes. `lies`: its result lies in memory as
    Note [Layouts of results] says.
    """

    __slots__ = (
        "node", "function", "args", "kwargs", "pure", "draws", "writes", "view", "forward", "fills", "lies", "_read",
    )  # fmt: skip

    def __init__(
        self, node: Node, function: Callable, args: tuple, kwargs: dict | None = None, *,
        pure: bool = False, writes: Node | None = None, view: bool = False,
        forward: Callable | None = None,
    ) -> None:  # fmt: skip
        self.node, self.function, self.args, self.kwargs = node, function, args, kwargs or {}
        self.pure, self.writes, self.view, self.forward = pure, writes, view, forward
        self.draws, self.lies = not pure, False
        self._read: tuple[tuple, dict, list[Node]] | None = None
        places = FILLS.get(getattr(node.target, "_opname", ""), ())
        training = bool(places) and node.args[TRAINING]
        self.fills = [n for k in places if training and isinstance(n := node.args[k], Node)]

    @property
    def written(self) -> list[Node]:
        """The nodes whose memory is written to."""
        return self.fills if self.writes is None else [*self.fills, self.writes]

    def reads(self) -> list[Node]:
        """The nodes among its arguments."""
        known = self._read
        if known is None or known[0] is not self.args or known[1] is not self.kwargs:
            known = self._read = self.args, self.kwargs, nodes_in((self.args, self.kwargs))
        return known[2]

    def run(self, value: Callable[[Node], Any]) -> Any:
        """What it gives; `value` gives those of nodes."""
        args, kwargs = filled(self.args, value), filled(self.kwargs, value)
        return self.function(*args, **kwargs)


def nodes_in(value: Any) -> list[Node]:
    """The nodes in nested arguments."""
    found: list[Node] = []
    gather((value,), found)
    return found


def gather(values: Iterable, found: list[Node]) -> None:
    """Append the nodes among nested arguments."""
    for value in values:
        kind = value.__class__
        if kind is Node:
            found.append(value)
        elif kind in LEAVES:
            continue
        elif kind in NESTED:
            gather(value, found)
        elif kind is Cast:
            found.append(value.node)
        elif isinstance(value, dict):
            gather(value.values(), found)
        elif kind is slice:
            gather((value.start, value.stop, value.step), found)


class Unseen:
    """An array whose elements are not known: asking whether they are zero, or compare with others, raises."""

    def __bool__(self) -> bool:
        raise TypeError("the elements of an array are not known")

    def __eq__(self, other: object) -> bool:
        raise TypeError("the elements of an array are not known")

    __hash__ = object.__hash__


class Known(Unseen):
    """An array of which the shape and the dtype are known; a forward that asks for more raises."""

    def __init__(self, node: Node | Cast, a: Any) -> None:
        self.node, self.shape, self.dtype = node, a.shape, a.dtype
        self.ndim, self.size = a.ndim, a.size


class OneKernel(Unseen):
    """A back end whose kernels note how they are called, to find out whether a forward is one kernel."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, tuple]] = []

    def __getattr__(self, name: str) -> Callable:
        def kernel(*args: Any) -> Any:
            if any(callable(a) and not isinstance(a, (type, OneKernel)) for a in args):
                raise TypeError(f"{name} takes another kernel")
            self.calls.append((name, args))
            return self

        return kernel

    def cast(self, a: Known, to: np.dtype) -> Known:
        """An array in another dtype, where it is an input."""
        if not isinstance(a.node, Node):
            raise TypeError("cast twice")
        found = Known(Cast(a.node, to), a)
        found.dtype = to
        return found


def as_kernel_call(call: Call) -> Call:
    """A call whose forward is one kernel, of arguments that are known, as a call of this kernel."""
    space = OneKernel()
    try:
        result = call.forward(space, lambda n: Known(n, n.meta["val"]._array))  # type: ignore[misc]
    except Exception:  # it asks for more than is known
        return call
    if result is space and len(space.calls) == 1:
        ((name, args),) = space.calls
        if not any(v is space for v in args) and name not in MAY_GIVE_NONE:
            call.function = getattr(xp, name)
            call.args, call.kwargs = taken_out(args), {}
    return call


def taken_out(v: Any) -> Any:
    """Nested arguments with the nodes of known arrays in their places."""
    if isinstance(v, Known):
        return v.node
    if v.__class__ in NESTED:
        items = [taken_out(x) for x in v]
        return tuple(items) if isinstance(v, tuple) else items
    return v


def filled(value: Any, of: Callable[[Node], Any], cast: Callable | None = None) -> Any:
    """Nested arguments with the values of nodes in their places; `cast(value, dtype)` converts (None: `xp.cast`)."""
    kind = value.__class__
    if kind is Node:
        return of(value)
    if kind in LEAVES:
        return value
    if kind is Cast:
        return (cast or xp.cast)(of(value.node), value.dtype)
    if kind in NESTED:
        items = [filled(v, of, cast) for v in value]
        return tuple(items) if isinstance(value, tuple) else items
    if isinstance(value, dict):
        return {k: filled(v, of, cast) for k, v in value.items()}
    if isinstance(value, slice):
        return slice(*filled((value.start, value.stop, value.step), of, cast))
    return value


# -- which call a node is ----------------------------------------------------------------------------


def call_of(node: Node) -> Call:
    """The call of a `call_function` node."""
    target = node.target
    if target is operator.getitem:
        return Call(node, target, node.args, pure=True, view=True)
    if not isinstance(target, OpOverload):
        return on_tensors(node)
    name = target._opname
    if name in ("copy_", "fill_") and len(node.args) > 1:
        return copying(node)
    if name in EMPTY and (made := new_memory(node)) is not None:
        return made
    if name in LIKE and (made := new_alike(node, *LIKE[name])) is not None:
        return made
    if name in DRAWING and (made := drawn_into(node, DRAWING[name])) is not None:
        return made
    function = target.overloadpacket.resolved()
    if (of := getattr(function, "gradient_of", None)) is not None:
        return gradient(node, *of) or on_tensors(node)
    op = getattr(function, "op", None)
    if op is None or op.composite or not plain(node):
        return on_tensors(node, pure=name in MAKERS)
    inplace = name.endswith("_") and not name.endswith("__")
    try:
        return on_arrays(node, op, inplace, getattr(function, "kept", False)) or on_tensors(node)
    except (TypeError, RuntimeError):  # the operator says what is wrong when it is called
        return on_tensors(node)


def plain(node: Node) -> bool:
    """Whether all arrays of a node have NumPy's dtypes, on the CPU, and no bit says that they are read conjugated or negated."""
    for n in (*node.all_input_nodes, node):
        if n.meta.get("marked"):
            return False
        v = n.meta.get("val")
        for t in v if v.__class__ in NESTED else (v,):
            if isinstance(t, Tensor) and t._array.dtype is complex32.C32:
                return False
    return True


def on_tensors(node: Node, pure: bool = False) -> Call:
    """A call of the public operator."""
    target: Any = node.target
    name = getattr(target, "_opname", "")
    inplace = name.endswith("_") and not name.endswith("__") and name not in RESHAPING
    own = getattr(getattr(target, "overloadpacket", None), "_called", None)
    custom = own if isinstance(own, CustomOpDef) else None
    writes = None if custom is not None else node.args[0] if inplace else node.kwargs.get("out")
    target = target if custom is not None or own is None or target.called else own

    def call(*args: Any, **kw: Any) -> Any:
        return array_of(target(*map(tensor_of, args), **{k: tensor_of(v) for k, v in kw.items()}))

    call.__name__ = name or getattr(target, "__name__", "call")
    made = Call(node, call, node.args, dict(node.kwargs), pure=pure, writes=writes)  # type: ignore[arg-type] # a node
    if custom is not None:
        made.fills = nodes_in(custom.written_of(node.args, node.kwargs))
    made.view = bool(node.meta.get("marked"))  # no operator makes new memory with a bit
    return made


def tensor_of(v: Any) -> Any:
    """Arrays, also those in lists, as tensors."""
    if isinstance(v, np.ndarray):
        return _wrap(v)
    return type(v)(map(tensor_of, v)) if v.__class__ in (list, tuple) else v


def array_of(v: Any) -> Any:
    """Tensors, also those in tuples, as arrays."""
    if isinstance(v, Tensor):
        return v._array
    return tuple(map(array_of, v)) if isinstance(v, (tuple, list)) else v


def copying(node: Node) -> Call:
    """`a.copy_(b)`, and `a.fill_(b)` of a tensor."""
    into, source, *_ = node.args

    def copy(into: Any, source: Any) -> Any:
        xp.copyto(into, source, casting="unsafe")
        return into

    if not plain(node) or not isinstance(source, Node) or "c" in (kind_of(into), kind_of(source)):
        return on_tensors(node)
    made = Call(node, copy, (into, source), writes=into)  # type: ignore[arg-type]
    made.draws = False
    made.forward = lambda space, value: space.cast(value(source), dtype_of(into))
    return made


def new_memory(node: Node) -> Call | None:
    """Memory of a known layout; None where it is not that of a plain array, or depends on numbers that are computed."""
    a = node.meta["val"]._array
    if not all_tensors(node) or not asked(node) <= {"dtype"} or not plain(node):
        return None
    if a.flags.c_contiguous:
        return Call(node, xp.empty, (a.shape, a.dtype))
    strides = tuple(s // a.itemsize for s in a.strides)
    return Call(node, xp.empty_strided, (a.shape, a.dtype, strides))


def new_alike(node: Node, sampler: str = "", *numbers: float) -> Call | None:
    """Memory laid out as an array is, where a sampler is named with numbers that it draws."""
    like, order = node.args[0], node.kwargs.get("memory_format")
    if len(node.args) > 1 or not asked(node) <= {"dtype", "memory_format"} or not plain(node):
        return None
    dtype = dtype_of(node)
    draw = getattr(sampling, sampler) if sampler else None

    def new(a: Any) -> Any:
        made = creation.empty_array(a.shape, dtype, creation.preserved(a, order))
        if draw is not None:
            draw(made, *numbers, generator.default_generator)
        return made

    new.__name__ = node.target._opname  # type: ignore[union-attr]
    return Call(node, new, (like,))


def drawn_into(node: Node, numbers: tuple) -> Call | None:
    """Random numbers into the memory of an array. `numbers`: which the sampler gets where no others are given."""
    into, *given = node.args
    numbers = (*given, *numbers[len(given) :])
    if node.kwargs or not all(isinstance(v, (int, float)) for v in numbers) or not plain(node):
        return None
    name = node.target._opname  # type: ignore[union-attr]
    draw = getattr(sampling, name)

    def drawn(a: Any) -> Any:
        draw(a, *numbers, generator.default_generator)
        return a

    drawn.__name__ = name
    return Call(node, drawn, (into,), writes=into)  # type: ignore[arg-type]


def asked(node: Node) -> set[str]:
    """The options that a node gives a value."""
    return {k for k, v in node.kwargs.items() if v is not None and v is not False}


def all_tensors(node: Node) -> bool:
    """Whether all that a node reads of others are tensors."""
    return all(isinstance(n.meta["val"], Tensor) for n in node.all_input_nodes)


def dtype_of(node: Any) -> np.dtype:
    return node.meta["val"]._array.dtype


def kind_of(node: Any) -> str:
    return dtype_of(node).kind


def on_arrays(node: Node, op: registry.Op, inplace: bool, kept: bool) -> Call | None:
    """The forward of an operator; None where it has no plain one."""
    values, out = general.bind(op, tuple(map(tupled, node.args)), dict(node.kwargs))
    if out is not None:
        return None
    named = dict(zip(op.params, ordered(op, values), strict=True))
    if op.variant is not None:
        known = {p: filled(v, lambda n: n.meta["val"]) for p, v in named.items()}
        if (other := op.taken_over(known)) is not None:
            op, named = other, {p: named[p] for p in other.params}
    if op.composite or inplace and (op.write is not None or not op.elementwise):
        return None
    first = named[op.inputs[0]] if inplace else None
    if op.promote is not None:
        promoted(op, named)
    elif not all(isinstance(n, Node) or n is None for i in op.inputs for n in listed(named[i])):
        return None
    forward = forward_of(op)
    n = len(op.outputs) if type(op.outputs) is tuple else 1
    first_kernel = getattr(xp, op.first) if op.first else None

    def call(*values: Any) -> Any:
        if first_kernel is not None and (found := first_kernel(*values)) is not None:
            return found
        result = forward(xp, *values)
        if op.intermediates:
            return result if kept else result[0] if op.outputs is None else result[:n]
        return result

    def write(into: Any, *values: Any) -> Any:
        xp.copyto(into, forward(xp, *values), casting="unsafe")
        return into

    order = tuple(named.values())
    if inplace:
        made = Call(node, write, (first, *order), writes=first)
        alone = as_kernel_call(
            Call(node, write, (), forward=lambda s, v: forward(s, *filled(order, v, s.cast)))
        )
        if alone.args and writes_over(op, alone, first):
            kernel = alone.function

            def over(into: Any, *args: Any) -> Any:
                return kernel(*args, out=into)

            over.__name__ = op.name + "_"
            made.function = over
            made.args = (first, *alone.args)
    elif op.kernel and not op.has_body:
        made = Call(node, getattr(xp, op.kernel), tuple(named[i] for i in op.inputs), pure=True)
    else:
        made = Call(node, call, order, pure=is_pure(op))
    made.draws = not is_pure(op)
    made.lies = not inplace and op.operands() is not None
    call.__name__ = write.__name__ = op.name
    made.view = op.view
    if not op.view and op.path == "_to_copy" and isinstance(dtype := named["dtype"], dtypes.dtype):
        made.forward = lambda space, value: space.cast(value(named["input"]), dtype.np)
    elif op.path == "clone":
        made.forward = lambda space, value: space.cast(
            value(named["input"]), dtype_of(named["input"])
        )
    # one with a `try` says itself what is wrong, and is more than its kernel
    elif not op.view and not (op.has_body and op.declared.__code__.co_exceptiontable):
        made.forward = lambda space, value: forward(space, *filled(order, value, space.cast))
        if not inplace and (kept or not op.intermediates):
            return as_kernel_call(made)
    return made


def writes_over(op: registry.Op, call: Call, first: Any) -> bool:
    """Whether a kernel can write its result, of the dtype of its arrays, over the memory of the first."""
    d = dtype_of(first)
    arrays = [v for v in call.args if isinstance(v, (Node, Cast))]
    alike = all(isinstance(v, Node) and dtype_of(v) is d for v in arrays)
    name = call.function.__name__
    return alike and op.promote in ("same", "float") and hasattr(xp, name) and xp.takes_out(name)


def is_pure(op: registry.Op) -> bool:
    """Whether an operator draws no random numbers."""
    return "rng" not in op.declared.__code__.co_names and "dropout" not in op.path


def forward_of(op: registry.Op) -> Callable:
    """The forward as a function of a back end and the values of all parameters."""
    if op.has_body:
        n = op.n_positional
        rest = op.params[n:]
        more = (True,) if op.intermediates else ()

        def forward(space: Any, *values: Any) -> Any:
            return op.declared(
                space, *values[:n], *more, **dict(zip(rest, values[n:], strict=True))
            )

        return forward
    at = [k for k, p in enumerate(op.params) if p in op.inputs]
    kernel: str = op.kernel  # type: ignore[assignment]
    return lambda space, *values: getattr(space, kernel)(*[values[k] for k in at])


def tupled(v: Any) -> Any:
    """Lists of numbers as tuples; lists with tensors stay lists."""
    if v.__class__ in NESTED:
        items = [tupled(x) for x in v]
        return items if any(isinstance(x, Node) for x in items) else tuple(items)
    return v


def listed(v: Any) -> Any:
    return v if v.__class__ in NESTED else (v,)


def promoted(op: registry.Op, named: dict) -> None:
    """Bring the inputs to one dtype, as `general.promote` does with arrays."""
    arrays: dict[str, Any] = {}
    for i in op.inputs:
        v = named[i]
        if isinstance(v, list):
            arrays[i] = [n.meta["val"]._array for n in v]
        elif isinstance(v, Node):
            arrays[i] = v.meta["val"]._array
        elif isinstance(v, NUMBERS):
            arrays[i] = v
    if not any(devices.is_array(a) for a in arrays.values()):
        raise TypeError("numbers only")
    d = general.common_dtype(arrays)
    in_dimensions = any(
        getattr(a, "ndim", 0) for a in arrays.values()
    )  # NumPy promotes 0-d arrays as numbers
    if op.promote == "float" and d.kind < 2:
        d = general.modes.get_default_dtype()
    if op.accepts is not None and "bifc"[d.kind] not in op.accepts:
        raise RuntimeError("not implemented")
    for i, a in arrays.items():
        if isinstance(a, list):
            named[i] = [
                n if b.dtype is d.np else Cast(n, d.np) for n, b in zip(named[i], a, strict=True)
            ]
        elif devices.is_array(a):
            if a.dtype is not d.np:
                named[i] = Cast(named[i], d.np)
        else:
            beside = in_dimensions and i != op.inputs[0]  # kernels look at their first argument
            named[i] = number(a, d.np) if beside else xp.number(a, d.np)


def number(value: Any, d: np.dtype) -> Any:
    """A number as kernels of a dtype take it."""
    if d in FULL and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if d is I64 and value.__class__ is int and -(1 << 63) <= value < 1 << 63:
        return value
    return xp.number(value, d)


def gradient(node: Node, op: registry.Op, rule: registry.Rule, back: Callable) -> Call | None:
    """The kernel of a gradient rule; None where the rule itself runs."""
    kernel: Any = rule.kernel
    if kernel is None or not plain(node):
        return None
    given = back(*map(tupled, node.args), **node.kwargs)
    env = dict(zip(rule.reads, given, strict=True))
    values = tuple(env[n] for n in rule.kernel_names)
    read = [v for v in values if isinstance(v, Node)]
    if not read or dtype_of(read[0]) not in FLOATING:
        return None
    if isinstance(kernel, str):
        if any(dtype_of(v) is not dtype_of(read[0]) for v in read):
            return None
        made = Call(node, getattr(xp, kernel), values, pure=True)
        made.forward = lambda space, value: getattr(space, kernel)(*filled(values, value))
        return made
    otherwise = on_tensors(node).function

    def call(given: tuple, *every: Any) -> Any:
        found = kernel(xp, *given)
        return otherwise(*every) if found is NotImplemented else found

    call.__name__ = node.target._opname  # type: ignore[union-attr]
    made = Call(node, call, (values, *node.args), pure=True)
    made.forward = lambda space, value: kernel(space, *filled(values, value))
    return as_kernel_call(made)
