"""Backends that programs register: their groups, called as PyTorch calls them, in the place of those of MPI.

`Backend.register_backend("name", make)`, then `init_process_group("name")` calls `make(store, rank, size, timeout)`. What it
gives derives from `ProcessGroup` and has those collectives that it can carry out; each returns an object with `wait()`.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.calls import options
from rushlight.distributed.options import (
    AllgatherOptions,
    AllreduceCoalescedOptions,
    AllreduceOptions,
    AllToAllOptions,
    BarrierOptions,
    BroadcastOptions,
    GatherOptions,
    ReduceOptions,
    ReduceScatterOptions,
    ScatterOptions,
)
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.store import Store
from rushlight.distributed.work import Work
from rushlight.futures import Future

__all__ = ["ProcessGroup"]


def on_cpu(backend: str) -> str:
    """What a backend is called for tensors of the CPU."""
    pairs = [each.rpartition(":") for each in backend.split(",")]
    return next((name for device, _, name in pairs if device in ("", "cpu")), backend)


class ProcessGroup:
    """Some processes of the job, numbered from 0: what groups of a program's own backend derive from."""

    group_name = group_desc = ""
    bound_device_id = None

    def __init__(self, *args: Any) -> None:  # (rank, size), or (store, rank, size)
        *_, self._rank, self._size = args

    def rank(self) -> int:
        """The number of this process in the group."""
        return self._rank

    def size(self) -> int:
        """How many processes the group has."""
        return self._size

    def getBackendName(self) -> str:
        """The name of the backend."""
        raise NotImplementedError("getBackendName")

    def name(self) -> str:
        """The name of the backend."""
        return self.getBackendName()


class _Work:
    """What a collective of a program's own backend returns; this one is done."""

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done."""
        return True


class _FutureWork(_Work):
    """A call that is done when a future is."""

    def __init__(self, future: Future) -> None:
        self._future = future

    def wait(self, timeout: timedelta | None = None) -> bool:
        """Wait until it is done."""
        self._future.wait()
        return True

    def get_future(self) -> Future:
        """The future."""
        return self._future


def _create_work_from_future(future: Future) -> _Work:
    """What a collective returns whose results a future gets."""
    return _FutureWork(future)


class ExtensionWork:
    """A call of a program's own backend as the request of a `Work`."""

    def __init__(self, work: Any) -> None:
        self.work = work
        try:
            self.future = work.get_future()
        except Exception:  # not all have one
            self.future = None

    def Test(self) -> bool:
        """Whether its future has a value; without a future wait for the call."""
        if self.future is not None and not self.future.done():
            return False
        if self.work is not None:
            self.work.wait(timedelta())
        return True


class ExtensionGroup(ProcessGroup):
    """A group that a program's own backend has made: its names and arguments are PyTorch's, and ours are turned into them."""

    broken = None

    def __init__(
        self, made: Any, ranks: Sequence[int], store: Store, timeout: timedelta, backend: str, name: str, desc: str
    ) -> None:  # fmt: skip
        super().__init__(made.rank(), made.size())
        self.made, self.ranks, self.store = made, list(ranks), store
        self.timeout, self.backend, self.engine = timeout, backend, on_cpu(backend)
        self.group_name, self.group_desc = name, desc
        self._number = 0

    def __getattr__(self, name: str) -> Any:
        if name == "made":
            raise AttributeError(name)
        return getattr(self.made, name)

    def name(self) -> str:
        """The name of the backend."""
        return self.backend

    def gone(self) -> dict[int, int]:
        """Nobody: what happens to processes is the backend's business."""
        return {}

    def _work(self, name: str, theirs: Any, result: list) -> Work:
        self._number += 1
        return Work(self, name, self._number, ExtensionWork(theirs), None, result)

    def _either(self, name: str, older: str) -> Any:
        """A method of the backend, which may have it under the name of older versions."""
        found = getattr(self.made, name, None)
        return getattr(self.made, older) if found is None else found

    def _options(self, kind: type, **fields: Any) -> Any:
        return options(kind, None, self.timeout, asyncOp=False, **fields)

    def start_all_reduce(self, tensor: Any, op: Any = ReduceOp.SUM) -> Work:
        """All get the reduction, in place."""
        rows = [tensor] if isinstance(tensor, Tensor) else list(tensor)
        return self._work(
            "all_reduce",
            self.made.allreduce(rows, self._options(AllreduceOptions, reduceOp=op)),
            rows,
        )

    def start_all_reduce_coalesced(self, tensors: Sequence[Tensor], op: Any = ReduceOp.SUM) -> Work:
        """As `allreduce` of several tensors."""
        theirs = self.made.allreduce_coalesced(
            list(tensors), self._options(AllreduceCoalescedOptions, reduceOp=op)
        )
        return self._work("all_reduce", theirs, list(tensors))

    def start_reduce(self, tensor: Tensor, dst: int, op: Any = ReduceOp.SUM) -> Work:
        """The process `dst` gets the reduction, in place."""
        chosen = self._options(ReduceOptions, reduceOp=op, rootRank=dst, rootTensor=0)
        return self._work("reduce", self.made.reduce([tensor], chosen), [tensor])

    def start_reduce_scatter(
        self, output: Tensor, inputs: Sequence[Tensor], op: Any = ReduceOp.SUM
    ) -> Work:
        """Each process gets the reduction of what all have for it."""
        chosen = self._options(ReduceScatterOptions, reduceOp=op)
        if len(inputs) == 1 and inputs[0].numel() != output.numel():
            theirs = self._either("reduce_scatter_single", "_reduce_scatter_base")(
                output, inputs[0], chosen
            )
        else:
            theirs = self.made.reduce_scatter([output], [list(inputs)], chosen)
        return self._work("reduce_scatter", theirs, [output])

    def start_broadcast(self, tensor: Tensor, src: int) -> Work:
        """All get what the process `src` has, in place."""
        chosen = self._options(BroadcastOptions, rootRank=src, rootTensor=0)
        return self._work("broadcast", self.made.broadcast([tensor], chosen), [tensor])

    def start_all_gather(self, outputs: Any, tensor: Tensor) -> Work:
        """All get what each has; `outputs` has a tensor for each process, or is one for all."""
        if isinstance(outputs, Tensor):
            theirs = self._either("all_gather_single", "_allgather_base")(
                outputs, tensor, self._options(AllgatherOptions)
            )
            return self._work("all_gather", theirs, [outputs])
        theirs = self.made.allgather([list(outputs)], [tensor], self._options(AllgatherOptions))
        return self._work("all_gather", theirs, list(outputs))

    def allgather_coalesced(
        self,
        output_lists: Sequence[Sequence[Tensor]],
        input_list: Sequence[Tensor],
        opts: Any = None,
    ) -> Work:
        """Several gathers at once."""
        lists, inputs = [list(each) for each in output_lists], list(input_list)
        theirs = self.made.allgather_coalesced(lists, inputs, self._options(AllgatherOptions))
        return self._work("all_gather_coalesced", theirs, [t for each in lists for t in each])

    def start_gather(self, outputs: Sequence[Tensor] | None, tensor: Tensor, dst: int) -> Work:
        """The process `dst` gets what each has."""
        lists = [list(outputs)] if outputs else []
        theirs = self.made.gather(lists, [tensor], self._options(GatherOptions, rootRank=dst))
        return self._work("gather", theirs, list(outputs or ()))

    def start_scatter(self, output: Tensor, inputs: Sequence[Tensor] | None, src: int) -> Work:
        """Each process gets what `src` has for it."""
        lists = [list(inputs)] if inputs else []
        theirs = self.made.scatter([output], lists, self._options(ScatterOptions, rootRank=src))
        return self._work("scatter", theirs, [output])

    def start_all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor]) -> Work:
        """Each process gets from each what that has for it."""
        theirs = self.made.alltoall(list(outputs), list(inputs), self._options(AllToAllOptions))
        return self._work("all_to_all", theirs, list(outputs))

    def start_all_to_all_single(
        self, output: Tensor, tensor: Tensor, output_rows: Sequence[int], input_rows: Sequence[int]
    ) -> Work:
        """As `alltoall`, with rows of one tensor."""
        theirs = self._either("all_to_all_single", "alltoall_base")(
            output, tensor, list(output_rows), list(input_rows), self._options(AllToAllOptions)
        )
        return self._work("all_to_all_single", theirs, [output])

    def start_send(self, tensor: Tensor, dst: int, tag: int = 0) -> Work:
        """Send to one process."""
        return self._work("send", self.made.send([tensor], dst, tag), [tensor])

    def start_recv(self, tensor: Tensor, src: int | None, tag: int = 0) -> Work:
        """Receive from one process, or from any."""
        if src is None:
            theirs = self.made.recv_anysource([tensor], tag)
        else:
            theirs = self.made.recv([tensor], src, tag)
        work = self._work("recv", theirs, [tensor])
        work._source = src
        return work

    def start_barrier(self, timeout: timedelta | None = None) -> Work:
        """All come to it before any leaves it."""
        return self._work("barrier", self.made.barrier(self._options(BarrierOptions)), [])

    def monitored_barrier(
        self, timeout: timedelta | None = None, wait_all_ranks: bool = False
    ) -> None:
        """ValueError: it is MPI's."""
        raise ValueError("monitored_barrier is only implemented for GLOO backend.")
