"""Models in stages. Jobs run where mpi4py is installed."""

from __future__ import annotations

import pathlib

import pytest

import rushlight as torch
from rushlight.distributed.pipelining import SplitPoint, pipe_split, pipeline, schedules
from rushlight.distributed.pipelining.halves import first_half
from test_distributed import check, job, needs_mpi

PROGRAMS = pathlib.Path(__file__).parent / "pipeline_programs.py"


@needs_mpi
@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        ("one_stage_each,by_hand,several_stages_each,along_a_v,left_for_later", 2),
        pytest.param("one_stage_each,by_hand", 4, marks=pytest.mark.slow),
    ],
)
def test_job(names, ranks):
    check(job(names, ranks, PROGRAMS))


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3)
        self.scale = torch.nn.Parameter(torch.tensor(2.0))

    def forward(self, x, y):
        z = self.a(x) * self.scale
        pipe_split()
        return self.b(torch.relu(z)) * self.scale + x, y


def test_a_model_is_cut():
    net, x = Net(), torch.randn(2, 3)
    y = torch.ones(1)
    for pipe in (
        pipeline(net, (x, y)),
        pipeline(net, (x, y), split_spec={"a": SplitPoint.END, "b": SplitPoint.BEGINNING}),
    ):
        assert pipe.num_stages in (2, 4)
        for got, expected in zip(pipe(x, y), net(x, y)):
            assert torch.equal(got, expected)
        names = {n for n, _ in pipe.get_stage_module(0).named_parameters()}
        assert {"a.weight", "a.bias"} <= names and "b.weight" not in names
    with pytest.raises(AssertionError, match="nonexistent module"):
        pipeline(net, (x, y), split_spec={"c": SplitPoint.END})


class Tied(torch.nn.Module):
    """A weight that is used twice: backward cannot be cut in two."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4, 4))

    def forward(self, x):
        return (x @ self.weight).relu() @ self.weight


class TiedThrough(Tied):
    """A weight that is used twice, each time through an operation on it alone."""

    def forward(self, x):
        return (x @ self.weight.t()).tanh() @ (self.weight * 2)


class Hooked(torch.nn.Linear):
    """A hook on what a layer gives, which must run once."""

    def forward(self, x):
        y = super().forward(x)
        y.register_hook(lambda g: g * 2)
        return y.exp()


@pytest.mark.parametrize(
    ("make", "later"),
    [
        (lambda: torch.nn.Linear(4, 4), True),
        (lambda: torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 4)), True),
        (lambda: torch.nn.TransformerEncoderLayer(4, 2, 8, 0.0), True),
        (Tied, False),
        (TiedThrough, True),
        (lambda: Hooked(4, 4), False),
    ],
)  # fmt: skip
def test_backward_in_halves(make, later):
    torch.manual_seed(0)
    module, x, g = make(), torch.randn(5, 4, requires_grad=True), torch.randn(5, 4)
    module(x).backward(g)
    expected = [p.grad for p in module.parameters()]
    module.zero_grad()
    inputs = x.detach().requires_grad_()
    (found,), finish = first_half([module(inputs)], [g], [inputs])
    torch.testing.assert_close(found, x.grad)
    assert all((p.grad is None) == later for p in module.parameters())
    finish()
    for p, each in zip(module.parameters(), expected, strict=True):
        torch.testing.assert_close(p.grad, each)


def orders(kind, size, n):
    """What each process does, without the processes."""
    made = []
    for rank in range(size):
        schedule = object.__new__(kind)
        schedule.size, schedule.rank, schedule.n, schedule.stages = size, rank, n, [None, None]
        made.append(schedule.actions())
    return made


def halves(action):
    """A whole backward as its two halves."""
    kind, *rest = action
    return [(each, *rest) for each in ("IW" if kind == "B" else kind)]


@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("rounds", [1, 2, 4])
@pytest.mark.parametrize("name", ["InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV"])
def test_processes_hardly_wait(name, size, rounds):
    kind, n, last = schedules.get_schedule_class(name.lower()), size * rounds, 2 * size - 1
    if name == "DualPipeV" and rounds == 1:
        return  # refused: it has as many microbatches as stages
    mine = [[k for k in range(2 * size) if kind.place(k, size) == rank] for rank in range(size)]
    left = [[part for each in order for part in halves(each)] for order in orders(kind, size, n)]
    done, moments = set(), 0
    assert all(len(set(order)) == len(order) == 6 * n for order in left)
    while any(left):
        moments, now = moments + 1, []
        for rank, order in enumerate(left):
            if order:
                what, stage, k = order[0][0], mine[rank][order[0][1]], order[0][2]
                before = {"F": ("F", stage - 1, k), "I": ("I", stage + 1, k), "W": ("I", stage, k)}[
                    what
                ]
                before = ("F", stage, k) if (what, stage) == ("I", last) else before
                if (what, stage) == ("F", 0) or before in done:
                    now.append((rank, (what, stage, k)))
        assert now, "all wait for each other"
        for rank, action in now:
            left[rank].pop(0)
            done.add(action)
    assert moments - 6 * n <= size


def test_schedules_by_name():
    assert schedules.get_schedule_class("1f1b") is schedules.Schedule1F1B
    assert issubclass(schedules.ScheduleGPipe, schedules.PipelineScheduleSingle)
    with pytest.raises(ValueError, match="Unknown schedule name 'none'"):
        schedules.get_schedule_class("none")
