"""Attention in machine code against the reference in float64."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from guard import guarded

pytest.importorskip("llvmlite")

from rushlight._backends.llvm import attention as compiled
from rushlight._backends.reference import attention as reference

RNG = np.random.default_rng(0)


def normal(*shape):
    return RNG.standard_normal(shape, np.float32)


def wide(a):
    return None if a is None else a.astype(np.float64)


def compare(q, k, v, g, mask=None, causal=False, scale=0.3):
    out, kept = compiled.attention(q, k, v, mask, causal, scale, True)
    assert kept.ndim == 3 and out.dtype == np.float32
    given = [wide(a) for a in (q, k, v, mask)]
    wanted, weights = reference.attention(*given, causal, scale, True)
    np.testing.assert_allclose(out, wanted, rtol=1e-5, atol=1e-5)
    needs = (True, True, True, False)
    got = compiled.attention_gradients(g, q, k, v, mask, causal, out, kept, scale, needs)
    want = reference.attention_gradients(
        wide(g), *given, causal, wanted, weights, scale, (True, True, True, False)
    )
    for a, b in zip(got[:3], want[:3], strict=True):
        assert a.dtype == np.float32
        # One query that sees one key has a gradient of 0: what is left are roundings of g @ v, here of
        # 64 products up to 10, which with vectors of 8 lanes are summed in another order than with 16.
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=4e-6 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "n, heads, length, s, width, values",
    [
        (1, 1, 1, 1, 1, 1), (1, 2, 3, 5, 4, 7), (2, 2, 1, 300, 64, 40), (1, 2, 2, 270, 20, 8), (2, 3, 50, 70, 64, 64), (1, 2, 300, 600, 64, 40),
        (2, 2, 13, 500, 16, 128), (1, 1, 97, 97, 33, 17), (1, 1, 700, 130, 8, 32),
    ],
)  # fmt: skip
def test_shapes_and_masks(n, heads, length, s, width, values, causal):
    q, k, v = (
        normal(n, heads, length, width),
        normal(n, heads, s, width),
        normal(n, heads, s, values),
    )
    g = normal(n, heads, length, values)
    hidden = np.where(RNG.random((n, 1, 1, s)) < 0.3, -np.inf, 0).astype(np.float32)
    blind = np.where(RNG.random((n, heads, length, 1)) < 0.3, -np.inf, 0).astype(np.float32)
    for mask in (None, normal(1, 1, length, s), normal(n, heads, length, s), hidden, blind):
        compare(q, k, v, g, mask, causal)


def test_strides():
    def heads_last(n, length, heads, width):
        return normal(n, length, heads, width).transpose(0, 2, 1, 3)

    q, k, v, g = (heads_last(2, 60, 3, 24) for _ in range(4))
    compare(q, k, v, g, causal=True)
    out, _ = compiled.attention(q, k, v, None, True, 1.0, False)
    assert out.strides == q.strides
    compare(q, k[:, :, ::-1], v[..., ::-1], np.broadcast_to(g[:1, :1], g.shape))
    shared = np.broadcast_to(k[:, :1], k.shape)
    compare(q[:, :, ::2], shared, shared, g[:, :, ::2], normal(60, 30).T[None, None])


def test_nan_and_infinities():
    q, k, v = (normal(1, 1, 40, 16) for _ in range(3))
    q[0, 0, 3, 2], k[0, 0, 7, 1], v[0, 0, 9, 4] = np.nan, 3e38, np.inf
    out, _ = compiled.attention(q, k, v, None, False, 1.0, False)
    with np.errstate(all="ignore"):
        want, _ = reference.attention(q, k, v, None, False, 1.0, False)
    np.testing.assert_array_equal(np.isnan(out), np.isnan(want))
    large = 1e4 * np.ones((1, 1, 4, 4), np.float32)
    out, _ = compiled.attention(large, large, large, None, False, 1.0, False)
    np.testing.assert_allclose(out, large, rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("shared, length, s", [(1, 40, 70), (2, 1, 300), (3, 100, 9)])
def test_heads_of_the_query_share_keys_and_values(dtype, shared, length, s):
    q, k, v, g = (
        normal(2, 6, length, 20).astype(dtype),
        normal(2, 6 // shared, s, 20).astype(dtype),
        normal(2, 6 // shared, s, 30).astype(dtype),
        normal(2, 6, length, 30).astype(dtype),
    )
    results = []
    for module, repeated in ((compiled, False), (reference, False), (reference, True)):
        key, value = (np.repeat(a, shared, 1) if repeated else a for a in (k, v))
        out, kept = module.attention(q, key, value, None, True, 0.3, True)
        needs = (True, True, True, False)
        found = module.attention_gradients(g, q, key, value, None, True, out, kept, 0.3, needs)[:3]
        if repeated:
            found = (
                found[0],
                *(a.reshape(2, 6 // shared, shared, s, -1).sum(2) for a in found[1:]),
            )
        results.append((out, *found))
    close = 1e-5 if dtype is np.float32 else 1e-13
    for ours, theirs, want in zip(*results, strict=True):
        assert ours.dtype == theirs.dtype == dtype and ours.shape == want.shape
        for a in (ours, theirs):
            np.testing.assert_allclose(a, want, rtol=close, atol=close * max(1, np.abs(want).max()))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_computed_in_float32(dtype):
    from rushlight.core import dtypes

    half = getattr(dtypes, dtype).np
    q, k, v, g = (normal(1, 2, 30, 8).astype(half) for _ in range(4))
    out, kept = compiled.attention(q, k, v, None, True, 0.3, True)
    want, weights = reference.attention(q, k, v, None, True, 0.3, True)
    needs = (True, True, False, False)
    got = compiled.attention_gradients(g, q, k, v, None, True, out, kept, 0.3, needs)
    wanted = reference.attention_gradients(g, q, k, v, None, True, want, weights, 0.3, needs)
    assert out.dtype == got[0].dtype == half and kept.dtype == np.float32 and got[2] is None
    for a, b in zip((out, *got[:2]), (want, *wanted[:2]), strict=True):
        np.testing.assert_allclose(wide(a), wide(b), rtol=0.02, atol=0.02)


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("sizes", [(33, 300, 40, 24), (1, 257, 6, 33), (70, 31, 128, 128)])
def test_bfloat16_of_many_sizes(sizes, causal):
    from rushlight.core import dtypes

    length, s, width, values = sizes
    given = [normal(2, 2, *shape) for shape in ((length, width), (s, width), (s, values))]
    q, k, v = (a.swapaxes(1, 2).astype(dtypes.bfloat16.np).swapaxes(1, 2) for a in given)
    mask = None if causal else np.where(normal(2, 1, length, s) > 1, -np.inf, 0).astype("f4")
    out, kept = compiled.attention(q, k, v, mask, causal, 0.3, True)
    want, _ = reference.attention(wide(q), wide(k), wide(v), mask, causal, 0.3, True)
    assert out.dtype == q.dtype and kept.shape == out.shape[:3]
    np.testing.assert_allclose(wide(out), want, rtol=2**-7, atol=2**-7)


def test_what_is_not_taken_is_the_references():
    q = np.ones((1, 1, 3, 200), np.float32)
    assert compiled.attention(q, q, q, None, False, 1.0, True)[1].ndim == 4
    q = normal(1, 2, 3, 4)
    mask = normal(1, 1, 3, 3)
    out, kept = compiled.attention(q, q, q, mask, False, 1.0, True)
    needs = (True, True, True, True)
    got = compiled.attention_gradients(q, q, q, q, mask, False, out, kept, 1.0, needs)
    assert got[3].shape == (1, 2, 3, 3)


def test_any_number_of_threads_gives_the_same_bits():
    q, k, v, g = (normal(1, 3, 200, 32) for _ in range(4))
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            out, kept = compiled.attention(q, k, v, None, True, 0.2, True)
            needs = (True, True, True, False)
            grads = compiled.attention_gradients(g, q, k, v, None, True, out, kept, 0.2, needs)
            found.append([a.tobytes() for a in (out, kept, *grads[:3])])
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("side", ["after", "before"])
@pytest.mark.parametrize(
    "length, s, width, values",
    [(1, 1, 1, 1), (2, 61, 13, 21), (3, 61, 13, 14), (50, 61, 13, 21), (49, 257, 64, 64)],
)
def test_nothing_outside_of_arrays_is_touched(length, s, width, values, side):
    q, k, v, g, mask = (
        guarded(normal(1, 1, *shape), side)
        for shape in ((length, width), (s, width), (s, values), (length, values), (length, s))
    )
    for m in (None, mask):
        compare(q, k, v, g, m, True)
        compare(q, k, v, g, m, False)
