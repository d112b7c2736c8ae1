"""Ufuncs of two arrays whose walk is planned natively (_codegen/kernels/ufunc_entry.py), against NumPy's."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("llvmlite")

import rushlight
from guard import guarded
from rushlight._backends.index import LLVM
from rushlight._codegen import parallel_ufuncs, ufunc_loops
from rushlight._codegen.kernels.broadcast import DIMS
from rushlight._codegen.runtime import abi
from rushlight.core import dtypes

# A kernel that hands its work to NumPy's loop, as one may that is being compiled, warns as NumPy does; the
# operators' calls are quiet.
pytestmark = pytest.mark.filterwarnings("ignore:.* encountered in .*:RuntimeWarning")

DTYPES = [np.float32, np.float64, np.float16, dtypes.bfloat16.np]
BROADCAST = sorted(n for n, file in LLVM.items() if file == "ufuncs" and ufunc_loops.functions(n))
NAMES = [n for n in BROADCAST if n != "arctan2"]  # those with one right result
INEXACT = {"divide"}


@pytest.fixture(scope="module")
def ours():
    made = {
        n: parallel_ufuncs.parallel(getattr(np, n), None, ufunc_loops.functions(n))
        for n in BROADCAST
    }
    if not abi.vectorcall_slot():
        pytest.skip("objects are laid out in another way")
    return made


def values(shape, dtype, seed=0):
    """Numbers, some of them special ones."""
    random = np.random.default_rng(seed)
    a = random.standard_normal(shape).astype(np.float32)
    rare = random.random(shape) < 0.1
    a[rare] = random.choice(np.float32([0, -0.0, 1, np.inf, -np.inf, np.nan]), rare.sum())
    return a.astype(dtype)


def expected(name, a, b):
    with np.errstate(all="ignore"):
        if a.dtype.itemsize > 2:
            return getattr(np, name)(a, b)
        r = getattr(np, name)(a.astype(np.float32), b.astype(np.float32))
        return r if r.dtype == bool else r.astype(a.dtype)


def same(got, want):
    assert got.strides == want.strides
    same_values(got, want)


def same_values(got, want):
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    wide = got.astype(np.float64), want.astype(np.float64)
    np.testing.assert_array_equal(*wide)
    number = wide[0] == wide[0]  # the sign of a NaN is nobody's
    np.testing.assert_array_equal(np.signbit(wide[0])[number], np.signbit(wide[1])[number])


SHAPES = [
    ((5, 7), (7,)), ((5, 7), (5, 1)), ((300, 200), (200,)), ((2, 3, 40, 50), (3, 1, 1)),
    ((2, 3, 9, 5), (1, 1, 1, 5)), ((4, 1), (1, 6)), ((70001,), (1,)), ((1,), (2, 33000)),
    ((2, 3, 4), (2, 1, 4)), ((2, 3, 4, 5), (3, 1, 5)), ((), (3,)), ((0, 3), (3,)), ((5,), (5,)),
    ((1, 1), (1,)), ((2, 1, 3, 1, 2), (1, 4, 1, 5, 1)),
    ((170, 1, 3), (1, 170, 3)), ((13, 1, 1, 4), (1000, 5, 1)), ((7, 5, 1, 11), (90, 11)), ((3000, 9), (9,)),  # short rows
]  # fmt: skip


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
@pytest.mark.parametrize("name", NAMES)
def test_shapes(ours, name, dtype):
    for shape, other in SHAPES:
        a, b = values(shape, dtype), values(other, dtype, 1)
        for x, y in ((a, b), (b, a)):
            with np.errstate(all="ignore"):
                same(ours[name](x, y), expected(name, x, y))


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_the_angle_of_a_point(ours, dtype):
    """The same bits as of arrays that are written out; tests/test_compiler_math.py says what they are."""
    for shape, other in SHAPES:
        a, b = values(shape, dtype), values(other, dtype, 1)
        whole = [np.array(each, order="C") for each in np.broadcast_arrays(a, b)]
        same(ours["arctan2"](a, b), ours["arctan2"](*whole))


NUMBERS = [0, 1, -3, 7, 2**24, -(2**24) - 1, 2**31, -(2**31), 2**62, 0.1, -0.0, 2.5e-41, 1e38, 1e39,
           float("inf"), float("nan"), 5e-324, True]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32], ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_numbers(ours, name, dtype):
    """A Python number beside an array is what NumPy makes of it."""
    plain = parallel_ufuncs.parallel(getattr(np, name))

    def outcome(f, *args):
        try:
            return f(*args)
        except (OverflowError, ValueError) as error:
            return type(error)

    if name in INEXACT and np.dtype(dtype).kind == "i":
        pytest.skip("NumPy has no loop of this ufunc for integers")
    for shape in ((), (1,), (5,), (3, 70)):
        with np.errstate(all="ignore"):
            a = (values(shape, np.float32) * 5).astype(dtype)
        for number in NUMBERS:
            for args in ((a, number), (number, a)):
                with np.errstate(all="ignore"):
                    got, want = (outcome(f, *args) for f in (ours[name], plain))
                if isinstance(want, type):
                    assert got is want
                else:
                    same(np.asarray(got), np.asarray(want))


@pytest.mark.parametrize("dtype", [np.int64, np.int32], ids=str)
@pytest.mark.parametrize("name", sorted(set(NAMES) - {"divide", "fmax", "fmin"}))
def test_integers(ours, name, dtype):
    top = np.iinfo(dtype).max
    for shape, other in SHAPES:
        a, b = (
            np.random.default_rng(k).integers(-top, top, s).astype(dtype)
            for k, s in enumerate((shape, other))
        )
        a, b = np.asarray(a), np.asarray(b)
        with np.errstate(all="ignore"):
            same(np.asarray(ours[name](a, b)), np.asarray(getattr(np, name)(a, b)))


def test_without_dimensions(ours):
    """Two arrays without dimensions give an array, as tensors hold them."""
    a = ours["add"](np.array(1.5, np.float32), np.array(2.0, np.float32))
    assert type(a) is np.ndarray and a.shape == () and a == 3.5
    assert ours["less"](np.array(1.5), np.array(2.0)).dtype == bool


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_strides(ours, data):
    """Slices, transposes and broadcast views: what is not walked natively is NumPy's."""
    shape = tuple(data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4)))

    def one(seed):
        a = values(tuple(3 * n for n in shape), np.float32, seed)
        a = a[tuple(slice(0, n * s, s) for n, s in zip(shape, steps(), strict=True))]
        if data.draw(st.booleans()):
            a = np.broadcast_to(a[tuple(slice(0, 1 if low else None) for low in flags())], shape)
        if data.draw(st.booleans()):
            a = a[::-1]
        return a

    def steps():
        return [data.draw(st.integers(1, 3)) for _ in shape]

    def flags():
        return [data.draw(st.booleans()) for _ in shape]

    a, b = one(0), one(1)
    if data.draw(st.booleans()):
        a, b = a.T, b.T
    with np.errstate(all="ignore"):
        for name in ("add", "less"):
            r = ours[name](a, b)
            same_values(r, getattr(np, name)(a, b))
            assert r.base is None and sorted(zip(r.strides, r.shape, strict=True)) == sorted(
                zip(dense(r.shape, r.strides, r.itemsize), r.shape, strict=True)
            )


def dense(shape, strides, itemsize):
    """The strides of a dense array whose dimensions lie in the order of `strides`."""
    found, size = [0] * len(shape), itemsize
    for s, n, k in sorted(zip(strides, shape, range(len(shape)), strict=True)):
        found[k] = size
        size *= n
    return found


@pytest.mark.parametrize("shape, strides, other, other_strides, wanted", [
    ((3, 4), (1, 3), (3, 4), (1, 3), (1, 3)),
    ((3, 4), (1, 3), (3, 4), (4, 1), (1, 3)),  # the first one says it
    ((3, 4), (4, 1), (3, 4), (1, 3), (4, 1)),
    ((3, 1), (1, 1), (3, 4), (1, 3), (1, 3)),  # or the second one, where the first does not
    ((3, 4), (1, 3), (4,), (1,), (1, 3)),
    ((3, 4), (1, 3), (), (), (1, 3)),
    ((3, 4), (2, 6), (3, 4), (2, 6), (1, 3)),  # without the gaps
    ((2, 3, 4), (1, 8, 2), (2, 3, 4), (12, 4, 1), (1, 8, 2)),
    ((2, 3, 4), (0, 1, 3), (2, 3, 4), (0, 1, 3), (12, 1, 3)),
    ((4, 1, 2), (2, 9, 1), (4, 1, 2), (2, 2, 1), (2, 2, 1)),  # both are in order
])  # fmt: skip
def test_order_in_memory(ours, shape, strides, other, other_strides, wanted):
    """The dimensions of the result lie in memory as those of the first array, then of the second."""

    def made(shape, strides, seed):
        memory = values((64,), np.float32, seed)
        return np.lib.stride_tricks.as_strided(memory, shape, [4 * s for s in strides])

    a, b = made(shape, strides, 0), made(other, other_strides, 1)
    for name in ("add", "less"):
        with np.errstate(all="ignore"):
            r, plain = ours[name](a, b), getattr(np, name)(a, b)
        same_values(r, plain)
        assert [s // r.itemsize for s in r.strides] == [*wanted]


def test_what_goes_on_to_numpy(ours):
    add = ours["add"]
    a, b = values((3, 4), np.float32), values((4,), np.float32, 1)
    out = np.empty((3, 4), np.float32)
    assert add(a, b, out=out) is out
    same(out, np.add(a, b))
    same(add(a, b, out), np.add(a, b))
    same(add(a, 2.0), np.add(a, 2.0))
    same(add(a, b.astype(np.float64)), np.add(a, b.astype(np.float64)))
    same(add(a.astype(">f4"), b.astype(">f4")), np.add(a, b))
    same(add(np.arange(3), np.arange(3)), 2 * np.arange(3))
    same(add(np.arange(3, dtype=np.uint8), 7), np.arange(7, 10, dtype=np.uint8))
    same(add.reduce(a, 0), np.add.reduce(a, 0))
    raw = np.zeros(4 * 12 + 1, np.uint8)[1:].view(np.float32).reshape(3, 4)
    same(add(raw, b), np.add(raw, b))  # not aligned
    deep = values((2,) * (DIMS + 1), np.float32)
    same(add(deep, b[:2]), np.add(deep, b[:2]))
    assert type(add(a.view(np.matrix), b)) is np.matrix
    assert type(add(np.float32(1), np.float32(2))) is np.float32
    for given_, error in ((((a, values((5, 4), np.float32))), ValueError), ((a,), TypeError)):
        with pytest.raises(error):
            add(*given_)


def test_nothing_is_lost_or_kept(ours):
    a, b = values((30, 40), np.float32), values((40,), np.float32)
    single, truth = np.dtype(np.float32), np.dtype(bool)

    def counts():
        return [sys.getrefcount(x) for x in (a, b, single, truth)]

    ours["add"](a, b), ours["less"](a, b)
    before = counts()
    kept = [(ours["add"](a, b), ours["less"](a, b)) for _ in range(50)]
    assert counts()[:2] == before[:2]
    assert all(x.flags.owndata and x.base is None for pair in kept for x in pair)
    del kept
    assert max(abs(p - q) for p, q in zip(counts(), before, strict=True)) < 20


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda d: np.dtype(d).name)
def test_stays_inside_of_arrays(ours, dtype):
    for shape, other in (((7, 37), (37,)), ((7, 37), (7, 1)), ((1, 19), (5, 1)), ((64,), (64,))):
        for side in ("after", "before"):
            a, b = guarded(values(shape, dtype), side), guarded(values(other, dtype, 1), side)
            same(ours["multiply"](a, b), expected("multiply", a, b))


def test_threads_do_not_matter(ours):
    a, b = values((300, 400), np.float32), values((300, 1), np.float32, 1)
    before = rushlight.get_num_threads()
    try:
        found = []
        for n in (1, 2):
            rushlight.set_num_threads(n)
            found.append(ours["divide"](a, b).tobytes())
    finally:
        rushlight.set_num_threads(before)
    assert found[0] == found[1]
