"""Writes, for each operator, the node classes that its calls record, and their straight-line `apply`.

See Note [Generated code] in specialise.py, which prints the functions themselves.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import llvm
from rushlight._codegen import python_source
from rushlight.autograd.graph import new, raise_freed, raise_stale, version_of
from rushlight.autograd.state import active, scope, thread
from rushlight.autograd.views import DEFAULT, MULTI, NO_GRAD, View, edge_of
from rushlight.core import dtypes
from rushlight.core.dtype_sets import BF16, F16, F32, F64, FLOATING, I64
from rushlight.core.tensor import INFERENCE, Tensor
from rushlight.dispatch.emit_results import optional, recorded_text
from rushlight.dispatch.record import (
    GeneralNode,
    OpNode,
    edge_of_saved,
    named_outputs,
    output_number,
    saved_attribute,
    unbroadcast_all,
    watched,
    wrapped,
)
from rushlight.dispatch.results import have_common_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.registry import Op, Rule

# What every generated function sees.
scope |= {
    "ndarray": np.ndarray,
    "asanyarray": xp.asanyarray,
    "asarray": xp.asarray,
    "f32": F32,
    "f64": F64,
    "f16": F16,
    "bf16": BF16,
    "i64": I64,
    "new": new,
    "Tensor": Tensor,
    "edge_of_saved": edge_of_saved,
    "View": View,
    "DEFAULT": DEFAULT,
    "NO_GRAD": NO_GRAD,
    "MULTI": MULTI,
    "arrays_alone": {np.ndarray},
    "numbers": {float, int, bool, type(None)},
    "integers": {int, type(None)},
    "thread": thread,
    "active": active,
    "INFERENCE": INFERENCE,
    "version_of": version_of,
    "edge_of": edge_of,
    "overlap": have_common_memory,
    "xp": xp,
    "OF": dtypes.OF,
    "raise_freed": raise_freed,
    "raise_stale": raise_stale,
    "unbroadcast_all": unbroadcast_all,
    "floats": FLOATING,
    "watched": watched,
    "wrapped": wrapped,
    "__name__": "rushlight.ops.generated",
    "k_laid_out": None,
}
xp.link(scope)


MOST = 8  # inputs of an operator whose calls are written out
LARGE = 32768  # elements from which the arithmetic of rules is left to operators


def evaluate(op: Op, source: str, name: str, names: dict[str, Any], kind: str) -> Any:
    """Run generated source: its own names become defaults of a factory, `scope` its globals."""
    file = f"<rushlight {op.path}{kind}>"
    lines = [f"def make({', '.join(names)}):", *("    " + line for line in source.splitlines())]
    lines.append(f"    return {name}")
    text = "\n".join(lines) + "\n"
    space: dict[str, Any] = {}
    python_source.run(text, file, scope, space)
    function = space["make"](**names)
    function.__qualname__ = name
    function.__doc__ = op.declared.__doc__
    function.op = op
    return function


def identity(rule: Callable) -> bool:
    """The rule is `lambda g: g`: it needs no call."""
    return rule.__code__.co_code == (lambda g: g).__code__.co_code


def arithmetic(rule: Rule) -> bool:
    """The rule has no kernel and uses nothing but arithmetic on its parameters: no name, attribute or
    function. Such a rule gives the same on arrays as on tensors, so that it is its own kernel."""
    code = rule.function.__code__
    return rule.kernel is None and not (code.co_names or code.co_freevars or code.co_cellvars)


def take_half_types(rules: dict[str, Rule], ins: tuple[str, ...]) -> bool:
    """Whether rules of arithmetic are right on arrays of half types: NumPy makes float32 of a Python number
    beside an array of bfloat16, so they must know none."""
    for rule in rules.values():
        if not {"g", "result", *ins}.issuperset(rule.names):
            return False
        if not identity(rule.function) and any(
            c is not None for c in rule.function.__code__.co_consts
        ):
            return False
    return True


def layout_of_saved(op: Op, ins: tuple[str, ...], want: tuple[str, ...]) -> tuple[list, list]:
    """(saved, statics): names kept as arrays or tensors, and names kept as plain values."""
    made, readers = named_outputs(op), op.saved_names(want)
    found = {*ins, "result", *op.intermediates, *made}
    gradients = {f"g_{n}" for n in made}
    tensors = [n for n in readers if n in found]
    return tensors, [n for n in readers if n not in found and n not in gradients]


def node_class(op: Op, name: str) -> tuple[type, type]:
    """(plain, general): the node classes of an operator under one name, made once."""
    classes = op.node_classes.get(name)
    if classes is None:
        general = type(
            name, (GeneralNode,), attributes_of_nodes(op, name) | {"saves_result": False}
        )
        plain = plain_class(op, name, op.inputs) if straight_rules(op) else general
        classes = op.node_classes[name] = (plain, general)
    return classes


def number_class(op: Op, ins: tuple[str, ...]) -> type | None:
    """The node class of a call with tensors for the inputs `ins` and Python numbers for the others, made once; None
    where only general nodes do."""
    if ins not in op.number_classes:
        name = op.node_name_with_numbers([i for i in op.inputs if i not in ins]) or op.node_name()
        straight = straight_rules(op) and not op.rule_all and not {*ins}.isdisjoint(op.wanted())
        op.number_classes[ins] = plain_class(op, name, ins) if straight else None
    return op.number_classes[ins]


def attributes_of_nodes(op: Op, name: str) -> dict[str, Any]:
    """The attributes of an operator's node classes of one name."""
    names = op.saved_names()
    found = {"__slots__": (), "op": op, "__module__": "torch.autograd", **op.shown_edges(name)}
    if op.pytorch_nodes is not None:
        found["_pytorch_nodes"] = staticmethod(op.pytorch_nodes)
    # properties, not __getattr__: a class that has one makes every attribute of a node slow to read
    for n in names:
        public = "self" if n == "input" else n
        found[f"_saved_{public}"] = property(lambda node, n=n: saved_attribute(node, n))
    return found | {"saves_result": "result" in names}


def straight_rules(op: Op) -> bool:
    """Whether a node class is printed: of one output, or of several that have names."""
    alone = not op.lists or op.inputs == (*op.lists,) and not op.lists & op.saved_names().keys()
    if op.outputs is not None:
        made, taken = named_outputs(op), {*op.inputs, "a", "d", "g", "r", "y"}
        read = [n for n in made if n in op.saved_names() or f"g_{n}" in op.saved_names()]
        alone = len(made) > 1 and not (op.lists or op.conjugates) and taken.isdisjoint(read)
    return alone and 1 <= len(op.inputs) <= MOST


def keep_lines(op: Op, quiet: bool) -> list[str]:
    """Lines of an operator's function before its forward, which takes `keep`: is the call recorded?"""
    if not op.intermediates:
        return []
    return ["    keep = False" if quiet else f"    keep = {recorded_text(op)}"]


def split_lines(op: Op) -> list[str]:
    """Lines after the forward: its result `r` without the intermediates, which are variables of their names.

    `save_lines` puts these into a plain node; for other nodes they stand among the values of `record`.
    """
    if not op.intermediates:
        return []
    names = ", ".join(op.intermediates)
    if op.outputs is None:
        return [f"    r, {names} = r"]
    return [f"    *r, {names} = r"]


# -- the source of `apply` -------------------------------------------------------------------------


def plain_class(op: Op, name: str, ins: tuple[str, ...]) -> type:
    """The node class of a call with plain arrays for the inputs `ins`; other inputs are Python numbers.

    Its `apply` is printed by the first node that runs it.
    """
    want = tuple(i for i in op.wanted() if i in ins)
    tensors, statics = layout_of_saved(op, ins, want)

    def apply(self: Any, g: Any, edges: Any, keep: bool, record: bool) -> Any:
        if made.apply is apply:
            made.apply = printed_apply(op, ins, want, tensors, statics)
        return made.apply(self, g, edges, keep, record)

    own = {"apply": apply, "saved_layout": (tensors, statics)}
    if several := named_outputs(op):
        own["_n_outputs"] = len(several)
    made: Any = type(name, (OpNode,), attributes_of_nodes(op, name) | own)
    return made


def printed_apply(
    op: Op, ins: tuple[str, ...], want: tuple[str, ...], tensors: list[str], statics: list[str]
) -> Callable:
    """`apply` of a node of plain arrays: what it saved to gradients."""
    lines = ["def apply(self, g, edges, keep, record):", *unpack_lines(op, want, tensors, statics)]
    lines += gradient_lines(op)
    rules = {i: op.rules[i] for i in want if i in op.rules}
    if op.rule_all:
        rules = {"all": op.rule_all}
        if "needs" in op.rule_all.reads:
            needs = ", ".join(f"edges[{k}] is not None" for k in range(len(op.inputs)))
            lines.append(f"    needs = ({needs},)")
    elif len(want) > 1:
        lines.append(f"    {', '.join('e_' + i if i in want else '_' for i in op.inputs)} = edges")
    lines += array_lines(op, rules, ins)
    outputs = [n for n in tensors if output_number(op, n) is not None]
    for n in outputs:
        if any(n in rule.names for rule in rules.values()):
            lines.append(f"    {n} = s_{n}.unpack(self, {n!r}, edge_of_saved(self, {n!r}))")
    if "result" in tensors and not outputs:
        lines += [
            "    result = new(Tensor)",
            "    result._array = r",
            "    result._counter = self.result_version",
            "    result._edge = self",
        ]
    lines += [
        f"    {n} = wrapped({n})"
        for n in op.intermediates
        if any(n in rule.names for rule in rules.values())
    ]
    if op.rule_all:
        value = rule_text("all", op.rule_all)
    else:
        calls = {}
        for i, rule in rules.items():
            calls[i] = "g" if identity(rule.function) else rule_text(i, rule)
            if rule.kernel is not None and any(r.kernel is None for r in rules.values()):
                calls[i] = f"{calls[i]} if g_{i} is NotImplemented else g_{i}"
            if len(want) > 1:
                calls[i] = f"None if e_{i} is None else {calls[i]}"
        value = gradients_of(op, calls)
    lines += return_lines(op, value)
    names = {f"rule_{i}": rule.function for i, rule in rules.items()}
    names |= {f"kernel_{i}": rule.kernel for i, rule in rules.items() if callable(rule.kernel)}
    return evaluate(op, "\n".join(lines), "apply", names, " backward" + str(len(ins)))


def may_save_none(op: Op, want: tuple[str, ...], name: str) -> bool:
    """Whether a node saves None for an input: it may not be given, or no gradient that is wanted reads it."""
    readers = op.saved_names(want)[name]
    return name in op.inputs and (optional(op, name) or len(want) > 1 and {*readers} != {*want})


def unpack_lines(
    op: Op, want: tuple[str, ...], tensors: list[str], statics: list[str]
) -> list[str]:
    """Lines that read what the node saved, and raise if it is gone or was written to. A node that saved no tensor is
    never freed."""
    lines = []
    if tensors:
        texts = {"result": "r"} | {n: f"{n}, v_{n}" for n in op.inputs}
        texts |= {n: f"s_{n}" for n in tensors if output_number(op, n) is not None}
        kept = [texts.get(n, n) for n in tensors]
        some = ""
        if all(may_save_none(op, want, n) for n in tensors):
            some = f" and ({' or '.join(f'{n} is not None' for n in tensors)})"
        lines += [
            "    try:",
            f"        {', '.join(kept)}, = self.saved",
            "    except TypeError:",
            "        raise_freed(self)",
            f"    if not keep{some}: self.saved = None",
        ]
    if statics:
        read = f"{', '.join(statics)}, = self.statics"
        if "at" in statics:  # index tensors are freed as saved tensors are
            lines += [
                "    if self.statics is None: raise_freed(self)",
                f"    {read}",
                "    if not keep: self.statics = None",
            ]
        else:
            lines.append(f"    {read}")
    for n in tensors:
        if output_number(op, n) is not None:
            continue  # `unpack` looks at its version, and kernels do
        if n == "result":
            lines += [
                "    if self.result_version is not None and self.result_version.n:",
                f"        raise_stale(self, {n!r}, r.shape, r.dtype, self.result_version.n, 0)",
            ]
        elif n in op.inputs:
            lines += [
                f"    if {n} is not None and {n}._counter is not None and {n}._counter.n != v_{n}:",
                f"        raise_stale(self, {n!r}, {n}.shape, {n}.dtype, {n}._counter.n, v_{n})",
            ]
    return lines


def gradient_lines(op: Op) -> list[str]:
    """Lines that name the gradients of several outputs as rules do; one that nobody sent is zeros, or None where a
    rule says so."""
    if not (made := named_outputs(op)):
        return []
    asked, may_lack = op.read_by_rules()
    named = [f"g_{n}" for n in made]
    given = [n if n in asked or nr == 0 and "g" in asked else "_" for nr, n in enumerate(named)]
    lines = ["    gs = g", f"    {', '.join(given)}, = gs"]
    for nr, n in enumerate(given):
        if n != "_" and n not in may_lack:
            lines.append(f"    if {n} is None: {n} = self.outputs[{nr}].zeros(gs)")
    return [*lines, f"    g = {named[0]}"] if "g" in asked else lines


def array_lines(op: Op, rules: dict[str, Rule], ins: tuple[str, ...]) -> list[str]:
    """Lines that compute gradients from arrays, by the kernels of rules, and return them, or leave those of
    some inputs in `g_<input>`.

    Rules of arithmetic run on small arrays. Large ones go to the back end's kernels, by the operators in the
    rules, which share them out to threads.
    """
    kernels = {i: rule for i, rule in rules.items() if rule.kernel is not None}
    if op.lists or named_outputs(op) and not kernels:
        return []
    sent = {"g", *(f"g_{n}" for n in named_outputs(op))}
    first = min((n for k in kernels.values() for n in k.kernel_names if n in sent), default="g")
    tests = [f"(a := {first}._array).__class__ is ndarray"]
    if kernels:
        tests += ["((d := a.dtype) is f32 or d in floats)", *rule_tests(op, kernels, ins)]
    else:
        if op.rule_all or not rules or not all(map(arithmetic, rules.values())):
            return []
        if all(identity(rule.function) for rule in rules.values()):
            return []
        kernels = rules
        tests += [f"a.size < {LARGE}", "not active.modes"]
        if not take_half_types(rules, ins):
            tests.append("((d := a.dtype) is f32 or d is f64)")
    whole = kernels.keys() == rules.keys()
    lines = [f"    g_{i} = NotImplemented" for i in kernels if not whole]
    lines += [f"    if not record and {' and '.join(tests)}:", "        try:"]
    for i, rule in kernels.items():
        call, pad = rule_call(op, i, rule, ins), " " * 12
        if op.rule_all:
            lines.append(f"{pad}g_all = wrapped({call})")
            continue
        if len(rules) > 1:
            lines += [f"{pad}if e_{i} is None: g_{i} = None", f"{pad}else:"]
            pad += "    "
        if identity(rule.function):
            lines.append(f"{pad}g_{i} = g")
            continue
        lines += [
            f"{pad}y = {call}",
            *(pad + line for line in layout_lines(op, rule, ins)),
            f"{pad}if y.__class__ is ndarray:",
            f"{pad}    g_{i} = new(Tensor)",
            f"{pad}    g_{i}._array = y",
            f"{pad}    g_{i}._edge = g_{i}._counter = None",
            f"{pad}else: g_{i} = wrapped(y)",
        ]
    if whole:
        value = "g_all" if op.rule_all else gradients_of(op, {i: f"g_{i}" for i in kernels})
        done = [f"g_{i} is not NotImplemented" for i, r in kernels.items() if callable(r.kernel)]
        pad = " " * 8
        if done:
            lines.append(f"            if {' and '.join(done)}:")
            pad += "    "
        lines += [pad + line for line in return_lines(op, value)]
    return [
        *lines,
        "        except RuntimeWarning:  # warnings are errors: operators are called again without them",
        "            pass",
    ]


def rule_tests(op: Op, kernels: dict[str, Rule], ins: tuple[str, ...]) -> list[str]:
    """Conditions on what kernels read: plain arrays, of the dtype of `g` for those of the back end. An input that
    is None was not given, or is read for another input's gradient."""
    same = {n for rule in kernels.values() if rule.kernel.__class__ is str for n in rule.names}
    tests = []
    for n in dict.fromkeys(n for rule in kernels.values() for n in rule.kernel_names):
        if output_number(op, n) is not None:
            tests.append(f"s_{n}.version.n == s_{n}.seen")
            if n in same:
                tests.append(f"s_{n}.array.dtype is d")
        elif n[:2] == "g_" and n[2:] in named_outputs(op):
            tests.append(f"{n}._array.__class__ is ndarray")
            if n in same:
                tests.append(f"{n}._array.dtype is d")
        elif n == "result" and n in same:
            tests.append("r.dtype is d")
        elif n in ins:
            tests.append(
                f"({n} is None or {n}._array.__class__ is ndarray"
                + (f" and {n}._array.dtype is d)" if n in same else ")")
            )
    return tests


def layout_lines(op: Op, rule: Rule, ins: tuple[str, ...]) -> list[str]:
    """Lines that lay a gradient `y` out as the result of an elementwise function of what the rule reads. Where the
    incoming one is row-major, it is."""
    if not op.elementwise:
        return []
    read = [n for n in rule.kernel_names if n == "g" or n == "result" or n in ins]
    arrays = ", ".join(array_texts(op, ins)[n] for n in read)
    unless = "" if llvm.active else "if not a.flags.c_contiguous: "
    return [f"{unless}y = k_laid_out(y, {arrays})"]


def array_texts(op: Op, ins: tuple[str, ...]) -> dict[str, str]:
    """What stands in `apply` for the arrays that rules read."""
    arrays = {"g": "a", "result": "r"} | {n: f"{n}._array" for n in ins}
    if made := named_outputs(op):
        arrays |= {f"g_{n}": f"g_{n}._array" for n in made}
        arrays |= {n: f"s_{n}.array" for n in (*made, "result")}
    return arrays | {n: f"(None if {n} is None else {n}._array)" for n in ins if optional(op, n)}


def rule_call(op: Op, i: str, rule: Rule, ins: tuple[str, ...]) -> str:
    """The call of what computes the gradient by the input `i` from arrays."""
    arrays = array_texts(op, ins)
    arguments = ", ".join(arrays.get(n, n) for n in rule.kernel_names)
    if rule.kernel is None:
        return f"rule_{i}({arguments})"
    kernel = f"xp.{rule.kernel}" if rule.kernel.__class__ is str else f"kernel_{i}"
    if callable(rule.kernel):
        arguments = f"xp, {arguments}"
    return f"({kernel} if not active.modes else watched(self.op, {kernel}))({arguments})"


def rule_text(i: str, rule: Rule) -> str:
    """The call of the rule of the input `i`, in operators."""
    given = [f"{n}={n}" if n in rule.optional else n for n in rule.names]
    return f"rule_{i}({', '.join(given)})"


def gradients_of(op: Op, values: dict[str, str]) -> str:
    """A tuple for all inputs, in which those without a gradient have None."""
    if op.lists:
        return f"tuple({values[op.inputs[0]]})"
    return "(" + ", ".join(values.get(i, "None") for i in op.inputs) + ",)"


def return_lines(op: Op, value: str) -> list[str]:
    """Lines that return gradients, in the shapes and dtypes of their inputs."""
    if named_outputs(op):
        return [f"    return unbroadcast_all({value}, self.unbroadcast_to)"]
    if op.elementwise and len(op.inputs) > 1 or op.lists:
        return [
            f"    if self.unbroadcast_to is None: return {value}",
            f"    return unbroadcast_all({value}, self.unbroadcast_to)",
        ]
    return [f"    return {value}"]
