"""Eigenvalues and singular values of matrices [..., n, m], and their gradients.

The rules are those of Giles, "Collected matrix derivative results" (2008), and Boeddeker et al., "On the
computation of complex-valued gradients" (2017). Vectors are unique up to signs or phases only: the
gradient is that of a function that does not depend on them.
"""

from __future__ import annotations

from rushlight.autograd.state import thread
from rushlight.dispatch.registry import Array, by_elements, composite, op
from rushlight.dispatch.transforms import Lifted, somewhere
from rushlight.ops.linalg import matrix_checks as check
from rushlight.ops.linalg.matrix_results import eye, named, skew


@op(where="linalg", outputs=("eigenvalues", "eigenvectors"), node="LinalgEighBackward0")
def eigh(xp, A: Array, UPLO: str = "L"):
    """(eigenvalues, eigenvectors) of Hermitian matrices [..., n, n]: real, in ascending order, and
    orthonormal columns. Reads the lower triangle only, or the upper with UPLO="U".

    >>> import rushlight as torch
    >>> torch.linalg.eigh(torch.tensor([[2.0, 0.0], [0.0, 1.0]])).eigenvalues
    tensor([1., 2.])
    """
    check.square_floating("linalg.eigh", A)
    return xp.eigh(A, uplo(UPLO))


def uplo(text):
    if text.upper() not in ("L", "U"):
        raise RuntimeError(f"Expected UPLO argument to be 'L' or 'U', but got {text}")
    return text.upper()


def gaps(values):
    """The differences values_j - values_i, with ones on the diagonal."""
    d = values.unsqueeze(-2) - values.unsqueeze(-1)
    return d + eye(d, *d.shape[-2:])


def off_diagonal(x):
    return x - x.diagonal(0, -2, -1).diag_embed()


def check_phases(name, diagonal, which):
    """RuntimeError where a loss depends on the phases of complex vectors, which are arbitrary.

    `diagonal`: the products of each vector and its gradient.
    """
    if diagonal.is_complex() and not diagonal.is_meta and somewhere(diagonal.imag.abs() > 1e-2):
        raise RuntimeError(
            f"{name}_backward: The {which} in the complex case are specified up to multiplication "
            "by e^{i phi}. The specified loss function depends on this phase term, making it ill-defined."
        )


@by_elements
def eigh_input(g_eigenvalues, eigenvalues, eigenvectors, *, g_eigenvectors=None):
    v = eigenvectors
    if g_eigenvectors is None:  # no quotients of differences: equal eigenvalues have a gradient
        return v * g_eigenvalues.unsqueeze(-2) @ v.mH
    inner = v.mH @ g_eigenvectors
    check_phases("linalg_eigh", inner.diagonal(0, -2, -1), "eigenvectors")
    # vectors stay orthonormal: only what turns them counts, and the gradient is Hermitian
    inner = off_diagonal(inner - inner.mH) / (2 * gaps(eigenvalues))
    return v @ (inner + g_eigenvalues.diag_embed()) @ v.mH


eigh.grad(A=eigh_input)


@op(where="internal", name="eigvalsh")
def eigvalsh_alone(xp, A: Array, UPLO: str = "L"):
    """The eigenvalues without the vectors, not differentiable."""
    return xp.eigvalsh(A, UPLO)


@composite(where="linalg")
def eigvalsh(A: Array, UPLO: str = "L"):
    """The eigenvalues of Hermitian matrices [..., n, n], in ascending order."""
    check.square_floating("linalg.eigvalsh", A)
    UPLO = uplo(UPLO)
    return eigh(A, UPLO)[0] if recorded(A) else eigvalsh_alone(A, UPLO)


def recorded(t):
    """Whether what is computed from `t` is recorded: then eigenvalues need the vectors too."""
    return thread.grad and t.requires_grad or isinstance(t._array, Lifted)


@op(where="linalg", outputs=("eigenvalues", "eigenvectors"), node="LinalgEigBackward0")
def eig(xp, A: Array):
    """(eigenvalues, eigenvectors) of square matrices [..., n, n]: complex, in no particular order, the
    vectors as columns of length 1."""
    eig_input_ok("linalg.eig", A)
    return xp.eig(A)


def eig_input_ok(name, a):
    check.square(name, a)
    check.floating(name, a)


@by_elements
def eig_input(g_eigenvalues, eigenvalues, eigenvectors, A_dtype, *, g_eigenvectors=None):
    v, turned = eigenvectors, g_eigenvalues.unsqueeze(-1) * eigenvectors.mH
    if g_eigenvectors is not None:
        inner = v.mH @ g_eigenvectors
        check_phases("linalg_eig", inner.diagonal(0, -2, -1), "eigenvectors")
        # a vector keeps its length, and its phase does not matter
        inner = inner - v.mH @ (v * inner.diagonal(0, -2, -1).real.unsqueeze(-2))
        turned = turned + off_diagonal(inner) / gaps(eigenvalues).conj_physical() @ v.mH
    from rushlight.ops.linalg.solve import solve

    g = solve(v.mH, turned)
    return g if A_dtype.is_complex else g.real


eig.grad(A=eig_input)


@op(where="internal", name="eigvals")
def eigvals_alone(xp, A: Array):
    """The eigenvalues without the vectors, not differentiable."""
    return xp.eigvals(A)


@composite(where="linalg")
def eigvals(A: Array):
    """The eigenvalues of square matrices [..., n, n], complex."""
    eig_input_ok("linalg.eigvals", A)
    return eig(A)[0] if recorded(A) else eigvals_alone(A)


@op(where="linalg", outputs=("U", "S", "Vh"), node="LinalgSvdBackward0")
def svd(xp, A: Array, full_matrices: bool = True, *, driver: str | None = None):
    """(U, S, Vh): A [..., m, n] = U diag(S) Vh, S descending; U and V orthogonal, their first
    min(m, n) columns only unless `full_matrices`.

    >>> import rushlight as torch
    >>> torch.linalg.svd(torch.tensor([[3.0, 0.0], [0.0, 4.0]])).S
    tensor([4., 3.])
    """
    check.matrix("linalg.svd", A)
    check.floating("linalg.svd", A)
    if driver is not None:
        raise RuntimeError(
            "torch.linalg.svd: keyword argument `driver=` is only supported on CUDA inputs with "
            "cuSOLVER backend."
        )
    return xp.svd(A, full_matrices)


@by_elements
def svd_input(g_S, U, S, Vh, A_shape, *, g_U=None, g_Vh=None):
    m, n = A_shape[-2:]
    k = min(m, n)
    if (
        g_U is None and g_Vh is None
    ):  # no quotients of singular values, so equal ones have a gradient
        return U[..., :k] * g_S.unsqueeze(-2) @ Vh[..., :k, :]
    g_U = U.new_zeros(U.shape) if g_U is None else g_U
    g_Vh = Vh.new_zeros(Vh.shape) if g_Vh is None else g_Vh
    if U.shape[-1] > k:
        U, g_U = U[..., :k], g_U[..., :k]
    if Vh.shape[-2] > k:
        Vh, g_Vh = Vh[..., :k, :], g_Vh[..., :k, :]
    s2 = S * S
    gap = gaps(s2)
    u_part, v_part = skew(U.mH @ g_U), skew(Vh @ g_Vh.mH)
    check_phases("svd", (u_part + v_part).diagonal(0, -2, -1), "singular vectors")
    inner = u_part / gap * S.unsqueeze(-2) + S.unsqueeze(-1) * (v_part / gap)
    inner = off_diagonal(inner) + g_S.diag_embed()
    if U.is_complex():
        inner = inner + (u_part.diagonal(0, -2, -1) / (2 * S)).diag_embed()
    g = U @ inner @ Vh
    if m > k:
        beside = g_U / S.unsqueeze(-2)
        g = g + (beside - U @ (U.mH @ beside)) @ Vh
    if n > k:
        beside = g_Vh / S.unsqueeze(-1)
        g = g + U @ (beside - (beside @ Vh.mH) @ Vh)
    return g


svd.grad(A=svd_input)


@op(where="internal", name="svdvals", node="LinalgSvdBackward0", intermediates=("U", "Vh"))
def svdvals_alone(xp, A: Array, keep: bool):
    """The singular values; with the vectors where a backward will read them."""
    if not keep:
        return xp.svdvals(A), None, None
    u, s, vh = xp.svd(A, False)
    return s, u, vh


def svdvals_input(g, A):
    """U diag(g) Vh: no quotients of singular values, so a norm of a matrix of zeros has a gradient."""
    u, _, vh = svd(A, False)
    return u * g.unsqueeze(-2) @ vh


svdvals_alone.grad(A=svdvals_input, kernel=lambda xp, g, U, Vh: xp.matmul(U * g[..., None, :], Vh))


@composite(where="linalg")
def svdvals(A: Array, *, driver: str | None = None):
    """The singular values of matrices [..., m, n], descending."""
    check.matrix("linalg.svdvals", A)
    check.floating("linalg.svdvals", A)
    return svd(A, False, driver=driver)[1] if driver else svdvals_alone(A)


@composite(name="svd")
def svd_of_old(input: Array, some: bool = True, compute_uv: bool = True):
    """(U, S, V) with A = U diag(S) Vᴴ; `linalg.svd` returns Vᴴ.

    Without `compute_uv` U and V are zeros.
    """
    check.matrix("linalg.svd", input)
    if not compute_uv:
        *lead, m, n = input.shape
        zeros = input.detach().new_zeros
        values = (zeros((*lead, m, m)), svdvals(input), zeros((*lead, n, n)).mH)
    else:
        u, s, vh = svd(input, not some)
        values = (u, s, vh.mH)
    return named("svd", ("U", "S", "V"), values)
