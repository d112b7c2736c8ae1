"""Moving the parts of a tensor from one placement to another.

Note [Redistribution]
One dimension of the mesh is changed at a time. Where several cut the same dimension of the tensor, the first cuts
the whole and the next cuts its parts, so a cut can only be undone when those inside of it are: the first pass goes from
the last dimension of the mesh to the first and gathers what has to be gathered, the second goes forward and cuts. A
dimension that `_StridedShard` cuts comes after the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.tensor.placement_types import (
    Partial,
    Placement,
    Replicate,
    Shard,
    order_of_cuts,
)
from rushlight.distributed.tensor.spec import DTensorSpec

_REDUCTIONS = {
    "sum": ReduceOp.SUM, "avg": ReduceOp.AVG, "product": ReduceOp.PRODUCT, "min": ReduceOp.MIN, "max": ReduceOp.MAX
}  # fmt: skip


def redistribute(local: Tensor, spec: DTensorSpec, placements: Sequence[Placement]) -> Tensor:
    """This process's part of a tensor that lies as `spec` says, at other places. See Note [Redistribution]."""
    mesh, now, wanted = spec.mesh, list(spec.placements), tuple(placements)
    if tuple(now) == wanted or mesh.get_coordinate() is None:
        return local
    with rushlight.no_grad():
        local = local.resolve_conj().resolve_neg()  # messages have what lies in memory
        before, after = order_of_cuts(now), order_of_cuts(wanted)
        for k in reversed(range(mesh.ndim)):
            i = before[k]
            p = now[i]
            earlier = {*before[:k], *after[: after.index(i)]}
            if isinstance(p, Shard) and (p != wanted[i] or _moved(earlier, p, now, wanted)):
                if isinstance(wanted[i], Shard) and _alone(i, now, wanted):
                    continue
                local, now[i] = (
                    gathered(local, mesh, i, p.dim, _size(spec, now, before[:k], p.dim)),
                    Replicate(),
                )
        for i in after:
            if now[i] != wanted[i]:
                local = _changed(local, spec, now, i, wanted[i])
                now[i] = wanted[i]
    return local


def _moved(earlier: set[int], p: Shard, now: list, wanted: tuple) -> bool:
    """Whether earlier dimensions of the mesh cut the tensor's dimension otherwise than they will."""
    cut = (now[j].is_shard(p.dim) or wanted[j].is_shard(p.dim) for j in earlier)
    return any(now[j] != wanted[j] and is_cut for j, is_cut in zip(earlier, cut))


def _alone(i: int, now: list, wanted: tuple) -> bool:
    """Whether no other dimension of the mesh cuts the two dimensions of the tensor that `i` exchanges."""
    dims = {now[i].dim, wanted[i].dim}
    others = [p for j in range(len(now)) if j != i for p in (now[j], wanted[j])]
    return len(dims) == 2 and not any(p.is_shard(dim) for p in others for dim in dims)


def _size(spec: DTensorSpec, now: list, earlier: list[int], dim: int) -> int:
    """The size of a dimension of the tensor after earlier dimensions of the mesh have cut it, for this process."""
    size, coordinate = spec.shape[dim], spec.mesh.get_coordinate()
    for j in earlier:
        if now[j].is_shard(dim):
            size, _ = Shard.local_shard_size_and_offset(size, spec.mesh.size(j), coordinate[j])
    return size


def _changed(local: Tensor, spec: DTensorSpec, now: list, i: int, wanted: Placement) -> Tensor:
    """A part with the placement along dimension `i` of the mesh changed."""
    mesh, p = spec.mesh, now[i]
    if isinstance(wanted, Shard):
        if isinstance(p, Partial):
            return reduced_to_parts(local, mesh, i, wanted.dim, p.reduce_op)
        if isinstance(p, Shard):
            return exchanged(local, mesh, i, p.dim, wanted.dim, spec.shape[p.dim])
        return part(local, mesh, i, wanted.dim)
    if isinstance(wanted, Replicate):
        return reduced(local, mesh, i, p.reduce_op)
    if isinstance(p, Partial):  # of another reduction
        local = reduced(local, mesh, i, p.reduce_op)
    return as_summand(local, mesh, i, wanted.reduce_op)


def chunks(t: Tensor, count: int, dim: int) -> list[Tensor]:
    """The parts of a tensor along one dimension, as `Shard` cuts them."""
    places = [Shard.local_shard_size_and_offset(t.shape[dim], count, k) for k in range(count)]
    return [t.narrow(dim, first, size) for size, first in places]


def part(local: Tensor, mesh: Any, i: int, dim: int) -> Tensor:
    """The part of this process, in memory of its own."""
    size, first = Shard.local_shard_size_and_offset(
        local.shape[dim], mesh.size(i), mesh.get_coordinate()[i]
    )
    return local.narrow(dim, first, size).contiguous().clone() if mesh.size(i) > 1 else local


def filled(t: Tensor, dim: int, size: int) -> Tensor:
    """A contiguous tensor of `size` rows along a dimension; there are zeros behind those of `t`."""
    missing = size - t.shape[dim]
    if missing:
        shape = list(t.shape)
        shape[dim] = missing
        t = rushlight.cat([t, t.new_zeros(shape)], dim)
    return t.contiguous()


def gathered(local: Tensor, mesh: Any, i: int, dim: int, size: int) -> Tensor:
    """The whole of the parts along a dimension of the mesh; `size`: of the tensor's dimension."""
    count = mesh.size(i)
    if count == 1:
        return local
    most = -(-size // count)
    mine = filled(local, dim, most)
    rows = [rushlight.empty_like(mine) for _ in range(count)]
    collectives.all_gather(rows, mine, mesh.get_group(i))
    whole = rushlight.cat(rows, dim)
    return whole if most * count == size else whole.narrow(dim, 0, size).contiguous()


def reduced(local: Tensor, mesh: Any, i: int, kind: str) -> Tensor:
    """The reduction over the processes along a dimension of the mesh, in new memory."""
    if mesh.size(i) == 1:
        return local
    whole = local.contiguous().clone()
    collectives.all_reduce(whole, _REDUCTIONS[kind], mesh.get_group(i))
    return whole


def reduced_to_parts(local: Tensor, mesh: Any, i: int, dim: int, kind: str) -> Tensor:
    """This process's part of the reduction."""
    count = mesh.size(i)
    if count == 1:
        return local
    rows = chunks(local, count, dim)
    most, mine = rows[0].shape[dim], rows[mesh.get_coordinate()[i]].shape[dim]
    rows = [filled(each, dim, most) for each in rows]
    found = rushlight.empty_like(rows[0])
    collectives.reduce_scatter(found, rows, _REDUCTIONS[kind], mesh.get_group(i))
    return found if mine == most else found.narrow(dim, 0, mine).contiguous()


def exchanged(local: Tensor, mesh: Any, i: int, old: int, new: int, size: int) -> Tensor:
    """The part along dimension `new` of a tensor that is cut along dimension `old`, which has `size` rows."""
    count = mesh.size(i)
    if count == 1:
        return local
    mine = mesh.get_coordinate()[i]
    given = [each.contiguous() for each in chunks(local, count, new)]
    got = []
    for k in range(count):
        shape = list(given[mine].shape)
        shape[old] = Shard.local_shard_size_and_offset(size, count, k)[0]
        got.append(local.new_empty(shape))
    collectives.all_to_all(got, given, mesh.get_group(i))
    return rushlight.cat(got, old)


def as_summand(local: Tensor, mesh: Any, i: int, kind: str) -> Tensor:
    """What this process has of a tensor that is known everywhere, as one of those that are reduced."""
    if kind == "sum" and mesh.get_coordinate()[i] > 0:
        return rushlight.zeros_like(local)
    if kind == "product" and mesh.get_coordinate()[i] > 0:
        return rushlight.ones_like(local)
    return local
