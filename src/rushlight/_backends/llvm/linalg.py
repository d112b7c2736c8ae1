"""Factorizations and solvers by LAPACK, which stands in the library that NumPy loads; see
`_codegen/kernels/lapack.py` for how it is called.

float32, float64 and complex numbers. The reference computes where there is no such routine (NumPy is built with
another library), and all that is empty.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import Any

import numpy as np

from rushlight._backends import blas
from rushlight._backends.llvm.registration import implements
from rushlight._backends.llvm.views import row_major
from rushlight._backends.reference import linalg as reference
from rushlight._backends.reference import products
from rushlight._codegen.kernel import Kernel
from rushlight._codegen.kernels import lapack
from rushlight._codegen.types import of
from rushlight.core.dtype_sets import F32, F64, I32, I64
from rushlight.core.geometry import broadcast_shapes

BLOCK = 64  # columns that LAPACK works on together, at most
CHUNKS = 16  # of a stack of matrices, at most: each has memory to work in
GRAIN = 1 << 16  # multiplications of a chunk, at least
CALL = 1000  # multiplications that take as long as a call of LAPACK for a small matrix
REFLECTORS = 65 * 64  # elements that applying reflections takes besides
PREFIXES = {
    F32: ("s", F32),
    F64: ("d", F64),
    np.dtype(np.complex64): ("c", F32),
    np.dtype(np.complex128): ("z", F64),
}


class Routine(dict):
    """dtype -> the kernel that calls a routine of LAPACK for matrices of it; None where there is none.

    The routine for complex matrices may have a name of its own; `then`, a second routine. A kernel without a name
    calls none.
    """

    def __init__(
        self, kernel: Kernel, name: str = "", of_complex: str = "", then: str = ""
    ) -> None:
        self.kernel, self.names, self.then = kernel, (name, of_complex or name), then

    def __missing__(self, dtype: np.dtype) -> Any:
        found = None
        if dtype in PREFIXES:
            prefix, real = PREFIXES[dtype]
            parts = dtype.itemsize // real.itemsize
            names = [name for name in (self.names[parts - 1], self.then) if name]
            addresses = [blas.fortran(prefix + name) for name in names]
            if None not in addresses:
                kernel = self.kernel.compiled(PARTS=parts, T=of(real))
                found = partial(kernel, *addresses) if names else kernel
        self[dtype] = found
        return found


_cholesky = Routine(lapack.cholesky, "potrf")
_cholesky_inverse = Routine(lapack.cholesky_inverse, "potri")
_cholesky_solve = Routine(lapack.cholesky_solve, "potrs")
_lu_factor = Routine(lapack.lu_factor, "getrf")
_lu_solve = Routine(lapack.lu_solve, "getrs")
_solve_triangular = Routine(lapack.solve_triangular, "trsm")
_geqrf = Routine(lapack.geqrf, "geqrf")
_orgqr = Routine(lapack.orgqr, "orgqr", "ungqr")
_ormqr = Routine(lapack.ormqr, "ormqr", "unmqr")
_ldl_factor = {
    False: Routine(lapack.ldl_factor, "sytrf"),
    True: Routine(lapack.ldl_factor, "hetrf"),
}
_ldl_solve = {False: Routine(lapack.ldl_solve, "sytrs"), True: Routine(lapack.ldl_solve, "hetrs")}
_solve = Routine(lapack.solve, "gesv")
_det = Routine(lapack.det, "getrf")
_inverse = Routine(lapack.inverse, "getrf", then="getri")
_eigh = Routine(lapack.eigh, "syevd", "heevd")
_svd = Routine(lapack.svd, "gesdd")
_eig = Routine(lapack.eig, "geev")
_upper_triangle = Routine(lapack.upper_triangle)
_lu_unpack = Routine(lapack.lu_unpack)


def fits(run: Any, a: np.ndarray, *others: np.ndarray, square: bool = True) -> bool:
    """Whether there is a routine for these matrices of one dtype: none is empty, the first ones square."""
    m, n = a.shape[-2:]
    if run is None or not a.size or square and m != n:
        return False
    return not others or all(b.size and b.dtype is a.dtype for b in others)


def stack(a: np.ndarray) -> np.ndarray:
    """As a matrix, or as a stack of three dimensions."""
    return a if a.ndim <= 3 else a.reshape(-1, *a.shape[-2:])


def chunks(a: np.ndarray) -> tuple[int, int]:
    """(matrices in a chunk, how many chunks) for threads that share a stack."""
    *lead, m, n = a.shape
    count = prod(lead)
    grain = max(GRAIN // (CALL + m * n * min(m, n)), -(-count // CHUNKS), 1)
    return grain, -(-count // grain)


def by_columns(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """Memory for matrices whose columns are dense."""
    if len(shape) == 2:
        return np.empty(shape, dtype, "F")
    *lead, m, n = shape
    return np.empty((*lead, n, m), dtype).swapaxes(-1, -2)


def broadcast(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both with the same leading dimensions."""
    if a.ndim == b.ndim == 2 or a.shape[:-2] == b.shape[:-2]:
        return a, b
    lead = broadcast_shapes(a.shape[:-2], b.shape[:-2])
    x, y = (np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in (a, b))
    return x, y


def dense(a: np.ndarray) -> np.ndarray:
    """An array whose rows or whose columns are dense."""
    (m, n), (s1, s2), size = a.shape[-2:], a.strides[-2:], a.itemsize
    if s2 == size and s1 >= n * size or s1 == size and s2 >= m * size:
        return a
    return row_major(a)


@implements("cholesky")
def cholesky(a: Any, upper: bool) -> tuple[Any, Any]:
    run = _cholesky[a.dtype]
    if not fits(run, a):
        return reference.cholesky(a, upper)
    out, info = by_columns(a.shape, a.dtype), np.empty(a.shape[:-2], I32)
    run(stack(a), out, info, lapack.UPPER if upper else lapack.LOWER, chunks(a)[0])
    return out, info


@implements("cholesky_inverse")
def cholesky_inverse(a: Any, upper: bool) -> tuple[Any, Any]:
    run = _cholesky_inverse[a.dtype]
    if not fits(run, a):
        return reference.cholesky_inverse(a, upper)
    out, info = by_columns(a.shape, a.dtype), np.empty(a.shape[:-2], I32)
    run(stack(a), out, info, lapack.UPPER if upper else lapack.LOWER)
    return out, info


@implements("cholesky_solve")
def cholesky_solve(b: Any, a: Any, upper: bool) -> Any:
    run = _cholesky_solve[a.dtype]
    if not fits(run, a, b) or a.shape[-1] != b.shape[-2]:
        return reference.cholesky_solve(b, a, upper)
    a, b = broadcast(a, b)
    out, space = by_columns(b.shape, b.dtype), np.empty(a.shape[-2:], a.dtype)
    run(stack(a), stack(b), space, out, lapack.UPPER if upper else lapack.LOWER)
    return out


@implements("lu_factor")
def lu_factor(a: Any) -> tuple[Any, Any, Any]:
    run = _lu_factor[a.dtype]
    if not fits(run, a, square=False):
        return reference.lu_factor(a)
    lead, least = a.shape[:-2], min(a.shape[-2:])
    out, pivots = by_columns(a.shape, a.dtype), np.empty((*lead, least), I32)
    info, (grain, count) = np.empty(lead, I32), chunks(a)
    run(stack(a), out, pivots, info, np.empty((count, least), I64), grain)
    return out, pivots, info


@implements("lu_solve")
def lu_solve(lu: Any, pivots: Any, b: Any, left: bool = True, adjoint_of_a: bool = False) -> Any:
    run = _lu_solve[lu.dtype]
    n = lu.shape[-1]
    if not fits(run, lu, b) or not n == b.shape[-2 if left else -1] == pivots.shape[-1]:
        return reference.lu_solve(lu, pivots, b, left, adjoint_of_a)
    if not left:  # X A = B is Aᴴ Xᴴ = Bᴴ
        return products.adjoint(lu_solve(lu, pivots, products.adjoint(b), True, not adjoint_of_a))
    a, b = broadcast(lu, b)
    if pivots.shape != a.shape[:-1]:
        pivots = np.broadcast_to(pivots, a.shape[:-1])
    pivots = np.ascontiguousarray(pivots, I32)
    out, space = by_columns(b.shape, b.dtype), np.empty((n, n), a.dtype)
    trans = lapack.ADJOINT if adjoint_of_a else lapack.PLAIN
    run(stack(a), pivots, stack(b), space, np.empty(n, I64), out, trans)
    return out


@implements("lu_unpack")
def lu_unpack(lu: Any, pivots: Any) -> tuple[Any, Any, Any]:
    run = _lu_unpack[lu.dtype]
    *lead, m, n = lu.shape
    k = min(m, n)
    if not fits(run, lu, square=False) or pivots.shape != (*lead, k) or pivots.dtype != I32:
        return reference.lu_unpack(lu, pivots)
    order, lower, upper = (np.empty((*lead, *s), lu.dtype) for s in ((m, m), (m, k), (k, n)))
    run(stack(lu), np.ascontiguousarray(pivots), np.empty(m, I64), order, lower, upper)
    return order, lower, upper


@implements("solve_triangular")
def solve_triangular(
    a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False
) -> Any:
    run = _solve_triangular[a.dtype]
    if not fits(run, a, b) or a.shape[-1] != b.shape[-2 if left else -1]:
        return reference.solve_triangular(a, b, upper, left, unitriangular)
    a, b = broadcast(a, b)
    out = by_columns(b.shape, b.dtype)
    side, diag = (
        lapack.LEFT if left else lapack.RIGHT,
        lapack.UPPER if unitriangular else lapack.PLAIN,
    )
    run(stack(dense(a)), stack(b), out, side, upper, diag)
    return out


@implements("geqrf")
def geqrf(a: Any) -> tuple[Any, Any]:
    run = _geqrf[a.dtype]
    if not fits(run, a, square=False):
        return reference.geqrf(a)
    *lead, m, n = a.shape
    room, (grain, count) = BLOCK * n, chunks(a)
    out, tau = by_columns(a.shape, a.dtype), np.empty((*lead, min(m, n)), a.dtype)
    run(stack(a), out, tau, np.empty((count, room), a.dtype), room, grain)
    return out, tau


def product_of(a: Any, tau: Any, wide: int) -> Any:
    """The first columns of the product of the reflections of `geqrf`."""
    room, (grain, count) = BLOCK * wide, chunks(a)
    out = by_columns((*a.shape[:-1], wide), a.dtype)
    tau = np.ascontiguousarray(tau)
    run, space = _orgqr[a.dtype], np.empty((count, room), a.dtype)
    run(stack(a), tau, out, space, room, wide, tau.shape[-1], grain)
    return out


@implements("householder_product")
def householder_product(a: Any, tau: Any) -> Any:
    m, n = a.shape[-2:]
    good = fits(_orgqr[a.dtype], a, tau, square=False) and tau.shape[:-1] == a.shape[:-2]
    if not (good and m >= n >= tau.shape[-1]):
        return reference.householder_product(a, tau)
    return product_of(a, tau, a.shape[-1])


@implements("qr")
def qr(a: Any, mode: str) -> tuple[Any, Any]:
    if not (fits(_geqrf[a.dtype], a, square=False) and fits(_orgqr[a.dtype], a, square=False)):
        return reference.qr(a, mode)
    *lead, m, n = a.shape
    h, tau = geqrf(a)
    wide = m if mode == "complete" else min(m, n)
    r = by_columns((*lead, wide, n), a.dtype)
    _upper_triangle[a.dtype](stack(h), r, wide)
    if mode == "r":
        return np.zeros((0,), a.dtype), r
    return product_of(h, tau, wide), r


@implements("ormqr")
def ormqr(a: Any, tau: Any, c: Any, left: bool, transpose: bool) -> Any:
    run = _ormqr[a.dtype]
    lead, rows = a.shape[:-2], c.shape[-2 if left else -1]
    good = fits(run, a, tau, c, square=False) and lead == tau.shape[:-1] == c.shape[:-2]
    if not (good and a.shape[-2] == rows and tau.shape[-1] <= min(a.shape[-2:])):
        return reference.ormqr(a, tau, c, left, transpose)
    m, n = c.shape[-2:]
    room = BLOCK * max(m, n) + REFLECTORS
    trans = (
        (lapack.ADJOINT if a.dtype.kind == "c" else lapack.TURNED) if transpose else lapack.PLAIN
    )
    out, tau, k = by_columns(c.shape, c.dtype), np.ascontiguousarray(tau), tau.shape[-1]
    space, factors = np.empty(room, a.dtype), np.empty((a.shape[-2], k), a.dtype)
    run(
        stack(a),
        tau,
        stack(c),
        factors,
        out,
        space,
        room,
        k,
        lapack.LEFT if left else lapack.RIGHT,
        trans,
    )
    return out


@implements("ldl_factor")
def ldl_factor(a: Any, hermitian: bool) -> tuple[Any, Any, Any]:
    run = _ldl_factor[hermitian][a.dtype]
    if not fits(run, a):
        return reference.ldl_factor(a, hermitian)
    n, lead = a.shape[-1], a.shape[:-2]
    room = BLOCK * n
    out, pivots, info = (
        by_columns(a.shape, a.dtype),
        np.empty(a.shape[:-1], I32),
        np.empty(lead, I32),
    )
    run(stack(a), out, pivots, info, np.empty(n, I64), np.empty(room, a.dtype), room)
    return out, pivots, info


@implements("ldl_solve")
def ldl_solve(ld: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    run = _ldl_solve[hermitian][ld.dtype]
    n = ld.shape[-1]
    if not fits(run, ld, b) or not n == b.shape[-2] == pivots.shape[-1]:
        return reference.ldl_solve(ld, pivots, b, hermitian)
    a, b = broadcast(ld, b)
    pivots = np.ascontiguousarray(np.broadcast_to(pivots, a.shape[:-1]), I32)
    out = by_columns(b.shape, b.dtype)
    run(stack(a), pivots, stack(b), np.empty((n, n), a.dtype), np.empty(n, I64), out)
    return out


@implements("solve")
def solve(a: Any, b: Any) -> tuple[Any, Any]:
    run, n = _solve[a.dtype], a.shape[-1]
    if not fits(run, a, b) or n != b.shape[-2]:
        return reference.solve(a, b)
    x, y = broadcast(a, b)
    out, info = by_columns(y.shape, b.dtype), np.empty(y.shape[:-2], I32)
    grain, count = chunks(x)
    space, places = np.empty((count, n, n), a.dtype), np.empty((count, n), I64)
    run(stack(x), stack(y), space, places, out, info, grain)
    return reference.solve(a, b) if np.count_nonzero(info) else (out, info)


@implements("inv")
def inv(a: Any) -> tuple[Any, Any]:
    run = _inverse[a.dtype]
    if not fits(run, a):
        return reference.inv(a)
    n, (grain, count) = a.shape[-1], chunks(a)
    out, info = by_columns(a.shape, a.dtype), np.empty(a.shape[:-2], I32)
    places, space = np.empty((count, n), I64), np.empty((count, BLOCK * n), a.dtype)
    run(stack(a), out, info, places, space, BLOCK * n, grain)
    return reference.inv(a) if np.count_nonzero(info) else (out, info)


@implements("det")
def det(a: Any) -> Any:
    run = _det[a.dtype]
    if not fits(run, a):
        return reference.det(a)
    if a.flags.c_contiguous and a.dtype.kind == "f":
        a = a.swapaxes(-2, -1)  # as in PyTorch: more determinants have its last bits
    n, (grain, count) = a.shape[-1], chunks(a)
    out, places = np.empty(a.shape[:-2], a.dtype), np.empty((count, n), I64)
    run(stack(a), out, np.empty((count, n, n), a.dtype), places, grain)
    return out


@implements("eigh")
def eigh(a: Any, uplo: str) -> tuple[Any, Any]:
    found = eigen(a, uplo, lapack.VECTORS) if fits(_eigh[a.dtype], a) else None
    return reference.eigh(a, uplo) if found is None else found


@implements("eigvalsh")
def eigvalsh(a: Any, uplo: str) -> Any:
    found = eigen(a, uplo, lapack.VALUES) if fits(_eigh[a.dtype], a) else None
    return reference.eigvalsh(a, uplo) if found is None else found[0]


def eigen(a: Any, uplo: str, job: int) -> tuple[Any, Any] | None:
    """(eigenvalues, vectors) of Hermitian matrices; None where they are not found."""
    n, real = a.shape[-1], PREFIXES[a.dtype][1]
    room = 1 + (6 + BLOCK) * n + 2 * n * n
    real_room, places_room = 1 + 5 * n + 2 * n * n, 3 + 5 * n
    out = by_columns(a.shape if job == lapack.VECTORS else (n, n), a.dtype)
    values, info = np.empty(a.shape[:-1], real), np.empty(a.shape[:-2], I32)
    space, places = np.empty(room, a.dtype), np.empty(places_room, I64)
    real_space = np.empty(real_room if a.dtype.kind == "c" else 0, real)
    _eigh[a.dtype](
        stack(a),
        values,
        out,
        info,
        space,
        room,
        real_space,
        real_room,
        places,
        places_room,
        job,
        ord(uplo),
    )
    return None if np.count_nonzero(info) else (values, out)


@implements("svd")
def svd(a: Any, full_matrices: bool) -> tuple[Any, Any, Any]:
    job = lapack.WHOLE if full_matrices else lapack.SOME
    found = singular(a, job) if fits(_svd[a.dtype], a, square=False) else None
    return reference.svd(a, full_matrices) if found is None else found


@implements("svdvals")
def svdvals(a: Any) -> Any:
    found = singular(a, lapack.VALUES) if fits(_svd[a.dtype], a, square=False) else None
    return reference.svdvals(a) if found is None else found[1]


def singular(a: Any, job: int) -> tuple[Any, Any, Any] | None:
    """(U, S, Vh); None where they are not found."""
    *lead, m, n = a.shape
    least, most, real = min(m, n), max(m, n), PREFIXES[a.dtype][1]
    width, height = {lapack.WHOLE: (m, n), lapack.SOME: (least, least), lapack.VALUES: (1, 1)}[job]
    u, v = by_columns((*lead, m, width), a.dtype), by_columns((*lead, height, n), a.dtype)
    values, info = np.empty((*lead, least), real), np.empty(lead, I32)
    room = 4 * least * least + (8 + 2 * BLOCK) * most
    real_room = 5 * least * least + 2 * most * least + 8 * least if a.dtype.kind == "c" else 0
    _svd[a.dtype](
        stack(a), np.empty((n, m), a.dtype), u, values, v, info, np.empty(room, a.dtype), room,
        np.empty(real_room, real), np.empty(8 * least, I64), job, width, height,
    )  # fmt: skip
    return None if np.count_nonzero(info) else (u, values, v)


@implements("eig")
def eig(a: Any) -> tuple[Any, Any]:
    found = general_eigen(a, lapack.VECTORS) if fits(_eig[a.dtype], a) else None
    return reference.eig(a) if found is None else found


@implements("eigvals")
def eigvals(a: Any) -> Any:
    found = general_eigen(a, lapack.VALUES) if fits(_eig[a.dtype], a) else None
    return reference.eigvals(a) if found is None else found[0]


def general_eigen(a: Any, job: int) -> tuple[Any, Any] | None:
    """(eigenvalues, vectors) of square matrices; None where they are not found."""
    if not np.isfinite(a).all():
        return None
    n, real = a.shape[-1], PREFIXES[a.dtype][1]
    kind = np.complex64 if real == F32 else np.complex128
    room = (8 + BLOCK) * n
    out = by_columns(a.shape if job == lapack.VECTORS else (n, n), kind)
    values, info = np.empty(a.shape[:-1], kind), np.empty(a.shape[:-2], I32)
    _eig[a.dtype](
        stack(a), np.empty((n, n), a.dtype), np.empty(2 * n, real), np.empty((n, n), a.dtype), values,
        out, info, np.empty(room, a.dtype), room, np.empty(2 * n, real), job,
    )  # fmt: skip
    return None if np.count_nonzero(info) else (values, out)
