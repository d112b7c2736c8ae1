"""Softmax as machine code; see `__init__.py` for when it runs, `compiler/kernels/softmax.py` for how."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.backends.compiled.operands import known
from rushlight.backends.reference import reduce as numpy_reduce
from rushlight.backends.reference import softmax as reference
from rushlight.compiler.kernels import softmax as kernels
from rushlight.compiler.types import of


def run(rows: Any, columns: Any, log: bool, dim: int, *arrays: np.ndarray) -> np.ndarray | None:
    """A new array from kernels on C-contiguous arrays of one shape; None where they are not."""
    a = arrays[-1]
    if not known(a) or not a.size or not -a.ndim <= dim < a.ndim:
        return None
    for other in arrays:
        if other.dtype is not a.dtype or other.shape != a.shape or not other.flags.carray:
            return None
    dim %= a.ndim
    n, inner = a.shape[dim], prod(a.shape[dim + 1 :])
    out = np.empty(a.shape, a.dtype)
    t = of(a.dtype)
    if inner == 1 and n <= kernels.FEW and rows is kernels.rows_softmax:
        kernels.few_softmax.compiled(LOG=log, N=n, T=t)(a, out, a.size // n)
    elif inner == 1:
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


def logsumexp(a: Any, axis: Any, keepdims: bool) -> Any:
    """log(sum(exp(a))) along an axis."""
    axes = axis if axis.__class__ is tuple else (axis,)
    if (
        not known(a)
        or not a.size
        or len(axes) != 1
        or axes[0] not in (-1, a.ndim - 1)
        or a.ndim < 2
    ):
        return numpy_reduce.logsumexp(a, axis, keepdims)
    if not a.flags.carray:
        return numpy_reduce.logsumexp(a, axis, keepdims)
    out = np.empty((*a.shape[:-1], 1) if keepdims else a.shape[:-1], a.dtype)
    kernels.rows_log_sum.compiled(T=of(a.dtype))(a, out, out.size, a.shape[-1])
    return out
