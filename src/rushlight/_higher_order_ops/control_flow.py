"""Control flow as functions: `cond`, `while_loop`, `map` and `scan`, which call what they are given step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.dispatch import overrides
from rushlight.utils import _pytree as pytree

__all__ = ["cond", "map", "scan", "while_loop"]


def truth_of(value: Any, what: str) -> bool:
    """The value of a condition. `torch.compile` knows this function: what it reads is no break in a full graph."""
    if isinstance(value, bool):
        return value
    if hasattr(value, "numel") and value.numel() == 1 and value.dtype.name == "bool":
        return bool(value)
    raise RuntimeError(
        f"{what} must be a boolean or a boolean tensor with one element, got {value!r}"
    )


def asked_of_modes(function: Callable, *args: Any) -> Any:
    """The result of a call by the function modes that are on; NOTHING where there are none. `torch.compile` knows it."""
    return (
        overrides.call_overrides(function, args, {}) if thread.function_modes else overrides.NOTHING
    )


def cond(pred: Any, true_fn: Callable, false_fn: Callable, operands: Sequence[Any] = ()) -> Any:
    """`true_fn(*operands)` where `pred` is true, else `false_fn(*operands)`; only one of them runs.

    >>> import rushlight as torch
    >>> x = torch.tensor([1.0, -2.0])
    >>> torch.cond(x.sum() > 0, torch.exp, torch.neg, (x,))
    tensor([-1.,  2.])
    """
    if not callable(true_fn) or not callable(false_fn):
        raise RuntimeError(
            f"Expect both branches to be callable, got {type(true_fn).__name__} and {type(false_fn).__name__} (cond)"
        )
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"Expect operands to be a tuple of tensors, got {operands!r} (cond)")
    found = asked_of_modes(cond, pred, true_fn, false_fn, operands)
    if found is not overrides.NOTHING:
        return found
    return (true_fn if truth_of(pred, "cond: pred") else false_fn)(*operands)


def while_loop(cond_fn: Callable, body_fn: Callable, carried_inputs: Sequence[Any]) -> tuple:
    """Repeat `carried = body_fn(*carried)` while `cond_fn(*carried)`; returns the last `carried`.

    >>> import rushlight as torch
    >>> torch.while_loop(lambda n, x: n < 3, lambda n, x: (n + 1, x * 2), (torch.tensor(0), torch.ones(2)))
    (tensor(3), tensor([8., 8.]))
    """
    if not callable(cond_fn) or not callable(body_fn):
        raise RuntimeError("Expect cond_fn and body_fn to be callable (while_loop)")
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"Expect carried_inputs to be a tuple or a list, got {carried_inputs!r}")
    carried = tuple(carried_inputs)
    while truth_of(cond_fn(*carried), "while_loop: what cond_fn returns"):
        made = body_fn(*carried)
        if not isinstance(made, (tuple, list)) or len(made) != len(carried):
            raise RuntimeError(
                f"body_fn should return a tuple of {len(carried)} values as carried_inputs has, got {made!r} (while_loop)"
            )
        carried = tuple(made)
    return carried


def map(f: Callable, xs: Any, *args: Any) -> Any:
    """`f(x, *args)` of each slice of `xs`, a tensor or a tree of them, along dimension 0; the results stacked.

    >>> import rushlight as torch
    >>> map(lambda x, y: x * y, torch.arange(3), 2)
    tensor([0, 2, 4])
    """
    leaves, form = pytree.tree_flatten(xs)
    if not all(isinstance(leaf, Tensor) for leaf in leaves):
        raise RuntimeError(f"Mapped xs can only consist of tensors. Got xs {leaves}.")
    shapes = [leaf.shape for leaf in leaves]
    if len({shape[0] for shape in shapes}) != 1:
        raise RuntimeError(
            f"Leading dimensions of mapped xs must be consistent. Got shapes {shapes}."
        )
    if not shapes[0][0]:
        raise RuntimeError("Leading dimensions of mapped xs cannot be 0.")
    slices = (pytree.tree_unflatten(each, form) for each in zip(*leaves, strict=True))
    return stacked([f(x, *args) for x in slices], 0)


def scan(
    combine_fn: Callable, init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """`carry, y = combine_fn(carry, x)` for each slice x of `xs` along `dim`, from `init` on, the last slice first with
    `reverse`: (the last carry, all y stacked along `dim`).

    >>> import rushlight as torch
    >>> scan(lambda s, x: (s + x, s * x), torch.tensor(0), torch.arange(4))
    (tensor(6), tensor([0, 0, 2, 9]))
    """
    if not callable(combine_fn):
        raise RuntimeError(f"Combine_fn must be a callable, but got {combine_fn}")
    if not pytree.tree_leaves(init):
        raise RuntimeError("scan() operator requires init leaves.")
    leaves, form = pytree.tree_flatten(xs)
    if any(not isinstance(x, Tensor) or x.ndim <= dim or not x.shape[dim] for x in leaves):
        raise RuntimeError(
            "All xs leaves must at least have 'dim' number of dimensions and scan dimension > 0"
        )
    if not leaves:
        return init, []
    steps = list(zip(*[x.unbind(dim) for x in leaves], strict=True))
    carry, made = init, []
    for each in reversed(steps) if reverse else steps:
        carry, y = combine_fn(carry, pytree.tree_unflatten(each, form))
        made.append(y)
    return carry, stacked(made[::-1] if reverse else made, dim)


def stacked(trees: list[Any], dim: int) -> Any:
    """One tree, whose tensors are stacked, of trees of one form."""
    form = pytree.tree_structure(trees[0])
    columns = zip(*[pytree.tree_leaves(tree) for tree in trees], strict=True)
    return pytree.tree_unflatten([rushlight.stack(list(each), dim) for each in columns], form)
