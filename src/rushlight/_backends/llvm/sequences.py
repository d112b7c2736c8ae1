"""Numbers at equal distances as machine code; see `__init__.py` for when it runs."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends.llvm.operands import Compiled
from rushlight._backends.llvm.registration import implements
from rushlight._codegen.kernels import sequences as kernels
from rushlight.core.dtype_sets import F64, FLOATING, REDUCED

_counted = Compiled(kernels.counted)
_spaced = Compiled(kernels.spaced)
_spaced_halves = Compiled(kernels.spaced_halves)
_both_ends = Compiled(kernels.both_ends)
_powers = Compiled(kernels.powers)


@implements("arange_into", dtypes=FLOATING, least=1)
def arange_into(out: np.ndarray, start: float, step: float) -> Any:
    """start + i * step into `out`, floating [n]."""
    if not out.flags.carray:
        return NotImplemented
    return _counted[out.dtype,](out, out.size, start, step)


@implements("linspace_into", dtypes=FLOATING, least=2)
def linspace_into(out: np.ndarray, start: float, end: float) -> Any:
    """n > 1 numbers from `start` to `end` into `out`, floating [n]."""
    if out.size < 2 or not out.flags.carray:
        return NotImplemented
    spaced = _spaced_halves if out.dtype in REDUCED else _spaced
    return spaced[out.dtype,](out, out.size, start, end)


@implements("both_ends_into", dtypes=(F64,), least=1)
def both_ends_into(out: np.ndarray, start: float, end: float, step: float) -> Any:
    """start + i * step into `out`, float64 [n], in the second half end - (n - 1 - i) * step."""
    if not out.flags.carray:
        return NotImplemented
    return _both_ends[()](out, out.size, start, end, step)


@implements("powers_into", dtypes=(F64,), least=1)
def powers_into(exponents: np.ndarray, base: float) -> Any:
    """`base` to the power of numbers, float64 [n], in their place."""
    if not exponents.flags.carray:
        return NotImplemented
    return _powers[()](exponents, exponents.size, base)
