"""Writing whole slices, or at positions of the flattened tensor: `index_add`, `index_copy`, `put`..."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight._backends import devices
from rushlight.core import dtypes, geometry, settings
from rushlight.core.dtype_sets import COMPLEX, I64, REDUCED
from rushlight.core.tensor import Tensor
from rushlight.dispatch.registry import OPS, Array, by_elements, composite, op, public
from rushlight.dispatch.transforms import Lifted
from rushlight.ops.indexing.gather import check_mask, fill_number, index_dtype
from rushlight.ops.indexing.scatter import (
    REDUCES,
    as_vector,
    same_dtype,
    scatter_reduce_gradient,
)

# -- index_...: whole slices of a dimension --------------------------------------------------------


def check_slices(
    name: str, a: Any, dim: int, index: Any, source: Any = None, in_range: bool = True
) -> tuple[int, np.ndarray]:
    """(dimension, index as a vector); errors unless `source` has a slice for each index; `in_range`:
    and unless the indices are."""
    if not in_range and dim.__class__ is int and index.dtype is I64 and index.ndim == 1:
        shape = a.shape
        d = dim + len(shape) if dim < 0 else dim
        if 0 <= d < len(shape):  # the commonest arguments
            if source is None:
                return d, index
            if source.dtype is a.dtype and source.shape == (
                *shape[:d],
                index.size,
                *shape[d + 1 :],
            ):
                return d, index
    d = geometry.wrap_dim(dim, a.ndim)
    if index.ndim > 1:
        raise IndexError(f"{name}(): Index should have dimension 1 or 0 (got {index.ndim})")
    index_dtype(name, index)
    i = index.reshape(-1)
    if source is not None:
        if source.dtype != a.dtype:
            raise RuntimeError(
                f"{name}(): self and source expected to have the same dtype, but got (self) "
                f"{dtypes.OF[a.dtype].scalar_name} and (source) {dtypes.OF[source.dtype].scalar_name}"
            )
        check_source(name, a.shape, source.shape, d, i.size)
    if not in_range:
        return d, i
    xp = devices.of(a)
    size = a.shape[d] if a.ndim else 1
    low = -size if name == "index_fill" else 0
    bad = xp.out_of_range(i - low if low else i, size - low if low else size)
    if bad is not None:
        error = (
            RuntimeError if name == "index_add" and a.ndim > 1 else IndexError
        )  # as PyTorch has it
        raise error(
            f"index {bad + low} is out of bounds for dimension {d} with size {size}: index out of range "
            f"in self ({name})"
        )
    return d, i


def check_source(name: str, shape: tuple, source: tuple, d: int, count: int) -> None:
    """IndexError or RuntimeError, as PyTorch has it, unless `source` has a slice for each of `count` indices. A number
    is a slice of a tensor of one dimension at most, for `index_copy`; for the others it is one of a number alone."""
    copies = name == "index_copy"
    if copies and source and shape and len(source) != len(shape):
        raise IndexError(
            f"{name}(): When source and destination are not scalars, their dimensionality must match. Source "
            f"dimensionality ({len(source)}), destination dimensionality ({len(shape)})"
        )
    slices = source[d] if d < len(source) else 1
    if count != slices:
        raise (IndexError if copies else RuntimeError)(
            f"{name}(): Number of indices ({count}) should be equal to source.size(dim) ({slices})"
        )
    if shape and source:
        fits = (*source[:d], *source[d + 1 :]) == (*shape[:d], *shape[d + 1 :])
    else:
        fits = len(shape) < 2 and len(source) < 2 if copies else shape == source
    if not fits:
        raise RuntimeError(
            f"{name}(): source tensor shape must match self tensor shape, excluding the specified dimension {d}. Got "
            f"self.shape = {list(shape)} source.shape = {list(source)}: Source/destination tensor must have same slice "
            "shapes"
        )


@op(writes="C")
def index_add(xp, input: Array, dim: int, index: Array, source: Array, *, alpha: Any = 1):
    """A copy of `input` with `alpha * source` added to the slices that `index` names.

    >>> import rushlight as torch
    >>> torch.zeros(3).index_add(0, torch.tensor([0, 0, 2]), torch.ones(3))
    tensor([2., 0., 1.])
    """
    d, i = check_slices("index_add", input, dim, index, source, False)
    if alpha != 1:
        source = xp.multiply(source, fill_number(alpha, input))
    if alpha != 1 and input.dtype in REDUCED:
        done = xp.reduce_slices(as_vector(input), i, d, as_vector(source), "sum", True)
    else:
        done = xp.put_slices(as_vector(input), i, d, as_vector(source), True)
    if not done:
        check_slices("index_add", input, dim, index, source)


def slices_of(g: Tensor, dim: int, index: Tensor, source_shape: tuple) -> Tensor:
    part = g.index_select(dim, index)
    return part if part._array.shape == source_shape else part.reshape(source_shape)


index_add.grad(
    input=lambda g: g,
    source=lambda g, dim, index, source_shape, alpha: (
        slices_of(g, dim, index, source_shape) * alpha
    ),
)


@op(writes="C")
def index_copy(xp, input: Array, dim: int, index: Array, source: Array):
    """A copy of `input` with the slices that `index` names replaced by those of `source`."""
    d, i = check_slices("index_copy", input, dim, index, source, False)
    if i.dtype is not I64:
        raise RuntimeError(
            f"index_copy_(): Expected a long tensor for index, but got {dtypes.OF[i.dtype].scalar_name}"
        )
    if not xp.put_slices(as_vector(input), i, d, as_vector(source), False):
        check_slices("index_copy", input, dim, index, source)


index_copy.grad(
    input=lambda g, dim, index: g.index_fill(dim, index, 0),
    source=lambda g, dim, index, source_shape: slices_of(g, dim, index, source_shape),
)


def write_index_fill(xp, a: Any, dim: int, index: Any, value: Any) -> None:
    d, i = check_slices("index_fill", a, dim, index, in_range=False)
    if i.dtype is not I64:
        raise IndexError(
            f"index_fill_(): Expected dtype int64 for index, got {dtypes.OF[i.dtype].name}"
        )
    given = devices.is_array(value)
    if (value.dtype in COMPLEX if given else isinstance(value, complex)) and a.dtype not in COMPLEX:
        raise RuntimeError(
            "index_fill_(): Converting complex Scalar to non-complex type is not supported"
        )
    if given:
        if value.ndim:
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        value = value.astype(a.dtype)
    else:
        value = fill_number(value, a)
    v = as_vector(a)
    if not xp.put_slices(v, i, d, value, False):  # indices below 0 count from the end
        check_slices("index_fill", a, dim, index)
        xp.index_put(v, (*(slice(None),) * d, i), value)


@op(where="aten", name="index_fill_value", node="IndexFillBackward0", method=False, writes="K")
def fill_slices(xp, input: Array, dim: int, index: Array, value: Any):
    write_index_fill(xp, input, dim, index, value)


@op(where="aten", name="index_fill_tensor", node="IndexFillBackward1", method=False, writes="K")
def fill_slices_tensor(xp, input: Array, dim: int, index: Array, value: Array):
    write_index_fill(xp, input, dim, index, value)


fill_slices.grad(input=lambda g, dim, index: g.index_fill(dim, index, 0))
fill_slices_tensor.grad(
    input=lambda g, dim, index: g.index_fill(dim, index, 0),
    value=lambda g, dim, index: g.index_select(dim, index.unique()).sum(),
)
FILL, FILL_TENSOR = OPS["aten.index_fill_value"], OPS["aten.index_fill_tensor"]


@composite
def index_fill(input: Tensor, dim: int, index: Tensor, value: Any):
    """A copy of `input` with `value` (a number or a 0-d tensor) in the slices that `index` names.

    >>> import rushlight as torch
    >>> torch.zeros(2, 3).index_fill(1, torch.tensor([0, 2]), 1)
    tensor([[1., 0., 1.],
            [1., 0., 1.]])
    """
    fill = fill_slices_tensor if isinstance(value, Tensor) else fill_slices
    return fill(input, dim, index, value)


@public("Tensor")
def index_fill_(
    self: Tensor, dim: Any = None, index: Any = None, value: Any = None, *, axis: Any = None
) -> Tensor:
    """In-place version of `index_fill`."""
    if axis is not None:
        dim = axis
    if value is None or index is None or dim is None:
        raise TypeError("index_fill_() missing a required argument: dim, index and value")
    form = FILL_TENSOR if isinstance(value, Tensor) else FILL
    return form.build().inplace(self, dim, index, value)


FILL.public_function = FILL_TENSOR.public_function = index_fill


@op(writes="C")
def index_reduce(
    xp,
    input: Array,
    dim: int,
    index: Array,
    source: Array,
    reduce: str,
    *,
    include_self: bool = True,
):
    """`source` reduced into the slices of a copy of `input` that `index` names.

    `reduce`: "prod", "mean", "amax" or "amin"; `include_self` as for `scatter_reduce`.
    """
    if reduce not in REDUCES[1:]:
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    if input.dtype.kind in "bc":
        raise NotImplementedError(
            f"\"index_func_\" not implemented for '{dtypes.OF[input.dtype].scalar_name}'"
        )
    d, i = check_slices("index_reduce", input, dim, index, source, False)
    if source.size:
        if not xp.reduce_slices(as_vector(input), i, d, as_vector(source), reduce, include_self):
            check_slices("index_reduce", input, dim, index, source)


def index_reduce_back(
    needs: tuple,
    g: Tensor,
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: str,
    include_self: bool,
    result: Tensor,
) -> tuple:
    own, part = scatter_reduce_gradient(
        needs, g, input, source, result, reduce, include_self,
        lambda t: slices_of(t, dim, index, source._array.shape),
        lambda t, s: t.index_add(dim, index, s),
        lambda t: t.index_fill(dim, index, 0),
        lambda t, s: t.index_reduce(dim, index, s, reduce, include_self=include_self),
    )  # fmt: skip
    return own, None, part


index_reduce.grad_all(index_reduce_back, never=("index",))


# -- positions in the flattened tensor -------------------------------------------------------------


@op(writes="K")
def put(xp, input: Array, index: Array, source: Array, accumulate: bool = False):
    """A copy of `input` with `source` at the places `index` of the flattened tensor.

    >>> import rushlight as torch
    >>> torch.zeros(2, 2).put(torch.tensor([0, 3]), torch.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    index_dtype("put_", index)
    if source.dtype != input.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{dtypes.OF[input.dtype].scalar_name} and source.dtype = {dtypes.OF[source.dtype].scalar_name}"
        )
    if index.size != source.size:
        raise RuntimeError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    i, n = index.reshape(-1), input.size
    if i.size and not n:
        raise IndexError("put_(): Expected self to be non-empty")
    flat = input.reshape(-1)
    if not accumulate:
        settings.alert_not_deterministic("put_")
    write = xp.index_add_at if accumulate else xp.index_put
    try:
        write(flat, (i,), source.reshape(-1))
    except IndexError:  # nothing was written
        bad = xp.out_of_range(i + n, 2 * n)
        raise IndexError(
            f"out of range: tried to access index {bad - n} on a tensor of {n} elements."
        ) from None
    if not (input.flags.c_contiguous or xp.shares_memory(flat, input)):
        input[...] = flat.reshape(input.shape)


put.grad(
    input=lambda g, index, accumulate: (
        g if accumulate else g.put(index, g.new_zeros(index.shape), False)
    ),
    source=lambda g, index, source_shape: g.take(index).reshape(source_shape),
)


# -- masks -----------------------------------------------------------------------------------------


@op(writes="B")
def masked_scatter(xp, input: Array, mask: Array, source: Array):
    """A copy of `input` where the places with `mask` True hold the elements of `source`, in order.

    >>> import rushlight as torch
    >>> m = torch.tensor([True, False, True])
    >>> torch.zeros(3).masked_scatter(m, torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    mask = check_mask("masked_scatter", mask)
    same_dtype("masked_scatter", input, source, "source")
    if input.shape != mask.shape:
        if geometry.broadcast_shapes(input.shape, mask.shape) != input.shape:
            raise RuntimeError(
                f"output with shape {list(input.shape)} doesn't match the broadcast shape of the mask "
                f"{list(mask.shape)}"
            )
        mask = xp.row_major(xp.broadcast_to(mask, input.shape))
    if not xp.masked_scatter(input, mask, source):
        raise RuntimeError(
            f"Number of elements of source < number of ones in mask: {source.size} < {int(mask.sum())}"
        )


@by_elements
def masked_scatter_source_back(g: Tensor, mask: Tensor, source_shape: tuple) -> Tensor:
    n = geometry.numel(source_shape)
    if isinstance(mask._array, Lifted):  # elements of a batch may take different numbers
        mask = mask.expand(g.shape).flatten()
        at = (mask.cumsum(0) - 1).masked_fill(~mask, n)
        return g.new_zeros(n + 1).scatter_add(0, at, g.flatten())[:n].reshape(source_shape)
    taken = g.masked_select(mask)
    missing = n - taken._array.size
    if missing:
        from rushlight.ops.layout.joining import cat

        taken = cat((taken, g.new_zeros((missing,))))
    return taken.reshape(source_shape)


masked_scatter.grad(
    input=lambda g, mask, input_shape: g.masked_fill(mask, 0).sum_to_size(input_shape),
    source=masked_scatter_source_back,
)
