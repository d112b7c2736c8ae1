"""Operators that PyTorch writes in others: below autograd a call of one is calls of these."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from rushlight.core.tensor import Tensor
from rushlight.dispatch import methods

if TYPE_CHECKING:
    from collections.abc import Callable

    from rushlight.dispatch.registry import Op

MOST = (1 << 63) - 1  # the end of a slice that goes to the end


def torch() -> Any:
    """The package: what stands here calls operators by their public names."""
    import rushlight

    return rushlight


def OPS() -> dict[str, Op]:
    """The table of operators."""
    from rushlight.dispatch import registry

    return registry.OPS


def loaded(path: str) -> Op:
    """An operator by its path; its family is loaded where it is not yet."""
    return OPS().get(path) or methods.load(path)


def rows_of(input: Tensor) -> Tensor:
    """A batch of matrices as one matrix, also where there are no elements."""
    return input.reshape(math.prod(input.shape[:-1]), input.shape[-1])


def linear(input: Tensor, weight: Tensor, bias: Tensor | None) -> Any:
    """`input @ weight.t() + bias`."""
    if input.dim() == 2 and weight.dim() == 2:
        t = weight.t()
        return input.mm(t) if bias is None else torch().addmm(bias, input, t)
    if input.dim() > 2 and weight.dim() == 2:
        lead, n = input.shape[:-1], weight.shape[0]
        flat = rows_of(input)
        return linear(flat, weight, bias).view(*lead, n)
    product = input.matmul(weight.t())
    return product if bias is None else product + bias


def matmul(input: Tensor, other: Tensor) -> Any:
    """A product of vectors, of matrices or of batches of matrices."""
    n, m = input.dim(), other.dim()
    if not n or not m:
        return NotImplemented  # says what is wrong
    if n == 1 and m == 1:
        return input.dot(other)
    if n == 2 and m == 1:
        return input.mv(other)
    if n == 1 and m == 2:
        return input.unsqueeze(0).mm(other).squeeze(0)
    if n == 2 and m == 2:
        return input.mm(other)
    if n > 2 and m < 3 and input.shape[-1] == other.shape[0]:
        flat = rows_of(input)
        if m == 1:
            return flat.mv(other).view(input.shape[:-1])
        return flat.mm(other).view(*input.shape[:-1], other.shape[-1])
    if input.shape[-1] != other.shape[-2 if m > 1 else 0]:
        return NotImplemented
    a = input.unsqueeze(0) if n == 1 else input
    b = other.unsqueeze(-1) if m == 1 else other
    lead = torch().broadcast_shapes(a.shape[:-2], b.shape[:-2])
    k = 1
    for size in lead:
        k *= size
    product = torch().bmm(
        a.expand(*lead, *a.shape[-2:]).reshape(k, *a.shape[-2:]),
        b.expand(*lead, *b.shape[-2:]).reshape(k, *b.shape[-2:]),
    )
    shape = [*lead, *([a.shape[-2]] if n > 1 else []), *([b.shape[-1]] if m > 1 else [])]
    return product.view(shape)


def times_adjoint(input: Tensor, other: Tensor) -> Tensor:
    """`input @ other.mH`."""
    return input.matmul(adjoint(other))


def adjoint_times(input: Tensor, other: Tensor) -> Tensor:
    """`input.mH @ other`."""
    return adjoint(input).matmul(other)


def adjoint(t: Tensor) -> Tensor:
    """The transposed matrices, conjugated."""
    transposed = t.t() if t.dim() == 2 else t.transpose(-2, -1)
    return transposed.conj_physical() if t.is_complex() else transposed


def basic_index(input: Tensor, index: Any) -> Tensor:
    """One view after the other: slices, selected places, new dimensions."""
    if is_one_slice(index) is not None:
        return NotImplemented
    found, dim = input, 0
    items = index if index.__class__ is tuple else (index,)
    for at, i in enumerate(items):
        if i is None:
            found, dim = found.unsqueeze(dim), dim + 1
        elif i is Ellipsis:
            behind = sum(k is not None for k in items[at + 1 :])
            dim = found.dim() - behind
        elif i.__class__ is slice:
            if (cut := i.indices(found.shape[dim])) != (0, found.shape[dim], 1):
                end = MOST if i.stop is None else i.stop
                found = torch().ops.aten.slice.Tensor(found, dim, cut[0], end, cut[2])
            dim += 1
        else:
            found = found.select(dim, i)
    return found if found is not input else torch().ops.aten.alias(input)


def is_one_slice(index: Any) -> tuple | None:
    """(dim, slice) of an index that cuts one dimension only."""
    items = index if index.__class__ is tuple else (index,)
    cuts = [k for k, i in enumerate(items) if i.__class__ is slice and i != slice(None)]
    if len(cuts) == 1 and all(i.__class__ is slice for i in items):
        return cuts[0], items[cuts[0]]
    return None


def expanded_gradient(input: Tensor, shape: tuple, dim: Any, keepdim: bool) -> Tensor:
    """The gradient of a sum: expanded over the dimensions that were summed."""
    if dim is not None and not keepdim and shape:
        dims = (dim,) if isinstance(dim, int) else dim or range(len(shape))
        for d in sorted(d % len(shape) for d in dims):
            input = input.unsqueeze(d)
    return input.expand(shape)


def sum_to_size(input: Tensor, size: tuple) -> Tensor:
    """Summed over the dimensions that `size` lacks, or has one element of."""
    lead = input.dim() - len(size)
    if lead < 0:
        return NotImplemented
    dims = [*range(lead)]
    for d, n in enumerate(size):
        if n == 1 and input.shape[lead + d] != 1:
            dims.append(lead + d)
    found = input.sum(dims, keepdim=True) if dims else input
    return found.view(size) if lead else found if dims else torch().ops.aten.alias(input)


def index_gradient(grad: Tensor, shape: tuple, at: Any) -> Tensor:
    """The gradient of `x[indices]`: added into zeros."""
    zeros = grad.new_zeros(shape)
    return torch().index_put(zeros, at.indices(), grad, True)


def gather_gradient(grad: Tensor, index: Tensor, shape: tuple, dim: int) -> Tensor:
    """The gradient of `gather`."""
    return grad.new_zeros(shape).scatter_add(dim, index, grad)


def index_select_gradient(grad: Tensor, index: Tensor, shape: tuple, dim: int) -> Tensor:
    """The gradient of `index_select`."""
    return grad.new_zeros(shape).index_add(dim, index, grad) if shape else NotImplemented


def layer_norm(
    input: Tensor, weight: Any, bias: Any, normalized_shape: tuple, eps: float
) -> Tensor:
    """The first result of `native_layer_norm`."""
    return loaded("_native_layer_norm").function(input, weight, bias, normalized_shape, eps)[0]


def group_norm(input: Tensor, weight: Any, bias: Any, num_groups: int, eps: float) -> Tensor:
    """The first result of `native_group_norm`."""
    return loaded("_native_group_norm").function(input, weight, bias, num_groups, eps)[0]


def cross_entropy(
    input: Tensor, target: Tensor, weight: Any, reduction: str, ignore_index: int, smoothing: float
) -> Any:
    """The negative log-likelihood of `log_softmax`."""
    if smoothing or target.is_floating_point():
        return NotImplemented
    logs = torch().log_softmax(input, 1 if input.dim() > 1 else 0)
    return torch().nn.functional.nll_loss(
        logs, target, weight, ignore_index=ignore_index, reduction=reduction
    )


def max_pool(name: str) -> Callable:
    """The first result of the pooling that gives indices."""

    def pool(input: Tensor, windows: Any) -> Tensor:
        return loaded(f"internal.{name}_with_indices").function(input, windows)[0]

    return pool


FORMS: dict[str, Callable] = {
    "_all.expand": expanded_gradient,
    "_all.sum_to_size": sum_to_size,
    "_group_norm": group_norm,
    "_layer_norm": layer_norm,
    "aten.gather_gradient": gather_gradient,
    "aten.index_gradient": index_gradient,
    "aten.index_select_gradient": index_select_gradient,
    "internal.max_pool1d": max_pool("max_pool1d"),
    "internal.max_pool2d": max_pool("max_pool2d"),
    "internal.max_pool3d": max_pool("max_pool3d"),
    "nn.functional._cross_entropy_loss": cross_entropy,
    "aten.basic_index": basic_index,
    "internal.adjoint_times": adjoint_times,
    "internal.times_adjoint": times_adjoint,
    "matmul": matmul,
    "nn.functional.linear": linear,
}
