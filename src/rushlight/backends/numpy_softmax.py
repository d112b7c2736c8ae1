"""Kernels of softmax and log-softmax; half types are computed in float32."""

from __future__ import annotations

import numpy as np

from rushlight import dtypes, geometry

largest, added = np.maximum.reduce, np.add.reduce


def shifted(a: np.ndarray, dim: int) -> tuple[np.ndarray, int]:
    """`a - max(a)` along `dim` (in float32 for half types), and the dimension counted from zero."""
    if a.dtype.kind not in "fcV":
        name = dtypes.OF[a.dtype].scalar_name
        raise RuntimeError(f"\"softmax_lastdim_kernel_impl\" not implemented for '{name}'")
    n = a.ndim
    axis = dim if 0 <= dim < n else geometry.wrap_dim(dim, n)
    wide = a if a.dtype.itemsize >= 4 else a.astype(np.float32)
    if not wide.size:
        return wide.copy(), axis
    if not n:
        return np.asarray(wide - wide), 0
    return wide - largest(wide, axis, None, None, True), axis


def softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """exp(a) / sum(exp(a)) along `dim`."""
    e, axis = shifted(a, dim)
    np.exp(e, out=e)
    if e.size and e.ndim:
        e /= added(e, axis, None, None, True)
    return e if e.dtype is a.dtype else e.astype(a.dtype)


def log_softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """a - log(sum(exp(a))) along `dim`."""
    s, axis = shifted(a, dim)
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


def class_entropy(a: np.ndarray, target: np.ndarray, skip: int) -> tuple[np.ndarray, np.ndarray]:
    """(log(sum(exp(row))) - row[target], 0 where the target is `skip`; log(sum(exp(row)))) of rows."""
    logs = log_softmax(a, 1)
    at = np.where(target == skip, 0, target)
    rows = np.arange(len(a))
    losses = np.where(target == skip, a.dtype.type(0), -logs[rows, at])
    return losses, a[rows, at] - logs[rows, at]


def class_entropy_gradient(
    a: np.ndarray, target: np.ndarray, sums: np.ndarray, skip: int, scale: float
) -> np.ndarray:
    """scale * (softmax - 1 at the target) of rows, 0 where the target is `skip`."""
    out = np.exp(a - sums[:, None])
    out[np.arange(len(a)), np.where(target == skip, 0, target)] -= 1
    out[target == skip] = 0
    out *= a.dtype.type(scale)
    return out
