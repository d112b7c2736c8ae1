"""Post-local SGD: after some steps gradients are averaged among few processes only (Lin, Stich, Patel and Jaggi, 2018)."""

from __future__ import annotations

from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.algorithms.ddp_comm_hooks.debugging_hooks import noop_hook
from rushlight.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from rushlight.distributed.groups import new_subgroups
from rushlight.distributed.reducer import GradBucket
from rushlight.futures import Future

__all__ = ["PostLocalSGDState", "post_localSGD_hook"]


class PostLocalSGDState:
    """The groups of the first steps and of those after them, and how many the first ones are."""

    def __init__(
        self, process_group: Any, subgroup: Any, start_localSGD_iter: int, post_local_gradient_allreduce: bool = True
    ) -> None:  # fmt: skip
        self.process_group, self.subgroup = process_group, subgroup
        self.start_localSGD_iter, self.iter = start_localSGD_iter, 0
        self.post_local_gradient_allreduce = post_local_gradient_allreduce

    def maybe_increase_iter(self, bucket: GradBucket) -> None:
        """Count a step, with its last bucket."""
        self.iter += bucket.is_last()


def post_localSGD_hook(state: PostLocalSGDState, bucket: GradBucket) -> Future[Tensor]:
    """The average over all processes in the first steps, then that of the subgroup, or none at all.

    From then on a `PeriodicModelAverager` averages the parameters now and then.
    """
    if state.iter < state.start_localSGD_iter:
        state.maybe_increase_iter(bucket)
        return allreduce_hook(state.process_group, bucket)
    if not state.post_local_gradient_allreduce:
        return noop_hook(None, bucket)
    if state.subgroup is None:
        state.subgroup, _ = new_subgroups()
    return allreduce_hook(state.subgroup, bucket)
