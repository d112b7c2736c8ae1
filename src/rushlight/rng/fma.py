"""`a * b + c` rounded once, as a processor's fused multiply-add does it: NumPy has no such instruction.

>>> float(fused(np.array([0.1]), 10.0, -1.0)[0])   # the rounding error that 0.1 carries
5.551115123125783e-17
"""

from __future__ import annotations

import math

import numpy as np


def fused_float32(a: np.ndarray, b: float, c: float | np.ndarray) -> np.ndarray:
    """`a * b + c` rounded once, for float32 numbers `a`, `b`, `c`: float32.

    The float64 sum is itself rounded; where it fell on the middle between two float32 numbers, the error of that first
    rounding decides.
    """
    product = np.multiply(a, b, dtype=np.float64)
    total = product + c
    if isinstance(c, np.ndarray) or c:
        middle = (total.view(np.int64) & 0x1FFFFFFF) == 0x10000000
        if middle.any():
            p, t = product[middle], total[middle]
            back = t - p
            at = np.broadcast_to(c, total.shape)[middle]
            error = (p - (t - back)) + (at - back)
            total[middle] = np.where(error == 0, t, np.nextafter(t, np.copysign(np.inf, error)))
    return total.astype(np.float32)


def _two_product(a: np.ndarray, b: float) -> tuple[np.ndarray, np.ndarray]:
    """`a * b` and its rounding error (Dekker, 1971)."""
    product = a * b
    split = 134217729.0  # 2**27 + 1
    a_split, b_split = split * a, split * b
    a_high = a_split - (a_split - a)
    a_low = a - a_high
    b_high = b_split - (b_split - b)
    b_low = b - b_high
    error = a_low * b_low - (((product - a_high * b_high) - a_low * b_high) - a_high * b_low)
    return product, error


def _two_sum(a: np.ndarray | float, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`a + b` and its rounding error (Knuth)."""
    total = a + b
    t = total - a
    return total, (a - (total - t)) + (b - t)


def fused(a: np.ndarray, b: float, c: float | np.ndarray) -> np.ndarray:
    """`a * b + c`, rounded once, in float64: what the processor's fused multiply-add gives.

    After Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums" (2008): the sum of the two lesser parts is
    rounded to odd, so that the last addition cannot round twice. Numbers too large to split are rounded twice.
    """
    # A power of two, or 0: the product is exact.
    simple = math.frexp(b)[0] == 0.5 or (not isinstance(c, np.ndarray) and c == 0.0)
    if simple or not (1e-200 < abs(b) < 1e200 and np.all(np.abs(c) < 1e200)):
        return a * b + c
    high, low = _two_product(a, b)
    low_high, low_low = _two_sum(c, low)
    top, middle = _two_sum(high, low_high)
    rest, error = _two_sum(low_low, middle)
    even = (rest.view(np.int64) & 1) == 0
    np.copyto(rest, np.nextafter(rest, np.copysign(np.inf, error)), where=(error != 0) & even)
    return top + rest
