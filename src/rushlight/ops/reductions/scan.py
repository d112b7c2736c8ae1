"""Running reductions: the sum, product, ... of everything up to each position along one dimension."""

from __future__ import annotations

from typing import Any

from rushlight._backends.meta import Meta
from rushlight.core import dtypes
from rushlight.dispatch.registry import Array, DType, by_elements, op
from rushlight.dispatch.transforms import somewhere
from rushlight.ops.reductions.extremes import real_input
from rushlight.ops.reductions.reduce import axis, has_zero

Tensor = Any  # annotation only


@op(inplace=True)
def cumsum(xp, input: Array, dim: int, *, dtype: DType | None = None):
    """The sum of the elements up to each position along `dim`. Integers and bool give int64.

    Floats accumulate in float64 (float16 and bfloat16 in float32), as PyTorch's do on a CPU.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2, 3]).cumsum(0)
    tensor([1, 3, 6])
    """
    return xp.cumulative(input, axis(dim, input.ndim, "cumsum"), xp.add, dtype and dtype.np)


def from_the_end(g: Tensor, dim: int) -> Tensor:
    """The sum of the elements from each position on."""
    return g if not g.ndim or g.shape[dim] <= 1 else g.flip(dim).cumsum(dim).flip(dim)


cumsum.grad(input=lambda g, dim, input_dtype: from_the_end(g, dim).to(input_dtype))


@op(inplace=True)
def cumprod(xp, input: Array, dim: int, *, dtype: DType | None = None):
    """The product of the elements up to each position along `dim`. Integers and bool give int64.

    Floats accumulate in float64 (float16 and bfloat16 in float32), as PyTorch's do on a CPU.

    >>> import rushlight as torch
    >>> torch.tensor([2, 3, 4]).cumprod(0)
    tensor([ 2,  6, 24])
    """
    return xp.cumulative(input, axis(dim, input.ndim, "cumprod"), xp.multiply, dtype and dtype.np)


@by_elements
def cumprod_backward(g: Tensor, input: Tensor, result: Tensor, dim: int, dtype: Any) -> Tensor:
    """Without zeros: the sum from each position on of g * result, divided by input.

    With zeros, quadratic: row k of a matrix of running products has its element k replaced by 1.
    """
    if not input.ndim or input.shape[dim] <= 1:
        return g.to(input.dtype)
    x = input if dtype is None else input.to(dtype)
    if x.is_complex():
        x, result = x.conj_physical(), result.conj_physical()
    if not has_zero(x):
        return (from_the_end(g * result, dim) / x).to(input.dtype)
    from rushlight import eye

    dim %= x.ndim
    n = x.shape[dim]
    here = eye(n, dtype=dtypes.bool_, device=x.device)  # [k, j] over a new dimension before `dim`
    here = here.reshape(n, n, *(1,) * (x.ndim - dim - 1))
    rows = x.unsqueeze(dim).masked_fill(here, 1).cumprod(dim + 1)
    later = here.cumsum(1) != 0
    return (rows * later * g.unsqueeze(dim)).sum(dim + 1).to(input.dtype)


cumprod.grad(input=cumprod_backward)


def to_seen(g: Tensor, input_shape: tuple, indices: Tensor, dim: int) -> Tensor:
    return g.new_zeros(input_shape).scatter_add(dim, indices, g) if input_shape else g


def seen_on_arrays(xp: Any, g: Any, input_shape: tuple, indices: Any, dim: int) -> Any:
    """`to_seen`, without a copy of the zeros."""
    if not input_shape:
        return NotImplemented
    return xp.gather_gradient(input_shape, indices, dim % len(input_shape), g)


def declare_extreme(name: str, extreme: str, example: str) -> None:
    meaning = f"""(values, indices): the {extreme} up to each position along `dim`, and where it last was.

    >>> import rushlight as torch
    >>> {example}
    """

    @op(name=name, doc=meaning, outputs=("values", "indices"))
    def declared(xp, input: Array, dim: int):
        if input.ndim:
            real_input(f"{name}_cpu", input)
        return xp.cumulative_extreme(input, axis(dim, input.ndim, name), getattr(xp, extreme))

    declared.grad(input=to_seen, kernel=seen_on_arrays)


declare_extreme(
    "cummax", "maximum", "torch.tensor([1, 3, 2]).cummax(0).values\n    tensor([1, 3, 3])"
)
declare_extreme(
    "cummin", "minimum", "torch.tensor([2, 3, 1]).cummin(0).indices\n    tensor([0, 0, 2])"
)


@op()
def logcumsumexp(xp, input: Array, dim: int):
    """The logarithm of the sum of e**input up to each position along `dim`, without overflow.

    >>> import rushlight as torch
    >>> torch.tensor([1000.0, 1000.0]).logcumsumexp(0)
    tensor([1000.0000, 1000.6932])
    """
    if input.dtype.kind in "iub":
        raise NotImplementedError(
            f"\"logcumsumexp_out_cpu\" not implemented for '{dtypes.OF[input.dtype].scalar_name}'"
        )
    return xp.logcumsumexp(input, axis(dim, input.ndim, "logcumsumexp"))


def logcumsumexp_backward(g: Tensor, input: Tensor, result: Tensor, dim: int) -> Tensor:
    """The sum from each position on of g * exp(input - result), kept in logarithms."""
    if not input.ndim or not input.shape[dim]:
        return g

    def part(log_g: Tensor) -> Tensor:
        return ((log_g - result).flip(dim).logcumsumexp(dim).flip(dim) + input).exp()

    if input.is_complex():
        return part(g.conj_physical().log()).conj_physical()
    from rushlight import finfo

    nothing = finfo(g.dtype).min  # not -inf: second derivatives take differences of these
    up = part(g.masked_fill(g <= 0, 1).log().masked_fill(g <= 0, nothing))
    down = part((-g).masked_fill(g >= 0, 1).log().masked_fill(g >= 0, nothing))
    return up - down


logcumsumexp.grad(input=logcumsumexp_backward)


# -- segments --------------------------------------------------------------------------------------

NAMES = {
    "sum": "sum",
    "mean": "mean",
    "max": "max",
    "min": "min",
    "prod": "prod",
    "amax": "max",
    "amin": "min",
}


@op(method=False, out=False)
def segment_reduce(
    xp, data: Array, reduce: str, *, lengths: Array | None = None, indices: Any = None,
    offsets: Array | None = None, axis: int = 0, unsafe: bool = False, initial: float | None = None,
):  # fmt: skip
    """The sum, mean, max, min or prod of consecutive segments of `data` along `axis`.

    `lengths`: how long each segment is, `offsets`: where each starts, and where the last one ends;
    both have the shape of `data` up to `axis`, and the segments as last dimension. `initial` takes
    part in every segment.

    >>> import rushlight as torch
    >>> torch.segment_reduce(torch.tensor([1.0, 2.0, 3.0]), "sum", lengths=torch.tensor([1, 2]))
    tensor([1., 5.])
    """
    if reduce not in NAMES:
        raise RuntimeError(
            f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}"
        )
    axis %= data.ndim
    return xp.segment_reduce(
        data, NAMES[reduce], bounds(xp, lengths, offsets, data.shape[axis], unsafe), axis, initial
    )


segment_reduce.alias("_segment_reduce")  # libraries for graphs call it so


def bounds(xp: Any, lengths: Any, offsets: Any, n: int, unsafe: bool) -> Any:
    """Where the segments start, and where the last one ends, along the last dimension."""
    if offsets is not None:
        return offsets
    if lengths is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if not unsafe and not isinstance(lengths, Meta):
        if (lengths < 0).any():
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        if (lengths.sum(-1) != n).any():
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                f"data.size(lengths.dim()-1) when !unsafe: they sum to {lengths.sum(-1)}, the size is {n}"
            )
    return xp.segment_offsets(lengths)


@op(where="_all", name="segment_table", outputs="list", out=False)
def segment_table(xp, lengths: Array | None, offsets: Array | None, shape: tuple, axis: int):
    """(the segment of each element of `shape` along `axis`, -1 for none; how long that segment is)."""
    return xp.segment_ids(bounds(xp, lengths, offsets, 0, True), shape, axis)


def segment_backward(
    g: Tensor, data: Tensor, result: Tensor, reduce: str, lengths: Any, offsets: Any, axis: int,
    initial: float | None,
) -> Tensor:  # fmt: skip
    """The gradient of `segment_reduce` by its data."""
    kind = NAMES[reduce]
    axis %= data.ndim
    segment, count = segment_table(lengths, offsets, tuple(data.shape), axis)
    inside, where = segment >= 0, segment.clamp(min=0)

    def each(t: Tensor) -> Tensor:
        """The value of its segment for each element."""
        return t.gather(axis, where) * inside

    if kind == "sum":
        return each(g)
    if kind == "mean":
        return each(g) / count.to(g.dtype)

    def total(t: Tensor) -> Tensor:
        """The sums of segments, for each segment."""
        return result.new_zeros(result.shape).scatter_add(axis, where, t.to(result.dtype))

    if kind == "prod":
        zero, nan = data == 0, data.isnan()
        if not somewhere(zero | nan):
            return each(g * result) / data
        usual = data.masked_fill(zero | nan, 1)
        bounds_of_segments = {"lengths": lengths, "offsets": offsets, "axis": axis}
        others = each(
            segment_reduce(usual, reduce, unsafe=True, initial=initial, **bounds_of_segments)
        )
        zeros, nans = each(total(zero & inside)) - zero.int(), each(total(nan & inside)) - nan.int()
        others = (others / usual).masked_fill(zeros > 0, 0).masked_fill(nans > 0, float("nan"))
        return each(g) * others.masked_fill(~inside, 0)
    same = ((data == each(result)) | (data.isnan() & each(result.isnan()))) & inside
    ties = total(same)
    if initial is not None:
        ties = ties + (result == initial)
    return (each(g) / each(ties).clamp(min=1)) * same


segment_reduce.grad(data=segment_backward)
