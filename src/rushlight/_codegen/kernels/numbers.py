"""Arithmetic on the numbers that a function is given, written down as Python source.

The function runs once on stand-ins. What it computes of its numbers becomes a function that gives the same results
for other numbers, unless the function would have gone another way.

>>> trace = Trace()
>>> a, b = given((0.5, 3.0), trace)
>>> f = formula([1 - a**b, 2 * a if b > 1 else a], trace)
>>> f(0.5, 4.0)
[0.9375, 1.0]
>>> f(0.5, 1.0) is None  # the branch on b > 1 goes the other way
True
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

PLAIN = (float, int, bool)


class Trace:
    """The lines that compute numbers, and the outcomes of the branches on them."""

    def __init__(self) -> None:
        self.parameters: list[str] = []
        self.lines: list[str] = []
        self.names = 0

    def add(self, text: str, value: Any) -> Number:
        """A line that computes a number."""
        name = f"v{self.names}"
        self.names += 1
        self.lines.append(f"{name} = {text}")
        return Number(self, name, value)


def binary(sign: str, f: Callable, swapped: bool = False) -> Callable:
    """The method of numbers for an operator."""

    def method(self: Number, other: Any) -> Any:
        if type(other) not in PLAIN and not isinstance(other, Number):
            return NotImplemented
        text, value = shown(other)
        a, b = (text, self.name) if swapped else (self.name, text)
        x, y = (value, self.value) if swapped else (self.value, value)
        return self.trace.add(f"{a} {sign} {b}", f(x, y))

    return method


class Number:
    """A number, its value now, and the name of the line that computes it."""

    __slots__ = ("trace", "name", "value")

    def __init__(self, trace: Trace, name: str, value: Any) -> None:
        self.trace, self.name, self.value = trace, name, value

    def __neg__(self) -> Number:
        return self.trace.add(f"-{self.name}", -self.value)

    def __bool__(self) -> bool:
        self.trace.lines.append(f"if {'not ' if self.value else ''}{self.name}: return None")
        return bool(self.value)

    def root(self) -> Number:
        """The square root."""
        return self.trace.add(f"sqrt({self.name})", math.sqrt(self.value))


for _sign, _name in {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "**": "pow"}.items():
    _f = getattr(operator, _name)
    setattr(Number, f"__{_name}__", binary(_sign, _f))
    setattr(Number, f"__r{_name}__", binary(_sign, _f, swapped=True))
for _sign, _name in {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}.items():
    setattr(Number, f"__{_name}__", binary(_sign, getattr(operator, _name)))


def shown(x: Any) -> tuple[str, Any]:
    """The text and the value of a number."""
    if isinstance(x, Number):
        return x.name, x.value
    if not math.isfinite(x):
        raise TypeError(f"no text for {x}")
    return (f"({x!r})", x)


def given(values: Iterable[Any], trace: Trace) -> list[Any]:
    """Stand-ins for the numbers that a function is given; what is no number, or one of NumPy's, stays what it is."""
    made: list[Any] = []
    for k, v in enumerate(values):
        if isinstance(v, float) and not isinstance(v, np.generic):
            made.append(Number(trace, f"n{k}", float(v)))
        else:
            made.append(Number(trace, f"n{k}", v) if type(v) in PLAIN else v)
    trace.parameters = [f"n{k}" for k in range(len(made))]
    return made


def formula(results: list[Any], trace: Trace) -> Callable[..., list | None]:
    """The function that computes results from the numbers; None where it would go another way."""
    lines = [*trace.lines, f"return [{', '.join(shown(r)[0] for r in results)}]"]
    body = "".join(f"    {line}\n" for line in lines)
    space: dict[str, Any] = {"sqrt": math.sqrt}
    exec(f"def formula({', '.join(trace.parameters)}):\n{body}", space)
    return space["formula"]
