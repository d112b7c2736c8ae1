"""Argument checks of what reads or writes at indices, for native entries: of kernels, and of whole operators, which are
checked as they are given."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.header import (
    dims_of,
    in_order,
    same_shape,
    shape_of,
    size_of,
    writeable,
)
from rushlight._codegen.kernels.index import PLACES
from rushlight._codegen.kernels.shape_inference import disjoint, like, note
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import DIMS, NDIM, NONE, NUMBERS, RUN, SHAPE, WORK
from rushlight._codegen.types import Header, Ptr, b1, bf16, f16, f32, i32, i64

# Runs where elements (inner = 1) or slices are moved.
ELEMENTS, SLICES, PRODUCTS = 1, 2, 3


@kernel
def taken(a: Header, index: Header, axis: i64, plan: Ptr[i64]):
    taken_along(a, index, axis, plan)


@inline
def taken_along(a, index, axis, plan):
    """The slices of `a` along an axis that `index`, of any shape, names: outer, n, k, inner."""
    nd, ni = dims_of(a), dims_of(index)
    shape, index_shape = shape_of(a), shape_of(index)
    d = axis + nd if axis < 0 else axis
    plan[RUN] = 0
    fits = in_order(a) & in_order(index) & (d >= 0) & (d < nd) & (nd + ni <= DIMS + 1)
    if fits:
        outer, k, inner = i64(1), i64(1), i64(1)
        for j in range(d):
            outer = outer * shape[j]
            plan[SHAPE + j] = shape[j]
        for j in range(ni):
            k = k * index_shape[j]
            plan[SHAPE + d + j] = index_shape[j]
        for j in range(d + 1, nd):
            inner = inner * shape[j]
            plan[SHAPE + ni + j - 1] = shape[j]
        work = outer * k * inner
        plan[NDIM] = nd + ni - 1
        note(plan, work, [outer, shape[d], k, inner])
        if work > 0:
            plan[RUN] = i64(ELEMENTS) if inner == 1 else i64(SLICES)


@kernel
def taken_in_pairs(a: Header, first: Header, second: Header, plan: Ptr[i64]):
    """The elements of a matrix that two arrays of one shape name, row and column: rows, columns, count."""
    nd = dims_of(first)
    fits = in_order(a) & in_order(first) & in_order(second) & (dims_of(a) == 2)
    fits = fits & (dims_of(second) == nd) & (nd <= DIMS)
    plan[RUN] = 0
    if fits:
        for j in range(nd):
            fits = fits & (shape_of(first)[j] == shape_of(second)[j])
        like(first, plan)
        k = size_of(first)
        note(plan, k, [shape_of(a)[0], shape_of(a)[1], k])
        if fits & (k > 0):
            plan[RUN] = 1


@inline
def along(a, index, axis):
    """(whether `index` has all sizes of `a` but that along an axis, outer, n, k, inner); a number is a vector of one."""
    nd = dims_of(a)
    d = axis + max(nd, i64(1)) if axis < 0 else axis
    shape, own = shape_of(a), shape_of(index)
    outer, n, k, inner = i64(1), i64(1), i64(1), i64(1)
    fits = in_order(a) & in_order(index) & (dims_of(index) == nd)
    fits = fits & (d >= 0) & (d < max(nd, i64(1)))
    if fits & (nd > 0):
        n, k = shape[d], own[d]
        for j in range(nd):
            if j != d:
                fits = fits & (shape[j] == own[j])
                if j < d:
                    outer = outer * shape[j]
                else:
                    inner = inner * shape[j]
    return fits, outer, n, k, inner


@kernel
def gathered(a: Header, index: Header, axis: i64, plan: Ptr[i64]):
    """An element of `a` for each of `index`, which says where it stands along an axis."""
    fits, outer, n, k, inner = along(a, index, axis)
    plan[RUN] = 0
    if fits & (dims_of(a) <= DIMS):
        like(index, plan)
        note(plan, outer * k * inner, [outer, n, k, inner])
        if outer * n * k * inner > 0:
            plan[RUN] = i64(ELEMENTS) if inner == 1 else i64(SLICES)


@kernel
def scattered(SIZE, z: Header, index: Header, values: Header, axis: i64, plan: Ptr[i64]):
    """`values`, of the shape of `index` or one number, written to `z` where `index` says along an axis.
    One number adds 2 to the run."""
    fits, outer, n, k, inner = along(z, index, axis)
    fits = fits & writeable(z) & in_order(values)
    plan[RUN] = 0
    nd, nv = dims_of(z), dims_of(values)
    if nv > 0:
        fits = fits & (nv == nd)
        if fits:
            for j in range(nd):
                fits = fits & (shape_of(values)[j] == shape_of(index)[j])
    note(plan, outer * k * inner, [outer, n, k, inner])
    if fits & (outer * n * k * inner > 0):
        if disjoint(z, SIZE, values, SIZE) & disjoint(z, SIZE, index, 8):
            run = i64(ELEMENTS) if inner == 1 else i64(SLICES)
            plan[RUN] = run + 2 if nv == 0 else run


@kernel
def slices_put(SIZE, z: Header, index: Header, values: Header, axis: i64, plan: Ptr[i64]):
    """Slices of `values` written to `z` along an axis at the places in `index`: outer, n, k, inner, from
    one slice of `values` to the next, parts. Large ones are left to the way that cuts them. The third
    run is that of one number."""
    nd, ni, nv = dims_of(z), dims_of(index), dims_of(values)
    shape, own, given = shape_of(z), shape_of(index), shape_of(values)
    d = axis + nd if axis < 0 else axis
    fits = in_order(z) & in_order(index) & in_order(values) & writeable(z)
    fits = fits & (d >= 0) & (d < nd) & ((nv == nd + ni - 1) | (nv == 0))
    plan[RUN] = 0
    if fits:
        outer, k, inner = i64(1), i64(1), i64(1)
        for j in range(d):
            outer = outer * shape[j]
            if nv > 0:
                fits = fits & (given[j] == shape[j])
        for j in range(ni):
            k = k * own[j]
            if nv > 0:
                fits = fits & (given[d + j] == own[j])
        for j in range(d + 1, nd):
            inner = inner * shape[j]
            if nv > 0:
                fits = fits & (given[ni + j - 1] == shape[j])
        work = outer * k * inner
        note(plan, work, [outer, shape[d], k, inner, inner, 0])
        if fits & (work > 0) & (shape[d] > 0) & (work < 65536):
            if disjoint(z, SIZE, values, SIZE) & disjoint(z, SIZE, index, 8):
                run = i64(ELEMENTS) if inner == 1 else i64(SLICES)
                plan[RUN] = i64(3) if nv == 0 else run


@kernel
def masked(SIZE, z: Header, mask: Header, value: Header, plan: Ptr[i64]):
    """One number written to `z` where a mask of its shape is set."""
    nd = dims_of(z)
    fits = in_order(z) & in_order(mask) & writeable(z) & (dims_of(mask) == nd)
    fits = fits & (dims_of(value) == 0)
    plan[RUN] = 0
    if fits:
        for j in range(nd):
            fits = fits & (shape_of(z)[j] == shape_of(mask)[j])
        n = size_of(z)
        note(plan, n, [n])
        if fits & (n > 0):
            if disjoint(z, SIZE, mask, 1) & disjoint(z, SIZE, value, SIZE):
                plan[RUN] = 1


# -- whole operators: what PyTorch refuses, they leave to the operator, which says so -----------------

LARGE = 65536  # elements that are left to the ways that cut them for threads
MOST = {f32: 3.4028234663852886e38, bf16: 3.3895313892515355e38, f16: 65504.0}


@inline
def at_slices(z, index, dim):
    """An array in order as [outer, n, inner] with n along a dimension, a number as a vector; the indices are k, a vector
    or a number: (whether that is so, outer, n, k, inner)."""
    nd = dims_of(z)
    d = dim + max(nd, i64(1)) if dim < 0 else dim + 0
    outer, n, k, inner = i64(1), i64(1), i64(0), i64(1)
    fits = in_order(z) & in_order(index) & (dims_of(index) < 2) & (d >= 0) & (d < max(nd, i64(1)))
    if fits:
        k = size_of(index)
        for j in range(nd):
            if j < d:
                outer = outer * shape_of(z)[j]
            elif j == d:
                n = shape_of(z)[j]
            else:
                inner = inner * shape_of(z)[j]
    return fits, outer, n, k, inner


@inline
def has_slices(source, z, dim, k):
    """Whether there is one slice of an array for each of k indices."""
    nd = dims_of(z)
    d = dim + nd if dim < 0 else dim + 0
    fits = in_order(source) & (dims_of(source) == nd)
    if fits:
        for j in range(nd):
            fits = fits & (shape_of(source)[j] == (k if j == d else shape_of(z)[j]))
        if nd == 0:
            fits = fits & (k == 1)
    return fits


@inline
def slices_written(SIZE, z, dim, index, source, first, plan):
    """A slice of `source` for each index, written to `z` by the run `first` (for elements) or the next one."""
    fits, outer, n, k, inner = at_slices(z, index, dim)
    fits = fits & writeable(z) & has_slices(source, z, dim, k)
    work = outer * k * inner
    note(plan, work, [outer, n, k, inner, inner, 0])
    plan[RUN] = 0
    if fits & (work > 0) & (n > 0) & (work < LARGE):
        if disjoint(z, SIZE, source, SIZE) & disjoint(z, SIZE, index, 8):
            plan[RUN] = first + i64(inner > 1)


@kernel
def index_add(T, input: Header, dim: i64, index: Header, source: Header, alpha: V, plan: Ptr[i64]):
    """The third run multiplies by `alpha`. Sums of half types along the first or the last dimension of several are rounded
    once, which is left to the operator, unless they are of products."""
    slices_written(T.size, input, dim, index, source, ELEMENTS, plan)
    plan[NUMBERS + 6] = bits(alpha, i64)
    if alpha != 1:
        plan[RUN] = i64((plan[RUN] != 0) & holds(T, alpha)) * PRODUCTS
    elif T.size == 2:
        nd = dims_of(input)
        if (nd > 1) & ((plan[NUMBERS] == 1) | (plan[NUMBERS + 3] == 1)):
            plan[RUN] = 0


@kernel
def index_copy(SIZE, input: Header, dim: i64, index: Header, source: Header, plan: Ptr[i64]):
    slices_written(SIZE, input, dim, index, source, ELEMENTS, plan)


@inline
def few_apart(DIRECT, reduce, include_self, plan):
    """The first `DIRECT` words have runs that write one value after the other to what stands there. All words have one more,
    behind these, for other calls of few places."""
    if (reduce >= DIRECT) | (include_self != 1):
        few = (plan[RUN] != 0) & (plan[NUMBERS + 1] <= PLACES) & (plan[WORK] < LARGE)
        few = few & (include_self != NONE)
        plan[RUN] = ELEMENTS + 2 * DIRECT + reduce if few else i64(0)
        plan[NUMBERS + 4] = include_self + 0


@kernel
def index_reduce(SIZE, DIRECT, input: Header, dim: i64, index: Header, source: Header, reduce: i64, include_self: i64, plan: Ptr[i64]):  # fmt: skip
    slices_written(SIZE, input, dim, index, source, ELEMENTS + 2 * reduce, plan)
    few_apart(DIRECT, reduce, include_self, plan)


@inline
def holds(T, value):
    """Whether a number may be written to elements of a type."""
    fits = b1(1)
    if T is i64:
        fits = value != NONE
    elif T is i32:
        fits = (value >= -(1 << 31)) & (value < 1 << 31)
    elif T in MOST:
        fits = (abs(value) <= MOST[T]) | (value - value != 0)  # or infinite, or NaN
    return fits


@inline
def number_written(T, places, input, index, value, plan):
    """A number written to `input` at the places that were found: whether it fits, and the sizes of the run."""
    fits, outer, n, k, inner = places
    work = outer * k * inner
    note(plan, work, [outer, n, k, inner, bits(value, i64)])
    plan[RUN] = 0
    fits = fits & writeable(input) & holds(T, value)
    if fits & (work > 0) & (n > 0) & (work < LARGE):
        plan[RUN] = i64(disjoint(input, T.size, index, 8))


@kernel
def index_fill(T, input: Header, dim: i64, index: Header, value: V, plan: Ptr[i64]):
    number_written(T, at_slices(input, index, dim), input, index, value, plan)


@inline
def elements_written(SIZE, z, dim, index, src, first, plan):
    """An element of `src` for each index, written to `z` by the run `first` (for rows of one element) or the next one."""
    fits, outer, n, k, inner = along(z, index, dim)
    fits = fits & writeable(z) & in_order(src) & same_shape(src, index)
    note(plan, outer * k * inner, [outer, n, k, inner])
    plan[RUN] = 0
    if fits & (outer * n * k * inner > 0):
        if disjoint(z, SIZE, src, SIZE) & disjoint(z, SIZE, index, 8):
            plan[RUN] = first + i64(inner > 1)


@kernel
def scatter(SIZE, input: Header, dim: i64, index: Header, src: Header, plan: Ptr[i64]):
    elements_written(SIZE, input, dim, index, src, ELEMENTS, plan)


@kernel
def scatter_reduce(SIZE, DIRECT, input: Header, dim: i64, index: Header, src: Header, reduce: i64, include_self: i64, plan: Ptr[i64]):  # fmt: skip
    elements_written(SIZE, input, dim, index, src, ELEMENTS + 2 * reduce, plan)
    few_apart(DIRECT, reduce, include_self, plan)


@kernel
def scatter_value(T, input: Header, dim: i64, index: Header, value: V, plan: Ptr[i64]):
    number_written(T, along(input, index, dim), input, index, value, plan)


@kernel
def take(input: Header, index: Header, plan: Ptr[i64]):
    """The places of the result's elements in the whole array: how many it has, how many are read. The second run is for arrays
    that are not in order."""
    like(index, plan)
    n, k = size_of(input), size_of(index)
    note(plan, k, [n, k])
    fits = in_order(index) & (dims_of(index) <= DIMS) & (n > 0) & (k > 0)
    ordered = in_order(input)
    fits = fits & (ordered | (k < LARGE))
    plan[RUN] = (i64(1) if ordered else i64(2)) * i64(fits)


@kernel
def index_select(input: Header, dim: i64, index: Header, plan: Ptr[i64]):
    """As `taken`, by a vector."""
    plan[RUN] = 0
    if dims_of(index) == 1:
        taken_along(input, index, dim, plan)


@kernel
def masked_fill(T, input: Header, mask: Header, value: V, plan: Ptr[i64]):
    n = size_of(input)
    like(input, plan)
    note(plan, n, [n, bits(value, i64)])
    fits = in_order(input) & in_order(mask) & same_shape(mask, input) & holds(T, value)
    plan[RUN] = i64(fits & (n > 0) & (dims_of(input) <= DIMS))
