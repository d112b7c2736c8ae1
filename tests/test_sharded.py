"""Meshes of processes, and parameters and optimizers that are spread over them. Jobs run where mpi4py is installed."""

from __future__ import annotations

import os
import pathlib

import pytest

from test_distributed import check, job, needs_mpi

PROGRAMS = pathlib.Path(__file__).parent / "sharded_programs.py"


@needs_mpi
@pytest.mark.parametrize(
    ("names", "ranks"),
    [
        ("collectives_with_gradients,fully_shard,fully_sharded,full_precision_of_fully_sharded", 2),
        (
            "zero,zero_within_backward,uneven_inputs,narrow_gradients,scaler,stepped_in_backward,moved_states",
            2,
        ),
        ("mesh,zero,zero_within_backward,fully_shard,fully_sharded,two_ways", 4),
    ],
)
def test_job(names, ranks):
    """One start of the processes runs several programs."""
    check(job(names, ranks, PROGRAMS))


@needs_mpi
@pytest.mark.skipif(not os.access("/proc/self/clear_refs", os.W_OK), reason="needs Linux")
def test_memory_of_gathered_parameters_is_given_back():
    check(job("memory", 2, PROGRAMS))
