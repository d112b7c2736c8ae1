"""Sparse arrays and their kernels: what stands in `Tensor._array` of a sparse tensor.

Note [Sparse arrays]
    A `Coo` or a `Compressed` (compressed.py) is no NumPy array. The one test of the straight path of every
    operator (`array.__class__ is ndarray`) therefore sends a call with a sparse tensor the general way, where
    ops/sparse/calls.py is asked; dense calls pay nothing. NumPy itself refuses these objects (see `__array__` and its like below),
    so that code which knows nothing about them can raise, but not compute on garbage.

The arrays inside (`indices`, `values`) are plain ones. Kernels take and return sparse or plain arrays.
"""

from __future__ import annotations

from math import prod
from typing import Any, NoReturn

import numpy as np

from rushlight.core import dtypes

made: list[bool] = []  # not empty once there was a sparse array: then calls look for them


def note() -> None:
    """There is a sparse array now, or will be within a backward."""
    if not made:
        made.append(True)


def refuse(what: str, backend: str = "SparseCPU") -> NoReturn:
    """Raise: `what` does not know about sparse tensors."""
    raise NotImplementedError(
        f"Could not run 'aten::{what}' with arguments from the '{backend}' backend: [{what}] is not "
        "implemented for sparse tensors. Use .to_dense() first"
    )


class _Flags:
    c_contiguous = f_contiguous = forc = owndata = writeable = False


class Sparse:
    """What all sparse arrays share: a shape, a dtype, values; nothing that NumPy could compute on."""

    __slots__ = ("values", "shape", "__weakref__")
    values: np.ndarray
    shape: tuple[int, ...]
    backend = "SparseCPU"
    layout: Any = None
    base = ()  # never None: the engine does not look whether it owns this memory
    flags = _Flags
    coalesced = False
    has_conj = has_neg = False  # see Note [Conjugates are views] in math_bits.py

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def itemsize(self) -> int:
        return self.values.itemsize

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        return (0,) * len(self.shape)

    @property
    def nbytes(self) -> NoReturn:
        raise RuntimeError(
            "nbytes is not defined for sparse tensors. If you want the size of the constituent tensors, add "
            "the nbytes of the indices and values. If you want the size of the equivalent dense tensor, "
            "multiply numel() by element_size()"
        )

    @property
    def nnz(self) -> int:
        return self.values.shape[0]

    def __len__(self) -> int:
        return self.shape[0]

    def item(self) -> Any:
        return dense(self).item()

    def refuse_numpy(self, *args: Any) -> NoReturn:
        kind = "Sparse" if self.backend == "SparseCPU" else "SparseCsr"
        raise TypeError(
            f"can't convert {kind} layout tensor to numpy. Use Tensor.to_dense() first."
        )

    view = refuse_numpy

    def refuse_export(self) -> NoReturn:
        raise BufferError("Can't export tensors with layout other than torch.strided")

    def __array__(self, *args: Any, **options: Any) -> NoReturn:
        refuse("asarray", self.backend)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> NoReturn:
        refuse(ufunc.__name__, self.backend)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> NoReturn:
        refuse(function.__name__, self.backend)

    def __getattr__(self, name: str) -> Any:
        if name == "__array_interface__":
            raise RuntimeError("Cannot access data pointer of Tensor that doesn't have storage")
        if name.startswith("__"):
            raise AttributeError(name)
        refuse(name, self.backend)

    def __eq__(self, other: object) -> NoReturn:
        refuse("eq", self.backend)

    __hash__ = object.__hash__

    def __getitem__(self, index: Any) -> NoReturn:
        refuse("as_strided", self.backend)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        refuse("as_strided", self.backend)


class Coo(Sparse):
    """Coordinates `indices` (int64 [sparse dims, nnz]) and `values` ([nnz, *dense dims]) there.

    `coalesced`: the coordinates are sorted and none occurs twice. What occurs twice counts as the sum.
    """

    __slots__ = ("indices", "coalesced")
    indices: np.ndarray
    coalesced: bool
    layout = dtypes.sparse_coo

    def __init__(
        self, indices: np.ndarray, values: np.ndarray, shape: tuple, coalesced: bool = False
    ) -> None:
        self.indices, self.values, self.shape, self.coalesced = indices, values, shape, coalesced
        note()

    @property
    def sparse_dim(self) -> int:
        return self.indices.shape[0]

    def coo(self) -> Coo:
        return self

    def coordinates(self) -> np.ndarray:
        return self.indices

    def flat_values(self) -> np.ndarray:
        return self.values

    def __reduce__(self) -> tuple:
        return Coo, (self.indices, self.values, self.shape, self.coalesced)


def own_copy(a: Sparse) -> Sparse:
    """A copy, whose arrays have the dtype objects that tensors compare by identity."""
    make: Any
    make, parts = a.__reduce__()  # type: ignore[misc,str-unpack]
    return make(
        *[p.astype(dtypes.OF[p.dtype].np) if isinstance(p, np.ndarray) else p for p in parts]
    )


# -- coordinates -----------------------------------------------------------------------------------


def keys(indices: np.ndarray, sizes: tuple) -> np.ndarray:
    """Each coordinate as one number, in the order of the elements in memory."""
    k = np.zeros(indices.shape[1], np.int64)
    for row, n in zip(indices, sizes, strict=True):
        k *= n
        k += row
    return k


def checked(indices: np.ndarray, sizes: tuple) -> None:
    """RuntimeError for a coordinate outside of `sizes`."""
    if not indices.size:
        return
    low, high = indices.min(1), indices.max(1)
    for d, n in enumerate(sizes):
        if low[d] < 0:
            raise RuntimeError(f"found negative index {low[d]} for dim {d}")
        if high[d] >= n:
            raise RuntimeError(
                f"size is inconsistent with indices: for dim {d}, size is {n} but found index {high[d]}"
            )


def is_sorted(a: Coo) -> bool:
    """Whether the coordinates are sorted and unique, whatever `a.coalesced` says."""
    if a.coalesced or a.nnz < 2:
        return True
    k = keys(a.indices, a.shape[: a.sparse_dim])
    return bool((k[1:] > k[:-1]).all())


def wide(a: np.ndarray) -> np.ndarray:
    """float16 and bfloat16 as float32, for sums."""
    return a.astype(np.float32) if a.dtype.kind == "V" or a.dtype == np.float16 else a


def sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """The sums of runs of rows: `values[starts[i]:starts[i + 1]]`, none of them empty."""
    if not starts.size:
        return np.zeros((0, *values.shape[1:]), values.dtype)
    if values.dtype == bool:
        return np.logical_or.reduceat(values, starts, axis=0)
    return np.add.reduceat(wide(values), starts, axis=0).astype(values.dtype, copy=False)


def in_order(k: np.ndarray) -> np.ndarray:
    """The order that sorts non-negative keys; equal ones stay in theirs.

    Numbers are sorted several times quicker than they are ordered, so each carries its place along.
    """
    n = k.size
    if not n or int(k.max()) >= 2**62 // n:
        return k.argsort(kind="stable")
    placed = k * n
    placed += np.arange(n)
    placed.sort()
    placed %= n
    return placed


def groups(k: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(order that sorts `k`, where runs of equal keys start in it, the keys sorted)."""
    order = in_order(k)
    k = k[order]
    new = np.ones(k.size, bool)
    np.not_equal(k[1:], k[:-1], out=new[1:])
    return order, np.flatnonzero(new), k


def coalesce(a: Coo) -> Coo:
    """The same with sorted coordinates, each once."""
    if a.coalesced:
        return a
    sizes = a.shape[: a.sparse_dim]
    order, starts, _ = groups(keys(a.indices, sizes))
    values = sums(a.values.take(order, 0), starts)
    return Coo(first_of(a.indices, order[starts]), values, a.shape, True)


def first_of(indices: np.ndarray, which: np.ndarray) -> np.ndarray:
    """These coordinates, in memory that has room for all, as PyTorch's strides say after coordinates became one."""
    chosen = indices.take(which, 1)
    if chosen.shape == indices.shape:
        return chosen
    room = np.empty(indices.shape, np.int64)
    room[:, : which.size] = chosen
    return room[:, : which.size]


def row_major(indices: np.ndarray) -> np.ndarray:
    """Coordinates in PyTorch's strides, where they are not so already."""
    return np.ascontiguousarray(indices)


def coordinates(a: Coo) -> tuple:
    """The coordinates as an index of a dense array."""
    return tuple(a.indices)


def dense(a: Any) -> np.ndarray:
    """The dense array."""
    a = a.coo()
    a = coalesce(a) if not is_sorted(a) else a
    z = np.zeros(a.shape, a.dtype)
    if a.nnz:
        z[(*coordinates(a), ...)] = a.values
    return z


def sparse(x: np.ndarray, sparse_dim: int) -> Coo:
    """The entries of a dense array that are not zero."""
    sizes = x.shape[:sparse_dim]
    rows = x.reshape(*sizes, prod(x.shape[sparse_dim:])) if sparse_dim < x.ndim else x
    nonzero = (rows != 0).any(-1) if sparse_dim < x.ndim else rows != 0
    at = (
        np.array(np.nonzero(nonzero), np.int64) if x.ndim else np.zeros((0, int(nonzero)), np.int64)
    )
    values = x[tuple(at)] if x.ndim else x.reshape(1)[: int(nonzero)].copy()
    return Coo(at, values, x.shape, True)


def lookup(a: Coo, indices: np.ndarray) -> np.ndarray:
    """The values of `a` at coordinates, zeros where it has none."""
    a = coalesce(a)
    if a.indices is indices or np.array_equal(a.indices, indices):
        return a.values
    sizes = a.shape[: a.sparse_dim]
    have, want = keys(a.indices, sizes), keys(indices, sizes)
    found = np.zeros((want.size, *a.values.shape[1:]), a.dtype)
    if have.size:
        at = np.minimum(have.searchsorted(want), have.size - 1)
        hit = have[at] == want
        found[hit] = a.values[at[hit]]
    return found


def values_at(g: Any, indices: np.ndarray) -> np.ndarray:
    """The values of a dense or sparse array at coordinates [sparse dims, n]."""
    if g.__class__ is Coo:
        return lookup(g, indices)
    if not len(indices):
        return np.broadcast_to(g, (indices.shape[1], *g.shape))
    return g[tuple(indices)]


# -- arithmetic ------------------------------------------------------------------------------------


def add(a: Coo, b: Coo) -> Coo:
    """a + b: merged where both are sorted or have the same coordinates, else one after the other.

    One after the other too where values are not contiguous, as in PyTorch: gradients of sums are not.
    """
    dtype = np.result_type(a.values, b.values) if a.dtype != b.dtype else a.dtype
    if a.sparse_dim != b.sparse_dim:
        if a.nnz and b.nnz:
            raise RuntimeError(
                "add: expected 'self' and 'other' to have same density, but 'self' has "
                f"{a.sparse_dim} sparse dimensions while 'other' has {b.sparse_dim} sparse dimensions"
            )
        some = a if a.nnz else b
        return Coo(some.indices.copy(), some.values.astype(dtype), some.shape, some.coalesced)
    both = a.coalesced and b.coalesced
    merged = a.values.flags.c_contiguous and b.values.flags.c_contiguous
    same = a.indices.shape == b.indices.shape and np.array_equal(a.indices, b.indices)
    if merged and same:
        return Coo(a.indices.copy(), (a.values + b.values).astype(dtype, copy=False), a.shape, both)
    indices = np.concatenate((a.indices, b.indices), 1)
    values = np.concatenate((a.values, b.values)).astype(dtype, copy=False)
    together = Coo(indices, values, a.shape)
    if merged and is_sorted(a) and is_sorted(b):
        together = coalesce(together)
        together.coalesced = both
    return together


def add_dense(x: np.ndarray, a: Coo, factor: Any = 1) -> None:
    """x += factor * a, in place."""
    a = a if is_sorted(a) else coalesce(a)
    if not a.nnz:
        return
    values = a.values if factor == 1 else a.values * np.asarray(factor).astype(a.dtype)
    if a.sparse_dim:
        x[coordinates(a)] += values.astype(x.dtype, copy=False)
    else:
        x += values[0]
