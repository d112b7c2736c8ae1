"""The C library's functions of every element of an array, in native code.

Where results are to be those of the C library to the last bit, as PyTorch's float64 random numbers
are, no other polynomial will do, and a loop in Python takes ten times as long as the functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from rushlight._codegen.kernel import kernel
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f64, i64

FUNCTIONS = ("cos", "exp", "log", "log1p", "sin", "tan")


@kernel
def each_element(FUNCTION, x: Ptr[f64], out: Ptr[f64], n: i64):
    for i in range(n):
        out[i] = FUNCTION(x[i])


@kernel
def both_of_each(SINCOS, x: Ptr[f64], sine: Ptr[f64], cosine: Ptr[f64], n: i64):
    for i in range(n):
        SINCOS(x[i], sine + i, cosine + i)


@cache
def each(name: str) -> Callable[[np.ndarray, np.ndarray], None] | None:
    """The loop over a float64 array into another of its size, both contiguous; None where the
    function that it calls is not the one that Python calls."""
    try:
        loop = each_element.compiled(FUNCTION=external(name, f64, f64))
    except RuntimeError:
        return None

    def run(x: np.ndarray, out: np.ndarray) -> None:
        loop(x, out, x.size)

    x = np.linspace(0.0, 1.0, 1002)[1:-1]
    out = np.empty_like(x)
    run(x, out)
    return run if out.tolist() == list(map(getattr(math, name), x.tolist())) else None


@cache
def sine_and_cosine() -> Callable[[np.ndarray, np.ndarray, np.ndarray], None] | None:
    """(x, sine, cosine): both of each element, which GNU's library computes in one; None where it is
    another, or NumPy's are not the same to the last bit."""
    try:
        sincos = external("sincos", None, f64, Ptr[f64], Ptr[f64])
        loop = both_of_each.compiled(SINCOS=sincos)
    except RuntimeError:
        return None

    def run(x: np.ndarray, sine: np.ndarray, cosine: np.ndarray) -> None:
        loop(x, sine, cosine, x.size)

    x = np.linspace(0.0, 2 * math.pi, 2001)
    sine, cosine = np.empty_like(x), np.empty_like(x)
    run(x, sine, cosine)
    same = np.array_equal(sine, np.sin(x)) and np.array_equal(cosine, np.cos(x))
    return run if same else None
