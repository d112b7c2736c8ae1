"""Cross products, Kronecker products and traces."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.shape_inference import (
    at_axis,
    dims_of,
    in_order,
    like,
    note,
    shape_of,
    strides_of,
)
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import NDIM, RUN, SHAPE
from rushlight._codegen.types import Header, Ptr, f64, i64

GRAIN = 16384  # elements of a chunk
ROWS, COLUMNS = 1, 2


@kernel
def infer_cross(a: Header, b: Header, axis: i64, plan: Ptr[i64]):
    """The plan of the cross products of arrays of one shape, in order: of rows, or of columns."""
    fits, outer, n, inner = at_axis(a, axis)
    fits = fits & in_order(b) & (dims_of(a) == dims_of(b)) & (n == 3)
    plan[RUN] = 0
    if fits:
        for k in range(dims_of(a)):
            fits = fits & (shape_of(a)[k] == shape_of(b)[k])
        like(a, plan)
        note(plan, 3 * outer * inner, [outer, inner])
        if fits & (outer * inner > 0):
            plan[RUN] = i64(ROWS) if inner == 1 else i64(COLUMNS)


@inline
def crossed(E, a, b, out, step):
    """The product of one vector, whose numbers are `step` apart; every step is rounded."""
    T = E.loaded
    x, y, z = a[0], a[step], a[2 * step]
    u, v, w = b[0], b[step], b[2 * step]
    out[0] = T(E(y * w)) - T(E(z * v))
    out[step] = T(E(z * u)) - T(E(x * w))
    out[2 * step] = T(E(x * v)) - T(E(y * u))


@kernel
def cross_rows(a: Ptr[E], b: Ptr[E], out: Ptr[E], outer: i64, inner: i64):
    """The cross products of rows of three numbers."""
    for lo, hi in parallel(outer, GRAIN):
        for i in lanes(lo, hi):
            crossed(E, a + 3 * i, b + 3 * i, out + 3 * i, 1)


@kernel
def cross_columns(a: Ptr[E], b: Ptr[E], out: Ptr[E], outer: i64, inner: i64):
    """The cross products along the middle of [outer, 3, inner]."""
    for lo, hi in parallel(outer, GRAIN // inner + 1):
        for i in range(lo, hi):
            at = 3 * i * inner
            for j in lanes(at, at + inner):
                crossed(E, a + j, b + j, out + j, inner)


@kernel
def infer_kron(E, a: Header, b: Header, plan: Ptr[i64]):
    """The plan of the Kronecker product of two matrices, the rows of the second in order."""
    plan[RUN] = 0
    if (dims_of(a) == 2) & (dims_of(b) == 2):
        (m, n), (p, q) = (shape_of(a)[0], shape_of(a)[1]), (shape_of(b)[0], shape_of(b)[1])
        s, t = strides_of(a)[0] // E.size, strides_of(a)[1] // E.size
        plan[NDIM] = 2
        plan[SHAPE] = m * p
        plan[SHAPE + 1] = n * q
        note(plan, m * p * n * q, [m, n, p, q, s, t, strides_of(b)[0] // E.size])
        plan[RUN] = i64((m * n * p * q > 0) & ((strides_of(b)[1] == E.size) | (q == 1)))


@kernel
def kron(
    a: Ptr[E], b: Ptr[E], out: Ptr[E], m: i64, n: i64, p: i64, q: i64, s: i64, t: i64, row: i64
):  # fmt: skip
    """The Kronecker product of [m, n], whose elements are s and t apart, and [p, q]."""
    for lo, hi in parallel(m * p, GRAIN // (n * q) + 1):
        for r in range(lo, hi):
            x, y, z = a + r // p * s, b + r % p * row, out + r * n * q
            for j in range(n):
                by = x[j * t]
                for l in lanes(0, q):
                    z[j * q + l] = by * y[l]


@kernel
def infer_trace(SIZE, a: Header, plan: Ptr[i64]):
    """The plan of the trace of a matrix with any strides."""
    plan[RUN] = 0
    if dims_of(a) == 2:
        n = min(shape_of(a)[0], shape_of(a)[1])
        plan[NDIM] = 0
        note(plan, n, [n, (strides_of(a)[0] + strides_of(a)[1]) // SIZE])
        plan[RUN] = i64(n > 0)


@kernel
def trace(a: Ptr[E], out: Ptr[R], n: i64, step: i64):
    """The sum of n numbers, `step` apart, in float64 or int64."""
    W = f64 if R.is_float else i64
    s = W(0)
    for i in range(n):
        s = s + W(a[i * step])
    out[0] = R.loaded(s)
