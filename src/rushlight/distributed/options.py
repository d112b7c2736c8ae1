"""Options of the calls of process groups: what `group.allreduce(tensors, options)` and its kind take."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from rushlight.distributed.reductions import RedOpType, ReduceOp

__all__ = [
    "AllToAllOptions", "AllgatherOptions", "AllreduceCoalescedOptions", "AllreduceOptions", "BarrierOptions",
    "BroadcastOptions", "GatherOptions", "ReduceOptions", "ReduceScatterOptions", "ScatterOptions",
]  # fmt: skip

UNSET = timedelta(milliseconds=-1)  # the group's own


class Options:
    """A timeout, and whether the caller goes on at once."""

    def __init__(self) -> None:
        self.timeout, self.asyncOp = UNSET, True


class AllgatherOptions(Options):
    """Options of `allgather`."""


class AllToAllOptions(Options):
    """Options of `alltoall`."""


class Reduction:
    """A field that holds a `ReduceOp`, also if it is given a kind of reductions."""

    def __get__(self, made: Any, cls: type) -> Any:
        return self if made is None else made._reduction

    def __set__(self, made: Any, op: Any) -> None:
        made._reduction = ReduceOp(op) if isinstance(op, RedOpType) else op


class AllreduceOptions(Options):
    """Options of `allreduce`: the reduction."""

    reduceOp = Reduction()

    def __init__(self) -> None:
        super().__init__()
        self.reduceOp = ReduceOp.SUM


class AllreduceCoalescedOptions(AllreduceOptions):
    """Options of `allreduce_coalesced`: the reduction."""


class ReduceScatterOptions(AllreduceOptions):
    """Options of `reduce_scatter`: the reduction."""


class GatherOptions(Options):
    """Options of `gather`: the rank that gets all."""

    def __init__(self) -> None:
        super().__init__()
        self.rootRank = 0


class ScatterOptions(GatherOptions):
    """Options of `scatter`: the rank that has all."""


class BroadcastOptions(GatherOptions):
    """Options of `broadcast`: the rank that has the tensor, and which of its tensors."""

    def __init__(self) -> None:
        super().__init__()
        self.rootTensor = 0


class ReduceOptions(BroadcastOptions):
    """Options of `reduce`: the rank that gets the result, and the reduction."""

    reduceOp = Reduction()

    def __init__(self) -> None:
        super().__init__()
        self.reduceOp = ReduceOp.SUM


class BarrierOptions(Options):
    """Options of `barrier`."""

    def __init__(self) -> None:
        super().__init__()
        self.device_ids: list[int] = []
        self.device: Any = None
