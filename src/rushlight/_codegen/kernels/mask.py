"""What masks choose: counted first, chunk by chunk, then written where the counts say.

Chunks are the same for any number of threads. Within one, places are collected in memory of the
kernel's own without a branch: each is written, and the next one over it unless it was chosen.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.copy import move
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, i32, i64, u32

CHUNK = 4096  # elements that are chosen from at a time


@inline
def is_set(v):
    """Whether an element counts as true."""
    return v != typeof(v)(0)


@kernel
def counted(x: Ptr[T], starts: Ptr[i64], n: i64):
    """starts[c] = how many elements before chunk c are not 0; the last one: how many at all."""
    chunks = (n + (CHUNK - 1)) // CHUNK
    for lo, hi in parallel(chunks, 4):
        for c in range(lo, hi):
            k = i32(0)
            for i in range(c * CHUNK, min((c + 1) * CHUNK, n)):
                k += i32(is_set(x[i]))
            starts[c + 1] = i64(k)
    total = i64(0)
    starts[0] = 0
    for c in range(chunks):
        total += starts[c + 1]
        starts[c + 1] = total


@inline
def chosen(x, places, start, stop):
    """The places in [start, stop) of what is not 0, less start; returns how many."""
    k = i64(0)
    whole = stop - (stop - start) % 8
    for first in range(start, whole, 8):
        for j in unroll(8):
            places[k] = i32(first + j - start)
            k += i64(is_set(x[first + j]))
    for i in range(whole, stop):
        places[k] = i32(i - start)
        k += i64(is_set(x[i]))
    return k


@kernel
def selected(mask: Ptr[M], a: Ptr[U], starts: Ptr[i64], out: Ptr[U], n: i64):
    """The elements of `a` where the mask is not 0, one after the other."""
    for lo, hi in parallel((n + (CHUNK - 1)) // CHUNK, 4):
        places = array(i32, CHUNK + 1)
        for c in range(lo, hi):
            p, q = a + c * CHUNK, out + starts[c]
            k = chosen(mask, places, c * CHUNK, min((c + 1) * CHUNK, n))
            for i in range(k):
                q[i] = p[i64(places[i])]


@kernel
def placed(mask: Ptr[M], values: Ptr[U], starts: Ptr[i64], out: Ptr[U], n: i64, CLEAR):
    """values one after the other into `out` where the mask is not 0; CLEAR: 0 elsewhere."""
    for lo, hi in parallel((n + (CHUNK - 1)) // CHUNK, 4):
        places = array(i32, CHUNK + 1)
        for c in range(lo, hi):
            p, q = values + starts[c], out + c * CHUNK
            stop = min((c + 1) * CHUNK, n)
            k = chosen(mask, places, c * CHUNK, stop)
            if CLEAR:
                for i in lanes(0, stop - c * CHUNK):
                    q[i] = U(0)
            for i in range(k):
                q[i64(places[i])] = p[i]


@kernel
def places_of(x: Ptr[T], starts: Ptr[i64], out: Ptr[i64], n: i64):
    """Where elements are not 0: their places in memory."""
    for lo, hi in parallel((n + (CHUNK - 1)) // CHUNK, 4):
        places = array(i32, CHUNK + 1)
        for c in range(lo, hi):
            q = out + starts[c]
            k = chosen(x, places, c * CHUNK, min((c + 1) * CHUNK, n))
            for i in lanes(0, k):
                q[i] = c * CHUNK + i64(places[i])


@kernel
def coordinates(x: Ptr[T], starts: Ptr[i64], out: Ptr[i64], n: i64, sizes: Ptr[i64], dims: i64,
                total: i64):  # fmt: skip
    """Where elements are not 0: a row of `out` [dims, total] for each dimension; all sizes are below
    2**31."""
    for lo, hi in parallel((n + (CHUNK - 1)) // CHUNK, 4):
        places = array(i32, CHUNK + 1)
        left = array(i64, CHUNK + 1)
        for c in range(lo, hi):
            k = chosen(x, places, c * CHUNK, min((c + 1) * CHUNK, n))
            for i in lanes(0, k):
                left[i] = c * CHUNK + i64(places[i])
            for j in range(dims - 1):
                d = dims - 1 - j
                q = out + d * total + starts[c]
                size = sizes[d]
                if n < (1 << 31):
                    for i in range(k):
                        v = u32(left[i])
                        left[i] = i64(v // u32(size))
                        q[i] = i64(v % u32(size))
                else:
                    for i in range(k):
                        q[i] = left[i] % size
                        left[i] = left[i] // size
            move(out + starts[c], left, k, False, i64)
