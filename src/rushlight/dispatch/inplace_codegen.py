"""Writes the straight-line Python of in-place methods: the part of generate.py for `name_`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import llvm
from rushlight.autograd.graph import Since
from rushlight.autograd.views import keep_retaining
from rushlight.dispatch import general
from rushlight.dispatch.inplace import Into, inplace
from rushlight.dispatch.record import OpNode
from rushlight.dispatch.specialise import (
    dtype_test,
    evaluate,
    function_scope,
    save_lines,
    signature,
)

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Op


def quick(op: Op) -> bool:
    """Whether NumPy's own ufunc can write the result over the first input."""
    return (
        op.kernel is not None
        and op.elementwise
        and op.has_inplace
        and op.promote in ("same", "float")
        and len(op.inputs) <= 2
        and isinstance(getattr(xp, op.kernel), np.ufunc)
    )


def compile_inplace(op: Op, built: general.Built) -> Any:
    """`name_`: when nothing is recorded, the kernel writes over the memory of the first input.

    The errors that send the call to the general way are raised before anything is written;
    RuntimeWarning (an overflow) comes after everything is, and is dropped.
    """
    x, y = op.inputs[0], op.inputs[1] if len(op.inputs) == 2 else None
    name = f"{op.name}_"
    everything = ", ".join(op.params)
    again = f"        return slow_inplace({everything})"
    tests = [f"a_{x}.__class__ is not ndarray", "active.modes", f"{x}._counter is INFERENCE"]
    tests += [f"{s} is not d_{s}" for s in op.statics]
    tests.append(f"{x}._edge is not None and (thread.grad or 0 in a_{x}.strides)")
    lines = [f"def {name}({signature(op, out=False)}):", f"    a_{x} = {x}._array"]
    if y is not None:
        kinds = f"a_{x}.dtype is f32 or a_{x}.dtype is f64"
        if op.promote == "same":
            kinds += f" or c is int and a_{x}.dtype is i64"
        other_tests = " or ".join(dtype_test(op, [f"a_{x}", f"a_{y}"]))
        recording = f"{y}._edge is not None and thread.grad"
        lines += [
            f"    c = {y}.__class__",
            f"    if (c is float or c is int) and ({kinds}):",
            f"        a_{y} = {y}",
            "    else:",
            "        try:",
            f"            a_{y} = {y}._array",
            "        except AttributeError:",
            "    " + again,
            f"        if a_{y}.__class__ is not ndarray or {other_tests} or {recording}:",
            "    " + again,
        ]
    else:
        tests += dtype_test(op, [f"a_{x}"])
    args = ", ".join(f"a_{i}" for i in op.inputs)
    lines += [
        f"    if {' or '.join(tests)}:",
        again,
        "    try:",
        f"        kernel({args}, out=a_{x})",
        "    except RuntimeWarning:",
        "        pass",
        "    except (ValueError, TypeError, OverflowError):",
        again,
        f"    ({x}._counter or version_of({x})).n += 1",
        f"    return {x}",
    ]
    slow = built.inplace  # bound as inplace_function made it

    def slow_inplace(*values: Any) -> Any:
        return inplace(op, list(values))

    names = function_scope(op, built) | {"slow_inplace": slow_inplace}
    function = evaluate(op, "\n".join(lines), name, names, " in place")
    function.__doc__ = slow.__doc__
    return function


def direct(op: Op) -> bool:
    """Whether `name_` can be one kernel of the back end that writes over its only input."""
    return (
        bool(op.direct)
        and op.has_inplace
        and len(op.inputs) == 1
        and op.variant is None
        and not (op.lists or op.view or op.names_node)
        and op.outputs is None
    )


def compile_direct(op: Op, built: general.Built) -> Any:
    """`name_` of a tensor that is no view nor leaf: the kernel writes over its memory. What a rule reads of
    the input is copied before; the node takes the result as it stands, from this version on."""
    x = op.inputs[0]
    want = op.wanted()
    old = x in op.saved_names()
    again = f"        return slow_inplace({', '.join(op.params)})"
    tests = [f"a_{x}.__class__ is not ndarray", "active.modes", f"{x}.__class__ is not Tensor"]
    tests += [f"a_{x}.dtype not in floats", "not llvm.active", f"{x}._counter is INFERENCE"]
    tests += [f"{s}.__class__ is not float and {s}.__class__ is not int" for s in op.statics]
    arguments = [
        s if k < op.n_positional else f"{s}={s}" for k, s in enumerate(op.params) if s != x
    ]
    if op.direct.__class__ is str or not op.has_body:
        kernel = "kernel" if not op.has_body else f"xp.{op.direct}"
        call = f"{kernel}({', '.join(['target', *arguments, 'out=target'])})"
    else:
        call = f"forward({', '.join(['Into(target), target', *arguments])})"
    lines = [
        f"def {op.name}_({signature(op, out=False)}):",
        f"    target = a_{x} = {x}._array",
        f"    if {' or '.join(tests)}:",
        again,
        f"    e_{x} = {x}._edge",
        f"    straight = e_{x} is None or thread.grad and isinstance(e_{x}, OpNode)",
        "    if not straight or 0 in target.strides:",
        again,
    ]
    if old:  # the rule reads what is overwritten
        lines.append(f"    if e_{x} is not None: a_{x} = target.copy('K')")
    lines += [
        "    try:",
        f"        {call}",
        "    except RuntimeWarning:  # an overflow of the reference's, which writes when all is computed",
        again,
        f"    counter = {x}._counter or version_of({x})",
        "    counter.n += 1",
        f"    if e_{x} is None: return {x}",
        f"    target, {x} = {x}, new(Tensor)",
        f"    {x}._array = a_{x}",
        f"    {x}._edge = e_{x}",
        f"    {x}._counter = None",
        "    r = target._array",
        "    node = new(N)",
        f"    node.edges = (e_{x},)",
        "    node.hooks = node.fix = None",
        *(line.removeprefix("        ") for line in save_lines(op, (x,), want)),
    ]
    if "result" in op.saved_names():
        lines.append("    node.result_version = Since(counter)")
    lines += [
        "    target._edge = node",
        f"    if e_{x}.hooks is not None: keep_retaining(e_{x}, node)",
        "    return target",
    ]

    def slow_inplace(*values: Any) -> Any:
        return inplace(op, list(values))

    names = function_scope(op, built) | {"slow_inplace": slow_inplace}
    names |= {"Into": Into, "OpNode": OpNode, "Since": Since, "llvm": llvm}
    names["keep_retaining"] = keep_retaining
    slow = built.inplace
    function = evaluate(op, "\n".join(lines), f"{op.name}_", names, " in place")
    function.__doc__ = slow.__doc__
    return function
