"""The operators of exported programs are those of PyTorch, and the programs give what the functions give."""

import pytest

import rushlight as torch
from export_functions import FUNCTIONS, operators


@pytest.mark.parametrize("source", FUNCTIONS)
def test_operators_of_a_function(source):
    x = torch.rand(1, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    program, names = operators(torch, source, x)
    assert names == FUNCTIONS[source]
    wanted = eval(source, {"torch": torch, "F": torch.nn.functional, "x": x})
    torch.testing.assert_close(program.module()(x), wanted)
