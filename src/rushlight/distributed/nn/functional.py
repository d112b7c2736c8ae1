"""`torch.distributed.nn.functional`: collectives with gradients. The gradient of each is another collective."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight.autograd import Function
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.groups import _resolve
from rushlight.distributed.reductions import ReduceOp

__all__ = [
    "all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter",
    "scatter",
]  # fmt: skip


def _rows_for(ctx: Any, tensor: Tensor) -> list[Tensor]:
    return [rushlight.empty_like(tensor) for _ in range(_resolve(ctx.group).size())]


def _is_at(ctx: Any, rank: int) -> bool:
    """Whether this process is the one with a rank in the job."""
    known = _resolve(ctx.group)
    return known.ranks[known.rank()] == rank


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: Any, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.clone(memory_format=rushlight.contiguous_format)
        collectives.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return _AllReduce.apply(grad, ctx.op, ctx.group), None, None


class _Broadcast(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, src: int, group: Any) -> Tensor:
        ctx.src, ctx.group = src, group
        result = tensor.clone(memory_format=rushlight.contiguous_format)
        collectives.broadcast(result, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        found = _Reduce.apply(grad, ctx.src, ReduceOp.SUM, ctx.group)
        return found if _is_at(ctx, ctx.src) else rushlight.zeros_like(found), None, None


class _Reduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, op: Any, group: Any) -> Tensor:
        ctx.dst, ctx.group = dst, group
        result = tensor.clone(memory_format=rushlight.contiguous_format)
        collectives.reduce(result, dst, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return _Broadcast.apply(grad, ctx.dst, ctx.group), None, None, None


class _AllGather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, group: Any) -> tuple[Tensor, ...]:
        ctx.group = group
        rows = _rows_for(ctx, tensor.contiguous())
        collectives.all_gather(rows, tensor.contiguous(), group)
        return tuple(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        return _ReduceScatter.apply(ReduceOp.SUM, ctx.group, *grads), None


class _ReduceScatter(Function):
    @staticmethod
    def forward(ctx: Any, op: Any, group: Any, *tensors: Tensor) -> Tensor:
        ctx.group = group
        result = rushlight.empty_like(tensors[_resolve(group).rank()].contiguous())
        collectives.reduce_scatter(result, [t.contiguous() for t in tensors], op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return None, None, *_AllGather.apply(grad, ctx.group)


class _Gather(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, dst: int, group: Any) -> tuple[Tensor, ...]:
        ctx.dst, ctx.group = dst, group
        rows = [rushlight.zeros_like(each) for each in _rows_for(ctx, tensor.contiguous())]
        given = rows if _is_at(ctx, dst) else None
        collectives.gather(tensor.contiguous(), given, dst, group)
        return tuple(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        return _Scatter.apply(ctx.dst, ctx.group, *grads), None, None


class _Scatter(Function):
    @staticmethod
    def forward(ctx: Any, src: int, group: Any, *tensors: Tensor) -> Tensor:
        ctx.src, ctx.group = src, group
        result = rushlight.empty_like(tensors[0].contiguous())
        given = [t.contiguous() for t in tensors] if _is_at(ctx, src) else None
        collectives.scatter(result, given, src, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return None, None, *_Gather.apply(grad, ctx.src, ctx.group)


class _AllToAll(Function):
    @staticmethod
    def forward(ctx: Any, group: Any, outputs: Sequence[Tensor], *tensors: Tensor) -> tuple:
        ctx.group, ctx.inputs = group, [rushlight.empty_like(t.detach()) for t in tensors]
        rows = [rushlight.empty_like(t.detach()) for t in outputs]
        collectives.all_to_all(rows, [t.contiguous() for t in tensors], group)
        return tuple(rows)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple:
        return None, None, *_AllToAll.apply(ctx.group, ctx.inputs, *grads)


class _AllToAllSingle(Function):
    @staticmethod
    def forward(
        ctx: Any, tensor: Tensor, output: Tensor, rows_out: Any, rows_in: Any, group: Any
    ) -> Tensor:
        ctx.group, ctx.rows = group, (rows_out, rows_in)
        ctx.like = rushlight.empty_like(tensor.detach())
        result = rushlight.empty_like(output.detach())
        collectives.all_to_all_single(result, tensor.contiguous(), rows_out, rows_in, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        rows_out, rows_in = ctx.rows
        found = _AllToAllSingle.apply(grad, ctx.like, rows_in, rows_out, ctx.group)
        return found, None, None, None, None


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum over all processes; its gradient is the sum of theirs."""
    return _AllReduce.apply(tensor, op, group)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """What the process `src` has; the gradients of all are summed there."""
    return _Broadcast.apply(tensor, src, group)


def reduce(tensor: Tensor, dst: int, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The reduction, on the process `dst`, whose gradient all get."""
    return _Reduce.apply(tensor, dst, op, group)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """What each process has; a process gets the sum of the gradients of its tensor."""
    return _AllGather.apply(tensor, group)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None
) -> Tensor:
    """The reduction of what all processes have for this one. `output` is not written."""
    return _ReduceScatter.apply(op, group, *input_list)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """What each process has, on the process `dst`; zeros on others."""
    return _Gather.apply(tensor, dst, group)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """What the process `src` has for this one. The others give tensors of the same shapes."""
    return _Scatter.apply(src, group, *tensors)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None
) -> tuple[Tensor, ...]:
    """What each process has for this one, shaped as the outputs, which are not written."""
    return _AllToAll.apply(group, output_tensor_list, *input_tensor_list)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None,
) -> Tensor:  # fmt: skip
    """As `all_to_all`, with rows of one tensor."""
    return _AllToAllSingle.apply(input, output, output_split_sizes, input_split_sizes, group)
