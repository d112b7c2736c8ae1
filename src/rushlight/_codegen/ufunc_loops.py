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
from rushlight._codegen.kernels import loops as kernels
from rushlight._codegen.kernels.pointwise import CHEAP, COSTLY, Pointwise
from rushlight._codegen.language import sqrt
from rushlight._codegen.parallel_ufuncs import CompiledLoop, Functions
from rushlight._codegen.types import NUMBERS, Type, b1, u16

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

TURNS = "sin cos tan"
# Where the functions of numbers are that Python has no operator for.
FILES = (
    (
        arithmetic,
        "maximum minimum fmax fmin square reciprocal logical_not logical_and logical_or logical_xor arctanh",
    ),
    (inverse_trigonometry, "arcsin arccos arctan arctan2 sinh cosh arcsinh arccosh"),
    (math, "exp log tanh expm1 log1p exp2 log2 log10"),
    (trigonometry, TURNS),
)
# Ufuncs, the dtypes and types of the loops, the chunks of threads, from how many elements on; the last row holds.
ROWS = (
    (SAME, "fd", "cc->c", CHEAP, SMALL),
    (SAME, "eE", "cc->c", CHEAP, 0),
    ("maximum minimum", "li", "cc->c", CHEAP, SMALL),  # NumPy's with one element for all are slow
    (PLAIN, "fd", "c->c", CHEAP, SMALL),
    (PLAIN, "eE", "c->c", CHEAP, 0),
    (
        "negative",
        "fdil",
        "c->c",
        CHEAP,
        0,
    ),  # NumPy's own (2.4.6) is wrong for some arrays with gaps
    (COMPARISONS, "eE", "cc->?", MIDDLE, 0),
    ("logical_not", "fd", "c->?", MIDDLE, SMALL),
    ("logical_not", "eE", "c->?", MIDDLE, 0),
    ("logical_and logical_or logical_xor", "fdeE", "cc->?", MIDDLE, 0),
    (SMOOTH, "fdeE", "c->c", COSTLY, 0),
    ("arctan2", "fdeE", "cc->c", COSTLY, 0),
)


# A sign is a bit: nothing to compute, nor to round.
HALVES = {"negative": arithmetic.negative_half, "absolute": arithmetic.absolute_half}


def address(function: Any, inputs: tuple[Type, ...], output: Type, grain: int) -> Callable[[], int]:
    known = {"F": function, "TYPES": inputs, "B": output, "NUMBERS": 0, "GRAIN": grain}
    return partial(kernels.loop.address, **known)


def compiled(function: Any, types: str, grain: int, small: int) -> CompiledLoop:
    inputs, output = types.split("->")
    kinds = tuple(NUMBERS[LETTERS[c]] for c in inputs)
    return CompiledLoop(address(function, kinds, NUMBERS[LETTERS[output]], grain), small)


def function(name: str) -> Any:
    """The function of numbers for a ufunc."""
    if name in OPERATORS:
        return OPERATORS[name]
    return next(getattr(file, name) for file, names in FILES if name in names.split())


def loops(name: str) -> dict[str, CompiledLoop]:
    """Our loops for a ufunc, by their types ("ff->f"; E is bfloat16); none where NumPy's are as good."""
    found: dict[str, CompiledLoop] = {}
    for names, letters, form, grain, least in ROWS:
        for c in letters if name in names.split() else "":
            types = form.replace("c", c)
            found[types] = compiled(function(name), types, grain, least)
    # The quotient of float32 that the tangent is does not round to float16 as the C library's does.
    for c in ("fdE" if name == "tan" else "fdeE") if name in TURNS.split() else "":
        t = NUMBERS[LETTERS[c]]
        known = {"F": function(name), "T": t, "N": 1, "NUMBERS": 0, "L": 32 if t.size == 2 else 16}
        found[f"{c}->{c}"] = CompiledLoop(partial(kernels.loop_of_vectors.address, **known))
    for c in "eE" if name in HALVES else "":
        known = {"F": HALVES[name], "TYPES": (u16,), "B": u16, "NUMBERS": 0, "GRAIN": CHEAP}
        found[f"{c}->{c}"] = CompiledLoop(partial(kernels.loop.address, **known))
    return found


def functions(name: str) -> Functions:
    """The functions of arrays that broadcast, for a ufunc; none where NumPy's are as good."""
    floats, integers = ([NUMBERS[LETTERS[c]] for c in letters] for letters in ("fdEe", "li"))
    if name in ("divide", "arctan2"):
        return {t.np: (function(name), t, t) for t in floats}
    if name in SAME.split():
        return {t.np: (function(name), t, t) for t in floats + integers}
    if name in COMPARISONS.split():
        return {t.np: (function(name), t, b1) for t in floats + integers}
    return {}


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
