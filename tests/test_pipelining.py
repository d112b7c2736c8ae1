"""Models in stages. Jobs run where mpi4py is installed."""

from __future__ import annotations

import pathlib

import pytest

import rushlight as torch
from rushlight.distributed.pipelining import SplitPoint, pipe_split, pipeline
from test_distributed import check, job, needs_mpi

PROGRAMS = pathlib.Path(__file__).parent / "pipeline_programs.py"


@needs_mpi
@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        ("one_stage_each,by_hand,several_stages_each", 2),
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
