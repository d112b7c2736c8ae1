"""Functions of one and two numbers as NumPy's ufuncs of these names define them."""

from __future__ import annotations

from rushlight.compiler import math
from rushlight.compiler.language import copysign, inline, select
from rushlight.compiler.language import sqrt as root


@inline
def add(a, b):
    return a + b


@inline
def subtract(a, b):
    return a - b


@inline
def multiply(a, b):
    return a * b


@inline
def divide(a, b):
    return a / b


@inline
def maximum(a, b):
    """NaN where one is."""
    return select((a > b) | (a != a), a, b)


@inline
def minimum(a, b):
    return select((a < b) | (a != a), a, b)


@inline
def fmax(a, b):
    """The number where one is NaN."""
    return select((a > b) | (b != b), a, b)


@inline
def fmin(a, b):
    return select((a < b) | (b != b), a, b)


@inline
def equal(a, b):
    return a == b


@inline
def not_equal(a, b):
    return a != b


@inline
def less(a, b):
    return a < b


@inline
def less_equal(a, b):
    return a <= b


@inline
def greater(a, b):
    return a > b


@inline
def greater_equal(a, b):
    return a >= b


@inline
def square(a):
    return a * a


@inline
def reciprocal(a):
    return 1 / a


@inline
def sqrt(a):
    return root(a)


@inline
def absolute(a):
    return abs(a)


@inline
def negative(a):
    return -a


@inline
def arctanh(a):
    """log1p(2 |a| / (1 - |a|)) / 2, with the sign of a."""
    x = abs(a)
    return copysign(0.5 * math.log1p(2 * x / (1 - x)), a)
