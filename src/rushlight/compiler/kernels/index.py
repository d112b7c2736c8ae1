"""Reading and writing at indices along one dimension of arrays [outer, n, inner], row-major.

Indices are in range: whoever calls has looked (`look`), or the kernel looks itself. What is added at one place is added in the
order of the indices, whatever the number of threads: threads share columns or rows of the result,
never a place.
"""

from __future__ import annotations

from rushlight.compiler.kernel import kernel
from rushlight.compiler.kernels.rows import rows_of, width
from rushlight.compiler.language import (
    inline,
    iota,
    lanes,
    largest,
    load,
    parallel,
    select,
    splat,
    store,
    unroll,
)
from rushlight.compiler.types import Ptr, i64, u32, u64

GRAIN = 16384
UNSIGNED = {"i32": u32, "i64": u64}
TOGETHER = 4  # rows that share one look at the indices
COLUMNS = 256  # columns that a thread adds up at a time


@inline
def below(p, n, size, I):
    """Whether n numbers are in [0, size): no bits of theirs, read as one without sign, reach it."""
    L = width(I)
    U = UNSIGNED[I.name]
    most = [splat(U(0), L), splat(U(0), L)]
    whole = n - n % (2 * L)
    for i in range(0, whole, 2 * L):
        for k in unroll(2):
            v = U(load(p + (i + k * L), L))
            most[k] = select(v > most[k], v, most[k])
    if whole < n:
        for k in unroll(2):
            v = U(load(p + (whole + k * L), L, iota(i64, L) < n - whole - k * L))
            most[k] = select(v > most[k], v, most[k])
    return u64(largest(select(most[0] > most[1], most[0], most[1]))) < u64(size)


@kernel
def look(x: Ptr[I], bad: Ptr[i64], n: i64, size: i64):
    """bad[0] = 1 where one of n numbers is not in [0, size)."""
    if not below(x, n, size, I):
        bad[0] = 1


@inline
def pick(q, p, which, n):
    """q[i] = p[which[i]] for i of [0, n). Eight at a time: these processors load one element after
    the other faster than they gather a vector."""
    left = n % 8
    for i in range(0, n - left, 8):
        found = [p[i64(which[i + k])] for k in range(8)]
        for k in unroll(8):
            q[i + k] = found[k]
    for i in range(n - left, n):
        q[i] = p[i64(which[i])]


@inline
def move(q, p, n, U):
    """q[i] = p[i] for i of [0, n)."""
    L = width(U)
    left = n % L
    for i in range(0, n - left, L):
        store(q + i, load(p + i, L))
    if left > 0:
        at = n - left
        here = iota(i64, L) < left
        store(q + at, load(p + at, L, here), here)


# -- one index for a slice -------------------------------------------------------------------------


@kernel
def take_slices(ONE, a: Ptr[U], index: Ptr[I], out: Ptr[U], outer: i64, n: i64, k: i64, inner: i64):
    """out[o, j] = a[o, index[j]]; ONE: slices of one element."""
    if ONE:
        if outer >= TOGETHER:
            groups = (outer + (TOGETHER - 1)) // TOGETHER
            for lo, hi in parallel(groups, rows_of(k * TOGETHER)):
                for t in range(lo, hi):
                    # The last rows are done twice where they are no whole group.
                    o = min(t * TOGETHER, outer - TOGETHER)
                    p, q = a + o * n, out + o * k
                    for j in range(k):
                        at = i64(index[j])
                        for r in unroll(TOGETHER):
                            q[r * k + j] = p[r * n + at]
        else:
            for o in range(outer):
                p, q = a + o * n, out + o * k
                for lo, hi in parallel(k, GRAIN):
                    pick(q + lo, p, index + lo, hi - lo)
    else:
        for lo, hi in parallel(outer * k, rows_of(inner)):
            r = lo + 0
            j = lo % k
            p = a + lo // k * n * inner
            while r < hi:
                m = min(k - j, hi - r)
                for t in range(m):
                    move(out + (r + t) * inner, p + i64(index[j + t]) * inner, inner, U)
                r += m
                j = i64(0)
                p = p + n * inner


@inline
def add_slice(q, p, lo, hi, T):
    """q[i] += p[i] for i of [lo, hi)."""
    L = width(T)
    left = (hi - lo) % L
    for i in range(lo, hi - left, L):
        store(q + i, load(q + i, L) + load(p + i, L))
    if left > 0:
        at = hi - left
        here = iota(i64, L) < left
        store(q + at, load(q + at, L, here) + load(p + at, L, here), here)


@kernel
def add_slices(
    ONE, z: Ptr[T], index: Ptr[I], values: Ptr[T], outer: i64, n: i64, k: i64, inner: i64
):
    """z[o, index[j]] += values[o, j], for one j after the other."""
    if ONE:
        groups = outer // TOGETHER
        for lo, hi in parallel(groups, rows_of(k * TOGETHER)):
            for t in range(lo, hi):
                q, p = z + t * TOGETHER * n, values + t * TOGETHER * k
                for j in range(k):
                    at = i64(index[j])
                    for r in unroll(TOGETHER):
                        q[r * n + at] += p[r * k + j]
        for o in range(groups * TOGETHER, outer):
            q, p = z + o * n, values + o * k
            for j in range(k):
                q[i64(index[j])] += p[j]
    else:
        blocks = (inner + (COLUMNS - 1)) // COLUMNS
        for lo, hi in parallel(outer * blocks, rows_of(k * COLUMNS)):
            for t in range(lo, hi):
                o, first = t // blocks, t % blocks * COLUMNS
                last = min(first + COLUMNS, inner)
                q, p = z + o * n * inner, values + o * k * inner
                for j in range(k):
                    add_slice(q + i64(index[j]) * inner, p + j * inner, first, last, T)


@kernel
def clear(z: Ptr[T], n: i64):
    for lo, hi in parallel(n, GRAIN):
        for i in lanes(lo, hi):
            z[i] = T(0)


# -- one index for an element ----------------------------------------------------------------------


@kernel
def gather_along(ONE, a: Ptr[U], index: Ptr[I], out: Ptr[U], bad: Ptr[i64],
                 outer: i64, n: i64, k: i64, inner: i64):  # fmt: skip
    """out[o, j, i] = a[o, index[o, j, i], i]; ONE: inner = 1. bad[0] = 1 for an index out of range;
    nothing is read there."""
    if ONE:
        for lo, hi in parallel(outer, rows_of(k)):
            if k == 1:
                if below(index + lo, hi - lo, n, I):
                    for o in range(lo, hi):
                        out[o] = a[o * n + i64(index[o])]
                else:
                    bad[0] = 1
            else:
                for o in range(lo, hi):
                    if below(index + o * k, k, n, I):
                        pick(out + o * k, a + o * n, index + o * k, k)
                    else:
                        bad[0] = 1
    else:
        for lo, hi in parallel(outer * k, rows_of(inner)):
            for r in range(lo, hi):
                q, which, p = out + r * inner, index + r * inner, a + r // k * n * inner
                if below(which, inner, n, I):
                    for i in lanes(0, inner):
                        q[i] = p[i64(which[i]) * inner + i]
                else:
                    bad[0] = 1


@kernel
def write_along(ADD, ONE, SAME, z: Ptr[T], index: Ptr[I], values: Ptr[T],
                outer: i64, n: i64, k: i64, inner: i64):  # fmt: skip
    """z[o, index[o, j, i], i] = values[o, j, i] (ADD: += it), for one j after the other; SAME:
    values is one number."""
    if ONE:
        for lo, hi in parallel(outer, rows_of(k)):
            for o in range(lo, hi):
                q = z + o * n
                for j in range(o * k, o * k + k):
                    v = values[0] if SAME else values[j]
                    if ADD:
                        q[i64(index[j])] += v
                    else:
                        q[i64(index[j])] = v
    else:
        blocks = (inner + (COLUMNS - 1)) // COLUMNS
        for lo, hi in parallel(outer * blocks, rows_of(k * COLUMNS)):
            for t in range(lo, hi):
                o, first = t // blocks, t % blocks * COLUMNS
                last = min(first + COLUMNS, inner)
                for j in range(k):
                    r = (o * k + j) * inner
                    for i in range(first, last):
                        v = values[0] if SAME else values[r + i]
                        at = (o * n + i64(index[r + i])) * inner + i
                        if ADD:
                            z[at] += v
                        else:
                            z[at] = v
