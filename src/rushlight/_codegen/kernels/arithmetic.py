"""Functions of one and two numbers as NumPy's ufuncs of these names define them, but those that are operators of
Python, words of the kernel language or conversions to its types."""

from __future__ import annotations

from rushlight._codegen.kernels import math, trigonometry
from rushlight._codegen.language import *
from rushlight._codegen.types import f32, f64, i8, i16, i32, i64, u8


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
def to_i8(a):
    """A number cut to 32 bits, of which the lowest stay: C++'s conversion on x86 and PyTorch's."""
    return i8(i32(a))


@inline
def to_i16(a):
    return i16(i32(a))


@inline
def to_u8(a):
    """As PyTorch's conversion, by 64 bits."""
    return u8(i64(a))


@inline
def frac(a):
    """What is behind the point."""
    return a - trunc(a)


@inline
def hypot(a, b):
    """sqrt(a * a + b * b), scaled by the larger one, within two units in the last place. Infinite where one is."""
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
    return select(a == b, a + 0.6931471805599453, high + math.log1p_of_exp(-d))


@inline
def logaddexp2(a, b):
    """log2(2**a + 2**b)."""
    d = abs(a - b) * 0.6931471805599453
    high = select(a > b, a, b)
    more = math.log1p_of_exp(-d) * 1.4426950408889634
    return select(a == b, a + 1, high + more)


@inline
def logit(a, low, high):
    """log(a / (1 - a)) of what is brought between two numbers."""
    c = low if a < low else (high if a > high else a)
    return math.log(c / (1 - c))


@inline
def logit_gradient(g, a, low, high, beyond):
    """g / (a (1 - a)) of what is between two numbers, else `beyond`."""
    return select((a >= low) & (a <= high), g / (a * (1 - a)), beyond)


@inline
def copysign_gradient(g, a, result):
    """g times the sign that `a` was given; 0 where it is 0."""
    return select(a == 0, typeof(a)(0), g * (result / a))


@inline
def sinc(a):
    """sin(pi a) / (pi a), 1 at 0."""
    p = f64(a * 3.141592653589793)
    return typeof(a)(select(a == 0, p * 0 + 1, trigonometry.sin(p) / p))


@inline
def angle(a):
    """pi below 0, else 0; NaN of NaN."""
    return select(a < 0, typeof(a)(3.141592653589793), select(a != a, a, typeof(a)(0)))


@inline
def deg2rad(a):
    return a * 0.017453292519943295


@inline
def rad2deg(a):
    return a * 57.29577951308232


@inline
def round_up(a, scale):
    """Rounded to multiples of 1 / scale."""
    return rint(a * scale) / scale


@inline
def round_down(a, scale):
    """Rounded to multiples of scale."""
    return rint(a / scale) * scale


@inline
def heaviside(a, b):
    """0 below zero, 1 above, b at zero; NaN counts as neither below nor zero."""
    T = typeof(a)
    return select(a == 0, b, select(a > 0, T(1), T(0)))


@inline
def nextafter(a, b):
    """The next number after a towards b."""
    T = typeof(a)
    I, least = (i32, 2.0**-149) if T is f32 else (i64, 2.0**-1074)
    raw = bits(a, I)
    away = (a < b) ^ (a < 0)
    moved = bits(select(away, raw + 1, raw - 1), T)
    r = select(a == 0, copysign(T(least), b), moved)
    r = select(a == b, b, r)
    return select((a != a) | (b != b), a + b, r)


@inline
def power_whole(a, b):
    """a**b of integers, which wraps around; of negative b 0, save for the bases 1 and -1."""
    T = typeof(a)
    sign = T(1) if b & T(1) == 0 else T(-1)
    r, square, left = T(1), a + T(0), b + T(0)
    while left > 0:
        if left & T(1) != 0:
            r = r * square
        square = square * square
        left = left >> T(1)
    if b < 0:
        r = T(1) if a == 1 else sign if a == T(-1) else T(0)
    return r


@inline
def left_shift(a, b):
    """a << b, 0 for a shift that is negative or no less than the number of bits."""
    T = typeof(a)
    odd = (b < 0) | (b >= 8 * T.size)
    return select(odd, T(0), a << select(odd, T(0), b))


@inline
def right_shift(a, b):
    """a >> b, filled with the sign; out of range all bits are the sign."""
    T = typeof(a)
    odd = (b < 0) | (b >= 8 * T.size)
    return a >> select(odd, T(8 * T.size - 1), b)


@inline
def clip_by(a, low, high):
    """a between two numbers, NaN where one is."""
    return minimum(maximum(a, low), high)


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
def copysign_half(raw, sign):
    """The bits of a number of half type with the sign of another one."""
    return (raw & 0x7FFF) | (sign & 0x8000)


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
    if typeof(a).is_float:
        return abs(a) == float("inf")
    else:
        return a != a


@inline
def isfinite(a):
    if typeof(a).is_float:
        return abs(a) < float("inf")
    else:
        return a == a


@inline
def isposinf(a):
    if typeof(a).is_float:
        return a == float("inf")
    else:
        return a != a


@inline
def isneginf(a):
    if typeof(a).is_float:
        return a == -float("inf")
    else:
        return a != a


# Division with a remainder, of float32 by float64.


libm_fmod = external("fmod", f64, f64, f64)


@inline
def remaining(a, b):
    """|a| modulo |b| in float64, exactly; NaN where a is infinite or b zero.

    A quotient below 2**52 has the right integer part, or one too large where it is near an integer. Larger ones are
    brought down by 50 bits a time (float32's are below 2**278), those of float64 left to the C library.
    """
    x, y = f64(abs(a)), f64(abs(b))
    r = x
    q = x / y
    large = q >= 2.0**50
    if typeof(a) is f32:
        if some(large) if lanesof(q) else large:
            for _ in unroll(6):
                t = trunc(r / y * (1 - 2.0**-50))
                r = fma(-t, y, r)
            q = r / y
    r = fma(-trunc(q), y, r)
    r = select(r < 0, r + y, r)
    r = select(r >= y, r - y, r)
    infinity = float("inf")
    r = select((y == infinity) & (x < infinity), x, r)
    L = lanesof(q)
    if typeof(a) is f64:
        if L:
            if some(large):
                over, under, out = array(f64, L), array(f64, L), array(f64, L)
                store(over, x)
                store(under, y)
                for k in range(L):
                    out[k] = libm_fmod(over[k], under[k])
                r = select(large, load(out, L), r)
        elif large:
            r = libm_fmod(x, y)
    return r


@inline
def fmod(a, b):
    """The remainder with the sign of the dividend."""
    return copysign(typeof(a)(remaining(a, b)), a)


@inline
def remainder(a, b):
    """The remainder with the sign of the divisor; a zero keeps the sign of the dividend."""
    r = copysign(remaining(a, b), f64(a))
    return typeof(a)(select((r != 0) & ((r < 0) != (b < 0)), r + f64(b), r))


@inline
def floor_divide(a, b):
    """The quotient rounded down: (a - r) / b of the remainder r with the sign of a, one less where
    that is not the sign of b."""
    r = copysign(remaining(a, b), f64(a))
    x, y = f64(a), f64(b)
    q = rint((x - r) / y)
    q = select((r != 0) & ((r < 0) != (y < 0)), q - 1, q)
    q = select(q == 0, copysign(0 * q, x / y), q)
    return typeof(a)(select(y == 0, x / y, q))


@inline
def trunc_divide(a, b):
    """The quotient rounded towards zero."""
    return trunc(a / b)


# Division of integers, b not 0. The least one by -1 is itself, as PyTorch's processors wrap it.


@inline
def quotient_of_one(a, b):
    T = typeof(a)
    return select(b == -1, T(0) - a, a // select(b == -1, T(1), b))


@inline
def quotient(a, b):
    """a / b rounded towards zero. float64 holds numbers below 2**53, whose quotients differ from an integer by
    more than it rounds; vectors with larger ones are divided one by one."""
    T, L = typeof(a), lanesof(a)
    if L:
        x, y = f64(a), f64(b)
        large = (abs(x) >= 2.0**53) | (abs(y) >= 2.0**53)
        q = T(trunc(select(large, 0 * x, x) / select(large, 0 * y + 1, y)))
        if T is i64:
            if some(large):
                over, under, out = array(T, L), array(T, L), array(T, L)
                store(over, a)
                store(under, b)
                for k in range(L):
                    out[k] = quotient_of_one(over[k], under[k])
                q = load(out, L)
    else:
        q = quotient_of_one(a, b)
    return q


@inline
def fmod_whole(a, b):
    return a - quotient(a, b) * b


@inline
def remainder_whole(a, b):
    r = fmod_whole(a, b)
    return select((r != 0) & ((r < 0) != (b < 0)), r + b, r)


@inline
def floor_divide_whole(a, b):
    q = quotient(a, b)
    r = a - q * b
    return select((r != 0) & ((r < 0) != (b < 0)), q - 1, q)


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
