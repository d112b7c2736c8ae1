"""The random core against stored numbers of PyTorch 2.13, and against its own rules; needs no PyTorch."""

from __future__ import annotations

import copy
import pickle
import zlib

import ml_dtypes
import numpy as np
import pytest

from processes import printed
from rushlight._backends.reference import random as numpy_random
from rushlight.rng import rejection, sampling
from rushlight.rng.fma import fused, fused_float32
from rushlight.rng.generator import DEFAULT_SEED, STATE_BYTES, Generator
from rushlight.rng.mersenne_twister import MersenneTwister

# Seed 7, 1001 elements: CRC-32 of the bytes in float32 and in bfloat16; first, last and sum in float64.
STORED = [
    ("uniform_", (0.0, 1.0), 42938222, 1739957424, (0.279380429906404, 0.5934601400207482, 513.7922029759869)),
    ("uniform_", (-1.5, 2.7), 3945129985, 2381793575, (-0.3266021943931032, 0.9925325880871426, 656.4272524991452)),
    ("normal_", (0.0, 1.0), 443306121, 4199922759, (0.06626753966449943, -2.045314371104557, -25.841293820484466)),
    ("normal_", (1.5, 0.02), 3928534743, 2608760534, (1.50132535079329, 1.4590937125779089, 1500.98317412359)),
    ("random_", (0, 10), 1581168446, 4290279049, (5.0, 7.0, 4560.0)),
    ("random_", (), 2851898305, 2795508014, (2516435200042024.0, 5345413730913197.0, 4.627828747736025e18)),
    ("bernoulli_", (0.3,), 1891818121, 2169121608, (1.0, 0.0, 290.0)),
    ("exponential_", (2.5,), 392483817, 965631989, (0.1310575691932316, 0.3600293193087898, 416.267697846599)),
    ("cauchy_", (0.3, 2.7), 313998418, 909062225, (-1.9425005923986682, 1.1163518613790215, -3361.4660988556993)),
    ("log_normal_", (1.0, 0.5), 1498045570, 2985079396, (2.5259126709431747, 1.5932609249107483, 3104.0408285985377)),
    ("geometric_", (0.1,), 2974972513, 3395860011, (13.0, 5.0, 9726.0)),
]  # fmt: skip


# Seed 7, one after the other.
POISSON = [0.0, 0.0, 5.0, 6.0, 6.0, 62.0, 1000465.0]
BINOMIAL = [0.0, 4.0, 2.0, 89.0, 293.0, 1000.0]
MULTINOMIAL = [[2, 2, 2, 2, 2, 3], [1, 1, 0, 0, 3, 1]]
WITHOUT_REPLACEMENT = [2, 3, 0]
GAMMA = [0.24178260564804077, 0.2033068686723709, 4.129335403442383, 83.85758209228516]
DIRICHLET = [9.284198654313514e-07, 0.0008791348082013428, 0.018183456733822823, 0.9809364676475525]
NEXT = 0.4180375933647156


def filled(name: str, args: tuple, out: np.ndarray, generator: Generator) -> np.ndarray:
    if name == "random_":
        args = (*args, None, None)[:2]
    getattr(sampling, name)(out, *args, generator)
    return out


@pytest.mark.parametrize("name, args, single, half, double", STORED)
def test_numbers_are_the_stored_ones(name, args, single, half, double):
    for dtype, crc in ((np.float32, single), (ml_dtypes.bfloat16, half)):
        out = filled(name, args, np.empty(1001, dtype), Generator().manual_seed(7))
        assert zlib.crc32(out.tobytes()) == crc
    out = filled(name, args, np.empty(1001), Generator().manual_seed(7))
    np.testing.assert_allclose((out[0], out[-1], out.sum()), double, rtol=1e-13)


def test_wide_integers_are_the_stored_ones():
    out = filled("random_", (0, 1 << 40), np.empty(1001, np.int64), Generator().manual_seed(7))
    assert zlib.crc32(out.tobytes()) == 801885376


def test_permutations_are_the_stored_ones():
    assert sampling.randperm(10, Generator().manual_seed(7)).tolist() == [
        5,
        0,
        3,
        4,
        1,
        7,
        9,
        6,
        8,
        2,
    ]
    assert zlib.crc32(sampling.randperm(5000, Generator().manual_seed(7)).tobytes()) == 1563196728


def test_state_is_the_stored_one():
    g = Generator().manual_seed(7)
    sampling.normal_(np.empty(3, np.float32), 0.0, 1.0, g)
    assert zlib.crc32(g.state_bytes().tobytes()) == 247687208
    out = np.empty(2)
    sampling.normal_(out, 0.0, 1.0, g)  # the first was made by the call before
    np.testing.assert_allclose(out, [-1.1143440212610307, 1.6907901257942333], rtol=1e-14)


@pytest.mark.parametrize("drawn", [0, 1, 623, 624, 625, 1248])
def test_state_goes_there_and_back(drawn):
    g = Generator().manual_seed(-5)
    g.words(drawn)
    sampling.normal_(np.empty(3), 0.0, 1.0, g)
    for twin in (
        Generator().load_state_bytes(g.state_bytes()),
        g.clone_state(),
        copy.deepcopy(g),
        pickle.loads(pickle.dumps(g)),
    ):
        assert np.array_equal(twin.state_bytes(), g.state_bytes())
        assert twin.initial_seed() == 2**64 - 5
        assert twin.spare == g.spare is not None
        here = g.clone_state()
        assert np.array_equal(twin.words(700), here.words(700))


def test_an_untouched_generator_has_the_default_seed():
    assert Generator().initial_seed() == DEFAULT_SEED
    assert np.array_equal(Generator().words(5), Generator().manual_seed(DEFAULT_SEED).words(5))


def test_a_program_without_a_seed_draws_other_numbers_in_every_process():
    code = "import rushlight as torch; print(torch.initial_seed(), torch.rand(2).tolist())"
    assert printed(code) != printed(code)


def test_seeding_drops_the_waiting_normal_number():
    g = Generator()
    sampling.normal_(np.empty(1), 0.0, 1.0, g)
    assert g.manual_seed(1).spare is None


def test_seed_is_fresh_each_time():
    g = Generator()
    assert g.seed() == g.initial_seed() != g.seed()


@pytest.mark.parametrize("seed", [2**64, -(2**63) - 1, "a"])
def test_bad_seeds(seed):
    g = Generator()
    with pytest.raises(ValueError):
        g.manual_seed(seed)
    assert g.initial_seed() == DEFAULT_SEED


def test_bad_states():
    g = Generator().manual_seed(3)
    before = g.state_bytes()
    with pytest.raises(TypeError, match="ByteTensor"):
        g.load_state_bytes(np.zeros(STATE_BYTES, np.float32))
    with pytest.raises(RuntimeError, match="of size 5056"):
        g.load_state_bytes(before[:-1])
    for at in (8, 12, 16):  # left, seeded, next
        broken = before.copy()
        broken[at : at + 2] = (200, 3)
        with pytest.raises(RuntimeError, match="Invalid mt19937 state"):
            g.load_state_bytes(broken)
    assert np.array_equal(g.state_bytes(), before)


def test_other_devices_have_no_generator():
    with pytest.raises(RuntimeError, match="cuda"):
        Generator("cuda")


@pytest.mark.parametrize(
    "name, args, dtype, error, match",
    [
        ("uniform_", (2, 1), "f4", RuntimeError, r"\[from, to\) range"),
        ("uniform_", (0, float("nan")), "f4", RuntimeError, "to is out of bounds"),
        ("uniform_", (-3e38, 3e38), "f4", RuntimeError, "to-from"),
        ("uniform_", (0, 1), "i4", NotImplementedError, "check_uniform_bounds"),
        ("normal_", (0, -1), "f4", RuntimeError, "std >= 0.0"),
        ("normal_", (0, 1), "i4", NotImplementedError, "normal_kernel_cpu"),
        ("random_", (5, 5), "f4", RuntimeError, "'from' to be less than 'to'"),
        ("random_", (0, 300), "u1", RuntimeError, "to - 1 is out of bounds"),
        ("random_", (), "c8", NotImplementedError, "random_kernel_cpu"),
        ("bernoulli_", (1.5,), "f4", RuntimeError, r"\[0, 1\]"),
        ("bernoulli_", (np.full(20, 1.5),), "f4", RuntimeError, "p_in >= 0"),
        ("exponential_", (0.0,), "f4", RuntimeError, "lambda > 0.0"),
        ("exponential_", (1.0,), "i4", RuntimeError, "must be a floating point"),
        ("cauchy_", (0.0, 0.0), "f4", RuntimeError, "sigma > 0.0"),
        ("log_normal_", (0.0, 0.0), "f4", RuntimeError, "std > 0.0"),
        ("geometric_", (1.0,), "f4", RuntimeError, r"\(0, 1\)"),
    ],
)
def test_a_refused_call_changes_nothing(name, args, dtype, error, match):
    g, out = Generator().manual_seed(1), np.ones(20, dtype)
    with pytest.raises(error, match=match):
        filled(name, args, out, g)
    assert np.array_equal(g.state_bytes(), Generator().manual_seed(1).state_bytes())
    assert (out == 1).all()


def test_randperm_refuses():
    g = Generator()
    with pytest.raises(RuntimeError, match="negative dimension"):
        sampling.randperm(-1, g)
    with pytest.raises(RuntimeError, match="without overflow"):
        sampling.randperm(300, g, np.uint8)
    with pytest.raises(RuntimeError, match="cannot be greater"):
        sampling.randperm(3000, g, np.float16)


@pytest.mark.parametrize("n", [2, 3, 10, 1000])
def test_shuffle_without_a_loop_is_the_shuffle(n):
    for seed in range(20):
        target = np.random.RandomState(seed).randint(np.arange(n - 1), n)
        assert np.array_equal(
            numpy_random._shuffled_by_doubling(n, target), numpy_random.shuffled(n, target)
        )


def test_fused_rounds_once():
    from fractions import Fraction

    r = np.random.RandomState(0)
    a, b = r.rand(2000), 1.1
    for c in (0.3, -0.55, 1e-17, -1.1 * 0.5):
        got = fused(a, b, c)
        want = [float(Fraction(x) * Fraction(b) + Fraction(c)) for x in a.tolist()]
        assert got.tolist() == want
    single = a.astype(np.float32)
    b, c = float(np.float32(1.1)), float(np.float32(-0.3))
    exact = [Fraction(x) * Fraction(b) + Fraction(c) for x in single.tolist()]
    near = fused_float32(single, b, c)
    for got, want in zip(near.tolist(), exact):
        assert abs(got - want) <= np.spacing(np.float32(abs(got))) / 2


@pytest.mark.parametrize("n", [3, 20])
@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
def test_infinite_results_are_results(n, dtype):
    g, out = Generator(), np.empty(n, dtype)
    sampling.log_normal_(out, 1000.0, 1.0, g)
    assert np.isposinf(out).all()
    sampling.exponential_(out, 1e-320, g)
    assert np.isposinf(out).all()
    sampling.normal_(out, 0.0, 1e308, g)
    sampling.exponential_(out, float("inf"), g)
    assert (out == 0).all()


def test_values_follow_memory():
    """As PyTorch fills a transposed tensor: neighbours in memory come first."""
    flat, turned = np.empty((3, 4), np.float32), np.empty((3, 4), np.float32)
    sampling.uniform_(flat, 0.0, 1.0, Generator().manual_seed(1))
    sampling.uniform_(turned.T, 0.0, 1.0, Generator().manual_seed(1))
    assert np.array_equal(flat, turned)
    with_gaps = np.empty((3, 8), np.float32)[:, ::2]
    sampling.uniform_(with_gaps, 0.0, 1.0, Generator().manual_seed(1))
    assert np.array_equal(flat, with_gaps)


def test_indices_of_transposed_weights_are_drawn_in_the_order_of_memory():
    weights = np.arange(1, 13, dtype=np.float32).reshape(4, 3).T
    drawn = rejection.multinomial(weights, 2, False, Generator().manual_seed(0))
    assert drawn.tolist() == [[2, 3], [2, 3], [3, 2]]


def test_counts_are_the_stored_ones():
    g = Generator().manual_seed(7)
    rates = np.array([0.0, 0.5, 3.0, 9.9, 10.0, 50.0, 1e6], np.float32)
    assert rejection.poisson(rates, g).tolist() == POISSON
    counts = np.array([0, 5, 30, 100, 1000, 1000], np.float32)
    probs = np.array([0.5, 0.5, 0.1, 0.9, 0.3, 1.0], np.float32)
    assert rejection.binomial(counts, probs, g).tolist() == BINOMIAL
    weights = np.array([[0.1, 0.0, 3.0, 1.0], [1.0, 1.0, 1.0, 1.0]], np.float32)
    assert rejection.multinomial(weights, 6, True, g).tolist() == MULTINOMIAL
    assert rejection.multinomial(weights[1], 3, False, g).tolist() == WITHOUT_REPLACEMENT
    alpha = np.array([0.1, 1.0, 2.5, 100.0], np.float32)
    np.testing.assert_allclose(rejection.standard_gamma(alpha, g), GAMMA, rtol=1e-6)
    np.testing.assert_allclose(rejection.dirichlet(alpha, g), DIRICHLET, rtol=1e-6)
    assert g.words(1)[0] % 2**24 / 2**24 == NEXT


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("k", [2, 5])
def test_a_row_of_dirichlet_that_underflows_has_equal_shares(dtype, k):
    found = rejection.dirichlet(np.full((3, k), 1e-7, dtype), Generator().manual_seed(0))
    assert found.dtype == dtype and np.array_equal(found, np.full((3, k), 1 / k, dtype))


def test_dirichlet_of_one_number_is_an_array():
    found = rejection.dirichlet(np.array(2.0, np.float32), Generator().manual_seed(0))
    assert (
        isinstance(found, np.ndarray)
        and found.shape == ()
        and found == np.nextafter(np.float32(1), np.float32(0))
    )


@pytest.mark.parametrize(
    "call, error, match",
    [
        (lambda g: rejection.poisson(np.array([-1.0]), g), RuntimeError, "non-negative"),
        (lambda g: rejection.poisson(np.array([1]), g), NotImplementedError, "poisson_cpu"),
        (lambda g: rejection.binomial(np.ones(2, int), np.ones(2), g), ValueError, "count"),
        (lambda g: rejection.standard_gamma(np.ones(2, int), g), NotImplementedError, "gamma_cpu"),
        (lambda g: rejection.dirichlet(np.ones(2, int), g), NotImplementedError, "dirichlet"),
        (lambda g: rejection.multinomial(np.ones(3), 4, False, g), RuntimeError, "without repl"),
        (lambda g: rejection.multinomial(np.ones(3), 0, True, g), RuntimeError, "n_sample <= 0"),
        (lambda g: rejection.multinomial(np.zeros(3), 1, True, g), RuntimeError, "sum of prob"),
        (lambda g: rejection.multinomial(-np.ones(3), 1, True, g), RuntimeError, "element < 0"),
        (lambda g: rejection.multinomial(np.ones((1, 1, 1)), 1, True, g), RuntimeError, "1 or 2"),
    ],
)
def test_a_refused_count_changes_nothing(call, error, match):
    g = Generator().manual_seed(1)
    with pytest.raises(error, match=match):
        call(g)
    assert np.array_equal(g.state_bytes(), Generator().manual_seed(1).state_bytes())


@pytest.mark.parametrize("seed", [0, 5489, 2**32 - 1, 2**32 + 5])
def test_the_engine_is_numpys(seed):
    ours, theirs = MersenneTwister(seed), np.random.MT19937()
    theirs._legacy_seeding(seed % 2**32)
    for n in (1, 3, 620, 5, 2000, 624, 623, 0):
        assert ours.words(n).tolist() == theirs.random_raw(n).tolist()
    inner = theirs.state["state"]
    assert np.array_equal(ours.key, inner["key"])
    assert ours.position == inner["pos"]
