"""Reading at indices and masks: `gather`, `index_select`, `take`, `where`, `nonzero`..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import devices
from rushlight._backends.meta import Meta
from rushlight.autograd.state import thread
from rushlight.core import dtypes, geometry, modes, settings
from rushlight.core.dtype_sets import BOOL, I64, REDUCED
from rushlight.core.stub import declare
from rushlight.core.tensor import Tensor, _bump, _wrap
from rushlight.dispatch import general, results
from rushlight.dispatch.handlers import made_of_number
from rushlight.dispatch.inplace import inplace, plainly
from rushlight.dispatch.registry import OPS, Array, composite, elementwise, op, public
from rushlight.ops.factories import arguments

if TYPE_CHECKING:
    Ints = tuple[int, ...]


def index_dtype(name: str, index: np.ndarray) -> None:
    """RuntimeError unless `index` holds int64 (or int32)."""
    if index.dtype.kind != "i" or index.dtype.itemsize < 4:
        raise RuntimeError(
            f"{name}(): Expected dtype int32/int64 for index, got {dtypes.OF[index.dtype].name}"
        )


# -- one index per element -------------------------------------------------------------------------


declare("no-op", "The gradient is dense.", "torch", "gather(sparse_grad=)")


@op()
def gather(xp, input: Array, dim: int, index: Array, *, sparse_grad: bool = False):
    """The elements that `index` names along `dim`; the result has the shape of `index`.

    `result[i][j] = input[i][index[i][j]]` for dim 1. In the other dimensions `index` may be
    smaller than `input`. RuntimeError for an index out of range.

    >>> import rushlight as torch
    >>> torch.gather(torch.tensor([[1, 2], [3, 4]]), 1, torch.tensor([[0, 0], [1, 0]]))
    tensor([[1, 1],
            [4, 3]])
    """
    s, t = input.shape, index.shape
    if index.dtype is I64 and len(s) == len(t) and -1 < dim < len(s) and index.size:
        if s[:dim] == t[:dim] and s[dim + 1 :] == t[dim + 1 :]:  # the usual call
            r = xp.gather(input, index, dim)
            if r is not None:
                return r
    d = geometry.wrap_dim(dim, input.ndim)
    if not index.size:
        return xp.zeros(index.shape, input.dtype)
    index_dtype("gather", index)
    a, i = (x if x.ndim else x.reshape(1) for x in (input, index))
    check_along("gather", a, i, d, "input")
    r = xp.gather(a, i, d)
    if r is None:
        check_range("gather", a, i, d)
    return r.reshape(index.shape)


def check_along(name: str, a: np.ndarray, i: np.ndarray, d: int, what: str) -> None:
    """RuntimeError unless index `i` has a shape that fits the array `a`, along dimension `d`."""
    if a.ndim != i.ndim:
        raise RuntimeError(
            f"Index tensor must have the same number of dimensions as {what} tensor: [{name}] index "
            f"{list(i.shape)}, {what} {list(a.shape)}"
        )
    for k in range(a.ndim):
        if k != d and i.shape[k] > a.shape[k]:
            raise RuntimeError(
                f"Size does not match at dimension {k} expected index {list(i.shape)} to be no larger "
                f"than {what} {list(a.shape)} apart from dimension {d}"
            )


def check_range(name: str, a: np.ndarray, i: np.ndarray, d: int) -> None:
    """RuntimeError unless index `i` is in range along dimension `d`."""
    bad = devices.of(i).out_of_range(i, a.shape[d])
    if bad is not None:
        raise RuntimeError(
            f"index {bad} is out of bounds for dimension {d} with size {a.shape[d]} ({name})"
        )


@op(where="aten", node="GatherBackwardBackward0", method=False)
def gather_gradient(xp, grad: Array, index: Array, shape: Ints, dim: int):
    """Zeros of `shape` with `grad` added at the places `gather` read."""
    d = dim % len(shape) if shape else 0
    i, g = (x if x.ndim else x.reshape(1) for x in (index, grad))
    return xp.gather_gradient(shape or (1,), i, d, g).reshape(shape)


gather.grad(input=lambda g, index, input_shape, dim: gather_gradient(g, index, input_shape, dim))
gather_gradient.grad(grad=lambda g, index, dim: g.gather(dim, index))


@composite
def take_along_dim(input: Tensor, indices: Tensor, dim: int | None = None):
    """`gather` with broadcasting; without `dim` from the flattened tensor.

    >>> import rushlight as torch
    >>> x = torch.tensor([[3, 1, 2]])
    >>> torch.take_along_dim(x, x.argsort(1), 1)
    tensor([[1, 2, 3]])
    """
    if indices.dtype is not dtypes.int64:
        raise RuntimeError(
            f"torch.take_along_dim(): dtype of indices should be Long but got {indices.dtype}"
        )
    if dim is None:
        input, indices, dim = input.reshape(-1), indices.reshape(-1), 0
    if input.ndim != indices.ndim:
        raise RuntimeError(
            "torch.take_along_dim(): input and indices should have the same number of dimensions, but "
            f"got {input.ndim} dimensions for input, and {indices.ndim} dimensions for indices"
        )
    d = geometry.wrap_dim(dim, input.ndim)
    if input.shape[:d] == indices.shape[:d] and input.shape[d + 1 :] == indices.shape[d + 1 :]:
        return input.gather(d, from_the_start(indices, input.shape[d]))
    shape = list(input.shape)
    shape[d] = indices.shape[d]
    wide = geometry.broadcast_shapes(tuple(shape), tuple(indices.shape))
    own = list(
        geometry.broadcast_shapes(
            tuple(input.shape), tuple(indices.shape[:d]) + (1,) + tuple(indices.shape[d + 1 :])
        )
    )
    own[d] = input.shape[d]
    indices = from_the_start(indices, input.shape[d])
    return input.expand(tuple(own)).gather(d, indices.expand(wide))


def from_the_start(indices: Tensor, n: int) -> Tensor:
    """Indices of which those outside count from the end, or from the start again."""
    return indices.remainder(n) if n else indices


# -- whole slices ----------------------------------------------------------------------------------


@op()
def index_select(xp, input: Array, dim: int, index: Array):
    """The slices of dimension `dim` that the vector `index` names, copied.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).index_select(1, torch.tensor([1, 1]))
    tensor([[2, 2],
            [4, 4]])
    """
    if index.dtype is I64 and index.ndim == 1 and -1 < dim < input.ndim:  # the usual call
        r = xp.index_select(input, index, dim)
        if r is not None:
            return r
    d = geometry.wrap_dim(dim, input.ndim)
    if index.ndim > 1:
        raise IndexError(
            f"index_select(): Index is supposed to be a vector, got {index.ndim} dimensions"
        )
    index_dtype("index_select", index)
    a = input if input.ndim else input.reshape(1)
    if not input.ndim and index.size != 1:
        raise RuntimeError(
            f"index_select(): Index to scalar can have only 1 value, got {index.size} value(s)"
        )
    r = xp.index_select(a, index.reshape(-1), d)
    if r is None:
        bad = xp.out_of_range(index, a.shape[d])
        if not a.shape[d]:
            raise RuntimeError("index_select(): self indexing axis dim should be positive")
        if not a.size:
            raise RuntimeError(
                f"INDICES element is out of DATA bounds, id={bad} axis_dim={a.shape[d]}"
            )
        raise IndexError(
            f"index out of range in self: index_select() got {bad} for dimension {d} of size {a.shape[d]}"
        )
    return r if input.ndim else r.reshape(())


@op(where="aten", node="IndexSelectBackwardBackward0", method=False)
def index_select_gradient(xp, grad: Array, index: Array, shape: Ints, dim: int):
    """Zeros of `shape` with the slices of `grad` added where `index` says."""
    if not shape:
        return grad.reshape(())
    return xp.index_select_gradient(shape, index.reshape(-1), dim % len(shape), grad)


index_select.grad(
    input=lambda g, index, input_shape, dim: index_select_gradient(g, index, input_shape, dim)
)
index_select_gradient.grad(grad=lambda g, index, dim: g.index_select(dim, index))


@op()
def take(xp, input: Array, index: Array):
    """The elements at `index` of the flattened tensor; negative ones count from the end.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).take(torch.tensor([0, -1]))
    tensor([1, 4])
    """
    if index.dtype.kind != "i" or index.dtype.itemsize != 8:
        raise RuntimeError(
            f"take(): Expected a long tensor for index, but got {dtypes.OF[index.dtype].scalar_name}"
        )
    if not input.size and index.size:
        raise IndexError("take(): tried to take from an empty tensor")
    try:
        return xp.take(input, index)
    except IndexError:
        raise IndexError(
            f"out of range: tried to access index {int(index.max())} on a tensor of {input.size} elements."
        ) from None


@op(where="aten", node="TakeBackwardBackward0", method=False)
def take_gradient(xp, grad: Array, index: Array, shape: Ints):
    z = xp.zeros(shape, grad.dtype)
    xp.index_add_at(z.reshape(-1), (index.reshape(-1),), grad.reshape(-1))
    return z


take.grad(input=lambda g, index, input_shape: take_gradient(g, index, input_shape))
take_gradient.grad(grad=lambda g, index: g.take(index))


# -- masks -----------------------------------------------------------------------------------------


def check_mask(name: str, mask: np.ndarray) -> np.ndarray:
    if mask.dtype.kind == "b":
        return mask
    if mask.dtype.kind == "u" and mask.dtype.itemsize == 1 and name == "where":
        return mask.astype(bool)
    raise RuntimeError(
        f"{name}: expected BoolTensor for mask"
        if name == "masked_select"
        else f"{name} only supports boolean masks, but got mask with dtype {dtypes.OF[mask.dtype].name}"
    )


@op()
def masked_select(xp, input: Array, mask: Array):
    """The elements where `mask` is True, as one dimension; both are broadcast.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2, 3]).masked_select(torch.tensor([True, False, True]))
    tensor([1, 3])
    """
    mask = check_mask("masked_select", mask)
    if mask.shape != input.shape:
        shape = geometry.broadcast_shapes(input.shape, mask.shape)
        input, mask = xp.broadcast_to(input, shape), xp.broadcast_to(mask, shape)
    return xp.masked_select(input, mask)


def masked_select_back(g: Tensor, mask: Tensor, input_shape: Ints) -> Tensor:
    shape = geometry.broadcast_shapes(input_shape, mask._array.shape)
    z = masked_select_gradient(g, mask, shape)
    return z if shape == input_shape else z.sum_to_size(input_shape)


@op(where="aten", node="MaskedSelectBackwardBackward0", method=False)
def masked_select_gradient(xp, grad: Array, mask: Array, shape: Ints):
    """Zeros of `shape` with the values of `grad`, in their order, where `mask` is True."""
    mask = xp.broadcast_to(mask, shape)
    return xp.masked_expand(grad, mask if mask.dtype.kind == "b" else mask.astype(bool))


masked_select.grad(input=masked_select_back)
masked_select_gradient.grad(grad=lambda g, mask: g.masked_select(mask))


def zero_of(g: Tensor) -> Tensor:
    """A 0-d zero of the dtype of `g`."""
    return g.new_zeros(())


@elementwise(
    promote=None, where="aten", name="where", node="WhereBackward0", inplace=False, method=False
)
def choose(xp, condition: Array, input: Array, other: Array):
    """`input` where `condition`, else `other`."""
    if condition.dtype.kind != "b":
        if condition.dtype != "uint8":
            raise RuntimeError(
                "where expected condition to be a boolean tensor, but got a tensor with dtype "
                f"{dtypes.OF[condition.dtype].scalar_name}"
            )
        settings.warn_once(
            "where received a uint8 condition tensor. This behavior is deprecated and will be removed in a future "
            "version of PyTorch. Use a boolean condition instead."
        )
        condition = condition.astype(bool)
    if getattr(input, "dtype", None) is not getattr(other, "dtype", 0):
        arrays = {"input": input, "other": other}
        general.promote(CHOOSE, arrays, xp)
        input, other = arrays["input"], arrays["other"]
    return xp.where(condition, input, other)


choose.grad(
    input=lambda g, condition: choose(condition, g, zero_of(g)),
    kernel=lambda xp, g, condition: xp.where(condition, g, xp.zeros((), g.dtype)),
)
choose.grad(
    other=lambda g, condition: choose(condition, zero_of(g), g),
    kernel=lambda xp, g, condition: xp.where(condition, xp.zeros((), g.dtype), g),
)
CHOOSE = OPS["aten.where"]


def number_beside(t: Tensor, number: np.ndarray) -> Tensor:
    """A 0-d tensor on the device of `t`."""
    made = _wrap(devices.of(t._array).from_numpy(number))
    if thread.dispatch_modes:
        made_of_number(made)
    return made


@public()
def where(condition: Tensor, input: Any = None, other: Any = None, *, out: Any = None) -> Any:
    """`input` where `condition` is True, else `other`; all three are broadcast, two of them promoted.

    With `condition` alone: as `nonzero(condition, as_tuple=True)`.

    >>> import rushlight as torch
    >>> x = torch.tensor([-1.0, 2.0])
    >>> torch.where(x > 0, x, 0.0)
    tensor([0., 2.])
    """
    if input is None and other is None:
        got = general.overrides.call_overrides(where, (condition,), {})
        return nonzero(condition, as_tuple=True) if got is general.overrides.NOTHING else got
    if (
        out is None
        and input.__class__ is Tensor
        and other.__class__ is Tensor
        and input._array.dtype is other._array.dtype
    ):
        return choose(condition, input, other)
    if out is None:  # a number of no higher kind takes the dtype of the tensor beside it
        if input.__class__ is Tensor:
            if (number := arguments.quick_number(other, input._array.dtype)) is not None:
                return choose(condition, input, number_beside(input, number))
        elif other.__class__ is Tensor:
            if (number := arguments.quick_number(input, other._array.dtype)) is not None:
                return choose(condition, number_beside(other, number), other)
        elif condition.__class__ is Tensor and {input.__class__, other.__class__} <= {int, float}:
            d = dtypes.promote_types(modes.scalar_dtype(input), modes.scalar_dtype(other)).np
            a, b = arguments.quick_number(input, d), arguments.quick_number(other, d)
            if a is not None and b is not None:
                return choose(condition, number_beside(condition, a), number_beside(condition, b))
    for number, beside in ((input, other), (other, input)):
        if isinstance(number, general.NUMBERS):
            check_choice(number, beside)
    return general.call(CHOOSE, [condition, input, other, out])


def check_choice(number: Any, beside: Any) -> None:
    """RuntimeError where the dtype of the result of `where` cannot hold a number; infinite in half types is fine."""
    if isinstance(beside, Tensor):
        d = dtypes.result_dtype(
            *((beside.dtype, None) if beside.dim() else (None, beside.dtype)),
            modes.scalar_dtype(number),
        ).np
        if d not in REDUCED:
            arguments.converted(number, d)


@public("Tensor", name="where")
def where_method(self: Tensor, condition: Tensor, other: Any) -> Tensor:
    """This tensor where `condition` is True, else `other`."""
    return where(condition, self, other)


CHOOSE.public_function = where


@elementwise(
    promote=None, where="aten", name="masked_fill", node="MaskedFillBackward0", method=False, operands=(),
    variant=lambda value, **_: OPS["aten.masked_fill_tensor"] if isinstance(value, Tensor) else None,
)  # fmt: skip
def fill_masked(xp, input: Array, mask: Array, value: Any):
    """`input` with the number `value` where `mask` is True."""
    mask = xp.contiguous(check_mask("masked_fill", mask))
    return xp.where(mask, fill_number(value, input), input)


fill_masked.grad(input=lambda g, mask: fill_masked(g, mask, 0))
FILL = OPS["aten.masked_fill"]


def fill_number(value: Any, a: np.ndarray) -> np.ndarray:
    """A number in the dtype of the array it goes to; RuntimeError where that cannot hold it."""
    if (quick := arguments.quick_number(value, a.dtype)) is not None:
        return quick
    return arguments.converted(value, a.dtype)


@elementwise(
    promote=None,
    where="aten",
    name="masked_fill_tensor",
    node="MaskedFillBackward1",
    method=False,
    operands=(),
)
def fill_masked_tensor(xp, input: Array, mask: Array, value: Array):
    """`input` with the 0-d `value` where `mask` is True."""
    mask = check_mask("masked_fill", mask)
    if value.ndim:
        raise RuntimeError(
            "masked_fill only supports a 0-dimensional value tensor, but got tensor with "
            f"{value.ndim} dimension(s)."
        )
    r = xp.where(mask, arguments.one_number(value, input), input)
    return xp.contiguous(r)


fill_masked_tensor.grad(
    input=lambda g, mask: fill_masked(g, mask, 0),
    value=lambda g, mask: choose(mask, g, zero_of(g)).sum(),
)
FILL_TENSOR = OPS["aten.masked_fill_tensor"]


@composite
def masked_fill(input: Tensor, mask: Tensor, value: Any):
    """A copy of `input` with `value` (a number or a 0-d tensor) where `mask` is True.

    >>> import rushlight as torch
    >>> torch.zeros(2).masked_fill(torch.tensor([True, False]), 5)
    tensor([5., 0.])
    """
    if isinstance(value, Tensor):
        return fill_masked_tensor(input, mask, value)
    return fill_masked(input, mask, value)


@public("Tensor")
def masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """In-place version of `masked_fill`."""
    if plainly(self, mask):
        a, m = self._array, mask._array
        if m.dtype is BOOL and m.shape == a.shape:
            if (number := arguments.quick_number(value, a.dtype)) is not None:
                xp.fill_masked(a, m, number)
                _bump(self)
                return self
    return inplace(FILL_TENSOR if isinstance(value, Tensor) else FILL, [self, mask, value])


# -- where something is ----------------------------------------------------------------------------


@op(where="aten", name="nonzero", method=False)
def nonzero_indices(xp, input: Array):
    """The indices of the elements that are not zero, one row each."""
    if not input.ndim:
        return xp.zeros((int(bool(input)), 0), I64)
    return xp.nonzero(input).T


@public(method=True, overridable=True)
def nonzero(input: Tensor, *, out: Any = None, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not zero, in row-major order: int64 (n, input.ndim).

    `as_tuple`: one vector for each dimension, as an index takes them.

    >>> import rushlight as torch
    >>> torch.tensor([[0, 1], [2, 0]]).nonzero()
    tensor([[0, 1],
            [1, 0]])
    """
    if as_tuple:
        if out is not None:
            raise RuntimeError("nonzero does not support the out kwarg when as_tuple is True")
        if not input._array.ndim:
            input = input.unsqueeze(0)
        if thread.dispatch_modes or isinstance(input._array, Meta):
            return nonzero_indices(input).unbind(1)
        found = devices.of(input._array).nonzero(input._array)
        return tuple([_wrap(i) for i in found])
    return nonzero_indices(input) if out is None else nonzero_indices(input, out=out)


@composite
def argwhere(input: Tensor):
    """`nonzero` under NumPy's name."""
    return nonzero_indices(input)


@public(method=True, overridable=True)
def nonzero_static(input: Tensor, *, size: int, fill_value: int = -1, out: Any = None) -> Tensor:
    """`nonzero` cut off, or filled up with `fill_value`, to `size` rows.

    >>> import rushlight as torch
    >>> torch.tensor([0, 3]).nonzero_static(size=2)
    tensor([[ 1],
            [-1]])
    """
    if size < 0:
        raise RuntimeError(f"nonzero_static: 'size' must be an non-negative integer, got {size}")
    a = input._array
    if not size and out is None and a.__class__ is np.ndarray:
        return _wrap(xp.zeros((0, a.ndim), I64))
    rows = nonzero_indices(input if size else input[:0] if input.ndim else input)[:size]
    result = rows.new_full((size, rows.shape[1]), fill_value)
    result[: len(rows)] = rows
    if out is None:
        return result
    return results.write_out(OPS["aten.nonzero"], out, result, (input,))
