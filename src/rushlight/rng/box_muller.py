"""Two uniform numbers to two normal ones, as PyTorch's CPU kernels compute them (Box and Muller, 1958).

`radius * cos(angle)` and `radius * sin(angle)` with `radius = sqrt(-2 log(1 - u1))`, `angle = 2 pi u2`. In float32 PyTorch
computes logarithm, sine and cosine by the polynomials of Moshier's Cephes library, eight at a time, with fused
multiply-adds. To give the same bits, this module evaluates the same polynomials with the same roundings: NumPy has no fused
multiply-add, but the product of two float32 numbers is exact in float64, and rounding the float64 sum to float32 gives
the fused result (that this holds for each of the 2**24 values either uniform number can have has been checked).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rushlight.rng.fma import fused_float32

if TYPE_CHECKING:
    from collections.abc import Sequence

BLOCK = 16  # PyTorch pairs element j of a block of 16 with element j + 8
_CHUNK = 8192  # pairs at a time: the scratch arrays stay in the cache


def _single(x: float) -> float:
    return float(np.float32(x))


# Cephes' logf: log(1 + x) = x - x**2 / 2 + x**3 P(x) for sqrt(1/2) <= 1 + x < sqrt(2); log 2 in two parts.
_LOG = tuple(
    _single(c)
    for c in (
        *(7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1),
        *(-1.6668057665e-1, 2.0000714765e-1, -2.4999993993e-1, 3.3333331174e-1),
    )
)
_LOG2_LOW, _LOG2_HIGH = _single(-2.12194440e-4), 0.693359375
_ROOT_HALF = np.float32(0.5**0.5)
# Cephes' sinf and cosf on [-pi/4, pi/4], and pi/4 in three parts.
_SIN = tuple(map(_single, (-1.9515295891e-4, 8.3321608736e-3, -1.6666654611e-1)))
_COS = tuple(map(_single, (2.443315711809948e-5, -1.388731625493765e-3, 4.166664568298827e-2)))
_QUARTER_PI = (-0.78515625, _single(-2.4187564849853515625e-4), _single(-3.77489497744594108e-8))
_SIN_COS = np.array((_SIN, _COS)).T[:, :, None]  # both polynomials at once
_TWO_PI = np.float32(2 * np.pi)
_EIGHTHS = np.float32(4 / np.pi)
_HALF, _ONE, _MINUS_TWO = np.float32(0.5), np.float32(1), np.float32(-2)


class _Scratch:
    """The arrays that one call works in.

    Numbers are float32; `wide` takes the exact products of a fused multiply-add, whose sum NumPy rounds to
    float32 as it writes it: `multiply(a, b64, wide); add(wide, c, out32)`.
    """

    __slots__ = ("both", "wide", "wide_both", "x", "z")

    def __init__(self, n: int) -> None:
        self.wide, self.x, self.z = np.empty(n), np.empty(n), np.empty(n)
        self.wide_both, self.both = np.empty((2, n)), np.empty((2, n), np.float32)


def _horner(y: np.ndarray, x: np.ndarray, wide: np.ndarray, coefficients: Sequence) -> None:
    """float32 `y` = the polynomial at float64 `x`, highest power first, one fused multiply-add per power."""
    np.multiply(x, coefficients[0], wide)
    for c in coefficients[1:-1]:
        np.add(wide, c, y)
        np.multiply(y, x, wide)
    np.add(wide, coefficients[-1], y)


def _log(u: np.ndarray, s: _Scratch) -> np.ndarray:
    """log of float32 `u` in (0, 1]."""
    bits = u.view(np.int32)
    exponent = bits >> 23  # u = m * 2**exponent, 1/2 <= m < 1
    exponent -= 126
    bits = bits & 0x007FFFFF
    bits |= 0x3F000000
    x = bits.view(np.float32)
    low = x < _ROOT_HALF
    exponent -= low
    # m - 1, or 2 m - 1 where m is low: exact.
    np.add(x, x, out=x, where=low)
    x -= _ONE
    z = x * x
    x64, wide, y = s.x, s.wide, s.both[0]
    x64[...] = x
    _horner(y, x64, wide, _LOG)
    y *= x
    np.multiply(y, z, wide, dtype=np.float64)
    e = exponent.astype(np.float64)
    np.add(wide, (e * _LOG2_LOW).astype(np.float32), y)
    z *= _HALF
    y -= z
    x += y
    e *= _LOG2_HIGH
    np.add(e, x, x)
    return x


def _cos_sin(x: np.ndarray, s: _Scratch) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of `x` in [0, 2 pi], float32; `x` is overwritten."""
    x64, z64, wide, both = s.x, s.z, s.wide, s.both
    octant = (x * _EIGHTHS).astype(np.int32)
    octant += 1
    octant &= ~1
    for part in _QUARTER_PI:
        np.multiply(octant, part, wide)
        np.add(wide, x, x)
    z = x * x
    z64[...] = z
    _horner(both, z64, s.wide_both, _SIN_COS)
    both *= z
    sine, cosine = both
    x64[...] = x
    np.multiply(sine, x64, wide)
    np.add(wide, x, sine)
    np.multiply(cosine, z64, wide)
    z *= _HALF
    np.subtract(wide, z, cosine)
    cosine += _ONE
    swap = (octant & 2) != 0
    turned = np.where(swap, sine, cosine)
    np.copyto(sine, cosine, where=swap)
    np.negative(sine, out=sine, where=(octant & 4) != 0)
    octant += 2
    np.negative(turned, out=turned, where=(octant & 4) != 0)
    return turned, sine


def normal_float32(u: np.ndarray, mean: float, std: float) -> None:
    """Replaces the uniform numbers `u`, float32 [16 k], contiguous, by normal ones."""
    pairs = u.reshape(-1, 2, BLOCK // 2)
    mean, std = _single(mean), _single(std)
    standard = mean == 0.0 and std == 1.0
    rows = _CHUNK // (BLOCK // 2)
    for at in range(0, len(pairs), rows):
        block = pairs[at : at + rows]
        s = _Scratch(block.size // 2)
        radius = _log((_ONE - block[:, 0]).ravel(), s)
        radius *= _MINUS_TWO
        np.sqrt(radius, out=radius)
        angle = (block[:, 1] * _TWO_PI).ravel()
        for half, turn in enumerate(_cos_sin(angle, s)):
            turn *= radius
            if standard:
                turn += 0.0  # as a multiply-add: no -0
            else:
                turn = fused_float32(turn, std, mean)
            block[:, half] = turn.reshape(-1, BLOCK // 2)
