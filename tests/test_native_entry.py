"""Native entries (_codegen/native_entry.py): what they take, what they leave alone, what they keep."""

from __future__ import annotations

import gc
import itertools
import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import rushlight
from guard import guarded
from processes import printed
from rushlight._backends import llvm
from rushlight._backends.llvm import (
    batch_normalize,
    elementwise,
    extremes,
    indexing,
    masks,
    normalize,
    reduce,
    scan,
    scatter,
)
from rushlight._backends.reference import normalize as reference_of
from rushlight._backends.reference import reduce as reference
from rushlight._codegen import dtype_entry, native_entry
from rushlight._codegen.runtime import abi

F32, I64 = np.dtype("f4"), np.dtype("i8")


@pytest.fixture(autouse=True)
def active():
    if not llvm.activate() or not abi.available():
        pytest.skip(
            "native entries are off with RUSHLIGHT_COMPILED=0, and where NumPy's objects differ"
        )


def calls():
    return {
        "sum": reduce.SUM[F32],
        "argmax": extremes.ARGMAX[F32],
        "both": extremes.LARGEST_AT[F32],
    }


def test_results_are_those_of_the_way_behind():
    a = np.random.default_rng(0).standard_normal((3, 40, 5)).astype(F32)
    for axis in (None, 0, 1, -1):
        for keep in (False, True):
            assert np.array_equal(reduce.SUM[F32](a, axis, keep), reduce.sum(a, axis, keep))
            values, places = extremes.LARGEST_AT[F32](a, axis, keep)
            assert np.array_equal(values, a.max(axis, keepdims=keep))
            assert np.array_equal(places, a.argmax(axis, keepdims=keep))
            assert (values.dtype, places.dtype) == (F32, I64)
    r = reduce.SUM[F32](a, None, False)
    assert r.__class__ is np.ndarray and r.shape == () and r.flags.owndata and r.flags.writeable


@pytest.mark.parametrize("python", [False, True])
def test_results_of_two_shapes(python):
    rng = np.random.default_rng(0)
    made = lambda *shape: rng.standard_normal(shape).astype(F32)
    groups, rows = normalize.GROUPS_KEPT[F32], normalize.ROWS_KEPT[F32]
    moved = batch_normalize.entries_moved(F32)
    if python:
        groups, rows, moved = (
            native_entry.python_entry(native_entry.bound_of(e)) for e in (groups, rows, moved)
        )
    for shape in ((1, 1, 1), (3, 4), (2, 6, 1, 1), (2, 2, 3, 5)):
        a, w, b = made(*shape), made(shape[1]), made(shape[1])
        g = shape[1] // 2 or 1
        found = groups(a, w, b, g, 1e-5)
        assert [r.shape for r in found] == [shape, (shape[0], g), (shape[0], g)]
        for r, s in zip(
            found, dtype_entry.function_behind(normalize.group_norm)(a, w, b, g, 1e-5), strict=True
        ):
            assert np.array_equal(r, s) and r.strides == s.strides
        assert groups(a[:0], w, b, g, 1e-5) is None
        assert groups(a, w, None, g, 1e-5) is groups(a, w, b, g + 1 << 3, 1e-5) is None
        w, b = made(shape[-1]), made(shape[-1])
        found = rows(a, w, b, shape[-1], 1e-5)
        behind = dtype_entry.function_behind(normalize.layer_norm_with_statistics)
        for r, s in zip(found, behind(a, w, b, shape[-1], 1e-5), strict=True):
            assert np.array_equal(r, s) and r.shape == s.shape
    odd = np.lib.stride_tricks.as_strided(made(12), (2, 6, 1, 1), (24, 4, 0, 0))
    for other in (odd, made(4, 6).T):  # strides along sizes of 1 are those of results, too
        assert groups(other, made(len(other[0])), made(len(other[0])), 1, 1e-5) is None
    means = [made(5) for _ in range(4)]
    own = [m.copy() for m in means]
    assert moved(*means, 0.25, 2) is True
    reference_of.update_running_stats(*own, 0.25, 2.0)
    assert np.allclose(means, own, rtol=1e-6)
    means[0].flags.writeable = False
    assert moved(*means, 0.25, 2) is None is moved(*own[:3], made(4), 0.25, 2)


@pytest.mark.parametrize("python", [False, True])
@pytest.mark.parametrize("name", ["sum", "argmax", "both"])
def test_all_else_is_left_alone(name, python):
    call, a = calls()[name], np.ones((4, 6), F32)
    if python:
        call = native_entry.python_entry(native_entry.bound_of(call))

    class Own(np.ndarray):
        pass

    unaligned = np.frombuffer(bytearray(4 * 24 + 1), np.uint8)[1:].view(F32).reshape(4, 6)
    others = (
        a[:, ::2], a[::-1], np.broadcast_to(a[:1], (4, 6)), np.ones((2, 3, 4), F32).T, a.astype(">f4"), a.astype("f8"), a.view(Own), unaligned, a.tolist(), None, F32.type(1),
        a[:0], a[:, :0], np.ones((1,) * 9, F32),
    )  # fmt: skip
    for other in others:
        assert call(other, 1, False) is None
    for axis in (2, -3, 1.0, "1", (0, 1), (), np.int64(1), 1 << 70, -(1 << 70), NotImplemented):
        assert call(a, axis, False) is None
    for keep in (None, 2, -1, 1.0, np.True_, "yes"):
        assert call(a, 1, keep) is None
    for args in ((), (a,), (a, 1), (a, 1, False, None)):
        assert call(*args) is None


def test_arrays_are_reduced_in_the_order_of_their_memory():
    """Where what is left of the dimensions stands in memory in its order."""
    taken = 0
    for order in itertools.permutations(range(4)):
        a = np.random.default_rng(0).standard_normal((4, 1, 5, 3)).astype(F32)
        a = a.transpose(order).copy().transpose(np.argsort(order))
        for axis, keep in itertools.product((None, 0, 1, 2, -1), (False, True)):
            found = reduce.SUM[F32](a, axis, keep), *(extremes.LARGEST_AT[F32](a, axis, keep) or ())
            wanted = a.sum(axis, keepdims=keep), a.max(axis, keepdims=keep)
            wanted += (a.argmax(axis, keepdims=keep),)
            for one, other in zip(found, wanted):
                taken += one is not None
                assert one is None or (one.flags.c_contiguous and np.allclose(one, other))
    assert taken > 300


def test_references_are_kept_in_balance():
    a = np.ones((4, 6), F32)
    for call in calls().values():
        call(a, 1, False)
        gc.collect()
        before = [sys.getrefcount(o) for o in (a, F32, I64, call.__self__)]
        kept = [call(a, 1, False) for _ in range(2000)]
        del kept
        for _ in range(2000):
            call(a, 5, False)
            call(a[::-1], 1, False)
        gc.collect()
        after = [sys.getrefcount(o) for o in (a, F32, I64, call.__self__)]
        assert all(abs(n - m) < 1000 for n, m in zip(before, after, strict=True))


def test_an_error_while_compiling_goes_to_the_caller(monkeypatch):
    from rushlight._codegen.kernels import reduce as kernels

    def interrupted(**known):
        raise KeyboardInterrupt

    known = {"MEAN": False, "T": reduce.f32, "R": reduce.f32}
    call = native_entry.bind(reduce.INFER, [F32], [F32], (kernels.sum_rows, known))
    monkeypatch.setattr(kernels.sum_rows, "address", interrupted)
    with pytest.raises(KeyboardInterrupt):
        call(np.ones(3, F32), None, False)
    monkeypatch.undo()
    assert call(np.ones(3, F32), None, False) == 3


def test_entries_before_a_function(monkeypatch):
    """It does what they do not take, as it came; what entries raise goes to the caller."""
    came = []

    @dtype_entry.put_entries_before(extremes.LARGEST)
    def amax(*args, **keywords):
        came.append((args, keywords))
        return "behind"

    a = np.arange(12, dtype=F32).reshape(3, 4)
    assert amax.__name__ == "amax"
    assert amax(a, None, False) == 11 and amax(a, 0, True).tolist() == [[8, 9, 10, 11]]
    assert came == []
    for args in (
        (),
        (a,),
        (a, 5, False),
        (a[::-1], 0, False),
        (a.tolist(), 0, False),
        (F32.type(1), 0, 0),
    ):
        assert amax(*args) == "behind" and came.pop()[0] is not None
    assert amax(a, axis=0, keepdims=False) == "behind"
    assert came == [((a,), {"axis": 0, "keepdims": False})]
    assert amax(a.astype(complex), 0, False) == "behind"
    native_entry.use(False)
    try:
        assert amax(a, 0, False) == "behind"
    finally:
        native_entry.use(True)

    class Stopped(native_entry.ByDtype):
        def __missing__(self, dtype):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        dtype_entry.put_entries_before(Stopped(None))(amax)(a, 0, False)
    gc.collect()
    counts = [sys.getrefcount(o) for o in (a, None, F32)]
    for _ in range(3000):
        amax(a, 0, False), amax(a, 5, False), amax(a, 0, keepdims=False)
    came.clear()
    gc.collect()
    after = [sys.getrefcount(o) for o in (a, None, F32)]
    assert all(abs(n - m) < 1000 for n, m in zip(counts, after, strict=True))


def test_functions_of_elements_keep_the_order_of_memory():
    """Dense arrays with the same strides, of whatever order, are gone through as they lie; of others the first one that
    tells an order gives it to the result."""
    sigmoid, product = elementwise.sigmoid.entries[F32], elementwise.addcmul.entries[F32]
    random = np.random.default_rng(0)
    for order in ((2, 0, 1), (1, 2, 0), (2, 1, 0), (0, 2, 1), (0, 1, 2)):
        memory = random.standard_normal((3, 3, 4, 5)).astype(F32)
        a, b, c = memory.transpose(0, *(k + 1 for k in order))
        r = sigmoid(a)
        assert r.strides == a.strides and r.flags.owndata
        np.testing.assert_allclose(r, 1 / (1 + np.exp(-a)), rtol=1e-6)
        r = product(a, b, c, 2)
        assert r.strides == a.strides
        np.testing.assert_allclose(r, a + 2 * b * c, rtol=1e-6)
    gap, twice = memory[0, :, :, ::2].T, np.broadcast_to(memory[0, 0], (3, 4, 5)).T
    for x, strides in ((gap, (4, 12, 48)), (twice, (12, 60, 4))):
        r = sigmoid(x)
        assert r.strides == strides
        np.testing.assert_allclose(r, 1 / (1 + np.exp(-x)), rtol=1e-6)
    for x, strides in ((c, b.strides), (np.asfortranarray(c), b.strides), (c[:, :1], b.strides)):
        r = product(b, x, a[:1], 2)
        assert r.strides == strides
        np.testing.assert_allclose(r, b + 2 * x * a[:1], rtol=1e-6)
    rows = random.standard_normal((700, 3)).astype(F32)  # more short rows than are copied at a time
    np.testing.assert_allclose(
        product(rows.T, rows[0, :, None], rows.T, 2), (rows * (1 + 2 * rows[0])).T, rtol=1e-5
    )


def test_they_can_be_turned_off():
    a = np.ones(3, F32)
    try:
        native_entry.use(False)
        assert reduce.SUM[F32](a, None, False) is None
        assert rushlight.from_numpy(a).sum() == 3
    finally:
        native_entry.use(True)
    assert reduce.SUM[F32](a, None, False) == 3


def test_long_rows_and_threads():
    a = np.random.default_rng(0).standard_normal(100_003).astype(F32)
    a[77_000] = 9
    before = rushlight.get_num_threads()
    found = []
    try:
        for n in (1, 2):
            rushlight.set_num_threads(n)
            found.append([np.asarray(call(a, None, False)).tobytes() for call in calls().values()])
    finally:
        rushlight.set_num_threads(before)
    assert found[0] == found[1]
    assert extremes.ARGMAX[F32](a, None, False) == 77_000
    a[90_000] = a[80_000] = np.nan
    value, place = extremes.LARGEST_AT[F32](a, None, False)
    assert np.isnan(value) and place == 80_000


def test_what_is_written_is_looked_at_first():
    """Read-only arrays, memory in common, indices out of range: nothing is written."""
    a, index, v = np.zeros((4, 6), F32), np.array([1, 3]), np.ones((2, 6), F32)
    put, write, fill = indexing.PUT["put"][F32], scatter.WRITE["put"][F32], masks.FILL[F32]
    each, mask, one = np.ones((4, 6), I64), np.ones((4, 6), bool), np.ones((), F32)
    assert put(a, index, v, 0) is True and a.sum() == 12
    assert write(a, each, np.zeros_like(a), 1) is True and a.sum() == 10
    assert write(a, each, one, 1) is True and a.sum() == 14
    assert fill(a, mask, np.zeros((), F32)) is True and a.sum() == 0
    locked = a.copy()
    locked.flags.writeable = False
    for call in (
        lambda z: put(z, index, v, 0), lambda z: write(z, each, np.ones_like(a), 1),
        lambda z: write(z, each, one, 1), lambda z: fill(z, mask, one),
    ):  # fmt: skip
        assert call(locked) is None and locked.sum() == 0
    for bad in (np.array([1, 4]), np.array([-1, 1])):
        assert put(a, bad, v, 0) is None
        assert indexing.TAKE[F32](a, bad, 0) is None
    each[2, 3] = 6
    assert write(a, each, np.ones_like(a), 1) is None and a.sum() == 0
    assert scatter.GATHER[F32](a, each, 1) is None
    assert put(a, index, a[2:], 0) is None and write(a, each - 6, a, 1) is None
    assert put(a, index, one, 0) is True and a.sum() == 12 and not a[[0, 2]].any()
    assert put(a, index[:1], np.zeros((), F32), -1) is True and a.sum() == 10
    assert (
        indexing.PUT["add"][F32](a, np.array([1, 1]), np.full((), -5, F32), 1) is True
        and a.sum() == -30
    )
    a[...] = 0
    for values in (v[0], v[:1], v[:, :5], v.T, np.float32(1)):
        assert put(a, index, values, 0) is None
    assert put(a, index[:0], v[:0], 0) is None and fill(a, mask[:3], one) is None
    shared = np.zeros(8, F32)
    assert fill(shared, shared.view(bool)[:8], one) is None  # the mask is a part of it
    assert a.sum() == shared.sum() == 0


@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i8"])
def test_variances_and_scans(dtype):
    random = np.random.default_rng(0)
    for shape in ((5,), (4, 7), (3, 40, 5), (2, 300)):
        for side in ("after", "before"):
            a = guarded(random.integers(-5, 6, shape).astype(dtype), side)
            for axis in range(-1, a.ndim):
                for ufunc in (np.add, np.multiply):
                    b = np.sign(a) if ufunc is np.multiply else a
                    got, want = (
                        scan.cumulative(b, axis, ufunc),
                        reference.cumulative(b, axis, ufunc),
                    )
                    assert got.dtype == want.dtype and np.array_equal(got, want)
                for ufunc in (np.maximum, np.minimum):
                    got = scan.cumulative_extreme(a, axis, ufunc)
                    want = reference.cumulative_extreme(a, axis, ufunc)
                    assert all(np.array_equal(g, w) for g, w in zip(got, want, strict=True))
                if dtype == "i8":
                    continue
                for correction in (0, 1, 2, 7, 0.5, -1):
                    got = reduce.variance(a, axis, False, correction)
                    want = reference.variance(a, axis, False, correction)
                    rough = 0.01 if dtype == "f2" else 1e-5
                    for g, w in zip(got, want, strict=True):
                        np.testing.assert_allclose(g, w, rtol=rough, atol=rough)


def test_elementwise_entries_take_arrays_that_broadcast_and_numbers():
    from rushlight._backends.llvm import elementwise

    F64, I32 = np.dtype("f8"), np.dtype("i4")
    rng = np.random.default_rng(1)
    lerp, clip, power = elementwise._number.entries, elementwise._bounded, elementwise._power
    clip = clip.entries(elementwise.range_of)
    for dtype in (F32, F64):
        for shape in ((), (1,), (3, 40), (2, 1, 5)):
            a, b = rng.standard_normal((2, *shape)).astype(dtype)
            a, b = np.asarray(a), np.asarray(b)
            made = lerp[dtype](a, b, 0.25)
            assert made.__class__ is np.ndarray and made.shape == shape and made.dtype is dtype
            assert made.flags.owndata and np.array_equal(
                made, elementwise.lerp(a, b, 0.25, out=np.empty_like(a))
            )
            assert np.array_equal(
                lerp[dtype](a, b, 2), elementwise.lerp(a, b, 2.0, out=np.empty_like(a))
            )
            want = np.clip(a, dtype.type(-0.25), dtype.type(0.5))
            assert np.array_equal(clip[dtype](a, -0.25, 0.5), want)
            assert np.array_equal(clip[dtype](a, None, 0.5), np.minimum(a, dtype.type(0.5)))
            assert np.array_equal(clip[dtype](a, 1, None), np.maximum(a, 1))
    a, b = rng.standard_normal((2, 3, 4)).astype(F32)
    unaligned = np.frombuffer(bytearray(49), np.uint8)[1:].view(F32).reshape(3, 4)
    for other in (b.T, b[:, :3], b[:2], b.astype(F64), b.view(np.matrix), unaligned, 0.5, None):
        assert lerp[F32](a, other, 0.5) is None
        assert power.entries[F32](a, other) is None
    hypot = elementwise.hypot
    for dtype in (F32, F64):
        shapes = (), (1,), (5,), (1, 5), (4, 1), (4, 5), (3, 1, 1), (3, 4, 5), (2, 1, 4, 1)
        for one, two in itertools.product(shapes, shapes):
            c, d = (np.asarray(rng.standard_normal(s)).astype(dtype) for s in (one, two))
            made = elementwise._hypot.entries[dtype](c, d)
            want = np.hypot(c, d)
            assert made.shape == want.shape and made.flags.c_contiguous
            assert np.allclose(made, want, rtol=1e-6) and np.array_equal(made, hypot(c, d))
        assert (
            elementwise._hypot.entries[dtype](np.ones((4, 1), dtype), np.ones((0,), dtype)) is None
        )
        assert elementwise._hypot.entries[dtype](*np.ones((2, 40_000, 1), dtype)[:, :, :0]) is None
    for number in (None, True, float("nan"), 1e300, 1 << 40, -(1 << 70), F32.type(1), "1", b):
        assert lerp[F32](a, b, number) is None
    assert clip[F32](a, None, None) is None
    assert lerp[F32](a[:0], b[:0], 0.5) is None
    assert lerp[F32](a, b) is lerp[F32](a, b, 0.5, 0.5) is lerp[F32]() is None
    whole = np.arange(12, dtype=I32).reshape(3, 4)
    assert clip[I32](whole, 2, None).tolist() == np.maximum(whole, 2).tolist()
    assert clip[I32](whole, 0.5, 3) is clip[I32](whole, 1 << 40, None) is None
    assert lerp[np.dtype(complex)](a, b, 0.5) is None
    half = a.astype(np.float16)
    assert lerp[half.dtype](half, half, 1).dtype is half.dtype
    held = [sys.getrefcount(o) for o in (a, b, F32, None)]
    for _ in range(2000):
        lerp[F32](a, b, 0.5)
        lerp[F32](a, b.T, 0.5)
    now = [sys.getrefcount(o) for o in (a, b, F32, None)]
    assert all(abs(n - m) < 1000 for n, m in zip(held, now, strict=True))


def test_elementwise_entries_write_into_an_array():
    """Of the shape of the others, in order, and each of these the same memory or apart: all else goes on to Python."""
    rng = np.random.default_rng(0)
    memory = rng.standard_normal(40).astype(F32)
    a, b = memory[:12].reshape(3, 4), memory[12:24].reshape(3, 4)
    entry = elementwise.lerp  # of two arrays and a number

    def want(x, y):
        return x + F32.type(0.25) * (y - x)

    for into in (memory[24:36].reshape(3, 4), np.zeros((3, 4), F32), a, b):
        x, y = a.copy(), b.copy()
        before = sys.getrefcount(into)
        r = entry(a, b, 0.25, out=into)
        assert r is into
        del r
        assert sys.getrefcount(into) == before
        np.testing.assert_allclose(into, want(x, y), rtol=1e-6)
        a[...], b[...] = x, y

    quick = elementwise._number.entries[F32]
    assert quick(a, b, 0.25, np.zeros((3, 4), F32)) is not None
    read_only = np.zeros((3, 4), F32)
    read_only.flags.writeable = False
    for unfit in (
        np.zeros((4, 3), F32), np.zeros((3, 4), "f8"), np.zeros((4, 3), F32).T, np.zeros((3, 8), F32)[:, ::2],
        memory[1:13].reshape(3, 4), memory[20:32].reshape(3, 4), read_only, None, 3.0,
    ):  # fmt: skip
        assert quick(a, b, 0.25, unfit) is None
    assert quick(a, b[0], 0.25, np.zeros((3, 4), F32)) is None  # what broadcasts is left to Python
    # Overlapping memory: Python computes as if all was read before the first write.
    x, y, shifted = a.copy(), b.copy(), memory[1:13].reshape(3, 4)
    np.testing.assert_allclose(entry(a, b, 0.25, out=shifted), want(x, y), rtol=1e-6)
    with pytest.raises((TypeError, ValueError)):
        entry(a.copy(), b.copy(), 0.25, out=read_only)
    with pytest.raises(TypeError):
        entry(a, b, 0.25, other=a)


def test_a_bound_that_is_left_out_in_place():
    for bounds in ({"min": 0.0}, {"max": 0.5}, {"min": -0.25, "max": 0.25}):
        x = rushlight.linspace(-1, 1, 9)
        want = x.clamp(**bounds)
        for _ in range(4):  # by the general way, then as printed for the key
            y = x.clone()
            assert y.clamp_(**bounds) is y and rushlight.equal(y, want)
    with pytest.raises(RuntimeError, match="At least one"):
        x.clamp_()


def test_attributes_are_the_arrays():
    """Native getters of tensors: what they are made for, and what they leave to Python."""

    class Own(rushlight.Tensor):
        pass

    zeros = rushlight.zeros
    leaf = zeros(3, 4, requires_grad=True)
    wanting = [leaf, leaf[1], leaf.t(), leaf[:, 1:2], leaf * 2, rushlight.nn.Parameter(zeros(2))]
    others = [
        leaf.detach(), leaf.detach().t()[1:], zeros(0, 3), zeros(2, 0, 3)[:, :, 1], rushlight.tensor(1.0),
        zeros(2, dtype=rushlight.bfloat16), rushlight.ones(1, 1, 5, dtype=rushlight.bool),
        zeros(2, 3, 4, dtype=rushlight.complex128).permute(2, 0, 1), zeros(2, 3).as_subclass(Own),
    ]  # fmt: skip
    for t in wanting + others:
        a = t._array
        assert t.requires_grad is any(t is each for each in wanting)
        assert t.shape == t.size() == a.shape
        assert t.shape.__class__ is t.size().__class__ is rushlight.Size
        assert t.ndim == a.ndim and t.dtype.np is a.dtype and t.device == rushlight.device("cpu")
        assert t.is_contiguous() is a.flags.c_contiguous
        assert t.data_ptr() == (a.ctypes.data if a.size else 0)
        if a.size:
            assert t.stride() == tuple(s // a.itemsize for s in a.strides)
    assert zeros(2, 0, 3).stride() == (3, 3, 1)
    meta = zeros(2, 3, device="meta")
    assert (meta.shape, meta.stride(), meta.device.type) == ((2, 3), (3, 1), "meta")
    for name in ("shape", "dtype", "_strides"):
        getter = vars(rushlight.Tensor)[name].fget
        for wrong in (5, None, np.zeros(2), object.__new__(rushlight.Tensor)):
            with pytest.raises(AttributeError):
                getter(wrong)
        with pytest.raises(TypeError):
            getter()


def test_attributes_stay_the_objects_that_overrides_know():
    lines = (
        "import rushlight as torch; from rushlight._backends import llvm",
        "before = torch.Tensor.shape, torch.Tensor.shape.fget, torch.zeros(2) + 1",
        "assert llvm.activate()",
        "assert torch.Tensor.shape is before[0] and torch.Tensor.shape.fget is not before[1]",
        "assert before[2].shape == (2,)",
    )
    printed("\n".join(lines))


def test_programs_that_are_looked_at_make_no_entries(monkeypatch):
    """Inside of `in_python` entries are functions of Python with the same results, and are forgotten."""
    a = np.random.default_rng(0).standard_normal((3, 40)).astype(F32)
    expected = [call(a, 1, False) for call in calls().values()]
    tables = reduce.SUM, extremes.ARGMAX, extremes.LARGEST_AT, elementwise.sigmoid.entries
    for table in tables:
        monkeypatch.delitem(table, F32, raising=False)
    with native_entry.in_python() as outer:
        with native_entry.in_python():
            pass
        found = [call(a, 1, False) for call in calls().values()]
        assert tables[3][F32](a) is None  # what is behind it does that
        assert not any(F32 in table for table in tables)
        outer.leave()
        assert native_entry.bound_of(reduce.SUM[F32]) is not None
    assert F32 in reduce.SUM
    for one, other in zip(expected, found, strict=True):
        for x, y in zip(np.atleast_2d(one), np.atleast_2d(other), strict=True):
            assert np.array_equal(x, y)
    assert reduce.SUM[F32](a, 5, False) is None
