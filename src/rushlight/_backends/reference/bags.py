"""The kernel of bags of embeddings."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends.reference.reduce import upcast

if TYPE_CHECKING:
    from rushlight._backends.protocol.array import Array

KERNELS = "bag_factors_gradient embedding_bag embedding_bag_gradient".split()


def embedding_bag(
    weight: Array | None,
    indices: Any,
    offsets: Any,
    factors: Array | None,
    mode: int,
    padding_idx: int,
) -> tuple[Any, Any, Any, Any]:
    """(reduced rows, bag of each index, indices in each bag, of a maximum the row it is in).

    `mode`: 0 sum, 1 mean, 2 max; the index `padding_idx` counts for nothing.
    """
    i, n = indices.astype(np.int64, copy=False), len(offsets)
    lengths = np.diff(offsets.astype(np.int64), append=i.size)
    bag = np.repeat(np.arange(n), lengths)
    used, of, values = i, bag, None if factors is None else upcast(factors)
    if padding_idx >= 0:
        keep = i != padding_idx
        used, of = i[keep], bag[keep]
        values = None if values is None else values[keep]
    sizes = np.bincount(of, minlength=n)
    filled = sizes > 0
    starts = (np.cumsum(sizes) - sizes)[filled]
    rows = upcast(weight)[used]
    result = np.zeros((n, weight.shape[1]), rows.dtype)
    max_indices = np.zeros((n, weight.shape[1]) if mode == 2 else (0,), np.int64)
    if values is not None:
        rows *= values[:, None]
    if len(starts):
        if mode == 2:
            top = result[filled] = np.maximum.reduceat(rows, starts, axis=0)
            first = rows == np.repeat(top, sizes[filled], axis=0)
            at = np.where(first, np.arange(len(rows))[:, None], len(rows) - 1)
            max_indices[filled] = used[np.minimum.reduceat(at, starts, axis=0)]
        else:
            sums = np.add.reduceat(rows, starts, axis=0)
            if mode == 1:
                sums /= sizes[filled][:, None].astype(sums.dtype)
            result[filled] = sums
    return result.astype(weight.dtype, copy=False), bag, sizes, max_indices


def embedding_bag_gradient(
    g: Any, indices: Any, bags: Any, sizes: Any, factors: Any, n: int, mode: int, padding_idx: int
) -> Any:
    """The gradient of the table, of n rows, of sums and means; `bags`, `sizes`: as `embedding_bag` returns them."""
    rows = upcast(g)
    if mode == 1:
        rows = rows / np.maximum(sizes, 1)[:, None].astype(rows.dtype)
    rows = rows[bags]
    if factors is not None:
        rows *= upcast(factors)[:, None]
    table = np.zeros((n, g.shape[1]), rows.dtype)
    used = indices != padding_idx
    np.add.at(table, indices[used], rows[used])
    return table.astype(g.dtype, copy=False)


def bag_factors_gradient(g: Any, weight: Any, indices: Any, bags: Any, padding_idx: int) -> Any:
    """The gradient of the factors of rows that are added up in bags."""
    found = (upcast(g)[bags] * upcast(weight)[indices]).sum(1)
    found[indices == padding_idx] = 0
    return found.astype(g.dtype, copy=False)
