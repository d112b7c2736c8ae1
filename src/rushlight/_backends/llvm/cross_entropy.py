"""Cross entropy as machine code; see `__init__.py` for when it runs, `_codegen/kernels/cross_entropy.py` for how.

Logits of floating dtypes with their classes last, or transposed; classes of int64. Logits of another order in memory, and
classes with gaps, are copied. All else is the reference's.
"""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from rushlight._backends.llvm.batch_normalize import vectors
from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import row_major
from rushlight._backends.reference import layout
from rushlight._backends.reference import softmax as reference
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import cross_entropy as kernels
from rushlight._codegen.kernels import rows as of_rows
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight._codegen.types import of, width
from rushlight.core.dtype_sets import F32, F64, FLOATING, I64, compute_dtype

_rows, _columns = Compiled(kernels.rows_entropy), Compiled(kernels.columns_entropy)
_rows_back, _columns_back = (
    Compiled(kernels.rows_entropy_backward),
    Compiled(kernels.columns_entropy_backward),
)


def ordered(a: Any) -> Any:
    """An array in an order of dimensions that kernels read, or a row-major copy."""
    if a.__class__ is not np.ndarray or a.flags.carray:
        return a
    if a.ndim == 2 and a.T.flags.carray or layout.channels_last(a) and a.flags.aligned:
        return a
    return row_major(a)


def layout_of(a: Any, target: Any, weight: Any) -> tuple[int, int, int] | None:
    """(outer, n, inner) of logits [outer, n, inner] in memory; None where kernels do not take them."""
    if a.__class__ is not np.ndarray or a.dtype not in FLOATING or not a.size:
        return None
    shape = a.shape
    if len(shape) < 2 or target.__class__ is not np.ndarray:
        return None
    n = shape[1]
    if (
        target.dtype is not I64
        or target.shape != (*shape[:1], *shape[2:])
        or not target.flags.carray
        or not vectors(n, weight)
        or weight is not None
        and weight.dtype is not a.dtype
    ):
        return None
    if a.flags.carray:
        return shape[0], n, prod(shape[2:])
    if len(shape) == 2 and a.T.flags.carray:
        return 1, n, shape[0]
    if layout.channels_last(a) and a.flags.aligned:
        return a.size // n, n, 1
    return None


def entries(d: np.dtype) -> Any:
    """The native entry for rows without weights."""
    if d not in FLOATING:
        return unbound
    wide = compute_dtype(d)
    runs = [
        (kernels.rows_entropy_alone, {"SMOOTH": smooth, "T": of(d), "R": of(wide)})
        for smooth in (False, True)
    ]
    return bind((kernels.infer_entropy, {}), [d, I64], [wide, wide, (F64, kernels.TOTALS)], *runs)


@implements("cross_entropy")
@put_entries_before(ByDtype(entries), row_major)
def cross_entropy(
    a: Any, target: Any, weight: Any, skip: int, smoothing: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The cross entropy of logits (N, C, *) and classes (N, *), each with the share `smoothing` of all
    classes: (losses, log(sum(exp(x))), [the sum of losses, that of the classes' weights, how many classes
    are out of range]). Where the class is `skip` the loss and the weight are 0.
    """
    a, target = ordered(a), ordered(target)
    sizes = layout_of(a, target, weight)
    if sizes is None:
        return reference.cross_entropy(a, target, weight, skip, smoothing)
    outer, n, inner = sizes
    d = a.dtype
    losses, sums = (
        np.empty(target.shape, compute_dtype(d)),
        np.empty(target.shape, compute_dtype(d)),
    )
    key = weight is not None, smoothing != 0, d
    w = a if weight is None else weight
    lanes = 1 if inner == 1 else width(of(d))  # type: ignore[arg-type]  # known since layout_of
    tiles = outer * -(-inner // lanes)
    chunks = -(-tiles // max(1, of_rows.CHUNK // (n * lanes)))
    totals = np.empty((chunks, kernels.TOTALS))
    if inner == 1:
        _rows[key](a, target, w, losses, sums, totals, outer, n, skip, smoothing)
    else:
        columns = _columns[key]
        columns(a, target, w, losses, sums, totals, outer, n, inner, skip, smoothing)
    if chunks > 1:
        _added()(totals, chunks)
    return losses, sums, totals[0]


@cache
def _added() -> Any:
    return kernels.added.compiled()


def entropy_total_entry(d: np.dtype) -> Any:
    """The native entry of `entropy_total` for losses of a dtype."""
    if d not in (F32, F64):
        return unbound
    known = {"R": of(d)}
    return bind((kernels.infer_total, {}), [F64], [d, F64], (kernels.entropy_total, known))


_totals = ByDtype(entropy_total_entry)


@implements("entropy_total")
def entropy_total(totals: Any, mean: bool, d: np.dtype) -> tuple[Any, Any] | None:
    """The sum or the mean of losses, and what they were divided by, from what `cross_entropy` gives last; None where a class
    is out of range."""
    found = _totals[d](totals, mean)
    return reference.entropy_total(totals, mean, d) if found is None else found


@implements("cross_entropy_gradient")
def cross_entropy_gradient(
    g: Any, a: Any, target: Any, weight: Any, sums: Any, skip: int, smoothing: float, divisor: Any
) -> np.ndarray:
    """The gradient of `cross_entropy` by the logits, times g / divisor; g is one number or one for each place."""
    a, target, sums = ordered(a), ordered(target), ordered(sums)
    sizes = layout_of(a, target, weight)
    d = sums.dtype
    if (
        sizes is None
        or g.__class__ is not np.ndarray
        or divisor.__class__ is not np.ndarray
        or sums.__class__ is not np.ndarray
        or d is not compute_dtype(a.dtype)
        or sums.shape != target.shape
        or not sums.flags.carray
        or g.size != 1
        and g.shape != target.shape
    ):
        return reference.cross_entropy_gradient(
            g, a, target, weight, sums, skip, smoothing, divisor
        )
    if g.dtype is not d or not g.flags.carray:
        g = np.array(g, d, order="C")
    outer, n, inner = sizes
    key = weight is not None, smoothing != 0, a.dtype
    w = a if weight is None else weight
    out = np.empty_like(a)
    step = 0 if g.size == 1 else 1
    if inner == 1:
        rows = _rows_back[key]
        rows(g, a, target, w, sums, out, outer, n, skip, smoothing, divisor, step)
    else:
        columns = _columns_back[key]
        columns(g, a, target, w, sums, out, outer, n, inner, skip, smoothing, divisor, step)
    return out
