"""Products of matrices and vectors.

The gradients of a product are products. Two operators of their own, `times_adjoint` (a @ bᴴ) and
`adjoint_times` (aᴴ @ b), keep the transposed matrices out of sight; the gradients of these two are
again products of the three kinds, so that every derivative of any order is one call per input.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rushlight.dispatch.registry import Array, composite, no_gradients, op
from rushlight.dispatch.saved import dims_of
from rushlight.ops.linalg import matrix_checks as check
from rushlight.ops.linalg.matrix_results import to_shape

if TYPE_CHECKING:
    from typing import Any


def scaled(g, factor):
    """`g` times the conjugate of a number."""
    if factor == 1:
        return g
    return g * (factor.conjugate() if isinstance(factor, complex) else factor)


@op(where="internal", node="MmBackward0", out=False)
def times_adjoint(xp, input: Array, other: Array):
    """input [..., n, k] @ other [..., m, k]ᴴ: the gradient of a product's first factor."""
    return xp.times_adjoint(input, other)


@op(where="internal", node="MmBackward0", out=False)
def adjoint_times(xp, input: Array, other: Array):
    """input [..., k, n]ᴴ @ other [..., k, m]: the gradient of a product's second factor."""
    return xp.adjoint_times(input, other)


times_adjoint.grad(
    input=lambda g, other, input_shape: to_shape(matmul(g, other), input_shape),
    other=lambda g, input, other_shape: to_shape(adjoint_times(g, input), other_shape),
)
adjoint_times.grad(
    input=lambda g, other, input_shape: to_shape(times_adjoint(other, g), input_shape),
    other=lambda g, input, other_shape: to_shape(matmul(input, g), other_shape),
)


@op(kernel="matmul", node="MmBackward0")
def matmul(input: Array, other: Array):
    """The product of matrices [..., n, k] @ [..., k, m] -> [..., n, m], also written `@`.

    A vector as first factor is a row, as second a column, and leaves no dimension in the result;
    leading dimensions are broadcast. RuntimeError when the inner sizes or the dtypes differ.

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]) @ torch.tensor([1.0, 1.0])
    tensor([3., 7.])
    """


def matmul_input(g, other, input_shape):
    n, m = len(input_shape), other.ndim
    if n == 2 and m == 2:
        return times_adjoint(g, other)
    if m == 1:
        return (g if n == 1 else g.unsqueeze(-1)) * other.conj_physical()
    if n == 1:
        return to_shape(times_adjoint(g.unsqueeze(-2), other).squeeze(-2), input_shape)
    return to_shape(times_adjoint(g, other), input_shape)


def matmul_other(g, input, other_shape):
    n, m = input.ndim, len(other_shape)
    if n == 2 and m == 2:
        return adjoint_times(input, g)
    if n == 1:
        row = input.conj_physical()
        if m > 2:  # products of all columns with one row
            return (g.unsqueeze(-1) * row).transpose(-2, -1)
        return g * row if m == 1 else row.unsqueeze(-1) * g.unsqueeze(-2)
    if n == 2 < m:  # all columns are factors of one matrix
        return matmul(g.transpose(-2, -1), input.conj_physical()).transpose(-2, -1)
    if m == 1:  # the sum over all rows of all matrices
        return adjoint_times(input.reshape(-1, other_shape[0]), g.reshape(-1, 1)).squeeze(-1)
    if m == 2 and input.numel():  # one product over all rows of the batch
        return adjoint_times(input.reshape(-1, other_shape[0]), g.reshape(-1, other_shape[1]))
    return to_shape(adjoint_times(input, g), other_shape)


matmul.grad(input=matmul_input, other=matmul_other)


MM, MV, VIEW, UNSAFE = "MmBackward0", "MvBackward0", "ViewBackward0", "UnsafeViewBackward0"
ADDMM, T, SQUEEZE, UNSQUEEZE = (
    "AddmmBackward0",
    "TBackward0",
    "SqueezeBackward4",
    "UnsqueezeBackward0",
)


def product_nodes(n: int, m: int, first: Any, second: Any) -> tuple[str, tuple | None] | None:
    """The nodes of PyTorch's product of tensors of n and m dimensions, to which the paths `first` and `second` lead; None
    for that of two matrices."""
    if n == m == 1:
        return "DotBackward0", (first, second)
    if n <= 2 and m == 1:
        return MV, (first, second)
    if n == 1 and m == 2:
        return SQUEEZE, ((MM, (UNSQUEEZE, first), second),)
    if n == m == 2:
        return MM, (first, second)
    if m <= 2:
        return UNSAFE, ((MM if m == 2 else MV, (VIEW, first), second),)
    turned = (UNSAFE, ("CloneBackward0", ("TransposeBackward0", second)))
    if n == 1:
        return UNSAFE, ((MV, turned, first),)
    if n == 2:
        product = (UNSAFE, (MM, turned, (T, first)))
        return "CloneBackward0", (("TransposeBackward0", product),)
    each = [(VIEW, ("ExpandBackward0", path)) for path in (first, second)]
    return UNSAFE, (("BmmBackward0", *each),)


def nodes_of_matmul(node: Any) -> tuple[str, tuple | None] | None:
    n, m = dims_of(node, "input"), dims_of(node, "other")
    return None if n is None or m is None else product_nodes(n, m, 0, 1)


matmul.op.pytorch_nodes = nodes_of_matmul
matmul.alias("linalg.matmul")


@op(kernel="mm")
def mm(input: Array, mat2: Array):
    """The product of two matrices [n, k] @ [k, m]; no broadcasting."""


mm.grad(mat2=lambda g, input: adjoint_times(input, g))
mm.grad(input=lambda g, mat2: times_adjoint(g, mat2))


@op(kernel="bmm")
def bmm(input: Array, mat2: Array):
    """The products of two equally long batches of matrices [b, n, k] @ [b, k, m] -> [b, n, m]."""


bmm.grad(mat2=lambda g, input: adjoint_times(input, g))
bmm.grad(input=lambda g, mat2: times_adjoint(g, mat2))


@op(kernel="mv")
def mv(input: Array, vec: Array):
    """The product of a matrix [n, k] and a vector [k]."""


mv.grad(
    input=lambda g, vec: g.unsqueeze(-1) * vec.conj_physical(),
    vec=lambda g, input: adjoint_times(input, g.unsqueeze(-1)).squeeze(-1),
)


@op(kernel="dot")
def dot(input: Array, tensor: Array):
    """The sum of the products of two vectors [k]; complex ones are not conjugated."""


dot.grad(
    input=lambda g, tensor: g * tensor.conj_physical(),
    tensor=lambda g, input: g * input.conj_physical(),
)


@op(kernel="vdot")
def vdot(input: Array, other: Array):
    """The inner product of two vectors [k]: the first one is conjugated."""


vdot.grad(input=lambda g, other: g.conj_physical() * other, other=lambda g, input: g * input)


@op(where="nn.functional", node="AddmmBackward0", shown=("bias", "input", "weight.T"))
def linear(xp, input: Array, weight: Array, bias: Array | None = None):
    """input [..., k] @ weight [m, k]ᵀ + bias [m] -> [..., m]: the affine map of `nn.Linear`.

    >>> import rushlight as torch
    >>> torch.nn.functional.linear(torch.ones(2), torch.ones(3, 2), torch.zeros(3))
    tensor([2., 2., 2.])
    """
    return xp.linear(input, weight, bias)


def linear_weight(g, input, weight_shape):
    k = weight_shape[-1]
    if len(weight_shape) == 1:
        return matmul_other(g, input, weight_shape)
    if input.ndim != 2 and input.numel():
        g, input = g.reshape(-1, weight_shape[0]), input.reshape(-1, k)
    elif input.ndim != 2:
        return g.new_zeros(weight_shape)
    return (
        adjoint_times(g, input)
        if not g.is_complex()
        else adjoint_times(g.conj_physical(), input.conj_physical())
    )


def linear_input(g, weight):
    if weight.is_complex():
        weight = weight.conj_physical()
    return matmul(g, weight) if weight.ndim == 2 else g.unsqueeze(-1) * weight


def linear_bias(g, bias_shape):
    if g.ndim == 1 == len(bias_shape):
        return g.contiguous()
    return g.sum(0) if g.ndim == 2 and len(bias_shape) == 1 else g.sum_to_size(bias_shape)


linear.grad(input=linear_input, weight=linear_weight, bias=linear_bias)


def nodes_of_linear(node: Any) -> tuple[str, tuple | None] | None:
    """PyTorch's nodes; without the gradient of a bias those without one."""
    n, m, weight = dims_of(node, "input"), dims_of(node, "weight"), (T, 1)
    if n is None or m is None:
        return None
    if node._edges[2] is None:
        return product_nodes(n, m, 0, weight)
    return None if n == 2 else (VIEW, ((ADDMM, 2, (VIEW, 0), weight),))


linear.op.pytorch_nodes = nodes_of_linear


@op(inplace=True)
def addmm(xp, input: Array, mat1: Array, mat2: Array, *, beta: float = 1, alpha: float = 1):
    """A matrix product added to `input`, which is broadcast to [n, m]: beta * input + alpha * (mat1 [n, k] @ mat2 [k,
    m]).

    With beta = 0 `input` is not read, so that its NaNs do not count.
    """
    if mat1.ndim != 2 or mat2.ndim != 2:
        which, n = ("mat1", mat1.ndim) if mat1.ndim != 2 else ("mat2", mat2.ndim)
        raise RuntimeError(f"{which} must be a matrix, got {n}-D tensor")
    return xp.accumulate(input, mat1, mat2, beta, alpha)


addmm.grad(
    input=lambda g, beta, input_shape: to_shape(scaled(g, beta), input_shape),
    mat1=lambda g, mat2, alpha: scaled(times_adjoint(g, mat2), alpha),
    mat2=lambda g, mat1, alpha: scaled(adjoint_times(mat1, g), alpha),
)


@op(node="NotImplemented")
def _addmm_activation(
    xp,
    input: Array,
    mat1: Array,
    mat2: Array,
    *,
    beta: float = 1,
    alpha: float = 1,
    use_gelu: bool = False,
):
    """`relu` of `addmm`, or with `use_gelu` its `gelu`, in one pass over the result.

    There is no derivative, as in PyTorch.

    >>> import rushlight as torch
    >>> torch._addmm_activation(torch.tensor([1.0, -9.0]), torch.ones(1, 2), torch.ones(2, 2))
    tensor([[3., 0.]])
    """
    for which, mat in (("mat1", mat1), ("mat2", mat2)):
        if mat.ndim != 2:
            raise RuntimeError(f"{which} must be a matrix, got {mat.ndim}-D tensor")
    act = "gelu" if use_gelu else "relu"
    return xp.accumulate_activated(input, mat1, mat2, beta, alpha, act)


_addmm_activation.grad(
    input=no_gradients("_addmm_activation"),
    mat1=no_gradients("_addmm_activation"),
    mat2=no_gradients("_addmm_activation"),
)


@op(inplace=True)
def baddbmm(xp, input: Array, batch1: Array, batch2: Array, *, beta: float = 1, alpha: float = 1):
    """A batch of matrix products added to `input`: beta * input + alpha * (batch1 [b, n, k] @ batch2 [b, k, m])."""
    if input.dtype != batch1.dtype or input.dtype != batch2.dtype:
        raise RuntimeError(
            f"Input dtypes must be the same, got: input {xp.c_name(input)}, batch1: "
            f"{xp.c_name(batch1)}, batch2: {xp.c_name(batch2)}"
        )
    xp.check_bmm(batch1, batch2)
    return xp.accumulate(input, batch1, batch2, beta, alpha)


baddbmm.grad(
    input=lambda g, beta, input_shape: to_shape(scaled(g, beta), input_shape),
    batch1=lambda g, batch2, alpha: scaled(times_adjoint(g, batch2), alpha),
    batch2=lambda g, batch1, alpha: scaled(adjoint_times(batch1, g), alpha),
)


@op(inplace=True)
def addbmm(xp, input: Array, batch1: Array, batch2: Array, *, beta: float = 1, alpha: float = 1):
    """The sum of a batch of matrix products added to `input`: beta * input + alpha * the sum over b of batch1 [b, n,
    k] @ batch2 [b, k, m]."""
    if batch1.ndim != 3 or batch2.ndim != 3:
        raise RuntimeError(f"batch{1 if batch1.ndim != 3 else 2} must be a 3D tensor")
    (b, n, k), (c, l, m) = batch1.shape, batch2.shape
    if b != c:
        raise RuntimeError(f"batch1 and batch2 must have same number of batches, got {b} and {c}")
    if k != l:
        raise RuntimeError(f"Incompatible matrix sizes for bmm ({n}x{k} and {l}x{m})")
    # the sum over b belongs to the inner dimension of one product
    rows, columns = batch1.swapaxes(0, 1).reshape(n, b * k), batch2.reshape(b * k, m)
    return xp.accumulate(input, rows, columns, beta, alpha)


addbmm.grad(
    input=lambda g, beta, input_shape: to_shape(scaled(g, beta), input_shape),
    batch1=lambda g, batch2, alpha: scaled(times_adjoint(g, batch2), alpha),
    batch2=lambda g, batch1, alpha: scaled(adjoint_times(batch1, g), alpha),
)


@op(inplace=True)
def addmv(xp, input: Array, mat: Array, vec: Array, *, beta: float = 1, alpha: float = 1):
    """A matrix times a vector added to `input`: beta * input + alpha * (mat [n, k] @ vec [k])."""
    if mat.ndim != 2 or vec.ndim != 1 or input.ndim > 1:
        raise RuntimeError(
            f"vector + matrix @ vector expected, got {input.ndim}, {mat.ndim}, {vec.ndim}"
        )
    if vec.shape[0] != mat.shape[1] or (input.ndim and input.shape[0] not in (1, mat.shape[0])):
        raise RuntimeError(
            f"size mismatch, got input ({input.shape[0] if input.ndim else mat.shape[0]}), mat "
            f"({mat.shape[0]}x{mat.shape[1]}), vec ({vec.shape[0]})"
        )
    if not input.dtype == mat.dtype == vec.dtype:
        names = [check.dtype_name(a) for a in (input, mat, vec)]
        raise RuntimeError(
            f"addmv input tensors must have the same dtype, but got {names[0]}, {names[1]}, and {names[2]}"
        )
    return xp.accumulate(input, mat, vec, beta, alpha)


addmv.grad(
    input=lambda g, beta, input_shape: to_shape(scaled(g, beta), input_shape),
    mat=lambda g, vec, alpha: scaled(g.unsqueeze(-1) * vec.conj_physical(), alpha),
    vec=lambda g, mat, alpha: scaled(adjoint_times(mat, g.unsqueeze(-1)).squeeze(-1), alpha),
)


def check_vector(name, argument, t):
    if t.ndim != 1:
        raise RuntimeError(f"{name}: Expected 1-D argument {argument}, but got {t.ndim}-D")


@op(where="internal", node="MulBackward0", out=False)
def all_products(xp, input: Array, other: Array):
    """`outer` of two vectors of one dtype."""
    return xp.outer(input, other)


all_products.grad(
    input=lambda g, other: matmul(g, other.conj_physical()),
    other=lambda g, input: adjoint_times(
        g.conj_physical(), input.conj_physical().unsqueeze(-1)
    ).squeeze(-1),
)
all_products.op.pytorch_nodes = lambda node: ("MulBackward0", ((VIEW, 0), 1))


@op(where="internal", node="AddrBackward0", out=False)
def products_added(xp, input: Array, vec1: Array, vec2: Array, beta: float, alpha: float):
    """`addr` of real numbers of one dtype, to an input of the result's shape."""
    return xp.outer_added(input, vec1, vec2, beta, alpha)


products_added.grad(
    input=lambda g, beta: scaled(g, beta),
    vec1=lambda g, vec2, alpha: scaled(matmul(g, vec2), alpha),
    vec2=lambda g, vec1, alpha: scaled(adjoint_times(g, vec1.unsqueeze(-1)).squeeze(-1), alpha),
)


def check_factors(beta, alpha, tensors):
    """RuntimeError for truth values beside numbers, and for fractions beside integers."""
    for name, factor in (("beta", beta), ("alpha", alpha)):
        if factor.__class__ is bool and any(t.dtype.kind for t in tensors):
            raise RuntimeError(f"Boolean {name} only supported for Boolean results.")
        if isinstance(factor, (float, complex)) and all(t.dtype.kind < 2 for t in tensors):
            raise RuntimeError(
                f"For integral input tensors, argument {name} must not be a floating point number."
            )


@composite(inplace=True)
def addr(input: Array, vec1: Array, vec2: Array, *, beta: float = 1, alpha: float = 1):
    """An outer product added to `input`, which is broadcast to [n, m]: beta * input + alpha * (vec1 [n] ⊗ vec2 [m])."""
    check_vector("addr", "vec1", vec1)
    check_vector("addr", "vec2", vec2)
    shape = (vec1.shape[0], vec2.shape[0])
    check_factors(beta, alpha, (input, vec1, vec2))
    if input.dtype is vec1.dtype is vec2.dtype and 1 <= input.dtype.kind <= 2:
        base = input if input.shape == shape else input.expand(shape)
        return products_added(base, vec1, vec2, beta, alpha)
    product = outer(vec1, vec2)
    if factor_is_bool := str(product.dtype) == "torch.bool":
        alpha = bool(alpha)
    if alpha != 1 or factor_is_bool:
        product = product * alpha
    base = input.expand(shape)
    if not beta:
        return product
    if beta == 1:
        return base + product
    return base * (bool(beta) if base.dtype == product.dtype and factor_is_bool else beta) + product


@composite
def outer(input: Array, vec2: Array):
    """All products of two vectors: [n] and [m] give [n, m]."""
    check_vector("outer", "self", input)
    check_vector("outer", "vec2", vec2)
    if input.dtype is vec2.dtype:
        return all_products(input, vec2)
    return input.unsqueeze(-1) * vec2


outer.alias("ger")


@composite
def inner(input: Array, other: Array):
    """The sums of products over the last dimensions: [..., k] and [***, k] give [..., ***]."""
    if not input.ndim or not other.ndim:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            "inner() the last dimension must match on both input tensors but got shapes "
            f"{list(input.shape)} and {list(other.shape)}"
        )
    if input.dtype != other.dtype:
        raise RuntimeError(
            f"inner(): both inputs should have same dtype, got {input.dtype} and {other.dtype}"
        )
    if input.ndim == other.ndim == 1:
        return dot(input, other)
    k = input.shape[-1]
    if k and input.ndim == other.ndim == 2:
        return linear(input, other)
    rows, columns = input.numel() // max(k, 1), other.numel() // max(k, 1)
    if not k:
        return input.new_zeros(input.shape[:-1] + other.shape[:-1])
    product = linear(input.reshape(rows, k), other.reshape(columns, k))
    return product.reshape((*input.shape[:-1], *other.shape[:-1]))


@composite(where="nn.functional", out=False)
def bilinear(input1: Array, input2: Array, weight: Array, bias: Array | None = None):
    """A bilinear map: y[..., o] = Σ input1[..., i] weight[o, i, j] input2[..., j] + bias[o]."""
    if input1.ndim != input2.ndim:
        raise RuntimeError(
            f"bilinear(): input dimensions do not match: got {input1.ndim} and {input2.ndim}"
        )
    for d in range(input1.ndim - 1):
        if input1.shape[d] != input2.shape[d]:
            raise RuntimeError(
                f"bilinear(): input batch dimensions do not match at dim {d}: got {input1.shape[d]} "
                f"and {input2.shape[d]}"
            )
    o, i, j = weight.shape
    for k, (t, n) in enumerate(((input1, i), (input2, j)), 1):
        if t.shape[-1] != n:
            raise RuntimeError(
                f"bilinear(): input{k} size does not match weight size: got {t.shape[-1]} but "
                f"expected {n}"
            )
    if bias is not None and tuple(bias.shape) != (o,):
        raise RuntimeError(
            f"bilinear(): bias size does not match weight size: got {list(bias.shape)} but expected {o}"
        )
    lead = input1.shape[:-1]
    rows = input1.numel() // max(i, 1) if i else input2.numel() // max(j, 1)
    half = input1.reshape(rows, i).mm(weight.permute(1, 0, 2).reshape(i, o * j))
    y = half.reshape(rows, o, j).bmm(input2.reshape(rows, j, 1)).reshape(*lead, o)
    return y if bias is None else y + bias


bilinear.alias("bilinear")
