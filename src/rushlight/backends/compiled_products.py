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
from rushlight.compiler import types
from rushlight.compiler.kernels import gemm, gemv

F32, F64 = np.dtype(np.float32), np.dtype(np.float64)
BF16 = dtypes.bfloat16.np
SUMS = {"f": F32, "d": F64, "e": F32, BF16.char: F32}  # dtype.char -> that of sums
ELEMENTS = {"f": types.f32, "d": types.f64, "e": types.f16, BF16.char: types.bf16}
PAIRS, PAIRED = "pairs", "paired"  # of bfloat16: some machines multiply and add two at once
FEW, SOME = gemv.FEW, gemv.SOME

# Products of one element of A with one of B (m * n * k) from which machine code pays, calls
# included, against NumPy with OpenBLAS's kernels for this machine; measured on Zen 5 with AVX-512.
# In between NumPy is up to a fifth faster, on one thread: but from 64 ** 3 it uses threads, and its
# threads, which wait in loops, and ours get into each other's way.
SMALL = max(1, compiled.threshold(64**3 + 1))
SMALL_TRANSPOSED = max(1, compiled.threshold(48**3))  # A @ Bᵀ, which OpenBLAS is slower at
SMALL_HALF = max(1, compiled.threshold(16**3))  # NumPy converts, multiplies, converts back

# The same for up to SOME vectors. NumPy leaves its kernels for small matrices at THIN, and is
# several times slower from there; for one vector (ONE) it becomes equal, and would use threads.
ONE, THIN = max(1, compiled.threshold(2**18)), max(1, compiled.threshold(2**20))
THIN_TRANSPOSED = max(1, compiled.threshold(2**18))  # more than FEW rows of A @ Bᵀ
THIN_SUMS = max(1, compiled.threshold(64))  # products in a sum along rows
DOT = max(1, compiled.threshold(16384))  # OpenBLAS uses threads from 10001

# With fewer numbers in A times numbers in B nothing pays: what most small products go by.
LEAST = min(SMALL, SMALL_TRANSPOSED, ONE, THIN, THIN_TRANSPOSED)

# Of small results of long sums (gradients of weights) threads share the sums, by so many products.
SPAN, SPANNED = 4096, 128 * 128


class _Kernels(dict):
    """Compiled kernels, made when they are first wanted: `gemm.product` by the dtype.char of the
    sums, or PAIRS (None where the machine has no such); those of `gemv.py` by their name, dtype.char
    and number of vectors, conversions by two."""

    def __missing__(self, key: Any) -> Any:
        if key == PAIRS:
            kernel = None
            if gemm.pairs():
                kernel = gemm.product.compiled(**gemm.sizes(types.f32, types.i32))
        elif key == PAIRED:
            kernel = gemm.pair_rows.compiled()
        elif isinstance(key, str):
            kernel = gemm.product.compiled(**gemm.sizes(ELEMENTS[key]))
        elif len(key) == 2:
            kernel = gemm.convert.compiled(A=ELEMENTS[key[0]], B=ELEMENTS[key[1]])
        else:
            name, char, count = key
            known = gemv.sizes(ELEMENTS[char], count)
            names = {"rows": "ETJLRU", "columns": "ETJLV", "dot": "ETLV"}[name]
            used = {k: known[k] for k in names}
            kernel = getattr(gemv, name).compiled(**used)
        self[key] = kernel
        return kernel


_kernels = _Kernels()


def converted(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in another dtype of SUMS with the numbers in the same order in memory, or C's."""
    if a.ndim == 2 and not a.flags.c_contiguous and a.T.flags.c_contiguous:
        return converted(a.T, dtype).T
    if not a.flags.c_contiguous:
        a = np.ascontiguousarray(a)
    out = np.empty(a.shape, dtype)
    _kernels[a.dtype.char, dtype.char](a, out, a.size)
    return out


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
    """a @ b, both of one dtype of SUMS, whose result is known to have this shape, with no dimension
    of size 0; plus a row. The result has the dtype of the sums."""
    sums, kernel = SUMS[a.dtype.char], None
    if a.dtype is BF16 and a.ndim == b.ndim == 2 and a.shape[1] % 2 == 0:
        kernel = _kernels[PAIRS]
    if kernel is not None:
        a, b = paired(a), paired(b.T).T
    elif a.dtype is not sums:
        a, b = converted(a, sums), converted(b, sums)
    kernel, c = kernel or _kernels[sums.char], np.empty(shape, sums)
    if row is not None:
        kernel(a, b, c, row, c, gemm.BIAS)
    elif a.shape[-1] < 2 * SPAN or c.size > SPANNED or len(shape) != 2:
        kernel(a, b, c, c, c, gemm.SET)
    else:
        k = a.shape[1]
        span = max(SPAN, -(-k // (64 * SPAN)) * SPAN)  # 64 parts at most
        kernel(a, b, c, c, np.empty((-(-k // span), *shape), sums), gemm.SET + 4 * span)
    return c


def paired(a: np.ndarray) -> np.ndarray:
    """A matrix of bfloat16 as one of pairs of neighbours in its rows."""
    if a.strides[1] == 2 and a.strides[0] > 0 == a.strides[0] % 4:
        return a.view(np.int32)
    columns = a.T.view(np.uint16)
    if columns.strides[1] != 2 or columns.strides[0] <= 0:
        columns = np.ascontiguousarray(columns)
    k, n = columns.shape
    out = np.empty((k // 2, n), np.int32)
    _kernels[PAIRED](columns, out, k, n, columns.strides[0] // 2)
    return out.T


def thin(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """a [m, k] @ b [k, n], both of one dtype of SUMS, where m or n is at most SOME, in the dtype of
    the sums; None unless the other matrix has contiguous rows or columns."""
    c = np.empty((a.shape[0], b.shape[1]), SUMS[a.dtype.char])
    matrix, vectors, out = (b.T, a, c) if a.shape[0] <= b.shape[1] else (a, b.T, c.T)
    size, char, count = matrix.itemsize, matrix.dtype.char, vectors.shape[0]
    if count > 1:
        count = FEW if count <= FEW else SOME
    if matrix.strides[1] == size and matrix.shape[1] >= THIN_SUMS:
        _kernels["rows", char, count](matrix, vectors, out)
    elif matrix.strides[0] == size and count <= FEW:
        _kernels["columns", char, count](matrix, vectors, out)
    else:
        return None
    return c


def matrices(a: np.ndarray, b: np.ndarray, row: np.ndarray | None = None) -> np.ndarray | None:
    """a [m, k] @ b [k, n], plus a row, in the dtype of the sums, if it is for machine code."""
    (m, k), (l, n) = a.shape, b.shape
    dtype, work = a.dtype, m * k * n
    if k != l or dtype is not b.dtype:
        return None
    if m > SOME < n and (dtype is F32 or dtype is F64):  # in a hurry
        if work < SMALL and (work < SMALL_TRANSPOSED or b.strides[1] <= b.strides[0]):
            return None
        if k < 2 * SPAN:
            c = np.empty((m, n), dtype)
            if row is None:
                _kernels[dtype.char](a, b, c, c, c, 0)
            else:
                _kernels[dtype.char](a, b, c, row, c, 2)
            return c
    if dtype.char not in SUMS:
        return None
    if m <= SOME or n <= SOME:
        least = ONE if m == 1 or n == 1 else THIN
        if dtype.itemsize == 2:
            least = SMALL_HALF
        if FEW < m <= SOME and b.strides[0] < b.strides[1]:
            least = min(least, THIN_TRANSPOSED)
        if work < least:
            return None
        c = thin(a, b)
        if c is not None:
            return c if row is None else np.add(c, row, out=c)
    return product(a, b, (m, n), row) if pays(a, b, work) else None


def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[..., n, k] @ [..., k, m], with vectors and broadcast batches as in `torch.matmul`."""
    if a.size * b.size < LEAST and a.dtype.itemsize > 2:
        return reference.matmul(a, b)
    if a.ndim == 2 and b.ndim == 2:
        c = matrices(a, b)
    else:
        c = batches(a, b)
    return reference.matmul(a, b) if c is None else rounded(c, a.dtype)


def rounded(c: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A fresh C-contiguous array in the dtype that is asked for."""
    return c if c.dtype is dtype else converted(c, dtype)


def batches(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The product where at least one operand does not have two dimensions, if it is for us."""
    if a.ndim == 1 == b.ndim:
        return dot(a, b)
    if a.ndim == 2 and b.ndim == 1:
        c = matrices(a, b[:, None])
        return c if c is None else c[:, 0]
    if a.ndim == 1 and b.ndim == 2:
        c = matrices(a[None], b)
        return c if c is None else c[0]
    if a.ndim < 2 or b.ndim < 2 or a.shape[-1] != b.shape[-2]:
        return None
    k, n = b.shape[-2:]
    work = min(a.size, b.size) and max(a.size * n, b.size * a.shape[-2])
    if not pays(a, b, work):
        return None
    if b.ndim == 2 and a.flags.c_contiguous:  # one product
        c = matrices(a.reshape(-1, k), b)
        return c if c is None else c.reshape(*a.shape[:-1], n)
    batch = a.shape[:-2]
    if batch != b.shape[:-2]:
        try:
            batch = np.broadcast_shapes(batch, b.shape[:-2])
        except ValueError:
            return None
    return product(a, b, (*batch, a.shape[-2], n))


def mm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, k] @ [k, m]."""
    if (a.size * b.size < LEAST and a.dtype.itemsize > 2) or a.ndim != 2 or b.ndim != 2:
        return reference.mm(a, b)
    c = matrices(a, b)
    return reference.matmul(a, b) if c is None else rounded(c, a.dtype)


def mv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, k] @ [k]."""
    if (a.size * b.size < LEAST and a.dtype.itemsize > 2) or a.ndim != 2 or b.ndim != 1:
        return reference.mv(a, b)
    c = matrices(a, b[:, None])
    return reference.mv(a, b) if c is None else rounded(c[:, 0], a.dtype)


def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[k] @ [k]."""
    dtype, n = a.dtype, a.size
    if (
        n < (DOT if dtype.itemsize > 2 else SMALL_HALF)
        or a.shape != b.shape
        or a.ndim != 1
        or dtype is not b.dtype
        or dtype.char not in SUMS
        or not a.flags.c_contiguous
        or not b.flags.c_contiguous
    ):
        return reference.dot(a, b)
    out = np.empty((), SUMS[dtype.char])
    parts = np.empty(n // gemv.CHUNK + 1, out.dtype)
    _kernels["dot", dtype.char, 1](a, b, parts, out, n)
    return rounded(out, dtype)


def vdot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """conj([k]) @ [k]."""
    return reference.vdot(a, b) if a.dtype.kind == "c" else dot(a, b)


def bmm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[batch, n, k] @ [batch, k, m]."""
    if a.size * b.size < LEAST and a.dtype.itemsize > 2:
        return reference.bmm(a, b)
    reference.check_bmm(a, b)
    c = batches(a, b)
    return reference.bmm(a, b) if c is None else rounded(c, a.dtype)


def times_adjoint(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ bᴴ, for matrices [..., n, k] and [..., m, k]."""
    if a.size * b.size < LEAST and a.dtype.itemsize > 2:
        return reference.times_adjoint(a, b)
    return matmul(a, reference.adjoint(b))


def adjoint_times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """aᴴ @ b, for matrices [..., k, n] and [..., k, m]."""
    if a.size * b.size < LEAST and a.dtype.itemsize > 2:
        return reference.adjoint_times(a, b)
    return matmul(reference.adjoint(a), b)


def linear(a: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """a [..., k] @ weight [m, k]ᵀ + bias [m]."""
    if (
        (a.size * weight.size < LEAST and a.dtype.itemsize > 2)
        or a.ndim < 2
        or weight.ndim != 2
        or a.shape[-1] != weight.shape[1]
        or (bias is not None and (bias.dtype is not a.dtype or bias.shape != weight.shape[:1]))
    ):
        return reference.linear(a, weight, bias)
    n, k = weight.shape
    row = bias
    if bias is not None and bias.dtype.itemsize == 2:
        row = bias.astype(F32)
    elif bias is not None and bias.strides != (bias.itemsize,):
        row = np.ascontiguousarray(bias)
    if a.ndim == 2:
        c = matrices(a, weight.T, row)
    elif a.flags.c_contiguous and a.size:
        c = matrices(a.reshape(-1, k), weight.T, row)
        c = c if c is None else c.reshape(*a.shape[:-1], n)
    else:
        pay = pays(a, weight.T, a.size * n)
        c = product(a, weight.T, (*a.shape[:-1], n), row) if pay else None
    return reference.linear(a, weight, bias) if c is None else rounded(c, a.dtype)


def accumulate(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float
) -> np.ndarray:
    """beta * input + alpha * (a @ b); half types are rounded once."""
    if (
        (a.size * b.size < LEAST and a.dtype.itemsize > 2)
        or input.dtype is not a.dtype
        or a.dtype.char not in SUMS
    ):
        return reference.accumulate(input, a, b, beta, alpha)
    if a.ndim != 2 or b.ndim != 2:
        c = batches(a, b)
    elif beta == 1 == alpha and input.shape == b.shape[1:] and input.dtype.itemsize > 2:
        c = matrices(a, b, np.ascontiguousarray(input))
        if c is not None:
            return c
    else:
        c = matrices(a, b)
    if c is None:
        return reference.accumulate(input, a, b, beta, alpha)
    if c.dtype is not input.dtype:
        input = input.astype(c.dtype)
    if alpha != 1:
        c *= c.dtype.type(alpha)
    return rounded(reference.plus(c, input, beta), a.dtype)
