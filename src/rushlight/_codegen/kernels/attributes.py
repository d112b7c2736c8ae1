"""Entries that read attributes of a tensor from its array, with no Python between.

What they are bound to is an array of addresses and offsets, at the places named here. What is no tensor, or
has an array of another class than NumPy's, and what a reader answers with 0, goes to the function behind.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight._codegen.kernel import Entry, entry
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
from rushlight._codegen.runtime import abi
from rushlight._codegen.runtime.abi import DATA, TYPE
from rushlight._codegen.types import Ptr, b1, i32, i64

ARRAY_AT, EDGE_AT, TENSOR, ARRAY, BEHIND, VALUE, OTHER, THIRD, FOURTH = range(9)


def getter(function: Callable) -> Entry:
    """The entry of a reader: read(table, tensor, array) is a new reference, or 0."""
    name = function.__name__
    function.__qualname__ = f"{name}.read"  # the name itself is the entry's (`kernels/__init__.py`)
    read = inline(function)

    def attribute(self: Ptr[i64], objects: Ptr[Object], count: i64):
        table, made = bits(self[DATA], Ptr[i64]), Object(0)
        if count == 1:
            tensor = bits(objects[0], Ptr[i64])
            yes = tensor[TYPE] == table[TENSOR]
            if not yes:
                yes = PyType_IsSubtype(tensor[TYPE], table[TENSOR]) != 0
            if yes:
                a = bits(tensor[table[ARRAY_AT]], Ptr[i64])
                if bits(a, i64) != 0:
                    if a[TYPE] == table[ARRAY]:
                        made = read(table, tensor, a)
        if made == 0:
            made = PyObject_Vectorcall(table[BEHIND], objects, count, Object(0))
        return made

    attribute.__name__ = attribute.__qualname__ = name
    return entry(attribute)


@inline
def half(a, at):
    """A field of 32 bits."""
    return bits(a + at, Ptr[i32])[0]


@getter
def shape(table, tensor, a):
    """VALUE: the class of shapes, a tuple."""
    n = i64(half(a, abi.NDIM))
    made = PyType_GenericAlloc(table[VALUE], n)
    if made != 0:
        for k in range(n):
            PyTuple_SetItem(made, k, PyLong_FromLongLong(bits(a[abi.SHAPE], Ptr[i64])[k]))
    return made


@getter
def dtype(table, tensor, a):
    """VALUE: the dtypes of tensors, by those of arrays; OTHER, THIRD: the commonest one of each."""
    if a[abi.DTYPE] == table[OTHER]:
        made = new_reference(table[THIRD])
    else:
        made = PyObject_GetItem(table[VALUE], a[abi.DTYPE])
    return made


@getter
def device(table, tensor, a):
    """VALUE: the device of NumPy's arrays."""
    return new_reference(table[VALUE])


@getter
def ndim(table, tensor, a):
    return PyLong_FromLongLong(i64(half(a, abi.NDIM)))


@getter
def requires_grad(table, tensor, a):
    """VALUE: None, OTHER: False, THIRD: True, FOURTH: the class of edges that must be asked."""
    edge, made = tensor[table[EDGE_AT]], Object(0)
    if edge == table[VALUE]:
        made = new_reference(table[OTHER])
    elif edge != 0:
        if bits(edge, Ptr[i64])[TYPE] != table[FOURTH]:
            made = new_reference(table[THIRD])
    return made


@inline
def size(a):
    n = i64(1)
    for k in range(i64(half(a, abi.NDIM))):
        n = n * bits(a[abi.SHAPE], Ptr[i64])[k]
    return n


@getter
def _strides(table, tensor, a):
    made, n = Object(0), i64(half(a, abi.NDIM))
    if size(a) != 0:
        itemsize = bits(a[abi.DTYPE], Ptr[i64])[abi.DTYPE_SIZE]
        made = PyTuple_New(n)
        if made != 0:
            for k in range(n):
                step = bits(a[abi.STRIDES], Ptr[i64])[k] // itemsize
                PyTuple_SetItem(made, k, PyLong_FromLongLong(step))
    return made


@getter
def _address(table, tensor, a):
    made = Object(0)
    if size(a) != 0:
        made = PyLong_FromLongLong(a[DATA])
    return made


@getter
def _offset(table, tensor, a):
    root, made, rooted = bits(a, i64) + 0, Object(0), b1(1)
    while rooted & (bits(root, Ptr[i64])[abi.BASE] != 0):
        root = bits(root, Ptr[i64])[abi.BASE]
        rooted = bits(root, Ptr[i64])[TYPE] == table[ARRAY]
    if rooted:
        itemsize = bits(a[abi.DTYPE], Ptr[i64])[abi.DTYPE_SIZE]
        made = PyLong_FromLongLong((a[DATA] - bits(root, Ptr[i64])[DATA]) // itemsize)
    return made


@getter
def _row_major(table, tensor, a):
    """VALUE: False, OTHER: True."""
    yes = (half(a, abi.FLAGS) & abi.C_CONTIGUOUS) != 0
    return new_reference(table[OTHER] if yes else table[VALUE])
