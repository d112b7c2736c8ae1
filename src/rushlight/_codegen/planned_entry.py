"""Native entries of planned calls: what a function does with arrays of one layout is planned once, then carried out.

    entry = planned(planner, body)  # for a dtype of the first array
    entry(array, (1, 2))            # what body(array, (1, 2)) gives, or None

What such a function does follows from its arrays' dtypes, shapes and strides and from its other arguments, not from
elements: it makes arrays, and hands parts of them to other native code. `planner(plan, *arguments)` writes that down in a
`Plan` the second time that arguments of one layout come, or returns None where it has no plan for them. The arrays that it
gets are others, of numbers that mean nothing. Then the function that the entry stands before is run on these, and a plan
that gives other bits or another layout is not used; where the function raises there is none.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight._codegen.kernel import builtin, entry
from rushlight._codegen.kernels.header import dims_of, matches, shape_of, strides_of
from rushlight._codegen.language import array, bits, inline
from rushlight._codegen.language import call as call_address
from rushlight._codegen.native_entry import (
    ARRAY,
    COMPILE,
    FIXED,
    FLOAT,
    INT,
    LIST,
    NEW,
    NOTHING,
    USED,
    bound_of,
    in_python,
    new_reference,
    table_of,
    unbound,
)
from rushlight._codegen.python_api import (
    Object,
    Py_DecRef,
    Py_IncRef,
    PyLong_AsLongLongAndOverflow,
    PyObject_Vectorcall,
    PyTuple_New,
    PyTuple_SetItem,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i32, i64
from rushlight.core.size import Size

# What an entry is bound to, behind what others are: types, the addresses of plans.
TUPLE, SIZE, PLANS = range(FIXED, FIXED + 3)
# Plans of an entry; places from the one of its number on where a plan may stand.
MANY, NEAR = 64, 16
# A plan: the object that holds it; the arguments, a tuple with what COMPILE is in the place of arrays; how many arrays it makes
# and where these stand; the same of calls and of results; then what each array must be, as `matches` takes it.
HOLDER, ARGUMENTS, MADE, MADE_AT, CALLS, CALLS_AT, GIVEN, GIVEN_AT, CHECKS = range(9)
# An array: the number of the one in whose memory it is, or -1; where it begins there; dtype, dimensions, shape, strides.
# A call: the function, what it answers where all is well, how many arguments; of each the number of an array, or -1 and an object.
MOST, LONGEST = 24, 48  # arrays of a plan, arguments of a call
FEW = 1 << 18  # bytes of an array, and of what the calls of a plan are told besides


@inline
def equal(o, p, table):
    """Whether two objects are one, or equal ints or floats."""
    found, kind = o == p, bits(o, Ptr[i64])[abi.TYPE]
    if (not found) & (kind == bits(p, Ptr[i64])[abi.TYPE]):
        if kind == table[INT]:
            beyond = array(i32, 2)
            one = PyLong_AsLongLongAndOverflow(o, beyond)
            two = PyLong_AsLongLongAndOverflow(p, beyond + 1)
            found = (one == two) & (beyond[0] == 0) & (beyond[1] == 0)
        elif kind == table[FLOAT]:
            found = bits(o, Ptr[i64])[abi.FLOAT_VALUE] == bits(p, Ptr[i64])[abi.FLOAT_VALUE]
    return found


@inline
def same(o, p, table):
    """Whether two objects are equal in this sense, or tuples, sizes or lists of such ones."""
    found, kind = equal(o, p, table), bits(o, Ptr[i64])[abi.TYPE]
    if (not found) & (kind == bits(p, Ptr[i64])[abi.TYPE]):
        listed, tupled = kind == table[LIST], (kind == table[TUPLE]) | (kind == table[SIZE])
        if listed | tupled:
            n = bits(o, Ptr[i64])[abi.TUPLE_SIZE] + 0
            found = n == bits(p, Ptr[i64])[abi.TUPLE_SIZE]
            one, two = bits(o, Ptr[i64]) + abi.TUPLE_ITEMS, bits(p, Ptr[i64]) + abi.TUPLE_ITEMS
            if listed:
                one = bits(bits(o, Ptr[i64])[abi.LIST_ITEMS], Ptr[i64])
                two = bits(bits(p, Ptr[i64])[abi.LIST_ITEMS], Ptr[i64])
            if found:
                for k in range(n):
                    if not equal(one[k], two[k], table):
                        found = b1(0)
                        break
    return found


@inline
def is_for(plan, objects, count, table):
    """Whether a plan is for these arguments."""
    at, told = i64(CHECKS), bits(plan[ARGUMENTS], Ptr[i64])
    fits = told[abi.TUPLE_SIZE] == count
    if fits:
        for k in range(count):
            o, expected = objects[k], told[abi.TUPLE_ITEMS + k]
            if expected == table[COMPILE]:
                fits = matches(bits(o, Ptr[i64]), bits(table[ARRAY], Header), plan, at)
                at = at + 2 + 2 * plan[at + 1]
            else:
                fits = same(o, expected, table)
            if not fits:
                break
    return fits


@inline
def plan_of(objects, count, table):
    """The plan for these arguments; 0 where there is none."""
    found, number = i64(0), i64(0)
    for k in range(count):
        a = bits(objects[k], Header)
        if a[abi.TYPE] == table[ARRAY]:
            for j in range(dims_of(a)):
                number = (number * 31 + shape_of(a)[j]) * 31 + strides_of(a)[j]
    number = number ^ (number >> 6)
    for k in range(NEAR):
        at = table[PLANS + ((number + k) & (MANY - 1))]
        if at != 0:
            if is_for(bits(at, Ptr[i64]), objects, count, table):
                found = at + 0
                break
    return found


@inline
def arrays_made(plan, held, given, table):
    """Make the arrays of a plan, behind those that are given. Returns how many there are then, and whether they all are."""
    n, at, fine, zero = given + 0, plan[MADE_AT] + 0, b1(1), i64(0)
    for _ in range(plan[MADE]):
        memory, flags, nd = i64(0), i32(0), plan[at + 3]
        if plan[at] >= 0:
            memory = bits(held[plan[at]], Ptr[i64])[abi.DATA] + plan[at + 1]
            flags = i32(abi.WRITEABLE)
        Py_IncRef(plan[at + 2])
        made = call_address(
            table[NEW], Object, table[ARRAY], plan[at + 2], i32(nd), plan + at + 4,
            plan + at + 4 + nd, memory, flags, zero,
        )  # fmt: skip
        if made == 0:
            fine = b1(0)
            break
        held[n] = made
        n = n + 1
        at = at + 4 + 2 * nd
    return n, fine


@inline
def calls_made(plan, held):
    """Make the calls of a plan. Returns whether none raised, and whether all answered as they do where all is well."""
    at, fine, well, given = plan[CALLS_AT] + 0, b1(1), b1(1), array(i64, LONGEST)
    for _ in range(plan[CALLS]):
        count = plan[at + 2]
        for k in range(count):
            which = plan[at + 3 + 2 * k]
            given[k] = plan[at + 4 + 2 * k]
            if which >= 0:
                given[k] = held[which]
        answer = PyObject_Vectorcall(plan[at], given, count, Object(0))
        if answer == 0:
            fine = b1(0)
            break
        well = answer == plan[at + 1]
        Py_DecRef(answer)
        if not well:
            break
        at = at + 3 + 2 * count
    return fine, well


@inline
def results_of(plan, held):
    """The result of a plan, or the tuple of the results; 0 after an error."""
    made, n, at = i64(0), plan[GIVEN], plan[GIVEN_AT]
    if n == 1:
        made = new_reference(held[plan[at]])
    else:
        made = PyTuple_New(n)
        if made != 0:
            for k in range(n):
                PyTuple_SetItem(made, k, new_reference(held[plan[at + k]]))
    return made


@entry
def carry_out(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """What the plan for these arguments gives; None where there is none, or a call answers otherwise than where all is well."""
    table = bits(self[abi.DATA], Ptr[i64])
    if table[USED] == 0:
        return new_reference(table[NOTHING])
    found = plan_of(objects, count, table)
    if found == 0:
        return PyObject_Vectorcall(table[COMPILE], objects, count, Object(0))
    plan, held, given = bits(found, Ptr[i64]), array(i64, MOST), i64(0)
    if plan[GIVEN] == 0:
        return new_reference(table[NOTHING])
    holder = new_reference(plan[HOLDER])
    for k in range(count):
        if bits(objects[k], Ptr[i64])[abi.TYPE] == table[ARRAY]:
            held[given] = objects[k]
            given = given + 1
    n, fine = arrays_made(plan, held, given, table)
    result, well = i64(0), b1(0)
    if fine:
        fine, well = calls_made(plan, held)
    if fine:
        if well:
            result = results_of(plan, held)
        else:
            result = new_reference(table[NOTHING])
    for k in range(given, n):
        Py_DecRef(held[k])
    Py_DecRef(holder)
    return result


class Plan:
    """What is done with arrays of one layout: a planner makes arrays (`new`) and notes calls (`call`) on parts of these and
    of those that it is given. Other arrays stay as they are."""

    def __init__(self, given: list[np.ndarray]) -> None:
        self._arrays = given
        self._made: list[tuple] = []  # (array in whose memory, where), (-1, 0) for its own
        self._calls: list[tuple] = []
        self._given = len(given)

    def new(self, shape: tuple, dtype: np.dtype, order: tuple | None = None) -> np.ndarray:
        """An array to write to; `order`: of its dimensions in memory."""
        if order is None:
            return self._add(np.empty(shape, dtype), -1, 0)
        memory = np.empty([shape[d] for d in order], dtype)
        return self._add(memory.transpose(np.argsort(order)), -1, 0)

    def call(self, function: Callable[..., Any], *arguments: Any) -> None:
        """Note a call of a kernel, or of a bound entry that writes to one of the arrays."""
        well = None if bound_of(function) is None else True
        numbers = [self._number(v) if v.__class__ is np.ndarray else -1 for v in arguments]
        told = [(k, v if k < 0 else None) for k, v in zip(numbers, arguments, strict=True)]
        self._calls.append((function, well, told))

    def _add(self, a: np.ndarray, memory: int, offset: int) -> np.ndarray:
        self._arrays.append(a)
        self._made.append((memory, offset))
        return a

    def _number(self, a: np.ndarray) -> int:
        """Which array it is, or -1 for one of other memory; a part of one is another one."""
        first = address(a)
        for k, own in enumerate(self._arrays):
            if own is a or layout_of(own) == layout_of(a) and address(own) == first:
                return k
        for k, own in enumerate(self._arrays):
            low, high = np.lib.array_utils.byte_bounds(own)
            if low <= first < high:
                self._add(a, k, first - address(own))
                return len(self._arrays) - 1
        return -1

    def words(self, arguments: tuple, holder: list, results: tuple) -> np.ndarray:
        """The plan as native code reads it; `holder`: a list that keeps what it has addresses of."""
        checks: list[int] = []
        for a in self._arrays[: self._given]:
            checks += [id(a.dtype), a.ndim, *a.shape, *a.strides]
        made: list[int] = []
        for a, where in zip(self._arrays[self._given :], self._made, strict=True):
            made += [*where, id(a.dtype), a.ndim, *a.shape, *a.strides]
        calls: list[int] = []
        for function, well, told in self._calls:
            calls += [id(function), id(well), len(told)]
            calls += [w for k, v in told for w in (k, id(v))]
        given = [self._number(r) for r in results]
        at = CHECKS + len(checks)
        starts = at, at + len(made), at + len(made) + len(calls)
        holder += [arguments, [a.dtype for a in self._arrays], self._calls]
        head = [id(holder), id(arguments), len(self._made), starts[0], len(self._calls), starts[1]]
        head += [len(given), starts[2]]
        return np.array([*head, *checks, *made, *calls, *given], np.int64)

    def fits(self, results: tuple) -> bool:
        """Whether native code has room for it, and all results have memory of their own."""
        most = max((len(told) for _, _, told in self._calls), default=0)
        own = [self._number(r) - self._given for r in results]
        alone = all(k >= 0 and self._made[k][0] < 0 for k in own) and len({*own}) == len(own)
        constants = [v for _, _, told in self._calls for _, v in told if v.__class__ is np.ndarray]
        small = sum(v.nbytes for v in constants) <= FEW
        return alone and small and len(self._arrays) <= MOST and most <= LONGEST


def address(a: np.ndarray) -> int:
    """Where the first element of an array is."""
    return a.__array_interface__["data"][0]


def layout_of(a: np.ndarray) -> tuple:
    return a.shape, a.strides, a.dtype


def numbered(arrays: list[np.ndarray]) -> int:
    """The place of the plan for arrays of this layout, as native code finds it."""
    number = 0
    for a in arrays:
        for n, step in zip(a.shape, a.strides, strict=True):
            number = (number * 31 + n) * 31 + step & (1 << 64) - 1
    return number ^ number >> 6


def laid_like(a: np.ndarray) -> np.ndarray:
    """An array with the layout of `a`, in memory of its own, of numbers between 1 and 2, or ones."""
    low, high = np.lib.array_utils.byte_bounds(a)
    memory = np.zeros(high - low, np.uint8)
    made = np.ndarray(a.shape, a.dtype, memory, address(a) - low, a.strides)
    numbers = 1 + np.arange(a.size, dtype=np.float64).reshape(a.shape) * 37 % 101 / 101
    made[...] = numbers.astype(a.dtype)
    return made


SINGLE = frozenset({float, bool, type(None)})
SEVERAL = frozenset({tuple, list, Size})


def repeatable(v: Any) -> bool:
    """Whether native code tells an argument from others: `same` finds all that it depends on."""
    if v.__class__ in SEVERAL:
        return all(x.__class__ not in SEVERAL and repeatable(x) for x in v)
    if v.__class__ is int:
        return -(1 << 63) <= v < 1 << 63
    if v.__class__ is str:
        return sys.intern(v) is v
    return v.__class__ in SINGLE or v.__class__.__eq__ is object.__eq__


def suits(a: np.ndarray) -> bool:
    """Whether an array has few elements: then calls cost more than the work."""
    return 0 < a.nbytes <= FEW and a.flags.aligned


class Planner:
    """The plans of one entry, and what finds new ones: `plan(plan, *arguments)`."""

    def __init__(self, plan: Callable[..., Any], body: Callable[..., Any]) -> None:
        self.plan, self.body = plan, body
        self.seen: set[Any] = set()
        self.holders: dict[int, list] = {}
        # Plans that are still made: a program whose layouts do not come again needs none.
        self.left = 2 * MANY
        self.behind = self.miss  # one object, whose address the table has
        self.table = table_of(self.behind, id(tuple), id(Size), *[0] * MANY)
        self.entry = builtin("planned", carry_out.address(), self.table)

    def miss(self, *given: Any) -> None:
        """What is called where there is no plan: it makes one when arguments come for the second time."""
        arrays = [v for v in given if v.__class__ is np.ndarray]
        others = [v for v in given if v.__class__ is not np.ndarray]
        if not self.left or not all(map(suits, arrays)) or not all(map(repeatable, others)):
            return
        key = (*map(layout_of, arrays), *map(repr, others))
        if key not in self.seen:
            if len(self.seen) >= MANY:
                self.seen.clear()
            self.seen.add(key)
            return
        self.seen.discard(key)
        self.left -= 1
        tried = [laid_like(v) if v.__class__ is np.ndarray else v for v in given]
        plan = Plan([v for v in tried if v.__class__ is np.ndarray])
        found = self.plan(plan, *tried)
        results = () if found is None else found if found.__class__ is tuple else (found,)
        first = numbered(arrays)
        slots = [first + k & MANY - 1 for k in range(NEAR)]
        slot = next((p for p in slots if p not in self.holders), slots[self.left % NEAR])
        told = tuple([self.behind if v.__class__ is np.ndarray else fixed(v) for v in given])
        if results and plan.fits(results):
            self.keep(slot, plan, told, results)
            if agrees(self.body, self.entry, tried):
                return
        self.keep(slot, plan, told, ())  # the function does it

    def keep(self, slot: int, plan: Plan, told: tuple, results: tuple) -> None:
        """Let native code find a plan."""
        holder: list[Any] = []
        words = plan.words(told, holder, results)
        holder.append(words)
        self.table[PLANS + slot] = words.ctypes.data
        self.holders[slot] = holder


def fixed(v: Any) -> Any:
    """An argument that nobody changes."""
    return v.copy() if v.__class__ is list else v


def agrees(body: Callable[..., Any], entry: Callable[..., Any], given: list) -> bool:
    """Whether an entry gives what a function does, in the same layout, and writes to what it is given what that writes."""
    again = [laid_like(v) if v.__class__ is np.ndarray else v for v in given]
    try:
        with np.errstate(all="ignore"):
            expected = body(*again)
    except Exception:  # what it refuses is not for the entry
        return False
    found = entry(*given)
    if found is None:
        return False
    told, made = [v if v.__class__ is tuple else (v,) for v in (expected, found)]
    told, made = [
        (*v, *(x for x in w if x.__class__ is np.ndarray))
        for v, w in ((told, again), (made, given))
    ]
    return len(told) == len(made) and all(
        a.__class__ is np.ndarray and layout_of(a) == layout_of(b) and a.tobytes() == b.tobytes()
        for a, b in zip(told, made, strict=True)
    )


def planned(plan: Callable[..., Any], body: Callable[..., Any]) -> Callable[..., Any]:
    """The entry for a function of arrays of one dtype, and of what else it is given."""
    from rushlight._codegen import native

    if not abi.available() or in_python.now.makes:
        return unbound
    planner = Planner(plan, body)
    native.keep_alive(planner)
    return planner.entry
