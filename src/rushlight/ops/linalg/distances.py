"""How long and how far: `norm`, `dist`, and `renorm`, which limits lengths."""

from __future__ import annotations

from math import prod
from typing import Any

from rushlight.core import dtypes, geometry
from rushlight.dispatch.registry import Array, Dims, DType, composite, op
from rushlight.ops.linalg import matrix_checks as check
from rushlight.ops.linalg.norms import length, vector_norm, vector_norm_gradient

Tensor = Any  # annotation only


@composite
def norm(
    input: Tensor, p: float | str | None = "fro", dim: Dims = None, keepdim: bool = False,
    *, dtype: DType | None = None,
) -> Tensor:  # fmt: skip
    """The `p`-norm of the tensor as one vector, or over `dim`.

    The shape is [] or, over `dim=1` of [n, m], [n].
    "fro" and None mean 2; "nuc" is the sum of the singular values of matrices. `linalg.vector_norm`
    and `linalg.matrix_norm` say more clearly which one is meant.

    >>> import rushlight as torch
    >>> torch.tensor([3.0, 4.0]).norm()
    tensor(5.)
    """
    if p is None or p == "fro":
        p = 2
    if p.__class__ is str:
        import rushlight

        return rushlight.linalg.matrix_norm(
            input, p, (-2, -1) if dim is None else dim, keepdim, dtype=dtype
        )
    return vector_norm(input, p, dim, keepdim, dtype=dtype)


@op(node="DistBackward0", out=False)
def dist(xp, input: Array, other: Array, p: float = 2):
    """The `p`-norm of `input - other`, which broadcast.

    >>> import rushlight as torch
    >>> torch.dist(torch.tensor([1.0, 1.0]), torch.tensor([4.0, 5.0]))
    tensor(5.)
    """
    if input.dtype.kind in "iub" and other.dtype.kind in "iub":
        raise RuntimeError(
            "norm(): input dtype should be either floating point or complex. Got "
            f"{dtypes.OF[input.dtype].scalar_name} instead."
        )
    geometry.broadcast_shapes(input.shape, other.shape)
    difference = xp.subtract(input, other)
    return length(xp, difference, p, tuple(range(difference.ndim)), False)


def dist_backward(
    g: Tensor, input: Tensor, other: Tensor, result: Tensor, p: float, needs: tuple
) -> tuple:
    difference = input - other
    grad = vector_norm_gradient(g, difference, result, p, None, False, None, difference.dtype)
    return (
        grad.sum_to_size(input.shape) if needs[0] else None,
        (-grad).sum_to_size(other.shape) if needs[1] else None,
    )


dist.grad_all(dist_backward)


def slices(dim: int, ndim: int) -> tuple[int, ...]:
    """The dimensions of a slice along `dim`."""
    dim = geometry.wrap_dim(dim, ndim)
    return tuple([d for d in range(ndim) if d != dim])


def lengths_of_slices(xp, x: Array, p: float, dim: int) -> Array:
    """The `p`-norm of each slice along `dim`; of a row-major array by whole rows or columns."""
    shape = x.shape
    n, rows, columns = shape[dim], prod(shape[:dim]), prod(shape[dim + 1 :])
    if (
        len(shape) == 2
        or min(rows, columns) > 1
        or not x.size
        or not x.flags.c_contiguous
        or x.dtype.kind == "c"
    ):
        return length(xp, x, p, slices(dim, len(shape)), True)
    flat = x.reshape((n, columns) if rows == 1 else (rows, n))
    lengths = length(xp, flat, p, (int(rows == 1),), False)
    return lengths.reshape((*(1,) * dim, n, *(1,) * (len(shape) - dim - 1)))


@op(inplace=True)
def renorm(xp, input: Array, p: float, dim: int, maxnorm: float):
    """Every slice along `dim` whose `p`-norm exceeds `maxnorm` scaled down to it.

    >>> import rushlight as torch
    >>> torch.tensor([[3.0, 4.0], [0.3, 0.4]]).renorm(2, 0, 1.0)
    tensor([[0.6000, 0.8000],
            [0.3000, 0.4000]])
    """
    if not p > 0:
        raise RuntimeError(f"renorm: non-positive-norm not supported, got {p}")
    if maxnorm < 0:
        raise RuntimeError(f"renorm: expected maxnorm to be >= 0 but got {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(
            f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions"
        )
    check.floating("linalg.vector_norm", input, half=True)
    x = xp.upcast(input)
    lengths = lengths_of_slices(xp, x, p, geometry.wrap_dim(dim, input.ndim))
    factor = xp.where(lengths > maxnorm, maxnorm / (lengths + 1e-7), lengths.dtype.type(1))
    if factor.dtype is not input.dtype:
        factor = xp.cast(factor, input.dtype)
    return xp.contiguous(xp.multiply(input, factor))


def renorm_backward(g: Tensor, input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """By the product with the factor, and by the factor."""
    over = slices(dim, input.ndim)
    lengths = vector_norm(input, p, over, True)
    longer, plus = lengths > maxnorm, lengths + 1e-7
    along = (g * input.conj_physical()).sum(over, True)
    along = (along.real if along.is_complex() else along) * (-maxnorm / (plus * plus))
    by_length = vector_norm_gradient(
        along.where(longer, 0.0), input, lengths, p, over, True, None, input.dtype
    )
    return g * (maxnorm / plus).where(longer, 1.0) + by_length


renorm.grad(input=renorm_backward)
