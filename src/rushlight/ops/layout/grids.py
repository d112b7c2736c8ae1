"""Combinations of vectors and matrices: `meshgrid`, `cartesian_prod`, `combinations`, `block_diag`."""

from __future__ import annotations

from typing import Any

from rushlight.core import dtypes, settings
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Arrays, op, public
from rushlight.ops.layout.joining import promoted, stack, unbind
from rushlight.ops.layout.shape import expand, listed


@public()
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """The coordinates of the grid that vectors span, one tensor for each: all of one shape.

    `indexing` "ij" (the default): dimension k runs along vector k; "xy": the first two swapped.

    >>> import rushlight as torch
    >>> torch.meshgrid(torch.arange(2), torch.arange(3), indexing="ij")[1]
    tensor([[0, 1, 2],
            [0, 1, 2]])
    """
    vectors = listed(tensors)
    if not vectors:
        raise RuntimeError("meshgrid expects a non-empty TensorList")
    for v in vectors:
        if v.ndim > 1:
            raise RuntimeError(
                f"torch.meshgrid: Expected 0D or 1D tensor in the tensor list but got: {list(v.shape)}"
            )
        if v.dtype is not vectors[0].dtype:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same dtype")
        if v.device != vectors[0].device:
            raise RuntimeError("torch.meshgrid expects all tensors to have the same device")
    if indexing is None:
        settings.warn_once(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument."
        )
    elif indexing not in ("ij", "xy"):
        raise RuntimeError(
            f'torch.meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}'
        )
    swap = indexing == "xy" and len(vectors) >= 2
    if swap:
        vectors[0], vectors[1] = vectors[1], vectors[0]
    shape = tuple([v.numel() for v in vectors])
    n = len(shape)
    grids = [
        expand(v.view((1,) * k + (-1,) + (1,) * (n - k - 1)), shape) for k, v in enumerate(vectors)
    ]
    if swap:
        grids[0], grids[1] = grids[1], grids[0]
    return tuple(grids)


@public()
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, a row each; a single vector as it is.

    >>> import rushlight as torch
    >>> torch.cartesian_prod(torch.tensor([1, 2]), torch.tensor([3, 4])).tolist()
    [[1, 3], [1, 4], [2, 3], [2, 4]]
    """
    vectors = listed(tensors)
    for v in vectors:
        if v.ndim != 1:
            raise RuntimeError(f"Expect a 1D vector, but got shape {list(v.shape)}")
    if len(vectors) == 1:
        return vectors[0]
    return stack([g.flatten() for g in meshgrid(vectors, indexing="ij")], 1)


@public(method=True)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All selections of `r` elements of a vector in order, a row each.

    >>> import rushlight as torch
    >>> torch.combinations(torch.tensor([1, 2, 3])).tolist()
    [[1, 2], [1, 3], [2, 3]]
    """
    import itertools

    from rushlight.ops.factories.construct import tensor
    from rushlight.ops.factories.sequences import triu_indices

    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if not r:
        return input.new_empty((0,))
    if r == 2:
        n = len(input)
        indices = triu_indices(n, n, 0 if with_replacement else 1, device=input.device)
        return input[indices.t().contiguous()]
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(len(input)), r))
    return input[tensor(rows, dtype=dtypes.int64, device=input.device).reshape(len(rows), r)]


@op(where="aten", name="block_diag", node="BlockDiagBackward0", method=False)
def blocks(xp, tensors: Arrays):
    matrices, rows, columns = [], 0, 0
    for a in promoted(xp, tensors):
        n, m = (1,) * (2 - a.ndim) + a.shape
        matrices.append((a, slice(rows, rows + n), slice(columns, columns + m)))
        rows, columns = rows + n, columns + m
    z = xp.zeros((rows, columns), a.dtype)
    for a, i, j in matrices:
        z[i, j] = a
    return z


def blocks_back(g: Tensor, tensors_shape: list) -> list:
    parts = []
    i = j = 0
    for shape in tensors_shape:
        rows, columns = (1,) * (2 - len(shape)) + shape
        part = g[i : i + rows, j : j + columns]
        parts.append(part if len(shape) == 2 else part.contiguous().reshape(shape))
        i, j = i + rows, j + columns
    return parts


blocks.grad(tensors=blocks_back)


@public()
def block_diag(*tensors: Any) -> Tensor:
    """The matrix with the given ones along its diagonal, zeros elsewhere; vectors are rows.

    >>> import rushlight as torch
    >>> torch.block_diag(torch.ones(1, 2), torch.tensor(3.0))
    tensor([[1., 1., 0.],
            [0., 0., 3.]])
    """
    matrices = listed(tensors)
    for k, m in enumerate(matrices):
        if m.ndim > 2:
            raise RuntimeError(
                "torch.block_diag: Input tensors must have 2 or fewer dimensions. Input "
                f"{k} has {m.ndim} dimensions"
            )
    if not matrices:
        from rushlight.ops.factories.creation import empty

        return empty((1, 0))
    return blocks(matrices)


@public()
def unravel_index(indices: Tensor, shape: Any) -> tuple[Tensor, ...]:
    """The coordinates, in a tensor of `shape`, of indices into the flattened tensor.

    >>> import rushlight as torch
    >>> torch.unravel_index(torch.tensor([5, 2]), (2, 3))
    (tensor([1, 0]), tensor([2, 2]))
    """
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype is dtypes.bool_:
        raise ValueError(f"expected 'indices' to be integer dtype, but got {indices.dtype}")
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    if any(n < 0 for n in sizes):
        raise ValueError(f"'shape' cannot have negative values, but got {sizes}")
    coordinates: list[Tensor] = []
    indices = indices.to(dtypes.int64)  # a size may be too large for the dtype of the indices
    for n in reversed(sizes):
        coordinates.insert(0, indices.remainder(n))
        indices = indices.div(n, rounding_mode="floor")
    return tuple(unbind(stack(coordinates, -1), -1)) if coordinates else ()
