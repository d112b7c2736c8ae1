"""Samplers that draw until a proposal is accepted, and `multinomial`: number for number those of PyTorch's CPU kernels.

How many random numbers one element takes depends on the numbers drawn, and where the next element begins in the stream
depends on that; so these go from element to element, in order. They take arrays of parameters and return a new array.

Equal to PyTorch 2.13 bit for bit, but that PyTorch sums a row of `dirichlet` in another order, which can change the last
bit in float64.

>>> from rushlight.rng.generator import Generator
>>> poisson(np.full(5, 3.0), Generator().manual_seed(0))
array([6., 3., 2., 3., 4.])
"""

from __future__ import annotations

import math
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING

import numpy as np

from rushlight._backends import cpu as xp
from rushlight.core.dtype_sets import FLOATING, FULL
from rushlight.core.dtypes import OF
from rushlight.rng.sampling import exponential_, refuse

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rushlight.rng.generator import Generator

    Draw = Callable[[], float]


class _Reading:
    """Uniform float64 numbers one by one: `with _Reading(generator, n) as draw: draw()`.

    They are drawn in chunks; at the end the generator goes back to the last one taken.
    """

    __slots__ = ("_chunk", "_generator", "_left", "_start")

    def __init__(self, generator: Generator, expected: int) -> None:
        self._generator = generator
        self._chunk = min(max(2 * expected, 8), 4096)

    def __enter__(self) -> Draw:
        self._start = self._generator.position()
        self._left: Iterator[float] = iter(())
        return chain.from_iterable(self._chunks()).__next__

    def _chunks(self) -> Iterator[Iterator[float]]:
        while True:
            self._start = self._generator.position()
            self._left = iter(self._generator.doubles(self._chunk).tolist())
            yield self._left

    def __exit__(self, *failure: object) -> None:
        left = length_hint(self._left)
        if left:
            self._generator.go_back(self._start)
            self._generator.doubles(self._chunk - left)


# ---------------------------------------------------------------------------------------------------- counts


def poisson(rate: np.ndarray, generator: Generator) -> np.ndarray:
    """Poisson counts with the given rates, in an array of the same shape and floating-point dtype.

    Below a rate of 10 uniform numbers are multiplied until they fall under exp(-rate); from there on, transformed
    rejection: Hoermann, "The transformed rejection method for generating Poisson random variables" (1993), PTRS.
    RuntimeError for a rate that is not at least 0.
    """
    if rate.dtype not in FLOATING:
        refuse("poisson_cpu", rate.dtype)
    rates = rate.astype(np.float64).ravel().tolist()
    if not all(r >= 0.0 for r in rates):
        raise RuntimeError("invalid Poisson rate, expected rate to be non-negative")
    with _Reading(generator, 4 * len(rates)) as draw:
        counts = [(_poisson_large if r >= 10.0 else _poisson_small)(r, draw) for r in rates]
    return np.array(counts, np.float64).astype(rate.dtype).reshape(rate.shape)


def _poisson_small(rate: float, draw: Draw) -> int:
    if rate == 0.0:
        return 0
    limit, product, count = math.exp(-rate), draw(), 0
    while product > limit:
        product *= draw()
        count += 1
    return count


def _poisson_large(rate: float, draw: Draw) -> int:
    root, log_rate = math.sqrt(rate), math.log(rate)
    b = 0.931 + 2.53 * root
    a = -0.059 + 0.02483 * b
    inverse_alpha = 1.1239 + 1.1328 / (b - 3.4)
    v_r = 0.9277 - 3.6224 / (b - 2)
    while True:
        u = draw() - 0.5
        v = draw()
        us = 0.5 - abs(u)
        k = _floor((2 * a / us + b) * u + rate + 0.43) if us else -1
        if us >= 0.07 and v <= v_r:
            return k
        if k < 0 or (us < 0.013 and v > us):
            continue
        left = _log(v) + math.log(inverse_alpha) - math.log(a / (us * us) + b)
        if left <= -rate + k * log_rate - math.lgamma(k + 1.0):
            return k


def _floor(x: float) -> int:
    """Round down to int64; numbers that do not fit become the least int64, as processors do."""
    return math.floor(x) if abs(x) < 2.0**63 else -(1 << 63)


def _log(x: float) -> float:
    return math.log(x) if x > 0.0 else -math.inf


def binomial(count: np.ndarray, prob: np.ndarray, generator: Generator) -> np.ndarray:
    """How many of `count` trials of probability `prob` succeed; floating-point arrays of one dtype, broadcast.

    Where fewer than 10 successes are expected, the gaps between them are summed; else transformed rejection: Hoermann,
    "The generation of binomial random variates" (1993), BTRS. Probabilities outside of [0, 1] count as 0 or 1, NaN gives
    NaN. ValueError for an integer `count`.
    """
    for name, x in (("count", count), ("prob", prob)):
        if x.dtype not in FLOATING:
            raise ValueError(
                f"binomial only supports floating-point dtypes for {name}, got: {OF[x.dtype].scalar_name}"
            )
    if count.dtype != prob.dtype:
        raise RuntimeError(
            f"Found dtype {OF[prob.dtype].scalar_name} but expected {OF[count.dtype].scalar_name}: "
            "binomial wants count and prob of one dtype"
        )
    if count.dtype.itemsize == 2:
        refuse("binomial_cpu", count.dtype)
    counts, probs = np.broadcast_arrays(count, prob)
    rare = np.where(probs <= 0.5, probs, 1 - probs)
    with np.errstate(all="ignore"):
        # In the dtype of the inputs, as in PyTorch; what is computed from these is in float64.
        parameters = (
            *(counts, probs, rare, counts * rare, np.sqrt(counts * rare * (1 - rare))),
            *(rare / (1 - rare), np.floor((counts + 1) * rare)),
            np.log1p(-rare.astype(np.float64)).astype(count.dtype),
        )
    rows = zip(*(column.astype(np.float64).ravel().tolist() for column in parameters))
    with _Reading(generator, 4 * counts.size) as draw:
        found = [_binomial(row, draw) for row in rows]
    return np.array(found, np.float64).astype(count.dtype).reshape(counts.shape)


def _binomial(row: tuple[float, ...], draw: Draw) -> float:
    n, p, rare, mean, deviation, odds, mode, log_q = row
    if n <= 0.0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return n
    if p != p:
        return math.nan
    if mean >= 10.0:
        successes = _binomial_large(n, rare, mean, deviation, odds, mode, draw)
    else:
        successes = _binomial_small(n, log_q, draw)
    return successes if p <= 0.5 else n - successes


def _binomial_small(n: float, log_q: float, draw: Draw) -> float:
    total, successes = 0.0, 0
    while True:
        total += math.ceil(_log(draw()) / log_q)
        if total > n:
            return float(successes)
        successes += 1


def _binomial_large(
    n: float, p: float, mean: float, deviation: float, odds: float, m: float, draw: Draw
) -> float:
    """A binomial draw where n * p is large: transformed rejection."""
    b = 1.15 + 2.53 * deviation
    a = -0.0873 + 0.0248 * b + 0.01 * p
    c = mean + 0.5
    v_r = 0.92 - 4.2 / b
    alpha = (2.83 + 5.1 / b) * deviation
    while True:
        u = draw() - 0.5
        v = draw()
        us = 0.5 - abs(u)
        k = math.floor((2 * a / us + b) * u + c) if us else -1
        if k < 0 or k > n:
            continue
        if us >= 0.07 and v <= v_r:
            return float(k)
        v = _log(v * alpha / (a / (us * us) + b))
        bound = (
            (m + 0.5) * math.log((m + 1) / (odds * (n - m + 1)))
            + (n + 1) * math.log((n - m + 1) / (n - k + 1))
            + (k + 0.5) * math.log(odds * (n - k + 1) / (k + 1))
            + _stirling_tail(m)
            + _stirling_tail(n - m)
            - _stirling_tail(k)
            - _stirling_tail(n - k)
        )
        if v <= bound:
            return float(k)


# log k! less Stirling's log(sqrt(2 pi)) + (k + 1/2) log(k + 1) - (k + 1), for k = 0 to 9.
_STIRLING = tuple(
    math.lgamma(k + 1.0) - (0.5 * math.log(2 * math.pi) + (k + 0.5) * math.log(k + 1.0) - (k + 1))
    for k in range(10)
)


def _stirling_tail(k: float) -> float:
    if k <= 9:
        return _STIRLING[int(k)]
    square = (k + 1.0) * (k + 1.0)
    return (1.0 / 12 - (1.0 / 360 - 1.0 / 1260 / square) / square) / (k + 1.0)


# ----------------------------------------------------------------------------------------------------- gamma


def standard_gamma(alpha: np.ndarray, generator: Generator) -> np.ndarray:
    """Gamma numbers of shape `alpha` and scale 1, in an array of the same shape and dtype, float32 or float64.

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000); below 1, alpha + 1 and a power of a
    uniform number. Never less than the smallest normal number.
    """
    if alpha.dtype not in FULL:
        refuse("gamma_cpu", alpha.dtype)
    least = float(np.finfo(alpha.dtype).tiny)
    found = _gammas(alpha, generator, alpha.dtype.type).astype(alpha.dtype)
    # NaN becomes the least number too, as in PyTorch.
    return np.where(found >= least, found, alpha.dtype.type(least))


def _gammas(
    alpha: np.ndarray, generator: Generator, real: type[np.floating] = np.float64
) -> np.ndarray:
    """Gamma numbers in float64; what depends on alpha alone is computed in the type `real`, as in PyTorch."""
    with np.errstate(all="ignore"):
        start = alpha.astype(real).ravel()
        boosted = np.where(start < 1, start + real(1), start)
        parameters = (start, real(1) / start, boosted - _THIRD)
    rows = zip(*(column.astype(np.float64).tolist() for column in parameters))
    spare = generator.spare
    with _Reading(generator, 4 * alpha.size) as draw:

        def normal() -> float:
            nonlocal spare
            if spare is not None:
                z, spare = spare, None
                return z
            angle = 2.0 * math.pi * draw()
            radius = math.sqrt(-2.0 * math.log1p(-draw()))
            spare = radius * math.sin(angle)
            return radius * math.cos(angle)

        found = [_gamma(row, draw, normal) for row in rows]
    generator.spare = spare
    return np.array(found, np.float64).reshape(alpha.shape)


def _gamma(row: tuple[float, float, float], draw: Draw, normal: Draw) -> float:
    alpha, inverse, d = row
    if alpha == 0.0:
        return 0.0
    scale = 1.0
    if alpha < 1.0:
        scale = (1.0 - draw()) ** inverse if alpha > 0.0 else math.nan
    # A negative or NaN alpha takes its numbers from the stream too, and comes out as NaN.
    c = 1.0 / math.sqrt(9.0 * d) if d > 0.0 else math.nan
    while True:
        y = 0.0
        while y <= 0.0:
            x = normal()
            y = 1.0 + c * x
        v = y * y * y
        u = 1.0 - draw()
        square = x * x
        if u < 1.0 - _SQUEEZE * square * square:
            return scale * d * v
        if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v


_THIRD, _SQUEEZE = (
    float(np.float32(1 / 3)),
    float(np.float32(0.0331)),
)  # PyTorch's constants are float32


def dirichlet(alpha: np.ndarray, generator: Generator) -> np.ndarray:
    """Points of the simplex: gamma numbers of shape `alpha` [..., k], divided by their sum over the last dimension."""
    if alpha.dtype not in FULL:
        refuse("dirichlet", alpha.dtype)
    parts = np.fmax(
        _gammas(alpha, generator), np.finfo(np.float64).tiny
    )  # where all underflow: equal shares
    with np.errstate(all="ignore"):
        found = (parts / parts.sum(-1, keepdims=alpha.ndim > 0)).astype(alpha.dtype)
    least, one = np.finfo(alpha.dtype).tiny, alpha.dtype.type(1)
    return np.asarray(np.minimum(np.fmax(found, least), np.nextafter(one, alpha.dtype.type(0))))


# ----------------------------------------------------------------------------------------------- multinomial


def multinomial(weights: np.ndarray, n: int, replacement: bool, generator: Generator) -> np.ndarray:
    """Indices drawn with probabilities in proportion to `weights` [k] or [m, k]: int64 [n] or [m, n].

    Without replacement, and for a single index, weights are divided by exponential numbers and the `n` largest taken;
    with it, uniform numbers are looked up in the cumulative sum. RuntimeError for weights that are negative, not finite
    or all 0, and for more indices than there are weights.
    """
    if weights.dtype not in FLOATING:
        raise RuntimeError(
            f"multinomial only supports floating-point dtypes for input, got: {OF[weights.dtype].scalar_name}"
        )
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got {weights.ndim}")
    if n <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {n}")
    if not replacement and n > weights.shape[-1]:
        raise RuntimeError(
            "cannot sample n_sample > prob_dist.size(-1) samples without replacement: "
            f"{n} > {weights.shape[-1]}"
        )
    wide = weights.astype(np.float64 if weights.dtype == np.float64 else np.float32, copy=False)
    rows = wide if weights.ndim == 2 else wide[None]
    if weights.size:
        unfit, empty = xp.faults_of_weights(rows)
        if unfit:
            raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
        if empty:
            raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if n == 1 or not replacement:
        times = np.empty(weights.shape, weights.dtype)
        exponential_(times, 1.0, generator)
        with np.errstate(all="ignore"):
            keys = weights / times
        if n == 1:
            return keys.argmax(-1, keepdims=True)
        return xp.topk(keys, n, keys.ndim - 1, True, True)[1]
    return xp.random_choices(generator, rows, n).reshape(weights.shape[:-1] + (n,))
