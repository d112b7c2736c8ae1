"""The public functions that move tensors between the processes of a group."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed import checks
from rushlight.distributed.groups import (
    GroupMember,
    _get_default_group,
    _resolve,
    get_global_rank,
    get_group_rank,
)
from rushlight.distributed.options import AllgatherOptions
from rushlight.distributed.process_group import ProcessGroup, real
from rushlight.distributed.reductions import ReduceOp, supports_complex
from rushlight.distributed.work import Work, progress

__all__ = [
    "P2POp", "all_gather", "all_gather_coalesced", "all_gather_into_tensor", "all_gather_single", "all_reduce",
    "all_reduce_coalesced", "all_to_all", "all_to_all_single", "barrier", "batch_isend_irecv", "broadcast", "gather", "irecv", "isend",
    "monitored_barrier", "recv", "reduce", "reduce_scatter", "reduce_scatter_single", "reduce_scatter_tensor", "scatter", "send",
]  # fmt: skip


def _check(value: Any, name: str) -> None:
    if not isinstance(value, Tensor):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type torch.Tensor\n"
            f"             but got {type(value)} instead."
        )


def _check_list(values: Any, name: str) -> None:
    if not isinstance(values, list | tuple) or not all(isinstance(v, Tensor) for v in values):
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[torch.Tensor]\n"
            f"             but got {type(values)} instead."
        )


def _check_dtypes(tensors: Sequence[Tensor]) -> None:
    for each in tensors:
        if each.dtype is not tensors[0].dtype:
            raise ValueError(
                "Invalid usage of tensors with different dtypes"
                f"Found {tensors[0].dtype} and  {each.dtype}"
            )


def _group(group: Any, name: str) -> ProcessGroup | None:
    """The group; None, with a warning, if this process is not in it."""
    if group is None:
        return _get_default_group()
    if group == GroupMember.NON_GROUP_MEMBER:
        rank = _resolve(None).rank()
        warnings.warn(
            f"Running {name} on global rank {rank} which does not belong to the given group.",
            stacklevel=3,
        )
        return None
    return _resolve(group)


class _CoalescingManager:
    """The calls of a block, which go on beside each other."""

    def __init__(self, group: ProcessGroup) -> None:
        self.group = group
        self.works: list[Work] = []

    def append(self, work: Work | None = None) -> None:
        """One more call to wait for."""
        if work is not None:
            self.works.append(work)

    def wait(self) -> None:
        """Wait for all of them."""
        for work in self.works:
            work.wait()


class _Blocks(threading.local):
    """The open blocks of a thread."""

    def __init__(self) -> None:
        self.open: list[_CoalescingManager] = []


_blocks = _Blocks()


@contextmanager
def _coalescing_manager(
    group: Any = None, device: Any = None, async_ops: bool = False
) -> Iterator[_CoalescingManager]:
    """A block in which `all_reduce`, `all_gather_into_tensor` and `reduce_scatter_tensor` of a group only start: its end
    waits for them, or with `async_ops` `wait()` of what it gives."""
    manager = _CoalescingManager(_resolve(group))
    _blocks.open.append(manager)
    try:
        yield manager
    finally:
        _blocks.open.remove(manager)
    if not async_ops:
        manager.wait()


def _end(work: Work, async_op: bool) -> Work | None:
    """Wait, or let the work go on by itself."""
    if async_op:
        return progress(work)
    work.wait()
    return None


def _end_of_block(work: Work, async_op: bool) -> Work | None:
    """As `_end`; within a block of calls of the group the end of the block waits."""
    for block in _blocks.open:
        if block.group is work.group and not async_op:
            block.append(progress(work))
            return None
    return _end(work, async_op)


def _check_complex(name: str, tensors: Sequence[Tensor], op: Any) -> None:
    if not supports_complex(op) and any(each.is_complex() for each in tensors):
        raise ValueError(f"{name} does not support {op} on complex tensors")


def _root(group: ProcessGroup, rank: int | None, group_rank: int | None, among: Any) -> int:
    """The number in the group of a root that is given as a rank in the job or in the group."""
    if group_rank is not None:
        if rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
        return group_rank
    if rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    return rank if among is None else get_group_rank(group, rank)


def all_reduce(
    tensor: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give every process the reduction of what all have, in place."""
    _check(tensor, "tensor")
    if (known := _group(group, "all_reduce")) is None:
        return None
    _check_complex("all_reduce", [tensor], op)
    return _end_of_block(known.start_all_reduce(real(tensor), op), async_op)


def all_reduce_coalesced(
    tensors: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Any:
    """`all_reduce` of several tensors."""
    tensors = [tensors] if isinstance(tensors, Tensor) else tensors
    _check_list(tensors, "tensors")
    if (known := _group(group, "all_reduce_coalesced")) is None:
        return None
    _check_complex("all_reduce", tensors, op)
    tensors = [real(each) for each in tensors]
    _check_dtypes(tensors)
    return _future(_end(known.start_all_reduce_coalesced(tensors, op), async_op))


def _future(work: Work | None) -> Any:
    """The coalesced calls return a `Future`, and not a `Work`."""
    return work and work.get_future()


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:  # fmt: skip
    """Give every process what `src` has, in place."""
    _check(tensor, "tensor")
    if (known := _group(group, "broadcast")) is None:
        return None
    return _end(known.start_broadcast(tensor, _root(known, src, group_src, group)), async_op)


def reduce(
    tensor: Tensor, dst: int | None = None, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Give the process `dst` the reduction of what all have, in place."""
    _check(tensor, "tensor")
    if (known := _group(group, "reduce")) is None:
        return None
    _check_complex("reduce", [tensor], op)
    return _end(known.start_reduce(tensor, _root(known, dst, group_dst, group), op), async_op)


def all_gather(
    tensor_list: Sequence[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put what each process has into the list, everywhere."""
    _check_list(tensor_list, "tensor_list")
    _check(tensor, "tensor")
    _check_dtypes([*tensor_list, tensor])
    if (known := _group(group, "all_gather")) is None:
        return None
    if len(tensor_list) != known.size():
        raise checks.fail(
            "allgather",
            f"invalid output tensor list at index 0 (expected length {known.size()}, got {len(tensor_list)})",
        )
    checks.like("allgather", tensor_list, tensor)
    outputs = [real(each) for each in tensor_list]
    return _end(known.start_all_gather(outputs, real(tensor)), async_op)


def all_gather_coalesced(
    output_tensor_lists: Sequence[Sequence[Tensor]], input_tensor_list: Sequence[Tensor], group: Any = None,
    async_op: bool = False,
) -> Any:  # fmt: skip
    """`all_gather` of several tensors."""
    _check_list(input_tensor_list, "input_tensor_list")
    for row in output_tensor_lists:
        _check_list(row, "output_tensor_lists")
    if (known := _group(group, "all_gather_coalesced")) is None:
        return None
    options = AllgatherOptions()
    options.asyncOp = async_op
    outputs = [[real(each) for each in row] for row in output_tensor_lists]
    work = known.allgather_coalesced(outputs, [real(t) for t in input_tensor_list], options)
    return _future(_end(work, async_op))


def all_gather_into_tensor(
    output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False
) -> Work | None:
    """Put what each process has, one after the other, into one tensor, everywhere."""
    _check(output_tensor, "output_tensor")
    _check(input_tensor, "input_tensor")
    _check_dtypes([input_tensor, output_tensor])
    if (known := _group(group, "all_gather_into_tensor")) is None:
        return None
    checks.gathered(known.size(), output_tensor, input_tensor)
    return _end_of_block(known.start_all_gather(output_tensor, input_tensor), async_op)


def gather(
    tensor: Tensor, gather_list: Sequence[Tensor] | None = None, dst: int | None = None, group: Any = None,
    async_op: bool = False, group_dst: int | None = None,
) -> Work | None:  # fmt: skip
    """Put what each process has into the list of the process `dst` (0)."""
    _check(tensor, "tensor")
    if gather_list:
        _check_list(gather_list, "gather_list")
        _check_dtypes([*gather_list, tensor])
    if (known := _group(group, "gather")) is None:
        return None
    if dst is None and group_dst is None:
        group_dst = 0
    root = _root(known, dst, group_dst, group)
    if known.rank() == root:
        if not gather_list:
            raise ValueError("Argument ``gather_list`` must be specified on destination rank.")
        checks.for_each("gather", "output", [gather_list], known.size())
        checks.like("gather", gather_list, tensor)
    elif gather_list:
        raise ValueError("Argument ``gather_list`` must NOT be specified on non-destination ranks.")
    return _end(known.start_gather(gather_list, tensor, root), async_op)


def scatter(
    tensor: Tensor, scatter_list: Sequence[Tensor] | None = None, src: int | None = None, group: Any = None,
    async_op: bool = False, group_src: int | None = None,
) -> Work | None:  # fmt: skip
    """Give each process its tensor of the list of the process `src` (0)."""
    _check(tensor, "tensor")
    if scatter_list:
        _check_list(scatter_list, "scatter_list")
        _check_dtypes([*scatter_list, tensor])
    if (known := _group(group, "scatter")) is None:
        return None
    if src is None and group_src is None:
        group_src = 0
    root = _root(known, src, group_src, group)
    if known.rank() == root:
        if not scatter_list:
            raise ValueError("Argument ``scatter_list`` must be specified on source rank.")
        checks.for_each("scatter", "input", [scatter_list], known.size())
        checks.like("scatter", scatter_list, tensor)
    elif scatter_list:
        raise ValueError("Argument ``scatter_list`` must NOT be specified on non-source ranks.")
    return _end(known.start_scatter(tensor, scatter_list, root), async_op)


def reduce_scatter(
    output: Tensor, input_list: Sequence[Tensor], op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:  # fmt: skip
    """Give each process the reduction of what all have for it in their lists."""
    _check(output, "output")
    _check_list(input_list, "input_list")
    _check_dtypes([*input_list, output])
    if (known := _group(group, "reduce_scatter")) is None:
        return None
    _check_complex("reduce_scatter", [output], op)
    if len(input_list) != known.size():
        raise RuntimeError("invalid input tensor list size, must be world size")
    checks.like("reduce_scatter", input_list, output)
    return _end(known.start_reduce_scatter(output, input_list, op), async_op)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: Any = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Give each process its part of the reduction of one tensor."""
    _check(output, "output")
    _check(input, "input")
    _check_dtypes([input, output])
    if (known := _group(group, "reduce_scatter_tensor")) is None:
        return None
    _check_complex("reduce_scatter_tensor", [output], op)
    checks.scattered(known.size(), output, input)
    return _end_of_block(known.start_reduce_scatter(output, [input], op), async_op)


def all_to_all(
    output_tensor_list: Sequence[Tensor], input_tensor_list: Sequence[Tensor], group: Any = None,
    async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send each process its tensor of the list, and get one from each."""
    _check_list(output_tensor_list, "output_tensor_list")
    _check_list(input_tensor_list, "input_tensor_list")
    _check_dtypes([*output_tensor_list, *input_tensor_list])
    if (known := _group(group, "all_to_all")) is None:
        return None
    checks.both_for_each(output_tensor_list, input_tensor_list, known.size())
    return _end(known.start_all_to_all(output_tensor_list, input_tensor_list), async_op)


def all_to_all_single(
    output: Tensor, input: Tensor, output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None, group: Any = None, async_op: bool = False,
) -> Work | None:  # fmt: skip
    """Send each process its rows of a tensor, and get rows from each."""
    _check(output, "output")
    _check(input, "input")
    _check_dtypes([output, input])
    if (known := _group(group, "all_to_all_single")) is None:
        return None
    rows_in = checks.rows_for_each(input, input_split_sizes, known.size())
    rows_out = checks.rows_for_each(output, output_split_sizes, known.size())
    return _end(known.start_all_to_all_single(output, input, rows_out, rows_in), async_op)


def _other(group: Any, rank: int | None, group_rank: int | None, what: str) -> tuple:
    known = _resolve(group)
    number = _root(known, rank, group_rank, group)
    if number == known.rank():
        raise ValueError(
            f"Invalid {what} rank: {what} rank should not be the same as the rank of the current process."
        )
    if not 0 <= number < known.size():
        raise ValueError(f"Invalid {what} rank: {number} is not in the group of {known.size()}")
    return known, number


def _non_member(group: Any, name: str) -> bool:
    return (
        group is not None and group == GroupMember.NON_GROUP_MEMBER and _group(group, name) is None
    )


def isend(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> Work | None:  # fmt: skip
    """Start to send a tensor."""
    _check(tensor, "tensor")
    if _non_member(group, "isend"):
        return None
    known, number = _other(group, dst, group_dst, "destination")
    return progress(known.start_send(tensor, number, tag))


def irecv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> Work | None:  # fmt: skip
    """Start to receive a tensor, in place; without `src` from any process."""
    _check(tensor, "tensor")
    if _non_member(group, "irecv"):
        return None
    return progress(_receive(tensor, src, group, tag, group_src))


def _receive(tensor: Tensor, src: int | None, group: Any, tag: int, group_src: int | None) -> Work:
    if src is None and group_src is None:
        return _resolve(group).start_recv(tensor, None, tag)
    known, number = _other(group, src, group_src, "source")
    return known.start_recv(tensor, number, tag)


def send(
    tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None
) -> None:  # fmt: skip
    """Send a tensor."""
    _check(tensor, "tensor")
    if _non_member(group, "send"):
        return
    known, number = _other(group, dst, group_dst, "destination")
    known.start_send(tensor, number, tag).wait()


def recv(
    tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None
) -> int:  # fmt: skip
    """Receive a tensor, in place. Returns the rank that sent it, -1 outside of the group."""
    _check(tensor, "tensor")
    if _non_member(group, "recv"):
        return -1
    work = _receive(tensor, src, group, tag, group_src)
    work.wait()
    return get_global_rank(_resolve(group), work.source_rank())


class P2POp:
    """A call of `isend` or `irecv` for `batch_isend_irecv`."""

    def __init__(
        self, op: Callable, tensor: Tensor, peer: int | None = None, group: Any = None, tag: int = 0,
        group_peer: int | None = None,
    ) -> None:  # fmt: skip
        if op not in (isend, irecv):
            raise ValueError(
                "Invalid ``op``. Expected ``op`` to be of type ``torch.distributed.isend`` or "
                "``torch.distributed.irecv``."
            )
        _check(tensor, "tensor")
        self.op, self.tensor, self.group, self.tag = op, tensor, _resolve(group), tag
        self.group_peer = _root(self.group, peer, group_peer, group)
        self.peer = get_global_rank(self.group, self.group_peer)

    def __repr__(self) -> str:
        mine, other = self.group.rank(), self.group_peer
        source, target = (mine, other) if self.op is isend else (other, mine)
        return (
            f"P2POp({self.op.__name__} pg={self.group.group_name}, group_src={source}, group_dst={target},  "
            f"{self.tensor.shape}, {self.tensor.dtype})"
        )


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start several calls of `isend` and `irecv`, at least one."""
    if not p2p_op_list:
        raise IndexError("list index out of range")
    if not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError(
            "Invalid ``p2p_op_list``. Each op is expected to to be of type ``torch.distributed.P2POp``."
        )
    return [
        each.op(each.tensor, group=each.group, tag=each.tag, **{name: each.group_peer})
        for each in p2p_op_list
        for name in ["group_dst" if each.op is isend else "group_src"]
    ]


def barrier(
    group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None
) -> Work | None:  # fmt: skip
    """Wait until all processes of the group have come here."""
    if (known := _group(group, "barrier")) is None:
        return None
    if device_ids is not None:
        raise RuntimeError(
            f"Function argument device_ids not supported for the selected backend {known.backend}"
        )
    return _end(known.start_barrier(timeout), async_op)


def monitored_barrier(
    group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False
) -> None:
    """A barrier that says who did not come: rank 0 raises with the first one, or with all."""
    if (known := _group(group, "monitored_barrier")) is not None:
        known.monitored_barrier(timeout, wait_all_ranks)


# older names, and newer ones
_all_gather_base = all_gather_single = all_gather_into_tensor
_reduce_scatter_base = reduce_scatter_single = reduce_scatter_tensor
