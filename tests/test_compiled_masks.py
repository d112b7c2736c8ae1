"""Masks, running sums, bags, counts and searches in machine code, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from guard import guarded
from rushlight._backends.llvm import bags, masks, scan, sorting
from rushlight._backends.reference import bags as numpy_bags
from rushlight._backends.reference import masks as numpy_masks
from rushlight._backends.reference import reduce as numpy_reduce
from rushlight._backends.reference import sorting as numpy_sorting

shapes = st.lists(st.sampled_from([1, 2, 3, 7, 16, 33]), min_size=1, max_size=3).map(tuple)
MOVED = [np.dtype(t) for t in (bool, np.int16, np.float16, np.float32, np.int64)]


@pytest.fixture(autouse=True, scope="module")
def of_any_size():
    before = [m.SMALL for m in (scan, sorting)]
    for m in (scan, sorting):
        m.SMALL = 1
    sorting.MANY = 64
    yield
    for m, size in zip((scan, sorting), before, strict=True):
        m.SMALL = size
    sorting.MANY = 1 << 16


def some(rng, shape, dtype, low=-9):
    return guarded(rng.integers(low, 10, shape).astype(dtype), rng.choice(["after", "before"]))


@given(shape=shapes, density=st.sampled_from([0.0, 0.1, 0.9, 1.0]), seed=st.integers(0, 999))
@settings(max_examples=150, deadline=None)
def test_masks(shape, density, seed):
    rng = np.random.default_rng(seed)
    if seed % 5 == 0:
        shape = (2, *shape[1:], 4096 + seed)
    a = some(rng, shape, MOVED[seed % len(MOVED)])
    mask = guarded(rng.random(shape) < density)
    assert np.array_equal(masks.masked_select(a, mask), a[mask])
    values = guarded(a[mask])
    assert np.array_equal(
        masks.masked_expand(values, mask), numpy_masks.masked_expand(values, mask)
    )
    for x in (mask, a, a.T, a[..., ::2]):
        assert np.array_equal(masks.nonzero(x), numpy_masks.nonzero(x))
    assert np.array_equal(masks.masked_select(a.T, mask.T), a.T[mask.T])
    for z, m in ((a.copy(), mask), (a.T.copy(), mask.T)):
        for source in (a.reshape(-1)[::-1], a.T, np.zeros(int(mask.sum()), a.dtype)):
            want = z.copy()
            want[m] = source.reshape(-1)[: int(mask.sum())]
            assert masks.masked_scatter(z, m, source)
            assert np.array_equal(z, want)
    if mask.any():
        z = a.copy()
        assert not masks.masked_scatter(z, mask, guarded(a[mask][1:]))
        assert np.array_equal(z, a)
    with pytest.raises(ValueError):
        masks.masked_expand(np.zeros(int(mask.sum()) + 2), mask)


def test_what_counts_as_set():
    for dtype in (np.float16, np.float32, np.float64):
        x = np.array([0.0, -0.0, np.nan, np.inf, 1e-7, 5e-324, -1], dtype)
        assert np.array_equal(masks.nonzero(x), numpy_masks.nonzero(x))
    x = torch.tensor([[0.0, 2.0], [-0.0, float("nan")]])
    assert x.nonzero().tolist() == [[0, 1], [1, 1]]
    assert [i.tolist() for i in torch.where(x != 0)] == [[0, 1], [1, 1]]


@given(shape=shapes, data=st.data(), seed=st.integers(0, 999))
@settings(max_examples=150, deadline=None)
def test_scans(shape, data, seed):
    rng = np.random.default_rng(seed)
    dtype = data.draw(st.sampled_from([np.dtype(t) for t in ("f4", "f8", "f2", "i8", "i4", "?")]))
    a = some(rng, shape, dtype)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    for ufunc in (np.add, np.multiply):
        with np.errstate(all="ignore"):
            want = numpy_reduce.cumulative(a, axis, ufunc)
        got = scan.cumulative(a, axis, ufunc)
        assert got.dtype == want.dtype and np.array_equal(got, want, equal_nan=dtype.kind == "f")
    if dtype.kind == "f":
        a = np.where(rng.random(shape) < 0.1, dtype.type(np.nan), a)
        a[rng.random(shape) < 0.1] = -np.inf
    a = guarded(a)
    for ufunc in (np.maximum, np.minimum):
        for got, want in zip(
            scan.cumulative_extreme(a, axis, ufunc), numpy_reduce.cumulative_extreme(a, axis, ufunc),
            strict=True,
        ):  # fmt: skip
            assert np.array_equal(got, want, equal_nan=got.dtype.kind == "f")


@given(
    n=st.integers(1, 20), k=st.integers(1, 60), inner=st.sampled_from([1, 5, 16, 64, 70]),
    mode=st.integers(0, 2), weighted=st.booleans(), padding=st.sampled_from([-1, 0, 3]),
    seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_bags(n, k, inner, mode, weighted, padding, seed):
    rng = np.random.default_rng(seed)
    weight = some(rng, (9, inner), np.float32)
    indices = guarded(rng.integers(0, 9, k))
    offsets = guarded(np.sort(np.append(0, rng.integers(0, k + 1, n - 1))))
    factors = some(rng, k, np.float32) if weighted and mode < 2 else None
    got = bags.embedding_bag(weight, indices, offsets, factors, mode, padding)
    want = numpy_bags.embedding_bag(weight, indices, offsets, factors, mode, padding)
    assert np.allclose(got[0], want[0], 1e-6) and got[0].dtype == want[0].dtype
    for a, b in zip(got[1:], want[1:], strict=True):
        assert np.array_equal(a, b)
    if mode < 2:
        g = some(rng, (n, inner), np.float32)
        rest = indices, got[1], got[2], factors, 9, mode, padding
        found, expected = (b.embedding_bag_gradient(g, *rest) for b in (bags, numpy_bags))
        assert np.allclose(found, expected, 1e-5, 1e-6) and found.dtype == expected.dtype
        rest = weight, indices, got[1], padding
        found, expected = (b.bag_factors_gradient(g, *rest) for b in (bags, numpy_bags))
        assert np.allclose(found, expected, 1e-5, 1e-5) and found.dtype == expected.dtype
    if n > 1:  # offsets that go down are refused, and nothing is read
        with pytest.raises(ValueError):
            bags.embedding_bag(
                weight, indices, np.array([k] + [0] * (n - 1)), factors, mode, padding
            )


@given(
    n=st.sampled_from([1, 5, 16, 63, 64, 300]),
    top=st.sampled_from([1, 5, 40]),
    wide=st.sampled_from([np.int64, np.int32]),
    minlength=st.sampled_from([0, 3, 3000]),
    seed=st.integers(0, 99),
)
@settings(max_examples=100, deadline=None)
def test_counts(n, top, wide, minlength, seed):
    rng = np.random.default_rng(seed)
    x = guarded(rng.integers(0, top, n).astype(wide))
    for w in (None, some(rng, n, np.float32), some(rng, n, np.float64)):
        got, want = (m.bincount(x, w, minlength) for m in (sorting, numpy_sorting))
        assert np.array_equal(got, want) and got.dtype == want.dtype
    x[n // 2] = -1
    with pytest.raises(ValueError):
        sorting.bincount(x, None, minlength)
    with pytest.raises(RuntimeError):
        torch.bincount(torch.from_numpy(x))


@given(
    n=st.sampled_from([1, 2, 3, 8, 100]), m=st.sampled_from([1, 7, 8, 9, 50]), rows=st.integers(1, 3),
    dtype=st.sampled_from([np.float32, np.float64, np.int64, np.float16]), right=st.booleans(),
    many=st.booleans(), seed=st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=100, deadline=None)
def test_searches(n, m, rows, dtype, right, many, seed):
    rng = np.random.default_rng(seed)
    seq = guarded(np.sort(some(rng, (rows, n) if many else (n,), dtype)))
    a = some(rng, (rows, m), dtype)
    if a.dtype.kind == "f":
        a[0, 0], a[-1, -1] = np.nan, np.inf
    for kind in (np.int64, np.int32):
        got = sorting.searchsorted(seq, a, right, np.dtype(kind))
        want = numpy_sorting.searchsorted(seq, a, right, np.dtype(kind))
        assert np.array_equal(got, want) and got.dtype == want.dtype


@given(n=st.sampled_from([1, 2, 50, 500]), top=st.sampled_from([2, 1000]), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_unique(n, top, seed):
    x = np.random.default_rng(seed).integers(0, top, n)
    for a in (x, x.astype(np.float32), x.astype(np.int32)):
        for got, want in zip(
            sorting.unique(a, False, True, True),
            numpy_sorting.unique(a, False, True, True),
            strict=True,
        ):
            assert np.array_equal(got, want)


def test_one_hot_and_its_errors():
    one_hot = torch.nn.functional.one_hot
    x = torch.tensor([[0, 2], [1, 0]])
    assert one_hot(x).tolist() == [[[1, 0, 0], [0, 0, 1]], [[0, 1, 0], [1, 0, 0]]]
    assert one_hot(torch.tensor(1), 3).tolist() == [0, 1, 0]
    for bad, n in ((torch.tensor([3]), 3), (torch.tensor([-1]), 3), (torch.tensor([-1]), -1)):
        with pytest.raises(RuntimeError, match="Class values"):
            one_hot(bad, n)


def test_two_threads_give_the_same_bits():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((300, 500)).astype(np.float32)
    i, w = rng.integers(0, 50, 100_000), rng.standard_normal(100_000)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            arrays = [
                *(scan.cumulative(x, d, f) for d in (0, 1) for f in (np.add, np.multiply)),
                sorting.bincount(i, w, 0),
                bags.embedding_bag(x, i[:9999] % 300, np.arange(0, 9999, 7), None, 1, -1)[0],
                masks.masked_select(x, x > 0),
                masks.nonzero(x > 0),
            ]
            found.append([a.tobytes() for a in arrays])
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]
