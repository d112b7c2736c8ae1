"""Numbers at equal distances as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

import numpy as np

from rushlight._backends.llvm.operands import Made
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import sequences as reference
from rushlight._codegen.kernels import sequences as kernels
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import FULL

_counted = Made(lambda dtype: kernels.counted.compiled(T=of(dtype)))
_spaced = Made(lambda dtype: kernels.spaced.compiled(T=of(dtype)))


def fits(out: np.ndarray) -> bool:
    return out.__class__ is np.ndarray and out.dtype in FULL and out.flags.carray and out.size > 0


@implements("arange_into")
def arange_into(out: np.ndarray, start: float, step: float) -> None:
    """start + i * step into `out`, float32 or float64 [n]."""
    if not fits(out):
        return reference.arange_into(out, start, step)
    return _counted[out.dtype,](out, out.size, start, step)


@implements("linspace_into")
def linspace_into(out: np.ndarray, start: float, end: float) -> None:
    """n > 1 numbers from `start` to `end` into `out`, float32 or float64 [n]."""
    if not fits(out) or out.size < 2:
        return reference.linspace_into(out, start, end)
    return _spaced[out.dtype,](out, out.size, start, end)
