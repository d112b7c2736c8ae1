"""Resampling in machine code against the reference, in arrays that end or begin at a closed page."""

from __future__ import annotations

import random

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight
from guard import guarded
from rushlight._backends.llvm import resample as compiled
from rushlight._backends.reference import resample as reference
from rushlight.core import dtypes

FLOATS = [np.dtype(t) for t in (np.float32, np.float64, np.float16)] + [dtypes.bfloat16.np]
ERROR = {2: 3e-2, 4: 2e-5, 8: 1e-12}
MODES = ("nearest", "nearest-exact", "linear", "cubic")


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    monkeypatch.setattr(compiled, "SMALL", 1)
    with np.errstate(invalid="ignore"):  # the operators ignore it
        yield


def values(rng, shape, dtype, last, odd):
    x = rng.standard_normal((shape[0], *shape[2:], shape[1]) if last else shape).astype(dtype)
    if odd:
        x.reshape(-1)[:: max(1, x.size // 3)] = rng.choice([np.nan, np.inf, -np.inf])
    x = guarded(x, str(rng.choice(["after", "before"])))
    return np.moveaxis(x, -1, 1) if last else x


def same(a, b):
    assert a.dtype == b.dtype
    assert a.shape == b.shape
    error = ERROR[a.dtype.itemsize]
    assert np.allclose(a.astype(float), b.astype(float), error, error, equal_nan=True)


@pytest.mark.parametrize("seed", range(40))
def test_resampled_as_the_reference(seed):
    choice, rng = random.Random(seed), np.random.default_rng(seed)
    nd = choice.choice([1, 2, 2, 3])
    shape = tuple(choice.choice([1, 2, 3, 17, 33]) for _ in range(2))
    shape += tuple(choice.choice([1, 2, 5, 16, 33]) for _ in range(nd))
    out = tuple(choice.choice([1, 2, 7, 16, 31, 150]) for _ in range(nd))
    mode, aa = choice.choice(MODES), False
    if mode == "linear" and choice.random() < 0.3:
        aa = True
    dtype, last, odd = choice.choice(FLOATS), choice.random() < 0.5, choice.random() < 0.2
    corners = choice.random() < 0.3 and not mode.startswith("nearest")
    taps = [
        reference.taps_of(n, m, None, mode, corners, aa, dtype)
        for n, m in zip(shape[2:], out, strict=True)
    ]
    x = values(rng, shape, dtype, last, odd)
    same(compiled.resample(x, taps), reference.resample(x, taps))
    g = values(rng, (*shape[:2], *out), dtype, last, odd)
    same(
        compiled.resample_adjoint(g, taps, shape[2:]),
        reference.resample_adjoint(g, taps, shape[2:]),
    )


def test_stretches_that_are_too_long_are_the_references():
    x = guarded(np.arange(2 * 3000, dtype=np.float32).reshape(1, 2, 3000))
    taps = [reference.taps_of(3000, 2, None, "linear", False, True, x.dtype)]
    same(compiled.resample(x, taps), reference.resample(x, taps))


@pytest.mark.parametrize("last", [False, True])
def test_threads_make_no_difference(last):
    rng = np.random.default_rng(0)
    x = values(rng, (3, 40, 50, 60), np.dtype(np.float32), last, False)
    taps = [reference.taps_of(n, 71, None, "linear", False, False, x.dtype) for n in x.shape[2:]]
    before = rushlight.get_num_threads()
    found = []
    for n in (1, 2):
        rushlight.set_num_threads(n)
        found.append(compiled.resample(x, taps))
        found.append(compiled.resample_adjoint(found[-1], taps, x.shape[2:]))
    rushlight.set_num_threads(before)
    assert np.array_equal(found[0], found[2])
    assert np.array_equal(found[1], found[3])


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
@pytest.mark.parametrize("dtype", FLOATS[:2], ids=lambda d: d.name)
@pytest.mark.parametrize("side", ["after", "before"])
def test_read_at_places_as_the_reference(mode, padding, corners, dtype, side):
    rng = np.random.default_rng(0)
    cases = [((5, 7), (3, 11)), ((1, 1), (1, 1)), ((9, 2), (4, 8)), ((30, 17), (20, 20))]
    cases += [((4, 5, 7), (3, 2, 11)), ((1, 1, 3), (1, 1, 17))] if mode != "bicubic" else []
    for sizes, out in cases:
        x = guarded(rng.standard_normal((2, 3, *sizes)).astype(dtype), side)
        grid = rng.uniform(-1.6, 1.6, (2, *out, len(sizes))).astype(dtype)
        grid.reshape(-1)[::13] = np.nan
        # Mirrored that far it is nowhere: the remainder of so large a number is chance.
        grid.reshape(-1)[1::17] = 30.0 if padding == "reflection" else 1e30
        grid = guarded(grid, side)
        how = (mode, padding, corners)
        a, b = compiled.grid_sample(x, grid, *how), reference.grid_sample(x, grid, *how)
        same(a, b)
        g = guarded(rng.standard_normal(b.shape).astype(dtype), side)
        ours = compiled.grid_sample_gradients(g, x, grid, *how, (True, True))
        theirs = reference.grid_sample_gradients(g, x, grid, *how, (True, True))
        for a, b in zip(ours, theirs, strict=True):  # at an edge the slopes cancel
            assert a.dtype == b.dtype
            largest = max(1, np.nanmax(np.abs(b), initial=0))
            assert np.allclose(a, b, 0, largest * 20 * np.finfo(dtype).eps, equal_nan=True)
