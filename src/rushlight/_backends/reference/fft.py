"""Fourier transforms and overlap-add on NumPy arrays. `xp.fft` in the operators.

Normalization is a number: 0 none, 1 by the root of the number of points, 2 by that number.
"""

from __future__ import annotations

from typing import Any

import numpy as np


def norms(scale: int, forward: bool) -> str:
    """NumPy's name of a normalization for one direction."""
    if scale == 1:
        return "ortho"
    return "forward" if (scale == 2) == forward else "backward"


def c2c(a: np.ndarray, dims: tuple[int, ...], scale: int, forward: bool) -> np.ndarray:
    """Complex to complex along `dims`."""
    if not dims or not a.size:
        return a.copy()
    transform = np.fft.fftn if forward else np.fft.ifftn
    by_stride = sorted(dims, key=lambda d: -a.strides[d])
    return transformed(a, by_stride, transform, norms(scale, forward)).astype(a.dtype, copy=False)


def r2c(a: np.ndarray, dims: tuple[int, ...], scale: int) -> np.ndarray:
    """Real to the first half of the complex result along the last of `dims`."""
    by_stride = sorted(dims[:-1], key=lambda d: -a.strides[d])
    r = transformed(a, [*by_stride, dims[-1]], np.fft.rfftn, norms(scale, True))
    return r.astype(np.complex64 if a.dtype == np.float32 else np.complex128, copy=False)


def c2r(a: np.ndarray, dims: tuple[int, ...], scale: int, n: int) -> np.ndarray:
    """Half of a Hermitian spectrum to `n` real values along the last of `dims`."""
    by_stride = sorted(dims[:-1], key=lambda d: -a.strides[d])
    sizes = [*(a.shape[d] for d in by_stride), n]
    r = transformed(a, [*by_stride, dims[-1]], np.fft.irfftn, norms(scale, False), sizes)
    return r.astype(np.float32 if a.dtype == np.complex64 else np.float64, copy=False)


def transformed(
    a: np.ndarray, dims: list[int], transform: Any, norm: str, sizes: list[int] | None = None
) -> np.ndarray:
    """The transform along `dims`; in memory these come last in the result, the others as they lie in `a`.

    That is where PyTorch's transform leaves them, and where this one works without a copy.
    """
    others = sorted((d for d in range(a.ndim) if d not in dims), key=lambda d: -a.strides[d])
    order = [*others, *dims]
    axes = range(len(others), a.ndim)
    if order == list(range(a.ndim)):
        return np.ascontiguousarray(transform(a, sizes, axes, norm))
    r = np.ascontiguousarray(transform(a.transpose(order), sizes, axes, norm))
    return r.transpose(np.argsort(order))


def frames(a: np.ndarray, n: int, hop: int) -> np.ndarray:
    """Pieces [..., frame, n] of signals [..., time], `hop` apart."""
    windows = np.lib.stride_tricks.sliding_window_view(a, n, -1)
    return np.ascontiguousarray(windows[..., ::hop, :])


def overlap_add(pieces: np.ndarray, hop: int, size: int) -> np.ndarray:
    """The signal [..., size] that pieces [..., frame, n] add up to, `hop` apart."""
    *lead, count, n = pieces.shape
    out = np.zeros((*lead, size), pieces.dtype)
    for k in range(count):
        out[..., k * hop : k * hop + n] += pieces[..., k, :]
    return out
