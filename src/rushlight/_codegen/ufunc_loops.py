"""Loops of ours for NumPy's ufuncs: which are faster than NumPy's, for which dtypes.

NumPy computes float16, and ml_dtypes bfloat16, one element at a time; ours do it in float32 and
round once, which for + - * / and sqrt is the same as rounding the exact result (float32 has more
than twice the bits and two more; S. Figueroa, When is double rounding innocuous?, 1995).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import partial
from typing import Any

from rushlight._codegen.kernels import arithmetic, inverse_trigonometry, math, trigonometry
from rushlight._codegen.kernels.loops import CHEAP, COSTLY, loop, loop_of_vectors
from rushlight._codegen.kernels.pointwise import Pointwise
from rushlight._codegen.language import sqrt
from rushlight._codegen.parallel_ufuncs import CompiledLoop, Functions
from rushlight._codegen.types import NUMBERS, Type, b1, f32, f64, u16

LETTERS = {
    "f": "f32", "d": "f64", "e": "f16", "E": "bf16", "?": "b1", "l": "i64", "i": "i32",
}  # fmt: skip
MIDDLE = 3 * COSTLY // 2
SMALL = 1024  # from here on loops of ours start for what NumPy computes as well on fewer elements

OPERATORS = {
    "add": operator.add, "subtract": operator.sub, "multiply": operator.mul, "divide": operator.truediv,
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "less_equal": operator.le,
    "greater": operator.gt, "greater_equal": operator.ge, "negative": operator.neg, "absolute": abs,
    "sqrt": sqrt,
}  # fmt: skip
SAME = "add subtract multiply divide maximum minimum fmax fmin"
COMPARISONS = "equal not_equal less less_equal greater greater_equal"
PLAIN = "square reciprocal sqrt absolute negative"
SMOOTH = "exp log tanh expm1 log1p exp2 log2 log10 arctanh arcsin arccos arctan sinh cosh arcsinh arccosh"


def address(function: Any, inputs: tuple[Type, ...], output: Type, grain: int) -> Callable[[], int]:
    known = {"F": function, "TYPES": inputs, "B": output, "NUMBERS": 0, "GRAIN": grain}
    return partial(loop.address, **known)


def compiled(function: Any, types: str, grain: int, small: int) -> CompiledLoop:
    inputs, output = types.split("->")
    kinds = tuple(NUMBERS[LETTERS[c]] for c in inputs)
    return CompiledLoop(address(function, kinds, NUMBERS[LETTERS[output]], grain), small)


def function(name: str) -> Any:
    """The function of numbers for a ufunc."""
    if name in OPERATORS:
        return OPERATORS[name]
    files = math, arithmetic, inverse_trigonometry
    return next(found for file in files if (found := getattr(file, name, None)) is not None)


def loops() -> dict[str, dict[str, CompiledLoop]]:
    """name of a ufunc -> types ("ff->f"; E is bfloat16) -> our loop."""
    found: dict[str, dict[str, CompiledLoop]] = {}
    for name in SAME.split():
        f = function(name)
        found[name] = {
            f"{c}{c}->{c}": compiled(f, f"{c}{c}->{c}", CHEAP, 0 if c in "eE" else SMALL)
            for c in "fdeE"
        }
    for name in PLAIN.split():
        f = function(name)
        found[name] = {
            f"{c}->{c}": compiled(f, f"{c}->{c}", CHEAP, 0 if c in "eE" else SMALL) for c in "fdeE"
        }
    # NumPy's own (2.4.6) gives wrong numbers for some arrays with gaps.
    found["negative"] |= {
        f"{c}->{c}": compiled(operator.neg, f"{c}->{c}", CHEAP, 0) for c in "fdil"
    }
    for name in COMPARISONS.split():
        f = function(name)
        found[name] = {f"{c}{c}->?": compiled(f, f"{c}{c}->?", MIDDLE, 0) for c in "eE"}
    for name in SMOOTH.split():
        f = function(name)
        found[name] = {f"{c}->{c}": compiled(f, f"{c}->{c}", COSTLY, 0) for c in "fdeE"}
    for name in ("maximum", "minimum"):  # NumPy's with one element for all are slow
        f = function(name)
        found[name] |= {f"{c}{c}->{c}": compiled(f, f"{c}{c}->{c}", CHEAP, SMALL) for c in "li"}
    for c in "fdeE":
        found.setdefault("logical_not", {})[f"{c}->?"] = compiled(
            arithmetic.logical_not, f"{c}->?", MIDDLE, 0 if c in "eE" else SMALL
        )
        for name in ("logical_and", "logical_or", "logical_xor"):
            f = function(name)
            found.setdefault(name, {})[f"{c}{c}->?"] = compiled(f, f"{c}{c}->?", MIDDLE, 0)
    for name in ("sin", "cos", "tan"):
        for c, t in (("f", f32), ("d", f64)):
            known = {"F": getattr(trigonometry, name), "T": t, "N": 1, "NUMBERS": 0, "L": 16}
            address_of = partial(loop_of_vectors.address, **known)
            found.setdefault(name, {})[f"{c}->{c}"] = CompiledLoop(address_of)
    angle = function("arctan2")
    found["arctan2"] = {f"{c}{c}->{c}": compiled(angle, f"{c}{c}->{c}", COSTLY, 0) for c in "fdeE"}
    for c in "eE":  # a sign is a bit: nothing to compute, nor to round
        for name in ("negative", "absolute"):
            f = getattr(arithmetic, name + "_half")
            known = {"F": f, "TYPES": (u16,), "B": u16, "NUMBERS": 0, "GRAIN": CHEAP}
            found[name][f"{c}->{c}"] = CompiledLoop(partial(loop.address, **known))
    return found


def functions() -> dict[str, Functions]:
    """name of a ufunc -> the functions of arrays that broadcast."""
    found: dict[str, Functions] = {}
    floats, integers = ([NUMBERS[LETTERS[c]] for c in letters] for letters in ("fdEe", "li"))
    for name in (*SAME.split(), "arctan2"):
        types = floats if name in ("divide", "arctan2") else floats + integers
        found[name] = {t.np: (function(name), t, t) for t in types}
    for name in COMPARISONS.split():
        found[name] = {t.np: (function(name), t, b1) for t in floats + integers}
    return found


def formula(name: str) -> Pointwise | None:
    """What a ufunc computes for one element; None where the function of numbers is not ours."""
    floats, integers = (tuple(NUMBERS[LETTERS[c]] for c in letters) for letters in ("fdeE", "li"))
    both = floats + integers
    if name in SAME.split() or name == "arctan2":
        whole_too = name not in ("divide", "arctan2")
        return Pointwise(function(name), 2, types=both if whole_too else floats)
    if name in COMPARISONS.split():
        return Pointwise(function(name), 2, output=b1, types=both)
    if name in ("logical_and", "logical_or", "logical_xor"):
        return Pointwise(function(name), 2, output=b1, types=(*floats, b1))
    if name == "logical_not":
        return Pointwise(function(name), output=b1, types=(*floats, b1))
    if name in (*PLAIN.split(), *SMOOTH.split()):
        whole = integers if name in ("square", "absolute", "negative") else ()
        return Pointwise(function(name), types=floats + whole)
    return None
