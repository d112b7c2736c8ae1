"""Writes the straight-line Python of in-place methods: the part of generate.py for `name_`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.backends import numpy as xp
from rushlight.ops import calls
from rushlight.ops.generate import dtype_test, evaluate, function_scope, signature
from rushlight.ops.inplace import inplace

if TYPE_CHECKING:
    from rushlight.ops.registry import Op


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


def compile_inplace(op: Op, built: calls.Built) -> Any:
    """`name_`: when nothing is recorded, the kernel writes over the memory of the first input.

    The errors that send the call to the general way are raised before anything is written;
    RuntimeWarning (an overflow) comes after everything is, and is dropped.
    """
    x, y = op.inputs[0], op.inputs[1] if len(op.inputs) == 2 else None
    name = f"{op.name}_"
    everything = ", ".join(op.params)
    again = f"        return slow_inplace({everything})"
    tests = [f"a_{x}.__class__ is not ndarray", "rare", f"{x}._counter is INFERENCE"]
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
