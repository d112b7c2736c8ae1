"""The table of exported functions holds what PyTorch exports, and programs that it exports run here."""

import numpy as np
import pytest
import torch

import rushlight
from export_functions import FUNCTIONS, operators
from rushlight.utils._pytree import tree_leaves


@pytest.mark.parametrize("source", FUNCTIONS)
def test_operators_of_a_function(source):
    _, names = operators(torch, source, torch.rand(1, 2, 4, 4))
    assert names == FUNCTIONS[source]


class Layers(torch.nn.Module):
    """Layers of several kinds, with results in a list, a tuple and a dictionary."""

    def __init__(self):
        super().__init__()
        self.convolution, self.norm = torch.nn.Conv2d(2, 4, 3, 2, 1), torch.nn.BatchNorm2d(4)
        self.up, self.lstm = torch.nn.ConvTranspose2d(4, 2, 2, 2), torch.nn.LSTM(4, 6, 2)
        self.attention = torch.nn.MultiheadAttention(4, 2, batch_first=True)
        self.register_buffer("mask", torch.triu(torch.ones(4, 4, dtype=torch.bool), 1))

    def forward(self, x):
        F = torch.nn.functional
        y = F.hardswish(self.norm(self.convolution(x)))
        best, places = F.max_pool2d(self.up(y), 2, return_indices=True)
        rows = x[0]
        seen, _ = self.attention(rows, rows, rows, attn_mask=self.mask, need_weights=False)
        sequence, (h, c) = self.lstm(rows)
        found = {"places": places, "loss": F.cross_entropy(sequence[0], torch.arange(4))}
        return [best, F.interpolate(y, scale_factor=2, mode="bilinear")], (seen, h, c.sum()), found


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("decomposed", [False, True])
@pytest.mark.parametrize("training", [False, True])
def test_programs_of_pytorch_run(tmp_path, training, decomposed):
    x = torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(0))
    program = torch.export.export(Layers().train(training), (x,))
    program = program.run_decompositions() if decomposed else program
    torch.export.save(program, tmp_path / "program.pt2")
    read = rushlight.export.load(tmp_path / "program.pt2").module()
    results = tree_leaves(read(rushlight.from_numpy(x.numpy())))
    for got, want in zip(
        results, torch.utils._pytree.tree_leaves(program.module()(x)), strict=True
    ):
        np.testing.assert_allclose(got.detach().numpy(), want.detach().numpy(), 1e-4, 1e-5)
