"""Running results of an associative function, in about log2(n) calls on whole slices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight as torch
from rushlight.utils import _pytree as pytree

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable, xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """`combine_fn` over all elements up to each one along `dim`, for a tensor or a tree of them.

    combine_fn(a, b) takes and returns trees of the form of `xs`; it must be associative, and is
    called with slices of many elements at once ("generic": with one element of each, by `vmap`).
    Hillis and Steele (1986): in each round every element takes in the one twice as far behind it.

    >>> import operator
    >>> associative_scan(operator.add, torch.tensor([1, 2, 3, 4]), 0)
    tensor([ 1,  3,  6, 10])
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn}")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(
            f"Combine_mode must either 'pointwise' or 'generic', but got {combine_mode}"
        )
    leaves, form = pytree.tree_flatten(xs)
    if not leaves:
        raise ValueError("Expected at least 1 xs leaf")
    leaves = [leaf.movedim(dim, 0) for leaf in leaves]
    if reverse:
        leaves = [leaf.flip(0) for leaf in leaves]
    n = len(leaves[0])
    if any(len(leaf) != n for leaf in leaves):
        raise ValueError(f"all xs must have one size in dim {dim}")
    if combine_mode == "generic":
        combine_fn = torch.vmap(combine_fn)
    behind = 1
    while behind < n:
        earlier = pytree.tree_unflatten([leaf[:-behind] for leaf in leaves], form)
        later = pytree.tree_unflatten([leaf[behind:] for leaf in leaves], form)
        combined = pytree.tree_leaves(combine_fn(earlier, later))
        leaves = [torch.cat((leaf[:behind], c)) for leaf, c in zip(leaves, combined, strict=True)]
        behind *= 2
    if reverse:
        leaves = [leaf.flip(0) for leaf in leaves]
    return pytree.tree_unflatten([leaf.movedim(0, dim) for leaf in leaves], form)
