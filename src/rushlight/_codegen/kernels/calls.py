"""The entries of calls: they take the arrays out of tensors, call a kernel, wrap the result, and record the call.

What they are bound to is an array of addresses and numbers, at the places named here. They answer None where a call is
another one: then the printed function goes on. What a kernel raises goes to the caller.
"""

from __future__ import annotations

from rushlight._codegen.kernel import entry
from rushlight._codegen.kernels import header
from rushlight._codegen.kernels.call_arguments import (
    array_of,
    arrays_of,
    edge_of,
    no_modes,
    read,
    records,
    takes,
)
from rushlight._codegen.kernels.call_nodes import (
    ARGS_AT,
    ARRAY,
    ARRAY_AT,
    AS_ARRAY,
    BASE_AT,
    COPY,
    COUNTER_AT,
    DEFAULT,
    EDGE_AT,
    FLOATING,
    FLOATING_ONLY,
    KIND_AT,
    LAID_OUT,
    LIST,
    MAKE_AT,
    MOST,
    MULTI,
    NO_GRAD,
    NODE,
    NODE_AT,
    NOTHING,
    NTH,
    OP,
    OPERANDS,
    OUTPUTS,
    PARENT_AT,
    RESULTS,
    ROW_MAJOR_ONLY,
    SEEN_AT,
    TENSOR,
    TENSORS,
    TUPLE,
    VERSION,
    VERSION_AT,
    VERSION_OF,
    VIEW,
    WRITES_AT,
    YES,
    ZERO,
    edges_tuple,
    node_of,
    with_item,
)
from rushlight._codegen.kernels.header import in_order
from rushlight._codegen.kernels.layout import (
    DIMS,
    RENAMED,
    RIGHT,
    compared,
    has_layout_of,
    has_right_strides,
)
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import new_reference
from rushlight._codegen.python_api import (
    Object,
    Py_DecRef,
    Py_IncRef,
    PyErr_Occurred,
    PyLong_AsLongLongAndOverflow,
    PyLong_FromLongLong,
    PyObject_CallOneArg,
    PyObject_GetItem,
    PyObject_Vectorcall,
    PyTuple_New,
    PyTuple_SetItem,
    PyType_GenericAlloc,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.runtime.abi import DATA, TYPE
from rushlight._codegen.types import Ptr, b1, i32, i64


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
def laid_out(made, given, table):
    """The array `made`, which it takes over, as it should lie for its operands; 0 after an error, and stays one."""
    at, asked = table[OPERANDS], made != 0
    if asked:
        asked = table[at] >= 0
    if asked:
        if table[at + 1] > 0:
            first = given[table[at + 2]]
            if first != table[NOTHING]:
                asked = not has_layout_of(bits(first, Ptr[i64]), bits(made, Ptr[i64]))
    if asked:
        made = with_right_strides(made, given, table)
    return made


@routine
def with_right_strides(made, given, table):
    """The result with the strides that it should have, which takes it over; 0 after an error."""
    at, count, held, fresh = table[OPERANDS], i64(0), array(i64, MOST + 2), b1(1)
    numbers = table[at]
    for k in range(table[at + 1]):
        a = given[table[at + 2 + k]]
        if a != table[NOTHING]:
            held[1 + count] = a
            count = count + 1
            fresh = fresh & (a != made)
    out, strides, found = bits(made, Ptr[i64]), array(i64, DIMS), i64(RIGHT)
    if fresh:
        if not has_right_strides(held + 1, count, out):
            found = compared(held + 1, count, numbers, out, strides)
    laid = made
    if (found == RENAMED) & (out[abi.BASE] == 0):
        for k in range(header.dims_of(out)):
            header.strides_of(out)[k] = strides[k]
    elif found != RIGHT:
        held[0] = made
        if numbers > 0:
            held[1 + count] = table[ZERO]
            count = count + 1
        laid = PyObject_Vectorcall(table[LAID_OUT], bits(held, Ptr[Object]), 1 + count, 0)
        Py_DecRef(made)
    return laid


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


@inline
def several(arrays, table):
    """The tuple of tensors with the arrays that a kernel gave, which it takes over; 0 after an error."""
    n = table[OUTPUTS]
    made = PyType_GenericAlloc(table[RESULTS], n)
    for k in range(n):
        if made != 0:
            place = PyLong_FromLongLong(k)
            item = PyObject_GetItem(arrays, place)
            Py_DecRef(place)
            if item != table[NOTHING]:
                item = as_array(item, table)
                if item != 0:
                    item = wrapped(item, table[NOTHING], table[NOTHING], table)
            made = with_item(made, k, item)
    Py_DecRef(arrays)
    return made


@inline
def to_copy(given, table):
    """What an operator that writes to a copy of its first array writes to, in the place of that array: the copy, or
    None where it makes none; 0 after an error."""
    made = new_reference(table[NOTHING])
    if table[COPY] != 0:
        Py_DecRef(made)
        made = PyObject_CallOneArg(table[COPY], given[0])
        given[0] = made
    return made


@inline
def written_copy(answer, copy, table):
    """The copy where the kernel answered that it has written to it, else the answer; it takes both over."""
    made = answer + 0
    if table[COPY] != 0:
        if answer == table[YES]:
            made = copy + 0
            Py_DecRef(answer)
        else:
            Py_DecRef(copy)
    else:
        Py_DecRef(copy)
    return made


@entry
def call(self: Ptr[i64], objects: Ptr[Object], count: i64, keywords: Object):
    """`call(kernel, *arguments)`: the kernel's result as a tensor, with arrays for tensors; None where the kernel gives
    that."""
    table = bits(self[DATA], Ptr[i64])
    given, held, edges = array(i64, MOST), array(i64, MOST), array(i64, MOST)
    named = i64(0)
    if keywords != 0:
        named = bits(keywords, Ptr[i64])[abi.TUPLE_SIZE]
    fits, arrays, dtype, history, found = read(
        objects, count + named - 1, given, held, edges, table
    )
    if fits & history:
        recording = records(table)
        if recording < 0:
            return Object(0)
        history = recording == 1
        if history:
            fits = found & (table[NODE] != 0)
            if fits & (table[FLOATING_ONLY] != 0):
                fits = takes(dtype, table, FLOATING)
    if fits & (table[ROW_MAJOR_ONLY] != 0):
        fits = in_order(bits(given[0], Ptr[i64]))
    if not fits:
        return new_reference(table[NOTHING])
    sources = Object(0)
    if history:
        sources = edges_tuple(edges, table)
        if sources == 0:
            return sources
    for k in range(arrays):  # another thread may exchange the array of a tensor meanwhile
        Py_IncRef(held[k])
    made, copy = Object(0), to_copy(given, table)
    if copy != 0:
        answer = PyObject_Vectorcall(objects[0], given, count - 1, keywords)
        made = written_copy(answer, copy, table)
    declined = made == table[NOTHING]
    alone = table[OUTPUTS] == 0
    if not declined:
        if alone:
            made = laid_out(as_array(made, table), given, table)
        elif made != 0:
            made = several(made, table)
    node = table[NOTHING]
    if history:
        if declined | (made == 0):
            Py_DecRef(sources)
        else:
            node = node_of(edges, sources, objects + 1, given, made, table)
            if node == 0:
                Py_DecRef(made)
                made = Object(0)
    if (made != 0) & alone & (not declined):
        made = wrapped(made, node, table[NOTHING], table)
        if history:
            Py_DecRef(node)
    for k in range(arrays):
        Py_DecRef(held[k])
    return made


@entry
def call_list(self: Ptr[i64], objects: Ptr[Object], count: i64, keywords: Object):
    """`call_list(kernel, tensors, *statics)`: what a kernel makes of the arrays of a list or tuple of tensors, without
    history; None where it makes nothing of them."""
    table = bits(self[DATA], Ptr[i64])
    given, tensors, n = array(i64, MOST), bits(objects[1], Ptr[i64]), i64(0)
    items = tensors + abi.TUPLE_ITEMS
    if no_modes(table) & (count <= MOST):
        if tensors[TYPE] == table[LIST]:
            n = tensors[abi.LIST_SIZE] + 0
            items = bits(tensors[abi.LIST_ITEMS], Ptr[i64])
        elif tensors[TYPE] == table[TUPLE]:
            n = tensors[abi.TUPLE_SIZE] + 0
    made = new_reference(table[NOTHING])
    if n > 0:
        arrays, history = arrays_of(items, n, table)
        if (arrays == 0) & (PyErr_Occurred() != 0):
            made = Object(0)
        if (arrays != 0) & history:
            recording = records(table)
            if recording != 0:
                Py_DecRef(arrays)
                arrays = Object(0)
            if recording < 0:
                made = Object(0)
        if arrays != 0:
            given[0] = arrays
            for k in range(1, count - 1):
                given[k] = objects[k + 1]
            Py_DecRef(made)
            made = PyObject_Vectorcall(objects[0], given, count - 1, Object(0))
            Py_DecRef(arrays)
            if (made != 0) & (made != table[NOTHING]):
                made = as_array(made, table)
                if made != 0:
                    made = wrapped(made, table[NOTHING], table[NOTHING], table)
    return made


@inline
def version_of(tensor, table):
    """The counter of a tensor, made where there is none; borrowed."""
    version = tensor[table[COUNTER_AT]]
    if version == table[NOTHING] and tensor[table[EDGE_AT]] != table[NOTHING]:
        one = array(i64, 1)  # a node that saved its own result is told of the counter
        one[0] = bits(tensor, i64)
        version = PyObject_Vectorcall(table[VERSION_OF], bits(one, Ptr[Object]), 1, 0)
        if version != 0:
            Py_DecRef(version)
    elif version == table[NOTHING]:
        version = PyObject_Vectorcall(table[VERSION], bits(tensor, Ptr[Object]), 0, 0)
        if version != 0:
            tensor[table[COUNTER_AT]] = version
            Py_DecRef(table[NOTHING])
    return version


@inline
def write_counted(tensor, table):
    """Count a write to the memory of a tensor. Returns whether that was possible; else there is an error."""
    version = version_of(tensor, table)
    if version != 0:
        counter, beyond = bits(version, Ptr[i64]), array(i32, 1)
        before = counter[table[WRITES_AT]] + 0
        after = PyLong_FromLongLong(PyLong_AsLongLongAndOverflow(before, beyond) + 1)
        if after != 0:
            counter[table[WRITES_AT]] = after
            Py_DecRef(before)
        version = after + 0
    return version != 0


@entry
def call_into(self: Ptr[i64], objects: Ptr[Object], count: i64, keywords: Object):
    """`call_into(kernel, *arguments)`: the first argument, a tensor without history (or a view of one) to whose
    memory the kernel wrote; None where it did not."""
    table = bits(self[DATA], Ptr[i64])
    given, held, edges = array(i64, MOST), array(i64, MOST), array(i64, MOST)
    fits, arrays, _, history, found = read(objects, count - 1, given, held, edges, table)
    if fits:
        fits = found & (edge_of(bits(objects[1], Ptr[i64]), table) == table[NOTHING])
    if fits & history:
        recording = records(table)
        if recording < 0:
            return Object(0)
        fits = recording == 0
    if not fits:
        return new_reference(table[NOTHING])
    for k in range(arrays):
        Py_IncRef(held[k])
    made = PyObject_Vectorcall(objects[0], given, count - 1, Object(0))
    for k in range(arrays):
        Py_DecRef(held[k])
    if made == table[YES]:
        Py_DecRef(made)
        made = Object(0)
        if write_counted(bits(objects[1], Ptr[i64]), table):
            made = new_reference(objects[1])
    return made


@inline
def view_of(array, source, version, make, args, node, kind, table):
    """A tensor around an array that is a view of the memory of `source`; it takes the array and `args` over."""
    made = Object(0)
    edge = PyType_GenericAlloc(table[VIEW], 0)
    if edge == 0:
        Py_DecRef(array)
        Py_DecRef(args)
    else:
        before = source[table[EDGE_AT]]
        v, base, parent = bits(edge, Ptr[i64]), bits(source, i64), table[NOTHING]
        if bits(before, Ptr[i64])[TYPE] == table[VIEW]:
            base = bits(before, Ptr[i64])[table[BASE_AT]]
            parent = before + 0
        v[table[BASE_AT]] = new_reference(base)
        v[table[PARENT_AT]] = new_reference(parent)
        v[table[MAKE_AT]] = new_reference(make)
        v[table[ARGS_AT]] = args
        v[table[NODE_AT]] = new_reference(node)
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
    if not (recording & several):
        if bits(before, Ptr[i64])[TYPE] == table[VIEW]:
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
                item = view_of(
                    new_reference(a), source, version, table[NTH], args, table[NOTHING], kind, table
                )
            made = with_item(made, k, item)
    return made


@entry
def call_view(self: Ptr[i64], objects: Ptr[Object], count: i64, keywords: Object):
    """`call_view(forward, xp, input, *statics)`, or without `xp`: the view of a tensor, or a tuple of the views where
    the forward gives a list of arrays."""
    table = bits(self[DATA], Ptr[i64])
    given, edges, named, a, version = array(i64, MOST), array(i64, MOST), i64(0), i64(0), i64(0)
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
        if bits(version, Ptr[i64])[TYPE] != table[VERSION]:
            a = i64(0)
    if a == 0:
        return new_reference(table[NOTHING])
    recording = records(table)
    if recording < 0:
        return Object(0)
    edge = edge_of(source, table)
    history = (recording == 1) & (edge != table[NOTHING])
    if history & ((edge == 0) | (table[NODE] == 0)):
        return new_reference(table[NOTHING])
    for k in range(count + named - 1):
        given[k] = objects[k + 1]
    given[at - 1] = a
    edges[at - 1] = edge
    node = new_reference(table[NOTHING])
    Py_IncRef(a)
    Py_IncRef(edge if history else a)
    made = PyObject_Vectorcall(objects[0], given, count - 1, keywords)
    several = b1(0)
    if made != 0:
        several = bits(made, Ptr[i64])[TYPE] == table[LIST]
    if several:
        views = all_views(made, source, version, recording == 1, objects + at + 1, statics, table)
        Py_DecRef(made)
        made = views
    else:
        made = as_array(made, table)
    if history & (made != 0):
        Py_DecRef(node)
        node = Object(0)
        sources = edges_tuple(edges, table)
        if sources != 0:
            node = node_of(edges, sources, objects + 1, given, made, table)
    Py_DecRef(edge if history else a)
    Py_DecRef(a)
    args = Object(0)
    if (made != 0) & (node != 0) & (not several):
        args = arguments_of([], objects + at + 1, statics)
    if args != 0:
        kind = kind_of(source, recording == 1, False, table)
        made = view_of(made, source, version, table[OP], args, node, kind, table)
    elif (made != 0) & (not several):
        Py_DecRef(made)
        made = Object(0)
    if node != 0:
        Py_DecRef(node)
    return made
