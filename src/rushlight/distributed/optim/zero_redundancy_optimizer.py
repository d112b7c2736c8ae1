"""`ZeroRedundancyOptimizer`: each process has the optimizer's state of some parameters, steps these, and sends them to all."""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed import collectives, objects
from rushlight.distributed.algorithms.join import Join, Joinable, JoinHook
from rushlight.distributed.groups import _get_default_group
from rushlight.optim.optimizer import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class _JoinHook(JoinHook):
    """What a process without inputs does: a step with the gradients that others reduced."""

    def __init__(self, optimizer: ZeroRedundancyOptimizer) -> None:
        self.optimizer = optimizer

    def main_hook(self) -> None:
        self.optimizer.step()


def _as_list(params: Any) -> list:
    """Tensors or groups. TypeError or ValueError for anything else."""
    if isinstance(params, Tensor):
        raise TypeError(
            f"`params` argument should be an iterable of Tensors, but got {params.type()}"
        )
    found = list(params)
    if not found:
        raise ValueError("ZeroRedundancyOptimizer got an empty parameter list")
    tensors = [t for each in found for t in (each["params"] if isinstance(each, dict) else [each])]
    if not all(isinstance(t, Tensor) for t in tensors):
        raise TypeError("`params` argument should be an iterable of Tensors or dicts")
    for t in tensors:
        if t.dtype is not tensors[0].dtype or t.is_sparse:
            raise ValueError(
                "ZeroRedundancyOptimizer only supports using the same dense type for all parameters but got both "
                f"{tensors[0].type()} and {t.type()}"
            )
    return found


def _broadcast_object(obj: Any, src_rank: int, group: Any = None, device: Any = None) -> Any:
    """What the process `src_rank` has, on the CPU, which is the only device of a group."""
    found = [obj]
    objects.broadcast_object_list(found, src_rank, group)
    return found[0]


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer of the class `optimizer_class`, whose state is spread over the processes.

    `overlap_with_ddp`: a communication hook steps it within backward (`ddp_zero_hook.py`), and `step` does nothing.
    """

    def __init__(
        self, params: Any, optimizer_class: type[Optimizer], process_group: Any = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        self.process_group = _get_default_group() if process_group is None else process_group
        self.rank, self.world_size = self.process_group.rank(), self.process_group.size()
        self.global_rank = self.process_group.ranks[self.rank]
        self.parameters_as_bucket_view = parameters_as_bucket_view
        self._owner: dict[int, int] = {}  # of each parameter
        self._sizes = [0] * self.world_size  # elements that each process has
        self._consolidated: list[dict] | None = None
        self.optim: Optimizer | None = None  # of this process's parameters
        self._overlap_with_ddp = overlap_with_ddp
        self._make = partial(optimizer_class, **defaults)
        super().__init__(_as_list(params), defaults)
        if overlap_with_ddp and len(self.param_groups) > 1:
            raise ValueError(
                "ZeroRedundancyOptimizer(overlap_with_ddp=True): there can be one parameter group only"
            )
        if not overlap_with_ddp:  # else the hook does it when it knows the buckets
            self._begin()

    @property
    def _all_params(self) -> list[Tensor]:
        """The parameters of all processes, in the order in which they were given."""
        return [p for group in self.param_groups for p in group["params"]]

    def _begin(self) -> None:
        """Make the optimizer of this process's parameters."""
        self.optim = self._make([self._own(group) for group in self.param_groups])
        for group, own in zip(self.param_groups, self.optim.param_groups):
            group.update({k: v for k, v in own.items() if k != "params"})
        self.state = self.optim.state

    def _assign(self, parameters: Sequence[Tensor]) -> None:
        """Give each parameter, the largest first, to the process that has least."""
        for parameter in sorted(parameters, key=lambda p: p.numel(), reverse=True):
            rank = self._sizes.index(min(self._sizes))
            self._sizes[rank] += parameter.numel()
            self._owner[id(parameter)] = rank

    def _spread_buckets(self, buckets: Sequence[Sequence[Tensor]], cut: bool) -> None:
        """Give the parameters of each bucket to the process that has least, or each for itself if `cut`."""
        known, self._sizes = self._owner, [0] * self.world_size
        self._owner = {}
        for bucket in buckets:
            for members in [[p] for p in bucket] if cut else [bucket]:
                rank = self._sizes.index(min(self._sizes))
                self._sizes[rank] += sum(p.numel() for p in members)
                self._owner.update((id(p), rank) for p in members)
        if known.keys() != self._owner.keys():
            raise ValueError(
                "ZeroRedundancyOptimizer(overlap_with_ddp=True) must have the parameters of the module"
            )
        self._begin()

    def _step_with(self, gradients: Mapping[Tensor, Tensor]) -> None:
        """Step those of this process's parameters that have a gradient here. All keep the gradients that they have."""
        own: Any = self.optim  # made with the buckets
        kept = [(p, p.grad) for group in own.param_groups for p in group["params"]]
        self._share_options(self.param_groups, own.param_groups)
        try:
            for p, _ in kept:
                p.grad = gradients.get(p)
            own.step()
        finally:
            for p, grad in kept:
                p.grad = grad

    def _own(self, group: dict, rank: int | None = None) -> dict:
        """A group with the parameters of one process only."""
        rank = self.rank if rank is None else rank
        own = [p for p in group["params"] if self._owner[id(p)] == rank]
        return {**group, "params": own}

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add parameters, with options of their own."""
        if self._overlap_with_ddp and self.param_groups:
            raise RuntimeError(
                "ZeroRedundancyOptimizer(overlap_with_ddp=True): there can be one parameter group only"
            )
        super().add_param_group(param_group)
        made = self.param_groups[-1]
        self._assign(made["params"])
        if self.optim is not None:
            self.optim.add_param_group(self._own(made))
            options = {k: v for k, v in self.optim.param_groups[-1].items() if k != "params"}
            made.update(options)

    def _share_options(self, source: Sequence[dict], target: Sequence[dict]) -> None:
        for given, group in zip(source, target):
            group.update({k: v for k, v in given.items() if k != "params"})

    def step(self, closure: Callable[[], float] | None = None, **kwargs: Any) -> Any:
        """Step this process's parameters, and get the others'."""
        if self._overlap_with_ddp:
            warnings.warn(
                "`step()` should not be included in the training loop when `overlap_with_ddp=True`",
                stacklevel=2,
            )
            return None
        Join.notify_join_context(self)
        local = self.optim
        self._share_options(self.param_groups, local.param_groups)  # type: ignore[union-attr]
        loss = local.step(**kwargs) if closure is None else local.step(closure=closure, **kwargs)  # type: ignore[union-attr,call-arg]
        self._share_options(local.param_groups, self.param_groups)  # type: ignore[union-attr]
        for work in self._sent(self._all_params):
            work.wait()
        return loss

    def _sent(self, parameters: Iterable[Tensor]) -> list[Any]:
        """Start to give all processes parameters, each from the process that steps it."""
        with rushlight.no_grad():
            return [
                collectives.broadcast(
                    p.detach(),
                    group=self.process_group,
                    group_src=self._owner[id(p)],
                    async_op=True,
                )
                for p in parameters
            ]

    # -- state -------------------------------------------------------------------------------------

    def _numbers(self) -> dict[int, int]:
        return {id(p): k for k, p in enumerate(self._all_params)}

    def _numbers_of(self, rank: int) -> list[int]:
        """The numbers of the parameters of a process, in the order of its own optimizer."""
        numbers = self._numbers()
        own = [self._own(group, rank)["params"] for group in self.param_groups]
        return [numbers[id(p)] for params in own for p in params]

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the states of all processes to one, whose `state_dict` has them then."""
        if self.optim is None:
            raise RuntimeError(
                "ZeroRedundancyOptimizer(overlap_with_ddp=True) has no state before the hook's first step"
            )
        root = self.process_group.ranks.index(to)
        found: list | None = [None] * self.world_size if self.rank == root else None
        objects.gather_object(
            self.optim.state_dict()["state"],  # type: ignore[union-attr]
            found,
            group=self.process_group,
            group_dst=root,
        )
        self._consolidated = found

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters, after `consolidate_state_dict`."""
        if self._consolidated is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call "
                f"`consolidate_state_dict(to={self.global_rank})` on all ranks beforehand if you meant to save the "
                "global state."
            )
        state = {}
        for rank, entries in enumerate(self._consolidated):
            numbers = self._numbers_of(rank)
            state |= {numbers[k]: entry for k, entry in entries.items()}
        numbers_of = self._numbers()
        rows = [
            {**group, "params": [numbers_of[id(p)] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": dict(sorted(state.items())), "param_groups": rows}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take the state of this process's parameters."""
        self._consolidated = None
        self._share_options(state_dict["param_groups"], self.param_groups)
        here = {number: k for k, number in enumerate(self._numbers_of(self.rank))}
        entries = {here[k]: v for k, v in state_dict["state"].items() if k in here}
        made = self.optim.state_dict()  # type: ignore[union-attr]
        self._share_options(self.param_groups, made["param_groups"])
        self.optim.load_state_dict({**made, "state": entries})  # type: ignore[union-attr]
        self.state = self.optim.state if self.optim is not None else defaultdict(dict)

    # -- uneven inputs -----------------------------------------------------------------------------

    def join_hook(self, **kwargs: Any) -> JoinHook:
        """What a process without inputs does in the steps of others."""
        return _JoinHook(self)

    @property
    def join_device(self) -> Any:
        """The CPU."""
        return rushlight.device("cpu")

    @property
    def join_process_group(self) -> Any:
        """The processes that share the state."""
        return self.process_group
