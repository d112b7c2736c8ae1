"""Elementwise kernels as machine code; see `compiled.py` for when they run.

Arrays of one size whose elements lie in memory in the same order, without gaps, are gone through as
one range; a result has its first argument's strides. All else is the reference's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.backends import numpy_activation, numpy_elementwise, numpy_special
from rushlight.backends.compiled import threshold
from rushlight.compiler import elementwise, math
from rushlight.compiler.elementwise import STREAM
from rushlight.compiler.types import of

# Below so many elements NumPy's passes take no longer than the call of a kernel.
SMALL = threshold(1024)
FLOATS = frozenset("fd")  # dtype.char; half types are computed in f32
HALVES = frozenset(("float16", "bfloat16"))


def takes(a: Any) -> bool:
    """Whether it is an array (no NumPy number, whose object is another one), large enough, and of a
    floating dtype that kernels know."""
    if a.__class__ is not np.ndarray:
        return False
    return a.size >= SMALL and a.size > 0 and (a.dtype.char in FLOATS or a.dtype.name in HALVES)


def like(a: np.ndarray) -> np.ndarray | None:
    """A new array laid out as `a`; None if `a` has gaps or overlaps, or is not aligned."""
    out = np.empty_like(a)
    return out if out.strides == a.strides and a.flags.aligned else None


def unary(function: Any, reference: Callable) -> Callable:
    """The kernel `function` of one array, for what it takes; else the reference."""
    name = reference.__name__

    def compiled(a: Any) -> Any:
        if not takes(a) or (out := like(a)) is None:
            return reference(a)
        t = of(a.dtype)
        stream = out.nbytes >= STREAM and not out.ctypes.data % 64
        elementwise.unary.compiled(F=function, STREAMED=stream, A=t, B=t)(a, out, a.size)
        return out

    compiled.__name__ = compiled.__qualname__ = name
    compiled.__doc__ = reference.__doc__
    return compiled


relu = unary(elementwise.relu, numpy_activation.relu)
gelu = unary(elementwise.gelu, numpy_activation.gelu)
gelu_slope = unary(elementwise.gelu_slope, numpy_activation.gelu_slope)
gelu_tanh = unary(elementwise.gelu_tanh, numpy_activation.gelu_tanh)
gelu_tanh_slope = unary(elementwise.gelu_tanh_slope, numpy_activation.gelu_tanh_slope)
silu = unary(elementwise.silu, numpy_activation.silu)
silu_slope = unary(elementwise.silu_slope, numpy_activation.silu_slope)
softplus = unary(elementwise.softplus, numpy_activation.softplus)
mish = unary(elementwise.mish, numpy_activation.mish)
sigmoid = unary(math.sigmoid, numpy_elementwise.sigmoid)
rsqrt = unary(elementwise.rsqrt, numpy_elementwise.rsqrt)
erf = unary(math.erf, numpy_special.erf)


def where(condition: Any, a: Any, b: Any) -> Any:
    """a where the condition holds, else b."""
    if (
        condition.__class__ is a.__class__ is b.__class__ is np.ndarray
        and condition.size >= SMALL
        and condition.dtype.char == "?"
        and a.dtype is b.dtype
        and (t := of(a.dtype)) is not None
        and (a.ndim == 0 or a.shape == condition.shape and a.flags.carray)
        and (b.ndim == 0 or b.shape == condition.shape and b.flags.carray)
        and condition.flags.c_contiguous
    ):
        out = np.empty(condition.shape, a.dtype)
        kernel = elementwise.choose.compiled(ONE_A=a.ndim == 0, ONE_B=b.ndim == 0, T=t)
        kernel(condition, a, b, out, out.size)
        return out
    return np.where(condition, a, b)


def above(g: np.ndarray, a: np.ndarray, threshold: float) -> np.ndarray:
    """g where `a` is above the threshold or NaN, else 0."""
    if (
        takes(a)
        and g.__class__ is np.ndarray
        and g.flags.aligned
        and g.dtype is a.dtype
        and g.shape == a.shape
        and g.strides == a.strides
        and (out := like(a)) is not None
    ):
        t = of(a.dtype)
        elementwise.scaled.compiled(F=elementwise.above, A=t, B=t)(g, a, out, threshold, a.size)
        return out
    return numpy_elementwise.above(g, a, threshold)
