"""Fourier transforms of lines as machine code; see `__init__.py` for when they run, `_codegen/kernels/fft.py` for how."""

from __future__ import annotations

from functools import lru_cache
from math import pi

import numpy as np

from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import contiguous, copy_into
from rushlight._codegen.kernels import fft as kernels
from rushlight._codegen.types import f32, f64
from rushlight.core.dtype_sets import C64, C128, F32, F64

REALS = {F32: f32, C64: f32, F64: f64, C128: f64}


def unity(k: np.ndarray, n: int) -> np.ndarray:
    """exp(-2 pi i k / n), exact where it is 0, 1 or -1 in a part. n is a multiple of 8."""
    quarter, rest = np.divmod(k % n, n // 4)
    far = rest > n // 8
    angle = np.where(far, n // 4 - rest, rest) * (2 * pi / n)
    c, s = np.cos(angle), np.sin(angle)
    c, s = np.where(far, s, c), np.where(far, c, s)
    r = np.empty(k.shape, np.complex128)
    r.real = np.choose(quarter, [c, -s, -c, s])
    r.imag = np.choose(quarter, [-s, -c, s, c])
    return r


def apart(a: np.ndarray, lanes: int, real: np.dtype) -> np.ndarray:
    """Vectors of real parts, each with that of the imaginary parts behind it."""
    a = a.reshape(-1, 1, lanes)
    return np.ascontiguousarray(np.concatenate([a.real, a.imag], 1), real)


def reversed_digits(m: int) -> np.ndarray:
    """Where the results of steps of radix 4, and a last one of radix 2, stand."""
    if m == 1:
        return np.zeros(1, np.int64)
    radix = min(m, 4)
    rest = reversed_digits(m // radix)
    return (rest[:, None] + np.arange(radix) * (m // radix)).reshape(-1)


@lru_cache(32)
def tables(n: int, lanes: int, real: np.dtype) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(the roots of unity of the steps, those between both parts, the order of rows in between)."""
    m = span = n // lanes
    steps = []
    while span >= 4:
        k = np.arange(span // 4)[:, None] * np.arange(1, 4)
        steps.append(unity(k * (n // span), n).reshape(-1))
        span //= 4
    roots = np.concatenate(steps).view(np.float64).astype(real)
    between = apart(unity(np.arange(m)[:, None] * np.arange(lanes), n), lanes, real)
    return roots, between, reversed_digits(m)


@lru_cache(32)
def halves(n: int, lanes: int, real: np.dtype) -> np.ndarray:
    """The roots of unity that join the halves of a spectrum of 2n real numbers."""
    return apart(unity(np.arange(n // 2), 2 * n), lanes, real)


@implements("transform_lines", dtypes=REALS)
def transform_lines(a: np.ndarray, out: np.ndarray, transform: np.ufunc, scale: float) -> None:
    """Lines of powers of two that fit on the stack; all others are NumPy's."""
    name = transform.__name__
    t = REALS[a.dtype]
    lanes, rows = kernels.width(t), a.size // a.shape[-1]
    whole = name == "fft" or name == "ifft"
    points = (out if name == "irfft" else a).shape[-1]
    n = points if whole else points // 2  # complex numbers that are transformed
    fits = lanes * lanes <= n <= kernels.MOST and not points & (points - 1)
    if not fits or a.shape[-1] != (n + 1 if name == "irfft" else points):
        transform(a, scale, out)
        return
    a = contiguous(a)
    to = out if out.flags.c_contiguous else np.empty(out.shape, out.dtype)
    roots = tables(n, lanes, t.np)
    if whole:
        run = kernels.fft_rows.compiled(T=t)
        run(a, to, *roots, rows, n, 1 if name == "fft" else -1, scale)
    else:
        run = (kernels.irfft_rows if name == "irfft" else kernels.rfft_rows).compiled(T=t)
        run(a, to, *roots, halves(n, lanes, t.np), rows, n, scale)
    if to is not out:
        copy_into(out, to)
