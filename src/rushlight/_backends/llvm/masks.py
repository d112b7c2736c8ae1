"""What masks choose as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.operands import entries
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import contiguous, of_copies
from rushlight._backends.reference import indexing as numpy_indexing
from rushlight._backends.reference import masks as reference
from rushlight._codegen.kernels import index, index_calls
from rushlight._codegen.kernels import mask as kernels
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight._codegen.types import UNITS, Type, of, u8
from rushlight.core.dtype_sets import BOOL, I64

FAR = 1 << 31  # sizes of dimensions are below it


def kind(a: Any) -> Type | None:
    """The type of an array, truth values as bytes; None for what kernels do not read."""
    if a.__class__ is not np.ndarray or not a.flags.aligned or not a.size:
        return None
    return u8 if a.dtype is BOOL else of(a.dtype)


def filling(d: np.dtype, t: Type) -> Any:
    infer = index_calls.masked, {"SIZE": d.itemsize}
    return bind(infer, [d, BOOL, d], [], (index.fill_masked, {"T": t}))


def nonzero_entry(d: np.dtype) -> Any:
    t = u8 if d is BOOL else of(d)
    if t is None:
        return unbound
    return bind((kernels.few_nonzero, {"T": t}), [d], [I64], (kernels.few_coordinates, {"T": t}))


FILL = entries(filling, UNITS)
NONZERO = ByDtype(nonzero_entry)
SELECT, EXPAND = [
    entries(
        lambda d, u, infer=infer, run=run: bind((infer, {}), [d, BOOL], [d], (run, {"U": u})),
        UNITS,
    )
    for infer, run in (
        (kernels.few_selected, kernels.select_few),
        (kernels.few_expanded, kernels.expand_few),
    )
]
PLACE = entries(
    lambda d, u: bind(
        (kernels.few_placed, {"SIZE": d.itemsize}),
        [d, BOOL, d],
        [],
        (kernels.scatter_few, {"U": u}),
    ),
    UNITS,
)


def chunk_starts(x: np.ndarray, t: Type) -> np.ndarray:
    """How many elements before each chunk are not 0, and how many at all."""
    starts = np.empty(-(-x.size // kernels.CHUNK) + 1, np.int64)
    kernels.counted.compiled(T=t)(x, starts, x.size)
    return starts


@implements("nonzero")
@of_copies(NONZERO)
def nonzero(a: np.ndarray) -> np.ndarray:
    """The indices of elements that are not 0, in row-major order: int64 [a.ndim, how many]."""
    t = kind(a) if a.ndim and max(a.shape) < FAR else None
    if t is None:
        return reference.nonzero(a)
    a = contiguous(a)
    starts = chunk_starts(a, t)
    total = int(starts[-1])
    out = np.empty((a.ndim, total), np.int64)
    if a.ndim == 1:
        kernels.indices_of_nonzero.compiled(T=t)(a, starts, out, a.size)
    else:
        run = kernels.coordinates.compiled(T=t)
        run(a, starts, out, a.size, np.array(a.shape), a.ndim, total)
    return out


@implements("masked_select")
@of_copies(SELECT)
def masked_select(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The elements where a mask of the same shape is True, in row-major order, as a vector."""
    unit = UNITS.get(a.dtype.itemsize)
    if (
        unit is None
        or mask.dtype is not BOOL
        or mask.shape != a.shape
        or not (kind(mask) and fit(a))
    ):
        return reference.masked_select(a, mask)
    a, mask = contiguous(a), contiguous(mask)
    starts = chunk_starts(mask, u8)
    out = np.empty(int(starts[-1]), a.dtype)
    kernels.selected.compiled(M=u8, U=unit)(mask, a, starts, out, a.size)
    return out


def fit(a: Any) -> bool:
    """Whether kernels read an array, if it is in order."""
    return a.__class__ is np.ndarray and a.flags.aligned


@implements("masked_expand")
@of_copies(EXPAND)
def masked_expand(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Zeros of the shape of the mask, with `values` in their order where it is True. ValueError for
    another number of values."""
    unit = UNITS.get(values.dtype.itemsize)
    if unit is None or mask.dtype is not BOOL or not (kind(mask) and fit(values)):
        return reference.masked_expand(values, mask)
    values, mask = contiguous(values), contiguous(mask)
    starts = chunk_starts(mask, u8)
    if values.shape != (int(starts[-1]),):
        return reference.masked_expand(values, mask)
    out = np.empty(mask.shape, values.dtype)
    kernels.placed.compiled(M=u8, U=unit, CLEAR=True)(mask, values, starts, out, mask.size)
    return out


@implements("masked_scatter")
def masked_scatter(z: np.ndarray, mask: np.ndarray, values: np.ndarray) -> bool:
    """The elements of `values`, in their order, into `z` where a mask of its shape is True; False, and nothing is
    written, where they are too few. There may be more."""
    if PLACE[z.dtype](z, mask, values):
        return True
    unit = UNITS.get(z.dtype.itemsize)
    if (
        unit is None
        or mask.dtype is not BOOL
        or mask.shape != z.shape
        or values.dtype is not z.dtype
    ):
        return reference.masked_scatter(z, mask, values)
    if not (kind(mask) and z.flags.carray and fit(z) and fit(values)):
        return reference.masked_scatter(z, mask, values)
    if np.may_share_memory(z, mask) or np.may_share_memory(z, values):
        return reference.masked_scatter(z, mask, values)
    values, mask = contiguous(values), contiguous(mask)
    starts = chunk_starts(mask, u8)
    if starts[-1] > values.size:
        return False
    kernels.placed.compiled(M=u8, U=unit, CLEAR=False)(mask, values, starts, z, z.size)
    return True


@implements("fill_masked")
def fill_masked(z: np.ndarray, mask: np.ndarray, value: np.ndarray) -> None:
    """`z[mask] = value`, one number, for a mask that broadcasts to the shape of `z`; in place."""
    if FILL[z.dtype](z, mask, value):
        return None
    if (
        not (fit(z) and z.flags.carray)
        or z.dtype.itemsize not in UNITS
        or mask.shape != z.shape
        or not (kind(mask) and mask.flags.c_contiguous)
        or value.dtype is not z.dtype
        or value.ndim
        or np.may_share_memory(z, mask)
    ):
        return numpy_indexing.fill_masked(z, mask, value)
    t = UNITS[z.dtype.itemsize]
    return index.fill_masked.compiled(T=t)(z, mask, np.array(value), z.size)
