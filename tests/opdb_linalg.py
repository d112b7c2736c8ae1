"""Rows of linear algebra: products, solutions, decompositions (checked by what they mean), norms."""

from __future__ import annotations

import numpy as np

from opdb_rows import (
    C,
    Input,
    K,
    N,
    P,
    along,
    c,
    distinct,
    hermitian_part,
    invertible,
    lower_triangle,
    row,
    scipy,
    spd,
    v,
)

L = "linalg."
A = np.linalg


def T(x):
    return np.swapaxes(x, -1, -2)


def H(x):
    return np.conj(T(x))


def same(a, b, dtype):
    single = np.dtype(dtype).itemsize == 4 or dtype == np.complex64
    np.testing.assert_allclose(a, b, atol=1e-3 if single else 1e-9, rtol=1e-3 if single else 1e-9)


def identity(q):
    same(H(q) @ q, np.broadcast_to(np.eye(q.shape[-1]), H(q).shape[:-1] + (q.shape[-1],)), q.dtype)


def triangular(x, upper):
    np.testing.assert_array_equal(x, np.triu(x) if upper else np.tril(x))


def checks_qr(result, a, mode="reduced"):
    q, r = result
    mode = {True: "reduced", False: "complete"}.get(mode, mode)
    triangular(r, True)
    m, n = a.shape[-2:]
    k = m if mode == "complete" else min(m, n)
    assert r.shape[-2:] == (k, n)
    if mode == "r":
        assert q.size == 0
        same(H(r) @ r, H(a) @ a, r.dtype)
    else:
        identity(q)
        same(q @ r, a, r.dtype)


def checks_eigh(result, a, UPLO="L"):
    values, vectors = result
    lower = np.tril(a) if UPLO == "L" else H(np.triu(a))
    whole = lower + H(np.tril(lower, -1))
    assert (np.diff(values) >= 0).all() and values.dtype.kind == "f"
    identity(vectors)
    same(
        vectors * values[..., None, :] @ H(vectors),
        whole,
        a.dtype if a.dtype == vectors.dtype else vectors.dtype,
    )


def checks_eig(result, a):
    values, vectors = result
    assert values.dtype.kind == vectors.dtype.kind == "c"
    same(a @ vectors, vectors * values[..., None, :], vectors.dtype)


def checks_eigvals(result, a, UPLO="L"):
    expected = A.eigvals(a)
    same(np.sort_complex(result), np.sort_complex(expected).astype(complex), result.dtype)


def checks_svd(result, a, full_matrices=True, h=H, **_):
    u, s, vh = result
    assert (np.diff(s) <= 0).all() and (s >= 0).all()
    k = s.shape[-1]
    if u.size:
        identity(u)
        identity(H(vh))
        same(u[..., :k] * s[..., None, :] @ vh[..., :k, :], a, u.dtype)
    same(s, A.svd(a, compute_uv=False), s.dtype)


def checks_old_svd(result, a, some=True, compute_uv=True):
    u, s, v_ = result
    if compute_uv:
        checks_svd((u, s, H(v_)), a)
    same(s, A.svd(a, compute_uv=False), s.dtype)


def checks_lowrank(result, a, q=6, **_):
    u, s, v_ = result
    identity(u)
    identity(v_)
    if q >= min(a.shape):
        same(u * s @ v_.T, a, u.dtype)


def checks_pca(result, a, q=None):
    checks_lowrank(result, a - a.mean(-2, keepdims=True), min(a.shape) if q is None else q)


def checks_lobpcg(result, a, k=1, **_):
    values, vectors = result
    np.testing.assert_allclose(values, A.eigvalsh(a)[::-1][:k], rtol=1e-3)
    np.testing.assert_allclose(a @ vectors, vectors * values, atol=1e-2)


def checks_lu(result, a, pivot=True, *_):
    p, l, u = result
    triangular(l, False)
    triangular(u, True)
    same(p @ l @ u, a, l.dtype)


def unpacked(lu, pivots):
    """The three factors that a packed LU factorization stands for."""
    m, n = lu.shape[-2:]
    k = min(m, n)
    lower = np.tril(lu[..., :k], -1) + np.eye(m, k)
    upper = np.triu(lu[..., :k, :])
    p = np.broadcast_to(np.eye(m), (*lu.shape[:-2], m, m)).copy()
    for place in np.ndindex(lu.shape[:-2]):
        for i, j in enumerate(pivots[place] - 1):
            p[place][:, [i, j]] = p[place][:, [j, i]]
    return p, lower, upper


def checks_lu_factor(result, a, *_, **__):
    lu, pivots = result[:2]
    assert pivots.dtype == np.int32
    p, lower, upper = unpacked(lu, pivots)
    same(p @ lower @ upper, a, lu.dtype)


def checks_cholesky_ex(result, a, upper=False, **_):
    factor, info = result
    same(factor, np.linalg.cholesky(a), factor.dtype)
    assert not info.any() and info.dtype == np.int32


def cholesky(a, upper=False):
    return H(A.cholesky(a)) if upper else A.cholesky(a)


def checks_geqrf(result, a):
    """The reflectors in `a` and `tau` applied one after another give Q, with A = QR."""
    packed, tau = result
    same(householder(packed, tau) @ np.triu(packed)[: packed.shape[1]], a, packed.dtype)


def householder(v_, tau):
    m, n = v_.shape[-2:]
    q = np.broadcast_to(np.eye(m, dtype=v_.dtype), (*v_.shape[:-2], m, m))
    for i in range(tau.shape[-1]):
        w = np.where(np.arange(m) > i, v_[..., :, i], np.arange(m) == i)[..., None]
        q = q @ (np.eye(m) - tau[..., i, None, None] * w @ H(w))
    return q[..., :n]


def ormqr(v_, tau, other, left=True, transpose=False):
    m = v_.shape[0]
    wide = np.concatenate([v_, np.zeros((m, m - v_.shape[1]))], 1)
    q = householder(wide, tau)
    q = q.T if transpose else q
    return q @ other if left else other @ q


def checks_ldl(result, a, **_):
    """Symmetric matrices whose factorization needs no exchange: A = L D L^T with D diagonal."""
    packed, pivots = result[:2]
    assert pivots.dtype == np.int32
    np.testing.assert_array_equal(pivots, np.arange(1, a.shape[-1] + 1))
    lower = np.tril(packed, -1) + np.eye(a.shape[-1])
    same(lower * np.diagonal(packed) @ lower.T, a, packed.dtype)


def checks_lstsq(result, a, b, **_):
    same(result[0], A.pinv(a) @ b, result[0].dtype)


def solve(a, b, left=True):
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    if vector:
        return A.solve(a, b[..., None])[..., 0]
    return A.solve(a, b) if left else T(A.solve(T(a), T(b)))


def triangle(a, upper, unitriangular=False):
    a = np.triu(a) if upper else np.tril(a)
    return a - np.eye(a.shape[-1]) * a + np.eye(a.shape[-1]) if unitriangular else a


def solve_triangular(a, b, *, upper, left=True, unitriangular=False):
    return solve(triangle(a, upper, unitriangular), b, left)


def triangular_solve(b, a, upper=True, transpose=False, unitriangular=False):
    t = triangle(a, upper, unitriangular)
    return A.solve(T(t) if transpose else t, b), a


def slogdet(a):
    found = A.slogdet(a)
    return found.sign, found.logabsdet


def vector_norm(x, ord=2.0, dim=None, keepdim=False, dtype=None):
    x = np.abs(x)
    if ord == 0:
        return (x != 0).sum(dim, keepdims=keepdim).astype(float)
    if abs(ord) == np.inf:
        return along(np.max if ord > 0 else np.min)(x, dim, keepdim)
    return (x**ord).sum(dim, keepdims=keepdim) ** (1 / ord)


def matrix_norm(a, ord="fro", dim=(-2, -1), keepdim=False):
    if a.ndim > 2:
        a = np.moveaxis(a, dim, (-2, -1))
        out = np.stack([A.norm(m, ord) for m in a.reshape(-1, *a.shape[-2:])]).reshape(a.shape[:-2])
        return np.expand_dims(out, [d % a.ndim for d in dim]) if keepdim else out
    return A.norm(a, ord, keepdims=keepdim)


def any_norm(a, ord=None, dim=None, keepdim=False):
    return A.norm(a if ord is not None or dim is not None else a.reshape(-1), ord, dim, keepdim)


def cross(a, b, dim=-1):
    return np.cross(a, b, axis=dim)


def matrix_exp(a):
    return scipy("linalg.expm")(a)


def full_rank(*shape):
    """Tall or wide matrices with singular values that differ."""
    return N(*shape)


def symmetric(*shape):
    def draw(rng, s):
        x = rng.standard_normal(s)
        return x + T(x) + np.diag(np.arange(s[-1]) * 3.0)

    return Input("f", shape, draw)


def hermitian(*shape):
    def draw(rng, s):
        x = rng.standard_normal(s) + 1j * rng.standard_normal(s)
        return x + H(x) + np.diag(np.arange(s[-1]) * 3.0)

    return Input("c", shape, draw)


SYM = Input("f", (3, 3), lambda rng, s: (lambda x: x + x.T + 6 * np.eye(3))(rng.standard_normal(s)))
LU3 = Input("f", (3, 3), lambda rng, s: rng.standard_normal(s) + 3 * np.eye(3))
PIVOTS = K([1, 3, 3], np.int32)


def lu_solve(b, lu, pivots):
    p, lower, upper = unpacked(lu, pivots)
    return A.solve(p @ lower @ upper, b)


def packed_solve(lu, pivots, b, left=True, adjoint=False):
    p, lower, upper = unpacked(lu, pivots)
    a = p @ lower @ upper
    return solve(H(a) if adjoint else a, b, left)


ROWS = [
    row(L + "det", A.det, c(invertible(3, 3)), c(invertible(2, 3, 3)), c(invertible(1, 1)), c(N(0, 0)), tol32=2e-3, half=False),
    row(L + "slogdet", slogdet, c(invertible(3, 3)), c(invertible(2, 3, 3)), half=False),
    row("slogdet", slogdet, c(invertible(3, 3)), c(invertible(2, 3, 3)), half=False),
    row("logdet", lambda a: np.log(A.det(a)), c(spd(3, 3)), c(spd(2, 3, 3)), half=False),
    row(L + "inv", A.inv, c(invertible(3, 3)), c(invertible(2, 3, 3)), c(N(0, 0)), half=False),
    row("inverse", A.inv, c(invertible(3, 3)), c(invertible(2, 3, 3)), half=False),
    row(L + "inv_ex", lambda a: (A.inv(a), np.zeros(a.shape[:-2], np.int32)), c(invertible(3, 3)), c(invertible(2, 3, 3)), half=False),
    row(L + "solve", solve, c(invertible(3, 3), N(3, 2)), c(invertible(3, 3), N(3)), c(invertible(2, 3, 3), N(2, 3, 2)), c(invertible(3, 3), N(2, 3), left=False), c(invertible(2, 3, 3), N(2, 3)), half=False),
    row(L + "solve_ex", lambda a, b: (solve(a, b), np.zeros(a.shape[:-2], np.int32)), c(invertible(3, 3), N(3, 2)), c(invertible(2, 3, 3), N(2, 3, 2)), half=False),
    row(L + "solve_triangular", solve_triangular, c(invertible(3, 3), N(3, 2), upper=True), c(invertible(3, 3), N(2, 3), upper=False, left=False), c(invertible(2, 3, 3), N(2, 3, 2), upper=False, unitriangular=True), half=False),
    row("triangular_solve", triangular_solve, c(N(3, 2), invertible(3, 3)), c(N(3, 2), invertible(3, 3), False), c(N(3, 2), invertible(3, 3), True, True), view=None, half=False),
    row("cholesky_solve", lambda b, f, upper=False: A.solve(f.T @ f if upper else f @ f.T, b), c(N(3, 2), Input("f", (3, 3), lambda r, s: np.tril(r.uniform(0.5, 1.5, s)) + np.eye(3))), through=lower_triangle, argument=1, half=False),
    row("cholesky_inverse", lambda f, upper=False: A.inv(f.T @ f if upper else f @ f.T), c(Input("f", (3, 3), lambda r, s: np.tril(r.uniform(0.5, 1.5, s)) + np.eye(3))), tol32=2e-3, through=lower_triangle, half=False),
    row("lu_solve", lu_solve, c(N(3, 2), LU3, PIVOTS), half=False),
    row(L + "lu_solve", packed_solve, c(LU3, PIVOTS, N(3, 2)), c(LU3, PIVOTS, N(2, 3), left=False), c(LU3, PIVOTS, N(3, 2), adjoint=True), c(LU3, PIVOTS, N(2, 3), left=False, adjoint=True), half=False),
    row(L + "lstsq", None, c(full_rank(5, 3), N(5, 2)), c(full_rank(2, 5, 3), N(2, 5, 2)), check=checks_lstsq, out=False, half=False),
    row(L + "pinv", A.pinv, c(full_rank(4, 3)), c(full_rank(2, 3, 4)), order=2, half=False),
    row("pinverse", A.pinv, c(full_rank(4, 3)), half=False),
    row(L + "cholesky", cholesky, c(spd(3, 3)), c(spd(2, 3, 3)), c(spd(3, 3), upper=True), through=hermitian_part, half=False),
    row("cholesky", cholesky, c(spd(3, 3)), c(spd(2, 3, 3)), c(spd(3, 3), upper=True), through=hermitian_part, half=False),
    row(L + "cholesky_ex", None, c(spd(3, 3)), c(spd(2, 3, 3)), check=checks_cholesky_ex, through=hermitian_part, half=False),
    row(L + "qr", None, c(full_rank(4, 3)), c(full_rank(2, 3, 3)), v(full_rank(4, 3), mode="complete"), v(full_rank(4, 3), mode="r"), check=checks_qr, half=False),
    row("qr", None, c(full_rank(4, 3)), v(full_rank(4, 3), False), check=checks_qr, half=False),
    row("geqrf", None, v(full_rank(4, 3)), v(full_rank(3, 3)), check=checks_geqrf, order=0, half=False),
    row("orgqr", householder, c(N(4, 3), P(2)), c(N(4, 4), P(3)), strided=True, half=False),
    row("ormqr", ormqr, c(N(4, 3), P(3), N(4, 2)), v(N(4, 3), P(3), N(2, 4), False), v(N(4, 3), P(3), N(4, 2), True, True), half=False),
    row(L + "lu", None, c(invertible(3, 3)), c(full_rank(2, 4, 3)), c(full_rank(3, 4)), check=checks_lu, half=False),
    row(L + "lu_factor", None, c(invertible(3, 3)), c(full_rank(2, 4, 3)), check=checks_lu_factor, half=False),
    row(L + "lu_factor_ex", None, c(invertible(3, 3)), c(full_rank(2, 4, 3)), check=checks_lu_factor, half=False),
    row("lu", None, c(invertible(3, 3)), c(full_rank(2, 4, 3)), check=checks_lu_factor, half=False),
    row("lu_unpack", lambda lu, p: unpacked(lu, p), c(LU3, PIVOTS)),
    row(L + "ldl_factor", None, v(SYM), check=checks_ldl, order=0, half=False),
    row(L + "ldl_factor_ex", None, v(SYM), check=checks_ldl, order=0, half=False),
    row(L + "ldl_solve", lambda ld, piv, b: A.solve((np.tril(ld, -1) + np.eye(3)) * np.diagonal(ld) @ (np.tril(ld, -1) + np.eye(3)).T, b), v(Input("f", (3, 3), lambda r, s: np.tril(r.standard_normal(s), -1) + np.diag(r.uniform(1, 2, 3))), K([1, 2, 3], np.int32), N(3, 2)), order=0, meta=False),
    row(L + "eigh", None, c(symmetric(3, 3)), v(symmetric(3, 3), "U"), v(hermitian(3, 3)), check=checks_eigh, through=hermitian_part, half=False),
    row(L + "eigvalsh", A.eigvalsh, c(symmetric(3, 3)), c(hermitian(3, 3)), through=hermitian_part, half=False),
    row(L + "eig", None, v(N(3, 3)), v(C(2, 3, 3)), check=checks_eig, order=-1, half=False),
    row(L + "eigvals", None, c(symmetric(3, 3)), v(C(3, 3)), check=checks_eigvals, through=hermitian_part, half=False),
    row(L + "svd", None, c(full_rank(3, 3)), c(full_rank(4, 3), False), v(full_rank(4, 3)), v(C(3, 4)), check=checks_svd, half=False),
    row("svd", None, c(full_rank(4, 3)), v(full_rank(4, 3), False), v(full_rank(4, 3), compute_uv=False), check=checks_old_svd, half=False),
    row(L + "svdvals", lambda a: A.svd(a, compute_uv=False), c(full_rank(4, 3)), c(full_rank(2, 3, 3)), c(C(3, 2)), half=False),
    row("svd_lowrank", None, v(full_rank(6, 4), 4), v(full_rank(7, 6), 2), check=checks_lowrank, order=-1, strided=False, half=False),
    row("pca_lowrank", None, v(full_rank(6, 4)), check=checks_pca, order=-1, strided=False, half=False),
    row("lobpcg", None, v(spd(9, 9), 1), v(spd(12, 12), 2), check=checks_lobpcg, order=-1, strided=False, f32=False),
    # powers, products
    row(L + "matrix_power", A.matrix_power, c(invertible(3, 3), 3), c(invertible(3, 3), -2), c(N(2, 3, 3), 0), c(N(3, 3), 1), view=None, tol32=2e-3, half=False),
    row(L + "matrix_exp", matrix_exp, c(N(3, 3)), c(N(2, 2, 2)), tol=1e-8, tol32=1e-3, half=False),
    row(L + "multi_dot", A.multi_dot, c([N(2, 3), N(3, 4), N(4, 2)]), c([N(3), N(3, 4), N(4)]), c([N(2, 3), N(3, 4)])),
    row("chain_matmul", lambda *m: A.multi_dot(m), c(N(2, 3), N(3, 4), N(4, 2))),
    row(L + "cross", cross, c(N(2, 3), N(2, 3)), c(N(3, 2), N(3, 2), dim=0), c(N(1, 3), N(2, 3))),
    row("cross", cross, c(N(2, 3), N(2, 3), 1), c(N(3, 2), N(3, 2), dim=0)),
    row(L + "vecdot", lambda x, y, dim=-1: (np.conj(x) * y).sum(dim), c(N(2, 3), N(2, 3)), c(C(2, 3), C(2, 3), dim=0), c(N(2, 3), N(3))),
    row(L + "diagonal", lambda a, offset=0, dim1=-2, dim2=-1: np.diagonal(a, offset, dim1, dim2), c(N(3, 4)), c(N(2, 3, 4), offset=1), view=True),
    row(L + "vander", lambda x, N=None: np.vander(x, N, increasing=True), c(N(4)), c(N(4), N=3)),
    row("vander", lambda x, n=None, increasing=False: np.vander(x, n, increasing), c(N(4)), c(N(4), 3), c(N(4), 3, True)),
    row(L + "tensorinv", A.tensorinv, c(Input("f", (2, 3, 6), lambda r, s: (r.standard_normal((6, 6)) + 6 * np.eye(6)).reshape(s))), c(Input("f", (4, 2, 2), lambda r, s: (r.standard_normal((4, 4)) + 6 * np.eye(4)).reshape(s)), 1), half=False),
    row(L + "tensorsolve", A.tensorsolve, c(Input("f", (2, 3, 6), lambda r, s: (r.standard_normal((6, 6)) + 6 * np.eye(6)).reshape(s)), N(2, 3)), half=False),
    # norms
    row(L + "vector_norm", vector_norm, c(N(3, 4)), c(N(3, 4), 1, 1), c(N(3, 4), 3.5, 0, True), v(K([0.0, 2.0, -1.0]), 0), c(distinct(3, 4), np.inf, 1), c(distinct(5), -np.inf), c(C(3)), c(N())),
    row(L + "matrix_norm", matrix_norm, c(N(3, 4)), *(c(full_rank(3, 4), o) for o in (1, -1, np.inf, -np.inf, 2, -2, "nuc")), c(N(2, 3, 4), keepdim=True), c(C(2, 3)), half=False),
    row(L + "norm", any_norm, c(N(3, 4)), c(N(3, 4), "nuc"), c(N(3, 4), 1, 1), c(N(3, 4), 2, 0, True), c(N(5), 3), c(N(3, 4), dim=(0, 1)), half=False),
    row("frobenius_norm", lambda a, dim=None, keepdim=False: A.norm(a.reshape(-1)) if dim is None else A.norm(a, 2, dim, keepdim), c(N(3, 4), (1,)), c(N(3, 4), (0,), True)),
    row("nuclear_norm", lambda a, keepdim=False: A.norm(a, "nuc", keepdims=keepdim), c(full_rank(3, 4)), c(full_rank(3, 4), keepdim=True), method=False, half=False),
    row(L + "cond", A.cond, c(invertible(3, 3)), c(invertible(3, 3), 1), c(invertible(3, 3), "fro"), c(invertible(3, 3), -2), half=False),
    row(L + "matrix_rank", lambda a, tol=None: A.matrix_rank(a, tol), v(N(3, 4)), v(K([[1.0, 2.0], [2.0, 4.0]])), v(invertible(2, 3, 3)), order=0, half=False),
]  # fmt: skip
