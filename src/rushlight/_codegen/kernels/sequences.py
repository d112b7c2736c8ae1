"""Numbers at equal distances; the formulas are those of `_backends/reference/sequences.py`."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f32, f64, i64

GRAIN = 16384  # elements in a chunk: whole vectors

pow = external("pow", f64, f64, f64)  # of the mathematical library of C, as PyTorch calls it


@kernel
def counted(T, out: Ptr[T], n: i64, start: f64, step: f64):
    """start + i * step, in vectors of 32 bytes whose first element is rounded before the others are made of it. Halves
    are computed in float32, others in float64."""
    R = f32 if T.size == 2 else f64
    L = 32 // T.size
    a, by = R(start), R(step)
    whole = n - n % (2 * L)
    for low, high in parallel(n, GRAIN):
        end = min(high, whole)
        for i in range(low, end, L):
            first = R(T(fma(R(i), by, a)))
            there = fma(iota(R, L), splat(by, L), splat(first, L))
            store(out + i, there if R is T.loaded else T(there))
        for i in range(max(low, end), high):
            out[i] = T.loaded(fma(R(i), by, a))


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


@kernel
def both_ends(out: Ptr[f64], n: i64, start: f64, end: f64, step: f64):
    """start + i * step, in the second half end - (n - 1 - i) * step; the product and the sum are rounded."""
    half = n // 2
    for low, high in parallel(n, GRAIN):
        for i in range(low, min(high, half)):
            out[i] = f64(i) * step + start
        for i in range(max(low, half), high):
            out[i] = end - f64(n - 1 - i) * step


@kernel
def powers(exponents: Ptr[f64], n: i64, base: f64):
    """base to the power of each number, in its place."""
    for low, high in parallel(n, GRAIN // 16):
        for i in range(low, high):
            exponents[i] = pow(base, exponents[i])


@inline
def rounded(x, T):
    return f32(T(f32(x)))


@kernel
def spaced_halves(T, out: Ptr[T], n: i64, start: f64, end: f64):
    """As `spaced`; every operation is rounded to the half type T."""
    a, b = rounded(start, T), rounded(end, T)
    step = rounded(rounded(b - a, T) / rounded(n - 1, T), T)
    half = n // 2
    for low, high in parallel(n, GRAIN):
        for i in range(low, min(high, half)):
            out[i] = a + rounded(step * rounded(i, T), T)
        for i in range(max(low, half), high):
            out[i] = b - rounded(step * rounded(n - 1 - i, T), T)
