"""Activation functions that several compiled kernels call, and the loops of `glu`."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import math
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i64


@inline
def hardtanh(a, low, high):
    """min(max(a, low), high), NaN of NaN: `high` wins where low > high."""
    c = low if a < low else a
    return high if c > high else c


@inline
def clip_gradient(g, a, low, high):
    """g between the bounds, which are included."""
    return select((a >= low) & (a <= high), g, typeof(g)(0))


@kernel
def glu(a: Ptr[T], out: Ptr[T], outer: i64, n: i64):
    """out = x * sigmoid(y), the rows of `a` being n elements x and n elements y."""
    for lo, hi in parallel(outer, rows_of(n)):
        for r in range(lo, hi):
            x, y, to = a + r * 2 * n, a + (r * 2 + 1) * n, out + r * n
            for i in lanes(0, n):
                to[i] = x[i] * math.sigmoid(T.loaded(y[i]))


@kernel
def glu_gradient(g: Ptr[T], a: Ptr[T], out: Ptr[T], outer: i64, n: i64):
    """The gradient by `a`."""
    for lo, hi in parallel(outer, rows_of(2 * n)):
        for r in range(lo, hi):
            h, x, y = g + r * n, a + r * 2 * n, a + (r * 2 + 1) * n
            p, q = out + r * 2 * n, out + (r * 2 + 1) * n
            for i in lanes(0, n):
                v, s = T.loaded(h[i]), math.sigmoid(T.loaded(y[i]))
                p[i] = v * s
                q[i] = v * x[i] * s * (1 - s)
