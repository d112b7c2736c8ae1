"""The largest or smallest elements, and where the first of them stands; the first NaN beats all.

Of [outer, n, inner] over n: rows (inner = 1) by vectors along the row, which is then looked through
for what was found; columns by vectors of neighbours, which hold the index as well. A long row is cut
into parts; only the part that won is looked through.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import load_line, store_line
from rushlight._codegen.kernels.rows import rows_of, shared
from rushlight._codegen.language import *
from rushlight._codegen.types import Ptr, Type, b1, i32, i64

SIDE = 8  # vectors side by side
WIDE = 4  # and of columns
PART = 16384  # elements of a part of a long row
PARTS = 1024  # parts that a row has at most


def computed(t: Type) -> Type:
    """What elements are compared as."""
    return i32 if t.size < 4 and not t.is_float else t.loaded


def indices_type(t: Type) -> Type:
    """What indices are held in beside vectors of that type."""
    return i32 if computed(t).size == 4 else i64


def start_of(t: Type, small: bool) -> float:
    """What every element beats, or is."""
    if t.is_float:
        return float("inf" if small else "-inf")
    t = computed(t)
    return (1 << (8 * t.size - 1)) - 1 if small else -(1 << (8 * t.size - 1))


@inline
def elements(p, L, T, left):
    """A vector of elements, as they are compared; as far as `left`, None for all. Of small ones each load by a mask is
    looked at where it stands."""
    if left is None:
        v = load(p, L)
    elif T.size < 4:
        v = load(p, L, iota(i64, L) < left)
    else:
        v = load_line(p, left, L)
    return computed(T)(v)


@inline
def beyond(v, best, SMALL):
    return v < best if SMALL else v > best


@inline
def extreme_of(p, n, SMALL, T):
    """The extreme of a row, NaN where there is one."""
    A = computed(T)
    L = 64 // A.size
    start = A(start_of(T, SMALL))
    first, strange = splat(start, L), splat(b1(False), L)  # where NaN was
    wide = n - n % (SIDE * L)
    if wide > 0:
        best = [first for _ in range(SIDE)]
        odd = [strange for _ in range(SIDE // 2)]
        for i in range(0, wide, SIDE * L):
            for k in unroll(0, SIDE, 2):
                v = elements(p + (i + k * L), L, T, None)
                w = elements(p + (i + (k + 1) * L), L, T, None)
                best[k] = select(beyond(v, best[k], SMALL), v, best[k])
                best[k + 1] = select(beyond(w, best[k + 1], SMALL), w, best[k + 1])
                if T.is_float:
                    odd[k // 2] = odd[k // 2] | ((v != v) | (w != w))
        for k in unroll((4, 2, 1)):
            for j in unroll(k):
                best[j] = select(beyond(best[j + k], best[j], SMALL), best[j + k], best[j])
        first, strange = best[0], (odd[0] | odd[1]) | (odd[2] | odd[3])
    full = n - n % L
    for i in range(wide, full, L):
        v = elements(p + i, L, T, None)
        first = select(beyond(v, first, SMALL), v, first)
        if T.is_float:
            strange = strange | (v != v)
    if full < n:
        here = iota(i64, L) < n - full
        v = select(here, elements(p + full, L, T, n - full), start)
        first = select(beyond(v, first, SMALL), v, first)
        if T.is_float:
            strange = strange | (v != v)
    one = smallest(first) if SMALL else largest(first)
    if T.is_float:
        if some(strange):
            one = A(float("nan"))
    return one


@inline
def index_of(p, n, best, T):
    """Where the first element of a row stands that is `best`, or NaN."""
    A, I = computed(T), indices_type(T)
    L = 64 // A.size
    none = splat(I(L), L)
    i, at = i64(0), I(L)
    while i + L <= n:
        v = elements(p + i, L, T, None)
        hit = (v == best) | (v != v)
        if some(hit):
            at = smallest(select(hit, iota(I, L), none))
            break
        i += L
    if (at == L) & (i < n):
        here = iota(i64, L) < n - i
        v = elements(p + i, L, T, n - i)
        hit = here & ((v == best) | (v != v))
        at = smallest(select(hit, iota(I, L), none))
    return i + i64(at)


@kernel
def extreme_rows(SMALL, x: Ptr[T], out: Ptr[T], rows: i64, n: i64):
    for lo, hi in parallel(rows, shared(rows, rows_of(n))):
        for r in range(lo, hi):
            out[r] = T.loaded(extreme_of(x + r * n, n, SMALL, T))


@kernel
def argument_rows(SMALL, x: Ptr[T], indices: Ptr[i64], rows: i64, n: i64):
    for lo, hi in parallel(rows, shared(rows, rows_of(n))):
        for r in range(lo, hi):
            p = x + r * n
            indices[r] = index_of(p, n, extreme_of(p, n, SMALL, T), T)


@kernel
def both_rows(SMALL, x: Ptr[T], out: Ptr[T], indices: Ptr[i64], rows: i64, n: i64):
    for lo, hi in parallel(rows, shared(rows, rows_of(n))):
        for r in range(lo, hi):
            p = x + r * n
            best = extreme_of(p, n, SMALL, T)
            out[r] = T.loaded(best)
            indices[r] = index_of(p, n, best, T)


@inline
def column_extremes(p, n, inner, left, SMALL, T):
    """([extremes], [indices]) of WIDE vectors of columns; `left`: how many columns there are from each vector on, or None."""
    A, I = computed(T), indices_type(T)
    L = 64 // A.size
    best = [elements(p + c * L, L, T, left[c]) for c in range(WIDE)]
    at = [splat(I(0), L) for _ in range(WIDE)]
    for i in range(1, n):
        for c in unroll(WIDE):
            v = elements(p + (i * inner + c * L), L, T, left[c])
            keep = v >= best[c] if SMALL else v <= best[c]
            if T.is_float:
                keep = keep | (best[c] != best[c])
            best[c] = select(keep, best[c], v)
            at[c] = select(keep, at[c], splat(I(i), L))
    return best, at


@routine
def by_columns(SMALL, x, out, indices, outer, n, inner, T):
    """The indices of the extremes of columns, and the extremes unless `out` is None."""
    L = 64 // computed(T).size
    W = WIDE * L
    across = (inner + (W - 1)) // W
    for lo, hi in parallel(outer * across, rows_of(n * W)):
        for t in range(lo, hi):
            o, j = t // across, t % across * W
            p, to = x + (o * n * inner + j), o * inner + j
            left = [inner - j - c * L for c in range(WIDE)]
            if inner - j >= W:
                best, at = column_extremes(p, n, inner, [None] * WIDE, SMALL, T)
                for c in unroll(WIDE):
                    if out is not None:
                        store(out + (to + c * L), T.loaded(best[c]))
                    store(indices + (to + c * L), i64(at[c]))
            else:
                best, at = column_extremes(p, n, inner, left, SMALL, T)
                for c in unroll(WIDE):
                    if out is not None:
                        store_line(out + (to + c * L), T.loaded(best[c]), left[c], L)
                    store_line(indices + (to + c * L), i64(at[c]), left[c], L)


@kernel
def argument_columns(SMALL, x: Ptr[T], indices: Ptr[i64], outer: i64, n: i64, inner: i64):
    by_columns(SMALL, x, None, indices, outer, n, inner, T=T)


@kernel
def both_columns(SMALL, x: Ptr[T], out: Ptr[T], indices: Ptr[i64], outer: i64, n: i64, inner: i64):
    by_columns(SMALL, x, out, indices, outer, n, inner, T=T)


@kernel
def extreme_parts(SMALL, x: Ptr[T], out: Ptr[T], outer: i64, n: i64):
    """Of one row."""
    found = array(T, PARTS)
    for lo, hi in parallel(n, PART):
        found[lo // PART] = T.loaded(extreme_of(x + lo, hi - lo, SMALL, T))
    out[0] = T.loaded(extreme_of(found, (n + (PART - 1)) // PART, SMALL, T))


@inline
def first_of_parts(SMALL, x, found, n, T):
    """(the extreme of a row, where it is), of those `found` in its parts."""
    parts = (n + (PART - 1)) // PART
    best = extreme_of(found, parts, SMALL, T)
    start = index_of(found, parts, best, T) * PART
    return best, start + index_of(x + start, min(n - start, i64(PART)), best, T)


@kernel
def argument_parts(SMALL, x: Ptr[T], indices: Ptr[i64], outer: i64, n: i64):
    found = array(T, PARTS)
    for lo, hi in parallel(n, PART):
        found[lo // PART] = T.loaded(extreme_of(x + lo, hi - lo, SMALL, T))
    _, indices[0] = first_of_parts(SMALL, x, found, n, T)


@kernel
def both_parts(SMALL, x: Ptr[T], out: Ptr[T], indices: Ptr[i64], outer: i64, n: i64):
    found = array(T, PARTS)
    for lo, hi in parallel(n, PART):
        found[lo // PART] = T.loaded(extreme_of(x + lo, hi - lo, SMALL, T))
    best, indices[0] = first_of_parts(SMALL, x, found, n, T)
    out[0] = T.loaded(best)
