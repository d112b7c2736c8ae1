"""Schedules: in which order a process runs the forwards and backwards of its stages.

A schedule is a list of actions (kind, stage, microbatch) for this process. Messages are sent without waiting and received when an
action needs them, so any order in which each action comes after those it depends on runs to its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed.pipelining.microbatch import cut, merged, parts
from rushlight.distributed.pipelining.stage import PipelineStage

__all__ = ["Schedule1F1B", "ScheduleGPipe", "ScheduleInterleaved1F1B", "ScheduleLoopedBFS"]

Action = tuple[
    str, int, int
]  # "F" or "B", the number of the stage among this process's, the microbatch


class Schedule:
    """What the schedules have in common. `loss_fn(output, target)`: without one there is no backward; `scale_grads`: the
    gradients are those of the mean of the microbatches' losses."""

    def __init__(
        self, stages: PipelineStage | Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
        args_chunk_spec: Any = None, kwargs_chunk_spec: Any = None, output_merge_spec: Any = None,
        scale_grads: bool = True, **options: Any,
    ) -> None:  # fmt: skip
        self.stages = [stages] if isinstance(stages, PipelineStage) else list(stages)
        self.n, self.loss_fn = n_microbatches, loss_fn
        self.args_chunk_spec, self.kwargs_chunk_spec = args_chunk_spec, kwargs_chunk_spec
        self.output_merge_spec, self.scale_grads = output_merge_spec, scale_grads
        self.size, self.rank = self.stages[0].group_size, self.stages[0].group_rank

    def actions(self) -> list[Action]:
        """What this process does, in order."""
        raise NotImplementedError

    def step(
        self,
        *args: Any,
        target: Any = None,
        losses: list | None = None,
        return_outputs: bool = True,
        **kwargs: Any,
    ) -> Any:
        """One batch forward and back. The process of the first stage gives the batch, that of the last one the target;
        there the result is returned, and the losses of the microbatches are put into `losses`."""
        if self.loss_fn is not None and not rushlight.is_grad_enabled():
            raise RuntimeError(
                "step() requires gradients to be enabled for backward computation: use eval()"
            )
        return self._run(args, kwargs, target, losses, self.loss_fn is not None, return_outputs)

    def eval(
        self, *args: Any, target: Any = None, losses: list | None = None, **kwargs: Any
    ) -> Any:
        """One batch forward only."""
        with rushlight.no_grad():
            return self._run(args, kwargs, target, losses, False, True)

    def _run(
        self, args: tuple, kwargs: dict, target: Any, losses: list | None, train: bool, wanted: bool
    ) -> Any:
        rows, names = cut(args, kwargs, self.n, self.args_chunk_spec, self.kwargs_chunk_spec)
        targets = parts(target, self.n) if target is not None else None
        others = {stage.stage_index: stage for stage in self.stages}
        found: dict[int, Tensor] = {}
        for kind, number, k in self.actions():
            stage = self.stages[number]
            if kind == "F":
                result = stage.forward_one(k, rows[k], names[k], others, train)
                if stage.is_last and self.loss_fn is not None and targets is not None:
                    found[k] = self.loss_fn(result, targets[k])
            elif train:
                if stage.is_last and k not in found:
                    raise RuntimeError("the process of the last stage needs a target")
                stage.backward_one(k, found[k] if stage.is_last else None, others)
        result = None
        for stage in self.stages:
            stage.finish()
            if train and self.scale_grads:
                stage.scale_grads(self.n)
            if stage.is_last:
                outputs = [stage.outputs[k] for k in range(self.n)]
                # After backward the results hold none of it.
                with rushlight.set_grad_enabled(rushlight.is_grad_enabled() and not train):
                    result = merged(outputs, self.output_merge_spec) if wanted else None
                if losses is not None:
                    losses[:] = [found[k] for k in sorted(found)]
            stage.clear()
        return result


class SingleStage(Schedule):
    """A schedule of one stage on each process."""

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(stage, n_microbatches, loss_fn, **options)
        if stage.num_stages != self.size:
            raise ValueError(
                f"the group has {self.size} processes, and there are {stage.num_stages} stages: each needs one of its own"
            )
        if n_microbatches < stage.num_stages:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than or equal to the number of stages "
                f"({stage.num_stages})."
            )


class ScheduleGPipe(SingleStage):
    """All microbatches forward, then all back."""

    def actions(self) -> list[Action]:
        return [(kind, 0, k) for kind in "FB" for k in range(self.n)]


class Schedule1F1B(SingleStage):
    """One forward, one backward, in turn: a stage keeps no more microbatches than there are stages from it to the end."""

    def actions(self) -> list[Action]:
        ahead = min(self.n, self.size - self.rank)
        order: list[Action] = [("F", 0, k) for k in range(ahead)]
        for k in range(self.n):
            order.append(("B", 0, k))
            if k + ahead < self.n:
                order.append(("F", 0, k + ahead))
        return order


class SeveralStages(Schedule):
    """A schedule of several stages on each process: numbers `rank`, `rank + size`..."""

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            sorted(stages, key=lambda s: s.stage_index), n_microbatches, loss_fn, **options
        )
        expected = list(range(self.rank, self.stages[0].num_stages, self.size))
        if [stage.stage_index for stage in self.stages] != expected:
            raise ValueError(f"this process has the stages {expected} of the pipeline")


class ScheduleLoopedBFS(SeveralStages):
    """Stage by stage: all microbatches forward, then all back."""

    def actions(self) -> list[Action]:
        numbers = range(len(self.stages))
        forward = [("F", s, k) for s in numbers for k in range(self.n)]
        return forward + [("B", s, k) for s in reversed(numbers) for k in reversed(range(self.n))]


class ScheduleInterleaved1F1B(SeveralStages):
    """One forward, one backward, in turn, through rounds of as many microbatches as there are processes."""

    def actions(self) -> list[Action]:
        count, size = len(self.stages), self.size
        rounds = max(1, self.n // size)
        if self.n % rounds:
            raise ValueError(
                f"Interleaved 1F1B requires the number of microbatches to be a multiple of the number of rounds ({rounds}), "
                f"but got {self.n}."
            )
        each, total = self.n // rounds, self.n * count

        def forward(j: int) -> Action:
            return "F", (j // each) % count, (j // (each * count)) * each + j % each

        def backward(j: int) -> Action:
            return "B", count - 1 - (j // each) % count, (j // (each * count)) * each + j % each

        ahead = min(total, (count - 1) * each + 2 * (size - 1 - self.rank) + 1)
        order = [forward(j) for j in range(ahead)]
        for j in range(total):
            order.append(backward(j))
            if j + ahead < total:
                order.append(forward(j + ahead))
        return order
