"""Entries that read attributes of a tensor from its array, with no Python between.

What they are bound to is an array of addresses and offsets, at the places named here. What is no tensor, or
has an array of another class than NumPy's, goes to the function behind.
"""

from __future__ import annotations

from rushlight._codegen.kernel import entry
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import new_reference
from rushlight._codegen.python_api import (
    Object,
    PyLong_FromLongLong,
    PyObject_GetItem,
    PyObject_Vectorcall,
    PyTuple_New,
    PyTuple_SetItem,
    PyType_GenericAlloc,
    PyType_IsSubtype,
)
from rushlight._codegen.runtime.abi import (
    C_CONTIGUOUS,
    DATA,
    DTYPE,
    DTYPE_SIZE,
    FLAGS,
    NDIM,
    SHAPE,
    STRIDES,
    TYPE,
)
from rushlight._codegen.types import Ptr, b1, i32, i64

ARRAY_AT, EDGE_AT, TENSOR, ARRAY, BEHIND, VALUE, OTHER, THIRD, FOURTH = range(9)


@inline
def array_of(table, objects, count):
    """The array of the one tensor in a call; 0 where it is no plain one."""
    found = i64(0)
    if count == 1:
        tensor = bits(objects[0], Ptr[i64])
        yes = tensor[TYPE] == table[TENSOR]
        if not yes:
            yes = PyType_IsSubtype(tensor[TYPE], table[TENSOR]) != 0
        if yes:
            held = tensor[table[ARRAY_AT]]
            if held != 0:
                if bits(held, Ptr[i64])[TYPE] == table[ARRAY]:
                    found = held
    return found


@inline
def behind(table, objects, count):
    return PyObject_Vectorcall(table[BEHIND], objects, count, Object(0))


@entry
def dtype(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """VALUE: the dtypes of tensors, by those of arrays; OTHER, THIRD: the commonest one of each."""
    table = bits(self[DATA], Ptr[i64])
    a = array_of(table, objects, count)
    if a == 0:
        return behind(table, objects, count)
    if bits(a, Ptr[i64])[DTYPE] == table[OTHER]:
        return new_reference(table[THIRD])
    return PyObject_GetItem(table[VALUE], bits(a, Ptr[i64])[DTYPE])


@entry
def device(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """VALUE: the device of NumPy's arrays."""
    table = bits(self[DATA], Ptr[i64])
    if array_of(table, objects, count) == 0:
        return behind(table, objects, count)
    return new_reference(table[VALUE])


@entry
def ndim(self: Ptr[i64], objects: Ptr[Object], count: i64):
    table = bits(self[DATA], Ptr[i64])
    a = array_of(table, objects, count)
    if a == 0:
        return behind(table, objects, count)
    return PyLong_FromLongLong(i64(bits(bits(a, Ptr[i64]) + NDIM, Ptr[i32])[0]))


@entry
def requires_grad(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """VALUE: None, OTHER: False, THIRD: True, FOURTH: the class of edges that must be asked."""
    table = bits(self[DATA], Ptr[i64])
    if array_of(table, objects, count) == 0:
        return behind(table, objects, count)
    edge = bits(objects[0], Ptr[i64])[table[EDGE_AT]]
    if edge == table[VALUE]:
        return new_reference(table[OTHER])
    if edge != 0:
        if bits(edge, Ptr[i64])[TYPE] != table[FOURTH]:
            return new_reference(table[THIRD])
    return behind(table, objects, count)


@entry
def shape(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """VALUE: the class of shapes, a tuple."""
    table = bits(self[DATA], Ptr[i64])
    a = array_of(table, objects, count)
    if a == 0:
        return behind(table, objects, count)
    n = i64(bits(bits(a, Ptr[i64]) + NDIM, Ptr[i32])[0])
    sizes = bits(bits(a, Ptr[i64])[SHAPE], Ptr[i64])
    made = PyType_GenericAlloc(table[VALUE], n)
    if made != 0:
        for k in range(n):
            PyTuple_SetItem(made, k, PyLong_FromLongLong(sizes[k]))
    return made


@inline
def empty(a):
    none, n = b1(0), i64(bits(a + NDIM, Ptr[i32])[0])
    for k in range(n):
        none = none | (bits(a[SHAPE], Ptr[i64])[k] == 0)
    return none


@entry
def _strides(self: Ptr[i64], objects: Ptr[Object], count: i64):
    table = bits(self[DATA], Ptr[i64])
    found = array_of(table, objects, count)
    if found == 0:
        return behind(table, objects, count)
    a = bits(found, Ptr[i64])
    if empty(a):
        return behind(table, objects, count)
    n = i64(bits(a + NDIM, Ptr[i32])[0])
    size = bits(a[DTYPE], Ptr[i64])[DTYPE_SIZE]
    made = PyTuple_New(n)
    if made != 0:
        for k in range(n):
            PyTuple_SetItem(made, k, PyLong_FromLongLong(bits(a[STRIDES], Ptr[i64])[k] // size))
    return made


@entry
def _address(self: Ptr[i64], objects: Ptr[Object], count: i64):
    table = bits(self[DATA], Ptr[i64])
    found = array_of(table, objects, count)
    if found == 0:
        return behind(table, objects, count)
    if empty(bits(found, Ptr[i64])):
        return behind(table, objects, count)
    return PyLong_FromLongLong(bits(found, Ptr[i64])[DATA])


@entry
def _row_major(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """VALUE: False, OTHER: True."""
    table = bits(self[DATA], Ptr[i64])
    found = array_of(table, objects, count)
    if found == 0:
        return behind(table, objects, count)
    flags = bits(bits(found, Ptr[i64]) + FLAGS, Ptr[i32])[0]
    yes = table[OTHER] if (flags & C_CONTIGUOUS) != 0 else table[VALUE]
    return new_reference(yes)
