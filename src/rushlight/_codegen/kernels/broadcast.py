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
    told = (s != 0) & (t != 0)
    return told & ((s > t) | ((s == t) & (sizes[p] > sizes[q]))), told & (s < t)


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


@kernel
def broadcast(F, T, B, plan: Ptr[i64], a: i64, b: i64, address: i64):
    """out = F(a, b), of addresses; `out` is filled from its first byte to its last."""
    out = bits(address, Ptr[B])
    n, sa, sb = plan[GROUP], plan[GROUP + 1], plan[GROUP + 2]
    groups, total = plan[GROUPS], plan[TOTAL]
    pieces = (n + (PIECE - 1)) // PIECE
    length = min(n, i64(PIECE))
    grain = max(i64(1), GRAIN // length)
    around = (total * B.size >= STREAM) & (n * B.size % WIDTH == 0)
    around = around & ((address & (WIDTH - 1)) == 0)
    for lo, hi in parallel(total // n * pieces, grain):
        for u in range(lo, hi):
            r = u // pieces if pieces > 1 else u
            start = (u - r * pieces) * PIECE
            left = min(n - start, i64(PIECE))
            x = a + start * sa
            y = b + start * sb
            to = out + (r * n + start)
            for g in range(1, groups):
                at = GROUP + 3 * g
                m = plan[at]
                i = r
                if g < groups - 1:
                    r = r // m
                    i = i - r * m
                x = x + i * plan[at + 1]
                y = y + i * plan[at + 2]
            row(bits(x, Ptr[T]), bits(y, Ptr[T]), to, left, sa, sb, around, F=F, T=T)
