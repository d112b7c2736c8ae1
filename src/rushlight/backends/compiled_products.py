"""Products of matrices in machine code: the kernels of `numpy_products.py` for what is large enough.

What is taken: float32 and float64, and the half types, which are multiplied in float32 and rounded
once; matrices and batches of them with any strides. All else is the reference's, whose errors are
the errors here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight import dtypes
from rushlight.backends import compiled
from rushlight.backends import numpy_products as reference
from rushlight.compiler import gemm, gemv, types

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
BF16 = dtypes.bfloat16.np
SUMS = {"f": F32, "d": F64, "e": F32, BF16.char: F32}  # dtype.char -> that of sums
FULL = frozenset((F32, F64))

# Products of one element of A with one of B (m * n * k) from which machine code pays, calls
# included, against NumPy with OpenBLAS's kernels for this machine; measured on Zen 5 with AVX-512.
SMALL = max(1, compiled.threshold(96**3))
SMALL_TRANSPOSED = max(1, compiled.threshold(48**3))  # A @ Bᵀ, which OpenBLAS is slower at
SMALL_HALF = max(1, compiled.threshold(16**3))  # NumPy converts, multiplies, converts back

# Products with 2 to gemv.SOME vectors: from here NumPy leaves its kernels for small matrices, and is
# several times slower. One vector (ONE) is NumPy's: it reads the matrix as fast as can be.
THIN, ONE = max(1, compiled.threshold(2**20)), compiled.threshold(1)
THIN_TRANSPOSED = max(1, compiled.threshold(2**18))  # more than gemv.FEW rows of A @ Bᵀ
THIN_SUMS = max(1, compiled.threshold(64))  # products in a sum along rows

# Of small results of long sums (gradients of weights) threads share the sums, by so many products.
SPAN, SPANNED = 4096, 128 * 128


class _Products(dict):
    """`gemm.product` by the dtype.char of A and B, compiled when it is first wanted."""

    def __missing__(self, char: str) -> Any:
        element = types.bf16 if char == BF16.char else types.of(np.dtype(char))
        kernel = self[char] = gemm.product.compiled(**gemm.sizes(element))
        return kernel


_product = _Products()


class _Thin(dict):
    """Kernels of `gemv.py` by their name, dtype.char and number of vectors at once."""

    def __missing__(self, key: tuple[str, str, int]) -> Any:
        name, char, count = key
        element = types.bf16 if char == BF16.char else types.of(np.dtype(char))
        known = gemv.sizes(element, count)
        used = {k: known[k] for k in ("ETJLRU" if name == "rows" else "ETJLV")}
        kernel = self[key] = getattr(gemv, name).compiled(**used)
        return kernel


_thin = _Thin()


def thin(matrix: np.ndarray, vectors: np.ndarray, out: np.ndarray) -> bool:
    """out[j, i] = Σ_k vectors[j, k] * matrix[i, k], if the rows or columns of the matrix are
    contiguous; whether it was done."""
    size, char, count = matrix.itemsize, matrix.dtype.char, vectors.shape[0]
    if count > 1:
        count = gemv.FEW if count <= gemv.FEW else gemv.SOME
    if matrix.strides[1] == size and matrix.shape[1] >= THIN_SUMS:
        _thin["rows", char, count](matrix, vectors, out)
    elif matrix.strides[0] == size and count <= gemv.FEW:
        _thin["columns", char, count](matrix, vectors, out)
    else:
        return False
    return True


def pays(a: np.ndarray, b: np.ndarray, work: int) -> bool:
    """Whether the product of matrices that takes so many multiplications is for machine code."""
    if a.dtype is not b.dtype or a.dtype.char not in SUMS:
        return False
    if work >= SMALL:
        return True
    if a.dtype.itemsize == 2:
        return work >= SMALL_HALF
    return work >= SMALL_TRANSPOSED and b.strides[-1] > b.strides[-2]


def product(
    a: np.ndarray, b: np.ndarray, shape: tuple[int, ...], row: np.ndarray | None = None
) -> np.ndarray:
    """a @ b, both of the same dtype, whose result is known to have this shape, with no dimension of
    size 0; plus a row. The result has the dtype of the sums."""
    char = a.dtype.char
    c = np.empty(shape, SUMS[char])
    if row is not None:
        _product[char](a, b, c, row, c, gemm.BIAS)
    elif a.shape[-1] < 2 * SPAN or c.size > SPANNED or len(shape) != 2:
        _product[char](a, b, c, c, c, gemm.SET)
    else:
        parts = np.empty((-(-a.shape[1] // SPAN), *shape), c.dtype)
        _product[char](a, b, c, c, parts, gemm.SET + 4 * SPAN)
    return c


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[..., n, k] @ [..., k, m], with vectors and broadcast batches as in `torch.matmul`."""
    if a.ndim != 2 or b.ndim != 2:
        return matmul_batched(a, b)
    (m, k), (l, n) = a.shape, b.shape
    if k != l:
        return reference.matmul(a, b)
    if m <= gemv.SOME or n <= gemv.SOME:
        if a.dtype is not b.dtype or a.dtype.char not in SUMS:
            return reference.matmul(a, b)
        full = a.dtype.itemsize > 2
        least = THIN if full else SMALL_HALF
        if m > gemv.FEW and b.strides[0] < b.strides[1]:
            least = min(least, THIN_TRANSPOSED)
        if k * m * n < least or (full and ONE and (m == 1 or n == 1)):
            return reference.matmul(a, b)
        c = np.empty((m, n), SUMS[a.dtype.char])
        if thin(b.T, a, c) if m <= n else thin(a, b.T, c.T):
            return c if full else reference.rounded(c, a.dtype)
    if not pays(a, b, m * n * k):
        return reference.matmul(a, b)
    c = product(a, b, (m, n))
    return c if c.dtype is a.dtype else reference.rounded(c, a.dtype)


def matmul_batched(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """At least one operand does not have two dimensions."""
    if a.ndim == 2 and b.ndim == 1 and a.shape[1] == b.shape[0]:
        return matmul(a, b[:, None])[:, 0]
    if a.ndim == 1 and b.ndim == 2 and a.shape[0] == b.shape[0]:
        return matmul(a[None], b)[0]
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        return reference.matmul(a, b)
    k, n = b.shape[-2:]
    work = min(a.size, b.size) and max(a.size * n, b.size * a.shape[-2])
    if not pays(a, b, work):
        return reference.matmul(a, b)
    if b.ndim == 2 and a.flags.c_contiguous:  # one product
        c = product(a.reshape(-1, k), b, (a.size // k, n)).reshape(*a.shape[:-1], n)
    else:
        batch = a.shape[:-2]
        if batch != b.shape[:-2]:
            try:
                batch = np.broadcast_shapes(batch, b.shape[:-2])
            except ValueError:
                return reference.matmul(a, b)
        c = product(a, b, (*batch, a.shape[-2], n))
    return c if c.dtype is a.dtype else reference.rounded(c, a.dtype)


def mm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, k] @ [k, m]."""
    if a.ndim != 2 or b.ndim != 2:
        return reference.mm(a, b)
    return matmul(a, b)


def bmm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[batch, n, k] @ [batch, k, m]."""
    reference.check_bmm(a, b)
    return matmul_batched(a, b)


def times_adjoint(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ bᴴ, for matrices [..., n, k] and [..., m, k]."""
    return matmul(a, reference.adjoint(b))


def adjoint_times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """aᴴ @ b, for matrices [..., k, n] and [..., k, m]."""
    return matmul(reference.adjoint(a), b)


def linear(a: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """a [..., k] @ weight [m, k]ᵀ + bias [m]."""
    if a.ndim < 2 or weight.ndim != 2 or a.shape[-1] != weight.shape[1]:
        return reference.linear(a, weight, bias)
    n, k = weight.shape
    b = weight.T
    if not pays(a, b, a.size * n) or (bias is not None and bias.dtype is not a.dtype):
        return reference.linear(a, weight, bias)
    row = None
    if bias is not None and bias.shape == (n,):
        row = bias.astype(F32) if bias.dtype.itemsize == 2 else np.ascontiguousarray(bias)
    if a.ndim == 2:
        c = product(a, b, (a.shape[0], n), row)
    elif a.flags.c_contiguous:
        c = product(a.reshape(-1, k), b, (a.size // k, n), row).reshape(*a.shape[:-1], n)
    else:
        c = product(a, b, (*a.shape[:-1], n), row)
    if row is None and bias is not None:
        c = reference.plus(c, bias if bias.dtype is c.dtype else bias.astype(F32))
    return c if c.dtype is a.dtype else reference.rounded(c, a.dtype)


def accumulate(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float
) -> np.ndarray:
    """beta * input + alpha * (a @ b); half types are rounded once."""
    if (
        alpha != 1
        or a.ndim != 2
        or b.ndim != 2
        or a.shape[1] != b.shape[0]
        or input.dtype is not a.dtype
        or not pays(a, b, a.size * b.shape[1])
    ):
        if a.dtype not in FULL:
            return reference.accumulate(input, a, b, beta, alpha)
        r = matmul(a, b)
        return reference.plus(r if alpha == 1 else reference.times(r, alpha), input, beta)
    shape, char = (a.shape[0], b.shape[1]), a.dtype.char
    if beta == 0:
        reference.broadcast_to(input, shape)
        c = product(a, b, shape)
    else:
        start = reference.broadcast_to(input, shape)
        c = start.astype(SUMS[char], order="C")
        if beta != 1:
            c *= c.dtype.type(beta)
        _product[char](a, b, c, c, c, gemm.ADD)
    return c if c.dtype is a.dtype else reference.rounded(c, a.dtype)
