"""Chains of elementwise functions as one loop each, over arrays of any strides.

A chain is traced by `compiler/fusion.py`; its lines are calls of the functions that the kernels of the operators
have for one element. Intermediate results stay in registers. The numbers of a chain are not part of the kernel: they
come in an array, so that another learning rate compiles nothing.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from types import FunctionType
from typing import Any, NamedTuple

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.header import dims_of, shape_of, strides_of
from rushlight._codegen.kernels.shape_inference import item_of
from rushlight._codegen.language import *
from rushlight._codegen.language import Source
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, Type, b1, f64, i32, i64

GRAIN = 16384  # elements in a chunk
FAR = 2  # the stride of an operand along the innermost dimension, if it is neither 0 nor 1


@dataclass(frozen=True)
class Operand:
    """How a chain reads or writes an array: its place among the arrays, the type of its elements, and the stride
    along the innermost dimension: 0, 1 or FAR."""

    place: int
    type: Type
    step: int


class Line(NamedTuple):
    """`function(*of)`: the arguments are texts, `v3` or `c[0]`."""

    function: Any
    of: tuple[str, ...]


class Chain(Source):
    """An inline function of the values that are loaded and of numbers; it returns what is stored."""

    def __init__(
        self, dims: int, arrays: int, loads: tuple[Operand, ...], stores: tuple[Operand, ...],
        numbers: tuple[Type, ...], lines: list[Line], results: tuple[str, ...],
    ) -> None:  # fmt: skip
        names: dict[str, Any] = {}
        body = []
        for k in range(len(loads)):
            body.append(f"v{k} = a[{k}]")
        for n, (function, of) in enumerate(lines, len(loads)):
            body.append(f"v{n} = {named(names, function)}({', '.join(of)})")
        body.append(f"return [{', '.join(results)}]")
        space = {"__name__": __name__, **names}
        super().__init__(FunctionType(_nothing.__code__, space, "chain"), "inline function", "")
        self.dims, self.arrays, self.loads, self.stores, self.numbers = (
            dims, arrays, loads, stores, numbers,
        )  # fmt: skip
        self.text = "def chain(a, c):\n" + "".join(f"    {line}\n" for line in body)
        self.meaning = ", ".join(f"{k}: {v!r}" for k, v in names.items())

    def __repr__(self) -> str:
        how = (self.dims, self.arrays, self.loads, self.stores, self.numbers)
        return f"{self.text}# {how} {self.meaning}"

    def tree(self) -> tuple[Any, str, int]:
        if self._tree is None:
            self._tree = (ast.parse(self.text).body[0], "a chain", 0)
        return self._tree


def _nothing() -> None:
    """The code of the function that a chain has for its globals."""


def named(names: dict[str, Any], function: Any) -> str:
    """The name of a function within a chain."""
    name = function.__name__
    while names.setdefault(name, function) is not function:
        name += "_"
    return name


@routine(apart=True, quick=True)
def alike(items: Header, count: i64, kind: Header, plan: Ptr[i64]) -> b1:
    """Whether the objects in a list are aligned arrays of a class with the dtypes, shapes and strides that the plan
    tells."""
    fits = b1(1)
    at = i64(0)
    for k in range(count):
        a = item_of(items, k)
        n = plan[at + 1]
        if a[abi.TYPE] != bits(kind, i64):
            fits = b1(0)
        if fits:
            fits = (a[abi.DTYPE] == plan[at]) & (dims_of(a) == n)
            fits = fits & (i32(a[abi.FLAGS]) & abi.ALIGNED != 0)
        if fits:
            for j in range(n):
                fits = fits & (shape_of(a)[j] == plan[at + 2 + j])
                fits = fits & (strides_of(a)[j] == plan[at + 2 + n + j])
        at = at + 2 + 2 * n
    return fits


@inline
def value(p, first, step, j, STEP):
    """The element number j of an operand."""
    return first if STEP == 0 else (p[j] if STEP == 1 else p[j * step])


@kernel
def fused(CHAIN, items: Header, kind: Header, plan: Ptr[i64], numbers: Ptr[i64], refused: Ptr[i64]):
    """A chain over the arrays in the list `items`.

    `plan`: the sizes of the dimensions, the innermost last; for each operand where its first element is and its
    strides, in elements; then for each array the address of its dtype, the number of its dimensions, its shape and
    strides. refused[0] becomes 1, and nothing is written, where an array is another.
    """
    D = CHAIN.dims
    OPERANDS = CHAIN.loads + CHAIN.stores
    L = len(CHAIN.loads)
    N = len(OPERANDS)
    fits = alike(items, i64(CHAIN.arrays), kind, plan + (D + N * (D + 1)))
    refused[0] = select(fits, i64(0), i64(1))
    if fits:
        size = [plan[d] for d in range(D)]
        n = size[0]
        for d in unroll(range(1, D)):
            n = n * size[d]
        steps = [[plan[D + k * (D + 1) + 1 + d] for d in range(D)] for k in range(N)]
        base = [
            bits(item_of(items, OPERANDS[k].place)[abi.DATA], Ptr[OPERANDS[k].type])
            + plan[D + k * (D + 1)]
            for k in range(N)
        ]
        for lo, hi in parallel(n, GRAIN):
            c = [
                CHAIN.numbers[k](bits(numbers[k], f64))
                if CHAIN.numbers[k].is_float
                else CHAIN.numbers[k](numbers[k])
                for k in range(len(CHAIN.numbers))
            ]
            if D == 1:
                row(CHAIN, OPERANDS, L, N, base, [s[0] for s in steps], c, lo, hi)
            else:
                i = lo
                while i < hi:
                    rest = i // size[D - 1]
                    start = i - rest * size[D - 1]
                    end = min(size[D - 1], start + (hi - i))
                    here = base
                    for d in unroll(range(D - 2, -1, -1)):
                        which = rest
                        if d > 0:
                            which = rest % size[d]
                            rest = rest // size[d]
                        here = [here[k] + which * steps[k][d] for k in range(N)]
                    row(CHAIN, OPERANDS, L, N, here, [s[D - 1] for s in steps], c, start, end)
                    i = i + (end - start)


@inline
def row(CHAIN, OPERANDS, L, N, p, step, c, start, end):
    """A chain along the innermost dimension."""
    first = [p[k][0] if OPERANDS[k].step == 0 else 0 for k in range(L)]
    for j in lanes(start, end):
        new = CHAIN([value(p[k], first[k], step[k], j, OPERANDS[k].step) for k in range(L)], c)
        for k in unroll(N - L):
            if OPERANDS[L + k].step == 1:
                p[L + k][j] = new[k]
            else:
                p[L + k][j * step[L + k]] = new[k]
