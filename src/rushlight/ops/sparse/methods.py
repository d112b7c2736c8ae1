"""Methods of sparse tensors: their parts, and conversions between layouts."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import sparse
from rushlight._backends.sparse import Coo, Csr, Sparse
from rushlight.core import dtypes
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import public
from rushlight.ops.sparse.creation import sizes_of
from rushlight.ops.sparse.operators import (
    coalesced,
    coo_of,
    dense_of,
    in_rows,
    is_sparse,
    masked,
    run,
    sparsified,
    values_of,
)


def layout_name(t: Tensor) -> str:
    return {"strided": "Strided", "sparse_coo": "Sparse", "sparse_csr": "SparseCsr"}.get(
        str(t.layout).removeprefix("torch."), "SparseCsc"
    )


def coordinates_of(t: Tensor, name: str) -> Coo:
    a: Any = t._array
    if a.__class__ is not Coo:
        raise RuntimeError(
            f"{name} expected sparse coordinate tensor layout but got {layout_name(t)}"
        )
    return a


@public("Tensor")
def coalesce(self: Tensor) -> Tensor:
    """The same tensor with its coordinates sorted, each once; itself where that is so already.

    >>> import rushlight as torch
    >>> torch.sparse_coo_tensor([[1, 0, 1]], [1.0, 2.0, 3.0]).coalesce().values()
    tensor([2., 4.])
    """
    a = coordinates_of(self, "coalesce")
    return self if a.coalesced else run(coalesced, self)


@public("Tensor")
def is_coalesced(self: Tensor) -> bool:
    """Whether the coordinates are known to be sorted and unique."""
    return coordinates_of(self, "is_coalesced").coalesced


@public("Tensor")
def _coalesced_(self: Tensor, coalesced: bool) -> Tensor:
    """Say whether the coordinates are sorted and unique."""
    coordinates_of(self, "_coalesced_").coalesced = bool(coalesced)
    return self


@public("Tensor")
def indices(self: Tensor) -> Tensor:
    """The coordinates of a coalesced tensor: int64 [sparse dims, nnz]."""
    a = coordinates_of(self, "indices")
    if not a.coalesced:
        raise RuntimeError(
            "Cannot get indices on an uncoalesced tensor, please call .coalesce() first"
        )
    return _wrap(a.indices)


@public("Tensor")
def values(self: Tensor) -> Tensor:
    """The values of a coalesced tensor [nnz, *dense dims]; gradients go through."""
    a: Any = self._array
    if not isinstance(a, Sparse):
        raise RuntimeError("values expected sparse tensor layout but got Strided")
    if a.__class__ is Coo and not a.coalesced:
        raise RuntimeError(
            "Cannot get values on an uncoalesced tensor, please call .coalesce() first"
        )
    return run(values_of, self)


def inner(t: Tensor, name: str) -> Coo:
    a: Any = t._array
    if a.__class__ is not Coo:
        sparse.refuse(name, "SparseCsrCPU" if a.__class__ is Csr else "CPU")
    return a


@public("Tensor")
def _indices(self: Tensor) -> Tensor:
    """The coordinates as they are: int64 [sparse dims, nnz]."""
    return _wrap(inner(self, "_indices").indices)


@public("Tensor")
def _values(self: Tensor) -> Tensor:
    """The values as they are, in the memory they are in, without history."""
    return _wrap(inner(self, "_values").values)


@public("Tensor")
def _nnz(self: Tensor) -> int:
    """The number of stored entries."""
    if not isinstance(self._array, Sparse):
        sparse.refuse("_nnz", "CPU")
    return self._array.nnz


@public("Tensor")
def sparse_dim(self: Tensor) -> int:
    """The number of dimensions that coordinates run over; 0 for a strided tensor."""
    a: Any = self._array
    return a.sparse_dim if a.__class__ is Coo else 2 if a.__class__ is Csr else 0


@public("Tensor")
def dense_dim(self: Tensor) -> int:
    """The number of dimensions of each value; all of a strided tensor."""
    return self._array.ndim - sparse_dim(self)


public("Tensor", name="_dimI")(sparse_dim)
public("Tensor", name="_dimV")(dense_dim)


def compressed_part(name: str, by_column: bool, part: str, meaning: str) -> Any:
    """Declare the method that gives one array of a compressed matrix."""

    @public("Tensor", name=name, doc=meaning)
    def get(self: Tensor) -> Tensor:
        a: Any = self._array
        if a.__class__ is not Csr or a.by_column != by_column:
            kind = "column" if by_column else "row"
            raise RuntimeError(
                f"{name} expected sparse {kind} compressed tensor layout but got {layout_name(self)}"
            )
        return _wrap(getattr(a, part))

    return get


PARTS = [
    compressed_part(*row)
    for row in (
        ("crow_indices", False, "crow", "Where the entries of each row begin, and the last end."),
        ("col_indices", False, "col", "The column of each entry of a matrix in compressed rows."),
        ("ccol_indices", True, "crow", "Where the entries of each column begin, and the last end."),
        ("row_indices", True, "col", "The row of each entry of a matrix in compressed columns."),
    )
]


@public("Tensor", overridable=True)
def to_dense(self, dtype=None, *, masked_grad=None):
    """The dense tensor; a strided one is returned as it is, in another dtype where asked.

    >>> import rushlight as torch
    >>> torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,)).to_dense()
    tensor([3., 0., 0.])
    """
    if not is_sparse(self):
        return self if dtype is None else self.to(dtype)
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return dense_of(self)


LAYOUTS = {
    dtypes.sparse_coo: "Sparse", dtypes.sparse_csr: "SparseCsr", dtypes.sparse_csc: "SparseCsc",
}  # fmt: skip


@public("Tensor")
def to_sparse(self: Tensor, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
              dense_dim: Any = None) -> Tensor:  # fmt: skip
    """The entries that are not zero, as a sparse tensor.

    `sparse_dim`: how many leading dimensions the coordinates run over (all), or `dense_dim`: how many
    they leave; or `layout=` torch.sparse_csr or torch.sparse_csc, for matrices.

    >>> import rushlight as torch
    >>> torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=torch.sparse_coo)
    """
    if isinstance(sparse_dim, dtypes.layout):
        sparse_dim, layout = None, sparse_dim
    if blocksize is not None and layout in (None, *LAYOUTS):
        name = LAYOUTS[layout or dtypes.sparse_coo]
        raise RuntimeError(
            f"dense_to_sparse: conversion from Strided to {name} with blocksize argument given is not supported"
        )
    if layout in (dtypes.sparse_csr, dtypes.sparse_csc):
        return to_rows(self, "to_sparse", layout is dtypes.sparse_csc, dense_dim)
    if layout not in (None, dtypes.sparse_coo):
        raise NotImplementedError(f"[to_sparse] layout {layout} is not implemented: use sparse_coo")
    a: Any = self._array
    if a.__class__ is Csr:
        return coo_of(self)
    if a.__class__ is Coo:
        if sparse_dim not in (None, a.sparse_dim):
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument "
                "!=self.sparse_dim() is not supported"
            )
        return self
    if self.device.type != "cpu":
        raise NotImplementedError(
            f"[to_sparse] sparse tensors live on the CPU, got a tensor on {self.device}"
        )
    if sparse_dim is None and dense_dim is not None:
        sparse_dim = self.ndim - dense_dim
    n = self.ndim if sparse_dim is None else sparse_dim
    if not 0 <= n <= self.ndim:
        raise RuntimeError(
            f"dense_to_sparse: sparse_dim argument must be in [0,{self.ndim}] range, but {n} is given"
        )
    if not n and self.ndim:
        raise RuntimeError("dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0")
    return run(sparsified, self, n, f"ToSparseBackward{int(sparse_dim is None)}")


@public("Tensor")
def to_sparse_coo(self: Tensor) -> Tensor:
    """`self.to_sparse()`."""
    return to_sparse(self)


def to_rows(t: Tensor, name: str, by_column: bool, dense_dim: int | None = None) -> Tensor:
    a: Any = t._array
    if dense_dim:
        raise NotImplementedError(f"{name}: entries with dimensions of their own (dense_dim)")
    if a.__class__ is Csr and a.by_column == by_column:
        return t
    if t.ndim != 2:
        raise RuntimeError(
            f"{name}: expected a matrix, got a tensor of {t.ndim} dimensions, of shape {list(t.shape)}"
        )
    return run(in_rows, to_sparse(t), by_column)


@public("Tensor")
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """A matrix in compressed rows.

    >>> import rushlight as torch
    >>> torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse_csr().crow_indices()
    tensor([0, 1, 1])
    """
    return to_rows(self, "to_sparse_csr", False, dense_dim)


@public("Tensor")
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """A matrix in compressed columns."""
    return to_rows(self, "to_sparse_csc", True, dense_dim)


@public("Tensor")
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The values of a dense or sparse tensor where the sparse `mask` has entries.

    >>> import rushlight as torch
    >>> mask = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse()
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).sparse_mask(mask).values()
    tensor([2., 3.])
    """
    if not is_sparse(mask):
        raise RuntimeError("sparse_mask: expected mask to be sparse, got a strided tensor")
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask "
            f"has size {list(mask.shape)}"
        )
    return masked(self, mask)


@public("Tensor")
def sparse_resize_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Another size, in place; entries stay where they are."""
    a = coordinates_of(self, "sparse_resize_")
    size = sizes_of("sparse_resize_", size)
    if len(size) != sparse_dim + dense_dim:
        raise RuntimeError(
            "'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = "
            f"{len(size)}, sparse_dim = {sparse_dim}, dense_dim = {dense_dim}"
        )
    values_shape = size[sparse_dim:]
    if a.nnz and (sparse_dim != a.sparse_dim or values_shape != a.values.shape[1:]):
        raise RuntimeError(
            "sparse_resize_: only the sizes of sparse dimensions of a non-empty tensor can change"
        )
    sparse.checked(a.indices, size[:sparse_dim])
    at, v = a.indices, a.values
    if not a.nnz:
        at, v = np.zeros((sparse_dim, 0), np.int64), np.zeros((0, *values_shape), a.dtype)
    self._array = Coo(at, v, size, a.coalesced)  # type: ignore[assignment]
    return self


@public("Tensor")
def sparse_resize_and_clear_(self: Tensor, size: Any, sparse_dim: int, dense_dim: int) -> Tensor:
    """Another size and no entries, in place."""
    coordinates_of(self, "sparse_resize_and_clear_")
    return sparse_resize_(self.zero_(), size, sparse_dim, dense_dim)


@public(method=True)
def resize_as_sparse_(input: Tensor, the_template: Tensor) -> Tensor:
    """The size of another sparse tensor, in place; entries stay where they are."""
    like = coordinates_of(the_template, "resize_as_sparse_")
    dense = len(like.shape) - like.sparse_dim
    return sparse_resize_(input, like.shape, like.sparse_dim, dense)


def declare_copy(part: Any) -> None:
    @public(name=f"{part.__name__}_copy", doc=f"A copy of `input.{part.__name__}()`.")
    def copied(input: Tensor) -> Tensor:
        return part(input).clone()


for part in (*PARTS, indices, values):
    declare_copy(part)
