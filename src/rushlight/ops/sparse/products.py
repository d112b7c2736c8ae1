"""Products with sparse matrices, and what stands on rows of them: softmax, reductions over neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import sparse, sparse_products
from rushlight._backends.compressed import Compressed
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch import handlers
from rushlight.dispatch.registry import Array, op, public
from rushlight.ops.sparse import coordinates
from rushlight.ops.sparse.methods import coalesce
from rushlight.ops.sparse.operators import (
    build,
    is_sparse,
    masked_once,
    run,
    values_of,
    with_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable

# -- sparse @ dense --------------------------------------------------------------------------------


@op(where="_sparse", name="mm", node="MmBackward0", out=False)
def times(xp, input: Array, mat2: Array):
    """sparse [n, k] @ dense [k, m]."""
    return sparse_products.matmul(input, mat2)


@op(where="_sparse", name="adjoint_mm", node="MmBackward0", out=False)
def adjoint_times(xp, input: Array, mat2: Array):
    """sparse [k, n]ᴴ @ dense [k, m]: the gradient of the dense factor."""
    return sparse_products.transposed_matmul(input, mat2)


times.grad(
    input=lambda g, mat2: g @ mat2.mH,
    mat2=lambda g, input: run(adjoint_times, input, g),
)
adjoint_times.grad(
    input=lambda g, mat2: mat2 @ g.mH,
    mat2=lambda g, input: run(times, input, g),
)


@op(where="_sparse", name="addmm", node="SparseAddmmBackward0", out=False)
def times_masked(xp, input: Array, mat2: Array):
    """As `times`; the gradient of the sparse factor is sparse, with its pattern."""
    return sparse_products.matmul(input, mat2)


times_masked.grad(
    input=lambda g, mat2, input: sampled_at(g, mat2, input._array),
    mat2=lambda g, input: run(adjoint_times, input, g),
)


@op(where="_sparse", name="sampled", node="SampledAddmmBackward0", out=False)
def sampled(xp, input: Array, mat2: Array, indices: Any):
    """The entries of `input @ mat2.mH` at `indices` [2, nnz]."""
    return sparse_products.sampled(input, mat2, indices)


def sampled_at(g: Tensor, x: Tensor, a: Any) -> Tensor:
    """g @ x.mH at the coordinates of `a`, each once."""
    if a.__class__ is Compressed:
        values = run(sampled, g, x, a.coordinates())
        return with_values(_wrap(a), values.reshape(a.values.shape))
    at = a.indices if sparse.is_sorted(a) else sparse.coalesce(a).indices
    return build(run(sampled, g, x, at), at, a.shape)


def _pattern(g: Tensor, indices: Any, n: int, m: int) -> Tensor:
    return build(g, indices, (n, m))


sampled.grad(
    input=lambda g, mat2, indices, input_shape, mat2_shape: run(
        times, _pattern(g, indices, input_shape[0], mat2_shape[0]), mat2
    ),
    mat2=lambda g, input, indices, input_shape, mat2_shape: run(
        adjoint_times, _pattern(g.conj_physical(), indices, input_shape[0], mat2_shape[0]), input
    ),
)


@op(where="_sparse", name="mm_sparse", node="MmBackward0", out=False)
def times_sparse(xp, input: Array, mat2: Array):
    """sparse [n, k] @ sparse [k, m] -> sparse [n, m]."""
    return sparse_products.matmul_sparse(input, mat2)


times_sparse.grad(
    input=lambda g, mat2: g @ conj(mat2).t(),
    mat2=lambda g, input: conj(input).t() @ g,
)


@op(where="_sparse", name="mm_sparse_masked", node="SparseSparseMatmulBackward0", out=False)
def times_sparse_masked(xp, input: Array, mat2: Array):
    """As `times_sparse`; the gradients have the patterns of the factors."""
    return sparse_products.matmul_sparse(input, mat2)


times_sparse_masked.grad(
    input=lambda g, mat2, input: masked_once(g @ conj(mat2).t(), input),
    mat2=lambda g, input, mat2: masked_once(conj(input).t() @ g, mat2),
)


def conj(t: Tensor) -> Tensor:
    return t.conj_physical() if t.is_complex() else t


@op(where="_sparse", name="dense_mm", node="MmBackward0", out=False)
def dense_times(xp, input: Array, mat2: Array):
    """dense [n, k] @ sparse [k, m]."""
    return sparse_products.transposed_matmul(mat2, input.conj().T).conj().T


dense_times.grad(
    input=lambda g, mat2: run(times, conj(mat2), g.t()).t(),
    mat2=lambda g, input: input.mH @ g,
)


def check_matrices(name: str, a: Tensor, b: Tensor) -> None:
    """The errors of products of matrices, where one is sparse."""
    if a.ndim != 2 or b.ndim != 2:
        if is_sparse(a) and b.ndim == 1 and name == "mm":
            raise IndexError(
                "Dimension out of range (expected to be in range of [-1, 0], but got 1)"
            )
        raise RuntimeError(
            f"{name}: expected matrices, got shapes {list(a.shape)} and {list(b.shape)}"
        )
    for t in (a, b):
        if is_sparse(t) and t.dense_dim():
            raise RuntimeError(
                f"[{name}] expected two sparse dimensions and no dense one, got {t.sparse_dim()} and "
                f"{t.dense_dim()}"
            )
    if a.shape[1] != b.shape[0]:
        if is_sparse(a) and not is_sparse(b):
            raise RuntimeError(
                f"addmm: Argument #3 (dense): Expected dim 0 size {a.shape[1]}, got {b.shape[0]}"
            )
        raise RuntimeError(
            f"mat1 and mat2 shapes cannot be multiplied ({a.shape[0]}x{a.shape[1]} and "
            f"{b.shape[0]}x{b.shape[1]})"
        )
    if a.dtype is not b.dtype:
        if is_sparse(a) and is_sparse(b):
            raise RuntimeError(
                f"mat1 dtype {a.dtype.scalar_name} does not match mat2 dtype {b.dtype.scalar_name}"
            )
        raise RuntimeError(
            f"expected scalar type {a.dtype.scalar_name} but found {b.dtype.scalar_name}"
        )


def mm(input: Tensor, mat2: Tensor, masked_gradient: bool = False) -> Tensor:
    """The product of two matrices of which one is sparse, or both."""
    if not is_sparse(input) and not is_sparse(mat2):  # the sparse one is the summand
        import rushlight

        return rushlight.mm(input, mat2)
    check_matrices("mm", input, mat2)
    if is_sparse(input) and is_sparse(mat2):
        return run(times_sparse_masked if masked_gradient else times_sparse, input, mat2)
    if is_sparse(input):
        return run(times_masked if masked_gradient else times, input, mat2)
    if masked_gradient:
        return run(times_masked, mat2.t(), input.t()).t()
    return run(dense_times, input, mat2)


@op(where="_sparse", name="mv", node="MvBackward0", out=False)
def times_vector(xp, input: Array, vec: Array):
    """sparse [n, k] @ dense [k]."""
    return sparse_products.matmul(input, vec[:, None])[:, 0]


times_vector.grad(
    input=lambda g, vec: g.unsqueeze(1) * vec.conj_physical(),
    vec=lambda g, input: run(adjoint_times, input, g.unsqueeze(1)).squeeze(1),
)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    if is_sparse(vec):
        sparse.refuse("mv")
    if input.ndim != 2 or vec.ndim != 1 or input.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"mv: expected self.size(-1) == vec.size(-1), but the shapes are {list(input.shape)} and {list(vec.shape)}"
        )
    check_matrices("mv", input, vec.unsqueeze(1))
    return run(times_vector, input, vec)


def matmul(input: Tensor, other: Tensor) -> Tensor:
    return by_dimensions(input, other, mm, mv, bmm)


def by_dimensions(input: Tensor, other: Tensor, mm: Any, mv: Any, bmm: Any) -> Tensor:
    """`matmul` by the products of matrices, of a matrix and a vector, and of batches that are given."""
    n, m = input.ndim, other.ndim
    if n == 2 and m == 2:
        return mm(input, other)
    if n == 2 and m == 1:
        return mv(input, other)
    if n == 1 and m == 2 and not is_sparse(input):
        return mv(other.t(), input)
    if n == 3 and m == 3:
        return bmm(input, other)
    raise RuntimeError(
        f"[matmul] products of sparse tensors are of matrices, got shapes {list(input.shape)} and "
        f"{list(other.shape)}"
    )


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """A batch of products as one, of the matrix with the batch on its diagonal."""
    if not is_sparse(input) or is_sparse(mat2):
        sparse.refuse("bmm")
    if (
        input.ndim != 3
        or mat2.ndim != 3
        or input.shape[0] != mat2.shape[0]
        or (input.shape[2] != mat2.shape[1])
    ):
        raise RuntimeError(f"bmm: shapes {list(input.shape)} and {list(mat2.shape)} do not fit")
    a: Any = input._array
    if a.sparse_dim != 3:
        raise RuntimeError(f"bmm: expected three sparse dimensions, got {a.sparse_dim}")
    b, n, k = a.shape
    at = np.stack((a.indices[0] * n + a.indices[1], a.indices[0] * k + a.indices[2]))
    wide = build(run(values_of, input), at, (b * n, b * k), a.coalesced)
    return run(times, wide, mat2.reshape(b * k, mat2.shape[2])).reshape(b, n, mat2.shape[2])


@op(where="_sparse", name="dense_addmm", node="AddmmBackward0", out=False)
def plus_times(xp, input: Array, mat1: Array, mat2: Array, beta: Any, alpha: Any):
    """beta * input + alpha * mat1 @ mat2, where `mat1` is sparse."""
    return scaled_sum(input, sparse_products.matmul(mat1, mat2), beta, alpha)


@op(where="_sparse", name="dense_addmm_masked", node="SparseAddmmBackward0", out=False)
def plus_times_masked(xp, input: Array, mat1: Array, mat2: Array, beta: Any, alpha: Any):
    """The same; the gradient of `mat1` is sparse, with its pattern."""
    return scaled_sum(input, sparse_products.matmul(mat1, mat2), beta, alpha)


def scaled_sum(x: Any, product: Any, beta: Any, alpha: Any) -> Any:
    if alpha != 1:
        product = product * np.asarray(alpha).astype(product.dtype)
    if beta == 0:
        return product
    return product + (x if beta == 1 else x * np.asarray(beta).astype(x.dtype))


def scaled(t: Tensor, number: Any) -> Tensor:
    return t if number == 1 else t * number


def times_number(t: Tensor, number: Any) -> Tensor:
    return scaled(t, number.conjugate())


plus_times.grad(
    input=lambda g, beta: times_number(g, beta),
    mat1=lambda g, mat2, alpha: times_number(g @ mat2.mH, alpha),
    mat2=lambda g, mat1, alpha: times_number(run(adjoint_times, mat1, g), alpha),
)
plus_times_masked.grad(
    input=lambda g, beta: times_number(g, beta),
    mat1=lambda g, mat2, mat1, alpha: times_number(sampled_at(g, mat2, mat1._array), alpha),
    mat2=lambda g, mat1, alpha: times_number(run(adjoint_times, mat1, g), alpha),
)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1,
          masked_gradient: bool = False) -> Tensor:  # fmt: skip
    """beta * input + alpha * mat1 @ mat2."""
    if is_sparse(mat1) and not is_sparse(mat2) and not is_sparse(input):
        check_matrices("addmm", mat1, mat2)
        if input.dtype is not mat1.dtype:
            raise RuntimeError(
                f"expected scalar type {mat1.dtype.scalar_name} but found {input.dtype.scalar_name}"
            )
        shape = geometry.broadcast_shapes(tuple(input.shape), (mat1.shape[0], mat2.shape[1]))
        if shape != (mat1.shape[0], mat2.shape[1]):
            raise RuntimeError(
                f"addmm: the summand has shape {list(input.shape)}, the product "
                f"{[mat1.shape[0], mat2.shape[1]]}"
            )
        op = plus_times_masked if masked_gradient else plus_times
        return run(op, input, mat1, mat2, beta, alpha)
    product = mm(mat1, mat2, masked_gradient)
    if alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    scaled = input if beta == 1 else input * beta
    if is_sparse(scaled) != is_sparse(product):
        return product + scaled if is_sparse(scaled) else scaled + product.to_dense()
    return scaled + product if is_sparse(product) else scaled.expand(product.shape) + product


def addmv(input: Tensor, mat: Tensor, vec: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    return input * beta + mv(mat, vec) * alpha


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = input if input.ndim == 2 else input.reshape(-1, input.shape[-1])
    result = mm(rows, weight.t()) if bias is None else addmm(bias, rows, weight.t())
    return result if input.ndim == 2 else result.reshape(*input.shape[:-1], weight.shape[0])


# -- public products -------------------------------------------------------------------------------


def either(name: str, a: Tensor, b: Tensor) -> bool:
    for t in (a, b):
        if not isinstance(t, Tensor):
            raise TypeError(f"{name}(): arguments must be Tensor, not {type(t).__name__}")
    return is_sparse(a) or is_sparse(b)


def mm_with_sparse_gradient(mat1: Tensor, mat2: Tensor, reduce: Any = None) -> Tensor:
    """`sparse.mm`: see there."""
    import rushlight

    if reduce is not None:
        return neighbours(mat1, mat2, reduce)
    if not either("mm", mat1, mat2):
        return rushlight.mm(mat1, mat2)
    return mm(mat1, mat2, True)


def neighbours(mat1: Tensor, mat2: Tensor, reduce: str) -> Tensor:
    """Each row: the values of its entries times rows of `mat2`, reduced."""
    if handlers.asked((mat1, mat2)):
        import rushlight

        return handlers.ask(
            rushlight.ops.aten._sparse_mm_reduce_impl.default, (mat1, mat2, reduce), {}
        )[0]
    if mat1.layout is not dtypes.sparse_csr or is_sparse(mat2):
        sparse.refuse("_sparse_mm_reduce_impl", getattr(mat1._array, "backend", "CPU"))
    reduce = {"max": "amax", "min": "amin"}.get(reduce, reduce)
    if reduce == "prod":
        raise RuntimeError("sparse_mm_reduce: reduce type of prod has not been enabled.")
    if reduce not in ("sum", "mean", "amax", "amin"):
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    check_matrices("mm", mat1, mat2)
    if reduce == "sum":
        return mm(mat1, mat2, True)
    a: Any = mat1._array
    rows, cols = (_wrap(np.ascontiguousarray(x)) for x in a.coordinates())
    counts = np.diff(a.pointers)
    if reduce == "mean":
        total = mm(mat1, mat2, True)
        return total / _wrap(np.maximum(counts, 1).astype(total._array.dtype)).unsqueeze(1)
    messages = run(values_of, mat1).unsqueeze(1) * mat2.index_select(0, cols)
    start = mat2.new_zeros((a.shape[0], mat2.shape[1]))
    return start.index_reduce(0, rows, messages, reduce, include_self=False)


@public(overridable=True)
def spmm(input: Tensor, mat2: Tensor) -> Tensor:
    """`torch.mm`, by the name graph networks call it.

    >>> import rushlight as torch
    >>> torch.spmm(torch.eye(2).to_sparse(), torch.ones(2, 1))
    tensor([[1.],
            [1.]])
    """
    import rushlight

    return rushlight.mm(input, mat2)


@public(method=True, overridable=True)
def smm(input: Tensor, mat: Tensor) -> Tensor:
    """sparse @ dense, with a sparse result."""
    if not is_sparse(input) or is_sparse(mat):
        raise NotImplementedError("[smm] expected a sparse and a dense matrix")
    product = mm(input, mat)
    n, m = product.shape
    used = np.unique(input._array.indices[0])  # type: ignore[attr-defined]
    at = np.stack((np.repeat(used, m), np.tile(np.arange(m), len(used))))
    return build(product[_wrap(used)].reshape(-1), at, (n, m))


@public(overridable=True)
def hspmm(mat1: Tensor, mat2: Tensor, *, out: Any = None) -> Tensor:
    """sparse [n, k] @ dense [k, m]: rows that are not empty, as values of a hybrid tensor."""
    if not is_sparse(mat1) or is_sparse(mat2):
        raise NotImplementedError("[hspmm] expected a sparse and a dense matrix")
    product = mm(mat1, mat2)
    used = np.unique(mat1._array.indices[0])  # type: ignore[attr-defined]
    made = build(product[_wrap(used)], used.reshape(1, -1), tuple(product.shape))
    return made if out is None else coordinates.write_out("hspmm", out, made)


@public(method=True, overridable=True)
def sspaddmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1,
             out: Any = None) -> Tensor:  # fmt: skip
    """beta * input + alpha * mat1 @ mat2, all but `mat2` sparse, with a sparse result."""
    if not is_sparse(input):
        raise NotImplementedError("[sspaddmm] expected a sparse input")
    product = smm(mat1, mat2) * alpha
    made = input * beta + product
    return made if out is None else coordinates.write_out("sspaddmm", out, made)


for older, function in (("dsmm", spmm), ("hsmm", hspmm), ("saddmm", sspaddmm)):
    public(name=older)(function)


# -- softmax ---------------------------------------------------------------------------------------


def softmax(name: str, input: Tensor, dim: int, dtype: Any, log: bool) -> Tensor:
    """Over the entries there are; what is not there counts as minus infinity.

    Stable: the largest entry of each row is taken off first.
    """
    import rushlight

    if not is_sparse(input):
        function = rushlight.log_softmax if log else rushlight.softmax
        return function(input, dim, dtype=dtype)
    if input._array.__class__ is Compressed:
        sparse.refuse(name, Compressed.backend)
    if dtype is not None:
        input = input.to(dtype)
    if not input.is_floating_point():
        raise NotImplementedError(f"\"softmax\" not implemented for '{input.dtype.scalar_name}'")
    t = coalesce(input)
    a: Any = t._array
    dim, n = geometry.wrap_dim(dim, t.ndim), a.sparse_dim
    v = run(values_of, t)
    node = "SparseLogSoftmaxBackward0" if log else "SparseSoftmaxBackward0"
    if dim >= n:
        function = rushlight.log_softmax if log else rushlight.softmax
        return with_values(t, function(v, dim - n + 1), node, True)
    others = [d for d in range(n) if d != dim]
    k = sparse.keys(a.indices[others], tuple(a.shape[d] for d in others))
    _, group = np.unique(k, return_inverse=True)
    count, rows = int(group.max()) + 1 if group.size else 0, _wrap(group.reshape(-1))
    top = v.detach().new_zeros((count, *v.shape[1:]))
    top = top.index_reduce(0, rows, v.detach(), "amax", include_self=False)
    v = v - top.index_select(0, rows)
    e = v.exp()
    total = v.new_zeros((count, *v.shape[1:])).index_add(0, rows, e).index_select(0, rows)
    return with_values(t, v - total.log() if log else e / total, node, True)


TABLE: dict[str, Callable] = {
    "mm": mm, "mv": mv, "matmul": matmul, "bmm": bmm, "addmm": addmm, "addmv": addmv,
    "nn.functional.linear": linear,
}  # fmt: skip
