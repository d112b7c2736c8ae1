"""The table of exported functions holds what PyTorch exports."""

import pytest
import torch

from export_functions import FUNCTIONS, operators


@pytest.mark.parametrize("source", FUNCTIONS)
def test_operators_of_a_function(source):
    _, names = operators(torch, source, torch.rand(1, 2, 4, 4))
    assert names == FUNCTIONS[source]
