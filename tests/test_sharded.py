"""Meshes of processes, and parameters and optimizers that are spread over them. Jobs run where mpi4py is installed."""

from __future__ import annotations

import pathlib

from test_distributed import check, job, needs_mpi

PROGRAMS = pathlib.Path(__file__).parent / "sharded_programs.py"


@needs_mpi
def test_mesh():
    check(job("mesh", 4, PROGRAMS))


@needs_mpi
def test_collectives_with_gradients():
    check(job("collectives_with_gradients", 2, PROGRAMS))
