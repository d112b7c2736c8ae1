"""The calls of a process group under PyTorch's names: they take lists of tensors and options, or one tensor and its arguments.

Each starts a call and returns its `Work`, which goes on by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import checks, reductions
from rushlight.distributed.options import (
    UNSET,
    AllgatherOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    Options,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from rushlight.distributed.work import Work, progress, together

__all__ = ["Calls", "combined"]


def options(kind: type, given: Any, timeout: timedelta | None, **fields: Any) -> Any:
    """Options that are given, or that arguments make."""
    if isinstance(given, kind):
        return given
    made = kind()
    if isinstance(given, timedelta):
        timeout = given
    made.timeout = UNSET if timeout is None else timeout
    for name, value in fields.items():
        setattr(made, name, value)
    return made


def started(work: Work, chosen: Options) -> Work:
    """A work with the timeout of its options; it goes on by itself, unless the caller waits for it at once."""
    if chosen.timeout >= timedelta():
        work._timeout = chosen.timeout
    return progress(work) if chosen.asyncOp else work


def refused(call: str, *values: Any) -> TypeError:
    """The error for arguments of other kinds."""
    found = ", ".join(type(value).__name__ for value in values)
    return TypeError(
        f"{call}(): incompatible function arguments. It takes lists of tensors and options, or tensors and their "
        f"arguments. Invoked with: {found}"
    )


def combined(tensors: Sequence[Tensor], op: Any) -> Tensor:
    """The reduction of several tensors of one process."""
    if reductions.kind(op) in (reductions.RedOpType.AVG, reductions.RedOpType.PREMUL_SUM):
        raise RuntimeError(f"{op} of several tensors of one process: reduce them first")
    found, two = tensors[0].clone(), reductions.combination(op, tensors[0].dtype)
    with rushlight.no_grad():
        for each in tensors[1:]:
            two(found, each)
    return found


class Calls:
    """The calls of a group whose `start_...` methods start them."""

    _rank: int
    _size: int
    start_all_gather: Any
    start_all_gather_coalesced: Any
    start_all_reduce: Any
    start_all_reduce_coalesced: Any
    start_all_to_all: Any
    start_all_to_all_single: Any
    start_barrier: Any
    start_broadcast: Any
    start_gather: Any
    start_recv: Any
    start_reduce: Any
    start_reduce_scatter: Any
    start_scatter: Any
    start_send: Any

    def broadcast(
        self, tensors: Any, opts: Any = None, timeout: timedelta | None = None, *, root: int | None = None
    ) -> Work:  # fmt: skip
        """All tensors of all processes get what one of them has: `broadcast([t], options)` or `broadcast(t, root)`."""
        if isinstance(tensors, Tensor):
            root = opts if root is None else root
            if not isinstance(root, int):
                raise refused("broadcast", tensors, opts)
            tensors, opts = [tensors], options(BroadcastOptions, None, timeout, rootRank=root)
        elif isinstance(opts, int) or not isinstance(tensors, list | tuple):
            raise refused("broadcast", tensors, opts)
        chosen = options(BroadcastOptions, opts, timeout)
        checks.root("broadcast", chosen.rootRank, self._size)
        if not 0 <= chosen.rootTensor < len(tensors):
            raise checks.fail("broadcast", f"invalid root tensor: {chosen.rootTensor}")
        mine = tensors[chosen.rootTensor]
        checks.like("broadcast", tensors, mine)
        work = self.start_broadcast(mine, chosen.rootRank)
        return started(work.copied_to(tensors, mine), chosen)

    def allreduce(
        self, tensors: Any, opts: Any = None, timeout: timedelta | None = None, *, op: Any = None
    ) -> Work:
        """All tensors of all processes get the reduction of all: with options, or a ReduceOp."""
        if isinstance(tensors, Tensor):
            tensors = [tensors]
        elif not isinstance(tensors, list | tuple):
            raise refused("allreduce", tensors, opts)
        op = opts if isinstance(opts, reductions.ReduceOp) else op or reductions.ReduceOp.SUM
        chosen = options(AllreduceOptions, opts, timeout, reduceOp=op)
        checks.alike("allreduce", tensors)
        mine = tensors[0] if len(tensors) == 1 else combined(tensors, chosen.reduceOp)
        work = self.start_all_reduce(mine, chosen.reduceOp)
        return started(work.copied_to(tensors, mine), chosen)

    def allreduce_coalesced(self, tensors: Sequence[Tensor], opts: Any = None) -> Work:
        """Several reductions at once."""
        chosen = options(AllreduceOptions, opts, None)
        if not tensors:
            raise checks.fail("allreduce_coalesced", "requires non-empty tensor list")
        for k, each in enumerate(tensors):
            if each.layout is not tensors[0].layout:
                raise checks.fail("allreduce_coalesced", f"invalid tensor layout at index {k}")
            if each.dtype is not tensors[0].dtype:
                raise checks.fail("allreduce_coalesced", "tensors must all have the same type")
        if tensors[0].is_sparse:
            raise checks.fail("allreduce_coalesced", "unsupported layout")
        work = self.start_all_reduce_coalesced(tensors, chosen.reduceOp)
        return started(work, chosen)

    def reduce(
        self, tensors: Any, opts: Any = None, op: Any = None, timeout: timedelta | None = None, *,
        root: int | None = None,
    ) -> Work:  # fmt: skip
        """One process gets the reduction: `reduce([t], options)` or `reduce(t, root, op)`."""
        if isinstance(tensors, Tensor):
            op = op or reductions.ReduceOp.SUM
            root = opts if root is None else root
            tensors = [tensors]
            opts = options(ReduceOptions, None, timeout, rootRank=root, reduceOp=op)
        chosen = options(ReduceOptions, opts, timeout)
        checks.root("reduce", chosen.rootRank, self._size)
        if chosen.rootTensor != 0:
            raise checks.fail("reduce", f"invalid root tensor: {chosen.rootTensor}")
        mine = checks.one("reduce", tensors)
        return started(self.start_reduce(mine, chosen.rootRank, chosen.reduceOp), chosen)

    def allgather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None
    ) -> Work:  # fmt: skip
        """Each list of outputs gets the inputs of all processes: `allgather([[...]], [t])` or `allgather([...], t)`."""
        if isinstance(input_tensors, Tensor):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        chosen = options(AllgatherOptions, opts, timeout)
        if not input_tensors:
            raise checks.fail("allgather", "requires non-empty input tensor list")
        if len(output_tensors) != len(input_tensors):
            raise checks.fail(
                "allgather", "requires input/output tensor lists to have the same length"
            )
        checks.alike("allgather", input_tensors)
        count = self._size * len(input_tensors)
        for k, outputs in enumerate(output_tensors):
            if len(outputs) != count:
                raise checks.fail(
                    "allgather",
                    f"invalid output tensor list at index {k} (expected length {count}, got {len(outputs)})",
                )
            checks.like("allgather", outputs, input_tensors[0])
        first, mine = output_tensors[0], input_tensors[0]
        if len(input_tensors) > 1:
            mine = rushlight.stack([each.detach() for each in input_tensors])
        work = self.start_all_gather(first, mine)
        for others in output_tensors[1:]:
            work.then(lambda others=others: _copy(others, first))
        if len(output_tensors) > 1:
            work._result = list(output_tensors)
        return started(work, chosen)

    def allgather_coalesced(
        self,
        output_lists: Sequence[Sequence[Tensor]],
        input_list: Sequence[Tensor],
        opts: Any = None,
    ) -> Work:
        """Several gathers at once: `output_lists[rank][k]` gets input `k` of a process."""
        chosen = options(AllgatherOptions, opts, None)
        if not input_list:
            raise checks.fail("allgather_coalesced", "requires non-empty input tensor list")
        if len(output_lists) != self._size:
            raise checks.fail("allgather_coalesced", "output lists should be equal to world size")
        for outputs in output_lists:
            if len(outputs) != len(input_list):
                raise checks.fail(
                    "allgather_coalesced",
                    f"invalid output size: (expected length {len(input_list)}, got {len(outputs)})",
                )
            for k, (output, mine) in enumerate(zip(outputs, input_list, strict=True)):
                if output.shape != mine.shape:
                    sizes = f"(expected length {checks.shown(mine)}, got {checks.shown(output)})"
                    text = f"invalid size of output tensor at index {k} {sizes}"
                    raise checks.fail("allgather_coalesced", text)
                checks.like("allgather_coalesced", [output], mine, k)
        return started(self.start_all_gather_coalesced(output_lists, input_list), chosen)

    def _allgather_base(self, output: Tensor, input: Tensor, opts: Any = None) -> Work:
        """One tensor gets what each process has."""
        chosen = options(AllgatherOptions, opts, None)
        checks.gathered(self._size, output, input)
        return started(self.start_all_gather(output, input), chosen)

    def allgather_into_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """Several of `_allgather_base` at once."""
        chosen = options(AllgatherOptions, opts, None)
        for pair in zip(outputs, inputs, strict=True):
            checks.gathered(self._size, *pair)
        works = [self.start_all_gather(*pair) for pair in zip(outputs, inputs, strict=True)]
        return started(together(works), chosen)

    def gather(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None, *,
        root: int | None = None,
    ) -> Work:  # fmt: skip
        """One process gets what each has: `gather([[...]], [t], options)` or `gather([...], t, root)`."""
        if isinstance(input_tensors, Tensor):
            output_tensors = [output_tensors] if output_tensors else []
            input_tensors = [input_tensors]
            opts = options(GatherOptions, None, timeout, rootRank=opts if root is None else root)
        chosen, outputs = options(GatherOptions, opts, timeout), None
        checks.root("gather", chosen.rootRank, self._size)
        mine = checks.one("gather", input_tensors, "input ")
        if self._rank == chosen.rootRank:
            outputs = checks.for_each("gather", "output", output_tensors, self._size)
            checks.like("gather", outputs, mine)
        elif output_tensors:
            raise checks.fail("gather", "requires empty output on non-root")
        return started(self.start_gather(outputs, mine, chosen.rootRank), chosen)

    def scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None, *,
        root: int | None = None,
    ) -> Work:  # fmt: skip
        """Each process gets what one has for it: `scatter([t], [[...]], options)` or `scatter(t, [...], root)`."""
        if isinstance(output_tensors, Tensor):
            output_tensors = [output_tensors]
            input_tensors = [input_tensors] if input_tensors else []
            opts = options(ScatterOptions, None, timeout, rootRank=opts if root is None else root)
        chosen, inputs = options(ScatterOptions, opts, timeout), None
        checks.root("scatter", chosen.rootRank, self._size)
        mine = checks.one("scatter", output_tensors, "output ")
        if self._rank == chosen.rootRank:
            inputs = checks.for_each("scatter", "input", input_tensors, self._size)
            checks.like("scatter", inputs, mine)
        elif input_tensors:
            raise checks.fail("scatter", "requires empty input on non-root")
        return started(self.start_scatter(mine, inputs, chosen.rootRank), chosen)

    def reduce_scatter(
        self, output_tensors: Any, input_tensors: Any, opts: Any = None, timeout: timedelta | None = None, *,
        op: Any = None,
    ) -> Work:  # fmt: skip
        """Each process gets the reduction of what all have for it."""
        if isinstance(output_tensors, Tensor):
            output_tensors, input_tensors = [output_tensors], [input_tensors]
        op = opts if isinstance(opts, reductions.ReduceOp) else op or reductions.ReduceOp.SUM
        chosen = options(ReduceScatterOptions, opts, timeout, reduceOp=op)
        mine = checks.one("reduce_scatter", output_tensors, "output ")
        inputs = checks.for_each("reduce_scatter", "input", input_tensors, self._size)
        checks.like("reduce_scatter", inputs, mine)
        return started(self.start_reduce_scatter(mine, inputs, chosen.reduceOp), chosen)

    def _reduce_scatter_base(
        self, outputTensor: Tensor, inputTensor: Tensor, opts: Any = None
    ) -> Work:
        """Each process gets its part of the reduction of one tensor."""
        chosen = options(ReduceScatterOptions, opts, None)
        checks.scattered(self._size, outputTensor, inputTensor)
        work = self.start_reduce_scatter(outputTensor, [inputTensor], chosen.reduceOp)
        return started(work, chosen)

    def reduce_scatter_tensor_coalesced(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """Several of `_reduce_scatter_base` at once."""
        chosen = options(ReduceScatterOptions, opts, None)
        pairs = list(zip(outputs, inputs, strict=True))
        for pair in pairs:
            checks.scattered(self._size, *pair)
        works = [
            self.start_reduce_scatter(output, [mine], chosen.reduceOp) for output, mine in pairs
        ]
        return started(together(works), chosen)

    def alltoall(
        self, output_tensors: Sequence[Tensor], input_tensors: Sequence[Tensor], opts: Any = None
    ) -> Work:
        """Each process gets from each what that has for it."""
        chosen = options(AllToAllOptions, opts, None)
        checks.both_for_each(output_tensors, input_tensors, self._size)
        return started(self.start_all_to_all(output_tensors, input_tensors), chosen)

    def alltoall_base(
        self, output: Tensor, input: Tensor, output_split_sizes: Sequence[int], input_split_sizes: Sequence[int],
        opts: Any = None, timeout: timedelta | None = None,
    ) -> Work:  # fmt: skip
        """As `alltoall`, with rows of one tensor."""
        chosen = options(AllToAllOptions, opts, timeout)
        rows_in = checks.rows_for_each(input, input_split_sizes, self._size)
        rows_out = checks.rows_for_each(output, output_split_sizes, self._size)
        work = self.start_all_to_all_single(output, input, rows_out, rows_in)
        return started(work, chosen)

    def send(self, tensors: Sequence[Tensor], dstRank: int, tag: int) -> Work:
        """Send to one process."""
        return progress(self.start_send(_sent(tensors, tag), dstRank, tag))

    def recv(self, tensors: Sequence[Tensor], srcRank: int, tag: int) -> Work:
        """Receive from one process."""
        return progress(self.start_recv(_sent(tensors, tag), srcRank, tag))

    def recv_anysource(self, tensors: Sequence[Tensor], tag: int) -> Work:
        """Receive from any process."""
        return progress(self.start_recv(_sent(tensors, tag), None, tag))

    def barrier(self, opts: Any = None, timeout: timedelta | None = None) -> Work:
        """All come to it before any leaves it."""
        return started(self.start_barrier(), options(BarrierOptions, opts, timeout))


def _copy(targets: Sequence[Tensor], sources: Sequence[Tensor]) -> None:
    with rushlight.no_grad():
        for target, source in zip(targets, sources, strict=True):
            target.copy_(source)


def _sent(tensors: Sequence[Tensor], tag: int) -> Tensor:
    """The only tensor of a list, with a tag that messages can have."""
    if len(tensors) != 1:
        raise RuntimeError("ProcessGroup::send takes a single tensor")
    if tag < 0:
        raise RuntimeError("Tag must be nonnegative")
    return tensors[0]
