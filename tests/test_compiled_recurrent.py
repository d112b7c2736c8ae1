"""Recurrent layers in machine code against the reference in float64."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from guard import guarded
from rushlight.core import dtypes

pytest.importorskip("llvmlite")

from rushlight._backends.llvm import recurrent as compiled
from rushlight._backends.reference import recurrent as reference

RNG = np.random.default_rng(0)
KINDS = {"lstm": 4, "gru": 3, "tanh": 1, "relu": 1}
# steps, rows, features, units: of one and of several blocks, tiles, groups of rows and steps
SHAPES = [
    (1, 1, 1, 1), (3, 2, 7, 5), (4, 7, 3, 16), (5, 13, 20, 40), (2, 100, 5, 33), (3, 32, 17, 64),
    (2, 5, 33, 100), (1, 4, 7, 40), (1, 7, 9, 33), (1, 1, 300, 70), (60, 1, 4, 20), (30, 3, 9, 18), (1, 9, 130, 32),
]  # fmt: skip
SIZES = [[3, 2, 2, 1], [7], [9], [13, 13, 12, 5, 5, 1], [50, 50, 20], [1, 1, 1], [9] * 12 + [4] * 3]


def normal(*shape):
    return RNG.standard_normal(shape, np.float32)


def wide(arrays):
    return [None if a is None else a.astype(np.float64) for a in arrays]


def layer(kind, steps, n, features, size, sizes=None, biases=(True, True), scale=0.3):
    """The arrays of a layer."""
    rows = KINDS[kind] * size
    x = normal(steps, n, features) if sizes is None else normal(sum(sizes), features)
    scale = min(scale, size**-0.5) if kind == "relu" else scale
    return [
        x, normal(rows, features) * scale, normal(rows, size) * scale,
        *(normal(rows) if given else None for given in biases),
        normal(n, size), normal(n, size) if kind == "lstm" else None,
    ]  # fmt: skip


def close(got, want, rtol=1e-4, atol=3e-6):
    for a, b in zip(got, want, strict=True):
        if b is None:
            assert a is None
        else:
            most = max(1, np.abs(b).max(initial=0))
            np.testing.assert_allclose(a, b, rtol=rtol, atol=atol * most)


def both_ways(given, kind, sizes, reverse, dtype=np.float32):
    """Forward and backward of machine code and of the reference in float64."""
    given = [None if a is None else a.astype(dtype) for a in given]
    rest = kind, sizes, reverse
    got = compiled.recurrent_layer(*given, *rest, True)
    want = reference.recurrent_layer(*wide(given), *rest, True)
    x, w_ih, w_hh, _, _, h, c = given
    g = [normal(*got[0].shape), normal(*h.shape), None if c is None else normal(*h.shape)]
    g = [None if a is None else a.astype(dtype) for a in g]
    y, *kept = want[0], *want[3:]
    if kind == "relu":
        y = got[0].astype(np.float64)  # the same zeros of relu
    inputs = (x, w_ih, w_hh, h, c)
    needs = (True, True)
    found = compiled.recurrent_layer_gradients(*g, *inputs, got[0], *got[3:], *rest, *needs)
    wanted = reference.recurrent_layer_gradients(*wide(g), *wide(inputs), y, *kept, *rest, *needs)
    fewer = compiled.recurrent_layer_gradients(*g, *inputs, got[0], *got[3:], *rest, False, False)
    assert fewer[0] is None is fewer[5]
    for a, b in zip(fewer, found, strict=True):
        assert a is None or a.tobytes() == b.tobytes()
    assert got[3].ndim == 1  # machine code's
    return got, want, found, wanted


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_layer(kind, shape, reverse):
    given = layer(kind, *shape)
    got, want, found, wanted = both_ways(given, kind, None, reverse)
    outputs = 3 if kind == "lstm" else 2
    close(got[:outputs], want[:outputs])
    close(found, wanted)
    assert all(a is None or a.dtype == np.float32 for a in (*got[:2], *found))
    alone = compiled.recurrent_layer(*given, kind, None, reverse, False)
    for a, b in zip(got[:outputs], alone, strict=False):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("sizes", SIZES)
def test_packed_layer(kind, sizes, reverse):
    given = layer(kind, len(sizes), sizes[0], 7, 37, sizes)
    got, want, found, wanted = both_ways(given, kind, sizes, reverse)
    outputs = 3 if kind == "lstm" else 2
    close(got[:outputs], want[:outputs])
    close(found, wanted)


@pytest.mark.parametrize("kind", KINDS)
def test_biases_may_be_missing(kind):
    for biases in ((True, False), (False, True), (False, False)):
        got, want, found, wanted = both_ways(
            layer(kind, 3, 4, 5, 6, biases=biases), kind, None, False
        )
        close(got[:2], want[:2])
        close(found, wanted)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reverse", [False, True])
def test_float64(kind, reverse):
    got, want, found, wanted = both_ways(layer(kind, 4, 9, 6, 21), kind, None, reverse, np.float64)
    close(got[:2], want[:2], 1e-12, 1e-13)
    close(found, wanted, 1e-11, 1e-13)
    assert found[0].dtype == np.float64


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.dtype(np.float16), dtypes.bfloat16.np])
def test_halves_are_rounded_at_the_end(kind, dtype):
    given = [None if a is None else a.astype(dtype) for a in layer(kind, 4, 9, 6, 21)]
    single = [None if a is None else a.astype(np.float32) for a in given]
    got, want = (compiled.recurrent_layer(*a, kind, None, False, True) for a in (given, single))
    np.testing.assert_array_equal(got[0], want[0].astype(dtype))
    x, w_ih, w_hh, _, _, h, c = given
    g = (got[0], h, c)
    found = compiled.recurrent_layer_gradients(
        *g, x, w_ih, w_hh, h, c, got[0], *got[3:], kind, None, False, True, True
    )
    x, w_ih, w_hh, _, _, h, c = single
    g = (got[0].astype(np.float32), h, c)
    wanted = compiled.recurrent_layer_gradients(
        *g, x, w_ih, w_hh, h, c, want[0], *want[3:], kind, None, False, True, True
    )
    for a, b in zip(found, wanted, strict=True):
        if b is not None:
            np.testing.assert_array_equal(a, b.astype(dtype))


@pytest.mark.parametrize("kind", KINDS)
def test_strides(kind):
    x, w_ih, w_hh, b_ih, b_hh, h, c = layer(kind, 5, 6, 12, 20)
    want = compiled.recurrent_layer(x, w_ih, w_hh, b_ih, b_hh, h, c, kind, None, False, True)
    batch_first = np.ascontiguousarray(x.transpose(1, 0, 2)).transpose(1, 0, 2)
    apart = np.zeros((5, 6, 30), np.float32)
    apart[:, :, 3:15] = x
    slow = [None if a is None else np.asfortranarray(a) for a in (h, c)]
    for like in (batch_first, apart[:, :, 3:15], np.asfortranarray(x)):
        got = compiled.recurrent_layer(
            like, np.asfortranarray(w_ih), w_hh.T.copy().T, b_ih[::-1].copy()[::-1],
            np.repeat(b_hh, 2)[::2], *slow, kind, None, False, True,
        )  # fmt: skip
        for a, b in zip(got[:2], want[:2], strict=True):
            np.testing.assert_array_equal(a, b)
    g = normal(5, 6, 20)
    inputs = (x, w_ih, w_hh, h, c)
    rest = (want[0], *want[3:], kind, None, False, True, True)
    wanted = compiled.recurrent_layer_gradients(g, h, c, *inputs, *rest)
    for like in (
        g.transpose(1, 0, 2).copy().transpose(1, 0, 2), np.asfortranarray(g), np.repeat(g, 2, 2)[:, :, ::2],
    ):  # fmt: skip
        found = compiled.recurrent_layer_gradients(like, h, c, *inputs, *rest)
        for a, b in zip(found, wanted, strict=True):
            assert b is None or a.tobytes() == b.tobytes()
    one = np.broadcast_to(np.float32(1), g.shape)
    found = compiled.recurrent_layer_gradients(one, h, c, *inputs, *rest)
    wanted = compiled.recurrent_layer_gradients(one.copy(), h, c, *inputs, *rest)
    assert found[0].tobytes() == wanted[0].tobytes()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes(kind, dtype):
    given = layer(kind, 3, 6, 8, 20)
    given = [None if a is None else a.astype(dtype) for a in given]
    x, w_ih = given[:2]
    w_ih[:] = 0
    for gate in range(KINDS[kind]):
        w_ih[gate * 20 : gate * 20 + 8] = np.eye(8)
    x[0, 0] = [np.nan, np.inf, -np.inf, 1e30, -1e30, 88, -88, 200]
    x[1, 1] = [-104, 104, -710, 710, -0.0, 0, 87, -87]
    with np.errstate(all="ignore"):
        want = reference.recurrent_layer(*wide(given), kind, None, False, True)
    got = compiled.recurrent_layer(*given, kind, None, False, True)
    outputs = 3 if kind == "lstm" else 2
    for a, b in zip(got[:outputs], want[:outputs], strict=True):
        np.testing.assert_allclose(a, b.astype(dtype), rtol=1e-4, atol=1e-5)
    given[0] = np.where(np.abs(x) < 1e6, x, 0).astype(dtype)
    got, want, found, wanted = both_ways(given, kind, None, False, dtype)
    close(found, wanted, 1e-3, 1e-5)


@pytest.mark.parametrize("kind", ["lstm", "gru", "tanh"])
def test_small_numbers_keep_their_relative_error(kind):
    x, w_ih, w_hh, b_ih, b_hh, h, c = layer(kind, 3, 4, 5, 6)
    given = [x * 1e-6, w_ih, w_hh, b_ih * 0, b_hh * 0, h * 1e-6, None if c is None else c * 1e-6]
    given = [None if a is None else a.astype(np.float32) for a in given]
    got = compiled.recurrent_layer(*given, kind, None, False, False)
    want = reference.recurrent_layer(*wide(given), kind, None, False, False)
    least = np.median(np.abs(want[0]))
    np.testing.assert_allclose(got[0], want[0], rtol=3e-6, atol=1e-6 * least)


def test_what_is_not_taken_is_the_references():
    given = layer("lstm", 2, 3, 4, 5)
    mixed = [given[0].astype(np.float64), *given[1:]]
    got = compiled.recurrent_layer(*mixed, "lstm", None, False, True)
    assert got[0].dtype == np.float64
    assert got[3].ndim == 2  # the reference's
    x, w_ih, w_hh, _, _, h, c = given
    kept = reference.recurrent_layer(*given, "lstm", None, False, True)
    g = (kept[0], h, c)
    rest = (kept[0], *kept[3:], "lstm", None, False, True, True)
    found = compiled.recurrent_layer_gradients(*g, x, w_ih, w_hh, h, c, *rest)
    wanted = reference.recurrent_layer_gradients(*g, x, w_ih, w_hh, h, c, *rest)
    close(found, wanted, 0, 0)


@pytest.mark.parametrize("sizes", [[2, 3, 1], [4, 2], [3, 0, 3], [3], [3, 4], [3, 3, 1], [7, -1]])
def test_steps_that_are_not_those_of_a_packed_batch(sizes):
    weights = [torch.randn(8, 4), torch.randn(8, 2)]
    h = torch.zeros(1, 3, 2)
    with pytest.raises((RuntimeError, IndexError)):
        torch.lstm(
            torch.randn(6, 4), torch.tensor(sizes), (h, h), weights, False, 1, 0.0, False, False
        )  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape", [(4, 64, 30, 300), (20, 8, 64, 64), (3, 130, 20, 90), (3, 6, 40, 500), (2, 3, 9, 7)]
)
def test_any_number_of_threads_gives_the_same_bits(kind, shape):
    """Of all ways to share the work: rows, blocks of each step, and none."""
    given = layer(kind, *shape, scale=0.05)
    x, w_ih, w_hh, _, _, h, c = given
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            got = compiled.recurrent_layer(*given, kind, None, False, True)
            torch.set_num_threads(before)  # also that backward need not have as many
            for _ in range(2):
                grads = compiled.recurrent_layer_gradients(
                    got[0],
                    h,
                    c,
                    x,
                    w_ih,
                    w_hh,
                    h,
                    c,
                    got[0],
                    *got[3:],
                    kind,
                    None,
                    False,
                    True,
                    True,
                )
                torch.set_num_threads(threads)
            found.append([a.tobytes() for a in (*got[:3], *grads) if a is not None])
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("side", ["after", "before"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape",
    [(1, 1, 1, 1), (1, 3, 9, 17), (3, 13, 5, 17), (2, 5, 16, 32), (3, 7, 18, 3), (9, 9, 3, 65)],
)
def test_nothing_outside_of_arrays_is_touched(kind, shape, side, monkeypatch):
    class Guarding:
        def __getattr__(self, name):
            return getattr(np, name)

        @staticmethod
        def empty(shape, dtype):
            return guarded(np.full(shape, np.nan, dtype), side)

        zeros = staticmethod(lambda shape, dtype: guarded(np.zeros(shape, dtype), side))

    monkeypatch.setattr(compiled, "np", Guarding())
    for sizes in (None, [shape[1]] * (shape[0] - 1) + [max(1, shape[1] // 2)]):
        for reverse in (False, True):
            given = [None if a is None else guarded(a, side) for a in layer(kind, *shape, sizes)]
            x, w_ih, w_hh, _, _, h, c = given
            got = compiled.recurrent_layer(*given, kind, sizes, reverse, True)
            found = compiled.recurrent_layer_gradients(
                got[0],
                h,
                c,
                x,
                w_ih,
                w_hh,
                h,
                c,
                got[0],
                *got[3:],
                kind,
                sizes,
                reverse,
                True,
                True,
            )
            for a in (*got[:2], *found):  # no memory that nobody wrote comes out
                assert a is None or not np.isnan(a).any()
