"""Reductions by folds (_codegen/kernels/fold.py): against the reference, for every dtype and layout."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight
from guard import guarded
from rushlight._backends import llvm
from rushlight._backends.llvm import extremes as compiled_extremes
from rushlight._backends.llvm import loss as compiled_loss
from rushlight._backends.llvm import reduce as compiled_reduce
from rushlight._backends.reference import loss as numpy_loss
from rushlight._backends.reference import normalize as norms
from rushlight._backends.reference import reduce as numpy_reduce
from rushlight.core import dtypes

# A kernel that hands its work to NumPy's loop, as one may that is being compiled, warns as NumPy does; the
# operators' calls are quiet.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in .*:RuntimeWarning")

FLOATS = [np.dtype("f4"), np.dtype("f8"), np.dtype("f2"), dtypes.bfloat16.np]
DTYPES = [*FLOATS, *map(np.dtype, ("i8", "i4", "u1", "?"))]
SHAPES = [
    (70,), (5, 70), (33, 129), (4, 5, 6), (2, 3, 20, 17), (1, 1), (40000,), (3, 20000), (5000, 3), (1, 300, 1),
    (12, 40, 40), (4, 333, 5), (2, 1100, 2),
]  # fmt: skip


@pytest.fixture(autouse=True)
def everything(monkeypatch):
    llvm.activate()
    monkeypatch.setattr(compiled_reduce, "SMALL", 0)


def values(shape, dtype):
    random = np.random.default_rng(0)
    a = random.integers(-3, 4, shape) if dtype.kind in "fV" else random.integers(0, 4, shape)
    return a.astype(dtype)


def close(got, want, dtype):
    assert (got.shape, got.dtype, got.flags.c_contiguous) == (want.shape, want.dtype, True)
    tolerance = {"f4": 1e-5, "f8": 1e-12}.get(dtype.str[1:], 0.01) if dtype in FLOATS else 0
    np.testing.assert_allclose(
        got.astype("f8"), want.astype("f8"), rtol=tolerance, atol=100 * tolerance, equal_nan=True
    )


PLACES = ("argmax", "argmin", "max_with_index", "min_with_index")


def results(name, args):
    """What the kernel and the reference give."""
    binding = compiled_reduce if hasattr(compiled_reduce, name) else compiled_extremes
    got, want = (getattr(m, name)(*args) for m in (binding, numpy_reduce))
    if got.__class__ is not tuple:
        got, want = (got,), (want,)
    return [(np.asarray(g), np.asarray(w)) for g, w in zip(got, want, strict=True)]


def calls(a, axis, keepdims):
    """name -> arguments of the kernels that take this array."""
    found: dict = {"sum": (a, axis, keepdims), "count_nonzero": (a, axis)}
    if a.dtype in FLOATS:
        found |= {"nansum": (a, axis, keepdims), "mean": (a, axis, keepdims)}
    if a.dtype.char != "?":
        found |= {"amax": (a, axis, keepdims), "amin": (a, axis, keepdims)}
        if axis.__class__ is not tuple:
            found |= dict.fromkeys(PLACES, (a, axis, keepdims))
    with np.errstate(all="ignore"):
        signs = a if a.dtype.char == "?" else np.where(a < 0, -1, 1).astype(a.dtype, copy=False)
    return found | {"prod": (signs.reshape(a.shape), axis, keepdims)}


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_shapes_axes_and_orders(dtype):
    for shape in SHAPES:
        for turned in (False, True):
            a = values(shape, dtype)
            a = a.swapaxes(0, -1) if turned else a
            some = [c for k in (1, 2) for c in itertools.combinations(range(a.ndim), k)]
            for axis, keepdims in itertools.product([None, -1, *some], (False, True)):
                for name, args in calls(a, axis, keepdims).items():
                    for got, want in results(name, args):
                        close(got, want, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_variances_and_lengths_over_dimensions_apart(dtype):
    a = np.random.default_rng(0).standard_normal((3, 4, 5)).astype(dtype)
    for b, axis, keepdims in itertools.product((a, a.swapaxes(0, 1)), ((0, 2), (-1, 0)), (0, 1)):
        found = compiled_reduce.variance(b, axis, bool(keepdims), 1)
        for got, want in zip(found, numpy_reduce.variance(b, axis, bool(keepdims), 1), strict=True):
            close(got, np.asarray(want), dtype)
        got, want = (m.l2_norm(b, axis, bool(keepdims)) for m in (compiled_reduce, norms))
        close(got, want, dtype)


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_nan_and_infinity(dtype):
    for shape in ((5, 70), (300, 40)):
        a = values(shape, dtype)
        a[1, 3], a[2, 4], a[3, 5] = np.nan, np.inf, -np.inf
        for axis in (None, 0, 1):
            for name, args in calls(a, axis, False).items():
                if name != "prod":
                    with np.errstate(all="ignore"):
                        for got, want in results(name, args):
                            close(got, want, dtype)


def test_what_is_not_dense_is_the_references():
    a = values((40, 50), np.dtype("f4"))
    for b in (a[:, ::2], a[::-1], np.broadcast_to(a[0], (40, 50)), a[:0]):
        close(compiled_reduce.sum(b, 0, False), numpy_reduce.sum(b, 0, False), a.dtype)
    assert compiled_reduce.plan((2, 3, 4), (48, 16, 4), 4, 1, False) == (
        ((False, 2), (True, 3), (False, 4)),
        (2, 4),
        (2, 3, 4),
    )
    assert compiled_reduce.plan((2, 3, 4), (4, 8, 24), 4, 2, False) is None  # of another order
    assert compiled_reduce.plan((2, 3), (12, 8), 4, 1, False) is None  # with gaps
    wide = values((50,), np.dtype("i8"))
    close(compiled_reduce.sum(wide, None, False), np.asarray(wide.sum()), wide.dtype)
    limits = np.array([-(2**63), 2**63 - 1] * 40)
    assert compiled_extremes.amax(limits, None, False) == 2**63 - 1
    assert compiled_extremes.amin(limits[::2].copy(), None, False) == -(2**63)


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: d.name)
def test_stays_inside_of_arrays(dtype):
    for shape in ((7, 37), (37, 7), (3, 5, 9), (197, 3)):
        for side in ("after", "before"):
            a = guarded(values(shape, dtype), side)
            for axis in (None, 0, 1, len(shape) - 1, -1):
                for name, args in calls(a, axis, False).items():
                    if name != "prod":
                        results(name, args)


def test_threads_do_not_matter():
    a = np.random.default_rng(0).standard_normal((400, 1000)).astype("f4")
    before = rushlight.get_num_threads()
    try:
        found = []
        for n in (1, 2):
            rushlight.set_num_threads(n)
            found.append([
                np.asarray(getattr(compiled_reduce, name)(a, axis, False)).tobytes()
                for name in ("sum", "nansum", "prod", "mean")
                for axis in (None, 0, 1)
            ])  # fmt: skip
    finally:
        rushlight.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", FLOATS, ids=lambda d: d.name)
def test_squared_distance(dtype):
    random = np.random.default_rng(0)
    for n in (1024, 5000, 40000):
        a, b = (guarded(random.standard_normal(n).astype(dtype)) for _ in range(2))
        got, want = (m.squared_distance(a, b) for m in (compiled_loss, numpy_loss))
        close(got, want, got.dtype)
    assert np.isnan(
        compiled_loss.squared_distance(np.full(2000, np.nan, dtype), np.ones(2000, dtype))
    )


@pytest.mark.parametrize("to", DTYPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_dtype_that_is_asked_for(dtype, to):
    """A sum of truth values as a truth value, and all others."""
    a = np.random.default_rng(0).integers(0, 2, (40, 50)).astype(dtype)
    for name, axis in itertools.product(("sum", "prod"), (0, 1, None)):
        got = getattr(compiled_reduce, name)(a, axis, False, to)
        want = getattr(numpy_reduce, name)(a, axis, False, to)
        assert got.dtype == want.dtype and np.array_equal(got, want)
