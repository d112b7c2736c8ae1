"""Arcsine, arccosine and arctangent of f32 and f64, the hyperbolic sine and cosine, and their inverses.

Polynomials as those of `math.py`, on what is left of an argument after identities brought it near 0. Errors in units in
the last place are said with each function and checked in tests/test_compiler_math.py.
"""

from __future__ import annotations

from decimal import Decimal

from rushlight._codegen.kernels.math import (
    HALF_LN2,
    LN2,
    _exp_rest,
    _pi,
    _series,
    degree,
    horner,
    log,
    log1p,
    polynomial,
    power_of_two,
    reduced,
    split,
)
from rushlight._codegen.language import *
from rushlight._codegen.types import f32


def _arctan_rest(z: Decimal) -> Decimal:
    """(arctan(t) / t - 1) / z, of z = t**2"""
    t = z.sqrt()
    half, factor = t, 1
    for _ in range(3):  # arctan(t) = 2 * arctan(t / (1 + sqrt(1 + t**2)))
        half, factor = half / (1 + (1 + half * half).sqrt()), 2 * factor
    square = half * half
    total, power, n = Decimal(0), half, 1
    while abs(power) > Decimal(10) ** -60:
        total += power / n
        power, n = -power * square, n + 2
    return (factor * total / t - 1) / z


def _arcsin_rest(z: Decimal) -> Decimal:
    """(arcsin(t) / t - 1) / z, of z = t**2"""
    return _series(
        Decimal(1) / 6, lambda n: z * (2 * n + 3) * (2 * n + 3) / ((2 * n + 4) * (2 * n + 5))
    )


def _sinh_rest(z: Decimal) -> Decimal:
    """(sinh(x) / x - 1) / z, of z = x**2"""
    return _series(Decimal(1) / 6, lambda n: z / ((2 * n + 4) * (2 * n + 5)))


@inline
def less_than(angle, x):
    """An angle, as a Decimal, less a number."""
    high, low = split(angle, 22 if typeof(x) is f32 else 51)
    return high - (x - low)


# -- arctangent ------------------------------------------------------------------------------------


@inline
def arctan_of_part(t):
    """arctan(t) of t between 0 and 1, and NaN."""
    z = t * t
    p = horner(z, polynomial(_arctan_rest, 0.0, 1.0, degree(typeof(t), 9, 20)))
    return fma(t * z, p, t)


@inline
def arctan(x):
    """The arctangent; at most 2 ULP."""
    a = abs(x)
    beyond = a > 1
    r = arctan_of_part((1 if beyond else a) / (a if beyond else 1))
    r = less_than(_pi() / 2, r) if beyond else r
    return copysign(r, x)


@inline
def arctan2(y, x):
    """The angle of the point (x, y), in [-pi, pi]; at most 3 ULP."""
    T = typeof(x)
    a, b = abs(y), abs(x)
    steep = a > b
    n, d = b if steep else a, a if steep else b
    t = n / d
    t = T(0) if d == 0 else t
    t = T(1) if n == float("inf") else t
    r = arctan_of_part(t)
    flat = less_than(_pi(), r) if copysign(T(1), x) < 0 else r
    r = copysign(less_than(_pi() / 2, copysign(r, x)) if steep else flat, y)
    return r if (x == x) & (y == y) else T(float("nan"))


# -- arcsine and arccosine -------------------------------------------------------------------------


@inline
def arcsin_of_part(x):
    """Whether |x| is more than 1/2; arcsin(|x|), or half of arccos(|x|) if it is."""
    a = abs(x)
    beyond = a > 0.5
    z = (1 - a) * 0.5 if beyond else a * a
    s = sqrt(z) if beyond else a
    p = horner(z, polynomial(_arcsin_rest, 0.0, 0.25, degree(typeof(x), 5, 13)))
    return beyond, fma(s * z, p, s)


@inline
def arcsin(x):
    """The arcsine; at most 3 ULP."""
    beyond, r = arcsin_of_part(x)
    return copysign(less_than(_pi() / 2, 2 * r) if beyond else r, x)


@inline
def arccos(x):
    """The arccosine; at most 2 ULP."""
    beyond, r = arcsin_of_part(x)
    near = less_than(_pi(), 2 * r) if x < 0 else 2 * r
    return near if beyond else less_than(_pi() / 2, copysign(r, x))


# -- hyperbolic ------------------------------------------------------------------------------------


@inline
def half_exp(x):
    """e**x / 2 of x >= 0; at most 2 ULP."""
    T = typeof(x)
    most = 90.0 if T is f32 else 711.0
    n, f = reduced(most if x > most else x)
    p = horner(f, polynomial(_exp_rest, -HALF_LN2, HALF_LN2, degree(T, 4, 9)))
    y = fma(p * f, f, f) + 1
    half = n >> 1
    return y * power_of_two(half, T) * power_of_two(n - half - 1, T)


@inline
def sinh(x):
    """The hyperbolic sine; at most 2 ULP."""
    a = abs(x)
    z = x * x
    p = horner(z, polynomial(_sinh_rest, 0.0, 1.0, degree(typeof(x), 3, 7)))
    e = half_exp(a)
    return fma(x * z, p, x) if a < 1 else copysign(e - 0.25 / e, x)


@inline
def cosh(x):
    """The hyperbolic cosine; at most 2 ULP."""
    e = half_exp(abs(x))
    return e + 0.25 / e


@inline
def arcsinh(x):
    """The inverse hyperbolic sine; at most 3 ULP."""
    a = abs(x)
    large = a > (4096.0 if typeof(x) is f32 else 2.0**28)
    z = a * a
    u = a + z / (1 + sqrt(1 + z))
    y = log(a) + float(LN2) if large else log1p(u)
    return copysign(y, x)


@inline
def arccosh(x):
    """The inverse hyperbolic cosine; at most 3 ULP."""
    T = typeof(x)
    t = x - 1
    large = x > (4096.0 if T is f32 else 2.0**28)
    y = log(x) + float(LN2) if large else log1p(t + sqrt(t * (t + 2)))
    return T(float("nan")) if x < 1 else y
