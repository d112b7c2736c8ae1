"""Activations and bounds, beside what the rows of tests/opdb_nn.py say: the sign of zero."""

from __future__ import annotations

import pytest

import rushlight as torch
import rushlight.nn.functional as F


@pytest.mark.parametrize("n", [1, 100])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_what_lies_at_a_bound_keeps_its_sign(dtype, n):
    """-0 is not below 0: `relu`, `clamp` and their like hand it on, alone, in rows of memory and in columns."""
    row = torch.tensor([-0.0, 0.0, -1.0, 2.0], dtype=dtype).repeat(n)
    column = row.repeat(2, 1).t().contiguous().t()
    for x in (row, row[::2], column):
        for f in (
            torch.relu, lambda x: x.clone().relu_(), F.relu6, F.elu,
            lambda x: x.clamp(min=0), lambda x: x.clone().clamp_(min=0), lambda x: x.clamp_min(0),
            lambda x: x.clamp(0, 1), lambda x: x.clamp(max=0), lambda x: x.clamp(-1, 0), lambda x: F.hardtanh(x, 0, 1),
        ):  # fmt: skip
            y = f(x)
            assert bool((torch.signbit(y) == torch.signbit(x))[x == 0].all())
