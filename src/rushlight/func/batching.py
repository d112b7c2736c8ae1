"""`vmap`: a function mapped over a dimension of its arguments."""

from __future__ import annotations

import functools
from collections.abc import Callable
from threading import get_ident
from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.dispatch.batch import Batch, batched, random_in_error_mode
from rushlight.dispatch.transforms import Level
from rushlight.rng import generator as generators
from rushlight.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error",
    *, chunk_size: int | None = None,
) -> Callable:  # fmt: skip
    """A function that maps `func` over a dimension of its arguments, by one call of each operator for all elements.

    `in_dims`: for each argument (or each leaf of it) the mapped dimension, or None for one that all share.
    `out_dims`: the index of the new dimension of each result. `randomness`: whether random numbers are an
    "error" (a RuntimeError), the "same" for all elements, or "different". `chunk_size`: how many elements are
    computed at once (None: all).

    >>> import rushlight as torch
    >>> a, b = torch.ones(5, 3), torch.ones(5, 3)
    >>> torch.func.vmap(torch.dot)(a, b)
    tensor([3., 3., 3., 3., 3.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(
            f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}"
        )
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        leaves, spec = tree_flatten(args)
        dims = _dims_of(in_dims, args, leaves, spec, func)
        size = _size(leaves, dims, func, in_dims)
        if chunk_size is None or chunk_size >= size:
            return _mapped(func, leaves, spec, dims, kwargs, size, out_dims, randomness)
        state = torch.get_rng_state() if randomness == "same" else None
        results = []
        for at in range(0, size, chunk_size):
            if state is not None:
                torch.set_rng_state(state)
            n = min(chunk_size, size - at)
            part = [
                x if d is None else x.narrow(d, at, n) for x, d in zip(leaves, dims, strict=True)
            ]
            results.append(_mapped(func, part, spec, dims, kwargs, n, out_dims, randomness))
        columns = [tree_flatten(r) for r in results]
        positions = _out_positions(out_dims, results[0], columns[0][1])
        joined = [
            parts[0] if d is None else torch.cat(list(parts), d)
            for d, *parts in zip(positions, *[c for c, _ in columns], strict=True)
        ]
        return tree_unflatten(joined, columns[0][1])

    return wrapper


def mapped_size(func: Callable, in_dims: Any, args: tuple) -> int:
    """The size of the dimension that `vmap(func, in_dims)` maps over, of these arguments."""
    leaves, spec = tree_flatten(args)
    return _size(leaves, _dims_of(in_dims, args, leaves, spec, func), func, in_dims)


def _name(func: Callable) -> str:
    """What messages call a function."""
    return getattr(func, "__name__", None) or repr(func)


def restore_vmap(func: Callable, in_dims: Any, batch_size: int, randomness: str) -> Callable:
    """A function that returns (the results of `func`, the mapped dimension of each of them or None).

    Unlike under `vmap` there may be no mapped argument, and what has no mapped dimension gets none.
    """

    def inner(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        level = Level(Batch)
        level.size, level.randomness = batch_size, randomness
        leaves, spec = tree_flatten(args)
        with level, randomly(level):
            given = [
                x if d is None else batched(x, d, level)
                for x, d in zip(leaves, _broadcast(in_dims, args, spec), strict=True)
            ]
            found, form = tree_flatten(func(*tree_unflatten(given, spec), **kwargs))
        values, dims = [], []
        for x in found:
            a = x._array if isinstance(x, Tensor) else None
            own = isinstance(a, Batch) and a.level is level
            values.append(a.value if own else x)
            dims.append(0 if own and a.has else None)
        return tree_unflatten(values, form), tree_unflatten(dims, form)

    return inner


@functools.cache
def load_rules() -> None:
    """Fill the table of batching rules, once."""
    from rushlight.func import functions, rules  # noqa: F401


def _mapped(
    func: Callable, leaves: list, spec: Any, dims: list, kwargs: dict, size: int, out_dims: Any, randomness: str,
) -> Any:  # fmt: skip
    """The results of one call of `func` for all elements."""
    load_rules()
    level = Level(Batch)
    level.size, level.randomness = size, randomness
    with level, randomly(level):
        given = [
            x if d is None else batched(x, d, level) for x, d in zip(leaves, dims, strict=True)
        ]
        result = func(*tree_unflatten(given, spec), **kwargs)
        return _unwrapped(result, out_dims, level, size, func)


def _unwrapped(result: Any, out_dims: Any, level: Level, size: int, func: Callable) -> Any:
    """Results without their level, the mapped dimension where `out_dims` says."""
    for d in () if isinstance(out_dims, int) else tree_leaves(out_dims):
        if not (d is None or isinstance(d, int)):
            raise ValueError(
                f"vmap({_name(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of "
                "ints representing where in the outputs the vmapped dimension should appear."
            )
    leaves, spec = tree_flatten(result)
    for x in leaves:
        if not isinstance(x, Tensor):
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` must only return Tensors, got type {type(x)}. Did you mean to set "
                "out_dims= to None for output?"
            )
    try:
        dims = _out_positions(out_dims, result, spec)
    except ValueError:
        raise ValueError(
            f"vmap({_name(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of "
            f"`outputs`. out_dims has structure {tree_flatten(out_dims)[1]} but outputs has structure {spec}."
        ) from None
    made = []
    for x, d in zip(leaves, dims, strict=True):
        a = x._array if isinstance(x, Tensor) else None
        own = isinstance(a, Batch) and a.level is level
        if d is not None:
            made.append(unbatched(x, d, level, size))
        elif own and a.has:
            raise ValueError(
                f"vmap({_name(func)}, ...): `{_name(func)}` can not return a BatchedTensor when out_dim is None"
            )
        else:
            made.append(a.value if own else x)
    return tree_unflatten(made, spec)


def unbatched(x: Tensor, dim: int, level: Level, size: int) -> Tensor:
    """A tensor without this level, the mapped dimension at `dim`; one that has none is expanded to `size` elements."""
    a = x._array
    if isinstance(a, Batch) and a.level is level:
        x, has = a.value, a.has
    else:
        has = False
    if not has:
        x = x.unsqueeze(0).expand(size, *x.shape)
    if not -x.dim() <= dim < x.dim():
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-x.dim()}, {x.dim() - 1}], but got {dim})"
        )
    return x.movedim(0, dim) if dim else x


def _size(leaves: list, dims: list, func: Callable, in_dims: Any) -> int:
    """The size of the mapped dimension."""
    sizes = []
    for x, d in zip(leaves, dims, strict=True):
        if d is None:
            continue
        if isinstance(d, int) and isinstance(x, Tensor):
            shape = x._array.shape
            if -len(shape) <= d < len(shape):
                sizes.append(shape[d])
                continue
        of = f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>)"
        if not isinstance(d, int):
            raise ValueError(
                f"{of}: Got in_dim={d} for an input but in_dim must be either an integer dimension or None."
            )
        if not isinstance(x, Tensor):
            raise ValueError(
                f"{of}: Got in_dim={d} for an input but the input is of type {type(x)}. We cannot vmap over "
                "non-Tensor arguments, please use None as the respective in_dim"
            )
        raise ValueError(
            f"{of}: Got in_dim={d} for some input, but that input is a Tensor of dimensionality {x.dim()} so "
            f"expected in_dim to satisfy -{x.dim()} <= in_dim < {x.dim()}."
        )
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if sizes.count(sizes[0]) != len(sizes):
        raise ValueError(
            "vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
            f"{sizes} for the mapped dimension"
        )
    return sizes[0]


def _dims_of(in_dims: Any, args: tuple, leaves: list, spec: TreeSpec, func: Callable) -> list:
    """The mapped dimension of each leaf of the arguments."""
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a (potentially nested) "
            f"tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not leaves:
        raise ValueError(
            f"vmap({_name(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a "
            "function with no inputs. The latter is unsupported."
        )
    if isinstance(in_dims, int):
        return [in_dims for _ in leaves]
    try:
        return _broadcast(in_dims, args, spec)
    except ValueError:
        raise ValueError(
            f"vmap({_name(func)}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the structure of `inputs`. "
            f"in_dims has structure {tree_flatten(in_dims)[1]} but inputs has structure {spec}."
        ) from None


def _out_positions(out_dims: Any, result: Any, spec: TreeSpec) -> list:
    """The entry of `out_dims` for each leaf of a result; a tensor alone may have a tuple of one."""
    if isinstance(result, Tensor) and isinstance(out_dims, tuple) and len(out_dims) == 1:
        out_dims = out_dims[0]
    return _broadcast(out_dims, result, spec)


def _broadcast(dims: Any, tree: Any, spec: TreeSpec) -> list:
    """The entry of `dims` for each leaf of `tree`, of this form: an int or None stands for everything below it."""
    if dims is None or isinstance(dims, int):
        return [dims] * spec.num_leaves
    parts = spec.children_specs
    if isinstance(tree, dict) and isinstance(dims, dict) and tree.keys() == dims.keys():
        return [
            d for k, p in zip(tree, parts, strict=True) for d in _broadcast(dims[k], tree[k], p)
        ]
    if (
        isinstance(tree, (list, tuple))
        and dims.__class__ is tree.__class__
        and len(tree) == len(dims)
    ):
        return [
            d
            for entry, x, p in zip(dims, tree, parts, strict=True)
            for d in _broadcast(entry, x, p)
        ]
    raise ValueError("another structure")


# -- random numbers --------------------------------------------------------------------------------


def randomly(level: Level) -> Any:
    """A block whose calls draw random numbers as the level says."""
    if level.randomness == "error":
        return Refusing()
    from rushlight.func.rules.random import Randomness

    return Randomness(level)


class Refusing:
    """A block in which random numbers from the default generator of this thread raise."""

    def __enter__(self) -> None:
        self.here, default = get_ident(), generators.default_generator
        self.waiting = default.spare  # a number that was drawn already
        if self.waiting is not None:
            default.spare = None  # so that every draw is seen
        generators.before_draw.append(self)

    def __call__(self, generator: generators.Generator) -> None:
        if get_ident() == self.here:
            random_in_error_mode()

    def __exit__(self, *exc: object) -> None:
        generators.before_draw.remove(self)
        if self.waiting is not None:
            generators.default_generator.spare = self.waiting
