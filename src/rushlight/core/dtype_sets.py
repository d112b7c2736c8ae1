"""The dtypes of arrays, and the sets of them that operators and kernels ask about.

These are NumPy's objects, as in `array.dtype`; PyTorch's `dtypes.float32` holds its own in `.np`. An array whose bytes are
in the other order than this machine's has a dtype in none of the sets.

>>> F32 in FLOATING, I64 in FLOATING, compute_dtype(F16)
(True, False, dtype('float32'))
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes

if TYPE_CHECKING:
    import numpy as np

BOOL = dtypes.bool_.np
U8, U16, U32, U64 = dtypes.uint8.np, dtypes.uint16.np, dtypes.uint32.np, dtypes.uint64.np
I8, I16, I32, I64 = dtypes.int8.np, dtypes.int16.np, dtypes.int32.np, dtypes.int64.np
F16, BF16, F32, F64 = dtypes.float16.np, dtypes.bfloat16.np, dtypes.float32.np, dtypes.float64.np
C32, C64, C128 = dtypes.complex32.np, dtypes.complex64.np, dtypes.complex128.np

REDUCED = frozenset((F16, BF16))  # computed in float32
FULL = frozenset((F32, F64))
FLOATING = REDUCED | FULL
COMPLEX = frozenset((C32, C64, C128))
STORED_ONLY = frozenset((U16, U32, U64))  # PyTorch computes on none of them


def compute_dtype(d: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype in which operators compute on elements of `d`: float32 for float16 and bfloat16, else `d`."""
    return F32 if d in REDUCED else d
