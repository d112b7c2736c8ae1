"""Communication hooks that step a `ZeroRedundancyOptimizer` within backward.

Each bucket, or part of a bucket, has a process that steps its parameters and sends them to all. The steps run in the thread
of backward: a bucket is stepped when the next one is ready, or all of them with the last one; what goes on beside backward
are the messages. As in PyTorch the first two backwards, or three with `static_graph`, step nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.distributed.optim.zero_redundancy_optimizer import ZeroRedundancyOptimizer
from rushlight.distributed.reducer import GradBucket
from rushlight.futures import Future

__all__ = ["hook_with_zero_step", "hook_with_zero_step_interleaved"]


class _Steps:
    """The buckets of a backward that have been given to a hook and are not stepped yet."""

    def __init__(self, ddp: Any, zero: ZeroRedundancyOptimizer, shard_buckets: bool) -> None:
        if not zero._overlap_with_ddp:
            raise ValueError(
                "ZeroRedundancyOptimizer must be constructed with `overlap_with_ddp=True` to use this hook properly"
            )
        self.zero, self.left = zero, 3 if ddp.static_graph else 2
        self.ddp, self.shard_buckets = ddp, shard_buckets
        self.waiting: list[tuple[GradBucket, Future[Tensor]]] = []
        self.sent: list[Any] = []

    def add(self, bucket: GradBucket, future: Future[Tensor], interleaved: bool) -> None:
        """Step what is to be stepped now that the averages of one more bucket are on their way."""
        if self.left:
            self.left -= bucket.is_last()
            return
        if self.zero.optim is None:
            buckets = [each.parameters() for each in self.ddp.reducer.buckets]
            self.zero._spread_buckets(buckets, self.shard_buckets)
        if interleaved:
            self.step()
        self.waiting.append((bucket, future))
        if bucket.is_last():
            self.step()
            for work in self.sent:
                work.wait()
            self.sent.clear()

    def step(self) -> None:
        """Wait for the averages of all buckets that wait, step their parameters, and start to send these."""
        averages = {}
        for bucket, future in self.waiting:
            averages.update(zip(bucket.parameters(), bucket.views(future.wait())))
        self.waiting.clear()
        if averages:
            self.zero._step_with(averages)
            self.sent += self.zero._sent(averages)


def _with_steps(
    hook: Callable, ddp: Any, zero: ZeroRedundancyOptimizer, shard_buckets: bool, interleaved: bool
) -> Callable[[Any, GradBucket], Future[Tensor]]:  # fmt: skip
    steps = _Steps(ddp, zero, shard_buckets)

    def hook_with_steps(state: Any, bucket: GradBucket) -> Future[Tensor]:
        future = hook(state, bucket)
        steps.add(bucket, future, interleaved)
        return future

    return hook_with_steps


def hook_with_zero_step(
    hook: Callable, ddp: Any, zero: ZeroRedundancyOptimizer, shard_buckets: bool = False
) -> Callable[[Any, GradBucket], Future[Tensor]]:
    """A hook that averages as `hook` does, and steps `zero` with the last bucket.

    `shard_buckets`: parameters of one bucket may belong to several processes.
    """
    return _with_steps(hook, ddp, zero, shard_buckets, interleaved=False)


def hook_with_zero_step_interleaved(
    hook: Callable, ddp: Any, zero: ZeroRedundancyOptimizer, shard_buckets: bool = False
) -> Callable[[Any, GradBucket], Future[Tensor]]:
    """As `hook_with_zero_step`, and each bucket is stepped while backward computes the next ones."""
    return _with_steps(hook, ddp, zero, shard_buckets, interleaved=True)
