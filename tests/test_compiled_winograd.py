"""Convolutions with fewer multiplications, against sums in order in float64."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from guard import guarded
from rushlight._backends.convolution import Problem, out_sizes
from rushlight._backends.llvm import candidates, conv, winograd
from rushlight._backends.reference import conv as reference
from rushlight._codegen.kernels import schemes
from rushlight._codegen.kernels.schemes import TILES

ONE = (1, 1)
BLOCK = 2 * winograd.sizes()["L"]
EPS = np.finfo(np.float32).eps
KINDS = [(3, 1, 1), (3, 1, 2), (3, 1, 5), (5, 1, 1), (3, 2, 1), (4, 2, 1)]  # window, step, dilation


@pytest.fixture(autouse=True)
def _always(monkeypatch):
    """Also where sums in order are faster."""
    monkeypatch.setattr(winograd, "LOSS", 0)
    winograd.scheme_for.cache_clear()
    candidates.forget()
    yield
    winograd.scheme_for.cache_clear()
    candidates.forget()


def random(*shape, seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def innermost(a):
    return np.moveaxis(np.ascontiguousarray(np.moveaxis(a, 1, -1)), -1, 1)


def arrays(n, c, o, h, w, p, k=3, step=1, apart=1, groups=1, last=False):
    """An input, windows, a gradient of the result, and the problem of each direction; `last`: whether channels are
    innermost, "all": also those of windows."""
    geometry = ((step, step), (p, p), (apart, apart))
    out = out_sizes((h, w), (k, k), *geometry)
    x, windows = random(n, c, h, w), random(o, c // groups, k, k, seed=1)
    g = random(n, o, *out, seed=2)
    if last:
        x, g = innermost(x), innermost(g)
    if last == "all":
        windows = innermost(windows)
    shapes = x.shape, windows.shape, g.shape
    return x, windows, g, problems(*shapes, *geometry, groups, x.dtype, bool(last))


def problems(*fields):
    return {way: Problem(way, *fields) for way in ("forward", "weight", "transposed")}


def bias(w, dim, groups=1):
    size = w.shape[0] if dim == 0 else w.shape[1] * groups
    return np.arange(1, 1 + size, dtype=np.float32)[::-1].copy()


def three_ways(x, w, g, problem):
    """For each direction its result, the exact one, and the exact one of absolute values."""
    wide = [a.astype(np.float64) for a in (x, w, g)]
    size = [np.abs(a) for a in wide]

    def both(function, *which, plus=(), bias=0.0):
        results = [function(*[a[i] for i in which], *plus) for a in (wide, size)]
        bias = np.reshape(bias, (-1, 1, 1)).astype(np.float64)
        return results[0] + bias, results[1] + np.abs(bias)

    p, b = problem["forward"], bias(w, 0)
    y = winograd.convolve(x, w, b, p)
    yield y, *both(reference.convolve, 0, 1, plus=(None, p), bias=b)
    p = problem["weight"]
    yield winograd.convolve_weight(x, g, p), *both(reference.convolve_weight, 0, 2, plus=(p,))
    p, b = problem["transposed"], bias(w, 1, problem["transposed"].groups)
    if winograd.scheme_for(p) is not None:
        y = winograd.convolve(g, w, b, p)
        yield y, *both(reference.convolve_transposed, 2, 1, plus=(None, p), bias=b)


def check(x, w, g, problem):
    for result, exact, size in three_ways(x, w, g, problem):
        assert result.dtype == np.float32
        assert result.shape == exact.shape
        # A result also has roundings of the size of its neighbours' sums.
        assert (np.abs(result - exact) <= 30 * EPS * size.max()).all()
        assert np.abs(result - exact).max() <= 4 * EPS * size.max()


def whole(rows, size):
    """A table of a scheme as a matrix."""
    found = np.zeros((len(rows), size))
    for i, parts in enumerate(rows):
        for factor, *entries in parts:
            for k in entries:
                found[i, abs(k) - 1] += factor * np.sign(k)
    return found


@pytest.mark.parametrize("number", range(len(schemes.SCHEMES)))
def test_schemes_are_identities(number):
    """For unit inputs and unit weights, which is all of them: both sides are bilinear."""
    s = schemes.SCHEMES[number]
    (k, step), *_ = (key for key, value in winograd.NUMBERS.items() if value == number)
    numbers, back = whole(s.weight_transform, s.taps), whole(s.output_transform, s.points)
    products = np.zeros((s.points, s.taps, s.edge))
    for p, i in enumerate(s.point):
        values = whole(s.input_transform, s.edge)[s.value[p]]
        products[i] += numbers[p][:, None] * values
    found = np.einsum("yp,pkd->ykd", back, products)
    exact = np.zeros_like(found)
    for y in range(s.outputs):
        for tap in range(k):
            # The first input of the transpose is the one k - 3 before that of the first result.
            d = step * y + tap if step else y + 1 - tap
            if step:
                exact[y, tap, d] = 1
            elif d % 2 == 0:
                exact[y, tap, d // 2 + k - 3] = 1
    assert np.array_equal(found, exact)
    assert np.array_equal(whole(s.output_transposed, s.outputs), back.T)
    assert np.array_equal(whole(s.weight_transposed, s.products), numbers.T)


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from(KINDS), st.integers(1, 4), st.integers(1, 80), st.integers(1, 80),
    st.integers(1, 13), st.integers(1, 20), st.integers(0, 4), st.sampled_from([1, 1, 2, 3]),
    st.sampled_from([False, True, "all"]),
)  # fmt: skip
def test_shapes(kind, n, c, o, h, w, p, groups, last):
    k, step, apart = kind
    if min(h, w) + 2 * p > apart * (k - 1) >= p:
        check(*arrays(n, c * groups, o * groups, h, w, p, k, step, apart, groups, last))


@pytest.mark.parametrize(
    ("n", "c", "o", "h", "w", "p"),
    [
        (2, 64, 64, 32, 32, 1),
        (1, 32, 32, 3, 300, 1),  # several chunks beside each other
        (1, 32, 64, 57, 131, 0),
        (40, 32, 96, 4, 4, 1),  # several images in a chunk
        (60, 32, 32, 2, 2, 1),
        (2, 512, 32, 4, 4, 1),
        (2, 32, 512, 4, 4, 1),
        (3, 96, 96, 9, 7, 2),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds(kind, n, c, o, h, w, p):
    k, step, apart = kind
    if min(h, w) + 2 * p > apart * (k - 1):
        check(*arrays(n, c, o, h, w, p, k, step, apart))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("c", "size"), [(64, 16), (128, 8), (256, 4)])
def test_errors_are_those_of_sums_in_order(c, size, kind):
    k, step, apart = kind
    if apart > size // 2:  # most of a tile would not exist
        return
    p = apart * (k // 2) if step == 1 else 1
    x, w, g, problem = arrays(4, c, c, size, size, p, k, step, apart)
    plus = [bias(w, i).reshape(-1, 1, 1) for i in (0, 1)]
    ordered = (
        reference.convolve(x, w, None, problem["forward"]) + plus[0],
        reference.convolve_weight(x, g, problem["weight"]),
        reference.convolve_transposed(g, w, None, problem["transposed"]) + plus[1],
    )
    for (result, exact, _), other in zip(three_ways(x, w, g, problem), ordered, strict=False):
        wrong, bound = (np.sqrt(np.mean((a - exact) ** 2)) for a in (result, other))
        assert wrong <= (2 if step == 1 else 3) * bound


@pytest.mark.parametrize("kind", KINDS)
def test_whole_numbers_are_exact(kind):
    k, step, apart = kind
    x, w, g, problem = arrays(3, 32, 64, 9, 8, 2, k, step, apart)
    for result, exact, _ in three_ways(np.rint(4 * x), 4 * np.rint(4 * w), np.rint(4 * g), problem):
        assert np.array_equal(result, exact)


@pytest.mark.parametrize("kind", [(3, 1, 1), (3, 1, 2), (3, 2, 1), (4, 2, 1), (5, 1, 1)])
@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 3e38])
def test_not_finite(value, kind, monkeypatch):
    """Transforms would give NaN around an infinity: the sums are made in order instead."""
    k, step, apart = kind
    for which in range(3):
        *given, problem = arrays(2, 32, 32, 32, 32, 1, k, step, apart)
        given[which].reshape(-1)[[0, -1]] = value
        x, w, g = given
        with np.errstate(all="ignore"):  # of sums in order
            direct = [result for result, _, _ in three_ways(x, w, g, problem)]
        cases = (
            (conv.convolve, (x, w, None, problem["forward"])),
            (conv.convolve_weight, (x, g, problem["weight"])),
            (conv.convolve_transposed, (g, w, None, problem["transposed"])),
        )
        for made, (function, args) in zip(direct, cases, strict=True):
            found = function(*args)
            with monkeypatch.context() as patch:
                patch.setattr(winograd, "scheme_for", lambda _: None)
                candidates.forget()
                in_order = function(*args)
                candidates.forget()
            if not np.isfinite(value) and any(a is given[which] for a in args):
                # What meets the padding alone is 0 in order too, unless it is infinite.
                assert made is None
                np.testing.assert_array_equal(found, in_order)
            else:
                limit = np.abs(in_order[np.isfinite(in_order)]).max()
                np.testing.assert_allclose(found, in_order, rtol=0, atol=1e-5 * limit)


@pytest.mark.parametrize("kind", KINDS)
def test_same_bits_on_any_number_of_threads(kind):
    before, made = torch.get_num_threads(), []
    for n, c, o, size in ((2, 64, 64, 20), (4, 256, 256, 8)):
        x, w, g, problem = arrays(n, c, o, size, size, 2, *kind)
        for threads in (1, 2):
            torch.set_num_threads(threads)
            made.append([result.tobytes() for result, _, _ in three_ways(x, w, g, problem)])
        assert made[-1] == made[-2]
    torch.set_num_threads(before)


@pytest.mark.parametrize("last", [False, True, "all"])
@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize(
    ("n", "c", "o", "h", "w", "p"),
    [(2, 32, 64, 7, 9, 0), (3, 64, 32, 4, 4, 1), (1, 33, 41, 6, 101, 2), (1, 3, 5, 11, 11, 1)],
)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outside_of_the_arrays_is_touched(kind, side, last, n, c, o, h, w, p, monkeypatch):
    k, step, apart = kind
    if min(h, w) + 2 * p <= apart * (k - 1):
        return
    *given, problem = arrays(n, c, o, h, w, p, k, step, apart, last=last)

    def place(a):
        if last == "all" or last and a.shape[2] != k:
            return np.moveaxis(guarded(np.moveaxis(a, 1, -1), side), -1, 1)
        return guarded(a, side)

    x, windows, g = map(place, given)
    empty = np.empty

    def made(shape, dtype):
        return guarded(np.zeros(shape, dtype), side)

    def result(shape, dtype, last):
        if not last:
            return made(shape, dtype)
        return np.moveaxis(made((shape[0], *shape[2:], shape[1]), dtype), -1, 1)

    monkeypatch.setattr(winograd.np, "empty", made)
    monkeypatch.setattr(winograd, "empty", result)
    for result, exact, _ in three_ways(x, windows, g, problem):
        assert np.abs(result - exact).max() <= 1e-4 * np.abs(exact).max()
    monkeypatch.setattr(winograd.np, "empty", empty)


def test_which_scheme():
    x = (8, 2 * BLOCK, 16, 16)

    def number(x=x, channels=BLOCK, kernel=(3, 3), stride=ONE, padding=ONE, dilation=ONE, groups=1,
               more=0):  # fmt: skip
        out = out_sizes(x[2:], kernel, stride, padding, dilation)
        y, w = (x[0], channels, out[0] + more, *out[1:]), (channels, x[1] // groups, *kernel)
        fields = (x, w, y, stride, padding, dilation, groups, np.dtype("f4"), False)
        return winograd.scheme_for(Problem("forward", *fields))

    dense = schemes.SCHEMES.index(schemes.DENSE3)
    assert number() == number(padding=(0, 0)) == number(padding=(2, 2)) == dense
    assert number(channels=BLOCK - 1) == number(channels=1024) == number(groups=2) == dense
    assert number(dilation=(2, 2)) == number(dilation=(2, 2), padding=(4, 4)) == dense
    assert number(stride=(2, 2)) == schemes.SCHEMES.index(schemes.HALVED3)
    assert number(stride=(2, 2), kernel=(4, 4)) == schemes.SCHEMES.index(schemes.HALVED4)
    assert number(kernel=(5, 5)) == schemes.SCHEMES.index(schemes.DENSE5)
    for other in (
        number(x=(0, *x[1:])),
        number(x=x[:3], kernel=(3,), stride=(1,), padding=(1,), dilation=(1,)),
        number(kernel=(3, 1)),
        number(stride=(1, 2)),
        number(stride=(3, 3)),
        number(padding=(1, 2)),
        number(padding=(3, 3)),
        number(dilation=(1, 2)),
        number(dilation=(TILES, TILES), padding=(TILES, TILES)),
        number(stride=(2, 2), dilation=(2, 2)),
        number(more=-1),
    ):
        assert other is None


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_small_is_summed_in_order(kind, monkeypatch):
    k, step, apart = kind
    monkeypatch.setattr(winograd, "LOSS", 100)
    winograd.scheme_for.cache_clear()
    for n, c, o, size in ((8, 3, 64, 32), (8, 64, 3, 32), (1, 64, 64, 4)):
        geometry = ((step, step), (apart, apart), (apart, apart))
        size = max(size, apart * k)
        out = out_sizes((size, size), (k, k), *geometry)
        shapes = (n, c, size, size), (o, c, k, k), (n, o, *out)
        fields = (*shapes, *geometry, 1, np.dtype("f4"), False)
        found = winograd.scheme_for(Problem("forward", *fields))
        assert found is None or min(c, o) > 3


@pytest.mark.parametrize("kind", KINDS)
def test_module_and_gradients(kind):
    """Through a layer, double backward too."""
    k, step, apart = kind
    torch.manual_seed(0)
    layer = torch.nn.Conv2d(2 * BLOCK, BLOCK, k, padding=1, stride=step, dilation=apart)
    x = torch.randn(4, 2 * BLOCK, 12, 12, requires_grad=True)
    wide = torch.nn.Conv2d(2 * BLOCK, BLOCK, k, padding=1, stride=step, dilation=apart).double()
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
