"""Chains of elementwise functions as one loop each, over arrays of any strides.

A chain is traced by `compiler/lowering/fusion.py`; its lines are calls of the functions that the kernels of the operators
have for one element. Intermediate results stay in registers. The numbers of a chain are not part of the kernel: they
come in an array, so that another learning rate compiles nothing.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

from rushlight._codegen.kernel import entry, kernel
from rushlight._codegen.kernels.header import matches
from rushlight._codegen.kernels.shape_inference import item_of
from rushlight._codegen.language import *
from rushlight._codegen.language import Source
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, Type, b1, f64, i64

GRAIN = 16384  # elements in a chunk
MOST = 64  # places in memory of a chain: each may be read and written, which is two operands
FAR = 2  # the stride of an operand along the innermost dimension, if it is neither 0 nor 1


@dataclass(frozen=True)
class Operand:
    """How a chain reads or writes an array: the type of its elements, and the stride along the innermost dimension,
    0, 1 or FAR."""

    type: Type
    step: int


class Line(NamedTuple):
    """`function(*of)`: the arguments are texts, `v3` or `c[0]`."""

    function: Any
    of: tuple[str, ...]


class Text(Source):
    """An inline function of the kernel language that is made as text."""

    def __init__(self, text: str, names: dict[str, Any]) -> None:
        space = {"__name__": __name__, **names}
        super().__init__(FunctionType(_nothing.__code__, space, "chain"), "inline function", "")
        self.text = text
        self.meaning = ", ".join(f"{k}: {v!r}" for k, v in names.items())

    def __repr__(self) -> str:
        return f"{self.text}# {self.meaning}"

    def tree(self) -> tuple[Any, str, int]:
        if self._tree is None:
            self._tree = (ast.parse(self.text).body[0], "a chain", 0)
        return self._tree


class Chain(Text):
    """A function of the values that are loaded, of numbers, and of what `once` gives; it returns what is stored.

    `once`: what is the same along a whole row, a function of the values that are loaded and of numbers.
    """

    def __init__(
        self, loads: tuple[Operand, ...], stores: tuple[Operand, ...],
        numbers: tuple[Type, ...], lines: list[Line], results: tuple[str, ...],
    ) -> None:  # fmt: skip
        names: dict[str, Any] = {}
        head = [f"v{k} = a[{k}]" for k in range(len(loads))]
        same = {f"v{k}" for k, load in enumerate(loads) if load.step == 0}
        once, each, kept = [], [], []
        for n, (function, of) in enumerate(lines, len(loads)):
            text = f"v{n} = {named(names, function)}({', '.join(of)})"
            if all(t in same or t.startswith("c[") for t in of):
                same.add(f"v{n}")
                kept.append(f"v{n}")
                once.append(text)
            else:
                each.append(text)
        each = [*head, *[f"{v} = same[{k}]" for k, v in enumerate(kept)], *each]
        super().__init__(written("a, c, same", each, results), names)
        self.once = Text(written("a, c", [*head, *once], kept), names)
        self.loads, self.stores, self.numbers, self.kept = loads, stores, numbers, len(kept)

    def __repr__(self) -> str:
        how = (self.loads, self.stores, self.numbers)
        return f"{self.text}# {how} {self.meaning}\n{self.once.text}"


def written(parameters: str, lines: list[str], results: Iterable[str]) -> str:
    """The text of a function."""
    body = [*lines, f"return [{', '.join(results)}]"]
    return f"def chain({parameters}):\n" + "".join(f"    {line}\n" for line in body)


def _nothing() -> None:
    """The code of the function that a chain has for its globals."""


def named(names: dict[str, Any], function: Any) -> str:
    """The name of a function within a chain."""
    name = function.__name__
    while names.setdefault(name, function) is not function:
        name += "_"
    return name


@inline
def value(p, first, step, j, STEP):
    """The element number j of an operand."""
    return first if STEP == 0 else (p[j] if STEP == 1 else p[j * step])


@entry
def row(CHAIN, at: Ptr[i64], steps: Ptr[i64], numbers: Ptr[i64], start: i64, end: i64):
    """A chain along the innermost dimension: `at` are the addresses of the operands, `steps` their strides in elements.

    Nothing else is compiled for each chain.
    """
    OPERANDS = CHAIN.loads + CHAIN.stores
    L = len(CHAIN.loads)
    N = len(OPERANDS)
    c = [
        CHAIN.numbers[k](bits(numbers[k], f64))
        if CHAIN.numbers[k].is_float
        else CHAIN.numbers[k](numbers[k])
        for k in range(len(CHAIN.numbers))
    ]
    p = [bits(at[k], Ptr[OPERANDS[k].type]) for k in range(N)]
    step = [steps[k] if OPERANDS[k].step == FAR else i64(0) for k in range(N)]
    first = [p[k][0] if OPERANDS[k].step == 0 else 0 for k in range(L)]
    same = CHAIN.once(first, c) if CHAIN.kept else 0
    for j in lanes(start, end):
        a = [value(p[k], first[k], step[k], j, OPERANDS[k].step) for k in range(L)]
        new = CHAIN(a, c, same)
        for k in unroll(N - L):
            if OPERANDS[L + k].step == 1:
                p[L + k][j] = new[k]
            else:
                p[L + k][j * step[L + k]] = new[k]


# What a plan begins with: the number of arrays, of dimensions and of operands, where the operands and the checks stand.
ARRAYS, DIMS, OPERANDS, INDICES, CHECKS, SIZES = range(6)


@kernel
def fused(
    address: i64, items: Header, kind: Header, plan: Ptr[i64], numbers: Ptr[i64], refused: Ptr[i64]
):
    """A chain, whose row is at an address, over the arrays in the list `items`.

    `plan`: the numbers above; the sizes of the dimensions, the innermost last; the strides of the operands along the
    innermost, in elements; for each operand its place among the arrays, where its first element is, and its strides,
    in bytes; for each array the address of its dtype, the number of its dimensions, its shape and strides.
    refused[0] becomes 1, and nothing is written, where an array is another.
    """
    fits = b1(1)
    check = plan[CHECKS]
    for k in range(plan[ARRAYS]):
        fits = fits & matches(item_of(items, k), kind, plan, check)
        check = check + 2 + 2 * plan[check + 1]
    refused[0] = select(fits, i64(0), i64(1))
    if fits:
        dims, count, places = plan[DIMS], plan[OPERANDS], plan[INDICES]
        columns = plan[SIZES + dims - 1]
        n = i64(1)
        for d in range(dims):
            n = n * plan[SIZES + d]
        for lo, hi in parallel(n, GRAIN):
            at, index = array(i64, 2 * MOST), array(i64, MOST)
            rest = lo // columns
            start = lo - rest * columns
            for back in range(2, dims + 1):  # the index of the first row
                size = plan[SIZES + dims - back]
                index[dims - back] = rest - rest // size * size
                rest = rest // size
            for operand in range(count):
                own = places + operand * (2 + dims)
                here = item_of(items, plan[own])[abi.DATA] + plan[own + 1]
                for outer in range(dims - 1):
                    here = here + index[outer] * plan[own + 2 + outer]
                at[operand] = here
            i = lo
            while i < hi:
                end = min(columns, start + (hi - i))
                call(address, None, at, plan + (SIZES + dims), numbers, start, end)
                i = i + (end - start)
                start = i64(0)
                turn = dims - 2
                while turn >= 0:  # the next row
                    full = index[turn] + 1 == plan[SIZES + turn]
                    index[turn] = select(full, i64(0), index[turn] + 1)
                    steps = select(full, 1 - plan[SIZES + turn], i64(1))
                    for operand in range(count):
                        by = plan[places + operand * (2 + dims) + 2 + turn]
                        at[operand] = at[operand] + steps * by
                    turn = select(full, turn - 1, i64(-1))
