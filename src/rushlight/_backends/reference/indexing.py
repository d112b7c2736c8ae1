"""Kernels that read and write at index arrays."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from rushlight._backends.reference.views import as_strided, element_strides, extent
from rushlight.core.dtype_sets import REDUCED

KERNELS = (
    "add_rows as_strided_gradient at_index fill_masked gather gather_gradient gather_key index_add_at "
    "index_put index_select index_select_gradient index_take out_of_range put_slices reduce_at reduce_slices "
    "scatter scatter_reduce"
).split()


def at_index(a: np.ndarray, index: Any, values: Any = None, add: bool = False) -> Any:
    """`a[index]` as a new array for an index with index tensors or arrays of them, whatever else is in it; with `values`, True
    where they were written (or added) there. None, and nothing is done, for what is left to who calls: here, all."""
    return None


def index_take(a: np.ndarray, key: tuple) -> np.ndarray:
    """`a[key]` for a tuple of full slices and index arrays, in the layout PyTorch gives it."""
    if len(key) == 1 and a.flags.c_contiguous and key[0].flags.c_contiguous:
        k = key[0]
        if k.dtype.kind != "b":
            return a.take(k, 0)
        if k.shape == a.shape and a.ndim:
            from rushlight._backends import cpu as xp

            return xp.masked_select(a, k)
        return a[k]
    at = [d for d, k in enumerate(key) if k.__class__ is np.ndarray]
    if len(at) == 1 and key[at[0]].dtype.kind != "b" and a.flags.c_contiguous:  # else it copies `a`
        r = np.take(a, key[at[0]], axis=at[0])
    else:
        r = a[key]
    if 1 in r.shape or not in_rows(a) or not all(key[d].flags.c_contiguous for d in at):
        return index_layout(a, key, r)
    return r if r.flags.c_contiguous else r.copy(order="C")


def in_rows(a: np.ndarray) -> bool:
    """Whether the dimensions of an array are in the order of a row-major one; it may have gaps."""
    strides = a.strides
    return a.flags.c_contiguous or all(s > t > 0 for s, t in pairwise(strides))


def index_put(z: np.ndarray, key: tuple, values: np.ndarray) -> None:
    """`z[key] = values` for a tuple of full slices and index arrays, in place."""
    z[key] = values


def index_layout(a: np.ndarray, key: tuple, r: np.ndarray) -> np.ndarray:
    """`r`, the result of `a[key]`, in the order of dimensions that `a` and the indices have."""
    from rushlight.core import geometry

    key = tuple(
        [
            j
            for k in key
            for j in (k.nonzero() if k.__class__ is not slice and k.dtype.kind == "b" else (k,))
        ]
    )
    arrays = [k for k in key if k.__class__ is not slice]
    n = max(k.ndim for k in arrays)
    first = place_of_index(key)
    rest = [s for d, s in enumerate(a.strides) if d >= len(key) or key[d].__class__ is slice]
    source = (*rest[:first], *(0,) * n, *rest[first:])
    operands = [(r.shape, source)]
    after = r.ndim - first - n
    for k in arrays:
        shape = (1,) * (first + n - k.ndim) + k.shape + (1,) * after
        seen = geometry.view_strides(k.shape, element_strides(k), shape)
        operands.append((shape, seen or geometry.contiguous_strides(shape)))
    strides = tuple([s * r.itemsize for s in geometry.elementwise_strides(r.shape, operands)])
    if strides == r.strides:
        return r
    laid = as_strided(np.empty(r.size, r.dtype), r.shape, strides)
    laid[...] = r
    return laid


def index_rows(shape: tuple, key: tuple) -> tuple[np.ndarray, tuple, tuple]:
    """(rows, order, rest): what `key` selects, as numbers of rows.

    With the dimensions of an array of `shape` in the order `order` (the indexed ones first), it is a
    matrix whose rows have the shape `rest`; `rows` has the shape of the index arrays together.
    """
    at, arrays = [], []
    d = 0
    for k in key:
        if k.__class__ is np.ndarray and k.dtype.kind == "b":
            arrays += k.nonzero()
            at += range(d, d + k.ndim)
            d += k.ndim
            continue
        if k.__class__ is np.ndarray:
            arrays.append(np.where(k < 0, k + shape[d], k))
            at.append(d)
        d += 1
    rows = 0
    for i, k in zip(at, arrays):
        rows = rows * shape[i] + k.astype(np.int64, copy=False)
    others = tuple(i for i in range(len(shape)) if i not in at)
    return np.asarray(rows), (*at, *others), tuple(shape[i] for i in others)


def place_of_index(key: tuple) -> int:
    """Where the dimensions of the index arrays go in the result: in place if adjacent, else first."""
    at, d = [], 0
    for k in key:
        if k.__class__ is np.ndarray:
            n = k.ndim if k.dtype.kind == "b" else 1
            at += range(d, d + n)
            d += n
        else:
            d += 1
    return at[0] if at and at[-1] - at[0] == len(at) - 1 else 0


ROUNDS = 32  # rows that come more often are summed one by one


def add_rows(z: np.ndarray, rows: np.ndarray, values: np.ndarray) -> None:
    """`z[rows[k]] += values[k]` for each k in turn; rows may repeat. `z` (R, C), `values` (K, C)."""
    if not rows.size or not z.size:
        return
    if z.shape[1] == 1:
        np.add.at(z[:, 0], rows, values[:, 0])
        return
    order = rows.argsort(kind="stable")
    rows = rows[order]
    starts = np.flatnonzero(np.concatenate(([True], rows[1:] != rows[:-1])))
    counts = np.diff(starts, append=rows.size)
    z[rows[starts]] += values[order[starts]]
    left = np.flatnonzero(counts > 1)  # runs with more to come; add.reduceat is ten times slower
    for k in range(1, ROUNDS):
        if not left.size:
            return
        z[rows[starts[left]]] += values[order[starts[left] + k]]
        left = left[counts[left] > k + 1]
    for run in left:
        first = starts[run]
        z[rows[first]] += values[order[first + ROUNDS : first + counts[run]]].sum(0, z.dtype)


def index_select(a: np.ndarray, index: np.ndarray, axis: int) -> np.ndarray | None:
    """The slices of `a` along `axis` that `index`, of any shape, names; None where an index is out of
    range."""
    if out_of_range(index, a.shape[axis]) is not None:
        return None
    return a.take(index, axis, mode="clip")  # faster than the mode that looks at the range again


def widely(z: np.ndarray, values: np.ndarray, add: Callable[[np.ndarray, np.ndarray], Any]) -> Any:
    """What `add(z, values)` gives, with the sums of a half type made in float32 and rounded once.

    PyTorch does so for places that an index names for each element, and for slices where `sums_are_wide`. Sums at single
    indices, and those of `index_reduce`, are rounded at each step.
    """
    if z.dtype not in REDUCED:
        return add(z, values)
    wide = z.astype(np.float32)
    done = add(wide, values.astype(np.float32))
    if done is not False:
        z[...] = wide.astype(z.dtype)
    return done


def sums_are_wide(z: np.ndarray, index: np.ndarray, axis: int) -> bool:
    """Whether `put_slices` rounds the sums of a half type once: those along the first or the last dimension of two or
    more, by an index of int64."""
    return z.dtype in REDUCED and z.ndim > 1 and axis in (0, z.ndim - 1) and index.dtype == np.int64


def put_slices(z: np.ndarray, index: np.ndarray, axis: int, values: np.ndarray, add: bool) -> bool:
    """`z` along `axis` at index[k] = (or +=) the k-th slice of `values`, or one number, in place; False,
    and nothing is written, where an index is out of range."""
    if out_of_range(index, z.shape[axis]) is not None:
        return False
    key = (*(slice(None),) * axis, index)
    if add:
        with np.errstate(all="ignore"):
            if sums_are_wide(z, index, axis):
                widely(z, values, lambda wide, given: index_add_at(wide, key, given))
            else:
                index_add_at(z, key, values)
    else:
        z[key] = values
    return True


def index_select_gradient(
    shape: tuple, index: np.ndarray, axis: int, values: np.ndarray
) -> np.ndarray:
    """Zeros of `shape`; along `axis` at index[k] += the k-th slice of `values`, one after the other."""
    z = np.zeros(shape, values.dtype)
    put_slices(z, index, axis, values, True)
    return z


FEW = 256  # elements: up to here one by one is quicker than sorted and in rows


def index_add_at(z: np.ndarray, key: tuple, values: np.ndarray) -> None:
    """`z[key] += values`, where positions that occur several times add up."""
    if all(k.__class__ is slice or k.dtype.kind == "b" for k in key) and (
        sum(k.__class__ is np.ndarray for k in key) == 1
    ):
        z[key] += values  # one mask: every position once
        return
    if values.size <= FEW and z.dtype.kind == "f" and z.itemsize > 2:
        np.add.at(z, key, values)
        return
    from rushlight._backends import cpu as xp

    rows, order, rest = index_rows(z.shape, key)
    at = place_of_index(key)
    whole = z.transpose(order)
    shape = whole.shape
    n = len(shape) - len(rest)
    result_shape = (*rest[:at], *rows.shape, *rest[at:])
    values = np.broadcast_to(values, result_shape)
    k = rows.ndim  # the dimensions of the index arrays to the front
    values = values.transpose((*range(at, at + k), *range(at), *range(at + k, values.ndim)))
    columns = prod(rest)
    values = values.reshape(rows.size, columns)
    flat = whole.reshape((prod(shape[:n]), columns))
    xp.add_rows(flat, rows.reshape(-1), values)
    if not np.may_share_memory(flat, z):
        whole[...] = flat.reshape(shape)


def distinct(shape: tuple, strides: tuple) -> bool:
    """Whether it is certain that there are elements, and each has a place of its own."""
    reach = 0  # of the dimensions with smaller strides
    for step, n in sorted(zip(strides, shape)):
        if n != 1:
            if not n or step <= reach:
                return False
            reach += (n - 1) * step
    return True


def as_strided_gradient(a: np.ndarray, source: tuple, target: tuple, mean: str) -> np.ndarray:
    """Add `a` into zeroed memory under the geometry `source`, read it under `target`.

    A geometry is (shape, strides, offset), in elements. `mean`: under which of the two ("from",
    "to") elements at one place share its value.
    """
    low = min(source[2], target[2])
    if distinct(*source[:2]) and distinct(*target[:2]):
        size = max(at + extent(shape, steps) for shape, steps, at in (source, target)) - low
        memory = (np.empty if size == a.size else np.zeros)(size, a.dtype)
        k = memory.itemsize
        place, read = (
            as_strided(memory, shape, tuple([s * k for s in steps]), (at - low) * k)
            for shape, steps, at in (source, target)
        )
        place[...] = a
        return read if read.size == size else read.copy(order="C")
    places = np.arange(
        max(
            max(offset + extent(shape, strides) for shape, strides, offset in (source, target))
            - low,
            1,
        )
    )
    k = places.itemsize
    at = {
        end: as_strided(places, shape, tuple([s * k for s in strides]), (offset - low) * k).reshape(
            -1
        )
        for end, (shape, strides, offset) in (("from", source), ("to", target))
        if 0 not in shape
    }
    if len(at) < 2:
        return np.zeros(target[0], a.dtype)
    count = np.bincount(at[mean], minlength=places.size)[at[mean]]
    shared = count.max() > 1
    values = a.reshape(-1)
    if shared and mean == "from":
        values = (values / count).astype(a.dtype)
    memory = np.zeros((places.size, 1), a.dtype)
    add_rows(memory, at["from"], values[:, None])
    result = memory[:, 0][at["to"]]
    if shared and mean == "to":
        result = (result / count).astype(a.dtype)
    return result.reshape(target[0])


# -- one index per element, along a dimension ------------------------------------------------------


def gather_key(index: np.ndarray, dim: int) -> tuple:
    """The key that reads, for each element of `index`, the place it names along `dim`."""
    n = index.ndim
    key: list = []
    for d, size in enumerate(index.shape):
        if d == dim:
            key.append(index)
        else:
            key.append(np.arange(size).reshape((1,) * d + (size,) + (1,) * (n - d - 1)))
    return tuple(key)


def out_of_range(index: np.ndarray, size: int) -> int | None:
    """An index that is negative or not below `size`, or None."""
    if not index.size:
        return None
    low, high = index.min(), index.max()
    return int(low) if low < 0 else int(high) if high >= size else None


def gather(a: np.ndarray, index: np.ndarray, dim: int) -> np.ndarray | None:
    """`result[i][j] = a[i][index[i][j]]` for dim 1, and so on; None where an index is out of range."""
    if out_of_range(index, a.shape[dim]) is not None:
        return None
    r = a[gather_key(index, dim)]
    return r if r.flags.c_contiguous else r.copy(order="C")


IDENTITY = {"sum": 0, "mean": 0, "prod": 1}


def identity(reduce: str, dtype: np.dtype) -> object:
    """What a reduction starts with."""
    if reduce in IDENTITY:
        return IDENTITY[reduce]
    if dtype.kind == "b":
        return reduce == "amin"
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return limits.min if reduce == "amax" else limits.max
    return -np.inf if reduce == "amax" else np.inf


UFUNC = {
    "sum": np.add, "mean": np.add, "prod": np.multiply, "amax": np.maximum, "amin": np.minimum
}  # fmt: skip


def reduce_at(z: np.ndarray, key: tuple, values: np.ndarray, reduce: str, include: bool) -> None:
    """`z[key] = reduce(z[key], values)`, one after the other where places repeat.

    `include` False: what stands at those places is left out.
    """
    reduce_places(z, key, values, reduce, include, False)


def reduce_places(
    z: np.ndarray, key: tuple, values: np.ndarray, reduce: str, include: bool, wide: bool
) -> None:
    """`reduce_at`; `wide`: half types are rounded once, see `widely`."""
    shape = z.shape
    places = np.zeros((), np.int64)
    for n, k in zip(shape, key):
        places = places * n + k
    places = np.broadcast_to(places, values.shape).reshape(-1)
    flat = z.reshape(-1) if z.flags.c_contiguous else z.copy(order="C").reshape(-1)
    count = None
    if reduce == "mean":
        count = np.bincount(places, minlength=flat.size)[places]
    if not include:
        flat[places] = identity(reduce, z.dtype)
    values = values.reshape(-1)
    if reduce == "sum" and not include and len(np.unique(places)) == len(places):
        flat[places] = values
    elif wide:
        widely(flat, values, lambda z, given: UFUNC[reduce].at(z, places, given))
    else:
        UFUNC[reduce].at(flat, places, values)
    if count is not None and count.size:
        divisor = np.ones(flat.size, np.int64)
        divisor[places] = count + include
        if z.dtype.kind in "iu":
            np.floor_divide(flat, divisor, out=flat, casting="unsafe")
        else:
            np.divide(flat, divisor, out=flat, casting="unsafe")
    if not np.may_share_memory(flat, z):
        z[...] = flat.reshape(shape)


def scatter_reduce(
    z: np.ndarray, index: np.ndarray, dim: int, values: np.ndarray, reduce: str, include: bool
) -> bool:
    """`z` at the places that `index` names along `dim`, and `values` there, reduced in place; `include`
    False: without what stood there. False, and nothing is written, where an index is out of range."""
    if out_of_range(index, z.shape[dim]) is not None:
        return False
    key = gather_key(index, dim)
    with np.errstate(all="ignore"):
        reduce_places(z, key, values, reduce, include, True)
    return True


def reduce_slices(
    z: np.ndarray, index: np.ndarray, axis: int, values: np.ndarray, reduce: str, include: bool
) -> bool:
    """`z` along `axis` at index[k], and the k-th slice of `values`, reduced in place; `include` False: without what
    stood there. False, and nothing is written, where an index is out of range."""
    if out_of_range(index, z.shape[axis]) is not None:
        return False
    each = index.reshape((1,) * axis + (-1,) + (1,) * (values.ndim - axis - 1))
    key = gather_key(np.broadcast_to(each, values.shape), axis)
    with np.errstate(all="ignore"):
        reduce_at(z, key, values, reduce, include)
    return True


def gather_gradient(shape: tuple, index: np.ndarray, dim: int, values: np.ndarray) -> np.ndarray:
    """Zeros of `shape` with `values` added where `index` says along `dim`."""
    z = np.zeros(shape, values.dtype)
    key = gather_key(index, dim)
    if index.ndim and index.shape[dim] == 1:  # no place twice
        z[key] = values
    elif values.size:
        reduce_places(z, key, values, "sum", True, True)
    return z


def scatter(
    z: np.ndarray, index: np.ndarray, dim: int, values: np.ndarray, add: bool = False
) -> bool:
    """`z` at the places that `index` names along `dim` = values, or += values, in place; False, and
    nothing is written, where an index is out of range."""
    if out_of_range(index, z.shape[dim]) is not None:
        return False
    key = gather_key(index, dim)
    if add:
        with np.errstate(all="ignore"):
            reduce_places(z, key, np.broadcast_to(values, index.shape), "sum", True, True)
    else:
        z[key] = values
    return True


def fill_masked(z: np.ndarray, mask: np.ndarray, value: np.ndarray) -> None:
    """`z[mask] = value`, one number, for a mask that broadcasts to the shape of `z`; in place."""
    np.copyto(z, value, where=mask)
