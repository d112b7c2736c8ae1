"""Draws from a generator as machine code; see `__init__.py` for when it runs.

The numbers are the reference's to the last bit. The words come from NumPy's own state, in place, so
that a generator may change between the two at any time. As NumPy's own draws, those here hold the
generator's lock, so that nobody else draws meanwhile; `with` would take as long again as a few numbers do.
"""

from __future__ import annotations

import math as math_of_python
from functools import cache
from typing import Any

import numpy as np

from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import random as reference
from rushlight._codegen.kernels import libm, math
from rushlight._codegen.kernels import random as kernels
from rushlight._codegen.language import external
from rushlight._codegen.types import bf16, f16, f32, f64, of
from rushlight.core.dtype_sets import BF16, F16, F32, F64, FLOATING, FULL, I64, compute_dtype

NARROW = {F32: f32, F16: f16, BF16: bf16}
CHUNK = 1 << 16  # float64 numbers that pass through scratch memory at a time
SMALL = 1  # who draws nothing starts nothing


def drawn(generator: Any, kernel: Any, *args: Any) -> None:
    """Run a kernel on the state of a generator. (The commonest draws of few numbers write it out.)"""
    acquire, release, state = generator.native_state()
    acquire()
    try:
        kernel(state, *args)
    finally:
        release()


def fits(out: np.ndarray, dtype: Any) -> bool:
    return (
        out.__class__ is np.ndarray
        and out.dtype is dtype
        and out.size >= SMALL
        and out.flags.carray
    )


floats, doubles = cache(kernels.floats.compiled), cache(kernels.doubles.compiled)
integers, normals = cache(kernels.integers.compiled), cache(kernels.drawn_normals.compiled)
hits, order = cache(kernels.hits.compiled), cache(kernels.order.compiled)


@implements("random_seeded")
def random_seeded(key: np.ndarray, seed: int) -> None:
    """The state that a seed of 32 bits starts from into `key`, uint32 [624]: each word of the one before it."""
    if key.dtype != np.uint32 or not key.size or not key.flags.carray:
        return reference.random_seeded(key, seed)
    kernels.seeded.compiled()(key, key.size, seed)
    return None


@implements("random_words")
def random_words(generator: Any, n: int) -> np.ndarray:
    """The next `n` words of 32 bits, as uint64 [n]."""
    out = np.empty(n, np.uint64)
    drawn(generator, kernels.words.compiled(), out, n)
    return out


@implements("random_wide_words")
def random_wide_words(generator: Any, n: int) -> np.ndarray:
    """The next `n` words of 64 bits, each made of two of 32 bits, the high one first, as uint64 [n]."""
    if n < SMALL:
        return reference.random_wide_words(generator, n)
    out = np.empty(n, np.uint64)
    drawn(generator, kernels.wide_words.compiled(), out, n)
    return out


@implements("random_floats")
def random_floats(generator: Any, out: np.ndarray) -> None:
    """Numbers in [0, 1) into `out`, float32 or a half type; see `reference`."""
    d = out.dtype
    if d not in NARROW or not out.size or not out.flags.carray:
        return reference.random_floats(generator, out)
    acquire, release, state = generator.native_state()
    acquire()
    try:
        floats(T=NARROW[d])(state, out, out.size)
    finally:
        release()
    return None


@implements("random_doubles")
def random_doubles(generator: Any, out: np.ndarray) -> None:
    """Numbers in [0, 1) into `out`, float64: the low 53 bits of 64, times 2**-53."""
    if not fits(out, F64):
        return reference.random_doubles(generator, out)
    return drawn(generator, doubles(), out, out.size)


@implements("random_uniform")
def random_uniform(generator: Any, out: np.ndarray, low: float, high: float) -> None:
    """Numbers in [low, high) into `out`, float32 or float64; `low` where rounding gives `high`."""
    if fits(out, F32):
        width = float(np.float32(high) - np.float32(low))
        kernel = kernels.floats_between.compiled()
        return drawn(generator, kernel, out, out.size, width, low, high)
    if fits(out, F64):
        kernel = kernels.doubles_between.compiled()
        return drawn(generator, kernel, out, out.size, high - low, low, high)
    return reference.random_uniform(generator, out, low, high)


@implements("random_bernoulli")
def random_bernoulli(generator: Any, out: np.ndarray, below: int, value: float = 1) -> None:
    """`value` where the low 53 bits of 64 are less than `below`, else 0; in any dtype."""
    t = of(out.dtype)
    if t is None or not fits(out, out.dtype):
        return reference.random_bernoulli(generator, out, below, value)
    return drawn(generator, hits(T=t), out, out.size, below, value)


@implements("random_integers")
def random_integers(generator: Any, out: np.ndarray, low: int, span: int) -> None:
    """low + word % span into `out`, int64, by words of 32 bits; `span` below 2**28."""
    if out.dtype is not I64 or not out.size or not out.flags.carray:
        return reference.random_integers(generator, out, low, span)
    acquire, release, state = generator.native_state()
    acquire()
    try:
        integers()(state, out, out.size, low, span, 1 / span)
    finally:
        release()
    return None


@implements("random_normals")
def random_normals(
    out: np.ndarray, mean: float, std: float, tail: np.ndarray | None = None
) -> None:
    """Uniform numbers `out`, float32 [16 k], into normal ones; see `box_muller`. `tail`: 16 more."""
    if (
        out.__class__ is not np.ndarray
        or not out.flags.carray
        or out.dtype != np.float32
        or out.size % 16
        or (tail is not None and (not tail.flags.carray or tail.size != 16))
    ):
        return reference.random_normals(out, mean, std, tail)
    run = kernels.normals.compiled()
    run(out, out.size, mean, std)
    if tail is not None:
        run(tail, 16, mean, std)
    return None


@cache
def pairwise(dtype: np.dtype) -> Any:
    """The kernel of `random_scalar_normals`; None where the C library's functions are not Python's."""
    if dtype not in FLOATING or not all(map(libm.each, ("log1p", "cos", "sin"))):
        return None
    used = {name.upper(): external(name, f64, f64) for name in ("log1p", "cos", "sin")}
    return kernels.scalar_normals.compiled(T=of(dtype), **used)


@implements("random_scalar_normals")
def random_scalar_normals(generator: Any, out: np.ndarray, mean: float, std: float) -> None:
    """Normal numbers into `out`, of a floating type, in pairs; see `reference`."""
    kernel = pairwise(out.dtype)
    if kernel is None or not out.size or not out.flags.carray:
        return reference.random_scalar_normals(generator, out, mean, std)
    acquire, release, state = generator.native_state()
    acquire()
    try:
        kernel(state, out, out.size, mean, std, generator.spare_pair)
    finally:
        release()
    return None


@implements("random_normal_floats")
def random_normal_floats(generator: Any, out: np.ndarray, mean: float, std: float) -> None:
    """n >= 16 normal numbers into `out`, float32 [n]; see `reference`."""
    if out.dtype is not F32 or out.size < 16 or not out.flags.carray:
        return reference.random_normal_floats(generator, out, mean, std)
    acquire, release, state = generator.native_state()
    acquire()
    try:
        normals()(state, out, out.size, mean, std)
    finally:
        release()
    return None


@implements("random_wide_normals")
def random_wide_normals(
    out: np.ndarray, mean: float, std: float, tail: np.ndarray | None = None
) -> None:
    """As `random_normals`, float64, by the C library's logarithm and NumPy's sine and cosine."""
    if not fits(out, F64) or out.size % 16:
        return reference.random_wide_normals(out, mean, std, tail)
    both = libm.sine_and_cosine()
    for at in range(0, out.size, CHUNK):
        some = out[at : at + CHUNK]
        n = some.size // 2
        rest, angle = np.empty(n), np.empty(n)
        kernels.pairs_apart.compiled()(some, rest, angle, n)
        log = by_c_library("log", rest)
        if both is None:
            cosine, sine = np.cos(angle), np.sin(angle)
        else:
            cosine, sine = np.empty(n), rest
            both(angle, sine, cosine)
        kernels.pairs_together.compiled()(log, cosine, sine, some, n, mean, std)
    if tail is not None:
        reference.random_wide_normals(tail, mean, std)
    return None


@implements("by_c_library")
def by_c_library(name: str, x: np.ndarray) -> np.ndarray:
    """The C library's function `name` of each element, float64 [n]."""
    if x.size < SMALL or name not in libm.FUNCTIONS or (run := libm.each(name)) is None:
        return reference.by_c_library(name, x)
    x = np.ascontiguousarray(x, np.float64)
    out = np.empty_like(x)
    run(x, out)
    return out


@implements("random_permutation")
def random_permutation(generator: Any, out: np.ndarray) -> None:
    """0 to n - 1 in random order into `out`, int64 [n], n > 1: Fisher and Yates' shuffle."""
    if not fits(out, I64):
        return reference.random_permutation(generator, out)
    return drawn(generator, order(), out, out.size)


@cache
def exponentials(dtype: np.dtype, exact: bool) -> Any:
    """The kernel of `random_exponentials`, with the C library's logarithm where it is to be exact; None where that is
    not Python's."""
    if not exact:
        return kernels.exponentials.compiled(T=of(dtype), LOG1P=math.log1p)
    if not libm.each("log1p"):
        return None
    return kernels.exponentials.compiled(T=of(dtype), LOG1P=external("log1p", f64, f64))


@implements("random_exponentials")
def random_exponentials(generator: Any, out: np.ndarray, scale: float) -> None:
    """log(1 - u) * scale into `out`, float32 or float64."""
    d = out.dtype
    kernel = exponentials(d, d is F64 or out.size < 16) if d in FULL and fits(out, d) else None
    if kernel is None:
        return reference.random_exponentials(generator, out, scale)
    return drawn(generator, kernel, out, out.size, scale)


@cache
def transformed(kernel: Any, dtype: np.dtype, function: str) -> Any:
    """A kernel that calls a function of the C library, for results of a dtype; None where that is not Python's."""
    if not libm.each(function):
        return None
    return kernel.compiled(**{function.upper(): external(function, f64, f64)}, T=of(dtype))


@implements("random_cauchys")
def random_cauchys(generator: Any, out: np.ndarray, median: float, sigma: float) -> None:
    """median + sigma tan(pi (u - 1/2)) into `out`, float32 or float64."""
    d = out.dtype
    kernel = transformed(kernels.cauchys, d, "tan") if d in FULL and fits(out, d) else None
    if kernel is None:
        return reference.random_cauchys(generator, out, median, sigma)
    return drawn(generator, kernel, out, out.size, median, sigma)


@implements("random_geometrics")
def random_geometrics(generator: Any, out: np.ndarray, p: float) -> None:
    """The number of trials of probability `p` until the first success into `out`, float32, float64 or int64."""
    d = out.dtype
    known = (d in FULL or d is I64) and fits(out, d)
    kernel = transformed(kernels.geometrics, d, "log") if known else None
    if kernel is None:
        return reference.random_geometrics(generator, out, p)
    return drawn(generator, kernel, out, out.size, math_of_python.log1p(-p))


SLOPES = Compiled(kernels.slopes)


@implements("random_slopes")
def random_slopes(generator: Any, a: np.ndarray, low: float, high: float) -> np.ndarray:
    """1 for each element of `a` above 0; for the others a number of [low, high). See `reference`."""
    d = a.dtype
    if d not in FLOATING or not fits(a, d):
        return reference.random_slopes(generator, a, low, high)
    out = np.empty(a.shape, compute_dtype(d))
    drawn(generator, SLOPES[(d,)], a, out, out.size, high - low, low)
    return out


@implements("random_choices")
def random_choices(generator: Any, weights: np.ndarray, n: int) -> np.ndarray:
    """n places in each row of `weights` [m, k], with probabilities in proportion to them, as int64 [m, n]."""
    if not plain(weights):
        return reference.random_choices(generator, weights, n)
    rows, k = weights.shape
    uniform, out = generator.doubles(rows * n), np.empty((rows, n), np.int64)
    run = kernels.chosen.compiled(T=of(weights.dtype))
    run(weights, uniform, np.empty_like(weights), out, rows, k, n)
    return out


@implements("invalid_weights")
def invalid_weights(weights: np.ndarray) -> tuple[bool, bool]:
    """Whether an element of `weights` [m, k] is negative, infinite or no number; whether a row has none above 0."""
    if not plain(weights):
        return reference.invalid_weights(weights)
    found = np.zeros(2, np.int64)
    kernels.check_weights.compiled(T=of(weights.dtype))(weights, found, *weights.shape)
    return bool(found[0]), bool(found[1])


def plain(weights: np.ndarray) -> bool:
    return bool(weights.size) and weights.dtype in FULL and weights.flags.carray
