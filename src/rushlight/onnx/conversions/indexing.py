"""Reading and writing at indices."""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight
from rushlight.onnx.builder import Builder, Operand, conversion
from rushlight.onnx.conversions.shapes import END, reshape


@conversion("select")
def select(g: Builder, x: Operand, dim: int, index: Any) -> Operand:
    return g.op("Gather", x, g.operand(index), axis=dim)


@conversion("slice", "narrow")
def slice_(
    g: Builder, x: Operand, dim: int = 0, start: Any = 0, end: Any = END, step: int = 1
) -> Operand:
    bounds = [
        g.operand([v]) if isinstance(v, Operand) else [v]
        for v in (0 if start is None else start, END if end is None else end)
    ]
    return g.op("Slice", x, *bounds, [dim % x.rank], [step])


@conversion("index_select")
def index_select(g: Builder, x: Operand, dim: int, index: Operand) -> Operand:
    return g.op("Gather", x, index, axis=dim)


@conversion("gather", "take_along_dim")
def gather(g: Builder, x: Operand, dim: int, index: Operand, sparse_grad: bool = False) -> Operand:
    return g.op("GatherElements", x, index, axis=dim)


@conversion("scatter")
def scatter(
    g: Builder, x: Operand, dim: int, index: Operand, src: Any, reduce: Any = None
) -> Operand:
    if not isinstance(src, Operand):
        src = g.op("Expand", g.constant(src, x.dtype), g.shape(index))
    return g.op("ScatterElements", x, index, src, axis=dim, reduction=reduce)


@conversion("scatter_add")
def scatter_add(g: Builder, x: Operand, dim: int, index: Operand, src: Operand) -> Operand:
    return g.op("ScatterElements", x, index, src, axis=dim, reduction="add")


@conversion("embedding")
def embedding(g: Builder, weight: Operand, indices: Operand, *options: Any) -> Operand:
    return g.op("Gather", weight, indices, axis=0)


@conversion("one_hot")
def one_hot(g: Builder, x: Operand, num_classes: int = -1) -> Operand:
    if num_classes < 0:
        raise NotImplementedError("one_hot without num_classes")
    return g.op("OneHot", x, g.constant(num_classes), g.constant([0, 1]), axis=-1)


@conversion("index")
def index(g: Builder, x: Operand, indices: Any) -> Operand:
    order, at, moved = _in_front(x, indices)
    if len(at) == 1:
        axis = next(d for d, i in enumerate(indices) if i is not None)
        if at[0].dtype is rushlight.bool:
            raise NotImplementedError("an index that is a mask")
        return g.op("Gather", x, at[0], axis=axis)
    front = g.op("Transpose", x, perm=order) if moved else x
    found = g.op("GatherND", front, _joined(g, at))
    rank = max(i.rank for i in at)
    together = order[: len(at)] == [*range(order[0], order[0] + len(at))]
    if not moved or not together or order[0] == 0:
        return found
    before = order[0]  # the dimensions of the indices go back to where the indexed ones stood
    rest = x.rank - len(at)
    back = [*range(rank, rank + before), *range(rank), *range(rank + before, rank + rest)]
    return g.op("Transpose", found, perm=back)


def _in_front(x: Operand, indices: Any) -> tuple[list[int], list[Operand], bool]:
    """The order that puts the indexed dimensions first, their indices, and whether it is another order."""
    taken = [d for d, i in enumerate(indices) if i is not None]
    if any(indices[d].dtype is rushlight.bool for d in taken) and len(taken) > 1:
        raise NotImplementedError("a mask among other indices")
    order = [*taken, *[d for d in range(x.rank) if d not in taken]]
    return order, [indices[d] for d in taken], order != [*range(x.rank)]


def _joined(g: Builder, at: list[Operand]) -> Operand:
    """Indices that broadcast, as one tensor with a row for each place."""
    at = [g.cast(i, rushlight.int64) for i in at]
    if len(at) > 1:
        total = at[0]
        for i in at[1:]:
            total = g.op("Add", total, i)
        size = g.op("Shape", total, dtype=rushlight.int64, shape=(None,))
        at = [g.op("Expand", i, size) for i in at]
    return g.op("Concat", *[g.op("Unsqueeze", i, [-1]) for i in at], axis=-1)


@conversion("index_put")
def index_put(
    g: Builder, x: Operand, indices: Any, values: Operand, accumulate: bool = False
) -> Operand:
    order, at, moved = _in_front(x, indices)
    if at[0].dtype is rushlight.bool:
        raise NotImplementedError("writes at the places of a mask")
    front = g.op("Transpose", x, perm=order) if moved else x
    positions = _joined(g, at)
    head = g.op("Shape", positions, end=-1, dtype=rushlight.int64, shape=(None,))
    tail = g.op("Shape", front, start=len(at), dtype=rushlight.int64, shape=(None,))
    size = g.op("Concat", head, tail, axis=0)
    rank = max(i.rank for i in at)
    if moved and order[0] and values.rank > rank:
        raise NotImplementedError("a tensor written at indices behind a full slice")
    written = g.op("Expand", g.cast(values, x.dtype), size)
    found = g.op("ScatterND", front, positions, written, reduction="add" if accumulate else None)
    return g.op("Transpose", found, perm=[int(k) for k in np.argsort(order)]) if moved else found


@conversion("select_scatter")
def select_scatter(g: Builder, x: Operand, src: Operand, dim: int, index: int) -> Operand:
    end = END if index == -1 else index + 1
    return slice_scatter(g, x, g.op("Unsqueeze", src, [dim % x.rank]), dim, index, end, 1)


@conversion("slice_scatter")
def slice_scatter(
    g: Builder, x: Operand, src: Operand, dim: int = 0, start: Any = 0, end: Any = END, step: int = 1
) -> Operand:  # fmt: skip
    dim %= x.rank
    size = g.size(x, dim)
    positions = g.op("Range", g.constant(0), g.operand(size), g.constant(1), shape=(None,))
    bounds = [
        g.operand([v]) if isinstance(v, Operand) else [v]
        for v in (0 if start is None else start, END if end is None else end)
    ]
    positions = g.op("Slice", positions, *bounds, [0], [step])
    along = [1] * x.rank
    along[dim] = -1
    rows = g.op(
        "Expand",
        reshape(g, positions, along),
        g.op("Shape", src, dtype=rushlight.int64, shape=(x.rank,)),
    )
    return g.op("ScatterElements", x, rows, g.cast(src, x.dtype), axis=dim)


@conversion("topk")
def topk(
    g: Builder, x: Operand, k: Any, dim: int = -1, largest: bool = True, sorted: bool = True
) -> Any:
    return g.op(
        "TopK", x, g.operand([k]), axis=dim, largest=int(largest), sorted=int(sorted), outputs=2
    )


@conversion("sort")
def sort(
    g: Builder, x: Operand, dim: int = -1, descending: bool = False, stable: bool = False
) -> Any:
    return g.op(
        "TopK",
        x,
        g.operand([g.size(x, dim)]),
        axis=dim,
        largest=int(descending),
        sorted=1,
        outputs=2,
    )


@conversion("argsort")
def argsort(
    g: Builder, x: Operand, dim: int = -1, descending: bool = False, stable: bool = False
) -> Operand:
    return sort(g, x, dim, descending)[1]
