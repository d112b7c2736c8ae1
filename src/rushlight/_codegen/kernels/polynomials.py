"""Orthogonal polynomials of a degree given element by element, for vectors: recurrences of DLMF 18.9.

As in the reference, values of a high degree of Chebyshev's inside [-1, 1] are found by angles.
"""

from __future__ import annotations

from math import pi

from rushlight._codegen.kernels.special import NAN, constant, largest_lane
from rushlight._codegen.language import *
from rushlight._codegen.types import f64, i64

libm_acos, libm_sine = external("acos", f64, f64), external("sin", f64, f64)
libm_cosine = external("cos", f64, f64)
HIGH = 64.0  # degrees above it are found by angles


@inline
def highest(n):
    """The highest degree of numbers; 0 for those that are none or beyond all that is computed."""
    return largest_lane(n if n < 1e15 else 0)


@inline
def recurrence(x, n, first, STEP):
    """P_n by P_0 = 1, P_1 = `first`, P_k+1 = STEP(x, k, P_k, P_k-1)."""
    return up_to(highest(n), x, n, first, STEP)


@inline
def up_to(most, x, n, first, STEP):
    """The same where the highest degree is known."""
    p, q = constant(1.0, x), first
    r = p if n == 0 else (q if n == 1 else 0)
    for k in range(1, i64(most)):
        next = STEP(x, f64(k), q, p)
        p = q
        q = next
        r = q if n == f64(k) + 1 else r
    return r


@inline
def chebyshev_step(x, k, q, p):
    return 2 * x * q - p


@inline
def by_angle(x, m, KIND):
    """T, U, V or W by their trigonometric form [DLMF 18.5.1 to 18.5.4], of numbers."""
    t = libm_acos(x)
    half = m * 0.5
    sign = x * 0 - 1 if rint(half) != half else x * 0 + 1
    if KIND == "t":
        r = libm_cosine(m * t)
    elif KIND == "u":
        r = libm_sine((m + 1) * t) / libm_sine(t)
        r = m + 1 if t == 0 else (sign * (m + 1) if t == pi else r)
    elif KIND == "v":
        r = libm_cosine((m + 0.5) * t) / libm_cosine(t * 0.5)
        r = 1 if t == 0 else (sign * (2 * m + 1) if t == pi else r)
    else:
        r = libm_sine((m + 0.5) * t) / libm_sine(t * 0.5)
        r = 2 * m + 1 if t == 0 else (sign if t == pi else r)
    return r


@inline
def chebyshev(a, b, KIND):
    """The Chebyshev polynomials T, U, V or W."""
    x, n = f64(a), trunc(f64(b))
    if KIND == "t":
        first = x
    elif KIND == "u":
        first = 2 * x
    elif KIND == "v":
        first = 2 * x - 1
    else:
        first = 2 * x + 1
    r, top = first, largest_lane(n if n == n else 0)
    if top <= HIGH:
        r = up_to(top, x, n, first, chebyshev_step)
    else:
        high = (abs(x) <= 1) & (n > HIGH)
        r = recurrence(x, -1 if high else n, first, chebyshev_step)
        L = lanesof(x)
        if L:
            if some(high):
                at, degrees, out = array(f64, L), array(f64, L), array(f64, L)
                store(at, x)
                store(degrees, n)
                for k in range(L):
                    out[k] = by_angle(at[k], degrees[k], KIND)
                r = select(high, load(out, L), r)
        elif high:
            r = by_angle(x, n, KIND)
    return r


@inline
def chebyshev_t(a, b):
    return typeof(a)(chebyshev(a, b, "t"))


@inline
def shifted_chebyshev_t(a, b):
    return typeof(a)(chebyshev(2 * f64(a) - 1, b, "t"))


@inline
def chebyshev_u(a, b):
    return typeof(a)(chebyshev(a, b, "u"))


@inline
def shifted_chebyshev_u(a, b):
    return typeof(a)(chebyshev(2 * f64(a) - 1, b, "u"))


@inline
def chebyshev_v(a, b):
    return typeof(a)(chebyshev(a, b, "v"))


@inline
def shifted_chebyshev_v(a, b):
    return typeof(a)(chebyshev(2 * f64(a) - 1, b, "v"))


@inline
def chebyshev_w(a, b):
    return typeof(a)(chebyshev(a, b, "w"))


@inline
def shifted_chebyshev_w(a, b):
    return typeof(a)(chebyshev(2 * f64(a) - 1, b, "w"))


@inline
def hermite_step(x, k, q, p):
    return 2 * (x * q - k * p)


@inline
def probabilist_step(x, k, q, p):
    return x * q - k * p


@inline
def hermite(a, b, first, STEP):
    """Hermite polynomials; NaN for a degree whose values overflow, as PyTorch says it."""
    n = trunc(f64(b))
    odd = n > (512 if typeof(a) is f64 else 128)
    r = recurrence(f64(a), -1 if odd else n, first, STEP)
    return typeof(a)(NAN if odd else r)


@inline
def hermite_h(a, b):
    return hermite(a, b, 2 * f64(a), hermite_step)


@inline
def hermite_he(a, b):
    return hermite(a, b, f64(a), probabilist_step)


@inline
def laguerre_step(x, k, q, p):
    return ((2 * k + 1 - x) * q - k * p) / (k + 1)


@inline
def laguerre_l(a, b):
    x = f64(a)
    return typeof(a)(recurrence(x, trunc(f64(b)), 1 - x, laguerre_step))


@inline
def legendre_step(x, k, q, p):
    return ((2 * k + 1) * x * q - k * p) / (k + 1)


@inline
def legendre_p(a, b):
    x = f64(a)
    return typeof(a)(recurrence(x, trunc(f64(b)), x, legendre_step))
