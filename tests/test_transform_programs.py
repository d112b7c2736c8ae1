"""Programs with function transforms: what can be computed in two ways agrees."""

import pytest

import rushlight as torch
from rushlight.testing import assert_close
from transform_programs import PROGRAMS


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_both_ways_agree(program):
    for one, other in program(torch)[1]:
        assert_close(one, other, rtol=1e-4, atol=1e-5)
