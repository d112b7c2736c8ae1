"""Conversions between layouts: `to_dense`, `to_sparse` and its forms for each layout."""

from __future__ import annotations

from typing import Any

from rushlight._backends import compressed
from rushlight._backends.compressed import BLOCKED, NAMES, Compressed
from rushlight._backends.sparse import Coo
from rushlight.core import dtypes
from rushlight.core.dtype_sets import I64
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import public
from rushlight.ops.sparse.operators import compress, coo_of, densified, is_sparse, run, sparsified


@public("Tensor", overridable=True)
def to_dense(self, dtype=None, *, masked_grad=None):
    """The dense tensor; a strided one is returned as it is, in another dtype where asked.

    The gradient has the entries of the sparse tensor, with `masked_grad=False` all of the dense one.

    >>> import rushlight as torch
    >>> torch.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,)).to_dense()
    tensor([3., 0., 0.])
    """
    if not is_sparse(self):
        return self if dtype is None else self.to(dtype)
    if dtype is not None:
        raise RuntimeError("dtype argument is not supported by sparse_to_dense")
    return run(densified, self, masked_grad is not False)


def refuse(form: str, t: Tensor, layout: Any, what: str) -> None:
    raise RuntimeError(
        f"{form}: conversion from {NAMES[t.layout]} to {NAMES[layout]} {what} is not supported"
    )


def form_of(t: Tensor, layout: Any, name: str) -> str:
    """What PyTorch calls the conversion in its messages."""
    if t.layout is layout and t.layout is not dtypes.strided:
        return name
    kind = "dense" if not is_sparse(t) else "sparse_compressed"
    if t.is_sparse:
        kind = "sparse_coo" if name == "to_sparse" else "coo"
    return f"{kind}_{name}"


@public("Tensor")
def to_sparse(self: Tensor, sparse_dim: Any = None, *, layout: Any = None, blocksize: Any = None,
              dense_dim: Any = None) -> Tensor:  # fmt: skip
    """The entries that are not zero, as a sparse tensor.

    `sparse_dim`: how many leading dimensions the coordinates run over (all); or `layout=`, with a
    `blocksize=` of rows and columns for sparse_bsr and sparse_bsc, and `dense_dim`, how many dimensions
    each entry has.

    >>> import rushlight as torch
    >>> torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse()
    tensor(indices=tensor([[0],
                           [1]]),
           values=tensor([2.]),
           size=(2, 2), nnz=1, layout=torch.sparse_coo)
    """
    if isinstance(sparse_dim, dtypes.layout):
        sparse_dim, layout = None, sparse_dim
    layout = layout or dtypes.sparse_coo
    if layout in compressed.LAYOUTS:
        return to_compressed(self, layout, blocksize, dense_dim, "to_sparse")
    if layout is dtypes.strided:
        return to_dense(self)
    if blocksize is not None:
        form = form_of(self, layout, "to_sparse")
        refuse(form, self, layout, "with blocksize argument given")
    a: Any = self._array
    if a.__class__ is Compressed:
        return coo_of(self)
    if a.__class__ is Coo:
        if sparse_dim not in (None, a.sparse_dim):
            raise RuntimeError(
                "to_sparse: conversion from Sparse to Sparse with sparse_dim argument "
                "!=self.sparse_dim() is not supported"
            )
        return self
    only_on_cpu(self)
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


def only_on_cpu(t: Tensor) -> None:
    if t.device.type != "cpu":
        raise NotImplementedError(
            f"[to_sparse] sparse tensors live on the CPU, got a tensor on {t.device}"
        )


@public("Tensor")
def to_sparse_coo(self: Tensor) -> Tensor:
    """`self.to_sparse()`."""
    return to_sparse(self)


def check_blocks(t: Tensor, layout: Any, blocksize: Any, rows: int, form: str) -> tuple:
    """The size of blocks as a tuple, () for layouts without; `rows` is the dimension of rows."""
    if layout not in BLOCKED:
        if blocksize is not None:
            refuse(form, t, layout, "with blocksize argument given")
        return ()
    if blocksize is None:
        refuse(form, t, layout, "without blocksize argument given")
    block = tuple(int(n) for n in blocksize)
    if len(block) != 2:
        raise RuntimeError(f"{form}: blocksize needs to be a tuple of size 2, but got {len(block)}")
    if min(block) <= 0:
        raise RuntimeError(f"{form}: blocksize needs to be positive, but got {list(block)}")
    n, m = t.shape[rows : rows + 2]
    if n % block[0] or m % block[1]:
        raise RuntimeError(
            f"{form}: tensor sparse size ({n},{m}) must be divisible by given blocksize "
            f"({block[0]},{block[1]})"
        )
    return block


def to_compressed(t: Tensor, layout: Any, blocksize: Any, dense_dim: Any, name: str) -> Tensor:
    """A tensor in one of the compressed layouts, by `to_sparse` or the form of that name."""
    form = form_of(t, layout, name)
    a: Any = t._array
    if is_sparse(t) and dense_dim is not None:
        refuse(form, t, layout, "with dense_dim argument given")
    if a.__class__ is Compressed:
        return recompressed(t, layout, blocksize, form)
    if a.__class__ is Coo:
        if a.sparse_dim != 2:
            refuse(form, t, layout, "for input tensors with sparse_dim()!=2")
        block = check_blocks(t, layout, blocksize, 0, form)
        return run(compress, t, layout, block, 0, I64)
    only_on_cpu(t)
    if t.ndim < 2:
        raise RuntimeError(
            f"{form}: expected a tensor of at least two dimensions, got one of shape {list(t.shape)}"
        )
    dense = dense_dim or 0
    if not 0 <= dense <= t.ndim - 2:
        raise RuntimeError(
            f"{form}: dense_dim argument must be in [0,{t.ndim - 2}] range, but {dense} is given"
        )
    batch = t.ndim - 2 - dense
    block = check_blocks(t, layout, blocksize, batch, form)
    if 0 in t.shape[:batch]:
        code = str(layout)[-3:]
        raise RuntimeError(
            f"to_sparse_{code}: Expected product of batch dimensions to be non-zero."
        )
    coo = run(sparsified, t, t.ndim - dense, "ToSparseBackward1")
    return run(compress, coo, layout, block, batch, I64)


def recompressed(t: Tensor, layout: Any, blocksize: Any, form: str) -> Tensor:
    """A compressed tensor in another compressed layout, or itself."""
    a: Any = t._array
    if a.layout in BLOCKED and layout in BLOCKED:
        if blocksize is not None and tuple(blocksize) != a.block:
            changed = f"with blocksize changed from {list(a.block)} to {list(blocksize)}"
            refuse(form, t, layout, changed)
        block = check_blocks(t, layout, blocksize, a.batch_dim, form)
    elif a.layout in BLOCKED:
        check_blocks(t, layout, blocksize, a.batch_dim, form)
        code = str(layout)[-3:]
        raise RuntimeError(
            f"sparse_compressed_to_sparse_{code}: expected SparseCsr or SparseCsc layout but got "
            f"{NAMES[a.layout]}"
        )
    else:
        block = check_blocks(t, layout, blocksize, a.batch_dim, form)
        if block and a.batch_dim:
            refuse(form, t, layout, "for batched inputs")
    if a.layout is layout:
        return t
    return run(compress, coo_of(t), layout, block, a.batch_dim, a.plain.dtype)


@public("Tensor")
def to_sparse_csr(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """A matrix, or a batch of them, in compressed rows.

    >>> import rushlight as torch
    >>> torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse_csr().crow_indices()
    tensor([0, 1, 1])
    """
    return to_compressed(self, dtypes.sparse_csr, None, dense_dim, "to_sparse_csr")


@public("Tensor")
def to_sparse_csc(self: Tensor, dense_dim: int | None = None) -> Tensor:
    """A matrix, or a batch of them, in compressed columns."""
    return to_compressed(self, dtypes.sparse_csc, None, dense_dim, "to_sparse_csc")


def sizes_of_block(name: str, blocksize: Any) -> Any:
    if not isinstance(blocksize, (tuple, list, int)):
        raise TypeError(
            f"{name}(): argument 'blocksize' (position 1) must be tuple of ints, not "
            f"{type(blocksize).__name__}"
        )
    return (blocksize, blocksize) if isinstance(blocksize, int) else blocksize


@public("Tensor")
def to_sparse_bsr(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """A matrix, or a batch of them, in compressed rows of blocks: a block is stored where one of its
    elements is not zero.

    >>> import rushlight as torch
    >>> torch.tensor([[0.0, 2.0], [0.0, 0.0]]).to_sparse_bsr((2, 1)).values()
    tensor([[[2.],
             [0.]]])
    """
    block = sizes_of_block("to_sparse_bsr", blocksize)
    return to_compressed(self, dtypes.sparse_bsr, block, dense_dim, "to_sparse_bsr")


@public("Tensor")
def to_sparse_bsc(self: Tensor, blocksize: Any, dense_dim: int | None = None) -> Tensor:
    """A matrix, or a batch of them, in compressed columns of blocks."""
    block = sizes_of_block("to_sparse_bsc", blocksize)
    return to_compressed(self, dtypes.sparse_bsc, block, dense_dim, "to_sparse_bsc")
