"""Numbers at equal distances; the formulas are those of `_backends/reference/sequences.py`."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f64, i64

GRAIN = 16384  # elements in a chunk: whole vectors


@kernel
def counted(T, out: Ptr[T], n: i64, start: f64, step: f64):
    """start + i * step, in vectors of 32 bytes whose first element is rounded before the others are made of it."""
    L = 32 // T.size
    whole = n - n % (2 * L)
    for low, high in parallel(n, GRAIN):
        end = min(high, whole)
        for i in range(low, end, L):
            first = f64(T(fma(f64(i), step, start)))
            for k in range(L):
                out[i + k] = T(fma(f64(k), step, first))
        for i in range(max(low, end), high):
            out[i] = T(fma(f64(i), step, start))


@kernel
def spaced(T, out: Ptr[T], n: i64, start: T, end: T):
    """n > 1 numbers from `start` to `end`, either half counted from its own end."""
    step = (end - start) / T(n - 1)
    half = n // 2
    for low, high in parallel(n, GRAIN):
        for i in range(low, min(high, half)):
            out[i] = fma(T(i), step, start)
        for i in range(max(low, half), high):
            out[i] = fma(T(n - 1 - i), -step, end)
