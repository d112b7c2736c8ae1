"""Activation functions with numbers of their own, and their gradients, for kernels.

A gradient is a function of g, the gradient of the result, and of what the function was given; it is
written so that an infinite value on a side that was not taken does no harm.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels import elementwise, math
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import fma, inline, lanes, parallel, select, typeof
from rushlight._codegen.types import Ptr, i64

# Straight pieces.


@inline
def leaky_relu(a, slope):
    return a if a > 0 else a * slope


@inline
def leaky_relu_gradient(g, a, slope):
    return select(a > 0, g, g * slope)


@inline
def hardtanh(a, low, high):
    """min(max(a, low), high), NaN of NaN: `high` wins where low > high."""
    c = low if a < low else a
    return high if c > high else c


@inline
def hardtanh_gradient(g, a, low, high):
    """g strictly between the bounds."""
    return select((a > low) & (a < high), g, typeof(g)(0))


@inline
def clip_gradient(g, a, low, high):
    """g between the bounds, which are included."""
    return select((a >= low) & (a <= high), g, typeof(g)(0))


@inline
def hardsigmoid(a):
    """a / 6 + 1 / 2 between 0 and 1."""
    return hardtanh(a / 6 + 0.5, 0, 1)


@inline
def hardsigmoid_gradient(g, a):
    return select((a > -3) & (a < 3), g / 6, typeof(g)(0))


@inline
def hardswish(a):
    """a * min(max(a + 3, 0), 6) / 6 (Howard et al. 2019)."""
    return a * hardtanh(a + 3, 0, 6) / 6


@inline
def hardswish_gradient(g, a):
    inner = g * fma(a, 1 / 3, 0.5)
    return select(a <= -3, typeof(g)(0), select(a >= 3, g, inner))


@inline
def threshold(a, least, value):
    """a above `least` and NaN, else the value."""
    return select(a <= least, typeof(a)(value), a)


@inline
def hardshrink(a, width):
    return select((a >= -width) & (a <= width), typeof(a)(0), a)


@inline
def softshrink(a, width):
    """a moved towards 0 by `width`; within it 0, NaN of NaN."""
    return select(a > width, a - width, select(a < -width, a + width, a * 0))


@inline
def shrink_gradient(g, a, width):
    return select((a >= -width) & (a <= width), typeof(g)(0), g)


# Smooth ones.


@inline
def elu(a, above, below, inner):
    """above * a for a > 0, else below * (exp(inner * a) - 1)."""
    c = 0 if a > 0 else a
    return select(a > 0, a * above, math.expm1(c * inner) * below)


@inline
def elu_gradient(g, a, above, below, inner):
    c = 0 if a > 0 else a
    return select(a > 0, g * above, g * (math.exp(c * inner) * (below * inner)))


@inline
def softplus(a, beta, most):
    """log(1 + exp(beta * a)) / beta, and a where beta * a > most."""
    x = a * beta
    return select(x > most, a, elementwise.softplus(x) / beta)


@inline
def softplus_gradient(g, a, beta, most):
    x = a * beta
    return select(x > most, g, g * math.sigmoid(x))


@inline
def log_sigmoid(a):
    """log(1 / (1 + exp(-a)))"""
    return -elementwise.softplus(-a)


@inline
def log_sigmoid_gradient(g, a):
    return g * math.sigmoid(-a)


@inline
def gelu_gradient(g, a):
    return g * elementwise.gelu_slope(a)


@inline
def gelu_tanh_gradient(g, a):
    return g * elementwise.gelu_tanh_slope(a)


@inline
def silu_gradient(g, a):
    return g * elementwise.silu_slope(a)


@inline
def mish_gradient(g, a):
    """tanh(softplus(a)) + a * sigmoid(a) / cosh(softplus(a))**2, of e = exp(-|a|)."""
    t = elementwise.tanh_of_softplus(a)
    return g * fma(a * math.sigmoid(a), 1 - t * t, t)


@inline
def sigmoid_gradient(g, y):
    return g * ((1 - y) * y)


@inline
def tanh_gradient(g, y):
    return g * (1 - y * y)


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


@inline
def prelu(a, weight):
    return select(a > 0, a, a * weight)


@inline
def prelu_gradient(g, a, weight):
    """By the input."""
    return select(a > 0, g, g * weight)


@inline
def prelu_weight_gradient(g, a):
    return select(a > 0, typeof(g)(0), g * a)
