"""Products of matrices of a few elements, in whole: what BLAS takes to begin is longer than what these take."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.rows import width
from rushlight._codegen.kernels.shape_inference import dims_of, in_order, shape_of, strides_of
from rushlight._codegen.language import fma, inline, iota, load, splat, store, total
from rushlight._codegen.native_entry import NDIM, NUMBERS, RUN, SHAPE, WORK
from rushlight._codegen.types import Header, Ptr, i64

MOST = 4096  # cycles that these may take, as they are estimated: NumPy needs some more to begin
ROWS, DOTS, ELEMENTS = (
    1,
    2,
    3,
)  # how: vectors of rows of b, sums of rows of a and columns of b, neither


@inline
def infer(T, a, b, turned, plan):
    """The plan of [batch, m, k] @ [batch, k, n], or of matrices and vectors; `turned`: b is [n, k].

    The numbers are batch, m, k, n, the strides of a and b in elements, outermost first, and how to compute.
    """
    SIZE = T.size
    na, nb = dims_of(a), dims_of(b)
    a_shape, b_shape, a_strides, b_strides = shape_of(a), shape_of(b), strides_of(a), strides_of(b)
    batch, m, n, k, l = i64(1), i64(1), i64(1), i64(0), i64(-1)
    nd, a0, a1, a2, b0, b1, b2 = i64(0), i64(0), i64(0), i64(0), i64(0), i64(0), i64(0)
    fits = (na > 0) & (nb > 0) & (na <= 3) & (nb <= 3)
    fits = fits & ((na == nb) | ((na < 3) & (nb < 3)))
    if fits:
        if na == 3:
            batch, a0, b0 = a_shape[0], a_strides[0], b_strides[0]
            fits = b_shape[0] == batch
            plan[SHAPE] = batch
            nd = 1
        if na > 1:
            m, a1 = a_shape[na - 2], a_strides[na - 2]
            plan[SHAPE + nd] = m
            nd = nd + 1
        k, a2 = a_shape[na - 1], a_strides[na - 1]
        if nb > 1:
            l, n, b1, b2 = b_shape[nb - 2], b_shape[nb - 1], b_strides[nb - 2], b_strides[nb - 1]
            if turned:
                l, n, b1, b2 = n, l, b2, b1
            plan[SHAPE + nd] = n
            nd = nd + 1
        else:
            l, b1 = b_shape[0], b_strides[0]
            b2 = i64(SIZE)
    L, results = width(T), batch * m * n
    how, cycles = i64(ELEMENTS), results * (4 + 4 * k)
    if (b1 == SIZE) & (a2 == SIZE):
        how, cycles = i64(DOTS), results * (12 + 4 * (k // L))
    by_rows = batch * m * ((n + (L - 1)) // L) * (8 + 4 * k)
    if (b2 == SIZE) & (by_rows < cycles):
        how, cycles = i64(ROWS), by_rows
    work = results * k
    plan[RUN] = i64(fits & (k == l) & (work > 0) & (cycles <= MOST))
    plan[WORK] = work
    plan[NDIM] = nd
    plan[NUMBERS] = batch
    plan[NUMBERS + 1] = m
    plan[NUMBERS + 2] = k
    plan[NUMBERS + 3] = n
    plan[NUMBERS + 4] = a0 // SIZE
    plan[NUMBERS + 5] = a1 // SIZE
    plan[NUMBERS + 6] = a2 // SIZE
    plan[NUMBERS + 7] = b0 // SIZE
    plan[NUMBERS + 8] = b1 // SIZE
    plan[NUMBERS + 9] = b2 // SIZE
    plan[NUMBERS + 10] = how


@kernel
def infer_product(T, A, B, a: Header, b: Header, plan: Ptr[i64]):
    """The plan of a product of arrays of A and B dimensions; of any (0) that `infer` takes."""
    infer(T, a, b, False, plan)
    if A > 0:
        if (dims_of(a) != A) | (dims_of(b) != B):
            plan[RUN] = 0


@kernel
def infer_linear(T, a: Header, weight: Header, bias: Header, plan: Ptr[i64]):
    """The plan of a [m, k] @ weight [n, k]ᵀ + bias [n]."""
    infer(T, a, weight, True, plan)
    fits = (dims_of(a) == 2) & (dims_of(weight) == 2) & (dims_of(bias) == 1) & in_order(bias)
    if fits:
        fits = shape_of(bias)[0] == plan[NUMBERS + 3]
    if not fits:
        plan[RUN] = 0


@inline
def multiply(T, a, b, row, out, batch, m, k, n, a0, a1, a2, b0, b1, b2, how):
    """out = a @ b, plus a row unless it is None."""
    L = width(T)
    for i in range(batch * m):
        g = i // m
        p, q, to = a + (g * a0 + (i - g * m) * a1), b + g * b0, out + i * n
        if how == ROWS:
            for j in range(0, n, L):
                here = iota(i64, L) < n - j
                s = splat(T(0), L) if row is None else load(row + j, L, here)
                for e in range(k):
                    s = fma(splat(p[e * a2], L), load(q + (e * b1 + j), L, here), s)
                store(to + j, s, here)
        elif how == DOTS:
            for j in range(n):
                s = splat(T(0), L)
                for e in range(0, k, L):
                    here = iota(i64, L) < k - e
                    s = fma(load(p + e, L, here), load(q + (j * b2 + e), L, here), s)
                to[j] = total(s) if row is None else total(s) + row[j]
        else:
            for j in range(n):
                x = T(0) if row is None else row[j]
                for e in range(k):
                    x = fma(p[e * a2], q[e * b1 + j * b2], x)
                to[j] = x


@kernel
def product(
    a: Ptr[T], b: Ptr[T], out: Ptr[T], batch: i64, m: i64, k: i64, n: i64,
    a0: i64, a1: i64, a2: i64, b0: i64, b1: i64, b2: i64, how: i64,
):  # fmt: skip
    """[batch, m, k] @ [batch, k, n]."""
    multiply(T, a, b, None, out, batch, m, k, n, a0, a1, a2, b0, b1, b2, how)


@kernel
def linear(
    a: Ptr[T], b: Ptr[T], row: Ptr[T], out: Ptr[T], batch: i64, m: i64, k: i64, n: i64,
    a0: i64, a1: i64, a2: i64, b0: i64, b1: i64, b2: i64, how: i64,
):  # fmt: skip
    """The same, plus a row."""
    multiply(T, a, b, row, out, batch, m, k, n, a0, a1, a2, b0, b1, b2, how)
