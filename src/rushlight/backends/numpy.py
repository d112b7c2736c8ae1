"""The reference back end: every kernel on NumPy arrays, and correct for every dtype.

A kernel that NumPy has under the same meaning is NumPy's own; the others stand below. The list of
kernels, with one line of meaning each, is `base.KERNELS`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import (  # noqa: F401 - these are the kernels themselves
    absolute,
    add,
    divide,
    exp,
    log,
    maximum,
    minimum,
    multiply,
    negative,
    sin,
    cos,
    sqrt,
    subtract,
    tanh,
)

from rushlight import dtypes
from rushlight.backends.numpy_reduce import (  # noqa: F401 - kernels
    anywhere,
    argmax,
    argmin,
    average,
    everywhere,
    largest,
    product,
    running,
    smallest,
    spread,
    sum_to,
    total,
    variance,
    widened,
)
from rushlight.backends.numpy_conv import (  # noqa: F401 - kernels
    convolve,
    convolve_transposed,
    convolve_weight,
)
from rushlight.backends.numpy_views import (  # noqa: F401 - array geometry
    address,
    elements,
    plain,
    root,
    strided,
)
from rushlight.backends.numpy_products import (  # noqa: F401 - kernels
    adjoint_times,
    bmm,
    broadcast_to,
    dot,
    linear,
    matmul,
    mm,
    mv,
    plus,
    times,
    times_adjoint,
    vdot,
)


def cast(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in another dtype, as PyTorch converts (complex to real drops the imaginary part)."""
    with np.errstate(all="ignore"):
        if a.dtype.kind == "c" and dtype.kind != "c":
            if dtype.kind == "b":
                return a.astype(bool)
            a = a.real
        return a.astype(dtype)


def number(value: Any, dtype: np.dtype) -> np.ndarray:
    """A Python number as a 0-d array; integers wrap around as in C."""
    if dtype.kind in "iu" and not -(1 << 63) <= int(value) < (1 << 63):
        if dtype.kind == "u" and dtype.itemsize == 8 and 0 <= value < 1 << 64:
            return np.array(value, dtype)
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: {value}")
    if dtype.kind in "iu" and dtype is not dtypes.int64.np:
        return np.array(int(value), np.int64).astype(dtype)
    with np.errstate(all="ignore"):
        return np.array(value).astype(dtype)
