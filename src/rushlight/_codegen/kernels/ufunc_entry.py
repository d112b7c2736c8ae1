"""What NumPy and Python call of a ufunc of ours: loops shared by threads, and calls of two arrays.

Loops are NumPy's `PyUFuncGenericFunction`: operand i begins at `args[i]` and goes on by `steps[i]` bytes,
outputs after inputs, `size[0]` elements. They get a plan of words, named here, as their data.
"""

from __future__ import annotations

import platform

from rushlight._codegen.elementwise_entry import number_as
from rushlight._codegen.kernel import entry
from rushlight._codegen.kernels import broadcast
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import LONG
from rushlight._codegen.python_api import (
    Object,
    Py_IncRef,
    PyErr_SetInterrupt,
    PyEval_RestoreThread,
    PyEval_SaveThread,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i32, i64

# -- loops -----------------------------------------------------------------------------------------

# A plan: NumPy's loop, its data, the numbers of operands and of inputs, a loop of ours (or 0), the
# elements from which it is used, what compiles it, and whether that was interrupted.
LOOP, DATA, OPERANDS, INPUTS, OURS, LEAST, COMPILE, STOPPED = range(8)
GRAIN = 16384  # elements in a chunk of NumPy's loop; what is not twice as long it does at once
OPERANDS_MOST = 8

# NumPy looks after each loop whether an operation was invalid or overflowed, and warns. PyTorch does
# not, and a call with a warning is made a second time, with warnings off: the status is put back.
X86 = platform.machine() in ("x86_64", "AMD64")
get_status = external("llvm.x86.sse.stmxcsr", None, Ptr[i32])
set_status = external("llvm.x86.sse.ldmxcsr", None, Ptr[i32])


@inline
def save_status(status):
    if X86:
        get_status(status)


@inline
def restore_status(status):
    if X86:
        now = array(i32, 1)
        get_status(now)
        if now[0] != status[0]:  # to set it takes longer than to look
            set_status(status)


@inline
def independent(args, n, steps, plan):
    """Whether the order of the elements is free: not where an output stays (a sum), or is an input at another
    place (a running sum). One element has no order; NumPy gives it strides of 0."""
    inputs, fits = plan[INPUTS], b1(1)
    for o in range(inputs, plan[OPERANDS]):
        out, out_step = args[o], steps[o]
        fits = fits & (out_step != 0)
        for k in range(inputs):
            given, step = args[k], steps[k]
            if (given != out) | (step != out_step):
                length, out_length = abs(step * n), abs(out_step * n)
                distance = abs(given - out)
                forward = (step >= 0) & (out_step > 0)
                lower = length if given < out else out_length
                apart = distance >= length + out_length
                fits = fits & (apart | (forward & (distance >= lower)))
    return fits | (n == 1)


@entry
def shared_loop(args: Ptr[i64], size: Ptr[i64], steps: Ptr[i64], plan: Ptr[i64]):
    """NumPy's loop; in chunks that threads share where it is long."""
    status = array(i32, 1)
    save_status(status)
    n, loop, data = size[0], plan[LOOP], plan[DATA]
    shared = n >= 2 * GRAIN
    if shared:
        shared = independent(args, n, steps, plan)
    if shared:
        operands = plan[OPERANDS]
        for lo, hi in parallel(n, GRAIN):
            moved, length = array(i64, OPERANDS_MOST), array(i64, 1)
            for k in range(operands):
                moved[k] = args[k] + steps[k] * lo
            length[0] = hi - lo
            call(loop, None, moved, length, steps, data)
    else:
        call(loop, None, args, size, steps, data)
    restore_status(status)


@entry
def method_loop(args: Ptr[i64], size: Ptr[i64], steps: Ptr[i64], method: Ptr[i64]):
    """The strided loop of an array method (`abi.array_method`): what dtypes have that do not come from NumPy."""
    call(method[0], None, method[1], args, size, steps, method[2])


@entry
def compiled_loop(args: Ptr[i64], size: Ptr[i64], steps: Ptr[i64], plan: Ptr[i64]):
    """The loop of ours where there are enough elements for it, which threads share; else NumPy's."""
    status = array(i32, 1)
    save_status(status)
    n, ours = size[0], plan[OURS]
    chosen = (ours != 0) & (n >= plan[LEAST])
    if chosen:
        chosen = independent(args, n, steps, plan)
    if chosen:
        call(ours, None, args, size, steps, plan)
    else:
        call(plan[LOOP], None, args, size, steps, plan[DATA])
    restore_status(status)


@entry
def uncompiled_loop(args: Ptr[i64], size: Ptr[i64], steps: Ptr[i64], plan: Ptr[i64]):
    """What stands in a plan before the loop of ours: compiles that, and runs it, or NumPy's.

    No exception leaves a call of Python from here, and one that is interrupted returns anything: the plan
    says whether it came to its end. Ctrl-C is then as if it came now.
    """
    plan[STOPPED] = 1
    call(plan[COMPILE], None, plan)
    stopped, ours = plan[STOPPED], plan[OURS]
    if stopped != 0:
        plan[STOPPED] = 0
        PyErr_SetInterrupt()
    if (stopped == 0) & (ours != 0):
        call(ours, None, args, size, steps, plan)
    else:
        call(plan[LOOP], None, args, size, steps, plan[DATA])


# -- calls -----------------------------------------------------------------------------------------

# What a ufunc has one word before its data, an array of addresses: NumPy's function, the type of arrays,
# PyArray_NewFromDescr, the types of Python's floats and integers, what compiles a loop, how many dtypes
# there are. Then of each dtype: itself, its loop (0 before it is compiled), the dtype of results, whether
# compiling was interrupted, and what a Python number becomes beside such an array (0: NumPy says).
NUMPY, ARRAY, NEW, FLOAT, INT, COMPILE_CALL, COUNT, FIRST = range(8)
DTYPE, CALL_LOOP, RESULT, CALL_STOPPED, NUMBER, DTYPE_WORDS = range(6)


@inline
def word_of(o, k):
    return bits(o, Ptr[i64])[k]


@inline
def flags_of(o):
    return bits(bits(o, Ptr[i64]) + abi.FLAGS, Ptr[i32])[0]


@entry
def call_of_two(self: Ptr[i64], args: Ptr[Object], given: i64, keywords: Object):
    """`ufunc(a, b)` of two arrays of a dtype that is in the table, or of one and a Python number.

    They are broadcast, may have gaps in memory and lie in any order; the result lies as they do. All else goes on to
    NumPy's function as it came: `out=`, mixed dtypes, negative strides, shapes that do not broadcast.
    Two arrays without dimensions give such an array, not one of NumPy's numbers.
    """
    table = bits(bits(self[abi.UFUNC_DATA], Ptr[i64])[-1], Ptr[i64])
    plan = array(i64, broadcast.PLAN)
    number, header = array(i64, 1), array(i64, abi.ARRAY_SIZE)  # of an array that holds a number
    while True:  # one round, which is left for NumPy
        if (keywords != 0) | ((given & abi.ARGUMENTS) != 2):
            break
        a, b = args[0], args[1]
        a_is, b_is = word_of(a, abi.TYPE) == table[ARRAY], word_of(b, abi.TYPE) == table[ARRAY]
        if not (a_is | b_is):
            break
        one = a if a_is else b
        other = b if a_is else a
        dtype, flags, both = word_of(one, abi.DTYPE), flags_of(one), a_is & b_is
        if both:
            flags = flags & flags_of(other)
            if word_of(other, abi.DTYPE) != dtype:
                break
        if (flags & abi.ALIGNED) == 0:
            break
        at = i64(0)
        for k in range(table[COUNT]):
            if table[FIRST + DTYPE_WORDS * k] == dtype:
                at = FIRST + DTYPE_WORDS * k
                break
        if at == 0:
            break
        if not both:
            if not number_as(other, table[at + NUMBER], table[FLOAT], table[INT], number):
                break
            header[abi.DATA] = bits(number, i64)
            header[abi.NDIM] = 0
            other = bits(header, i64)
        left = one if a_is else other
        right = other if a_is else one
        made = word_of(table[at + RESULT], abi.DTYPE_SIZE)
        broadcast.infer(bits(left, Header), bits(right, Header), made, plan)
        if (plan[broadcast.FITS] == 0) | (plan[broadcast.TOTAL] == 0):
            break
        loop = table[at + CALL_LOOP]
        if loop == 0:  # see `uncompiled_loop`
            table[at + CALL_STOPPED] = 1
            call(table[COMPILE_CALL], None, table, at)
            if table[at + CALL_STOPPED] != 0:
                PyErr_SetInterrupt()
                break
            loop = table[at + CALL_LOOP]
            if loop == 0:
                break
        Py_IncRef(table[at + RESULT])
        out = call(
            table[NEW], Object, table[ARRAY], table[at + RESULT], i32(plan[broadcast.NDIM]),
            plan + broadcast.SHAPE, i64(0) if plan[broadcast.ORDERED] != 0 else bits(plan + broadcast.STRIDES, i64),
            i64(0), i32(0), i64(0),
        )  # fmt: skip
        if out != 0:
            x, y, z = word_of(left, abi.DATA), word_of(right, abi.DATA), word_of(out, abi.DATA)
            if plan[broadcast.TOTAL] >= LONG:
                thread = PyEval_SaveThread()
                call(loop, None, plan, x, y, z)
                PyEval_RestoreThread(thread)
            else:
                call(loop, None, plan, x, y, z)
        return out
    return call(table[NUMPY], Object, self, args, given, keywords)
