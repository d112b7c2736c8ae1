"""The entry of calls that record nothing: it takes the arrays out of tensors, calls a kernel, and wraps the result.

What it is bound to is an array of addresses and numbers, at the places named here. It answers None where a call is
another one: then the printed function goes on. What a kernel raises goes to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight._codegen import native
from rushlight._codegen.kernel import builtin, entry
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import new_reference
from rushlight._codegen.python_api import (
    Object,
    Py_DecRef,
    Py_IncRef,
    PyObject_CallOneArg,
    PyObject_Vectorcall,
    PyType_GenericAlloc,
    PyType_IsSubtype,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.runtime.abi import DATA, TYPE
from rushlight._codegen.types import Ptr, b1, i64

MOST = 12  # arguments of a kernel

# The slots of a tensor, of an edge that is a view, and of what counts modes; classes and objects; which arguments are
# tensors (a bit for each); whether their dtypes are the same one; how many dtypes are taken (0: all), then these.
(
    ARRAY_AT, EDGE_AT, COUNTER_AT, NODE_AT, BASE_AT, MODES_AT, TENSOR, ARRAY, VIEW, ACTIVE, ZERO, NOTHING, AS_ARRAY,
    TENSORS, ALIKE, DTYPES, FIRST_DTYPE,
) = range(17)  # fmt: skip


@inline
def without_history(tensor, table):
    """Whether the edge of a tensor is none, or a view of what has none."""
    edge = tensor[table[EDGE_AT]]
    free = edge == table[NOTHING]
    if (not free) & (edge != 0):
        if bits(edge, Ptr[i64])[TYPE] == table[VIEW]:
            base = bits(edge, Ptr[i64])[table[BASE_AT]]
            free = bits(edge, Ptr[i64])[table[NODE_AT]] == table[NOTHING]
            free = free & (bits(base, Ptr[i64])[table[EDGE_AT]] == table[NOTHING])
    return free


@inline
def takes(dtype, table):
    """Whether a dtype is one of those that are taken."""
    n = table[DTYPES]
    found = n == 0
    for k in range(n):
        if table[FIRST_DTYPE + k] == dtype:
            found = b1(1)
    return found


@entry
def unrecorded(self: Ptr[i64], objects: Ptr[Object], count: i64, keywords: Object):
    """`unrecorded(kernel, *arguments)`: the kernel's result as a tensor, with arrays for tensors."""
    table = bits(self[DATA], Ptr[i64])
    given, held = array(i64, MOST), array(i64, MOST)
    named, arrays, dtype = i64(0), i64(0), i64(0)
    if keywords != 0:
        named = bits(keywords, Ptr[i64])[abi.TUPLE_SIZE]
    arguments = count + named - 1
    fits = bits(table[ACTIVE], Ptr[i64])[table[MODES_AT]] == table[ZERO]
    fits = fits & (arguments <= MOST)
    if fits:
        for k in range(arguments):
            o = objects[k + 1]
            given[k] = o
            if ((table[TENSORS] >> k) & 1) != 0:
                tensor = bits(o, Ptr[i64])
                fits = tensor[TYPE] == table[TENSOR]
                if not fits:
                    fits = PyType_IsSubtype(tensor[TYPE], table[TENSOR]) != 0
                if fits:
                    a = tensor[table[ARRAY_AT]]
                    fits = (a != 0) & without_history(tensor, table)
                    if fits:
                        fits = bits(a, Ptr[i64])[TYPE] == table[ARRAY]
                    if fits:
                        own = bits(a, Ptr[i64])[abi.DTYPE]
                        fits = takes(own, table)
                        fits = fits & ((table[ALIKE] == 0) | (arrays == 0) | (own == dtype))
                        dtype = own + 0
                        given[k] = a
                        held[arrays] = a
                        arrays = arrays + 1
            if not fits:
                break
    if not fits:
        return new_reference(table[NOTHING])
    for k in range(arrays):  # another thread may exchange the array of a tensor meanwhile
        Py_IncRef(held[k])
    made = PyObject_Vectorcall(objects[0], given, count - 1, keywords)
    for k in range(arrays):
        Py_DecRef(held[k])
    if made != 0:
        if bits(made, Ptr[i64])[TYPE] != table[ARRAY]:
            number = made + 0
            made = PyObject_CallOneArg(table[AS_ARRAY], number)
            Py_DecRef(number)
    if made != 0:
        result = PyType_GenericAlloc(table[TENSOR], 0)
        if result == 0:
            Py_DecRef(made)
        else:
            bits(result, Ptr[i64])[table[ARRAY_AT]] = made
            bits(result, Ptr[i64])[table[EDGE_AT]] = new_reference(table[NOTHING])
            bits(result, Ptr[i64])[table[COUNTER_AT]] = new_reference(table[NOTHING])
        made = result
    return made


def bind(
    name: str, fixed: Sequence[int], tensors: int, alike: bool, taken: tuple
) -> Callable[..., Any] | None:
    """The builtin of the entry for one operator; `fixed`: its table up to TENSORS, `taken`: the dtypes, none for all."""
    table = np.array([*fixed, tensors, alike, len(taken), *map(id, taken)], np.int64)
    native.keep((taken, table))
    return builtin(name, unrecorded.address(), table, keywords=True)
