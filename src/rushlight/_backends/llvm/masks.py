"""What masks choose as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import masks as reference
from rushlight._codegen.kernels import mask as kernels
from rushlight._codegen.kernels.copy import UNITS
from rushlight._codegen.types import Type, of, u8
from rushlight.core.dtype_sets import BOOL

SMALL = max(1, threshold(2048))  # elements from which a kernel takes less time than NumPy
FAR = 1 << 31  # sizes of dimensions are below it


def kind(a: Any) -> Type | None:
    """The type of an array in row-major order, truth values as bytes; None for what kernels do not
    read."""
    if a.__class__ is not np.ndarray or not a.flags.c_contiguous or not a.flags.aligned:
        return None
    return u8 if a.dtype is BOOL else of(a.dtype)


def chunk_starts(x: np.ndarray, t: Type) -> np.ndarray:
    """How many elements before each chunk are not 0, and how many at all."""
    starts = np.empty(-(-x.size // kernels.CHUNK) + 1, np.int64)
    kernels.counted.compiled(T=t)(x, starts, x.size)
    return starts


@implements("nonzero")
def nonzero(a: np.ndarray) -> np.ndarray:
    """The indices of elements that are not 0, in row-major order: int64 [a.ndim, how many]."""
    t = kind(a) if a.size >= SMALL and a.ndim and max(a.shape) < FAR else None
    if t is None:
        return reference.nonzero(a)
    starts = chunk_starts(a, t)
    total = int(starts[-1])
    out = np.empty((a.ndim, total), np.int64)
    if a.ndim == 1:
        kernels.places_of.compiled(T=t)(a, starts, out, a.size)
    else:
        run = kernels.coordinates.compiled(T=t)
        run(a, starts, out, a.size, np.array(a.shape), a.ndim, total)
    return out


@implements("masked_select")
def masked_select(a: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """The elements where a mask of the same shape is True, in row-major order, as a vector."""
    unit = UNITS.get(a.dtype.itemsize)
    if (
        unit is None
        or a.size < SMALL
        or mask.dtype is not BOOL
        or mask.shape != a.shape
        or kind(mask) is None
        or a.__class__ is not np.ndarray
        or not a.flags.c_contiguous
        or not a.flags.aligned
    ):
        return reference.masked_select(a, mask)
    starts = chunk_starts(mask, u8)
    out = np.empty(int(starts[-1]), a.dtype)
    kernels.selected.compiled(M=u8, U=unit)(mask, a, starts, out, a.size)
    return out


@implements("masked_expand")
def masked_expand(values: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Zeros of the shape of the mask, with `values` in their order where it is True. ValueError for
    another number of values."""
    unit = UNITS.get(values.dtype.itemsize)
    if (
        unit is None
        or mask.size < SMALL
        or mask.dtype is not BOOL
        or kind(mask) is None
        or values.__class__ is not np.ndarray
    ):
        return reference.masked_expand(values, mask)
    starts = chunk_starts(mask, u8)
    values = np.ascontiguousarray(values)
    if values.shape != (int(starts[-1]),) or not values.flags.aligned:
        return reference.masked_expand(values, mask)
    out = np.empty(mask.shape, values.dtype)
    kernels.placed.compiled(M=u8, U=unit, CLEAR=True)(mask, values, starts, out, mask.size)
    return out
