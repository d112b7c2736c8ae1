"""Special functions on NumPy arrays: error functions, Bessel, Airy.

All are computed in float64 (float16, bfloat16 and float32 are rounded once at the end). The Chebyshev
series of data/special_functions.json are evaluated by Clenshaw's recurrence [Clenshaw 1955];
scripts/special_tables.py writes them and says what each is of. DLMF is https://dlmf.nist.gov.
"""

from __future__ import annotations

import math
from functools import wraps
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core.dtype_sets import F32, F64
from rushlight.core.special_series import (
    CENTRE_P,
    CENTRE_Q,
    END_P,
    END_Q,
    TAIL_P,
    TAIL_Q,
    series,
)  # fmt: skip

if TYPE_CHECKING:
    from collections.abc import Callable

KERNELS = (
    "airy_ai entr erf erfc erfcx erfinv i0 i0e i1 i1e j0 j1 k0 k0e k1 k1e log_ndtr ndtr ndtri "
    "spherical_j0 y0 y1"
).split()

BLOCK = 1 << 14  # elements: the passes over a block stay in the cache


def special(kernel: Callable) -> Callable:
    """A formula on float64 arrays as a kernel: blocks, dtypes, 0-d arrays, no warnings."""

    @wraps(kernel)
    @np.errstate(all="ignore")
    def computed(*arrays: Any) -> Any:
        first = arrays[0]
        # An ordinary kernel says which strides the result has.
        result = np.empty_like(np.not_equal(first, arrays[-1]), first.dtype)
        order = sorted(range(result.ndim), key=lambda d: -result.strides[d])
        flat = result.transpose(order).reshape(-1)  # a view: `order` makes it row-major
        sources = [np.broadcast_to(a, result.shape).transpose(order).reshape(-1) for a in arrays]
        for at in range(0, flat.size, BLOCK):
            part = slice(at, at + BLOCK)
            flat[part] = kernel(*[s[part].astype(F64) for s in sources])
        return result

    return computed


def chebyshev(name: str, low: float, high: float, u: Any) -> Any:
    """The Chebyshev series of a name over [low, high] at `u`."""
    c = series()[name]
    t = (2 * u - (high + low)) / (high - low)
    twice = 2 * t
    b0 = np.full_like(t, c[-1])
    b1 = np.zeros_like(t)
    for k in reversed(c[1:-1]):
        b0, b1 = twice * b0 - b1 + k, b0
    return t * b0 - b1 + c[0]


def polynomial(c: tuple, x: Any) -> Any:
    """c[0] + c[1] x + ... by Horner's rule."""
    r = np.full_like(x, c[-1])
    for k in reversed(c[:-1]):
        r *= x
        r += k
    return r


# -- error functions -------------------------------------------------------------------------------

# W. J. Cody, "Rational Chebyshev approximations for the error function", Math. Comp. 23 (1969):
# erfc(x) exp(x^2) over [0.46875, 4], and beyond 4.
MIDDLE_P = (
    1.23033935479799725e03, 2.05107837782607147e03, 1.71204761263407058e03, 8.81952221241769090e02,
    2.98635138197400131e02, 6.61191906371416295e01, 8.88314979438837594e00, 5.64188496988670089e-1,
    2.15311535474403846e-8,
)  # fmt: skip
MIDDLE_Q = (
    1.23033935480374942e03, 3.43936767414372164e03, 4.36261909014324716e03, 3.29079923573345963e03,
    1.62138957456669019e03, 5.37181101862009858e02, 1.17693950891312499e02, 1.57449261107098347e01,
    1.0,
)  # fmt: skip
FAR_P = (
    6.58749161529837803e-4, 1.60837851487422766e-2, 1.25781726111229246e-1, 3.60344899949804439e-1,
    3.05326634961232344e-1, 1.63153871373020978e-2,
)  # fmt: skip
FAR_Q = (
    2.33520497626869185e-3, 6.05183413124413191e-2, 5.27905102951428412e-1, 1.87295284992346725e00,
    2.56852019228982242e00, 1.0,
)  # fmt: skip
SQRT_PI = math.sqrt(math.pi)


def scaled_tail(y: Any) -> Any:
    """exp(y^2) erfc(y) for y >= 0.46875."""
    near = polynomial(MIDDLE_P, np.minimum(y, 4.0)) / polynomial(MIDDLE_Q, np.minimum(y, 4.0))
    if not (y > 4).any():
        return near
    z = 1 / np.square(np.maximum(y, 4.0))
    far = (1 / SQRT_PI - z * polynomial(FAR_P, z) / polynomial(FAR_Q, z)) / np.maximum(y, 4.0)
    return np.where(y > 4, far, near)


def exp_square(y: Any, sign: float) -> Any:
    """exp(sign * y^2) with the rounding error of the square taken out (Cody's splitting)."""
    coarse = np.trunc(y * 16) / 16
    return np.exp(sign * coarse * coarse) * np.exp(sign * (y - coarse) * (y + coarse))


def erf_near_zero(x: Any) -> Any:
    return x * chebyshev("ERF_SMALL", 0.0, 4.0, np.minimum(x * x, 4.0))


@special
def erf_of_many(x: Any) -> Any:
    """The error function."""
    y = np.abs(x)
    r = erf_near_zero(x)
    far = y > 0.5
    if far.any():
        v = y[far]
        r[far] = np.copysign(1 - exp_square(np.minimum(v, 30), -1) * scaled_tail(v), x[far])
    r[np.isnan(x)] = np.nan
    return r


def erf(a: Any) -> Any:
    """The error function; of a few elements the C library's, where the result is rounded to float32."""
    if a.size > 32 or a.dtype is not F32 or not a.flags.c_contiguous:
        return erf_of_many(a)
    return np.fromiter(map(math.erf, a.ravel().tolist()), F32, a.size).reshape(a.shape)


@special
def erfc(x: Any) -> Any:
    """1 - erf(x), without cancellation."""
    y = np.abs(x)
    r = 1 - erf_near_zero(x)
    far = y > 0.5
    if far.any():
        v = y[far]
        tail = exp_square(np.minimum(v, 30), -1) * scaled_tail(v)
        r[far] = np.where(x[far] < 0, 2 - tail, tail)
    r[np.isnan(x)] = np.nan
    return r


@special
def erfcx(x: Any) -> Any:
    """exp(x^2) erfc(x)."""
    y = np.abs(x)
    r = np.exp(x * x) * (1 - erf_near_zero(x))
    far = y > 0.5
    if far.any():
        v = y[far]
        tail = scaled_tail(v)
        r[far] = np.where(x[far] < 0, 2 * exp_square(v, 1) - tail, tail)
    r[np.isneginf(x)] = np.inf
    r[np.isposinf(x)] = 0
    r[np.isnan(x)] = np.nan
    return r


def normal_quantile(q: Any, tail: Any) -> Any:
    """The normal quantile of p, from q = p - 1/2 and tail = min(p, 1 - p)."""
    w = 0.180625 - q * q
    r = q * polynomial(CENTRE_P, w) / polynomial(CENTRE_Q, w)
    out = np.abs(q) > 0.425
    if out.any():
        s = np.sqrt(-np.log(tail[out]))
        near, far = s - 1.6, s - 5
        size = np.where(
            s <= 5,
            polynomial(TAIL_P, near) / polynomial(TAIL_Q, near),
            polynomial(END_P, far) / polynomial(END_Q, far),
        )
        size = np.where(np.isinf(s), np.inf, size)
        r[out] = np.copysign(size, q[out])
    return r


@special
def erfinv(x: Any) -> Any:
    """The inverse of erf; NaN outside [-1, 1]."""
    return normal_quantile(x / 2, (1 - np.abs(x)) / 2) / math.sqrt(2)


@special
def ndtri(p: Any) -> Any:
    """The inverse of ndtr; NaN outside [0, 1]."""
    return normal_quantile(p - 0.5, np.minimum(p, 1 - p))


@special
def ndtr(x: Any) -> Any:
    """The normal distribution function."""
    return 0.5 * erfc(x * -math.sqrt(0.5))


@special
def log_ndtr(x: Any) -> Any:
    """log(ndtr(x)), also where ndtr(x) is too small to be a number."""
    t = x * math.sqrt(0.5)
    left = np.log(erfcx(np.maximum(-t, 0)) / 2) - t * t
    return np.where(x < -1, left, np.log1p(-erfc(t) / 2))


# -- modified Bessel functions ---------------------------------------------------------------------


def bessel_i_scaled(y: Any, order: int) -> Any:
    """exp(-y) I(y) for y >= 0."""
    r = chebyshev(f"I{order}_SMALL", 0.0, 8.0, np.minimum(y, 8.0))
    if order == 1:
        r = r * y
    far = y > 8
    if far.any():
        v = y[far]
        r[far] = chebyshev(f"I{order}_LARGE", 0.0, 0.125, 1 / v) / np.sqrt(v)
    return np.where(np.isnan(y), np.nan, r)


@special
def i0(x: Any) -> Any:
    """Modified Bessel function I, order 0."""
    y = np.abs(x)
    return bessel_i_scaled(y, 0) * np.exp(y)  # NaN at infinity, as PyTorch's


@special
def i0e(x: Any) -> Any:
    """exp(-|a|) I0(a)."""
    return bessel_i_scaled(np.abs(x), 0)


@special
def i1(x: Any) -> Any:
    """Modified Bessel function I, order 1."""
    y = np.abs(x)
    return np.copysign(bessel_i_scaled(y, 1) * np.exp(y), x)


@special
def i1e(x: Any) -> Any:
    """exp(-|a|) I1(a)."""
    return np.copysign(bessel_i_scaled(np.abs(x), 1), x)


def bessel_k(x: Any, order: int, scaled: bool) -> Any:
    """K(x), times exp(x) if scaled; infinite at 0, NaN below."""
    y = np.clip(x, 1e-300, 2.0)
    w = np.log(y / 2)
    i = bessel_i_scaled(y, order) * np.exp(y)
    if order == 0:
        r = chebyshev("K0_SMALL", 0.0, 4.0, y * y) - w * i
    else:
        r = chebyshev("K1_SMALL", 0.0, 4.0, y * y) / y + w * i
    if scaled:
        r = r * np.exp(y)
    far = x > 2
    if far.any():
        v = x[far]
        tail = chebyshev(f"K{order}_LARGE", 0.0, 0.5, 1 / v) / np.sqrt(v)
        r[far] = tail if scaled else tail * np.exp(-v)
    r[x == 0] = np.inf
    r[~(x >= 0)] = np.nan
    return r


@special
def k0(x: Any) -> Any:
    """Modified Bessel function K, order 0."""
    return bessel_k(x, 0, False)


@special
def k1(x: Any) -> Any:
    """Modified Bessel function K, order 1."""
    return bessel_k(x, 1, False)


@special
def k0e(x: Any) -> Any:
    """exp(a) K0(a)."""
    return bessel_k(x, 0, True)


@special
def k1e(x: Any) -> Any:
    """exp(a) K1(a)."""
    return bessel_k(x, 1, True)


# -- Bessel functions ------------------------------------------------------------------------------

SPLIT = 5.0


def oscillating(v: Any, order: int, second: bool) -> Any:
    """J(v), or Y(v) if second, for v >= 5: amplitude and phase [DLMF 10.17.3, 10.17.4]."""
    u = 1 / (v * v)
    a, b = (chebyshev(f"PHASE{order}_{part}", 0.0, 1 / SPLIT**2, u) for part in "PQ")
    b = b / v
    c = v - (2 * order + 1) * math.pi / 4
    r = a * np.sin(c) + b * np.cos(c) if second else a * np.cos(c) - b * np.sin(c)
    return r * np.sqrt(2 / (math.pi * v))


def bessel_j(x: Any, order: int) -> Any:
    y = np.abs(x)
    u = np.square(np.minimum(y, SPLIT))
    r = chebyshev(f"J{order}_SMALL", 0.0, SPLIT**2, u)
    if order == 1:
        r = r * x
    far = y > SPLIT
    if far.any():
        v = oscillating(y[far], order, False)
        r[far] = v if order == 0 else np.where(x[far] < 0, -v, v)
    r[np.isnan(x)] = np.nan
    return r


@special
def j0(x: Any) -> Any:
    """Bessel function J, order 0."""
    return bessel_j(x, 0)


@special
def j1(x: Any) -> Any:
    """Bessel function J, order 1."""
    return bessel_j(x, 1)


def bessel_y(x: Any, order: int) -> Any:
    """Y(x); -infinite at 0, NaN below."""
    y = np.clip(x, 1e-300, SPLIT)
    u, w = y * y, np.log(y) * (2 / math.pi)
    if order == 0:
        r = chebyshev("Y0_SMALL", 0.0, SPLIT**2, u) + w * bessel_j(y, 0)
    else:
        r = chebyshev("Y1_SMALL", 0.0, SPLIT**2, u) * y + w * bessel_j(y, 1) - 2 / math.pi / y
    far = x > SPLIT
    if far.any():
        r[far] = oscillating(x[far], order, True)
    r[x == 0] = -np.inf
    r[~(x >= 0)] = np.nan
    return r


@special
def y0(x: Any) -> Any:
    """Bessel function Y, order 0."""
    return bessel_y(x, 0)


@special
def y1(x: Any) -> Any:
    """Bessel function Y, order 1."""
    return bessel_y(x, 1)


@special
def spherical_j0(x: Any) -> Any:
    """sin(x) / x [DLMF 10.49.3]."""
    u = x * x
    near = 1 - u / 6 * (1 - u / 20 * (1 - u / 42 * (1 - u / 72 * (1 - u / 110 * (1 - u / 156)))))
    r = np.where(np.abs(x) < 0.5, near, np.sin(x) / x)
    return np.where(np.isinf(x), 0.0, r)


@special
def airy_ai(x: Any) -> Any:
    """The Airy function Ai: a series in the middle, decay [DLMF 9.7.5], oscillation [DLMF 9.7.9]."""
    r = chebyshev("AIRY_MIDDLE", -4.0, 2.0, np.clip(x, -4.0, 2.0))
    right = x > 2
    if right.any():
        v = x[right]
        zeta = 2 / 3 * v * np.sqrt(v)
        top = 1 / (2 / 3 * 2**1.5)
        r[right] = (
            chebyshev("AIRY_DECAY", 0.0, top, 1 / zeta)
            * np.exp(-zeta)
            / (2 * SQRT_PI * np.sqrt(np.sqrt(v)))
        )
        r[np.isposinf(x)] = 0
    left = x < -4
    if left.any():
        v = -x[left]
        zeta = 2 / 3 * v * np.sqrt(v)
        u, top = 1 / (zeta * zeta), 1 / (2 / 3 * 8) ** 2
        f = chebyshev("AIRY_PHASE_F", 0.0, top, u)
        g = chebyshev("AIRY_PHASE_G", 0.0, top, u) / zeta
        s = zeta + math.pi / 4
        r[left] = (np.sin(s) * f - np.cos(s) * g) / (SQRT_PI * np.sqrt(np.sqrt(v)))
    r[np.isnan(x) | np.isneginf(x)] = np.nan
    return r


@special
def entr(x: Any) -> Any:
    """-x log(x), 0 at 0, -inf below."""
    return np.where(x > 0, -x * np.log(x), np.where(x == 0, 0.0, np.where(x < 0, -np.inf, x)))
