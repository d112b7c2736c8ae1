"""Numbers at equal distances, with PyTorch's roundings.

PyTorch computes them in vectors of a fixed width: the rounding of the first element of a vector is part of the others.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.rng.fma import fused, fused_float32

KERNELS = "arange_into both_ends_into full linspace_into ones powers_into".split()

WIDTH = 32  # bytes of a vector


def ones(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """A new array of ones."""
    made = np.empty(shape, dtype)
    xp.fill(made, one(dtype))
    return made


@lru_cache
def one(dtype: np.dtype) -> np.ndarray:
    """The number 1; nobody writes to the array."""
    return np.ones((), dtype)


def full(shape: tuple[int, ...], value: complex | np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A new array of one value. (NumPy's own goes through several functions in Python.)"""
    made = np.empty(shape, dtype)
    if 0 not in shape:
        xp.fill(made, value)
    return made


@np.errstate(all="ignore")
def arange_into(out: np.ndarray, start: float, step: float) -> None:
    """start + i * step into `out`, floating [n]. Halves are computed in float32, others in float64."""
    n, d, lanes = out.size, out.dtype, WIDTH // out.itemsize
    if out.itemsize == 2:
        start, step = float(np.float32(start)), float(np.float32(step))

    def exact(i: np.ndarray, start: Any) -> np.ndarray:
        if out.itemsize == 2:
            return fused_float32(i.astype(np.float32), step, start).astype(d)
        return fused(i, step, start).astype(d)

    out[...] = exact(np.arange(n, dtype=np.float64), start)
    whole = n - n % (2 * lanes)  # the rest is computed one by one
    if whole:
        first = out[:whole:lanes].astype(np.float64)[:, None]
        k = np.tile(np.arange(lanes, dtype=np.float64), (len(first), 1))
        out[:whole] = exact(k, first).reshape(-1)


@np.errstate(all="ignore")
def linspace_into(out: np.ndarray, start: float, end: float) -> None:
    """n > 1 numbers from `start` to `end` into `out`, floating [n]: the first half is counted from the start, the second
    from the end. In a half type every operation is rounded."""
    n = out.size
    half = n // 2
    up, down = np.arange(half), np.arange(n - half - 1, -1, -1)  # steps from start, steps to end
    if out.itemsize == 2:

        def r(x: Any) -> Any:
            return np.asarray(x, np.float32).astype(out.dtype).astype(np.float32)

        a, b = r(start), r(end)
        step = r(r(b - a) / r(n - 1))
        out[:half] = a + r(step * r(up))
        out[half:] = b - r(step * r(down))
    elif out.dtype == np.float32:
        a, b = np.float32(start), np.float32(end)
        step = (b - a) / np.float32(n - 1)
        out[:half] = fused_float32(up.astype(np.float32), float(step), float(a))
        out[half:] = fused_float32(down.astype(np.float32), -float(step), float(b))
    else:
        step = (end - start) / (n - 1)
        out[:half] = fused(up.astype(np.float64), step, start)
        out[half:] = fused(down.astype(np.float64), -step, end)


@np.errstate(all="ignore")
def both_ends_into(out: np.ndarray, start: float, end: float, step: float) -> None:
    """start + i * step into `out`, float64 [n], in the second half end - (n - 1 - i) * step."""
    half = out.size // 2
    steps = np.arange(out.size - half) * float(step)
    out[:half] = steps[:half] + start
    out[half:] = end - steps[::-1]


@np.errstate(all="ignore")
def powers_into(exponents: np.ndarray, base: float) -> None:
    """`base` to the power of numbers, float64 [n], in their place, as C's library computes them: NumPy does so with one number at a
    time, and on some processors in another way with many."""
    exponents[:] = [np.float64(base) ** e for e in exponents]
