"""Products of sparse arrays, with dense ones and with each other."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.sparse import Coo, coalesce, in_order, sums, wide

BLOCK = 1 << 22  # elements of a temporary of gathered rows
HUBS = 16  # rows that are left when a round would touch so few: each becomes a product of its own


def rows_times(
    rows: np.ndarray, cols: np.ndarray, values: Any, x: np.ndarray, n: int
) -> np.ndarray:
    """[n, m]: the sparse matrix of `values` at (rows, cols) times `x` [k, m].

    Rows with many entries come first: round j then adds the j-th entry of all rows that have one, which
    stand at the front, and no temporary is larger than the result.
    """
    z = np.zeros((n, x.shape[1]), x.dtype)
    if not (rows.size and x.shape[1]):
        return z
    x, values = wide(x), wide(values)
    if (rows[1:] < rows[:-1]).any():
        order = in_order(rows)
        rows, cols, values = rows[order], cols[order], values[order]
    new = np.ones(rows.size, bool)
    np.not_equal(rows[1:], rows[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    if x.shape[1] == 1:
        z[rows[starts], 0] = sums(x[:, 0].take(cols) * values, starts)
        return z
    counts = np.diff(starts, append=rows.size)
    order = (-counts).argsort(kind="stable")
    starts, counts = starts[order], counts[order]
    total = x.take(cols[starts], 0)
    total *= values[starts, None]
    live = (-counts).searchsorted(-np.arange(1, counts[0] + 1), "right").tolist()
    done = 1
    while done < len(live) and live[done] > HUBS:
        at = starts[: live[done]] + done
        part = x.take(cols[at], 0)
        part *= values[at, None]
        total[: live[done]] += part
        done += 1
    for row in range(live[done] if done < len(live) else 0):
        rest = slice(starts[row] + done, starts[row] + counts[row])
        total[row] += values[rest] @ x.take(cols[rest], 0)
    z[rows[starts]] = total.astype(z.dtype, copy=False)
    return z


def matmul(a: Any, x: np.ndarray) -> np.ndarray:
    """Sparse [n, k] @ dense [k, m]."""
    rows, cols = a.coordinates()
    return rows_times(rows, cols, a.flat_values(), x, a.shape[0])


def transposed_matmul(a: Any, x: np.ndarray) -> np.ndarray:
    """Sparse [k, n] transposed and conjugated, @ dense [k, m]."""
    rows, cols = a.coordinates()
    return rows_times(cols, rows, a.flat_values().conj(), x, a.shape[1])


def sampled(g: np.ndarray, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """The entries of `g @ x.mH` ([n, m] and [k, m]) at the coordinates [2, nnz] only."""
    values = np.empty(indices.shape[1], g.dtype)
    step = max(BLOCK // max(g.shape[1], 1), 1)
    for at in range(0, values.size, step):
        i, j = indices[:, at : at + step]
        values[at : at + step] = np.einsum("em,em->e", g[i], x[j].conj())
    return values


def matmul_sparse(a: Coo, b: Coo) -> Coo:
    """Sparse [n, k] @ sparse [k, m]: every entry of `a` meets the row of `b` that it names."""
    a, b = coalesce(a), coalesce(b)
    lengths = np.bincount(b.indices[0], minlength=b.shape[0])
    counts = lengths[a.indices[1]]
    starts = (np.cumsum(lengths) - lengths)[a.indices[1]]
    of = np.repeat(np.arange(a.nnz), counts)
    inside = np.arange(of.size) - np.repeat(np.cumsum(counts) - counts, counts)
    at = starts[of] + inside
    indices = np.stack((a.indices[0][of], b.indices[1][at]))
    z = coalesce(Coo(indices, a.values[of] * b.values[at], (a.shape[0], b.shape[1])))
    z.indices = np.ascontiguousarray(z.indices)
    return z
