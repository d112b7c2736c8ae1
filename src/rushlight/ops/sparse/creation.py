"""Functions that make sparse tensors of indices and values, and check them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import sparse
from rushlight._backends.sparse import Coo, Csr
from rushlight.core import dtypes, modes
from rushlight.core.device import device as Device
from rushlight.core.dtype_sets import I32, I64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import public
from rushlight.ops.sparse.operators import assemble_compressed, build, run


def as_array(data: Any, dtype: Any = None) -> Tensor:
    """A tensor from a tensor (itself, unless the dtype differs), an array, a list."""
    import rushlight

    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    return rushlight.as_tensor(data, dtype=dtype)


def sizes_of(name: str, size: Any) -> tuple[int, ...]:
    if isinstance(size, (tuple, list)) and all(hasattr(n, "__index__") for n in size):
        return tuple(n.__index__() for n in size)
    raise TypeError(
        f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}"
    )


def on_cpu(name: str, device: Any) -> None:
    if device is not None and Device(device).type != "cpu":
        raise NotImplementedError(f"[{name}] sparse tensors live on the CPU, got device={device!r}")


def finished(t: Tensor, requires_grad: bool) -> Tensor:
    return t.requires_grad_() if requires_grad else t


@public()
def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, layout=None, device=None,
                      pin_memory=False, requires_grad=False, check_invariants=None,
                      is_coalesced=None):  # fmt: skip
    """A sparse tensor in coordinates: `values` [nnz, *dense] at `indices` [sparse dims, nnz].

    Coordinates may repeat: their values add up (see `Tensor.coalesce`). Without `size` it is the
    smallest that holds all; `sparse_coo_tensor(size)` alone is all zeros. `is_coalesced` promises that
    the coordinates are sorted and unique. RuntimeError for coordinates outside of `size`: they are
    always checked here, whatever `check_invariants` says, which then checks the promise too.

    >>> import rushlight as torch
    >>> torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3)).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    on_cpu("sparse_coo_tensor", device)
    if values is None:
        shape = sizes_of("sparse_coo_tensor", indices if indices is not None else size)
        d = dtypes.OF[np.dtype(dtype.np)] if dtype is not None else modes.get_default_dtype()
        empty = Coo(np.zeros((len(shape), 0), np.int64), np.zeros(0, d.np), shape, True)
        return finished(_wrap(empty), requires_grad)  # type: ignore[arg-type]
    v = as_array(values, dtype)
    at = as_array(indices)._array
    if at.ndim == 0:
        raise RuntimeError("indices must be sparse_dim x nnz, got a 0-d tensor")
    at = at.astype(np.int64, copy=False) if at.dtype is not I64 else at
    if at.ndim != 2:
        at = at[None] if at.ndim == 1 and size is None else at.reshape(len(at), -1)
    if v.ndim == 0:
        v = v.reshape(1)
    n_sparse, nnz = at.shape
    if size is None:
        if nnz == 0 and n_sparse:
            size = (0,) * n_sparse
        else:
            sparse.checked(at, (2**62,) * n_sparse)
            size = tuple((at.max(1) + 1).tolist()) if n_sparse else ()
        size = (*size, *v.shape[1:])
    else:
        size = sizes_of("sparse_coo_tensor", size)
    if len(size) != n_sparse + v.ndim - 1:
        raise RuntimeError(
            f"'len(size) == sparse_dim + dense_dim' is not satisfied: len(size) = {len(size)}, "
            f"sparse_dim = {n_sparse}, dense_dim = {v.ndim - 1}"
        )
    if v.shape[0] != nnz:
        raise RuntimeError(
            f"indices and values must have same nnz, but got nnz from indices: {nnz}, nnz from values: "
            f"{v.shape[0]}"
        )
    if tuple(v.shape[1:]) != size[n_sparse:]:
        raise RuntimeError(
            f"values has incorrect size, expected [{', '.join(map(str, (nnz, *size[n_sparse:])))}], got "
            f"{list(v.shape)}"
        )
    sparse.checked(at, size[:n_sparse])
    made = build(v, at, size, bool(is_coalesced) if is_coalesced is not None else nnz < 2)
    if (
        is_coalesced
        and checks(check_invariants)
        and not sparse.is_sorted(Coo(at, v._array, made._array.shape))
    ):
        raise RuntimeError(
            "cannot set is_coalesced to true if indices correspond to uncoalesced COO tensor"
        )
    if requires_grad:
        made = made.detach()
    return finished(made, requires_grad)


def checks(given: bool | None) -> bool:
    """Whether promises are checked: as said, else by `sparse.check_sparse_tensor_invariants`."""
    return invariants["checked"] if given is None else bool(given)


invariants = {"checked": False}


def compressed(name: str, pointers: Any, plain: Any, values: Any, size: Any, by_column: bool,
               dtype: Any, device: Any, requires_grad: bool) -> Tensor:  # fmt: skip
    """A matrix in compressed rows or columns, checked."""
    v = as_array(values, dtype)
    on_cpu(name, v.device if device is None else device)
    crow, col = as_array(pointers)._array, as_array(plain)._array
    if crow.ndim != 1 or col.ndim != 1 or v.ndim != 1:
        raise NotImplementedError(
            f"[{name}] only single matrices without dense dimensions are implemented, got "
            f"{crow.ndim}-D, {col.ndim}-D indices and {v.ndim}-D values"
        )
    n = len(crow) - 1
    if size is None:
        m = int(col.max()) + 1 if col.size else 0
        size = (m, n) if by_column else (n, m)
    size = sizes_of(name, size)
    words = ("ccol_indices", "row_indices", "columns", "rows")
    kind, other, lines, cells = (
        words if by_column else ("crow_indices", "col_indices", "rows", "cols")
    )
    if len(size) != 2 or size[int(by_column)] != n:
        raise RuntimeError(
            f"{kind}.shape[-1] must be equal to the number of {lines} + 1 (that is, "
            f"{size[int(by_column)] + 1 if len(size) == 2 else '?'}), but got {n + 1}"
        )
    if len(col) != v.shape[0]:
        raise RuntimeError(f"{other} and values must have the same nnz: {len(col)} != {v.shape[0]}")
    if n < 0 or crow[0] != 0 or crow[-1] != len(col) or (crow[1:] < crow[:-1]).any():
        raise RuntimeError(
            f"`{kind}` must start with 0, never fall and end with nnz = {len(col)}: {crow.tolist()[:20]}"
        )
    if col.size and (col.min() < 0 or col.max() >= size[1 - int(by_column)]):
        raise RuntimeError(
            f"`0 <= {other} < n{cells}` is not satisfied: {int(col.min())} to {int(col.max())} for "
            f"{size[1 - int(by_column)]} {cells}"
        )
    if crow.dtype is not I32 or col.dtype is not I32:
        crow, col = crow.astype(np.int64, copy=False), col.astype(np.int64, copy=False)
    like = Csr(crow, col, v._array, size, by_column)
    made = run(assemble_compressed, v, like, "SparseCompressedTensorBackward0")
    return finished(made.detach() if requires_grad else made, requires_grad)


@public()
def sparse_csr_tensor(crow_indices, col_indices, values, size=None, *, dtype=None, layout=None,
                      device=None, pin_memory=False, requires_grad=False,
                      check_invariants=None):  # fmt: skip
    """A sparse matrix in compressed rows: entries `crow[i]:crow[i + 1]` are those of row i.

    >>> import rushlight as torch
    >>> torch.sparse_csr_tensor([0, 1, 3], [2, 0, 2], [3.0, 4.0, 5.0]).to_dense()
    tensor([[0., 0., 3.],
            [4., 0., 5.]])
    """
    options = (values, size, False, dtype, device, requires_grad)
    return compressed("sparse_csr_tensor", crow_indices, col_indices, *options)


@public()
def sparse_csc_tensor(ccol_indices, row_indices, values, size=None, *, dtype=None, layout=None,
                      device=None, pin_memory=False, requires_grad=False,
                      check_invariants=None):  # fmt: skip
    """A sparse matrix in compressed columns: entries `ccol[j]:ccol[j + 1]` are those of column j.

    >>> import rushlight as torch
    >>> torch.sparse_csc_tensor([0, 1, 2], [1, 0], [4.0, 3.0]).to_dense()
    tensor([[0., 3.],
            [4., 0.]])
    """
    options = (values, size, True, dtype, device, requires_grad)
    return compressed("sparse_csc_tensor", ccol_indices, row_indices, *options)


@public()
def sparse_compressed_tensor(compressed_indices, plain_indices, values, size=None, *, dtype=None,
                             layout=None, device=None, pin_memory=False, requires_grad=False,
                             check_invariants=None):  # fmt: skip
    """A sparse matrix in compressed rows (`layout=torch.sparse_csr`) or columns (`torch.sparse_csc`).

    >>> import rushlight as torch
    >>> torch.sparse_compressed_tensor([0, 1], [0], [2.0], layout=torch.sparse_csr).to_dense()
    tensor([[2.]])
    """
    if layout is not dtypes.sparse_csr and layout is not dtypes.sparse_csc:
        raise RuntimeError(
            f"sparse_compressed_tensor: expected layout torch.sparse_csr or torch.sparse_csc, got {layout}"
        )
    return compressed(
        "sparse_compressed_tensor", compressed_indices, plain_indices, values, size,
        layout is dtypes.sparse_csc, dtype, device, requires_grad,
    )  # fmt: skip


@public()
def _convert_indices_from_coo_to_csr(input, size, *, out_int32=False):
    """Sorted row numbers as where each of `size` rows begins, and the end: `size + 1` numbers.

    >>> import rushlight as torch
    >>> torch._convert_indices_from_coo_to_csr(torch.tensor([0, 0, 2]), 3)
    tensor([0, 2, 2, 3])
    """
    starts = np.searchsorted(input.numpy(force=True), np.arange(size + 1))
    return _wrap(starts.astype(np.int32 if out_int32 else np.int64))


@public()
def _convert_indices_from_csr_to_coo(
    crow_indices, col_indices, *, out_int32=False, transpose=False
):
    """Both rows of coordinates `[2, nnz]` of compressed rows; the columns first with `transpose`.

    >>> import rushlight as torch
    >>> torch._convert_indices_from_csr_to_coo(torch.tensor([0, 2, 2, 3]), torch.tensor([1, 2, 0]))
    tensor([[0, 0, 2],
            [1, 2, 0]])
    """
    starts = crow_indices.numpy(force=True)
    rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
    pair = (rows, col_indices.numpy(force=True))
    return _wrap(
        np.stack(pair[::-1] if transpose else pair).astype(np.int32 if out_int32 else np.int64)
    )
