"""Prints the in-place forms of operators; see emit.py for the names in their source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.dispatch.emit import (
    array_tests,
    bind_lines,
    dtype_test,
    entry_lines,
    run_text,
    save_lines,
    signature,
    texts_of,
    unwrap_lines,
    variant_text,
)

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Op


def overflow_lines(ufunc: bool, operands: str, again: str) -> list[str]:
    """What to do where a kernel that writes over its input warned, and warnings are errors.

    A ufunc has written everything, unless it warned of the Python number that it was to convert. Other
    kernels that warn write when all is computed.
    """
    if not ufunc:
        return [f"        {again}"]
    return [f"        if overflows({operands}): {again}" if operands else "        pass"]


def one_memory(a: str, b: str) -> str:
    """The text of a test whether one of two arrays is a view of the other, or both are of a third."""
    whole = f"({a} if of is None else of)"
    return f"((of := {a}.base) is {b} or (o := {b}.base) is not None and o is {whole})"


def with_history(edge: str) -> str:
    """The text of a test whether an edge is that of a tensor with a history: a view of one without has an edge, too."""
    return f"({edge}.__class__ is not View or {edge}.base._edge is not None or {edge}.node is not None)"


def operand_lines(op: Op, x: str, y: str, again: str) -> list[str]:
    """What the second input must be: a number, or a plain array without history that shares no memory."""
    kinds = f"a_{x}.dtype is f32 or a_{x}.dtype is f64"
    if op.promote == "same":
        kinds += f" or c is int and a_{x}.dtype is i64"
    mixed = " or ".join(dtype_test(op, [f"a_{x}", f"a_{y}"]))
    return [
        f"    c = {y}.__class__",
        f"    if (c is float or c is int) and ({kinds}):",
        f"        a_{y} = {y}",
        "    else:",
        *("    " + line for line in ["    try:", f"        a_{y} = {y}._array"]),
        *("    " + line for line in ["    except AttributeError:", f"        {again}"]),
        f"        if a_{y}.__class__ is not ndarray or {mixed} or {y}._edge is not None and thread.grad:",
        f"            {again}",
        f"        if {one_memory(f'a_{x}', f'a_{y}')} and overlap(a_{y}, a_{x}): {again}",
    ]


def node_lines(op: Op, x: str, want: tuple[str, ...]) -> list[str]:
    """The node of a write: the input is the result from now on, and what it was before a tensor of its own."""
    lines = [
        f"    if e_{x} is None: return {x}",
        f"    target, {x} = {x}, new(Tensor)",
        f"    {x}._array = a_{x}",
        f"    {x}._edge = e_{x}",
        f"    {x}._counter = None",
        "    r = target._array",
        "    node = new(N)",
        f"    node._edges = (e_{x},)",
        "    node.hooks = node.unbroadcast_to = None",
        *(line.removeprefix("        ") for line in save_lines(op, (x,), want)),
    ]
    if "result" in op.saved_names():
        lines.append("    node.result_version = Since(counter)")
    lines += [
        "    target._edge = node",
        f"    if e_{x}.hooks is not None: keep_retaining(e_{x}, node)",
        "    return target",
    ]
    return lines


def inplace_source(op: Op, ufunc: bool) -> str:
    """`name_`: the kernel writes over the memory of the first input, a plain array in no mode.

    An operator of one input is recorded here, where the tensor is a result: what a rule reads of the input
    is copied before, and the node takes the result as it stands from this version on. `ufunc`: the kernel
    is NumPy's or behaves as such, and has written everything when it warns of an overflow.
    """
    x, y = op.inputs[0], op.inputs[1] if len(op.inputs) == 2 else None
    again = f"return slow_inplace({', '.join(op.params)})"
    texts = texts_of(op)
    tests = [f"a_{x}.__class__ is not ndarray", "active.modes", f"{x}._counter is INFERENCE"]
    tests.append(f"a_{x}.base is not None and 0 in a_{x}.strides")
    lines = [f"def {op.name}_({signature(op, out=False)}):", f"    a_{x} = target = {x}._array"]
    texts[x] = "target"
    if op.variant is not None and y is None and op.keyed != "bifc":
        tests.append(f"{variant_text(op)} is not None")
    if op.kernel:
        tests += [f"{s} is not d_{s}" for s in op.statics]
    else:
        tests += [f"{s}.__class__ is not float and {s}.__class__ is not int" for s in op.statics]
    if y is not None:
        lines += operand_lines(op, x, y, again)
    else:
        tests += dtype_test(op, [f"a_{x}"])
        if not ufunc:
            tests.append(f"a_{x}.dtype not in floats")
    recorded = y is None and op.differentiable
    want = op.wanted() if recorded else ()
    lines += [f"    if {' or '.join(tests)}:", f"        {again}", f"    e_{x} = {x}._edge"]
    history = with_history(f"e_{x}")
    if recorded:
        plain = f"isinstance(e_{x}, OpNode) and {x}.__class__ is Tensor and a_{x}.dtype in floats"
        lines += [
            f"    if e_{x} is not None:",
            f"        if thread.grad and {history}:",
            f"            if not ({plain}): {again}",
            *([f"            a_{x} = target.copy('K')"] if x in op.saved_names() else []),
            f"        else: e_{x} = None",
        ]
    else:
        recorded_way = f"return inplace.inplace(own, [{', '.join(op.params)}])"
        lines.append(f"    if e_{x} is not None and thread.grad and {history}: {recorded_way}")
    lines += [
        "    try:",
        f"        {run_text(op, texts, 'target')}",
        "    except RuntimeWarning:",
        *overflow_lines(ufunc, f"target, {y}" if y else "", again),
        "    except (ValueError, TypeError, OverflowError, MemoryError):",
        f"        {again}",
        f"    counter = {x}._counter or version_of({x})",
        "    counter.n += 1",
    ]
    if not recorded:
        return "\n".join([*lines, f"    return {x}"])
    return "\n".join([*lines, *node_lines(op, x, want)])


def entry_into_lines(op: Op, again: str) -> list[str]:
    """Lines that leave a write to machine code, where there is an entry for it."""
    if "entry_into" not in op.scope:
        return []
    return ["    " + line for line in entry_lines("entry_into", "whole", [*op.params], again)]


def write_source(op: Op) -> str:
    """`name_` of an operator that overwrites a part of its first input: plain arrays without history that share
    no memory, in no mode. What may warn does so before anything is written."""
    x, *others = op.inputs
    again = f"return slow_inplace({', '.join(op.params)})"
    tests = [
        *array_tests(op),
        "active.modes",
        f"(e := {x}._edge) is not None and {with_history('e')}",
        f"{x}._counter is INFERENCE",
    ]
    tests.append(f"0 in a_{x}.strides")
    for i in others:
        based = f"a_{i} is a_{x} or a_{x}.base is not None or a_{i}.base is not None"
        tests += [
            f"{i}._edge is not None and edge_of({i}) is not None",
            f"({based}) and xp.shares_memory(a_{x}, a_{i})",
        ]
    texts, n = texts_of(op), op.n_positional
    values = [texts[p] if k < n else f"{p}={texts[p]}" for k, p in enumerate(op.params)]
    return "\n".join([
        f"def {op.name}_({signature(op, out=False)}):",
        *bind_lines(op, "_"),
        *entry_into_lines(op, again),
        *unwrap_lines(op, again),
        f"    if {' or '.join(tests)}:",
        f"        {again}",
        "    try:",
        f"        write(xp, {', '.join(values)})",
        "    except RuntimeWarning:",
        f"        {again}",
        f"    ({x}._counter or version_of({x})).n += 1",
        f"    return {x}",
    ])  # fmt: skip
