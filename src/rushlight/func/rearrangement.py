"""`torch.func.rearrange`: permute, split and join dimensions by a pattern of their names, `"b (h w) c -> b c h w"`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor

__all__ = ["rearrange"]

Axis = list[str]  # the names that one dimension is made of; none for a dimension of size 1
DOTS = ["..."]  # any number of dimensions; in a bracket, "…" among the names of one


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """`tensor` with its dimensions named on the left of `->` in the order on the right; a view where that is possible.

    `(h w)` is one dimension that splits into two (or two that become one), `...` any number of dimensions, `1` and `()`
    one of size 1. Of the names in a bracket on the left all but one need a length, as a keyword. A list of tensors of one
    shape is stacked first. ValueError for a pattern that is none, or does not fit.

    >>> import rushlight as torch
    >>> images = torch.randn(32, 30, 40, 3)
    >>> torch.func.rearrange(images, "b h w c -> b c h w").shape
    torch.Size([32, 3, 30, 40])
    >>> torch.func.rearrange(images, "b (h p) (w q) c -> b h w (p q c)", p=2, q=2).shape
    torch.Size([32, 15, 20, 12])
    """
    if not isinstance(tensor, torch.Tensor):
        tensor = torch.stack(list(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError(f"Pattern must contain a single '->' separator, got {pattern!r}")
    left, right = (list(_axes(side, pattern)) for side in sides)
    left, right = _spread(left, right, tensor.ndim, pattern)
    _check(left, right, axes_lengths)
    sizes = _sizes(left, tensor, axes_lengths, pattern)
    names = [name for axis in left for name in axis]
    order = [names.index(name) for axis in right for name in axis]
    split = tensor.reshape([sizes[name] for name in names])
    return split.permute(order).reshape([prod(sizes[name] for name in axis) for axis in right])


def _axes(side: str, pattern: str) -> Iterator[Axis]:
    """The dimensions of one side: names, `...` and brackets of them."""
    inside: Axis | None = None
    for word in side.replace("(", " ( ").replace(")", " ) ").replace("...", " … ").split():
        if word == "(":
            if inside is not None:
                raise ValueError(
                    "Axis composition is one-level (brackets inside brackets not allowed): "
                    + pattern
                )
            inside = []
        elif word == ")":
            if inside is None:
                raise ValueError(f"Brackets are not balanced: {pattern}")
            yield inside
            inside = None
        else:
            axis = _named(word, pattern)
            if inside is None:
                yield DOTS if word == "…" else axis
            else:
                inside += axis
    if inside is not None:
        raise ValueError(f"Brackets are not balanced: {pattern}")


def _named(word: str, pattern: str) -> Axis:
    if word == "1":
        return []
    if word.isdecimal():
        raise ValueError(
            f"rearrange only supports unnamed axes of size 1, got {word} in {pattern!r}"
        )
    if word != "…" and (not word.isidentifier() or word[0] == "_" or word[-1] == "_"):
        raise ValueError(
            f"Invalid axis identifier: {word} in {pattern!r}: an identifier of Python's without _ at its ends is expected"
        )
    return [word]


def _spread(
    left: list[Axis], right: list[Axis], ndim: int, pattern: str
) -> tuple[list[Axis], list[Axis]]:
    """Both sides with `...` replaced by as many names as dimensions are left."""
    dots = [sum((axis == DOTS) + axis.count("…") for axis in side) for side in (left, right)]
    if max(dots) > 1:
        raise ValueError(f"only one ellipsis for tensor is allowed: {pattern}")
    if dots[1] and not dots[0]:
        raise ValueError(f"Ellipsis found in right side, but not left side of a pattern {pattern}")
    if any("…" in axis for axis in left):
        raise ValueError(f"Ellipsis is parenthesis in the left side is not allowed: {pattern}")
    rest = ndim - len(left) + dots[0]
    if rest < 0 or (rest and not dots[0]):
        raise ValueError(
            f"Number of dimensions in pattern ({len(left) - dots[0]}) must be equal to the number of dimensions in the "
            f"tensor ({ndim}): {pattern}"
        )
    names = [f"…{i}" for i in range(rest)]

    def spread(side: list[Axis]) -> Iterator[Axis]:
        for axis in side:
            if axis == DOTS:
                yield from ([name] for name in names)
            else:
                yield [name for word in axis for name in (names if word == "…" else [word])]

    return list(spread(left)), list(spread(right))


def _check(left: list[Axis], right: list[Axis], lengths: dict[str, int]) -> None:
    both = []
    for side in (left, right):
        names = [name for axis in side for name in axis]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Indexing expression contains duplicate dimension '{name}'")
        both.append(set(names))
    if alone := both[0] ^ both[1]:
        raise ValueError(
            f"Identifiers only on one side of rearrange expression (should be on both): {alone}"
        )
    if unknown := set(lengths) - both[0]:
        raise ValueError(f"Identifiers not found in rearrange expression: {unknown}")


def _sizes(
    left: list[Axis], tensor: Tensor, lengths: dict[str, Any], pattern: str
) -> dict[str, int]:
    """The length of every name."""
    sizes = {}
    for axis, n in zip(left, tensor.shape, strict=True):
        known = {name: int(lengths[name]) for name in axis if name in lengths}
        unknown = [name for name in axis if name not in known]
        if len(unknown) > 1:
            raise ValueError(
                f"cannot infer the sizes of two dimensions at once {' and '.join(unknown)}: {pattern!r} needs lengths of "
                "all but one name in a bracket"
            )
        whole = prod(known.values())
        if unknown:
            known[unknown[0]] = n // whole if whole else 0
        if prod(known.values()) != n:
            raise ValueError(
                f"inferred dimension does not evenly fit into larger dimension: {n} is not {known} in {pattern!r}"
            )
        sizes.update(known)
    return sizes
