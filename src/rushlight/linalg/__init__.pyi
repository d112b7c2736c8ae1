"""The functions of `linalg`. Written by scripts/stubs.py; do not edit."""

import builtins
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from rushlight.core.device import device as _device
from rushlight.core.dtypes import dtype as _dtype
from rushlight.core.dtypes import layout as _layout
from rushlight.core.dtypes import memory_format as _memory_format
from rushlight.core.size import Size as Size
from rushlight.core.tensor import Tensor

_int = builtins.int
_float = builtins.float
_bool = builtins.bool
_str = builtins.str
_type = builtins.type
_complex = builtins.complex
_Number = builtins.bool | builtins.int | builtins.float | builtins.complex
_Ints = builtins.int | Sequence[builtins.int]

class _L_info(NamedTuple):
    L: Tensor
    info: Tensor

class _eigenvalues_eigenvectors(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor

class _inverse_info(NamedTuple):
    inverse: Tensor
    info: Tensor

class _LD_pivots_info(NamedTuple):
    LD: Tensor
    pivots: Tensor
    info: Tensor

class _LU_pivots_info(NamedTuple):
    LU: Tensor
    pivots: Tensor
    info: Tensor

class _Q_R(NamedTuple):
    Q: Tensor
    R: Tensor

class _sign_logabsdet(NamedTuple):
    sign: Tensor
    logabsdet: Tensor

class _U_S_Vh(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor

def cholesky(A: Tensor, *, upper: _bool = False, out: Any = None) -> Tensor:
    """L of A = L Lᴴ for Hermitian positive-definite matrices [..., n, n]; `upper`: Lᴴ."""
def cholesky_ex(input: Tensor, *, upper: _bool = False, check_errors: _bool = False, out: Any = None) -> _L_info:
    """(L, info): the Cholesky factor, and the order of the first minor that is not positive or 0."""
def cond(A: Tensor, p: _float | _str | None = None, *, out: Any = None) -> Tensor:
    """The condition numbers: the norm times the norm of the inverse; for None, 2 and -2 a quotient of"""
def cross(input: Tensor, other: Tensor, *, dim: _int = -1, out: Any = None) -> Tensor:
    """The vector products along `dim`, which has three elements; other dimensions are broadcast."""
def det(A: Tensor, *, out: Any = None) -> Tensor:
    """The determinants [...] of square matrices [..., n, n]."""
def diagonal(A: Tensor, *, offset: _int = 0, dim1: _int = -2, dim2: _int = -1, out: Any = None) -> Tensor:
    """The diagonals of matrices [..., n, m]: a view; `torch.diagonal` with other defaults."""
def eig(A: Tensor, *, out: Any = None) -> _eigenvalues_eigenvectors:
    """(eigenvalues, eigenvectors) of square matrices [..., n, n]: complex, in no particular order, the"""
def eigh(A: Tensor, UPLO: _str = 'L', *, out: Any = None) -> _eigenvalues_eigenvectors:
    """(eigenvalues, eigenvectors) of Hermitian matrices [..., n, n]: real, in ascending order, and"""
def eigvals(A: Tensor, *, out: Any = None) -> Tensor:
    """The eigenvalues of square matrices [..., n, n], complex."""
def eigvalsh(A: Tensor, UPLO: _str = 'L', *, out: Any = None) -> Tensor:
    """The eigenvalues of Hermitian matrices [..., n, n], in ascending order."""
def householder_product(input: Tensor, tau: Tensor, *, out: Any = None) -> Tensor:
    """The first n columns of H1 H2 ... Hk, Hi = I - tau_i v_i v_iᴴ, v_i below the diagonal of column i."""
def inv(A: Tensor, *, out: Any = None) -> Tensor:
    """The inverses of square matrices [..., n, n]; LinAlgError when one is singular."""
def inv_ex(A: Tensor, *, check_errors: _bool = False, out: Any = None) -> _inverse_info:
    """(inverse, info): info is 0, or the number of the pivot that is zero, where the inverse holds"""
def ldl_factor(A: Tensor, *, hermitian: _bool = False, out: Any = None) -> Tensor:
    """(LD, pivots): see `linalg.ldl_factor_ex`; LinAlgError when D is singular."""
def ldl_factor_ex(A: Tensor, *, hermitian: _bool = False, check_errors: _bool = False, out: Any = None) -> _LD_pivots_info:
    """(LD, pivots, info) of A = L D Lᵀ (Lᴴ if `hermitian`) in LAPACK's packed form; reads the lower"""
def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: _bool = False, out: Any = None) -> Tensor:
    """X of A X = B from what `linalg.ldl_factor` returned."""
def lstsq(input: Tensor, b: Tensor, rcond: _float | None = None, *, driver: _str | None = None, out: Any = None) -> Tensor:
    """(solution, residuals, rank, singular_values) of min ||A X - B||, A [..., m, n], B [..., m, k]."""
def lu(A: Tensor, *, pivot: _bool = True, out: Any = None) -> Tensor:
    """(P, L, U): A = P L U with a permutation, a unit lower and an upper triangular matrix."""
def lu_factor(A: Tensor, *, pivot: _bool = True, out: Any = None) -> Tensor:
    """(LU, pivots): see `linalg.lu_factor_ex`; RuntimeError when U has a zero on its diagonal."""
def lu_factor_ex(A: Tensor, *, pivot: _bool = True, check_errors: _bool = False, out: Any = None) -> _LU_pivots_info:
    """(LU, pivots, info): L and U of A = P L U in one matrix [..., n, m], the exchanges of rows"""
def lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: _bool = True, adjoint: _bool = False, out: Any = None) -> Tensor:
    """X of A X = B (X A = B unless `left`, Aᴴ for A if `adjoint`) from what `linalg.lu_factor`"""
def matmul(input: Tensor, other: Tensor, *, out: Any = None) -> Tensor:
    """The product of matrices [..., n, k] @ [..., k, m] -> [..., n, m], also written `@`."""
def matrix_exp(A: Tensor, *, out: Any = None) -> Tensor:
    """The exponentials of square matrices [..., n, n]."""
def matrix_norm(A: Tensor, ord: _float | _str = 'fro', dim: _Ints = ..., keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The norms of matrices in the two dimensions `dim`."""
def matrix_power(A: Tensor, n: _int, *, out: Any = None) -> Tensor:
    """A to the power of the integer `n`, by repeated squaring; the inverse for negative `n`."""
def matrix_rank(input: Tensor, tol: _float | None = None, hermitian: _bool = False, *, atol: _float | None = None, rtol: _float | None = None, out: Any = None) -> Tensor:
    """How many singular values are greater than max(atol, rtol * the largest) (int64)."""
def multi_dot(tensors: Sequence[Tensor], *, out: Any = None) -> Tensor:
    """The product of two or more matrices, in the order of least work; the first and the last may be"""
def norm(A: Tensor, ord: _float | _str | None = None, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """`vector_norm` or `matrix_norm`: a matrix norm when `dim` names two dimensions and `ord` is given,"""
def pinv(A: Tensor, rcond: _float | None = None, hermitian: _bool = False, *, atol: _float | None = None, rtol: _float | None = None, out: Any = None) -> Tensor:
    """The pseudoinverses [..., n, m] of matrices [..., m, n], by their singular values."""
def qr(A: Tensor, mode: _str = 'reduced', *, out: Any = None) -> _Q_R:
    """(Q, R): A [..., m, n] = Q R with orthonormal columns in Q and R upper triangular."""
def slogdet(A: Tensor, *, out: Any = None) -> _sign_logabsdet:
    """(sign, logabsdet): the determinants are sign * exp(logabsdet); the sign is a phase for complex"""
def solve(A: Tensor, B: Tensor, *, left: _bool = True, out: Any = None) -> Tensor:
    """X of A X = B (X A = B unless `left`), for square A [..., n, n] and B [..., n, k] or [..., n]."""
def solve_ex(A: Tensor, B: Tensor, *, left: _bool = True, check_errors: _bool = False, out: Any = None) -> Tensor:
    """(result, info): as `linalg.solve`, with infinities and the number of a pivot that is zero"""
def solve_triangular(A: Tensor, B: Tensor, *, upper: _bool, left: _bool = True, unitriangular: _bool = False, out: Any = None) -> Tensor:
    """X of A X = B (X A = B unless `left`) for triangular A; the other triangle is not read, nor is"""
def svd(A: Tensor, full_matrices: _bool = True, *, driver: _str | None = None, out: Any = None) -> _U_S_Vh:
    """(U, S, Vh): A [..., m, n] = U diag(S) Vh, S descending; U and V orthogonal, their first"""
def svdvals(A: Tensor, *, driver: _str | None = None, out: Any = None) -> Tensor:
    """The singular values of matrices [..., m, n], descending."""
def tensorinv(A: Tensor, ind: _int = 2, *, out: Any = None) -> Tensor:
    """The inverse of `tensordot(A, _, A.ndim - ind)`: the first `ind` dimensions make the rows."""
def tensorsolve(A: Tensor, B: Tensor, dims: _Ints | None = None, *, out: Any = None) -> Tensor:
    """X of tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""
def vander(x: Tensor, *, N: _int | None = None, out: Any = None) -> Tensor:
    """The powers 0 to N - 1 of the elements of x [..., n]: [..., n, N]; N defaults to n."""
def vecdot(x: Tensor, y: Tensor, *, dim: _int = -1, out: Any = None) -> Tensor:
    """The inner products along `dim`: the sum of conj(x) * y, with broadcasting."""
def vector_norm(x: Tensor, ord: _Number = 2, dim: _Ints | None = None, keepdim: _bool = False, *, dtype: _dtype | None = None, out: Any = None) -> Tensor:
    """The norms of vectors along `dim`: (Σ |x|ᵒʳᵈ)^(1/ord), ±inf for the extremes, 0 for the number"""

def __getattr__(name: _str) -> Any: ...
