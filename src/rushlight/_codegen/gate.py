"""What stands before ufuncs of two arrays: broadcasting and gaps in memory by one native call.

A ufunc's object says which function Python calls for `add(a, b)`. `install` puts one in front of it
that takes two arrays of a dtype it has a loop for, or one and a Python number, lets
`kernels/broadcast.py` plan the walk, makes the result and fills it, without the GIL where that is long:
on a few elements in less than half the time that NumPy takes to choose a loop. All else (`out=`, mixed
dtypes, other orders in memory, shapes that do not broadcast) goes on to NumPy's function, as it came.
Two arrays without dimensions give such an array, not one of NumPy's numbers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from rushlight._codegen import native
from rushlight._codegen.kernels import broadcast
from rushlight._codegen.runtime.abi import new_array
from rushlight._codegen.types import HEAD, Type

LONG = 32768  # and from which other threads of Python may run meanwhile

# A ufunc's table: NumPy's function, the type of arrays, PyArray_NewFromDescr, what compiles a loop, how
# many entries there are, `arrange`, the type of Python's floats, what is called on Ctrl-C, the type of Python's
# integers; then for each entry a dtype, its loop (or null, before it is compiled), the dtype of results, whether
# Ctrl-C came, and what a Python number becomes beside such an array (0: it is NumPy's).
_FIELDS, _ENTRY = 9, 5
_NUMBERS = {"f": 1, "d": 2, "l": 3, "i": 4}  # by dtype.char

_TEXT = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare i64 @PyLong_AsLongAndOverflow(ptr, ptr)
declare float @llvm.fabs.f32(float)
declare double @llvm.fabs.f64(double)
declare i64 @llvm.abs.i64(i64, i1)

define ptr @gate(ptr %self, ptr %args, i64 %given, ptr %keywords) {
entry:
  %plan = alloca [PLAN x i64]
  %beside = alloca [HEADER x i64] ; the object of an array without dimensions that holds a number
  %place = alloca i64
  %overflow = alloca i32
  %data_at = getelementptr i8, ptr %self, i64 40
  %data = load ptr, ptr %data_at
  %table_at = getelementptr i8, ptr %data, i64 -8
  %table = load ptr, ptr %table_at
  %numpy = load ptr, ptr %table
  %plain = icmp eq ptr %keywords, null
  %count = and i64 %given, 9223372036854775807
  %two = icmp eq i64 %count, 2
  %usual = and i1 %plain, %two
  br i1 %usual, label %objects, label %other
objects:
  %a = load ptr, ptr %args
  %b_at = getelementptr ptr, ptr %args, i64 1
  %b = load ptr, ptr %b_at
  %array_at = getelementptr ptr, ptr %table, i64 1
  %array = load ptr, ptr %array_at
  %a_type_at = getelementptr ptr, ptr %a, i64 1
  %a_type = load ptr, ptr %a_type_at
  %b_type_at = getelementptr ptr, ptr %b, i64 1
  %b_type = load ptr, ptr %b_type_at
  %a_is = icmp eq ptr %a_type, %array
  %b_is = icmp eq ptr %b_type, %array
  %are = and i1 %a_is, %b_is
  br i1 %are, label %arrays, label %mixed
arrays:
  %a_descr_at = getelementptr ptr, ptr %a, i64 DESCR
  %a_descr = load ptr, ptr %a_descr_at
  %b_descr_at = getelementptr ptr, ptr %b, i64 DESCR
  %b_descr = load ptr, ptr %b_descr_at
  %same = icmp eq ptr %a_descr, %b_descr
  %a_flags_at = getelementptr ptr, ptr %a, i64 FLAGS
  %a_flags = load i32, ptr %a_flags_at
  %b_flags_at = getelementptr ptr, ptr %b, i64 FLAGS
  %b_flags = load i32, ptr %b_flags_at
  %flags = and i32 %a_flags, %b_flags
  %aligned_bit = and i32 %flags, 256
  %aligned = icmp ne i32 %aligned_bit, 0
  %fit = and i1 %same, %aligned
  br i1 %fit, label %search, label %other
mixed: ; an array and what may be a number
  %one_is = or i1 %a_is, %b_is
  br i1 %one_is, label %one, label %other
one:
  %one_array = select i1 %a_is, ptr %a, ptr %b
  %number = select i1 %a_is, ptr %b, ptr %a
  %array_descr_at = getelementptr ptr, ptr %one_array, i64 DESCR
  %array_descr = load ptr, ptr %array_descr_at
  %array_flags_at = getelementptr ptr, ptr %one_array, i64 FLAGS
  %array_flags = load i32, ptr %array_flags_at
  %array_bit = and i32 %array_flags, 256
  %array_aligned = icmp ne i32 %array_bit, 0
  %type_at = getelementptr ptr, ptr %number, i64 1
  %type = load ptr, ptr %type_at
  %float_at = getelementptr ptr, ptr %table, i64 6
  %float = load ptr, ptr %float_at
  %is_float = icmp eq ptr %type, %float
  br i1 %array_aligned, label %kind, label %other
kind:
  br i1 %is_float, label %real, label %integer
real:
  %value_at = getelementptr double, ptr %number, i64 HEAD
  %real_value = load double, ptr %value_at
  br label %search
integer:
  %int_at = getelementptr ptr, ptr %table, i64 8
  %int = load ptr, ptr %int_at
  %is_int = icmp eq ptr %type, %int
  br i1 %is_int, label %whole, label %other
whole:
  %whole_value = call i64 @PyLong_AsLongAndOverflow(ptr %number, ptr %overflow)
  %overflowed = load i32, ptr %overflow
  %within = icmp eq i32 %overflowed, 0
  br i1 %within, label %search, label %other
search:
  %dtype = phi ptr [ %a_descr, %arrays ], [ %array_descr, %real ], [ %array_descr, %whole ]
  %what = phi i64 [ 0, %arrays ], [ 1, %real ], [ 2, %whole ] ; two arrays, a float, an integer
  %x = phi double [ 0.0, %arrays ], [ %real_value, %real ], [ 0.0, %whole ]
  %n = phi i64 [ 0, %arrays ], [ 0, %real ], [ %whole_value, %whole ]
  %entries_at = getelementptr i64, ptr %table, i64 4
  %entries = load i64, ptr %entries_at
  br label %next
next:
  %k = phi i64 [ 0, %search ], [ %k1, %again ]
  %more = icmp slt i64 %k, %entries
  br i1 %more, label %compare, label %other
compare:
  %before = mul i64 %k, ENTRY
  %words = add i64 %before, FIELDS
  %entry_at = getelementptr ptr, ptr %table, i64 %words
  %descr = load ptr, ptr %entry_at
  %hit = icmp eq ptr %descr, %dtype
  br i1 %hit, label %found, label %again
again:
  %k1 = add i64 %k, 1
  br label %next
found:
  %becomes_at = getelementptr i64, ptr %entry_at, i64 4
  %becomes = load i64, ptr %becomes_at
  switch i64 %what, label %other [ i64 0, label %arrange i64 1, label %from_real i64 2, label %from_whole ]
from_real:
  switch i64 %becomes, label %other [ i64 1, label %single i64 2, label %double ]
from_whole: ; an integer that every kind of number holds exactly; larger ones are rounded by NumPy
  %size = call i64 @llvm.abs.i64(i64 %n, i1 false)
  %exact = icmp ule i64 %size, 16777216
  %n_real = sitofp i64 %n to double
  br i1 %exact, label %by_kind, label %other
by_kind:
  switch i64 %becomes, label %other [ i64 1, label %single i64 2, label %double i64 3, label %wide i64 4, label %narrow ]
single:
  %x1 = phi double [ %x, %from_real ], [ %n_real, %by_kind ]
  %x_single = fptrunc double %x1 to float
  store float %x_single, ptr %place
  %magnitude = call float @llvm.fabs.f32(float %x_single)
  %endless = fcmp oeq float %magnitude, 0x7FF0000000000000
  %given_magnitude = call double @llvm.fabs.f64(double %x1)
  %ends = fcmp one double %given_magnitude, 0x7FF0000000000000
  %lost = and i1 %endless, %ends
  br i1 %lost, label %other, label %number_there
double:
  %x2 = phi double [ %x, %from_real ], [ %n_real, %by_kind ]
  store double %x2, ptr %place
  br label %number_there
wide:
  store i64 %n, ptr %place
  br label %number_there
narrow:
  %n_narrow = trunc i64 %n to i32
  store i32 %n_narrow, ptr %place
  br label %number_there
number_there:
  %data_there = getelementptr ptr, ptr %beside, i64 HEAD
  store ptr %place, ptr %data_there
  %dims_there = getelementptr i64, ptr %beside, i64 DIMENSIONS
  store i64 0, ptr %dims_there
  %first = select i1 %a_is, ptr %a, ptr %beside
  %second = select i1 %a_is, ptr %beside, ptr %b
  br label %arrange
arrange:
  %left = phi ptr [ %a, %found ], [ %first, %number_there ]
  %right = phi ptr [ %b, %found ], [ %second, %number_there ]
  %arrange_at = getelementptr ptr, ptr %table, i64 5
  %arrange_ = load ptr, ptr %arrange_at
  call void %arrange_(ptr %left, ptr %right, ptr %plan)
  %fits = load i64, ptr %plan
  %broadcast = icmp ne i64 %fits, 0
  %total_at = getelementptr i64, ptr %plan, i64 1
  %total = load i64, ptr %total_at
  %some = icmp sgt i64 %total, 0
  %go = and i1 %broadcast, %some
  br i1 %go, label %find, label %other
find:
  %loop_at = getelementptr ptr, ptr %entry_at, i64 1
  %loop = load ptr, ptr %loop_at
  %there = icmp ne ptr %loop, null
  br i1 %there, label %make, label %want
want: ; a call of Python that is interrupted returns anything: the entry says what there is
  %want_at = getelementptr ptr, ptr %table, i64 3
  %want_ = load ptr, ptr %want_at
  %stopped_at = getelementptr i64, ptr %entry_at, i64 3
  store i64 1, ptr %stopped_at
  call void %want_(ptr %table, i64 %k)
  %stopped = load i64, ptr %stopped_at
  %interrupted = icmp ne i64 %stopped, 0
  br i1 %interrupted, label %interrupt, label %look
interrupt: ; Ctrl-C as if it came now
  %interrupt_at = getelementptr ptr, ptr %table, i64 7
  %interrupt_ = load ptr, ptr %interrupt_at
  call void %interrupt_()
  br label %other
look:
  %wanted = load ptr, ptr %loop_at
  %compiled = icmp ne ptr %wanted, null
  br i1 %compiled, label %make, label %other
make:
  %run = phi ptr [ %loop, %find ], [ %wanted, %look ]
  %to_at = getelementptr ptr, ptr %entry_at, i64 2
  %to = load ptr, ptr %to_at
  call void @Py_IncRef(ptr %to)
  %new_at = getelementptr ptr, ptr %table, i64 2
  %new = load ptr, ptr %new_at
  %dims_at = getelementptr i64, ptr %plan, i64 3
  %dims = load i64, ptr %dims_at
  %dims32 = trunc i64 %dims to i32
  %shape = getelementptr i64, ptr %plan, i64 SHAPE
  %out = call ptr %new(ptr %array, ptr %to, i32 %dims32, ptr %shape, ptr null, ptr null, i32 0, ptr null)
  %made = icmp ne ptr %out, null
  br i1 %made, label %fill, label %done
fill:
  %a_at = getelementptr ptr, ptr %left, i64 HEAD
  %a_data = load i64, ptr %a_at
  %b_data_at = getelementptr ptr, ptr %right, i64 HEAD
  %b_data = load i64, ptr %b_data_at
  %out_at = getelementptr ptr, ptr %out, i64 HEAD
  %out_data = load i64, ptr %out_at
  %long = icmp sge i64 %total, LONG
  br i1 %long, label %released, label %held
released:
  %thread = call ptr @PyEval_SaveThread()
  call void %run(ptr %plan, i64 %a_data, i64 %b_data, i64 %out_data)
  call void @PyEval_RestoreThread(ptr %thread)
  ret ptr %out
held:
  call void %run(ptr %plan, i64 %a_data, i64 %b_data, i64 %out_data)
  ret ptr %out
done:
  ret ptr %out
other:
  %result = musttail call ptr %numpy(ptr %self, ptr %args, i64 %given, ptr %keywords)
  ret ptr %result
}
"""

# dtype.char of both arrays, the loop's types, and the function
Loops = dict[np.dtype, tuple[Any, Type, Type]]
_tables: dict[int, Loops] = {}


def _text() -> str:
    import re

    words = {"DESCR": HEAD + 5, "FLAGS": HEAD + 6, "HEAD": HEAD, "LONG": LONG}
    words |= {"PLAN": broadcast.PLAN, "SHAPE": broadcast.SHAPE, "HEADER": HEAD + 7}
    words |= {"DIMENSIONS": HEAD + 1, "ENTRY": _ENTRY, "FIELDS": _FIELDS}
    return re.sub(r"\b[A-Z]{4,}\b", lambda word: str(words[word[0]]), _TEXT)


@cache
def _native() -> tuple[int, int, int, int] | None:
    """The gate, `arrange`, PyArray_NewFromDescr and what compiles loops; None where objects are not
    laid out as this file takes them to be, or Python's functions cannot be called."""
    import ctypes
    from ctypes import PYFUNCTYPE, c_int64, c_void_p

    if not (new := new_array()):
        return None
    try:
        (gate,) = native.load("gate", _text, ["gate"])
    except RuntimeError:
        return None

    def want(table: int, index: int) -> None:
        entry = (c_int64 * _ENTRY).from_address(table + 8 * (_FIELDS + _ENTRY * index))
        try:
            function, t, to = _tables[table][_dtypes[entry[0]]]
            entry[1] = broadcast.broadcast.address(F=function, T=t, B=to)
        except (
            KeyboardInterrupt
        ):  # no exception leaves a call from native code: the gate sees to it
            return
        except Exception:  # nobody to raise it to: NumPy's loops do it too
            entry[0] = entry[1] = 0
        entry[3] = 0

    callback = PYFUNCTYPE(None, c_void_p, c_int64)(want)
    address = ctypes.cast(callback, c_void_p).value or 0
    native.keep(callback)
    return gate, broadcast.arrange.address(), new, address


_dtypes: dict[int, np.dtype] = {}  # by the address of their object


def install(ufunc: np.ufunc, data: Any, loops: Loops) -> None:
    """Put the gate before a ufunc of ours whose `data` begin one element behind those given.

    `loops`: a dtype -> the function, its type, and that of the result.
    """
    from ctypes import addressof, c_int64, c_void_p, cast, pythonapi

    if (found := _native()) is None or not loops:
        return
    gate, arrange, new, want = found
    offset = c_int64.from_address(id(np.ufunc) + 56).value  # tp_vectorcall_offset
    slot = c_void_p.from_address(id(ufunc) + offset)
    if offset <= 0 or slot.value != c_void_p.from_address(id(np.add) + offset).value:
        return
    table = (c_int64 * (_FIELDS + _ENTRY * len(loops)))(
        slot.value or 0, id(np.ndarray), new, want, len(loops), arrange, id(float),
        cast(pythonapi.PyErr_SetInterrupt, c_void_p).value or 0, id(int),
    )  # fmt: skip
    for k, (dtype, (_, _, to)) in enumerate(loops.items()):
        _dtypes[id(dtype)] = dtype
        at = _FIELDS + _ENTRY * k
        table[at], table[at + 2], table[at + 4] = id(dtype), id(to.np), _NUMBERS.get(dtype.char, 0)
    native.keep((table, loops))
    _tables[addressof(table)] = loops
    data[0] = addressof(table)
    slot.value = gate
