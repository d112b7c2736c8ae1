"""Products of matrices in machine code: the kernels of `reference/products.py` for what is large enough.

What is taken: float32 and float64, and the half types, which are multiplied in float32 and rounded
once; matrices and batches of them with any strides. All else is the reference's, whose errors are
the errors here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import llvm
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import products as reference
from rushlight._codegen import types
from rushlight._codegen.kernels import gemm, gemv
from rushlight.core.dtype_sets import (
    BF16,
    F16,
    F32,
    F64,
    FLOATING,
    FULL,
    I8,
    I16,
    I32,
    I64,
    REDUCED,
    U8,
)

ELEMENTS = {
    F32: types.f32, F64: types.f64, F16: types.f16, BF16: types.bf16,
    I64: types.i64, I32: types.i32, I16: types.i16, I8: types.i8, U8: types.i8,
}  # dtype -> what a kernel takes it for; whole numbers wrap around whether signed or not  # fmt: skip
DEEP, FEW, SOME = gemm.DEPTH, gemv.FEW, gemv.SOME
ADD, BIAS, SCALE = gemm.ADD, gemm.BIAS, gemm.SCALE  # what a product is added to

# Products of one element of A with one of B (m * n * k) up to which NumPy is as fast: OpenBLAS for small
# matrices, with a result that it allocates itself.
SMALL = llvm.threshold(4096)
SMALL_VECTOR, SMALL_DOT = llvm.threshold(4096), llvm.threshold(512)
SMALL_OUTER = llvm.threshold(256)
# Half types are read as they are below this; above it converting them first, or for bfloat16 making
# pairs, takes less time than it saves.
DIRECT = llvm.threshold(32**3)
LITTLE = 4096  # elements of a matrix up to which it is multiplied by few vectors as by many
THIN_SUMS = llvm.threshold(16)  # of sums along rows of a matrix with several vectors: products

# Of small results of long sums (gradients of weights) threads share the sums, by so many products.
SPAN, SPANNED = 4096, 128 * 128


class _Kernels(dict):
    """Compiled kernels, made when they are first wanted, by dtype: `gemm.product`; with "relu" or
    "gelu" behind it, the same with an activation; with "to" and another, a conversion; the kernels
    of `gemv.py` by their name and number of vectors. PAIRS are of bfloat16."""

    def __missing__(self, key: Any) -> Any:
        if isinstance(key, tuple):
            kernel = getattr(self, key[0])(*key[1:])
        else:
            kernel = gemm.product.compiled(**gemm.known(ELEMENTS[key]))
        self[key] = kernel
        return kernel

    def act(self, dtype: np.dtype, act: str) -> Any:
        return gemm.product.compiled(**gemm.known(ELEMENTS[dtype], act=act))

    def pairs(self, dtype: np.dtype) -> Any:
        """Of products of pairs whose result is of this type; None where the machine has no such."""
        if not gemm.pairs():
            return None
        return gemm.product.compiled(**gemm.known(types.i32, ELEMENTS[dtype]))

    def paired(self) -> Any:
        return gemm.pair_rows.compiled()

    def convert(self, dtype: np.dtype, to: np.dtype) -> Any:
        return gemm.convert.compiled(A=ELEMENTS[dtype], B=ELEMENTS[to])

    def joined(self, dtype: np.dtype) -> Any:
        known = gemm.sizes(ELEMENTS[dtype])
        return gemm.joined.compiled(T=known["T"], L=known["L"])

    def rows(self, dtype: np.dtype, count: int, to: np.dtype) -> Any:
        return gemv.rows.compiled(**gemv.known("rows", ELEMENTS[dtype], count, ELEMENTS[to]))

    def columns(self, dtype: np.dtype, count: int, to: np.dtype) -> Any:
        return gemv.columns.compiled(**gemv.known("columns", ELEMENTS[dtype], count, ELEMENTS[to]))

    def outer(self, dtype: np.dtype) -> Any:
        return gemv.outer.compiled(E=ELEMENTS[dtype])

    def outer_added(self, dtype: np.dtype) -> Any:
        return gemv.outer_added.compiled(E=ELEMENTS[dtype])

    def dot(self, dtype: np.dtype) -> Any:
        return gemv.dot.compiled(**gemv.known("dot", ELEMENTS[dtype], 1))


_kernels = _Kernels()


def converted(a: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A copy in another dtype with the numbers in the same order in memory, or C's."""
    if a.ndim == 2 and not a.flags.c_contiguous and a.T.flags.c_contiguous:
        return converted(a.T, dtype).T
    if not a.flags.c_contiguous:
        a = np.ascontiguousarray(a)
    out = np.empty(a.shape, dtype)
    _kernels["convert", a.dtype, dtype](a, out, a.size)
    return out


def readable(b: np.ndarray) -> np.ndarray:
    """Matrices whose rows or columns are contiguous, which `gemm.product` wants of its second ones."""
    s, t = b.strides[-2:]
    return b if s == b.itemsize or t == b.itemsize else np.ascontiguousarray(b)


def product(
    a: np.ndarray,
    b: np.ndarray,
    shape: tuple[int, ...],
    row: np.ndarray | None = None,
    begin: int = 0,
    alpha: float = 1.0,
    c: np.ndarray | None = None,
    act: str = "",
) -> np.ndarray:
    """a @ b, both of one dtype of ELEMENTS, whose result is known to have this shape, with no dimension
    of size 0. With a row or with `begin`, ADD to `c` (which is given, and changed) or SCALE: alpha
    times the product. Half types are rounded once: without `begin` to themselves, else the result
    is float32, as is what is given."""
    dtype, k = a.dtype, a.shape[-1]
    if dtype in REDUCED:
        return of_halves(a, b, shape, row, begin, alpha, c, act)
    b = readable(b)
    if c is None:
        c = np.empty(shape, dtype)
    kernel = _kernels["act", dtype, act] if act else _kernels[dtype]
    if row is not None:
        kernel(a, b, c, row, c, BIAS, alpha)
    elif begin or act or k < 2 * SPAN or c.size > SPANNED or len(shape) != 2:
        kernel(a, b, c, c, c, begin, alpha)
    else:
        span = max(SPAN, -(-k // (64 * SPAN)) * SPAN)  # 64 parts at most
        spans = -(-k // span)
        parts = np.empty((spans, *shape), dtype)
        kernel(a, b, c, c, parts, 8 * span, 1.0)
        _kernels["joined", dtype](parts, c, c.size, spans)
    return c


def of_halves(
    a: np.ndarray,
    b: np.ndarray,
    shape: tuple[int, ...],
    row: np.ndarray | None,
    begin: int,
    alpha: float,
    c: np.ndarray | None,
    act: str,
) -> np.ndarray:
    """`product` of half types. C of a half type is read and rounded once: of one block of sums."""
    dtype, k, kernel = a.dtype, a.shape[-1], None
    once = (c is None and not begin) or (c is not None and c.dtype is dtype)
    if act:
        once = False
    elif once and k <= DEEP and a.size * shape[-1] <= DIRECT:
        b, kernel = readable(b), _kernels[dtype]
    elif dtype is BF16 and k % 2 == 0:
        once = once and k <= 2 * DEEP
        kernel = _kernels["pairs", dtype if once else F32]
        if kernel is not None:
            a, b = paired(a), paired(b.swapaxes(-1, -2)).swapaxes(-1, -2)
    if c is not None and c.dtype is dtype and (kernel is None or not once):
        c = converted(c, F32)
    if kernel is None:
        return product(converted(a, F32), converted(b, F32), shape, row, begin, alpha, c, act)
    if c is None:
        c = np.empty(shape, dtype if once else F32)
    kernel(a, b, c, c if row is None else row, c, begin if row is None else BIAS, alpha)
    return c


def paired(a: np.ndarray) -> np.ndarray:
    """Matrices of bfloat16 as ones of pairs of neighbours in their rows."""
    strides = a.strides
    if strides[-1] == 2 and not any(s % 4 for s in strides[:-1]):
        return a.view(np.int32)
    columns = np.ascontiguousarray(a.swapaxes(-1, -2))
    *lead, k, n = columns.shape
    out = np.empty((*lead, k // 2, n), np.int32)
    rows = columns.size // n
    _kernels[("paired",)](columns, out, rows, n, n)
    return out.swapaxes(-1, -2)


def thin(
    a: np.ndarray, b: np.ndarray, c: np.ndarray, row: np.ndarray | None = None
) -> np.ndarray | None:
    """a [..., m, k] @ b [..., k, n], where m or n is at most SOME, in c, plus a row of c's dtype; None
    unless the other matrix has contiguous rows or columns."""
    m, n = c.shape[-2:]
    along = across = 0
    if row is not None:
        along, across = (1, 0) if m <= n else (0, 1)
    if m <= n:
        matrix, vectors, out, count = b.T if b.ndim == 2 else b.swapaxes(-1, -2), a, c, m
    else:
        matrix, vectors, out, count = a, b.swapaxes(-1, -2), c.swapaxes(-1, -2), n
    size, dtype, k = matrix.itemsize, matrix.dtype, matrix.shape[-1]
    if count > 1:
        count = FEW if count <= FEW else SOME
    if dtype in REDUCED and k > gemv.DEPTH:
        c = np.empty(c.shape, F32)
        out = c if out.shape == c.shape and m <= n else c.swapaxes(-1, -2)
    strides = matrix.strides
    if strides[-1] == size and (count == 1 or k >= THIN_SUMS):
        kernel = _kernels["rows", dtype, count, c.dtype]
    elif strides[-2] == size and (count <= FEW or dtype in REDUCED):
        kernel = _kernels["columns", dtype, count, c.dtype]
    else:
        return None
    kernel(matrix, vectors, out, c if row is None else row, along, across)
    return c


def matrices(a: np.ndarray, b: np.ndarray, row: np.ndarray | None = None) -> np.ndarray | None:
    """a [m, k] @ b [k, n], plus a row, if it is for machine code; of half types perhaps in float32."""
    (m, k), (l, n), (s, t) = a.shape, b.shape, b.strides
    dtype, work = a.dtype, m * k * n
    if k != l or dtype is not b.dtype or dtype not in ELEMENTS or not work:
        return None
    if dtype in REDUCED:
        hurry = work <= DIRECT and k <= DEEP
    else:
        hurry = (m > SOME and n > FEW or (m if m > n else n) * k <= LITTLE) and k < 2 * SPAN
    if hurry:
        size = dtype.itemsize
        if s == size or t == size:
            c = np.empty((m, n), dtype)
            if row is None:
                _kernels[dtype](a, b, c, c, c, 0, 1.0)
            else:
                _kernels[dtype](a, b, c, row, c, 2, 1.0)
            return c
    if m <= FEW or n <= FEW or (m <= SOME and (s < t or dtype in REDUCED)):
        if row is not None and row.dtype.kind != "f":
            return None
        few = thin(a, b, np.empty((m, n), dtype if row is None else row.dtype), row)
        if few is not None:
            return few
    return product(a, b, (m, n), row)


@implements("matmul")
def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[..., n, k] @ [..., k, m], with vectors and broadcast batches as in `torch.matmul`."""
    if a.ndim != 2 or b.ndim != 2:
        c = batches(a, b)
    else:
        if a.size * b.shape[1] <= SMALL and a.dtype in reference.BLAS:
            return reference.matmul(a, b)
        c = matrices(a, b)
    if c is None:
        return reference.matmul(a, b)
    return c if c.dtype is a.dtype else converted(c, a.dtype)


def rounded(c: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """A fresh C-contiguous array in the dtype that is asked for."""
    return c if c.dtype is dtype else converted(c, dtype)


def batches(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The product where at least one operand does not have two dimensions, if it is for us."""
    if a.ndim == 1 or b.ndim == 1:
        return with_vector(a, b)
    dtype = a.dtype
    if a.ndim < 2 or b.ndim < 2 or dtype is not b.dtype or dtype not in ELEMENTS:
        return None
    m, (k, n) = a.shape[-2], b.shape[-2:]
    if a.shape[-1] != k or not a.size or not b.size:
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
    shape = (*batch, m, n)
    if m <= FEW or n <= FEW:
        c = thin(a, b, np.empty(shape, dtype))
        if c is not None:
            return c
    return product(a, b, shape)


def with_vector(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """The product where one operand is a vector, or both."""
    if a.ndim == 1 == b.ndim:
        return dot(a, b)
    if b.ndim == 2:
        return times_vector(b.T, a)
    if a.ndim == 2:
        return times_vector(a, b)
    if b.ndim == 1 and a.ndim > 2 and a.flags.c_contiguous and a.size:
        c = times_vector(a.reshape(-1, a.shape[-1]), b)
        return c if c is None else c.reshape(a.shape[:-1])
    return None


def times_vector(a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    """a [n, k] @ b [k], of long sums of half types in float32."""
    (n, k), (s, t), dtype = a.shape, a.strides, a.dtype
    size = dtype.itemsize
    if b.dtype is not dtype or b.shape != (k,) or dtype not in ELEMENTS or not (n and k):
        return None
    name = "rows" if t == size else "columns"
    if t != size and s != size:
        return None
    if k > gemv.DEPTH and dtype in REDUCED:
        c = np.empty(n, F32)
        _kernels[name, dtype, 1, F32](a, b, c, c, 0, 0)
    else:
        c = np.empty(n, dtype)
        _kernels[name, dtype, 1, dtype](a, b, c, c, 0, 0)
    return c


@implements("mm")
def mm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, k] @ [k, m]."""
    return matmul(a, b) if a.ndim == 2 == b.ndim else reference.mm(a, b)


@implements("mv")
def mv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, k] @ [k]."""
    if a.ndim == 2 and b.ndim == 1:
        if a.size <= SMALL_VECTOR and a.dtype in FULL:
            return reference.matmul(a, b)
        c = times_vector(a, b)
        if c is not None:
            return rounded(c, a.dtype)
    return reference.mv(a, b)


@implements("dot")
def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[k] @ [k]."""
    dtype, n = a.dtype, a.size
    step = (dtype.itemsize,)
    if n <= SMALL_DOT and dtype is b.dtype and dtype in FULL and a.ndim == 1:
        if a.shape == b.shape:
            return a.dot(b)
    if a.strides != step or b.strides != step or b.size != n:
        return reference.dot(a, b)
    if dtype is not b.dtype or dtype not in ELEMENTS:
        return reference.dot(a, b)
    out = np.empty((), dtype)
    parts = out
    if n > gemv.CHUNK or dtype.itemsize == 2:
        parts = np.empty(n // gemv.CHUNK + 1, F32 if dtype in REDUCED else dtype)
    _kernels["dot", dtype](a, b, parts, out, n)
    return out


@implements("vdot")
def vdot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """conj([k]) @ [k]."""
    return reference.vdot(a, b) if a.dtype.kind == "c" else dot(a, b)


@implements("outer")
def outer(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """All products of [n] and [m], of one dtype."""
    n, m, dtype = a.size, b.size, a.dtype
    if dtype is not b.dtype or dtype not in ELEMENTS or n * m <= SMALL_OUTER:
        return reference.outer(a, b)
    c = np.empty((n, m), dtype)
    _kernels["outer", dtype](a, a.strides[0] // a.itemsize, np.ascontiguousarray(b), c, n, m)
    return c


@implements("outer_added")
def outer_added(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float
) -> np.ndarray:
    """beta * input [n, m] + alpha * `outer`."""
    n, m, dtype = a.size, b.size, a.dtype
    if (
        dtype is not b.dtype
        or dtype is not input.dtype
        or input.shape != (n, m)
        or dtype not in FLOATING
        or not n * m
        or not beta
    ):
        return reference.outer_added(input, a, b, beta, alpha)
    input, b, c = np.ascontiguousarray(input), np.ascontiguousarray(b), np.empty((n, m), dtype)
    kernel = _kernels["outer_added", dtype]
    kernel(a, a.strides[0] // a.itemsize, b, input, c, n, m, float(beta), float(alpha))
    return c


@implements("bmm")
def bmm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[batch, n, k] @ [batch, k, m]."""
    reference.check_bmm(a, b)
    (batch, m, k), (_, s, t), n, dtype = a.shape, b.strides, b.shape[2], a.dtype
    if dtype is b.dtype and dtype in FULL and m > FEW < n and k and batch:  # in a hurry
        size = dtype.itemsize
        if s == size or t == size:
            c = np.empty((batch, m, n), dtype)
            _kernels[dtype](a, b, c, c, c, 0, 1.0)
            return c
    made = batches(a, b)
    return reference.bmm(a, b) if made is None else rounded(made, dtype)


@implements("times_adjoint")
def times_adjoint(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ bᴴ, for matrices [..., n, k] and [..., m, k]."""
    return matmul(a, reference.adjoint(b))


@implements("adjoint_times")
def adjoint_times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """aᴴ @ b, for matrices [..., k, n] and [..., k, m]."""
    return matmul(reference.adjoint(a), b)


@implements("linear")
def linear(a: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """a [..., k] @ weight [m, k]ᵀ + bias [m]."""
    if (
        a.ndim < 2
        or weight.ndim != 2
        or a.shape[-1] != weight.shape[1]
        or (bias is not None and (bias.dtype is not a.dtype or bias.shape != weight.shape[:1]))
    ):
        return reference.linear(a, weight, bias)
    row = None if bias is None else sum_row(bias)
    if a.ndim == 2:
        c = matrices(a, weight.T, row)
    elif a.flags.c_contiguous and a.size:
        c = matrices(a.reshape(-1, a.shape[-1]), weight.T, row)
        c = c if c is None else c.reshape(*a.shape[:-1], weight.shape[0])
    elif a.size and weight.size and a.dtype is weight.dtype and a.dtype in ELEMENTS:
        c = product(a, weight.T, (*a.shape[:-1], weight.shape[0]), row)
    else:
        c = None
    return reference.linear(a, weight, bias) if c is None else rounded(c, a.dtype)


def sum_row(row: np.ndarray) -> np.ndarray:
    """A row that is added to sums: contiguous, and float32 for half types."""
    if row.dtype in REDUCED:
        return row.astype(F32)
    return row if row.strides == (row.itemsize,) else np.ascontiguousarray(row)


@implements("accumulate")
def accumulate(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float
) -> np.ndarray:
    """beta * input + alpha * (a @ b); half types are rounded once."""
    dtype = input.dtype
    if dtype is not a.dtype or dtype is not b.dtype or dtype not in ELEMENTS:
        return reference.accumulate(input, a, b, beta, alpha)
    if beta == 1 and dtype in FULL and a.ndim == 2 == b.ndim:  # in a hurry
        (m, k), (l, n), (s, t), size = a.shape, b.shape, b.strides, dtype.itemsize
        if k == l and (s == size or t == size) and m > FEW < n and k:
            if input.shape == (m, n):
                c = input.copy()
                _kernels[dtype](a, b, c, c, c, ADD, alpha)
                return c
            if input.shape == (n,) and input.strides == (size,):
                c = np.empty((m, n), dtype)
                _kernels[dtype](a, b, c, input, c, BIAS, alpha)
                return c
    elif dtype in FULL and input.ndim == a.ndim == b.ndim and beta and input.flags.c_contiguous:
        x, y, (s, t), size = a.shape, b.shape, b.strides[-2:], dtype.itemsize
        m, k, n = x[-2], x[-1], y[-1]
        if k == y[-2] and m > FEW < n and a.size and input.shape == (*x[:-1], n):
            if (s == size or t == size) and x[:-2] == y[:-2]:
                c = input.copy() if beta == 1 else np.multiply(input, float(beta))
                _kernels[dtype](a, b, c, c, c, ADD, alpha)
                return c
    if a.ndim == 2 == b.ndim:
        (m, k), (l, n) = a.shape, b.shape
        shape: tuple[int, ...] = (m, n)
    elif a.ndim == 3 == b.ndim and a.shape[0] == b.shape[0]:
        (batch, m, k), (_, l, n) = a.shape, b.shape
        shape = (batch, m, n)
    else:
        return summed(input, a, b, beta, alpha)
    if k != l or not a.size or not n or n <= FEW or m <= FEW or dtype.kind in "iu":
        return summed(input, a, b, beta, alpha)
    if dtype in REDUCED and (beta != 1 or input.shape != shape):
        input = converted(input, F32)
    return rounded(onto(input, a, b, shape, beta, alpha), dtype)


def onto(
    input: np.ndarray,
    a: np.ndarray,
    b: np.ndarray,
    shape: tuple[int, ...],
    beta: float,
    alpha: float,
    act: str = "",
) -> np.ndarray:
    """beta * input + alpha * (a @ b), of this shape, then `act`; of half types in float32."""
    if beta == 0:
        reference.broadcast_to(input, shape)
        return product(a, b, shape, None, SCALE, alpha, None, act)
    if input.shape == shape[-1:]:
        row = input if beta == 1 else reference.times(input, beta)
        return product(a, b, shape, sum_row(row), 0, alpha, None, act)
    if input.shape != shape:
        input = reference.broadcast_to(input, shape)
    c = np.empty(shape, input.dtype)
    if beta == 1:
        np.copyto(c, input)
    else:
        np.multiply(input, c.dtype.type(beta), out=c)
    return product(a, b, shape, None, ADD, alpha, c, act)


@implements("accumulate_activated")
def accumulate_activated(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float, act: str
) -> np.ndarray:
    """`gelu` or `relu` of `accumulate`, of matrices: what becomes of each tile as it is stored."""
    dtype = input.dtype
    if (
        dtype is not a.dtype
        or dtype is not b.dtype
        or dtype not in FULL
        or a.shape[1] != b.shape[0]
        or not a.size
        or not b.size
    ):
        return reference.accumulate_activated(input, a, b, beta, alpha, act)
    return onto(input, a, b, (a.shape[0], b.shape[1]), beta, alpha, act)


def summed(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float
) -> np.ndarray:
    """`accumulate` of whole numbers, and of few rows or columns."""
    if a.dtype in REDUCED:
        if a.ndim == 2 and b.ndim == 1 and a.size and a.shape[1] == b.size:
            sums = thin(a, b[:, None], np.empty((a.shape[0], 1), F32))
            if sums is not None:
                sums = sums[:, 0] if alpha == 1 else reference.times(sums[:, 0], alpha)
                return rounded(reference.plus(sums, input.astype(F32), beta), a.dtype)
        input, left, right = (converted(x, F32) for x in (input, a, b))
        return converted(accumulate(input, left, right, beta, alpha), a.dtype)
    made = matrices(a, b) if a.ndim == 2 == b.ndim else batches(a, b)
    if made is None:
        return reference.accumulate(input, a, b, beta, alpha)
    c = made
    if alpha != 1:
        c = reference.times(c, alpha)
    return reference.plus(c, input, beta)
