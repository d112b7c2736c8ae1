"""Fourier transforms and overlap-add on NumPy arrays. `xp.fft` in the operators.

Normalization is a number: 0 none, 1 by the root of the number of points, 2 by that number. The transforms of
lines are NumPy's inner functions: its public ones take longer to begin than a short transform takes.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod, sqrt

import numpy as np
from numpy.fft._pocketfft_umath import fft, ifft, irfft, rfft_n_even, rfft_n_odd

from rushlight._backends import cpu as xp

KERNELS = "transform_lines c2c r2c c2r".split()


def transform_lines(
    a: np.ndarray, out: np.ndarray, d: int, transform: np.ufunc, scale: float
) -> None:
    """The lines along dimension d transformed into `out` by one of NumPy's functions, times `scale`."""
    if d == a.ndim - 1:
        transform(a, scale, out)
    else:
        transform(a.swapaxes(d, -1), scale, out.swapaxes(d, -1))


def factor(scale: int, points: int) -> float:
    """What results are multiplied by."""
    return 1.0 if scale == 0 else 1 / sqrt(points) if scale == 1 else 1 / points


@lru_cache(1024)
def arranged(dims: tuple[int, ...], strides: tuple[int, ...], last: bool) -> tuple | None:
    """(the order of dimensions in which a transform along `dims` works, the way back); None if it is theirs.

    The others come first, as they lie in memory, then `dims`, as they lie in memory, or with the `last` one at the
    end. That is where PyTorch's transform leaves them in memory, too, and lines lie there without gaps.
    """
    far = lambda d: -strides[d]
    others = partitioned(len(strides), dims)
    ends = dims[-1:] if last else ()
    order = (*sorted(others, key=far), *sorted(dims[: len(dims) - len(ends)], key=far), *ends)
    back = tuple(order.index(d) for d in range(len(order)))
    return None if order == back == tuple(range(len(order))) else (order, back)


def partitioned(n: int, dims: tuple[int, ...]) -> list[int]:
    """The dimensions that are not transformed, as PyTorch lists them: C++'s `partition` exchanges the first that is with
    the last that is not. It shows in the strides of sizes 1."""
    order, first, last = list(range(n)), 0, n
    while True:
        while first < last and order[first] not in dims:
            first += 1
        last -= 1
        while first < last and order[last] in dims:
            last -= 1
        if first >= last:
            return order[:first]
        order[first], order[last] = order[last], order[first]
        first += 1


def along(a: np.ndarray, transform: np.ufunc, first: int, stop: int, scale: float) -> np.ndarray:
    """Complex lines transformed along dimensions `first` to `stop` - 1; the result is contiguous."""
    for d in range(stop - 1, first - 1, -1):
        r = np.empty(a.shape, a.dtype)
        xp.transform_lines(a, r, d, transform, scale)
        a, scale = r, 1.0
    return a


def c2c(a: np.ndarray, dims: tuple[int, ...], scale: int, inverse: bool) -> np.ndarray:
    """Complex or real to complex along `dims`."""
    if a.dtype.kind != "c":
        if len(dims) == 1 and a.size:
            return both_halves(r2c(a, dims, scale), dims[0], a.shape[dims[0]], inverse)
        a = a.astype(np.complex64 if a.dtype == np.float32 else np.complex128)
    if not dims or not a.size:
        return a.copy()
    orders = arranged(dims, a.strides, False)
    if orders is not None:
        a = a.transpose(orders[0])
    first = a.ndim - len(dims)
    r = along(a, ifft if inverse else fft, first, a.ndim, factor(scale, prod(a.shape[first:])))
    return r if orders is None else r.transpose(orders[1])


def both_halves(half: np.ndarray, d: int, n: int, inverse: bool) -> np.ndarray:
    """The spectrum of n points of a real signal, by its first half along a dimension."""
    orders = arranged((d,), half.strides, True)
    if orders is not None:
        half = half.transpose(orders[0])
    r, m = np.empty((*half.shape[:-1], n), half.dtype), half.shape[-1]
    first, second = r[..., :m], r[..., m:]
    mirrored = half[..., n - m : 0 : -1]
    if inverse:
        np.conjugate(half, first)
        second[...] = mirrored
    else:
        first[...] = half
        np.conjugate(mirrored, second)
    return r if orders is None else r.transpose(orders[1])


def r2c(a: np.ndarray, dims: tuple[int, ...], scale: int) -> np.ndarray:
    """Real to the first half of the complex result along the last of `dims`."""
    orders = arranged(dims, a.strides, True)
    if orders is not None:
        a = a.transpose(orders[0])
    first, n = a.ndim - len(dims), a.shape[-1]
    dtype = np.complex64 if a.dtype == np.float32 else np.complex128
    r = np.empty((*a.shape[:-1], n // 2 + 1), dtype)
    transform = rfft_n_odd if n % 2 else rfft_n_even
    xp.transform_lines(a, r, a.ndim - 1, transform, factor(scale, prod(a.shape[first:])))
    r = along(r, fft, first, a.ndim - 1, 1.0)
    return r if orders is None else r.transpose(orders[1])


def c2r(a: np.ndarray, dims: tuple[int, ...], scale: int, n: int) -> np.ndarray:
    """Half of a Hermitian spectrum, complex or real, to `n` real values along the last of `dims`."""
    if a.dtype.kind != "c":
        a = a.astype(np.complex64 if a.dtype == np.float32 else np.complex128)
    orders = arranged(dims, a.strides, True)
    if orders is not None:
        a = a.transpose(orders[0])
    first = a.ndim - len(dims)
    points = n * prod(a.shape[first:-1])
    a = along(a, ifft, first, a.ndim - 1, 1.0)
    r = np.empty((*a.shape[:-1], n), np.float32 if a.dtype == np.complex64 else np.float64)
    xp.transform_lines(a, r, a.ndim - 1, irfft, factor(scale, points))
    return r if orders is None else r.transpose(orders[1])


def frames(a: np.ndarray, n: int, hop: int) -> np.ndarray:
    """Pieces [..., frame, n] of signals [..., time], `hop` apart."""
    windows = np.lib.stride_tricks.sliding_window_view(a, n, -1)
    return np.ascontiguousarray(windows[..., ::hop, :])


def overlap_add(pieces: np.ndarray, hop: int, size: int) -> np.ndarray:
    """The signal [..., size] that pieces [..., frame, n] add up to, `hop` apart."""
    *lead, _, n = pieces.shape
    out = np.zeros((*lead, size), pieces.dtype)
    *far, near = out.strides
    for start in range((n - 1) // hop * hop, -1, -hop):  # parts of pieces that do not meet
        part = pieces[..., start : start + hop]
        places = np.ndarray(part.shape, out.dtype, out, start * near, (*far, hop * near, near))
        places += part
    return out
