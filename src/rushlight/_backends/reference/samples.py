"""How samples move with the parameters of their distribution: the gradients of gamma and Dirichlet.

A sample x of a distribution with cumulative function F(x; a), drawn by holding F(x; a) fixed, has the
derivative dx/da = -(dF/da) / (dF/dx): Figurnov, Mohamed and Mnih, "Implicit reparameterization
gradients" (2018). F is summed as a series of positive terms, or evaluated as a continued fraction;
each is differentiated term by term. The density divides both, so no exponential is ever computed.
"""

from __future__ import annotations

import numpy as np

from rushlight._backends import cpu as xp

KERNELS = "dirichlet_gradient standard_gamma_gradient".split()

_TERMS = 20_000  # enough for parameters of 10**7; the sums stop when nothing changes any more


@np.errstate(all="ignore")
def standard_gamma_gradient(alpha: np.ndarray, x: np.ndarray) -> np.ndarray:
    """dx/dalpha of samples `x` of Gamma(alpha, 1), in the broadcast shape and the dtype of `x`."""
    a, v = np.broadcast_arrays(alpha.astype(np.float64), x.astype(np.float64))
    shape, a, v = v.shape, a.ravel(), v.ravel()
    result = np.full(a.shape, np.nan)
    low = v <= a + 1
    result[low] = _gamma_series(a[low], v[low])
    result[~low] = _gamma_fraction(a[~low], v[~low])
    result[(v == 0) & (a > 0)] = 0.0
    return result.reshape(shape).astype(x.dtype)


def _gamma_series(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """-dP/da / p from P = p x/a sum r_k, r_k = x**k / ((a+1)...(a+k)) (DLMF 8.7.1)."""
    log_x, psi = np.log(x), xp.digamma(a + 1)
    term, total, k = np.ones_like(x), np.zeros_like(x), 0
    while True:
        new = total + term * (psi - log_x)
        if k >= _TERMS or np.array_equal(new, total, equal_nan=True):
            break
        total, k = new, k + 1
        term = term * (x / (a + k))
        psi = psi + 1 / (a + k)
    return x / a * total


def _gamma_fraction(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    """dQ/da / p from Q = p x h, h the continued fraction of DLMF 8.9.2, by Lentz's recurrence.

    A name with an apostrophe in the formula is a name with `_a` here: the derivative in a.
    """
    b = x + 1 - a
    c, c_a = np.full_like(x, 1e300), np.zeros_like(x)
    d = 1 / b
    d_a = d * d
    h, h_a = d, d_a
    for i in range(1, _TERMS):
        factor = -i * (i - a)
        b = b + 2
        under = factor * d + b
        d, d_a = 1 / under, -(i * d + factor * d_a - 1) / (under * under)
        c, c_a = b + factor / c, -1 + i / c - factor * c_a / (c * c)
        step = c * d
        new, h_a = h * step, h_a * step + h * (c_a * d + c * d_a)
        done = np.abs(step - 1) < 1e-16
        h = new
        if done.all() or np.isnan(step[~done]).all():
            break
    return x * (h * (np.log(x) - xp.digamma(a)) + h_a)


@np.errstate(all="ignore")
def dirichlet_gradient(x: np.ndarray, alpha: np.ndarray, total: np.ndarray) -> np.ndarray:
    """dx/dalpha / (1 - x) of samples `x` of Beta(alpha, total - alpha), in the dtype of `x`."""
    v, a, t = np.broadcast_arrays(*(each.astype(np.float64) for each in (x, alpha, total)))
    shape, v, a = v.shape, v.ravel(), a.ravel()
    b = t.ravel() - a
    result = np.full(v.shape, np.nan)
    low = v * (a + b + 2) <= a + 1
    result[low] = -_beta_series(v[low], a[low], b[low], first=True)
    high = ~low
    result[high] = _beta_series(1 - v[high], b[high], a[high], first=False)
    return (result / (1 - v)).reshape(shape).astype(x.dtype)


def _beta_series(x: np.ndarray, a: np.ndarray, b: np.ndarray, first: bool) -> np.ndarray:
    """dI/da / p (`first`), or dI/db / p, of the regularized incomplete beta function I.

    I = p x (1 - x) / a sum s_k, s_k = x**k (a+b)...(a+b+k-1) / ((a+1)...(a+k)) (DLMF 8.17.8).
    """
    psi = xp.digamma(a + b)
    if first:
        outer = np.log(x) - 1 / a - xp.digamma(a) + psi
    else:
        outer = np.log1p(-x) - xp.digamma(b) + psi
    term, inner, total, k = np.ones_like(x), np.zeros_like(x), np.zeros_like(x), 0
    while True:
        new = total + term * (outer + inner)
        if k >= _TERMS or (np.array_equal(new, total, equal_nan=True) and k):
            break
        total = new
        inner = inner + 1 / (a + b + k) - (1 / (a + 1 + k) if first else 0)
        term = term * (x * (a + b + k) / (a + 1 + k))
        k += 1
    return x * (1 - x) / a * total
