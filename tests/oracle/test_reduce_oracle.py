"""Reductions, sorting and searching against PyTorch: values, dtypes, strides, names of nodes, errors."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.oracle

# `x` is the tensor, `d` a dimension, `ds` several, `k` a bool; `T` is the library
CALLS = [
    "x.sum()", "x.sum(d)", "x.sum(ds, k)", "x.sum(d, dtype=T.float64)", "x.mean()", "x.mean(d, k)", "x.mean(ds)",
    "x.prod()", "x.prod(d, k)", "x.any()", "x.any(d, k)", "x.all(ds)", "x.all(d)", "x.max()", "x.max(d, k)", "x.min(d)",
    "x.min()", "x.amax(ds, k)", "x.amin(d)", "x.aminmax(dim=d, keepdim=k)", "x.aminmax()", "x.argmax()",
    "x.argmax(d, k)", "x.argmin(d)", "x.var()", "x.var(d, correction=0)", "x.std(ds, keepdim=k)", "x.var(k)",
    "x.var(d, k, k)", "T.var_mean(x, d)", "T.std_mean(x, ds, correction=2)", "x.logsumexp(d, k)", "x.logsumexp(ds)",
    "x.nansum(d)", "x.nanmean(d, k)", "x.count_nonzero(d)", "x.median()", "x.median(d, k)[0]", "x.nanmedian(d)[0]",
    "x.mode(d, k)", "x.kthvalue(1, d, k)[0]", "x.cumsum(d)", "x.cumprod(d)", "x.cummax(d)", "x.cummin(d)",
    "x.logcumsumexp(d)", "x.norm()", "x.norm(dim=d)", "x.norm(3, ds, k)", "x.diff(dim=d)", "T.trapezoid(x, dim=d)",
    "T.cumulative_trapezoid(x, dim=d)", "x.sort(d)", "x.sort(d, k)", "x.argsort(d, k)", "x.msort()",
    "x.topk(1, d, k)[0]", "x.unique(return_inverse=True, return_counts=True)", "x.unique(dim=d)",
    "T.unique_consecutive(x, return_counts=True)", "T.unique_consecutive(x, dim=d)", "x.quantile(0.4, d, k)",
    "x.nanquantile(0.7)", "T.searchsorted(x.sort(-1)[0].contiguous(), x.contiguous(), right=k)",
    "T.bucketize(x.contiguous(), T.tensor([-1, 0, 2]), right=k)", "T.isin(x.contiguous(), T.tensor([0, 1, 2]))", "T.histc(x, 4)", "T.cov(x)", "T.corrcoef(x)",
    "T.gradient(x, dim=d, spacing=2.0)",
    "T.hash_tensor(x)",
    "x.renorm(2, d, 1.0)", "T.dist(x, x + 1, 2)", "x.sum_to_size(x.shape)",
]  # fmt: skip
DTYPES = ["float32", "float64", "int64", "uint8", "bool", "float16", "bfloat16", "complex64"]


@st.composite
def cases(draw):
    ndim = draw(st.sampled_from([0, 1, 2, 2, 3]))
    shape = draw(st.lists(st.sampled_from([1, 2, 3, 4, 0] if draw(st.integers(0, 4)) == 0 else [1, 2, 3, 4]),
                          min_size=ndim, max_size=ndim))  # fmt: skip
    dtype = draw(st.sampled_from(DTYPES))
    values = (
        np.random.RandomState(draw(st.integers(0, 99))).randint(-2, 4, shape).astype(np.float64)
    )
    if dtype in ("uint8", "bool"):
        values = np.abs(values)
    elif dtype != "int64" and draw(st.integers(0, 3)) == 0 and values.size:
        values.reshape(-1)[0] = draw(st.sampled_from([np.nan, np.inf, -np.inf]))
    order = draw(st.permutations(range(ndim)))
    d = draw(st.integers(-ndim - 1, ndim)) if draw(st.integers(0, 9)) == 0 else (
        draw(st.integers(-max(ndim, 1), max(ndim - 1, 0)))
    )  # fmt: skip
    ds = tuple(draw(st.lists(st.integers(0, max(ndim - 1, 0)), max_size=ndim, unique=True)))
    return values, dtype, order, d, ds, draw(st.booleans())


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "uint8", "float16", "bfloat16"])
@pytest.mark.parametrize("n", [1, 2, 3, 7, 8, 16, 17, 40, 64, 130, 300, 1000, 2100, 4200])
def test_choice_among_equal_elements(n, dtype):
    """`topk`, `kthvalue` and `mode` give the indices that PyTorch's algorithms come to."""
    rng = np.random.default_rng(n)
    rows = [np.zeros(n), np.arange(n) % 3, np.sort(rng.integers(0, 9, n))]
    rows += [rng.integers(0, most, n) for most in (2, 4, 100)]
    values = np.stack(rows).astype(np.float64)
    if dtype not in ("int64", "uint8"):
        odd = values.copy()
        odd[rng.random(odd.shape) < 0.1] = np.nan
        odd[rng.random(odd.shape) < 0.1] = np.inf
        values = np.concatenate([values, odd])
    tensors = [T.tensor(values).to(getattr(T, dtype)) for T in (torch, rushlight)]
    for k in {1, min(2, n), n // 64 or 1, min(n // 64 + 1, n), max(n // 2, 1), n}:
        for largest in (True, False):
            for ordered in (True, False):
                want, got = [x.topk(k, 1, largest, ordered).indices.tolist() for x in tensors]
                assert got == want, (k, largest, ordered)
        want, got = [x.kthvalue(k, 1).indices.tolist() for x in tensors]
        assert got == want, k
    want, got = [x.t().mode(0) for x in tensors]
    assert got.indices.tolist() == want.indices.tolist()
    np.testing.assert_array_equal(got.values.double().numpy(), want.values.double().numpy())


def run(T, call, case):
    values, dtype, order, d, ds, k = case
    x = T.tensor(values, dtype=T.float64).to(getattr(T, dtype)).permute(order)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            r = eval(call, {"T": T, "x": x, "d": d, "ds": ds, "k": k})
        except (RuntimeError, IndexError, TypeError, ValueError) as e:
            # NotImplementedError is a RuntimeError: both say that the dtype will not do
            return "error", IndexError if isinstance(e, IndexError) else RuntimeError, None
    return "ok", type(r).__name__, r if isinstance(r, tuple) else (r,)


def numbers(t):
    return t.to(type_of(t)).numpy()


def type_of(t):
    T = torch if isinstance(t, torch.Tensor) else rushlight
    return T.complex128 if t.is_complex() else T.float64


@settings(max_examples=40, deadline=None)
@given(case=cases())
@pytest.mark.parametrize("call", CALLS)
def test_as_pytorch(call, case):
    if "logsumexp(ds)" in call and not case[4]:
        return  # PyTorch fails on an empty tuple, which elsewhere means all dimensions
    if "_mean" in call and np.isinf(case[0]).any():
        return  # PyTorch's running mean of an infinity and a number is nan
    if "diff" in call and case[1] == "complex64" and np.isinf(case[0]).any():
        return  # PyTorch multiplies what it takes away by 1, which makes a nan of (inf, 0)
    if ("unique(dim" in call or "mode" in call) and np.isnan(case[0]).any():
        return  # PyTorch's order is not one when there is a nan
    want, got = run(torch, call, case), run(rushlight, call, case)
    if got[0] == "error" and not case[0].size:
        return  # PyTorch does not check dtype and dimension of some empty inputs
    assert got[0] == want[0], (call, case, got, want)
    if want[0] == "error":
        return
    assert got[1].replace("Tensor", "") == want[1].replace("Tensor", "")
    low = case[1] in ("float16", "bfloat16")
    for w, g in zip(want[2], got[2], strict=True):
        assert str(g.dtype) == str(w.dtype), (call, case)
        assert tuple(g.shape) == tuple(w.shape), (call, case)
        np.testing.assert_allclose(
            numbers(g),
            numbers(w),
            rtol=0.02 if low else 1e-5,
            atol=0.02 if low else 1e-6,
            err_msg=f"{call} {case}",
        )


NODES = [c for c in CALLS if c.startswith(("x.", "T.var", "T.std")) and "nanmean" not in c
         and not any(n in c for n in ("quantile", "unique", "renorm", "msort", "histc", "sum_to_size"))]  # fmt: skip


@pytest.mark.parametrize("call", NODES)
def test_names_of_nodes_and_gradients(call):
    values = np.random.RandomState(0).randn(3, 4)
    found = []
    for T in (torch, rushlight):
        x = T.tensor(values, requires_grad=True)
        r = eval(call, {"T": T, "x": x, "d": 1, "ds": (0, 1), "k": False})
        r = r if isinstance(r, tuple) else (r,)
        names = [t.grad_fn.name() if t.requires_grad else None for t in r]
        grad = None
        if r[0].requires_grad and r[0] is not x:
            (r[0] * T.tensor(np.random.RandomState(1).randn(*r[0].shape))).sum().backward()
            grad = x.grad.numpy()
        found.append((names, grad))
    assert found[0][0] == found[1][0]
    if found[0][1] is not None:
        np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-6, atol=1e-9)
