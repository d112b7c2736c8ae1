"""Random numbers of a given distribution into an array: PyTorch's CPU samplers, number for number.

Every function takes a NumPy array and a `Generator`, fills the array and leaves the generator in the state that PyTorch's
would be in. An array that is not contiguous is filled in the order in which PyTorch's element-wise loops walk through
memory. A call that raises has drawn nothing.

What is equal bit for bit, with PyTorch 2.13 for x86-64 as the reference: everything in this file, for every dtype. The
logarithms and exponentials behind float64 results are those of the C library, as in PyTorch, so there another version of
that library may change the last bit; NumPy's own, which are faster and differ in the last bit now and then, serve where
the result is rounded to float32 or less.

>>> out = np.empty(3, np.float32)
>>> uniform_(out, 0.0, 1.0, Generator().manual_seed(0))
>>> out
array([0.4962566 , 0.7682218 , 0.08847743], dtype=float32)
"""

from __future__ import annotations

import functools
import math
import warnings

import ml_dtypes
import numpy as np

from rushlight._backends import cpu as xp
from rushlight.core.dtype_sets import (
    BF16,
    COMPLEX,
    F16,
    F32,
    F64,
    FLOATING,
    FULL,
    I64,
    REDUCED,
    STORED_ONLY,
)
from rushlight.core.dtypes import OF
from rushlight.rng.generator import Generator

# The bits of the significand: integers up to 2**digits are exact.
_DIGITS = {F16: 11, BF16: 8, F32: 24, F64: 53}
_WIDE = 1 << 28  # from this range on, an integer is made of 64 bits
_HUGE = (2**32 - 1) // 20  # from this length on, randperm draws 64 bits per element


# ------------------------------------------------------------------------------------------------------ writing


def memory_order(out: np.ndarray) -> tuple[int, ...]:
    """The dimensions of `out`, slowest first, in the order of PyTorch's element-wise loops over it.

    The dimension with the smallest stride moves fastest; of equal strides, the later dimension.
    """
    if out.flags.c_contiguous:
        return tuple(range(out.ndim))
    fast_first = list(range(out.ndim))[::-1]
    for i in range(1, out.ndim):
        current = i
        for other in range(i - 1, -1, -1):
            a, b = fast_first[other], fast_first[current]
            if out.strides[a] == 0 or out.strides[b] == 0:
                continue
            if (out.strides[a], out.shape[a]) <= (out.strides[b], out.shape[b]):
                break
            fast_first[other], fast_first[current] = b, a
            current = other
    return tuple(fast_first[::-1])


def in_memory_order(out: np.ndarray) -> np.ndarray:
    """`out` with its dimensions in the order in which it is filled."""
    return out if out.flags.c_contiguous else out.transpose(memory_order(out))


def _write(out: np.ndarray, values: np.ndarray) -> None:
    """Copy `values` [n] into `out`, converted as C++ does it: float64 goes to the half types by way of float32."""
    if out.flags.c_contiguous and (values.dtype is out.dtype or values.dtype.kind == "b"):
        out.reshape(-1)[...] = values
        return
    if out.dtype in REDUCED and values.dtype in FULL:
        halves = xp.cast(xp.cast(values, F32) if values.dtype is F64 else values, out.dtype)
        view = in_memory_order(out)
        view[...] = halves.reshape(view.shape)
        return
    view = out.reshape(-1) if out.flags.c_contiguous else in_memory_order(out)
    with np.errstate(all="ignore"):
        np.copyto(view, values.reshape(view.shape), casting="unsafe")


def _as_real(out: np.ndarray) -> np.ndarray:
    """Complex `out` as a real array with one more dimension, of size 2; in the same memory."""
    return out[..., None].view(OF[out.dtype].to_real().np)


def refuse(kernel: str, dtype: np.dtype) -> None:
    raise NotImplementedError(f'"{kernel}" not implemented for {OF[dtype].scalar_name!r}')


# ----------------------------------------------------------------------------------------- uniform and normal


def uniform_(out: np.ndarray, low: float, high: float, generator: Generator) -> None:
    """Uniform numbers of [`low`, `high`): 24 random bits, 53 for float64. Floating-point or complex `out`.

    Computed in float32, in float64 for float64. A number that rounds to `high` becomes `low`. RuntimeError for bounds
    that the dtype cannot hold, for `low > high`, and where the difference is not finite.
    """
    low, high = float(low), float(high)
    if out.dtype in COMPLEX:
        out = _as_real(out)
    if out.dtype not in FLOATING:
        refuse("check_uniform_bounds", out.dtype)
    if (low, high) != (0.0, 1.0):
        _check_bounds(out.dtype, low, high)
    out = in_memory_order(out)
    double, half, unit = out.dtype is F64, out.dtype in REDUCED, low == 0.0 and high == 1.0
    direct = out.flags.c_contiguous and (unit or not half)
    u = out.reshape(-1) if direct else np.empty(out.size, np.float64 if double else np.float32)
    if unit:
        (generator.doubles if double else generator.floats)(out.size, u)
    else:
        xp.random_uniform(generator, u, low, high)
    if direct:
        return
    if half:
        reached = u >= _rounded_to(high, out.dtype)
        if reached.any():
            u[reached] = np.float32(low).astype(out.dtype)
    _write(out, u)


@functools.cache
def _rounded_to(bound: float, dtype: np.dtype) -> np.float32:
    """The least float32 number that a half type rounds to a bound, to the nearest, of two to the even one."""
    most = np.float32(bound).astype(dtype)
    below = np.nextafter(most, dtype.type(-np.inf))
    middle = (np.float32(most) + np.float32(below)) / np.float32(2)  # exact
    return middle if middle.astype(dtype) == most else np.nextafter(middle, np.float32(np.inf))


def slopes(a: np.ndarray, low: float, high: float, generator: Generator) -> np.ndarray:
    """Ones; for each element of `a` up to 0, in row-major order, a uniform number of [`low`, `high`) of 53 bits. In
    float32, in float64 for float64."""
    if not 0.0 <= low <= high <= 1.0:
        _check_bounds(F64, low, high)
    return xp.random_slopes(generator, xp.contiguous(a), low, high)


@functools.cache
def _largest(dtype: np.dtype) -> float:
    return float(ml_dtypes.finfo(dtype).max)


def _check_bounds(dtype: np.dtype, low: float, high: float) -> None:
    top = _largest(dtype)
    for bound, value in (("from", low), ("to", high)):
        if not -top <= value <= top:
            raise RuntimeError(
                f"{bound} is out of bounds for {dtype.name}: uniform_ wants |{bound}| <= {top:g}, got {value:g}"
            )
    if low > high:
        raise RuntimeError(
            f"uniform_ expects to return a [from, to) range, but found from={low:g} > to={high:g}"
        )
    if high - low > top:
        raise RuntimeError(
            f"uniform_ expects to-from <= std::numeric_limits<{OF[dtype].scalar_name}>::max(), "
            f"but found to={high:g} and from={low:g} which result in to-from to exceed the limit"
        )


def normal_(out: np.ndarray, mean: float, std: float, generator: Generator) -> None:
    """Normal numbers, floating-point or complex (where `std` is that of the complex number).

    Contiguous arrays of 16 elements or more are filled with uniform numbers and transformed in blocks of 16; the last 16
    are drawn again if they are not a block. All others are drawn in pairs of float64, whose second number the
    generator keeps for the next call. RuntimeError for a negative `std`.
    """
    mean, std = float(mean), float(std)
    if not std >= 0.0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std:g}")
    if out.dtype is not F32:
        if out.dtype in COMPLEX:
            out = _as_real(out)
            std /= math.sqrt(2.0)
        if out.dtype not in FLOATING:
            refuse("normal_kernel_cpu", out.dtype)
    if out.size >= 16 and out.flags.c_contiguous:
        if out.dtype is F32:
            xp.random_normal_floats(generator, out.reshape(-1), mean, std)
        else:
            _normal_blocks(out.reshape(-1), mean, std, generator)
    elif out.size:
        _scalar_normals(out, mean, std, generator)


def _scalar_normals(out: np.ndarray, mean: float, std: float, generator: Generator) -> None:
    """Normal numbers one after the other, as scalar code draws them: in pairs of float64."""
    out = in_memory_order(out)
    if out.flags.c_contiguous:
        xp.random_scalar_normals(generator, out.reshape(-1), mean, std)
    else:
        z = np.empty(out.size)
        xp.random_scalar_normals(generator, z, mean, std)
        with np.errstate(all="ignore"):
            _write(out, z)


@np.errstate(all="ignore")
def _normal_blocks(out: np.ndarray, mean: float, std: float, generator: Generator) -> None:
    double = out.dtype == np.float64
    n, whole = out.size, out.size // 16 * 16
    # The half types never draw the numbers that the last block replaces; the others do.
    u = out if double else np.empty(whole, np.float32)
    draw = generator.doubles if double else generator.floats
    draw(u.size, u)
    tail = None if whole == n else draw(16)
    (xp.random_wide_normals if double else xp.random_normals)(u[:whole], mean, std, tail)
    if u is not out:
        out[:whole] = u
    if tail is not None:
        out[n - 16 :] = tail


# --------------------------------------------------------------------------------------------------- integers


def _warn_beyond(name: str, bound: int, dtype: np.dtype) -> None:
    """Warn of a bound from which on the floating type does not hold every integer."""
    exact = 1 << _DIGITS[dtype]
    if not -exact <= bound <= exact:
        warnings.warn(
            f"{name} is out of bounds [-(2^{_DIGITS[dtype]}), 2^{_DIGITS[dtype]}]. Due to precision limitations "
            f"{OF[dtype].name} can support discrete uniform distribution only within this range.",
            UserWarning,
            stacklevel=4,
        )


def random_(out: np.ndarray, low: int | None, high: int | None, generator: Generator) -> None:
    """Integers of [`low`, `high`), of any dtype but the complex ones.

    Without bounds: all non-negative integers that the dtype holds exactly. `low` alone: up to the largest of the dtype.
    The remainder of 32 random bits, or of 64 where the range has 2**28 values or more. RuntimeError for an empty range
    and for bounds that the dtype cannot hold.
    """
    kind = out.dtype.kind
    if out.dtype in COMPLEX:
        refuse("random_kernel_cpu", out.dtype)
    floating = out.dtype in FLOATING
    if low is None and high is None:
        _random_all(out, generator)
        return
    low = 0 if low is None else int(low)
    if floating:
        _warn_beyond("from", low, out.dtype)
        if high is not None:
            _warn_beyond("to - 1", int(high) - 1, out.dtype)
        low = _inward(low, 1, out.dtype)
        high = None if high is None else _inward(int(high), -1, out.dtype)
    least, most = _integers_of(out.dtype)
    if high is None:
        last = most
        if floating and low > -(1 << 63):
            last = 1 << _DIGITS[out.dtype]
        if low > last or (floating and low == last):
            raise RuntimeError(
                f"random_ expects 'from' to be less than or equal to 'to_inc' but got from={low} > to_inc={last}"
            )
    else:
        last = int(high) - 1
        if low > last:
            raise RuntimeError(
                f"random_ expects 'from' to be less than 'to', but got from={low} >= to={last + 1}"
            )
    for bound, value in (("from", low), ("to - 1", last)):
        if not least <= value <= most:
            raise RuntimeError(
                f"{bound} is out of bounds for {out.dtype.name}: {value} is not in [{least}, {most}]"
            )
    span = last - low + 1
    if span < _WIDE:
        out = in_memory_order(out)
        direct = out.dtype == np.int64 and out.flags.c_contiguous
        words = out if direct else np.empty(out.size, np.int64)
        xp.random_integers(generator, words, low, span)
        if not direct:
            if out.dtype.itemsize == 2 and floating:
                words = words.astype(np.float32)
            _write(out, words)
        return
    words = generator.wide_words(out.size)
    if span < 1 << 64:
        words %= np.uint64(span)
    else:
        low = 0
    if low:
        words += np.uint64(low % (1 << 64))  # wraps, so that negative bounds come out right
    if floating or kind == "i":
        words = words.view(np.int64)
    if out.dtype.itemsize == 2 and floating:
        words = words.astype(np.float32)
    _write(out, words)


def _random_all(out: np.ndarray, generator: Generator) -> None:
    dtype = out.dtype
    if dtype in STORED_ONLY:
        refuse("random_kernel_cpu", out.dtype)
    words = (generator.wide_words if dtype in (I64, F64) else generator.words)(out.size)
    if dtype in FLOATING:
        words %= np.uint64((1 << _DIGITS[dtype]) + 1)
    else:
        bits = 1 if dtype.kind == "b" else 8 * dtype.itemsize - (dtype.kind == "i")
        words &= np.uint64((1 << bits) - 1)
    _write(out, words.view(np.int64))


def _inward(bound: int, step: int, dtype: np.dtype) -> int:
    """`bound`, moved inward by one spacing of the floating-point `dtype` where its neighbour rounds outwards past it."""
    near = (
        float(bound + step)
        if dtype == np.float64
        else float(np.float32(bound + step).astype(dtype))
    )
    neighbour = (
        int(near) if abs(near) < 2.0**63 else -(1 << 63)
    )  # what the processor makes of an overflow
    if neighbour >= bound if step > 0 else neighbour < bound:
        return bound
    return neighbour + step * (1 << max(abs(bound + step).bit_length() - _DIGITS[dtype], 0))


@functools.cache
def _integers_of(dtype: np.dtype) -> tuple[int, int]:
    """The least and the largest integer that bounds of `dtype` may be."""
    if dtype.kind == "b":
        return 0, 1
    if dtype in FLOATING:
        most = min(int(float(ml_dtypes.finfo(dtype).max)), (1 << 63) - 1)
        return (-(1 << 63) if most == (1 << 63) - 1 else -most), most
    least, most = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return least, min(most, (1 << 63) - 1)


def check_count(n: int, dtype: np.dtype) -> None:
    """RuntimeError for a dtype that does not count to n - 1."""
    if dtype in FLOATING:
        if n > (1 << _DIGITS[dtype]) + 1:
            raise RuntimeError(
                f"n cannot be greater than 2^{_DIGITS[dtype]}+1 for {OF[dtype].scalar_name} type, got {n}."
            )
    elif dtype.kind in "iu" and n - 1 > np.iinfo(dtype).max:
        raise RuntimeError(f"value cannot be converted to type {dtype.name} without overflow: {n}")


def randperm(n: int, generator: Generator, dtype: np.dtype | type = np.int64) -> np.ndarray:
    """The numbers 0 to `n` - 1 in random order, as `dtype` [n]: Fisher and Yates' shuffle.

    Element i is swapped with element i + (word % (n - i)), for i = 0, 1, ... RuntimeError for a negative `n` and one
    that the dtype cannot count to.
    """
    dtype = np.dtype(dtype)
    if n < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension {n}: [{n}]")
    check_count(n, dtype)
    if dtype.kind in "bc":
        refuse("randperm", dtype)
    if n < 2:
        return np.zeros(n, dtype)
    if n >= _HUGE:
        return _shuffle_huge(n, generator).astype(dtype)
    order = np.empty(n, np.int64)
    xp.random_permutation(generator, order)
    return order.astype(dtype, copy=False)


def _shuffle_huge(n: int, generator: Generator) -> np.ndarray:
    """For lengths where a remainder of 32 bits would favour small numbers: Fisher-Yates from the inside out."""
    order = np.empty(n, np.int64)
    for at in range(0, n, 1 << 20):
        count = min(1 << 20, n - at)
        draws = generator.wide_words(count) % np.arange(at + 1, at + 1 + count, dtype=np.uint64)
        for i, j in enumerate(draws.tolist(), at):
            order[i] = order[j] if j != i else i
            order[j] = i
    return order


# ---------------------------------------------------------------------- one draw of 64 bits for each element


def bernoulli_(
    out: np.ndarray, p: float | np.ndarray, generator: Generator, value: float = 1
) -> None:
    """Ones with probability `p`, zeros otherwise; `p` a number, or a floating-point array that broadcasts to `out`.
    For a number, `value` can replace the ones.

    A number or float64 probabilities are compared with 53 random bits, others with 24. RuntimeError for `p` outside of
    [0, 1].
    """
    if out.dtype in COMPLEX or out.dtype.kind == "u" and out.dtype.itemsize > 1:
        refuse("bernoulli_scalar_cpu_", out.dtype)
    if not isinstance(p, np.ndarray):
        p = float(p)
        if not 0.0 <= p <= 1.0:
            raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={p:g}")
        # u < p for u = k / 2**53 is k < p * 2**53, and the right side is exact.
        out = in_memory_order(out)
        hits = out if out.flags.c_contiguous else np.empty(out.size, bool)
        below = math.ceil(p * 2.0**53)
        if hits is out:
            xp.random_bernoulli(generator, out, below, value)
        else:
            xp.random_bernoulli(generator, hits, below)
            _write(out, hits)
            if value != 1:
                out *= out.dtype.type(value)
        return
    if p.dtype not in FLOATING:
        refuse("bernoulli_tensor_cpu_p_", p.dtype)
    one = p.size == out.size == 1  # Python's numbers are compared in less time
    least = most = p.item() if one else 0
    if p.size and not one:
        least, most = xp.amin(p, None, False).item(), xp.amax(p, None, False).item()
    if not (least >= 0 and most <= 1):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    u = (generator.doubles if p.dtype == np.float64 else generator.floats)(out.size)
    if one:
        out.fill(u.item() < least)
        return
    if p.shape == out.shape and p.flags.c_contiguous and out.flags.c_contiguous:
        out[...] = u.reshape(p.shape) < (p if p.dtype is u.dtype else p.astype(u.dtype))
        return
    p = np.broadcast_to(p, out.shape)
    order = memory_order(out)
    view = out.transpose(order)
    np.copyto(view, u.reshape(view.shape) < p.transpose(order).astype(u.dtype), casting="unsafe")


def exponential_(out: np.ndarray, rate: float, generator: Generator) -> None:
    """Exponential numbers of mean 1 / `rate`: -log(1 - u) / rate. RuntimeError for a rate not above 0."""
    if out.dtype not in FLOATING:
        raise RuntimeError(
            "Exponential distribution is a continuous probability distribution. "
            f"dtype must be a floating point but you specified {OF[out.dtype].scalar_name}"
        )
    if not rate > 0.0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={rate:g}")
    out = in_memory_order(out)
    direct = out.dtype in FULL and out.flags.c_contiguous
    drawn = out if direct else np.empty(out.size, F64 if out.dtype == F64 else F32)
    xp.random_exponentials(generator, drawn, -1.0 / rate)
    if not direct:
        _write(out, drawn)


def cauchy_(out: np.ndarray, median: float, sigma: float, generator: Generator) -> None:
    """Cauchy numbers: median + sigma tan(pi (u - 1/2)). RuntimeError for a `sigma` not above 0."""
    if out.dtype not in FLOATING:
        raise RuntimeError(
            "Cauchy distribution is a continuous probability distribution. "
            f"dtype must be a floating point but you specified {out.dtype.name}"
        )
    if not sigma > 0.0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma:g}")
    out = in_memory_order(out)
    direct = out.dtype in FULL and out.flags.c_contiguous
    drawn = out if direct else np.empty(out.size, F64 if out.dtype == F64 else F32)
    xp.random_cauchys(generator, drawn, float(median), float(sigma))
    if not direct:
        _write(out, drawn)


def log_normal_(out: np.ndarray, mean: float, std: float, generator: Generator) -> None:
    """Numbers whose logarithm is normal. RuntimeError for a `std` not above 0."""
    if not std > 0.0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std:g}")
    if out.dtype not in FLOATING:
        refuse("log_normal_cpu", out.dtype)
    z = np.empty(out.size)
    xp.random_scalar_normals(generator, z, float(mean), float(std))
    z = xp.by_c_library("exp", z)
    _write(out, xp.cast(z, F32) if out.dtype is F32 else z)


def geometric_(out: np.ndarray, p: float, generator: Generator) -> None:
    """How many trials of probability `p` until the first success. RuntimeError for `p` outside of (0, 1)."""
    if not 0.0 < p < 1.0:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p:g}")
    if out.dtype.kind in "bc" or out.dtype in STORED_ONLY:
        refuse("geometric_cpu", out.dtype)
    out = in_memory_order(out)
    direct = (out.dtype in FULL or out.dtype is I64) and out.flags.c_contiguous
    drawn = out if direct else np.empty(out.size)
    xp.random_geometrics(generator, drawn, p)
    if not direct:
        _write(out, drawn)
