"""Copies in which what a view shows is replaced: `select_scatter`, `slice_scatter`..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import ndarray

from rushlight.core import geometry, storage
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import OPS, Array, composite, op
from rushlight.ops.layout.complex_parts import is_whole
from rushlight.ops.layout.regions import slice_dim
from rushlight.ops.layout.views import DIAGONAL, laid_out

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Sizes  # type: ignore[attr-defined]

SELECT, SLICE = OPS["select"], OPS["aten.slice"]


def into_view(r: Any, src: Any, into: Any, name: str) -> Any:
    """Write `src` into the view `into` of the copy `r`; RuntimeError unless the shapes agree."""
    if into.shape != src.shape:
        raise RuntimeError(
            f"expected src to have a size equal to the slice of self. src size = {list(src.shape)}, "
            f"slice size = {list(into.shape)} ({name})"
        )
    into[...] = src
    return r


def copied_whole(xp: Any, a: Any) -> Any:
    """A copy of `a` at its place in a copy of the whole memory that it is a part of; a dense one where elements share
    memory."""
    if a.__class__ is ndarray and is_whole(a):
        made = xp.row_major(a)
        if made.strides == a.strides:  # they may differ where a size is 1
            return made
    if a.__class__ is not ndarray or geometry.has_internal_overlap(a.shape, a.strides):
        return xp.copy_like(a, a)
    root = xp.root(a)
    if root.size == a.size and (root.flags.c_contiguous or root.flags.f_contiguous):
        if root.itemsize == a.itemsize and (made := xp.empty_with_strides_of(a)) is not None:
            xp.copy_into(made, a)
            return made
    memory = storage.memory(a).copy()
    at = xp.address(a) - xp.address(root)
    return xp.as_strided(memory, a.shape, a.strides, at, a.dtype)


@op()
def select_scatter(xp, input: Array, src: Array, dim: int, index: int):
    """A copy of `input` with `src` as its slice `index` of dimension `dim`."""
    r = copied_whole(xp, input)
    return into_view(r, src, SELECT.declared(xp, r, dim, index), "select_scatter")


select_scatter.grad(
    input=lambda g, src_shape, dim, index: g.select_scatter(g.new_zeros(src_shape), dim, index),
    src=lambda g, dim, index: g.select(dim, index),
)


@op()
def slice_scatter(
    xp, input: Array, src: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
):
    """A copy of `input` with `src` as its part `start:end:step` of dimension `dim`."""
    r = copied_whole(xp, input)
    return into_view(r, src, SLICE.declared(xp, r, dim, start, end, step), "slice_scatter")


slice_scatter.grad(
    input=lambda g, src_shape, dim, start, end, step: g.slice_scatter(
        g.new_zeros(src_shape), dim, start, end, step
    ),
    src=lambda g, dim, start, end, step: slice_dim(g, dim, start, end, step),
)


@op()
def diagonal_scatter(xp, input: Array, src: Array, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """A copy of `input` with `src` as its diagonal."""
    r = copied_whole(xp, input)
    return into_view(r, src, DIAGONAL.declared(xp, r, offset, dim1, dim2), "diagonal_scatter")


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
    copy = input.clone() if a.flags.c_contiguous else laid_out(input, a.strides)
    offset = None if storage_offset is None else storage_offset - input.storage_offset()
    region = copy.as_strided(size, stride, offset)
    if region._array.shape != src._array.shape:
        raise RuntimeError(
            "expected src to have a size equal to the slice of self. src size = "
            f"{list(src.shape)}, slice size = {list(region.shape)}"
        )
    region.copy_(src)
    return copy
