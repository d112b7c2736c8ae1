"""Views: the same memory under another shape or order of dimensions."""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight.core import dtypes, geometry
from rushlight.core.size import Size
from rushlight.core.tensor import Tensor
from rushlight.dispatch import general, overrides, results
from rushlight.dispatch.registry import Array, Dims, DType, composite, op, public
from rushlight.ops.factories.arguments import checked_sizes

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Sizes  # type: ignore[attr-defined]

ndarray = np.ndarray
INTS = frozenset({int})


def sizes(args: tuple) -> tuple[int, ...]:
    """`(2, 3)` from the arguments of `f(2, 3)` or `f((2, 3))`."""
    if len(args) == 1 and isinstance(args[0], (tuple, list)):
        args = args[0]
    return tuple(args)


# -- view and reshape ------------------------------------------------------------------------------


@op(view=True, where="aten", name="view", node="ViewBackward0", method=False)
def view_as_sizes(xp, input: Array, size: Sizes):
    """The forward of `Tensor.view(size)`."""
    return xp.view(input, size)


view_as_sizes.grad(input=lambda g, input_shape: g.reshape(input_shape))


@public("Tensor")
def view(self: Tensor, *shape: Any, size: Any = None, dtype: Any = None) -> Tensor:
    """The same memory under another shape, or under another dtype.

    RuntimeError when no strides give the memory that shape: use `reshape`, which copies then.

    >>> import rushlight as torch
    >>> torch.arange(6).view(2, -1)
    tensor([[0, 1, 2],
            [3, 4, 5]])
    """
    first = shape[0] if shape else size
    if first.__class__ is int:
        return view_as_sizes(self, shape or (size,))
    if first is not None and len(shape) < 2:
        if first.__class__ is dtypes.dtype:
            return reinterpreted(self, first)
        if isinstance(first, (tuple, list)):
            shape = tuple(first)
    elif dtype is not None:
        return reinterpreted(self, dtype)
    elif not shape:
        raise TypeError(
            "view() received an invalid combination of arguments - got (), but expected one of:\n"
            " * (torch.dtype dtype)\n * (tuple of ints size)\n"
        )
    return view_as_sizes(self, shape)


@op(where="aten", name="_unsafe_view", node="UnsafeViewBackward0", method=False)
def reshape_copy(xp, input: Array, size: Sizes):
    """A contiguous copy under another shape."""
    return xp.contiguous(input).reshape(size)


reshape_copy.grad(input=lambda g, input_shape: g.reshape(input_shape))


def reshape(input: Tensor, shape: Sizes) -> Tensor:
    """The elements in row-major order under another shape: a view where possible, else a copy.

    >>> import rushlight as torch
    >>> torch.arange(6).reshape(3, 2).t().reshape(-1)
    tensor([0, 2, 4, 1, 3, 5])
    """
    a = input._array
    if a.__class__ is not ndarray or general.active.modes:
        got = overrides.call_overrides(reshape, (input, shape), {})
        if got is not overrides.NOTHING:
            return got
    try:
        if not a.flags.c_contiguous:
            plain = shape.__class__ is tuple and INTS.issuperset(map(type, shape))
            find = shown_as if plain else shown_as.__wrapped__
            shape, copied = find(a.shape, a.strides, a.itemsize, shape)
            if copied:
                return reshape_copy(input, shape)
        return view_as_sizes(input, shape if shape.__class__ is tuple else tuple(shape))
    except (TypeError, RuntimeError) as error:
        raise refused(shape, error) from None


def refused(shape: Any, error: Exception) -> Exception:
    """What `reshape` raises for `shape`: TypeError in its own name where something is no size, else `error`."""
    try:
        checked_sizes("reshape", shape if isinstance(shape, (tuple, list)) else (shape,), "shape")
    except TypeError as found:
        return found
    except RuntimeError:
        pass
    return error


@lru_cache(maxsize=1024)
def shown_as(
    shape: tuple, strides: tuple, size: int, new_shape: Any
) -> tuple[tuple[int, ...], bool]:
    """A shape without -1 for an array with these strides in bytes, and whether only a copy has it."""
    found = geometry.infer_size(new_shape, prod(shape))
    steps = tuple([s // size for s in strides])
    return found, geometry.view_strides(shape, steps, found) is None


public()(reshape)


@public("Tensor", name="reshape")
def reshape_method(self: Tensor, *sizes_or_shape: Any, shape: Any = None) -> Tensor:
    """`reshape`, also with the sizes one by one."""
    if sizes_or_shape:
        shape = sizes_or_shape
    elif shape is None:
        raise TypeError('reshape() missing 1 required positional arguments: "shape"')
    a = self._array
    if a.__class__ is ndarray and sizes_or_shape and shape[0].__class__ is int:
        if a.flags.c_contiguous:
            try:
                return view_as_sizes(self, shape)
            except (TypeError, RuntimeError):  # which `reshape` raises in its own name
                pass
    return reshape(self, shape if len(shape) != 1 else sizes(shape))


reshape_method.__name__ = "reshape"


def shape_of(name: str, other: Any) -> tuple[int, ...]:
    """The shape of the tensor that the function `name` is given."""
    try:
        return other._array.shape
    except AttributeError:
        kind = results.kind(other)
        raise TypeError(
            f"{name}(): argument 'other' (position 1) must be Tensor, not {kind}"
        ) from None


@public("Tensor")
def view_as(self: Tensor, other: Tensor) -> Tensor:
    """`self.view(other.shape)`."""
    return view_as_sizes(self, shape_of("view_as", other))


@public("Tensor")
def reshape_as(self: Tensor, other: Tensor) -> Tensor:
    """`self.reshape(other.shape)`."""
    return self.reshape(shape_of("reshape_as", other))


@public(method=True)
def flatten(input: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """The dimensions from `start_dim` to `end_dim` as one.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3, 4).flatten(1).shape
    torch.Size([2, 12])
    """
    try:
        a = input._array
    except AttributeError:  # no tensor, but it may have a `__torch_function__`
        a = None
    if a.__class__ is not ndarray or general.active.modes:
        got = overrides.call_overrides(flatten, (input, start_dim, end_dim), {})
        if got is not overrides.NOTHING:
            return got
    shape = a.shape
    n = len(shape)
    if start_dim == 0 and end_dim == -1 and n > 1 and a.flags.c_contiguous:
        return view_as_sizes(input, (a.size,))
    start, end = geometry.wrap_dim(start_dim, n), geometry.wrap_dim(end_dim, n)
    if start > end:
        raise RuntimeError("flatten() has invalid args: start_dim cannot come after end_dim")
    if not n:
        return reshape(input, (1,))
    if start == end:
        return input
    size = 1
    for k in shape[start : end + 1]:
        size *= k
    return reshape(input, (*shape[:start], size, *shape[end + 1 :]))


@composite
def unflatten(input: Tensor, dim: int, sizes: Sizes):
    """The dimension `dim` cut into several of the given sizes, of which one may be -1.

    >>> import rushlight as torch
    >>> torch.zeros(2, 12).unflatten(1, (3, -1)).shape
    torch.Size([2, 3, 4])
    """
    a = input._array
    shape = a.shape
    dim = geometry.wrap_dim(dim, len(shape))
    if sizes.__class__ is tuple and sizes and a.__class__ is ndarray and a.size:
        try:
            return view_as_sizes(input, (*shape[:dim], *sizes, *shape[dim + 1 :]))
        except RuntimeError:
            pass  # below it is said what is wrong
    sizes = tuple(sizes) if isinstance(sizes, (tuple, list)) else (sizes,)
    if not sizes:
        raise RuntimeError("unflatten: sizes must be non-empty")
    try:
        sizes = geometry.infer_size(sizes, shape[dim])
    except RuntimeError as e:
        if "only one" in str(e) or "invalid shape dimension" in str(e):
            raise
        raise RuntimeError(
            f"unflatten: Provided sizes {list(sizes)} don't multiply up to the size of dim {dim} "
            f"({shape[dim]}) in the input tensor"
        ) from None
    return view_as_sizes(input, (*shape[:dim], *sizes, *shape[dim + 1 :]))


@public(method=True)
def ravel(input: Tensor) -> Tensor:
    """The elements in row-major order as one dimension; a view of a contiguous tensor, else a copy."""
    try:
        a = input._array
    except AttributeError:  # no tensor, but it may have a `__torch_function__`
        a = None
    if a.__class__ is not ndarray or general.active.modes:
        got = overrides.call_overrides(ravel, (input,), {})
        if got is not overrides.NOTHING:
            return got
    if a.flags.c_contiguous:
        return view_as_sizes(input, (a.size,))
    return input.contiguous().reshape((-1,))


@op(view=True, where="aten", name="view_dtype", method=False)
def view_as_dtype(xp, input: Array, dtype: DType):
    """The same bytes as elements of another dtype; the last dimension grows or shrinks to fit."""
    d = dtype.np
    a, b = input.itemsize, d.itemsize
    if a == b:
        return input.view(d)
    if not input.ndim:
        raise RuntimeError(
            f"self.dim() cannot be 0 to view {dtypes.OF[input.dtype].scalar_name} as "
            f"{dtype.scalar_name} (different element sizes)"
        )
    strides = xp.element_strides(input)
    if strides[-1] != 1:
        raise RuntimeError(
            f"self.stride(-1) must be 1 to view {dtypes.OF[input.dtype].scalar_name} as "
            f"{dtype.scalar_name} (different element sizes), but got {strides[-1]}"
        )
    if b > a:
        ratio = b // a
        offset = (xp.address(input) - xp.address(xp.root(input))) // a
        checked = [("size(-1)", input.shape[-1]), ("storage_offset()", offset)]
        checked += [(f"stride({i})", stride) for i, stride in enumerate(strides[:-1])]
        for what, v in checked:
            if v % ratio:
                raise RuntimeError(
                    f"self.{what} must be divisible by {ratio} to view {dtypes.OF[input.dtype].scalar_name} as "
                    f"{dtype.scalar_name} (different element sizes), but got {v}"
                )
    if not input.size:  # NumPy forgets the strides of what has no element
        shape = (*input.shape[:-1], input.shape[-1] * a // b)
        strides = (*[s * a for s in strides[:-1]], b)
        return xp.as_strided(input.view(d), shape, strides)
    return input.view(d)


def reinterpreted(t: Tensor, dtype: Any) -> Tensor:
    """`view_as_dtype` of `t`. No gradient goes through it, and it has no base, as in PyTorch."""
    result = view_as_dtype(t, dtype)
    result._edge = None
    return result


# -- order of the dimensions -----------------------------------------------------------------------


@op(view=True)
def transpose(xp, input: Array, dim0: int, dim1: int):
    """Two dimensions swapped.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3, 4).transpose(0, 2).shape
    torch.Size([4, 3, 2])
    """
    try:
        return input.swapaxes(dim0, dim1)
    except ValueError:
        n = input.ndim
        geometry.wrap_dim(dim0, n), geometry.wrap_dim(dim1, n)
        if n:
            raise
        return input[...]


transpose.grad(input=lambda g, dim0, dim1: g.transpose(dim0, dim1))


@op(view=True)
def permute(xp, input: Array, dims: Sizes):
    """The dimensions in the given order.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3, 4).permute(2, 0, 1).shape
    torch.Size([4, 2, 3])
    """
    try:
        return input.transpose(dims)
    except ValueError:
        n = input.ndim
        if len(dims) != n:
            raise RuntimeError(
                "permute(sparse_coo): number of dimensions in the tensor input does not match the length "
                f"of the desired ordering of dimensions i.e. input.dim() = {n} is not equal to len(dims) "
                f"= {len(dims)}"
            ) from None
        wrapped = [geometry.wrap_dim(d, n) for d in dims]
        if len(set(wrapped)) < n:
            raise RuntimeError("permute(): duplicate dims are not allowed.") from None
        raise


def permute_back(g: Tensor, dims: tuple) -> Tensor:
    n = len(dims)
    back = [0] * n
    for i, d in enumerate(dims):
        back[d % n] = i
    return g.permute(tuple(back))


permute.grad(input=permute_back)


@op(view=True)
def t(xp, input: Array):
    """The transpose [m, n] of a matrix [n, m]; a vector or a 0-d tensor as it is."""
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input.T


t.grad(input=lambda g: g.t())


@composite
def swapaxes(input: Tensor, axis0: int, axis1: int):
    """`transpose` under NumPy's name."""
    return transpose(input, axis0, axis1)


@composite
def swapdims(input: Tensor, dim0: int, dim1: int):
    """`transpose` under another name."""
    return transpose(input, dim0, dim1)


@composite
def movedim(input: Tensor, source: Any, destination: Any):
    """The dimensions `source` at the places `destination`, the others in their order.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3, 4).movedim(0, -1).shape
    torch.Size([3, 4, 2])
    """
    n = input._array.ndim
    if source.__class__ is destination.__class__ is int and -n <= source < n:
        if -n <= destination < n:
            order = list(range(n))
            order.insert(destination % n, order.pop(source))
            return permute(input, tuple(order))
    given = [(d,) if isinstance(d, int) else tuple(d) for d in (source, destination)]
    if len(given[0]) != len(given[1]):
        raise RuntimeError(
            f"movedim: Invalid source or destination dims: source ({list(given[0])} dims) should "
            f"contain the same number of dims as destination ({list(given[1])} dims)"
        )
    for dims, what in zip(given, ("source", "destination"), strict=True):
        wrapped = [geometry.wrap_dim(d, n) for d in dims]
        if len(set(wrapped)) < len(dims):
            raise RuntimeError(f"movedim: repeated dim in `{what}` ({list(dims)})")
    if not n:
        return input.view(())
    sources: list = [None] * n
    for s, d in zip(*given, strict=True):
        sources[d % n] = s % n
    rest = iter(d for d in range(n) if d not in sources)
    return permute(input, tuple([next(rest) if p is None else p for p in sources]))


@composite
def moveaxis(input: Tensor, source: Any, destination: Any):
    """`movedim` under NumPy's name."""
    return movedim(input, source, destination)


@composite
def adjoint(input: Tensor):
    """The matrices conjugated and transposed."""
    if input.ndim == 1:
        raise RuntimeError(
            "tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor."
        )
    if not input.ndim:
        raise RuntimeError("tensor.adjoint() is only supported on matrices. Got 0-D tensor.")
    swapped = transpose(input, -2, -1)
    return swapped.conj() if input.is_complex() else swapped


# -- sizes of 1 ------------------------------------------------------------------------------------


@op(view=True)
def unsqueeze(xp, input: Array, dim: int):
    """A new dimension of size 1 before `dim`.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3).unsqueeze(1).shape
    torch.Size([2, 1, 3])
    """
    return xp.unsqueeze(input, dim)


unsqueeze.grad(input=lambda g, dim: g.squeeze(dim))


@op(view=True, node=("SqueezeBackward0", "SqueezeBackward1"))
def squeeze(xp, input: Array, dim: Dims = None):
    """Without the dimensions of size 1: all, or those in `dim`.

    >>> import rushlight as torch
    >>> x = torch.zeros(1, 3, 1)
    >>> x.squeeze().shape, x.squeeze(0).shape, x.squeeze(1).shape
    (torch.Size([3]), torch.Size([3, 1]), torch.Size([1, 3, 1]))
    """
    if dim is None:
        return input.squeeze()
    n, shape = input.ndim, input.shape
    if dim.__class__ is not int and len(dim) == 1:
        (dim,) = dim
    if dim.__class__ is int and -n <= dim < n:
        return input.squeeze(dim) if shape[dim] == 1 else input[...]
    dims = geometry.wrap_dims(dim, n) if n else [geometry.wrap_dim(d, 0) for d in as_dims(dim)]
    drop = tuple([d for d in dims if n and shape[d] == 1])
    return input.squeeze(drop) if drop else input[...]


squeeze.grad(input=lambda g, input_shape: g.reshape(input_shape))


def as_dims(dim: Any) -> tuple[int, ...]:
    return (dim,) if isinstance(dim, int) else tuple(dim)


# -- expanding -------------------------------------------------------------------------------------


@op(view=True, where="Tensor", node="ExpandBackward0")
def expand(xp, input: Array, size: Sizes):
    """Dimensions of size 1 stretched to `size`, new ones in front; -1 keeps a size.

    The memory of a stretched dimension is one element (stride 0): clone before writing.

    >>> import rushlight as torch
    >>> torch.tensor([[1], [2]]).expand(-1, 3)
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    return xp.expand(input, size)


expand.grad(input=lambda g, input_shape: g.sum_to_size(input_shape))


@public("Tensor")
def expand_as(self: Tensor, other: Tensor) -> Tensor:
    """`self.expand(other.shape)`."""
    return expand(self, shape_of("expand_as", other))


@composite
def broadcast_to(input: Tensor, size: Sizes):
    """`input.expand(size)`."""
    return expand(input, tuple(size))


def listed(tensors: tuple) -> list[Tensor]:
    """The tensors of `f(a, b)` or `f([a, b])`."""
    if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)):
        tensors = tuple(tensors[0])
    for k, x in enumerate(tensors):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"expected Tensor as element {k} in argument 0, but got {results.kind(x)}"
            )
    return list(tensors)


@public()
def broadcast_tensors(*tensors: Any) -> tuple[Tensor, ...]:
    """All tensors expanded to their common shape.

    >>> import rushlight as torch
    >>> a, b = torch.broadcast_tensors(torch.zeros(3, 1), torch.zeros(2))
    >>> a.shape, b.shape
    (torch.Size([3, 2]), torch.Size([3, 2]))
    """
    given = listed(tensors)
    shape = geometry.broadcast_shapes(*(x._array.shape for x in given))
    return tuple([x if x._array.shape == shape else expand(x, shape) for x in given])


@public()
def broadcast_shapes(*shapes: Any) -> Any:
    """The common shape of tensors of these shapes.

    >>> import rushlight as torch
    >>> torch.broadcast_shapes((3, 1), (2,), 1)
    torch.Size([3, 2])
    """
    return Size(
        geometry.broadcast_shapes(*((s,) if isinstance(s, int) else tuple(s) for s in shapes))
    )
