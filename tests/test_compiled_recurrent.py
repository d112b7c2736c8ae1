"""Recurrent layers in machine code against the reference in float64."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight as torch
from guard import guarded

pytest.importorskip("llvmlite")

from rushlight.backends import compiled_recurrent as compiled
from rushlight.backends import numpy_recurrent as reference

RNG = np.random.default_rng(0)
SHAPES = [(1, 1, 1), (3, 2, 5), (4, 7, 16), (5, 13, 40), (2, 100, 33), (3, 32, 64), (2, 5, 100)]


def normal(*shape):
    return RNG.standard_normal(shape, np.float32)


def wide(arrays):
    return [a.astype(np.float64) for a in arrays]


def lstm(steps, n, size):
    given = [normal(steps, n, 4 * size), normal(n, size), normal(n, size)]
    return [*given, normal(4 * size, size) / 3]


def close(got, want):
    for a, b in zip(got, want, strict=True):
        assert a.dtype == np.float32
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=3e-6 * max(1, np.abs(b).max()))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps, n, size", SHAPES)
def test_lstm(steps, n, size, reverse):
    given = lstm(steps, n, size)
    got = compiled.lstm_layer(*given, reverse, True)
    want = reference.lstm_layer(*wide(given), reverse, True)
    close(got, want)
    for a, b in zip(got[:3], compiled.lstm_layer(*given, reverse, False)[:3], strict=True):
        np.testing.assert_array_equal(a, b)
    g = [normal(steps, n, size), normal(n, size), normal(n, size)]
    found = compiled.lstm_layer_gradients(*g, got[0], given[1], given[3], *got[3:], reverse)
    wanted = reference.lstm_layer_gradients(
        *wide(g), want[0], *wide([given[1], given[3]]), *want[3:], reverse
    )
    close(found, wanted)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps, n, size", SHAPES)
def test_gru(steps, n, size, reverse):
    gates, h, w = normal(steps, n, 3 * size), normal(n, size), normal(3 * size, size) / 3
    for bias in (normal(3 * size), None):
        got = compiled.gru_layer(gates, h, w, bias, reverse, True)
        more = [None] if bias is None else wide([bias])
        want = reference.gru_layer(*wide([gates, h, w]), *more, reverse, True)
        close(got, want)
        g = [normal(steps, n, size), normal(n, size)]
        found = compiled.gru_layer_gradients(*g, got[0], h, w, *got[2:], reverse)
        wanted = reference.gru_layer_gradients(*wide(g), want[0], *wide([h, w]), *want[2:], reverse)
        close(found, wanted)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("steps, n, size", SHAPES)
def test_rnn(steps, n, size, reverse, relu):
    given = [normal(steps, n, size), normal(n, size), normal(size, size) / 10]
    got = compiled.rnn_layer(*given, relu, reverse)
    want = reference.rnn_layer(*wide(given), relu, reverse)
    close(got, want)
    g = [normal(steps, n, size), normal(n, size)]
    found = compiled.rnn_layer_gradients(*g, got[0], *given[1:], relu, reverse)
    y = got[0].astype(np.float64)  # the same zeros of relu
    close(found, reference.rnn_layer_gradients(*wide(g), y, *wide(given[1:]), relu, reverse))


def test_strides_and_extremes():
    gates, h, c, w = lstm(3, 6, 20)
    gates[0, 0, :8] = [np.nan, np.inf, -np.inf, 1e30, -1e30, 88, -88, 200]
    gates[1, 1, ::7] = -104
    want = reference.lstm_layer(gates, h, c, w, False, True)
    slow = np.asfortranarray(gates)
    got = compiled.lstm_layer(slow, np.asfortranarray(h), c[::-1][::-1], w.T.copy().T, False, True)
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    g = np.broadcast_to(normal(1, 1, 20), (3, 6, 20))
    found = compiled.lstm_layer_gradients(g, h, c, got[0], h, w, *got[3:], False)
    wanted = reference.lstm_layer_gradients(g, h, c, want[0], h, w, *want[3:], False)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(np.isnan(a), np.isnan(b))


def test_what_is_not_taken_is_the_references():
    given = [a.astype(np.float64) for a in lstm(2, 3, 4)]
    assert compiled.lstm_layer(*given, False, False)[0].dtype == np.float64


def test_any_number_of_threads_gives_the_same_bits():
    given = lstm(4, 64, 300)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            got = compiled.lstm_layer(*given, False, True)
            grads = compiled.lstm_layer_gradients(
                got[0], *given[1:3], got[0], given[1], given[3], *got[3:], False
            )
            found.append([a.tobytes() for a in (*got, *grads)])
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("side", ["after", "before"])
@pytest.mark.parametrize("steps, n, size", [(1, 1, 1), (3, 13, 17), (2, 5, 32)])
def test_nothing_outside_of_arrays_is_touched(steps, n, size, side):
    given = [guarded(a, side) for a in lstm(steps, n, size)]
    for reverse in (False, True):
        got = [guarded(a, side) for a in compiled.lstm_layer(*given, reverse, True)]
        g = [guarded(a, side) for a in (got[0], given[1], given[2])]
        compiled.lstm_layer_gradients(*g, got[0], given[1], given[3], *got[3:], reverse)
        gates, w, bias = (
            guarded(normal(*shape), side)
            for shape in ((steps, n, 3 * size), (3 * size, size), (3 * size,))
        )
        found = compiled.gru_layer(gates, given[1], w, bias, reverse, True)
        found = [guarded(a, side) for a in found]
        compiled.gru_layer_gradients(g[0], g[1], found[0], given[1], w, *found[2:], reverse)
        one = [guarded(normal(*shape), side) for shape in ((steps, n, size), (size, size))]
        y, _ = compiled.rnn_layer(one[0], given[1], one[1], False, reverse)
        compiled.rnn_layer_gradients(g[0], g[1], guarded(y, side), given[1], one[1], False, reverse)
