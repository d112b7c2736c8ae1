"""NumPy ufuncs out of native loops: broadcasting, strides, casts, `out=` and `where=` are NumPy's.

A loop is a native function `void (char **args, int64_t *dimensions, int64_t *steps, void *data)`:
`dimensions[0]` elements, operand i starting at `args[i]` and going on by `steps[i]` bytes, outputs after
inputs. It is called without the GIL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np

from rushlight._codegen import native


def make(
    name: str,
    loops: Sequence[tuple[int, Sequence[Any]]],
    nin: int,
    nout: int,
    doc: str = "",
    data: Sequence[int] = (),
) -> np.ufunc:
    """A ufunc of these loops: each an address, and the dtypes of its inputs and outputs.

    NumPy takes the first loop that the inputs can safely be cast to, so the narrow come first. Loops
    of ml_dtypes' dtypes, bfloat16 among them, are taken for just their own dtypes. `data`: what each
    loop is given as its last argument, else null. TypeError for a
    loop that does not have `nin + nout` dtypes.
    """
    if not loops:
        raise ValueError(f"ufunc {name!r} needs at least one loop")
    given = [*data, *[0] * (len(loops) - len(data))]
    typed = [
        (address, [np.dtype(each) for each in dtypes], at)
        for (address, dtypes), at in zip(loops, given, strict=True)
    ]
    for _, dtypes, _ in typed:
        if len(dtypes) != nin + nout:
            raise TypeError(f"ufunc {name!r} has {nin + nout} operands, but a loop has {dtypes}")
    # Dtypes from outside of NumPy have numbers of 256 and up, which do not fit the table.
    known = [one for one in typed if max(d.num for d in one[1]) < 256]
    others = [one for one in typed if max(d.num for d in one[1]) >= 256]
    count = len(known)
    functions = (ctypes.c_void_p * max(count, 1))(*(one[0] for one in known))
    their_data = (ctypes.c_void_p * max(count, 1))(*(one[2] or None for one in known))
    numbers = bytes(d.num for one in known for d in one[1])
    names = (name.encode(), doc.encode())
    from_loops, register = _numpy()
    # No identity (-1): these are no reductions.
    made = from_loops(functions, their_data, numbers, count, nin, nout, -1, *names, 0)
    native.keep((functions, their_data, numbers, names))  # a ufunc has no place to hold them
    for address, dtypes, at in others:
        first = next(d.num for d in dtypes if d.num >= 256)
        types = (ctypes.c_int * (nin + nout))(*(d.num for d in dtypes))
        register(made, first, address, types, at or None)  # copies the types
    return made


@cache
def _numpy() -> tuple[Any, Any]:
    """PyUFunc_FromFuncAndData and PyUFunc_RegisterLoopForType, out of NumPy's table."""
    from numpy._core._multiarray_umath import _UFUNC_API

    table = (ctypes.c_int64 * 3).from_address(native.pointer(_UFUNC_API))
    p, text, number = ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int
    make = (p, p, text, number, number, number, number, text, text, number)
    from_loops = ctypes.PYFUNCTYPE(ctypes.py_object, *make)(table[1])
    register = ctypes.PYFUNCTYPE(number, ctypes.py_object, number, p, p, p)(table[2])
    return from_loops, register
