"""Functions of two arrays of different shapes, as NumPy broadcasts them, or with gaps in memory.

NumPy calls a loop once for each row, in one thread. Here one call goes over all rows: `infer` says
how the arrays are walked, `broadcast` does it. `ufunc_entry.py` stands between them and NumPy.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.elementwise import STREAM, WIDTH
from rushlight._codegen.kernels.header import (
    dense,
    dims_of,
    same_shape,
    same_strides,
    shape_of,
    size_of,
    strides_like,
    strides_of,
)
from rushlight._codegen.kernels.rows import width
from rushlight._codegen.language import *
from rushlight._codegen.types import Header, Ptr, i64, u8

DIMS = 8  # arrays of more dimensions are NumPy's
PIECE = 16384  # elements of a row that is cut
GRAIN = 32768  # elements in a chunk

# A plan: whether it is one, elements, groups of dimensions, dimensions, whether the result has strides of its own,
# its shape, and of each group, innermost first, its size and the strides of both arrays in bytes; strides.
FITS, TOTAL, GROUPS, NDIM, PERMUTED, SHAPE = range(6)
GROUP = SHAPE + DIMS
STRIDES = GROUP + 3 * DIMS
PLAN = STRIDES + DIMS


@kernel
def infer(a: Header, b: Header, plan: Ptr[i64]):
    """The plan for two arrays; plan[FITS] = 0 where they do not broadcast, or the result would not
    be C-contiguous."""
    na, nb = dims_of(a), dims_of(b)
    a_shape, a_strides = shape_of(a), strides_of(a)
    b_shape, b_strides = shape_of(b), strides_of(b)
    nd = max(na, nb)
    fits = nd <= DIMS
    plan[NDIM] = nd
    total, groups = i64(1), i64(0)
    n, sa, sb = i64(1), i64(0), i64(0)  # the group that dimensions are put into
    last_a, last_b = i64(0), i64(0)
    if fits:
        for k in range(nd):
            d, e, ta, tb = i64(1), i64(1), i64(0), i64(0)
            if k < na:
                d, ta = a_shape[na - 1 - k], a_strides[na - 1 - k]
            if k < nb:
                e, tb = b_shape[nb - 1 - k], b_strides[nb - 1 - k]
            fits = fits & ((d == e) | (d == 1) | (e == 1))
            ta = i64(0) if d == 1 else ta
            tb = i64(0) if e == 1 else tb
            m = e if d == 1 else d
            plan[SHAPE + nd - 1 - k] = m
            total = total * m
            # NumPy lays a result out as its inputs are: inner dimensions are those of small strides.
            fits = fits & ((ta >= last_a) | (ta == 0)) & ((tb >= last_b) | (tb == 0))
            fits = fits & (ta >= 0) & (tb >= 0)
            last_a = ta if ta > 0 else last_a
            last_b = tb if tb > 0 else last_b
            if m != 1:
                if n == 1:
                    n, sa, sb = m, ta, tb
                elif (ta == n * sa) & (tb == n * sb):
                    n = n * m
                else:
                    at = GROUP + 3 * groups
                    plan[at] = n
                    plan[at + 1] = sa
                    plan[at + 2] = sb
                    groups = groups + 1
                    n, sa, sb = m, ta, tb
        at = GROUP + 3 * groups
        plan[at] = n
        plan[at + 1] = sa
        plan[at + 2] = sb
    plan[GROUPS] = groups + 1
    plan[TOTAL] = total
    plan[FITS] = i64(fits)
    plan[PERMUTED] = 0


@kernel
def infer_dense(a: Header, b: Header, itemsize: i64, size: i64, plan: Ptr[i64]):
    """The plan for two dense arrays with the same strides, or for one and a number, with a result of elements
    of `size` bytes, which gets these strides."""
    whole = b if dims_of(a) == 0 else a
    fits = (dims_of(whole) <= DIMS) & dense(whole, itemsize)
    if (dims_of(a) != 0) & (dims_of(b) != 0):
        if fits:
            fits = same_shape(a, b)
        if fits:
            fits = same_strides(a, b)
    if fits:
        plan[NDIM] = dims_of(whole)
        plan[TOTAL] = size_of(whole)
        plan[GROUPS] = 1
        plan[PERMUTED] = 1
        for k in range(dims_of(whole)):
            plan[SHAPE + k] = shape_of(whole)[k]
        strides_like(whole, itemsize, size, plan + STRIDES)
        plan[GROUP] = plan[TOTAL]
        plan[GROUP + 1] = i64(0) if dims_of(a) == 0 else itemsize
        plan[GROUP + 2] = i64(0) if dims_of(b) == 0 else itemsize
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
    else:
        p, q = bits(x, Ptr[u8]), bits(y, Ptr[u8])
        for i in range(n):
            out[i] = F(bits(p + i * sa, Ptr[T])[0], bits(q + i * sb, Ptr[T])[0])


@kernel
def broadcast(F, T, B, plan: Ptr[i64], a: i64, b: i64, address: i64):
    """out = F(a, b), C-contiguous, of addresses."""
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
