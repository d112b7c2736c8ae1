"""Distances of rows of numbers, and their gradients."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight._backends.reference.linalg import vector_norm
from rushlight.core import geometry

KERNELS = "cdist cdist_gradient pdist pdist_gradient".split()

BLOCK = 1 << 20  # differences that are held at a time


def blocks(n: int, size: int) -> list[slice]:
    """Slices of range(n) whose rows of `size` differences make about one block."""
    step = max(1, BLOCK // max(1, size))
    return [slice(i, i + step) for i in range(0, n, step)]


def cdist(a: np.ndarray, b: np.ndarray, p: float) -> np.ndarray:
    """The p-norm distances of all rows of [..., n, k] to all rows of [..., m, k]."""
    lead = geometry.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    out = np.zeros((*lead, a.shape[-2], b.shape[-2]), a.dtype)
    if a.shape[-1]:
        for k in blocks(a.shape[-2], prod(lead) * b.shape[-2] * b.shape[-1]):
            difference = a[..., k, None, :] - b[..., None, :, :]
            out[..., k, :] = lengths(difference, p)
    return out


def lengths(difference: np.ndarray, p: float) -> np.ndarray:
    """The p-norms along the last axis; for p = 0 how many are not zero, or NaN."""
    if p == 0:
        return np.where(np.abs(difference) > 0, 1, difference).sum(-1)
    return vector_norm(difference, p, (difference.ndim - 1,), False)


def slopes(g: Any, d: Any, difference: Any, p: float) -> Any:
    """g times the derivative of distances by the differences along the last axis."""
    g, d = g[..., None], d[..., None]
    sign, size = np.sign(difference), np.abs(difference)
    with np.errstate(all="ignore"):
        if p == 1:
            return g * sign
        if p == 2:
            return np.where(d == 0, 0, g * (difference / d))
        if p == float("inf"):
            return g * sign * (size == d)
        share = sign * size ** (p - 1) * (g / d ** (p - 1))
        return np.where((d == 0) | (size == 0), 0, share)


def cdist_gradient(
    g: np.ndarray, d: np.ndarray, a: np.ndarray, b: np.ndarray, p: float
) -> np.ndarray:
    """The gradient of `distances` d by `a`, in the shape of all batches."""
    lead = d.shape[:-2]
    out = np.zeros((*lead, *a.shape[-2:]), a.dtype)
    if p == 0:  # steps have no slope
        return out
    for k in blocks(a.shape[-2], prod(lead) * b.shape[-2] * b.shape[-1]):
        difference = a[..., k, None, :] - b[..., None, :, :]
        out[..., k, :] = slopes(g[..., k, :], d[..., k, :], difference, p).sum(-2)
    return out


def pdist(a: np.ndarray, p: float) -> np.ndarray:
    """The p-norm distances of the pairs (i, j), i < j, of rows of [n, k]."""
    i, j = np.triu_indices(len(a), 1)
    out = np.empty(len(i), a.dtype)
    for k in blocks(len(i), a.shape[1]):
        out[k] = lengths(a[i[k]] - a[j[k]], p) if a.shape[1] else 0
    return out


def pdist_gradient(g: np.ndarray, d: np.ndarray, a: np.ndarray, p: float) -> np.ndarray:
    """The gradient of `pdist` d by `a`."""
    i, j = np.triu_indices(len(a), 1)
    out = np.zeros(a.shape, a.dtype)
    for k in blocks(len(i), a.shape[1]) if p else ():
        share = slopes(g[k], d[k], a[i[k]] - a[j[k]], p).astype(a.dtype, copy=False)
        np.add.at(out, i[k], share)
        np.subtract.at(out, j[k], share)
    return out
