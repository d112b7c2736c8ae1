"""NumPy's ufuncs with loops that threads share, and ufuncs of loops of ours.

`parallel(numpy.exp)` is a ufunc with the same types and the same loops, so with the same results to
the last bit. Between NumPy and each loop stands a native function that hands small arrays on as
they are and cuts large ones into chunks; calls of two arrays get a native entry. Both are in
`kernels/ufunc_entry.py`. Broadcasting, strides, casts, `out=` and `where=` stay NumPy's.

A loop is a native function `void (char **args, int64_t *dimensions, int64_t *steps, void *data)`:
`dimensions[0]` elements, operand i starting at `args[i]` and going on by `steps[i]` bytes, outputs after
inputs. It is called without the GIL.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from rushlight._codegen import native
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Type, bf16, f16
from rushlight.core import dtypes
from rushlight.core.dtype_sets import BF16, I32

SHARED = "?bBhHiIlLqQefdgFDG"  # dtypes whose loops need no Python; others keep NumPy's loop
OTHERS = 256  # dtypes that do not come from NumPy have numbers from here on
FOREIGN = tuple(each for each in dtypes.OF if each.num >= OTHERS)

# dtype of both arrays -> the function, its type, and the type of the result
Functions = dict[np.dtype, tuple[Any, Type, Type]]


class CompiledLoop:
    """A loop of ours: the function that gives its address, and from how many elements it is used."""

    __slots__ = ("address", "least")

    def __init__(self, address: Callable[[], int], least: int = 0) -> None:
        self.address, self.least = address, least


@cache
def available() -> bool:
    """Whether native code can be made for this machine, and objects are as it takes them to be."""
    return native.available() and native.has_instructions() and abi.available()


# -- ufuncs ----------------------------------------------------------------------------------------


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
    rows = []
    for (address, types), given in zip(
        loops, [*data, *[0] * (len(loops) - len(data))], strict=True
    ):
        numbers = [np.dtype(each).num for each in types]
        if len(numbers) != nin + nout:
            raise TypeError(f"ufunc {name!r} has {nin + nout} operands, but a loop has {types}")
        rows.append((address, given, numbers))
    return _ufunc(name, doc, rows, nin, nout, -1, 0)  # no identity: these are no reductions


Row = tuple[int, int, Sequence[int]]  # a loop's address, its data, the numbers of its dtypes


def _ufunc(
    name: str, doc: str, rows: list[Row], nin: int, nout: int, identity: int, table: int
) -> np.ufunc:
    """A ufunc of loops; `table` stands one word before their data."""
    from_loops, register = abi.ufunc_functions()
    # NumPy's table holds numbers of one byte.
    known = [row for row in rows if max(row[2]) < OTHERS]
    functions = (ctypes.c_int64 * max(len(known), 1))(*(row[0] for row in known))
    data = (ctypes.c_int64 * (1 + max(len(known), 1)))(table, *(row[1] for row in known))
    types = bytes(number for row in known for number in row[2])
    names = name.encode(), doc.encode()
    native.keep_alive((functions, data, types, names))  # a ufunc has no place to hold them
    made = from_loops(
        functions, ctypes.addressof(data) + 8, types, len(known), nin, nout, identity, *names, 0
    )
    for address, given, numbers in rows:
        if max(numbers) >= OTHERS:
            first = next(n for n in numbers if n >= OTHERS)
            # Copies the numbers.
            register(made, first, address, (ctypes.c_int * len(numbers))(*numbers), given or None)
    return made


def parallel(
    ufunc: np.ufunc,
    loops: dict[str, CompiledLoop] | None = None,
    functions: Functions | None = None,
) -> np.ufunc:
    """A ufunc like NumPy's `ufunc` whose long loops are shared by threads; `ufunc` itself if not
    `available()`. `loops`: loops of ours instead, by their types ("f->f"; "E" is bfloat16); each is
    compiled when it is first wanted. `functions`: of two arrays that broadcast, by one native call.

    >>> exp = parallel(np.exp)
    >>> x = np.linspace(-3, 3, 100_000, dtype=np.float32)
    >>> bool((exp(x) == np.exp(x)).all())
    True
    """
    if not available():
        return ufunc
    rows = []
    for letters, (function, data, numbers) in _loops(ufunc):
        if loops and letters in loops:
            function, data = _compiled(ufunc, function, data, loops[letters])
        elif _single(ufunc) in ufunc.types and set(letters) in ({*"e->"}, {*"E->"}):
            function, data = _through_single(ufunc, letters[0])
        elif set(letters) <= {*SHARED, *"E_->"}:
            function, data = _shared(ufunc, function, data)
        rows.append((function, data, numbers))
    # What a reduction of nothing gives, in the words of NumPy's header: One, Zero, MinusOne, or none.
    identity = {1: 1, 0: 0, -1: 2}.get(ufunc.identity, -1 if ufunc.nin == 1 else -2)
    table = _call_table(functions) if functions and abi.vectorcall_slot() else 0
    made = _ufunc(ufunc.__name__, ufunc.__doc__ or "", rows, ufunc.nin, ufunc.nout, identity, table)
    # NumPy's own choice of a loop: `subtract` refuses bool, `divide` takes integers to float64.
    abi.set_field(made, abi.UFUNC_RESOLVER, abi.field(ufunc, abi.UFUNC_RESOLVER))
    if table and abi.field(made, slot := abi.vectorcall_slot() // 8) == abi.field(np.add, slot):
        from rushlight._codegen.kernels import ufunc_entry

        abi.set_field(made, slot, ufunc_entry.call_of_two.address())
    return made


def _single(ufunc: np.ufunc) -> str:
    return "f" * ufunc.nin + "->f" if ufunc.nin < 3 else "none"


def _loops(ufunc: np.ufunc) -> list[tuple[str, Row]]:
    """The types ("ff->f") of each of a ufunc's loops, and the loop; of dtypes that NumPy does not know, which
    come last, "E" stands for bfloat16, "_" for another."""
    from rushlight._codegen.kernels import ufunc_entry

    found: list[tuple[str, Row]] = []
    for i, letters in enumerate(ufunc.types):
        numbers = [np.dtype(c).num for c in letters.replace("->", "")]
        found.append((letters, (*abi.ufunc_loop(ufunc, i), numbers)))
    for dtype in FOREIGN:
        inputs = (dtype, I32) if ufunc is np.ldexp else (dtype,) * ufunc.nin
        try:
            method, owner, numbers = abi.array_method(ufunc, inputs)
        except TypeError:
            continue
        native.keep_alive(owner)
        c = "".join("?" if n == 0 else "E" if n == BF16.num else "_" for n in numbers)
        row = ufunc_entry.method_loop.address(), method, numbers
        found.append((f"{c[: ufunc.nin]}->{c[ufunc.nin :]}", row))
    return found


# -- what stands between NumPy and loops -------------------------------------------------------------


def _plan(*words: int) -> int:
    """The address of a plan (see ufunc_entry.py) that is never freed."""
    plan = (ctypes.c_int64 * 8)(*words)
    native.keep_alive(plan)
    return ctypes.addressof(plan)


def _shared(ufunc: np.ufunc, function: int, data: int) -> tuple[int, int]:
    """A loop, and its data, that runs NumPy's loop in chunks."""
    from rushlight._codegen.kernels import ufunc_entry

    return ufunc_entry.shared_loop.address(), _plan(function, data, ufunc.nargs, ufunc.nin)


def _through_single(ufunc: np.ufunc, letter: str) -> tuple[int, int]:
    """A loop, and its data, for a half type by way of the one for float32."""
    from rushlight._codegen.kernels import halves

    loop, data = abi.ufunc_loop(ufunc, ufunc.types.index(_single(ufunc)))
    single = _plan(loop, data, ufunc.nargs, ufunc.nin)
    return _shared(ufunc, halves.loop_by_single.address(H=f16 if letter == "e" else bf16), single)


def _compiled(ufunc: np.ufunc, function: int, data: int, ours: CompiledLoop) -> tuple[int, int]:
    """A loop, and its data: the first call compiles, all later ones run what it has left in the plan.
    Should that fail, NumPy's loop stays."""
    from rushlight._codegen.kernels import ufunc_entry

    first = ufunc_entry.uncompiled_loop.address()
    plan = _plan(function, data, ufunc.nargs, ufunc.nin, first, ours.least, _compiler())
    _wanted[plan] = ours
    return ufunc_entry.compiled_loop.address(), plan


def without_status(address: int) -> tuple[int, int]:
    """A loop and its data that run the loop of ours at an address, and leave no status to NumPy."""
    from rushlight._codegen.kernels import ufunc_entry

    return ufunc_entry.compiled_loop.address(), _plan(address)


_wanted: dict[int, CompiledLoop] = {}  # plan -> the loop that nobody has called yet


@cache
def _compiler() -> int:
    """The address of what compiles the loop of a plan."""
    from rushlight._codegen.kernels import ufunc_entry

    def compile_loop(plan: int) -> None:
        words = (ctypes.c_int64 * 8).from_address(plan)
        try:
            if (ours := _wanted.get(plan)) is not None:
                words[ufunc_entry.OURS] = ours.address()
                _wanted.pop(plan, None)
        except KeyboardInterrupt:  # no exception leaves a call from native code, which sees to it
            return
        except Exception:  # there is nobody to raise it to: NumPy's loop does it too
            words[ufunc_entry.OURS] = 0
        words[ufunc_entry.STOPPED] = 0

    return _callback(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(compile_loop))


def _callback(function: Any) -> int:
    native.keep_alive(function)
    return ctypes.cast(function, ctypes.c_void_p).value or 0


# -- calls of two arrays -----------------------------------------------------------------------------

_tables: dict[int, Functions] = {}


def _call_table(functions: Functions) -> int:
    """The address of the table of `ufunc_entry.call_of_two` for these functions."""
    from rushlight._codegen.elementwise_entry import BECOME

    slot = abi.vectorcall_slot()
    fixed = (abi.field(np.add, slot // 8), id(np.ndarray), abi.new_array(), id(float), id(int))
    words = [*fixed, _call_compiler(), len(functions)]
    for dtype, (_, t, to) in functions.items():
        words += [id(dtype), 0, id(to.np), 0, BECOME.get(t, 0)]
    table = (ctypes.c_int64 * len(words))(*words)
    native.keep_alive((table, functions))
    _tables[ctypes.addressof(table)] = functions
    return ctypes.addressof(table)


@cache
def _call_compiler() -> int:
    """The address of what compiles the loop of a dtype, which stands at a place in a table."""
    from rushlight._codegen.kernels import broadcast
    from rushlight._codegen.kernels import ufunc_entry as entry

    def compile_loop(table: int, at: int) -> None:
        words = (ctypes.c_int64 * entry.DTYPE_WORDS).from_address(table + 8 * at)
        try:
            functions = list(_tables[table].values())
            function, t, to = functions[(at - entry.FIRST) // entry.DTYPE_WORDS]
            words[entry.CALL_LOOP] = broadcast.broadcast.address(F=function, T=t, B=to)
        except KeyboardInterrupt:  # as above
            return
        except Exception:
            words[entry.DTYPE] = words[entry.CALL_LOOP] = 0
        words[entry.CALL_STOPPED] = 0

    return _callback(ctypes.PYFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int64)(compile_loop))
