"""Tensors spread over processes, and layers whose parameters are. Jobs run where mpi4py is installed."""

from __future__ import annotations

import pathlib

import pytest

from test_distributed import check, job, needs_mpi

PROGRAMS = pathlib.Path(__file__).parent / "spread_programs.py"


@needs_mpi
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "names",
    [
        "operators",
        "placements,prepared,kept_in_parts,tensor_parallel,counted,saved,sums,unused_results,mapped,registered,hooked,shown,converted",
    ],
)
def test_job(names, ranks):
    check(job(names, ranks, PROGRAMS))


@needs_mpi
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.slow)])
def test_parts_of_sequences(ranks):
    check(job("parts_of_sequences", ranks, PROGRAMS.with_name("sequence_programs.py")))
