"""Reading and writing at indices as machine code; see `compiled.py` for when it runs.

No index reaches a kernel before it was seen to be in range.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight.backends import numpy_indexing as reference
from rushlight.backends.compiled import threshold
from rushlight.compiler.kernels import index as kernels
from rushlight.compiler.types import Type, i32, i64, of, u8, u16, u32, u64

SMALL = max(1, threshold(512))  # elements from which a kernel takes less time than NumPy
UNITS = {1: u8, 2: u16, 4: u32, 8: u64}  # what is only moved needs no more than a size
ADDED = frozenset("fdliq")  # dtype.char of what kernels add
Ints = tuple[int, ...]


def plain(a: Any) -> bool:
    return a.__class__ is np.ndarray and a.flags.c_contiguous and a.flags.aligned


def index_type(index: Any) -> Type | None:
    """The type of an array of indices, in order; None for what kernels do not read."""
    if not plain(index) or not index.size or not index.dtype.isnative:
        return None
    return {"l": i64, "q": i64, "i": i32}.get(index.dtype.char)


def in_range(index: np.ndarray, t: Type, n: int) -> bool:
    out = np.zeros(1, np.int64)
    kernels.look.compiled(I=t)(index, out, index.size, n)
    return not out[0]


def out_of_range(index: np.ndarray, size: int) -> int | None:
    """An index that is negative or not below `size`, or None."""
    t = index_type(index)
    if t is None or index.size < 64:
        return reference.out_of_range(index, size)
    return None if in_range(index, t, size) else reference.out_of_range(index, size)


# -- one index for a slice -------------------------------------------------------------------------


def take_slices(a: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray | None:
    """The slices of `a` along `axis` that `index`, of any shape, names; None where an index is out of
    range."""
    t = index_type(index)
    if (
        t is None
        or not plain(a)
        or a.dtype.itemsize not in UNITS
        or not -a.ndim <= axis < a.ndim
        or not a.size
    ):
        return reference.take_slices(a, index, axis)
    axis %= a.ndim
    n, inner = a.shape[axis], prod(a.shape[axis + 1 :])
    outer = prod(a.shape[:axis])
    if outer * index.size * inner < SMALL:
        return reference.take_slices(a, index, axis)
    if not in_range(index, t, n):
        return None
    out = np.empty((*a.shape[:axis], *index.shape, *a.shape[axis + 1 :]), a.dtype)
    run = kernels.take_slices.compiled(ONE=inner == 1, U=UNITS[a.dtype.itemsize], I=t)
    run(a, index, out, outer, n, index.size, inner)
    return out


def added(z: np.ndarray, index: np.ndarray, axis: int, values: np.ndarray) -> bool:
    """What `add_slices` does, where a kernel can do it."""
    index = np.ascontiguousarray(index)
    t = index_type(index)
    if (
        t is None
        or not plain(z)
        or not z.flags.writeable
        or z.dtype.char not in ADDED
        or values.dtype is not z.dtype
        or values.size < SMALL
        or values.shape != (*z.shape[:axis], index.size, *z.shape[axis + 1 :])
        or not in_range(index, t, z.shape[axis])
    ):
        return False
    values = np.ascontiguousarray(values)
    if np.may_share_memory(z, values) or np.may_share_memory(z, index):
        return False
    inner = prod(z.shape[axis + 1 :])
    run = kernels.add_slices.compiled(ONE=inner == 1, T=of(z.dtype), I=t)
    run(z, index, values, prod(z.shape[:axis]), z.shape[axis], index.size, inner)
    return True


def add_slices(z: np.ndarray, index: np.ndarray, axis: int, values: np.ndarray) -> None:
    """`z` along `axis` at index[k] += the k-th slice of `values`, one after the other; in place."""
    if not added(z, index, axis, values):
        reference.add_slices(z, index, axis, values)


def add_rows(z: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """`z[rows[k]] += values[k]` for each k in turn; rows may repeat. `z` (R, C), `values` (K, C)."""
    if not added(z, rows, 0, values):
        reference.add_rows(z, rows, values)


def index_add_at(z: np.ndarray, key: tuple, values: np.ndarray) -> None:
    """`z[key] += values`, where positions that occur several times add up."""
    at = [d for d, k in enumerate(key) if k.__class__ is np.ndarray]
    if len(at) == 1 and key[at[0]].dtype.kind == "i" and values.size >= SMALL:
        d = at[0]
        index, (before, n, after) = key[d], (z.shape[:d], z.shape[d], z.shape[d + 1 :])
        shape = (*before, *index.shape, *after)
        if values.shape == shape and z.size:
            index = np.where(index < 0, index + n, index).reshape(-1)
            if added(z, index, d, values.reshape(*before, index.size, *after)):
                return
    reference.index_add_at(z, key, values)


def cleared(shape: Ints, dtype: np.dtype) -> np.ndarray:
    """Zeros that threads write."""
    z = np.empty(shape, dtype)
    if z.nbytes < 1 << 16:
        z.fill(0)
    else:
        kernels.clear.compiled(T=UNITS[dtype.itemsize])(z, z.size)
    return z


def slices_added(shape: Ints, index: np.ndarray, axis: int, values: np.ndarray) -> np.ndarray:
    """Zeros of `shape`, and slices added as `add_slices` does it."""
    if values.dtype.itemsize not in UNITS:
        return reference.slices_added(shape, index, axis, values)
    z = cleared(shape, values.dtype)
    add_slices(z, index, axis, values)
    return z


# -- one index for an element ----------------------------------------------------------------------


def sizes(shape: Ints, index: np.ndarray, dim: int) -> tuple[int, int, int, int] | None:
    """(outer, n, k, inner) where `index` has all sizes of `shape` but that of `dim`."""
    if len(shape) != index.ndim or not index.size:
        return None
    if shape[:dim] != index.shape[:dim] or shape[dim + 1 :] != index.shape[dim + 1 :]:
        return None
    return prod(shape[:dim]), shape[dim], index.shape[dim], prod(shape[dim + 1 :])


def gather_along(a: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray | None:
    """`result[i][j] = a[i][index[i][j]]` for dim 1, and so on; None where an index is out of range."""
    if index.size >= SMALL and plain(a) and a.dtype.itemsize in UNITS:
        index = np.ascontiguousarray(index)
        t, found = index_type(index), sizes(a.shape, index, dim)
        if t is not None and found is not None:
            out, bad = np.empty(index.shape, a.dtype), np.zeros(1, np.int64)
            run = kernels.gather_along.compiled(ONE=found[3] == 1, U=UNITS[a.dtype.itemsize], I=t)
            run(a, index, out, bad, *found)
            return None if bad[0] else out
    return reference.gather_along(a, index, dim)


def write_along(
    z: np.ndarray, index: np.ndarray, dim: int, values: np.ndarray, add: bool = False
) -> bool:
    """`z` at the places that `index` names along `dim` = values, or += values, in place; False, and
    nothing is written, where an index is out of range."""
    chars = ADDED if add else None
    if (
        index.size >= SMALL
        and plain(z)
        and z.flags.writeable
        and z.dtype.itemsize in UNITS
        and (chars is None or z.dtype.char in chars)
        and values.dtype is z.dtype
        and values.__class__ is np.ndarray
        and (values.ndim == 0 or values.shape == index.shape)
    ):
        index, values = np.ascontiguousarray(index), np.asarray(values, order="C")
        t, found = index_type(index), sizes(z.shape, index, dim)
        if (
            t is not None
            and found is not None
            and values.flags.aligned
            and not np.may_share_memory(z, values)
            and not np.may_share_memory(z, index)
        ):
            if not in_range(index, t, z.shape[dim]):
                return False
            kind = of(z.dtype) if add else UNITS[z.dtype.itemsize]
            run = kernels.write_along.compiled(
                ADD=add, ONE=found[3] == 1, SAME=values.ndim == 0, T=kind, I=t
            )
            run(z, index, values, *found)
            return True
    return reference.write_along(z, index, dim, values, add)


def add_along(shape: Ints, index: np.ndarray, dim: int, values: np.ndarray) -> np.ndarray:
    """Zeros of `shape` with `values` added where `index` says along `dim`."""
    if index.size < SMALL or values.dtype.char not in ADDED:
        return reference.add_along(shape, index, dim, values)
    z = cleared(shape, values.dtype)
    if not write_along(z, index, dim, values, True):
        raise IndexError(f"an index is out of range for dimension {dim} of size {shape[dim]}")
    return z
