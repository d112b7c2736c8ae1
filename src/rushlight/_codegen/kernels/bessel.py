"""Bessel and Airy functions for kernels, in float64 inside, as the reference computes them: Chebyshev series.

Where sines are needed the functions are for vectors, see `trigonometry.sine_and_cosine`. DLMF is https://dlmf.nist.gov.
"""

from __future__ import annotations

from math import pi

from rushlight._codegen.kernels import math, trigonometry
from rushlight._codegen.kernels.special import INFINITY, NAN
from rushlight._codegen.language import *
from rushlight._codegen.types import Type, f64, i64
from rushlight.core.special_series import series

SPLIT = 5.0


def coefficients(name: str, t: Type) -> list[float]:
    """Those of a series that matter in a type."""
    all_of = series()[name]
    if t is f64:
        return all_of
    least = 2.0**-30 * max(map(abs, all_of))
    return all_of[: max(k for k, c in enumerate(all_of) if abs(c) > least) + 1]


@inline
def chebyshev(name, low, high, u, T):
    """The Chebyshev series of a name over [low, high] at `u`, by Clenshaw's recurrence, as exact as a T needs."""
    c = coefficients(name, T)
    t = fma(u, 2 / (high - low), -(high + low) / (high - low))
    twice = 2 * t
    b0 = fma(twice, c[-1], c[-2])
    b1 = t * 0 + c[-1]
    for k in unroll(c[1:-2][::-1]):
        b0, b1 = fma(twice, b0, k - b1), b0
    return fma(t, b0, c[0] - b1)


# -- modified Bessel functions ---------------------------------------------------------------------


@inline
def scaled(y, order, T):
    """exp(-y) I(y) for y >= 0 and NaN."""
    c = 8.0 if y > 8 else y
    near = chebyshev("I0_SMALL" if order == 0 else "I1_SMALL", 0.0, 8.0, c, T)
    near = near if order == 0 else near * y
    v = y if y > 8 else 8.0
    far = chebyshev("I0_LARGE" if order == 0 else "I1_LARGE", 0.0, 0.125, 1 / v, T) / sqrt(v)
    return far if y > 8 else near


@inline
def i0(a):
    """Modified Bessel function I, order 0; NaN at infinity."""
    y = abs(f64(a))
    return typeof(a)(scaled(y, 0, typeof(a)) * math.exp(y))


@inline
def i0e(a):
    """exp(-|a|) I0(a)."""
    return typeof(a)(scaled(abs(f64(a)), 0, typeof(a)))


@inline
def i1(a):
    """Modified Bessel function I, order 1; NaN at infinity."""
    x = f64(a)
    y = abs(x)
    return typeof(a)(copysign(scaled(y, 1, typeof(a)) * math.exp(y), x))


@inline
def i1e(a):
    """exp(-|a|) I1(a)."""
    x = f64(a)
    return typeof(a)(copysign(scaled(abs(x), 1, typeof(a)), x))


@inline
def modified(x, order, times_exp, T):
    """K(x), times exp(x) if asked; infinite at 0, NaN below."""
    y = 2.0 if x > 2 else (x if x > 1e-300 else 1e-300)
    w, e = math.log(y * 0.5), math.exp(y)
    i = scaled(y, order, T) * e
    if order == 0:
        near = chebyshev("K0_SMALL", 0.0, 4.0, y * y, T) - w * i
    else:
        near = chebyshev("K1_SMALL", 0.0, 4.0, y * y, T) / y + w * i
    v = x if x > 2 else 2.0
    far = chebyshev("K0_LARGE" if order == 0 else "K1_LARGE", 0.0, 0.5, 1 / v, T) / sqrt(v)
    near = near * e if times_exp else near
    far = far if times_exp else far * math.exp(-v)
    r = far if x > 2 else near
    return INFINITY if x == 0 else (r if x >= 0 else NAN)


@inline
def k0(a):
    """Modified Bessel function K, order 0."""
    return typeof(a)(modified(f64(a), 0, False, typeof(a)))


@inline
def k1(a):
    """Modified Bessel function K, order 1."""
    return typeof(a)(modified(f64(a), 1, False, typeof(a)))


@inline
def k0e(a):
    """exp(a) K0(a)."""
    return typeof(a)(modified(f64(a), 0, True, typeof(a)))


@inline
def k1e(a):
    """exp(a) K1(a)."""
    return typeof(a)(modified(f64(a), 1, True, typeof(a)))


# -- Bessel functions ------------------------------------------------------------------------------


@inline
def oscillating(v, order, second, T):
    """J(v), or Y(v) if second, for v >= 5: amplitude and phase [DLMF 10.17.3, 10.17.4]."""
    u = 1 / (v * v)
    p = chebyshev("PHASE0_P" if order == 0 else "PHASE1_P", 0.0, 1 / SPLIT**2, u, T)
    q = chebyshev("PHASE0_Q" if order == 0 else "PHASE1_Q", 0.0, 1 / SPLIT**2, u, T) / v
    s, c = trigonometry.sine_and_cosine(v - (2 * order + 1) * pi / 4)
    r = p * s + q * c if second else p * c - q * s
    return r * sqrt(2 / (pi * v))  # NaN at infinity


@inline
def first_near(y, order, T):
    """J(y) of |y| <= 5."""
    r = chebyshev("J0_SMALL" if order == 0 else "J1_SMALL", 0.0, SPLIT**2, y * y, T)
    return r if order == 0 else r * y


@inline
def first_kind(a, order):
    """J(a)."""
    x = f64(a)
    y = abs(x)
    near = first_near(SPLIT if x > SPLIT else (-SPLIT if x < -SPLIT else x), order, typeof(a))
    far = oscillating(y if y > SPLIT else SPLIT, order, False, typeof(a))
    far = far if order == 0 else (-far if x < 0 else far)
    r = far if y > SPLIT else near
    return typeof(a)(x if x != x else r)


@inline
def j0(a):
    """Bessel function J, order 0."""
    return first_kind(a, 0)


@inline
def j1(a):
    """Bessel function J, order 1."""
    return first_kind(a, 1)


@inline
def second_kind(a):
    """Where Y(a) is in a series: 1 near 0, 2 away from it; 0 where it is infinite or NaN."""
    return (i64(2) if a > SPLIT else 1) if a > 0 else 0


@inline
def second_known(a):
    """Y(a) where it is infinite or NaN."""
    return -INFINITY if a == 0 else a + NAN


@inline
def second_near(a, order):
    """Y(a) of 0 < a <= 5."""
    x, T = f64(a), typeof(a)
    y = x if x > 1e-300 else 1e-300
    w = math.log(y) * (2 / pi)
    near = chebyshev("Y0_SMALL" if order == 0 else "Y1_SMALL", 0.0, SPLIT**2, y * y, T)
    if order == 0:
        near = near + w * first_near(y, order, T)
    else:
        near = near * y + w * first_near(y, order, T) - 2 / pi / y
    return T(near)


@inline
def y0_near(a):
    """Bessel function Y, order 0, of 0 < a <= 5."""
    return second_near(a, 0)


@inline
def y0_far(a):
    """Bessel function Y, order 0, of a > 5."""
    return typeof(a)(oscillating(f64(a), 0, True, typeof(a)))


@inline
def y1_near(a):
    """Bessel function Y, order 1, of 0 < a <= 5."""
    return second_near(a, 1)


@inline
def y1_far(a):
    """Bessel function Y, order 1, of a > 5."""
    return typeof(a)(oscillating(f64(a), 1, True, typeof(a)))


@inline
def spherical_j0(a):
    """sin(a) / a [DLMF 10.49.3]."""
    x = f64(a)
    u = x * x
    near = 1 - u / 6 * (1 - u / 20 * (1 - u / 42 * (1 - u / 72 * (1 - u / 110 * (1 - u / 156)))))
    r = near if abs(x) < 0.5 else trigonometry.sin(x) / x
    return typeof(a)(0 if abs(x) == INFINITY else r)


@inline
def airy_ai(a):
    """The Airy function Ai: a series in the middle, decay [DLMF 9.7.5], oscillation [DLMF 9.7.9]."""
    x, T = f64(a), typeof(a)
    middle = -4.0 if x < -4 else (2.0 if x > 2 else x)
    middle = chebyshev("AIRY_MIDDLE", -4.0, 2.0, middle, T)
    v = x if x > 2 else 2.0
    root = sqrt(v)
    zeta = 2 / 3 * v * root
    right = chebyshev("AIRY_DECAY", 0.0, 1 / (2 / 3 * 2**1.5), 1 / zeta, T) * math.exp(-zeta)
    right = right / (2 * pi**0.5 * sqrt(root))
    v = -x if x < -4 else 4.0
    root = sqrt(v)
    zeta = 2 / 3 * v * root
    u, top = 1 / (zeta * zeta), 1 / (2 / 3 * 8) ** 2
    f = chebyshev("AIRY_PHASE_F", 0.0, top, u, T)
    g = chebyshev("AIRY_PHASE_G", 0.0, top, u, T) / zeta
    s, c = trigonometry.sine_and_cosine(zeta + pi / 4)
    left = (s * f - c * g) / (pi**0.5 * sqrt(root))
    r = right if x > 2 else (left if x < -4 else middle)
    return typeof(a)(0 if x == INFINITY else (r if x > -INFINITY else NAN))
