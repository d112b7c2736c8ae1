"""Kernels of losses of the margins between the classes of a row, and of their gradients."""

from __future__ import annotations

import numpy as np

KERNELS = "label_margins label_margins_gradient margins margins_gradient".split()


def margins(
    x: np.ndarray, y: np.ndarray, weight: np.ndarray | None, p: int, margin: float
) -> np.ndarray:
    """Of each row of x [n, c]: the sum of max(0, margin - x[y] + x[j])**p over the other classes j, times the weight
    of y, over c; RuntimeError for a class that is not there."""
    z, factor = _margins(x, y, weight, margin)
    return (np.maximum(z, 0) ** p).sum(1) * factor


def margins_gradient(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, weight: np.ndarray | None, p: int, margin: float, scale: float
) -> np.ndarray:  # fmt: skip
    """The gradient of `margins` by x, times `scale` and g, one number or one for each row."""
    z, factor = _margins(x, y, weight, margin)
    by = np.broadcast_to(g * scale * factor, len(x))[:, None]
    out = np.where(z > 0, (2 * z if p == 2 else np.ones_like(z)) * by, 0).astype(x.dtype)
    out[np.arange(len(x)), y] = -out.sum(1)
    return out


def _margins(x: np.ndarray, y: np.ndarray, weight: np.ndarray | None, margin: float) -> tuple:
    n, c = x.shape
    if y.size and (y.min() < 0 or y.max() >= c):
        raise RuntimeError("target out of range")
    own = (np.arange(n), y)
    z = x.dtype.type(margin) - x[own][:, None] + x
    z[own] = 0
    return z, x.dtype.type(1) / x.dtype.type(c) * (1 if weight is None else weight[y])


def label_margins(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of each row of x [n, c], whose labels are listed in y up to the first below 0: (the sum of
    max(0, 1 - x[label] + x[j]) over labels and classes j that are none, over c; which classes are labels, as 1 or 0).
    RuntimeError for a label that is no class."""
    z, is_label, *_ = _label_margins(x, y)
    return np.maximum(z, 0).sum((1, 2)) / x.dtype.type(x.shape[1]), is_label


def label_margins_gradient(
    g: np.ndarray, x: np.ndarray, y: np.ndarray, is_label: np.ndarray, scale: float
) -> np.ndarray:
    """The gradient of `label_margins` by x, times `scale` and g, one number or one for each row."""
    z, _, rows, at = _label_margins(x, y, is_label)
    by = np.broadcast_to(g * scale / x.dtype.type(x.shape[1]), len(x))[:, None, None]
    slopes = np.where(z > 0, by, 0).astype(x.dtype)
    out = slopes.sum(1)
    np.subtract.at(out, (rows, at), slopes.sum(2))
    return out


def _label_margins(x: np.ndarray, y: np.ndarray, is_label: np.ndarray | None = None) -> tuple:
    """1 - x[label] + x[j] [n, labels, c], 0 where it does not count; is_label; the rows and columns of labels."""
    listed = np.logical_and.accumulate(y >= 0, 1)
    if (listed & (y >= x.shape[1])).any():
        raise RuntimeError("argument #2 'target' is out of range")
    rows, at = np.arange(len(x))[:, None], np.where(listed, y, 0)
    if is_label is None:
        is_label = np.zeros_like(x)
        np.maximum.at(is_label, (np.broadcast_to(rows, at.shape), at), listed.astype(x.dtype))
    z = x.dtype.type(1) - x[rows, at][:, :, None] + x[:, None, :]
    return np.where(listed[:, :, None] & (is_label[:, None, :] == 0), z, 0), is_label, rows, at
