"""Sobol sequences are PyTorch's, number for number."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rushlight
import rushlight.quasirandom

LIBRARIES = (torch, rushlight)


def engines(*args):
    for lib in LIBRARIES:
        lib.manual_seed(3)
    return [lib.quasirandom.SobolEngine(*args) for lib in LIBRARIES]


def same(theirs, ours):
    theirs, ours = theirs.numpy(), ours.numpy()
    assert theirs.dtype == ours.dtype
    assert np.array_equal(theirs, ours)


@pytest.mark.parametrize("dimension", [1, 2, 3, 100, 1111, 1500, 21201])
def test_every_dimension(dimension):
    theirs, ours = engines(dimension)
    same(theirs.sobolstate, ours.sobolstate)
    for n in (1, 3, 5):
        same(theirs.draw(n), ours.draw(n))


@pytest.mark.parametrize("seed", [0, 5, None])
@pytest.mark.parametrize("dimension", [1, 3, 50])
def test_scrambled(dimension, seed):
    theirs, ours = engines(dimension, True, seed)
    same(theirs.sobolstate, ours.sobolstate)
    same(theirs.shift, ours.shift)
    for n in (1, 7, 100, 1, 4096):
        same(theirs.draw(n), ours.draw(n))
    same(theirs.draw(9, dtype=torch.float64), ours.draw(9, dtype=rushlight.float64))
    for skipped in (1000, 17):
        theirs.fast_forward(skipped)
        ours.fast_forward(skipped)
        same(theirs.draw(5), ours.draw(5))
        theirs.reset()
        ours.reset()
    same(theirs.draw(2, dtype=torch.float64), ours.draw(2, dtype=rushlight.float64))
    theirs.reset()
    ours.reset()
    same(theirs.draw_base2(4), ours.draw_base2(4))
    assert repr(theirs) == repr(ours)
