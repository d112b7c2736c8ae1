"""The regularised incomplete gamma functions for vectors, in float64 inside, as the reference computes them.

DLMF is https://dlmf.nist.gov. A vector goes through a series until all of its lanes have converged; a lane that has
takes no more terms, so that its value does not depend on the lanes beside it.
"""

from __future__ import annotations

from math import pi

from rushlight._codegen.kernels import math
from rushlight._codegen.kernels.special import INFINITY, NAN, STIRLING, log_gamma
from rushlight._codegen.language import *
from rushlight._codegen.types import f64, i64

MOST = 4000  # terms
TINY = 1e-300


@inline
def any_of(condition):
    """Whether a condition holds, in any lane of a vector."""
    return some(condition) if lanesof(condition) else condition


@inline
def prefactor(a, x):
    """x**a exp(-x) / gamma(a), by log1p where x is near a, so that nothing cancels."""
    d = (x - a) / a
    near = (abs(d) < 0.4) & (a > 10)
    t = d if near else 0
    v = a if a > 10 else 10
    stirling = math.horner(1 / (v * v), STIRLING) / v
    close = math.exp(a * (math.log1p(t) - t) - stirling) * sqrt(a * (0.5 / pi))
    return close if near else math.exp(a * math.log(x) - x - log_gamma(a, f64))


@inline
def lower_series(a, x, EXACT):
    """P(a, x) but for the factor by DLMF 8.11.4, for x < a + 1."""
    term = 1 / a
    s, n, open = term, a, a == a
    for _ in range(MOST):
        n = n + 1
        term = term * (x / n)
        s = s + term if open else s
        open = open & (term > s * EXACT)
        going = any_of(open)
        if ~going:
            break
    return s


@inline
def upper_fraction(a, x, EXACT):
    """Q(a, x) but for the factor by the continued fraction DLMF 8.9.2 (Lentz's method), for x >= a + 1."""
    b = x + 1 - a
    d = 1 / b
    c, h, open = x * 0 + 1 / TINY, d, x == x
    for i in range(1, MOST):
        k = -f64(i) * (f64(i) - a)
        b = b + 2
        d = fma(k, d, b)
        d = 1 / (TINY if abs(d) < TINY else d)
        c = b + k / c
        c = TINY if abs(c) < TINY else c
        step = d * c
        h = h * step if open else h
        open = open & (abs(step - 1) > EXACT)
        going = any_of(open)
        if ~going:
            break
    return h


@inline
def kind(first, second):
    """1 where the series is for these arguments, 2 where the continued fraction is, 0 where the value is known."""
    a, x = f64(first), f64(second)
    inside = (a > 0) & (x > 0) & (a < INFINITY) & (x < INFINITY)
    return (1 if x < a + 1 else i64(2)) if inside else 0


@inline
def known(a, x, UPPER):
    """P(a, x), or Q(a, x), of arguments that are 0, negative, infinite or NaN."""
    ONE, NONE = (0.0, 1.0) if UPPER else (1.0, 0.0)
    valid = (a >= 0) & (x >= 0)
    r = ONE if valid & (a == 0) & (x > 0) else a + NAN
    r = NONE if (x == 0) & ~(a <= 0) else r
    r = ONE if valid & (x == INFINITY) & (a < INFINITY) else r
    return NONE if valid & (a == INFINITY) & (x < INFINITY) else r


@inline
def inside(first, second, SERIES, UPPER):
    """P(a, x), or Q(a, x), of finite arguments above 0, by the series or by the continued fraction."""
    a, x = f64(first), f64(second)
    EXACT = 4e-16 if typeof(first) is f64 else 1e-10
    one = lower_series(a, x, EXACT) if SERIES else upper_fraction(a, x, EXACT)
    r = one * prefactor(a, x)
    return typeof(first)(1 - r if SERIES == UPPER else r)


@inline
def lower_known(a, x):
    """`gammainc` where it is known."""
    return known(a, x, False)


@inline
def lower_near(a, x):
    """`gammainc` by the series."""
    return inside(a, x, True, False)


@inline
def lower_far(a, x):
    """`gammainc` by the continued fraction."""
    return inside(a, x, False, False)


@inline
def upper_known(a, x):
    """`gammaincc` where it is known."""
    return known(a, x, True)


@inline
def upper_near(a, x):
    """`gammaincc` by the series."""
    return inside(a, x, True, True)


@inline
def upper_far(a, x):
    """`gammaincc` by the continued fraction."""
    return inside(a, x, False, True)
