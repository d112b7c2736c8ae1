"""The nodes of calls, made in machine code (calls.py), and the table that its entries are bound to."""

from __future__ import annotations

from rushlight._codegen.language import *
from rushlight._codegen.native_entry import new_reference
from rushlight._codegen.python_api import (
    Object,
    Py_DecRef,
    Py_IncRef,
    PyObject_GetAttr,
    PyObject_GetItem,
    PyTuple_New,
    PyTuple_SetItem,
    PyType_GenericAlloc,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Ptr, b1, i32, i64

MOST = 12  # arguments of a kernel

# The slots of a tensor, of the edge that a view has, of a version, of what counts modes and of a node; classes and
# objects.
(
    ARRAY_AT, EDGE_AT, COUNTER_AT, BASE_AT, PARENT_AT, MAKE_AT, ARGS_AT, NODE_AT, VERSION_AT, SEEN_AT, KIND_AT,
    WRITES_AT, MODES_AT, EDGES_AT, SAVED_AT, UNBROADCAST_AT, HOOKS_AT, RESULT_VERSION_AT, STATICS_AT, TENSOR, ARRAY,
    VIEW, VERSION, ACTIVE, ZERO, NOTHING, AS_ARRAY, THREAD, GRAD, YES, SHAPE, DTYPES, DEFAULT, NO_GRAD,
    MULTI, NTH, LIST, TUPLE, VERSION_OF, LAID_OUT, FIXED,
) = range(41)  # fmt: skip
# Then, of an operator: itself; how many outputs have names (0: it has one, without), and the class of the tuple of
# these; which arguments are tensors, may be None, and may have a gradient, a bit for each (of a
# view, the place of its one); whether the dtypes of tensors are the same one, and those of recorded calls floating;
# the class of its nodes (0: calls are not recorded here), the class where the argument PAIR_AT is not None; whether
# gradients are summed to the shapes of inputs; where the lists start: dtypes that are taken (none: all) and are
# floating, the place of each input among the arguments, what nodes save: (place, whose gradients read it), and which
# values: (what, of which place); and of a result that lies in memory as operands do (-1: as the kernel makes it)
# how many numbers are among them, and their places. Of an operator that writes to a copy of its first input: what
# makes that copy (0: it writes to none), and whether only of one that is row-major.
(
    OP, OUTPUTS, RESULTS, TENSORS, OPTIONAL, WANTED, ALIKE, COPY, ROW_MAJOR_ONLY, FLOATING_ONLY, NODE, NODE_PAIR, PAIR_AT,
    SUMMED, TAKEN, FLOATING, INPUTS, SAVED, STATICS, OPERANDS, LISTS,
) = range(FIXED, FIXED + 21)  # fmt: skip
RESULT = -1  # in the place of an argument
UNWANTED = -2  # less its place: of an input that has no gradient
VALUE, SHAPE_OF, DTYPE_OF, CONSTANT = range(4)  # what a node keeps as a plain value


@inline
def edges_tuple(edges, table):
    """The tuple of the edges of all inputs; 0 where memory is short."""
    at = table[INPUTS]
    n = table[at]
    made = PyTuple_New(n)
    if made != 0:
        for k in range(n):
            place, edge = table[at + 1 + k], table[NOTHING]
            if place >= 0:
                edge = edges[place]
            PyTuple_SetItem(made, k, new_reference(edge))
    return made


@inline
def with_item(made, k, item):
    """A new tuple with its item k, which it takes over; 0, and the tuple is freed, where the item is 0."""
    kept = made
    if item == 0:
        Py_DecRef(made)
        kept = Object(0)
    else:
        PyTuple_SetItem(made, k, item)
    return kept


@inline
def saved_tuple(objects, edges, result, table):
    """What a node saves: tensors, each with the version it has now, and the result's array; None for nothing."""
    at = table[SAVED]
    n = table[at]
    made = table[NOTHING]
    if n == 0:
        Py_IncRef(made)
    else:
        made = PyTuple_New(n + table[at + 1])
        put = i64(0)
        for k in range(n if made != 0 else i64(0)):
            place, readers = table[at + 2 + 2 * k], table[at + 3 + 2 * k]
            if place == RESULT:
                PyTuple_SetItem(made, put, new_reference(result))
                put = put + 1
            else:
                wanted = readers == 0
                for j in range(MOST):
                    if ((readers >> j) & 1) != 0:
                        wanted = wanted | (edges[j] != table[NOTHING])
                kept, seen = table[NOTHING], table[ZERO]
                if wanted & (objects[place] != table[NOTHING]):
                    kept = objects[place]
                    counter = bits(kept, Ptr[i64])[table[COUNTER_AT]]
                    if counter != table[NOTHING]:
                        seen = bits(counter, Ptr[i64])[table[WRITES_AT]]
                PyTuple_SetItem(made, put, new_reference(kept))
                PyTuple_SetItem(made, put + 1, new_reference(seen))
                put = put + 2
    return made


@inline
def static_of(what, value, objects, given, table):
    """One of the plain values that a node keeps; 0 after an error."""
    made = Object(0)
    if what == CONSTANT:
        made = new_reference(value)
    elif what == VALUE:
        made = new_reference(objects[value])
    elif given[value] == table[NOTHING]:
        made = new_reference(table[NOTHING])
    elif what == SHAPE_OF:
        made = PyObject_GetAttr(given[value], table[SHAPE])
    else:
        made = PyObject_GetItem(table[DTYPES], bits(given[value], Ptr[i64])[abi.DTYPE])
    return made


@inline
def statics_tuple(objects, given, table):
    """The plain values that a node keeps; 0 after an error."""
    at = table[STATICS]
    n = table[at]
    made = PyTuple_New(n)
    for k in range(n):
        if made != 0:
            value = static_of(table[at + 1 + 2 * k], table[at + 2 + 2 * k], objects, given, table)
            made = with_item(made, k, value)
    return made


@inline
def same_shape(x, y):
    """Whether two arrays have one shape."""
    a, b = bits(x, Ptr[i64]), bits(y, Ptr[i64])
    n = i64(bits(a + abi.NDIM, Ptr[i32])[0])
    same = n == i64(bits(b + abi.NDIM, Ptr[i32])[0])
    if same:
        p, q = bits(a[abi.SHAPE], Ptr[i64]), bits(b[abi.SHAPE], Ptr[i64])
        for k in range(n):
            same = same & (p[k] == q[k])
    return same


@inline
def sizes_tuple(given, table):
    """The shape and dtype to which each input's gradient is summed; None where all are those of the result; 0 after
    an error."""
    at = table[INPUTS]
    n = table[at]
    first, differ = i64(-1), b1(0)
    for k in range(n if table[SUMMED] != 0 else i64(0)):
        place = table[at + 1 + k]
        if place < 0:
            place = UNWANTED - place
        if given[place] != table[NOTHING]:
            if first < 0:
                first = place + 0
            else:
                differ = differ | (not same_shape(given[first], given[place]))
    made = table[NOTHING]
    if not differ:
        Py_IncRef(made)
    else:
        made = PyTuple_New(n)
        for k in range(n):
            place = table[at + 1 + k]
            if made != 0:
                size = table[NOTHING]
                known = b1(0)
                if place >= 0:
                    known = given[place] != table[NOTHING]
                if not known:
                    Py_IncRef(size)
                else:
                    size = PyTuple_New(2)
                    if size != 0:
                        a = given[place]
                        PyTuple_SetItem(size, 0, PyObject_GetAttr(a, table[SHAPE]))
                        PyTuple_SetItem(size, 1, new_reference(bits(a, Ptr[i64])[abi.DTYPE]))
                made = with_item(made, k, size)
    return made


@inline
def node_of(edges, sources, objects, given, result, table):
    """The node of a call, which takes over the tuple `sources` of its edges; 0 after an error.

    `edges`, `objects` and `given` stand at the places of arguments: edges, arguments, and arrays for tensors.
    """
    kind = table[NODE]
    if table[PAIR_AT] >= 0:
        if objects[table[PAIR_AT]] != table[NOTHING]:
            kind = table[NODE_PAIR]
    made = PyType_GenericAlloc(kind, 0)
    if made == 0:
        Py_DecRef(sources)
    else:
        node = bits(made, Ptr[i64])
        node[table[EDGES_AT]] = sources
        node[table[HOOKS_AT]] = new_reference(table[NOTHING])
        node[table[RESULT_VERSION_AT]] = new_reference(table[NOTHING])
        node[table[SAVED_AT]] = saved_tuple(objects, edges, result, table)
        node[table[UNBROADCAST_AT]] = sizes_tuple(given, table)
        fits = (node[table[SAVED_AT]] != 0) & (node[table[UNBROADCAST_AT]] != 0)
        if table[table[STATICS]] != 0:
            node[table[STATICS_AT]] = statics_tuple(objects, given, table)
            fits = fits & (node[table[STATICS_AT]] != 0)
        if not fits:
            Py_DecRef(made)
            made = Object(0)
    return made
