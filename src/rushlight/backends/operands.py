"""Which arrays compiled kernels take; native code gets their memory, so this comes first."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.backends.compiled import threshold

LARGE = threshold(1024)  # for kernels that are called with arrays, not by way of a ufunc
FLOATS = frozenset("fd")  # dtype.char; half types are computed in f32
HALVES = frozenset(("float16", "bfloat16"))


def takes(a: Any) -> bool:
    """Whether it is an array (no NumPy number, whose object is another one), large enough, and of a
    floating dtype that kernels know."""
    if a.__class__ is not np.ndarray:
        return False
    return a.size >= LARGE and a.size > 0 and (a.dtype.char in FLOATS or a.dtype.name in HALVES)
