"""Kernels that read and write at index arrays."""

from __future__ import annotations

from math import prod

import numpy as np

from rushlight.backends.numpy_views import reach, strided


def index_take(a: np.ndarray, key: tuple) -> np.ndarray:
    """`a[key]` for a tuple of full slices and index arrays, in row-major order."""
    arrays = [d for d, k in enumerate(key) if k.__class__ is np.ndarray]
    if len(arrays) == 1 and key[arrays[0]].dtype.kind != "b":
        return np.take(a, key[arrays[0]], axis=arrays[0])
    r = a[key]
    return r if r.flags.c_contiguous else r.copy(order="C")


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


def place_of_index(ndim: int, key: tuple) -> int:
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
    if len(starts) == len(rows):
        z[rows] += values[order]
    else:
        z[rows[starts]] += np.add.reduceat(values[order], starts, axis=0)


def index_add_at(z: np.ndarray, key: tuple, values: np.ndarray) -> None:
    """`z[key] += values`, where positions that occur several times add up."""
    if all(k.__class__ is slice or k.dtype.kind == "b" for k in key) and (
        sum(k.__class__ is np.ndarray for k in key) == 1
    ):
        z[key] += values  # one mask: every position once
        return
    rows, order, rest = index_rows(z.shape, key)
    at = place_of_index(z.ndim, key)
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
    add_rows(flat, rows.reshape(-1), values)
    if not np.may_share_memory(flat, z):
        whole[...] = flat.reshape(shape)


def restrided(a: np.ndarray, source: tuple, target: tuple, mean: str) -> np.ndarray:
    """Add `a` into zeroed memory under the geometry `source`, read it under `target`.

    A geometry is (shape, strides, offset), in elements. `mean`: under which of the two ("from",
    "to") elements at one place share its value.
    """
    low = min(source[2], target[2])
    places = np.arange(
        max(max(offset + reach(shape, strides) for shape, strides, offset in (source, target)) - low, 1)
    )
    k = places.itemsize
    at = {
        end: strided(places, shape, tuple([s * k for s in strides]), (offset - low) * k).reshape(-1)
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
