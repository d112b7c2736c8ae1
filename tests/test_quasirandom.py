"""torch.quasirandom.SobolEngine; in tests/oracle its numbers are compared with PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from rushlight.quasirandom import SobolEngine


def test_the_first_points():
    engine = SobolEngine(3)
    expected = [[0, 0, 0], [0.5, 0.5, 0.5], [0.75, 0.25, 0.25], [0.25, 0.75, 0.75]]
    assert engine.draw(4).tolist() == expected
    assert engine.num_generated == 4
    assert engine.reset().draw().tolist() == expected[:1]
    assert engine.draw(3).tolist() == expected[1:]
    assert repr(engine) == "SobolEngine(dimension=3)"


@pytest.mark.parametrize("scramble", [False, True])
def test_pieces_are_the_whole(scramble):
    whole = SobolEngine(5, scramble, seed=3).draw(100)
    engine = SobolEngine(5, scramble, seed=3)
    pieces = torch.cat([engine.draw(n) for n in (1, 2, 30, 1, 66)])
    assert torch.equal(pieces, whole)
    for skipped in (1, 17, 64):
        engine.reset().fast_forward(skipped)
        engine.fast_forward(3)
        assert torch.equal(engine.draw(5), whole[skipped + 3 : skipped + 8])
    out = torch.empty(0)
    assert engine.reset().draw(7, out=out) is out
    assert torch.equal(out, whole[:7])
    assert engine.reset().draw(3, dtype=torch.float64).dtype is torch.float64


@pytest.mark.parametrize("scramble", [False, True])
def test_every_small_box_has_its_share(scramble):
    points = SobolEngine(40, scramble, seed=0).draw_base2(8).numpy()
    assert ((points >= 0) & (points < 1)).all()
    for column in points.T:  # 256 intervals, a point in each
        assert sorted(np.floor(column * 256)) == list(range(256))
    first = np.floor(points[:, :2] * 16) @ [16, 1]  # 256 squares, too
    assert sorted(first) == list(range(256))


def test_seeds():
    torch.manual_seed(1)
    a = SobolEngine(4, scramble=True).draw(8)
    torch.manual_seed(1)
    assert torch.equal(SobolEngine(4, scramble=True).draw(8), a)
    assert not torch.equal(SobolEngine(4, scramble=True).draw(8), a)
    state = torch.get_rng_state()
    SobolEngine(4, scramble=True, seed=2)
    assert torch.equal(torch.get_rng_state(), state)
    assert repr(SobolEngine(4, True, 2)) == "SobolEngine(dimension=4, scramble=True, seed=2)"


def test_refusals():
    for dimension in (0, 21202):
        with pytest.raises(ValueError, match=r"\[1, 21201\]"):
            SobolEngine(dimension)
    engine = SobolEngine(2)
    engine.draw(3)
    with pytest.raises(ValueError, match="power of 2"):
        engine.draw_base2(3)
    with pytest.raises(RuntimeError, match="positive"):
        engine.draw(-1)
    assert engine.draw(0).shape == (0, 2)
    with pytest.raises(RuntimeError, match=r"2\*\*30"):
        engine.draw(2**30)


def test_the_whole_table():
    engine = SobolEngine(21201)  # through scipy
    engine.draw(2)
    assert torch.equal(engine.draw(6)[:, :1111], SobolEngine(1111).fast_forward(2).draw(6))
