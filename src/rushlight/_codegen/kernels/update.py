"""Update rules of optimizers as kernels: one pass over memory, all parameters in one call.

A rule is a Python function of arrays (see `optim/rules.py`). It is run once on stand-ins that write
down what it computes; the lines become an inline function of the kernel language, in which every
operation rounds as NumPy's does and nothing is reordered or contracted, so the numbers are the same,
bit for bit. The numbers of the rule are not part of the kernel: they come in an array of constants.

>>> import numpy as np
>>> def rule(xp, p, g, rate):
...     p -= rate * xp.sqrt(g)
>>> kernel, constants = prepared(rule, (True, True), (0.5,), np.dtype(np.float32))
>>> print(kernel.text)
def rule(a, c):
    v0, v1 = a[0], a[1]
    v2 = sqrt(v1)
    v3 = c[0]
    v4 = v2 * v3
    v5 = v0 - v4
    return [v5]
>>> constants
array([0.5], dtype=float32)
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.numbers import PLAIN, Number, formula, shown
from rushlight._codegen.kernels.numbers import Trace as Arithmetic
from rushlight._codegen.kernels.numbers import given as stand_ins
from rushlight._codegen.kernels.rows import row_total
from rushlight._codegen.kernels.shape_inference import item_of, size_of
from rushlight._codegen.language import *
from rushlight._codegen.language import Source
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i32, i64, of

GRAIN = 16384  # elements in a chunk
SHARE = 4096  # elements of a parameter of no more than GRAIN that a thread takes at a time
WHOLE = abi.C_CONTIGUOUS | abi.ALIGNED | abi.WRITEABLE


def written(how: str) -> Callable[..., Value]:
    """The method of values that writes down an operation."""
    return lambda self, *others: self.trace.add(how, self.line, *map(self.trace.line_of, others))


class Value:
    """Something computed in the loop: the number of the line that computes it."""

    __slots__ = ("trace", "line")

    def __init__(self, trace: Trace, line: int) -> None:
        self.trace, self.line = trace, line

    __add__ = __radd__ = written("{0} + {1}")
    __mul__ = __rmul__ = written("{0} * {1}")
    __sub__, __rsub__ = written("{0} - {1}"), written("{1} - {0}")
    __truediv__, __rtruediv__ = written("{0} / {1}"), written("{1} / {0}")
    __gt__, __lt__, __neg__ = written("{0} > {1}"), written("{0} < {1}"), written("-{0}")


class Array(Value):
    """One of the rule's arrays: in-place operations change which line holds its value."""

    __slots__ = ()

    def _put(self, value: Any) -> Array:
        self.line = self.trace.line_of(value)
        return self

    def __iadd__(self, other: Any) -> Array:
        return self._put(self + other)

    def __isub__(self, other: Any) -> Array:
        return self._put(self - other)

    def __imul__(self, other: Any) -> Array:
        return self._put(self * other)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._put(value)


class Trace:
    """What a rule computes, line by line, and the functions of `xp` that it may use."""

    def __init__(self, arrays: int) -> None:
        self.lines: list[tuple] = [("a",)] * arrays
        self.constants: list[Any] = []  # numbers, or what stands for them

    def add(self, *line: Any) -> Value:
        self.lines.append(line)
        return Value(self, len(self.lines) - 1)

    def line_of(self, value: Any) -> int:
        if isinstance(value, Value):
            return value.line
        known = value.value if isinstance(value, Number) else value
        if type(known) not in PLAIN:  # NumPy's own numbers promote otherwise
            raise TypeError(f"no constant for a loop: {known!r}")
        self.constants.append(value)
        self.lines.append(("c",))
        return len(self.lines) - 1

    def sqrt(self, x: Value) -> Value:
        return self.add("sqrt({})", x.line)

    def absolute(self, x: Value) -> Value:
        return self.add("abs({})", x.line)

    def where(self, test: Value, a: Any, b: Any) -> Value:
        return self.add("select({}, {}, {})", test.line, self.line_of(a), self.line_of(b))

    def maximum(self, a: Value, b: Value) -> Value:
        # As NumPy's: a NaN in either comes through, and of two zeros the second.
        return self.where(self.add("({0} > {1}) | ({0} != {0})", a.line, b.line), a, b)

    def clip(self, x: Value, low: float, high: float) -> Value:
        raised = self.where(x < low, low, x)
        return self.where(raised > high, high, raised)

    def sign(self, x: Value) -> Value:
        return self.where(x > 0.0, 1.0, self.where(x < 0.0, -1.0, 0.0))

    def zeros_like(self, x: Value) -> Value:
        return Value(self, self.line_of(0.0))


class Rule(Source):
    """A traced rule, an inline function of `arrays` values and `constants` numbers.

    It returns what becomes of the arrays whose places `stores` holds.
    """

    def __init__(self, lines: list[tuple], arrays: int, stores: tuple) -> None:
        super().__init__(_names, "inline function", "")
        self.arrays, self.stores = arrays, tuple(slot for slot, _ in stores)
        self.constants = 0
        loaded = ", ".join(f"v{k}" for k in range(arrays))
        given = ", ".join(f"a[{k}]" for k in range(arrays))
        body = [f"{loaded} = {given}"]
        for n, (how, *of_lines) in enumerate(lines[arrays:], arrays):
            if how == "c":
                body.append(f"v{n} = c[{self.constants}]")
                self.constants += 1
            else:
                body.append(f"v{n} = " + how.format(*(f"v{line}" for line in of_lines)))
        body.append(f"return [{', '.join(f'v{line}' for _, line in stores)}]")
        self.text = "def rule(a, c):\n" + "\n".join("    " + line for line in body)

    def __repr__(self) -> str:
        return self.text + f"  # {self.stores}"

    def tree(self) -> tuple[Any, str, int]:
        if self._tree is None:
            self._tree = (ast.parse(self.text).body[0], "a traced rule", 0)
        return self._tree


def _names() -> None:
    """Where rules find the words that they use: this module."""


_ = select, sqrt, unroll
_rules: dict[tuple, Rule] = {}
_formulas: dict[tuple, list[tuple[Callable[..., list | None], Rule]]] = {}


def prepared(
    rule: Callable[..., None], given: tuple[bool, ...], numbers: tuple, dtype: np.dtype
) -> tuple[Rule, np.ndarray]:
    """A rule with these numbers, for arrays where `given` says True and None elsewhere.

    Whatever it raises on stand-ins is raised; the kernel's text depends on the numbers only where
    the rule branches on them. So the rule is traced once for each way through it; after that a formula
    computes the constants.
    """
    wide = np.float64 if dtype.itemsize == 8 else np.float32
    known = _formulas.setdefault((rule, given, *map(type, numbers)), [])
    for constants, traced in known:
        values = constants(*numbers)
        if values is not None:
            return traced, np.array(values, wide)
    trace, arithmetic = Trace(sum(given)), Arithmetic()
    there = [Array(trace, k) for k in range(sum(given))]
    left = iter(there)
    rule(trace, *(next(left) if g else None for g in given), *stand_ins(numbers, arithmetic))
    stores = tuple([(k, a.line) for k, a in enumerate(there) if a.line != k])
    signature = (tuple(trace.lines), stores)
    traced = _rules.get(signature) or _rules.setdefault(
        signature, Rule(trace.lines, len(there), stores)
    )
    known.append((formula(trace.constants, arithmetic), traced))
    return traced, np.array([shown(c)[1] for c in trace.constants], wide)


@inline
def plain(a, kind, dtype, FLAGS):
    """Whether an object is an array of a class and a dtype with these flags."""
    fits = a[abi.TYPE] == bits(kind, i64)
    if fits:
        fits = (a[abi.DTYPE] == bits(dtype, i64)) & (i32(a[abi.FLAGS]) & FLAGS == FLAGS)
    return fits


@kernel
def update(
    RULE,
    T,
    items: Header,
    kind: Header,
    dtype: Header,
    constants: Ptr[C],
    refused: Ptr[i64],
    n: i64,
):
    """A rule on the arrays of n parameters, which stand side by side in the list `items`.

    Arrays of one parameter are C-contiguous, of one size, of the class `kind` and of `dtype`,
    writeable and apart from each other; else the parameter is left as it is, and counted in
    refused[0] and marked in refused[1 + its number].
    """
    K = RULE.arrays
    refused[0] = 0
    for j in range(n):
        arrays = [item_of(items, j * K + k) for k in range(K)]
        at = [a[abi.DATA] for a in arrays]
        sizes = []
        fits = b1(1)
        for k in unroll(K):
            size = i64(0)
            alike = plain(arrays[k], kind, dtype, WHOLE)
            if alike:
                size = size_of(arrays[k])
            sizes = sizes + [size]
            fits = fits & alike & (size == sizes[0])
            for other in unroll(k):
                span = size * T.size
                fits = fits & ((at[other] + span <= at[k]) | (at[k] + span <= at[other]))
        refused[1 + j] = i64(0)
        if fits:
            data = [bits(a, Ptr[T]) for a in at]
            grain = i64(GRAIN) if sizes[0] > GRAIN else i64(SHARE + NEAR)
            for lo, hi in parallel(sizes[0], grain):
                known = [constants[k] for k in range(RULE.constants)]
                for i in lanes(lo, hi):
                    new = RULE([p[i] for p in data], known)
                    for k in unroll(len(RULE.stores)):
                        data[RULE.stores[k]][i] = new[k]
        else:
            refused[0] += 1
            refused[1 + j] = i64(1)


@kernel
def lengths(T, items: Header, kind: Header, dtype: Header, parts: Ptr[R], out: Ptr[R], n: i64):
    """The square roots of the sums of squares of n arrays in a list, -1 for one that is not C-contiguous and
    of the class and the dtype. `parts`: a number for each chunk of the largest."""
    for j in range(n):
        a = item_of(items, j)
        if plain(a, kind, dtype, abi.C_CONTIGUOUS | abi.ALIGNED):
            size = size_of(a)
            data = bits(a[abi.DATA], Ptr[T])
            for lo, hi in parallel(size, GRAIN):
                parts[lo // GRAIN] = row_total(data + lo, hi - lo, lambda v: v * v, T)
            s = R(0)
            for k in range((size + (GRAIN - 1)) // GRAIN):
                s += parts[k]
            out[j] = sqrt(s)
        else:
            out[j] = -1


@cache
def compiled(rule: Rule, dtype: np.dtype) -> Callable[..., None]:
    """The kernel `update` for one rule and dtype."""
    t = of(dtype)
    assert t is not None
    return update.compiled(RULE=rule, T=t, C=t.loaded)
