"""What examples of arguments are drawn from: sizes, shapes, arrays of small numbers."""

from __future__ import annotations

import numpy as np

from rushlight.core import dtypes

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
FLOATS = [F32, F32, F64, np.dtype(np.float16), dtypes.bfloat16.np]
INTEGERS = [np.dtype(t) for t in (np.int64, np.int32, np.uint8, np.int16)]


def small(rng, low=1, high=9):
    return int(rng.integers(low, high))


def some(rng, shape, dtype):
    """Numbers around 0, in any dtype."""
    if dtype.kind in "iu":
        return rng.integers(0, 9, shape).astype(dtype)
    return np.asarray(rng.standard_normal(shape).astype(dtype))


def shape_of(rng, least=0, most=4):
    return tuple(small(rng) for _ in range(rng.integers(least, most + 1)))


def long_or(rng, *others):
    """A size at which kernels use vectors, or one of the others."""
    return int(rng.choice([*others, small(rng, 1, 80)]))


def any_shape(rng):
    return shape_of(rng) if rng.integers(2) else (long_or(rng, 1, 33), long_or(rng, 1, 33))


def axis_of(rng, a):
    return int(rng.integers(-a.ndim, a.ndim)) if a.ndim else 0


def index_into(rng, shape, n, d=None):
    return rng.integers(0, n, shape).astype(d or (np.int64, np.int32)[rng.integers(2)])
