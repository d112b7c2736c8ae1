"""Two uniform numbers into two normal ones, the way PyTorch's CPU kernels do it (Box and Muller, 1958).

`radius * cos(angle)` and `radius * sin(angle)` with `radius = sqrt(-2 log(1 - u1))`, `angle = 2 pi u2`. In float32 PyTorch
computes logarithm, sine and cosine by the polynomials of Moshier's Cephes library, eight at a time, with fused
multiply-adds. To give the same bits, the same polynomials are evaluated here with the same roundings: NumPy has no fused
multiply-add, but the product of two float32 numbers is exact in float64, and rounding the float64 sum to float32 gives
the fused result (that this holds for each of the 2**24 values either uniform number can have has been checked).
"""

from __future__ import annotations

import numpy as np

from rushlight.fused import fused_float32

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
_TWO_PI = _single(2 * np.pi)
_EIGHTHS = _single(4 / np.pi)


class _Scratch:
    """The arrays that one call works in; every float64 one holds numbers that float32 can hold."""

    __slots__ = ("a", "b", "single", "x", "y", "z")

    def __init__(self, n: int) -> None:
        self.a, self.b, self.x, self.y, self.z = (np.empty(n) for _ in range(5))
        self.single = np.empty(n, np.float32)

    def round(self, x: np.ndarray) -> None:
        """Rounds float64 `x` to float32, in place."""
        np.copyto(self.single, x, casting="same_kind")
        np.copyto(x, self.single)

    def horner(self, y: np.ndarray, x: np.ndarray, coefficients: tuple[float, ...]) -> None:
        """`y` = the polynomial at `x`, highest power first, one fused multiply-add per power."""
        np.multiply(x, coefficients[0], out=y)
        for c in coefficients[1:-1]:
            y += c
            self.round(y)
            y *= x
        y += coefficients[-1]
        self.round(y)


def _log(u: np.ndarray, s: _Scratch) -> np.ndarray:
    """log of float32 `u` in (0, 1], in `s.x`."""
    bits = u.view(np.int32)
    exponent = s.b
    np.subtract(bits >> 23, 126, out=exponent)  # u = m * 2**exponent, 1/2 <= m < 1
    m = ((bits & 0x007FFFFF) | 0x3F000000).view(np.float32)
    low = m < _ROOT_HALF
    exponent -= low
    x, y, z = s.x, s.y, s.z
    # m - 1, or 2 m - 1 where m is low: exact.
    np.multiply(m, low, out=x)
    x += m
    x -= 1.0
    np.multiply(x, x, out=z)
    s.round(z)
    s.horner(y, x, _LOG)
    y *= x
    s.round(y)
    y *= z
    np.multiply(exponent, _LOG2_LOW, out=s.a)
    s.round(s.a)
    y += s.a
    s.round(y)
    z *= 0.5
    y -= z
    s.round(y)
    x += y
    s.round(x)
    exponent *= _LOG2_HIGH
    x += exponent
    s.round(x)
    return x


def _cos_sin(angle: np.ndarray, s: _Scratch) -> tuple[np.ndarray, np.ndarray]:
    """cos and sin of `angle` in [0, 2 pi], float32 numbers in float64: in `s.y` and `s.b`."""
    x, y, z, sine = angle, s.y, s.z, s.b
    np.multiply(x, _EIGHTHS, out=y)
    s.round(y)
    octant = y.astype(np.int32)
    octant += 1
    octant &= ~1
    for part in _QUARTER_PI:
        np.multiply(octant, part, out=y)
        x += y
        s.round(x)
    np.multiply(x, x, out=z)
    s.round(z)
    s.horner(sine, z, _SIN)
    sine *= z
    s.round(sine)
    sine *= x
    sine += x
    s.round(sine)
    s.horner(y, z, _COS)
    y *= z
    s.round(y)
    y *= z
    z *= 0.5
    s.round(z)
    y -= z
    s.round(y)
    y += 1.0
    s.round(y)
    swap = (octant & 2) != 0
    cosine = np.where(swap, sine, y)
    np.copyto(sine, y, where=swap)
    np.negative(sine, out=sine, where=(octant & 4) != 0)
    np.negative(cosine, out=cosine, where=((octant + 2) & 4) != 0)
    return cosine, sine


def normal_float32(u: np.ndarray, mean: float, std: float) -> None:
    """Replaces the uniform numbers `u`, float32 [16 k], contiguous, by normal ones."""
    pairs = u.reshape(-1, 2, BLOCK // 2)
    mean, std = _single(mean), _single(std)
    rows = _CHUNK // (BLOCK // 2)
    for at in range(0, len(pairs), rows):
        block = pairs[at : at + rows]
        s = _Scratch(block.size // 2)
        radius = _log((1 - block[:, 0]).ravel(), s)
        radius *= -2.0
        np.sqrt(radius, out=radius)
        s.round(radius)
        angle = s.a
        np.multiply(block[:, 1], _TWO_PI, out=angle.reshape(-1, BLOCK // 2), dtype=np.float64)
        s.round(angle)
        for half, turn in enumerate(_cos_sin(angle, s)):
            turn *= radius
            s.round(turn)
            block[:, half] = fused_float32(turn, std, mean).reshape(-1, BLOCK // 2)
