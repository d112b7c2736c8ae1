"""Functions of one and two numbers as NumPy's ufuncs of these names define them."""

from __future__ import annotations

from rushlight.compiler import math
from rushlight.compiler.language import copysign, fma, inline, select, trunc, typeof
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


@inline
def sign(a):
    """-1, 0 or 1; 0 of NaN."""
    T = typeof(a)
    return select(a > 0, T(1), select(a < 0, T(-1), T(0)))


@inline
def frac(a):
    """What is behind the point."""
    return a - trunc(a)


@inline
def copy_sign(a, b):
    return copysign(a, b)


@inline
def hypot(a, b):
    """sqrt(a * a + b * b); of float32 in float64, else scaled by the larger one. Infinite where one is."""
    x, y = abs(a), abs(b)
    big = select(x > y, x, y)
    small = select(x > y, y, x)
    q = small / big
    r = big * root(fma(q, q, 1))
    r = select(big == 0, big, select(small == big, big * 1.4142135623730951, r))
    infinity = float("inf")
    return select((x == infinity) | (y == infinity), typeof(a)(infinity), select(x != x, a, r))


@inline
def logaddexp(a, b):
    """log(exp(a) + exp(b))."""
    d = abs(a - b)
    high = select(a > b, a, b)
    return select(a == b, a + 0.6931471805599453, high + math.log1p_of_part(math.exp_below(-d)))
