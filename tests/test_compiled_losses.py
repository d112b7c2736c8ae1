"""Gates, distances, losses of classes and normalisation with channels last in machine code, against the
reference: sizes around those of vectors, half types, gaps in memory, protected pages around all."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

from guard import guarded
from rushlight import dtypes
from rushlight.backends.compiled import activation
from rushlight.backends.reference import activation as numpy_activation

FLOATS = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), dtypes.bfloat16.np]
CLOSE = {4: 1e-5, 8: 1e-12, 2: 2.0**-6}  # of the largest number, by the size of an element


class Guarding:
    """NumPy, whose new arrays end at a protected page."""

    def __getattr__(self, name):
        return getattr(np, name)

    @staticmethod
    def empty(shape, dtype=float, order="C"):
        return guarded(np.full(shape, 77, dtype))


@pytest.fixture(autouse=True, scope="module")
def guards():
    bindings = [activation]
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
