"""Lists of kernel calls on known places in memory, carried out by one call from Python."""

from __future__ import annotations

from functools import cache
from typing import Any

from rushlight._codegen.kernel import builtin, entry
from rushlight._codegen.kernels.header import matches
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import ARRAY, NOTHING, USED, YES, new_reference, table_of
from rushlight._codegen.python_api import Object, Py_DecRef, PyObject_Vectorcall
from rushlight._codegen.runtime.abi import DATA
from rushlight._codegen.types import Header, Ptr, b1, i64, u8

# What a table begins with: where it stands whether its arena is in use; how many arrays are given; where the moves stand
# and how many they are; the same of calls. Then what each array must be, as `matches` takes it.
BUSY, ARRAYS, MOVES, MOVED, CALLS, CALLED, CHECKS = range(7)
# A move: an array whose memory is a part of a given one; which; how many bytes behind its first element it begins.
# A call: a builtin function; where its arguments stand; how many; where zeros stand that it leaves, and how many words.
# Without a function: bytes that become zero; the array that they are of; how many.
MOVE, CALL = 3, 5


@inline
def clear(first, n):
    """Set n bytes at an address to zero."""
    words = bits(first, Ptr[i64])
    for k in range(n // 8):
        words[k] = i64(0)
    rest = bits(first + n // 8 * 8, Ptr[u8])
    for k in range(n % 8):
        rest[k] = u8(0)


@entry
def carry_out(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """`carry_out(table, *arrays)`: True; None where an array is another one or the arena is in use, where a kernel says
    that something is wrong with what it is given, and while native entries are not in use."""
    bound = bits(self[DATA], Ptr[i64])
    table = bits(bits(objects[0], Ptr[i64])[DATA], Ptr[i64])
    busy = bits(table[BUSY], Ptr[i64])
    fits = (bound[USED] != 0) & (busy[0] == 0) & (count == table[ARRAYS] + 1)
    check = i64(CHECKS)
    if fits:
        for k in range(table[ARRAYS]):
            fits = fits & matches(
                bits(objects[k + 1], Ptr[i64]), bits(bound[ARRAY], Header), table, check
            )
            check = check + 2 + 2 * table[check + 1]
    if not fits:
        return new_reference(bound[NOTHING])
    busy[0] = i64(1)
    at = table[MOVES]
    for _ in range(table[MOVED]):
        given = bits(objects[table[at + 1] + 1], Ptr[i64])
        bits(table[at], Ptr[i64])[DATA] = given[DATA] + table[at + 2]
        at = at + MOVE
    at = table[CALLS]
    raised = b1(0)
    for _ in range(table[CALLED]):
        if table[at] == 0:
            clear(bits(table[at + 1], Ptr[i64])[DATA], table[at + 2])
        else:
            pending = bits(table[at + 3], Ptr[i64])
            for k in range(table[at + 4]):
                pending[k] = i64(0)
            result = PyObject_Vectorcall(
                table[at], bits(table[at + 1], Ptr[Object]), table[at + 2], 0
            )
            raised = result == 0
            if raised:
                break
            Py_DecRef(result)
            for k in range(table[at + 4]):
                fits = fits & (pending[k] == 0)
            if not fits:
                break
        at = at + CALL
    busy[0] = i64(0)
    if raised:
        return Object(0)
    return new_reference(bound[YES] if fits else bound[NOTHING])


@cache
def runner() -> Any:
    """The builtin function `carry_out`."""
    return builtin("carry_out", carry_out.address(), table_of(None))
