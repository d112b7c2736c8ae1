"""Copies in another arrangement: `flip`, `roll`, `repeat`, `tril`, `diag_embed`..."""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, Any

from rushlight._backends import devices, math_bits
from rushlight._backends.meta import Meta
from rushlight.autograd.state import thread
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import results
from rushlight.dispatch.registry import Array, composite, op, public
from rushlight.dispatch.transforms import Lifted, somewhere
from rushlight.ops.layout.shape import expand, reshape
from rushlight.ops.layout.views import DIAGONAL, copied

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Sizes  # type: ignore[attr-defined]

    Ints = tuple[int, ...]

EVERYTHING, BACK = slice(None), slice(None, None, -1)


# -- order of the elements -------------------------------------------------------------------------


@op()
def flip(xp, input: Array, dims: Sizes):
    """The elements in reverse order along `dims`, copied.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).flip(0)
    tensor([[3, 4],
            [1, 2]])
    """
    n = input.ndim
    dims = geometry.wrap_dims(dims, n)
    if not n or not dims or input.size == 1:
        return xp.copy_like(input, input)
    if len(dims) == 1:
        flipped = input[(*(EVERYTHING,) * dims[0], BACK) if dims[0] else BACK]
    else:
        flipped = input[tuple([BACK if d in dims else EVERYTHING for d in range(n)])]
    if input.flags.c_contiguous:
        made = xp.row_major(flipped)
        if made.strides == input.strides:  # they may differ where a size is 1
            return made
    return xp.copy_like(flipped, input)


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
    shifts = tuple(map(index, shifts if isinstance(shifts, (tuple, list)) else (shifts,)))
    dims = () if dims is None else dims if isinstance(dims, (tuple, list)) else (dims,)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        a = xp.contiguous(input)
        return xp.roll(a.reshape(-1), shifts, (0,)).reshape(a.shape)
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    for d in dims:
        geometry.wrap_dim(d, input.ndim, wrap_scalar=False)
    if not input.size:
        return xp.copy_like(input, input)
    if input.ndim in (4, 5) and not input.flags.c_contiguous:
        if geometry.is_channels_last_strides(input.shape, xp.element_strides(input)):
            return roll_as_joined(xp, input, shifts, dims)
    return xp.roll(input, shifts, tuple(dims))


def roll_as_joined(xp: Any, a: Any, shifts: Ints, dims: Ints) -> Any:
    """What PyTorch does, and from which the order in memory follows: the two parts change places, dimension by dimension."""
    from rushlight.ops.layout.joining import side_by_side

    for shift, d in zip(shifts, dims, strict=True):
        axis, start = d % a.ndim, -shift % a.shape[d]
        at = (slice(None),) * axis
        a = side_by_side(xp, [a[(*at, slice(start, None))], a[(*at, slice(start))]], axis)
    return a


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
    if not k:
        return input.copy(order="C")
    flipped = (a, b) if k == 2 else (b,) if k == 1 else (a,)
    r = xp.copy_like(xp.flip(input, flipped), input)
    return r if k == 2 else r.swapaxes(a, b)


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
            raise RuntimeError(
                f"Trying to create tensor with negative dimension {n}: {list(repeats)}"
            )
    return xp.tile(input, tuple(repeats))


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
    r = math_bits.resolved(repeats._array)
    if isinstance(r, Lifted):
        r = r.to_numpy()
    xp = devices.of(r)
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

    counts_alone = repeats is None
    if counts_alone:
        repeats = input
    if isinstance(repeats, int):
        return repeat_alike(input, repeats, dim, output_size)
    if not isinstance(repeats, Tensor):
        raise TypeError(
            "repeat_interleave(): argument 'repeats' must be Tensor or int, not "
            + results.kind(repeats)
        )
    if repeats.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError("repeats has to be Long or Int tensor")
    if repeats.ndim > 1:
        raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
    r = math_bits.resolved(repeats._array)
    if isinstance(r, Meta):  # a fake tensor's is a subclass
        if output_size is None or r.__class__ is not Meta:
            raise RuntimeError("cannot repeat_interleave a meta tensor without output_size")
    elif r.size and (somewhere(repeats < 0) if thread.dispatch_modes else (r < 0).any()):
        raise RuntimeError("repeats can not be negative")
    if counts_alone:
        if not r.ndim:
            raise RuntimeError("repeat_interleave only accept 1D vector as repeat")
        index = repeats.new_empty(output_size or 0, dtype=dtypes.int64)
        return index if isinstance(r, Meta) else repeated_slices(repeats)
    input, dim = flat_without_dim(input, dim)
    n = input._array.shape[dim]
    if r.size == 1 and n != 1:
        repeats = repeats.reshape(1).expand(n)
    elif r.size != n:
        raise RuntimeError(
            f"repeats must have the same size as input along dim, but got repeats.size(0) = {r.size} "
            f"and input.size({dim}) = {n}"
        )
    elif not r.ndim:
        repeats = repeats.reshape(1)
    if isinstance(r, Meta):
        return input.index_select(dim, repeats.new_empty(output_size, dtype=dtypes.int64))
    return repeat_each(input, repeats, dim)


def repeat_alike(input: Tensor, repeats: int, dim: int | None, output_size: int | None) -> Tensor:
    """Every slice along `dim` repeated `repeats` times."""
    if repeats < 0:
        raise RuntimeError("Repeats must be non-negative")
    input, dim = flat_without_dim(input, dim)
    shape = input._array.shape
    size = shape[dim] * repeats
    if output_size is not None and size != output_size:
        raise RuntimeError(
            f"repeat_interleave: Invalid output_size, expected {size} but got {output_size}"
        )
    wide = expand(input.unsqueeze(dim + 1), (*shape[: dim + 1], repeats, *shape[dim + 1 :]))
    return reshape(copied(wide), (*shape[:dim], size, *shape[dim + 1 :]))


def flat_without_dim(input: Tensor, dim: int | None) -> tuple[Tensor, int]:
    """(the input, its dimension `dim` counted from 0), of the flattened input where there is no dimension."""
    if dim is None:
        input, dim = input.flatten(), 0
    if not input.ndim:
        input = input.flatten()
    return input, geometry.wrap_dim(dim, input.ndim)


# -- triangles and diagonals -----------------------------------------------------------------------


@op(inplace=True)
def tril(xp, input: Array, diagonal: int = 0):
    """The lower triangle of matrices [..., n, m], zeros above the given diagonal.

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
    """The upper triangle of matrices [..., n, m], zeros below the given diagonal.

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


diag_embed.grad(input=lambda g, offset, dim1, dim2: g.diagonal(offset=offset, dim1=dim1, dim2=dim2))


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
