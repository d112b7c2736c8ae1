"""Several tensors from one, and one from several: `split`, `unbind`, `cat`, `stack`."""

from __future__ import annotations

from types import FunctionType
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.autograd.graph import INFERENCE, new
from rushlight.autograd.state import active, thread
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor
from rushlight.dispatch import results
from rushlight.dispatch.registry import Array, Arrays, op, public
from rushlight.ops.layout.regions import slice_dim
from rushlight.ops.layout.shape import reshape, unsqueeze

EVERYTHING = slice(None)
SMALL = 4096  # elements up to which a copy more takes less time than the steps that it saves


# -- one into several: all views -------------------------------------------------------------------


def joined_gradient(g: list, dim: int) -> Tensor:
    return cat(g, dim)


@op(view=True, outputs="list", where="aten", name="split", node="SplitBackward0", method=False)
def split_even(xp, input: Array, split_size: int, dim: int = 0):
    """Slices of `split_size`, the last one shorter; `dim` is not negative."""
    n = input.shape[dim]
    if n <= split_size:
        return [input[...]]
    starts = range(0, n, split_size)
    if not dim:
        return [input[i : i + split_size] for i in starts]
    before = (EVERYTHING,) * dim
    return [input[(*before, slice(i, i + split_size))] for i in starts]


split_even.grad(input=lambda g, dim: joined_gradient(g, dim))


@op(
    view=True, outputs="list", where="aten", name="split_with_sizes", method=False,
    node="SplitWithSizesBackward0",
)  # fmt: skip
def split_lengths(xp, input: Array, split_sizes: Any, dim: int = 0):
    """Consecutive slices of the given lengths, which add up to the size of the dimension."""
    if not input.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    along, dim = dim, geometry.wrap_dim(dim, input.ndim) if dim else 0
    before, parts, end = (EVERYTHING,) * dim, [], 0
    for n in split_sizes:
        if n < 0:
            raise RuntimeError(
                "split_with_sizes expects split_sizes have only non-negative entries, but got "
                f"split_sizes={list(split_sizes)}"
            )
        part = slice(end, end + n)
        parts.append(input[(*before, part)] if dim else input[part])
        end += n
    if end != input.shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {input.shape[dim]} (input tensor's "
            f"size at dimension {along}), but got split_sizes={list(split_sizes)}"
        )
    return parts


split_lengths.grad(input=lambda g, dim: joined_gradient(g, dim))


@public(method=True)
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts of the given lengths, which add up to the size of the dimension."""
    return split_lengths(input, tuple(split_sizes), dim)


def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts, of one size (the last may be smaller) or of the sizes given.

    >>> import rushlight as torch
    >>> torch.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    size = split_size_or_sections
    if isinstance(size, (tuple, list)):
        return split_with_sizes(tensor, tuple(size), dim)
    return split_even(tensor, *checked_size(tensor, size, dim))


def checked_size(tensor: Tensor, size: Any, dim: int) -> tuple[int, int]:
    """The size of parts as an int, and the dimension, not negative."""
    shape = tensor._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if isinstance(size, Tensor):
        size = int(size)
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    dim = geometry.wrap_dim(dim, len(shape))
    if not size and shape[dim]:
        raise RuntimeError(
            "split_size can only be 0 if dimension size is 0, but got dimension size of "
            f"{shape[dim]}"
        )
    return size, dim


# The method has another name for its argument than the function: the same code under that name.
split_method = FunctionType(
    split.__code__.replace(co_varnames=("self", "split_size", *split.__code__.co_varnames[2:])),
    globals(), "split", split.__defaults__,
)  # fmt: skip
split_method.__doc__ = split.__doc__
public("Tensor", name="split", overridable=True)(split_method)
split = public(overridable=True)(split)


@public(method=True, overridable=True)
def chunk(
    input: Tensor, chunks: int, dim: int = 0, *, axis: int | None = None
) -> tuple[Tensor, ...]:
    """At most `chunks` views of consecutive parts, equal but for a smaller last one.

    >>> import rushlight as torch
    >>> [len(c) for c in torch.arange(7).chunk(3)]
    [3, 3, 1]
    """
    dim = dim if axis is None else axis
    size, dim = size_of_chunks(input, chunks, dim)
    if not size:  # nothing to share out: as many empty chunks as asked for
        return split_with_sizes(input, (0,) * chunks, dim)
    return split_even(input, size, dim)


def size_of_chunks(input: Tensor, chunks: int, dim: int) -> tuple[int, int]:
    """The size of all chunks but the last, and the dimension, not negative."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if dim:
        dim = geometry.wrap_dim(dim, len(shape))
    return (shape[dim] + chunks - 1) // chunks, dim


@op(view=True, outputs="list")
def unbind(xp, input: Array, dim: int = 0):
    """All slices along a dimension, without it.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).unbind(1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    n = input.ndim
    if not n:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    if not dim and n > 1:
        return [input[i] for i in range(input.shape[0])]
    before = (EVERYTHING,) * geometry.wrap_dim(dim, n)
    return [input[(*before, i, ...)] for i in range(input.shape[dim])]


unbind.grad(input=lambda g, dim: stack(g, dim))


split_even.op.public_function = split
split_lengths.op.public_function = split_with_sizes


# -- several into one ------------------------------------------------------------------------------


@op(method=False, first="cat_contiguous")
def cat(xp, tensors: Arrays, dim: int = 0):
    """The tensors one after the other along a dimension; the other sizes agree.

    Tensors of shape (0,) are left out, whatever the shape of the others.

    >>> import rushlight as torch
    >>> torch.cat((torch.tensor([1, 2]), torch.tensor([3])))
    tensor([1, 2, 3])
    """
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    for i, a in enumerate(tensors):
        if not a.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
    tensors = promoted(xp, tensors)
    if tensors[0].size < SMALL and tensors[0].ndim < 4:
        joined = xp.cat_contiguous(tensors, dim)
        if joined is not None:
            return joined
    kept = [a for a in tensors if a.shape != (0,)]
    if not kept:  # as in PyTorch, whatever `dim` is
        return tensors[0].copy()
    first, n = kept[0], kept[0].ndim
    dim = geometry.wrap_dim(dim, n)
    for i, a in enumerate(tensors):
        if a.shape == (0,):
            continue
        if a.ndim != n:
            raise RuntimeError(f"Tensors must have same number of dimensions: got {n} and {a.ndim}")
        for d in range(n):
            if d != dim and a.shape[d] != first.shape[d]:
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size "
                    f"{first.shape[d]} but got size {a.shape[d]} for tensor number {i} in the list."
                )
    return xp.cat(kept, dim) if len(kept) < len(tensors) else side_by_side(xp, kept, dim)


def side_by_side(xp: Any, arrays: list, dim: int) -> Any:
    """Arrays whose shapes agree but for `dim`, one after the other: with channels last in memory where all have them so,
    else row-major."""
    n = arrays[0].ndim
    if n in (4, 5) and all(
        geometry.is_channels_last_strides(a.shape, xp.element_strides(a)) for a in arrays
    ):
        order = (0, *range(2, n), 1)
        back = (0, n - 1, *range(1, n - 1))
        return xp.cat([a.transpose(order) for a in arrays], order.index(dim)).transpose(back)
    return xp.cat(arrays, dim)


def promoted(xp: Any, arrays: list) -> list:
    """The arrays in the dtype that all promote to; those without dimensions count less."""
    first = arrays[0].dtype
    for a in arrays:
        if a.dtype is not first:
            break
    else:
        return arrays
    dim = zero = None
    for a in arrays:
        d = dtypes.OF[a.dtype]
        if a.ndim:
            dim = d if dim is None else dtypes.promote_types(dim, d)
        else:
            zero = d if zero is None else dtypes.promote_types(zero, d)
    d = dtypes.result_dtype(dim, zero, None).np
    return [a if a.dtype is d else xp.cast(a, d) for a in arrays]


def cat_back(g: Tensor, tensors_shape: list, dim: int) -> list:
    n = g._array.ndim
    dim %= n
    parts, start = [], 0
    for shape in tensors_shape:
        if shape == (0,) and n != 1:
            parts.append(g.new_zeros((0,)))
            continue
        parts.append(slice_dim(g, dim, start, start + shape[dim]))
        start += shape[dim]
    return parts


cat.grad(tensors=cat_back)
cat.alias("concat", "concatenate")


@op(method=False, first="stack_contiguous")
def stack(xp, tensors: Arrays, dim: int = 0):
    """The tensors, all of one shape, along a new dimension.

    >>> import rushlight as torch
    >>> torch.stack((torch.tensor([1, 2]), torch.tensor([3, 4])), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    shape = tensors[0].shape
    dim = geometry.wrap_dim(dim, len(shape) + 1)
    for i, a in enumerate(tensors):
        if a.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(a.shape)} at entry {i}"
            )
    arrays = promoted(xp, tensors)
    if len(shape) in (4, 5) and dim < len(
        shape
    ):  # as PyTorch: joined along the dimension, which is split then
        joined = side_by_side(xp, arrays, dim)
        return joined.reshape((*shape[:dim], len(arrays), *shape[dim:]))
    new = (*shape[:dim], 1, *shape[dim:])
    parts = [a.reshape(new) for a in arrays]
    return xp.cat(parts, dim) if shape else xp.concatenate(parts)


stack.grad(tensors=lambda g, dim: list(unbind(g, dim)))


def joined(name: str, least: int, shaped: Any, dim: Any) -> Any:
    """Declare `name`: the tensors, those of less than `least` dimensions brought to as many, joined along one."""

    def function(tensors: Any, *, out: Any = None) -> Tensor:
        if not isinstance(tensors, (tuple, list)):
            raise TypeError(
                f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
                + results.kind(tensors)
            )
        if not tensors:
            raise RuntimeError(f"{name} expects a non-empty TensorList")
        parts = [shaped(x, x.ndim) if x.ndim < least else x for x in tensors]
        d = dim if parts[0].ndim > dim else 0
        return cat(parts, d) if out is None else cat(parts, d, out=out)

    function.__name__ = function.__qualname__ = name
    return function


def column(x: Tensor, n: int) -> Tensor:
    return reshape(x, (-1, 1))


def at_least_1d(x: Tensor, n: int) -> Tensor:
    return reshape(x, (1,)) if n < 1 else x


def at_least_2d(x: Tensor, n: int) -> Tensor:
    return reshape(x, (1, 1)) if not n else unsqueeze(x, 0) if n == 1 else x


def at_least_3d(x: Tensor, n: int) -> Tensor:
    return unsqueeze(at_least_2d(x, n), -1) if n < 3 else x


hstack = joined("hstack", 1, at_least_1d, 1)
hstack.__doc__ = "The tensors side by side: along dimension 1, vectors along dimension 0."
vstack = joined("vstack", 2, at_least_2d, 0)
vstack.__doc__ = "The tensors on top of each other: along dimension 0, vectors as rows."
dstack = joined("dstack", 3, at_least_3d, 2)
dstack.__doc__ = "The tensors behind each other: along dimension 2."
column_stack = joined("column_stack", 2, column, 1)
column_stack.__doc__ = "The tensors side by side, vectors as columns."
for _f in (hstack, vstack, dstack, column_stack):
    public()(_f)
public(name="row_stack")(vstack)


# -- parts that share memory and do not know it ----------------------------------------------------


@op(outputs="list", where="aten", name="unsafe_split_with_sizes", method=False,
    node="UnsafeSplitWithSizesBackward0")  # fmt: skip
def unsafe_lengths(xp, input: Array, split_sizes: Any, dim: int):
    """`split_with_sizes`, whose parts have version counters of their own."""
    return split_lengths.op.declared(xp, input, split_sizes, dim)


unsafe_lengths.grad(input=lambda g, dim: joined_gradient(g, dim))


@op(outputs="list", where="aten", name="unsafe_split", method=False, node="UnsafeSplitBackward0")
def unsafe_even(xp, input: Array, split_size: int, dim: int):
    """`split`, whose parts have version counters of their own."""
    return split_even.op.declared(xp, input, split_size, dim)


unsafe_even.grad(input=lambda g, dim: joined_gradient(g, dim))


@public(method=True, overridable=True)
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split` whose parts may be written to before `input` is differentiated: nothing counts these writes."""
    size, dim = checked_size(input, split_size, dim)
    return parts_apart(split_even, unsafe_even, input, size, dim)


@public(method=True, overridable=True)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk` whose parts may be written to; see `unsafe_split`."""
    size, dim = size_of_chunks(input, chunks, dim)
    if not size:
        return unsafe_split_with_sizes(input, (0,) * chunks, dim)
    return parts_apart(split_even, unsafe_even, input, size, dim)


@public(method=True, overridable=True)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes` whose parts may be written to; see `unsafe_split`."""
    return parts_apart(split_lengths, unsafe_lengths, input, tuple(split_sizes), dim)


def parts_apart(views: Any, operator: Any, input: Tensor, size: Any, dim: int) -> tuple:
    """The parts by the operator; of what has no history, views that forget what they are views of."""
    a = input._array
    if input._edge is None and a.__class__ is np.ndarray and not active.modes:
        parts, counter = [], INFERENCE if active.inference and thread.inference else None
        for part in views.op.declared(xp, a, size, dim):
            t = new(Tensor)
            t._array, t._edge, t._counter = part, None, counter
            parts.append(t)
        return tuple(parts)
    if input._edge is not None:
        return operator(input, size, dim)
    parts = views(input, size, dim)
    for part in parts:
        part._edge = part._counter = None
    return parts
