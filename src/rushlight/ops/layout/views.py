"""Views of parts of a tensor, and of its memory in another way: `as_strided`, `diagonal`..."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy import ndarray

from rushlight.autograd.graph import AccumulateGrad, new
from rushlight.autograd.state import active, thread
from rushlight.autograd.views import View, check_writable, edge_of, hides_history
from rushlight.core import dtypes, geometry, settings
from rushlight.core.tensor import INFERENCE, Tensor, _bump, _wrap
from rushlight.dispatch import general, handlers, overrides, results
from rushlight.dispatch.registry import Array, op, public
from rushlight.ops.layout.complex_parts import view_as_complex, view_as_real
from rushlight.ops.layout.joining import (
    at_least_1d,
    at_least_2d,
    at_least_3d,
    split,
    split_with_sizes,
    unbind,
)
from rushlight.ops.layout.regions import alias, basic_index, narrow, select, slice_dim
from rushlight.ops.layout.shape import (
    expand,
    permute,
    squeeze,
    t,
    transpose,
    unsqueeze,
    view,
)

if TYPE_CHECKING:
    from rushlight.dispatch.registry import Sizes  # type: ignore[attr-defined]

    Ints = tuple[int, ...]

EVERYTHING = slice(None)


# -- as_strided ------------------------------------------------------------------------------------

# Note [Gradients of as_strided]
#     The memory behind a tensor is a vector s; the tensor x is read from it at the places I (its own
#     geometry), the result at the places O. Backward adds the gradient into zeros at O and reads it
#     at I. Where several elements of x are one place of s, they share what arrived there equally.


@op(view=True, where="aten", name="as_strided", node="AsStridedBackward0", method=False)
def strided_view(
    xp, input: Array, size: Ints, stride: Ints, storage_offset: Any, own: Ints, start: int
):
    """The memory of `input` under any size and strides; `own` are its strides, `start` is its storage offset."""
    return xp.within_memory(input, size, stride, storage_offset)


def strided_back(
    g: Tensor,
    input_shape: Ints,
    size: Ints,
    stride: Ints,
    storage_offset: Any,
    own: Ints,
    start: int,
) -> Tensor:
    shift = 0 if storage_offset is None else storage_offset - start
    return restride(g, size, stride, shift, input_shape, own, 0, "to")


strided_view.grad(input=strided_back)


@op(where="aten", node="AsStridedBackwardBackward0", method=False)
def restride(
    xp,
    input: Array,
    size_from: Ints,
    stride_from: Ints,
    offset_from: int,
    size_to: Ints,
    stride_to: Ints,
    offset_to: int,
    mean: str,
):
    """Add `input` into zeroed memory under one geometry, read it under another.

    `mean`: under which of the two ("from", "to") elements at one place share its value.
    """
    return xp.as_strided_gradient(
        input, (size_from, stride_from, offset_from), (size_to, stride_to, offset_to), mean
    )


def restride_back(
    g: Tensor,
    size_from: Ints,
    stride_from: Ints,
    offset_from: int,
    size_to: Ints,
    stride_to: Ints,
    offset_to: int,
    mean: str,
) -> Tensor:
    other = "from" if mean == "to" else "to"
    return restride(g, size_to, stride_to, offset_to, size_from, stride_from, offset_from, other)


restride.grad(input=restride_back)


@public(method=True)
def as_strided(
    input: Tensor, size: Sizes, stride: Sizes, storage_offset: int | None = None
) -> Tensor:
    """The memory of `input` under any size and strides (in elements), from `storage_offset` on.

    RuntimeError when that leaves the memory. Elements may overlap: clone before writing then.

    >>> import rushlight as torch
    >>> torch.arange(5).as_strided((3, 3), (1, 1))
    tensor([[0, 1, 2],
            [1, 2, 3],
            [2, 3, 4]])
    """
    if input._array.__class__ is not ndarray or general.active.modes:
        arguments = input, size, stride, storage_offset
        if (got := overrides.call_overrides(as_strided, arguments, {})) is not overrides.NOTHING:
            return got
    start = input._offset
    return strided_view(input, tuple(size), tuple(stride), storage_offset, input._strides, start)


@op(where="aten", node="CloneBackward0", method=False)
def laid_out(xp, input: Array, strides: Ints):
    """A copy with the given strides (in bytes); as it is where they overlap."""
    if geometry.has_internal_overlap(input.shape, strides):
        return input
    k = input.itemsize
    n = xp.extent(input.shape, tuple([s // k for s in strides]))
    r = xp.as_strided(xp.zeros(max(n, 1), input.dtype), input.shape, strides)
    r[...] = input
    return r


laid_out.grad(input=lambda g: g)


# -- diagonals and windows -------------------------------------------------------------------------


@op(view=True)
def diagonal(xp, input: Array, offset: int = 0, dim1: int = 0, dim2: int = 1):
    """The diagonal of two dimensions as the last dimension; `offset` > 0: above the main one.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).diagonal()
    tensor([1, 4])
    """
    return xp.diagonal(input, offset, dim1, dim2)


diagonal.grad(
    input=lambda g, input_shape, offset, dim1, dim2: diagonal_gradient(
        g, input_shape, offset, dim1, dim2
    )
)


@op(where="aten", node="DiagonalBackwardBackward0", method=False)
def diagonal_gradient(xp, grad: Array, shape: Ints, offset: int, dim1: int, dim2: int):
    """Zeros of `shape` with `grad` on the diagonal."""
    z = xp.zeros(shape, grad.dtype)
    DIAGONAL.declared(xp, z, offset, dim1, dim2)[...] = grad
    return z


diagonal_gradient.grad(
    grad=lambda g, offset, dim1, dim2: g.diagonal(offset=offset, dim1=dim1, dim2=dim2)
)
DIAGONAL = diagonal.op


@op(view=True, where="Tensor", node="UnfoldBackward0")
def unfold(xp, input: Array, dimension: int, size: int, step: int):
    """All windows of `size` elements in a dimension, `step` apart, as a new last dimension.

    >>> import rushlight as torch
    >>> torch.arange(5).unfold(0, 3, 2)
    tensor([[0, 1, 2],
            [2, 3, 4]])
    """
    n = input.ndim
    d = geometry.wrap_dim(dimension, n)
    length = input.shape[d] if n else 1
    if size < 0:
        raise RuntimeError(f"size is {size} but must be >= 0")
    if size > length:
        raise RuntimeError(
            f"maximum size for tensor at dimension {dimension} is {length} but size is {size}"
        )
    if step <= 0:
        raise RuntimeError(f"step is {step} but must be > 0")
    if not n:
        return xp.as_strided(input, (size,), (input.itemsize,))
    shape, strides = list(input.shape), list(input.strides)
    own = strides[d]
    shape[d] = (length - size) // step + 1
    strides[d] = own * step
    return xp.as_strided(input, (*shape, size), (*strides, own))


@op(where="aten", node="UnfoldBackwardBackward0", method=False)
def unfold_gradient(xp, grad: Array, shape: Ints, dimension: int, size: int, step: int):
    """The windows added up at their places."""
    z = xp.zeros(shape, grad.dtype)
    if not shape:
        return grad.reshape(()) if size else z
    d = dimension % len(shape)
    into = z.swapaxes(d, -1)
    windows = grad.swapaxes(d, -2)
    count = grad.shape[d]
    if size < count:  # the same additions in the same order, in fewer steps
        for i in reversed(range(size)):
            into[..., i : i + (count - 1) * step + 1 : step] += windows[..., i]
    else:
        for k in range(count):
            into[..., k * step : k * step + size] += windows[..., k, :]
    return z


unfold.grad(
    input=lambda g, input_shape, dimension, size, step: unfold_gradient(
        g, input_shape, dimension, size, step
    )
)
unfold_gradient.grad(grad=lambda g, dimension, size, step: g.unfold(dimension, size, step))


# -- splitting at given places ---------------------------------------------------------------------


@public(method=True)
def tensor_split(
    input: Tensor,
    indices_or_sections: Any = None,
    dim: int = 0,
    *,
    indices: Any = None,
    sections: Any = None,
) -> tuple[Tensor, ...]:
    """Views of `n` parts as equal as can be, or of the parts between the given indices.

    >>> import rushlight as torch
    >>> [len(p) for p in torch.arange(7).tensor_split(3)]
    [3, 2, 2]
    """
    where = indices_or_sections
    if where is None:
        where = sections if indices is None else indices
        if where is None:
            raise TypeError("tensor_split() missing a required argument: indices or sections")
    return parts_at(input, where, dim)


def parts_at(input: Tensor, where: Any, dim: int) -> tuple[Tensor, ...]:
    """`tensor_split`."""
    shape = input._array.shape
    if not shape:
        raise RuntimeError(
            "tensor_split expected at least a 1-dimensional tensor, but got a tensor with 0 dims"
        )
    d = geometry.wrap_dim(dim, len(shape))
    n = shape[d]
    if isinstance(where, Tensor):
        what = "tensor_split expected tensor_indices_or_sections to "
        if where.dtype is not dtypes.int64:
            raise RuntimeError(f"{what}have dtype of long, but got {where.dtype.scalar_name}")
        if where.ndim > 1:
            raise RuntimeError(
                f"{what}be a zero-dimensional or one-dimensional tensor, but got a tensor with "
                f"{where.ndim} dims"
            )
        where = where.tolist()
    before = (EVERYTHING,) * d
    if isinstance(where, (tuple, list)):
        ends = [*where, n]
    else:
        if where <= 0:
            raise RuntimeError(f"number of sections must be larger than 0, got {where}")
        small, larger = divmod(n, where)
        ends = [i * small + min(i, larger) for i in range(1, where + 1)]
    parts, start = [], 0
    for end in ends:
        parts.append(basic_index(input, (*before, slice(start, end))))
        start = end
    return tuple(parts)


def split_along(name: str, least: int, dim: Any) -> Any:
    doc = f"`tensor_split` at dimension {'1 (0 of a vector)' if name[0] == 'h' else dim(3)}."

    @public(name=name, doc=doc, method=True)
    def function(input: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
        n = input._array.ndim
        if n < least:
            raise RuntimeError(
                f"torch.{name} requires a tensor with at least {least} dimension"
                f"{'s' if least > 1 else ''}, but got a tensor with {n} dimensions!"
            )
        d = dim(n)
        size = input._array.shape[d]
        if isinstance(indices_or_sections, int):
            if indices_or_sections <= 0 or size % indices_or_sections:
                raise RuntimeError(
                    f"torch.{name} attempted to split along dimension {d}, but the size of the "
                    f"dimension {size} is not divisible by the split_size {indices_or_sections}!"
                )
        return parts_at(input, indices_or_sections, d)

    return function


hsplit = split_along("hsplit", 1, lambda n: 0 if n == 1 else 1)
vsplit = split_along("vsplit", 2, lambda n: 0)
dsplit = split_along("dsplit", 3, lambda n: 2)


# -- copies of views -------------------------------------------------------------------------------


@op(where="aten", node="CloneBackward0", method=False, out=False, first="row_major")
def row_major(xp, input: Array):
    """A row-major copy."""
    return xp.row_major(input)


row_major.grad(input=lambda g: g)


def copied(view: Tensor) -> Tensor:
    """A row-major copy; of a sparse tensor, a copy in its layout."""
    a, e = view._array, view._edge
    if a.__class__ is ndarray and not general.active.modes:
        if e is None or e.__class__ is View and e.node is None and e.base._edge is None:
            return _wrap(general.xp.row_major(a))
    if a.__class__ is ndarray or view.layout is dtypes.strided:
        return row_major(view)
    return view.clone()


def narrowed(input: Tensor, dim: int, start: Any, length: int) -> Tensor:
    """`narrow`, of a sparse tensor too, which has no views."""
    if input._array.__class__ is ndarray or not input.is_sparse:
        return narrow.__wrapped__(input, dim, start, length)  # who overrides the copy was asked
    from rushlight.ops.sparse import coordinates

    return coordinates.narrowed(input, dim, start, length)


def clone_operator() -> Any:
    from rushlight.ops.factories import copying

    return getattr(copying.clone, "op", copying.clone)


def copy_of(name: str, make: Any) -> None:
    """Declare `name_copy`: what the view function `name` shows, copied."""
    tensors = name == "narrow"  # where it begins may be a tensor

    @public(name=f"{name}_copy", doc=f"A copy of what `{name}` shows.", method=name == "narrow")
    def function(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if input.__class__ is not Tensor or active.modes or out is not None or tensors:
            given = kwargs if out is None else kwargs | {"out": out}
            got = overrides.call_overrides(function, (input, *args), given)
            if got is not overrides.NOTHING:
                return got
        made = make(input, *args, **kwargs)
        several = isinstance(made, tuple)
        result = tuple([copied(v) for v in made]) if several else copied(made)
        if out is None:
            return result
        results.write_out(clone_operator(), out, result, (input,))
        return None if several else out


def viewed(input: Tensor, *shape: Any, size: Any = None, dtype: Any = None) -> Any:
    """What `view` shows; where no strides give the memory that shape, the elements in order under it."""
    first = shape[0] if shape else size
    if dtype is not None or isinstance(first, dtypes.dtype):
        return view(input, first if dtype is None else dtype)
    return input.reshape(*(shape or (size,)))


for _name, _function in {
    "alias": alias, "as_strided": as_strided, "detach": Tensor.detach, "diagonal": diagonal,
    "expand": expand, "narrow": narrowed, "permute": permute, "select": select, "slice": slice_dim,
    "split": split, "split_with_sizes": split_with_sizes, "squeeze": squeeze, "t": t,
    "transpose": transpose, "unbind": unbind, "unfold": unfold, "unsqueeze": unsqueeze,
    "view": viewed, "view_as_real": view_as_real, "view_as_complex": view_as_complex,
}.items():  # fmt: skip
    copy_of(_name, _function)


# -- at least so many dimensions -------------------------------------------------------------------


def each(tensors: tuple, one: Any) -> Any:
    if len(tensors) == 1:
        if isinstance(tensors[0], (tuple, list)):
            tensors = tuple(tensors[0])
        else:
            return one(tensors[0], tensors[0].ndim)
    return tuple([one(x, x.ndim) for x in tensors])


@public()
def atleast_1d(*tensors: Any) -> Any:
    """Each tensor with at least one dimension."""
    return each(tensors, at_least_1d)


@public()
def atleast_2d(*tensors: Any) -> Any:
    """Each tensor with at least two dimensions: (N,) becomes (1, N)."""
    return each(tensors, at_least_2d)


@public()
def atleast_3d(*tensors: Any) -> Any:
    """Each tensor with at least three dimensions: (N,) becomes (1, N, 1), (M, N) becomes (M, N, 1)."""
    return each(tensors, at_least_3d)


# -- the tensor itself becomes its view ------------------------------------------------------------


def in_place(name: str, function: Any) -> None:
    doc = f"In-place `{name}`: the tensor itself gets the other shape, on the same memory."

    @public("Tensor", name=f"{name}_", doc=doc)
    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        if active.modes or handlers.made:
            if thread.function_modes:
                got = overrides.call_overrides(getattr(Tensor, f"{name}_"), (self, *args), kwargs)
                if got is not overrides.NOTHING:
                    return got
        if self._counter is INFERENCE:
            results.refuse_inference_write()
        elif thread.grad and edge_of(self) is not None or hides_history(self):
            check_writable(self, name + "_")
        if (active.modes or handlers.made) and handlers.asked((self,)):
            handlers.carried["overwrite"](self, name + "_", (*args, *kwargs.values()))
            return self
        before = new(Tensor)  # the tensor as it was: what the view is a view of
        before._array, before._edge, before._counter = self._array, self._edge, self._counter
        modes, e = (thread.grad, thread.inference), self._edge
        if e is not None and (e.__class__ is not View or e.node is not None):
            # the history of the tensor goes on, also where nothing is recorded
            thread.grad, thread.inference = True, False
        try:
            made = function(before, *args, **kwargs)
        finally:
            thread.grad, thread.inference = modes
        if self._counter is None:
            self._counter = before._counter
        _bump(self)
        if made is before:
            return self
        self._array = made._array
        view = made._edge
        if self._edge.__class__ is View:
            view.seen, view.kind = view.version.n, self._edge.kind
            self._edge = view
        elif self._edge.__class__ is AccumulateGrad:
            self._edge.array = self._array
        else:  # views of the former shape cannot be derived again from this one: see View.resolve
            self._edge = view.node if view.__class__ is View else None
            if self._counter is not INFERENCE:
                self._counter.reshaped = {id(self): self._version}
        return self


for _name, _function in (
    ("t", t), ("transpose", transpose), ("swapaxes", transpose), ("swapdims", transpose),
    ("squeeze", squeeze), ("unsqueeze", unsqueeze), ("as_strided", as_strided),
):  # fmt: skip
    in_place(_name, _function)


# -- properties ------------------------------------------------------------------------------------


@public("Tensor")
def numpy_T(self: Tensor) -> Tensor:
    """The dimensions in reverse order (`x.T`)."""
    n = self._array.ndim
    if n == 2:
        return permute(self, (1, 0))
    if n:
        settings.warn_once(
            "The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated "
            "and it will throw an error in a future release. Consider `x.mT` to transpose batches of "
            "matrices or `x.permute(*torch.arange(x.ndim - 1, -1, -1))` to reverse the dimensions of a "
            "tensor."
        )
    return permute(self, tuple(range(n - 1, -1, -1)))


@public("Tensor")
def matrix_T(self: Tensor) -> Tensor:
    """The last two dimensions swapped (`x.mT`)."""
    n = self._array.ndim
    if n < 2:
        raise RuntimeError(
            f"tensor.mT is only supported on matrices or batches of matrices. Got {n}-D tensor."
        )
    return transpose(self, -2, -1)


@public("Tensor")
def matrix_H(self: Tensor) -> Tensor:
    """A matrix conjugated and transposed (`x.H`)."""
    n = self._array.ndim
    if n not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {n}-D tensor."
        )
    return self.adjoint() if n else self.conj()


@public("Tensor")
def matrices_H(self: Tensor) -> Tensor:
    """The matrices in the last two dimensions conjugated and transposed (`x.mH`)."""
    if self._array.ndim < 2:
        raise RuntimeError(
            "tensor.mH is only supported on matrices or batches of matrices. Got "
            f"{self._array.ndim}-D tensor."
        )
    return self.adjoint()
