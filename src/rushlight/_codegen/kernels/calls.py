"""The entries of calls that record nothing: they take the arrays out of tensors, call a kernel, and wrap the result.

What they are bound to is an array of addresses and numbers, at the places named here. They answer None where a call is
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
    PyLong_FromLongLong,
    PyObject_CallOneArg,
    PyObject_GetAttr,
    PyObject_Vectorcall,
    PyTuple_New,
    PyTuple_SetItem,
    PyType_GenericAlloc,
    PyType_IsSubtype,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.runtime.abi import DATA, TYPE
from rushlight._codegen.types import Ptr, b1, i64

MOST = 12  # arguments of a kernel

# The slots of a tensor, of the edge that a view has, of a version and of what counts modes; classes and objects.
(
    ARRAY_AT, EDGE_AT, COUNTER_AT, BASE_AT, PARENT_AT, MAKE_AT, ARGS_AT, NODE_AT, VERSION_AT, SEEN_AT, KIND_AT,
    WRITES_AT, MODES_AT, TENSOR, ARRAY, VIEW, VERSION, ACTIVE, ZERO, NOTHING, AS_ARRAY, THREAD, GRAD, YES, INFERENCE,
    DEFAULT, NO_GRAD, MULTI, NTH, LIST, FIXED,
) = range(31)  # fmt: skip
# Then, of an operator: itself; which arguments are tensors, a bit for each (of a view, the place of its one); whether
# their dtypes are the same one; how many dtypes are taken (0: all), and these.
OP, TENSORS, ALIKE, DTYPES, FIRST_DTYPE = range(FIXED, FIXED + 5)


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


@inline
def array_of(tensor, table):
    """The array of a tensor without history; 0 for anything else."""
    made = i64(0)
    fits = tensor[TYPE] == table[TENSOR]
    if not fits:
        fits = PyType_IsSubtype(tensor[TYPE], table[TENSOR]) != 0
    if fits:
        a = tensor[table[ARRAY_AT]]
        if (a != 0) & without_history(tensor, table):
            if bits(a, Ptr[i64])[TYPE] == table[ARRAY]:
                made = a + 0
    return made


@inline
def no_modes(table):
    """Whether no mode is on, in any thread."""
    return bits(table[ACTIVE], Ptr[i64])[table[MODES_AT]] == table[ZERO]


@inline
def as_array(result, table):
    """What a kernel gave, as an array; 0 is an error and stays one."""
    made = result + 0
    if made != 0:
        if bits(made, Ptr[i64])[TYPE] != table[ARRAY]:
            made = PyObject_CallOneArg(table[AS_ARRAY], result)
            Py_DecRef(result)
    return made


@inline
def wrapped(array, edge, counter, table):
    """A new tensor around an array, which it takes over; 0 where memory is short."""
    made = PyType_GenericAlloc(table[TENSOR], 0)
    if made == 0:
        Py_DecRef(array)
    else:
        bits(made, Ptr[i64])[table[ARRAY_AT]] = array
        bits(made, Ptr[i64])[table[EDGE_AT]] = new_reference(edge)
        bits(made, Ptr[i64])[table[COUNTER_AT]] = new_reference(counter)
    return made


@entry
def unrecorded(self: Ptr[i64], objects: Ptr[Object], count: i64, keywords: Object):
    """`unrecorded(kernel, *arguments)`: the kernel's result as a tensor, with arrays for tensors."""
    table = bits(self[DATA], Ptr[i64])
    given, held = array(i64, MOST), array(i64, MOST)
    named, arrays, dtype = i64(0), i64(0), i64(0)
    if keywords != 0:
        named = bits(keywords, Ptr[i64])[abi.TUPLE_SIZE]
    arguments = count + named - 1
    fits = no_modes(table) & (arguments <= MOST)
    if fits:
        for k in range(arguments):
            o = objects[k + 1]
            given[k] = o
            if ((table[TENSORS] >> k) & 1) != 0:
                a = array_of(bits(o, Ptr[i64]), table)
                fits = a != 0
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
    made = as_array(made, table)
    if made != 0:
        made = wrapped(made, table[NOTHING], table[NOTHING], table)
    return made


@inline
def version_of(tensor, table):
    """The counter of a tensor without history, made where there is none; borrowed."""
    version = tensor[table[COUNTER_AT]]
    if version == table[NOTHING]:
        version = PyObject_Vectorcall(table[VERSION], bits(tensor, Ptr[Object]), 0, 0)
        if version != 0:
            tensor[table[COUNTER_AT]] = version
            Py_DecRef(table[NOTHING])
    return version


@inline
def view_of(array, source, version, make, args, kind, table):
    """A tensor around an array that is a view of the memory of `source`; it takes the array and `args` over."""
    made = Object(0)
    edge = PyType_GenericAlloc(table[VIEW], 0)
    if edge == 0:
        Py_DecRef(array)
        Py_DecRef(args)
    else:
        before = source[table[EDGE_AT]]
        v, base, parent = bits(edge, Ptr[i64]), bits(source, i64), table[NOTHING]
        if before != table[NOTHING]:
            base = bits(before, Ptr[i64])[table[BASE_AT]]
            parent = before + 0
        v[table[BASE_AT]] = new_reference(base)
        v[table[PARENT_AT]] = new_reference(parent)
        v[table[MAKE_AT]] = new_reference(make)
        v[table[ARGS_AT]] = args
        v[table[NODE_AT]] = new_reference(table[NOTHING])
        v[table[VERSION_AT]] = new_reference(version)
        v[table[SEEN_AT]] = new_reference(bits(version, Ptr[i64])[table[WRITES_AT]])
        v[table[KIND_AT]] = new_reference(kind)
        made = wrapped(array, edge, version, table)
        Py_DecRef(edge)
    return made


@inline
def kind_of(source, recording, several, table):
    """The kind of a view (autograd/views.py); borrowed."""
    kind, before = table[NO_GRAD], source[table[EDGE_AT]]
    if recording:
        kind = table[MULTI] if several else table[DEFAULT]
    if (before != table[NOTHING]) & (not (recording & several)):
        own = bits(before, Ptr[i64])[table[KIND_AT]]
        if own != table[DEFAULT]:
            kind = own + 0
    return kind


@inline
def arguments_of(first, objects, count):
    """A tuple of `first` and of the objects behind the input; 0 where memory is short."""
    made = PyTuple_New(len(first) + count)
    if made != 0:
        for k in unroll(len(first)):
            PyTuple_SetItem(made, k, new_reference(first[k]))
        for k in range(count):
            PyTuple_SetItem(made, len(first) + k, new_reference(objects[k]))
    return made


@inline
def all_views(arrays, source, version, recording, statics, count, table):
    """The tuple of views with the arrays of a list; 0 after an error."""
    n = bits(arrays, Ptr[i64])[abi.LIST_SIZE]
    made = PyTuple_New(n)
    kind = kind_of(source, recording, True, table)
    for k in range(n):
        if made != 0:
            item = Object(0)
            place = PyLong_FromLongLong(k)
            args = arguments_of([table[OP], place], statics, count)
            Py_DecRef(place)
            if args != 0:
                a = bits(bits(arrays, Ptr[i64])[abi.LIST_ITEMS], Ptr[i64])[k]
                item = view_of(new_reference(a), source, version, table[NTH], args, kind, table)
            if item == 0:
                Py_DecRef(made)
                made = Object(0)
            else:
                PyTuple_SetItem(made, k, item)
    return made


@entry
def unrecorded_view(self: Ptr[i64], objects: Ptr[Object], count: i64, keywords: Object):
    """`unrecorded_view(forward, xp, input, *statics)`, or without `xp`: the view of a tensor, or a tuple of the views
    where the forward gives a list of arrays."""
    table = bits(self[DATA], Ptr[i64])
    given, named, a, version = array(i64, MOST), i64(0), i64(0), i64(0)
    if keywords != 0:
        named = bits(keywords, Ptr[i64])[abi.TUPLE_SIZE]
    at = table[TENSORS]  # where the input stands
    statics = count + named - 1 - at
    source = bits(objects[at], Ptr[i64])
    if no_modes(table) & (count + named <= MOST):
        a = array_of(source, table)
    if a != 0:
        version = version_of(source, table)
        if version == 0:
            return Object(0)
    if (a == 0) | (version == table[INFERENCE]):
        return new_reference(table[NOTHING])
    grad = PyObject_GetAttr(table[THREAD], table[GRAD])
    if grad == 0:
        return Object(0)
    Py_DecRef(grad)
    recording = grad == table[YES]
    for k in range(count + named - 1):
        given[k] = objects[k + 1]
    given[at - 1] = a
    Py_IncRef(a)
    made = PyObject_Vectorcall(objects[0], given, count - 1, keywords)
    Py_DecRef(a)
    if made == 0:
        return made
    if bits(made, Ptr[i64])[TYPE] == table[LIST]:
        views = all_views(made, source, version, recording, objects + at + 1, statics, table)
        Py_DecRef(made)
        return views
    made = as_array(made, table)
    if made == 0:
        return made
    args = arguments_of([], objects + at + 1, statics)
    if args == 0:
        Py_DecRef(made)
        return args
    kind = kind_of(source, recording, False, table)
    return view_of(made, source, version, table[OP], args, kind, table)


def bind(
    op: Any, fixed: Sequence[int], tensors: int, alike: bool, taken: tuple
) -> Callable[..., Any]:
    """The builtin of the entry for an operator; `fixed`: its table up to FIXED, `taken`: the dtypes, none for all."""
    code = (unrecorded_view if op.view else unrecorded).address()
    table = np.array([*fixed, id(op), tensors, alike, len(taken), *map(id, taken)], np.int64)
    native.keep((taken, table, op))
    return builtin(op.name, code, table, keywords=True)
