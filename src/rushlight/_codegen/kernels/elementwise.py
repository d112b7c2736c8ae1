"""Functions of numbers that loops over elements call (`loops.py`), a choice by a condition, and a fill.

What does not fit into the caches is written around them (`stream`), which saves reading the memory that is
about to be overwritten.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import math
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, Type, i64, u8

GRAIN = 16384  # elements in a chunk
STREAM = 32 << 20  # bytes of a result from which it is written around the caches
WIDTH = 64  # bytes of a vector and of a cache line


def streamed(t: Type) -> int:
    """Lanes of a vector that fills a cache line when it is stored."""
    return WIDTH // t.size


@kernel
def choose(ONE_A, ONE_B, condition: Ptr[u8], a: Ptr[T], b: Ptr[T], out: Ptr[T], n: i64):
    """out = a where the condition, a byte, is not 0, else b; either may be one element for all."""
    for lo, hi in parallel(n, GRAIN):
        x, y = a[0], b[0]
        for i in lanes(lo, hi):
            out[i] = select(condition[i] != 0, x if ONE_A else a[i], y if ONE_B else b[i])


# Functions of one number. The slopes are their derivatives.


@inline
def relu(x):
    """max(x, 0), NaN for NaN; -0 for -0, as PyTorch's."""
    return 0 if x < 0 else x


@inline
def gelu(x):
    """x * Phi(x), Phi the normal distribution function (Hendrycks and Gimpel 2016)."""
    a = -abs(x)
    least = math.TAIL[typeof(x)]
    c = least if a < least else a
    away = x if x < c else c  # x itself below 0; finite above it, where the tail may be 0
    e, r = math.normal_parts(a)
    return fma(away * r, e, 0 if x < 0 else x)


@inline
def gelu_slope(x):
    """Phi(x) + x * phi(x)."""
    e, r = math.normal_parts(-abs(x))
    q = e * r
    phi = q if x < 0 else 1 - q
    density = 0.3989422804014327 / float(math.tail(typeof(x))[2])  # of e at 0
    return fma(x * density, e, phi)


@inline
def sigmoid_of_gelu(x):
    """(1 + tanh(u)) / 2 of u = sqrt(2 / pi) * (x + 0.044715 * x**3)"""
    return math.sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x))


@inline
def gelu_tanh(x):
    """gelu by its approximation with tanh."""
    return x * sigmoid_of_gelu(x)


@inline
def gelu_tanh_slope(x):
    s = sigmoid_of_gelu(x)
    inner = 1.5957691216057308 * (1 + 0.134145 * x * x)
    return s + x * s * (1 - s) * inner


@inline
def silu(x):
    """x * sigmoid(x)."""
    return x * math.sigmoid(x)


@inline
def silu_slope(x):
    s = math.sigmoid(x)
    return s * (1 + x * (1 - s))


@inline
def softplus(x):
    """log(1 + exp(x)), without overflow; 0 where exp(x) is no normal number."""
    return (0 if x < 0 else x) + math.log1p_of_exp(-abs(x))


@inline
def tanh_of_softplus(x):
    """((1 + e)**2 - 1) / ((1 + e)**2 + 1) of e = exp(x), written in exp(-|x|)."""
    e = math.exp_below(-abs(x))
    top = select(x < 0, e * (e + 2), 2 * e + 1)
    return top / (top + select(x < 0, typeof(x)(2), 2 * e * e))


@inline
def mish(x):
    """x * tanh(softplus(x)) (Misra 2019)."""
    return x * tanh_of_softplus(x)


@inline
def rsqrt(x):
    """1 / sqrt(x)."""
    return 1 / sqrt(x)


# Functions of more.


@inline
def above(g, x, threshold):
    """g where x is above the threshold or NaN, else 0."""
    return select(x <= threshold, typeof(g)(0), g)


@inline
def add_scaled(a, b, s):
    """a + s * b, each step rounded."""
    return a + b * s


@inline
def add_product(a, b, c, s):
    """a + s * b * c."""
    return a + b * s * c


@inline
def add_quotient(a, b, c, s):
    """a + s * b / c."""
    return a + b * s / c


@inline
def between(a, b, s):
    """a + s * (b - a), exact at both ends."""
    away = b - a
    return a + s * away if abs(s) < 0.5 else b - away * (1 - s)


@kernel
def fill(out: Ptr[T], value: i64, n: i64):
    """out[i] = the low bits of a number."""
    v = T(value)
    for lo, hi in parallel(n, 2 * GRAIN):
        for i in lanes(lo, hi):
            out[i] = v
