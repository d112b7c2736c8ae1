"""What masks choose: counted first, chunk by chunk, then written where the counts say.

Chunks are the same for any number of threads. Within one, indices are collected in memory of the
kernel's own without a branch: each is written, and the next one over it unless it was chosen.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.copy import move
from rushlight._codegen.kernels.header import same_shape
from rushlight._codegen.kernels.shape_inference import (
    dims_of,
    disjoint,
    in_order,
    like,
    note,
    shape_of,
    size_of,
    writeable,
)
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import DIMS, NDIM, RUN, SHAPE
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, f64, i32, i64, u8, width

CHUNK = 4096  # elements that are chosen from at a time


@inline
def is_set(v):
    """Whether an element counts as true."""
    return v != typeof(v)(0)


@inline
def set_in(x, n, T):
    """How many of n elements are not 0, four vectors at a time."""
    L = width(T)
    none, one = splat(i32(0), L), splat(i32(1), L)
    sums = [none for _ in range(4)]
    whole = n - n % (4 * L)
    for i in range(0, whole, 4 * L):
        for k in unroll(4):
            sums[k] = sums[k] + select(is_set(load(x + (i + k * L), L)), one, none)
    k = total((sums[0] + sums[1]) + (sums[2] + sums[3]))
    for i in range(whole, n):
        k += i32(is_set(x[i]))
    return k


@kernel
def counted(x: Ptr[T], starts: Ptr[i64], n: i64):
    """starts[c] = how many elements before chunk c are not 0; the last one: how many at all."""
    chunks = (n + (CHUNK - 1)) // CHUNK
    for lo, hi in parallel(chunks, 4):
        for c in range(lo, hi):
            k = set_in(x + c * CHUNK, min(n - c * CHUNK, i64(CHUNK)), T)
            starts[c + 1] = i64(k)
    total = i64(0)
    starts[0] = 0
    for c in range(chunks):
        total += starts[c + 1]
        starts[c + 1] = total


@inline
def chosen(x, indices, start, stop):
    """The indices in [start, stop) of what is not 0, less start; returns how many."""
    k = i64(0)
    whole = stop - (stop - start) % 8
    for first in range(start, whole, 8):
        for j in unroll(8):
            indices[k] = i32(first + j - start)
            k += i64(is_set(x[first + j]))
    for i in range(whole, stop):
        indices[k] = i32(i - start)
        k += i64(is_set(x[i]))
    return k


@kernel
def selected(mask: Ptr[M], a: Ptr[U], starts: Ptr[i64], out: Ptr[U], n: i64):
    """The elements of `a` where the mask is not 0, one after the other."""
    for lo, hi in parallel((n + (CHUNK - 1)) // CHUNK, 4):
        indices = array(i32, CHUNK + 1)
        for c in range(lo, hi):
            p, q = a + c * CHUNK, out + starts[c]
            k = chosen(mask, indices, c * CHUNK, min((c + 1) * CHUNK, n))
            for i in range(k):
                q[i] = p[i64(indices[i])]


@kernel
def placed(mask: Ptr[M], values: Ptr[U], starts: Ptr[i64], out: Ptr[U], n: i64, CLEAR):
    """values one after the other into `out` where the mask is not 0; CLEAR: 0 elsewhere."""
    for lo, hi in parallel((n + (CHUNK - 1)) // CHUNK, 4):
        indices = array(i32, CHUNK + 1)
        for c in range(lo, hi):
            p, q = values + starts[c], out + c * CHUNK
            stop = min((c + 1) * CHUNK, n)
            k = chosen(mask, indices, c * CHUNK, stop)
            if CLEAR:
                for i in lanes(0, stop - c * CHUNK):
                    q[i] = U(0)
            for i in range(k):
                q[i64(indices[i])] = p[i]


@kernel
def indices_of_nonzero(x: Ptr[T], starts: Ptr[i64], out: Ptr[i64], n: i64):
    """Where elements are not 0: their indices in memory."""
    for lo, hi in parallel((n + (CHUNK - 1)) // CHUNK, 4):
        indices = array(i32, CHUNK + 1)
        for c in range(lo, hi):
            q = out + starts[c]
            k = chosen(x, indices, c * CHUNK, min((c + 1) * CHUNK, n))
            for i in lanes(0, k):
                q[i] = c * CHUNK + i64(indices[i])


@inline
def apart_by_dimension(indices, out, k, sizes, dims, total):
    """The coordinates of k indices in an array of these sizes: in a row of `out`, of `total` numbers, for each
    dimension. Division of such small whole numbers as floating ones, in vectors, is exact when it is cut off."""
    d = dims - 1
    while d > 0:
        q, size = out + d * total, i32(sizes[d])
        for i in lanes(0, k):
            v = indices[i] + 0
            times = i32(f64(v) / f64(size))
            indices[i] = times
            q[i] = i64(v - times * size)
        d -= 1
    for i in lanes(0, k):
        out[i] = i64(indices[i])


@kernel
def coordinates(x: Ptr[T], starts: Ptr[i64], out: Ptr[i64], n: i64, sizes: Ptr[i64], dims: i64,
                total: i64):  # fmt: skip
    """Where elements are not 0: a row of `out` [dims, total] for each dimension; all sizes are below
    2**31."""
    for lo, hi in parallel((n + (CHUNK - 1)) // CHUNK, 4):
        indices = array(i32, CHUNK + 1)
        left = array(i64, CHUNK + 1)
        for c in range(lo, hi):
            k = chosen(x, indices, c * CHUNK, min((c + 1) * CHUNK, n))
            if n < (1 << 31):
                for i in lanes(0, k):
                    indices[i] += i32(c * CHUNK)
                apart_by_dimension(indices, out + starts[c], k, sizes, dims, total)
            else:
                for i in lanes(0, k):
                    left[i] = c * CHUNK + i64(indices[i])
                for j in range(dims - 1):
                    d = dims - 1 - j
                    q, size = out + d * total + starts[c], sizes[d]
                    for i in range(k):
                        q[i] = left[i] % size
                        left[i] = left[i] // size
                move(out + starts[c], left, k, False, i64)


# -- of a few elements, in native entries ----------------------------------------------------------


@inline
def how_many(a, n, T):
    """How many of the n elements of an array are not 0."""
    x, k = bits(a[abi.DATA], Ptr[T]), i32(0)
    for i in range(n):
        k += i32(is_set(x[i]))
    return i64(k)


@inline
def few(a):
    """(whether an array is in order and of no more than CHUNK elements, how many they are)."""
    fits, n = in_order(a) & (dims_of(a) <= DIMS), i64(0)
    if fits:
        n = size_of(a)
    return fits & (n <= CHUNK), n


@kernel
def few_nonzero(T, a: Header, plan: Ptr[i64]):
    """The plan of `few_coordinates`."""
    fits, n = few(a)
    plan[RUN] = 0
    if fits & (dims_of(a) > 0):
        plan[RUN] = 1
        plan[NDIM] = 2
        plan[SHAPE] = dims_of(a)
        plan[SHAPE + 1] = how_many(a, n, T)
        note(plan, n, [n, plan[SHAPE + 1]])


@kernel
def few_coordinates(T, a: Header, out: Ptr[i64], n: i64, total: i64):
    """As `coordinates`."""
    indices = array(i32, CHUNK + 1)
    k = chosen(bits(a[abi.DATA], Ptr[T]), indices, i64(0), n)
    apart_by_dimension(indices, out, k, shape_of(a), dims_of(a), total)


@kernel
def few_selected(a: Header, mask: Header, plan: Ptr[i64]):
    """The plan of `select_few`."""
    fits, n = few(mask)
    plan[RUN] = 0
    if fits & in_order(a) & same_shape(a, mask):
        plan[RUN] = 1
        plan[NDIM] = 1
        plan[SHAPE] = how_many(mask, n, u8)
        note(plan, n, [n])


@kernel
def select_few(a: Ptr[U], mask: Ptr[u8], out: Ptr[U], n: i64):
    """The elements where the mask is not 0, one after the other."""
    indices = array(i32, CHUNK + 1)
    k = chosen(mask, indices, i64(0), n)
    for i in range(k):
        out[i] = a[i64(indices[i])]


@kernel
def few_expanded(values: Header, mask: Header, plan: Ptr[i64]):
    """The plan of `expand_few`."""
    fits, n = few(mask)
    plan[RUN] = 0
    if fits & in_order(values) & (dims_of(values) == 1):
        if shape_of(values)[0] == how_many(mask, n, u8):
            plan[RUN] = 1
            like(mask, plan)
            note(plan, n, [n])


@kernel
def expand_few(values: Ptr[U], mask: Ptr[u8], out: Ptr[U], n: i64):
    """The values one after the other where the mask is not 0, zeros elsewhere."""
    k = i64(0)
    for i in range(n):
        out[i] = U(0)
        if is_set(mask[i]):
            out[i] = values[k]
            k += 1


@kernel
def few_placed(SIZE, input: Header, mask: Header, source: Header, plan: Ptr[i64]):
    """The plan of `scatter_few`."""
    fits, n = few(mask)
    plan[RUN] = 0
    if (
        fits
        & in_order(input)
        & in_order(source)
        & writeable(input)
        & same_shape(input, mask)
        & (n > 0)
    ):
        m = size_of(source)
        if (m > 0) & (how_many(mask, n, u8) <= m):
            if disjoint(input, SIZE, mask, 1) & disjoint(input, SIZE, source, SIZE):
                plan[RUN] = 1
                note(plan, n, [n])


@kernel
def scatter_few(z: Ptr[U], mask: Ptr[u8], values: Ptr[U], n: i64):
    """The values one after the other into `z` where the mask is not 0."""
    k = i64(0)
    for i in range(n):
        if is_set(mask[i]):
            z[i] = values[k]
            k += 1
