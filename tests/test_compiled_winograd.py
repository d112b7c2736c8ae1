"""3 x 3 convolutions with fewer multiplications, against sums in order in float64."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from guard import guarded
from rushlight.backends import compiled_conv as conv
from rushlight.backends import compiled_winograd as winograd
from rushlight.backends import numpy_conv as reference

ONE = (1, 1)
BLOCK = 2 * winograd.sizes()["L"]
EPS = np.finfo(np.float32).eps


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def arrays(n, c, o, h, w, p):
    """An input, windows, a gradient of the result, one of the input."""
    x, windows = random(n, c * BLOCK, h, w), random(o * BLOCK, c * BLOCK, 3, 3, seed=1)
    return x, windows, random(n, o * BLOCK, h + 2 * p - 2, w + 2 * p - 2, seed=2)


def bias(w, dim):
    return np.arange(1, 1 + w.shape[dim], dtype=np.float32)[::-1]


def three_ways(x, w, g, p):
    """For each direction its result, the exact one, and the exact one of absolute values."""
    wide = [a.astype(np.float64) for a in (x, w, g)]
    size = [np.abs(a) for a in wide]
    geometry = (ONE, (p, p), ONE, 1)

    def both(name, *places, plus=(), end=(), bias=0.0):
        function = getattr(reference, name)
        results = [function(*[a[i] for i in places], *plus, *geometry, *end) for a in (wide, size)]
        bias = np.reshape(bias, (-1, 1, 1)).astype(np.float64)
        return results[0] + bias, results[1] + np.abs(bias)

    yield winograd.convolve(x, w, bias(w, 0), p), *both("convolve", 0, 1, bias=bias(w, 0))
    yield (
        winograd.convolve(g, w, bias(w, 1), 2 - p, True),
        *both("convolve_transposed", 2, 1, end=(x.shape[2:],), bias=bias(w, 1)),
    )
    yield winograd.convolve_weight(x, g, p), *both("convolve_weight", 0, 2, plus=((3, 3),))


def check(x, w, g, p):
    for result, exact, size in three_ways(x, w, g, p):
        assert result.dtype == np.float32
        assert result.shape == exact.shape
        # A result also has roundings of the size of its neighbours' sums.
        assert (np.abs(result - exact) <= 30 * EPS * size.max()).all()
        assert np.abs(result - exact).max() <= 4 * EPS * size.max()


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 3), st.integers(1, 3), st.integers(1, 13),
    st.integers(1, 20), st.integers(0, 2),
)  # fmt: skip
def test_shapes(n, c, o, h, w, p):
    if min(h, w) + 2 * p >= 3:
        check(*arrays(n, c, o, h, w, p), p)


@pytest.mark.parametrize(
    ("n", "c", "o", "h", "w", "p"),
    [
        (2, 2, 2, 32, 32, 1),
        (1, 1, 1, 3, 300, 1),  # several chunks beside each other
        (1, 1, 2, 57, 131, 0),
        (40, 1, 3, 4, 4, 1),  # several images in a chunk
        (60, 1, 1, 2, 2, 1),
        (2, 512 // BLOCK, 1, 4, 4, 1),
        (2, 1, 512 // BLOCK, 4, 4, 1),
        (3, 3, 3, 9, 7, 2),
    ],
)
def test_kinds(n, c, o, h, w, p):
    check(*arrays(n, c, o, h, w, p), p)


@pytest.mark.parametrize(("c", "size"), [(2, 16), (4, 8), (8, 4)])
def test_errors_are_those_of_sums_in_order(c, size):
    x, w, g = arrays(4, c, c, size, size, 1)
    geometry = (ONE, ONE, ONE, 1)
    plus = [bias(w, i).reshape(-1, 1, 1) for i in (0, 1)]
    ordered = (
        reference.convolve(x, w, *geometry) + plus[0],
        reference.convolve_transposed(g, w, *geometry, x.shape[2:]) + plus[1],
        reference.convolve_weight(x, g, (3, 3), *geometry),
    )
    for (result, exact, _), other in zip(three_ways(x, w, g, 1), ordered, strict=True):
        wrong, bound = (np.sqrt(np.mean((a - exact) ** 2)) for a in (result, other))
        assert wrong <= 2 * bound


def test_whole_numbers_are_exact():
    x, w, g = (np.rint(4 * a) for a in arrays(3, 1, 2, 9, 8, 1))
    for result, exact, _ in three_ways(x, 4 * w, g, 1):
        assert np.array_equal(result, exact)


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_not_finite(value, monkeypatch):
    """Transforms would give NaN around an infinity: the sums are made in order instead."""
    zeros, geometry = np.zeros(BLOCK, np.float32), (ONE, ONE, ONE, 1)
    for which in range(3):
        given = arrays(2, 1, 1, 32, 32, 1)
        given[which].reshape(-1)[[0, -1]] = value
        x, w, g = given
        cases = (
            (winograd.convolve(x, w, zeros, 1), conv.convolve, (x, w), ()),
            (
                winograd.convolve(g, w, zeros, 1, True),
                conv.convolve_transposed,
                (g, w),
                (x.shape[2:],),
            ),
            (winograd.convolve_weight(x, g, 1), conv.convolve_weight, (x, g, (3, 3)), ()),
        )
        for direct, function, args, more in cases:
            found = function(*args, *geometry, *more)
            with monkeypatch.context() as patch:
                patch.setattr(winograd, "fits", lambda *_: False)
                in_order = function(*args, *geometry, *more)
            if not np.isfinite(value) and any(a is given[which] for a in args):
                assert direct is None
                np.testing.assert_array_equal(found, in_order)
            else:
                limit = np.abs(in_order[np.isfinite(in_order)]).max()
                np.testing.assert_allclose(found, in_order, rtol=0, atol=1e-5 * limit)


def test_same_bits_on_any_number_of_threads():
    before, made = torch.get_num_threads(), []
    for n, c, o, size in ((2, 2, 2, 20), (4, 8, 8, 4)):
        x, w, g = arrays(n, c, o, size, size, 1)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            made.append([result.tobytes() for result, _, _ in three_ways(x, w, g, 1)])
        assert made[-1] == made[-2]
    torch.set_num_threads(before)


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("n", "c", "o", "h", "w", "p"), [(2, 1, 2, 7, 9, 0), (3, 2, 1, 4, 4, 1), (1, 1, 1, 2, 101, 2)]
)
def test_nothing_outside_of_the_arrays_is_touched(side, n, c, o, h, w, p, monkeypatch):
    x, windows, g = (guarded(a, side) for a in arrays(n, c, o, h, w, p))
    empty = np.empty
    monkeypatch.setattr(
        winograd.np, "empty", lambda shape, dtype: guarded(np.zeros(shape, dtype), side)
    )
    for result, exact, _ in three_ways(x, windows, g, p):
        assert np.abs(result - exact).max() <= 1e-4 * np.abs(exact).max()
    monkeypatch.setattr(winograd.np, "empty", empty)


def test_fits():
    x = random(8, 2 * BLOCK, 16, 16)

    def fits(x=x, channels=BLOCK, kernel=(3, 3), stride=ONE, padding=ONE, dilation=ONE, groups=1,
             more=0):  # fmt: skip
        out = reference.out_sizes(x.shape[2:], kernel, stride, padding, dilation)
        out = (out[0] + more, *out[1:])
        return winograd.fits(x, channels, out, kernel, stride, padding, dilation, groups)

    assert fits()
    assert fits(padding=(0, 0))
    assert fits(padding=(2, 2))
    for other in (
        x.astype(np.float64), x[:, ::2], x[:, :, ::2], x[:, :-1].copy(), x[:1, :, :2, :2].copy(),
        x[:0], x[:, :, :1, :1].copy(),
    ):  # fmt: skip
        assert not fits(x=other)
    line = {"kernel": (3,), "stride": (1,), "padding": (1,), "dilation": (1,)}
    assert not fits(x=x[:, :, 0].copy(), **line)
    assert not fits(channels=BLOCK - 1)
    assert not fits(channels=1024)
    assert not fits(kernel=(3, 1))
    assert not fits(stride=(2, 2))
    assert not fits(padding=(1, 2))
    assert not fits(padding=(3, 3))
    assert not fits(dilation=(2, 2))
    assert not fits(groups=2)
    assert not fits(more=-1)


def test_module_and_gradients():
    """Through a layer, double backward too."""
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(2 * BLOCK, BLOCK, 3, padding=1)
    x = torch.randn(4, 2 * BLOCK, 12, 12, requires_grad=True)
    wide = torch.nn.Conv2d(2 * BLOCK, BLOCK, 3, padding=1).double()
    wide.load_state_dict({k: v.double() for k, v in layer.state_dict().items()})
    grads = []
    for f, a in ((layer, x), (wide, x.detach().double().requires_grad_())):
        y = f(a)
        (g,) = torch.autograd.grad((y**2).sum(), a, create_graph=True)
        f.weight.grad = None
        (g**2).sum().backward()
        grads.append((y, g, f.weight.grad, a.grad))
    for one, exact in zip(*grads, strict=True):
        error = (one.double() - exact).abs().max() / exact.abs().max()
        assert error < 1e-5
