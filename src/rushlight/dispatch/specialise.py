"""Decides which calls of an operator get a printed function, and prints it when it is needed.

Note [Call keys]
    The public function of an operator is printed for the hottest call: plain arrays of one dtype, no
    mode, static arguments at their defaults. Any other call goes to `slow`, printed too, which makes its key: for each
    input the dtype of its array (0-d ones apart, since they promote otherwise) or the class of the Python
    number in its place, and where the operator is `keyed` the class of each static argument that is not the
    default (`alpha`). `op.table` holds the functions printed for keys; a key gets its own the second
    time it is seen, or `None` where only the general way (general.py) knows what to do. In-place forms
    have a table of their own. What is printed are the stages of the general way with the questions that
    the key answers left out: which dtype to compute in, what to cast, whether a number fits.

Note [Generated code]
    Source comes from emit.py, emit_inplace.py and keys.py. It holds no lookup by name, and no loop but
    over lists of tensors. The function that an operator has from its declaration on gets the code of the
    printed one, so that `torch.add` is one object for ever; its globals are `op.scope`. The source is
    registered with `linecache`: a debugger steps through it and a traceback shows it; `source(op)` returns
    it.
"""

from __future__ import annotations

import re
import sys
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import llvm
from rushlight._codegen import python_source
from rushlight.autograd.graph import Node, Output, Since, Version, version_of
from rushlight.autograd.state import Active, active, scope, thread
from rushlight.autograd.views import DEFAULT, MULTI, NO_GRAD, View, keep_retaining
from rushlight.core import dtypes
from rushlight.core.dtype_sets import BF16, F16, F32, F64, FLOATING, I64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import (
    attributes,
    emit,
    emit_inplace,
    general,
    inplace,
    keys,
    methods,
    older_orders,
    results,
    traced,
)
from rushlight.dispatch.nodes import layout_of_saved, node_class, number_class
from rushlight.dispatch.overrides import NOTHING, UNASKED, Watching
from rushlight.dispatch.record import OpNode, OutputInfo, record
from rushlight.dispatch.registry import OPS, building, types_of
from rushlight.dispatch.saved import SavedResult

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.registry import Op

OPERATORS = frozenset({*methods.OPERATORS.values(), "rsub"})
PLAIN = frozenset({Tensor, int, float, bool, complex, str, type(None), tuple, list, dtypes.dtype})


def build(op: Op) -> None:
    """Give an operator its functions: the public one, the method, the Python operator."""
    op.scope.update(scope_of(op))
    print_public(op)
    op.method = general.varargs_method(op, op.function) if op.varargs else op.function
    xp.link(op.scope)


def print_public(op: Op) -> None:
    """Print the public function and the Python operator, with machine code before them where it is active."""
    name = op.name.rpartition(".")[2]
    link_whole(op)
    entries = {"entry": entry_of(op)}
    if entries["entry"] is not None:
        if op.kernel and len(op.inputs) == 2 and op.path in OPERATORS:
            entries |= entries_for_numbers(op)
        op.scope |= {k: when_called(op, k, make) for k, make in entries.items()}
    if op.composite:
        source = f"def {name}(*args, **kwargs): return bound(op, args, kwargs)"
        if not op.declared.__code__.co_flags & 0x0C:  # takes no *args nor **kwargs
            source = emit.composite_source(op, UNASKED)
        op.scope["bound"] = general.call_bound_composite
    elif emit.straight(op) or emit.straight_several(op):
        source = emit.function_source(op)
    else:
        source = f"def {name}(*args, **kwargs): return bound(op, args, kwargs)"
        op.scope["bound"] = general.call_bound
    if not op.composite and emit.straight(op):
        if len(op.inputs) == 2 and op.path in OPERATORS:
            operator = evaluate(op, emit.operator_source(op), op.name, " operator")
            op.operator = operator if op.operator is None else become(op.operator, operator)
    become(op.function, evaluate(op, source, name, ""))


@cache
def bound_to() -> list[int] | None:
    """What the entries read for all operators; None where objects are laid out otherwise than they take them to be."""
    from rushlight._codegen.runtime import abi

    t, version, modes, node = _wrap(xp.zeros(1)), Version(), Active(), Node()
    t._counter = version  # inside of `inference_mode` it has none
    view = View(t, abs, ())
    names = "base", "parent", "make", "args", "node", "version", "seen", "kind"
    held = {n: object() for n in names}
    for n in names:
        setattr(view, n, held[n])
    version.n, modes.modes = (writes := object()), (count := object())
    t._edge = edge = object()
    slots = [abi.slot(t, t._array), abi.slot(t, edge), abi.slot(t, version)]
    slots += [abi.slot(view, held[n]) for n in names]
    slots += [abi.slot(version, writes), abi.slot(modes, count)]
    for n in ("_edges", "saved", "unbroadcast_to", "hooks", "result_version", "statics"):
        setattr(node, n, value := object())
        slots.append(abi.slot(node, value))
    if 0 in slots or not (abi.available() and abi.views_hold()):
        return None
    things = Tensor, np.ndarray, View, Version, active, 0, None, xp.asanyarray, thread
    things += sys.intern("grad"), True, sys.intern("shape"), dtypes.OF  # type: ignore[assignment]
    return [
        *slots,
        *map(
            id,
            (*things, DEFAULT, NO_GRAD, MULTI, results.nth, list, tuple, version_of, xp.laid_out),
        ),
    ]


def link_whole(op: Op) -> None:
    """Let the printed functions of an operator find the native entry that does all of it, where there is one."""
    if llvm.active and op.path in llvm.WHOLE and "whole" not in op.scope and bound_to() is not None:
        from rushlight._backends.llvm import whole

        op.scope["whole"] = whole.entry(op.path, body_of(op))


def body_of(op: Op) -> Callable[..., Any]:
    """The forward of an operator, of its arguments in order, without intermediates."""
    n, later = op.n_positional, op.params[op.n_positional :]

    def body(*given: Any) -> Any:
        options = dict(zip(later, given[n:], strict=True))
        if op.intermediates:
            return op.declared(xp, *given[:n], False, **options)[0]
        return op.declared(xp, *given[:n], **options)

    return body


def entry_of(op: Op, into: bool = False) -> Callable | None:
    """What makes the native entry for the commonest calls of an operator, or (`into`) of its in-place form, once machine
    code is active; else None.

    The entry asks what the printed lines behind it ask: no mode, plain arrays, dtypes that need no promotion. It answers None
    where one of these does not hold, and the lines go on.
    """
    several = emit.straight_several(op)
    if not llvm.active or op.composite or not (emit.straight(op) or several) or bound_to() is None:
        return None
    if op.intermediates and "whole" not in op.scope or several and op.outputs == "list":
        return None
    from rushlight._codegen.call_entry import Recorded, Taken, bind
    from rushlight._codegen.kernels import call_nodes, calls

    if op.lists:
        if op.first is None or op.params[:1] != op.inputs or op.operands() is not None:
            return None
        listed = Taken(1), Recorded(), None, calls.call_list
        return partial(bind, op, bound_to(), *listed)
    function, values = emit.entry_values(op, {p: p for p in op.params})
    values = [v.rpartition("=")[2] for v in values]
    if len(values) > call_nodes.MOST:
        return None
    positions = {v: k for k, v in enumerate(values)}
    if op.view:
        at = 1 + (function == "forward")
        if values[at - 1 :] != [*op.params] or op.params[:1] != op.inputs:
            return None
        how = recorded(op, positions, "N", op.inputs)
        return partial(bind, op, bound_to(), Taken(at), how)
    if any(v not in op.inputs and re.search(rf"\b{i}\b", v) for i in op.inputs for v in values):
        return None  # arithmetic on arrays
    one_dtype = op.elementwise and op.promote is not None
    kinds: tuple = ()
    if one_dtype and op.promote == "float":
        kinds = F32, F64, BF16, F16
    elif one_dtype and op.accepts is not None:
        kinds = F32, *op.scope["accepted"]
    bits = [
        sum(1 << positions[i] for i in inputs if i in positions)
        for inputs in (op.inputs, [i for i in op.inputs if emit.optional(op, i)], op.wanted())
    ]
    how = recorded(op, positions, "N", op.inputs)
    layout_operands = (
        None if (inputs := op.operands()) is None else (0, [positions[i] for i in inputs])
    )
    results = op.scope["results"] if several else None
    copy = op.copy_order.replace("B", "C") if function == "whole" and not into else ""
    taken = Taken(*bits, one_dtype, kinds, layout_operands, copy)
    return partial(bind, op, bound_to(), taken, how, results, calls.call_into if into else None)


def when_called(op: Op, name: str, make: Callable) -> Callable:
    """What is the entry `name` of an operator until the first call that it may take: programs that are captured have none."""

    def first(*values: Any, **options: Any) -> Any:
        if active.modes:
            return None
        entry = op.scope[name] = make()
        return entry(*values, **options)

    return first


def entries_for_numbers(op: Op) -> dict[str, Callable]:
    """What makes the native entries of `tensor <op> number`, for a float and an int, where the operator has an entry."""
    from rushlight._codegen.call_entry import Taken, bind

    first, other = op.inputs
    how = recorded(op, {first: 0, other: 1}, "NS", (first,))
    kinds = {"float": (F32, F64), "int": (F32, F64) if op.promote == "float" else (F32, F64, I64)}
    wanted = int(first in op.wanted())
    inputs = op.operands((other,)) or ()
    layout_operands = (int(other in inputs), [0] if first in inputs else [])
    return {
        f"entry_{n}": partial(
            bind, op, bound_to(), Taken(1, 0, wanted, True, kind, layout_operands), how
        )
        for n, kind in kinds.items()
    }


def recorded(op: Op, positions: dict[str, int], node: str, ins: tuple[str, ...]) -> Any:
    """What the entry has to know of the nodes of an operator; nothing where only printed lines make them.

    `positions`: where each parameter stands among the arguments of the kernel; `node`: the name of their class in printed
    lines; `ins`: the inputs that are tensors, where others are numbers.
    """
    from rushlight._codegen.call_entry import Recorded
    from rushlight._codegen.kernels import call_nodes

    none, want = Recorded(), tuple(i for i in op.wanted() if i in ins)
    known = op.scope.get(node) is not None and {*op.inputs} <= {*positions}
    if not (known and want) or op.outputs is not None or op.intermediates:
        return none
    if op.names_node and not op.node_pair:
        return none
    tensors, names = layout_of_saved(op, ins, want)
    readers, saved, statics = op.saved_names(want), [], []
    for n in tensors:
        reads = sum(1 << positions[w] for w in readers[n])
        always = n == "result" or len(want) == 1 or {*readers[n]} == {*want}
        saved.append((call_nodes.RESULT if n == "result" else positions[n], 0 if always else reads))
    for n in names:
        source, _, what = n.rpartition("_")
        if n in positions:
            statics.append((call_nodes.VALUE, positions[n]))
        elif n in op.statics and n in op.defaults and op.kernel:
            statics.append((call_nodes.CONSTANT, op.defaults[n]))
        elif source in ins and what in ("shape", "dtype"):
            kind = call_nodes.SHAPE_OF if what == "shape" else call_nodes.DTYPE_OF
            statics.append((kind, positions[source]))
        else:
            return none
    return Recorded(
        node=op.scope[node],
        pair=op.scope["N1"] if op.node_pair else None,
        pair_at=positions["dim"] if op.node_pair else -1,
        summed=op.elementwise and len(ins) > 1,
        floating=(*FLOATING,) if op.elementwise and op.promote == "same" else (),
        inputs=[
            positions[i] if i in want else call_nodes.UNWANTED - positions[i] for i in op.inputs
        ],
        saved=saved,
        statics=statics,
    )


def kernels_replaced() -> None:
    """Print again what was printed by what kernels could do before machine code took their places."""
    for op in tuple(OPS.values()):
        op.table.clear()
        op.inplace_table.clear()
        if (function := vars(op).get("inplace")) is not None:
            become(function, print_inplace(op))
        if op.built and not op.composite and "entry" not in op.scope:
            print_public(op)


xp.after_replace += [kernels_replaced, attributes.install]
attributes.install()  # machine code may be active already


def become(function: Any, printed: Any) -> Any:
    """The function, with the code of another one that has the same globals."""
    function.__code__ = printed.__code__
    function.__defaults__, function.__kwdefaults__ = printed.__defaults__, printed.__kwdefaults__
    return function


def evaluate(op: Op, text: str, name: str, kind: str, names: dict[str, Any] | None = None) -> Any:
    """The function that printed source defines; `names`: its globals, those of the operator if None."""
    file = f"<rushlight {op.path}{kind}>"
    text += "\n"
    space = op.scope if names is None else names
    python_source.run(text, file, space)
    function = space.pop(name)
    function.__doc__ = op.declared.__doc__
    function.op = op
    return function


def source(op: Op) -> str:
    """The printed source of an operator's public function, for the curious."""
    op.build()
    return emit.function_source(op)


def scope_of(op: Op) -> dict[str, Any]:
    """The globals of an operator's printed functions."""
    names = {**scope, "xp": xp, **{f"d_{p}": v for p, v in op.defaults.items()}}
    names |= {
        "OpNode": OpNode,
        "Since": Since,
        "missing": general.missing,
        "lacks": general.lacks,
        "twice": general.twice,
        "floats": keys.FLOATING,
        "overflows": keys.overflows,
        "variant": op.variant,
        "keep_retaining": keep_retaining,
        "nth": results.nth,
        "write": op.write,
        "factors_last": partial(older_orders.factors_last, op),
        "Output": Output,
        "OutputInfo": OutputInfo,
        "SavedResult": SavedResult,
    }
    names |= {"slow": slow(op), "slow_operator": slow_operator(op), "slow_inplace": None}
    if op.composite:
        names |= {"body": op.declared, "overriding": general.overrides.overriding, "plain": PLAIN}
        names["slow"] = lambda values: general.call_composite(op, values[:-1], values[-1])
        return names
    if callable(op._node):
        names |= {"classes": op.node_classes, "name_of": op._node, "node_class": node_class}
    elif op.differentiable and (emit.straight(op) or emit.straight_several(op)):
        plain, general_one = node_class(op, op.node_name())
        names["N"] = general_one if op.outputs == "list" else plain
        if op.path in OPERATORS and len(op.inputs) == 2:
            names["NS"] = number_class(op, op.inputs[:1])
        if op.node_pair:
            names["N1"] = node_class(op, op.node_name({"dim": 0}))[0]
    if op.outputs is not None and not op.view:
        names |= {"record": record, "wrap": results.wrap, "tuple_of": tuple.__new__}
    if op.outputs.__class__ is tuple:
        names["results"] = results.named_tuple(op)
    if op.accepts is not None:
        names["accepted"] = frozenset(d.np for d in dtypes.ALL if "bifc"[d.kind] in op.accepts)
    if op.has_body:
        names["forward"] = op.declared
    called = traced.kernel_call(op, emit.texts_of(op))
    for kernel in (op.first, called and called[0], op.operands() is not None and "laid_out"):
        if kernel:
            names[f"k_{kernel}"] = None  # see cpu.link
    if taken := names.keys() & {*op.params}:
        raise TypeError(
            f"{op.name}: printed functions use the names {sorted(taken)} themselves; name the parameters otherwise"
        )
    return names


# -- what the printed function of the hottest call leaves ------------------------------------------


def slow(op: Op, in_place: bool = False) -> Callable:
    """`slow(*values)` of an operator: the printed function of the call's key, or the general way.

    `values`: in the order of the parameters, then `out`.
    """
    names = {"op": op, "in_modes": in_modes, "general": general.call, "table": op.table}
    if in_place:
        names |= {"in_modes": inplace.inplace, "general": inplace.inplace}
        names["table"] = op.inplace_table
    if not keys.parts(op):
        return lambda *values: names["in_modes" if active.modes else "general"](op, [*values])
    names |= {**scope, **{f"d_{p}": v for p, v in op.defaults.items()}}
    names |= {"kind_of": keys.kind_of, "learn": keys.learn, "variant": op.variant}
    names["generic_number"] = np.generic
    own = "slow_inplace" if in_place else "slow"

    def first(*values: Any) -> Any:
        """Prints it: most operators are only called as their public function is printed for."""
        with building:  # another thread may be here, too
            if op.scope[own] is first:
                source = keys.key_source(op, in_place)
                kind = f" by key{' in place' if in_place else ''}"
                op.scope[own] = evaluate(op, source, "by_key", kind, names)
        return op.scope[own](*values)

    return first


def in_modes(op: Op, values: list) -> Any:
    """A call while modes are on: inside inference_mode or transforms alone a printed function, else the general way."""
    around = thread.function_modes
    if (
        around
        and active.modes == len(around)
        and isinstance(around[-1], Watching)
        and around[-1].alone
    ):
        result = around[-1].call(op, values)
        if result is not NOTHING:
            return result
    if not thread.inference or active.modes != active.inference:
        return general.call(op, values)
    if op.quiet is general.unknown:
        op.quiet = None
        if not op.composite and not op.view and op.outputs is None and emit.straight(op):
            names = {**op.scope, "slow": lambda *values: general.call(op, values)}
            text, name = emit.function_source(op, quiet=True), op.name.rpartition(".")[2]
            op.quiet = evaluate(op, text, name, " inference", names)
            xp.link(names)
    if op.quiet is None:
        return general.call(op, values)
    n = op.n_positional
    return op.quiet(*values[:n], **dict(zip((*op.params[n:], "out"), values[n:], strict=False)))


def slow_operator(op: Op) -> Callable:
    """`input <op> other` of what the printed operator leaves: NotImplemented for what is foreign."""
    rest = tuple(op.defaults.get(p) for p in op.params[2:])

    def operator_by_key(input: Any, other: Any) -> Any:
        if isinstance(input, keys.OPERANDS) and isinstance(other, keys.OPERANDS):
            return op.scope["slow"](input, other, *rest)
        odd = other if isinstance(input, Tensor) else input
        if not hasattr(odd, "__torch_function__"):
            return NotImplemented
        try:
            return general.call(op, [input, other, *rest])
        except TypeError:  # declined: the other operand's own operator gets its turn
            return NotImplemented

    return operator_by_key


def inplace_function(op: Op) -> Any:
    """The method `name_`."""
    op.scope |= {"slow_inplace": slow(op, in_place=True), "inplace": inplace, "own": op}
    function = print_inplace(op)
    function.__qualname__ = function.__name__ = op.name + "_"
    function.__doc__ = f"In-place version of `{op.name}`."
    function.__annotations__ = {"self": Tensor, **types_of(op.notes, True)}
    return function


def print_inplace(op: Op) -> Any:
    """`name_` as it is printed with the kernels as they are now."""
    name = op.name.rpartition(".")[2] + "_"
    if op.write is not None:
        link_whole(op)
        if "whole" in op.scope:
            op.scope["entry_into"] = when_called(op, "entry_into", entry_of(op, into=True))
        text = emit_inplace.write_source(op)
    elif op.composite or op.lists or op.declared.__code__.co_flags & 0x0C:
        text = f"def {name}(self, *args, **kwargs): return inplace.bound(op, self, args, kwargs)"
    elif keys.writes(op) and not op.view and not op.names_node and keys.hot_inplace(op):
        text = emit_inplace.inplace_source(op, keys.is_ufunc(op))
    else:
        text = (
            f"def {name}({emit.signature(op, out=False)}):\n"
            + "\n".join(emit.bind_lines(op, "_"))
            + f"\n    return slow_inplace({', '.join(op.params)})"
        )
    return evaluate(op, text, name, " in place")
