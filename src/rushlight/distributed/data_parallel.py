"""`DistributedDataParallel`: every process runs the module on its own batch, and gradients are averaged during backward.

Note [Buckets]
Gradients become ready from the last layers to the first. Parameters are put into buckets in that order; when all gradients
of a bucket are there, its reduction starts and goes on (work.py) while backward computes the next ones. All processes start
buckets in the same order. With the last gradient the process waits for all, and the averages become the gradients.
On one machine the rows of buckets are in shared memory, and the reduction is the sum that writes the gradients: Note
[Rows in shared memory].
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.dispatch.results import bump
from rushlight.distributed import collectives, objects
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.distributed.groups import _get_default_group
from rushlight.distributed.process_group import MPIProcessGroup
from rushlight.distributed.reductions import ReduceOp
from rushlight.distributed.shared_rows import shared_rows
from rushlight.distributed.sparse import sparse_sum
from rushlight.distributed.work import Work, progress
from rushlight.futures import Future
from rushlight.nn.module import Module
from rushlight.nn.sparse import Embedding, EmbeddingBag

__all__ = ["DistributedDataParallel", "GradBucket"]

MEBIBYTE = 1 << 20
LINE = 64  # bytes; rows begin at lines of the cache


class GradBucket:
    """Some gradients in one row, as a communication hook gets them."""

    def __init__(self, index: int, parameters: list[Tensor], last: bool, sparse: bool) -> None:
        self._index, self._parameters, self._last = index, parameters, last
        self.sparse = sparse  # it has one gradient, a sparse tensor, which is its row
        count = 0 if sparse else sum(p.numel() for p in parameters)
        self._buffer = rushlight.zeros(count, dtype=parameters[0].dtype)
        self._gradients = self.views(self._buffer)
        self.shared: list[list[Tensor]] | None = None  # the gradients of each process
        self.missing = 0  # how many gradients are not there yet
        self.reduction: Work | Future | None = None

    def index(self) -> int:
        """The number of the bucket; the first holds the last layers."""
        return self._index

    def buffer(self) -> Tensor:
        """The gradients in one row."""
        return self._buffer

    def set_buffer(self, buffer: Tensor) -> None:
        """Take another row in its place."""
        self._buffer = buffer
        self._gradients = self.views(buffer)

    def share(self, rows: list[Tensor], rank: int) -> None:
        """Take the rows of all processes in shared memory; its own is that of `rank`."""
        self.set_buffer(rows[rank])
        self.shared = [self.views(row) for row in rows]

    def parameters(self) -> list[Tensor]:
        """The parameters whose gradients it holds."""
        return list(self._parameters)

    def gradients(self) -> list[Tensor]:
        """The gradients, as views of the row."""
        return list(self._gradients)

    def views(self, row: Tensor) -> list[Tensor]:
        """A row, cut and shaped as the parameters."""
        if self.sparse:
            return [row]
        pieces = row.split([p.numel() for p in self._parameters])
        return [piece.view(p.shape) for piece, p in zip(pieces, self._parameters)]

    def is_last(self) -> bool:
        """Whether it is the last one that is reduced."""
        return self._last


def buckets_of(
    parameters: Sequence[Tensor], sparse: set[int], first: float, others: float
) -> list[GradBucket]:
    """Parameters in buckets of one dtype and at most so many bytes, the last ones first; alone those of sparse gradients."""
    rows: list[list[Tensor]] = []
    open_: dict[Any, list[Tensor]] = {}
    for each in reversed(parameters):
        if id(each) in sparse:
            rows.append([each])
            continue
        row = open_.setdefault(each.dtype, [])
        if not row:
            rows.append(row)
        row.append(each)
        limit = first if row is rows[0] else others
        if sum(p.numel() * p.dtype.itemsize for p in row) >= limit:
            del open_[each.dtype]
    return [
        GradBucket(k, row, k == len(rows) - 1, id(row[0]) in sparse) for k, row in enumerate(rows)
    ]


class Reducer:
    """Averages the gradients of some parameters over a group, once a backward."""

    def __init__(
        self, owner: DistributedDataParallel, parameters: list[Tensor], cap: float
    ) -> None:
        self.owner, self.group = owner, owner.process_group
        sparse = {
            id(m.weight)
            for m in owner.module.modules()
            if isinstance(m, Embedding | EmbeddingBag) and m.sparse
        }
        self.buckets = buckets_of(parameters, sparse, min(cap, 1) * MEBIBYTE, cap * MEBIBYTE)
        self.hook: tuple[Any, Callable] | None = None
        self.active, self.begun, self.next = False, False, 0
        self.forwards = self.ahead = (
            0  # of a module that trains, since the last reduction; of those before it, how many had no backward
        )
        self.read: Work | None = None  # is done when all have read what is in shared memory
        if not owner.gradient_as_bucket_view and isinstance(
            self.group, MPIProcessGroup
        ):  # those stay where they are, and are reduced in place
            share(self.buckets, self.group)
        self.divisor = self.group.size()
        self.used = rushlight.zeros(len(parameters), dtype=rushlight.int32)
        self.place: dict[int, tuple[GradBucket, int, int]] = {}
        number = 0
        for bucket in self.buckets:
            for k, parameter in enumerate(bucket.parameters()):
                self.place[id(parameter)] = (bucket, k, number)
                number += 1
                parameter.register_post_accumulate_grad_hook(self.ready)

    def prepare(self, unused: Sequence[Tensor]) -> None:
        """Before a backward: nothing is there yet but what the outputs do not depend on."""
        if self.begun:
            raise RuntimeError(
                "Expected to have finished reduction in the prior iteration before starting a new one. This error "
                "indicates that your module has parameters that were not used in producing loss. You can enable "
                "unused parameter detection by passing the keyword argument `find_unused_parameters=True` to "
                "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` function outputs "
                "participate in calculating loss."
            )
        self.wait_for_readers()
        self.active, self.next = True, 0
        self.forwards, self.ahead = self.forwards + self.owner.training, 0
        if self.owner.find_unused_parameters:
            self.used.fill_(1)
        for bucket in self.buckets:
            bucket.missing, bucket.reduction = len(bucket._parameters), None
        for parameter in unused:
            bucket, k, number = self.place[id(parameter)]
            self.used[number] = 0
            if bucket.sparse:
                bucket.set_buffer(parameter.new_zeros(parameter.shape).to_sparse())
            elif parameter.grad is None:
                bucket._gradients[k].zero_()
            else:
                self.put(parameter.grad, bucket._gradients[k])
            bucket.missing -= 1

    def put(self, gradient: Tensor, place: Tensor) -> None:
        """Write this process's share of the average into its bucket; all of a gradient for a communication hook."""
        if self.hook is None:
            with np.errstate(all="ignore"):
                np.multiply(gradient._array, 1 / self.divisor, out=place._array, casting="unsafe")
        elif gradient is not place:
            place.copy_(gradient.detach())

    def wait_for_readers(self) -> None:
        """Wait until the buckets may be written."""
        if self.read is not None:
            self.read.wait()
            self.read = None

    def ready(self, parameter: Tensor) -> None:
        """A gradient is there."""
        if not self.active:
            if self.ahead and self.owner.require_backward_grad_sync:
                raise RuntimeError(
                    "Several forwards, and then a backward for each: only the gradients of the first backward are "
                    "reduced. Call backward once, on the sum of the losses, or after each forward."
                )
            return
        self.begun = True
        bucket, k, _ = self.place[id(parameter)]
        if bucket.missing == 0:
            raise RuntimeError(
                "Expected to mark a variable ready only once. This error is caused by a parameter that is used in "
                "several backwards of one forward, or outside of `forward`."
            )
        if bucket.sparse:
            bucket.set_buffer(parameter.grad)
        else:
            self.put(parameter.grad, bucket._gradients[k])
        if self.owner.gradient_as_bucket_view:
            parameter.grad = bucket._gradients[k]
        bucket.missing -= 1
        if bucket.missing:
            return
        with rushlight.no_grad():
            while self.next < len(self.buckets) and self.buckets[self.next].missing == 0:
                self.start(self.buckets[self.next])
                self.next += 1
            if self.next == len(self.buckets):
                self.finish()

    def start(self, bucket: GradBucket) -> None:
        """Start to reduce a bucket."""
        if self.hook is not None:
            state, hook = self.hook
            bucket.reduction = hook(state, bucket)
            return
        if bucket.sparse:
            return  # it is reduced at the end
        if bucket.shared is not None:
            bucket.reduction = self.group.rows_written(bucket.buffer())
            return
        work = self.group.allreduce(bucket.buffer())
        bucket.reduction = work if bucket.is_last() else progress(work)  # the last one is awaited

    def finish(self) -> None:
        """Wait for all buckets; the averages become the gradients."""
        everywhere = None
        if self.owner.find_unused_parameters:
            everywhere = self.used.clone()
            collectives.all_reduce(everywhere, group=self.group)
        for bucket in self.buckets:
            averages = self.averages(bucket)
            for k, parameter in enumerate(bucket._parameters):
                if everywhere is not None and not everywhere[self.place[id(parameter)][2]]:
                    continue  # no process used it
                if bucket.sparse:
                    parameter.grad = averages[k]
                    continue
                if parameter.grad is None:
                    parameter.grad = rushlight.empty_like(parameter)
                if bucket.shared is not None and self.hook is None:
                    add_rows([row[k] for row in bucket.shared], parameter.grad)
                elif parameter.grad is not averages[k]:
                    parameter.grad.copy_(averages[k])
        if self.hook is None and any(bucket.shared is not None for bucket in self.buckets):
            self.read = self.group.barrier()
        self.active = self.begun = False
        self.forwards, self.ahead = 0, max(self.forwards - 1, 0)

    def shadow(self) -> None:
        """Take part in the reductions of a backward, with zeros."""
        self.wait_for_readers()
        self.used.zero_()
        with rushlight.no_grad():
            for bucket in self.buckets:
                bucket.buffer().zero_()
                self.start(bucket)
            self.finish()

    def averages(self, bucket: GradBucket) -> list[Tensor]:
        """What the reduction of a bucket gave, for each parameter."""
        reduction = bucket.reduction
        if bucket.sparse and reduction is None:
            return [sparse_sum(bucket.buffer(), self.group) / self.divisor]
        if isinstance(reduction, Work):
            reduction.wait()
            return bucket._gradients
        if not isinstance(reduction, Future):
            raise RuntimeError(
                f"callback must be a torch.futures.Future object, but got {type(reduction)}"
            )
        found = reduction.wait()
        return bucket.views(found[0] if isinstance(found, list | tuple) else found)


def share(buckets: Sequence[GradBucket], group: Any) -> None:
    """Put the rows of buckets into memory that all processes see, if they are on one machine."""
    dense = [bucket for bucket in buckets if not bucket.sparse]
    ends = [*itertools.accumulate(-(-b.buffer().nbytes // LINE) * LINE for b in dense)]
    rows = shared_rows(ends[-1], group) if dense else None
    if rows is not None:
        for bucket, start in zip(dense, [0, *ends]):
            end, dtype = start + bucket.buffer().nbytes, bucket.buffer().dtype
            bucket.share([row[start:end].view(dtype) for row in rows], group.rank())


def add_rows(rows: Sequence[Tensor], target: Tensor) -> None:
    """Write the sum of rows, in their order."""
    array = target._array
    with np.errstate(all="ignore"):
        np.add(rows[0]._array, rows[1]._array, out=array, casting="unsafe")
        for row in rows[2:]:
            np.add(array, row._array, out=array, casting="unsafe")
    bump(target)


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _tensors(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)


def _leaves(outputs: Any) -> set[int]:
    """The ids of the leaves that outputs depend on."""
    stack = [t.grad_fn for t in _tensors(outputs) if t.grad_fn is not None]
    seen, found = set(), {id(t) for t in _tensors(outputs) if t.is_leaf}
    while stack:
        node = stack.pop()
        if node in seen:
            continue
        seen.add(node)
        if (variable := getattr(node, "variable", None)) is not None:
            found.add(id(variable))
        stack += [following for following, _ in node.next_functions if following is not None]
    return found


class DistributedDataParallel(Module, Joinable):
    """Runs `module` on each process's own batch; gradients become their averages: Note [Buckets].

    The parameters and buffers of the first process are given to all at the start, its buffers before each forward.
    """

    def __init__(
        self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: Any = None, bucket_cap_mb: float | None = None,
        find_unused_parameters: bool = False, check_reduction: bool = False, gradient_as_bucket_view: bool = False,
        static_graph: bool = False, delay_all_reduce_named_params: Any = None, param_to_hook_all_reduce: Any = None,
        mixed_precision: Any = None, device_mesh: Any = None, skip_all_reduce_unused_params: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if process_group is not None and device_mesh is not None:
            raise RuntimeError("Cannot specify both process_group and device_mesh arguments.")
        if mixed_precision is not None:
            raise NotImplementedError("DistributedDataParallel(mixed_precision=...): use autocast")
        if device_mesh is not None:
            if device_mesh.ndim != 1:
                raise RuntimeError(f"Only 1D device mesh is supported, but got {device_mesh}.")
            process_group = device_mesh.get_group(0)
        self.process_group = _get_default_group() if process_group is None else process_group
        if device_ids or output_device is not None:
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/"
                f"multiple-device GPU modules or CPU modules, but got device_ids {device_ids}, output_device "
                f"{output_device}, and module parameters on the CPU."
            )
        self.module, self.dim, self.broadcast_buffers = module, dim, broadcast_buffers
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.static_graph, self.gradient_as_bucket_view = static_graph, gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = dict(module.named_parameters())
        parameters = [p for name, p in named.items() if p.requires_grad and name not in ignored]
        if not parameters:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self._synchronized = [b for name, b in module.named_buffers() if name not in ignored]
        if init_sync:
            _check_shapes(parameters, self.process_group)
            kept = [p for name, p in named.items() if name not in ignored]
            _broadcast([*kept, *self._synchronized], self.process_group)
        if any(hasattr(p, "_in_backward_optimizers") for p in parameters):
            raise NotImplementedError(
                "DistributedDataParallel: optimizers that step in backward would step before the gradients are averaged"
            )
        self.device_ids = self.output_device = self.mixed_precision = None  # as on any CPU
        self.device, self.device_type, self.is_multi_device_module = (
            parameters[0].device,
            "cpu",
            False,
        )
        self.parameters_to_ignore, self.device_mesh = ignored, device_mesh
        cap = 25 if bucket_cap_mb is None else bucket_cap_mb
        self.bucket_bytes_cap = int(cap * MEBIBYTE)
        self.reducer = Reducer(self, parameters, cap)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's own forward, with the buffers of the first process."""
        synchronized = rushlight.is_grad_enabled() and self.require_backward_grad_sync
        if self._joined is not None:
            Join.notify_join_context(self)
            self._agree(synchronized)
        if self.require_forward_param_sync if self._joined is None else synchronized:
            self._broadcast_buffers()
        outputs = self.module(*inputs, **kwargs)
        self.require_forward_param_sync = synchronized  # before the next forward
        if synchronized:
            unused: list[Tensor] = []
            if self.find_unused_parameters:
                found = _leaves(outputs)
                every = [p for bucket in self.reducer.buckets for p in bucket.parameters()]
                unused = [p for p in every if id(p) not in found]
            self.reducer.prepare(unused)
        return outputs

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Within the block gradients are added up without those of other processes."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def _agree(self, synchronizes: bool) -> bool:
        """Whether processes with inputs reduce gradients in this step: all ask in each step of a `Join`."""
        asked = rushlight.tensor([int(synchronizes)])
        collectives.all_reduce(asked, group=self.process_group)
        if not self._joined.options.get("divide_by_initial_world_size", True):  # type: ignore[union-attr]
            self.reducer.divisor = max(self._joined.active, 1)  # type: ignore[union-attr]
        return bool(asked)

    def _broadcast_buffers(self) -> None:
        """Give all processes the buffers of the first one, within `Join` of the last one with inputs."""
        if self.broadcast_buffers and self._synchronized:
            context = self._joined
            source = 0 if context is None else _last(self.process_group, context.has_inputs)
            _broadcast(self._synchronized, self.process_group, source)

    def join(
        self, divide_by_initial_world_size: bool = True, enable: bool = True, throw_on_early_termination: bool = False
    ) -> Join:  # fmt: skip
        """A context for processes with different numbers of inputs: see `Join`."""
        return Join(
            [self], enable, throw_on_early_termination,
            divide_by_initial_world_size=divide_by_initial_world_size,
        )  # fmt: skip

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does in the steps of others."""
        return _JoinHook(self)

    @property
    def join_device(self) -> Any:
        """The CPU."""
        return rushlight.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The processes whose gradients are averaged."""
        return self.process_group

    def register_comm_hook(self, state: Any, hook: Callable) -> None:
        """Let `hook(state, bucket)` reduce buckets: it returns a Future of the row of averages."""
        if not callable(hook):
            raise TypeError("Communication hook must be callable.")
        if self.reducer.hook is not None:
            raise RuntimeError(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        _check_hook(hook)
        self.reducer.hook = (state, hook)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Iterable[str]
    ) -> None:
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore  # type: ignore[assignment]

    def _set_static_graph(self) -> None:
        self.static_graph = self.find_unused_parameters = True

    def __getstate__(self) -> Any:
        raise RuntimeError("DistributedDataParallel is not pickled: save module.state_dict()")


def _check_hook(hook: Callable) -> None:
    """ValueError if the annotations of a communication hook are those of something else."""
    try:
        found = inspect.signature(hook, eval_str=True)
    except (NameError, ValueError):
        return  # nobody can say
    bucket, result = found.parameters.get("bucket"), found.return_annotation
    if bucket is not None and bucket.annotation not in (found.empty, GradBucket):
        raise ValueError("Communication hook: bucket annotation should be dist.GradBucket.")
    if isinstance(result, type) and result is not found.empty and not issubclass(result, Future):
        raise ValueError(
            "Communication hook: return annotation should be torch.futures.Future[torch.Tensor]."
        )


def _check_shapes(parameters: Sequence[Tensor], group: Any) -> None:
    """RuntimeError if the processes have other parameters."""
    mine = [(tuple(p.shape), str(p.dtype)) for p in parameters]
    found: list = [None] * group.size()
    objects.all_gather_object(found, mine, group)
    for rank, theirs in enumerate(found):
        if len(theirs) != len(mine):
            raise RuntimeError(
                f"DDP expects same model across all ranks, but Rank {group.rank()} has {len(mine)} params, while "
                f"rank {rank} has inconsistent {len(theirs)} params."
            )
        for k, (a, b) in enumerate(zip(mine, theirs)):
            if a != b:
                raise RuntimeError(
                    f"[{group.rank()}]: params[{k}] in this process with sizes {list(a[0])} appears not to match "
                    f"sizes of the same param in process {rank}."
                )


class _JoinHook(JoinHook):
    """What a process without inputs does for `DistributedDataParallel`."""

    def __init__(self, parallel: DistributedDataParallel) -> None:
        self.parallel = parallel

    def main_hook(self) -> None:
        if self.parallel._agree(False):
            self.parallel._broadcast_buffers()
            self.parallel.reducer.shadow()

    def post_hook(self, is_last_joiner: bool) -> None:
        parallel, group = self.parallel, self.parallel.process_group
        parallel.reducer.divisor = group.size()
        state = [*parallel.module.parameters(), *parallel._synchronized]
        _broadcast(state, group, _last(group, is_last_joiner))


def _last(group: Any, is_one: bool) -> int:
    """The last process for which this is true."""
    rank = rushlight.tensor([group.rank() if is_one else -1])
    collectives.all_reduce(rank, ReduceOp.MAX, group)
    return int(rank)


def _broadcast(tensors: Sequence[Tensor], group: Any, source: int = 0) -> None:
    """Give all processes what one of them has."""
    works = [
        collectives.broadcast(t.detach(), group=group, group_src=source, async_op=True)
        for t in tensors
    ]
    for work in works:
        work.wait()  # type: ignore[union-attr]
