"""Which arrays compiled kernels take; native code gets their memory, so this comes first."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.backends.compiled import threshold

LARGE = threshold(1024)  # for kernels that are called with arrays, not by way of a ufunc
FLOATS = frozenset("fd")  # dtype.char; half types are computed in f32
HALVES = frozenset(("float16", "bfloat16"))
# A dtype's name is made by Python code, its hash is kept: asking so takes a tenth of the time.
KNOWN = frozenset(map(np.dtype, (np.float32, np.float64, np.float16, dtypes.bfloat16.np)))


def known(a: Any) -> bool:
    """Whether it is an array (no NumPy number, whose object is another one) of a floating dtype that
    kernels know, in this machine's order of bytes."""
    return a.__class__ is np.ndarray and a.dtype in KNOWN


def takes(a: Any) -> bool:
    """Whether it is an array (no NumPy number, whose object is another one), large enough, and of a
    floating dtype that kernels know."""
    return a.__class__ is np.ndarray and a.size >= LARGE and a.size > 0 and a.dtype in KNOWN
