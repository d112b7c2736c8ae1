"""What operators on shapes do with sparse tensors: they move coordinates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from rushlight._backends import sparse
from rushlight._backends.sparse import Coo
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import Array, op
from rushlight.ops.sparse.operators import build, is_sparse, run, values_of

if TYPE_CHECKING:
    from collections.abc import Callable


@op(where="_sparse", name="permute", node=lambda name, **_: name, out=False)
def reordered(xp, input: Array, dims: tuple, name: str):
    """Dimensions in another order, sparse ones among themselves and dense ones among themselves."""
    a, n = input, input.sparse_dim
    values = a.values.transpose((0, *(d - n + 1 for d in dims[n:])))
    same = dims[:n] == tuple(range(n))
    size = tuple(a.shape[d] for d in dims)
    return Coo(a.indices[list(dims[:n])], values, size, a.coalesced and same)


reordered.grad(input=lambda g, dims: g.permute(tuple(dims.index(d) for d in range(len(dims)))))


def permuted(input: Tensor, dims: tuple, name: str) -> Tensor:
    n = input._array.sparse_dim  # type: ignore[attr-defined]
    if sorted(dims[:n]) != list(range(n)):
        i, j = next(((i, d) for i, d in enumerate(dims) if i < n <= d), (0, n))
        raise RuntimeError(
            f"sparse transpose: transposed dimensions must be sparse Got sparse_dim: {n}, d0: {i}, d1: {j}"
        )
    return run(reordered, input, dims, name)


def permute(input: Tensor, dims: Any) -> Tensor:
    if len(dims) != input.ndim:
        raise RuntimeError(
            "permute(sparse_coo): number of dimensions in the tensor input does not match the length of "
            f"the desired ordering of dimensions i.e. input.dim() = {input.ndim} is not equal to "
            f"len(dims) = {len(dims)}"
        )
    return permuted(input, geometry.wrap_dims(tuple(dims), input.ndim), "PermuteBackward0")


def transpose(input: Tensor, dim0: int, dim1: int, name: str = "TransposeBackward0") -> Tensor:
    i, j = geometry.wrap_dim(dim0, input.ndim), geometry.wrap_dim(dim1, input.ndim)
    dims = list(range(input.ndim))
    dims[i], dims[j] = j, i
    a: Any = input._array
    if a.__class__ is Coo and i != j and max(i, j) >= a.sparse_dim:
        raise RuntimeError(
            "sparse transpose: transposed dimensions must be sparse Got sparse_dim: "
            f"{a.sparse_dim}, d0: {i}, d1: {j}"
        )
    return permuted(input, tuple(dims), name)


def flipped(input: Tensor) -> Tensor:
    if input.ndim > 2 or sparse_dims(input) > 2 or input.ndim != sparse_dims(input):
        raise RuntimeError(
            f"t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got {sparse_dims(input)} "
            f"sparse and {input.ndim - sparse_dims(input)} dense dimensions"
        )
    return input if input.ndim < 2 else transpose(input, 0, 1, "TBackward0")


def sparse_dims(t: Tensor) -> int:
    a: Any = t._array
    return a.sparse_dim if a.__class__ is Coo else 2


def only_coo(t: Tensor, name: str) -> Coo:
    a: Any = t._array
    if a.__class__ is not Coo:
        sparse.refuse(name, a.backend)
    return a


def unsqueeze(input: Tensor, dim: int) -> Tensor:
    a = only_coo(input, "unsqueeze")
    dim = geometry.wrap_dim(dim, input.ndim + 1)
    size = (*a.shape[:dim], 1, *a.shape[dim:])
    v = run(values_of, input)
    if dim > a.sparse_dim:
        return build(
            v.unsqueeze(dim - a.sparse_dim + 1), a.indices, size, a.nnz < 2, "UnsqueezeBackward0"
        )
    return build(v, np.insert(a.indices, dim, 0, axis=0), size, a.nnz < 2, "UnsqueezeBackward0")


def select(input: Tensor, dim: int, index: int) -> Tensor:
    a = only_coo(input, "select")
    dim = geometry.wrap_dim(dim, input.ndim)
    if not -a.shape[dim] <= index < a.shape[dim]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(a.shape)} at dimension {dim}"
        )
    index %= a.shape[dim]
    n = a.sparse_dim
    size = a.shape[:dim] + a.shape[dim + 1 :]
    v = run(values_of, input)
    if dim >= n:
        return build(v.select(dim - n + 1, index), a.indices, size, a.nnz < 2, "SelectBackward0")
    kept = np.flatnonzero(a.indices[dim] == index)
    v = v[_wrap(kept)]
    if n == 1:
        return v.sum(0, dtype=v.dtype)
    at = np.delete(a.indices.take(kept, 1), dim, axis=0)
    return build(v, at, size, len(kept) < 2, "SelectBackward0")


def index_select(input: Tensor, dim: int, index: Tensor) -> Tensor:
    a = only_coo(input, "index_select")
    dim = geometry.wrap_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(
            f"index_select(): Index is supposed to be a vector, got {index.ndim} dimensions"
        )
    which = index._array.reshape(-1).astype(np.int64)
    size = a.shape[dim]
    bad = which[(which < -size) | (which >= size)]
    if bad.size:
        raise IndexError(
            f"index_select(): index contains {bad[0]} that is out of range for tensor of size "
            f"{list(a.shape)} at dimension {dim}"
        )
    which[which < 0] += size
    shape = (*a.shape[:dim], which.size, *a.shape[dim + 1 :])
    if dim >= a.sparse_dim:
        v = run(values_of, input).index_select(dim - a.sparse_dim + 1, _wrap(which))
        return build(v, a.indices, shape, a.nnz < 2, "IndexSelectBackward0")
    order = which.argsort(kind="stable")  # each entry goes to every place that asks for its index
    asked = which[order]
    first = asked.searchsorted(a.indices[dim], "left")
    counts = asked.searchsorted(a.indices[dim], "right") - first
    of = np.repeat(np.arange(a.nnz), counts)
    inside = np.arange(of.size) - np.repeat(np.cumsum(counts) - counts, counts)
    at = a.indices.take(of, 1)
    at[dim] = order[first[of] + inside]
    sort = sparse.in_order(at[dim])
    v = run(values_of, input)[_wrap(np.ascontiguousarray(of[sort]))]
    return build(v, at.take(sort, 1), shape, len(sort) < 2, "IndexSelectBackward0")


def cat(tensors: Any, dim: int = 0) -> Tensor:
    import rushlight

    if isinstance(tensors, Tensor):
        raise TypeError(
            "cat(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        )
    for i, t in enumerate(tensors):
        if not is_sparse(t):
            raise RuntimeError(
                f"Concatenating sparse tensors, but a dense tensor was found at position {i}."
            )
        only_coo(t, "cat")
    first: Any = tensors[0]._array
    dim, n = geometry.wrap_dim(dim, len(first.shape)), first.sparse_dim
    for i, t in enumerate(tensors):
        a: Any = t._array
        dense, others = len(a.shape) - a.sparse_dim, len(first.shape) - n
        if (a.sparse_dim, dense) != (n, others):
            raise RuntimeError(
                f"All tensors must have the same sparse_dim and dense_dim: {n}, {others}, but tensor at position "
                f"{i} has {a.sparse_dim}, {dense}."
            )
        same = [x for d, x in enumerate(a.shape) if d != dim]
        if same != [x for d, x in enumerate(first.shape) if d != dim]:
            raise RuntimeError(
                "All tensors must have the same shape: "
                f"{list(first.shape)} (except in the concatenating dimension), but found shape: "
                f"{list(a.shape)} at position {i}."
            )
    size = list(first.shape)
    size[dim] = int(np.sum([t.shape[dim] for t in tensors]))
    indices, values, start = [], [], 0
    for t in tensors:
        a, v = t._array, run(values_of, t)
        at = a.indices
        if dim < n:
            at = at.copy()
            at[dim] += start
        else:
            zeros = [v.new_zeros((*v.shape[: dim - n + 1], k, *v.shape[dim - n + 2 :])) for k in (
                start, size[dim] - start - t.shape[dim])]  # fmt: skip
            v = rushlight.cat([zeros[0], v, zeros[1]], dim - n + 1)
        indices.append(at)
        values.append(v)
        start += t.shape[dim]
    d = values[0].dtype
    for v in values[1:]:
        d = dtypes.promote_types(d, v.dtype)
    v = rushlight.cat([v.to(d) for v in values])
    return build(v, np.concatenate(indices, 1), tuple(size), False, "CatBackward0")


def stack(tensors: Any, dim: int = 0) -> Tensor:
    if isinstance(tensors, Tensor):
        raise TypeError(
            "stack(): argument 'tensors' (position 1) must be tuple of Tensors, not Tensor"
        )
    for i, t in enumerate(tensors):
        if t.shape != tensors[0].shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(tensors[0].shape)} at entry 0 "
                f"and {list(t.shape)} at entry {i}"
            )
    return cat([unsqueeze(t, dim) if is_sparse(t) else t.unsqueeze(dim) for t in tensors], dim)


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]` for ints, None, `...` and full slices."""
    parts = index if index.__class__ is tuple else (index,)
    given = len([p for p in parts if p is not None and p is not Ellipsis])
    if given > self.ndim:
        raise IndexError(f"too many indices for tensor of dimension {self.ndim}")
    if Ellipsis in [p for p in parts if not isinstance(p, Tensor)]:
        k = [p is Ellipsis for p in parts].index(True)
        parts = parts[:k] + (slice(None),) * (self.ndim - given) + parts[k + 1 :]
    result, dim = self, 0
    for p in parts:
        if p is None:
            result, dim = unsqueeze(result, dim), dim + 1
        elif p.__class__ is int:
            n = result.shape[dim]
            if not -n <= p < n:
                raise IndexError(f"index {p} is out of bounds for dimension {dim} with size {n}")
            result = result.select(dim, p)
        elif p == slice(None) if isinstance(p, slice) else False:
            dim += 1
        else:
            sparse.refuse("index.Tensor" if isinstance(p, Tensor) else "as_strided")
    return result


def unbind(input: Tensor, dim: int = 0) -> tuple:
    return tuple(select(input, dim, i) for i in range(input.shape[dim]))


def expand(input: Tensor, size: Any) -> NoReturn:
    raise RuntimeError("expand is unsupported for Sparse tensors")


TABLE: dict[str, Callable] = {
    "Tensor.expand": expand,
    "permute": permute,
    "transpose": transpose,
    "t": flipped,
    "unsqueeze": unsqueeze,
    "select": select,
    "unbind": unbind,
    "index_select": index_select,
    "cat": cat,
    "stack": stack,
}
