"""What only tensors in coordinates do: broadcast, be narrowed, be written to by `out=`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.sparse import Coo
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import public
from rushlight.dispatch.results import bump
from rushlight.ops.sparse.operators import build, is_sparse, run, values_of


def write_out(name: str, out: Tensor, result: Tensor) -> Tensor:
    """A result into the sparse tensor `out`, which gets its size."""
    if not is_sparse(out) or not is_sparse(result) or out._array.__class__ is not Coo:
        raise RuntimeError(
            f"{name}(): Expected self.is_sparse() && result.is_sparse() to be true, but got false: the result and "
            "out= have different layouts"
        )
    if not dtypes.can_cast(result.dtype, out.dtype):
        raise RuntimeError(
            f"result type {result.dtype.scalar_name} can't be cast to the desired output type "
            f"{out.dtype.scalar_name}"
        )
    a: Any = out._array
    r: Any = result.to(out.dtype)._array
    a.indices, a.values = r.indices.copy(), r.values.copy()
    a.shape, a.coalesced = r.shape, r.coalesced
    bump(out)
    return out


@public(name="_sparse_broadcast_to")
def broadcast_to(input: Tensor, size: Any) -> Tensor:
    """A sparse tensor in another shape: its entries stand at each place of a dimension that is new or had one.

    >>> import rushlight as torch
    >>> torch._sparse_broadcast_to(torch.eye(2).to_sparse(), (2, 2, 2)).to_dense()[1]
    tensor([[1., 0.],
            [0., 1.]])
    """
    a: Any = input._array
    size = tuple(size)
    if size == a.shape:
        return input
    geometry.broadcast_shapes(a.shape, size)
    new, n = len(size) - len(a.shape), a.sparse_dim
    sparse_sizes = size[: new + n]
    if new < 0 or size != geometry.broadcast_shapes(a.shape, size):
        raise RuntimeError(
            f"_sparse_broadcast_to: {list(a.shape)} does not broadcast to {list(size)}"
        )
    v = run(values_of, input)
    v = v.expand(a.nnz, *size[new + n :])
    at = np.concatenate((np.zeros((new, a.nnz), np.int64), a.indices))
    old = (1,) * new + a.shape[:n]
    for d in range(new + n):  # each entry, once for each place along the dimension
        if old[d] == sparse_sizes[d]:
            continue
        k = sparse_sizes[d]
        v = v.repeat_interleave(k, 0)
        at = at.repeat(k, 1)
        at[d] = np.tile(np.arange(k), at.shape[1] // k if k else 0)
    return build(v, at, size, False, "SparseBroadcastToBackward0")


def narrowed(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The entries whose coordinate in `dim` is in [start, start + length)."""
    a: Any = input._array
    if not 0 <= dim < input.ndim:
        raise RuntimeError(f"Dimension {dim} out of range. Expecting 0 <= dim < {input.ndim}.")
    size = a.shape[dim]
    if start < 0 or length < 0 or start + length > size:
        raise RuntimeError(
            "Invalid range to narrow. range(start, start+length) must be a subset of range(0, "
            f"{size})."
        )
    shape = (*a.shape[:dim], length, *a.shape[dim + 1 :])
    v, at, n = run(values_of, input), a.indices, a.sparse_dim
    if dim >= n:
        v = v.narrow(dim - n + 1, start, length)
        return build(v, at, shape, a.coalesced, "NarrowCopyBackward0")
    kept = np.flatnonzero((at[dim] >= start) & (at[dim] < start + length))
    at = at.take(kept, 1)
    at[dim] -= start
    return build(v[_wrap(kept)], at, shape, a.coalesced, "NarrowCopyBackward0")
