"""`vmap`: a function mapped over a dimension of its arguments, by a call for each element."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import Any

import rushlight as torch
from rushlight.core.stub import stub
from rushlight.core.tensor import Tensor
from rushlight.rng import generator as generators
from rushlight.utils._pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten


@stub("emulated", "The function is called once for each element, and the results are stacked.")
def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error",
    *, chunk_size: int | None = None,
) -> Callable:  # fmt: skip
    """A function that maps `func` over a dimension of its arguments, and stacks the results.

    `in_dims`: for each argument (or each leaf of it) the mapped dimension, or None to pass all of it
    each time. `out_dims`: the index of the new dimension of each result. `randomness`: whether random numbers
    are an "error" (a RuntimeError), the "same" for all elements, or "different".

    >>> import rushlight as torch
    >>> a, b = torch.ones(5, 3), torch.ones(5, 3)
    >>> torch.func.vmap(torch.dot)(a, b)
    tensor([3., 3., 3., 3., 3.])
    """

    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        dims = _broadcast(in_dims, args)
        sizes = {
            x.shape[d]
            for x, d in zip(leaves, dims, strict=True)
            if d is not None and _has_dimension(x, d)
        }
        more, more_spec = tree_flatten(kwargs)  # keyword arguments are always mapped over dim 0
        sizes |= {x.shape[0] for x in more if isinstance(x, Tensor)}
        if not sizes:
            raise ValueError(
                "vmap: Expected at least one Tensor to vmap over: in_dims names no dimension"
            )
        if len(sizes) > 1:
            raise ValueError(
                "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                f"{sorted(sizes)} for the mapped dimension"
            )
        results = []
        with randomly(randomness) as again:
            for k in range(sizes.pop()):
                again()
                each = [
                    x if d is None else x.select(d, k) for x, d in zip(leaves, dims, strict=True)
                ]
                named = [x.select(0, k) if isinstance(x, Tensor) else x for x in more]
                results.append(
                    func(*tree_unflatten(each, spec), **tree_unflatten(named, more_spec))
                )
        return _stacked(results, out_dims)

    return wrapper


def _has_dimension(x: Any, d: int) -> bool:
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over "
            "non-Tensor arguments, please use None as the respective in_dim"
        )
    if not -x.dim() <= d < x.dim():
        raise ValueError(
            f"vmap: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {x.dim()}"
            f" so expected in_dim to satisfy -{x.dim()} <= in_dim < {x.dim()}."
        )
    return True


def _broadcast(dims: Any, tree: Any) -> list:
    """The entry of `dims` for each leaf of `tree`: an int or None stands for everything below it."""
    if dims is None or isinstance(dims, int):
        return [dims for _ in tree_leaves(tree)]
    if isinstance(tree, dict) and isinstance(dims, dict) and tree.keys() == dims.keys():
        return [d for key in tree for d in _broadcast(dims[key], tree[key])]
    if (
        isinstance(tree, (list, tuple))
        and isinstance(dims, (list, tuple))
        and len(tree) == len(dims)
    ):
        return [d for entry, part in zip(dims, tree, strict=True) for d in _broadcast(entry, part)]
    raise ValueError(
        f"vmap: in_dims is not compatible with the structure of inputs: in_dims={dims}, and the inputs are "
        f"{tree_map(type, tree)}"
    )


def _stacked(results: list, out_dims: Any) -> Any:
    if not results:
        raise RuntimeError(
            "vmap: the mapped dimension has size 0, so the function was never called"
        )
    columns = [tree_flatten(r) for r in results]
    spec = columns[0][1]
    for x in columns[0][0]:
        if not isinstance(x, Tensor):
            raise ValueError(
                f"vmap: `func` must only return Tensors, got type {type(x)}. Did you mean to set out_dims= "
                "to None for output?"
            )
    first = tree_unflatten(columns[0][0], spec)
    dims = _broadcast(out_dims, first)
    made = [
        each[0] if d is None else torch.stack(each, d)
        for d, *each in zip(dims, *[leaves for leaves, _ in columns], strict=True)
    ]
    return tree_unflatten(made, spec)


# -- random numbers --------------------------------------------------------------------------------


@contextmanager
def randomly(randomness: str) -> Iterator[Callable[[], None]]:
    """A block whose calls draw random numbers as `randomness` says; hands out what to call before each of them."""
    if randomness == "different":
        yield lambda: None
        return
    here, default = get_ident(), generators.default_generator
    waiting = default.spare  # a number that was drawn already
    starts = {}
    if randomness == "error":
        default.spare = None  # so that every draw is seen
    else:
        starts[default] = default.position(), waiting

    def drawing(generator: generators.Generator) -> None:
        if get_ident() != here:
            return
        if randomness == "error":
            raise RuntimeError(
                "vmap: called random operation while in randomness error mode. Please either use the 'same' "
                "or 'different' randomness flags on vmap or perform the randomness operation out of vmap"
            )
        if generator not in starts:
            starts[generator] = generator.position(), generator.spare

    def again() -> None:
        for generator, (position, spare) in starts.items():
            generator.go_back(position)
            generator.spare = spare

    generators.before_draw.append(drawing)
    try:
        yield again
    finally:
        generators.before_draw.remove(drawing)
        if randomness == "error":
            default.spare = waiting
