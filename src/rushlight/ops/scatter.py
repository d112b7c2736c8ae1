"""Writing at indices: `scatter`, `index_add`, `index_copy`, `put_`, `masked_scatter`...

Each operator is a function `write_...(xp, array, ...)` that overwrites a part of an array: the
out-of-place form runs it on a copy, the in-place form on the tensor's own memory. All checks come
before the first write.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from rushlight import dtypes, geometry
from rushlight.ops import calls, overrides
from rushlight.ops.advanced import write_part
from rushlight.ops.gather import check_along, check_mask, fill_number, index_dtype
from rushlight.ops.inplace import inplace
from rushlight.ops.registry import OPS, Array, Op, composite, op, public
from rushlight.tensor import Tensor

if TYPE_CHECKING:
    from collections.abc import Callable


def in_place(operator: Op, write: Callable, name: str | None = None) -> Op:
    """Declare the method `name_`, which runs `write` on the memory of the tensor."""
    label = (name or operator.name) + "_"

    def method(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        values, _ = calls.bind(operator, (self, *args), kwargs)
        got = overrides.dispatch(getattr(Tensor, label), operator, values, None)
        if got is not overrides.NOTHING:
            return got
        return written(operator, write, values, label)

    method.__name__ = method.__qualname__ = label
    method.__doc__ = f"In-place version of `{label[:-1]}`."
    public("Tensor")(method)
    return operator


def written(operator: Op, write: Callable, values: list, label: str) -> Tensor:
    from rushlight.backends import numpy as xp

    named = dict(zip(operator.params, values, strict=True))
    t = values[0]
    arrays = []
    for p, v in list(named.items())[1:]:
        if p in operator.inputs:
            if not isinstance(v, Tensor):
                raise calls.not_a_tensor(operator, p, v)
            v = v._array
            if v.size and np.may_share_memory(v, t._array):
                v = v.copy()
        arrays.append(v)
    return write_part(operator, t, named, lambda a: write(xp, a, *arrays), label)


def same_dtype(name: str, a: np.ndarray, b: np.ndarray, what: str = "src") -> None:
    if a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}(): Expected self.dtype to be equal to {what}.dtype, got "
            f"{dtypes.OF[a.dtype].name} and {dtypes.OF[b.dtype].name}"
        )


def as_vector(x: np.ndarray) -> np.ndarray:
    return x if x.ndim else x.reshape(1)


# -- scatter: one index per element ----------------------------------------------------------------


def check_scatter(name: str, a: Any, dim: int, index: Any, src: Any = None) -> int:
    """The dimension, not negative; RuntimeError or IndexError unless all fits."""
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
    return d


def cropped(src: Any, index: Any) -> Any:
    """The part of `src` that has an index."""
    s, i = as_vector(src), as_vector(index)
    return s if s.shape == i.shape else s[tuple(slice(n) for n in i.shape)]


def write_scatter(xp, a: Any, dim: int, index: Any, src: Any) -> None:
    d = check_scatter("scatter", a, dim, index, src)
    if index.size:
        i = as_vector(index)
        as_vector(a)[xp.along(a.shape, i, d)] = cropped(src, index)


@op(where="aten", node="ScatterBackward0", name="scatter_src", method=False)
def scatter_src(xp, input: Array, dim: int, index: Array, src: Array):
    r = input.copy(order="K")
    write_scatter(xp, r, dim, index, src)
    return r


def read_back(g: Tensor, dim: int, index: Tensor, src_shape: tuple) -> Tensor:
    """The gradient of what a scatter wrote: read at the index; zeros where `src` was not used."""
    part = g.gather(dim, index)
    if part._array.shape == src_shape:
        return part
    from rushlight.ops.indexing import place

    return place(part, src_shape, tuple(slice(n) for n in part._array.shape))


scatter_src.grad(
    input=lambda g, dim, index: scatter_value(g, dim, index, 0), src=read_back
)


def write_scatter_value(xp, a: Any, dim: int, index: Any, value: Any) -> None:
    d = check_scatter("scatter", a, dim, index)
    v = fill_number(value, a)
    if index.size:
        as_vector(a)[xp.along(a.shape, as_vector(index), d)] = v


@op(where="aten", node="ScatterBackward1", name="scatter_value", method=False)
def scatter_value(xp, input: Array, dim: int, index: Array, value: Any):
    r = input.copy(order="K")
    write_scatter_value(xp, r, dim, index, value)
    return r


scatter_value.grad(input=lambda g, dim, index: scatter_value(g, dim, index, 0))


def write_scatter_combine(xp, a: Any, dim: int, index: Any, src: Any, reduce: str) -> None:
    if reduce not in ("add", "multiply"):
        raise RuntimeError("reduce argument must be either add or multiply.")
    if isinstance(src, np.ndarray):
        d = check_scatter("scatter", a, dim, index, src)
        values = cropped(src, index)
    else:
        d = check_scatter("scatter", a, dim, index)
        values = np.broadcast_to(fill_number(src, a), as_vector(index).shape)
    if index.size:
        key = xp.along(a.shape, as_vector(index), d)
        xp.reduce_at(as_vector(a), key, values, "sum" if reduce == "add" else "prod", True)


@op(where="aten", name="scatter_combine", method=False)
def scatter_combine(xp, input: Array, dim: int, index: Array, src: Any, reduce: str):
    r = input.copy(order="K")
    write_scatter_combine(xp, r, dim, index, src._array if isinstance(src, Tensor) else src, reduce)
    return r


SRC, VALUE, COMBINE = OPS["aten.scatter_src"], OPS["aten.scatter_value"], OPS["aten.scatter_combine"]


def scatter_form(src: Any, value: Any, reduce: Any) -> tuple[Op, list]:
    """(operator, its last arguments) for what `scatter` was given."""
    if src is None:
        src = value
    if reduce is not None:
        return COMBINE, [src, reduce]
    if isinstance(src, Tensor):
        return SRC, [src]
    if not isinstance(src, calls.NUMBERS):
        raise TypeError(f"scatter(): argument 'src' must be Tensor or Number, not {calls.kind(src)}")
    return VALUE, [src]


@public(method=True)
def scatter(
    input: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
    out: Any = None,
) -> Tensor:
    """A copy of `input` in which `src` (a tensor or a number) stands where `index` says along `dim`.

    `result[i][index[i][j]] = src[i][j]` for dim 1. `reduce` "add" or "multiply": combine with what
    is there (no gradient; see `scatter_add`, `scatter_reduce`).

    >>> import rushlight as torch
    >>> torch.zeros(2, 3).scatter(1, torch.tensor([[2], [0]]), 1.0)
    tensor([[0., 0., 1.],
            [1., 0., 0.]])
    """
    form, last = scatter_form(src, value, reduce)
    if out is None:
        return form.function(input, dim, index, *last)
    return calls.call(form, [input, dim, index, *last, out])


@public("Tensor")
def scatter_(
    self: Tensor,
    dim: int,
    index: Tensor,
    src: Any = None,
    *,
    value: Any = None,
    reduce: str | None = None,
) -> Tensor:
    """In-place version of `scatter`."""
    form, last = scatter_form(src, value, reduce)
    values = [self, dim, index, *last]
    got = overrides.dispatch(Tensor.scatter_, form, values, None)
    if got is not overrides.NOTHING:
        return got
    if form is COMBINE:
        return inplace(form, values)
    write = write_scatter if form is SRC else write_scatter_value
    return written(form, write, values, "scatter_")


SRC.face = VALUE.face = COMBINE.face = scatter


def write_scatter_add(xp, a: Any, dim: int, index: Any, src: Any) -> None:
    d = check_scatter("scatter_add", a, dim, index, src)
    if index.size:
        i = as_vector(index)
        xp.reduce_at(as_vector(a), xp.along(a.shape, i, d), cropped(src, index), "sum", True)


@op()
def scatter_add(xp, input: Array, dim: int, index: Array, src: Array):
    """A copy of `input` with `src` added where `index` says along `dim`; places may repeat.

    >>> import rushlight as torch
    >>> torch.zeros(3).scatter_add(0, torch.tensor([0, 0, 2]), torch.ones(3))
    tensor([2., 0., 1.])
    """
    r = input.copy(order="K")
    write_scatter_add(xp, r, dim, index, src)
    return r


scatter_add.grad(input=lambda g: g, src=read_back)
in_place(scatter_add, write_scatter_add)


REDUCES = ("sum", "prod", "mean", "amax", "amin")


@op(inplace=True)
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
    d = check_scatter("scatter_reduce", input, dim, index, src)
    r = input.copy(order="C")
    if index.size:
        key = xp.along(r.shape, as_vector(index), d)
        xp.reduce_at(as_vector(r), key, cropped(src, index), reduce, include_self)
    return r


def reduce_back(
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
    shape = src.shape
    used = src
    if shape != index.shape:
        used = src[tuple(slice(n) for n in index.shape)]
    own, part = reduce_back(
        needs, g, input, used, result, reduce, include_self,
        lambda t: t.gather(dim, index),
        lambda t, s: t.scatter_add(dim, index, s),
        lambda t: t.scatter(dim, index, 0),
        lambda t, s: t.scatter_reduce(dim, index, s, reduce, include_self=include_self),
    )  # fmt: skip
    if part is not None and shape != index.shape:
        from rushlight.ops.indexing import place

        part = place(part, tuple(shape), tuple(slice(n) for n in index.shape))
    return own, None, part


scatter_reduce.grad_all(scatter_reduce_back)


# -- index_...: whole slices of a dimension --------------------------------------------------------


def check_slices(
    name: str, a: Any, dim: int, index: Any, source: Any = None
) -> tuple[int, np.ndarray]:
    """(dimension, index as a vector); errors unless `source` has a slice for each index."""
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
        count = source.shape[d] if source.ndim else 1
        if i.size != count:
            raise IndexError(
                f"{name}(): Number of indices ({i.size}) should be equal to source.size(dim) ({count})"
            )
        s, t = list(source.shape), list(a.shape)
        if s and t:
            del s[d : d + 1], t[d]
            if s != t:
                raise RuntimeError(
                    f"{name}(): self and source must have the same shape apart from dimension {d}: "
                    f"{list(a.shape)} and {list(source.shape)}"
                )
    from rushlight.backends import numpy as xp

    size = a.shape[d] if a.ndim else 1
    low = -size if name == "index_fill" else 0
    bad = xp.out_of_range(i - low if low else i, size - low if low else size)
    if bad is not None:
        raise IndexError(
            f"index {bad + low} is out of bounds for dimension {d} with size {size}: index out of range "
            f"in self ({name})"
        )
    return d, i


def slices(a: Any, d: int, index: Any) -> tuple:
    return (*(slice(None),) * d, index)


def write_index_add(xp, a: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> None:
    d, i = check_slices("index_add", a, dim, index, source)
    if alpha != 1:
        source = (source * fill_number(alpha, a)).astype(a.dtype)
    v = as_vector(a)
    xp.index_add_at(v, slices(v, d, i), source.reshape(source.shape or (1,)))


@op()
def index_add(xp, input: Array, dim: int, index: Array, source: Array, *, alpha: Any = 1):
    """A copy of `input` with `alpha * source` added to the slices that `index` names.

    >>> import rushlight as torch
    >>> torch.zeros(3).index_add(0, torch.tensor([0, 0, 2]), torch.ones(3))
    tensor([2., 0., 1.])
    """
    r = input.copy(order="K")
    write_index_add(xp, r, dim, index, source, alpha)
    return r


def slices_of(g: Tensor, dim: int, index: Tensor, source_shape: tuple) -> Tensor:
    part = g.index_select(dim, index)
    return part if part._array.shape == source_shape else part.reshape(source_shape)


index_add.grad(
    input=lambda g: g,
    source=lambda g, dim, index, source_shape, alpha: slices_of(g, dim, index, source_shape) * alpha,
)
in_place(index_add, write_index_add)


def write_index_copy(xp, a: Any, dim: int, index: Any, source: Any) -> None:
    d, i = check_slices("index_copy", a, dim, index, source)
    v = as_vector(a)
    v[slices(v, d, i)] = source.reshape(source.shape or (1,))


@op()
def index_copy(xp, input: Array, dim: int, index: Array, source: Array):
    """A copy of `input` with the slices that `index` names replaced by those of `source`."""
    r = input.copy(order="K")
    write_index_copy(xp, r, dim, index, source)
    return r


index_copy.grad(
    input=lambda g, dim, index: g.index_fill(dim, index, 0),
    source=lambda g, dim, index, source_shape: slices_of(g, dim, index, source_shape),
)
in_place(index_copy, write_index_copy)


def write_index_fill(xp, a: Any, dim: int, index: Any, value: Any) -> None:
    d, i = check_slices("index_fill", a, dim, index)
    if isinstance(value, np.ndarray):
        if value.ndim:
            raise RuntimeError(
                "index_fill_ only supports a 0-dimensional value tensor, but got tensor with "
                f"{value.ndim} dimension(s)."
            )
        value = value.astype(a.dtype)
    else:
        value = fill_number(value, a)
    v = as_vector(a)
    v[slices(v, d, i)] = value


@op(where="aten", name="index_fill_value", node="IndexFillBackward0", method=False)
def fill_slices(xp, input: Array, dim: int, index: Array, value: Any):
    r = input.copy(order="K")
    write_index_fill(xp, r, dim, index, value)
    return r


@op(where="aten", name="index_fill_tensor", node="IndexFillBackward1", method=False)
def fill_slices_tensor(xp, input: Array, dim: int, index: Array, value: Array):
    r = input.copy(order="K")
    write_index_fill(xp, r, dim, index, value)
    return r


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
def index_fill_(self: Tensor, dim: int, index: Tensor, value: Any) -> Tensor:
    """In-place version of `index_fill`."""
    form = FILL_TENSOR if isinstance(value, Tensor) else FILL
    got = overrides.dispatch(Tensor.index_fill_, form, [self, dim, index, value], None)
    if got is not overrides.NOTHING:
        return got
    return written(form, write_index_fill, [self, dim, index, value], "index_fill_")


@op(inplace=True)
def index_reduce(
    xp, input: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True
):
    """`source` reduced into the slices of a copy of `input` that `index` names.

    `reduce`: "prod", "mean", "amax" or "amin"; `include_self` as for `scatter_reduce`.
    """
    if reduce not in REDUCES[1:]:
        raise RuntimeError(
            f"index_reduce(): Expected reduce to be one of prod, mean, amax or amin but got {reduce}."
        )
    d, i = check_slices("index_reduce", input, dim, index, source)
    r = input.copy(order="C")
    v, s = as_vector(r), as_vector(source)
    wide = xp.broadcast_to(i.reshape((1,) * d + (-1,) + (1,) * (s.ndim - d - 1)), s.shape)
    if s.size:
        xp.reduce_at(v, xp.along(v.shape, wide, d), s, reduce, include_self)
    return r


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
    own, part = reduce_back(
        needs, g, input, source, result, reduce, include_self,
        lambda t: slices_of(t, dim, index, source._array.shape),
        lambda t, s: t.index_add(dim, index, s),
        lambda t: t.index_fill(dim, index, 0),
        lambda t, s: t.index_reduce(dim, index, s, reduce, include_self=include_self),
    )  # fmt: skip
    return own, None, part


index_reduce.grad_all(index_reduce_back)


# -- positions in the flattened tensor -------------------------------------------------------------


def write_put(xp, a: Any, index: Any, source: Any, accumulate: bool = False) -> None:
    index_dtype("put_", index)
    if source.dtype != a.dtype:
        raise RuntimeError(
            f"put_(): self and source expected to have the same dtype, but got self.dtype = "
            f"{dtypes.OF[a.dtype].scalar_name} and source.dtype = {dtypes.OF[source.dtype].scalar_name}"
        )
    if index.size != source.size:
        raise RuntimeError(
            "put_(): Expected source and index to have the same number of elements, but got "
            f"source.numel() = {source.size}, index.numel() = {index.size}"
        )
    i = index.reshape(-1)
    if i.size and not a.size:
        raise IndexError("put_(): Expected self to be non-empty")
    if (bad := xp.out_of_range(i + a.size, 2 * a.size)) is not None:
        raise IndexError(
            f"out of range: tried to access index {bad - a.size} on a tensor of {a.size} elements."
        )
    flat = a.reshape(-1)
    if accumulate:
        xp.index_add_at(flat, (i,), source.reshape(-1))
    else:
        flat[i] = source.reshape(-1)
    if not np.may_share_memory(flat, a):
        a[...] = flat.reshape(a.shape)


@op()
def put(xp, input: Array, index: Array, source: Array, accumulate: bool = False):
    """A copy of `input` with `source` at the places `index` of the flattened tensor.

    >>> import rushlight as torch
    >>> torch.zeros(2, 2).put(torch.tensor([0, 3]), torch.tensor([1.0, 2.0]))
    tensor([[1., 0.],
            [0., 2.]])
    """
    r = input.copy(order="K")
    write_put(xp, r, index, source, accumulate)
    return r


put.grad(
    input=lambda g, index, accumulate: (
        g if accumulate else g.put(index, g.new_zeros(index.shape), False)
    ),
    source=lambda g, index, source_shape: g.take(index).reshape(source_shape),
)
in_place(put, write_put)


# -- masks -----------------------------------------------------------------------------------------


@op(inplace=True)
def masked_scatter(xp, input: Array, mask: Array, source: Array):
    """A copy of `input` where the places with `mask` True hold the elements of `source`, in order.

    >>> import rushlight as torch
    >>> m = torch.tensor([True, False, True])
    >>> torch.zeros(3).masked_scatter(m, torch.tensor([1.0, 2.0]))
    tensor([1., 0., 2.])
    """
    mask = check_mask("masked_scatter", mask)
    same_dtype("masked_scatter", input, source, "source")
    shape = geometry.broadcast_shapes(input.shape, mask.shape)
    r = xp.broadcast_to(input, shape).copy(order="C")
    mask = xp.broadcast_to(mask, shape)
    n = int(mask.sum())
    if n > source.size:
        raise RuntimeError(
            f"Number of elements of source < number of ones in mask: {source.size} < {n}"
        )
    r[mask] = source.reshape(-1)[:n]
    return r


def masked_scatter_source_back(g: Tensor, mask: Tensor, source_shape: tuple) -> Tensor:
    taken = g.masked_select(mask)
    n = geometry.numel(source_shape)
    missing = n - taken._array.size
    if missing:
        from rushlight.ops.joining import cat

        taken = cat((taken, g.new_zeros((missing,))))
    return taken.reshape(source_shape)


def masked_scatter_input_back(g: Tensor, mask: Tensor, input_shape: tuple) -> Tensor:
    return g.masked_fill(mask, 0).sum_to_size(input_shape)


masked_scatter.grad(input=masked_scatter_input_back, source=masked_scatter_source_back)

