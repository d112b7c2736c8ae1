"""Loops of ufuncs for half types by NumPy's loops for float32, a block at a time.

NumPy computes float16, and ml_dtypes bfloat16, element by element. A block of halves is widened
here, given to the loop for float32, and what comes out is rounded: one conversion each way.
"""

from __future__ import annotations

from rushlight._codegen.kernel import entry
from rushlight._codegen.kernels.ufunc_entry import DATA, INPUTS, LOOP
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, f32, i64, u8

BLOCK = 2048  # elements widened at a time: three arrays of them stay in the first cache
ARRAYS = 3


@inline
def at(address, by, T):
    return bits(bits(address, Ptr[u8]) + by, Ptr[T])


@entry
def loop_by_single(H, args: Ptr[i64], size: Ptr[i64], steps: Ptr[i64], plan: Ptr[i64]):
    """The loop for a half type H with one output; `plan` is of the loop for float32."""
    blocks = array(f32, ARRAYS * BLOCK)
    wide, wide_steps, count = array(i64, ARRAYS), array(i64, ARRAYS), array(i64, 1)
    n, inputs = size[0], plan[INPUTS]
    for k in range(inputs + 1):
        wide[k] = bits(blocks + k * BLOCK, i64)
        wide_steps[k] = f32.size
    out_step, result = steps[inputs], blocks + inputs * BLOCK
    for start in range(0, n, BLOCK):
        c = min(n - start, i64(BLOCK))
        count[0] = c
        for k in range(inputs):
            step, to = steps[k], blocks + k * BLOCK
            first = at(args[k], step * start, H)
            if step == H.size:
                for j in lanes(0, c):
                    to[j] = first[j]
            else:
                for j in range(c):
                    to[j] = at(bits(first, i64), j * step, H)[0]
        call(plan[LOOP], None, wide, count, wide_steps, plan[DATA])
        last = at(args[inputs], out_step * start, H)
        if out_step == H.size:
            for j in lanes(0, c):
                last[j] = result[j]
        else:
            for j in range(c):
                at(bits(last, i64), j * out_step, H)[0] = result[j]
