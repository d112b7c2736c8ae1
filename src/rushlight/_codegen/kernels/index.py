"""Reading and writing at indices along one dimension of arrays [outer, n, inner], row-major.

Indices are in range: whoever calls has looked (`look`), or the kernel looks itself. What is added at one place is added in the
order of the indices, whatever the number of threads: threads share columns or rows of the result,
never a place.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.extremes import start_of
from rushlight._codegen.kernels.header import dims_of, shape_of, strides_of
from rushlight._codegen.kernels.rows import rows_of
from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, Type, b1, f64, i64, u8, u32, u64, width

GRAIN = 16384
UNSIGNED = {"i32": u32, "i64": u64}
TOGETHER = 4  # rows that share one look at the indices
COLUMNS = 256  # columns that a thread adds up at a time
LOOK = 65536  # indices that are looked at together
NEAR = 1 << 19  # bytes of an array that stay in a core's own cache
AHEAD = 1024  # bytes of coming rows that are asked for
SOME = 512  # indices that are read before their rows are
PLACES = 1024  # places along a dimension that `reduce_few` has room for


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


@routine
def look_through(x: Ptr[I], bad: Ptr[i64], n: i64, size: i64, I):
    """bad[0] = 1 where one of n numbers is not in [0, size)."""
    for lo, hi in parallel(n, LOOK):
        if not below(x + lo, hi - lo, size, I):
            bad[0] = 1


@kernel
def look(x: Ptr[I], bad: Ptr[i64], n: i64, size: i64):
    """As `look_through`."""
    look_through(x, bad, n, size, I)


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
def together(old, new, HOW):
    """What becomes of an element: "put", "add", "times", "most" or "least"; NaN is both most and least."""
    if HOW == "add":
        return old + new
    elif HOW == "times":
        return old * new
    elif HOW == "most":
        return select((new > old) | (new != new), new, old)
    elif HOW == "least":
        return select((new < old) | (new != new), new, old)
    else:
        return new


@inline
def put_slice(q, p, n, HOW, T, coming_q=None, coming_p=None):
    """q[i] becomes what HOW makes of it and p[i], for i of [0, n); what is coming is asked for meanwhile."""
    L = width(T)
    left = n % L
    for i in range(0, n - left, L):
        if coming_q is not None:
            prefetch(coming_q + i)
        if coming_p is not None:
            prefetch(coming_p + i)
        v = load(p + i, L)
        store(q + i, v if HOW == "put" else together(load(q + i, L), v, HOW))
    if left > 0:
        at = n - left
        here = iota(i64, L) < left
        if coming_q is not None:
            prefetch(coming_q + at)
        if coming_p is not None:
            prefetch(coming_p + at)
        v = load(p + at, L, here)
        store(q + at, v if HOW == "put" else together(load(q + at, L, here), v, HOW), here)


# -- one index for a slice -------------------------------------------------------------------------


@kernel
def take_slices(ONE, a: Ptr[U], index: Ptr[I], out: Ptr[U], bad: Ptr[i64],
                outer: i64, n: i64, k: i64, inner: i64):  # fmt: skip
    """out[o, j] = a[o, index[j]]; ONE: slices of one element. bad[0] = 1, and nothing is read, where
    an index is out of range."""
    look_through(index, bad, k, n, I)
    if bad[0] == 0:
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
            far = n * inner * U.size > NEAR
            ahead = max(AHEAD // (inner * U.size), i64(1))
            # Large chunks while there are enough: a thread goes on where its rows are asked for.
            few = rows_of(inner)
            for lo, hi in parallel(outer * k, max(few, min(4 * few, outer * k // 8))):
                r = lo + 0
                j = lo % k
                p = a + lo // k * n * inner
                while r < hi:
                    m = min(k - j, hi - r)
                    if far:
                        for t in range(m):
                            coming = p + i64(index[j + min(t + ahead, m - 1)]) * inner
                            from_here = p + i64(index[j + t]) * inner
                            put_slice(
                                out + (r + t) * inner, from_here, inner, "put", U, None, coming
                            )
                    else:
                        for t in range(m):
                            put_slice(
                                out + (r + t) * inner,
                                p + i64(index[j + t]) * inner,
                                inner,
                                "put",
                                U,
                            )
                    r += m
                    j = i64(0)
                    p = p + n * inner


@kernel
def put_slices(HOW, ONE, z: Ptr[T], index: Ptr[I], values: Ptr[V], bad: Ptr[i64],
               outer: i64, n: i64, k: i64, inner: i64, step: i64, parts: i64):  # fmt: skip
    """z[o, index[j]] = values[o, j], or what HOW makes of both, for one j after the other; ONE: inner = 1.

    bad[0] = 1, and nothing is written, where an index is out of range. `step`: from one slice of
    `values` to the next; 0 where it is the same for all. One large matrix (outer = 1) is cut into
    `parts`, whose rows different threads write.
    """
    look_through(index, bad, k, n, I)
    if bad[0] == 0:
        if ONE:
            groups = outer // TOGETHER
            for lo, hi in parallel(groups, rows_of(k * TOGETHER)):
                for t in range(lo, hi):
                    q, p = z + t * TOGETHER * n, values + t * TOGETHER * k * step
                    row = k * step
                    for j in range(k):
                        at = i64(index[j])
                        for r in unroll(TOGETHER):
                            q[r * n + at] = together(q[r * n + at], p[r * row + j * step], HOW)
            for o in range(groups * TOGETHER, outer):
                q, p = z + o * n, values + o * k * step
                for j in range(k):
                    q[i64(index[j])] = together(q[i64(index[j])], p[j * step], HOW)
        else:
            if parts > 0:
                for lo, hi in parallel(parts, 1):
                    chosen = array(i64, SOME + 1)
                    for part in range(lo, hi):
                        first, last = part * n // parts, (part + 1) * n // parts
                        for start in range(0, k, SOME):
                            m = i64(0)
                            for j in range(start, min(start + SOME, k)):
                                chosen[m] = j
                                m += i64((i64(index[j]) >= first) & (i64(index[j]) < last))
                            if m > 0:
                                chosen[m] = chosen[m - 1]
                            for t in range(m):
                                j, next_j = chosen[t], chosen[t + 1]
                                q, p = z + i64(index[j]) * inner, values + j * step
                                coming = z + i64(index[next_j]) * inner
                                put_slice(q, p, inner, HOW, T, coming, values + next_j * step)
            else:
                blocks = (inner + (COLUMNS - 1)) // COLUMNS
                for lo, hi in parallel(outer * blocks, rows_of(k * COLUMNS)):
                    for t in range(lo, hi):
                        o, first = t // blocks, t % blocks * COLUMNS
                        last = min(first + COLUMNS, inner)
                        q, p = z + o * n * inner, values + o * k * step
                        for j in range(k):
                            to = q + (i64(index[j]) * inner + first)
                            put_slice(to, p + (j * step + first), last - first, HOW, T)


@kernel
def add_products(z: Ptr[T], index: Ptr[i64], values: Ptr[T], bad: Ptr[i64],
                 outer: i64, n: i64, k: i64, inner: i64, step: i64, parts: i64, alpha: V):  # fmt: skip
    """z[o, index[j]] += alpha * values[o, j], where products are rounded before they are added, for one j after the other.
    bad[0] = 1, and nothing is written, where an index is out of range."""
    look_through(index, bad, k, n, i64)
    if bad[0] == 0:
        a = T.loaded(T(T.loaded(alpha)))
        for o in range(outer):
            for j in range(k):
                to, p = z + (o * n + index[j]) * inner, values + (o * k + j) * inner
                for c in lanes(0, inner):
                    to[c] = to[c] + T.loaded(T(p[c] * a))


@kernel
def fill_slices(HOW, z: Ptr[T], index: Ptr[I], value: Ptr[T], bad: Ptr[i64],
                outer: i64, n: i64, k: i64, inner: i64):  # fmt: skip
    """z[o, index[j]] = value[0], or what HOW makes of both; bad[0] = 1, and nothing is written, where an index is out of
    range."""
    look_through(index, bad, k, n, I)
    if bad[0] == 0:
        v = value[0]
        for o in range(outer):
            for j in range(k):
                to = z + (o * n + i64(index[j])) * inner
                for c in lanes(0, inner):
                    to[c] = together(to[c], v, HOW)


@kernel
def fill_slices_with(z: Ptr[T], index: Ptr[i64], bad: Ptr[i64],
                     outer: i64, n: i64, k: i64, inner: i64, value: V):  # fmt: skip
    """As `fill_slices`, with a number that is put there; negative indices count from the end."""
    for j in range(k):
        bad[0] = bad[0] | i64(u64(index[j] + n) >= u64(2 * n))
    if bad[0] == 0:
        v = T.loaded(value)
        for o in range(outer):
            for j in range(k):
                at = index[j] + n if index[j] < 0 else index[j] + 0
                to = z + (o * n + at) * inner
                for c in lanes(0, inner):
                    to[c] = v


@kernel
def take_pairs(a: Ptr[U], first: Ptr[i64], second: Ptr[i64], out: Ptr[U], bad: Ptr[i64],
               n: i64, m: i64, k: i64):  # fmt: skip
    """out[i] = a[first[i], second[i]] of a matrix [n, m]; negative numbers count from the ends; bad[0] = 1,
    and nothing is read, for one that is out of range."""
    for lo, hi in parallel(k, GRAIN):
        for i in range(lo, hi):
            r, c = first[i] + 0, second[i] + 0
            r = r + n if r < 0 else r
            c = c + m if c < 0 else c
            if (u64(r) < u64(n)) & (u64(c) < u64(m)):
                out[i] = a[r * m + c]
            else:
                bad[0] = 1


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
def write_along(HOW, NEW, ONE, SAME, z: Ptr[T], index: Ptr[I], values: Ptr[V], bad: Ptr[i64],
                outer: i64, n: i64, k: i64, inner: i64):  # fmt: skip
    """z[o, index[o, j, i], i] = values[o, j, i], or what HOW makes of both, for one j after the other;
    SAME: values is one number.

    bad[0] = 1 where an index is out of range, and nothing is written. NEW: z is to be zeros first,
    and what it is after an index out of range does not matter.
    """
    if not NEW:
        look_through(index, bad, outer * k * inner, n, I)
    if NEW or bad[0] == 0:
        if ONE:
            for lo, hi in parallel(outer, rows_of(max(k, n) if NEW else k)):
                if NEW:
                    for i in lanes(lo * n, hi * n):
                        z[i] = T.loaded(0)
                good = below(index + lo * k, (hi - lo) * k, n, I) if NEW else b1(True)
                if good:
                    for o in range(lo, hi):
                        q = z + o * n
                        for j in range(o * k, o * k + k):
                            v = values[0] if SAME else values[j]
                            q[i64(index[j])] = together(q[i64(index[j])], v, HOW)
                else:
                    bad[0] = 1
        else:
            blocks = (inner + (COLUMNS - 1)) // COLUMNS
            for lo, hi in parallel(outer * blocks, rows_of(k * COLUMNS)):
                for t in range(lo, hi):
                    o, first = t // blocks, t % blocks * COLUMNS
                    last = min(first + COLUMNS, inner)
                    if NEW:
                        for j in range(n):
                            r = (o * n + j) * inner
                            for i in lanes(r + first, r + last):
                                z[i] = T.loaded(0)
                    for j in range(k):
                        r = (o * k + j) * inner
                        good = below(index + r + first, last - first, n, I) if NEW else b1(True)
                        if good:
                            for i in range(first, last):
                                v = values[0] if SAME else values[r + i]
                                at = (o * n + i64(index[r + i])) * inner + i
                                z[at] = together(z[at], v, HOW)
                        else:
                            bad[0] = 1


@kernel
def reduce_few(HOW, MEAN, ROUNDS, SLICES, z: Ptr[T], index: Ptr[i64], values: Ptr[T], bad: Ptr[i64],
               outer: i64, n: i64, k: i64, inner: i64, include: i64):  # fmt: skip
    """z[o, index[o, j, i], i] becomes what HOW makes of all values[o, j, i] with this index, and of what stood there if
    `include` is not 0. SLICES: the index is index[j]. MEAN: sums are divided by how many came together. ROUNDS: half types
    are rounded after each step, not once. bad[0] = 1 where an index is out of range, and nothing is written. n is at most
    PLACES."""
    step = i64(1) if SLICES else inner + 0
    look_through(index, bad, k if SLICES else outer * k * inner, n, i64)
    if bad[0] == 0:
        have, count = array(T.loaded, PLACES), array(i64, PLACES)
        for o in range(outer):
            for i in range(inner):
                which = index + (0 if SLICES else o * k * inner + i)
                q, p = z + (o * n * inner + i), values + (o * k * inner + i)
                for j in range(k):
                    at = which[j * step] + 0
                    have[at] = T.loaded(first_of(HOW, T)) if include == 0 else q[at * inner]
                    count[at] = i64(include != 0)
                for j in range(k):
                    at = which[j * step] + 0
                    v = T.loaded(together(have[at], p[j * inner], HOW))
                    have[at] = T.loaded(T(v)) if ROUNDS else v
                    count[at] += 1
                for j in range(k):
                    at = which[j * step] + 0
                    v = have[at]
                    if MEAN and T.is_float:
                        v = T.loaded(f64(T.loaded(T(v))) / f64(count[at]))
                    elif MEAN:
                        whole = v // T(count[at])
                        v = whole - T(whole * T(count[at]) > v)
                    q[at * inner] = v


def first_of(how: str, t: Type) -> float:
    """What a reduction of no values is."""
    if how in ("most", "least"):
        return start_of(t, how == "least")
    return 1 if how == "times" else 0


@kernel
def fill_along(z: Ptr[T], index: Ptr[i64], bad: Ptr[i64],
               outer: i64, n: i64, k: i64, inner: i64, value: V):  # fmt: skip
    """z[o, index[o, j, i], i] = value. bad[0] = 1 where an index is out of range, and nothing is written."""
    look_through(index, bad, outer * k * inner, n, i64)
    if bad[0] == 0:
        v = T.loaded(value)
        for r in range(outer * k):
            to, which = z + r // k * n * inner, index + r * inner
            for i in range(inner):
                to[which[i] * inner + i] = v


# -- places in the whole array ---------------------------------------------------------------------


@kernel
def take_at_indices(a: Ptr[U], index: Ptr[i64], out: Ptr[U], bad: Ptr[i64], n: i64, k: i64):
    """out[j] = a[index[j]]; negative numbers count from the end n. bad[0] = 1 for one that is out of range; nothing is
    read there."""
    for lo, hi in parallel(k, GRAIN):
        wrong = i64(0)
        for i in range(lo, hi):
            at = index[i] + 0
            at = at + n if at < 0 else at
            known = u64(at) < u64(n)
            wrong = wrong | i64(not known)
            out[i] = a[at if known else i64(0)]
        if wrong != 0:
            bad[0] = 1


@kernel
def take_anywhere(a: Header, index: Header, out: Ptr[U], bad: Ptr[i64], n: i64, k: i64):
    """As `take_at_indices`, of an array of any strides, whose elements are counted in the order of rows."""
    numbers, size = bits(index[abi.DATA], Ptr[i64]), bits(a[abi.DTYPE], Ptr[i64])[abi.DTYPE_SIZE]
    for i in range(k):
        at = numbers[i] + 0
        at = at + n if at < 0 else at
        known = u64(at) < u64(n)
        bad[0] = bad[0] | i64(not known)
        left, far = at if known else i64(0), i64(0)
        for j in range(dims_of(a)):
            d = dims_of(a) - 1 - j
            far = far + left % shape_of(a)[d] * strides_of(a)[d]
            left = left // shape_of(a)[d]
        out[i] = bits(a[abi.DATA], Ptr[U])[far // size]


# -- masks -----------------------------------------------------------------------------------------


@kernel
def filled(a: Ptr[T], mask: Ptr[u8], out: Ptr[T], n: i64, value: V):
    """out[i] = value where mask[i] is not 0, else a[i]."""
    v = T.loaded(value)
    for lo, hi in parallel(n, GRAIN):
        for i in lanes(lo, hi):
            out[i] = v if mask[i] != 0 else a[i]


@kernel
def fill_masked(z: Ptr[T], mask: Ptr[u8], value: Ptr[T], n: i64):
    """z[i] = value[0] where mask[i] is not 0."""
    v = value[0]
    for lo, hi in parallel(n, GRAIN):
        for i in lanes(lo, hi):
            z[i] = v if mask[i] != 0 else z[i]
