"""Calls that users get wrong, or that will go away, give PyTorch's warnings, and calls like them give none."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.utils.checkpoint
from user_warnings import QUIET, ROWS, warnings_of


@pytest.mark.parametrize("name, program, kind, part", ROWS, ids=[row[0] for row in ROWS])
def test_warning(name, program, kind, part):
    ((given, text),) = warnings_of(torch, program)
    assert given == kind
    assert part in text


@pytest.mark.parametrize("program", QUIET)
def test_no_warning(program):
    assert warnings_of(torch, program) == []
