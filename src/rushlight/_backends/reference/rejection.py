"""Numbers that are drawn until a proposal is accepted: Poisson, binomial and gamma numbers.

How many uniform numbers one element takes depends on the numbers drawn, and where the next element begins in the stream
depends on that; so these go from element to element, in order.
"""

from __future__ import annotations

import math
from itertools import chain
from operator import length_hint
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rushlight.rng.generator import Generator

    Draw = Callable[[], float]

KERNELS = "random_binomials random_gammas random_poissons".split()


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


# -- Poisson ---------------------------------------------------------------------------------------


def random_poissons(generator: Generator, rates: np.ndarray) -> np.ndarray:
    """A Poisson count for each of `rates`, float64 [n], none negative.

    Below a rate of 10 uniform numbers are multiplied until they fall under exp(-rate); from there on, transformed
    rejection: Hoermann, "The transformed rejection method for generating Poisson random variables" (1993), PTRS.
    """
    with _Reading(generator, 4 * rates.size) as draw:
        counts = [
            (_poisson_large if r >= 10.0 else _poisson_small)(r, draw) for r in rates.tolist()
        ]
    return np.array(counts, np.float64)


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


# -- binomial --------------------------------------------------------------------------------------


def random_binomials(generator: Generator, rows: np.ndarray) -> np.ndarray:
    """A binomial count for each row, float64 [n, 8]: trials, p, the rarer of p and 1 - p, and for that the mean, the
    standard deviation, the odds, the mode, and log(1 - p).

    Where fewer than 10 successes are expected, the gaps between them are summed; else transformed rejection: Hoermann,
    "The generation of binomial random variates" (1993), BTRS.
    """
    with _Reading(generator, 4 * len(rows)) as draw:
        return np.array([_binomial(row, draw) for row in rows.tolist()])


def _binomial(row: list[float], draw: Draw) -> float:
    n, p, rare, mean, deviation, odds, mode, log_q = row
    if n <= 0.0 or p <= 0.0:
        return 0.0
    if p >= 1.0:
        return n
    if p != p or not n < math.inf:  # no sum of gaps is more
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


# -- gamma -----------------------------------------------------------------------------------------


def random_gammas(generator: Generator, rows: np.ndarray, squeeze: float) -> np.ndarray:
    """A gamma number for each row, float64 [n, 3]: alpha, 1 / alpha, and alpha (+ 1 if that is below 1) - 1/3.

    Marsaglia and Tsang, "A simple method for generating gamma variables" (2000), whose constant 0.0331 is `squeeze`;
    below 1, alpha + 1 and a power of a uniform number.
    """
    spare = generator.spare
    with _Reading(generator, 4 * len(rows)) as draw:

        def normal() -> float:
            nonlocal spare
            if spare is not None:
                z, spare = spare, None
                return z
            angle = 2.0 * math.pi * draw()
            radius = math.sqrt(-2.0 * math.log1p(-draw()))
            spare = radius * math.sin(angle)
            return radius * math.cos(angle)

        found = [_gamma(row, squeeze, draw, normal) for row in rows.tolist()]
    generator.spare = spare
    return np.array(found, np.float64)


def _gamma(row: list[float], squeeze: float, draw: Draw, normal: Draw) -> float:
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
        if u < 1.0 - squeeze * square * square:
            return scale * d * v
        if math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
            return scale * d * v
