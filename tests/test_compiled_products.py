"""Matrix products in machine code against the reference and against exact sums."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given
from hypothesis import strategies as st

import rushlight as torch
from guard import guarded
from rushlight._backends.llvm import candidates, product_table, products
from rushlight._backends.reference import products as reference
from rushlight._codegen import dtype_entry, native_entry, product_sizes
from rushlight.core import dtypes

DTYPES = [np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.float16), dtypes.bfloat16.np]
LAYOUTS = ("rows", "columns", "steps", "backwards", "repeated")


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """The large kernels for the smallest products too."""
    for name in "SMALL SMALL_OUTER".split():
        monkeypatch.setattr(products, name, 0)
    for name in "LITTLE THIN_SUMS".split():
        monkeypatch.setattr(product_table, name, 0)
    candidates.forget()
    native_entry.use(False)
    yield
    native_entry.use(True)
    candidates.forget()


def random(shape, dtype, layout="rows", seed=0):
    """Random numbers in an array of this shape and dtype whose matrices lie in memory like that."""
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    if layout == "columns":
        return np.swapaxes(np.ascontiguousarray(np.swapaxes(values, -1, -2)), -1, -2)
    if layout == "steps":
        wide = np.zeros((*shape[:-2], 2 * shape[-2], 3 * shape[-1]), dtype)
        wide[..., ::2, ::3] = values
        return wide[..., ::2, ::3]
    if layout == "backwards":
        return np.ascontiguousarray(values[..., ::-1, ::-1])[..., ::-1, ::-1]
    if layout == "repeated":
        return np.broadcast_to(values[..., :1, :], shape)
    return values


def close(result, a, b, dtype, plus=0.0):
    """Within the bound of a sum of k products, each rounded once: k * eps * |A| |B|."""
    a, b, plus = a.astype(np.float64), b.astype(np.float64), np.asarray(plus, np.float64)
    exact, size = a @ b + plus, np.abs(a) @ np.abs(b) + np.abs(plus)
    sums = np.dtype(np.float64 if dtype == np.float64 else np.float32)
    half = {np.dtype(np.float16): 2.0**-11, dtypes.bfloat16.np: 2.0**-8}.get(dtype, 0.0)
    bound = (a.shape[-1] + 4) * np.finfo(sums).eps * size + half * np.abs(exact) + 1e-7 * bool(half)
    assert result.dtype == dtype
    assert result.shape == exact.shape
    assert (np.abs(result.astype(np.float64) - exact) <= bound).all()


@given(
    st.integers(1, 70),
    st.integers(1, 90),
    st.integers(1, 70),
    st.sampled_from(DTYPES),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
)
def test_matrices(m, k, n, dtype, first, second):
    a, b = random((m, k), dtype, first), random((k, n), dtype, second, 1)
    close(products.matmul(a, b), a, b, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layouts", [(x, y) for x in LAYOUTS[:3] for y in LAYOUTS[:3]])
def test_matrices_of_several_blocks(dtype, layouts):
    a, b = random((131, 1100), dtype, layouts[0]), random((1100, 165), dtype, layouts[1], 1)
    close(products.matmul(a, b), a, b, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS[:2])
@pytest.mark.parametrize("k", [34, 90, 1100])
def test_infinity_and_nan_stay_in_their_rows_and_columns(k, layout, dtype):
    a, b = random((70, k), dtype, layout), random((k, 50), dtype, layout, 1)
    a[3, k - 1], a[69, 0], b[5, 49] = np.inf, np.nan, -np.inf
    with np.errstate(invalid="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
        result = products.matmul(a, b).astype(np.float64)
    assert np.array_equal(np.isfinite(result), np.isfinite(expected))
    special = ~np.isfinite(expected)
    assert np.array_equal(result[special], expected[special], equal_nan=True)


@pytest.mark.parametrize(
    "shape", [(2100, 9, 40), (30, 1025, 700), (1, 3000, 1), (517, 513, 5), (9, 300_000, 10)]
)
def test_long_and_thin(shape):
    m, k, n = shape
    for first in LAYOUTS[:2]:
        for second in LAYOUTS[:2]:
            a, b = random((m, k), "f4", first), random((k, n), "f4", second, 1)
            close(products.matmul(a, b), a, b, np.dtype("f4"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", LAYOUTS[:3])
@pytest.mark.parametrize("m", range(1, 10))
def test_few_rows(m, layout, dtype):
    for n in (1, 5, 24, 100):
        a, b = random((m, 255), dtype), random((255, n), dtype, layout, 1)
        close(products.matmul(a, b), a, b, dtype)


@given(
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from([np.dtype(t) for t in ("i8", "i4", "i2", "i1", "u1")]),
    st.sampled_from(LAYOUTS[:3]),
    st.sampled_from(LAYOUTS[:3]),
)
def test_whole_numbers_wrap_around(m, k, n, dtype, first, second):
    random = np.random.default_rng(0)
    info = np.iinfo(dtype)
    a, b, c = (
        random.integers(info.min, info.max, shape, dtype, endpoint=True)
        for shape in ((m, k), (k, n), (m, n))
    )
    exact = a @ b
    if first == "columns":
        a = a.T.copy().T
    if second == "columns":
        b = b.T.copy().T
    if second == "steps":
        b = np.repeat(b, 2, axis=1)[:, ::2]
    assert (products.matmul(a, b) == exact).all()
    assert products.matmul(a, b).dtype == dtype
    assert (products.matmul(np.stack([a, a]), b) == exact).all()
    assert (products.mv(a, b[:, 0]) == exact[:, 0]).all()
    assert (products.accumulate(c, a, b, 2, 3) == 2 * c + 3 * exact).all()


@given(
    st.integers(1, 5),
    st.integers(1, 100),
    st.integers(1, 100),
    st.sampled_from(DTYPES),
    st.sampled_from(LAYOUTS[:3]),
)
def test_vectors(batch, k, n, dtype, layout):
    a, b = random((n, k), dtype, layout), random((k,), dtype, seed=1)
    close(products.mv(a, b), a, b, dtype)
    close(products.matmul(b, np.swapaxes(a, -1, -2)), b, a.T, dtype)
    close(products.matmul(a, b[::-1]), a, b[::-1], dtype)
    many, rows = random((batch, n, k), dtype, layout), random((batch, 1, k), dtype, seed=2)
    across = np.swapaxes(rows, -1, -2)
    close(products.bmm(many, across), many, across, dtype)
    close(products.bmm(rows, np.swapaxes(many, -1, -2)), rows, np.swapaxes(many, -1, -2), dtype)
    close(products.matmul(many, b), many, b, dtype)


@given(
    st.sampled_from(
        [
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((2, 3), (2, 1)),
            ((1, 3), (4, 1, 3)),
            ((), (5,)),
            ((2, 2), ()),
            ((1, 1), (2, 3)),
        ]
    ),
    st.integers(1, 40),
    st.integers(1, 40),
    st.integers(1, 40),
    st.sampled_from(DTYPES),
    st.sampled_from(LAYOUTS),
    st.sampled_from(LAYOUTS),
)
def test_batches(batches, m, k, n, dtype, first, second):
    a = random((*batches[0], m, k), dtype, first)
    b = random((*batches[1], k, n), dtype, second, 1)
    close(products.matmul(a, b), a, b, dtype)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.sampled_from(DTYPES))
def test_linear(m, k, n, dtype):
    a, w, bias = random((m, k), dtype), random((n, k), dtype, seed=1), random((n,), dtype, seed=2)
    close(products.linear(a, w, bias), a, w.T, dtype, bias)
    close(products.linear(a, w, None), a, w.T, dtype)
    close(products.linear(a, w, bias[:1]), a, w.T, dtype, bias[:1])
    batch = random((2, 3, m, k), dtype, "columns")
    close(products.linear(batch, w, bias), batch, w.T, dtype, bias)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("side", ["before", "after"])
def test_rows_that_are_added_to_products_with_few_vectors(dtype, side):
    for m, k, n in ((1, 300, 70), (3, 40, 2100), (7, 2100, 45), (200, 65, 1), (90, 2100, 4)):
        x, w = random((m, k), dtype), random((n, k), dtype, seed=1)
        row = guarded(random((n,), dtype, seed=2), side)
        for weight in (guarded(w, side), guarded(w.T.copy(), side).T):
            close(products.linear(guarded(x, side), weight, row), x, w.T, dtype, row)
            row[0] = np.nan
            assert np.isnan(products.linear(x, weight, row)).any(0).nonzero()[0].tolist() == [0]
            row[0] = 1
    whole = np.arange(12).reshape(3, 4)
    assert (products.linear(whole, whole, whole[0, :3].copy()) == whole @ whole.T + [0, 1, 2]).all()


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 60), st.sampled_from(DTYPES))
def test_accumulate(m, k, n, dtype):
    a, b = random((m, k), dtype, "columns"), random((k, n), dtype, seed=1)
    full, row = random((m, n), dtype, "columns", seed=2), random((n,), dtype, seed=3)
    for c in (full, row):
        before = c.copy()
        close(products.accumulate(c, a, b, 1, 1), a, b, dtype, c)
        result = products.accumulate(c, a, b, 0.5, 1)
        close(result, a, b, dtype, 0.5 * c.astype(np.float64))
        result = products.accumulate(c, a, b, 0.5, 2)
        close(result, 2 * a.astype(np.float64), b, dtype, 0.5 * c.astype(np.float64))
        assert (c == before).all()
    batch, more = np.stack([a, -a]), np.stack([b, b])
    exact = np.stack([a, -a]).astype(np.float64)
    for c in (random((2, m, n), dtype, seed=4), row):
        close(products.accumulate(c, batch, more, 1, 1), exact, more, dtype, c)
        result = products.accumulate(c, batch, more, 0.5, 2)
        close(result, 2 * exact, more, dtype, 0.5 * c.astype(np.float64))
    nothing = np.full_like(full, np.nan)
    close(products.accumulate(nothing, a, b, 0, 1), a, b, dtype)


@pytest.mark.parametrize("act", ["relu", "gelu"])
@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_activation_of_tiles(act, dtype):
    for m, k, n in ((1, 1, 1), (3, 5, 7), (29, 37, 70), (13, 1100, 33), (40, 9000, 20)):
        a, b = random((m, k), dtype), random((k, n), dtype, "columns", seed=1)
        for c in (random((n,), dtype, seed=2), random((m, n), dtype, seed=2)):
            for beta, alpha in ((1, 1), (0.5, 2), (0, -1)):
                result = products.accumulate_activated(c, a, b, beta, alpha, act)
                expected = reference.accumulate_activated(c, a, b, beta, alpha, act)
                assert result.dtype == dtype
                bound = 4 * k * np.finfo(dtype).eps * (np.abs(a) @ np.abs(b) + np.abs(c) + 1)
                assert (np.abs(result - expected) <= bound).all()
    a[0, 0] = np.nan
    result = products.accumulate_activated(c, a, b, 1, 1, act)
    assert np.isnan(result[0]).all()
    assert not np.isnan(result[1:]).any()


@given(st.integers(1, 300), st.sampled_from(DTYPES))
def test_outer(n, dtype):
    a, b = random((n,), dtype), random((70,), dtype, seed=1)
    with np.errstate(all="ignore"):
        assert (products.outer(a, b) == (a[:, None] * b)).all()
        assert (products.outer(a[::-1], b[::2]) == (a[::-1, None] * b[::2])).all()
    assert products.outer(guarded(a, "after"), guarded(b, "after")).dtype == dtype


@given(st.integers(1, 300), st.sampled_from(DTYPES))
def test_dot(n, dtype):
    a, b = random((n,), dtype), random((n,), dtype, seed=1)
    close(np.asarray(products.dot(a, b)), a, b, dtype)
    a, b = guarded(a, "after"), guarded(b, "before")
    close(np.asarray(products.dot(a, b)), a, b, dtype)
    assert products.dot(a, b[::-1]) == pytest.approx(products.matmul(a, b[::-1].copy()), rel=1e-2)


@pytest.mark.parametrize("dtype", DTYPES[:2])
def test_adjoints(dtype):
    a, b = random((3, 40, 50), dtype), random((3, 60, 50), dtype, seed=1)
    close(products.times_adjoint(a, b), a, np.swapaxes(b, -1, -2), dtype)
    a, b = random((50, 40), dtype), random((50, 60), dtype, seed=1)
    close(products.adjoint_times(a, b), a.T, b, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layouts", [("rows", "rows"), ("rows", "columns"), ("columns", "rows")])
def test_nan_and_infinity_stay_where_they_belong(dtype, layouts):
    """What is computed for rows and columns that do not exist must not come into sight."""
    a, b = (
        random((29, 37), dtype, layouts[0]).copy("K"),
        random((37, 43), dtype, layouts[1]).copy("K"),
    )
    a[3, 5], a[28, 36], b[36, 42], b[0, 17] = np.nan, np.inf, np.inf, np.nan
    with np.errstate(all="ignore"):
        expected = a.astype(np.float64) @ b.astype(np.float64)
    result = products.matmul(a, b).astype(np.float64)
    assert (np.isnan(result) == np.isnan(expected)).all()
    assert (np.isinf(result) == np.isinf(expected)).all()
    assert np.isnan(expected).sum() < expected.size / 4


@pytest.mark.parametrize("side", ["before", "after"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_no_access_outside_of_the_arrays(side, dtype):
    shapes = ((1, 1, 1), (1, 5, 33), (13, 17, 31), (24, 520, 8), (37, 16, 65), (5, 3, 1))
    for m, k, n in (*shapes, (14, 20, 50), (9, 7, 40), (30, 530, 36), (16, 16, 16), (65, 20, 65)):
        for first in LAYOUTS[:2]:
            for second in LAYOUTS[:2]:
                a, b = random((m, k), dtype, seed=1), random((k, n), dtype, seed=2)
                a = guarded(a, side) if first == "rows" else guarded(a.T.copy(), side).T
                b = guarded(b, side) if second == "rows" else guarded(b.T.copy(), side).T
                row = guarded(random((n,), dtype, seed=3), side)
                close(products.matmul(a, b), a, b, dtype)
                close(products.linear(a, b.T, row), a, b, dtype, row)


def test_same_bits_for_any_number_of_threads():
    before = torch.get_num_threads()
    try:
        results = []
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            made = []
            for m, k, n in ((300, 700, 200), (64, 9000, 48), (1000, 30, 33), (2, 3000, 500)):
                a, b = random((m, k), "f4"), random((k, n), "f4", seed=1)
                made += [products.matmul(a, b), products.matmul(a, b.T.copy().T)]
                made += [products.adjoint_times(a.T.copy(), b)]
            long = random((300_001,), "f4")
            made += [np.asarray(products.dot(long, long[::-1].copy()))]
            made.append(products.matmul(random((20, 40, 50), "f8"), random((20, 50, 30), "f8")))
            w, row = random((900, 300), "f4"), random((900,), "f4")
            made.append(products.linear(random((3, 300), "f4"), w, row))
            results.append(made)
        for others in results[1:]:
            for one, other in zip(results[0], others, strict=True):
                assert one.tobytes() == other.tobytes()
    finally:
        torch.set_num_threads(before)


def test_same_bits_wherever_an_element_stands():
    """Tiles overlap at the right edge: what they compute twice is stored once."""
    a, b = random((30, 600), "f4"), random((600, 100), "f4", seed=1)
    whole = products.matmul(a, b)
    for n in (33, 40, 48, 50, 65, 90, 99):
        assert (products.matmul(a, b[:, :n]) == whole[:, :n]).all()
        c = np.ones((30, n), "f4")
        ones = products.accumulate(c, a, b[:, :n].copy(), 1, 1)
        assert np.allclose(ones, whole[:, :n] + 1, atol=1e-4)
    assert (products.matmul(a[7:21], b) == whole[7:21]).all()
    for m in range(9, 30):  # whole tiles and low ones, wide and narrow
        assert (products.matmul(a[:m], b[:, 60:]) == whole[:m, 60:]).all()


@pytest.mark.parametrize("machine", [(6, 32), (4, 16), (12, 16)], ids=["AVX2", "SSE2", "NEON"])
@pytest.mark.parametrize("dtype", DTYPES[:3])
def test_tiles_of_other_machines(machine, dtype, monkeypatch):
    def sizes(T):
        return {"T": T, "MR": machine[0], "V": 2, "L": machine[1] // T.size}

    monkeypatch.setattr(product_sizes, "gemm_sizes", sizes)
    compiled = product_table.Compiled()
    for module in (products, product_table):
        monkeypatch.setattr(module, "COMPILED", compiled)
    for m, k, n in ((1, 40, 70), (3, 90, 29), (8, 70, 21), (23, 515, 41), (50, 9000, 33)):
        for first in LAYOUTS[:3]:
            for second in LAYOUTS[:3]:
                a, b = random((m, k), dtype, first), random((k, n), dtype, second, 1)
                close(products.matmul(a, b), a, b, dtype)
                close(products.matmul(b.T, a.T), b.T, a.T, dtype)


def test_what_does_not_fit_is_the_reference_s():
    whole = np.arange(6).reshape(2, 3)
    assert (products.matmul(whole, whole.T) == reference.matmul(whole, whole.T)).all()
    f = np.ones((2, 3), "f4")
    assert products.matmul(f, np.ones(3, "f4")).shape == (2,)
    assert products.matmul(np.ones((0, 3), "f4"), f.T).shape == (0, 2)
    assert (products.matmul(np.ones((2, 0), "f4"), np.ones((0, 3), "f4")) == 0).all()
    assert products.matmul(np.ones((0, 2, 3), "f4"), f.T).shape == (0, 2, 2)
    for call in (
        lambda: products.matmul(f, f),
        lambda: products.matmul(f, f.T.astype("f8")),
        lambda: products.matmul(np.ones((2, 2, 3), "f4"), np.ones((3, 3, 2), "f4")),
        lambda: products.mm(f, np.ones(3, "f4")),
        lambda: products.bmm(f, f),
        lambda: products.linear(f, np.ones((2, 2), "f4"), None),
        lambda: products.linear(f, f, np.ones(5, "f4")),
        lambda: products.linear(f, f, np.ones(2, "f8")),
        lambda: products.accumulate(np.ones((3, 3), "f4"), f, f.T, 1, 1),
        lambda: products.accumulate(np.ones((3, 3), "f4"), f, f.T, 0, 1),
    ):
        with pytest.raises(RuntimeError):
            call()


@pytest.fixture
def of_default_sizes(monkeypatch):
    """Sizes from which candidates pay, whatever the environment says."""
    monkeypatch.setattr(products, "SMALL", 4096)
    for name, value in {"LITTLE": 4096, "THIN_SUMS": 16, "DIRECT": 32**3}.items():
        monkeypatch.setattr(product_table, name, value)


@pytest.mark.parametrize(
    ("a", "b", "dtype", "name"),
    [
        ((64, 64), (64, 64), "f4", "gemm"),
        ((300, 400), (400, 200), "f8", "gemm"),
        ((2, 30, 40), (2, 40, 50), "f4", "gemm"),
        ((6, 100), (100, 3000), "f4", "gemm"),  # several rows, and the matrix is row-major
        ((1, 300), (300, 200), "f4", "gemv"),
        ((200, 300), (300, 3), "f4", "gemv"),
        ((5, 3, 300), (5, 300, 200), "f4", "gemv"),
        ((64, 9000), (9000, 64), "f4", "gemm_split_k"),
        ((300, 400), (400, 200), "f2", "gemm_in_float32"),
        ((20, 20), (20, 20), "f2", "gemm_of_halves"),
        ((4, 8), (8, 8), "f4", None),  # small: the reference
        ((64, 64), (64, 64), "c8", None),
    ],
)
def test_what_is_chosen(a, b, dtype, name, of_default_sizes):
    a, b = (np.ones(shape, dtype) for shape in (a, b))
    with candidates.recording() as choices:
        products.matmul(a, b)
    assert list(choices.values())[:1] == [name] * (name is not None)


def test_bfloat16_is_multiplied_in_pairs_where_the_processor_can(of_default_sizes):
    a = random((300, 400), dtypes.bfloat16.np)
    with candidates.recording() as choices:
        products.matmul(a, a.T)
        products.matmul(
            a[:, 1:], a[:, 1:].T
        )  # the last of an odd number of products is paired with 0
    in_pairs = product_sizes.pairs() or product_sizes.tiles()
    wanted = "gemm_of_bfloat16_pairs" if in_pairs else "gemm_in_float32"
    assert [c for c in choices.values() if c != "gemm"] == [wanted, wanted]


@pytest.mark.parametrize("k", [67, 68])
def test_pairs_of_bfloat16_in_any_order(k, of_default_sizes):
    dtype = dtypes.bfloat16.np
    a, b = (random((3, n, k + 2), dtype) for n in (40, 70))
    for x in (a[..., 1:-1], a[..., 2:], a[..., :-2].swapaxes(1, 2).copy().swapaxes(1, 2)):
        for y in (b[..., :-2], b[..., 2:].swapaxes(1, 2).copy().swapaxes(1, 2)):
            found = products.bmm(x, y.swapaxes(1, 2))
            expected = x.astype("f8") @ y.swapaxes(1, 2).astype("f8")
            assert np.allclose(found.astype("f8"), expected, 2**-8, 1e-3)


def test_weights_of_layers_are_read_along_their_rows(of_default_sizes):
    x, w = random((6, 100), "f4"), random((3000, 100), "f4")
    with candidates.recording() as choices:
        products.linear(x, w, w[:, 0].copy())
        products.accumulate(w[:64, :64], w[:64], w[:64].T, 1, 1)
    assert list(choices.values()) == ["gemv"]


@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
@pytest.mark.parametrize(
    ("shape", "wide"),
    [
        ((600, 1024), 40), ((600, 1000), 40), ((600, 512), 130), ((600, 1024), 1040), ((100, 1024), 40),
        ((1100, 211), 33), ((3000, 301), 50),
    ],
)  # fmt: skip
def test_gradients_of_wide_layers_have_the_same_sums(shape, wide, dtype, of_default_sizes):
    """Rows of the first factor that are packed, as its numbers lie pages apart, and others."""
    g, x = ((random(s, "f4") * 9).astype(dtype) for s in (shape, (shape[0], wide)))
    rows = np.ascontiguousarray(g.T)
    found = products.matmul(g.T, x)
    assert found.flags.c_contiguous
    np.testing.assert_array_equal(found, products.matmul(rows, x))
    more = [products.accumulate(found, a, x, 1, 1) for a in (g.T, rows)]
    np.testing.assert_array_equal(*more)
    assert (more[0] != found).any()


TRANSPOSED = [
    (lead, dtype, act)
    for lead, dtype, act in itertools.product([(), (2,)], ["f4", "f8", "i8"], ["", "relu", "gelu"])
    if not act or (dtype != "i8" and not lead)  # activations are for matrices of floating point
]


@pytest.mark.parametrize(("lead", "dtype", "act"), TRANSPOSED)
@pytest.mark.parametrize(
    ("m", "k", "n"), [(9, 700, 130), (12, 128, 256), (33, 1030, 70), (64, 301, 260)]
)
def test_products_by_transposes_have_the_same_bits(m, k, n, lead, dtype, act, of_default_sizes):
    """Few rows with a large matrix whose columns are contiguous, with a row that is added and without."""
    x, w, row = ((random(s, "f4") * 9).astype(dtype) for s in ((m, k), (*lead, n, k), (n,)))
    columns, shape = w.swapaxes(-1, -2), (*lead, m, n)
    rows = np.ascontiguousarray(columns)
    for added in (None, row):
        results = []
        for b, name in ((columns, "gemm_transposed"), (rows, "gemm")):
            with candidates.recording() as choices:
                results.append(product_table.product(x, b, shape, added, act=act, alone=not act))
            assert list(choices.values()) == [name]
        assert results[0].flags.c_contiguous
        np.testing.assert_array_equal(*results)


@pytest.mark.parametrize(
    ("m", "k", "n"),
    [(64, 127, 3000), (65, 700, 300), (64, 2000, 127), (20, 128, 255), (20, 16, 9000)],
)
def test_short_sums_many_rows_and_small_matrices_are_not_transposed(m, k, n, of_default_sizes):
    with candidates.recording() as choices:
        product_table.plain(random((m, k), "f4"), random((n, k), "f4").T)
    assert list(choices.values()) == ["gemm"]


def test_all_candidates_stand_in_the_table():
    names = [c.name for c in product_table.TABLE]
    assert len(set(names)) == len(names)
    assert len(names) == len(product_table.ProductCandidate.__subclasses__())
    assert names[-1] == "gemm"  # takes what is left


def test_explain_names_the_choice(capsys, of_default_sizes):
    torch.compiler.explain(torch.mm, torch.ones(64, 64), torch.ones(64, 64), show="")
    assert capsys.readouterr().out.startswith("product of (64, 64) with (64, 64), float32: gemm\n")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_products_of_a_few_elements(dtype):
    """By a native entry: every layout, and shapes on either side of what it takes."""
    native_entry.use(True)
    rng = np.random.default_rng(5)
    shapes = [
        ((4, 4), (4, 4)), ((4, 4), (4,)), ((4,), (4, 3)), ((2, 3, 4), (2, 4, 3)), ((5,), (5,)), ((1, 40), (40, 33)),
        ((17, 19), (19, 3)), ((3, 1), (1, 5)), ((1, 1000), (1000, 2)), ((1, 1, 1), (1, 1, 1)), ((3, 4), (2, 4, 3)),
        ((2, 3, 4), (4, 5)), ((2, 3, 4), (4,)), ((3, 0), (0, 2)),
    ]  # fmt: skip
    entry = products.entries()[np.dtype(dtype)]
    taken = 0
    for left, right in shapes:
        a, b = (rng.standard_normal(s).astype(dtype) for s in (left, right))
        want = np.matmul(a, b)
        layouts = [
            [x, np.asfortranarray(x), np.repeat(x, 2, -1)[..., ::2], x[..., ::-1].copy()[..., ::-1]]
            for x in (a, b)
        ]
        for x, y in itertools.product(*layouts):
            got = entry(x, y)
            taken += got is not None
            for r in (products.matmul(x, y), want if got is None else got):
                assert r.shape == want.shape and r.dtype == dtype and r.flags.c_contiguous
                np.testing.assert_allclose(r, want, rtol=1e-5, atol=1e-5)
            if x.ndim == y.ndim == 2:
                bias = rng.standard_normal(y.shape[1]).astype(dtype)
                r = products.linear(x, y.T, bias)
                np.testing.assert_allclose(r, want + bias, rtol=1e-5, atol=1e-5)
    assert taken > 100
    a = np.ones((3, 4), dtype)
    wrong = [
        a, a[:0].T, np.ones((4, 3), np.float16), np.ones((2, 3, 4), dtype), np.float32(1), np.ones((), dtype),
        np.ones((2, 2, 4, 3), dtype), np.ones((300, 4), dtype).T, None, 1.0,
    ]  # fmt: skip
    assert all(entry(a, b) is None for b in wrong)
    with pytest.raises(Exception, match="must be a matrix"):
        torch.mm(torch.ones(2, 3, 4), torch.ones(2, 4, 3))
    assert dtype_entry.function_behind(products.linear)(a, a, a[0, :3]).tolist() == [[5.0] * 3] * 3


@pytest.mark.parametrize(
    "dtype", [*DTYPES, np.dtype(np.int64), np.dtype(np.int8), np.dtype(np.uint8)]
)
def test_sums_with_products_of_a_few_elements(dtype):
    """By a native entry: products of small whole numbers, which are exact in every dtype."""
    native_entry.use(True)
    rng = np.random.default_rng(6)
    entry = products.small_accumulate(dtype)
    shapes = [
        ((3, 5), (3, 4), (4, 5)), ((5,), (3, 4), (4, 5)), ((3, 1), (3, 4), (4, 5)), ((), (3, 4), (4, 5)),
        ((20, 18), (20, 3), (3, 18)), ((7,), (7, 2), (2,)), ((1,), (7, 2), (2,)), ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
        ((3, 1), (2, 3, 4), (2, 4, 5)), ((2, 1, 1), (2, 3, 4), (2, 4, 5)), ((3, 2), (3, 0), (0, 2)),
    ]  # fmt: skip
    for (beta, alpha), three in itertools.product([(1, 1), (2, 3), (0, 1)], shapes):
        arrays = [rng.integers(0, 3, s).astype(dtype) for s in three]
        want = np.asarray(
            beta * arrays[0].astype(int) + alpha * (arrays[1].astype(int) @ arrays[2].astype(int))
        )
        for layouts in itertools.product(*[[x, np.asfortranarray(x)] for x in arrays]):
            got = entry(*layouts, beta, alpha)
            assert got.dtype == dtype and got.shape == want.shape
            assert (got.astype(int) == want).all()
    x, a = (
        np.full((2, 2), np.nan if dtype.kind != "i" and dtype.kind != "u" else 1).astype(dtype),
        np.ones((2, 2), dtype),
    )
    assert (entry(x, a, a, 0, 1).astype(int) == 2).all()  # what is multiplied by 0 is not read
    for wrong in [
        (x[:1, :0], a, a, 1, 1),
        (x[None], a, a, 1, 1),
        (np.ones(3, dtype), a, a, 1, 1),
        (x, a, a[:1], 1, 1),
    ]:
        assert entry(*wrong) is None
    if dtype.kind in "iu":
        assert entry(x, a, a, 0.5, 1) is None
        assert dtype.itemsize == 8 or entry(x, a, a, 300, 1) is None
    else:
        assert (entry(a, a, a, 0.5, True) is None) and entry(a, a, a, 0.5, 0.25).tolist() == [
            [1.0] * 2
        ] * 2
