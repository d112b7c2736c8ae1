"""Whether objects that were looked at once are still as they were: one walk over what they hold.

A table begins with three numbers: of words, of items and of twins. A word is (its address, what stands there), where the
object that it is a field of is kept by whoever has the table; what an earlier word leads to may be read by a later one. An
item is (a dictionary, a key, its value or 0 where there is none), objects by their addresses. Twins are two addresses and
the number of words of 4 bytes that are the same there.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rushlight._codegen.kernel import builtin, entry
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import new_reference
from rushlight._codegen.python_api import Object, PyDict_GetItemWithError, PyErr_Clear
from rushlight._codegen.runtime.abi import DATA
from rushlight._codegen.types import Ptr, b1, i32, i64

WORDS, ITEMS, TWINS, FIRST = range(4)
WORD, ITEM, TWIN = 2, 3, 3  # numbers of a table for each
NO, YES = range(2)  # what the entries are bound to


def table(words: list[tuple], items: list[tuple], twins: list[tuple] | tuple = ()) -> np.ndarray:
    """The table of words, items and twins."""
    numbers = [len(words), len(items), len(twins)]
    return np.array([*numbers, *[v for row in (*words, *items, *twins) for v in row]], np.int64)


@inline
def table_of(objects):
    return bits(bits(objects[0], Ptr[i64])[DATA], Ptr[i64])


@entry
def holds(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """`holds(table)`: whether all stands where it stood."""
    bound = bits(self[DATA], Ptr[i64])
    entries = table_of(objects)
    at = i64(FIRST)
    same = b1(1)
    for _ in range(entries[WORDS]):
        same = bits(entries[at], Ptr[i64])[0] == entries[at + 1]
        if not same:
            break
        at = at + WORD
    if same:
        for _ in range(entries[ITEMS]):
            found = PyDict_GetItemWithError(entries[at], entries[at + 1])
            same = found == entries[at + 2]
            if not same:
                break
            at = at + ITEM
        if not same:
            PyErr_Clear()
    if same:
        for _ in range(entries[TWINS]):
            first, second = bits(entries[at], Ptr[i32]), bits(entries[at + 1], Ptr[i32])
            for k in range(entries[at + 2]):
                same = same & (first[k] == second[k])
            at = at + TWIN
    return new_reference(bound[YES] if same else bound[NO])


@entry
def spread(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """`spread(table)`: make the second of all twins what the first is."""
    bound = bits(self[DATA], Ptr[i64])
    entries = table_of(objects)
    at = FIRST + WORD * entries[WORDS] + ITEM * entries[ITEMS]
    for _ in range(entries[TWINS]):
        first, second = bits(entries[at], Ptr[i32]), bits(entries[at + 1], Ptr[i32])
        for k in range(entries[at + 2]):
            second[k] = first[k]
        at = at + TWIN
    return new_reference(bound[YES])


@cache
def walks() -> tuple[Any, Any]:
    """The builtin functions `holds` and `spread`."""
    bound = np.array([id(False), id(True)], np.int64)
    return builtin("holds", holds.address(), bound), builtin("spread", spread.address(), bound)
