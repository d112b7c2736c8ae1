"""Special functions of float32 and half types, for kernels: the gamma function's in float64, inside.

DLMF is https://dlmf.nist.gov. The normal quantile is M. J. Wichura's (Algorithm AS 241, Applied Statistics 37,
1988), PPND7.
"""

from __future__ import annotations

from math import log as log_of
from math import pi

from rushlight._codegen.kernels import math
from rushlight._codegen.language import *
from rushlight._codegen.types import f32, f64

# B2, B4, ...
BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
# By powers of 1 / x**2, the highest first [DLMF 5.11.1, 5.11.2].
STIRLING = tuple(b / (2 * k * (2 * k - 1)) for k, b in enumerate(BERNOULLI, 1))[::-1]
PSI = tuple(b / (2 * k) for k, b in enumerate(BERNOULLI, 1))[::-1]
UP = 6  # steps from where the series are not close enough to where they are
LOW = 8.0  # below it they are taken
HALF_LOG_TAU = 0.5 * log_of(2 * pi)
INFINITY = float("inf")


@inline
def turned(x):
    """Of x in float64: 1 - x where x is not above 0 (the reflection of DLMF 5.5.3), else x; and pi times
    the distance of x to the nearest integer."""
    return 1 - x if x <= 0 else x, (x - rint(x)) * pi


@inline
def sine(y):
    """sin(y), |y| <= pi / 2."""
    z = y * y
    return fma(y * z, math.horner(z, math.polynomial(math._sin_rest, 0.0, 2.47, 7)), y)


@inline
def lgamma(a):
    """log |gamma(a)|; infinite at 0, -1, -2, ..."""
    x = f64(a)
    v, y = turned(x)
    product = v
    for k in unroll(range(1, UP)):
        product = product * (v + k)
    low = v < LOW
    w = v + UP if low else v
    product = product if low else 1
    r = 1 / w
    size = fma(w - 0.5, math.log(w), HALF_LOG_TAU - w) + r * math.horner(r * r, STIRLING)
    s = abs(sine(y))
    negative = x <= 0
    result = math.log((product * pi if negative else product) / (s if negative else 1))
    result = result - size if negative else size - result
    whole = (negative & (y == 0)) | (abs(x) == INFINITY)
    return f32(INFINITY if whole else (0 if (x == 1) | (x == 2) else result))


@inline
def digamma(a):
    """The derivative of lgamma; NaN at -1, -2, ..., infinite at 0."""
    x = f64(a)
    v, y = turned(x)
    top, bottom = v * 0 + 1, v  # the sum of 1 / (v + k), as one quotient
    for k in unroll(range(1, UP)):
        top, bottom = fma(top, v + k, bottom), bottom * (v + k)
    low = v < LOW
    w = v + UP if low else v
    r = 1 / w
    z = r * r
    size = math.log(w) - (0.5 * r + z * math.horner(z, PSI)) - (top / bottom if low else 0)
    z = y * y
    cosine = fma(z * z, math.horner(z, math.polynomial(math._cos_rest, 0.0, 2.47, 7)), 1 - z * 0.5)
    nan = float("nan")
    below = nan if y == 0 else size - pi * cosine / sine(y)
    below = nan if x == -INFINITY else below
    result = below if x < 0 else size
    result = INFINITY if x == INFINITY else result
    return f32(-1 / x if x == 0 else result)


@inline
def trigamma(a):
    """The derivative of digamma [DLMF 5.15.6, 5.15.8]."""
    x = f64(a)
    below = x < 0.5
    v = 1 - x if below else x
    low = v < LOW
    top, bottom = v * 0 + 1, v * v  # the sum of 1 / (v + k)**2
    for k in unroll(range(1, UP)):
        u = (v + k) * (v + k)
        top, bottom = fma(top, u, bottom), bottom * u
    w = v + UP if low else v
    r = 1 / w
    z = r * r
    size = r + 0.5 * z + math.horner(z, BERNOULLI[::-1]) * z * r + (top / bottom if low else 0)
    s = pi / sine((x - rint(x)) * pi)
    return f32(s * s - size if below else size)


# -- normal distribution ---------------------------------------------------------------------------

# Numerators and denominators, the highest power first.
CENTRE = (
    (59.109374720, 159.29113202, 50.434271938, 3.3871327179),
    (67.187563600, 78.757757664, 17.895169469, 1.0),
)
TAIL = (
    (0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777),
    (0.0, 0.12021132975, 0.73700164250, 1.0),
)
END = (
    (0.017337203997, 0.42868294337, 3.0812263860, 6.6579051150),
    (0.0, 0.012258202635, 0.24197894225, 1.0),
)


@inline
def cubic(x, near, c, d):
    """A polynomial with the coefficients c where `near`, else with d."""
    y = select(near, x * 0 + c[0], x * 0 + d[0])
    for k in unroll(range(1, 4)):
        y = fma(y, x, select(near, x * 0 + c[k], x * 0 + d[k]))
    return y


@inline
def quantile(q, tail):
    """The normal quantile of p, from q = p - 1/2 and tail = min(p, 1 - p)."""
    w = 0.180625 - q * q
    inner = q * math.horner(w, CENTRE[0]) / math.horner(w, CENTRE[1])
    s = sqrt(-math.log(tail))
    near = s <= 5
    t = s - 1.6 if near else s - 5
    size = cubic(t, near, TAIL[0], END[0]) / cubic(t, near, TAIL[1], END[1])
    size = INFINITY if s == INFINITY else size
    return inner if abs(q) <= 0.425 else (-size if q < 0 else size)


@inline
def ndtri(p):
    """The inverse of ndtr; NaN outside [0, 1]."""
    return quantile(p - 0.5, 1 - p if p > 0.5 else p)


@inline
def erfinv(a):
    """The inverse of erf; NaN outside [-1, 1]."""
    return quantile(a * 0.5, (1 - abs(a)) * 0.5) * 0.7071067811865476


@inline
def ndtr(a):
    """The normal distribution function."""
    below = math.normal_below(-abs(a))
    return 1 - below if a > 0 else below


# -- with logarithms -------------------------------------------------------------------------------


@inline
def entropy(a):
    """-a log(a), 0 at 0, -inf below."""
    T = typeof(a)
    rest = select(a == 0, T(0), select(a < 0, T(-INFINITY), a))
    return select(a > 0, -a * math.log(a), rest)


@inline
def xlog1py(a, b):
    """a * log(1 + b), 0 where a is 0 and b is not NaN."""
    return select((a == 0) & (b == b), typeof(a)(0), a * math.log1p(b))
