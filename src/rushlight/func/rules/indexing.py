"""Batching rules of reading and writing by indices."""

from __future__ import annotations

from math import prod
from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.dispatch.batch import RULES, Batched, loop
from rushlight.func.rules.rules import behind, rule


@rule("aten.masked_fill_tensor")
def masked_fill(b: Batched) -> Any:
    x, value = b.outer["input"], b.outer["value"]
    if value.dim():
        raise RuntimeError(
            f"masked_fill only supports a 0-dimensional value tensor, but got tensor with {value.dim()} dimension(s)."
        )
    return torch.where(b.outer["mask"], value.to(x.dtype), x)._array.value


@rule("gather")
def gather(b: Batched) -> Any:
    x, index = b.expanded("input"), b.expanded("index")
    ndim = b.ndim("input")
    if not ndim and not b.ndim("index"):
        return x.view_as(x)
    if not ndim:
        x = x.unsqueeze(1)
    if not b.ndim("index"):
        return torch.gather(x, 1, index.unsqueeze(1)).squeeze(1)
    return torch.gather(x, behind(b.named["dim"], max(ndim, 1)), index)


@rule("aten.gather_gradient")
def gather_gradient(b: Batched) -> Any:
    shape = tuple(b.named["shape"])
    g, index = b.expanded("grad"), b.expanded("index")
    if not shape:
        return g.reshape(b.size, -1).sum(1)
    return b.call(
        grad=g, index=index, shape=(b.size, *shape), dim=behind(b.named["dim"], len(shape))
    )


@rule("index_select")
def index_select(b: Batched) -> Any:
    x, index, ndim = b.named["input"], b.named["index"], b.ndim("input")
    if "index" not in b.has:
        if not ndim:
            return b.call(input=x.unsqueeze(1), dim=1).squeeze(1)
        return b.call(dim=behind(b.named["dim"], ndim))
    x = b.expanded("input")
    if not ndim:
        return x
    dim = behind(b.named["dim"], ndim)
    index = index.reshape(b.size, -1)
    shape = [1] * (ndim + 1)
    shape[0], shape[dim] = b.size, index.shape[1]
    full = list(x.shape)
    full[dim] = index.shape[1]
    return torch.gather(x, dim, index.reshape(shape).expand(full))


@rule("aten.index_select_gradient")
def index_select_gradient(b: Batched) -> Any:
    shape = tuple(b.named["shape"])
    g, index, ndim = b.expanded("grad"), b.named["index"], len(shape)
    if not ndim:
        return g.reshape(b.size, -1).sum(1)
    dim = behind(b.named["dim"], ndim)
    if "index" not in b.has:
        return b.call(grad=g, shape=(b.size, *shape), dim=dim)
    form = [1] * (ndim + 1)
    form[0], form[dim] = b.size, index.shape[1]
    zeros = g.new_zeros((b.size, *shape))
    return zeros.scatter_add(dim, index.reshape(form).expand(g.shape), g)


@rule("aten.index")
def index(b: Batched) -> Any:
    """The batch goes behind what the indices name; they have none."""
    return b.call(input=b.named["input"].movedim(0, -1)).movedim(-1, 0)


@rule("aten.index_gradient")
def index_gradient(b: Batched) -> Any:
    """As `index`."""
    shape = (*b.named["shape"], b.size)
    return b.call(grad=b.named["grad"].movedim(0, -1), shape=shape).movedim(-1, 0)


@rule("aten.index_put")
def index_put(b: Batched) -> Any:
    """As `index`; values without a batch are the same for all elements."""
    x, values = b.expanded("input").movedim(0, -1), b.named["values"]
    values = values.movedim(0, -1) if "values" in b.has else values.unsqueeze(-1)
    return b.call(input=x, values=values).movedim(-1, 0)


@rule("take")
def take(b: Batched) -> Any:
    x, index = b.expanded("input").reshape(b.size, -1), b.expanded("index")
    shape = index.shape
    index = index.reshape(b.size, -1)
    n = x.shape[1]
    return torch.gather(x, 1, torch.where(index < 0, index + n, index)).reshape(shape)


@rule("aten.take_gradient")
def take_gradient(b: Batched) -> Any:
    shape = tuple(b.named["shape"])
    g, index = b.expanded("grad").reshape(b.size, -1), b.expanded("index").reshape(b.size, -1)
    zeros = g.new_zeros((b.size, torch.Size(shape).numel()))
    n = zeros.shape[1]
    return zeros.scatter_add(1, torch.where(index < 0, index + n, index), g).reshape(
        (b.size, *shape)
    )


def scattered(b: Batched) -> Any:
    """The rule of writes along a dimension at an index of the same number of dimensions."""
    ndim = b.ndim("input")
    changed = {i: b.expanded(i) for i in b.op.inputs if isinstance(b.named.get(i), Tensor)}
    if not ndim:
        changed = {i: t.reshape(b.size, -1) for i, t in changed.items()}
        return b.call(**changed, dim=1).reshape(b.size)
    changed = {i: t if t.dim() > 1 else t.unsqueeze(1) for i, t in changed.items()}
    return b.call(**changed, dim=behind(b.named["dim"], ndim))


for (
    path
) in "aten.scatter_src aten.scatter_value aten.scatter_combine scatter_add scatter_reduce".split():
    RULES[path] = scattered


def along_index(b: Batched) -> Any:
    """The rule of writes of slices at a vector of indices."""
    ndim, path = b.ndim("input"), b.op.path
    sources = [i for i in ("input", "source") if i in b.named]
    x, *source = [b.expanded(i) for i in sources]
    index = b.named["index"]
    if single := not ndim:
        ndim, x, source = 1, x.unsqueeze(1), [s.reshape(b.size, -1) for s in source]
        index = index if "index" in b.has else index.reshape(-1)
    dim = behind(b.named["dim"], ndim)
    if b.has.isdisjoint(("index", "value")):
        got = b.call(**dict(zip(sources, (x, *source))), index=index, dim=dim)
        return got.reshape(b.size) if single else got
    index = b.expanded("index").reshape(b.size, -1)
    full = list(x.shape)
    full[dim] = index.shape[1]
    form = [1] * (ndim + 1)
    form[0], form[dim] = b.size, index.shape[1]
    index = index.reshape(form).expand(full)
    source = [s.reshape(full) for s in source]
    if path == "index_add":
        alpha = b.named["alpha"]
        got = x.scatter_add(dim, index, source[0] if alpha == 1 else source[0] * alpha)
    elif path == "index_copy":
        got = x.scatter(dim, index, source[0])
    elif path == "aten.index_fill_value":
        got = x.scatter(dim, index, b.named["value"])
    elif path == "aten.index_fill_tensor":
        value = b.expanded("value").reshape(b.size, *(1,) * ndim)
        got = x.scatter(dim, index, value.to(x.dtype).expand(full))
    else:
        got = x.scatter_reduce(
            dim, index, source[0], b.named["reduce"], include_self=b.named["include_self"]
        )
    return got.reshape(b.size) if single else got


for (
    path
) in "index_add index_copy aten.index_fill_value aten.index_fill_tensor index_reduce".split():
    RULES[path] = along_index


@rule("put", "masked_scatter")
def one_by_one(b: Batched) -> Any:
    return loop(b)


@rule("masked_select", "aten.nonzero", "aten.masked_select_gradient")
def dynamic(b: Batched) -> Any:
    """The rule of operators with a mask: where all elements have the same, their results have one shape."""
    if "mask" not in b.named or "mask" in b.has:
        raise RuntimeError(
            f"vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over aten::{b.op.name}"
            ". If you are indexing with a mask, try torch.where() instead"
        )
    mask = b.named["mask"]
    if b.op.name == "masked_select":
        shape = torch.broadcast_shapes(b.shape("input"), mask.shape)
        x = b.batch_first_value("input", len(shape)).expand(b.size, *shape)
        return x.reshape(b.size, -1).index_select(1, indices_of_mask(mask, shape))
    grad, shape = b.named["grad"], b.named["shape"]
    zeros = grad.new_zeros(b.size, prod(shape))
    return zeros.index_copy(1, indices_of_mask(mask, shape), grad).reshape(b.size, *shape)


def indices_of_mask(mask: Tensor, shape: tuple[int, ...]) -> Tensor:
    """The flat indices of the True elements of a mask that is broadcast."""
    return mask.expand(shape).flatten().nonzero()[:, 0]
