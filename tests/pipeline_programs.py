"""What the processes of `test_pipelining.py` run: `python pipeline_programs.py NAME`, once for each rank."""

from __future__ import annotations

import copy
from datetime import timedelta

import pytest

import rushlight as torch
import rushlight.distributed as dist
import rushlight.nn.functional as F
from processes import run_programs
from rushlight.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
    SplitPoint,
    build_stage,
    pipeline,
)


def start():
    if not dist.is_initialized():
        dist.init_process_group("mpi", timeout=timedelta(seconds=60))
    return dist.get_rank(), dist.get_world_size()


class Model(torch.nn.Module):
    def __init__(self, layers=4):
        super().__init__()
        torch.manual_seed(0)
        self.embedding = torch.nn.Embedding(11, 8)
        self.layers = torch.nn.ModuleList(
            torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 8))
            for _ in range(layers)
        )
        self.output = torch.nn.Linear(8, 11)

    def forward(self, tokens):
        x = self.embedding(tokens)
        first = x
        for layer in self.layers:
            x = x + layer(x)
        return self.output(x + first)  # a value that goes past all stages


def loss_of(output, target):
    return F.cross_entropy(output.flatten(0, 1), target.flatten())


def batch(k):
    torch.manual_seed(k)
    return torch.randint(11, (8, 5)), torch.randint(11, (8, 5))


def cut(count):
    """The model in stages; a number of layers each."""
    return pipeline(
        Model(),
        (batch(0)[0][:2],),
        split_spec={f"layers.{4 * k // count}": SplitPoint.BEGINNING for k in range(1, count)},
    )


def compared(schedule, stages, last, steps):
    """Steps of a schedule have the losses of one process."""
    rank, _ = start() if not dist.is_initialized() else (dist.get_rank(), 0)
    alone = Model()
    optimizers = [torch.optim.Adam(alone.parameters(), lr=1e-2)]
    optimizers += [torch.optim.Adam(stage.submod.parameters(), lr=1e-2) for stage in stages]
    for k in range(steps):
        tokens, target = batch(k)
        for optimizer in optimizers:
            optimizer.zero_grad()
        expected = alone(tokens)
        loss = loss_of(expected, target)
        loss.backward()
        losses = []
        got = schedule.step(
            *((tokens,) if stages[0].is_first else ()),
            target=target if rank == last else None,
            losses=losses,
        )
        assert (got is None) == (rank != last)
        if rank == last:
            assert not got.requires_grad
            torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
            assert len(losses) == schedule.n
            assert abs(torch.stack(losses).mean().item() - loss.item()) < 1e-5, (k, losses, loss)
        for optimizer in optimizers:
            optimizer.step()
    tokens, _ = batch(0)
    got = schedule.eval(*((tokens,) if stages[0].is_first else ()))
    if rank == last:
        torch.testing.assert_close(got, alone(tokens), rtol=1e-4, atol=1e-4)


def one_stage_each():
    rank, size = start()
    for kind, steps, count in (
        (ScheduleGPipe, 10, 4),
        (ScheduleGPipe, 2, 1),
        (Schedule1F1B, 50, 4),
    ):
        stage = cut(size).build_stage(rank)
        compared(kind(stage, n_microbatches=count, loss_fn=loss_of), [stage], size - 1, steps)
    schedule = ScheduleGPipe(cut(size).build_stage(rank), 4)  # without a loss
    got = schedule.step(*((batch(0)[0],) if rank == 0 else ()))
    assert rank < size - 1 or got.requires_grad
    with pytest.raises(ValueError, match="Number of microbatches"):
        Schedule1F1B(stage, 1)
    pipe = cut(size)
    wrapped = torch.nn.Sequential(pipe.get_stage_module(rank))
    stage = build_stage(wrapped, rank, pipe.info(), "cpu")
    assert (stage.stage_index, stage.num_stages, pipe.info().num_stages) == (rank, size, size)


def several_stages_each():
    rank, size = start()
    for kind in (ScheduleLoopedBFS, ScheduleInterleaved1F1B, ScheduleInterleavedZeroBubble):
        pipe = cut(4)
        stages = [pipe.build_stage(k) for k in range(rank, 4, 2)]
        compared(kind(stages, 4, loss_fn=loss_of), stages, 1, 10)


def along_a_v():
    """The process of the first stage has the last one too."""
    rank, size = start()
    for kind in (ScheduleZBVZeroBubble, ScheduleDualPipeV):
        pipe = cut(4)
        stages = [pipe.build_stage(k) for k in (rank, 3 - rank)]
        compared(kind(stages, 4, loss_fn=loss_of), stages, 0, 10)
        with pytest.raises(ValueError, match="exactly 2 stages"):
            kind(stages[:1], 4)
        with pytest.raises(ValueError, match="this process has the stages"):
            kind([pipe.build_stage(k) for k in (rank, 2 + rank)], 4)
    with pytest.raises(ValueError, match="at least as many microbatches as stages, but got 3"):
        ScheduleDualPipeV(stages, 3)


def left_for_later():
    """What `dw_builder` gives runs once for each microbatch, after its backward."""
    rank, size = start()
    calls = []
    layers = [torch.nn.Linear(4, 4) for _ in range(4)]
    stages = [
        PipelineStage(
            layers[k], k, 4, torch.device("cpu"), dw_builder=lambda k=k: lambda: calls.append(k)
        )
        for k in (rank, 3 - rank)
    ]
    schedule = ScheduleZBVZeroBubble(stages, 4, loss_fn=lambda y, t: (y - t).square().mean())
    x = torch.randn(8, 4)
    schedule.step(*((x,) if rank == 0 else ()), target=x if rank == 0 else None)
    assert sorted(calls) == sorted([rank, 3 - rank] * 4)


class Part(torch.nn.Module):
    """Two tensors go on, one of them without a gradient."""

    def __init__(self, last):
        super().__init__()
        self.layer, self.last = torch.nn.Linear(4, 4), last

    def forward(self, x, mask):
        x = self.layer(x) * mask
        return x if self.last else (x, mask)


def by_hand():
    """Stages that are modules of one's own, parts that are not alike, losses without their mean."""
    rank, size = start()
    torch.manual_seed(0)
    parts = [Part(k == size - 1) for k in range(size)]
    alone = copy.deepcopy(parts)
    stage = PipelineStage(parts[rank], rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(
        stage, 4, loss_fn=lambda y, t: (y - t).square().sum(), scale_grads=False
    )
    x, mask, target = torch.randn(8, 4), torch.randint(2, (8, 4)), torch.randn(8, 4)
    y = x, mask
    for part in alone:
        y = part(*y)
    (y - target).square().sum().backward()
    for _ in range(2):
        parts[rank].zero_grad()
        schedule.step(
            *((x, mask) if rank == 0 else ()), target=target if rank == size - 1 else None
        )
        torch.testing.assert_close(parts[rank].layer.weight.grad, alone[rank].layer.weight.grad)


if __name__ == "__main__":
    run_programs(globals())
