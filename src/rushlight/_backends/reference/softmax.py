"""Kernels of softmax and log-softmax; half types are computed in float32."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from rushlight.core import dtypes, geometry

if TYPE_CHECKING:
    from rushlight._backends.protocol.array import Array

KERNELS = (
    "cross_entropy cross_entropy_gradient entropy_total log_softmax log_softmax_gradient softmax softmax_gradient"
).split()

largest, added = np.maximum.reduce, np.add.reduce


def shifted(a: np.ndarray, dim: int, name: str = "softmax") -> tuple[np.ndarray, int]:
    """`a - max(a)` along `dim` (in float32 for half types), and the dimension counted from zero.

    It is C-contiguous, as PyTorch's softmax is: what follows may depend on it (`view`; a dropout mask is drawn in
    the order of memory).
    """
    n = a.ndim
    axis = dim if 0 <= dim < n else geometry.wrap_dim(dim, n)
    if a.dtype.kind not in "fV":
        where = "_lastdim" if axis == n - 1 or not n else ""
        raise NotImplementedError(
            f"\"{name}{where}_kernel_impl\" not implemented for '{dtypes.OF[a.dtype].scalar_name}'"
        )
    a = a if a.flags.c_contiguous else a.copy()
    wide = a if a.dtype.itemsize >= 4 else a.astype(np.float32)
    if not wide.size:
        return wide.copy(), axis
    if not n:
        return np.asarray(wide - wide), 0
    return wide - largest(wide, axis, None, None, True), axis


def softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """exp(a) / sum(exp(a)) along `dim`, C-contiguous."""
    e, axis = shifted(a, dim)
    np.exp(e, out=e)
    if e.size and e.ndim:
        e /= added(e, axis, None, None, True)
    return e if e.dtype is a.dtype else e.astype(a.dtype)


def log_softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """a - log(sum(exp(a))) along `dim`, C-contiguous."""
    s, axis = shifted(a, dim, "log_softmax")
    if s.size and s.ndim:
        s -= np.log(added(np.exp(s), axis, None, None, True))
    return s if s.dtype is a.dtype else s.astype(a.dtype)


def softmax_gradient(g: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    """The gradient of softmax from its output: y * (g - sum(g * y))."""
    d = y.dtype
    if d.itemsize < 4:
        g, y = g.astype(np.float32), y.astype(np.float32)
    if not y.ndim:
        return (y * 0).astype(d)
    t = g * y
    t -= y * added(t, dim, None, None, True)
    return t if t.dtype is d else t.astype(d)


def log_softmax_gradient(g: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    """The gradient of log_softmax from its output: g - exp(y) * sum(g)."""
    d = y.dtype
    if d.itemsize < 4:
        g, y = g.astype(np.float32), y.astype(np.float32)
    if not y.ndim:
        return (g * 0).astype(d)
    t = np.exp(y)
    t *= added(g, dim, None, None, True)
    t = np.subtract(g, t, out=t)
    return t if t.dtype is d else t.astype(d)


def rows_of_classes(a: np.ndarray) -> np.ndarray:
    """(N, C, *) as rows of C, halves in float32."""
    wide = a if a.dtype.itemsize >= 4 else a.astype(np.float32)
    return np.moveaxis(wide, 1, -1).reshape(-1, a.shape[1])


def cross_entropy(
    a: np.ndarray, target: np.ndarray, weight: Array | None, skip: int, smoothing: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cross entropy of logits (N, C, *) and classes (N, *), each with the share `smoothing` of all
    classes: (losses, log(sum(exp(x))), [the sum of losses, that of the classes' weights, how many classes
    are out of range]). Where the class is `skip` the loss and the weight are 0.
    """
    x = rows_of_classes(a)
    n = a.shape[1]
    t = target.reshape(-1)
    keep = (t != skip) & (t >= 0) & (t < n)
    at = np.where(keep, t, 0)
    most = np.arange(len(x)), x.argmax(1)  # of a class that is -inf the difference would be NaN
    sums = x[most] - log_softmax(x, 1)[most]
    w = np.ones(n, x.dtype) if weight is None else weight.astype(x.dtype)
    own = np.where(keep, w[at], 0)
    losses = np.where(keep, (sums - x[np.arange(len(x)), at]) * own, 0)
    if smoothing:
        smooth = np.where(keep, sums * w.sum() - np.where(w == 0, 0, x * w).sum(1), 0)
        losses = (1 - smoothing) * losses + smoothing / n * smooth
    losses = losses.astype(x.dtype)
    wide, bad = np.float64, (t != skip) & ~keep
    totals = np.array([losses.sum(dtype=wide), own.sum(dtype=wide), bad.sum()], wide)
    return losses.reshape(target.shape), sums.reshape(target.shape), totals


def entropy_total(
    totals: np.ndarray, mean: bool, d: np.dtype
) -> tuple[np.ndarray, np.ndarray] | None:
    """The sum or the mean of losses, and what they were divided by, from what `cross_entropy` gives last; None where a class
    is out of range."""
    total, weights, bad = totals.tolist()
    if bad:
        return None
    if not mean:
        return np.asarray(total, d), np.asarray(1.0)
    return np.asarray(total / weights if weights else np.nan, d), np.asarray(weights)


def cross_entropy_gradient(
    g: np.ndarray, a: np.ndarray, target: np.ndarray, weight: Array | None, sums: np.ndarray, skip: int,
    smoothing: float, divisor: np.ndarray,
) -> np.ndarray:  # fmt: skip
    """The gradient of `cross_entropy` by the logits, times g / divisor; g is one number or one for each place."""
    scale = 1 / divisor.item() if divisor else np.nan
    x = rows_of_classes(a)
    n = a.shape[1]
    t = target.reshape(-1)
    keep = (t != skip) & (t >= 0) & (t < n)
    at = np.where(keep, t, 0)
    f = np.where(keep, g.reshape(-1).astype(x.dtype) * x.dtype.type(scale), 0)
    w = np.ones(n, x.dtype) if weight is None else weight.astype(x.dtype)
    hard, soft = (1 - smoothing) * w[at] * f, smoothing / n * f
    out = np.exp(x - sums.reshape(-1, 1)) * (hard + soft * w.sum())[:, None]
    if smoothing:
        out -= soft[:, None] * w
    out[np.arange(len(x)), at] -= hard
    out[~keep] = 0
    last = (a.shape[0], *a.shape[2:], n)
    out = np.moveaxis(out.astype(a.dtype, copy=False).reshape(last), -1, 1)
    return np.ascontiguousarray(out)
