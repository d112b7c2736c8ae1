"""Call keys: what a call is specialised for, and the functions printed for a key.

See Note [Call keys] in specialise.py.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.core import dtypes, modes
from rushlight.core.dtype_sets import FLOATING, FULL
from rushlight.core.tensor import Tensor
from rushlight.core.type_info import finfo
from rushlight.dispatch import emit, emit_inplace, emit_results, general, inplace, traced
from rushlight.dispatch.nodes import number_class
from rushlight.dispatch.record import NUMBERS

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.registry import Op

OPERANDS = (Tensor, *NUMBERS)
MOST = 64  # keys of one operator
ERRORS = "(ValueError, RuntimeWarning, TypeError, OverflowError, RuntimeError, MemoryError)"


class Zero:
    """The part of a key that stands for a 0-d array of one dtype."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype


class OtherArray:
    """The part of a key that stands for an array of another class than NumPy's."""


ZERO = {d.np: Zero(d.np) for d in dtypes.ALL if d.np is not None}


def kind_of(value: Any) -> Any:
    """What a key says of one input: a dtype, a `Zero`, or the class of what is no tensor."""
    try:
        a = value._array
    except AttributeError:
        return value.__class__
    if a.__class__ is not np.ndarray:
        return OtherArray
    return a.dtype if a.ndim else ZERO.get(a.dtype)


def parts(op: Op) -> tuple[str, ...]:
    """The parameters that a key says something of; none for operators without keys.

    Inputs, and the other ones where `variant` reads their classes.
    """
    if not op.elementwise or op.lists or op.view or op.outputs is not None or op.composite:
        return ()
    return (*op.inputs, *op.statics) if op.keyed else op.inputs


def key_source(op: Op, inplace: bool) -> str:
    """Calls the function printed for the key of a call (Note [Call keys]), or the general way.

    It takes the parameters in their order, then `out`.
    """
    out = op.has_out and not inplace
    values = ", ".join((*op.params, "out") if out else op.params)
    lines = [
        f"def by_key({values}{'=None' if out else ''}):",
        f"    if active.modes: return in_modes(op, [{values}])",
    ]
    for p in op.scalars:  # NumPy's would take part in the promotion
        lines.append(f"    if isinstance({p}, generic_number): return general(op, [{values}])")
    for p in parts(op):
        if p in op.statics:
            known = f"None if {p} is d_{p} else " if p in op.defaults else ""
            lines.append(f"    k_{p} = {known}{p}.__class__")
        elif p in op.numbers and p != op.inputs[0]:
            lines.append(f"    k_{p} = {p}.__class__")
            lines.append(f"    if k_{p} is not float and k_{p} is not int: k_{p} = kind_of({p})")
        else:
            lines += [
                "    try:",
                f"        a = {p}._array",
                f"        k_{p} = a.dtype if a.__class__ is ndarray and a.ndim else kind_of({p})",
                f"    except AttributeError: k_{p} = {p}.__class__",
            ]
    key = "".join(f"k_{p}, " for p in parts(op))
    if emit.tells_who(op):
        key += "taken"
        lines += [
            f"    try: taken = {emit.variant_text(op)}",
            f"    except Exception: return general(op, [{values}])  # which says what is wrong",
        ]
    return "\n".join(
        [
            *lines,
            f"    function = table.get(({key}))",
            "    if function is None:",
            f"        function = learn(op, ({key}), ({values},), {inplace})",
            f"        if function is None: return general(op, [{values}])",
            f"    return function({values})",
        ]
    )


def learn(op: Op, key: Any, values: tuple, inplace: bool = False) -> Callable | None:
    """The function for a key that has none yet: printed the second time the key is seen.

    None for the first time, and where only the general way knows what to do.
    """
    table = op.inplace_table if inplace else op.table
    if key in table:
        return None
    if key not in op.seen or len(table) >= MOST:
        if len(op.seen) < MOST:
            op.seen.add(key)
        return None
    function = table[key] = printed(op, key, values, inplace)
    return function


def is_number(kind: Any) -> bool:
    """Whether the part of a key stands for a Python number. (NumPy's int64 dtype == int.)"""
    return kind.__class__ is type and kind in (bool, int, float)


# -- what is printed for a key ---------------------------------------------------------------------


class Call:
    """A call that is about to be printed: who computes, on which inputs, in which dtype."""

    __slots__ = ("common", "inputs", "kinds", "names", "op", "result", "target", "taken")

    def __init__(self, op: Op, key: Any, values: tuple) -> None:
        self.op = op
        self.names: dict[str, Any] = {}
        self.kinds = kinds = dict(zip(parts(op), key, strict=not emit.tells_who(op)))
        self.taken = None
        if op.variant is not None:
            self.taken = op.variant(**dict(zip(op.params, values)))
        self.target = op if self.taken is None else getattr(self.taken, "op", self.taken)
        self.inputs = {i: kinds.get(i) for i in self.target.inputs}

    def tensors(self) -> list[str]:
        return [i for i, k in self.inputs.items() if k.__class__ is Zero or isinstance(k, np.dtype)]

    def numbers(self) -> list[str]:
        return [i for i, k in self.inputs.items() if is_number(k)]


def printed(op: Op, key: Any, values: tuple, in_place: bool) -> Callable | None:
    """The function of a key, or None where only the general way knows what to do."""
    if any(k is OtherArray for k in key):
        return None
    named = dict(zip(op.params, values))
    if op.variant is None and any(isinstance(named.get(s), Tensor) for s in op.statics):
        return None  # a former order of arguments: `add(x, 2, y)`
    try:
        call = Call(op, key, values)
    except (RuntimeError, TypeError, ValueError):  # a refusal, which the general way raises again
        return None
    target = call.target
    if target.params != op.params:
        return None
    if any(isinstance(named.get(s), Tensor) for s in op.statics):
        plain = all(v.__class__ is Tensor for v in named.values() if isinstance(v, Tensor))
        inputs_too = op.keyed == "bifc" and set(target.inputs) > set(op.inputs)
        return handed_over(call, key) if plain and inputs_too and not in_place else None
    if target.outputs is not None or target.lists or target.view or target.names_node:
        return None
    tensors, numbers = call.tensors(), call.numbers()
    if (
        emit.tells_who(op)
        and call.taken is not None
        and not in_place
        and tensors == [*target.inputs]
    ):
        if len({dtype_of(call, i) for i in tensors}) == 1 and "entry" in scope_of(target):
            return handed_over(call, key)
    if not tensors or len(tensors) + len(numbers) < len(target.inputs):
        return None
    if any(n not in target.numbers for n in numbers) or not dtypes_of(call):
        return None
    names = {
        **scope_of(target),
        "variant": op.variant,
        "taken": call.taken,
        "cast": xp.cast,
        "op": op,
    }
    names |= {"number": rounded, "modes": modes, "f32_default": dtypes.float32}
    text = inplace_text(call, names) if in_place else text_of(call, names)
    if text is None:
        return None
    from rushlight.dispatch.specialise import evaluate

    function = evaluate(
        op, text, "call", f" {described(key)}{' in place' if in_place else ''}", names
    )
    xp.link(names)
    return function


def handed_over(call: Call, key: Any) -> Callable | None:
    """The function of a key of which another operator makes all of the call: a static argument is a tensor, which is an
    input there (`clamp(x, min=tensor)`), or that one has a native entry."""
    op, target = call.op, call.target
    n = op.n_positional
    given = ", ".join(p if k < n else f"{p}={p}" for k, p in enumerate(op.params))
    lines = [f"def call({', '.join(op.params)}{', out=None' if op.has_out else ''}):"]
    if op.has_out:
        lines.append(f"    if out is not None: return general(op, ({emit.everything(op)},))")
    lines.append(f"    return taken({given})")
    names = {"op": op, "general": general.call, "taken": target.function}
    from rushlight.dispatch.specialise import evaluate

    return evaluate(op, "\n".join(lines), "call", f" {described(key)}", names)


def scope_of(op: Op) -> dict[str, Any]:
    op.build()
    return op.scope


def described(key: Any) -> str:
    """A key as it stands in the name of a source: `(float32, int)`."""
    return ", ".join(
        getattr(p, "__name__", None) or (f"0-d {p.dtype}" if p.__class__ is Zero else str(p))
        for p in key
    )


def dtypes_of(call: Call) -> bool:
    """Find the dtype in which a call computes (None: no promotion); False where it cannot be said."""
    target = call.target
    call.common = call.result = None
    if target.promote is None:
        return True
    dim = zero = wrapped = None
    for k in call.inputs.values():
        if k.__class__ is Zero:
            d = dtypes.OF[k.dtype]
            zero = d if zero is None else dtypes.promote_types(zero, d)
        elif not is_number(k):
            d = dtypes.OF[k]
            dim = d if dim is None else dtypes.promote_types(dim, d)
        else:
            d = modes.scalar_dtype(k(0))
            wrapped = d if wrapped is None else dtypes.promote_types(wrapped, d)
    d = dtypes.result_dtype(dim, zero, wrapped)
    if target.promote == "float" and d.kind < 2:
        d = modes.get_default_dtype()
    if modes.get_default_dtype() is not dtypes.float32 or d.np is None:
        return False
    if d.kind == 3 or target.accepts is not None and "bifc"[d.kind] not in target.accepts:
        return False
    call.common = d
    call.result = dtypes.bool_ if target.promote == "bool" else d
    return True


def depends_on_default(call: Call) -> bool:
    """Whether the dtype follows the default one, which a program may change."""
    if call.target.promote is None:
        return False
    if any(dtypes.OF[dtype_of(call, i)].kind > 1 for i in call.tensors()):
        return False
    return call.target.promote == "float" or any(k is float for k in call.inputs.values())


def argument_lines(call: Call, again: str) -> tuple[list[str], dict[str, str]]:
    """(lines that cast the inputs, the text that stands for each parameter)."""
    lines, texts = [], {p: p for p in call.target.params}
    d, weak = call.common, takes_numbers(call)
    if depends_on_default(call):
        lines.append(f"    if modes._default_dtype is not f32_default: {again}")
    for i, k in call.inputs.items():
        if is_number(k):
            if d is None or d.np in FULL and weak:
                pass  # the kernel takes it as it is
            elif d.np in FLOATING or k is bool or not weak:
                texts[i] = f"number({i}, to)"
            else:
                low, high = limits(d)
                lines.append(f"    if not {low} <= {i} < {high}: {again}")
            continue
        texts[i] = f"a_{i}"
        if d is not None and (k.dtype if k.__class__ is Zero else k) is not d.np:
            lines.append(f"    a_{i} = cast(a_{i}, to)")
    return lines, texts


def takes_numbers(call: Call) -> bool:
    """Whether the kernel takes Python numbers in place of arrays, and keeps the dtype: tried on ones."""
    found = traced.kernel_call(call.target, {p: p for p in call.target.params})
    if found is None or not call.numbers() or call.common is None:
        return found is None
    if xp.is_ufunc(found[0]):
        return True
    one = xp.ones(2, call.common.np)
    values = {i: 1 if is_number(k) else one for i, k in call.inputs.items()}
    try:
        r = xp.kernel(found[0])(*[values[name] for name in found[1]])
    except Exception:  # whatever it says of a number: it takes none
        return False
    return call.result is not None and getattr(r, "dtype", None) is call.result.np


def limits(d: dtypes.dtype) -> tuple[int, int]:
    """The range of an integer dtype: from, to (excluded); of bool nothing but 0 and 1."""
    if d.kind == 0:
        return 0, 2
    info = np.iinfo(d.np)
    return int(info.min), int(info.max) + 1


# Of an edge: that it may lead to a gradient. Views of what has no history have one, too.
HISTORY = "e.__class__ is not View or e.base._edge is not None or e.node is not None"


def text_of(call: Call, names: dict[str, Any]) -> str | None:
    """The source of an out-of-place call."""
    op, target, tensors = call.op, call.target, call.tensors()
    names["general_call"] = general.call
    again = f"return general_call(op, ({emit.everything(op)},))"
    lines = [f"def call({', '.join(op.params)}{', out=None' if op.has_out else ''}):"]
    tests = ["out is not None"] if op.has_out else []
    tests += variant_tests(call)
    if target.kernel:
        tests += [f"{s} is not d_{s}" for s in target.statics if s in target.defaults]
    elif target is op:
        tests += emit.number_tests(op)
    if tests:
        lines.append(f"    if {' or '.join(tests)}: {again}")
    lines += [f"    a_{i} = {i}._array" for i in tensors]
    want = [i for i in target.wanted() if i in tensors and dtypes.OF[dtype_of(call, i)].kind > 1]
    same = all(dtype_of(call, i) is (call.common.np if call.common else None) for i in tensors)
    node = None
    if want:
        if same and call.common.np in FLOATING:
            node = "N"
            if tensors != list(target.inputs):
                names[node] = number_class(target, tuple(tensors))
        if names.get(node) is None:
            node = None
            some = " or ".join(f"(e := {i}._edge) is not None and ({HISTORY})" for i in want)
            lines.append(f"    if thread.grad and ({some}): {again}")
    casts, texts = argument_lines(call, again)
    if call.common is not None:
        names["to"] = call.common.np
    run = emit.run_lines(emit.run_text(target, texts), again)
    run[2] = run[2].replace(emit.ERRORS, ERRORS)
    lines += [*casts, *run, *emit_results.array_lines(target, texts)]
    if call.result is not None and call.numbers():
        names["result_dtype"] = call.result.np
        lines.append(f"    if r.dtype is not result_dtype: {again}")
    if node:
        lines += emit.record_lines(target, tuple(tensors), node, again)
    else:
        lines.append("    node = None")
    return "\n".join([*lines, *emit_results.result_lines(target), "    return result"])


def variant_tests(call: Call) -> list[str]:
    """The condition under which another operator takes over than for the call that was printed."""
    op = call.op
    if op.variant is None or op.keyed in ("", "bifc"):
        return []
    if call.common is not None and "bifc"[call.common.kind] in op.keyed:
        return []
    return [f"{emit.variant_text(op)} is not taken"]


def dtype_of(call: Call, name: str) -> np.dtype:
    k = call.inputs[name]
    return k.dtype if k.__class__ is Zero else k


# -- in place --------------------------------------------------------------------------------------


def is_ufunc(op: Op) -> bool:
    """Whether the forward is one call of NumPy's (or of a like) ufunc."""
    found = traced.kernel_call(op, emit.texts_of(op))
    return found is not None and xp.is_ufunc(found[0])


def writes(op: Op) -> bool:
    """Whether the forward is one call of a kernel that can write over its first argument."""
    found = traced.kernel_call(op, emit.texts_of(op))
    if found is None or not found[1] or found[1][0] != f"a_{op.inputs[0]}":
        return False
    return xp.takes_out(found[0])


def hot_inplace(op: Op) -> bool:
    """Whether the hottest in-place call is printed: one input, or two of a ufunc."""
    if op.promote not in ("same", "float"):
        return False
    if len(op.inputs) == 1:
        return True
    return len(op.inputs) == 2 and op.kernel is not None and is_ufunc(op)


def inplace_text(call: Call, names: dict[str, Any]) -> str | None:
    """The source of an in-place call of which nothing is recorded."""
    op, target, tensors = call.op, call.target, call.tensors()
    x = target.inputs[0]
    if not writes(target) or call.common is None or dtype_of(call, x) is not call.common.np:
        return None
    if call.result is not call.common or call.inputs[x].__class__ is Zero and len(tensors) > 1:
        return None
    if call.common.np not in FLOATING and not is_ufunc(target):
        return None
    names["slow"] = inplace.inplace
    again = f"return slow(op, [{', '.join(op.params)}])"
    tests = []
    tests += variant_tests(call)
    if target.kernel:
        tests += [f"{s} is not d_{s}" for s in target.statics if s in target.defaults]
    else:
        for s in target.statics:
            if s not in call.kinds:
                tests.append(f"{s}.__class__ is not float and {s}.__class__ is not int")
            elif call.kinds[s] not in (None, float, int):  # None: the default
                return None
    lines = [f"def call({', '.join(op.params)}):"]
    lines += [f"    a_{i} = {i}._array" for i in tensors] + [f"    target = a_{x}"]
    tests += [f"{x}._counter is INFERENCE", "0 in target.strides"]
    others = [i for i in tensors if i != x]
    if not is_ufunc(target):
        tests += [f"a_{i}.shape != target.shape" for i in others]
    tests += [
        f"{emit_inplace.one_memory('target', f'a_{i}')} and overlap(a_{i}, target)" for i in others
    ]
    lines.append(f"    if {' or '.join(tests)}: {again}")
    edges = [f"{i}._edge is not None" for i in tensors if dtypes.OF[dtype_of(call, i)].kind > 1]
    if edges:
        lines += [
            f"    if ({' or '.join(edges)}) and thread.grad:",
            f"        for t in ({', '.join(tensors)},):",
            "            e = t._edge",
            f"            if e is not None and ({HISTORY}): {again}",
        ]
    casts, texts = argument_lines(call, again)
    names["to"] = call.common.np
    lines += [
        *casts,
        "    try:",
        f"        {emit.run_text(target, texts, 'target')}",
        "    except RuntimeWarning:",
        *emit_inplace.overflow_lines(
            is_ufunc(target), ", ".join(["target", *call.numbers()]), again
        ),
        f"    except {ERRORS}:",
        f"        {again}",
        f"    ({x}._counter or version_of({x})).n += 1",
        f"    return {x}",
    ]
    return "\n".join(lines)


def rounded(number: Any, d: np.dtype) -> Any:
    """A Python number as a 0-d array of a dtype, the last ones kept."""
    return known(number, d) if number else xp.number(number, d)  # 0.0 and -0.0 are one key


known = functools.lru_cache(256)(lambda number, d: xp.number(number, d))


def overflows(a: np.ndarray, *values: Any) -> bool:
    """Whether one of some values is a finite number that the floating dtype of an array lacks."""
    if a.dtype not in FLOATING:
        return False
    largest = finfo(dtypes.OF[a.dtype]).max
    return any(v.__class__ in (int, float) and largest < abs(v) < float("inf") for v in values)
