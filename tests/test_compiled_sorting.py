"""Sorting in machine code against the reference's stable order."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from guard import guarded
from rushlight._backends.llvm import sorting as compiled
from rushlight._backends.reference import reduce as orders
from rushlight._backends.reference import sorting as reference
from rushlight.core import dtypes

DTYPES = [np.dtype(t) for t in (*"fdeilhbB?",)] + [dtypes.bfloat16.np]


@pytest.fixture(autouse=True, scope="module")
def of_any_size():
    before, compiled.SMALL = compiled.SMALL, 1
    yield
    compiled.SMALL = before


def values(rng, shape, dtype, kind):
    if dtype.kind in "iub":
        info = None if dtype.kind == "b" else np.iinfo(dtype)
        if kind == "wide" and info:
            x = rng.integers(info.min, info.max, shape, dtype, endpoint=True)
            x.reshape(-1)[0], x.reshape(-1)[-1] = info.max, info.min
        else:
            x = rng.integers(0, 2 if info is None else 40, shape).astype(dtype)
        return guarded(x)
    x = rng.standard_normal(shape)
    if kind != "wide":
        x = np.round(x * 2)
        x[rng.random(shape) < 0.2] *= -0.0
        x[rng.random(shape) < 0.1] = np.nan
        x[rng.random(shape) < 0.1] = -np.nan
        x[rng.random(shape) < 0.1] = np.inf
        x[rng.random(shape) < 0.1] = -np.inf
    return guarded(x.astype(dtype))


def same(a, b):
    for one, other in zip(a, b, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert [a for a, n in zip(one.strides, one.shape, strict=True) if n > 1] == [
            a for a, n in zip(other.strides, other.shape, strict=True) if n > 1
        ]
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@given(
    rows=st.integers(1, 4),
    n=st.sampled_from([1, 2, 3, 15, 16, 17, 65, 200]),
    seed=st.integers(0, 99),
    kind=st.sampled_from(["wide", "ties"]),
    down=st.booleans(),
)
@settings(max_examples=40, deadline=None)
def test_sort(dtype, rows, n, seed, kind, down):
    x = values(np.random.default_rng(seed), (rows, n), dtype, kind)
    same(compiled.sort(x, 1, down), reference.sort(x, 1, down))
    same(compiled.sort(x, 0, down), reference.sort(x, 0, down))
    turned = np.asfortranarray(x)
    same(compiled.sort(turned, 1, down), reference.sort(turned, 1, down))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
@given(
    rows=st.integers(1, 4),
    n=st.sampled_from([1, 2, 15, 16, 17, 64, 65, 200, 256, 300, 1000]),
    seed=st.integers(0, 99),
    kind=st.sampled_from(["wide", "ties"]),
    data=st.data(),
)
@settings(max_examples=40, deadline=None)
def test_topk(dtype, rows, n, seed, kind, data):
    x = values(np.random.default_rng(seed), (rows, n), dtype, kind)
    k, largest = data.draw(st.integers(1, min(n, 100))), data.draw(st.booleans())
    for ordered in (True, False):
        same(compiled.topk(x, k, 1, largest, ordered), reference.topk(x, k, 1, largest, ordered))


@pytest.mark.parametrize("span", [1, 2, 2000, 1 << 20, 1 << 40])
@pytest.mark.parametrize("down", [False, True])
def test_digits(span, down):
    """Rows long enough for passes by digits: none, one, two, and more than pay."""
    x = np.random.default_rng(0).integers(-span // 2, span - span // 2, (2, 10_000))
    same(compiled.sort(x, 1, down), reference.sort(x, 1, down))


def test_keys_that_are_cut_off():
    """float64 numbers that differ in their last bits only: mended, or given to the reference."""
    x = 1.0 + np.random.default_rng(0).integers(0, 1000, (1, 5000)) * 2.0**-52
    for some in (x, x[:, :300], np.ones((1, 5000)), np.sort(x)[:, ::-1]):
        for down in (False, True):
            same(compiled.sort(some, 1, down), reference.sort(some, 1, down))


def test_two_threads_give_the_same_order():
    x = np.random.default_rng(0).standard_normal((300, 500)).astype(np.float32)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            parts = (*compiled.sort(x, 1, False), *compiled.topk(x, 10, 1, True, True))
            found.append([part.tobytes() for part in parts])
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_runs_of_equal_elements(dtype):
    rng = np.random.default_rng(0)
    wanted = list(itertools.product((True, False), repeat=3))
    for n in (1, 2, 63, 130, 8191, 8192, 8193, 20000):
        for kind in ("wide", "few", "runs"):
            a = values(rng, (n,), dtype, "few" if kind == "runs" else kind)
            a = np.sort(a.astype("f8")).astype(dtype) if kind == "runs" else a
            for consecutive, places, lengths in wanted:
                got = compiled.unique(a, consecutive, places, lengths)
                want = reference.unique(a, consecutive, places, lengths)
                for g, w, shown in zip(got, want, (True, places, lengths), strict=True):
                    if shown:
                        assert g.dtype == w.dtype
                        np.testing.assert_array_equal(g.astype("f8"), w.astype("f8"))


@pytest.mark.parametrize("shape", [(1,), (7,), (256,), (3, 257), (300, 2), (2, 5000)], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_one_of_a_row(dtype, shape):
    """The k-th element, medians and the commonest: of equal elements the reference's choice."""
    rng = np.random.default_rng(7)
    for kind in ("wide", "ties"):
        x = values(rng, shape, dtype, kind)
        for axis in range(x.ndim):
            for k in {0, x.shape[axis] // 2, x.shape[axis] - 1}:
                same(compiled.kthvalue(x, axis, False, k), orders.kthvalue(x, axis, False, k))
            for skip in (False, True):
                want = orders.median_with_index(x, axis, True, skip)
                same(compiled.median_with_index(x, axis, True, skip), want)
            same(compiled.mode(x, axis, False), orders.mode(x, axis, False))
        for skip in (False, True):
            got, want = compiled.median(x, skip), orders.median(x, skip)
            np.testing.assert_array_equal(got.astype("f8"), want.astype("f8"))


@pytest.mark.parametrize("order", [(0, 2, 1), (2, 1, 0), (1, 2, 0), (2, 0, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_arrays_of_any_order_are_sorted_as_they_lie(order, dtype):
    x = np.random.default_rng(0).integers(-9, 9, (5, 6, 40)).astype(dtype)
    back = np.argsort(order)
    laid = np.ascontiguousarray(x.transpose(order)).transpose(back)
    for axis in (-3, 0, 1, 2):
        for down in (False, True):
            found, places = compiled.sort(laid, axis, down)
            key = -x if down else x
            np.testing.assert_array_equal(places, np.argsort(key, axis, kind="stable"))
            np.testing.assert_array_equal(found, np.take_along_axis(x, places, axis))
            assert found.strides == laid.strides
        top = compiled.topk(laid, 3, axis, True, True)[0]
        np.testing.assert_array_equal(top, -np.sort(-x, axis).take(range(3), axis))
