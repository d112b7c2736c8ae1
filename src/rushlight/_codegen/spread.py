"""NumPy's own elementwise loops, spread over threads where an array is large.

`spread(numpy.exp)` is a ufunc with the same types and the same loops, so with the same results to
the last bit. Between NumPy and each loop stands a native function that hands small arrays on as
they are and cuts large ones into chunks for `rushlight_parallel`. Python pays nothing for it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight._codegen import gate, native
from rushlight._codegen.kernels import halves
from rushlight._codegen.runtime import threads
from rushlight.core import dtypes

GRAIN = 16384  # elements in a chunk; what is not twice as long goes to NumPy's loop as it is
SPREAD = "?bBhHiIlLqQefdgFDG"  # dtypes whose loops need no Python; others keep NumPy's loop

# What a loop gets as its data: NumPy's loop, its data, the number of arguments and of inputs, a loop
# of ours that takes its place (or null), the elements from which it does; and for `first` what compiles
# that loop, whether Ctrl-C came meanwhile, and what to call then.
_TEXT = """
%plan = type { ptr, ptr, i64, i64, ptr, i64, ptr, i64, ptr }
%job = type { ptr, ptr, ptr, ptr, i64 }
declare void @rushlight_parallel(ptr, ptr, i64, i64)

define internal void @chunk(ptr %job, i64 %low, i64 %high) {
entry:
  %args_at = getelementptr %job, ptr %job, i64 0, i32 0
  %args = load ptr, ptr %args_at
  %steps_at = getelementptr %job, ptr %job, i64 0, i32 1
  %steps = load ptr, ptr %steps_at
  %loop_at = getelementptr %job, ptr %job, i64 0, i32 2
  %loop = load ptr, ptr %loop_at
  %data_at = getelementptr %job, ptr %job, i64 0, i32 3
  %data = load ptr, ptr %data_at
  %count_at = getelementptr %job, ptr %job, i64 0, i32 4
  %count = load i64, ptr %count_at
  %own = alloca [8 x ptr]
  %size = alloca i64
  %n = sub i64 %high, %low
  store i64 %n, ptr %size
  br label %next
next:
  %k = phi i64 [ 0, %entry ], [ %k1, %next ]
  %arg_at = getelementptr ptr, ptr %args, i64 %k
  %arg = load ptr, ptr %arg_at
  %step_at = getelementptr i64, ptr %steps, i64 %k
  %step = load i64, ptr %step_at
  %by = mul i64 %step, %low
  %moved = getelementptr i8, ptr %arg, i64 %by
  %own_at = getelementptr ptr, ptr %own, i64 %k
  store ptr %moved, ptr %own_at
  %k1 = add i64 %k, 1
  %more = icmp ult i64 %k1, %count
  br i1 %more, label %next, label %run
run:
  call void %loop(ptr %own, ptr %size, ptr %steps, ptr %data)
  ret void
}

declare i64 @llvm.abs.i64(i64, i1)
"""

# From a loop to where it may be shared: an output that stays, or that is an input at another place,
# is not for threads.
_LOOP = """
define void @NAME(ptr %args, ptr %size, ptr %steps, ptr %plan) {
entry:
  %job = alloca %job
  %status = alloca i32
  SAVE
  %loop = load ptr, ptr %plan
  %data_at = getelementptr %plan, ptr %plan, i64 0, i32 1
  %data = load ptr, ptr %data_at
  %n = load i64, ptr %size
LONG  br i1 %long, label %look, label %direct
look:
  %count_at = getelementptr %plan, ptr %plan, i64 0, i32 2
  %count = load i64, ptr %count_at
  %inputs_at = getelementptr %plan, ptr %plan, i64 0, i32 3
  %inputs = load i64, ptr %inputs_at
  br label %output
output: ; a sum's output does not move, a running sum's is its input one further: not for threads
  %o = phi i64 [ %inputs, %look ], [ %o1, %output_done ]
  %out_at = getelementptr i64, ptr %args, i64 %o
  %out = load i64, ptr %out_at
  %out_step_at = getelementptr i64, ptr %steps, i64 %o
  %out_step = load i64, ptr %out_step_at
  %still = icmp eq i64 %out_step, 0
  br i1 %still, label %direct, label %input
input:
  %k = phi i64 [ 0, %output ], [ %k1, %input_next ]
  %in_at = getelementptr i64, ptr %args, i64 %k
  %in = load i64, ptr %in_at
  %in_step_at = getelementptr i64, ptr %steps, i64 %k
  %in_step = load i64, ptr %in_step_at
  %same_place = icmp eq i64 %in, %out
  %same_step = icmp eq i64 %in_step, %out_step
  %in_place = and i1 %same_place, %same_step
  br i1 %in_place, label %input_next, label %apart
apart:
  %in_bytes = mul i64 %in_step, %n
  %in_length = call i64 @llvm.abs.i64(i64 %in_bytes, i1 false)
  %out_bytes = mul i64 %out_step, %n
  %out_length = call i64 @llvm.abs.i64(i64 %out_bytes, i1 false)
  %length = add i64 %in_length, %out_length
  %between = sub i64 %in, %out
  %distance = call i64 @llvm.abs.i64(i64 %between, i1 false)
  %disjoint = icmp sge i64 %distance, %length
  br i1 %disjoint, label %input_next, label %close
close: ; nearer than their lengths together: apart still if the lower one ends before the other
  %below = icmp slt i64 %in, %out
  %lower = select i1 %below, i64 %in_length, i64 %out_length
  %forward_in = icmp sge i64 %in_step, 0
  %forward_out = icmp sgt i64 %out_step, 0
  %forward = and i1 %forward_in, %forward_out
  %ends = icmp sge i64 %distance, %lower
  %apart_too = and i1 %forward, %ends
  br i1 %apart_too, label %input_next, label %direct
input_next:
  %k1 = add i64 %k, 1
  %more_inputs = icmp ult i64 %k1, %inputs
  br i1 %more_inputs, label %input, label %output_done
output_done:
  %o1 = add i64 %o, 1
  %more_outputs = icmp ult i64 %o1, %count
  br i1 %more_outputs, label %output, label %share
share:
SHAREdirect:
  call void %loop(ptr %args, ptr %size, ptr %steps, ptr %data)
  RESTORE
  ret void
}
"""

_SHARED = """  store ptr %args, ptr %job
  %j1 = getelementptr %job, ptr %job, i64 0, i32 1
  store ptr %steps, ptr %j1
  %j2 = getelementptr %job, ptr %job, i64 0, i32 2
  store ptr %loop, ptr %j2
  %j3 = getelementptr %job, ptr %job, i64 0, i32 3
  store ptr %data, ptr %j3
  %j4 = getelementptr %job, ptr %job, i64 0, i32 4
  store i64 %count, ptr %j4
  call void @rushlight_parallel(ptr @chunk, ptr %job, i64 %n, i64 GRAIN)
  RESTORE
  ret void
"""

_OURS = """  call void %own(ptr %args, ptr %size, ptr %steps, ptr %plan)
  RESTORE
  ret void
"""

_LONG = "  %long = icmp sge i64 %n, TWICE\n"

_LONG_FOR_OURS = """  %own_at = getelementptr %plan, ptr %plan, i64 0, i32 4
  %own = load ptr, ptr %own_at
  %some = icmp ne ptr %own, null
  %small_at = getelementptr %plan, ptr %plan, i64 0, i32 5
  %small = load i64, ptr %small_at
  %enough = icmp sge i64 %n, %small
  %long = and i1 %some, %enough
"""

# What stands in a plan before our loop does. A call of Python that is interrupted returns as if nothing
# were: it is the plan that says whether there is a loop now, and NumPy's does it if not.
_FIRST = """
define void @first(ptr %args, ptr %size, ptr %steps, ptr %plan) {
entry:
  %own_at = getelementptr %plan, ptr %plan, i64 0, i32 4
  %compile_at = getelementptr %plan, ptr %plan, i64 0, i32 6
  %compile = load ptr, ptr %compile_at
  %stopped_at = getelementptr %plan, ptr %plan, i64 0, i32 7
  store i64 1, ptr %stopped_at ; Python's code may be stopped before its first line
  call void %compile(ptr %plan)
  %stopped = load i64, ptr %stopped_at
  %interrupted = icmp ne i64 %stopped, 0
  br i1 %interrupted, label %again, label %look
again: ; Ctrl-C as if it came now
  store i64 0, ptr %stopped_at
  %interrupt_at = getelementptr %plan, ptr %plan, i64 0, i32 8
  %interrupt = load ptr, ptr %interrupt_at
  call void %interrupt()
  br label %look
look:
  %own = load ptr, ptr %own_at
  %null = icmp eq ptr %own, null
  %still = icmp eq ptr %own, @first
  %none = or i1 %null, %still
  br i1 %none, label %theirs, label %ours
ours:
  call void %own(ptr %args, ptr %size, ptr %steps, ptr %plan)
  ret void
theirs:
  %loop = load ptr, ptr %plan
  %data_at = getelementptr %plan, ptr %plan, i64 0, i32 1
  %data = load ptr, ptr %data_at
  call void %loop(ptr %args, ptr %size, ptr %steps, ptr %data)
  ret void
}
"""

# NumPy looks after each loop whether an operation was invalid or overflowed, and warns. PyTorch does
# not, and a call with a warning is made a second time, with warnings off.
_STATUS = {
    "SAVE": "call void @llvm.x86.sse.stmxcsr(ptr %status)",
    "RESTORE": "call void @restore(ptr %status)",
}
_STATUS_DECLARED = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal void @restore(ptr %status) alwaysinline { ; to set it takes longer than to look
  %now = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %now)
  %is = load i32, ptr %now
  %was = load i32, ptr %status
  %changed = icmp ne i32 %is, %was
  br i1 %changed, label %set, label %done
set:
  call void @llvm.x86.sse.ldmxcsr(ptr %status)
  br label %done
done:
  ret void
}
"""


def _text() -> str:
    """The module of `spread` and `owned`."""
    import platform

    parts = [_TEXT, _FIRST]
    for name, long, share in (("spread", _LONG, _SHARED), ("owned", _LONG_FOR_OURS, _OURS)):
        parts.append(_LOOP.replace("NAME", name).replace("LONG", long).replace("SHARE", share))
    text = "".join(parts)
    x86 = platform.machine() in ("x86_64", "AMD64")
    for word, line in _STATUS.items():
        text = text.replace(word, line if x86 else "")
    text = text.replace("TWICE", str(2 * GRAIN)).replace("GRAIN", str(GRAIN))
    return text + (_STATUS_DECLARED if x86 else "")


# Where a ufunc's object holds what this needs (numpy/ufuncobject.h); checked by `_fields_hold`.
_FUNCTIONS, _DATA, _NTYPES, _TYPES, _USERLOOPS, _RESOLVER = 32, 40, 48, 64, 96, 144


@cache
def _loops() -> tuple[int, ...]:
    """The addresses of the native functions between NumPy and its loops, between it and ours, and
    `first`."""
    threads.start()
    return native.load("spread and owned", _text, ["spread", "owned", "first"])


@cache
def available() -> bool:
    """Whether native code can be made for this machine, and NumPy's objects are as this file takes
    them to be."""
    if not native.available() or not native.suits():
        return False
    return _fields_hold(np.multiply) and _fields_hold(np.exp)


def _fields_hold(ufunc: np.ufunc) -> bool:
    import ctypes

    at = id(ufunc)
    nin, nout, nargs = (ctypes.c_int.from_address(at + 16 + 4 * i).value for i in range(3))
    ntypes = ctypes.c_int.from_address(at + _NTYPES).value
    if (nin, nout, nargs) != (ufunc.nin, ufunc.nout, ufunc.nargs) or ntypes != ufunc.ntypes:
        return False
    types = ctypes.c_void_p.from_address(at + _TYPES).value
    numbers = ctypes.string_at(types, ufunc.ntypes * ufunc.nargs)
    letters = "".join(ufunc.types).replace("->", "")
    # Two ufuncs with the usual way to choose a loop have the same function there.
    usual = {ctypes.c_void_p.from_address(id(f) + _RESOLVER).value for f in (np.exp, np.arctan2)}
    if len(usual) != 1 or None in usual:
        return False
    return letters == "".join(np.dtype(_char(n)).char for n in numbers)


def _char(number: int) -> str:
    return "?bBhHiIlLqQfdgFDGOSUVMme"[number]


def spread(
    ufunc: np.ufunc, own: dict[str, Ours] | None = None, rows: gate.Loops | None = None
) -> np.ufunc:
    """A ufunc like NumPy's `ufunc` whose long loops are shared by threads; `ufunc` itself if not
    `available()`. `own`: loops of ours instead, by their types ("f->f"; "E" is bfloat16); each is
    compiled when it is first wanted. `rows`: functions for two arrays that broadcast, see gate.py.

    >>> exp = spread(np.exp)
    >>> x = np.linspace(-3, 3, 100_000, dtype=np.float32)
    >>> bool((exp(x) == np.exp(x)).all())
    True
    """
    if not available():
        return ufunc
    import ctypes
    from ctypes import POINTER, c_char_p, c_int, c_void_p, py_object

    at, nargs, ntypes = id(ufunc), ufunc.nargs, ufunc.ntypes
    functions = (c_void_p * ntypes)()
    data = (c_void_p * (1 + ntypes))()  # the first is gate.py's
    old_functions = POINTER(c_void_p).from_address(at + _FUNCTIONS)
    old_data = POINTER(c_void_p).from_address(at + _DATA)
    by_single = "f" * ufunc.nin + "->f" in ufunc.types and ufunc.nout == 1 and ufunc.nin < 3
    types = ctypes.create_string_buffer(
        ctypes.string_at(c_void_p.from_address(at + _TYPES).value, ntypes * nargs), ntypes * nargs
    )
    for i, letters in enumerate(ufunc.types):
        function, its_data = old_functions[i], old_data[i] if old_data else None
        if own is not None and letters in own:
            functions[i], data[1 + i] = _ours(ufunc, function, its_data, own[letters])
        elif by_single and set(letters) == {"e", "-", ">"}:
            functions[i], data[1 + i] = _loops()[0], _through(ufunc, "e")
        elif all(c in SPREAD for c in letters.replace("->", "")):
            functions[i], data[1 + i] = _loops()[0], _plan(ufunc, function, its_data)
        else:
            functions[i], data[1 + i] = function, its_data
    make = _api(1)(  # PyUFunc_FromFuncAndData
        py_object,
        c_void_p,
        c_void_p,
        c_void_p,
        c_int,
        c_int,
        c_int,
        c_int,
        c_char_p,
        c_char_p,
        c_int,
    )
    # What a reduction of nothing gives, in the words of NumPy's header: One, Zero, MinusOne, or none.
    identity = {1: 1, 0: 0, -1: 2}.get(ufunc.identity, -1 if ufunc.nin == 1 else -2)
    name, doc = ufunc.__name__.encode(), (ufunc.__doc__ or "").encode()
    native.keep((functions, data, types, name, doc))
    where = (ctypes.addressof(functions), ctypes.addressof(data) + 8, ctypes.addressof(types))
    made = make(*where, ntypes, ufunc.nin, ufunc.nout, identity, name, doc, 0)
    # NumPy's own choice of a loop: `subtract` refuses bool, `divide` takes integers to float64.
    c_void_p.from_address(id(made) + _RESOLVER).value = c_void_p.from_address(at + _RESOLVER).value
    _user_loops(ufunc, made, own or {})
    gate.install(made, data, rows or {})
    return made


def _plan(ufunc: np.ufunc, function: int | None, data: int | None, small: int = 0) -> int:
    from ctypes import addressof, c_int64

    plan = (c_int64 * 9)(function or 0, data or 0, ufunc.nargs, ufunc.nin, 0, small)
    native.keep(plan)
    return addressof(plan)


def _ours(ufunc: np.ufunc, function: int | None, data: int | None, ours: Ours) -> tuple[int, int]:
    """A loop and its data: the first call compiles, all later ones run what it has left in the plan.
    Should that fail, NumPy's loop stays."""
    from ctypes import c_int64

    plan = _plan(ufunc, function, data, ours.small)
    fields = (c_int64 * 9).from_address(plan)
    fields[4], (fields[6], fields[8]) = _loops()[2], _compiler()
    _wanted[plan] = ours
    return _loops()[1], plan


def hushed(address: int) -> tuple[int, int]:
    """A loop and its data that run the loop of ours at an address, and leave no status to NumPy."""
    from ctypes import addressof, c_int64

    plan = (c_int64 * 9)(address)
    native.keep(plan)
    return _loops()[1], addressof(plan)


def _through(ufunc: np.ufunc, letter: str) -> int:
    """The plan of a loop for a half type by way of the one for float32."""
    from ctypes import POINTER, c_void_p

    at = ufunc.types.index("f" * ufunc.nin + "->f")
    loops = POINTER(c_void_p).from_address(id(ufunc) + _FUNCTIONS)
    data = POINTER(c_void_p).from_address(id(ufunc) + _DATA)
    single = _plan(ufunc, loops[at], data[at] if data else None)
    return _plan(ufunc, halves.through(letter), single)


class Ours:
    """A loop of ours: the function that gives its address, and from how many elements it is used."""

    __slots__ = ("address", "small")

    def __init__(self, address: Callable[[], int], small: int = 0) -> None:
        self.address, self.small = address, small


_wanted: dict[int, Ours] = {}  # plan -> the loop that nobody has called yet


@cache
def _compiler() -> tuple[int, int]:
    """The addresses of what compiles the loop of a plan, and of what is called on Ctrl-C."""
    from ctypes import CFUNCTYPE, c_int64, c_void_p, cast, pythonapi

    def compile_loop(plan: int) -> None:
        fields = (c_int64 * 9).from_address(plan)
        try:
            if (ours := _wanted.get(plan)) is not None:
                fields[4] = ours.address()
                _wanted.pop(plan, None)
        except KeyboardInterrupt:  # no exception leaves a call from native code: `first` sees to it
            return
        except Exception:  # there is nobody to raise it to: NumPy's loop does it too
            fields[4] = 0
        fields[7] = 0

    function = CFUNCTYPE(None, c_void_p)(compile_loop)
    native.keep(function)
    interrupt = cast(pythonapi.PyErr_SetInterrupt, c_void_p).value
    return cast(function, c_void_p).value or 0, interrupt or 0


def _api(index: int) -> Any:
    """An entry of NumPy's table of ufunc functions, to be given its result's and arguments' types."""
    import ctypes

    table = native.pointer(np._core._multiarray_umath._UFUNC_API)
    address = ctypes.c_void_p.from_address(table + 8 * index).value
    return lambda result, *types: ctypes.PYFUNCTYPE(result, *types)(address)


def _user_loops(old: np.ufunc, new: np.ufunc, own: dict[str, Ours]) -> None:
    """The loops of dtypes that NumPy does not know (ml_dtypes' bfloat16), for the new ufunc."""
    import ctypes
    from ctypes import POINTER, c_int, c_void_p, py_object

    held = c_void_p.from_address(id(old) + _USERLOOPS).value
    if not held:
        return
    loops = ctypes.cast(c_void_p(id(old) + _USERLOOPS), POINTER(py_object))[0]
    half = dtypes.bfloat16.np.num
    register = _api(2)(c_int, py_object, c_int, c_void_p, POINTER(c_int), c_void_p)
    for key, capsule in loops.items():
        at = native.pointer(capsule)
        while at:  # PyUFunc_Loop1d: func, data, arg_types, next
            function, data, kinds, at = (c_void_p.from_address(at + 8 * i).value for i in range(4))
            numbers = (c_int * old.nargs).from_address(kinds)
            letters = "".join("?" if n == 0 else "E" if n == half else "_" for n in numbers)
            letters = f"{letters[: old.nin]}->{letters[old.nin :]}"
            if letters in own:
                function, data = _ours(old, function, data, own[letters])
            elif set(letters) == {"E", "-", ">"} and "f" * old.nin + "->f" in old.types:
                function, data = _loops()[0], _through(old, "E")
            else:
                function, data = _loops()[0], _plan(old, function, data)
            register(new, int(key), function, numbers, data)
