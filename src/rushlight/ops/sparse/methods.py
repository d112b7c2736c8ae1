"""Methods of sparse tensors: their parts, sizes and masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import sparse
from rushlight._backends.compressed import NAMES, Compressed
from rushlight._backends.sparse import Coo, Sparse
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import public
from rushlight.ops.sparse.creation import sizes_of
from rushlight.ops.sparse.operators import (
    coalesced,
    is_sparse,
    masked,
    run,
    values_viewed,
)


def coordinates_of(t: Tensor, name: str) -> Coo:
    a: Any = t._array
    if a.__class__ is not Coo:
        raise RuntimeError(
            f"{name} expected sparse coordinate tensor layout but got {NAMES[t.layout]}"
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
    return run(values_viewed, self)


def inner(t: Tensor, name: str) -> Coo:
    a: Any = t._array
    if a.__class__ is not Coo:
        sparse.refuse(name, getattr(a, "backend", "CPU"))
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
    return a.sparse_dim if a.__class__ is Coo else 2 if a.__class__ is Compressed else 0


@public("Tensor")
def dense_dim(self: Tensor) -> int:
    """The number of dimensions of each value; all of a strided tensor."""
    a: Any = self._array
    return a.dense_dim if a.__class__ is Compressed else a.ndim - sparse_dim(self)


public("Tensor", name="_dimI")(sparse_dim)
public("Tensor", name="_dimV")(dense_dim)


def compressed_part(name: str, by_column: bool, part: str, meaning: str) -> Any:
    """Declare the method that gives one array of a compressed tensor."""

    @public("Tensor", name=name, doc=meaning)
    def get(self: Tensor) -> Tensor:
        a: Any = self._array
        if a.__class__ is not Compressed or a.by_column != by_column:
            kind = "column" if by_column else "row"
            raise RuntimeError(
                f"{name} expected sparse {kind} compressed tensor layout but got {NAMES[self.layout]}"
            )
        return _wrap(getattr(a, part))

    return get


PARTS = [
    compressed_part(*row)
    for row in (
        (
            "crow_indices",
            False,
            "pointers",
            "Where the entries of each row begin, and the last end.",
        ),
        ("col_indices", False, "plain", "The column of each entry of a matrix in compressed rows."),
        (
            "ccol_indices",
            True,
            "pointers",
            "Where the entries of each column begin, and the last end.",
        ),
        ("row_indices", True, "plain", "The row of each entry of a matrix in compressed columns."),
    )
]


@public("Tensor")
def sparse_mask(self: Tensor, mask: Tensor) -> Tensor:
    """The values of a dense or sparse tensor where the sparse `mask` has entries.

    >>> import rushlight as torch
    >>> mask = torch.tensor([[0.0, 1.0], [1.0, 0.0]]).to_sparse()
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).sparse_mask(mask).values()
    tensor([2., 3.])
    """
    if self._array.__class__ is Compressed and mask._array.__class__ is not Compressed:
        raise RuntimeError(
            "sparse_mask_sparse_compressed expects mask to have sparse compressed layout, got "
            f"{NAMES[mask.layout]}"
        )
    if self.shape != mask.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(self.shape)} but mask "
            f"has size {list(mask.shape)}"
        )
    if not is_sparse(mask):
        raise RuntimeError("sparse_mask: expected mask to be sparse, got a strided tensor")
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
    if a.nnz:
        before, now = a.shape[: a.sparse_dim], size[:sparse_dim]
        changes = (
            ("changing the number of sparse", a.sparse_dim, sparse_dim, a.sparse_dim != sparse_dim),
            ("changing the number of dense", len(a.shape) - a.sparse_dim, dense_dim, a.values.ndim != dense_dim + 1),
            ("shrinking the size of sparse", list(before), list(now), any(k > n for k, n in zip(before, now))),
            ("changing the size of dense", list(a.values.shape[1:]), list(values_shape), a.values.shape[1:] != values_shape),
        )  # fmt: skip
        for what, old, new, is_so in changes:
            if is_so:
                raise RuntimeError(
                    f"{what} dimensions (from {old} to {new}) on a non-empty sparse tensor is not supported"
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


@public(method=True, overridable=True)
def resize_as_sparse_(input: Tensor, the_template: Tensor) -> Tensor:
    """The size of another sparse tensor, in place; entries stay where they are.

    A compressed tensor takes the pattern of the other, too, with zeros for values.
    """
    if Compressed in (input._array.__class__, the_template._array.__class__):
        from rushlight.ops.sparse.compressed import resize_as

        return resize_as(input, the_template)
    like = coordinates_of(the_template, "resize_as_sparse_")
    dense = len(like.shape) - like.sparse_dim
    return sparse_resize_(input, like.shape, like.sparse_dim, dense)


def declare_copy(part: Any) -> None:
    @public(
        name=f"{part.__name__}_copy", doc=f"A copy of `input.{part.__name__}()`.", overridable=True
    )
    def copied(input: Tensor) -> Tensor:
        return part(input).clone()


for part in (*PARTS, indices, values):
    declare_copy(part)
