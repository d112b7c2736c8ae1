"""Random numbers in machine code: the reference's bits, and its state afterwards."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from hypothesis import given, settings
from hypothesis import strategies as st

from guard import guarded
from rushlight._backends.llvm import random as compiled
from rushlight._backends.llvm import rejection as compiled_rejection
from rushlight._backends.reference import random as reference
from rushlight._backends.reference import rejection as reference_rejection
from rushlight.core import dtypes
from rushlight.rng import rejection, sampling
from rushlight.rng.generator import Generator

SIZES = (1, 15, 16, 17, 31, 33, 64, 623, 624, 625, 1247, 1248, 1249, 5000)
REALS = [np.dtype(np.float32), np.dtype(np.float64)]
FLOATING = [*REALS, np.dtype(np.float16), dtypes.bfloat16.np]
KINDS = [*FLOATING, np.dtype(bool), np.dtype(np.uint8)]
KINDS += [np.dtype(np.int16), np.dtype(np.int64)]


@pytest.fixture(autouse=True)
def of_any_size(monkeypatch):
    """Machine code for the smallest arrays too."""
    monkeypatch.setattr(compiled, "SMALL", 1)


def both(draw, skip=0):
    """What draw(back end, generator) gives, from two generators that have drawn `skip` words."""
    results = []
    for back_end in (compiled, reference):
        g = Generator().manual_seed(7)
        g.words(skip)
        result = draw(back_end, g)
        # The state is NumPy's in both cases: it reads the same.
        results.append((result.tobytes(), g.state_bytes().tobytes(), g.words(3).tolist()))
    return results


@pytest.mark.parametrize("skip", [0, 1, 623, 624])
@pytest.mark.parametrize("n", SIZES)
def test_words_are_the_references(n, skip):
    for name in ("random_words", "random_wide_words"):
        a, b = both(lambda xp, g, name=name: getattr(xp, name)(g, n), skip)
        assert a == b, name


@pytest.mark.parametrize("seed", [0, 1, 5489, 2**31, 2**32 - 1])
def test_a_seed_starts_the_references_stream(seed):
    for back_end in (compiled, reference):
        key = guarded(np.zeros(624, np.uint32))
        back_end.random_seeded(key, seed)
        expected = np.random.RandomState(seed).get_state()[1]
        np.testing.assert_array_equal(key, expected)


def filled(name, n, dtype, *args):
    def draw(back_end, g):
        out = guarded(np.zeros(n, dtype))
        getattr(back_end, name)(g, out, *args)
        return out

    return draw


@pytest.mark.parametrize("skip", [0, 1, 623])
@pytest.mark.parametrize("n", SIZES)
def test_uniform_numbers_are_the_references(n, skip):
    cases = [filled("random_floats", n, d) for d in FLOATING if d != np.float64]
    cases.append(filled("random_doubles", n, np.float64))
    for dtype in REALS:
        for low, high in ((-2.5, 3.25), (0.0, 0.1), (1.0, 1.0 + 2.0**-22), (-1e30, 1e30)):
            cases.append(filled("random_uniform", n, dtype, low, high))
    for draw in cases:
        a, b = both(draw, skip)
        assert a == b


@pytest.mark.parametrize("dtype", KINDS, ids=lambda d: d.name)
@pytest.mark.parametrize("n", SIZES)
def test_hits_are_the_references(n, dtype):
    for below in (0, 1, 1 << 52, 3 << 51, (1 << 53) - 1, 1 << 53):
        a, b = both(filled("random_bernoulli", n, dtype, below), 1)
        assert a == b
        if dtype.kind not in "biu":
            a, b = both(filled("random_bernoulli", n, dtype, below, float(dtype.type(1 / 0.9))))
            assert a == b


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", SIZES)
def test_exponential_numbers_are_the_references(n, dtype):
    a, b = both(filled("random_exponentials", n, dtype, -0.3), 1)
    assert a == b


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize(
    "rows, k, n", [(1, 1, 1), (1, 7, 40), (5, 3, 2), (300, 10, 1), (2, 5000, 9)]
)
def test_choices_are_the_references(rows, k, n, dtype):
    weights = guarded(np.random.default_rng(k).random((rows, k)).astype(dtype))
    weights[0, 0] = 1e-30
    a, b = both(lambda xp, g: xp.random_choices(g, weights, n))
    assert a == b


PARAMETERS = {
    "poisson": lambda rng, n, d: (
        rng.choice([0.0, 0.3, 4.0, 9.99, 10.0, 55.5, 1e4, 1e8, np.inf], n).astype(d),
    ),
    "binomial": lambda rng, n, d: (
        rng.choice([0.0, 1.0, 7.0, 40.0, 1000.0, 1e6, -1.0, np.inf, np.nan], n).astype(d),
        rng.choice([0.0, 1e-3, 0.2, 0.5, 0.9, 1.0, -0.1, 1.5, np.nan], n).astype(d),
    ),
    "standard_gamma": lambda rng, n, d: (
        rng.choice([0.0, 1e-4, 0.3, 1.0, 2.5, 1e5, -1.0, np.nan, np.inf], n).astype(d),
    ),
    "dirichlet": lambda rng, n, d: (rng.choice([1e-7, 0.3, 1.0, 50.0], (n, 3)).astype(d),),
}


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("n", [1, 2, 300])
@pytest.mark.parametrize("name", PARAMETERS)
def test_numbers_by_rejection_are_the_references(name, n, dtype, monkeypatch):
    given = PARAMETERS[name](np.random.default_rng(n), n, dtype)
    found = []
    for back_end in (compiled_rejection, reference_rejection):
        monkeypatch.setattr(rejection, "xp", back_end)
        g = Generator().manual_seed(7)
        sampling.normal_(np.empty(1), 0.0, 1.0, g)  # leaves a spare number
        results = [getattr(rejection, name)(*given, g).tobytes() for _ in range(3)]
        found.append((results, g.spare, g.state_bytes().tobytes(), g.words(3).tolist()))
    assert found[0] == found[1]


@pytest.mark.parametrize("dtype", REALS)
@pytest.mark.parametrize("weight", [-1.0, -0.0, 0.0, np.inf, np.nan, 1e-45])
def test_faults_of_weights_are_the_references(weight, dtype):
    for at in (0, 6, 20):
        for others in (0.0, 1.0):
            weights = guarded(np.full((3, 7), others, dtype))
            weights.reshape(-1)[at] = weight
            found = compiled.invalid_weights(weights)
            assert found == reference.invalid_weights(weights)
            assert found[0] == (not 0 <= weight < np.inf)


@pytest.mark.parametrize("skip", [0, 1, 623, 624])
@pytest.mark.parametrize("n", SIZES[1:])
def test_permutations_are_the_references(n, skip):
    a, b = both(filled("random_permutation", n, np.int64), skip)
    assert a == b


@given(
    n=st.integers(1, 1300),
    low=st.integers(-(1 << 63), (1 << 63) - (1 << 28)),
    span=st.integers(1, (1 << 28) - 1),
)
@settings(max_examples=60, deadline=None)
def test_integers_are_the_references(n, low, span):
    a, b = both(filled("random_integers", n, np.int64, low, span))
    assert a == b


@pytest.mark.parametrize("span", [1, 2, 3, 641, 65537, (1 << 27) + 1, (1 << 28) - 1])
def test_remainders_at_the_edges_of_quotients(span):
    """Many words, so that some fall just below and just above multiples of the span."""
    a, b = both(filled("random_integers", 200_000, np.int64, 0, span))
    assert a == b


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (-2.5, 0.3), (1e30, 1e30), (1.0, 0.0)])
def test_normal_numbers_are_the_references_for_every_uniform_number_of_a_sample(mean, std):
    """All 2**24 were compared once; here every 61st of them stands on both sides, with the ends."""
    some = np.append(np.arange(0, 1 << 24, 61), [1, (1 << 24) - 1]).astype(np.float32)
    some = some[: len(some) // 8 * 8] * np.float32(2.0**-24)
    pairs = np.concatenate((some.reshape(-1, 8), some[::-1].reshape(-1, 8)), axis=1).ravel()
    for n in (16, 32, 48, 16384, 16400, pairs.size):
        a, b = guarded(pairs[:n]), pairs[:n].copy()
        compiled.random_normals(a, mean, std)
        with np.errstate(all="ignore"):
            reference.random_normals(b, mean, std)
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("waiting", [None, -0.75])
@pytest.mark.parametrize("n", [0, 1, 2, 15, 624, 1249])
def test_normal_numbers_in_pairs_are_the_references(n, waiting):
    for dtype in FLOATING:
        for mean, std in ((0.0, 1.0), (-2.5, 0.3), (1e30, 1e30), (1.0, 0.0)):

            def draw(back_end, g, arguments=(n, dtype, mean, std)):
                g.spare = waiting
                return filled("random_scalar_normals", *arguments)(back_end, g)

            a, b = both(draw, 3)
            assert a == b


def test_two_threads_give_the_same_normal_numbers():
    import rushlight as torch

    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2):
            torch.set_num_threads(threads)
            g = Generator().manual_seed(3)
            u = g.floats(200_000)
            compiled.random_normals(u[:199_984], 0.0, 1.0)
            found.append(u.tobytes())
    finally:
        torch.set_num_threads(before)
    assert found[0] == found[1]


@pytest.mark.parametrize("family", ["random", "pool", "indexing", "sorting"])
def test_families_are_in_the_list(family):
    """A kernel that is not in the list is never called."""
    from importlib import import_module

    from rushlight._backends.index import LLVM

    module = import_module(f"rushlight._backends.llvm.{family}")
    reference_module = import_module(f"rushlight._backends.reference.{family}")
    shared = {
        name
        for name, f in vars(module).items()
        if getattr(f, "__module__", "") == module.__name__ and hasattr(reference_module, name)
    }
    assert {name for name in shared if LLVM.get(name) != family} <= {"placed", "sizes"}


def test_what_is_not_contiguous_is_the_references():
    out = np.zeros((100, 2), np.float32)[:, 0]
    assert not compiled.fits(out, np.float32)


@pytest.mark.parametrize("name", ["exp", "log", "log1p", "tan"])
def test_functions_of_the_c_library_are_pythons(name):
    x = guarded(np.random.default_rng(0).random(3000) + 2.0**-60)
    assert compiled.libm.each(name) is not None
    found = compiled.by_c_library(name, x)
    assert found.tobytes() == reference.by_c_library(name, x).tobytes()


@pytest.mark.parametrize(("mean", "std"), [(0.0, 1.0), (-2.5, 0.3), (1e30, 3.0)])
def test_normal_numbers_of_float64_are_the_references(mean, std):
    for n in (16, 48, 70_000 // 16 * 16):
        a, b = guarded(np.random.default_rng(n).random(n)), np.random.default_rng(n).random(n)
        tails = [np.linspace(0, 0.99, 16) for _ in range(2)]
        compiled.random_wide_normals(a, mean, std, tails[0])
        reference.random_wide_normals(b, mean, std, tails[1])
        assert a.tobytes() == b.tobytes() and tails[0].tobytes() == tails[1].tobytes()
