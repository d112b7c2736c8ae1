"""Running reductions: the sum, product, ... of everything up to each place along one dimension."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rushlight import dtypes
from rushlight.ops.extremes import real_input
from rushlight.ops.reduce import axis, has_zero
from rushlight.ops.registry import Array, DType, composite, op

if TYPE_CHECKING:
    pass

Tensor = Any  # annotation only


@op(inplace=True)
def cumsum(xp, input: Array, dim: int, *, dtype: DType | None = None):
    """The sum of the elements up to each place along `dim`. Integers and bool give int64.

    Floats accumulate in float64 (float16 and bfloat16 in float32), as PyTorch's do on a CPU.

    >>> import rushlight as torch
    >>> torch.tensor([1, 2, 3]).cumsum(0)
    tensor([1, 3, 6])
    """
    return xp.running(input, axis(dim, input.ndim, "cumsum"), xp.add, dtype and dtype.np)


def from_the_end(g: Tensor, dim: int) -> Tensor:
    """The sum of the elements from each place on."""
    return g if not g.ndim or g.shape[dim] <= 1 else g.flip(dim).cumsum(dim).flip(dim)


cumsum.grad(input=lambda g, dim, input_dtype: from_the_end(g, dim).to(input_dtype))


@op(inplace=True)
def cumprod(xp, input: Array, dim: int, *, dtype: DType | None = None):
    """The product of the elements up to each place along `dim`. Integers and bool give int64.

    Floats accumulate in float64 (float16 and bfloat16 in float32), as PyTorch's do on a CPU.

    >>> import rushlight as torch
    >>> torch.tensor([2, 3, 4]).cumprod(0)
    tensor([ 2,  6, 24])
    """
    return xp.running(input, axis(dim, input.ndim, "cumprod"), xp.multiply, dtype and dtype.np)


def cumprod_backward(g: Tensor, input: Tensor, result: Tensor, dim: int, dtype: Any) -> Tensor:
    """Without zeros: the sum from each place on of g * result, divided by input.

    With zeros, quadratic: row k of a matrix of running products has its element k replaced by 1.
    """
    if not input.ndim or input.shape[dim] <= 1:
        return g.to(input.dtype)
    x = input if dtype is None else input.to(dtype)
    if x.is_complex():
        x, result = x.conj(), result.conj()
    if not has_zero(x):
        return (from_the_end(g * result, dim) / x).to(input.dtype)
    from rushlight import eye, tensor

    dim %= x.ndim
    n = x.shape[dim]
    here = eye(n, dtype=tensor(True).dtype)  # [k, j] over a new dimension before `dim`
    here = here.reshape(n, n, *(1,) * (x.ndim - dim - 1))
    rows = x.unsqueeze(dim).masked_fill(here, 1).cumprod(dim + 1)
    later = here.cumsum(1) != 0
    return (rows * later * g.unsqueeze(dim)).sum(dim + 1).to(input.dtype)


cumprod.grad(input=cumprod_backward)


@op(outputs=("values", "indices"))
def cummax(xp, input: Array, dim: int):
    """(values, indices): the maximum up to each place along `dim`, and where it last was.

    >>> import rushlight as torch
    >>> torch.tensor([1, 3, 2]).cummax(0).values
    tensor([1, 3, 3])
    """
    if input.ndim:
        real_input("cummax_cpu", input)
    return xp.running_extreme(input, axis(dim, input.ndim, "cummax"), xp.maximum)


@op(outputs=("values", "indices"))
def cummin(xp, input: Array, dim: int):
    """(values, indices): the minimum up to each place along `dim`, and where it last was.

    >>> import rushlight as torch
    >>> torch.tensor([2, 3, 1]).cummin(0).indices
    tensor([0, 0, 2])
    """
    if input.ndim:
        real_input("cummin_cpu", input)
    return xp.running_extreme(input, axis(dim, input.ndim, "cummin"), xp.minimum)


def to_seen(g: Tensor, input_shape: tuple, indices: Tensor, dim: int) -> Tensor:
    return g.new_zeros(input_shape).scatter_add(dim, indices, g) if input_shape else g


cummax.grad(input=to_seen)
cummin.grad(input=to_seen)


@op()
def logcumsumexp(xp, input: Array, dim: int):
    """The logarithm of the sum of e**input up to each place along `dim`, without overflow.

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
    """The sum from each place on of g * exp(input - result), kept in logarithms."""
    if not input.ndim or not input.shape[dim]:
        return g

    def part(log_g: Tensor) -> Tensor:
        return ((log_g - result).flip(dim).logcumsumexp(dim).flip(dim) + input).exp()

    if input.is_complex():
        return part(g.conj().log()).conj()
    from rushlight import finfo

    nothing = finfo(g.dtype).min  # not -inf: second derivatives take differences of these
    up = part(g.masked_fill(g <= 0, 1).log().masked_fill(g <= 0, nothing))
    down = part((-g).masked_fill(g >= 0, 1).log().masked_fill(g >= 0, nothing))
    return up - down


logcumsumexp.grad(input=logcumsumexp_backward)


# -- differences and areas -------------------------------------------------------------------------


@composite
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The differences of neighbours along `dim`, `n` times over. Of bool: whether they differ.

    `prepend` and `append` are joined to the input first.

    >>> import rushlight as torch
    >>> torch.tensor([1, 4, 9]).diff()
    tensor([3, 5])
    """
    from rushlight import cat, geometry

    if not input.ndim:
        raise RuntimeError("diff expects input to be at least one-dimensional")
    dim = geometry.wrap_dim(dim, input.ndim)
    if n < 0:
        raise RuntimeError(f"order must be non-negative but got {n}")
    for extra in (prepend, append):
        if extra is not None and extra.ndim != input.ndim:
            raise RuntimeError(
                "diff expects prepend or append to be the same dimension as input, got shapes "
                f"{list(extra.shape)} and {list(input.shape)}"
            )
    if prepend is not None or append is not None:
        input = cat([t for t in (prepend, input, append) if t is not None], dim)
    if not n:
        return input.clone()
    for _ in range(min(n, input.shape[dim])):
        size = input.shape[dim]
        if not size:
            break
        after, before = input.narrow(dim, 1, size - 1), input.narrow(dim, 0, size - 1)
        input = after.logical_xor(before) if input._array.dtype.kind == "b" else after - before
    return input


def widths(name: str, y: Tensor, x: Tensor, dim: int) -> Tensor:
    """The distances of the sample points, along `dim` of `y`."""
    if x._array.dtype.kind == "b":
        raise RuntimeError(f"{name}: received a bool input for `x`, but bool is not supported")
    n = y.shape[dim]
    if x.ndim == 1:
        if x.shape[0] != n:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point: {x.shape[0]} for {n}"
            )
        return x.diff().reshape(-1, *(1,) * (y.ndim - dim % y.ndim - 1))
    if x.ndim < y.ndim:
        x = x.reshape((1,) * (y.ndim - x.ndim) + tuple(x.shape))
    return x.narrow(dim, 1, max(x.shape[dim] - 1, 0)) - x.narrow(dim, 0, max(x.shape[dim] - 1, 0))


def sides(y: Tensor, dim: int) -> Tensor:
    """The sums of each two neighbours along `dim`."""
    n = y.shape[dim]
    return y.narrow(dim, 0, n - 1) + y.narrow(dim, 1, n - 1) if n else y


def samples(name: str, y: Tensor, dim: int) -> int:
    """`dim` counted from the front; RuntimeError for bool."""
    from rushlight import geometry

    if y._array.dtype.kind == "b":
        raise RuntimeError(f"{name}: received a bool input for `y`, but bool is not supported")
    return geometry.wrap_dim(dim, y.ndim, wrap_scalar=False)


def points(x: Any, dx: Any) -> tuple[Any, Any]:
    """(x, dx): the second positional argument of `trapezoid` may be either."""
    return (x, 1 if dx is None else dx) if x is None or hasattr(x, "_array") else (None, x)


@composite(method=False, out=False)
def trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The integral of samples `y` along `dim` by the trapezoidal rule.

    The sample points are `x` (one value each), or `dx` apart (1 unless given).

    >>> import rushlight as torch
    >>> torch.trapezoid(torch.tensor([1.0, 3.0, 5.0]))
    tensor(6.)
    """
    x, dx = points(x, dx)
    dim = samples("trapezoid", y, dim)
    if not y.shape[dim]:
        return y.new_zeros(y.shape[:dim] + y.shape[dim + 1 :])
    if x is not None:
        return (sides(y, dim) * widths("trapezoid", y, x, dim)).sum(dim) / 2.0
    return (y.sum(dim) - (y.select(dim, 0) + y.select(dim, -1)) * 0.5) * dx


@composite(method=False, out=False)
def trapz(y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1) -> Tensor:
    """Another name of `trapezoid`."""
    return trapezoid(y, x, dx=dx, dim=dim)


@composite(method=False, out=False)
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | None = None, dim: int = -1
) -> Tensor:
    """The integral up to each sample point but the first; see `trapezoid`.

    >>> import rushlight as torch
    >>> torch.cumulative_trapezoid(torch.tensor([1.0, 3.0, 5.0]))
    tensor([2., 6.])
    """
    x, dx = points(x, dx)
    dim = samples("cumulative_trapezoid", y, dim)
    if x is not None:
        return (sides(y, dim) * widths("cumulative_trapezoid", y, x, dim)).cumsum(dim) / 2.0
    return (sides(y, dim) * (dx / 2.0)).cumsum(dim)


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
    return xp.segments(
        data, NAMES[reduce], bounds(xp, lengths, offsets, data.shape[axis], unsafe), axis, initial
    )


def bounds(xp: Any, lengths: Any, offsets: Any, n: int, unsafe: bool) -> Any:
    """Where the segments start, and where the last one ends, along the last dimension."""
    if offsets is not None:
        return offsets
    if lengths is None:
        raise RuntimeError("segment_reduce(): Either lengths or offsets must be defined.")
    if not unsafe:
        if (lengths < 0).any():
            raise RuntimeError("segment_reduce(): lengths contains negative value!")
        if (lengths.sum(-1) != n).any():
            raise RuntimeError(
                "segment_reduce(): Expected all rows of lengths along axis to sum to "
                f"data.size(lengths.dim()-1) when !unsafe: they sum to {lengths.sum(-1)}, the size is {n}"
            )
    return xp.ends_of(lengths)


@op(where="_all", name="segment_table", outputs="list", out=False)
def segment_table(xp, lengths: Array | None, offsets: Array | None, shape: tuple, axis: int):
    """(the segment of each element of `shape` along `axis`, -1 for none; how long that segment is)."""
    return xp.segment_of(bounds(xp, lengths, offsets, 0, True), shape, axis)


def segment_backward(
    g: Tensor, data: Tensor, result: Tensor, reduce: str, lengths: Any, offsets: Any, axis: int,
    initial: float | None,
) -> Tensor:  # fmt: skip
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
    if kind == "prod":
        return each(g * result) / data
    same = (data == each(result)) & inside
    ties = result.new_zeros(result.shape).scatter_add(axis, where, same.to(result.dtype))
    if initial is not None:
        ties = ties + (result == initial)
    return (each(g) / each(ties).clamp(min=1)) * same


segment_reduce.grad(data=segment_backward)
