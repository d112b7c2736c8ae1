"""Several tensors from one, and one from several: `split`, `unbind`, `cat`, `stack`."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rushlight._backends import cpu as xp
from rushlight._backends import llvm
from rushlight.autograd.graph import Node, Output, new, version_of
from rushlight.autograd.state import thread
from rushlight.autograd.views import DEFAULT, MULTI, NO_GRAD, View, edge_of
from rushlight.core import dtypes, geometry
from rushlight.core.tensor import INFERENCE, Tensor, _wrap
from rushlight.dispatch import general, results
from rushlight.dispatch.record import SHAPE, STATIC, OutputInfo, plan
from rushlight.dispatch.registry import OPS, Array, Arrays, Op, op, public
from rushlight.ops.layout.regions import slice_dim
from rushlight.ops.layout.shape import reshape

EVERYTHING = slice(None)
ndarray = np.ndarray


PLAIN = {ndarray}
LARGE = 1 << 16  # elements of a stack that are work worth counting: batches profit from the pool


def quick_list(op: Op, kernel: str, direct: Any) -> Any:
    """The public function of an operator on a list of tensors: short for the commonest call.

    The kernel gives the result for row-major arrays of one dtype, `direct(arrays, dim)` for others of one
    dtype; both may give None, and `op` looks closer.
    """
    forward = op.declared

    def function(tensors: Any, dim: int = 0, *, out: Any = None, axis: Any = None) -> Tensor:
        if axis is not None:
            dim = axis
        if out is None and not general.active.modes and tensors.__class__ in (list, tuple):
            try:
                arrays = [t._array for t in tensors]
            except AttributeError:
                arrays = []
            joined = getattr(xp, kernel)(arrays, dim)
            if joined is not None or {*map(type, arrays)} == PLAIN:
                if joined is None:
                    joined = direct(arrays, dim)
                result = _wrap(forward(xp, arrays, dim) if joined is None else joined)
                if thread.grad:
                    edges = [t._edge for t in tensors]
                    for k, e in enumerate(edges):
                        if e.__class__ is View:
                            # Views of what needs no gradient (rows of a data set) are not recorded.
                            edges[k] = e.node if e.seen == e.version.n else e.resolve()
                    if {*edges} != NOTHING and result._array.dtype.kind in "fcV":
                        result._edge = node_of(op, arrays, edges, dim, result)
                return result
        if tensors.__class__ in (list, tuple):
            for k, t in enumerate(tensors):
                if t is None:
                    raise TypeError(
                        f"expected Tensor as element {k} in argument 0, but got NoneType"
                    )
        return general.call(op, (tensors, dim, out))

    function.__name__ = function.__qualname__ = op.name
    function.__doc__ = forward.__doc__
    op.public_function = function
    return public()(function)


NOTHING = {None}


def node_of(op: Op, arrays: list, edges: list, dim: int, result: Tensor) -> Node:
    """The node of a call of an operator on a list whose rule reads shapes, dtypes and `dim`."""
    kind, read = recorded_as(op)
    node = new(kind)
    node.edges = tuple(edges)
    node.unbroadcast_to = tuple(
        [None if e is None else (a.shape, a.dtype) for a, e in zip(arrays, edges, strict=True)]
    )
    node.hooks = node.result_version = node.saved = None
    node.outputs = [OutputInfo(result._array)]
    values: dict[str, Any] = {}
    for name, what, _ in read:
        if what == SHAPE:
            values[name] = [a.shape for a in arrays]
        else:
            values[name] = dim if what == STATIC else [dtypes.OF[a.dtype] for a in arrays]
    node.statics = values, False
    return node


@functools.cache
def recorded_as(op: Op) -> tuple[type, list]:
    """The class of an operator's general nodes, and what its rule reads."""
    return op.classes(op.node_name())[1], plan(op, op.inputs)


def quick_views(op: Op, input: Tensor, *args: Any) -> tuple[Tensor, ...]:
    """The results of an operator that gives several views: short for the commonest call."""
    a = input._array
    if a.__class__ is not ndarray or general.active.modes or input._counter is INFERENCE:
        return general.call(op, (input, *args))
    arrays = op.declared(xp, a, *args)
    if not arrays:
        return ()
    e, recording = input._edge, thread.grad
    edge = None if e is None or not recording else edge_of(input)
    if edge is not None and a.dtype.kind in "fcV":
        made, read = recorded_as(op)
        node = new(made)
        node.edges, node.unbroadcast_to = (edge,), ((a.shape, a.dtype),)
        node.hooks = node.result_version = node.saved = None
        node.outputs = [OutputInfo(b) for b in arrays]
        node.statics = {n: args[op.params.index(n) - 1] for n, _, _ in read}, False
    else:
        node = None
    version = version_of(input)
    base, parent = (e.base, e) if e.__class__ is View else (input, None)
    seen, kind = version.n, MULTI if recording else NO_GRAD
    if e.__class__ is View and e.kind != DEFAULT and not recording:
        kind = e.kind
    makes, results = each_of(op, len(arrays)), []
    several = len(arrays) > 1
    for nr, b in enumerate(arrays):
        t = new(Tensor)
        t._array = b
        v = t._edge = new(View)  # as View() makes it, once for all
        v.base, v.parent, v.make, v.args = base, parent, makes[nr], args
        v.node = Output(node, nr) if several and node is not None else node
        v.version, v.seen, v.kind = version, seen, kind
        t._counter = version
        results.append(t)
    return tuple(results)


_nths: dict[Op, list[Nth]] = {}


def each_of(op: Op, count: int) -> list[Nth]:
    """What makes each of the results of an operator again."""
    made = _nths.setdefault(op, [])
    while len(made) < count:
        made.append(Nth(op, len(made)))
    return made


class Nth:
    """One of the results of an operator that gives several."""

    __slots__ = ("op", "nr")

    def __init__(self, op: Op, nr: int) -> None:
        self.op, self.nr = op, nr

    def __call__(self, *args: Any) -> Tensor:
        return self.op(*args)[self.nr]


# -- one into several: all views -------------------------------------------------------------------


def pieces(input: Any, dim: int, lengths: Any) -> list:
    """Consecutive slices of an array."""
    before = (EVERYTHING,) * dim
    parts, start = [], 0
    if not dim:
        for n in lengths:
            parts.append(input[start : start + n])
            start += n
        return parts
    for n in lengths:
        parts.append(input[(*before, slice(start, start + n))])
        start += n
    return parts


def join_back(g: list, dim: int) -> Tensor:
    return cat(g, dim)


@op(view=True, outputs="list", where="aten", name="split", node="SplitBackward0", method=False)
def split_even(xp, input: Array, split_size: int, dim: int):
    """Slices of `split_size`, the last one shorter; `dim` is not negative."""
    n = input.shape[dim]
    count = max((n + split_size - 1) // split_size, 1) if split_size else 1
    return pieces(input, dim, [min(split_size, n - i * split_size) for i in range(count)])


SPLIT: Op = split_even.grad(input=lambda g, dim: join_back(g, dim)).op


@op(
    view=True, outputs="list", where="aten", name="split_with_sizes", method=False,
    node="SplitWithSizesBackward0",
)  # fmt: skip
def split_lengths(xp, input: Array, split_sizes: Any, dim: int = 0):
    """Consecutive slices of the given lengths, which add up to the size of the dimension."""
    if not input.ndim:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    dim = geometry.wrap_dim(dim, input.ndim)
    for n in split_sizes:
        if n < 0:
            raise RuntimeError(
                "split_with_sizes expects split_sizes have only non-negative entries, but got "
                f"split_sizes={list(split_sizes)}"
            )
    if sum(split_sizes) != input.shape[dim]:
        raise RuntimeError(
            f"split_with_sizes expects split_sizes to sum exactly to {input.shape[dim]} (input tensor's "
            f"size at dimension {dim}), but got split_sizes={list(split_sizes)}"
        )
    return pieces(input, dim, split_sizes)


LENGTHS: Op = split_lengths.grad(input=lambda g, dim: join_back(g, dim)).op


@public(method=True)
def split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts of the given lengths, which add up to the size of the dimension."""
    return quick_views(LENGTHS, input, tuple(split_sizes), dim)


@public(method=True)
def split(tensor: Tensor, split_size_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of consecutive parts, of one size (the last may be smaller) or of the sizes given.

    >>> import rushlight as torch
    >>> torch.arange(5).split(2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    size = split_size_or_sections
    if isinstance(size, (tuple, list)):
        return split_with_sizes(tensor, tuple(size), dim)
    shape = tensor._array.shape
    if not shape:
        raise RuntimeError("split expects at least a 1-dimensional tensor")
    if isinstance(size, Tensor):
        size = int(size)
    if size < 0:
        raise RuntimeError(f"split expects split_size be non-negative, but got split_size={size}")
    dim = geometry.wrap_dim(dim, len(shape))
    if not size and shape[dim]:
        raise RuntimeError(
            "split_size can only be 0 if dimension size is 0, but got dimension size of "
            f"{shape[dim]}"
        )
    return quick_views(SPLIT, tensor, size, dim)


@public(method=True)
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` views of consecutive parts, equal but for a smaller last one.

    >>> import rushlight as torch
    >>> [len(c) for c in torch.arange(7).chunk(3)]
    [3, 3, 1]
    """
    shape = input._array.shape
    if not shape:
        raise RuntimeError("chunk expects at least a 1-dimensional tensor")
    if chunks <= 0:
        raise RuntimeError(f"chunk expects `chunks` to be greater than 0, got: {chunks}")
    dim = geometry.wrap_dim(dim, len(shape))
    size = (shape[dim] + chunks - 1) // chunks
    if not size:  # nothing to share out: as many empty chunks as asked for
        return split_with_sizes(input, (0,) * chunks, dim)
    return quick_views(SPLIT, input, size, dim)


@op(view=True, outputs="list", where="aten", name="unbind", node="UnbindBackward0", method=False)
def unbind_arrays(xp, input: Array, dim: int = 0):
    """The forward of `unbind`."""
    if not input.ndim:
        raise IndexError("Dimension specified as 0 but tensor has no dimensions")
    dim = geometry.wrap_dim(dim, input.ndim)
    if not dim and input.ndim > 1 and input.size:
        return list(input)
    before = (EVERYTHING,) * dim
    return [input[(*before, i, ...)] for i in range(input.shape[dim])]


UNBIND: Op = unbind_arrays.grad(input=lambda g, dim: stack(g, dim)).op


@public(method=True)
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """All slices along a dimension, without it.

    >>> import rushlight as torch
    >>> torch.tensor([[1, 2], [3, 4]]).unbind(1)
    (tensor([1, 3]), tensor([2, 4]))
    """
    return quick_views(UNBIND, input, dim)


SPLIT.public_function, LENGTHS.public_function, UNBIND.public_function = (
    split,
    split_with_sizes,
    unbind,
)


# -- several into one ------------------------------------------------------------------------------


def common(arrays: list) -> dtypes.dtype:
    """The dtype that all arrays promote to; those without dimensions count less."""
    dim = zero = None
    for a in arrays:
        d = dtypes.OF[a.dtype]
        if a.ndim:
            dim = d if dim is None else dtypes.promote_types(dim, d)
        else:
            zero = d if zero is None else dtypes.promote_types(zero, d)
    return dtypes.result_dtype(dim, zero, None)


@op(where="aten", name="cat", node="CatBackward0", method=False)
def cat_arrays(xp, tensors: Arrays, dim: int = 0):
    """The tensors one after the other along a dimension; the other sizes agree.

    Tensors of shape (0,) are left out, whatever the shape of the others.

    >>> import rushlight as torch
    >>> torch.cat((torch.tensor([1, 2]), torch.tensor([3])))
    tensor([1, 2, 3])
    """
    if not tensors:
        raise ValueError("torch.cat(): expected a non-empty list of Tensors")
    first = tensors[0]
    for i, a in enumerate(tensors):
        if not a.ndim:
            raise RuntimeError(f"zero-dimensional tensor (at position {i}) cannot be concatenated")
        if a.dtype is not first.dtype:
            d = common(tensors).np
            tensors = [b if b.dtype is d else xp.cast(b, d) for b in tensors]
            break
    try:
        kept = [a for a in tensors if a.shape != (0,)]
        if not kept:  # as in PyTorch, whatever `dim` is
            return tensors[0].copy()
        n = kept[0].ndim
        dim = geometry.wrap_dim(dim, n)
        if (
            n >= 4
            and all(geometry.is_channels_last(a.shape, xp.element_strides(a)) for a in kept)
            and not (all(a.flags.c_contiguous for a in kept))
        ):
            order = (0, *range(2, n), 1)
            back = (0, n - 1, *range(1, n - 1))
            at = order.index(dim)
            return xp.concatenate([a.transpose(order) for a in kept], at).transpose(back)
        if first.size >= LARGE and same_but(kept, dim):
            return xp.cat(kept, dim)
        r = xp.concatenate(kept, dim)
        return r if r.flags.c_contiguous else r.copy(order="C")
    except ValueError:
        first = kept[0]
        for i, a in enumerate(tensors):
            if a.shape == (0,):
                continue
            if a.ndim != first.ndim:
                raise RuntimeError(
                    f"Tensors must have same number of dimensions: got {first.ndim} and {a.ndim}"
                ) from None
            if a.shape[:dim] != first.shape[:dim] or a.shape[dim + 1 :] != first.shape[dim + 1 :]:
                d = next(d for d in range(a.ndim) if d != dim and a.shape[d] != first.shape[d])
                raise RuntimeError(
                    f"Sizes of tensors must match except in dimension {dim}. Expected size "
                    f"{first.shape[d]} but got size {a.shape[d]} for tensor number {i} in the list."
                ) from None
        raise


def cat_back(g: Tensor, tensors_shape: list, tensors_dtype: list, dim: int) -> list:
    n = g._array.ndim
    dim %= n
    parts, start = [], 0
    for shape, dtype in zip(tensors_shape, tensors_dtype, strict=True):
        if shape == (0,) and n != 1:
            parts.append(g.new_zeros((0,)))
            continue
        part = slice_dim(g, dim, start, start + shape[dim])
        if part.dtype is not dtype:
            part = part.real if part.dtype.is_complex and not dtype.is_complex else part
        parts.append(part)
        start += shape[dim]
    return parts


cat_arrays.grad(tensors=cat_back)


def cat_direct(arrays: list, dim: int) -> np.ndarray | None:
    """`cat` of arrays that NumPy joins as they are: of one dtype, none left out, no channels last."""
    first = arrays[0]
    n = first.ndim
    if not 0 < n < 4 or dim.__class__ is not int or not -n <= dim < n:
        return None
    if first.size >= LARGE and llvm.active and same_but(arrays, dim):
        return xp.cat(arrays, dim)
    try:  # without casts: NumPy's promotion is not PyTorch's
        return xp.concatenate(arrays, dim, out=ordered(arrays, dim), casting="no")
    except (TypeError, ValueError, IndexError):
        return None


def same_but(arrays: list, dim: int) -> bool:
    """Whether arrays have one dtype, and one shape but for `dim`."""
    first = arrays[0]
    dim %= first.ndim
    before, after = first.shape[:dim], first.shape[dim + 1 :]
    return all(
        a.dtype is first.dtype
        and a.ndim == first.ndim
        and a.shape[:dim] == before
        and a.shape[dim + 1 :] == after
        for a in arrays
    )


def ordered(arrays: list, dim: int) -> np.ndarray:
    """Memory for arrays joined along `dim`, in the ordinary order: NumPy would keep the arrays' own,
    and copying from that order once more takes 40 times as long."""
    shape = list(arrays[0].shape)
    shape[dim] = sum([a.shape[dim] for a in arrays])
    return xp.empty(shape, arrays[0].dtype)


cat: Any = quick_list(OPS["aten.cat"], "cat_contiguous", cat_direct)
public(name="concat")(cat)
public(name="concatenate")(cat)


@op(where="aten", name="stack", node="StackBackward0", method=False)
def stack_arrays(xp, tensors: Arrays, dim: int = 0):
    """The tensors, all of one shape, along a new dimension.

    >>> import rushlight as torch
    >>> torch.stack((torch.tensor([1, 2]), torch.tensor([3, 4])), 1)
    tensor([[1, 3],
            [2, 4]])
    """
    if not tensors:
        raise RuntimeError("stack expects a non-empty TensorList")
    first = tensors[0]
    shape = first.shape
    dim = geometry.wrap_dim(dim, len(shape) + 1)
    for i, a in enumerate(tensors):
        if a.shape != shape:
            raise RuntimeError(
                f"stack expects each tensor to be equal size, but got {list(shape)} at entry 0 and "
                f"{list(a.shape)} at entry {i}"
            )
        if a.dtype is not first.dtype:
            d = common(tensors).np
            tensors = [b if b.dtype is d else xp.cast(b, d) for b in tensors]
    new = (*shape[:dim], 1, *shape[dim:])
    if first.size >= LARGE and all(a.dtype is first.dtype for a in tensors):
        return xp.cat([a.reshape(new) for a in tensors], dim)
    r = xp.concatenate([a.reshape(new) for a in tensors], dim)
    return r if r.flags.c_contiguous else r.copy(order="C")


stack_arrays.grad(tensors=lambda g, dim: list(unbind(g, dim)))


def stack_direct(arrays: list, dim: int) -> np.ndarray | None:
    """`stack` of arrays without dimensions."""
    first = arrays[0]
    if dim.__class__ is not int or dim:
        return None
    if not first.ndim:
        try:
            r = xp.asarray(arrays)
        except ValueError:  # others have dimensions
            return None
        # Where NumPy's promotion ends at the dtype of the first, PyTorch's does too.
        return r if r.dtype is first.dtype and r.ndim == 1 else None
    return None


stack: Any = quick_list(OPS["aten.stack"], "stack_contiguous", stack_direct)


def joined(name: str, shaped: Any, dim: Any) -> Any:
    """Declare `name`: the tensors, each brought to enough dimensions, joined along one of them."""

    def function(tensors: Any, *, out: Any = None) -> Tensor:
        if not isinstance(tensors, (tuple, list)):
            raise TypeError(
                f"{name}(): argument 'tensors' (position 1) must be tuple of Tensors, not "
                + results.kind(tensors)
            )
        if not tensors:
            raise RuntimeError(f"{name} expects a non-empty TensorList")
        parts = [shaped(x) for x in tensors]
        d = dim(parts)
        return cat(parts, d) if out is None else cat(parts, d, out=out)

    function.__name__ = function.__qualname__ = name
    return function


def column(x: Tensor) -> Tensor:
    return reshape(x, (x.numel(), 1)) if x.ndim <= 1 else x


def at_least(n: int) -> Any:
    def shaped(x: Tensor) -> Tensor:
        from rushlight.ops.layout import views

        return getattr(views, f"atleast_{n}d")(x)

    return shaped


hstack = joined("hstack", at_least(1), lambda parts: 0 if parts[0].ndim == 1 else 1)
hstack.__doc__ = "The tensors side by side: along dimension 1, vectors along dimension 0."
vstack = joined("vstack", at_least(2), lambda parts: 0)
vstack.__doc__ = "The tensors on top of each other: along dimension 0, vectors as rows."
dstack = joined("dstack", at_least(3), lambda parts: 2)
dstack.__doc__ = "The tensors behind each other: along dimension 2."
column_stack = joined("column_stack", column, lambda parts: 1)
column_stack.__doc__ = "The tensors side by side, vectors as columns."
for _f in (hstack, vstack, dstack, column_stack):
    public()(_f)
public(name="row_stack")(vstack)


@public(method=True)
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`split` whose parts may be written to: copies here."""
    return tuple([x.clone() for x in split(input, split_size, dim)])


@public(method=True)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """`chunk` whose parts may be written to: copies here."""
    return tuple([x.clone() for x in chunk(input, chunks, dim)])


@public(method=True)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """`split_with_sizes` whose parts may be written to: copies here."""
    return tuple([x.clone() for x in split_with_sizes(input, tuple(split_sizes), dim)])
