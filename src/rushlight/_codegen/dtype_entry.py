"""Entries by the dtype of their first argument, put before functions.

`put_entries_before(entries)` makes a builtin function of one in Python: it calls the entry for the dtype of the first array, with
no Python between, and where that takes nothing, the function.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._codegen.kernel import builtin, entry
from rushlight._codegen.language import array, bits, inline, routine
from rushlight._codegen.native_entry import ByDtype, new_reference, unbound
from rushlight._codegen.python_api import (
    Object,
    Py_DecRef,
    PyObject_CallOneArg,
    PyObject_GetItem,
    PyObject_Vectorcall,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.runtime.abi import (
    C_CONTIGUOUS,
    DATA,
    DTYPE,
    FLAGS,
    LIST_ITEMS,
    LIST_SIZE,
    TUPLE_ITEMS,
    TUPLE_SIZE,
    TYPE,
)
from rushlight._codegen.types import Ptr, i32, i64

# What `by_first` is bound to: the types of arrays and lists, None, the entries by dtype, the function behind them, the
# word `out` where the entries take an array to write to behind the other arguments, and what copies arrays (or 0).
FIRST_ARRAY, FIRST_LIST, FIRST_NOTHING, ENTRIES, FALLBACK, OUT, COPY = range(7)
COPIES = 8  # arguments among which arrays are copied, at most
SMALL = 1 << 12  # elements up to which that is done here


@inline
def strided(o, table):
    """Whether an object is a small array that is not row-major, and repeats no element."""
    fits = bits(o, Ptr[i64])[TYPE] == table[FIRST_ARRAY]
    if fits:
        a, n = bits(o, Ptr[i64]), i64(1)
        fits = (bits(a + FLAGS, Ptr[i32])[0] & C_CONTIGUOUS) == 0
        for k in range(i64(bits(a + abi.NDIM, Ptr[i32])[0])):
            n = n * bits(a[abi.SHAPE], Ptr[i64])[k]
            fits = fits & (bits(a[abi.STRIDES], Ptr[i64])[k] != 0)
        fits = fits & (n <= SMALL)
    return fits


@routine
def of_copies(taken: Object, objects: Ptr[Object], count: i64, table: Ptr[i64]):
    """What an entry makes of its arguments with copies of those that are strided; None where none is."""
    copies, made = array(Object, COPIES), i64(0)
    result = new_reference(table[FIRST_NOTHING])
    if count <= COPIES:
        for k in range(count):
            copies[k] = objects[k]
            if (result != 0) & strided(objects[k], table):
                copy = PyObject_CallOneArg(table[COPY], objects[k])
                if copy == 0:
                    Py_DecRef(result)
                    result = Object(0)
                else:
                    copies[k] = copy
                    made += 1
        if (result != 0) & (made > 0):
            Py_DecRef(result)
            result = PyObject_Vectorcall(taken, copies, count, Object(0))
        for k in range(count):
            if copies[k] != objects[k]:
                Py_DecRef(copies[k])
    return result


@entry
def by_first(self: Ptr[i64], objects: Ptr[Object], count: i64, keywords: Object):
    """Call the entry for the dtype of the first argument, or of the first item of a list; where it takes
    nothing, once more with copies of small arrays that are not row-major; then the fallback."""
    table = bits(self[DATA], Ptr[i64])
    out = i64(0)
    if keywords != 0:
        names = bits(keywords, Ptr[i64])
        if (names[TUPLE_SIZE] == 1) & (names[TUPLE_ITEMS] == table[OUT]):
            out = i64(1)
    if ((keywords == 0) | (out == 1)) & (count > 0):
        first = objects[0]
        if bits(first, Ptr[i64])[TYPE] == table[FIRST_LIST]:
            if bits(first, Ptr[i64])[LIST_SIZE] > 0:
                first = bits(bits(first, Ptr[i64])[LIST_ITEMS], Ptr[i64])[0]
        if bits(first, Ptr[i64])[TYPE] == table[FIRST_ARRAY]:
            found = PyObject_GetItem(table[ENTRIES], bits(first, Ptr[i64])[DTYPE])
            if found == 0:
                return Object(0)
            result = PyObject_Vectorcall(found, objects, count + out, 0)
            if (result == table[FIRST_NOTHING]) & (table[COPY] != 0) & (out == 0):
                Py_DecRef(result)
                result = of_copies(found, objects, count, table)
            Py_DecRef(found)
            if result != table[FIRST_NOTHING]:
                return result
            Py_DecRef(result)
    return PyObject_Vectorcall(table[FALLBACK], objects, count, keywords)


def put_entries_before(
    entries: ByDtype, copy: Callable[..., Any] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put entries before a function: the one for the dtype of the first array is called first.

    The function does what they do not take: keyword arguments, but for `out=` where the entries take that. No Python runs
    before an entry. `copy`: what makes row-major copies, where an entry gets small arrays of another order as such.
    """

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        from rushlight._codegen import native

        if not (native.available() and native.has_instructions() and abi.available()):
            return function
        known = np.ndarray, list, None, entries, function
        words = id(sys.intern("out")) if entries.out else 0, id(copy) if copy else 0
        table = np.array([*map(id, known), *words], np.int64)
        native.keep_alive((entries, function, copy))
        made = builtin(function.__name__, by_first.address(), table, keywords=True)
        _behind[made] = function
        return made

    return decorated


def entries_alone(entries: ByDtype, copy: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """The entry for the dtype of the first array, with nothing behind it: None for what it does not take."""
    return put_entries_before(entries, copy)(unbound)


_behind: dict[Callable[..., Any], Callable[..., Any]] = {}


def function_behind(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function in Python that entries stand before; the function itself where there are none."""
    return _behind.get(function, function)
