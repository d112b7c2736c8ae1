"""Sine, cosine and tangent, for vectors that are looked through for arguments far from 0."""

from __future__ import annotations

from decimal import Decimal, localcontext

from rushlight._codegen.kernels import math
from rushlight._codegen.language import *
from rushlight._codegen.types import f32, f64, i32, i64


@inline
def near_zero(x):
    """The sine and cosine of r, and q: x = q * pi / 2 + r, of a float64 with |x| up to 2**30.

    The first product is subtracted exactly, pi / 2 has 160 bits.
    """
    t = fma(x, float(2 / math._pi()), math.MAGIC[f64])
    n = t - math.MAGIC[f64]
    high, middle, low = HALF_PI
    a = fma(-n, high, x)
    b = n * middle
    r = a - b
    c = r - a
    rest = (a - (r - c)) - (b + c) - fma(n, middle, -b) - n * low
    z = r * r
    s = r + fma(r * z, math.horner(z, math.polynomial(math._sin_rest, 0.0, 0.62, 6)), rest)
    half = z * 0.5
    w = 1 - half
    p = fma(z * z, math.horner(z, math.polynomial(math._cos_rest, 0.0, 0.62, 6)), -r * rest)
    return s, w + (((1 - w) - half) + p), bits(t, i64)


@inline
def near_zero_of_single(x):
    """As `near_zero`, of a float32; what is left of it is found in float64."""
    wide = f64(x)
    n = fma(wide, float(2 / math._pi()), math.MAGIC[f64]) - math.MAGIC[f64]
    high, middle, _ = HALF_PI
    r = f32(fma(-n, middle, fma(-n, high, wide)))
    z = r * r
    s = fma(r * z, math.horner(z, math.polynomial(math._sin_rest, 0.0, 0.62, 3)), r)
    c = fma(z * z, math.horner(z, math.polynomial(math._cos_rest, 0.0, 0.62, 3)), 1 - z * 0.5)
    return s, c, i32(n)


@inline
def sine_and_cosine(x):
    """Both of a number or a vector: at most 2 ULP. The C library computes of |x| above 2**30."""
    T = typeof(x)
    if T is f32:
        s, c, q = near_zero_of_single(x)
    else:
        s, c, q = near_zero(x)
    swap = (q & 1) != 0
    sine = c if swap else s
    cosine = s if swap else c
    sine = -sine if (q & 2) != 0 else sine
    cosine = -cosine if ((q + 1) & 2) != 0 else cosine
    sine = x if x == 0 else sine
    large = abs(x) > 1073741824.0
    L = lanesof(x)
    if L:
        if some(large):
            given, sines, cosines = array(T, L), array(T, L), array(T, L)
            store(given, x)
            for k in range(L):
                sines[k] = T(libm_sine(f64(given[k])))
                cosines[k] = T(libm_cosine(f64(given[k])))
            sine = select(large, load(sines, L), sine)
            cosine = select(large, load(cosines, L), cosine)
    elif large:
        sine = T(libm_sine(f64(x)))
        cosine = T(libm_cosine(f64(x)))
    return sine, cosine


def _parts(value: Decimal, count: int) -> tuple[float, ...]:
    """A number as so many float64, each the nearest one of what is left."""
    found = []
    for _ in range(count):
        found.append(float(value))
        value -= Decimal(found[-1])
    return tuple(found)


with localcontext() as _context:
    _context.prec = math.DIGITS + 10
    HALF_PI = _parts(math._pi() / 2, 3)
libm_sine, libm_cosine = external("sin", f64, f64), external("cos", f64, f64)


@inline
def sin(x):
    """The sine; see `sine_and_cosine`."""
    return sine_and_cosine(x)[0]


@inline
def cos(x):
    """The cosine; see `sine_and_cosine`."""
    return sine_and_cosine(x)[1]


@inline
def tan(x):
    """The tangent; at most 4 ULP."""
    sine, cosine = sine_and_cosine(x)
    return sine / cosine
