"""Sparse tensors: the operators whose forward knows sparse arrays.

In terms of these (`_sparse.*`) calls.py and its neighbours write what public operators do on sparse
tensors; creation.py and methods.py hold what only sparse tensors have. Most of it is `values_of` (the values, as a
dense tensor), dense operators on these, and `build` (a sparse tensor from values): gradients follow.
"""

from __future__ import annotations

from typing import Any

from rushlight._backends import compressed, sparse
from rushlight._backends.compressed import Compressed
from rushlight._backends.sparse import Coo, Sparse
from rushlight.core import dtypes
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import general
from rushlight.dispatch.registry import Array, op


def is_sparse(t: Any) -> bool:
    return isinstance(t, Tensor) and isinstance(t._array, Sparse)


def run(op: Any, *values: Any) -> Any:
    """Call one of the operators below on all its parameters.

    Generated functions would take a sparse result of dense inputs for an unusual array, and convert it.
    """
    return general.call(
        getattr(op, "op", op), values
    )  # once built, the name stands for its function


# -- taking apart and putting together -------------------------------------------------------------


@op(where="_sparse", node="ValuesBackward0", out=False)
def values_of(xp, input: Array):
    """The values of a sparse tensor, in the memory they are in."""
    return input.values


values_of.grad(input=lambda g, input: entries(g, input))


@op(view=True, where="_sparse", name="values_view", node="ValuesBackward0")
def values_viewed(xp, input: Array):
    """`values_of` as a view: what `Tensor.values()` gives."""
    return input.values


values_viewed.grad(input=lambda g, input: entries(g, input))


def entries(g: Tensor, input: Tensor) -> Tensor:
    """The gradient of a tensor from those of its values: where a coordinate occurs twice, both have the
    same gradient, which is that of the coordinate, and stands there once."""
    a: Any = input._array
    if a.__class__ is Compressed or sparse.is_sorted(a):
        return with_values(input, g)
    order, starts, _ = sparse.groups(sparse.keys(a.indices, a.shape[: a.sparse_dim]))
    first = order[starts]
    return build(g[_wrap(first)], a.indices.take(first, 1), a.shape)


@op(where="_sparse", node=lambda name, **_: name, out=False)
def assemble(xp, values: Array, indices: Any, size: tuple, coalesced: bool, name: str):
    """A sparse tensor of `size` with `values` at `indices`, an int64 array [sparse dims, nnz]."""
    return Coo(indices, values, size, coalesced)


assemble.grad(values=lambda g, indices: values_at_indices(g, indices))


def build(
    values: Tensor, indices: Any, size: tuple, coalesced: bool = False, name: str = ""
) -> Tensor:
    if values.device.type != "cpu":
        raise NotImplementedError(
            f"[sparse tensors] they live on the CPU, got values on {values.device}: use .cpu() first"
        )
    name = name or "SparseCooTensorWithDimsAndTensorsBackward0"
    return run(assemble, values, indices, tuple(size), coalesced, name)


@op(where="_sparse", node=lambda name, **_: name, out=False)
def assemble_compressed(xp, values: Array, like: Any, name: str):
    """A compressed tensor with the pattern of the array `like`."""
    return like.with_values(values)


assemble_compressed.grad(values=lambda g, like: run(values_of, pattern_of(g, like)))


def pattern_of(g: Tensor, like: Compressed) -> Tensor:
    """A gradient with the pattern of `like`, whatever layout it came in."""
    a: Any = g._array
    if a.__class__ is Compressed and a.plain is like.plain and a.pointers is like.pointers:
        return g
    values = values_at_indices(coo_of(g), like.coordinates())
    return with_values(_wrap(like), values.reshape(like.values.shape))  # type: ignore[arg-type]


def with_values(like: Tensor, values: Tensor, name: str = "", coalesced: bool = False) -> Tensor:
    """A sparse tensor with the pattern of another."""
    a: Any = like._array
    if a.__class__ is Compressed:
        return run(assemble_compressed, values, a, name or "SparseCompressedTensorBackward0")
    size = (*a.shape[: a.sparse_dim], *values.shape[1:])
    return build(values, sparse.row_major(a.indices), size, coalesced, name)


@op(where="_sparse", name="taken", node="SparseMaskBackward0", out=False)
def values_at(xp, input: Array, indices: Any):
    """The values of a dense or sparse tensor at coordinates."""
    return sparse.values_at(input, indices)


values_at.grad(input=lambda g, input, indices: scattered(g, input, indices))


def values_at_indices(t: Tensor, indices: Any) -> Tensor:
    return run(values_at, t, indices)


def scattered(g: Tensor, input: Tensor, indices: Any) -> Tensor:
    """The transpose of `values_at_indices`: in the layout of the input."""
    made = build(g, indices, input.shape)
    return made if is_sparse(input) else dense_of(made)


@op(where="_sparse", name="coalesce", node="CoalesceBackward0", out=False)
def coalesced(xp, input: Array):
    """Coordinates sorted, each once, what occurred twice added up."""
    return sparse.coalesce(input)


coalesced.grad(input=lambda g: g)


@op(where="_sparse", name="to_dense", node="ToDenseBackward0", out=False)
def densified(xp, input: Array, masked: bool):
    """The dense tensor; the gradient is `masked` by the entries of the sparse one."""
    return sparse.dense(input)


densified.grad(input=lambda g, input, masked: (masked_once if masked else unmasked)(g, input))


def unmasked(g: Tensor, input: Tensor) -> Tensor:
    """All of a gradient in the layout of `input`."""
    a: Any = input._array
    if a.__class__ is Coo:
        return run(sparsified, g, a.sparse_dim, "ToSparseBackward0")
    found = run(sparsified, g, g.ndim - a.dense_dim, "ToSparseBackward0")
    return compressed_like(found, a)


def dense_of(t: Tensor) -> Tensor:
    """A sparse or dense tensor as a dense one."""
    return run(densified, t, True) if is_sparse(t) else t


def masked(t: Tensor, mask: Tensor) -> Tensor:
    """The values of `t` where `mask` has entries, in the layout of `mask`."""
    a: Any = mask._array
    if a.__class__ is Compressed:
        return pattern_of(t, a)
    at = sparse.row_major(a.indices)
    return build(values_at_indices(t, at), at, a.shape, a.coalesced, "SparseMaskBackward0")


def masked_once(g: Tensor, input: Tensor) -> Tensor:
    """A gradient at the coordinates of a tensor, each once."""
    a: Any = input._array
    if a.__class__ is Compressed:
        return pattern_of(g, a)
    at = a.indices if sparse.is_sorted(a) else sparse.coalesce(a).indices
    return build(values_at_indices(g, at), at, a.shape)


@op(where="_sparse", name="to_sparse", node=lambda name, **_: name, out=False)
def sparsified(xp, input: Array, sparse_dim: int, name: str):
    """The entries that are not zero."""
    return sparse.sparse(input, sparse_dim)


sparsified.grad(input=lambda g: dense_of(g))


@op(where="_sparse", name="coo_of", node="ToSparseBackward0", out=False)
def in_coordinates(xp, input: Array):
    """A compressed tensor in coordinates; batch dimensions are sparse dimensions there."""
    return input.coo()


in_coordinates.grad(input=lambda g, input: pattern_of(g, input._array))


def coo_of(t: Tensor) -> Tensor:
    """A compressed tensor in coordinates; others as they are."""
    return run(in_coordinates, t) if t._array.__class__ is Compressed else t


@op(where="_sparse", node=lambda layout, **_: BACKWARD[layout], out=False)
def compress(xp, input: Array, layout: Any, block: tuple, batch_dim: int, index: Any):
    """A tensor in coordinates in a compressed layout."""
    return compressed.compress(input, layout, block, batch_dim, index)


compress.grad(input=lambda g: coo_of(g))
BACKWARD = {
    layout: f"To{name}Backward0"
    for layout, name in (
        (dtypes.sparse_csr, "SparseCsr"), (dtypes.sparse_csc, "SparseCsc"),
        (dtypes.sparse_bsr, "SparseBsr"), (dtypes.sparse_bsc, "SparseBsc"),
    )
}  # fmt: skip


def compressed_like(t: Tensor, like: Compressed) -> Tensor:
    """A tensor in coordinates in the layout of `like`, with its blocks and batch dimensions."""
    return run(compress, t, like.layout, like.block, like.batch_dim, like.plain.dtype)
