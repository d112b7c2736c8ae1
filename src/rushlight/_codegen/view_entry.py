"""Native entries of views: builtin functions that make an array on the memory of another one.

    expand = view(expanded)(function)
    expand(array, (3, 4))  # the view, or what `function` gives for what the entry is not made for

What infers the shape is an inline function of the array (Header), the other arguments (objects), their number,
what the entry is bound to, and a plan. It writes the dimensions of the view, its shape, its strides
in bytes, and how many bytes after the array's first element it begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight._codegen.kernel import builtin, entry
from rushlight._codegen.kernels import header, shape_inference
from rushlight._codegen.language import array, bits, inline
from rushlight._codegen.language import call as call_address
from rushlight._codegen.native_entry import (
    ARRAY,
    COMPILE,
    FIXED,
    INT,
    NEW,
    NOTHING,
    USED,
    table_of,
)
from rushlight._codegen.python_api import (
    Object,
    Py_DecRef,
    Py_IncRef,
    PyLong_AsLongLongAndOverflow,
    PyObject_Vectorcall,
)
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i32, i64
from rushlight.core.size import Size

DIMS = 16  # of a view
# A plan: whether the entry can make the view, its dimensions, how far away it begins, shape, strides.
FITS, NDIM, OFFSET, SHAPE = range(4)
STRIDES = SHAPE + DIMS
PLAN = STRIDES + DIMS
EDGE = 1 << 30  # sizes, strides and places from here on are left to the function behind
# What an entry is bound to: what others are, and in the place of COMPILE the function behind the entry; types,
# an object, a function of NumPy's.
TUPLE, SLICE, ELLIPSIS, SIZE, SET_BASE = range(FIXED, FIXED + 5)


@inline
def word(o, k):
    """A word of an object."""
    return bits(o, Ptr[i64])[k]


@inline
def number(o, table):
    """(whether an object is an int of 64 bits, the int)."""
    beyond, value = array(i32, 1), i64(0)
    fits = word(o, abi.TYPE) == table[INT]
    if fits:
        value = PyLong_AsLongLongAndOverflow(o, beyond)
        fits = beyond[0] == 0
    return fits, value


@inline
def numbers(o, table, into):
    """How many ints a tuple holds, which are written to `into`; -1 for what is no tuple of at most DIMS ints."""
    n, kind = i64(-1), word(o, abi.TYPE)
    if (kind == table[TUPLE]) | (kind == table[SIZE]):
        n = word(o, abi.TUPLE_SIZE)
        if n > DIMS:
            n = i64(-1)
        for k in range(n):
            fits, value = number(word(o, abi.TUPLE_ITEMS + k), table)
            into[k] = value
            if not fits:
                n = i64(-1)
    return n


@entry
def viewed(INFER, self: Ptr[i64], objects: Ptr[Object], count: i64, keywords: Object):
    """The view that INFER describes; what it does not is left to the function behind."""
    table = bits(self[abi.DATA], Ptr[i64])
    made = i64(0)
    if (table[USED] != 0) & (keywords == 0) & (count > 1):
        a = bits(objects[0], Header)
        if a[abi.TYPE] == table[ARRAY]:
            plan = array(i64, PLAN)
            plan[FITS] = 0
            plan[OFFSET] = 0
            INFER(a, objects + 1, count - 1, table, plan)
            if plan[FITS] != 0:
                Py_IncRef(a[abi.DTYPE])
                flags = bits(a + abi.FLAGS, Ptr[i32])[0] & i32(abi.WRITEABLE)
                made = call_address(
                    table[NEW], Object, table[ARRAY], a[abi.DTYPE], i32(plan[NDIM]), plan + SHAPE,
                    plan + STRIDES, a[abi.DATA] + plan[OFFSET], flags, i64(0),
                )  # fmt: skip
                if made == 0:
                    return Object(0)
                Py_IncRef(objects[0])
                if call_address(table[SET_BASE], i32, made, objects[0]) < 0:
                    Py_DecRef(made)
                    return Object(0)
    if made != 0:
        return made
    return PyObject_Vectorcall(table[COMPILE], objects, count, keywords)


def view(infer: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Put the entry for the views that an inline function infers before a function."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        from rushlight._codegen import native

        if not (
            native.available()
            and native.has_instructions()
            and abi.available()
            and abi.views_hold()
        ):
            return function
        native.keep_alive(function)
        table = table_of(function, *map(id, (tuple, slice, Ellipsis, Size)), abi.set_base())
        return builtin(function.__name__, viewed.address(INFER=infer), table, keywords=True)

    return decorated


# -- views -----------------------------------------------------------------------------------------


@inline
def strided(a, objects, count, table, plan):
    """`as_strided(a, shape, strides, offset)`, in bytes."""
    n = numbers(objects[0], table, plan + SHAPE)
    if (n >= 0) & (count >= 2) & (count <= 3):
        fits, offset = b1(1), i64(0)
        if count == 3:
            fits, offset = number(objects[2], table)
        if fits & (numbers(objects[1], table, plan + STRIDES) == n):
            plan[NDIM] = n
            plan[OFFSET] = offset
            plan[FITS] = 1


@inline
def relaid(a, objects, count, table, plan):
    """`relaid(a, expected, otherwise)`: a view whose layout is told, of an array whose layout is told, too.

    `expected`: the address of the array's dtype, its dimensions, its shape and strides; the dimensions of the view, how
    many bytes behind the array it begins, its shape and strides.
    """
    expected = bits(bits(objects[0], Header)[abi.DATA], Ptr[i64])
    if header.matches(a, table[ARRAY], expected, 0):
        at = 2 + 2 * expected[1]
        n = expected[at]
        for k in range(n):
            plan[SHAPE + k] = expected[at + 2 + k]
            plan[STRIDES + k] = expected[at + 2 + n + k]
        plan[NDIM] = n
        plan[OFFSET] = expected[at + 1]
        plan[FITS] = 1


@inline
def within_memory(a, objects, count, table, plan):
    """`within_memory(a, shape, strides, offset)`, in elements, in memory without gaps."""
    at, rooted = bits(a, i64), b1(1)
    while rooted & (bits(at, Ptr[i64])[abi.BASE] != 0):
        at = bits(at, Ptr[i64])[abi.BASE]
        rooted = bits(at, Ptr[i64])[abi.TYPE] == table[ARRAY]
    root = bits(at, Header)
    n = numbers(objects[0], table, plan + SHAPE)
    rooted = rooted & ((bits(root + abi.FLAGS, Ptr[i32])[0] & i32(abi.DENSE)) != 0)
    if rooted & (n >= 0) & (count == 3):
        size = word(a[abi.DTYPE], abi.ITEMSIZE)
        own = a[abi.DATA] - root[abi.DATA]
        fits, offset = b1(1), own // size
        if objects[2] != table[NOTHING]:
            fits, offset = number(objects[2], table)
        fits = fits & (offset >= 0) & (offset < EDGE)
        fits = fits & (numbers(objects[1], table, plan + STRIDES) == n)
        last = offset + 1
        for k in range(n):
            length, step = plan[SHAPE + k], plan[STRIDES + k]
            fits = fits & (length > 0) & (length < EDGE) & (step >= 0) & (step < EDGE)
            if fits:
                last = last + (length - 1) * step
                fits = last < EDGE
            plan[STRIDES + k] = step * size
        if fits & (
            last * size <= shape_inference.size_of(root) * word(root[abi.DTYPE], abi.ITEMSIZE)
        ):
            plan[NDIM] = n
            plan[OFFSET] = offset * size - own
            plan[FITS] = 1


@inline
def diagonal(a, objects, count, table, plan):
    """`diagonal(a, offset, dim1, dim2)`."""
    nd = shape_inference.dims_of(a)
    if (count == 3) & (nd >= 2) & (nd <= DIMS):
        fits, offset = number(objects[0], table)
        first, d1 = number(objects[1], table)
        second, d2 = number(objects[2], table)
        d1 = d1 + nd if d1 < 0 else d1
        d2 = d2 + nd if d2 < 0 else d2
        fits = fits & first & second & (d1 >= 0) & (d1 < nd) & (d2 >= 0) & (d2 < nd) & (d1 != d2)
        if fits:
            shape, strides, to = shape_inference.shape_of(a), shape_inference.strides_of(a), i64(0)
            down, right = max(0 - offset, i64(0)), max(offset, i64(0))
            size = min(shape[d1] - down, shape[d2] - right)
            for k in range(nd):
                if (k != d1) & (k != d2):
                    plan[SHAPE + to] = shape[k]
                    plan[STRIDES + to] = strides[k]
                    to = to + 1
            plan[SHAPE + to] = size
            plan[STRIDES + to] = strides[d1] + strides[d2]
            plan[OFFSET] = down * strides[d1] + right * strides[d2]
            plan[NDIM] = nd - 1
            plan[FITS] = i64(size > 0)


@inline
def expanded(a, objects, count, table, plan):
    """`expand(a, size)` to sizes that are not 1 where they are new."""
    n, nd = numbers(objects[0], table, plan + SHAPE), shape_inference.dims_of(a)
    fits = (count == 1) & (n >= nd)
    if fits:
        new = n - nd
        for k in range(n):
            size = plan[SHAPE + k]
            if k < new:
                plan[STRIDES + k] = 0
                fits = fits & (size > 1)
            else:
                own, step = (
                    shape_inference.shape_of(a)[k - new],
                    shape_inference.strides_of(a)[k - new],
                )
                same = (size == own) | (size == -1)
                fits = fits & (same | ((own == 1) & (size >= 0)))
                plan[STRIDES + k] = step if same else i64(0)
                plan[SHAPE + k] = own if same else size
        plan[NDIM] = n
        plan[FITS] = i64(fits)


@inline
def reshaped(a, objects, count, table, plan):
    """`view(a, size)`, as `geometry.view_strides` has it, to sizes of which one may be -1 and none 0."""
    n = numbers(objects[0], table, plan + SHAPE)
    if (count == 1) & (n >= 0):
        total, known, open_ = shape_inference.size_of(a), i64(1), i64(-1)
        fits = total > 0
        for k in range(n):
            size = plan[SHAPE + k]
            if (size == -1) & (open_ < 0):
                open_ = k + 0
            else:
                fits = fits & (size > 0)
                known = known * size
        if fits & (open_ >= 0):
            plan[SHAPE + open_] = total // known
            known = known * (total // known)
        if fits & (known == total):
            left, nd = n - 1, shape_inference.dims_of(a)
            step = word(a[abi.DTYPE], abi.ITEMSIZE)
            if nd == 0:
                for k in range(n):
                    plan[STRIDES + k] = step
                left = i64(-1)
            else:
                step = shape_inference.strides_of(a)[nd - 1]
            chunk, cut = i64(1), i64(1)
            for j in range(nd):
                d = nd - 1 - j
                chunk = chunk * shape_inference.shape_of(a)[d]
                joins, before = b1(0), step + 0
                if d > 0:
                    before = shape_inference.strides_of(a)[d - 1]
                    joins = (shape_inference.shape_of(a)[d - 1] == 1) | (before == chunk * step)
                if not joins:
                    goes_on = left >= 0
                    while goes_on:
                        size = plan[SHAPE + left]
                        goes_on = (cut < chunk) | (size == 1)
                        if goes_on:
                            plan[STRIDES + left] = cut * step
                            cut = cut * size
                            left = left - 1
                            goes_on = left >= 0
                    fits = fits & (cut == chunk)
                    step, chunk, cut = before + 0, i64(1), i64(1)
            if fits & (left < 0):
                plan[NDIM] = n
                plan[FITS] = 1


@inline
def step_of_new(a, k):
    """The stride in bytes of a dimension of one element that is put before the k-th of an array, or behind the last."""
    step = word(a[abi.DTYPE], abi.ITEMSIZE)
    if k < shape_inference.dims_of(a):
        step = shape_inference.shape_of(a)[k] * shape_inference.strides_of(a)[k]
    return step


@inline
def unsqueezed(a, objects, count, table, plan):
    """`unsqueeze(a, dim)`."""
    fits, dim = number(objects[0], table)
    nd = shape_inference.dims_of(a)
    d = dim + nd + 1 if dim < 0 else dim
    if fits & (count == 1) & (d >= 0) & (d <= nd) & (nd < DIMS):
        for k in range(nd):
            to = k + 1 if k >= d else k + 0
            plan[SHAPE + to] = shape_inference.shape_of(a)[k]
            plan[STRIDES + to] = shape_inference.strides_of(a)[k]
        plan[SHAPE + d] = 1
        plan[STRIDES + d] = step_of_new(a, d)
        plan[NDIM] = nd + 1
        plan[FITS] = 1


@inline
def end_of(o, table, n, default):
    """(whether the end of a slice is an int or None, where that is in a dimension of n elements)."""
    fits, at = b1(1), default + 0
    if o != table[NOTHING]:
        fits, at = number(o, table)
        at = at + n if at < 0 else at
        at = min(max(at, i64(0)), n)
    return fits, at


@inline
def slice_of(o, size, table):
    """(whether a slice has ints of 64 bits, where it begins, how many elements it has, its step)."""
    fits, start = end_of(word(o, abi.SLICE_START), table, size, i64(0))
    ends, stop = end_of(word(o, abi.SLICE_STOP), table, size, size)
    steps, step = b1(1), i64(1)
    if word(o, abi.SLICE_STEP) != table[NOTHING]:
        steps, step = number(word(o, abi.SLICE_STEP), table)
    fits = fits & ends & steps & (step > 0) & (step < 1 << 31)
    length = i64(0)
    if fits:
        length = max((stop - start + (step - 1)) // step, i64(0))
    return fits, start, length, step


@inline
def items_of(index, table):
    """(where the items of an index are, how many there are): those of a tuple, or the index itself."""
    items, n = index + 0, i64(1)
    if word(index[0], abi.TYPE) == table[TUPLE]:
        items = bits(index[0], Ptr[i64]) + abi.TUPLE_ITEMS
        n = word(index[0], abi.TUPLE_SIZE)
    return items, n


@inline
def basic_items(items, n, table):
    """How many items of an index are (ints and slices, `...`, None, others)."""
    sizes, dots, news = i64(0), i64(0), i64(0)
    for k in range(n):
        o = items[k]
        kind = word(o, abi.TYPE)
        if (kind == table[INT]) | (kind == table[SLICE]):
            sizes = sizes + 1
        elif o == table[ELLIPSIS]:
            dots = dots + 1
        elif o == table[NOTHING]:
            news = news + 1
    return sizes, dots, news, n - sizes - dots - news


@inline
def indexed(a, objects, count, table, plan):
    """`basic_index(a, index)`."""
    items, n = items_of(objects, table)
    nd = shape_inference.dims_of(a)
    taken, dots, news, others = basic_items(items, n, table)
    fits = (count == 1) & (others == 0)
    if fits & (taken <= nd) & (dots <= 1) & (nd + news <= DIMS):
        shape, strides = shape_inference.shape_of(a), shape_inference.strides_of(a)
        p, r, offset = i64(0), i64(0), i64(0)
        for k in range(n):
            o = items[k]
            kind = word(o, abi.TYPE)
            if o == table[NOTHING]:
                plan[SHAPE + r] = 1
                plan[STRIDES + r] = step_of_new(a, p)
                r = r + 1
            elif o == table[ELLIPSIS]:
                for _ in range(nd - taken):
                    plan[SHAPE + r] = shape[p]
                    plan[STRIDES + r] = strides[p]
                    p = p + 1
                    r = r + 1
            elif kind == table[INT]:
                fine, at = number(o, table)
                at = at + shape[p] if at < 0 else at
                fits = fits & fine & (at >= 0) & (at < shape[p])
                offset = offset + at * strides[p]
                p = p + 1
            else:
                fine, start, length, step = slice_of(o, shape[p], table)
                fits = fits & fine
                plan[SHAPE + r] = length
                plan[STRIDES + r] = strides[p] * step
                offset = offset + start * strides[p]
                p = p + 1
                r = r + 1
        for k in range(p, nd):
            plan[SHAPE + r + (k - p)] = shape[k]
            plan[STRIDES + r + (k - p)] = strides[k]
        plan[NDIM] = r + (nd - p)
        plan[OFFSET] = offset
        plan[FITS] = i64(fits)
