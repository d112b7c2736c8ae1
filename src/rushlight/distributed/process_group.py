"""`ProcessGroup`: some processes of the job, and the calls among them. Every method starts one and returns its `Work`.

Tensors go to MPI as memory and a datatype. One that is not contiguous is copied first, and back at the end.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import reductions, world
from rushlight.distributed.store import Store
from rushlight.distributed.tcp_store import GONE
from rushlight.distributed.work import Call, Work

__all__ = ["ProcessGroup"]


def contiguous(tensor: Tensor) -> Tensor:
    """The elements in order: the tensor's own memory, or a copy."""
    if tensor.device.type != "cpu" or tensor.layout is not rushlight.strided:
        raise RuntimeError(
            f"No backend type associated with device type {tensor.device.type} and layout {tensor.layout}: "
            "MPI carries strided tensors on the CPU"
        )
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def real(tensor: Tensor) -> Tensor:
    """Complex numbers as pairs of real ones, on the same memory."""
    return rushlight.view_as_real(tensor) if tensor.is_complex() else tensor


def memory(tensor: Tensor) -> Any:
    """The memory of a contiguous tensor for MPI."""
    size = tensor.numel() * tensor.dtype.itemsize
    return world.world.mpi.memory.fromaddress(tensor.data_ptr(), size)


def message(tensor: Tensor) -> list:
    """A contiguous tensor for MPI: memory, number of elements, datatype."""
    return [memory(tensor), tensor.numel(), reductions.datatype(tensor.dtype)]


def parts(tensor: Tensor, counts: Sequence[int]) -> list:
    """As `message`, with so many elements for each process."""
    starts = [0, *itertools.accumulate(counts)][:-1]
    return [memory(tensor), (list(counts), starts), reductions.datatype(tensor.dtype)]


def written(tensor: Tensor, buffer: Tensor) -> Callable[[], None] | None:
    """What copies the result to a tensor, unless it was written there."""
    if buffer.data_ptr() == tensor.data_ptr() and tensor.is_contiguous():
        return None

    def copy() -> None:
        with rushlight.no_grad():
            tensor.detach().copy_(buffer.view(tensor.shape))

    return copy


def joined(tensors: Sequence[Tensor]) -> Tensor:
    """All elements of several tensors in one row."""
    with rushlight.no_grad():
        rows = [contiguous(each).reshape(-1) for each in tensors]
        return rows[0] if len(rows) == 1 else rushlight.cat(rows)


def distribute(row: Tensor, tensors: Sequence[Tensor]) -> None:
    """The inverse of `joined`."""
    with rushlight.no_grad():
        pieces = row.split([each.numel() for each in tensors])
        for tensor, piece in zip(tensors, pieces):
            tensor.detach().copy_(piece.view(tensor.shape))


def empty_row(tensors: Sequence[Tensor]) -> Tensor:
    """Memory for all elements of several tensors of one dtype."""
    return rushlight.empty(sum(each.numel() for each in tensors), dtype=tensors[0].dtype)


class ProcessGroup:
    """Some processes of the job, numbered from 0."""

    def __init__(
        self, communicator: Any, ranks: Sequence[int], store: Store, timeout: timedelta,
        backend: str, group_name: str, group_desc: str,
    ) -> None:  # fmt: skip
        self.communicator, self.ranks, self.store = communicator, list(ranks), store
        self.timeout, self.backend = timeout, backend
        self.group_name, self.group_desc = group_name, group_desc
        self._rank, self._size = communicator.rank, communicator.size
        self._number = 0
        self.bound_device_id = None

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """How many processes the group has."""
        return self._size

    def name(self) -> str:
        """The name of the backend."""
        return self.backend

    def set_timeout(self, timeout: timedelta) -> None:
        """Let calls take so long from now on."""
        self.timeout = timeout

    def get_group_store(self) -> Store:
        """The store of this group."""
        return self.store

    def gone(self) -> list[str]:
        """The ranks in the job of processes that died."""
        below = getattr(self.store, "_underlying_non_prefix_store", self.store)
        return below.get(GONE).decode().split() if below.check([GONE]) else []

    def _work(
        self, name: str, request: Any, buffers: list, finish: Callable[[], None] | None, result: list,
        peers: Sequence[int] | None = None, timeout: timedelta | None = None,
    ) -> Work:  # fmt: skip
        self._number += 1
        peers = tuple(range(self._size)) if peers is None else tuple(peers)
        size = max((each.numel() * each.dtype.itemsize for each in buffers), default=0)
        call = Call(self, name, peers, self._number)
        return Work(call, [request], finish, result, buffers, size, timeout)

    # -- reductions ------------------------------------------------------------------------------

    def _operation(self, op: Any, buffer: Tensor) -> Any:
        return reductions.operation(reductions.kind(op), buffer.dtype)

    def allreduce(self, tensor: Tensor, op: Any = reductions.ReduceOp.SUM) -> Work:
        """All get the reduction, in place."""
        buffer = contiguous(tensor)
        row = real(buffer)
        with rushlight.no_grad():
            source = reductions.prepared(row, op)
        place = message(source) if source is not row else world.world.mpi.IN_PLACE
        request = self.communicator.Iallreduce(place, message(row), self._operation(op, row))
        copy = written(tensor, buffer)

        def finish() -> None:
            with rushlight.no_grad():
                reductions.average(row, op, self._size)
            if copy is not None:
                copy()

        return self._work("all_reduce", request, [row, source], finish, [tensor])

    def reduce(self, tensor: Tensor, dst: int, op: Any = reductions.ReduceOp.SUM) -> Work:
        """The process `dst` gets the reduction, in place."""
        buffer = contiguous(tensor)
        row = real(buffer)
        with rushlight.no_grad():
            source = reductions.prepared(row, op)
            target = rushlight.empty_like(row)
        request = self.communicator.Ireduce(
            message(source), message(target), self._operation(op, row), dst
        )

        def finish() -> None:
            if self._rank == dst:
                with rushlight.no_grad():
                    reductions.average(target, op, self._size)
                    real(tensor.detach()).copy_(target)

        return self._work("reduce", request, [source, target], finish, [tensor])

    def reduce_scatter(
        self, output: Tensor, inputs: Sequence[Tensor], op: Any = reductions.ReduceOp.SUM
    ) -> Work:
        """Each process gets the reduction of what all have for it."""
        with rushlight.no_grad():
            buffer = contiguous(output)
            source = reductions.prepared(real(joined(inputs)), op)
        row = real(buffer)
        part = [memory(source), row.numel(), reductions.datatype(row.dtype)]
        request = self.communicator.Ireduce_scatter_block(
            part, message(row), self._operation(op, row)
        )
        copy = written(output, buffer)

        def finish() -> None:
            with rushlight.no_grad():
                reductions.average(row, op, self._size)
            if copy is not None:
                copy()

        return self._work("reduce_scatter", request, [source, row], finish, [output])

    # -- data that moves -------------------------------------------------------------------------

    def broadcast(self, tensor: Tensor, src: int) -> Work:
        """All get what the process `src` has, in place."""
        if not 0 <= src < self._size:
            raise RuntimeError(f"ProcessGroup::broadcast: invalid root rank: {src}")
        buffer = contiguous(tensor)
        request = self.communicator.Ibcast(message(buffer), src)
        finish = written(tensor, buffer) if self._rank != src else None
        return self._work("broadcast", request, [buffer], finish, [tensor])

    def allgather(self, outputs: Sequence[Tensor], tensor: Tensor) -> Work:
        """All get what each has; `outputs` has a tensor for each process, or is one for all."""
        source = contiguous(tensor)
        if isinstance(outputs, Tensor):
            target = contiguous(outputs)
            finish, result = written(outputs, target), [outputs]
        else:
            target, result = empty_row(outputs), list(outputs)
            finish = lambda: distribute(target, outputs)
        request = self.communicator.Iallgather(
            message(source),
            [memory(target), source.numel(), reductions.datatype(source.dtype)],
        )
        return self._work("all_gather", request, [source, target], finish, result)

    def gather(self, outputs: Sequence[Tensor] | None, tensor: Tensor, dst: int) -> Work:
        """The process `dst` gets what each has."""
        source, target, finish = contiguous(tensor), None, None
        if self._rank == dst:
            target = empty_row(outputs)
            finish = lambda: distribute(target, outputs)
        place = None
        if target is not None:
            place = [memory(target), source.numel(), reductions.datatype(source.dtype)]
        request = self.communicator.Igather(message(source), place, dst)
        buffers = [source] if target is None else [source, target]
        peers = None if self._rank == dst else [dst]
        return self._work("gather", request, buffers, finish, list(outputs or ()), peers)

    def scatter(self, output: Tensor, inputs: Sequence[Tensor] | None, src: int) -> Work:
        """Each process gets what `src` has for it."""
        target = contiguous(output)
        source = joined(inputs) if self._rank == src else None
        place = None
        if source is not None:
            place = [memory(source), target.numel(), reductions.datatype(target.dtype)]
        request = self.communicator.Iscatter(place, message(target), src)
        buffers = [target] if source is None else [source, target]
        return self._work("scatter", request, buffers, written(output, target), [output])

    def alltoall(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Work:
        """Each process gets from each what that has for it."""
        source, target = joined(inputs), empty_row(outputs)
        request = self.communicator.Ialltoallv(
            parts(source, [each.numel() for each in inputs]),
            parts(target, [each.numel() for each in outputs]),
        )
        finish = lambda: distribute(target, outputs)
        return self._work("all_to_all", request, [source, target], finish, list(outputs))

    def alltoall_single(
        self, output: Tensor, tensor: Tensor, output_rows: Sequence[int], input_rows: Sequence[int]
    ) -> Work:
        """As `alltoall`, with rows of one tensor."""
        source, target = contiguous(tensor), contiguous(output)
        each_in = source.numel() // len(source) if source.dim() and len(source) else 1
        each_out = target.numel() // len(target) if target.dim() and len(target) else 1
        request = self.communicator.Ialltoallv(
            parts(source, [rows * each_in for rows in input_rows]),
            parts(target, [rows * each_out for rows in output_rows]),
        )
        finish = written(output, target)
        return self._work("all_to_all_single", request, [source, target], finish, [output])

    # -- two processes ---------------------------------------------------------------------------

    def send(self, tensor: Tensor, dst: int, tag: int = 0) -> Work:
        """Send to one process."""
        source = contiguous(tensor)
        request = self.communicator.Isend(message(source), dst, tag)
        return self._work("send", request, [source], None, [tensor], [dst])

    def recv(self, tensor: Tensor, src: int | None, tag: int = 0) -> Work:
        """Receive from one process, or from any."""
        mpi = world.world.mpi
        target = contiguous(tensor)
        request = self.communicator.Irecv(
            message(target), mpi.ANY_SOURCE if src is None else src, tag
        )
        copy, status = written(tensor, target), mpi.Status()

        def finish() -> None:
            work._source = status.Get_source()
            count = status.Get_count(reductions.datatype(target.dtype))
            if count != target.numel():
                raise RuntimeError(
                    f"received {count} elements of {target.dtype} from rank {work._source}, expected {target.numel()}"
                )
            if copy is not None:
                copy()

        peers = None if src is None else [src]
        work = self._work("recv", request, [target], finish, [tensor], peers)
        work._statuses = [status]
        return work

    def barrier(self, timeout: timedelta | None = None) -> Work:
        """All come to it before any leaves it."""
        return self._work("barrier", self.communicator.Ibarrier(), [], None, [], timeout=timeout)

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """A barrier through the store; rank 0 says who did not come."""
        self._number += 1
        key, limit = f"monitored/{self._number}", timeout or self.timeout
        milliseconds = round(1000 * limit.total_seconds())
        self.store.set(f"{key}/{self._rank}", "")
        if self._rank == 0:
            missing = []
            for rank in range(1, self._size):
                try:
                    self.store.wait(
                        [f"{key}/{rank}"], timedelta(milliseconds=1) if missing else limit
                    )
                except RuntimeError:
                    missing.append(rank)
                    if not wait_all_ranks:
                        break
            if missing:
                self.store.set(f"{key}/done", "failed")
                who = ", ".join(str(self.ranks[rank]) for rank in missing)
                raise RuntimeError(
                    f"[Rank 0]: Rank{'s' if len(missing) > 1 else ''} {who} failed to pass monitoredBarrier in "
                    f"{milliseconds} ms"
                )
            self.store.set(f"{key}/done", "")
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
