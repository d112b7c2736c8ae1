"""Sorting and searching against NumPy; order of nan and of equals."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch

NAN = float("nan")


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("descending", [False, True])
def test_sort(dim, descending):
    a = np.random.RandomState(0).randint(0, 4, (5, 6))
    values, indices = torch.tensor(a).sort(dim, descending)
    sign = -1 if descending else 1
    np.testing.assert_array_equal(indices.numpy(), np.argsort(sign * a, dim, kind="stable"))
    np.testing.assert_array_equal(values.numpy(), sign * np.sort(sign * a, dim))


def test_nan_is_largest():
    x = torch.tensor([1.0, NAN, 3.0])
    assert x.sort().indices.tolist() == [0, 2, 1]
    assert x.sort(descending=True).indices.tolist() == [1, 2, 0]
    assert x.topk(2).indices.tolist() == [1, 2]
    assert x.to(torch.bfloat16).argsort().tolist() == [0, 2, 1]
    assert x.kthvalue(2).values.item() == 3.0


def test_sort_keeps_the_order_in_memory():
    x = torch.arange(6.0).reshape(2, 3).t()
    assert x.sort(0).values.stride() == x.stride() == (1, 3)


@pytest.mark.parametrize("n", [5, 500])
@pytest.mark.parametrize("largest", [False, True])
def test_topk(n, largest):
    a = np.random.RandomState(n).permutation(n * 3).reshape(3, n)
    values, indices = torch.tensor(a).topk(4, largest=largest)
    want = np.argsort(-a if largest else a, 1)[:, :4]
    np.testing.assert_array_equal(indices.numpy(), want)
    np.testing.assert_array_equal(values.numpy(), np.take_along_axis(a, want, 1))
    with pytest.raises(RuntimeError, match="selected index k out of range"):
        torch.tensor(a).topk(n + 1)


def test_unique():
    a = np.random.RandomState(0).randint(0, 5, (4, 6))
    values, inverse, counts = torch.tensor(a).unique(return_inverse=True, return_counts=True)
    v, i, c = np.unique(a, return_inverse=True, return_counts=True)
    np.testing.assert_array_equal(values.numpy(), v)
    np.testing.assert_array_equal(inverse.numpy(), i.reshape(a.shape))
    np.testing.assert_array_equal(counts.numpy(), c)
    assert torch.tensor([NAN, NAN, 1.0]).unique().numel() == 3


def test_unique_slices():
    a = np.array([[1, 2], [0, 5], [1, 2]])
    values, inverse, counts = torch.tensor(a).unique(dim=0, return_inverse=True, return_counts=True)
    assert values.tolist() == [[0, 5], [1, 2]]
    assert inverse.tolist() == [1, 0, 1] and counts.tolist() == [1, 2]
    assert torch.tensor(a).unique(dim=1).shape == (3, 2)


def test_unique_consecutive():
    x = torch.tensor([1, 1, 2, 2, 1])
    values, inverse, counts = x.unique_consecutive(return_inverse=True, return_counts=True)
    assert values.tolist() == [1, 2, 1]
    assert inverse.tolist() == [0, 0, 1, 1, 2] and counts.tolist() == [2, 2, 1]
    assert torch.empty(0).unique_consecutive().shape == (0,)


def test_searchsorted():
    edges = torch.tensor([1.0, 3.0, 5.0])
    x = torch.tensor([0.0, 1.0, 4.0, 9.0, NAN])
    assert torch.searchsorted(edges, x).tolist() == [0, 0, 2, 3, 3]
    assert torch.searchsorted(edges, x, right=True).tolist() == [0, 1, 2, 3, 3]
    assert torch.bucketize(x, edges, out_int32=True).dtype is torch.int32
    assert torch.searchsorted(edges, 2).item() == 1
    rows = torch.tensor([[1.0, 2.0], [5.0, 6.0]])
    assert torch.searchsorted(rows, torch.tensor([[1.5], [1.5]])).tolist() == [[1], [0]]
    with pytest.raises(RuntimeError, match="side and right can't be set to opposites"):
        torch.searchsorted(edges, x, right=True, side="left")
    with pytest.raises(RuntimeError, match="first N-1 dimensions"):
        torch.searchsorted(rows, x)


def test_isin():
    x = torch.tensor([[0, 1], [2, 3]])
    assert torch.isin(x, torch.tensor([1, 2])).tolist() == [[False, True], [True, False]]
    assert torch.isin(x, 3, invert=True).tolist() == [[True, True], [True, False]]


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.int32, torch.uint8, torch.bool]
)
@pytest.mark.parametrize("descending", [False, True])
def test_short_dtypes_sort_by_key(dtype, descending):
    a = np.random.RandomState(0).randint(-3, 4, (50, 4))
    x = torch.tensor(a).to(dtype)
    values, indices = x.sort(0, descending)
    b = x.to(torch.int64).numpy()
    want = np.argsort(-b if descending else b, 0, kind="stable")
    np.testing.assert_array_equal(indices.numpy(), want)
    np.testing.assert_array_equal(values.to(torch.int64).numpy(), np.take_along_axis(b, want, 0))


def test_zeros_of_both_signs_are_equal_and_infinities_are_ends():
    x = torch.tensor([0.0, -0.0, np.inf, -np.inf, NAN, -1.0])
    assert x.argsort().tolist() == [3, 5, 0, 1, 2, 4]
    assert x.argsort(descending=True).tolist() == [4, 2, 0, 1, 5, 3]
    y = torch.full((100,), -np.inf)
    assert len(set(y.topk(3).indices.tolist())) == 3


def test_searchsorted_warns_of_copies():
    torch.set_warn_always(True)
    try:
        rows = torch.arange(6.0).view(3, 2)
        for name, call in (
            ("boundary", lambda: torch.searchsorted(rows.t(), torch.ones(2, 1))),
            ("input value", lambda: torch.bucketize(rows.t(), torch.arange(3.0))),
        ):
            with pytest.warns(UserWarning, match=f"{name} tensor is non-contiguous"):
                call()
    finally:
        torch.set_warn_always(False)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int64", "int32"])
@pytest.mark.parametrize("count", [0, 1, 5, 32, 33, 200])
def test_isin_by_few_and_by_many(dtype, count):
    rng = np.random.default_rng(count)
    a, tests = rng.integers(0, 90, (7, 40)), rng.integers(0, 90, count)
    x = torch.tensor(a).to(getattr(torch, dtype)).t()
    y = torch.tensor(tests).to(x.dtype)
    for invert in (False, True):
        found = torch.isin(x, y, invert=invert)
        assert found.is_contiguous()
        assert np.array_equal(found.numpy(), np.isin(a.T, tests, invert=invert))


def test_nan_is_in_nothing():
    nan = float("nan")
    for more in (0, 50):
        tests = torch.tensor([nan, 1.0, *[5.0] * more])
        assert torch.isin(torch.tensor([1.0, nan]), tests).tolist() == [True, False]


# Indices that PyTorch 2.13 gives on a CPU.
EQUAL = torch.arange(40).mul(7).remainder(5).float()
CHOICES = [
    (torch.zeros(8), 2, {}, [6, 5]),
    (EQUAL, 5, {}, [27, 7, 32, 22, 12]),
    (EQUAL, 5, {"largest": False}, [15, 35, 30, 10, 25]),
    (torch.arange(200).mul(7).remainder(3), 3, {}, [8, 5, 2]),
    (torch.arange(200).mul(7).remainder(3), 6, {}, [137, 143, 59, 140, 62, 134]),
    (torch.tensor([3, 1, 4, 5, 9, 2, 6, 8]), 4, {"sorted": False}, [7, 4, 6, 3]),
]


@pytest.mark.parametrize(("x", "k", "how", "want"), CHOICES, ids=range(len(CHOICES)))
def test_topk_takes_the_equal_elements_that_pytorch_takes(x, k, how, want):
    assert x.topk(k, **how).indices.tolist() == want
    assert torch.stack([x] * 3, 1).topk(k, 0, **how).indices.tolist() == [[i] * 3 for i in want]


def test_kthvalue_and_mode_choose_as_pytorch():
    assert [EQUAL.kthvalue(k).indices.item() for k in (1, 8, 20, 40)] == [15, 25, 11, 12]
    assert EQUAL.mode().indices.item() == 0
    assert torch.arange(200).mul(7).remainder(3).mode().indices.item() == 168
    values, index = torch.tensor([1.0, NAN, 1.0, 2.0, 2.0]).mode()  # nan parts the ones
    assert (values.item(), index.item()) == (2.0, 4)
