"""Calls that users get wrong, or that will go away, give PyTorch's warnings, and calls like them give none."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.utils.checkpoint
from processes import finished
from user_warnings import AT_THE_CALL, QUIET, ROWS, caught_of, warnings_of


@pytest.mark.parametrize("name, program, kind, part", ROWS, ids=[row[0] for row in ROWS])
def test_warning(name, program, kind, part):
    ((given, text),) = warnings_of(torch, program)
    assert given == kind
    assert part in text


@pytest.mark.parametrize("program", QUIET)
def test_no_warning(program):
    assert warnings_of(torch, program) == []


@pytest.mark.parametrize("program", AT_THE_CALL)
def test_place(program):
    assert {warning.filename for warning in caught_of(torch, program)} == {"<program>"}


def test_a_list_of_arrays_warns_once():
    text = "Creating a tensor from a list of numpy.ndarrays is extremely slow"
    program = "import warnings; warnings.simplefilter('always'); import numpy, rushlight as torch\n"
    done = finished("-c", program + "for _ in range(3): torch.tensor([numpy.ones(2)])")
    assert done.stderr.count(text) == 1
