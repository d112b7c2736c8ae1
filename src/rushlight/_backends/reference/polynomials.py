"""Orthogonal polynomials of a degree given element by element, in float64.

Three-term recurrences of DLMF 18.9; the Chebyshev polynomials of higher degree inside (-1, 1) by their
trigonometric form [DLMF 18.5.1 to 18.5.4], so that the degree costs nothing. A negative degree gives 0.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.reference.special import special

if TYPE_CHECKING:
    from collections.abc import Callable

KERNELS = (
    "chebyshev_t chebyshev_u chebyshev_v chebyshev_w hermite_h hermite_he laguerre_l legendre_p "
    "shifted_chebyshev_t shifted_chebyshev_u shifted_chebyshev_v shifted_chebyshev_w"
).split()


def recurrence(x: Any, n: Any, first: Any, step: Callable) -> Any:
    """P_n by P_0 = 1, P_1 = `first`, P_k+1 = step(k, P_k, P_k-1)."""
    p, q = np.ones_like(x), first
    r = np.where(n == 0, p, np.where(n == 1, q, 0.0))
    for k in range(1, int(np.where(n < 1e15, n, 0).max(initial=0))):  # NaN is no degree
        p, q = q, step(k, q, p)
        r = np.where(n == k + 1, q, r)
    return r


def chebyshev_kind(kind: str, shifted: bool = False) -> Callable:
    """The Chebyshev polynomials T, U, V or W; shifted: of 2x - 1."""

    @special
    def kernel(x: Any, n: Any) -> Any:
        n = np.trunc(n)
        if shifted:
            x = 2 * x - 1
        first = {"t": x, "u": 2 * x, "v": 2 * x - 1, "w": 2 * x + 1}[kind]
        by_angle = (np.abs(x) <= 1) & (n > 6)
        r = recurrence(x, np.where(by_angle, -1, n), first, lambda k, q, p: 2 * x * q - p)
        if by_angle.any():
            t, m = np.arccos(x[by_angle]), n[by_angle]
            if kind == "t":
                v = np.cos(m * t)
            elif kind == "u":
                v = ratio(
                    np.sin((m + 1) * t), np.sin(t), t, m + 1, np.where(m % 2, -1, 1) * (m + 1)
                )
            elif kind == "v":
                v = ratio(
                    np.cos((m + 0.5) * t), np.cos(t / 2), t, 1, np.where(m % 2, -1, 1) * (2 * m + 1)
                )
            else:
                v = ratio(
                    np.sin((m + 0.5) * t), np.sin(t / 2), t, 2 * m + 1, np.where(m % 2, -1.0, 1.0)
                )
            r[by_angle] = v
        return r

    at = " at 2x - 1" if shifted else ""
    kernel.__doc__ = f"Chebyshev polynomial {kind.upper()} of degree n{at}."
    return kernel


def ratio(a: Any, b: Any, t: Any, at_zero: Any, at_pi: Any) -> Any:
    """a / b, and its limits at the ends of the interval of angles."""
    return np.where(t == 0, at_zero, np.where(t == math.pi, at_pi, a / b))


chebyshev_t, chebyshev_u, chebyshev_v, chebyshev_w = map(chebyshev_kind, "tuvw")
shifted_chebyshev_t, shifted_chebyshev_u, shifted_chebyshev_v, shifted_chebyshev_w = (
    chebyshev_kind(kind, True) for kind in "tuvw"
)


def too_high(n: Any, dtype: Any) -> Any:
    """Degrees that PyTorch answers with NaN: the values overflow."""
    return n > (512 if dtype == np.float64 else 128)


def hermite(x: Any, n: Any, factor: int) -> Any:
    dtype = x.dtype

    @special
    def kernel(x: Any, n: Any) -> Any:
        n = np.trunc(n)
        odd = too_high(n, dtype)
        r = recurrence(
            x, np.where(odd, -1, n), factor * x, lambda k, q, p: factor * (x * q - k * p)
        )
        return np.where(odd, np.nan, r)

    return kernel(x, n)


def hermite_h(x: Any, n: Any) -> Any:
    """Physicist's Hermite polynomial of degree n."""
    return hermite(x, n, 2)


def hermite_he(x: Any, n: Any) -> Any:
    """Probabilist's Hermite polynomial of degree n."""
    return hermite(x, n, 1)


@special
def laguerre_l(x: Any, n: Any) -> Any:
    """Laguerre polynomial of degree n."""
    return recurrence(
        x, np.trunc(n), 1 - x, lambda k, q, p: ((2 * k + 1 - x) * q - k * p) / (k + 1)
    )


@special
def legendre_p(x: Any, n: Any) -> Any:
    """Legendre polynomial of degree n."""
    return recurrence(x, np.trunc(n), x, lambda k, q, p: ((2 * k + 1) * x * q - k * p) / (k + 1))
