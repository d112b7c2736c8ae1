"""Which arrays compiled kernels take; native code gets their memory, so this comes first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._backends.llvm import threshold
from rushlight.core.dtype_sets import FLOATING

LARGE = threshold(1024)  # for kernels that are called with arrays, not by way of a ufunc


def known(a: Any) -> bool:
    """Whether it is an array (no NumPy number, whose object is another one) of a floating dtype that
    kernels know, in this machine's order of bytes."""
    return a.__class__ is np.ndarray and a.dtype in FLOATING


def takes(a: Any) -> bool:
    """Whether it is an array (no NumPy number, whose object is another one), large enough, and of a
    floating dtype that kernels know."""
    return a.__class__ is np.ndarray and a.size >= LARGE and a.size > 0 and a.dtype in FLOATING


class Made(dict):
    """What `make(*key)` gives, kept by the key: to find a kernel of small arrays takes a fifth of the
    time of asking `compiled` for it by the names of its types.

    >>> Made(lambda a, b: a + b)[1, 2]
    3
    """

    def __init__(self, make: Callable) -> None:
        self.make = make

    def __missing__(self, key: tuple) -> Any:
        self[key] = made = self.make(*key)
        return made
