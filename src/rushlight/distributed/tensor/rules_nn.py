"""Sharding rules for layers, losses and norms. See Note [Sharding rules]."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.tensor.dispatch import SpreadCall, Strategy
from rushlight.distributed.tensor.placement_types import Placement
from rushlight.distributed.tensor.rules import P, R, S, rule
from rushlight.distributed.tensor.spec import DTensorSpec, compute_local_shape_and_global_offset

loss_parallel_on = False  # inside of `loss_parallel()`


def summed(t: Tensor, call: SpreadCall, dims: Sequence[int], op: Any = ReduceOp.SUM) -> Tensor:
    """The sum of what all processes have along some dimensions of the mesh, in place."""
    for i in dims:
        collectives.all_reduce(t, op, call.mesh.get_group(i))
    return t


# -- norms and softmax -----------------------------------------------------------------------------


@rule("_softmax_backward_data", "_log_softmax_backward_data")
def softmax_backward(call: SpreadCall) -> list[Strategy]:
    """Cut along other dimensions than that of the softmax."""
    ndim, dim = call.specs[0].ndim, call.arg(2)
    found = [Strategy(S(d), [S(d), S(d)]) for d in range(ndim) if d != dim % max(ndim, 1)]
    if loss_parallel_on and call.name[1] == "l":
        found.append(
            Strategy(S(dim % ndim), [S(dim % ndim)] * 2, local=log_softmax_backward_of_parts)
        )
    return found


def outer_dims(call: SpreadCall, kept: int) -> range:
    """The dimensions of the first tensor before the last `kept` ones."""
    return range(call.specs[0].ndim - kept)


@rule("native_layer_norm")
def layer_norm(call: SpreadCall) -> list[Strategy]:
    """Cut along dimensions that are not normalized; the parameters are whole."""
    rest = [R] * (len(call.specs) - 1)
    return [Strategy((S(d),) * 3, [S(d), *rest]) for d in outer_dims(call, len(call.arg(1)))]


@rule("_native_layer_norm_backward")
def layer_norm_backward(call: SpreadCall) -> list[Strategy]:
    """The gradients of the parameters are sums over the parts."""
    rest = [R] * (len(call.specs) - 2)
    dims = outer_dims(call, len(call.arg(3)))
    return [Strategy((S(d), P, P), [S(d), S(d), *rest]) for d in dims]


@rule("_rms_norm")
def rms_norm(call: SpreadCall) -> list[Strategy]:
    """As `layer_norm`."""
    rest = [R] * (len(call.specs) - 1)
    return [Strategy(S(d), [S(d), *rest]) for d in outer_dims(call, len(call.arg(2)))]


@rule("_rms_norm_backward")
def rms_norm_backward(call: SpreadCall) -> list[Strategy]:
    """As `layer_norm_backward`."""
    rest = [R] * (len(call.specs) - 2)
    return [Strategy((S(d), P), [S(d), S(d), *rest]) for d in outer_dims(call, len(call.arg(3)))]


@rule("linalg_vector_norm")
def vector_norm(call: SpreadCall) -> list[Strategy] | None:
    """The norm of all elements: powers of the parts' norms are added."""
    spec, order = call.specs[0], call.arg(1, 2.0)
    if call.arg(2) is not None or call.kwargs or not order > 0 or not math.isfinite(order):
        from rushlight.distributed.tensor.rules import reduction

        return reduction(call)
    return [Strategy(R, [S(d)], local=norm_of_parts) for d in range(spec.ndim)]


def norm_of_parts(call: SpreadCall, args: tuple, dims: Sequence[int]) -> Tensor:
    order = call.arg(1, 2.0)
    return summed(call.func(*args).pow_(order), call, dims).pow_(1 / order)


# -- attention -------------------------------------------------------------------------------------


def masked(spec: DTensorSpec, query: DTensorSpec, d: int) -> Placement:
    """How a mask lies when dimension `d` of the query is cut."""
    own = d - (query.ndim - spec.ndim)
    return R if own < 0 or spec.shape[own] == 1 else S(own)


@rule("_attention")
def attention(call: SpreadCall) -> list[Strategy]:
    """Cut along examples or along heads."""
    query, key = call.specs[:2]
    found = []
    for d in (0, 1):
        if query.shape[d] == key.shape[d] or key.shape[d] % call.n == query.shape[d] % call.n == 0:
            masks = [masked(spec, query, d) for spec in call.specs[3:]]
            found.append(Strategy((S(d), S(d)), [S(d)] * 3 + masks, even=True))
    return found


@rule("_attention_backward")
def attention_backward(call: SpreadCall) -> list[Strategy]:
    """Cut as `attention`; the gradient of a mask is whole, or is made of whole tensors."""
    query, key = call.specs[1:3]
    if call.arg(4) is not None and call.arg(7)[3]:
        return []
    found = []
    for d in (0, 1):
        if query.shape[d] == key.shape[d] or key.shape[d] % call.n == query.shape[d] % call.n == 0:
            masks = [masked(call.arg(4), query, d)] if call.arg(4) is not None else []
            kept = [S(d)] * (len(call.specs) - 4 - len(masks))
            found.append(Strategy(S(d), [S(d)] * 4 + masks + kept, even=True))
    return found


# -- embeddings ------------------------------------------------------------------------------------


@rule("embedding")
def embedding(call: SpreadCall) -> list[Strategy]:
    """Rows of a table: cut along the indices, the columns, or the rows (a sum of which one summand is not zero)."""
    indices = call.specs[1].ndim
    return [
        *[Strategy(S(d), [R, S(d)]) for d in range(indices)],
        Strategy(S(indices), [S(1), R]),
        Strategy(P, [S(0), R], local=rows_of_part),
    ]


def first_row(spec: DTensorSpec) -> int:
    """The first row of the table that this process has."""
    return compute_local_shape_and_global_offset(spec.shape, spec.mesh, spec.placements)[1][0]


def rows_of_part(call: SpreadCall, args: tuple, dims: Sequence[int]) -> Tensor:
    """The rows that this process has, zeros for others."""
    table, indices = args[:2]
    spec = call.specs[0]
    cut = [S(0) if i in dims else p for i, p in enumerate(spec.placements)]
    own = indices - first_row(spec.placed(cut))
    here = (own >= 0) & (own < table.shape[0])
    if not table.shape[0]:
        return table.new_zeros((*indices.shape, table.shape[1]))
    return table[own * here] * here.unsqueeze(-1)


@rule("embedding_dense_backward")
def embedding_backward(call: SpreadCall) -> list[Strategy]:
    """The gradient of a table: cut along the columns, or a sum over the indices."""
    if call.arg(4):  # divided by how often an index occurs
        return []
    indices = call.specs[1].ndim
    return [
        *[Strategy(P, [S(d), S(d)]) for d in range(indices)],
        Strategy(S(1), [S(indices), R]),
        Strategy(P, [P, R]),
    ]


# -- losses ----------------------------------------------------------------------------------------


def _reduction(value: Any) -> str:
    return value if isinstance(value, str) else ("none", "mean", "sum")[value]


@rule(
    "mse_loss", "binary_cross_entropy", "binary_cross_entropy_with_logits", "huber_loss", "smooth_l1_loss",
    "soft_margin_loss",
)  # fmt: skip
def mse_loss(call: SpreadCall) -> list[Strategy]:
    """The mean of the parts' means, where parts have one size."""
    a, b = call.specs[:2]
    behind = call.args[2:]
    how = _reduction(next((v for v in behind if v.__class__ in (int, str)), "mean"))
    if len(call.specs) != 2 or a.shape != b.shape:
        return []
    p = {"none": None, "sum": P, "mean": type(P)("avg")}[how]
    return [
        Strategy(S(d) if p is None else p, [S(d), S(d)], even=how == "mean") for d in range(a.ndim)
    ]


REDUCED = "mse_loss reduced_bce_with_logits reduced_binary_cross_entropy reduced_huber_loss reduced_smooth_l1_loss".split()


@rule(*(f"nn_functional__{name}_backward_{of}" for name in REDUCED for of in ("input", "target")))
def mse_loss_backward(call: SpreadCall) -> list[Strategy]:
    """Of a mean, that of the sum divided by the number of all elements."""
    _, a, b = call.specs
    if a.shape != b.shape:
        return []
    first = S if call.arg(3) == "none" else lambda d: R
    return [
        Strategy(S(d), [first(d), S(d), S(d)], local=mse_backward_of_parts) for d in range(a.ndim)
    ]


def mse_backward_of_parts(call: SpreadCall, args: tuple, dims: Sequence[int]) -> Tensor:
    if args[3] != "mean":
        return call.func(*args)
    return call.func(args[0] / math.prod(call.specs[1].shape), *args[1:3], "sum", *args[4:])


@rule("nll_loss_forward")
def nll_loss(call: SpreadCall) -> list[Strategy]:
    """Cut along the examples; in `loss_parallel()` along the classes."""
    logs, weights = call.specs[0], [R] * (len(call.specs) - 2)
    if logs.ndim < 2:
        return []
    how = _reduction(call.arg(3))
    first = (S(0), R) if how == "none" else (P, P)
    if how == "mean":
        first = (P, R)
    local = nll_mean_of_parts if how == "mean" else None
    found = [Strategy(first, [S(0), S(0), *weights], local=local)]
    if loss_parallel_on and not weights:
        found.append(Strategy((R, R), [S(1), R], local=nll_of_parts))
    return found


def _targets_weight(target: Tensor, weight: Tensor | None, ignore: int, dtype: Any) -> Tensor:
    used = target != ignore
    if weight is None:
        return used.sum().to(dtype)
    return (weight[target * used] * used).sum()


def nll_mean_of_parts(call: SpreadCall, args: tuple, dims: Sequence[int]) -> tuple:
    """This process's share of the mean, and the weight of all targets."""
    logs, target, weight, _, ignore = args
    total = summed(_targets_weight(target, weight, ignore, logs.dtype), call, dims)
    loss, _ = call.func(logs, target, weight, 2, ignore)
    return loss / total, total


@rule("nn_functional__nll_loss_backward")
def nll_loss_backward(call: SpreadCall) -> list[Strategy]:
    """Arguments: gradient, target, weight, reduction, ignored index, shape of the input."""
    shape = call.arg(5)
    if len(shape) < 2:
        return []
    first = S(0) if call.arg(3) == "none" else R
    weights = [R] * (len(call.specs) - 2)
    found = [Strategy(S(0), [first, S(0), *weights], local=nll_backward_of_parts)]
    if loss_parallel_on and not weights:
        found.append(Strategy(S(1), [R, R], local=nll_backward_of_classes))
    return found


def nll_backward_of_parts(call: SpreadCall, args: tuple, dims: Sequence[int]) -> Tensor:
    g, target, weight, how, ignore, shape = args
    shape = (target.shape[0], *shape[1:])
    if how == "mean":
        g, how = g / summed(_targets_weight(target, weight, ignore, g.dtype), call, dims), "sum"
    return call.func(g, target, weight, how, ignore, shape)


# -- losses of logits that are cut along the classes (`loss_parallel`) --------------------------------


@rule("_log_softmax")
def log_softmax(call: SpreadCall) -> list[Strategy]:
    """Cut along other dimensions; in `loss_parallel()` also along that of the classes."""
    from rushlight.distributed.tensor.rules import reduction

    found, spec, dim = reduction(call), call.specs[0], call.arg(1)
    if loss_parallel_on:
        found.append(Strategy(S(dim % spec.ndim), [S(dim % spec.ndim)], local=log_softmax_of_parts))
    return found


def log_softmax_of_parts(call: SpreadCall, args: tuple, dims: Sequence[int]) -> Tensor:
    x, dim = args[:2]
    most = x.amax(dim, keepdim=True) if x.shape[dim] else x.new_full(_one(x, dim), -math.inf)
    x = x - summed(most.contiguous(), call, dims, ReduceOp.MAX)
    return x - summed(x.exp().sum(dim, keepdim=True), call, dims).log_()


def _one(x: Tensor, dim: int) -> list[int]:
    shape = list(x.shape)
    shape[dim] = 1
    return shape


def log_softmax_backward_of_parts(call: SpreadCall, args: tuple, dims: Sequence[int]) -> Tensor:
    g, result, dim = args[:3]
    return g - result.exp() * summed(g.sum(dim, keepdim=True), call, dims)


def _own_classes(call: SpreadCall, shape: Sequence[int], dims: Sequence[int]) -> tuple[int, int]:
    """(how many classes this process has, the first of them)."""
    placed = [S(1) if i in dims else R for i in range(call.mesh.ndim)]
    local, offset = compute_local_shape_and_global_offset(shape, call.mesh, placed)
    return local[1], offset[1]


def nll_of_parts(call: SpreadCall, args: tuple, dims: Sequence[int]) -> tuple:
    """The loss of logits of which each process has some classes."""
    logs, target, _, how, ignore = args
    count, first = _own_classes(call, call.specs[0].shape, dims)
    own = target - first
    here = (own >= 0) & (own < count) & (target != ignore)
    if count:
        picked = logs.gather(1, (own * here).unsqueeze(1)).squeeze(1) * here
    else:
        picked = logs.new_zeros(target.shape)
    loss = summed(-picked, call, dims)
    how = _reduction(how)
    total = _targets_weight(target, None, ignore, logs.dtype)
    if how == "none":
        return loss, logs.new_zeros(())
    return (loss.sum() / total if how == "mean" else loss.sum()), total


def nll_backward_of_classes(call: SpreadCall, args: tuple, dims: Sequence[int]) -> Tensor:
    g, target, _, how, ignore, shape = args
    count, first = _own_classes(call, shape, dims)
    own = target - first
    here = (own >= 0) & (own < count) & (target != ignore)
    if how == "mean":
        g = g / _targets_weight(target, None, ignore, g.dtype)
    back = rushlight.zeros((shape[0], count, *shape[2:]), dtype=g.dtype)
    if count:
        back.scatter_(1, (own * here).unsqueeze(1), -(g * here).unsqueeze(1))
    return back
