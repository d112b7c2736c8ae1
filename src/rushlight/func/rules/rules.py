"""What batching rules are made of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import geometry
from rushlight.core.tensor import Tensor
from rushlight.dispatch.batch import RULES, Batched

Rule = Callable[[Batched], Any]


def rule(*paths: str) -> Callable[[Rule], Rule]:
    """Declare the batching rule of operators."""

    def declare(function: Rule) -> Rule:
        for path in paths:
            RULES[path] = function
        return function

    return declare


def behind(dim: int, ndim: int) -> int:
    """Dimension `dim` of `ndim` ones, counted behind the batch."""
    return geometry.wrap_dim(dim, ndim) + 1


def all_behind(dims: Any, ndim: int) -> tuple[int, ...]:
    """Several dimensions, or one, counted behind the batch."""
    return tuple([behind(d, ndim) for d in ((dims,) if isinstance(dims, int) else dims)])


def front(b: Batched) -> Any:
    """The operator takes any dimensions in front: batches stay, others are repeated."""
    return b.call(**{i: b.expanded(i) for i in b.op.inputs if isinstance(b.named.get(i), Tensor)})


def first_only(b: Batched) -> Any:
    """As it is: the operator takes any dimensions in front, and only its first input has a batch."""
    return b.call()


def along(*names: str) -> Rule:
    """The rule of operators on one tensor along the dimensions in the parameters `names`.

    A number of each element gets one dimension for the time of the call.
    """

    def apply(b: Batched) -> Any:
        first = b.op.inputs[0]
        x, ndim = b.named[first], b.ndim(first)
        single = not ndim
        dims = {n: b.named[n] for n in names}
        if single:
            x = x.unsqueeze(1)
        changed = {
            n: d if d is None else behind(d, ndim) if isinstance(d, int) else all_behind(d, ndim)
            for n, d in dims.items()
        }
        got = b.call(**{first: x}, **changed)
        return without_last(got, b.size) if single else got

    return apply


def without_last(result: Any, size: int) -> Any:
    """Results without the dimension of one element that they have behind the batch."""
    if isinstance(result, Tensor):
        return result.reshape(size)
    return [r.reshape(size) for r in result]


def merged(t: Tensor) -> Tensor:
    """A tensor whose two first dimensions, the batch and one of the operator's, are one."""
    s = t.shape
    return t.reshape((s[0] * s[1], *s[2:]))


def unmerged(t: Tensor, size: int) -> Tensor:
    """The batch dimension of `size` taken out of the examples again: the reverse of `merged`."""
    s = t.shape
    return t.reshape((size, s[0] // size if size else 0, *s[1:]))


def examples(b: Batched) -> Any:
    """The rule of operators whose first dimension holds examples apart from each other: all in one dimension."""
    changed = {i: merged(b.expanded(i)) for i in b.op.inputs if isinstance(b.named.get(i), Tensor)}
    got = b.call(**changed)
    if isinstance(got, Tensor):
        return unmerged(got, b.size)
    return [None if r is None else unmerged(r, b.size) for r in got]
