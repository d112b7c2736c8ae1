"""Softmax as machine code; see `compiled.py` for when it runs, `compiler/kernels/softmax.py` for how."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.backends import numpy_softmax as reference
from rushlight.backends.operands import takes
from rushlight.compiler.kernels import softmax as kernels
from rushlight.compiler.types import of

INT64 = np.dtype(np.int64)


def run(rows: Any, columns: Any, log: bool, dim: int, *arrays: np.ndarray) -> np.ndarray | None:
    """A new array from kernels on C-contiguous arrays of one shape; None where they are not."""
    a = arrays[-1]
    if not takes(a) or not -a.ndim <= dim < a.ndim:
        return None
    for other in arrays:
        if other.dtype is not a.dtype or other.shape != a.shape or not other.flags.carray:
            return None
    dim %= a.ndim
    n, inner = a.shape[dim], prod(a.shape[dim + 1 :])
    out = np.empty(a.shape, a.dtype)
    t = of(a.dtype)
    if inner == 1:
        rows.compiled(LOG=log, T=t)(*arrays, out, a.size // n, n)
    else:
        columns.compiled(LOG=log, T=t)(*arrays, out, a.size // (n * inner), n, inner)
    return out


def softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """exp(a) / sum(exp(a)) along `dim`."""
    out = run(kernels.rows_softmax, kernels.columns_softmax, False, dim, a)
    return reference.softmax(a, dim) if out is None else out


def log_softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """a - log(sum(exp(a))) along `dim`."""
    out = run(kernels.rows_softmax, kernels.columns_softmax, True, dim, a)
    return reference.log_softmax(a, dim) if out is None else out


def softmax_gradient(g: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    """The gradient of softmax from its output: y * (g - sum(g * y))."""
    rows, columns = kernels.rows_softmax_backward, kernels.columns_softmax_backward
    out = run(rows, columns, False, dim, g, y)
    return reference.softmax_gradient(g, y, dim) if out is None else out


def log_softmax_gradient(g: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    """The gradient of log_softmax from its output: g - exp(y) * sum(g)."""
    rows, columns = kernels.rows_softmax_backward, kernels.columns_softmax_backward
    out = run(rows, columns, True, dim, g, y)
    return reference.log_softmax_gradient(g, y, dim) if out is None else out


def rows_of_classes(a: Any, target: Any) -> bool:
    """Whether kernels take them: rows of float32 or float64, and int64 targets for each."""
    return (
        takes(a)
        and a.ndim == 2
        and a.dtype.char in "fd"
        and a.flags.carray
        and target.dtype is INT64
        and target.shape == a.shape[:1]
        and target.flags.carray
    )


def class_entropy(a: np.ndarray, target: np.ndarray, skip: int) -> tuple[np.ndarray, np.ndarray]:
    """(the loss of each row, log(sum(exp(row))))."""
    if not rows_of_classes(a, target):
        return reference.class_entropy(a, target, skip)
    rows, n = a.shape
    losses, sums = np.empty(rows, a.dtype), np.empty(rows, a.dtype)
    kernels.class_entropy.compiled(T=of(a.dtype))(a, target, losses, sums, rows, n, skip)
    return losses, sums


def class_entropy_gradient(
    a: np.ndarray, target: np.ndarray, sums: np.ndarray, skip: int, scale: float
) -> np.ndarray:
    """scale * (softmax - 1 at the target) of rows, 0 where the target is `skip`."""
    if (
        not rows_of_classes(a, target)
        or sums.dtype is not a.dtype
        or sums.shape != a.shape[:1]
        or not sums.flags.carray
    ):
        return reference.class_entropy_gradient(a, target, sums, skip, scale)
    rows, n = a.shape
    out = np.empty(a.shape, a.dtype)
    kernel = kernels.class_entropy_backward.compiled(T=of(a.dtype))
    kernel(a, target, sums, out, rows, n, skip, scale)
    return out
