"""Functions of mathematics for kernels, on numbers and vectors of f32 and f64.

Polynomials interpolate at Chebyshev's points what is left of a function after its range was reduced
(J.-M. Muller, Elementary Functions, 3rd ed., chapters 3 and 11). Their coefficients are computed
when a kernel is compiled, in decimal arithmetic of fifty digits. Errors in units in the last place
(ULP) are said with each function and checked in tests/test_compiler_math.py; NaN, infinities and
the sign of zero are IEEE's.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, getcontext, localcontext
from functools import cache

from rushlight._codegen.language import *
from rushlight._codegen.types import Type, f32, f64, i32, i64

DIGITS = 50


@cache
def polynomial(
    function: Callable, low: float, high: float, degree: int, scale: int = 0
) -> tuple[float, ...]:
    """The coefficients, highest power first, of the polynomial that interpolates a function of
    Decimals at Chebyshev's points of an interval; with a scale, where d / (d + scale) is one of these,
    of the distance d from `low`: the error is smaller there, and larger towards `high`."""
    with localcontext() as context:
        context.prec = DIGITS
        n = degree + 1
        a, b = Decimal(low), Decimal(high)
        far = (b - a) / (b - a + scale) if scale else b - a
        points = [far * (1 + _cos(_pi() * (2 * k + 1) / (2 * n))) / 2 for k in range(n)]
        points = [a + (scale * u / (1 - u) if scale else u) for u in points]
        differences = [function(x) for x in points]  # Newton's divided differences
        for order in range(1, n):
            for k in range(n - 1, order - 1, -1):
                differences[k] = (differences[k] - differences[k - 1]) / (
                    points[k] - points[k - order]
                )
        powers = [differences[-1]]  # lowest first
        for k in range(n - 2, -1, -1):
            raised = [Decimal(0), *powers]
            powers = [r - points[k] * p for r, p in zip(raised, [*powers, Decimal(0)], strict=True)]
            powers[0] += differences[k]
        return tuple(float(c) for c in reversed(powers))


@cache
def rational(
    function: Callable, most: float, top: int, bottom: int, scale: int
) -> tuple[tuple[float, ...], tuple[float, ...], Decimal]:
    """Two polynomials in -x, of these degrees and without their first coefficients, which are 1, and
    a factor: their quotient times it is a function of Decimals where x / (x + scale) is one of
    Chebyshev's points between 0 and where x is `most`."""
    with localcontext() as context:
        context.prec = 2 * DIGITS
        n = top + bottom + 1
        far = Decimal(most) / (Decimal(most) + scale)
        rows = []
        for k in range(n):
            u = far * (1 - _cos(_pi() * (2 * k + 1) / (2 * n))) / 2
            x = scale * u / (1 - u)
            y = function(x)
            above = [(-x) ** i for i in range(top + 1)]
            below = [-y * (-x) ** i for i in range(bottom + 1)]
            rows.append([*above, *below[:-1], -below[-1]])
        for k in range(n):  # Gauss's elimination
            pivot = max(range(k, n), key=lambda i: abs(rows[i][k]))
            rows[k], rows[pivot] = rows[pivot], rows[k]
            rows[k] = [v / rows[k][k] for v in rows[k]]
            for i in range(n):
                if i != k:
                    rows[i] = [v - rows[i][k] * w for v, w in zip(rows[i], rows[k], strict=True)]
        found = [row[-1] for row in rows]
        factor = found[top]
        above = [float(v / factor) for v in found[:top]]
        return tuple(above[::-1]), tuple(float(v) for v in found[:top:-1]), factor


def split(value: Decimal, bits_kept: int) -> tuple[float, float]:
    """A number as one of few bits, whose products with small integers are exact, and the rest."""
    scale = 2**bits_kept
    high = float(round(value * scale)) / scale
    return high, float(value - Decimal(high))


def _cos(x: Decimal) -> Decimal:
    term = total = Decimal(1)
    n = 0
    while abs(term) > Decimal(10) ** -(getcontext().prec + 2):
        n += 2
        term = -term * x * x / (n * (n - 1))
        total += term
    return total


@cache
def _pi(digits: int = DIGITS) -> Decimal:
    with localcontext() as context:
        context.prec = digits + 10

        def arctan_inverse(n: int) -> Decimal:  # Machin's formula
            total, power, k = Decimal(0), Decimal(1) / n, 0
            while power > Decimal(10) ** -(digits + 12):
                total += power / (2 * k + 1) * (-1) ** k
                power /= n * n
                k += 1
            return total

        return 4 * (4 * arctan_inverse(5) - arctan_inverse(239))


def _series(first: Decimal, ratio: Callable[[int], Decimal]) -> Decimal:
    total, term, n = Decimal(0), first, 0
    while abs(term) > Decimal(10) ** -(getcontext().prec + 2):
        total += term
        term *= ratio(n)
        n += 1
    return total


def _exp_rest(x: Decimal) -> Decimal:
    """(exp(x) - 1 - x) / x**2"""
    return _series(Decimal(1) / 2, lambda n: x / (n + 3))


def _atanh_rest(z: Decimal) -> Decimal:
    """(atanh(s) / s - 1) / z, of z = s**2"""
    total, power, n = Decimal(0), Decimal(1), 3
    while power > Decimal(10) ** -(DIGITS + 2):
        total += power / n
        power *= z
        n += 2
        if not z:
            break
    return total


def _twice_atanh_rest(z: Decimal) -> Decimal:
    return 2 * _atanh_rest(z)


def _tanh_rest(z: Decimal) -> Decimal:
    """(tanh(x) / x - 1) / z, of z = x**2"""
    x = z.sqrt()
    e = (2 * x).exp()
    return ((e - 1) / (e + 1) / x - 1) / z


def _half_exp_rest(x: Decimal) -> Decimal:
    """((exp(2 * x) - 1) / 2 - x) / x**2"""
    return 2 * _exp_rest(2 * x)


def _erf_rest(z: Decimal) -> Decimal:
    """(erf(x) / x * sqrt(pi) / 2 - 1) / z, of z = x**2"""
    total, term, n = Decimal(0), Decimal(-1), 1
    while abs(term) > Decimal(10) ** -(DIGITS + 2):
        total += term / (2 * n + 1)
        n += 1
        term = -term * z / n
        if not z:
            break
    return total


def _erfcx(x: Decimal) -> Decimal:
    """exp(x**2) * erfc(x)"""
    with localcontext() as context:
        context.prec = DIGITS + 20 + int(x * x)  # the series cancels up to exp(x**2)
        erf = 2 / _pi(context.prec).sqrt() * x * (1 + x * x * _erf_rest_wide(x * x))
        return (x * x).exp() * (1 - erf)


def _erf_more(z: Decimal) -> Decimal:
    """erf(x) / x - 1, of z = x**2"""
    return 2 / _pi().sqrt() * (1 + z * _erf_rest(z)) - 1


def _log2_erfc(x: Decimal) -> Decimal:
    return (_erfcx(x).ln() - x * x) / LN2


def _exp2(x: Decimal) -> Decimal:
    return (x * LN2).exp()


def _erf_rest_wide(z: Decimal) -> Decimal:
    total, term, n = Decimal(0), Decimal(-1), 1
    while abs(term) > Decimal(10) ** -(getcontext().prec + 5):
        total += term / (2 * n + 1)
        n += 1
        term = -term * z / n
    return total


def _sin_rest(z: Decimal) -> Decimal:
    """(sin(x) / x - 1) / z, of z = x**2"""
    return _series(Decimal(-1) / 6, lambda n: -z / ((2 * n + 4) * (2 * n + 5)))


def _cos_rest(z: Decimal) -> Decimal:
    """(cos(x) - 1 + z / 2) / z**2, of z = x**2"""
    return _series(Decimal(1) / 24, lambda n: -z / ((2 * n + 5) * (2 * n + 6)))


LN2 = Decimal(2).ln()
HALF_LN2 = 0.3466
MAGIC = {f32: 12582912.0, f64: 6755399441055744.0}  # 1.5 * 2**23 and 2**52: adding it rounds


def degree(t: Type, single: int, double: int) -> int:
    return single if t is f32 else double


@inline
def horner(x, coefficients):
    """A polynomial by Horner's rule, highest power first."""
    y = fma(x, coefficients[0], coefficients[1])
    for c in unroll(coefficients[2:]):
        y = fma(y, x, c)
    return y


@inline
def power_of_two(n, T):
    """2**n as a T, of integers n that give normal numbers."""
    if T is f32:
        return bits((n + 127) << 23, f32)
    else:
        return bits((n + 1023) << 52, f64)


@inline
def reduced(x):
    """n and f with x = n * ln(2) + f and |f| <= ln(2) / 2; n as an integer of x's size."""
    T = typeof(x)
    t = fma(x, float(1 / LN2), MAGIC[T])
    r = t - MAGIC[T]
    high, low = split(LN2, 15 if T is f32 else 40)
    f = fma(r, -high, x)
    f = fma(r, -low, f)
    I = i32 if T is f32 else i64
    start = 0x4B400000 if T is f32 else 0x4338000000000000
    return bits(t, I) - start, f


@inline
def exp(x):
    """e**x; at most 2 ULP."""
    T = typeof(x)
    least, most = (-104.0, 89.0) if T is f32 else (-746.0, 710.0)
    c = least if x < least else x  # comparisons that are false for NaN, which comes through
    c = most if c > most else c
    n, f = reduced(c)
    p = horner(f, polynomial(_exp_rest, -HALF_LN2, HALF_LN2, degree(T, 4, 9)))
    return scaled_by_two(fma(p * f, f, f) + 1, n, T)


@inline
def scaled_by_two(y, n, T):
    """y * 2**n in two steps, so that results below the normal numbers come out right."""
    half = n >> 1
    return y * power_of_two(half, T) * power_of_two(n - half, T)


@inline
def exp2(x):
    """2**x; at most 2 ULP."""
    T = typeof(x)
    least, most = (-151.0, 129.0) if T is f32 else (-1076.0, 1025.0)
    c = least if x < least else x
    c = most if c > most else c
    t = c + MAGIC[T]
    f = (c - (t - MAGIC[T])) * float(LN2)
    I = i32 if T is f32 else i64
    n = bits(t, I) - (0x4B400000 if T is f32 else 0x4338000000000000)
    p = horner(f, polynomial(_exp_rest, -HALF_LN2, HALF_LN2, degree(T, 4, 9)))
    return scaled_by_two(fma(p * f, f, f) + 1, n, T)


@inline
def exp_normal(x, terms=0):
    """e**x where that is a normal number, |x| <= 87 (708), and NaN of NaN; at most 2 ULP. `terms`: as
    of `log_reduced`."""
    T = typeof(x)
    n, f = reduced(x)
    p = horner(f, polynomial(_exp_rest, -HALF_LN2, HALF_LN2, terms if terms else degree(T, 4, 9)))
    return fma(fma(p * f, f, f), power_of_two(n, T), power_of_two(n, T))


@inline
def exp_below(x):
    """e**x of x <= 0 and NaN; at most 2 ULP, and 0 below -87.68 (-708.74), near the least normal number."""
    return exp_normal(least_exponent(x))


@inline
def least_exponent(x):
    """x, at least where n of `reduced` is -127 (-1023): the bits of such a power of two are those of 0."""
    least = -88.2 if typeof(x) is f32 else -709.0
    return least if x < least else x


@inline
def expm1(x):
    """e**x - 1; at most 3 ULP."""
    T = typeof(x)
    exact = 2.0**-26 if T is f32 else 2.0**-55  # below it, x itself
    least, most = (-20.0, 88.8) if T is f32 else (-40.0, 709.8)
    c = least if x < least else x
    c = most if c > most else c
    n, f = reduced(c)
    p = horner(f, polynomial(_exp_rest, -HALF_LN2, HALF_LN2, degree(T, 4, 9)))
    y = fma(p * f, f, f)
    n = n - 1  # 2**128 is no number, 2 * 2**127 is
    scale = power_of_two(n, T)
    result = fma(y, scale, scale - 0.5) * 2
    infinity = float("inf")
    result = infinity if x > most else result
    return x if abs(x) < exact else result


@inline
def log_reduced(x, terms=0):
    """k and the terms of log(m), x = 2**k * m: f = m - 1, and log(m) - f, smaller than f. `terms`: the
    degree of the polynomial where not all bits are wanted."""
    T = typeof(x)
    tiny, scale, shift = (2.0**-126, 2.0**24, 24) if T is f32 else (2.0**-1022, 2.0**54, 54)
    small = x < tiny
    a = x * scale if small else x
    I = i32 if T is f32 else i64
    mantissa, root = (23, 0x3F3504F3) if T is f32 else (52, 0x3FE6A09E667F3BCD)
    raw = bits(a, I)
    e = (raw - root) >> mantissa
    m = bits(raw - (e << mantissa), T)  # in [sqrt(1/2), sqrt(2))
    f = m - 1
    s = f / (m + 1)
    z = s * s
    p = horner(z, polynomial(_atanh_rest, 0.0, 0.02945, terms if terms else degree(T, 3, 8)))
    shifted = e - shift if small else e
    # log(1 + f) = f - s * f + 2 * s * z * p: what is rounded is smaller than f.
    return T(shifted), f, fma(2 * s * z, p, -(s * f))


@inline
def log_ends(x, y):
    """y, the logarithm of x, put right where x is 0, negative, infinite or NaN."""
    infinity = float("inf")
    y = y if x > 0 else (-infinity if x == 0 else typeof(x)(float("nan")))
    return y if x < infinity else x


@inline
def log(x):
    """The natural logarithm; at most 2 ULP."""
    k, f, rest = log_reduced(x)
    high, low = split(LN2, 15 if typeof(x) is f32 else 40)
    return log_ends(x, fma(k, high, f + fma(k, low, rest)))


@inline
def log2(x):
    """The logarithm to base 2; at most 3 ULP, powers of 2 exact."""
    k, f, rest = log_reduced(x)
    high, low = split(1 / LN2, 11 if typeof(x) is f32 else 26)
    return log_ends(x, k + fma(f, high, fma(f, low, rest * float(1 / LN2))))


@inline
def log10(x):
    """The logarithm to base 10; at most 3 ULP."""
    k, f, rest = log_reduced(x)
    T = typeof(x)
    high, low = split(LN2 / Decimal(10).ln(), 15 if T is f32 else 40)
    one, more = split(1 / Decimal(10).ln(), 11 if T is f32 else 26)
    rest = fma(f, more, fma(k, low, rest * float(1 / Decimal(10).ln())))
    return log_ends(x, fma(k, high, fma(f, one, rest)))


@inline
def log1p(x):
    """log(1 + x); at most 3 ULP."""
    u = x + 1
    y = log(u) + (x - (u - 1)) / u
    y = y if u < float("inf") else u
    y = log(u) if u == 0 else y
    return x if u == 1 else y


@inline
def log1p_of_exp(x):
    """log(1 + e**x) of x <= 0 and NaN; at most 1.5 ULP, and 0 where `exp_below` is."""
    T = typeof(x)
    c = least_exponent(x)
    n, f = reduced(c)
    p = horner(f, polynomial(_exp_rest, -HALF_LN2, HALF_LN2, degree(T, 4, 9)))
    s = power_of_two(n, T)
    # log(1 + u), or log(2) + log(1 + u) where 1 + e**x is more than sqrt(2). Of u only y is rounded,
    # and only what is less than u is added to y.
    large = c > -0.8813
    half = s * 0.5 if large else s
    base = half - 0.5 if large else half
    y = fma(p * f, f, f) * half
    u = y + base
    t = u / (u + 2)
    z = t * t
    q = horner(z, polynomial(_twice_atanh_rest, 0.0, 0.02945, degree(T, 3, 8)))
    r = base + fma(t, fma(z, q, -u), y)
    return r + (float(LN2) if large else T(0))


@inline
def tanh(x):
    """The hyperbolic tangent; at most 1 ULP (f32) or 3 ULP (f64)."""
    a = abs(x)
    if typeof(x) is f32:
        z = a * a
        near = horner(z, polynomial(_tanh_rest, 0.0, 0.94, 6))
        near = fma(near * z, a, a)
        # 1 - 1 / (e**(2 * a) / 2 + 1 / 2), of a = n * ln(2) / 2 + f
        c = 10.0 if a > 10.0 else a
        t = fma(c, float(2 / LN2), MAGIC[f32])
        n = t - MAGIC[f32]
        high, low = split(LN2 / 2, 16)
        f = fma(n, -low, fma(n, -high, c))
        s = power_of_two(bits(t, i32) - 0x4B400000, f32)
        p = horner(f, polynomial(_half_exp_rest, -HALF_LN2 / 2, HALF_LN2 / 2, 4))
        far = 1 - 1 / fma(fma(p * f, f, f), s, fma(s, 0.5, 0.5))
        y = near if a < 0.95 else far
    else:
        e = expm1(2 * (22.0 if a > 22.0 else a))
        y = e / (e + 2)
    return copysign(y, x)


@inline
def sigmoid(x):
    """1 / (1 + exp(-x)); at most 3 ULP, and 0 below -88.3 (-709) as PyTorch's is a little below."""
    low, most = (-87.0, 88.3) if typeof(x) is f32 else (-708.0, 709.0)
    c = low if -x < low else -x
    c = most if c > most else c
    y = 1 / (1 + exp_normal(c))
    return 0 if x < -most else y


@inline
def erf(x):
    """The error function; at most 2 ULP (f32) or 3 ULP (f64)."""
    T = typeof(x)
    a = abs(x)
    z = x * x
    if T is f32:
        edge = 0.9
        near = fma(horner(z, polynomial(_erf_more, 0.0, edge * edge, 5)), x, x)
        c = 4.0 if a > 4.0 else a
        # erfc(c) = 2**q, and q is nearly a polynomial
        q = horner(c, polynomial(_log2_erfc, edge, 4.0, 6, 1))
        t = q + MAGIC[f32]
        f = q - (t - MAGIC[f32])
        p = horner(f, polynomial(_exp2, -0.5, 0.5, 5))
        rest = bits(bits(p, i32) + (bits(t, i32) << 23), f32)
    else:
        edge = 0.5
        near = horner(z, polynomial(_erf_rest, 0.0, edge * edge, 9))
        near = x * float(2 / _pi().sqrt()) * fma(z, near, 1)
        c = 6.0 if a > 6.0 else a
        # erfc(c) = exp(-c**2) * erfcx(c)
        top, bottom, factor = rational(_tail_of, 8.6, 7, 8, 2)
        h = c * float(-Decimal(2).sqrt())
        rest = exp_normal(-c * c) * (monic(h, top) / monic(h, bottom) * float(2 * factor))
    far = copysign(1 - rest, x)
    return far if a >= edge else near


@inline
def normal_parts(a):
    """Of a <= 0 and NaN: e, a multiple of exp(-a**2 / 2) that is -0 below -13 (-37.5), and r, for
    which e * r is the probability of a normal number below a.

    That times exp(a**2 / 2) is smooth enough for a quotient of small polynomials, whose factor is
    in e. Both begin with 1 * a, which takes an addition and no multiplication.
    """
    T = typeof(a)
    c = TAIL[T] if a < TAIL[T] else a
    z = c * c
    t = fma(z, float(-1 / (2 * LN2)), MAGIC[T])  # z = -2 * ln(2) * r + f
    r = t - MAGIC[T]
    if T is f32:
        f = fma(r, float(2 * LN2), z)
        p = exp_of_half(5, tail(T)[2])
    else:
        high, low = split(2 * LN2, 40)
        f = fma(r, low, fma(r, high, z))
        p = exp_of_half(11, tail(T)[2])
    mantissa, I = (23, i32) if T is f32 else (52, i64)
    e = bits(bits(horner(f, p), I) + (bits(t, I) << mantissa), T)
    e = -0.0 if a < TAIL[T] else e  # as the quotient, it is negative
    return e, monic(c, tail(T)[0]) / monic(c, tail(T)[1])


@inline
def normal_below(a):
    """The probability of a normal number below a <= 0; 0 below -13 (-37.5).

    The relative error is about 3e-7 + 3e-8 * a**2 (f32) or 4e-15 + 6e-17 * a**2 (f64) at most: a**2
    is rounded before it becomes an exponent.
    """
    e, r = normal_parts(a)
    return e * r


TAIL = {f32: -13.0, f64: -37.5}


@inline
def monic(x, coefficients):
    """A polynomial whose first coefficient is 1, and left out."""
    y = x + coefficients[0]
    for c in unroll(coefficients[1:]):
        y = fma(y, x, c)
    return y


@cache
def exp_of_half(degree: int, factor: Decimal) -> tuple[float, ...]:
    """A factor times exp(-x / 2) between -ln(2) and ln(2), as a polynomial."""
    ln2 = float(LN2)
    with localcontext() as context:
        context.prec = DIGITS
        return polynomial(lambda x: factor * (x / -2).exp(), -ln2, ln2, degree)


BEYOND = {f32: 10.2, f64: 27.3}  # erfc is 0 from here on


@inline
def scaled_tail(a):
    """(min(a, BEYOND), exp(a**2) * erfc(a) there) for a >= 0."""
    T = typeof(a)
    c = BEYOND[T] if a > BEYOND[T] else a
    h = c * float(-Decimal(2).sqrt())
    top, bottom, factor = wide_tail(T)
    return c, monic(h, top) / monic(h, bottom) * float(2 * factor)


@inline
def erfc(x):
    """1 - erf(x), without cancellation; at most 7 ULP."""
    T = typeof(x)
    a = abs(x)
    c, r = scaled_tail(a)
    z = c * c
    y = exp(-z) * r
    y = fma(-y, fma(c, c, -z), y)  # what was rounded off of z
    y = 2 - y if x < 0 else y
    near = horner(z, polynomial(_erf_rest, 0.0, 0.25, degree(T, 4, 9)))
    near = 1 - x * float(2 / _pi().sqrt()) * fma(z, near, 1)
    return near if a < 0.5 else y


@inline
def erfcx(x):
    """exp(x**2) * erfc(x); about 10 ULP."""
    T = typeof(x)
    most = BEYOND[T]
    a = abs(x)
    _, near = scaled_tail(a)
    r = 1 / a
    z = r * r
    far = r * float(1 / _pi().sqrt()) * horner(z, (-29.53125, 6.5625, -1.875, 0.75, -0.5, 1))
    y = far if a > most else near
    z = x * x
    e = exp(z)
    e = fma(e, fma(x, x, -z), e) if e < float("inf") else e  # what was rounded off of z
    return 2 * e - y if x < 0 else (x if x != x else y)


def wide_tail(t: Type) -> tuple[tuple[float, ...], tuple[float, ...], Decimal]:
    """As `tail`, as far as `erfc` needs it."""
    if t is f32:
        return rational(_tail_of, 14.5, 4, 5, 2)
    return rational(_tail_of, 38.7, 9, 10, 3)


def tail(t: Type) -> tuple[tuple[float, ...], tuple[float, ...], Decimal]:
    """The parts of `_tail_of` as a quotient."""
    if t is f32:
        return rational(_tail_of, -TAIL[t], 4, 5, 2)
    return rational(_tail_of, -TAIL[t], 9, 10, 3)


def _tail_of(x: Decimal) -> Decimal:
    """Phi(-x) * exp(x**2 / 2)"""
    return _erfcx(x / Decimal(2).sqrt()) / 2
