"""Gates, distances, losses of classes and normalisation with channels last in machine code, against the
reference: sizes around those of vectors, half types, gaps in memory, protected pages around all."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from guard import guarded
from rushlight._backends.llvm import activation, ctc, distances, normalize, special
from rushlight._backends.llvm.registration import kernel
from rushlight._backends.reference import activation as numpy_activation
from rushlight._backends.reference import ctc as numpy_ctc
from rushlight._backends.reference import distances as numpy_distances
from rushlight._backends.reference import gamma as numpy_gamma
from rushlight._backends.reference import normalize as numpy_normalize
from rushlight._backends.reference import special as numpy_special
from rushlight.core import dtypes

FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), dtypes.bfloat16.np]
CLOSE = {4: 1e-5, 8: 1e-12, 2: 2.0**-6}  # of the largest number, by the size of an element


class Guarding:
    """NumPy, whose new arrays end at a protected page."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def empty(shape, dtype=float, order="C"):
        return guarded(np.full(shape, 77, dtype))

    @staticmethod
    def empty_like(a):
        turned = np.moveaxis(a, 1, -1)
        if a.flags.c_contiguous or not turned.flags.c_contiguous:
            return Guarding.empty(a.shape, a.dtype)
        return np.moveaxis(Guarding.empty(turned.shape, a.dtype), -1, 1)


@pytest.fixture(autouse=True, scope="module")
def guards():
    bindings = [activation, ctc, distances, normalize]
    for binding in bindings:
        binding.np = Guarding()
    yield
    for binding in bindings:
        binding.np = np


def some(rng, shape, dtype, special=False):
    """Random numbers next to a protected page, or with gaps."""
    values = rng.standard_normal(shape)
    if special:
        where = rng.random(shape) < 0.1
        values = np.where(where, rng.choice([np.inf, -np.inf, np.nan, -0.0, 0.0], shape), values)
    values = values.astype(dtype)
    if rng.integers(4) == 0 and values.ndim:
        wide = np.zeros((*values.shape[:-1], 2 * values.shape[-1]), dtype)
        wide[..., ::2] = values
        return wide[..., ::2]
    return guarded(values, rng.choice(["after", "before"])) if values.size else values


def same(got, expected):
    """Dtype and shape, NaN and infinities, and numbers but for rounding."""
    if expected is None:
        assert got is None
        return
    assert got.shape == expected.shape and got.dtype == expected.dtype
    g, e = got.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(e)
    assert np.array_equal(np.isnan(g), np.isnan(e))
    assert np.array_equal(g[~finite], e[~finite], equal_nan=True)
    apart = np.abs(g[finite] - e[finite]).max(initial=0)
    assert apart <= CLOSE[got.itemsize] * max(1.0, np.abs(e[finite]).max(initial=0))


def widely(*arrays):
    """float32 as float64, since the reference rounds as often as we do."""
    return [a.astype(np.float64) if a is not None and a.dtype == np.float32 else a for a in arrays]


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_glu(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    shape = data.draw(st.lists(st.sampled_from([0, 1, 2, 3, 17, 40]), min_size=1, max_size=3))
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    half = tuple(shape)
    shape[axis] *= 2
    d = data.draw(st.sampled_from(FLOATS))
    a, g = some(rng, shape, d, True), some(rng, half, d, True)
    with np.errstate(all="ignore"):
        same(activation.glu(a, axis), numpy_activation.glu(a, axis))
        expected = numpy_activation.glu_gradient(g, a, axis)
        same(activation.glu_gradient(g, a, axis), expected)


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_groups_of_channels_that_are_last(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    n, groups = data.draw(st.integers(1, 3)), data.draw(st.sampled_from([1, 2, 3]))
    each, h = data.draw(st.sampled_from([1, 2, 5, 16, 70])), data.draw(st.sampled_from([1, 3, 17]))
    w = data.draw(st.sampled_from([2, 5, 64]))
    channels, d = groups * each, data.draw(st.sampled_from(FLOATS))
    values = rng.standard_normal((2, n, h, w, channels)) + np.reshape([3, 0], (2, 1, 1, 1, 1))
    a, g = (np.moveaxis(guarded(v.astype(d)), -1, 1) for v in values)
    if rng.integers(2):
        g = np.ascontiguousarray(g)
    weight, bias = (some(rng, (channels,), d) if rng.integers(3) else None for _ in range(2))
    statistics = bool(rng.integers(2))
    got = normalize.group_norm(a, weight, bias, groups, 0.1, statistics)
    assert np.moveaxis(got[0], 1, -1).flags.c_contiguous
    expected = numpy_normalize.group_norm(*widely(a, weight, bias), groups, 0.1)
    for x, y in list(zip(got, expected, strict=True))[: 3 if statistics else 1]:
        same(x, y.astype(x.dtype))
    needs = tuple(bool(k) for k in rng.integers(0, 2, 3))
    got = normalize.group_norm_gradients(g, a, weight, groups, 0.1, needs)
    g, a, weight = widely(g, a, weight)
    expected = numpy_normalize.group_norm_gradients(g, a, weight, groups, 0.1, needs)
    for x, y, needed in zip(got, expected, needs, strict=True):
        if needed:
            same(x, y.astype(x.dtype))


def test_groups_of_channels_that_are_last_by_one_and_two_threads():
    rng = np.random.default_rng(0)
    a, g = (
        np.moveaxis(rng.standard_normal((2, 70, 70, 24)).astype(np.float32), -1, 1) for _ in "ag"
    )
    w, b = (rng.standard_normal(24).astype(np.float32) for _ in "wb")
    results = []
    before = torch.get_num_threads()
    for threads in (1, 2):
        torch.set_num_threads(threads)
        y = normalize.group_norm(a, w, b, 4, 1e-5)
        results.append([*y, *normalize.group_norm_gradients(g, a, w, 4, 1e-5, (True,) * 3)])
    torch.set_num_threads(before)
    for x, y in zip(*results, strict=True):
        assert x.tobytes() == y.tobytes()


SPECIAL = {
    "lgamma": 1, "digamma": 1, "polygamma": 1, "erfinv": 0.3, "ndtri": 0.3, "ndtr": 1, "entr": 1, "log_ndtr": 1,
    "erfcx": 0.5, "i0": 1, "i0e": 1, "i1": 1, "i1e": 1, "k0": 1, "k1": 1, "k0e": 1, "k1e": 1, "j0": 1, "j1": 1,
    "y0": 1, "y1": 1, "spherical_j0": 1, "airy_ai": 1,
}  # fmt: skip
ABSOLUTE = [
    "j0",
    "j1",
    "y0",
    "y1",
    "spherical_j0",
    "airy_ai",
    "lgamma",
    "digamma",
]  # they have zeros


@pytest.mark.parametrize("name", SPECIAL)
@pytest.mark.parametrize("d", FLOATS)
def test_special_functions(name, d):
    """Against the reference in float64: relative errors, of float64 itself absolute ones near zeros of functions."""
    rng = np.random.default_rng(0)
    ends = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        -2.5,
        2.0,
        0.5,
        1 + 2.0**-10,
        np.inf,
        -np.inf,
        np.nan,
        1e-7,
        300.0,
    ]
    wide = rng.standard_normal(4000) * rng.choice([0.1, 1, 10], 4000) * SPECIAL[name]
    a = np.concatenate([wide, ends]).astype(d)
    order = (1,) if name == "polygamma" else ()
    function = kernel(name)
    module = numpy_gamma if name in ("lgamma", "digamma", "polygamma") else numpy_special
    with np.errstate(all="ignore"):
        expected = getattr(module, name)(*order, a.astype(np.float64)).astype(d)
        got = function(*order, guarded(a))
        assert got.dtype == d and np.array_equal(np.isnan(got), np.isnan(expected))
        finite = np.isfinite(expected)
        assert np.array_equal(got[~finite], expected[~finite], equal_nan=True)
        g, e = got[finite].astype(np.float64), expected[finite].astype(np.float64)
    close = {8: 3e-13, 4: 6e-7, 2: 2.0**-7 if d != np.float16 else 2.0**-10}[d.itemsize]
    least = 1e-6 if d == np.float16 else 1e-36
    if name in ABSOLUTE:
        least = max(least, {8: 1e-14, 4: 2e-9, 2: 0}[d.itemsize])
    if name in ("ndtr", "log_ndtr"):  # an exponent is rounded: math.normal_below
        close = close + 3e-8 * np.minimum(a[finite].astype(np.float64) ** 2, 200)
    assert (np.abs(g - e) <= np.maximum(close * np.abs(e), least)).all()
    strided = np.repeat(a, 2)[::2]
    assert np.array_equal(function(*order, strided), got, equal_nan=True)
    assert function(*order, a[:0]).shape == (0,)
    assert np.asarray(function(*order, a[3:4].reshape(()))).shape == ()


@pytest.mark.parametrize("name", ["gammainc", "gammaincc", "zeta"])
@pytest.mark.parametrize("d", FLOATS[:2])
def test_special_functions_of_two(name, d):
    rng = np.random.default_rng(0)
    ends = np.array([0, -0.0, 1, -1, 2, np.inf, -np.inf, np.nan, 0.5, 100])
    sizes = rng.choice([0.1, 1, 10, 30], 999)
    a = np.concatenate([np.abs(rng.standard_normal(999)) * sizes, np.repeat(ends, 10)]).astype(d)
    b = np.concatenate([np.abs(rng.standard_normal(999)) * sizes, np.tile(ends, 10)]).astype(d)
    if name == "zeta":  # the reference's sums are as long as its first argument is below 0
        a[:999] += 1
    with np.errstate(all="ignore"):
        got, want = kernel(name)(guarded(a), guarded(b)), getattr(numpy_gamma, name)(a, b)
    close = 1e-11 if d == np.float64 else 1e-6
    np.testing.assert_allclose(got, want, close, 1e-13 if d == np.float64 else 1e-30)


def test_products_with_logarithms():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 300)).astype(np.float32)
    a[:3], b[1:4] = 0, [np.nan, -1, np.inf]
    with np.errstate(all="ignore"):
        got = special.xlog1py(guarded(a), guarded(b))
        same(got, numpy_gamma.xlog1py(*widely(a, b)).astype(np.float32))


NORMS = (1.0, 2.0, float("inf"), 3.0, 0.0)


def in_kind(p, *arrays):
    """The largest difference is looked for among those of float32: it is compared with."""
    return arrays if p == float("inf") else widely(*arrays)


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_distances(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    d, p = data.draw(st.sampled_from(FLOATS[:2])), data.draw(st.sampled_from(NORMS))
    n, m, k = (data.draw(st.sampled_from([0, 1, 2, 5, 17, 70, 130])) for _ in range(3))
    lead = data.draw(st.sampled_from([(), (2,), (2, 3)])) if n * m * k < 9999 else ()
    a, b = some(rng, (*lead, n, k), d), some(rng, (*lead, m, k), d)
    if n and m and rng.integers(3) == 0:
        b = b.copy()
        b[..., 0, :] = a[..., 0, :]  # a distance of 0
        b[..., -1, : k // 2] = rng.choice([np.inf, np.nan, 1e9])
    with np.errstate(all="ignore"):
        found = distances.cdist(a, b, p)
        same(found, numpy_distances.cdist(*widely(a, b), p).astype(d))
        g = some(rng, found.shape, d)
        wide = in_kind(p, g, found, a, b)
        back = distances.cdist_gradient(g, found, a, b, p)
        same(back, numpy_distances.cdist_gradient(*wide, p).astype(d))
        g, found = g.swapaxes(-1, -2), found.swapaxes(-1, -2)
        back = distances.cdist_gradient(g, found, b, a, p)
        wide = in_kind(p, g, found, b, a)
        same(back, numpy_distances.cdist_gradient(*wide, p).astype(d))


@given(st.data())
@settings(max_examples=100, deadline=None)
def test_distances_of_pairs(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    d, p = data.draw(st.sampled_from(FLOATS[:2])), data.draw(st.sampled_from(NORMS))
    n, k = (data.draw(st.sampled_from([0, 1, 2, 5, 17, 70, 130])) for _ in range(2))
    a = some(rng, (n, k), d)
    if n > 2 and rng.integers(3) == 0:
        a = a.copy()
        a[1] = a[0]
    with np.errstate(all="ignore"):
        found = distances.pdist(a, p)
        same(found, numpy_distances.pdist(*widely(a), p).astype(d))
        g = some(rng, found.shape, d)
        back = distances.pdist_gradient(g, found, a, p)
        expected = numpy_distances.pdist_gradient(*in_kind(p, g, found, a), p)
        same(back, expected.astype(d))


def test_second_derivatives_of_distances():
    torch.manual_seed(0)
    x, y = (torch.randn(4, 3, dtype=torch.float64, requires_grad=True) for _ in "xy")
    for p in NORMS[:4]:
        assert torch.autograd.gradgradcheck(lambda x, y, p=p: torch.cdist(x, y, p), (x, y))
        assert torch.autograd.gradgradcheck(lambda x, p=p: torch.pdist(x, p), x)


@given(st.data())
@settings(max_examples=120, deadline=None)
def test_ctc(data):
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    steps, n = data.draw(st.sampled_from([1, 2, 7, 30])), data.draw(st.integers(1, 4))
    classes, longest = data.draw(st.sampled_from([1, 2, 5, 40])), data.draw(st.integers(0, 9))
    d, blank = data.draw(st.sampled_from(FLOATS[:2])), int(rng.integers(classes))
    x = rng.standard_normal((steps, n, classes))
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    x = guarded(x.astype(d), rng.choice(["after", "before"]))
    if rng.integers(4) == 0:
        x[rng.integers(steps), :, rng.integers(classes)] = -np.inf
    targets = guarded(rng.integers(0, classes, (n, longest))) if longest else np.zeros((n, 0), int)
    heard = [int(k) for k in rng.integers(0, steps + 1, n)]
    said = [int(k) for k in rng.integers(0, longest + 1, n)]
    lengths = heard, said
    with np.errstate(all="ignore"):
        losses, alpha = ctc.ctc_loss(x, targets, *lengths, blank)
        expected, ours = numpy_ctc.ctc_loss(x, targets, *lengths, blank)
        same(losses, expected)
        g = some(rng, (n,), d)
        same(alpha, np.ascontiguousarray(ours))
        for zero in (False, True):
            found = ctc.ctc_loss_gradient(g, x, targets, *lengths, alpha, blank, zero)
            wanted = numpy_ctc.ctc_loss_gradient(g, x, targets, *lengths, ours, blank, zero)
            same(found, wanted)


def test_polygamma_refuses_negative_orders_also_when_it_is_hot():
    x = torch.tensor([1.0, 2.0])
    for _ in range(2000):  # a function of its own is printed for the key
        torch.polygamma(1, x)
    with pytest.raises(RuntimeError, match=r"polygamma\(n, x\) does not support negative n\."):
        torch.polygamma(-1, x)
    with pytest.raises(TypeError, match="must be int, not float"):
        torch.polygamma(1.5, x)


def test_mvlgamma_refuses_no_dimension_also_when_it_is_hot():
    x = torch.tensor([3.0, 4.0])
    for _ in range(2000):
        torch.mvlgamma(x, 2)
    with pytest.raises(RuntimeError, match="p has to be greater than or equal to 1"):
        torch.mvlgamma(x, 0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_gradients_of_columns_that_are_left_out_are_zero(dtype):
    x = (
        torch.randn(600, 3).to(dtype).t().contiguous().t()
    )  # more columns than are worked on side by side
    target = torch.randint(0, 3, (600,))
    target[::7] = -100
    x[::14] = torch.inf
    x[7::14] = torch.nan
    x.requires_grad_()
    torch.nn.functional.cross_entropy(x, target, reduction="sum").backward()
    kept = target != -100
    expected = x.detach().double().softmax(1)[kept]
    expected[torch.arange(len(expected)), target[kept]] -= 1
    assert not x.grad[~kept].any()
    torch.testing.assert_close(x.grad[kept].double(), expected, rtol=0.02, atol=0.01)
