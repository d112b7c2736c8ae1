"""Batching rules of products of matrices and vectors."""

from __future__ import annotations

from typing import Any

import rushlight as torch
from rushlight.core.tensor import Tensor
from rushlight.dispatch.batch import RULES, Batched, in_front
from rushlight.func.rules.rules import front, rule


@rule("matmul")
def matmul(b: Batched) -> Any:
    x, y = b.named["input"], b.named["other"]
    nx, ny = b.ndim("input"), b.ndim("other")
    if not nx or not ny:
        return b.op.function(torch.empty(b.shape("input")), torch.empty(b.shape("other")))  # raises
    if b.has == {"input"} and ny <= 2 and nx >= ny:
        # One product of all rows: [batch, ..., n, k] by [k, m] or [k].
        if nx == 1 and ny == 1:
            return x @ y
        if nx >= 2 or ny == 1:
            return x @ y
    if b.has == {"input"} and nx == 1 and ny == 2:
        return x @ y
    if b.has == {"other"} and nx <= 2 and ny == 1:
        # [n, k] or [k] by [batch, k]
        return y @ (x if nx == 1 else x.transpose(0, 1))
    if nx == 1 and ny == 1:
        return (b.expanded("input").unsqueeze(1) @ b.expanded("other").unsqueeze(2)).reshape(b.size)
    if nx == 1:
        x = x.unsqueeze(-2)
        x = in_front(x, ny) if "input" in b.has else x
        return (x @ y).squeeze(-2)
    if ny == 1:
        y = y.unsqueeze(-1)
        y = in_front(y, nx) if "other" in b.has else y
        return (x @ y).squeeze(-1)
    n = max(nx, ny)
    return b.batch_first_value("input", n) @ b.batch_first_value("other", n)


def checked(b: Batched, *ndims: int) -> None:
    """Let the operator raise its own error where arguments have other dimensions than it takes."""
    given = [i for i in b.op.inputs if isinstance(b.named.get(i), Tensor)]
    for i, n in zip(given, ndims):
        if b.ndim(i) != n:
            b.call(**{j: torch.empty(b.shape(j), dtype=b.named[j].dtype) for j in given})


@rule("mm")
def mm(b: Batched) -> Any:
    checked(b, 2, 2)
    x, y = b.named["input"], b.named["mat2"]
    if "input" in b.has and "mat2" in b.has:
        return torch.bmm(x, y)
    return torch.matmul(x, y)


@rule("bmm")
def bmm(b: Batched) -> Any:
    checked(b, 3, 3)
    return torch.matmul(b.named["input"], b.named["mat2"])


@rule("mv")
def mv(b: Batched) -> Any:
    checked(b, 2, 1)
    x, v = b.named["input"], b.named["vec"]
    if "input" not in b.has:
        return v @ x.transpose(0, 1)
    return (x @ v.unsqueeze(-1)).squeeze(-1) if "vec" in b.has else x @ v


@rule("dot", "vdot")
def dot(b: Batched) -> Any:
    other = "tensor" if b.op.name == "dot" else "other"
    checked(b, 1, 1)
    x, y = b.named["input"], b.named[other]
    if b.op.name == "vdot" and x.is_complex():
        x = x.conj_physical()
    if "input" not in b.has:
        return y @ x
    if other not in b.has:
        return x @ y
    return (x.unsqueeze(1) @ y.unsqueeze(2)).reshape(b.size)


@rule("nn.functional.linear")
def linear(b: Batched) -> Any:
    x, w, bias = b.named["input"], b.named["weight"], b.named["bias"]
    if "weight" not in b.has and "bias" not in b.has:
        return b.call()
    nx, nw = b.ndim("input"), b.ndim("weight")
    if nx == nw == 2 and "weight" in b.has and ("input" not in b.has or is_transposed(x)):
        y = w @ x.transpose(-1, -2)  # both factors are read along their rows
        y = y if bias is None else y + bias.unsqueeze(-1)
        return y.transpose(1, 2).contiguous()  # callers look at it with `view`
    x = b.expanded("input")
    if "weight" not in b.has:
        y = torch.nn.functional.linear(x, w)
    elif nw == nx == 1:
        y = (x.unsqueeze(1) @ w.unsqueeze(-1)).flatten()
    elif nw == 1:
        y = (x @ in_front(w.unsqueeze(-1), max(nx, 2))).squeeze(-1)
    elif nx == 1:
        y = (w @ x.unsqueeze(-1)).squeeze(-1)
    else:
        y = x @ in_front(w.transpose(-1, -2), nx)
    if bias is None:
        return y
    return y + (in_front(bias, y.dim() - 1) if "bias" in b.has else bias)


def is_transposed(x: Any) -> bool:
    """Whether the columns of matrices lie next to each other in memory, not the rows."""
    *_, s, t = x._array.strides
    return bool(s == x._array.itemsize != t)


@rule("internal.kron_of_matrices")
def kron_of_matrices(b: Batched) -> Any:
    x, y = b.expanded("input"), b.expanded("other")
    n, rows, columns = x.shape
    found = x[:, :, None, :, None] * y[:, None, :, None, :]
    return found.reshape(n, rows * y.shape[1], columns * y.shape[2])


def added(b: Batched, product: Any) -> Any:
    """beta * input + alpha * product, for tensors with their levels."""
    beta, alpha, x = b.named["beta"], b.named["alpha"], b.outer["input"]
    product = product if alpha == 1 else product * alpha
    if beta == 0:
        y = product
    else:
        y = product + (x if beta == 1 else x * beta)
    return y._array.value if y._array.has else y._array.value.unsqueeze(0).expand(b.size, *y.shape)


@rule("addmm", "_addmm_activation")
def addmm(b: Batched) -> Any:
    y = added(b, torch.mm(b.outer["mat1"], b.outer["mat2"]))
    if b.op.path == "addmm":
        return y
    return torch.nn.functional.gelu(y) if b.named["use_gelu"] else torch.relu(y)


@rule("baddbmm")
def baddbmm(b: Batched) -> Any:
    return added(b, torch.bmm(b.outer["batch1"], b.outer["batch2"]))


@rule("addbmm")
def addbmm(b: Batched) -> Any:
    return added(b, torch.bmm(b.outer["batch1"], b.outer["batch2"]).sum(0))


@rule("addmv")
def addmv(b: Batched) -> Any:
    return added(b, torch.mv(b.outer["mat"], b.outer["vec"]))


@rule("internal.all_products")
def outer(b: Batched) -> Any:
    x, y = b.expanded("input"), b.expanded("other")
    return x.unsqueeze(2) * y.unsqueeze(1)


@rule("internal.products_added")
def addr(b: Batched) -> Any:
    return added(b, b.outer["vec1"].unsqueeze(1) * b.outer["vec2"].unsqueeze(0))


@rule("internal.times_adjoint")
def times_adjoint(b: Batched) -> Any:
    y = b.outer["other"]
    return (b.outer["input"] @ y.mH)._array.value


@rule("internal.adjoint_times")
def adjoint_times(b: Batched) -> Any:
    return (b.outer["input"].mH @ b.outer["other"])._array.value


@rule("cdist")
def cdist(b: Batched) -> Any:
    n = max(b.ndim("x1"), b.ndim("x2"))
    return b.call(x1=in_front(b.expanded("x1"), n), x2=in_front(b.expanded("x2"), n))


@rule("internal.frames", "internal.overlap_add")
def frames(b: Batched) -> Any:
    return front(b)


RULES["internal.c2c"] = RULES["internal.r2c"] = RULES["internal.c2r"] = lambda b: b.call(
    dims=tuple([d if d < 0 else d + 1 for d in b.named["dims"]])
)
RULES["internal.resized"] = lambda b: b.call(shape=(b.size, *b.named["shape"]))
