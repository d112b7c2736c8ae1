"""The places that index arrays name in an array of any strides, and what is moved from and to them.

An index says which view of the array is meant (its basic part), and which dimensions of that view index arrays stand for
(`any_index.py` reads it). These come down to one number for each place: how far it is from the first element. What is left is to
move the rest of the dimensions. Negative numbers count from the end; nothing is moved where one is out of range.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.header import dims_of, row_major, shape_of, size_of, strides_of
from rushlight._codegen.kernels.index import pick
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i32, i64, u8, u64

DIMS = 16  # of a view and of a result
MOST = 8  # index arrays, and dimensions of one

# A plan: how many places, how many dimensions of a result stand before those of the indices and behind them, of what sizes and
# steps, in elements; the other side's steps. The rest is read by the entry alone.
COUNT, BEFORE, AFTER = 0, 1, 2
SIZES, STEPS, OTHERS = 16, 16 + DIMS, 16 + 2 * DIMS
OFFSET, ARRAYS, WIDE, FIRST, GIVEN, WORK = range(3, 9)
# The view's sizes, strides, and index arrays (-1: none); the indices' sizes, the result's, its strides, the array's under it.
VIEW, VIEW_STEPS, VIEW_AT = [64 + k * DIMS for k in range(3)]
WIDTHS, RESULT, RESULT_STEPS, UNDER, ORDER = [112 + k * DIMS for k in range(5)]
NDIM, RANK = 9, 10  # of the view, of the result
EVEN, BY = 11, 12  # whether the other side's elements are all as far apart, and how far
# Of each index array: the object (0: numbers in memory), where its numbers are, of how many bytes, its dimensions, a step in the
# array, the size of the dimension, shape, strides in bytes, its strides as an operand of the result.
OBJECT, NUMBERS, BYTES, OWN, STEP, SIZE = range(6)
SHAPE, STRIDES, OPERAND = 8, 16, 24
EACH = 24 + DIMS
ITEMS = 192
PLAN = ITEMS + MOST * EACH


# -- what is moved ---------------------------------------------------------------------------------


@inline
def moved(HOW, p, q, n, s, t):
    """n elements between the array (p, each s further) and the other side (q, each t further)."""
    if HOW == "take":
        if (s == 1) & (t == 1):
            for i in lanes(0, n):
                q[i] = p[i]
        else:
            for i in range(n):
                q[i * t] = p[i * s]
    elif HOW == "put":
        if (s == 1) & (t == 1):
            for i in lanes(0, n):
                p[i] = q[i]
        elif (s == 1) & (t == 0):
            v = q[0]
            for i in lanes(0, n):
                p[i] = v
        else:
            for i in range(n):
                p[i * s] = q[i * t]
    elif (s == 1) & (t == 1):
        for i in lanes(0, n):
            p[i] = p[i] + q[i]
    else:
        for i in range(n):
            p[i * s] = p[i * s] + q[i * t]


@inline
def distance(plan, first, count, which):
    """How far the element number `which` of some dimensions is, on both sides."""
    left, far, other = which + 0, i64(0), i64(0)
    for j in range(count):
        k = first + count - 1 - j
        at = left % plan[SIZES + k]
        left = left // plan[SIZES + k]
        far = far + at * plan[STEPS + k]
        other = other + at * plan[OTHERS + k]
    return far, other


@kernel
def move_at(HOW, a: Ptr[T], other: Ptr[T], places: Ptr[i64], plan: Ptr[i64]):
    """Elements from or to the places, HOW: "take", "put" or "add". What is written at one place is written in the order of
    the indices; only reads are shared by threads."""
    count, before, after = plan[COUNT], plan[BEFORE], plan[AFTER]
    even, by = plan[EVEN] != 0, plan[BY] + 0
    rows, blocks, n, s, t = i64(1), i64(1), i64(1), i64(0), i64(0)
    for k in range(before):
        rows = rows * plan[SIZES + k]
    if after > 0:
        last = before + after - 1
        n, s, t = plan[SIZES + last], plan[STEPS + last], plan[OTHERS + last]
        for k in range(before, last):
            blocks = blocks * plan[SIZES + k]
    all_rows = rows * count
    grain = rows_of(blocks * n) if HOW == "take" else max(all_rows, i64(1))
    for lo, hi in parallel(all_rows, grain):
        r = lo + 0
        while r < hi:
            j = r % count
            m = min(count - j, hi - r)
            far, away = distance(plan, i64(0), before, r // count)
            p, q = a + far, other + away
            if (after == 0) & even & (by == 1) & (HOW == "take"):
                pick(q + j, p, places + j, m)
            elif (after == 0) & even:
                for i in range(j, j + m):
                    moved_one(HOW, p + places[i], q + i * by)
            elif after == 0:
                for i in range(j, j + m):
                    moved_one(HOW, p + places[i], q + places[count + i])
            else:
                for i in range(j, j + m):
                    here = i * by if even else places[count + i] + 0
                    for b in range(blocks):
                        down, right = distance(plan, before, after - 1, b)
                        moved(HOW, p + (places[i] + down), q + (here + right), n, s, t)
            r = r + m


@inline
def moved_one(HOW, p, q):
    if HOW == "take":
        q[0] = p[0]
    elif HOW == "put":
        p[0] = q[0]
    else:
        p[0] = p[0] + q[0]


# -- the result ------------------------------------------------------------------------------------


@routine
def shape_result(plan: Ptr[i64], item: i64):
    """Write the sizes of the indices together and of the result, and the array's steps under it; whether indices broadcast, and
    steps are whole elements."""
    wide, fits = i64(0), b1(1)
    for k in range(plan[ARRAYS]):
        wide = max(wide, plan[ITEMS + k * EACH + OWN])
    for j in range(wide):
        plan[WIDTHS + j] = 1
    for k in range(plan[ARRAYS]):
        e = plan + (ITEMS + k * EACH)
        for j in range(e[OWN]):
            at, size = wide - e[OWN] + j, e[SHAPE + j]
            if plan[WIDTHS + at] == 1:
                plan[WIDTHS + at] = size
            else:
                fits = fits & ((size == 1) | (size == plan[WIDTHS + at]))
    first, last, covered, r, count = i64(-1), i64(0), i64(0), i64(0), i64(1)
    nd = plan[NDIM]
    for d in range(nd):
        if plan[VIEW_AT + d] >= 0:
            first = d + 0 if first < 0 else first
            last = d + 0
            covered = covered + 1
        fits = fits & (plan[VIEW_STEPS + d] % item == 0)
    if last - first + 1 != covered:  # apart: their dimensions come first
        first = i64(0)
    fits = fits & (nd - covered + wide <= DIMS)
    work = i64(1)
    if fits:
        for d in range(nd + 1):
            if r == first:
                if plan[FIRST] == -1:
                    plan[FIRST] = r
                    for j in range(wide):
                        plan[RESULT + r] = plan[WIDTHS + j]
                        plan[UNDER + r] = 0
                        count = count * plan[WIDTHS + j]
                        r = r + 1
            if d < nd:
                if plan[VIEW_AT + d] < 0:
                    plan[RESULT + r] = plan[VIEW + d]
                    plan[UNDER + r] = plan[VIEW_STEPS + d]
                    r = r + 1
                    work = work * plan[VIEW + d]
                fits = fits & (plan[VIEW + d] > 0)
    plan[WIDE] = wide
    plan[RANK] = r
    plan[COUNT] = count
    plan[WORK] = work * count
    return fits


# -- how a result lies: `index_layout` of the reference ----------------------------------------------


@routine
def lay_result(plan: Ptr[i64], item: i64):
    """Write the strides of a result; whether they are known."""
    nd, first, wide = plan[RANK], plan[FIRST], plan[WIDE]
    ones, more = b1(0), b1(0)
    for d in range(nd):
        ones = ones | (plan[RESULT + d] == 1)
        more = more | (plan[RESULT + d] > 1)
        plan[ORDER + d] = nd - 1 - d
    fits = (nd < 2) | (more & (plan[WORK] > 0))
    for k in range(plan[ARRAYS]):
        e = plan + (ITEMS + k * EACH)
        own, step, last = e[OWN] + 0, i64(1), i64(1)
        ordered = (e[BYTES] == 1) | (own == 0)
        if not ordered:
            ordered = row_major(bits(e[OBJECT], Header))
        if ordered:
            for j in range(own):
                e[OPERAND + first + wide - 1 - j] = step
                step = step * e[SHAPE + own - 1 - j]
        else:
            last = e[STRIDES + own - 1] // e[BYTES]
            step = e[SHAPE] * last
            fits = fits & ((own == 1) | (not ones))
            for j in range(own):
                e[OPERAND + first + wide - own + j] = e[STRIDES + j] // e[BYTES]
        for d in range(nd):
            at = d - (first + wide - own)
            size = i64(1)
            if (at >= 0) & (at < own):
                size = e[SHAPE + at] + 0
            elif at < 0:
                e[OPERAND + d] = step
            else:
                e[OPERAND + d] = last
            if size != plan[RESULT + d]:
                e[OPERAND + d] = 0
    for i in range(1, nd):
        moving = i + 0
        for back in range(i):
            j = i - 1 - back
            inner, outer = plan[ORDER + j], plan[ORDER + moving]
            larger, smaller = b1(0), b1(0)
            for k in range(plan[ARRAYS] + 1):
                steps = plan + UNDER
                if k > 0:
                    steps = plan + (ITEMS + (k - 1) * EACH + OPERAND)
                s, t = steps[inner], steps[outer]
                if (s != 0) & (t != 0):
                    larger = (s > t) | ((s == t) & (plan[RESULT + inner] > plan[RESULT + outer]))
                    smaller = s < t
                if larger | smaller:
                    break
            if larger:
                plan[ORDER + j] = outer
                plan[ORDER + moving] = inner
                moving = j + 0
            if smaller:
                break
    step = item + 0
    for k in range(nd):
        d = plan[ORDER + k]
        plan[RESULT_STEPS + d] = step
        step = step * plan[RESULT + d]
    return fits


# -- where the places are -----------------------------------------------------------------------------


@inline
def walk(b, k):
    """Where row number k of an array of truth values begins, in bytes."""
    left, far = k + 0, i64(0)
    for j in range(1, dims_of(b)):
        d = dims_of(b) - 1 - j
        far = far + left % shape_of(b)[d] * strides_of(b)[d]
        left = left // shape_of(b)[d]
    return far


@routine
def list_true(b: Header, view: Ptr[i64], steps: Ptr[i64], item: i64, out: Ptr[i64]):
    """How far the places that are set are from the first element of dimensions of these sizes and steps."""
    total, last, k = size_of(b), dims_of(b) - 1, i64(0)
    x = bits(b[abi.DATA], Ptr[u8])
    if total > 0:
        n, step, each = shape_of(b)[last], strides_of(b)[last], steps[last] // item
        for r in range(total // n):
            far, left, to = walk(b, r), r + 0, i64(0)
            for j in range(last):
                d = last - 1 - j
                to = to + left % view[d] * (steps[d] // item)
                left = left // view[d]
            for i in range(n):
                out[k] = to + i * each  # and the next one over it, unless it is set
                k = k + i64(x[far + i * step])


@routine
def join_steps(plan: Ptr[i64], item: i64):
    """Write the dimensions beside those of the indices, as few as there may be."""
    first, wide, to, start = plan[FIRST], plan[WIDE], i64(0), i64(0)
    plan[BEFORE] = 0
    for d in range(plan[RANK]):
        if d == first:
            plan[BEFORE] = to
            start = to + 0
        if ((d < first) | (d >= first + wide)) & (plan[RESULT + d] != 1):
            size = plan[RESULT + d]
            s, t = plan[UNDER + d] // item, plan[RESULT_STEPS + d] // item
            joins = to > start
            if joins:
                joins = (plan[STEPS + to - 1] == size * s) & (plan[OTHERS + to - 1] == size * t)
            if joins:
                to = to - 1
                size = size * plan[SIZES + to]
            plan[SIZES + to] = size
            plan[STEPS + to] = s
            plan[OTHERS + to] = t
            to = to + 1
    if first == plan[RANK]:
        plan[BEFORE] = to
    plan[AFTER] = to - plan[BEFORE]


@inline
def from_start(x, size):
    """(a number, counted from the start, whether it is out of range)."""
    v = i64(x[0])
    v = v + size if v < 0 else v
    return v, i64(u64(v) >= u64(size))


@inline
def added_up(FIRST_ONES, x, places, n, step, size, to):
    """Steps to each of n numbers, added to the places or (FIRST_ONES) written there; whether one is out of range."""
    v, wrong = from_start(x, size)
    if step == 0:
        for t in range(n):
            places[t] = v * to if FIRST_ONES else places[t] + v * to
    else:
        for t in range(n):
            v, beyond = from_start(x + t * step, size)
            wrong = wrong | beyond
            places[t] = v * to if FIRST_ONES else places[t] + v * to
    return wrong


@inline
def look_whether_even(plan, item):
    """Write whether the other side's elements are all as far apart, and how far."""
    length, even, by, wide = i64(1), b1(1), i64(0), plan[WIDE]
    for j in range(wide):
        d = wide - 1 - j
        step = plan[RESULT_STEPS + plan[FIRST] + d] // item
        if plan[WIDTHS + d] > 1:
            by = step if length == 1 else by
            even = even & (step == by * length)
            length = length * plan[WIDTHS + d]
    plan[EVEN] = i64(even)
    plan[BY] = by


@inline
def list_others(plan, places, item):
    """Write the element of the other side for each place."""
    count, wide = plan[COUNT], plan[WIDE]
    for r in range(count):
        left, far = r + 0, i64(0)
        for j in range(wide):
            d = wide - 1 - j
            far = far + left % plan[WIDTHS + d] * (plan[RESULT_STEPS + plan[FIRST] + d] // item)
            left = left // plan[WIDTHS + d]
        places[count + r] = far


@routine
def find_places(plan: Ptr[i64], places: Ptr[i64], item: i64):
    """Write how far each place is, and the element of the other side for it; whether all are in range. What is behind the places
    has room for what masks choose, and one number more."""
    count, wide, wrong = plan[COUNT], plan[WIDE], i64(0)
    inner, room = i64(1), places + 2 * count
    if wide > 0:
        inner = plan[WIDTHS + wide - 1]
    rows = count // max(inner, i64(1))
    look_whether_even(plan, item)
    if plan[EVEN] == 0:
        list_others(plan, places, item)
    for k in range(plan[ARRAYS]):
        e = plan + (ITEMS + k * EACH)
        size, to, each = e[SIZE] + 0, e[STEP] // item, e[BYTES] + 0
        if each == 1:
            d = i64(0)
            while plan[VIEW_AT + d] != k:
                d = d + 1
            list_true(
                bits(e[OBJECT], Header), plan + (VIEW + d), plan + (VIEW_STEPS + d), item, room
            )
            e[NUMBERS] = bits(room, i64)
            room = room + e[SHAPE]
            size, to, each = i64(1) << 60, i64(1), i64(8)
        own = e[OWN]
        step, missing = i64(0), wide - own
        if own > 0:
            if e[SHAPE + own - 1] != 1:
                step = e[STRIDES + own - 1] // each
        for r in range(rows):
            left, far = r + 0, i64(0)
            for j in range(1, own):
                d = own - 1 - j
                if e[SHAPE + d] != 1:
                    far = far + left % plan[WIDTHS + missing + d] * (e[STRIDES + d] // each)
                left = left // plan[WIDTHS + missing + d]
            p = places + r * inner
            if each == 8:
                x = bits(e[NUMBERS], Ptr[i64]) + far
                if k == 0:
                    wrong = wrong | added_up(True, x, p, inner, step, size, to)
                else:
                    wrong = wrong | added_up(False, x, p, inner, step, size, to)
            else:
                y = bits(e[NUMBERS], Ptr[i32]) + far
                if k == 0:
                    wrong = wrong | added_up(True, y, p, inner, step, size, to)
                else:
                    wrong = wrong | added_up(False, y, p, inner, step, size, to)
    return wrong == 0
