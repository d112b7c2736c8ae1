"""`MPIProcessGroup`: some processes of the job, and the calls among them. Every `start_...` starts one and returns its `Work`.

Tensors go to MPI as memory and a datatype. One that is not contiguous is copied first, and back at the end.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

import rushlight
from rushlight.core.tensor import Tensor, _wrap
from rushlight.distributed import reductions, schedules, world
from rushlight.distributed.backends import ProcessGroup, on_cpu
from rushlight.distributed.calls import Calls
from rushlight.distributed.store import DistBackendError, Store
from rushlight.distributed.work import Several, Work, started_before

__all__ = ["MPIProcessGroup", "ProcessGroup"]

listeners: list[Callable[[str], None]] = []  # called with the name of every call that is started


def row_of(tensor: Tensor) -> np.ndarray:
    """The elements in order: the tensor's own memory, or a copy."""
    array = tensor._array
    if array.__class__ is not np.ndarray:
        raise RuntimeError(
            f"No backend type associated with device type {tensor.device.type} and layout {tensor.layout}: "
            "MPI carries strided tensors on the CPU"
        )
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def message(row: np.ndarray) -> list:
    """A row for MPI: memory, number of elements, datatype."""
    return [memory(row), row.size * (1 + (row.dtype.kind == "c")), reductions.datatype(row.dtype)]


def memory(row: np.ndarray) -> np.ndarray:
    """The memory of a row; as bytes where others do not know the dtype."""
    return row if row.dtype.isbuiltin else row.reshape(-1).view(np.uint8)


def each(row: np.ndarray, like: np.ndarray) -> list:
    """As `message`, of a row with a place like `like` for each process."""
    return [memory(row), *message(like)[1:]]


def parts(row: np.ndarray, counts: Sequence[int]) -> list:
    """As `message`, with so many elements for each process."""
    pairs = 1 + (row.dtype.kind == "c")
    counts = [pairs * count for count in counts]
    starts = [0, *itertools.accumulate(counts)][:-1]
    return [memory(row), (counts, starts), reductions.datatype(row.dtype)]


def written(tensor: Tensor, row: np.ndarray) -> Callable[[], None] | None:
    """What copies the result to a tensor, unless it was written there."""
    array = tensor._array
    return None if row is array else lambda: np.copyto(array, row.reshape(array.shape))


def joined(tensors: Sequence[Tensor]) -> np.ndarray:
    """All elements of several tensors in one row."""
    rows = [row_of(tensor).reshape(-1) for tensor in tensors]
    return rows[0] if len(rows) == 1 else np.concatenate(rows)


def apart(source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """What is sent, in memory that nothing is received in: MPI refuses a call that writes where it reads."""
    return source.copy() if np.may_share_memory(source, target) else source


def empty_row(tensors: Sequence[Tensor]) -> np.ndarray:
    """Memory for all elements of several tensors of one dtype."""
    return np.empty(sum(tensor.numel() for tensor in tensors), tensors[0]._array.dtype)


def distributed(row: np.ndarray, tensors: Sequence[Tensor]) -> Callable[[], None]:
    """The inverse of `joined`, for later."""

    def copy() -> None:
        start = 0
        for array in (tensor._array for tensor in tensors):
            np.copyto(array, row[start : start + array.size].reshape(array.shape))
            start += array.size

    return copy


def real(tensor: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones, on the same memory."""
    return rushlight.view_as_real(tensor) if tensor.is_complex() else tensor


class Received:
    """A request whose status is kept: who sent the message, and how long it is."""

    def __init__(self, request: Any, status: Any) -> None:
        self.request, self.status = request, status

    def Test(self) -> bool:
        """Whether the message is there."""
        return self.request.Test(self.status)


class Ready:
    """The request of a call that is done."""

    def Test(self) -> bool:
        """True."""
        return True


class MPIProcessGroup(Calls, ProcessGroup):
    """Some processes of the job, numbered from 0, and a communicator of MPI for them. `start_...` starts a call of its own."""

    def __init__(
        self, communicator: Any, ranks: Sequence[int], store: Store, timeout: timedelta,
        backend: str, group_name: str, group_desc: str,
    ) -> None:  # fmt: skip
        self._communicator, self.ranks, self.store = communicator, list(ranks), store
        self.broken: Exception | None = None  # why a call never came to its end
        self.timeout, self.backend, self.engine = timeout, backend, on_cpu(backend)
        self.group_name, self.group_desc = group_name, group_desc
        super().__init__(communicator.rank, communicator.size)
        self._number = self._messages = self._schedules = 0

    @property
    def communicator(self) -> Any:
        """MPI's communicator. DistBackendError after a call that never came to its end: MPI would give its messages to the next."""
        if self.broken is not None:
            raise DistBackendError(
                f"group '{self.group_name}' cannot be used any more, since a call failed: {self.broken}"
            )
        return self._communicator

    def name(self) -> str:
        """The name of the backend."""
        return self.backend

    def _get_backend(self, device: Any) -> MPIProcessGroup:
        """The group itself: there is one engine, for tensors on the CPU."""
        return self

    @property
    def _device_types(self) -> list[Any]:
        """The devices whose tensors it carries."""
        return [rushlight.device("cpu")]

    def _get_sequence_number_for_group(self) -> int:
        """How many calls have been started."""
        return self._number

    def set_timeout(self, timeout: timedelta) -> None:
        """Let calls take so long from now on."""
        self.timeout = timeout

    def get_group_store(self) -> Store:
        """The store of this group."""
        return self.store

    def gone(self) -> dict[int, int]:
        """The ranks in the job of processes that have ended too early, each with that of the one that died first."""
        return world.world.gone(self.store)  # type: ignore[union-attr]

    def _work(
        self, name: str, request: Any, rows: Sequence[np.ndarray], finish: Callable[[], None] | None, result: list,
        peers: Sequence[int] | None = None, timeout: timedelta | None = None, inputs: Sequence[Tensor] | None = None,
    ) -> Work:  # fmt: skip
        if name in ("send", "recv"):
            number = self._messages = self._messages + 1
        else:  # the same on all processes
            number = self._number = self._number + 1
        for listener in listeners:
            listener(name)
        return Work(self, name, number, request, finish, result, rows, peers, timeout, inputs)

    def _checked(self, name: str, root: int) -> int:
        if not 0 <= root < self._size:
            raise RuntimeError(f"ProcessGroup::{name}: invalid root rank: {root}")
        return root

    # -- reductions ------------------------------------------------------------------------------

    def _wire(self) -> schedules.Wire:
        """For one schedule of messages; the upper half of the tags is theirs."""
        self._schedules += 1
        half = world.world.tags // 2
        return schedules.Wire(self.communicator, half + self._schedules % half, message)

    def _combination(self, op: Any, dtype: Any) -> schedules.Combination:
        """The function that reduces a chunk of a schedule."""
        two = reductions.combination(op, dtype)

        def combine(target: Tensor, others: list[Tensor]) -> None:
            for other in others:
                two(target, other)
            reductions.average(target, op, self._size)

        return combine

    def _by_schedule(self, operation: Any, row: np.ndarray) -> bool:
        """Whether a reduction is a schedule of ours: Note [Reductions of long rows]."""
        return operation is None or row.nbytes >= schedules.CHUNK * self._size > schedules.CHUNK

    def _finish(self, op: Any, tensor: Tensor, row: np.ndarray) -> Callable[[], None] | None:
        """What is left to do when MPI has reduced a row for a tensor."""
        copy = written(tensor, row)
        if reductions.kind(op) is not reductions.RedOpType.AVG:
            return copy

        def finish() -> None:
            reductions.average(_wrap(row), op, self._size)
            if copy is not None:
                copy()

        return finish

    def start_all_reduce(
        self, tensor: Tensor, op: Any = reductions.ReduceOp.SUM, inputs: Sequence[Tensor] | None = None
    ) -> Work:  # fmt: skip
        """All get the reduction, in place."""
        if tensor.is_sparse:
            return self._allreduce_sparse(tensor, op)
        row = row_of(reductions.prepared(tensor, op))
        operation = reductions.operation(op, row.dtype)
        if self._by_schedule(operation, row):
            request, finish = self._reduced(row, op), written(tensor, row)
        else:
            place = world.world.mpi.IN_PLACE
            request = self.communicator.Iallreduce(place, message(row), operation)
            finish = self._finish(op, tensor, row)
        return self._work("all_reduce", request, [row], finish, [tensor], inputs=inputs)

    def _allreduce_sparse(self, tensor: Tensor, op: Any) -> Work:
        from rushlight.distributed.sparse import sparse_sum

        if reductions.kind(op) is not reductions.RedOpType.SUM:
            raise RuntimeError(
                "unsupported reduction operation (allreduce of sparse tensors only works with ReduceOp.SUM)"
            )
        tensor.copy_(sparse_sum(tensor, self))
        return self._work("all_reduce", Ready(), [], None, [tensor])

    def start_all_reduce_coalesced(
        self, tensors: Sequence[Tensor], op: Any = reductions.ReduceOp.SUM
    ) -> Work:
        """As `allreduce` of several tensors of one dtype, in one row; a tensor may be there twice."""
        flat = _wrap(np.concatenate([row_of(each).reshape(-1) for each in tensors]))
        work = self.start_all_reduce(flat, op, tensors)
        work.then(distributed(flat._array, tensors))
        work._result = list(tensors)
        return work

    def rows_written(self, barrier: Any, tensor: Tensor) -> Work:
        """The barrier after which all have written their rows of a reduction: Note [Rows in shared memory]."""
        return self._work("all_reduce", barrier, [], None, [tensor])

    def _reduced(self, row: np.ndarray, op: Any) -> schedules.Schedule:
        """A schedule that gives all the reduction of a row, in place."""
        flat = real(_wrap(row.reshape(-1))).reshape(-1)
        return schedules.Schedule(
            schedules.reduce_row(self._wire(), flat, self._combination(op, flat.dtype))
        )

    def start_reduce(self, tensor: Tensor, dst: int, op: Any = reductions.ReduceOp.SUM) -> Work:
        """The process `dst` gets the reduction, in place."""
        self._checked("reduce", dst)
        source = row_of(reductions.prepared(tensor, op))
        operation = reductions.operation(op, source.dtype)
        if self._by_schedule(operation, source):
            target = source.copy()
            request, finish = self._reduced(target, op), written(tensor, target)
        else:
            target = np.empty_like(source)
            request = self.communicator.Ireduce(message(source), message(target), operation, dst)
            finish = self._finish(op, tensor, target)
        finish = finish if self._rank == dst else None
        return self._work("reduce", request, [source, target], finish, [tensor])

    def start_reduce_scatter(
        self, output: Tensor, inputs: Sequence[Tensor], op: Any = reductions.ReduceOp.SUM
    ) -> Work:
        """Each process gets the reduction of what all have for it."""
        source = joined([reductions.prepared(tensor, op) for tensor in inputs])
        row = row_of(output)
        operation = reductions.operation(op, row.dtype)
        if self._by_schedule(operation, source):
            pieces = real(_wrap(source)).reshape(-1).chunk(self._size)
            target = real(_wrap(row.reshape(-1))).reshape(-1)
            combine = self._combination(op, target.dtype)
            request = schedules.Schedule(
                schedules.reduce_scatter(self._wire(), pieces, target, combine)
            )
            finish = written(output, row)
        else:
            request = self.communicator.Ireduce_scatter_block(
                each(source, row), message(row), operation
            )
            finish = self._finish(op, output, row)
        return self._work("reduce_scatter", request, [source, row], finish, [output], inputs=inputs)

    # -- data that moves -------------------------------------------------------------------------

    def start_broadcast(self, tensor: Tensor, src: int) -> Work:
        """All get what the process `src` has, in place."""
        self._checked("broadcast", src)
        row = row_of(tensor)
        request = self.communicator.Ibcast(message(row), src)
        finish = written(tensor, row) if self._rank != src else None
        return self._work("broadcast", request, [row], finish, [tensor])

    def start_all_gather(self, outputs: Sequence[Tensor], tensor: Tensor) -> Work:
        """All get what each has; `outputs` has a tensor for each process, or is one for all."""
        source = row_of(tensor)
        if isinstance(outputs, Tensor):
            target, result = row_of(outputs), [outputs]
            source, finish = apart(source, target), written(outputs, target)
        else:
            target, result = empty_row(outputs), list(outputs)
            finish = distributed(target, outputs)
        request = self.communicator.Iallgather(message(source), each(target, source))
        return self._work("all_gather", request, [source, target], finish, result, inputs=[tensor])

    def start_all_gather_coalesced(
        self, outputs: Sequence[Sequence[Tensor]], tensors: Sequence[Tensor]
    ) -> Work:
        """As `all_gather` of several tensors, in one message; `outputs[rank][k]` gets tensor `k` of a process."""
        every = [output for row in outputs for output in row]
        source = np.concatenate([row_of(t).reshape(-1).view(np.uint8) for t in tensors])
        target = np.empty(source.size * self._size, np.uint8)
        request = self.communicator.Iallgather(message(source), each(target, source))

        def finish() -> None:
            start = 0
            for array in (output._array for output in every):
                part = target[start : start + array.nbytes]
                np.copyto(array, part.view(array.dtype).reshape(array.shape))
                start += array.nbytes

        return self._work("all_gather", request, [source, target], finish, every, inputs=tensors)

    def start_gather(self, outputs: Sequence[Tensor] | None, tensor: Tensor, dst: int) -> Work:
        """The process `dst` gets what each has."""
        self._checked("gather", dst)
        source, target, place, finish = row_of(tensor), None, None, None
        if self._rank == dst:
            target = empty_row(outputs)
            place, finish = each(target, source), distributed(target, outputs)
        request = self.communicator.Igather(message(source), place, dst)
        rows = [source] if target is None else [source, target]
        peers = None if self._rank == dst else [dst]
        return self._work(
            "gather", request, rows, finish, list(outputs or ()), peers, inputs=[tensor]
        )

    def start_scatter(self, output: Tensor, inputs: Sequence[Tensor] | None, src: int) -> Work:
        """Each process gets what `src` has for it."""
        self._checked("scatter", src)
        target = row_of(output)
        source = apart(joined(inputs), target) if self._rank == src else None
        place = None if source is None else each(source, target)
        request = self.communicator.Iscatter(place, message(target), src)
        rows = [target] if source is None else [source, target]
        return self._work(
            "scatter", request, rows, written(output, target), [output], inputs=inputs
        )

    def start_all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Work:
        """Each process gets from each what that has for it."""
        source, target = joined(inputs), empty_row(outputs)
        request = self.communicator.Ialltoallv(
            parts(source, [tensor.numel() for tensor in inputs]),
            parts(target, [tensor.numel() for tensor in outputs]),
        )
        finish = distributed(target, outputs)
        return self._work(
            "all_to_all", request, [source, target], finish, list(outputs), inputs=inputs
        )

    def start_all_to_all_single(
        self, output: Tensor, tensor: Tensor, output_rows: Sequence[int], input_rows: Sequence[int]
    ) -> Work:
        """As `alltoall`, with rows of one tensor."""
        source, target = row_of(tensor), row_of(output)
        source = apart(source, target)
        each_in = source.size // len(source) if source.ndim and len(source) else 1
        each_out = target.size // len(target) if target.ndim and len(target) else 1
        request = self.communicator.Ialltoallv(
            parts(source, [rows * each_in for rows in input_rows]),
            parts(target, [rows * each_out for rows in output_rows]),
        )
        finish = written(output, target)
        return self._work(
            "all_to_all_single", request, [source, target], finish, [output], inputs=[tensor]
        )

    # -- two processes ---------------------------------------------------------------------------

    def start_send(self, tensor: Tensor, dst: int, tag: int = 0) -> Work:
        """Send to one process."""
        source = row_of(tensor)
        request = self.communicator.Isend(message(source), dst, tag)
        return self._work("send", request, [source], None, [tensor], [dst])

    def start_recv(self, tensor: Tensor, src: int | None, tag: int = 0) -> Work:
        """Receive from one process, or from any."""
        mpi = world.world.mpi
        target = row_of(tensor)
        request = self.communicator.Irecv(
            message(target), mpi.ANY_SOURCE if src is None else src, tag
        )
        copy = written(tensor, target)

        def finish() -> None:
            status = request.status
            work._source = status.Get_source()
            count = status.Get_count(reductions.datatype(target.dtype))
            if count != message(target)[1]:
                raise RuntimeError(
                    f"received {count} elements of {tensor.dtype} from rank {work._source}, expected {target.size}"
                )
            if copy is not None:
                copy()

        request = Received(request, mpi.Status())
        work = self._work(
            "recv", request, [target], finish, [tensor], None if src is None else [src]
        )
        return work

    def start_barrier(self, timeout: timedelta | None = None) -> Work:
        """All come to it before any leaves it, and the collectives before it end before it does."""
        request = Several(started_before(self), self.communicator.Ibarrier())
        return self._work("barrier", request, [], None, [], timeout=timeout)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """A barrier through the store; rank 0 says who did not come."""
        self._number += 1
        key, limit = f"monitored/{self._number}", self.timeout if timeout is None else timeout
        if not isinstance(limit, timedelta):
            limit = timedelta(seconds=limit)
        self.store.set(f"{key}/{self._rank}", "")
        if self._rank == 0:
            missing = self._missing(key, limit, wait_all_ranks)
            self.store.set(f"{key}/done", "failed" if missing else "")
            if missing:
                raise RuntimeError(
                    f"[Rank 0]: {missing} in {round(1000 * limit.total_seconds())} ms"
                )
            return
        try:
            self.store.wait([f"{key}/done"], 2 * limit)
            failed = self.store.get(f"{key}/done") != b""
        except RuntimeError:
            failed = True
        if failed:
            raise RuntimeError(
                f"Rank {self._rank} successfully reached monitoredBarrier, but received errors while waiting for "
                "send/recv from rank 0. Please check rank 0 logs for faulty rank."
            )

    def _missing(self, key: str, limit: timedelta, every: bool) -> str:
        """Who does not come to a monitored barrier, in words: the first one, or all."""
        if limit <= timedelta():
            return "Rank 0 timed out in monitoredBarrier"
        missing: list[int] = []
        end = time.monotonic() + limit.total_seconds()
        for rank in range(1, self._size):
            left = timedelta(seconds=max(end - time.monotonic(), 0.001))
            try:
                self.store.wait([f"{key}/{rank}"], left)
            except RuntimeError:
                missing.append(rank)
                if not every:
                    break
        who = ", ".join(str(self.ranks[rank]) for rank in missing)
        return who and f"Rank{'s' if every else ''} {who} failed to pass monitoredBarrier"
