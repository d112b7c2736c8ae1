"""Prints the lines behind a kernel's call: its result `r` as an array, laid out, wrapped, linked to what it is a view
of; see emit.py for the names in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight._backends import llvm

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Op

AS_ARRAY = "    if r.__class__ is not ndarray: r = asanyarray(r)"


def optional(op: Op, name: str) -> bool:
    return "None" in str(op.notes.get(name, ""))


def recorded_text(op: Op) -> str:
    """The condition under which a call of an operator without lists is recorded."""
    edges = [
        f"{i} is not None and {i}._edge is not None"
        if optional(op, i)
        else f"{i}._edge is not None"
        for i in op.wanted()
    ]
    return f"({' or '.join(edges)}) and thread.grad"


# -- wrap ------------------------------------------------------------------------------------------


def array_lines(op: Op, texts: dict[str, str]) -> list[str]:
    """Lines that make an array of `r`, which lies as those of an elementwise operator do: Note [Layouts of results].

    `texts`: what stands for each input, an array (`a_x`) or a number. Row-major arrays of one shape need no more.
    """
    inputs = op.operands([i for i in op.inputs if not texts[i].startswith("a_")])
    if inputs is None:
        return [AS_ARRAY]
    arrays = {texts[i]: optional(op, i) for i in inputs if texts[i].startswith("a_")}
    operands = [texts[i] if texts[i].startswith("a_") else "0" for i in inputs]
    lay = f"r = k_laid_out({', '.join(['r', *operands])})"
    if llvm.active:  # machine code answers in less time than these questions take
        return [f"    {lay}"]
    if not arrays:
        return [AS_ARRAY, f"    if not r.flags.c_contiguous or 1 in r.shape: {lay}"]
    plain = [f"{a} is None or {a}.flags.c_contiguous" for a, may_lack in arrays.items() if may_lack]
    plain = [f"({test})" for test in plain]
    plain += [f"{a}.flags.c_contiguous" for a, may_lack in arrays.items() if not may_lack]
    test = f"not ({' and '.join(plain)})" if len(plain) > 1 else f"not {plain[0]}"
    if len(operands) > 1:  # of sizes 1 the strides may be any
        test += " or 1 in (s := r.shape) or 0 in s"
    return [AS_ARRAY, f"    if {test}: {lay}"]


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


def several_view_lines(op: Op) -> list[str]:
    """Lines that wrap the arrays `r`, each a view of the input, and link them to `node`."""
    source, statics = op.inputs[0], "".join(f", {s}" for s in op.statics)
    return [
        f"    base, parent = {source}, None",
        "    kind = MULTI if node is not None or thread.grad else NO_GRAD",
        f"    e = {source}._edge",
        "    if e.__class__ is View:",
        "        base, parent = e.base, e",
        "        if e.kind != DEFAULT and kind is NO_GRAD: kind = e.kind",
        f"    version = {source}._counter or version_of({source})",
        f"    if version is INFERENCE: return slow({', '.join(op.params)})",
        "    seen = version.n",
        "    several = node is not None and len(r) > 1",
        "    made = []",
        "    for nr, a in enumerate(r):",
        "        t = new(Tensor)",
        "        t._array = a",
        "        v = t._edge = new(View)",
        "        v.base = base",
        "        v.parent = parent",
        "        v.make = nth",
        f"        v.args = (op, nr{statics})",
        "        if several:",
        "            v.node = e = new(Output)",
        "            e.node = node",
        "            e.nr = nr",
        "        else: v.node = node",
        "        v.version = t._counter = version",
        "        v.seen = seen",
        "        v.kind = kind",
        "        made.append(t)",
        "    return tuple(made)",
    ]


def several_lines(op: Op, recorded: list[str] | None) -> list[str]:
    """Lines that wrap the arrays `r` of several outputs and record them, by the lines `recorded` where a node is
    printed."""
    listed = op.outputs == "list"
    lines = ["    made = wrap(op, {}, r)"] if listed else []
    names = [] if listed else [f"t{k}" for k in range(len(op.outputs))]
    made = "made" if listed else f"[{', '.join(names)}]"
    for k, t in enumerate(names):
        lines += [
            f"    a = r[{k}]",
            f"    if a is None: {t} = None",
            "    else:",
            f"        {t} = new(Tensor)",
            f"        {t}._array = a if a.__class__ is ndarray else asanyarray(a)",
            f"        {t}._edge = {t}._counter = None",
        ]
    if recorded is not None:
        lines += recorded
    elif op.wanted():
        named = ", ".join(f"'{p}': {p}" for p in (*op.params, *op.intermediates))
        lines += [
            f"    if {recorded_text(op)}:",
            f"        record(op, {{{named}}}, {made})",
        ]
    if listed:
        return [*lines, "    return tuple(made)"]
    return [*lines, f"    return tuple_of(results, ({', '.join(names)},))"]
