"""What public operators do when an input is a compressed sparse tensor (csr, csc, bsr, bsc).

Most work on the values and keep the pattern; what joins two patterns goes by coordinates (calls.py) and back
to the layout it came in. See Note [Compressed arrays].
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import compressed, sparse
from rushlight._backends.compressed import NAMES, Compressed
from rushlight.autograd.state import thread
from rushlight.core import dtypes, geometry, return_types
from rushlight.core.tensor import Tensor, _wrap
from rushlight.dispatch.registry import Array, op
from rushlight.ops.sparse import calls, products, shapes
from rushlight.ops.sparse.operators import (
    compress,
    compressed_like,
    coo_of,
    dense_of,
    is_sparse,
    pattern_of,
    run,
    values_at_indices,
    values_of,
    with_values,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def is_compressed(t: Any) -> bool:
    return isinstance(t, Tensor) and t._array.__class__ is Compressed


def array_of(t: Tensor) -> Compressed:
    return t._array  # type: ignore[return-value]


def on(like: Compressed, values: Tensor, pointers: Any, plain: Any, shape: tuple, name: str = ""):
    """A compressed tensor of other parts in the layout of `like`."""
    made: Any = Compressed(pointers, plain, values._array, shape, like.layout)
    return with_values(_wrap(made), values, name)


def clone(input: Tensor, memory_format: Any = None) -> Tensor:
    calls.no_format(memory_format)
    a = array_of(input)
    v = run(values_of, input).clone()
    return on(a, v, a.pointers.copy(), a.plain.copy(), a.shape, "CloneBackward0")


# -- sums and products of two ----------------------------------------------------------------------


def add(input: Any, other: Any, alpha: Any = 1) -> Tensor:
    if not is_sparse(input) or not is_sparse(other):
        if is_compressed(input):
            input, other = other * alpha if alpha != 1 else other, input
            alpha = 1
        return calls.add(input, coo_of(other), alpha)
    a, b = array_of(input), array_of(other)
    if a.shape != b.shape:
        raise RuntimeError(
            "torch.add: Expected input tensors to have the same shape, but got tensor `self` with shape "
            f"{list(a.shape)} and tensor `other` with shape {list(b.shape)}"
        )
    if a.layout is not b.layout or a.block != b.block:
        raise RuntimeError(
            f"add: the layouts of the two sparse tensors differ, {NAMES[a.layout]} and {NAMES[b.layout]}: "
            "convert one of them"
        )
    return compressed_like(calls.add(coo_of(input), coo_of(other), alpha), a)


def mul(input: Any, other: Any) -> Tensor:
    if calls.scalar(input) or calls.scalar(other):
        return calls.mul(input, other)
    like = array_of(input if is_compressed(input) else other)
    if is_sparse(input) and is_sparse(other):
        return compressed_like(calls.mul(coo_of(input), coo_of(other)), like)
    t, x = (input, other) if is_sparse(input) else (other, input)
    if t.shape != x.shape:
        raise RuntimeError(
            f"sparse_mask(): operands have incompatible sizes; self has size {list(x.shape)} but mask has "
            f"size {list(t.shape)}"
        )
    at = values_at_indices(x, like.coordinates()).reshape(like.values.shape)
    return with_values(t, run(values_of, t) * at, "MulBackward0")


@op(where="_sparse", name="sum_keepdim", node="SumBackward1", out=False)
def sum_keepdim(xp, input: Array, dims: tuple):
    """The sum over sparse or batch dimensions, which stay with size 1."""
    return compressed.sum_keepdim(input, dims)


sum_keepdim.grad(input=lambda g, input_shape: dense_of(g).expand(input_shape))


def sum_of(input: Tensor, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The sum; over dimensions that stay, in the layout of `input`, else in coordinates."""
    if dim is None or dim == ():
        return calls.sum_of(input, dim, keepdim, dtype)
    a, dims = array_of(input), geometry.wrap_dims(dim, input.ndim)
    if not keepdim or a.block or max(dims) >= a.batch_dim + 2:
        return calls.sum_of(coo_of(input), dim, keepdim, dtype)
    return run(sum_keepdim, calls.summable(input, dtype), dims)


# -- products of matrices --------------------------------------------------------------------------


def check_as_dense(name: str, *tensors: Tensor) -> None:
    """The errors that the dense operator raises where factors, the last two of `tensors`, do not fit."""
    import rushlight

    a, b = tensors[-2:]
    shape = (*a.shape[:1], *b.shape[1:])
    fits = a.ndim == 2 and a.shape[1] == b.shape[0] and b.ndim == (1 if name == "mv" else 2)
    small = tuple(tensors[0].shape) if len(tensors) == 3 else ()
    pairs = zip(reversed(small), reversed(shape), strict=False)
    fits = fits and len(small) <= len(shape) and all(n in (1, m) for n, m in pairs)
    if fits and len({t.dtype for t in tensors}) == 1:
        return
    shells = [rushlight.empty(t.shape, dtype=t.dtype, device="meta") for t in tensors]
    getattr(rushlight, name)(*shells)


def in_rows(t: Tensor, *factors: Tensor) -> Tensor:
    """A product of two sparse matrices in sparse_csr."""
    index = next(array_of(f).plain.dtype for f in factors if is_compressed(f))
    return run(compress, t, dtypes.sparse_csr, (), 0, index)


def mm(input: Tensor, mat2: Tensor, masked_gradient: bool = False) -> Tensor:
    check_as_dense("mm", input, mat2)
    if is_sparse(input) and is_sparse(mat2):
        return in_rows(products.mm(coo_of(input), coo_of(mat2)), input, mat2)
    return products.mm(input, mat2, masked_gradient)


def mv(input: Tensor, vec: Tensor) -> Tensor:
    check_as_dense("mv", input, vec)
    return products.mv(input, vec)


def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    return products.bmm(coo_of(input), coo_of(mat2))


def matmul(input: Tensor, other: Tensor) -> Tensor:
    return products.by_dimensions(input, other, mm, mv, bmm)


def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any = 1, alpha: Any = 1,
          masked_gradient: bool = False) -> Tensor:  # fmt: skip
    check_as_dense("addmm", input, mat1, mat2)
    if not is_sparse(input):
        if not (is_sparse(mat1) and is_sparse(mat2)):
            return products.addmm(input, mat1, mat2, beta, alpha, masked_gradient)
        product = dense_of(mm(mat1, mat2))
        return products.scaled(product, alpha) + products.scaled(input, beta)
    product = coo_of(mm(mat1, mat2))
    if not is_sparse(product):
        product = product.to_sparse()
    total = products.scaled(product, alpha)
    if beta != 0:
        total = calls.add(total, coo_of(input), beta)
    return compressed_like(total, array_of(input))


def addmv(input: Tensor, mat: Tensor, vec: Tensor, beta: Any = 1, alpha: Any = 1) -> Tensor:
    if mat.ndim != 2 or vec.ndim != 1 or mat.shape[1] != vec.shape[0]:
        raise RuntimeError(
            f"size mismatch, got input ({mat.shape[0]}), mat ({'x'.join(map(str, mat.shape))}), vec "
            f"({vec.shape[0] if vec.ndim else 0})"
        )
    product = products.scaled(products.mv(mat, vec), alpha)
    return product if beta == 0 else products.scaled(input, beta) + product


def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    rows = input if input.ndim == 2 else input.reshape(-1, input.shape[-1])
    result = mm(rows, weight.t()) if bias is None else addmm(bias, rows, weight.t())
    return result if input.ndim == 2 else result.reshape(*input.shape[:-1], weight.shape[0])


def sampled_addmm(input: Tensor, mat1: Tensor, mat2: Tensor, beta: Any, alpha: Any) -> Tensor:
    """beta * input + alpha * (mat1 @ mat2) where `input` has entries, in each batch."""
    name = "sampled_addmm"
    a = array_of(input)
    if a.layout is not dtypes.sparse_csr:
        raise RuntimeError(
            f"{name}: Expected result to have sparse csr layout, but got {NAMES[a.layout]}"
        )
    for label, t in (("mat1", mat1), ("mat2", mat2)):
        if is_sparse(t):
            raise RuntimeError(
                f"{name}: Expected {label} to have strided layout, but got {NAMES[t.layout]}"
            )
        if t.ndim < 2:
            raise RuntimeError(f"{name}: Expected {label} to be a matrix, got {t.ndim}-D tensor")
    batch = tuple(mat1.shape[:-2])
    if batch != tuple(mat2.shape[:-2]):
        raise RuntimeError(f"{name}: Expected mat1 and mat2 to have the same batch size, but got "
                           f"{list(batch)} and {list(mat2.shape[:-2])}")  # fmt: skip
    (n, k), m = mat1.shape[-2:], mat2.shape[-1]
    if k != mat2.shape[-2]:
        raise RuntimeError(
            f"{name}: mat1 and mat2 shapes cannot be multiplied ({n}x{k} and {mat2.shape[-2]}x{m})"
        )
    if a.shape[-2] != n:
        raise RuntimeError(f"{name}: self.shape[-2] must match mat1.shape[-2]")
    if a.shape[-1] != m:
        raise RuntimeError(f"{name}: self.shape[-1] must match mat2.shape[-1]")
    v = run(values_of, input)
    if a.shape[:-2] != batch:
        v = v.expand(*batch, a.nnz)
        pointers, plain = (
            np.broadcast_to(x, (*batch, x.shape[-1])).copy() for x in (a.pointers, a.plain)
        )
        a = Compressed(pointers, plain, v._array, (*batch, n, m), a.layout)
    at = a.coordinates()
    which = sparse.keys(at[:-2], batch)
    count, pair = prod(batch), np.stack((which * n + at[-2], which * m + at[-1]))
    left, right = mat1.reshape(count * n, k), mat2.mH.reshape(count * m, k)
    product = run(products.sampled, left, right, pair).reshape(a.values.shape)
    total = products.scaled(product, alpha)
    if beta != 0:
        total = products.scaled(v, beta) + total
    return with_values(_wrap(a), total, "SparseSampledAddmmBackward0")  # type: ignore[arg-type]


@op(where="_sparse", name="triangular_solve", node="TriangularSolveBackward0", out=False)
def solved(xp, input: Array, A: Array, upper: bool, transpose: bool, unitriangular: bool):
    """x with A @ x = input (A.T @ x = input), where `A` is sparse and one triangle of it is read."""
    return compressed.solve_triangular(A.coo(), input, upper, transpose, unitriangular)


def solved_gradients(g, input, A, result, upper, transpose, unitriangular, needs):
    conj = products.conj
    g_b = run(solved, g, conj(A), upper, not transpose, unitriangular)
    if not needs[1]:
        return g_b, None
    left, right = (result, g_b) if transpose else (g_b, result)
    if transpose:
        left, right = conj(left), conj(right)
    g_a = products.sampled_at(-left, right, A._array)
    at = A._array.coordinates()
    inside = at[0] <= at[1] - unitriangular if upper else at[0] >= at[1] + unitriangular
    kept = run(values_of, g_a) * _wrap(inside.reshape(A._array.values.shape))
    return g_b, with_values(g_a, kept)


solved.grad_all(solved_gradients)


def triangular_solve(
    input: Tensor,
    A: Tensor,
    upper: bool = True,
    transpose: bool = False,
    unitriangular: bool = False,
) -> tuple:
    """The solution, and an empty tensor in the place of a copy of `A`."""
    if is_sparse(input) or A.ndim != 2 or A.shape[0] != A.shape[1]:
        raise RuntimeError(
            "triangular_solve: expected a strided matrix b and a square sparse matrix A, got shapes "
            f"{list(input.shape)} and {list(A.shape)}"
        )
    if input.ndim != 2 or input.shape[0] != A.shape[0]:
        raise RuntimeError(
            f"triangular_solve: shapes {list(A.shape)} of A and {list(input.shape)} of b do not fit"
        )
    if input.dtype is not A.dtype:
        raise RuntimeError(
            f"triangular_solve: Expected b and A to have the same dtype, but found {input.dtype} and {A.dtype}"
        )
    x = run(solved, input, A, upper, transpose, unitriangular)
    return return_types.triangular_solve((x, x.new_empty(0)))


# -- shapes ----------------------------------------------------------------------------------------


@op(view=True, where="_sparse", name="transpose_compressed", node=lambda name, **_: name)
def exchanged(xp, input: Array, dim0: int, dim1: int, name: str):
    """Two dimensions exchanged."""
    return compressed.transposed(input, dim0, dim1)


exchanged.grad(input=lambda g, dim0, dim1: g.transpose(dim0, dim1))


def transpose(input: Tensor, dim0: int, dim1: int, name: str = "TransposeBackward0") -> Tensor:
    a = array_of(input)
    dim0, dim1 = geometry.wrap_dim(dim0, input.ndim), geometry.wrap_dim(dim1, input.ndim)
    if a.dense_dim:
        raise RuntimeError(
            "transpose(): hybrid sparse compressed tensors with dense dimensions are not supported"
        )
    kinds = ["Batch" if d < a.batch_dim else "Sparse" for d in (dim0, dim1)]
    if kinds[0] != kinds[1]:
        raise RuntimeError(
            "transpose(): can only transpose dimensions of the same type (Batch, Sparse, Dense), got "
            f"{dim0}({kinds[0]}) and {dim1}({kinds[1]})"
        )
    return run(exchanged, input, dim0, dim1, name)


def flipped(input: Tensor) -> Tensor:
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return transpose(input, 0, 1, "TBackward0")


def permute(input: Tensor, dims: Any) -> Tensor:
    dims_given = geometry.wrap_dims(tuple(dims), input.ndim)
    if dims_given not in ((0, 1), (1, 0)):
        sparse.refuse("permute", Compressed.backend)
    return transpose(input, 0, dims_given[0], "PermuteBackward0")


def select(input: Tensor, dim: int, index: int) -> Tensor:
    a = array_of(input)
    dim = geometry.wrap_dim(dim, input.ndim)
    if not -a.shape[dim] <= index < a.shape[dim]:
        raise IndexError(
            f"select(): index {index} out of range for tensor of size {list(a.shape)} at dimension {dim}"
        )
    index %= a.shape[dim]
    at = dim - a.batch_dim
    if 0 <= at < 2:
        if a.batch_dim:
            raise RuntimeError(
                "select(): selecting sparse dimensions is not supported for batched sparse compressed tensors."
            )
        return shapes.select(coo_of(input), dim, index)
    shape = a.shape[:dim] + a.shape[dim + 1 :]
    v = run(values_of, input)
    if at < 0:
        pointers, plain = a.pointers.take(index, dim), a.plain.take(index, dim)
        return on(a, v.select(dim, index), pointers, plain, shape, "SelectBackward0")
    v = v.select(at - 2 + a.plain.ndim + len(a.block), index)
    return on(a, v, a.pointers, a.plain, shape, "SelectBackward0")


def unbind(input: Tensor, dim: int = 0) -> tuple:
    return tuple(input.select(dim, i) for i in range(input.shape[dim]))


# -- writing ---------------------------------------------------------------------------------------


def copy_(t: Tensor, src: Tensor) -> Tensor:
    """The parts of another tensor of the same layout and number of entries, in place."""
    if not is_compressed(t):
        raise RuntimeError(
            f"copy_sparse_compressed_ expected sparse compressed tensor layout but got {NAMES[t.layout]}"
        )
    if t.layout is not src.layout:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different layouts is not supported. self "
            f"layout is {NAMES[t.layout]} and src layout is {NAMES[src.layout]}"
        )
    a, b = array_of(t), array_of(src)
    if a.nnz != b.nnz:
        raise RuntimeError(
            "torch.copy_: only sparse compressed tensors with the same number of specified elements are "
            "supported."
        )
    if len(a.shape) != len(b.shape):
        raise RuntimeError(
            f"torch.copy_: expected {len(a.shape)} dimensions of src, got {len(b.shape)}"
        )
    for d, (n, m) in enumerate(zip(a.shape, b.shape, strict=True)):
        if n != m:
            raise RuntimeError(
                f"torch.copy_: expected shapes of self and src to match along dimension {d} for "
                f"{NAMES[a.layout]} layout but the corresponding dimensions of self and src are {n} and {m}, "
                "respectively."
            )
    if a.block != b.block:
        raise RuntimeError(
            "torch.copy_: copy of sparse compressed tensors having different block sizes is not supported. "
            f"self and src block sizes are {list(a.block)} and {list(b.block)}, respectively."
        )
    np.copyto(a.pointers, b.pointers, casting="unsafe")
    np.copyto(a.plain, b.plain, casting="unsafe")
    run(values_of, t.detach()).copy_(run(values_of, src.detach()))
    calls.bump(t)
    return t


def fill_(t: Tensor, value: Any) -> Tensor:
    """A number for every entry there is, in place."""
    if thread.grad and t.requires_grad:
        raise RuntimeError(
            "[fill_] in-place operations on sparse tensors are not recorded: use torch.no_grad()"
        )
    run(values_of, t.detach()).fill_(value)
    calls.bump(t)
    return t


def put(t: Tensor, a: Compressed) -> None:
    """Give a compressed tensor other parts: into its own memory where they fit there."""
    own = array_of(t)
    if own.values.shape == a.values.shape and own.values.dtype == a.values.dtype:
        np.copyto(own.values, a.values)
    else:
        own.values = a.values.copy()
    own.pointers, own.plain, own.shape = a.pointers, a.plain, a.shape
    calls.bump(t)


def write_out(name: str, out: Tensor, result: Tensor) -> Tensor:
    """A compressed result into `out`, of the same layout."""
    if not is_compressed(out) or out.layout is not result.layout:
        raise RuntimeError(
            f"{name}: Expected out tensor to have {NAMES[result.layout]} layout, but got {NAMES[out.layout]}"
        )
    calls.fits(result, out)
    put(out, array_of(result.detach().to(out.dtype)))
    return out


def resized(a: Compressed, size: tuple) -> Compressed:
    """Another size of a tensor in sparse_csr; entries are kept as far as there is room for them."""
    if len(size) < 2 or a.dense_dim or a.layout is not dtypes.sparse_csr:
        raise RuntimeError(
            f"torch.resize_: Only batched sparse CSR matrices are supported, but got size {list(size)}"
        )
    if size[-1] < a.shape[-1]:
        raise RuntimeError(
            "torch.resize_: Resizing columns of sparse CSR tensors to a smaller value is not supported. The "
            f"original number of columns is {a.shape[-1]} while the requested new number of columns is "
            f"{size[-1]}."
        )
    batch, rows = size[:-2], size[-2]
    nnz, count = min(a.nnz, rows * size[-1]), prod(batch)
    if count > prod(a.pointers.shape[:-1]):
        raise RuntimeError(
            f"torch.resize_: no more batches than there are, of shape {list(a.shape)}, but got size {list(size)}"
        )
    old = a.pointers.reshape(-1, a.pointers.shape[-1])[:count, : rows + 1]
    pointers = np.full((count, rows + 1), nnz, old.dtype)
    pointers[:, : old.shape[1]] = np.minimum(old, nnz)
    pointers[:, -1] = nnz
    plain, values = (
        x.reshape(-1, a.nnz)[:count, :nnz].reshape(*batch, nnz) for x in (a.plain, a.values)
    )
    return Compressed(pointers.reshape(*batch, rows + 1), plain, values, size, a.layout)


def resize_as(t: Tensor, like: Tensor) -> Tensor:
    """The shape and the pattern of another compressed tensor of the same layout, in place."""
    for label, x in (("src", like), ("self", t)):
        if not is_compressed(x):
            raise RuntimeError(
                f"resize_as_sparse_compressed_: {label}  expected sparse compressed tensor layout but got "
                f"{NAMES[x.layout]}"
            )
    if t.layout is not like.layout:
        raise RuntimeError(
            "resize_as_sparse_compressed_tensor_: self and src must have the same layout, but got: self "
            f"({NAMES[t.layout]}) and source ({NAMES[like.layout]})"
        )
    a, b = array_of(t), array_of(like)
    if a.shape != b.shape or a.values.shape != b.values.shape:
        index = a.plain.dtype
        put(t, Compressed(b.pointers.astype(index), b.plain.astype(index),
                          np.zeros(b.values.shape, a.dtype), b.shape, b.layout))  # fmt: skip
    return t


def mask(t: Tensor, like: Tensor) -> Tensor:
    """The values of a dense or sparse tensor where a compressed one has entries."""
    return pattern_of(t, array_of(like))


# -- what takes which function ---------------------------------------------------------------------

TABLE: dict[str, Callable] = {
    "clone": clone, "add": add, "mul": mul, "sum": sum_of,
    "sub": lambda input, other, alpha=1: add(input, other, -alpha),
    "rsub": lambda input, other, alpha=1: add(other, input, -alpha),
    "mm": mm, "mv": mv, "matmul": matmul, "bmm": bmm, "addmm": addmm, "addmv": addmv,
    "nn.functional.linear": linear, "triangular_solve": triangular_solve,
    "transpose": transpose, "t": flipped, "permute": permute, "select": select,
    "unbind": unbind,
    **{name: calls.TABLE[name] for name in (
        "_to_copy", "pow", "div", "true_divide", "floor_divide", "any", "norm", "linalg.vector_norm")},
}  # fmt: skip
