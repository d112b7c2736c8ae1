"""Gamma functions, the normal distribution and relatives, for kernels; the gamma function's in float64, inside.

DLMF is https://dlmf.nist.gov. Coefficients are those of the reference; PPND7 of M. J. Wichura, Algorithm AS 241,
Applied Statistics 37 (1988), is enough for float32.
"""

from __future__ import annotations

from math import log as log_of
from math import pi

from rushlight._codegen.kernels import math
from rushlight._codegen.language import *
from rushlight._codegen.types import f32, f64, i64
from rushlight.core import special_series as of

BERNOULLI, STIRLING, PSI = of.BERNOULLI[::-1], of.STIRLING[::-1], of.PSI[::-1]
AROUND_TWO = of.AROUND_TWO[::-1]
UP = 8  # steps from where the series in 1 / x**2 are not close enough to where they are
LOW = 8.0  # below it they are taken
INFINITY = float("inf")
NAN = float("nan")


@inline
def largest_lane(x):
    """A number, or the largest lane of a vector."""
    return largest(x) if lanesof(x) else x


@inline
def constant(value, x):
    """A float64, or a vector of it as long as x is."""
    return splat(f64(value), lanesof(x)) if lanesof(x) else f64(value)


@inline
def reflected(x):
    """Of x in float64: 1 - x where x is not above 0 (the reflection of DLMF 5.5.3), else x; and pi times
    the distance of x to the nearest integer."""
    return 1 - x if x <= 0 else x, (x - rint(x)) * pi


@inline
def sine(y):
    """sin(y), |y| <= pi / 2."""
    z = y * y
    return fma(y * z, math.horner(z, math.polynomial(math._sin_rest, 0.0, 2.47, 7)), y)


@inline
def log_gamma(v, T):
    """log(gamma(v)), v > 0 and NaN: by the series around 2, to whose interval products lead, or Stirling's; as
    exact as a T needs."""
    n = floor(v - 1.5)
    product = v * 0 + 1
    for k in unroll(range(1, 9)):
        product = product * (v - k if n >= k else 1)
    low, big = n < 0, v >= 10
    product = (v * (v + 1) if n < -1 else v) if low else product
    log = math.log(v if big else product)
    z = v - n - 2
    near = math.horner(z, AROUND_TWO if T is f64 else AROUND_TWO[-16:])
    r = 1 / v
    far = fma(v - 0.5, log, of.HALF_LOG_TAU - v) + r * math.horner(r * r, STIRLING)
    return far if big else (near - log if low else near + log)


@inline
def lgamma(a):
    """log |gamma(a)|; infinite at 0, -1, -2, ..."""
    x = f64(a)
    v, y = reflected(x)
    size = log_gamma(v, typeof(a))
    result = -math.log(abs(sine(y)) * (1 / pi)) - size if x <= 0 else size
    whole = ((x <= 0) & (y == 0)) | (abs(x) == INFINITY)
    return typeof(a)(INFINITY if whole else result)


@inline
def mvlgamma(a, p):
    """log of the gamma function of p dimensions [DLMF 35.3.4]."""
    x, d = f64(a), f64(p)
    r = lgamma(x) + d * (d - 1) * (log_of(pi) / 4)
    for i in range(1, i64(p)):
        r = r + lgamma(x - f64(i) * 0.5)
    return typeof(a)(r)


@inline
def digamma(a):
    """The derivative of lgamma; NaN at -1, -2, ..., infinite at 0."""
    x = f64(a)
    v, y = reflected(x)
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
    below = NAN if y == 0 else size - pi * cosine / sine(y)
    below = NAN if x == -INFINITY else below
    result = below if x < 0 else size
    result = INFINITY if x == INFINITY else result
    return typeof(a)(-1 / x if x == 0 else result)


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
    size = r + 0.5 * z + math.horner(z, BERNOULLI) * z * r + (top / bottom if low else 0)
    s = pi / sine((x - rint(x)) * pi)
    return typeof(a)(s * s - size if below else size)


@inline
def power_below(a, x, log, ABOVE):
    """a**-x in float64, given log |a|; NaN of negative a unless x is an integer. ABOVE: a is above 0."""
    y = math.exp(0 if log == 0 else -x * log)  # 1 to the power of infinity is 1
    half = x * 0.5
    odd = rint(half) != half
    signed = (NAN if rint(x) != x else (-y if odd else y)) if a < 0 else y
    return y if ABOVE else signed


@inline
def hurwitz(x, q, ABOVE=False):
    """The sum of (k + q)**-x over k >= 0, by Euler-Maclaurin summation of all but nine [DLMF 25.11.28]. ABOVE: q is
    above 0."""
    a, s = q, q * 0
    count = 9 if ABOVE else (ceil(9 - q) if (q < 0) & (q > -100000) else 9)
    for k in range(9 if ABOVE else i64(largest_lane(count))):
        on = q > 0 if ABOVE else f64(k) < count
        s = s + (power_below(a, x, math.log(abs(a)), ABOVE) if on else 0)
        a = a + 1 if on else a
    b = power_below(a, x, math.log(abs(a)), ABOVE)
    s = s + b * a / (x - 1) + 0.5 * b
    term, w = x * b / a, 1 / (a * a)
    for j in unroll(range(len(EULER_MACLAURIN))):
        add = term * EULER_MACLAURIN[j]
        s = s + (add if abs(add) < INFINITY else 0)
        term = term * (x + (2 * j + 1)) * (x + (2 * j + 2)) * w
    return s


def _factorial(n: int) -> int:
    return 1 if n < 2 else n * _factorial(n - 1)


EULER_MACLAURIN = tuple(
    b / _factorial(2 * j) for j, b in enumerate((*of.BERNOULLI, 43867 / 798, -174611 / 330), 1)
)


@inline
def zeta_kind(a, b):
    """0 where zeta is infinite or NaN, 1 where b is above 0, 2 where it is below."""
    x, q = f64(a), f64(b)
    summed = (x > 1) & ((q > 0) | ((floor(q) != q) & (floor(x) == x)))
    return (1 if q > 0 else i64(2)) if summed else 0


@inline
def zeta_known(a, b):
    """The Hurwitz zeta function where it is infinite or NaN: infinite at a = 1, NaN below."""
    whole = (b <= 0) & (floor(b) == b)
    return INFINITY if (a == 1) | whole & ~(a < 1) else a + NAN


@inline
def zeta_above(a, b):
    """The Hurwitz zeta function of a and b, b above 0."""
    return typeof(a)(hurwitz(f64(a), f64(b), True))


@inline
def zeta_below(a, b):
    """The Hurwitz zeta function of a and b, b below 0."""
    return typeof(a)(hurwitz(f64(a), f64(b)))


@inline
def polygamma(a, n, factor):
    """`factor` * zeta(n + 1, a): the derivative number n of digamma, n >= 1, with (-1)**(n + 1) * n! as factor."""
    q = f64(a)
    r = hurwitz(f64(n) + 1 + q * 0, q)
    r = INFINITY if (q <= 0) & (floor(q) == q) else r
    return typeof(a)(r * f64(factor))


# -- normal distribution ---------------------------------------------------------------------------

# Numerators and denominators, the highest power first.
CENTRE = {
    f32: (
        (59.109374720, 159.29113202, 50.434271938, 3.3871327179),
        (67.187563600, 78.757757664, 17.895169469, 1.0),
    ),
    f64: (of.CENTRE_P[::-1], of.CENTRE_Q[::-1]),
}
TAIL = {
    f32: (
        (0.17023821103, 1.3067284816, 2.7568153900, 1.4234372777),
        (0.0, 0.12021132975, 0.73700164250, 1.0),
    ),
    f64: (of.TAIL_P[::-1], of.TAIL_Q[::-1]),
}
END = {
    f32: (
        (0.017337203997, 0.42868294337, 3.0812263860, 6.6579051150),
        (0.0, 0.012258202635, 0.24197894225, 1.0),
    ),
    f64: (of.END_P[::-1], of.END_Q[::-1]),
}


@inline
def horner_of(x, near, c, d):
    """A polynomial with the coefficients c where `near`, else with d."""
    y = select(near, x * 0 + c[0], x * 0 + d[0])
    for k in unroll(range(1, len(c))):
        y = fma(y, x, select(near, x * 0 + c[k], x * 0 + d[k]))
    return y


@inline
def quantile(q, tail, KIND=0):
    """The normal quantile of p, from q = p - 1/2 and tail = min(p, 1 - p). KIND: 1 in the centre, where
    |q| <= 0.425, 2 outside of it, 0 where it is not known."""
    T = typeof(q)
    w = 0.180625 - q * q
    inner = q * math.horner(w, CENTRE[T][0]) / math.horner(w, CENTRE[T][1])
    s = sqrt(-math.log(tail))
    near = s <= 5
    t = s - 1.6 if near else s - 5
    size = horner_of(t, near, TAIL[T][0], END[T][0]) / horner_of(t, near, TAIL[T][1], END[T][1])
    size = INFINITY if s == INFINITY else size
    outer = -size if q < 0 else size
    either = inner if abs(q) <= 0.425 else outer
    return inner if KIND == 1 else (outer if KIND == 2 else either)


@inline
def ndtri(p, KIND=0):
    """The inverse of ndtr; NaN outside [0, 1]."""
    return quantile(p - 0.5, 1 - p if p > 0.5 else p, KIND)


@inline
def ndtri_kind(p):
    """0 where ndtri is infinite or NaN, else the KIND of `quantile`."""
    return (1 if abs(p - 0.5) <= 0.425 else i64(2)) if (p > 0) & (p < 1) else 0


@inline
def ndtri_known(p):
    """ndtri where it is infinite or NaN."""
    return INFINITY if p == 1 else (-INFINITY if p == 0 else p + NAN)


@inline
def ndtri_centre(p):
    """ndtri of p around 1/2."""
    return ndtri(p, 1)


@inline
def ndtri_ends(p):
    """ndtri of p near 0 or 1."""
    return ndtri(p, 2)


@inline
def erfinv(a, KIND=0):
    """The inverse of erf; NaN outside [-1, 1]."""
    return quantile(a * 0.5, (1 - abs(a)) * 0.5, KIND) * 0.7071067811865476


@inline
def erfinv_kind(a):
    """0 where erfinv is infinite or NaN, else the KIND of `quantile`."""
    return (1 if abs(a) <= 0.85 else i64(2)) if abs(a) < 1 else 0


@inline
def erfinv_known(a):
    """erfinv where it is infinite or NaN."""
    return INFINITY if a == 1 else (-INFINITY if a == -1 else a + NAN)


@inline
def erfinv_centre(a):
    """erfinv of a around 0."""
    return erfinv(a, 1)


@inline
def erfinv_ends(a):
    """erfinv of a near -1 or 1."""
    return erfinv(a, 2)


@inline
def ndtr(a):
    """The normal distribution function."""
    below = math.normal_below(-abs(a))
    return 1 - below if a > 0 else below


@inline
def log_ndtr(a):
    """log(ndtr(a)), also where ndtr(a) is too small to be a number."""
    below = math.normal_below(-abs(a))
    t = abs(a) * 0.7071067811865476
    left = math.log(math.erfcx(t) * 0.5) - t * t
    return math.log1p(-below) if a > 0 else (math.log(below) if a > -1 else left)


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
