"""Linear algebra written in products: chains, powers, exponentials, cross and Kronecker products."""

from __future__ import annotations

import math
from typing import Any

from rushlight.core import dtypes, settings
from rushlight.core.geometry import broadcast_shapes, wrap_dim
from rushlight.core.stub import stub
from rushlight.dispatch.methods import function
from rushlight.dispatch.registry import Array, Arrays, composite, op, public
from rushlight.ops.linalg import matrix_checks as check
from rushlight.ops.linalg.matmul import dot, matmul, vdot
from rushlight.ops.linalg.matrix_results import eye, to_shape

# -- chains ----------------------------------------------------------------------------------------


@composite(where="linalg")
def multi_dot(tensors: Arrays):
    """The product of two or more matrices, in the order of least work; the first and the last may be
    vectors.

    >>> import rushlight as torch
    >>> torch.linalg.multi_dot([torch.ones(2), torch.ones(2, 3), torch.ones(3, 1)])
    tensor([6.])
    """
    tensors = list(tensors)
    n = len(tensors)
    if n in (2, 3):  # most chains; those that do not fit go on to the errors
        a, b, c = tensors[0], tensors[1], tensors[-1]
        if a.ndim == b.ndim == c.ndim == 2 and a.dtype is b.dtype is c.dtype:
            (l, m), (m_b, p), (p_c, q) = a.shape, b.shape, c.shape
            if n == 2 and m == m_b:
                return a.mm(b)
            if n == 3 and m == m_b and p == p_c:
                left_first = l * p * (m + q) <= m * q * (l + p)
                return a.mm(b).mm(c) if left_first else a.mm(b.mm(c))
    if n < 2:
        raise RuntimeError(f"multi_dot(): expected at least 2 tensors but got {n}")
    for i, t in enumerate(tensors):
        ends = i in (0, n - 1)
        if t.ndim != 2 and not (ends and t.ndim == 1):
            what = "first" if i == 0 else "last"
            raise RuntimeError(
                f"multi_dot(): the {what} tensor must be 1D or 2D but got {t.ndim}D"
                if ends
                else f"multi_dot(): tensor {i} must be 2D but got {t.ndim}D"
            )
        if t.dtype != tensors[0].dtype:
            raise RuntimeError(
                f"multi_dot(): all tensors must have be the same dtype but tensor 0 is "
                f"{tensors[0].dtype} and tensor {i} {t.dtype}"
            )
    row, column = tensors[0].ndim == 1, tensors[-1].ndim == 1
    shapes = [tuple(t.shape) for t in tensors]
    if row:
        tensors[0] = tensors[0].unsqueeze(0)
    if column:
        tensors[-1] = tensors[-1].unsqueeze(-1)
    for i in range(n - 1):
        if tensors[i].shape[1] != tensors[i + 1].shape[0]:
            raise RuntimeError(
                f"multi_dot(): tensors {i} and {i + 1} with shapes {list(shapes[i])} and "
                f"{list(shapes[i + 1])} cannot be multiplied"
            )
    r = multiplied(
        tensors, splits([t.shape[0] for t in tensors] + [tensors[-1].shape[1]]), 0, n - 1
    )
    if row:
        r = r.squeeze(0)
    return r.squeeze(-1) if column else r


def splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Where to split the chain i..j of matrices sizes[k] x sizes[k + 1] (Cormen et al., 15.2)."""
    n = len(sizes) - 1
    cost, at = {(i, i): 0 for i in range(n)}, {}
    for length in range(1, n):
        for i in range(n - length):
            j = i + length
            cost[i, j], at[i, j] = min(
                (cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1], k)
                for k in range(i, j)
            )
    return at


def multiplied(tensors, at, i, j):
    if i == j:
        return tensors[i]
    k = at[i, j]
    return multiplied(tensors, at, i, k).mm(multiplied(tensors, at, k + 1, j))


@public()
def chain_matmul(*matrices: Any, out: Any = None) -> Any:
    """Deprecated: use `linalg.multi_dot`, which takes a list."""
    settings.warn_once(
        "torch.chain_matmul is deprecated and will be removed in a future PyTorch release. Use "
        "torch.linalg.multi_dot instead, which accepts a list of two or more tensors."
    )
    if len(matrices) == 1 and isinstance(matrices[0], (list, tuple)):
        matrices = tuple(matrices[0])
    if not matrices:
        raise RuntimeError("chain_matmul(): Expected one or more matrices")
    for i, t in enumerate(matrices):
        if t.ndim != 2:
            raise RuntimeError(
                f"Tensor dimension is {t.ndim}, expected 2 instead: chain_matmul(), matrix {i}"
            )
    if len(matrices) == 1:
        return matrices[0]
    return multi_dot(matrices) if out is None else multi_dot(matrices, out=out)


@composite(method=False)
def tensordot(a: Array, b: Array, dims: int | tuple | list = 2):
    """Sum the products of `a` and `b` over pairs of dimensions.

    `dims`: how many of the last of `a` meet the first of `b`, or two lists of equal length.

    >>> import rushlight as torch
    >>> torch.tensordot(torch.ones(2, 3), torch.ones(3, 4), dims=1).shape
    torch.Size([2, 4])
    """
    if hasattr(dims, "tolist"):
        dims = dims.tolist() if dims.numel() > 1 else dims.item()
    if isinstance(dims, (list, tuple)):
        first, second = ([d] if isinstance(d, int) else list(d) for d in dims)
    else:
        if dims < 0:
            raise RuntimeError(f"tensordot expects dims >= 0, but got dims={dims}")
        if dims > min(a.ndim, b.ndim):
            raise RuntimeError(
                "tensordot expects dims < ndim_a or ndim_b, but got dims="
                f"{dims}, ndim_a={a.ndim}, ndim_b={b.ndim}"
            )
        first, second = list(range(-dims, 0)), list(range(dims))
    if len(first) != len(second):
        raise RuntimeError(
            f"both dimension lists should have same length, got {first} and {second}"
        )
    if a.dtype != b.dtype:
        raise RuntimeError(f"both inputs should have same dtype, got {a.dtype} and {b.dtype}")
    wrapped_a = [wrap_dim(d, a.ndim) for d in first]
    wrapped_b = [wrap_dim(d, b.ndim) for d in second]
    for da, db, wa, wb in zip(first, second, wrapped_a, wrapped_b, strict=True):
        if a.shape[wa] == b.shape[wb]:
            continue
        if 1 not in (a.shape[wa], b.shape[wb]):
            raise RuntimeError(
                f"contracted dimensions need to match, but first has size {a.shape[wa]} in dim {da} "
                f"and second has size {b.shape[wb]} in dim {db}"
            )
        if a.shape[wa] == 1:
            b = b.sum(wb, keepdim=True, dtype=b.dtype)
        else:
            a = a.sum(wa, keepdim=True, dtype=a.dtype)
    free_a = [d for d in range(a.ndim) if d not in wrapped_a]
    free_b = [d for d in range(b.ndim) if d not in wrapped_b]
    k = math.prod(a.shape[d] for d in wrapped_a)
    shape_a, shape_b = [a.shape[d] for d in free_a], [b.shape[d] for d in free_b]
    x = a.permute((*free_a, *wrapped_a)).reshape(math.prod(shape_a), k)
    y = b.permute((*wrapped_b, *free_b)).reshape(k, math.prod(shape_b))
    return x.mm(y).reshape(*shape_a, *shape_b) if shape_a + shape_b else x.mm(y).reshape(())


# -- powers and functions of matrices --------------------------------------------------------------


@composite(where="linalg", method=True)
def matrix_power(A: Array, n: int):
    """A to the power of the integer `n`, by repeated squaring; the inverse for negative `n`."""
    check.square("linalg.matrix_power", A)
    if n.__class__ is bool or not hasattr(n, "__index__"):
        raise TypeError(f"matrix_power(): argument 'n' must be int, not {type(n).__name__}")
    n = n.__index__()
    if n == 0:
        return A.contiguous().clone().copy_(eye(A, A.shape[-1]))  # its gradient is 0
    if n < 0:
        from rushlight.ops.linalg.solve import inv

        A, n = inv(A), -n
    result, square = None, A
    while True:
        n, odd = divmod(n, 2)
        if odd:
            result = square if result is None else result @ square
        if not n:
            return result if result is not A else A.clone(memory_format=dtypes.contiguous_format)
        square = square @ square


matrix_power.alias("matrix_power")


@op(where="linalg", node="LinalgMatrixExpBackward0", method=True)
def matrix_exp(xp, A: Array):
    """The exponentials of square matrices [..., n, n].

    >>> import rushlight as torch
    >>> torch.linalg.matrix_exp(torch.zeros(2, 2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    check.floating("linalg.matrix_exp", A)
    check.square("linalg.matrix_exp", A)
    return xp.matrix_exp(A)


def matrix_exp_gradient(g, A):
    """The derivative stands in the corner of exp([[Aᴴ, G], [0, Aᴴ]]) (Mathias, 1996)."""
    cat, n, h = function("cat"), A.shape[-1], A.mH
    upper, lower = cat((h, g), -1), cat((g.new_zeros(g.shape), h), -1)
    return matrix_exp(cat((upper, lower), -2))[..., :n, n:]


matrix_exp.grad(A=matrix_exp_gradient)
matrix_exp.alias("matrix_exp")


# -- other products --------------------------------------------------------------------------------


@op(where="linalg", node="LinalgCrossBackward0")
def cross(xp, input: Array, other: Array, *, dim: int = -1):
    """The vector products along `dim`, which has three elements; other dimensions are broadcast."""
    if input.ndim != other.ndim:
        raise RuntimeError(
            "linalg.cross: inputs must have the same number of dimensions, got "
            f"{input.ndim} and {other.ndim}"
        )
    wrap_dim(dim, input.ndim)
    if input.shape[dim] != 3 or other.shape[dim] != 3:
        raise RuntimeError(
            f"linalg.cross: inputs dimension {dim} must have length 3. Got {input.shape[dim]} and "
            f"{other.shape[dim]}"
        )
    if input.dtype != other.dtype:
        names = [check.dtype_name(a) for a in (input, other)]
        raise RuntimeError(f"expected scalar type {names[0]} but found {names[1]}")
    if input.dtype.kind == "b":
        raise NotImplementedError("\"cross\" not implemented for 'Bool'")
    return xp.cross(input, other, dim)


cross.grad(
    input=lambda g, other, dim, input_shape: to_shape(
        cross(other.conj_physical(), g, dim=dim), input_shape
    ),
    other=lambda g, input, dim, other_shape: to_shape(
        cross(g, input.conj_physical(), dim=dim), other_shape
    ),
)


@composite(name="cross")
def cross_of_torch(input: Array, other: Array, dim: int | None = None):
    """As `linalg.cross`; without `dim` along the first dimension of size 3."""
    if dim is None:
        settings.warn_once(
            "Using torch.cross without specifying the dim arg is deprecated.\nPlease either pass the dim "
            "explicitly or simply use torch.linalg.cross.\nThe default value of dim will change to agree "
            "with that of linalg.cross in a future release."
        )
        if input.ndim != other.ndim:
            raise RuntimeError(
                "linalg.cross: inputs must have the same number of dimensions, got "
                f"{input.ndim} and {other.ndim}"
            )
        shape = broadcast_shapes(input.shape, other.shape)
        if 3 not in shape:
            raise RuntimeError("no dimension of size 3 in input")
        dim = shape.index(3)
    return cross(input, other, dim=dim)


@composite(where="linalg")
def vecdot(x: Array, y: Array, *, dim: int = -1):
    """The inner products along `dim`: the sum of conj(x) * y, with broadcasting."""
    check.floating("linalg.vecdot", x, half=True)
    check.floating("linalg.vecdot", y, half=True)
    if x.ndim == y.ndim == 1:
        return vdot(x, y) if x.is_complex() else dot(x, y)
    return (x.conj_physical() * y).sum(dim)


@composite
def kron(input: Array, other: Array):
    """The Kronecker product: every element of `input` times the whole of `other`."""
    n = max(input.ndim, other.ndim)
    if input.ndim == other.ndim == 2 and input.dtype is other.dtype:
        if not (input.is_contiguous() or other.is_contiguous()):
            x, y = input.mT, other.mT
            if x.is_contiguous() and y.is_contiguous():
                return kron_of_matrices(x, y).mT  # the result lies in memory as they do
        return kron_of_matrices(input, other)
    if n == input.ndim == other.ndim == 1:
        return (input.unsqueeze(1) * other).reshape(-1)
    a = (*(1,) * (n - input.ndim), *input.shape)
    b = (*(1,) * (n - other.ndim), *other.shape)
    x = input.reshape([k for m in a for k in (m, 1)])
    y = other.reshape([k for m in b for k in (1, m)])
    long = n and input.numel() * other.numel() > LONG and b[-1] * other.element_size() <= SHORT
    if long and (input.is_contiguous() or other.is_contiguous()):
        # rows are made longer first
        x = x.expand(*x.shape[:-1], b[-1]).flatten(-2)
        y = y.expand(*y.shape[:-2], a[-1], b[-1]).flatten(-2)
    return (x * y).reshape([i * j for i, j in zip(a, b, strict=True)])


@op(where="internal", node="UnsafeViewBackward0", out=False)
def kron_of_matrices(xp, input: Array, other: Array):
    """The Kronecker product of two matrices of one dtype."""
    return xp.kron(input, other)


def kron_gradients(g, input, other, needs):
    (m, n), (p, q) = input.shape, other.shape
    g = g.reshape(m, p, n, q)
    return (
        (g * other.conj_physical().unsqueeze(1)).sum((1, 3)) if needs[0] else None,
        (g * input.conj_physical().unsqueeze(-1).unsqueeze(1)).sum((0, 2)) if needs[1] else None,
    )


kron_of_matrices.grad_all(kron_gradients)
kron_of_matrices.op.pytorch_nodes = lambda node: (
    "UnsafeViewBackward0",
    (("MulBackward0", ("UnsafeViewBackward0", 0), ("UnsafeViewBackward0", 1)),),
)

LONG = 1 << 15  # elements of a Kronecker product from which two more steps pay for rows of
SHORT = 128  # bytes at most


@op()
def trace(xp, input: Array):
    """The sum of the diagonal of a matrix [n, m]."""
    if input.ndim != 2:
        raise RuntimeError(f"trace: expected a matrix, but got tensor with dim {input.ndim}")
    if input.dtype.kind == "b":
        raise NotImplementedError("\"trace\" not implemented for 'Bool'")
    return xp.trace(input)


def trace_gradient(g, input_shape):
    n, m = input_shape
    d = g.expand(min(n, m)).diag_embed()
    if n != m:
        zeros = g.new_zeros((n - m, m) if n > m else (n, m - n))
        d = function("cat")((d, zeros), 0 if n > m else 1)
    return d


trace.grad(input=trace_gradient)


@composite(where="linalg")
def diagonal(A: Array, *, offset: int = 0, dim1: int = -2, dim2: int = -1):
    """The diagonals of matrices [..., n, m]: a view; `torch.diagonal` with other defaults."""
    return A.diagonal(offset, dim1, dim2)


@composite(where="linalg")
def vander(x: Array, *, N: int | None = None):
    """The powers 0 to N - 1 of the elements of x [..., n]: [..., n, N]; N defaults to n."""
    n = (x.shape[-1] if x.ndim else 1) if N is None else N
    if n <= 1:
        raise RuntimeError("N must be greater than 1.")
    return powers(x if x.ndim else x.reshape(1), n)


def powers(x, n):
    if not (x.is_floating_point() or x.is_complex()):
        x = x.to(dtypes.int64)
    if n == 0:
        return x.new_zeros((*x.shape, 0))
    ones = x.new_ones((*x.shape, 1))
    if n == 1:
        return ones
    rest = x.unsqueeze(-1).expand(*x.shape, n - 1).cumprod(-1)
    return function("cat")((ones, rest), -1)


@composite(method=False, name="vander")
def vander_of_torch(x: Array, N: int | None = None, increasing: bool = False):
    """The powers of the elements of a vector [n] as columns, descending unless `increasing`."""
    if x.ndim != 1:
        raise RuntimeError("x must be a one-dimensional tensor.")
    if N is not None and N < 0:
        raise RuntimeError("N must be non-negative.")
    r = powers(x, x.shape[0] if N is None else N)
    return r if increasing else r.flip(-1)


# -- tensors as matrices ---------------------------------------------------------------------------


@composite(where="linalg")
def tensorinv(A: Array, ind: int = 2):
    """The inverse of `tensordot(A, _, A.ndim - ind)`: the first `ind` dimensions make the rows."""
    if ind <= 0:
        raise RuntimeError(f"Expected a strictly positive integer for 'ind', but got {ind}")
    rows, columns = math.prod(A.shape[:ind]), math.prod(A.shape[ind:])
    if rows != columns:
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[ind:]) == prod(self.shape[:ind]), "
            f"but got {columns} != {rows}"
        )
    from rushlight.ops.linalg.solve import inv

    return inv(A.reshape(rows, columns)).reshape(*A.shape[ind:], *A.shape[:ind])


@composite(where="linalg")
def tensorsolve(A: Array, B: Array, dims: tuple | None = None):
    """X of tensordot(A, X, X.ndim) = B; `dims` of A are moved to its end first."""
    if dims is not None:
        A = A.movedim(tuple(dims), tuple(range(A.ndim - len(dims), A.ndim)))
    shape = A.shape[B.ndim :]
    rows, columns = math.prod(A.shape[: B.ndim]), math.prod(shape)
    if columns != B.numel():
        raise RuntimeError(
            "Expected self to satisfy the requirement prod(self.shape[other.ndim:]) == "
            f"prod(self.shape[:other.ndim]), but got {columns} != {B.numel()}"
        )
    from rushlight.ops.linalg.solve import solve

    return solve(A.reshape(rows, columns), B.reshape(-1)).reshape(shape)


# -- low rank --------------------------------------------------------------------------------------


@public()
def svd_lowrank(A: Any, q: int | None = 6, niter: int | None = 2, M: Any = None) -> tuple:
    """(U, S, V) of rank `q` near A [..., m, n] (minus M), found from random directions and `niter`
    rounds of subspace iteration (Halko, Martinsson and Tropp, 2009, algorithms 4.4 and 5.1)."""
    from rushlight.ops.linalg.decompositions import qr
    from rushlight.ops.linalg.spectra import svd

    q, niter = 6 if q is None else q, 2 if niter is None else niter
    if M is not None:
        A = A.to_dense() - M.to_dense().expand(A.shape)
    wide = A.shape[-2] < A.shape[-1]
    if wide:
        A = A.mH
    q = min(q, A.shape[-1])
    directions = function("randn")(A.shape[-1], q, dtype=A.dtype, device=A.device)
    basis = qr(matmul(A, directions))[0]
    for _ in range(niter):
        basis = qr(matmul(A.mH, basis))[0]
        basis = qr(matmul(A, basis))[0]
    u, s, vh = svd(matmul(basis.mH, A), False)
    u, v = matmul(basis, u), vh.mH
    return (v, s, u) if wide else (u, s, v)


@public()
def pca_lowrank(A: Any, q: int | None = None, center: bool = True, niter: int = 2) -> tuple:
    """(U, S, V) of the principal components: `svd_lowrank` of A with its column means taken off."""
    m, n = A.shape[-2:]
    if q is None:
        q = min(6, m, n)
    elif not 0 <= q <= min(m, n):
        raise ValueError(
            f"q(={q}) must be non-negative integer and not greater than min(m, n)={min(m, n)}"
        )
    if niter < 0:
        raise ValueError(f"niter(={niter}) must be non-negative integer")
    if center:
        if A.layout is not dtypes.strided and A.ndim != 2:
            raise ValueError("pca_lowrank input is expected to be 2-dimensional tensor")
        A = A.to_dense()  # less its means it has hardly a zero
        A = A - A.mean(-2, keepdim=True)
    return svd_lowrank(A, q, niter)


@stub("emulated", "One full factorization, not iterations: what steers these has no effect.")
@public()
def lobpcg(
    A: Any,
    k: int | None = None,
    B: Any = None,
    X: Any = None,
    n: int | None = None,
    iK: Any = None,
    niter: int | None = None,
    tol: float | None = None,
    largest: bool | None = None,
    method: str | None = None,
    tracker: Any = None,
    ortho_iparams: Any = None,
    ortho_fparams: Any = None,
    ortho_bparams: Any = None,
) -> tuple:
    """(E, X): the k largest (or smallest) eigenvalues of A x = e B x and their vectors.

    A [..., m, m] symmetric, B symmetric positive-definite or None. Computed by one full factorization
    and not by iteration, so that the arguments which steer iterations (X, iK, niter, tol, method) have
    no say beyond the shape of X.
    """
    from rushlight.ops.linalg.decompositions import cholesky
    from rushlight.ops.linalg.solve import solve_triangular
    from rushlight.ops.linalg.spectra import eigh

    m = A.shape[-1]
    k = k if k is not None else n if n is not None else X.shape[-1] if X is not None else 1
    if m < 3 * k:
        raise ValueError(
            f"LPBPCG algorithm is not applicable when the number of A rows (={m}) is smaller than 3 x "
            f"the number of requested eigenpairs (={k})"
        )
    largest = True if largest is None else largest
    # Symmetric anyhow; the gradient by a symmetric matrix is the symmetric one.
    A, B = ((t + t.mT) / 2 if getattr(t, "requires_grad", False) else t for t in (A, B))
    if B is None:
        values, vectors = eigh(A)
    else:
        low = cholesky(B)
        half = solve_triangular(low, A, upper=False)
        values, inner = eigh(solve_triangular(low.mH, half, upper=True, left=False))
        vectors = solve_triangular(low.mH, inner, upper=True)
    if largest:
        values, vectors = values.flip(-1), vectors.flip(-1)
    return values[..., :k], vectors[..., :k]


# -- removed ---------------------------------------------------------------------------------------


def declare_removed(name: str, method: bool = True) -> None:
    """A name that says where its function is now."""

    def removed(input: Any, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "This function was deprecated since version 1.9 and is now removed. "
            f"Use `torch.linalg.{name.replace('symeig', 'eigh')}`."
        )

    removed.__name__ = removed.__qualname__ = name
    removed.__doc__ = f"Removed: RuntimeError; `linalg.{name.replace('symeig', 'eigh')}` is there."
    public(method=method)(removed)


declare_removed("eig")
declare_removed("lstsq")
declare_removed("matrix_rank", method=False)
declare_removed("solve")
declare_removed("symeig")
