"""Writes, for each operator, the straight-line Python of its commonest call.

Note [Generated code]
    The functions below produce the source of three kinds of functions: the public function, the
    method behind a Python operator (`__add__`), and `apply` of the operator's node. They hold no
    loop and no lookup by name: what is known from the declaration is written out. The source is
    registered with `linecache`, so a debugger steps through it and a traceback shows it;
    `source(op)` returns it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight._backends import cpu as xp
from rushlight.core import dtypes
from rushlight.core.tensor import Tensor
from rushlight.dispatch import general, results
from rushlight.dispatch.inplace import inplace_function
from rushlight.dispatch.nodes import (
    MOST,
    evaluate,
    keep_lines,
    layout_of_saved,
    node_class,
    optional,
    split_lines,
)
from rushlight.dispatch.record import record

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Op


def build(op: Op) -> general.Built:
    """The functions of one operator."""
    from rushlight.dispatch import inplace_codegen

    built = general.Built(op)
    if op.composite:
        built.function = composite_function(op)
    elif straight(op):
        op.node_classes = {}
        if len(op.inputs) == len(op.params) == 2 or (op.kernel and len(op.inputs) == 2):
            built.operator = compile_operator(op, built)
        built.function = compile_function(op, function_source(op), built)
    elif straight_several(op):
        built.function = compile_function(op, function_source(op), built)
    else:
        built.function = general.plain_function(op)
    built.inplace = inplace_function(op)
    if inplace_codegen.quick(op):
        built.inplace = inplace_codegen.compile_inplace(op, built)
    elif inplace_codegen.direct(op):
        built.inplace = inplace_codegen.compile_direct(op, built)
    built.method = general.varargs_method(op, built.function) if op.varargs else built.function
    return built


def straight(op: Op) -> bool:
    """Whether the commonest call is simple enough to be written out: one output, no lists."""
    return (
        not op.lists
        and op.outputs is None
        and 1 <= len(op.inputs) <= MOST
        and (not op.names_node or op.node_pair)
    )


def straight_several(op: Op) -> bool:
    """Whether to write out the call that returns several named outputs."""
    several = op.outputs.__class__ is tuple and not op.view and not op.names_node
    return several and not op.lists and 1 <= len(op.inputs) <= MOST


def signature(op: Op, *, out: bool = True) -> str:
    parts = []
    for i, p in enumerate(op.params):
        if i == op.n_positional:
            parts.append("*")
        parts.append(f"{p}=d_{p}" if p in op.defaults else p)
    extra = []
    if "dim" in op.statics and "axis" not in op.statics:
        extra.append("axis=None")
    if "keepdim" in op.statics:
        extra.append("keepdims=None")
    if op.has_out and out:
        extra.append("out=None")
    if extra and "*" not in parts:
        parts.append("*")
    return ", ".join(parts + extra)


def compile_function(op: Op, source: str, built: general.Built) -> Any:
    return evaluate(op, source, op.name.split(".")[-1], function_scope(op, built), "")


def function_scope(op: Op, built: general.Built) -> dict[str, Any]:
    plain, scalar = node_class(op, op.node_name())[::2] if op.differentiable else (None, None)
    if op.differentiable and op.scalar_nodes:
        scalar = node_class(op, op.scalar_nodes[0])[2]
    names = {f"d_{p}": v for p, v in op.defaults.items()}
    names |= {"op": op, "slow": built.slow, "N": plain, "NS": scalar, "kernel": None}
    if op.outputs.__class__ is tuple:
        names |= {"results": results.named_tuple(op), "tuple_of": tuple.__new__, "record": record}
    if op.accepts is not None:
        names["accepted"] = frozenset(d.np for d in dtypes.ALL if "bifc"[d.kind] in op.accepts)
    if op.node_pair:
        names["N1"] = node_class(op, op.node_name({"dim": 0}))[0]
    if op.kernel:
        names["kernel"] = getattr(xp, op.kernel)
    if op.has_body:
        names["forward"] = op.declared
    if takes_number(op):
        names["operator"] = built.operator
    return names


def source(op: Op) -> str:
    """The generated source of an operator's public function, for the curious."""
    op.build()
    return function_source(op)


# -- forward ---------------------------------------------------------------------------------------


def dtype_test(op: Op, arrays: list[str]) -> list[str]:
    """Conditions under which no promotion is needed, negated."""
    if not op.elementwise or op.promote is None:
        return []
    tests = [f"(d := {arrays[0]}.dtype) is not {a}.dtype" for a in arrays[1:2]]
    tests += [f"d is not {a}.dtype" for a in arrays[2:]]
    if op.promote == "float" or op.accepts is not None:
        first = "(d is not f32" if tests else f"((d := {arrays[0]}.dtype) is not f32"
        more = "d is not bf16 and d is not f16" if op.promote == "float" else "d not in accepted"
        tests.append(f"{first} and d is not f64 and {more})")
    return tests


def compile_quiet(op: Op, built: general.Built) -> Any:
    """The straight way inside inference_mode; None for operators that have none (views, lists)."""
    if op.composite or op.view or op.outputs is not None or not straight(op):
        return None
    names = function_scope(op, built) | {"slow": lambda *values: general.call(op, values)}
    name = op.name.split(".")[-1]
    return evaluate(op, function_source(op, quiet=True), name, names, " quiet")


def function_source(op: Op, quiet: bool = False) -> str:
    """The public function; `quiet`: as it is inside inference_mode, where nothing is recorded."""
    ins = op.inputs
    everything = ", ".join((*op.params, "out") if op.has_out else op.params)
    lines = [f"def {op.name}({signature(op)}):"]
    if "dim" in op.statics and "axis" not in op.statics:
        lines.append("    if axis is not None: dim = axis")
    if "keepdim" in op.statics:
        lines.append("    if keepdims is not None: keepdim = keepdims")
    lines.append("    try:")
    for i in ins:
        value = f"{i}._array"
        if optional(op, i):
            value = f"None if {i} is None else {value}"
        lines.append(f"        a_{i} = {value}")
    lines.append("    except AttributeError:")
    if takes_number(op) and not quiet:  # `x.mul(2)` goes the way of `x * 2`
        usual = "".join(f" and {s} is d_{s}" for s in op.statics)
        usual += " and out is None" if op.has_out else ""
        lines += [
            f"        c = {ins[1]}.__class__",
            f"        if (c is float or c is int){usual} and hasattr({ins[0]}, '_array'):",
            f"            return operator({ins[0]}, {ins[1]})",
        ]
    lines.append(f"        return slow({everything})")
    tests = [
        f"a_{i}.__class__ is not ndarray" + (f" and {i} is not None" if optional(op, i) else "")
        for i in ins
    ]
    tests = [f"({t})" if " and " in t else t for t in tests]
    tests += dtype_test(op, [f"a_{i}" for i in ins])
    if op.has_out:
        tests.append("out is not None")
    if op.kernel:
        tests += [f"{s} is not d_{s}" for s in op.statics]
    if not quiet:
        tests.append("active.modes")
    lines += [f"    if {' or '.join(tests)}:", f"        return slow({everything})"]
    if op.kernel:
        call = f"kernel({', '.join('a_' + i for i in ins)})"
    else:
        call = (
            "forward(xp, "
            + ", ".join(
                (f"a_{p}" if p in ins else p)
                if k < op.n_positional
                else (f"{p}=a_{p}" if p in ins else f"{p}={p}")
                for k, p in enumerate(op.params)
            )
            + (", keep)" if op.intermediates else ")")
        )
    lines += keep_lines(op, quiet)
    lines += [
        "    try:",
        f"        r = {call}",
        "    except (ValueError, RuntimeWarning, TypeError, OverflowError):",
        f"        return slow({everything})",
    ]
    lines += split_lines(op)
    if op.outputs is not None:
        return "\n".join([*lines, *several_lines(op)])
    lines.append("    if r.__class__ is not ndarray: r = asarray(r)")
    if quiet:
        lines += ["    node = None", *result_lines(op)[:-1], "    result._counter = INFERENCE"]
    else:
        lines += [*record_lines(op, ins, "N", f"slow({everything})"), *result_lines(op)]
    return "\n".join([*lines, "    return result"])


def composite_function(op: Op) -> Any:
    """The public function of a composite: its body, once it is known that nobody overrides the call."""
    if op.declared.__code__.co_flags & 0x0C:  # takes *args or **kwargs
        return general.composite_function(op)
    everything = ", ".join((*op.params, "out") if op.has_out else op.params)
    lines = [f"def {op.name}({signature(op)}):"]
    if "dim" in op.statics and "axis" not in op.statics:
        lines.append("    if axis is not None: dim = axis")
    if "keepdim" in op.statics:
        lines.append("    if keepdims is not None: keepdim = keepdims")
    tests = ["active.modes"] + (["out is not None"] if op.has_out else [])
    for p in op.params:
        note = str(op.declared.__annotations__.get(p, "Any"))
        if note.startswith(("Array", "Tensor")) and p not in op.lists:
            given = f"{p} is not None and " if "None" in note else ""
            tests.append(f"({given}{p}._array.__class__ is not ndarray)")
        elif note.removesuffix(" | None") not in UNASKED and p not in op.lists:
            tests.append(f"({p}.__class__ not in plain and overriding({p}))")
    body = ", ".join(p if k < op.n_positional else f"{p}={p}" for k, p in enumerate(op.params))
    lines += [
        "    try:",
        f"        unusual = {' or '.join(tests)}",
        "    except AttributeError:  # a number, a list: the body says what is wrong with it",
        "        unusual = True",
        "    if unusual:",
        f"        return slow(({everything},){'' if op.has_out else ' + (None,)'})",
        f"    return body({body})",
    ]
    names = {f"d_{p}": v for p, v in op.defaults.items()}
    names |= {"body": op.declared, "overriding": general.overrides.overriding, "plain": PLAIN}
    names["slow"] = lambda values: general.call_composite(op, values[:-1], values[-1])
    name = op.name.split(".")[-1]
    return general.dressed(evaluate(op, "\n".join(lines), name, names, ""), op)


# Annotations and classes of arguments that have no `__torch_function__`.
UNASKED = frozenset(
    {"int", "float", "bool", "str", "Dims", "DType", "Sizes", "MemoryFormat", "tuple"}
)
PLAIN = frozenset({Tensor, int, float, bool, complex, str, type(None), tuple, list, dtypes.dtype})


def takes_number(op: Op) -> bool:
    """Whether the second of two inputs may be a Python number, which the kernel takes as it is."""
    return bool(
        op.kernel
        and op.elementwise
        and op.promote is not None
        and len(op.inputs) == 2
        and op.inputs[1] in op.numbers
    )


def several_lines(op: Op) -> list[str]:
    """Lines that wrap the arrays `r` of several outputs and record them."""
    lines = []
    names = [f"t{k}" for k in range(len(op.outputs))]
    for k, t in enumerate(names):
        lines += [
            f"    a = r[{k}]",
            f"    if a is None: {t} = None",
            "    else:",
            f"        {t} = new(Tensor)",
            f"        {t}._array = a if a.__class__ is ndarray else asarray(a)",
            f"        {t}._edge = {t}._counter = None",
        ]
    if op.wanted():
        edges = [
            f"{i} is not None and {i}._edge is not None"
            if optional(op, i)
            else f"{i}._edge is not None"
            for i in op.wanted()
        ]
        named = ", ".join(f"'{p}': {p}" for p in (*op.params, *op.intermediates))
        lines += [
            f"    if ({' or '.join(edges)}) and thread.grad:",
            f"        record(op, {{{named}}}, [{', '.join(names)}])",
        ]
    return [*lines, f"    return tuple_of(results, ({', '.join(names)},))"]


def record_lines(op: Op, ins: tuple[str, ...], node: str, again: str) -> list[str]:
    """Lines that leave the recorded node, or None, in `node`.

    `ins` are the inputs that are tensors, `again` is the call of the general way.
    """
    want = tuple(i for i in op.wanted() if i in ins)
    lines = ["    node = None"]
    if not want:
        return lines
    lines += [
        f"    e_{i} = {i}._edge" + (f" if {i} is not None else None" if optional(op, i) else "")
        for i in want
    ]
    some = " or ".join(f"e_{i} is not None" for i in want)
    lines.append(f"    if ({some}) and thread.grad:")
    lines += [f"        if e_{i}.__class__ is View: e_{i} = e_{i}.resolve()" for i in want]
    if op.elementwise and op.promote in ("same", "float"):
        if op.promote == "same":  # rules of complex numbers need conjugates
            d = "d" if len(ins) > 1 else f"a_{ins[0]}.dtype"
            lines.append(f"        if {d} is not f32 and {d} not in floats: return {again}")
    lines += [
        f"        if {some}:",
        f"            node = new({node if not op.node_pair else 'N if dim is None else N1'})",
        "            node.edges = ("
        + ", ".join(f"e_{i}" if i in want else "None" for i in op.inputs)
        + ",)",
        "            node.hooks = None",
        *save_lines(op, ins, want),
    ]
    if op.elementwise and len(ins) > 1:
        same = " and ".join(f"a_{want[0]}.shape == a_{i}.shape" for i in ins if i != want[0])
        fix = ", ".join(f"(a_{i}.shape, a_{i}.dtype)" if i in want else "None" for i in op.inputs)
        lines.append(f"            node.fix = None if {same} else ({fix},)")
    else:
        lines.append("            node.fix = None")
    return lines


def result_lines(op: Op) -> list[str]:
    """Lines that wrap the array `r` and hand it its history."""
    lines = ["    result = new(Tensor)", "    result._array = r"]
    if op.view:
        return [*lines, *view_lines(op)]
    return [*lines, "    result._edge = node", "    result._counter = None"]


def view_lines(op: Op) -> list[str]:
    """Lines that do for `result` what `View(source, op, statics, node)` does, without a call."""
    source, statics = op.inputs[0], "".join(f"{s}, " for s in op.statics)
    return [
        f"    e = {source}._edge",
        f"    version = {source}._counter or version_of({source})",
        f"    if version is INFERENCE: return slow({', '.join(op.params)})",
        "    v = result._edge = new(View)",
        "    if e.__class__ is View:",
        "        v.base = e.base",
        "        v.parent = e",
        "        v.kind = e.kind if e.kind != DEFAULT else DEFAULT if thread.grad else NO_GRAD",
        "    else:",
        f"        v.base = {source}",
        "        v.parent = None",
        "        v.kind = DEFAULT if thread.grad else NO_GRAD",
        "    v.make = op",
        f"    v.args = ({statics})",
        "    v.node = node",
        "    v.version = result._counter = version",
        "    v.seen = version.n",
    ]


def save_lines(op: Op, ins: tuple[str, ...], want: tuple[str, ...]) -> list[str]:
    tensors, statics = layout_of_saved(op, ins, want)
    readers = op.saved_names(want)
    parts, lines = [], []
    for n in tensors:
        if n == "result":
            parts.append("r")
            lines.append("            node.result_version = None")
            continue
        if n in op.intermediates:
            parts.append(n)
            continue
        seen = f"0 if {n}._counter is None else {n}._counter.n"
        conditions = []
        if optional(op, n):
            conditions.append(f"{n} is not None")
        if len(want) > 1 and set(readers[n]) != set(want):
            conditions.append("(" + " or ".join(f"e_{w} is not None" for w in readers[n]) + ")")
        if conditions:
            test = " and ".join(conditions)
            parts += [f"{n} if {test} else None", f"({seen}) if {test} else 0"]
        else:
            parts += [n, seen]
    if tensors:
        lines.append("            node.saved = (" + ", ".join(parts) + ",)")
    else:
        lines.append("            node.saved = None")
    if statics:
        lines.append(
            "            node.statics = ("
            + ", ".join(f"({static_value(op, n)})" for n in statics)
            + ",)"
        )
    return lines


def static_value(op: Op, name: str) -> str:
    if name in op.statics or name in op.inputs:  # an input: a Python number in its place
        return name
    source = name.removesuffix("_shape").removesuffix("_dtype")
    value = f"a_{source}.shape" if name.endswith("_shape") else f"OF[a_{source}.dtype]"
    return f"None if a_{source} is None else {value}" if optional(op, source) else value


# -- the method behind a Python operator -----------------------------------------------------------


def compile_operator(op: Op, built: general.Built) -> Any:
    """`a <op> b`: as the function, without keyword arguments, and quick with Python numbers."""
    x, y = op.inputs
    tests = [f"a_{x}.__class__ is not ndarray", f"a_{y}.__class__ is not ndarray"]
    tests += dtype_test(op, [f"a_{x}", f"a_{y}"]) + ["active.modes"]
    lines = [
        f"def {op.name}({x}, {y}):",
        f"    c = {y}.__class__",
        "    if c is float or c is int:",
        *("    " + line for line in scalar_lines(op)),
        "    try:",
        f"        a_{x} = {x}._array",
        f"        a_{y} = {y}._array",
        "    except AttributeError:",
        f"        return slow_operator({x}, {y})",
        f"    if {' or '.join(tests)}:",
        f"        return slow_operator({x}, {y})",
        "    try:",
        f"        r = kernel(a_{x}, a_{y})"
        if op.kernel
        else f"        r = forward(xp, a_{x}, a_{y})",
        "    except (ValueError, RuntimeWarning, TypeError, OverflowError):",
        f"        return slow_operator({x}, {y})",
        "    if r.__class__ is not ndarray: r = asarray(r)",
        *record_lines(op, op.inputs, "N", f"slow_operator({x}, {y})"),
        *result_lines(op),
        "    return result",
    ]
    text = "\n".join(lines)
    for s in op.statics:  # static arguments have their defaults here
        text = text.replace(f"node.statics = ({s},", f"node.statics = (d_{s},")
    names = function_scope(op, built) | {"slow_operator": built.slow_operator}
    return evaluate(op, text, op.name, names, " operator")


def scalar_lines(op: Op) -> list[str]:
    """The section for `tensor <op> number`: the number stays a Python number (NumPy's weak scalar)."""
    x, y = op.inputs
    if not op.kernel or not op.elementwise or op.promote is None:
        return [f"    return slow_operator({x}, {y})"]
    kinds = f"(a_{x}.dtype is not f32 and a_{x}.dtype is not f64"
    kinds += ")" if op.promote == "float" else f" and (c is float or a_{x}.dtype is not i64))"
    return [
        f"    a_{x} = {x}._array",
        f"    if a_{x}.__class__ is not ndarray or {kinds} or active.modes:",
        f"        return slow_operator({x}, {y})",
        "    try:",
        f"        r = kernel(a_{x}, {y})",
        "    except (ValueError, RuntimeWarning, TypeError, OverflowError):",
        f"        return slow_operator({x}, {y})",
        "    if r.__class__ is not ndarray: r = asarray(r)",
        *record_lines(op, (x,), "NS", f"slow_operator({x}, {y})"),
        *result_lines(op),
        "    return result",
    ]
