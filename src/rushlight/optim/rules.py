"""Running update rules on arrays or on tensors.

A rule is a function `rule(xp, p, g, *state, *numbers)` in plain arithmetic and in functions of `xp`.
It updates `p` and the state by in-place operations; other operations make new values. Normally it
gets arrays, large ones in blocks, so that intermediates stay in the cache. With
`differentiable=True` it gets tensors, and autograd records every operation. A rule is a kernel, so
its arguments have no annotations: it also runs on the stand-ins that trace it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import rushlight
from rushlight._backends import devices, math_bits
from rushlight.core.dtype_sets import F32, FULL, REDUCED
from rushlight.core.tensor import Tensor

# Elements. The arrays of a block and what is computed in between fit into the second-level cache.
BLOCK = 32768

Rule = Callable[..., None]


def quiet() -> Any:
    """A context in which overflow and division by zero pass without NumPy's warnings."""
    return np.errstate(all="ignore")


def penalized(p: Any, g: Any, weight_decay: Any, maximize: bool) -> Any:
    """The gradient to descend: `g`, or -g to maximize, plus the gradient of the L2 penalty."""
    if maximize:
        g = -g
    return g + weight_decay * p if weight_decay else g


def root(x: Any) -> Any:
    """The square root of a number, or of what stands for one."""
    return math.sqrt(x) if isinstance(x, (float, int)) else x.root()


def update_moments(g: Any, m: Any, v: Any, beta1: float, beta2: float) -> None:
    """Update the moving means m of g and v of g ** 2, in place."""
    m += (1 - beta1) * (g - m)
    v *= beta2
    v += (1 - beta2) * (g * g)


def on_arrays(rule: Rule, arrays: list[Any], numbers: tuple) -> None:
    """Run a rule on arrays of one device, or None where a rule may get that; the second is the gradient."""
    if math_bits.made and math_bits.among(arrays):
        meant = [math_bits.resolved(a) for a in arrays]
        on_arrays(rule, meant, numbers)
        for a, value in zip(arrays, meant, strict=True):
            if isinstance(a, math_bits.Marked) and a is not arrays[1]:
                math_bits.put(a, value)
        return
    first = arrays[0]
    assert first is not None
    xp = devices.common(arrays)
    dtype = first.dtype
    if first.size <= BLOCK and dtype in FULL:
        rule(xp, *arrays, *numbers)
        return
    if dtype.kind == "c":
        # Real and imaginary parts count as parameters of their own, as in PyTorch.
        for part in ("real", "imag"):
            rule(xp, *(None if a is None else getattr(a, part) for a in arrays), *numbers)
        return
    if dtype in REDUCED:
        # float16 and bfloat16 are computed in float32 and rounded once, at the end.
        wide = [None if a is None else a.astype(F32) for a in arrays]
        rule(xp, *wide, *numbers)
        for array, value in zip(arrays, wide, strict=True):
            if array is not None and array is not arrays[1]:
                array[...] = value
        return
    if not all(a is None or a.flags.c_contiguous for a in arrays):
        rule(xp, *arrays, *numbers)
        return
    flat = [None if a is None else a.reshape(-1) for a in arrays]
    for start in range(0, first.size, BLOCK):
        stop = start + BLOCK
        rule(xp, *(None if a is None else a[start:stop] for a in flat), *numbers)


def on_tensors(rule: Rule, tensors: tuple[Tensor | None, ...], *numbers: Any) -> None:
    """Run a rule on the tensors themselves, recorded."""
    if tensors[0].is_complex():
        tensors = tuple(t if t is None else rushlight.view_as_real(t) for t in tensors)
    rule(rushlight, *tensors, *numbers)
