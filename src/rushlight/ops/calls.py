"""The general way through a call of an operator: everything the straight-line functions leave out.

Python numbers and promotion, devices, tensor subclasses and modes, `out=` and in-place forms,
several outputs, lists of tensors, saved-tensor hooks, anomaly traces. See Note [Two ways through a
call] in registry.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dtypes, geometry, modes
from rushlight.autograd.graph import (
    Hooks,
    Node,
    Output,
    freed,
    new,
    stale,
    version_of,
)
from rushlight.autograd.state import thread
from rushlight.autograd.views import MULTI, View, check_writable, edge_of, rebase
from rushlight.backends import meta
from rushlight.backends import numpy as xp
from rushlight.ops import overrides
from rushlight.tensor import INFERENCE, Tensor

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from rushlight.ops.registry import Op

# The globals of all generated functions (generate.py fills in the rest). `rare` counts the modes that
# are on in any thread: when it is not zero, every call takes the general way.
scope: dict[str, Any] = {"rare": 0}

NUMBERS = (int, float, complex, bool, np.number, np.bool_)


class Built:
    """The functions of one operator: the public one, the one behind a Python operator, the slow ones."""

    def __init__(self, op: Op) -> None:
        self.op = op
        self.function: Any = None  # the public function
        self.method: Any = None  # the same, or with sizes as separate arguments: `x.view(2, 3)`
        self.operator: Any = None  # behind a Python operator
        self.inplace: Any = None  # the method `name_`

    def slow(self, *values: Any) -> Any:
        """The general call; `values` in the order of the parameters, then `out`."""
        return call(self.op, values)

    def slow_operator(self, input: Any, other: Any) -> Any:
        """`input <op> other`: NotImplemented for what is not a number nor a tensor."""
        op = self.op
        if not isinstance(other, (Tensor, *NUMBERS)) or not isinstance(input, (Tensor, *NUMBERS)):
            odd = other if isinstance(input, Tensor) else input
            if not hasattr(odd, "__torch_function__"):
                return NotImplemented
        values = [input, other, *(op.defaults[s] for s in op.params[2:])]
        return call(op, values)


# -- binding ---------------------------------------------------------------------------------------


def bind(op: Op, args: tuple, kwargs: dict) -> tuple[list, Any]:
    """The values of all parameters in order, and `out`."""
    out = kwargs.pop("out", None)
    if "axis" in kwargs and "axis" not in op.params and "dim" in op.params:
        kwargs["dim"] = kwargs.pop("axis")
    if "keepdims" in kwargs and "keepdim" in op.params:
        kwargs["keepdim"] = kwargs.pop("keepdims")
    if len(args) > op.n_positional:
        raise TypeError(
            f"{op.name}() takes {op.n_positional} positional argument"
            f"{'s' if op.n_positional != 1 else ''} but {len(args)} were given"
        )
    values = list(args)
    for p in op.params[len(args) :]:
        if p in kwargs:
            values.append(kwargs.pop(p))
        elif p in op.defaults:
            values.append(op.defaults[p])
        else:
            raise TypeError(
                f'{op.name}() missing 1 required positional arguments: "{p}"'
                f" (position {op.params.index(p) + 1})"
            )
    if kwargs:
        name = next(iter(kwargs))
        if name in op.params:
            raise TypeError(f"{op.name}() got multiple values for argument '{name}'")
        raise TypeError(f"{op.name}() got an unexpected keyword argument '{name}'")
    return values, out


def plain_function(op: Op) -> Callable:
    """The public function of an operator that only has the general way."""

    def function(*args: Any, **kwargs: Any) -> Any:
        values, out = bind(op, args, kwargs)
        return call(op, (*values, out) if op.has_out else values)

    return dressed(function, op)


def varargs_method(op: Op, function: Callable) -> Callable:
    """The method that takes its sizes one by one too: `x.view(2, 3)`, `x.view((2, 3))`."""
    at = op.params.index(op.varargs)

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Any:
        if len(args) >= at and args and not isinstance(args[0], (tuple, list)):
            if not (len(args) == 1 and args[0] is None):
                args = (*args[: at - 1], args[at - 1 :])
        return function(self, *args, **kwargs)

    return dressed(method, op)


def composite_function(op: Op) -> Callable:
    """The public function of an operator that is written in other operators."""
    declared = op.declared

    def function(*args: Any, **kwargs: Any) -> Any:
        if scope["rare"] or "out" in kwargs or "axis" in kwargs or "keepdims" in kwargs:
            values, out = bind(op, args, kwargs)
            return call_composite(op, values, out)
        for a in args:
            if isinstance(a, Tensor):
                if a._array.__class__ is overrides.Tagged:
                    break
            elif overrides.overriding(a):
                break
        else:
            return declared(*args, **kwargs)
        values, out = bind(op, args, kwargs)
        return call_composite(op, values, out)

    return dressed(function, op)


def call_composite(op: Op, values: list, out: Any) -> Any:
    if (handled := overrides.dispatch(op.function, op, values, out)) is not overrides.NOTHING:
        return handled
    n = op.n_positional
    result = op.declared(*values[:n], **dict(zip(op.params[n:], values[n:], strict=True)))
    if out is None:
        return result
    return write_out(op, out, result, [v for v in values if isinstance(v, Tensor)])


def dressed(function: Callable, op: Op) -> Callable:
    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = op.declared.__doc__
    function.__module__ = op.declared.__module__
    function.__wrapped__ = op.declared
    function.op = op
    return function


# -- the general call ------------------------------------------------------------------------------


def call(op: Op, values: Sequence) -> Any:
    """Call `op` on the values of its parameters (and `out`, where it has one)."""
    n = len(op.params)
    out = values[n] if len(values) > n else None
    values = list(values[:n])
    function = op.face or op.function
    if (handled := overrides.dispatch(function, op, values, out)) is not overrides.NOTHING:
        return handled
    if scope["rare"]:
        for enter in around:
            if (run := enter(op, values, out)) is not None:
                return run()
    return execute(op, values, out)


# Modes that stand around every call (profiler, autocast): each a function of (op, values, out) that
# returns None, or a function that makes the call. They raise `scope["rare"]` while they are on.
around: list[Callable] = []


def execute(op: Op, values: list, out: Any) -> Any:
    named = dict(zip(op.params, values, strict=True))
    if op.variant is not None and (other := op.variant(**named)) is not None:
        return execute(other, [named[p] for p in other.params], out)
    tensors = input_tensors(op, named)
    if out is not None and thread.grad and any(t is not None and t.requires_grad for t in tensors):
        raise RuntimeError(
            f"{op.name}(): functions with out=... arguments don't support automatic differentiation, "
            "but one of the arguments requires grad."
        )
    results = forward(op, named)
    wrapped = wrap(op, named, results)
    if op.differentiable and thread.grad and any(
        t is not None and t._edge is not None for t in tensors
    ):
        record(op, named, wrapped)
    result = packaged(op, wrapped)
    return result if out is None else write_out(op, out, result, tensors)


def input_tensors(op: Op, named: dict) -> list:
    """All tensors among the inputs, lists flattened; None for what is no tensor."""
    flat: list = []
    for i in op.inputs:
        v = named[i]
        if i in op.lists:
            if not isinstance(v, (list, tuple)):
                raise TypeError(
                    f"{op.name}(): argument '{i}' (position {op.params.index(i) + 1}) must be tuple of "
                    f"Tensors, not {kind(v)}"
                )
            for k, t in enumerate(v):
                if not isinstance(t, Tensor) and t is not None:
                    raise TypeError(
                        f"expected Tensor as element {k} in argument {op.params.index(i)}, "
                        f"but got {kind(t)}"
                    )
            flat += v
        else:
            flat.append(v if isinstance(v, Tensor) else None)
    return flat


def kind(v: Any) -> str:
    return "Tensor" if isinstance(v, Tensor) else type(v).__name__


def not_a_tensor(op: Op, name: str, v: Any) -> TypeError:
    return TypeError(
        f"{op.name}(): argument '{name}' (position {op.params.index(name) + 1}) must be Tensor, "
        f"not {kind(v)}"
    )


def forward(op: Op, named: dict) -> Any:
    """Arrays of the inputs, promoted; the forward's arrays."""
    arrays: dict[str, Any] = {}
    on_meta = False
    on_cpu = None
    for i in op.inputs:
        v = named[i]
        if i in op.lists:
            arrays[i] = [None if t is None else t._array for t in v]
            found = arrays[i]
        elif isinstance(v, Tensor):
            found = [v._array]
            arrays[i] = v._array
        elif v is None and "None" in str(op.declared.__annotations__.get(i)):
            arrays[i] = None
            continue
        elif op.elementwise and i in op.numbers and isinstance(v, NUMBERS):
            arrays[i] = v
            continue
        else:
            raise not_a_tensor(op, i, v)
        for a in found:
            if a.__class__ is meta.Meta:
                on_meta = True
            elif a is not None and a.ndim:
                on_cpu = a
    if on_meta and on_cpu is not None and op.elementwise:
        raise RuntimeError(
            f"[{op.name}] Expected all tensors to be on the same device, but found at least two devices,"
            " meta and cpu!"
        )
    if op.promote is not None:
        if all(isinstance(a, NUMBERS) for a in arrays.values()):
            raise not_a_tensor(op, op.inputs[0], named[op.inputs[0]])
        promote(op, arrays)
    for i, a in arrays.items():
        if a.__class__ is overrides.Tagged:
            arrays[i] = a.view(np.ndarray)
        elif a.__class__ is list:
            arrays[i] = [b.view(np.ndarray) if b.__class__ is overrides.Tagged else b for b in a]
    values = [arrays[p] if p in arrays else named[p] for p in op.params]
    if on_meta:
        return meta.forward(op, values, run)
    with np.errstate(all="ignore"):
        return run(op, values)


def run(op: Op, values: list) -> Any:
    """The forward on arrays, with NumPy's complaints turned into PyTorch's."""
    try:
        if op.has_body:
            n = op.n_positional
            return op.declared(xp, *values[:n], **dict(zip(op.params[n:], values[n:], strict=True)))
        return getattr(xp, op.kernel)(*[v for p, v in zip(op.params, values) if p in op.inputs])
    except ValueError as e:
        if "broadcast" not in str(e):
            raise
        shapes = [np.shape(v) for p, v in zip(op.params, values, strict=True) if p in op.inputs]
        geometry.broadcast_shapes(*shapes)  # raises PyTorch's error
        raise
    except TypeError as e:
        if "ufunc" not in str(e) and "not supported for" not in str(e):
            raise
        a = next(v for v in values if isinstance(v, np.ndarray))
        name = dtypes.OF[a.dtype].scalar_name
        raise RuntimeError(f'"{op.name}_cpu" not implemented for \'{name}\'') from None


def common_dtype(op: Op, arrays: dict[str, Any]) -> dtypes.dtype:
    """The dtype in which an elementwise operator computes, by PyTorch's promotion."""
    dim = zero = wrapped = None
    for v in arrays.values():
        for a in v if v.__class__ is list else (v,):
            if a is None:
                continue
            if isinstance(a, np.ndarray):
                d = dtypes.OF[a.dtype]
                if a.ndim:
                    dim = d if dim is None else dtypes.promote_types(dim, d)
                else:
                    zero = d if zero is None else dtypes.promote_types(zero, d)
            else:
                d = modes.scalar_dtype(a if not isinstance(a, (np.number, np.bool_)) else a.item())
                wrapped = d if wrapped is None else dtypes.promote_types(wrapped, d)
    return dtypes.result_dtype(dim, zero, wrapped)


def promote(op: Op, arrays: dict[str, Any]) -> None:
    d = common_dtype(op, arrays)
    if op.promote == "float" and d.kind < 2:
        d = modes.get_default_dtype()
    if op.accepts is not None and "bifc"[d.kind] not in op.accepts:
        raise RuntimeError(f'"{op.name}_cpu" not implemented for \'{d.scalar_name}\'')
    for i, a in arrays.items():
        if a.__class__ is list:
            arrays[i] = [b if b.dtype is d.np else xp.cast(b, d.np) for b in a]
        elif isinstance(a, np.ndarray):
            if a.dtype is not d.np:
                arrays[i] = xp.cast(a, d.np)
        elif a is not None:
            arrays[i] = xp.number(a, d.np)


# -- results ---------------------------------------------------------------------------------------


def wrap(op: Op, named: dict, results: Any) -> list[Tensor]:
    """The forward's arrays as plain tensors (views linked to their source), not yet recorded."""
    several = op.outputs is not None
    arrays = results if several else (results,)
    source = named[op.inputs[0]] if op.view else None
    wrapped = []
    inference = INFERENCE if thread.inference else None
    for nr, a in enumerate(arrays):
        if a is None:
            wrapped.append(None)
            continue
        t = new(Tensor)
        t._array = a if isinstance(a, np.ndarray) else np.asarray(a)
        t._edge, t._counter = None, inference
        if source is not None and not thread.inference:
            args = tuple(named[s] for s in op.statics)
            make = nth(op, nr) if several else op
            t._edge = View(source, make, args, None, MULTI if several and thread.grad else None)
            t._counter = source._counter
        wrapped.append(t)
    return wrapped


def nth(op: Op, nr: int) -> Callable:
    def make(base: Tensor, *args: Any) -> Tensor:
        return op(base, *args)[nr]

    return make


def packaged(op: Op, wrapped: list) -> Any:
    if op.outputs is None:
        return wrapped[0]
    if op.outputs == "list":
        return tuple(wrapped)
    return named_tuple(op)(wrapped)


_tuples: dict[str, Any] = {}


def named_tuple(op: Op) -> Any:
    """`torch.return_types.max` and its like: a tuple whose fields have names."""
    if op.path not in _tuples:
        from rushlight import return_types

        # a path such as `_dim.max` stands for one form of a public function
        name = op.name if op.where[:1] == "_" else op.path.replace(".", "_")
        _tuples[op.path] = return_types.make(name, op.outputs)
    return _tuples[op.path]


def write_out(op: Op, out: Any, result: Any, inputs: Sequence) -> Any:
    """Put a result into `out=`: resized when the shape differs, cast when PyTorch would."""
    outs = out if isinstance(out, (tuple, list)) else (out,)
    results = result if isinstance(result, (tuple, list)) else (result,)
    if len(outs) != len(results):
        raise TypeError(f"{op.name}(): out= has {len(outs)} tensors, the result has {len(results)}")
    for o, r in zip(outs, results, strict=True):
        if not isinstance(o, Tensor):
            raise TypeError(f"{op.name}(): argument 'out' must be Tensor, not {kind(o)}")
        if o.requires_grad and thread.grad:
            raise RuntimeError(
                f"{op.name}(): functions with out=... arguments don't support automatic "
                "differentiation, but one of the arguments requires grad."
            )
        if not dtypes.can_cast(r.dtype, o.dtype):
            raise RuntimeError(
                f"result type {r.dtype.scalar_name} can't be cast to the desired output type "
                f"{o.dtype.scalar_name}"
            )
    for o, r in zip(outs, results, strict=True):
        if o._array.shape != r._array.shape:
            if o._array.size:
                import warnings

                warnings.warn(
                    f"An output with one or more elements was resized since it had shape "
                    f"{list(o._array.shape)}, which does not match the required output shape "
                    f"{list(r._array.shape)}. This behavior is deprecated; resize the output to zero "
                    "elements first.",
                    UserWarning,
                    stacklevel=4,
                )
            o._array = np.empty(r._array.shape, o._array.dtype)
        with np.errstate(all="ignore"):
            np.copyto(o._array, r._array, casting="unsafe")
        bump(o)
    return out if isinstance(out, Tensor) or not hasattr(type(result), "_fields") else type(result)(outs)


def bump(t: Tensor) -> None:
    """Count one write to the memory of `t`."""
    if t._counter is not INFERENCE:
        version_of(t).n += 1


# -- in place --------------------------------------------------------------------------------------


def inplace_function(op: Op) -> Callable:
    """The method `name_`."""

    def function(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        values, _ = bind(op, (self, *args), kwargs)
        return inplace_composite(op, values) if op.composite else inplace(op, values)

    function.__name__ = function.__qualname__ = op.name + "_"
    function.__doc__ = f"In-place version of `{op.name}`."
    function.op = op
    return function


def inplace_composite(op: Op, values: list) -> Tensor:
    """Compute from the former values, then copy into the first input."""
    t = values[0]
    function = getattr(type(t), op.name + "_", op.function)
    if (handled := overrides.dispatch(function, op, values, None)) is not overrides.NOTHING:
        return handled
    if thread.grad and any(isinstance(v, Tensor) and v._edge is not None for v in values):
        check_inplace(t, op.name + "_", True)
        before = new(Tensor)  # what is saved for backward must not see the write
        before._array, before._edge, before._counter = t._array.copy(), edge_of(t), None
        values = [before, *values[1:]]
    n = op.n_positional
    r = op.declared(*values[:n], **dict(zip(op.params[n:], values[n:], strict=True)))
    if not dtypes.can_cast(r.dtype, t.dtype):
        raise RuntimeError(
            f"result type {r.dtype.scalar_name} can't be cast to the desired output type "
            f"{t.dtype.scalar_name}"
        )
    if r._array.shape != t._array.shape:
        raise RuntimeError(
            f"[{op.name}_] output with shape {list(t.shape)} doesn't match the broadcast shape "
            f"{list(r.shape)}"
        )
    return t.copy_(r)


def inplace(op: Op, values: list) -> Tensor:
    """`t.name_(...)`: the forward, written into the memory of the first input."""
    t = values[0]
    label = op.name + "_"
    if not isinstance(t, Tensor):
        raise not_a_tensor(op, op.inputs[0], t)
    function = getattr(type(t), label, op.function)
    if (handled := overrides.dispatch(function, op, values, None)) is not overrides.NOTHING:
        return handled
    if scope["rare"]:
        for enter in around:
            if (run_it := enter(op, values, t)) is not None:
                return run_it()
    return execute_inplace(op, values)


def execute_inplace(op: Op, values: list) -> Tensor:
    t, label = values[0], op.name + "_"
    named = dict(zip(op.params, values, strict=True))
    if op.variant is not None and (other := op.variant(**named)) is not None:
        return execute_inplace(other, [named[p] for p in other.params])
    tensors = input_tensors(op, named)
    recording = thread.grad and any(x is not None and edge_of(x) is not None for x in tensors)
    check_inplace(t, label, recording)
    a = t._array
    r = forward(op, named)
    if op.elementwise:
        d, mine = dtypes.OF[r.dtype], dtypes.OF[a.dtype]
        if not dtypes.can_cast(d, mine):
            raise RuntimeError(
                f"result type {d.scalar_name} can't be cast to the desired output type "
                f"{mine.scalar_name}"
            )
    if np.shape(r) != a.shape:
        raise RuntimeError(
            f"[{label}] output with shape {list(a.shape)} doesn't match the broadcast shape "
            f"{list(np.shape(r))}"
        )
    old = None
    if recording and op.differentiable:
        first = op.inputs[0]
        from rushlight.ops.generate import saved_names

        others = [i for i in op.inputs if isinstance(named[i], Tensor)]
        if first in saved_names(op, tuple(i for i in others if op.rule_all or i in op.rules)):
            old = new(Tensor)
            old._array, old._edge, old._counter = a.copy(), edge_of(t), None
        elif edge_of(t) is not None:
            old = t
    write(t, r)
    if recording:
        if op.differentiable:
            before = new(Tensor) if old is None or old is t else old
            if before is not old:
                before._array, before._edge, before._counter = a, edge_before(t), None
            named[op.inputs[0]] = before
            node = make_node(op, named, [t], inplace=True)
        else:
            node = None
        rebase(t, node)
    return t


def edge_before(t: Tensor) -> Any:
    """The edge of `t` as it was before the write that was just counted."""
    e = t._edge
    return e.node if e.__class__ is View else e


def check_inplace(t: Tensor, label: str, recording: bool) -> None:
    """Raise when writing to `t` is forbidden; nothing has been changed yet."""
    a = t._array
    if t._counter is INFERENCE:
        if not thread.inference and recording:
            raise RuntimeError(
                f"[{label}] Inplace update to inference tensor outside InferenceMode is not allowed. "
                "You can make a clone to get a normal tensor before doing inplace update."
            )
    elif recording:
        check_writable(t, label)
    if 0 in a.strides and a.size > 1 and any(
        s == 0 and n > 1 for s, n in zip(a.strides, a.shape, strict=True)
    ):
        raise RuntimeError(
            f"[{label}] unsupported operation: more than one element of the written-to tensor refers "
            "to a single memory location. Please clone() the tensor before performing the operation."
        )


def write(t: Tensor, r: Any) -> None:
    """Put an array into the memory of `t` and count the write."""
    if t._array.__class__ is not meta.Meta:
        with np.errstate(all="ignore"):
            np.copyto(t._array, r, casting="unsafe")
    bump(t)


# -- recording -------------------------------------------------------------------------------------


class Saved:
    """An array (or tensor) kept for backward, with the version it had."""

    __slots__ = ("tensor", "array", "version", "seen", "packed", "unpack_hook")

    def __init__(self, t: Tensor, is_result: bool) -> None:
        self.packed = self.unpack_hook = None
        if t._counter is INFERENCE:
            raise RuntimeError(
                "Inference tensors cannot be saved for backward. To work around you can make a clone "
                "to get a normal tensor and use it in autograd."
            )
        if thread.saved_hooks_error is not None:
            pass
        if thread.saved_hooks:
            pack, self.unpack_hook = thread.saved_hooks[-1]
            hooks, thread.saved_hooks = thread.saved_hooks, ()
            try:
                handed = t.detach() if is_result else t
                self.packed = pack(handed)
            finally:
                thread.saved_hooks = hooks
            self.tensor = self.array = self.version = None
            self.seen = (edge_of(t) if not is_result else None,)
            return
        self.version = version_of(t) if is_result else t._counter
        self.seen = 0 if self.version is None else self.version.n
        self.tensor, self.array = (None, t._array) if is_result else (t, None)

    def unpack(self, node: Node, name: str, edge: Any) -> Tensor:
        """The tensor as it was; RuntimeError when it was written to since."""
        if self.unpack_hook is not None:
            got = self.unpack_hook(self.packed)
            if not isinstance(got, Tensor):
                raise TypeError("Output of saved tensor unpack_hook expected to be a Tensor")
            edge = edge if edge is not None else self.seen[0]
            if edge is None or got._edge is edge:
                return got
            t = new(Tensor)
            t._array, t._counter, t._edge = got._array, got._counter, edge
            return t
        if self.tensor is not None:
            t = self.tensor
            version = t._counter
            if version is not None and version.n != self.seen:
                stale(node, name, t.shape, t.dtype, version.n, self.seen)
            return t
        if self.version.n != self.seen:
            stale(node, name, self.array.shape, self.array.dtype, self.version.n, self.seen)
        t = new(Tensor)
        t._array, t._counter, t._edge = self.array, self.version, edge
        return t


class OutputInfo:
    """Shape and dtype of one of several outputs, for the zeros of an unused one."""

    __slots__ = ("shape", "dtype", "version")

    def __init__(self, a: Any) -> None:
        self.shape, self.dtype, self.version = a.shape, dtypes.OF[a.dtype], None


def record(op: Op, named: dict, wrapped: list) -> None:
    """Make the node of a call and hang it on its results."""
    node = make_node(op, named, wrapped)
    if node is None:
        return
    for nr, t in enumerate(wrapped):
        if t is None or not (t._array.dtype.kind in "fcV" or t.dtype.is_floating_point):
            continue
        if isinstance(op.outputs, tuple) and not differentiable_output(op, nr):
            continue
        edge = Output(node, nr) if len(wrapped) > 1 else node
        if t._edge.__class__ is View:
            t._edge.node = edge
        else:
            t._edge = edge


def differentiable_output(op: Op, nr: int) -> bool:
    name = op.outputs[nr]
    used = {n for _, names in op.rules.values() for n in names}
    if op.rule_all:
        used |= set(op.rule_all[1])
    return f"g_{name}" in used or (nr == 0 and "g" in used)


def make_node(op: Op, named: dict, wrapped: list, inplace: bool = False) -> Node | None:
    """The general node of a call: edges, what the wanted rules read, traces."""
    from rushlight.ops.generate import node_class, saved_names, wanted

    want, edges, fix = [], [], []
    ruled = wanted(op)
    for i in op.inputs:
        v = named[i]
        for t in v if i in op.lists else (v,):
            e = None
            if i in ruled and isinstance(t, Tensor):
                e = edge_of(t)
                if e is not None and i not in want:
                    want.append(i)
            edges.append(e)
            fix.append((t._array.shape, t._array.dtype) if e is not None else None)
    if not want:
        return None
    statics = {s: named[s] for s in op.statics}
    name = op.node_name(named if op.names_node else None)
    if op.scalar_nodes:  # PowBackward0 of `x ** 2`, PowBackward2 of `2 ** x`
        for at, i in enumerate(reversed(op.inputs)):
            if isinstance(named[i], NUMBERS) and at < len(op.scalar_nodes):
                name = op.scalar_nodes[at]
                break
    node = new(node_class(op, name)[1])
    node.edges, node.fix, node.hooks, node.result_version = tuple(edges), tuple(fix), None, None
    node.outputs = [None if t is None else OutputInfo(t._array) for t in wrapped]
    saved: dict[str, Any] = {}
    names = saved_names(op, tuple(want))
    values: dict[str, Any] = {}
    for n in names:
        if n in op.lists:
            saved[n] = [Saved(t, False) for t in named[n]]
        elif n in op.inputs:
            v = named[n]
            if isinstance(v, Tensor):
                saved[n] = Saved(v, False)
            else:
                values[n] = v
        elif n == "result":
            saved[n] = Saved(wrapped[0], True)
        elif isinstance(op.outputs, tuple) and n in op.outputs:
            saved[n] = Saved(wrapped[op.outputs.index(n)], True)
        elif n in statics:
            values[n] = statics[n]
        elif n.endswith("_shape"):
            v = named[n.removesuffix("_shape")]
            if n.removesuffix("_shape") in op.lists:
                values[n] = [t._array.shape for t in v]
            else:
                values[n] = v._array.shape if isinstance(v, Tensor) else ()
        elif n.endswith("_dtype"):
            v = named[n.removesuffix("_dtype")]
            if n.removesuffix("_dtype") in op.lists:
                values[n] = [t.dtype for t in v]
            else:
                values[n] = v.dtype if isinstance(v, Tensor) else None
    node.saved, node.statics = saved or None, (values, bool(saved))
    if thread.anomaly:
        from rushlight.autograd import anomaly_mode

        node.hooks = Hooks()
        anomaly_mode.trace(node)
    return node


class OpNode(Node):
    """A node that an operator recorded."""

    __slots__ = ()
    op: Op
    saved_layout: tuple[list, list] = ([], [])


class GeneralNode(OpNode):
    """The node of a call that took the general way: reads its rules name by name."""

    __slots__ = ()

    @property
    def n_outputs(self) -> int:  # type: ignore[override]
        return len(self.outputs)

    def apply(self, g: Any, edges: tuple, keep: bool, record: bool) -> tuple:
        op = self.op
        values, has_saved = self.statics
        env = dict(values)
        if has_saved:
            if self.saved is None:
                freed(self)
            for n, s in self.saved.items():
                edge = None
                if n == "result":
                    edge = self if len(self.outputs) == 1 else Output(self, 0)
                elif isinstance(op.outputs, tuple) and n in op.outputs:
                    nr = op.outputs.index(n)
                    edge = Output(self, nr) if differentiable_output(op, nr) else None
                if s.__class__ is list:
                    env[n] = [x.unpack(self, n, None) for x in s]
                else:
                    env[n] = s.unpack(self, n, edge)
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
            rule, names = op.rule_all
            at = 0
            needs: list = []
            for i in op.inputs:
                k = self.width(i) if i in op.lists else 1
                part = [e is not None for e in edges[at : at + k]]
                needs.append(part if i in op.lists else part[0])
                at += k
            env["needs"] = tuple(needs)
            got = rule(**{n: env[n] for n in names})
            flat: list = []
            for i, x in zip(op.inputs, got, strict=True):
                if i in op.lists:
                    flat += x if x is not None else [None] * self.width(i)
                else:
                    flat.append(x)
            return fit(tuple(flat), self.fix)
        flat = []
        at = 0
        for i in op.inputs:
            if i in op.lists:
                k = self.width(i)
                if i in op.rules and any(e is not None for e in edges[at : at + k]):
                    rule, names = op.rules[i]
                    flat += rule(**{n: env[n] for n in names})
                else:
                    flat += [None] * k
                at += k
                continue
            if edges[at] is not None and i in op.rules:
                rule, names = op.rules[i]
                flat.append(rule(**{n: env[n] for n in names}))
            else:
                flat.append(None)
            at += 1
        return fit(tuple(flat), self.fix)

    def width(self, name: str) -> int:
        """How many edges the list input `name` has."""
        return len(self.edges) - (len(self.op.inputs) - 1)

    def spread(self, env: dict, g: list) -> None:
        """Name the gradients of several outputs; one that nobody sent is zeros."""
        op = self.op
        if op.outputs == "list":
            env["g"] = [
                x if x is not None else zeros(info.shape, info.dtype)
                for x, info in zip(g, self.outputs, strict=True)
            ]
            return
        asked = {n for _, names in op.rules.values() for n in names}
        if op.rule_all:
            asked |= set(op.rule_all[1])
        for name, x, info in zip(op.outputs, g, self.outputs, strict=True):
            if f"g_{name}" in asked:
                env[f"g_{name}"] = x if x is not None else zeros(info.shape, info.dtype)
        if "g" in asked:
            info = self.outputs[0]
            env["g"] = g[0] if g[0] is not None else zeros(info.shape, info.dtype)


def conjugated(v: Any) -> Any:
    if isinstance(v, Tensor):
        return v.conj_physical() if v._array.dtype.kind == "c" else v
    return v.conjugate() if v.__class__ is complex else v


def d0(value: Any, dtype: dtypes.dtype) -> Tensor:
    """A Python number as a 0-d tensor."""
    t = new(Tensor)
    t._array, t._edge, t._counter = xp.number(value, dtype.np), None, None
    return t


def zeros(shape: tuple, dtype: dtypes.dtype) -> Tensor:
    t = new(Tensor)
    t._array, t._edge, t._counter = np.zeros(shape, dtype.np), None, None
    return t


def fit(gradients: tuple, fix: tuple) -> tuple:
    """Bring every gradient to the shape and dtype of its input: undoes broadcasting and promotion."""
    fitted = []
    for g, want in zip(gradients, fix, strict=True):
        if g is not None and want is not None:
            shape, dtype = want
            if g._array.shape != shape:
                g = g.sum_to_size(shape)
            if g._array.dtype is not dtype and g._array.dtype != dtype:
                d = dtypes.OF[dtype]
                if g.dtype.is_complex and not d.is_complex:
                    g = g.real
                if g.dtype is not d:
                    g = g.to(d)
        fitted.append(g)
    return tuple(fitted)


def saved_attribute(node: OpNode, name: str) -> Any:
    """`grad_fn._saved_other` and its like: what the node saved under a rule's name."""
    op = node.op
    if isinstance(node, GeneralNode):
        values, has_saved = node.statics
        if name in values:
            return as_saved(op, name, values[name])
        if has_saved:
            if node.saved is None:
                freed(node)
            if name in node.saved:
                s = node.saved[name]
                edge = node if name == "result" else None
                if s.__class__ is list:
                    return tuple(x.unpack(node, name, None) for x in s)
                return s.unpack(node, name, edge)
        raise AttributeError(f"{node.name()} saved no {name!r}")
    tensors, statics = node.saved_layout
    if name in statics:
        return as_saved(op, name, node.statics[statics.index(name)])
    if name in tensors:
        if node.saved is None:
            freed(node)
        at = 0
        for n in tensors:
            if n == name:
                break
            at += 1 if n == "result" else 2
        value = node.saved[at]
        if name == "result":
            t = new(Tensor)
            t._array, t._edge, t._counter = value, node, node.result_version
            return t
        return value
    raise AttributeError(f"{node.name()} saved no {name!r}")


def as_saved(op: Op, name: str, value: Any) -> Any:
    if name in op.inputs and isinstance(value, (int, float, complex)):
        t = new(Tensor)
        t._array, t._edge, t._counter = np.asarray(value), None, None
        return t
    return value
