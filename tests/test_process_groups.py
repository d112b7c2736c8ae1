"""Process groups called as PyTorch's C++ classes are, groups that programs make themselves, buckets."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import rushlight as torch
import rushlight.distributed as dist
from test_distributed import check, job, needs_mpi

PROGRAMS = pathlib.Path(__file__).parent / "group_programs.py"


CALLS = "reduced_lists,moved_lists,refused_lists,many_at_once,gathered_together"
GRADIENTS = "reducers,gradients_of_steps_without_reduction"
OF_FOUR = "numbered,saved_modules,groups_in_groups,local_steps,averaged_in_groups,rounded_gradients,replicated"


@needs_mpi
@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        (f"{CALLS},{GRADIENTS}", 2),
        (f"{CALLS},{GRADIENTS}", 4),
        ("compared", 2),
        ("compared", 4),
        (OF_FOUR, 4),
        ("made_by_itself", 4),
    ],
)
def test_job(names, ranks):
    check(job(names, ranks, PROGRAMS))


def test_groups_of_a_program_s_own():
    check(job("groups_of_its_own", 1, PROGRAMS))


def test_buckets_by_size():
    f, d = torch.float32, torch.float64

    def assigned(tensors, *more):
        made = [torch.empty(n, dtype=t) for n, t in tensors]
        return dist._compute_bucket_assignment_by_size(made, *more)

    assert assigned([(50, f), (25, f), (50, f), (25, f)], [400]) == ([[0, 1, 2], [3]], [400, 400])
    assert assigned([(50, f), (25, d)] * 3, [200, 400]) == (
        [[0], [1], [2, 4], [3, 5]],
        [200, 200, 400, 400],
    )
    assert assigned([(10, f)] * 7, [40, 120, 80])[0] == [[0], [1, 2, 3], [4, 5], [6]]
    sparse = [False, True, False, False, True, False]
    assert assigned([(10, f)] * 6, [40, 80], sparse) == (
        [[0], [1], [2, 3], [4], [5]],
        [40, 0, 80, 0, 80],
    )
    assert assigned([(10, f)] * 4, [1000], [], [3, 1, 2, 0]) == ([[3, 1, 2, 0]], [1000])
    with pytest.raises(RuntimeError, match="must not be empty"):
        assigned([], [40])


def test_a_kind_of_reduction_is_equal_to_itself_alone():
    kind, op = dist.ReduceOp.SUM, dist.ReduceOp(dist.ReduceOp.SUM)
    assert op == kind and kind != op and len({kind, dist.ReduceOp.MAX, kind}) == 2


def test_powersgd_begins_with_pytorch_s_numbers():
    from rushlight.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    shapes = [(2, 3), (4, 5), (2, 3)]
    for together in (False, True):
        state = power.PowerSGDState(None, 2, random_seed=7, batch_tensors_with_same_shape=together)
        torch.manual_seed(1)
        before = torch.get_rng_state()
        drawn = power._drawn(state, [torch.zeros(*shape) for shape in shapes], [2, 2, 2])
        assert torch.equal(torch.get_rng_state(), before)
        torch.manual_seed(np.random.RandomState(7).randint(1_000_000_000))
        if together:
            first, last = torch.randn(2, 3, 2)
        else:
            first, last = torch.randn(3, 2), torch.randn(3, 2)
        expected = [first, torch.randn(5, 2), last]
        assert all(map(torch.equal, drawn, expected))
