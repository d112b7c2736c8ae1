"""Linear systems, inverses and determinants of matrices [..., n, n].

The gradients come from A X = B: the gradient of B solves the adjoint system, that of A is minus its
product with Xᴴ.
"""

from __future__ import annotations

import numpy as np

from rushlight._backends import cpu, devices
from rushlight.autograd.state import thread
from rushlight.core import dtypes
from rushlight.core.errors import LinAlgError
from rushlight.core.geometry import broadcast_shapes
from rushlight.dispatch.registry import Array, by_elements, composite, op
from rushlight.dispatch.transforms import somewhere
from rushlight.ops.linalg import matrix_checks as check
from rushlight.ops.linalg.matrix_results import (
    batch_element,
    by_columns,
    eye,
    first_failure,
    named,
    to_shape,
)

# -- general systems -------------------------------------------------------------------------------


def is_vector(a, b) -> bool:
    """B is a stack of vectors, not of matrices, for the systems A X = B."""
    return b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])


def system(name, a, b, left):
    """Check A and B; whether B is a stack of vectors."""
    check.square_floating(name, a)
    check.same_dtype(name, a, b)
    vector = is_vector(a, b)
    if b.ndim < 1:
        raise RuntimeError(f"{name}: The input tensor B must have at least 1 dimension")
    if vector and not left:
        raise RuntimeError(
            f"{name}: Vector broadcasting of the left hand side is not supported for left=False. In "
            "this case linalg.solve is equivalent to B / A.squeeze(-1)"
        )
    if vector:
        if b.shape[-1] != a.shape[-1]:
            raise RuntimeError(
                f"{name}: Incompatible shapes of A and B for the equation AX = B "
                f"({a.shape[-2]}x{a.shape[-1]} and {b.shape[-1]}x1)"
            )
        return True
    check.fits(name, a, b, left)
    return False


@composite(where="linalg")
def solve_ex(A: Array, B: Array, *, left: bool = True, check_errors: bool = False):
    """(result, info): as `linalg.solve`, with infinities and the number of a pivot that is zero
    instead of an error (unless `check_errors`)."""
    vector = system("linalg.solve_ex", A, B, left)
    x, info = solved(A, B, left, vector)
    if check_errors and first_failure(info):
        raise unsolved("torch.linalg.solve_ex", info)
    return named("linalg_solve_ex", ("result", "info"), (x, info))


@op(
    where="internal", outputs=("result", "info"), node="LinalgSolveExBackward0", out=False,
    intermediates=("LU", "pivots"),
)  # fmt: skip
def solved(xp, A: Array, B: Array, left: bool, vector: bool, keep: bool):
    """The forward of `linalg.solve`. Intermediates: the factorization of A, of Aᵀ unless `left`."""
    a, b = (A, B[..., None] if vector else B) if left else (transposed(A), transposed(B))
    if keep:
        lu, pivots, info = xp.lu_factor(a)
        x = None if info.any() else xp.lu_solve(lu, pivots, b)
    else:
        lu = pivots = x = None
    if x is None:
        x, info = xp.solve(a, b)
    x = x[..., 0] if vector else x if left else transposed(x)
    if vector and x.ndim > 1:  # PyTorch takes the last batch dimension for columns
        x = transposed(xp.row_major(transposed(x)))
    return x, info, lu, pivots


def transposed(a):
    return a.swapaxes(-1, -2)


def unsolved(name, info):
    return LinAlgError(
        f"{name}: {batch_element(info)}The solver failed because the input matrix is singular."
    )


@composite(where="linalg")
def solve(A: Array, B: Array, *, left: bool = True):
    """X of A X = B (X A = B unless `left`), for square A [..., n, n] and B [..., n, k] or [..., n].

    Batch dimensions are broadcast. `LinAlgError` when a matrix is singular.

    >>> import rushlight as torch
    >>> torch.linalg.solve(torch.tensor([[2.0, 0.0], [0.0, 4.0]]), torch.tensor([2.0, 2.0]))
    tensor([1.0000, 0.5000])
    """
    vector = system("linalg.solve", A, B, left)
    x, info = solved(A, B, left, vector)
    if first_failure(info):
        raise unsolved("torch.linalg.solve", info)
    return x


def system_gradients(g_b, A, result, left, B_shape, needs):
    """The gradients of A and B in A X = B, from that of B before it is summed to its shape."""
    g_a = None
    if needs[0]:
        g_a = to_shape(-(g_b @ result.mH) if left else -(result.mH @ g_b), A.shape)
    return g_a, to_shape(g_b, B_shape) if needs[1] else None


def solve_rule(g, A, result, left, vector, B_shape, needs):
    if vector:
        g, result, B_shape = g.unsqueeze(-1), result.unsqueeze(-1), (*B_shape, 1)
    g_a, g_b = system_gradients(solve(A.mH, g, left=left), A, result, left, B_shape, needs)
    return g_a, g_b.squeeze(-1) if vector and needs[1] else g_b


def solve_gradients(xp, g, result, left, vector, LU, pivots, A_shape, B_shape, needs):
    if vector:
        g, result, B_shape = g[..., None], result[..., None], (*B_shape, 1)
    elif not left:
        g, result = transposed(g), transposed(result)
    g_b, g_a = xp.lu_solve(LU, pivots, g, True, True), None
    if needs[0]:
        g_a = xp.negative(xp.times_adjoint(g_b, result))
        g_a = g_a if left else transposed(g_a)
        g_a = g_a if g_a.shape == A_shape else xp.sum_to(g_a, A_shape)
    if not needs[1]:
        return g_a, None
    g_b = g_b if left else transposed(g_b)
    g_b = g_b if g_b.shape == B_shape else xp.sum_to(g_b, B_shape)
    return g_a, g_b[..., 0] if vector else g_b


solved.grad_all(solve_rule, kernel=solve_gradients)


@op(where="linalg")
def solve_triangular(
    xp, A: Array, B: Array, *, upper: bool, left: bool = True, unitriangular: bool = False
):
    """X of A X = B (X A = B unless `left`) for triangular A; the other triangle is not read, nor is
    the diagonal if `unitriangular`. A zero on the diagonal gives infinities, no error."""
    name = "linalg.solve_triangular"
    check.square_floating(name, A)
    check.matrix(name, B, "B")
    check.same_dtype(name, A, B)
    check.fits(name, A, B, left)
    return xp.solve_triangular(A, B, upper, left, unitriangular)


def solve_triangular_gradients(g, A, result, upper, left, unitriangular, B_shape, needs):
    g_b = solve_triangular(A.mH, g, upper=not upper, left=left, unitriangular=unitriangular)
    g_a, g_b = system_gradients(g_b, A, result, left, B_shape, needs)
    if needs[0]:
        g_a = g_a.triu(int(unitriangular)) if upper else g_a.tril(-int(unitriangular))
    return g_a, g_b


solve_triangular.grad_all(solve_triangular_gradients)


@composite
def triangular_solve(
    input: Array,
    A: Array,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
):
    """Deprecated: use `linalg.solve_triangular`, whose arguments are the other way round."""
    check.deprecated("triangular_solve", "torch.linalg.solve_triangular")
    own, shape = A._array.shape, input._array.shape
    for label, sizes in (("b", shape), ("A", own)):
        if len(sizes) < 2:
            raise RuntimeError(
                f"torch.triangular_solve: Expected {label} to have at least 2 dimensions, but it has "
                f"{len(sizes)} dimensions instead"
            )
    a, flipped = (A.mT, not upper) if transpose else (A, upper)
    x = solve_triangular(a, input, upper=flipped, unitriangular=unitriangular)
    a, lead = A, own[:-2]
    if shape[:-2] != lead:
        a = A.expand(*broadcast_shapes(lead, shape[:-2]), *own[-2:])
    return named("triangular_solve", ("solution", "cloned_coefficient"), (x, by_columns(a)))


@composite(where="linalg", name="lu_solve")
def lu_solve_of_linalg(
    LU: Array, pivots: Array, B: Array, *, left: bool = True, adjoint: bool = False
):
    """X of A X = B (X A = B unless `left`, Aᴴ for A if `adjoint`) from what `linalg.lu_factor`
    returned."""
    name = "linalg.lu_solve"
    check.square_floating(name, LU, "LU")
    check.matrix(name, B, "B")
    if pivots.dtype is not dtypes.int32:
        raise RuntimeError(f"{name}: pivots should be a Tensor of scalar type torch.int32")
    check.same_dtype(name, LU, B)
    check.fits(name, LU, B, left)
    if pivots.shape != LU.shape[:-1]:
        raise RuntimeError(
            f"{name}: Number of pivots per batch should be same as the dimension of the matrix, and the "
            f"batch dimensions those of LU; got {list(pivots.shape)} for LU of shape {list(LU.shape)}"
        )
    if not pivots.is_meta and pivots.numel():
        a = pivots._array
        if a.__class__ is np.ndarray and not thread.dispatch_modes:
            outside = cpu.amin(a, None, False) < 1, cpu.amax(a, None, False) > LU._array.shape[-2]
        else:
            outside = somewhere(pivots < 1), somewhere(pivots > LU.shape[-2])
        for wrong, bound in zip(
            outside, ("greater or equal to 1", "smaller or equal to LU.size(-2)"), strict=True
        ):
            if wrong:
                raise RuntimeError(
                    f"Pivots given to lu_solve must all be {bound}. Did you properly pass the result of "
                    "lu_factor?"
                )
    return lu_solved(LU, pivots, B, left, adjoint)


@op(where="internal", node="LinalgLuSolveBackward0", out=False)
def lu_solved(xp, LU: Array, pivots: Array, B: Array, left: bool, adjoint: bool):
    """The forward of `linalg.lu_solve`."""
    return xp.lu_solve(LU, pivots, B, left, adjoint)


def lu_solved_gradients(g, LU, pivots, result, left, adjoint, B_shape, needs):
    if not left:
        g, result, adjoint = g.mH, result.mH, not adjoint
    g_b, g_lu = lu_solved(LU, pivots, g, True, not adjoint), None
    if needs[0]:
        from rushlight.ops.linalg.decompositions import unpacked

        p, low, up = unpacked(LU, pivots)
        x, y = (result, g_b) if adjoint else (g_b, result)
        x = p.mT @ x
        g_lu = -((x @ (up @ y).mH).tril(-1) + ((low.mH @ x) @ y.mH).triu())
        g_lu = to_shape(g_lu, LU.shape)
    g_b = g_b if left else g_b.mH
    return g_lu, None, to_shape(g_b, B_shape) if needs[2] else None


lu_solved.grad_all(lu_solved_gradients)


@composite
def lu_solve(input: Array, LU_data: Array, LU_pivots: Array):
    """Deprecated: use `linalg.lu_solve`, whose arguments are the other way round."""
    check.deprecated("lu_solve", "torch.linalg.lu_solve")
    return lu_solve_of_linalg(LU_data, LU_pivots, input)


@composite
def cholesky_solve(input: Array, L: Array, upper: bool = False):
    """X of A X = B, with B the first argument and L the Cholesky factor of A (Lᴴ if `upper`)."""
    for label, t in (("b", input), ("u", L)):
        if t.ndim < 2:
            raise RuntimeError(
                f"{label} should have at least 2 dimensions, but has {t.ndim} dimensions instead"
            )
    if L.shape[-1] != L.shape[-2]:
        raise RuntimeError(
            f"A must be batches of square matrices, but they are {L.shape[-2]} by {L.shape[-1]} matrices"
        )
    if L.shape[-1] != input.shape[-2]:
        raise RuntimeError(
            "Incompatible matrix sizes for cholesky_solve: each A matrix is "
            f"{L.shape[-1]} by {L.shape[-1]} but each b matrix is {input.shape[-2]} by {input.shape[-1]}"
        )
    return cholesky_solved(input, L, upper)


@op(where="internal", node="CholeskySolveBackward0", out=False)
def cholesky_solved(xp, B: Array, L: Array, upper: bool):
    """The forward of `cholesky_solve`."""
    check.implemented("cholesky_solve", B)
    if L.dtype != B.dtype:
        raise RuntimeError(
            f"Expected b and A to have the same dtype, but found b of type {check.dtype_name(B)} and A of "
            f"type {check.dtype_name(L)} instead."
        )
    return xp.cholesky_solve(B, L, upper)


def cholesky_solved_gradients(g, L, upper, result, B_shape, needs):
    g_b, g_l = cholesky_solved(g, L, upper), None
    if needs[1]:
        g_l = to_shape(factor_gradient(-(g_b @ result.mH), L, upper), L.shape)
    return to_shape(g_b, B_shape) if needs[0] else None, g_l


def factor_gradient(g, L, upper):
    """The gradient of the factor L (Lᴴ if `upper`) of a matrix from that of the matrix, of all its elements as in PyTorch."""
    g = g + g.mH
    return L @ g if upper else g @ L


cholesky_solved.grad_all(cholesky_solved_gradients)


@op(where="internal", outputs=("inverse", "info"), node="CholeskyInverseBackward0", out=False)
def cholesky_inverse_ex(xp, L: Array, upper: bool):
    """(inverse, info): the forward of `cholesky_inverse`, and the number of a zero on the diagonal or 0."""
    check.square_floating("cholesky_inverse", L)
    return xp.cholesky_inverse(L, upper)


cholesky_inverse_ex.grad(
    L=lambda g_inverse, L, upper, inverse: factor_gradient(
        -(inverse.mH @ g_inverse @ inverse.mH), L, upper
    )
)


@composite
def cholesky_inverse(L: Array, upper: bool = False):
    """The inverse of the matrix whose Cholesky factor is L (Lᴴ if `upper`)."""
    inverse, info = cholesky_inverse_ex(L, upper)
    if first_failure(info):
        raise singular("cholesky_inverse", info)
    return inverse


# -- inverses --------------------------------------------------------------------------------------


@op(where="linalg", outputs=("inverse", "info"), node="LinalgInvExBackward0")
def inv_ex(xp, A: Array, *, check_errors: bool = False):
    """(inverse, info): info is 0, or the number of the pivot that is zero, where the inverse holds
    infinities."""
    check.square_floating("linalg.inv_ex", A)
    inverse, info = xp.inv(A)
    if check_errors and info.any():
        raise singular("linalg.inv_ex", info)
    return inverse, info


inv_ex.grad(A=lambda g, result: -(result.mH @ g @ result.mH))


def singular(name, info):
    return LinAlgError(
        f"{name}: {batch_element(info)}The diagonal element {first_failure(info)} is zero, the "
        "inversion could not be completed because the input matrix is singular."
    )


@composite(where="linalg")
def inv(A: Array):
    """The inverses of square matrices [..., n, n]; LinAlgError when one is singular.

    >>> import rushlight as torch
    >>> torch.linalg.inv(torch.tensor([[2.0, 0.0], [0.0, 4.0]]))
    tensor([[0.5000, 0.0000],
            [0.0000, 0.2500]])
    """
    check.square_floating("linalg.inv", A)
    inverse, info = inv_ex(A)
    if first_failure(info):
        raise singular("linalg.inv", info)
    return inverse


@composite
def inverse(input: Array):
    """Another name of `linalg.inv`."""
    return inv(input)


def tolerances(a, atol, rtol):
    """(atol, rtol) as arrays, PyTorch's defaults filled in."""
    xp = devices.of(a)
    arrays = [getattr(t, "_array", t) for t in (atol, rtol)]
    if arrays[1] is None:
        eps = np.finfo(a.dtype).eps * max(a.shape[-2:])
        given = arrays[0]
        arrays[1] = eps if given is None else xp.where(xp.asarray(given) > 0, 0.0, eps)
    return xp.asarray(0.0 if arrays[0] is None else arrays[0]), xp.asarray(arrays[1])


@op(where="internal", name="pinv", node="LinalgPinvBackward0")
def pinv_op(
    xp, A: Array, atol: float | None = None, rtol: float | None = None, hermitian: bool = False
):
    """The forward of `linalg.pinv`."""
    return xp.pinv(A, *tolerances(A, atol, rtol), hermitian)


def pinv_gradient(g, A, result):
    """Golub and Pereyra, 1973, formula 4.12, for the smaller of the two orders of products."""
    p, ph, gh = result, result.mH, g.mH
    m, n = A.shape[-2:]
    if m <= n:
        k = gh @ p
        kph = k @ ph
        return -(p @ k).mH + kph - (A @ p) @ kph + (ph @ p) @ (gh - k @ A)
    k = p @ gh
    phk = ph @ k
    return -(k @ p).mH + (gh - A @ k) @ p @ ph + phk - (phk @ p) @ A


pinv_op.grad(A=pinv_gradient)


@composite(where="linalg")
def pinv(
    A: Array,
    rcond: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
):
    """The pseudoinverses [..., n, m] of matrices [..., m, n], by their singular values.

    Values up to max(atol, rtol * the largest) count as zero; rtol defaults to max(m, n) * eps.
    """
    check_pinv("linalg.pinv", A)
    check.real_tolerances("linalg.pinv", rcond=rcond, atol=atol, rtol=rtol)
    rtol = rcond if rtol is None else rtol
    if hermitian:
        check.square("linalg.pinv", A)
    return pinv_op(A, atol, rtol, hermitian)


def check_pinv(name, a):
    if a.ndim < 2 or check.dtype_name(a) not in (
        "Float",
        "Double",
        "ComplexFloat",
        "ComplexDouble",
    ):
        raise RuntimeError(
            f"{name}({check.dtype_name(a)}{{{list(a.shape)}}}): expected a tensor with 2 or more "
            "dimensions of float, double, cfloat or cdouble types"
        )


@composite
def pinverse(input: Array, rcond: float = 1e-15):
    """The pseudoinverse with rtol = `rcond`; see `linalg.pinv`."""
    return pinv(input, rcond)


# -- determinants ----------------------------------------------------------------------------------


@op(where="linalg", node="LinalgDetBackward0", method=True)
def det(xp, A: Array):
    """The determinants [...] of square matrices [..., n, n].

    >>> import rushlight as torch
    >>> torch.linalg.det(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
    tensor(-2.)
    """
    check.square_floating("linalg.det", A)
    return xp.det(A)


@by_elements
def det_gradient(g, A, result):
    """g * conj(det) * A^-H; where A is (nearly) singular, its adjugate by the singular values."""
    inverse, info = inv_ex(A.mH)
    if not first_failure(info) and not somewhere(result == 0):
        return (g * result.conj_physical())[..., None, None] * inverse
    from rushlight.ops.linalg.spectra import svd

    u, s, vh = svd(A, False)
    others = s.unsqueeze(-2).expand(*s.shape, s.shape[-1])  # row i: all values but the i-th
    others = others.masked_fill(eye(others, s.shape[-1]) != 0, 1).prod(-1)
    phase = (det(u) * det(vh)).conj_physical() * g
    return phase[..., None, None] * (u * others.unsqueeze(-2)) @ vh


det.grad(A=det_gradient)
det.alias("det")


@op(where="linalg", outputs=("sign", "logabsdet"), node="LinalgSlogdetBackward0")
def slogdet(xp, A: Array):
    """(sign, logabsdet): the determinants are sign * exp(logabsdet); the sign is a phase for complex
    matrices, and (0, -inf) stands for a singular one."""
    check.square_floating("linalg.slogdet", A)
    return xp.slogdet(A)


def slogdet_gradient(g_sign, g_logabsdet, A, sign):
    h = inv_ex(A.mH)[0]
    if A.is_complex():
        turn = (g_sign.conj_physical() * sign).imag
        factor = g_logabsdet - 1j * turn
    else:
        factor = g_logabsdet
    return factor[..., None, None] * h


slogdet.grad(A=slogdet_gradient)


@composite(name="slogdet")
def slogdet_of_torch(input: Array):
    """Another name of `linalg.slogdet`."""
    check.square_floating("linalg.slogdet", input)
    return named("slogdet", ("sign", "logabsdet"), tuple(slogdet(input)))


@composite
def logdet(input: Array):
    """The logarithms of the determinants; NaN where one is negative, -inf where it is zero."""
    check.square_floating("logdet", input)
    sign, logabs = slogdet(input)
    if input.is_complex():
        return sign.log() + logabs
    return logabs.masked_fill(sign == -1, float("nan"))
