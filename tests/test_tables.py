"""Tables that follow from shapes: all together they hold a bounded number of bytes."""

import numpy as np
import pytest

import rushlight as torch
from rushlight._backends import tables
from rushlight.nn import functional as F


@pytest.fixture
def bounded(monkeypatch):
    monkeypatch.setattr(tables, "ROOM", 10_000)
    monkeypatch.setattr(tables, "_held", 0)
    monkeypatch.setattr(tables, "_clears", [*tables._clears])


def test_what_is_more_than_the_room_lets_go_of_all(bounded):
    calls = []

    @tables.bounded_cache(100)
    def zeros(n):
        calls.append(n)
        return [(np.zeros(n, np.uint8),), None, 5]

    others = tables.Tables(2)
    others.keep("a", np.zeros(1000, np.uint8))
    first = zeros(4000)
    assert zeros(4000) is first and zeros(3000) and calls == [4000, 3000]
    assert others.get("a").nbytes == 1000
    zeros(4001)
    assert zeros.cache_info().currsize == 1 and not others
    assert zeros(4000) is not first and calls == [4000, 3000, 4001, 4000]
    assert zeros(20_000) is zeros(20_000)  # what has no room at all is still kept until the next


def test_a_third_of_two_clears(bounded):
    held = tables.Tables(2)
    for i in range(5):
        assert held.keep(i, (i,)) == (i,)
    assert dict(held) == {4: (4,)}


def test_bytes():
    a = np.zeros((3, 4), np.float32)
    assert tables.bytes_of((a, [a, None], "text", 3)) == 96 and tables.bytes_of(None) == 0


def test_pooling_and_resampling_are_right_after_their_tables_went(bounded, monkeypatch):
    def results():
        x = torch.arange(2 * 3 * 24 * 18.0).reshape(2, 3, 24, 18).requires_grad_()
        made = [
            F.avg_pool2d(x, 3, padding=1, stride=2),
            F.adaptive_avg_pool2d(x, (5, 7)),
            F.interpolate(x, size=(30, 11), mode="bilinear"),
            F.interpolate(x.contiguous(memory_format=torch.channels_last), scale_factor=2.0),
            torch.fft.rfft(x, 24, dim=2).abs(),
        ]
        sum(each.sum() for each in made).backward()
        return [each.detach().numpy() for each in (*made, x.grad)]

    expected = results()
    monkeypatch.setattr(tables, "ROOM", 0)
    for a, b in zip(expected, results(), strict=True):
        np.testing.assert_array_equal(a, b)
