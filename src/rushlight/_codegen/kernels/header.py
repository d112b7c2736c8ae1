"""What an array says of itself (Header): its shape, its strides, and how its elements lie in memory."""

from __future__ import annotations

from rushlight._codegen.language import *
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Ptr, b1, i32, i64


@inline
def dims_of(a):
    return i64(bits(a + abi.NDIM, Ptr[i32])[0])


@inline
def shape_of(a):
    return bits(a[abi.SHAPE], Ptr[i64])


@inline
def strides_of(a):
    return bits(a[abi.STRIDES], Ptr[i64])


@inline
def geometry_of(a):
    """Its number of dimensions, its shape, its strides in bytes."""
    return dims_of(a), shape_of(a), strides_of(a)


@inline
def size_of(a):
    n = i64(1)
    for k in range(dims_of(a)):
        n = n * shape_of(a)[k]
    return n


@inline
def in_order(a):
    """Whether an array is C-contiguous."""
    return (bits(a + abi.FLAGS, Ptr[i32])[0] & abi.C_CONTIGUOUS) != 0


@inline
def row_major(a):
    """Whether an array has the strides of a new one, along sizes of 1 too."""
    fits = in_order(a)
    step = bits(a[abi.DTYPE], Ptr[i64])[abi.DTYPE_SIZE] + 0
    for k in range(dims_of(a)):
        d = dims_of(a) - 1 - k
        fits = fits & (strides_of(a)[d] == step)
        step = step * shape_of(a)[d]
    return fits


@inline
def writeable(a):
    return (bits(a + abi.FLAGS, Ptr[i32])[0] & abi.WRITEABLE) != 0


@inline
def same_shape(a, b):
    fits = dims_of(a) == dims_of(b)
    if fits:
        for k in range(dims_of(a)):
            fits = fits & (shape_of(a)[k] == shape_of(b)[k])
    return fits


@inline
def same_strides(a, b):
    """Whether two arrays of one shape lie in memory alike."""
    fits = b1(1)
    for k in range(dims_of(a)):
        fits = fits & (strides_of(a)[k] == strides_of(b)[k])
    return fits


@inline
def dense(a, itemsize):
    """Whether the elements lie side by side, in any order of the dimensions: an elementwise function of such
    arrays goes through them in the order of memory."""
    length, total = itemsize, itemsize
    for k in range(dims_of(a)):
        total = total * shape_of(a)[k]
        for d in range(dims_of(a)):
            if (shape_of(a)[d] != 1) & (strides_of(a)[d] == length):
                length = length * shape_of(a)[d]
    return length == total


@inline
def strides_like(a, itemsize, size, strides):
    """Write the strides of an array that lies as `a`, with elements of another size."""
    for k in range(dims_of(a)):
        strides[k] = strides_of(a)[k] // itemsize * size


@inline
def matches(a, kind, plan, at):
    """Whether an object is an aligned array of a class with the dtype, shape and strides that the plan tells."""
    n = plan[at + 1]
    fits = a[abi.TYPE] == bits(kind, i64)
    if fits:
        fits = (a[abi.DTYPE] == plan[at]) & (dims_of(a) == n)
        fits = fits & (i32(a[abi.FLAGS]) & abi.ALIGNED != 0)
    if fits:
        for j in range(n):
            fits = fits & (shape_of(a)[j] == plan[at + 2 + j])
            fits = fits & (strides_of(a)[j] == plan[at + 2 + n + j])
    return fits
