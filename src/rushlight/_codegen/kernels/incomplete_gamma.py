"""The regularised incomplete gamma functions for vectors, in float64 inside, as the reference computes them.

DLMF is https://dlmf.nist.gov. A vector goes through a series until all of its lanes have converged; a lane that has
takes no more terms, so that its value does not depend on the lanes beside it.
"""

from __future__ import annotations

from math import pi

from rushlight._codegen.kernels import math
from rushlight._codegen.kernels.special import INFINITY, NAN, STIRLING, constant, log_gamma
from rushlight._codegen.language import *
from rushlight._codegen.types import f64

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
def incomplete(first, second, UPPER):
    """P(a, x), or Q(a, x); NaN for negative arguments."""
    a, x = f64(first), f64(second)
    EXACT = 4e-16 if typeof(first) is f64 else 1e-10
    ONE, NONE = (0.0, 1.0) if UPPER else (1.0, 0.0)
    inside = (a > 0) & (x > 0) & (a < INFINITY) & (x < INFINITY)
    low = inside & (x < a + 1)
    high = inside & ~(x < a + 1)
    r = constant(NAN, x)
    going = any_of(inside)
    if going:
        p = lower_series(a if low else 1, x if low else 0, EXACT)
        q = upper_fraction(a if high else 1, x if high else 2, EXACT)
        y = (p if low else q) * prefactor(a if inside else 1, x if inside else 1)
        y = (1 - y if low else y) if UPPER else (y if low else 1 - y)
        r = y if inside else NAN
    valid = (a >= 0) & (x >= 0)
    r = ONE if valid & (a == 0) & (x > 0) else r
    r = NONE if (x == 0) & ~(a <= 0) else r
    r = ONE if valid & (x == INFINITY) & (a < INFINITY) else r
    r = NONE if valid & (a == INFINITY) & (x < INFINITY) else r
    return typeof(first)(r)


@inline
def gammainc(a, x):
    """The regularised lower incomplete gamma function P(a, x)."""
    return incomplete(a, x, False)


@inline
def gammaincc(a, x):
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return incomplete(a, x, True)
