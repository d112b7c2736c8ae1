"""Compressed sparse arrays: the layouts sparse_csr, sparse_csc, sparse_bsr and sparse_bsc.

Note [Compressed arrays]
    One class holds all four. A line is what is compressed: a row (csr, bsr) or a column (csc, bsc), of
    entries or, in bsr and bsc, of blocks. `pointers` [*batch, lines + 1] say where the entries of each line
    begin and end, `plain` [*batch, nnz] where in its line an entry stands, and `values`
    [*batch, nnz, *block, *dense] what stands there. Every batch has its own pointers, and all have the same
    number of entries.

    In coordinates (`Compressed.coo`) batch dimensions are sparse dimensions like rows and columns, and every
    element of a block has a coordinate of its own: what a compressed array cannot do better by itself, it
    does so.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from rushlight._backends.sparse import Coo, Sparse, coalesce, is_sorted, keys, note
from rushlight.core import dtypes

BY_COLUMN = (dtypes.sparse_csc, dtypes.sparse_bsc)
BLOCKED = (dtypes.sparse_bsr, dtypes.sparse_bsc)
LAYOUTS = (dtypes.sparse_csr, dtypes.sparse_csc, dtypes.sparse_bsr, dtypes.sparse_bsc)
FLIPPED = {
    dtypes.sparse_csr: dtypes.sparse_csc, dtypes.sparse_csc: dtypes.sparse_csr,
    dtypes.sparse_bsr: dtypes.sparse_bsc, dtypes.sparse_bsc: dtypes.sparse_bsr,
}  # fmt: skip


class Compressed(Sparse):
    """Matrices whose rows or columns are compressed, see Note [Compressed arrays]."""

    __slots__ = ("pointers", "plain", "layout")
    backend = "SparseCsrCPU"
    pointers: np.ndarray
    plain: np.ndarray

    def __init__(
        self, pointers: np.ndarray, plain: np.ndarray, values: np.ndarray, shape: tuple, layout: Any
    ) -> None:
        self.pointers, self.plain, self.values, self.shape = pointers, plain, values, shape
        self.layout = layout
        note()

    def __reduce__(self) -> tuple:
        return restored, (self.pointers, self.plain, self.values, self.shape, self.code)

    @property
    def code(self) -> str:
        """The layout in three letters: csr, csc, bsr or bsc."""
        return str(self.layout)[-3:]

    @property
    def flags(self) -> Any:  # type: ignore[override] # an attribute of arrays
        raise RuntimeError(f"Sparse {self.code.upper()} tensors do not have is_contiguous")

    @property
    def nbytes(self) -> int:  # type: ignore[override] # an attribute of arrays
        return self.size * self.itemsize

    @property
    def by_column(self) -> bool:
        return self.layout in BY_COLUMN

    @property
    def batch_dim(self) -> int:
        return self.pointers.ndim - 1

    @property
    def block(self) -> tuple[int, ...]:
        """Rows and columns of each block; () where there are none."""
        n = self.plain.ndim
        return self.values.shape[n : n + 2] if self.layout in BLOCKED else ()

    @property
    def dense_dim(self) -> int:
        return len(self.shape) - self.batch_dim - 2

    @property
    def nnz(self) -> int:
        return self.plain.shape[-1]

    def with_values(self, values: np.ndarray) -> Compressed:
        """Other values with the same pattern."""
        return Compressed(self.pointers, self.plain, values, self.shape, self.layout)

    def own_pattern(self) -> Compressed:
        """The same values with a pattern in memory of its own."""
        pointers, plain = self.pointers.copy(), self.plain.copy()
        return Compressed(pointers, plain, self.values, self.shape, self.layout)

    def without_entries(self) -> Compressed:
        """The same shape without any entry."""
        values = self.values[(slice(None),) * self.batch_dim + (slice(0),)]
        pointers = np.zeros_like(self.pointers)
        return Compressed(pointers, self.plain[..., :0], values, self.shape, self.layout)

    def coordinates(self) -> np.ndarray:
        """The coordinate of every element of `values`, in their order: int64 [batch dims + 2, elements]."""
        batch, nnz = self.pointers.shape[:-1], self.nnz
        count, n = prod(batch), self.pointers.shape[-1] - 1
        repeats = np.diff(self.pointers.reshape(count, n + 1), axis=1).reshape(-1)
        lines = np.repeat(np.tile(np.arange(n), count), repeats)
        cells = self.plain.reshape(-1).astype(np.int64)
        rows, cols = (cells, lines) if self.by_column else (lines, cells)
        which = np.repeat(np.arange(count), nnz)
        if self.block:
            h, w = self.block
            shape = (rows.size, h, w)
            rows = rows[:, None, None] * h + np.arange(h)[:, None]
            cols = cols[:, None, None] * w + np.arange(w)
            rows, cols = (np.broadcast_to(x, shape).reshape(-1) for x in (rows, cols))
            which = np.repeat(which, h * w)
        batches = np.unravel_index(which, batch) if batch else ()
        return np.array((*batches, rows, cols), np.int64)

    def flat_values(self) -> np.ndarray:
        """The values in the order of `coordinates`: [elements, *dense]."""
        dense = self.shape[self.batch_dim + 2 :]
        return self.values.reshape(prod(self.values.shape[: self.values.ndim - len(dense)]), *dense)

    def coo(self) -> Coo:
        """The same in coordinates, in the order of `values`."""
        found = Coo(self.coordinates(), self.flat_values(), self.shape)
        found.coalesced = is_sorted(found)
        return found


def restored(pointers: Any, plain: Any, values: Any, shape: tuple, code: str) -> Compressed:
    """A compressed array from what pickle stored."""
    return Compressed(pointers, plain, values, shape, getattr(dtypes, f"sparse_{code}"))


def zeros(name: str, shape: tuple, dtype: np.dtype, layout: Any) -> Sparse:
    """Zeros in sparse_coo, sparse_csr or sparse_csc: no element is stored."""
    if layout is dtypes.sparse_coo:
        return Coo(np.zeros((len(shape), 0), np.int64), np.zeros(0, dtype), shape, True)
    if len(shape) < 2:
        raise RuntimeError(
            f"torch.{name}: Only batched sparse compressed (non-block) tensors are supported, but got size "
            f"{list(shape)}"
        )
    if layout in BLOCKED:
        raise RuntimeError(
            "empty_sparse_compressed expected sparse compressed (non-block) tensor layout but got "
            f"{NAMES[layout]}"
        )
    batch, n = shape[:-2], shape[-1 if layout in BY_COLUMN else -2]
    return Compressed(
        np.zeros((*batch, n + 1), np.int64), np.zeros((*batch, 0), np.int64),
        np.zeros((*batch, 0), dtype), shape, layout,
    )  # fmt: skip


NAMES = {
    dtypes.strided: "Strided", dtypes.sparse_coo: "Sparse", dtypes.sparse_csr: "SparseCsr",
    dtypes.sparse_csc: "SparseCsc", dtypes.sparse_bsr: "SparseBsr", dtypes.sparse_bsc: "SparseBsc",
}  # fmt: skip


def compress(
    a: Coo, layout: Any, block: tuple = (), batch_dim: int = 0, index: Any = np.int64
) -> Compressed:
    """Coordinates in a compressed layout; their first `batch_dim` dimensions become batch dimensions."""
    a = coalesce(a)
    batch, (n, m) = a.shape[:batch_dim], a.shape[batch_dim : batch_dim + 2]
    rows, cols = a.indices[batch_dim], a.indices[batch_dim + 1]
    h, w = block or (1, 1)
    count, n, m = prod(batch), n // h, m // w
    by_column = layout in BY_COLUMN
    lines, cells = (m, n) if by_column else (n, m)
    line, cell = (cols // w, rows // h) if by_column else (rows // h, cols // w)
    key = (keys(a.indices[:batch_dim], batch) * lines + line) * cells + cell
    if block:
        key, at = np.unique(key, return_inverse=True)
        values = np.zeros((key.size, h, w, *a.values.shape[1:]), a.dtype)
        values[at.reshape(-1), rows % h, cols % w] = a.values
    elif by_column:
        order = key.argsort(kind="stable")
        key, values = key[order], a.values[order]
    else:
        values = a.values
    counts = np.bincount(key // max(cells, 1), minlength=count * lines).reshape(count, lines)
    per_batch = counts.sum(1)
    nnz = int(per_batch[0]) if count else 0
    if (per_batch != nnz).any():
        raise RuntimeError("Expect the same number of specified elements per batch.")
    pointers = np.zeros((count, lines + 1), index)
    counts.cumsum(1, out=pointers[:, 1:])
    plain = (key % max(cells, 1)).astype(index)
    return Compressed(
        pointers.reshape(*batch, lines + 1), plain.reshape(*batch, nnz),
        values.reshape(*batch, nnz, *values.shape[1:]), a.shape, layout,
    )  # fmt: skip


def like(a: Coo, b: Compressed) -> Compressed:
    """Coordinates in the layout of `b`, with its blocks, batch dimensions and dtype of indices."""
    return compress(a, b.layout, b.block, b.batch_dim, b.plain.dtype)


def transposed(a: Compressed, dim0: int, dim1: int) -> Compressed:
    """Two dimensions exchanged, on the same memory: the sparse ones, or two of the batch."""
    shape = list(a.shape)
    shape[dim0], shape[dim1] = shape[dim1], shape[dim0]
    if dim0 < a.batch_dim:
        pointers, plain, values = (x.swapaxes(dim0, dim1) for x in (a.pointers, a.plain, a.values))
        return Compressed(pointers, plain, values, tuple(shape), a.layout)
    if dim0 == dim1:
        return a.with_values(a.values)
    n = a.plain.ndim
    values = a.values.swapaxes(n, n + 1) if a.block else a.values
    return Compressed(a.pointers, a.plain, values, tuple(shape), FLIPPED[a.layout])


def sum_keepdim(a: Compressed, dims: tuple) -> Compressed:
    """The sum over sparse or batch dimensions, which stay with size 1."""
    at = a.coordinates()
    at[list(dims)] = 0
    shape = tuple([1 if d in dims else n for d, n in enumerate(a.shape)])
    return like(Coo(at, a.flat_values(), shape), a)


# -- products --------------------------------------------------------------------------------------


def solve_triangular(
    a: Coo, b: np.ndarray, upper: bool, transpose: bool, unitriangular: bool
) -> np.ndarray:
    """x with `a @ x = b` (`a.T @ x = b`), row by row; only one triangle of `a` is read."""
    a = coalesce(a)
    if not a.nnz:
        return np.full(b.shape, np.nan, b.dtype)
    rows, cols, values = *a.indices, a.values
    kept = rows < cols if upper else rows > cols
    diagonal = np.zeros(a.shape[0], b.dtype)
    diagonal[rows[rows == cols]] = values[rows == cols]
    rows, cols, values = rows[kept], cols[kept], values[kept]
    if transpose:
        rows, cols = cols, rows
        order = rows.argsort(kind="stable")
        rows, cols, values = rows[order], cols[order], values[order]
        upper = not upper
    ends = rows.searchsorted(np.arange(a.shape[0] + 1)).tolist()
    x = b.copy()
    for i in range(a.shape[0] - 1, -1, -1) if upper else range(a.shape[0]):
        start, end = ends[i], ends[i + 1]
        if end > start:
            x[i] -= values[start:end] @ x[cols[start:end]]
        if not unitriangular:
            x[i] /= diagonal[i]
    return x
