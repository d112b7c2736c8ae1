"""`DistributedDataParallel`: every process runs the module on its own batch, and gradients are averaged during backward.
Note [Buckets] in reducer.py says how.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import rushlight
from rushlight.autograd.state import thread
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, objects
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.distributed.groups import _get_default_group
from rushlight.distributed.reducer import (
    _DEFAULT_FIRST_BUCKET_BYTES,
    MEBIBYTE,
    GradBucket,
    Reducer,
    _broadcast_coalesced,
    _compute_bucket_assignment_by_size,
    _tensors,
)
from rushlight.distributed.reductions import ReduceOp
from rushlight.futures import Future
from rushlight.nn.batchnorm import SyncBatchNorm
from rushlight.nn.module import Module
from rushlight.nn.sparse import Embedding, EmbeddingBag

__all__ = ["BuiltinCommHookType", "DistributedDataParallel"]

BROADCAST = 250 * MEBIBYTE


class BuiltinCommHookType(enum.Enum):
    """The hooks that PyTorch has in C++."""

    ALLREDUCE = "allreduce_hook"
    FP16_COMPRESS = "fp16_compress_hook"


@dataclass
class _MixedPrecision:
    """What `DistributedDataParallel(mixed_precision=)` takes on a GPU; on the CPU it is refused, by PyTorch in the first forward."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    buffer_dtype: Any = None


def _find_tensors(obj: Any) -> list[Tensor]:
    """The tensors in nested lists, tuples and dictionaries."""
    return list(_tensors(obj))


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
        if device_ids:  # output_device alone means nothing on the CPU
            raise ValueError(
                "DistributedDataParallel device_ids and output_device arguments only work with single-device/"
                f"multiple-device GPU modules or CPU modules, but got device_ids {device_ids}, output_device "
                f"{output_device}, and module parameters {{device(type='cpu')}}."
            )
        self.module, self.dim, self.broadcast_buffers = module, dim, broadcast_buffers
        self.find_unused_parameters = find_unused_parameters or static_graph
        self.static_graph, self.gradient_as_bucket_view = static_graph, gradient_as_bucket_view
        self.require_backward_grad_sync = self.require_forward_param_sync = True
        ignored = set(getattr(module, "_ddp_params_and_buffers_to_ignore", ()))
        named = dict(module.named_parameters())
        self.parameters_to_ignore = ignored
        parameters = self._trained()
        if not parameters:
            raise RuntimeError(
                "DistributedDataParallel is not needed when a module doesn't have any parameter that requires a "
                "gradient."
            )
        self._synchronized = [b for name, b in module.named_buffers() if name not in ignored]
        if init_sync:
            _check_shapes(parameters, self.process_group)
            kept = [p for name, p in named.items() if name not in ignored]
            _broadcast_coalesced(self.process_group, [*kept, *self._synchronized], BROADCAST)
        self.device_ids = self.output_device = self.mixed_precision = None  # as on any CPU
        self.device, self.device_type, self.is_multi_device_module = (
            parameters[0].device,
            "cpu",
            False,
        )
        self.device_mesh = device_mesh
        cap = 25 if bucket_cap_mb is None else bucket_cap_mb
        self.bucket_bytes_cap = int(cap * MEBIBYTE)
        self.reducer = self._reducer()
        self._take_optimizers(parameters)

    def _take_optimizers(self, parameters: Sequence[Tensor]) -> None:
        """Step optimizers that were made for backward when gradients are averages, bucket by bucket."""
        stepped = {id(p) for p in parameters if hasattr(p, "_in_backward_optimizers")}
        if not stepped:
            return
        from rushlight.distributed.optim import apply_optimizer_in_backward as within

        for each in parameters:
            if id(each) in stepped:
                within.unhook(each)

        def averaged(gradients: Sequence[Tensor]) -> None:
            for each in gradients:
                if id(each) in stepped:
                    within.step(each)

        self.reducer.averaged = averaged

    def _trained(self) -> list[Tensor]:
        """The parameters whose gradients are averaged."""
        named = self.module.named_parameters()
        ignored = self.parameters_to_ignore
        return [p for name, p in named if p.requires_grad and name not in ignored]

    def _reducer(self) -> Reducer:
        """What averages the gradients: buckets of the last parameters first."""
        backwards = self._trained()[::-1]
        tables = {
            id(m.weight)
            for m in self.module.modules()
            if isinstance(m, Embedding | EmbeddingBag) and m.sparse
        }
        sparse = [id(p) in tables for p in backwards]
        first, cap = min(self.bucket_bytes_cap, _DEFAULT_FIRST_BUCKET_BYTES), self.bucket_bytes_cap
        rows, limits = _compute_bucket_assignment_by_size(backwards, [first, cap], sparse)
        made = Reducer(
            backwards, rows, limits, self.process_group, sparse, self.bucket_bytes_cap,
            self.find_unused_parameters, self.gradient_as_bucket_view,
        )  # fmt: skip
        made.is_wanted = lambda: self.require_backward_grad_sync
        return made

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """The module's own forward, with the buffers of the first process."""
        self._pre_forward()
        return self._post_forward(self.module(*inputs, **kwargs))

    def _synchronizes(self) -> bool:
        """Whether gradients of the backward of this forward are averaged."""
        return thread.grad and self.require_backward_grad_sync

    def _pre_forward(self) -> None:
        synchronized = self.require_forward_param_sync
        if self._joined is not None:
            synchronized = self._synchronizes()
            Join.notify_join_context(self)
            self._agree(synchronized)
        if synchronized:
            self._broadcast_buffers()

    def _post_forward(self, outputs: Any) -> Any:
        """The outputs of a forward, whose gradients are averaged in backward."""
        synchronized = self._synchronizes()
        if self.require_forward_param_sync != synchronized:  # before the next one
            self.require_forward_param_sync = synchronized
        if synchronized:
            if self.training:
                self.reducer.prepare_for_forward()
            self.reducer.prepare_for_backward(outputs)
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
            _broadcast_coalesced(self.process_group, self._synchronized, BROADCAST, source)

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
            raise self.reducer.failed("Communication hook must be callable.", TypeError)
        if self.reducer.hook is not None:
            raise self.reducer.failed(
                "register_comm_hook or register_builtin_comm_hook can only be called once."
            )
        if (problem := _problem_of(hook)) is not None:
            raise self.reducer.failed(problem, ValueError)
        self.reducer.hook = (state, hook)

    def _register_builtin_comm_hook(self, comm_hook_type: BuiltinCommHookType) -> None:
        from rushlight.distributed.algorithms.ddp_comm_hooks import default_hooks

        self.register_comm_hook(None, getattr(default_hooks, comm_hook_type.value))

    def _register_fused_optim(
        self, optim: type, *args: Any, optim_params: Iterable[Tensor] | None = None, **kwargs: Any
    ) -> None:
        """Step an optimizer of this class for each parameter when its bucket has been averaged: `optim_params`, or all."""
        from rushlight.distributed.algorithms._optimizer_overlap import _as_overlapped_optim

        _as_overlapped_optim(optim, optim_params, *args, **kwargs).register_ddp(self)

    @staticmethod
    def _set_params_and_buffers_to_ignore_for_model(
        module: Module, params_and_buffers_to_ignore: Iterable[str]
    ) -> None:
        module._ddp_params_and_buffers_to_ignore = params_and_buffers_to_ignore  # type: ignore[assignment]

    def _get_ddp_logging_data(self) -> dict[str, Any]:
        """What it works with, and the error that the reduction ended with."""
        reducer = self.reducer
        parameters = [p for bucket in reducer.buckets for p in bucket.parameters()]
        sizes = [sum(p.nbytes for p in bucket.parameters()) for bucket in reducer.buckets]
        dtypes = sorted({str(p.dtype).removeprefix("torch.") for p in parameters})
        error = {"has_error": 1, "error": reducer.error} if reducer.error else {}
        return {
            "backend_name": reducer.group.backend, "bucket_cap_bytes": self.bucket_bytes_cap,
            "bucket_sizes": ", ".join(map(str, sizes)), "broadcast_buffers": int(self.broadcast_buffers),
            "dtypes": ", ".join(dtypes), "find_unused_parameters": int(self.find_unused_parameters),
            "gradient_as_bucket_view": int(self.gradient_as_bucket_view), "is_multi_device_module": 0,
            "has_sync_bn": int(any(isinstance(m, SyncBatchNorm) for m in self.module.modules())),
            "iteration": max(reducer.iterations - 1, 0), "module_name": type(self.module).__name__,
            "num_parameter_tensors": len(parameters), "rank": reducer.group.rank(),
            "total_parameter_size_bytes": sum(sizes), "world_size": reducer.group.size(),
            **error,
        }  # fmt: skip

    def _set_static_graph(self) -> None:
        if self.reducer.iterations:
            raise self.reducer.failed(
                "_set_static_graph() should be called before training loop starts: it is called in iteration "
                f"{self.reducer.iterations}"
            )
        self.static_graph = self.find_unused_parameters = self.reducer.find_unused_parameters = True

    def __getstate__(self) -> dict[str, Any]:
        if self.process_group is not _get_default_group():
            raise RuntimeError(
                "DDP Pickling/Unpickling are only supported when using DDP with the default process group. That is, "
                "when you have called init_process_group and have not passed process_group argument to DDP constructor"
            )
        return {k: v for k, v in self.__dict__.items() if k not in ("process_group", "reducer")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        self.process_group = _get_default_group()
        self.reducer = self._reducer()


def _problem_of(hook: Callable) -> str | None:
    """What is wrong with the annotations of a communication hook."""
    try:
        found = inspect.signature(hook, eval_str=True)
    except (NameError, ValueError):
        return None  # nobody can say
    bucket, result = found.parameters.get("bucket"), found.return_annotation
    if bucket is not None and bucket.annotation not in (found.empty, GradBucket):
        return "Communication hook: bucket annotation should be dist.GradBucket."
    if isinstance(result, type) and result is not found.empty and not issubclass(result, Future):
        return "Communication hook: return annotation should be torch.futures.Future[torch.Tensor]."
    return None


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
        _broadcast_coalesced(group, state, BROADCAST, _last(group, is_last_joiner))


def _last(group: Any, is_one: bool) -> int:
    """The last process for which this is true."""
    rank = rushlight.tensor([group.rank() if is_one else -1])
    collectives.all_reduce(rank, ReduceOp.MAX, group)
    return int(rank)
