"""Rules of jagged nested tensors for views: views of the values, and where the ragged dimension is then."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import rushlight as torch
from rushlight.core import geometry
from rushlight.core.tensor import Tensor
from rushlight.nested.jagged import NestedInt, jagged_from_parts, without
from rushlight.nested.tensor import refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def inner_dim(name: str, input: Any, dim: int, ragged: bool = False) -> int:
    """The dimension of the values for one of the nested tensor that is neither the batch nor (unless `ragged`)
    the ragged one."""
    at = geometry.wrap_dim(dim, input.dim())
    if not at:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on dim=0")
    if at == input._ragged_idx and not ragged:
        raise RuntimeError(f"{name}(): not supported for NestedTensor on ragged dim")
    return at - 1


def transpose(input: Any, dim0: int, dim1: int) -> Any:
    a, b = (geometry.wrap_dim(d, input.dim()) for d in (dim0, dim1))
    if a == b:
        return input
    if not a or not b:
        raise ValueError("Transpose is not supported on the batch dimension for jagged NT")
    moved = {a: b, b: a}.get(input._ragged_idx)
    return input.like(input._values.transpose(a - 1, b - 1), moved)


def permute(input: Any, *dims: Any) -> Any:
    dims = dims[0] if len(dims) == 1 and isinstance(dims[0], (tuple, list)) else dims
    order = [geometry.wrap_dim(d, input.dim()) for d in dims]
    if sorted(order) != list(range(input.dim())):
        raise RuntimeError("permute(): the dimensions must be those of the tensor, each once")
    if order[0]:
        raise ValueError("Permute is not supported on the batch dimension for jagged NT")
    values = input._values.permute([d - 1 for d in order[1:]])
    return input.like(values, order.index(input._ragged_idx))


def unsqueeze(input: Any, dim: int) -> Any:
    at = geometry.wrap_dim(dim, input.dim() + 1)
    if not at:
        raise RuntimeError("unsqueeze(): not supported for NestedTensor on dim=0")
    return input.like(
        input._values.unsqueeze(at - 1), input._ragged_idx + (at <= input._ragged_idx)
    )


def squeeze(input: Any, dim: Any = None) -> Any:
    if dim is None:
        refuse("squeeze")
    d = inner_dim("squeeze", input, dim)
    values = input._values.squeeze(d)
    fewer = values.dim() < input._values.dim() and d + 1 < input._ragged_idx
    return input.like(values, input._ragged_idx - fewer)


def resized(function: str) -> Callable:
    """The rule of `view` or `reshape`: the batch and the ragged dimension stay."""

    def rule(input: Any, *size: Any) -> Any:
        given = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
        ragged, own = input._ragged_idx, input.shape[input._ragged_idx]
        new_shape = list(given)
        at = [k for k, n in enumerate(new_shape) if isinstance(n, NestedInt)]
        if not at and len(new_shape) > ragged and new_shape[ragged] == -1:
            at = [ragged]
        fits = len(at) == 1 and new_shape[0] in (len(input), -1)
        if not fits or isinstance(new_shape[at[0]], NestedInt) and new_shape[at[0]] != own:
            raise RuntimeError(f"view(): cannot view shape {tuple(input.shape)} as {list(given)}")
        inner = new_shape[1:]
        total = input._values.shape[ragged - 1]
        inner[at[0] - 1] = total
        return input.like(getattr(input._values, function)(inner), at[0])

    return rule


def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    a, b = (geometry.wrap_dim(d, input.dim()) for d in (start_dim, end_dim))
    if a == b:
        return input
    inner_dim("flatten", input, a, ragged=True)
    if a <= input._ragged_idx <= b:
        raise RuntimeError("flatten(): not supported for NestedTensor on ragged dim")
    moved = input._ragged_idx - (b - a if b < input._ragged_idx else 0)
    return input.like(input._values.flatten(a - 1, b - 1), moved)


def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    d = inner_dim("unflatten", input, dim)
    moved = input._ragged_idx + (len(sizes) - 1 if d + 1 < input._ragged_idx else 0)
    return input.like(input._values.unflatten(d, sizes), moved)


def expand(input: Any, *size: Any) -> Any:
    given = size[0] if len(size) == 1 and isinstance(size[0], (tuple, list)) else size
    own = tuple(input.shape)
    if len(given) != len(own) or given[input._ragged_idx] not in (own[input._ragged_idx], -1):
        raise RuntimeError(f"expand(): cannot expand shape {own} to {tuple(given)}")
    inner = list(given[1:])
    inner[input._ragged_idx - 1] = -1
    return input.like(input._values.expand(inner))


def unbind(input: Any, dim: int = 0) -> tuple[Tensor, ...]:
    if geometry.wrap_dim(dim, input.dim()):
        raise RuntimeError("unbind(): only supported for NestedTensor on dim=0")
    return input.components()


def select(input: Any, dim: int, index: int) -> Any:
    at = geometry.wrap_dim(dim, input.dim())
    if not at:
        n = len(input)
        if not -n <= index < n:
            raise IndexError(f"index {index} is out of bounds for dimension 0 with size {n}")
        return input.component(index)
    d = inner_dim("select", input, dim)
    return input.like(input._values.select(d, index), input._ragged_idx - (at < input._ragged_idx))


def getitem(self: Any, index: Any) -> Any:
    index = index if index.__class__ is tuple else (index,)
    if index and isinstance(index[0], int) and not isinstance(index[0], bool):
        found = select(self, 0, index[0])
        return found[index[1:]] if len(index) > 1 else found
    if any(i is Ellipsis for i in index):
        at = next(k for k, i in enumerate(index) if i is Ellipsis)
        missing = self.dim() - sum(i is not None for i in index) + 1
        index = (*index[:at], *(slice(None),) * missing, *index[at + 1 :])
    if any(isinstance(i, (Tensor, list)) for i in index):
        refuse("index.Tensor")
    everything = slice(None)
    ragged, d = self._ragged_idx, 0
    if index and index[0] != everything or index and index[0] is None:
        raise RuntimeError("slice(): not supported for NestedTensor on dim=0")
    moved = ragged
    for i in index[1:]:
        if i is None:
            moved += d < ragged - 1
            continue
        d += 1
        if d == ragged and i != everything:
            what = "slice" if isinstance(i, slice) else "select"
            raise RuntimeError(f"{what}(): not supported for NestedTensor on ragged dim")
        moved -= isinstance(i, int) and d < ragged
    return self.like(self._values[index[1:]], moved) if len(index) > 1 else self


def setitem(self: Any, index: Any, value: Any) -> None:
    target = getitem(self, index)
    target.copy_(value) if isinstance(value, Tensor) else target.fill_(value)


def along(name: str) -> Callable:
    """The rule of a function with a dimension, which gives one or several tensors."""
    function = getattr(torch, name)

    def rule(input: Any, *args: Any, dim: int | None = None, **kwargs: Any) -> Any:
        if dim is None:
            where = 0 if name == "narrow" else 1  # the position of `dim` after the input
            dim = args[where] if len(args) > where else 0
            args = without(args, where)
        if name == "chunk" and not geometry.wrap_dim(dim, input.dim()):
            return batches(input, args[0] if args else kwargs["chunks"])
        d = inner_dim(name, input, dim)
        found = function(input._values, *args, dim=d, **kwargs) if name != "narrow" else (
            function(input._values, d, *args, **kwargs)
        )  # fmt: skip
        if isinstance(found, (tuple, list)):
            return tuple(map(input.like, found))
        return input.like(found)

    return rule


def batches(input: Any, chunks: int) -> tuple[Any, ...]:
    """Nested tensors of consecutive components, as `chunk` shares them out."""
    rows = input.components()
    step = -(-len(rows) // chunks)
    return tuple(stacked(input, rows[i : i + step]) for i in range(0, len(rows), step))


def stacked(input: Any, rows: Sequence[Tensor]) -> Any:
    """A nested tensor of some components, with the ragged dimension of another."""
    d = input._ragged_idx - 1
    offsets = torch.tensor([0, *itertools.accumulate(r.shape[d] for r in rows)])
    return jagged_from_parts(torch.cat(list(rows), d), offsets.to(input.device), None, d + 1)


RULES = {
    f.__name__: f
    for f in (expand, flatten, permute, select, squeeze, transpose, unbind, unflatten, unsqueeze)
} | {
    **{n: along(n) for n in ("chunk", "narrow", "split", "split_with_sizes")},
    "T": lambda input: permute(input, *range(input.dim() - 1, -1, -1)),
    "__getitem__": getitem,
    "__setitem__": setitem,
    "mT": lambda input: transpose(input, -2, -1),
    "reshape": resized("reshape"),
    "swapaxes": transpose,
    "swapdims": transpose,
    "view": resized("view"),
}
