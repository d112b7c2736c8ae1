"""Prints the straight-line Python of a call, one group of lines for each stage of the pipeline.

`specialise.py` says which functions are printed, and for what. The names in their source: `a_x` is the
array of the tensor `x`, `e_x` its edge, `d_x` the default of a parameter, `k_add` the kernel `add` of the
CPU back end, `N` the class of the node, `r` the array of the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.dispatch.emit_results import (
    array_lines,
    optional,
    result_lines,
    several_lines,
    several_view_lines,
)
from rushlight.dispatch.nodes import (
    MOST,
    keep_lines,
    layout_of_saved,
    output_number,
    split_lines,
    straight_rules,
)
from rushlight.dispatch.older_orders import FACTORS_FIRST
from rushlight.dispatch.record import differentiable_output
from rushlight.dispatch.traced import kernel_call

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Op

ERRORS = "(ValueError, RuntimeWarning, TypeError, OverflowError, MemoryError)"


# -- bind ------------------------------------------------------------------------------------------


def signature(op: Op, *, out: bool = True) -> str:
    """The parameters of the public function: PyTorch's, NumPy's names beside them, `out`."""
    parts = []
    late = late_parameters(op)
    for i, p in enumerate(op.params):
        if i == op.n_positional:
            parts.append("*more" if op.path in FACTORS_FIRST else "*")
        parts.append(f"{p}=missing" if p in late else f"{p}=d_{p}" if p in op.defaults else p)
    extra = []
    if has_axis(op):
        extra.append("axis=None")
    if "keepdim" in op.statics:
        extra.append("keepdims=None")
    if op.has_out and out:
        extra.append("out=None")
    if extra and op.n_positional == len(op.params):
        parts.append("*")
    return ", ".join(parts + extra)


def has_axis(op: Op) -> bool:
    """Whether NumPy's name for `dim` is taken too."""
    return "dim" in op.statics and "axis" not in op.statics


def late_parameters(op: Op) -> list[str]:
    """A `dim` that must be given, unless `axis` is, and what must be given after it."""
    if not has_axis(op) or "dim" in op.defaults:
        return []
    return [p for p in op.params[op.params.index("dim") :] if p not in op.defaults]


def bind_lines(op: Op, mark: str = "") -> list[str]:
    """Lines for NumPy's keyword names and for PyTorch's older orders; `mark` is "_" for `name_`."""
    lines = []
    if op.path in FACTORS_FIRST:
        given, tensors = ", ".join(op.params), ", ".join(op.params[:3])
        lines.append(f"    if more: {given} = factors_last('{op.name}{mark}', {tensors}, *more)")
    late = late_parameters(op)
    if late:
        lines += [
            "    if dim is missing:",
            "        if axis is None: lacks(op, 'dim')",
            "        dim = axis",
            "    elif axis is not None: twice(op, 'axis')",
        ]
        lines += [
            f"    if {p} is missing: lacks(op, '{p}')" for p in late if p not in ("dim", *op.inputs)
        ]
    elif has_axis(op):
        lines += [
            "    if axis is not None:",
            "        if dim is not d_dim: twice(op, 'axis')",
            "        dim = axis",
        ]
    if "keepdim" in op.statics:
        lines += [
            "    if keepdims is not None:",
            "        if keepdim is not d_keepdim: twice(op, 'keepdims')",
            "        keepdim = keepdims",
        ]
    return lines


def everything(op: Op) -> str:
    """All arguments in order, as the general way takes them."""
    return ", ".join((*op.params, "out") if op.has_out else op.params)


def variant_text(op: Op) -> str:
    """The call that says which operator takes over, with the arguments that its function names."""
    code = op.variant.__code__
    return f"variant({', '.join(code.co_varnames[: code.co_argcount])})"


def tells_who(op: Op) -> bool:
    """Whether the values of arguments decide what takes a call over (`rounding_mode`), and not their classes alone."""
    return op.elementwise and op.variant is not None and not op.keyed


def handover_lines(op: Op) -> list[str]:
    """Lines that hand plain arrays of one dtype to what takes a call with such arguments over: it has entries of its own."""
    if not (op.kernel and op.statics and tells_who(op)):
        return []
    arrays = [f"a_{i}" for i in op.inputs]
    strange = [*array_tests(op), *(f"{arrays[0]}.dtype is not {a}.dtype" for a in arrays[1:])]
    strange += [*(["out is not None"] if op.has_out else []), "active.modes"]
    given = ", ".join(p if k < op.n_positional else f"{p}={p}" for k, p in enumerate(op.params))
    return [
        f"    if {' or '.join(f'{s} is not d_{s}' for s in op.statics)}:",
        f"        taken = {variant_text(op)}",
        f"        if taken is not None and not ({' or '.join(strange)}): return taken({given})",
    ]


# -- unwrap ----------------------------------------------------------------------------------------


def unwrap_lines(op: Op, again: str) -> list[str]:
    """Lines that read the arrays of the inputs; `again` is taken for what is no tensor."""
    lines = [
        f"    if {i}.__class__ is not list and {i}.__class__ is not tuple: {again}"
        for i in op.lists
    ]
    lines.append("    try:")
    for i in op.inputs:
        value = f"{i}._array"
        if i in op.lists:
            value = f"[t._array for t in {i}]"
        elif optional(op, i):
            value = f"None if {i} is None else {value}"
        lines.append(f"        a_{i} = {value}")
    return [*lines, "    except AttributeError:", f"        {again}"]


def number_lines(op: Op, again: str) -> list[str]:
    """Lines that leave a call with a Python number to `again`: an attribute that is missing takes longer."""
    lines = []
    for i in op.numbers if op.elementwise and op.promote is not None else ():
        if i != op.inputs[0]:
            lines += [f"    c = {i}.__class__", f"    if c is float or c is int: {again}"]
    return lines


def array_tests(op: Op) -> list[str]:
    """Conditions under which an input is no plain array."""
    return [
        f"{{*map(type, a_{i})}} != arrays_alone"
        if i in op.lists
        else f"(a_{i}.__class__ is not ndarray and {i} is not None)"
        if optional(op, i)
        else f"a_{i}.__class__ is not ndarray"
        for i in op.inputs
    ]


def number_tests(op: Op) -> list[str]:
    """Conditions under which a number is none of Python's, or not whole where it has to be."""
    sets = ["integers" if s in op.integers else "numbers" for s in op.scalars]
    return [f"{s}.__class__ not in {kinds}" for s, kinds in zip(op.scalars, sets, strict=True)]


# -- promote ---------------------------------------------------------------------------------------


def dtype_test(op: Op, arrays: list[str]) -> list[str]:
    """Conditions under which an elementwise operator has to promote (or to refuse) a dtype."""
    if not op.elementwise or op.promote is None:
        return []
    tests, first = [], f"(d := {arrays[0]}.dtype)"
    for a in arrays[1:]:
        other = f"({a}.dtype if {a} is not None else d)" if optional(op, a[2:]) else f"{a}.dtype"
        tests.append(f"{'d' if tests else first} is not {other}")
    if op.promote == "float" or op.accepts is not None:
        first = "(d is not f32" if tests else f"((d := {arrays[0]}.dtype) is not f32"
        more = "d is not bf16 and d is not f16" if op.promote == "float" else "d not in accepted"
        tests.append(f"{first} and d is not f64 and {more})")
    return tests


# -- run -------------------------------------------------------------------------------------------


def run_text(op: Op, texts: dict[str, str], out: str = "") -> str:
    """The call that computes the forward, written into `out` where one is named."""
    function, values = run_values(op, texts)
    if out and function != "forward":
        values = [*values, f"out={out}"]
    return f"{function}({', '.join(values)})"


def run_values(op: Op, texts: dict[str, str]) -> tuple[str, list[str]]:
    """What computes the forward: a kernel, or the body of the operator; and its arguments."""
    found = kernel_call(op, texts)
    if found is not None:
        return f"k_{found[0]}", [*found[1]]
    n = op.n_positional
    values = [texts[p] if k < n else f"{p}={texts[p]}" for k, p in enumerate(op.params)]
    values += ["keep"] if op.intermediates else []
    return "forward", ["xp", *values]


def entry_values(op: Op, texts: dict[str, str]) -> tuple[str, list[str]]:
    """What an entry calls, and its arguments: that of the whole operator, what is tried first, or what computes the
    forward."""
    if op.first:
        return f"k_{op.first}", [texts[p] for p in op.params]
    if "whole" in op.scope:
        return "whole", [texts[p] for p in op.params]
    return run_values(op, texts)


def native_lines(op: Op, texts: dict[str, str], unless: list[str], again: str) -> list[str]:
    """Lines that leave a call to machine code (`entry_of` in specialise.py), once that is active.

    `texts`: what stands for each parameter; `unless`: conditions under which a call is another one.
    """
    if "entry" not in op.scope:
        return []
    function, values = entry_values(op, texts)
    lines = entry_lines("entry", function, values, again)
    if unless:
        lines = [f"if not ({' or '.join(unless)}):", *("    " + line for line in lines)]
    return ["    " + line for line in lines]


def entry_lines(entry: str, function: str, values: list[str], again: str) -> list[str]:
    """Lines that hand a call to a native entry."""
    return [
        "try:",
        f"    result = {entry}({', '.join([function, *values])})",
        f"except {ERRORS}:",
        f"    {again}",
        "if result is not None: return result",
    ]


def texts_of(op: Op) -> dict[str, str]:
    """Arrays in place of tensors, static arguments as they are."""
    return {p: f"a_{p}" if p in op.inputs else p for p in op.params}


def run_lines(call: str, again: str) -> list[str]:
    """Lines that leave the array of the result in `r`; an error is raised again, in PyTorch's words."""
    return ["    try:", f"        r = {call}", f"    except {ERRORS}:", f"        {again}"]


# -- record ----------------------------------------------------------------------------------------


def record_lines(op: Op, ins: tuple[str, ...], node: str, again: str) -> list[str]:
    """Lines that leave the recorded node, or None, in `node`.

    `ins` are the inputs that are tensors; `again` returns what the general way gives.
    """
    want = tuple(i for i in op.wanted() if i in ins)
    lines = ["    node = None"]
    if not want:
        return lines
    if op.lists:
        return [*lines, *record_list_lines(op, node)]
    lines += [
        f"    e_{i} = {i}._edge" + (f" if {i} is not None else None" if optional(op, i) else "")
        for i in want
    ]
    some = " or ".join(f"e_{i} is not None" for i in want)
    lines.append(f"    if ({some}) and thread.grad:")
    lines += [f"        if e_{i}.__class__ is View: e_{i} = e_{i}.resolve()" for i in want]
    if op.elementwise and op.promote in ("same", "float"):
        if op.promote == "same":  # rules of complex numbers need conjugates
            lines.append(f"        if a_{ins[0]}.dtype not in floats: {again}")
    lines += [
        f"        if {some}:",
        f"            node = new({class_of_node(op, node)})",
        "            node._edges = ("
        + ", ".join(f"e_{i}" if i in want else "None" for i in op.inputs)
        + ",)",
        "            node.hooks = None",
        *(save_several_lines(op) if op.outputs == "list" else save_lines(op, ins, want)),
    ]
    if op.outputs == "list":
        return lines
    if op.outputs is not None:
        return [*lines, *output_lines(op, want)]
    if op.elementwise and len(ins) > 1:
        tests = {i: f"a_{want[0]}.shape == a_{i}.shape" for i in ins if i != want[0]}
        same = " and ".join(
            f"(a_{i} is None or {t})" if optional(op, i) else t for i, t in tests.items()
        )
        size = {i: f"(a_{i}.shape, a_{i}.dtype)" for i in want}
        size |= {i: f"{size[i]} if e_{i} is not None else None" for i in want if optional(op, i)}
        sizes = ", ".join(size.get(i, "None") for i in op.inputs)
        lines.append(f"            node.unbroadcast_to = None if {same} else ({sizes},)")
    else:
        lines.append("            node.unbroadcast_to = None")
    return lines


def record_list_lines(op: Op, node: str) -> list[str]:
    """Lines that record a call whose one input is a list of tensors."""
    (i,) = op.inputs
    return [
        f"    edges = [t._edge for t in {i}]",
        "    if edges.count(None) < len(edges) and thread.grad:",
        "        if [e.__class__ for e in edges].count(View):",
        "            edges = [e.resolve() if e.__class__ is View else e for e in edges]",
        "        if edges.count(None) < len(edges):",
        f"            node = new({node})",
        "            node._edges = tuple(edges)",
        "            node.hooks = None",
        *save_lines(op, op.inputs, op.inputs),
        f"            if [a.dtype for a in a_{i}].count(r.dtype) == len(edges): node.unbroadcast_to = None",
        f"            else: node.unbroadcast_to = tuple([(a.shape, a.dtype) for a in a_{i}])",
    ]


def save_several_lines(op: Op) -> list[str]:
    """Lines that keep in `node`, a general one, what the rule of a call with several results reads."""
    (i,), pad = op.inputs, " " * 12
    statics = ", ".join(f"'{n}': {static_value(op, n)}" for n in op.saved_names())
    return [
        f"{pad}node.unbroadcast_to = ((a_{i}.shape, a_{i}.dtype),)",
        f"{pad}node.saved = node.result_version = None",
        f"{pad}node.outputs = OutputInfo.of_all(r)",
        f"{pad}node.statics = ({{{statics}}}, False)",
    ]


def output_lines(op: Op, want: tuple[str, ...]) -> list[str]:
    """Lines that hand `node` to the several outputs of its call, and note what they are."""
    pad, made = " " * 12, [f"t{nr}" for nr in range(len(op.outputs))]
    sizes = ", ".join(
        f"(a_{i}.shape, a_{i}.dtype) if e_{i} is not None else None" if i in want else "None"
        for i in op.inputs
    )
    infos = ", ".join(f"None if {t} is None else OutputInfo({t}._array)" for t in made)
    lines = [f"{pad}node.unbroadcast_to = ({sizes},)", f"{pad}node.outputs = [{infos}]"]
    for nr, t in enumerate(made):
        if differentiable_output(op, nr):
            lines.append(
                f"{pad}if {t} is not None and {t}._array.dtype.kind not in 'bui': {t}._edge = Output(node, {nr})"
            )
    return lines


def class_of_node(op: Op, plain: str) -> str:
    """The text of the class of a call's node, `plain` where it does not depend on the arguments."""
    if op.node_pair:
        return "N if dim is None else N1"
    if op.names_node:
        return f"(classes.get(n := name_of({', '.join(op.params)})) or node_class(op, n))[0]"
    return plain


def save_lines(op: Op, ins: tuple[str, ...], want: tuple[str, ...]) -> list[str]:
    """Lines that keep in `node` what the rules of the inputs `want` read."""
    tensors, statics = layout_of_saved(op, ins, want)
    readers = op.saved_names(want)
    parts, lines = [], []
    for n in tensors:
        if (nr := output_number(op, n)) is not None:
            parts.append(f"SavedResult(t{nr})")
            continue
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
        values = "".join(f"({static_value(op, n)}), " for n in statics)
        lines.append(f"            node.statics = ({values})")
    return lines


def static_value(op: Op, name: str) -> str:
    if name in op.statics or name in op.inputs:  # an input: a Python number in its place
        return name
    source = name.removesuffix("_shape").removesuffix("_dtype")
    if source in op.lists:
        return f"[a.shape for a in a_{source}]"
    value = f"a_{source}.shape" if name.endswith("_shape") else f"OF[a_{source}.dtype]"
    return f"None if a_{source} is None else {value}" if optional(op, source) else value


# -- whole functions -------------------------------------------------------------------------------


def straight(op: Op) -> bool:
    """Whether the commonest call is simple enough to be printed: one output, or several views; a list of
    tensors is the only input, of which the rule reads no more than shapes."""
    read = {"g", *op.statics, *(f"{i}_shape" for i in op.inputs)}
    alone = len(op.inputs) == 1 and not op.rule_all and read.issuperset(op.saved_names())
    return (
        (not op.lists or alone)
        and (op.outputs is None or op.view and op.outputs == "list" and alone)
        and 1 <= len(op.inputs) <= MOST
        and (not op.names_node or op.node_pair or op.view)
    )


def straight_several(op: Op) -> bool:
    """Whether to print the call that returns several outputs, named or a list of them."""
    several = op.outputs is not None and not op.view and not op.names_node
    return several and op.lists.isdisjoint(op.wanted()) and 1 <= len(op.inputs) <= MOST


def function_source(op: Op, quiet: bool = False) -> str:
    """The public function: plain arrays of one dtype, and no mode; the rest goes to `slow`.

    `quiet`: as it is inside inference_mode, where nothing is recorded.
    """
    again = f"return slow({everything(op)})"
    tests = array_tests(op) + dtype_test(op, [f"a_{i}" for i in op.inputs])
    unusual = ["out is not None"] if op.has_out else []
    if op.kernel:
        unusual += [f"{s} is not d_{s}" for s in op.statics]
    elif op.variant is not None and op.keyed:  # a bound of `clamp` may be a tensor
        unusual += [f"{s}.__class__ not in numbers" for s in op.statics]
    elif op.variant is not None:
        unusual.append(f"{variant_text(op)} is not None")
    else:  # NumPy's numbers would take part in the promotion
        unusual += number_tests(op)
    tests += unusual
    if not quiet:
        tests.append("active.modes")
    run = run_lines(run_text(op, texts_of(op)), again)
    if op.first:
        strange = tests.pop(0)
        tried = f"k_{op.first}({', '.join(texts_of(op).values())})"
        if not op.lists:  # a test of one array costs little, and the kernel may take any
            tried = f"None if {strange} else {tried}"
        run = [
            f"    r = {tried}",
            f"    if r is None and {strange}: {again}",
            "    if r is None:",
            *("    " + line for line in run),
        ]
    lines = [
        f"def {op.name}({signature(op)}):",
        *bind_lines(op),
        *number_lines(op, again),
        *([] if quiet else native_lines(op, {p: p for p in op.params}, unusual, again)),
        *unwrap_lines(op, again),
        *handover_lines(op),
        *([f"    if {' or '.join(tests)}:", f"        {again}"] if tests else []),
        *keep_lines(op, quiet),
        *run,
        *split_lines(op),
    ]
    if op.outputs == "list" and op.view:
        return "\n".join(
            [*lines, *record_lines(op, op.inputs, "N", again), *several_view_lines(op)]
        )
    if op.outputs is not None:
        recorded = record_lines(op, op.inputs, "N", again) if straight_rules(op) else None
        return "\n".join([*lines, *several_lines(op, recorded)])
    lines += array_lines(op, texts_of(op))
    if quiet:
        lines += ["    node = None", *result_lines(op)[:-1], "    result._counter = INFERENCE"]
    else:
        lines += [*record_lines(op, op.inputs, "N", again), *result_lines(op)]
    return "\n".join([*lines, "    return result"])


def operator_source(op: Op) -> str:
    """`a <op> b`: as the function, without keyword arguments, and quick with Python numbers."""
    x, y = op.inputs
    again = f"return slow_operator({x}, {y})"
    tests = [f"a_{x}.__class__ is not ndarray", f"a_{y}.__class__ is not ndarray"]
    tests += [*dtype_test(op, [f"a_{x}", f"a_{y}"]), "active.modes"]
    texts = {p: f"d_{p}" for p in op.statics} | {x: f"a_{x}", y: f"a_{y}"}
    lines = [
        f"def {op.name}({x}, {y}):",
        f"    c = {y}.__class__",
        "    if c is float or c is int:",
        *("    " + line for line in scalar_lines(op)),
        *native_lines(op, texts | {x: x, y: y}, [], again),
        "    try:",
        f"        a_{x} = {x}._array",
        f"        a_{y} = {y}._array",
        "    except AttributeError:",
        f"        {again}",
        f"    if {' or '.join(tests)}:",
        f"        {again}",
        *run_lines(run_text(op, texts), again),
        *array_lines(op, texts),
        *record_lines(op, op.inputs, "N", again),
        *result_lines(op),
        "    return result",
    ]
    return with_defaults(op, lines)


def with_defaults(op: Op, lines: list[str]) -> str:
    """The source, in which static arguments have their defaults."""
    text = "\n".join(lines)
    for s in op.statics:
        text = text.replace(f"node.statics = (({s}),", f"node.statics = ((d_{s}),")
    return text


def scalar_lines(op: Op) -> list[str]:
    """The section for `tensor <op> number`: the number stays a Python number (NumPy's weak scalar)."""
    x, y = op.inputs
    again = f"return slow({', '.join([x, y, *(f'd_{s}' for s in op.params[2:])])})"
    if not op.kernel or not op.elementwise or op.promote is None:
        return [f"    {again}"]
    kinds = f"(a_{x}.dtype is not f32 and a_{x}.dtype is not f64"
    kinds += ")" if op.promote == "float" else f" and (c is float or a_{x}.dtype is not i64))"
    lines = []
    if "entry_float" in op.scope:
        entry = "(entry_float if c is float else entry_int)"
        lines = entry_lines(entry, f"k_{op.kernel}", [x, y], again)
    return [
        *("    " + line for line in lines),
        f"    a_{x} = {x}._array",
        f"    if a_{x}.__class__ is not ndarray or {kinds} or active.modes:",
        f"        {again}",
        *run_lines(f"k_{op.kernel}(a_{x}, {y})", again),
        *array_lines(op, {x: f"a_{x}", y: y}),
        *record_lines(op, (x,), "NS", again),
        *result_lines(op),
        "    return result",
    ]


def composite_source(op: Op, unasked: frozenset[str]) -> str:
    """The public function of a composite: its body, once it is known that nobody overrides the call.

    `unasked`: annotations of parameters whose arguments have no `__torch_function__`.
    """
    tests = ["active.modes"] + (["out is not None"] if op.has_out else [])
    for p in op.params:
        note = str(op.notes.get(p, "Any"))
        if note.startswith(("Array", "Tensor")) and p not in op.lists:
            given = f"{p} is not None and " if "None" in note else ""
            tests.append(f"({given}{p}._array.__class__ is not ndarray)")
        elif p in op.lists:
            tests.append(
                f"({p}.__class__ is not list and {p}.__class__ is not tuple) or not plain.issuperset(map(type, {p}))"
            )
        elif note.removesuffix(" | None") not in unasked:
            tests.append(f"({p}.__class__ not in plain and overriding({p}))")
    body = ", ".join(p if k < op.n_positional else f"{p}={p}" for k, p in enumerate(op.params))
    lines = [
        f"def {op.name}({signature(op)}):",
        *bind_lines(op),
        "    try:",
        f"        unusual = {' or '.join(tests)}",
        "    except AttributeError:  # a number, a list: the body says what is wrong with it",
        "        unusual = True",
        "    if unusual:",
        f"        return slow(({everything(op)},){'' if op.has_out else ' + (None,)'})",
        f"    return body({body})",
    ]
    return "\n".join(lines)
