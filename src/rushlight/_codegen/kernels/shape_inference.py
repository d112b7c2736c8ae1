"""Argument checks and the shapes of results, for native entries.

See `_codegen/native_entry.py` for what a plan is.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.header import (
    dims_of,
    in_order,
    row_major,
    shape_of,
    size_of,
    strides_of,
    writeable,
)
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import DIMS, NDIM, NONE, NUMBERS, RUN, SHAPE, WORK
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i32, i64


@inline
def reach_of(a, itemsize):
    """The memory of an array that is not empty: (its first address, the one behind its last)."""
    low, high = a[abi.DATA], a[abi.DATA] + itemsize
    for k in range(dims_of(a)):
        far = (shape_of(a)[k] - 1) * strides_of(a)[k]
        if far < 0:
            low = low + far
        else:
            high = high + far
    return low, high


@inline
def disjoint(a, a_size, b, b_size):
    """Whether two arrays, with elements of these sizes, share no memory."""
    p, q = reach_of(a, a_size)
    r, s = reach_of(b, b_size)
    return (q <= r) | (s <= p)


@inline
def note(plan, work, numbers):
    """Write the work and the numbers that the run takes."""
    plan[WORK] = work
    for k in unroll(len(numbers)):
        plan[NUMBERS + k] = numbers[k]


@inline
def like(a, plan):
    """The result has the shape of `a`."""
    plan[NDIM] = dims_of(a)
    for k in range(dims_of(a)):
        plan[SHAPE + k] = shape_of(a)[k]


@inline
def at_axis(a, axis):
    """An array in order as [outer, n, inner], with n along a dimension: (whether it has that one, outer, n, inner)."""
    nd = dims_of(a)
    d = axis + nd if axis < 0 else axis
    outer, n, inner = i64(1), i64(1), i64(1)
    fits = in_order(a) & (d >= 0) & (d < nd) & (nd <= DIMS)
    if fits:
        n = shape_of(a)[d]
        for k in range(nd):
            if k < d:
                outer = outer * shape_of(a)[k]
            if k > d:
                inner = inner * shape_of(a)[k]
    return fits, outer, n, inner


@inline
def by_strides(a, order):
    """Write the dimensions of more than one element to `order`, the largest stride first. Returns their number, or
    -1 where the elements do not fill one block of memory forwards, each place once."""
    shape, strides = shape_of(a), strides_of(a)
    count = i64(0)
    for k in range(dims_of(a)):
        if shape[k] != 1:
            at = count + 0
            while at > 0:
                if strides[order[at - 1]] >= strides[k]:
                    break
                order[at] = order[at - 1]
                at -= 1
            order[at] = k
            count += 1
    if not in_order(a):
        size = bits(a[abi.DTYPE], Ptr[i64])[abi.DTYPE_SIZE]
        for j in range(count):
            k = order[count - 1 - j]
            if strides[k] != size:
                count = i64(-1)
                break
            size = size * shape[k]
    return count


@inline
def in_memory(a, axis):
    """An array as its memory lies, [outer, n, inner], with n along a dimension (NONE: n is all): (whether its memory
    is of this form, with the other dimensions in their order, outer, n, inner)."""
    nd = dims_of(a)
    shape, order = shape_of(a), array(i64, DIMS)
    d = axis + nd if axis < 0 else axis
    outer, n, inner, last, passed = i64(1), i64(1), i64(1), i64(-1), b1(False)
    whole = axis == NONE
    fits = (nd <= DIMS) & (whole | ((d >= 0) & (d < nd)))
    if fits:
        count = by_strides(a, order)
        fits = count >= 0
        for j in range(count):
            k = order[j]
            if whole | (k == d):
                n = n * shape[k]
                passed = b1(True)
            else:
                fits = fits & (k > last)
                last = k + 0
                if passed:
                    inner = inner * shape[k]
                else:
                    outer = outer * shape[k]
    return fits, outer, n, inner


@inline
def without(a, axis, keep, plan):
    """Write the shape without one dimension (NONE: without all), or with size 1 for it where `keep` is 1. Returns
    the number of dimensions."""
    nd = dims_of(a)
    d = axis + nd if axis < 0 else axis
    kept = i64(0)
    for k in range(nd):
        gone = (axis == NONE) | (k == d)
        if (not gone) | (keep == 1):
            plan[SHAPE + kept] = i64(1) if gone else shape_of(a)[k]
            kept += 1
    return kept


# Runs of a reduction: of whole rows, of columns, and of one row cut into parts.
ROWS, COLUMNS, PARTS = 1, 2, 3
TILE = 64  # columns that are reduced together
SHORT = 131072  # elements that need not be cut for a second thread


@inline
def reduced(LONGEST, DEEPEST, MOST, FEW, a, axis, keep, plan):
    """A reduction of [outer, n, inner] over n, one dimension or all, which reads memory in its order.

    Rows (inner = 1) are at most LONGEST long, or it is one row of at most MOST parts of that length;
    columns are at most DEEPEST long, and of more than SHORT elements there are FEW tiles at least: fewer
    would not keep two threads busy. The numbers are outer, n, and the length of a part; of columns
    outer, n, inner, and the length of a part.
    """
    fits, outer, n, inner = in_memory(a, axis)
    plan[RUN] = 0
    if fits & ((keep == 0) | (keep == 1)):
        plan[NDIM] = without(a, axis, keep, plan)
        work = outer * n * inner
        note(plan, work, [outer, n, inner, n])
        if work > 0:
            if inner == 1:
                plan[NUMBERS + 2] = n
                if n <= LONGEST:
                    plan[RUN] = ROWS
                elif (outer == 1) & (n <= LONGEST * MOST):
                    plan[RUN] = PARTS
            elif n <= DEEPEST:
                tiles = outer * ((inner + (TILE - 1)) // TILE)
                if (work <= SHORT) | (tiles >= FEW):
                    plan[RUN] = COLUMNS


@kernel
def reduction(LONGEST, DEEPEST, MOST, a: Header, axis: i64, keep: i64, plan: Ptr[i64]):
    """The kernel `reduced`: a reduction over one dimension or all."""
    reduced(LONGEST, DEEPEST, MOST, 0, a, axis, keep, plan)


@kernel
def infer_first_indices(
    LONGEST, DEEPEST, MOST, FEW, a: Header, axis: i64, keep: i64, plan: Ptr[i64]
):
    """As `reduced`, for places of elements. A place among all elements counts them in order, so they must lie so."""
    reduced(LONGEST, DEEPEST, MOST, FEW, a, axis, keep, plan)
    if (axis == NONE) & (not in_order(a)):
        plan[RUN] = 0


@kernel
def rows_only(a: Header, axis: i64, keep: i64, plan: Ptr[i64]):
    """As `reduced`, for kernels that take whole rows only, of any length."""
    reduced(1 << 40, 1, 1, 1, a, axis, keep, plan)
    if plan[RUN] != ROWS:
        plan[RUN] = 0


@kernel
def variance(LONGEST, DEEPEST, a: Header, axis: i64, keep: i64, correction: i64, plan: Ptr[i64]):
    """As `reduced`, for kernels that take whole rows or columns; one more number, `correction`, comes last."""
    reduced(LONGEST, DEEPEST, 1, 1, a, axis, keep, plan)
    if correction < 0:
        plan[RUN] = 0
    if plan[RUN] == ROWS:
        plan[NUMBERS + 2] = correction
    plan[NUMBERS + 3] = correction


@inline
def along_axis(a, axis, plan):
    """A result of the shape of `a`, made by walks along an axis; the numbers are outer, n, inner."""
    fits, outer, n, inner = at_axis(a, axis)
    plan[RUN] = 0
    if fits:
        like(a, plan)
        note(plan, outer * n * inner, [outer, n, inner])
        plan[RUN] = i64(plan[WORK] > 0)


@kernel
def scanned(a: Header, axis: i64, plan: Ptr[i64]):
    """The kernel `along_axis`: running sums and their like."""
    along_axis(a, axis, plan)


@kernel
def softmaxed(FEW, SHORT, a: Header, axis: i64, plan: Ptr[i64]):
    """As `along_axis`. Run 1 is for columns, 2 for long rows, 3 for rows of up to SHORT elements; 4 and those after
    it for rows of exactly 1, 2... FEW elements."""
    along_axis(a, axis, plan)
    if plan[RUN] == 1:
        n = plan[NUMBERS + 1]
        if plan[NUMBERS + 2] == 1:
            plan[RUN] = 2 if n > SHORT else 3 if n > FEW else 3 + n


@kernel
def in_order_along(MOST, a: Header, axis: i64, descending: i64, plan: Ptr[i64]):
    """As `along_axis`, for sorting at most MOST elements; one more number is -1 for descending order, else 0."""
    along_axis(a, axis, plan)
    plan[NUMBERS + 3] = 0 - descending
    if not row_major(a):  # results are to have these strides
        plan[RUN] = 0
    if (plan[NUMBERS + 1] > MOST) | ((descending != 0) & (descending != 1)):
        plan[RUN] = 0


@inline
def one_along(MOST, a, axis, keep, which, plan):
    """A result of one of the elements along an axis, at most MOST; the numbers are outer, n, inner, `which`."""
    fits, outer, n, inner = in_memory(a, axis)
    plan[RUN] = 0
    if fits & ((keep == 0) | (keep == 1)):
        plan[NDIM] = without(a, axis, keep, plan)
        note(plan, outer * n * inner, [outer, n, inner, which])
        plan[RUN] = i64((plan[WORK] > 0) & (n <= MOST) & (which < n))


@kernel
def chosen(MOST, a: Header, axis: i64, keep: i64, which: i64, plan: Ptr[i64]):
    """The kernel `one_along`: the element that is number `which` in order."""
    one_along(MOST, a, axis, keep, which, plan)


@kernel
def chosen_kind(MOST, KIND, a: Header, axis: i64, keep: i64, plan: Ptr[i64]):
    """As `one_along`, where KIND says all: which rule chooses the element."""
    one_along(MOST, a, axis, keep, i64(KIND), plan)


@kernel
def chosen_median(MOST, KIND, a: Header, axis: i64, keep: i64, skip_nan: i64, plan: Ptr[i64]):
    """As `one_along`, by the rule KIND, or KIND - 1 where NaN is left out."""
    one_along(MOST, a, axis, keep, KIND - skip_nan, plan)


@kernel
def largest_few(MOST, a: Header, k: i64, axis: i64, most: i64, ordered: i64, plan: Ptr[i64]):
    """The k largest elements of each row, at most MOST; the numbers are rows, n, k, -1 for the smallest, else 0,
    and whether they are sorted."""
    fits, outer, n, inner = at_axis(a, axis)
    plan[RUN] = 0
    fits = fits & (inner == 1) & (k > 0) & (k <= n) & (k <= MOST) & ((most == 0) | (most == 1))
    if fits & (outer * n > 0):
        like(a, plan)
        plan[SHAPE + (axis + dims_of(a) if axis < 0 else axis)] = k
        note(plan, outer * n, [outer, n, k, most - 1, ordered])
        plan[RUN] = 1


@kernel
def rolled(a: Header, shift: i64, axis: i64, plan: Ptr[i64]):
    """A result of the shape of `a`, rolled by `shift` along an axis; the numbers are rows, elements of a row, and
    how many of them come to its front. Few long rows are left to the kernel whose threads share a row."""
    fits, outer, n, inner = at_axis(a, axis)
    work = outer * n * inner
    plan[RUN] = 0
    if fits & (work > 0) & ((work <= 16384) | (outer >= 64)):
        front = shift % n
        front = front + n if front < 0 else front
        like(a, plan)
        note(plan, work, [outer, n * inner, front * inner])
        plan[RUN] = 1


@kernel
def triangular(a: Header, diagonal: i64, plan: Ptr[i64]):
    """Triangles of matrices; the numbers are how many, their rows, their columns, the diagonal."""
    nd = dims_of(a)
    plan[RUN] = 0
    if in_order(a) & (nd >= 2) & (nd <= DIMS):
        like(a, plan)
        count, m, n = i64(1), shape_of(a)[nd - 2], shape_of(a)[nd - 1]
        for k in range(nd - 2):
            count = count * shape_of(a)[k]
        note(plan, count * m * n, [count, m, n, min(max(diagonal, 0 - m), n)])
        plan[RUN] = i64(plan[WORK] > 0)


@kernel
def copied(SIZE, out: Header, a: Header, plan: Ptr[i64]):
    """`a` copied into `out`, to whose shape it broadcasts; both have elements of SIZE bytes. The first run
    is for arrays in order, the second for any."""
    nd, na = dims_of(out), dims_of(a)
    shape, own = shape_of(out), shape_of(a)
    fits = writeable(out) & (na <= nd) & (nd <= 64)
    if fits:
        for k in range(na):
            n = own[na - 1 - k]
            fits = fits & ((n == shape[nd - 1 - k]) | (n == 1))
    plan[RUN] = 0
    if fits:
        n = size_of(out)
        if n > 0:
            if disjoint(out, SIZE, a, SIZE):
                alike = in_order(out) & in_order(a) & (size_of(a) == n)
                plan[RUN] = i64(1) if alike else i64(2)
                note(plan, n, [n])


@kernel
def in_rows(MOST, a: Header, plan: Ptr[i64]):
    """A row-major copy of at most MOST elements: by the first run of an array in order, by the second of any."""
    n = size_of(a)
    plan[RUN] = 0
    if (n > 0) & (n <= MOST) & (dims_of(a) <= DIMS):
        like(a, plan)
        note(plan, n, [n])
        plan[RUN] = i64(1) if in_order(a) else i64(2)


@kernel
def searched(seq: Header, a: Header, plan: Ptr[i64]):
    """The places of the elements of `a` in one sorted row, or in that of their own row: rows, elements of a sorted
    row, elements that are looked up in each, and from one sorted row to the next."""
    nd, ns = dims_of(a), dims_of(seq)
    plan[RUN] = 0
    fits = in_order(a) & in_order(seq) & (nd <= DIMS) & (ns > 0) & ((ns == 1) | (ns == nd))
    if fits:
        rows, m, n = i64(1), size_of(a), shape_of(seq)[ns - 1]
        if ns > 1:
            m = shape_of(a)[nd - 1]
            for j in range(nd - 1):
                fits = fits & (shape_of(a)[j] == shape_of(seq)[j])
                rows = rows * shape_of(a)[j]
        like(a, plan)
        note(plan, rows * m, [rows, n, m, n if ns > 1 else i64(0)])
        plan[RUN] = i64(fits & (rows * m * n > 0))


@kernel
def among_few(MOST, a: Header, tests: Header, plan: Ptr[i64]):
    """A result of the shape of `a`, for each of whose elements at most MOST others are looked at: how many."""
    n, k = size_of(a), size_of(tests)
    like(a, plan)
    note(plan, n * k, [n, k])
    fits = in_order(a) & in_order(tests) & (dims_of(a) <= DIMS)
    plan[RUN] = i64(fits & (n > 0) & (k <= MOST))


COUNT = abi.LIST_SIZE  # of a list of Python


@inline
def item_of(items, k):
    """The k-th item of a list, to be read as a Header."""
    return bits(bits(items[abi.LIST_ITEMS], Ptr[i64])[k], Ptr[i64])


@inline
def listed(items, plan, k):
    """Whether the k-th item of a list is an array of the dtype that the plan tells."""
    a = item_of(items, k)
    fits = a[abi.TYPE] == plan[NUMBERS]
    if fits:
        aligned = (bits(a + abi.FLAGS, Ptr[i32])[0] & abi.ALIGNED) != 0
        fits = (a[abi.DTYPE] == plan[NUMBERS + 1]) & aligned
    return fits


@kernel
def joined(STACK, items: Header, axis: i64, plan: Ptr[i64]):
    """Arrays side by side along an axis (STACK: a new one). The first run is for arrays in order: rows of the result,
    elements of a row. The second for any: the axis, the length along it."""
    count = items[COUNT]
    plan[RUN] = 0
    fits = count > 0
    if fits:
        fits = listed(items, plan, 0)
    if fits:
        first = item_of(items, 0)
        nd = dims_of(first)
        shape = shape_of(first)
        more = nd + 1 if STACK else nd
        d = axis + more if axis < 0 else axis
        fits = (d >= 0) & (d < more) & (more <= DIMS) & (nd > 0)
        length = i64(0)
        k = i64(0)
        lie = b1(True)
        while fits & (k < count):
            fits = listed(items, plan, k)
            if fits:
                a = item_of(items, k)
                own = shape_of(a)
                lie = lie & in_order(a)
                fits = dims_of(a) == nd
                if fits:
                    for j in range(nd):
                        if STACK:
                            fits = fits & (own[j] == shape[j])
                        else:
                            fits = fits & ((own[j] == shape[j]) | (j == d))
                    if STACK:
                        length = length + 1
                    else:
                        length = length + own[d]
            k = k + 1
        if fits:
            rows, row = i64(1), length + 0
            for j in range(more):
                size = length + 0
                if j != d:
                    size = shape[j - 1] if STACK & (j > d) else shape[j]
                    if j < d:
                        rows = rows * size
                    else:
                        row = row * size
                plan[SHAPE + j] = size
            plan[NDIM] = more
            # Pieces of a few elements are moved faster by who moves the same column of all rows.
            if lie & ((rows == 1) | (row >= 8 * count) | (rows * row < 2048)):
                note(plan, rows * row, [rows, row])
                plan[RUN] = i64(rows * row > 0)
            elif lie | (nd < 4) | (d == nd):  # four may be joined as they lie: channels last
                note(plan, rows * row, [d, length])
                plan[RUN] = i64(2) if rows * row > 0 else i64(0)
