"""The gamma function and its relatives on NumPy arrays, in float64."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from rushlight._backends.reference.special import polynomial, special
from rushlight.core.special_series import AROUND_TWO, BERNOULLI, HALF_LOG_TAU, PSI, STIRLING

KERNELS = "digamma gammainc gammaincc lgamma mvlgamma polygamma xlog1py xlogy zeta".split()


def log_gamma_positive(x: Any) -> Any:
    """log gamma(x) for x > 0."""
    r = np.empty_like(x)
    big = x >= 10
    if big.any():
        v = x[big]
        r[big] = (v - 0.5) * np.log(v) - v + HALF_LOG_TAU + polynomial(STIRLING, 1 / (v * v)) / v
    rest = ~big
    if rest.any():
        v = x[rest]
        # shifted into [1.5, 2.5] by gamma(x + 1) = x gamma(x); the factor's logarithm is added
        n = np.floor(v - 1.5)
        factor = np.ones_like(v)
        for k in range(1, 9):
            factor *= np.where(n >= k, v - k, 1.0)
        z = v - n - 2
        shifted = polynomial(AROUND_TWO, z)
        # below 1.5: gamma(x) = gamma(x + 1) / x, exact near 1, where the logarithm is that of 1 + z
        low = np.where(v < 0.5, np.log(v) + np.log1p(v), np.log1p(np.where(v < 0.5, v, v - 1)))
        r[rest] = np.where(n >= 0, shifted + np.log(factor), shifted - low)
    return r


@special
def lgamma(x: Any) -> Any:
    """log |gamma(x)|; infinite at 0, -1, -2, ..."""
    r = np.empty_like(x)
    plus = x > 0
    r[plus] = log_gamma_positive(x[plus])
    rest = ~plus
    if rest.any():
        v = x[rest]
        # reflection [DLMF 5.5.3]; the sine of the distance to the nearest integer
        s = np.abs(np.sin(math.pi * (v - np.rint(v))))
        low = math.log(math.pi) - np.log(s) - log_gamma_positive(1 - v)
        tiny = np.abs(v) < 1e-18  # there 1 - v is 1, and gamma(v) is 1 / v
        r[rest] = np.where(tiny, -np.log(np.abs(v)), low)
    r[(x <= 0) & (x == np.floor(x)) | np.isinf(x)] = np.inf
    r[np.isnan(x)] = np.nan
    return r


def mvlgamma(x: Any, p: int) -> Any:
    """log of the multivariate gamma function [DLMF 35.3.4]."""

    @special
    def kernel(v: Any) -> Any:
        r = np.full_like(v, p * (p - 1) / 4 * math.log(math.pi))
        for i in range(p):
            r += lgamma(v - i / 2)
        return r

    return kernel(x)


def psi_positive(x: Any) -> Any:
    """digamma(x) for x > 0: recurrence up to 10, then DLMF 5.11.2."""
    v, r = x.copy(), np.zeros_like(x)
    for _ in range(10):
        low = v < 10
        if not low.any():
            break
        r -= np.where(low, 1 / v, 0)
        v += low
    w = 1 / (v * v)
    return r + np.log(v) - 0.5 / v - w * polynomial(PSI, w)


@special
def digamma(x: Any) -> Any:
    """The logarithmic derivative of gamma; NaN at -1, -2, ..., infinite at 0."""
    r = np.empty_like(x)
    plus = x > 0
    r[plus] = psi_positive(x[plus])
    rest = ~plus
    if rest.any():
        v = x[rest]
        f = v - np.rint(v)
        low = psi_positive(1 - v) - math.pi / np.tan(math.pi * f)  # DLMF 5.5.4
        r[rest] = np.where(v == 0, -np.copysign(np.inf, v), np.where(f == 0, np.nan, low))
    r[np.isposinf(x)] = np.inf
    r[np.isneginf(x) | np.isnan(x)] = np.nan
    return r


def trigamma(x: Any) -> Any:
    """The derivative of digamma: recurrence, reflection, DLMF 5.15.8."""
    below = x < 0.5
    v = np.where(below, 1 - x, x)
    r = np.zeros_like(v)
    for _ in range(10):
        low = v < 10
        if not low.any():
            break
        r += np.where(low, 1 / (v * v), 0)
        v = v + low
    w = 1 / (v * v)
    r += 1 / v + 0.5 * w + polynomial(BERNOULLI, w) * w / v
    s = np.sin(math.pi * (x - np.rint(x)))
    return np.where(below, np.square(math.pi / s) - r, r)


def polygamma(n: int, x: Any) -> Any:
    """The derivative number `n` of digamma."""
    if n == 0:
        return digamma(x)
    if n == 1:
        return special(trigamma)(x)
    factor = (
        (-1.0) ** (n + 1) * math.factorial(n) if n < 170 else math.inf
    )  # DLMF 5.15.1... 25.11.12
    return special(lambda v: factor * zeta(np.full_like(v, n + 1.0), v))(x)


def hurwitz(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function by Euler-Maclaurin summation [DLMF 25.11.28 with N >= 9 terms]."""
    count = np.where(q < 9, np.maximum(9, np.ceil(9 - q)), 9)
    count = np.where(np.isfinite(count), np.minimum(count, 100000), 9)
    a, s = q.copy(), np.zeros_like(q)
    for k in range(int(count.max(initial=0))):
        on = k < count
        s += np.where(on, np.power(a, -x), 0)
        a = a + on
    b = np.power(a, -x)
    s += b * a / (x - 1) + 0.5 * b
    term, w = x * b / a, 1 / (a * a)
    for j, number in enumerate((*BERNOULLI, 43867 / 798, -174611 / 330), 1):
        add = term * (number / math.factorial(2 * j))
        s += np.where(np.isfinite(add), add, 0)
        term = term * (x + 2 * j - 1) * (x + 2 * j) * w
    return s


@special
def zeta(x: Any, q: Any) -> Any:
    """The Hurwitz zeta function: the sum of (k + q)^-x over k >= 0; infinite at x = 1, NaN below."""
    r = hurwitz(x, q)
    whole = q == np.floor(q)
    r = np.where((q <= 0) & whole, np.inf, np.where((q <= 0) & (x != np.floor(x)), np.nan, r))
    return np.where(x == 1, np.inf, np.where(x < 1, np.nan, r))


# -- the incomplete gamma functions ----------------------------------------------------------------


def prefactor(a: Any, x: Any) -> Any:
    """x^a exp(-x) / gamma(a), by log1p where x is near a, so that nothing cancels."""
    d = (x - a) / a
    near = (np.abs(d) < 0.4) & (a > 10)
    mu = np.log1p(np.where(near, d, 0)) - np.where(near, d, 0)
    v = np.maximum(a, 10)
    stirling = polynomial(STIRLING, 1 / (v * v)) / v
    close = np.exp(a * mu - stirling) * np.sqrt(a / (2 * math.pi))
    return np.where(near, close, np.exp(a * np.log(x) - x - lgamma(a)))


def lower_series(a: Any, x: Any) -> Any:
    """P(a, x) by DLMF 8.11.4, for x < a + 1."""
    term = 1 / a
    s, n = term.copy(), a.copy()
    for _ in range(4000):
        n += 1
        term = term * (x / n)
        s += term
        if not (term > s * 1e-17).any():
            break
    return s * prefactor(a, x)


def upper_fraction(a: Any, x: Any) -> Any:
    """Q(a, x) by the continued fraction DLMF 8.9.2 (Lentz's method), for x >= a + 1."""
    tiny = 1e-300
    b = x + 1 - a
    c, d = np.full_like(x, 1 / tiny), 1 / b
    h = d.copy()
    for i in range(1, 4000):
        k = -i * (i - a)
        b = b + 2
        d = k * d + b
        d = 1 / np.where(np.abs(d) < tiny, tiny, d)
        c = b + k / c
        c = np.where(np.abs(c) < tiny, tiny, c)
        step = d * c
        h = h * step
        if not (np.abs(step - 1) > 1e-16).any():
            break
    return h * prefactor(a, x)


def incomplete(a: Any, x: Any, upper: bool) -> Any:
    r = np.full_like(x, np.nan)
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    low = inside & (x < a + 1)
    high = inside & ~low
    if low.any():
        p = lower_series(a[low], x[low])
        r[low] = 1 - p if upper else p
    if high.any():
        q = upper_fraction(a[high], x[high])
        r[high] = q if upper else 1 - q
    one, none = (0.0, 1.0) if upper else (1.0, 0.0)  # P is 1, or 0
    valid = (a >= 0) & (x >= 0)
    r[valid & (a == 0) & (x > 0)] = one
    r[(x == 0) & ~(a <= 0)] = none
    r[valid & np.isinf(x) & np.isfinite(a)] = one
    r[valid & np.isinf(a) & np.isfinite(x)] = none
    return r


@special
def gammainc(a: Any, x: Any) -> Any:
    """The regularised lower incomplete gamma function P(a, x); NaN for negative arguments."""
    return incomplete(a, x, False)


@special
def gammaincc(a: Any, x: Any) -> Any:
    """The regularised upper incomplete gamma function Q(a, x) = 1 - P(a, x)."""
    return incomplete(a, x, True)


@special
def xlogy(x: Any, y: Any) -> Any:
    """x log(y), 0 where x is 0 and y is not NaN."""
    return np.where(np.isnan(y), np.nan, np.where(x == 0, 0.0, x * np.log(y)))


@special
def xlog1py(x: Any, y: Any) -> Any:
    """x log1p(y), 0 where x is 0 and y is not NaN."""
    return np.where(np.isnan(y), np.nan, np.where(x == 0, 0.0, x * np.log1p(y)))
