"""The native entry before the kernel `laid_out`: most results lie as they should, which no Python needs to find out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._codegen.kernel import builtin, entry
from rushlight._codegen.kernels import header
from rushlight._codegen.kernels import layout as layouts
from rushlight._codegen.language import array, bits
from rushlight._codegen.native_entry import new_reference
from rushlight._codegen.python_api import Object, PyObject_Vectorcall
from rushlight._codegen.runtime.abi import DATA, TYPE
from rushlight._codegen.types import Header, Ptr, i64

# What it is bound to: the class of arrays, None, the function behind it.
ARRAY, NOTHING, BEHIND = range(3)
MOST = 8  # operands


@entry
def laid_out(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """`laid_out(r, *operands)`: `r` itself where that is right at first sight."""
    table = bits(self[DATA], Ptr[i64])
    held, arrays, made = array(i64, MOST), i64(0), objects[0]
    right = (count > 0) & (count <= MOST)
    if right:
        right = bits(made, Ptr[i64])[TYPE] == table[ARRAY]
    if right & (count > 1):
        if bits(objects[1], Ptr[i64])[TYPE] == table[ARRAY]:
            if layouts.has_layout_of(bits(objects[1], Header), bits(made, Header)):
                return new_reference(made)
    if right:
        for k in range(1, count):
            o = objects[k]
            if bits(o, Ptr[i64])[TYPE] == table[ARRAY]:
                held[arrays] = o
                arrays = arrays + 1
                right = (
                    right
                    & (o != made)
                    & (header.dims_of(bits(o, Header)) <= header.dims_of(bits(made, Header)))
                )
        if right:
            right = layouts.has_right_strides(held, arrays, bits(made, Header))
    if right:
        return new_reference(made)
    return PyObject_Vectorcall(table[BEHIND], objects, count, Object(0))


def before(function: Callable[..., Any]) -> Callable[..., Any]:
    """Put the entry before the reference's kernel."""
    from rushlight._codegen import native
    from rushlight._codegen.runtime import abi

    if not (native.available() and native.has_instructions() and abi.available()):
        return function
    table = np.array([id(each) for each in (np.ndarray, None, function)], np.int64)
    native.keep_alive((table, function))
    return builtin("laid_out", laid_out.address(), table)
