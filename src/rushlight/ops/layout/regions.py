"""Views of regions of a tensor: `select`, `narrow`, and what basic indexing is made of."""

from __future__ import annotations

from operator import index as integer
from typing import TYPE_CHECKING, Any

from rushlight.core import dtypes, geometry
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import Array, op, public

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Sizes  # type: ignore[attr-defined]

EVERYTHING = slice(None)


# -- the gradient of a view of a region: zeros around it -------------------------------------------


@op(where="aten", method=False, node="SelectBackwardBackward0")
def basic_index_gradient(xp, grad: Array, shape: Sizes, index: Any):
    """Zeros of `shape` with `grad` at `index`."""
    z = xp.zeros(shape, grad.dtype)
    xp.copy_into(xp.basic_index(z, index), grad)
    return z


basic_index_gradient.grad(grad=lambda g, index: g[index])


def padded_to_shape(g: Tensor, input_shape: tuple, index: Any) -> Tensor:
    return g if g._array.shape == input_shape else basic_index_gradient(g, input_shape, index)


# -- views of regions ------------------------------------------------------------------------------


Dots = type(...)
STEPS = {
    int: "SelectBackward0",
    slice: "SliceBackward0",
    type(None): "UnsqueezeBackward0",
    Dots: "AliasBackward0",
}


def last_step(input: Tensor, index: Any) -> str:
    """The name of the node of a basic index: that of its last item which changes something, as in PyTorch."""
    if index.__class__ is not tuple:
        return STEPS[index.__class__]
    for at in range(len(index) - 1, -1, -1):
        c = index[at].__class__
        if c is not slice and c is not Dots or c is slice and cuts(input._array.shape, index, at):
            return STEPS[c]
    return "AliasBackward0"


def cuts(shape: tuple, items: tuple, at: int) -> bool:
    """Whether a slice counts as one that leaves out elements of its dimension: PyTorch looks at its numbers as they are given."""
    i = items[at]
    if i.start or i.step is not None and i.step != 1:
        return True
    if i.stop is None:
        return False
    behind = Ellipsis in items[:at]
    counted = items[at:] if behind else items[:at]
    dim = sum(i is not None and i is not Ellipsis for i in counted)
    size = shape[-dim if behind else dim]
    return i.stop < size


@op(view=True, where="aten", method=False, node=last_step)
def basic_index(xp, input: Array, index: Any):
    """`input[index]` for ints, slices of ints, None and at most one Ellipsis."""
    return xp.basic_index(input, index)


basic_index.grad(input=padded_to_shape)


@op(view=True, where="aten", node="AliasBackward0", method=False)
def alias(xp, input: Array):
    """The same memory under the same shape: `x[:]`, `x[...]`."""
    return input[...]


alias.grad(input=lambda g: g)


@op(view=True)
def select(xp, input: Array, dim: int, index: int):
    """The slice at `index` of dimension `dim`, without that dimension.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).select(1, 0)
    tensor([1, 3])
    """
    n = input.ndim
    if not n:
        raise IndexError("select() cannot be applied to a 0-dim tensor.")
    dim = geometry.wrap_dim(dim, n)
    try:
        return input[(*(EVERYTHING,) * dim, index, ...)]
    except IndexError:
        raise IndexError(
            f"select(): index {integer(index)} out of range for tensor of size {list(input.shape)} at "
            f"dimension {dim}"
        ) from None


def select_back(g: Tensor, input_shape: tuple, dim: int, index: int) -> Tensor:
    dim %= len(input_shape)
    return basic_index_gradient(g, input_shape, (*(EVERYTHING,) * dim, index))


select.grad(input=select_back)


@op(view=True, where="aten", name="slice", node="SliceBackward0", method=False)
def slice_dim(xp, input: Array, dim: int = 0, start: Any = None, end: Any = None, step: int = 1):
    """`input[start:end:step]` at dimension `dim`."""
    if step <= 0:
        raise RuntimeError("slice step must be positive")
    if not input.ndim:
        raise RuntimeError("slice() cannot be applied to a 0-dim tensor.")
    dim = geometry.wrap_dim(dim, input.ndim)
    return input[(*(EVERYTHING,) * dim, slice(start, end, step))]


def slice_back(g: Tensor, input_shape: tuple, dim: int, start: Any, end: Any, step: int) -> Tensor:
    dim %= len(input_shape)
    return basic_index_gradient(g, input_shape, (*(EVERYTHING,) * dim, slice(start, end, step)))


slice_dim.grad(input=slice_back)


@public("Tensor", overridable=True)
def to_padded_tensor(self: Tensor, padding: float, output_size: Any = None) -> Tensor:
    """A dense tensor with `padding` after the end of each component of a nested tensor."""
    raise NotImplementedError(
        "Could not run 'aten::to_padded_tensor' with arguments from the 'CPU' backend: the tensor is not nested"
    )


@public(method=True, overridable=True)
def narrow(
    input: Tensor, dim: Any = None, start: Any = None, length: Any = None, *, axis: Any = None
) -> Tensor:
    """`length` elements of dimension `dim`, from `start` on.

    >>> import rushlight as torch
    >>> torch.arange(5).narrow(0, 1, 3)
    tensor([1, 2, 3])
    """
    if axis is not None:
        dim = axis
    if length is None or start is None or dim is None:
        raise TypeError("narrow() missing a required argument: dim, start and length")
    shape = input._array.shape
    if not shape:
        raise RuntimeError("narrow() cannot be applied to a 0-dim tensor.")
    if length < 0:
        raise RuntimeError("narrow(): length must be non-negative.")
    dim = geometry.wrap_dim(dim, len(shape))
    if isinstance(start, Tensor):
        if (
            start.ndim
            or start.dtype.is_floating_point
            or start.dtype.is_complex
            or (start.dtype is dtypes.bool_)
        ):
            raise RuntimeError("start must be an 0-dim integral Tensor.")
        start = start.item()
    size = shape[dim]
    if not -size <= start <= size:
        raise IndexError(
            f"start out of range (expected to be in range of [{-size}, {size}], but got {start})"
        )
    if start < 0:
        start += size
    if start + length > size:
        raise RuntimeError(f"start ({start}) + length ({length}) exceeds dimension size ({size}).")
    return slice_dim(input, dim, start, start + length)
