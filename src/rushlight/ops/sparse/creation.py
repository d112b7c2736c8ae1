"""Functions that make sparse tensors of indices and values, and check them."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import sparse
from rushlight._backends.sparse import Coo
from rushlight.core import dtypes, modes
from rushlight.core.device import device as Device
from rushlight.core.dtype_sets import I64
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import public
from rushlight.ops.sparse.operators import build


def as_array(data: Any, dtype: Any = None) -> Tensor:
    """A tensor from a tensor (itself, unless the dtype differs), an array, a list."""
    import rushlight

    if isinstance(data, Tensor):
        return data if dtype is None else data.to(dtype)
    return rushlight.as_tensor(data, dtype=dtype)


def sizes_of(name: str, size: Any) -> tuple[int, ...]:
    if isinstance(size, (tuple, list)) and all(hasattr(n, "__index__") for n in size):
        size = tuple(n.__index__() for n in size)
        for n in size:
            if n < 0:
                raise RuntimeError(
                    f"Trying to create tensor with negative dimension {n}: {list(size)}"
                )
        return size
    raise TypeError(
        f"{name}(): argument 'size' (position 1) must be tuple of ints, not {type(size).__name__}"
    )


def on_cpu(name: str, device: Any) -> None:
    if device is not None and Device(device).type != "cpu":
        raise NotImplementedError(f"[{name}] sparse tensors live on the CPU, got device={device!r}")


def finished(t: Tensor, requires_grad: bool) -> Tensor:
    return t._set_requires_grad(True) if requires_grad else t


@public()
def sparse_coo_tensor(indices=None, values=None, size=None, *, dtype=None, layout=None, device=None,
                      pin_memory=False, requires_grad=False, check_invariants=None,
                      is_coalesced=None):  # fmt: skip
    """A sparse tensor in coordinates: `values` [nnz, *dense] at `indices` [sparse dims, nnz].

    Coordinates may repeat: their values add up (see `Tensor.coalesce`). Without `size` it is the
    smallest that holds all; `sparse_coo_tensor(size)` alone is all zeros. `is_coalesced` promises that
    the coordinates are sorted and unique. RuntimeError for coordinates outside of `size`, unless
    `check_invariants` is False; if it is True, the promise is checked too.

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
    if at.ndim != 2:
        raise RuntimeError(f"indices must be sparse_dim x nnz, but got: {list(at.shape)}")
    at = at.astype(np.int64, copy=False) if at.dtype is not I64 else at
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
    if (invariants["checked"] if check_invariants is None else check_invariants) is not False:
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


@public()
def _validate_sparse_coo_tensor_args(indices, values, size, is_coalesced=None, check_pinning=None):
    """RuntimeError unless the parts make a tensor in coordinates whose invariants all hold."""
    sparse_coo_tensor(indices, values, size, check_invariants=True, is_coalesced=is_coalesced)


def checks(given: bool | None) -> bool:
    """Whether promises are checked: as said, else by `sparse.check_sparse_tensor_invariants`."""
    return bool(invariants["checked"] if given is None else given)


invariants: dict[str, bool | None] = {"checked": None}  # None: nothing has been said
