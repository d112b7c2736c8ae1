"""Schedules: in which order a process runs the forwards and backwards of its stages.

A schedule is a list of actions (kind, stage, microbatch) for this process. Messages are sent without waiting and received when an
action needs them, so any order in which each action comes after those it depends on runs to its end.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.distributed.pipelining.microbatch import (
    merge_chunks,
    parts,
    split_args_kwargs_into_chunks,
)
from rushlight.distributed.pipelining.stage import PipelineStage

__all__ = [
    "PipelineScheduleMulti", "PipelineScheduleSingle", "Schedule1F1B", "ScheduleDualPipeV", "ScheduleGPipe", "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble", "ScheduleLoopedBFS", "ScheduleZBVZeroBubble", "get_schedule_class",
]  # fmt: skip

# ("F" or "B", or of a backward in halves "I" and "W"; the number of the stage among this process's; the microbatch)
Action = tuple[str, int, int]


class PipelineSchedule:
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
        rows, names = split_args_kwargs_into_chunks(
            args, kwargs, self.n, self.args_chunk_spec, self.kwargs_chunk_spec
        )
        targets = parts(target, self.n) if target is not None else None
        others = {stage.stage_index: stage for stage in self.stages}
        found: dict[int, Tensor] = {}
        for kind, number, k in self.actions():
            stage = self.stages[number]
            if kind == "F":
                result = stage.forward_one(k, rows[k], names[k], others, train)
                if stage.is_last and self.loss_fn is not None and targets is not None:
                    found[k] = self.loss_fn(result, targets[k])
            elif train and kind == "W":
                stage.finish_backward(k)
            elif train:
                if stage.is_last and k not in found:
                    raise RuntimeError("the process of the last stage needs a target")
                stage.backward_one(k, found[k] if stage.is_last else None, others, kind == "I")
        result = None
        for stage in self.stages:
            stage.finish()
            if train and self.scale_grads:
                stage.scale_grads(self.n)
            if stage.is_last:
                outputs = [stage.outputs[k] for k in range(self.n)]
                # After backward the results hold none of it.
                with rushlight.set_grad_enabled(rushlight.is_grad_enabled() and not train):
                    result = merge_chunks(outputs, self.output_merge_spec) if wanted else None
                if losses is not None:
                    losses[:] = [found[k] for k in sorted(found)]
            stage.clear()
        return result


_PipelineSchedule = PipelineSchedule  # programs import it under this name of PyTorch's


class PipelineScheduleSingle(PipelineSchedule):
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


class ScheduleGPipe(PipelineScheduleSingle):
    """All microbatches forward, then all back."""

    def actions(self) -> list[Action]:
        return [(kind, 0, k) for kind in "FB" for k in range(self.n)]


class Schedule1F1B(PipelineScheduleSingle):
    """One forward, one backward, in turn: a stage keeps no more microbatches than there are stages from it to the end."""

    def __init__(
        self,
        stage: PipelineStage,
        n_microbatches: int,
        loss_fn: Callable[..., Tensor] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(stage, n_microbatches, loss_fn, **options)
        if n_microbatches < stage.num_stages:
            raise ValueError(
                f"Number of microbatches ({n_microbatches}) must be greater than or equal to the number of stages "
                f"({stage.num_stages})."
            )

    def actions(self) -> list[Action]:
        ahead = min(self.n, self.size - self.rank)
        order: list[Action] = [("F", 0, k) for k in range(ahead)]
        for k in range(self.n):
            order.append(("B", 0, k))
            if k + ahead < self.n:
                order.append(("F", 0, k + ahead))
        return order


class PipelineScheduleMulti(PipelineSchedule):
    """A schedule of several stages on each process: numbers `rank`, `rank + size`..."""

    place = staticmethod(operator.mod)  # (stage, size of the group) -> process

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            sorted(stages, key=lambda s: s.stage_index), n_microbatches, loss_fn, **options
        )
        for stage in self.stages:
            stage.place = self.place
        count = self.stages[0].num_stages
        expected = [k for k in range(count) if self.place(k, self.size) == self.rank]
        if [stage.stage_index for stage in self.stages] != expected:
            raise ValueError(f"this process has the stages {expected} of the pipeline")


class ScheduleLoopedBFS(PipelineScheduleMulti):
    """Stage by stage: all microbatches forward, then all back."""

    def actions(self) -> list[Action]:
        numbers = range(len(self.stages))
        forward = [("F", s, k) for s in numbers for k in range(self.n)]
        return forward + [("B", s, k) for s in reversed(numbers) for k in reversed(range(self.n))]


class ScheduleInterleaved1F1B(PipelineScheduleMulti):
    """One forward, one backward, in turn, through rounds of as many microbatches as there are processes."""

    kind = "1F1B"
    laps = 2  # what a process is ahead of the next one with its forwards

    def actions(self) -> list[Action]:
        count, size = len(self.stages), self.size
        rounds = max(1, self.n // size)
        if self.n % rounds:
            raise ValueError(
                f"Interleaved {self.kind} requires the number of microbatches to be a multiple of the number of rounds ({rounds}), "
                f"but got {self.n}."
            )
        each, total = self.n // rounds, self.n * count

        def forward(j: int) -> Action:
            return "F", (j // each) % count, (j // (each * count)) * each + j % each

        def backward(j: int) -> Action:
            return "B", count - 1 - (j // each) % count, (j // (each * count)) * each + j % each

        ahead = min(total, (count - 1) * each + self.laps * (size - 1 - self.rank) + 1)
        order = [forward(j) for j in range(ahead)]
        for j in range(total):
            order.append(backward(j))
            if j + ahead < total:
                order.append(forward(j + ahead))
        return order


class ScheduleInterleavedZeroBubble(ScheduleInterleaved1F1B):
    """As `ScheduleInterleaved1F1B`, with backwards in halves: the gradients of parameters fill the time in which processes wait."""

    kind = "Zero Bubble"
    laps = 1

    def actions(self) -> list[Action]:
        # `late`: second halves that are left, as many as the process is behind the first one
        order: list[Action] = []
        late: list[Action] = []
        for kind, stage, k in super().actions():
            order.append(("I" if kind == "B" else kind, stage, k))
            if kind == "B":
                late.append(("W", stage, k))
                if len(late) > self.rank:
                    order.append(late.pop(0))
        return order + late


def _along_a_v(stage: int, size: int) -> int:
    """The process of a stage where the stages go through all processes and back."""
    return min(stage % (2 * size), 2 * size - 1 - stage % (2 * size))


class _AlongAV(PipelineScheduleMulti):
    """Two stages on each process, `rank` and `2 * size - 1 - rank`: the first process has the first and the last stage."""

    place = staticmethod(_along_a_v)

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        if len(stages) != 2:
            raise ValueError(f"ZBV requires exactly 2 stages per rank, but got {len(stages)}.")
        super().__init__(stages, n_microbatches, loss_fn, **options)


class ScheduleZBVZeroBubble(_AlongAV):
    """Two stages on each process, `rank` and `2 * size - 1 - rank`, and backwards in halves: a process has the first and the last
    stage.

    Each does what is ready: the gradients that others wait for before forwards, those of parameters when there is nothing else.
    """

    def actions(self) -> list[Action]:
        size = self.size
        done: dict[tuple[str, int, int], int] = {}  # (kind, stage, microbatch) -> the moment
        orders: list[list[Action]] = [[] for _ in range(size)]
        moment = 0
        while len(orders[self.rank]) < 6 * self.n:
            for rank, order in enumerate(orders):
                chosen = self._next(rank, order, done, moment)
                if chosen is not None:
                    kind, number, k = chosen
                    order.append(chosen)
                    done[kind, (rank, 2 * size - 1 - rank)[number], k] = moment
            moment += 1
        return orders[self.rank]

    def _next(self, rank: int, order: list[Action], done: dict, moment: int) -> Action | None:
        """What a process does at a moment, as all take as long; None where it waits for others."""
        last = 2 * self.size - 1
        counts = {(kind, s): 0 for kind in "FIW" for s in (0, 1)}
        for kind, s, _ in order:
            counts[kind, s] += 1
        held = len(order) - counts["I", 0] - counts["I", 1] - 2 * (counts["W", 0] + counts["W", 1])
        for kind, s in (("I", 1), ("I", 0), ("F", 1), ("F", 0), ("W", 1), ("W", 0)):
            k, stage = counts[kind, s], (rank, last - rank)[s]
            if kind == "F":
                before = None if stage == 0 else ("F", stage - 1, k)
                room = held < self.size * 2 - (1 - s)  # one place for what comes back
            else:
                before = ("I", stage, k) if kind == "W" else ("I", stage + 1, k)
                if kind == "I" and stage == last:
                    before = ("F", stage, k)
                room = True
            if k < self.n and room and (before is None or done.get(before, moment) < moment):
                return kind, s, k
        return None


class ScheduleDualPipeV(_AlongAV):
    """The stages of `ScheduleZBVZeroBubble` in the order of DualPipe (DeepSeek-AI 2025), cut in half to a V: a forward of one stage beside a
    backward of the other, backwards in halves only where processes would wait.

    What stands beside each other runs one after the other here.
    """

    def __init__(
        self, stages: Sequence[PipelineStage], n_microbatches: int, loss_fn: Callable[..., Tensor] | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(stages, n_microbatches, loss_fn, **options)
        if n_microbatches < self.stages[0].num_stages:
            raise ValueError(
                f"DualPipeV requires at least as many microbatches as stages, but got {n_microbatches} microbatches and "
                f"{self.stages[0].num_stages} stages."
            )

    def actions(self) -> list[Action]:
        here, later = self.rank + 1, self.size - self.rank - 1
        order: list[Action] = []
        late: list[Action] = []  # second halves of backwards that are left
        counts = {("F", 0): 0, ("F", 1): 0, ("B", 0): 0, ("B", 1): 0}

        def add(text: str, times: int) -> None:
            for each in text.split() * times:
                if each == "W":
                    order.append(late.pop(0))
                    continue
                kind, stage = each[0], int(each[1])
                of = "F" if kind == "F" else "B", stage
                order.append((kind, stage, counts[of]))
                if kind == "I":
                    late.append(("W", stage, counts[of]))
                counts[of] += 1

        add("F0", 2 * later)
        add("F0 F1", here)
        add("I1 W F1", later)
        add("F0 B1 F1 B0", self.n - 2 * self.size + here)
        add("B1 F1 B0", later)
        add("B1 B0", here // 2)
        add("B1 I0", here % 2)
        add("I1 I0", here // 2)
        add("W I0", later)
        add("W", here)
        return order


SCHEDULES: dict[str, type[PipelineSchedule]] = {
    "1F1B": Schedule1F1B, "Interleaved1F1B": ScheduleInterleaved1F1B, "GPipe": ScheduleGPipe,
    "LoopedBFS": ScheduleLoopedBFS, "InterleavedZeroBubble": ScheduleInterleavedZeroBubble,
    "PipelineScheduleSingle": PipelineScheduleSingle, "PipelineScheduleMulti": PipelineScheduleMulti,
    "ZBVZeroBubble": ScheduleZBVZeroBubble, "DualPipeV": ScheduleDualPipeV,
}  # fmt: skip


def get_schedule_class(schedule_name: str) -> type[PipelineSchedule]:
    """The schedule of a name, in upper or lower case."""
    for name, schedule in SCHEDULES.items():
        if name.lower() == schedule_name.lower():
            return schedule
    raise ValueError(
        f"Unknown schedule name '{schedule_name}'. The valid options are {[*SCHEDULES]}"
    )
