"""How the entries of calls (calls.py) read their arguments: arrays out of tensors, and the edges of these."""

from __future__ import annotations

from rushlight._codegen.kernels.call_nodes import (
    ACTIVE,
    ALIKE,
    ARRAY,
    ARRAY_AT,
    BASE_AT,
    COUNTER_AT,
    EDGE_AT,
    GRAD,
    MODES_AT,
    MOST,
    NODE_AT,
    NOTHING,
    OPTIONAL,
    SEEN_AT,
    TAKEN,
    TENSOR,
    TENSORS,
    THREAD,
    VERSION,
    VERSION_AT,
    VIEW,
    WANTED,
    WRITES_AT,
    YES,
    ZERO,
)
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import new_reference
from rushlight._codegen.python_api import (
    Object,
    Py_DecRef,
    PyList_New,
    PyList_SetItem,
    PyObject_GetAttr,
    PyType_IsSubtype,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.runtime.abi import TYPE
from rushlight._codegen.types import Ptr, b1, i64


@inline
def takes(dtype, table, which):
    """Whether a dtype is one of a list; an empty one has all."""
    at = table[which]
    n = table[at]
    found = n == 0
    for k in range(n):
        if table[at + 1 + k] == dtype:
            found = b1(1)
            break
    return found


@inline
def array_of(tensor, table):
    """The array of a tensor; 0 for anything else."""
    made = i64(0)
    fits = tensor[TYPE] == table[TENSOR]
    if not fits:
        fits = PyType_IsSubtype(tensor[TYPE], table[TENSOR]) != 0
    if fits:
        a = tensor[table[ARRAY_AT]]
        if a != 0:
            if bits(a, Ptr[i64])[TYPE] == table[ARRAY]:
                made = a + 0
    return made


@inline
def edge_of(tensor, table):
    """The node that takes the gradient of a tensor, or None; 0 where Python has to find it. Borrowed."""
    edge = tensor[table[EDGE_AT]]
    if (edge != table[NOTHING]) & (edge != 0):
        view = bits(edge, Ptr[i64])
        if view[TYPE] == table[VIEW]:
            edge = view[table[NODE_AT]]
            if edge == table[NOTHING]:
                if bits(view[table[BASE_AT]], Ptr[i64])[table[EDGE_AT]] != table[NOTHING]:
                    edge = i64(0)
            else:
                version = bits(view[table[VERSION_AT]], Ptr[i64])
                known = version[TYPE] == table[VERSION]
                if known:
                    known = view[table[SEEN_AT]] == version[table[WRITES_AT]]
                if not known:
                    edge = i64(0)
    return edge


@inline
def records(table):
    """Whether this thread records operations; -1 after an error."""
    grad = PyObject_GetAttr(table[THREAD], table[GRAD])
    answer = i64(-1)
    if grad != 0:
        answer = i64(grad == table[YES])
        Py_DecRef(grad)
    return answer


@inline
def no_modes(table):
    """Whether no mode is on, in any thread."""
    return bits(table[ACTIVE], Ptr[i64])[table[MODES_AT]] == table[ZERO]


@inline
def read(objects, arguments, given, held, edges, table):
    """Write what the kernel is given, with arrays for tensors, these arrays, and the edges that gradients may go to.

    Returns whether the entry takes them, how many arrays there are, the dtype of the last, whether one has a history, and
    whether all that Python would have to look for is known.
    """
    arrays, dtype = i64(0), i64(0)
    history, found = b1(0), b1(1)
    fits = no_modes(table) & (arguments <= MOST)
    if fits:
        for k in range(arguments):
            o = objects[k + 1]
            given[k] = o
            tensor = ((table[TENSORS] >> k) & 1) != 0
            if tensor & (o == table[NOTHING]):
                tensor = ((table[OPTIONAL] >> k) & 1) == 0
                edges[k] = o
            if tensor:
                a = array_of(bits(o, Ptr[i64]), table)
                fits = a != 0
                if fits:
                    own = bits(a, Ptr[i64])[abi.DTYPE]
                    fits = takes(own, table, TAKEN)
                    fits = fits & ((table[ALIKE] == 0) | (arrays == 0) | (own == dtype))
                    dtype = own + 0
                    given[k] = a
                    held[arrays] = a
                    arrays = arrays + 1
                    edges[k] = table[NOTHING]
                    counter = bits(o, Ptr[i64])[table[COUNTER_AT]]
                    if counter != table[NOTHING]:  # inference mode's, and `Since`, Python reads
                        found = found & (counter != 0)
                        if counter != 0:
                            found = found & (bits(counter, Ptr[i64])[TYPE] == table[VERSION])
                    if ((table[WANTED] >> k) & 1) != 0:
                        edges[k] = edge_of(bits(o, Ptr[i64]), table)
                        history = history | (edges[k] != table[NOTHING])
                        found = found & (edges[k] != 0)
            if not fits:
                break
    return fits, arrays, dtype, history, found


@inline
def arrays_of(items, n, table):
    """(a list of the arrays of n tensors, whether one has a history); no list (0) of anything else and after an error."""
    made, history = PyList_New(n), b1(0)
    for k in range(n):
        if made != 0:
            tensor = bits(items[k], Ptr[i64])
            a = array_of(tensor, table)
            if a == 0:
                Py_DecRef(made)
                made = Object(0)
            else:
                PyList_SetItem(made, k, new_reference(a))
                history = history | (edge_of(tensor, table) != table[NOTHING])
    return made, history
