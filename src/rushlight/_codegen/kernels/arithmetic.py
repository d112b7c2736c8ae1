"""Functions of one and two numbers as NumPy's ufuncs of these names define them, but those that are operators of
Python, words of the kernel language or conversions to its types."""

from __future__ import annotations

from rushlight._codegen.kernels import math
from rushlight._codegen.language import *
from rushlight._codegen.types import f32, f64


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
def square(a):
    return a * a


@inline
def reciprocal(a):
    return 1 / a


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
def hypot(a, b):
    """sqrt(a * a + b * b); of float32 in float64, else scaled by the larger one. Infinite where one is."""
    x, y = abs(a), abs(b)
    big = select(x > y, x, y)
    small = select(x > y, y, x)
    q = small / big
    r = big * sqrt(fma(q, q, 1))
    r = select(big == 0, big, select(small == big, big * 1.4142135623730951, r))
    infinity = float("inf")
    return select((x == infinity) | (y == infinity), typeof(a)(infinity), select(x != x, a, r))


@inline
def logaddexp(a, b):
    """log(exp(a) + exp(b))."""
    d = abs(a - b)
    high = select(a > b, a, b)
    return select(a == b, a + 0.6931471805599453, high + math.log1p_of_part(math.exp_below(-d)))


@inline
def logical_not(a):
    return a == 0


@inline
def logical_and(a, b):
    return (a != 0) & (b != 0)


@inline
def logical_or(a, b):
    return (a != 0) | (b != 0)


@inline
def logical_xor(a, b):
    return (a != 0) ^ (b != 0)


@inline
def negative_half(raw):
    """The bits of a number of half type with the other sign."""
    return raw ^ 0x8000


@inline
def absolute_half(raw):
    return raw & 0x7FFF


@inline
def cube(a):
    return a * a * a


@inline
def replace_nonfinite(a, nan, high, low):
    """Numbers in place of NaN, of infinity, and of minus infinity."""
    infinity = float("inf")
    b = select(a == infinity, high, select(a == -infinity, low, a))
    return select(a != a, nan, b)


@inline
def xlogy(a, b):
    """a * log(b), 0 where a is 0 and b is not NaN."""
    return select((a == 0) & (b == b), typeof(a)(0), a * math.log(b))


@inline
def isnan(a):
    return a != a


@inline
def isinf(a):
    return abs(a) == float("inf")


@inline
def isfinite(a):
    return abs(a) < float("inf")


# Division with a remainder, of float32 by float64.


@inline
def remaining(a, b):
    """|a| modulo |b| in float64, exactly; NaN where a is infinite or b zero.

    A quotient below 2**52 has the right integer part, or one too large or small where it is near an
    integer. Larger ones (float32's are below 2**278) are brought down by 50 bits a time.
    """
    x, y = f64(abs(a)), f64(abs(b))
    r = x
    q = x / y
    large = q >= 2.0**50
    if some(large) if lanesof(q) else large:
        for _ in unroll(6):
            t = trunc(r / y * (1 - 2.0**-50))
            r = fma(-t, y, r)
        q = r / y
    r = fma(-trunc(q), y, r)
    r = select(r < 0, r + y, r)
    r = select(r >= y, r - y, r)
    infinity = float("inf")
    return select((y == infinity) & (x < infinity), x, r)


@inline
def fmod(a, b):
    """The remainder with the sign of the dividend."""
    return copysign(f32(remaining(a, b)), a)


@inline
def remainder(a, b):
    """The remainder with the sign of the divisor; a zero keeps the sign of the dividend."""
    r = copysign(remaining(a, b), f64(a))
    return f32(select((r != 0) & ((r < 0) != (b < 0)), r + f64(b), r))


@inline
def floor_divide(a, b):
    """The quotient rounded down: (a - r) / b of the remainder r with the sign of a, one less where
    that is not the sign of b."""
    r = copysign(remaining(a, b), f64(a))
    x, y = f64(a), f64(b)
    q = rint((x - r) / y)
    q = select((r != 0) & ((r < 0) != (y < 0)), q - 1, q)
    q = select(q == 0, copysign(0 * q, x / y), q)
    return f32(select(y == 0, x / y, q))


@inline
def power(a, b):
    """a**b of float32, by float64: exp(b * log(|a|)), and IEEE 754's special cases. The logarithm is
    right to 2**-36, so b * log(|a|), at most 104, is to 2**-29 where it gives a number."""
    x, y = f64(abs(a)), f64(b)
    k, f, rest = math.log_reduced(x, 5)
    w = y * math.log_ends(x, fma(k, float(math.LN2), f + rest))
    w = -110 if w < -110 else w
    w = 100 if w > 100 else w
    r = f32(math.exp_normal(w, 6))
    r = select((b == 0) | (x == 1) & (b == b) | (a == 1), typeof(a)(1), r)
    half = b * 0.5
    whole = rint(b) == b
    odd = whole & (rint(half) != half)
    below = copysign(typeof(a)(1), a) < 0
    r = select(below & odd, -r, r)
    infinity = float("inf")
    return select((a < 0) & (a > -infinity) & ~whole, typeof(a)(float("nan")), r)
