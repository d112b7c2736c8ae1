"""Products of a matrix with few vectors, which are as fast as the matrix can be read.

out[j, i] = Σ_k vectors[j, k] * matrix[i, k], for at most `J` vectors. A matrix whose rows (i) are
contiguous is read some rows at a time, each with sums in all lanes of a vector (`dots`); one whose
columns are contiguous is read in wide pieces of them, whose sums stay in registers (`sums`).

The vectors are brought together first, `DEPTH` numbers of each at a time, in the type of the sums;
the sums over these blocks are added in order, whatever the number of threads.
"""

from __future__ import annotations

from rushlight._codegen.kernel import kernel
from rushlight._codegen.kernels.gemm import (
    added,
    load_line,
    matrix_at,
    rounded_up,
    store_line,
)
from rushlight._codegen.kernels.header import geometry_of
from rushlight._codegen.kernels.shape_inference import dims_of, note, strides_of
from rushlight._codegen.kernels.shape_inference import shape_of as array_shape
from rushlight._codegen.language import *
from rushlight._codegen.native_entry import NDIM, RUN, SHAPE
from rushlight._codegen.runtime import abi
from rushlight._codegen.types import Header, Ptr, i32, i64

DEPTH = 2048
SIDE = 16  # numbers that are copied or added side by side
AHEAD, DOWN = 2048, 4  # bytes of a row, and rows, that are fetched before they are needed
CHUNK = 65536  # elements of the matrix that a chunk of the work reads at least
FEW, SOME = 4, 8  # vectors, at most: for columns, for rows


@routine
def dots(p, along, q, qj, k, rows, out, oj, oi, vectors, first, T, R, U, J, L, E=None):
    """out[j, i] (+)= Σ_k q[j * qj + k] * p[i * along + k] for R rows i of the matrix.

    Rows and vectors that do not exist are computed from the last one that does. U vectors of each
    row are added separately.
    """
    at = [p + min(rows - 1, r) * along for r in range(R)]
    by = [q + min(vectors - 1, j) * qj for j in range(J)]
    sums = [[[splat(T(0), L) for _ in range(U)] for _ in range(J)] for _ in range(R)]
    whole = k // (U * L) * (U * L)
    for e in range(0, whole, U * L):
        for u in unroll(U):
            vs = [load(by[j] + (e + u * L), L) for j in range(J)]
            for r in unroll(R):
                prefetch(at[r] + (e + u * L + AHEAD // (E or T).size))
                row = load(at[r] + (e + u * L), L)
                for j in unroll(J):
                    sums[r][j][u] = added(row, vs[j], sums[r][j][u])
    for e in range(whole, k, L):
        mask = iota(i32, L) < i32(k - e)
        vs = [load(by[j] + e, L, mask) for j in range(J)]
        for r in unroll(R):
            row = load(at[r] + e, L, mask)
            for j in unroll(J):
                sums[r][j][0] = added(row, vs[j], sums[r][j][0])
    for r in unroll(R):
        for j in unroll(J):
            for u in unroll(1, U):
                sums[r][j][0] = sums[r][j][0] + sums[r][j][u]
            if r < rows:
                if j < vectors:
                    x = total(sums[r][j][0])
                    if first:
                        out[j * oj + r * oi] = x
                    else:
                        out[j * oj + r * oi] += x


@inline
def gathered(q, qj, qk, own, vectors, k, E, T):
    """The first k numbers of some vectors, each contiguous, in the type of the sums: where they
    begin and how far the next vector is; `own` is memory for them where they are not yet so."""
    by, each = own, i64(DEPTH)
    if E is T:
        if qk == 1:
            by, each = q, qj
        else:
            gather_vectors(q, qj, qk, own, vectors, k)
    else:
        gather_vectors(q, qj, qk, own, vectors, k)
    return by, each


@routine
def gather_vectors(q, qj, qk, own, vectors, k):
    for j in range(vectors):
        if qk == 1:
            for d in range(0, k, SIDE):
                here = load_line(q + (j * qj + d), k - d, SIDE)
                store_line(own + (j * DEPTH + d), here, k - d, SIDE)
        else:
            for d in range(k):
                own[j * DEPTH + d] = q[j * qj + d * qk]


@inline
def plan(matrix, vectors, out, E, O):
    """What is to be read: n, k, count, the strides, and how many matrices there are."""
    dims, shape, strides = geometry_of(matrix)
    q_dims, _, q_strides = geometry_of(vectors)
    o_dims, o_shape, o_strides = geometry_of(out)
    batch = i64(1)
    for d in range(o_dims - 2):
        batch = batch * o_shape[d]
    n, k, count = o_shape[o_dims - 1], shape[dims - 1], i64(1)
    along, down = strides[dims - 2] // E.size, strides[dims - 1] // E.size
    qj, qk = i64(0), q_strides[q_dims - 1] // E.size
    oj, oi = i64(0), o_strides[o_dims - 1] // O.size
    if o_dims > 1:
        count, oj = o_shape[o_dims - 2], o_strides[o_dims - 2] // O.size
    if q_dims > 1:
        qj = q_strides[q_dims - 2] // E.size
    return n, k, count, along, down, qj, qk, oj, oi, batch


@inline
def places(z, matrix, vectors, out, E, O):
    """Where the matrix, the vectors and the results of number z begin."""
    dims, shape, strides = geometry_of(matrix)
    q_dims, q_shape, q_strides = geometry_of(vectors)
    o_dims, o_shape, o_strides = geometry_of(out)
    lead = o_dims - 2
    p, q = bits(matrix[abi.DATA], Ptr[E]), bits(vectors[abi.DATA], Ptr[E])
    to = bits(out[abi.DATA], Ptr[O])
    if lead > 0:
        p = p + matrix_at(z, o_shape, lead, dims, shape, strides) // E.size
        q = q + matrix_at(z, o_shape, lead, q_dims, q_shape, q_strides) // E.size
        to = to + matrix_at(z, o_shape, lead, o_dims, o_shape, o_strides) // O.size
    return p, q, to


@routine
def add_row(row, ri, rj, out, oj, oi, vectors, first, end):
    """out[j, i] += row[i * ri + j * rj], for i from `first` to `end`."""
    for j in range(vectors):
        to, by = out + j * oj, row + j * rj
        if (oi == 1) & (ri == 1):
            for i in range(first, end, SIDE):
                sum = load_line(to + i, end - i, SIDE) + load_line(by + i, end - i, SIDE)
                store_line(to + i, sum, end - i, SIDE)
        else:
            for i in range(first, end):
                to[i * oi] += by[i * ri]


@kernel(quick=True)
def rows(matrix: Header, vectors: Header, out: Header, row: Ptr[T], ri: i64, rj: i64):
    """out [..., j, i] from matrices [..., i, k] whose rows are contiguous and at most J vectors
    [..., j, k] for each; leading dimensions are broadcast to those of out. Unless `ri` and `rj` are 0,
    row[i * ri + j * rj] is added, where out is of the type of the sums."""
    n, k, count, along, _, qj, qk, oj, oi, batch = plan(matrix, vectors, out, E, O)
    much = CHUNK if E is T else 2 * CHUNK  # each chunk brings the vectors together anew
    each = rounded_up(much // k + 1, R)
    pieces = rounded_up(n, each) // each
    for lo, hi in parallel(batch * pieces, max(CHUNK // (n * k), 1)):
        own = array(T, DEPTH * J)
        for t in range(lo, hi):
            p, q, to = places(t // pieces, matrix, vectors, out, E, O)
            first = t % pieces * each
            for e in range(0, k, DEPTH):
                deep = min(k - e, DEPTH)
                by, step = gathered(q + e * qk, qj, qk, own, count, deep, E, T)
                for i in range(first, min(n, first + each), R):
                    dots(p + (i * along + e), along, by, step, deep, min(n - i, R), to + i * oi, oj,
                         oi, count, e == 0, T=T, R=R, U=U, J=J, L=L, E=E)  # fmt: skip
            if O is T:
                if ri + rj > 0:
                    add_row(row, ri, rj, to, oj, oi, count, first, min(n, first + each))


@routine
def sums(p, along, q, qj, k, left, out, oj, oi, vectors, first, T, V, J, L):
    """out[j, i] (+)= Σ_k q[j * qj + k] * p[k * along + i] for V * L columns i, or `left`."""
    masks = [iota(i32, L) < i32(left - v * L) for v in range(V)]
    by = [q + min(vectors - 1, j) * qj for j in range(J)]
    sums = [[splat(T(0), L) for _ in range(V)] for _ in range(J)]
    done = i64(0)
    if left >= V * L:  # without AVX-512 to load by a mask takes longer than to multiply
        for e in range(k):
            vs = [splat(by[j][e], L) for j in range(J)]
            for v in unroll(V):
                prefetch(p + (min(e + DOWN, k - 1) * along + v * L))
                row = load(p + (e * along + v * L), L)
                for j in unroll(J):
                    sums[j][v] = added(row, vs[j], sums[j][v])
        done = k
    for e in range(done, k):
        vs = [splat(by[j][e], L) for j in range(J)]
        for v in unroll(V):
            prefetch(p + (min(e + DOWN, k - 1) * along + v * L))
            row = load(p + (e * along + v * L), L, masks[v])
            for j in unroll(J):
                sums[j][v] = added(row, vs[j], sums[j][v])
    own = array(T, J * V * L)
    for j in unroll(J):
        for v in unroll(V):
            store(own + (j * V + v) * L, sums[j][v])
    deliver(own, i64(V * L), left, out, oj, oi, vectors, first, L=L)


@routine
def deliver(sums, wide, left, out, oj, oi, vectors, first, L):
    """out[j, i] (+)= sums[j * wide + i] for so many vectors and up to `left` columns."""
    for j in range(vectors):
        at, to, n = sums + j * wide, out + j * oj, min(left, wide)
        if oi == 1:
            for i in range(0, n, L):
                x = load(at + i, L)
                if not first:
                    x += load_line(to + i, n - i, L)
                store_line(to + i, x, n - i, L)
        else:
            for i in range(n):
                one = at[i]
                if not first:
                    one += to[i * oi]
                to[i * oi] = one


@kernel(quick=True)
def columns(matrix: Header, vectors: Header, out: Header, row: Ptr[T], ri: i64, rj: i64):
    """As `rows`, from matrices [..., i, k] whose columns are contiguous."""
    n, k, count, _, along, qj, qk, oj, oi, batch = plan(matrix, vectors, out, E, O)
    W = V * L
    much = CHUNK if E is T else 2 * CHUNK
    each = rounded_up(much // k + 1, W)
    pieces = rounded_up(n, each) // each
    for lo, hi in parallel(batch * pieces, max(CHUNK // (n * k), 1)):
        own = array(T, DEPTH * J)
        for t in range(lo, hi):
            p, q, to = places(t // pieces, matrix, vectors, out, E, O)
            first = t % pieces * each
            for e in range(0, k, DEPTH):
                deep = min(k - e, DEPTH)
                by, step = gathered(q + e * qk, qj, qk, own, count, deep, E, T)
                for i in range(first, min(n, first + each), W):
                    if n - i > W // 2:
                        sums(p + (i + e * along), along, by, step, deep, n - i, to + i * oi, oj, oi,
                             count, e == 0, T=T, V=V, J=J, L=L)  # fmt: skip
                    else:
                        sums(p + (i + e * along), along, by, step, deep, n - i, to + i * oi, oj, oi,
                             count, e == 0, T=T, V=max(V // 2, 1), J=J, L=L)  # fmt: skip
            if O is T:
                if ri + rj > 0:
                    add_row(row, ri, rj, to, oj, oi, count, first, min(n, first + each))


@kernel
def outer(a: Ptr[E], a0: i64, step: i64, b: Ptr[E], b0: i64, c: Ptr[E], batch: i64, n: i64, m: i64):
    """c [batch, n, m], all products of a [n], whose numbers are `step` apart, and b [m]; a0, b0: from one of the batch to the
    next."""
    for lo, hi in parallel(batch * n, 65536 // m + 1):
        for i in range(lo, hi):
            x, y, to = a[i // n * a0 + i % n * step], b + i // n * b0, c + i * m
            for j in lanes(0, m):
                to[j] = x * y[j]


@kernel
def infer_outer_added(
    E, N, input: Header, a: Header, b: Header, beta: N, alpha: N, plan: Ptr[i64]
):  # fmt: skip
    """The plan of `outer_added`; arrays whose columns are contiguous are taken the other way round, by the caller."""
    fits = (dims_of(input) == 2) & (dims_of(a) == 1) & (dims_of(b) == 1)
    if N is i64:
        fits = fits & (i64(E(beta)) == beta) & (i64(E(alpha)) == alpha)
    if fits:
        shape, (n, m) = array_shape(input), (array_shape(a)[0], array_shape(b)[0])
        s, t = strides_of(input)[0] // E.size, strides_of(input)[1] // E.size
        fits = (shape[0] == n) & (shape[1] == m) & (n * m > 0)
        fits = fits & ((strides_of(b)[0] == E.size) | (m == 1))
        fits = fits & ((t == 1) | (s != 1) | (n == 1) | (m == 1))
        plan[NDIM] = 2
        plan[SHAPE] = n
        plan[SHAPE + 1] = m
        note(
            plan, n * m, [n, m, strides_of(a)[0] // E.size, s, t, bits(beta, i64), bits(alpha, i64)]
        )
    plan[RUN] = i64(fits)


@kernel
def outer_added(
    N, to: Ptr[E], a: Ptr[E], b: Ptr[E], c: Ptr[E], n: i64, m: i64, step: i64, s: i64, t: i64,
    beta: N, alpha: N,
):  # fmt: skip
    """c [n, m]: beta times `to`, whose elements are s and t apart, plus alpha times `outer`; every step is rounded."""
    T = E.loaded
    for lo, hi in parallel(n, 32768 // m + 1):
        for i in range(lo, hi):
            x, y, z = T(E(T(E(T(alpha))) * a[i * step])), to + i * s, c + i * m
            if beta == 0:
                for j in lanes(0, m):
                    z[j] = x * b[j]
            elif t == 1:
                for j in lanes(0, m):
                    z[j] = T(E(T(E(T(beta))) * y[j])) + T(E(x * b[j]))
            else:
                for j in range(m):
                    z[j] = T(E(T(E(T(beta))) * y[j * t])) + T(E(x * b[j]))


@kernel
def dot(a: Ptr[E], b: Ptr[E], parts: Ptr[T], out: Ptr[E], n: i64):
    """out[0] = Σ a[i] * b[i], the sum of one of `parts` for every `CHUNK` products."""
    for lo, hi in parallel(n, CHUNK):
        sums = [splat(T(0), L) for _ in range(V)]
        whole = lo + (hi - lo) // (V * L) * (V * L)
        for e in range(lo, whole, V * L):
            for v in unroll(V):
                sums[v] = added(load(a + (e + v * L), L), load(b + (e + v * L), L), sums[v])
        for e in range(whole, hi, L):
            mask = iota(i32, L) < i32(hi - e)
            sums[0] = added(load(a + e, L, mask), load(b + e, L, mask), sums[0])
        for v in unroll(1, V):
            sums[0] = sums[0] + sums[v]
        parts[lo // CHUNK] = total(sums[0])
    all = T(0)
    for i in range(rounded_up(n, CHUNK) // CHUNK):
        all += parts[i]
    out[0] = all
