"""Products of matrices in machine code: the kernels of `reference/products.py` for what is large enough.

What is taken: float32 and float64, and the half types, which are multiplied in float32 and rounded
once; matrices and batches of them with any strides. All else is the reference's, whose errors are
the errors here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import llvm
from rushlight._backends.llvm.product_table import (
    BIAS,
    COMPILED,
    ELEMENTS,
    FEW,
    converted,
    plain,
    product,
)
from rushlight._backends.llvm.registration import implements
from rushlight._backends.reference import products as reference
from rushlight._codegen import types
from rushlight._codegen.dtype_entry import put_entries_before
from rushlight._codegen.kernels import gemm, gemv, small_product
from rushlight._codegen.native_entry import ByDtype, bind, unbound
from rushlight.core.dtype_sets import (
    F32,
    FULL,
    REDUCED,
)

ADD, SCALE = gemm.ADD, gemm.SCALE  # what a product is added to

# Products of one element of A with one of B (m * n * k) up to which NumPy is as fast: OpenBLAS for small
# matrices, with a result that it allocates itself.
SMALL = llvm.threshold(4096)
SMALL_OUTER = llvm.threshold(256)


def entries(dims: tuple[int, int] = (0, 0)) -> ByDtype:
    """The native entries for small products of arrays of so many dimensions, or of any."""

    def make(d: np.dtype) -> Any:
        if d not in ELEMENTS:
            return unbound
        known = {"E": ELEMENTS[d]}
        infer = small_product.infer_product, {**known, "A": dims[0], "B": dims[1]}
        return bind(infer, [d, d], [d], (small_product.product, known))

    return ByDtype(make)


def small_linear(d: np.dtype) -> Any:
    """The same for `linear` with a bias."""
    if d not in ELEMENTS:
        return unbound
    known = {"E": ELEMENTS[d]}
    return bind((small_product.infer_linear, known), [d, d, d], [d], (small_product.linear, known))


def small_linear_alone(d: np.dtype) -> Any:
    """The same for `linear` without a bias."""
    if d not in ELEMENTS:
        return unbound
    known = {"E": ELEMENTS[d]}
    return bind((small_product.infer_turned, known), [d, d], [d], (small_product.product, known))


def small_accumulate(d: np.dtype) -> Any:
    """The same for `accumulate`, whose factors are whole numbers where its elements are."""
    if d not in ELEMENTS:
        return unbound
    known = {"E": ELEMENTS[d], "N": types.i64 if d.kind in "iu" else types.f64}
    infer = small_product.infer_accumulate, known
    return bind(infer, [d, d, d], [d], (small_product.accumulate, known))


@implements("matmul")
@put_entries_before(entries())
def matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[..., n, k] @ [..., k, m], with vectors and broadcast batches as in `torch.matmul`."""
    if a.ndim != 2 or b.ndim != 2:
        c = batches(a, b)
    else:
        if a.size * b.shape[1] <= SMALL and a.dtype in reference.BLAS:
            return reference.matmul(a, b)
        c = plain(a, b)
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
    if a.ndim < 2 or b.ndim < 2:
        return None
    if b.ndim == 2 and a.flags.c_contiguous and a.size:  # one product
        c = plain(a.reshape(-1, a.shape[-1]), b)
        return c if c is None else c.reshape(*a.shape[:-1], b.shape[1])
    return plain(a, b)


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


def times_vector(a: np.ndarray, b: np.ndarray, to: np.dtype | None = None) -> np.ndarray | None:
    """a [n, k] @ b [k], in its dtype or `to`; of long sums of half types in float32."""
    (n, k), (s, t), dtype = a.shape, a.strides, a.dtype
    size = dtype.itemsize
    if b.dtype is not dtype or b.shape != (k,) or dtype not in ELEMENTS or not (n and k):
        return None
    name = "rows" if t == size else "columns"
    if t != size and s != size:
        return None
    if k > gemv.DEPTH and dtype in REDUCED:
        to = F32
    c = np.empty(n, dtype if to is None else to)
    COMPILED[name, dtype, 1, c.dtype](a, b, c, c, 0, 0)
    return c


@implements("mm")
@put_entries_before(entries((2, 2)))
def mm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, k] @ [k, m]."""
    return matmul(a, b) if a.ndim == 2 == b.ndim else reference.mm(a, b)


@implements("mv")
@put_entries_before(entries((2, 1)))
def mv(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[n, k] @ [k]."""
    if a.ndim == 2 and b.ndim == 1:
        c = times_vector(a, b)
        if c is not None:
            return rounded(c, a.dtype)
    return reference.mv(a, b)


@implements("dot")
@put_entries_before(entries((1, 1)))
def dot(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[k] @ [k]."""
    dtype, n = a.dtype, a.size
    step = (dtype.itemsize,)
    if a.strides != step or b.strides != step or b.size != n:
        return reference.dot(a, b)
    if dtype is not b.dtype or dtype not in ELEMENTS:
        return reference.dot(a, b)
    out = np.empty((), dtype)
    parts = out
    if n > gemv.CHUNK or dtype.itemsize == 2:
        parts = np.empty(n // gemv.CHUNK + 1, F32 if dtype in REDUCED else dtype)
    COMPILED["dot", dtype](a, b, parts, out, n)
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
    COMPILED["outer", dtype](
        a, 0, a.strides[0] // a.itemsize, np.ascontiguousarray(b), 0, c, 1, n, m
    )
    return c


def small_outer_added(d: np.dtype) -> Any:
    """The native entry for `outer_added`."""
    if d not in ELEMENTS:
        return unbound
    known = {"E": ELEMENTS[d], "N": types.i64 if d.kind in "iu" else types.f64}
    return bind((gemv.infer_outer_added, known), [d, d, d], [d], (gemv.outer_added, known))


@implements("outer_added")
@put_entries_before(ByDtype(small_outer_added))
def outer_added(
    input: np.ndarray, a: np.ndarray, b: np.ndarray, beta: float, alpha: float
) -> np.ndarray:
    """beta * input [n, m] + alpha * `outer`."""
    if not input.flags.c_contiguous and input.flags.f_contiguous:
        return outer_added(input.T, b, a if alpha == 1 else reference.times(a, alpha), beta, 1).T
    if b.size > 1 and b.strides != (b.itemsize,):
        return outer_added(input, a, np.ascontiguousarray(b), beta, alpha)
    return reference.outer_added(input, a, b, beta, alpha)


@implements("bmm")
@put_entries_before(entries((3, 3)))
def bmm(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """[batch, n, k] @ [batch, k, m]."""
    c = plain(a, b) if a.ndim == 3 == b.ndim and len(a) == len(b) else None
    return reference.bmm(a, b) if c is None else rounded(c, a.dtype)


@implements("times_adjoint")
def times_adjoint(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """a @ bᴴ, for matrices [..., n, k] and [..., m, k]."""
    return matmul(a, reference.adjoint(b))


@implements("adjoint_times")
def adjoint_times(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """aᴴ @ b, for matrices [..., k, n] and [..., k, m]."""
    return matmul(reference.adjoint(a), b)


@implements("linear")
@put_entries_before(ByDtype(small_linear))
@put_entries_before(ByDtype(small_linear_alone))
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
        c = plain(a, weight.T, row)
    elif a.flags.c_contiguous and a.size:
        c = plain(a.reshape(-1, a.shape[-1]), weight.T, row)
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
@put_entries_before(ByDtype(small_accumulate))
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
                COMPILED[dtype](a, b, c, c, c, ADD, alpha)
                return c
            if input.shape == (n,) and input.strides == (size,):
                c = np.empty((m, n), dtype)
                COMPILED[dtype](a, b, c, input, c, BIAS, alpha)
                return c
    elif dtype in FULL and input.ndim == a.ndim == b.ndim and beta and input.flags.c_contiguous:
        x, y, (s, t), size = a.shape, b.shape, b.strides[-2:], dtype.itemsize
        m, k, n = x[-2], x[-1], y[-1]
        if k == y[-2] and m > FEW < n and a.size and input.shape == (*x[:-1], n):
            if (s == size or t == size) and x[:-2] == y[:-2]:
                c = input.copy() if beta == 1 else np.multiply(input, float(beta))
                COMPILED[dtype](a, b, c, c, c, ADD, alpha)
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
            sums = times_vector(a, b, F32)
            if sums is not None:
                sums = sums if alpha == 1 else reference.times(sums, alpha)
                return rounded(reference.plus(sums, input.astype(F32), beta), a.dtype)
        input, left, right = (converted(x, F32) for x in (input, a, b))
        return converted(accumulate(input, left, right, beta, alpha), a.dtype)
    made = plain(a, b) if a.ndim == 2 == b.ndim else batches(a, b)
    if made is None:
        return reference.accumulate(input, a, b, beta, alpha)
    c = made
    if alpha != 1:
        c = reference.times(c, alpha)
    return reference.plus(c, input, beta)
