"""Products of a matrix with few vectors, which are as fast as the matrix can be read.

out[j, i] = Σ_k vectors[j, k] * matrix[i, k], for at most `J` vectors. A matrix whose rows (i) are
contiguous is read some rows at a time, each with sums in all lanes of a vector (`dots`); one whose
columns are contiguous is read in wide pieces of them, whose sums stay in registers (`sums`).

The vectors are brought together first, `DEPTH` numbers of each at a time, in the type of the sums;
the sums over these blocks are added in order, whatever the number of threads.
"""

from __future__ import annotations

from typing import Any

from rushlight.compiler.kernel import kernel
from rushlight.compiler.kernels import gemm
from rushlight.compiler.kernels.gemm import rounded_up, shape_of
from rushlight.compiler.language import (
    array,
    bits,
    fma,
    inline,
    iota,
    lane,
    load,
    parallel,
    prefetch,
    routine,
    splat,
    store,
    total,
    unroll,
)
from rushlight.compiler.types import HEAD, Header, Ptr, Type, i32, i64

DEPTH = 2048
AHEAD, DOWN = 512, 4  # numbers of a row, and rows, that are fetched before they are needed
CHUNK = 65536  # elements of the matrix that a chunk of the work reads at least
FEW, SOME = 4, 8  # vectors, at most: for columns, for rows


def sizes(element: Type, count: int) -> dict[str, Any]:
    """What the kernels for so many vectors and a matrix of one type are compiled for.

    Of J vectors at once: R rows and U vectors of each are read by `dots`, V vectors of columns by
    `sums`.
    """
    one = gemm.sizes(element.loaded)
    known = {"E": element, "T": one["T"], "L": one["L"]}
    wide = one["MR"] == 12  # 32 vector registers, not 16
    if count == 1:
        return {**known, "J": 1, "R": 2, "U": 4, "V": 16 if wide else 8}
    if count <= FEW:
        return {**known, "J": FEW, "R": 2, "U": 2 if wide else 1, "V": 4 if wide else 2}
    return {**known, "J": SOME, "R": 2 if wide else 1, "U": 1, "V": 2 if wide else 1}


@routine
def dots(p, along, q, qj, k, rows, out, oj, oi, vectors, first, T, R, U, J, L):
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
                prefetch(at[r] + (e + u * L + AHEAD))
                row = load(at[r] + (e + u * L), L)
                for j in unroll(J):
                    sums[r][j][u] = fma(row, vs[j], sums[r][j][u])
    for e in range(whole, k, L):
        mask = iota(i32, L) < i32(k - e)
        vs = [load(by[j] + e, L, mask) for j in range(J)]
        for r in unroll(R):
            row = load(at[r] + e, L, mask)
            for j in unroll(J):
                sums[r][j][0] = fma(row, vs[j], sums[r][j][0])
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
        for d in range(k):
            own[j * DEPTH + d] = q[j * qj + d * qk]


@kernel
def rows(matrix: Header, vectors: Header, out: Header):
    """out [j, i] from a matrix [i, k] whose rows are contiguous and at most J vectors [j, k]."""
    shape, strides = shape_of(matrix)[1:]
    q_shape, q_strides = shape_of(vectors)[1:]
    o_strides = shape_of(out)[2]
    n, k, count = shape[0], shape[1], q_shape[0]
    along, qj, qk = strides[0] // E.size, q_strides[0] // E.size, q_strides[1] // E.size
    oj, oi = o_strides[0] // T.size, o_strides[1] // T.size
    for lo, hi in parallel(n, rounded_up(CHUNK // k + 1, R)):
        own = array(T, DEPTH * J)
        p, q = bits(matrix[HEAD], Ptr[E]), bits(vectors[HEAD], Ptr[E])
        to = bits(out[HEAD], Ptr[T])
        for e in range(0, k, DEPTH):
            deep = min(k - e, DEPTH)
            by, each = gathered(q + e * qk, qj, qk, own, count, deep, E, T)
            for i in range(lo, hi, R):
                dots(p + (i * along + e), along, by, each, deep, min(hi - i, R), to + i * oi, oj, oi,
                     count, e == 0, T=T, R=R, U=U, J=J, L=L)  # fmt: skip


@routine
def sums(p, along, q, qj, k, left, out, oj, oi, vectors, first, T, V, J, L):
    """out[j, i] (+)= Σ_k q[j * qj + k] * p[k * along + i] for V * L columns i, or `left`."""
    masks = [iota(i32, L) < i32(left - v * L) for v in range(V)]
    by = [q + min(vectors - 1, j) * qj for j in range(J)]
    sums = [[splat(T(0), L) for _ in range(V)] for _ in range(J)]
    for e in range(k):
        vs = [splat(by[j][e], L) for j in range(J)]
        for v in unroll(V):
            prefetch(p + (min(e + DOWN, k - 1) * along + v * L))
            row = load(p + (e * along + v * L), L, masks[v])
            for j in unroll(J):
                sums[j][v] = fma(row, vs[j], sums[j][v])
    for j in unroll(J):
        if j < vectors:
            for v in unroll(V):
                to = out + (j * oj + v * L * oi)
                if oi == 1:
                    if first:
                        store(to, sums[j][v], masks[v])
                    else:
                        store(to, sums[j][v] + load(to, L, masks[v]), masks[v])
                else:
                    for i in unroll(L):
                        if v * L + i < left:
                            x = lane(sums[j][v], i)
                            if first:
                                to[i * oi] = x
                            else:
                                to[i * oi] += x


@kernel
def columns(matrix: Header, vectors: Header, out: Header):
    """out [j, i] from a matrix [i, k] whose columns are contiguous and at most J vectors [j, k]."""
    shape, strides = shape_of(matrix)[1:]
    q_shape, q_strides = shape_of(vectors)[1:]
    o_strides = shape_of(out)[2]
    n, k, count = shape[0], shape[1], q_shape[0]
    along, qj, qk = strides[1] // E.size, q_strides[0] // E.size, q_strides[1] // E.size
    oj, oi = o_strides[0] // T.size, o_strides[1] // T.size
    W = V * L
    for lo, hi in parallel(n, rounded_up(CHUNK // k + 1, W)):
        own = array(T, DEPTH * J)
        p, q = bits(matrix[HEAD], Ptr[E]), bits(vectors[HEAD], Ptr[E])
        to = bits(out[HEAD], Ptr[T])
        for e in range(0, k, DEPTH):
            deep = min(k - e, DEPTH)
            by, each = gathered(q + e * qk, qj, qk, own, count, deep, E, T)
            for i in range(lo, hi, W):
                if hi - i > W // 2:
                    sums(p + (i + e * along), along, by, each, deep, hi - i, to + i * oi, oj, oi,
                         count, e == 0, T=T, V=V, J=J, L=L)  # fmt: skip
                else:
                    sums(p + (i + e * along), along, by, each, deep, hi - i, to + i * oi, oj, oi,
                         count, e == 0, T=T, V=V // 2, J=J, L=L)  # fmt: skip


@kernel
def dot(a: Ptr[E], b: Ptr[E], parts: Ptr[T], out: Ptr[T], n: i64):
    """out[0] = Σ a[i] * b[i], the sum of one of `parts` for every `CHUNK` products."""
    for lo, hi in parallel(n, CHUNK):
        sums = [splat(T(0), L) for _ in range(V)]
        whole = lo + (hi - lo) // (V * L) * (V * L)
        for e in range(lo, whole, V * L):
            for v in unroll(V):
                sums[v] = fma(load(a + (e + v * L), L), load(b + (e + v * L), L), sums[v])
        for e in range(whole, hi, L):
            mask = iota(i32, L) < i32(hi - e)
            sums[0] = fma(load(a + e, L, mask), load(b + e, L, mask), sums[0])
        for v in unroll(1, V):
            sums[0] = sums[0] + sums[v]
        parts[lo // CHUNK] = total(sums[0])
    all = T(0)
    for i in range(rounded_up(n, CHUNK) // CHUNK):
        all += parts[i]
    out[0] = all
