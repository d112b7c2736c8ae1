"""The entry of reads and writes at any index: ints, slices, None, `...`, index tensors and masks together."""

from __future__ import annotations

from rushlight._codegen.kernel import entry
from rushlight._codegen.kernels.header import dims_of, shape_of, size_of, strides_of, writeable
from rushlight._codegen.kernels.places import (
    ARRAYS,
    BYTES,
    COUNT,
    DIMS,
    EACH,
    FIRST,
    GIVEN,
    ITEMS,
    MOST,
    NDIM,
    NUMBERS,
    OBJECT,
    OFFSET,
    OWN,
    PLAN,
    RANK,
    RESULT,
    RESULT_STEPS,
    SHAPE,
    SIZE,
    STEP,
    STRIDES,
    VIEW,
    VIEW_AT,
    VIEW_STEPS,
    WORK,
    find_places,
    join_steps,
    lay_result,
    shape_result,
    walk,
)
from rushlight._codegen.kernels.shape_inference import disjoint
from rushlight._codegen.language import *
from rushlight._codegen.language import call as call_address
from rushlight._codegen.native_entry import (
    ARRAY,
    COMPILE,
    INT,
    LONG,
    NEW,
    NOTHING,
    USED,
    YES,
    new_reference,
)
from rushlight._codegen.python_api import (
    Object,
    Py_DecRef,
    PyEval_RestoreThread,
    PyEval_SaveThread,
    PyLong_FromLongLong,
    PyObject_CallOneArg,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i32, i64, u8, u64
from rushlight._codegen.view_entry import (
    ELLIPSIS,
    SLICE,
    basic_items,
    items_of,
    number,
    slice_of,
    step_of_new,
    word,
)

# What the entry is bound to, behind what those of views are: the class of tensors, where they have their array, dtypes; then the
# moves (0 before they are compiled): reads and writes of 1, 2, 4 and 8 bytes, sums of each of ADDED dtypes, these dtypes.
TENSOR, ARRAY_AT, LONGS, INTS, TRUTHS = range(ELLIPSIS + 1, ELLIPSIS + 6)
MOVES = TRUTHS + 1
UNITS, ADDED = 4, 4
READS, WRITES, SUMS = 0, UNITS, 2 * UNITS
DTYPES = MOVES + SUMS + ADDED

FEW = 512  # numbers that need no memory of their own
LARGE = 65536  # elements from which an index of tensors is left to the ways that threads share


# -- what an index says ----------------------------------------------------------------------------


@inline
def indices_in(o, table):
    """The array of indices, aligned int64, int32 or bool, that an item is or a tensor holds; 0 for anything else."""
    found = i64(0)
    kind = word(o, abi.TYPE)
    if kind == table[TENSOR]:
        found = word(o, table[ARRAY_AT])
        if found != 0:
            if word(found, abi.TYPE) != table[ARRAY]:
                found = i64(0)
    elif kind == table[ARRAY]:
        found = o + 0
    if found != 0:
        dtype = word(found, abi.DTYPE)
        known = (dtype == table[LONGS]) | (dtype == table[INTS])
        single = dims_of(bits(found, Header)) == 0
        if single:  # an int, if it is a tensor's
            known = known & (kind == table[TENSOR])
        else:
            known = known | (dtype == table[TRUTHS])
        known = known & (dims_of(bits(found, Header)) <= MOST)
        if not (
            known & ((bits(bits(found, Ptr[i64]) + abi.FLAGS, Ptr[i32])[0] & abi.ALIGNED) != 0)
        ):
            found = i64(0)
    return found


@routine
def true_in(b: Header):
    """How many truth values of an array are set."""
    k, total, last = i64(0), size_of(b), dims_of(b) - 1
    x = bits(b[abi.DATA], Ptr[u8])
    if (bits(b + abi.FLAGS, Ptr[i32])[0] & abi.C_CONTIGUOUS) != 0:
        words = bits(b[abi.DATA], Ptr[u64])
        whole = total // 8
        for i in range(whole):  # the bytes of a word are added up in its highest one
            k = k + i64((words[i] * u64(0x0101010101010101)) >> u64(56))
        for i in range(8 * whole, total):
            k = k + i64(x[i])
    elif total > 0:
        n, step = shape_of(b)[last], strides_of(b)[last]
        for r in range(total // n):
            far = walk(b, r)
            for i in range(n):
                k = k + i64(x[far + i * step])
    return k


@inline
def look_over(items, n, nd, table, plan):
    """(whether the entry knows all items of an index, how many dimensions of an array they stand for)."""
    taken, dots, news, others = basic_items(items, n, table)
    arrays = i64(0)
    plan[GIVEN] = 0
    for k in range(n):
        held = indices_in(items[k], table)
        if held != 0:
            arrays = arrays + 1
            if word(items[k], abi.TYPE) == table[TENSOR]:
                plan[GIVEN] = 1
            masks = word(held, abi.DTYPE) == table[TRUTHS]
            taken = taken + (dims_of(bits(held, Header)) if masks else i64(1))
    known = (n <= DIMS) & (arrays == others) & (arrays > 0) & (arrays <= MOST)
    return known & (taken <= nd) & (dots <= 1) & (nd + news <= DIMS), taken


@inline
def seen(plan, r, size, step, at):
    """Write a dimension of the view."""
    plan[VIEW + r] = size
    plan[VIEW_STEPS + r] = step
    plan[VIEW_AT + r] = at


@inline
def int_at(o, size, table):
    """(whether an int, or a tensor of one without dimensions, is in range, how many steps it is)."""
    if word(o, abi.TYPE) == table[INT]:
        fits, at = number(o, table)
    else:
        b = bits(word(o, table[ARRAY_AT]), Header)
        fits, at = b1(1), i64(0)
        if b[abi.DTYPE] == table[LONGS]:
            at = bits(b[abi.DATA], Ptr[i64])[0]
        else:
            at = i64(bits(b[abi.DATA], Ptr[i32])[0])
    at = at + size if at < 0 else at
    return fits & (at >= 0) & (at < size), at


@inline
def array_item(b, a, p, e):
    """Write an array of indices for the dimensions of an array from the p-th on: (whether it is made for them, how many they
    are)."""
    own, covered, fits = dims_of(b), i64(1), b1(1)
    e[OBJECT] = bits(b, i64)
    e[NUMBERS] = b[abi.DATA]
    e[BYTES] = word(b[abi.DTYPE], abi.ITEMSIZE)
    e[STEP] = strides_of(a)[p]
    e[SIZE] = shape_of(a)[p]
    e[OWN] = own
    if e[BYTES] == 1:
        covered = own + 0
        for j in range(own):
            fits = fits & (shape_of(b)[j] == shape_of(a)[p + j])
        e[OWN] = 1
        e[SHAPE] = true_in(b)
        e[STRIDES] = 8
    else:
        for j in range(own):
            e[SHAPE + j] = shape_of(b)[j]
            e[STRIDES + j] = strides_of(b)[j]
    return fits, covered


@routine
def read_index(a: Header, items: Ptr[i64], n: i64, table: Ptr[i64], plan: Ptr[i64]):
    """Write what an index says of an array; whether the entry knows all that is in it."""
    nd, p, r, arrays, offset = dims_of(a), i64(0), i64(0), i64(0), i64(0)
    fits, taken = look_over(items, n, nd, table, plan)
    shape, strides = shape_of(a), strides_of(a)
    if fits:
        for k in range(n):
            o = items[k]
            kind, left = word(o, abi.TYPE), i64(0)
            if o == table[NOTHING]:
                seen(plan, r, i64(1), step_of_new(a, p), i64(-1))
                r = r + 1
            elif o == table[ELLIPSIS]:
                left = nd - taken
            elif kind == table[SLICE]:
                fine, start, length, by = slice_of(o, shape[p], table)
                fits = fits & fine
                seen(plan, r, length, strides[p] * by, i64(-1))
                offset = offset + start * strides[p]
                p = p + 1
                r = r + 1
            else:
                single = kind == table[INT]
                if kind == table[TENSOR]:
                    single = dims_of(bits(word(o, table[ARRAY_AT]), Header)) == 0
                if single:
                    within, at = int_at(o, shape[p], table)
                    fits = fits & within
                    offset = offset + at * strides[p]
                    p = p + 1
                else:
                    b = bits(indices_in(o, table), Header)
                    alike, left = array_item(b, a, p, plan + (ITEMS + arrays * EACH))
                    fits = fits & alike
                    arrays = arrays + 1
            for _ in range(left):
                seen(plan, r, shape[p], strides[p], i64(-1) if o == table[ELLIPSIS] else arrays - 1)
                p = p + 1
                r = r + 1
        for k in range(p, nd):
            seen(plan, r, shape[k], strides[k], i64(-1))
            r = r + 1
    plan[NDIM] = r
    plan[OFFSET] = offset
    plan[ARRAYS] = arrays
    return fits & (arrays > 0)


# -- what may be written ---------------------------------------------------------------------------


@inline
def lies_under(values, plan):
    """Write the strides of values that are to be written, 0 where they are repeated; whether they broadcast."""
    nd, own = plan[RANK], dims_of(values)
    fits = own <= nd
    for d in range(nd):
        plan[RESULT_STEPS + d] = 0
    if fits:
        for k in range(own):
            d, size = nd - own + k, shape_of(values)[k]
            if size == plan[RESULT + d]:
                plan[RESULT_STEPS + d] = strides_of(values)[k]
            else:
                fits = fits & (size == 1)
    return fits


@inline
def repeats_nothing(a):
    """Whether no two elements of an array are seen to lie at one place."""
    fits, order, count = b1(1), array(i64, DIMS), i64(0)
    for k in range(dims_of(a)):
        if shape_of(a)[k] > 1:
            at = count + 0
            while at > 0:
                if strides_of(a)[order[at - 1]] <= strides_of(a)[k]:
                    break
                order[at] = order[at - 1]
                at = at - 1
            order[at] = k
            count = count + 1
    far = i64(0)
    for j in range(count):
        k = order[j]
        fits = fits & (strides_of(a)[k] > far)
        far = far + (shape_of(a)[k] - 1) * strides_of(a)[k]
    return fits


# -- the entry -------------------------------------------------------------------------------------


@inline
def plain(o, table):
    """Whether an object is an aligned array."""
    fits = word(o, abi.TYPE) == table[ARRAY]
    if fits:
        fits = (bits(bits(o, Ptr[i64]) + abi.FLAGS, Ptr[i32])[0] & abi.ALIGNED) != 0
    return fits


@inline
def move_of(a, count, adds, table):
    """Where the table has the address of the move; -1 for none."""
    at, size = i64(-1), word(a[abi.DTYPE], abi.ITEMSIZE)
    if adds:
        for k in range(ADDED):
            if table[DTYPES + k] == a[abi.DTYPE]:
                at = MOVES + SUMS + k
    else:
        for k in unroll(UNITS):
            if size == 1 << k:
                at = i64(MOVES + k)
        if (at >= 0) & (count > 2):
            at = at + WRITES
    return at


@inline
def may_write(a, values, plan, table):
    """Whether values can be written to an array: they are of its dtype and in other memory, as the indices are."""
    fits = plain(values, table) & writeable(a)
    if fits:
        v, item = bits(values, Header), word(a[abi.DTYPE], abi.ITEMSIZE)
        fits = (v[abi.DTYPE] == a[abi.DTYPE]) & (size_of(v) > 0)
        if fits:
            fits = lies_under(v, plan) & repeats_nothing(a) & disjoint(a, item, v, item)
            for k in range(plan[ARRAYS]):
                b = bits(plan[ITEMS + k * EACH + OBJECT], Header)
                if size_of(b) > 0:
                    fits = fits & disjoint(a, item, b, plan[ITEMS + k * EACH + BYTES])
    return fits


@inline
def move_is_there(at, table):
    """Whether the move is compiled, which it is at its first use; else there is an error."""
    there = b1(1)
    if table[at] == 0:
        which = PyLong_FromLongLong(at - MOVES)
        compiled = PyObject_CallOneArg(table[COMPILE], which)
        Py_DecRef(which)
        there = compiled != 0
        if there:
            Py_DecRef(compiled)
    return there


@inline
def new_numbers(n, table):
    """An array of n numbers; 0 after an error."""
    length, zero = array(i64, 1), i64(0)
    length[0] = n
    dtype = new_reference(table[LONGS])
    return call_address(
        table[NEW], Object, table[ARRAY], dtype, i32(1), length, zero, zero, i32(0), zero
    )


@inline
def run(a, item, other, places, at, plan, table):
    """Move the elements."""
    join_steps(plan, item)
    thread = i64(0)
    if plan[WORK] >= LONG:
        thread = PyEval_SaveThread()
    call_address(table[at], None, a[abi.DATA] + plan[OFFSET], other, places, plan)
    if thread != 0:
        PyEval_RestoreThread(thread)


@inline
def planned(a, objects, count, plan, table):
    """Whether the entry can carry out a call, whose plan it writes."""
    items, n = items_of(objects + 1, table)
    item = word(a[abi.DTYPE], abi.ITEMSIZE)
    plan[FIRST] = -1
    fits = read_index(a, items, n, table, plan)
    if fits:
        fits = shape_result(plan, item)
    if fits & (plan[WORK] >= LARGE):
        fits = plan[GIVEN] == 0
    if fits:
        if count == 2:
            fits = lay_result(plan, item)
        else:
            fits = may_write(a, objects[2], plan, table)
    return fits


@entry
def at_index(self: Ptr[i64], objects: Ptr[Object], count: i64):
    """`at_index(array, index)`: what stands there, as a new array. `at_index(array, index, values, add)`: values written, or
    added (True), there; True. None, and nothing is done, for what it does not take."""
    table = bits(self[abi.DATA], Ptr[i64])
    nothing, at = table[NOTHING], i64(-1)
    if (table[USED] == 0) | ((count != 2) & (count != 4)):
        return new_reference(nothing)
    a, plan = bits(objects[0], Header), array(i64, PLAN)
    if plain(objects[0], table):
        adds = b1(0)
        if count == 4:
            adds = objects[3] == table[YES]
        at = move_of(a, count, adds, table)
    if at >= 0:
        if not planned(a, objects, count, plan, table):
            at = i64(-1)
    if at < 0:
        return new_reference(nothing)
    if not move_is_there(at, table):
        return Object(0)
    item, own, held, zero = word(a[abi.DTYPE], abi.ITEMSIZE), array(i64, FEW), Object(0), i64(0)
    places, room = own + 0, 2 * plan[COUNT] + 1
    for k in range(plan[ARRAYS]):
        if plan[ITEMS + k * EACH + BYTES] == 1:
            room = room + plan[ITEMS + k * EACH + SHAPE]
    if room > FEW:
        held = new_numbers(room, table)
        if held == 0:
            return held
        places = bits(bits(held, Ptr[i64])[abi.DATA], Ptr[i64])
    made = new_reference(nothing)
    if find_places(plan, places, item):
        Py_DecRef(made)
        if count == 2:
            dtype, nd = new_reference(a[abi.DTYPE]), i32(plan[RANK])
            made = call_address(
                table[NEW], Object, table[ARRAY], dtype, nd, plan + RESULT, plan + RESULT_STEPS, zero, i32(0), zero
            )  # fmt: skip
        else:
            made = new_reference(table[YES])
        if (made != 0) & (plan[WORK] > 0):
            to = made if count == 2 else objects[2]
            run(a, item, bits(to, Ptr[i64])[abi.DATA], places, at, plan, table)
    if held != 0:
        Py_DecRef(held)
    return made
