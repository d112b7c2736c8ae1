"""Native entries: builtin functions of Python that check arguments, make results and run kernels.

They are written in the kernel language; what they assume of Python's objects stands in `runtime/abi.py`.
`call` is the entry of every kernel: it takes the memory of arrays, and numbers. `bind` makes one for whole
arrays, of a function that infers the results' shape and of the kernels that compute them:

    total = bind((reduction, {}), [f32], [f32], (sum_rows, {"T": f32}), (fold_columns, {"T": f32}))
    total(array, dim, keepdim)  # the result, or None for what it is not made for

Shape inference is a kernel that takes the arrays (as Header), whole numbers, and a plan. It writes which of
the runs (1, 2...; 0 for none), how much work that is, the shape of the results (and another one, of those that say
OTHER), and the numbers that the run takes. A run is a kernel of pointers (of the arrays, or their Header, of the results, and
perhaps of one more number, which it sets where something was wrong) and of numbers; it is compiled
at its first use. Without results a call returns True when it has run.

A list of arrays is told by `ListOf(dtype)`: shape inference and the runs get the list itself (Header), and
the plan's first two numbers are what each array must have as its type and its dtype
(`kernels/shape_inference.py`, `listed`).

Inside of `in_python` entries that are not there yet do the same as functions of Python, and nothing is compiled for them:
a program that runs once, to be looked at, has no use for more.

Before shape inference it is checked that arrays are plain, aligned and of the dtypes said, and that the
other arguments are ints, bools, or None, which is NONE for it; floats and ints where it takes a f64; and one of some
words where `words` names the parameter, which is the place of the word for it. Nothing else may be taken for granted.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from rushlight._codegen.kernel import Kernel, builtin, entry
from rushlight._codegen.language import array, bits, inline, unroll
from rushlight._codegen.language import call as call_address
from rushlight._codegen.python_api import (
    Object,
    Py_DecRef,
    Py_IncRef,
    PyErr_BadArgument,
    PyErr_Occurred,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyFloat_AsDouble,
    PyLong_AsLongLongAndOverflow,
    PyLong_AsUnsignedLongLongMask,
    PyLong_FromLongLong,
    PyObject_CallOneArg,
    PyObject_IsTrue,
    PyTuple_New,
    PyTuple_SetItem,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.runtime.abi import (
    ALIGNED,
    DATA,
    DTYPE,
    FLAGS,
    FLOAT_VALUE,
    TYPE,
)
from rushlight._codegen.types import Header, Ptr, b1, f64, i32, i64

DIMS = 8  # of a result
# A plan: the run, how many elements it goes over, the result's dimensions, its shape; numbers.
RUN, WORK, NDIM, SHAPE = 0, 1, 2, 3
NUMBERS = SHAPE + DIMS
OTHER_NDIM = NUMBERS + 16  # the dimensions of results of the other shape, and that shape
OTHER_SHAPE = OTHER_NDIM + 1
PLAN = OTHER_SHAPE + DIMS
OTHER = -1  # in the place of a result's number of elements: it has the other shape
NONE = -(1 << 62)
LONG = 32768  # elements from which other threads of Python may run meanwhile

# What an entry is bound to, an array of addresses: whether it is in use, what stands at fixed places, then
# the dtypes of arrays and of results, then the runs (0 before they are compiled).
USED, ARRAY, NEW, INT, BOOL, FLOAT, NOTHING, YES, LIST, COMPILE, FIXED = range(11)


@inline
def converted(o, T):
    """An object as a kernel's argument; an exception is set where it is none."""
    if T is Header:
        value = bits(o, Header)
    elif T.kind == "p":
        value = bits(bits(o, Ptr[i64])[DATA], T)
    elif T.kind == "f":
        value = T(PyFloat_AsDouble(o))
    elif T.kind == "b":
        value = PyObject_IsTrue(o) > 0
    else:
        value = T(PyLong_AsUnsignedLongLongMask(o))
    return value


@entry
def call(KERNEL, TYPES, self: Object, objects: Ptr[Object], count: i64):
    """Run a kernel, without the interpreter's lock; returns what it is bound to: None."""
    if count != len(TYPES):
        PyErr_BadArgument()
        return Object(0)
    given = [converted(objects[k], TYPES[k]) for k in range(len(TYPES))]
    if PyErr_Occurred() != 0:
        return Object(0)
    thread = PyEval_SaveThread()
    KERNEL(*given)
    PyEval_RestoreThread(thread)
    Py_IncRef(self)
    return self


@inline
def new_reference(o):
    Py_IncRef(o)
    return o


@inline
def plain(o, table, dtype):
    """Whether an object is an aligned array of a dtype."""
    fits = bits(o, Ptr[i64])[TYPE] == table[ARRAY]
    if fits:
        flags = bits(bits(o, Ptr[i64]) + FLAGS, Ptr[i32])[0]
        fits = (bits(o, Ptr[i64])[DTYPE] == dtype) & ((flags & ALIGNED) != 0)
    return fits


@inline
def argument(KIND, o, table, at, words, plan):
    """Whether an argument is of a kind (see `bound`), and what shape inference gets for it. `at`: where the table has its
    dtype, `words`: where it has the words."""
    fits, beyond = b1(1), array(i32, 1)
    if KIND == "a":
        fits, value = plain(o, table, table[at]), bits(o, Header)
    elif KIND == "l":
        fits, value = bits(o, Ptr[i64])[TYPE] == table[LIST], bits(o, Header)
        plan[NUMBERS] = table[ARRAY]
        plan[NUMBERS + 1] = table[at]
    elif KIND == "f":
        value, kind = f64(0), bits(o, Ptr[i64])[TYPE]
        if kind == table[FLOAT]:
            value = bits(o, Ptr[f64])[FLOAT_VALUE]
        elif kind == table[INT]:
            value = f64(PyLong_AsLongLongAndOverflow(o, beyond))
            fits = beyond[0] == 0
        else:
            fits = b1(0)
    elif KIND == "w":
        value = i64(-1)
        for j in range(table[words]):
            if table[words + 1 + j] == o:
                value = j + 0
        fits = value >= 0
    else:
        value = i64(NONE)
        if o != table[NOTHING]:
            kind = bits(o, Ptr[i64])[TYPE]
            fits = (kind == table[INT]) | (kind == table[BOOL])
            if fits:
                value = PyLong_AsLongLongAndOverflow(o, beyond)
                fits = beyond[0] == 0
    return fits, value


@inline
def tuple_of(made):
    """A tuple of new objects, which it takes over; 0 after an error."""
    several = PyTuple_New(len(made))
    if several != 0:
        for k in unroll(len(made)):
            PyTuple_SetItem(several, k, made[k])
    return several


@inline
def new_array(n, dtype, plan, length, table):
    """An array of n elements, of the plan's shape (0), or of its other one; 0 after an error. It takes `dtype` over."""
    if n > 0:
        length[0] = n
        dims, shape = i64(1), length
    elif n == OTHER:
        dims, shape = plan[OTHER_NDIM] + 0, plan + OTHER_SHAPE
    else:
        dims, shape = plan[NDIM] + 0, plan + SHAPE
    zero = i64(0)
    return call_address(
        table[NEW], Object, table[ARRAY], dtype, i32(dims), shape, zero, zero, i32(0), zero
    )


@entry
def bound(KINDS, RESULTS, RUNS, INFER, KNOWN, self: Ptr[i64], objects: Ptr[Object], count: i64):
    """A call of a bound entry: read the arguments, infer shapes, make the results, run a kernel; None where one of
    these is not possible. KINDS has a letter for each argument: "a" array, "l" list of arrays, "n" whole number,
    "f" float, "w" word. RESULTS has the elements of each result (0: the plan has its shape; OTHER). RUNS has for each
    kernel: does it take headers of arrays, does it report wrong elements, the kinds of its numbers. Behind the runs the
    table has the number of words, and the words."""
    ARRAYS = len([k for k in KINDS if k in "al"])
    WORDS = FIXED + ARRAYS + len(RESULTS) + len(RUNS)
    table = bits(self[DATA], Ptr[i64])
    nothing = table[NOTHING]
    if (table[USED] == 0) | (count != len(KINDS)):
        return new_reference(nothing)
    plan, wrong = array(i64, PLAN), array(i64, 1)
    wrong[0] = 0
    given, arrays = [], []
    for k in unroll(len(KINDS)):
        found = argument(KINDS[k], objects[k], table, FIXED + len(arrays), WORDS, plan)
        if not found[0]:
            return new_reference(nothing)
        given = given + [found[1]]
        if KINDS[k] in "al":
            arrays = arrays + [found[1]]
    INFER(*given, plan, **dict(KNOWN))
    run = plan[RUN]
    if run == 0:
        return new_reference(nothing)
    at = run + (FIXED + ARRAYS + len(RESULTS) - 1)
    address = table[at]
    if address == 0:
        which = PyLong_FromLongLong(run)
        compiled = PyObject_CallOneArg(table[COMPILE], which)
        Py_DecRef(which)
        if compiled == 0:  # an exception goes on to the caller
            return Object(0)
        Py_DecRef(compiled)
        address = table[at]
    made, length = [], array(i64, 1)
    for k in unroll(len(RESULTS)):
        dtype = new_reference(table[FIXED + ARRAYS + k])
        out = new_array(RESULTS[k], dtype, plan, length, table)
        if out == 0:
            for other in unroll(made):
                Py_DecRef(other)
            return Object(0)
        made = made + [out]
    memory = [bits(a, Ptr[i64])[DATA] for a in arrays]
    into = [bits(out, Ptr[i64])[DATA] for out in made]
    thread = i64(0)
    if plan[WORK] >= LONG:
        thread = PyEval_SaveThread()
    for k in unroll(len(RUNS)):
        HEADERS, TELLS, TAKES = RUNS[k]
        passed = arrays if HEADERS else memory
        if run == k + 1:
            words = [plan[NUMBERS + i] for i in range(len(TAKES))]
            numbers = [
                bits(words[i], f64) if TAKES[i] == "f" else words[i] for i in range(len(TAKES))
            ]
            call_address(address, None, *passed, *into, *([wrong] * TELLS), *numbers)
    if thread != 0:
        PyEval_RestoreThread(thread)
    if wrong[0] != 0:
        for out in unroll(made):
            Py_DecRef(out)
        return new_reference(nothing)
    if len(RESULTS) == 0:
        return new_reference(table[YES])
    if len(RESULTS) == 1:
        return made[0]
    return tuple_of(made)


class ListOf:
    """A list of arrays of one dtype."""

    def __init__(self, dtype: np.dtype) -> None:
        self.dtype = dtype


def unbound(*_: Any) -> None:
    """The entry that takes nothing: what is behind it does all."""


_tables: list[Any] = []  # of all bound entries
_used = True


def use(some: bool) -> None:
    """Whether bound entries do anything, or leave all to what stands behind them."""
    global _used
    _used = some
    for table in _tables:
        table[USED] = some


def bind(
    infer: tuple[Kernel, dict[str, Any]],
    arrays: Sequence[np.dtype | ListOf],
    results: Sequence[np.dtype | tuple[np.dtype, int]],
    *runs: tuple[Kernel, dict[str, Any]],
    words: tuple[str, tuple[str, ...]] = ("", ()),
) -> Callable[..., Any]:
    """The builtin function for arrays and results of these dtypes; kernels with their known values. A result
    is of the inferred shape, of the other one where it is (dtype, OTHER), or has so many elements. `words`: the
    parameter of shape inference that stands for a word, and the words that are taken there."""
    from rushlight._codegen import native

    if not abi.available():
        return unbound
    bound_to = Bound(infer, tuple(arrays), tuple(results), runs, words)
    if in_python.now.makes:
        return python_entry(bound_to, in_python.block())
    made = [r if isinstance(r, tuple) else (r, 0) for r in results]
    forms = []
    for kernel, known in runs:
        types = list(kernel._types(known).values())
        pointers = sum(t.kind == "p" for t in types)
        tells = pointers - len(arrays) - len(results)
        assert tells in (0, 1), f"{kernel} takes other pointers than arrays and results"
        takes = "".join("f" if t is f64 else "n" for t in types[pointers:])
        forms.append((types[0] is Header, tells == 1, takes))
    code = bound.address(
        KINDS=bound_to.kinds(),
        RESULTS=tuple(n for _, n in made),
        RUNS=tuple(forms),
        INFER=infer[0],
        KNOWN=tuple(infer[1].items()),
    )
    descrs = [a.dtype if isinstance(a, ListOf) else a for a in arrays] + [d for d, _ in made]
    first = FIXED + len(descrs)

    def compile_run(run: int) -> None:
        kernel, known = runs[run - 1]
        table[first + run - 1] = kernel.address(**known)

    native.keep_alive((compile_run, descrs))
    taken = [sys.intern(word) for word in words[1]]
    native.keep_alive(taken)
    behind_runs = [len(taken), *map(id, taken)]
    table = table_of(compile_run, *map(id, descrs), *[0] * len(runs), *behind_runs)
    entry = builtin(infer[0].__name__, code, table)
    _bound[entry] = bound_to
    return entry


class Bound:
    """What an entry was bound to, as `bind` was told."""

    def __init__(
        self,
        infer: tuple[Kernel, dict[str, Any]],
        arrays: tuple,
        results: tuple,
        runs: tuple,
        words: tuple[str, tuple[str, ...]],
    ) -> None:
        self.infer, self.arrays, self.results, self.runs = infer, arrays, results, runs
        self.words = words

    def kinds(self) -> str:
        """A letter for each argument, see `bound`."""
        found, lists = "", iter(self.arrays)
        for name, t in [*self.infer[0]._types(self.infer[1]).items()][:-1]:
            if t is Header:
                found += "l" if isinstance(next(lists), ListOf) else "a"
            else:
                found += "f" if t is f64 else "w" if name == self.words[0] else "n"
        assert not [*lists], f"{self.infer[0]} takes fewer arrays"
        return found


_bound: dict[Callable[..., Any], Bound] = {}


def bound_of(entry: Callable[..., Any]) -> Bound | None:
    """What an entry was bound to; None for one that goes over elements, or takes nothing."""
    return _bound.get(entry)


def passed_to_kernels(given: tuple, kinds: str, words: Any) -> list[Any] | None:
    """The arguments of an entry as kernels get them; None where one is not of its kind ("a" array, "l" list, "w" one of
    the `words`, "f" float, "n" int or None)."""
    passed: list[Any] = []
    for v, kind in zip(given, kinds):
        if kind in "al":
            passed.append(v)
            continue
        if kind == "w":
            if v not in words:
                return None
            passed.append(words.index(v))
            continue
        real = kind == "f"
        if v is not None and v.__class__ not in ((int, float) if real else (int, bool)):
            return None
        if v is None and real or v.__class__ is int and not -(1 << 63) <= v < 1 << 63:
            return None
        passed.append(NONE if v is None else v)
    return passed


def python_entry(bound: Bound, block: Any = None) -> Callable[..., Any]:
    """What a native entry does: infer the results, make them, run a kernel. None for what it does not take.

    `block`, a `recording`: it does not hear of shape inference, and is told of the arrays in which kernels say that
    something is wrong.
    """
    infer, arrays, results, runs = bound.infer, bound.arrays, bound.results, bound.runs
    kinds = bound.kinds()
    block = block or SimpleNamespace(silent=False, wrong=[])

    def entry(*given: Any) -> Any:
        if not _used or len(given) != len(kinds):
            return None
        memory = [v for v, kind in zip(given, kinds) if kind in "al"]
        if not all(map(takes, memory, arrays)):
            return None
        if (passed := passed_to_kernels(given, kinds, bound.words[1])) is None:
            return None
        plan = np.zeros(PLAN, np.int64)
        for d in [a.dtype for a in arrays if isinstance(a, ListOf)]:
            plan[NUMBERS : NUMBERS + 2] = id(np.ndarray), id(d)
        block.silent = True
        try:
            infer[0].compiled(**infer[1])(*passed, plan)
        finally:
            block.silent = False
        if not plan[RUN]:
            return None
        kernel, known = runs[plan[RUN] - 1]
        shape = plan[SHAPE : SHAPE + plan[NDIM]].tolist()
        other = plan[OTHER_SHAPE : OTHER_SHAPE + plan[OTHER_NDIM]].tolist()
        made = []
        for r in results:
            dtype, n = r if isinstance(r, tuple) else (r, 0)
            made.append(np.empty(shape if not n else other if n == OTHER else n, dtype))
        types = [*kernel._types(known).values()]
        pointers = sum(t.kind == "p" for t in types)
        wrong = [np.zeros(1, np.int64)] * (pointers - len(arrays) - len(made))
        block.wrong += wrong
        words = plan[NUMBERS : NUMBERS + len(types) - pointers]
        numbers = [
            w.view(np.float64).item() if t.is_float else w.item()
            for w, t in zip(words, types[pointers:], strict=True)
        ]
        kernel.compiled(**known)(*memory, *made, *wrong, *numbers)
        if wrong and wrong[0][0]:
            return None
        return True if not made else made[0] if len(made) == 1 else tuple(made)

    return entry


def takes(v: Any, kind: Any) -> bool:
    """Whether an entry takes an array, or a list of arrays, for one of a dtype."""
    if isinstance(kind, ListOf):
        return v.__class__ is list
    return v.__class__ is np.ndarray and v.dtype is kind and v.flags.aligned


def table_of(compile_run: Any, *words: int) -> np.ndarray:
    """What an entry is bound to: what stands at fixed places, and some more words."""
    fixed = [id(each) for each in (int, bool, float, None, True, list, compile_run)]
    words = (_used, id(np.ndarray), abi.new_array(), *fixed, *words)
    _tables.append(np.array(words, np.int64))
    return _tables[-1]


class ByDtype(dict):
    """dtype -> what is made for it at the first use. `every`: all there are, which kernels' files hold.

    `out`: as entries they take an array to write to behind their other arguments.
    """

    every: ClassVar[list[ByDtype]] = []

    def __init__(self, make: Callable[[np.dtype], Callable[..., Any]], out: bool = False) -> None:
        self.make, self.out = make, out
        self.every.append(self)

    def __missing__(self, dtype: np.dtype) -> Callable[..., Any]:
        now = in_python.now
        if now.blocks:
            before, now.makes = now.makes, True
            try:
                return self.make(dtype)
            finally:
                now.makes = before
        found = self[dtype] = self.make(dtype)
        return found


class _InPython(threading.local):
    """`blocks`: those of `in_python` that a thread is in; `makes`: whether it makes an entry there."""

    blocks: tuple[in_python, ...] = ()
    makes = False


class in_python:
    """A block in which this thread makes functions of Python in the place of native entries that are not there yet, and
    forgets them. `recording`: what hears of their kernels."""

    now: ClassVar[_InPython] = _InPython()

    def __init__(self, recording: Any = None) -> None:
        self.recording = recording

    def __enter__(self) -> in_python:
        self.now.blocks = (*self.now.blocks, self)
        return self

    def __exit__(self, *error: object) -> None:
        self.leave()

    def leave(self) -> None:
        """End the block, if it has not ended yet."""
        self.now.blocks = tuple([b for b in self.now.blocks if b is not self])

    @classmethod
    def block(cls) -> Any:
        """The innermost recording; None where there is none."""
        return next((b.recording for b in cls.now.blocks[::-1] if b.recording is not None), None)
