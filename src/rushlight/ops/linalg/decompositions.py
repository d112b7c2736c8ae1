"""Factorizations of matrices [..., n, m], and their gradients.

The rules follow from differentiating the defining equation and its constraints: Giles, "Collected
matrix derivative results" (2008). Eigenvalues and singular values are in spectra.py.
"""

from __future__ import annotations

from numpy import ndarray

from rushlight._backends import cpu
from rushlight.autograd.state import active
from rushlight.core import dtypes
from rushlight.core.errors import LinAlgError
from rushlight.dispatch.methods import function
from rushlight.dispatch.registry import Array, composite, no_derivative, no_gradients, op
from rushlight.dispatch.transforms import somewhere
from rushlight.ops.linalg import matrix_checks as check
from rushlight.ops.linalg.matrix_results import batch_element, eye, first_failure, named, skew


def half_diagonal(x):
    """The lower triangle of `x` with half its diagonal."""
    return x.tril() - 0.5 * x.diagonal(0, -2, -1).diag_embed()


# -- Cholesky --------------------------------------------------------------------------------------


@op(where="linalg", outputs=("L", "info"), node="LinalgCholeskyExBackward0")
def cholesky_ex(xp, input: Array, *, upper: bool = False, check_errors: bool = False):
    """(L, info): the Cholesky factor, and the order of the first minor that is not positive or 0."""
    check.square_floating("linalg.cholesky_ex" if not check_errors else "linalg.cholesky", input)
    lower, info = xp.cholesky(input, upper)
    if check_errors and info.any():
        raise not_positive("linalg.cholesky_ex", info)
    return lower, info


def not_positive(name, info):
    return LinAlgError(
        f"{name}: {batch_element(info)}The factorization could not be completed because the input is "
        f"not positive-definite (the leading minor of order {first_failure(info)} is not "
        "positive-definite)."
    )


def cholesky_input(g_L, L, upper):
    if upper:
        g_L, L = g_L.mH, L.mH
    phi = half_diagonal(L.mH @ g_L)
    phi = 0.5 * (phi + phi.mH)
    return solve_lower(L.mH, solve_lower(L, phi, right=True), upper=True)


def solve_lower(a, b, *, right=False, upper=False, unit=False):
    from rushlight.ops.linalg.solve import solve_triangular

    return solve_triangular(a, b, upper=upper, left=not right, unitriangular=unit)


cholesky_ex.grad(input=cholesky_input)


@composite(where="linalg")
def cholesky(A: Array, *, upper: bool = False):
    """L of A = L Lᴴ for Hermitian positive-definite matrices [..., n, n]; `upper`: Lᴴ.

    Only one triangle is read. `LinAlgError` when a matrix is not positive-definite.

    >>> import rushlight as torch
    >>> torch.linalg.cholesky(torch.tensor([[4.0, 2.0], [2.0, 5.0]]))
    tensor([[2., 0.],
            [1., 2.]])
    """
    return factor("linalg.cholesky", A, upper)


def factor(name, a, upper):
    check.square_floating(name, a)
    lower, info = cholesky_ex(a, upper=upper)
    if first_failure(info):
        raise not_positive(name, info)
    return lower


@composite(name="cholesky")
def cholesky_of_old(input: Array, upper: bool = False):
    """Deprecated: use `linalg.cholesky`."""
    check.deprecated("cholesky", "torch.linalg.cholesky")
    return factor("cholesky", input, upper)


# -- LU --------------------------------------------------------------------------------------------


@op(where="linalg", outputs=("LU", "pivots", "info"), node="LinalgLuFactorExBackward0")
def lu_factor_ex(xp, A: Array, *, pivot: bool = True, check_errors: bool = False):
    """(LU, pivots, info): L and U of A = P L U in one matrix [..., n, m], the exchanges of rows
    counted from 1 (int32), and the number of the first zero on the diagonal of U."""
    lu_input("linalg.lu_factor", A, pivot)
    lu, pivots, info = xp.lu_factor(A)
    if check_errors and info.any():
        raise singular_factor("torch.linalg.lu_factor_ex", info)
    return lu, pivots, info


def lu_input(name, a, pivot):
    if a.ndim < 2:
        raise RuntimeError(
            f"{name}: Expected tensor with 2 or more dimensions. Got size: {list(a.shape)} instead"
        )
    check.implemented("lu", a)
    if not pivot:
        raise RuntimeError(f"{name}: LU without pivoting is not implemented on the CPU")


def singular_factor(name, info):
    k = first_failure(info)
    return RuntimeError(
        f"{name}: {batch_element(info)}U[{k},{k}] is zero and using it on lu_solve would result in a "
        "division by zero. If you still want to perform the factorization, consider calling "
        "linalg.lu(A, pivot) or linalg.lu_factor_ex(A, pivot)"
    )


def lu_factor_input(g_LU, LU, pivots):
    """Gradient of A = P L U through L1, U1 (square part), L2 (rows below) and U2 (columns beyond)."""
    m, n = LU.shape[-2:]
    k = min(m, n)
    square = LU[..., :k, :k]
    low, up = unit_lower(square), square.triu()
    g_low, g_up = g_LU[..., :k, :k].tril(-1), g_LU[..., :k, :k].triu()
    rest = None
    if m > n:  # L2 = A2 U^-1
        rest = solve_lower(up.mH, g_LU[..., k:, :], right=True)
        g_up = g_up - LU[..., k:, :].mH @ rest
    elif n > m:  # U2 = L^-1 A2
        rest = solve_lower(low.mH, g_LU[..., k:], upper=True, unit=True)
        g_low = g_low - rest @ LU[..., k:].mH
    phi = (low.mH @ g_low).tril(-1) + (g_up @ up.mH).triu()
    g = solve_lower(up.mH, solve_lower(low.mH, phi, upper=True, unit=True), right=True)
    if rest is not None:
        g = function("cat")((g, rest), -2 if m > n else -1)
    return unpacked(LU.detach(), pivots)[0] @ g


def unit_lower(a):
    """The lower triangle with ones on its diagonal."""
    k = min(a.shape[-2:])
    low = a.tril(-1)[..., :k]
    return low + eye(low, *low.shape[-2:])


lu_factor_ex.grad(A=lu_factor_input)


@op(where="internal", outputs=("P", "L", "U"), node="LuUnpackBackward0", out=False)
def unpacked(xp, LU: Array, pivots: Array):
    """(P, L, U) of what `lu_factor_ex` returned."""
    return xp.lu_unpack(LU, pivots)


def unpacked_input(g_L, g_U, LU_shape):
    m, n = LU_shape[-2:]
    low, up = g_L.tril(-1), g_U.triu()
    if m == n:
        return low + up
    zeros = low.new_zeros((*low.shape[:-2], m - n, n) if m > n else (*low.shape[:-1], n - m))
    if m > n:
        return low + function("cat")((up, zeros), -2)
    return up + function("cat")((low, zeros), -1)


unpacked.grad(LU=unpacked_input)


@composite(where="linalg")
def lu_factor(A: Array, *, pivot: bool = True):
    """(LU, pivots): see `linalg.lu_factor_ex`; RuntimeError when U has a zero on its diagonal."""
    lu, pivots, info = lu_factor_ex(A, pivot=pivot)
    if first_failure(info):
        raise singular_factor("torch.linalg.lu_factor", info)
    return named("linalg_lu_factor", ("LU", "pivots"), (lu, pivots))


@composite(where="linalg", name="lu")
def lu_of_linalg(A: Array, *, pivot: bool = True):
    """(P, L, U): A = P L U with a permutation, a unit lower and an upper triangular matrix."""
    lu_input("linalg.lu", A, pivot)
    lu, pivots, _ = lu_factor_ex(A, pivot=pivot)
    return named("linalg_lu", ("P", "L", "U"), tuple(unpacked(lu, pivots)))


@composite(name="lu")
def lu_of_old(A: Array, pivot: bool = True, get_infos: bool = False):
    """Deprecated: use `linalg.lu_factor`."""
    check.deprecated("lu", "torch.linalg.lu_factor / torch.linalg.lu_factor_ex")
    lu, pivots, info = lu_factor_ex(A, pivot=pivot)
    if get_infos:
        return named("_lu_with_info", ("LU", "pivots", "info"), (lu, pivots, info))
    if first_failure(info):
        raise singular_factor("torch.linalg.lu_factor", info)
    return lu, pivots


@composite(method=False)
def lu_unpack(
    LU_data: Array, LU_pivots: Array, unpack_data: bool = True, unpack_pivots: bool = True
):
    """(P, L, U) of what `linalg.lu_factor` returned; an empty tensor for what is not asked for."""
    if unpack_pivots and LU_pivots.dtype is not dtypes.int32:
        raise RuntimeError(
            "torch.lu_unpack: LU_pivots is expected to be a contiguous tensor of torch.int32 dtype. "
            f"Got {LU_pivots.dtype}: note that pivots come from torch.linalg.lu_factor"
        )
    if unpack_pivots and not LU_pivots.is_meta and LU_pivots.numel():
        a, rows = LU_pivots._array, LU_data.shape[-2]
        if a.__class__ is ndarray and not active.modes:
            inside = cpu.amin(a, None, False) >= 1 and cpu.amax(a, None, False) <= rows
        else:
            inside = not somewhere((LU_pivots < 1) | (LU_pivots > rows))
        if not inside:
            raise RuntimeError(
                "pivots passed to lu_unpack must be between 1 and LU.size(-2) inclusive."
                "Did you properly pass the result of lu_factor?"
            )
    if not unpack_pivots:
        shape = (*LU_data.shape[:-2], min(LU_data.shape[-2:]))
        LU_pivots = LU_data.new_zeros(shape, dtype=dtypes.int32)
    p, low, up = unpacked(LU_data, LU_pivots)
    if not (unpack_data and unpack_pivots):
        empty = LU_data.new_zeros((0,))
        p = p if unpack_pivots else empty
        low, up = (low, up) if unpack_data else (empty, empty)
    return named("lu_unpack", ("P", "L", "U"), (p, low, up))


# -- QR --------------------------------------------------------------------------------------------


@op(where="linalg", outputs=("Q", "R"), node="LinalgQrBackward0")
def qr(xp, A: Array, mode: str = "reduced"):
    """(Q, R): A [..., m, n] = Q R with orthonormal columns in Q and R upper triangular.

    `mode`: "reduced" (Q [m, k], R [k, n], k = min(m, n)), "complete" (Q [m, m]), or "r" (R only; Q is
    empty).

    >>> import rushlight as torch
    >>> q, r = torch.linalg.qr(torch.eye(2) * 2)
    >>> (q @ r).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    if mode not in ("reduced", "complete", "r"):
        raise RuntimeError(
            f"qr received unrecognized mode '{mode}' but expected one of 'reduced' (default), 'r', or "
            "'complete'"
        )
    check.matrix("linalg.qr", A)
    check.floating("linalg.qr", A)
    return xp.qr(A, mode)


def qr_input(g_Q, g_R, Q, R, mode, A_shape):
    m, n = A_shape[-2:]
    if mode == "r":
        raise RuntimeError(
            "The derivative of linalg.qr depends on Q, which is not computed when mode='r'. "
            "Please use linalg.qr(A, mode='reduced')."
        )
    if mode == "complete" and m > n:
        raise RuntimeError(
            "The QR decomposition is not differentiable when mode='complete' and nrows > ncols."
        )
    if m >= n:
        x = (g_R @ R.mH - Q.mH @ g_Q).triu()
        low = half_diagonal(x.mH)
        return solve_lower(R.mH, Q @ (low + low.mH) + g_Q, right=True)
    x = skew(Q.mH @ g_Q - g_R @ R.mH)
    g = solve_lower(R[..., :m].mH, half_diagonal(x), right=True)
    pad = g_R.new_zeros((*g_R.shape[:-1], n - m))
    return Q @ (g_R + function("cat")((g, pad), -1))


qr.grad(A=qr_input)


@composite(name="qr")
def qr_of_old(input: Array, some: bool = True):
    """Deprecated: use `linalg.qr`."""
    check.deprecated("qr", "torch.linalg.qr")
    return named("qr", ("Q", "R"), tuple(qr(input, "reduced" if some else "complete")))


@op(outputs=("a", "tau"))
def geqrf(xp, input: Array):
    """(a, tau): R in the upper triangle of `a`, below it the vectors of the reflections whose product
    is Q; what LAPACK's geqrf returns, for `linalg.householder_product` and `ormqr`."""
    if input.ndim < 2:
        raise RuntimeError(
            f"torch.geqrf: input must have at least 2 dimensions. Got shape {list(input.shape)}"
        )
    check.floating("torch.geqrf", input)
    return xp.geqrf(input)


geqrf.grad(input=lambda g_a, g_tau: no_derivative("geqrf")(g_a))


@op(where="internal", node="LinalgHouseholderProductBackward0", out=False)
def householder_product(xp, input: Array, tau: Array):
    """The forward of `orgqr`."""
    check.implemented("orgqr", input)
    return xp.householder_product(input, tau)


@op(where="internal", name="ormqr", node="OrmqrBackward0", out=False)
def ormqr_alone(xp, input: Array, tau: Array, other: Array, left: bool, transpose: bool):
    """The forward of `ormqr`."""
    check.implemented("ormqr", input)
    return xp.ormqr(input, tau, other, left, transpose)


def reflected_gradients(g, result, input, tau, transpose):
    """The gradients of `input`, tau and C from that of the result of H1 H2 ... Hk C, or of Hkᴴ ... H1ᴴ C.

    One reflection after the other is taken off the result, by its inverse, and put on the gradient, so that
    nothing is kept of each.
    """
    k, v = tau.shape[-1], reflectors(input, tau)
    factors = tau.conj_physical() if transpose else tau
    columns, numbers = [None] * k, [None] * k
    for i in reversed(range(k)) if transpose else range(k):
        w, t = v[..., i : i + 1], factors[..., i, None, None]
        inverse = t / (t * (w.mH @ w) - 1)
        result = result - inverse * w @ (w.mH @ result)
        x, y = g.mH @ w, result.mH @ w
        columns[i] = -(t.conj_physical() * (g @ y) + t * (result @ x))
        numbers[i] = -(x.mH @ y)
        g = g - t.conj_physical() * w @ x.mH
    if not k:
        return input.new_zeros(input.shape), tau.new_zeros(tau.shape), g
    g_input = function("cat")(columns, -1).tril(-1)
    if k < input.shape[-1]:
        rest = input.new_zeros((*input.shape[:-1], input.shape[-1] - k))
        g_input = function("cat")((g_input, rest), -1)
    g_tau = function("cat")(numbers, -1).squeeze(-2)
    return g_input, g_tau.conj_physical() if transpose else g_tau, g


def householder_product_gradients(g, input, tau, result, needs):
    return reflected_gradients(g, result, input, tau, False)[:2]


def ormqr_gradients(g, input, tau, result, left, transpose, needs):
    if left:
        return reflected_gradients(g, result, input, tau, transpose)
    # (C Q)ᴴ = Qᴴ Cᴴ
    *rest, g_other = reflected_gradients(g.mH, result.mH, input, tau, not transpose)
    return (*rest, g_other.mH)


householder_product.grad_all(householder_product_gradients)
ormqr_alone.grad_all(ormqr_gradients)


def reflectors(a, tau):
    """The unit lower trapezoidal matrix of the reflections' vectors, its first columns."""
    low = a.tril(-1)
    return (low + eye(low, *low.shape[-2:]))[..., : tau.shape[-1]]


@composite
def orgqr(input: Array, tau: Array):
    """The first n columns of H1 H2 ... Hk, Hi = I - tau_i v_i v_iᴴ, v_i below the diagonal of column i.

    `input` [..., m, n], tau [..., k] with m >= n >= k, as `geqrf` returns them.
    """
    name = "torch.linalg.householder_product"
    if input.ndim < 2:
        raise RuntimeError(f"{name}: input must have at least 2 dimensions.")
    if input.shape[-2] < input.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-2] must be greater than or equal to input.shape[-1]"
        )
    if input.shape[-1] < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: input.shape[-1] must be greater than or equal to tau.shape[-1]"
        )
    if input.ndim - tau.ndim != 1 or input.shape[:-2] != tau.shape[:-1]:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input and the batch dimensions "
            f"{list(input.shape[:-2])}, but got tau of shape {list(tau.shape)}"
        )
    if input.dtype != tau.dtype:
        raise RuntimeError(
            f"{name}: tau dtype {check.dtype_name(tau)} does not match input dtype "
            f"{check.dtype_name(input)}"
        )
    return householder_product(input, tau)


orgqr.alias("linalg.householder_product")


@composite
def ormqr(input: Array, tau: Array, other: Array, left: bool = True, transpose: bool = False):
    """Q @ other (`left`) or other @ Q, Q the full product of the reflections that `geqrf` returned;
    Qᴴ in its place if `transpose`."""
    name = "torch.ormqr"
    if input.ndim < 2 or other.ndim < 2:
        which = "input" if input.ndim < 2 else "other"
        raise RuntimeError(f"{name}: {which} must have at least 2 dimensions.")
    side = -2 if left else -1
    if other.shape[side] < tau.shape[-1]:
        raise RuntimeError(
            f"{name}: other.shape[{side}] must be greater than or equal to tau.shape[-1]"
        )
    if other.shape[side] != input.shape[-2]:
        raise RuntimeError(f"{name}: other.shape[{side}] must be equal to input.shape[-2]")
    if tau.shape[-1] > input.shape[-1]:
        raise RuntimeError(f"{name}: tau.shape[-1] must be less than or equal to input.shape[-1]")
    if input.ndim - tau.ndim != 1 or input.ndim != other.ndim:
        raise RuntimeError(
            f"{name}: Expected tau to have one dimension less than input, and input and other to have the "
            f"same number of dimensions, but got {tau.ndim}, {input.ndim} and {other.ndim}"
        )
    if input.shape[:-2] != tau.shape[:-1] or input.shape[:-2] != other.shape[:-2]:
        raise RuntimeError(
            f"{name}: Expected batch dimensions of input, tau and other to be equal to "
            f"input.shape[:-2] = {list(input.shape[:-2])}, but got {list(tau.shape[:-1])} and "
            f"{list(other.shape[:-2])}"
        )
    if input.dtype != tau.dtype or input.dtype != other.dtype:
        raise RuntimeError(
            f"{name}: Expected input, tau and other to have the same dtype, but got "
            f"{check.dtype_name(input)}, {check.dtype_name(tau)} and {check.dtype_name(other)}"
        )
    return ormqr_alone(input, tau, other, left, transpose)


# -- symmetric indefinite --------------------------------------------------------------------------


@op(where="linalg", outputs=("LD", "pivots", "info"), node="NotImplemented")
def ldl_factor_ex(xp, A: Array, *, hermitian: bool = False, check_errors: bool = False):
    """(LD, pivots, info) of A = L D Lᵀ (Lᴴ if `hermitian`) in LAPACK's packed form; reads the lower
    triangle of the symmetric matrices [..., n, n]."""
    check.square_floating("torch.linalg.ldl_factor_ex", A)
    ld, pivots, info = xp.ldl_factor(A, hermitian and A.dtype.kind == "c")
    if check_errors and info.any():
        raise singular_ldl("torch.linalg.ldl_factor_ex", info)
    return ld, pivots, info


ldl_factor_ex.grad(A=lambda g_LD: no_gradients("linalg_ldl_factor_ex")(g_LD))


def singular_ldl(name, info):
    k = first_failure(info)
    return LinAlgError(
        f"{name}: {batch_element(info)}The factorization could not be completed because the input "
        f"matrix is singular: D[{k},{k}] is zero."
    )


@composite(where="linalg")
def ldl_factor(A: Array, *, hermitian: bool = False):
    """(LD, pivots): see `linalg.ldl_factor_ex`; LinAlgError when D is singular."""
    ld, pivots, info = ldl_factor_ex(A, hermitian=hermitian)
    if first_failure(info):
        raise singular_ldl("torch.linalg.ldl_factor", info)
    return named("linalg_ldl_factor", ("LD", "pivots"), (ld, pivots))


@op(where="linalg", node="NotImplemented")
def ldl_solve(xp, LD: Array, pivots: Array, B: Array, *, hermitian: bool = False):
    """X of A X = B from what `linalg.ldl_factor` returned."""
    name = "torch.linalg.ldl_solve"
    check.square(name, LD, "LD")
    check.matrix(name, B, "B")
    if pivots.dtype.kind != "i":
        raise RuntimeError(f"{name}: Expected pivots to be integers. Got {pivots.dtype}")
    check.same_dtype(name, LD, B)
    check.fits(name, LD, B)
    return xp.ldl_solve(LD, pivots, B, hermitian and LD.dtype.kind == "c")


ldl_solve.grad(LD=no_gradients("linalg_ldl_solve"), B=no_gradients("linalg_ldl_solve"))
