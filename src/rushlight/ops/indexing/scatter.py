"""Writing at indices, one for each element: `scatter`, `scatter_add`, `scatter_reduce`.

Each operator is a function `write_...(xp, array, ...)` that overwrites a part of an array: the
out-of-place form runs it on a copy, the in-place form on the tensor's own memory. All checks come
before the first write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import devices
from rushlight.autograd.state import thread
from rushlight.core import dtypes, geometry, settings
from rushlight.core.dtype_sets import I64
from rushlight.core.tensor import Tensor
from rushlight.dispatch import general, results
from rushlight.dispatch.inplace import inplace
from rushlight.dispatch.registry import OPS, Array, Op, op, public
from rushlight.dispatch.transforms import somewhere
from rushlight.ops.indexing.gather import (
    check_along,
    check_range,
    fill_number,
    index_dtype,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def same_dtype(name: str, a: np.ndarray, b: np.ndarray, what: str = "src") -> None:
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to {what}.dtype, got "
            f"{dtypes.OF[a.dtype].name} and {dtypes.OF[b.dtype].name}"
        )


def as_vector(x: np.ndarray) -> np.ndarray:
    return x if x.ndim else x.reshape(1)


# -- scatter: one index per element ----------------------------------------------------------------


def check_scatter(
    name: str, a: Any, dim: int, index: Any, src: Any = None, in_range: bool = True
) -> int:
    """The dimension, not negative; RuntimeError or IndexError unless all fits; `in_range`: the
    indices too."""
    shape, own = index.shape, a.shape
    if index.dtype is I64 and not in_range and dim.__class__ is int and 0 <= dim < len(own):
        if src is None or src.shape == shape and src.dtype is a.dtype:
            if shape == own or shape[:dim] == own[:dim] and shape[dim + 1 :] == own[dim + 1 :]:
                return dim  # the commonest arguments
    d = geometry.wrap_dim(dim, a.ndim)
    index_dtype(name, index)
    if src is not None:
        same_dtype(name, a, src)
    if index.size:
        i = as_vector(index)
        if src is not None:
            s = as_vector(src)
            if s.ndim != i.ndim or any(n > m for n, m in zip(i.shape, s.shape)):
                raise RuntimeError(
                    f"Expected index {list(i.shape)} to be no larger than self {list(a.shape)} apart from "
                    f"dimension {dim} and to be no larger size than src {list(s.shape)}"
                )
        check_along(name, as_vector(a), i, d, "self")
        if in_range:
            check_range(name, as_vector(a), i, d)
    return d


def cropped(src: Any, index: Any) -> Any:
    """The part of `src` that has an index."""
    s, i = as_vector(src), as_vector(index)
    return s if s.shape == i.shape else s[tuple(slice(n) for n in i.shape)]


def write(name: str, xp: Any, a: Any, index: Any, d: int, values: Any, add: bool = False) -> None:
    """Write or add; RuntimeError, and nothing is written, for an index out of range."""
    if index.size and not xp.scatter(as_vector(a), as_vector(index), d, values, add):
        check_range(name, as_vector(a), as_vector(index), d)


@op(where="aten", node="ScatterBackward0", name="scatter_src", method=False, writes="C")
def scatter_src(xp, input: Array, dim: int, index: Array, src: Array):
    d = check_scatter("scatter", input, dim, index, src, False)
    write("scatter", xp, input, index, d, cropped(src, index))


def read_back(g: Tensor, dim: int, index: Tensor, src_shape: tuple) -> Tensor:
    """The gradient of what a scatter wrote: read at the index; zeros where `src` was not used."""
    part = g.gather(dim, index)
    if part._array.shape == src_shape:
        return part
    from rushlight.ops.layout.regions import basic_index_gradient

    return basic_index_gradient(part, src_shape, tuple(slice(n) for n in part._array.shape))


scatter_src.grad(input=lambda g, dim, index: scatter_value(g, dim, index, 0), src=read_back)


@op(where="aten", node="ScatterBackward1", name="scatter_value", method=False, writes="C")
def scatter_value(xp, input: Array, dim: int, index: Array, value: Any):
    d = check_scatter("scatter", input, dim, index, None, False)
    write("scatter", xp, input, index, d, fill_number(value, input))


scatter_value.grad(input=lambda g, dim, index: scatter_value(g, dim, index, 0))


def write_scatter_combine(xp, a: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if devices.is_array(src):
        d = check_scatter("scatter", a, dim, index, src)
        values = cropped(src, index)
    else:
        d = check_scatter("scatter", a, dim, index)
        values = xp.broadcast_to(xp.from_numpy(fill_number(src, a)), as_vector(index).shape)
    if index.size:
        key = xp.gather_key(as_vector(index), d)
        xp.reduce_at(as_vector(a), key, values, "sum" if reduce == "add" else "prod", True)


@op(where="aten", name="scatter_combine", method=False)
def scatter_combine(xp, input: Array, dim: int, index: Array, src: Any, reduce: str):
    r = input.copy(order="C")
    write_scatter_combine(xp, r, dim, index, src._array if isinstance(src, Tensor) else src, reduce)
    return r


SRC, VALUE, COMBINE = (
    OPS["aten.scatter_src"],
    OPS["aten.scatter_value"],
    OPS["aten.scatter_combine"],
)


def scatter_form(src: Any, value: Any, reduce: Any) -> tuple[Op, list]:
    """(operator, its last arguments) for what `scatter` was given."""
    if src is None:
        src = value
    if reduce is not None:
        if isinstance(src, Tensor):
            settings.warn_once(
                "The reduce argument of torch.scatter with Tensor src is deprecated and will be removed in a future PyTorch "
                "release. Use torch.scatter_reduce instead for more reduction options."
            )
        return COMBINE, [src, reduce]
    if isinstance(src, Tensor):
        return SRC, [src]
    if not isinstance(src, general.NUMBERS):
        raise TypeError(
            f"scatter(): argument 'src' must be Tensor or Number, not {results.kind(src)}"
        )
    return VALUE, [src]


@public(method=True)
def scatter(
    input: Tensor, dim: Any = None, index: Any = None, src: Any = None, *, value: Any = None,
    reduce: str | None = None, axis: Any = None, out: Any = None,
) -> Tensor:  # fmt: skip
    """A copy of `input` in which `src` (a tensor or a number) stands where `index` says along `dim`.

    `index` [k, l] is at most as large as `src`, and `result[i][index[i][j]] = src[i][j]` for dim 1. `reduce` "add" or "multiply": combine with what
    is there (no gradient; see `scatter_add`, `scatter_reduce`).

    >>> import rushlight as torch
    >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    if axis is not None:
        dim = axis
    if index is None or dim is None:
        raise TypeError("scatter() missing a required argument: dim and index")
    form, last = scatter_form(src, value, reduce)
    if out is None:
        return form.function(input, dim, index, *last)
    return general.call(form, [input, dim, index, *last, out])


@public("Tensor")
def scatter_(
    self: Tensor, dim: Any = None, index: Any = None, src: Any = None, *, value: Any = None,
    reduce: str | None = None, axis: Any = None,
) -> Tensor:  # fmt: skip
    """In-place version of `scatter`."""
    if axis is not None:
        dim = axis
    if index is None or dim is None:
        raise TypeError("scatter() missing a required argument: dim and index")
    form, last = scatter_form(src, value, reduce)
    if form is COMBINE:
        return inplace(form, [self, dim, index, *last])
    return form.build().inplace(self, dim, index, *last)


SRC.public_function = VALUE.public_function = COMBINE.public_function = scatter


@op(writes="C")
def scatter_add(xp, input: Array, dim: int, index: Array, src: Array):
    """A copy of `input` with `src` added where `index` says along `dim`; places may repeat.

    >>> import rushlight as torch
    >>> torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 2]), torch.ones(3))
    tensor([2., 0., 1.])
    """
    d = check_scatter("scatter_add", input, dim, index, src, False)
    write("scatter_add", xp, input, index, d, cropped(src, index), True)


scatter_add.grad(input=lambda g: g, src=read_back)


REDUCES = ("sum", "prod", "mean", "amax", "amin")


def check_reducible(name: str, reduce: str, a: Any) -> None:
    """NotImplementedError for the order of complex numbers and the mean of truth values."""
    kind = a.dtype.kind
    if kind == "c" and reduce in ("amax", "amin") or kind == "b" and reduce == "mean":
        raise NotImplementedError(
            f"\"{name}{reduce}\" not implemented for '{dtypes.OF[a.dtype].scalar_name}'"
        )


@op(writes="C")
def scatter_reduce(
    xp, input: Array, dim: int, index: Array, src: Array, reduce: str, *, include_self: bool = True
):
    """`src` reduced into a copy of `input` where `index` says along `dim`.

    `reduce`: "sum", "prod", "mean", "amax" or "amin". `include_self` False: the values of `input` at
    these places do not take part.

    >>> import rushlight as torch
    >>> x, i = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([0, 0, 2])
    >>> x.scatter_reduce(0, i, torch.tensor([5.0, 6.0, 7.0]), "amax")
    tensor([6., 2., 7.])
    """
    if reduce not in REDUCES:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}."
        )
    check_reducible("scatter_gather_tensor_cpu_reduce_", reduce, input)
    d = check_scatter("scatter_reduce", input, dim, index, src, False)
    if index.size:
        v, i = as_vector(input), as_vector(index)
        if not xp.scatter_reduce(v, i, d, cropped(src, index), reduce, include_self):
            check_range("scatter_reduce", v, i, d)


@op(where="aten", name="once_differentiable_product", node="DelayedError", method=False)
def once_only(xp, input: Array):
    """A gradient that cannot be differentiated itself."""
    return input.copy()


def refuse_product(g: Tensor) -> Tensor:
    raise RuntimeError(
        "Double backward is unsupported for src when >1 zeros in src are scattered to the same position in self"
    )


once_only.grad(input=refuse_product)


def scatter_reduce_gradient(
    needs: tuple,
    g: Tensor,
    input: Tensor,
    src: Tensor,
    result: Tensor,
    reduce: str,
    include_self: bool,
    read: Callable,
    add: Callable,
    clear: Callable,
    again: Callable,
) -> tuple:
    """(gradient of input, of src) of a reduction into indexed places.

    `read(t)` reads at the places, `add(t, s)` adds there, `clear(t)` puts 0 there, `again(t, s)` is
    the reduction itself of other values.
    """
    own: Any = g
    part: Any = None
    if reduce == "sum":
        part = read(g)
    elif reduce == "mean":
        start = g.new_ones(g.shape) if include_self else g.new_zeros(g.shape)
        count = add(start, g.new_ones(src.shape))
        own = g / count.masked_fill(count == 0, 1)
        part = read(own)
    elif reduce == "prod":
        # The product of all others: the result divided by the value, except where the value is a zero.
        # Then the same with this one replaced by 1, which is zero again if there is another zero.
        own = g * again(input.masked_fill(input == 0, 1), src) / input.masked_fill(input == 0, 1)
        zeros = src == 0
        number = read(add(g.new_zeros(g.shape), zeros.to(g.dtype)))
        without = again(input, src.masked_fill(zeros & (number == 1), 1))
        single = read(g * without)
        usual = read(g * result) / src.masked_fill(zeros, 1)
        part = single.where(zeros & (number == 1), usual)
        if thread.grad and somewhere(zeros & (number > 1)):
            part = once_only(part)
    else:
        # Those equal to the extreme value share the gradient equally.
        mine = (input == result).to(g.dtype)
        if not include_self:
            mine = clear(mine)
        theirs = (src == read(result)).to(g.dtype)
        number = add(mine, theirs)
        share = g / number.masked_fill(number == 0, 1)
        touched = add(g.new_zeros(g.shape), g.new_ones(src.shape)) != 0
        own = g.where(~touched, mine * share)
        part = theirs * read(share)
    if not include_self:
        own = clear(own)
    return own if needs[0] else None, part if needs[-1] else None


def scatter_reduce_back(
    needs: tuple,
    g: Tensor,
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> tuple:
    """The gradients of `scatter_reduce` by the input and by the source."""
    shape = src.shape
    used = src
    if shape != index.shape:
        used = src[tuple(slice(n) for n in index.shape)]
    own, part = scatter_reduce_gradient(
        needs, g, input, used, result, reduce, include_self,
        lambda t: t.gather(dim, index),
        lambda t, s: t.scatter_add(dim, index, s),
        lambda t: t.scatter(dim, index, 0),
        lambda t, s: t.scatter_reduce(dim, index, s, reduce, include_self=include_self),
    )  # fmt: skip
    if part is not None and shape != index.shape:
        from rushlight.ops.layout.regions import basic_index_gradient

        part = basic_index_gradient(part, tuple(shape), tuple(slice(n) for n in index.shape))
    return own, None, part


scatter_reduce.grad_all(scatter_reduce_back, never=("index",))
