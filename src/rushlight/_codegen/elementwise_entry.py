"""Native entries of elementwise functions: the loop of a ufunc over arrays, and Python numbers behind them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight._codegen.kernel import builtin, entry
from rushlight._codegen.kernels import header
from rushlight._codegen.language import array, bits, inline
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
from rushlight._codegen.types import Header, Ptr, Type, b1, f32, f64, i32, i64

# Behind FIXED in what `over_elements` is bound to: the dtypes of arrays and of the result, their sizes, the loop,
# what looks for a 0 in the second array (0: nothing does), how many arrays, how many operands with numbers, the type
# that numbers become, and of each number what stands for None (NONE: it must be given).
GIVEN, MADE, STEP, MADE_STEP, LOOP, SEARCH, ARRAYS, OPERANDS, BECOMES, ABSENT = range(
    FIXED, FIXED + 10
)
OPERANDS_MOST = 8
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
def spread(arrays, objects, itemsize, shape, sizes, walks):
    """How row-major arrays broadcast: (whether they do, the dimensions of the result, how many groups its dimensions
    make). Written are its shape, and of each group, innermost first, its size and the step in each array in bytes."""
    nd = i64(0)
    for k in range(arrays):
        nd = max(nd, header.dims_of(bits(objects[k], Header)))
    fits, groups = nd <= DIMS, i64(0)
    running, step = array(i64, OPERANDS_MOST), array(i64, OPERANDS_MOST)
    for k in range(arrays):
        running[k] = itemsize + 0
    if fits:
        for j in range(nd):
            n, joins = i64(1), groups > 0
            for k in range(arrays):
                a = bits(objects[k], Header)
                own, at = i64(1), header.dims_of(a) - 1 - j
                if at >= 0:
                    own = header.shape_of(a)[at]
                step[k] = running[k] if own != 1 else i64(0)
                running[k] = running[k] * own
                fits = fits & ((own == 1) | (n == 1) | (own == n))
                n = own if own != 1 else n
                if groups > 0:
                    joins = joins & (step[k] == walks[k * DIMS + groups - 1] * sizes[groups - 1])
            shape[nd - 1 - j] = n
            if (n != 1) & joins:
                sizes[groups - 1] = sizes[groups - 1] * n
            elif n != 1:
                sizes[groups] = n
                for k in range(arrays):
                    walks[k * DIMS + groups] = step[k]
                groups = groups + 1
    return fits, nd, groups


@inline
def walk_of_result(arrays, operands, groups, itemsize, sizes, walks):
    """Write the steps of the result, in order, and of the numbers; returns how many elements there are."""
    size = i64(1)
    for g in range(groups):
        walks[operands * DIMS + g] = itemsize * size
        for k in range(arrays, operands):
            walks[k * DIMS + g] = 0
        size = size * sizes[g]
    return size


@inline
def over_rows(loop, operands, groups, sizes, walks, args, steps):
    """Call a loop for each row: of the innermost group, at all places of the others."""
    at, place = array(i64, OPERANDS_MOST), array(i64, DIMS)
    rows, inner = i64(1), array(i64, 1)
    inner[0] = 1
    for k in range(operands + 1):
        at[k] = args[k]
        steps[k] = i64(0)
    for g in range(groups):
        place[g] = 0
        if g == 0:
            inner[0] = sizes[0]
            for k in range(operands + 1):
                steps[k] = walks[k * DIMS]
        else:
            rows = rows * sizes[g]
    for _ in range(rows):
        for k in range(operands + 1):
            args[k] = at[k]
        call_address(loop, None, args, inner, steps, i64(0))
        goes_on, g = b1(1), i64(1)
        while goes_on & (g < groups):
            place[g] = place[g] + 1
            goes_on = place[g] == sizes[g]
            for k in range(operands + 1):
                at[k] = at[k] + walks[k * DIMS + g]
                if goes_on:
                    at[k] = at[k] - walks[k * DIMS + g] * sizes[g]
            if goes_on:
                place[g] = 0
            g = g + 1


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


@entry
def over_elements(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """The loop of a ufunc over arrays of one dtype, and numbers behind them. The arrays are of one shape, in order or
    dense with the same strides; or they are in order, few, and broadcast. One more array is written to: of that shape
    and in order like all others, of which each is the same memory or shares none."""
    table = bits(self[DATA], Ptr[i64])
    nothing, arrays, operands = table[NOTHING], table[ARRAYS], table[OPERANDS]
    into = count == operands + 1
    if (table[USED] == 0) | ((count != operands) & (not into)):
        return new_reference(nothing)
    args, steps, size = array(i64, OPERANDS_MOST), array(i64, OPERANDS_MOST), array(i64, 1)
    values, fits, given = array(i64, OPERANDS_MOST), b1(1), operands == arrays
    first, ordered, alike = bits(objects[0], Header), b1(1), b1(1)
    for k in range(operands):
        o = objects[k]
        if k < arrays:
            fits = plain(o, table, table[GIVEN])
            if fits:
                a = bits(o, Header)
                ordered = ordered & header.in_order(a)
                if alike:
                    alike = header.same_shape(a, first)
                    if alike:
                        alike = ordered | header.same_strides(a, first)
                fits = ordered | alike
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
    if alike:
        size[0] = header.size_of(first)
        if not ordered:
            fits = (nd <= DIMS) & header.dense(first, table[STEP])
    else:
        fits, nd, groups = spread(arrays, objects, table[STEP], shape, sizes, walks)
        size[0] = walk_of_result(arrays, operands, groups, table[MADE_STEP], sizes, walks)
        fits = fits & (size[0] < LONG)
    if into & fits:
        fits = ordered & alike & plain(objects[operands], table, table[MADE])
        if fits:
            fits = writes_over(objects, arrays, operands, size[0], table)
    if (not fits) | (size[0] == 0):
        return new_reference(nothing)
    if table[SEARCH] != 0:
        place, divisors = array(i64, 1), header.size_of(bits(objects[1], Header))
        call_address(table[SEARCH], None, args[1], divisors, place)
        if place[0] != divisors:
            return new_reference(nothing)
    if not ordered:
        header.strides_like(first, table[STEP], table[MADE_STEP], strides)
    if into:
        out = new_reference(objects[operands])
    else:
        out = call_address(
            table[NEW], Object, table[ARRAY], new_reference(table[MADE]), i32(nd),
            header.shape_of(first) if alike else shape, i64(0) if ordered else bits(strides, i64), i64(0), i32(0), i64(0),
        )  # fmt: skip
    if out != 0:
        args[operands] = bits(out, Ptr[i64])[DATA]
        steps[operands] = table[MADE_STEP]
        if alike:
            thread = i64(0)
            if size[0] >= LONG:
                thread = PyEval_SaveThread()
            call_address(table[LOOP], None, args, size, steps, i64(0))
            if thread != 0:
                PyEval_RestoreThread(thread)
        else:
            over_rows(table[LOOP], operands, groups, sizes, walks, args, steps)
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
    native.keep((t.np, output.np))
    stand = [
        NONE if each is None else int(np.array([each, 0], becomes.np).view(np.int64)[0])
        for each in absent
    ]
    given = id(t.np), id(output.np), t.size, output.size, loop, search, count
    table = table_of(None, *given, count + len(absent), BECOME.get(becomes, SINGLE), *stand)
    return builtin(name, over_elements.address(), table)
