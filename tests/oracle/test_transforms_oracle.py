"""Programs with function transforms give PyTorch's numbers."""

import numpy as np
import pytest
import torch

import rushlight
from transform_programs import PROGRAMS

# (PyTorch's forward mode compiles rules by it)
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script:DeprecationWarning")


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_same_numbers(program):
    ours, theirs = program(rushlight)[0], program(torch)[0]
    assert len(ours) == len(theirs)
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-4, atol=2e-5)
