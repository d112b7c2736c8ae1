"""Copies in another arrangement: `flip`, `roll`, `repeat`, `tril`, `diag_embed`, `meshgrid`..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import dtypes, geometry
from rushlight.ops import calls
from rushlight.ops.indexing import slice_dim
from rushlight.ops.registry import OPS, Array, Arrays, composite, op, public
from rushlight.ops.shape import expand, reshape
from rushlight.ops.views import DIAGONAL, copied, laid_out
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.ops.registry import Sizes  # type: ignore[attr-defined]

    Ints = tuple[int, ...]

SELECT, SLICE = OPS["select"], OPS["aten.slice"]


# -- order of the elements -------------------------------------------------------------------------


@op()
def flip(xp, input: Array, dims: Sizes):
    """The elements in reverse order along `dims`, copied.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).flip(0)
    tensor([[3, 4],
            [1, 2]])
    """
    dims = geometry.wrap_dims(dims, input.ndim)
    if not input.ndim or not dims:
        return input.copy(order="K")
    if input.flags.c_contiguous:
        return xp.flipped(input, dims).copy(order="C")
    return xp.kept_layout(xp.flipped(input, dims), input)


flip.grad(input=lambda g, dims: g.flip(dims))


@composite
def fliplr(input: Tensor):
    """The columns in reverse order: `flip(1)` of at least two dimensions."""
    if input.ndim < 2:
        raise RuntimeError(f"Input must be >= 2-d. Got {input.ndim}-d: {list(input.shape)}")
    return flip(input, (1,))


@composite
def flipud(input: Tensor):
    """The rows in reverse order: `flip(0)` of at least one dimension."""
    if input.ndim < 1:
        raise RuntimeError("Input must be >= 1-d.")
    return flip(input, (0,))


@op()
def roll(xp, input: Array, shifts: Any, dims: Any = None):
    """The elements moved on by `shifts` along `dims`; what falls off comes in at the other end.

    Without `dims` the flattened tensor is rolled.

    >>> import rushlight as torch
    >>> torch.arange(4).roll(1)
    tensor([3, 0, 1, 2])
    """
    shifts = shifts if isinstance(shifts, (tuple, list)) else (shifts,)
    dims = () if dims is None else dims if isinstance(dims, (tuple, list)) else (dims,)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        return xp.contiguous(xp.roll(xp.contiguous(input), shifts[0]))
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    for d in dims:
        geometry.wrap_dim(d, input.ndim, wrap_scalar=False)
    return xp.contiguous(xp.roll(input, tuple(shifts), tuple(dims)))


def roll_back(g: Tensor, shifts: Any, dims: Any) -> Tensor:
    back = tuple([-s for s in shifts]) if isinstance(shifts, (tuple, list)) else -shifts
    return g.roll(back, dims)


roll.grad(input=roll_back)


@op()
def rot90(xp, input: Array, k: int = 1, dims: Any = (0, 1)):
    """The plane of two dimensions turned by 90 degrees `k` times, from the first towards the second.

    >>> import rushlight as torch
    >>> torch.tensor([[0, 1], [2, 3]]).rot90()
    tensor([[1, 3],
            [0, 2]])
    """
    n = input.ndim
    if len(dims) != 2:
        raise RuntimeError(f"expected total rotation dims == 2, but got dims = {len(dims)}")
    if n < 2:
        raise RuntimeError(f"expected total dims >= 2, but got total dims = {n}")
    if dims[0] == dims[1] or abs(dims[0] - dims[1]) == n:
        raise RuntimeError(
            f"expected rotation dims to be different, but got dim0 = {dims[0]} and dim1 = {dims[1]}"
        )
    for d in dims:
        if not -n <= d < n:
            raise RuntimeError(f"Rotation dim out of range, dim = {d}")
    a, b = (d % n for d in dims)
    k %= 4
    if k == 1:
        r = xp.flipped(input, (b,)).swapaxes(a, b)
    elif k == 2:
        r = xp.flipped(input, (a, b))
    elif k == 3:
        r = xp.flipped(input, (a,)).swapaxes(a, b)
    else:
        return input.copy()
    # PyTorch turns the memory of a copy: the strides are swapped too.
    if k == 2:
        return r.copy()
    return r.swapaxes(a, b).copy().swapaxes(a, b)


rot90.grad(input=lambda g, k, dims: g.rot90(-k, dims))


# -- repetition ------------------------------------------------------------------------------------


@op(where="Tensor", node="RepeatBackward0")
def repeat(xp, input: Array, repeats: Sizes):
    """The tensor laid side by side `repeats[d]` times along each dimension; new ones in front.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    extra = len(repeats) - input.ndim
    if extra < 0:
        raise RuntimeError(
            "Number of dimensions of repeat dims can not be smaller than number of dimensions of tensor: "
            f"{list(repeats)} for {list(input.shape)}"
        )
    for n in repeats:
        if n < 0:
            raise RuntimeError(f"Trying to create tensor with negative dimension {n}: {list(repeats)}")
    return xp.contiguous(xp.tile(input, tuple(repeats)))


def repeat_back(g: Tensor, input_shape: Ints, repeats: Ints) -> Tensor:
    repeats = tuple(repeats)
    extra = len(repeats) - len(input_shape)
    if 0 in repeats:
        return g.new_zeros(input_shape)
    shape: list = []
    sums: list = []
    for i, n in enumerate(repeats):
        if n != 1 or i < extra:
            sums.append(len(shape))
            shape.append(n)
        if i >= extra:
            shape.append(input_shape[i - extra])
    g = g.reshape(tuple(shape))
    return g.sum(tuple(sums)) if sums else g


repeat.grad(input=repeat_back)


@composite
def tile(input: Tensor, dims: Sizes):
    """`repeat`, where missing counts in front are 1.

    >>> import rushlight as torch
    >>> torch.tensor([[1], [2]]).tile((2,))
    tensor([[1, 1],
            [2, 2]])
    """
    missing = input.ndim - len(dims)
    return repeat(input, (1,) * missing + tuple(dims))


@op(where="aten", name="repeat_each", node="IndexSelectBackward0", method=False)
def repeat_each(xp, input: Array, repeats: Array, dim: int):
    """Each slice `repeats[i]` times in a row."""
    return xp.repeat(input, repeats, axis=dim)


def repeat_each_back(g: Tensor, input_shape: Ints, repeats: Tensor, dim: int) -> Tensor:
    index = repeated_slices(repeats)
    return g.new_zeros(input_shape).index_add(dim, index, g)


def repeated_slices(repeats: Tensor) -> Tensor:
    """Which slice each repeated slice was."""
    from rushlight.backends import numpy as xp
    from rushlight.tensor import _wrap

    r = repeats._array
    return _wrap(xp.repeat(xp.arange(r.size), r))


repeat_each.grad(input=repeat_each_back)


@public(method=True)
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Every slice along `dim` repeated, all `repeats` times or each its own number of times.

    Without `dim` the flattened tensor is repeated. Given the counts alone, the result holds the
    index of each.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2]).repeat_interleave(torch.tensor([1, 2]))
    tensor([1, 2, 2])
    """
    from rushlight.tensor import _wrap

    if repeats is None:
        repeats, alone = input, True
    else:
        alone = False
    if isinstance(repeats, int):
        if repeats < 0:
            raise RuntimeError("Repeats must be non-negative")
        if dim is None:
            input, dim = input.flatten(), 0
        if not input.ndim:
            input = input.flatten()
        dim = geometry.wrap_dim(dim, input.ndim)
        shape = input._array.shape
        if output_size is not None and shape[dim] * repeats != output_size:
            raise RuntimeError(
                "repeat_interleave: Invalid output_size, expected "
                f"{shape[dim] * repeats} but got {output_size}"
            )
        wide = expand(
            input.unsqueeze(dim + 1), (*shape[: dim + 1], repeats, *shape[dim + 1 :])
        )
        return reshape(copied(wide), (*shape[:dim], shape[dim] * repeats, *shape[dim + 1 :]))
    if not isinstance(repeats, Tensor):
        raise TypeError(
            "repeat_interleave(): argument 'repeats' must be Tensor or int, not " + calls.kind(repeats)
        )
    if repeats.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError("repeats has to be Long or Int tensor")
    if repeats.ndim > 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    r = repeats._array
    if r.size and (r < 0).any():
        raise RuntimeError("repeats can not be negative")
    if alone:
        if not r.ndim:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        return repeated_slices(repeats)
    if dim is None:
        input, dim = input.flatten(), 0
    if not input.ndim:
        input = input.flatten()
    dim = geometry.wrap_dim(dim, input.ndim)
    n = input._array.shape[dim]
    if r.size == 1 and n != 1:
        repeats = _wrap(r.reshape(1).repeat(n))
    elif r.size != n:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {r.size} "
            f"and input.size({dim}) = {n}"
        )
    elif not r.ndim:
        repeats = _wrap(r.reshape(1))
    return repeat_each(input, repeats, dim)


# -- triangles and diagonals -----------------------------------------------------------------------


@op(inplace=True)
def tril(xp, input: Array, diagonal: int = 0):
    """The lower triangle of matrices, zeros above the given diagonal.

    >>> import rushlight as torch
    >>> torch.ones(2, 3).tril()
    tensor([[1., 0., 0.],
            [1., 1., 0.]])
    """
    check_matrix("tril", input)
    return xp.triangle(input, diagonal, True)


tril.grad(input=lambda g, diagonal: g.tril(diagonal))


@op(inplace=True)
def triu(xp, input: Array, diagonal: int = 0):
    """The upper triangle of matrices, zeros below the given diagonal.

    >>> import rushlight as torch
    >>> torch.ones(2, 3).triu(1)
    tensor([[0., 1., 1.],
            [0., 0., 1.]])
    """
    check_matrix("triu", input)
    return xp.triangle(input, diagonal, False)


triu.grad(input=lambda g, diagonal: g.triu(diagonal))


def check_matrix(name: str, a: Any) -> None:
    if a.ndim < 2:
        raise RuntimeError(
            f"{name}: input tensor must have at least 2 dimensions, but got a tensor of shape "
            f"{list(a.shape)}"
        )


@op()
def diag_embed(xp, input: Array, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """Matrices with the last dimension of `input` as a diagonal, zeros elsewhere.

    >>> import rushlight as torch
    >>> torch.diag_embed(torch.tensor([1, 2]))
    tensor([[1, 0],
            [0, 2]])
    """
    n = input.ndim + 1
    d1, d2 = geometry.wrap_dim(dim1, n), geometry.wrap_dim(dim2, n)
    if d1 == d2:
        raise RuntimeError(f"diagonal dimensions cannot be identical {dim1}, {dim2}")
    size = input.shape[-1] + abs(offset)
    shape = list(input.shape[:-1])
    for d in sorted((d1, d2)):
        shape.insert(d, size)
    z = xp.zeros(tuple(shape), input.dtype)
    DIAGONAL.declared(xp, z, offset, d1, d2)[...] = input
    return z


diag_embed.grad(
    input=lambda g, offset, dim1, dim2: g.diagonal(offset=offset, dim1=dim1, dim2=dim2)
)


@composite
def diag(input: Tensor, diagonal: int = 0):
    """The diagonal of a matrix (a copy), or the matrix with a vector on its diagonal.

    >>> import rushlight as torch
    >>> torch.diag(torch.tensor([1, 2]), 1).shape
    torch.Size([3, 3])
    """
    if input.ndim == 1:
        return diag_embed(input, diagonal)
    if input.ndim == 2:
        return copied(input.diagonal(diagonal))
    raise RuntimeError(f"diag(): Supports 1D or 2D tensors. Got {input.ndim}D")


@composite
def diagflat(input: Tensor, offset: int = 0):
    """The matrix with the elements of `input` on a diagonal."""
    return diag_embed(input.reshape(-1), offset)


# -- products and grids ----------------------------------------------------------------------------


def listed(tensors: tuple) -> list[Tensor]:
    """The tensors of `f(a, b)` or `f([a, b])`."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    for k, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(f"expected Tensor as element {k} in argument 0, but got {calls.kind(x)}")
    return list(tensors)


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
    if indexing is None:
        import warnings

        warnings.warn(
            "torch.meshgrid: in an upcoming release, it will be required to pass the indexing argument.",
            UserWarning,
            stacklevel=2,
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
    from rushlight.ops.joining import stack

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

    from rushlight.ops.construct import tensor

    if input.ndim != 1:
        raise RuntimeError(f"Expect a 1D vector, but got shape {list(input.shape)}")
    if r < 0:
        raise RuntimeError(f"Expect a non-negative number, but got {r}")
    if not r:
        return input.new_empty((0,))
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(choose(range(len(input)), r))
    return input[tensor(rows, dtype=dtypes.int64).reshape(len(rows), r)]


@op(where="aten", name="block_diag", node="BlockDiagBackward0", method=False)
def blocks(xp, tensors: Arrays):
    from rushlight.ops.joining import common

    d = common(tensors).np
    matrices = [a.reshape((1,) * (2 - a.ndim) + a.shape) for a in tensors]
    z = xp.zeros((sum(m.shape[0] for m in matrices), sum(m.shape[1] for m in matrices)), d)
    i = j = 0
    for m in matrices:
        z[i : i + m.shape[0], j : j + m.shape[1]] = m
        i, j = i + m.shape[0], j + m.shape[1]
    return z


def blocks_back(g: Tensor, tensors_shape: list, tensors_dtype: list) -> list:
    parts = []
    i = j = 0
    for shape, dtype in zip(tensors_shape, tensors_dtype, strict=True):
        rows, columns = (1,) * (2 - len(shape)) + shape
        part = g[i : i + rows, j : j + columns].reshape(shape)
        if part.dtype.is_complex and not dtype.is_complex:
            part = part.real
        parts.append(part)
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
        from rushlight.ops.creation import empty

        return empty((1, 0))
    return blocks(matrices)


# -- a view replaced in a copy ---------------------------------------------------------------------


def into_view(xp: Any, r: Any, src: Any, into: Any, name: str) -> Any:
    """Write `src` into the view `into` of the copy `r`; RuntimeError unless the shapes agree."""
    if into.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(into.shape)} ({name})"
        )
    into[...] = src
    return r


@op()
def select_scatter(xp, input: Array, src: Array, dim: int, index: int):
    """A copy of `input` with `src` as its slice `index` of dimension `dim`."""
    r = input.copy(order="K")
    return into_view(xp, r, src, SELECT.declared(xp, r, dim, index), "select_scatter")


select_scatter.grad(
    input=lambda g, src_shape, dim, index: g.select_scatter(g.new_zeros(src_shape), dim, index),
    src=lambda g, dim, index: g.select(dim, index),
)


@op()
def slice_scatter(
    xp, input: Array, src: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
):
    """A copy of `input` with `src` as its part `start:end:step` of dimension `dim`."""
    r = input.copy(order="K")
    return into_view(xp, r, src, SLICE.declared(xp, r, dim, start, end, step), "slice_scatter")


slice_scatter.grad(
    input=lambda g, src_shape, dim, start, end, step: g.slice_scatter(
        g.new_zeros(src_shape), dim, start, end, step
    ),
    src=lambda g, dim, start, end, step: slice_dim(g, dim, start, end, step),
)


@op()
def diagonal_scatter(
    xp, input: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1
):
    """A copy of `input` with `src` as its diagonal."""
    r = input.copy(order="K")
    return into_view(xp, r, src, DIAGONAL.declared(xp, r, offset, dim1, dim2), "diagonal_scatter")


diagonal_scatter.grad(
    input=lambda g, src_shape, offset, dim1, dim2: g.diagonal_scatter(
        g.new_zeros(src_shape), offset, dim1, dim2
    ),
    src=lambda g, offset, dim1, dim2: g.diagonal(offset, dim1, dim2),
)


@composite
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Sizes, stride: Any, storage_offset: Any = None
):
    """A copy of `input` with `src` as its `as_strided(size, stride, storage_offset)`."""
    a = input._array
    copy = laid_out(input, a.strides) if not input.is_contiguous() else input.clone()
    offset = None if storage_offset is None else storage_offset - input.storage_offset()
    region = copy.as_strided(size, stride, offset)
    if region.shape != src.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(region.shape)}"
        )
    region.copy_(src)
    return copy
