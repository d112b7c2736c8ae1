"""Writes, for each operator, the node classes that its calls record, and their straight-line `apply`.

See Note [Generated code] in generate.py, which writes the functions themselves.
"""

from __future__ import annotations

import linecache
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import llvm
from rushlight.autograd.graph import freed, new, stale, version_of
from rushlight.autograd.state import active, scope, thread
from rushlight.autograd.views import DEFAULT, NO_GRAD, View
from rushlight.core import dtypes
from rushlight.core.tensor import INFERENCE, Tensor
from rushlight.dispatch.record import GeneralNode, OpNode, fit, saved_attribute

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Op

# What every generated function sees.
scope |= {
    "ndarray": np.ndarray,
    "asarray": np.asarray,
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": dtypes.bfloat16.np,
    "i64": np.dtype(np.int64),
    "new": new,
    "Tensor": Tensor,
    "View": View,
    "DEFAULT": DEFAULT,
    "NO_GRAD": NO_GRAD,
    "thread": thread,
    "active": active,
    "INFERENCE": INFERENCE,
    "version_of": version_of,
    "xp": xp,
    "OF": dtypes.OF,
    "freed": freed,
    "stale": stale,
    "fit": fit,
    "__name__": "rushlight.ops.generated",
}


MOST = 8  # inputs of an operator whose calls are written out
LARGE = 32768  # elements from which backward's arithmetic is not NumPy's own


def evaluate(op: Op, source: str, name: str, names: dict[str, Any], kind: str) -> Any:
    """Run generated source: its own names become defaults of a factory, `scope` its globals."""
    file = f"<rushlight {op.path}{kind}>"
    lines = [f"def make({', '.join(names)}):", *("    " + line for line in source.splitlines())]
    lines.append(f"    return {name}")
    text = "\n".join(lines) + "\n"
    space: dict[str, Any] = {}
    exec(compile(text, file, "exec"), scope, space)
    linecache.cache[file] = len(text), None, text.splitlines(True), file
    function = space["make"](**names)
    function.__qualname__ = name
    function.__doc__ = op.declared.__doc__
    function.op = op
    free = function.__code__.co_freevars
    if "kernel" in free:
        llvm.watch(op.kernel, function.__closure__[free.index("kernel")])
    return function


def optional(op: Op, name: str) -> bool:
    return "None" in str(op.declared.__annotations__.get(name, ""))


def hands_on(rule: Any) -> bool:
    """The rule is `lambda g: g`: it needs no call."""
    return rule.__code__.co_code == (lambda g: g).__code__.co_code


def arithmetic(rule: Any) -> bool:
    """The rule uses nothing but arithmetic on its parameters: no name, attribute or function.

    Such a rule gives the same on arrays as on tensors. A backward that is not recorded runs it on the
    arrays and saves the tensors in between.
    """
    code = rule.__code__
    return not (code.co_names or code.co_freevars or code.co_cellvars)


def halves(op: Op, want: tuple[str, ...]) -> bool:
    """Whether the nodes of straight calls are right for half types: a Python number beside an array of
    bfloat16 makes float32 of it in NumPy, so rules that run on arrays must know none."""
    if op.rule_all or not all(arithmetic(op.rules[i][0]) for i in want):
        return True
    for rule, names in (op.rules[i] for i in want):
        if not {"g", "result", *op.inputs}.issuperset(names):
            return False
        if not hands_on(rule) and any(c is not None for c in rule.__code__.co_consts):
            return False
    return True


def layout_of_saved(op: Op, ins: tuple[str, ...], want: tuple[str, ...]) -> tuple[list, list]:
    """(saved, statics): names kept as tensors, and names kept as plain values."""
    readers = op.saved_names(want)
    tensors = [n for n in readers if n in ins or n == "result"]
    return tensors, [n for n in readers if n not in tensors]


def node_class(op: Op, name: str) -> tuple[type, type, type]:
    """(plain, general, scalar): the node classes of an operator under one name, made once."""
    classes = op.node_classes.get(name)
    if classes is None:
        saves_result = any(n == "result" for n in op.saved_names())
        base = {
            "__slots__": (),
            "op": op,
            "saves_result": saves_result,
            "__module__": "torch.autograd",
        }
        # properties, not __getattr__: a class that has one makes every attribute of a node slow to read
        for n in op.saved_names():
            public = "self" if n == "input" else n
            base[f"_saved_{public}"] = property(lambda node, n=n: saved_attribute(node, n))
        general = type(name, (GeneralNode,), dict(base, saves_result=False))
        plain = scalar = general
        if straight_rules(op):
            plain = plain_class(op, name, base, op.inputs)
            if len(op.inputs) == 2 and op.wanted()[:1] == op.inputs[:1]:
                scalar = plain_class(op, name, base, op.inputs[:1])
        classes = op.node_classes[name] = (plain, general, scalar)
    return classes


def straight_rules(op: Op) -> bool:
    return not op.lists and op.outputs is None and 1 <= len(op.inputs) <= MOST


def array_lines(op: Op, want: tuple[str, ...], ins: tuple[str, ...]) -> list[str]:
    """Lines of `apply` that run arithmetic rules on arrays and wrap what they give."""

    def on_arrays(name: str) -> str:
        if name == "g":
            return "a"
        if name == "result":
            return "r"
        return f"{name}._array" if name in ins else name

    # Large arrays go through tensors to the back end's kernels, which share them out to threads.
    few = f"(a := g._array).__class__ is ndarray and a.size < {LARGE}"
    lines = [f"    if not record and {few}:", "        try:"]
    results = ["None"] * len(op.inputs)
    for i in want:
        rule, names = op.rules[i]
        at = op.inputs.index(i)
        if hands_on(rule):
            results[at] = "g" if len(want) == 1 else f"None if e_{i} is None else g"
            continue
        make = [
            f"y = rule_{i}({', '.join(map(on_arrays, names))})",
            f"g_{i} = new(Tensor)",
            f"g_{i}._array = y if y.__class__ is ndarray else asarray(y)",
            f"g_{i}._edge = g_{i}._counter = None",
        ]
        if len(want) > 1:
            lines += [f"            if e_{i} is None: g_{i} = None", "            else:"]
            lines += ["                " + line for line in make]
        else:
            lines += ["            " + line for line in make]
        results[at] = f"g_{i}"
    value = "(" + ", ".join(results) + ",)"
    if all(hands_on(op.rules[i][0]) for i in want):
        return []
    if op.elementwise and len(op.inputs) > 1:
        lines += [
            f"            if self.fix is None: return {value}",
            f"            return fit({value}, self.fix)",
        ]
    else:
        lines.append(f"            return {value}")
    return [
        *lines,
        "        except RuntimeWarning:  # warnings are errors: the tensors know how to hush",
        "            pass",
    ]


def plain_class(op: Op, name: str, base: dict, ins: tuple[str, ...]) -> type:
    want = tuple(i for i in op.wanted() if i in ins)
    tensors, statics = layout_of_saved(op, ins, want)
    rules = {f"rule_{i}": op.rules[i][0] for i in want if i in op.rules}
    if op.rule_all:
        rules = {"rule_all": op.rule_all[0]}
    lines = ["def apply(self, g, edges, keep, record):"]
    if tensors:
        names = ", ".join("r" if n == "result" else f"{n}, v_{n}" for n in tensors)
        lines += [
            "    try:",
            f"        {names}, = self.saved",
            "    except TypeError:",
            "        freed(self)",
            "    if not keep: self.saved = None",
        ]
    if statics:
        lines.append(f"    {', '.join(statics)}, = self.statics")
    for n in tensors:
        if n == "result":
            lines += [
                "    if self.result_version is not None and self.result_version.n:",
                f"        stale(self, {n!r}, r.shape, r.dtype, self.result_version.n, 0)",
                "    result = new(Tensor)",
                "    result._array = r",
                "    result._counter = self.result_version",
                "    result._edge = self",
            ]
        else:
            lines += [
                f"    if {n} is not None and {n}._counter is not None and {n}._counter.n != v_{n}:",
                f"        stale(self, {n!r}, {n}.shape, {n}.dtype, {n}._counter.n, v_{n})",
            ]
    if op.rule_all:
        needs = ", ".join(f"edges[{k}] is not None" for k in range(len(op.inputs)))
        args = ", ".join(f"({needs},)" if n == "needs" else n for n in op.rule_all[1])
        value = f"rule_all({args})"
    else:
        if len(want) > 1:
            lines.append(
                f"    {', '.join('e_' + i if i in want else '_' for i in op.inputs)} = edges"
            )
        if all(arithmetic(op.rules[i][0]) for i in want):
            lines += array_lines(op, want, ins)
        parts = ["None"] * len(op.inputs)
        for i in want:
            call = f"rule_{i}({', '.join(op.rules[i][1])})"
            if hands_on(op.rules[i][0]):
                call = "g"
            at = op.inputs.index(i)
            parts[at] = call if len(want) == 1 else f"None if e_{i} is None else {call}"
        value = "(" + ", ".join(parts) + ",)"
    if op.elementwise and len(op.inputs) > 1:
        lines += [
            f"    if self.fix is None: return {value}",
            f"    return fit({value}, self.fix)",
        ]
    else:
        lines.append(f"    return {value}")
    apply = evaluate(op, "\n".join(lines), "apply", rules, " backward" + str(len(ins)))
    return type(name, (OpNode,), dict(base, apply=apply, saved_layout=(tensors, statics)))
