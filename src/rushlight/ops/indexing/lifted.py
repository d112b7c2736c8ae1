"""Indexing by tensors inside of function transforms: written in operators that have rules there.

Index tensors of several dimensions become one: the number of each slice of the dimensions that they index.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.transforms import Lifted, follow, opened, tensors_in
from rushlight.ops.indexing import indexing
from rushlight.ops.indexing.gather import fill_number, where
from rushlight.ops.indexing.index_writes import index_add, index_copy
from rushlight.ops.layout.shape import broadcast_tensors


def among(*values: Any) -> bool:
    """Whether a tensor of a transform is among the arguments."""
    if not opened:
        return False
    follow(values)
    return any(isinstance(t._array, Lifted) for t in tensors_in(values))


def split(self: Tensor, index: Any) -> tuple[Tensor, list | None, bool]:
    """(the view that the basic part of an index makes, an index tensor or None for each of its dimensions, whether
    all index tensors are numbers)."""
    index = index if index.__class__ is tuple else indexing.as_tuple(index)
    numbers = others = 0
    items = []
    for i in index:
        lifted = isinstance(i, Tensor) and isinstance(i._array, Lifted)
        if lifted and not i.dim() and i.dtype is not dtypes.bool_:
            numbers += 1
            i = i.unsqueeze(0)
        elif (
            i.__class__ is not slice
            and i is not None
            and i is not Ellipsis
            and i.__class__ is not int
        ):
            others += 1
        items.append(i)
    basic, found = indexing.read(self._array, tuple(items))
    view = indexing.basic_index(self, basic) if indexing.is_more_than_full(basic) else self
    return view, found, bool(numbers) and not others


class Positions:
    """What index tensors select of a tensor: `flat` numbers the slices of its indexed dimensions, moved to the front."""

    def __init__(self, x: Tensor, indices: list) -> None:
        opened: list = []
        for t in indices:
            if t is not None and t.dtype in (dtypes.bool_, dtypes.uint8):
                opened += t.nonzero().unbind(1) if t.dim() else t.reshape(1).nonzero().unbind(1)
            else:
                opened.append(t)
        dims = [d for d, t in enumerate(opened) if t is not None]
        found = broadcast_tensors(*[opened[d] for d in dims])
        rest = [d for d in range(x.dim()) if d not in dims]
        self.x, self.order = x, (*dims, *rest)
        self.shape = tuple(found[0].shape)
        self.rest = tuple([x.shape[d] for d in rest])
        self.count = geometry.numel(tuple([x.shape[d] for d in dims]))
        together = dims == list(range(dims[0], dims[-1] + 1))
        self.at = dims[0] if together else 0
        flat = None
        for d, i in zip(dims, found, strict=True):
            i = where(i < 0, i + x.shape[d], i).long()
            flat = i if flat is None else flat * x.shape[d] + i
        self.flat = flat.reshape(-1)

    def rows(self) -> Tensor:
        """The tensor as [slices, ...]."""
        return self.x.permute(self.order).reshape((self.count, *self.rest))

    def back(self, rows: Tensor) -> Tensor:
        """The reverse of `rows`."""
        sizes = [self.x.shape[d] for d in self.order]
        return rows.reshape(sizes).permute([self.order.index(d) for d in range(self.x.dim())])

    def result_order(self) -> tuple[int, ...]:
        """The dimensions of a result, those of the indices first, in the order that users see."""
        k, n = len(self.shape), len(self.rest)
        return (*range(k, k + self.at), *range(k), *range(k + self.at, k + n))

    def taken(self) -> Tensor:
        r = self.rows().index_select(0, self.flat).reshape((*self.shape, *self.rest))
        return r.permute(self.result_order()) if self.at else r

    def put(self, values: Tensor, accumulate: bool) -> Tensor:
        """A copy of the tensor with `values` at the places."""
        order = self.result_order()
        full = (*self.shape, *self.rest)
        values = values.expand([full[d] for d in order])
        if self.at:
            values = values.permute([order.index(d) for d in range(len(order))])
        values = values.reshape((geometry.numel(self.shape), *self.rest))
        write = index_add if accumulate else index_copy
        return self.back(write(self.rows(), 0, self.flat, values))


def getitem(self: Tensor, index: Any) -> Tensor:
    """`self[index]`."""
    view, found, numbers = split(self, index)
    if found is None:
        return view
    positions = Positions(view, found)
    taken = positions.taken()
    return taken.squeeze(positions.at) if numbers else taken


def setitem(self: Tensor, index: Any, value: Any) -> None:
    """`self[index] = value`."""
    view, found, numbers = split(self, index)
    if not isinstance(value, Tensor):
        value = _wrap(fill_number(value, self._array))
    if value.dtype is not view.dtype:
        value = value.to(view.dtype)
    while value.dim() > view.dim() and value.shape[0] == 1:
        value = value.squeeze(0)
    if found is None:
        view.copy_(value)
        return
    positions = Positions(view, found)
    if numbers:
        value = value.unsqueeze(positions.at) if value.dim() > positions.at else value
    view.copy_(positions.put(value, False))


def index_put(self: Tensor, indices: Any, values: Tensor, accumulate: bool) -> Tensor:
    """A copy of the tensor with `values` written at the indices, or added there."""
    return Positions(self, list(indices)).put(values, accumulate)
