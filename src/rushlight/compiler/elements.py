"""What calls compute for one element of an array, as lines of a chain.

A forward runs on stand-ins (`Value`) in a back end, `SPACE`, whose kernels write down the functions of one element that
they have (`registration.formula`). What needs more than that raises.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import prod
from operator import index
from typing import Any

import numpy as np

from rushlight._backends import cpu
from rushlight._backends.compose import Composed
from rushlight._backends.llvm.registration import formula
from rushlight._codegen import language
from rushlight._codegen.kernels.fused import Line
from rushlight._codegen.kernels.pointwise import Pointwise
from rushlight._codegen.types import Type, b1, bf16, f16, f32, f64

HALF = (f16, bf16)


class Refused(Exception):
    """Something that no chain computes."""


class Value:
    """A number for each element, computed by a line of a chain."""

    __slots__ = ("text", "type", "shape", "lines", "key")

    def __init__(
        self, text: str, type: Type, shape: tuple[int, ...], lines: Lines, key: Any = None
    ) -> None:
        """`key`: the place in memory of a value that is loaded."""
        self.text, self.type, self.shape, self.lines, self.key = text, type, shape, lines, key

    @property
    def dtype(self) -> np.dtype:
        return self.type.np

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    def of_channels(self, ndim: int) -> Value:
        """A vector as a number for each channel of an array with ndim dimensions."""
        if self.key is None or self.ndim != 1:
            raise Refused
        self.lines.channels = True
        *before, shape, strides, dtype = self.key
        ones, zeros = (1,) * (ndim - 2), (0,) * (ndim - 2)
        key = (*before, shape + ones, strides + zeros, dtype)
        return self.lines.load(key, self.type, self.shape + ones)


class Sum:
    """The sum of a value over the dimensions that are not `kept`."""

    __slots__ = ("value", "kept")

    def __init__(self, value: Value, over: Iterable[int]) -> None:
        self.value = value
        over = {d % value.ndim for d in over}
        self.kept = tuple(d not in over for d in range(value.ndim))

    def strides(self, itemsize: int) -> tuple[int, ...]:
        """How far apart the numbers are that elements of the value are added to, in bytes."""
        found = [0] * self.value.ndim
        for d in reversed(range(self.value.ndim)):
            if self.kept[d]:
                found[d], itemsize = itemsize, itemsize * self.value.shape[d]
        return tuple(found)


def by_kernel(name: str, swapped: bool = False) -> Callable:
    """A method of values that is a kernel's."""

    def method(self: Value, other: Any) -> Value:
        kernel = getattr(SPACE, name)
        return kernel(other, self) if swapped else kernel(self, other)

    return method


for _sign, _name in {
    "add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide", "lt": "less",
    "le": "less_equal", "gt": "greater", "ge": "greater_equal", "and": "logical_and", "or": "logical_or",
}.items():  # fmt: skip
    setattr(Value, f"__{_sign}__", by_kernel(_name))
    if _sign in ("add", "sub", "mul", "truediv"):
        setattr(Value, f"__r{_sign}__", by_kernel(_name, swapped=True))
setattr(Value, "__neg__", lambda self: SPACE.negative(self))  # noqa: B010


class Scalars:
    """The back end of one element: its kernels write lines, where the values that they are given come from."""

    def __getattr__(self, name: str) -> Callable:
        found = formula(name)
        if found is None:
            raise AttributeError(name)
        if isinstance(found, Pointwise):
            return lambda *args: self.apply(found, *args)

        def kernel(*args: Any) -> Any:
            result = found(SPACE, *args)
            if result is NotImplemented:
                raise Refused(name)
            return result

        return kernel

    def apply(self, pointwise: Pointwise, *args: Any) -> Value:
        """The line of a function of some values of one type and some numbers."""
        n = pointwise.arrays
        values = [v for v in args[:n] if isinstance(v, Value)]
        if len({v.type for v in values}) != 1 or len(args) != n + pointwise.numbers:
            raise Refused
        t, result = values[0].type, pointwise.output or values[0].type
        if t not in pointwise.types or pointwise.vectors or t in HALF or result in HALF:
            raise Refused
        return values[0].lines.add(pointwise.function, args, result, t)

    def select(self, condition: Any, a: Any, b: Any) -> Value:
        """a where the condition holds, else b."""
        values = [v for v in (a, b) if isinstance(v, Value)]
        t = values[0].type
        if condition.type is not b1 or t in HALF or any(v.type is not t for v in values):
            raise Refused
        return condition.lines.add(language.select, (condition, a, b), t, t)

    def sum(self, a: Value, axis: Any, keepdims: bool, dtype: Any = None) -> Sum:
        """The sum over some dimensions, in the dtype of the elements."""
        if a.type not in (f32, f64) or dtype not in (None, a.dtype) or axis == ():
            raise Refused
        over = range(a.ndim) if axis is None else axis if axis.__class__ is tuple else (axis,)
        return Sum(a, over)

    def sum_to(self, a: Value, shape: tuple[int, ...]) -> Sum:
        """The sum over the dimensions in which an array of a shape was broadcast."""
        lead = a.ndim - len(shape)
        same = [d >= lead and shape[d - lead] == n for d, n in enumerate(a.shape)]
        return self.sum(a, tuple(d for d, alike in enumerate(same) if not alike), True)

    def contiguous(self, a: Value) -> Value:
        """The same numbers: where they lie is known from the first run."""
        return a

    number = staticmethod(cpu.number)
    zeros = staticmethod(cpu.zeros)


SPACE = Composed(Scalars())


class Lines:
    """What a chain computes, line by line."""

    def __init__(self) -> None:
        self.loads: dict[Any, Value] = {}  # place in memory -> what is loaded from there
        self.lines: list[Line] = []
        self.numbers: dict[tuple[Type, Any], str] = {}
        self._known: dict[Any, Value] = {}
        self.channels = False  # whether the last call took numbers of channels

    def load(self, key: Any, t: Type | None, shape: tuple[int, ...]) -> Value:
        """The value at a place in memory."""
        if key not in self.loads:
            if t is None or t in HALF:
                raise Refused
            self.loads[key] = Value(f"load{len(self.loads)}", t, shape, self, key)
        return self.loads[key]

    def add(self, function: Any, given: Iterable, t: Type, operand: Type) -> Value:
        """A line, of type t: `function` of values, and of numbers that become operands of another type."""
        of_lines = [v.text if isinstance(v, Value) else self.constant(v, operand) for v in given]
        key = (id(function), *of_lines)
        if key not in self._known:
            shape = np.broadcast_shapes(*[v.shape for v in given if isinstance(v, Value)])
            self._known[key] = Value(f"line{len(self.lines)}", t, shape, self)
            self.lines.append(Line(function, tuple(of_lines)))
        return self._known[key]

    def keep(self, results: list[str]) -> None:
        """Drop the loads that no line and no result reads: vectors that became numbers of channels."""
        read = {*results, *[text for line in self.lines for text in line.of]}
        self.loads = {key: v for key, v in self.loads.items() if v.text in read}

    def constant(self, value: Any, t: Type) -> str:
        """The place of a number among those that the kernel is given."""
        if isinstance(value, (np.ndarray, np.generic)) and not value.ndim:
            value = value.item()
        if not isinstance(value, (bool, int, float)):
            raise Refused
        if t.is_float:
            value = float(value)
        else:
            value = index(value)
            if not -(1 << 63) <= value < 1 << 63:
                raise Refused
        key = (t, repr(value))
        return self.numbers.setdefault(key, f"c[{len(self.numbers)}]")
