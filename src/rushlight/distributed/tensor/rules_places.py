"""Sharding rules of operators that move elements along some dimensions, or pick and write them at indices. See Note [Sharding rules].

The other dimensions may be cut: each process does with its rows what would be done with all.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rushlight.distributed.tensor.dispatch import SpreadCall, Strategy
from rushlight.distributed.tensor.rules import P, R, S, linear_partials, rule
from rushlight.distributed.tensor.spec import DTensorSpec


def beside(call: SpreadCall, dims: Iterable[int], whole: Sequence[int] = ()) -> list[Strategy]:
    """Cut along dimensions other than these, in all tensors but those with the numbers `whole`, which have other shapes."""
    first = call.specs[0]
    used = {d % first.ndim for d in dims} if first.ndim else set()
    cut = [spec for k, spec in enumerate(call.specs) if k not in whole]
    return [
        Strategy(S(d), [R if k in whole else S(d) for k in range(len(call.specs))])
        for d in range(first.ndim)
        if d not in used and all(alike(spec, first, d) for spec in cut)
    ]


def alike(spec: DTensorSpec, first: DTensorSpec, d: int) -> bool:
    """Whether a tensor has the first one's rows along a dimension."""
    return spec.ndim == first.ndim and spec.shape[d] == first.shape[d]


def linear(call: SpreadCall) -> list[Strategy]:
    """Summands stay summands, where one tensor is moved about and zeros are added."""
    return [Strategy(p, [p]) for p in linear_partials(call.specs)]


@rule("roll")
def roll(call: SpreadCall) -> list[Strategy]:
    """Arguments: tensor, shifts, dimensions (none: as one row)."""
    dims = call.arg(2, call.kwargs.get("dims"))
    if dims is None or dims == [] or dims == ():
        return linear(call)
    return [*beside(call, (dims,) if isinstance(dims, int) else dims), *linear(call)]


@rule("constant_pad_nd")
def pad(call: SpreadCall) -> list[Strategy]:
    """Arguments: tensor, how many in front and behind (the last dimension first), value."""
    amounts, ndim = call.arg(1), call.specs[0].ndim
    padded = [ndim - 1 - k // 2 for k, amount in enumerate(amounts) if amount]
    return [*beside(call, padded), *(linear(call) if not call.arg(2, 0) else ())]


@rule("repeat")
def repeat(call: SpreadCall) -> list[Strategy]:
    """Arguments: tensor, how often along each dimension of the result."""
    times, ndim = call.arg(1), call.specs[0].ndim
    new = len(times) - ndim
    kept = [d for d in range(ndim) if times[d + new] == 1]
    return [*(Strategy(S(d + new), [S(d)]) for d in kept), *linear(call)]


@rule("gather", "scatter", "scatter_add", "index_fill", "index_add", "index_copy", "index_select")
def at_indices(call: SpreadCall) -> list[Strategy]:
    """Arguments: tensor, dimension, indices, what is written there. Indices of one dimension are whole."""
    dim, row = call.arg(1), call.name.startswith("index")
    found = beside(call, [dim], [1] if row else ())
    if call.name == "gather" and call.specs[1].ndim == call.specs[0].ndim:
        own = dim % max(call.specs[0].ndim, 1)
        found += [Strategy(S(own), [R, S(own)])] if call.specs[0].ndim else []
    if call.name == "index_select" and call.specs[0].ndim:
        found.append(Strategy(S(dim % call.specs[0].ndim), [R, S(0)]))
    if call.name in ("gather", "index_select"):
        found += [Strategy(p, [p, R]) for p in linear_partials(call.specs[:1])]
    return found


@rule("select_scatter", "slice_scatter")
def written_part(call: SpreadCall) -> list[Strategy]:
    """Arguments: tensor, what is written, dimension, where."""
    first, _ = call.specs
    dim = call.arg(2, 0) % max(first.ndim, 1)
    less = call.name == "select_scatter"
    return [
        Strategy(S(d), [S(d), S(d - (less and d > dim))]) for d in range(first.ndim) if d != dim
    ] + [Strategy(P, [P, P])]


@rule("addmv")
def addmv(call: SpreadCall) -> list[Strategy]:
    """A matrix by a vector, and a vector that is added."""
    added = call.specs[0]
    rows = S(0) if added.ndim and added.shape[0] != 1 else R
    return [Strategy(S(0), [rows, S(0), R]), Strategy(P, [P, S(1), S(0)]), Strategy(P, [P, P, R])]


@rule("internal_all_products")
def all_products(call: SpreadCall) -> list[Strategy]:
    """All products of two rows of numbers."""
    if any(spec.ndim != 1 for spec in call.specs):
        return []
    return [
        Strategy(S(0), [S(0), R]), Strategy(S(1), [R, S(0)]), Strategy(P, [P, R]), Strategy(P, [R, P]),
    ]  # fmt: skip
