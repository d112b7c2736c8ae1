"""Reductions: values against NumPy, dtypes, empty inputs, ties, gradients."""

from __future__ import annotations

import math

import numpy as np
import pytest

import rushlight as torch

DIMS = [None, 0, 1, -1, (0, 2), (0, 1, 2)]
NAN = float("nan")


def random(*shape, seed=0):
    return np.random.RandomState(seed).randn(*shape).astype(np.float32)


def axes(dim, a):
    return dim if dim is None or isinstance(dim, int) else tuple(dim)


@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("keepdim", [False, True])
@pytest.mark.parametrize("name", ["sum", "mean", "amax", "amin", "var", "std", "any", "all"])
def test_values_are_numpys(name, dim, keepdim):
    a = random(2, 3, 4)
    got = (
        getattr(torch.tensor(a), name)(dim=dim, keepdim=keepdim)
        if dim is not None
        else (getattr(torch.tensor(a), name)())
    )
    options = {"ddof": 1} if name in ("var", "std") else {}
    want = getattr(np, name)(a, axis=axes(dim, a), keepdims=keepdim and dim is not None, **options)
    assert tuple(got.shape) == want.shape
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-5)


def test_integer_sums_are_int64_and_means_an_error():
    for dtype in (torch.bool, torch.uint8, torch.int32):
        t = torch.tensor([1, 0, 1]).to(dtype)
        assert t.sum().dtype is torch.int64 and t.prod().dtype is torch.int64
        assert t.cumsum(0).dtype is torch.int64
        with pytest.raises(RuntimeError, match="mean.*could not infer output dtype.*Input dtype"):
            t.mean()
    assert torch.tensor([1, 2]).sum(dtype=torch.float32).dtype is torch.float32
    assert torch.tensor([1, 0], dtype=torch.uint8).any().dtype is torch.uint8


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_accumulate_in_float32(dtype):
    t = torch.ones(4096, dtype=torch.float32).to(dtype)
    assert t.sum().item() == 4096.0 and t.sum().dtype is dtype
    assert t.mean().item() == 1.0
    assert t.reshape(64, 64).sum(0).tolist() == [64.0] * 64


def test_a_long_sum_over_rows_stays_exact_to_float32():
    a = np.full((100_003, 3), 0.1, np.float32)
    got = torch.tensor(a).sum(0)
    np.testing.assert_allclose(got.numpy(), a.astype(np.float64).sum(0), rtol=1e-6)


def test_empty_inputs():
    e = torch.empty(0, 3)
    assert e.sum().item() == 0 and e.prod().item() == 1 and e.sum(0).tolist() == [0, 0, 0]
    assert np.isnan(e.mean().item()) and np.isnan(e.mean(0).numpy()).all()
    assert e.all().item() is True and e.any().item() is False
    assert e.max(1).values.shape == (0,)
    for name in ("max", "min", "amax", "amin"):
        with pytest.raises(RuntimeError, match="Expected reduction dim to be specified"):
            getattr(e, name)()
        with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
            getattr(e, name)(0)
    with pytest.raises(IndexError, match="argmax.*Expected reduction dim"):
        e.argmax()


def test_a_tensor_without_dimensions_has_dimension_0():
    z = torch.tensor(3.0)
    for dim in (0, -1, (0,)):
        assert z.sum(dim).item() == 3.0 and z.sum(dim).shape == ()
    assert z.max(0).indices.item() == 0
    assert z.cumsum(0).item() == 3.0 and z.argmax(-1).item() == 0
    with pytest.raises(IndexError, match=r"expected to be in range of \[-1, 0\], but got 1"):
        z.sum(1)


def test_wrong_dims():
    x = torch.ones(2, 3)
    with pytest.raises(IndexError, match=r"expected to be in range of \[-2, 1\], but got 2"):
        x.sum(2)
    with pytest.raises(RuntimeError, match="dim 0 appears multiple times in the list of dims"):
        x.sum((0, -2))
    with pytest.raises(TypeError, match="invalid combination"):
        x.sum(1.5)
    with pytest.raises(TypeError, match="invalid combination"):
        x.max((0, 1))
    with pytest.raises(TypeError, match="must be int, not tuple"):
        x.argmax((0, 1))


def test_nan_is_the_largest_and_the_smallest():
    x = torch.tensor([1.0, NAN, 3.0])
    assert np.isnan(x.max().item()) and np.isnan(x.min().item())
    assert x.argmax().item() == 1 and x.argmin().item() == 1
    values, indices = x.max(0)
    assert np.isnan(values.item()) and indices.item() == 1


def test_the_first_of_equals_is_chosen():
    x = torch.tensor([[1, 5, 5], [2, 2, 0]])
    assert x.argmax(1).tolist() == [1, 0] and x.max(1).indices.tolist() == [1, 0]
    assert x.min(0).indices.tolist() == [0, 1, 1]


def test_max_of_two_tensors_and_named_results():
    x = torch.tensor([1.0, 5.0])
    assert torch.max(x, torch.tensor([3.0, 3.0])).tolist() == [3.0, 5.0]
    r = torch.max(x, 0)
    assert r.values is r[0] and type(r).__name__ == "max"
    assert repr(r) == "torch.return_types.max(\nvalues=tensor(5.),\nindices=tensor(1))"
    assert isinstance(r, torch.return_types.max)


def test_dim_may_be_a_tensor_of_one_integer():
    x = torch.ones(2, 3)
    assert x.cumsum(torch.tensor(1))[0].tolist() == [1, 2, 3]
    for dim in (torch.tensor(1.0), 1.0, "1", True, None, (1,)):
        with pytest.raises(TypeError, match="must be int"):
            x.cumsum(dim)


def test_out_takes_the_results():
    values, indices = torch.empty(0), torch.empty(0, dtype=torch.int64)
    torch.max(torch.tensor([[1.0, 5.0]]), 1, out=(values, indices))
    assert values.tolist() == [5.0] and indices.tolist() == [1]


@pytest.mark.parametrize("name", ["sum", "prod", "cumsum", "cumprod", "nansum", "mean"])
def test_out_and_dtype_must_agree(name):
    x = torch.tensor([[0.6, 1.7], [0.6, 2.7]])
    function = getattr(torch, name)
    for given, other in ((torch.float32, torch.float64), (torch.float64, torch.float32)):
        with pytest.raises(RuntimeError, match="dtype"):
            function(x, 0, dtype=given, out=torch.empty(0, dtype=other))
        assert function(x, 0, dtype=given, out=torch.empty(0, dtype=given)).dtype is given


def test_sums_are_computed_in_the_dtype_of_out():
    x = torch.tensor([[0.6, 1.7], [0.6, 2.7]])
    out = torch.empty(0, dtype=torch.int64)
    assert torch.sum(x, 0, out=out).tolist() == [0, 3] and torch.prod(x, 0, out=out).tolist() == [
        0,
        2,
    ]
    assert torch.cumsum(x, 0, out=torch.empty_like(x, dtype=torch.int64)).tolist() == [
        [0, 1],
        [0, 3],
    ]
    with pytest.raises(RuntimeError, match="can't be cast"):
        torch.mean(x, 0, out=out)


def test_mode_says_which_output_has_a_wrong_dtype():
    x = torch.ones(3, dtype=torch.uint8)
    for outs, text in (
        ((torch.int8, torch.int64), "'Byte' but got 'Char' for values"),
        ((torch.uint8, torch.int32), "'Long' but got 'Int' for indices"),
    ):
        with pytest.raises(RuntimeError, match=text):
            torch.mode(x, 0, out=[torch.empty(0, dtype=d) for d in outs])


def test_running_log_of_sums_of_infinite_numbers():
    inf, nan = math.inf, math.nan
    x = torch.tensor([-inf, -inf, 1.0, inf, nan, 1.0], dtype=torch.float64)
    got = x.logcumsumexp(0).tolist()
    assert got[:4] == [-inf, -inf, 1.0, inf] and all(map(math.isnan, got[4:]))
    z = torch.tensor(
        [complex(-inf, 2), complex(-inf, inf), 1 + 1j, complex(inf, 1), complex(inf, 1)]
    )
    got = z.logcumsumexp(0).tolist()
    assert got[:4] == [complex(-inf, 0), complex(-inf, 0), 1 + 1j, complex(inf, 1)]
    assert got[4].real == inf and math.isclose(got[4].imag, math.pi / 4, rel_tol=1e-6)
    got = torch.tensor([complex(1, nan), 1 + 1j]).logcumsumexp(0)
    assert got.real.isnan().all() and got.imag.isnan().all()


def test_numpy_names_of_arguments():
    x = torch.ones(2, 3)
    assert x.sum(axis=1).tolist() == [3, 3] and x.mean(axis=0, keepdims=True).shape == (1, 3)
    assert x.max(axis=1).values.tolist() == [1, 1]


# -- gradients -------------------------------------------------------------------------------------


def grad_of(function, values, dtype=torch.float64):
    x = torch.tensor(values, dtype=dtype, requires_grad=True)
    function(x).backward()
    return x.grad.tolist()


def test_names_of_nodes():
    x = torch.ones(2, 3, requires_grad=True)
    names = {
        "SumBackward0": x.sum(), "SumBackward1": x.sum(0), "MeanBackward0": x.mean(),
        "MeanBackward1": x.mean(0), "MaxBackward1": x.max(), "MaxBackward0": x.max(0).values,
        "ProdBackward0": x.prod(), "ProdBackward1": x.prod(0), "VarBackward0": x.var(),
        "AmaxBackward0": x.amax(), "CumsumBackward0": x.cumsum(0), "MedianBackward0": x.median(),
    }  # fmt: skip
    for name, result in names.items():
        assert result.grad_fn.name() == name


def test_gradients_at_ties():
    ties = [1.0, 2.0, 2.0]
    assert grad_of(lambda x: x.max(), ties) == [0, 0.5, 0.5]
    assert grad_of(lambda x: x.amax(), ties) == [0, 0.5, 0.5]
    assert grad_of(lambda x: x.max(0).values, ties) == [0, 1, 0]
    assert grad_of(lambda x: x.amin(), [1.0, 1.0, 2.0]) == [0.5, 0.5, 0]


def test_gradient_of_a_product_with_zeros():
    assert grad_of(lambda x: x.prod(), [2.0, 3.0, 4.0]) == [12, 8, 6]
    assert grad_of(lambda x: x.prod(), [2.0, 0.0, 4.0]) == [0, 8, 0]
    assert grad_of(lambda x: x.prod(), [0.0, 0.0, 4.0]) == [0, 0, 0]
    assert grad_of(lambda x: x.cumprod(0).sum(), [2.0, 0.0, 4.0]) == [1, 10, 0]


def test_gradient_of_std_where_it_is_0():
    assert grad_of(lambda x: x.std(), [3.0, 3.0]) == [0, 0]


def test_the_gradient_of_a_sum_has_the_dtype_of_the_input():
    x = torch.ones(3, requires_grad=True)
    x.sum(dtype=torch.float64).backward()
    assert x.grad.dtype is torch.float32 and x.grad.tolist() == [1, 1, 1]


FUNCTIONS = {
    "sum": lambda x: x.sum(1), "mean": lambda x: x.mean((0, 1)), "prod": lambda x: x.prod(1),
    "var": lambda x: x.var(1), "std": lambda x: x.std(0, correction=0), "max": lambda x: x.max(1).values,
    "amin": lambda x: x.amin((0, 1)), "logsumexp": lambda x: x.logsumexp(1), "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: x.cumprod(1), "logcumsumexp": lambda x: x.logcumsumexp(0),
    "cummax": lambda x: x.cummax(1).values, "median": lambda x: x.median(1).values,
    "norm": lambda x: x.norm(), "norm 3": lambda x: x.norm(3, dim=1), "var_mean": lambda x: torch.var_mean(x, 0)[1],
    "sort": lambda x: x.sort(1).values, "topk": lambda x: x.topk(2, 1).values,
    "quantile": lambda x: x.quantile(0.3, dim=1), "diff": lambda x: x.diff(dim=0),
    "trapezoid": lambda x: torch.trapezoid(x), "cov": lambda x: torch.cov(x), "renorm": lambda x: x.renorm(2, 0, 1.0),
    "dist": lambda x: torch.dist(x, torch.ones(4, dtype=x.dtype), 3), "mode": lambda x: x.mode(1).values,
    "segments": lambda x: torch.segment_reduce(x, "mean", lengths=torch.tensor([2, 1])),
}  # fmt: skip


@pytest.mark.parametrize("name", FUNCTIONS)
def test_first_and_second_derivatives_are_difference_quotients(name):
    function = FUNCTIONS[name]
    a = np.random.RandomState(3).randn(3, 4)
    weights = torch.tensor(np.random.RandomState(4).randn(*function(torch.tensor(a)).shape))

    def value(v):
        return (function(v) * weights).sum()

    x = torch.tensor(a, requires_grad=True)
    (g,) = torch.autograd.grad(value(x), x, create_graph=True)
    direction = torch.tensor(np.random.RandomState(5).randn(3, 4))
    along = (g * direction).sum()
    h = 1e-6
    plus, minus = torch.tensor(a) + h * direction, torch.tensor(a) - h * direction
    assert along.item() == pytest.approx((value(plus) - value(minus)).item() / (2 * h), abs=1e-5)
    if not along.requires_grad:
        return
    (second,) = torch.autograd.grad(along, x, allow_unused=True)
    if second is None:
        return
    grads = []
    for moved in (plus, minus):
        y = moved.detach().requires_grad_()
        grads.append(torch.autograd.grad(value(y), y)[0])
    want = (grads[0] - grads[1]) / (2 * h)
    np.testing.assert_allclose(second.numpy(force=True), want.numpy(), atol=1e-4)


# -- the others ------------------------------------------------------------------------------------


def test_variance_warns_without_degrees_of_freedom():
    with pytest.warns(UserWarning, match="degrees of freedom is <= 0"):
        assert np.isnan(torch.tensor([1.0]).var().item())
    with pytest.raises(RuntimeError, match="std and var only support floating point"):
        torch.tensor([1, 2]).var()
    x = torch.tensor([[1.0, 2.0, 4.0]])
    assert x.var(False).item() == pytest.approx(np.var([1, 2, 4]))
    assert x.var(1, False, True).shape == (1, 1)
    assert x.var(dim=1, correction=2).item() == pytest.approx(np.var([1, 2, 4]) * 3)


def test_complex_variance_is_real():
    a = random(4) + 1j * random(4, seed=1)
    got = torch.tensor(a).var()
    assert got.dtype is torch.float32 and got.item() == pytest.approx(np.var(a, ddof=1), rel=1e-5)


def test_median_is_the_lower_one():
    assert torch.tensor([4.0, 1.0, 3.0, 2.0]).median().item() == 2.0
    x = torch.tensor([[1.0, NAN, 2.0], [3.0, -1.0, 5.0]])
    assert np.isnan(x.median().item()) and x.nanmedian().item() == 2.0
    r = x.median(1)
    assert np.isnan(r.values[0].item()) and r.indices.tolist() == [1, 0]
    assert x.nanmedian(1).values.tolist() == [1.0, 3.0]


def test_mode_is_the_smallest_of_the_commonest():
    r = torch.tensor([[3, 1, 2, 1], [5, 5, 2, 2]]).mode()
    assert r.values.tolist() == [1, 2] and r.indices.tolist() == [3, 3]


def test_running_extremes_move_to_the_last_of_equals():
    r = torch.tensor([5.0, 5.0, 2.0, NAN, 9.0]).cummax(0)
    assert r.indices.tolist() == [0, 1, 1, 3, 3]
    assert np.isnan(r.values[3:].numpy()).all()


@pytest.mark.parametrize("shape", [(3, 5, 4), (300, 20, 2), (2, 700, 3), (700, 2, 2)])
@pytest.mark.parametrize("dim", [0, 1, -1, (0, 1), (0, 2), (1, -1), ()])
def test_logsumexp_over_any_dimensions(shape, dim):
    a = np.random.default_rng(0).normal(size=shape)
    a[0, 0, 0] = -np.inf
    over = dim if dim != () else (0, 1, 2)
    for turned in (False, True):
        x = torch.tensor(a.T.copy()).permute(2, 1, 0) if turned else torch.tensor(a)
        for keep in (False, True):
            expected = np.log(np.exp(a).sum(over, keepdims=keep))
            np.testing.assert_allclose(x.logsumexp(dim, keep).numpy(), expected, rtol=1e-13)
    x = torch.tensor([[np.nan, 1.0], [np.inf, -np.inf]])
    assert str(x.logsumexp(0).tolist()) == "[nan, 1.0]"


def test_logsumexp_does_not_overflow():
    assert torch.tensor([1000.0, 1000.0]).logsumexp(0).item() == pytest.approx(1000 + np.log(2))
    assert torch.full((2,), -np.inf).logsumexp(0).item() == -np.inf
    assert torch.tensor([1, 2]).logsumexp(0).dtype is torch.float32


@pytest.mark.parametrize("interpolation", ["linear", "lower", "higher", "midpoint", "nearest"])
def test_quantiles_are_numpys(interpolation):
    a = np.random.RandomState(0).randn(4, 7)
    q = np.array([0.0, 0.2, 0.5, 0.77, 1.0])
    got = torch.tensor(a).quantile(torch.tensor(q), dim=1, interpolation=interpolation)
    np.testing.assert_allclose(got.numpy(), np.quantile(a, q, 1, method=interpolation))
    assert torch.tensor(a).quantile(0.5, keepdim=True).shape == (1, 1)


def test_histograms():
    a = random(100)
    for bins in (1, 5, 10):
        hist, edges = torch.histogram(torch.tensor(a), bins)
        np.testing.assert_array_equal(hist.numpy(), np.histogram(a, edges.numpy())[0])
    assert torch.histc(torch.tensor([1.0, 2.0, 1.0]), 4, 0, 3).tolist() == [0, 2, 1, 0]
    assert torch.histc(torch.tensor([1e38, -3e38]), 5).tolist() == [1, 0, 0, 0, 1]
    assert torch.histc(torch.tensor([1e37, 2e37, -3e37]), 4, -1e38, 1e38).tolist() == [0, 1, 2, 0]
    assert torch.bincount(torch.tensor([1, 3, 1]), minlength=6).tolist() == [0, 2, 0, 1, 0, 0]
    points = np.random.RandomState(1).rand(50, 2)
    hist, edges = torch.histogramdd(torch.tensor(points), [3, 4], density=True)
    want, _ = np.histogramdd(points, [e.numpy() for e in edges], density=True)
    np.testing.assert_allclose(hist.numpy(), want)


def test_covariance_is_numpys():
    a = np.random.RandomState(0).randn(3, 8)
    np.testing.assert_allclose(torch.cov(torch.tensor(a)).numpy(), np.cov(a))
    np.testing.assert_allclose(torch.corrcoef(torch.tensor(a)).numpy(), np.corrcoef(a))
    f, w = np.arange(1, 9), np.linspace(0.5, 2, 8)
    got = torch.cov(torch.tensor(a), fweights=torch.tensor(f), aweights=torch.tensor(w))
    np.testing.assert_allclose(got.numpy(), np.cov(a, fweights=f, aweights=w))


def test_segments():
    v = torch.tensor([1.0, 3.0, 5.0])
    got = torch.segment_reduce(v, "mean", lengths=torch.tensor([1, 0, 2]))
    assert np.isnan(got[1].item()) and got[2].item() == 4.0
    assert torch.segment_reduce(v, "max", offsets=torch.tensor([0, 1, 3])).tolist() == [1.0, 5.0]
    with pytest.raises(RuntimeError, match="Expected all rows of lengths"):
        torch.segment_reduce(v, "sum", lengths=torch.tensor([1, 1]))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, (0, 2), (1, 2), (0, 1)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_sums_of_large_arrays(dtype, axis, keepdim):
    a = np.random.RandomState(0).rand(7, 5, 2500).astype(dtype)
    got = torch.tensor(a).sum(axis, keepdim)
    want = a.astype(np.float64).sum(axis, keepdims=keepdim)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    moved = torch.tensor(a).permute(2, 0, 1)
    np.testing.assert_allclose(moved.sum(0).numpy(), a.astype(np.float64).sum(2), rtol=1e-6)


@pytest.mark.parametrize("shape, dim", [((4096,), 0), ((8, 1000), 1), ((1000, 8), 0), ((64, 3), 0)])
def test_variance_far_from_zero(shape, dim):
    """The mean of numbers about 1000 is rounded by more than the hundredth part of their spread."""
    a = (1000 + 0.01 * np.random.default_rng(0).standard_normal(shape)).astype(np.float32)
    want = a.astype(np.float64).var(dim, ddof=1)
    np.testing.assert_allclose(torch.tensor(a).var(dim).numpy(), want, rtol=1e-6)


def test_warnings_of_too_few_elements_name_the_function():
    for name in ("var", "std", "var_mean", "std_mean"):
        with pytest.warns(UserWarning, match=rf"^{name}\(\): degrees of freedom is <= 0"):
            getattr(torch, name)(torch.ones(1))


@pytest.mark.parametrize(
    "data, reduce, initial, want",
    [
        ([0.0, 2, 3, 4], "prod", None, [6, 0, 0, 1]), ([0.0, 2, 0, 4], "prod", None, [0, 0, 0, 1]),
        ([float("nan"), 2, 3, 4], "prod", 2, [12, float("nan"), float("nan"), 2]),
        ([float("nan"), 0, 3, 4], "prod", None, [0, float("nan"), float("nan"), 1]),
        ([1.0, float("nan"), 3, 4], "max", None, [0, 1, 0, 1]), ([1.0, float("nan"), 3, 4], "min", 9, [0, 1, 0, 1]),
    ],
)  # fmt: skip
def test_gradients_of_segments_with_zeros_and_nan(data, reduce, initial, want):
    """The product of the others is no quotient there, and nan is what a maximum takes."""
    for function in (torch.segment_reduce, torch._segment_reduce):
        x = torch.tensor(data, requires_grad=True)
        function(x, reduce, lengths=torch.tensor([3, 1]), initial=initial).sum().backward()
        np.testing.assert_equal(x.grad.numpy(), np.array(want, np.float32))


def test_renorm_measures_halves_in_float32_and_refuses_integers():
    x = torch.tensor([[3.0, 4.0, 1.0], [0.25, 0.5, 1.0]], dtype=torch.bfloat16)
    length = x[0].float().norm()
    factor = (2.0 / (length + 1e-7)).to(torch.bfloat16)
    r = x.t().contiguous().t().renorm(2, 0, 2.0)
    assert r.is_contiguous() and torch.equal(r[0], x[0] * factor) and torch.equal(r[1], x[1])
    with pytest.raises(RuntimeError, match="floating point or complex"):
        torch.ones(2, 2, dtype=torch.int64).renorm(2, 0, 1.0)


def test_variance_of_all_elements_in_any_order_of_memory():
    x = torch.arange(60000.0, dtype=torch.float64).reshape(20, 30, 100).sin()
    for dims in ((2, 1, 0), (1, 2, 0), (0, 2, 1)):
        y = x.permute(dims)
        assert torch.allclose(y.var(), x.var(), rtol=1e-12)
        assert y.var(keepdim=True, dim=(0, 1, 2)).shape == (1, 1, 1)
        strided = y[:, ::2]
        assert torch.allclose(strided.var(), strided.contiguous().var(), rtol=1e-12)


@pytest.mark.parametrize("count", [1, 5000])
def test_counts_of_the_largest_number_are_refused(count):
    with pytest.raises(RuntimeError, match="maximum value of input overflowed"):
        torch.bincount(torch.full((count,), 2**63 - 1))


def test_the_mean_beside_a_spread_that_is_not_a_number_has_a_gradient():
    for pair in (torch.var_mean, torch.std_mean):
        x = torch.tensor([0.5], requires_grad=True)
        with pytest.warns(UserWarning, match="degrees of freedom"):
            _, mean = pair(x, 0)
        (g,) = torch.autograd.grad(mean * 2, x)
        assert g.tolist() == [2.0]


@pytest.mark.parametrize("last", [2.0, float("inf")])
def test_histogram_of_points_on_edges_of_any_spacing(last):
    """The first guess of a bin takes edges for evenly spaced; equal ones, and infinite ones, are not."""
    edges = np.array([-1.0, -1.0, 0.25, 0.5, 0.5, 1.75, last], np.float32)
    points = np.concatenate([np.linspace(-2, 3, 200, dtype=np.float32), edges, [np.float32("nan")]])
    weights = np.arange(len(points), dtype=np.float32)
    inside = (points >= edges[0]) & (points <= edges[-1])
    at = np.minimum(np.searchsorted(edges, points, "right") - 1, 5)
    for w in (None, weights):
        expected = np.bincount(at[inside], None if w is None else w[inside], 6)
        given = None if w is None else torch.tensor(w)
        hist = torch.histogram(torch.tensor(points), torch.tensor(edges), weight=given).hist
        np.testing.assert_array_equal(hist.numpy(), expected)


def test_backward_from_a_histogram_raises():
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    counted = torch.bincount(torch.tensor([1, 0]), x)
    for name, result in (
        ("bincount", counted), ("histogram", torch.histogram(x, 3).hist), ("histogram", torch.histogram(x, 3).bin_edges),
        ("histogram", torch.histogramdd(x[:, None], [2]).hist),
    ):  # fmt: skip
        with pytest.raises(RuntimeError, match=f"derivative for aten::{name} is not implemented"):
            result.sum().backward()


def test_what_a_histogram_refuses():
    one, wide = torch.ones(()), torch.ones((), dtype=torch.float64)
    for out, name in (((wide, one), "hist"), ((one, wide), "bin_edges")):
        with pytest.raises(
            RuntimeError, match=f"input tensor and {name} tensor should have the same"
        ):
            torch.histogram(one, 1, out=out)
    with pytest.raises(TypeError, match="invalid combination of arguments"):
        torch.histogram(one, torch.ones(2), range=(0, 1))
