"""`Reducer`: averages the gradients of parameters over a group, in buckets, while backward computes the next ones.

Note [Buckets]
Gradients become ready from the last layers to the first. Parameters are put into buckets in that order; when all gradients
of a bucket are there, its reduction starts and goes on (work.py) while backward computes the next ones. All processes start
buckets in the same order. With the last gradient the process waits for all, and the averages become the gradients.
On one machine the rows of buckets are in shared memory, and the reduction is the sum that writes the gradients: Note
[Rows in shared memory].
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

import rushlight
from rushlight.autograd.grad_mode import no_grad
from rushlight.autograd.graph import followers
from rushlight.autograd.state import thread
from rushlight.autograd.views import edge_of
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives
from rushlight.distributed.groups import _resolve
from rushlight.distributed.process_group import MPIProcessGroup
from rushlight.distributed.shared_rows import LINE, SharedGradients, SharedRows, shared_rows
from rushlight.distributed.sparse import sparse_sum
from rushlight.distributed.work import Work, progress
from rushlight.futures import Future

__all__ = ["GradBucket", "Reducer"]

MEBIBYTE = 1 << 20
_DEFAULT_FIRST_BUCKET_BYTES = MEBIBYTE  # small, so that the first reduction starts early
AT_ONCE = (
    1 << 18
)  # bytes of gradients that are written to a shared row in one call: they are still in the cache


class GradBucket:
    """Some gradients in one row, as a communication hook gets them."""

    def __init__(self, index: int, parameters: list[Tensor], last: bool, sparse: bool) -> None:
        self._index, self._parameters, self._last = index, parameters, last
        self.sparse = sparse  # it has one gradient, a sparse tensor, which is its row
        self.dtype = parameters[0].dtype
        count = 0 if sparse else sum(p.numel() for p in parameters)
        self._buffer = rushlight.zeros(count, dtype=parameters[0].dtype)
        self._gradients = self.views(self._buffer)
        self.shared: SharedGradients | None = None
        self.turns: list[tuple[Tensor, list[Tensor], SharedGradients]] = []
        self.sizes = [p.nbytes for p in parameters]
        self.arrived: list[int] = []  # the gradients that are to be written to the shared row
        self.arrived_bytes = 0
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

    def share(self, turns: Sequence[Sequence[Tensor]], rank: int) -> None:
        """Take the rows of all processes in shared memory, for each turn; its own are those of `rank`."""
        self.turns = [
            (rows[rank], self.views(rows[rank]), SharedGradients([*map(self.views, rows)], rank))
            for rows in turns
        ]
        self.turn(0)

    def turn(self, number: int) -> None:
        """Take the rows of a turn."""
        self._buffer, self._gradients, self.shared = self.turns[number]

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


def _compute_bucket_assignment_by_size(
    tensors: Sequence[Tensor], bucket_size: Sequence[int], expect_sparse_gradient: Sequence[bool] = (),
    tensor_indices: Sequence[int] = (), logger: Any = None,
) -> tuple[list[list[int]], list[int]]:  # fmt: skip
    """(numbers of tensors in buckets, limits of these in bytes): tensors of one dtype, until a bucket has reached its limit.

    Of each dtype the first bucket has the first limit, the next one the next, the others the last; 0 is that of a sparse gradient,
    which is alone. Buckets are sorted by the first tensor, unless `tensor_indices` gives tensors other numbers.
    """
    if not tensors:
        raise RuntimeError("tensors must not be empty")
    buckets: list[tuple[list[int], int]] = []
    filling: dict[Any, list[int]] = {}
    bytes_in: dict[Any, int] = {}
    limits = {each.dtype: iter(bucket_size) for each in tensors}
    limit_of = {dtype: next(left) for dtype, left in limits.items()}
    for k, each in enumerate(tensors):
        number, kind = tensor_indices[k] if tensor_indices else k, each.dtype
        if expect_sparse_gradient and expect_sparse_gradient[number]:
            buckets.append(([number], 0))
            continue
        filling.setdefault(kind, []).append(number)
        bytes_in[kind] = bytes_in.get(kind, 0) + each.numel() * each.element_size()
        if bytes_in[kind] >= limit_of[kind]:
            buckets.append((filling.pop(kind), limit_of[kind]))
            bytes_in[kind], limit_of[kind] = 0, next(limits[kind], limit_of[kind])
    buckets += [(numbers, limit_of[kind]) for kind, numbers in filling.items()]
    if not tensor_indices:
        buckets.sort(key=lambda bucket: min(bucket[0]))
    return [numbers for numbers, _ in buckets], [limit for _, limit in buckets]


class Reducer:
    """Averages the gradients of some parameters over a group, once a backward."""

    def __init__(
        self, params: Sequence[Tensor], bucket_indices: Sequence[Sequence[int]], per_bucket_size_limits: Sequence[int],
        process_group: Any, expect_sparse_gradients: Sequence[bool] = (), bucket_bytes_cap: int = 25 * MEBIBYTE,
        find_unused_parameters: bool = False, gradient_as_bucket_view: bool = False,
        param_to_name_mapping: Mapping[int, str] | None = None, first_bucket_bytes_cap: int = _DEFAULT_FIRST_BUCKET_BYTES,
    ) -> None:  # fmt: skip
        if not params:
            raise RuntimeError("Expected at least one parameter.")
        self.group, self.names = _resolve(process_group), param_to_name_mapping or {}
        self.find_unused_parameters = find_unused_parameters
        self.gradient_as_bucket_view = gradient_as_bucket_view
        self.buckets: list[GradBucket] = []
        self.place: dict[int, tuple[GradBucket, int, int]] = {}
        self.shared: SharedRows | None = None
        self.turn = 0
        self.read: Any = (
            None  # where rows have one turn: a request that is done when all have read them
        )
        self._make([
            ([params[k] for k in row], bool(expect_sparse_gradients) and expect_sparse_gradients[row[0]])
            for row in bucket_indices
        ])  # fmt: skip
        self.hook: tuple[Any, Callable] | None = None
        self.averaged: Callable[[Sequence[Tensor]], None] | None = (
            None  # is told the parameters of each bucket whose averages have become their gradients
        )
        self.active, self.begun, self.next = False, False, 0
        # forwards of a module that trains since the last reduction, and of those before it how many had no backward
        self.forwards = self.ahead = 0
        self.iterations, self.error = 0, ""
        self.divisor = self.group.size()
        self.used = rushlight.zeros(len(self.place), dtype=rushlight.int32)
        self.used_before: set[int] = set()  # what had a gradient in backwards without reduction
        self.is_wanted: Callable[[], bool] = lambda: True  # whether gradients are to be averaged
        for each in params:
            if id(each) in self.place:
                leaf = edge_of(each)
                leaf.reduced = (*leaf.reduced, self.ready)

    def _make(self, rows: Sequence[tuple[list[Tensor], bool]]) -> None:
        """Make the buckets: their parameters, and whether the gradient is sparse."""
        self.buckets, self.place = [], {}
        for members, sparse in rows:
            if any(each.dtype is not members[0].dtype for each in members):
                raise RuntimeError("All parameters in a bucket must have the same dtype.")
            last = len(self.buckets) == len(rows) - 1
            bucket = GradBucket(len(self.buckets), members, last, sparse)
            for k, each in enumerate(members):
                self.place[id(each)] = (bucket, k, len(self.place))
            self.buckets.append(bucket)
        self.shared, self.turn, self.read = None, 0, None
        if not self.gradient_as_bucket_view and isinstance(self.group, MPIProcessGroup):
            self.shared = share(self.buckets, self.group)  # views stay, and are reduced in place

    def failed(self, text: str, kind: type[Exception] = RuntimeError) -> Exception:
        """An error, whose text is kept."""
        self.error = text
        return kind(text)

    def prepare_for_forward(self) -> None:
        """Before a forward of a module that trains."""
        self.forwards += 1
        self.iterations += 1

    def prepare_for_backward(self, outputs: Any) -> None:
        """Before a backward of these outputs: what they do not depend on has no gradient."""
        unused: list[Tensor] = []
        if self.find_unused_parameters:
            found = _leaves(outputs)
            every = [p for bucket in self.buckets for p in bucket.parameters()]
            unused = [p for p in every if id(p) not in found]
        self.prepare(unused)

    def _rebuild_buckets(self) -> bool:
        """False: buckets stay as they were made."""
        return False

    def prepare(self, unused: Sequence[Tensor]) -> None:
        """Before a backward: nothing is there yet but what the outputs do not depend on."""
        if self.begun:
            raise self.failed(
                "Expected to have finished reduction in the prior iteration before starting a new one. This error "
                "indicates that your module has parameters that were not used in producing loss. You can enable "
                "unused parameter detection by passing the keyword argument `find_unused_parameters=True` to "
                "`torch.nn.parallel.DistributedDataParallel`, and by making sure all `forward` function outputs "
                "participate in calculating loss."
            )
        if self.read is not None:
            self.wait_for_readers()
        for bucket in self.buckets:
            if bucket._parameters[0].dtype is not bucket.dtype:  # module.double()
                self._make([(b._parameters, b.sparse) for b in self.buckets])
                break
        self.active, self.next = True, 0
        self.ahead = 0
        if self.find_unused_parameters:
            self.used.fill_(1)
        for bucket in self.buckets:
            bucket.missing, bucket.reduction = len(bucket._parameters), None
            if bucket.shared is not None:
                bucket.arrived, bucket.arrived_bytes = [], 0
        for parameter in unused:
            bucket, k, number = self.place[id(parameter)]
            self.used[number] = id(parameter) in self.used_before
            if bucket.sparse:
                bucket.set_buffer(parameter.new_zeros(parameter.shape).to_sparse())
            elif parameter.grad is None:
                bucket._gradients[k].zero_()
            else:
                self.put(parameter.grad, bucket._gradients[k])
            bucket.missing -= 1

    def put(self, gradient: Tensor, place: Tensor) -> None:
        """Write this process's share of the average into its bucket; all of a gradient for a communication hook."""
        if gradient._array.dtype != place._array.dtype:
            raise self.failed(
                f"a gradient of {gradient.dtype} in a bucket of {place.dtype}: give all parameters of a module the same other dtype"
            )
        if self.hook is None:
            with np.errstate(all="ignore"):
                np.multiply(gradient._array, 1 / self.divisor, out=place._array, casting="unsafe")
        elif gradient is not place:
            place.copy_(gradient.detach())

    def wait_for_readers(self) -> None:
        """Wait until all have read the buckets."""
        if not self.read.Test():
            Work(self.group, "barrier", self.shared.number, self.read, None, []).wait()  # type: ignore[union-attr]  # what was read lies in it
        self.read = None

    def ready(self, parameter: Tensor) -> None:
        """A gradient is there."""
        bucket, k, _ = self.place[id(parameter)]
        if not (self.active and bucket.missing):
            self.unexpected(parameter)
            return
        self.begun = True
        bucket.missing -= 1
        if bucket.shared is not None and self.hook is None:
            bucket.arrived.append(k)
            bucket.arrived_bytes += bucket.sizes[k]
            if not bucket.missing or bucket.arrived_bytes >= AT_ONCE:
                self.write(bucket)
        elif bucket.sparse:
            bucket.set_buffer(parameter.grad)
        else:
            self.put(parameter.grad, bucket._gradients[k])
            if self.gradient_as_bucket_view:
                parameter.grad = bucket._gradients[k]
        if bucket.missing:
            return
        if thread.grad:  # a backward that is recorded
            with no_grad():
                self.reduce()
        else:
            self.reduce()

    def reduce(self) -> None:
        """Start to reduce the buckets whose turn it is; with the last one the averages become the gradients."""
        while self.next < len(self.buckets) and self.buckets[self.next].missing == 0:
            self.start(self.buckets[self.next])
            self.next += 1
        if self.next == len(self.buckets):
            self.finish()

    def unexpected(self, parameter: Tensor) -> None:
        """A gradient of a backward whose gradients are not averaged, or an error."""
        if self.active:
            raise self.failed(
                "Expected to mark a variable ready only once. This error is caused by a parameter that is used in "
                "several backwards of one forward, or outside of `forward`."
            )
        if self.ahead and self.is_wanted():
            raise self.failed(
                "Several forwards, and then a backward for each: only the gradients of the first backward are "
                "reduced. Call backward once, on the sum of the losses, or after each forward."
            )
        self.used_before.add(id(parameter))

    def write(self, bucket: GradBucket) -> None:
        """Write the gradients that have arrived to the row in shared memory."""
        arrived, bucket.arrived, bucket.arrived_bytes = bucket.arrived, [], 0
        gradients = [bucket._parameters[k]._grad for k in arrived]
        bucket.shared.write(arrived, gradients, 1 / self.divisor)  # type: ignore[union-attr]

    def start(self, bucket: GradBucket) -> None:
        """Start to reduce a bucket."""
        if self.hook is not None:
            state, hook = self.hook
            bucket.reduction = hook(state, bucket)
            return
        if bucket.sparse:
            return  # it is reduced at the end
        if bucket.shared is not None:
            assert self.shared is not None  # a bucket of shared memory is a part of it
            bucket.reduction = self.group.rows_written(self.shared.barrier(), bucket._buffer)
            return
        work = self.group.start_all_reduce(bucket.buffer())
        bucket.reduction = work if bucket.is_last() else progress(work)  # the last one is awaited

    def finish(self) -> None:
        """Wait for all buckets; the averages become the gradients."""
        everywhere = self.used_anywhere() if self.find_unused_parameters else None
        for bucket in self.buckets:
            parameters = self.give(bucket, everywhere)
            if self.averaged is not None:
                self.averaged(parameters)
        if self.hook is None and self.shared is not None:
            self.take_turns(self.shared)
        self.active = self.begun = False
        self.used_before.clear()
        self.forwards, self.ahead = 0, max(self.forwards - 1, 0)

    def give(self, bucket: GradBucket, everywhere: list[int] | None) -> list[Tensor]:
        """Wait for a bucket; its averages become the gradients. Returns the parameters that have them."""
        averages, parameters = self.averages(bucket), bucket._parameters
        numbers: Sequence[int] = range(len(parameters))
        if everywhere is not None:
            places = [self.place[id(each)][2] for each in parameters]
            numbers = [k for k in numbers if everywhere[places[k]]]
            parameters = [parameters[k] for k in numbers]
        if bucket.sparse:
            for k, parameter in zip(numbers, parameters):
                parameter.grad = averages[k]
            return parameters
        for parameter in parameters:
            if getattr(parameter, "_grad", None) is None:
                parameter.grad = rushlight.empty_like(parameter)
        if bucket.shared is not None and self.hook is None:
            bucket.shared.add(numbers, [p._grad for p in parameters], 1 / self.divisor)
            return parameters
        for k, parameter in zip(numbers, parameters):
            if parameter.grad is not averages[k]:
                parameter.grad.copy_(averages[k])
        return parameters

    def used_anywhere(self) -> list[int]:
        """For each parameter whether some process used it."""
        used = self.used.clone()
        collectives.all_reduce(used, group=self.group)
        return used.tolist()

    def take_turns(self, shared: SharedRows) -> None:
        """The sums have been read: the next gradients are written to the rows of the next turn."""
        if shared.turns == 1:
            self.read = shared.barrier()
            return
        self.turn = 1 - self.turn
        for bucket in self.buckets:
            if bucket.turns:
                bucket.turn(self.turn)

    def shadow(self) -> None:
        """Take part in the reductions of a backward, with zeros."""
        if self.read is not None:
            self.wait_for_readers()
        self.used.zero_()
        with rushlight.no_grad():
            for bucket in self.buckets:
                bucket.buffer().zero_()
                if bucket.shared is not None:
                    bucket.shared.forget()
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
            raise self.failed(
                f"callback must return a torch.futures.Future object, but got {type(reduction)}"
            )
        found = reduction.wait()
        return bucket.views(found[0] if isinstance(found, list | tuple) else found)


def share(buckets: Sequence[GradBucket], group: Any) -> SharedRows | None:
    """Put the rows of buckets into memory that all processes see, if they are on one machine."""
    dense = [bucket for bucket in buckets if not bucket.sparse]
    ends = [*itertools.accumulate(-(-b.buffer().nbytes // LINE) * LINE for b in dense)]
    shared = shared_rows(ends[-1], group) if dense else None
    if shared is not None:
        for bucket, start in zip(dense, [0, *ends]):
            end, dtype = start + bucket.buffer().nbytes, bucket.buffer().dtype
            rows = ([row[start:end].view(dtype) for row in turn] for turn in shared.rows)
            bucket.share([*rows], group.rank())
    return shared


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
        stack += followers(node)
    return found


def _broadcast_coalesced(
    process_group: Any, tensors: Sequence[Tensor], buffer_size: int, src: int = 0
) -> None:
    """Give all processes the tensors of one, whose number in the group is `src`."""
    works = [
        collectives.broadcast(each.detach(), group=process_group, group_src=src, async_op=True)
        for each in tensors
    ]
    for work in works:
        work.wait()  # type: ignore[union-attr]
