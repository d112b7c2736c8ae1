"""Batching rules of reductions, scans and sorting."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.dispatch.batch import RULES, Batched, loop
from rushlight.func.rules.rules import all_behind, along, rule


def reduction(b: Batched) -> Any:
    """The rule of reductions over some dimensions, or over all where `dim` is None."""
    first = b.op.inputs[0]
    x, ndim, dim = b.named[first], b.ndim(first), b.named["dim"]
    if not ndim:
        if dim is not None and dim != ():
            all_behind(dim, 0)
        one: dict[str, Any] = {
            first: x.unsqueeze(1),
            "dim": (1,) if isinstance(dim, (tuple, list)) else 1,
        }
        if "keepdim" in b.named:
            one["keepdim"] = False
        return b.call(**one)
    if dim is None or dim == () or dim == []:
        dims: Any = tuple(range(1, ndim + 1))
    elif isinstance(dim, int):
        dims = all_behind(dim, ndim)[0]
    else:
        dims = all_behind(dim, ndim)
    return b.call(dim=dims)


for path in "sum mean nansum logsumexp count_nonzero any all amax amin".split():
    RULES[path] = reduction
for path in "_dim.max _dim.min _dim.median _dim.nanmedian mode kthvalue".split():
    RULES[path] = reduction


@rule("var", "std", "_pair.var_mean", "_pair.std_mean")
def variance(b: Batched) -> Any:
    if b.named["dim"].__class__ is bool:  # x.var(False)
        b.named["unbiased"], b.named["dim"] = b.named["dim"], None
    return reduction(b)


@rule("linalg.vector_norm")
def vector_norm(b: Batched) -> Any:
    return reduction(b)


@rule("prod", "argmax", "argmin", "aminmax", "hash_tensor")
def one_dimension(b: Batched) -> Any:
    """Reductions over one dimension; over all, they become one."""
    x, ndim, dim = b.named["input"], b.ndim("input"), b.named["dim"]
    if dim is None or dim == () or not ndim:
        if dim is not None and dim != ():
            all_behind(dim, ndim)
        got = b.call(input=x.reshape(b.size, -1), dim=1, keepdim=False)
        shape = (b.size, *(1,) * ndim) if b.named["keepdim"] else None
        if shape is None:
            return got
        return got.reshape(shape) if isinstance(got, Tensor) else [g.reshape(shape) for g in got]
    return reduction(b)


@rule("_all.max", "_all.min", "_all.median", "_all.nanmedian")
def whole(b: Batched) -> Any:
    x = b.named["input"].reshape(b.size, -1)
    name = b.op.name
    if name in ("max", "min"):
        return (x.amax if name == "max" else x.amin)(1)
    return getattr(torch, name)(x, 1)[0]


@rule("_all.expand")
def expand(b: Batched) -> Any:
    """The gradient of a sum: `input` at every place of `shape`."""
    shape, dim = tuple(b.named["shape"]), b.named["dim"]
    x, ndim = b.named["input"], len(shape)
    if not ndim:
        return x.view_as(x)
    dims = tuple(range(1, ndim + 1)) if dim is None or dim == () else all_behind(dim, ndim)
    return b.call(input=x, shape=(b.size, *shape), dim=dims)


@rule("_all.sum_to_size")
def sum_to_size(b: Batched) -> Any:
    size = tuple(b.named["size"])
    x, ndim = b.named["input"], b.ndim("input")
    extra = ndim - len(size)
    dims = [1 + d for d in range(extra)]
    dims += [1 + extra + d for d, n in enumerate(size) if n == 1 and x.shape[1 + extra + d] != 1]
    return (x.sum(dims) if dims else x).reshape(b.size, *size)


for path in "cumsum cumprod cummax cummin logcumsumexp sort topk".split():
    RULES[path] = along("dim")
for path in "_softmax _log_softmax nn.functional._glu".split():
    RULES[path] = along("dim")


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_back(b: Batched) -> Any:
    ndim = b.ndim("grad_output")
    g, y = b.expanded("grad_output"), b.expanded("output")
    if not ndim:
        return b.call(grad_output=g.unsqueeze(1), output=y.unsqueeze(1), dim=1).squeeze(1)
    return b.call(grad_output=g, output=y, dim=all_behind(b.named["dim"], ndim)[0])


@rule("dist")
def dist(b: Batched) -> Any:
    difference = torch.sub(b.outer["input"], b.outer["other"])
    return torch.linalg.vector_norm(difference.flatten(), b.named["p"])._array.value


@rule("trace")
def trace(b: Batched) -> Any:
    return b.named["input"].diagonal(0, 1, 2).sum(1)


@rule("histc", "bincount", "_all.histogramdd", "segment_reduce", "_all.unique")
def one_by_one(b: Batched) -> Any:
    return loop(b)


@rule("_all.searchsorted")
def searchsorted(b: Batched) -> Any:
    if b.has == {"input"} and b.ndim("sorted_sequence") == 1:
        return b.call()
    return loop(b)


@rule("_all.isin")
def isin(b: Batched) -> Any:
    if b.has == {"elements"}:
        return b.call()
    return loop(b)
