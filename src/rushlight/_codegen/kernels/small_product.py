"""Products of matrices of a few elements, in whole: what BLAS takes to begin is longer than what these take."""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import added
from rushlight._codegen.kernels.shape_inference import dims_of, in_order, shape_of, strides_of
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import NDIM, NONE, NUMBERS, RUN, SHAPE, WORK
from rushlight._codegen.types import Header, Ptr, i64, width

MOST = 8192  # cycles that these may take, as they are estimated: larger ones are worth a plan
SIDE = 4  # rows, or columns, whose sums run side by side
# Vectors of rows of b; sums of rows of a and columns of b; vectors of columns of a: the transposed product; none.
ROWS, DOTS, COLUMNS, ELEMENTS = 1, 2, 3, 4


@inline
def infer(E, a, b, transposed, plan):
    """The plan of a @ b, each a batch of matrices, a matrix or a vector; `transposed`: b is [..., n, k].

    The numbers are batch, m, k, n, the strides of a and b in elements, outermost first, and how to compute.
    """
    SIZE = E.size
    na, nb = dims_of(a), dims_of(b)
    a_shape, b_shape, a_strides, b_strides = shape_of(a), shape_of(b), strides_of(a), strides_of(b)
    batch, m, n, k, l = i64(1), i64(1), i64(1), i64(0), i64(-1)
    nd, a0, a1, a2, b0, b1, b2 = i64(0), i64(0), i64(0), i64(0), i64(0), i64(0), i64(0)
    fits = (na > 0) & (nb > 0) & (na <= 3) & (nb <= 3)
    if fits:
        if (na == 3) | (nb == 3):
            if na == 3:
                batch, a0 = a_shape[0], a_strides[0]
            if nb == 3:
                b0 = b_strides[0]
                if na == 3:
                    fits = b_shape[0] == batch
                batch = b_shape[0]
            plan[SHAPE] = batch
            nd = 1
        if na > 1:
            m, a1 = a_shape[na - 2], a_strides[na - 2]
            plan[SHAPE + nd] = m
            nd = nd + 1
        k, a2 = a_shape[na - 1], a_strides[na - 1]
        if nb > 1:
            l, n, b1, b2 = b_shape[nb - 2], b_shape[nb - 1], b_strides[nb - 2], b_strides[nb - 1]
            if transposed:
                l, n, b1, b2 = n, l, b2, b1
            plan[SHAPE + nd] = n
            nd = nd + 1
        else:
            l, b1 = b_shape[0], b_strides[0]
            b2 = i64(SIZE)
    if (nb < 3) & (a0 == m * a1):  # all rows are multiplied by one matrix
        m, batch = batch * m, i64(1)
    L, results = width(E), batch * m * n
    beside = batch * m * ((n + (SIDE - 1)) // SIDE)
    how, cycles = i64(ELEMENTS), beside * (16 + 8 * k)
    if (b1 == SIZE) & (a2 == SIZE):
        how, cycles = i64(DOTS), beside * (40 + 6 * (k // L))
    rows = batch * ((m + (SIDE - 1)) // SIDE) * ((n + (L - 1)) // L) * (16 + 5 * k)
    if (b2 == SIZE) & (rows < cycles):
        how, cycles = i64(ROWS), rows
    columns = batch * ((n + (SIDE - 1)) // SIDE) * ((m + (L - 1)) // L) * (48 + 5 * k)
    if (a1 == SIZE) & (columns < cycles):
        how, cycles = i64(COLUMNS), columns
        m, n, a1, a2, b1, b2, a0, b0 = n, m, b2, b1, a2, a1, b0, a0
    plan[RUN] = i64(fits & (k == l) & (results > 0) & (cycles <= MOST))
    plan[WORK] = results * k
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
def infer_product(E, A, B, a: Header, b: Header, plan: Ptr[i64]):
    """The plan of a product of arrays of A and B dimensions; of any (0) that `infer` takes."""
    infer(E, a, b, False, plan)
    if A > 0:
        if (dims_of(a) != A) | (dims_of(b) != B):
            plan[RUN] = 0


@kernel
def infer_linear(E, a: Header, weight: Header, bias: Header, plan: Ptr[i64]):
    """The plan of a [..., k] @ weight [n, k]ᵀ + bias [n]."""
    infer(E, a, weight, True, plan)
    fits = (dims_of(weight) == 2) & (dims_of(bias) == 1) & in_order(bias)
    if fits:
        fits = shape_of(bias)[0] == shape_of(weight)[0]
    if not fits:
        plan[RUN] = 0


@kernel
def infer_turned(E, a: Header, weight: Header, bias: i64, plan: Ptr[i64]):
    """The same without a bias: None."""
    infer(E, a, weight, True, plan)
    if (dims_of(weight) != 2) | (bias != NONE):
        plan[RUN] = 0


@kernel
def infer_accumulate(E, N, input: Header, a: Header, b: Header, beta: N, alpha: N, plan: Ptr[i64]):
    """The plan of beta * input + alpha * (a @ b); behind the numbers of the product follow the strides of `input`,
    which is broadcast to the result, then beta and alpha."""
    infer(E, a, b, False, plan)
    nd, ni = plan[NDIM], dims_of(input)
    fits = (plan[RUN] != 0) & (ni <= nd)
    if N is i64:
        fits = fits & (i64(E(beta)) == beta) & (i64(E(alpha)) == alpha)
    steps = [i64(0), i64(0), i64(0)]
    if fits:
        first = 3 - nd  # of batch, rows and columns, the one that is the result's first dimension
        if dims_of(b) == 1:
            first = 2 - nd
        for d in unroll(3):
            at = d - first
            mine = at - (nd - ni)
            if (mine >= 0) & (at < nd):
                n = shape_of(input)[mine]
                fits = fits & ((n == 1) | (n == plan[SHAPE + at]))
                if n != 1:
                    steps[d] = strides_of(input)[mine] // E.size
    plan[RUN] = i64(fits)
    for d in unroll(3):
        plan[NUMBERS + 11 + d] = steps[d]
    plan[NUMBERS + 14] = bits(beta, i64)
    plan[NUMBERS + 15] = bits(alpha, i64)


@inline
def finished(x, at, step, left, L, beta, alpha):
    """alpha times sums plus beta times what stands `step` apart; x itself without `at`."""
    if at is not None:
        T = typeof(x)
        if step == 1:
            more = load(at, L, iota(i64, L) < left)
        else:
            own = array(T, L)
            for e in range(min(left, i64(L))):
                own[e] = at[e * step]
            more = load(own, L)
        x = x * splat(T(alpha), L)
        if beta != 0:
            x = added(more, splat(T(beta), L), x)
    return x


@inline
def multiply(
    E, a, b, to, batch, m, k, n, a0, a1, a2, b0, b1, b2, how, base, s0, s1, s2, beta, alpha
):
    """to = a @ b, or alpha * (a @ b) + beta * base, unless that is None: its elements stand s0, s1 and s2 apart."""
    T, L = E.loaded, width(E)
    down, along, t1, t2 = n, i64(1), s1, s2  # from row to row of the result, and in it; of `base`
    if how == COLUMNS:
        a, b = b, a
        down, along, t1, t2 = i64(1), m, s2, s1
    for g in range(batch):
        p, q, out = a + g * a0, b + g * b0, to + g * m * n
        more = None if base is None else base + g * s0
        if (how == ROWS) | (how == COLUMNS):
            for i in range(0, m, SIDE):
                rows = [min(m - 1, i + r) for r in range(SIDE)]
                for j in range(0, n, L):
                    here = iota(i64, L) < n - j
                    sums = [splat(T(0), L) for _ in range(SIDE)]
                    done = i64(0)
                    if n - j >= L:  # to load by a mask takes longer than to multiply
                        for e in range(k):
                            x = load(q + (e * b1 + j), L)
                            for r in unroll(SIDE):
                                sums[r] = added(x, splat(p[rows[r] * a1 + e * a2], L), sums[r])
                        done = k
                    for e in range(done, k):
                        x = load(q + (e * b1 + j), L, here)
                        for r in unroll(SIDE):
                            sums[r] = added(x, splat(p[rows[r] * a1 + e * a2], L), sums[r])
                    for r in unroll(SIDE):
                        at = None if base is None else more + (rows[r] * t1 + j * t2)
                        x = finished(sums[r], at, t2, n - j, L, beta, alpha)
                        there = out + (rows[r] * down + j * along)
                        if along == 1:
                            store(there, x, here)
                        else:
                            transposed = array(T, L)
                            store(transposed, x)
                            for each in range(min(n - j, i64(L))):
                                there[each * along] = transposed[each]
        else:
            for i in range(m):
                for j in range(0, n, SIDE):
                    columns = [min(n - 1, j + c) for c in range(SIDE)]
                    own = array(T, SIDE)
                    if how == DOTS:
                        sums = [splat(T(0), L) for _ in range(SIDE)]
                        for e in range(0, k, L):
                            here = iota(i64, L) < k - e
                            x = load(p + (i * a1 + e), L, here)
                            for c in unroll(SIDE):
                                y = load(q + (columns[c] * b2 + e), L, here)
                                sums[c] = added(x, y, sums[c])
                        for c in unroll(SIDE):
                            own[c] = total(sums[c])
                    else:
                        singles = [T(0) for _ in range(SIDE)]
                        for e in range(k):
                            one = p[i * a1 + e * a2]
                            for c in unroll(SIDE):
                                singles[c] = added(one, q[e * b1 + columns[c] * b2], singles[c])
                        for c in unroll(SIDE):
                            own[c] = singles[c]
                    at = None if base is None else more + (i * s1 + j * s2)
                    few = finished(load(own, SIDE), at, s2, n - j, SIDE, beta, alpha)
                    store(out + (i * n + j), few, iota(i64, SIDE) < n - j)


@kernel
def product(
    a: Ptr[E], b: Ptr[E], out: Ptr[E], batch: i64, m: i64, k: i64, n: i64,
    a0: i64, a1: i64, a2: i64, b0: i64, b1: i64, b2: i64, how: i64,
):  # fmt: skip
    """[batch, m, k] @ [batch, k, n]."""
    multiply(
        E, a, b, out, batch, m, k, n, a0, a1, a2, b0, b1, b2, how, None, 0, i64(0), i64(0), 1, 1
    )


@kernel
def linear(
    a: Ptr[E], b: Ptr[E], row: Ptr[E], out: Ptr[E], batch: i64, m: i64, k: i64, n: i64,
    a0: i64, a1: i64, a2: i64, b0: i64, b1: i64, b2: i64, how: i64,
):  # fmt: skip
    """The same, plus a row."""
    multiply(
        E, a, b, out, batch, m, k, n, a0, a1, a2, b0, b1, b2, how, row, 0, i64(0), i64(1), 1, 1
    )


@kernel
def accumulate(
    N, input: Ptr[E], a: Ptr[E], b: Ptr[E], out: Ptr[E], batch: i64, m: i64, k: i64, n: i64,
    a0: i64, a1: i64, a2: i64, b0: i64, b1: i64, b2: i64, how: i64, s0: i64, s1: i64, s2: i64,
    beta: N, alpha: N,
):  # fmt: skip
    """alpha times the same plus beta times `input`."""
    multiply(
        E, a, b, out, batch, m, k, n, a0, a1, a2, b0, b1, b2, how, input, s0, s1, s2, beta, alpha
    )
