"""Reductions: one value from many, over all dimensions or over some.

`dim` is None (all), an int, or where it makes sense a tuple of ints; `keepdim` keeps the dimensions
reduced over with size 1. A tensor without dimensions has the dimensions 0 and -1.
"""

from __future__ import annotations

import builtins
from operator import index
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes, geometry, modes
from rushlight.dispatch.registry import Array, Dims, DType, by_elements, composite, op, public
from rushlight.dispatch.transforms import somewhere

if TYPE_CHECKING:
    from builtins import bool as Bool

Tensor = Any  # annotation only


# -- dimensions ------------------------------------------------------------------------------------


def axes(dim: Any, ndim: int) -> Any:
    """`dim` as the back ends take it: None for all, an int, or a tuple. An empty tuple means all."""
    if dim.__class__ is int and -ndim <= dim < ndim:
        return dim
    if dim is None or (dim.__class__ in (tuple, list) and not dim):
        return None
    if dim.__class__ is tuple and (known := _known_axes.get((dim, ndim))) is not None:
        return known
    check_ints(dim)
    wrapped = geometry.wrap_dims(dim, ndim)
    if not ndim:
        return None
    over = wrapped[0] if len(wrapped) == 1 else wrapped
    if dim.__class__ is tuple:
        _known_axes[dim, ndim] = over
    return over


_known_axes: dict[tuple, Any] = {}  # tuples seen before: checking one costs as much as a small sum


def axis(dim: Any, ndim: int, name: str) -> Any:
    """One dimension: an int in range; None for a tensor without dimensions."""
    if dim.__class__ is int and -ndim <= dim < ndim:
        return dim
    try:
        if dim.__class__ is bool:
            raise TypeError
        dim = index(dim)
    except TypeError:
        raise TypeError(
            f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}: {dim!r}"
        ) from None
    dim = geometry.wrap_dim(dim, ndim)
    return dim if ndim else None


def check_ints(dim: Any) -> None:
    """TypeError, in PyTorch's words, unless `dim` is an int or a sequence of ints."""
    for d in dim if dim.__class__ in (tuple, list) else (dim,):
        if d.__class__ is bool or not hasattr(d, "__index__"):
            raise TypeError(
                f"received an invalid combination of arguments: argument 'dim' must be tuple of ints, "
                f"not {dim!r}"
            )


def kept_shape(shape: tuple, dim: Any) -> tuple:
    """`shape` with size 1 in the dimensions reduced over."""
    over = axes(dim, len(shape))
    if over is None:
        return (1,) * len(shape)
    if over.__class__ is int:
        over = (over % len(shape),)
    return tuple([1 if d in over else n for d, n in enumerate(shape)])


def reduced_count(shape: tuple, dim: Any) -> int:
    """How many elements make one of the result."""
    over = axes(dim, len(shape))
    n = 1
    for d in range(len(shape)) if over is None else (over,) if over.__class__ is int else over:
        n *= shape[d]
    return n


def keep(t: Tensor, shape: tuple, dim: Any, keepdim: Bool) -> Tensor:
    """A result (or its gradient) with the dimensions reduced over put back as size 1."""
    if (dim is None and not keepdim) or keepdim or not shape:
        return t
    return t.reshape(kept_shape(shape, dim))


@op(where="_all", name="expand", node="ExpandBackward0", out=False)
def spread(xp, input: Array, shape: Any, dim: Any, keepdim: bool):
    """The gradient of a sum: `input` repeated over the dimensions that were summed, without a copy."""
    if dim is None or keepdim or not shape:
        return xp.expand_reduced(input, shape, None)
    return xp.expand_reduced(input, shape, kept_shape(shape, dim))


spread.grad(input=lambda g, dim, keepdim: g.sum(dim, keepdim))


# -- sums ------------------------------------------------------------------------------------------


@op(node=("SumBackward0", "SumBackward1"))
def sum(xp, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The sum over `dim` (an int or several). Integers and bool give int64 unless `dtype` is given.

    [n, m] over `dim=1` gives [n], with `keepdim` [n, 1]; over all dimensions [].
    float16 and bfloat16 accumulate in float32.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).sum(dim=0)
    tensor([4, 6])
    """
    if dim is not None:
        dim = axes(dim, input.ndim)
    return xp.sum(input, dim, keepdim, dtype and dtype.np)


def sum_backward(
    g: Tensor, input_shape: tuple, dim: Any, keepdim: Bool, dtype: Any, input_dtype: Any
) -> Tensor:
    g = spread(g, input_shape, dim, keepdim)
    return g if dtype is None else g.to(input_dtype)


sum.grad(input=sum_backward)


@op(where="_all", name="sum_to_size", node="SumBackward1", out=False)
def sum_to(xp, input: Array, size: Any):
    own = input.shape
    lead = len(own) - len(size)
    if own[lead:] != size or lead < 0:
        for n, m in zip(size, own[builtins.max(lead, 0) :]):
            if (n != 1 and n != m) or lead < 0:
                raise RuntimeError(
                    f"size {{{list(size)}}} is not expandable to size {{{list(own)}}}."
                )
    return xp.sum_to(input, size)


sum_to.grad(input=lambda g, input_shape: g.expand(input_shape))


@public("Tensor")
def sum_to_size(self: Tensor, *sizes: Any, size: Any = ()) -> Tensor:
    """The sum over the dimensions that broadcasting from `size` stretched; the result has that shape.

    The tensor itself if it has it already.

    >>> import rushlight as torch
    >>> torch.ones(3, 2).sum_to_size(1, 2)
    tensor([[3., 3.]])
    """
    given = sizes or (size,)
    shape = tuple(given[0]) if len(given) == 1 and given[0].__class__ is not int else given
    if self._array.shape == shape:
        return self if shape else self.sum()
    return sum_to(self, shape)


sum_to.op.public_function = sum_to_size


@op(node=("MeanBackward0", "MeanBackward1"))
def mean(xp, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The mean over `dim`; nan of nothing. RuntimeError for integers unless `dtype` is floating.

    [n, m] over `dim=1` gives [n], with `keepdim` [n, 1]; over all dimensions [].

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).mean(dim=1)
    tensor([1.5000, 3.5000])
    """
    if dim is not None:
        dim = axes(dim, input.ndim)
    if dtype is not None or input.dtype.kind in "iub":
        inexact("mean", input, dtype)
    return xp.mean(input, dim, keepdim, dtype and dtype.np)


def inexact(name: str, input: Any, dtype: Any) -> None:
    d = dtypes.OF[input.dtype] if dtype is None else dtype
    if not (d.is_floating_point or d.is_complex):
        raise RuntimeError(
            f"{name}(): could not infer output dtype. {'Input' if dtype is None else 'Optional'} dtype must "
            f"be either a floating point or complex dtype. Got: {d.scalar_name}"
        )


def mean_backward(
    g: Tensor, input_shape: tuple, dim: Any, keepdim: Bool, dtype: Any, input_dtype: Any
) -> Tensor:
    """The quotients are repeated, instead of each repetition divided."""
    share = g / builtins.max(reduced_count(input_shape, dim), 1)
    g = spread(share, input_shape, dim, keepdim).contiguous()
    return g if dtype is None else g.to(input_dtype)


mean.grad(input=mean_backward)


@op(node=("ProdBackward0", "ProdBackward1"))
def prod(
    xp, input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None
):
    """The product over `dim`. Integers and bool give int64 unless `dtype` is given.

    [n, m] over `dim=1` gives [n], with `keepdim` [n, 1]; over all dimensions [].

    >>> import rushlight as torch
    >>> torch.tensor([2, 3, 4]).prod()
    tensor(24)
    """
    over = None if dim is None else axis(dim, input.ndim, "prod")
    return xp.prod(input, over, keepdim, dtype and dtype.np)


@by_elements
def prod_backward(
    g: Tensor, input: Tensor, result: Tensor, dim: Any, keepdim: Bool, dtype: Any
) -> Tensor:
    """The gradient is the product of the others: result / input, unless there are zeros."""
    x = input if dtype is None else input.to(dtype)
    if not x.ndim:
        return g.to(input.dtype)
    if dim is None:
        others = (
            others_product(x.reshape(-1), 0).reshape(x.shape)
            if has_zero(x)
            else result.conj_physical() / x.conj_physical()
        )
        return (g * others).to(input.dtype)
    if not keepdim:
        g, result = g.unsqueeze(dim), result.unsqueeze(dim)
    others = others_product(x, dim) if has_zero(x) else result.conj_physical() / x.conj_physical()
    return (g * others).to(input.dtype)


def has_zero(x: Tensor) -> Bool:
    return x._array.size > 0 and somewhere(x == 0)


def others_product(x: Tensor, dim: int) -> Tensor:
    """For each element the product (conjugated) of all others along `dim`, without dividing."""
    x = x.conj_physical()
    n = x.shape[dim]
    one = x.new_ones(x.narrow(dim, 0, 1).shape)
    from rushlight import cat

    before = cat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = cat([one, x.narrow(dim, 1, n - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return before * after


prod.grad(input=prod_backward)


@op()
def nansum(
    xp, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None
):
    """The sum over `dim` with nan counted as 0.

    >>> import rushlight as torch
    >>> torch.tensor([1.0, torch.nan, 2.0]).nansum()
    tensor(3.)
    """
    if input.dtype.kind == "c":
        raise RuntimeError("nansum on CPU does not support complex inputs")
    return xp.nansum(input, axes(dim, input.ndim), keepdim, dtype and dtype.np)


nansum.grad(
    input=lambda g, input, dim, keepdim: (
        spread(g, input.shape, dim, keepdim).to(input.dtype) * (input == input)
    )
)


@composite
def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The mean over `dim` of what is not nan; nan where everything is.

    >>> import rushlight as torch
    >>> torch.tensor([1.0, torch.nan, 2.0]).nanmean()
    tensor(1.5000)
    """
    if input._array.dtype.kind in "iub":
        raise RuntimeError(
            "nanmean(): expected input to have floating point or complex dtype but got "
            f"{input.dtype.scalar_name}"
        )
    total = input.nansum(dim, keepdim, dtype=dtype)
    return total / (input == input).detach().sum(dim, keepdim)


@op()
def logsumexp(xp, input: Array, dim: Dims, keepdim: bool = False):
    """The logarithm of the sum of e**input over `dim`, without overflow: the maximum is taken out.

    -inf of nothing. Integers become the default dtype.

    >>> import rushlight as torch
    >>> torch.tensor([1000.0, 1000.0]).logsumexp(0)
    tensor(1000.6932)
    """
    if input.dtype.kind in "iub":
        input = input.astype(modes.get_default_dtype().np)
    return xp.logsumexp(input, axes(dim, input.ndim), keepdim)


def logsumexp_backward(g: Tensor, input: Tensor, result: Tensor, dim: Any, keepdim: Bool) -> Tensor:
    if not keepdim:
        g, result = keep(g, input.shape, dim, keepdim), keep(result, input.shape, dim, keepdim)
    weights = (input - result).exp()
    return g * (weights.conj_physical() if weights.is_complex() else weights)


logsumexp.grad(input=logsumexp_backward).alias("special.logsumexp")


@op()
def count_nonzero(xp, input: Array, dim: Dims = None):
    """How many elements over `dim` are not zero (nan is not zero). int64.

    >>> import rushlight as torch
    >>> torch.tensor([[0, 1], [2, 3]]).count_nonzero(dim=0)
    tensor([1, 2])
    """
    return xp.count_nonzero(input, axes(dim, input.ndim))


# -- truth -----------------------------------------------------------------------------------------


def truth_axes(dim: Any, ndim: int) -> Any:
    """As `axes`, but an empty tuple means no dimension."""
    return () if dim.__class__ in (tuple, list) and not dim else axes(dim, ndim)


@op()
def any(xp, input: Array, dim: Dims = None, keepdim: bool = False):
    """Whether any element is not zero, over `dim`. bool; uint8 for uint8.

    >>> import rushlight as torch
    >>> torch.tensor([[0, 1], [0, 0]]).any(dim=1)
    tensor([ True, False])
    """
    return xp.any(input, truth_axes(dim, input.ndim), keepdim)


@op()
def all(xp, input: Array, dim: Dims = None, keepdim: bool = False):
    """Whether no element is zero, over `dim`. bool; uint8 for uint8.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 1], [0, 1]]).all(dim=1)
    tensor([ True, False])
    """
    return xp.all(input, truth_axes(dim, input.ndim), keepdim)
