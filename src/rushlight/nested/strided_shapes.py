"""Rules of strided nested tensors for views: other sizes, strides and offsets on the same values."""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.core import geometry
from rushlight.core.tensor import Tensor
from rushlight.nested.strided import contiguous_of, strided_from_parts
from rushlight.nested.tensor import alias, refuse

if TYPE_CHECKING:
    from collections.abc import Sequence


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    a, b = (geometry.wrap_dim(d, input.dim()) for d in (dim0, dim1))
    if a == b:
        return input
    if not a or not b:
        raise RuntimeError("Nested tensor dimension 0 cannot be transposed")

    def swapped(s: tuple) -> tuple:
        t = list(s)
        t[a - 1], t[b - 1] = t[b - 1], t[a - 1]
        return tuple(t)

    sizes, strides = map(swapped, input.sizes), map(swapped, input.strides)
    return strided_from_parts(alias(input._values), sizes, strides, input.offsets)


def without(s: tuple, at: int) -> tuple:
    return (*s[:at], *s[at + 1 :])


def squeeze(input: Any, dim: Any = None) -> Any:
    help_text = (
        "is not supported at the moment if you need this feature, please open an issue on github "
        "describing your use case."
    )
    if dim is None:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeeze without the dim argument is not supported at the moment, however "
            "you can use squeeze(Tensor self, int dim) instead if you need this feature, please open an issue on "
            "github describing your use case."
        )
    at = geometry.wrap_dim(dim, input.dim())
    if not at:
        raise RuntimeError(f"squeeze(): For nested tensors, squeezing dimension 0 {help_text}")
    if any(s[at - 1] != 1 for s in input.sizes):
        return input.like(alias(input._values))
    if input.dim() == 2:
        raise RuntimeError(
            "squeeze(): For nested tensors, squeezing a nested tensor of singleton tensors is not supported at "
            "the moment, if you need this feature, please open an issue on githubdescribing your use case."
        )
    sizes = [without(s, at - 1) for s in input.sizes]
    strides = [without(s, at - 1) for s in input.strides]
    return strided_from_parts(alias(input._values), sizes, strides, input.offsets)


def unsqueeze(input: Any, dim: int) -> Any:
    at = geometry.wrap_dim(dim, input.dim() + 1)
    if not at:
        raise RuntimeError(
            "unsqueeze(): For nested tensors, unsqueezing dimension 0 is not supported at the moment if you need "
            "this feature, please open an issue on github describing your use case."
        )
    k = at - 1
    sizes = [(*s[:k], 1, *s[k:]) for s in input.sizes]
    strides = [
        (*t[:k], s[k] * t[k] if k < len(s) else 1, *t[k:])
        for s, t in zip(input.sizes, input.strides, strict=True)
    ]
    return strided_from_parts(alias(input._values), sizes, strides, input.offsets)


def shapes_for(name: str, input: Any, size: Any) -> list[tuple[int, ...]]:
    """The sizes of the components after `view` or `reshape`: -1 keeps the size of that dimension, or, in a new
    dimension, is what is left."""
    if len(size) == 1 and size[0].__class__ in (tuple, list, torch.Size):
        size = size[0]
    size = tuple(size)
    if not size:
        raise RuntimeError("shape '[]' is invalid for a nested tensor")
    if not input.sizes:
        raise RuntimeError("empty nested tensor cannot be reshaped")
    if size[0] != len(input.sizes):
        raise RuntimeError(
            f"{name}: For now nested {name} cannot change or infer the implicit batch dimension"
        )
    found = []
    for s in input.sizes:
        new = [
            s[k] if n == -1 and k < len(s) else n for k, n in enumerate(size[1:])
        ]  # an old dimension is inherited
        if size[1:].count(-1) > 1:
            raise RuntimeError("only one dimension can be inferred")
        if -1 in new:
            rest = -prod(new)
            new[new.index(-1)] = prod(s) // rest if rest else 0
        if prod(new) != prod(s):
            raise RuntimeError(f"shape '{list(size)}' is invalid for input of size {prod(s)}")
        found.append(tuple(new))
    return found


def strides_for(input: Any, sizes: list[tuple[int, ...]]) -> list[tuple[int, ...]] | None:
    """The strides of the components with other sizes in the same memory; None where one needs a copy."""
    found = [
        geometry.view_strides(*each) for each in zip(input.sizes, input.strides, sizes, strict=True)
    ]
    return None if None in found else [tuple(s) for s in found]


def view(self: Any, *size: Any) -> Any:
    sizes = shapes_for("view", self, size)
    strides = strides_for(self, sizes)
    if strides is None:
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans "
            "across two contiguous subspaces). Use .reshape(...) instead."
        )
    return strided_from_parts(alias(self._values), sizes, strides, self.offsets)


def reshape(input: Any, *shape: Any) -> Any:
    sizes = shapes_for("reshape", input, shape)
    strides = strides_for(input, sizes)
    if strides is None:
        return contiguous_of(input.packed(), sizes)
    return strided_from_parts(alias(input._values), sizes, strides, input.offsets)


def select(input: Any, dim: int, index: int) -> Any:
    at = geometry.wrap_dim(dim, input.dim())
    if not at:
        n = len(input.sizes)
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {n}")
        return input.component(index % n)
    k, offsets = at - 1, []
    for i, (s, t, o) in enumerate(zip(input.sizes, input.strides, input.offsets, strict=True)):
        if not -s[k] <= index < s[k]:
            raise IndexError(
                f"index {index} is out of bounds for dimension {k} of the {i}th constituent tensor with "
                f"size {s[k]}"
            )
        offsets.append(o + (index % s[k]) * t[k])
    sizes = [without(s, k) for s in input.sizes]
    return strided_from_parts(
        alias(input._values), sizes, [without(t, k) for t in input.strides], offsets
    )


def getitem(self: Any, index: Any) -> Any:
    index = index if index.__class__ is tuple else (index,)
    if not index or index == (Ellipsis,):
        return self
    first, rest = index[0], index[1:]
    if first is None:
        return unsqueeze(self, 0)
    if not isinstance(first, int) or isinstance(first, bool):
        refuse("slice.Tensor" if isinstance(first, slice) else "index.Tensor")
    found = select(self, 0, first)
    return found[rest] if rest else found


def setitem(self: Any, index: Any, value: Any) -> None:
    getitem(self, index).copy_(value) if isinstance(value, Tensor) else getitem(self, index).fill_(
        value
    )


def pieces(name: str, input: Any, lengths: Sequence[int]) -> tuple[Any, ...]:
    """Views of consecutive parts of the last dimension."""
    if not input.is_contiguous():
        raise RuntimeError(f"{name} expects `self` to be contiguous.")
    found, start = [], 0
    for n in lengths:
        sizes = [(*s[:-1], n) for s in input.sizes]
        offsets = [o + start for o in input.offsets]
        found.append(strided_from_parts(alias(input._values), sizes, input.strides, offsets))
        start += n
    return tuple(found)


def chunk(input: Any, chunks: int, dim: int = 0) -> tuple[Any, ...]:
    if geometry.wrap_dim(dim, input.dim()) != input.dim() - 1:
        raise RuntimeError(
            "Chunk for nested tensors is currently only supported for the last dimension."
        )
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    if not input.is_contiguous():
        raise RuntimeError("chunk expects `self` to be contiguous.")
    size = input.size(-1)
    if size % chunks:
        raise RuntimeError(
            "Chunk for nested tensors is only supported for nested tensors with trailing dimension divisible by "
            f"chunks. got: {size} % {chunks} !=0"
        )
    return pieces("chunk", input, [size // chunks] * chunks)


def split_with_sizes(input: Any, split_sizes: Sequence[int], dim: int = 0) -> tuple[Any, ...]:
    if geometry.wrap_dim(dim, input.dim()) != input.dim() - 1:
        raise RuntimeError(
            "split_with_sizes for nested tensors is currently only supported for the last dimension."
        )
    if not input.is_contiguous():
        raise RuntimeError("split_with_sizes expects `self` to be contiguous.")
    size = input.size(-1)
    if sum(split_sizes) != size:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {size} (input tensor's size at dimension "
            f"{input.dim() - 1}), but got split_sizes={list(split_sizes)}"
        )
    return pieces("split_with_sizes", input, split_sizes)


def split(tensor: Any, split_size_or_sections: Any, dim: int = 0) -> tuple[Any, ...]:
    if isinstance(split_size_or_sections, int):
        refuse("split.Tensor")
    return split_with_sizes(tensor, split_size_or_sections, dim)


def narrow(input: Any, dim: int, start: int, length: int) -> Any:
    if dim:
        raise RuntimeError(f"narrow(): only dim=0 supported for nested tensors, but got: {dim}")
    n = len(input.sizes)
    start = start + n if start < 0 else start
    if start + length > n:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({n}).")
    s = slice(start, start + length)
    return strided_from_parts(
        alias(input._values), input.sizes[s], input.strides[s], input.offsets[s]
    )


def unbind(input: Any, dim: int = 0) -> tuple[Tensor, ...]:
    if geometry.wrap_dim(dim, input.dim()):
        raise RuntimeError(
            f"NestedTensor can only be unbound along dimension 0 got dimension {dim} instead."
        )
    return input.components()


RULES = {
    f.__name__: f
    for f in (
        chunk, narrow, reshape, select, split, split_with_sizes, squeeze, transpose, unbind, unsqueeze, view,
    )
} | {
    "__getitem__": getitem,
    "__setitem__": setitem,
    "mT": lambda input: transpose(input, -2, -1),
    "swapaxes": transpose,
    "swapdims": transpose,
}  # fmt: skip
