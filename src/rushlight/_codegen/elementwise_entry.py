"""Native entries of elementwise functions: the loop of a ufunc over arrays, and Python numbers behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight._codegen.kernel import builtin, entry
from rushlight._codegen.kernels import broadcast as of_two
from rushlight._codegen.kernels import header
from rushlight._codegen.language import array, bits, inline, unroll
from rushlight._codegen.language import call as call_address
from rushlight._codegen.native_entry import (
    ARRAY,
    DIMS,
    FIXED,
    FLOAT,
    INT,
    LONG,
    NEW,
    NONE,
    NOTHING,
    USED,
    in_python,
    new_reference,
    plain,
    table_of,
    unbound,
)
from rushlight._codegen.python_api import (
    Object,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyLong_AsLongLongAndOverflow,
)
from rushlight._codegen.runtime.abi import DATA, FLOAT_VALUE, TYPE
from rushlight._codegen.types import Header, Ptr, Type, b1, f32, f64, i32, i64, u8, u16, u32, u64

# Behind FIXED in what `over_elements` is bound to: the dtypes of arrays and of the result, their sizes, the loop,
# what looks for a 0 in the second array (0: nothing does), how many arrays, how many operands with numbers, the type
# that numbers become, and of each number what stands for None (NONE: it must be given).
GIVEN, MADE, STEP, MADE_STEP, LOOP, SEARCH, ARRAYS, OPERANDS, BECOMES, ABSENT = range(
    FIXED, FIXED + 10
)
OPERANDS_MOST = 8
ROW = 64  # elements from which a loop is called for a single row
BLOCK = 512  # elements that are copied for one call
SINGLE, DOUBLE, WIDE, NARROW = 1, 2, 3, 4
BECOME = {f32: SINGLE, f64: DOUBLE, i64: WIDE, i32: NARROW}
EXACT = 1 << 24  # integers up to here are exact in every type; NumPy rounds larger ones
INFINITY = float("inf")


@inline
def number_as(o, becomes, FLOATS, INTS, into):
    """Write a Python number as a loop reads it, given the types of floats and ints; False where it is none, or
    does not fit."""
    kind = bits(o, Ptr[i64])[TYPE]
    whole, real, overflow = i64(0), f64(0), array(i32, 1)
    fits = kind == INTS
    if fits:
        whole = PyLong_AsLongLongAndOverflow(o, overflow)
        fits = (overflow[0] == 0) & (whole <= EXACT) & (whole >= -EXACT)
        real = f64(whole)
    elif kind == FLOATS:
        real = bits(o, Ptr[f64])[FLOAT_VALUE]
        fits = (becomes == SINGLE) | (becomes == DOUBLE)
    if becomes == SINGLE:
        single = f32(real)
        fits = fits & ((abs(single) != INFINITY) | (abs(real) == INFINITY))
        bits(into, Ptr[f32])[0] = single
    elif becomes == DOUBLE:
        bits(into, Ptr[f64])[0] = real
    elif becomes == WIDE:
        into[0] = whole
    else:
        fits = fits & (becomes == NARROW)
        bits(into, Ptr[i32])[0] = i32(whole)
    return fits


@inline
def number_read(o, table, absent, into):
    """As `number_as`; NaN is left out, and None is what stands for it."""
    kind = bits(o, Ptr[i64])[TYPE]
    fits = number_as(o, table[BECOMES], table[FLOAT], table[INT], into)
    if kind == table[FLOAT]:
        real = bits(o, Ptr[f64])[FLOAT_VALUE]
        fits = fits & (real == real)
    elif kind != table[INT]:
        fits = (o == table[NOTHING]) & (absent != NONE)
        into[0] = absent
    return fits


@inline
def inwards(p, q, arrays, sizes, of):
    """Of two dimensions: (whether the strides of `p` are the larger ones, whether they are the smaller ones), in the
    first array that tells."""
    larger, smaller = b1(0), b1(0)
    for k in range(arrays):
        if not (larger | smaller):
            larger, smaller = of_two.compared(p, q, sizes, of + k * DIMS)
    return larger, smaller


@inline
def broadcast(arrays, objects, sizes, of, order):
    """How arrays broadcast: (whether they do, the dimensions of the result). Written are, of dimensions counted from the
    last, their sizes, the strides of each array in bytes (0 where it is repeated), and their order in memory, innermost first."""
    nd = i64(0)
    for k in range(arrays):
        nd = max(nd, header.dims_of(bits(objects[k], Header)))
    fits = nd <= DIMS
    if fits:
        for j in range(nd):
            n = i64(1)
            for k in range(arrays):
                a = bits(objects[k], Header)
                own, step, at = i64(1), i64(0), header.dims_of(a) - 1 - j
                if at >= 0:
                    own, step = header.shape_of(a)[at], header.strides_of(a)[at]
                fits = fits & ((own == 1) | (n == 1) | (own == n)) & (step >= 0)
                if (own != 1) & (n == 1):
                    for before in range(k):
                        of[before * DIMS + j] = i64(0)
                n = own if own != 1 else n
                of[k * DIMS + j] = step if own == n else i64(0)
            sizes[j] = n
            order[j] = j
            at = j
            for back in range(j):
                i, p, q = j - 1 - back, order[j - 1 - back], order[at]
                larger, smaller = inwards(p, q, arrays, sizes, of)
                if larger:
                    order[i] = q
                    order[at] = p
                    at = i
                if smaller:
                    break
    return fits, nd


@inline
def spread(arrays, operands, objects, itemsize, shape, strides, sizes, walks):
    """How arrays of any strides broadcast: (whether they do, the dimensions of the result, whether it is in order, how
    many groups its dimensions make, its elements). Written are its shape and its strides, and of each group, innermost
    first, its size and the step in each operand and in the result in bytes. The result lies in memory as the first array
    that tells, like PyTorch's."""
    lengths, of, order = array(i64, DIMS), array(i64, OPERANDS_MOST * DIMS), array(i64, DIMS)
    fits, nd = broadcast(arrays, objects, lengths, of, order)
    groups, total, ordered = i64(0), i64(1), b1(1)
    if fits:
        for j in range(nd):
            at = order[j]
            n, joins = lengths[at], groups > 0
            ordered = ordered & (at == j)
            shape[nd - 1 - at] = n
            strides[nd - 1 - at] = total * itemsize
            if groups > 0:
                for k in range(arrays):
                    reached = walks[k * DIMS + groups - 1] * sizes[groups - 1]
                    joins = joins & (of[k * DIMS + at] == reached)
            if (n != 1) & joins:
                sizes[groups - 1] = sizes[groups - 1] * n
            elif (n != 1) | (j == nd - 1) & (groups == 0):
                sizes[groups] = n
                for k in range(arrays):
                    walks[k * DIMS + groups] = of[k * DIMS + at]
                for k in range(arrays, operands):
                    walks[k * DIMS + groups] = 0
                walks[operands * DIMS + groups] = total * itemsize
                groups = groups + 1
            total = total * n
    return fits, nd, ordered, groups, total


@inline
def next_row(operands, groups, sizes, walks, at, position):
    """Move to the next row: of the innermost group, at all places of the others."""
    goes_on, g = b1(1), i64(1)
    while goes_on & (g < groups):
        position[g] = position[g] + 1
        goes_on = position[g] == sizes[g]
        for k in range(operands + 1):
            at[k] = at[k] + walks[k * DIMS + g]
            if goes_on:
                at[k] = at[k] - walks[k * DIMS + g] * sizes[g]
        if goes_on:
            position[g] = 0
        g = g + 1


@inline
def beside(itemsize, source, step, n, into):
    """Copy `n` elements of an address, by their step in bytes, to another one, side by side."""
    for U in unroll((u8, u16, u32, u64)):
        if itemsize == U.size:
            for i in range(n):
                bits(into + i * U.size, Ptr[U])[0] = bits(source + i * step, Ptr[U])[0]


@inline
def over_rows(loop, arrays, operands, groups, sizes, walks, args, steps):
    """Call a loop for each row, or, where rows are short, for many of them, of which a copy is made."""
    at, position = array(i64, OPERANDS_MOST), array(i64, DIMS)
    lies, copies = array(i64, OPERANDS_MOST), array(u64, OPERANDS_MOST * BLOCK)
    rows, inner, held = i64(1), array(i64, 1), i64(0)
    for g in range(1, groups):
        rows = rows * sizes[g]
        position[g] = 0
    row, itemsize = sizes[0] + 0, steps[0] + 0
    short = (row < ROW) & (rows > 1)
    for k in range(operands + 1):
        at[k] = args[k]
        if short & (k < arrays):
            lies[k] = 1  # as the result does
            for g in range(groups):
                here = (
                    walks[k * DIMS + g] * steps[operands] == walks[operands * DIMS + g] * itemsize
                )
                lies[k] = lies[k] & i64(here)
            if lies[k] == 0:
                args[k] = bits(copies + k * BLOCK, i64)
        elif not short:
            steps[k] = walks[k * DIMS]
    for r in range(rows):
        for k in range(operands + 1):
            if not short:
                args[k] = at[k]
            elif (k < arrays) & (lies[k] == 0):
                beside(itemsize, at[k], walks[k * DIMS], row, args[k] + held * itemsize)
        held = held + row
        if (not short) | (held + row > BLOCK) | (r == rows - 1):
            inner[0] = held
            call_address(loop, None, args, inner, steps, i64(0))
            for k in range(operands + 1):
                if (k == operands) | ((k < arrays) & (lies[k] == 1)):
                    args[k] = args[k] + held * steps[k]
            held = i64(0)
        next_row(operands, groups, sizes, walks, at, position)


@inline
def writes_over(objects, arrays, operands, size, table):
    """Whether the array behind the operands has the shape of the first, in order, and can be written to while each of
    the arrays is read, an element at a time."""
    out = bits(objects[operands], Header)
    fits = (
        header.same_shape(out, bits(objects[0], Header))
        & header.in_order(out)
        & header.writeable(out)
    )
    begin, end = out[DATA], out[DATA] + size * table[MADE_STEP]
    for k in range(arrays):
        a = bits(objects[k], Header)
        same = (a[DATA] == begin) & (table[STEP] == table[MADE_STEP])
        fits = fits & (same | (end <= a[DATA]) | (a[DATA] + size * table[STEP] <= begin))
    return fits


@inline
def may_have_zeros(divisor, table):
    """Whether an array has an element that is 0, or does not lie so that they are looked for."""
    found = not header.dense(divisor, table[STEP])
    if not found:
        position, size = array(i64, 1), header.size_of(divisor)
        call_address(table[SEARCH], None, divisor[DATA] + 0, size, position)
        found = position[0] != size
    return found


@entry
def over_elements(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """The loop of a ufunc over arrays of one dtype, and numbers behind them. The arrays are of one shape, in order or
    dense with the same strides; or they are small, of any strides, and broadcast. One more array is written to: of the
    shape of all others and in order like these, of which each is the same memory or shares none."""
    table = bits(self[DATA], Ptr[i64])
    nothing, arrays, operands = table[NOTHING], table[ARRAYS], table[OPERANDS]
    into = count == operands + 1
    if (table[USED] == 0) | ((count != operands) & (not into)):
        return new_reference(nothing)
    args, steps, size = array(i64, OPERANDS_MOST), array(i64, OPERANDS_MOST), array(i64, 1)
    values, fits, given = array(i64, OPERANDS_MOST), b1(1), operands == arrays
    first, ordered, same_layout = bits(objects[0], Header), b1(1), b1(1)
    for k in range(operands):
        o = objects[k]
        if k < arrays:
            fits = plain(o, table, table[GIVEN])
            if fits:
                a = bits(o, Header)
                ordered = ordered & header.in_order(a)
                if same_layout:
                    same_layout = header.same_shape(a, first)
                    if same_layout:
                        same_layout = ordered | header.same_strides(a, first)
                args[k] = a[DATA]
                steps[k] = table[STEP]
        else:
            fits = number_read(o, table, table[ABSENT + k - arrays], values + k)
            given = given | (o != nothing)
            args[k] = bits(values + k, i64)
            steps[k] = 0
        if not fits:
            break
    if (not fits) | (not given):  # without numbers the function behind decides
        return new_reference(nothing)
    nd, groups, shape, strides = header.dims_of(first), i64(0), array(i64, DIMS), array(i64, DIMS)
    sizes, walks = array(i64, DIMS), array(i64, OPERANDS_MOST * DIMS)
    same_layout = same_layout & (ordered | ((nd <= DIMS) & header.dense(first, table[STEP])))
    straight = ordered
    if same_layout:
        size[0] = header.size_of(first)
        if not ordered:
            header.strides_like(first, table[STEP], table[MADE_STEP], strides)
    else:
        fits, nd, straight, groups, size[0] = spread(
            arrays, operands, objects, table[MADE_STEP], shape, strides, sizes, walks
        )
        fits = fits & (size[0] < LONG)
    if into & fits:
        fits = ordered & same_layout & plain(objects[operands], table, table[MADE])
        if fits:
            fits = writes_over(objects, arrays, operands, size[0], table)
    if (not fits) | (size[0] == 0):
        return new_reference(nothing)
    if table[SEARCH] != 0:
        if may_have_zeros(bits(objects[1], Header), table):
            return new_reference(nothing)
    if into:
        out = new_reference(objects[operands])
    else:
        out = call_address(
            table[NEW], Object, table[ARRAY], new_reference(table[MADE]), i32(nd),
            header.shape_of(first) if same_layout else shape, i64(0) if straight else bits(strides, i64), i64(0), i32(0), i64(0),
        )  # fmt: skip
    if out != 0:
        args[operands] = bits(out, Ptr[i64])[DATA]
        steps[operands] = table[MADE_STEP]
        if same_layout:
            thread = i64(0)
            if size[0] >= LONG:
                thread = PyEval_SaveThread()
            call_address(table[LOOP], None, args, size, steps, i64(0))
            if thread != 0:
                PyEval_RestoreThread(thread)
        else:
            over_rows(table[LOOP], arrays, operands, groups, sizes, walks, args, steps)
    return out


def bind_loop(
    name: str,
    loop: int,
    arrays: tuple[Type, int],
    numbers: tuple[Type, Sequence[Any]],
    output: Type,
    search: int = 0,
) -> Callable[..., Any]:
    """The builtin function that calls the loop of a ufunc at an address. `arrays`: their type and how many;
    `numbers`: the type that they become, and what stands for None in the place of each (None: nothing);
    `search`: the address of what looks for a 0 in the second array, with which the entry takes nothing."""
    from rushlight._codegen import native
    from rushlight._codegen.runtime import abi

    (t, count), (becomes, absent) = arrays, numbers
    if in_python.now.makes or not abi.available() or count + len(absent) >= OPERANDS_MOST:
        return unbound
    native.keep_alive((t.np, output.np))
    stand = [
        NONE if each is None else int(np.array([each, 0], becomes.np).view(np.int64)[0])
        for each in absent
    ]
    given = id(t.np), id(output.np), t.size, output.size, loop, search, count
    table = table_of(None, *given, count + len(absent), BECOME.get(becomes, SINGLE), *stand)
    return builtin(name, over_elements.address(), table)
