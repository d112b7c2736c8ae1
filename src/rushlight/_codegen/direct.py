"""Kernels that Python calls with whole arrays: plan, result and all by one native call.

A binding that reads shapes, checks them, makes the result and calls a kernel takes some microseconds
before a small array is touched. `direct` gives a builtin function that does it natively:

    found = direct((arrange, {}), [f32], [f32], (run_rows, {"T": f32}), (run_columns, {"T": f32}))
    found(array, dim, keepdim)  # the result, or None for what it is not made for

`arrange` is a kernel that takes the arrays (as Header), whole numbers, and a plan. It writes which of
the runs (1, 2...; 0 for none), how much work that is, the shape of the results, and the numbers that
the run takes. A run is a kernel of pointers (of the arrays, or their Header, of the results, and
perhaps of one more number, which it sets where something was wrong) and of numbers; it is compiled
at its first use. Without results a call returns True when it has run.

A list of arrays is told by `ListOf(dtype)`: `arrange` and the runs get the list itself (Header), and
the plan's first two numbers are what each array must have as its type and its dtype (`listed`).

Before `arrange` it is checked that arrays are plain, aligned and of the dtypes said, and that the
other arguments are ints, bools, or None, which is NONE for it. Nothing else may be taken for granted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from rushlight._codegen import native
from rushlight._codegen.kernel import Kernel, builtin, python
from rushlight._codegen.types import HEAD, Header

DIMS = 8  # of a result
# A plan: the run, how many elements it goes over, the result's dimensions, its shape; numbers.
RUN, WORK, NDIM, SHAPE = 0, 1, 2, 3
NUMBERS = SHAPE + DIMS
PLAN = NUMBERS + 8
NONE = -(1 << 62)
LONG = 32768  # elements from which other threads of Python may run meanwhile

# A table: what stands at fixed places, then the dtypes of arrays and of results, then the runs.
ARRAY, ARRANGE, NEW, INT, BOOL, NOTHING, YES, LIST, WANT, FIXED = range(10)

_EXTERNAL = """
declare ptr @PyEval_SaveThread()
declare void @PyEval_RestoreThread(ptr)
declare void @Py_IncRef(ptr)
declare void @Py_DecRef(ptr)
declare i64 @PyLong_AsLongLongAndOverflow(ptr, ptr)
declare ptr @PyLong_FromLongLong(i64)
declare ptr @PyObject_CallFunctionObjArgs(ptr, ...)
declare ptr @PyTuple_New(i64)
declare i32 @PyTuple_SetItem(ptr, i64, ptr)
"""

_made: list[tuple[Any, int]] = []  # the tables, and the addresses of their `arrange`
_used = True


def use(some: bool) -> None:
    """Whether direct calls do anything, or leave all to what stands behind them."""
    global _used
    _used = some
    for table, arrange in _made:
        table[ARRANGE] = arrange if some else 0


class Text:
    """Lines of LLVM's text with numbered names."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def line(self, text: str) -> None:
        self.lines.append("  " + text)

    def label(self, name: str) -> None:
        self.lines.append(name + ":")

    def let(self, text: str) -> str:
        self.count += 1
        self.line(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def entry(self, at: int, kind: str = "ptr", of: str = "%table") -> str:
        """What a table (or a plan, or an object) holds at a place."""
        return self.let(f"load {kind}, ptr {self.let(f'getelementptr i64, ptr {of}, i64 {at}')}")

    def go(self, test: str, then: str, otherwise: str) -> None:
        self.line(f"br i1 {test}, label %{then}, label %{otherwise}")


Form = tuple[bool, bool, int]


class ListOf:
    """A list of arrays of one dtype."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype


def _text(arrays: str, numbers: int, results: int, runs: tuple[Form, ...]) -> str:
    """The builtin for arrays ("a") and lists ("l"), so many numbers and results; of each run whether it takes the arrays'
    headers, whether it tells of what is wrong, and how many numbers it takes."""
    t = Text()
    count = len(arrays) + numbers
    kinds = arrays + numbers * "n"
    t.lines += [_EXTERNAL, "define ptr @direct(ptr %self, ptr %objects, i64 %count) {", "entry:"]
    t.line(f"%plan = alloca [{PLAN} x i64]")
    t.line("%bad = alloca i64")
    t.line("%beyond = alloca i32")
    table = t.entry(HEAD, of="%self")
    t.line(f"%table = getelementptr i64, ptr {table}, i64 0")
    arrange = t.entry(ARRANGE)
    used = t.let(f"icmp ne ptr {arrange}, null")
    right = t.let(f"icmp eq i64 %count, {count}")
    t.go(t.let(f"and i1 {used}, {right}"), "argument0", "refuse")
    given = []
    for k in range(count):
        t.label(f"argument{k}")
        o = t.entry(k, of="%objects")
        kind = t.entry(1, of=o)
        following = f"argument{k + 1}"
        if kinds[k] == "l":
            t.line(
                f"store ptr {t.entry(ARRAY)}, ptr {t.let(f'getelementptr i64, ptr %plan, i64 {NUMBERS}')}"
            )
            descr = t.entry(FIXED + k)
            t.line(
                f"store ptr {descr}, ptr {t.let(f'getelementptr i64, ptr %plan, i64 {NUMBERS + 1}')}"
            )
            t.go(t.let(f"icmp eq ptr {kind}, {t.entry(LIST)}"), following, "refuse")
            given.append(f"ptr {o}")
        elif kinds[k] == "a":
            fits = t.let(f"icmp eq ptr {kind}, {t.entry(ARRAY)}")
            t.go(fits, f"array{k}", "refuse")
            t.label(f"array{k}")
            expected, descr = t.entry(FIXED + k), t.entry(HEAD + 5, of=o)
            same = t.let(f"icmp eq ptr {expected}, {descr}")
            aligned = t.let(f"and i32 {t.entry(HEAD + 6, 'i32', of=o)}, 256")
            good = t.let(f"and i1 {same}, {t.let(f'icmp ne i32 {aligned}, 0')}")
            t.go(good, following, "refuse")
            given.append(f"ptr {o}")
        else:
            t.go(t.let(f"icmp eq ptr {o}, {t.entry(NOTHING)}"), f"given{k}", f"number{k}")
            t.label(f"number{k}")
            a = t.let(f"icmp eq ptr {kind}, {t.entry(INT)}")
            b = t.let(f"icmp eq ptr {kind}, {t.entry(BOOL)}")
            t.go(t.let(f"or i1 {a}, {b}"), f"convert{k}", "refuse")
            t.label(f"convert{k}")
            number = t.let(f"call i64 @PyLong_AsLongLongAndOverflow(ptr {o}, ptr %beyond)")
            small = t.let(f"icmp eq i32 {t.let('load i32, ptr %beyond')}, 0")
            t.go(small, f"given{k}", "refuse")
            t.label(f"given{k}")
            before = f"argument{k}"
            given.append(
                "i64 " + t.let(f"phi i64 [ {NONE}, %{before} ], [ {number}, %convert{k} ]")
            )
            t.line(f"br label %{following}")
    t.label(f"argument{count}")
    t.line(f"call void {arrange}({', '.join([*given, 'ptr %plan'])})")
    run = t.entry(RUN, "i64", of="%plan")
    t.go(t.let(f"icmp eq i64 {run}, 0"), "refuse", "found")
    t.label("found")
    place = t.let(f"add i64 {run}, {FIXED + len(arrays) + results - 1}")
    at = t.let(f"getelementptr i64, ptr %table, i64 {place}")
    first = t.let(f"load ptr, ptr {at}")
    t.go(t.let(f"icmp eq ptr {first}, null"), "want", "make")
    t.label("want")  # an exception goes on to the caller
    number = t.let(f"call ptr @PyLong_FromLongLong(i64 {run})")
    want = t.entry(WANT)
    called = t.let(
        f"call ptr (ptr, ...) @PyObject_CallFunctionObjArgs(ptr {want}, ptr {number}, ptr null)"
    )
    t.line(f"call void @Py_DecRef(ptr {number})")
    t.go(t.let(f"icmp eq ptr {called}, null"), "raise", "wanted")
    t.label("raise")
    t.line("ret ptr null")
    t.label("wanted")
    t.line(f"call void @Py_DecRef(ptr {called})")
    second = t.let(f"load ptr, ptr {at}")
    t.line("br label %make")
    t.label("make")
    address = t.let(f"phi ptr [ {first}, %found ], [ {second}, %wanted ]")
    t.line("store i64 0, ptr %bad")
    made: list[str] = []
    for k in range(results):
        descr = t.entry(FIXED + len(arrays) + k)
        t.line(f"call void @Py_IncRef(ptr {descr})")
        ndim = t.let(f"trunc i64 {t.entry(NDIM, 'i64', of='%plan')} to i32")
        shape = t.let(f"getelementptr i64, ptr %plan, i64 {SHAPE}")
        out = t.let(
            f"call ptr {t.entry(NEW)}(ptr {t.entry(ARRAY)}, ptr {descr}, i32 {ndim}, ptr {shape}, "
            "ptr null, ptr null, i32 0, ptr null)"
        )
        t.go(t.let(f"icmp eq ptr {out}, null"), f"lack{k}", f"made{k}")
        t.label(f"lack{k}")
        for other in made:
            t.line(f"call void @Py_DecRef(ptr {other})")
        t.line("ret ptr null")
        t.label(f"made{k}")
        made.append(out)
    memory = [f"ptr {t.entry(HEAD, of=o.removeprefix('ptr '))}" for o in given[: len(arrays)]]
    into = [f"ptr {t.entry(HEAD, of=o)}" for o in made]
    long = t.let(f"icmp sge i64 {t.entry(WORK, 'i64', of='%plan')}, {LONG}")
    t.go(long, "release", "run")
    t.label("release")
    thread = t.let("call ptr @PyEval_SaveThread()")
    t.line("br label %run")
    t.label("run")
    before = f"made{results - 1}" if results else "make"
    thread = t.let(f"phi ptr [ null, %{before} ], [ {thread}, %release ]")
    t.line(
        f"switch i64 {run}, label %unknown ["
        + " ".join(f"i64 {k + 1}, label %run{k}" for k in range(len(runs)))
        + "]"
    )
    t.label("unknown")
    t.line("unreachable")
    for k, (headers, tells, takes) in enumerate(runs):
        t.label(f"run{k}")
        first_ones = [*(given[: len(arrays)] if headers else memory), *into]
        values = [f"i64 {t.entry(NUMBERS + j, 'i64', of='%plan')}" for j in range(takes)]
        t.line(f"call void {address}({', '.join([*first_ones, *['ptr %bad'] * tells, *values])})")
        t.line("br label %done")
    t.label("done")
    t.go(t.let(f"icmp eq ptr {thread}, null"), "held", "return")
    t.label("return")
    t.line(f"call void @PyEval_RestoreThread(ptr {thread})")
    t.line("br label %held")
    t.label("held")
    good = t.let(f"icmp eq i64 {t.let('load i64, ptr %bad')}, 0")
    t.go(good, "good", "wrong")
    t.label("wrong")
    for out in made:
        t.line(f"call void @Py_DecRef(ptr {out})")
    t.line("br label %refuse")
    t.label("good")
    if results == 0:
        yes = t.entry(YES)
        t.line(f"call void @Py_IncRef(ptr {yes})")
        t.line(f"ret ptr {yes}")
    elif results == 1:
        t.line(f"ret ptr {made[0]}")
    else:
        pair = t.let(f"call ptr @PyTuple_New(i64 {results})")
        t.go(t.let(f"icmp eq ptr {pair}, null"), "raise", "fill")
        t.label("fill")
        for k, out in enumerate(made):
            t.line(f"call i32 @PyTuple_SetItem(ptr {pair}, i64 {k}, ptr {out})")
        t.line(f"ret ptr {pair}")
    t.label("refuse")
    nothing = t.entry(NOTHING)
    t.line(f"call void @Py_IncRef(ptr {nothing})")
    t.line(f"ret ptr {nothing}")
    return "\n".join([*t.lines, "}", ""])


@cache
def makes() -> int:
    """The address of PyArray_NewFromDescr; 0 where objects are not laid out as this file takes them."""
    from ctypes import c_int64

    from numpy._core._multiarray_umath import _ARRAY_API

    a = np.zeros((2, 3), np.float32)[:, :2]
    fields = (c_int64 * (HEAD + 7)).from_address(id(a))
    shape = (c_int64 * 2).from_address(fields[HEAD + 2])
    strides = (c_int64 * 2).from_address(fields[HEAD + 3])
    if (
        HEAD != 2
        or fields[1] != id(np.ndarray)
        or fields[HEAD] != a.ctypes.data
        or fields[HEAD + 1] & 0xFFFFFFFF != 2
        or (tuple(shape), tuple(strides)) != (a.shape, a.strides)
        or fields[HEAD + 5] != id(a.dtype)
        or fields[HEAD + 6] & 0x500 != 0x500  # aligned, writeable
    ):
        return 0
    return (c_int64 * 95).from_address(native.pointer(_ARRAY_API))[94]


def refuse(*_: Any) -> None:
    """What leaves all to what stands behind it."""


def direct(
    arrange: tuple[Kernel, dict[str, Any]],
    arrays: Sequence[np.dtype | ListOf],
    results: Sequence[np.dtype],
    *runs: tuple[Kernel, dict[str, Any]],
) -> Callable[..., Any]:
    """The builtin function for arrays and results of these dtypes; kernels with their known values."""
    if not (new := makes()):
        return refuse
    kinds = list(arrange[0]._types(arrange[1]).values())
    assert kinds[: len(arrays)] == [Header] * len(arrays)
    numbers = len(kinds) - len(arrays) - 1
    forms = []
    for kernel, known in runs:
        types = list(kernel._types(known).values())
        pointers = sum(t.kind == "p" for t in types)
        tells = pointers - len(arrays) - len(results)
        assert tells in (0, 1), f"{kernel} takes other pointers than arrays and results"
        forms.append((types[0] is Header, tells == 1, len(types) - pointers))
    letters = "".join("l" if isinstance(a, ListOf) else "a" for a in arrays)
    descrs = [a.dtype if isinstance(a, ListOf) else a for a in arrays]
    form = (letters, numbers, len(results), tuple(forms))
    python()
    address = arrange[0].address(**arrange[1])
    (entry,) = native.load(f"direct{form}", lambda: _text(*form), ["direct"])
    first = FIXED + len(arrays) + len(results)

    def want(run: int) -> None:
        kernel, known = runs[run - 1]
        table[first + run - 1] = kernel.address(**known)

    table = np.array(
        [
            *(id(np.ndarray), address if _used else 0, new, id(int), id(bool), id(None), id(True)),
            *(id(list), id(want), *map(id, descrs), *map(id, results), *[0] * len(runs)),
        ],
        np.int64,
    )
    native.keep((want, descrs, tuple(results)))
    _made.append((table, address))
    return builtin(arrange[0].__name__, entry, table)


class ByDtype(dict):
    """dtype -> what is made for it at the first use."""

    def __init__(self, make: Callable[[np.dtype], Callable[..., Any]]) -> None:
        self.make = make

    def __missing__(self, dtype: np.dtype) -> Callable[..., Any]:
        found = self[dtype] = self.make(dtype)
        return found
