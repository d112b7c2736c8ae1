"""`torch.distributed.nn`: collectives with gradients. Those that are not there can be imported, and raise."""

from __future__ import annotations

from typing import Any

from rushlight.autograd import Function
from rushlight.compat.unavailable import functions
from rushlight.core.stub import declare
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.absent import REASON, refuse
from rushlight.distributed.reductions import ReduceOp

__all__ = ["all_reduce"]

_FUNCTIONS = frozenset(
    "all_gather all_to_all all_to_all_single broadcast gather reduce reduce_scatter scatter".split()
)
declare("absent", REASON, __name__, " ".join(_FUNCTIONS))


class _AllReduce(Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, op: Any, group: Any) -> Tensor:
        ctx.op, ctx.group = op, group
        result = tensor.clone()
        collectives.all_reduce(result, op, group)
        return result

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple:
        return _AllReduce.apply(grad, ctx.op, ctx.group), None, None


def all_reduce(tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None) -> Tensor:
    """The sum over all processes; its gradient is the sum of theirs."""
    return _AllReduce.apply(tensor, op, group)


__getattr__ = functions(globals(), _FUNCTIONS, refuse, "RuntimeError: it is not there.")
