"""Functions of two arrays of different shapes, as NumPy broadcasts them, or with gaps in memory.

NumPy calls a loop once for each row, in one thread. Here one call goes over all rows: `infer` says
how the arrays are walked, `broadcast` does it. `ufunc_entry.py` stands between them and NumPy.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.elementwise import STREAM, WIDTH
from rushlight._codegen.kernels.header import dims_of, in_order, same_shape, shape_of, strides_of
from rushlight._codegen.language import *
from rushlight._codegen.types import Header, Ptr, b1, i64, u8, width

DIMS = 8  # arrays of more dimensions are NumPy's
PIECE = 16384  # elements of a row that is cut
GRAIN = 32768  # elements in a chunk
SHORT = 4  # elements of a row for which vectors do not pay, but for what takes long for each

# A plan: whether it is one, elements, groups of dimensions, dimensions, whether the result is C-contiguous, its
# shape and its strides, and of each group, innermost first, its size and the strides of both arrays in bytes.
FITS, TOTAL, GROUPS, NDIM, ORDERED, SHAPE = range(6)
STRIDES = SHAPE + DIMS
GROUP = STRIDES + DIMS
PLAN = GROUP + 3 * DIMS


@inline
def compared(p, q, sizes, strides):
    """Of two dimensions: (whether the strides of `p` are the larger ones, whether they are the smaller ones)."""
    s, t = strides[p], strides[q]
    decided = (s != 0) & (t != 0)
    return decided & ((s > t) | ((s == t) & (sizes[p] > sizes[q]))), decided & (s < t)


@kernel
def infer(a: Header, b: Header, itemsize: i64, plan: Ptr[i64]):
    """The plan for two arrays and a result with elements of `itemsize` bytes; plan[FITS] = 0 where they do not
    broadcast. The result lies in memory as `a` does, then as `b` does where that does not say it."""
    na, nb = dims_of(a), dims_of(b)
    nd = max(na, nb)
    fits = nd <= DIMS
    # of dimensions counted from the last; `order` has the innermost first
    sizes, of_a, of_b, order = (
        array(i64, DIMS),
        array(i64, DIMS),
        array(i64, DIMS),
        array(i64, DIMS),
    )
    plan[NDIM] = nd
    total, groups, ordered = i64(1), i64(0), b1(1)
    n, sa, sb = i64(1), i64(0), i64(0)  # the group that dimensions are put into
    straight = same_shape(a, b)
    if straight:
        straight = in_order(a) & in_order(b)
    if fits:
        for k in range(nd):
            d, e, ta, tb = i64(1), i64(1), i64(0), i64(0)
            if k < na:
                d, ta = shape_of(a)[na - 1 - k], strides_of(a)[na - 1 - k]
            if k < nb:
                e, tb = shape_of(b)[nb - 1 - k], strides_of(b)[nb - 1 - k]
            fits = fits & ((d == e) | (d == 1) | (e == 1)) & (ta >= 0) & (tb >= 0)
            m = e if d == 1 else d
            sizes[k] = m
            of_a[k] = ta if d == m else i64(0)
            of_b[k] = tb if e == m else i64(0)
            order[k] = k
            at = k
            for back in range(i64(0) if straight else k):
                i, p, q = k - 1 - back, order[k - 1 - back], order[at]
                larger, smaller = compared(p, q, sizes, of_a)
                if not (larger | smaller):
                    larger, smaller = compared(p, q, sizes, of_b)
                if larger:
                    order[i] = q
                    order[at] = p
                    at = i
                if smaller:
                    break
        for k in range(nd):
            at = order[k]
            m, ta, tb = sizes[at], of_a[at], of_b[at]
            ordered = ordered & (at == k)
            plan[SHAPE + nd - 1 - at] = m
            plan[STRIDES + nd - 1 - at] = total * itemsize
            total = total * m
            if m != 1:
                if n == 1:
                    n, sa, sb = m, ta, tb
                elif (ta == n * sa) & (tb == n * sb):
                    n = n * m
                else:
                    group = GROUP + 3 * groups
                    plan[group] = n
                    plan[group + 1] = sa
                    plan[group + 2] = sb
                    groups = groups + 1
                    n, sa, sb = m, ta, tb
        group = GROUP + 3 * groups
        plan[group] = n
        plan[group + 1] = sa
        plan[group + 2] = sb
    plan[ORDERED] = i64(ordered)
    plan[GROUPS] = groups + 1
    plan[TOTAL] = total
    plan[FITS] = i64(fits)


@inline
def each(F, T, x, y, out, n, A, B, AROUND):
    """out = F(x, y) of `n` elements side by side, of x (A) or y (B) or of one for all."""
    L = width(T)
    a, b = splat(x[0], L), splat(y[0], L)
    for i in range(0, n - 2 * L + 1, 2 * L):
        v = F(load(x + i, L) if A else a, load(y + i, L) if B else b)
        w = F(load(x + (i + L), L) if A else a, load(y + (i + L), L) if B else b)
        store(out + i, v, None, AROUND)
        store(out + (i + L), w, None, AROUND)
    for i in range(n - n % (2 * L), n, L):
        here = iota(i64, L) < n - i
        v = F(load(x + i, L, here) if A else a, load(y + i, L, here) if B else b)
        store(out + i, v, here)


@routine
def row(x, y, out, n, sa, sb, around, F, T):
    """out = F(x, y) of `n` elements, by their strides in bytes."""
    if (sa == T.size) & (sb == T.size):
        if around:
            each(F, T, x, y, out, n, True, True, True)
        else:
            each(F, T, x, y, out, n, True, True, False)
    elif (sa == T.size) & (sb == 0):
        each(F, T, x, y, out, n, True, False, False)
    elif (sa == 0) & (sb == T.size):
        each(F, T, x, y, out, n, False, True, False)
    elif (sa == 0) & (sb == 0):
        v = F(x[0], y[0])
        for i in lanes(0, n):
            out[i] = v
    else:
        p, q = bits(x, Ptr[u8]), bits(y, Ptr[u8])
        for i in range(n):
            out[i] = F(bits(p + i * sa, Ptr[T])[0], bits(q + i * sb, Ptr[T])[0])


@inline
def run_of_rows(a, b, plan, done, hi):
    """From the row `done` on, where both arrays are and how many rows follow by the same strides, `hi` the last."""
    many = plan[GROUP + 3]
    r = done // many
    first = done - r * many
    x, y = a + first * plan[GROUP + 4], b + first * plan[GROUP + 5]
    for g in range(2, plan[GROUPS]):
        at = GROUP + 3 * g
        i = r % plan[at]
        r = r // plan[at]
        x = x + i * plan[at + 1]
        y = y + i * plan[at + 2]
    return x, y, min(hi - done, many - first)


@routine
def short_rows(a, b, out, lo, hi, plan, F, T):
    """out = F(a, b) of the rows `lo` to `hi`, one element after the other."""
    n, sa, sb, down_a, down_b = (
        plan[GROUP],
        plan[GROUP + 1],
        plan[GROUP + 2],
        plan[GROUP + 4],
        plan[GROUP + 5],
    )
    done = lo + 0
    while done < hi:
        x, y, count = run_of_rows(a, b, plan, done, hi)
        to = out + done * n
        for k in range(count):
            p, q = bits(x + k * down_a, Ptr[u8]), bits(y + k * down_b, Ptr[u8])
            for i in range(n):
                to[k * n + i] = F(bits(p + i * sa, Ptr[T])[0], bits(q + i * sb, Ptr[T])[0])
        done = done + count


@routine
def whole_rows(a, b, out, lo, hi, plan, around, F, T):
    """The same by vectors."""
    n, sa, sb, down_a, down_b = (
        plan[GROUP],
        plan[GROUP + 1],
        plan[GROUP + 2],
        plan[GROUP + 4],
        plan[GROUP + 5],
    )
    done = lo + 0
    while done < hi:
        x, y, count = run_of_rows(a, b, plan, done, hi)
        to = out + done * n
        for k in range(count):
            p, q = bits(x + k * down_a, Ptr[T]), bits(y + k * down_b, Ptr[T])
            row(p, q, to + k * n, n, sa, sb, around, F=F, T=T)
        done = done + count


@kernel
def broadcast(F, T, B, plan: Ptr[i64], a: i64, b: i64, address: i64):
    """out = F(a, b), of addresses; `out` is filled from its first byte to its last."""
    out = bits(address, Ptr[B])
    short = 0 if F.__name__ == "arctan2" else SHORT
    n, sa, sb = plan[GROUP], plan[GROUP + 1], plan[GROUP + 2]
    groups, total = plan[GROUPS], plan[TOTAL]
    pieces = (n + (PIECE - 1)) // PIECE
    length = min(n, i64(PIECE))
    grain = max(i64(1), GRAIN // length)
    around = (total * B.size >= STREAM) & (n * B.size % WIDTH == 0)
    around = around & ((address & (WIDTH - 1)) == 0)
    for lo, hi in parallel(total // n * pieces, grain):
        if (groups > 1) & (n <= short):
            short_rows(a, b, out, lo, hi, plan, F=F, T=T)
        elif (groups > 1) & (pieces == 1):
            whole_rows(a, b, out, lo, hi, plan, around, F=F, T=T)
        else:  # one row, or long ones, in pieces
            for u in range(lo, hi):
                r = u // pieces
                start = (u - r * pieces) * PIECE
                x, y, to = a + start * sa, b + start * sb, out + (r * n + start)
                for g in range(1, groups):
                    at = GROUP + 3 * g
                    i = r % plan[at]
                    r = r // plan[at]
                    x = x + i * plan[at + 1]
                    y = y + i * plan[at + 2]
                left = min(n - start, i64(PIECE))
                row(bits(x, Ptr[T]), bits(y, Ptr[T]), to, left, sa, sb, around, F=F, T=T)
