"""Draws from a generator, many at a time; `sampling` makes its distributions of them.

All take a `generator.Generator` and leave it where PyTorch's would stand. `out` is C-contiguous.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from rushlight.core.dtype_sets import REDUCED
from rushlight.rng import box_muller
from rushlight.rng.fma import fused, fused_float32

if TYPE_CHECKING:
    from rushlight.rng.generator import Generator

KERNELS = (
    "by_c_library invalid_weights random_bernoulli random_cauchys random_choices random_doubles "
    "random_exponentials random_floats random_geometrics random_integers random_normal_floats "
    "random_normals random_permutation random_scalar_normals random_seeded random_slopes random_uniform "
    "random_wide_normals random_wide_words random_words"
).split()

_LOW_24 = np.int32((1 << 24) - 1)
# Words drawn at a time where they pass through scratch memory: it stays in the cache.
_CHUNK = 1 << 15


def random_words(generator: Generator, n: int) -> np.ndarray:
    """The next `n` words of 32 bits, as uint64 [n]."""
    return generator.engine().words(n)


def random_wide_words(generator: Generator, n: int) -> np.ndarray:
    """The next `n` words of 64 bits, each made of two of 32 bits, the high one first, as uint64 [n]."""
    pairs = generator.words(2 * n)
    high = pairs[0::2] << np.uint64(32)
    high |= pairs[1::2]
    return high


def random_seeded(key: np.ndarray, seed: int) -> None:
    """The state that a seed of 32 bits starts from into `key`, uint32 [624]: each word of the one before it."""
    word, words = seed, [seed]
    for i in range(1, key.size):
        word = (1812433253 * (word ^ (word >> 30)) + i) & 0xFFFFFFFF
        words.append(word)
    key[:] = words


def random_floats(generator: Generator, out: np.ndarray) -> None:
    """Numbers in [0, 1) into `out`, float32: the low 24 bits of 32, times 2**-24. Those of half types are rounded, and 0
    where that gives 1."""
    out, n = out.reshape(-1), out.size
    if out.dtype in REDUCED:
        out[...] = generator.floats(n).astype(out.dtype)
        out[out == 1] = 0
        return
    for at in range(0, n, _CHUNK):
        some = generator.words(min(_CHUNK, n - at)).astype(np.uint32).view(np.int32)
        some &= _LOW_24
        np.multiply(some.astype(np.float32), np.float32(2.0**-24), out=out[at : at + _CHUNK])


def random_doubles(generator: Generator, out: np.ndarray) -> None:
    """Numbers in [0, 1) into `out`, float64: the low 53 bits of 64, times 2**-53."""
    words = generator.wide_words(out.size)
    words &= np.uint64((1 << 53) - 1)
    # Signed: the conversion of int64 is one instruction where that of uint64 is several.
    np.multiply(words.view(np.int64), 2.0**-53, out=out.reshape(-1))


def random_uniform(generator: Generator, out: np.ndarray, low: float, high: float) -> None:
    """Numbers in [low, high) into `out`, float32 or float64; `low` where rounding gives `high`."""
    out = out.reshape(-1)
    if out.dtype == np.float64:
        generator.doubles(out.size, out)
        out[...] = fused(out, high - low, low)
        out[out == high] = low
        return
    generator.floats(out.size, out)
    low32, high32 = np.float32(low), np.float32(high)
    width = float(high32 - low32)
    for at in range(0, out.size, _CHUNK):
        some = out[at : at + _CHUNK]
        some[...] = fused_float32(some, width, float(low32))
        some[some == high32] = low32


def random_bernoulli(generator: Generator, out: np.ndarray, below: int, value: float = 1) -> None:
    """`value` where the low 53 bits of 64 are less than `below`, else 0; in any dtype."""
    words = generator.wide_words(out.size)
    words &= np.uint64((1 << 53) - 1)
    out = out.reshape(-1)
    np.copyto(out, words.view(np.int64) < below, casting="unsafe")
    if value != 1:
        out *= out.dtype.type(value)


def random_integers(generator: Generator, out: np.ndarray, low: int, span: int) -> None:
    """low + word % span into `out`, int64, by words of 32 bits; `span` below 2**28."""
    words = generator.words(out.size)
    if span & (span - 1) == 0:
        words &= np.uint64(span - 1)
    else:  # by way of the quotient: that has a fast path for one divisor, the remainder has not
        quotient = words // np.uint64(span)
        quotient *= np.uint64(span)
        words -= quotient
    np.add(words.view(np.int64), low, out=out.reshape(-1))


@np.errstate(all="ignore")
def random_normals(
    out: np.ndarray, mean: float, std: float, tail: np.ndarray | None = None
) -> None:
    """Uniform numbers `out`, float32 [16 k], into normal ones; see `box_muller`. `tail`: 16 more."""
    if tail is None or out.size > _CHUNK:
        box_muller.normal_float32(out.reshape(-1), mean, std)
        if tail is not None:
            box_muller.normal_float32(tail, mean, std)
        return
    # One call for both: its cost, for a few numbers, is that of its many small steps.
    both = np.concatenate((out, tail))
    box_muller.normal_float32(both, mean, std)
    out[...], tail[...] = both[:-16], both[-16:]


def random_normal_floats(generator: Generator, out: np.ndarray, mean: float, std: float) -> None:
    """n >= 16 normal numbers into `out`, float32 [n]: those of n uniform ones in blocks of 16, where
    those that are left over, and as many before them as make 16, come of 16 more."""
    out, n = out.reshape(-1), out.size
    generator.floats(n, out)
    tail = generator.floats(16) if n % 16 else None
    random_normals(out[: n // 16 * 16], mean, std, tail)
    if tail is not None:
        out[n - 16 :] = tail


@np.errstate(all="ignore")
def random_wide_normals(
    out: np.ndarray, mean: float, std: float, tail: np.ndarray | None = None
) -> None:
    """As `random_normals`, float64, by the C library's logarithm and NumPy's sine and cosine."""
    for some in (out,) if tail is None else (out, tail):
        blocks = some.reshape(-1, 2, 8)
        for at in range(0, len(blocks), _CHUNK // 16):
            pairs = blocks[at : at + _CHUNK // 16]
            radius = np.sqrt(-2 * by_c_library("log", (1 - pairs[:, 0]).ravel()))
            angle = (2 * math.pi * pairs[:, 1]).ravel()
            pairs[:, 0] = fused(radius * np.cos(angle), std, mean).reshape(-1, 8)
            pairs[:, 1] = fused(radius * np.sin(angle), std, mean).reshape(-1, 8)


@np.errstate(all="ignore")
def random_scalar_normals(generator: Generator, out: np.ndarray, mean: float, std: float) -> None:
    """Normal numbers into `out`, floating [n], one after the other: two uniform numbers make two.

    The second of the last pair is kept in the generator where `out` has no place for it, and is the first of
    the next call.
    """
    n, spare = out.size, generator.spare
    if not n:
        return
    z = np.empty(n + 2)
    waiting = 0 if spare is None else 1
    pairs = (n - waiting + 1) // 2
    z[0] = spare or 0.0
    if pairs:
        u = generator.doubles(2 * pairs)
        radius = np.sqrt(-2.0 * by_c_library("log1p", -u[1::2]))
        angle = 2.0 * math.pi * u[0::2]
        z[waiting : waiting + 2 * pairs : 2] = radius * by_c_library("cos", angle)
        z[waiting + 1 : waiting + 1 + 2 * pairs : 2] = radius * by_c_library("sin", angle)
    generator.spare = float(z[n]) if waiting + 2 * pairs > n else None
    z = fused(z[:n], std, mean)
    out.reshape(-1)[...] = z.astype(np.float32).astype(out.dtype) if out.dtype in REDUCED else z


def by_c_library(name: str, x: np.ndarray) -> np.ndarray:
    """The C library's function `name` of each element, float64 [n]."""
    try:
        return np.fromiter(map(getattr(math, name), x.tolist()), np.float64, x.size)
    except OverflowError:  # Python's word for an infinite exp
        return getattr(np, name)(x)


def random_permutation(generator: Generator, out: np.ndarray) -> None:
    """0 to n - 1 in random order into `out`, int64 [n], n > 1: Fisher and Yates' shuffle.

    Element i changes places with element i + (word % (n - i)), for i = 0, 1, ...
    """
    n = out.size
    target = (generator.words(n - 1) % np.arange(n, 1, -1, dtype=np.uint64)).view(np.int64)
    target += np.arange(n - 1)
    out[...] = shuffled(n, target.tolist()) if n < 3000 else _shuffled_by_doubling(n, target)


def shuffled(n: int, target: list[int]) -> list[int]:
    """0 to n - 1, after each i has changed places with target[i], one after the other."""
    order = list(range(n))
    for i, j in enumerate(target):
        order[i], order[j] = order[j], order[i]
    return order


def _shuffled_by_doubling(n: int, target: np.ndarray) -> np.ndarray:
    """`shuffled` without a loop over the elements.

    What stands at i when its turn comes was put there by the last step j < i with target i, and stood at j when j's turn
    came; so it is found by following such steps down to one that nothing was put to: by doubling, all i at once.
    """
    # The steps, sorted by target, then by time; the last has only itself to choose.
    bits = n.bit_length()
    key = np.append(target, n - 1)
    key <<= bits
    key |= np.arange(n)
    key.sort()
    place = (key >> bits).astype(np.int32)
    step = (key & ((1 << bits) - 1)).astype(np.int32)
    before = np.append(
        np.int32(-1), step[:-1]
    )  # the step before with the same target, where `again`
    again = np.append(False, place[1:] == place[:-1])
    own = step == place  # i chose itself; always the last of its target
    # Who last put something to a place before its turn: of repeated indices, the last assignment stands.
    came_from = np.arange(n, dtype=np.int32)
    came_from[place] = np.where(own & again, before, step)
    while True:
        further = came_from[came_from]
        if np.array_equal(further, came_from):
            break
        came_from = further
    # Step i takes what stands at its target: put there by the step before with that target, or there from the start.
    found = came_from[np.where(again, before, place)]
    np.copyto(found, place, where=~(again | own))
    order = np.empty(n, np.int64)
    order[step] = found
    return order


@np.errstate(all="ignore")
def random_exponentials(generator: Generator, out: np.ndarray, scale: float) -> None:
    """log(1 - u) * scale into `out`, float32 or float64."""
    u = generator.doubles(out.size)
    # An error in the last of 53 bits does not survive rounding to 24.
    exact = out.dtype == np.float64 or out.size < 16
    log = by_c_library("log1p", -u) if exact else np.log1p(-u)
    out.reshape(-1)[...] = log * scale


@np.errstate(all="ignore")
def random_cauchys(generator: Generator, out: np.ndarray, median: float, sigma: float) -> None:
    """median + sigma tan(pi (u - 1/2)) into `out`, float32 or float64."""
    u = (generator.doubles(out.size) - 0.5) * math.pi
    exact = out.dtype == np.float64 or out.size < 16
    out.reshape(-1)[...] = fused(by_c_library("tan", u) if exact else np.tan(u), sigma, median)


@np.errstate(all="ignore")
def random_geometrics(generator: Generator, out: np.ndarray, p: float) -> None:
    """The number of trials of probability `p` until the first success into `out`, float32, float64 or int64."""
    u = generator.doubles(out.size)
    # The last bit of the logarithm is lost in the ceiling.
    out.reshape(-1)[...] = np.ceil(np.log(u) / math.log1p(-p))


@np.errstate(all="ignore")
def random_slopes(generator: Generator, a: np.ndarray, low: float, high: float) -> np.ndarray:
    """1 for each element of `a` above 0; for the others, in row-major order, low + (high - low) * u, u in [0, 1) of 53
    bits, rounded twice. In float32, in float64 for float64."""
    below = a <= 0
    r = np.ones(a.shape, np.float64 if a.dtype == np.float64 else np.float32)
    r[below] = generator.doubles(np.count_nonzero(below)) * (high - low) + low
    return r


def random_choices(generator: Generator, weights: np.ndarray, n: int) -> np.ndarray:
    """n places in each row of `weights` [m, k], with probabilities in proportion to them, as int64 [m, n]: uniform
    numbers are looked up in the sums of the row, float32 or float64."""
    found = np.empty((len(weights), n), np.int64)
    for row, places in zip(weights, found):
        sums = np.cumsum(row, dtype=row.dtype)  # from left to right, in the order PyTorch adds
        sums /= sums[-1]
        sums[-1] = 1.0
        places[...] = np.searchsorted(sums.astype(np.float64), generator.doubles(n))
    return found


def invalid_weights(weights: np.ndarray) -> tuple[bool, bool]:
    """Whether an element of `weights` [m, k] is negative, infinite or no number; whether a row has none above 0."""
    good = (weights < np.inf).all() and (weights >= 0).all()
    return not good, not (weights > 0).any(-1).all()
