"""The strides of results of elementwise functions: Note [Layouts of results] in core/geometry.py, as machine code.

Dimensions are counted from the last one here. Operands are addresses of arrays; one without dimensions stands for
nothing but that not all have the shape of the result.
"""

from __future__ import annotations

from rushlight._codegen.kernels import header
from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, b1, i64

DIMS = 8  # results of more dimensions are left to Python


@inline
def itemsize_of(a):
    return bits(a[abi.DTYPE], Ptr[i64])[abi.DTYPE_SIZE]


@inline
def dimension_order(s, t, p_size, q_size):
    """What the strides s and t of two dimensions say: (the first is further out, further in); neither where one is
    broadcast."""
    decided = (s != 0) & (t != 0)
    return decided & ((s > t) | ((s == t) & (p_size > q_size))), decided & (s < t)


@inline
def step_of(a, k, size):
    """The stride of dimension k of an operand, 0 where it is broadcast to `size`."""
    nd, step = header.dims_of(a), i64(0)
    if k < nd:
        own = header.shape_of(a)[nd - 1 - k]
        step = header.strides_of(a)[nd - 1 - k] if own == size else i64(0)
    return step


@inline
def channels_last(a):
    """Whether an array of 4 dimensions is contiguous as [N, H, W, C]; sizes of 1 say nothing."""
    fits, step = header.dims_of(a) == 4, itemsize_of(a)
    if fits:
        for j in unroll((1, 3, 2, 0)):
            n = header.shape_of(a)[j]
            fits = fits & ((n == 1) | (header.strides_of(a)[j] == step))
            step = step * n
    return fits


@inline
def pack(nd, sizes, order, size, strides):
    """Write the strides of dimensions in `order`, the innermost first, without gaps; whether they are in the order of
    C, of which a size of 0 counts as 1."""
    straight = b1(1)
    for k in range(nd):
        straight = straight & (order[k] == k)
    step = size + 0
    for k in range(nd):
        strides[nd - 1 - order[k]] = step
        n = sizes[order[k]]
        step = step * (max(n, i64(1)) if straight else n)
    return straight


@inline
def laid_like(operands, count, number, made, strides):
    """Write the strides in bytes of `made`, the result for `count` operands and, where `number`, one more."""
    nd, size = header.dims_of(made), itemsize_of(made)
    first = bits(operands[0], Header)
    same, ordered, last, alike = number == 0, b1(1), b1(1), b1(1)
    for k in range(count):
        a = bits(operands[k], Header)
        if same:
            same = header.same_shape(a, made)
        if same:
            ordered = ordered & header.in_order(a)
            last = last & channels_last(a)
            own, of_first = itemsize_of(a), itemsize_of(first)
            for j in range(nd):
                alike = alike & (
                    header.strides_of(a)[j] * of_first == header.strides_of(first)[j] * own
                )
    sizes, order = array(i64, DIMS), array(i64, DIMS)
    for k in range(nd):
        sizes[k] = header.shape_of(made)[nd - 1 - k]
        order[k] = k
    kept = b1(0)
    if same & (not ordered) & (not last) & alike:
        kept = header.dense(first, itemsize_of(first))
    if kept:
        of_first = itemsize_of(first)
        for j in range(nd):
            strides[j] = header.strides_of(first)[j] // of_first * size
    else:
        if same & (not ordered) & last:
            order[0] = 2
            order[1] = 0
            order[2] = 1
        elif not (same & ordered):
            for k in range(nd):
                at = k + 0
                for back in range(k):
                    i, p, q = k - 1 - back, order[k - 1 - back], order[at]
                    larger, smaller = b1(0), b1(0)
                    for o in range(count):
                        a = bits(operands[o], Header)
                        s, t = step_of(a, p, sizes[p]), step_of(a, q, sizes[q])
                        larger, smaller = dimension_order(s, t, sizes[p], sizes[q])
                        if larger | smaller:
                            break
                    if larger:
                        order[i] = q
                        order[at] = p
                        at = i + 0
                    if smaller:
                        break
        pack(nd, sizes, order, size, strides)


# What is said of a result: it lies as it should, only strides that say nothing differ, or elements lie elsewhere.
RIGHT, RENAMED, WRONG = range(3)


@inline
def has_layout_of(a, made):
    """Whether a result without sizes below 2 has the shape and the strides of its first operand: then no other has a
    say. The quick answer to most questions. Row-major arrays of one such shape have the same strides."""
    nd = header.dims_of(made)
    right = header.dims_of(a) == nd
    if right:
        ordered = header.in_order(a) & header.in_order(made)
        size, own = itemsize_of(made), itemsize_of(a)
        for k in range(nd):
            n = header.shape_of(made)[k]
            right = (n > 1) & (header.shape_of(a)[k] == n)
            if right & (not ordered):
                right = header.strides_of(a)[k] * size == header.strides_of(made)[k] * own
            if not right:
                break
    return right


@inline
def as_new(made):
    """Whether an array has the strides of a new one; not where there are sizes of 0."""
    right, step = b1(1), itemsize_of(made)
    for k in range(header.dims_of(made)):
        d = header.dims_of(made) - 1 - k
        right = right & (header.strides_of(made)[d] == step) & (header.shape_of(made)[d] > 0)
        step = step * header.shape_of(made)[d]
    return right


@inline
def has_right_strides(operands, count, made):
    """Whether a result has the strides of a new array, and its operands are row-major and of its shape, or one of
    these beside numbers is like a new one, or no size is below 2."""
    right = as_new(made)
    if right:
        clear, same, new = b1(1), b1(1), count > 0
        for k in range(header.dims_of(made)):
            clear = clear & (header.shape_of(made)[k] > 1)
        for k in range(count):
            a = bits(operands[k], Header)
            right = right & header.in_order(a)
            same = same & header.same_shape(a, made)
        if (count == 1) & same:
            new = as_new(bits(operands[0], Header))
        right = right & (clear | (same & ((count > 1) | new)))
    return right


@routine
def compared(operands, count, number, made, strides):
    """Whether a result lies as it should; the strides that it should have are written."""
    found, empty = i64(RIGHT), b1(0)
    if header.dims_of(made) > DIMS:
        found = i64(WRONG)
    else:
        laid_like(operands, count, number, made, strides)
        for k in range(header.dims_of(made)):
            if strides[k] != header.strides_of(made)[k]:
                found = max(found, i64(RENAMED) if header.shape_of(made)[k] == 1 else i64(WRONG))
            empty = empty | (header.shape_of(made)[k] == 0)
        if empty:
            found = min(found, i64(RENAMED))
    return found
