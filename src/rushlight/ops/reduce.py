"""Reductions: one value from many, over all dimensions or over some.

`dim` is None (all), an int, or where it makes sense a tuple of ints; `keepdim` keeps the dimensions
reduced over with size 1. A tensor without dimensions has the dimensions 0 and -1.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from rushlight import dtypes, geometry, modes
from rushlight.ops.registry import Array, composite, op, public

if TYPE_CHECKING:
    from builtins import bool as Bool

Tensor = Any  # annotation only


# -- dimensions ------------------------------------------------------------------------------------


def axes(dim: Any, ndim: int) -> Any:
    """`dim` as the back ends take it: None for all, an int, or a tuple. An empty tuple means all."""
    if dim.__class__ is int and -ndim <= dim < ndim:
        return dim
    if dim is None or dim.__class__ in (tuple, list) and not dim:
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
    if dim.__class__ in (tuple, list, float, bool, str) or dim is None:
        raise TypeError(
            f"{name}(): argument 'dim' (position 2) must be int, not {type(dim).__name__}: {dim!r}"
        )
    dim = geometry.wrap_dim(int(dim), ndim)
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
    if dim is None and not keepdim or keepdim or not shape:
        return t
    return t.reshape(kept_shape(shape, dim))


def real_input(name: str, input: Any) -> None:
    if input.dtype.kind == "c":
        raise NotImplementedError(
            f"\"{name}\" not implemented for '{dtypes.OF[input.dtype].scalar_name}': complex numbers have "
            "no order"
        )


@op(where="_all", name="expand", out=False)
def spread(xp, input: Array, shape: Any, dim: Any, keepdim: bool):
    """The gradient of a sum: `input` repeated over the dimensions that were summed, without a copy."""
    if dim is None or keepdim or not shape:
        return xp.spread(input, shape, None)
    return xp.spread(input, shape, kept_shape(shape, dim))


spread.grad(input=lambda g, dim, keepdim: g.sum(dim, keepdim))


# -- sums ------------------------------------------------------------------------------------------


@op(node=("SumBackward0", "SumBackward1"))
def sum(xp, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The sum over `dim` (an int or several). Integers and bool give int64 unless `dtype` is given.

    float16 and bfloat16 accumulate in float32.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).sum(dim=0)
    tensor([4, 6])
    """
    if dim is not None:
        dim = axes(dim, input.ndim)
    return xp.total(input, dim, keepdim, dtype and dtype.np)


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
            if n != 1 and n != m or lead < 0:
                raise RuntimeError(f"size {{{list(size)}}} is not expandable to size {{{list(own)}}}.")
    return xp.sum_to(input, size)


sum_to.grad(input=lambda g, input_shape: g.expand(input_shape))


@public("Tensor")
def sum_to_size(self: Tensor, *size: Any) -> Tensor:
    """The sum over the dimensions that broadcasting from `size` stretched; the result has that shape.

    The tensor itself if it has it already.

    >>> import rushlight as torch
    >>> torch.ones(3, 2).sum_to_size(1, 2)
    tensor([[3., 3.]])
    """
    shape = tuple(size[0]) if len(size) == 1 and size[0].__class__ is not int else size
    if self._array.shape == shape:
        return self if shape else self.sum()
    return sum_to(self, shape)


sum_to.face = sum_to_size


@op(node=("MeanBackward0", "MeanBackward1"))
def mean(xp, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The mean over `dim`; nan of nothing. RuntimeError for integers unless `dtype` is floating.

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 2.0], [3.0, 4.0]]).mean(dim=1)
    tensor([1.5000, 3.5000])
    """
    if dim is not None:
        dim = axes(dim, input.ndim)
    if dtype is not None or input.dtype.kind in "iub":
        inexact("mean", input, dtype)
    return xp.average(input, dim, keepdim, dtype and dtype.np)


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
    g = spread(g / builtins.max(reduced_count(input_shape, dim), 1), input_shape, dim, keepdim)
    return g if dtype is None else g.to(input_dtype)


mean.grad(input=mean_backward)


@op(node=("ProdBackward0", "ProdBackward1"))
def prod(xp, input: Array, dim: int | None = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The product over `dim`. Integers and bool give int64 unless `dtype` is given.

    >>> import rushlight as torch
    >>> torch.tensor([2, 3, 4]).prod()
    tensor(24)
    """
    over = None if dim is None else axis(dim, input.ndim, "prod")
    return xp.product(input, over, keepdim, dtype and dtype.np)


def prod_backward(
    g: Tensor, input: Tensor, result: Tensor, dim: Any, keepdim: Bool, dtype: Any
) -> Tensor:
    """The gradient is the product of the others: result / input, unless there are zeros."""
    x = input if dtype is None else input.to(dtype)
    if not x.ndim:
        return g.to(input.dtype)
    if dim is None:
        others = others_product(x.reshape(-1), 0).reshape(x.shape) if has_zero(x) else result.conj() / x.conj()
        return (g * others).to(input.dtype)
    if not keepdim:
        g, result = g.unsqueeze(dim), result.unsqueeze(dim)
    others = others_product(x, dim) if has_zero(x) else result.conj() / x.conj()
    return (g * others).to(input.dtype)


def has_zero(x: Tensor) -> Bool:
    return x._array.size > 0 and not x._array.all()


def others_product(x: Tensor, dim: int) -> Tensor:
    """For each element the product (conjugated) of all others along `dim`, without dividing."""
    x = x.conj()
    n = x.shape[dim]
    one = x.new_ones(x.narrow(dim, 0, 1).shape)
    from rushlight import cat

    before = cat([one, x.narrow(dim, 0, n - 1)], dim).cumprod(dim)
    after = cat([one, x.narrow(dim, 1, n - 1).flip(dim)], dim).cumprod(dim).flip(dim)
    return before * after


prod.grad(input=prod_backward)


@op()
def nansum(xp, input: Array, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The sum over `dim` with nan counted as 0.

    >>> import rushlight as torch
    >>> torch.tensor([1.0, float("nan"), 2.0]).nansum()
    tensor(3.)
    """
    if input.dtype.kind == "c":
        raise RuntimeError("nansum on CPU does not support complex inputs")
    return xp.total(xp.without_nan(input), axes(dim, input.ndim), keepdim, dtype and dtype.np)


nansum.grad(
    input=lambda g, input, dim, keepdim: spread(g, input.shape, dim, keepdim).to(input.dtype)
    * (input == input)
)


@composite
def nanmean(input: Tensor, dim: Dims = None, keepdim: bool = False, *, dtype: DType | None = None):
    """The mean over `dim` of what is not nan; nan where everything is.

    >>> import rushlight as torch
    >>> torch.tensor([1.0, float("nan"), 2.0]).nanmean()
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
    return g * (weights.conj() if weights.is_complex() else weights)


logsumexp.grad(input=logsumexp_backward).alias("special.logsumexp")


@op()
def count_nonzero(xp, input: Array, dim: Dims = None):
    """How many elements over `dim` are not zero (nan is not zero). int64.

    >>> import rushlight as torch
    >>> torch.tensor([[0, 1], [2, 3]]).count_nonzero(dim=0)
    tensor([1, 2])
    """
    return xp.total(input != 0, axes(dim, input.ndim), False)


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
    return xp.anywhere(input, truth_axes(dim, input.ndim), keepdim)


@op()
def all(xp, input: Array, dim: Dims = None, keepdim: bool = False):
    """Whether no element is zero, over `dim`. bool; uint8 for uint8.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 1], [0, 1]]).all(dim=1)
    tensor([ True, False])
    """
    return xp.everywhere(input, truth_axes(dim, input.ndim), keepdim)


# -- extremes --------------------------------------------------------------------------------------


def nonempty(name: str, input: Any, over: Any, error: type = RuntimeError) -> None:
    """Raise unless every result is made of at least one element: an extreme has no identity."""
    if input.size:
        return
    if over is None:
        more = " Specify the reduction dim with the 'dim' argument." if error is RuntimeError else ""
        if input.ndim:
            raise error(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0.{more} The "
                f"operation does not have an identity; the shape is {list(input.shape)}."
            )
    else:
        for d in over if over.__class__ is tuple else (over,):
            if not input.shape[d]:
                raise IndexError(f"{name}(): Expected reduction dim {d} to have non-zero size.")


@op()
def argmax(xp, input: Array, dim: int | None = None, keepdim: bool = False):
    """The index of the maximum over `dim` (None: of the flattened tensor); the first of several, a nan
    counts as largest. int64. IndexError where there is nothing to choose from.

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 5.0], [7.0, 2.0]]).argmax(dim=1)
    tensor([1, 0])
    """
    return xp.argmax(input, arg_axis("argmax", input, dim), keepdim)


@op()
def argmin(xp, input: Array, dim: int | None = None, keepdim: bool = False):
    """The index of the minimum over `dim` (None: of the flattened tensor); the first of several, a nan
    counts as smallest. int64. IndexError where there is nothing to choose from.

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 5.0], [7.0, 2.0]]).argmin(dim=1)
    tensor([0, 1])
    """
    return xp.argmin(input, arg_axis("argmin", input, dim), keepdim)


def arg_axis(name: str, input: Any, dim: Any) -> Any:
    if input.dtype.kind in "cb":
        kind = "complex" if input.dtype.kind == "c" else "bool"
        raise RuntimeError(f"{name}(): does not support {kind} input")
    over = None if dim is None else axis(dim, input.ndim, name)
    if not input.size:
        nonempty(name, input, over, IndexError)
    return over


@op(where="_all", name="max", node="MaxBackward1")
def max_all(xp, input: Array):
    if not input.size or input.dtype.kind == "c":
        real_input("max_all", input)
        nonempty("max", input, None)
    return xp.largest(input, None, False)


@op(where="_all", name="min", node="MinBackward1")
def min_all(xp, input: Array):
    if not input.size or input.dtype.kind == "c":
        real_input("min_all", input)
        nonempty("min", input, None)
    return xp.smallest(input, None, False)


def evenly(g: Tensor, input: Tensor, result: Tensor, dim: Any = None, keepdim: Bool = False) -> Tensor:
    """The gradient of an extreme value, shared evenly by all elements that have it."""
    result = keep(result, input.shape, dim, keepdim)
    g = keep(g, input.shape, dim, keepdim)
    same = (input == result) | ((input != input) & (result != result))
    return same * (g / same.sum(dim, True))


max_all.grad(input=lambda g, input, result: evenly(g, input, result))
min_all.grad(input=lambda g, input, result: evenly(g, input, result))


@op(where="_dim", name="max", node="MaxBackward0", outputs=("values", "indices"))
def max_dim(xp, input: Array, dim: int, keepdim: bool = False):
    real_input("max", input)
    over = axis(dim, input.ndim, "max")
    nonempty("max", input, over)
    return xp.largest(input, over, keepdim), xp.argmax(input, over, keepdim)


@op(where="_dim", name="min", node="MinBackward0", outputs=("values", "indices"))
def min_dim(xp, input: Array, dim: int, keepdim: bool = False):
    real_input("min", input)
    over = axis(dim, input.ndim, "min")
    nonempty("min", input, over)
    return xp.smallest(input, over, keepdim), xp.argmin(input, over, keepdim)


def to_chosen(g: Tensor, input_shape: tuple, indices: Tensor, dim: int, keepdim: Bool) -> Tensor:
    """The gradient of values chosen along `dim`: to the chosen elements, zero elsewhere."""
    if not input_shape:
        return g
    if not keepdim:
        g, indices = g.unsqueeze(dim), indices.unsqueeze(dim)
    return g.new_zeros(input_shape).scatter(dim, indices, g)


max_dim.grad(input=to_chosen)
min_dim.grad(input=to_chosen)


@public(method=True)
def max(
    input: Tensor, dim: Any = None, keepdim: Bool = False, *,
    other: Any = None, out: Any = None, axis: Any = None, keepdims: Any = None,
) -> Any:  # fmt: skip
    """The maximum of all elements; with `dim` (values, indices) over it; with a tensor `maximum`.

    nan is larger than any number; the index is that of the first maximum. Of all elements, the
    gradient is shared evenly by those that have the maximum; over `dim` it goes to the index.

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 5.0], [7.0, 2.0]]).max(1).values
    tensor([5., 7.])
    """
    if dim is None and other is out is axis is keepdims is None and keepdim is False:
        return max_all(input)
    return extreme("max", max_all, max_dim, input, dim, keepdim, other, out, axis, keepdims)


@public(method=True)
def min(
    input: Tensor, dim: Any = None, keepdim: Bool = False, *,
    other: Any = None, out: Any = None, axis: Any = None, keepdims: Any = None,
) -> Any:  # fmt: skip
    """The minimum of all elements; with `dim` (values, indices) over it; with a tensor `minimum`.

    nan is smaller than any number; the index is that of the first minimum. Of all elements, the
    gradient is shared evenly by those that have the minimum; over `dim` it goes to the index.

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 5.0], [7.0, 2.0]]).min(1).indices
    tensor([0, 1])
    """
    if dim is None and other is out is axis is keepdims is None and keepdim is False:
        return min_all(input)
    return extreme("min", min_all, min_dim, input, dim, keepdim, other, out, axis, keepdims)


def extreme(
    name: str, of_all: Any, of_dim: Any, input: Tensor, dim: Any, keepdim: Any, other: Any, out: Any,
    axis: Any, keepdims: Any,
) -> Any:  # fmt: skip
    if axis is not None:
        dim = axis
    if keepdims is not None:
        keepdim = keepdims
    if dim is None and other is None:
        if keepdim is not False:
            raise TypeError(
                f"{name}() received an invalid combination of arguments: keepdim={keepdim!r} needs a dim"
            )
        return of_all(input, out=out)
    if other is None and hasattr(dim, "_array"):
        other = dim
    if other is not None:
        import rushlight

        return getattr(rushlight, name + "imum")(input, other, out=out)
    if dim.__class__ is not int and (dim.__class__ is bool or not hasattr(dim, "__index__")):
        raise TypeError(
            f"{name}() received an invalid combination of arguments: expected a Tensor or an int, got "
            f"{dim!r}; for several dimensions use a{name}()"
        )
    if keepdim.__class__ is not bool:
        raise TypeError(
            f"{name}(): argument 'keepdim' (position 3) must be bool, not {type(keepdim).__name__}"
        )
    return of_dim(input, dim, keepdim, out=out)


max_all.face = max_dim.face = max
min_all.face = min_dim.face = min


def extreme_over(name: str, xp: Any, kernel: Any, input: Any, dim: Any, keepdim: Bool) -> Any:
    real_input(f"{name[1:]}_values_cpu" if name != "aminmax" else "aminmax_cpu", input)
    over = axes(dim, input.ndim)
    nonempty(name, input, over)
    return kernel(input, over, keepdim)


@op()
def amax(xp, input: Array, dim: Dims = (), keepdim: bool = False):
    """The maximum over `dim` (one, several, or all); nan where there is one.

    The gradient is shared evenly by all elements that have the maximum.

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 5.0], [7.0, 2.0]]).amax(dim=(0, 1))
    tensor(7.)
    """
    return extreme_over("amax", xp, xp.largest, input, dim, keepdim)


@op()
def amin(xp, input: Array, dim: Dims = (), keepdim: bool = False):
    """The minimum over `dim` (one, several, or all); nan where there is one.

    The gradient is shared evenly by all elements that have the minimum.

    >>> import rushlight as torch
    >>> torch.tensor([[1.0, 5.0], [7.0, 2.0]]).amin(dim=0)
    tensor([1., 2.])
    """
    return extreme_over("amin", xp, xp.smallest, input, dim, keepdim)


amax.grad(input=evenly)
amin.grad(input=evenly)


@op(outputs=("min", "max"))
def aminmax(xp, input: Array, *, dim: int | None = None, keepdim: bool = False):
    """(min, max) over `dim`, or of all elements; nan where there is one.

    >>> import rushlight as torch
    >>> torch.tensor([3.0, 1.0, 2.0]).aminmax()
    torch.return_types.aminmax(
    min=tensor(1.),
    max=tensor(3.))
    """
    real_input("aminmax_cpu", input)
    if dim is None and not input.size:
        raise RuntimeError(
            "aminmax(): cannot compute aminmax over an empty dimension as the operation has no identity."
        )
    over = None if dim is None else axis(dim, input.ndim, "aminmax")
    nonempty("aminmax", input, over)
    return xp.smallest(input, over, keepdim), xp.largest(input, over, keepdim)


def aminmax_backward(
    g_min: Tensor, g_max: Tensor, input: Tensor, min: Tensor, max: Tensor, dim: Any, keepdim: Bool
) -> Tensor:
    low = evenly(g_min, input, min, dim, keepdim)
    return low + evenly(g_max, input, max, dim, keepdim)


aminmax.grad(input=aminmax_backward)
