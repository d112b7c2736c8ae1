"""Norms of vectors and matrices, and what is measured by them: rank and condition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.core import dtypes
from rushlight.core.geometry import wrap_dim
from rushlight.core.type_info import finfo
from rushlight.dispatch.record import NUMBERS
from rushlight.dispatch.registry import Array, composite, op
from rushlight.ops.linalg import matrix_checks as check
from rushlight.ops.linalg.matrix_results import first_failure

if TYPE_CHECKING:
    from typing import Any

    from rushlight.core.dtypes import dtype as DType

    Number = Any
    Dims = int | tuple[int, ...] | None

INF = float("inf")


def dims_of(dim, ndim: int) -> tuple[int, ...]:
    """The dimensions `dim` names, counted from 0; all for None."""
    if dim is None:
        return tuple(range(ndim))
    if not ndim:  # a 0-d tensor takes dim=0 and has nothing to reduce
        for d in (dim,) if isinstance(dim, int) else dim:
            wrap_dim(d, ndim)
        return ()
    if isinstance(dim, int):
        return (wrap_dim(dim, ndim),)
    dims = tuple(wrap_dim(d, ndim) for d in dim)
    for d in dims:
        if dims.count(d) > 1:
            raise RuntimeError(f"dim {d} appears multiple times in the list of dims")
    return dims or tuple(range(ndim))


def keep(x, shape: tuple, dim, keepdim: bool):
    """`x`, the result of a reduction over `dim`, with the reduced dimensions as size 1."""
    if keepdim:
        return x
    dims = dims_of(dim, len(shape))
    return x.reshape(tuple([1 if d in dims else n for d, n in enumerate(shape)]))


@op(where="linalg", node="LinalgVectorNormBackward0", operands=())
def vector_norm(
    xp,
    x: Array,
    ord: Number = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
):
    """The norms of vectors along `dim`: (Σ |x|ᵒʳᵈ)^(1/ord), ±inf for the extremes, 0 for the number
    of elements that are not zero.

    >>> import rushlight as torch
    >>> torch.linalg.vector_norm(torch.tensor([3.0, 4.0]))
    tensor(5.)
    """
    if not isinstance(ord, NUMBERS):
        raise TypeError(
            f"linalg_vector_norm(): argument 'ord' must be Number, not {type(ord).__name__}"
        )
    for d in dim if isinstance(dim, (tuple, list)) else ():
        if not hasattr(d, "__index__"):
            raise TypeError(
                "linalg_vector_norm(): argument 'dim' must be tuple of ints, but found element of type "
                f"{type(d).__name__}"
            )
    name = "linalg.vector_norm"
    check.floating(name, x, half=True)
    if dtype is not None:
        wanted_dtype(name, dtypes.OF[x.dtype], dtype)
        x = xp.cast(x, dtype.np)
    axes = dims_of(dim, x.ndim)
    if ord < 0 or ord == INF:
        for d in axes:
            if not x.shape[d]:
                raise RuntimeError(
                    f"linalg.vector_norm cannot compute the {ord} norm on the dimension {d} because "
                    "this dimension is empty and the operation does not have an identity"
                    if dim is not None
                    else f"linalg.vector_norm cannot compute the {ord} norm on an empty tensor because "
                    "the operation does not have an identity"
                )
    return length(xp, x, ord, axes, keepdim)


def length(xp, x, ord, axes, keepdim: bool):
    """The norms of an array along `axes`."""
    if axes and x.dtype.kind != "c":
        axis = None if len(axes) == x.ndim else axes[0] if len(axes) == 1 else axes
        if ord == 2:
            return xp.l2_norm(x, axis, keepdim)
        if ord == 1:
            return xp.sum(xp.absolute(x), axis, keepdim)
        if ord == INF:
            return xp.amax(xp.absolute(x), axis, keepdim)
        if ord == -INF:
            return xp.amin(xp.absolute(x), axis, keepdim)
    elif ord != 0 and not axes:
        return xp.absolute(x)
    return xp.linalg.vector_norm(x, float(ord), axes, keepdim)


def wanted_dtype(name, own, dtype):
    if not (dtype.is_floating_point or dtype.is_complex):
        raise RuntimeError(
            f"{name}: dtype should be floating point or complex, but got {dtype.scalar_name}"
        )
    if dtype.is_complex != own.is_complex:
        kind = "complex for complex" if own.is_complex else "real for real"
        raise RuntimeError(f"{name}: dtype should be {kind} inputs, but got {dtype.scalar_name}")
    if dtypes.promote_types(own, dtype) is not dtype:
        raise RuntimeError(
            f"{name}: the dtype of the input ({own.scalar_name}) should be convertible without "
            f"narrowing to the specified dtype ({dtype.scalar_name})"
        )


def nonzero(norm):
    """Norms to divide by: what is divided by one of zero is zero, and has a gradient of zero."""
    return norm.masked_fill(norm == 0, INF)


def vector_norm_gradient(g, x, result, ord, dim, keepdim, dtype, x_dtype):
    """The gradient of `vector_norm` by its input."""
    if dtype is not None and x.dtype is not dtype:
        x = x.to(dtype)
    g, norm = (keep(t, x.shape, dim, keepdim) for t in (g, result))
    if ord == 2:
        r = x * (g / nonzero(norm))
    elif ord == 1:
        r = x.sgn() * g
    elif ord == 0:
        r = x.new_zeros(x.shape)
    elif ord in (INF, -INF):
        at = x.abs() == norm
        axes = dims_of(dim, x.ndim)
        count = at.sum(axes, keepdim=True) if axes else at.to(g.dtype)
        r = x.sgn() * (g / count) * at
    else:
        # |x|^(ord - 1) sgn(x) / norm^(ord - 1), without 0 / 0 or inf * 0
        size = x.abs()
        if ord < 1:
            r = x.sgn() * size.pow(ord - 1).masked_fill(size == 0, 0) * (g * norm.pow(1 - ord))
        elif ord < 2:
            factor = g / nonzero(norm).pow(ord - 1)
            r = x.sgn() * size.pow(ord - 1).masked_fill(size == 0, 0) * factor
        else:
            factor = g / nonzero(norm).pow(ord - 1)
            r = x * size.pow(ord - 2) * factor
    return r if r.dtype is x_dtype else r.to(x_dtype)


vector_norm.grad(x=vector_norm_gradient)


@composite(where="linalg")
def matrix_norm(
    A: Array,
    ord: float | str = "fro",
    dim: tuple = (-2, -1),
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
):
    """The norms of matrices in the two dimensions `dim`.

    `ord`: "fro" (root of the sum of squares), "nuc" (sum of singular values), 2 and -2 (largest and
    smallest singular value), 1 and -1 (of the columns' sums), inf and -inf (of the rows' sums).
    """
    name = "linalg.matrix_norm"
    check.matrix(name, A)
    check.floating(name, A, half=True)
    if len(dim) != 2:
        raise RuntimeError(f"{name}: dim must be a 2-tuple. Got {', '.join(map(str, dim))}")
    rows, columns = (wrap_dim(d, A.ndim) for d in dim)
    if rows == columns:
        raise RuntimeError(f"{name}: dims must be different. Got ({dim[0]}, {dim[1]})")
    if dtype is not None:
        wanted_dtype(name, A.dtype, dtype)
        A = A.to(dtype)
    if ord == "fro":
        return vector_norm(A, 2, (rows, columns), keepdim)
    if isinstance(ord, str) and ord != "nuc":
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    if ord == "nuc" or abs(ord) == 2:
        from rushlight.ops.linalg.spectra import svdvals

        s = svdvals(A.movedim((rows, columns), (-2, -1)))
        empty = ord != "nuc" and ord > 0 and not s.shape[-1]
        r = s.sum(-1) if ord == "nuc" or empty else s.amax(-1) if ord > 0 else s.amin(-1)
        if keepdim:
            for d in sorted((rows, columns)):
                r = r.unsqueeze(d)
        return r
    if abs(ord) not in (1, INF):
        raise RuntimeError(f"{name}: Order {ord} not supported.")
    first, second = (rows, columns) if abs(ord) == 1 else (columns, rows)
    if not keepdim and second > first:
        second -= 1
    sums = vector_norm(A, 1, first, keepdim)
    if ord > 0 and not sums.shape[second]:
        return sums.sum(second, keepdim)
    return sums.amax(second, keepdim) if ord > 0 else sums.amin(second, keepdim)


@composite(where="linalg")
def norm(
    A: Array,
    ord: float | str | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: DType | None = None,
):
    """`vector_norm` or `matrix_norm`: a matrix norm when `dim` names two dimensions and `ord` is given,
    or `A` is a matrix and `ord` is given; else a vector norm (of all elements without `dim`)."""
    if dim is not None:
        dims = (dim,) if isinstance(dim, int) else tuple(dim)
        if len(dims) not in (1, 2):
            raise RuntimeError(
                f"linalg.norm: If dim is specified, it must be of length 1 or 2. Got {list(dims)}"
            )
    elif ord is not None and A.ndim not in (1, 2):
        raise RuntimeError(
            "linalg.norm: If dim is not specified but ord is, the input must be 1D or 2D. Got "
            f"{A.ndim}D."
        )
    matrix = (len(dims) == 2) if dim is not None else A.ndim == 2
    if isinstance(ord, str):
        return matrix_norm(A, ord, (-2, -1) if dim is None else dims, keepdim, dtype=dtype)
    if ord is not None and matrix:
        return matrix_norm(A, ord, (-2, -1) if dim is None else dims, keepdim, dtype=dtype)
    return vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


@composite(where="linalg")
def cond(A: Array, p: float | str | None = None):
    """The condition numbers: the norm times the norm of the inverse; for None, 2 and -2 a quotient of
    singular values. Infinity for singular matrices."""
    if A.ndim < 2:
        raise RuntimeError("linalg.cond: The input tensor must have at least 2 dimensions.")
    if p is None or p in (2, -2):
        check.floating("linalg.cond", A)
        from rushlight.ops.linalg.spectra import svdvals

        s = svdvals(A)
        if not s.shape[-1]:
            return s.sum(-1)
        big, small = s[..., 0], s[..., -1]
        return small / big if p == -2 else big / small
    if p not in ("fro", "nuc", 1, -1, INF, -INF):
        raise RuntimeError(f"linalg.cond got an invalid norm type: {p}")
    check.square(f"linalg.cond(ord={p})", A)
    check.floating("linalg.cond", A)
    if not A.numel():
        return A.real.sum((-2, -1)) if A.is_complex() else A.sum((-2, -1))
    from rushlight.ops.linalg.solve import inv_ex

    inverse, info = inv_ex(A)
    singular = first_failure(info)
    if p == "nuc" and singular:
        inverse = inverse.masked_fill((info != 0)[..., None, None], 0)
    r = matrix_norm(A, p) * matrix_norm(inverse, p)
    return r.masked_fill(info != 0, INF) if singular else r


@composite(where="linalg")
def matrix_rank(
    input: Array,
    tol: float | None = None,
    hermitian: bool = False,
    *,
    atol: float | None = None,
    rtol: float | None = None,
):
    """How many singular values are greater than max(atol, rtol * the largest) (int64)."""
    if input.ndim < 2:
        raise RuntimeError(
            "torch.linalg.matrix_rank: The input tensor input must have at least 2 dimensions."
        )
    check.floating("linalg.matrix_rank", input)
    if tol is not None:
        atol, rtol = tol, 0.0
    check.real_tolerances("linalg.matrix_rank", atol=atol, rtol=rtol)
    if hermitian:
        check.square("linalg.matrix_rank", input)
    if 0 in input._array.shape[-2:]:
        return input.new_zeros(input.shape[:-2], dtype=dtypes.int64)
    if hermitian:
        from rushlight.ops.linalg.spectra import eigvalsh

        s = eigvalsh(input.detach()).abs()
    else:
        from rushlight.ops.linalg.spectra import svdvals

        s = svdvals(input.detach())
    eps = finfo(s.dtype).eps * max(input.shape[-2:])
    if rtol is None:
        if atol is None:
            rtol = eps
        elif hasattr(atol, "shape"):
            rtol = (atol <= 0) * eps
        else:
            rtol = 0.0 if atol > 0 else eps
    largest = s.amax(-1)
    bound = largest * rtol
    if atol is not None:
        bound = bound.maximum(
            atol.to(s.dtype) if hasattr(atol, "shape") else bound.new_full((), atol)
        )
    return (s > bound.unsqueeze(-1)).sum(-1)


@composite(method=False)
def frobenius_norm(input: Array, dim: Dims = (), keepdim: bool = False):
    """The root of the sum of squares along up to two dimensions, all of them for none."""
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if len(dims) > 2:
        raise RuntimeError(
            f"Expected at most 2 dimensions, but got {len(dims)} dimensions instead."
        )
    return vector_norm(input, 2, dims or None, keepdim)


@composite(method=False)
def nuclear_norm(input: Array, dim: Dims = (-2, -1), keepdim: bool = False):
    """The sum of the singular values of the matrices in two dimensions."""
    if isinstance(dim, bool):  # nuclear_norm(input, keepdim)
        dim, keepdim = (-2, -1), dim
    return matrix_norm(input, "nuc", dim, keepdim)
