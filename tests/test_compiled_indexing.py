"""Reading and writing at indices in machine code, against the reference."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight as torch
from guard import guarded
from rushlight._backends import llvm as back_end
from rushlight._backends.llvm import indexing as compiled
from rushlight._backends.llvm import masks, scatter
from rushlight._backends.llvm import whole as whole_operators
from rushlight._backends.reference import indexing as reference
from rushlight._codegen import native_entry

FLOATS = [np.dtype(np.float32), np.dtype(np.float64)]
MOVED = [np.dtype(t) for t in (bool, np.int16, np.float16, np.float32, np.int64)]
shapes = st.lists(st.sampled_from([1, 2, 3, 5, 16, 17, 33]), min_size=1, max_size=3).map(tuple)


@pytest.fixture(autouse=True, scope="module")
def of_any_size():
    before = compiled.SMALL, compiled.ROWS, compiled.SHARED
    compiled.SMALL = compiled.ROWS = compiled.SHARED = scatter.SMALL = 1
    yield
    compiled.SMALL, compiled.ROWS, compiled.SHARED = before
    scatter.SMALL = compiled.SMALL


def whole(rng, shape, dtype):
    """Small integers in any dtype: their sums are exact."""
    return guarded(rng.integers(-9, 10, shape).astype(dtype), rng.choice(["after", "before"]))


@given(shape=shapes, data=st.data(), seed=st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_slices(shape, data, seed):
    rng = np.random.default_rng(seed)
    axis = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.sampled_from([1, 2, 7, 40]))
    wide = data.draw(st.sampled_from([np.int64, np.int32]))
    index = guarded(rng.integers(0, shape[axis], k).astype(wide))
    a = whole(rng, shape, data.draw(st.sampled_from(MOVED)))
    assert np.array_equal(compiled.index_select(a, index, axis), np.take(a, index, axis))
    dtype = data.draw(st.sampled_from([*FLOATS, np.dtype(np.int64), np.dtype(np.int32)]))
    values = whole(rng, (*shape[:axis], k, *shape[axis + 1 :]), dtype)
    expected = reference.index_select_gradient(shape, index, axis, values)
    assert np.array_equal(compiled.index_select_gradient(shape, index, axis, values), expected)
    z = whole(rng, shape, dtype)
    want = z + expected
    key = (*(slice(None),) * axis, index - shape[axis] if seed % 2 else index)
    compiled.index_add_at(z, key, values)
    assert np.array_equal(z, want)


@given(shape=shapes, data=st.data(), seed=st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_elements(shape, data, seed):
    rng = np.random.default_rng(seed)
    dim = data.draw(st.integers(0, len(shape) - 1))
    k = data.draw(st.sampled_from([1, 2, 7, 40]))
    own = (*shape[:dim], k, *shape[dim + 1 :])
    index = guarded(rng.integers(0, shape[dim], own))
    a = whole(rng, shape, data.draw(st.sampled_from(MOVED)))
    expected = reference.gather(a, index, dim)
    assert np.array_equal(scatter.gather(a, index, dim), expected)
    values = whole(rng, own, a.dtype)
    for given_values in (values, values.reshape(-1)[:1].reshape(())):
        z, want = guarded(a), a.copy()
        scatter.scatter(z, index, dim, given_values)
        reference.scatter(want, index, dim, given_values)
        assert np.array_equal(z, want)
    dtype = data.draw(st.sampled_from(FLOATS))
    values = whole(rng, own, dtype)
    expected = reference.gather_gradient(shape, index, dim, values)
    assert np.array_equal(scatter.gather_gradient(shape, index, dim, values), expected)


@given(
    shape=st.sampled_from([(3, 5), (7, 4, 3), (5, 20, 17), (40, 33)]),
    data=st.data(),
    seed=st.integers(0, 99),
)
@settings(max_examples=80, deadline=None)
def test_keys(shape, data, seed):
    rng = np.random.default_rng(seed)
    d = data.draw(st.integers(0, len(shape) - 2))
    wide = data.draw(st.sampled_from([np.int64, np.int32]))
    k = data.draw(st.sampled_from([(1,), (7,), (40,), (3, 4)]))
    some = [guarded(rng.integers(-n, n, k).astype(wide)) for n in shape[d : d + 2]]
    if data.draw(st.booleans()):
        some = some[:1]
    elif data.draw(st.booleans()):
        some[0] = np.broadcast_to(some[0][..., :1], k)
    key = (*(slice(None),) * d, *some)
    dtype = data.draw(st.sampled_from(MOVED))
    a = whole(rng, shape, dtype)
    assert np.array_equal(compiled.index_take(a, key), a[key])
    values = whole(rng, a[key].shape, dtype)
    for given_values in (values, values.reshape(-1)[:1].reshape(()), values[..., :1]):
        z, want = guarded(a), a.copy()
        compiled.index_put(z, key, given_values)
        want[key] = given_values
        assert np.array_equal(z, want)
    z, want = np.asarray(a, np.float32), np.array(a, np.float32)
    compiled.index_add_at(z := guarded(z), key, values.astype(np.float32))
    np.add.at(want, key, values.astype(np.float32))
    assert np.array_equal(z, want)
    some[-1][..., 0] = shape[d + len(some) - 1]
    z, before = guarded(a), a.copy()
    for run in (lambda: compiled.index_take(z, key), lambda: compiled.index_put(z, key, values)):
        with pytest.raises(IndexError):
            run()
    assert np.array_equal(z, before)


@given(shape=shapes, data=st.data(), seed=st.integers(0, 99))
@settings(max_examples=80, deadline=None)
def test_reductions(shape, data, seed):
    rng = np.random.default_rng(seed)
    dim = data.draw(st.integers(0, len(shape) - 1))
    own = (*shape[:dim], data.draw(st.sampled_from([1, 2, 7])), *shape[dim + 1 :])
    index = guarded(rng.integers(0, shape[dim], own))
    dtype = data.draw(st.sampled_from([*FLOATS, np.dtype(np.int64)]))
    a, values = whole(rng, shape, dtype), whole(rng, own, dtype)
    if dtype.kind == "f":
        values[rng.random(own) < 0.1] = np.nan
    for reduce in ("sum", "mean", "prod", "amax", "amin"):
        for include in (True, False):
            got, want = guarded(a), a.copy()
            with np.errstate(all="ignore"):
                assert scatter.scatter_reduce(got, index, dim, values, reduce, include)
                reference.scatter_reduce(want, index, dim, values, reduce, include)
            assert np.array_equal(got, want, equal_nan=dtype.kind == "f"), (reduce, include)
    index.reshape(-1)[0] = shape[dim]
    assert not scatter.scatter_reduce(got, index, dim, values, "sum", True)
    assert np.array_equal(got, want, equal_nan=dtype.kind == "f")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "int32"])
def test_rows_in_parts(dtype):
    rng = np.random.default_rng(0)
    dtype = getattr(torch, dtype).np
    for n, k, inner in ((4, 1, 16), (5, 700, 33), (100, 1500, 50)):
        z, v = whole(rng, (n, inner), dtype), whole(rng, (k, inner), dtype)
        index = guarded(np.sort(rng.integers(0, n, k)) if k % 3 else rng.integers(0, n, k))
        want, put = z.copy(), z.copy()
        for j in range(k):
            want[index[j]] = want[index[j]] + v[j]
            put[index[j]] = v[j]
        assert compiled.put_slices(z.copy(), index, 0, v, True)
        added = guarded(z)
        assert compiled.put_slices(added, index, 0, v, True) and np.array_equal(added, want)
        written = guarded(z)
        assert compiled.put_slices(written, index, 0, v, False) and np.array_equal(written, put)
        index[k // 2] = n
        assert not compiled.put_slices(written, index, 0, v, False)
        assert np.array_equal(written, put)


@given(n=st.sampled_from([1, 15, 16, 17, 64, 1000]), data=st.data(), seed=st.integers(0, 99))
@settings(max_examples=50, deadline=None)
def test_masks(n, data, seed):
    rng = np.random.default_rng(seed)
    a = whole(rng, n, data.draw(st.sampled_from(MOVED)))
    mask = guarded(rng.random(n) < 0.4)
    want = a.copy()
    want[mask] = want[0]
    masks.fill_masked(a, mask, a[:1].reshape(()).copy())
    assert np.array_equal(a, want)


@given(
    n=st.sampled_from([1, 2, 15, 16, 17, 31, 33, 64, 1000]),
    wide=st.sampled_from([np.int64, np.int32]),
    seed=st.integers(0, 9),
    bad=st.sampled_from([None, -1, 50, 1 << 30, -(1 << 31)]),
)
@settings(max_examples=100, deadline=None)
def test_range(n, wide, seed, bad):
    rng = np.random.default_rng(seed)
    x = guarded(rng.integers(0, 50, n).astype(wide))
    if bad is not None:
        x[rng.integers(n)] = bad
    assert compiled.in_range(x, compiled.index_type(x), 50) is (bad is None)
    if bad is not None:
        assert scatter.gather(np.zeros(50), x, 0) is None
        assert compiled.index_select(np.zeros((50, 3)), x, 0) is None
        z = np.zeros(50)
        assert not scatter.scatter(z, x, 0, np.ones(n)) and not z.any()


@pytest.mark.parametrize("bad", [-1, 100, 1 << 40, -(1 << 63)])
def test_no_kernel_sees_an_index_out_of_range(bad):
    w, g = torch.zeros(100, 8), torch.zeros(64, 8)
    i = torch.zeros(64, dtype=torch.int64)
    i[17] = bad
    for call in (
        lambda: torch.nn.functional.embedding(i, w),
        lambda: w.index_select(0, i),
        lambda: w.gather(0, i.unsqueeze(1).expand(64, 8)),
        lambda: w.scatter_(0, i.unsqueeze(1).expand(64, 8).contiguous(), g),
        lambda: w.scatter_add_(0, i.unsqueeze(1).expand(64, 8).contiguous(), g),
        lambda: w.index_add_(0, i, g),
    ):
        with pytest.raises((IndexError, RuntimeError)):
            call()
    # and where an operator did not look, the kernel's caller does
    with pytest.raises((IndexError, ValueError)):
        compiled.index_select_gradient((100, 8), i._array.clip(None, 200), 0, np.ones((64, 8)))
        raise IndexError("a negative index counts from the end")


def test_memory_that_overlaps_is_the_references():
    z = np.arange(64.0).reshape(16, 4)
    index = np.arange(15)
    assert not compiled.added(z[:15], index, 0, z[1:])


def test_two_threads_give_the_same_bits():
    rng = np.random.default_rng(0)
    values = rng.standard_normal((5000, 300)).astype(np.float32)
    index, wide = rng.integers(0, 50, 5000), rng.integers(0, 50, (5000, 300))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            found.append(
                [
                    compiled.index_select_gradient((50, 300), index, 0, values).tobytes(),
                    compiled.index_select_gradient((5000, 70), index[:300], 1, values).tobytes(),
                    scatter.gather_gradient((50, 300), wide, 0, values).tobytes(),
                ]
            )
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("alpha", [1, -1, 3])
@pytest.mark.parametrize("shape", [(), (5,), (3, 5), (2, 3, 4)], ids=str)
@pytest.mark.parametrize("dtype", whole_operators.ADDED, ids=str)
def test_entry_of_index_add_takes_any_factor(dtype, shape, alpha):
    rng = np.random.default_rng(0)
    d = len(shape) // 2
    z, values = (rng.normal(0, 9, (*shape, 1)).astype(dtype)[..., 0] for _ in range(2))
    index = np.zeros(shape[d] if shape else 1, np.int64)
    factor = 0.1 * alpha if alpha != 1 and dtype.kind not in "iu" else alpha
    expected = np.atleast_1d(z.copy())
    for part in np.split(np.atleast_1d(values), len(index), d):
        at = (*(slice(None),) * d, slice(0, 1))
        expected[at] += part * dtype.type(factor)
    taken = whole_operators.ENTRIES["index_add"][dtype](z, d, index, values, factor)
    if (
        alpha == 1 and dtype in whole_operators.REDUCED and len(shape) == 2
    ):  # which are rounded once
        assert taken is None
    else:
        assert taken and z.tobytes() == expected.tobytes()
    large = -(1 << 62) if dtype.kind == "i" else 1e300 if dtype.itemsize < 8 else 1j
    assert whole_operators.ENTRIES["index_add"][dtype](z, d, index, values, large) is None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_sums_of_half_types_are_rounded_once(dtype):
    assert back_end.activate()
    rng = np.random.default_rng(0)
    values = torch.from_numpy(rng.standard_normal((500, 40)).astype(np.float32)).to(dtype)
    index = torch.from_numpy(rng.integers(0, 3, 500))
    exact = torch.zeros(3, 40, dtype=torch.float64).index_add(0, index, values.double())
    before = torch.zeros(3, 40, dtype=dtype)
    wide = index[:, None].expand(500, 40)
    scattered = before.scatter_add(0, wide, values)
    for result in (before.index_add(0, index, values), scattered):
        assert result.dtype is dtype and torch.equal(result, exact.to(dtype))
    steps = before.clone()  # PyTorch rounds the sums of `index_put_` at each step
    for k, row in zip(index.tolist(), values, strict=True):
        steps[k] += row
    assert torch.equal(before.clone().index_put_((index,), values, True), steps)
    leaf = torch.zeros(3, 40, dtype=dtype, requires_grad=True)
    leaf.gather(0, wide).backward(values)
    assert torch.equal(leaf.grad, exact.to(dtype))


def test_pairs():
    a = guarded(np.arange(35.0, dtype=np.float32).reshape(5, 7))
    for shape in ((1,), (40,), (3, 4), ()):
        rng = np.random.default_rng(0)
        i, j = (guarded(rng.integers(-n, n, shape)) for n in a.shape)
        assert np.array_equal(compiled.PAIRS[a.dtype](a, i, j), a[i, j])
        assert np.array_equal(compiled.index_take(a, (i, j)), a[i, j])
    i, j = np.array([0, 4]), np.array([6, 6])
    call = compiled.PAIRS[a.dtype]
    for wrong in (
        (i + 1, j),
        (i, j + 1),
        (i - 6, j),
        (i, j - 14),
        (i[:1], j),
        (i[:, None], j),
        (i[:0], j[:0]),
    ):
        assert call(a, *wrong) is None
    assert call(a.T, i, j) is None and call(a[None], i, j) is None and call(a[:0], i, j) is None
    for wrong in ((i + 1, j), (i, j + 1)):
        with pytest.raises(IndexError):
            compiled.index_take(a, wrong)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64, np.int32])
@pytest.mark.parametrize("include", [True, False])
@pytest.mark.parametrize("how", ["sum", "prod", "mean", "amax", "amin"])
def test_reductions_of_any_layout(how, include, dtype):
    rng = np.random.default_rng(3)
    for shape in ((1,), (7,), (4, 5), (3, 4, 5), (40, 50)):
        for axis in range(len(shape)):
            z, values = (rng.integers(-4, 5, shape).astype(dtype) for _ in range(2))
            n = shape[axis]
            index, places = rng.integers(0, n, n), rng.integers(0, n, shape)
            for module, name, where, axes in (
                (compiled, "reduce_slices", index, False),
                (scatter, "scatter_reduce", places, True),
            ):
                want = z.copy()
                assert getattr(reference, name)(want, where, axis, values, how, include)
                back = len(shape) - 1 - axis
                for got, i, v, d in (
                    (z.copy(), where, values, axis),
                    (z.copy(), where, values.T.copy().T, axis),
                    (z.T.copy().T, where, values, axis),
                    (z.copy().T, where.T if axes else where, values.T, back),
                ):
                    assert getattr(module, name)(got, i, d, v, how, include)
                    np.testing.assert_allclose(
                        got if d == axis and got.shape == shape else got.T, want
                    )
                wrong, kept = where.copy(), z.copy()
                wrong.reshape(-1)[0] = n
                assert not getattr(module, name)(kept, wrong, axis, values, how, include)
                assert np.array_equal(kept, z)


def any_index(rng, shape):
    """Ints, slices, None, `...`, index tensors that broadcast or nearly, and masks; some out of range."""
    wide, items, d, dots = rng.choice([0, 1, 2, 3, 3], rng.integers(1, 4)), [], 0, False
    while d < len(shape):
        n, kind = shape[d], rng.choice(["int", "slice", "none", "dots", "at", "at", "at", "mask"])
        if kind == "int":
            items.append(int(rng.integers(-n, n)))
        elif kind == "slice":
            items.append(
                slice(*[rng.choice([None, 0, 1, 2, -1]) for _ in "ab"], int(rng.integers(1, 3)))
            )
        elif kind == "none":
            items.append(None)
        elif kind == "dots" and not dots:
            items.append(...)
            dots = True
            d += rng.integers(0, len(shape) - d)
        elif kind == "at":
            sizes = [n if rng.random() < 0.8 else 1 for n in wide[rng.integers(0, len(wide)) :]]
            numbers = rng.integers(-n - (rng.random() < 0.05), n, sizes)
            found = torch.tensor(numbers, dtype=rng.choice([torch.int64, torch.int64, torch.int32]))
            items.append(found.t().contiguous().t() if found.dim() == 2 else found)
        elif kind == "mask":
            sizes = shape[d : d + rng.integers(1, 3)]
            items.append(torch.tensor(rng.random(sizes) < 0.5))
            d += len(sizes) - 1
        d += kind not in ("none", "dots")
    return tuple(items)


def outcome(run):
    """What a call gives, with its layout, or raises."""
    try:
        r = run()
    except Exception as e:
        return type(e), str(e)
    return r.tolist(), r.shape, r.stride() if r.numel() else None, r.dtype, r._version


DTYPES = (torch.float32, torch.float64, torch.int64, torch.bool, torch.float16, torch.complex64)


@given(seed=st.integers(0, 10**6), dtype=st.sampled_from(DTYPES))
@settings(max_examples=300, deadline=None)
def test_any_index_does_the_same_without_machine_code(seed, dtype):
    back_end.work(10**9)
    rng = np.random.default_rng(seed)
    shape = [int(n) for n in rng.choice([1, 2, 3, 4, 5], rng.integers(1, 5))]
    lies, index = rng.integers(0, 3), any_index(rng, shape)
    values = torch.tensor(rng.integers(0, 2, shape)).to(dtype)

    def made():
        x = values.clone()
        if lies == 1:
            return (
                x.permute(*range(len(shape))[::-1]).contiguous().permute(*range(len(shape))[::-1])
            )
        return torch.cat([x, x], -1)[..., : shape[-1]] if lies == 2 else x

    def write(value, how):
        x = made()
        if how == "set":
            x[index] = value
        elif how == "fill":
            x[index] = 1
        else:
            x.index_put_(
                tuple(i for i in index if isinstance(i, torch.Tensor)), value, how == "add"
            )
        return x

    try:
        new = made()[index]
    except IndexError:
        new = made()[:1]
    calls = [lambda: made()[index], lambda: write(new, "fill")]
    calls += [lambda how=how: write((new * 0)[:1], how) for how in ("set", "put", "add")]
    for call in calls:
        got = outcome(call)
        native_entry.use(False)
        try:
            want = outcome(call)
        finally:
            native_entry.use(True)
        assert got == want
