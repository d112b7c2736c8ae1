"""Distances of rows as machine code; see `__init__.py` for when it runs, `_codegen/kernels/distances.py` for
how.

float32 and float64, C-contiguous or copied so, by the norms 0, 1, 2 and infinity.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import in_order, row_major
from rushlight._codegen.kernels import distances as kernels
from rushlight.core.dtype_sets import FULL

NORMS = {
    0.0: kernels.NONZERO,
    1.0: 1,
    2.0: 2,
    float("inf"): kernels.LARGEST,
}  # as kernels call them
SMOOTH = set(NORMS) - {0.0}  # those with a gradient

_distances, _own_distances = Compiled(kernels.distances), Compiled(kernels.own_distances)
_gradient, _own_gradient = (
    Compiled(kernels.distances_gradient),
    Compiled(kernels.own_distances_gradient),
)


def of_one_dtype(*arrays: Any) -> bool:
    """Whether all are arrays with elements, of the dtype of the first."""
    d = arrays[0].dtype
    return all(a.__class__ is np.ndarray and a.dtype is d and a.size > 0 for a in arrays)


def transposed(a: np.ndarray) -> np.ndarray:
    """[..., n, k] as [..., k, n] in memory."""
    return row_major(a.swapaxes(-1, -2))


def fits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether they are rows of one length, in the same batches."""
    return a.ndim > 1 and a.shape[:-2] == b.shape[:-2] and a.shape[-1] == b.shape[-1]


@implements("cdist", dtypes=FULL, least=1)
def cdist(a: Any, b: Any, p: float) -> Any:
    """The p-norm distances of all rows of [..., n, k] to all rows of [..., m, k]."""
    if p not in NORMS or not of_one_dtype(a, b) or not fits(a, b):
        return NotImplemented
    (n, k), m = a.shape[-2:], b.shape[-2]
    out = np.empty((*a.shape[:-1], m), a.dtype)
    kernel = _distances[NORMS[p], a.dtype]
    kernel(in_order(a), transposed(b), out, a.size // (n * k), n, m, k)
    return out


@implements("cdist_gradient", dtypes=FULL, least=1)
def cdist_gradient(g: Any, d: Any, a: Any, b: Any, p: float) -> Any:
    """The gradient of `distances` d by `a`; g and d may be those of b to `a`, as a view."""
    shape = (*a.shape[:-1], b.shape[-2]) if a.ndim > 1 and b.ndim > 1 else None
    if (
        p not in SMOOTH
        or not of_one_dtype(g, d, a, b)
        or not fits(a, b)
        or g.shape != shape
        or d.shape != shape
    ):
        return NotImplemented
    (n, k), m = a.shape[-2:], b.shape[-2]
    down, across = m, 1
    back = d.swapaxes(-1, -2)
    if back.flags.carray and not d.flags.carray:
        g, d, down, across = g.swapaxes(-1, -2), back, 1, n
    out = np.empty(a.shape, a.dtype)
    kernel = _gradient[NORMS[p], a.dtype]
    batches = a.size // (n * k)
    kernel(in_order(g), in_order(d), in_order(a), in_order(b), out, batches, n, m, k, down, across)
    return out


@implements("pdist", dtypes=FULL, least=1)
def pdist(a: Any, p: float) -> Any:
    """The p-norm distances of the pairs (i, j), i < j, of rows of [n, k]."""
    if p not in NORMS or a.ndim != 2:
        return NotImplemented
    n, k = a.shape
    out = np.empty(n * (n - 1) // 2, a.dtype)
    if not out.size:
        return out
    _own_distances[NORMS[p], a.dtype](in_order(a), transposed(a), out, n, k)
    return out


@implements("pdist_gradient", dtypes=FULL, least=1)
def pdist_gradient(g: Any, d: Any, a: Any, p: float) -> Any:
    """The gradient of `pdist` d by `a`."""
    if p not in SMOOTH or not of_one_dtype(g, d, a) or a.ndim != 2:
        return NotImplemented
    n, k = a.shape
    if g.shape != (n * (n - 1) // 2,) or d.shape != g.shape:
        return NotImplemented
    out = np.empty(a.shape, a.dtype)
    kernel = _own_gradient[NORMS[p], a.dtype]
    kernel(in_order(g), in_order(d), in_order(a), out, n, k)
    return out
