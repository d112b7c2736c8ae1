"""Factorizations and solvers on stacks of matrices [..., n, m].

What LAPACK does for NumPy is NumPy's; what NumPy lacks (LU, triangular systems, indefinite symmetric
factorizations) stands here, in double precision, blocked, so that most of the work is matrix products, and
over the whole stack at once. `_backends/llvm/linalg.py` has LAPACK do these too. Matrices lie column by column in
results, but for L, U and P of an LU factorization.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends.reference.layout import as_new
from rushlight._backends.reference.products import adjoint, matmul
from rushlight.core import geometry
from rushlight.core.errors import LinAlgError

KERNELS = (
    "cholesky cholesky_inverse cholesky_solve det eig eigh eigvals eigvalsh geqrf householder_product inv "
    "ldl_factor ldl_solve lu_factor lu_solve lu_unpack matrix_exp ormqr pinv qr slogdet solve solve_triangular "
    "svd svdvals"
).split()

BLOCK = 32  # columns that are worked on one by one before a product brings the rest up to date


def wide(a: np.ndarray) -> np.ndarray:
    """`a` in double precision."""
    return a.astype(np.complex128 if a.dtype.kind == "c" else np.float64, copy=False)


def columns(a: np.ndarray) -> np.ndarray:
    """`a` with its matrices column by column in memory, as LAPACK and so PyTorch leaves them."""
    return as_new(np.ascontiguousarray(a.swapaxes(-1, -2))).swapaxes(-1, -2)


def real_dtype(a: np.ndarray) -> np.dtype:
    return np.zeros((), a.dtype).real.dtype


def stack(*arrays: np.ndarray) -> list[np.ndarray]:
    """The arrays with their leading dimensions (all but two) broadcast against each other."""
    lead = geometry.broadcast_shapes(*(a.shape[:-2] for a in arrays))
    return [np.broadcast_to(a, (*lead, *a.shape[-2:])) for a in arrays]


# -- LU --------------------------------------------------------------------------------------------


def lu_factor(a: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(LU, pivots counted from 1, info): A = P L U with L and U in one array, as LAPACK's getrf.

    `info`: 0, or the number of the first zero on the diagonal of U.
    """
    *lead, m, n = a.shape
    k = min(m, n)
    count = prod(lead)
    w = wide(a).reshape(count, m, n).copy()
    rows = np.arange(count)
    pivots = np.empty((count, k), np.int32)
    with np.errstate(all="ignore"):
        for start in range(0, k, BLOCK):
            stop = min(start + BLOCK, k)
            for j in range(start, stop):
                p = np.full(count, j)
                if count:
                    size = magnitude(w[:, j:, j])
                    size[np.isnan(size)] = -1
                    p = size.argmax(1) + j
                    if (p != j).any():
                        w[rows, p], w[:, j] = w[:, j].copy(), w[rows, p].copy()
                pivots[:, j] = p + 1
                top = w[:, j, j, None]
                w[:, j + 1 :, j] = np.where(top == 0, w[:, j + 1 :, j], w[:, j + 1 :, j] / top)
                w[:, j + 1 :, j + 1 : stop] -= w[:, j + 1 :, j, None] * w[:, None, j, j + 1 : stop]
            if stop < n:
                w[:, start:stop, stop:] = substitute(
                    w[:, start:stop, start:stop], w[:, start:stop, stop:], True
                )
                w[:, stop:, stop:] -= np.matmul(w[:, stop:, start:stop], w[:, start:stop, stop:])
    zero = w[:, range(k), range(k)] == 0
    info = np.where(zero.any(1), zero.argmax(1) + 1, 0) if k else np.zeros(count)
    return (
        columns(w.reshape(a.shape)).astype(a.dtype, order="K", copy=False),
        pivots.reshape(*lead, k),
        info.astype(np.int32).reshape(lead),
    )


def magnitude(a: np.ndarray) -> np.ndarray:
    """What LAPACK's pivoting compares: |re| + |im|."""
    return np.abs(a.real) + np.abs(a.imag) if a.dtype.kind == "c" else np.abs(a)


def permutation(pivots: np.ndarray, m: int) -> np.ndarray:
    """The order of the rows that a list of exchanges (counted from 1) leads to, [..., m]."""
    flat = pivots.reshape(prod(pivots.shape[:-1]), pivots.shape[-1])
    order = np.broadcast_to(np.arange(m), (len(flat), m)).copy()
    rows = np.arange(len(flat))
    for j in range(flat.shape[1]):
        p = flat[:, j] - 1
        order[rows, p], order[:, j] = order[:, j].copy(), order[rows, p].copy()
    return order.reshape(*pivots.shape[:-1], m)


def lu_unpack(lu: np.ndarray, pivots: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(P, L, U) of what `lu_factor` returned."""
    m, n = lu.shape[-2:]
    k = min(m, n)
    order = permutation(pivots, m)
    p = np.zeros((*order.shape, m), lu.dtype)
    np.put_along_axis(p, order[..., None, :], 1, -2)
    low = np.tril(lu[..., :k], -1)
    low[..., range(k), range(k)] = 1
    return p, low, np.triu(lu[..., :k, :])


# -- triangular systems ----------------------------------------------------------------------------


def substitute(a: np.ndarray, b: np.ndarray, unit: bool) -> np.ndarray:
    """X of A X = B with A lower triangular: forward substitution in halves; B [..., n, k]."""
    n = a.shape[-1]
    if n > BLOCK:
        h = n // 2
        top = substitute(a[..., :h, :h], b[..., :h, :], unit)
        rest = b[..., h:, :] - np.matmul(a[..., h:, :h], top)
        return np.concatenate([top, substitute(a[..., h:, h:], rest, unit)], axis=-2)
    x = np.array(b)
    for i in range(n):
        if i:
            x[..., i, :] -= np.matmul(a[..., i : i + 1, :i], x[..., :i, :])[..., 0, :]
        if not unit:
            x[..., i, :] /= a[..., i, i, None]
    return x


def solve_triangular(
    a: np.ndarray, b: np.ndarray, upper: bool, left: bool = True, unitriangular: bool = False
) -> np.ndarray:
    """X of A X = B (or X A = B), reading one triangle of A only."""
    if not b.size:
        lead = geometry.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        return columns(np.empty((*lead, *b.shape[-2:]), b.dtype))
    if not left:
        x = solve_triangular(a.swapaxes(-1, -2), b.swapaxes(-1, -2), not upper, True, unitriangular)
        return columns(x.swapaxes(-1, -2))
    a, b = stack(a, b)
    dtype = b.dtype
    a, b = wide(a), wide(b)
    with np.errstate(all="ignore"):
        if upper:
            x = substitute(a[..., ::-1, ::-1], b[..., ::-1, :], unitriangular)[..., ::-1, :]
        else:
            x = substitute(a, b, unitriangular)
        return columns(x.astype(dtype))  # astype makes the strides positive again


# -- general systems -------------------------------------------------------------------------------


def solve(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(X of A X = B, info); for a singular A infinities, and the number of the pivot that is zero."""
    a, b = stack(a, b)
    try:
        with np.errstate(all="ignore"):
            return columns(np.linalg.solve(a, b)), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        lu, pivots, info = lu_factor(a)
        return lu_solve(lu, pivots, b), info


def lu_solve(
    lu: np.ndarray, pivots: np.ndarray, b: np.ndarray, left: bool = True, adjoint_of_a: bool = False
) -> np.ndarray:
    """X of A X = B (X A = B unless `left`, Aᴴ for A if `adjoint_of_a`) from `lu_factor`."""
    if not left:  # X A = B is Aᴴ Xᴴ = Bᴴ
        return adjoint(lu_solve(lu, pivots, adjoint(b), True, not adjoint_of_a))
    lead = geometry.broadcast_shapes(lu.shape[:-2], b.shape[:-2])
    b = np.broadcast_to(b, (*lead, *b.shape[-2:]))
    order = permutation(pivots, lu.shape[-1])
    if adjoint_of_a:
        h = adjoint(lu)
        x = solve_triangular(h, solve_triangular(h, b, False), True, True, True)
        order = np.argsort(order, -1)
    else:
        x = b
    order = np.broadcast_to(order, (*lead, order.shape[-1]))
    x = np.take_along_axis(x, order[..., None], -2)
    if adjoint_of_a:
        return columns(x)
    return solve_triangular(lu, solve_triangular(lu, x, False, True, True), True)


def inv(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the inverse, info); where the matrix is singular, infinities and the number of the pivot."""
    try:
        with np.errstate(all="ignore"):  # float32 is rounded from float64, in a function of NumPy
            return columns(np.linalg.inv(a)), np.zeros(a.shape[:-2], np.int32)
    except np.linalg.LinAlgError:
        eye = np.broadcast_to(np.eye(a.shape[-1], dtype=a.dtype), a.shape)
        return solve(a, eye)


# -- symmetric factorizations ----------------------------------------------------------------------


def cholesky(a: np.ndarray, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    """(L, info): A = L Lᴴ, from the lower triangle; info is the order of the first bad minor. `upper`: Lᴴ, from
    the upper triangle."""
    if upper:
        low, info = cholesky(adjoint(a), False)
        return columns(adjoint(low)), info
    info = np.zeros(a.shape[:-2], np.int32)
    try:
        r = np.linalg.cholesky(a)
        if not np.isnan(r).any():
            return columns(r), info
    except np.linalg.LinAlgError:
        pass
    n = a.shape[-1]
    w = np.tril(wide(a)).reshape(prod(a.shape[:-2]), n, n)
    flat = np.zeros(len(w), np.int32)
    for i, m in enumerate(w):
        flat[i] = cholesky_one(m)
    return columns(w.astype(a.dtype).reshape(a.shape)), flat.reshape(info.shape)


def cholesky_one(m: np.ndarray) -> int:
    """Factor one matrix in its own memory, column by column; the number of the bad one, or 0."""
    for j in range(len(m)):
        d = (m[j, j] - (m[j, :j] * m[j, :j].conj()).sum()).real
        if not d > 0:
            m[j, j] = d
            return j + 1
        m[j, j] = np.sqrt(d)
        m[j + 1 :, j] = (m[j + 1 :, j] - m[j + 1 :, :j] @ m[j, :j].conj()) / m[j, j]
    return 0


def cholesky_solve(b: np.ndarray, a: np.ndarray, upper: bool) -> np.ndarray:
    """X of A X = B, where `a` is the factor L of A (Lᴴ if `upper`)."""
    low, high = (adjoint(a), a) if upper else (a, adjoint(a))
    return solve_triangular(high, solve_triangular(low, b, False), True)


def cholesky_inverse(a: np.ndarray, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    """(the inverse, info) of the matrix with this factor; info is the number of the first zero on the diagonal."""
    n = a.shape[-1]
    zero = a[..., range(n), range(n)] == 0
    info = np.where(zero.any(-1), zero.argmax(-1) + 1, 0) if n else np.zeros(a.shape[:-2])
    eye = np.broadcast_to(np.eye(n, dtype=a.dtype), a.shape)
    return cholesky_solve(eye, a, upper), info.astype(np.int32)


def ldl_factor(a: np.ndarray, hermitian: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(LD, pivots, info): A = L D Lᵀ (Lᴴ) with D of 1 x 1 and 2 x 2 blocks, as LAPACK's sytrf.

    Bunch and Kaufman's pivoting (Golub and Van Loan, 4.4); two equal negative pivots mark a block.
    """
    n = a.shape[-1]
    w = np.tril(wide(a)).reshape(prod(a.shape[:-2]), n, n)
    pivots = np.zeros((len(w), n), np.int32)
    info = np.zeros(len(w), np.int32)
    for m, p, k in zip(w, pivots, range(len(w)), strict=True):
        info[k] = ldl_one(m, p, hermitian)
    lead = a.shape[:-2]
    ld = columns(w.astype(a.dtype).reshape(a.shape))
    return ld, pivots.reshape(*lead, n), info.reshape(lead)


def ldl_one(m: np.ndarray, pivots: np.ndarray, hermitian: bool) -> int:
    """The LDL factors of one matrix, in its place, by the pivots of Bunch and Kaufman; returns where D is singular,
    or 0."""
    n, info, k = len(m), 0, 0
    bound = (1 + 17**0.5) / 8

    def size(x):
        return abs(x.real) + abs(x.imag)

    def conj(x):
        return x.conj() if hermitian else x

    while k < n:
        if hermitian:
            m[k, k] = m[k, k].real
        step, p = 1, k
        below = magnitude(m[k + 1 :, k])
        largest = below.max() if below.size else 0.0
        if max(size(m[k, k]), largest) == 0:
            info = info or k + 1
        elif size(m[k, k]) < bound * largest:
            r = k + 1 + int(below.argmax())
            row = np.concatenate([magnitude(m[r, k:r]), magnitude(m[r + 1 :, r])])
            other = row.max()
            if size(m[k, k]) * other >= bound * largest**2:
                p = k
            elif size(m[r, r]) >= bound * other:
                p = r
            else:
                p, step = r, 2
        q = k + step - 1  # the row that is exchanged with row p
        if p != q:
            m[p + 1 :, [q, p]] = m[p + 1 :, [p, q]]
            between = m[q + 1 : p, q].copy()
            m[q + 1 : p, q] = conj(m[p, q + 1 : p])
            m[p, q + 1 : p] = conj(between)
            m[q, q], m[p, p] = m[p, p], m[q, q]
            m[p, q] = conj(m[p, q])
            if step == 2:
                m[q, k], m[p, k] = m[p, k], m[q, k]
        rest = slice(k + step, n)
        if step == 1:
            pivots[k] = p + 1
            if m[k, k] != 0:
                column = m[rest, k].copy()
                m[rest, k] /= m[k, k]
                m[rest, rest] -= np.tril(np.outer(m[rest, k], conj(column)))
        else:
            pivots[k] = pivots[k + 1] = -(p + 1)
            d = np.array([[m[k, k], conj(m[k + 1, k])], [m[k + 1, k], m[k + 1, k + 1]]])
            columns = m[rest, k : k + 2].copy()
            m[rest, k : k + 2] = columns @ np.linalg.inv(d)
            m[rest, rest] -= np.tril(m[rest, k : k + 2] @ conj(columns).T)
        k += step
    return info


def ldl_solve(ld: np.ndarray, pivots: np.ndarray, b: np.ndarray, hermitian: bool) -> np.ndarray:
    """X of A X = B from `ldl_factor`."""
    ld, b = stack(ld, b)
    lead, (n, k) = b.shape[:-2], b.shape[-2:]
    count = prod(lead)
    pivots = np.broadcast_to(pivots, (*lead, n)).reshape(count, n)
    x = wide(b).reshape(count, n, k).copy()
    for m, p, v in zip(wide(ld).reshape(count, n, n), pivots, x, strict=True):
        starts = []
        j = 0
        while j < n:
            starts.append((j, 1 if p[j] > 0 else 2))
            j += starts[-1][1]
        for j, step in starts:  # L, with the exchanges as they happened
            q, other = j + step - 1, abs(p[j]) - 1
            v[[q, other]] = v[[other, q]]
            v[j + step :] -= m[j + step :, j : j + step] @ v[j : j + step]
        for j, step in starts:
            d = m[j : j + step, j : j + step].copy()
            if step == 2:
                d[0, 1] = d[1, 0].conj() if hermitian else d[1, 0]
            v[j : j + step] = np.linalg.solve(d, v[j : j + step])
        for j, step in reversed(starts):
            low = m[j + step :, j : j + step]
            v[j : j + step] -= (low.conj() if hermitian else low).T @ v[j + step :]
            q, other = j + step - 1, abs(p[j]) - 1
            v[[q, other]] = v[[other, q]]
    return columns(x.astype(b.dtype).reshape(b.shape))


# -- spectra ---------------------------------------------------------------------------------------


def no_convergence(name: str, why: str) -> LinAlgError:
    return LinAlgError(f"{name}: The algorithm failed to converge because the input matrix {why}.")


def eigh(a: np.ndarray, uplo: str) -> tuple[np.ndarray, np.ndarray]:
    """(eigenvalues, vectors) of Hermitian matrices, from the triangle `uplo`; values ascend."""
    values, vectors = np.linalg.eigh(a, uplo)
    return values, columns(vectors)


def eigvalsh(a: np.ndarray, uplo: str) -> np.ndarray:
    """The eigenvalues of `eigh` alone."""
    return np.linalg.eigvalsh(a, uplo)


def eig(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(eigenvalues, vectors) of square matrices, complex."""
    try:
        values, vectors = np.linalg.eig(a)
    except np.linalg.LinAlgError as e:
        if "infs or NaNs" in str(e):
            raise RuntimeError(
                "torch.linalg.eig: input tensor should not contain infs or NaNs."
            ) from None
        raise no_convergence("linalg.eig", "is ill-conditioned") from None
    dtype = np.result_type(a.dtype, np.complex64)
    return values.astype(dtype, copy=False), columns(vectors.astype(dtype, copy=False))


def eigvals(a: np.ndarray) -> np.ndarray:
    """The eigenvalues of `eig` alone."""
    try:
        values = np.linalg.eigvals(a)
    except np.linalg.LinAlgError:
        return eig(a)[0]
    return values.astype(np.result_type(a.dtype, np.complex64), copy=False)


def svd(a: np.ndarray, full_matrices: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(U, S, Vh), S descending; min(m, n) columns of U and V only unless `full_matrices`."""
    try:
        u, s, vh = np.linalg.svd(a, full_matrices)
        return columns(u), s, columns(vh)
    except np.linalg.LinAlgError:
        raise not_finite(a) from None


def svdvals(a: np.ndarray) -> np.ndarray:
    """The singular values of `svd` alone."""
    try:
        return np.linalg.svd(a, compute_uv=False)
    except np.linalg.LinAlgError:
        raise not_finite(a) from None


def not_finite(a: np.ndarray) -> LinAlgError:
    return no_convergence(
        "linalg.svd",
        "is ill-conditioned or has too many repeated singular values"
        if np.isfinite(a).all()
        else "contained non-finite values",
    )


def qr(a: np.ndarray, mode: str) -> tuple[np.ndarray, np.ndarray]:
    """(Q, R); `mode` as in `linalg.qr`."""
    if mode == "r":
        return np.zeros((0,), a.dtype), columns(np.linalg.qr(a, "r"))
    q, r = np.linalg.qr(a, mode)
    return columns(q), columns(r)


def geqrf(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(the reflectors below R, tau), as LAPACK's geqrf."""
    h, tau = np.linalg.qr(a, "raw")
    return columns(h.swapaxes(-1, -2).astype(a.dtype, copy=False)), tau.astype(a.dtype, copy=False)


def householder_product(a: np.ndarray, tau: np.ndarray) -> np.ndarray:
    """The first n columns of the product of the reflections of `geqrf`; a [..., m, n]."""
    eye = np.broadcast_to(np.eye(*a.shape[-2:], dtype=a.dtype), a.shape)
    return ormqr(a, tau, eye, True, False)


def ormqr(a: np.ndarray, tau: np.ndarray, c: np.ndarray, left: bool, transpose: bool) -> np.ndarray:
    """Q C, Q the product of the reflections of `geqrf`; C Q unless `left`; Qᴴ in its place if `transpose`."""
    if not left:  # (C Q)ᴴ = Qᴴ Cᴴ
        return columns(adjoint(ormqr(a, tau, adjoint(c), True, not transpose)))
    k = tau.shape[-1]
    v = np.tril(a[..., :k], -1)
    v[..., range(k), range(k)] = 1
    for i in range(k) if transpose else range(k - 1, -1, -1):
        column, t = v[..., i : i + 1], tau[..., i, None, None]
        c = c - (t.conj() if transpose else t) * column @ (adjoint(column) @ c)
    return columns(c)


def det(a: np.ndarray) -> np.ndarray:
    """The determinants."""
    with np.errstate(all="ignore"):
        return np.linalg.det(a)


def slogdet(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(signs, logarithms of the absolute values) of the determinants."""
    return tuple(np.linalg.slogdet(a))


def pinv(a: np.ndarray, atol, rtol, hermitian: bool) -> np.ndarray:
    """The pseudoinverse; singular values up to max(atol, rtol * the largest) count as zero."""
    *lead, m, n = a.shape
    if not a.size:
        return np.zeros((*lead, n, m), a.dtype)
    try:
        if hermitian:
            values, u = xp.eigh(a, "L")
            order = np.argsort(-np.abs(values), -1)
            values = np.take_along_axis(values, order, -1)
            u = np.take_along_axis(u, order[..., None, :], -1)
            size, vh = np.abs(values), adjoint(u)
        else:
            u, values, vh = xp.svd(a, False)
            size = values
    except np.linalg.LinAlgError:
        raise not_finite(a) from None
    cut = np.maximum(np.asarray(atol)[..., None], np.asarray(rtol)[..., None] * size[..., :1])
    with np.errstate(all="ignore"):
        inverse = np.where(size > cut, 1 / values, 0)
    return xp.matmul(adjoint(vh) * inverse[..., None, :].astype(a.dtype), adjoint(u))


# -- the matrix exponential ------------------------------------------------------------------------

# Coefficients of Padé's approximation by the bits of a number, and the norm up to which they are good to its last
# bit (Higham, 2005, table 2.3).
PADE = {
    53: ((64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0,
          129060195264000.0, 10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0,
          40840800.0, 960960.0, 16380.0, 182.0, 1.0), 5.371920351148152),
    24: ((17297280.0, 8648640.0, 1995840.0, 277200.0, 25200.0, 1512.0, 56.0, 1.0), 3.92572478313866),
}  # fmt: skip


def matrix_exp(a: np.ndarray) -> np.ndarray:
    """exp(A) by scaling and squaring with Padé's approximation of order 13, or 7 in single precision."""
    if not a.size:
        return a.copy()
    if a.shape[-1] == 1:
        return np.exp(a)
    b, most = PADE[np.finfo(a.dtype).nmant + 1]
    with np.errstate(all="ignore"):
        size = np.abs(a).sum(-2).max(-1)
    finite = np.isfinite(size)
    good, eye = finite[..., None, None], np.eye(a.shape[-1], dtype=a.dtype)
    with np.errstate(all="ignore"):
        halvings = np.ceil(np.log2(np.where(finite & (size > 0), size, 1) / most))
        s = np.maximum(halvings, 0).astype(np.int64)
        w = a / (2.0**s)[..., None, None].astype(size.dtype)
        w2 = np.matmul(w, w)
        w4 = np.matmul(w2, w2)
        w6 = np.matmul(w4, w2)
        u = b[7] * w6 + b[5] * w4 + b[3] * w2 + b[1] * eye
        v = b[6] * w6 + b[4] * w4 + b[2] * w2 + b[0] * eye
        if len(b) > 8:
            u = np.matmul(w6, b[13] * w6 + b[11] * w4 + b[9] * w2) + u
            v = np.matmul(w6, b[12] * w6 + b[10] * w4 + b[8] * w2) + v
        u = np.matmul(w, u)
        r = xp.solve(np.where(good, v - u, eye), np.where(good, v + u, np.nan))[0]
        for k in range(int(s.max())):
            r = np.where((s > k)[..., None, None], np.matmul(r, r), r)
    return np.ascontiguousarray(r)


# -- norms -----------------------------------------------------------------------------------------


def vector_norm(a: np.ndarray, order: float, axes: tuple[int, ...], keepdim: bool) -> np.ndarray:
    """The norms along `axes`, in the real dtype of `a`."""
    dtype = real_dtype(a) if a.dtype.kind == "c" else a.dtype
    if a.dtype.itemsize == 2:
        a = a.astype(np.float32)
    with np.errstate(all="ignore"):
        if not axes:  # a 0-d array
            r = (a != 0).astype(dtype) if order == 0 else np.abs(a)
        elif order == 2:
            r = root_of_squares(a, axes, keepdim)
        elif order == np.inf:
            r = np.abs(a).max(axes, keepdims=keepdim)
        elif order == -np.inf:
            r = np.abs(a).min(axes, keepdims=keepdim)
        elif order == 0:
            r = np.count_nonzero(a, axis=axes, keepdims=keepdim)
        elif order == 1:
            r = np.abs(a).sum(axes, keepdims=keepdim)
        else:
            r = (np.abs(a) ** order).sum(axes, keepdims=keepdim) ** (1 / order)
        return np.asarray(r).astype(dtype, copy=False)


def root_of_squares(a: np.ndarray, axes: tuple[int, ...], keepdim: bool) -> np.ndarray:
    if a.dtype.kind == "c":
        squares = a.real**2 + a.imag**2
    elif len(axes) == a.ndim and a.flags.c_contiguous and not keepdim:
        flat = a.reshape(-1)
        return np.sqrt(flat.dot(flat))  # one pass, in BLAS
    else:
        squares = a * a
    return np.sqrt(squares.sum(axes, keepdims=keepdim))


def cdist(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Euclidean distances of all rows of [..., n, k] to all rows of [..., m, k], by a matrix product."""
    squares = (a * a).sum(-1)[..., :, None] + (b * b).sum(-1)[..., None, :]
    return np.sqrt(np.maximum(squares - 2 * matmul(a, b.swapaxes(-1, -2)), 0)).astype(a.dtype)
