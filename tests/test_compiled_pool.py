"""Pooling in machine code against the reference, in arrays that end or begin at a closed page."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from guard import guarded
from rushlight._backends.llvm import pool as compiled
from rushlight._backends.reference import pool as reference
from rushlight._backends.windows import Windows
from rushlight.core import dtypes
from rushlight.ops.nn.pool import out_sizes

FLOATS = [np.dtype(t) for t in (np.float32, np.float64, np.float16)] + [dtypes.bfloat16.np]
INTEGERS = [np.dtype(t) for t in (np.int64, np.int32, np.int8, np.uint8)]
SIDES = ("after", "before")
ERROR = {2: 2e-2, 4: 1e-5, 8: 1e-13}


@pytest.fixture(autouse=True)
def no_warnings():
    with np.errstate(invalid="ignore"):  # the operators ignore it
        yield


def case(seed, dtypes_of):
    """(sizes, kernel, stride, padding, dilation, out, dtype, generator) of windows that all have
    elements."""
    choice = random.Random(seed)
    while True:
        nd = choice.choice([1, 2, 2, 3])
        sizes = tuple(choice.choice([1, 2, 3, 5, 8, 14, 17, 28, 33]) for _ in range(nd))
        kernel = tuple(choice.choice([1, 2, 2, 3, 8]) for _ in range(nd))
        stride = tuple(choice.choice([1, 2, 2, 3, 4]) for _ in range(nd))
        dilation = tuple(choice.choice([1, 1, 2]) for _ in range(nd))
        if choice.random() < 0.15:  # one window
            kernel, dilation = sizes, (1,) * nd
        padding = tuple(choice.choice([0, choice.randint(0, k // 2)]) for k in kernel)
        out = out_sizes(sizes, kernel, stride, padding, dilation, choice.random() < 0.3)
        tables = None
        if min(out) >= 1:
            tables = reference.window_tables(sizes, kernel, stride, padding, dilation, out)
        if tables and all(t.max() < n for t, n in zip(tables, sizes, strict=True)):
            break
    return (
        *(sizes, kernel, stride, padding, dilation, out, choice.choice(dtypes_of)),
        np.random.default_rng(seed),
    )


def values(rng, shape, dtype, side="after"):
    x = rng.standard_normal(shape) * 4
    if rng.random() < 0.5:
        x = np.round(x)  # ties
    x = (np.abs(x) if dtype.kind == "u" else x).astype(dtype)
    if dtype.kind not in "iu":
        if rng.random() < 0.3:
            x.reshape(-1)[::7] = np.nan
        if rng.random() < 0.1:
            x[...] = -np.inf
    return guarded(x, side)


def same(a, b):
    assert a.dtype == b.dtype
    assert np.array_equal(a.astype(float), b.astype(float), equal_nan=True)


def close(a, b):
    assert a.dtype == b.dtype
    error = ERROR[a.dtype.itemsize]
    assert np.allclose(a.astype(float), b.astype(float), error, error, equal_nan=True)


@pytest.mark.parametrize("seed", range(40))
def test_maxima_are_the_references(seed):
    sizes, *window, out, dtype, rng = case(seed, FLOATS + INTEGERS)
    windows = Windows(sizes, *window, out)
    for side in ("after", "before"):
        x = values(rng, (3, 2, *sizes), dtype, side)
        same(compiled.max_pool(x, windows), reference.max_pool(x, windows))
        found, expected = (b.max_pool_indices(x, windows) for b in (compiled, reference))
        for a, b in zip(found, expected, strict=True):
            same(a, b)
        g = guarded(np.round(rng.standard_normal((3, 2, *out)) * 8).astype(dtype), side)
        if dtype.kind not in "iu":
            _, places = reference.max_pool_indices(x, windows)
            same(
                compiled.add_at_indices(g, guarded(places, side), sizes),
                reference.add_at_indices(g, places, sizes),
            )
        some = tuple(int(rng.integers(1, n + 1)) for n in sizes)
        found, expected = (b.adaptive_maxima(x, some) for b in (compiled, reference))
        for a, b in zip(found, expected, strict=True):
            same(a, b)


@pytest.mark.parametrize("seed", range(40))
def test_averages_are_the_references(seed):
    sizes, kernel, stride, padding, dilation, out, dtype, rng = case(seed, FLOATS)
    out = out_sizes(sizes, kernel, stride, padding, (1,) * len(sizes), False)
    if min(out) < 1:
        return
    windows = Windows(sizes, kernel, stride, padding, (1,) * len(sizes), out)
    for divisor in ((True, 3), (seed % 2 == 0, None)):
        for side in ("after", "before"):
            x = guarded(rng.standard_normal((3, 2, *sizes)).astype(dtype), side)
            close(*(b.window_averages(x, windows, divisor) for b in (compiled, reference)))
            g = guarded(rng.standard_normal((3, 2, *out)).astype(dtype), side)
            close(*(b.window_averages_adjoint(g, windows, divisor) for b in (compiled, reference)))


@pytest.mark.parametrize("seed", range(10))
def test_averages_of_integers_are_divided_towards_zero(seed):
    sizes, kernel, stride, padding, _, _, _, rng = case(seed, FLOATS)
    out = out_sizes(sizes, kernel, stride, padding, (1,) * len(sizes), False)
    if min(out) < 1:
        return
    windows = Windows(sizes, kernel, stride, padding, (1,) * len(sizes), out)
    x = guarded(rng.integers(-50, 50, (3, 2, *sizes)))
    same(*(b.window_averages(x, windows, (True, None)) for b in (compiled, reference)))


def last(a):
    """(N, C, H, W), channels last, its memory between closed pages."""
    return guarded(np.ascontiguousarray(a.transpose(0, 2, 3, 1))).transpose(0, 3, 1, 2)


@pytest.mark.parametrize("seed", range(40))
def test_channels_last(seed):
    sizes, kernel, stride, padding, dilation, out, dtype, rng = case(seed, FLOATS)
    if len(sizes) != 2:
        return
    channels = (2, 3, 16, 17, 40)[seed % 5]
    windows = Windows(sizes, kernel, stride, padding, dilation, out)
    x = last(values(rng, (3, channels, *sizes), dtype))
    y = compiled.max_pool(x, windows)
    assert y.transpose(0, 2, 3, 1).flags.c_contiguous
    same(y, reference.max_pool(x, windows))
    y, places = compiled.max_pool_indices(x, windows)
    expected = reference.max_pool_indices(x, windows)
    same(y, expected[0])
    same(places, expected[1])
    g = last(np.round(rng.standard_normal((3, channels, *out)) * 8).astype(dtype))
    gx = compiled.add_at_indices(g, last(places), sizes)
    assert g.flags.c_contiguous or gx.transpose(0, 2, 3, 1).flags.c_contiguous
    same(gx, reference.add_at_indices(g, places, sizes))
    out = out_sizes(sizes, kernel, stride, padding, (1, 1), False)
    x = last(rng.standard_normal((3, channels, *sizes)).astype(dtype))
    windows, divisor = Windows(sizes, kernel, stride, padding, (1, 1), out), (seed % 2 == 0, None)
    close(*(b.window_averages(x, windows, divisor) for b in (compiled, reference)))
    g = last(rng.standard_normal((3, channels, *out)).astype(dtype))
    close(*(b.window_averages_adjoint(g, windows, divisor) for b in (compiled, reference)))


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_channels_last_of_windows_that_tile(dtype):
    rng = np.random.default_rng(0)
    windows = Windows((8, 9), (2, 3), (2, 3), (0, 0), (1, 1), (4, 3))
    g = last(np.round(rng.standard_normal((2, 20, 4, 3)) * 8).astype(dtype))
    close(*(b.window_averages_adjoint(g, windows, (True, None)) for b in (compiled, reference)))


@pytest.mark.parametrize("seed", range(30))
def test_adaptive_windows(seed):
    choice, rng = random.Random(seed), np.random.default_rng(seed)
    sizes = tuple(choice.choice([1, 2, 7, 13, 40, 99]) for _ in range(choice.choice([1, 2, 3])))
    out = tuple(choice.choice([1, 3, 6, 17]) for _ in sizes)
    dtype = choice.choice(FLOATS)
    x = values(rng, (2, 20, *sizes), dtype, choice.choice(SIDES))
    g = guarded(rng.standard_normal((2, 20, *out)).astype(dtype), choice.choice(SIDES))
    for layout in (np.asarray, last) if len(sizes) == 2 else (np.asarray,):
        y, at = layout(x), layout(g)
        close(*(b.adaptive_averages(y, out) for b in (compiled, reference)))
        close(*(b.adaptive_averages_adjoint(at, sizes) for b in (compiled, reference)))
        found, expected = (b.adaptive_maxima(y, out) for b in (compiled, reference))
        for a, b in zip(found, expected, strict=True):
            same(a, b)


@pytest.mark.parametrize("seed", range(20))
def test_fractional_windows(seed):
    choice, rng = random.Random(seed), np.random.default_rng(seed)
    nd, dtype = choice.choice([2, 3]), choice.choice(FLOATS)
    kernel = tuple(choice.choice([1, 2, 3, 5]) for _ in range(nd))
    sizes = tuple(k + choice.choice([0, 1, 9, 20]) for k in kernel)
    out = tuple(choice.choice([1, 2, 4]) for _ in range(nd))
    order = tuple(range(nd)) if nd == 3 else (1, 0)
    x = values(rng, (2, 3, *sizes), dtype, choice.choice(SIDES))
    samples = guarded(rng.random((2, 3, nd)).astype(dtype))
    found, expected = (
        b.fractional_maxima(x, samples, kernel, out, order) for b in (compiled, reference)
    )
    for a, b in zip(found, expected, strict=True):
        same(a, b)


@pytest.mark.parametrize("dtype", FLOATS[2:], ids=str)
def test_gradients_of_large_planes_of_half_types_whose_channels_are_last(dtype):
    rng = np.random.default_rng(0)
    places = rng.integers(0, 300 * 200, (2, 4, 90, 70))
    g = rng.standard_normal((2, 90, 70, 4)).astype(dtype).transpose(0, 3, 1, 2)
    last = np.ascontiguousarray(places.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    found = compiled.add_at_indices(g, last, (300, 200))
    expected = reference.add_at_indices(g, last, (300, 200))
    same(found, expected)
    assert found.strides == expected.strides and found.dtype is expected.dtype


def test_two_threads_give_the_same_bits():
    import rushlight as torch

    before, found = torch.get_num_threads(), []
    x = np.random.default_rng(0).standard_normal((8, 16, 40, 41)).astype(np.float32)
    windows = Windows((40, 41), (3, 3), (2, 2), (1, 1), (1, 1), (20, 21))
    g = np.random.default_rng(1).standard_normal((8, 16, 20, 21)).astype(np.float32)
    _, places = compiled.max_pool_indices(x, windows)
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(
                [
                    compiled.max_pool(x, windows).tobytes(),
                    compiled.add_at_indices(g, places, (40, 41)).tobytes(),
                    compiled.window_averages(x, windows, (True, 9)).tobytes(),
                    compiled.adaptive_averages(x, (3, 7)).tobytes(),
                    compiled.adaptive_maxima(x, (3, 7))[1].tobytes(),
                    compiled.window_averages_adjoint(g, windows, (True, 9)).tobytes(),
                ]
            )
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


def test_infinite_gradients_stay_where_they_belong():
    """A gradient of infinity at one element leaves its neighbours 0, not NaN."""
    x = np.arange(32.0, dtype=np.float32).reshape(1, 1, 4, 8)
    g = np.full((1, 1, 2, 4), np.inf, np.float32)
    _, places = compiled.max_pool_indices(
        x, Windows((4, 8), (2, 2), (2, 2), (0, 0), (1, 1), (2, 4))
    )
    gx = compiled.add_at_indices(g, places, (4, 8))
    assert (gx == np.inf).sum() == 8 and (gx == 0).sum() == 24


@pytest.mark.parametrize("place", [16, 1 << 40])
def test_nothing_is_added_outside(place):
    """Places may come from anywhere: `max_unpool`'s do."""
    places = np.array([[[[0, place], [3, 4]]]])
    with pytest.raises(IndexError):
        compiled.add_at_indices(guarded(np.ones((1, 1, 2, 2), np.float32)), places, (4, 4))


def test_averages_of_whole_numbers_with_channels_last():
    x = np.arange(-300, 690).reshape(2, 9, 11, 5).transpose(0, 3, 1, 2)
    windows = Windows((9, 11), (3, 2), (2, 2), (1, 0), (1, 1), (5, 5))
    for divisor in ((True, None), (False, None), (True, 4)):
        y = compiled.window_averages(x, windows, divisor)
        assert np.array_equal(y, reference.window_averages(x, windows, divisor))
        assert y.transpose(0, 2, 3, 1).flags.c_contiguous
