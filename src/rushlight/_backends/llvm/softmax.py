"""Softmax as machine code; see `__init__.py` for when it runs, `_codegen/kernels/softmax.py` for how."""

from __future__ import annotations

from math import prod
from operator import index
from typing import Any

import numpy as np

from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.reduce import brought_last
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import contiguous, in_order, of_copies
from rushlight._backends.reference import reduce as numpy_reduce
from rushlight._backends.reference import softmax as reference
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import shape_inference
from rushlight._codegen.kernels import softmax as kernels
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import FLOATING

_rows = Compiled(kernels.rows_softmax)
_short = Compiled(kernels.short_softmax)
_few = Compiled(kernels.few_softmax)
_columns = Compiled(kernels.columns_softmax)
_rows_back = Compiled(kernels.rows_softmax_backward)
_columns_back = Compiled(kernels.columns_softmax_backward)


def sizes(a: Any, dim: int) -> tuple[int, int, int] | None:
    """(outer, n, inner) of an array [outer, n, inner] whose `dim` has n elements; None for what kernels
    do not take."""
    if a.__class__ is not np.ndarray or a.dtype not in FLOATING or not a.flags.carray:
        return None
    shape, size, dim = a.shape, a.size, index(dim)  # TypeError for 1.0, which equals 1
    last = len(shape) - 1
    if not size or last < 0:
        return None
    if dim == -1 or dim == last:
        n = shape[-1]
        return size // n, n, 1
    if not -last - 1 <= dim < last:
        return None
    n, inner = shape[dim], prod(shape[dim + 1 :])
    return size // (n * inner), n, inner


def exponentials(a: Any, dim: int, log: bool) -> np.ndarray | None:
    found = sizes(a, dim)
    if found is None:
        return None
    outer, n, inner = found
    d = a.dtype
    out = np.empty(a.shape, d)
    if inner > 1:
        _columns[log, d](a, out, outer, n, inner)
    elif n * max(4, d.itemsize) > kernels.SHORT:
        _rows[log, d](a, out, outer, n)
    elif n > kernels.FEW:
        _short[log, d](a, out, outer, n)
    else:
        _few[log, n, d](a, out, outer)
    return out


def entries(log: bool) -> ByDtype:
    """The native entries that do the same."""

    def make(d: np.dtype) -> Any:
        if d not in FLOATING:
            return unbound
        known = {"LOG": log, "T": of(d)}
        infer = (
            shape_inference.softmaxed,
            {"FEW": kernels.FEW, "SHORT": kernels.SHORT // max(4, d.itemsize)},
        )
        runs = kernels.columns_softmax, kernels.rows_softmax, kernels.short_softmax
        few = [(kernels.few_softmax, {"N": n, **known}) for n in range(1, kernels.FEW + 1)]
        return bind(infer, [d], [d], *[(run, known) for run in runs], *few)

    return ByDtype(make)


@implements("softmax")
@of_copies(entries(False))
def softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """exp(a) / sum(exp(a)) along `dim`."""
    out = exponentials(a, dim, False)
    return reference.softmax(a, dim) if out is None else out


@implements("log_softmax")
@of_copies(entries(True))
def log_softmax(a: np.ndarray, dim: int) -> np.ndarray:
    """a - log(sum(exp(a))) along `dim`."""
    out = exponentials(a, dim, True)
    return reference.log_softmax(a, dim) if out is None else out


def gradient(g: Any, y: Any, dim: int, log: bool) -> np.ndarray | None:
    found = sizes(y, dim)
    if (
        found is None
        or g.__class__ is not np.ndarray
        or g.dtype is not y.dtype
        or g.shape != y.shape
    ):
        return None
    g = in_order(g)
    outer, n, inner = found
    out = np.empty(y.shape, y.dtype)
    if inner > 1:
        _columns_back[log, y.dtype](g, y, out, outer, n, inner)
    else:
        _rows_back[log, y.dtype](g, y, out, outer, n)
    return out


@implements("softmax_gradient")
def softmax_gradient(g: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    """The gradient of softmax from its output: y * (g - sum(g * y))."""
    out = gradient(g, y, dim, False)
    return reference.softmax_gradient(g, y, dim) if out is None else out


@implements("log_softmax_gradient")
def log_softmax_gradient(g: np.ndarray, y: np.ndarray, dim: int) -> np.ndarray:
    """The gradient of log_softmax from its output: g - exp(y) * sum(g)."""
    out = gradient(g, y, dim, True)
    return reference.log_softmax_gradient(g, y, dim) if out is None else out


def log_sums(dtype: np.dtype) -> Any:
    """The native entry for rows."""
    if dtype not in FLOATING:
        return unbound
    return bind(
        (shape_inference.rows_only, {}), [dtype], [dtype], (kernels.rows_log_sum, {"T": of(dtype)})
    )


LOG_SUMS = ByDtype(log_sums)
SHORT, FEW = 16, 256  # more than FEW rows of less than SHORT elements are faster in NumPy


@implements("logsumexp")
@put_entries_before(LOG_SUMS)
def logsumexp(a: Any, axis: Any, keepdims: bool) -> Any:
    """log(sum(exp(a))) over dimensions, which a copy has last where they are not."""
    if a.__class__ is np.ndarray and a.dtype in FLOATING and a.size and a.ndim:
        over = (axis,) if axis.__class__ is int else axis or tuple(range(a.ndim))
        order, rows, shape = brought_last(a.shape, over, keepdims)
        if rows[1] >= SHORT or rows[0] <= FEW:
            r = LOG_SUMS[a.dtype](contiguous(a.transpose(order)).reshape(rows), 1, False)
            if r is not None:
                return r.reshape(shape)
    return numpy_reduce.logsumexp(a, axis, keepdims)
